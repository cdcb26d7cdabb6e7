#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["pytest>=7.2", "rich>=13"]
# ///
"""Candidates judged per second by scripts/sandbox.py, beside one `pytest` process each in the same sandbox, one after
the other (the seeds' way), and beside the plain limit: cores divided by the work of the candidates. In one run.

64 candidates of about 50 ms of processor time each, 8 for each of 8 problems, no two alike. The last rows replace a
tenth of them by infinite loops, with and without a reference solution per problem: the reference makes the time limit,
and is charged for. Needs bubblewrap.
"""

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

import sandbox
from attacks import passes_in_one_process

COUNT, PER_PROBLEM = 64, 8


def work_of_50_ms() -> int:
    """Rounds of the loop below that take 50 ms of processor time here."""
    rounds, spent = 10_000, 0.0
    while spent < 0.05:
        rounds = int(rounds * max(1.2, 0.055 / max(spent, 0.005)))
        started = time.process_time()
        total = 0
        for number in range(rounds):
            total += number * number % 7
        spent = time.process_time() - started
    return int(rounds * 0.05 / spent)


def candidate(rounds: int, at: int, is_right: bool = True, loops: bool = False) -> str:
    body = "    while True:\n        pass\n" if loops else f"    for n in range({rounds}):\n        t += n * n % 7\n"
    return f"# candidate {at}\ndef solve(xs):\n    t = 0\n{body}    return {'sorted(xs)' if is_right else 'xs'}\n"


def tests(problem: int) -> str:
    last = problem + 4
    return f"from candidate import solve\n\ndef test_solve():\n    assert solve([3, 1, {last}]) == [1, 3, {last}]\n"


class ProcessorTime:
    """Seconds used by this process and all it starts: of a control group of its own (root), else of the whole machine.
    Not getrusage: bubblewrap does not wait for its children."""

    def __init__(self):
        for top, usage in (("/sys/fs/cgroup/cpuacct", "cpuacct.usage"), ("/sys/fs/cgroup", "cpu.stat")):
            group = Path(top, f"grpo-benchmark-{os.getpid()}")
            try:
                group.mkdir()
                (group / "cgroup.procs").write_text(str(os.getpid()))
                self.source, self.name = group / usage, "of a control group"
                self()
                return
            except (OSError, ValueError):
                continue
        self.source, self.name = Path("/proc/stat"), "of the whole machine"

    def __call__(self) -> float:
        words = self.source.read_text().split()
        if self.source.name == "cpuacct.usage":
            return int(words[0]) / 1e9
        if self.source.name == "cpu.stat":
            return int(words[words.index("usage_usec") + 1]) / 1e6
        return (sum(map(int, words[1:4])) + sum(map(int, words[6:8]))) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each row; the fastest is shown (default 3)")
    parser.add_argument("--sequential", type=int, default=16, help="candidates for the slow rows (default 16)")
    options = parser.parse_args()
    box = sandbox.bubblewrap()
    rounds, cores = work_of_50_ms(), sandbox.worker_count()
    right = [candidate(rounds, at, at % 4 != 0) for at in range(COUNT)]
    files = [tests(at // PER_PROBLEM) for at in range(COUNT)]
    loops = [candidate(rounds, at, True, at % 10 == 5) for at in range(COUNT)]
    references = [candidate(rounds, 1000 + at // PER_PROBLEM) for at in range(COUNT)]
    rows, processor_s = [], ProcessorTime()

    def measure(name, call, count):
        runs = []
        for _ in range(options.repeat):
            sandbox._problems.clear()  # what was found out with the references of the row before
            started, used = time.monotonic(), processor_s()
            call()
            wall = time.monotonic() - started
            sandbox.close()
            runs.append((wall, processor_s() - used))
        wall, cpu = min(runs)
        rows.append((name, count, wall, count / wall, cpu / count * 1000))

    def judged(sources, **settings):
        return lambda: sandbox.judge(sources, files, box, **settings)

    few = options.sequential

    def one_by_one(plugins):
        for pair in zip(right[:few], files):
            passes_in_one_process(box, *pair, plugins=plugins)

    measure("pytest process each, one by one", lambda: one_by_one(True), few)
    measure("  without installed plugins", lambda: one_by_one(False), few)
    measure("sandbox.judge", judged(right), COUNT)
    measure("  a tenth loops, 10 s each", judged(loops), COUNT)
    measure("  a tenth loops, with references", judged(loops, references=references), COUNT)
    measure("  no loops, with references", judged(right, references=references), COUNT)
    rows.append((f"plain limit: {cores} cores / 50 ms", COUNT, COUNT * 0.05 / cores, cores / 0.05, 50.0))
    from rich.console import Console
    from rich.table import Table

    table = Table("way", "candidates", "seconds", "candidates/s", "CPU ms each", title="64 candidates of 50 ms")
    table.caption = f"processor time {processor_s.name}; the start of the sandboxes is counted everywhere"
    for name, count, wall, rate, cpu in rows:
        table.add_row(name, str(count), f"{wall:.2f}", f"{rate:.1f}", f"{cpu:.0f}")
    Console(width=100).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
