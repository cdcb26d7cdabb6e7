#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["pytest>=7.2"]
# ///
"""Attacks a sandbox from inside, on this machine, and says for each protection whether it held.

The command is `python scripts/sandbox.py doctor`. Each check runs code as a policy might write it, through the same
path as the reward: what it could reach comes back as a report. "Not measured" is a failure of the doctor, never a pass.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import socket
import sys
import tempfile
import time
import uuid

from sandbox import (
    CANARY_TESTS,
    INSTALL,
    Limits,
    Sandbox,
    SandboxError,
    Task,
    Verdict,
    _pool,
    bubblewrap,
    detect,
    docker,
    from_command,
)


@dataclasses.dataclass
class _Check:
    id: str
    verdict: str  # pass, fail, not measured
    detail: str


def _reported(verdict: Verdict) -> dict:
    """What a doctor's candidate found out: its tests fail with it as the message."""
    match = re.search(r"REPORT (\{.*\})", verdict.detail)
    if match is None:
        raise SandboxError(f"no report: {verdict.reason} {verdict.detail[-200:]}")
    return json.loads(match[1])


_REPORT_TESTS = """
import json, candidate
def test_report():
    found = json.dumps(candidate.report())
    raise AssertionError("REPORT " + found)
"""

_DOCTOR = {
    "network": """
import socket
def report():
    reached = []
    for name, address in (("tcp", ("127.0.0.1", {tcp})), ("internet", ("1.1.1.1", 53))):
        with socket.socket() as s:
            s.settimeout(1)
            try: s.connect(address); reached.append(name)
            except OSError: pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try: s.sendto(b"x", ("127.0.0.1", {udp}))
        except OSError: pass
    with socket.socket(socket.AF_UNIX) as s:
        try: s.connect("\\0{abstract}"); reached.append("abstract")
        except OSError: pass
    return {{"reached": reached}}
""",
    "files": """
import os
def report():
    wrote, read = [], []
    for folder in ("/", "/usr", "/etc", "/var/tmp", "/home", "/root", "/opt", "/dev", "/proc", "/packages", {folder!r}):
        try:
            with open(os.path.join(folder, "grpo-doctor"), "w") as f: f.write("x")
            wrote.append(folder)
        except OSError: pass
    for path in ({marker!r}, "/etc/shadow", "/etc/ssh/ssh_host_rsa_key", "/root/.bash_history", "/var/log/dpkg.log"):
        try:
            with open(path, "rb") as f: f.read(1)
            read.append(path)
        except OSError: pass
    return {{"wrote": wrote, "read": read}}
""",
    "environment": """
import os
def report():
    found = [name for name in os.environ if {secret!r} in os.environ[name]]
    for pid in [p for p in os.listdir("/proc") if p.isdigit()] if os.path.isdir("/proc") else []:
        try:
            with open(f"/proc/{{pid}}/environ", "rb") as f:
                if {secret!r}.encode() in f.read(): found.append("pid " + pid)
        except OSError: pass
    return {{"found": found, "names": sorted(os.environ)}}
""",
    "processes": """
import ctypes, os, time
def report():
    c, rights = ctypes.CDLL(None), []
    mount = (b"x", b"/tmp", b"tmpfs", 0, None)
    calls = {{"setuid": (0,), "chroot": (b"/",), "sethostname": (b"x", 1), "mount": mount, "unshare": (0x10000000,)}}
    for name, args in calls.items():
        if getattr(c, name)(*args) == 0: rights.append(name)
    seen = [p for p in os.listdir("/proc") if p.isdigit()] if os.path.isdir("/proc") else []
    try: os.kill({pid}, 0); signalled = True
    except OSError: signalled = False
    made = 0
    while made < 5000:
        try: child = os.fork()
        except OSError: break
        if child == 0:
            time.sleep(30); os._exit(0)
        made += 1
    return {{"seen": len(seen), "signalled": signalled, "made": made, "rights": rights}}
""",
    "memory_one": """
def report():
    held, step = [], 64 << 20
    try:
        while len(held) < 64: held.append(b"x" * step)
    except MemoryError: pass
    return {{"mb": len(held) * 64}}
""",
    "memory_all": """
import os, time
def report():
    for _ in range(6):
        if os.fork() == 0:
            try: x = b"x" * (600 << 20); time.sleep(20)
            finally: os._exit(0)
    time.sleep(8)
    return {{"mb": 3600}}
""",
    "disk": """
import os
def report():
    wrote = 0
    for folder in ("/tmp", "/dev/shm", "."):
        for number in range(40):
            try:
                with open(os.path.join(folder, "fill%d" % number), "wb") as f:
                    for _ in range(64): f.write(b"x" * (1 << 20)); wrote += 1
            except OSError: break
    return {{"mb": wrote}}
""",
    "left": """
import os, socket
for folder in ("/tmp", "/dev/shm", "/var/tmp", ".", os.path.expanduser("~"), "/dev/mqueue"):
    try: open(os.path.join(folder, "left_behind"), "w").close()
    except OSError: pass
if os.fork() == 0:
    os.setsid()
    s = socket.socket(socket.AF_UNIX)
    s.bind("\\0grpo-doctor-daemon"); s.listen(1)
    import time; time.sleep(60); os._exit(0)
def report(): return {{}}
""",
    "found": """
import os, socket
def report():
    folders = ("/tmp", "/dev/shm", "/var/tmp", ".", os.path.expanduser("~"), "/dev/mqueue")
    found = [f for f in folders if os.path.exists(os.path.join(f, "left_behind"))]
    with socket.socket(socket.AF_UNIX) as s:
        try: s.connect("\\0grpo-doctor-daemon"); found.append("a process")
        except OSError: pass
    return {{"found": found}}
""",
}

_FORGERIES = {
    "ends its process": "import os\ndef answer(): os._exit(0)\n",
    "equals everything": "class E:\n    __eq__ = lambda s, o: True\ndef answer(): return E()\n",
    "patches pytest": (
        "import _pytest.reports as r\nold = r.TestReport.from_item_and_call.__func__\n"
        "def new(c, i, k):\n    x = old(c, i, k); x.outcome = 'passed'; return x\n"
        "r.TestReport.from_item_and_call = classmethod(new)\ndef answer(): return 0\n"
    ),
    "reads the answer": (
        "import ast, glob, re\ndef answer():\n"
        "    for p in glob.glob('/tmp/**/*', recursive=True) + glob.glob('/proc/*/cmdline'):\n"
        "        try: m = re.search(r'== (\\[4.*?\\])', open(p, errors='replace').read())\n"
        "        except OSError: continue\n"
        "        if m and 'glob' not in m[1]: return ast.literal_eval(m[1])\n"
    ),
    "talks over the wire": (
        'import os, struct\ndef answer():\n    m = b\'{"value": {"result": ["list", [42, "no"]]}}\'\n'
        "    for d in range(3, 20):\n        try: os.write(d, struct.pack('>I', len(m)) + m)\n"
        "        except OSError: pass\n    return 0\n"
    ),
}


def _doctor(sandbox: Sandbox) -> tuple[list[_Check], dict]:
    """Attack the sandbox from inside, and say for each protection whether it held."""
    checks: list[_Check] = []
    try:
        pool, started = _pool(sandbox), time.monotonic()
        pool.run([Task("def answer(): return [42, 'yes']\n", CANARY_TESTS)], 1)
    except (SandboxError, TypeError) as error:
        names = ("start", "verdict", "network", "files", "environment", "processes", "memory", "disk", "output", "time")
        checks = [_Check("start", "fail", str(error))]
        return checks + [
            _Check(name, "not measured", "the sandbox does not start") for name in (*names[1:], "leftovers")
        ], {}
    facts = dict(pool.workers[0].facts, start_s=round(time.monotonic() - started, 2))
    own = "each candidate in namespaces of its own" if facts["isolated"] else "candidates share one set of namespaces"
    checks.append(
        _Check("start", "pass", f"{facts['start_s']} s, Python {facts['python']}, pytest {facts['pytest']}, {own}")
    )
    secret = uuid.uuid4().hex
    os.environ["GRPO_DOCTOR_SECRET"] = secret

    def task(name, limits=Limits(), **values):  # noqa: B008
        return Task(_DOCTOR[name].format(**values), _REPORT_TESTS, limits=limits)

    def measure(name, decide):
        """decide() gives whether it held and the detail."""
        try:
            held, detail = decide()
            checks.append(_Check(name, "pass" if held else "fail", detail))
        except (SandboxError, OSError, KeyError, ValueError) as error:
            checks.append(_Check(name, "not measured", str(error)[:300]))

    def verdicts():
        paid = [
            name
            for name, source in _FORGERIES.items()
            if pool.run([Task(source, CANARY_TESTS)], 1)[0].reason == "passed"
        ]
        return (
            not paid,
            f"paid for: {', '.join(paid)}"
            if paid
            else f"{len(_FORGERIES)} forgeries of a wrong answer fail, the right answer passes",
        )

    def network():
        with (
            socket.socket() as tcp,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
            socket.socket(socket.AF_UNIX) as abstract,
        ):
            name = f"grpo-doctor-{uuid.uuid4().hex}"
            tcp.bind(("127.0.0.1", 0))
            udp.bind(("127.0.0.1", 0))
            abstract.bind("\0" + name)
            tcp.listen(1)
            abstract.listen(1)
            udp.setblocking(False)
            values = {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1], "abstract": name}
            reached = _reported(pool.run([task("network", **values)], 1)[0])["reached"]
            with contextlib.suppress(BlockingIOError):
                reached += ["udp"] if udp.recv(8) else []
        return (
            not reached,
            f"reaches {', '.join(reached)}"
            if reached
            else "no way to the host's loopback (TCP, UDP, abstract sockets) or out",
        )

    def files():
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            marker = os.path.join(folder, "marker")
            with open(marker, "w") as file:
                file.write("x")
            found = _reported(pool.run([task("files", folder=folder, marker=marker)], 1)[0])
        bad = found["wrote"] + found["read"]
        return (
            not bad,
            f"wrote {found['wrote']}, read {found['read']}"
            if bad
            else "nothing of the host is read or written, the root is read-only",
        )

    def environment():
        found = _reported(pool.run([task("environment", secret=secret)], 1)[0])
        return not found["found"], f"finds a secret in {found['found']}" if found[
            "found"
        ] else f"only {', '.join(found['names'])}"

    def processes():
        found = _reported(pool.run([task("processes", pid=os.getpid())], 1)[0])
        good = not found["signalled"] and found["made"] <= 256 and not found["rights"]
        return (
            good,
            f"sees {found['seen']} processes, signals the host's: {found['signalled']}, starts "
            f"{found['made']} at most, privileged calls allowed: {', '.join(found['rights']) or 'none'}",
        )

    def memory():
        one = _reported(pool.run([task("memory_one")], 1)[0])["mb"]
        verdict = pool.run([task("memory_all", Limits(wall_s=30))], 1)[0]
        held = one <= 1024 and verdict.reason in ("memory", "killed_sandbox")
        return (
            held,
            f"one process gets {one} MB of 1024; six that take 600 MB each: {verdict.reason} ({verdict.detail})",
        )

    def disk():
        found = _reported(pool.run([task("disk", Limits(wall_s=60, cpu_s=60))], 1)[0])
        return found["mb"] <= 256, f"{found['mb']} MB written before it is full"

    def output():
        printed = pool.run(
            [
                Task(
                    "def answer():\n    for _ in range(200): print('x' * (1 << 20))\n    return [42, 'yes']\n",
                    CANARY_TESTS,
                )
            ],
            1,
        )[0]
        returned = pool.run([Task("def answer(): return 'x' * (200 << 20)\n", CANARY_TESTS)], 1)[0]
        good = printed.reason == "passed" and returned.reason in ("output", "memory")
        return good, f"200 MB printed: {printed.reason}; 200 MB returned: {returned.reason}"

    def timing():
        spent = []
        for body in (
            "while True: pass",
            "__import__('time').sleep(60)",
            "__import__('os').fork(); exec('while True: pass')",
        ):
            started = time.monotonic()
            verdict = pool.run(
                [Task(f"def answer():\n    {body}\n", CANARY_TESTS, limits=Limits(cpu_s=1, wall_s=2))], 1
            )[0]
            spent.append((verdict.reason, time.monotonic() - started))
        good = all(reason == "timeout" and seconds < 6 for reason, seconds in spent)
        return good, ", ".join(
            f"{reason} after {seconds:.1f} s" for reason, seconds in spent
        ) + " (loop, sleep, fork; limits 1 s and 2 s)"

    def leftovers():
        pool.run([task("left")], 1)
        found = _reported(pool.run([task("found")], 1)[0])["found"]
        return (
            not found,
            f"finds {found} of the one before" if found else "files and processes of the one before are gone",
        )

    for name, decide in {
        "verdict": verdicts, "network": network, "files": files, "environment": environment, "processes": processes,
        "memory": memory, "disk": disk, "output": output, "time": timing, "leftovers": leftovers,
    }.items():  # fmt: skip
        measure(name, decide)
    return checks, facts


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="sandbox.py",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measure on this machine whether model-written code can be judged safely.",
        epilog="""\
examples:
  python scripts/sandbox.py doctor                                  the strongest sandbox found here
  python scripts/sandbox.py doctor --image my-pytest-image          gVisor, podman or docker with that image
  python scripts/sandbox.py doctor --json -- docker run --rm -i ... a command of your own

exit codes: 0 every protection held, 1 one failed or could not be measured, 2 wrong usage""",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser(
        "doctor", help="attack a sandbox from inside: pass, fail or not measured, one line each"
    )
    doctor.add_argument("--sandbox", choices=("auto", "bubblewrap", "docker", "podman"), default="auto")
    doctor.add_argument("--image", help="container image with python3 and pytest (docker, podman, auto)")
    doctor.add_argument("--runtime", help="container runtime, runsc for gVisor")
    doctor.add_argument("--python", help="interpreter with pytest (default: this one, or python3 of the image)")
    doctor.add_argument("--json", action="store_true", help="one JSON object on standard output")
    doctor.add_argument(
        "prefix", nargs="*", metavar="-- WORD", help="a command of your own that isolates what follows it"
    )
    options = parser.parse_args()
    if options.sandbox in ("docker", "podman") and not options.image:
        parser.error(f"--sandbox {options.sandbox} needs --image: one with python3 and pytest")
    if options.prefix and (options.image or options.sandbox != "auto"):
        parser.error("give either a command of your own or --sandbox and --image")
    if options.runtime and not options.image:
        parser.error("--runtime is for containers: it needs --image")
    checks, facts, sandbox = [], {}, None
    try:
        if options.prefix:
            sandbox = from_command(options.prefix, options.python or "python3")
        elif options.sandbox in ("docker", "podman"):
            sandbox = docker(options.image, options.runtime, options.python or "python3", engine=options.sandbox)
        elif options.sandbox == "bubblewrap" or (options.python and not options.image):
            sandbox = bubblewrap(options.python)
        else:
            sandbox = detect(options.image)
            if options.image and sandbox.kind == "bubblewrap":  # not what was asked about
                sandbox = None
                raise SandboxError(f"neither podman nor docker has the image {options.image}, or no daemon answers")
            if options.image and (options.runtime or options.python):
                engine, python = sandbox.command[0], options.python or "python3"
                sandbox = docker(options.image, options.runtime, python, engine=engine)
        print(f"attacking {sandbox} from inside, about 30 s", file=sys.stderr)
        checks, facts = _doctor(sandbox)
    except SandboxError as error:
        checks = [_Check("start", "fail", str(error))]
    lacks = list(sandbox.lacks) if sandbox else []
    if options.json:
        report = {"schema_version": 1, "sandbox": str(sandbox) if sandbox else None, "facts": facts, "lacks": lacks}
        report["command"] = list(sandbox.command) if sandbox else None
        report["checks"] = [dataclasses.asdict(check) for check in checks]
        report["install"] = None if sandbox else INSTALL
        print(json.dumps(report, indent=1))
    else:
        for check in checks:
            print(f"{check.verdict:12} {check.id:11} {check.detail}")
        if lacks:
            print("not protected from: " + "; ".join(lacks))
    return 0 if all(check.verdict == "pass" for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
