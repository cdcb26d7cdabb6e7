#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["pytest>=7.2"]
# ///
"""Runs model-written code against unit tests, in isolation, and says who is to blame if it does not pass.

Used by `test_execution_reward` in rewards.py; as a command it measures the isolation on this machine (`doctor`).

Three outcomes are never mixed: the code passes, the code fails (with a reason), or nobody could judge it (no sandbox,
broken tests), which raises `SandboxError` and is never a silent 0.0. Nothing is believed that can be measured: a
sandbox is probed from inside before it may score; a right and a wrong answer are judged before and after each batch.

Needs sandbox_runner.py and sandbox_proxy.py beside it: they run inside and explain how a verdict is kept from being
forged; the command needs sandbox_doctor.py. Linux only.
"""

from __future__ import annotations

import ast
import atexit
import collections
import contextlib
import dataclasses
import errno
import json
import logging
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import uuid

logger = logging.getLogger(__name__)

__all__ = [
    "SandboxError",
    "TestsError",
    "Sandbox",
    "bubblewrap",
    "docker",
    "podman",
    "from_command",
    "detect",
    "Task",
    "Verdict",
    "judge",
    "close",
]

START_S = 60  # for a container to come up, on a busy machine too
GRACE_S = 45  # how much longer than its job a sandbox may stay silent: 30 s to collect new tests, and cleaning up
SOURCE_BYTES = 1 << 20  # of a candidate; a longer one scores 0.0 unread
JOBS_PER_SANDBOX = 1000  # then a fresh one
UID = 61100  # and up: one user per sandbox, so that none can use up the processes of another


class SandboxError(RuntimeError):
    """Nobody could judge: the sandbox is missing, dead or too weak. Never the model's fault, so never a reward."""


class TestsError(SandboxError):
    """Nobody could judge: the tests of a row do not compile, cannot be collected, or pass for anything."""

    __test__ = False


# ------------------------------------------------------------------------------------------------------ sandboxes


@dataclasses.dataclass(frozen=True)
class Sandbox:
    """How to start one sandbox: plain words, so it can be pickled, printed and compared.

    `command` may hold {slot}, {uid}, {name} and {workdir} (an empty folder of the host), filled in for each start."""

    kind: str
    command: tuple[str, ...]
    python: str = "python3"
    packages: tuple[str, ...] = ()  # folders, as seen inside, that hold pytest
    stop: tuple[str, ...] = ()  # ends what outlives its client
    lacks: tuple[str, ...] = ()  # what it does not protect from

    def __str__(self):
        return self.kind


def _folders_above(path: str) -> list[str]:
    """bubblewrap makes missing parents unreadable if the real ones are (mode 0700, as /root), so make them first."""
    parts = path.strip("/").split("/")[:-1]
    above = ["/" + "/".join(parts[: at + 1]) for at in range(len(parts))]
    return [word for one in above for word in ("--perms", "0755", "--dir", one)]


def _interpreter(python: str | None) -> tuple[str, list[str], list[str]]:
    """An interpreter with pytest: its path, the folders it needs inside, its package folders."""
    if python is None:
        found = [getattr(sys, "_base_executable", None) or sys.executable, sys.base_prefix]
        found.append(sorted({sysconfig.get_path(key) for key in ("purelib", "platlib")}))
    else:
        code = (
            "import json, sys, sysconfig; print(json.dumps([getattr(sys, '_base_executable', sys.executable), "
            "sys.base_prefix, sorted({sysconfig.get_path(key) for key in ('purelib', 'platlib')})]))"
        )
        answer = _answers(python, "-c", code)
        if answer is None:
            raise SandboxError(f"{python} is no Python that tells where it keeps its packages")
        found = json.loads(answer)
    executable, prefix, packages = os.path.realpath(found[0]), os.path.realpath(found[1]), found[2]
    needed = [] if prefix == "/usr" else [prefix]
    packages = [os.path.realpath(one) for one in packages if os.path.isdir(one)]
    return executable, needed, packages


def bubblewrap(python: str | None = None, disk_mb: int = 64) -> Sandbox:
    """bubblewrap: no image, no daemon, ready in half a second. Debian and Ubuntu: `apt-get install bubblewrap`.

    Args:
        python (`str`, optional): interpreter with pytest installed, default the running one. It and its packages are
            seen inside, read-only; nothing else of the host but /usr is.
        disk_mb (`int`): megabytes of /tmp.

    A trainer that runs as root keeps two capabilities only until the user is changed inside (setpriv, util-linux).
    """
    executable, needed, packages = _interpreter(python)
    words = ["bwrap", "--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"/{name}"):
            words += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            words += ["--ro-bind", f"/{name}", f"/{name}"]
    for path in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
        words += ["--ro-bind-try", path, path]
    words += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", str(disk_mb << 20), "--tmpfs", "/tmp"]
    words += ["--perms", "1777", "--size", str(16 << 20), "--tmpfs", "/dev/shm"]
    inside = []
    for path in needed:
        if path.startswith("/tmp/"):
            raise SandboxError(f"the interpreter lies in {path}, and /tmp is private in the sandbox: use another one")
        words += [*_folders_above(path), "--ro-bind", path, path]
    for number, path in enumerate(packages):
        if path.startswith(("/usr/", *(f"{one}/" for one in needed))):
            inside.append(path)
        else:  # a virtual environment may lie anywhere, below /tmp too
            inside.append(f"/packages/{number}")
            words += ["--perms", "0755", "--dir", "/packages", "--ro-bind", path, inside[-1]]
    words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--die-with-parent", "--new-session"]
    words += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    words += "--hostname sandbox --clearenv --setenv PATH /usr/local/bin:/usr/bin:/bin --cap-drop ALL".split()
    if os.geteuid() == 0:
        words += (
            "--cap-add CAP_SETUID --cap-add CAP_SETGID -- setpriv --reuid={uid} --regid={uid} --clear-groups".split()
        )
        words += "--inh-caps=-all --ambient-caps=-all --bounding-set=-all --no-new-privs --".split()
    else:
        words += ["--unshare-user", "--"]
    lacks = (
        "kernel bugs: candidates use the host's kernel (gVisor or a virtual machine do not)",
        "memory of several processes together is looked at every 40 ms, not limited by the kernel",
    )
    return Sandbox("bubblewrap", tuple(words), executable, tuple(inside), (), lacks)


def docker(
    image: str, runtime: str | None = None, python: str = "python3", memory_mb: int = 2560, engine: str = "docker"
) -> Sandbox:
    """docker: one container per worker, no mounted folder. The image needs python3 (3.10) with pytest.

    Args:
        image (`str`): for example one built from `FROM python:3.13-slim` and `RUN pip install pytest`.
        runtime (`str`, optional): `runsc` for gVisor, a kernel of its own for the candidates.
        memory_mb (`int`): of the whole container: a candidate (1024), the tests (512), pytest and the supervisor.
    """
    words = [engine, "run", "--rm", "-i", "--name={name}", "--label=grpo-sandbox"]
    words += [f"--runtime={runtime}"] if runtime else []
    words += ["--network=none", "--ipc=private", f"--memory={memory_mb}m", f"--memory-swap={memory_mb}m", "--cpus=2"]
    words += ["--pids-limit=256", "--ulimit=core=0", "--ulimit=nofile=1024:1024", "--read-only", "--shm-size=16m"]
    words += ["--tmpfs=/tmp:rw,nosuid,nodev,size=64m,mode=1777", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    words += ["--user={uid}:{uid}", "--log-driver=none", "--pull=never", "--workdir=/tmp", image]
    shared = "candidates follow each other in one container and share its user; what they leave is removed in between"
    kernel = "kernel bugs: candidates use the host's kernel (runtime='runsc' does not)"
    lacks = (shared,) if runtime and "runsc" in runtime else (shared, kernel)
    kind = f"{engine} {image}" + (f" ({runtime})" if runtime else "")
    return Sandbox(kind, tuple(words), python, (), (engine, "rm", "-f", "{name}"), lacks)


def podman(image: str, runtime: str | None = None, python: str = "python3", memory_mb: int = 2560) -> Sandbox:
    """As `docker`, without a daemon; rootless if the trainer is not root. On cgroups v1 a rootless podman ignores the
    limits for memory and processes of the whole container; those per process hold."""
    return docker(image, runtime, python, memory_mb, engine="podman")


def from_command(command, python: str = "python3") -> Sandbox:
    """A prefix of your own. It must pass standard input on (docker and podman: -i) and needs no mounted folder; where
    it wants one, write {workdir}. A `docker run` without a name gets one, so that the container can be ended."""
    if dataclasses.is_dataclass(command):  # perhaps of this file under another module name, as after unpickling
        return Sandbox(**{field.name: getattr(command, field.name) for field in dataclasses.fields(Sandbox)})
    if isinstance(command, str) or not all(isinstance(word, str) for word in command) or not list(command):
        raise TypeError(
            "sandbox_cmd must be one list of strings for all rows, or made by bubblewrap(), docker() or podman(); "
            f"got {command!r:.80}"
        )
    words, stop = list(command), ()
    engine = os.path.basename(words[0])
    if engine in ("docker", "podman") and "run" in words and not any(word.startswith("--name") for word in words):
        words.insert(words.index("run") + 1, "--name={name}")
        stop = (words[0], "rm", "-f", "{name}")
    return Sandbox(" ".join(words[:2]), tuple(words), python, (), stop, ("what its command line leaves open",))


def _answers(*command: str) -> str | None:
    """Standard output of a short command, None if it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def detect(image: str | None = None) -> Sandbox:
    """The strongest sandbox that can be started here: with an image gVisor, then podman, then docker; else bubblewrap.

    Its `lacks` says what it does not protect from. Raises SandboxError, with what to install, if there is none."""
    tried = []
    if image is not None:
        for engine in ("podman", "docker"):
            if shutil.which(engine) is None or _answers(engine, "image", "inspect", image) is None:
                tried.append(f"{engine} has no image {image}" if shutil.which(engine) else f"{engine} is not installed")
                continue
            runtimes = _answers(engine, "info", "--format", "json") or ""
            names = ["runsc"] if "runsc" in runtimes else []
            for runtime in [*names, None]:
                candidate = docker(image, runtime, engine=engine)
                try:
                    _Worker(candidate, 0).stop()
                    return candidate
                except SandboxError as error:
                    tried.append(f"{candidate}: {error}")
    if shutil.which("bwrap") is None:
        tried.append("bubblewrap is not installed")
    else:
        try:
            candidate = bubblewrap()
            _Worker(candidate, 0).stop()
            return candidate
        except SandboxError as error:
            tried.append(f"bubblewrap: {error}")
    raise SandboxError("no sandbox works here: " + "; ".join(tried) + f". {INSTALL}")


INSTALL = (
    "Install one: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora), or docker or podman"
)

# ------------------------------------------------------------------------------------------------- what is measured

_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE_KEY|COOKIE", re.IGNORECASE)
# Interfaces that some kernels put into every new network namespace, all down.
_IDLE_INTERFACE = re.compile(r"lo|(tunl|sit|ip6tnl|gre|gretap|erspan|ip6gre|ip_vti|ip6_vti|dummy|ifb|teql|bond)\d")
_IN_MEMORY = ("tmpfs", "ramfs", "mqueue", "devpts")


def _weaknesses(found: dict, own: dict) -> list[str]:
    """Why a sandbox that was probed may not run model-written code; empty if it may."""
    weak = []
    for name in ("net", "pid", "mnt"):
        inside = found["namespaces"].get(name)
        if inside == own[name]:
            weak.append(f"it shares the host's {name} namespace")
        elif inside is None and name == "pid":
            weak.append("its pid namespace could not be measured (no /proc)")
    up = [name for name in found["interfaces"] if not _IDLE_INTERFACE.fullmatch(name)]
    if up:
        weak.append(f"it has network interfaces: {', '.join(up)}")
    for what in ("tcp", "udp", "abstract"):
        if found[what]:
            weak.append(f"it reaches a server on the host's loopback ({what})")
    if found["reads"]:
        weak.append("it reads the host's temporary files")
    if found["writes"]:
        weak.append("it writes to the host's temporary folders")
    if not found["root_read_only"]:
        weak.append("its file system can be written to (docker, podman: --read-only --tmpfs /tmp)")
    lasting = [folder for folder, kind in found["writable"] if kind not in _IN_MEMORY and folder != "/"]
    if lasting:
        weak.append(f"it writes to folders that are not in memory: {', '.join(lasting)} (mount them with :ro)")
    if not any(folder == "/tmp" for folder, _ in found["writable"]):
        weak.append("it has no writable /tmp of its own (docker, podman: --tmpfs /tmp)")
    secret = [name for name in found["environ"] if _SECRET.search(name)]
    if secret:
        weak.append(f"its environment holds {', '.join(secret)}")
    return weak


# ----------------------------------------------------------------------------------------------------- one sandbox


@dataclasses.dataclass(frozen=True)
class Limits:
    """Of one candidate. Seconds of processor time and of the clock, megabytes, counts."""

    cpu_s: float = 10.0
    wall_s: float = 10.0
    memory_mb: int = 1024
    disk_mb: int = 64
    processes: int = 64
    files: int = 256


@dataclasses.dataclass(frozen=True)
class Task:
    """One candidate and the tests it is judged by.

    mode: "split" (the tests see the code through stand-ins), "changes" (as split, and what the code does to its
    arguments is done to the tests' objects too) or "inproc" (one process for both)."""

    source: str
    tests: str
    mode: str = "split"
    limits: Limits = Limits()
    partial: bool = False  # run all tests, not just up to the first that fails


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`reason` is `passed`, why the code failed, or, with `is_ours`, why it could not be judged."""

    reason: str
    detail: str = ""
    passed: int = 0
    total: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    mode: str = "split"
    is_ours: bool = False  # broken tests: nobody can be judged by them
    unapplied: bool = False  # passed in "split", where the tests did not see what the code did to their arguments


CANARY_TESTS = "import candidate\n\ndef test_canary():\n    assert candidate.answer() == [42, 'yes']\n"
CANARIES = {"return [40 + 2, 'yes']": "passed", "return [41, 'yes']": "wrong"}

# Starts the runner: reads it from standard input, so that nothing has to be mounted.
BOOT = """
import json, os, sys, types
if sys.argv[1:]:  # the packages of a virtual environment, not those of the interpreter it was made from
    sys.path = [one for one in sys.path if "site-packages" not in one] + sys.argv[1:]
def take(size):
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            sys.exit("nothing arrived on standard input (docker and podman need -i)")
        data += part
    return data
for name, source in json.loads(take(int.from_bytes(take(4), "big"))):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name + ".py", "exec"), module.__dict__)
sys.modules["sandbox_runner"].main()
"""


class _Lost(Exception):
    """The sandbox does not answer any more."""


def _runner_sources() -> list:
    sources = []
    for name in ("sandbox_proxy", "sandbox_runner"):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
        try:
            with open(path, encoding="utf-8") as file:
                sources.append([name, file.read()])
        except OSError as error:
            raise SandboxError(f"{error}; copy {name}.py beside sandbox.py") from None
    return sources


class _Worker:
    """One warm sandbox, probed and proven before it may judge."""

    def __init__(self, sandbox: Sandbox, slot: int):
        self.sandbox, self.process, self.jobs = sandbox, None, 0
        self.spent = False  # something is left in it that it could not remove
        # A user of its own for each sandbox of each trainer on this machine.
        number = (16 * os.getpid() + slot) % 4000
        self.workdir = tempfile.mkdtemp(prefix="grpo-sandbox-")
        os.chmod(self.workdir, 0o555)
        names = {"slot": str(slot), "uid": str(UID + number), "name": f"grpo-sandbox-{uuid.uuid4().hex[:16]}"}
        names["workdir"] = self.workdir
        self.fill = lambda words: [
            re.sub(r"\{(slot|uid|name|workdir)\}", lambda m: names[m[1]], word) for word in words
        ]
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        command = self.fill(self.sandbox.command)
        if shutil.which(command[0]) is None:
            raise SandboxError(f"{command[0]} is not installed. {INSTALL}")
        # For the client only: where docker and podman find their daemon. No tokens; what runs inside gets none of it.
        kept = ("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINER_HOST")
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self.process = subprocess.Popen(
                [*command, self.sandbox.python, "-I", "-c", BOOT, *self.sandbox.packages],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                env={name: os.environ[name] for name in kept if name in os.environ},
                start_new_session=True,  # Ctrl-C is for the trainer
            )
        except OSError as error:
            raise SandboxError(f"{command[0]} cannot be started: {error}") from None
        os.set_blocking(self.process.stdin.fileno(), False)
        deadline = time.monotonic() + START_S
        try:
            self._send(_runner_sources(), deadline)
            hello = self._receive(deadline)
            writable = self._probe(deadline)
            if not hello["has_pytest"]:
                raise SandboxError(f"pytest is not installed for {hello['executable']} in the sandbox ({self.sandbox})")
            self._send({"do": "start", "writable": writable}, deadline)
            ready = self._receive(deadline)
        except (_Lost, KeyError, TypeError) as error:
            raise SandboxError(f"the sandbox ({self.sandbox}) did not get ready: {error}{self._last_words()}") from None
        if "fatal" in ready:
            raise SandboxError(f"the tests' process inside the sandbox fails: {ready['fatal']}")
        self.isolated, self.facts = ready["isolated"], {**hello, **ready}
        self.prove()

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        self.errors.seek(0)
        text = self.errors.read().decode("utf-8", "replace").strip()[-500:]
        status = self.process.returncode
        return f" (exit status {status})" * (status is not None) + (f": {text}" if text else "")

    def _probe(self, deadline: float) -> list[str]:
        """Refuse a sandbox that does not isolate. Returns the folders in which candidates can leave something."""
        with (
            socket.socket() as tcp,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
            socket.socket(socket.AF_UNIX) as abstract,
            tempfile.TemporaryDirectory(prefix="grpo-probe-") as folder,
        ):
            tcp.bind(("127.0.0.1", 0))
            udp.bind(("127.0.0.1", 0))
            name = f"grpo-probe-{uuid.uuid4().hex}"
            abstract.bind("\0" + name)
            tcp.listen(1)
            abstract.listen(1)
            udp.setblocking(False)
            marker = os.path.join(folder, "marker")
            with open(marker, "w") as file:
                file.write("x")
            os.chmod(folder, 0o777)
            os.chmod(marker, 0o644)
            ports = {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1], "abstract": name}
            self._send({"do": "probe", "files": [marker], "folders": [folder], **ports}, deadline)
            self.found = self._receive(deadline)
            try:
                self.found["udp"] = bool(udp.recv(16))
            except BlockingIOError:
                self.found["udp"] = False
        own = {one: os.readlink(f"/proc/self/ns/{one}") for one in ("net", "pid", "mnt")}
        weak = _weaknesses(self.found, own)
        if weak:
            raise SandboxError(f"the sandbox ({self.sandbox}) is too weak for model-written code: " + "; ".join(weak))
        return [folder for folder, kind in self.found["writable"] if kind in _IN_MEMORY and folder != "/"]

    # --- frames

    def _send(self, message, deadline: float) -> None:
        data = json.dumps(message).encode()
        self._write(struct.pack(">I", len(data)) + data, deadline)

    def _write(self, data: bytes, deadline: float) -> None:
        descriptor = self.process.stdin.fileno()
        while data:
            if not select.select([], [descriptor], [], max(0, deadline - time.monotonic()))[1]:
                raise _Lost("it takes no input")
            try:
                data = data[os.write(descriptor, data[: 1 << 16]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise _Lost(f"it takes no input ({errno.errorcode.get(error.errno)})") from None

    def _receive(self, deadline: float) -> dict:
        (size,) = struct.unpack(">I", self._read(4, deadline))
        if size > 8 << 20:
            raise _Lost("it writes something else than answers to standard output")
        try:
            answer = json.loads(self._read(size, deadline))
        except ValueError:
            raise _Lost("it writes something else than answers to standard output") from None
        if not isinstance(answer, dict):
            raise _Lost("it writes something else than answers to standard output")
        return answer

    def _read(self, size: int, deadline: float) -> bytes:
        descriptor, data = self.process.stdout.fileno(), bytearray()
        while len(data) < size:
            if not select.select([descriptor], [], [], max(0, deadline - time.monotonic()))[0]:
                raise _Lost("no answer in time")
            part = os.read(descriptor, size - len(data))
            if not part:
                raise _Lost("it ended")
            data += part
        return bytes(data)

    # --- jobs

    def ask(self, task: Task) -> dict:
        """The runner's answer. Raises _Lost."""
        self.jobs += 1
        limits = dataclasses.asdict(task.limits)
        header = {"do": "job", "id": self.jobs, "mode": task.mode, "partial": task.partial, "limits": limits}
        deadline = time.monotonic() + task.limits.wall_s + GRACE_S
        self._send(header, deadline)
        self._send({"source": task.source, "tests": task.tests}, deadline)
        answer = self._receive(deadline)
        if answer.get("id") != self.jobs:
            raise _Lost("it is out of step")
        return answer

    def prove(self) -> None:
        """A right answer passes and a wrong one fails, else SandboxError."""
        for body, expected in CANARIES.items():
            task = Task(f"def answer():\n    {body}\n", CANARY_TESTS, limits=Limits(wall_s=30, cpu_s=30))
            try:
                answer = self.ask(task)
            except _Lost as lost:
                raise SandboxError(
                    f"the sandbox ({self.sandbox}) fails its self-test: {lost}{self._last_words()}"
                ) from None
            verdict = _verdict(answer, task)
            if verdict is None or verdict.reason != expected:
                raise SandboxError(f"the sandbox ({self.sandbox}) fails its self-test: {answer}"[:600])

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()
            try:
                process.wait(0.5)  # the runner ends when its input does
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if self.sandbox.stop:
                    _answers(*self.fill(self.sandbox.stop))
            self.errors.close()
        with contextlib.suppress(OSError):
            os.rmdir(self.workdir)


def _verdict(answer: dict, task: Task) -> Verdict | None:
    """What the runner's answer means; None if the sandbox is to blame."""
    found, why = answer.get("result") or {}, answer["why"]
    spent = {"cpu_s": answer.get("cpu_s", 0.0), "wall_s": answer.get("wall_s", 0.0), "mode": task.mode}
    if why == "broken" or (why == "done" and ("crash" in found or not found.get("final"))):
        return None
    if why == "tests":
        return Verdict("broken_tests", answer["detail"], is_ours=True, **spent)
    counts = found.get("counts") or {}
    total = found.get("expected") or max(found.get("collected") or 0, _count_tests(task.tests))
    passed = min(counts.get("passed", 0), total)
    detail = _printable(found.get("first") or "").strip()

    def failed(reason, detail):
        return Verdict(reason, detail[-400:], passed, total, **spent)

    if why in ("timeout", "memory", "disk"):
        return failed(why, f"{answer.get('cpu_s')} s of processor time, {answer.get('memory_mb')} MB")
    if found["dead"]:
        return failed(found["dead"][0], _printable(found["dead"][1]))
    if found["load"]:
        return failed(found["load"], detail)
    if found["finished"] and counts == {"passed": total} and found["collected"] == total:
        return Verdict("passed", "", passed, total, unapplied=bool(found.get("unapplied")), **spent)
    if "MemoryError" in detail.rpartition("\n")[2]:
        return failed("memory", detail)
    return failed("skipped" if set(counts) <= {"passed", "skipped"} and "skipped" in counts else "wrong", detail)


def _count_tests(tests: str) -> int:
    """Test functions in the source: the least that must pass where collecting them needs the candidate."""
    body = ast.parse(tests).body
    for node in list(body):
        if isinstance(node, ast.ClassDef) and (node.name.startswith("Test") or node.bases):
            body += node.body
    functions = [
        n for n in body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name.startswith("test")
    ]
    return max(1, len({node.name for node in functions}))


def _printable(text: str) -> str:
    """No escape sequences and no lone surrogates: this goes to logs, tables and terminals."""
    return "".join(one if one in "\n\t" or one.isprintable() else "\ufffd" for one in str(text))


# ---------------------------------------------------------------------------------------------------- many of them


class _Batch:
    """Tasks that one call waits for. Results count only once the sandbox that gave them has proven itself again."""

    def __init__(self, tasks: list[Task]):
        self.todo = collections.deque(enumerate(tasks))
        self.results: list = [None] * len(tasks)
        self.open, self.error, self.changed = len(tasks), None, threading.Condition()

    def take(self):
        with self.changed:
            return self.todo.popleft() if self.todo and self.error is None else None

    def commit(self, results: list) -> None:
        with self.changed:
            for at, verdict in results:
                self.results[at] = verdict
            self.open -= len(results)
            self.changed.notify_all()

    def fail(self, error: BaseException) -> None:
        with self.changed:
            self.error = self.error or error
            self.changed.notify_all()

    def wait(self) -> list[Verdict]:
        with self.changed:
            while self.open and self.error is None:
                self.changed.wait(1)
        if self.error is not None:
            raise self.error
        return self.results


class _Pool:
    """Threads that keep a warm sandbox each. They live as long as the process: bubblewrap's --die-with-parent means the
    thread that started it."""

    def __init__(self, sandbox: Sandbox):
        self.sandbox, self.waiting, self.threads = sandbox, collections.deque(), []
        self.workers, self.lock, self.pid, self.ended = {}, threading.Condition(), os.getpid(), False

    def run(self, tasks: list[Task], workers: int) -> list[Verdict]:
        batch = _Batch(tasks)
        with self.lock:
            wanted = min(workers, len(tasks))
            while len(self.threads) < wanted:
                thread = threading.Thread(target=self._live, args=(len(self.threads),), daemon=True)
                self.threads.append(thread)
                thread.start()
            self.waiting.extend([batch] * wanted)
            self.lock.notify_all()
        return batch.wait()

    def _live(self, slot: int) -> None:
        while True:
            with self.lock:
                while not self.waiting and not self.ended:
                    self.lock.wait()
                if self.ended:
                    return
                batch = self.waiting.popleft()
            try:
                self._work(batch, slot)
            except BaseException as error:
                batch.fail(error)

    def _worker(self, slot: int, fresh: bool = False) -> _Worker:
        worker = self.workers.get(slot)
        is_old = worker is not None and (worker.spent or worker.jobs >= JOBS_PER_SANDBOX)
        if worker is not None and (fresh or is_old or worker.process.poll() is not None):
            self.workers.pop(slot).stop()
            worker = None
        if worker is None:
            try:
                worker = _Worker(self.sandbox, slot)
            except SandboxError as error:  # a daemon may be restarting
                logger.info("%s; tried once more", error)
                time.sleep(0.5)
                worker = _Worker(self.sandbox, slot)
            self.workers[slot] = worker
        return worker

    def _work(self, batch: _Batch, slot: int) -> None:
        done: list = []  # (index, task, verdict) since the sandbox has last proven itself
        while (item := batch.take()) is not None:
            before = self.workers.get(slot)
            verdict = self._judge(item[1], slot)
            worker = self.workers[slot]
            if done and worker is not before:  # it cannot prove itself any more
                done = self._again(done, slot, batch)
            done.append((*item, verdict))
            # What a candidate has left may spoil what follows, above all where candidates share their namespaces.
            if worker.spent or (not worker.isolated and verdict.reason not in ("passed", "wrong")):
                done = self._proven(done, slot, batch)
        self._proven(done, slot, batch)

    def _proven(self, done: list, slot: int, batch: _Batch) -> list:
        """Commit the verdicts if the sandbox still judges right, else judge again."""
        if done:
            try:
                self.workers[slot].prove()
            except SandboxError as error:
                logger.warning("%s; its last %d verdicts are judged again in a fresh one", error, len(done))
                self._worker(slot, fresh=True)
                return self._again(done, slot, batch)
            batch.commit([(at, verdict) for at, _, verdict in done])
        return []

    def _again(self, done: list, slot: int, batch: _Batch) -> list:
        done = [(at, self._judge(task, slot)) for at, task, _ in done]
        self._worker(slot).prove()
        batch.commit(done)
        return []

    def _judge(self, task: Task, slot: int) -> Verdict:
        """A sandbox that is lost or gives no verdict under a task is started again, twice. If that goes on although
        each fresh one has just proven itself, then the candidate did it."""
        for attempt in range(3):
            worker = self._worker(slot, fresh=attempt > 0)
            try:
                answer = worker.ask(task)
            except _Lost as error:
                trouble = f"{error}{worker._last_words()}" if worker.process.poll() is not None else str(error)
                logger.info("the sandbox (%s) was lost: %s", self.sandbox, trouble)
                continue
            worker.spent = bool(answer.get("spent"))
            verdict = _verdict(answer, task)
            if verdict is not None and verdict.unapplied and task.mode == "split":
                # Judged once more with the tests seeing all that the code did; both must pass.
                return self._judge(dataclasses.replace(task, mode="changes"), slot)
            if verdict is not None:
                return verdict
            trouble = str(answer.get("detail") or answer.get("result"))
        self._worker(slot, fresh=True)
        return Verdict("killed_sandbox", _printable(trouble)[-400:], mode=task.mode)

    def stop(self) -> None:
        if self.pid != os.getpid():
            return
        with self.lock:
            self.ended = True
            self.lock.notify_all()
        for worker in list(self.workers.values()):
            worker.stop()


_pools: dict = {}
_pools_lock = threading.Lock()


def _pool(sandbox: Sandbox) -> _Pool:
    with _pools_lock:
        found = _pools.get(sandbox)
        if found is None or found.pid != os.getpid():  # a fork has the pipes but not the threads
            found = _pools[sandbox] = _Pool(sandbox)
        return found


def close() -> None:
    """End all sandboxes of this process; the next call starts new ones."""
    with _pools_lock:
        for pool in _pools.values():
            pool.stop()
        _pools.clear()


atexit.register(close)


def worker_count() -> int:
    """One sandbox per core of this rank."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1)))


# ------------------------------------------------------------------------------------------- problems, before answers


@dataclasses.dataclass(frozen=True)
class Problem:
    """How the tests of a row are used: found out once, with the reference solution of the row."""

    mode: str
    cpu_s: float
    wall_s: float
    trouble: str = ""  # why nobody can be judged by these tests


# What must not pass: if one of these does, the tests would pay it to every policy that finds it.
_STUBS = {
    "returns None": "def stub(*args, **kwargs): return None\n",
    "equals everything": (
        "class Equal:\n    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda self, other: True\n"
        "    __ne__ = lambda self, other: False\n    __hash__ = lambda self: 0\n"
        "def stub(*args, **kwargs): return Equal()\n"
    ),
    "ends the process": "def stub(*args, **kwargs): __import__('os')._exit(0)\n",
}


def _stub(body: str, tests: str) -> str:
    """A module in which each name that the tests may take from the candidate is the same function."""
    names = set()
    for node in ast.walk(ast.parse(tests)):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names}
    kept = sorted(name for name in names if name.isidentifier() and not name.startswith("__"))
    return body + "".join(f"{name} = stub\n" for name in kept if name != "stub")


def _examine(problems: list, run, mode: str, limits: Limits) -> dict:
    """{(tests, reference): Problem} for each pair. The reference shows which mode the tests need and how long a right
    answer takes; the stubs show whether the tests can tell right from wrong at all."""
    found, left = {}, list(dict.fromkeys(problems))
    ladder = ("split", "changes", "inproc") if mode == "auto" else (mode,)
    last = {}
    for step in ladder:
        verdicts = run([Task(reference, tests, step, limits) for tests, reference in left])
        for pair, verdict in zip(left, verdicts):
            last[pair] = verdict
            if verdict.reason == "passed":
                # Ten times the reference, as the field does (0.5 s at least, since a start-up is noisy).
                cpu_s = min(limits.cpu_s, max(0.5, 10 * verdict.cpu_s))
                found[pair] = Problem(step, cpu_s, min(limits.wall_s, max(2.0, 10 * verdict.wall_s)))
        left = [pair for pair in left if pair not in found]
        if not left:
            break
    for pair in left:
        hint = "" if mode == "auto" else "; mode='auto' tries the weaker modes too"
        verdict = last[pair]
        text = (
            verdict.detail
            if verdict.is_ours
            else f"the reference solution does not pass ({verdict.reason}: {verdict.detail}){hint}"
        )
        found[pair] = Problem(ladder[-1], 0, 0, text)
    checks = [
        (
            pair,
            stub,
            Task(
                _stub(body, pair[0]),
                pair[0],
                problem.mode,
                dataclasses.replace(limits, cpu_s=problem.cpu_s, wall_s=problem.wall_s),
            ),
        )
        for pair, problem in found.items()
        if not problem.trouble
        for stub, body in _STUBS.items()
        # In one process anything can equal everything, whatever the tests are: that is why this mode is the weaker one.
        if not (problem.mode == "inproc" and stub == "equals everything")
    ]
    for (pair, stub, _), verdict in zip(checks, run([task for *_, task in checks])):
        if verdict.reason == "passed":
            found[pair] = dataclasses.replace(found[pair], trouble=f"the tests pass for code that {stub}")
    return found


_problems: dict = {}  # what _examine found, for the life of the process


TESTS_HINT = "they must be pytest source, `def test_…`, that imports from `candidate`"

MODES = ("split", "changes", "inproc", "auto")


def judge(
    sources: list[str],
    tests: list[str],
    sandbox,
    *,
    timeout_s: float = 10,
    mode: str = "split",
    references: list | None = None,
    partial: bool = False,
    memory_mb: int = 1024,
    workers: int | None = None,
    engine: str = "local",
) -> list[Verdict]:
    """One verdict for each source, in order. Identical pairs of source and tests are judged once.

    Args:
        sources, tests (`list[str]`): model-written code and the pytest source that judges it, as long as each other.
        sandbox (`Sandbox` or `list[str]`): see `bubblewrap`, `docker`, `podman`, `from_command`.
        timeout_s (`float`): seconds for all tests of one candidate, of processor time and of the clock alike. A row
            with a reference gets less: ten times what the reference took, at least 0.5 s of processor time.
        mode (`str`): "split", "changes", "inproc", or "auto": the strictest in which the reference passes.
        references (`list[str | None]`, optional): a right answer for each row.
        partial (`bool`): run all tests, so that `passed / total` means something; else stop at the first that fails.
        memory_mb (`int`): of all processes of one candidate.
        workers (`int`, optional): sandboxes at a time, default one per core of this rank.
        engine (`str`): "local", or "ray": tasks of a Ray cluster, one per candidate.

    Raises:
        SandboxError: nobody could judge, after two more attempts in fresh sandboxes.
        TypeError, ValueError: an argument is wrong.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    if engine not in ("local", "ray"):
        raise ValueError(f"engine must be 'local' or 'ray', got {engine!r}")
    references = references or [None] * len(sources)
    if mode == "auto" and not all(references):
        raise ValueError("mode='auto' needs the column `reference`: a right answer for each row")
    sandbox = from_command(sandbox)
    limits = Limits(cpu_s=timeout_s, wall_s=timeout_s, memory_mb=memory_mb)

    def run(tasks: list[Task]) -> list[Verdict]:
        verdicts = {task: _unread(task) for task in tasks}  # each different task once
        todo = [task for task, verdict in verdicts.items() if verdict is None]
        if todo and engine == "ray":
            verdicts.update(zip(todo, _run_on_ray(sandbox, todo)))
        elif todo:
            verdicts.update(zip(todo, _pool(sandbox).run(todo, workers or worker_count())))
        return [verdicts[task] for task in tasks]

    pairs = [(test, reference) for test, reference in zip(tests, references) if reference]
    key = (sandbox, mode, limits)
    new = [pair for pair in pairs if (key, pair) not in _problems]
    if new:
        _problems.update({(key, pair): problem for pair, problem in _examine(new, run, mode, limits).items()})
    tasks: list = []
    for source, test, reference in zip(sources, tests, references):
        problem = _problems[key, (test, reference)] if reference else Problem(mode, timeout_s, timeout_s)
        if "candidate" not in test:
            problem = dataclasses.replace(problem, trouble=f"the tests never mention `candidate`; {TESTS_HINT}")
        if problem.trouble:
            tasks.append(Verdict("broken_tests", problem.trouble, is_ours=True, mode=problem.mode))
        else:
            own = dataclasses.replace(limits, cpu_s=problem.cpu_s, wall_s=problem.wall_s)
            tasks.append(Task(source, test, problem.mode, own, partial))
    todo = [task for task in tasks if isinstance(task, Task)]
    judged = iter(run(todo))
    return [next(judged) if isinstance(task, Task) else task for task in tasks]


def _unread(task: Task) -> Verdict | None:
    """The verdict on what need not be run."""
    try:
        too_long = len(task.source.encode("utf-8")) > SOURCE_BYTES
    except UnicodeEncodeError as error:
        return Verdict("syntax", f"the code cannot be written as UTF-8: {error.reason}", mode=task.mode)
    return Verdict("too_long", f"more than {SOURCE_BYTES} bytes", mode=task.mode) if too_long else None


# ------------------------------------------------------------------------------------------------ several machines


def _run_on_ray(sandbox: Sandbox, tasks: list[Task]) -> list[Verdict]:
    """Ray places the tasks, one processor each, and repeats those whose worker or machine was lost."""
    try:
        import ray
    except ImportError as error:
        raise ImportError("engine='ray' needs Ray: pip install ray") from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False)  # RAY_ADDRESS names the cluster; without it a local one is started
    here = os.path.dirname(os.path.abspath(__file__))
    sources = {}
    for name in ("sandbox.py", "sandbox_runner.py", "sandbox_proxy.py"):
        with open(os.path.join(here, name), encoding="utf-8") as file:
            sources[name] = file.read()

    def judge_there(scripts: dict, sandbox: dict, tasks: list[dict]) -> list[dict]:
        """The scripts travel with the task (this function by value, being local), and stay loaded with their warm
        sandbox in the worker's process."""
        import importlib.util
        import os
        import sys
        import tempfile

        if "grpo_sandbox" not in sys.modules:
            folder = tempfile.mkdtemp(prefix="grpo-scripts-")
            for name, text in scripts.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            specification = importlib.util.spec_from_file_location("grpo_sandbox", os.path.join(folder, "sandbox.py"))
            sys.modules["grpo_sandbox"] = importlib.util.module_from_spec(specification)
            specification.loader.exec_module(sys.modules["grpo_sandbox"])
        there = sys.modules["grpo_sandbox"]
        asked = [there.Task(**{**one, "limits": there.Limits(**one["limits"])}) for one in tasks]
        try:
            return [there.dataclasses.asdict(one) for one in there._pool(there.Sandbox(**sandbox)).run(asked, 1)]
        except there.SandboxError as error:  # a class that the driver cannot unpickle
            return [{"error": str(error)}]

    place = ray.remote(num_cpus=1, max_retries=2)(judge_there)
    shared, plain = ray.put(sources), dataclasses.asdict(sandbox)
    # A few for each processor: fewer self-tests than one by one, still even if some take long.
    size = max(1, min(8, len(tasks) // (2 * max(1, int(ray.cluster_resources().get("CPU", 1))))))
    chunks = [tasks[at : at + size] for at in range(0, len(tasks), size)]
    waiting = [place.remote(shared, plain, [dataclasses.asdict(task) for task in chunk]) for chunk in chunks]
    try:
        answers = [one for answer in ray.get(waiting) for one in answer]
    except ray.exceptions.RayError as error:
        raise SandboxError(f"Ray lost a task and its repetitions: {error}") from error
    errors = [one["error"] for one in answers if "error" in one]
    if errors:
        raise SandboxError(f"{len(errors)} of {len(chunks)} Ray tasks cannot judge: {errors[0]}")
    return [Verdict(**one) for one in answers]


def main() -> int:
    import sandbox_doctor

    return sandbox_doctor.main()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
