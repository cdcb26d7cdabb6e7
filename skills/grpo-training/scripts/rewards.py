#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["jsonschema>=4.21", "rich>=13", "pyarrow>=15"]
# ///
"""Reward functions for TRL's GRPOTrainer, and a command that scores sampled completions with them.

Copy this file into your project and hand the functions to `GRPOTrainer(reward_funcs=[...])`, or name them
on the command line: `trl grpo --reward_funcs rewards.format_reward rewards.correctness_reward`.

The contract every function here keeps (trl 1.16.0, trl/trainer/grpo_trainer.py, `_calculate_rewards`):

1. It is called with keywords only: `prompts`, `completions`, `completion_ids`, every dataset column as a list
   aligned with `completions`, `trainer_state`, `log_extra`, `log_metric`. AsyncGRPO leaves the last three out.
2. `completions` holds strings (string prompts) or lists of chat messages (conversational prompts).
3. It returns one float per completion, or None where the row does not count. TRL treats None as "no opinion".
4. What the model got wrong scores 0. What the user got wrong is an error or None, never a silent 0.
5. It can be pickled (AsyncGRPO spawns a process), and its `__name__` is its column in the logs.

Why each row scored as it did goes to the completions table as `<reward name>/reason`.
Importing this file needs the standard library only; jsonschema, rich and pyarrow are imported where they are used.
"""

from __future__ import annotations

import ast
import concurrent.futures
import fractions
import functools
import hashlib
import inspect
import json
import logging
import math
import numbers
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import unicodedata

__all__ = [
    "completion_text",
    "visible_text",
    "format_reward",
    "extract_answer",
    "correctness_reward",
    "parse_json",
    "schema_reward",
    "extract_code",
    "test_execution_reward",
    "make_test_execution_reward",
    "with_length_penalty",
    "make_rubric_judge_reward",
]

logger = logging.getLogger(__name__)


def completion_text(completion) -> str:
    """The text a completion is judged by: the string itself, or what the last assistant message says.

    Tool results and earlier turns are not the model's answer. `content` may be None (a pure tool call), or a list of
    parts (multimodal), of which the text parts count. `reasoning_content` is reasoning, so it is left out.

    Args:
        completion (`str`, `list[dict]` or `None`): one item of TRL's `completions`.

    Returns:
        `str`: the text, `""` where the model said nothing.

    Raises:
        TypeError: `completion` is neither text nor chat messages.

    Example:
        >>> completion_text([{"role": "assistant", "content": None, "tool_calls": []},
        ...                  {"role": "tool", "content": "42"},
        ...                  {"role": "assistant", "content": "It is 42."}])
        'It is 42.'
    """
    if isinstance(completion, str):
        return completion
    if completion is None:
        return ""
    if not isinstance(completion, (list, tuple)) or not all(isinstance(message, dict) for message in completion):
        raise TypeError(f"a completion must be a string or a list of chat messages, got {completion!r:.80}")
    for message in reversed(completion):
        if message.get("role", "assistant") == "assistant":
            content = message.get("content") or ""
            if isinstance(content, (list, tuple)):
                content = "".join(part.get("text") or "" for part in content if isinstance(part, dict))
            if not isinstance(content, str):
                raise TypeError(f"the content of a message must be text or a list of parts, got {content!r:.80}")
            return content
    return ""


def _column(reward_name: str, column: str, values, size: int) -> list:
    """One value per completion: a constant (text, number, dict, None) is repeated, a wrong length is an error."""
    if values is None or isinstance(values, (str, bytes, dict, numbers.Number)):
        return [values] * size
    values = list(values)
    if len(values) != size:
        raise ValueError(f"{reward_name}: column '{column}' has {len(values)} values for {size} completions")
    return values


def _report(name: str, rewards: list, reasons: list, log_extra, log_metric) -> None:
    """Show why each row scored as it did. The names carry the reward's own name: TRL keeps one column per name, so of
    two rewards that shared one only the later would be seen."""
    if log_extra is not None:
        log_extra(f"{name}/reason", reasons)
    if log_metric is not None and rewards:
        log_metric(f"{name}/abstained", rewards.count(None) / len(rewards))


_FORMAT_TAG = re.compile(r"</?(?:reasoning|answer)>")


def _is_blank(text: str) -> bool:
    """Nothing to see: white space, or characters without a glyph such as U+200B."""
    text = text.strip()
    return not text or not (text.isascii() or any(c.isprintable() and not c.isspace() for c in text))


def _format_reason(text: str, prefilled: bool) -> str:
    text = text.strip()
    expected = ["<reasoning>", "</reasoning>", "<answer>", "</answer>"][1 if prefilled else 0 :]
    # All tags in one pass, so time is linear in length whatever the text repeats.
    if _FORMAT_TAG.findall(text) != expected:
        return "wrong_tags"
    opening = "" if prefilled else "<reasoning>"
    reasoning_end, answer_start = text.rfind("</reasoning>"), text.rfind("<answer>")
    between = text[reasoning_end + len("</reasoning>") : answer_start]
    if not text.startswith(opening) or between.strip() or not text.endswith("</answer>"):
        return "text_outside_blocks"
    reasoning, answer = text[len(opening) : reasoning_end], text[answer_start + len("<answer>") : -len("</answer>")]
    if _is_blank(reasoning) or _is_blank(answer):
        return "empty_block"
    return "ok"


def format_reward(completions, prefilled=False, log_extra=None, log_metric=None, **kwargs) -> list[float]:
    """1.0 if the completion is one `<reasoning>` block followed by one `<answer>` block and nothing else, else 0.0.

    Each tag occurs exactly once, in order, and neither block is empty: repeated, nested, mismatched and empty blocks
    are the cheapest ways for a policy to collect a format reward. A gate, not a correctness signal.

    Args:
        completions (`list[str]` or `list[list[dict]]`): one per rollout.
        prefilled (`bool` or `list[bool]`): True where the chat template already wrote `<reasoning>`, so that the
            completion starts inside the block. Bind it with `functools.partial(format_reward, prefilled=True)`.

    Returns:
        `list[float]`: 1.0 or 0.0. Reasons: `ok`, `wrong_tags`, `text_outside_blocks`, `empty_block`.

    Example:
        >>> format_reward(["<reasoning>3 + 4</reasoning> <answer>7</answer>", "<answer>7</answer>"])
        [1.0, 0.0]
        >>> format_reward(["3 + 4</reasoning><answer>7</answer>"], prefilled=True)
        [1.0]
    """
    flags = _column("format_reward", "prefilled", prefilled, len(completions))
    reasons = [_format_reason(completion_text(completion), flag) for completion, flag in zip(completions, flags)]
    rewards = [1.0 if reason == "ok" else 0.0 for reason in reasons]
    _report("format_reward", rewards, reasons, log_extra, log_metric)
    return rewards


_REASONING_TAG = re.compile(r"<(/?)(reasoning|think)>")


def visible_text(text: str, prefilled: bool = False) -> str:
    """What is left of a completion without its reasoning (`<reasoning>` or `<think>` blocks).

    A block that is never closed hides the rest of the text: a truncated completion has not answered yet. A closing tag
    without an opening one hides everything before it. With `prefilled` (the chat template wrote the opening tag) the
    text begins inside a block.

    Example:
        >>> visible_text("<think>maybe 3</think>4")
        '4'
        >>> visible_text("maybe 3</think>4<think>or 5")
        '4'
        >>> visible_text("maybe 3", prefilled=True)
        ''
    """
    visible, start, opened = [], None if prefilled else 0, None  # start: of the stretch outside, None inside a block
    for tag in _REASONING_TAG.finditer(text):
        is_closing, name = tag.groups()
        if start is not None and not is_closing:
            visible.append(text[start : tag.start()])
            start, opened = None, name
        elif start is not None:
            visible.clear()
            start = tag.end()
        elif is_closing and opened in (name, None):
            start = tag.end()
    if start is not None:
        visible.append(text[start:])
    return "\n".join(filter(None, visible))


_USUAL_END = re.compile(r"</reasoning>[^<]*<answer>([^<]*)</answer>[^<]*")


def extract_answer(text: str, prefilled: bool = False) -> str | None:
    """The content of the last `<answer>` block outside the reasoning, or None if there is none.

    The last block counts because a draft that was taken back must not be paid; a last block that was never closed
    counts as no answer for the same reason. `prefilled` as in `visible_text`.

    Example:
        >>> extract_answer("<answer>red</answer> no, wait: <answer>blue</answer>")
        'blue'
        >>> extract_answer("<reasoning>say <answer>7</answer>?</reasoning> I do not know") is None
        True
    """
    # The usual shape, four tags and no other "<", is told without a pass over all tags.
    usual = text.startswith("<reasoning>") and _USUAL_END.fullmatch(text, text.find("<", 1))
    if usual:
        return usual[1]
    text = visible_text(text, prefilled)
    start = text.rfind("<answer>")
    end = text.find("</answer>", start)
    return None if start < 0 or end < 0 else text[start + len("<answer>") : end]


_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "-")


@functools.lru_cache(maxsize=4096)
def _normalize(text: str) -> str:
    """One spelling for texts that read the same: Unicode NFKC, one kind of dash and minus, single spaces.

    Raised and lowered characters stay as they are: plain NFKC would make 10\u00b2 equal to 102.
    """
    if not text.isascii():
        kept = ("<super>", "<sub>")
        folded = [
            c if unicodedata.decomposition(c).startswith(kept) else unicodedata.normalize("NFKC", c) for c in text
        ]
        text = unicodedata.normalize("NFC", "".join(folded)).translate(_DASHES)
    return " ".join(text.split())


def _accepted_answers(gold) -> list[str]:
    """Every spelling that counts as right; empty if the row has no usable gold."""
    if isinstance(gold, str):
        gold = _normalize(gold)
        return [gold] if gold else []
    if gold is None:
        return []
    if isinstance(gold, bool):
        return [str(gold), str(gold).lower()]
    if isinstance(gold, numbers.Number):
        if gold != gold:  # NaN is how pandas spells "missing"
            return []
        # datasets turns a column of 1 and 2.5 into 1.0 and 2.5, so 1.0 must accept "1"
        return [str(gold), *([str(int(gold))] if math.isfinite(gold) and gold == int(gold) else [])]
    if hasattr(gold, "tolist"):  # numpy and torch
        return _accepted_answers(gold.tolist())
    if isinstance(gold, (list, tuple)):
        return [spelling for item in gold for spelling in _accepted_answers(item)]
    raise TypeError(f"correctness_reward: gold answers must be text or numbers, got {gold!r:.80}")


def correctness_reward(
    completions, answer, prefilled=False, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    """2.0 if the last `<answer>` block outside the reasoning equals the gold answer, else 0.0.

    Equal means the same text after Unicode NFKC, one kind of dash and minus, and single spaces. Case, units and
    number formats are not folded: `1,000` is not `1000` here.

    Args:
        completions (`list[str]` or `list[list[dict]]`): one per rollout.
        answer (`list` or a constant): gold per completion: text, a number, or a list of accepted answers.
        prefilled (`bool` or `list[bool]`): as in `format_reward`; a completion cut off in its reasoning has no answer.

    Returns:
        `list[float | None]`: 2.0, 0.0, or None where the gold is missing (None, NaN, empty).
        Reasons: `correct`, `wrong`, `no_answer`, `missing_gold`.

    Raises:
        ValueError: `answer` has neither one value nor one per completion.
        TypeError: a gold is neither text, number nor a list of these.

    Example:
        >>> correctness_reward(["<answer>7</answer>", "<answer>8</answer>", "seven"], answer=[7, "7", None])
        [2.0, 0.0, None]
    """
    name, size, rewards, reasons = "correctness_reward", len(completions), [], []
    golds, flags = _column(name, "answer", answer, size), _column(name, "prefilled", prefilled, size)
    for completion, gold, flag in zip(completions, golds, flags):
        accepted = _accepted_answers(gold)
        predicted = extract_answer(completion_text(completion), flag)
        if not accepted:
            reward, reason = None, "missing_gold"
        elif predicted is None:
            reward, reason = 0.0, "no_answer"
        elif _normalize(predicted) in accepted:
            reward, reason = 2.0, "correct"
        else:
            reward, reason = 0.0, "wrong"
        rewards.append(reward)
        reasons.append(reason)
    _report(name, rewards, reasons, log_extra, log_metric)
    return rewards


# RFC 8259 lets a reader set these limits. Without the depth limit the verdict on a nesting bomb would depend on how
# deep the interpreter's stack already is; real structured outputs stay far below it.
MAX_JSON_DEPTH = 64


def _object_without_duplicates(pairs: list) -> dict:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate key in an object")
    return result


def _finite_number(digits: str) -> float | int:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"number out of range: {digits:.20}")
    # To JSON Schema 1.0 is the integer 1. Beyond 2**53 a float no longer says which integer was meant.
    return int(number) if number.is_integer() and abs(number) <= 2**53 else number


def _no_constant(name: str):
    raise ValueError(f"{name} is not JSON")


def _deeper_than(value, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


def parse_json(text: str):
    """Strict JSON: what `json.loads` takes, less NaN and Infinity, duplicate keys, numbers out of range, lone
    surrogates, and nesting deeper than `MAX_JSON_DEPTH`.

    Raises:
        ValueError: the text is not such JSON. Nothing else is raised, whatever the text.

    Example:
        >>> parse_json('{"n": 1}')
        {'n': 1}
        >>> parse_json('{"n": "x", "n": 1}')
        Traceback (most recent call last):
        ValueError: duplicate key in an object
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object_without_duplicates,
            parse_float=_finite_number,
            parse_constant=_no_constant,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if text.count("[") + text.count("{") > MAX_JSON_DEPTH and _deeper_than(value, MAX_JSON_DEPTH):
        raise ValueError("nested too deeply")
    if "\\u" in text or not text.isascii():
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate raises UnicodeEncodeError, a ValueError
    return value


def _unfenced(text: str) -> str:
    lines = text.strip().split("\n")
    is_fenced = len(lines) > 1 and lines[0].startswith("```") and lines[-1].strip() == "```"
    return "\n".join(lines[1:-1]) if is_fenced else text.strip()


def _json_of(text: str, prefilled: bool):
    """The JSON value a completion consists of, reasoning aside: bare, in a code fence, or in the `<answer>` block."""
    # The whole text comes first, because strings in it may hold tags.
    for part in (None if prefilled else text, visible_text(text, prefilled), extract_answer(text, prefilled)):
        if part is not None:
            try:
                return parse_json(_unfenced(part))
            except ValueError:
                pass
    raise ValueError("no JSON")


def _check_references(schema, specification) -> None:
    """Refuse what a validator would fetch, fail on, or follow for ever: every `$ref` must resolve without the network,
    and no schema may apply itself again to the same value."""
    import jsonschema_specifications
    import referencing

    def applied_to_same_value(node, resolver):
        for keyword in ("$ref", "$dynamicRef"):
            if keyword in node:
                target = resolver.lookup(node[keyword])
                yield target.contents, target.resolver
        if "$recursiveRef" in node:
            yield schema, resolver
        parts = [part for keyword in ("allOf", "anyOf", "oneOf") for part in node.get(keyword, ())]
        parts += [node[keyword] for keyword in ("not", "if", "then", "else") if keyword in node]
        for part in [*parts, *node.get("dependentSchemas", {}).values()]:
            yield part, resolver.in_subresource(specification.create_resource(part))

    finished = set()

    def follow(node, resolver, above):
        if not isinstance(node, dict) or id(node) in finished:
            return
        if id(node) in above:
            raise ValueError("the schema refers to itself without end")
        for part, part_resolver in applied_to_same_value(node, resolver):
            follow(part, part_resolver, above | {id(node)})
        finished.add(id(node))

    def visit(resource, resolver):
        follow(resource.contents, resolver, frozenset())
        for part in resource.subresources():
            visit(part, resolver.in_subresource(part))

    root = referencing.Resource(contents=schema, specification=specification)
    visit(root, jsonschema_specifications.REGISTRY.resolver_with_root(root))


_ref_verdicts = threading.local()


def _ref_once(validator, ref, instance, schema):
    """`$ref`, decided once per value: else a recursive schema with two arms costs 2^depth."""
    from jsonschema import ValidationError

    key = (id(schema), id(instance))
    verdicts = _ref_verdicts.known
    if key not in verdicts:
        verdicts[key] = not any(True for _ in validator._validate_reference(ref=ref, instance=instance))
    if not verdicts[key]:
        yield ValidationError(f"does not match {ref}")


def _decimal_multiple_of(validator, factor, instance, schema):
    """`multipleOf` in decimal, as written: 0.3 is a multiple of 0.1, and no number overflows."""
    from jsonschema import ValidationError

    if validator.is_type(instance, "number") and fractions.Fraction(str(instance)) % fractions.Fraction(str(factor)):
        yield ValidationError(f"not a multiple of {factor}")


_EXACT_TYPES = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def _usual_type(general, validator, types, instance, schema):
    """`type`, its usual case first: jsonschema spends a quarter of its time in this keyword."""
    if isinstance(types, str) and type(instance) in _EXACT_TYPES.get(types, ()):
        return ()
    return general(validator, types, instance, schema)


_ECMA = {"$": r"\Z", ".": r"[^\n\r\u2028\u2029]", r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[0-9A-Za-z_]",
         r"\W": "[^0-9A-Za-z_]"}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _ecma_regex(pattern: str) -> re.Pattern:
    """A regular expression as JSON Schema means it (ECMA-262). Python's own `$` also matches before a final line break,
    its `.` crosses carriage returns, and its `\\d` and `\\w` take the digits and letters of every script."""

    def translated(token):
        if token[0].startswith("["):
            return token[0].replace(r"\d", "0-9").replace(r"\w", "0-9A-Za-z_")
        return _ECMA.get(token[0], token[0])

    return re.compile(re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]|[$.]", translated, pattern))


def _ecma_pattern(validator, pattern, instance, schema):
    from jsonschema import ValidationError

    if validator.is_type(instance, "string") and not _ecma_regex(pattern).search(instance):
        yield ValidationError(f"does not match {pattern}")


def _unique_by_text(validator, wanted, instance, schema):
    """`uniqueItems` in linear time; `parse_json` has made 1.0 and 1 the same."""
    from jsonschema import ValidationError

    if not wanted or not validator.is_type(instance, "array"):
        return
    if len({json.dumps(item, sort_keys=True) for item in instance}) < len(instance):
        yield ValidationError("has items that are equal")


def _fills_const(node) -> bool:
    """Whether some `"const": None` can never be met, so that datasets must have put it there."""
    if isinstance(node, list):
        return any(map(_fills_const, node))
    if not isinstance(node, dict):
        return False
    types = node.get("type")
    is_filled = "const" in node and node["const"] is None and types is not None and "null" not in types
    return is_filled or any(map(_fills_const, node.values()))


def _without_none(node):
    """The schema without the keys that datasets filled in with None. `null` stays where the type allows it."""
    if isinstance(node, dict):
        may_be_null = "null" in (node.get("type") or ())
        kept = {key: value for key, value in node.items() if value is not None or (key == "const" and may_be_null)}
        return {key: _without_none(value) for key, value in kept.items()}
    return [_without_none(item) for item in node] if isinstance(node, list) else node


def _load_schema(schema_text: str) -> tuple:
    """A checked schema and the jsonschema validator class of its draft; ValueError says what is broken."""
    import jsonschema
    import referencing
    import referencing.jsonschema

    schema, validator_class = json.loads(schema_text), jsonschema.Draft202012Validator
    if isinstance(schema, dict) and "$schema" in schema:
        validator_class = jsonschema.validators.validator_for(schema, default=None)
        if validator_class is None:
            raise ValueError(f"unknown $schema {schema['$schema']!r}")
    try:
        try:
            validator_class.check_schema(schema)
            is_filled = _fills_const(schema)
        except jsonschema.SchemaError:
            is_filled = True
        if is_filled:  # datasets fills in the keys that other rows' schemas have: {"a": {...}, "b": None}
            schema = _without_none(schema)
            validator_class.check_schema(schema)
        dialect = validator_class.META_SCHEMA.get("$id") or validator_class.META_SCHEMA["id"]
        _check_references(schema, referencing.jsonschema.specification_with(dialect))
    except jsonschema.SchemaError as error:
        raise ValueError(error.message) from None
    except referencing.exceptions.Unresolvable as error:
        raise ValueError(f"$ref {error.ref!r} does not resolve, and nothing is fetched") from None
    return schema, validator_class


# The back ends read these differently (jsonschema 4.26.0, jsonschema-rs 0.61.2), so jsonschema always decides on them.
_ONLY_JSONSCHEMA = (
    "patternProperties", "dependencies", "contentEncoding", "contentMediaType", "$dynamicRef", "$recursiveRef",
)  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _compiled_schema(schema_text: str):
    """A function `value -> bool` for one schema, or None if the schema is broken, which the log says once.

    jsonschema checks the schema. jsonschema-rs validates if it is installed: same verdicts, over ten times faster.
    """
    try:
        schema, validator_class = _load_schema(schema_text)
    except (ValueError, RecursionError) as error:
        logger.warning("schema_reward: rows with this schema do not count (%.200s): %.200s", error, schema_text)
        return None
    if not any(f'"{keyword}"' in schema_text for keyword in _ONLY_JSONSCHEMA):
        try:
            import jsonschema_rs

            return jsonschema_rs.validator_for(schema, offline=True, validate_formats=False).is_valid
        except (ImportError, ValueError):  # not installed, or a draft or a regular expression it does not know
            pass
    import jsonschema
    import jsonschema_specifications

    usual_type = functools.partial(_usual_type, validator_class.VALIDATORS["type"])
    keywords = {"type": usual_type, "multipleOf": _decimal_multiple_of, "pattern": _ecma_pattern,
                "uniqueItems": _unique_by_text}  # fmt: skip
    if '"$dynamicRef"' not in schema_text:  # its target depends on the path taken, so no verdict can be kept
        keywords["$ref"] = _ref_once
    extended_class = jsonschema.validators.extend(validator_class, keywords)
    validator = extended_class(schema, registry=jsonschema_specifications.REGISTRY)

    def is_valid(value) -> bool:
        _ref_verdicts.known = {}  # keyed by id(), so good for as long as this value lives
        return validator.is_valid(value)

    return is_valid


def schema_reward(
    completions, output_schema, prefilled=False, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    """1.0 if the completion is JSON that conforms to its JSON Schema, else 0.0.

    The JSON may stand bare, in one code fence, or in the `<answer>` block; prose beside it scores 0.0, because a
    program that reads the output would fail on it. `format` is an annotation, as the specification has it by default.

    Args:
        completions (`list[str]` or `list[list[dict]]`): one per rollout.
        output_schema (`dict`, `bool`, JSON text, or a list of these): one schema for all, or one per completion.
            Keep per-row schemas in the dataset as JSON text: datasets fills dicts of unlike keys with None, which is
            undone here as far as it can be told apart.
        prefilled (`bool` or `list[bool]`): as in `format_reward`.

    Returns:
        `list[float | None]`: 1.0, 0.0, or None where the schema is missing or broken (invalid, refers to a remote or
        missing `$ref`, refers to itself without end). Reasons: `valid`, `invalid`, `not_json`, `missing_schema`,
        `broken_schema`.

    Raises:
        ValueError: `output_schema` has neither one value nor one per completion.

    Example:
        >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        >>> schema_reward(['{"n": 1}', '{"n": "1"}', 'n = 1'], output_schema=schema)
        [1.0, 0.0, 0.0]
    """
    name, size, rewards, reasons = "schema_reward", len(completions), [], []
    schemas, flags = _column(name, "output_schema", output_schema, size), _column(name, "prefilled", prefilled, size)
    seen_id, is_valid = None, None
    for completion, schema, flag in zip(completions, schemas, flags):
        if schema is None:
            reward, reason = None, "missing_schema"
        else:
            if id(schema) != seen_id:  # a constant schema is serialised once, not once per row
                is_valid = _compiled_schema(schema if isinstance(schema, str) else json.dumps(schema))
                seen_id = id(schema)
            if is_valid is None:
                reward, reason = None, "broken_schema"
            else:
                try:
                    value = _json_of(completion_text(completion), flag)
                except ValueError:
                    reward, reason = 0.0, "not_json"
                else:
                    try:
                        reward, reason = (1.0, "valid") if is_valid(value) else (0.0, "invalid")
                    except (RecursionError, re.error):  # the value is not deep, so the schema is at fault
                        reward, reason = None, "broken_schema"
        rewards.append(reward)
        reasons.append(reason)
    _report(name, rewards, reasons, log_extra, log_metric)
    return rewards


_FENCE = re.compile(r" {0,3}(`{3,})[ \t]*([^`\s]*)[^`]*")


def extract_code(text: str) -> str:
    """The code a completion offers, reasoning aside: its last fenced block that is marked as Python, else its last
    fenced block, else its last `<answer>` block, else all of it.

    Example:
        >>> extract_code("First:\\n```python\\nx = 1\\n```\\nBetter:\\n```python\\nx = 2\\n```\\n")
        'x = 2\\n'
    """
    answer, text = extract_answer(text), visible_text(text)
    blocks, opening = [], None  # blocks: (is marked as Python, its lines)
    for line in text.splitlines(keepends=True):
        fence = _FENCE.fullmatch(line.rstrip())
        if opening is None and fence:
            opening = fence[1]
            blocks.append((fence[2].lower() in ("python", "python3", "py"), []))
        elif opening is not None and fence and len(fence[1]) >= len(opening) and not fence[2]:
            opening = None
        elif opening is not None:
            blocks[-1][1].append(line)
    if not blocks:
        return text if answer is None else answer
    marked = [lines for is_python, lines in blocks if is_python]
    return "".join(marked[-1] if marked else blocks[-1][1])


# Run by the runner below, in a process of its own. A test counts as passed only if it ran to its end: a candidate that
# calls pytest.skip() has not passed.
_PYTEST_CHILD = """
import os, pytest, sys

class Count:
    passed = other = 0
    def pytest_runtest_logreport(self, report):
        if report.outcome != "passed" or hasattr(report, "wasxfail"):
            self.other += 1
        elif report.when == "call":
            self.passed += 1

count, here = Count(), os.getcwd()
options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", here, "--confcutdir", here]
status = pytest.main([*options, "test_candidate.py"], plugins=[count])
sys.exit(0 if status == 0 and count.passed and not count.other else 1)
"""

# Runs inside the sandbox. The job comes over standard input, so no path of the host needs to exist in there. Its first
# line says that the sandbox works, before any candidate code runs; the second is the verdict.
_PYTEST_RUNNER = """
import ctypes, importlib.util, json, os, signal, subprocess, sys, tempfile, time
line = sys.stdin.readline()
if not line:
    sys.exit("no job arrived on standard input (docker and podman need -i)")
job = json.loads(line)
missing = [name for name in ["pytest", *job["imports"]] if importlib.util.find_spec(name) is None]
if missing:
    sys.exit("the tests need modules that are not installed in the sandbox: " + ", ".join(missing))
try:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: the candidate's orphans become our children
except (AttributeError, OSError):
    pass
print("ready", flush=True)
with tempfile.TemporaryDirectory() as folder:
    for name in ("candidate.py", "test_candidate.py"):
        with open(os.path.join(folder, name), "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            file.write(job[name])
    child = subprocess.Popen(
        [sys.executable, "-c", job["child"]], cwd=folder,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    try:
        verdict = "passed" if child.wait(job["timeout_s"]) == 0 else "failed"
    except subprocess.TimeoutExpired:
        verdict = "timeout"
    child.kill()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:  # orphans come to us one generation after the other
        try:
            with open("/proc/self/task/%d/children" % os.getpid()) as file:
                for pid in file.read().split():
                    os.kill(int(pid), signal.SIGKILL)
            os.waitpid(-1, 0)
        except ProcessLookupError:  # it ended between reading and killing
            pass
        except OSError:  # no child is left, or no Linux
            break
print(verdict, flush=True)
"""


SANDBOX_START_S = 30  # seconds a container may need to come up; the runner in it keeps to timeout_s


def _run_tests(source: str, tests: str, sandbox_cmd: list[str], timeout_s: float) -> str:
    """`passed`, `failed`, `timeout`, `no_verdict` (the candidate broke the runner), or `sandbox: <what is wrong>`."""
    imports = {
        module.partition(".")[0]
        for node in ast.parse(tests).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for module in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [part.name for part in node.names])
    }
    job = {"candidate.py": source, "test_candidate.py": tests, "timeout_s": timeout_s, "child": _PYTEST_CHILD,
           "imports": sorted(imports - {"", "candidate"})}  # fmt: skip
    process = subprocess.Popen(
        [*sandbox_cmd, "python3", "-c", _PYTEST_RUNNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath)},  # no tokens; PATH so that docker and python3 are found
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(json.dumps(job).encode() + b"\n", timeout=timeout_s + SANDBOX_START_S)
    except subprocess.TimeoutExpired as late:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):  # a candidate may hold the other ends open
            pipe.close()
        output, errors = late.output or b"", b"it did not start in time"
    lines = output.decode(errors="replace").split()
    if lines[:1] != ["ready"]:
        detail = errors.decode(errors="replace").strip().rpartition("\n")[2] or "it printed nothing"
        return f"sandbox: exit status {process.returncode}, {detail:.200}"
    return lines[1] if lines[1:] in (["passed"], ["failed"], ["timeout"]) else "no_verdict"


def _test_problem(tests) -> str | None:
    """What keeps a row's tests from judging a candidate, told without running them."""
    if tests is None or not str(tests).strip():
        return "missing_tests"
    try:
        body = ast.parse(tests).body
    except (SyntaxError, ValueError):
        return "broken_tests"
    # What pytest collects: functions test*, classes Test*, and unittest's classes whatever their name.
    collected = [
        node
        for node in body
        if (isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"))
        or (isinstance(node, ast.ClassDef) and (node.name.startswith("Test") or node.bases))
    ]
    return None if collected and "candidate" in tests else "no_tests"


def test_execution_reward(
    completions, test_code, sandbox_cmd, timeout_s=10, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    """1.0 if the completion's code passes its row's pytest tests inside `sandbox_cmd`, else 0.0.

    SECURITY: this runs what the model wrote. The boundary is `sandbox_cmd` and nothing else: neither the timeout nor
    the temporary folder protects the host. The verdict is the exit status of a process the candidate shares with
    the tests: a policy that learns to call `os._exit(0)` is paid. Read what the passing completions do.

    Args:
        completions (`list[str]` or `list[list[dict]]`): one per rollout; the last fenced block is taken as the code.
        test_code (`list[str]` or `str`): pytest source that imports from `candidate`. Skipped tests count as failed.
        sandbox_cmd (`list[str]`): command prefix that isolates, with python3 and pytest inside and standard input
            passed on. TRL never passes it: bind it with `make_test_execution_reward`.
            For example `"docker run --rm -i --network=none --memory=1g --cpus=1 --pids-limit=128 --read-only
            --tmpfs=/tmp --cap-drop=ALL IMAGE_WITH_PYTEST".split()`.
            If it is empty or None nothing is executed: one warning, and 0.0 for every completion.
        timeout_s (`float`): seconds per completion for its tests, the start of the sandbox not counted.

    Returns:
        `list[float | None]`: 1.0, 0.0, or None where the row or the sandbox is at fault.
        Reasons: `passed`, `failed`, `timeout`, `no_verdict`; `missing_tests`, `broken_tests`, `no_tests`,
        `sandbox_unavailable`; `not_executed`.

    Raises:
        TypeError: `sandbox_cmd` is not a list of strings, or `timeout_s` is not a number.
        ValueError: `test_code` has neither one value nor one per completion.

    Example:
        >>> logging.getLogger(__name__).setLevel(logging.ERROR)
        >>> test_execution_reward(["def f(): ..."], test_code="def test_f(): ...", sandbox_cmd=None)
        [0.0]
    """
    name, size = "test_execution_reward", len(completions)
    tests = _column(name, "test_code", test_code, size)
    if not sandbox_cmd:
        logger.warning("%s: no sandbox_cmd, so nothing is executed and every completion scores 0.0", name)
        reasons = ["not_executed"] * size
        _report(name, [0.0] * size, reasons, log_extra, log_metric)
        return [0.0] * size
    if isinstance(sandbox_cmd, str) or not all(isinstance(word, str) for word in sandbox_cmd):
        raise TypeError(f"{name}: sandbox_cmd must be one list of strings for all rows, got {sandbox_cmd!r:.80}")
    if not isinstance(timeout_s, numbers.Real) or not timeout_s > 0:
        raise TypeError(f"{name}: timeout_s must be one number above 0 for all rows, got {timeout_s!r:.80}")

    def judge(completion, row_tests) -> str:
        return _test_problem(row_tests) or _run_tests(
            extract_code(completion_text(completion)), row_tests, sandbox_cmd, timeout_s
        )

    if shutil.which(sandbox_cmd[0]) is None:
        reasons = [f"sandbox: {sandbox_cmd[0]} is not installed"] * size
    else:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            reasons = list(pool.map(judge, completions, tests))
    for problem in sorted({reason for reason in reasons if reason.startswith("sandbox: ")}):
        logger.warning("%s: rows do not count, %s", name, problem)
    reasons = ["sandbox_unavailable" if reason.startswith("sandbox: ") else reason for reason in reasons]
    scores = {"passed": 1.0, "failed": 0.0, "timeout": 0.0, "no_verdict": 0.0}
    rewards = [scores.get(reason) for reason in reasons]
    _report(name, rewards, reasons, log_extra, log_metric)
    return rewards


test_execution_reward.__test__ = False  # else pytest takes it for a test wherever it is imported by name


class _BoundExecution:
    """A class, because TRL lets a dataset column overrule what functools.partial has bound."""

    __test__ = False

    def __init__(self, sandbox_cmd, timeout_s, name):
        self.sandbox_cmd, self.timeout_s, self.__name__ = sandbox_cmd, timeout_s, name

    def __call__(self, /, completions, test_code, log_extra=None, log_metric=None, **kwargs) -> list[float | None]:
        return test_execution_reward(
            completions, test_code, self.sandbox_cmd, self.timeout_s, log_extra=log_extra, log_metric=log_metric
        )


def make_test_execution_reward(sandbox_cmd, timeout_s=10):
    """`test_execution_reward` with its sandbox bound, for `GRPOTrainer(reward_funcs=[...])`.

    A column of the dataset called `sandbox_cmd` or `timeout_s` changes nothing: the sandbox is the trainer's decision.

    Args:
        sandbox_cmd (`list[str]`), timeout_s (`float`): as in `test_execution_reward`.

    Returns:
        callable: picklable, called `test_execution_reward` in the logs.

    Example:
        >>> make_test_execution_reward(["docker", "run", "-i", "IMAGE"]).__name__
        'test_execution_reward'
    """
    return _BoundExecution(sandbox_cmd, timeout_s, "test_execution_reward")


def _unwrapped(reward_fn):
    while isinstance(reward_fn, functools.partial):
        reward_fn = reward_fn.func
    return reward_fn


def _reward_name(reward_fn) -> str:
    """The name TRL logs a reward under (trl 1.16.0, trainer/utils.py, `get_callable_name`)."""
    return getattr(_unwrapped(reward_fn), "__name__", type(_unwrapped(reward_fn)).__name__)


def _is_async(reward_fn) -> bool:
    """Whether TRL awaits a reward (trl 1.16.0, trainer/utils.py, `is_async_callable`)."""
    reward_fn = _unwrapped(reward_fn)
    return inspect.iscoroutinefunction(reward_fn) or inspect.iscoroutinefunction(reward_fn.__call__)


def _extra_below(prefix: str, log_extra, column: str, values: list) -> None:
    log_extra(f"{prefix}/{column}", values)


def _metric_below(prefix: str, log_metric, name: str, value: float) -> None:
    log_metric(f"{prefix}/{name}", value)


class _LengthPenalty:
    """A class, because AsyncGRPO pickles rewards and a closure cannot be pickled."""

    def __init__(self, reward_fn, target_len, penalty_per_token, max_share, name):
        self.reward_fn, self.target_len, self.penalty_per_token = reward_fn, target_len, penalty_per_token
        self.max_share, self.__name__ = max_share, name

    def _base_arguments(self, kwargs: dict) -> dict:
        """What the wrapped reward logs goes below this wrapper's name, so that both can run side by side."""
        below = {"log_extra": _extra_below, "log_metric": _metric_below}
        return {
            key: functools.partial(below[key], self.__name__, value) if key in below and value is not None else value
            for key, value in kwargs.items()
        }

    def _penalise(self, rewards, completions, kwargs: dict) -> list[float | None]:
        name, size, rewards = self.__name__, len(completions), list(rewards)
        if len(rewards) != size:
            base = _reward_name(self.reward_fn)
            raise ValueError(f"{name}: {base} gave {len(rewards)} rewards for {size} completions")
        completion_ids = kwargs.get("completion_ids")
        if completion_ids is None:
            lengths = [len(completion_text(completion).split()) for completion in completions]
        else:
            lengths = [len(ids) for ids in _column(name, "completion_ids", completion_ids, size)]
        penalties = [
            min(max(0, length - self.target_len) * self.penalty_per_token, self.max_share * float(reward))
            if reward is not None and reward > 0
            else 0.0
            for reward, length in zip(rewards, lengths)
        ]
        if kwargs.get("log_extra") is not None:
            kwargs["log_extra"](f"{name}/penalty", penalties)
        return [None if reward is None else float(reward) - penalty for reward, penalty in zip(rewards, penalties)]

    def __call__(self, /, completions, **kwargs):
        rewards = self.reward_fn(completions=completions, **self._base_arguments(kwargs))
        return self._penalise(rewards, completions, kwargs)


class _AsyncLengthPenalty(_LengthPenalty):
    async def __call__(self, /, completions, **kwargs):
        rewards = await self.reward_fn(completions=completions, **self._base_arguments(kwargs))
        return self._penalise(rewards, completions, kwargs)


def with_length_penalty(reward_fn, target_len=512, penalty_per_token=0.001, max_share=0.5, name=None):
    """A reward that takes `penalty_per_token` off `reward_fn`'s score for every token past `target_len`.

    Only a positive score is touched, and it keeps at least `1 - max_share` of itself: a long right answer stays above
    every wrong one, and a negative score does not become a better one. None stays None. Tokens are counted from
    TRL's `completion_ids` (which include the end token and, in tool runs, the tools' results); without them words
    stand in for tokens, and a text without spaces is one word.

    Args:
        reward_fn (callable): any reward, sync or async; the result is of the same kind.
        target_len (`int`): tokens that cost nothing.
        penalty_per_token (`float`): score per token past `target_len`, 0 or more.
        max_share (`float`): largest share of a positive score that length may cost, 0 to below 1.
        name (`str`, *optional*): name in the logs. By default it tells base and settings apart.

    Returns:
        callable: picklable if `reward_fn` is. Writes `<name>/penalty` to the completions table.

    Raises:
        TypeError: `reward_fn` cannot be called.
        ValueError: a setting is out of range; on a call: `reward_fn` gave a wrong number of rewards.

    Example:
        >>> concise = with_length_penalty(correctness_reward, target_len=3, penalty_per_token=0.1)
        >>> concise(completions=["<answer>7</answer>"] * 2, completion_ids=[[1, 2, 3], [1, 2, 3, 4]], answer="7")
        [2.0, 1.9]
        >>> concise.__name__
        'correctness_reward_over_3_by_0.1'
    """
    if not callable(reward_fn):
        raise TypeError(f"with_length_penalty: reward_fn must be callable, got {reward_fn!r:.80}")
    # Written so that NaN fails them too.
    if not target_len >= 0:
        raise ValueError(f"with_length_penalty: target_len must be 0 or more, got {target_len}")
    if not 0 <= penalty_per_token < math.inf:
        raise ValueError(f"with_length_penalty: penalty_per_token must be 0 or more, got {penalty_per_token}")
    if not 0 <= max_share < 1:
        raise ValueError(f"with_length_penalty: max_share must be at least 0 and below 1, got {max_share}")
    share = "" if max_share == 0.5 else f"_up_to_{max_share:g}"
    name = name or f"{_reward_name(reward_fn)}_over_{target_len}_by_{penalty_per_token:g}{share}"
    wrapper = _AsyncLengthPenalty if _is_async(reward_fn) else _LengthPenalty
    return wrapper(reward_fn, target_len, penalty_per_token, max_share, name)


def _prompt_text(prompt) -> str:
    """A prompt as one text for a judge; chat messages keep their roles unless there is a single one."""
    if isinstance(prompt, str):
        return prompt
    turns = [(message.get("role", "user"), completion_text([{**message, "role": "assistant"}])) for message in prompt]
    return turns[0][1] if len(turns) == 1 else "\n\n".join(f"{role}: {text}" for role, text in turns)


def _verdict(reply) -> bool | None:
    """True for pass, False for fail, None for anything that is not clearly one of the two."""
    if isinstance(reply, dict):
        reply = reply.get("verdict")
    if isinstance(reply, str):
        reply = reply.strip(" \t\r\n.!*`'\"").lower()
        return {"pass": True, "fail": False}.get(reply)
    return reply if isinstance(reply, bool) else None


class _RubricJudge:
    """A class, because AsyncGRPO pickles rewards and a closure cannot be pickled."""

    def __init__(self, judge_client, rubric, name):
        self.judge_client, self.rubric, self.__name__ = judge_client, rubric, name

    def __call__(self, /, completions, prompts, log_extra=None, log_metric=None, **kwargs) -> list[float | None]:
        name, rewards, reasons = self.__name__, [], []
        for prompt, completion in zip(_column(name, "prompts", prompts, len(completions)), completions):
            reply = self.judge_client.judge(
                rubric=self.rubric,
                prompt=_prompt_text(prompt),
                response=completion_text(completion),
                output_format="pass_fail",
            )
            if inspect.isawaitable(reply):
                getattr(reply, "close", lambda: None)()  # else Python warns that it was never awaited
                raise TypeError(f"{name}: judge_client.judge must return its verdict, not a coroutine")
            verdict = _verdict(reply)
            rewards.append(None if verdict is None else float(verdict))
            reasons.append({True: "pass", False: "fail", None: "no_verdict"}[verdict])
        _report(name, rewards, reasons, log_extra, log_metric)
        return rewards


def make_rubric_judge_reward(judge_client, rubric, name=None):
    """A reward that asks a judge model whether a completion meets one fixed pass/fail criterion.

    Calibrate the judge against people's labels before a run. It must not be of the policy's model family.

    Args:
        judge_client: has `judge(rubric=, prompt=, response=, output_format="pass_fail")`, where prompt and response are
            text (chat messages are rendered). It answers `"pass"` or `"fail"` (case, blanks and quotes aside), a bool,
            or a dict with such a `"verdict"`. An exception it raises ends the training: retry inside it.
        rubric (`str`): the criterion.
        name (`str`, *optional*): name in the logs; by default `rubric_judge_reward_` and a hash of the rubric, which
            does not tell two clients with one rubric apart.

    Returns:
        callable: picklable if `judge_client` is. 1.0 for pass, 0.0 for fail, None where there was no clear verdict.
        Reasons: `pass`, `fail`, `no_verdict`.

    Raises:
        TypeError: `judge_client` has no `judge` method; on a call: the method returned a coroutine.
        ValueError: the rubric is empty.

    Example:
        >>> class Judge:
        ...     def judge(self, rubric, prompt, response, output_format):
        ...         return "Pass." if response.endswith("?") else "fail"
        >>> on_topic = make_rubric_judge_reward(Judge(), "The response is a question.")
        >>> on_topic(prompts=["Ask me."] * 2, completions=["Why?", "No"])
        [1.0, 0.0]
        >>> on_topic.__name__
        'rubric_judge_reward_f26a604a'
    """
    if not callable(getattr(judge_client, "judge", None)):
        raise TypeError(f"make_rubric_judge_reward: judge_client needs a method judge(), got {judge_client!r:.80}")
    if not isinstance(rubric, str) or not rubric.strip():
        raise ValueError("make_rubric_judge_reward: the rubric must be a text with one pass/fail criterion")
    name = name or f"rubric_judge_reward_{hashlib.sha256(rubric.encode()).hexdigest()[:8]}"
    return _RubricJudge(judge_client, rubric, name)


def main() -> int:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    try:
        import score_completions
    except ImportError:
        print("error: the score command needs score_completions.py beside rewards.py; copy both", file=sys.stderr)
        return 2
    return score_completions.main()


if __name__ == "__main__":
    sys.exit(main())
