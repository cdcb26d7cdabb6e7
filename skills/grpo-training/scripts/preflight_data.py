"""The checks of preflight.py that need more than the settings: dataset, tokenizer, rewards, memory, gates.

What is expensive or runs the user's rewards happens in the commands beside this file, in processes of their own:
`rewards.py lint`, `estimate_memory.py`, `inspect_rewards.py gate`, and `preflight_data.py describe` below.
"""

import argparse
import contextlib
import importlib
import inspect
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import preflight_config as config
import score_completions
from preflight_checks import Outcome, Run, check, failed, passed, unmeasured

HERE = Path(__file__).resolve().parent
RESERVED = ("completions", "prompts", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
ROWS_OF_A_HUB_DATASET = 2000
LINT_ROWS = 20
NO_DATASET = "no dataset was given"
GIVE_DATASET = "give it: --dataset prompts.jsonl"


class CommandFailed(Exception):
    """A command beside this file that gave no JSON; the message is its last line."""


def command(arguments: list[str], timeout_s: float) -> tuple[int, dict]:
    """A script beside this one with `--json`: exit code and what it printed.

    Raises:
        CommandFailed: no JSON came, or not in time; the process and its children are killed then.
    """
    process = subprocess.Popen(
        [sys.executable, str(HERE / arguments[0]), *arguments[1:]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"{arguments[0]} gave no answer in {timeout_s:g} s and was killed") from None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    try:
        return process.returncode, json.loads(out)
    except ValueError:
        said = [line for line in err.splitlines() if line.strip()]
        last = next(
            (line for line in reversed(said) if line.startswith("error:")), said[-1] if said else "it said nothing"
        )
        raise CommandFailed(last.removeprefix("error: ")[:400]) from None


# ---- what was given


def one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def load_rows(settings: config.Settings, given: str | None, quick: bool = False) -> tuple[list[dict], int | None, str]:
    """Rows of the run, how many there are in all (None: not known), and where they come from.

    What a YAML names is loaded as `trl grpo` loads it, by TRL's own `get_dataset` or by datasets, so that `columns`,
    `split` and `fraction` count. Of a hub dataset the first 2,000 rows are taken. `quick` takes a plain file without
    either library, where that gives the same number of rows.

    Raises:
        config.ConfigError: what is named cannot be loaded, or holds no rows.
        config.NotKnown: nothing is named, or it cannot be loaded here.
    """
    entries, name = settings.values.get("datasets"), settings.values.get("dataset_name")
    split = settings.values.get("dataset_train_split") or "train"
    try:
        if given:
            rows, total = named_rows(given, quick)
            source = given
        elif entries:
            if not isinstance(entries, list) or not all(isinstance(one, dict) and one.get("path") for one in entries):
                raise config.ConfigError("datasets: must be a list of entries with a path")
            if split not in ("train", "test") or (split == "test" and settings.values.get("test_split_size") is None):
                raise config.ConfigError(f"dataset_train_split {split!r}: `datasets` makes a split train only")
            source = ", ".join(str(one.get("data_files") or one["path"]) for one in entries)
            rows, total = entry_rows(entries, settings, quick)
        elif isinstance(name, str):
            source = name
            if quick and not Path(name).exists():
                raise config.NotKnown(f"{name}: rows of a hub dataset are not fetched for these groups alone",
                                      "--dataset FILE, or --only with dataset too")  # fmt: skip
            if Path(name).is_file():
                raise config.ConfigError(
                    f"dataset_name {name}: a file cannot be named so: say datasets, with path: json"
                )
            rows, total = hub_rows(name, settings.values.get("dataset_config"), split)
        else:
            raise config.NotKnown(NO_DATASET, GIVE_DATASET)
    except (config.ConfigError, config.NotKnown):
        raise
    except ImportError as error:
        raise config.NotKnown(f"loading the dataset needs {error.name}", f"pip install {error.name}") from None
    except Exception as error:  # files and the hub fail in many ways
        raise config.ConfigError(f"{source}: cannot be loaded ({one_line(error)})") from None
    if not rows:
        raise config.ConfigError(f"{source}: no rows")
    return rows, total, source


def named_rows(source: str, quick: bool) -> tuple[list[dict], int | None]:
    """Rows of a file or hub id that the user names."""
    path = Path(source)
    kinds = {".jsonl": "json", ".parquet": "parquet", ".json": "json", ".csv": "csv", ".tsv": "csv"}
    if path.is_dir() or (path.suffix in kinds and not path.is_file()):
        raise config.ConfigError(f"{source}: " + ("is a folder; name its file" if path.is_dir() else "no such file"))
    if path.suffix not in kinds:
        return hub_rows(source, None, "train")
    if path.suffix in (".jsonl", ".parquet"):
        try:
            raw = score_completions.read_rows(path)  # says the line of what is broken, where datasets does not
        except score_completions.UserError as error:
            raise config.ConfigError(str(error)) from None
        if quick or not raw:
            return raw, len(raw)
    options = {"sep": "\t"} if path.suffix == ".tsv" else {}
    loaded = library().load_dataset(kinds[path.suffix], data_files=str(path), split="train", **options)
    return list(loaded), len(loaded)


def entry_rows(entries: list[dict], settings: config.Settings, quick: bool) -> tuple[list[dict], int | None]:
    """Rows of the `datasets` of a YAML."""
    first, files = entries[0], entries[0].get("data_files")
    plain = len(entries) == 1 and set(first) <= {"path", "data_files"} and isinstance(files, str)
    if quick and plain and (first["path"], Path(files).suffix) in (("json", ".jsonl"), ("parquet", ".parquet")):
        return named_rows(files, quick)
    library()
    from trl.scripts.utils import DatasetMixtureConfig, get_dataset

    try:
        mixture = DatasetMixtureConfig(datasets=[dict(entry) for entry in entries])
    except TypeError as error:
        raise config.ConfigError(f"datasets: {str(error).replace('DatasetConfig.__init__()', 'an entry')}") from None
    local = ("json", "csv", "parquet", "text", "arrow", "pandas")
    if all(entry["path"] in local or Path(entry["path"]).exists() for entry in entries):
        loaded = get_dataset(mixture)["train"]
        return list(loaded), len(loaded)
    if quick:
        raise config.NotKnown("rows of a hub dataset are not fetched for these groups alone", GIVE_DATASET)
    if len(entries) > 1:
        raise config.NotKnown("datasets mixes several of the hub's, which are not fetched here", GIVE_DATASET)
    stream = get_dataset(DatasetMixtureConfig(datasets=[dict(first)], streaming=True))["train"]
    return list(stream.take(ROWS_OF_A_HUB_DATASET)), None


def hub_rows(source: str, name: str | None, split: str) -> tuple[list[dict], int | None]:
    stream = library().load_dataset(source, name, split=split, streaming=True)
    known = (stream.info.splits or {}).get(split)
    return list(stream.take(ROWS_OF_A_HUB_DATASET)), known.num_examples if known else None


def library():
    """The package datasets, without progress bars."""
    config.offline_without_hub()
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    return datasets


def rewards_of(run: Run) -> list[str]:
    """Import paths of the run's rewards.

    Raises:
        config.NotKnown: none are named, or they live in a script that only running it would load.
    """
    if run.options is not None and run.options.rewards:
        return run.options.rewards
    settings = run.settings
    settings.get("reward_funcs")  # raises what only running the script would tell
    if settings.local_rewards:
        raise config.NotKnown(
            f"{', '.join(settings.local_rewards)} ({settings.where('reward_funcs')}): defined in the script, which is"
            " not run here; move the rewards into a module and give --rewards module.name"
        )
    if not settings.rewards:
        if run.settings.values.get("reward_model_name_or_path"):
            raise config.NotKnown(
                "a reward model is the only reward, and is not run here", "try it on completions yourself"
            )
        raise config.NotKnown("no rewards were given", "--rewards module.name, or reward_funcs in the YAML")
    return settings.rewards


def described(run: Run) -> dict[str, dict]:
    """What each reward declares, found in a process of its own."""
    if "described" not in run.cache:
        names = rewards_of(run)
        budget = run.options.reward_budget_s if run.options is not None else 60
        try:
            run.cache["described"] = command(["preflight_data.py", "describe", *names], budget)[1]["rewards"]
        except CommandFailed as error:
            run.cache["described"] = {name: {"error": f"{error}, while the rewards were imported"} for name in names}
    return run.cache["described"]


# What `trl grpo` takes without a module (trl 1.16.0, scripts/grpo.py): where it is, and its settings there.
REGISTRY: dict[str, tuple[str, dict]] = {
    "accuracy_reward": ("trl.rewards.accuracy_reward", {}),
    "reasoning_accuracy_reward": ("trl.rewards.reasoning_accuracy_reward", {}),
    "think_format_reward": ("trl.rewards.think_format_reward", {}),
    "get_soft_overlong_punishment": (
        "trl.rewards.get_soft_overlong_punishment", {"max_completion_len": 1280, "soft_punish_cache": 256}
    ),
}  # fmt: skip


def imported(name: str):
    """A reward as `trl grpo` finds it: one of its four names, or a path that is importable from the current folder.

    Raises:
        LookupError: it is not found so; the message says why.
    """
    path, settings = REGISTRY.get(name, (name, {}))
    module_path, _, attribute = path.rpartition(".")
    if not module_path:
        raise LookupError(f"TRL takes {', '.join(REGISTRY)} or module.function, and no other name")
    # This script's folder is no place where TRL looks, and its modules may be called like the user's.
    sys.path[:] = [os.getcwd(), *(place for place in sys.path if Path(place or ".").resolve() != HERE)]
    for loaded, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if loaded != "__main__" and file and Path(file).resolve().parent == HERE:
            del sys.modules[loaded]
    try:
        module = importlib.import_module(module_path)
    except BaseException as error:  # a module may raise anything, SystemExit included
        raise LookupError(f"cannot import {module_path} from {os.getcwd()}: {one_line(error)}") from None
    reward = getattr(module, attribute, None)
    if not callable(reward):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise LookupError(f"{module_path} has no reward {attribute!r}; it has {', '.join(sorted(public)) or 'none'}")
    return reward(**settings) if settings else reward


def describe(names: list[str]) -> dict:
    """Import the rewards and say what they take; runs in the child."""
    import judge  # before the user's modules, which may be called so too

    found = {}
    for name in names:
        try:
            reward = imported(name)
        except LookupError as error:
            found[name] = {"error": str(error)[:300]}
            continue
        entry: dict[str, Any] = {"name": getattr(reward, "__name__", None), "columns": {}, "takes_all": True}
        try:
            parameters = inspect.signature(reward).parameters.values()
        except (TypeError, ValueError):
            parameters = ()
        if parameters:
            entry["takes_all"] = any(one.kind is one.VAR_KEYWORD for one in parameters)
            entry["columns"] = {
                one.name: one.default is not one.empty for one in parameters
                if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and one.name not in RESERVED
            }  # fmt: skip
        desk = getattr(reward, "desk", None)
        if hasattr(desk, "rubric") and hasattr(desk, "client"):
            problem, path = "no calibration was given", os.environ.get("PREFLIGHT_CALIBRATION")
            if path:
                try:
                    problem = judge.calibration_problem(judge.read_calibration(path), desk.client, desk.rubric, 90)
                except (ValueError, OSError) as error:
                    problem = str(error)
            entry["judge"] = {"problem": problem}
        found[name] = entry
    return {"schema_version": 1, "rewards": found}


# ---- 3 dataset


def rows_of(run: Run) -> list[dict]:
    if run.rows is None:
        problem = run.cache.get("dataset_problem")
        if isinstance(problem, config.NotKnown):
            raise problem
        raise config.NotKnown(*((str(problem), "see dataset") if problem else (NO_DATASET, GIVE_DATASET)))
    return run.rows


def seen(run: Run) -> str:
    of = run.total_rows
    return f"{len(run.rows)} rows" + (f" of {of}" if of and of != len(run.rows) else "")


def some(numbers: list[int]) -> str:
    """`row 3` or `rows 3, 8, 9 and 41 more`, counted from 1.

    >>> some([2]), some([1, 4, 5, 7, 9])
    ('row 3', 'rows 2, 5, 6 and 2 more')
    """
    shown = ", ".join(str(number + 1) for number in numbers[:3])
    more = f" and {len(numbers) - 3} more" if len(numbers) > 3 else ""
    return f"row{'s' if len(numbers) > 1 else ''} {shown}{more}"


@check("dataset", "dataset", "dead", "no rows can be read", "TRL reads the same file with datasets")
def dataset(run: Run) -> Outcome:
    problem = run.cache.get("dataset_problem")
    if isinstance(problem, config.NotKnown):
        raise problem
    if problem:
        return failed(str(problem), "name rows that TRL can load: a file (.jsonl, .parquet, .json, .csv) or a hub id")
    rows, settings = rows_of(run), run.settings
    other = run.options and run.options.dataset and (settings.given("datasets") or settings.given("dataset_name"))
    said = f"{run.cache.get('source')}, given with --dataset; the config names its own: " if other else ""
    return passed(f"{said}{seen(run)}, columns {', '.join(sorted({key for row in rows[:100] for key in row}))}")


def is_chat(prompt: Any) -> bool:
    return isinstance(prompt, list) and bool(prompt) and all(isinstance(message, dict) for message in prompt)


@check("prompt-column", "dataset", "dead", "a row without a prompt", "TRL 1.16, grpo_trainer.py")
def prompt_column(run: Run) -> Outcome:
    rows = rows_of(run)
    without = [number for number, row in enumerate(rows) if not row.get("prompt")]
    if not without:
        return passed("every row has a prompt")
    columns = sorted(rows[without[0]])
    likely = [name for name in columns if name in ("messages", "question", "problem", "query", "instruction", "input")]
    fix = f"rename {likely[0]} to prompt" if likely else "the column must be called prompt"
    if likely == ["messages"] or likely[:1] == ["messages"]:
        fix = "make prompt from messages without the assistant's last answer"
    return failed(f"{some(without)} of {seen(run)}: no prompt; columns are {', '.join(columns)}", fix)


@check("prompt-format", "dataset", "dead", "prompts that are neither text nor chat messages, or both kinds", "TRL 1.16")
def prompt_format(run: Run) -> Outcome:
    kinds: dict[str, list[int]] = {}
    for number, row in enumerate(rows_of(run)):
        prompt = row.get("prompt")
        kind = "text" if isinstance(prompt, str) else "messages" if is_chat(prompt) else "other"
        if kind == "messages" and not all(isinstance(one.get("role"), str) and "content" in one for one in prompt):
            kind = "messages without role or content"
        if prompt:
            kinds.setdefault(kind, []).append(number)
    said = "; ".join(f"{kind}: {some(numbers)}" for kind, numbers in kinds.items())
    if len(kinds) == 1 and set(kinds) <= {"text", "messages"}:
        return passed(f"all prompts are {next(iter(kinds))}")
    return failed(said or "no prompts", "one form for all rows: text, or messages with role and content")


@check(
    "prompt-is-text",
    "dataset",
    "waste",
    "text prompts for a model with a chat template: TRL applies none",
    "run; trl#3126",
)
def prompt_is_text(run: Run) -> Outcome:
    rows = rows_of(run)
    if not any(isinstance(row.get("prompt"), str) for row in rows):
        return passed("prompts are messages, so the template is applied")
    tokenizer = tokenizer_of(run)
    if not tokenizer.chat_template:
        return passed("prompts are text, and the model has no chat template")
    return failed(
        "prompts are text, so the model's chat template is not applied and completions continue the text",
        'make each prompt a list of messages: [{"role": "user", "content": ...}]',
    )


@check(
    "last-role",
    "dataset",
    "waste",
    "messages that end with the assistant: the model continues its own words",
    "TRL 1.16",
)
def last_role(run: Run) -> Outcome:
    ends = [
        number for number, row in enumerate(rows_of(run))
        if is_chat(row.get("prompt")) and row["prompt"][-1].get("role") == "assistant"
    ]  # fmt: skip
    if ends:
        return failed(f"{some(ends)}: the last message is the assistant's", "end with the user's message, unless meant")
    return passed("no prompt ends with the assistant")


@check(
    "reserved-columns",
    "dataset",
    "dead",
    "columns with the names that TRL passes to rewards itself",
    "run; TRL 1.16, _calculate_rewards",
)
def reserved_columns(run: Run) -> Outcome:
    columns = {key for row in rows_of(run) for key in row}
    clash, lost = sorted(columns & {"prompts", "completions"}), sorted(columns & (set(RESERVED) | {"completion"}))
    if clash:
        return failed(f"column {', '.join(clash)}: every reward call raises 'multiple values'", "rename it")
    if lost:
        return failed(f"column {', '.join(lost)}: TRL drops or overwrites it, no reward sees it", "rename it",
                      severity="waste")  # fmt: skip
    return passed("no column has a name that TRL passes itself")


@check(
    "reward-columns",
    "dataset",
    "dead",
    "a reward's parameter without a column of its name, or a column never passed",
    "run; TRL calls rewards by keyword",
)
def reward_columns(run: Run) -> list[Outcome] | Outcome:
    columns = set.intersection(*(set(row) for row in rows_of(run)[:1000])) - {"prompt", "completion"}
    if run.get("remove_unused_columns"):
        columns = set()
    found, used = [], []
    for path, entry in described(run).items():
        if "error" in entry:
            continue
        for name, optional in entry["columns"].items():
            if name in columns:
                used.append(f"{entry['name']} takes {name}")
            elif not optional:
                near = config.nearest(name, columns)
                lost = (
                    " (remove_unused_columns=True removes all but prompt)" if run.get("remove_unused_columns") else ""
                )
                found.append(failed(f"{path} needs {name}; columns are {', '.join(sorted(columns)) or 'none'}{lost}",
                                    f"rename a column to {name}{near}", waive=f"reward-columns:{path}"))  # fmt: skip
        unknown = sorted(columns - set(entry["columns"]))
        if not entry["takes_all"] and unknown:
            found.append(failed(f"{path} has no **kwargs, and TRL passes {', '.join(unknown)} too: TypeError",
                                "add **kwargs to its parameters", waive=f"reward-columns:{path}"))  # fmt: skip
    return found or passed("; ".join(used) or "no reward names a column of its own")


def kind_of(value: Any) -> str:
    """What datasets would make of a value."""
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


@check(
    "column-types",
    "dataset",
    "dead",
    "a column with text and other values: datasets then reads every text that is JSON as a number, truth value or list",
    "run with datasets 5.2; older ones refuse the file",
)
def column_types(run: Run) -> Outcome:
    kinds: dict[str, Counter] = {}
    for row in rows_of(run):
        for key, value in row.items():
            if value is not None and key != "prompt":
                kinds.setdefault(key, Counter())[kind_of(value)] += 1
    mixed = {key: count for key, count in kinds.items() if len(count) > 1}
    if mixed:
        said = "; ".join(
            f"{key}: {', '.join(f'{n} {kind}' for kind, n in count.most_common())}" for key, count in mixed.items()
        )
        return failed(
            f"{said}; the text '1.50' would reach the reward as 1.5", "one type in each column: golds as text"
        )
    return passed(", ".join(f"{key}: {next(iter(count))}" for key, count in kinds.items()) or "no other columns")


def keys_below(value: Any, path: str = "") -> dict[str, set[str]]:
    """Keys of nested objects that hold something, by where they stand."""
    found: dict[str, set[str]] = {}
    if isinstance(value, dict):
        found[path] = {key for key, inner in value.items() if inner is not None}
        for key, inner in value.items():
            for where, keys in keys_below(inner, f"{path}.{key}" if path else key).items():
                found.setdefault(where, set()).update(keys)
    elif isinstance(value, list):
        for inner in value[:20]:
            for where, keys in keys_below(inner, f"{path}[]").items():
                found.setdefault(where, set()).update(keys)
    return found


@check(
    "none-filled",
    "dataset",
    "tell",
    "objects with different keys in one column: parquet and Dataset.from_list give all of them all keys, as None",
    "run with datasets 5.2, which keeps such columns of a JSON file as they are",
)
def none_filled(run: Run) -> Outcome:
    rows = rows_of(run)[:2000]
    found = []
    for column in sorted({key for row in rows for key in row} - {"prompt"}):
        shapes = [keys_below(row[column]) for row in rows if isinstance(row.get(column), dict | list)]
        union: dict[str, set[str]] = {}
        for shape in shapes:
            for where, keys in shape.items():
                union.setdefault(where, set()).update(keys)
        lacking = sum(any(keys < union[where] for where, keys in shape.items()) for shape in shapes)
        if lacking:
            found.append(f"{column}: {lacking} of {len(shapes)} rows lack keys that others have, or hold None there")
    if found:
        return failed("; ".join(found), "store such a column as text (JSON), or let the reward drop None")
    return passed("no column holds objects with different keys")


@check(
    "missing-golds",
    "dataset",
    "waste",
    "rows whose gold is empty: they are generated and then do not count",
    "run; TRL 1.16, None rewards",
)
def missing_golds(run: Run) -> Outcome:
    rows = rows_of(run)
    columns = {key for row in rows for key in row}
    taken = {name for entry in described(run).values() for name in entry.get("columns", ())} & columns
    found = []
    for name in sorted(taken):
        empty = [number for number, row in enumerate(rows) if row.get(name) in (None, "", [], {})]
        if empty:
            found.append(f"{name} is empty in {len(empty)} of {len(rows)} rows ({some(empty)})")
    if found:
        return failed("; ".join(found), "leave such rows out")
    return passed(f"golds are there in every row ({', '.join(sorted(taken)) or 'no column is read'})")


@check(
    "duplicate-prompts",
    "dataset",
    "tell",
    "prompts that stand in the file several times, or with different columns",
    "judgement",
)
def duplicate_prompts(run: Run) -> Outcome:
    rows = rows_of(run)
    by_prompt: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        by_prompt.setdefault(score_completions.prompt_key(row.get("prompt")), []).append(number)
    repeated = [numbers for numbers in by_prompt.values() if len(numbers) > 1]
    if not repeated:
        return passed(f"{len(rows)} different prompts")

    def columns(number: int) -> str:
        return json.dumps({k: v for k, v in rows[number].items() if k != "prompt"}, sort_keys=True, default=str)

    unlike = [numbers for numbers in repeated if len({columns(number) for number in numbers}) > 1]
    said = f"{len(by_prompt)} different prompts in {len(rows)} rows; {some(repeated[0])} are the same"
    if unlike:
        said += f"; {len(unlike)} prompts have different golds, as in {some(unlike[0])}"
    return failed(said, "remove the copies", severity="waste" if unlike else None)


# ---- tokenizer


def model_folder(run: Run) -> str | None:
    """Folder or hub id that holds the tokenizer."""
    given = run.options.model if run.options is not None else None
    if given and Path(given).name == "config.json":
        return str(Path(given).parent)
    if given and Path(given).suffix == ".json":
        return None
    return given or run.get("model_name_or_path")


def tokenizer_of(run: Run):
    """The run's tokenizer.

    Raises:
        config.NotKnown: no model was named, or it has no tokenizer that can be read here.
    """
    if "tokenizer" not in run.cache:
        try:
            where = model_folder(run)
        except config.NotKnown as error:
            where, run.cache["tokenizer"] = None, error
        if where is None:
            run.cache.setdefault("tokenizer", config.NotKnown("no model was named", "--model FOLDER (or a hub id)"))
        elif not Path(where).exists() and (where.count("/") != 1 or Path(where).parent.is_dir()):  # no hub id
            run.cache["tokenizer"] = config.NotKnown(f"{where}: no such folder, so no tokenizer", "--model FOLDER")
        else:
            run.cache["tokenizer"] = load_tokenizer(where)
    if isinstance(run.cache["tokenizer"], config.NotKnown):
        raise run.cache["tokenizer"]
    return run.cache["tokenizer"]


TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt")


def load_tokenizer(where: str):
    if Path(where).is_dir() and not any((Path(where) / name).is_file() for name in TOKENIZER_FILES):
        return config.NotKnown(f"{where}: holds no tokenizer ({', '.join(TOKENIZER_FILES[:2])})", "give --model FOLDER")
    if not Path(where).exists():
        config.offline_without_hub()
    try:
        from transformers import AutoTokenizer
    except ImportError:
        return config.NotKnown("reading a tokenizer needs transformers", "pip install transformers")
    try:
        return AutoTokenizer.from_pretrained(where, trust_remote_code=False)  # nobody is asked, and no code is run
    except Exception as error:  # files and the hub fail in many ways
        said = " ".join(str(error).split())[:120]
        return config.NotKnown(
            f"{where}: no tokenizer could be read ({type(error).__name__}: {said})", "--model FOLDER"
        )


def generation_prompt(run: Run, prompt: Any) -> str:
    """A prompt as the model sees it."""
    if isinstance(prompt, str):
        return prompt
    options = run.get("chat_template_kwargs") or {}
    return tokenizer_of(run).apply_chat_template(prompt, tokenize=False, add_generation_prompt=True, **options)


@check("template", "dataset", "dead", "the chat template is missing, or raises on a row", "transformers")
def template(run: Run) -> Outcome:
    rows = [(number, row["prompt"]) for number, row in enumerate(rows_of(run)) if is_chat(row.get("prompt"))]
    if not rows:
        return passed("prompts are text: no template is applied")
    tokenizer = tokenizer_of(run)
    if not tokenizer.chat_template:
        return failed(
            "prompts are messages, and the tokenizer has no chat template",
            "set tokenizer.chat_template, or take the tokenizer of an instruct model",
        )
    for number, prompt in rows[:500]:
        try:
            generation_prompt(run, prompt)
        except Exception as error:  # templates raise what they like
            return failed(
                f"{some([number])}: the template raises {type(error).__name__}: {error}"[:300], "mend the roles"
            )
    tail = generation_prompt(run, rows[0][1])[-40:]
    return passed(f"rendered {min(len(rows), 500)} of {len(rows)} prompts; the first ends {tail!r}")


OPENED = re.compile(r"<(think|thinking|reasoning|thought|seed:think)>\s*\Z")


@check(
    "template-tail",
    "dataset",
    "dead",
    "the template opens the reasoning block itself, and a format reward waits for the tag",
    "trl#6966; run",
)
def template_tail(run: Run) -> Outcome:
    rows = [row["prompt"] for row in rows_of(run) if row.get("prompt")]
    tails = [OPENED.search(generation_prompt(run, prompt)) for prompt in rows[:50]]
    opened = next((tail for tail in tails if tail), None)
    if not opened:
        return passed("no prompt ends with an opened reasoning block")
    tag = opened[0].strip()
    waiting = [path for path, entry in described(run).items()
               if entry.get("name") in ("think_format_reward", "format_reward", "strict_format_reward")
               and "prefilled" not in rows_of(run)[0]]  # fmt: skip
    if waiting:
        return failed(
            f"prompts end with {tag}, so no completion begins with it, and {', '.join(waiting)} pays only that",
            "a format reward with the opening tag optional (format_reward with prefilled=True)",
        )
    return failed(f"prompts end with {tag}: no completion contains it", "rewards must not ask for the opening tag",
                  severity="tell")  # fmt: skip


@check(
    "end-token",
    "dataset",
    "dead",
    "the token that ends a turn is none that stops generation",
    "trl#7039; TRL 1.16 stops at the tokenizer's and the generation config's",
)
def end_token(run: Run) -> Outcome:
    tokenizer = tokenizer_of(run)
    stops = {tokenizer.eos_token_id} - {None}
    where = model_folder(run)
    path = Path(where) / "generation_config.json" if where else None
    if path and path.is_file():
        try:
            ids = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
        except ValueError:
            ids = None
        stops |= set(ids if isinstance(ids, list) else [ids]) - {None}
    if not stops:
        return failed("the tokenizer has no eos token", "set tokenizer.eos_token to the one that ends a turn")
    names = ", ".join(sorted(map(str, tokenizer.convert_ids_to_tokens(sorted(stops)))))
    if not tokenizer.chat_template:
        return passed(f"generation stops at {names}; no chat template")
    word = "grpo"
    try:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": "?"}, {"role": "assistant", "content": word}], tokenize=False
        )
    except Exception as error:
        return unmeasured(
            f"the template raises on an answer: {type(error).__name__}: {error}"[:200], "mend the template"
        )
    after = tokenizer(text.rpartition(word)[2], add_special_tokens=False)["input_ids"]
    if not after:
        return failed(f"the template writes nothing after an answer; generation stops at {names}",
                      "the template must end a turn with the eos token", severity="waste")  # fmt: skip
    if stops & set(after):
        return passed(f"an answer ends with one of {names}")
    ends = tokenizer.convert_ids_to_tokens(after[:1])[0]
    return failed(
        f"the template ends a turn with {ends!r}, and generation stops only at {names}: completions run to the limit",
        f"put the id {after[0]} into eos_token_id of generation_config.json",
    )


def longest_prompt(run: Run) -> tuple[int, int]:
    """Tokens of the longest prompt, and its row. The 300 longest by characters are counted."""
    if "longest" not in run.cache:
        tokenizer = tokenizer_of(run)
        prompts = [(number, row["prompt"]) for number, row in enumerate(rows_of(run)) if row.get("prompt")]
        prompts.sort(key=lambda one: -len(str(one[1])))
        texts = [(number, generation_prompt(run, prompt)) for number, prompt in prompts[:300]]
        plain = [isinstance(run.rows[number]["prompt"], str) for number, _ in texts]
        counts = [
            (len(tokenizer(text, add_special_tokens=special)["input_ids"]), number)
            for (number, text), special in zip(texts, plain)
        ]
        run.cache["longest"] = max(counts)
    return run.cache["longest"]


def model_config(run: Run) -> dict:
    """The model's config.json.

    Raises:
        config.NotKnown: it was not given and is not on this machine.
    """
    given = run.options.model if run.options is not None else None
    place = Path(given or run.get("model_name_or_path") or "")
    path = place / "config.json" if place.is_dir() else place
    if path.suffix != ".json" or not path.is_file():
        raise config.NotKnown(f"{place}: no config.json there", "--model config.json, or the folder that holds it")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise config.NotKnown(f"{path}: not JSON ({error})") from None
    return {**found, **(found.get("text_config") or {})}


@check(
    "context-length",
    "dataset",
    "dead",
    "prompt and completion do not fit into the model's or vLLM's context; TRL cuts no prompts",
    "trl#3180; TRL 1.16",
)
def context_length(run: Run) -> Outcome:
    tokens, number = longest_prompt(run)
    limit = run.get("max_completion_length")
    if limit is None:
        raise config.NotKnown("max_completion_length is None, so completions have no limit to add up", "set it")
    need = tokens + limit
    said = f"longest prompt {tokens} tokens ({some([number])}) + max_completion_length {limit} = {need}"
    places = {}
    with contextlib.suppress(config.NotKnown):
        places["max_position_embeddings"] = model_config(run).get("max_position_embeddings")
    if run.get("use_vllm"):
        places["vllm_max_model_length"] = run.get("vllm_max_model_length")
    known = {name: value for name, value in places.items() if isinstance(value, int)}
    if not known:
        raise config.NotKnown(f"{said}; the model's context is not known", "--model FOLDER or config.json")
    short = [f"{name} {value}" for name, value in known.items() if value < need]
    if short:
        return failed(
            f"{said}, above {' and '.join(short)}",
            f"leave out longer prompts, or lower max_completion_length; need {need}",
        )
    return passed(f"{said}, within {', '.join(f'{name} {value}' for name, value in known.items())}")


# ---- 4 rewards


@check(
    "reward-import",
    "rewards",
    "dead",
    "a reward that cannot be imported where the run starts",
    "trl grpo --reward_funcs",
)
def reward_import(run: Run) -> list[Outcome] | Outcome:
    found = described(run)
    bad = [failed(f"{path}: {entry['error']}", "run from the folder that `trl grpo` will run in; name module.function",
                  waive=f"reward-import:{path}") for path, entry in found.items() if "error" in entry]  # fmt: skip
    return bad or passed(f"{', '.join(found)} can be imported from {os.getcwd()}")


@check(
    "reward-names",
    "rewards",
    "waste",
    "two rewards with one name share one metric and one parquet column",
    "run; TRL 1.16",
)
def reward_names(run: Run) -> Outcome:
    named = {path: entry.get("name") for path, entry in described(run).items() if "error" not in entry}
    twice = [name for name, count in Counter(named.values()).items() if count > 1]
    if twice:
        return failed(f"{', '.join(map(str, twice))} stands for {', '.join(p for p, n in named.items() if n in twice)}",
                      "give each a __name__ of its own")  # fmt: skip
    return passed(f"logged as {', '.join(map(str, named.values()))}")


@check(
    "reward-weights",
    "rewards",
    "dead",
    "reward_weights of another length than the rewards",
    "TRL 1.16 raises when the trainer is built",
)
def reward_weights(run: Run) -> Outcome:
    weights = run.get("reward_weights")
    if weights is None:
        return passed("all rewards weigh 1")
    model = run.settings.values.get("reward_model_name_or_path")  # TRL puts it before the functions
    try:
        names = ([model] if model else []) + rewards_of(run)
    except config.NotKnown:
        if not model or run.settings.rewards or run.settings.local_rewards:
            raise
        names = [model]
    if not all(isinstance(weight, int | float) and math.isfinite(weight) for weight in weights):
        return failed(f"reward_weights {weights}: not all are numbers", "one finite number for each reward")
    if len(weights) != len(names):
        return failed(f"{len(weights)} weights for {len(names)} rewards", "one weight for each reward, in their order")
    if not any(weights):
        return failed(f"reward_weights {weights}: nothing is paid", "weigh at least one reward")
    if any(weight < 0 for weight in weights):
        return failed(f"reward_weights {weights}: below 0 the reward is a penalty", "leave it so if that is meant",
                      severity="tell")  # fmt: skip
    if any(not weight for weight in weights):
        return failed(
            f"reward_weights {weights}: a weight of 0 pays nothing",
            "leave the reward out, or weigh it",
            severity="tell",
        )
    return passed(f"reward_weights {weights}")


def linted(run: Run) -> dict:
    """What `rewards.py lint` says, on the first rows of the dataset."""
    if "lint" not in run.cache:
        names = [path for path, entry in described(run).items() if "error" not in entry]
        if not names:
            raise config.NotKnown("no reward could be imported", "see reward-import")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.jsonl"
            path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows_of(run)[:LINT_ROWS]), "utf-8")
            budget = run.options.reward_budget_s if run.options is not None else 60

            def one(name: str) -> dict | CommandFailed:
                where, bound = REGISTRY.get(name, (name, {}))
                if bound:
                    return CommandFailed(f"TRL's own, bound to {bound}; lint takes no settings of a factory")
                arguments = ["rewards.py", "lint", str(path), "--reward", where, "--rows", str(LINT_ROWS), "--json"]
                try:
                    return command(arguments, budget)[1]["rewards"]
                except CommandFailed as error:
                    return error

            with ThreadPoolExecutor(2) as threads:
                run.cache["lint"] = dict(zip(names, threads.map(one, names)))
    return run.cache["lint"]


@check(
    "reward-lint",
    "rewards",
    "dead",
    "what `rewards.py lint` finds: raises, hangs, does not tell right from wrong, is slow",
    "rewards.py lint; each finding has its own severity",
)
def reward_lint(run: Run) -> list[Outcome]:
    found = []
    for path, checks in linted(run).items():
        if isinstance(checks, CommandFailed):
            command_line = f"python scripts/rewards.py lint {run.cache.get('source', 'FILE')} --reward {path}"
            found.append(unmeasured(f"{path}: {checks}", command_line, waive=f"reward-lint:{path}"))
            continue
        for finding in next(iter(checks.values())):
            name = f"reward-lint:{path}:{finding['check']}"
            said = f"{path}, {finding['check']}: {finding['evidence']}"
            if finding["verdict"] == "fail":
                found.append(failed(said, finding["fix"], severity=finding["severity"], waive=name))
            elif finding["verdict"] != "pass":
                found.append(unmeasured(said, finding["fix"], severity=finding["severity"], waive=name))
        bad = {one["check"] for one in next(iter(checks.values())) if one["verdict"] != "pass"}
        if not bad:
            found.append(
                passed(f"{path}: {len(next(iter(checks.values())))} checks on {min(len(run.rows), LINT_ROWS)} rows")
            )
    return found


@check(
    "reward-speed",
    "rewards",
    "waste",
    "the rewards of one generation batch take longer than 30 s, while every GPU waits",
    "verl#6673; 30 s is judgement, and above ddp_timeout the job dies",
)
def reward_speed(run: Run) -> Outcome:
    total, said = 0.0, []
    local = run.generation_batch() / run.world
    for path, checks in linted(run).items():
        finding = (
            None
            if isinstance(checks, CommandFailed)
            else next((one for one in next(iter(checks.values())) if one["check"] == "speed"), None)
        )
        rate = re.search(r"(\d+) completions a second", finding["evidence"]) if finding else None
        if not rate:
            raise config.NotKnown(f"{path}: its speed was not measured", "see reward-lint")
        seconds = local / max(int(rate[1]), 0.5)
        total += seconds
        said.append(f"{path} {seconds:.2g} s")
    evidence = f"{local:g} completions on each process cost {total:.2g} s ({', '.join(said)}, each on one core here)"
    if total > run.get("ddp_timeout"):
        return failed(f"{evidence}, above ddp_timeout {run.get('ddp_timeout')} s: the other ranks give up",
                      "make the reward async or bound its work", severity="dead")  # fmt: skip
    return failed(evidence, "make the reward async or bound its work") if total > 30 else passed(evidence)


# ---- 7 memory


@check("memory", "memory", "dead", "the planned peak does not fit the card", "estimate_memory.py, traced on TRL 1.16")
def memory(run: Run) -> Outcome:
    options = run.options
    if not options.gpu and not options.device_gib:
        return unmeasured("no card was named", "--gpu NAME, such as h100-80gb, or --device-gib GIB")
    for name in MEMORY_SETTINGS:
        if name != "dtype" or run.settings.unread.get("dtype") != CHECKPOINT:
            run.get(name)  # raises what is not known
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grpo.yaml"
        path.write_text(config.known_as_yaml(run.settings), "utf-8")
        arguments = [
            "estimate_memory.py",
            "--config",
            str(path),
            "--model",
            str(options.model or run.get("model_name_or_path")),
        ]
        arguments += ["--gpu", options.gpu] if options.gpu else ["--device-gib", str(options.device_gib)]
        arguments += ["--gpus", str(run.world)] if run.world > 1 else []
        arguments += ["--sharding", options.sharding] if options.sharding else []
        if run.settings.unread.get("dtype") == CHECKPOINT:
            found = model_config(run)
            arguments += ["--dtype", str(found.get("dtype") or found.get("torch_dtype") or "float32")]
        guess = ""
        try:
            arguments += ["--prompt", str(longest_prompt(run)[0])]
        except config.NotKnown:
            guess = "; prompts of 512 tokens are assumed, as theirs are not known"
        try:
            code, answer = command([*arguments, "--json"], 60)
        except CommandFailed as error:
            said = str(error).replace(str(path), run.settings.path.name)
            return unmeasured(f"estimate_memory.py: {said}", "mend what it names, or plan by hand")
    peak, fits = answer.get("peak_bytes"), answer.get("verdict")
    said = f"verdict {fits!r}" + (f", peak {peak / 2**30:.1f} GiB" if isinstance(peak, int | float) else "") + guess
    shown = " ".join(
        ["python scripts/estimate_memory.py", "--config", run.settings.path.name, *arguments[3:], "--levers"]
    )
    return passed(said) if code == 0 else failed(said, f"see what would help: {shown}")


CHECKPOINT = "the checkpoint's own"  # dtype of a model object in a script
MEMORY_SETTINGS = (
    "per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation", "generation_batch_size",
    "num_generations", "max_completion_length", "use_peft", "lora_r", "lora_target_modules", "load_in_4bit",
    "use_bnb_nested_quant", "dtype", "model_init_kwargs", "attn_implementation", "bf16", "fp16", "beta", "optim",
    "gradient_checkpointing", "activation_checkpointing", "use_vllm", "vllm_mode", "vllm_gpu_memory_utilization",
    "vllm_max_model_length", "vllm_enable_sleep_mode", "vllm_tensor_parallel_size",
)  # fmt: skip
SAMPLING_SETTINGS = ("model_name_or_path", "num_generations", "temperature", "max_completion_length", "top_p", "top_k",
                     "min_p", "repetition_penalty", "chat_template_kwargs", "generation_kwargs",
                     "reward_weights")  # fmt: skip


# ---- 8 gates


def gate(run: Run) -> tuple[int, dict]:
    """`inspect_rewards.py gate` on the run's own settings."""
    if "gate" not in run.cache:
        for name in SAMPLING_SETTINGS:
            run.get(name)  # raises what is not known
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / run.settings.path.with_suffix(".yaml").name
            text = config.known_as_yaml(run.settings, {"reward_funcs"})
            names = rewards_of(run)
            path.write_text(text + f"reward_funcs: {json.dumps(names)}\n", "utf-8")
            arguments = ["inspect_rewards.py", "gate", "--dir", run.options.inspection, "--config", str(path), "--json"]
            code, answer = command(arguments, 120)
            said = json.dumps(answer).replace(str(path), str(run.settings.path))
            run.cache["gate"] = code, json.loads(said)
    return run.cache["gate"]


def inspected(run: Run) -> dict:
    folder = Path(run.options.inspection)
    if not (folder / "scores.json").is_file():
        raise config.NotKnown(
            f"{folder}: no sampled and scored completions", SAMPLE_FIRST.format(config=run.settings.path)
        )
    try:
        return gate(run)[1]
    except CommandFailed as error:
        raise config.NotKnown(f"inspect_rewards.py: {error}", "mend what it names") from None


SAMPLE_FIRST = "python scripts/inspect_rewards.py sample PROMPTS --config {config} --endpoint URL --model M; then score"


@check(
    "success-rate",
    "rewards",
    "dead",
    "the model solves nothing yet (fine-tune first), or everything (nothing to learn)",
    "the sampled completions",
)
def success_rate(run: Run) -> Outcome:
    rate = inspected(run).get("success_rate")
    if not rate:
        raise config.NotKnown("no completion has a reward", "inspect_rewards.py score")
    said = f"{rate['value']:.0%} of {rate['n']} sampled completions are paid ({rate['low']:.0%} to {rate['high']:.0%})"
    if rate["high"] < 0.02 or rate["value"] == 0:
        return failed(said, "supervised fine-tuning first, or easier prompts")
    if rate["value"] == 1:
        return failed(said, "harder prompts: nothing is left to learn")
    return passed(said)


@check(
    "dead-groups",
    "rewards",
    "waste",
    "more than half of the groups would have equal rewards",
    "sampled groups; 0.5 is judgement",
)
def dead_groups(run: Run) -> Outcome:
    found = inspected(run)
    size = run.get("num_generations")
    share = (found.get("dead_groups_for") or {}).get(str(size))
    if share is None and found.get("group_size") == size and found.get("dead_groups"):
        share = found["dead_groups"]["value"]
    if share is None:
        fix = f"sample groups of {size}: inspect_rewards.py sample --num-generations {size}"
        raise config.NotKnown(f"dead groups of {size} cannot be told from the sampled groups", fix)
    others = ", ".join(f"{key}: {value:.0%}" for key, value in found["dead_groups_for"].items() if value is not None)
    said = f"{share:.0%} of groups of {size} would be dead (by size {others})"
    return (
        failed(said, "prompts that pass 20-80 % of the time; a larger num_generations") if share > 0.5 else passed(said)
    )


@check(
    "cut-completions",
    "rewards",
    "waste",
    "a fifth or more of the sampled completions were cut at the limit",
    "trl#6263, trl#5759; 0.2 is judgement, 0.5 is dead",
)
def cut_completions(run: Run) -> Outcome:
    found = inspected(run)
    clipped = found.get("clipped")
    if not clipped:
        raise config.NotKnown("the sampled completions do not say whether they were cut", "sample from an endpoint")
    said = f"{clipped['value']:.0%} of {clipped['n']} sampled completions were cut ({run.say('max_completion_length')})"
    if clipped["value"] < 0.2:
        return passed(said)
    return failed(
        said, "raise max_completion_length, and sample again", severity="dead" if clipped["value"] >= 0.5 else None
    )


@check(
    "inspection",
    "gates",
    "dead",
    "nobody has read the outputs beside the rewards, or something changed since",
    "the Inspection Rule",
)
def inspection(run: Run) -> Outcome:
    folder = Path(run.options.inspection)
    if not folder.is_dir():
        return unmeasured(
            f"{folder}: no inspection record", SAMPLE_FIRST.format(config=run.settings.path) + "; label; report; gate"
        )
    answer = inspected(run)
    if answer["gate"] == "go":
        low = answer["agreement"]["low"]
        return passed(
            f"{answer['labels']['human']} labels by people, agreement at least {low:.0%}, nothing changed since"
        )
    return failed(
        "; ".join(answer["reasons"]),
        f"python scripts/inspect_rewards.py label --dir {folder} --labeller NAME, then report and gate",
    )


@check(
    "calibration",
    "gates",
    "dead",
    "a judge pays a reward, and no record holds it to people's labels",
    "calibrate_judge.py",
)
def calibration(run: Run) -> list[Outcome] | Outcome:
    judges = {path: entry["judge"] for path, entry in described(run).items() if entry.get("judge")}
    if not judges:
        return passed("no reward asks a judge")
    make = "python scripts/calibrate_judge.py split, run, open; then --calibration calibration.json"
    return [
        passed(f"{path}: {run.options.calibration} vouches for its judge and rubric") if entry["problem"] is None
        else failed(f"{path}: {entry['problem']}", make, waive=f"calibration:{path}")
        for path, entry in judges.items()
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="preflight_data.py", description="Import rewards and say what they take. A helper of preflight.py.",
        epilog="example:\n  python scripts/preflight_data.py describe correctness_reward\n\n"
        "exit codes: 0 = ok, 2 = bad usage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("what", choices=["describe"])
    parser.add_argument("rewards", nargs="+", metavar="REWARD", help="a reward of rewards.py, or module.function")
    options = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):  # what a user's module prints is not data
        found = describe(options.rewards)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
