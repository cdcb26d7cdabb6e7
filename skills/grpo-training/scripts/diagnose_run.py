#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "pyarrow", "pyyaml", "jinja2", "matplotlib"]
# ///
"""What is wrong with a GRPO run of TRL 1.16, from what it wrote: the log, and the completions.

Reads an output directory (finished, stopped or still written to), a checkpoint, a trainer_state.json, a bare
log_history, or an export of wandb or trackio as CSV or JSONL. Findings come in the order of what they waste, each with
what was seen, the threshold, causes and how to tell them apart, what to set, and what it is not.
"""

import argparse
import csv
import datetime
import hashlib
import json
import math
import os
import re
import sys
import textwrap
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
EXIT_CODES = """exit codes: 0 = nothing dead or waste, 1 = a dead or waste finding, or nothing could be measured,
2 = bad usage or input; with --watch: 1 = a dead finding lasted, or the run ended and is as above, 3 = nothing was
written or there for --give-up seconds"""
CHUNK = 1 << 20  # characters read at a time
GENERATOR = '<meta name="generator" content="diagnose_run.py">'  # the mark of its pages
LONGEST = 16 << 20  # characters of one row of a log; longer ones are no log rows
METRICS = 500  # more names than that are not a log of TRL: of others the first are kept
TRL_NAMES = re.compile(
    r"(eval_)?(loss|grad_norm|learning_rate|reward|reward_std|frac_reward_zero_std|entropy|entropy_coef|kl|step_time"
    r"|num_tokens|aux_loss|policy_loss|cispo_clip_ratio|train_\w+|(completions|clip_ratio|sampling|tools|rewards)/.*)"
)
STEPS = ("global_step", "step", "_step")  # names of the step, the best first: `_step` of W&B counts rows, not steps
RUNS = ("run", "run_name", "run_id", "Name")  # columns of an export that say which run a row is of
TEXT_MOST = 200_000  # characters kept of one text (judgement); the signs in it are looked for in these
TEXT_FILES = 64  # files whose texts are read; the numbers of all are (judgement)
SILENT = 3  # the exit code of a watch to which nothing was written
RETRIES = 3  # looks at a file that cannot be read before that is an error
QUIET = 600  # seconds without a write after which a run counts as stopped (judgement)
TOGETHER = 60  # seconds: files closer than that were written or copied together (judgement)


class Usage(ValueError):
    """Bad usage or input; the message is one line: what, where, how to mend it."""


# ---- the log


class Log:
    """Series by metric, as flat arrays: a row of a long run is not kept.

    A later row replaces what an earlier run or an earlier try wrote for the same or a later step.

    >>> log = Log()
    >>> for step in (1, 2, 3, 2): log.add({"step": step, "reward": step / 10, "loss": None})
    >>> list(log.steps["reward"]), log.restarts
    ([1.0, 2.0], [2.0])
    """

    def __init__(self, export: bool = False, choice: str | None = None):
        self.choice = choice  # the one run of an export that is wanted
        self.runs: dict[str, None] = {}  # the runs that it names
        self.kind = len(STEPS)  # which of STEPS counts in this log: they are never mixed
        self.mixed = 0  # rows left out for that
        self.dropped: set[str] = set()
        self.steps: dict[str, array] = {}
        self.values: dict[str, array] = {}
        self.export = export  # in an export an empty cell is a metric that this row does not have
        self.rows = 0  # rows of training
        self.last = -math.inf
        self.restarts: list[float] = []
        self.ended = False  # the summary row of the end was there
        self.nulls = False
        self.strange = 0  # values that are neither numbers nor null
        self.evals: set[float] = set()
        self.plans: dict[tuple, tuple] = {}

    def plan(self, row: dict) -> tuple:
        """Which of a row's names are steps, and which are metrics: rows of one kind share it."""
        keys = tuple(row)
        known = self.plans.get(keys)
        if known is None:
            if len(self.plans) > METRICS:
                self.plans.clear()
            names = {raw: name for raw in keys if (name := metric_name(raw)) is not None}
            of = {raw: run_of(raw) for raw in names}
            self.runs |= dict.fromkeys(run for run in of.values() if run)
            if self.choice and any(of.values()):
                names = {raw: name for raw, name in names.items() if of[raw] in (None, self.choice)}
            labels = [raw for raw in RUNS if raw in keys]
            steps = [(raw, place) for place, want in enumerate(STEPS) for raw, name in names.items() if name == want]
            taken = {raw for raw, _ in steps} | set(labels)
            metrics = [(raw, name) for raw, name in names.items() if raw not in taken and not name.startswith("train_")]
            twice: dict[str, str] = {}
            for raw, name in metrics:
                if name in twice and len(self.runs) < 2:
                    raise Usage(f"two columns are {name}: {twice[name]} and {raw}; which one? Take the other out")
                twice[name] = raw
            ends = [raw for raw, name in names.items() if name == "train_runtime"]
            lengths = [raw for raw, name in names.items() if name == "completions/mean_length"]
            known = self.plans[keys] = (steps, metrics, ends, lengths, labels)
        return known

    def add(self, row: dict) -> None:
        steps, metrics, ends, lengths, labels = self.plan(row)
        for raw in labels:
            if row[raw] not in (None, ""):
                self.runs[str(row[raw])] = None
                if self.choice and str(row[raw]) != self.choice:
                    return
                break
        if len(self.runs) > 1 and not self.choice:
            return  # `chosen` asks which
        if self.export and not any(number(row[raw]) is not None for raw, _ in metrics) and not any(
            number(row[raw]) is not None for raw in ends
        ):  # fmt: skip
            return  # a table or a picture that was logged by itself: no row of training
        there = ((number(row[raw]), place) for raw, place in steps)
        step, kind = next(((value, place) for value, place in there if value is not None and math.isfinite(value)),
                          (None, self.kind))  # fmt: skip
        if kind < self.kind:
            if self.steps:
                self.mixed, self.rows, self.last = self.mixed + self.rows, 0, -math.inf
                self.forget(-math.inf)
            self.kind = kind
        elif kind > self.kind:  # W&B's own counter, in a log that has the trainer's step
            step = None
        if step is None:
            step = self.last if self.kind < len(STEPS) and math.isfinite(self.last) else float(self.rows + 1)
        if step < self.last:
            self.restarts.append(step)
            self.forget(step)
        self.last = step
        self.ended = self.ended or any(number(row[raw]) is not None for raw in ends)
        training = False
        for raw, name in metrics:
            value = row[raw]
            if type(value) is not float:
                if value is None or value == "":
                    # an export leaves a cell empty for want of the metric; TRL's own log says null for NaN
                    generated = any(number(row[one]) is not None for one in lengths)
                    if self.export and not (name == "reward" and generated):
                        continue
                    value, self.nulls = math.nan, True
                else:
                    raw_value, value = value, number(value)
                    if value is None:
                        self.strange += not (self.export and isinstance(raw_value, dict | list))  # a table, a picture
                        continue
            if name not in self.steps:
                if len(self.steps) >= (4 if TRL_NAMES.fullmatch(name) else 1) * METRICS:
                    if len(self.dropped) < 100 * METRICS:
                        self.dropped.add(name)
                    continue
                self.steps[name], self.values[name] = array("d"), array("d")
            taken = self.steps[name]
            if taken and taken[-1] == step:
                self.values[name][-1] = value
            else:
                taken.append(step)
                self.values[name].append(value)
            if name in ("loss", "grad_norm", "reward"):
                training = True
            elif name.startswith("eval_"):
                self.evals.add(step)
        if training:
            self.rows += 1
            self.ended = False

    def forget(self, step: float) -> None:
        for name, steps in self.steps.items():
            cut = bisect_left(steps, step)
            del steps[cut:], self.values[name][cut:]
        self.evals = {one for one in self.evals if one < step}


def run_of(raw: str) -> str | None:
    """The run that a column of a panel's export names.

    >>> run_of("my run - train/kl"), run_of("train/kl"), run_of("b - train/kl__MAX")
    ('my run', None, None)
    """
    found = re.fullmatch(r"(.+) - (?:train|eval)/.+", raw)
    return found[1] if found and not raw.endswith(("__MIN", "__MAX")) else None


def chosen(log: Log, name: str) -> Log:
    """The log, if it is of one run.

    Raises:
        Usage: several runs and none was chosen, or another was.
    """
    choices = ", ".join(list(log.runs)[:8]) + (f" and {len(log.runs) - 8} more" if len(log.runs) > 8 else "")
    if log.choice is None and len(log.runs) > 1:
        raise Usage(f"{name}: {len(log.runs)} runs in one export; which run? --run NAME, one of: {choices}")
    if log.choice is not None and log.choice not in log.runs:
        raise Usage(f"{name}: no run {log.choice} in it; " + (f"--run takes one of: {choices}" if log.runs else
                    "it names no runs, leave --run out"))  # fmt: skip
    return log


def number(value: Any) -> float | None:
    """A number, also where an export wrote it as text; None for what is none.

    >>> number("1e-3"), number("Infinity"), number("a"), number(None)
    (0.001, inf, None, None)
    """
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str):
        try:
            return float(value.strip())
        except ValueError:
            return None
    return None


def metric_name(raw: str) -> str | None:
    """TRL's name of a column of an export; None for what is no metric.

    >>> metric_name("train/reward"), metric_name("eval/reward"), metric_name("my run - train/kl"), metric_name("Step")
    ('reward', 'eval_reward', 'kl', 'step')
    >>> metric_name("my run - train/kl__MAX") is None
    True
    """
    name = str(raw)
    if name.endswith(("__MIN", "__MAX")) or name in ("_runtime", "_timestamp", "timestamp", "epoch"):
        return None
    found = re.search(r"(?:^| - )(train|eval)/(.+)$", name)
    if found:
        return found[2] if found[1] == "train" else f"eval_{found[2]}"
    return "step" if name in ("Step", "step") else name


class Text:
    """A file as a buffer that is read on: `raw_decode` takes rows from it, NaN and Infinity included."""

    def __init__(self, path: Path):
        self.file = path.open(encoding="utf-8-sig", errors="replace")
        self.buffer, self.place, self.ended = "", 0, False
        self.more()

    def more(self) -> bool:
        if self.ended:
            return False
        chunk = self.file.read(CHUNK)
        self.ended = not chunk
        self.buffer, self.place = self.buffer[self.place :] + chunk, 0
        return bool(chunk)

    def skip(self, characters: str) -> str:
        """Move past these; the next character, or "" at the end."""
        while True:
            while self.place < len(self.buffer) and self.buffer[self.place] in characters:
                self.place += 1
            if self.place < len(self.buffer):
                return self.buffer[self.place]
            if not self.more():
                return ""


def rows_of(text: Text, lines: bool, problems: list[str], name: str) -> Iterator[Any]:
    """Values of a JSON list (after its bracket), or of lines. What does not parse is said, never raised."""
    decode = json.JSONDecoder().raw_decode
    count, bad = 0, 0
    while True:
        next_one = text.skip(" \t\r\n,")
        if not next_one or (next_one == "]" and not lines):
            if not next_one and not lines:
                problems.append(f"{name}: cut off after {count} rows; these were read")
            if bad:
                problems.append(f"{name}: {bad} lines are not JSON and were left out; {count} were read")
            text.place += bool(next_one)
            return
        try:
            value, text.place = decode(text.buffer, text.place)
        except (json.JSONDecodeError, RecursionError):
            if len(text.buffer) - text.place < LONGEST and text.more():
                continue
            if not lines:
                kind = "cut off" if text.ended else "not JSON"
                problems.append(f"{name}: {kind} after {count} rows; these were read")
                return
            bad += 1
            while True:
                end = text.buffer.find("\n", text.place)
                if end >= 0:
                    text.place = end + 1
                    break
                text.place = len(text.buffer)
                if not text.more():
                    break
            continue
        count += 1
        yield value


def read_json(path: Path, problems: list[str], choice: str | None = None) -> tuple[Log, dict]:
    """A trainer_state.json, a bare list of rows, or rows as lines: the log, and what stands around it."""
    text = Text(path)
    name = path.name
    first = text.skip(" \t\r\n")
    around: dict[str, Any] = {}
    if first == "{":
        found = re.search(r'"log_history"\s*:\s*\[', text.buffer)
        if found:
            head = text.buffer[: found.start()]
            text.place = found.end()
            log = fill(Log(), rows_of(text, False, problems, name), name)
            tail = text.buffer[text.place :] + ("" if text.ended else text.file.read(LONGEST))
            for whole in (head + '"log_history": []' + tail, head.rstrip().rstrip(",") + "}"):
                try:
                    around = json.loads(whole)
                    break
                except (json.JSONDecodeError, RecursionError):
                    continue
        else:
            export = '"train/' in text.buffer or '"_step"' in text.buffer
            log = fill(Log(export, choice), rows_of(text, True, problems, name), name)
    elif first == "[":
        text.place += 1
        export = '"train/' in text.buffer or '"_step"' in text.buffer
        log = fill(Log(export, choice), rows_of(text, False, problems, name), name)
    else:
        text.file.close()
        raise Usage(
            f"{path}: neither JSON nor CSV; give trainer_state.json, its log_history, or an export as CSV or JSONL"
        )
    text.file.close()
    if not isinstance(around, dict):
        around = {}
    return chosen(log, name), around


def fill(log: Log, rows: Iterator[Any], name: str) -> Log:
    other, seen = 0, 0
    for row in rows:
        seen += 1
        if isinstance(row, dict):
            log.add(row)
        else:
            other += 1
    if other:
        log.strange += other
        if other == seen:
            raise Usage(f"{name}: {other} values and none is a row with names; give a list of rows such as"
                        ' {"step": 1, "reward": 0.5}')  # fmt: skip
    return log


def read_csv(path: Path, problems: list[str], choice: str | None = None) -> tuple[Log, dict]:
    csv.field_size_limit(LONGEST)
    log = Log(export=True, choice=choice)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        try:
            for row in csv.DictReader(file):
                row.pop(None, None)  # more cells than names
                log.add(row)
        except csv.Error as error:
            problems.append(f"{path.name}: not CSV after {log.rows} rows ({error}); these were read")
    chosen(log, path.name)
    if not log.steps:
        raise Usage(f"{path}: no column with numbers under a metric's name; export the run's history with its columns")
    return log, {}


def read_log(path: Path, problems: list[str], choice: str | None = None) -> tuple[Log, dict]:
    """By what the file holds, not only by its name."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise Usage(f"{path}: cannot be opened ({error.strerror or error})") from None
    if not head.strip():
        raise Usage(f"{path}: empty; is the run still writing it?")
    if b"\0" in head:
        raise Usage(f"{path}: not text; give trainer_state.json, a log_history, or an export as CSV or JSONL")
    first = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if path.suffix.lower() in (".yaml", ".yml", ".py"):
        raise Usage(f"{path}: a config, not a run; give the output directory, and this with --config")
    if path.suffix.lower() == ".csv" or (first not in (b"{", b"[") and b"," in head.splitlines()[0]):
        return read_csv(path, problems, choice)
    return read_json(path, problems, choice)


# ---- where things are


STEP = re.compile(r"completions_(\d+)(?:\D.*)?\.parquet$")


def checkpoints(folder: Path) -> list[Path]:
    """trainer_state.json files, the newest first. Copied together, the later step counts as newer."""
    found = [(math.inf, folder / "trainer_state.json")]
    found += [(int(one.parent.name[11:]), one) for one in folder.glob("checkpoint-*/trainer_state.json")
              if one.parent.name[11:].isdigit()]  # fmt: skip
    there = []
    for step, path in found:
        try:
            there.append((path.stat().st_mtime, step, path))
        except OSError:
            continue
    there.sort(key=lambda one: (one[1], one[0]), reverse=True)
    if there:
        newest = max(one[0] for one in there)
        there.sort(key=lambda one: newest - one[0] > TOGETHER)  # stable: what is much older goes last
    return [path for _, _, path in there]


def parquets(folder: Path) -> tuple[list[tuple[int, Path]], list[str], int]:
    """Completions files by step, what was left out, and how many of these are of an earlier run."""
    found, problems, old = {}, [], []
    for path in sorted(folder.glob("*.parquet")):
        match = STEP.search(path.name)
        if not match:
            continue
        try:
            written = path.stat().st_mtime
        except OSError:
            continue
        step = int(match[1])
        if step in found:
            problems.append(f"{path.name}: step {step} is there twice; the later file was taken")
            if found[step][0] > written:
                continue
        found[step] = (written, path)
    if found:
        newest, last = max((written, step) for step, (written, _) in found.items())
        old = [step for step, (written, _) in found.items() if step > last and newest - written > TOGETHER]
        if old:
            problems.append(
                f"{len(old)} completions files above step {last} are older than it: of an earlier run; left out"
            )
            for step in old:
                del found[step]
    return [(step, found[step][1]) for step in sorted(found)], problems, len(old)


class Place:
    """The files of one run."""

    def __init__(self, path: Path):
        self.path = path
        self.states: list[Path] = []
        self.log: Path | None = None
        self.completions: Path | None = None
        self.files: list[tuple[int, Path]] = []
        self.problems: list[str] = []
        self.until: int | None = None
        self.old = 0  # files of an earlier run in this folder
        self.written: dict[int, float] = {}  # when the file of a step was written
        if path.is_file():
            if path.name == "trainer_state.json":
                self.states = [path]
            elif path.suffix == ".parquet":
                self.files = [(int(match[1]) if (match := STEP.search(path.name)) else 0, path)]
            else:
                self.log = path
            return
        if not path.is_dir():
            raise Usage(f"{path}: not there; give a run's output directory or one of its files")
        home = path.parent if re.fullmatch(r"checkpoint-\d+", path.name) else path
        if home != path:
            self.until = int(path.name[11:])
            self.states = [path / "trainer_state.json"] if (path / "trainer_state.json").is_file() else []
        else:
            self.states = checkpoints(path)
        self.completions = home / "completions" if (home / "completions").is_dir() else home
        self.files, self.problems, self.old = parquets(self.completions)
        for step, file in self.files:
            try:
                self.written[step] = file.stat().st_mtime
            except OSError:
                self.written[step] = 0.0
        if self.until is not None:
            self.files = [one for one in self.files if one[0] <= self.until]
        if not self.states:
            logs = [one for one in sorted(path.iterdir()) if one.is_file() and (
                one.suffix in (".csv", ".jsonl") or one.name == "log_history.json")]  # fmt: skip
            if len(logs) == 1:
                self.log = logs[0]
            elif logs and not self.files:
                raise Usage(f"{path}: several logs ({', '.join(one.name for one in logs[:5])}); name one")
        if not self.states and not self.files and self.log is None:
            below = [one.name for one in sorted(path.iterdir()) if one.is_dir() and (
                (one / "trainer_state.json").is_file() or (one / "completions").is_dir())]  # fmt: skip
            hint = f"runs lie below it: {', '.join(below[:5])}; name one" if below else (
                "no trainer_state.json, no completions/*.parquet; set log_completions=True, or wait for the first "
                "checkpoint")  # fmt: skip
            raise Usage(f"{path}: {hint}")

    def signature(self) -> tuple:
        """Changes when something was written."""
        found = []
        for path in [*self.states, *([self.log] if self.log else []), *(one for _, one in self.files)]:
            try:
                stat = path.stat()
                found.append((str(path), stat.st_mtime_ns, stat.st_size))
            except OSError:
                continue
        return tuple(found)

    def overwritten(self, written: float, end: float) -> bool:
        """Whether a log written then, up to that step, is of an earlier run: completions of lower steps are newer.

        Files that were copied one after the other are a short while apart, so the newest must all be of lower steps,
        or all newer by much.
        """
        newer = {step: when for step, when in self.written.items() if when - written > TOGETHER}
        if self.until is not None or not any(step < end for step in newer):
            return False
        return max(newer) < end or min(newer.values()) - written > QUIET

    def newest(self) -> float:
        return max((one[1] / 1e9 for one in self.signature()), default=0.0)


# ---- the completions


def read_parquet(step: int, path: Path, names: list[str], options: dict, with_texts: bool):
    """A Batch of one file, or a sentence that says why not."""
    import diagnose_checks as checks
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, ValueError) as error:
        young = time.time() - path.stat().st_mtime < TOGETHER if path.exists() else True
        return (
            f"{path.name}: {'still being written' if young else 'half written or damaged'} ({_short(error)}); left out"
        )
    except OSError as error:
        return f"{path.name}: cannot be opened ({error.strerror or _short(error)}); left out"
    with file:
        schema = file.schema_arrow
        if "advantage" not in schema.names and "completion" not in schema.names:
            return f"{path.name}: no column advantage or completion: not written by TRL; left out"
        rewards = [name for name in schema.names if name in names]  # TRL writes them in the order of reward_funcs
        if not rewards:
            rewards = reward_columns(schema)
        wanted = [*rewards, *(["advantage"] if "advantage" in schema.names else [])]
        if with_texts:
            wanted = [name for name in schema.names if name != "step" and not name.startswith("__index")]
        else:
            wanted += ["completion"] * ("completion" in schema.names)  # never looked into, only compared
            wanted += ["prompt"] * (options["size"] is None and "prompt" in schema.names)
        try:
            table = file.read(columns=wanted)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            return f"{path.name}: damaged ({_short(error)}); left out"
        columns = {name: table.column(name).to_pylist() for name in wanted if with_texts or name != "completion"}
        trouble = []
        for name in rewards + ["advantage"] * ("advantage" in columns):
            before = columns[name]
            columns[name] = [number(value) for value in before]
            if lost := sum(old is not None and new is None for old, new in zip(before, columns[name])):
                trouble.append(f"{path.name}: {lost} of {len(before)} values of the column {name} are no numbers")
                if name in rewards:  # the sum without one of them is not what was paid
                    rewards = []
                else:
                    columns.pop(name)
        if trouble:
            trouble[-1] += "; its rewards were not read" if not rewards else "; left out"
        if with_texts:
            texts = columns.get("completion", [])
            for name in {"prompt", "completion"} & set(columns):
                columns[name] = [plain(value) for value in columns[name]]
            if texts and not any(checks.text_of(value).strip() for value in columns["completion"]):
                trouble.append(f"{path.name}: no completion holds text; what is looked for in texts was not")
                with_texts = False
        batch = checks.batch(
            step, columns, rewards, options["size"], options["weights"], path.name, options["separate"], with_texts
        )
        batch.digest, batch.trouble = fingerprint(table), trouble
    return batch


def plain(value: Any) -> Any:
    """A completion or prompt with each message's content as one text; parts and tool calls are written out.

    >>> plain([{"role": "assistant", "content": [{"type": "text", "text": "4"}, {"type": "image"}]}])
    [{'role': 'assistant', 'content': '4 [image]'}]
    >>> plain([{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}])
    [{'role': 'assistant', 'content': 'f({})'}]
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value[:TEXT_MOST]
    if isinstance(value, list):
        return [{"role": one.get("role"), "content": _said(one)} if isinstance(one, dict) and "content" in one else
                one for one in value]  # fmt: skip
    return value


def _said(message: dict) -> str:
    """What one message says: its text, its parts, its tool calls."""
    content, said = message.get("content"), []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict):
            said.append(str(part.get("text") or f"[{part.get('type') or 'part'}]"))
        elif part is not None:
            said.append(str(part))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        one = (call.get("function") or call) if isinstance(call, dict) else {"name": call}
        arguments = one.get("arguments") if isinstance(one, dict) else ""
        name = one.get("name") if isinstance(one, dict) else one
        said.append(f"{name}({arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)})")
    return " ".join(part for part in said if part)[:TEXT_MOST]


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:100]


def reward_columns(schema) -> list[str]:
    """Columns of numbers that are not TRL's own. Only a log can say which of them are rewards and which were logged."""
    import pyarrow.types as types

    found = []
    for one in schema:
        own = one.name not in ("step", "advantage") and "/" not in one.name and not one.name.startswith("__index")
        if own and (types.is_floating(one.type) or types.is_integer(one.type)):
            found.append(one.name)
    return found


def fingerprint(table) -> str:
    """The same for files that hold the same generation: TRL writes one with every row of the log."""
    digest = hashlib.blake2b(digest_size=12)
    for column in table.columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                if buffer is not None:
                    digest.update(buffer)
    return digest.hexdigest()


# ---- a run


def _whole(value: Any) -> bool:
    return type(value) is int and value > 0


SETTINGS = (  # settings that are counted with: what they must be
    ("reward_weights", lambda value: isinstance(value, list) and all(
        type(one) in (int, float) and math.isfinite(one) for one in value), "TRL takes a list of numbers"),
    *((name, _whole, "TRL takes a whole number above 0") for name in (
        "num_generations", "steps_per_generation", "num_iterations", "gradient_accumulation_steps",
        "per_device_train_batch_size", "max_completion_length")),
    ("learning_rate", lambda value: number(value) is not None, "TRL takes a number"),
)  # fmt: skip


def load(path: Path, config: Path | None, rewards: list[str], everything: bool, cache: dict | None = None,
         choice: str | None = None):  # fmt: skip
    """Everything that was read of a run, as a `diagnose_checks.Run`.

    Raises:
        Usage: if there is nothing to read.
    """
    import diagnose_checks as checks
    import numpy as np
    import preflight_config

    cache = {} if cache is None else cache
    place = Place(path)
    run = checks.Run(problems=list(place.problems))
    run.info["folder"] = str(path)
    sources: list[str] = []
    home = place.completions.parent if place.completions and place.completions.name == "completions" else path
    settings_path = config or the_config(home if home.is_dir() else home.parent)
    if settings_path is not None:
        try:
            run.settings = preflight_config.read(settings_path)
            sources.append(str(settings_path))
        except preflight_config.ConfigError as error:
            if config is not None:
                raise Usage(str(error)) from None
            run.problems.append(f"{settings_path.name}: not read as the run's config ({_short(error)})")
    if run.settings is not None:
        for name, fits, want in SETTINGS:
            if run.given(name) and (value := run.known(name)) is not None and not fits(value):
                run.problems.append(f"{settings_path.name}: {name} is {str(value)[:60]!r}; {want}, so it was not used")
                run.settings.wrong[name] = want
            elif run.given(name) and name in run.settings.wrong:
                run.problems.append(f"{settings_path.name}: {name}: {run.settings.wrong[name]}; it was not used")
    log, around, ended, earlier = None, {}, False, None
    for state in place.states:
        trouble: list[str] = []
        try:
            log, around = read_log(state, trouble)
            # A finished log whose steps were not written again may be continued; then it has not ended.
            written = state.stat().st_mtime if state.exists() else math.inf
            end = max(number(around.get("global_step")) or 0, log.last if log.rows else 0)
            if place.overwritten(written, end):
                run.problems.append(f"{state.name}: older than completions of lower steps: of an earlier run; left out")
                place.files = [one for one in place.files if place.written[one[0]] > written]
                log, around, earlier = None, {}, "of an earlier run"
                continue
            ended = not any(place.written[step] - written > TOGETHER for step, _ in place.files if step > end)
        except Usage as error:
            trouble.append(str(error))
        run.problems += trouble
        if log is not None and (log.rows or around):
            sources.append(str(state))
            break
        log = None
    if log is None:  # without a state the plan of the config says when the run has ended, an export its summary
        ended = True
    if cache is not None:
        first = [name for name in ("reward", "loss") if log is not None and log.steps.get(name)][:1]
        cache["origin"] = (first[0], log.steps[first[0]][0], log.values[first[0]][0]) if first else earlier
    if choice is not None and (log is not None or place.log is None):
        raise Usage("--run is for an export that holds several runs; this is one run's own log, leave it out")
    if log is None and place.log is not None:
        log, around = read_log(place.log, run.problems, choice)
        sources.append(str(place.log))
    if log is None and not place.files:
        raise Usage(f"{path}: nothing could be read: {run.problems[0] if run.problems else 'no log'}")
    if log is not None:
        if not log.rows and not place.files and not around:
            raise Usage(f"{path}: no row with loss, grad_norm or reward; is this the log of a GRPO run?")
        run.series = {name: checks.Series(np.array(log.steps[name]), np.array(log.values[name])) for name in log.steps}
        run.info["restarts"] = log.restarts
        if log.strange:
            run.problems.append(f"{log.strange} values are no numbers and were left out")
        if log.mixed:
            run.problems.append(f"{log.mixed} rows have a step of another kind than the rest and were left out")
        if log.dropped:
            first = ", ".join(sorted(log.dropped)[:3])
            run.problems.append(f"{len(log.dropped)} metrics above {METRICS} were left out ({first}, ...); names that "
                                "TRL logs come first")  # fmt: skip
        run.info["nulls"] = log.nulls
        run.info["log_rows"] = log.rows
    for name in ("global_step", "max_steps", "logging_steps", "save_steps", "eval_steps"):
        value = number(around.get(name))
        if value is not None and abs(value) < 1e15:  # NaN is not below either
            run.info[name] = int(value) if value == int(value) else value
    if "logging_steps" not in run.info and run.given("logging_steps"):
        run.info["logging_steps"] = run.known("logging_steps") or 1
    run.info.setdefault("max_steps", run.known("max_steps") if run.given("max_steps") else None)
    done, most = run.info.get("global_step"), run.info.get("max_steps") or 0
    if log is not None and ended and (log.ended or (most > 0 and done is not None and done >= most)):
        run.state = "finished"
        end = done if done is not None else log.last
        later = [one for one in place.files if one[0] > end]
        if later:
            run.problems.append(
                f"{len(later)} completions files above the last step {end:g}: of an earlier run; left out"
            )
            place.files = [one for one in place.files if one[0] <= end]
            place.old += len(later)
    run.info["leftovers"] = place.old
    completions(run, place, log, rewards or run.rewards, everything, sources, cache)
    last = max([log.last if log and log.rows else 0, *(one.step for one in run.batches)], default=0)
    if last and last != run.info.get("global_step"):
        run.info["global_step"] = max(int(last), int(run.info.get("global_step") or 0))
    if ended and most > 0 and (run.info.get("global_step") or 0) >= most:
        run.state = "finished"
    if run.state != "finished" and path.is_dir() and place.until is None:
        run.state = "running" if time.time() - place.newest() < QUIET else "stopped"
    run.info["sources"] = sources
    return run


def the_config(folder: Path) -> Path | None:
    """The one YAML beside a run that could be its config."""
    for name in ("grpo.yaml", "grpo.yml", "config.yaml"):
        if (folder / name).is_file():
            return folder / name
    found = [one for one in (*folder.glob("*.yaml"), *folder.glob("*.yml")) if one.is_file()]
    return found[0] if len(found) == 1 else None


def completions(run, place: Place, log: Log | None, names: list[str], everything: bool, sources: list, cache: dict):
    """Fills `run.batches`, one file at a time; the numbers of all files, the texts of some."""
    files = place.files
    if log is not None and log.evals:
        train = [one for one in files if one[0] not in log.evals]
        if not train:
            run.info["eval_files"] = len(files)
        if len(train) < len(files):
            run.notes.append(f"{len(files) - len(train)} completions files of steps with an evaluation were left out: "
                             "TRL overwrites them with the evaluation's rows")  # fmt: skip
            files = train
    if not files:
        return
    size = run.known("num_generations")
    if run.settings is not None and run.settings.kind == "yaml" and not run.given("num_generations"):
        size = None  # a partial YAML: the prompts say it
    weights = run.known("reward_weights")
    options = {"size": size, "weights": weights if isinstance(weights, list) else None,
               "separate": run.known("multi_objective_aggregation") == "normalize_then_sum"}  # fmt: skip
    count = len(files)
    texts = set(range(count)) if everything or count <= TEXT_FILES else {
        round(one * (count - 1) / (TEXT_FILES - 1)) for one in range(TEXT_FILES)}  # fmt: skip
    before, same, unsure, troubles, unscored = None, 0, False, {}, []
    for place_, (step, path) in enumerate(files):
        with_texts = place_ in texts
        try:
            stat = path.stat()
        except OSError as error:
            run.problems.append(f"{path.name}: gone ({error.strerror})")
            continue
        key = (str(path), stat.st_mtime_ns, stat.st_size, with_texts, options["size"], tuple(names))
        batch = cache.get(key)
        if batch is None:
            batch = read_parquet(step, path, names, options, with_texts)
            if not isinstance(batch, str):
                cache[key] = batch
        if isinstance(batch, str):
            run.problems.append(batch)
            continue
        if batch.digest == before:
            same += 1
            continue
        before = batch.digest
        for one in batch.trouble:
            word = one.partition(": ")[2]
            troubles.setdefault(re.sub(r"\d+ of \d+", "some", word), []).append(path.name)
        if not batch.rows:
            run.problems.append(f"{path.name}: no rows")
            continue
        if not batch.names:
            unscored.append(path.name)
            continue
        if batch.size and batch.size != options["size"]:
            if options["size"] is not None:
                run.problems.append(f"the config says num_generations {options['size']}, the prompts come {batch.size} "
                                    "at a time: the prompts were believed; is it this run's config?")  # fmt: skip
            options["size"] = batch.size
        unsure = unsure or not any(name in names for name in batch.names)
        run.batches.append(batch)
    if unscored:
        run.problems.append(f"{len(unscored)} completions files (the first {unscored[0]}) have no reward that can be "
                            "read, and do not count")  # fmt: skip
    for said, where in troubles.items():
        run.problems.append(f"{len(where)} completions files (the first {where[0]}): {said}")
    sources.append(f"{place.completions or files[0][1].parent} ({len(files)} files)")
    if same:
        run.notes.append(f"{same} completions files repeat the one before: no new generation in between")
    if count > len(texts):
        run.notes.append(f"texts were read in {len(texts)} of {count} completions files; --full reads all")
    if unsure and run.batches:
        run.notes.append(f"no log names the rewards: taken for them were {', '.join(run.batches[-1].names) or 'none'}; "
                         "--rewards names them")  # fmt: skip
    if run.batches and not any(one.groups for one in run.batches):
        run.problems.append("completions per group are not known: give --config, or prompts that differ")
    run.info["size"] = options["size"]
    if len(cache) > 4 * count + 64:  # of a watch that runs for days
        origin = cache.get("origin")
        cache.clear()
        cache["origin"] = origin


def diagnose(path: Path | str, config: Path | None = None, rewards: list[str] = (), everything: bool = False,
             cache: dict | None = None, choice: str | None = None) -> dict:  # fmt: skip
    """The diagnosis of a run, as in `diagnosis.json`; keys are stable.

    Raises:
        Usage: if there is nothing to read; the message is one line.
    """
    import diagnose_checks as checks

    run = load(Path(path), config, list(rewards), everything, cache, choice)
    found = checks.examine(run)
    info = run.info
    known = dict(sorted(run.settings.values.items())) if run.settings is not None else {}
    known = {name: value for name, value in known.items() if not name.endswith("_token")}  # no secrets in a record
    return {
        "schema_version": SCHEMA_VERSION,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "verdict": found["verdict"],
        "run": {
            "folder": info["folder"], "state": run.state, "steps": info.get("global_step"),
            "max_steps": info.get("max_steps"), "rows": info.get("log_rows", 0), "generations": run.generations,
            "parquet_files": len(run.batches), "num_generations": info.get("size") or run.known("num_generations"),
            "logging_steps": info.get("logging_steps"), "config": json.loads(json.dumps(known, default=str)),
            "sources": info["sources"], "problems": run.problems,
        },
        "findings": found["findings"], "not_measured": found["not_measured"], "passed": found["passed"],
        "notes": found["notes"], "curves": checks.curves(run),
    }  # fmt: skip


# ---- what a person reads


def shown_text(text: str) -> str:
    """Text of files and folders, without what drives a terminal or turns the direction of writing.

    >>> shown_text("a\\x1b[31m\\u202eb")
    'a·[31m·b'
    """
    from score_completions import safe

    return safe(text)


def _wrapped(first: str, text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 110, initial_indent=first, subsequent_indent=" " * len(first),
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def as_text(record: dict, everything: bool = False) -> str:
    run, lines = record["run"], []
    names = [one["id"] for one in record["findings"] if one["severity"] != "tell"]
    of = f" of {run['max_steps']}" if run["max_steps"] and run["max_steps"] > 0 else ""
    lines.append(f"{record['verdict'].upper()}{': ' + ', '.join(names) if names else ''}")
    lines += _wrapped("  ", f"{run['folder']}: {run['state']}, step {run['steps']}{of}, {run['rows']} rows, "
                            f"{run['parquet_files']} completions files; {len(record['passed'])} checks passed, "
                            f"{len(record['not_measured'])} not measured")  # fmt: skip
    for problem in run["problems"]:
        lines += _wrapped("  could not read: ", problem)
    for one in record["findings"]:
        lines += ["", f"[{one['severity']}] {one['id']}: {one['title']}"]
        for entry in one["seen"]:
            lines += _wrapped("  seen: ", entry["text"])
        lines += _wrapped("  threshold: ", f"{one['threshold']['text']} ({one['threshold']['source']})")
        for place, reason in enumerate(one["causes"], 1):
            mark = {True: "yes", False: "no", None: "?"}[reason["confirmed"]]
            said = f"{reason['evidence']}" if reason["evidence"] else f"look: {reason['how_to_tell']}"
            if reason["confirmed"] is None and reason["evidence"]:
                said += f"; look: {reason['how_to_tell']}"
            if reason["confirmed"] is False and not everything:
                continue
            lines += _wrapped(f"  cause {place} [{mark}]: ", f"{reason['cause']} ({said})")
        for fix in one["fix"]:
            arguments = ", ".join(f"{name}={value!r}" for name, value in fix.get("set", {}).items())
            lines += _wrapped("  do: ", "; ".join(part for part in (arguments, fix.get("text", "")) if part))
        if one["variant"]:
            lines += _wrapped("  variant: ", f"{one['variant']} (variants.py, row {one['failure']})")
        if one["not"]:
            lines += _wrapped("  not: ", one["not"])
        for row in one["rows"] if everything else one["rows"][:2]:
            text = json.dumps(row["completion"] if everything else row["completion"][:120], ensure_ascii=False)
            lines += _wrapped(
                "  row: ", f"{row['file']} row {row['row']}, reward {row['reward']}, {row['why']}: {text}"
            )
    if record["not_measured"]:
        lines += ["", "not measured:"]
        by_reason: dict[tuple, list] = {}
        for one in record["not_measured"]:
            by_reason.setdefault((one["why"], one["mend"]), []).append(one["id"])
        for (why, mend), ids in by_reason.items():
            lines += _wrapped("  ", f"{', '.join(ids)}: {why}; {mend}")
    if everything:
        lines += ["", "passed:"]
        for one in record["passed"]:
            lines += _wrapped("  ", f"{one['id']}: {one['text']}")
    if record["notes"]:
        lines += ["", "not a fault, or left out:"]
        for note in record["notes"]:
            lines += _wrapped("  ", note)
    return "\n".join(lines)


def exit_code(record: dict) -> int:
    return 0 if record["verdict"] == "ok" else 1


def write(path: Path, text: str) -> None:
    """Atomically: a watch writes it again and again, somebody may be reading."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise Usage(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        part.unlink(missing_ok=True)


def ours(path: Path) -> bool:
    """Whether this command wrote a file: an empty one may be written over as well."""
    if path.stat().st_size == 0:
        return path.is_file()
    text = path.read_text(encoding="utf-8")
    if text.lstrip().startswith("{"):
        record = json.loads(text)
        return {"schema_version", "not_measured", "findings", "verdict", "curves"} <= set(record)
    return GENERATOR in text[:4000]


def check_targets(args: argparse.Namespace) -> None:
    """What is written over must be what this command wrote before."""
    if args.record and args.html and args.record.resolve() == args.html.resolve():
        raise Usage(f"{args.record}: --record and --html name one file; name two")
    for path in (args.record, args.html):
        if path is None:
            continue
        if not path.parent.is_dir():
            raise Usage(f"{path}: there is no folder {path.parent}")
        try:
            fine = not (path.exists() or path.is_symlink()) or ours(path)
        except (OSError, ValueError, RecursionError):
            fine = False
        if not fine:
            raise Usage(f"{path}: is there and was not written by this command, so it is kept; name another file")


def put(record: dict, args: argparse.Namespace) -> None:
    if args.record:
        write(args.record, json.dumps(record, indent=1) + "\n")
    if args.html:
        try:
            import diagnosis_page
        except ImportError as error:
            raise Usage(
                f"--html needs {error.name}: copy diagnosis_page.py too, pip install jinja2 matplotlib"
            ) from None
        write(args.html, diagnosis_page.page(record))


# ---- a live run


def watch(args: argparse.Namespace, say=print) -> int:
    """Looks again when something was written; one line for each change of verdict or findings.

    Returns 1 once a dead finding has stood for `--patience` generations; at the end of the run, as without --watch; 3
    when nothing is written, or nothing is there, for `--give-up` seconds.
    """
    cache: dict = {}
    moved = time.monotonic()
    seen_before = looked = told = origin = before = None
    since: dict[str, int] = {}
    failures = 0  # looks in a row at a file that could not be read: it may be rewritten just then
    while True:
        record = error = None
        try:
            now = Place(args.run).signature()
            if now != seen_before:
                seen_before, moved = now, time.monotonic()
            if now != looked:
                record = diagnose(args.run, args.config, args.rewards, args.full, cache, args.run_name)
                looked, failures = now, 0
        except (Usage, OSError) as problem:
            error, failures = problem, failures + 1
            if args.config and str(args.config) in str(problem):
                raise
            if told is None and failures >= RETRIES and args.run.is_file():
                raise  # it never could be read
        if record is not None:
            put(record, args)
            step = record["run"]["steps"]
            shown = [f"{one['id']} ({one['severity']})" for one in record["findings"]]
            line = (record["verdict"], tuple(shown))
            if line != told:
                say(shown_text(f"step {step}: {record['verdict']}; {', '.join(shown) or 'nothing found'}"), flush=True)
                told = line
            count = record["run"]["generations"]
            now_of = cache.get("origin")
            other = None not in (origin, now_of) and now_of != origin  # the log of another run
            if other or (before is not None and count < before):
                since = {}
            origin, before = now_of or origin, count
            dead = {one["id"] for one in record["findings"] if one["severity"] == "dead"}
            since = {id: since.get(id, count) for id in dead}
            lasting = sorted(id for id, begun in since.items() if count - begun >= args.patience)
            if lasting:
                say(f"step {step}: stop; {', '.join(lasting)} stood for {args.patience} generations", flush=True)
                return 1
            if record["run"]["state"] == "finished":
                say(f"step {step}: the run has ended, {record['verdict']}", flush=True)
                return exit_code(record)
        elif time.monotonic() - moved > args.give_up:
            if told is None:
                why = " ".join(str(error).split()) if error else "is it the run's output_dir?"
                say(shown_text(f"nothing to read after {args.give_up:g} s: {why}"), flush=True)
            else:
                say(f"nothing was written for {args.give_up:g} s: it hangs, was killed, or ended without a last "
                    "checkpoint", flush=True)  # fmt: skip
            return SILENT
        time.sleep(args.watch)


# ---- the command


class Parser(argparse.ArgumentParser):
    """Its messages repeat what was typed."""

    def error(self, message: str):
        super().error(shown_text(" ".join(message.split())))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="diagnose_run.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: diagnose_run.py runs/grpo --config grpo.yaml --html diagnosis.html\n"
        "live:    diagnose_run.py runs/grpo --watch; [ $? = 1 ] && scancel $JOB\n"
        f"long texts: signs are looked for in the first {TEXT_MOST} characters of a text, shared words in 4000 of its "
        "beginning and end\n" + EXIT_CODES,
    )
    parser.add_argument(
        "run",
        nargs="?",
        type=Path,
        metavar="RUN",
        help="output directory, checkpoint-N, trainer_state.json, a bare log_history (JSON), "
        "or an export of wandb or trackio (CSV, JSONL)",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the run's YAML or script, read and not run (a YAML in the directory is found)",
    )
    parser.add_argument(
        "--rewards",
        metavar="NAME,NAME",
        default="",
        help="names of the reward functions, where there is no log and the columns hold more",
    )
    parser.add_argument(
        "--run",
        dest="run_name",
        metavar="NAME",
        help="which run, where an export holds several",
    )
    parser.add_argument("--full", action="store_true", help="read the texts of all completions files; show all of it")
    parser.add_argument("--json", action="store_true", help="the whole diagnosis as JSON")
    parser.add_argument("--record", type=Path, metavar="FILE", help="also write the JSON there, over an older one")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write one page with curves and rows to read")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=float,
        const=30.0,
        metavar="SECONDS",
        help="look again when something was written (every 30 s), until the run ends",
    )
    parser.add_argument(
        "--patience",
        type=int,
        default=10,
        metavar="N",
        help="with --watch: exit 1 once a dead finding stood for N generations (10, judgement)",
    )
    parser.add_argument(
        "--give-up",
        type=float,
        default=3600.0,
        metavar="SECONDS",
        help="with --watch: exit 3 when nothing was written or there for so long (3600, judgement)",
    )
    parser.add_argument(
        "--table", choices=("thresholds", "findings", "curves"), help="print a table of what is looked for"
    )
    return parser


def main() -> int:
    parser = _parser()
    args = parser.parse_args()
    args.rewards = [name for name in args.rewards.split(",") if name]
    if args.run is None and not args.table:
        parser.error("which run? give an output directory, or one of its files")
    if args.watch is not None and not 0 < args.watch <= 86400:
        parser.error(f"--watch {args.watch:g}: give seconds above 0, a day (86400) at most")
    if args.patience < 1 or not args.give_up > 0:
        parser.error("--patience and --give-up must be above 0")
    try:
        if args.table:
            import diagnose_checks as checks

            print(checks.table(args.table), flush=True)
            return 0
        check_targets(args)
        if args.watch is not None:
            if args.json:
                parser.error("--watch prints lines; the JSON of each look goes to --record")
            return watch(args)
        record = diagnose(args.run, args.config, args.rewards, args.full, None, args.run_name)
        put(record, args)
        print(json.dumps(record, indent=1) if args.json else shown_text(as_text(record, args.full)), flush=True)
        return exit_code(record)
    except Usage as error:
        print(shown_text("diagnose_run.py: " + " ".join(str(error).split())), file=sys.stderr)
        return 2
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
