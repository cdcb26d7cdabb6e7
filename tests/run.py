#!/usr/bin/env python3
"""The whole suite, two pytest processes at a time: what `make check` runs.

Half of the time of these tests is spent waiting for processes. Only files whose tests do not measure time run side by
side; whatever is not named here runs after them, alone, so that a new file cannot be forgotten.

exit codes: 0 = all passed, 1 = some failed, or a part ran no test
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIDE_BY_SIDE = {
    "the trainer, plans, inspection": (
        "tests/trainer/test_code_in_trl.py", "tests/trainer/test_rewards_in_trl.py",
        "tests/trainer/test_variants_in_trl.py", "tests/test_estimate_memory.py", "tests/test_variants.py",
    ),
    "preflight, the log doctor": (
        "tests/trainer/test_rehearse.py", "tests/test_preflight.py", "tests/test_preflight_checks.py",
        "tests/test_diagnose_run.py", "tests/test_diagnose_reading.py", "tests/test_run_fixtures.py",
        "tests/test_grpo_config.py", "tests/test_memory_sizing.py", "tests/test_gpu_rates.py",
    ),
}  # fmt: skip


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]


def main() -> int:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = {}
    for name, files in SIDE_BY_SIDE.items():
        out = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - read after the process
        process = subprocess.Popen(command(*files), cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT)
        running[name] = process, out
    codes = {}
    for name, (process, out) in running.items():
        codes[name] = process.wait()
        out.seek(0)
        print(f"== {name}\n{out.read()}", flush=True)
    named = [file for files in SIDE_BY_SIDE.values() for file in files]
    print("== all else", flush=True)
    rest = command(*(f"--ignore={file}" for file in named), "tests", "scripts")
    codes["all else"] = subprocess.run(rest, cwd=ROOT, env=environment, check=False).returncode
    failed = [name for name, code in codes.items() if code]  # pytest ends with 5 where it ran no test
    print(f"failed: {', '.join(failed)}" if failed else "all parts passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
