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
EXIT_CODES = "exit codes: 0 = nothing dead or waste, 1 = a dead or waste finding, or nothing could be measured, \
2 = bad usage or input"
CHUNK = 1 << 20  # characters read at a time
LONGEST = 16 << 20  # characters of one row of a log; longer ones are no log rows
METRICS = 500  # more names than that are not a log of TRL
TEXT_FILES = 64  # files whose texts are read; the numbers of all are (judgement)
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

    def __init__(self, export: bool = False):
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
            steps = [raw for want in ("global_step", "step", "_step") for raw, name in names.items() if name == want]
            metrics = [(raw, name) for raw, name in names.items()
                       if raw not in steps and not name.startswith("train_")]  # fmt: skip
            ends = [raw for raw, name in names.items() if name == "train_runtime"]
            lengths = [raw for raw, name in names.items() if name == "completions/mean_length"]
            known = self.plans[keys] = (steps, metrics, ends, lengths)
        return known

    def add(self, row: dict) -> None:
        steps, metrics, ends, lengths = self.plan(row)
        step = next((value for raw in steps if (value := number(row[raw])) is not None), None)
        if step is None or not math.isfinite(step):
            step = float(self.rows + 1)
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
                    value = number(value)
                    if value is None:
                        self.strange += 1
                        continue
            if name not in self.steps:
                if len(self.steps) >= METRICS:
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


def read_json(path: Path, problems: list[str]) -> tuple[Log, dict]:
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
            log = fill(Log(export), rows_of(text, True, problems, name), name)
    elif first == "[":
        text.place += 1
        log = fill(Log(), rows_of(text, False, problems, name), name)
    else:
        text.file.close()
        raise Usage(
            f"{path}: neither JSON nor CSV; give trainer_state.json, its log_history, or an export as CSV or JSONL"
        )
    text.file.close()
    if not isinstance(around, dict):
        around = {}
    return log, around


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


def read_csv(path: Path, problems: list[str]) -> tuple[Log, dict]:
    csv.field_size_limit(LONGEST)
    log = Log(export=True)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        try:
            for row in csv.DictReader(file):
                row.pop(None, None)  # more cells than names
                log.add(row)
        except csv.Error as error:
            problems.append(f"{path.name}: not CSV after {log.rows} rows ({error}); these were read")
    if not log.steps:
        raise Usage(f"{path}: no column with numbers under a metric's name; export the run's history with its columns")
    return log, {}


def read_log(path: Path, problems: list[str]) -> tuple[Log, dict]:
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
        return read_csv(path, problems)
    return read_json(path, problems)


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
        for name in rewards + ["advantage"] * ("advantage" in columns):
            columns[name] = [number(value) for value in columns[name]]
        batch = checks.batch(
            step, columns, rewards, options["size"], options["weights"], path.name, options["separate"], with_texts
        )
        batch.digest = fingerprint(table)
    return batch


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


def load(path: Path, config: Path | None, rewards: list[str], everything: bool, cache: dict | None = None):
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
    log, around = None, {}
    for state in place.states:
        trouble: list[str] = []
        try:
            log, around = read_log(state, trouble)
        except Usage as error:
            trouble.append(str(error))
        run.problems += trouble
        if log is not None and (log.rows or around):
            sources.append(str(state))
            break
        log = None
    if log is None and place.log is not None:
        log, around = read_log(place.log, run.problems)
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
    if log is not None and (log.ended or (most > 0 and done is not None and done >= most)):
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
    if most > 0 and (run.info.get("global_step") or 0) >= most:
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
    before, same, unsure = None, 0, False
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
        if not batch.rows:
            run.problems.append(f"{path.name}: no rows")
            continue
        if batch.size and batch.size != options["size"]:
            if options["size"] is not None:
                run.problems.append(f"the config says num_generations {options['size']}, the prompts come {batch.size} "
                                    "at a time: the prompts were believed; is it this run's config?")  # fmt: skip
            options["size"] = batch.size
        unsure = unsure or not any(name in names for name in batch.names)
        run.batches.append(batch)
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
        cache.clear()


def diagnose(path: Path | str, config: Path | None = None, rewards: list[str] = (), everything: bool = False,
             cache: dict | None = None) -> dict:  # fmt: skip
    """The diagnosis of a run, as in `diagnosis.json`; keys are stable.

    Raises:
        Usage: if there is nothing to read; the message is one line.
    """
    import diagnose_checks as checks

    run = load(Path(path), config, list(rewards), everything, cache)
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


def check_targets(args: argparse.Namespace) -> None:
    """What is written over must be what this command wrote before."""
    for path, mark in ((args.record, '"findings"'), (args.html, "<title>")):
        if path is None:
            continue
        if not path.parent.is_dir():
            raise Usage(f"{path}: there is no folder {path.parent}")
        try:
            ours = not path.exists() or (path.stat().st_size == 0 or mark in path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            ours = False
        if not ours:
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

    Returns 1 once a dead finding has stood for `--patience` generations, or when nothing is written for `--give-up`
    seconds; at the end of the run, as without --watch.
    """
    cache: dict = {}
    before, told, moved = None, None, time.monotonic()
    since: dict[str, int] = {}
    while True:
        record = None
        try:
            place = Place(args.run)
            now = place.signature()
            if now != before:
                before, moved = now, time.monotonic()
                record = diagnose(args.run, args.config, args.rewards, args.full, cache)
        except Usage as error:
            if args.run.is_file() or (args.config and str(args.config) in str(error)):
                raise
            if time.monotonic() - moved > args.give_up:
                raise Usage(
                    f"{args.run}: nothing to read after {args.give_up:g} s; is it the run's output_dir?"
                ) from None
        if record is not None:
            put(record, args)
            shown = [f"{one['id']} ({one['severity']})" for one in record["findings"]]
            line = (record["verdict"], tuple(shown))
            if line != told:
                say(
                    f"step {record['run']['steps']}: {record['verdict']}; {', '.join(shown) or 'nothing found'}",
                    flush=True,
                )
                told = line
            count = record["run"]["generations"]
            dead = {one["id"] for one in record["findings"] if one["severity"] == "dead"}
            since = {id: since.get(id, count) for id in dead}
            lasting = sorted(id for id, begun in since.items() if count - begun >= args.patience)
            if lasting:
                say(f"step {record['run']['steps']}: stop; {', '.join(lasting)} stood for {args.patience} generations",
                    flush=True)  # fmt: skip
                return 1
            if record["run"]["state"] == "finished":
                say(f"step {record['run']['steps']}: the run has ended, {record['verdict']}", flush=True)
                return exit_code(record)
        elif told is not None and time.monotonic() - moved > args.give_up:
            say(f"nothing was written for {args.give_up:g} s: it hangs, was killed, or ended without a last checkpoint",
                flush=True)  # fmt: skip
            return 1
        time.sleep(args.watch)


# ---- the command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="diagnose_run.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: diagnose_run.py runs/grpo --config grpo.yaml --html diagnosis.html\n"
        "live:    diagnose_run.py runs/grpo --watch || scancel $JOB\n" + EXIT_CODES,
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
        help="with --watch: how long nothing may be written or be there (3600, judgement)",
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
    if args.watch is not None and not args.watch > 0:
        parser.error(f"--watch {args.watch:g}: give seconds above 0")
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
        record = diagnose(args.run, args.config, args.rewards, args.full)
        put(record, args)
        print(json.dumps(record, indent=1) if args.json else as_text(record, args.full), flush=True)
        return exit_code(record)
    except Usage as error:
        print(f"diagnose_run.py: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
