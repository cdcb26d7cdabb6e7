"""Whether a JSON value conforms to a JSON Schema, with one verdict whichever validator is installed and bounded cost.

jsonschema checks the schema; jsonschema-rs validates if it is installed, over ten times faster. Where the two differ or
Python's is wrong or slow, the functions below replace its keywords. `rewards.schema_reward` calls `compiled` in place
for what is cheap by construction and through killable.py for the rest.
"""

from __future__ import annotations

import fractions
import functools
import json
import logging
import re
import threading
import urllib.parse

import jsonschema
import jsonschema_specifications
import referencing
import referencing.jsonschema
from jsonschema import ValidationError

__all__ = ["compiled", "score"]

logger = logging.getLogger(__name__)


def _check_references(schema, specification, check_format) -> int:
    """Refuse what a validator would fetch, fail on, or follow for ever: every `$ref` must resolve without the network,
    and no schema may apply itself again to the same value. Gives the size of the schema with its references written
    out."""

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
        if isinstance(resource.contents, dict) and check_format and isinstance(resource.contents.get("format"), str):
            check_format(resource.contents["format"])
        for part in resource.subresources():
            visit(part, resolver.in_subresource(part))

    sizes = {}

    def size(resource, resolver, above) -> int:
        """Schema nodes when each reference is written out: `allOf` of two references to the next of 30 definitions
        makes 2^30, and a validator that writes them out visits each."""
        node = resource.contents
        if not isinstance(node, dict) or id(node) in above:
            return 1
        if id(node) not in sizes:
            above |= {id(node)}
            total = 1 + sum(size(part, resolver.in_subresource(part), above) for part in resource.subresources())
            for keyword in ("$ref", "$dynamicRef"):
                if keyword in node:
                    target = resolver.lookup(node[keyword])
                    total += size(specification.create_resource(target.contents), target.resolver, above)
            sizes[id(node)] = total
        return sizes[id(node)]

    root = referencing.Resource(contents=schema, specification=specification)
    resolver = jsonschema_specifications.REGISTRY.resolver_with_root(root)
    visit(root, resolver)
    return size(root, resolver, frozenset())


_ref_verdicts = threading.local()


def _ref_once(validator, ref, instance, schema):
    """`$ref`, decided once per value: else a recursive schema with two arms costs 2^depth."""
    key = (id(schema), id(instance))
    verdicts = _ref_verdicts.known
    if key not in verdicts:
        verdicts[key] = not any(True for _ in validator._validate_reference(ref=ref, instance=instance))
    if not verdicts[key]:
        yield ValidationError(f"does not match {ref}")


def _decimal_multiple_of(validator, factor, instance, schema):
    """`multipleOf` in decimal, as written: 0.3 is a multiple of 0.1, and no number overflows."""
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
    if validator.is_type(instance, "string") and not _ecma_regex(pattern).search(instance):
        yield ValidationError(f"does not match {pattern}")


def _unique_by_text(validator, wanted, instance, schema):
    """`uniqueItems` in linear time; `parse_json` has made 1.0 and 1 the same."""
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


@functools.lru_cache(maxsize=256)
def _format_check(dialect: str, name: str):
    """A function `text -> bool` for one `format`, or a ValueError: one that is not checked must not pass in silence."""
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(
            {"$schema": dialect, "format": name}, offline=True, validate_formats=True, ignore_unknown_formats=False
        ).is_valid
    except (ValueError, jsonschema_rs.ValidationError):
        raise ValueError(f"format {name!r} is unknown, so it cannot be checked") from None


def _checked_format(dialect, validator, name, instance, schema):
    if isinstance(name, str) and not _format_check(dialect, name)(instance):
        yield ValidationError(f"is not a {name}")


# Known beside those that a validator checks. Without a single one, any value would conform.
_KEYWORDS = frozenset(
    """$schema $id id $ref $dynamicRef $recursiveRef $defs definitions $anchor $dynamicAnchor $comment title description
    default examples contentEncoding contentMediaType contentSchema""".split()  # noqa: SIM905
).union(
    jsonschema.Draft3Validator.VALIDATORS, jsonschema.Draft4Validator.VALIDATORS, jsonschema.Draft7Validator.VALIDATORS,
    jsonschema.Draft201909Validator.VALIDATORS, jsonschema.Draft202012Validator.VALIDATORS,
)  # fmt: skip


def _load(schema_text: str, formats: bool) -> tuple:
    """A checked schema, the jsonschema validator class of its draft, the draft's name, and the schema's size;
    ValueError says what is broken."""
    schema, validator_class = json.loads(schema_text), jsonschema.Draft202012Validator
    if isinstance(schema, dict) and "$schema" in schema:
        validator_class = jsonschema.validators.validator_for(schema, default=None)
        if validator_class is None:
            raise ValueError(f"unknown $schema {schema['$schema']!r}")
    dialect = validator_class.META_SCHEMA.get("$id") or validator_class.META_SCHEMA["id"]
    check_format = functools.partial(_format_check, dialect) if formats else None
    try:
        try:
            validator_class.check_schema(schema)
            is_filled = _fills_const(schema)
        except jsonschema.SchemaError:
            is_filled = True
        if is_filled:  # datasets fills in the keys that other rows' schemas have: {"a": {...}, "b": None}
            schema = _without_none(schema)
            validator_class.check_schema(schema)
        if isinstance(schema, dict) and schema and not _KEYWORDS & set(schema):
            known = "the properties alone, or a wrapper around the schema?"
            raise ValueError(f"none of {', '.join(map(str, schema))} is a keyword of JSON Schema: {known}")
        size = _check_references(schema, referencing.jsonschema.specification_with(dialect), check_format)
    except jsonschema.SchemaError as error:
        raise ValueError(error.message) from None
    except referencing.exceptions.Unresolvable as error:
        raise ValueError(f"$ref {error.ref!r} does not resolve, and nothing is fetched") from None
    return schema, validator_class, dialect, size


# The back ends read these differently (jsonschema 4.26.0, jsonschema-rs 0.61.2), so jsonschema always decides on them.
_ONLY_JSONSCHEMA = (
    "patternProperties", "dependencies", "contentEncoding", "contentMediaType", "$dynamicRef", "$recursiveRef",
)  # fmt: skip
# What may cost Python's jsonschema without bound: its regular expressions backtrack, no verdict of a dynamic reference
# can be kept, and `unevaluated...` evaluates its neighbours again at each level.
_UNBOUNDED = (
    "pattern", "patternProperties", "$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
# jsonschema-rs writes references out: 2^24 nodes took it 0.2 s, doubling with each level (0.61.2).
MAX_WRITTEN_OUT = 100_000


def _names(schema_text: str, keywords) -> bool:
    return any(f'"{keyword}"' in schema_text for keyword in keywords)


def _top(schema):
    """The schema itself, or the definition it consists of: what pydantic writes for a recursive model."""
    for _ in range(10):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target = {key: value for key, value in schema.items() if key in ("$schema", "$id", "$defs", "definitions")}
        found = schema
        for part in urllib.parse.unquote(reference[2:]).split("/"):
            part = part.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901
            found = found.get(part) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            break
        schema = {**target, **found}
    return schema


class _Compiled:
    """One schema, ready to judge values."""

    def __init__(self, schema_text: str, formats: bool):
        schema, validator_class, dialect, size = _load(schema_text, formats)
        self.fast = None
        if size <= MAX_WRITTEN_OUT and not _names(schema_text, _ONLY_JSONSCHEMA):
            try:
                import jsonschema_rs

                self.fast = jsonschema_rs.validator_for(
                    schema, offline=True, validate_formats=formats, ignore_unknown_formats=not formats
                )
            except (ImportError, ValueError):  # not installed, or a draft or a regular expression it does not know
                pass
        keywords = {
            "type": functools.partial(_usual_type, validator_class.VALIDATORS["type"]),
            "multipleOf": _decimal_multiple_of,
            "pattern": _ecma_pattern,
            "uniqueItems": _unique_by_text,
        }
        if '"$dynamicRef"' not in schema_text:  # its target depends on the path taken, so no verdict can be kept
            keywords["$ref"] = _ref_once
        if formats:
            keywords["format"] = functools.partial(_checked_format, dialect)
        self.extended_class = jsonschema.validators.extend(validator_class, keywords)
        self.schema = schema
        self.is_unbounded = _names(schema_text, _UNBOUNDED)

    @functools.cached_property
    def validator(self):
        return self.extended_class(self.schema, registry=jsonschema_specifications.REGISTRY)

    @functools.cached_property
    def top_validator(self):
        return self.extended_class(_top(self.schema), registry=jsonschema_specifications.REGISTRY)

    def needs_budget(self, graded: bool) -> bool:
        return self.is_unbounded and (graded or self.fast is None)

    def is_valid(self, value) -> bool:
        if self.fast is not None:
            return self.fast.is_valid(value)
        _ref_verdicts.known = {}  # keyed by id(), so good for as long as this value lives
        return self.validator.is_valid(value)

    def share(self, value) -> float:
        """Requirements met at the top level, from 0.0 to 1.0; 1.0 for a valid value only."""
        if self.is_valid(value):
            return 1.0
        top = self.top_validator.schema
        if not isinstance(value, dict) or not isinstance(top, dict):
            return 0.0
        _ref_verdicts.known = {}
        errors = list(self.top_validator.iter_errors(value))
        wrong = {error.path[0] for error in errors if error.path}
        broken = {error.validator for error in errors if not error.path} - {"required"}
        wanted = set(top.get("required") or top.get("properties") or ())
        met = sum(name in value and name not in wrong for name in wanted)
        # What is broken beside the wanted names lowers the share; what holds of itself, such as the absence of other
        # properties, does not raise it: `{}` must not be paid.
        return met / max(met + 1, len(wanted) + len(wrong - wanted) + len(broken))


@functools.lru_cache(maxsize=1024)
def compiled(schema_text: str, formats: bool = False) -> _Compiled | None:
    """One schema, ready to judge values, or None if it is broken, which the log says once.

    Example:
        >>> compiled('{"type": "integer"}').is_valid(7)
        True
    """
    try:
        return _Compiled(schema_text, formats)
    except (ValueError, RecursionError) as error:
        logger.warning("rows with this schema do not count (%.200s): %.200s", error, schema_text)
        return None


def score(schema_text: str, value, graded: bool, formats: bool) -> float | None:
    """1.0 if the value conforms, else 0.0, or with `graded` the share of requirements met at the top level. None if
    only a look at the value shows that the schema is broken.

    Example:
        >>> schema = '{"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a", "b"]}'
        >>> score(schema, {"a": 1}, graded=False, formats=False), score(schema, {"a": 1}, graded=True, formats=False)
        (0.0, 0.5)
    """
    schema = compiled(schema_text, formats)
    try:
        return schema.share(value) if graded else float(schema.is_valid(value))
    except (RecursionError, re.error):  # parse_json bounds the value's depth, so the schema is at fault
        return None
