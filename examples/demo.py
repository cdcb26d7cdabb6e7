#!/usr/bin/env python3
"""The main job on a small example: inspect the rewards on real completions, then rehearse the run on a CPU.

It only calls the commands you would call yourself, and prints each one before it runs. Needs requirements-dev.txt.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = Path("runs/demo")
REWARDS = ["format_reward", "correctness_reward"]
REWARD_OPTIONS = [word for name in REWARDS for word in ("--reward", name)]


def run(title: str, *command: str, log: Path | None = None, status: int = 0) -> None:
    """Run one command from the repository root and show it as a person would type it; stop the demo if it does not end
    with `status`."""
    shown = shlex.join(command) + (f" > {log}" if log else "")
    print((f"\n== {title}\n" if title else "") + f"$ {shown}", flush=True)
    # Nothing may be asked of a hub, and warnings meant for library authors would hide the progress bar.
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore", "TRANSFORMERS_VERBOSITY": "warning",
                   "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
                   "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}  # fmt: skip
    with open(ROOT / log if log else os.devnull, "w", encoding="utf-8") as output:
        done = subprocess.run(command, check=False, cwd=ROOT, env=environment, stdout=output if log else None)
    if done.returncode != status:
        where = f"; its output is in {log}" if log else ""
        sys.exit(f"error: the command above ended with status {done.returncode}{where}")


def training_table() -> None:
    from rich.console import Console
    from rich.table import Table

    checkpoint = max((ROOT / OUT / "grpo").glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    history = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    rows = [row for row in history if "reward" in row]
    parts = {key.split("/")[1]: key for key in rows[0] if key.startswith("rewards/") and key.endswith("/mean")}
    columns = {**parts, "sum": "reward", "dead groups": "frac_reward_zero_std", "clipped": "completions/clipped_ratio"}
    table = Table("steps", *columns, title="what the trainer logged, mean over 8 steps", title_justify="left")
    for start in range(0, len(rows), 8):
        part = rows[start : start + 8]
        means = [sum(row[key] for row in part) / len(part) for key in columns.values()]
        table.add_row(f"{start + 1}-{start + len(part)}", *(f"{mean:.2f}" for mean in means))
    Console().print(table)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python examples/demo.py\nexit codes: 0 = ok, 1 = a command failed, 2 = bad usage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args()
    shutil.rmtree(ROOT / OUT, ignore_errors=True)  # only what an earlier demo wrote
    (ROOT / OUT).mkdir(parents=True)
    run("1. Rewards beside the text they scored, and where they disagree with the labels",
        "python", "scripts/rewards.py", "score", "examples/completions.jsonl", *REWARD_OPTIONS,
        "--compare", "correctness_reward", "--rows", "16")  # fmt: skip
    inspection = ("python", "scripts/inspect_rewards.py")
    folder = ("--dir", str(OUT / "inspection"))
    run("2. The Inspection Rule on the same completions; `label` is for a person, so the gate says no",
        *inspection, "sample", "--completions", "examples/completions.jsonl", *folder)  # fmt: skip
    run("", *inspection, "score", "--reward", "correctness_reward", "--pass-above", "0.5", *folder)
    run("", *inspection, "report", *folder)
    run("", *inspection, "gate", *folder, status=1)
    tiny_model = str(OUT / "tiny-model")
    run("3. A toy policy in place of your checkpoint",
        "python", "examples/tiny_model.py", "--prompts", "examples/prompts.jsonl", "--out", tiny_model)  # fmt: skip
    run("4. Go or no-go for that config: nobody has read the outputs, so it is no",
        "python", "scripts/preflight.py", "--config", "examples/grpo.yaml", "--gpu", "h200",
        "--inspection", str(OUT / "inspection"), status=1)  # fmt: skip
    run("5. The real trainer on the real config (the progress bar is TRL's)",
        "trl", "grpo", "--config", "examples/grpo.yaml", log=OUT / "train.log")  # fmt: skip
    training_table()
    run("6. What the log and the completions say of that run",
        "python", "scripts/diagnose_run.py", str(OUT / "grpo"), "--config", "examples/grpo.yaml")  # fmt: skip
    last = max((ROOT / OUT / "grpo/completions").glob("*.parquet")).relative_to(ROOT)
    print(
        f"\nThe toy shows that config, dataset and rewards work together and that the reward can rise.\n"
        f"It says nothing about your model.\n\n"
        f"Where the logs are:\n"
        f"  {OUT}/train.log                          every logged step\n"
        f"  {OUT}/grpo/completions/                  prompts, completions, rewards, reasons, advantages per step\n"
        f"  {OUT}/grpo/checkpoint-40/trainer_state.json  the same metrics as JSON\n\n"
        f"What to run next:\n"
        f"  python scripts/inspect_rewards.py label --labeller YOU --dir {OUT}/inspection\n"
        f"  python scripts/rewards.py score {last} --dataset examples/prompts.jsonl {shlex.join(REWARD_OPTIONS)}\n"
        f"  python scripts/rewards.py score YOUR_COMPLETIONS.jsonl --reward your_module.your_reward"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
