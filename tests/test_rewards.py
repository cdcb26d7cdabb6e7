"""scripts/rewards.py against cases that broke other people's rewards, both JSON Schema back ends, and a real sandbox."""

import asyncio
import functools
import importlib
import json
import logging
import math
import multiprocessing
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import numpy
import pytest
import reward_cases
import rewards
from reward_cases import CASES, NOT_YET, PLUMBING, run_case

ROOT = Path(__file__).parents[1]
RIGHT = "<reasoning>3 + 4</reasoning><answer>7</answer>"
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case):
    run_case(rewards, case)


def test_no_kind_of_case_is_left_out_by_accident():
    counts = {kind: sum(case["function_kind"] == kind for case in CASES) for kind in ("format", "exact", "schema")}
    assert counts == {"format": 11, "exact": 12, "schema": 12} and len(CASES) == 40
    assert (len(NOT_YET), len(PLUMBING)) == (41, 8)


def test_a_wrong_reward_fails_the_cases():
    """The cases are worth nothing if any reward passes them."""
    generous = importlib.util.module_from_spec(importlib.util.find_spec("rewards"))
    generous.format_reward = lambda completions, **kwargs: [1.0]
    generous.correctness_reward = lambda completions, answer, **kwargs: [2.0]
    generous.schema_reward = lambda completions, output_schema, **kwargs: [1.0]
    for kind in ("format", "exact", "schema"):
        failed = 0
        for case in CASES:
            if case["function_kind"] == kind:
                try:
                    run_case(generous, case)
                except AssertionError:
                    failed += 1
        assert failed >= 3, kind


# --- the contract every reward shares ---------------------------------------------------------------------------------


@pytest.fixture
def logged():
    """What a reward writes through TRL's hooks."""

    class Hooks:
        def __init__(self):
            self.extra, self.metrics = {}, {}

        def log_extra(self, column, values):  # extends, as TRL's does
            self.extra.setdefault(column, []).extend(values)

        def log_metric(self, name, value):
            self.metrics[name] = value

        def kwargs(self):
            return {"log_extra": self.log_extra, "log_metric": self.log_metric, "trainer_state": None}

    return Hooks()


TEXT_REWARDS = [
    (rewards.format_reward, {}),
    (rewards.correctness_reward, {"answer": "7"}),
    (rewards.schema_reward, {"output_schema": NUMBER}),
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
    assert len(values) == 2 and list(logged.extra) == [f"{name}/reason"] and len(logged.extra[f"{name}/reason"]) == 2
    assert logged.metrics == {f"{name}/abstained": 0.0}


def test_empty_batch():
    assert [reward(completions=[], **columns) for reward, columns in TEXT_REWARDS] == [[], [], []]


@pytest.mark.parametrize(
    ("reward", "column"),
    [
        (rewards.correctness_reward, "answer"),
        (rewards.schema_reward, "output_schema"),
        (functools.partial(rewards.test_execution_reward, sandbox_cmd=["true"]), "test_code"),
    ],
    ids=["answer", "output_schema", "test_code"],
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
    heavy = {"torch", "trl", "transformers", "datasets", "jsonschema", "jsonschema_rs", "rich", "pyarrow", "numpy"}
    assert not heavy & set(eval(out.stdout)), out.stdout


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
    ],
)
def test_format_reasons(text, reason, logged):
    rewards.format_reward([text], **logged.kwargs())
    assert logged.extra["format_reward/reason"] == [reason]


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
    ],
)  # fmt: skip
def test_exact_match_gold(gold, predicted, reward):
    assert rewards.correctness_reward([f"<answer>{predicted}</answer>"], answer=[gold]) == [reward]


def test_gold_of_unknown_type_is_the_users_error():
    with pytest.raises(TypeError, match="gold answers must be text or numbers"):
        rewards.correctness_reward(["<answer>7</answer>"], answer=[{"value": 7}])


def test_a_constant_gold_is_broadcast():
    for gold in ("7", 7, numpy.int64(7)):
        assert rewards.correctness_reward(["<answer>7</answer>", "<answer>8</answer>"], answer=gold) == [2.0, 0.0]


# --- JSON Schema: both back ends, one verdict -------------------------------------------------------------------------


@pytest.fixture
def without_rs(monkeypatch):
    def use():
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
        rewards._compiled_schema.cache_clear()

    yield use
    monkeypatch.undo()
    rewards._compiled_schema.cache_clear()


TREE = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}
SCHEMAS = [
    True, False, NUMBER, TREE, {"type": "integer"}, {"type": ["object", "null"]}, {"const": None}, {"enum": [1, "a", None]},
    {"multipleOf": 0.1}, {"multipleOf": 0.01}, {"pattern": "^a$"}, {"pattern": r"^\d+$"}, {"pattern": "^[$]$"},
    {"pattern": r"^\S+$"}, {"pattern": "^.*$"}, {"pattern": r"^[\w.]+$"}, {"pattern": r"\$$"},
    {"patternProperties": {"^a$": {"type": "integer"}}, "additionalProperties": False},
    {"dependencies": {"a": ["b"]}}, {"$schema": "http://json-schema.org/draft-07/schema#", "contentEncoding": "base64"},
    {"$schema": "http://json-schema.org/draft-07/schema#", "contentMediaType": "application/json"},
    {"$id": "http://e.x/a/", "properties": {"a": {"$id": "b/", "allOf": [{"$ref": "c"}], "$defs": {"c": {"$id": "c"}}}}},
    {"uniqueItems": True}, {"format": "email"}, {"unevaluatedProperties": False, "properties": {"a": {}}},
    {"properties": {"a": {"$ref": "#"}}}, {"dependentSchemas": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "null"}}},
    {"$id": "http://e.x/root", "$ref": "other", "$defs": {"o": {"$id": "other", "type": "string"}}},
    {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "integer"}}, "$ref": "#/definitions/a"},
    {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "exclusiveMinimum": True},
    {"$dynamicRef": "#n", "$defs": {"n": {"$dynamicAnchor": "n", "type": "array", "items": {"$dynamicRef": "#n"}}}},
    '{"type": "integer"}',
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": None}, "required": None},
]  # fmt: skip
BROKEN = [
    {"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"$dynamicRef": "#"},
    {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": "#"}, {"not": {"$ref": "#"}}, {"dependentSchemas": {"a": {"$ref": "#"}}},
    {"$ref": "http://127.0.0.1:9/x"}, {"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, {"$ref": "#/$defs/none"},
    {"pattern": "("}, {"type": "objekt"}, {"$schema": "http://127.0.0.1:9/draft"}, "{", "null", 5, [],
]  # fmt: skip
VALUES = [
    '{"a\\n": 1}', '"a b"', '"a\\rb"', '"a.b"', '"$"', "[[], []]", '[{"a": 1}, {"a": 1.0}]', "{}", '{"a":1}', '{"a":"1"}', '{"a":{"a":{}}}', '{"n": 1, "b": 2}', "0.3", "0.07", "3", "3.0", "1E5", "1e-7", "1e400", '"a"', '"a\\n"',
    '"\u0661"', '"$"', '"\\ud83d\\ude00"', '"\\ud800"', "[]", "[1, 1.0]", "[1, true]", "[[[1]]]", "true", "null", "NaN",
    "12345678901234567890123", "1" * 400, "[" * 64 + "]" * 64, "[" * 64 + "1" + "]" * 64, "[" * 65 + "]" * 65,
]  # fmt: skip


def verdicts(schema):
    return rewards.schema_reward(VALUES, output_schema=[schema] * len(VALUES))


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:50])
def test_both_back_ends_give_the_same_verdict(schema, without_rs):
    pytest.importorskip("jsonschema_rs")
    fast = verdicts(schema)
    assert None not in fast
    without_rs()
    assert verdicts(schema) == fast


@pytest.mark.parametrize("case", [case for case in CASES if case["function_kind"] == "schema"], ids=lambda c: c["id"])
def test_schema_cases_without_jsonschema_rs(case, without_rs):
    without_rs()
    run_case(rewards, case)


@pytest.mark.parametrize("schema", BROKEN, ids=lambda schema: json.dumps(schema)[:50])
@pytest.mark.parametrize("backend", ["jsonschema-rs", "jsonschema"])
def test_a_broken_schema_abstains_and_says_so_once(schema, backend, without_rs, caplog):
    rewards._compiled_schema.cache_clear()
    if backend == "jsonschema":
        without_rs()
    assert rewards.schema_reward(["{}", "1"], output_schema=[schema, NUMBER]) == [None, 0.0]
    assert rewards.schema_reward(["{}"], output_schema=[schema]) == [None]
    assert len(caplog.records) == 1 and "do not count" in caplog.text


def test_no_network_is_asked(monkeypatch):
    import socket

    def refuse(*args, **kwargs):
        raise AssertionError("a reward opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    rewards._compiled_schema.cache_clear()
    assert rewards.schema_reward(["{}"], output_schema={"$ref": "http://127.0.0.1:9/x.json"}) == [None]


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


def test_schemas_that_went_through_datasets():
    datasets = pytest.importorskip("datasets")
    other = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
    rows = datasets.Dataset.from_list([{"s": NUMBER}, {"s": other}])
    assert rows[0]["s"] != NUMBER  # datasets did fill in the other row's keys
    assert rewards.schema_reward(['{"n": 1}', '{"b": "x"}'], output_schema=list(rows["s"])) == [1.0, 1.0]
    assert rewards.schema_reward(['{"b": "x"}', '{"n": 1}'], output_schema=list(rows["s"])) == [0.0, 0.0]


def test_null_that_datasets_filled_in_and_null_that_was_meant():
    filled = {"properties": {"v": {"type": "string", "const": None}}, "required": ["v"]}
    meant = {"properties": {"v": {"const": None}}, "required": ["v"]}
    both = {"properties": {"v": {"type": ["string", "null"], "const": None}, "w": None}}
    values = ['{"v": "x"}', '{"v": null}']
    assert rewards.schema_reward(values, output_schema=filled) == [1.0, 0.0]
    assert rewards.schema_reward(values, output_schema=meant) == [0.0, 1.0]
    assert rewards.schema_reward(values, output_schema=both) == [0.0, 1.0]


def test_unique_items_take_linear_time(without_rs):
    without_rs()
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "object"}}
    text = json.dumps([{"a": index} for index in range(8000)])
    started = time.process_time()
    assert rewards.schema_reward([text], output_schema=schema) == [1.0]
    assert time.process_time() - started < 10  # 54 s before


# --- code execution ---------------------------------------------------------------------------------------------------

GOOD, BAD = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return 1\n"
TESTS = "from candidate import add\ndef test_add():\n    assert add(2, 3) == 5\n"
# The prefix only chooses the interpreter: what is under test here is the plumbing around it, on our own sources.
HOST = ["env", f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}"]


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


def run_code(sources, tests=TESTS, sandbox_cmd=HOST, **kwargs):
    return rewards.test_execution_reward(sources, test_code=tests, sandbox_cmd=sandbox_cmd, **kwargs)


@pytest.mark.parametrize("nothing", [None, [], ""])
def test_without_a_sandbox_nothing_runs(nothing, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    marker = f"open({str(tmp_path / 'ran')!r}, 'w')\n{GOOD}"
    assert run_code([marker, GOOD], sandbox_cmd=nothing) == [0.0, 0.0]
    assert len(caplog.records) == 1 and not (tmp_path / "ran").exists()


def test_right_and_wrong_code(logged):
    chat = [{"role": "assistant", "content": f"Here:\n```python\n{BAD}```\nBetter:\n```python\n{GOOD}```\n"}]
    tool = "<think>```python\nwrong\n```</think>" + GOOD
    assert run_code([GOOD, BAD, chat, tool, "", "def add(:"], **logged.kwargs()) == [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    assert logged.extra["test_execution_reward/reason"] == ["passed", "failed", "passed", "passed", "failed", "failed"]


def test_one_bad_source_does_not_cost_the_batch():
    assert run_code([GOOD, "x = '\ud800'", "\0", "\udcff" + GOOD]) == [1.0, 0.0, 0.0, 0.0]


def test_the_environment_is_scrubbed(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    spy = "import os\ndef add(a, b):\n    return 5 if 'HF_TOKEN' not in os.environ else 0\n"
    assert run_code([spy]) == [1.0]


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        (None, "missing_tests"),
        ("  ", "missing_tests"),
        ("def test(:", "broken_tests"),
        ("x = 1", "no_tests"),
        ("from candidate import add\ndef Test_add(): assert add(1, 1) == 2", "no_tests"),
        ("from candidate import add\ndef main():\n    def test_add(): ...", "no_tests"),
        ("from solution import add\ndef test_add(): assert add(1, 1) == 2", "no_tests"),
        ("import no_such_module, candidate\ndef test_add(): ...", "sandbox_unavailable"),
    ],
)
def test_tests_that_can_judge_nobody_abstain(tests, reason, logged):
    assert run_code([GOOD], tests=[tests], **logged.kwargs()) == [None]
    assert logged.extra["test_execution_reward/reason"] == [reason]


@pytest.mark.parametrize(
    "prefix",
    [["no-such-sandbox"], ["false"], ["env", "PATH=/nowhere"], ["sh", "-c", "echo hello"], ["sh", "-c", "exec 0</dev/null; exec \"$@\"", "-"]],
    ids=["missing", "fails", "no python", "runs nothing", "no standard input"],
)  # fmt: skip
def test_a_sandbox_that_does_not_work_abstains_and_says_so(prefix, caplog, logged):
    assert run_code([GOOD, BAD], sandbox_cmd=prefix, **logged.kwargs()) == [None, None]
    assert "rows do not count" in caplog.text and set(logged.extra["test_execution_reward/reason"]) == {
        "sandbox_unavailable"
    }


@pytest.mark.parametrize("prefix", ["docker run", [["env"], ["env"]]])
def test_a_prefix_of_wrong_type_is_the_users_error(prefix):
    with pytest.raises(TypeError, match="sandbox_cmd must be one list of strings"):
        run_code([GOOD], sandbox_cmd=prefix)
    with pytest.raises(TypeError, match="timeout_s must be one number"):
        run_code([GOOD], timeout_s=[5])


@pytest.mark.parametrize("call", ["pytest.skip('x')", "pytest.xfail('x')", "pytest.importorskip('no_such_module')"])
def test_a_skipped_test_is_not_a_passed_one(call):
    assert run_code([f"import pytest\ndef add(a, b):\n    {call}\n"]) == [0.0]
    # Nor do the tests it did pass make up for it.
    sometimes = f"import pytest\ndef add(a, b):\n    if a == 2:\n        return a + b\n    {call}\n"
    assert run_code([sometimes], tests=TESTS + "def test_other():\n    assert add(1, 1) == 2\n") == [0.0]


def test_a_dataset_column_cannot_replace_the_bound_sandbox(tmp_path):
    bound = rewards.make_test_execution_reward(["no-such-sandbox"])
    marker = f"open({str(tmp_path / 'ran')!r}, 'w')\n{GOOD}"
    columns = {"sandbox_cmd": HOST, "timeout_s": [5], "self": ["x"]}
    assert bound(completions=[marker], prompts=["p"], test_code=[TESTS], **columns) == [None]
    assert not (tmp_path / "ran").exists()
    assert pickle.loads(pickle.dumps(bound)).__name__ == "test_execution_reward"


@on_linux
def test_a_candidate_that_keeps_the_pipe_open_cannot_hold_the_trainer(monkeypatch):
    source = (
        "import os, signal, subprocess\n"
        "runner = os.getppid()\n"
        "out = os.open(f'/proc/{runner}/fd/1', os.O_WRONLY)\n"
        "subprocess.Popen(['sleep', '40'], stdout=out, start_new_session=True)\n"
        "os.kill(runner, signal.SIGKILL)\n"
    )
    monkeypatch.setattr(rewards, "SANDBOX_START_S", 2)
    started = time.monotonic()
    assert run_code([source], timeout_s=1) == [0.0]
    assert time.monotonic() - started < 30  # 40 s if the reward waited for the pipe


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


def test_a_candidate_that_breaks_the_runner_scores_zero(logged):
    killer = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"
    assert run_code([killer, GOOD], **logged.kwargs()) == [0.0, 1.0]
    assert logged.extra["test_execution_reward/reason"] == ["no_verdict", "passed"]


@on_linux
def test_a_timeout_leaves_no_process_behind(tmp_path):
    """The candidate's child leaves its session and outlives its parent; it must be gone when the reward returns."""
    pid_file = tmp_path / "pid"
    source = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'], start_new_session=True)\n"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(300)\n"
    )
    assert run_code([source], timeout_s=3) == [0.0]
    pid = int(pid_file.read_text())
    for _ in range(50):
        if not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists()


def test_bound_for_trl_it_keeps_name_and_pickles():
    bound = functools.partial(rewards.test_execution_reward, sandbox_cmd=HOST)
    assert pickle.loads(pickle.dumps(bound))(completions=[GOOD], test_code=[TESTS]) == [1.0]
    assert rewards.test_execution_reward.__test__ is False


def test_in_a_real_sandbox(tmp_path):
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed: apt-get install bubblewrap")
    paths = sorted({sys.prefix, sys.base_prefix})
    prefix = ["bwrap", "--ro-bind", "/", "/", "--tmpfs", "/tmp", *(w for p in paths for w in ("--ro-bind", p, p)), "--dev", "/dev",
              "--proc", "/proc", "--unshare-all", "--die-with-parent", "--clearenv", "--setenv", "PATH",
              f"{Path(sys.executable).parent}:/usr/bin:/bin"]  # fmt: skip
    leak = f"open({str(tmp_path / 'leak')!r}, 'w')\n{GOOD}"
    network = "import socket\nsocket.create_connection(('127.0.0.1', 9))\n" + GOOD
    assert run_code([GOOD, BAD, leak, network], sandbox_cmd=prefix) == [1.0, 0.0, 0.0, 0.0]
    assert not (tmp_path / "leak").exists()


# --- wrappers ---------------------------------------------------------------------------------------------------------


def listed(values, completions, **kwargs):
    return list(values)


async def async_ones(completions, **kwargs):
    return [1.0] * len(completions)


def base(values):
    return functools.partial(listed, values)


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
    import inspect

    assert inspect.iscoroutinefunction(wrapped.__call__)
    assert asyncio.run(wrapped(completions=["a b", "a"])) == [0.9, 1.0]


def test_wrapped_and_plain_reward_share_no_column(logged):
    wrapped = rewards.with_length_penalty(rewards.correctness_reward)
    for reward in (wrapped, rewards.correctness_reward):
        reward(completions=["<answer>7</answer>"] * 2, answer="7", **logged.kwargs())
    assert len(logged.extra) == 3 and {len(values) for values in logged.extra.values()} == {2}


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


class Judge:
    def __init__(self, *replies):
        self.replies, self.calls = list(replies), []

    def judge(self, **call):
        self.calls.append(call)
        return self.replies[(len(self.calls) - 1) % len(self.replies)]


@pytest.mark.parametrize(
    ("reply", "reward"),
    [
        ("pass", 1.0), ("PASS", 1.0), (" Pass.\n", 1.0), ("**fail**", 0.0), (True, 1.0), (False, 0.0),
        ({"verdict": "pass"}, 1.0), ({"verdict": False}, 0.0), (None, None), ("", None), ("hard to say", None), ({}, None),
        ("I would not pass this", None), (0.7, None), (["pass"], None),
    ],
)  # fmt: skip
def test_judge_verdicts(reply, reward):
    assert rewards.make_rubric_judge_reward(Judge(reply), "r")(prompts=["p"], completions=["c"]) == [reward]


def test_the_judge_reads_text_in_chat_runs():
    judge = Judge("pass")
    reward = rewards.make_rubric_judge_reward(judge, "on topic")
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    reward(
        prompts=[prompt, prompt[1:]], completions=[[{"role": "assistant", "content": "Hello"}]] * 2, answer=["x", "y"]
    )
    assert [call["prompt"] for call in judge.calls] == ["system: Be brief.\n\nuser: Hi", "Hi"]
    assert judge.calls[0] == {**judge.calls[0], "rubric": "on topic", "response": "Hello", "output_format": "pass_fail"}


def test_judge_mistakes_of_the_user_are_errors():
    class Async:
        async def judge(self, **call):
            return "pass"

    with pytest.raises(TypeError, match="coroutine"):
        rewards.make_rubric_judge_reward(Async(), "r")(prompts=["p"], completions=["c"])
    with pytest.raises(TypeError, match="judge"):
        rewards.make_rubric_judge_reward(object(), "r")
    with pytest.raises(ValueError, match="rubric"):
        rewards.make_rubric_judge_reward(Judge("pass"), " ")
    kwargs_named_like_python = {"self": ["x"], "name": ["y"], "reward_fn": ["z"]}
    assert rewards.make_rubric_judge_reward(Judge("pass"), "r")(
        prompts=["p"], completions=["c"], **kwargs_named_like_python
    ) == [1.0]
    names = {rewards.make_rubric_judge_reward(Judge("pass"), rubric).__name__ for rubric in ("a", "b")}
    assert len(names) == 2
    assert rewards.make_rubric_judge_reward(Judge("pass"), "a", name="tone").__name__ == "tone"


# --- in another process, from another place ---------------------------------------------------------------------------


def _answer_in_child(pickled, connection):
    """What AsyncGRPO's worker does (trl 1.16.0, experimental/async_grpo): unpickle, and call off the main thread with
    prompts, completions, completion_ids and the columns only."""
    functions = pickle.loads(pickled)
    call = {"prompts": ["p"] * 2, "completions": [RIGHT, "x"], "completion_ids": [[1] * 9, [1]], "answer": ["7", "7"],
            "output_schema": [json.dumps(NUMBER)] * 2, "test_code": [TESTS] * 2}  # fmt: skip

    async def call_all():
        return [await asyncio.to_thread(function, **call) for function in functions]

    connection.send(asyncio.run(call_all()))


def test_pickled_into_a_spawned_child_with_async_grpos_arguments():
    functions = [
        rewards.format_reward,
        rewards.correctness_reward,
        rewards.schema_reward,
        rewards.make_test_execution_reward(HOST),
        rewards.with_length_penalty(rewards.correctness_reward, target_len=5, penalty_per_token=0.1),
        rewards.make_rubric_judge_reward(reward_cases.Replies("pass"), "r"),
    ]
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=_answer_in_child, args=(pickle.dumps(functions), there))
    child.start()
    assert here.poll(120), "the child did not answer"
    assert here.recv() == [[1.0, 0.0], [2.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.6, 0.0], [1.0, 1.0]]
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
        shutil.copy(ROOT / "scripts" / "rewards.py", tmp_path)
    module = "scripts.rewards" if place == "root" else "rewards"
    code = f"import {module} as r, pickle; f = pickle.loads(pickle.dumps(r.with_length_penalty(r.format_reward)))\nprint(f(completions=[{RIGHT!r}]))"
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    out = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True)
    assert out.stdout == "[1.0]\n", out.stderr


def test_logger_is_the_modules_own():
    assert rewards.logger is logging.getLogger("rewards")
