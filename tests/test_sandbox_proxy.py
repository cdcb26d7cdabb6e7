"""What crosses between tests and candidate: plain values whole, and nothing else whatever the other side sends."""

import base64
import collections
import datetime
import decimal
import fractions
import json
import math
import os
import socket
import struct
import threading

import hypothesis
import pytest
import sandbox_proxy as proxy
from hypothesis import strategies as st

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(max_size=20),
    st.complex_numbers(allow_nan=False), st.decimals(allow_nan=False), st.fractions(), st.dates(), st.timedeltas(),
    st.datetimes(timezones=st.none() | st.just(datetime.UTC)), st.uuids(),
    st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 3)),
)  # fmt: skip
HASHABLE = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.sets(HASHABLE, max_size=4),
        st.frozensets(HASHABLE, max_size=4),
        st.lists(inner, max_size=3).map(collections.deque),
        st.dictionaries(HASHABLE, inner, max_size=3).map(collections.OrderedDict),
    ),
    max_leaves=12,
)


def refuse(value):
    raise AssertionError(f"not plain: {value!r}")


def over_the_wire(value):
    return proxy.decode(json.loads(json.dumps(proxy.encode(value, refuse))), refuse)


def types_of(value):
    inner = ()
    if isinstance(value, dict):
        inner = [(types_of(key), types_of(one)) for key, one in value.items()]
    elif isinstance(value, (list, tuple, collections.deque)):
        inner = [types_of(one) for one in value]
    return type(value), tuple(inner)


@hypothesis.given(VALUES)
@hypothesis.settings(max_examples=400, deadline=None)
def test_plain_values_arrive_as_they_were(value):
    got = over_the_wire(value)
    assert got == value and types_of(got) == types_of(value)


@pytest.mark.parametrize("value", [float("nan"), math.inf, -0.0, 10**400, -(2**70), "\ud800", "\0", b"\xff", 1 + 2j])
def test_odd_scalars(value):
    got = over_the_wire(value)
    assert repr(got) == repr(value)


def test_numpy():
    numpy = pytest.importorskip("numpy")
    for value in (numpy.arange(6).reshape(2, 3), numpy.float32(1.5), numpy.array(["a", "bc"]), numpy.zeros((0, 2))):
        got = over_the_wire(value)
        assert (
            type(got) is type(value) and got.dtype == value.dtype and got.shape == value.shape and (got == value).all()
        )


class Str(str):
    __eq__ = lambda self, other: True  # noqa: E731
    __hash__ = str.__hash__


class List(list):
    __eq__ = lambda self, other: True  # noqa: E731
    __hash__ = None


def test_subclasses_lose_what_they_added():
    for liar, base in ((Str("a"), str), (List([1]), list), (collections.defaultdict(lambda: 1, {"a": 1}), dict)):
        got = over_the_wire(liar)
        assert type(got) is base and got != "expected"
    assert type(over_the_wire([Str("a")])[0]) is str


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(sorted({*proxy._PLAIN, *proxy._CONTAINERS, "dict", "named", "view", "deque", "object", "class", "yours", "error"})),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@hypothesis.given(JSON)
@hypothesis.settings(max_examples=600, deadline=None)
def test_whatever_is_sent_is_a_plain_value_or_breaks_the_job(sent):
    try:
        got = proxy.decode(sent, lambda value: proxy.Broken)
    except proxy.Broken as broken:
        assert broken.reason == "tamper"
        return
    plain = (
        type(None),
        bool,
        int,
        float,
        str,
        bytes,
        bytearray,
        complex,
        list,
        tuple,
        dict,
        set,
        frozenset,
        slice,
        range,
        type,
    )
    plain += (decimal.Decimal, fractions.Fraction, datetime.date, datetime.time, datetime.timedelta, datetime.timezone)
    plain += (collections.deque, type({}.keys()), type({}.values()), type({}.items()), type(...), type(NotImplemented))
    assert (
        got is proxy.Broken
        or isinstance(got, plain)
        or type(got).__module__ in ("uuid", "pathlib", "numpy", "datetime")
    ), got


ANSWERS = st.one_of(
    JSON,
    st.fixed_dictionaries({"value": JSON}),
    st.fixed_dictionaries({"value": JSON, "warned": JSON, "logged": JSON, "out": JSON}),
    st.fixed_dictionaries({"raised": JSON, "args": JSON, "text": JSON, "object": JSON}),
    st.fixed_dictionaries({"again": JSON}),
    st.fixed_dictionaries({"theirs": st.integers(-2, 3), "do": st.text(max_size=4) | st.sampled_from(["get", "set", "__call__", "__eq__"]), "a": JSON}),
    st.fixed_dictionaries({"stdin": JSON, "n": JSON}),
)  # fmt: skip


@hypothesis.given(st.lists(ANSWERS, max_size=4))
@hypothesis.settings(max_examples=300, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
def test_a_link_survives_any_answers(answers):
    """The trusted end raises what a test can fail with, or ends the job; it never hangs and never breaks otherwise."""
    mine, theirs = socket.socketpair()

    def peer():
        try:
            for answer in answers:
                proxy.receive(theirs.fileno())
                proxy.send(theirs.fileno(), answer)
        except (EOFError, OSError, proxy.Broken):
            pass
        finally:
            theirs.close()

    thread = threading.Thread(target=peer, daemon=True)
    thread.start()
    link = proxy.Link(mine.fileno(), "")
    link.mine.append(print)
    module = proxy.RemoteModule(link)
    try:
        for _ in range(3):
            module.solve([1])
    except (proxy.Broken, Exception, SystemExit):
        pass
    finally:
        mine.close()
        thread.join(10)
    assert not thread.is_alive()


def pair(source: str):
    """A link to an agent in a forked process, as in the sandbox but without one. Our own sources only."""
    mine, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        mine.close()
        proxy.run_agent(theirs.fileno())
    theirs.close()
    link = proxy.Link(mine.detach(), source)
    link.ask("load", source=source)
    return link, pid


def test_what_the_candidate_may_ask_of_a_tests_object(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    link, _ = pair("x = 1\n")

    class Box:
        secret = 5

        def __init__(self):
            self.seen = 1

        def method(self):
            return 2

    box, function = Box(), lambda: 1
    type(box).__module__ = "test_candidate"
    assert link._use(box, "get", "seen", [], {}) == 1
    for target, name in ((box, "__class__"), (box, "_x"), (function, "__globals__"), ((x for x in ()), "gi_frame")):
        with pytest.raises(AttributeError):
            link._use(target, "get", name, [], {})
    link._use(box, "set", "seen", [3], {})
    with pytest.raises(AttributeError):
        link._use(box, "set", "method", [lambda: 9], {})
    with pytest.raises(AttributeError):
        link._use(Box, "set", "secret", [1], {})
    assert box.seen == 3 and box.method() == 2
    for refused in (os, eval, getattr, str.format, pytest, link):
        with pytest.raises(proxy.Refused, match="cannot be sent"):
            link.encode(refused)
    os.close(link.descriptor)


def test_a_frame_that_is_too_large_is_not_read():
    mine, theirs = socket.socketpair()
    theirs.send(struct.pack(">I", proxy.FRAME_BYTES + 1))
    link = proxy.Link(mine.fileno(), "")
    with pytest.raises(proxy.Broken, match="at most") as caught:
        link._receive()
    assert caught.value.reason == "output"


def test_base64_is_what_bytes_travel_as():
    assert proxy.encode(b"ab", refuse) == ["bytes", base64.b64encode(b"ab").decode()]
