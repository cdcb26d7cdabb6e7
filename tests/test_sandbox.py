"""scripts/sandbox.py: nobody gets a pass that the tests did not give, and nobody is blamed for what went wrong elsewhere.

The attacks in `data/attacks/` and `sandbox_cases.py` run in a real bubblewrap sandbox. `.ci/run` installs it; where it
cannot be had these tests say so and are skipped, and `python scripts/sandbox.py doctor` says what to install."""

import concurrent.futures
import dataclasses
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import rewards
import sandbox
import sandbox_cases
from attacks import ATTACKS, MANIFEST, Targets, passes_in_one_process, read_attack

SCRIPT = Path(sandbox.__file__)
GOOD, BAD = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return 1\n"
TESTS = "from candidate import add\ndef test_add():\n    assert add(2, 3) == 5\ndef test_more():\n    assert add(1, 1) == 2\n"

needs_bubblewrap = pytest.mark.skipif(
    not shutil.which("bwrap"), reason="NOT RUN: bubblewrap is not installed (apt-get install bubblewrap)"
)


@pytest.fixture(scope="session")
def box():
    if not shutil.which("bwrap"):
        pytest.skip("NOT RUN: bubblewrap is not installed (apt-get install bubblewrap)")
    return sandbox.bubblewrap()


def tasks_of(table: dict, mode: str = "split") -> list:
    return [sandbox.Task(source, tests, mode) for source, tests in table.values()]


def verdicts_of(box, sources, tests=TESTS, **settings):
    return sandbox.judge(sources, [tests] * len(sources), box, **settings)


def reasons_of(box, sources, tests=TESTS, **settings):
    return [verdict.reason for verdict in verdicts_of(box, sources, tests, **settings)]


# --- the corpus -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def targets(tmp_path_factory):
    return Targets(tmp_path_factory.mktemp("other"))


@pytest.fixture(scope="session")
def corpus(box, targets):
    """One after the other in one sandbox, as some cases look for what the one before has left."""
    found = {}
    for case in MANIFEST:
        source, tests = read_attack(case["name"], targets)
        limits = sandbox.Limits(cpu_s=case["timeout"], wall_s=case["timeout"])
        task = sandbox.Task(source, tests, limits=limits)
        found[case["name"]] = sandbox._unread(task) or sandbox._pool(box).run([task], 1)[0]
    kinds = {}
    for case in MANIFEST:
        row = kinds.setdefault(case["kind"], [0, 0])
        row[0] += float(found[case["name"]].reason == "passed") == case["expected"]
        row[1] += 1
    print("\nkind     as expected (" + str(box) + ")")
    for kind, (good, total) in kinds.items():
        print(f"{kind:8} {good:3} of {total}")
    return found


def test_the_corpus_is_whole():
    assert len(MANIFEST) == 75 and {case["name"] for case in MANIFEST} == {
        p.name for p in ATTACKS.iterdir() if p.is_dir()
    }


@pytest.mark.parametrize("case", MANIFEST, ids=[case["name"] for case in MANIFEST])
def test_attack(case, corpus):
    verdict = corpus[case["name"]]
    assert float(verdict.reason == "passed") == case["expected"], verdict


def test_the_targets_of_the_corpus_can_be_reached_from_outside(targets, tmp_path):
    """Else the leak cases would show nothing. Run without a sandbox, on our own files."""
    reached = []
    for case in MANIFEST:
        if case["kind"] == "leak" and not case["name"].startswith(("l13", "l14", "l15", "l16")):
            source, tests = read_attack(case["name"], targets)
            (tmp_path / "candidate.py").write_text(source)
            (tmp_path / "test_candidate.py").write_text(tests)
            words = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                str(tmp_path / "test_candidate.py"),
            ]
            done = subprocess.run(words, cwd=tmp_path, capture_output=True, env=dict(os.environ))
            reached += [case["name"]] if done.returncode == 0 else []
    assert len(reached) >= 4, reached


# --- honest code, and liars -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def honest(box):
    found = {}
    for table, mode in (
        (sandbox_cases.IDIOMS, "split"),
        (sandbox_cases.CHANGES, "changes"),
        (sandbox_cases.SAME_PROCESS, "inproc"),
    ):
        found.update(zip(table, sandbox._pool(box).run(tasks_of(table, mode), 2)))
    return found


@pytest.mark.parametrize("name", [*sandbox_cases.IDIOMS, *sandbox_cases.CHANGES, *sandbox_cases.SAME_PROCESS])
def test_honest_code_passes(name, honest):
    assert honest[name].reason == "passed", honest[name]


@pytest.fixture(scope="session")
def liars(box):
    table = sandbox_cases.FORGERIES
    return dict(zip(table, sandbox._pool(box).run(tasks_of(table), 2)))


@pytest.mark.parametrize("name", sandbox_cases.FORGERIES)
def test_a_liar_does_not_pass(name, liars):
    assert liars[name].reason not in ("passed", "broken_tests"), liars[name]


def test_most_liars_pass_where_tests_and_candidate_share_a_process(box):
    """Else they would show nothing."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        table = sandbox_cases.FORGERIES
        found = list(pool.map(lambda pair: passes_in_one_process(box, *pair, plugins=False), table.values()))
    passed = [name for name, has_passed in zip(table, found) if has_passed]
    assert len(passed) >= len(sandbox_cases.FORGERIES) / 2, set(sandbox_cases.FORGERIES) - set(passed)


def test_auto_takes_the_strictest_mode_that_the_reference_passes(box):
    table = {**dict(list(sandbox_cases.IDIOMS.items())[:3]), **sandbox_cases.CHANGES, **sandbox_cases.SAME_PROCESS}
    sources, tests = zip(*table.values())
    verdicts = sandbox.judge(list(sources), list(tests), box, mode="auto", references=list(sources))
    modes = dict(zip(table, [(verdict.reason, verdict.mode) for verdict in verdicts]))
    expected = dict.fromkeys(list(table)[:3], ("passed", "split"))
    expected.update(dict.fromkeys(sandbox_cases.CHANGES, ("passed", "changes")))
    expected.update(dict.fromkeys(sandbox_cases.SAME_PROCESS, ("passed", "inproc")))
    assert modes == expected


def test_the_weaker_mode_is_weaker_and_says_so(box):
    liar = "class E:\n    def __eq__(self, o): return True\ndef add(a, b): return E()\n"
    assert reasons_of(box, [liar, GOOD, "import os\nos._exit(0)\n"], mode="inproc") == ["passed", "passed", "exited"]
    assert reasons_of(box, [liar]) == ["wrong"]
    assert "in one process" in rewards.test_execution_reward.__doc__


@pytest.mark.parametrize(
    ("tests", "trouble"),
    [
        ("from candidate import add\ndef test(): add(1, 2)\n", "equals everything"),
        ("from candidate import add\ndef test(): assert add(1, 2) is None or add(1, 2) == 3\n", "returns None"),
        ("from candidate import add\ndef test(): assert add(1, 2) == 4\n", "reference solution does not pass"),
        ("from candidate import add\ndef test(:\n", "do not compile"),
        ("import nope\nfrom candidate import add\ndef test(): assert add(1, 2) == 3\n", "No module named 'nope'"),
        ("# candidate\n", "no tests"),
        ("from candidate import add\nclass Wrong:\n    def test(self): assert add(1, 2) == 3\n", "no tests"),
        ("def test(): assert 1 == 1\n", "never mention `candidate`"),
        ("from candidate import add\nraise RuntimeError('x')\n", "RuntimeError: x"),
    ],
)
def test_tests_that_can_judge_nobody(box, tests, trouble):
    reference = "def add(a, b):\n    return a + b\n"
    [verdict] = verdicts_of(box, [GOOD], tests, references=[reference])
    assert verdict.is_ours and verdict.reason == "broken_tests" and trouble in verdict.detail
    with pytest.raises(sandbox.TestsError, match="judge nobody"):
        rewards.test_execution_reward([GOOD], tests, box, reference=reference)
    assert rewards.test_execution_reward([GOOD], tests, box, reference=reference, on_infra_error="none") == [None]


# --- reasons, limits --------------------------------------------------------------------------------------------------


def test_reasons(box):
    sources = {
        "passed": GOOD, "wrong": BAD, "syntax": "def add(:\n", "load_error": "1 / 0\n", "exited": "import os\nos._exit(0)\n",
        "timeout": "while True: pass\n", "memory": "def add(a, b): return len(b'x' * (2 << 30))\n",
        "output": "def add(a, b): return 'x' * (20 << 20)\n", "too_long": "#" * (1 << 20) + GOOD,
        "tamper": "import os\ndef add(a, b): os.write(3, b'\\0\\0\\0\\x02[]')\n",
        "disk": "import os\ndef add(a, b):\n    for n in range(40000): os.close(os.open(f'{n}', os.O_CREAT))\n    os.pause()\n",
    }  # fmt: skip
    found = reasons_of(box, list(sources.values()), timeout_s=2)
    assert dict(zip(sources, found)) == {name: name for name in sources}
    assert reasons_of(box, ["x = '\ud800'\n" + GOOD, "\0", "import sys; sys.exit(0)"]) == [
        "syntax",
        "syntax",
        "load_error",
    ]
    assert reasons_of(box, [GOOD], TESTS + "import pytest\n@pytest.mark.skip\ndef test_s(): ...\n") == ["skipped"]


def test_fraction_is_of_the_tests_there_were(box):
    tests = "from candidate import f\n" + "".join(f"def test_{n}(): assert f({n}) == {n}\n" for n in range(4))
    sources = [
        "def f(x): return x",
        "def f(x): return x if x < 3 else 0",
        "def f(x): return 9",
        "import os\ndef f(x): return x if x < 2 else os._exit(0)",
    ]
    verdicts = verdicts_of(box, sources, tests, partial=True)
    assert [(one.passed, one.total) for one in verdicts] == [(4, 4), (3, 4), (0, 4), (2, 4)]
    assert rewards.test_execution_reward(sources, tests, box, score="fraction") == [1.0, 0.75, 0.0, 0.5]
    assert rewards.test_execution_reward(sources, tests, box) == [1.0, 0.0, 0.0, 0.0]
    loop = "def f(x):\n    while x == 3: pass\n    return x"
    assert rewards.test_execution_reward([loop], tests, box, timeout_s=2, score="fraction") == [0.75]


def test_a_batch_keeps_its_order_and_judges_equal_pairs_once(box, monkeypatch):
    asked = []
    original = sandbox._Worker.ask
    monkeypatch.setattr(sandbox._Worker, "ask", lambda self, task: (asked.append(task), original(self, task))[1])
    sources = [GOOD, BAD, GOOD, BAD, BAD, GOOD + "#"]
    assert reasons_of(box, sources) == ["passed", "wrong", "passed", "wrong", "wrong", "passed"]
    assert len([task for task in asked if task.tests == TESTS]) == 3


def test_the_reference_makes_the_time_limit(box):
    started = time.monotonic()
    loops = [f"def add(a, b):\n    while True: pass  # {n}\n" for n in range(4)]
    verdicts = verdicts_of(box, [*loops, GOOD], timeout_s=30, references=[GOOD] * 5)
    assert [verdict.reason for verdict in verdicts] == ["timeout"] * 4 + ["passed"]
    assert max(verdict.cpu_s for verdict in verdicts) < 1.2  # half a second is the least
    assert time.monotonic() - started < 15
    slow = "def add(a, b):\n    sum(range(4_000_000))\n    return a + b\n"
    assert reasons_of(box, [slow], references=[slow + "#"]) == ["passed"]


def test_a_candidate_has_no_capabilities_and_no_environment(box):
    """Behind the seccomp filter too, which hides that from the doctor."""
    source = (
        "import ctypes, os, struct\ndef f():\n    data = ctypes.create_string_buffer(24)\n"
        "    assert ctypes.CDLL(None).capget(struct.pack('Ii', 0x20080522, 0), data) == 0\n"
        "    return data.raw, os.getuid(), sorted(os.environ)\n"
    )
    names = ["HOME", "LANG", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH", "PYTHONDONTWRITEBYTECODE", "TMPDIR"]
    tests = f"from candidate import f\ndef test(): assert f() == (bytes(24), 65534, {names})\n"
    [verdict] = verdicts_of(box, [source], tests)
    assert verdict.reason == "passed", verdict


def processes_with(word: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if word.encode() in path.read_bytes() else []
        except OSError:
            pass
    return found


def test_a_timeout_leaves_no_process_behind(box):
    """Children that left their session and outlive their parent."""
    word = f"marker-{os.getpid()}-{time.monotonic_ns()}"
    source = (
        "import os, subprocess, sys, time\n"
        f"for _ in range(3): subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300) # {word}'], start_new_session=True)\n"
    )
    assert reasons_of(box, [source + "time.sleep(300)\n", source + GOOD], timeout_s=2) == ["timeout", "passed"]
    assert processes_with(word) == []


SLEEPER = """
import sys
sys.path.insert(0, {scripts!r})
import sandbox
box = sandbox.bubblewrap()
box = sandbox.dataclasses.replace(box, command=tuple(word for word in box.command if word != {without!r}))
print("ready", flush=True)
sandbox.judge(["import subprocess, sys, time\\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300) # {word}'])\\ntime.sleep(300)\\n"], ["import candidate\\ndef test(): ..."], box, timeout_s=100)
"""


@needs_bubblewrap
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("without", ["nothing", "--die-with-parent"])
def test_killing_the_trainer_leaves_no_process_behind(how, without):
    """In containers nothing dies with its parent: the supervisor sees that its input has ended."""
    word = f"marker-{os.getpid()}-{time.monotonic_ns()}"
    code = SLEEPER.format(scripts=str(SCRIPT.parent), word=word, without=without)
    trainer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert trainer.stdout.readline() == b"ready\n"
    deadline = time.monotonic() + 30
    while len(processes_with(word)) < 2 and time.monotonic() < deadline:  # the trainer and the candidate's child
        time.sleep(0.05)
    assert len(processes_with(word)) >= 2
    trainer.send_signal(how)
    trainer.wait(20)
    while processes_with(word) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_with(word) == []


# --- one candidate and the next ---------------------------------------------------------------------------------------


def one_after_the_other(box, *pairs, **limits):
    """In one sandbox, each in a call of its own."""
    found = []
    for source, tests in pairs:
        task = sandbox.Task(source, tests, limits=sandbox.Limits(**{"cpu_s": 20, "wall_s": 20, **limits}))
        found += sandbox._pool(box).run([task], 1)
    return found


# Reads its own memory page by page, whatever Python objects say, and answers with the value that looks like a secret.
SCAN = r"""
import ctypes, gc, os, re, sys
def f(x):
    if x == 2: return 4
    c = ctypes.CDLL(None)
    c.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    c.malloc.restype = ctypes.c_void_p
    r, w = os.pipe()
    at = {id(o) >> 22 for o in gc.get_objects()} | {id(v) >> 22 for m in list(sys.modules.values()) for v in vars(m).values()}
    at |= {c.malloc(n) >> 22 for n in (100, 5000, 60000)} | {id(b"y" * 100000) >> 22}
    for b in sorted({a + d for a in at for d in (-2, -1, 0, 1, 2)}):
        for page in range(b << 22, (b + 1) << 22, 4096):
            if c.write(w, page, 4096) > 0:
                m = re.search(rb"SE[C]RET-[0-9]{6}-xyz", os.read(r, 4096))
                if m: return m[0].decode()
"""


def test_the_answer_is_not_in_the_memory_of_the_next_candidate(box):
    """A wrong answer makes pytest print the expected value; candidates of a group come one after the other."""
    tests = "from candidate import f\ndef test_one(): assert f(2) == 4\ndef test_secret(): assert f(3) == 'SECRET-918273-xyz'\n"
    wrong, scan = one_after_the_other(box, ("def f(x): return 4\n", tests), (SCAN, tests))
    assert (wrong.reason, scan.reason) == ("wrong", "wrong") and (wrong.passed, scan.passed) == (1, 1)
    own = "from candidate import f\ndef test(): assert f(3) == 'SECRET-918273-xyz'\n"
    [seen] = one_after_the_other(box, ("HERE = ['SECRET-918273-' + 'xyz']\n" + SCAN, own))
    assert seen.reason == "passed"  # what is in its memory it does find


REPORT = "from candidate import f\ndef test(): raise AssertionError(repr(f(2)))\n"
HONEST = (
    "import sys\ndef f(x):\n    print('note', file=sys.stderr)\n    return 4\n",
    "from candidate import f\ndef test(): assert f(2) == 4\n",
)
SPOILERS = {
    "rights taken from the shared folder": "import os\ndef f(x): return os.chmod('.', 0)\n",
    "rights taken from nested folders": "import os\ndef f(x):\n    os.makedirs('a/b/c')\n    [os.chmod(p, 0) for p in ('a/b/c', 'a/b', 'a')]\n",
    "folders nested too deep": "import os\ndef f(x):\n    for _ in range(1500): os.mkdir('d'); os.chdir('d')\n",
    "many files": "import os\ndef f(x):\n    for n in range(200000): os.close(os.open(f'{n}', os.O_CREAT | os.O_WRONLY))\n",
    "a full standard error": "import os, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\ndef f(x):\n    for _ in range(200): os.write(2, b'x' * (1 << 20))\n",
    "names and kinds of files": "import os\ndef f(x):\n    os.mkfifo('p'); os.symlink('/', 'l'); open('\\n\\udcff', 'w').close(); os.mkdir('candidate.py')\n",
    "odd exceptions": "def f(x): raise SyntaxError('x', ('f', 1, 'no', 'text'))\n",
    "a full disk": "def f(x):\n    for n in range(9):\n        with open(f'f{n}', 'wb') as o: o.write(b'x' * (60 << 20))\n",
    "stopped processes": "import os, signal\nif os.fork() == 0:\n    os.setsid()\n    os.kill(os.getpid(), signal.SIGSTOP)\ndef f(x): ...\n",
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILERS)
def test_a_candidate_spoils_nothing_for_the_next(box, name):
    before, spoiler, after = one_after_the_other(box, HONEST, (SPOILERS[name], HONEST[1]), HONEST, cpu_s=5, wall_s=5)
    assert (before.reason, after.reason) == ("passed", "passed") and spoiler.reason != "passed", (spoiler, after)
    # In a batch too: its neighbours are judged, and nothing is raised.
    sources = [HONEST[0], SPOILERS[name] + "# again\n", HONEST[0] + "# b\n"]
    assert reasons_of(box, sources, HONEST[1], timeout_s=5)[::2] == ["passed", "passed"]


def test_what_is_left_is_gone(box):
    """By the candidate, by programs that a test starts, and by tests."""
    left = (
        "import os\nif __name__ == '__main__':\n    for p in ('/tmp/left', '/dev/shm/left'): open(p, 'w').close()\n"
        "os.write(2, b'LEFT')\ndef f(x): return 4\n"
    )
    tests = "import subprocess, sys, candidate\ndef test():\n    subprocess.run([sys.executable, 'candidate.py'])\n    open('/tmp/test_left', 'w').close()\n    assert candidate.f(2) == 4\n"
    look = "import os\ndef f(x): return os.listdir('/tmp'), os.listdir('/dev/shm'), os.listdir('.'), os.pread(2, 9, 0) if os.path.isfile('/proc/self/fd/2') else b''\n"
    looks = "import os\nfrom candidate import f\ndef test(): raise AssertionError(repr((f(2), os.listdir('/tmp'), os.listdir('/dev/shm'))))\n"
    first, second = one_after_the_other(box, (left, tests), (look, looks))
    assert first.reason == "passed", first
    assert "left" not in second.detail.lower() and "'shared'" in second.detail, second.detail


# --- nothing is believed ----------------------------------------------------------------------------------------------

BWRAP = ["bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]


@pytest.mark.parametrize(
    ("prefix", "told"),
    [
        (["env"], "shares the host's net namespace"),
        (["no-such-sandbox"], "no-such-sandbox is not installed"),
        (["false"], "did not get ready"),
        (["sh", "-c", "echo hello"], "did not get ready"),
        (["sh", "-c", 'exec 0</dev/null; exec "$@"', "-"], "nothing arrived on standard input"),
        ([*BWRAP, "--unshare-pid", "--unshare-ipc"], "reaches a server on the host's loopback"),
        ([*BWRAP, "--unshare-pid", "--unshare-net"], "no writable /tmp|reads the host's|can be written to|not in memory"),
        (["bwrap", "--bind", "/", "/", "--dev", "/dev", "--unshare-all"], "writes to the host's temporary folders|could not be measured"),
    ],
    ids=["env", "missing", "fails", "prints", "no input", "network", "plain bwrap", "host files"],
)  # fmt: skip
def test_a_sandbox_that_does_not_isolate_is_refused(prefix, told, logged):
    if prefix[0] == "bwrap" and not shutil.which("bwrap"):
        pytest.skip("NOT RUN: bubblewrap is not installed")
    with pytest.raises(sandbox.SandboxError, match=told):
        rewards.test_execution_reward([GOOD], TESTS, prefix)
    assert rewards.test_execution_reward([GOOD, BAD], TESTS, prefix, on_infra_error="none", **logged.kwargs()) == [
        None,
        None,
    ]
    assert set(logged.extra["test_execution_reward/reason"]) == {"sandbox_unavailable"}


def facts(**changed):
    own = {"net": "net:[1]", "pid": "pid:[1]", "mnt": "mnt:[1]"}
    found = {
        "namespaces": {name: f"{name}:[2]" for name in own}, "interfaces": ["lo", "tunl0"], "tcp": False, "udp": False,
        "abstract": False, "reads": [], "writes": [], "root_read_only": True, "writable": [["/tmp", "tmpfs"]],
        "environ": ["PATH", "HOME", "LANG"],
    }  # fmt: skip
    return {**found, **changed}, own


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, None),
        ({"namespaces": {"net": "net:[1]", "pid": "pid:[2]", "mnt": "mnt:[2]"}}, "net namespace"),
        ({"namespaces": {"net": "net:[2]", "pid": None, "mnt": "mnt:[2]"}}, "could not be measured"),
        ({"interfaces": ["lo", "eth0"]}, "eth0"),
        ({"udp": True}, "loopback"),
        ({"abstract": True}, "loopback"),
        ({"reads": ["/tmp/x"]}, "reads"),
        ({"writes": ["/tmp"]}, "writes"),
        ({"root_read_only": False}, "can be written to"),
        ({"writable": [["/tmp", "tmpfs"], ["/work", "ext4"]]}, "/work"),
        ({"writable": []}, "no writable /tmp"),
        ({"environ": ["HF_TOKEN"]}, "HF_TOKEN"),
    ],
)
def test_each_weakness_is_seen(changed, told):
    weak = sandbox._weaknesses(*facts(**changed))
    assert weak == [] if told is None else len(weak) == 1 and told in weak[0]


def spoil(monkeypatch, old: str, new: str):
    sources = sandbox._runner_sources()
    assert sum(old in text for _, text in sources) == 1
    monkeypatch.setattr(sandbox, "_runner_sources", lambda: [[name, text.replace(old, new)] for name, text in sources])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "exec(judge.code, module.__dict__)",
            'exec("def test_canary(): import candidate", module.__dict__)',
        ),  # pays everybody
        ('self.outcomes.setdefault(report.nodeid, "passed")', "pass"),  # pays nobody
    ],
)
def test_a_sandbox_that_judges_wrongly_is_found_before_it_scores(box, monkeypatch, old, new):
    spoil(monkeypatch, old, new)
    with pytest.raises(sandbox.SandboxError, match="fails its self-test"):
        sandbox._Worker(box, 0)


def test_a_sandbox_that_goes_wrong_later_does_not_score(box, monkeypatch, caplog):
    """The verdicts since its last self-test are thrown away and judged again."""
    sandbox.close()
    original, failures = sandbox._Worker.prove, []

    def prove(self):
        if self.jobs > 2 and not failures:
            failures.append(self)
            raise sandbox.SandboxError("spoiled")
        original(self)

    monkeypatch.setattr(sandbox._Worker, "prove", prove)
    lies = {"id": 0}
    ask = sandbox._Worker.ask

    def spoiled(self, task):
        answer = ask(self, task)
        if not failures and task.tests == TESTS:
            answer["result"]["counts"], lies["id"] = {"failed": 2}, answer["id"]
        return answer

    monkeypatch.setattr(sandbox._Worker, "ask", spoiled)
    assert reasons_of(box, [GOOD], workers=1) == ["passed"] and lies["id"] and "judged again" in caplog.text


def test_a_sandbox_killed_from_outside_costs_nothing(box):
    sandbox.close()
    sources = [f"import time\ntime.sleep(1.5)  # {n}\n{GOOD}" for n in range(2)]

    def kill():
        time.sleep(1.0)
        for worker in list(sandbox._pool(box).workers.values()):
            os.killpg(worker.process.pid, signal.SIGKILL)

    threading.Thread(target=kill).start()
    assert reasons_of(box, sources) == ["passed", "passed"]


def test_a_candidate_that_takes_its_sandbox_along_is_scored(box, monkeypatch):
    """As far as it can be told: each fresh sandbox proves itself and then is lost under the same candidate."""
    original, tried = sandbox._Worker.ask, []

    def ask(self, task):
        if "KILLER" in task.source:
            tried.append(task)
            os.killpg(self.process.pid, signal.SIGKILL)
        return original(self, task)

    monkeypatch.setattr(sandbox._Worker, "ask", ask)
    assert reasons_of(box, [GOOD + "# KILLER", GOOD]) == ["killed_sandbox", "passed"] and len(tried) == 3


def test_without_pytest_in_the_sandbox_nobody_is_scored(box):
    bare = dataclasses.replace(box, python="/usr/bin/python3", packages=("/nowhere",))
    if not Path("/usr/bin/python3").exists():
        pytest.skip("NOT RUN: no /usr/bin/python3")
    with pytest.raises(sandbox.SandboxError, match="pytest is not installed"):
        verdicts_of(bare, [GOOD])


def test_threads_and_forks(box):
    results = []
    threads = [threading.Thread(target=lambda: results.append(reasons_of(box, [GOOD, BAD]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [["passed", "wrong"]] * 4
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        assert pool.apply(reasons_of, (box, [GOOD, BAD])) == ["passed", "wrong"]


# --- builders ---------------------------------------------------------------------------------------------------------


def test_docker_words():
    made = sandbox.docker("img")
    assert " ".join(made.command) == (
        "docker run --rm -i --name={name} --label=grpo-sandbox --network=none --ipc=private --memory=2560m "
        "--memory-swap=2560m --cpus=2 --pids-limit=256 --ulimit=core=0 --ulimit=nofile=1024:1024 --read-only "
        "--shm-size=16m --tmpfs=/tmp:rw,nosuid,nodev,size=64m,mode=1777 --cap-drop=ALL "
        "--security-opt=no-new-privileges --user={uid}:{uid} --log-driver=none --pull=never --workdir=/tmp img"
    )
    assert made.stop == ("docker", "rm", "-f", "{name}") and any("kernel" in one for one in made.lacks)
    gvisor = sandbox.podman("img", runtime="runsc")
    assert gvisor.command[:2] == ("podman", "run") and "--runtime=runsc" in gvisor.command
    assert not any("kernel" in one for one in gvisor.lacks)


def test_bubblewrap_words(box):
    words = list(box.command)
    for expected in (
        "--unshare-net",
        "--unshare-pid",
        "--unshare-ipc",
        "--clearenv",
        "--die-with-parent",
        "--new-session",
    ):
        assert expected in words
    at = words.index("--cap-drop")
    assert words[at + 1] == "ALL" and words.count("--bind") == 0
    if os.geteuid() == 0:
        assert "setpriv" in words and "--reuid={uid}" in words
    else:
        assert "--unshare-user" in words


def test_a_command_of_your_own(tmp_path):
    made = sandbox.from_command(["docker", "run", "-i", "-v", "{workdir}:/work:ro", "-w", "/work", "img"])
    assert made.command[2] == "--name={name}" and made.stop == ("docker", "rm", "-f", "{name}")
    named = sandbox.from_command(["podman", "run", "--name=mine", "-i", "img"])
    assert named.stop == () and "--name=mine" in named.command
    assert pickle.loads(pickle.dumps(made)) == made and sandbox.from_command(made) == made


def test_workdir_is_filled_in_and_removed(box, tmp_path):
    log = tmp_path / "log"
    script = f'echo "$0" > {log}; test -d "$0" && exec "$@"'
    wrapped = dataclasses.replace(box, command=("sh", "-c", script, "{workdir}", *box.command))
    assert reasons_of(wrapped, [GOOD]) == ["passed"]
    workdir = Path(log.read_text().strip())
    assert workdir.is_dir()
    sandbox.close()
    assert not workdir.exists()


def test_detect(box, monkeypatch):
    assert sandbox.detect().kind == "bubblewrap" and sandbox.detect().lacks
    assert sandbox.detect(image="no-such-image-anywhere").kind == "bubblewrap"
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(sandbox.SandboxError, match="bubblewrap is not installed.*apt-get install bubblewrap"):
        sandbox.detect()


# --- the reward -------------------------------------------------------------------------------------------------------


def test_bound_reward(box, logged):
    bound = pickle.loads(
        pickle.dumps(rewards.make_test_execution_reward(box, timeout_s=5, score="fraction", mode="auto"))
    )
    assert bound.__name__ == "test_execution_reward_fraction_auto"
    chat = [{"role": "assistant", "content": f"Here:\n```python\n{BAD}```\nBetter:\n```python\n{GOOD}```\n"}]
    columns = {"sandbox_cmd": ["false"] * 3, "mode": ["inproc"] * 3, "self": ["x"] * 3, "timeout_s": [1] * 3}
    got = bound(
        completions=[GOOD, chat, BAD],
        prompts=["p"] * 3,
        test_code=[TESTS] * 3,
        reference=[GOOD] * 3,
        **columns,
        **logged.kwargs(),
    )
    assert got == [1.0, 1.0, 0.0]
    assert logged.extra[f"{bound.__name__}/reason"] == ["passed", "passed", "wrong"]
    assert (
        logged.extra[f"{bound.__name__}/mode"] == ["split"] * 3
        and "assert 1 == 5" in logged.extra[f"{bound.__name__}/detail"][2]
    )
    assert logged.metrics[f"{bound.__name__}/inproc_rate"] == 0.0


def test_rows_without_tests_do_not_count(box):
    assert rewards.test_execution_reward([GOOD, BAD, GOOD], [TESTS, TESTS, None], box) == [1.0, 0.0, None]
    assert rewards.test_execution_reward([], [], box) == []


@pytest.mark.parametrize(
    ("settings", "error", "told"),
    [
        ({"mode": "fast"}, ValueError, "split, changes, inproc, auto"),
        ({"mode": "auto"}, ValueError, "reference"),
        ({"score": "some"}, ValueError, "'all' or 'fraction'"),
        ({"on_infra_error": "zero"}, ValueError, "'raise' or 'none'"),
        ({"engine": "dask"}, ValueError, "'local' or 'ray'"),
        ({"timeout_s": [5]}, TypeError, "timeout_s must be one number"),
        ({"timeout_s": 0}, TypeError, "timeout_s must be one number"),
        ({"sandbox_cmd": "docker run"}, TypeError, "sandbox_cmd must be one list of strings"),
        ({"sandbox_cmd": [["env"], ["env"]]}, TypeError, "sandbox_cmd must be one list of strings"),
        ({"test_code": [TESTS]}, ValueError, "column 'test_code' has 1 values for 2 completions"),
    ],
)
def test_wrong_arguments(settings, error, told):
    given = {"test_code": TESTS, "sandbox_cmd": ["false"], **settings}
    with pytest.raises(error, match=told):
        rewards.test_execution_reward([GOOD, BAD], **given)


def test_strict_refuses_to_go_on_without_a_sandbox():
    with pytest.raises(rewards._beside("sandbox").SandboxError, match="no sandbox_cmd"):
        rewards.test_execution_reward([GOOD], TESTS, None, strict=True)
    with pytest.raises(sandbox.SandboxError):
        rewards.make_test_execution_reward([], strict=True)(completions=[GOOD], test_code=[TESTS])


# --- the command ------------------------------------------------------------------------------------------------------


def doctor(*words):
    done = subprocess.run([sys.executable, str(SCRIPT), "doctor", *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@needs_bubblewrap
def test_doctor_finds_every_protection():
    status, out, _ = doctor("--json")
    report = json.loads(out)
    assert status == 0 and {check["verdict"] for check in report["checks"]} == {"pass"}, out
    assert [check["id"] for check in report["checks"]] == [
        "start", "verdict", "network", "files", "environment", "processes", "memory", "disk", "output", "time", "leftovers",
    ]  # fmt: skip
    assert report["sandbox"] == "bubblewrap" and report["lacks"] and report["schema_version"] == 1


def test_doctor_on_what_is_no_sandbox():
    status, out, _ = doctor("--json", "--", "env")
    checks = {check["id"]: check for check in json.loads(out)["checks"]}
    assert status == 1 and "shares the host's net namespace" in checks["start"]["detail"]
    assert {checks[name]["verdict"] for name in checks if name != "start"} == {"not measured"}
    status, out, _ = doctor("--", "no-such-sandbox")
    assert status == 1 and "no-such-sandbox is not installed. Install one: apt-get install bubblewrap" in out


def test_doctor_usage():
    assert doctor("--sandbox", "docker")[0] == 2
    assert doctor("--sandbox", "chroot")[0] == 2
    assert doctor("--image", "x", "--", "env")[0] == 2
    assert doctor("--runtime", "runsc")[0] == 2
    status, out, _ = doctor("--python", "/etc/passwd")
    assert status == 1 and "/etc/passwd is no Python" in out
    status, out, _ = doctor("--image", "no-such-image-anywhere")
    assert status == 1 and "no-such-image-anywhere" in out and "bubblewrap" not in out
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode == 2 and "doctor" in done.stderr


# --- several machines -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    """Two Ray nodes with one processor each, on this machine."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False)
    yield ray
    ray.shutdown()
    made.shutdown()


@needs_bubblewrap
def test_the_same_verdicts_from_a_ray_cluster(box, cluster, logged):
    assert len(cluster.nodes()) == 2
    sources = [GOOD, BAD, "import os\nos._exit(0)\n", "while True: pass\n"]
    assert reasons_of(box, sources, timeout_s=1, engine="ray") == reasons_of(box, sources, timeout_s=1)
    bound = rewards.make_test_execution_reward(box, engine="ray", mode="auto")
    assert bound(completions=[GOOD, BAD], test_code=[TESTS] * 2, reference=[GOOD] * 2, prompts=["p"] * 2) == [1.0, 0.0]
    with pytest.raises(sandbox.SandboxError, match="no-such-sandbox is not installed"):
        verdicts_of(["no-such-sandbox"], [GOOD], engine="ray")


@needs_bubblewrap
def test_a_lost_ray_worker_is_replaced(box, cluster):
    killed = []

    def kill():
        deadline = time.monotonic() + 20
        while not killed and time.monotonic() < deadline:
            time.sleep(0.5)
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                if path.read_bytes().startswith(b"ray::judge_there"):
                    os.kill(int(path.parent.name), signal.SIGKILL)
                    killed.append(path.parent.name)
                    return

    thread = threading.Thread(target=kill)
    thread.start()
    sources = [f"import time\ntime.sleep(1)  # {n}\n{GOOD}" for n in range(4)]
    assert reasons_of(box, sources, engine="ray") == ["passed"] * 4
    thread.join()
    assert killed
