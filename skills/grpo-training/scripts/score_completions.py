"""The command behind `rewards.py score`: sampled completions in, rewards, reasons and group statistics out.

It calls each reward the way TRL does (keywords only, dataset columns as lists, hooks for logging), so what fails here
would have failed at the first training step.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import inspect
import json
import math
import os
import shutil
import statistics
import sys
import traceback
import types
from pathlib import Path

import rewards as rewards_script

EPILOG = """
input:
  .jsonl    one object per line: "completion" (text or chat messages), "prompt", and the columns the rewards need
  .parquet  what TRL writes to <output_dir>/completions/ with log_completions=True; it lacks the dataset's columns,
            so give the dataset with --dataset (rows are joined by prompt)

examples:
  rewards.py score examples/completions.jsonl --reward format_reward --reward correctness_reward
  rewards.py score runs/a/completions/*.parquet --dataset prompts.jsonl --reward my_rewards.concise --json

rewards:
  format_reward, correctness_reward, numeric_reward, math_reward, choice_reward, schema_reward, tool_call_reward,
  test_execution_reward, or module.name as in `trl grpo --reward_funcs` (looked up in the current folder, then beside
  this script)

labels:
  a column with pass, fail or unsure, and beside it a column `kind` that says who read: person, or agent
"""
EXIT_CODES = "exit codes: 0 = ok, 1 = a reward scored no row at all, 2 = bad usage or input"
LINT_EPILOG = """
input:
  .jsonl or .parquet, one row of the dataset each: "prompt" and the columns the rewards read. A row may hold
    "right", "wrong"           a completion that must, or must not, be paid (or a list of these)
    "completion" and "label"   a sampled completion with pass or fail, as `score` takes it
  Without them right completions are built from the columns, and the table says how.

what is tried:
  the call TRL makes and the one AsyncGRPO makes, pickling, text and chat messages, hostile texts, missing golds, order
  and batch size, what it logs, speed, and whether a right completion is paid more than a wrong, hedged or cut-off one.
  Each reward is called some hundred times (a judge too: --rows 5), in a process that is killed when it hangs; one that
  always hangs takes minutes.

example:
  rewards.py lint --reward format_reward --reward my_rewards.concise prompts.jsonl

severity of a fail:
  dead = training crashes or cannot learn, waste = it costs rollouts or time, tell = know it

exit codes: 0 = no fail of severity dead or waste, 1 = at least one, 2 = bad usage or input. What was not measured
does not fail: standard error names it.
"""

BUILT_IN = [name for name in rewards_script.__all__ if name.endswith("_reward") and not name.startswith("make_")]
# What TRL fills in itself, and so never hands over from the dataset (trl 1.16.0, grpo_trainer.py, _calculate_rewards).
NOT_COLUMNS = {"prompt", "completion", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments"}
HOOKS = {"completions", "log_extra", "log_metric", "trainer_state", "kwargs", "args"}
VERDICTS = {"pass": True, "fail": False, "unsure": None, "": None}
FLAGS = {"true": True, "false": False, "1": True, "0": False}  # taken for labels only from a column named by --label


class UserError(Exception):
    """Bad input: one line that says what, where and how to mend it."""


def read_jsonl(path: Path) -> list[dict]:
    rows = []
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserError(f"{path}:{number}: not JSON ({error}); every line must hold one object") from None
            if not isinstance(row, dict):
                raise UserError(f"{path}:{number}: a line must hold an object, not {type(row).__name__}")
            rows.append(row)
    return rows


def read_parquet(path: Path) -> list[dict]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError("reading parquet needs pyarrow: pip install pyarrow") from None
    try:
        return pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a parquet file ({str(error).partition(chr(10))[0]:.120})") from None


def read_rows(path: Path) -> list[dict]:
    readers = {".jsonl": read_jsonl, ".parquet": read_parquet}
    if path.is_dir():
        raise UserError(f"{path}: is a folder; name its files, as in {path}/*.parquet")
    if path.suffix not in readers:
        raise UserError(f"{path}: unknown kind of file; choose from {', '.join(readers)}")
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    try:
        rows = readers[path.suffix](path)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    return rows


def read_completions(paths: list[Path]) -> list[dict]:
    rows = []
    for path in paths:
        for number, row in enumerate(read_rows(path), start=1):
            if "completion" not in row:
                raise UserError(
                    f'{path}: row {number} has no "completion"; it has {", ".join(sorted(row)) or "nothing"}'
                )
            rows.append({**row, "_file": str(path)})
    if not rows:  # one empty file among others is what a step without generation leaves
        raise UserError(f"{', '.join(map(str, paths))}: no rows")
    return rows


def prompt_key(prompt) -> str:
    """One key per prompt. Parquet gives every message the keys of all others, filled with None."""

    def without_none(node):
        if isinstance(node, dict):
            return {key: without_none(value) for key, value in node.items() if value is not None}
        return [without_none(item) for item in node] if isinstance(node, list) else node

    return json.dumps(without_none(prompt), sort_keys=True, default=str)


def add_columns(rows: list[dict], dataset: Path) -> None:
    """Join the dataset's columns to the completions by prompt."""
    by_prompt = {}
    for number, row in enumerate(read_rows(dataset), start=1):
        if "prompt" not in row:
            raise UserError(f'{dataset}: row {number} has no "prompt" to join by')
        known = by_prompt.setdefault(prompt_key(row["prompt"]), row)
        if json.dumps(known, sort_keys=True, default=str) != json.dumps(row, sort_keys=True, default=str):
            raise UserError(f"{dataset}: row {number} repeats a prompt with other columns, so the join is ambiguous")
    for number, row in enumerate(rows, start=1):
        match = by_prompt.get(prompt_key(row.get("prompt")))
        if match is None:
            raise UserError(f"{dataset}: has no row with the prompt of completion {number}")
        row.update({key: value for key, value in match.items() if key not in row})


def load_reward(name: str):
    """A reward of rewards.py by its name, or anything by its import path, found as `trl grpo` finds it."""
    if "." not in name:
        if name not in BUILT_IN:
            raise UserError(f"unknown reward {name!r}; choose from {', '.join(BUILT_IN)}, or give module.name")
        return getattr(rewards_script, name)
    module_path, _, attribute = name.rpartition(".")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_path)
    except Exception as error:  # the user's module may fail in any way
        raise UserError(f"cannot import {module_path} from {os.getcwd()}: {type(error).__name__}: {error}") from None
    mine, loaded = Path(*module_path.split(".")).with_suffix(".py"), getattr(module, "__file__", None)
    if mine.is_file() and loaded and mine.read_bytes() != Path(loaded).read_bytes():
        raise UserError(
            f"{mine} here has the name of {loaded}, which is loaded already; TRL would take yours: rename it"
        )
    reward = getattr(module, attribute, None)
    if not callable(reward):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(f"{module_path} has no reward {attribute!r}; it has {', '.join(sorted(public)) or 'none'}")
    return reward


def check_params(functions: dict, params: dict) -> None:
    """A parameter that no reward takes would change nothing, in silence."""
    for key in params:
        taken = {}
        for name, reward in functions.items():
            function = rewards_script._unwrapped(reward)
            code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
            try:
                taken[name] = [one for one in inspect.signature(reward).parameters if one not in HOOKS]
            except ValueError:
                continue
            if key in taken[name] or (code and key in code.co_consts and not hasattr(function, "settings")):
                break
        else:
            choices = "; ".join(f"{name} takes {', '.join(names)}" for name, names in taken.items())
            raise UserError(
                f"--param {key}: no reward takes it ({choices}); what a factory sets, such as "
                f"make_schema_reward(formats=True), goes into a module of yours"
            )


def check_prompts(rows: list[dict], path) -> None:
    for number, row in enumerate(rows, start=1):
        prompt = row.get("prompt")
        is_chat = isinstance(prompt, list) and all(isinstance(message, dict) for message in prompt)
        if not (prompt is None or isinstance(prompt, str) or is_chat):
            raise UserError(
                f"{path}: row {number}: a prompt must be text or a list of chat messages, got {prompt!r:.60}"
            )


def load_rewards(paths: list[str]) -> dict:
    functions = {}
    for path in paths:
        reward = load_reward(path)
        name = rewards_script._reward_name(reward)
        if name in functions:
            raise UserError(f"two rewards are called {name!r}: TRL would log both in one column; name one of them")
        functions[name] = reward
    return functions


def arguments_for(rows: list[dict], columns: dict) -> dict:
    """What TRL passes to a reward (trl 1.16.0, grpo_trainer.py, _calculate_rewards), as far as the file holds it."""
    arguments = {
        "prompts": [row.get("prompt") for row in rows],
        "completions": [row["completion"] for row in rows],
        **columns,
        "trainer_state": types.SimpleNamespace(global_step=0, max_steps=0, epoch=0.0, log_history=[]),
        "log_extra": lambda column, values: None,
        "log_metric": lambda name, value: None,
    }
    if all("completion_ids" in row for row in rows):
        arguments["completion_ids"] = [row["completion_ids"] for row in rows]
    return arguments


def check_arguments(reward, name: str, arguments: dict, columns: dict) -> None:
    """TRL finds a missing column at the first step, after the model is loaded and a batch generated."""
    try:
        inspect.signature(reward).bind(**arguments)
    except ValueError as error:  # max and other functions written in C
        raise UserError(f"{name}: {error}, so it is no reward that TRL could call") from None
    except TypeError as error:
        if "unexpected keyword" in str(error):
            raise UserError(f"{name}: {error}; add **kwargs to it, TRL passes all columns and more") from None
        have = ", ".join(sorted(columns)) or "none"
        raise UserError(f"{name}: {error}; the columns are: {have}. A constant can be given with --param") from None


def columns_read(reward, columns: dict) -> set[str]:
    """The columns a reward names in its signature; the wrappers and factories here show those of what they wrap."""
    while isinstance(reward, functools.partial):
        reward = reward.func
    try:
        return set(inspect.signature(reward).parameters) & set(columns)
    except ValueError:
        return set()


def call_reward(reward, name: str, arguments: dict) -> tuple[list[float | None], list[str], list]:
    """The rewards and, where the function logs them, the reasons and the answers it graded."""
    size, extra = len(arguments["completions"]), {}
    arguments = {**arguments, "log_extra": lambda column, values: extra.setdefault(column, []).extend(values)}
    try:
        if rewards_script._is_async(reward):
            import asyncio

            rewards = list(asyncio.run(reward(**arguments)))
        else:
            rewards = list(reward(**arguments))
    except (Exception, SystemExit) as error:  # a reward may fail in any way; TRL would end the training here
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(at.filename).name}:{at.lineno}"
        raise UserError(f"{name} raised {type(error).__name__}: {error} ({where}); it would end the training") from None
    if len(rewards) != size:
        raise UserError(f"{name} gave {len(rewards)} rewards for {size} completions")
    rewards = [_number(name, row, reward) for row, reward in enumerate(rewards, start=1)]

    def logged(kind: str) -> tuple[list, list[list]]:
        """What the reward logged itself, and what the rewards it wraps logged below its name."""
        columns = [column for column in extra if column.startswith(f"{name}/") and column.endswith(f"/{kind}")]
        for column in columns:
            if len(extra[column]) != size:
                raise UserError(f"{name} logged {len(extra[column])} values of {column} for {size} completions")
        own = extra.get(f"{name}/{kind}")
        return own or [None] * size, [extra[column] for column in columns if column != f"{name}/{kind}"]

    own, parts = logged("reason")
    reasons = []
    for row, reason in enumerate(own):
        below = ", ".join(str(part[row]) for part in parts)
        reasons.append(f"{reason} ({below})" if below and reason is not None else below or str(reason or ""))
    own, parts = logged("extracted")
    extracted = [
        next((v for v in (mine, *(part[row] for part in parts)) if v is not None), None) for row, mine in enumerate(own)
    ]
    return rewards, reasons, extracted


def _number(name: str, row: int, reward) -> float | None:
    """TRL takes numbers and None, and counts NaN as None."""
    if reward is None:
        return None
    try:
        value = float(reward) if not isinstance(reward, str) else math.inf
    except (TypeError, ValueError):
        value = math.inf
    if math.isinf(value):
        raise UserError(f"{name}: reward of row {row} must be a finite number or None, got {reward!r:.60}")
    return None if math.isnan(value) else value


def group_of_rows(rows: list[dict], size: int | None) -> list[int]:
    """The number of each row's group: rows that follow each other with one prompt, or `size` rows at a time."""
    if size:
        if len(rows) % size:
            raise UserError(f"--group-size {size} does not divide the {len(rows)} rows")
        return [index // size for index in range(len(rows))]
    groups, previous, seen = [], None, set()
    for index, row in enumerate(rows):
        # Without a prompt nothing says which rows belong together, so each is alone.
        key = (row["_file"], row.get("step"), prompt_key(row["prompt"]) if "prompt" in row else index)
        if key != previous and key in seen and "step" not in row:  # TRL may draw a prompt twice for one step
            raise UserError(
                f"row {index + 1} comes back to an earlier prompt: put the completions of one prompt on consecutive "
                f"rows, or give --group-size"
            )
        groups.append((groups[-1] + (key != previous)) if groups else 0)
        seen.add(key)
        previous = key
    return groups


def summary(values: list[float | None], groups: list[int]) -> dict:
    scored = [value for value in values if value is not None]
    by_group = {}
    for value, group in zip(values, groups):
        by_group.setdefault(group, []).append(value)
    by_group = {group: [v for v in members if v is not None] for group, members in by_group.items()}
    measured = [members for members in by_group.values() if len(members) > 1]
    dead = [group + 1 for group, members in by_group.items() if len(members) > 1 and min(members) == max(members)]
    return {
        "scored": len(scored),
        "abstained": len(values) - len(scored),
        "mean": statistics.fmean(scored) if scored else None,
        "min": min(scored, default=None),
        "max": max(scored, default=None),
        "groups": len(measured),
        # A group whose rewards are all equal has advantage 0 throughout: it costs its rollouts and teaches nothing.
        "dead_groups": len(dead),
        "dead_group_numbers": dead,
        "mean_std_in_group": statistics.fmean(map(statistics.pstdev, measured)) if measured else None,
    }


def write_for_labels(path: Path, rows: list[dict]) -> None:
    """The rows as JSONL, with the two keys a person fills in."""
    try:
        with path.open("x", encoding="utf-8") as file:  # x: never over a file that is there
            for row in rows:
                kept = {key: value for key, value in row.items() if key != "_file"}
                file.write(json.dumps({"label": "", "kind": "", **kept}, default=str) + "\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None


def total_of(rewards: dict[str, list], row: int) -> float | None:
    """As TRL sums several rewards: None counts as nothing, and a row all rewards abstain from has no total."""
    values = [values[row] for values in rewards.values() if values[row] is not None]
    return sum(values) if values else None


def read_labels(rows: list[dict], column: str | None) -> tuple[str | None, list[bool | None]]:
    """The label column and each row's label. Without `column`, a column `label` is taken if it holds verdicts only: in
    many datasets it is the gold."""
    chosen = column or "label"
    if not any(chosen in row for row in rows):
        if column:
            have = ", ".join(sorted({key for row in rows for key in row} - {"_file"}))
            raise UserError(f"no column {column!r} to take labels from; the columns are: {have}")
        return None, [None] * len(rows)
    labels = []
    for number, row in enumerate(rows, start=1):
        value = row.get(chosen)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            value = ""
        elif isinstance(value, float) and value.is_integer():
            value = int(value)
        key = str(value).strip().lower()
        if column is None and key not in VERDICTS:
            what = f"row {number} says {value!r}, not pass, fail or unsure"
            print(f"note: column 'label' is not taken for labels: {what}; --label label insists", file=sys.stderr)
            return None, [None] * len(rows)
        if key not in {**VERDICTS, **FLAGS}:
            choices = ", ".join(filter(None, [*VERDICTS, *FLAGS]))
            raise UserError(f"row {number}: label {value!r} in column {chosen!r} is not one of {choices}")
        labels.append({**VERDICTS, **FLAGS}[key])
    return chosen, labels


def score(args) -> dict:
    if args.write and args.write.exists():  # told before the rewards run, not after
        raise UserError(f"{args.write}: is there already and may hold labels; name a new file")
    rows = read_completions(args.files)
    if args.dataset:
        add_columns(rows, args.dataset)
    check_prompts(rows, args.files[0])
    names = {key for row in rows for key in row} - NOT_COLUMNS - {"_file"}
    clash = (names | set(args.param)) & (NOT_COLUMNS | {"prompts", "completions"})
    if clash:
        raise UserError(f"{', '.join(sorted(clash))} is what TRL passes itself; rename the column or parameter")
    taken = names & set(args.param)
    if taken:
        raise UserError(f"--param {', '.join(sorted(taken))}: the file has that column, and in TRL the column wins")
    columns = {name: [row.get(name) for row in rows] for name in sorted(names)}
    columns.update(args.param)
    groups = group_of_rows(rows, args.group_size)
    label_column, labels = read_labels(rows, args.label)
    arguments = arguments_for(rows, columns)

    with contextlib.redirect_stdout(sys.stderr):  # what a reward prints must not end up in the data
        functions = load_rewards(args.reward)
        check_params(functions, args.param)
        for name, reward in functions.items():
            check_arguments(reward, name, arguments, columns)
        compared = args.compare or list(functions)
        unknown = [name for name in compared if name not in functions]
        if unknown:
            raise UserError(f"--compare {unknown[0]}: no such reward; choose from {', '.join(functions)}")
        rewards, reasons, extracted = {}, {}, {}
        for name, reward in functions.items():
            rewards[name], reasons[name], extracted[name] = call_reward(reward, name, arguments)

    compared_rows = {
        name: sum(None not in (label, value) for label, value in zip(labels, rewards[name])) for name in compared
    }
    if args.write:
        write_for_labels(args.write, rows)
    disagreements = [
        {"row": row + 1, "reward": name, "value": rewards[name][row], "label": "pass" if labels[row] else "fail"}
        for name in compared
        for row in range(len(rows))
        if None not in (labels[row], rewards[name][row]) and labels[row] != (rewards[name][row] > args.pass_above)
    ]
    read_by_rewards = {name for reward in functions.values() for name in columns_read(reward, columns)}
    totals = [total_of(rewards, row) for row in range(len(rows))]
    return {
        "schema_version": 1,
        "files": [str(path) for path in args.files],
        "rows": [
            {
                "row": index + 1,
                "group": groups[index] + 1,
                "prompt": row.get("prompt"),
                "completion": row["completion"],
                "columns": {name: row[name] for name in sorted(read_by_rewards) if name in row},
                "rewards": {name: values[index] for name, values in rewards.items()},
                "reasons": {name: values[index] for name, values in reasons.items()},
                "extracted": {name: values[index] for name, values in extracted.items()},
                "total": totals[index],
                "label": {True: "pass", False: "fail", None: None}[labels[index]],
            }
            for index, row in enumerate(rows)
        ],
        "rewards": {name: summary(values, groups) for name, values in rewards.items()},
        "total": summary(totals, groups),
        "labels": {
            "column": label_column,
            # Rows that have a label and a reward: where the reward abstained there is nothing to compare.
            "compared": compared_rows,
            "labelled": sum(label is not None for label in labels),
            "unsure": sum(str(row.get(label_column)).strip().lower() == "unsure" for row in rows)
            if label_column
            else 0,
            "kinds": sorted({str(row.get("kind", "unknown")) for row, label in zip(rows, labels) if label is not None}),
        },
        "disagreements": disagreements,
        # A length penalty counts tokens in training; a file without completion_ids leaves it words to count.
        "length_in_words": [name for name, reward in functions.items() if hasattr(reward, "target_len")]
        if "completion_ids" not in arguments
        else [],
    }


def safe(text: str) -> str:
    """Model-written text made safe for a terminal: characters that drive it are shown as dots, line breaks stay."""
    return "".join(c if c.isprintable() or c == "\n" else "\u00b7" for c in text.replace("\t", "    "))


def whole(messages) -> str:
    """All that a prompt or completion holds: text as it is, of chat messages each with its role and its tool calls."""
    if messages is None or isinstance(messages, str):
        return messages or ""
    lines = []
    for message in messages:
        role = message.get("role", "assistant")
        text = rewards_script.completion_text([{**message, "role": "assistant"}])
        calls = [call.get("function") or call for call in message.get("tool_calls") or () if isinstance(call, dict)]
        shown = [f"{call.get('name')}({json.dumps(call.get('arguments'), default=str)})" for call in calls]
        lines += [f"{role}: {text}"] if text or not shown else []
        lines += [f"{role} calls {call}" for call in shown]
    return lines[0].partition(": ")[2] if len(lines) == 1 and not messages[0].get("tool_calls") else "\n".join(lines)


def one_line(text: str, width: int) -> str:
    """What does not fit is cut from the middle, because the answer stands at the end."""
    text = safe(" ".join(text.split()))
    start = width // 3
    return text if len(text) <= width else f"{text[:start]}\u2026{text[start + 1 - width :]}"


def show(result: dict, limit: int, full: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = shutil.get_terminal_size((120, 40)).columns
    console = Console(width=width, highlight=False)
    names = list(result["rewards"])

    def number(value) -> str:
        return "none" if value is None else f"{value:.3g}"

    def show_rows(title: str, rows: list[dict]) -> None:
        lines = [
            [str(row["row"]), str(row["group"])]
            + [f"{number(row['rewards'][name])} {one_line(row['reasons'][name], 40)}" for name in names]
            + [row["label"] or ""]
            for row in rows
        ]
        header = ["row", "group", *names, "label"]
        # Each column costs its widest cell, two blanks and a border.
        room = width - 4 - sum(max(map(len, column)) + 3 for column in zip(header, *lines))
        console.print(Text(title))
        if full or room < 30:
            for line, row in zip(lines, rows):
                console.rule(
                    Text("  ".join(f"{key} {value}" for key, value in zip(header, line) if value)), align="left"
                )
                text = whole(row["completion"]) if full else rewards_script.completion_text(row["completion"])
                if full:
                    console.print(Text(f"prompt: {safe(whole(row['prompt']))}", style="dim"))
                    graded = {f"{name} graded": text for name, text in row["extracted"].items() if text is not None}
                    for name, value in (row["columns"] | graded).items():
                        console.print(Text(f"{name}: {one_line(str(value), 2 * width)}", style="dim"))
                console.print(Text(safe(text) if full else one_line(text, 2 * width)))
            return
        table = Table(*header, "completion")
        for line, row in zip(lines, rows):
            table.add_row(
                *map(Text, line), Text(one_line(rewards_script.completion_text(row["completion"]), room), no_wrap=True)
            )
        console.print(table)

    shown = result["rows"][: limit or None]
    how = "--rows changes how many, --full shows them whole"
    show_rows(f"{len(shown)} of {len(result['rows'])} completions ({how})", shown)
    statistics_table = Table("reward", "scored", "none", "mean", "min", "max", "std in group", "dead groups")
    for name, stats in [*result["rewards"].items(), *([("sum", result["total"])] if len(names) > 1 else [])]:
        dead = f"{stats['dead_groups']} of {stats['groups']}" if stats["groups"] else "not measured"
        values = [number(stats[key]) for key in ("mean", "min", "max", "mean_std_in_group")]
        statistics_table.add_row(name, str(stats["scored"]), str(stats["abstained"]), *values, dead)
    console.print(statistics_table)
    if result["labels"]["labelled"]:
        wrong = result["disagreements"]
        rows = [result["rows"][number - 1] for number in sorted({entry["row"] for entry in wrong})]
        paid = sum(entry["label"] == "fail" for entry in wrong)
        compared = ", ".join(f"{name} ({count} compared)" for name, count in result["labels"]["compared"].items())
        title = (
            f"{len(rows)} of {result['labels']['labelled']} labelled rows disagree with {compared}: "
            f"{paid} x paid but labelled fail, {len(wrong) - paid} x not paid but labelled pass"
        )
        if rows:
            show_rows(title, rows)
        else:
            console.print(Text(title))


def notes(result: dict) -> list[str]:
    """What a person must know before believing the tables."""
    found = []
    for name, stats in result["rewards"].items():
        if not stats["scored"]:
            found.append(f"{name} scored no row: nothing was measured")
        elif stats["min"] == stats["max"]:
            found.append(f"{name} has zero variance: every scored row got {stats['min']:g}, which gives no gradient")
    total = result["total"]
    if not total["groups"]:
        found.append("no prompt has two scored completions, so group statistics were not measured")
    elif total["dead_groups"]:
        dead = ", ".join(map(str, total["dead_group_numbers"][:10])) + (", \u2026" if total["dead_groups"] > 10 else "")
        found.append(
            f"{total['dead_groups']} of {total['groups']} groups are dead (all rewards equal, advantage 0): {dead}"
        )
    for name in result["length_in_words"]:
        found.append(f"{name} counted words, because the file has no completion_ids; in training it counts tokens")
    labels = result["labels"]
    missing = len(result["rows"]) - labels["labelled"] - labels["unsure"]
    if labels["column"] and missing + labels["unsure"]:
        found.append(f"{missing} rows have no label, {labels['unsure']} are unsure")
    if labels["labelled"] and labels["kinds"] != ["person"]:
        found.append(f"labels of kind {', '.join(labels['kinds'])} illustrate; they do not replace a person's reading")
    return found


def _param(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=JSON")
    try:
        return name, json.loads(value)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"the value of {name} is not JSON: {value!r} (text needs double quotes)"
        ) from None


def _add_param(command) -> None:
    command.add_argument(
        "--param",
        action="append",
        type=_param,
        default=[],
        metavar="NAME=JSON",
        help="a constant passed to every reward, such as prefilled=true; may be repeated",
    )


def build_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="rewards.py",
        description="Reward functions for TRL's GRPOTrainer. Import them, try one before training (lint), or score "
        "sampled completions with them (score).",
        epilog="examples:\n  rewards.py score completions.jsonl --reward format_reward\n"
        "  rewards.py lint prompts.jsonl --reward correctness_reward\n" + EXIT_CODES,
        formatter_class=raw,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "score",
        help="score completions from JSONL or TRL's parquet",
        description="Score sampled completions: rewards and reasons per row, group statistics, and the rows on which a "
        "reward and a label column disagree.",
        epilog=f"{EPILOG}\n{EXIT_CODES}",
        formatter_class=raw,
    )
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="completions, .jsonl or .parquet")
    command.add_argument("--reward", action="append", required=True, metavar="NAME", help="a reward; may be repeated")
    command.add_argument("--dataset", type=Path, metavar="FILE", help="dataset whose columns are joined by prompt")
    _add_param(command)
    command.add_argument(
        "--label", metavar="COLUMN", help="column with pass / fail / unsure (default: label, if there)"
    )
    command.add_argument(
        "--compare",
        action="append",
        metavar="NAME",
        help="reward held against the label (default: each); may be repeated",
    )
    command.add_argument(
        "--pass-above", type=float, default=0.0, metavar="X", help="a reward above X agrees with pass (default 0)"
    )
    command.add_argument("--group-size", type=int, metavar="N", help="rows per group (default: equal prompts in a row)")
    command.add_argument("--rows", type=int, default=20, metavar="N", help="completions shown, 0 = all (default 20)")
    command.add_argument(
        "--write", type=Path, metavar="FILE", help="also write the rows as JSONL, with label to fill in"
    )
    command.add_argument("--full", action="store_true", help="whole completions below their rewards, for reading")
    command.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    command = commands.add_parser(
        "lint",
        help="try a reward on rows of the dataset before training",
        description="Try a reward the way TRL calls it, on rows of the dataset and on texts meant to break or to cheat "
        "it. One line per check: what was seen, and how to mend it.",
        epilog=LINT_EPILOG,
        formatter_class=raw,
    )
    command.add_argument("file", type=Path, metavar="FILE", help="rows of the dataset, .jsonl or .parquet")
    command.add_argument("--reward", action="append", required=True, metavar="NAME", help="a reward; may be repeated")
    _add_param(command)
    command.add_argument("--rows", type=int, default=50, metavar="N", help="prompts used, from the first (default 50)")
    command.add_argument(
        "--max-row-s", type=float, default=1.0, metavar="S", help="seconds one row may cost (default 1)"
    )
    command.add_argument("--full", action="store_true", help="also what was seen where a check passes")
    command.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    return parser


def run(args) -> int:
    if args.command == "lint":
        try:
            import lint_rewards
        except ImportError:
            raise UserError("the lint command needs lint_rewards.py beside rewards.py; copy it") from None
        return lint_rewards.run(args)
    if (args.group_size is not None and args.group_size < 2) or args.rows < 0 or not math.isfinite(args.pass_above):
        raise UserError("--group-size must be at least 2, --rows at least 0 and --pass-above a finite number")
    result = score(args)
    if args.json:
        print(json.dumps(result, ensure_ascii=True, indent=1, default=str))
    else:
        try:
            show(result, args.rows, args.full)
        except ImportError:
            raise UserError("the tables need rich: pip install rich, or use --json") from None
    sys.stdout.flush()
    for note in notes(result):
        print(f"note: {note}", file=sys.stderr)
    return 0 if all(stats["scored"] for stats in result["rewards"].values()) else 1


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    args.param = dict(args.param)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to stop
    try:
        return run(args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"error: the output cannot be written ({error.strerror})", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return 130
