#!/usr/bin/env python3
"""Print the tables of references/memory-sizing.md and SKILL.md as Markdown: `python benchmarks/memory_tables.py NAME`.

sizes: trainer peak and resident part by size class and mode. errors: the estimator beside whole traces, by part.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from estimate_memory import GIB, Plan, Shape, estimate

# Common dense shapes of each size class.
CLASSES = {
    "0.5B": Shape(24, 896, 4864, 14, 2, 64, 151_936, True, attention_bias=True),
    "1.5B": Shape(28, 1536, 8960, 12, 2, 128, 151_936, True, attention_bias=True),
    "3B": Shape(36, 2048, 11008, 16, 2, 128, 151_936, True, attention_bias=True),
    "7B": Shape(28, 3584, 18944, 28, 4, 128, 152_064, attention_bias=True),
    "14B": Shape(48, 5120, 13824, 40, 8, 128, 152_064, attention_bias=True),
    "32B": Shape(64, 5120, 27648, 40, 8, 128, 152_064, attention_bias=True),
    "70B": Shape(80, 8192, 28672, 64, 8, 128, 128_256),
}
MODES = {
    "Full, float32 (a model string)": {"mode": "full", "dtype": "float32"},
    "Full, bfloat16": {"mode": "full", "dtype": "bfloat16"},
    "LoRA r16, bfloat16 base": {"mode": "lora", "dtype": "bfloat16"},
    "QLoRA r16": {"mode": "qlora", "dtype": "bfloat16", "double_quant": True},
}


def sizes() -> list[str]:
    lines = ["| Size class | " + " | ".join(MODES) + " |", "|---" * (len(MODES) + 1) + "|"]
    for name, shape in CLASSES.items():
        large = name in ("32B", "70B")
        batch, length = (1, 1024) if large else (8, 512)
        rollout = {"generation": "server", "steps_per_generation": 8 // batch}
        cells = []
        for settings in MODES.values():
            plan = Plan(shape, **settings, batch=batch, prompt=length, completion=length, **rollout)
            answer = estimate(plan)
            cells.append(f"{answer['trainer_peak_bytes'] / GIB:.1f} / {answer['resident_bytes'] / GIB:.1f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def errors() -> list[str]:
    from test_estimate_memory import errors as compared

    cases = json.loads((ROOT / "benchmarks/memory_holdout.json").read_text(encoding="utf-8"))["cases"]
    lines = [
        "| Number of KV heads | Part | Cases | Median | Worst | Most below the trace |",
        "|---|---|---|---|---|---|",
    ]
    for single in (False, True):
        for name, values in compared([case for case in cases if (case["shape"]["kv_heads"] == 1) == single]).items():
            apart = [abs(value) for value in values]
            below = f"{-min(values):.2%}" if min(values) < 0 else "none"
            heads = "1 (upper bound)" if single else "2 or more"
            middle, worst = statistics.median(apart), max(apart)
            lines.append(f"| {heads} | {name} | {len(values)} | {middle:.2%} | {worst:.2%} | {below} |")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("sizes", "errors"))
    print("\n".join(globals()[parser.parse_args().table]()))
