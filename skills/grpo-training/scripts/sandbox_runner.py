"""The part of sandbox.py that works inside the sandbox: keeps two processes to fork from, and judges one job at a time.

    supervisor           reads the job's header, watches time and memory, ends everything after a job
     |- test zygote      has pytest imported and its session prepared; reads the tests, never candidate code
     |   `- judge        one per job: runs the tests against stand-ins (sandbox_proxy.py), writes the verdict
     `- candidate zygote never sees a test or a verdict, so no process forked from it has the answers in its memory
         `- candidate    one per job: own user, pid, mount and ipc namespaces where the kernel allows, limits, seccomp

Needs Python 3.10 and pytest 7 inside the sandbox, and nothing mounted: the source of this file comes over
standard input, as the jobs do.
"""

from __future__ import annotations

import ast
import base64
import collections
import ctypes
import gc
import hashlib
import importlib
import importlib.util
import inspect
import io
import json
import linecache
import math
import os
import re
import resource
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import types

import sandbox_proxy as proxy

__tracebackhide__ = True  # pytest leaves our frames out of what it shows

TESTS = "/tmp/tests"  # an empty test_candidate.py, for pytest to collect; the source is never on disk
SHARED = "/tmp/shared"  # current folder and tmp_path of tests and candidate alike, new for each job
FILES = 16_384  # in the folder that a candidate shares with its tests
FAILED = 1 << 31  # said in place of a pid
COLLECTION_S = 30  # for tests to be collected without a candidate, once
TICK_S = 0.04  # between two looks at what the candidate uses
LIBC = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWIPC, NEWUSER, NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000  # linux/sched.h
READONLY, NOSUID, NODEV, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 32, 4096, 1 << 14, 1 << 18  # linux/mount.h
# Imported before the first fork, so that a candidate finds them there.
for (
    _name
) in "abc bisect dataclasses functools heapq itertools operator random re statistics string textwrap typing".split():
    importlib.import_module(_name)


# ------------------------------------------------------------------------------------------------------ isolation


def prctl(*arguments) -> int:
    return LIBC.prctl(*arguments, *[0] * (5 - len(arguments)))


def set_dumpable(value: bool) -> None:
    prctl(4, int(value))  # PR_SET_DUMPABLE: 0 keeps other processes of this user out of our memory


def _mount(source, target, kind, flags, data=None) -> None:
    if LIBC.mount(source, target.encode(), kind, flags, data) < 0:
        raise OSError(ctypes.get_errno(), f"mount {target}: {os.strerror(ctypes.get_errno())}")


def drop_capabilities() -> None:
    for capability in range(64):
        prctl(24, capability)  # PR_CAPBSET_DROP
    prctl(47, 4)  # PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL
    LIBC.capset(struct.pack("Ii", 0x20080522, 0), b"\0" * 24)
    prctl(38, 1)  # PR_SET_NO_NEW_PRIVS


# System calls that no solution of a programming task needs and that kernel bugs and left messages hide behind. Numbers:
# arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of Linux 6.12.
_DENIED = {
    "x86_64": {
        "arch": 0xC000003E,
        "always": {
            "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "unshare": 272, "setns": 308,
            "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "bpf": 321, "add_key": 248,
            "request_key": 249, "keyctl": 250, "perf_event_open": 298,
            "userfaultfd": 323, "io_uring_setup": 425, "init_module": 175,
            "finit_module": 313, "kexec_load": 246, "reboot": 169, "swapon": 167, "open_by_handle_at": 304,
            "name_to_handle_at": 303, "pidfd_getfd": 438, "fsopen": 430, "open_tree": 428, "move_mount": 429,
            "memfd_create": 319, "shmget": 29,  # memory that counts for no process
        },
        "clone": 56, "clone3": 435,
        "signals": (62, 200, 234, 129, 297, 302),  # kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, prlimit64
        "shared_ipc": {"semget": 64, "msgget": 68, "mq_open": 240, "pidfd_send_signal": 424},
    },
    "aarch64": {
        "arch": 0xC00000B7,
        "always": {
            "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "unshare": 97, "setns": 268, "mount": 40,
            "umount2": 39, "pivot_root": 41, "chroot": 51, "bpf": 280, "add_key": 217, "request_key": 218,
            "keyctl": 219, "perf_event_open": 241, "userfaultfd": 282, "io_uring_setup": 425, "init_module": 105,
            "finit_module": 273, "kexec_load": 104, "reboot": 142, "swapon": 224, "open_by_handle_at": 265,
            "name_to_handle_at": 264, "pidfd_getfd": 438, "fsopen": 430, "open_tree": 428, "move_mount": 429,
            "memfd_create": 279, "shmget": 194,
        },
        "clone": 220, "clone3": 435,
        "signals": (129, 130, 131, 138, 240, 261),
        "shared_ipc": {"semget": 190, "msgget": 186, "mq_open": 180, "pidfd_send_signal": 424},
    },
}  # fmt: skip


def deny_system_calls(isolated: bool) -> bool:
    """A seccomp filter that answers EPERM. False where it could not be set; it is a second line, not the boundary.

    Where candidates have no namespaces of their own (containers), it also keeps them from leaving messages, and from
    signals to any process but their own session's leader and children that are younger than it: an older one is the
    supervisor's, and stopping it would hang the sandbox."""
    table = _DENIED.get(os.uname().machine)
    if table is None:
        return False
    denied = [*table["always"].values(), *(() if isolated else table["shared_ipc"].values())]
    # BPF_LD|W|ABS, BPF_JMP with JEQ, JGE, JSET, and BPF_RET, all |K
    load, equal, at_least, any_bit, answer = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill, refuse, absent = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026  # SECCOMP_RET_*; EPERM, ENOSYS
    program = [(load, 0, 0, 4), (equal, 1, 0, table["arch"]), (answer, 0, 0, kill), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, 0x40000000), (answer, 0, 0, kill)]  # the x32 calls, which have other numbers
    for number in denied:
        program += [(equal, 0, 1, number), (answer, 0, 0, refuse)]
    for number in () if isolated else table["signals"]:
        # pid below ours, or a group (negative): refused. 0 is our own group.
        program += [(equal, 0, 6, number), (load, 0, 0, 16), (equal, 4, 0, 0), (at_least, 0, 1, 1 << 31)]
        program += [(answer, 0, 0, refuse), (at_least, 1, 0, os.getpid()), (answer, 0, 0, refuse), (load, 0, 0, 0)]
    # No new namespaces by clone(); the flags of clone3() lie in memory, where no filter sees them: libc takes clone().
    program += [(equal, 0, 1, table["clone3"]), (answer, 0, 0, absent), (equal, 0, 3, table["clone"]), (load, 0, 0, 16)]
    program += [(any_bit, 0, 1, 0x7E020000), (answer, 0, 0, refuse), (answer, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    return LIBC.prctl(22, 2, header, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def set_limits(limits: dict, memory_mb: int, processes: int) -> None:
    for what, value in (
        (resource.RLIMIT_AS, memory_mb << 20),
        (resource.RLIMIT_FSIZE, limits["disk_mb"] << 20),
        (resource.RLIMIT_CPU, math.ceil(limits["cpu_s"]) + 1),  # the supervisor is more exact
        (resource.RLIMIT_NOFILE, limits["files"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, processes),
    ):
        hard = resource.getrlimit(what)[1]
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (limit, limit))


def enter_namespaces(disk_mb: int, keep_shared: bool, report) -> bool:
    """Fork into new user, pid, mount and ipc namespaces; returns in the innermost process, which is pid 1 there: its
    end is the end of all it started. `report(pid)` is called with the pid that the caller's namespace sees."""
    user, group = os.getuid(), os.getgid()
    if LIBC.unshare(NEWUSER | NEWPID | NEWNS | NEWIPC) < 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"65534 {user} 1"), ("gid_map", f"65534 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    child = os.fork()
    if child:
        report(child)
        os._exit(0)
    _mount(None, "/", None, RECURSIVE | PRIVATE)
    shared = os.open(SHARED, os.O_PATH | os.O_DIRECTORY) if keep_shared else None
    for folder, size_mb in (("/tmp", disk_mb), ("/dev/shm", 16)):
        if os.path.isdir(folder):
            _mount(b"tmpfs", folder, b"tmpfs", NOSUID | NODEV, b"size=%dm,mode=1777,nr_inodes=16k" % size_mb)
    if keep_shared:
        os.mkdir(SHARED)
        _mount(b"/proc/self/fd/%d" % shared, SHARED, None, BIND)
        os.close(shared)
    try:
        _mount(b"proc", "/proc", b"proc", NOSUID | NODEV | 8)
    except OSError:  # under a /proc with parts mounted over; what is there tells of the processes outside
        _mount(b"tmpfs", "/proc", b"tmpfs", READONLY | NOSUID | NODEV, b"size=4k")
    return True


def close_descriptors(*keep: int) -> None:
    last = 2
    for one in sorted(keep):
        os.closerange(last + 1, one)
        last = one
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") < 1 << 20 else 1 << 20)


def be_candidate(link: int, limits: dict, isolated: bool, say) -> None:
    """The candidate's process from its fork on. `say(pid)` tells the supervisor its pid, `say(0)` that it is ready."""
    set_dumpable(True)  # /proc/self/uid_map must be ours to write
    if isolated:
        if not enter_namespaces(limits["disk_mb"], True, say):
            os._exit(97)
    else:
        say(os.getpid())
    os.setsid()
    folder = "/tmp" if isolated else SHARED
    os.chdir(SHARED)
    set_limits(limits, limits["memory_mb"], limits["processes"])
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # if memory runs out all the same, this goes first
    except OSError:
        pass
    drop_capabilities()
    deny_system_calls(isolated)
    set_dumpable(True)
    for name in ("home", "tmp"):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    os.environ.clear()
    os.environ.update(
        PATH="/usr/local/bin:/usr/bin:/bin", HOME=f"{folder}/home", TMPDIR=f"{folder}/tmp", LANG="C.UTF-8",
        PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
    )  # fmt: skip
    import random

    random.seed()  # else all candidates of one supervisor would draw the same numbers
    gc.enable()
    os.dup2(link, 3)
    say(0)
    close_descriptors(3)
    proxy.run_agent(3)


# ------------------------------------------------------------------------------------------------- the test zygote

# Plugins that would write, walk folders, or call gc.collect() in every judge.
_WITHOUT = (
    "cacheprovider",
    "faulthandler",
    "unraisableexception",
    "threadexception",
    "stepwise",
    "pastebin",
    "junitxml",
)


def pytest_options() -> list[str]:
    return [
        "-q", "--no-header", "--tb=short", "--show-capture=no", "-rN", "--capture=no", "-c", os.devnull, "--noconftest",
        "--rootdir", TESTS, "--confcutdir", TESTS, "--basetemp", f"{SHARED}/pytest", "--import-mode=importlib",
        *(word for name in _WITHOUT for word in ("-p", f"no:{name}")), f"{TESTS}/test_candidate.py",
    ]  # fmt: skip


class Judge:
    """pytest plugin: takes the test module from memory, and keeps the books."""

    def __init__(self):
        self.outcomes: dict[str, str] = {}
        self.first, self.code, self.link, self.after_report = None, None, None, lambda: None

    def pytest_pycollect_makemodule(self, module_path, parent):
        import pytest

        judge = self

        class FromMemory(pytest.Module):
            def _getobj(self):
                module = types.ModuleType("test_candidate")
                module.__file__ = str(self.path)
                sys.modules["test_candidate"] = module
                exec(judge.code, module.__dict__)
                refuse_wrapped(judge.code, module.__dict__)
                return module

        return FromMemory.from_parent(parent, path=module_path)

    def pytest_pyfunc_call(self, pyfuncitem):
        if not inspect.iscoroutinefunction(pyfuncitem.obj):
            return None
        import asyncio

        names = pyfuncitem._fixtureinfo.argnames
        asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True

    def _failed(self, report, name):
        self.outcomes[report.nodeid or "collection"] = name
        if self.first is None:
            self.first = str(report.longrepr)[-2000:]

    def pytest_collectreport(self, report):
        if not report.passed:
            self._failed(report, "skipped" if report.skipped else "error")

    def pytest_runtest_logreport(self, report):
        if report.outcome != "passed" or hasattr(report, "wasxfail"):
            self._failed(report, "skipped" if report.skipped else "failed" if report.when == "call" else "error")
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, "passed")
        self.after_report()

    def counts(self) -> dict:
        return dict(collections.Counter(self.outcomes.values()))


def refuse_wrapped(code: types.CodeType, names) -> None:
    """A test that a decorator of the candidate has replaced is no test: it may never be called."""
    for one in code.co_consts:
        if isinstance(one, types.CodeType) and one.co_name.lower().startswith("test"):
            found = names.get(one.co_name)
            if proxy._is_remote(found) or type(found) is proxy.RemoteClass:
                raise proxy.Refused(f"{one.co_name} is wrapped by the candidate's code, which could pass for it")
            if isinstance(found, type):
                refuse_wrapped(one, vars(found))


def open_session(judge: Judge):
    """What `pytest.main` does before it collects (_pytest/main.py wrap_session, the same from 7.2 to 9.2); two thirds
    of the time of a run, so it is done once, before the forks."""
    import _pytest.tmpdir
    from _pytest.config import _prepareconfig
    from _pytest.main import Session

    # tmp_path is named after the test and its parameters; the candidate can read names.
    _pytest.tmpdir._mk_tmp = lambda request, factory: factory.mktemp("tmp", numbered=True)

    config = _prepareconfig(pytest_options(), [judge])
    session = Session.from_config(config)
    config._do_configure()
    config.hook.pytest_sessionstart(session=session)
    config.pluginmanager.unregister(name="terminalreporter")  # nobody reads what it prints
    return session


def run_session(session, judge: Judge, stop_early: bool) -> bool:
    """Collect and run; True if it came to its end."""
    from _pytest import outcomes

    session.config.option.maxfail = 1 if stop_early else 0
    hook = session.config.hook
    try:
        hook.pytest_collection(session=session)
        hook.pytest_runtestloop(session=session)
    except (session.Failed, session.Interrupted):
        return False
    except (SystemExit, outcomes.Exit) as error:  # raised while the tests were collected, or by pytest.exit()
        judge.first = judge.first or f"{type(error).__name__}: {error}"
        return False
    except Exception as error:  # of pytest itself, over something that the candidate gave it
        if judge.link is None or not judge.link.calls:
            raise
        judge.first = judge.first or f"pytest fails: {type(error).__name__}: {error}"
        return False
    return not session.shouldfail and not session.shouldstop


def compile_tests(source: str, config) -> types.CodeType:
    from _pytest.assertion.rewrite import rewrite_asserts

    tree = ast.parse(source)
    rewrite_asserts(tree, source.encode("utf-8", "replace"), f"{TESTS}/test_candidate.py", config)
    return compile(tree, f"{TESTS}/test_candidate.py", "exec", dont_inherit=True)


def star_names(tree: ast.AST) -> tuple[set[str], set[str]]:
    """What `from candidate import *` may bring in: names that the tests use and bind nowhere. The second set are
    modules of the standard library that they use as such; those come from here, not from the candidate."""
    nodes = list(ast.walk(tree))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    for node in nodes:
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "candidate"):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            bound |= {alias.asname or alias.name for alias in node.names}
    free = {
        name
        for name in used - bound
        if not hasattr(proxy.builtins, name) and not name.startswith(("_", "test", "pytest"))
    }
    with_parts = {
        node.value.id for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    modules = free & with_parts & set(sys.stdlib_module_names)
    return free - modules, modules


class Candidate(importlib.abc.MetaPathFinder if hasattr(importlib, "abc") else object):
    """Makes `import candidate` give what `load(module)` fills in."""

    def __init__(self, module, load):
        self.module, self.load = module, load

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name == "candidate" else None

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        self.load(module)


class Placeholder:
    """A name of the candidate before there is a candidate. Notes if the tests use it while they are collected."""

    used = False

    def __getattr__(self, name):
        if not proxy._is_hidden(name) and name not in proxy.READABLE:  # what pytest asks of every name in a module
            Placeholder.used = True
        raise AttributeError(name)

    def _use(self, *args, **kwargs):
        Placeholder.used = True
        raise NotYet

    locals().update(dict.fromkeys([*(proxy.DUNDERS - {"__await__"}), "__mro_entries__", "__instancecheck__"], _use))
    __hash__ = object.__hash__
    __eq__ = object.__eq__
    __repr__ = object.__repr__
    __str__ = object.__str__


class NotYet(Exception):
    pass


class PlaceholderModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder()


def collect_alone(session, judge: Judge, stars: set, modules: set) -> dict:
    """Collect the tests before any candidate exists: how many there are, or why they can judge nobody."""

    def load(module):
        module.__dict__.update(
            {name: Placeholder() for name in stars} | {name: importlib.import_module(name) for name in modules}
        )
        module.__all__ = [*stars, *modules]

    sys.meta_path.insert(0, Candidate(PlaceholderModule("candidate"), load))
    try:
        session.config.hook.pytest_collection(session=session)
    except (session.Failed, session.Interrupted):
        pass
    except BaseException as error:
        return {"problem": f"the tests cannot be collected: {type(error).__name__}: {error}"[:500]}
    if Placeholder.used:  # the number may depend on the candidate
        return {"expected": None}
    if judge.first is not None:
        return {"problem": "the tests cannot be collected: " + judge.first.strip().rpartition("\n")[2][:400]}
    if not session.testscollected:
        return {"problem": "no tests: pytest collects none of them"}
    return {"expected": session.testscollected}


def reap_children() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def receive_job(control: socket.socket) -> tuple[dict, list[int]]:
    """A header and two descriptors, closed on exec: what a test starts must not get them."""
    message, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 2)
    if not message:
        os._exit(0)
    for one in descriptors:
        os.set_inheritable(one, False)
    return json.loads(message), descriptors


class CandidateZygote:
    """Forks candidates. What it ever reads are headers: no tests, no code, no verdicts."""

    def __init__(self, control: socket.socket, isolated: bool):
        self.control, self.isolated = control, isolated

    def be_candidate(self, limits: dict, link: int, writing: int) -> None:
        try:
            be_candidate(link, limits, self.isolated, lambda pid: os.write(writing, struct.pack(">I", pid)))
        except BaseException as error:
            os.write(writing, struct.pack(">I", FAILED) + f"{type(error).__name__}: {error}".encode()[:300])
        finally:
            os._exit(96)

    def run(self) -> None:
        gc.collect()
        gc.freeze()
        self.control.send(b"{}")
        while True:
            header, (link, writing) = receive_job(self.control)
            reap_children()
            if header["mode"] == "inproc" and "pytest" not in sys.modules:
                os.environ.update(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTHONDONTWRITEBYTECODE="1")
                import _pytest.assertion.rewrite  # noqa: F401
                import pytest  # noqa: F401
            if os.fork() == 0:
                self.be_candidate(header["limits"], link, writing)
            os.close(link)
            os.close(writing)


class TestZygote:
    """Reads the bodies of jobs and forks a judge for each."""

    def __init__(self, control: socket.socket, bodies: int):
        self.control, self.bodies, self.known = control, bodies, collections.OrderedDict()

    def run(self) -> None:
        os.environ.update(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
        os.environ.pop("PYTEST_ADDOPTS", None)
        sys.dont_write_bytecode = True
        import unittest.mock  # noqa: F401 (tests will find it imported)

        import pytest

        self.judge = Judge()
        self.session = open_session(self.judge)
        # A first run in a fork would warm nothing here; this one warms imports and regular expressions.
        compile_tests(
            "import pytest\ndef test():\n    with pytest.raises(ValueError):\n        int('x')\n", self.session.config
        )
        mirror_modules()
        gc.collect()
        gc.freeze()
        gc.disable()
        self.control.send(json.dumps({"pytest": pytest.__version__}).encode())
        while True:
            header, (link, verdict) = receive_job(self.control)
            reap_children()
            body = proxy.receive(self.bodies)
            entry = self.prepared(body["tests"])
            if entry.get("collection_s", 0) > header["limits"]["wall_s"] / 2:
                entry = {
                    "problem": f"the tests take {entry['collection_s']:.1f} s to be collected, without any candidate"
                }
            pid = 0
            if "problem" not in entry:
                pid = os.fork()
                if pid == 0:
                    self.be_judge(header, body, entry, link, verdict)
            os.close(link)
            os.close(verdict)
            self.control.send(json.dumps({"pid": pid, **{k: v for k, v in entry.items() if k == "problem"}}).encode())

    def prepared(self, source: str) -> dict:
        key = hashlib.sha256(source.encode("utf-8", "replace")).digest()
        if key not in self.known:
            self.known[key] = self._prepare(source)
            while len(self.known) > 64:
                self.known.popitem(last=False)
        self.known.move_to_end(key)
        return self.known[key]

    def _prepare(self, source: str) -> dict:
        try:
            tree = ast.parse(source)
            code = compile_tests(source, self.session.config)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return {"problem": f"the tests do not compile: {type(error).__name__}: {error}"[:400]}
        stars, modules = star_names(tree)
        started = time.monotonic()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                os.chdir(SHARED)
                self.judge.code = code
                proxy.send(writing, collect_alone(self.session, self.judge, stars, modules))
            finally:
                os._exit(0)
        os.close(writing)
        try:
            if not select.select([reading], [], [], COLLECTION_S)[0]:
                raise EOFError
            found = proxy.receive(reading)
        except (EOFError, ValueError):
            found = {
                "problem": f"the tests cannot be collected: it takes more than {COLLECTION_S} s, or ends the process"
            }
        finally:
            os.close(reading)
            try:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            except OSError:
                pass
        collection_s = time.monotonic() - started
        if "problem" not in found:
            for node in ast.walk(tree):  # so that each judge finds them imported
                if isinstance(node, ast.Import):
                    for alias in node.names:
                        if alias.name.partition(".")[0] in {*sys.stdlib_module_names, "numpy"} - {
                            "antigravity",
                            "this",
                        }:
                            try:
                                importlib.import_module(alias.name)
                            except ImportError:
                                pass
            mirror_modules()
        return {**found, "code": code, "stars": stars, "modules": modules, "collection_s": collection_s}

    # --- the judge

    def be_judge(self, header: dict, body: dict, entry: dict, link: int, verdict: int) -> None:
        limits = header["limits"]
        try:
            prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            os.setsid()
            self.control.close()
            os.close(self.bodies)
            set_limits({**limits, "cpu_s": 3600}, limits["memory_mb"] + 1024, 4096)
            os.chdir(SHARED)
            os.environ.update(HOME=SHARED, TMPDIR=SHARED)
            proxied = proxy.Link(link, body["source"], header["mode"] == "changes")
            if header["mode"] == "inproc":
                found = self.in_process(proxied, body)
            else:
                found = self.split(proxied, header, body, entry, verdict)
            found.update(expected=entry["expected"], calls=proxied.calls, final=True, unapplied=proxied.unapplied)
            found["dead"] = [proxied.dead.reason, str(proxied.dead)] if proxied.dead else None
        except BaseException as error:
            found = {"crash": f"{type(error).__name__}: {error}"[:500], "final": True}
        try:
            proxy.send(verdict, found)
        finally:
            os._exit(0)

    def split(self, link: proxy.Link, header: dict, body: dict, entry: dict, verdict: int) -> dict:
        judge, session, load_error = self.judge, self.session, []

        def load(module):
            try:
                names = link.ask("load", source=body["source"])
            except (Exception, SystemExit) as error:
                is_syntax = isinstance(error, (SyntaxError, UnicodeEncodeError)) or "null bytes" in str(error)
                load_error.append("syntax" if is_syntax else "load_error")
                if isinstance(error, SystemExit):  # which would end pytest
                    raise ImportError(f"the code ended the program: {error!r}") from None
                raise
            names = {name for name in names if type(name) is str} & entry["stars"] if type(names) is list else set()
            for name in entry["modules"]:
                module.__dict__[name] = importlib.import_module(name)
            module.__dict__["__all__"] = [*names, *entry["modules"]]
            module.__dict__["__doc__"] = link.decode(link.ask("document"))
            module.__dict__["__file__"] = f"{SHARED}/candidate.py"  # which programs may run, and nobody here may read

        def after_report():
            if link.dead:
                session.shouldstop = "the candidate's process is gone"
            elif header["partial"]:
                proxy.send(verdict, {"counts": judge.counts(), "final": False})

        judge.code, judge.link, judge.after_report = entry["code"], link, after_report
        linecache.cache[f"{TESTS}/test_candidate.py"] = (len(body["tests"]), None, body["tests"].splitlines(True), "")
        sys.meta_path.insert(0, Candidate(proxy.RemoteModule(link), load))
        stand_in_for(link, body["source"])
        keep_out()
        finished = run_session(session, judge, not header["partial"])
        if link.failed_inside:
            judge.first = judge.first or f"an assertion failed inside a call of the candidate: {link.failed_inside[0]}"
            finished = False
        return {
            "finished": finished and not link.dead,
            "collected": session.testscollected,
            "counts": judge.counts(),
            "first": judge.first,
            "load": load_error[0] if load_error else None,
        }

    def in_process(self, link: proxy.Link, body: dict) -> dict:
        """Ask the candidate's process for its own verdict. It can lie; what it cannot do is to end early and pass."""
        try:
            found = link.ask("in_process", source=body["source"], tests=body["tests"])
            counts = {str(name): int(number) for name, number in found["counts"].items()}
            good = found["canary"] == "failed" and found["finished"] is True
            load = found["load"] if found["load"] in ("syntax", "load_error") else None
            collected, first = int(found["collected"]), str(found["first"])[-2000:]
        except (proxy.Broken, Exception) as error:
            return {"finished": False, "collected": 0, "counts": {}, "first": str(error)[-400:], "load": None}
        return {"finished": good, "collected": collected, "counts": counts, "first": first, "load": load}


def stand_in_for(link: proxy.Link, source: str) -> None:
    """What tests do to the process they share with the code they judge, done to both: seeds, and running its file."""
    import random

    def seeding(function, name):
        def seed(value=None, *rest, **named):
            link.pending[name] = link.encode(value)
            return function(value, *rest, **named)

        return seed

    random.seed = seeding(random.seed, "seed")
    if "numpy" in sys.modules:
        import numpy

        numpy.random.seed = seeding(numpy.random.seed, "numpy_seed")

    class Program:
        """subprocess.Popen, on the candidate's side: nothing that a test starts runs beside the judge."""

        def __init__(self, args, stdin=None, stdout=None, stderr=None, shell=False, cwd=None, env=None, **named):
            self.args, self.kept = args, (stdout, stderr)
            words = ["sh", "-c", args] if shell else shlex.split(args) if isinstance(args, str) else list(args)
            self.words = [os.fspath(word) for word in words]
            self.is_text = any(named.get(key) for key in ("text", "universal_newlines", "encoding", "errors"))
            self.options = {"folder": os.fspath(cwd or os.getcwd()), "environ": env and dict(env), "source": source}
            self.is_joined = stderr == subprocess.STDOUT
            self.given = stdin.read() if hasattr(stdin, "read") else b""
            self.stdin, self.returncode, self.pid = io.BytesIO() if stdin == subprocess.PIPE else None, None, 2

        def communicate(self, input=None, timeout=None):
            if self.returncode is None:
                given = input if input is not None else self.stdin.getvalue() if self.stdin else self.given
                given = given.encode() if isinstance(given, str) else bytes(given or b"")
                packed = base64.b64encode(given).decode()
                answer = link.ask("program", words=self.words, input=packed, timeout=timeout, **self.options)
                self.returncode, *printed = int(answer[0]), *map(base64.b64decode, answer[1:3])
                if self.is_joined:
                    printed = [printed[0] + printed[1], b""]
                self.printed = [one.decode("utf-8", "replace") if self.is_text else one for one in printed]
            shown = [one if kept == subprocess.PIPE else None for one, kept in zip(self.printed, self.kept)]
            return tuple(shown)

        def wait(self, timeout=None):
            self.communicate(timeout=timeout)
            return self.returncode

        def poll(self):
            return self.wait()

        def kill(self):
            """It has ended before anybody could."""

        terminate = kill

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.wait()

        @property
        def stdout(self):
            out, _ = self.communicate()
            return None if out is None else (io.StringIO if self.is_text else io.BytesIO)(out)

        @property
        def stderr(self):
            _, error = self.communicate()
            return None if error is None else (io.StringIO if self.is_text else io.BytesIO)(error)

    def run(command, *, input=None, capture_output=False, timeout=None, check=False, **named):
        if capture_output:
            named.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        program = Program(command, **named)
        out, error = program.communicate(input, timeout)
        done = subprocess.CompletedProcess(command, program.returncode, out, error)
        if check:
            done.check_returncode()
        return done

    subprocess.Popen, subprocess.run = Program, run
    subprocess.call = lambda *words, **named: run(*words, **named).returncode
    subprocess.check_call = lambda *words, **named: run(*words, check=True, **named).returncode
    subprocess.check_output = lambda *words, **named: run(*words, check=True, stdout=subprocess.PIPE, **named).stdout
    Mirrored.link = link
    sys.meta_path.insert(0, _MirroredLater())


# Modules that pytest, mock and this file themselves change while tests run.
_NOT_MIRRORED = {
    "sys",
    "unittest",
    "importlib",
    "warnings",
    "logging",
    "threading",
    "subprocess",
    "linecache",
    "tempfile",
}


class Mirrored(types.ModuleType):
    """A module of a library that tells the candidate's process what a test replaces in it, as mock.patch and
    monkeypatch do. Modules get this class in the test zygote, once."""

    link: proxy.Link | None = None
    originals: dict = {}  # noqa: RUF012

    def __setattr__(self, attribute, value):
        name, link = self.__name__, Mirrored.link
        if attribute not in self.__dict__:  # what a library adds to itself when it is first used
            super().__setattr__(attribute, value)
            return
        original = Mirrored.originals.setdefault((name, attribute), self.__dict__.get(attribute))
        super().__setattr__(attribute, value)
        if isinstance(value, types.ModuleType):  # a part of a package that was imported
            return
        if link is None or (name == "builtins" and attribute not in ("open", "print")):
            return
        try:
            described = None if value is original else [link.encode(value)]
        except (TypeError, ValueError, proxy.Refused):
            return
        link.pending.setdefault("patches", []).append([name, attribute, described])


def mirror_modules() -> None:
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        if type(module) is types.ModuleType and proxy.is_library(name) and top not in _NOT_MIRRORED:
            module.__class__ = Mirrored


class _MirroredLater:
    """Gives the same class to what a test imports later: `patch("urllib.request.urlopen")` imports what it patches."""

    busy = False

    def find_spec(self, name, path=None, target=None):
        if self.busy or name.partition(".")[0] in _NOT_MIRRORED or not proxy.is_library(name):
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return None
        finally:
            self.busy = False
        execute = getattr(getattr(spec, "loader", None), "exec_module", None)
        if execute is not None:

            def exec_module(module):
                execute(module)
                if type(module) is types.ModuleType:
                    module.__class__ = Mirrored

            try:
                spec.loader.exec_module = exec_module
            except AttributeError:  # of a module that is built in
                pass
        return spec


class OnTheWrongSide(PermissionError):
    """A test would run code of the candidate in the judge."""


def keep_out() -> None:
    """Nothing that the candidate wrote is run by the judge: not its files, not its pickles, not text that a test hands
    to eval(). For the rest of this process, whatever the tests do."""

    def refuse(what: str):
        raise OnTheWrongSide(f"{what} would run the candidate's code beside its judge; mode='auto' finds such tests")

    def is_shared(path) -> bool:
        text = os.path.realpath(os.fsdecode(path)) if isinstance(path, (str, bytes, os.PathLike)) else ""
        return text.startswith(SHARED) and text.endswith((".py", ".pyc", ".so", ".pth"))

    def listen(event: str, arguments: tuple) -> None:
        if event == "open":
            if is_shared(arguments[0]) and not str(arguments[1] or "r").startswith(("w", "x", "a")):
                refuse(f"reading {os.path.basename(os.fsdecode(arguments[0]))}")
        elif event == "pickle.find_class":
            module, name = arguments
            is_class = "." not in name and isinstance(getattr(sys.modules.get(module), name, None), type)
            if not ((module in _PICKLED and is_class) or (module == "builtins" and name in proxy._DATA_TYPES)):
                refuse(f"a pickle of {module}.{name}")
        elif event == "marshal.loads":
            if sys._getframe(1).f_globals.get("__name__") == "test_candidate":
                refuse("marshal")
        elif event == "compile" and arguments[0] is not None:
            by, text = sys._getframe(1).f_globals.get("__name__"), arguments[0]
            if by in _READING_TYPES:  # annotations that are text: names and brackets, which call nothing
                text = bytes(text).decode("utf-8", "replace") if isinstance(text, (bytes, bytearray)) else text
                if isinstance(text, str) and re.fullmatch(r"[\w\s.,|'\"\[\]-]*", text):
                    return
            if isinstance(by, str) and by.startswith("sympy.") and isinstance(text, (str, bytes)):
                try:  # sympify() evaluates what it is given
                    names = {getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(ast.parse(text))}
                except (SyntaxError, ValueError):
                    names = set()
                if any(name.startswith("__") for name in names) or names & _REACHING:
                    refuse("sympify()")
            # Whoever is not known to compile its own text may be compiling the candidate's: eval() in a test, doctest,
            # timeit, templates of jinja2, queries of pandas.
            if str(by).partition(".")[0] not in _COMPILING:
                refuse(f"eval(), exec() or compile() in {by}")
        elif event in ("os.exec", "os.posix_spawn", "os.system", "subprocess.Popen", "os.spawn"):
            refuse("a program")

    sys.addaudithook(listen)
    sys.path_hooks.insert(0, _nothing_shared)
    sys.path_importer_cache.clear()
    sys.path[:] = [one for one in sys.path if one and not os.path.realpath(one).startswith(SHARED)]


_READING_TYPES = {"typing", "inspect", "annotationlib", "typing_extensions"}
# These compile what they have written themselves, files of installed modules (importlib), or what is not run (ast).
_COMPILING = set(
    "_frozen_importlib_external ast attr collections dataclasses enum hypothesis importlib linecache namedtuple numpy "
    "pluggy pydantic pytest _pytest sandbox_proxy sandbox_runner sympy unittest".split()
)
_REACHING = set("breakpoint compile delattr eval exec getattr globals help input locals open setattr vars".split())
_PICKLED = {"datetime", "decimal", "fractions", "uuid", "collections", "zoneinfo"}


class _NothingHere:
    def find_spec(self, name, target=None):
        return None


def _nothing_shared(path: str):
    if os.path.realpath(path or ".").startswith(SHARED):
        return _NothingHere()
    raise ImportError


_CANARY = "def test_canary():\n    import candidate\n    assert [1] == [2]\n"


def judge_in_process(source: str, tests: str) -> dict:
    """Tests and candidate in one process, the weaker way: everything here can be changed by the candidate."""
    os.makedirs(TESTS, exist_ok=True)
    open(f"{TESTS}/test_candidate.py", "a").close()
    judge, load_error = Judge(), []
    session = open_session(judge)
    judge.code = compile_tests(tests + "\n\n" + _CANARY.replace("test_canary", "test_zz_canary"), session.config)
    module = types.ModuleType("candidate")
    module.__file__ = os.path.join(os.getcwd(), "candidate.py")
    sys.path.insert(0, os.getcwd())
    with open(module.__file__, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
        file.write(source)

    def load(module):
        try:
            exec(compile(source, module.__file__, "exec", dont_inherit=True), module.__dict__)
        except (SyntaxError, ValueError):
            load_error.append("syntax")
            raise
        except BaseException:
            load_error.append("load_error")
            raise

    sys.meta_path.insert(0, Candidate(module, load))
    finished = run_session(session, judge, False)
    canary = judge.outcomes.pop(next((key for key in judge.outcomes if key.endswith("test_zz_canary")), ""), None)
    return {
        "finished": finished,
        "collected": session.testscollected - 1,
        "counts": judge.counts(),
        "canary": canary,
        "first": judge.first,
        "load": load_error[0] if load_error else None,
    }


# ------------------------------------------------------------------------------------------------- the supervisor


def probe(message: dict) -> dict:
    """What can be reached from here, tried before anything is written and before any candidate code exists."""

    def namespace(name):
        try:
            return os.readlink(f"/proc/self/ns/{name}")
        except OSError:
            return None

    def reaches(family, kind, address, send=None):
        with socket.socket(family, kind) as tried:
            tried.settimeout(1)
            try:
                tried.connect(address)
                if send:
                    tried.send(send)
                return True
            except OSError:
                return False

    def reads(path):
        try:
            with open(path) as file:
                return bool(file.read(1))
        except OSError:
            return False

    writable = []
    try:
        with open("/proc/self/mountinfo") as file:
            for line in file:
                words = line.split()
                folder, kind = words[4], words[words.index("-") + 1]
                if os.path.isdir(folder) and os.access(folder, os.W_OK) and not folder.startswith(("/proc", "/sys")):
                    writable.append([folder, kind])
    except (OSError, ValueError):
        pass
    try:
        with open("/proc/self/status") as file:
            capabilities = next(line.split()[1] for line in file if line.startswith("CapEff"))
    except (OSError, StopIteration):
        capabilities = None
    return {
        "namespaces": {name: namespace(name) for name in ("net", "pid", "mnt", "ipc", "user")},
        "interfaces": [name for _, name in socket.if_nameindex()],
        "tcp": reaches(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", message["tcp"])),
        "udp_sent": reaches(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", message["udp"]), b"probe"),
        "abstract": reaches(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + message["abstract"]),
        "reads": [path for path in message["files"] if reads(path)],
        "writes": [path for path in message["folders"] if os.access(path, os.W_OK)],
        "writable": writable,
        "root_read_only": bool(os.statvfs("/").f_flag & os.ST_RDONLY) or not _can_write_root(),
        "environ": sorted(os.environ),
        "processes": sum(name.isdigit() for name in os.listdir("/proc")) if os.path.isdir("/proc") else None,
        "user": os.getuid(),
        "capabilities": capabilities,
    }


def _can_write_root() -> bool:
    return any(
        os.access(folder, os.W_OK) for folder in ("/", "/var", "/var/tmp", "/home", "/root", "/usr", "/opt", "/etc")
    )


class Supervisor:
    def __init__(self, requests: int, answers: int):
        self.requests, self.answers = requests, answers
        self.zygote = self.forker = 0

    def run(self) -> None:
        if os.getuid() == 0:  # root of a container needs none of it here
            try:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            except OSError:
                pass
        found = importlib.util.find_spec("pytest") is not None
        self.answer({"python": sys.version.split()[0], "executable": sys.executable, "has_pytest": found})
        while True:
            try:
                message = proxy.receive(self.requests)
            except EOFError:
                return
            if message["do"] == "probe":
                self.answer(probe(message))
            elif message["do"] == "start":
                self.answer(self.start(message))
            elif message["do"] == "job":
                self.answer(self.job(message))

    def answer(self, message) -> None:
        proxy.send(self.answers, message)

    def start(self, message: dict) -> dict:
        self.writable = message["writable"]
        os.environ.clear()
        os.environ.update(PATH="/usr/local/bin:/usr/bin:/bin", LANG="C.UTF-8", HOME="/tmp")
        set_dumpable(False)
        prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans come to us
        self.make_folders()
        self.isolated = self.can_isolate()
        os.dup2(os.open(os.devnull, os.O_RDWR), 2)  # a file of the host so far, shared by all who come after
        self.forks, self.forker, ready = self.start_zygote(lambda control: CandidateZygote(control, self.isolated))
        self.control, self.zygote, ready = self.start_zygote(lambda control: TestZygote(control, self.requests))
        self.keep = {os.getpid(), self.zygote, self.forker, *self.pids()}
        with open(f"/proc/{self.forker}/stat") as file:  # the interpreter, which all forks share with the zygote
            self.shared_pages = int(file.read().rpartition(")")[2].split()[21])
        gc.collect()
        gc.freeze()
        return {**ready, "isolated": self.isolated}

    def start_zygote(self, make) -> tuple[socket.socket, int, dict]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            try:
                prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
                ours.close()
                os.close(self.answers)
                make(theirs).run()
            except BaseException as error:
                theirs.send(json.dumps({"fatal": f"{type(error).__name__}: {error}"[:500]}).encode())
            finally:
                os._exit(1)
        theirs.close()
        return ours, pid, json.loads(ours.recv(1 << 16) or b'{"fatal": "it ended at once"}')

    def can_isolate(self) -> bool:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                set_dumpable(True)
                if enter_namespaces(1, False, lambda pid: None):
                    os.write(writing, b"1")
            finally:
                os._exit(0)
        os.close(writing)
        with open(reading, "rb") as file:
            worked = file.read() == b"1"
        self.reap()
        return worked

    # --- one job

    def job(self, header: dict) -> dict:
        limits, started = header["limits"], time.monotonic()
        answer = {"id": header["id"], "why": "done", "result": None}
        self.make_folders()
        mine, theirs = socket.socketpair()
        candidate = self.fork_candidate(header, mine)
        mine.close()
        verdict, writing = os.pipe()
        socket.send_fds(self.control, [json.dumps(header).encode()], [theirs.fileno(), writing])
        theirs.close()
        os.close(writing)
        reply = json.loads(self.control.recv(1 << 16) or b'{"fatal": "the test process ended"}')
        if "fatal" in reply or isinstance(candidate, str):
            answer.update(why="broken", detail=reply.get("fatal") or f"a candidate cannot be isolated: {candidate}")
        elif "problem" in reply:
            answer.update(why="tests", detail=reply["problem"])
        else:
            self.watch(answer, candidate, reply["pid"], verdict, limits)
        os.close(verdict)
        # What cannot be removed goes with the sandbox: the verdict stands, and the next job gets a fresh one.
        answer["spent"] = not (self.end_all() and self.clean())
        answer["wall_s"] = round(time.monotonic() - started, 4)
        return answer

    def fork_candidate(self, header: dict, link: socket.socket) -> int | str:
        """Its pid, once it is isolated; what went wrong if that failed."""
        reading, writing = os.pipe()
        socket.send_fds(self.forks, [json.dumps(header).encode()], [link.fileno(), writing])
        os.close(writing)
        try:
            said = []  # its pid and 0, from two processes and so in any order
            while len(said) < 2:
                said += struct.unpack(">I", proxy.read_exactly(reading, 4))
                if FAILED in said:
                    return os.read(reading, 400).decode("utf-8", "replace")
            return max(said)
        except EOFError:
            return "its process ended"
        finally:
            os.close(reading)

    def watch(self, answer: dict, candidate: int, judge: int, verdict: int, limits: dict) -> None:
        poll = select.poll()
        poll.register(verdict, select.POLLIN)
        poll.register(self.requests, 0)  # its end means that the trainer is gone
        data, started, measured = bytearray(), time.monotonic(), time.monotonic()
        used = {"cpu_s": 0.0, "memory_mb": 0.0, "files": 0}
        while True:
            events = dict(poll.poll(TICK_S * 1000))
            if self.requests in events:
                self.end_all()  # bubblewrap's first process would wait for what is left
                os._exit(0)
            if verdict in events:
                part = os.read(verdict, 1 << 16)
                data += part
                if not part or len(data) > 16 << 20:
                    break
                if time.monotonic() - measured < TICK_S:
                    continue
            self.measure(used, candidate, judge)
            measured = time.monotonic()
            if time.monotonic() - started > limits["wall_s"] or used["cpu_s"] > limits["cpu_s"]:
                answer["why"] = "timeout"
            elif used["memory_mb"] > limits["memory_mb"]:
                answer["why"] = "memory"
            elif used["files"] > FILES:
                answer["why"] = "disk"
            else:
                continue
            break
        self.measure(used, candidate, judge)
        answer.update({name: round(value, 3) for name, value in used.items()})
        while len(data) >= 4:  # the last whole message counts
            (size,) = struct.unpack(">I", data[:4])
            if len(data) < 4 + size:
                break
            answer["result"] = json.loads(data[4 : 4 + size])
            del data[: 4 + size]

    @staticmethod
    def pids() -> list[int]:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]

    def measure(self, used: dict, candidate: int, judge: int) -> None:
        """Processor time and memory of everything the candidate started. Its address space is limited per process by
        the kernel; the sum is looked at here, every few hundredths of a second."""
        ticks, pages = 0, 0
        for pid in self.pids():
            if pid in self.keep or pid == judge:
                continue
            try:
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            ticks += sum(map(int, fields[11:15] if pid == candidate else fields[11:13]))
            pages += max(0, int(fields[21]) - self.shared_pages)
        try:
            disk = os.statvfs(SHARED)
            used["files"] = disk.f_files - disk.f_ffree
        except OSError:  # removed by a candidate that has no namespaces of its own
            pass
        used["cpu_s"] = max(used["cpu_s"], ticks / os.sysconf("SC_CLK_TCK"))
        used["memory_mb"] = max(used["memory_mb"], pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20))

    # --- afterwards

    def reap(self) -> None:
        try:
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid and pid in (self.zygote, self.forker):
                    os._exit(1)  # the trainer starts another sandbox
                if pid == 0:
                    return
        except ChildProcessError:
            pass

    def end_all(self) -> bool:
        """Every process that the job started, whatever its session or its parent. Only a sandbox with its own process
        numbers comes this far (see `weaknesses` in sandbox.py): elsewhere this would end the machine."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            left = [pid for pid in self.pids() if pid not in self.keep and not self.is_dead(pid)]
            if not left:
                return True
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            self.reap()
            time.sleep(0.0005)
        return False

    @staticmethod
    def is_dead(pid: int) -> bool:
        """Gone, or a judge that its parent has not waited for yet."""
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            return True

    def make_folders(self) -> None:
        for folder in (TESTS, SHARED):
            os.makedirs(folder, 0o700, exist_ok=True)
        open(f"{TESTS}/test_candidate.py", "a").close()

    def clean(self) -> bool:
        """Nothing of one candidate for the next, and nothing of a judge either."""
        left = False
        for top in self.writable:
            for name in os.listdir(top):
                path = f"{top}/{name}"
                if os.path.ismount(path):
                    continue
                try:
                    if os.path.isdir(path) and not os.path.islink(path):
                        os.chmod(path, 0o700)
                        shutil.rmtree(path)
                    else:
                        os.unlink(path)
                except (OSError, RecursionError):
                    left = True
        return not left


def main() -> None:
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for one in (0, 1):
        os.dup2(nothing, one)
    os.close(nothing)
    Supervisor(requests, answers).run()
