"""Inputs that broke other people's rewards, with the right answer, and how each is put to a module of rewards.

`data/reward_cases.jsonl` holds one case per line (id, source, function_kind, input, expected, why). The kinds below are
judged by calling the functions; `plumbing` is TRL's side of the contract and is judged in `trainer/`. Kinds and modes
that need rewards we do not have yet are listed in `NOT_YET`, so that a new one is never left out by accident.
"""

import functools
import json
import pickle
import time
from pathlib import Path

DATA = Path(__file__).parent / "data" / "reward_cases.jsonl"
ALL_CASES = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]


def _not_yet(case: dict) -> str | None:
    kind, given = case["function_kind"], case["input"]
    if kind in ("math", "code"):
        return f"{kind} cases wait for their reward"
    if kind == "exact" and "mode" in given:
        return "choice_reward and tool_call_reward do not exist yet"
    if kind == "length" and given["fn"] != "wrapper":
        return "only the wrapper is ours; the rest compares TRL's own functions"
    if kind == "judge" and ({"async", "latency_s", "raises"} & set(given)):
        return "async, concurrency and retry of the judge come later"
    return None


NOT_YET = {case["id"]: reason for case in ALL_CASES if (reason := _not_yet(case))}
PLUMBING = {case["id"]: case for case in ALL_CASES if case["function_kind"] == "plumbing"}
CASES = [case for case in ALL_CASES if case["id"] not in NOT_YET and case["id"] not in PLUMBING]


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
    """A judge that always says the same."""

    def __init__(self, reply):
        self.reply = reply

    def judge(self, rubric, prompt, response, output_format):
        return self.reply


def _format(module, given):
    options = {"prefilled": True} if given.get("prefilled") else {}
    return module.format_reward([completion_of(given)], **options)


def _exact(module, given):
    (reward,) = module.correctness_reward([completion_of(given)], answer=[given["gold"]])
    return [reward if reward is None else reward / 2.0]  # the cases count a right answer as 1.0


def _schema(module, given):
    return module.schema_reward([completion_of(given)], output_schema=given["schema"])


def _judge(module, given):
    return module.make_rubric_judge_reward(Replies(given["reply"]), "Is it good?")(prompts=["p"], completions=["c"])


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
    if kind == "wrapper":
        return _wrapper(module, case["id"])
    call = {"format": _format, "exact": _exact, "schema": _schema, "judge": _judge, "length": _length}[kind]
    started = time.process_time()
    got = call(module, given)
    seconds = time.process_time() - started
    expected = case["expected"] if isinstance(case["expected"], list) else [case["expected"]]
    assert got == expected or (len(got) == 1 and got[0] in case.get("accept", [])), (got, expected, case["why"])
    # Budgets are the cases' own. What they tell apart is milliseconds from a hang; imports are outside of neither.
    budget = given.get("budget_s", 0.25 if case["id"] == "F-redos" else 30)
    assert seconds < budget, f"{seconds:.2f} s of CPU, {budget} s allowed: {case['why']}"
