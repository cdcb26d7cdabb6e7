#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# ///
"""Published rates beside the bounds of `scripts/gpu_rates.py`, as Markdown: decoding, training, whole GRPO steps.

It measures nothing: tests/data/rate_points.json holds what others published, each with its address. A rate above its
bound is a **miss**: the bound, or the reading of the point, is wrong. Rows marked `shown` in the file are printed, and
every miss; the line below the table counts all of them.
"""

import argparse
import json
import sys
from pathlib import Path
from urllib.parse import urlparse

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import gpu_rates

POINTS = ROOT / "tests" / "data" / "rate_points.json"
SIZES = ("0.5B", "1.5B", "3B", "7B", "14B", "32B", "70B")


def load(path: Path = POINTS) -> list[dict]:
    """The points, sorted by kind, GPU (as in the table of GPUs), size class, number of GPUs, batch and context."""
    order = list(gpu_rates.GPUS)
    return sorted(
        json.loads(path.read_text(encoding="utf-8")),
        key=lambda p: (
            p["kind"],
            order.index(p["gpu"]),
            SIZES.index(p["size_class"]) if "size_class" in p else 0,
            p["gpus"],
            p.get("batch", 0),
            p.get("context_tokens") or 0,
            p["id"],
        ),
    )


def work_of(point: dict) -> gpu_rates.DecodeWork:
    """What a step of the point's model reads (bytes) and multiplies (FLOPs)."""
    return gpu_rates.DecodeWork(
        weight_bytes_read=point["parameters_read"] * point["weight_bits"] / 8,
        cache_bytes_per_token=point["cache_bytes_per_token"],
        flops_per_token=2 * point["parameters_read"],
    )


def decode_ratio(point: dict, gpu: gpu_rates.Gpu | None = None) -> tuple[dict, float]:
    """The bound for a published decode rate, and published / bound (above 1: a miss)."""
    row = gpu or gpu_rates.gpu(point["gpu"])
    bound = gpu_rates.decode_bound(row, work_of(point), point["batch"], point["context_tokens"], point["gpus"])
    return bound, point["tokens_s"] / bound["tokens_s"]


def utilisation(point: dict) -> float:
    """Share of the peak that a published training rate uses: 6 FLOPs a parameter (LoRA 4), 2 more with checkpointing.

    Attention is left out, as in the bound. Where the publisher's own figure counts it, that figure is higher.
    """
    per_parameter = (4 if point["method"] == "LoRA" else 6) + (2 if point["checkpointing"] else 0)
    row = gpu_rates.gpu(point["gpu"])
    return point["tokens_s"] * per_parameter * point["parameters"] / (row.dense_flops * point["gpus"])


def step_of(point: dict) -> dict:
    """The bound of a published GRPO step: old log-probabilities scored; a reference and checkpointing if it says so."""
    return gpu_rates.step_bound(
        gpu_rates.gpu(point["gpu"]),
        work_of(point),
        sequences=point["sequences"],
        prompt_tokens=point["prompt_tokens"],
        completion_tokens=point["completion_tokens"],
        checkpointing=bool(point["checkpointing"]),
        scored=True,
        reference=point["reference"],
        gpus=point["gpus"],
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def card(point: dict) -> str:
    name = gpu_rates.gpu(point["gpu"]).name
    return f"{point['gpus']}x {name}" if point["gpus"] > 1 else name


def link(point: dict) -> str:
    return f"[{urlparse(point['source']).netloc}]({point['source']})"


def decode_rows(points: list[dict]) -> tuple[list[list[str]], list[float]]:
    """Rows for the points that are shown and those that miss, and the ratios of all."""
    rows, ratios = [], []
    for point in points:
        bound, ratio = decode_ratio(point)
        ratios.append(ratio)
        if not (point["shown"] or ratio > 1):
            continue
        rows.append(
            [
                point["size_class"] + ("" if point["weight_bits"] == 16 else f", {point['weight_bits']:g} bit"),
                card(point),
                point["engine"],
                f"{point['batch']:g}",
                f"{point['context_tokens']:,}",
                f"{point['tokens_s']:,.1f}",
                f"{bound['tokens_s']:,.1f}",
                f"{ratio:.2f}" + (" **miss**" if ratio > 1 else ""),
                bound["bound_by"],
                link(point),
            ]
        )
    return rows, ratios


def main() -> int:
    """Prints the tables; 1 if there is no point to compare (a checker that inspected nothing fails)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args()
    points = load()
    decode = [point for point in points if point["kind"] == "decode"]
    if not decode:
        print(f"error: {POINTS} holds no decode point: nothing was compared", file=sys.stderr)
        return 1

    rows, ratios = decode_rows(decode)
    head = ["Size class", "GPU", "Engine", "Batch", "Context", "Published tok/s", "Bound tok/s", "Published / bound"]
    print(f"Decoding, sources retrieved {gpu_rates.RETRIEVED}. Batch and context in sequences and tokens.\n")
    print(table([*head, "Bound by", "Source"], rows))
    misses = sum(ratio > 1 for ratio in ratios)
    print(
        f"\n{len(rows)} of {len(ratios)} points shown. Published / bound over all: {min(ratios):.2f} to "
        f"{max(ratios):.2f}; {misses} above the bound."
    )
    with_points = {point["gpu"] for point in decode}
    print("\n" + "\n".join(f"- {row.name}: bound, unvalidated" for row in _without(with_points)))

    print("\nTraining: share of the peak FLOPS, recomputation counted, attention not.\n")
    print(
        table(
            ["Size class", "GPU", "Engine", "What", "Sequence", "Published tok/s", "Share of peak", "Source"],
            [
                [
                    point["size_class"],
                    card(point),
                    point["engine"],
                    point["method"] + (", checkpointing" if point["checkpointing"] else ""),
                    f"{point['context_tokens']:,}",
                    f"{point['tokens_s']:,.0f}",
                    f"{utilisation(point):.2f}",
                    link(point),
                ]
                for point in points
                if point["kind"] == "train"
            ],
        )
    )

    low, high = gpu_rates.TRAINING_UTILISATION
    print(f"\nGRPO steps: the bound for rollouts, and training at {high:g} and at {low:g} of the peak.\n")
    rows = []
    for point in points:
        if point["kind"] == "step":
            bound = step_of(point)
            rows.append(
                [
                    point["size_class"],
                    card(point),
                    point["engine"],
                    f"{point['sequences']:,} x ({point['prompt_tokens']:,} + {point['completion_tokens']:,})",
                    f"{point['seconds']:,.0f}",
                    f"{bound['step_seconds_low']:,.0f} to {bound['step_seconds_high']:,.0f}",
                    f"{bound['step_seconds_low'] / point['seconds']:.2f}"
                    + (" **miss**" if bound["step_seconds_low"] > point["seconds"] else ""),
                    link(point),
                ]
            )
    print(
        table(
            ["Size class", "GPU", "Trainer", "Sequences", "Published s", "Computed s", "Lowest / published", "Source"],
            rows,
        )
    )
    return 0


def _without(keys: set[str]) -> list[gpu_rates.Gpu]:
    return [row for key, row in gpu_rates.GPUS.items() if key not in keys]


if __name__ == "__main__":
    sys.exit(main())
