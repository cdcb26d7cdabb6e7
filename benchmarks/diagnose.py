#!/usr/bin/env python3
"""How long diagnose_run.py takes on a long run, and how much memory: 100,000 rows of log, 1,000 completions files.

python benchmarks/diagnose.py                      # makes the run in a temporary folder, prints seconds and MB
python benchmarks/diagnose.py --rows 1000 --files 10   # the floor: what the imports take
"""

import argparse
import json
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts/diagnose_run.py"
METER = """import resource, runpy, sys
del sys.argv[0]
sys.path.insert(0, __import__('os').path.dirname(sys.argv[0]))
try:
    runpy.run_path(sys.argv[0], run_name='__main__')
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""
WORDS = ["so", "the", "sum", "of", "both", "parts", "is", "then", "one", "more", "than", "what", "was", "left", "over"]


def make(folder: Path, rows: int, files: int, batch: int, words: int) -> None:
    """A run whose log has the names that TRL 1.16 writes, and completions of `words` words."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = random.Random(0)
    names = [
        "reward", "reward_std", "frac_reward_zero_std", "rewards/a/mean", "rewards/a/std", "rewards/b/mean",
        "rewards/b/std", "grad_norm", "loss", "learning_rate", "entropy", "step_time", "num_tokens",
        *(f"completions/{part}_{kind}" for part in ("mean", "min", "max") for kind in ("length", "terminated_length")),
        "completions/clipped_ratio", *(f"clip_ratio/{one}" for one in ("low_mean", "low_min", "high_mean", "high_max",
                                                                       "region_mean")),
    ]  # fmt: skip
    history = [{"step": step, "epoch": step / rows, **{name: chance.random() for name in names}}
               for step in range(1, rows + 1)]  # fmt: skip
    state = {"epoch": 1.0, "global_step": rows, "log_history": history, "logging_steps": 1, "max_steps": rows}
    (folder / "trainer_state.json").write_text(json.dumps(state, indent=2), encoding="utf-8")
    (folder / "completions").mkdir()
    for place in range(files):
        step = (place + 1) * rows // files
        table = pa.table({
            "step": [step] * batch,
            "prompt": [f"What is {n // 8} + {place}?" for n in range(batch)],
            "completion": [" ".join(chance.choices(WORDS, k=words)) for _ in range(batch)],
            "a": [float(chance.random() > 0.5) for _ in range(batch)], "b": [chance.random() for _ in range(batch)],
            "advantage": [chance.gauss(0, 1) for _ in range(batch)],
        })  # fmt: skip
        pq.write_table(table, folder / "completions" / f"completions_{step:05d}.parquet")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the log")
    parser.add_argument("--files", type=int, default=1000, help="completions files")
    parser.add_argument("--batch", type=int, default=64, help="completions in a file")
    parser.add_argument("--words", type=int, default=300, help="words in a completion")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own: what it holds would count as the command's, which is forked from here.
        maker = multiprocessing.Process(target=make, args=(Path(folder), args.rows, args.files, args.batch, args.words))
        maker.start()
        maker.join()
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6
        begun = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", METER, SCRIPT, folder, "--json"], check=False, capture_output=True,
                              text=True)  # fmt: skip
        spent = time.perf_counter() - begun
    if done.returncode not in (0, 1):
        print(done.stderr, file=sys.stderr)
        return 2
    busy, peak = (float(word) for word in done.stderr.splitlines()[-1].split())
    read = json.loads(done.stdout)["run"]
    print(f"{read['rows']} rows, {read['parquet_files']} files of {args.batch} completions, {size:.0f} MB: "
          f"{spent:.1f} s, of which {busy:.1f} s of processor, {peak / 1024:.0f} MB at most")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
