#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["pytest>=7.2"]
# ///
"""The attack corpus of tests/data/attacks/ under bubblewrap, docker and docker with gVisor, as a table.

For a Debian machine without docker: Debian's packages are unpacked into a folder (nothing is installed), a daemon is
started by hand as root, and an image is made by debootstrap. Takes about five minutes and 1 GB the first time.

    python benchmarks/containers.py --folder /var/tmp/grpo-containers --write benchmarks/containers.md

Exit codes: 0 every row as expected, 1 not, 2 the daemon or the image could not be had (said on stderr).
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

import sandbox
from attacks import MANIFEST, Targets, read_attack

PACKAGES = ("docker.io", "containerd", "tini", "runc", "runsc", "debootstrap")
IMAGE = "grpo-sandbox:bookworm"
# Debian's gVisor of 2022: no systrap yet, and cgroups v2 only.
RUNSC = '#!/bin/sh\nexec {runsc} --network=none --platform=ptrace --ignore-cgroups "$@"\n'


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise OSError(f"{' '.join(map(str, words))[:200]}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def start_daemon(folder: Path) -> tuple[subprocess.Popen, dict]:
    """dockerd with runc and runsc, its data below `folder`; the process and the versions."""
    unpacked, downloads = folder / "unpacked", folder / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    if not (unpacked / "usr/sbin/dockerd").exists():
        run("apt-get", "update", "-qq")
        for package in PACKAGES:
            run("apt-get", "download", package, cwd=downloads)
        for file in downloads.glob("*.deb"):
            run("dpkg-deb", "-x", file, unpacked)
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "docker-runsc").write_text(RUNSC.format(runsc=unpacked / "usr/bin/runsc"))
    (tools / "docker-runsc").chmod(0o755)
    for name, file in (
        ("docker-init", "usr/bin/tini-static"),
        ("containerd", "usr/bin/containerd"),
        ("runc", "usr/sbin/runc"),
    ):
        target = unpacked / file
        if not (tools / name).exists() and target.exists():
            (tools / name).symlink_to(target)
    os.environ["PATH"] = ":".join([str(tools), f"{unpacked}/usr/bin", f"{unpacked}/usr/sbin", os.environ["PATH"]])
    os.environ["DOCKER_HOST"] = f"unix://{folder}/docker.sock"
    words = [
        unpacked / "usr/sbin/dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "--exec-opt",
        "native.cgroupdriver=cgroupfs", "--data-root", folder / "data", "--exec-root", folder / "exec", "--pidfile",
        folder / "docker.pid", "--host", f"unix://{folder}/docker.sock", "--add-runtime",
        f"runsc={tools / 'docker-runsc'}",
    ]  # fmt: skip
    log = open(folder / "dockerd.log", "w")  # noqa: SIM115 (the daemon keeps it)
    daemon = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log, start_new_session=True)
    docker = unpacked / "usr/bin/docker"
    for _ in range(60):
        if daemon.poll() is not None:
            break
        try:
            version = json.loads(run(docker, "version", "--format", "{{json .Server.Version}}"))
            return daemon, {"docker": version, "runsc": run(unpacked / "usr/bin/runsc", "--version").split()[2]}
        except OSError:
            time.sleep(1)
    raise OSError(f"dockerd did not come up, see {folder}/dockerd.log")


def make_image(folder: Path) -> None:
    if run("docker", "images", "-q", IMAGE).strip():
        return
    system, script = folder / "system", folder / "unpacked/usr/sbin/debootstrap"
    if not (system / "usr/bin/python3").exists():
        shutil.rmtree(system, ignore_errors=True)
        environment = {**os.environ, "DEBOOTSTRAP_DIR": str(folder / "unpacked/usr/share/debootstrap")}
        wanted = "--include=python3,python3-pytest,python3-numpy"
        run("sh", script, "--variant=minbase", wanted, "bookworm", system, env=environment)
    packed = subprocess.Popen(["tar", "-C", system, "-c", "."], stdout=subprocess.PIPE)
    run("docker", "import", "-", IMAGE, stdin=packed.stdout)
    packed.wait()


def judged(box: sandbox.Sandbox, targets: Targets) -> tuple[dict, list[str], float]:
    """Counts by kind, what was not as expected, seconds."""
    kinds, wrong, started = {}, [], time.monotonic()
    for case in MANIFEST:
        source, tests = read_attack(case["name"], targets)
        # Containers of gVisor start programs more slowly; the limit is not what is under test.
        limits = sandbox.Limits(cpu_s=2 * case["timeout"], wall_s=3 * case["timeout"])
        task = sandbox.Task(source, tests, limits=limits)
        try:
            verdict = sandbox._unread(task) or sandbox._pool(box).run([task], 1)[0]
            reason = verdict.reason
        except sandbox.SandboxError as error:
            reason = f"SandboxError {error}"
        good = float(reason == "passed") == case["expected"] and "Error" not in reason
        row = kinds.setdefault(case["kind"], [0, 0])
        row[0] += good
        row[1] += 1
        if not good:
            wrong.append(f"{case['name']} ({reason[:80]})")
    return kinds, wrong, time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp/grpo-containers"), help="for packages, daemon, image"
    )
    parser.add_argument("--write", type=Path, help="write the table to this file too")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    daemon = None
    try:
        daemon, versions = start_daemon(options.folder.resolve())
        make_image(options.folder.resolve())
        boxes = {
            f"bubblewrap {run('bwrap', '--version').split()[-1]}": sandbox.bubblewrap(),
            f"docker {versions['docker']}, runc": sandbox.docker(IMAGE),
            f"docker {versions['docker']}, gVisor {versions['runsc']}": sandbox.docker(IMAGE, runtime="runsc"),
        }
        targets, rows, names = Targets(options.folder / "other"), [], []
        for name, box in boxes.items():
            print(f"judging under {name}", file=sys.stderr)
            kinds, wrong, seconds = judged(box, targets)
            names = list(kinds)
            cells = [f"{good} of {total}" for good, total in kinds.values()]
            rows.append((name, cells, wrong, seconds))
    except (OSError, sandbox.SandboxError, subprocess.SubprocessError) as error:
        print(f"NOT RUN: {error}", file=sys.stderr)
        return 2
    finally:
        sandbox.close()
        if daemon is not None:
            daemon.terminate()
            daemon.wait(30)
    lines = [f"Attack corpus, {datetime.date.today()}, Linux {platform.release()}, as expected by kind:", ""]
    lines += ["| sandbox | " + " | ".join(names) + " | seconds | not as expected |"]
    lines += ["|---" * (len(names) + 3) + "|"]
    lines += [
        f"| {name} | {' | '.join(cells)} | {seconds:.0f} | {', '.join(wrong) or 'none'} |"
        for name, cells, wrong, seconds in rows
    ]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.write:
        options.write.write_text(text)
    return 1 if any(wrong for _, _, wrong, _ in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
