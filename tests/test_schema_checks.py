"""scripts/schema_checks.py: two back ends with one verdict, broken schemas, bounded cost, part credit, formats."""

import json
import sys
import time

import killable
import pytest
import rewards
import schema_checks
from reward_cases import CASES, run_case

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def without_rs(monkeypatch):
    def use():
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
        # In this process, for the worker would import what is installed.
        monkeypatch.setattr(schema_checks, "_UNBOUNDED", ())
        schema_checks.compiled.cache_clear()

    yield use
    monkeypatch.undo()
    schema_checks.compiled.cache_clear()


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
    {"name": "person", "strict": True, "schema": {"type": "object"}}, {"age": {"type": "integer"}},
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
    schema_checks.compiled.cache_clear()
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
    schema_checks.compiled.cache_clear()
    assert rewards.schema_reward(["{}"], output_schema={"$ref": "http://127.0.0.1:9/x.json"}) == [None]


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


# --- cost ---------------------------------------------------------------------------------------------------------


def doubling(levels: int, through_children: bool) -> dict:
    """Each definition refers twice to the next, so written out it has 2^levels nodes."""
    part = (lambda ref: {"properties": {"a": ref}}) if through_children else (lambda ref: ref)
    arms = {
        f"s{level}": {"allOf": [part({"$ref": f"#/$defs/s{level - 1}"}), part({"$ref": f"#/$defs/s{level - 1}"})]}
        for level in range(1, levels)
    }
    return {"$ref": f"#/$defs/s{levels - 1}", "$defs": {"s0": {"type": "integer"}, **arms}}


def nested(levels: int) -> str:
    return '{"a": ' * levels + "1" + "}" * levels


# Each hangs or takes minutes in a plain validator: schema, value, right verdict.
HOSTILE = {
    "backtracking": ({"pattern": "^(a+)+$"}, '"' + "a" * 60 + '!"', 0.0),
    "backtracking key": ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, json.dumps({"a" * 60 + "!": 1}), 0.0),
    "many matches": ({"items": {"pattern": "^(a|a)*b$"}}, json.dumps(["a" * 26] * 2000), 0.0),
    "doubling": (doubling(40, False), "1", 1.0),
    "doubling below": (doubling(40, True), nested(39), 1.0),
    "two arms, deep": (
        {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/n"}, "minItems": n} for n in (0, 1)]}}},
        "[" * 60 + "1" + "]" * 60, 0.0,
    ),
    "unevaluated": (
        {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}}] * 2, "unevaluatedProperties": False, "type": "object"}}},
        nested(60), 0.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["jsonschema-rs", "jsonschema"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_and_values_cost_little(name, backend, monkeypatch, tmp_path):
    schema, text, expected = HOSTILE[name]
    schema_checks.compiled.cache_clear()
    if backend == "jsonschema":  # neither this process nor a worker may have the other one
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
        (tmp_path / "jsonschema_rs.py").write_text("raise ImportError")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        killable._end_pool()
    started = time.monotonic()
    try:
        assert rewards.schema_reward([text, text], output_schema=schema) == [expected] * 2
        assert time.monotonic() - started < 3 * rewards.SCHEMA_BUDGET_S + 5
    finally:
        schema_checks.compiled.cache_clear()
        killable._end_pool()
        killable._remembered.cache_clear()


def test_what_costs_too_much_is_killed_and_said(monkeypatch, caplog):
    monkeypatch.setattr(rewards, "SCHEMA_BUDGET_S", 0.5)
    schema = json.dumps({"patternProperties": {"^(a+)+$": {}}})  # jsonschema alone decides on this keyword
    extra = {}
    values = [json.dumps({"a" * 40 + "!": 1}), '{"aa": 1}']
    got = rewards.schema_reward(
        values, output_schema=schema, log_extra=lambda column, values: extra.update({column: values})
    )
    assert got == [0.0, 1.0] and extra == {"schema_reward/reason": ["over_budget", "valid"]}
    assert "cost more than 0.5 s" in caplog.text


# --- part credit and formats ------------------------------------------------------------------------------------------

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"type": "array"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('{"name": "a", "age": 1}', 1.0), ('{"name": "a"}', 1 / 2), ('{"name": "a", "age": "1"}', 1 / 2), ("{}", 0.0),
        ('{"name": "a", "age": 1, "tags": 1}', 2 / 3), ('{"name": "a", "age": 1, "more": 1}', 2 / 3),
        ('{"name": "a", "more": 1, "tags": 1}', 1 / 4), ("[]", 0.0), ("7", 0.0), ("no JSON", 0.0),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "schema", [PERSON, {"$ref": "#/$defs/p", "$defs": {"p": PERSON}}], ids=["plain", "by reference"]
)
def test_part_credit(text, score, schema):
    graded = rewards.make_schema_reward(graded=True)
    assert graded(completions=[text], output_schema=schema) == pytest.approx([score])
    assert rewards.schema_reward([text], output_schema=schema) == [float(score == 1.0)]


def test_part_credit_without_required():
    graded = rewards.make_schema_reward(graded=True)
    schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    assert graded(completions=['{"a": 1, "b": "x"}', '{"a": "x"}', "{}"], output_schema=schema) == [0.5, 0.0, 1.0]


def test_formats_are_checked_if_declared(caplog):
    checked = rewards.make_schema_reward(formats=True)
    schema = {"type": "string", "format": "date"}
    assert checked(completions=['"2026-11-29"', '"2026-02-30"'], output_schema=schema) == [1.0, 0.0]
    assert rewards.schema_reward(['"2026-02-30"'], output_schema=schema) == [1.0]
    # Where jsonschema decides, the format still counts.
    by_key = {"patternProperties": {"^d": {"format": "date"}}}
    assert checked(completions=['{"d": "2026-11-29"}', '{"d": "x"}'], output_schema=by_key) == [1.0, 0.0]
    # One that nobody checks must not pass in silence; a property of that name is no format.
    assert checked(completions=['"x"'], output_schema={"format": "postcode"}) == [None] and "postcode" in caplog.text
    assert checked(completions=['{"format": "x"}'], output_schema={"properties": {"format": {"const": "x"}}}) == [1.0]


@pytest.mark.parametrize("name", ["date", "date-time", "email", "ipv4", "uri", "uuid", "regex", "hostname"])
def test_formats_have_one_verdict_in_both_back_ends(name, without_rs):
    values = [
        '"2026-11-29"',
        '"2026-11-29T10:00:00Z"',
        '"a@b.example"',
        '"1.2.3.4"',
        '"http://x.y/z"',
        '"("',
        '"-"',
        '""',
        "7",
    ]
    checked = rewards.make_schema_reward(formats=True)
    fast = checked(completions=values, output_schema={"format": name})
    schema_checks.compiled.cache_clear()
    by_jsonschema = {"format": name, "patternProperties": {}}
    assert checked(completions=values, output_schema=by_jsonschema) == fast and 1.0 in fast and 0.0 in fast


def test_formats_without_jsonschema_rs_are_refused(monkeypatch):
    monkeypatch.setattr(rewards.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install jsonschema-rs"):
        rewards.make_schema_reward(formats=True)
