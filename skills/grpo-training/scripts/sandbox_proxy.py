"""What may cross between a test file and the model-written code it judges, each in a process of its own.

The judged code is hostile: a policy is paid for finding whatever makes the tests pass. So the tests never hold one of
its objects. Plain values are sent as JSON and built anew on the tests' side, where `==` is Python's own; everything
else stays where it was made, and the tests get a stand-in that asks for each operation. A comparison of a stand-in with
plain data is never asked: an object that claims to equal everything is simply not equal.

Runs inside the sandbox (sandbox.py sends its source), on the standard library alone. `Agent` is the hostile side,
`Link` and the classes below it the trusted one. Never believe what comes over the socket.
"""

from __future__ import annotations

import base64
import builtins
import collections
import collections.abc
import contextlib
import copy
import dataclasses
import datetime
import decimal
import dis
import enum
import fractions
import functools
import importlib
import inspect
import io
import json
import keyword
import logging
import operator
import os
import pathlib
import re
import struct
import sys
import threading
import types
import uuid
import warnings

__tracebackhide__ = True  # pytest leaves our frames out of what it shows

FRAME_BYTES = 8 << 20  # one answer of the candidate; a larger one ends its job
PRINTED_BYTES = 4 << 20  # kept of what a candidate prints, all calls together; the rest is dropped
DEPTH = 100  # of nested containers
WATCHED_BYTES = 4096  # of the same, with what is nested in it
WATCHED_ITEMS = 64  # of a container that an object holds and a test may change; looked at before every call


class Broken(BaseException):
    """The candidate's process ended or broke the protocol. No `except Exception` of a test hides it."""

    def __init__(self, reason: str, detail: str):
        super().__init__(detail)
        self.reason = reason


# ---------------------------------------------------------------------------------------------------------- frames


def read_exactly(descriptor: int, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(descriptor, min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def receive(descriptor: int, limit: int = 1 << 30):
    (size,) = struct.unpack(">I", read_exactly(descriptor, 4))
    if size > limit:
        raise Broken("output", f"an answer of {size} bytes, at most {limit} are read")
    return json.loads(read_exactly(descriptor, size))


def send(descriptor: int, message) -> None:
    data = json.dumps(message, separators=(",", ":")).encode()
    data = struct.pack(">I", len(data)) + data
    while data:
        data = data[os.write(descriptor, data) :]


# ------------------------------------------------------------------------------------------------- plain values
# A JSON scalar stands for itself; everything else is [tag, ...]. Subclasses lose what their class added, but for those
# that the candidate defines: of these the content crosses, and the stand-in compares it as the builtin class does.

_SMALL = 1 << 53
_DATA_TYPES = {
    name: getattr(builtins, name)
    for name in (
        "bool bytearray bytes complex dict float frozenset int list object range set slice str tuple type".split()
    )
}
_DATA_TYPES["NoneType"] = type(None)
_DATA_TYPES.update(
    (name, one) for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)
)
_DATA_TYPE_NAMES = {one: name for name, one in _DATA_TYPES.items()}
_VIEWS = {type({}.keys()): "keys", type({}.values()): "values", type({}.items()): "items"}
_named_tuples: dict = {}  # (name, fields) -> class, so that a value keeps its class on the way back


def _named_tuple(name, fields):
    if (name, fields) not in _named_tuples:
        if len(fields) > 200 or not all(
            isinstance(one, str)
            and one.isidentifier()
            and not one.startswith("_")
            and not keyword.iskeyword(one)
            and one not in _YES_NO
            for one in (name.lstrip("_") or "T", *fields)
        ):
            raise ValueError("not the fields of a named tuple")
        _named_tuples[name, fields] = collections.namedtuple(name.lstrip("_") or "T", fields)
    return _named_tuples[name, fields]


# What a class of the candidate may derive from and still be compared as plain data: `class Status(str, Enum)`. Of the
# first the tests hold a copy, since they cannot change; the content of the others is asked for.
_FIXED = {one.__name__: one for one in (str, int, float, bytes, tuple, frozenset)}
_GROWING = {
    one.__name__: one
    for one in (collections.Counter, collections.OrderedDict, collections.defaultdict, collections.deque, list, dict)
} | {"set": set, "bytearray": bytearray}
_WITH_CONTENT = (*_FIXED.values(), *_GROWING.values())


def _content_base(cls):
    """The builtin class whose content an instance of `cls` has."""
    return next((one for one in cls.__mro__ if one in _WITH_CONTENT), None)


def _content(value):
    """The plain value in an instance of a class that derives from a builtin one, whatever its own methods say."""
    base = _content_base(type(value))
    if base in (str, int, float):
        return {str: str.__str__, int: int.__index__, float: float.__float__}[base](value)
    if base in (bytes, bytearray):
        return base(memoryview(value))
    if base is collections.deque:
        return base(base.__iter__(value), value.maxlen)
    if issubclass(base, dict):
        return (dict if base is collections.defaultdict else base)(dict(base.items(value)))
    return base(base.__iter__(value))


def _encode_zone(zone):
    if zone is None:
        return None
    if type(zone) is datetime.timezone:
        return [
            "offset",
            zone.utcoffset(None).total_seconds(),
            None if zone is datetime.timezone.utc else zone.tzname(None),
        ]
    if getattr(zone, "key", None) and type(zone).__module__.startswith("zoneinfo"):
        return ["zone", str(zone.key)]
    raise TypeError(f"a time zone of class {type(zone).__name__} cannot cross")


def _decode_zone(zone):
    if zone is None:
        return None
    if zone[0] == "zone":
        import zoneinfo

        return zoneinfo.ZoneInfo(str(zone[1]))
    if zone[2] is None and not zone[1]:
        return datetime.timezone.utc
    offset = datetime.timedelta(seconds=zone[1])
    plain = datetime.timezone(offset)
    return plain if zone[2] is None or zone[2] == plain.tzname(None) else datetime.timezone(offset, str(zone[2]))


def encode(value, other, depth: int = 0):
    """JSON for a plain value; `other(value)` for what is not plain. Raises ValueError for what is nested too deep."""
    kind = type(value)
    if value is None or kind in (bool, str, float):
        return value
    if kind is int:
        return value if -_SMALL < value < _SMALL else ["int", f"{value:x}"]
    if depth > DEPTH:
        raise ValueError(f"a value nested more than {DEPTH} deep cannot cross between candidate and tests")

    def inner(values):
        return [encode(one, other, depth + 1) for one in values]

    if type(kind) is RemoteClass or (issubclass(kind, _WITH_CONTENT) and kind.__module__ == "candidate"):
        return other(value)
    if isinstance(value, enum.Enum) and not isinstance(value, (int, str)):
        return other(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return encode(int.__index__(value), other)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, list):
        return ["list", inner(list.__iter__(value))]
    if isinstance(value, tuple):
        fields = getattr(kind, "_fields", None)
        if kind is not tuple and isinstance(fields, tuple) and len(fields) == tuple.__len__(value):
            with contextlib.suppress(ValueError, TypeError):
                _named_tuple(kind.__name__, fields)
                _named_tuples[kind.__name__, fields] = kind
                return ["named", kind.__name__, list(fields), inner(tuple.__iter__(value))]
        return ["tuple", inner(tuple.__iter__(value))]
    if isinstance(value, dict):
        pairs = [inner(pair) for pair in dict.items(value)]
        if kind is collections.defaultdict:
            factory = _DATA_TYPE_NAMES.get(value.default_factory)
            return ["defaultdict", factory, pairs] if factory else ["dict", pairs]
        tag = {collections.OrderedDict: "ordered", collections.Counter: "counter"}.get(kind, "dict")
        return [tag, pairs]
    if isinstance(value, (set, frozenset)):
        base = set if isinstance(value, set) else frozenset
        return [base.__name__, inner(base.__iter__(value))]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes" if isinstance(value, bytes) else "bytearray", base64.b64encode(bytes(value)).decode()]
    if kind is complex:
        return ["complex", value.real, value.imag]
    if kind is collections.deque:
        return ["deque", inner(value), value.maxlen]
    if kind in _VIEWS:
        return ["view", _VIEWS[kind], inner(value)]
    if kind is range:
        return ["range", value.start, value.stop, value.step]
    if kind is slice:
        return ["slice", inner((value.start, value.stop, value.step))]
    if kind is decimal.Decimal:
        return ["decimal", str(value)]
    if kind is fractions.Fraction:
        return ["fraction", f"{value.numerator:x}", f"{value.denominator:x}"]
    if kind is datetime.datetime:
        return ["datetime", value.replace(tzinfo=None).isoformat(), value.fold, _encode_zone(value.tzinfo)]
    if kind is datetime.time:
        return ["time", value.replace(tzinfo=None).isoformat(), _encode_zone(value.tzinfo)]
    if kind is datetime.date:
        return ["date", value.isoformat()]
    if kind is datetime.timedelta:
        return ["timedelta", value.days, value.seconds, value.microseconds]
    if kind is datetime.timezone:
        return ["timezone", _encode_zone(value)]
    if kind is uuid.UUID:
        return ["uuid", value.hex]
    if isinstance(value, pathlib.PurePath):
        return ["path", str(value)]
    if value is type or (kind is type and value in _DATA_TYPE_NAMES):
        return ["type", _DATA_TYPE_NAMES[value]]
    if kind is re.Pattern:
        return ["pattern", encode(value.pattern, other), value.flags & ~int(re.DEBUG)]
    if value is NotImplemented:
        return ["not_implemented"]
    if value is Ellipsis:
        return ["ellipsis"]
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)) and value.dtype.kind in "biufcSUmM":
        plain = numpy.ascontiguousarray(numpy.asarray(value))
        shape = list(numpy.shape(value))
        data = base64.b64encode(plain.tobytes()).decode()
        return ["array" if isinstance(value, numpy.ndarray) else "scalar", plain.dtype.str, shape, data]
    return other(value)


def _decode_array(tag, dtype, shape, data):
    import numpy

    dtype = numpy.dtype(str(dtype))
    if dtype.kind not in "biufcSUmM" or dtype.hasobject:
        raise ValueError("not a plain dtype")
    array = numpy.frombuffer(base64.b64decode(data), dtype).reshape([int(size) for size in shape]).copy()
    return array if tag == "array" else array[()]


_PLAIN = {
    "int": lambda digits: int(digits, 16),
    "complex": lambda real, imaginary: complex(float(real), float(imaginary)),
    "bytes": base64.b64decode,
    "bytearray": lambda data: bytearray(base64.b64decode(data)),
    "range": lambda *ends: range(*map(int, ends)),
    "decimal": lambda text: decimal.Decimal(str(text)),
    "fraction": lambda above, below: fractions.Fraction(int(above, 16), int(below, 16)),
    "datetime": lambda text, fold, zone: datetime.datetime.fromisoformat(text).replace(
        fold=fold, tzinfo=_decode_zone(zone)
    ),
    "time": lambda text, zone: datetime.time.fromisoformat(text).replace(tzinfo=_decode_zone(zone)),
    "date": datetime.date.fromisoformat,
    "timedelta": datetime.timedelta,
    "timezone": _decode_zone,
    "uuid": uuid.UUID,
    "path": lambda text: pathlib.Path(str(text)),
    "type": lambda name: _DATA_TYPES[name],
    "pattern": lambda text, flags: re.compile(decode(text, str), int(flags) & ~int(re.DEBUG)),
    "not_implemented": lambda: NotImplemented,
    "ellipsis": lambda: Ellipsis,
    "array": lambda *parts: _decode_array("array", *parts),
    "scalar": lambda *parts: _decode_array("scalar", *parts),
}
_CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "slice": lambda ends: slice(*ends),
}


def decode(value, other, depth: int = 0):
    """The value of `encode`, built anew. Raises Broken for anything that `encode` cannot have made."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if depth > DEPTH + 10:
        raise Broken("tamper", "an answer nested too deep")

    def inner(values):
        return [decode(one, other, depth + 1) for one in values]

    def pairs(values):
        return {decode(key, other, depth + 1): decode(one, other, depth + 1) for key, one in values}

    try:
        tag, *parts = value
        if tag in _CONTAINERS:
            return _CONTAINERS[tag](inner(parts[0]))
        if tag in _PLAIN:
            return _PLAIN[tag](*parts)
        if tag == "dict":
            return pairs(parts[0])
        if tag == "ordered":
            return collections.OrderedDict(pairs(parts[0]))
        if tag == "counter":
            return collections.Counter(pairs(parts[0]))
        if tag == "defaultdict":
            return collections.defaultdict(_DATA_TYPES[parts[0]], pairs(parts[1]))
        if tag == "deque":
            return collections.deque(inner(parts[0]), parts[1])
        if tag == "named":
            return _named_tuple(str(parts[0]), tuple(parts[1]))._make(inner(parts[2]))
        if tag == "view":
            held = inner(parts[1])
            if parts[0] == "keys":
                return dict.fromkeys(held).keys()
            return dict(held).items() if parts[0] == "items" else dict(enumerate(held)).values()
    except Broken:
        raise
    except Exception as error:
        raise Broken("tamper", f"an answer that is no value ({type(error).__name__})") from None
    return other(value)


# ------------------------------------------------------------------------------------------- what both sides agree on

_BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or".split()
ARITHMETIC = {f"__{prefix}{name}__" for name in _BINARY for prefix in ("", "r", "i")}
ORDER = {"__lt__", "__le__", "__gt__", "__ge__"}
DUNDERS = (
    ARITHMETIC
    | ORDER
    | {
        f"__{name}__"
        for name in """abs aenter aexit aiter anext await bool bytes call ceil complex contains delitem enter eq exit
        float floor format getitem hash index int invert iter len length_hint missing ne neg next pos repr reversed
        round setitem str trunc""".split()
    }
)
# Special attributes that a test may ask an object for. The rest would let the candidate answer the questions that
# Python, pytest and mock ask of every object.
READABLE = {
    f"__{name}__"
    for name in "annotations cause code defaults dict kwdefaults members name notes qualname wrapped".split()
}


def space_of(cls):
    """`cls.__dict__`, also of a stand-in, which gives that of the candidate's class."""
    return type.__dict__["__dict__"].__get__(cls)


def describe_class(cls) -> list:
    """Names of the special methods its instances have."""
    found = {}
    for one in reversed(cls.__mro__):  # not getattr, which would find what the metaclass has
        found.update((name, value) for name, value in space_of(one).items() if name in DUNDERS)
    return [name for name, value in found.items() if value is not None]


def describe_callable(value) -> dict:
    """What decorators and functions that count arguments ask of a function or a class."""
    facts = {}
    if isinstance(value, (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        facts = {name: getattr(value, name, None) for name in ("__name__", "__qualname__", "__doc__")}
        try:
            facts["parameters"] = [[one.name, int(one.kind)] for one in inspect.signature(value).parameters.values()]
        except (ValueError, TypeError):
            pass
    if isinstance(value, types.FunctionType):
        facts["binds"] = True  # in a class it is a method
    return facts


# Libraries whose exceptions are the same on both sides, and whose functions a test may replace, as `requests.get`.
# Not those that steer who judges: pytest and unittest read a verdict from their own exceptions, hypothesis leaves out
# an example that raises UnsatisfiedAssumption.
_LIBRARIES = sys.stdlib_module_names | set(
    "aiohttp bs4 click flask httpx jinja2 jsonschema networkx numpy pandas pydantic pydantic_core requests scipy "
    "sklearn sqlalchemy sympy torch urllib3 yaml".split()
)
_JUDGING = {"unittest", "bdb", "doctest", "_pytest", "pytest", "pluggy", "hypothesis"}


def is_library(module: str) -> bool:
    top = module.partition(".")[0]
    return top in _LIBRARIES and top not in _JUDGING


def _lineage(cls, own, theirs) -> list:
    """The classes of an exception, most special first: builtin, of the standard library, the sender's, the receiver's.
    Real classes are named only if they are the very ones: a class that is merely called ValueError is the sender's."""
    entries = []
    for one in cls.__mro__:
        if one is object:
            continue
        name, module = one.__name__, getattr(one, "__module__", "")
        if theirs(one) is not None:
            entries.append(["yours", theirs(one)])
        elif getattr(builtins, name, None) is one:
            entries.append(["builtin", name])
        elif isinstance(module, str) and is_library(module) and getattr(sys.modules.get(module), name, None) is one:
            entries.append(["module", module, name])
        else:
            entries.append(["mine", own(one), name])
    return entries


# ------------------------------------------------------------------------------------------- the candidate's side


class _Printed(io.RawIOBase):
    """Standard output and error of the candidate: kept for the tests, up to a limit that both share."""

    left = PRINTED_BYTES

    def __init__(self):
        self.parts = bytearray()

    def writable(self):
        return True

    def write(self, data):
        kept = bytes(data)[: max(0, _Printed.left)]
        _Printed.left -= len(kept)
        self.parts += kept
        return len(data)

    def take(self) -> str:
        text, self.parts = self.parts.decode("utf-8", "replace"), bytearray()
        return text


class _Typed(io.TextIOBase):
    """Standard input of the candidate: whatever the tests' `sys.stdin` gives."""

    def __init__(self, ask):
        self.ask = ask

    def readable(self):
        return True

    def read(self, size=-1):
        return self.ask({"stdin": "read", "n": size})

    def readline(self, size=-1):
        return self.ask({"stdin": "readline", "n": size})

    def __next__(self):
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    @property
    def buffer(self):
        return io.BytesIO(self.read().encode())


class _Theirs:
    """A test's own object as the candidate sees it: every use is asked of the tests' process."""

    __slots__ = ("_agent", "_facts", "_id")

    def __init__(self, agent, number, facts):
        for name, value in (("_agent", agent), ("_id", number), ("_facts", facts)):
            object.__setattr__(self, name, value)

    @property
    def __doc__(self):
        return self._facts.get("__doc__")

    @property
    def __signature__(self):
        if "parameters" not in self._facts:
            raise AttributeError("__signature__")
        return inspect.Signature([inspect.Parameter(name, kind) for name, kind in self._facts["parameters"]])

    @property
    def __code__(self):
        names = [name for name, kind in self._facts.get("parameters", ()) if kind < inspect.Parameter.VAR_POSITIONAL]
        return types.SimpleNamespace(co_argcount=len(names), co_varnames=tuple(names))

    def __getattr__(self, name):
        if name in self._facts:
            return self._facts[name]
        if name.startswith("_"):
            raise AttributeError(name)
        return self._agent.ask({"theirs": self._id, "do": "get", "a": [name]})

    def __setattr__(self, name, value):
        self._agent.ask({"theirs": self._id, "do": "set", "a": [name, self._agent.encode(value)]})

    def __hash__(self):
        return self._id


def _theirs_class(name: str, dunders: list):
    def forward(method):
        def call(self, *args, **kwargs):
            agent = self._agent
            message = {"theirs": self._id, "do": method, "a": [agent.encode(one) for one in args]}
            return agent.ask({**message, "k": {key: agent.encode(one) for key, one in kwargs.items()}})

        return call

    methods = {one: forward(one) for one in dunders if one in DUNDERS and one != "__hash__"}
    fixed = {"__slots__": (), "__hash__": _Theirs.__hash__, "__doc__": _Theirs.__doc__}
    return type(name, (_Theirs,), {**methods, **fixed})


def _refuse(value):
    raise TypeError("not plain")


class Agent:
    """Holds the candidate's objects and does with them what the tests ask. Nothing here is trusted: the candidate
    shares this process and may change all of it."""

    def __init__(self, descriptor: int):
        self.descriptor, self.lock = descriptor, threading.RLock()
        self.objects: dict = {}
        self.numbers: dict = {}
        self.theirs: dict = {}  # number of a test's object -> its stand-in
        self.printed = {name: _Printed() for name in ("out", "err")}
        self.their_errors: dict = {}  # number of a test's exception class -> the class made for it here
        self.their_raised: dict = {}  # number of a test's exception -> the one made for it here
        self.warned: list = []
        self.logged: list = []
        self.patched: dict = {}  # what tests have replaced in modules, as it was
        self.loop = None
        self.nested = 0  # contents of objects inside contents of objects
        self.module = types.ModuleType("candidate")

    # --- values

    def number(self, value) -> int:
        key = self.numbers.get(id(value))
        if key is None:
            key = self.numbers[id(value)] = len(self.objects) + 1
            self.objects[key] = value  # kept alive, so its id() stays its own
        return key

    def _their_error(self, cls):
        return next((number for number, one in self.their_errors.items() if one is cls), None)

    def lineage(self, cls) -> list:
        return _lineage(cls, self.number, self._their_error)

    def _handle(self, value):
        if isinstance(value, _Theirs):
            return ["yours", value._id]
        if type(value).__module__ == "random":  # a test's, made here
            number = next((number for number, one in self.theirs.items() if one is value), None)
            if number is not None:
                return ["yours", number]
        if isinstance(value, type):
            if issubclass(value, BaseException):
                return ["error", self.lineage(value)]
            return ["class", self.number(value)]
        if inspect.iscoroutine(value):
            return ["coroutine", self.number(value)]
        if isinstance(value, Exception):
            return ["raised", self._raised(value)]
        base, content = _content_base(type(value)), None
        if base is not None and (base in _FIXED.values() or self.nested < DEPTH // 5):  # else it is asked for
            self.nested += 1
            try:
                content = self.encode(_content(value))
            finally:
                self.nested -= 1
        tag = "value" if base in _FIXED.values() else "object"
        return [tag, self.number(value), self.number(type(value)), content]

    def encode(self, value):
        return encode(value, self._handle)

    def decode(self, value):
        return decode(value, self._theirs)

    def _theirs(self, value):
        tag, *parts = value
        if tag == "yours":
            return self.objects[parts[0]]
        if tag == "error":
            return self._error_class(parts[0])
        if tag == "raised":
            return self._their_exception(parts[0])
        if tag == "random":
            return self._random(*parts)
        number, name, dunders, facts = parts
        if number not in self.theirs:
            self.theirs[number] = _theirs_class(name, dunders)(self, number, facts)
        return self.theirs[number]

    def _random(self, number, state):
        import random

        made = self.theirs.setdefault(number, random.Random())
        if state is not None:
            made.setstate(self.decode(state))
        return made

    def _error_class(self, lineage):
        for index, (tag, *parts) in enumerate(lineage):
            if tag == "builtin":
                return getattr(builtins, parts[0])
            if tag == "module":
                return getattr(importlib.import_module(parts[0]), parts[1])
            if tag == "yours":
                return self.objects[parts[0]]
            number, name = parts
            if number not in self.their_errors:
                base = self._error_class(lineage[index + 1 :])
                self.their_errors[number] = type(name, (base,), {"__module__": "tests"})
            return self.their_errors[number]
        return RuntimeError

    # --- talk

    def ask(self, message):
        with self.lock:
            send(self.descriptor, {**message, **self._side_effects()})
            return self.serve()

    def _side_effects(self) -> dict:
        found = {name: one.take() for name, one in self.printed.items()}
        for name in ("warned", "logged"):
            found[name] = getattr(self, name)[:1000]
            setattr(self, name, [])
        return {name: one for name, one in found.items() if one}

    def serve(self):
        """Answer requests until the answer to our own last question comes, if we had one."""
        while True:
            with self.lock:  # a thread of the candidate may ask only while a request is being worked on
                message = receive(self.descriptor)
            if "return" in message:
                return self.decode(message["return"])
            if "raise" in message:
                raise self._their_exception(message["raise"])
            try:
                answer = {"value": self._do(message)}
            except BaseException as error:
                answer = self._raised(error)
            with self.lock:
                try:
                    send(self.descriptor, {**answer, **self._side_effects()})
                except (ValueError, TypeError, RecursionError, MemoryError) as error:
                    send(
                        self.descriptor,
                        {"raised": [["builtin", type(error).__name__]], "text": "the value cannot be sent"},
                    )

    def _their_exception(self, described):
        kept = described["kept"]
        if kept not in self.their_raised:  # one for one, so that `is` works
            self.their_raised[kept] = self._new_exception(described)
        return self.their_raised[kept]

    def _new_exception(self, described):
        cls = self._error_class(described["lineage"])
        try:
            error = cls(*self.decode(described["args"]))
        except Exception:
            error = RuntimeError(described["text"])
        with contextlib.suppress(AttributeError, TypeError):
            error._kept = described["kept"]
        return error

    def _raised(self, error) -> dict:
        if getattr(error, "_kept", None) is not None:
            return {"again": error._kept}

        def describe(one, depth=0):
            try:
                text = str(one)[:2000]
            except BaseException:
                text = ""

            def within(value):  # an ExceptionGroup holds exceptions
                return ["raised", describe(value, depth + 1)] if depth < 3 and isinstance(value, Exception) else None

            try:
                args = encode(one.args, within)
            except BaseException:
                args = None
            found = {"raised": self.lineage(type(one)), "text": text, "args": args, "object": self.number(one)}
            parts = {**vars(one), **{name: getattr(one, name, None) for name in ("filename", "filename2", "name")}}
            found["parts"] = {}
            for name, part in parts.items():  # JSONDecodeError.pos
                if part is not None and not name.startswith("_"):
                    with contextlib.suppress(BaseException):
                        found["parts"][name] = encode(part, _refuse)
            if depth < 3 and one.__cause__ is not None:
                found["cause"] = describe(one.__cause__, depth + 1)
            return found

        try:
            return describe(error)
        except BaseException:
            return {"raised": [["builtin", "RuntimeError"]], "text": "an exception that cannot be described"}

    # --- requests

    def _do(self, message):
        for name, value in message.get("context", {}).items():
            self._enter_context(name, value)
        action = getattr(self, f"_do_{message['do']}")
        target = self.objects[message["h"]] if message.get("h") else self.module
        return action(target, message)

    def _enter_context(self, name, value):
        if name == "environ":
            for key, one in value.items():
                if one is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = one
        elif name == "folder":
            with contextlib.suppress(OSError):
                os.chdir(value)
        elif name == "seed":
            import random

            random.seed(self.decode(value))
        elif name == "numpy_seed":
            import numpy

            numpy.random.seed(self.decode(value))
        elif name == "contents":
            for number, attribute, item, one in value:
                with contextlib.suppress(Exception):  # it may be gone
                    mine = self.objects[number] if number else self.module
                    if attribute is not None:
                        mine = getattr(mine, attribute)
                    if item is not None:
                        mine = mine[self.decode(item)]
                    _merge(mine, self.decode(one))
        elif name == "process":
            sys.argv[:] = value["argv"]
            sys.setrecursionlimit(value["recursion"])
        elif name == "patches":
            for module, attribute, one in value:
                with contextlib.suppress(ImportError):
                    self._patch(importlib.import_module(module), attribute, one)
        elif name == "levels":
            for logger, level in value.items():
                logging.getLogger(logger).setLevel(level)

    def _patch(self, module, attribute, value):
        original = self.patched.setdefault((module, attribute), getattr(module, attribute, None))
        setattr(module, attribute, original if value is None else self.decode(value[0]))

    def _do_load(self, module, message):
        source = self._write(message["source"])
        module.__builtins__ = builtins
        sys.modules["candidate"] = module
        code = compile(source, module.__file__, "exec", dont_inherit=True)
        exec(code, module.__dict__)
        return sorted(name for name in vars(module) if isinstance(name, str))

    def _do_get(self, target, message):
        return self.encode(getattr(target, message["n"]))

    def _do_set(self, target, message):
        value = self.decode(message["v"])
        if isinstance(target, type):
            value = self._in_class(value, message.get("kind", ""))
        setattr(target, message["n"], value)

    def _in_class(self, theirs, kind: str):
        """A test's function as a class keeps it: made a function here, which binds to the instance."""
        if not (isinstance(theirs, _Theirs) and theirs._facts.get("binds")):
            return theirs

        def call(*args, **kwargs):
            return theirs(*args, **kwargs)

        kinds = {"staticmethod": staticmethod, "classmethod": classmethod, "property": property}
        return kinds[kind](call) if kind else call

    def _do_in_class(self, target, message):
        return self.encode(vars(target)[message["n"]])

    def _do_class_names(self, target, message):
        return [one for one in vars(target) if isinstance(one, str)]

    def _do_delete(self, target, message):
        delattr(target, message["n"])

    def _do_call(self, target, message):
        args = [self.decode(one) for one in message["a"]]
        kwargs = {key: self.decode(one) for key, one in message["k"].items()}
        before = self._looks(args)
        result = target(*args, **kwargs)
        found = {"result": self.encode(result)}
        if type(result) in (list, dict, set) and len(result) <= WATCHED_ITEMS and hasattr(target, "__self__"):
            found["held"] = self.number(result)
        if result is not None and not message["all_changes"]:
            found["changed"] = before != self._looks(args)
        if message["all_changes"]:
            found["same_as"] = next(
                (at for at, one in enumerate(args) if one is result and not isinstance(one, _Theirs)), None
            )
        if result is None or message["all_changes"]:
            mutable = [
                isinstance(one, (list, dict, set, bytearray, collections.deque)) or _is_array(one) for one in args
            ]
            found["changes"] = [self.encode(one) if can else None for one, can in zip(args, mutable)]
        return found

    def _looks(self, args) -> list:
        """The mutable arguments as they are now."""
        try:
            return [self.encode(one) for one in args if isinstance(one, (list, dict, set, bytearray)) or _is_array(one)]
        except (ValueError, TypeError):
            return []

    def _do_make_error(self, target, message):
        kwargs = {key: self.decode(one) for key, one in message["k"].items()}
        return self._raised(target(*[self.decode(one) for one in message["a"]], **kwargs))

    def _do_leave(self, target, message):
        """`__exit__` or `__aexit__`, with the exception made anew."""
        error = None if message["error"] is None else self._their_exception(message["error"])
        given = (None,) * 3 if error is None else (type(error), error, None)
        return self.encode(getattr(type(target), message["n"])(target, *given))

    def _do_special(self, target, message):
        name, args = message["n"], [self.decode(one) for one in message["a"]]
        return self.encode(getattr(type(target), name)(target, *args))

    def _do_is_instance(self, target, message):
        return isinstance(self.objects[message["of"]], target)

    def _do_copy(self, target, message):
        return self.encode(copy.deepcopy(target) if message["deep"] else copy.copy(target))

    def _do_describe(self, target, message):
        bases = [
            self._handle(one)
            for one in target.__bases__
            if one not in _DATA_TYPE_NAMES and not issubclass(one, BaseException)
        ]
        found = {"name": target.__name__, "bases": bases, "special": describe_class(target)}
        base = _content_base(target)
        if base is not None:
            inherited = ("builtins", "collections", "typing")
            own = {name for one in target.__mro__ if one.__module__ not in inherited for name in vars(one)}
            found["base"], found["own"] = base.__name__, sorted(own)
            if isinstance(getattr(target, "_fields", None), tuple):
                found["fields"] = list(target._fields)
        if _CLAIMS.get(target.__name__) is target:
            found["real"] = target.__name__
        if dataclasses.is_dataclass(target):
            found["dataclass"] = [
                [one.name, one.init, encode(getattr(one.type, "__name__", str(one.type)), repr)]
                + ([] if one.default is dataclasses.MISSING else [encode(one.default, repr)])
                for one in dataclasses.fields(target)
            ]
        if isinstance(getattr(target, "__match_args__", None), tuple):
            found["match"] = list(target.__match_args__)
        return found

    def _do_content(self, target, message):
        return self.encode(_content(target))

    def _do_document(self, target, message):
        return self.encode(target.__doc__)

    def _do_names(self, target, message):
        return sorted(one for one in dir(target) if isinstance(one, str))

    def _do_signature(self, target, message):
        signature = inspect.signature(target)

        def known(value):
            return None if value is inspect.Parameter.empty else [encode(value, repr)]

        parameters = [
            [one.name, int(one.kind), known(one.default), known(one.annotation)]
            for one in signature.parameters.values()
        ]
        return {"parameters": parameters, "returns": known(signature.return_annotation)}

    def _do_await(self, target, message):
        import asyncio

        if self.loop is None:
            self.loop = asyncio.new_event_loop()

        async def wait():
            return await target

        return self.encode(self.loop.run_until_complete(wait()))

    def _do_program(self, target, message):
        """A program that a test runs: here, since it is the candidate's, or reads what the candidate wrote."""
        import subprocess

        self._write(message["source"])
        beside = os.path.join(message["folder"], "candidate.py")  # for shells; the judge does not read it
        with contextlib.suppress(OSError), open(beside, "w", encoding="utf-8", newline="") as file:
            file.write(message["source"])
        # `candidate.py` and `-m candidate` mean the file just written, whatever the folder.
        words = [
            self.module.__file__ if os.path.basename(word) == "candidate.py" else word for word in message["words"]
        ]
        if words[1:3] == ["-m", "candidate"]:
            words[1:3] = [self.module.__file__]
        environ = {**os.environ, **(message["environ"] or {}), "PYTHONPATH": os.path.dirname(self.module.__file__)}
        done = subprocess.run(
            words,
            input=base64.b64decode(message["input"]),
            capture_output=True,
            check=False,
            timeout=message["timeout"],
            cwd=message["folder"],
            env=environ,
        )
        printed = [base64.b64encode(one[: PRINTED_BYTES // 4]).decode() for one in (done.stdout, done.stderr)]
        return [done.returncode, *printed]

    def _write(self, source: str) -> str:
        source = source.encode("utf-8", "surrogatepass").decode("utf-8")
        # Out of the tests' reach, in isolated sandboxes: a test that runs this file would run it on the trusted side.
        self.module.__file__ = "/tmp/candidate.py"
        with open(self.module.__file__, "w", encoding="utf-8", newline="") as file:
            file.write(source)
        return source

    def _do_in_process(self, target, message):
        import sandbox_runner

        return sandbox_runner.judge_in_process(message["source"], message["tests"])

    def _do_subclass(self, target, message):
        bases = tuple(self.objects[one] for one in message["bases"])
        space = {name: self._in_class(self.decode(one), kind) for name, kind, one in message["methods"]}
        space.update((name, self.decode(one)) for name, one in message["values"])
        return self.number(types.new_class(message["n"], bases, exec_body=lambda body: body.update(space)))

    def _do_methods(self, target, message):
        return sorted(
            {name for one in target.__mro__[:-1] for name, value in vars(one).items() if inspect.isfunction(value)}
        )

    def _do_function(self, target, message):
        return self.number(getattr(target, message["n"]))


def _is_array(value) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _overwrite(mine, theirs) -> None:
    if isinstance(mine, (list, bytearray)):
        mine[:] = theirs
    elif isinstance(mine, (dict, set, collections.deque)):
        mine.clear()
        (mine.extend if isinstance(mine, collections.deque) else mine.update)(theirs)
    elif _is_array(mine) and mine.shape == theirs.shape and mine.dtype == theirs.dtype:
        mine[...] = theirs


def _merge(mine, theirs) -> bool:
    """Make `mine` what `theirs` is; the containers in it that are still there stay, since others may hold them."""
    if type(mine) is not type(theirs) or not isinstance(mine, (list, dict, set, collections.deque)):
        return False
    if isinstance(mine, list) and len(mine) == len(theirs):
        for at, one in enumerate(theirs):
            if not _merge(mine[at], one):
                mine[at] = one
    elif isinstance(mine, dict) and list(mine) == list(theirs):
        for key, one in theirs.items():
            if not _merge(mine[key], one):
                mine[key] = one
    else:
        _overwrite(mine, theirs)
    return True


def run_agent(descriptor: int) -> None:
    """The whole life of the candidate's process."""
    agent = Agent(descriptor)
    for name, printed in agent.printed.items():
        stream = io.TextIOWrapper(printed, encoding="utf-8", errors="replace", write_through=True)
        setattr(sys, f"std{name}", stream)
        setattr(sys, f"__std{name}__", stream)
    sys.stdin = _Typed(agent.ask)
    builtins.input = lambda prompt="": agent.ask({"stdin": "input", "n": str(prompt)})

    def show(message, category, filename, line, file=None, source=None):
        text = str(message)[:2000]
        agent.warned.append([agent.lineage(category), text, line if isinstance(line, int) else 0])

    warnings.simplefilter("always")
    warnings.showwarning = show

    class Forward(logging.Handler):
        def emit(self, record):
            try:
                agent.logged.append([record.name, record.levelno, record.getMessage()[:2000]])
            except Exception as error:
                agent.logged.append([record.name, record.levelno, f"<{type(error).__name__} in a log call>"])

    logging.getLogger().addHandler(Forward())
    try:
        agent.serve()
    except EOFError:
        pass
    finally:
        os._exit(0)


# ------------------------------------------------------------------------------------------- the tests' side

# What of the tests the candidate may hold, and what it may ask of it. From any other object it could climb to the
# tests: `frame.eval("@builtins.exec(...)")`, `"{0.__globals__}".format`, `logger.manager`.
_REFUSED_FUNCTIONS = {
    getattr(builtins, name)
    for name in "breakpoint compile delattr dir eval exec getattr globals locals open setattr vars __import__".split()
} | {str.format, str.format_map}
_FUNCTIONS = (
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType, functools.partial,
)  # fmt: skip
_FILE = set(
    "close closed flush getvalue mode name read readable readline readlines seek seekable tell write writelines".split()
)
_SHARED_CLASSES = {  # of the standard library; what a test hands over to be worked with
    ("queue", None), ("_queue", None), ("threading", None), ("_thread", None), ("types", "SimpleNamespace"),
    ("collections", "deque"), ("contextlib", None), ("itertools", None), ("builtins", "generator"),
    ("builtins", "async_generator"),
}  # fmt: skip
_FRAME_PARTS = ("gi_", "cr_", "ag_", "f_", "tb_", "co_", "func_")


def _is_file(value) -> bool:
    return isinstance(value, io.IOBase)


def _is_mock(value) -> bool:
    mock = sys.modules.get("unittest.mock")
    return mock is not None and isinstance(value, mock.NonCallableMock)


@functools.cache
def _mock_api() -> frozenset:
    """What a mock is told by its test, and tells it: `return_value`, `assert_called_once_with`."""
    return frozenset(
        {*dir(sys.modules["unittest.mock"].MagicMock()), *dir(sys.modules["unittest.mock"].AsyncMock())}
    ) - {"name"}


def _of_mocks(name: str) -> bool:
    return "unittest.mock" in sys.modules and name in _mock_api()


def _may_cross(value) -> bool:
    """Whether the candidate may hold a handle to this object of the tests."""
    cls = type(value)
    if isinstance(value, _FUNCTIONS):
        try:
            return value not in _REFUSED_FUNCTIONS
        except TypeError:
            return True
    if cls is object or isinstance(value, _OnItsOwn) or _is_mock(value) or _is_file(value):
        return True
    if isinstance(value, type):
        return value.__module__ in ("test_candidate", "decimal", "fractions", "datetime", "collections", "uuid")
    if cls.__module__ == "test_candidate":
        return True
    names = {(one.__module__, name) for one in cls.__mro__ for name in (None, one.__name__)}
    return bool(names & _SHARED_CLASSES) or (cls.__module__ == "builtins" and hasattr(cls, "__next__"))


_WATCHED = (
    list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter
)  # fmt: skip


class Link:
    """The tests' end of the socket: asks, and builds what comes back."""

    def __init__(self, descriptor: int, source: str, all_changes: bool = False):
        self.descriptor, self.source, self.all_changes = descriptor, source, all_changes
        self.lock = threading.RLock()
        self.dead: Broken | None = None
        self.calls = 0
        self.mine: list = []  # objects of the tests that the candidate may use, by number
        self.numbers: dict = {}
        self.kept: list = []  # exceptions that tests raised inside a call of the candidate
        self.failed_inside: list = []  # assertions of tests that failed there
        self.handed: set = set()  # exception classes that tests gave to the candidate
        # Containers that tests got from attributes and methods: what they do to them (`node.children.append(x)`) is
        # done to the candidate's as well, whose copy it may be or not.
        self.watched: collections.deque = collections.deque(maxlen=20)
        self.watched_globals: collections.deque = collections.deque(maxlen=20)  # those of the module, often for long
        self.unapplied = False  # a call changed an argument, and the tests have not seen it
        self.instances: dict = {}  # number -> its one stand-in, so that `is` tells what it should
        self.functions: set = set()  # classes that tests know by the name of a function
        self.levels_of: dict = {}  # number -> MADE or HELD
        self.set_on_theirs: set = set()  # numbers of objects that the candidate has put into the tests' own
        self.sizes: dict = {}  # of objects that came as answers: what their len() said, how many items came
        self.live: set = set()  # numbers of objects whose content may have changed since it was sent
        self.classes: dict = {}
        self.errors: dict = {}
        self.random_states: dict = {}
        self.returned: dict = {}  # number of an exception that was not raised -> the one made here
        self.honest_eq: dict = {}  # class -> its `==` does not say yes to everything
        self.environ, self.folder, self.levels, self.pending = self._environ(), os.getcwd(), {}, {}
        self.process = self._process()

    def fail(self, reason: str, detail: str):
        self.dead = self.dead or Broken(reason, detail)
        raise self.dead

    # --- requests

    @staticmethod
    def _environ() -> dict:
        return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}

    @staticmethod
    def _process() -> dict:
        return {"argv": list(map(str, sys.argv)), "recursion": sys.getrecursionlimit()}

    def _context(self) -> dict:
        """What a test set for the code it calls: arguments, environment, folder, seeds, log levels."""
        context, self.pending = self.pending, {}
        for watched in (*self.watched, *self.watched_globals):
            where, value, raw = watched
            try:
                now = self.encode(value)
            except (TypeError, ValueError, Refused):
                continue
            if now != raw:
                context.setdefault("contents", []).append([*where, now])
                watched[2] = now
        environ = self._environ()
        if environ != self.environ:
            names = [name for name in {*environ, *self.environ} if environ.get(name) != self.environ.get(name)]
            context["environ"] = {name: environ.get(name) for name in names}
            self.environ = environ
        try:
            folder = os.getcwd()
        except OSError:
            folder = self.folder
        if folder != self.folder:
            context["folder"] = self.folder = folder
        process = self._process()
        if process != self.process:
            context["process"] = self.process = process
        loggers = {"": logging.root, **logging.root.manager.loggerDict}
        levels = {name: one.level for name, one in loggers.items() if getattr(one, "level", 0)}
        if levels != self.levels:
            context["levels"] = {name: levels.get(name, 0) for name in {*levels, *self.levels}}
            self.levels = levels
        return context

    def ask(self, do: str, number: int | None = None, **parts):
        with self.lock:
            if self.dead:
                raise self.dead
            self.calls += 1
            message = {"do": do, "h": number, **parts}
            context = self._context()
            if context:
                message["context"] = context
            self._send(message)
            while True:
                answer, warned = self._receive()
                if "theirs" in answer or "stdin" in answer:
                    self._send(self._serve(answer))
                    continue
                for category, text, line in warned:
                    warnings.warn_explicit(text, category, "candidate.py", line, "candidate", {})
                if "again" in answer or "raised" in answer:
                    error = self._kept(answer["again"]) if "again" in answer else self.exception(answer)
                    may_end = do == "call" or (do == "special" and parts.get("n") == "__next__")
                    if isinstance(error, StopIteration) and not may_end:  # else it would end the test's own loop
                        raise RuntimeError("the code raised StopIteration") from error
                    raise error
                if "value" not in answer:
                    self.fail("tamper", "an answer without a value")
                return answer["value"]

    def _send(self, message) -> None:
        try:
            send(self.descriptor, message)
        except OSError:
            self.fail("exited", "the candidate's process is gone")

    def _receive(self) -> tuple[dict, list]:
        try:
            answer = receive(self.descriptor, FRAME_BYTES)
        except (EOFError, OSError):
            self.fail("exited", "the candidate's process is gone")
        except Broken as broken:
            self.fail(broken.reason, str(broken))
        except (ValueError, RecursionError, MemoryError) as error:
            self.fail("tamper", f"an answer that cannot be read ({type(error).__name__})")
        if type(answer) is not dict:
            self.fail("tamper", "an answer of the wrong shape")
        for name, stream in (("out", "stdout"), ("err", "stderr")):
            if type(answer.get(name)) is str:
                getattr(sys, stream).write(answer[name])
        warned = []
        try:
            for logger_name, level, text in list(answer.get("logged", ()))[:1000]:
                logger = logging.getLogger(str(logger_name))
                if type(level) is int and logger.isEnabledFor(level):
                    logger.handle(logger.makeRecord(logger.name, level, "candidate.py", 0, str(text), (), None))
            for lineage, text, line in list(answer.get("warned", ()))[:1000]:
                category = self.error_class(lineage)
                if issubclass(category, Warning):
                    warned.append((category, str(text), int(line)))
        except (ValueError, TypeError, OverflowError):
            self.fail("tamper", "an answer of the wrong shape")
        return answer, warned

    def _kept(self, index):
        if type(index) is not int or not 0 <= index < len(self.kept):
            self.fail("tamper", "an exception that no test raised")
        return self.kept[index]

    # --- the tests' own objects, as the candidate uses them

    def _serve(self, question: dict) -> dict:
        try:
            if "stdin" in question:
                do, size = str(question["stdin"]), question.get("n")
            else:
                target, do, sent = self._own(question["theirs"]), question["do"], list(question["a"])
                named = {str(key): self.decode(one) for key, one in dict(question.get("k") or {}).items()}
                name = sent.pop(0) if do in ("get", "set") else None
                args = [self.decode(one) for one in sent]
        except (KeyError, TypeError, ValueError, IndexError):
            self.fail("tamper", "a question of the wrong shape")
        try:
            if "stdin" in question:
                return {"return": self.encode(self._typed(do, size))}
            return {"return": self.encode(self._use(target, do, name, args, named))}
        except Exception as error:
            if isinstance(error, AssertionError):
                self.failed_inside.append(str(error)[:400])  # the test has failed, whatever the candidate makes of it
                error = AssertionError()
            return {"raise": self._described(error)}

    def _described(self, error) -> dict:
        """An exception of the tests, for the candidate."""
        kept = next((at for at, one in enumerate(self.kept) if one is error), len(self.kept))
        if kept == len(self.kept):
            self.kept.append(error)
        lineage = _lineage(type(error), self._number, _candidate_number)
        args = encode(error.args, lambda value: None)
        return {"lineage": lineage, "args": args, "text": str(error)[:2000], "kept": kept}

    def _own(self, number):
        if type(number) is not int or not 0 <= number < len(self.mine):
            self.fail("tamper", "an object that no test sent")
        return self.mine[number]

    def _typed(self, do, size):
        if do == "input":
            return builtins.input(str(size))
        return getattr(sys.stdin, "readline" if do == "readline" else "read")(int(size))

    def _use(self, target, do, name, args, kwargs):
        if do == "__call__":
            return target(*args, **kwargs)
        if do in ("get", "set"):
            # Through `__globals__` or a frame the candidate would reach the tests, through a mock's own methods, or by
            # replacing those of a test's class, what the tests assert.
            if (
                type(name) is not str
                or name.startswith(("_", *_FRAME_PARTS))
                or isinstance(target, _FUNCTIONS)
                or (_is_mock(target) and name in _mock_api())
                or (_is_file(target) and name not in _FILE)
            ):
                raise AttributeError(name)
            if do == "get":
                return getattr(target, name)
            if isinstance(target, type) or _is_file(target) or callable(getattr(type(target), name, None)):
                raise AttributeError(f"{name} cannot be set")
            for one in args:  # where a test expects a mock, which tells how it was used
                if _is_remote(one):
                    self.set_on_theirs.add(one._grpo_number)
            return setattr(target, name, *args)
        if do not in DUNDERS or isinstance(target, _FUNCTIONS):
            raise AttributeError(do)
        if _is_mock(target):
            return getattr(target, do)(*args, **kwargs)  # a mock has its own special methods, which take no self
        return getattr(type(target), do)(target, *args, **kwargs)

    def _number(self, value) -> int:
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.mine)
            self.mine.append(value)  # kept alive, so its id() stays its own
        return self.numbers[id(value)]

    # --- values

    def _other(self, value):
        if inspect.iscoroutine(value):
            value = _OnItsOwn(value)
        if isinstance(value, type):
            if type(value) is RemoteClass and value is not RemoteObject:
                return ["yours", value._grpo_class]
            if issubclass(value, BaseException):
                return ["error", _lineage(value, self._number, _candidate_number)]
        elif _is_remote(value):
            self.sizes.pop(value._grpo_number, None)
            self.live.add(value._grpo_number)  # the candidate may change it
            return ["yours", value._grpo_number]
        elif issubclass(type(value), Exception) and not _judges(value):
            number = value.__dict__.get("_grpo_number")
            return ["yours", number] if type(number) is int else ["raised", self._described(value)]
        if type(value).__module__ == "random" and type(value).__name__ == "Random":
            return self._random(value)
        if not _may_cross(value):
            raise Refused(f"a {type(value).__name__} of the tests cannot be sent to the candidate's process")
        facts = describe_callable(value)
        return ["theirs", self._number(value), type(value).__name__, describe_class(type(value)), facts]

    def _random(self, value) -> list:
        """A generator of random numbers, which goes on over there; set anew only if the tests have used theirs."""
        number, state = self._number(value), value.getstate()
        known = self.random_states.get(number) == state
        self.random_states[number] = state
        return ["random", number, None if known else encode(state, _refuse)]

    def encode(self, value):
        return encode(value, self._other)

    def decode(self, value, built=None):
        """`built`: (level, class) for an instance of that class, see `_special`."""
        try:
            return decode(value, lambda one: self._remote(one, built))
        except Broken as broken:  # the job ends, whatever the test catches
            return self.fail(broken.reason, str(broken))

    def _remote(self, value, built):
        try:
            tag, *parts = value
            if tag == "error":
                return self.error_class(parts[0])
            if tag == "raised":
                return self._exception_value(parts[0])
            number = parts[0]
            if type(number) is int:
                if tag == "yours":
                    return self._own(number)
                if tag == "class":
                    return self.class_of(number)
                if tag == "coroutine":
                    return self._coroutine(number)
                if tag in ("object", "value"):
                    return self.instance(number, self.class_of(parts[1]), built, parts[2])
        except (ValueError, IndexError, TypeError):
            pass
        return self.fail("tamper", "an answer that is no value")

    def watch(self, number, name, item, value, raw) -> None:
        """`value` came from an attribute of an object, or of the module (`number` is None), or is an item of one."""
        if type(value) in _WATCHED and len(value) <= WATCHED_ITEMS and len(json.dumps(raw)) <= WATCHED_BYTES:
            watched = self.watched_globals if number is None else self.watched
            watched.append([[number, name, item], value, raw])

    def instance(self, number: int, cls, route, raw=None):
        """`raw`: its content, where the class derives from a builtin one."""
        base, made = cls._grpo_base, self.instances.get(number)
        is_fixed = base in _FIXED.values()
        if is_fixed and raw is None:
            self.fail("tamper", "an object without its content")
        if made is None or type(made) is not cls or (made._grpo_raw != raw and not made._grpo_is_live()):
            content = None if base is None or raw is None else self._plain_content(base, raw)
            made = self.instances[number] = base.__new__(cls, content) if is_fixed else object.__new__(cls)
            held = None if content is None or is_fixed else [self.calls, content]
            for name, value in (("link", self), ("number", number), ("raw", raw), ("content", held)):
                object.__setattr__(made, f"_grpo_{name}", value)
        level, of_class = route or (None, None)
        if level and issubclass(cls, of_class):
            self.levels_of[number] = MADE if MADE in (level, self.levels_of.get(number)) else level
        return made

    def _plain_content(self, base, raw):
        """What a stand-in compares: exactly a builtin value, as big as the candidate likes."""
        content = self.decode(raw)
        if type(content) is not (dict if base is collections.defaultdict else base):
            self.fail("tamper", "the content of an object is not of its class")
        return content

    async def _coroutine(self, number: int):
        return self.decode(self.ask("await", number))

    def class_of(self, number):
        if type(number) is not int:
            self.fail("tamper", "an answer that is no value")
        if number not in self.classes:
            self.classes[number] = RemoteObject  # until it is known; ends a circle of bases
            described = self.ask("describe", number)
            try:
                bases = tuple(dict.fromkeys(self._remote(one, None) for one in list(described["bases"])[:20]))
                name, special = str(described["name"])[:100], set(map(str, described["special"])) & DUNDERS
                name = f"{name}_" if hasattr(builtins, name) else name
            except (KeyError, TypeError):
                self.fail("tamper", "a class of the wrong shape")
            bases = tuple(one for one in bases if isinstance(one, RemoteClass)) or (RemoteObject,)
            base = {**_FIXED, **_GROWING}.get(described.get("base"))
            if base is None and any(one._grpo_base is not None for one in bases):
                self.fail("tamper", "a class of the wrong shape")
            if base is None:
                space = {one: _special(one) for one in special - {"__eq__", "__ne__", "__hash__"}}
                if "__hash__" not in special:
                    space["__hash__"] = None
            else:
                space = self._space_with_content(base, described, special)
            space.update(self._facts_of(described))
            # The last is for bases that contradict each other once the builtin ones are left out.
            mixed = (base,) if base is not None and not any(base in one.__mro__ for one in bases) else ()
            mixed = mixed if base in _FIXED.values() else ()
            try:
                self.classes[number] = self._new_class(number, name, (*bases, *mixed), space)
            except TypeError:
                self.classes[number] = self._new_class(number, name, (RemoteObject, *mixed), space)
        return self.classes[number]

    def _facts_of(self, described: dict) -> dict:
        """What the modules dataclasses and inspect, `match` and isinstance() read from a class."""
        space = {}
        try:
            if "dataclass" in described:
                fields = space["__dataclass_fields__"] = {}
                for name, is_init, kind, *default in described["dataclass"][:1000]:
                    if name.isidentifier() and not _is_hidden(name):
                        field = fields[name] = dataclasses.field(init=is_init is True)
                        field.name, field.type, field._field_type = name, decode(kind, str), dataclasses._FIELD
                        field.default = decode(default[0], str) if default else dataclasses.MISSING
            real = _CLAIMS.get(described.get("real"))
            if real is not None:
                space["__class__"] = property(lambda self: real)
            if real in (types.FunctionType, functools._lru_cache_wrapper):  # a decorated method in a class of the tests
                space["__get__"] = lambda self, one, of=None: self if one is None else types.MethodType(self, one)
            if real is types.MethodType:
                for name in ("__func__", "__self__"):
                    space[name] = property(lambda self, n=name: self._grpo_link.decode(
                        self._grpo_link.ask("get", self._grpo_number, n=n)
                    ))  # fmt: skip
            if "match" in described:
                space["__match_args__"] = tuple(one for one in described["match"] if not _is_hidden(one))
        except (AttributeError, TypeError, ValueError):
            self.fail("tamper", "a class of the wrong shape")
        return space

    def _space_with_content(self, base, described: dict, special: set) -> dict:
        """Methods of a class that derives from a builtin one: those of the builtin class, done here with the content,
        and what the candidate's class adds, which is asked for."""
        try:
            own, fields = set(map(str, described["own"])), tuple(map(str, described.get("fields", ())))
            _named_tuple("T", fields)
        except (KeyError, TypeError):
            self.fail("tamper", "a class of the wrong shape")
        except ValueError:
            fields = ()
        builtin = {}
        for one in reversed(base.__mro__[:-1]):
            builtin.update((name, value) for name, value in vars(one).items() if name not in _NOT_OF_CONTENT)
        space = {"_grpo_base": base}
        if base in _FIXED.values():
            asked = {one for one in special & own if one not in builtin} | (own & {"__str__", "__repr__", "__format__"})
            if base not in (int, float):  # numbers are added and subtracted here: `abs(f(2) - Money(3)) < 0.01`
                asked |= own & special & ARITHMETIC
            space.update(builtin)
            space["__class__"] = property(type)
            if fields:
                space.update((name, property(operator.itemgetter(at))) for at, name in enumerate(fields))
                space.update(_fields=fields, __match_args__=fields, __repr__=_shown_fields)
                space["_asdict"] = lambda self: dict(zip(fields, tuple.__iter__(self)))
            elif base is tuple:
                space["__repr__"] = tuple.__repr__
        else:
            asked = {one for one in special & own if one not in _KEPT_PLAIN}
            if "__missing__" in own or base is collections.defaultdict:
                asked.add("__getitem__")
            for name, value in builtin.items():
                is_method = callable(value) and not isinstance(value, (classmethod, staticmethod))
                if name in _CHANGING or (name in own and name not in _KEPT_PLAIN) or not is_method:
                    space[name] = _asked(name) if name.startswith("__") else _asked_attribute(name)
                    if is_method and name in _READING:
                        space[name] = property(functools.partial(_read, name))
                else:
                    space[name] = _with_content(name)
            like = type(str(described["name"])[:100], (base,), {})
            space["__class__"] = property(lambda self: like)  # for isinstance()
            space["__hash__"] = None
        space.update((one, _special(one)) for one in asked - _KEPT_PLAIN)
        if base in _GROWING.values() and "__getitem__" in asked:
            space["__getitem__"] = _item_with_content(space["__getitem__"])
        return space

    def _new_class(self, number: int, name: str, bases: tuple, space: dict):
        own = {"__slots__": (), "__module__": "candidate", "__doc__": _Document()}
        made = type.__new__(RemoteClass, name, bases, {**own, **space})
        type.__setattr__(made, "_grpo_home", self)
        type.__setattr__(made, "_grpo_class", number)
        return made

    def subclass(self, name: str, bases: tuple, space: dict):
        """A test's own subclass of a candidate's class: made there, with the methods of the test as calls back."""
        numbers = [one._grpo_class for one in bases if isinstance(one, RemoteClass) and one is not RemoteObject]
        if len(numbers) != len(bases):
            raise Refused("a class of the candidate cannot be mixed with one of the tests")
        methods, values = [], []
        for key, value in space.items():
            kind, function = _unwrapped(value)
            if isinstance(function, types.FunctionType):
                methods.append([key, kind, self.encode(function)])
            elif not key.startswith("__"):
                values.append([key, self.encode(value)])
        number = self.ask("subclass", n=name, bases=numbers, methods=methods, values=values)
        for base in bases:  # so that super() finds what it asks for
            for key in list(self.ask("methods", base._grpo_class)):
                is_plain = str(key).isidentifier() and (key == "__init__" or not key.startswith(("__", "_grpo")))
                if is_plain and key not in space_of(base):
                    type.__setattr__(base, key, _inherited(base, key))
        special = {one: _special(one) for one in DUNDERS if one in space} | {"__hash__": RemoteObject.__hash__}
        made = self._new_class(number, name, bases, {**special, **{k: v for k, v in space.items() if k != "__dict__"}})
        self.classes[number] = made
        return made

    # --- exceptions

    def error_class(self, lineage):
        """The class a test can catch: the real one only for builtin and standard library exceptions."""
        lineage = [list(one) for one in list(lineage)[:20]]
        for index, (tag, *parts) in enumerate(lineage):
            found = None
            if tag == "builtin":
                found = getattr(builtins, str(parts[0]), None)
            elif tag == "module" and is_library(str(parts[0])):
                found = getattr(sys.modules.get(str(parts[0])), str(parts[1]), None)
            elif tag == "yours":
                found = self._own(parts[0])
            if (
                isinstance(found, type)
                and issubclass(found, (Exception, SystemExit))
                and not found.__name__.startswith("_")
                and found.__module__.partition(".")[0] not in _JUDGING
            ):
                return found
            if tag == "mine" and type(parts[0]) is int:
                number = parts[0]
                if number not in self.errors:
                    base = self.error_class(lineage[index + 1 :])
                    name = "".join(one if one.isalnum() else "_" for one in str(parts[1])[:80]) or "Error"
                    space = {"__module__": "candidate", "_grpo_class": number, "__doc__": _Document()}
                    space.update(
                        __getattr__=_error_attribute, __str__=_error_text, __init__=_error_made, _grpo_home=self
                    )
                    kind = _ErrorClass if type(base) in (type, _ErrorClass) else type(base)
                    self.errors[number] = kind(name, (base,), space)
                return self.errors[number]
        return RuntimeError

    def _exception_value(self, answer: dict, depth: int = 0):
        """An exception that was not raised: returned, or one of a group."""
        if type(answer) is not dict or depth > 5:
            self.fail("tamper", "an exception of the wrong shape")
        if "again" in answer:
            return self._kept(answer["again"])
        number = answer.get("object")
        if type(number) is not int:
            self.fail("tamper", "an exception of the wrong shape")
        if number not in self.returned:
            self.returned[number] = self.exception(answer, depth)
        return self.returned[number]

    def exception(self, answer: dict, depth: int = 0):
        def within(value):
            is_exception = type(value) is list and value[:1] == ["raised"] and len(value) == 2
            return self._exception_value(value[1], depth + 1) if is_exception else None

        try:
            cls = self.error_class(answer["raised"])
            text = answer["text"] if type(answer.get("text")) is str else ""
            args = decode(answer.get("args"), within)
            number, cause = answer.get("object"), answer.get("cause")
            parts = dict(answer.get("parts") or {})
        except (KeyError, TypeError, ValueError, IndexError):
            self.fail("tamper", "an exception of the wrong shape")
        args = args if isinstance(args, tuple) else (text,)
        try:
            if "_grpo_class" in cls.__dict__ or issubclass(cls, SyntaxError):
                raise TypeError  # a SyntaxError's parts are read by whoever shows it
            error = cls(*args)
        except Exception:
            try:  # json.JSONDecodeError and others that take other arguments than they keep
                make = getattr(cls, "from_exception_data", None)  # pydantic's cannot be made another way
                error = cls.__new__(cls) if make is None else make(text[:200], [])
                error.args = (text,) if issubclass(cls, SyntaxError) else args
                error.msg = text if issubclass(cls, SyntaxError) else getattr(error, "msg", text)
            except Exception:
                error = RuntimeError(text)
        if "_grpo_class" in type(error).__dict__:
            error.__dict__.update(_grpo_link=self, _grpo_number=number, _grpo_text=text)
            parts = {name: one for name, one in parts.items() if name in ("filename", "filename2")}  # the rest is asked
        for name, part in parts.items():
            is_part = name.isidentifier() and not name.startswith("_") and name not in _OF_EXCEPTIONS
            if is_part and not callable(getattr(cls, name, None)):
                with contextlib.suppress(AttributeError, TypeError, ValueError):
                    setattr(error, name, decode(part, _refuse))
        if isinstance(cause, dict) and depth < 3:
            error.__cause__ = self.exception(cause, depth + 1)
        return error


def _judges(error) -> bool:
    """Whether it says how a test went: what a failed assertion says is the answer."""
    return isinstance(error, AssertionError) or type(error).__module__.partition(".")[0] in _JUDGING


def _unwrapped(value) -> tuple:
    """How a class keeps a function, and the function."""
    for kind in (staticmethod, classmethod, property):
        if type(value) is kind:
            return kind.__name__, value.fget if kind is property else value.__func__
    return "", value


# Builtin classes that a stand-in says its object is of, to isinstance() and inspect: plain data is none of them, and
# nothing here asks isinstance() to tell whose an object is.
_CLAIMS = {
    one.__name__: one
    for one in (
        types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.GeneratorType, types.AsyncGeneratorType,
        property, staticmethod, classmethod, map, filter, zip, enumerate, reversed, memoryview,
    )
} | {"_lru_cache_wrapper": functools._lru_cache_wrapper}  # fmt: skip
_OF_EXCEPTIONS = {"args", "with_traceback", "add_note", "split", "subgroup", "derive", "exceptions", "message"}


class _ErrorClass(type):
    """Class of the stand-ins for the candidate's exception classes: `NotFound.status`."""

    def __getattr__(cls, name):
        home = space_of(cls).get("_grpo_home")
        if home is None or name.startswith("__") or _is_hidden(name):
            raise AttributeError(name)
        return home.decode(home.ask("get", space_of(cls)["_grpo_class"], n=name))


class _OnItsOwn:
    """A coroutine of the tests that the candidate awaits: run to its end in a thread, since a loop may be running."""

    def __init__(self, coroutine):
        self.coroutine = coroutine

    def __await__(self):
        import asyncio
        import concurrent.futures

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, self.coroutine).result()
        yield


def _candidate_number(cls):
    return space_of(cls).get("_grpo_class") if issubclass(type(cls), type) else None


def _error_text(self):
    return self.__dict__.get("_grpo_text", None) or Exception.__str__(self)


def _error_made(self, *args, **kwargs):
    """A test makes an exception of the candidate's class: so does the candidate, and it is asked for the parts."""
    cls = next(one for one in type(self).__mro__ if "_grpo_home" in one.__dict__)
    link = cls._grpo_home
    a, k = [link.encode(one) for one in args], {key: link.encode(one) for key, one in kwargs.items()}
    answer = link.ask("make_error", cls._grpo_class, a=a, k=k)
    made = link.exception(answer if isinstance(answer, dict) else {})
    self.args = made.args
    self.__dict__.update(made.__dict__)


def _error_attribute(self, name):
    link, number = self.__dict__.get("_grpo_link"), self.__dict__.get("_grpo_number")
    if name.startswith("__") or link is None or type(number) is not int:
        raise AttributeError(name)
    if name in _YES_NO or name.startswith("assert_"):
        raise Refused(REFUSED.format(what=f"`{name}`"))
    return link.decode(link.ask("get", number, n=name))


class _Document:
    """`__doc__` of a candidate's class and of its instances."""

    def __get__(self, instance, owner):
        is_class = instance is None or isinstance(instance, BaseException)
        number = owner._grpo_class if is_class else instance._grpo_number
        return owner._grpo_home.decode(owner._grpo_home.ask("document", number))


class Refused(Exception):
    """What is not asked of the candidate, because it could answer anything."""


REFUSED = (
    "{what} between an object of the candidate and plain data is not asked of the candidate: it could answer anything. "
    "Compare plain values, or use mode='auto'"
)
# How far an object of the candidate is trusted. MADE: the test has made it, by calling its class; what it answers is
# what the test is about. HELD: a method of its class has made it. Any other object came as an answer.
MADE, HELD = "made", "held"
_HARMLESS = {f"__{prefix}{name}__" for name in ("add", "mul", "matmul") for prefix in ("", "r", "i")}
_TO_PLAIN = {
    f"__{name}__" for name in "abs bool bytes ceil complex float floor format index int len round trunc".split()
}
# Methods of builtin types that answer yes or no: an object that has them passes for a text, a set, an array.
_YES_NO = set(
    "all any endswith equals isalnum isalpha isascii isdecimal isdigit isdisjoint isidentifier islower isnumeric "
    "isprintable isspace issubset issuperset istitle isupper is_integer startswith".split()
)


# Of a class that derives from a builtin one. These are of the content, whatever the class says: else an object could
# say that it equals, holds or precedes whatever it is asked about.
_KEPT_PLAIN = {f"__{name}__" for name in "eq ne lt le gt ge hash contains iter len bool reversed".split()}
_NOT_OF_CONTENT = {
    f"__{name}__"
    for name in """class class_getitem delattr dict dir doc getattribute getnewargs init init_subclass module new reduce
    reduce_ex setattr sizeof static_attributes firstlineno copy weakref missing""".split()
} | {"fromkeys", "from_bytes", "fromhex", "maketrans"}
_CHANGING = set(
    """append appendleft add clear difference_update discard extend extendleft insert intersection_update move_to_end
    pop popitem popleft remove reverse rotate setdefault sort subtract symmetric_difference_update update""".split()
) | {f"__{name}__" for name in "setitem delitem iadd imul ior iand isub ixor".split()}


def _asked(name: str):
    def method(self, *args):
        link, number = self._grpo_link, self._grpo_number
        link.live.add(number)
        return link.decode(link.ask("special", number, n=name, a=[link.encode(one) for one in args]))

    method.__name__ = name
    return method


def _asked_attribute(name: str):
    return property(lambda self: RemoteObject.__getattr__(self, name))


def _with_content(name: str):
    """A method of a builtin class, done with the content of the object."""

    def method(self, *args, **kwargs):
        args = [one._grpo_current() if _is_remote(one) and type(one)._grpo_base else one for one in args]
        content = self._grpo_current()
        return getattr(type(content), name)(content, *args, **kwargs)

    method.__name__ = name
    return method


# What an answer is asked about what it holds: of its content, whatever the candidate's class says.
_READING = set(
    "copy count difference elements index intersection items keys symmetric_difference total union values".split()
)


def _read(name: str, self):
    """The method of its own class for an object that the test has made, of the builtin class for an answer."""
    if self._grpo_link.levels_of.get(self._grpo_number) is None:
        return functools.partial(_with_content(name), self)
    return RemoteObject.__getattr__(self, name)


def _item_with_content(asked):
    def method(self, key):
        """What the content of an answer has is not asked for; what it lacks (`__missing__`, other spellings) is."""
        if self._grpo_link.levels_of.get(self._grpo_number) is None:
            with contextlib.suppress(LookupError, TypeError):
                content = self._grpo_current()
                if not (isinstance(content, dict) and key not in content):
                    return content[key]
        return asked(self, key)

    return method


def _shown_fields(self):
    parts = ", ".join(f"{name}={one!r}" for name, one in zip(type(self)._fields, tuple.__iter__(self)))
    return f"{type(self).__name__}({parts})"


def _is_remote(value) -> bool:
    return issubclass(type(value), RemoteObject)  # not isinstance(), which a `__class__` can mislead


def _is_object(value) -> bool:
    """Whether it is one of the candidate's objects that are not plain data in part."""
    return _is_remote(value) and type(value)._grpo_base is None


def _sizes_agree(one, kind: str, size) -> None:
    """`len(r) == len(want)` and `zip(r, want)` say together that nothing is missing: so they must not contradict."""
    said = one._grpo_link.sizes.setdefault(one._grpo_number, {})
    said[kind] = size
    if len(set(said.values())) > 1:
        raise Refused("an object of the candidate has another len() than items")


def _counted(one, iterator):
    size = -1
    for size, item in enumerate(iterator):  # noqa: B007
        yield item
    if hasattr(type(one), "__len__"):
        _sizes_agree(one, "iter", size + 1)


def _special(name: str):
    """A special method that is asked of the candidate's process.

    `abs(f(2) - 1.41) < 1e-6` shows why not all may be: an object that answers `-` with 0.0 would pass, and so would one
    that answers with an object whose absolute value is 0.0."""

    def ask(self, args, built=None):
        link = self._grpo_link
        return link.decode(link.ask("special", self._grpo_number, n=name, a=[link.encode(one) for one in args]), built)

    def level(self):
        return self._grpo_link.levels_of.get(self._grpo_number)

    if name in ORDER:

        def method(self, other):
            if not _is_object(other):
                # What the test has made may say that it cannot be compared; any other answer is not believed.
                if level(self) == MADE and ask(self, [other]) is NotImplemented:
                    return NotImplemented
                raise Refused(REFUSED.format(what="Ordering"))
            answer = ask(self, [other])
            return answer if answer is NotImplemented else answer is True

    elif name == "__contains__":

        def method(self, other):
            if level(self) is None and not _is_object(other):
                raise Refused(REFUSED.format(what="`in`"))
            return ask(self, [other])

    elif name in ARITHMETIC:

        def method(self, *others):
            among_objects = all(map(_is_object if type(self)._grpo_base is None else _is_remote, others))
            if type(self)._grpo_base is not None and level(self) != MADE:  # what comes out is compared as plain data
                raise Refused(REFUSED.format(what="Arithmetic"))
            if not (among_objects or level(self) == MADE or name in _HARMLESS):
                raise Refused(REFUSED.format(what="Arithmetic"))
            answer = ask(self, others)
            if _is_object(answer) or (_is_remote(answer) and level(self) == MADE and name in _HARMLESS):
                in_place = name.startswith("__i") and level(self) == MADE
                if not (among_objects or in_place or name in _HARMLESS):
                    self._grpo_link.levels_of[answer._grpo_number] = "difference"
            elif answer is not NotImplemented and not (among_objects and level(self) == MADE):
                raise Refused(REFUSED.format(what="Arithmetic with a plain result"))
            return answer

    elif name == "__getitem__":

        def method(self, key):
            link, key = self._grpo_link, self._grpo_link.encode(key)
            raw = link.ask("special", self._grpo_number, n=name, a=[key])
            value = link.decode(raw)
            link.watch(self._grpo_number, None, key, value, raw)  # `matrix[1][2] = 5`
            return value

    elif name in _TO_PLAIN:

        def method(self, *args):
            if level(self) == "difference":
                raise Refused(REFUSED.format(what="Arithmetic with a plain result"))
            answer = ask(self, args)
            if name == "__len__" and level(self) is None:
                _sizes_agree(self, "len", answer)
            return answer

    elif name == "__iter__":

        def method(self):
            answer = ask(self, ())
            return _counted(self, answer) if level(self) is None and answer is not self else answer

    elif name == "__call__":

        def method(self, *args, **kwargs):
            return call_remote(self, args, kwargs)

    elif name in ("__exit__", "__aexit__"):

        def leave(self, kind, error):
            link, described = self._grpo_link, None
            if error is not None:
                link.kept.append(error)
                lineage = _lineage(kind, link._number, _candidate_number)
                args = (
                    encode(error.args, lambda value: None) if not isinstance(error, AssertionError) else ["tuple", []]
                )
                text = "" if isinstance(error, AssertionError) else str(error)[:2000]
                described = {"lineage": lineage, "args": args, "text": text, "kept": len(link.kept) - 1}
            return link.decode(link.ask("leave", self._grpo_number, n=name, error=described))

        def may_swallow(self, kind, error, trace) -> bool:
            """A context manager under test may swallow what the test raises for it, not what goes wrong in the test."""
            if error is None or not isinstance(error, Exception) or isinstance(error, (AssertionError, Refused)):
                return False
            while trace.tb_next is not None:
                trace = trace.tb_next
            code = trace.tb_frame.f_code
            is_raise = code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]
            is_raised_by_test = is_raise and trace.tb_frame.f_globals.get("__name__") == "test_candidate"
            return is_raised_by_test or isinstance(error, tuple(self._grpo_link.handed))

        def method(self, kind, error, trace):
            return leave(self, kind, error) is True and may_swallow(self, kind, error, trace)

        if name == "__aexit__":

            async def method(self, kind, error, trace):
                return await leave(self, kind, error) is True and may_swallow(self, kind, error, trace)

    else:

        def method(self, *args):
            if name in _CHANGING:
                self._grpo_link.sizes.pop(self._grpo_number, None)
            return ask(self, args)

    method.__name__ = name
    return method


def _inherited(cls, name: str):
    def method(self, *args, **kwargs):
        number = cls._grpo_home.ask("function", cls._grpo_class, n=name)
        return _unended(_call, cls._grpo_home, number, (self, *args), kwargs)

    method.__name__ = name
    return method


def _unended(function, *args):
    try:
        return function(*args)
    except StopIteration as error:  # it would end the test's own loop
        raise RuntimeError("the code raised StopIteration") from error


def call_remote(function, args: tuple, kwargs: dict):
    route = getattr(function, "_grpo_route", None)
    built = (HELD, route) if isinstance(route, RemoteClass) else None  # a method of a class, as `Stack.of(1, 2)`
    try:
        return _call(function._grpo_link, function._grpo_number, args, kwargs, built)
    except StopIteration as error:
        if route == "next":
            raise
        # Else it would end the test's own loop.
        raise RuntimeError("the code raised StopIteration") from error


def _call(link: Link, number: int, args: tuple, kwargs: dict, built=None):
    """Call in the candidate's process. An argument that was changed is changed here only if nothing was returned, as
    functions that work in place do: a list emptied behind the back of `assert f(x) == sorted(x)` stays as it was."""
    for one in (*args, *kwargs.values()):
        classes = one if isinstance(one, tuple) else (one,)
        link.handed.update(cls for cls in classes if isinstance(cls, type) and issubclass(cls, BaseException))
    answer = link.ask(
        "call",
        number,
        a=[link.encode(one) for one in args],
        k={key: link.encode(one) for key, one in kwargs.items()},
        all_changes=link.all_changes,
    )
    try:
        result, changes, same_as = answer["result"], answer.get("changes") or (), answer.get("same_as")
        changed = [None if one is None else [link.decode(one)] for one in list(changes)[: len(args)]]
    except (KeyError, TypeError, AttributeError):
        link.fail("tamper", "a result of the wrong shape")
    link.unapplied |= answer.get("changed") is True
    for mine, theirs in zip(args, changed if result is None or link.all_changes else ()):
        if theirs is not None and type(mine) is type(theirs[0]) and not _is_remote(mine):
            _overwrite(mine, theirs[0])
    if link.all_changes and type(same_as) is int and 0 <= same_as < len(args):
        return args[same_as]
    value = link.decode(result, built)
    if type(answer.get("held")) is int:
        link.watch(answer["held"], None, None, value, result)
    return value


def _signature(link: Link, number: int) -> inspect.Signature:
    answer = link.ask("signature", number)

    def known(value):
        return inspect.Parameter.empty if value is None else link.decode(value[0])

    try:
        parameters = [
            inspect.Parameter(
                str(name), inspect._ParameterKind(kind), default=known(default), annotation=known(annotation)
            )
            for name, kind, default, annotation in answer["parameters"]
        ]
        return inspect.Signature(parameters, return_annotation=known(answer["returns"]))
    except (KeyError, TypeError, ValueError, IndexError):
        return link.fail("tamper", "a signature of the wrong shape")


def _routed(value, route):
    """Note where a function was found: on the class `route`, or as "next", a method that may end a loop."""
    if _is_remote(value):
        object.__setattr__(value, "_grpo_route", route)
    return value


def _is_hidden(name: str) -> bool:
    """Names that Python and pytest ask of every object, which is no business of the candidate."""
    if name in ("hypothesis", "place_as", "pytestmark") or name.startswith(("_pytest", "_mock", "_grpo")):
        return True
    return name.startswith("__") and name.endswith("__") and name not in READABLE


class _ClassSpace(collections.abc.Mapping):
    """`__dict__` of a class of the candidate."""

    def __init__(self, cls):
        self.cls = cls

    def __getitem__(self, name):
        home = self.cls._grpo_home
        return home.decode(home.ask("in_class", self.cls._grpo_class, n=str(name)))

    def __iter__(self):
        # Without what pytest would take for tests of its own, in a class of the candidate named TestRunner.
        return (name for name in self._names() if not name.startswith("test"))

    def _names(self) -> list:
        return [str(one) for one in self.cls._grpo_home.ask("class_names", self.cls._grpo_class)]

    def __contains__(self, name):
        return name in self._names()

    def __len__(self):
        return sum(1 for _ in self)


class RemoteClass(type):
    """Class of the stand-ins for the candidate's classes."""

    def __new__(mcs, name, bases, space):
        home = next((one._grpo_home for one in bases if isinstance(one, RemoteClass)), None)
        return type.__new__(mcs, name, bases, space) if home is None else home.subclass(name, bases, space)

    def __init__(cls, *parts):
        pass

    def __call__(cls, *args, **kwargs):
        home, number = cls._grpo_home, cls._grpo_class
        return _unended(_call, home, number, args, kwargs, None if number in home.functions else (MADE, cls))

    def _grpo_special(cls, name, *args):
        home = cls._grpo_home
        return home.decode(home.ask("special", cls._grpo_class, n=name, a=[home.encode(one) for one in args]))

    def __getattr__(cls, name):
        if cls._grpo_home is None or _is_hidden(name):
            raise AttributeError(name)
        # `all` and `any` are what a class of records has; the rest would let a class pass for a text or a mock.
        if name in _YES_NO - {"all", "any", "equals"} or name.startswith("assert_"):
            raise Refused(REFUSED.format(what=f"`{name}`"))
        raw = cls._grpo_home.ask("get", cls._grpo_class, n=name)
        value = cls._grpo_home.decode(raw)
        cls._grpo_home.watch(cls._grpo_class, name, None, value, raw)
        return _routed(value, cls)

    def __setattr__(cls, name, value):
        kind, value = _unwrapped(value)
        cls._grpo_home.ask("set", cls._grpo_class, n=name, v=cls._grpo_home.encode(value), kind=kind)

    @property
    def __annotations__(cls):
        return {} if cls._grpo_home is None else RemoteClass.__getattr__(cls, "__annotations__")

    @property
    def __dict__(cls):  # monkeypatch and mock look there for what they will put back
        return types.MappingProxyType(space_of(cls)) if cls._grpo_home is None else _ClassSpace(cls)

    def __delattr__(cls, name):
        cls._grpo_home.ask("delete", cls._grpo_class, n=name)

    def __instancecheck__(cls, instance):
        if cls._grpo_home is None:
            return issubclass(type(instance), cls)
        if type.__instancecheck__(cls, instance) or not _is_remote(instance):
            return type.__instancecheck__(cls, instance)
        return cls._grpo_home.ask("is_instance", cls._grpo_class, of=instance._grpo_number) is True

    def __iter__(cls):  # the members of an Enum
        return cls._grpo_special("__iter__")

    def __len__(cls):
        return cls._grpo_special("__len__")

    def __bool__(cls):
        return True

    def __getitem__(cls, key):  # a member of an Enum, by its name
        return cls._grpo_special("__getitem__", key)

    def __contains__(cls, value):
        if not _is_remote(value):
            raise TypeError(REFUSED.format(what="`in`"))
        return cls._grpo_special("__contains__", value) is True

    @property
    def __signature__(cls):
        return _signature(cls._grpo_home, cls._grpo_class)

    def __dir__(cls):
        return cls._grpo_home.decode(["list", cls._grpo_home.ask("names", cls._grpo_class)])


class RemoteObject(metaclass=RemoteClass):
    """Stand-in for one object of the candidate."""

    _grpo_home = _grpo_base = _grpo_raw = _grpo_content = None

    def __getattr__(self, name):
        if _is_hidden(name):
            raise AttributeError(name)
        if name in _YES_NO and self._grpo_link.levels_of.get(self._grpo_number) is None:
            raise Refused(REFUSED.format(what=f"`{name}`"))
        if name.startswith("assert_") or (self._grpo_number in self._grpo_link.set_on_theirs and _of_mocks(name)):
            raise Refused(f"`{name}` of an object of the candidate: it is not a mock")
        self._grpo_link.sizes.pop(self._grpo_number, None)
        self._grpo_link.live.add(self._grpo_number)
        raw = self._grpo_link.ask("get", self._grpo_number, n=name)
        value = self._grpo_link.decode(raw)
        self._grpo_link.watch(self._grpo_number, name, None, value, raw)
        return _routed(value, "next" if name in ("send", "throw") else None)

    def __setattr__(self, name, value):
        self._grpo_link.ask("set", self._grpo_number, n=name, v=self._grpo_link.encode(value))

    def __delattr__(self, name):
        self._grpo_link.ask("delete", self._grpo_number, n=name)

    def _grpo_is_live(self) -> bool:
        """Whether its content is asked for again. That of an object that came as an answer is what it was, until the
        test lets the candidate have it: else it could be sorted for one assertion and complete for the next."""
        link, number = self._grpo_link, self._grpo_number
        return type(self)._grpo_base in _GROWING.values() and (number in link.live or number in link.levels_of)

    def _grpo_current(self):
        """The content, of an object of a class that derives from a builtin one."""
        link, base = self._grpo_link, type(self)._grpo_base
        if base in _FIXED.values():
            return _content(self)
        held = self._grpo_content
        if held is None or (held[0] != link.calls and self._grpo_is_live()):
            content = link._plain_content(base, link.ask("content", self._grpo_number))
            held = [link.calls, content]
            object.__setattr__(self, "_grpo_content", held)
        return held[1]

    def __eq__(self, other):
        if not _is_object(other):
            return NotImplemented  # never asked, see the head of this file
        if self._grpo_number == other._grpo_number:
            return True
        return self._grpo_is_honest() and self._grpo_asked_eq(other)

    def _grpo_asked_eq(self, other):
        link = self._grpo_link
        answer = link.decode(link.ask("special", self._grpo_number, n="__eq__", a=[link.encode(other)]))
        return answer if answer is NotImplemented else answer is True

    def _grpo_is_honest(self) -> bool:
        """Whether its `==` can say no: what equals a class that it has never seen equals everything."""
        known = self._grpo_link.honest_eq
        if type(self) not in known:
            try:
                known[type(self)] = self._grpo_asked_eq(object) is not True
            except Exception:
                known[type(self)] = True
        return known[type(self)]

    __hash__ = _special("__hash__")

    def __contains__(self, value):  # a class of its own has its own, see `_special`
        raise Refused(REFUSED.format(what="`in`"))

    def __copy__(self):
        return self._grpo_link.decode(self._grpo_link.ask("copy", self._grpo_number, deep=False))

    def __deepcopy__(self, memo):
        return self._grpo_link.decode(self._grpo_link.ask("copy", self._grpo_number, deep=True))

    @property
    def __dict__(self):
        return self._grpo_link.decode(self._grpo_link.ask("get", self._grpo_number, n="__dict__"))

    @property
    def __signature__(self):
        return _signature(self._grpo_link, self._grpo_number)

    def __dir__(self):
        return self._grpo_link.decode(["list", self._grpo_link.ask("names", self._grpo_number)])

    def __reduce_ex__(self, protocol):
        raise TypeError("an object of the candidate cannot be pickled by a test")


_OF_MODULES = {"__version__", "__author__", "__license__"}


class RemoteModule(types.ModuleType):
    """`candidate`, as the tests import it."""

    def __init__(self, link: Link):
        super().__init__("candidate")
        types.ModuleType.__setattr__(self, "_grpo_link", link)

    def __getattr__(self, name):
        if (name.startswith("__") and name not in _OF_MODULES) or name.startswith("_grpo"):
            raise AttributeError(name)
        raw = self._grpo_link.ask("get", n=name)
        value = self._grpo_link.decode(raw)
        self._grpo_link.watch(None, name, None, value, raw)
        if isinstance(value, RemoteClass):
            # A class where the test expects a function (`solve = Liar`): what it makes is an answer.
            (self._grpo_link.functions.add if name[:1].islower() else self._grpo_link.functions.discard)(
                value._grpo_class
            )
        return value

    def __setattr__(self, name, value):
        if name.startswith("__"):
            types.ModuleType.__setattr__(self, name, value)
        else:
            self._grpo_link.ask("set", n=name, v=self._grpo_link.encode(value))

    def __delattr__(self, name):
        self._grpo_link.ask("delete", n=name)

    def __dir__(self):
        return self._grpo_link.decode(["list", self._grpo_link.ask("names")])
