"""scripts/rewards.py against cases that broke other people's rewards, both JSON Schema back ends, and a real sandbox."""

import asyncio
import collections
import functools
import inspect
import json
import logging
import math
import multiprocessing
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import types
from decimal import Decimal
from pathlib import Path

import numpy
import pytest
import reward_cases
import rewards
from reward_cases import CASES, NEEDS, PLUMBING, TRL_LENGTH, run_case

ROOT = Path(__file__).parents[1]
RIGHT = "<reasoning>3 + 4</reasoning><answer>7</answer>"
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case):
    run_case(rewards, case)


def test_no_kind_of_case_is_left_out_by_accident():
    counts = collections.Counter(case["function_kind"] for case in CASES)
    first = {"format": 11, "exact": 17, "math": 17, "schema": 12, "wrapper": 3, "length": 1, "judge": 5, "code": 10}
    assert counts == first and set(NEEDS) == {"code"}
    assert (len(PLUMBING), len(TRL_LENGTH)) == (8, 5)


def test_a_wrong_reward_fails_the_cases():
    """The cases are worth nothing if any reward passes them."""
    generous = types.ModuleType("generous")
    generous.choice_reward = lambda completions, answer, **kwargs: [1.0]
    generous.tool_call_reward = lambda completions, tool_calls, **kwargs: [1.0] * len(completions)
    generous.format_reward = lambda completions, **kwargs: [1.0]
    generous.correctness_reward = lambda completions, answer, **kwargs: [2.0]
    generous.schema_reward = lambda completions, output_schema, **kwargs: [1.0]
    generous.test_execution_reward = lambda *args, **kwargs: [1.0]
    generous.math_reward = lambda completions, answer, **kwargs: [1.0] * len(completions)
    generous.make_rubric_judge_reward = lambda *args, **kwargs: lambda completions, **kwargs: [1.0] * len(completions)
    for kind in ("format", "exact", "schema", "math", "judge", "code"):
        failed = 0
        for case in CASES:
            if case["function_kind"] == kind:
                try:
                    run_case(generous, case)
                except (AssertionError, ValueError):
                    failed += 1
        assert failed >= 2, kind


# --- the contract every reward shares ---------------------------------------------------------------------------------


def last_word(text, prefilled):
    return text.split()[-1]


CALL = '[{"name": "add", "arguments": {"a": 3, "b": 4}}]'
TEXT_REWARDS = [
    (rewards.format_reward, {}),
    (rewards.make_format_reward(["think"]), {}),
    (rewards.correctness_reward, {"answer": "7"}),
    (rewards.make_correctness_reward("text"), {"answer": "7"}),
    (rewards.numeric_reward, {"answer": "7"}),
    (rewards.make_numeric_reward(rel_tol=0.1), {"answer": "7"}),
    (rewards.math_reward, {"answer": "x+1"}),
    (rewards.choice_reward, {"answer": "B"}),
    (rewards.schema_reward, {"output_schema": NUMBER}),
    (rewards.make_schema_reward(graded=True), {"output_schema": NUMBER}),
    (rewards.tool_call_reward, {"tool_calls": CALL}),
    (rewards.make_tool_call_reward("lenient"), {"tool_calls": CALL}),
    (rewards.combine(rewards.correctness_reward, gate=rewards.format_reward), {"answer": "7"}),
]


@pytest.mark.parametrize(("reward", "columns"), TEXT_REWARDS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize(
    "completion",
    ["", None, [], "\ud800", "\0", "<answer>", "</answer>", "{", "```", "\N{BOM}" * 3,
     [{"role": "assistant", "content": None}],
     [{"role": "assistant", "content": "", "tool_calls": [{"type": "function"}]}, {"role": "tool", "content": "7"}],
     [{"role": "assistant", "content": [{"type": "image"}, {"type": "text", "text": "x"}]}],
     [{"role": "user", "content": RIGHT}],
     "<reasoning>\u200b</reasoning><answer>\u2060</answer>",
     "<reasoning>" * 1000, "[" * 5000, '{"a":' * 5000, "9" * 10_000, "1e999999", '"\\ud800"'],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_no_completion_crashes_a_reward(reward, columns, completion):
    assert reward(completions=[completion] * 2, prompts=["p"] * 2, completion_ids=[[1], [1]], **columns) == [0.0, 0.0]


@pytest.mark.parametrize(("reward", "columns"), TEXT_REWARDS, ids=lambda value: getattr(value, "__name__", ""))
def test_reasons_and_abstentions_are_logged_under_the_rewards_own_name(reward, columns, logged):
    values = reward(completions=[RIGHT, "x"], prompts=["p"] * 2, **columns, **logged.kwargs())
    name = reward.__name__
    assert len(values) == 2 and f"{name}/reason" in logged.extra
    assert {len(column) for column in logged.extra.values()} == {2}
    assert {key.partition("/")[0] for key in (*logged.extra, *logged.metrics)} == {name}
    assert all(math.isfinite(value) for value in logged.metrics.values())


def test_empty_batch():
    assert all(reward(completions=[], **columns) == [] for reward, columns in TEXT_REWARDS)


@pytest.mark.parametrize(
    ("reward", "column"),
    [
        (rewards.correctness_reward, "answer"),
        (rewards.schema_reward, "output_schema"),
        (functools.partial(rewards.test_execution_reward, sandbox_cmd=["true"]), "test_code"),
        (rewards.numeric_reward, "answer"),
        (rewards.math_reward, "answer"),
        (rewards.choice_reward, "answer"),
        (rewards.tool_call_reward, "tool_calls"),
        (rewards.make_schema_reward(graded=True), "output_schema"),
    ],
)
def test_a_column_of_wrong_length_names_function_and_both_lengths(reward, column):
    with pytest.raises(ValueError, match=rf"(?=.*reward)(?=.*{column})(?=.*\b3\b)(?=.*\b2\b)"):
        reward(completions=["a", "b"], **{column: ["x", "y", "z"]})


def test_a_completion_of_unknown_shape_is_the_users_error():
    with pytest.raises(TypeError, match="string or a list of chat messages"):
        rewards.format_reward([7])
    with pytest.raises(TypeError, match="content of a message"):
        rewards.format_reward([[{"role": "assistant", "content": {"text": "x"}}]])


def test_importing_pulls_in_nothing_heavy():
    code = "import sys, rewards; print(sorted({m.partition('.')[0] for m in sys.modules}))"
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
    )
    assert "rewards" in out.stdout
    heavy = {"torch", "trl", "transformers", "datasets", "jsonschema", "jsonschema_rs", "rich", "pyarrow", "numpy",
             "math_verify", "sympy", "tenacity", "openai", "asyncio", "answers", "judge", "killable"}  # fmt: skip
    assert not heavy & set(eval(out.stdout)), out.stdout


def documented_reasons(docstring: str) -> set[str]:
    """What a docstring lists after "Reasons:" or "one more reason:", to the end of that paragraph."""
    parts = re.findall(r"[Rr]easons?(?:, with a gate)?: (.*?)(?:\n\s*\n|\Z)", docstring, flags=re.DOTALL)
    return {name for part in parts for name in re.findall(r"`([a-z_]+)`", part.partition("The reply")[0])} - {"name"}


def test_the_reference_lists_every_reason():
    text = (ROOT / "references" / "reward-library.md").read_text(encoding="utf-8")
    table = text.split("| Reason | Score | Means |")[1].split("\n\n")[0]
    listed = {name for row in table.splitlines()[2:] for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])}
    documented = set().union(*(documented_reasons(getattr(rewards, name).__doc__ or "") for name in rewards.__all__))
    assert len(documented) > 35 and listed == documented


# --- text, format, exact match ----------------------------------------------------------------------------------------


def test_the_last_assistant_message_is_the_completion():
    turns = [
        {"role": "assistant", "content": "first"},
        {"role": "tool", "content": "tool text"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "la"}, {"type": "image"}, {"type": "text", "text": "st"}],
        },
    ]
    assert rewards.completion_text(turns) == "last"
    assert rewards.completion_text(turns[:2]) == "first"
    assert rewards.completion_text([{"content": "no role"}]) == "no role"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (RIGHT, "ok"),
        (f"  {RIGHT}\n", "ok"),
        (f"Sure! {RIGHT}", "text_outside_blocks"),
        (f"{RIGHT} Done.", "text_outside_blocks"),
        ("<reasoning>a</reasoning>b<answer>c</answer>", "text_outside_blocks"),
        ("<answer>c</answer><reasoning>a</reasoning>", "wrong_tags"),
        ("<reasoning> </reasoning><answer>c</answer>", "empty_block"),
        ("<reasoning>a</reasoning><answer>\n</answer>", "empty_block"),
        ("a</reasoning><answer>c</answer>", "wrong_tags"),
        ("<reasoning>a</reasoning><answer>c", "wrong_tags"),
        (f"{RIGHT}<|im_end|>", "ok"),
        (f"{RIGHT}\n<|eot_id|> </s><pad><pad>\n", "ok"),
        (f"{RIGHT}<|im_start|>", "text_outside_blocks"),
        (f"{RIGHT}<|im_end|>.", "text_outside_blocks"),
        ("<|im_end|>", "wrong_tags"),
    ],
)
def test_format_reasons(text, reason, logged):
    rewards.format_reward([text], **logged.kwargs())
    assert logged.extra["format_reward/reason"] == [reason]


@pytest.mark.parametrize(
    ("tags", "prefilled", "text", "reason"),
    [
        (["think"], False, "<think>a</think>b", "ok"),
        (["think"], False, "<think>a</think>", "empty_block"),
        (["think"], False, "<think>a</think> \n<|im_end|>", "empty_block"),
        (["think"], False, "x<think>a</think>b", "text_outside_blocks"),
        (["think"], False, "<think>a</think>b<think>c</think>", "wrong_tags"),
        (["think"], True, "a</think>b", "ok"),
        (["think"], True, "<think>a</think>b", "wrong_tags"),
        (["think"], True, "a", "wrong_tags"),
        ("think", False, "<think>a</think>b", "ok"),
        (["think", "answer"], False, "<think>a</think><answer>b</answer>", "ok"),
        (["think", "answer"], False, "<think>a</think><answer>b</answer>c", "text_outside_blocks"),
        (["think", "answer"], False, "<think>a<answer>b</think></answer>", "wrong_tags"),
        (["think", "answer"], False, RIGHT, "wrong_tags"),
        (["plan", "code", "test"], False, "<plan>a</plan> <code>b</code>\n<test>c</test>", "ok"),
        (["plan", "code", "test"], False, "<plan>a</plan><code></code><test>c</test>", "empty_block"),
        (["plan", "code", "test"], True, "a</plan><code>b</code><test>c</test>", "ok"),
    ],
)
def test_other_tags(tags, prefilled, text, reason, logged):
    reward = rewards.make_format_reward(tags, prefilled)
    assert reward(completions=[text], **logged.kwargs()) == [float(reason == "ok")]
    assert logged.extra[f"{reward.__name__}/reason"] == [reason]


@pytest.mark.parametrize("tags", [[], ["a", "a"], ["<think>"], ["a b"], [""], ["th.nk"]])
def test_tags_that_are_no_tags(tags):
    with pytest.raises(ValueError, match="make_format_reward"):
        rewards.make_format_reward(tags)


def test_prefilled_can_differ_from_row_to_row():
    texts = ["a</reasoning><answer>c</answer>", RIGHT]
    assert rewards.format_reward(texts, prefilled=[True, False]) == [1.0, 1.0]
    assert rewards.format_reward(texts, prefilled=[False, True]) == [0.0, 0.0]
    assert rewards.format_reward([" </reasoning><answer>c</answer>"], prefilled=True) == [0.0]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>1</answer><reasoning>or <answer>2</answer>?</reasoning>", "1"),
        ("<think>a</think><answer>1</answer><think>no: <answer>2</answer></think>", "1"),
        ("<reasoning>a <answer>1</answer>", None),
        ("maybe <answer>1</answer></reasoning> hm", None),
        ("<think><reasoning>a</reasoning><answer>1</answer></think>b", None),
        ("<think>the shape is <reasoning>..</reasoning><answer>1</answer>, let me", None),
        ("<reasoning>a</reasoning><think>b</reasoning><answer>1</answer>", None),
        ("<answer>1</answer><think>a</think>hm</think>done", None),
        ("<answer>1</answer> no: <answer>2", None),
        ("<answer>4<reasoning>x</reasoning>2</answer>", "4\n2"),
        ("<ans<reasoning>x</reasoning>wer>1</answer>", None),
        ("<reasoning>r</reasoning><answer>1</answer> bye </answer>", "1"),
        ("", None),
    ],
)
def test_last_answer_outside_the_reasoning(text, answer):
    assert rewards.extract_answer(text) == answer


def test_the_shortcut_for_the_usual_shape_agrees_with_the_long_way():
    pieces, choose = (
        [*"x7 <", *(f"<{slash}{name}>" for slash in ("", "/") for name in ("reasoning", "think", "answer"))],
        random.Random(0),
    )
    for _ in range(20_000):
        text = "<reasoning>" * choose.randint(0, 1) + "".join(choose.choices(pieces, k=choose.randint(0, 9)))
        visible = rewards.visible_text(text)
        start = visible.rfind("<answer>")
        end = visible.find("</answer>", start)
        assert rewards.extract_answer(text) == (visible[start + 8 : end] if -1 < start < end else None), text


def test_a_draft_in_a_prefilled_block_that_never_closed_is_not_paid():
    draft = "I think <answer>7</answer>, let me check: 3 +"
    assert rewards.correctness_reward([draft] * 2, answer="7", prefilled=[True, False]) == [0.0, 2.0]
    assert rewards.schema_reward(['{"n": 1}'] * 2, output_schema=NUMBER, prefilled=[True, False]) == [0.0, 1.0]
    assert rewards.correctness_reward(["so</reasoning><answer>7</answer>"], answer="7", prefilled=True) == [2.0]


@pytest.mark.parametrize(
    ("gold", "predicted", "reward"),
    [
        (7, "7", 2.0), (7.0, "7", 2.0), (7.5, "7.5", 2.0), (numpy.int64(7), "7", 2.0), (numpy.float32(0.5), "0.5", 2.0),
        (numpy.float32(0.1), "0.1", 2.0), (Decimal("7"), "7", 2.0), (True, "true", 2.0), (True, "True", 2.0),
        (["seven", "7"], "7", 2.0), (["seven", None], "7", 0.0), (numpy.array(["6", "7"]), "7", 2.0),
        (None, "7", None), ("", "7", None), ("  ", "7", None), (math.nan, "7", None), ([], "7", None), ([None], "7", None),
        ("a  b", " a\nb ", 2.0), ("Paris", "paris", 0.0), ("1,000", "1000", 0.0), ("-3", "3", 0.0),
        ("102", "10\u00b2", 0.0), ("10\u00b2", "10\u00b2", 2.0), ("2010-2015", "2010\u20132015", 2.0),
        ("42", "**42**", 2.0), ("42", "42.", 2.0), ("42", "**42.**", 2.0), ("42", "\\boxed{42}", 2.0), ("42", "$42$", 2.0),
        ("42", "$\\boxed{42}$.", 2.0), ("42", "`42`", 2.0), ("\\boxed{42}", "42", 2.0), ("1 1/2", "1\u00bd", 2.0),
        ("42", "4*2", 0.0), ("a*b", "ab", 0.0), ("__init__", "init", 0.0), ("42", "$42", 0.0), ("5 and 6", "$5$ and $6$", 0.0),
        ("42", "\\boxed{4}2", 0.0), ("...", "..", 0.0), (".", "", 0.0), ("*", "**", 0.0),
    ],
)  # fmt: skip
def test_exact_match_gold(gold, predicted, reward):
    assert rewards.correctness_reward([f"<answer>{predicted}</answer>"], answer=[gold]) == [reward]


@pytest.mark.parametrize(
    ("options", "completion", "gold", "reward"),
    [
        ({"extract": "text"}, "<think>Lyon?</think>Paris.", "Paris", 2.0),
        ({"extract": "text"}, "Paris<|im_end|>", "Paris", 2.0),
        ({"extract": "text"}, "It is Paris", "Paris", 0.0),
        ({"extract": "final"}, "So \\boxed{x+1}", "x+1", 2.0),
        ({"extract": "final"}, "<answer>x</answer> no: \\boxed{y}", "x", 0.0),
        ({"normalize": ("nfkc", "case")}, "<answer>PARIS</answer>", "paris", 2.0),
        ({"normalize": ()}, "<answer>**42**</answer>", "42", 0.0),
        ({"normalize": ()}, "<answer>\u22125</answer>", "-5", 0.0),
        ({"normalize": ("minus",)}, "<answer>\u22125</answer>", "-5", 2.0),
        ({"normalize": ("full_stop",)}, "<answer>42.</answer>", "42", 2.0),
        ({"score": 1.0}, "<answer>7</answer>", 7, 1.0),
        ({"extract": last_word}, "I say seven", "seven", 2.0),
    ],
)
def test_declared_extraction_and_normalisation(options, completion, gold, reward):
    made = rewards.make_correctness_reward(**options)
    assert made(completions=[completion], answer=[gold]) == [reward]
    assert pickle.loads(pickle.dumps(made))(completions=[completion], answer=[gold]) == [reward]


@pytest.mark.parametrize("options", [{"extract": "box"}, {"normalize": ("lower",)}, {"score": 0}, {"score": math.nan}])
def test_correctness_settings_out_of_range(options):
    with pytest.raises(ValueError, match=rf"make_correctness_reward: .*{next(iter(options))[:4]}|unknown step"):
        rewards.make_correctness_reward(**options)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("\\boxed{1} then \\boxed{2}", "2"), ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"), ("\\boxed{a\\}b}", "a\\}b"),
        ("\\boxed{1", None), ("\\boxed{1} \\boxed{2", None), ("\\fbox{3}", "3"), ("\\boxed {3}", "3"), ("\\boxed{\\boxed{3}}", "3"),
        ("<answer>1</answer> \\boxed{2}", "2"), ("\\boxed{2} <answer>1</answer>", "1"), ("<answer>\\boxed{2}</answer>", "2"),
        ("<answer>it is \\boxed{2}.</answer>", "2"), ("<answer>\\boxed{2</answer>", None), ("<answer>1", None), ("\\boxed{2} <answer>", None),
        ("<think>\\boxed{9}</think>", None), ("<think>\\boxed{9}</think>\\boxed{8}", "8"), ("<reasoning>r</reasoning><answer>5</answer>", "5"),
        ("5", None), ("", None), ("<think>\\boxed{9}", None),
    ],
)  # fmt: skip
def test_final_answer(text, answer):
    assert rewards.final_answer(text) == answer


def test_final_answer_in_a_prefilled_block():
    assert rewards.final_answer("I try \\boxed{7}", prefilled=True) is None
    assert rewards.numeric_reward(["so \\boxed{7}</think>\\boxed{8}"], answer=8, prefilled=True) == [1.0]


def test_gold_of_unknown_type_is_the_users_error():
    with pytest.raises(TypeError, match="gold answers must be text or numbers"):
        rewards.correctness_reward(["<answer>7</answer>"], answer=[{"value": 7}])


@pytest.mark.parametrize(
    "reward", [rewards.correctness_reward, rewards.numeric_reward, rewards.math_reward, rewards.choice_reward]
)
def test_each_row_has_its_own_gold(reward):
    """Golds are read once per group, so rows of one batch must not share them."""
    golds = ["A", "A", "B", None, "B", "A"] if reward is rewards.choice_reward else ["7", "7", "8", None, "8", "7"]
    texts = [f"<answer>{golds[0]}</answer>"] * 6
    full = 2.0 if reward is rewards.correctness_reward else 1.0
    assert reward(texts, answer=golds) == [full, full, 0.0, None, 0.0, full]
    assert reward(texts[:3], answer=[None, *golds[1:3]]) == [None, full, 0.0]


def test_a_constant_gold_is_broadcast():
    for gold in ("7", 7, numpy.int64(7)):
        assert rewards.correctness_reward(["<answer>7</answer>", "<answer>8</answer>"], answer=gold) == [2.0, 0.0]


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ('{"n": 1}', 1.0), (' {"n": 1}\n', 1.0), ('```json\n{"n": 1}\n```', 1.0), ('```\n{"n": 1}\n```', 1.0),
        ('<think>hm</think>{"n": 1}', 1.0), ('<reasoning>r</reasoning><answer>```json\n{"n": 1}\n```</answer>', 1.0),
        ('{"n": 1} Hope this helps!', 0.0), ('Here: ```json\n{"n": 1}\n```', 0.0), ('{"n": 1}{"n": 1}', 0.0),
        ('<reasoning><answer>{"n": 1}</answer></reasoning>', 0.0), ("{'n': 1}", 0.0), ('{"n": NaN}', 0.0),
        ('{"n": 1, "text": "<answer>{}</answer>"}', 1.0), ('{"n": 1, "text": "<think>"}', 1.0),
        ('<think>put it in <answer> tags?</think>{"n": 1}', 1.0), ('<think>x</think>{"n": 1, "t": "<answer>"}', 1.0),
        ('```json\n{"n": 1, "t": "a </think> ``` b"}\n```', 1.0), ('```json\n{"n": 1}', 0.0),
    ],
)  # fmt: skip
def test_where_the_json_may_stand(text, reward):
    assert rewards.schema_reward([text], output_schema=NUMBER) == [reward]


# --- numbers, choices, mathematics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "answer", "reward", "reason"),
    [
        ("1250", "1,250", 1.0, "correct"), (1250, "$1,250.00", 1.0, "correct"), (0.5, "1/2", 1.0, "correct"), (0.5, "\\frac{1}{2}", 1.0, "correct"),
        (0.28, "28%", 1.0, "correct"), ("28%", "28", 1.0, "correct"), ("28%", "0.28", 1.0, "correct"), ("28%", "29%", 0.0, "wrong"),
        ("28%", "2800%", 0.0, "wrong"), ("5 km", "5 m", 0.0, "other_unit"), ("5 km", "5", 1.0, "correct"), ("5", "5 km", 1.0, "correct"),
        ("5 cm", "5 centimeters", 1.0, "correct"), ("5 hours", "5 hrs", 1.0, "correct"), ("6 m^2", "6 square meters", 1.0, "correct"), ("100 \u00b0C", "100^\\circ\\text{C}", 1.0, "correct"), ("20 apples", "20%", 0.0, "wrong"),
        ("5", "5 pi", 0.0, "unreadable"), ("5", "5xy", 0.0, "unreadable"), ("12", "12-inch", 1.0, "correct"), ("24", "$24/hour", 1.0, "correct"), ("7", "7\u200b", 1.0, "correct"), ("14000", "$\\$14,\\!000$", 1.0, "correct"),
        ("5 dollars", "$5", 1.0, "correct"), ("5 mW", "5 MW", 0.0, "other_unit"), ("5 Apples", "5 apple", 1.0, "correct"),
        (100000, "1e5", 1.0, "correct"), (100000, "10^5", 1.0, "correct"), ("1.5 million", "1500000", 1.0, "correct"),
        (1 / 3, "0.3333333", 1.0, "correct"), (1 / 3, "0.333", 0.0, "wrong"), (1000000, "1000001", 0.0, "wrong"), (-5, "\u22125", 1.0, "correct"),
        (5, "-5", 0.0, "wrong"), (0, "0.0000001", 0.0, "wrong"), (0, "-0", 1.0, "correct"), (5, "5 or 6", 0.0, "unreadable"),
        (5, "5, 6", 0.0, "unreadable"), (5, "4-6", 0.0, "unreadable"), (5, "five", 0.0, "unreadable"), (5, "", 0.0, "unreadable"),
        (5, "10^999999999", 0.0, "unreadable"), (5, "1/0", 0.0, "unreadable"), (5, "9" * 10000, 0.0, "unreadable"), (5, "not 5", 0.0, "unreadable"),
        ("He has 18 - 5 = 13.\n#### 13", "13", 1.0, "correct"), (["7", "seven"], "7", 1.0, "correct"), ("see above", "7", None, "unreadable_gold"),
        (None, "7", None, "missing_gold"), (math.nan, "7", None, "missing_gold"), (math.inf, "7", None, "unreadable_gold"), ("(1,250)", "1250", None, "unreadable_gold"),
    ],
)  # fmt: skip
def test_numbers(gold, answer, reward, reason, logged):
    texts = [f"<answer>{answer}</answer>", f"It is \\boxed{{{answer}}}."]
    assert rewards.numeric_reward(texts, answer=[gold] * 2, **logged.kwargs()) == [reward] * 2
    assert logged.extra["numeric_reward/reason"] == [reason] * 2
    assert logged.extra["numeric_reward/extracted"] == [answer[:200]] * 2


def test_declared_tolerance_and_units():
    made = rewards.make_numeric_reward(rel_tol=0.05, units="ignore")
    texts = [f"<answer>{answer}</answer>" for answer in ("104", "106", "100 km", "-100")]
    assert made(completions=texts, answer="100 m") == [1.0, 0.0, 1.0, 0.0]
    assert rewards.make_numeric_reward(rel_tol=0)(completions=["\\boxed{0.30000001}"], answer="0.3") == [0.0]
    for options in ({"rel_tol": -1}, {"rel_tol": math.nan}, {"units": "convert"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            rewards.make_numeric_reward(**options)


def test_a_number_as_truth_value_is_the_users_error():
    for reward in (rewards.numeric_reward, rewards.math_reward):
        with pytest.raises(TypeError, match="text or numbers"):
            reward(["<answer>1</answer>"], answer=[True])


@pytest.mark.parametrize(
    ("text", "gold", "reward", "reason"),
    [
        ("<answer>B</answer>", "B", 1.0, "correct"), ("<answer>b</answer>", "B", 1.0, "correct"), ("<answer>(B) a dog</answer>", "B", 1.0, "correct"),
        ("<answer>B. a dog</answer>", "(b)", 1.0, "correct"), ("\\boxed{\\text{B}}", "B", 1.0, "correct"), ("<answer>**B**</answer>", "B: a dog", 1.0, "correct"),
        ("The answer is (B).", "B", 1.0, "correct"), ("I considered A and C.\nAnswer: B<|im_end|>", "B", 1.0, "correct"),
        ("The answer is A. No, the answer is B.", "B", 1.0, "correct"), ("The answer is A. No, the answer is B.", "A", 0.0, "wrong"),
        ("<answer>not A, the answer is B</answer>", "A", 0.0, "wrong"), ("<answer>A is wrong, so B</answer>", "B", 1.0, "correct"),
        ("<answer>A dog</answer>", "A", 0.0, "no_choice"), ("<answer>a dog</answer>", "A", 0.0, "no_choice"), ("<answer>I think B</answer>", "B", 1.0, "correct"),
        ("<answer>A</answer>", "A", 1.0, "correct"), ("<answer>A or B</answer>", "A", 0.0, "several_choices"), ("<answer>A, B, C, D</answer>", "A", 0.0, "several_choices"),
        ("The answer is A or B", "A", 0.0, "several_choices"), ("(A) x (B) y (C) z", "A", 0.0, "several_choices"), ("<think>The answer is B</think>", "B", 0.0, "no_choice"),
        ("<answer>The answer is B", "B", 0.0, "no_choice"), ("It could be B", "B", 0.0, "no_choice"), ("", "B", 0.0, "no_choice"),
        ("<answer>K</answer>", "K", None, "unreadable_gold"), ("<answer>B</answer>", "the dog", None, "unreadable_gold"), ("<answer>B</answer>", None, None, "missing_gold"),
        ("<answer>B</answer>", ["A", "B"], 1.0, "correct"),
        ("Options:\nA) Berlin\nB) Paris\nC) Rome", "A", 0.0, "no_choice"), ("Choices: A) Berlin B) Paris", "A", 0.0, "no_choice"), ("Let's go through each option:\n\nA) Berlin is in Germany.\nB) Pa", "A", 0.0, "no_choice"),
        ("A. Wrong.\nB. Correct.\nC. Wrong.\n\nAnswer: B", "B", 1.0, "correct"), ("C is incorrect.\nAnswer: B) Paris", "B", 1.0, "correct"), ("B. Paris\n\nExplanation: it is the capital, and C is wrong.", "B", 1.0, "correct"),
        ("Answer: B) I and II only", "B", 1.0, "correct"), ("<answer>B: E = mc^2</answer>", "B", 1.0, "correct"), ("<answer>(B) A is greater</answer>", "B", 1.0, "correct"), ("The answer is A dog", "A", 0.0, "no_choice"),
        ("<answer>Vitamin C</answer>", "C", 0.0, "no_choice"), ("The answer is A. Alternatively B could also be right.", "A", 0.0, "several_choices"), ("B is correct.", "B", 1.0, "correct"), ("\u7b54\u6848\u662fB", "B", 1.0, "correct"),
        ("The answer is B? No.", "B", 0.0, "no_choice"),
    ],
)  # fmt: skip
def test_choices(text, gold, reward, reason, logged):
    assert rewards.choice_reward([text], answer=[gold], **logged.kwargs()) == [reward]
    assert logged.extra["choice_reward/reason"] == [reason]


def test_a_choice_given_as_a_number_is_not_guessed():
    with pytest.raises(TypeError, match="must be a letter"):
        rewards.choice_reward(["<answer>B</answer>"], answer=[1])
    assert rewards.choice_reward(["<answer>K</answer>"], answer="K", letters="KLM") == [1.0]


@pytest.mark.parametrize(
    ("gold", "answer", "reward", "reason"),
    [
        ("x+1", "1+x", 1.0, "correct"), ("\\frac12", "0.5", 1.0, "correct"), ("\\sqrt2", "\\sqrt{2}", 1.0, "correct"), ("x^2-1", "(x-1)(x+1)", 1.0, "correct"),
        ("2\\pi", "2\\pi \\text{ cm}", 1.0, "correct"), ("2\\pi", "6.28", 0.0, "wrong"), ("x", "y", 0.0, "wrong"), ("[1,2)", "[1, 2)", 1.0, "correct"),
        ("[1,2)", "(1,2]", 0.0, "wrong"), ("(1,250)", "1250", 0.0, "wrong"), ("1,2,3", "\\{3,2,1\\}", 1.0, "correct"), ("x", "x or y", 0.0, "wrong"), ("3\\pi", "3\\pi, 4\\pi", 0.0, "wrong"),
        ("\\text{east}", "East", 1.0, "correct"), ("\\text{east}", "\\text{west}", 0.0, "wrong"), ("see the figure", "x", None, "unreadable_gold"),
        ("\\frac{", "x", None, "unreadable_gold"), ("x+1", "\\frac{", 0.0, "unreadable"), ("x+1", "it is x+1", 0.0, "unreadable"), ("x+1", "", 0.0, "unreadable"),
        ("Adding gives $x+1$, so \\boxed{x+1}.", "x+1", 1.0, "correct"), ("3*6=18\n#### 18", "18", 1.0, "correct"), (None, "x", None, "missing_gold"),
        ("x^2", "9^{9^{9^{9}}}", 0.0, "over_budget"), ("9^{9^{9^{9}}}", "5", None, "unreadable_gold"), ("9^{9^{9^{9}}}", "x", 0.0, "wrong"), ("x+1", "x" * 5000, 0.0, "unreadable"), ("2m", "2", 0.0, "wrong"), ("2x", "2", 0.0, "wrong"), ("2", "2x", 0.0, "wrong"),
        ("(5,\\infty)", "x > 5", 1.0, "correct"), ("(5,\\infty)", "x \\ge 5", 0.0, "wrong"), ("[-2,7]", "-2 \\le x \\le 7", 1.0, "correct"),
        ("(1,2)", "\\{1,2\\}", 0.0, "wrong"), ("x=1, x=-2", "-2, 1", 1.0, "correct"), ("a=1, b=2", "b=2, a=1", 1.0, "correct"), ("a=1, b=2", "2, 1", 0.0, "wrong"), ("x=5", "y=5", 0.0, "wrong"),
        ("24", "24_7", 0.0, "wrong"), ("101_2", "101_{2}", 1.0, "correct"), ("101_2", "101_3", 0.0, "wrong"), ("No", "on", 0.0, "wrong"), ("Monday", "monday", 1.0, "correct"), ("6", "6 \\approx 7", 0.0, "unreadable"),
        ("6", "6\\text{ sevenths}", 0.0, "unreadable"), ("f'(x)", "f(x)", None, "unreadable_gold"), ("1/0", "5", None, "unreadable_gold"), ("10,\\!000", "10\\,000", 1.0, "correct"),
        ("\\textbf{(B)}\\ 39", "39", 1.0, "correct"), ("\\textbf{(B)}\\ 39", "B", 1.0, "correct"), ("\\textbf{(B)}\\ 39", "\\textbf{(B)}\\ 39", 1.0, "correct"), ("\\textbf{(B)}\\ 39", "C", 0.0, "wrong"),
        ("6-5i", "6 - 5\\mathrm{i}", 1.0, "correct"), ("72 \\text{ cm}^2", "72 cm\u00b2", 1.0, "correct"), ("8\\pi", "8pi", 1.0, "correct"), ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\[4pt]2\\end{pmatrix}", 1.0, "correct"),
        ("60^\\circ", "60\u00b0", 1.0, "correct"), ("12", "12 apples", 1.0, "correct"), ("\\sqrt{x^2}", "x", 0.0, "wrong"),
    ],
)  # fmt: skip
def test_mathematics(gold, answer, reward, reason, logged):
    texts = [
        f"<answer>{answer}</answer>",
        f"It is \\boxed{{{answer}}}." if "{" not in answer or "}" in answer else "<answer>\\frac{</answer>",
    ]
    assert rewards.math_reward(texts, answer=[gold] * 2, budget_s=2.0, **logged.kwargs()) == [reward] * 2
    assert logged.extra["math_reward/reason"] == [reason] * 2


@pytest.mark.parametrize("budget_s", [0, -1, math.nan, None, "5", [5.0]])
def test_a_budget_must_be_a_number(budget_s):
    with pytest.raises(TypeError, match="budget_s"):
        rewards.math_reward(["\\boxed{x}"], answer="x", budget_s=budget_s)


def test_a_missing_file_or_package_says_how_to_mend_it(tmp_path):
    shutil.copy(ROOT / "scripts" / "rewards.py", tmp_path)
    code = "import rewards\nrewards.numeric_reward(['<answer>7</answer>'], answer=7)"
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env={"PATH": os.environ["PATH"]}
    )
    assert "copy answers.py beside rewards.py" in out.stderr


# --- tool calls -------------------------------------------------------------------------------------------------------

ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}
GET = {"name": "get", "arguments": {"city": "Paris"}}


def as_message(*calls):
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": call} for call in calls]}
    ]


def as_text(*calls):
    return "".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>\n" for call in calls)


@pytest.mark.parametrize(
    ("completion", "gold", "reward", "reason"),
    [
        (as_message(ADD, GET), [GET, ADD], 1.0, "correct"), (as_text(GET, ADD), [ADD, GET], 1.0, "correct"), (json.dumps([ADD]), [ADD], 1.0, "correct"),
        (json.dumps(ADD), [ADD], 1.0, "correct"), ("```json\n" + json.dumps(ADD) + "\n```", [ADD], 1.0, "correct"),
        ([*as_message(ADD), {"role": "tool", "content": "3"}, *as_message(GET), {"role": "assistant", "content": "done"}], [ADD, GET], 1.0, "correct"),
        (as_message({"name": "add", "arguments": '{"b": 2, "a": 1}'}), [ADD], 1.0, "correct"), (as_message({"name": "add", "arguments": {"a": 1.0, "b": 2, "c": None}}), [ADD], 1.0, "correct"),
        (json.dumps({"name": "add", "parameters": ADD["arguments"]}), [ADD], 1.0, "correct"), (as_text(ADD), [{"type": "function", "function": ADD}], 1.0, "correct"),
        (as_text(ADD), json.dumps([ADD]), 1.0, "correct"), (as_text(ADD), ADD, 1.0, "correct"), ("I can answer that: 3.", [], 1.0, "correct"), ("I can answer that: 3.", "[]", 1.0, "correct"),
        (as_text(ADD, ADD), [ADD, ADD], 1.0, "correct"),
        (as_text(ADD, ADD), [ADD], 0.0, "wrong_count"), (as_text(ADD), [], 0.0, "wrong_count"), (as_text(ADD), [GET], 0.0, "wrong_name"), ("3", [ADD], 0.0, "no_call"),
        (as_text({**ADD, "name": "Add"}), [ADD], 0.0, "wrong_name"), (as_text({"name": "add", "arguments": {"a": "1", "b": 2}}), [ADD], 0.0, "wrong_arguments"),
        (as_text({"name": "add", "arguments": {"a": True, "b": 2}}), [ADD], 0.0, "wrong_arguments"), (as_text({"name": "add", "arguments": {"a": 1}}), [ADD], 0.0, "wrong_arguments"),
        (as_text({"name": "add", "arguments": {"a": 1, "b": 2, "c": 3}}), [ADD], 0.0, "wrong_arguments"), ("<tool_call>{</tool_call>", [ADD], 0.0, "malformed"), ("<tool_call>{", [], 0.0, "malformed"),
        (as_text(ADD) + "<tool_call>", [ADD], 0.0, "malformed"), (as_message({"name": "add", "arguments": "{"}), [ADD], 0.0, "malformed"), (as_message({"arguments": {}}), [ADD], 0.0, "malformed"),
        ("{}", [], 0.0, "malformed"), ("[]", [], 0.0, "malformed"), (".", [], 0.0, "no_answer"), ("", [], 0.0, "no_answer"), ('{"tool_calls": []}', [], 0.0, "malformed"), ("<tool_call>[]</tool_call>", [], 0.0, "malformed"),
        ('Here: {"name": "add", "arguments": {}}', [], 0.0, "malformed"), ('{"name": "now"}', [{"name": "now", "arguments": {}}], 1.0, "correct"), (as_text(ADD) + '<|python_tag|>{"name": "rm"}', [ADD], 0.0, "malformed"),
        (as_text({"name": "add", "arguments": {}, "parameters": {"a": 1}}), [ADD], 0.0, "malformed"), (as_text(ADD), [{"name": "add", "input": {"a": 1}}], None, "broken_gold"),
        (f"<think>{as_text(ADD)}</think>3", [ADD], 0.0, "no_call"), ('{"answer": 3}', [], 1.0, "correct"), (as_text(ADD), None, None, "missing_gold"), (as_text(ADD), "", None, "missing_gold"),
        (as_text(ADD), "{", None, "broken_gold"), (as_text(ADD), [{"arguments": {}}], None, "broken_gold"), (as_text(ADD), [7], None, "broken_gold"),
    ],
)  # fmt: skip
def test_tool_calls(completion, gold, reward, reason, logged):
    assert rewards.tool_call_reward([completion], tool_calls=[gold], **logged.kwargs()) == [reward]
    assert logged.extra["tool_call_reward/reason"] == [reason]


def test_lenient_arguments_and_calls_in_order():
    said = as_text(
        {"name": "add", "arguments": {"a": "1", "b": "2.0"}}, {"name": "get", "arguments": {"city": " paris"}}
    )
    lenient, ordered = rewards.make_tool_call_reward("lenient"), rewards.make_tool_call_reward(ordered=True)
    assert rewards.tool_call_reward([said], tool_calls=[[ADD, GET]]) == [0.0]
    assert lenient(completions=[said], tool_calls=[[GET, ADD]]) == [1.0]
    assert lenient(completions=[as_text({"name": "add", "arguments": {"a": 1, "b": "3"}})], tool_calls=[[ADD]]) == [0.0]
    codes = [{"name": "find", "arguments": {"zip": text}} for text in ("01234", "1234")]
    assert lenient(completions=[as_text(codes[1])], tool_calls=[[codes[0]]]) == [0.0]
    assert ordered(completions=[as_text(ADD, GET)] * 2, tool_calls=[[ADD, GET], [GET, ADD]]) == [1.0, 0.0]
    with pytest.raises(ValueError, match="arguments"):
        rewards.make_tool_call_reward("loose")


def test_gold_calls_that_went_through_datasets():
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_list([{"tool_calls": [ADD]}, {"tool_calls": [GET]}])
    assert rows[0]["tool_calls"] != [ADD]  # datasets did fill in the other call's arguments
    assert rewards.tool_call_reward([as_text(ADD), as_text(GET)], tool_calls=list(rows["tool_calls"])) == [1.0, 1.0]


# --- code execution, the rest is in test_sandbox.py -------------------------------------------------------------------

GOOD, BAD = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return 1\n"
TESTS = "from candidate import add\ndef test_add():\n    assert add(2, 3) == 5\n"


@pytest.mark.parametrize("nothing", [None, [], ""])
def test_without_a_sandbox_nothing_runs(nothing, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    marker = f"open({str(tmp_path / 'ran')!r}, 'w')\n{GOOD}"
    assert rewards.test_execution_reward([marker, GOOD], TESTS, nothing) == [0.0, 0.0]
    assert len(caplog.records) == 1 and not (tmp_path / "ran").exists()
    bound = rewards.make_test_execution_reward(nothing)
    assert bound(completions=[marker], test_code=[TESTS], prompts=["p"]) == [0.0]


def test_a_dataset_column_cannot_replace_the_bound_sandbox(tmp_path):
    bound = rewards.make_test_execution_reward(["no-such-sandbox"], on_infra_error="none")
    marker = f"open({str(tmp_path / 'ran')!r}, 'w')\n{GOOD}"
    columns = {"sandbox_cmd": ["env"], "sandbox": ["env"], "timeout_s": [5], "self": ["x"], "on_infra_error": ["raise"]}
    assert bound(completions=[marker], prompts=["p"], test_code=[TESTS], **columns) == [None]
    assert not (tmp_path / "ran").exists()
    assert pickle.loads(pickle.dumps(bound)).__name__ == "test_execution_reward"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("plain\n", "plain\n"),
        ("<reasoning>r</reasoning><answer>\nx = 1\n</answer>", "\nx = 1\n"),
        ("```python\nx = 1\n```\nIt prints:\n```\n1\n```\n", "x = 1\n"),
        ('```python\ndef f():\n    """\n    ```\n    """\n```\n', 'def f():\n    """\n    ```\n    """\n'),
        ("````python\n```\nx = 1\n````\n", "```\nx = 1\n"),
        ("```python\nx = 1\n", "x = 1\n"),
        ("<think>```python\nx = 1\n```</think>\n```\nx = 2\n```", "x = 2\n"),
    ],
)
def test_which_code_counts(text, code):
    assert rewards.extract_code(text) == code


# --- wrappers ---------------------------------------------------------------------------------------------------------


def listed(values, completions, **kwargs):
    return list(values)


async def async_ones(completions, **kwargs):
    return [1.0] * len(completions)


def base(values):
    return functools.partial(listed, values)


def named(reward, name):
    def renamed(completions, **kwargs):
        return reward(completions=completions, **kwargs)

    renamed.__name__ = name
    return renamed


def test_length_counts_tokens_and_keeps_right_above_wrong():
    wrapped = rewards.with_length_penalty(base([1.0, 1.0, 1.0, 0.0, -1.0, None]), target_len=2, penalty_per_token=0.1)
    ids = [[1] * 2, [1] * 4, [1] * 5000, [1] * 5000, [1] * 5000, [1] * 5000]
    assert wrapped(completions=["\u597d" * 30] * 6, completion_ids=ids) == [1.0, 0.8, 0.5, 0.0, -1.0, None]


def test_words_stand_in_where_there_are_no_token_ids():
    wrapped = rewards.with_length_penalty(base([1.0, 1.0]), target_len=1, penalty_per_token=0.1)
    chat = [{"role": "assistant", "content": "a b c"}]
    assert wrapped(completions=["a", chat]) == [1.0, 0.8]


@pytest.mark.parametrize(
    "options",
    [
        {"penalty_per_token": -1},
        {"penalty_per_token": math.nan},
        {"target_len": -1},
        {"max_share": 1.0},
        {"max_share": -0.1},
    ],
)
def test_length_settings_out_of_range(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        rewards.with_length_penalty(rewards.format_reward, **options)


def test_a_base_reward_of_wrong_length_is_named():
    with pytest.raises(ValueError, match=r"listed gave 1 rewards for 2 completions"):
        rewards.with_length_penalty(base([1.0]))(completions=["a", "b"])


def test_an_async_reward_stays_async():
    wrapped = rewards.with_length_penalty(async_ones, target_len=1, penalty_per_token=0.1)
    assert inspect.iscoroutinefunction(wrapped.__call__)
    assert asyncio.run(wrapped(completions=["a b", "a"])) == [0.9, 1.0]


def test_wrapped_and_plain_reward_share_no_column(logged):
    wrapped = rewards.with_length_penalty(rewards.correctness_reward)
    for reward in (wrapped, rewards.correctness_reward):
        reward(completions=["<answer>7</answer>"] * 2, answer="7", **logged.kwargs())
    assert len(logged.extra) == 5 and {len(values) for values in logged.extra.values()} == {2}


def test_settings_show_in_the_name():
    settings = [{}, {"target_len": 9}, {"penalty_per_token": 0.5}, {"max_share": 0.9}]
    names = {rewards.with_length_penalty(rewards.format_reward, **setting).__name__ for setting in settings}
    assert len(names) == 4 and rewards.with_length_penalty(rewards.format_reward, name="short").__name__ == "short"


def test_a_wrapped_reward_may_call_the_hooks_by_keyword(logged):
    def base_reward(completions, log_extra, log_metric, **kwargs):
        log_extra(column="c", values=[1] * len(completions))
        log_metric(name="m", value=1.0)
        return [1.0] * len(completions)

    wrapped = rewards.with_length_penalty(base_reward)
    wrapped(completions=["a"], self=["column"], reward_fn=["column"], **logged.kwargs())
    assert f"{wrapped.__name__}/c" in logged.extra and f"{wrapped.__name__}/m" in logged.metrics


def test_hooks_are_not_invented():
    """AsyncGRPO passes none, so the wrapped reward must not be handed any."""
    seen = {}
    rewards.with_length_penalty(lambda completions, **kwargs: seen.update(kwargs) or [1.0])(
        completions=["a"], prompts=["p"]
    )
    assert set(seen) == {"prompts"}


# --- combined ---------------------------------------------------------------------------------------------------------


def test_a_weighted_sum_counts_as_in_trl(logged):
    parts = [named(base([1.0, 1.0, None, None, math.nan]), "a"), named(base([1.0, -1.0, 1.0, None, None]), "b")]
    both = rewards.combine(*parts, weights=[1, 0.5])
    assert both.__name__ == "a_and_0.5_b"
    assert both(completions=["x"] * 5, **logged.kwargs()) == [1.5, 0.5, 0.5, None, None]
    assert logged.metrics == {"a_and_0.5_b/a": 1.0, "a_and_0.5_b/b": pytest.approx(1 / 3)}
    assert logged.extra["a_and_0.5_b/b"] == [1.0, -1.0, 1.0, None, None]


def test_a_gate_pays_nothing_and_is_no_way_out(logged):
    """A wrong answer worth -1 must not be worth spoiling the format for."""
    gated = rewards.combine(
        named(base([2.0, 2.0, -1.0, -1.0, 2.0, None]), "a"), gate=named(base([1.0, 0.0, 1.0, 0.0, None, 0.0]), "g")
    )
    assert gated(completions=["x"] * 6, **logged.kwargs()) == [2.0, 0.0, -1.0, -1.0, None, None]
    assert logged.extra["a_if_g/reason"] == ["open", "gated", "open", "gated", "no_gate", "gated"]


def test_combined_async_and_sync_parts():
    both = rewards.combine(async_ones, named(base([1.0, 0.0]), "b"))
    assert asyncio.run(both(completions=["x", "y"])) == [2.0, 1.0]
    assert inspect.iscoroutinefunction(both.__call__)
    assert asyncio.run(rewards.with_length_penalty(both)(completions=["x", "y"])) == [2.0, 1.0]


def test_combined_rewards_show_their_columns():
    """So that a missing one is found before training."""
    strict = rewards.combine(rewards.correctness_reward, rewards.schema_reward, gate=rewards.format_reward)
    wrapped = rewards.with_length_penalty(strict)
    for reward in (strict, wrapped):
        parameters = inspect.signature(reward).parameters
        assert {"completions", "answer", "output_schema"} == {
            key for key, one in parameters.items() if one.default is one.empty
        } - {"kwargs"}
    with pytest.raises(TypeError, match="answer"):
        inspect.signature(rewards.make_numeric_reward()).bind(completions=[])


def test_what_cannot_be_combined():
    for wrong, message in (
        ((), "at least one"),
        ((rewards.format_reward, rewards.format_reward), "two parts are called"),
    ):
        with pytest.raises(ValueError, match=message):
            rewards.combine(*wrong)
    with pytest.raises(TypeError, match="callable"):
        rewards.combine("format_reward")
    for weights in ([1, 2], [math.nan]):
        with pytest.raises(ValueError, match="weights"):
            rewards.combine(rewards.format_reward, weights=weights)
    with pytest.raises(ValueError, match="listed gave 1 rewards for 2 completions"):
        rewards.combine(base([1.0]))(completions=["a", "b"])
    with pytest.raises(ValueError, match="not finite"):
        rewards.combine(base([math.inf]))(completions=["a"])


def test_a_wrapped_reward_may_take_anything():
    def anything(*args, **kwargs):
        return [1.0] * len(kwargs["completions"])

    inspect.signature(rewards.with_length_penalty(anything)).bind(completions=["a"], prompts=["p"])


def test_a_module_of_that_name_that_is_not_ours_is_refused(tmp_path):
    (tmp_path / "answers.py").write_text("read_number = None\n")
    code = "import sys; sys.path.append(sys.argv[1]); import rewards; rewards.numeric_reward(['<answer>7</answer>'], answer=7)"
    command = [sys.executable, "-c", code, str(ROOT / "scripts")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert "is imported in place of" in done.stderr and "rename yours" in done.stderr


def test_imported_by_its_path_it_finds_what_lies_beside_it(tmp_path):
    code = (
        "import importlib.util as u, sys\n"
        "s = u.spec_from_file_location('mine', sys.argv[1]); m = u.module_from_spec(s); s.loader.exec_module(m)\n"
        "print(m.numeric_reward(['<answer>7</answer>'], answer=7))"
    )
    command = [sys.executable, "-c", code, str(ROOT / "scripts" / "rewards.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert done.stdout == "[1.0]\n", done.stderr


def test_instances_of_one_factory_share_no_name():
    instances = [
        rewards.make_format_reward(), rewards.make_format_reward(["think"]), rewards.make_format_reward(["think"], prefilled=True),
        rewards.make_correctness_reward(), rewards.make_correctness_reward("final"), rewards.make_correctness_reward("text"),
        rewards.make_correctness_reward(normalize=()), rewards.make_correctness_reward(normalize=("nfkc",)), rewards.make_correctness_reward(score=1),
        rewards.make_numeric_reward(), rewards.make_numeric_reward(rel_tol=0.1), rewards.make_numeric_reward(units="ignore"),
        rewards.make_schema_reward(), rewards.make_schema_reward(graded=True), rewards.make_schema_reward(formats=True),
        rewards.make_tool_call_reward(), rewards.make_tool_call_reward("lenient"), rewards.make_tool_call_reward(ordered=True),
        rewards.combine(rewards.format_reward), rewards.combine(rewards.format_reward, weights=[2]), rewards.combine(rewards.numeric_reward, gate=rewards.format_reward),
    ]  # fmt: skip
    names = [instance.__name__ for instance in instances]
    assert len(set(names)) == len(names) - 1  # the sum of format_reward alone is format_reward
    assert all(re.fullmatch(r"[\w.+-]+", name) for name in names)
    for instance in instances:
        assert pickle.loads(pickle.dumps(instance)).__name__ == instance.__name__


def test_a_dataset_column_cannot_replace_what_a_factory_bound():
    numeric = rewards.make_numeric_reward(rel_tol=0.1)
    columns = {"rel_tol": [9.0], "units": ["x"], "name": ["y"], "function": ["z"], "settings": ["s"], "self": ["t"]}
    assert numeric(completions=["<answer>104</answer>"], answer=[100], **columns) == [1.0]
    assert rewards.make_format_reward(prefilled=True)(completions=[RIGHT], prefilled=[False], tags=["x"]) == [0.0]


# --- in another process, from another place ---------------------------------------------------------------------------


def _answer_in_child(pickled, connection):
    """What AsyncGRPO's worker does (trl 1.16.0, experimental/async_grpo): unpickle, and call off the main thread with
    prompts, completions, completion_ids and the columns only."""
    functions = pickle.loads(pickled)
    call = {"prompts": ["p"] * 2, "completions": [RIGHT, "x"], "completion_ids": [[1] * 9, [1]], "answer": ["7", "7"],
            "output_schema": [json.dumps(NUMBER)] * 2, "test_code": [TESTS] * 2, "tool_calls": ["[]"] * 2}  # fmt: skip

    async def call_all():
        found = [await asyncio.to_thread(function, **call) for function in functions]
        return [await one if inspect.isawaitable(one) else one for one in found]

    connection.send(asyncio.run(call_all()))


def test_pickled_into_a_spawned_child_with_async_grpos_arguments():
    functions = {
        rewards.format_reward: [1.0, 0.0],
        rewards.make_format_reward(("reasoning", "answer")): [1.0, 0.0],
        rewards.correctness_reward: [2.0, 0.0],
        rewards.make_correctness_reward("final", score=1.0): [1.0, 0.0],
        rewards.numeric_reward: [1.0, 0.0],
        rewards.make_numeric_reward(rel_tol=0.1): [1.0, 0.0],
        rewards.math_reward: [1.0, 0.0],
        rewards.choice_reward: [None, None],
        rewards.schema_reward: [0.0, 0.0],
        rewards.make_schema_reward(graded=True): [0.0, 0.0],
        rewards.tool_call_reward: [1.0, 1.0],
        rewards.make_tool_call_reward("lenient"): [1.0, 1.0],
        rewards.make_test_execution_reward(["no-such-sandbox"], on_infra_error="none"): [None, None],
        rewards.with_length_penalty(rewards.correctness_reward, target_len=5, penalty_per_token=0.1): [1.6, 0.0],
        rewards.combine(rewards.numeric_reward, gate=rewards.format_reward): [1.0, 0.0],
        rewards.make_rubric_judge_reward(reward_cases.Replies("pass"), "r"): [1.0, 1.0],
        rewards.make_rubric_judge_reward(reward_cases.AsyncReplies("pass"), "r"): [1.0, 1.0],
    }
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    # Daemonic, as AsyncGRPO's process is: such a one may have no multiprocessing children.
    child = context.Process(target=_answer_in_child, args=(pickle.dumps(list(functions)), there), daemon=True)
    child.start()
    assert here.poll(120), "the child did not answer"
    assert here.recv() == list(functions.values())
    child.join(30)


@pytest.mark.parametrize("place", ["root", "scripts", "mirror", "copy"])
def test_one_import_pattern_from_everywhere(place, tmp_path):
    folder = {
        "root": ROOT,
        "scripts": ROOT / "scripts",
        "mirror": ROOT / "skills/grpo-training/scripts",
        "copy": tmp_path,
    }[place]
    if place == "copy":
        for script in (ROOT / "scripts").glob("*.py"):
            shutil.copy(script, tmp_path)
    module = "scripts.rewards" if place == "root" else "rewards"
    code = f"""
import {module} as r, pickle
def again(f): return pickle.loads(pickle.dumps(f))
texts = ["<reasoning>r</reasoning><answer>x+1</answer>"]
print(again(r.with_length_penalty(r.format_reward))(completions=texts), again(r.math_reward)(texts, answer="1+x"),
      again(r.make_schema_reward(graded=True))(completions=["{{}}"], output_schema={{}}), again(r.make_numeric_reward())(completions=texts, answer=7),
      again(r.make_rubric_judge_reward(r.OpenAIJudge("m", base_url="http://localhost:9/v1"), "c")).__name__[:6], end="")
"""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    out = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True)
    assert out.stdout == "[1.0] [1.0] [1.0] [0.0] rubric", out.stderr


@pytest.mark.parametrize("module", ["rewards", "scripts.rewards"])
def test_one_file_alone_does_what_needs_no_other(module, tmp_path):
    folder = tmp_path / "scripts" if "." in module else tmp_path
    folder.mkdir(exist_ok=True)
    shutil.copy(ROOT / "scripts" / "rewards.py", folder)
    code = f"import {module} as r\nprint(r.format_reward([{RIGHT!r}]), r.correctness_reward([{RIGHT!r}], answer=7), r.tool_call_reward(['x'], tool_calls='[]'))"
    out = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert out.stdout == "[1.0] [2.0] [1.0]\n", out.stderr


def test_logger_is_the_modules_own():
    assert rewards.logger is logging.getLogger("rewards")
