#!/usr/bin/env python3
"""Print the tables of references/memory-sizing.md and SKILL.md as Markdown: `python benchmarks/memory_tables.py NAME`.

sizes: trainer peak and resident part by size class and mode. errors: the planner beside whole traces, by part.
published, peers: beside what others measured, and what other calculators print. anchors, levers: what fits a card, and
what brings it there. cache, spark: arithmetic. rates: published decode rates over the bounds.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import gpu_rates
from estimate_memory import GIB, TARGETS, Plan, Shape, estimate, levers

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
        cells = []
        for settings in MODES.values():
            plan = Plan(shape, **settings, **run_of(name), generation="server")
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
            shape["vocabulary"], settings["tied"], settings["norm"], experts=shape.get("experts", 0),
            experts_per_token=shape.get("per_token", 0),
        ),
        mode=settings["mode"], dtype=settings["dtype"], lora_r=shape["lora_r"], lora_targets=targets,
        double_quant=settings["double_quant"], optimizer=settings.get("optimizer", "adamw_torch_fused"),
        checkpointing=settings["checkpointing"], autocast=settings.get("autocast", True),
        gpus=settings.get("shards", 1), sharding="fsdp2" if settings.get("shards") else "ddp",
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


def groups() -> dict[str, list[dict]]:
    """The traced cases by what they have in common; one KV head is its own group, as the answer is an upper bound."""
    cases = json.loads((ROOT / "benchmarks/memory_holdout.json").read_text(encoding="utf-8"))["cases"]
    found = {}
    for case in cases:
        single = ", one KV head" if case["shape"]["kv_heads"] == 1 else ""
        found.setdefault(case["group"] + single, []).append(case)
    return found


def errors() -> list[str]:
    parts = ("weights", "optimizer", "score", "forward", "backward")
    lines = [
        "| Group | Cases | Peak: median | worst | most below the trace | "
        + " | ".join(f"{part}: worst" for part in parts) + " |",
        "|---" * (5 + len(parts)) + "|",
    ]  # fmt: skip
    for name, cases in sorted(groups().items()):
        found = compare(cases)
        apart = [abs(value) for value in found["peak"]]
        below = f"{-min(found['peak']):.2%}" if min(found["peak"]) < 0 else "none"
        cells = [f"{statistics.median(apart):.2%}", f"{max(apart):.2%}", below]
        for part in parts:
            values = found.get(f"{part} beyond resident", found[part])
            cells.append(f"{max(abs(value) for value in values):.2%}")
        lines.append(f"| {name} | {len(cases)} | " + " | ".join(cells) + " |")
    return lines


def run_of(name: str) -> dict:
    """The batch that all size tables take: 8 x (512 + 512) tokens, of 32B and 70B one x (1,024 + 1,024)."""
    large = name in ("32B", "70B")
    batch, length = (1, 1024) if large else (8, 512)
    return {"batch": batch, "prompt": length, "completion": length, "steps_per_generation": 8 // batch}


def peers() -> list[str]:
    """What other calculators print for the same shapes, beside the planner; they model other programs."""
    rows = json.loads((ROOT / "benchmarks/memory_peers.json").read_text(encoding="utf-8"))
    ours = dict(zip(("float32", "bfloat16", "lora", "qlora"), MODES.values()))
    ours |= {f"{name} x 8": {"sharding": name, "gpus": 8} for name in ("zero2", "zero3", "fsdp2")}
    lines = ["| Mode | Tool | Models | " + " | ".join(CLASSES) + " |", "|---" * (3 + len(CLASSES)) + "|"]
    for mode, settings in ours.items():
        cells = []
        for name, shape in CLASSES.items():
            answer = estimate(Plan(shape, **settings, **run_of(name), generation="server"))
            low, high = answer["peak_bytes_low"] / GIB, answer["trainer_peak_bytes"] / GIB
            cells.append(f"{high:.1f}" if answer["kind"] != "range" else f"{low:.1f} to {high:.1f}")
        lines.append(f"| {mode} | this planner | GRPO, TRL 1.16 | " + " | ".join(cells) + " |")
        for row in rows:
            if row["mode"] == mode:
                cells = [f"{value:.1f}" for value in row["gib"]]
                lines.append(f"| {mode} | {row['tool']} | {row['models']} | " + " | ".join(cells) + " |")
    named = {f"[{row['tool']} {row['version']}]({row['source']})": row["retrieved"] for row in rows}
    return [*lines, "", f"Tools, run on {max(named.values())}: " + ", ".join(named) + "."]


def published_rows() -> list[tuple[dict, Shape, dict]]:
    found = json.loads((ROOT / "tests/data/memory_points.json").read_text(encoding="utf-8"))
    shapes = {}
    for name, fields in found["shapes"].items():
        shapes[name] = Shape(**{field: value for field, value in fields.items() if field != "billions"})
    return [
        (point, shapes[point["shape"]], estimate(Plan(shapes[point["shape"]], **point["plan"], generation="server")))
        for point in found["points"]
    ]


def published() -> list[str]:
    """`torch.cuda.max_memory_allocated` of others beside the planner's trainer peak."""
    lines = [
        "| Run | Mode | Batch x tokens | GPU | Published, GiB | Planner, GiB | Planner is | What differs |",
        "|---" * 8 + "|",
    ]
    for point, shape, answer in published_rows():
        plan, ours = point["plan"], answer["trainer_peak_bytes"]
        differs = point["differs"]
        if "full logits" in differs:
            logits = plan["batch"] * plan["completion"] * shape.vocabulary
            differs += f": the gap is {(point['published_gib'] * GIB - ours) / logits:.0f} bytes a logit"
        size = point["shape"].split("-")[0]
        lines.append(
            f"| {size}, {point['task']} | {plan['mode']} | {plan['batch']} x "
            f"{plan['prompt'] + plan['completion']:,} | {point['gpu']} | {point['published_gib']} | {ours / GIB:.2f} "
            f"| {ours / GIB / point['published_gib'] - 1:+.1%} | {differs} |"
        )
    return lines


LORA = {"mode": "lora", "dtype": "bfloat16"}
ANCHORS = [
    ("rtx-4090", "1.5B", {}, "full, float32"),
    ("rtx-4090", "1.5B", {"dtype": "bfloat16"}, "full, bfloat16"),
    ("rtx-4090", "3B", {"dtype": "bfloat16", "vllm_utilization": 0.4}, "full, bfloat16"),
    (
        "rtx-4090",
        "3B",
        {"dtype": "bfloat16", "optimizer": "adamw_8bit", "vllm_utilization": 0.4},
        "full, bfloat16, 8-bit AdamW",
    ),
    ("rtx-4090", "3B", {"optimizer": "adamw_8bit", "vllm_utilization": 0.4}, "full, float32, 8-bit AdamW"),
    ("rtx-4090", "3B", {**LORA, "vllm_utilization": 0.4}, "LoRA"),
    ("rtx-4090", "7B", {**MODES["QLoRA r16"], "generation": "transformers"}, "QLoRA"),
    ("h200", "32B", {"dtype": "bfloat16"}, "full, bfloat16"),
    ("h200", "32B", {**LORA, "vllm_utilization": 0.5}, "LoRA"),
    ("h200", "32B", {**LORA, "generation": "server"}, "LoRA"),
    ("b200", "70B", {"dtype": "bfloat16"}, "full, bfloat16"),
    ("b200", "70B", {**LORA, "vllm_utilization": 0.8}, "LoRA"),
    ("b200", "70B", {**LORA, "generation": "server"}, "LoRA"),
]


def anchors() -> list[str]:
    lines = [
        "| Card | Size class | Mode | Generation | Trainer, GiB | On the card, GiB | Usable, GiB | Verdict |",
        "|---" * 8 + "|",
    ]
    for card, name, settings, mode in ANCHORS:
        usable = gpu_rates.gpu(card).usable_bytes
        plan = Plan(
            CLASSES[name], **{"generation": "colocate", "sleep": True, **settings}, **run_of(name), device_bytes=usable
        )
        answer = estimate(plan)
        where = f"colocate, share {plan.vllm_utilization}, sleep" if plan.generation == "colocate" else plan.generation
        verdict = answer["verdict"] + (
            "" if not answer["vllm"] or answer["vllm"]["starts"] else ": vLLM does not start"
        )
        trainer = answer["trainer_peak_bytes"] / GIB
        low, high = answer["device_bytes_low"] / GIB, answer["device_bytes_high"] / GIB
        cells = [card, name, mode, where, f"{trainer:.1f}", f"{low:.1f} to {high:.1f}", f"{usable / GIB:.1f}", verdict]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def lever_rows() -> list[str]:
    """The 1.5B and 3B classes on a 24 GB card with TRL's defaults: what each lever, and the old trio, changes."""
    usable = gpu_rates.gpu("rtx-4090").usable_bytes
    plans = {name: Plan(CLASSES[name], **run_of(name), device_bytes=usable) for name in ("1.5B", "3B")}
    found = {name: {row["lever"]: row for row in levers(plan)} for name, plan in plans.items()}
    lines = ["| Changed from TRL's defaults | 1.5B: peak, GiB | Verdict | 3B: peak, GiB | Verdict |", "|---" * 5 + "|"]
    cells = []
    for plan in plans.values():
        answer = estimate(plan)
        cells += [f"{answer['peak_bytes'] / GIB:.1f}", answer["verdict"]]
    lines.append("| nothing | " + " | ".join(cells) + " |")
    order = sorted(found["3B"], key=lambda lever: found["3B"][lever]["peak_bytes"])
    for lever in order:
        rows = [found[name].get(lever) for name in plans]
        cells = [cell for row in rows for cell in
                 ((_peak_range(row), row["verdict"]) if row else ("", ""))]  # fmt: skip
        lines.append(f"| {lever} | " + " | ".join(cells) + " |")
    return lines


def _peak_range(row: dict) -> str:
    low, high = row["peak_bytes_low"] / GIB, row["peak_bytes"] / GIB
    return f"{high:.1f}" if low == high else f"{low:.1f} to {high:.1f}"


def cache() -> list[str]:
    shapes = {name: CLASSES[name] for name in ("3B", "7B", "32B", "70B")}
    shapes |= {"8B": Shape(32, 4096, 14336, 32, 8, 128, 128_256)}
    lines = [
        "| Size class | Layers | KV heads | Head size | Cache per token, KiB | 4,096 tokens, GiB | 131,072, GiB |",
        "|---" * 7 + "|",
    ]
    for name in sorted(shapes, key=lambda name: float(name[:-1])):
        shape, each = shapes[name], shapes[name].cache_bytes_per_token
        lines.append(
            f"| {name} | {shape.layers} | {shape.kv_heads} | {shape.head_dim} | {each / 1024:.0f} "
            f"| {4096 * each / GIB:.2f} | {131_072 * each / GIB:.2f} |"
        )
    return lines


def spark() -> list[str]:
    """One sequence on a DGX Spark, weights only: the planner's own bound."""
    card = gpu_rates.gpu("dgx-spark")
    lines = [
        "| Size class | Weights read per token, GB | Ceiling per sequence, tokens/s | 512 tokens take at least, s |",
        "|---" * 4 + "|",
    ]
    for name in ("1.5B", "3B", "7B", "14B", "32B"):
        shape = CLASSES[name]
        read = 2 * (shape.parameters - (0 if shape.tied else shape.embedding))
        bound = gpu_rates.decode_bound(card, gpu_rates.DecodeWork(read, 0, read), 1, 1)
        each = bound["tokens_s_per_sequence"]
        lines.append(f"| {name} | {read / 1e9:.1f} | {each:.1f} | {512 / each:.0f} |")
    return lines


def rate_checks() -> list[str]:
    """Published decode rates over the bound, by GPU; the whole list is printed by benchmarks/rate_points.py."""
    import rate_points

    points = rate_points.load()
    lines = ["| GPU | Points | Published over bound | Above the bound |", "|---" * 4 + "|"]
    found = {}
    for point in points:
        if point["kind"] == "decode":
            found.setdefault(point["gpu"], []).append(rate_points.decode_ratio(point)[1])
    for key in gpu_rates.GPUS:
        ratios = found.get(key, [])
        cells = [str(len(ratios)), "bound, unvalidated", ""]
        if ratios:
            above = [ratio for ratio in ratios if ratio > 1]
            cells[1:] = [
                f"{min(ratios):.2f} to {max(ratios):.2f}",
                ", ".join(f"{ratio:.3f}" for ratio in above) or "none",
            ]
        lines.append(f"| {gpu_rates.GPUS[key].name} | " + " | ".join(cells) + " |")
    return lines


TABLES = {
    "sizes": sizes, "errors": errors, "peers": peers, "published": published, "anchors": anchors,
    "levers": lever_rows, "cache": cache, "spark": spark, "rates": rate_checks,
}  # fmt: skip

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    print("\n".join(TABLES[parser.parse_args().table]()))
