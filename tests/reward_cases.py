"""Inputs that broke other people's rewards, with the right answer, and how each is put to a module of rewards.

`data/reward_cases.jsonl` holds one case per line (id, source, function_kind, input, expected, why). The kinds below are
judged by calling the functions; `plumbing` is TRL's side of the contract and is judged in `trainer/`.
"""

import asyncio
import builtins
import concurrent.futures
import functools
import json
import pickle
import shutil
import time
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data" / "reward_cases.jsonl"
ALL_CASES = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]

# Kinds that need a program of the system: code runs in a real sandbox.
NEEDS = {"code": "bwrap"}
PLUMBING = {case["id"]: case for case in ALL_CASES if case["function_kind"] == "plumbing"}
# Cases about length that are answered by a function of TRL's are put to it in test_trl_rewards.py.
TRL_LENGTH = {
    case["id"]: case for case in ALL_CASES if case["function_kind"] == "length" and case["input"]["fn"] != "wrapper"
}
_ELSEWHERE = {*PLUMBING, *TRL_LENGTH}
CASES = [case for case in ALL_CASES if case["id"] not in _ELSEWHERE]


def completion_of(given: dict):
    """Builds the completion a case describes in short."""
    if "completion_repeat" in given:
        start, unit, times = given["completion_repeat"]
        return start + unit * times
    completion = given["completion"]
    if not isinstance(completion, dict):
        return completion
    if "repeat" in completion:
        unit, times = completion["repeat"]
        return unit * times
    if "repeat_in" in completion:
        before, unit, times, after = completion["repeat_in"]
        return before + unit * times + after
    # The innermost value must be wrong, or the first arm of the schema would settle every level at once.
    return "[" * completion["nest"] + "1" + "]" * completion["nest"]


def constant(completions, value=1.0, **kwargs):
    return [value] * len(completions)


def other(completions, **kwargs):
    return constant(completions)


class Replies:
    """A judge that always says the same, after a while."""

    def __init__(self, reply, latency_s=0.0):
        self.reply, self.latency_s = reply, latency_s

    def judge(self, rubric, prompt, response, output_format):
        time.sleep(self.latency_s)
        return self.reply


class AsyncReplies(Replies):
    async def judge(self, rubric, prompt, response, output_format):
        await asyncio.sleep(self.latency_s)
        return self.reply


class Script(Replies):
    """A judge that raises or answers what a list says, one entry per call: `TimeoutError`, `ok:pass`."""

    def __init__(self, entries):
        self.entries, self.calls = entries, 0

    def judge(self, rubric, prompt, response, output_format):
        entry = self.entries[self.calls]
        self.calls += 1
        if entry.startswith("ok:"):
            return entry[3:]
        raise getattr(builtins, entry)("as the case says")


def _format(module, given):
    options = {"prefilled": True} if given.get("prefilled") else {}
    return module.format_reward([completion_of(given)], **options)


def _exact(module, given):
    if given.get("mode") == "choice":
        return module.choice_reward([given["completion"]], answer=[given["gold"]])
    if given.get("mode") == "tool_calls":
        return _tool_calls(module, given)
    (reward,) = module.correctness_reward([completion_of(given)], answer=[given["gold"]])
    return [reward if reward is None else reward / 2.0]  # the cases count a right answer as 1.0


def _tool_calls(module, given):
    """As messages, as tagged text and as JSON; the verdicts must be one."""
    calls = given["predicted"]
    message = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": c} for c in calls]}
    tagged = "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)
    shapes = [[message, {"role": "tool", "content": "7"}], tagged, json.dumps(calls)]
    verdicts = module.tool_call_reward(shapes, tool_calls=[given["gold"], json.dumps(given["gold"]), given["gold"]])
    assert len(set(verdicts)) == 1, verdicts
    return verdicts[:1]


def _math(module, given):
    """An answer in a box and in an answer block; the verdicts must be one."""
    if "completion" in given:
        texts = [given["completion"]]
    else:
        texts = [f"So \\boxed{{{given['answer']}}}.", f"<answer>{given['answer']}</answer>"]

    def call():
        return module.math_reward(texts, answer=given["gold"])

    if given.get("thread"):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            verdicts = pool.submit(call).result()
    else:
        verdicts = call()
    assert len(set(verdicts)) == 1, verdicts
    return verdicts[:1]


def _schema(module, given):
    return module.schema_reward([completion_of(given)], output_schema=given["schema"])


def _judge(module, given):
    size = given.get("n", 1)
    if "raises" in given:
        client = Script(given["raises"])
    else:
        client = (AsyncReplies if given.get("async") else Replies)(given["reply"], given.get("latency_s", 0.0))
    reward = module.make_rubric_judge_reward(client, "Is it good?", backoff_s=0.001, concurrency=16)
    verdicts = reward(prompts=["p"] * size, completions=[f"c{index}" for index in range(size)])
    return asyncio.run(verdicts) if given.get("async") else verdicts


def _code(module, given):
    import sandbox

    prefix = ["no-such-sandbox"] if given.get("sandbox") == "missing" else sandbox.bubblewrap()
    return module.test_execution_reward([given["completion"]], given["tests"], prefix, on_infra_error="none")


def _length(module, given):
    base = functools.partial(_listed, given["base"])
    return module.with_length_penalty(base)(completions=[" ".join(["word"] * count) for count in given["words"]])


def _listed(values, completions, **kwargs):
    return list(values)


def _wrapper(module, case_id):
    wrap = module.with_length_penalty
    if case_id == "W-partial-name":
        # TRL names a partial after its function, and so does our wrapper.
        assert wrap(functools.partial(constant, value=2.0)).__name__ == wrap(constant).__name__
        assert "constant" in wrap(constant).__name__
    elif case_id == "W-pickle":
        for factory_result in (wrap(constant), module.make_rubric_judge_reward(Replies("pass"), "Is it good?")):
            copy = pickle.loads(pickle.dumps(factory_result))
            call = dict(prompts=["p"], completions=["word " * 600])
            assert copy.__name__ == factory_result.__name__ and copy(**call) == factory_result(**call)
    elif case_id == "W-dup-name":
        names = {wrap(constant).__name__, wrap(other).__name__, wrap(constant, target_len=9).__name__}
        names.add(wrap(constant, penalty_per_token=0.5).__name__)
        assert len(names) == 4, names
    else:
        raise AssertionError(f"no check for {case_id}")


def run_case(module, case: dict) -> None:
    """Put one case to the rewards of `module`; AssertionError if the verdict is not the expected one."""
    kind, given = case["function_kind"], case["input"]
    if kind in NEEDS and not shutil.which(NEEDS[kind]):
        pytest.skip(f"NOT RUN: {NEEDS[kind]} is not installed")
    if kind == "wrapper":
        return _wrapper(module, case["id"])
    kinds = {
        "format": _format,
        "exact": _exact,
        "schema": _schema,
        "judge": _judge,
        "length": _length,
        "math": _math,
        "code": _code,
    }
    started, started_wall = time.process_time(), time.monotonic()
    got = kinds[kind](module, given)
    seconds, wall_s = time.process_time() - started, time.monotonic() - started_wall
    if isinstance(case["expected"], dict):  # {"max_wall_s": ...}
        assert wall_s < case["expected"]["max_wall_s"] and set(got) == {1.0}, (wall_s, got, case["why"])
        return None
    expected = case["expected"] if isinstance(case["expected"], list) else [case["expected"]]
    assert got == expected or (len(got) == 1 and got[0] in case.get("accept", [])), (got, expected, case["why"])
    # Budgets are the cases' own. What they tell apart is milliseconds from a hang; imports are outside of neither.
    budget = given.get("budget_s", 0.25 if case["id"] == "F-redos" else 30)
    assert seconds < budget, f"{seconds:.2f} s of CPU, {budget} s allowed: {case['why']}"
