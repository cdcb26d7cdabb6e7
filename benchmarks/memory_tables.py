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
sys.path.insert(0, str(ROOT / "scripts"))

from estimate_memory import GIB, TARGETS, Plan, Shape, estimate

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


def plan_of(case: dict) -> Plan:
    shape, settings = case["shape"], case["settings"]
    targets = settings.get("lora_targets", "all-linear")
    if not isinstance(targets, str):
        targets = {tuple(names): name for name, names in TARGETS.items()}[tuple(targets)]
    return Plan(
        Shape(
            settings["layers"], shape["hidden"], shape["mlp"], shape["heads"], shape["kv_heads"], shape["head_dim"],
            shape["vocabulary"], settings["tied"], settings["norm"],
        ),
        mode=settings["mode"], dtype=settings["dtype"], lora_r=shape["lora_r"], lora_targets=targets,
        double_quant=settings["double_quant"], optimizer=settings["optimizer"], checkpointing=settings["checkpointing"],
        batch=shape["batch"], accumulation=settings.get("accumulation", 1), prompt=shape["prompt"],
        completion=shape["completion"], generation="server", num_generations=2, steps_per_generation=2,
    )  # fmt: skip


def compare(cases: list[dict]) -> dict[str, list[float]]:
    """Estimate over trace, less 1, of each part on its own: what is too low in one cannot hide behind another."""
    found = {}
    for case in cases:
        answer, traced = estimate(plan_of(case)), case["traced"]
        pairs = {
            "weights": (answer["phases"]["score"]["weights"], traced["weights"]),
            "optimizer": (answer["phases"]["score"]["optimizer"], traced["optimizer"]),
            "peak": (answer["trainer_peak_bytes"], traced["peak"]),
        }
        for phase in ("score", "forward", "backward"):
            pairs[phase] = (answer["phases"][phase]["total"], traced["peaks"][phase])
            working = traced["peaks"][phase] - traced["resident"]
            pairs[f"{phase} beyond resident"] = (answer["phases"][phase]["total"] - answer["resident_bytes"], working)
        pairs["optimizer step"] = (answer["phases"]["optimizer"]["total"], traced["peaks"]["step"])
        for name, (ours, theirs) in pairs.items():
            found.setdefault(name, []).append(ours / theirs - 1)
    return found


def errors() -> list[str]:
    cases = json.loads((ROOT / "benchmarks/memory_holdout.json").read_text(encoding="utf-8"))["cases"]
    lines = [
        "| Number of KV heads | Part | Cases | Median | Worst | Most below the trace |",
        "|---|---|---|---|---|---|",
    ]
    for single in (False, True):
        for name, values in compare([case for case in cases if (case["shape"]["kv_heads"] == 1) == single]).items():
            apart = [abs(value) for value in values]
            below = f"{-min(values):.2%}" if min(values) < 0 else "none"
            heads = "1 (upper bound)" if single else "2 or more"
            middle, worst = statistics.median(apart), max(apart)
            lines.append(f"| {heads} | {name} | {len(values)} | {middle:.2%} | {worst:.2%} | {below} |")
    return lines


TABLES = {"sizes": sizes, "errors": errors}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    print("\n".join(TABLES[parser.parse_args().table]()))
