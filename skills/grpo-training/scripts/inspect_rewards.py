#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "scipy",
#     "statsmodels",
#     "rich",
#     "openai",      # sample --endpoint
#     "textual",     # label
#     "matplotlib",  # report
#     "jinja2",      # report
# ]
# ///
"""The Inspection Rule as a tool: sample, score, label, report, gate.

Before a run a person reads 50 to 100 sampled completions, each judged before its reward is shown, and where the two
disagree the reward is mended. Everything lies in one folder; labels are only ever appended. `sample` writes groups of
completions, `score` runs the rewards in a process that is killed when a row takes too long, `label` shows one output at
a time, `report` writes report.html and inspection.json, `gate` says whether a person has read enough, agrees with the
reward, and whether both the reward and the sampling are still what they were.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import csv
import datetime
import hashlib
import importlib.metadata
import json
import math
import os
import pickle
import selectors
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import score_completions as sc
from score_completions import UserError

__all__ = ["expected_dead", "inspection", "random_order"]

SCHEMA_VERSION = 1
NEEDED = 50  # labels by a person in the random part: the Inspection Rule
THRESHOLD = 0.8  # lower end of the agreement's interval (judgement); 50 of 50 gives 0.93, 47 of 50 gives 0.84
MOST_UNSURE = 0.2  # share of the random part (judgement): leaving out the hard ones makes any reward look right
KINDS = ("human", "agent", "synthetic")
EPILOG = """
The folder is trusted: whoever edits labels or deletes records fools the gate, not the run. Files that a reward reads
when it runs count if `score --also` names them; the environment does not.

a whole inspection:
  inspect_rewards.py sample prompts.jsonl --config grpo.yaml --endpoint http://localhost:8000/v1 --model MODEL
  inspect_rewards.py score --reward correctness_reward
  inspect_rewards.py label --labeller ann
  inspect_rewards.py report
  inspect_rewards.py gate --config grpo.yaml
"""
EXIT_CODES = (
    "\nexit codes: 0 = ok, 1 = the gate says no, or a reward scored nothing, 2 = bad usage or input, 130 = interrupted"
)


# ---- the folder: what is derived is replaced at once, what a person made is only appended


def replace(path: Path, text: str) -> None:
    """Write a file so that a reader, or a crash, never meets half of it."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None


def as_json(value) -> str:
    """ASCII, so that whatever a model wrote (lone surrogates too) can be stored."""
    return json.dumps(value, indent=1, default=str) + "\n"


def read_json(path: Path, made_by: str) -> dict:
    if not path.is_file():
        raise UserError(f"{path}: no such file; `inspect_rewards.py {made_by}` writes it")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise UserError(f"{path}: cannot be read as JSON ({error}); run `inspect_rewards.py {made_by}` again") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: holds no JSON object; run `inspect_rewards.py {made_by}` again")
    return found


def read_lines(path: Path) -> list[dict]:
    """Complete lines of a JSONL file that is appended to; a last line that a crash cut is left out."""
    if not path.is_file():
        return []
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise UserError(f"{path}:{number}: not JSON; remove the line, and what it held is sampled again") from None
        if not isinstance(row, dict) or "id" not in row:
            raise UserError(f"{path}:{number}: no object with an id; this file is written by `sample`")
        rows.append(row)
    return rows


def append_line(path: Path, row: dict) -> None:
    """One write, so that lines of several threads stay whole; after a cut line a new one is begun."""
    with path.open("ab+") as file:
        if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
            file.truncate(file.seek(0) or path.read_bytes().rfind(b"\n") + 1)
        file.write(json.dumps(row, default=str).encode() + b"\n")


def completion_id(prompt, completion, place: int) -> str:
    """An id that a row keeps when others are added: its texts, and its place among equal ones."""
    content = json.dumps([sc.prompt_key(prompt), completion, place], sort_keys=True, default=str)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def completions_of(folder: Path) -> list[dict]:
    rows = read_lines(folder / "completions.jsonl")
    if not rows:
        raise UserError(f"{folder / 'completions.jsonl'}: no completions; `inspect_rewards.py sample` writes them")
    shape = {"id": str, "group": int, "place": int, "columns": dict}
    for number, row in enumerate(rows, 1):
        if "completion" not in row or any(not isinstance(row.get(name), kind) for name, kind in shape.items()):
            where = f"{folder / 'completions.jsonl'}:{number}"
            raise UserError(f"{where}: is no line that `sample` writes; take a new --dir")
    twice = [ident for ident, count in collections.Counter(row["id"] for row in rows).items() if count > 1]
    if twice:
        raise UserError(f"{folder / 'completions.jsonl'}: {twice[0]} is there more than once; take a new --dir")
    return rows


@contextlib.contextmanager
def alone(folder: Path):
    """One writer of a folder at a time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise UserError(f"{folder}: cannot be written to ({error.strerror})") from None
    with lock:
        with contextlib.suppress(ImportError):  # Windows: up to whoever starts two
            import fcntl

            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(f"{folder}: another sample or score is at work in it") from None
        yield


def progress(total: int, what: str):
    """A bar on stderr, if someone is looking; `advance()` moves it."""
    if not sys.stderr.isatty():
        return contextlib.nullcontext(lambda: None)
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        return contextlib.nullcontext(lambda: None)

    @contextlib.contextmanager
    def shown():
        with Progress(console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)

    return shown()


# ---- sample


def prompts_of(source: str, count: int) -> list[dict]:
    """The first `count` rows of a dataset: a file, or a hub id (read with datasets)."""
    path = Path(source)
    if path.exists() or path.suffix in (".jsonl", ".parquet"):
        rows = sc.read_rows(path)
    else:
        try:
            from datasets import load_dataset

            rows = list(load_dataset(source, split=f"train[:{count}]"))
        except ImportError:
            raise UserError(f"{source}: no such file; reading a hub id needs `pip install datasets`") from None
        except Exception as error:  # the hub fails in many ways
            raise UserError(f"{source}: no such file, and the hub did not give it ({type(error).__name__})") from None
    for number, row in enumerate(rows, 1):
        if "prompt" not in row:
            raise UserError(f'{source}: row {number} has no "prompt"; it has {", ".join(sorted(row)) or "nothing"}')
    sc.check_prompts(rows, source)
    if not rows:
        raise UserError(f"{source}: no rows")
    return rows[:count]


def from_endpoint(args):
    """A function from a prompt and a seed to one completion, by a server that speaks OpenAI's protocol."""
    try:
        import openai
    except ImportError:
        raise UserError("--endpoint needs the client: pip install openai") from None
    key = os.environ.get(args.api_key_env) or "EMPTY"
    client = openai.OpenAI(base_url=args.endpoint, api_key=key, timeout=args.timeout_s)
    settings = {name: getattr(args, name) for name in ("model", "temperature", "max_tokens", "top_p")}
    # All are said, TRL's defaults too: a server that is told nothing takes its own or the model's (llama.cpp: top_k 40,
    # min_p 0.05; vLLM: generation_config.json), and the run would not sample like that. -1 is "all tokens" everywhere.
    settings["extra_body"] = {
        "top_k": args.top_k or -1, "min_p": args.min_p or 0.0, "repetition_penalty": args.repetition_penalty,
        "repeat_penalty": args.repetition_penalty,  # llama.cpp's name; it looks back 64 tokens unless told more
    }  # fmt: skip
    if args.repetition_penalty != 1:
        settings["extra_body"]["repeat_last_n"] = 1 << 17
    if args.chat_template_kwargs:
        settings["extra_body"]["chat_template_kwargs"] = args.chat_template_kwargs

    def sample(prompt, seed):
        try:
            if isinstance(prompt, str):
                choice = client.completions.create(prompt=prompt, seed=seed, **settings).choices[0]
                return choice.text, choice.finish_reason
            choice = client.chat.completions.create(messages=prompt, seed=seed, **settings).choices[0]
            apart = [key for key in ("reasoning_content", "reasoning") if getattr(choice.message, key, None)]
            if apart:  # the rewards of the run are given it, as a part of the text
                reason = f"puts the model's thinking into {apart[0]}, apart from the text; start it without a reasoning"
                raise UserError(f"{args.endpoint}: {reason} parser (llama.cpp: --reasoning-format none)")
            message = {"role": "assistant", "content": choice.message.content or ""}
            if choice.message.tool_calls:
                message["tool_calls"] = [call.model_dump() for call in choice.message.tool_calls]
            return [message], choice.finish_reason
        except UnicodeEncodeError:
            raise UserError(f"{args.prompts}: a prompt holds a lone surrogate, which no server takes") from None
        except (AttributeError, IndexError, TypeError, ValueError):
            reason = "answers, but not as OpenAI's completions do; does the address end in /v1?"
            raise UserError(f"{args.endpoint}: {reason}") from None
        except openai.OpenAIError as error:
            raise UserError(
                f"{args.endpoint}: {type(error).__name__}: {error!s:.200}; what was sampled is kept"
            ) from None

    return sample


def from_local(args):
    """The same, by a transformers model on this machine."""
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise UserError(f"--local needs transformers and torch ({error.name} is missing)") from None
    options = {"gguf_file": args.gguf_file} if args.gguf_file else {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(args.local, **options)
        model = AutoModelForCausalLM.from_pretrained(args.local, **options).eval()
    except Exception as error:  # transformers fails in many ways
        reason = f"{type(error).__name__}: {' '.join(str(error).split()):.160}"
        raise UserError(f"--local {args.local}: cannot be loaded ({reason})") from None
    if torch.cuda.is_available():
        model = model.to("cuda")

    def sample(prompt, seed):
        torch.manual_seed(seed)
        if isinstance(prompt, str):
            inputs = tokenizer(prompt, return_tensors="pt")
        else:
            inputs = tokenizer.apply_chat_template(
                prompt, add_generation_prompt=True, return_dict=True, return_tensors="pt", **args.chat_template_kwargs
            )
        inputs = {name: value.to(model.device) for name, value in inputs.items() if name != "token_type_ids"}
        chosen = {"do_sample": args.temperature > 0} | ({"temperature": args.temperature} if args.temperature else {})
        with torch.inference_mode():
            out = model.generate(
                **inputs, **chosen, top_k=args.top_k, top_p=args.top_p, min_p=args.min_p,
                repetition_penalty=args.repetition_penalty, max_new_tokens=args.max_tokens,
                pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id,
            )  # fmt: skip
        ids = out[0, inputs["input_ids"].shape[1] :].tolist()
        ends = model.generation_config.eos_token_id
        stopped = ids[-1] in (ends if isinstance(ends, list) else [ends])
        text = tokenizer.decode(ids, skip_special_tokens=True)
        return (text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]), (
            "stop" if stopped else "length"
        )

    return sample


# Of the run that decide what is sampled: the argument of `trl grpo`, and TRL 1.16's default.
SETTINGS = {
    "model": ("model_name_or_path", None), "temperature": ("temperature", 1.0),
    "max_tokens": ("max_completion_length", 512), "num_generations": ("num_generations", 8),
    "top_p": ("top_p", 1.0), "top_k": ("top_k", 0), "min_p": ("min_p", None),
    "repetition_penalty": ("repetition_penalty", 1.0), "chat_template_kwargs": ("chat_template_kwargs", {}),
}  # fmt: skip


def settings_of(config: Path) -> dict:
    """What a run's YAML says of them; None where it says nothing."""
    try:
        import yaml
    except ImportError:
        raise UserError("--config needs PyYAML: pip install pyyaml") from None
    try:
        found = yaml.safe_load(config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{config}: cannot be read as YAML ({' '.join(str(error).split())[:150]})") from None
    if not isinstance(found, dict):
        raise UserError(f"{config}: holds no settings; it must be the YAML that `trl grpo --config` takes")
    said = {name: found.get(key) for name, (key, _) in SETTINGS.items()}
    for name, value in said.items():
        if name in ("model", "chat_template_kwargs") or value is None:
            continue
        try:
            said[name] = float(value) if not isinstance(SETTINGS[name][1], int) else int(value)
        except (TypeError, ValueError):
            raise UserError(f"{config}: {SETTINGS[name][0]} is {value!r}, and must be a number") from None
    return said | {name: found.get(name) for name in ("reward_funcs", "reward_weights", "generation_kwargs")}


def settle(args) -> None:
    """Settings that were not given come from --config, and else are TRL's; of files nothing is assumed."""
    given = settings_of(args.config) if args.config else {}
    for name, (_, default) in SETTINGS.items():
        if getattr(args, name, None) is None:
            said = given.get(name)
            setattr(args, name, default if said is None and (args.config or not args.completions) else said)
    if args.chat_template_kwargs is None:
        args.chat_template_kwargs = {}


def sampling_of(args, prompts: list[dict] | None) -> dict:
    told = json.dumps([row["prompt"] for row in prompts], sort_keys=True, default=str) if prompts else None
    return {
        "schema_version": SCHEMA_VERSION, "source": "endpoint" if args.endpoint else "local" if args.local else "files",
        "prompts": args.prompts, "prompts_sha256": told and hashlib.sha256(told.encode()).hexdigest(),
        **{name: getattr(args, name) for name in SETTINGS}, "model": args.local or args.model, "seed": args.seed,
    }  # fmt: skip


def sample(args) -> dict:
    """Groups of completions into the folder; what is there already is not sampled again."""
    ways = [bool(args.endpoint), bool(args.local), bool(args.completions)]
    if sum(ways) != 1:
        raise UserError("give one of --endpoint URL, --local MODEL, --completions FILE")
    if bool(args.prompts) == bool(args.completions):
        raise UserError("sampling needs the file of prompts; --completions brings its own")
    if args.endpoint and not (args.model or args.config):
        raise UserError("--endpoint needs --model, the name by which the server knows it")
    settle(args)
    if args.completions:
        return take_files(args)
    for name, least in (("num_generations", 2), ("num_prompts", 1), ("max_tokens", 1), ("concurrency", 1)):
        if getattr(args, name) < least:
            raise UserError(f"--{name.replace('_', '-')} is {getattr(args, name)}, and must be {least} or more")
    if not 0 <= args.temperature < math.inf:
        raise UserError(f"--temperature is {args.temperature}, and must be 0 or more")
    folder, known = args.dir, args.dir / "sampling.json"
    prompts = prompts_of(args.prompts, args.num_prompts)
    settings = json.loads(json.dumps(sampling_of(args, prompts)))
    with alone(folder):
        if known.exists():
            old = read_json(known, "sample")
            differs = [name for name in settings if old.get(name) != settings[name]]
            if differs:
                raise UserError(
                    f"{known}: was sampled with another {', '.join(differs)}; take a new --dir, or the old settings"
                )
        make = from_endpoint(args) if args.endpoint else from_local(args)
        if not known.exists():
            replace(known, as_json(settings))
        return fill(args, prompts, make)


def fill(args, prompts: list[dict], make) -> dict:
    path = args.dir / "completions.jsonl"
    there = {(row["group"], row["place"]) for row in read_lines(path)}
    wanted = [(group, place) for group in range(len(prompts)) for place in range(args.num_generations)]
    left = [one for one in wanted if one not in there]

    def one(group, place):
        row = prompts[group]
        completion, finish = make(row["prompt"], args.seed + group * 10_000 + place)
        return line_of(row, group, place, completion, finish)

    pool = ThreadPoolExecutor(args.concurrency if args.endpoint else 1)
    try:
        with progress(len(left), "sampling") as advance:
            for done in as_completed([pool.submit(one, *at) for at in left]):
                append_line(path, done.result())
                advance()
    finally:  # a request that is under way is lost, and made again
        pool.shutdown(wait=False, cancel_futures=True)
    return {"sampled": len(left), "there": len(wanted) - len(left), "file": str(path), "groups": len(prompts)}


def line_of(row: dict, group: int, place: int, completion, finish) -> dict:
    """A line of completions.jsonl: what is ours, and the dataset's columns apart from it."""
    mine = {"id": completion_id(row.get("prompt"), [group, completion], place), "group": group, "place": place}
    mine |= {"prompt": row.get("prompt"), "completion": completion, "finish": finish}
    if "completion_ids" in row:
        mine["completion_ids"] = row["completion_ids"]
    apart = ("prompt", "completion", "completion_ids", "_file")
    return {**mine, "columns": {name: value for name, value in row.items() if name not in apart}}


def take_files(args) -> dict:
    """Completions that exist: a JSONL, or TRL's completions_*.parquet with --dataset for the columns."""
    path = args.dir / "completions.jsonl"
    if path.exists():
        raise UserError(f"{path}: is there already; take a new --dir")
    rows = sc.read_completions(args.completions)
    if args.dataset:
        sc.add_columns(rows, args.dataset)
    sc.check_prompts(rows, args.completions[0])
    groups = sc.group_of_rows(rows, args.group_size)
    places, lines = {}, []
    for number, (row, group) in enumerate(zip(rows, groups), 1):
        is_chat = isinstance(row["completion"], list) and all(isinstance(one, dict) for one in row["completion"])
        if not (isinstance(row["completion"], str) or is_chat):
            what = f"{row['completion']!r:.60}"
            raise UserError(f"{row['_file']}: completion {number} must be text or chat messages, got {what}")
        if row.get("completion_ids") is not None and not isinstance(row["completion_ids"], list):
            raise UserError(f"{row['_file']}: completion_ids of completion {number} must be a list")
        place = places[group] = places.get(group, -1) + 1
        finish = row.get("finish") if row.get("finish") in ("stop", "length") else None
        lines.append(line_of(row, group, place, row["completion"], finish))
    settings = sampling_of(args, None) | {"files": {str(file): file_hash(file) for file in args.completions}}
    if settings["num_generations"] is None:
        settings["num_generations"] = max(places.values()) + 1
    with alone(args.dir):
        replace(args.dir / "sampling.json", as_json(settings))
        replace(path, "".join(json.dumps(line, default=str) + "\n" for line in lines))
    return {"sampled": 0, "there": len(lines), "file": str(path), "groups": len(set(groups))}


# ---- score: the rewards run in a child, which is killed when a row takes too long


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def local_files(names: list[str], also: list[str]) -> dict[str, str]:
    """Hash of every file that the rewards' modules consist of: what was loaded and belongs to no package, and, since
    modules are also loaded on demand or in other processes, each module that such a file mentions."""
    owned = importlib.metadata.packages_distributions()
    standard = Path(os.__file__).resolve().parent
    bases = [Path(base).resolve() for base in sys.path if Path(base).is_dir()]
    bases = [base for base in bases if standard not in (base, *base.parents)] + [Path.cwd() / "scripts"]

    def ours(name: str, path: Path) -> bool:
        return path.suffix == ".py" and standard not in path.parents and name.partition(".")[0] not in owned

    todo, tool = [], Path(__file__).resolve().parent
    for name, module in list(sys.modules.items()):
        path = Path(getattr(module, "__file__", None) or "/").resolve()
        asked = any(name == (one.rpartition(".")[0] or "rewards") for one in names)
        # What this tool loads for itself lies in its own folder, and counts only if a reward mentions it.
        if ours(name, path) and (asked or path.parent != tool):
            todo.append(path)
    found = {}
    while todo:
        path = todo.pop()
        if str(path) in found or not path.is_file() or standard in path.parents:
            continue
        found[str(path)] = file_hash(path)
        for level, mentioned in mentioned_modules(path):
            parts = mentioned.split(".")
            if parts[0] in owned and not level:
                continue
            for base in [path.parents[level - 1]] if level else [path.parent, *bases]:
                for at in range(1, len(parts) + 1):
                    target = base.joinpath(*parts[:at])
                    todo += [target.with_suffix(".py"), target / "__init__.py"]
    for name in also:
        path = Path(name).resolve()
        if not path.is_file():
            raise UserError(f"--also {name}: no such file")
        found[str(path)] = file_hash(path)
    return dict(sorted(found.items()))


def mentioned_modules(path: Path) -> set[tuple[int, str]]:
    """Level of a relative import and name, of what a source imports; and texts that could name a module."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(0, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = f"{node.module}." if node.module else ""
            found |= {(node.level, f"{start}{alias.name}") for alias in node.names}
            found |= {(node.level, node.module)} if node.module else set()
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
            name = node.value.removesuffix(".py")
            if name.replace(".", "").isidentifier():
                found.add((0, name))
    return found


def fingerprint(names: list[str], params: dict, also: list[str], functions: dict) -> dict:
    """What the rewards are made of: sources, arguments of factories, parameters, versions of packages.

    Files that a reward reads when it runs count if `--also` names them; the environment does not.
    """
    state = {}
    for name, reward in functions.items():
        if not hasattr(reward, "__code__"):  # an object that a factory made: its settings are in its pickle
            with contextlib.suppress(Exception):
                state[name] = hashlib.sha256(pickle.dumps(reward, protocol=4)).hexdigest()
    files = local_files(names, also)
    owners = importlib.metadata.packages_distributions()
    loaded = {name.partition(".")[0] for name in sys.modules}
    loaded |= {name.partition(".")[0] for path in files for level, name in mentioned_modules(Path(path)) if not level}
    packages = {dist: importlib.metadata.version(dist) for name in loaded for dist in owners.get(name, ())}
    return {
        "rewards": names, "params": params, "also": also, "files": files, "state": state,
        "packages": dict(sorted(packages.items())), "python": ".".join(map(str, sys.version_info[:3])),
    }  # fmt: skip


def work() -> None:
    """The child: a job on stdin, then groups of rows, one JSON line each; answers on what was stdout."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a reward prints must not end up among the answers
    me = os.getpid()

    def answer(number, value):
        if os.getpid() != me:  # a reward forked, and its copy came back
            os._exit(0)
        print(json.dumps({"number": number, **value}, default=str), file=answers, flush=True)

    job = json.loads(sys.stdin.readline())
    try:
        functions = sc.load_rewards(job["rewards"])
        sc.check_params(functions, job["params"])
        made_of = fingerprint(job["rewards"], job["params"], job["also"], functions)
    except UserError as error:
        answer(0, {"error": str(error)})
        return
    answer(0, {"names": list(functions), "fingerprint": made_of})
    for number, line in enumerate(sys.stdin, 1):
        rows = json.loads(line)
        if not rows:  # the last question: what has been loaded by now
            answer(number, {"fingerprint": fingerprint(job["rewards"], job["params"], job["also"], functions)})
            continue
        names = sorted({name for row in rows for name in row["columns"]})
        columns = {name: [row["columns"].get(name) for row in rows] for name in names if name not in sc.NOT_COLUMNS}
        columns.update(job["params"])
        arguments, started, found = sc.arguments_for(rows, columns), time.perf_counter(), {}
        try:
            for name, reward in functions.items():
                sc.check_arguments(reward, name, arguments, columns)
            for name, reward in functions.items():
                found[name] = sc.call_reward(reward, name, arguments)
        except UserError as error:
            answer(number, {"failed": str(error)})
            continue
        answer(number, {"seconds": time.perf_counter() - started, "found": found})


class Child:
    """Rewards in a process of their own; `ask` answers None when it had to be killed or died."""

    def __init__(self, rewards: list[str], params: dict, also: list[str]):
        self.job, self.process = json.dumps({"rewards": rewards, "params": params, "also": also}), None

    def start(self, budget_s: float) -> dict:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "_work"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},  # else the pickle of a set differs from start to start
        )  # fmt: skip
        self.rest, self.number = b"", -1
        first = self.ask(self.job, budget_s)
        if first is None:
            raise UserError(f"the rewards could not be loaded within {budget_s:g} s, or ended the process")
        if "error" in first:
            raise UserError(first["error"])
        return first

    def ask(self, line: str, budget_s: float):
        self.number += 1
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            return None
        until = time.monotonic() + budget_s
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.rest:
                left = until - time.monotonic()
                if left <= 0 or not waiting.select(left):
                    return None
                chunk = os.read(self.process.stdout.fileno(), 1 << 20)
                if not chunk:  # it ended; its status follows at once
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self.process.wait(timeout=5)
                    return None
                self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        try:
            reply = json.loads(line)
        except ValueError:  # a reward wrote into the answers
            return None
        return reply if isinstance(reply, dict) and reply.get("number") == self.number else None

    def stop(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
            self.process = None


def check_columns(rows: list[dict], params: dict) -> None:
    """As `rewards.py score` and TRL do: what TRL passes itself is no column, and a column beats a parameter."""
    names = {name for row in rows for name in row["columns"]}
    clash = ((names - sc.NOT_COLUMNS) | set(params)) & (sc.NOT_COLUMNS | {"prompts", "completions"})
    if clash:
        raise UserError(f"{', '.join(sorted(clash))} is what TRL passes itself; rename the column or parameter")
    if taken := names & set(params):
        raise UserError(f"--param {', '.join(sorted(taken))}: the dataset has that column, and in TRL the column wins")


def score(args) -> dict:
    with alone(args.dir):
        return score_alone(args)


def score_alone(args) -> dict:
    """Rewards, reasons, seconds and errors of every row, and the fingerprint of what gave them."""
    rows = completions_of(args.dir)
    if not 0 < args.budget_s < math.inf:
        raise UserError(f"--budget-s is {args.budget_s}, and must be above 0")
    if not math.isfinite(args.pass_above):
        raise UserError("--pass-above must be a finite number")
    params = dict(args.param)
    check_columns(rows, params)
    child = Child(args.reward, params, [str(path) for path in args.also])
    start_s = 120 + args.budget_s  # heavy imports of a user's module are no fault of a row
    by_group: dict[int, list[dict]] = {}
    for row in rows:
        by_group.setdefault(row["group"], []).append(row)
    scores: dict[str, dict] = {}

    def ask(members: list[dict]) -> str | None:
        """The error, if the members were not scored."""
        if child.process is None:
            child.start(start_s)
        reply = child.ask(json.dumps(members, default=str), args.budget_s * len(members))
        error, found = None, {}
        if reply is None:
            code = child.process.poll()
            child.stop()
            error = f"no answer within {args.budget_s:g} s a row" if code is None else f"ended the process ({code})"
        elif "failed" in reply:
            error = reply["failed"]
        else:
            found = reply["found"]
        for index, row in enumerate(members):
            rewards = {name: (found[name][0][index] if found else None) for name in about["names"]}
            scores[row["id"]] = {
                "id": row["id"], "rewards": rewards,
                "reasons": {name: found[name][1][index] for name in found},
                "extracted": {name: found[name][2][index] for name in found},
                "total": sc.total_of({name: [value] for name, value in rewards.items()}, 0),
                "seconds": None if error else reply["seconds"] / len(members), "error": error,
            }  # fmt: skip
        return error

    try:
        about = child.start(start_s)
        with progress(len(by_group), "scoring") as advance:
            for members in by_group.values():
                error = ask(members)
                one_by_one = [ask([row]) for row in members] if error and len(members) > 1 else [error]
                if error and not any(one_by_one):
                    for row in members:  # each alone is fine, together they are not, and TRL calls them together
                        scores[row["id"]] |= {"error": f"with others of its group: {error}", "total": None}
                advance()
        if child.process is None:
            child.start(start_s)
        last = child.ask("[]", start_s) or about
    finally:
        child.stop()
    made_of = last["fingerprint"]
    for what in ("files", "packages"):
        made_of[what] = dict(sorted({**about["fingerprint"][what], **made_of[what]}.items()))
    record = {
        "schema_version": SCHEMA_VERSION, "rewards": about["names"], "pass_above": args.pass_above,
        "budget_s": args.budget_s, "fingerprint": made_of, "completions": rows_hash(rows),
        "sampling": file_hash(args.dir / "sampling.json"), "rows": [scores[row["id"]] for row in rows],
    }  # fmt: skip
    replace(args.dir / "scores.json", as_json(record))
    failed = [one for one in record["rows"] if one["error"]]
    return {
        "rows": len(rows), "failed": len(failed), "errors": sorted({one["error"] for one in failed})[:10],
        "scored": {n: sum(one["rewards"][n] is not None for one in record["rows"]) for n in about["names"]},
        "file": str(args.dir / "scores.json"),
    }  # fmt: skip


def rows_hash(rows: list[dict]) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True, default=str).encode()).hexdigest()


def scores_of(folder: Path, rows: list[dict]) -> dict:
    """The last score, if it is of these completions, sampled as sampling.json says."""
    record = read_json(folder / "scores.json", "score")
    if not {"rewards", "pass_above", "fingerprint", "completions", "sampling", "rows"} <= record.keys():
        raise UserError(f"{folder / 'scores.json'}: is no record of `inspect_rewards.py score`; run it again")
    for what, now_is, name in (
        ("completions", rows_hash(rows), "completions.jsonl"),
        (
            "sampling",
            file_hash(folder / "sampling.json") if (folder / "sampling.json").is_file() else None,
            "sampling.json",
        ),
    ):
        if record[what] != now_is:
            raise UserError(f"{folder / name}: is not what was scored; run `inspect_rewards.py score` again")
    if [one.get("id") for one in record["rows"]] != [row["id"] for row in rows]:
        raise UserError(f"{folder / 'scores.json'}: holds other rows; run `inspect_rewards.py score` again")
    return record


# ---- choose, label


def random_order(rows: list[dict]) -> list[str]:
    """The ids by the hash of their ids: as good as random, the same each time, and no row moves when others come."""
    return sorted((row["id"] for row in rows), key=lambda ident: hashlib.sha256(f"order {ident}".encode()).digest())


def plain(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def suspicious(rows: list[dict], scores: dict[str, dict], count: int) -> dict[str, str]:
    """Ids that look like trouble, and why; each kind gives its worst in turn, so that none crowds out the others."""
    texts = {row["id"]: sc.whole(row["completion"]) for row in rows}
    totals = {ident: one["total"] for ident, one in scores.items()}
    paid = [ident for ident in texts if totals[ident] is not None]
    same, near = {}, {}
    for row in rows:
        same.setdefault((row["group"], texts[row["id"]]), []).append(row["id"])
        near.setdefault((row["group"], plain(texts[row["id"]])), []).append(row["id"])
    kinds = {
        "nearly the same text, other reward": [
            ident for ids in near.values() if len({totals[ident] for ident in ids}) > 1 for ident in ids
        ],
        "highest reward": sorted(paid, key=lambda ident: -totals[ident]),
        "longest": sorted(texts, key=lambda ident: -len(texts[ident])),
        "cut off, yet paid": [
            row["id"] for row in rows if row.get("finish") == "length" and (totals[row["id"]] or 0) > 0
        ],
        "said more than once": [ident for ids in same.values() if len(ids) > 1 for ident in ids[:1]],
        "the reward failed": [ident for ident, one in scores.items() if one["error"]],
    }  # fmt: skip
    found: dict[str, str] = {}
    for turn in range(len(rows)):
        for why, ids in kinds.items():
            if turn < len(ids) and len(found) < count:
                found.setdefault(ids[turn], why)
    return found


def items_to_read(rows: list[dict], scores: dict, at_random: int, extra: int) -> list[dict]:
    """What to show, in order: the random part in its order, the suspicious ones strewn among it."""
    first = random_order(rows)[:at_random]
    worst = {ident: why for ident, why in suspicious(rows, scores, extra + at_random).items() if ident not in first}
    order = [("random", ident, "") for ident in first]
    for ident, why in list(worst.items())[:extra]:
        order.insert(int(ident, 16) % (len(order) + 1), ("suspicious", ident, why))
    by_id = {row["id"]: row for row in rows}
    return [
        {"id": ident, "part": part, "why": why, "prompt": by_id[ident].get("prompt"),
         "completion": by_id[ident]["completion"], **{k: scores[ident][k] for k in ("rewards", "reasons", "total")}}
        for part, ident, why in order
    ]  # fmt: skip


def labels_of(folder: Path) -> list[dict]:
    """Standing labels. Reading them needs no textual."""
    try:
        import inspect_label
    except ImportError:
        raise UserError("labels need inspect_label.py beside inspect_rewards.py; copy it") from None
    try:
        return inspect_label.read_labels(folder / "labels.jsonl")
    except ValueError as error:
        raise UserError(str(error)) from None


CELLS = ("id", "label", "note", "part", "prompt", "completion")


def cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    text = sc.safe(text)
    if len(text) > 30_000:  # a spreadsheet takes 32,767; the answer stands at the end
        text = f"{text[:10_000]}\n[{len(text) - 30_000:,} characters left out]\n{text[-20_000:]}"
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r", "|", "%") else text


def write_csv(path: Path, items: list[dict], labelled: set[str]) -> int:
    left = [item for item in items if item["id"] not in labelled]
    try:
        with path.open("x", encoding="utf-8-sig", newline="") as file:  # x: never over a file that is there
            out = csv.writer(file)
            out.writerow(CELLS)
            for item in left:
                out.writerow([item["id"], "", "", item["part"], *(cell(sc.whole(item[n])) for n in CELLS[-2:])])
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    return len(left)


def read_csv(path: Path, items: list[dict], labeller: str, kind: str, folder: Path) -> int:
    """Labels from a spreadsheet; all lines are checked before the first is taken."""
    import inspect_label

    parts, taken = {row["id"]: "suspicious" for row in completions_of(folder)}, []
    parts |= {item["id"]: item["part"] for item in items}
    standing = {(one["labeller"], one["id"]): one["label"] for one in labels_of(folder)}
    csv.field_size_limit(2**30)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.DictReader(file)
            if not {"id", "label"} <= set(lines.fieldnames or ()):
                raise UserError(f"{path}: needs the columns id and label; `label --csv-out` writes such a file")
            for row in lines:
                label = (row["label"] or "").strip().lower()
                where = f"{path}:{lines.line_num}"
                if not label:
                    continue
                if label not in ("pass", "fail", "unsure"):
                    raise UserError(f"{where}: label {label!r:.40} is not one of pass, fail, unsure")
                if row["id"] not in parts:
                    raise UserError(f"{where}: id {row['id']!r:.40} is none of the sampled completions")
                if standing.get((labeller, row["id"])) != label:
                    taken.append({"id": row["id"], "label": label, "note": row.get("note") or ""})
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    others = {one["kind"] for one in labels_of(folder) if one["labeller"] == labeller} - {kind}
    if others:
        raise UserError(f"{labeller} has labels of kind {others.pop()}; take another --labeller for kind {kind}")
    for one in taken:
        inspect_label.append_label(
            folder / "labels.jsonl",
            {**one, "labeller": labeller, "kind": kind, "part": parts[one["id"]], "time": now()},
        )
    return len(taken)


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def label(args) -> dict:
    rows = completions_of(args.dir)
    record = scores_of(args.dir, rows)
    scores = {one["id"]: one for one in record["rows"]}
    if args.random < 1 or args.suspicious < 0:
        raise UserError("--random must be 1 or more, --suspicious 0 or more")
    if not args.labeller.strip():
        raise UserError("--labeller needs a name")
    items = items_to_read(rows, scores, args.random, args.suspicious)
    items = [{**item, "pass_above": record["pass_above"]} for item in items]
    mine = {one["id"] for one in labels_of(args.dir) if one["labeller"] == args.labeller}
    if args.kind is None:  # whoever sits at the terminal is a person; who filled in a file is not known
        if args.csv_in:
            raise UserError(f"--csv-in needs --kind, what the labeller is: one of {', '.join(KINDS)}")
        args.kind = "human"
    if args.csv_out:
        return {"written": write_csv(args.csv_out, items, mine), "file": str(args.csv_out)}
    if args.csv_in:
        return {"taken": read_csv(args.csv_in, items, args.labeller, args.kind, args.dir), "kind": args.kind}
    import inspect_label

    try:
        counts = inspect_label.label(items, args.dir / "labels.jsonl", args.labeller, args.kind)
    except (RuntimeError, ImportError, ValueError, OSError) as error:
        raise UserError(str(error)) from None
    return {**counts, "kind": args.kind}


# ---- what the folder says


def wilson(hits: int, n: int) -> dict | None:
    if not n:
        return None
    from scipy.stats import binomtest

    interval = binomtest(hits, n).proportion_ci(method="wilson")
    return {"value": hits / n, "low": float(interval.low), "high": float(interval.high), "n": n}


def kappa(pairs: list[tuple[bool, bool]]) -> float | None:
    """Cohen's kappa; None where one side never varies, because chance then explains everything."""
    if not pairs or len({a for a, _ in pairs}) < 2 or len({b for _, b in pairs}) < 2:
        return None
    from statsmodels.stats.inter_rater import cohens_kappa

    table = [[sum(pair == (a, b) for pair in pairs) for b in (True, False)] for a in (True, False)]
    return float(cohens_kappa(table, return_results=False))


def expected_dead(groups: list[list[float]], size: int) -> float | None:
    """Share of groups of `size` whose rewards would all be equal.

    Up to the sampled size, exact: the chance that `size` of the sampled rewards, drawn without putting back, are equal.
    Beyond it for two values of reward only, by a beta-binomial fitted to how many of each group are paid.

    >>> expected_dead([[1, 0, 0, 0], [1, 1, 1, 1]], 2)
    0.75
    """
    from scipy import optimize, special, stats

    groups = [group for group in groups if len(group) > 1]
    whole = [group for group in groups if len(group) >= size]
    if not groups:
        return None
    if whole and len(whole) >= len(groups) / 2:  # a row that failed makes its group too short
        shares = [
            sum(special.comb(group.count(value), size, exact=True) for value in set(group))
            / special.comb(len(group), size, exact=True)
            for group in whole
        ]
        return statistics.fmean(shares)
    values = sorted({value for group in groups for value in group})
    if len(values) != 2 or len(groups) < 5:
        return None
    counted = collections.Counter((group.count(values[1]), len(group)) for group in groups)
    paid, sizes = zip(*counted)

    def unlikely(logs):
        a, b = (min(math.exp(value), 1e6) for value in logs)
        return -(stats.betabinom.logpmf(paid, sizes, a, b) * list(counted.values())).sum()

    fitted = optimize.minimize(unlikely, [0.0, 0.0], method="Nelder-Mead")
    if not fitted.success:
        return None
    a, b = (min(math.exp(value), 1e6) for value in fitted.x)
    return min(float(stats.betabinom.pmf(0, size, a, b) + stats.betabinom.pmf(size, size, a, b)), 1.0)


def length_of(row: dict) -> int:
    return len(row["completion_ids"]) if row.get("completion_ids") else len(sc.whole(row["completion"]).split())


def judged_by_people(labels: list[dict]) -> dict[str, str]:
    """One verdict for each output that people read; where they differ, disputed."""
    found: dict[str, set[str]] = {}
    for one in labels:
        if one["kind"] == "human":
            found.setdefault(one["id"], set()).add(one["label"])
    return {ident: said.pop() if len(said) == 1 else "disputed" for ident, said in found.items()}


def blind_labels(folder: Path) -> tuple[list[dict], int]:
    """Standing labels, each as it was first given: after that the reward was seen. And how many were changed later."""
    standing, first = labels_of(folder), {}
    for line in (folder / "labels.jsonl").read_bytes().split(b"\n") if standing else []:
        with contextlib.suppress(ValueError):
            one = json.loads(line)
            if isinstance(one, dict) and one.get("label") in ("pass", "fail", "unsure"):
                first.setdefault((one.get("labeller"), one.get("id")), one["label"])
    blind = [{**one, "label": first.get((one["labeller"], one["id"]), one["label"])} for one in standing]
    return blind, sum(a["label"] != b["label"] for a, b in zip(standing, blind))


def random_part(rows: list[dict], verdicts: dict[str, str]) -> list[str]:
    """The beginning of the random order that was read without a gap: an unbiased sample, whatever else was read."""
    order = random_order(rows)
    gap = next((place for place, ident in enumerate(order) if ident not in verdicts), len(order))
    return order[:gap]


def between(labels: list[dict]) -> dict | None:
    """Agreement of the two people who share the most outputs."""
    by_person: dict[str, dict[str, str]] = {}
    for one in labels:
        if one["kind"] == "human" and one["label"] != "unsure":
            by_person.setdefault(one["labeller"], {})[one["id"]] = one["label"]
    names = sorted(by_person)
    pairs = [(a, b) for at, a in enumerate(names) for b in names[at + 1 :]]
    if not pairs:
        return None
    a, b = max(pairs, key=lambda pair: len(set(by_person[pair[0]]) & set(by_person[pair[1]])))
    both = [(by_person[a][i] == "pass", by_person[b][i] == "pass") for i in set(by_person[a]) & set(by_person[b])]
    if not both:
        return None
    same = sum(x == y for x, y in both) / len(both)
    return {"agreement": same, "kappa": kappa(both), "n": len(both), "labellers": [a, b]}


def reading_of(rate: float | None) -> str:
    if rate is None:
        return "not measured"
    if rate <= 0.02:
        return "almost nothing is paid: teach it first by fine-tuning on examples, or take easier prompts"
    if rate >= 0.95:
        return "almost everything is paid: nothing is left to learn from these prompts"
    return "some are paid and some are not: a reward can teach here"


def inspection(folder: Path, threshold: float = THRESHOLD) -> tuple[dict, list[dict]]:
    """The record, computed anew from completions, scores and labels, and each row as the report shows it."""
    rows = completions_of(folder)
    record, sampling = scores_of(folder, rows), read_json(folder / "sampling.json", "sample")
    labels, changed_later = blind_labels(folder)
    scores = {one["id"]: one for one in record["rows"]}
    names, above = record["rewards"], record["pass_above"]
    known = {row["id"] for row in rows}
    labels = [one for one in labels if one["id"] in known]
    verdicts = judged_by_people(labels)
    part = random_part(rows, verdicts)
    pairs = []
    for ident in part:
        if verdicts[ident] != "unsure" and scores[ident]["total"] is not None:
            is_paid = scores[ident]["total"] > above
            # Where people differ, the reward is not taken to be right.
            pairs.append((not is_paid if verdicts[ident] == "disputed" else verdicts[ident] == "pass", is_paid))
    groups: dict[int, list[float]] = {}
    for row in rows:
        if scores[row["id"]]["total"] is not None:
            groups.setdefault(row["group"], []).append(scores[row["id"]]["total"])
    alive = [values for values in groups.values() if len(values) > 1]
    totals = [value for values in groups.values() for value in values]
    failed = [one["error"] for one in record["rows"] if one["error"]]
    agreement = wilson(sum(a == b for a, b in pairs), len(pairs))
    seconds = sorted(one["seconds"] for one in record["rows"] if one["seconds"] is not None)
    clipped = [row["finish"] == "length" for row in rows if row.get("finish")]
    paid = wilson(sum(value > above for value in totals), len(totals))
    counted = {kind: len({one["id"] for one in labels if one["kind"] == kind}) for kind in KINDS}
    reward = {}
    for name in names:
        values = [one["rewards"][name] for one in record["rows"]]
        scored = [value for value in values if value is not None]
        reward[name] = {
            "mean": statistics.fmean(scored) if scored else None, "min": min(scored, default=None),
            "max": max(scored, default=None), "scored": len(scored), "errors": len(failed),
            "abstained": len(values) - len(scored) - len(failed),
        }  # fmt: skip
    lengths = [length_of(row) for row in rows if scores[row["id"]]["total"] is not None]
    found = {
        "schema_version": SCHEMA_VERSION,
        "created": now(),
        "sampling": {
            name: sampling.get(name) for name in ("source", "model", "temperature", "max_tokens", "num_generations")
        },
        "rewards": names,
        "pass_above": above,
        "rows": len(rows),
        "groups": len({row["group"] for row in rows}),
        "prompts": len({sc.prompt_key(row["prompt"]) for row in rows}),
        "group_size": max((len(values) for values in groups.values()), default=None),
        "labels": {
            **counted,
            "random_part": len(part),
            "suspicious_part": len(set(verdicts) - set(part)),
            "unsure": sum(verdicts[ident] == "unsure" for ident in part),
            "disputed": sum(verdicts[ident] == "disputed" for ident in part),
            "changed_after_reveal": changed_later,
            "labellers": dict(sorted(collections.Counter(one["labeller"] for one in labels).items())),
        },
        "confusion": {
            f"{'paid' if is_paid else 'unpaid'}_{'pass' if good else 'fail'}": pairs.count((good, is_paid))
            for is_paid in (True, False) for good in (True, False)
        } if pairs else None,
        "agreement": agreement and {**agreement, "threshold": threshold},
        "kappa": kappa(pairs),
        "between_labellers": between(labels),
        "reward": reward,
        "dead_groups": {"value": sum(min(v) == max(v) for v in alive) / len(alive), "n": len(alive)} if alive else None,
        "success_rate": paid and {**paid, "by": "reward", "reading": reading_of(paid["value"])},
        "dead_groups_for": {str(size): expected_dead(alive, size) for size in (4, 8, 16, 32)} if alive else None,
        "length_reward": spearman(lengths, totals_in_order(rows, scores)),
        "seconds_per_row": {"median": statistics.median(seconds), "p95": seconds[int(0.95 * (len(seconds) - 1))],
                            "max": seconds[-1]} if seconds else None,
        "clipped": {"value": sum(clipped) / len(clipped), "n": len(clipped)} if clipped else None,
        "errors": sorted(set(failed))[:10],
        "fingerprint": "sha256:" + hashlib.sha256(
            json.dumps([record["fingerprint"], sampling], sort_keys=True, default=str).encode()).hexdigest(),
    }  # fmt: skip
    found["verdict"], found["reasons"] = verdict_of(found, pairs)
    notes = {one["id"]: one.get("note", "") for one in labels}
    kinds = {one["id"]: one["kind"] for one in labels}
    said = {one["id"]: one["label"] for one in labels} | verdicts
    chosen = set(part)
    return found, [
        {"id": row["id"], "group": row["group"], "prompt": sc.whole(row.get("prompt")),
         "completion": sc.whole(row["completion"]), "length": length_of(row),
         "length_unit": "tokens" if row.get("completion_ids") else "words",
         **{key: scores[row["id"]][key] for key in ("total", "rewards", "reasons", "error", "seconds")},
         "label": said.get(row["id"]), "kind": kinds.get(row["id"]), "note": notes.get(row["id"], ""),
         "part": "random" if row["id"] in chosen else "suspicious" if row["id"] in said else None,
         "clipped": row["finish"] == "length" if row.get("finish") else None}
        for row in rows
    ]  # fmt: skip


def totals_in_order(rows: list[dict], scores: dict) -> list[float]:
    return [scores[row["id"]]["total"] for row in rows if scores[row["id"]]["total"] is not None]


def spearman(lengths: list[int], totals: list[float]) -> dict | None:
    if len(totals) < 3 or len(set(lengths)) < 2 or len(set(totals)) < 2:
        return None
    from scipy import stats

    found = stats.spearmanr(lengths, totals)
    return {"spearman": float(found.statistic), "p": float(found.pvalue), "n": len(totals)}


def verdict_of(found: dict, pairs: list[tuple[bool, bool]]) -> tuple[str, list[str]]:
    """pass, fail, or not measured, with all reasons. What was not measured never passes."""
    missing, wrong = [], []
    read, agreement = len(pairs), found["agreement"]
    advisory = found["labels"]["agent"] + found["labels"]["synthetic"]
    if read < NEEDED:
        missing.append(
            f"a person has judged {read} outputs of the random part that have a reward; {NEEDED} are needed"
            + (f" ({found['labels']['unsure']} were judged unsure: read more)" if found["labels"]["unsure"] else "")
            + (f" ({advisory} labels by agents or programs do not count)" if advisory else "")
        )
    if found["labels"]["unsure"] > MOST_UNSURE * max(found["labels"]["random_part"], 1):
        missing.append(f"{found['labels']['unsure']} of {found['labels']['random_part']} outputs were judged unsure")
    if found["errors"]:
        missing.append(f"the reward failed on some rows: {found['errors'][0]}")
    if found["prompts"] < 2:
        missing.append("all completions answer one prompt")
    for name, about in found["reward"].items():
        if not about["scored"]:
            missing.append(f"{name} scored no row")
    if read and len({good for good, _ in pairs}) < 2:
        said = "good" if pairs[0][0] else "bad"
        missing.append(f"every output was judged {said}, so nothing says whether the reward tells good from bad")
    elif read and len({is_paid for _, is_paid in pairs}) < 2:
        wrong.append("the reward gives every output that was read the same verdict")
    if agreement and agreement["low"] < agreement["threshold"]:
        wrong.append(
            f"reward and person agree on {agreement['value']:.0%} ({agreement['low']:.0%} to {agreement['high']:.0%}); "
            f"the lower end must reach {agreement['threshold']:.0%}: mend the reward, not the settings"
        )
    if missing:
        return "not measured", missing + wrong
    return ("fail", wrong) if wrong else ("pass", ["a person read enough, and agrees with the reward"])


# ---- report, gate


def report(args) -> dict:
    found, rows = inspection(args.dir, args.threshold)
    try:
        import inspect_report

        page = inspect_report.render(found, rows)
    except ImportError as error:
        raise UserError(str(error) if error.name != "inspect_report" else
                        "the report needs inspect_report.py beside inspect_rewards.py; copy it") from None  # fmt: skip
    replace(args.dir / "inspection.json", as_json(found))
    replace(args.dir / "report.html", page.encode("utf-8", "replace").decode())
    return found


def changed(folder: Path) -> list[str]:
    """What is no longer as it was when the rows were scored. The rewards are loaded again, in a child."""
    record = scores_of(folder, completions_of(folder))
    old = record["fingerprint"]
    child = Child(old["rewards"], old["params"], old["also"])
    try:
        new = child.start(120)["fingerprint"]
    finally:
        child.stop()
    found = []
    for name, before in old["files"].items():  # some were loaded only when the reward was called
        after = file_hash(Path(name)) if Path(name).is_file() else None
        if before != after:
            found.append(f"{name} {'is gone' if after is None else 'was changed'}")
    found += [f"{name} is new in the reward" for name in sorted(new["files"].keys() - old["files"].keys())]
    for name in sorted({*old["state"], *new["state"]}):
        if old["state"].get(name) != new["state"].get(name):
            found.append(f"the settings of {name} were changed")
    for name, before in old["packages"].items():
        try:
            after = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            after = "gone"
        if after != before:
            found.append(f"{name} was {before} and is {after}")
    if old["python"].rpartition(".")[0] != new["python"].rpartition(".")[0]:
        found.append(f"Python was {old['python']} and is {new['python']}")
    return found


def unlike_the_run(sampling: dict, rewards: list[str], config: Path) -> list[str]:
    """Where the run of this config would sample or reward otherwise than what was read."""
    found, said = [], settings_of(config)
    for name, (key, default) in SETTINGS.items():
        read, run = sampling.get(name), default if said[name] is None else said[name]
        if read is None and run != default:
            found.append(f"{name} of what was read is not known, so it cannot be held against {key} {run!r}")
        elif read is None and default is not None:
            found.append(f"{name} of what was read is not known, so it cannot be held against TRL's default {run!r}")
        elif read is not None and run is not None and run != read:
            found.append(f"{name} was {read!r} for what was read and is {key}: {run!r} in {config}")
    if said["generation_kwargs"]:
        found.append(f"generation_kwargs in {config} are not held against what was read: leave them out")
    named = said["reward_funcs"]
    named = [named] if isinstance(named, str) else named or []
    if named and {str(name).rpartition(".")[2] for name in named} != {name.rpartition(".")[2] for name in rewards}:
        found.append(f"the run's reward_funcs are {', '.join(map(str, named))}; scored were {', '.join(rewards)}")
    if any(weight != 1 for weight in said["reward_weights"] or ()):
        found.append(f"reward_weights in {config}: what was read was the plain sum of the rewards")
    return found


def gate(args) -> dict:
    """Go only if a person read enough, agrees, and nothing has changed since."""
    found, _ = inspection(args.dir, args.threshold)
    reasons = list(found["reasons"]) if found["verdict"] != "pass" else []
    reasons += [f"changed since it was scored: {one}" for one in changed(args.dir)]
    if args.config:
        scored = read_json(args.dir / "scores.json", "score")["fingerprint"]["rewards"]
        reasons += unlike_the_run(read_json(args.dir / "sampling.json", "sample"), scored, args.config)
    return {"schema_version": SCHEMA_VERSION, "gate": "go" if not reasons else "no", "reasons": reasons,
            "verdict": found["verdict"], "labels": found["labels"], "agreement": found["agreement"],
            **{key: found[key] for key in ("group_size", "success_rate", "dead_groups", "dead_groups_for", "clipped")},
            "fingerprint": found["fingerprint"]}  # fmt: skip


# ---- the command


def object_of(text: str) -> dict:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object")
    return found


def build_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG + EXIT_CODES, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, what: str, example: str):
        command = commands.add_parser(
            name, help=what, description=what[0].upper() + what[1:] + ".", formatter_class=raw,
            epilog=f"example:\n  inspect_rewards.py {example}\n{EXIT_CODES}",
        )  # fmt: skip
        command.add_argument(
            "--dir", type=Path, default=Path("inspection"), help="the inspection's folder (inspection)"
        )
        command.add_argument("--json", action="store_true", help="print one JSON object")
        return command

    command = add(
        "sample", "groups of completions, sampled as the run will", "sample prompts.jsonl --endpoint URL --model M"
    )
    command.add_argument("prompts", nargs="?", help=".jsonl or .parquet with a column prompt, or a hub id")
    command.add_argument("--endpoint", metavar="URL", help="server that speaks OpenAI's protocol, such as vLLM's /v1")
    command.add_argument("--model", help="its name there (or, for --completions, what sampled them)")
    command.add_argument("--api-key-env", default="OPENAI_API_KEY", metavar="NAME", help="variable that holds the key")
    command.add_argument("--local", metavar="MODEL", help="folder or hub id of a transformers model")
    command.add_argument("--gguf-file", metavar="NAME", help="the file in it, if it is a GGUF model")
    command.add_argument(
        "--completions", nargs="+", type=Path, metavar="FILE", help="completions that exist: .jsonl or .parquet"
    )
    command.add_argument("--dataset", type=Path, help="with --completions: its columns are joined by prompt")
    command.add_argument("--group-size", type=int, metavar="N", help="with --completions: rows per group")
    command.add_argument("--num-prompts", type=int, default=16, metavar="N", help="prompts taken, from the first (16)")
    command.add_argument("--config", type=Path, metavar="YAML", help="the run's: where the settings below come from")
    command.add_argument("--num-generations", type=int, metavar="N", help="completions of each (8, as TRL)")
    command.add_argument("--temperature", type=float, help="1.0, as TRL")
    command.add_argument("--max-tokens", type=int, metavar="N", help="max_completion_length (512, as TRL)")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--concurrency", type=int, default=8, metavar="N", help="requests at a time (8)")
    command.add_argument("--timeout-s", type=float, default=600.0, metavar="S", help="seconds for one request (600)")
    command.add_argument("--chat-template-kwargs", type=object_of, metavar="JSON",
                         help="as in GRPOConfig, such as '{\"enable_thinking\": false}'")  # fmt: skip
    command = add("score", "run the rewards on every completion, in a process that is killed when it hangs",
                  "score --reward my_rewards.concise")  # fmt: skip
    command.add_argument("--reward", action="append", required=True, metavar="NAME",
                         help="of rewards.py, or module.name as for `trl grpo`; may be repeated")  # fmt: skip
    sc._add_param(command)
    command.add_argument(
        "--also", action="append", type=Path, default=[], metavar="FILE",
        help="a file that a reward reads when it runs: its change closes the gate; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--pass-above", type=float, default=0.0, metavar="X", help="a total above X counts as paid (0)"
    )
    command.add_argument("--budget-s", type=float, default=10.0, metavar="S", help="seconds a row may take (10)")
    command = add("label", "read one output at a time and judge it, before its reward is shown", "label --labeller ann")
    command.add_argument("--labeller", required=True, metavar="NAME", help="who reads")
    command.add_argument("--kind", choices=KINDS, help="what the labeller is; only human counts for the gate")
    command.add_argument("--random", type=int, default=NEEDED, metavar="N", help=f"outputs drawn at random ({NEEDED})")
    command.add_argument("--suspicious", type=int, default=20, metavar="N", help="outputs that look like trouble (20)")
    way = command.add_mutually_exclusive_group()
    way.add_argument("--csv-out", type=Path, metavar="FILE", help="write a spreadsheet to fill in instead")
    way.add_argument("--csv-in", type=Path, metavar="FILE", help="take the labels of such a file")
    for name, what in (("report", "write report.html and inspection.json"), ("gate", "say whether the run may start")):
        command = add(name, what, name)
        command.add_argument("--threshold", type=float, default=THRESHOLD, metavar="X",
                             help=f"what agreement's lower end must reach ({THRESHOLD}, judgement)")  # fmt: skip
        if name == "gate":
            command.add_argument(
                "--config", type=Path, metavar="YAML", help="the run's; its sampling must be what was read"
            )
    return parser


def say(args, result: dict) -> None:
    if args.json:
        print(json.dumps(result, indent=1, default=str))
        return
    if args.command == "sample":
        count, made = result["sampled"] + result["there"], result["sampled"]
        print(f"{count} completions in {result['groups']} groups, {made} of them sampled now: {result['file']}")
    elif args.command == "score":
        scored = ", ".join(f"{name} {count}" for name, count in result["scored"].items())
        print(f"{result['rows']} rows; scored: {scored}; failed: {result['failed']}; {result['file']}")
        for error in result["errors"]:
            print(f"failed: {sc.one_line(error, 200)}")
    elif args.command == "label":
        print(", ".join(f"{name} {value}" for name, value in result.items()))
    else:
        print(f"{result.get('gate') or result['verdict']}: " + "\n  ".join(map(str, result["reasons"])))
        if args.command == "report":
            print(args.dir / "report.html")


def run(args) -> int:
    if not 0 < getattr(args, "threshold", 0.5) < 1:
        raise UserError("--threshold must lie between 0 and 1")
    result = {"sample": sample, "score": score, "label": label, "report": report, "gate": gate}[args.command](args)
    if args.command == "label" and args.kind != "human":
        print(f"note: labels of kind {args.kind} are advisory; the gate counts those of people", file=sys.stderr)
    say(args, result)
    if args.command == "gate":
        return 0 if result["gate"] == "go" else 1
    return 0 if args.command != "score" or all(result["scored"].values()) else 1


def main(argv: list[str] | None = None) -> int:
    if (sys.argv[1:] if argv is None else argv) == ["_work"]:
        work()
        return 0
    args = build_parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")
    try:
        return run(args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        kept = {"sample": "what was sampled is kept", "label": "each label is kept"}.get(
            args.command, "nothing was written"
        )
        print(f"interrupted; {kept}, the same command goes on", file=sys.stderr)
        sys.stderr.flush()
        os._exit(130)  # requests under way would be waited for
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        # Every file that can be damaged was looked at; what is left is one line, and no traceback.
        print(f"error: {args.dir}: cannot be worked with ({type(error).__name__}: {error!s:.120})", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
