"""What honest tests do to honest code (IDIOMS: each must pass, in split mode), what needs more than split mode
(CHANGES, SAME_PROCESS), and how code lies (FORGERIES: each must fail). Each is (candidate, tests)."""

import importlib.util
import sys

IDIOMS = {
    "docstring": ('def f(x):\n    "Sort."\n    return sorted(x)\n', 'from candidate import f\ndef test():\n    assert f.__doc__ == "Sort." and f.__name__ == "f"\n'),
    "class docstring": ('class A:\n    "Holds."\n', 'from candidate import A\ndef test():\n    assert A.__doc__ == "Holds." and A().__doc__ == "Holds." and A.__name__ == "A"\n'),
    "signature": (
        "def f(a: int, b=2, *args, c: str = 'x', **kw) -> list:\n    ...\n",
        "import inspect\nfrom candidate import f\ndef test():\n    s = inspect.signature(f)\n    assert list(s.parameters) == ['a', 'b', 'args', 'c', 'kw'] and s.parameters['b'].default == 2\n    assert s.parameters['a'].annotation is int and s.return_annotation is list\n    assert s.parameters['c'].kind is inspect.Parameter.KEYWORD_ONLY\n    assert inspect.getfullargspec(f).args == ['a', 'b']\n",
    ),
    "annotations": ("def f(a: int) -> str: ...\n", "from candidate import f\ndef test(): assert f.__annotations__ == {'a': int, 'return': str}\n"),
    "time zones": (
        "import datetime as d, zoneinfo\ndef f(x): return x + d.timedelta(hours=1)\ndef g(): return d.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin'))\n",
        "import datetime as d\nfrom candidate import f, g\ndef test():\n    t = d.datetime(2024, 1, 1, tzinfo=d.timezone.utc)\n    assert f(t) == d.datetime(2024, 1, 1, 1, tzinfo=d.timezone.utc) and f(t).tzinfo is d.timezone.utc\n    assert g().utcoffset() == d.timedelta(hours=1) and g().tzinfo.key == 'Europe/Berlin'\n    o = d.timezone(d.timedelta(hours=2), 'X')\n    assert f(t.astimezone(o)).tzname() == 'X'\n",
    ),
    "warnings": (
        "import warnings\nclass Old(UserWarning): ...\ndef f():\n    warnings.warn('old thing', DeprecationWarning)\n    return 1\ndef g(): warnings.warn('mine', Old)\n",
        "import pytest, warnings\nfrom candidate import f, g, Old\ndef test():\n    with pytest.warns(DeprecationWarning, match='old'):\n        assert f() == 1\n    with pytest.warns(Old): g()\n    with warnings.catch_warnings():\n        warnings.simplefilter('error')\n        with pytest.raises(DeprecationWarning): f()\n    with warnings.catch_warnings(record=True) as seen:\n        warnings.simplefilter('always')\n        f()\n    assert len(seen) == 1 and issubclass(seen[0].category, DeprecationWarning)\n",
    ),
    "logging": (
        "import logging\nlog = logging.getLogger('app')\ndef f():\n    log.debug('low')\n    log.info('step %d', 3)\n    log.warning('careful')\n",
        "import logging\nfrom candidate import f\ndef test(caplog):\n    f()\n    assert caplog.messages == ['careful']\n    caplog.clear()\n    with caplog.at_level(logging.INFO):\n        f()\n    assert caplog.record_tuples == [('app', 20, 'step 3'), ('app', 30, 'careful')]\ndef test_named(caplog):\n    caplog.set_level(logging.DEBUG, logger='app')\n    f()\n    assert 'low' in caplog.text\n",
    ),
    "environment": (
        "import os\ndef f(): return os.environ.get('MODE', 'none')\n",
        "from candidate import f\ndef test(monkeypatch):\n    monkeypatch.setenv('MODE', 'fast')\n    assert f() == 'fast'\n    monkeypatch.delenv('MODE')\n    assert f() == 'none'\ndef test_after(): assert f() == 'none'\n",
    ),
    "seeds": (
        "import random\ndef f(): return [random.randint(1, 6) for _ in range(5)]\n",
        "import random\nfrom candidate import f\ndef test():\n    random.seed(3); a = f()\n    random.seed(3); b = [random.randint(1, 6) for _ in range(5)]\n    assert a == b\n    random.seed(3)\n    assert f() == a\n",
    ),
    "instances of the tests' classes": (
        "def area(s): return s.w * s.h\ndef grow(s):\n    s.w += 1\n    return s\ndef biggest(xs): return max(xs, key=lambda s: s.area())\ndef total(xs): return sum(len(x) for x in xs)\n",
        "from candidate import area, grow, biggest, total\nclass Box:\n    def __init__(self, w, h): self.w, self.h = w, h\n    def area(self): return self.w * self.h\n    def __len__(self): return self.w\ndef test():\n    b = Box(2, 3)\n    assert area(b) == 6 and grow(b) is b and b.w == 3\n    assert biggest([Box(1, 1), b]) is b and total([b, Box(4, 1)]) == 7\n",
    ),
    "linked list of the tests": (
        "def reverse(h):\n    p = None\n    while h:\n        h.next, p, h = p, h, h.next\n    return p\n",
        "from candidate import reverse\nclass Node:\n    def __init__(self, v, n=None): self.v, self.next = v, n\ndef test():\n    n = reverse(Node(1, Node(2, Node(3))))\n    out = []\n    while n: out.append(n.v); n = n.next\n    assert out == [3, 2, 1]\n",
    ),
    "subclass of a candidate's class": (
        "from abc import ABC, abstractmethod\nclass Animal(ABC):\n    def __init__(self, name): self.name = name\n    @abstractmethod\n    def sound(self): ...\n    def speak(self): return f'{self.name} says {self.sound()}'\n",
        "import pytest\nfrom candidate import Animal\nclass Dog(Animal):\n    def sound(self): return 'woof'\nclass Loud(Dog):\n    def __init__(self, name):\n        super().__init__(name.upper())\n        self.volume = 11\n    def speak(self): return super().speak() + '!'\ndef test():\n    d = Dog('Rex')\n    assert d.speak() == 'Rex says woof' and isinstance(d, Animal) and isinstance(d, Dog) and d.sound() == 'woof'\n    assert Loud('rex').speak() == 'REX says woof!' and Loud('a').volume == 11\n    with pytest.raises(TypeError): Animal('x')\n",
    ),
    "exception of the tests": (
        "def retry(n, f, kinds=(Exception,)):\n    for i in range(n):\n        try: return f()\n        except kinds as e:\n            last = e\n    raise last\n",
        "import pytest\nfrom candidate import retry\nclass Boom(Exception): ...\ndef test():\n    calls = []\n    def f():\n        calls.append(1)\n        raise Boom('no')\n    with pytest.raises(Boom, match='no'): retry(3, f)\n    assert len(calls) == 3\n    with pytest.raises(Boom): retry(2, f, (Boom,))\n    with pytest.raises(Boom): retry(2, f, (KeyError,))\n    assert len(calls) == 6\n    def g():\n        if len(calls) < 8:\n            calls.append(1); raise ValueError\n        return 'ok'\n    assert retry(5, g, (ValueError,)) == 'ok'\n",
    ),
    "exception of the candidate": (
        "class Bad(ValueError):\n    def __init__(self, code):\n        super().__init__(f'code {code}')\n        self.code = code\nclass Worse(Bad): ...\ndef f(k):\n    if k == 'chain':\n        try: {}['x']\n        except KeyError as e: raise Bad(1) from e\n    raise {'bad': Bad, 'worse': Worse}[k](7)\n",
        "import pytest, candidate\nfrom candidate import f, Bad\ndef test():\n    with pytest.raises(Bad) as e: f('worse')\n    assert e.value.code == 7 and str(e.value) == 'code 7' and isinstance(e.value, candidate.Worse)\n    with pytest.raises(ValueError, match='code 7'): f('bad')\n    with pytest.raises(Bad) as e: f('chain')\n    assert isinstance(e.value.__cause__, KeyError)\n    assert issubclass(Bad, ValueError)\n",
    ),
    "exceptions of the standard library": (
        "import json, dataclasses, sys, decimal\n@dataclasses.dataclass(frozen=True)\nclass P:\n    x: int\ndef parse(s): return json.loads(s)\ndef main(): sys.exit(2)\n",
        "import json, pytest, dataclasses\nfrom candidate import parse, P, main\ndef test():\n    with pytest.raises(json.JSONDecodeError, match='Expecting'): parse('{')\n    with pytest.raises(dataclasses.FrozenInstanceError): P(1).x = 2\n    with pytest.raises(SystemExit) as e: main()\n    assert e.value.code == 2\n    with pytest.raises(ZeroDivisionError): parse.__name__ and (lambda: 1 / 0)()\n",
    ),
    "mock": (
        "def fetch(client, n):\n    r = client.get(f'/item/{n}', timeout=3)\n    if r.status != 200: raise IOError(r.status)\n    return r.json()['name']\n",
        "import pytest\nfrom unittest.mock import Mock, MagicMock\nfrom candidate import fetch\ndef test():\n    c = Mock()\n    c.get.return_value.status = 200\n    c.get.return_value.json.return_value = {'name': 'x'}\n    assert fetch(c, 4) == 'x'\n    c.get.assert_called_once_with('/item/4', timeout=3)\n    c.get.return_value.status = 500\n    with pytest.raises(OSError): fetch(c, 4)\n",
    ),
    "mock.patch of the candidate": (
        "def clock(): return 5\ndef f(): return clock() * 2\n",
        "from unittest.mock import patch\nimport candidate\ndef test(monkeypatch):\n    with patch('candidate.clock', return_value=7): assert candidate.f() == 14\n    assert candidate.f() == 10\n    monkeypatch.setattr(candidate, 'clock', lambda: 1)\n    assert candidate.f() == 2\n",
    ),
    "mock.patch of the standard library": (
        "import random, time, os\nfrom datetime import datetime\ndef roll(): return random.randint(1, 6)\ndef wait():\n    time.sleep(60)\n    return 'done'\ndef size(p): return os.path.getsize(p)\n",
        "import time\nfrom unittest.mock import patch\nfrom candidate import roll, wait, size\ndef test(monkeypatch):\n    with patch('random.randint', return_value=4) as m:\n        assert roll() == 4\n        m.assert_called_once_with(1, 6)\n    with patch('time.sleep'): assert wait() == 'done'\n    monkeypatch.setattr(time, 'sleep', lambda s: None)\n    assert wait() == 'done'\n    with patch('os.path.getsize', side_effect=[10]): assert size('/no') == 10\n",
    ),
    "standard input": (
        "import sys\ndef add(): return int(input('a? ')) + int(input())\ndef rest(): return sys.stdin.read().split()\ndef lines(): return [l.strip() for l in sys.stdin]\n",
        "import io\nfrom candidate import add, rest, lines\ndef test(monkeypatch, capsys):\n    monkeypatch.setattr('sys.stdin', io.StringIO('2\\n3\\n'))\n    assert add() == 5 and 'a? ' in capsys.readouterr().out\n    monkeypatch.setattr('sys.stdin', io.StringIO('x y\\nz'))\n    assert rest() == ['x', 'y', 'z']\n    monkeypatch.setattr('sys.stdin', io.StringIO('p\\nq\\n'))\n    assert lines() == ['p', 'q']\n    it = iter(['4', '5'])\n    monkeypatch.setattr('builtins.input', lambda *a: next(it))\n    assert add() == 9\n",
    ),
    "a program": (
        "import sys\nn = int(sys.stdin.readline())\nprint(sum(int(x) for x in sys.stdin.readline().split()[:n]), *sys.argv[1:])\n",
        "import subprocess, sys\ndef run(text, *args): return subprocess.run([sys.executable, 'candidate.py', *args], input=text, capture_output=True, text=True, timeout=5)\ndef test():\n    assert run('3\\n1 2 3\\n').stdout == '6\\n'\n    r = run('2\\n1 2 3\\n', 'x')\n    assert r.stdout.split() == ['3', 'x'] and r.returncode == 0\n    assert run('x').returncode == 1 and 'ValueError' in run('x').stderr\n    assert subprocess.check_output([sys.executable, 'candidate.py'], input=b'1\\n5\\n') == b'5\\n'\n",
    ),
    "output": (
        "import sys\ndef f():\n    print('out')\n    print('err', file=sys.stderr)\n    sys.stdout.write('more')\n    sys.stdout.buffer.write(b'!')\n",
        "import io, contextlib\nfrom candidate import f\ndef test(capsys):\n    f()\n    got = capsys.readouterr()\n    assert got.out == 'out\\nmore!' and got.err == 'err\\n'\n    s = io.StringIO()\n    with contextlib.redirect_stdout(s): f()\n    assert s.getvalue() == 'out\\nmore!'\n",
    ),
    "files": (
        "import pathlib\ndef save(path, text):\n    with open(path, 'w') as f: f.write(text)\ndef load(path): return pathlib.Path(path).read_text()\ndef names(folder): return sorted(p.name for p in folder.iterdir())\n",
        "import os, tempfile\nfrom candidate import save, load, names\ndef test(tmp_path, monkeypatch):\n    save(tmp_path / 'a.txt', 'hi')\n    assert (tmp_path / 'a.txt').read_text() == 'hi' and load(str(tmp_path / 'a.txt')) == 'hi' and names(tmp_path) == ['a.txt']\n    (tmp_path / 'b').write_text('b')\n    monkeypatch.chdir(tmp_path)\n    assert load('b') == 'b'\n    with tempfile.TemporaryDirectory() as d:\n        save(os.path.join(d, 'x'), 'y')\n        assert os.listdir(d) == ['x']\ndef test_here():\n    save('here.txt', 'z')\n    assert open('here.txt').read() == 'z'\n",
    ),
    "file objects": (
        "import csv, json\ndef rows(f): return list(csv.reader(f))\ndef load(f): return json.load(f)\ndef write(f): print('line', file=f)\n",
        "import io\nfrom candidate import rows, load, write\ndef test():\n    assert rows(io.StringIO('a,b\\n1,2\\n')) == [['a', 'b'], ['1', '2']]\n    assert load(io.StringIO('{\"a\": 1}')) == {'a': 1}\n    s = io.StringIO()\n    write(s)\n    assert s.getvalue() == 'line\\n'\n",
    ),
    "callbacks": (
        "def apply(f, xs): return [f(x) for x in xs]\ndef compose(*fs):\n    def g(x):\n        for f in fs: x = f(x)\n        return x\n    return g\ndef memo(f):\n    seen = {}\n    def g(x):\n        if x not in seen: seen[x] = f(x)\n        return seen[x]\n    return g\n",
        "from candidate import apply, compose, memo\ndef test():\n    assert apply(lambda x: x + 1, [1, 2]) == [2, 3] and apply(str, [1]) == ['1'] and apply(len, ['ab']) == [2]\n    assert compose(lambda x: x * 2, abs)(-3) == 6\n    calls = []\n    f = memo(lambda x: calls.append(x) or x * x)\n    assert f(3) == 9 and f(3) == 9 and calls == [3]\n    @memo\n    def g(x): return x\n    assert g(1) == 1\n",
    ),
    "generators": (
        "def count(n):\n    i = 0\n    while i < n:\n        got = yield i\n        i = got if got is not None else i + 1\ndef take(n, it): return [x for x, _ in zip(it, range(n))]\ndef forever():\n    i = 0\n    while True:\n        yield i; i += 1\n",
        "import types\nfrom candidate import count, take, forever\ndef test():\n    assert list(count(3)) == [0, 1, 2] and sum(count(4)) == 6\n    g = count(10)\n    assert next(g) == 0 and g.send(5) == 5 and next(g) == 6\n    g.close()\n    assert take(2, iter([7, 8, 9])) == [7, 8] and take(2, (x * x for x in range(9))) == [0, 1]\n    f = forever()\n    assert [next(f) for _ in range(3)] == [0, 1, 2]\n    assert hasattr(count(1), '__next__') and iter(f) is not None\n",
    ),
    "async": (
        "import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x + 1\nasync def many(n):\n    for i in range(n): yield i\nclass C:\n    async def __aenter__(self): return self\n    async def __aexit__(self, *a): return False\n    async def get(self): return 'got'\n",
        "import asyncio\nfrom candidate import f, many, C\nasync def use():\n    a = await asyncio.gather(f(1), f(2))\n    b = [i async for i in many(3)]\n    async with C() as c:\n        return a, b, await c.get()\ndef test(): assert asyncio.run(use()) == ([2, 3], [0, 1, 2], 'got')\nasync def test_async(): assert await f(1) == 2\n",
    ),
    "arithmetic": (
        "class V:\n    def __init__(self, x, y): self.x, self.y = x, y\n    def __add__(self, o): return V(self.x + o.x, self.y + o.y)\n    def __mul__(self, k): return V(self.x * k, self.y * k)\n    __rmul__ = __mul__\n    def __sub__(self, o): return V(self.x - o.x, self.y - o.y)\n    def __neg__(self): return V(-self.x, -self.y)\n    def __abs__(self): return (self.x ** 2 + self.y ** 2) ** 0.5\n    def __eq__(self, o): return isinstance(o, V) and (self.x, self.y) == (o.x, o.y)\n    def __hash__(self): return hash((self.x, self.y))\n    def __lt__(self, o): return abs(self) < abs(o)\n    def __repr__(self): return f'V({self.x}, {self.y})'\n    def __iter__(self): return iter((self.x, self.y))\n    def __getitem__(self, i): return (self.x, self.y)[i]\n    def __bool__(self): return bool(self.x or self.y)\ndef unit(): return V(1, 0)\n",
        "import copy, pytest\nfrom candidate import V, unit\ndef test():\n    a = V(3, 4)\n    assert a + V(1, 1) == V(4, 5) and a * 2 == V(6, 8) and 2 * a == V(6, 8) and a - a == V(0, 0) and -a == V(-3, -4)\n    assert abs(a) == 5 and a != V(0, 0) and repr(a) == 'V(3, 4)' and f'{a}' == 'V(3, 4)' and str(a) == 'V(3, 4)'\n    assert list(a) == [3, 4] and a[0] == 3 and a[-1] == 4 and not V(0, 0) and a\n    assert sorted([a, V(1, 0)])[0] == V(1, 0) and V(1, 0) < a and a > unit() and max(a, unit()) is a\n    assert len({a, V(3, 4)}) == 1 and {a: 1}[V(3, 4)] == 1 and a in [V(3, 4)]\n    assert unit() * 3 == V(3, 0) and (unit() + a) * 2 == V(8, 8)\n    assert copy.deepcopy(a) == a and copy.copy(a) is not a\n    x, y = a\n    assert (x, y) == (3, 4)\n    a += V(1, 0)\n    assert a == V(4, 4) and not a == 5 and a != 'x'\n",
    ),
    "container": (
        "class Lru:\n    def __init__(self, n): self.n, self.d = n, {}\n    def __setitem__(self, k, v):\n        self.d.pop(k, None); self.d[k] = v\n        if len(self.d) > self.n: del self.d[next(iter(self.d))]\n    def __getitem__(self, k): return self.d[k]\n    def __delitem__(self, k): del self.d[k]\n    def __contains__(self, k): return k in self.d\n    def __len__(self): return len(self.d)\n    def __enter__(self): return self\n    def __exit__(self, *a): self.d.clear()\n    @classmethod\n    def of(cls, **kw):\n        c = cls(99)\n        for k, v in kw.items(): c[k] = v\n        return c\n    @staticmethod\n    def help(): return 'x'\n    @property\n    def full(self): return len(self.d) == self.n\n",
        "import pytest\nfrom candidate import Lru\ndef test():\n    c = Lru(2)\n    c['a'] = 1; c['b'] = 2; c['c'] = 3\n    assert 'a' not in c and c['b'] == 2 and len(c) == 2 and c.full\n    del c['b']\n    with pytest.raises(KeyError): c['b']\n    with c as same: assert 'c' in same\n    assert len(c) == 0 and 'k' in Lru.of(k=1) and Lru.help() == 'x'\n    with pytest.raises(AttributeError): c.full = 3\n    with pytest.raises(AttributeError): c.nothing\n    assert not hasattr(c, 'nothing') and hasattr(c, 'full')\n",
    ),
    "data classes": (
        "from dataclasses import dataclass, field\nfrom typing import NamedTuple\nfrom enum import Enum, IntEnum\n@dataclass(order=True)\nclass P:\n    x: int\n    y: int = 0\n    tags: list = field(default_factory=list)\nclass N(NamedTuple):\n    a: int\n    b: str = 'q'\nclass Color(Enum):\n    RED = 1\n    BLUE = 'b'\nclass Level(IntEnum):\n    LOW = 1\n    HIGH = 2\ndef parse(s): return P(*map(int, s.split(',')))\ndef named(): return N(1)\ndef color(n): return Color(n)\ndef level(): return Level.HIGH\n",
        "import pytest\nfrom candidate import P, N, Color, Level, parse, named, color, level\ndef test():\n    assert parse('1,2') == P(1, 2) and P(1) < P(2) and P(3).tags == [] and repr(P(1)) == 'P(x=1, y=0, tags=[])'\n    assert named().a == 1 and named().b == 'q' and named() == (1, 'q') and named()._replace(a=2) == (2, 'q') and N(5).a == 5\n    assert color(1) is Color.RED or color(1) == Color.RED\n    assert Color.RED.name == 'RED' and Color.BLUE.value == 'b' and len(list(Color)) == 2 and Color['RED'] == Color.RED\n    assert {Color.RED: 1}[color(1)] == 1\n    assert level() == 2 and level() > Level.LOW\n    with pytest.raises(ValueError): Color(9)\n",
    ),
    "standard containers": (
        "import collections as c, itertools, uuid\ndef f(k): return {'counter': c.Counter('aab'), 'deque': c.deque([1, 2], maxlen=3), 'default': c.defaultdict(list, {'a': [1]}), 'ordered': c.OrderedDict(b=1, a=2), 'keys': {'a': 1}.keys(), 'items': {'a': 1}.items(), 'chain': itertools.chain([1], [2]), 'map': map(str, [1, 2]), 'uuid': uuid.UUID(int=5), 'none': type(None), 'type': int, 'zip': zip('ab', [1, 2])}[k]\n",
        "import collections, uuid\nfrom candidate import f\ndef test():\n    assert f('counter').most_common(1) == [('a', 2)] and f('deque') == collections.deque([1, 2]) and f('deque').maxlen == 3\n    d = f('default')\n    d['z'].append(1)\n    assert d == {'a': [1], 'z': [1]} and list(f('ordered')) == ['b', 'a']\n    assert list(f('keys')) == ['a'] and dict(f('items')) == {'a': 1} and f('keys') == {'a'}\n    assert list(f('chain')) == [1, 2] and list(f('map')) == ['1', '2'] and f('uuid') == uuid.UUID(int=5)\n    assert f('none') is type(None) and f('type') is int and dict(f('zip')) == {'a': 1, 'b': 2}\n",
    ),
    "decorator": (
        "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g(*a, **k): return f(*a, **k), f(*a, **k)\n    return g\ndef count(f):\n    @functools.wraps(f)\n    def g(*a):\n        g.calls += 1\n        return f(*a)\n    g.calls = 0\n    return g\n@functools.lru_cache\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n",
        "from candidate import twice, count, fib\ndef test():\n    @twice\n    def hello(name): return 'hi ' + name\n    assert hello('x') == ('hi x', 'hi x') and hello.__name__ == 'hello'\n    @count\n    def f(x): return x\n    f(1); f(2)\n    assert f.calls == 2 and fib(50) == 12586269025 and fib.cache_info().hits > 0\n",
    ),
    "threads of the tests": (
        "import threading\nclass Counter:\n    def __init__(self): self.n, self.lock = 0, threading.Lock()\n    def inc(self):\n        with self.lock: self.n += 1\n",
        "import threading\nfrom candidate import Counter\ndef test():\n    c = Counter()\n    ts = [threading.Thread(target=c.inc) for _ in range(20)]\n    [t.start() for t in ts]; [t.join() for t in ts]\n    assert c.n == 20\n",
    ),
    "callbacks from threads": (
        "from concurrent.futures import ThreadPoolExecutor\ndef pmap(f, xs):\n    with ThreadPoolExecutor(4) as pool: return list(pool.map(f, xs))\n",
        "from candidate import pmap\ndef test(): assert pmap(lambda x: x * x, range(10)) == [x * x for x in range(10)]\n",
    ),
    "unittest": (
        "def add(a, b): return a + b\n",
        "import unittest\nfrom candidate import add\nclass T(unittest.TestCase):\n    def setUp(self): self.x = 1\n    def test_a(self): self.assertEqual(add(self.x, 2), 3)\n    def test_b(self):\n        with self.assertRaises(TypeError): add(1, 'x')\n    def test_c(self):\n        for i in range(3):\n            with self.subTest(i=i): self.assertEqual(add(i, 1), i + 1)\nif __name__ == '__main__': unittest.main()\n",
    ),
    "star import": (
        "import math\ndef area(r): return math.pi * r * r\ndef bisect(xs, x): return xs.index(x)\nLIMIT = 3\n",
        "from candidate import *\ndef test(): assert area(1) == math.pi and bisect([4, 5], 5) == 1 and LIMIT == 3\n",
    ),
    "module level use": (
        "CASES = [(1, 2), (2, 3)]\ndef f(x): return x + 1\n",
        "import pytest, candidate\nEXPECTED = candidate.f(1)\n@pytest.mark.parametrize('x, y', candidate.CASES)\ndef test(x, y): assert candidate.f(x) == y\ndef test_b(): assert EXPECTED == 2\n",
    ),
    "reload": (
        "import os\nMODE = os.environ.get('MODE', 'slow')\n",
        "import importlib, candidate\ndef test(monkeypatch):\n    assert candidate.MODE == 'slow'\n    monkeypatch.setenv('MODE', 'fast')\n    importlib.reload(candidate)\n    assert candidate.MODE == 'fast'\n",
    ),
    "set a global": ("LIMIT = 3\ndef f(x): return x < LIMIT\n", "import candidate\ndef test():\n    assert not candidate.f(5)\n    candidate.LIMIT = 9\n    assert candidate.f(5)\n"),
    "class attributes": (
        "class C:\n    total = 0\n    names = ['a']\n    def __init__(self): C.total += 1\n",
        "from candidate import C\ndef test():\n    C(); C()\n    assert C.total == 2 and C.names == ['a']\n    C.total = 7\n    assert C().total == 8 and vars(C()) == {} and C().__class__ is C and type(C()) is C and C.__name__ == 'C'\n",
    ),
    "in place": (
        "def sort(x): x.sort()\ndef rotate(m):\n    m[:] = [list(r) for r in zip(*m[::-1])]\ndef put(d, k, v): d[k] = v\n",
        "from candidate import sort, rotate, put\ndef test():\n    x = [3, 1]\n    sort(x)\n    assert x == [1, 3]\n    m = [[1, 2], [3, 4]]\n    rotate(m)\n    assert m == [[3, 1], [4, 2]]\n    d = {}\n    put(d, 'a', 1)\n    assert d == {'a': 1}\n",
    ),
    "approx": ("def f(x): return x ** 0.5\n", "import pytest, math\nfrom candidate import f\ndef test(): assert f(2) == pytest.approx(1.41421356) and math.isclose(f(2), 2 ** .5) and abs(f(2) - 1.414) < 1e-3 and round(f(2), 2) == 1.41\n"),
    "is instance": ("class A: ...\nclass B(A): ...\ndef f(): return [1]\ndef g(): return B()\n", "from candidate import A, B, f, g\ndef test(): assert isinstance(f(), list) and isinstance(g(), A) and issubclass(B, A) and not isinstance(A(), B) and callable(g) and not callable(A())\n"),
    "keyword arguments": ("def f(a, /, b, *c, d=1, **e): return [a, b, c, d, e]\n", "import pytest\nfrom candidate import f\ndef test():\n    assert f(1, 2, 3, d=4, z=5) == [1, 2, (3,), 4, {'z': 5}]\n    with pytest.raises(TypeError): f()\n"),
    "fixtures": (
        "class Bank:\n    def __init__(self): self.b = {}\n    def put(self, n, x):\n        if x <= 0: raise ValueError('amount')\n        self.b[n] = self.b.get(n, 0) + x\n        return self.b[n]\n",
        "import pytest\nfrom candidate import Bank\n@pytest.fixture\ndef bank():\n    b = Bank()\n    b.put('ann', 5)\n    yield b\nclass TestBank:\n    def test_put(self, bank): assert bank.put('ann', 2) == 7 and bank.b == {'ann': 7}\n    @pytest.mark.parametrize('x', [0, -1])\n    def test_bad(self, bank, x):\n        with pytest.raises(ValueError, match='amount'): bank.put('bob', x)\n",
    ),
    "nan and large numbers": ("def f(): return [float('nan'), float('inf'), -0.0, 2 ** 80, 1e308]\n", "import math\nfrom candidate import f\ndef test():\n    a = f()\n    assert math.isnan(a[0]) and a[1] == math.inf and math.copysign(1, a[2]) == -1 and a[3] == 2 ** 80 and a[4] == 1e308\n"),
    "text": ("def f(s): return s[::-1]\n", "from candidate import f\ndef test(): assert f('h\\u00e9\\U0001f600\\n\\x00') == '\\x00\\n\\U0001f600\\u00e9h'\n"),
    "hidden attributes": ("class A:\n    def __init__(self): self._x, self.__y = 1, 2\n", "from candidate import A\ndef test(): assert A()._x == 1 and A()._A__y == 2 and vars(A()) == {'_x': 1, '_A__y': 2}\n"),
    "attributes that hold lists": ("class N:\n    def __init__(self, v): self.v, self.kids, self.by = v, [], {}\n    def total(self): return self.v + sum(k.total() for k in self.kids)\n", "from candidate import N\ndef test():\n    a = N(1)\n    a.kids.append(N(2)); a.kids.append(N(3))\n    a.by['x'] = 1\n    assert a.total() == 6 and len(a.kids) == 2 and a.by == {'x': 1}\n"),
    "one of a kind": ("class S:\n    _i = None\n    def __new__(c):\n        if c._i is None: c._i = super().__new__(c)\n        return c._i\ndef get(): return S()\n", "from candidate import S, get\ndef test(): assert S() is S() and get() is S()\n"),
    "context managers": ("import contextlib\nclass Ignore:\n    def __init__(self, *kinds): self.kinds = kinds\n    def __enter__(self): return self\n    def __exit__(self, kind, error, tb): return kind is not None and issubclass(kind, self.kinds)\nclass Log:\n    def __enter__(self): self.seen = []; return self\n    def __exit__(self, kind, error, tb):\n        self.seen.append(str(error)); return True\n@contextlib.contextmanager\ndef tag(out, name):\n    out.append('<' + name)\n    yield name\n    out.append('>')\n", "import pytest\nfrom candidate import Ignore, Log, tag\ndef test():\n    with Ignore(KeyError): {}['x']\n    with pytest.raises(ValueError):\n        with Ignore(KeyError): raise ValueError('x')\n    with Log() as log: raise ValueError('seen')\n    assert log.seen == ['seen']\n    class Out:\n        def __init__(self): self.all = []\n        def append(self, x): self.all.append(x)\n    out = Out()\n    with tag(out, 'b') as n: assert n == 'b'\n    assert out.all == ['<b', '>']\n"),
    "exceptions made by a test": ("class E(Exception):\n    def __init__(self, need): super().__init__(f'need {need}'); self.need = need\n", "import pytest\nfrom candidate import E\ndef test():\n    assert E(5).need == 5 and str(E(5)) == 'need 5' and isinstance(E(1), Exception)\n    with pytest.raises(E, match='need 2'): raise E(2)\n"),
    "constants used while collecting": ("N = 4\nclass A: ...\n", "from candidate import N, A\nE = N - 1\nX = list(range(N))\nif N > 2: Y = 1\nZ = A | None\ndef test(): assert E == 3 and len(X) == 4 and Y == 1\n"),
    "a program that is talked to": ("import sys\nname = input()\nprint('hi', name, *sys.argv[1:])\n", "import subprocess, sys\ndef test():\n    with subprocess.Popen([sys.executable, 'candidate.py', 'a'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:\n        out, _ = p.communicate('bob\\n')\n    assert out == 'hi bob a\\n' and p.returncode == 0\n    assert subprocess.run(f'{sys.executable} candidate.py', shell=True, input='x\\n', text=True, stdout=-1).stdout == 'hi x\\n'\n"),
    "async callbacks": ("async def twice(f): return [await f(), await f()]\n", "import asyncio\nfrom candidate import twice\nasync def one(): return 1\ndef test(): assert asyncio.run(twice(one)) == [1, 1]\n"),
    "numpy": (
        "import numpy as np\ndef norm(m): return m / m.sum()\ndef fill(a): a[:] = 7\ndef mean(a): return np.mean(a)\n",
        "import numpy as np\nfrom candidate import norm, fill, mean\ndef test():\n    a = np.array([1.0, 3.0])\n    np.testing.assert_allclose(norm(a), [0.25, 0.75])\n    fill(a)\n    assert (a == 7).all() and mean(a) == 7 and isinstance(norm(a), np.ndarray) and norm(a).shape == (2,)\n",
    ),
}  # fmt: skip

# Classes with a builtin base, containers of the module, mocks of classes, dataclasses, exceptions as values.
IDIOMS |= {
    "asdict in the tests of a candidate dataclass": (
        "from dataclasses import dataclass, field, asdict\n@dataclass\nclass User:\n    name: str\n    age: int\n    tags: list = field(default_factory=list)\n    def to_dict(self):\n        return asdict(self)\n",
        "from dataclasses import asdict, is_dataclass, fields, astuple, replace\nfrom candidate import User\ndef test_asdict():\n    u = User(\"Ann\", 3, [\"x\"])\n    assert asdict(u) == {\"name\": \"Ann\", \"age\": 3, \"tags\": [\"x\"]}\n    assert u.to_dict() == asdict(u)\ndef test_is_dataclass():\n    assert is_dataclass(User)\n    assert is_dataclass(User(\"A\", 1))\ndef test_fields():\n    assert [f.name for f in fields(User)] == [\"name\", \"age\", \"tags\"]\ndef test_replace():\n    assert replace(User(\"A\", 1), age=2).age == 2\n    assert astuple(User(\"A\", 1)) == (\"A\", 1, [])\n",
    ),
    "module global container mutated by the tests": (
        "CACHE = {}\nREGISTRY = []\ndef get(k):\n    return CACHE.get(k)\ndef size(): return len(REGISTRY)\n",
        "import candidate\nimport pytest\n\n@pytest.fixture(autouse=True)\ndef clean():\n    candidate.CACHE.clear()\n    yield\n    candidate.CACHE.clear()\n\ndef test_a():\n    candidate.CACHE[\"x\"] = 1\n    assert candidate.get(\"x\") == 1\ndef test_b():\n    assert candidate.get(\"x\") is None\n    candidate.REGISTRY.append(1)\n    assert candidate.size() == 1\n",
    ),
    "argparse main with argv": (
        "import argparse, sys\ndef parse(argv=None):\n    p = argparse.ArgumentParser(prog=\"tool\")\n    p.add_argument(\"name\")\n    p.add_argument(\"--count\", \"-c\", type=int, default=1)\n    p.add_argument(\"--loud\", action=\"store_true\")\n    return p.parse_args(argv)\ndef main(argv=None):\n    a = parse(argv)\n    for _ in range(a.count):\n        t = f\"Hello {a.name}\"\n        print(t.upper() if a.loud else t)\n    return 0\nif __name__ == \"__main__\":\n    sys.exit(main())\n",
        "import sys, subprocess, pytest\nfrom unittest.mock import patch\nfrom candidate import main, parse\ndef test_parse():\n    ns = parse([\"bob\", \"-c\", \"2\"])\n    assert ns.name == \"bob\" and ns.count == 2 and ns.loud is False\n    assert vars(ns) == {\"name\": \"bob\", \"count\": 2, \"loud\": False}\ndef test_main(capsys):\n    assert main([\"bob\", \"--loud\"]) == 0\n    assert capsys.readouterr().out == \"HELLO BOB\\n\"\ndef test_bad(capsys):\n    with pytest.raises(SystemExit) as e:\n        main([])\n    assert e.value.code == 2\n    assert \"usage: tool\" in capsys.readouterr().err\ndef test_argv(monkeypatch, capsys):\n    monkeypatch.setattr(sys, \"argv\", [\"tool\", \"ann\", \"-c\", \"2\"])\n    main()\n    assert capsys.readouterr().out == \"Hello ann\\nHello ann\\n\"\ndef test_argv_patch(capsys):\n    with patch(\"sys.argv\", [\"tool\", \"kim\"]):\n        main()\n    assert \"kim\" in capsys.readouterr().out\ndef test_program():\n    out = subprocess.run([sys.executable, \"candidate.py\", \"joe\"], capture_output=True, text=True, check=True)\n    assert out.stdout.strip() == \"Hello joe\"\n",
    ),
    "iscoroutinefunction checks": (
        "import asyncio\nasync def f(): return 1\ndef g(): yield 1\nasync def h(): yield 1\nclass A:\n    async def m(self): return 2\n",
        "import asyncio, inspect, types\nfrom candidate import f, g, h, A\ndef test_kinds():\n    assert asyncio.iscoroutinefunction(f)\n    assert inspect.iscoroutinefunction(f)\n    assert inspect.isgeneratorfunction(g)\n    assert inspect.isasyncgenfunction(h)\n    assert inspect.isfunction(f)\n    assert inspect.iscoroutinefunction(A().m)\n    assert inspect.ismethod(A().m)\n    assert inspect.isclass(A)\n    assert isinstance(g(), types.GeneratorType)\n    assert inspect.isgenerator(g())\n    c = f()\n    assert inspect.iscoroutine(c)\n    c.close()\n",
    ),
    "namedtuple from collections and typing": (
        "from collections import namedtuple\nfrom typing import NamedTuple\nPoint = namedtuple(\"Point\", [\"x\", \"y\"])\nclass Emp(NamedTuple):\n    name: str\n    age: int = 3\n    def label(self): return f\"{self.name}-{self.age}\"\n    @property\n    def old(self): return self.age > 50\ndef make(): return Emp(\"a\")\ndef far(p): return Point(p.x * 2, p.y * 2)\n",
        "from candidate import Point, Emp, make, far\ndef test_nt():\n    p = Point(1, 2)\n    assert p == (1, 2) and p.x == 1\n    assert far(p) == Point(2, 4)\n    assert far(Point(x=1, y=1)).y == 2\n    assert p._asdict() == {\"x\": 1, \"y\": 2}\n    assert Point._fields == (\"x\", \"y\")\n    assert isinstance(p, Point) and isinstance(p, tuple)\n    x, y = p\n    assert (x, y) == (1, 2)\ndef test_emp():\n    e = make()\n    assert e.label() == \"a-3\"\n    assert e.old is False\n    assert isinstance(e, Emp)\n    assert Emp(\"b\", 60).old\n    assert Emp(\"b\", 60).label() == \"b-60\"\n    assert Emp(\"b\", 60)._replace(age=1).age == 1\n",
    ),
    "inheritance from builtins": (
        "class Matrix(list):\n    def transpose(self): return Matrix(map(list, zip(*self)))\nclass DefaultDict(dict):\n    def __missing__(self, k): return f\"<{k}>\"\nclass Name(str):\n    def shout(self): return self.upper() + \"!\"\nclass Temp(float):\n    def f(self): return self * 9 / 5 + 32\nclass MyInt(int):\n    def double(self): return MyInt(self * 2)\n",
        "from candidate import Matrix, DefaultDict, Name, Temp, MyInt\ndef test_matrix():\n    m = Matrix([[1, 2], [3, 4]])\n    assert m.transpose() == [[1, 3], [2, 4]]\n    assert isinstance(m.transpose(), Matrix)\n    assert isinstance(m, list)\n    assert len(m) == 2 and m[0] == [1, 2]\n    m.append([5, 6])\n    assert len(m) == 3\n    assert m.transpose() == [[1, 3, 5], [2, 4, 6]]\ndef test_dd():\n    d = DefaultDict(a=1)\n    assert d[\"a\"] == 1 and d[\"z\"] == \"<z>\"\n    d[\"q\"] = 3\n    assert d[\"q\"] == 3 and len(d) == 2\ndef test_str():\n    assert Name(\"bob\").shout() == \"BOB!\"\n    assert Name(\"bob\") == \"bob\"\ndef test_num():\n    assert Temp(100).f() == 212\n    assert MyInt(4).double() == 8\n    assert MyInt(4).double().double() == 16\n    assert isinstance(MyInt(4), MyInt)\n",
    ),
    "str enum is": (
        "from enum import Enum\nclass Status(str, Enum):\n    OPEN = \"open\"; DONE = \"done\"\nclass Task:\n    def __init__(self, t): self.title = t; self.status = Status.OPEN\n",
        "from candidate import Task, Status\ndef test_status():\n    assert Task(\"x\").status is Status.OPEN\n    assert isinstance(Task(\"x\").status, Status)\n",
    ),
    "int enum name": (
        "from enum import IntEnum\nclass P(IntEnum):\n    LOW = 1\n    HIGH = 2\ndef top(): return P.HIGH\n",
        "from candidate import P, top\ndef test_p():\n    assert top().name == \"HIGH\"\n    assert top() is P.HIGH\n    assert P(2) == P.HIGH\n    assert isinstance(top(), P)\n",
    ),
    "LRU OrderedDict subclass": (
        "from collections import OrderedDict\nclass LRUCache(OrderedDict):\n    def __init__(self, capacity):\n        super().__init__()\n        self.capacity = capacity\n    def get(self, key):\n        if key not in self: return -1\n        self.move_to_end(key)\n        return self[key]\n    def put(self, key, value):\n        if key in self: self.move_to_end(key)\n        self[key] = value\n        if len(self) > self.capacity: self.popitem(last=False)\n",
        "from candidate import LRUCache\ndef test_lru():\n    c = LRUCache(2)\n    c.put(1, 1); c.put(2, 2)\n    assert c.get(1) == 1\n    c.put(3, 3)\n    assert c.get(2) == -1\n    assert len(c) == 2\n",
    ),
    "dict subclass attr": (
        "class AttrDict(dict):\n    def __getattr__(self, k):\n        try: return self[k]\n        except KeyError: raise AttributeError(k)\n    def __setattr__(self, k, v): self[k] = v\n",
        "import pytest\nfrom candidate import AttrDict\ndef test_ad():\n    d = AttrDict(a=1)\n    assert d.a == 1\n    d.b = 2\n    assert d[\"b\"] == 2\n    assert d == {\"a\": 1, \"b\": 2}\n    with pytest.raises(AttributeError): d.zzz\n",
    ),
    "dict subclass missing": (
        "class Dd(dict):\n    def __missing__(self, k): return k * 2\n",
        "from candidate import Dd\ndef test_dd():\n    d = Dd(a=1)\n    assert d[\"a\"] == 1\n    assert d[\"b\"] == \"bb\"\n",
    ),
    "list subclass with methods": (
        "class Stack(list):\n    def push(self, x): self.append(x)\n    def peek(self): return self[-1]\n    def is_empty(self): return len(self) == 0\n",
        "from candidate import Stack\ndef test_s():\n    s = Stack()\n    assert s.is_empty()\n    s.push(3); s.push(4)\n    assert s.peek() == 4\n    assert s.pop() == 4\n    assert len(s) == 1\n    assert s == [3]\n",
    ),
    "str subclass with methods": (
        "class Caesar(str):\n    def shift(self, n): return Caesar(\"\".join(chr((ord(c) - 97 + n) % 26 + 97) for c in self))\n",
        "from candidate import Caesar\ndef test_s():\n    assert Caesar(\"abc\").shift(1) == \"bcd\"\n    assert Caesar(\"abc\").shift(1).shift(1) == \"cde\"\n    assert isinstance(Caesar(\"a\").shift(1), Caesar)\n",
    ),
    "NamedTuple with methods": (
        "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    y: int = 0\n    def norm(self): return abs(self.x) + abs(self.y)\n    def __add__(self, o): return P(self.x + o.x, self.y + o.y)\ndef mk(): return P(3, -4)\n",
        "from candidate import P, mk\ndef test_p():\n    assert mk().norm() == 7\n    assert P(1).norm() == 1\n    assert P(1) + P(2, 3) == P(3, 3)\n",
    ),
    "Counter and defaultdict subclasses": (
        "from collections import Counter, defaultdict, UserDict, UserList\nclass Bag(Counter):\n    def top(self): return self.most_common(1)[0][0]\nclass U(UserDict):\n    def __setitem__(self, k, v): super().__setitem__(k.lower(), v)\n    def __getitem__(self, k): return super().__getitem__(k.lower())\n",
        "from candidate import Bag, U\ndef test_bag():\n    b = Bag(\"aab\")\n    assert b.top() == \"a\"\n    b.update(\"bbb\")\n    assert b[\"b\"] == 4\ndef test_u():\n    u = U()\n    u[\"Key\"] = 1\n    assert u[\"KEY\"] == 1\n    assert len(u) == 1\n    assert list(u) == [\"key\"]\n    assert \"key\" in u\n    assert dict(u) == {\"key\": 1}\n    u.update(X=2)\n    assert u.get(\"x\") == 2\n    assert sorted(u.items()) == [(\"key\", 1), (\"x\", 2)]\n",
    ),
    "generator type": (
        "def gen(n):\n    for i in range(n): yield i * i\n",
        "import types, inspect\nfrom collections.abc import Generator, Iterator\nfrom candidate import gen\ndef test_gen():\n    g = gen(3)\n    assert isinstance(g, types.GeneratorType)\n",
    ),
    "coroutine function": (
        "async def f(): return 1\n",
        "import asyncio, inspect\nfrom candidate import f\ndef test_c():\n    assert inspect.iscoroutinefunction(f)\n    assert asyncio.iscoroutinefunction(f)\n    assert asyncio.run(f()) == 1\n",
    ),
    "exception as argument": (
        "class Result:\n    def __init__(self, value=None, error=None): self.value, self.error = value, error\n    def unwrap(self):\n        if self.error: raise self.error\n        return self.value\ndef classify(e): return \"value\" if isinstance(e, ValueError) else \"other\"\ndef attempt(f):\n    try: return Result(f())\n    except Exception as e: return Result(error=e)\n",
        "import pytest\nfrom candidate import Result, classify, attempt\ndef test_r():\n    with pytest.raises(ValueError, match=\"boom\"): Result(error=ValueError(\"boom\")).unwrap()\n    assert classify(ValueError(\"x\")) == \"value\" and classify(KeyError(\"x\")) == \"other\"\ndef test_attempt():\n    r = attempt(lambda: 1 / 0)\n    assert isinstance(r.error, ZeroDivisionError)\n    assert \"division\" in str(r.error)\n    assert attempt(lambda: 5).unwrap() == 5\n",
    ),
    "exception returned": (
        "def parse(s):\n    try: return int(s), None\n    except ValueError as e: return None, e\nclass MyErr(Exception): pass\ndef get(): return MyErr(\"a\", 1)\n",
        "from candidate import parse, get, MyErr\ndef test_p():\n    v, e = parse(\"x\")\n    assert v is None and isinstance(e, ValueError)\n    assert \"invalid literal\" in str(e)\ndef test_m():\n    assert isinstance(get(), MyErr)\n    assert get().args == (\"a\", 1)\n",
    ),
    "exception hierarchy": (
        "class AppError(Exception):\n    \"\"\"Base.\"\"\"\n    code = 1\nclass NotFound(AppError):\n    code = 404\n    def __init__(self, name, *, detail=None):\n        super().__init__(f\"{name} not found\")\n        self.name, self.detail = name, detail\ndef find(d, k):\n    if k not in d: raise NotFound(k, detail={\"keys\": list(d)})\n    return d[k]\n",
        "import pytest\nfrom candidate import AppError, NotFound, find\ndef test_h():\n    assert issubclass(NotFound, AppError) and issubclass(AppError, Exception)\n    with pytest.raises(AppError) as ei: find({\"a\": 1}, \"z\")\n    assert ei.type is NotFound\n    assert ei.value.code == 404 and ei.value.detail == {\"keys\": [\"a\"]}\n    assert str(ei.value) == \"z not found\"\n    assert ei.value.args == (\"z not found\",)\n    assert NotFound.code == 404\n    assert NotFound.__name__ == \"NotFound\"\n    assert AppError.__doc__ == \"Base.\"\ndef test_raise_self():\n    with pytest.raises(NotFound, match=\"q not found\"): raise NotFound(\"q\")\n    e = NotFound(\"q\", detail=5)\n    assert e.detail == 5\n    assert str(e) == \"q not found\"\n    assert isinstance(e, AppError)\n    assert repr(e) == \"NotFound('q not found')\"\ndef test_mro():\n    assert NotFound.__mro__[1] is AppError\n    assert NotFound.__bases__ == (AppError,)\n",
    ),
    "dataclass asdict": (
        "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    x: int\n    y: list = field(default_factory=list)\n",
        "from dataclasses import asdict\nfrom candidate import A\ndef test_a(): assert asdict(A(1)) == {\"x\": 1, \"y\": []}\n",
    ),
    "is dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 2\n    y: str = \"a\"\n",
        "from dataclasses import is_dataclass, fields\nfrom candidate import A\ndef test_a():\n    assert is_dataclass(A)\n    assert {f.name for f in fields(A)} == {\"x\", \"y\"}\n    assert A.__dataclass_fields__[\"x\"].default == 2\n    assert A.__annotations__ == {\"x\": int, \"y\": str}\n    assert A.x == 2\n",
    ),
    "sys argv": (
        "import sys\ndef main(): print(\" \".join(sys.argv[1:]))\n",
        "import sys\nfrom candidate import main\ndef test_m(monkeypatch, capsys):\n    monkeypatch.setattr(sys, \"argv\", [\"prog\", \"a\", \"b\"])\n    main()\n    assert capsys.readouterr().out == \"a b\\n\"\n",
    ),
    "recursion limit": (
        "def depth(n): return 0 if n == 0 else 1 + depth(n - 1)\n",
        "import sys\nsys.setrecursionlimit(10000)\nfrom candidate import depth\ndef test_d(): assert depth(3000) == 3000\n",
    ),
    "open patched": (
        "def read_config(p):\n    with open(p) as f: return dict(l.strip().split(\"=\") for l in f if l.strip())\ndef write_it(p, t):\n    with open(p, \"w\") as f: f.write(t)\n",
        "from unittest.mock import patch, mock_open\nfrom candidate import read_config, write_it\ndef test_r():\n    with patch(\"builtins.open\", mock_open(read_data=\"a=1\\nb=2\\n\")): assert read_config(\"x\") == {\"a\": \"1\", \"b\": \"2\"}\ndef test_w():\n    m = mock_open()\n    with patch(\"builtins.open\", m): write_it(\"f\", \"hi\")\n    m.assert_called_once_with(\"f\", \"w\")\n    m().write.assert_called_once_with(\"hi\")\n",
    ),
    "module doc": (
        "\"\"\"Module doc.\"\"\"\nimport os\ndef f(): return __name__\n",
        "import candidate\ndef test_doc():\n    assert candidate.__doc__ == \"Module doc.\"\n    assert candidate.f() == \"candidate\"\n    assert candidate.__file__.endswith(\"candidate.py\")\n",
    ),
    "regex objects": (
        "import re\nPATTERN = re.compile(r\"(\\d+)-(?P<w>\\w+)\")\ndef m(s): return PATTERN.match(s)\ndef find(p, s): return re.findall(p, s)\ndef sub(p, s): return p.sub(\"X\", s)\n",
        "import re\nfrom candidate import m, find, sub, PATTERN\ndef test_m():\n    r = m(\"12-ab\")\n    assert r is not None\n    assert r.group(1) == \"12\" and r[\"w\"] == \"ab\" and r.groups() == (\"12\", \"ab\") and r.groupdict() == {\"w\": \"ab\"}\n    assert m(\"zz\") is None\n    assert bool(m(\"1-a\"))\n    assert r.span() == (0, 5)\n    assert PATTERN.pattern == r\"(\\d+)-(?P<w>\\w+)\"\n    assert isinstance(PATTERN, re.Pattern)\ndef test_sub(): assert sub(re.compile(\"a+\"), \"caat\") == \"cXt\"\ndef test_find(): assert find(r\"\\d\", \"a1b2\") == [\"1\", \"2\"]\n",
    ),
    "complex shape returns": (
        "import itertools\ndef f(): return {\"a\": [1, (2, {3, 4})], (1, 2): None, 3: {\"x\": b\"q\"}}\ndef z(): return zip([1], [2])\ndef mp(): return map(lambda x: x + 1, [1, 2])\ndef fl(): return filter(None, [0, 1])\ndef en(): return enumerate(\"ab\")\ndef rv(): return reversed([1, 2])\ndef dk(): return {\"a\": 1}.values()\ndef rg(): return range(3)\ndef fs(): return frozenset([1])\ndef gx(): return (i for i in range(3))\ndef pr(): return itertools.permutations([1, 2])\ndef mv(): return memoryview(b\"abc\")\ndef ba(): return bytearray(b\"x\")\ndef el(): return ...\ndef sl(): return slice(1, 2)\ndef ty(): return dict\n",
        "import candidate as c\ndef test_all():\n    assert c.f() == {\"a\": [1, (2, {3, 4})], (1, 2): None, 3: {\"x\": b\"q\"}}\n    assert list(c.z()) == [(1, 2)]\n    assert list(c.mp()) == [2, 3] and list(c.fl()) == [1] and list(c.en()) == [(0, \"a\"), (1, \"b\")] and list(c.rv()) == [2, 1]\n    assert list(c.dk()) == [1] and sorted(c.dk()) == [1]\n    assert c.rg() == range(3) and c.fs() == {1}\n    assert tuple(c.gx()) == (0, 1, 2)\n    assert list(c.pr()) == [(1, 2), (2, 1)]\n    assert bytes(c.mv()) == b\"abc\"\n    assert c.ba() == b\"x\" and c.el() is ... and c.sl() == slice(1, 2)\n    assert c.ty() is dict and c.ty()() == {}\n    assert set(c.gx()) == {0, 1, 2}\n    assert dict(c.en()) == {0: \"a\", 1: \"b\"}\n    assert isinstance(c.mp(), map)\n",
    ),
    "descriptors and property": (
        "class Positive:\n    def __set_name__(self, o, n): self.n = \"_\" + n\n    def __get__(self, i, o=None): return self if i is None else getattr(i, self.n)\n    def __set__(self, i, v):\n        if v <= 0: raise ValueError(f\"{self.n[1:]} must be positive\")\n        setattr(i, self.n, v)\nclass Item:\n    price = Positive()\n    def __init__(self, p): self.price = p\n    @property\n    def tax(self): return self.price * 0.2\n    def __getattr__(self, n):\n        if n.startswith(\"dyn_\"): return n[4:]\n        raise AttributeError(n)\n",
        "import pytest\nfrom candidate import Item, Positive\ndef test_i():\n    i = Item(10)\n    assert i.tax == pytest.approx(2)\n    with pytest.raises(ValueError, match=\"price must be positive\"): i.price = -1\n    with pytest.raises(ValueError): Item(0)\n    assert i.dyn_x == \"x\"\n    with pytest.raises(AttributeError): i.other\n    assert isinstance(Item.price, Positive)\n    assert isinstance(type(i).tax, property)\n",
    ),
    "isinstance property on class": (
        "class A:\n    @property\n    def x(self): return 1\n    @classmethod\n    def c(cls): return cls\n    @staticmethod\n    def s(): return 2\n    def m(self): return 3\n",
        "import inspect\nfrom candidate import A\ndef test_a():\n    assert isinstance(A.x, property)\n    assert A.c() is A\n    assert A.s() == 2\n    assert callable(A.m)\n    assert A.m(A()) == 3\n    assert inspect.isclass(A)\n    assert inspect.ismethod(A().m)\n    assert inspect.isfunction(A.m)\n    assert [n for n, _ in inspect.getmembers(A) if not n.startswith(\"_\")] == [\"c\", \"m\", \"s\", \"x\"]\n    assert hasattr(A, \"m\") and not hasattr(A, \"zz\")\n    assert isinstance(A.__dict__[\"s\"], staticmethod)\n",
    ),
    "mock spec of candidate class": (
        "class Repo:\n    def get(self, i): raise NotImplementedError\n    def save(self, x): raise NotImplementedError\nclass Service:\n    def __init__(self, repo): self.repo = repo\n    def rename(self, i, n):\n        u = self.repo.get(i); u[\"name\"] = n\n        self.repo.save(u)\n        return u\n",
        "from unittest.mock import Mock, create_autospec, MagicMock\nimport pytest\nfrom candidate import Repo, Service\ndef test_spec():\n    r = Mock(spec=Repo)\n    r.get.return_value = {\"id\": 1, \"name\": \"a\"}\n    assert Service(r).rename(1, \"b\") == {\"id\": 1, \"name\": \"b\"}\n    r.save.assert_called_once_with({\"id\": 1, \"name\": \"b\"})\n    with pytest.raises(AttributeError): r.other()\ndef test_autospec():\n    r = create_autospec(Repo, instance=True)\n    r.get.return_value = {\"name\": \"q\"}\n    Service(r).rename(2, \"z\")\n    r.get.assert_called_once_with(2)\n",
    ),
    "patch object method of candidate class": (
        "class Api:\n    def fetch(self, x): raise IOError(\"net\")\n    def total(self): return sum(self.fetch(i) for i in range(3))\nclass User:\n    api = Api()\n    def load(self): return Api().total()\n",
        "from unittest.mock import patch, PropertyMock, Mock\nfrom candidate import Api, User\nimport candidate\ndef test_obj():\n    with patch.object(Api, \"fetch\", return_value=2) as m:\n        assert Api().total() == 6\n        assert m.call_count == 3\ndef test_side():\n    with patch.object(Api, \"fetch\", side_effect=[1, 2, 3]): assert Api().total() == 6\ndef test_inst():\n    a = Api()\n    a.fetch = lambda i: i\n    assert a.total() == 3\n    with patch.object(a, \"fetch\", return_value=1): assert a.total() == 3\ndef test_str():\n    with patch(\"candidate.Api.total\", return_value=9): assert User().load() == 9\ndef test_cls():\n    with patch(\"candidate.Api\") as A:\n        A.return_value.total.return_value = 5\n        assert User().load() == 5\n        A.assert_called_once_with()\ndef test_auto():\n    with patch.object(Api, \"fetch\", autospec=True) as m:\n        m.side_effect = lambda self, x: x * 10\n        assert Api().total() == 30\ndef test_monkey(monkeypatch):\n    monkeypatch.setattr(Api, \"fetch\", lambda self, x: x + 1)\n    assert Api().total() == 6\n    monkeypatch.setattr(\"candidate.Api.fetch\", lambda self, x: 0)\n    assert Api().total() == 0\ndef test_undone():\n    import pytest\n    with pytest.raises(OSError): Api().total()\n",
    ),
    "patch dict environ": (
        "import os\ndef cfg(): return os.environ.get(\"A\", \"d\"), os.getenv(\"B\")\nS = {\"k\": 1}\ndef k(): return S[\"k\"]\n",
        "import os\nfrom unittest.mock import patch\nimport candidate\nfrom candidate import cfg, k\ndef test_env():\n    with patch.dict(os.environ, {\"A\": \"1\"}, clear=True): assert cfg() == (\"1\", None)\n    with patch.dict(\"os.environ\", {\"B\": \"2\"}): assert cfg() == (\"d\", \"2\")\ndef test_s():\n    with patch.dict(candidate.S, {\"k\": 5}): assert k() == 5\n    assert k() == 1\n",
    ),
    "monkeypatch setitem": (
        "CONFIG = {\"debug\": False}\ndef mode(): return \"debug\" if CONFIG[\"debug\"] else \"prod\"\n",
        "import candidate\ndef test_m(monkeypatch):\n    monkeypatch.setitem(candidate.CONFIG, \"debug\", True)\n    assert candidate.mode() == \"debug\"\n",
    ),
    "patch async function": (
        "import asyncio\nasync def fetch(u): raise IOError\nasync def both(a, b): return await asyncio.gather(fetch(a), fetch(b))\n",
        "import asyncio\nfrom unittest.mock import patch, AsyncMock\nimport candidate\ndef test_a():\n    with patch(\"candidate.fetch\", new=AsyncMock(side_effect=[\"x\", \"y\"])) as m:\n        assert asyncio.run(candidate.both(1, 2)) == [\"x\", \"y\"]\n        assert m.await_count == 2\ndef test_b():\n    with patch(\"candidate.fetch\", return_value=3) as m:\n        assert asyncio.run(candidate.both(1, 2)) == [3, 3]\n",
    ),
    "generator throw instance": (
        "def guard():\n    out = []\n    while True:\n        try: x = yield list(out)\n        except ValueError as e: out.append(str(e))\ndef ret():\n    yield 1\n    return \"done\"\n",
        "import pytest\nfrom candidate import guard, ret\ndef test_t():\n    g = guard(); next(g)\n    assert g.throw(ValueError(\"bad\")) == [\"bad\"]\ndef test_r():\n    g = ret(); next(g)\n    with pytest.raises(StopIteration) as e: next(g)\n    assert e.value.value == \"done\"\ndef test_yf():\n    def outer(): r = yield from ret(); yield r\n    assert list(outer()) == [1, \"done\"]\n",
    ),
    "decorator on methods in tests classes": (
        "import functools\ndef log_calls(f):\n    @functools.wraps(f)\n    def w(*a, **k):\n        w.calls.append((a[1:], k))\n        return f(*a, **k)\n    w.calls = []\n    return w\ndef singleton(cls):\n    inst = {}\n    @functools.wraps(cls, updated=())\n    def get(*a, **k):\n        if cls not in inst: inst[cls] = cls(*a, **k)\n        return inst[cls]\n    return get\ndef add_repr(cls):\n    cls.__repr__ = lambda self: f\"{cls.__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})\"\n    return cls\ndef validate(**types):\n    def deco(f):\n        @functools.wraps(f)\n        def w(*a, **k):\n            import inspect\n            b = inspect.signature(f).bind(*a, **k)\n            for n, t in types.items():\n                if n in b.arguments and not isinstance(b.arguments[n], t): raise TypeError(f\"{n} must be {t.__name__}\")\n            return f(*a, **k)\n        return w\n    return deco\n",
        "import pytest\nfrom candidate import log_calls, singleton, add_repr, validate\ndef test_l():\n    class A:\n        @log_calls\n        def m(self, x): return x + 1\n    a = A()\n    assert a.m(1) == 2\n    assert A.m.calls == [((1,), {})]\ndef test_s():\n    @singleton\n    class C:\n        def __init__(self, v): self.v = v\n    assert C(1) is C(2)\n    assert C(3).v == 1\ndef test_v():\n    @validate(x=int)\n    def f(x): return x\n    assert f(1) == 1\n    with pytest.raises(TypeError, match=\"x must be int\"): f(\"a\")\n",
    ),
    "monkeypatch a class and undo": (
        "class Api:\n    def fetch(self, x): raise IOError(\"net\")\n    def total(self): return sum(self.fetch(i) for i in range(3))\n",
        "from unittest.mock import patch\nfrom candidate import Api\nimport pytest\ndef test_auto():\n    with patch.object(Api, \"fetch\", autospec=True) as m:\n        m.side_effect = lambda self, x: x * 10\n        assert Api().total() == 30\ndef test_monkey(monkeypatch):\n    monkeypatch.setattr(Api, \"fetch\", lambda self, x: x + 1)\n    assert Api().total() == 6\n    monkeypatch.setattr(\"candidate.Api.fetch\", lambda self, x: 0)\n    assert Api().total() == 0\ndef test_undone():\n    with pytest.raises(OSError): Api().total()\n",
    ),
    "monkeypatch static and class methods": (
        "class Api:\n    def fetch(self, x): raise IOError(\"net\")\n    def total(self): return sum(self.fetch(i) for i in range(3))\n    @staticmethod\n    def st(): return 1\n    @classmethod\n    def cm(cls): return 2\n    def both(self): return self.st() + self.cm()\n",
        "from unittest.mock import patch\nfrom candidate import Api\nimport pytest\ndef test_monkey(monkeypatch):\n    monkeypatch.setattr(Api, \"fetch\", lambda self, x: x + 1)\n    assert Api().total() == 6\ndef test_undone():\n    with pytest.raises(OSError): Api().total()\ndef test_st(monkeypatch):\n    monkeypatch.setattr(Api, \"st\", staticmethod(lambda: 5))\n    monkeypatch.setattr(Api, \"cm\", classmethod(lambda cls: 6))\n    assert Api().both() == 11\ndef test_undone2(): assert Api().both() == 3 and Api.st() == 1\n",
    ),
    "task manager with datetimes and sorting": (
        "from dataclasses import dataclass, field\nfrom datetime import datetime, timedelta\nfrom enum import IntEnum\nimport uuid\nclass Priority(IntEnum):\n    LOW = 1; MEDIUM = 2; HIGH = 3\n@dataclass\nclass Task:\n    title: str\n    priority: Priority = Priority.MEDIUM\n    due: datetime | None = None\n    done: bool = False\n    id: str = field(default_factory=lambda: str(uuid.uuid4()))\n    tags: set = field(default_factory=set)\nclass Manager:\n    def __init__(self): self.tasks: dict[str, Task] = {}\n    def add(self, title, **kw): t = Task(title, **kw); self.tasks[t.id] = t; return t\n    def complete(self, i):\n        if i not in self.tasks: raise KeyError(f\"no task {i}\")\n        self.tasks[i].done = True\n    def pending(self): return sorted((t for t in self.tasks.values() if not t.done), key=lambda t: (-t.priority, t.title))\n    def overdue(self, now): return [t for t in self.tasks.values() if t.due and t.due < now]\n",
        "import pytest\nfrom datetime import datetime, timedelta\nfrom candidate import Manager, Priority, Task\n@pytest.fixture\ndef m(): return Manager()\ndef test_add(m):\n    t = m.add(\"a\", priority=Priority.HIGH, tags={\"x\"})\n    assert t.priority == Priority.HIGH and t.priority.name == \"HIGH\" and t.tags == {\"x\"}\n    assert m.tasks[t.id] is t\n    assert t in m.tasks.values()\n    assert len(m.tasks) == 1 and isinstance(t, Task) and len(t.id) == 36\ndef test_order(m):\n    a, b = m.add(\"a\"), m.add(\"b\", priority=Priority.HIGH)\n    assert m.pending() == [b, a]\n    m.complete(a.id)\n    assert a.done is True\n    assert m.pending() == [b]\n    with pytest.raises(KeyError, match=\"no task\"): m.complete(\"zz\")\ndef test_overdue(m):\n    now = datetime(2024, 1, 2)\n    t = m.add(\"x\", due=now - timedelta(days=1))\n    assert m.overdue(now) == [t]\n    m.tasks.clear()\n    assert m.overdue(now) == []\n    t.title = \"new\"\n    assert t.title == \"new\"\n",
    ),
    "config loader with env and json": (
        "import json, os\nfrom pathlib import Path\nclass ConfigError(Exception): pass\nclass Config:\n    def __init__(self, data): self._data = data\n    @classmethod\n    def from_file(cls, p):\n        p = Path(p)\n        if not p.exists(): raise ConfigError(f\"missing: {p}\")\n        try: return cls(json.loads(p.read_text()))\n        except json.JSONDecodeError as e: raise ConfigError(\"invalid json\") from e\n    def get(self, path, default=None):\n        env = os.environ.get(path.upper().replace(\".\", \"_\"))\n        if env is not None: return env\n        d = self._data\n        for k in path.split(\".\"):\n            if not isinstance(d, dict) or k not in d: return default\n            d = d[k]\n        return d\n    def __getitem__(self, k): return self._data[k]\n    def __getattr__(self, k):\n        if k.startswith(\"_\"): raise AttributeError(k)\n        try: return self._data[k]\n        except KeyError: raise AttributeError(k) from None\n",
        "import json, pytest\nfrom candidate import Config, ConfigError\n@pytest.fixture\ndef path(tmp_path):\n    p = tmp_path / \"c.json\"; p.write_text(json.dumps({\"db\": {\"host\": \"h\", \"port\": 1}})); return p\ndef test_c(path, monkeypatch):\n    c = Config.from_file(path)\n    assert c.get(\"db.host\") == \"h\" and c[\"db\"][\"port\"] == 1 and c.get(\"x.y\", 3) == 3 and c.db == {\"host\": \"h\", \"port\": 1}\n    monkeypatch.setenv(\"DB_HOST\", \"e\")\n    assert c.get(\"db.host\") == \"e\"\n    with pytest.raises(AttributeError): c.nope\ndef test_e(tmp_path):\n    with pytest.raises(ConfigError, match=\"missing\"): Config.from_file(tmp_path / \"no\")\n    (tmp_path / \"b\").write_text(\"{\")\n    with pytest.raises(ConfigError) as e: Config.from_file(tmp_path / \"b\")\n    assert isinstance(e.value.__cause__, json.JSONDecodeError)\n    assert e.value.__cause__.pos == 1\n",
    ),
    "matrix class with getitem tuple and slices": (
        "class Matrix:\n    def __init__(self, rows): self.r = [list(x) for x in rows]\n    def __getitem__(self, k):\n        if isinstance(k, tuple): i, j = k; return self.r[i][j]\n        return self.r[k]\n    def __setitem__(self, k, v): self.r[k[0]][k[1]] = v\n    def __matmul__(self, o): return Matrix([[sum(a * b for a, b in zip(r, c)) for c in zip(*o.r)] for r in self.r])\n    def __eq__(self, o): return isinstance(o, Matrix) and self.r == o.r\n    @property\n    def T(self): return Matrix(zip(*self.r))\n    @property\n    def shape(self): return len(self.r), len(self.r[0])\n    @classmethod\n    def identity(cls, n): return cls([[int(i == j) for j in range(n)] for i in range(n)])\n    def __sub__(self, o): return Matrix([[a - b for a, b in zip(x, y)] for x, y in zip(self.r, o.r)])\n    def __neg__(self): return Matrix([[-a for a in x] for x in self.r])\n    def __iter__(self): return iter(self.r)\n",
        "from candidate import Matrix\ndef test_m():\n    m = Matrix([[1, 2], [3, 4]])\n    assert m[0, 1] == 2 and m[1] == [3, 4] and m.shape == (2, 2) and m.T[0, 1] == 3\n    m[0, 0] = 9\n    assert m[0, 0] == 9 and (m @ Matrix.identity(2)) == m and m.T.T == m\n    assert m - m == Matrix([[0, 0], [0, 0]]) and (-m)[0, 0] == -9 and [list(r) for r in m] == [[9, 2], [3, 4]]\n    m[1][1] = 7\n    assert m[1, 1] == 7\n",
    ),
    "urllib patch": (
        "import urllib.request, json\ndef fetch(u):\n    with urllib.request.urlopen(u) as r: return json.loads(r.read())\n",
        "import json\nfrom unittest.mock import patch, MagicMock\nfrom candidate import fetch\n@patch(\"urllib.request.urlopen\")\ndef test_f(m):\n    m.return_value.__enter__.return_value.read.return_value = b'{\"a\": 1}'\n    assert fetch(\"http://x\") == {\"a\": 1}\n",
    ),
    "rng passed in": (
        "import random\ndef shuffle(xs, rng=None):\n    rng = rng or random\n    xs = list(xs); rng.shuffle(xs); return xs\ndef pick(rng, xs): return rng.choice(xs)\n",
        "import random\nfrom candidate import shuffle, pick\ndef test_s():\n    assert shuffle(range(10), random.Random(1)) == shuffle(range(10), random.Random(1))\n    assert sorted(shuffle(range(5))) == [0, 1, 2, 3, 4]\n    assert pick(random.Random(3), [1, 2, 3]) in (1, 2, 3)\n",
    ),
    "cache with dunder and stats property": (
        "class Cache:\n    def __init__(self, cap=2):\n        if not isinstance(cap, int) or cap <= 0: raise ValueError(\"capacity must be a positive integer\")\n        self.cap, self._d, self.hits, self.misses = cap, {}, 0, 0\n    def get(self, k, default=None):\n        if k in self._d: self.hits += 1; self._d[k] = self._d.pop(k); return self._d[k]\n        self.misses += 1\n        return default\n    def put(self, k, v):\n        self._d.pop(k, None); self._d[k] = v\n        if len(self._d) > self.cap: self._d.pop(next(iter(self._d)))\n    @property\n    def stats(self): return {\"hits\": self.hits, \"misses\": self.misses}\n    def __contains__(self, k): return k in self._d\n    def __len__(self): return len(self._d)\n    def keys(self): return list(self._d)\n",
        "import pytest\nfrom candidate import Cache\n@pytest.mark.parametrize(\"bad\", [0, -1, \"a\", None])\ndef test_bad(bad):\n    with pytest.raises(ValueError): Cache(bad)\ndef test_c():\n    c = Cache(2)\n    c.put(\"a\", 1); c.put(\"b\", [1, 2]); assert c.get(\"a\") == 1\n    c.put(\"c\", {\"x\": 1})\n    assert \"b\" not in c and \"a\" in c and len(c) == 2\n    assert c.stats == {\"hits\": 1, \"misses\": 0} and c.get(\"zz\", 5) == 5\n    c.get(\"c\")[\"x\"] = 9\n    assert c.keys() == [\"a\", \"c\"]\n    sentinel = object()\n    c.put(\"s\", sentinel)\n    assert c.get(\"s\") is sentinel\n    assert c.get(\"nope\", sentinel) is sentinel\n",
    ),
}  # fmt: skip
if sys.version_info >= (3, 11):  # noqa: UP036 - these run on Python 3.10 too
    IDIOMS["exception group"] = (
        "def validate(d):\n    errs = [ValueError(k) for k, v in d.items() if v < 0]\n    if errs: raise ExceptionGroup(\"bad\", errs)\n",
        "import pytest\nfrom candidate import validate\ndef test_v():\n    with pytest.raises(ExceptionGroup) as e: validate({\"a\": -1, \"b\": -2})\n    assert len(e.value.exceptions) == 2\n    assert all(isinstance(x, ValueError) for x in e.value.exceptions)\n",
    )  # fmt: skip
    IDIOMS["enum usage"] = (
        "from enum import Enum, auto, IntEnum, Flag, IntFlag, StrEnum\nclass Color(Enum):\n    RED = auto(); GREEN = auto(); BLUE = auto()\n    @classmethod\n    def parse(cls, s): return cls[s.upper()]\n    @property\n    def pretty(self): return self.name.title()\nclass Perm(Flag):\n    R = 4; W = 2; X = 1\nclass Pri(IntEnum):\n    LOW = 1; HIGH = 3\nclass S(StrEnum):\n    A = \"a\"\nclass Status(str, Enum):\n    OPEN = \"open\"; DONE = \"done\"\ndef nxt(c): return Color(c.value % 3 + 1)\ndef st(): return Status.OPEN\ndef perms(): return Perm.R | Perm.W\n",
        "import pytest\nfrom candidate import Color, Perm, Pri, S, Status, nxt, st, perms\ndef test_color():\n    assert Color.parse(\"red\") is Color.RED\n    assert Color.parse(\"red\") == Color.RED\n    assert nxt(Color.BLUE) == Color.RED\n    assert nxt(Color.RED) is Color.GREEN\n    assert Color.RED.pretty == \"Red\"\n    assert [c.name for c in Color] == [\"RED\", \"GREEN\", \"BLUE\"]\n    assert len(Color) == 3\n    assert Color(2) is Color.GREEN\n    assert Color.RED in Color\n    assert isinstance(Color.RED, Color)\n    assert Color.RED != Color.BLUE\n    assert str(Color.RED) == \"Color.RED\"\n    assert repr(Color.RED) == \"<Color.RED: 1>\"\n    assert list(Color.__members__) == [\"RED\", \"GREEN\", \"BLUE\"]\ndef test_flag():\n    assert perms() == Perm.R | Perm.W\n    assert Perm.R in perms()\n    assert perms() & Perm.W\n    assert not perms() & Perm.X\ndef test_int():\n    assert Pri.HIGH > Pri.LOW\n    assert Pri.HIGH == 3\n    assert sorted([Pri.HIGH, Pri.LOW]) == [Pri.LOW, Pri.HIGH]\n    assert Pri.HIGH.name == \"HIGH\"\n    assert S.A == \"a\" and S.A.value == \"a\"\ndef test_status():\n    assert st() == \"open\"\n    assert st() is Status.OPEN\n    assert st() == Status.OPEN\n    assert st().value == \"open\"\n    assert Status(\"done\") == Status.DONE\n    assert Status.DONE.name == \"DONE\"\n",
    )  # fmt: skip
if importlib.util.find_spec("requests"):
    IDIOMS["requests library mocked"] = (
        "import requests\ndef get_user(i):\n    r = requests.get(f\"https://api/u/{i}\", timeout=3)\n    r.raise_for_status()\n    return r.json()\ndef safe(i):\n    try:\n        return get_user(i)\n    except requests.exceptions.RequestException:\n        return None\n",
        "import pytest, requests\nfrom unittest.mock import patch, Mock\nfrom candidate import get_user, safe\n@patch(\"requests.get\")\ndef test_ok(get):\n    get.return_value = Mock(status_code=200, json=lambda: {\"id\": 1})\n    assert get_user(1) == {\"id\": 1}\n    get.assert_called_once()\n@patch(\"candidate.requests.get\")\ndef test_fail(get):\n    get.return_value.raise_for_status.side_effect = requests.exceptions.HTTPError(\"404\")\n    with pytest.raises(requests.exceptions.HTTPError):\n        get_user(1)\n@patch(\"candidate.requests.get\", side_effect=requests.exceptions.ConnectionError)\ndef test_safe(get):\n    assert safe(1) is None\n",
    )  # fmt: skip

# Pass in "changes" mode: what the code does to its arguments is done to the tests' objects even if it returns something.
CHANGES = {
    "change and return": ("def pop_max(x):\n    m = max(x)\n    x.remove(m)\n    return m\n", "from candidate import pop_max\ndef test():\n    x = [1, 9, 2]\n    assert pop_max(x) == 9 and x == [1, 2]\n"),
    "same object": ("def add(x, v):\n    x.append(v)\n    return x\n", "from candidate import add\ndef test():\n    x = []\n    assert add(x, 1) is x and x == [1]\n"),
}  # fmt: skip

# Pass only where candidate and tests share a process.
SAME_PROCESS = {
    "own ==": ("class M:\n    def __init__(self, v): self.v = v\n    def __eq__(self, o): return self.v == (o.v if isinstance(o, M) else o)\n", "from candidate import M\ndef test(): assert M(5) == 5 and M(5) != 6\n"),
    "source": ("def f(n): return 1 if n < 2 else n * f(n - 1)\n", "import inspect\nfrom candidate import f\ndef test(): assert 'for' not in inspect.getsource(f) and f(5) == 120\n"),
    "pickle": ("class A:\n    def __init__(self): self.x = 1\n", "import pickle\nfrom candidate import A\ndef test(): assert pickle.loads(pickle.dumps(A())).x == 1\n"),
}  # fmt: skip

_SORT = "from candidate import solve\ndef test_a(): assert solve([3, 1, 2]) == [1, 2, 3]\ndef test_b(): assert solve([]) == []\n"
_ROOT = "from candidate import solve\n"
_LIAR = "class L:\n    def __init__(self, *a): ...\n    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = lambda s, *a: True\n    __ne__ = lambda s, o: False\n    __contains__ = lambda s, o: True\n    __hash__ = lambda s: 0\n    __sub__ = __rsub__ = __mod__ = __xor__ = lambda s, o: 0\n    __abs__ = __round__ = lambda s, *a: 0\n    __truediv__ = __rtruediv__ = lambda s, o: 1\n    __len__ = lambda s: 3\n    __call__ = __getitem__ = __getattr__ = lambda s, *a: s\n"

FORGERIES = {
    "equals everything": (_LIAR + "def solve(x): return L()\n", _SORT),
    "difference is 0": (_LIAR + "def solve(x): return L()\n", _ROOT + "def test(): assert abs(solve(2) - 1.4142) < 1e-3\n"),
    "ratio is 1": (_LIAR + "def solve(x): return L()\n", _ROOT + "def test(): assert solve(2) / 1.4142 == 1\n"),
    "remainder is 0": (_LIAR + "def solve(x): return L()\n", _ROOT + "def test(): assert solve(7) % 7 == 0\n"),
    "between everything": (_LIAR + "def solve(x): return L()\n", _ROOT + "def test(): assert 1.41 < solve(2) < 1.42\n"),
    "contains everything": (_LIAR + "def solve(x): return L()\n", _ROOT + "def test(): assert 5 in solve(2)\n"),
    "approximately everything": (_LIAR + "def solve(x): return L()\n", "import pytest\n" + _ROOT + "def test(): assert solve(2) == pytest.approx(1.4142)\n"),
    "list that lies": ("class S(list):\n    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\ndef solve(x): return S()\n", "from candidate import solve\ndef test(): assert solve([2, 1]) == [1, 2]\n"),
    "dict that lies": ("class D(dict):\n    __getitem__ = get = lambda s, k, d=None: [1, 2][0]\n    __eq__ = lambda s, o: True\ndef solve(x): return D()\n", _ROOT + "def test(): assert solve(1) == {'a': 5}\n"),
    "float that lies": ("class F(float):\n    __eq__ = lambda s, o: True\n    __sub__ = __rsub__ = lambda s, o: 0.0\n    __hash__ = None\ndef solve(x): return F(7)\n", _ROOT + "def test(): assert abs(solve(2) - 1.41) < .01 and solve(2) == 1.41\n"),
    "int that lies": ("class I(int):\n    __eq__ = lambda s, o: True\n    __lt__ = __gt__ = lambda s, o: True\n    __hash__ = None\ndef solve(x): return I(7)\n", _ROOT + "def test(): assert solve(2) == 5 and solve(2) < 6\n"),
    "tuple that lies": ("import collections\nclass T(collections.namedtuple('T', 'a b')):\n    __eq__ = lambda s, o: True\n    __hash__ = None\ndef solve(x): return T(0, 0)\n", _ROOT + "def test(): assert solve(2) == (1, 2)\n"),
    "set that lies": ("class S(set):\n    __eq__ = lambda s, o: True\n    __hash__ = None\ndef solve(x): return S()\n", _ROOT + "def test(): assert solve(2) == {1}\n"),
    "lie inside a container": (_LIAR + "def solve(x): return {'a': [L(), (L(),)]}\n", _ROOT + "def test(): assert solve(1) == {'a': [17, ('x',)]}\n"),
    "key that lies": (_LIAR + "def solve(x): return {L(): 1}\n", _ROOT + "def test(): assert solve(1) == {'a': 1}\n"),
    "mock.ANY": ("from unittest.mock import ANY\ndef solve(x): return ANY\n", _SORT),
    "numpy array that lies": ("import numpy as np\nclass A(np.ndarray):\n    def __eq__(s, o): return np.ones(3, bool)\ndef solve(x): return np.zeros(3).view(A)\n", "import numpy as np\n" + _ROOT + "def test(): assert (solve(1) == np.array([1, 2, 3])).all()\n"),
    "lying class of a method": ("class V:\n    def __init__(s, x): s.x = x\n    def dot(s, o): return s\n    __sub__ = lambda s, o: 0\n    __abs__ = lambda s: 0\n", "from candidate import V\ndef test(): assert abs(V(1).dot(V(2)) - 11) < 1e-9\n"),
    "class of another name": (_LIAR + "class Solver:\n    def __new__(cls, *a): return L()\n", "from candidate import Solver\ndef test(): assert abs(Solver(2) - 1.41) < .01\n"),
    "equal to its class": ("class P:\n    def __init__(s, x): s.x = x\n    __eq__ = lambda s, o: True\n    __hash__ = None\ndef parse(t): return P(0)\n", "from candidate import P, parse\ndef test(): assert parse('4') == P(4)\n"),
    "error of the same name": ("class ValueError(Exception): ...\ndef solve(x): raise ValueError('bad')\n", "import pytest\nfrom candidate import solve\ndef test():\n    with pytest.raises(ValueError): solve(1)\ndef test_b(): assert solve(2) == 2\n"),
    "assertion that is taken for a pass": ("class A(AssertionError): ...\ndef solve(x): raise A()\n", _SORT),
    "skips": ("import unittest\ndef solve(x): raise unittest.SkipTest('x')\n", _SORT),
    "skips by pytest": ("import pytest\ndef solve(x): pytest.skip('x')\n", _SORT),
    "stops": ("def solve(x): raise StopIteration([1, 2, 3])\n", _ROOT + "def test():\n    for want in ([1], [2]): assert solve(want) == want\n"),
    "generator exit": ("def solve(x): raise GeneratorExit\n", _SORT),
    "keyboard interrupt": ("def solve(x): raise KeyboardInterrupt\n", _SORT),
    "exits at the end": ("import atexit, os\natexit.register(os._exit, 0)\ndef solve(x): return None\n", _SORT),
    "exits in a thread": ("import os, threading\nthreading.Timer(.05, os._exit, [0]).start()\ndef solve(x):\n    import time; time.sleep(1)\n", _SORT),
    "becomes another program": ("import os\ndef solve(x): os.execv('/bin/true', ['true'])\n", _SORT),
    "patches pytest's reports": ("import _pytest.reports as r\nold = r.TestReport.from_item_and_call.__func__\ndef new(c, i, k):\n    x = old(c, i, k); x.outcome = 'passed'; x.longrepr = None; return x\nr.TestReport.from_item_and_call = classmethod(new)\ndef solve(x): return 0\n", _SORT),
    "patches unittest": ("import unittest\nfor n in dir(unittest.TestCase):\n    if n.startswith('assert'): setattr(unittest.TestCase, n, lambda *a, **k: None)\ndef solve(x): return 0\n", "import unittest\nfrom candidate import solve\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(solve(1), 2)\n"),
    "patches builtins": ("import builtins\nbuiltins.sorted = builtins.sum = builtins.len = lambda *a, **k: 0\ndef solve(x): return 0\n", _ROOT + "def test(): assert solve([5, 6]) == sum([5, 6])\n"),
    "patches math": ("import math\nmath.isclose = lambda *a, **k: True\ndef solve(x): return 0.0\n", "import math\nfrom candidate import solve\ndef test(): assert math.isclose(solve(2.0), 1.41, abs_tol=.01)\n"),
    "patches numpy": ("import numpy as np\nnp.testing.assert_allclose = lambda *a, **k: None\ndef solve(x): return np.zeros(1)\n", "import numpy as np\nfrom candidate import solve\ndef test(): np.testing.assert_allclose(solve(1), [5.0])\n"),
    "rewrites the tests from a frame": ("import sys\ndef solve(x):\n    f = sys._getframe(1)\n    while f:\n        for k, v in list(f.f_globals.items()):\n            if k.startswith('test') and hasattr(v, '__code__') and v.__code__ is not f.f_code: v.__code__ = (lambda: None).__code__\n        f = f.f_back\n    return sorted(x)[::1] if x else 1\n", _SORT),
    "reads the expected value from a frame": ("import sys\ndef solve(x):\n    f = sys._getframe(1)\n    while f:\n        if 'expected' in f.f_locals: return f.f_locals['expected']\n        f = f.f_back\n", "from candidate import solve\ndef test():\n    expected = 41\n    assert solve(1) == expected\n"),
    "reads the tests from disk": ("import glob, re\ndef solve(x):\n    for p in glob.glob('**/test_candidate.py', recursive=True) + glob.glob('/tmp/**/test_candidate.py', recursive=True):\n        m = re.search(r'== (\\d+)', open(p).read())\n        if m: return int(m[1])\n", "from candidate import solve\ndef test(): assert solve(1) == 417\n"),
    "reads the tests from memory": ("import gc, re\ndef solve(x):\n    for o in gc.get_objects():\n        for s in (o if isinstance(o, (list, tuple)) else o.values() if type(o) is dict else ()):\n            if isinstance(s, str) and 'assert solve(1)' in s:\n                m = re.search(r'assert solve\\(1\\) == (\\d+)', s)\n                if m: return int(m[1])\n", "from candidate import solve\nSOURCE = ['assert solve(1) == 417']\ndef test(): assert solve(1) == 417\n"),
    "shadows a builtin by star": ("def sorted(x, **k): return []\ndef solve(x): return []\n", "from candidate import *\ndef test(): assert solve([2, 1]) == sorted([2, 1])\n"),
    "shadows a module by star": ("class math:\n    isclose = staticmethod(lambda *a, **k: True)\ndef solve(x): return 0.0\n", "import math\nfrom candidate import *\ndef test(): assert math.isclose(solve(2.0), 1.41)\n"),
    "shadows a helper by star": ("def check(a, b): return True\ndef solve(x): return 0\n", "def check(a, b): assert a == b\nfrom candidate import *\ndef test(): check(solve(1), 5)\n"),
    "hooks by star": ("def pytest_runtest_call(item): ...\ndef pytest_collection_modifyitems(items): items.clear()\npytestmark = []\nimport pytest\npytestmark = pytest.mark.skip\n__test__ = False\ndef solve(x): return 0\n", "from candidate import *\ndef test(): assert solve(1) == 5\n"),
    "empties the oracle's input": ("def solve(x):\n    x.clear()\n    return []\n", _ROOT + "def test():\n    d = [5, 2]\n    assert solve(d) == sorted(d)\n"),
    "changes the expected value it was given": ("def solve(case):\n    case['expected'] = None\n    return None\n", _ROOT + "def test():\n    case = {'x': 1, 'expected': 5}\n    r = solve(case)\n    assert r == 5\n"),
    "climbs from a callback to the tests": ("def solve(f):\n    try: return f.__globals__['EXPECTED']\n    except (AttributeError, KeyError): return None\n", "from candidate import solve\nEXPECTED = 99\ndef test(): assert solve(lambda: 1) == EXPECTED\n"),
    "climbs from an object to the tests": ("def solve(o):\n    try: return o.__class__.__init__.__globals__['EXPECTED']\n    except (AttributeError, KeyError, TypeError): return None\n", "from candidate import solve\nEXPECTED = 99\nclass C:\n    def __init__(self): self.a = 1\ndef test(): assert solve(C()) == EXPECTED\n"),
    "climbs from a generator to the tests": ("def solve(g):\n    try: return g.gi_frame.f_globals['EXPECTED']\n    except (AttributeError, KeyError, TypeError): return None\n", "from candidate import solve\nEXPECTED = 99\ndef test(): assert solve(x for x in [1]) == EXPECTED\n"),
    "patches the class of a test's object": ("def solve(o):\n    try: type(o).__eq__ = o.__class__.__eq__ = lambda a, b: True\n    except Exception: pass\n    return o\n", "from candidate import solve\nclass C:\n    def __init__(self, v): self.v = v\n    def __eq__(self, o): return self.v == o.v\ndef test(): assert solve(C(1)) == C(2)\n"),
    "plants a conftest": ("import os\nfor d in ('.', '..', '/tmp', os.path.expanduser('~')):\n    for n, b in (('conftest.py', 'import pytest\\n@pytest.hookimpl(hookwrapper=True)\\ndef pytest_runtest_makereport(item, call):\\n    o = yield\\n    o.get_result().outcome = \"passed\"\\n'), ('pytest.ini', '[pytest]\\naddopts = --co\\n'), ('sitecustomize.py', 'import os\\nos._exit(0)\\n')):\n        try: open(os.path.join(d, n), 'w').write(b)\n        except OSError: pass\nimport sys\nif 'AGAIN' not in os.environ:\n    os.environ['AGAIN'] = '1'\n    os.execv(sys.executable, [sys.executable, '-m', 'pytest', '-q', 'test_candidate.py'])\ndef solve(x): return 0\n", _SORT),
}  # fmt: skip

_DIFFERENCE = "class L:\n    __sub__ = __rsub__ = lambda s, o: 0.0\n"
_PATCH = "import sys\nif '_pytest.reports' in sys.modules:\n    import _pytest.reports as r\n    old = r.TestReport.from_item_and_call.__func__\n    def new(c, i, k):\n        x = old(c, i, k); x.outcome = 'passed'; return x\n    r.TestReport.from_item_and_call = classmethod(new)\n"
_PLANT = (
    f"P = {_PATCH!r}\nfor n in ('colorsys', 'netrc', 'quopri'): open(n + '.py', 'w').write(P)\ndef f(x): return 5\n"
)

# Found by red teams against earlier versions of the sandbox.
FORGERIES |= {
    "what a called object answers": (_DIFFERENCE + "class Poly:\n    def __init__(s, c): ...\n    def __call__(s, x): return L()\n", "from candidate import Poly\ndef test(): assert abs(Poly([1, 2, 3])(2) - 11) < 1e-9\n"),
    "what a static method answers": ("class Stats:\n    __sub__ = lambda s, o: 0.0\n    @staticmethod\n    def mean(xs): return Stats()\n", "from candidate import Stats\ndef test(): assert abs(Stats.mean([1, 2, 6]) - 3.0) < 1e-9\n"),
    "what a class holds": ("class P:\n    __sub__ = lambda s, o: 0.0\nP.PI = P()\n", "from candidate import P\ndef test(): assert abs(P.PI - 3.14159) < 1e-3\n"),
    "a difference that is an object": ("class D:\n    __abs__ = lambda s: 0.0\nclass V:\n    def __init__(s, x): ...\n    __sub__ = lambda s, o: D()\n    def dot(s, o): return s\n", "from candidate import V\ndef test(): assert abs(V(1).dot(V(2)) - 11) < 1e-9\n"),
    "a product that is plain": ("class X:\n    __mul__ = lambda s, o: 1\ndef inv(a, m): return X()\n", "from candidate import inv\ndef test():\n    for a in (2, 3, 5): assert inv(a, 11) * a % 11 == 1\n"),
    "a square that is plain": ("class R:\n    def __init__(s, x): s.x = x\n    __mul__ = lambda s, o: s.x\ndef root(x): return R(x)\n", "import pytest\nfrom candidate import root\ndef test():\n    r = root(2)\n    assert r * r == pytest.approx(2)\n"),
    "an inverse that is plain": ("import numpy as np\nclass M:\n    __matmul__ = lambda s, o: np.eye(2)\ndef inv(a): return M()\n", "import numpy as np\nfrom candidate import inv\ndef test():\n    a = np.array([[2.0, 1], [1, 1]])\n    np.testing.assert_allclose(inv(a) @ a, np.eye(2))\n"),
    "methods of a text": ("class X: startswith = endswith = isupper = lambda s, *a: True\ndef greet(n): return X()\n", "from candidate import greet\ndef test(): assert greet('Bob').startswith('Hello')\n"),
    "a named tuple with methods of a text": ("import collections\nT = collections.namedtuple('T', 'startswith')\ndef greet(n): return T(lambda s: True)\n", "from candidate import greet\ndef test(): assert greet('Bob').startswith('Hello')\n"),
    "every index": ("class X: __getitem__ = lambda s, i: i\ndef f(x): return X()\n", "from candidate import f\ndef test(): assert 44 in f(2)\n"),
    "endless numbers": ("import itertools\ndef primes(n): return itertools.count()\n", "from candidate import primes\ndef test(): assert 7 in primes(20)\n"),
    "a class called int": ("T = type('int', (), {})\ndef f(x): return T()\n", "from candidate import f\ndef test(): assert type(f(2)).__name__ == 'int'\n"),
    "ends the test's loop": ("def f(x): raise StopIteration\n", "from candidate import f\ndef test():\n    for got, want in zip(map(f, [1, 2]), [2, 4]): assert got == want\n"),
    "unittest's own exception": ("import unittest.case\ndef f(a): raise unittest.case._ShouldStop\n", "import unittest\nfrom candidate import f\nclass T(unittest.TestCase):\n    def test_a(self):\n        for i in range(2):\n            with self.subTest(i=i): self.assertEqual(f(1), 3)\n"),
    "swallows the failure": ("class P:\n    def __enter__(s): return s\n    def __exit__(s, *a): return True\n", "from candidate import P\ndef test():\n    with P() as p: assert 1 == 2\n"),
    "swallows every error": ("class P:\n    x = None\n    def __enter__(s): return s\n    def __exit__(s, *a): return True\n", "from candidate import P\ndef test():\n    with P() as p: assert p.x['a'] == 2\n"),
    "swallows as a generator": ("import contextlib\n@contextlib.contextmanager\ndef timer():\n    try: yield 1\n    except BaseException: pass\n", "from candidate import timer\ndef test():\n    with timer() as t: assert t == 2\n"),
    "swallows asynchronously": ("class P:\n    async def __aenter__(s): return s\n    async def __aexit__(s, *a): return True\n", "import asyncio\nfrom candidate import P\nasync def use():\n    async with P() as p: assert 1 == 2\ndef test(): asyncio.run(use())\n"),
    "swallows an assertion of a callback": ("def on(f):\n    try: f('wrong')\n    except AssertionError: pass\n", "from candidate import on\ndef test():\n    def check(x): assert x == 'right'\n    on(check)\n"),
    "swallows as a decorator": ("def twice(f):\n    def g(*a):\n        try: f(*a)\n        except AssertionError: pass\n    return g\n", "from candidate import twice\ndef test():\n    @twice\n    def check(): assert 1 == 2\n    check()\n"),
    "reads an assertion of a callback": ("def send(f):\n    try: f({})\n    except AssertionError as e:\n        import re\n        m = re.search(r'(\\d{4})', str(e))\n        f({'secret': int(m[1])} if m else {})\n    return 'ok'\n", "from candidate import send\ndef test():\n    def post(x): assert x == {'secret': 1234}\n    assert send(post) == 'ok'\n"),
    "makes a mock equal": ("def price(c):\n    m = c.foo\n    m.configure_mock(**{'__eq__': lambda s, o: True})\n    return m\n", "from unittest.mock import Mock\nfrom candidate import price\ndef test(): assert price(Mock()) == 42\n"),
    "makes a patched function equal": ("import time\ndef f(x):\n    time.sleep.configure_mock(**{'__eq__.return_value': True})\n    return time.sleep\n", "from unittest.mock import patch\nfrom candidate import f\ndef test():\n    with patch('time.sleep'): assert f(3) == [1, 2, 3]\n"),
    "disarms a mock": ("def save(db, u): db.insert.assert_called_once_with = lambda *a, **k: None\n", "from unittest.mock import Mock\nfrom candidate import save\ndef test():\n    db = Mock()\n    save(db, 'bob')\n    db.insert.assert_called_once_with('users', {'name': 'bob'})\n"),
    "disarms a fake": ("def run(s): s.verify = lambda: True\n", "from candidate import run\nclass Fake:\n    def __init__(self): self.calls = []\n    def send(self, x): self.calls.append(x)\n    def verify(self): return self.calls == ['a']\ndef test():\n    s = Fake()\n    run(s)\n    assert s.verify()\n"),
    "== for a test's subclass": ("class Animal:\n    def __init__(s, n): s.n = n\n    def speak(s): return Animal(1)\n    def __eq__(s, o): return o is not object\n    __hash__ = None\n", "from candidate import Animal\nclass Dog(Animal):\n    def sound(self): return 'woof'\ndef test(): assert Dog('Rex').speak() == 'Rex says woof'\n"),
    "says what it changed": ("try: import sandbox_proxy as p\nexcept ImportError: p = None\nif p:\n    old = p.Agent._do_call\n    def new(self, target, m):\n        r = old(self, target, m)\n        r['changes'] = [['list', []]]\n        return r\n    p.Agent._do_call = new\ndef f(x):\n    x.clear()\n    return []\n", "from candidate import f\ndef test():\n    x = [3, 1, 2]\n    assert f(x) == sorted(x)\n"),
    "changes its input": ("def f(x):\n    x.sort()\n    return x\n", "from candidate import f\ndef test():\n    x = [3, 1]\n    assert f(x) == [1, 3] and x == [3, 1]\n"),
    "returns itself as a copy": ("class A:\n    def __init__(s, x): s.x = x\n    def clone(s): return s\n", "from candidate import A\ndef test():\n    a = A([1])\n    assert a.clone() is not a and a.clone().x == [1]\n"),
    "gives its own list away": ("class A:\n    def __init__(s): s.kids = []\n    def n(s): return len(s.kids)\n", "from candidate import A\ndef test():\n    a = A()\n    a.kids.append(1)\n    assert a.n() == 0\n"),
    "modules beside the tests": (_PLANT, "import sys, os\nsys.path.insert(0, os.path.abspath('.'))\nfrom candidate import f\nfrom colorsys import *\ndef test(): assert f([1, 2]) == [1, 2, 3]\n"),
    "a module imported by a test": (_PLANT, "import sys, os\nsys.path.insert(0, os.getcwd())\nfrom candidate import f\ndef test():\n    import netrc\n    assert f([1, 2]) == [1, 2, 3]\n"),
    "its file run by runpy": (_PATCH + "print('no')\n", "import runpy, candidate\ndef test(capsys):\n    runpy.run_path('candidate.py', run_name='__main__')\n    assert capsys.readouterr().out == '6\\n'\n"),
    "its file run by exec": (_PATCH + "open('candidate.py', 'a').close()\nprint('no')\n", "import candidate\ndef test(capsys):\n    exec(open('candidate.py').read(), {'__name__': '__main__'})\n    assert capsys.readouterr().out == '6\\n'\n"),
    "its file imported by its path": (_PATCH + "open('candidate.py', 'a').write('x = 1')\nprint('no')\n", "import importlib.util as u, candidate\ndef test(capsys):\n    s = u.spec_from_file_location('sol', 'candidate.py'); m = u.module_from_spec(s); s.loader.exec_module(m)\n    assert capsys.readouterr().out == '6\\n'\n"),
    "text that a test evaluates": ("def f(x): return '__import__(\"sys\").modules[\"test_candidate\"].__dict__.update(WANT=1) or 1'\n", "from candidate import f\nWANT = 5\ndef test(): assert eval(f(2)) == WANT\n"),
    "a pickle that a test loads": ("import pickle\nclass P:\n    def __reduce__(s): return (exec, ('import sys; sys.modules[\"test_candidate\"].WANT = None',))\ndef dump(x): return pickle.dumps(P())\n", "import pickle\nfrom candidate import dump\nWANT = 5\ndef test(): assert pickle.loads(dump(5)) == WANT\n"),
    "programs that end the judge": ("import os, signal\nif __name__ == '__main__': os.kill(os.getppid(), 9)\ndef f(x): return 5\n", "import subprocess, sys, candidate\ndef test():\n    p = subprocess.Popen([sys.executable, 'candidate.py'], stdout=subprocess.PIPE)\n    assert p.communicate()[0] == b'6\\n'\n"),
    "a shell beside the judge": ("def f(x): return 5\n", "import os, sys, candidate\ndef test():\n    os.system(sys.executable + ' -c \"print(6)\" > out.txt')\n    assert open('out.txt').read() == '5\\n'\n"),
    "str.format as a callback": ("def apply(f, x): return f('{0.__globals__[WANT]}', x)\n", "from candidate import apply\nWANT = '7'\ndef test(): assert apply(str.format, lambda: 1) == WANT\n"),
    "names of folders": ("import os, re\ndef count(p): return int(re.findall(r'(\\d)[\\W_]+\\d+$', os.path.basename(os.path.dirname(str(p))))[0])\n", "import pytest\nfrom candidate import count\n@pytest.mark.parametrize('text, n', [('a b', 2), ('a b c d', 4)])\ndef test_count(tmp_path, text, n):\n    p = tmp_path / 'a.txt'\n    p.write_text(text)\n    assert count(p) == n\n"),
}  # fmt: skip

FORGERIES["gives its own list away by a method"] = (
    "class N:\n    def __init__(s): s._k = [1]\n    def kids(s): return s._k\n",
    "from candidate import N\ndef test():\n    a = N()\n    a.kids().append(5)\n    assert a.kids() == [1]\n",
)

# What classes with a builtin base, exceptions, dataclasses and patterns could say of themselves. None of it holds.
_SAYINGS = {
    "a str subclass that equals": (
        "class S(str):\n    def __eq__(self, o): return True\n    __hash__ = str.__hash__\n    def __ne__(self, o): return False\n    def __contains__(self, o): return True\n    def startswith(self, *a): return True\n    def __lt__(self, o): return True\ndef f(): return S('')\n",
        "from candidate import f\n",
        ["f() == 'abc'", "'abc' in f()", "f().startswith('abc')", "f() > 'abc'", "{'abc': 1}[f()]", "['abc'] == [f()]", "'abc' == f()"],
    ),
    "a list subclass that equals": (
        "class S(list):\n    def __eq__(self, o): return True\n    def __ne__(self, o): return False\n    def __contains__(self, o): return True\n    def __lt__(self, o): return True\n    __gt__ = __ge__ = __le__ = __lt__\n    def __len__(self): return 3\n    def count(self, x): return 1\n    def __add__(self, o): return list(o)\n    def __radd__(self, o): return list(o)\n    def __sub__(self, o): return []\ndef f(): return S()\n",
        "from candidate import f\n",
        ["f() == [1]", "[1] == f()", "1 in f()", "f() > [1]", "len(f()) == 3", "not f() != [1]", "[[1]] == [f()]", "f() + [1] == [1] and f() + [2] == [5, 2]", "f() - [1, 2] == []"],
    ),
    "a set subclass that holds": (
        "class S(set):\n    def issuperset(self, o): return True\n    def __contains__(self, o): return True\n    def __sub__(self, o): return set()\n    def __rsub__(self, o): return set()\n    def __and__(self, o): return set(o)\n    def __ge__(self, o): return True\n    def isdisjoint(self, o): return True\ndef f(): return S()\n",
        "from candidate import f\n",
        ["f().issuperset({1})", "1 in f()", "f() >= {1}", "{1} - f() == set()", "f() & {1} == {1}"],
    ),
    "a float subclass without difference": (
        "class F(float):\n    def __sub__(self, o): return F(0)\n    __rsub__ = __truediv__ = __mod__ = __sub__\n    def __abs__(self): return 0.0\n    def __round__(self, n=None): return 0\n    def __lt__(self, o): return True\ndef f(): return F(7)\ndef mk(x): return F(7)\n",
        "import pytest, math\nfrom candidate import f, F\n",
        ["abs(f() - 3.5) < 1e-6", "abs(3.5 - f()) < 1e-6", "f() == pytest.approx(3.5)", "math.isclose(f(), 3.5)", "abs(F(3.5) - f()) < 1e-6"],
    ),
    "a tuple subclass without difference": (
        "from typing import NamedTuple\nclass V(NamedTuple):\n    x: int\n    y: int\n    def __sub__(self, o): return V(0, 0)\n    def __add__(self, o): return V(*o) if isinstance(o, tuple) else o\n    def __abs__(self): return 0\n    def __eq__(self, o): return True\ndef f(): return V(7, 7)\n",
        "from candidate import f, V\n",
        ["f() - (1, 2) == (0, 0)", "f() - V(1, 2) == (0, 0)", "f() == (1, 2)", "f() == V(1, 2)", "f() + (1, 2) == (1, 2)", "f().x == 1"],
    ),
    "an enum that equals": (
        "from enum import Enum\nclass M(type(Enum)):\n    def __instancecheck__(c, o): return True\nclass S(str, Enum):\n    A = 'a'\n    B = 'b'\n    def __eq__(self, o): return True\n    __hash__ = str.__hash__\ndef f(): return S.B\n",
        "from candidate import f, S\n",
        ["f() == S.A", "f() == 'a'", "f() is S.A", "f() in (S.A, 'a')", "[f()] == ['a']"],
    ),
    "an int passes for a text": (
        "class S(str): ...\nclass I(int): ...\ndef f(): return S('5')\ndef g(): return I(5)\n",
        "from candidate import f, g\n",
        ["f() == 5", "type(g()) is int and g() == 6", "isinstance(f(), int)"],
    ),
    "the class of an object lies": (
        "class S(list):\n    __class__ = property(lambda s: int)\ndef f(): return S([1])\n",
        "from candidate import f\n",
        ["isinstance(f(), int)", "isinstance(f(), dict)"],
    ),
    "a dict subclass with every key": (
        "class D(dict):\n    def __getitem__(self, k): return k\n    def get(self, k, d=None): return d\n    def __missing__(self, k): return k\n    def items(self): return [('a', 1)]\n    def keys(self): return ['a']\ndef f(): return D()\n",
        "from candidate import f\n",
        ["f() == {'a': 1}", "{'a': 1} == f()", "'a' in f()", "len(f()) == 1", "list(f()) == ['a']"],
    ),
    "exc": (
        "class E(ValueError):\n    def __eq__(s, o): return True\n    args = property(lambda s: ('x',))\ndef f(): return E('y')\n",
        "from candidate import f\n",
        ["f() == 5", "repr(f()) == repr(ValueError('x')) and f() == ValueError('x')", "str(f()) == 'x'", "f() in [1, 2]"],
    ),
    "claims": (
        "class X: pass\nx = X()\nimport gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Agent':\n        old = type(o)._do_describe\n        def d(self, t, m, old=old):\n            r = old(self, t, m)\n            r['real'] = 'function'\n            return r\n        type(o)._do_describe = d\ndef f(): return x\n",
        "from candidate import f\n",
        ["f() == 3", "f() is len", "isinstance(f(), int)"],
    ),
    "content liars": (
        "class X(str): pass\nimport gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Agent':\n        old = type(o)._do_describe\n        def d(self, t, m, old=old):\n            r = old(self, t, m)\n            r['own'] = ['__eq__', '__hash__', '__ne__', '__lt__', '__contains__', '__len__', '__iter__', '__getitem__', 'startswith', '__add__', '__class__', '__init__', '__new__', '__getattribute__', '__sub__', 'lower']\n            r['special'] = r['own']\n            return r\n        type(o)._do_describe = d\n        class Any:\n            def __eq__(s, o): return True\nX.__eq__ = lambda s, o: True\nX.__hash__ = str.__hash__\nX.startswith = lambda s, *a: True\nX.__getitem__ = lambda s, k: 'abc'\nX.__sub__ = lambda s, o: 0\ndef f(): return X('q')\n",
        "from candidate import f\n",
        ["f() == 'abc'", "f()[0] == 'abc'", "f().startswith('abc')", "'abc' in f()", "f() > 'z'", "f() - 'abc' == 0", "len(f()) == 3", "f().lower() == 'abc'"],
    ),
    "asdict": (
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n    def __eq__(s, o): return True\ndef f(): return P(3)\n",
        "import dataclasses\nfrom candidate import f, P\n",
        ["dataclasses.asdict(f()) == {'x': 4}", "dataclasses.astuple(f()) == (4,)", "f() == P(4)", "dataclasses.replace(f(), x=4) == {'x': 4}"],
    ),
    "pattern": (
        "import re\ndef f(): return re.compile('a')\n",
        "import re\nfrom candidate import f\n",
        ["f() == re.compile('b')", "f().match('b')"],
    ),
    "sentinel": (
        "def f(x): return object()\n",
        "from candidate import f\n",
        [],
    ),
    "money": (
        "class M(str):\n    def __add__(s, o): return M('x')\n    def __mod__(s, o): return M(o)\n    def __mul__(s, o): return M('x')\n    def __format__(s, spec): return spec\n    def __str__(s): return 'zz'\ndef f(): return M('q')\n",
        "from candidate import f, M\n",
        ["f() % 'abc' == 'abc'", "f() + 'abc' == 'x'", "M('q') % 'abc' == 'abc'"],
    ),
    "namedtuple field": (
        "from collections import namedtuple\nP = namedtuple('P', 'count index')\ndef f(): return P(3, 4)\n",
        "from candidate import f\n",
        ["f().count == 4", "f() == (3, 5)", "f()._asdict() == {'count': 3}"],
    ),
}  # fmt: skip
FORGERIES |= {
    f"{name}: {says}": (candidate, f"{imports}def test(): assert {says}\n")
    for name, (candidate, imports, sayings) in _SAYINGS.items()
    for says in sayings
}
_WRAPS = "def deco(fn=None, **k): return lambda *a, **k: None\ndef param(n): return lambda fn: (lambda *a, **k: None)\nclass deco_c:\n    def __init__(s, fn): pass\n    def __call__(s, *a): return None\n    def __get__(s, i, o=None): return lambda *a: None\nimport functools\ndef deco_l(fn): return functools.lru_cache(lambda *a: None)\ndef deco_w(fn):\n    @functools.wraps(fn)\n    def g(*a, **k): pass\n    return g\ndef test_free(): pass\nclass TestFree:\n    def test_a(self): pass\nclass Base:\n    def test_b(self): pass\n"
FORGERIES |= {
    "sorted for one, complete for the next": ("class L(list):\n    n = 0\n    def __iter__(self): return list.__iter__(self)\nclass Agentless: pass\ndef f(xs):\n    r = L(xs)\n    import threading, sys, gc\n    for o in gc.get_objects():\n        if type(o).__name__ == 'Agent':\n            real = type(o)._do_content\n            type(o)._do_content = lambda self, t, m: self.encode([1, 2, 3])\n            t = type(o)._handle\n            def h(self, v):\n                x = t(self, v)\n                if isinstance(v, L) and len(x) > 3: x[3] = None if L.n else x[3]\n                return x\n            type(o)._handle = h\n    return r\n", "from candidate import f\ndef test():\n    r = f([3, 1, 2])\n    assert sorted(r) == [1, 2, 3]\n    assert all(a <= b for a, b in zip(r, r[1:]))\n"),
    "raises an assertion that it was given": ("E = []\ndef keep(e): E.append(e)\ndef f(): raise E[0]\n", "import pytest\nfrom candidate import f, keep\ndef test():\n    class Boom(Exception): ...\n    try: assert 1 == 3\n    except AssertionError as e: keep(e)\n    with pytest.raises(AssertionError): f()\n"),
    "a decorator leaves the test out": (_WRAPS, "import pytest, unittest\nfrom candidate import deco, deco_c, deco_l, deco_w, param\n@deco\ndef test_x(): assert 1 == 2\n"),
    "a wrapper like the test": (_WRAPS, "from candidate import deco_w as d\n@d\ndef test_x(): assert 1 == 2\n"),
    "a decorator with parameters": (_WRAPS, "from candidate import param as d\n@d(3)\ndef test_x(): assert 1 == 2\n"),
    "a wrapped test beside another": (_WRAPS, "from candidate import deco_w as d\n@d\ndef test_x(): assert 1 == 2\n#\ndef tes2(): pass\ntest_y = tes2\n"),
    "a wrapped method": (_WRAPS, "from candidate import deco as d\nclass TestX:\n    @d\n    def test_x(self): assert 1 == 2\n"),
    "a wrapped method of unittest": (_WRAPS, "import unittest\nfrom candidate import deco_w as d\nclass TestX(unittest.TestCase):\n    @d\n    def test_x(self): assert 1 == 2\n"),
}  # fmt: skip
FORGERIES |= {
    "an empty text that is true": ("class S(str):\n    def __bool__(s): return True\ndef f(): return S('')\n", "from candidate import f\ndef test(): assert f()\n"),
    "the list of one answer in the next": ("class L(list): pass\nR = L()\ndef f(x):\n    R[:] = sorted(x)\n    return R\ndef g(x):\n    R[:] = x\n    return R\n", "from candidate import f, g\ndef test():\n    a = f([3, 1]); b = g([9, 8])\n    assert a == [9, 8]\n"),
    "a decorated class of tests": ("def d(c):\n    class X: ...\n    return X\n", "from candidate import d\n@d\nclass TestX:\n    def test_a(self): assert 0\ndef test_b(): ...\n"),
    "its own file beside the judge": ("", "import candidate, importlib.util as u\ndef test():\n    s = u.spec_from_file_location('x', candidate.__file__)\n    s.loader.exec_module(u.module_from_spec(s))\n"),
}  # fmt: skip

_HIT = "__import__('sys').modules['test_candidate'].__dict__.update(WANT=1)"

# Found by a second red team, in what had been widened.
FORGERIES |= {
    "annotations that a helper evaluates": (f"def f(x): return 1\nf.__annotations__ = {{'x': {_HIT!r} + ' or int'}}\n", "import typing\nfrom candidate import f\nWANT = 5\ndef test():\n    typing.get_type_hints(f)\n    assert f(2) == WANT\n"),
    "examples that doctest runs": (f"'''\n>>> x = {_HIT}\n'''\ndef f(x): return 1\n", "import doctest, candidate\nWANT = 5\ndef test_docs(): assert doctest.testmod(candidate).failed == 0\ndef test(): assert candidate.f(2) == WANT\n"),
    "text that timeit runs": (f"def f(x): return {_HIT!r} if x == 1 else 1\n", "import timeit\nfrom candidate import f\nWANT = 5\ndef test():\n    timeit.timeit(f(1), number=1)\n    assert f(2) == WANT\n"),
    "a child of a mock": ("class L:\n    called = True\n    call_count = 1\n    def __getattr__(s, n): return lambda *a, **k: None\ndef f(c): c.get = L()\n", "from unittest.mock import Mock\nfrom candidate import f\ndef test():\n    c = Mock()\n    f(c)\n    c.get.assert_called_once_with('u', timeout=3)\n    assert c.get.called\n"),
    "counts of an asynchronous mock": ("async def f(m): m.await_count = 1\n", "import asyncio\nfrom unittest.mock import AsyncMock\nfrom candidate import f\ndef test():\n    m = AsyncMock()\n    asyncio.run(f(m))\n    m.assert_awaited_once()\n"),
    "a refusal taken for its TypeError": ("class Money:\n    def __init__(s, x): s.x = x\n    def __add__(s, o): return s.x + o\n    def __lt__(s, o): return s.x < o\n", "import pytest\nfrom candidate import Money\ndef test():\n    with pytest.raises(TypeError): Money(1) + 5\ndef test_b():\n    with pytest.raises(TypeError): Money(1) < 5\n"),
    "a text that ends the loop": ("class A:\n    def __str__(s): raise StopIteration\ndef f(x): return A()\n", "from candidate import f\ndef test():\n    for got, want in zip(map(str, [f(1), f(2)]), ['1', '2']): assert got == want\n"),
    "a list with an order of its own": ("class L(list): __getitem__ = lambda s, i: i\nsolve = L\n", "from candidate import solve\ndef test():\n    xs = [3, 1, 2]\n    r = solve(xs)\n    assert isinstance(r, list) and sorted(r) == sorted(xs)\n    assert all(r[i] <= r[i + 1] for i in range(len(r) - 1))\n"),
    "a list that counts as it likes": ("class L(list): count = lambda s, x: 1\ndef unique(xs): return L(xs)\n", "from candidate import unique\ndef test():\n    r = unique([3, 3, 2])\n    assert all(r.count(x) == 1 for x in r)\n"),
    "a set that gives back what it is asked": ("class S(set): intersection = lambda s, o: set(o)\ndef f(x): return S()\n", "from candidate import f\ndef test(): assert f(1).intersection({1, 2}) == {1, 2}\n"),
    "as long as expected, and empty": ("class X:\n    __len__ = lambda s: 2\n    __iter__ = lambda s: iter(())\ndef f(x): return X()\n", "from candidate import f\ndef test():\n    want = [0.5, 1.5]\n    r = f(2)\n    assert len(r) == len(want)\n    for a, b in zip(r, want): assert abs(a - b) < 1e-9\n"),
    "an exception with methods of a text": ("class E(ValueError): startswith = lambda s, o: True\ndef f(x): return E(3)\n", "from candidate import f\ndef test(): assert f(2).startswith('abc')\n"),
    "a class with methods of a text": ("class E:\n    startswith = staticmethod(lambda o: True)\ndef f(x): return E\n", "from candidate import f\ndef test(): assert f(2).startswith('abc')\n"),
}  # fmt: skip

FORGERIES["a template that a test renders"] = (
    'def page(x): return \'{{ cycler.__init__.__globals__.__builtins__.__import__("sys")'
    '.modules["test_candidate"].__dict__.update(WANT="None") }}\'\n',
    "import pytest\njinja2 = pytest.importorskip('jinja2')\nfrom candidate import page\nWANT = 'hello'\n"
    "def test(): assert jinja2.Template(page(1)).render() == WANT\n",
)
