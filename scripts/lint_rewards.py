"""The command behind `rewards.py lint`: tries a reward the way TRL calls it, on texts meant to break or to cheat it.

The reward is called in a process of its own, which is killed when it hangs. Where it cannot be pickled it is called in
a thread, which can be timed but not killed. What a check needs and the rows do not give is "not_measured", never fine.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import faulthandler
import functools
import importlib
import inspect
import itertools
import json
import math
import os
import pickle
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types

rewards_script = importlib.import_module(f"{__package__}.rewards" if __package__ else "rewards")

__all__ = ["CHECKS", "lint"]

# The checks in the order of the report, each with how bad it is to fail it (some findings say otherwise).
CHECKS = {
    "name": "tell", "arguments": "dead", "column_names": "dead", "pickle": "tell", "shapes": "dead", "length": "dead",
    "hostile": "dead", "missing_column_values": "waste", "wrong_length_column": "tell", "order_and_batch": "waste",
    "mutation": "waste", "log_names": "waste", "speed": "waste", "gold_readable": "waste", "discriminates": "dead",
    "variance": "dead",
}  # fmt: skip
HOOKS = ("trainer_state", "log_extra", "log_metric")
RESERVED = {"completions", "prompts", "completion_ids", *HOOKS, "environments"}
NOT_COLUMNS = {"prompt", "completion", "completion_ids", "right", "wrong", "_file"}
CORE_COLUMNS = {"step", "prompt", "completion", "advantage", "reward", "loss"}
START_S = 120.0  # for the reward's imports and its first call, which may load a model
MAIN = "it is defined in __main__, which a fresh Python cannot import"
HANGS = 20  # times max_row_s after which a call for one row counts as hung
SAMPLE = 7  # rows for the checks that need not see all

_R = "<reasoning>\nIt follows from the question.\n</reasoning>\n"
# The ways to write an answer, in the order in which they are taken where several are paid alike.
TEMPLATES = {
    "<reasoning>r</reasoning> <answer>gold</answer>": _R + "<answer>\nGOLD\n</answer>",
    "<think>r</think> <answer>gold</answer>": _R.replace("reasoning>", "think>") + "<answer>\nGOLD\n</answer>",
    "r</reasoning> <answer>gold</answer>": _R.removeprefix("<reasoning>\n") + "<answer>\nGOLD\n</answer>",
    "<answer>gold</answer>": "<answer>GOLD</answer>",
    "\\boxed{gold}": "So it is \\boxed{GOLD}.",
    "<think>r</think> \\boxed{gold}": _R.replace("reasoning>", "think>") + "So it is \\boxed{GOLD}.",
    "#### gold": "It follows from the question.\n#### GOLD",
    "a fenced block": "```\nGOLD\n```",
    "<think>r</think> gold": _R.replace("reasoning>", "think>") + "GOLD",
    "The answer is gold.": "The answer is GOLD.",
    "the bare gold": "GOLD",
}
LONG = "right, then 50k characters"
# Wrong texts that no reward may pay like a right one, each with its remedy; what is not listed here is only reported.
REMEDIES = {
    "another row's gold": "compare with the row's own gold",
    "nothing": "a text without an answer must get the lowest reward",
    "empty blocks": "refuse a block without content",
    "gold or another": "read the whole answer and refuse one that names several",
    "gold, then another": "take the last answer, because a draft that was taken back must not be paid",
    "another or gold": "read the whole answer and refuse one that names several",
    "every gold": "compare the whole answer; do not look for the gold inside it",
    "the gold cut short": "compare the whole answer; a part of the gold is another answer",
    "the gold negated": "do not drop the sign",
    LONG: "do not pay for length: the policy would learn to go on and on",
    "cut before the gold": "an answer that was never finished is none",
    "gold in the reasoning only": "take the reasoning out before looking for the answer (rewards.visible_text)",
    "the prompt repeated": "look for the answer in a marked place only",
    "a completion given as wrong": "read these completions; the reward and the label disagree",
}
ADVICE = 'give rows a completion that must be paid: "right": "\u2026", or "completion" with "label": "pass"'
HOSTILE = {
    "empty text": "", "white space": " \n\t ", "a lone surrogate": "\ud800", "NUL": "a\0b",
    "only an opening tag": "<answer>", "unclosed tags": "<reasoning>r<answer>7", "100k characters": "a" * 100_000,
    "100k blanks": " " * 100_000 + "x", "10k tags": "<answer>" * 10_000, "10k blocks": "<answer>7</answer>" * 10_000,
    "a closing tag first": "</answer>7<answer>", "deep JSON": "[" * 100_000, "deep objects": '{"a":' * 20_000,
    "100k digits": "9" * 100_000, "a power tower": "\\boxed{9^{9^{9^{9^{9}}}}}", "open braces": "\\boxed{" * 10_000,
    "right-to-left and zero-width text": "\u202e\u05d0\u200b\u200d7\u2066", "an infinite number": "1e999999999",
    "a division by zero": "1/0", "NaN": "NaN", "a superscript digit": "\u00b2",
}  # fmt: skip


def _said(error: BaseException) -> str:
    at, text = traceback.extract_tb(error.__traceback__)[-1:], ""
    with contextlib.suppress(Exception):  # an error may fail to say what it is
        text = str(error)[:160]
    where = f" ({os.path.basename(at[0].filename)}:{at[0].lineno})" if at and at[0].filename != __file__ else ""
    return f"{type(error).__name__}: {text}{where}"


def _plain(value):
    """A reward as TRL's tensor would hold it: a float, None, or the text of what no tensor takes."""
    if value is None:
        return None
    try:
        number = math.inf if isinstance(value, (str, bytes)) else float(value)
    except Exception:  # any object may stand here
        number = math.inf
    return f"{value!r:.60}" if math.isinf(number) else None if math.isnan(number) else number


def _answer(reward, request: dict, loop) -> dict:
    """One call as TRL makes it, and in plain values all that can be told of it."""
    arguments, extra, metrics = dict(request["arguments"]), [], []
    before = {key: repr(value) for key, value in arguments.items()}
    hooks = {
        "trainer_state": types.SimpleNamespace(global_step=0, max_steps=1, epoch=0.0, log_history=[]),
        "log_extra": lambda column, values: extra.append((str(column), len(list(values)))),
        "log_metric": lambda name, value: metrics.append((str(name), _plain(value))),
    }
    start, reply = time.perf_counter(), {}
    try:
        result = reward(**arguments, **{key: hooks[key] for key in request["hooks"]})
        if rewards_script._is_async(reward):
            result = loop.run_until_complete(result)
        if not hasattr(result, "__iter__"):
            raise TypeError(f"it gave {result!r:.60}, not one reward per completion")
        reply["values"] = [_plain(value) for value in result]
    except BaseException as error:  # a reward may fail in any way, and sys.exit() is one
        reply["error"] = _said(error)
    changed = [key for key, text in before.items() if repr(arguments[key]) != text]
    return {**reply, "extra": extra, "metrics": metrics, "changed": changed, "seconds": time.perf_counter() - start}


_BOOT = (
    "import importlib, json, sys; sys.path[:], name = json.loads(sys.argv.pop()); importlib.import_module(name).serve()"
)


def serve() -> None:
    """What the process of a reward runs: a pickled reward comes in, then requests, and replies go out."""
    requests, replies, nothing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"), os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)  # what a reward prints must not be taken for a reply
    loop, (pickled, limit_s) = asyncio.new_event_loop(), pickle.load(requests)
    # Ends this process also when nobody is left to kill it: a lint that was interrupted must not leave a core busy.
    faulthandler.dump_traceback_later(limit_s + 5, exit=True)
    try:
        reward, reply = pickle.loads(pickled), {}
    except BaseException as error:  # the module of the reward is imported here and may do anything
        reward, reply = None, {"error": _said(error)}
    while True:
        pickle.dump(reply, replies)
        replies.flush()
        faulthandler.cancel_dump_traceback_later()
        try:
            request, limit_s = pickle.load(requests)
        except EOFError:
            return
        faulthandler.dump_traceback_later(limit_s + 5, exit=True)
        reply = _answer(reward, request, loop)


class _Process:
    """A reward in a process of its own, killed when it hangs."""

    def __init__(self, pickled: bytes):
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, json.dumps([sys.path, __name__])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True,
        )  # fmt: skip
        self.hello = self.ask(pickled, START_S)

    def ask(self, request, limit_s: float) -> dict:
        late = threading.Event()
        timer = threading.Timer(limit_s, lambda: (late.set(), self.process.kill()))
        timer.start()
        try:
            pickle.dump((request, limit_s), self.process.stdin)
            self.process.stdin.flush()
            return pickle.load(self.process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            if late.is_set():
                return {"error": f"did not come back in {limit_s:g} s", "hung": True}
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(2)
            self.errors.seek(0)
            last = self.errors.read()[-2000:].decode(errors="replace").strip().rpartition("\n")[2]
            return {"error": f"its process ended with status {self.process.returncode} {last:.160}", "hung": True}
        finally:
            timer.cancel()

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # so that it can end what it started
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


class _Thread:
    """A reward that cannot be pickled, in a daemon thread."""

    def __init__(self, reward):
        self.requests, self.replies = queue.SimpleQueue(), queue.SimpleQueue()
        threading.Thread(target=self._serve, args=(reward,), daemon=True).start()

    def _serve(self, reward) -> None:
        loop = asyncio.new_event_loop()
        while (request := self.requests.get()) is not None:
            self.replies.put(_answer(reward, request, loop))
        loop.close()

    def ask(self, request, limit_s: float) -> dict:
        self.requests.put(request)
        try:
            return self.replies.get(timeout=limit_s)
        except queue.Empty:
            return {"error": f"did not come back in {limit_s:g} s (it could not be killed: no pickle)", "hung": True}

    def end(self) -> None:
        self.requests.put(None)


def _short(value, width: int = 90) -> str:
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= width else f"{text[: width // 2]} \u2026 {text[-width // 2 :]}")


def _alike(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


def _unlike(gold: str) -> str:
    """A wrong answer of the gold's kind, for rows that all have one gold."""
    digit = re.search(r"\d(?=\D*$)", gold)
    if digit:
        return f"{gold[: digit.start()]}{(int(digit[0]) + 1) % 10}{gold[digit.end() :]}"
    return {"A": "B", "B": "C", "yes": "no", "True": "False"}.get(gold, f"un{gold}")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _same(a: float | None, b: float | None) -> bool:
    return a is b or (None not in (a, b) and math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6))


def _golds_of(reward, columns: list[str]) -> list[str]:
    """The columns a reward reads: those its signature names, required ones first, else those its code mentions."""
    try:
        parameters = inspect.signature(reward).parameters
    except (TypeError, ValueError):
        parameters = {}
    named = [name for name in columns if name in parameters]
    required = [name for name in named if parameters[name].default is inspect.Parameter.empty]
    function = rewards_script._unwrapped(reward)
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return required or named or [name for name in columns if code and name in code.co_consts]


def _spelled(gold, how: str) -> str | None:
    """A gold as a completion would say it; None if there is none, or nothing is what it asks for."""
    if hasattr(gold, "tolist"):
        gold = gold.tolist()
    if how == "final" and isinstance(gold, list) and gold and not isinstance(gold[0], (dict, list)):
        return _spelled(gold[0], how)
    if gold is None or gold != gold or gold in ("", "[]", "{}", [], {}):
        return None
    if isinstance(gold, (dict, list)):
        return json.dumps(gold, default=str)
    if how == "final" and isinstance(gold, str):
        _, _, box = rewards_script._last_box(gold)
        gold = box or gold.rpartition("####")[2]
    return str(gold).strip() or None


class _Row:
    """One prompt with its columns, and what is known to be right or wrong for it."""

    def __init__(self, number: int, row: dict):
        self.number, self.prompt, self.source = number, row.get("prompt"), row
        self.rights, self.wrongs, self.passed, self.failed, self.seen = [], [], [], [], []

    def question(self) -> str:
        return rewards_script._prompt_text((self.prompt[-1:] if isinstance(self.prompt, list) else self.prompt) or "")

    def add(self, row: dict) -> None:
        seen, label = _given(row, "completion"), str(row.get("label")).strip().lower()
        self.rights += _given(row, "right")
        self.wrongs += _given(row, "wrong")
        self.seen += seen
        if label in ("pass", "fail"):
            (self.passed if label == "pass" else self.failed).extend(seen)


def _given(row: dict, key: str) -> list:
    """The completions a row holds under `key`, as text unless they call tools."""
    given = row.get(key)
    several = isinstance(given, list) and given and not isinstance(given[0], dict)
    completions = [] if given is None else given if several else [given]
    texts = list(map(rewards_script.completion_text, completions))
    return [one if "tool_calls" in str(one) else text for one, text in zip(completions, texts)]


def _columns(rows: list[dict]) -> list[str]:
    """What TRL would pass. Beside completions a label is a verdict and no column."""
    names = dict.fromkeys(key for row in rows for key in row if key not in NOT_COLUMNS)
    verdicts = {str(row.get("label")).strip().lower() for row in rows} <= {"pass", "fail", "unsure", "", "none"}
    is_sampled = verdicts and any("completion" in row for row in rows)
    return [name for name in names if not (is_sampled and name in ("label", "kind"))]


def _merged(rows: list[dict], golds: list[str]) -> list[_Row]:
    """One `_Row` per prompt and gold, for files that hold several completions of each."""
    found = {}
    for number, row in enumerate(rows, start=1):
        key = json.dumps([row.get("prompt"), *map(row.get, golds)], default=str) if "completion" in row else number
        found.setdefault(key, _Row(number, row)).add(row)
    return list(found.values())


class _Lint:
    """One reward under trial. Each check is a method `check_<id>` that tells what it found."""

    def __init__(self, reward, rows: list[dict], name, constants, max_row_s: float, max_rows):
        self.reward, self.constants, self.max_row_s = reward, constants, max_row_s
        self.name, self.columns = name or rewards_script._reward_name(reward), _columns(rows)
        self.passed = [column for column in self.columns if column not in RESERVED]
        self.golds = _golds_of(reward, self.passed)
        self.rows = _merged(rows, self.golds)[:max_rows]
        self.takes = None  # the arguments it takes; None: all
        self.native = self.chat = isinstance(self.rows[0].prompt, list)
        self.found, self.pool, self.worker = {}, [], None
        try:
            self.rows_travel = bool(pickle.dumps(rows))
        except Exception:  # a row may hold anything
            self.rows_travel = False
        # Gathered over all calls.
        self.errors, self.bad, self.lengths, self.values = [], [], [], set()
        self.changed, self.extra, self.metrics = set(), [], []

    # What was found.

    def tell(self, check: str, verdict: str, evidence: str, fix: str = "", severity: str | None = None) -> None:
        self.found[check] = {"check": check, "verdict": verdict, "severity": severity or CHECKS[check],
                             "evidence": evidence, "fix": fix}  # fmt: skip

    def judge(self, check: str, problems: list[str], fine: str, fix: str = "", severity: str | None = None) -> None:
        self.tell(check, "fail" if problems else "pass", "; ".join(problems) or fine, fix if problems else "", severity)

    # Calls.

    def start(self):
        """A fresh worker, and what is wrong with the pickle."""
        problem = None
        try:
            pickled = pickle.dumps(self.reward)
            pickle.loads(pickled)
            if getattr(rewards_script._unwrapped(self.reward), "__module__", None) == "__main__":
                problem = MAIN
        except Exception as error:  # __reduce__ may raise anything
            problem = _said(error)
        if problem is None:
            self.worker = _Process(pickled)
            problem = self.worker.hello.get("error")
        if problem or not self.rows_travel:
            self.end()
            self.worker = _Thread(self.reward)
        return problem

    def end(self) -> None:
        if self.worker is not None:
            self.worker.end()

    def arguments(self, rows, completions, changed=None) -> dict:
        texts = map(rewards_script.completion_text, completions)
        arguments = {
            "prompts": [row.prompt for row in rows],
            "completions": completions,
            "completion_ids": [list(range(len(text) // 4 + 1)) for text in texts],
            **{name: [row.source.get(name) for row in rows] for name in self.passed},
            **self.constants,
            **(changed or {}),
        }
        return {key: value for key, value in arguments.items() if self.takes is None or key in self.takes}

    def shaped(self, texts, chat: bool | None = None) -> list:
        """Completions of the shape that the prompts ask for; chat messages stay what they are."""
        chat = self.chat if chat is None else chat
        return [[{"role": "assistant", "content": t}] if chat and isinstance(t, str) else t for t in texts]

    def ask(self, rows, completions, changed=None, hooks=HOOKS, extra_s=0.0) -> dict:
        """The reply to one call. A worker that hung or died is replaced."""
        limit_s = self.max_row_s * (HANGS + 2 * len(rows)) + extra_s
        hooks = [key for key in hooks if self.takes is None or key in self.takes]
        request = {"arguments": self.arguments(rows, completions, changed), "hooks": hooks}
        reply = self.worker.ask(request, limit_s)
        if reply.get("hung"):
            self.end()
            self.start()
        return reply

    def rewards(self, rows, texts, what: str, chat: bool | None = None) -> list[float | None] | None:
        """One reward per text, or None if the call failed; what is noteworthy is kept for the report."""
        rows, texts = list(rows), list(texts)
        reply = self.ask(rows, self.shaped(texts, chat))
        self.changed.update(reply.get("changed", ()))
        size, values = len(rows), reply.get("values")
        logged = {}
        for column, count in reply.get("extra", ()):
            logged[column] = logged.get(column, 0) + count
        self.extra += [(column, count, size) for column, count in logged.items()]
        self.metrics += reply.get("metrics", ())
        if values is None:
            self.errors.append((what, reply["error"], bool(reply.get("hung"))))
            return None
        if len(values) != size:
            self.lengths.append(f"{len(values)} rewards for {size} completions ({what})")
            return None
        self.bad += [f"{value} for {_short(text, 60)}" for value, text in zip(values, texts) if isinstance(value, str)]
        values = [None if isinstance(value, str) else value for value in values]
        self.values.update(value for value in values if value is not None)
        return values

    # Checks that need no call.

    def check_name(self) -> None:
        name = getattr(rewards_script._unwrapped(self.reward), "__name__", type(self.reward).__name__)
        bad = not isinstance(name, str) or not name.strip() or name == "<lambda>"
        fix = "use `def`, or set `reward.__name__`: TRL keeps one column of the logs per name"
        self.judge("name", [f"TRL logs it as {name!r}"] if bad else [], f"TRL logs it as {name}", fix)

    def check_column_names(self) -> None:
        clash = [name for name in self.columns if name in RESERVED]
        crash = [name for name in clash if name in ("prompts", "completions")]
        problems = [f"column {name!r} is what TRL passes itself" for name in clash]
        fix = f"rename the column{'s' if len(clash) > 1 else ''} {', '.join(clash)}"
        fine = f"columns: {', '.join(self.columns) or 'none'}"
        self.judge("column_names", problems, fine, fix, "dead" if crash or not clash else "waste")

    def signature_problem(self) -> tuple[str, str] | None:
        """What is wrong with the signature, and the remedy. Afterwards `takes` says what can be passed all the same."""
        try:
            parameters = inspect.signature(self.reward).parameters
        except (TypeError, ValueError):
            return None  # not every callable has one; the call will show
        given = set(self.arguments(self.rows[:1], [""])) | set(HOOKS)
        kinds = {one.kind for one in parameters.values()}
        named = {key: one for key, one in parameters.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
        missing = [key for key, one in named.items() if one.default is one.empty and key not in given]
        if missing:
            return self.missing_column(missing[0])
        if inspect.Parameter.POSITIONAL_ONLY in kinds:
            return "it takes positional arguments, and TRL passes keywords", "remove the `/` from its parameters"
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            self.takes = set(named)
            refused = sorted(given - self.takes)
            return (f"it does not take {', '.join(refused)}", "add **kwargs to its parameters") if refused else None
        return None

    def missing_column(self, name: str) -> tuple[str, str]:
        close = difflib.get_close_matches(name, self.passed, 1, 0.5)
        remedy = f"add a column {name!r} to the dataset, or bind a constant (functools.partial, --param {name}=JSON)"
        if close:
            remedy = f"did you mean {close[0]!r}? Rename the parameter or the column"
        return f"it asks for {name!r}; the columns are: {', '.join(sorted(self.passed)) or 'none'}", remedy

    # The first calls.

    def check_pickle(self) -> None:
        problem = self.start()
        if problem == MAIN:
            self.tell("pickle", "not_measured", problem, "move it into a module of its own, then lint it from there")
        else:
            fix = "AsyncGRPO only: use a function or a class of a module that can be imported, no lambda and no closure"
            problems = [f"a fresh Python cannot load it: {problem}"] if problem else []
            self.judge("pickle", problems, "a fresh Python loads it", fix)

    def check_arguments(self) -> bool:
        """Whether the reward can be called at all. Rows on which it raises are told and then left out."""
        problem = self.signature_problem()
        if problem and self.takes is None:
            self.tell("arguments", "fail", *problem)
            return False
        texts = [(row.rights + row.passed + row.seen + [f"{_R}<answer>\n7\n</answer>"])[0] for row in self.rows]
        reply = self.ask(self.rows, self.shaped(texts), extra_s=START_S)
        if reply.get("hung"):
            self.tell("arguments", "not_measured", f"the first call {reply['error']}", "see speed")
            fix = "bound what it does: a regular expression may backtrack, and a loop may not end"
            fix = fix if "did not come back" in reply["error"] else "find out what ends the process"
            self.tell("speed", "fail", f"{len(texts)} completions: {reply['error']}", fix, "dead")
            return False
        if "error" in reply and "values" in self.ask(self.rows, self.shaped(texts, not self.chat)):
            self.chat, reply = not self.chat, {}  # `shapes` tells it
        problems, fix, severity = [problem[0]] if problem else [], problem[1] if problem else "", "dead"
        if "error" in reply:
            alone = [self.ask([row], self.shaped([text])).get("error") for row, text in zip(self.rows, texts)]
            failing = [(row, said) for row, said in zip(self.rows, alone) if said] or [(self.rows[0], reply["error"])]
            row, said = failing[0]
            key = re.match(r"KeyError: '(\w+)'", said)
            if key and key[1] not in self.columns:
                said, fix = self.missing_column(key[1])
            problems.append(f"{sum(map(bool, alone)) or 'all'} of {len(texts)} rows raise, row {row.number}: {said}")
            fix = fix or "mend what the message names, or give None for such a row"
            self.rows = [row for row, said in zip(self.rows, alone) if not said] if any(alone) else []
        elif not problems:
            without = self.ask(self.rows[:1], self.shaped(texts[:1]), hooks=())
            if "error" in without:
                problems, severity = (
                    [f"called as AsyncGRPO does, without {', '.join(HOOKS)}: {without['error']}"],
                    "tell",
                )
                fix = "AsyncGRPO only: give these three the default None, and test for it"
        fine = f"takes what TRL and AsyncGRPO pass: {', '.join(self.arguments([], []))}"
        self.judge("arguments", problems, fine, fix, severity)
        return bool(self.rows)

    # The heart: is a right completion paid more than a wrong one?

    def templates(self) -> tuple[str, str, str]:
        """Column, way of spelling, and template that are paid best on some rows."""
        best, choice = (-math.inf, 0), ("".join(self.golds[:1]), "final", next(iter(TEMPLATES.values())))
        if all(row.rights or (self.golds and row.passed) for row in self.rows):
            return choice  # nothing has to be built
        for column, how in itertools.product(self.golds or [""], ("final", "whole")):
            rows = [row for row in self.rows if not column or self.gold(row, column, how)][:SAMPLE]
            golds = [self.gold(row, column, how) or "42" for row in rows]
            if not rows or (how == "whole" and golds == [self.gold(row, column, "final") or "42" for row in rows]):
                continue
            for template in TEMPLATES.values():
                texts = [template.replace("GOLD", gold) for gold in golds]
                paid = sum(value or 0.0 for value in self.rewards(rows, texts, "a right answer") or [-math.inf])
                # Of shapes that are paid alike, the one with the least in it that nobody asked for.
                rank = (paid, 0 if column else -len(template))
                if rank > best:
                    best, choice = rank, (column, how, template)
        return choice

    def gold(self, row: _Row, column: str, how: str) -> str | None:
        return _spelled(row.source.get(column), how) if column else None

    def others(self, forms: dict, golds: dict, every: list[str], paid: dict) -> dict:
        """Another answer for each row: of three golds one that is not paid, because one row's 1/2 is another's 50%."""
        found, rows = {}, list(forms)
        for offset in (1, 2, 3):
            for row in rows:
                gold = golds[row] or every[0]
                other = every[(every.index(gold) + offset) % len(every)]
                found[row] = _unlike(gold) if _alike(other, gold) else other
            texts = [forms[row].replace("GOLD", found[row]) for row in rows]
            values = (self.rewards(rows, texts, "another row's gold") if rows else None) or []
            rows = [
                row
                for row, value in zip(rows, values)
                if value is not None and paid[row] is not None and value >= paid[row]
            ]
        return found

    def wrong_texts(self, row: _Row, right, template: str | None, gold: str, other: str, every: list[str]) -> dict:
        """Kind of wrong: text. `template` holds GOLD where the answer stands; None if that is not known."""
        right = rewards_script.completion_text(right)
        tag, visible = "reasoning" if "<reasoning>" in right else "think", rewards_script.visible_text(right) or right
        texts = {
            "nothing": "",
            "right in the reasoning": f"<{tag}>\n{visible}\n</{tag}>",
            LONG: right + "\nas I said" * 5000,
            "half of it": right[: len(right) // 2],
        }
        if row.prompt:
            texts["the prompt repeated"] = row.question()
        if template is not None:
            fill = functools.partial(template.replace, "GOLD")
            texts["gold in the reasoning only"] = texts.pop("right in the reasoning")
            texts |= {
                "another row's gold": fill(other),
                "empty blocks": fill("") if template != "GOLD" else "<answer></answer>",
                "gold or another": fill(f"{gold} or {other}"),
                "another or gold": fill(f"{other} or {gold}"),
                "one digit or letter off": fill(_unlike(gold)),
                "gold, then another": f"{fill(gold)}\n{fill(other)}",
                "cut before the gold": template[: template.index("GOLD")],
            }
            number = _number(gold)
            if len(gold) > 1 and (number is None or number != _number(gold[:-1])):
                texts["the gold cut short"] = fill(gold[:-1])
            if number:
                texts["the gold negated"] = fill(gold[1:] if gold.startswith("-") else f"-{gold}")
            if len(every) > 2:
                texts["every gold"] = fill(", ".join(every[:20]))
        return {kind: text for kind, text in texts.items() if text != right and (text or kind == "nothing")}

    def check_discriminates(self) -> None:
        column, how, template = self.templates()
        golds = {row: self.gold(row, column, how) for row in self.rows}
        every = list(dict.fromkeys(filter(None, golds.values()))) or ["42", "43"]
        # A label speaks about the answer, so it says nothing of a reward that reads no gold.
        own = {row: row.rights or (row.passed if self.golds else []) for row in self.rows}
        built = {row: [template.replace("GOLD", golds[row] or "42")] for row in self.rows}
        self.pool = [(row, text) for row in self.rows for text in (own[row] or built[row])[:8]]
        values = self.rewards(*zip(*self.pool), "a right answer")
        if values is None:
            return  # gathered in `errors`; `hostile` tells it
        paid, rights = {}, {}
        for (row, text), value in zip(self.pool, values):
            # Each completion given as right must be paid; of labelled ones one is enough, `score` compares the rest.
            better = row not in paid or paid[row] is None or (value is not None and value > paid[row])
            if row not in paid or better != bool(row.rights):
                paid[row], rights[row] = value, text
        forms = {row: None if own[row] else template for row in rights}
        for row, right in rights.items():
            gold = golds[row] or ""
            if own[row] and gold and isinstance(right, str) and gold in right and "GOLD" not in right:
                forms[row] = "GOLD".join(right.rsplit(gold, 1))
        others = self.others({row: form for row, form in forms.items() if form}, golds, every, paid)
        self.pool, asked, wrong = list(rights.items()), [], {}  # asked: row, kind of wrong, text
        for row, right in rights.items():
            if own[row] or golds[row] or not column:
                kinds = self.wrong_texts(row, right, forms[row], golds[row] or "42", others.get(row, ""), every)
                asked += [(row, *one) for one in kinds.items()]
                wrongs = row.wrongs + (row.failed if self.golds else [])
                asked += [(row, "a completion given as wrong", text) for text in wrongs[:8]]
        for kind in dict.fromkeys(kind for _, kind, _ in asked):
            group = [(row, text) for row, one, text in asked if one == kind]
            values = self.rewards(*zip(*group), f"'{kind}'") or [None] * len(group)
            wrong[kind] = [(*pair, value) for pair, value in zip(group, values) if value is not None]
            self.pool += group[:SAMPLE] if "50k" not in kind else []
        is_given = any(own.values())
        form = next(name for name, text in TEMPLATES.items() if text == template)
        source = "as the rows give it" if is_given else f"{form}, column {column}" if column else f"the shape {form}"
        self.tell_gold_readable(paid)
        self.tell_discriminates(paid, rights, wrong, is_given, source, golds)

    def shown(self, row: _Row) -> str:
        values = ", ".join(f"{name}={_short(row.source.get(name), 60)}" for name in self.golds)
        return f"row {row.number}, {values or _short(row.question(), 60)}"

    def tell_gold_readable(self, paid: dict) -> None:
        nothing = [row for row, value in paid.items() if value is None]
        said = f"{len(nothing)} of {len(paid)} rows give None for a right completion"
        said += f": {self.shown(nothing[0])}" if nothing else ""
        severity = "dead" if len(nothing) == len(paid) else "waste"
        fix = "mend or drop these rows: they cost their rollouts and teach nothing"
        self.judge("gold_readable", [said] if len(nothing) > 0.05 * len(paid) else [], said, fix, severity)

    def opposite(self, golds: dict) -> str | None:
        """A shape in which another answer is paid more than the gold on most rows."""
        rows = [row for row in self.rows if golds[row]][:SAMPLE]
        for template in TEMPLATES.values() if rows else ():
            texts = [[template.replace("GOLD", text) for text in (golds[row], _unlike(golds[row]))] for row in rows]
            right, wrong = (self.rewards(rows, list(column), "a right answer") for column in zip(*texts))
            below = [
                k
                for k in range(len(rows))
                if right and wrong and None not in (right[k], wrong[k]) and right[k] < wrong[k]
            ]
            if len(below) * 2 > len(rows):
                k = below[0]
                said = f"{_short(texts[k][0])} gets {right[k]:g}, {_short(texts[k][1])} gets {wrong[k]:g}"
                return f"it pays the opposite: {said}, {self.shown(rows[k])}"
        return None

    def tell_discriminates(
        self, paid: dict, rights: dict, wrong: dict, is_given: bool, source: str, golds: dict
    ) -> None:
        lowest = {}
        for row, _, value in itertools.chain(*wrong.values()):
            lowest[row] = min(lowest.get(row, math.inf), value)
        works = [row for row in lowest if paid[row] is not None and paid[row] > lowest[row]]
        unpaid = [row for row in lowest if paid[row] is not None and row not in works]
        if not works:
            row = (unpaid or self.rows)[0]
            text, where = _short(rights[row]), self.shown(row)
            said = f"no right completion ({source}) is paid more than a wrong one: {text}, {where}"
            opposite = self.opposite(golds)
            if opposite:
                self.tell("discriminates", "fail", opposite, "pay the right one more than any wrong one")
            elif is_given and unpaid:
                self.tell("discriminates", "fail", said, "find out why this text is not paid")
            else:
                self.tell("discriminates", "not_measured", said, ADVICE)
            return
        # A reward without gold looks at the form, which many a wrong answer has.
        counted = set(REMEDIES) if self.golds else {"nothing", "empty blocks", "a completion given as wrong"}
        if is_given:
            counted.add("the prompt repeated")
        problems, fixes, beside = [], [], []
        for kind, tried in wrong.items():
            entries = [entry for entry in tried if entry[0] in works]
            is_long = kind == LONG
            alike = [entry for entry in entries if entry[2] > paid[entry[0]] + (1e-6 if is_long else -1e-9)]
            if not alike or (len(alike) < len(entries) and len(alike) <= max(1, 0.1 * len(entries))):
                continue
            row, text, value = alike[0]
            how = "more than" if is_long else "like"
            said = f"'{kind}' is paid {how} the right one on {len(alike)} of {len(entries)} texts"
            if is_long:
                said += f" ({value:g} against {paid[row]:g})"
            if kind in counted or is_long:
                problems.append(f"{said}: {_short(text)} gets {value:g}, {self.shown(row)}")
                fixes.append(f"{kind}: {REMEDIES[kind]}")
            else:
                beside.append(said)
        severity = "dead" if any(LONG not in problem for problem in problems) else "waste"
        if not self.golds and not is_given and problems:
            # A term that punishes something pays the empty text as much as any: no measure of a right answer.
            severity = "tell" if any("'nothing'" in problem for problem in problems) else "waste"
            fixes += ["a penalty beside other rewards may do so"] if severity == "tell" else []
        if len(unpaid) > max(1, 0.1 * len(lowest)):
            problems.append(
                f"{len(unpaid)} right ones are not paid: {_short(rights[unpaid[0]])}, {self.shown(unpaid[0])}"
            )
            fixes.append(f"find out what the reward wants there, or {ADVICE}")
        measured = ", ".join(kind for kind in wrong if kind in counted and wrong[kind])
        fine = f"right ({source}) is paid more on {len(works)} of {len(lowest)} rows than: {measured}"
        problems = [f"right ({source})", *problems] if problems else []
        self.judge(
            "discriminates", problems, "; ".join([fine, *beside]), "; ".join(fixes), severity if problems else None
        )

    def check_variance(self) -> None:
        known = sorted(self.values)
        if len(known) > 1:
            self.tell("variance", "pass", f"{len(known)} different rewards, {known[0]:g} to {known[-1]:g}")
            return
        said = f"every text tried got {known[0]:g}" if known else "no text tried got a reward"
        if self.found.get("discriminates", {}).get("verdict") == "not_measured" and not any(
            value > 0 for value in known
        ):
            self.tell("variance", "not_measured", said, ADVICE)
        else:
            self.tell("variance", "fail", said, "a constant reward gives no gradient")

    # Checks that call it with a few rows.

    def sample(self, size: int) -> tuple[list, list]:
        """Rows and texts, right and wrong ones mixed, always the same."""
        pool = self.pool[:]
        random.Random(0).shuffle(pool)
        pairs = [pool[index % len(pool)] for index in range(size)]
        return [row for row, _ in pairs], [text for _, text in pairs]

    def check_shapes(self) -> None:
        rows, texts = self.sample(2 * SAMPLE)
        problems, severity = [], "tell"
        seen = {chat: self.ask(rows, self.shaped(texts, chat)) for chat in (False, True)}
        for chat, reply in seen.items():
            if "error" in reply:
                problems.append(f"{'chat messages' if chat else 'text'}: {reply['error']}")
                severity = "dead" if chat == self.native else severity
        if not problems and seen[False]["values"] != seen[True]["values"]:
            pairs = zip(texts, seen[False]["values"], seen[True]["values"])
            text, a, b = next((one for one in pairs if one[1] != one[2]), (texts[-1], "a reward", "none"))
            problems, severity = [f"{_short(text)} gets {a} as text and {b} as chat messages"], "dead"
        call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
        result, last = {"role": "tool", "name": "f", "content": "42"}, {"role": "assistant", "content": "42"}
        for what, completion in {"a tool run": [call, result, last], "a tool call": [call]}.items():
            reply = self.ask(rows[:1], [completion])
            if "error" in reply:
                problems.append(f"{what} (content None): {reply['error']}")
                severity = "waste" if self.native and severity == "tell" else severity
        fix = "read a completion with rewards.completion_text, which takes all of these"
        fine = "text, chat messages and tool runs are taken alike"
        self.judge("shapes", problems, fine, fix, severity if problems else None)

    def check_length(self) -> None:
        for size in (1, 2, 7):
            self.rewards(*self.sample(size), f"a batch of {size}")
        problems = self.lengths[:2] + [f"a reward of {bad}" for bad in self.bad[:2]]
        fix = "return one finite number or None per completion, in their order"
        self.judge("length", problems, "one finite number or None per completion for 1, 2 and 7", fix)

    def check_hostile(self) -> None:
        has_block = any("<answer>" in text for _, text in self.pool if isinstance(text, str))
        texts = HOSTILE | (
            {f"{name} in a block": f"<answer>{text}</answer>" for name, text in HOSTILE.items()} if has_block else {}
        )
        row, slowest, hung = self.best()[0], (0.0, ""), 0
        for name, text in texts.items():
            start, before = time.perf_counter(), len(self.errors)
            self.rewards([row], [text], name)
            slowest = max(slowest, (time.perf_counter() - start, name))
            hung += len(self.errors) > before and self.errors[-1][2]
            if hung == 3:
                self.errors.append(("the rest", "was not tried", False))
                break
        said = {}
        for what, error, _ in self.errors:
            said.setdefault(error, []).append(what)
        problems = [f"{', '.join(dict.fromkeys(what))}: {error}" for error, what in said.items()]
        fine = f"{len(texts)} hostile texts raised nothing; slowest: {slowest[1]}, {slowest[0]:.1f} s"
        fix = "what the model wrote scores 0, whatever it is; bound what may take long"
        self.judge("hostile", problems[:4], fine, fix)

    def best(self) -> tuple:
        """A row whose gold is there, and its right completion."""
        return next(((row, text) for row, text in self.pool if self.gold_is_there(row)), self.pool[0])

    def gold_is_there(self, row: _Row) -> bool:
        return all(_spelled(row.source.get(name), "whole") for name in self.golds)

    def check_missing_column_values(self) -> None:
        problems, fine, (row, right) = [], {}, self.best()
        for column, text in itertools.product(self.golds, (right, "None", "<answer>None</answer>")):
            reply = self.ask([row], self.shaped([text]), {column: [None]})
            value, error = (reply.get("values") or [None])[0], reply.get("error", "")
            if value is not None:
                problems.append(f"{column}=None: {_short(text, 40)} gets {value}")
            elif error and not (error.startswith(("TypeError", "ValueError")) and column in error):
                problems.append(f"{column}=None: {error}")
            fine[f"{column}=None gives {error or 'None'}"] = None
        fix = "return None for a row whose gold is missing: the user's fault must not be scored"
        self.judge("missing_column_values", problems[:2], "; ".join(fine) or "it reads no column", fix)

    def check_wrong_length_column(self) -> None:
        problems, (rows, texts) = [], self.sample(3)
        for column in self.golds:
            values = [row.source.get(column) for row in rows]
            for changed in (values[:2], [*values, values[0]]):
                reply = self.ask(rows, self.shaped(texts), {column: changed})
                if "error" not in reply:
                    got = f"{len(reply['values'])} rewards and no error"
                    problems.append(f"{len(changed)} values of {column} for 3 completions give {got}")
        fine = "a column of another length raises" if self.golds else "it reads no column"
        self.judge("wrong_length_column", problems, fine, "zip(..., strict=True)")

    def check_order_and_batch(self) -> None:
        rows, texts = self.sample(3 * SAMPLE)
        order = list(range(len(rows)))
        random.Random(1).shuffle(order)
        whole = self.rewards(rows, texts, "a batch")
        again = self.rewards(rows, texts, "the batch again")
        mixed = self.rewards([rows[i] for i in order], [texts[i] for i in order], "the batch in another order")
        single = [self.rewards([row], [text], "one row") for row, text in zip(rows, texts)]
        if whole is None or again is None or mixed is None or None in single:
            return
        trials = {"a second call with the same batch": again,
                  "another order": [value for _, value in sorted(zip(order, mixed), key=lambda pair: pair[0])],
                  "single rows": [values[0] for values in single]}  # fmt: skip
        problems = []
        for what, values in trials.items():
            unlike = [one for one in zip(texts, whole, values) if not _same(*one[1:])]
            if unlike:
                text, a, b = unlike[0]
                problems.append(
                    f"{what}: {len(unlike)} of {len(texts)} rewards differ, {_short(text, 50)} {a} then {b}"
                )
                break
        fix = "judge each completion by itself, without chance; TRL cuts batches as it likes"
        self.judge("order_and_batch", problems, f"{len(rows)} rows: same rewards in any order and one by one", fix)

    def check_mutation(self) -> None:
        problems = [f"it changes {', '.join(sorted(self.changed))}"] if self.changed else []
        self.judge(
            "mutation", problems, "what it is handed stays as it was", "copy before changing: others read it too"
        )

    def check_log_names(self) -> None:
        rows, texts = self.sample(SAMPLE)
        self.rewards(rows, texts, "a batch")
        names = dict.fromkeys([*(column for column, _, _ in self.extra), *(name for name, _ in self.metrics)])
        uneven = {
            column: f"{column!r} has {n} values for {size} completions" for column, n, size in self.extra if n != size
        }
        odd = {name: f"{name!r} is {value}" for name, value in self.metrics if not isinstance(value, float)}
        foreign = [name for name in names if not name.startswith(f"{self.name}/")]
        problems = [
            *uneven.values(),
            *odd.values(),
            *(f"{name!r} does not begin with '{self.name}/'" for name in foreign),
        ]
        severity = "dead" if uneven else "waste" if CORE_COLUMNS & set(foreign) or odd else "tell" if foreign else None
        fix = f"log under '{self.name}/\u2026', one value per completion, metrics as finite numbers: names are shared"
        self.judge("log_names", problems[:3], f"logs {', '.join(names) or 'nothing'}", fix, severity)

    def check_speed(self) -> None:
        padding = "So we add the two numbers and look at the result again. " * 40  # about 500 tokens
        pairs, rights = [], self.pool[: len(self.rows)]
        for row, right in rights:
            before, opened, after = rewards_script.completion_text(right).rpartition("<reasoning>\n")
            pairs += [(row, right), (row, f"{before}{opened}{padding}\n{after}")]
        start = time.perf_counter()
        self.rewards(*zip(*pairs), "texts of 500 tokens")
        each_s = (time.perf_counter() - start) / len(pairs)
        replies = [(self.ask([row], self.shaped([text])), text) for row, text in pairs[:: max(1, len(pairs) // 20)]]
        worst, text = max(((reply.get("seconds", math.inf), text) for reply, text in replies), key=lambda one: one[0])
        said = f"{1 / each_s:.0f} completions a second; slowest row {worst:.3f} s: {_short(text, 50)}"
        fix = f"at most {self.max_row_s:g} s a row, because the GPUs wait: make it async or bound its work"
        self.judge("speed", [said] if max(worst, each_s) > self.max_row_s else [], said, fix)

    def run(self) -> list[dict]:
        self.check_name()
        self.check_column_names()
        self.check_pickle()
        try:
            if self.check_arguments():
                # Hostile texts come last: they may cost the reward workers of its own. The others gather on the way.
                for check in (
                    "discriminates", "shapes", "speed", "order_and_batch", "missing_column_values",
                    "wrong_length_column", "log_names", "hostile", "length", "mutation", "variance",
                ):  # fmt: skip
                    getattr(self, f"check_{check}")()
        finally:
            self.end()
        why = "the reward could not be called" if not self.pool else "a call failed, see hostile"
        for check in CHECKS:
            if check not in self.found:
                self.tell(check, "not_measured", why, "mend what fails, then lint again")
        return [self.found[check] for check in CHECKS]


def lint(
    reward, rows: list[dict], name=None, constants=None, max_row_s: float = 1.0, max_rows: int | None = None
) -> list[dict]:
    """Try a reward before training: the contract with TRL, hostile texts, and whether a right completion is paid more
    than a wrong one.

    Args:
        reward (callable): sync or async. It is called some hundred times, in a process of its own.
        rows (`list[dict]`): rows of the dataset: `prompt` and the columns the reward reads. A row may hold `right` and
            `wrong` (a completion that must or must not be paid, or a list of these), or `completion` with a `label`
            `pass` or `fail`. Without them right completions are built from the columns.
        name (`str`, *optional*): name in the logs, by default the one TRL would take.
        constants (`dict`, *optional*): passed with every call, as `--param`.
        max_row_s (`float`): seconds one row may cost. A call counts as hung, and is killed, after 20 times as long.
        max_rows (`int`, *optional*): prompts used, from the first on.

    Returns:
        `list[dict]`: one finding per check of `CHECKS`: `check`, `verdict` (`pass`, `fail`, `not_measured`), `severity`
        of a fail (`dead`: training crashes or cannot learn; `waste`; `tell`), `evidence`, `fix`.

    Raises:
        TypeError: `reward` cannot be called, or a row is no dict.
        ValueError: no rows.
    """
    rows = list(rows)
    if not callable(reward) or not all(isinstance(row, dict) for row in rows):
        raise TypeError("lint: give a callable and a list of dicts, the rows of the dataset")
    if not rows:
        raise ValueError("lint: give at least one row of the dataset")
    return _Lint(reward, rows, name, constants or {}, max_row_s, max_rows or None).run()


TELLING = ("speed", "gold_readable", "discriminates")  # what these found is worth reading where they pass, too


def show(result: dict, full: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
    from score_completions import safe

    console = Console(width=shutil.get_terminal_size((120, 40)).columns, highlight=False)
    for name, findings in result["rewards"].items():
        table = Table("check", "verdict", "severity", "evidence", "fix", title=Text(name), show_lines=True)
        silent = [one for one in findings if one["verdict"] == "pass" and one["check"] not in TELLING and not full]
        for finding in (one for one in findings if one not in silent):
            verdict = finding["verdict"].replace("_", " ")
            severity = finding["severity"] if finding["verdict"] == "fail" else ""
            texts = [finding["check"], verdict, severity, safe(finding["evidence"]), safe(finding["fix"])]
            table.add_row(*map(Text, texts))
        console.print(table)
        if silent:
            console.print(
                Text(f"passed as well (--full says what was seen): {', '.join(one['check'] for one in silent)}")
            )


def notes(result: dict) -> list[str]:
    """What a person must know before believing that nothing failed."""
    found = []
    for name, findings in result["rewards"].items():
        unknown = [finding["check"] for finding in findings if finding["verdict"] == "not_measured"]
        if "discriminates" in unknown:
            said = next(finding for finding in findings if finding["check"] == "discriminates")
            found.append(
                f"{name}: WHETHER IT TELLS RIGHT FROM WRONG WAS NOT MEASURED (discriminates): {said['evidence']}; "
                f"{said['fix']}"
            )
            unknown.remove("discriminates")
        if unknown:
            found.append(f"{name}: not measured: {', '.join(unknown)}")
    return found


def run(args) -> int:
    import score_completions as score

    if args.rows < 1 or not 0 < args.max_row_s < math.inf:
        raise score.UserError("--rows must be at least 1 and --max-row-s above 0")
    rows = score.read_rows(args.file)
    if not rows:
        raise score.UserError(f"{args.file}: no rows")
    bare = next((number for number, row in enumerate(rows, start=1) if "prompt" not in row), None)
    if bare:
        have = ", ".join(sorted(rows[bare - 1])) or "nothing"
        raise score.UserError(f'{args.file}: row {bare} has no "prompt"; it has {have}')
    score.check_prompts(rows, args.file)
    names = {key for row in rows for key in row}
    clash = set(args.param) & (RESERVED | NOT_COLUMNS)
    if clash:
        raise score.UserError(f"{', '.join(sorted(clash))} is what TRL passes itself; rename the parameter")
    if names & set(args.param):
        taken = ", ".join(sorted(names & set(args.param)))
        raise score.UserError(f"--param {taken}: the file has that column, and in TRL the column wins")
    for number, row in enumerate(rows, start=1):
        try:
            list(map(functools.partial(_given, row), ("completion", "right", "wrong")))
        except TypeError as error:
            raise score.UserError(f"{args.file}: row {number}: {error}") from None
    with contextlib.redirect_stdout(sys.stderr):  # what a reward prints must not end up in the data
        functions, found = score.load_rewards(args.reward), {}
        score.check_params(functions, args.param)
        for name, reward in functions.items():
            print(f"note: trying {name}; a reward that hangs takes minutes", file=sys.stderr)
            found[name] = lint(reward, rows, constants=args.param, max_row_s=args.max_row_s, max_rows=args.rows)
    result = {"schema_version": 1, "rewards": found}
    if args.json:
        print(json.dumps(result, ensure_ascii=True, indent=1))
    else:
        try:
            show(result, args.full)
        except ImportError:
            raise score.UserError("the tables need rich: pip install rich, or use --json") from None
    sys.stdout.flush()
    for note in notes(result):
        print(f"note: {note}", file=sys.stderr)
    fails = [one["severity"] for findings in found.values() for one in findings if one["verdict"] == "fail"]
    return 1 if {"dead", "waste"}.intersection(fails) else 0
