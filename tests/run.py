#!/usr/bin/env python3
"""The whole suite, two pytest processes at a time: what `make check` and `make stamp` run.

Half of the time of these tests is spent waiting for processes. Only files whose tests do not measure time run side by
side; whatever is not named here runs after them, alone, so that a new file cannot be forgotten.

With --stamp `Last verified` is renewed, if every test but the stamp's own passed and none was skipped.

exit codes: 0 = all passed (or stamped), 1 = some failed, or a part ran no test
"""

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIDE_BY_SIDE = {
    "the trainer, plans": (
        "tests/trainer/test_code_in_trl.py", "tests/trainer/test_rewards_in_trl.py",
        "tests/trainer/test_variants_in_trl.py", "tests/test_estimate_memory.py", "tests/test_variants.py",
    ),
    "preflight, the log doctor": (
        "tests/trainer/test_rehearse.py", "tests/test_preflight.py", "tests/test_preflight_checks.py",
        "tests/test_diagnose_run.py", "tests/test_diagnose_reading.py", "tests/test_run_fixtures.py",
        "tests/test_grpo_config.py", "tests/test_memory_sizing.py", "tests/test_gpu_rates.py",
    ),
}  # fmt: skip
ELSE = "all else"


def unproved(reports: list[Path]) -> list[str]:
    """Tests that failed or were skipped, but for the stamp's own.

    Raises:
        FileNotFoundError: a part wrote no report.
    """
    found = []
    for report in reports:
        cases = list(ElementTree.parse(report).iter("testcase"))
        found += [] if cases else [f"{report.stem}: no test"]
        for case in cases:
            if case.get("name") != "test_stamps" and any(
                case.find(end) is not None for end in ("failure", "error", "skipped")
            ):
                found.append(f"{case.get('classname')}::{case.get('name')}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stamp", action="store_true", help="renew `Last verified` after a green run")
    options = parser.parse_args()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    named = [file for files in SIDE_BY_SIDE.values() for file in files]
    parts = {**SIDE_BY_SIDE, ELSE: (*(f"--ignore={file}" for file in named), "tests", "scripts")}
    codes, running = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        reports = {name: Path(folder, f"{place}.xml") for place, name in enumerate(parts)}

        def command(name: str) -> list[str]:
            return [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "no:cacheprovider",
                f"--junitxml={reports[name]}",
                *parts[name],
            ]

        for name in SIDE_BY_SIDE:
            log = open(Path(folder, f"{name}.log"), "w+", encoding="utf-8", errors="replace")  # noqa: SIM115
            process = subprocess.Popen(command(name), cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
            running[name] = process, log
        for name, (process, log) in running.items():
            codes[name] = process.wait()
            log.seek(0)
            print(f"== {name}\n{log.read()}", flush=True)
            log.close()
        print(f"== {ELSE}", flush=True)
        codes[ELSE] = subprocess.run(command(ELSE), cwd=ROOT, env=environment, check=False).returncode
        failed = [name for name, code in codes.items() if code]  # pytest ends with 5 where it ran no test
        if options.stamp:
            open_ends = unproved(list(reports.values()))
            if open_ends:
                print("not stamped:\n  " + "\n  ".join(open_ends))
                return 1
            import docsync

            print("\n".join(docsync.stamp(ROOT)))
            return 0
    print(f"failed: {', '.join(failed)}" if failed else "all parts passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
