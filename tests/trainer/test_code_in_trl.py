"""The code reward in TRL's real trainer: a policy that writes code, some of it hostile, judged in a real sandbox."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rewards
import sandbox
import tiny_model

ROOT = Path(__file__).parents[2]
RIGHT, WRONG, HOSTILE = "def add(a, b): return a + b", "def add(a, b): return a - b", "import os; os._exit(0)"
CODES = [RIGHT, WRONG, HOSTILE]
PROMPTS = ["write add", "write add please"]
TESTS = "from candidate import add\ndef test_add():\n    assert add(2, 3) == 5\n"

needs_bubblewrap = pytest.mark.skipif(not shutil.which("bwrap"), reason="NOT RUN: bubblewrap is not installed")


@pytest.fixture(scope="module")
def coder():
    """A policy that answers with one of the three pieces of code, each about as often."""
    tokenizer = tiny_model.build_tokenizer([*PROMPTS, *CODES])
    model = tiny_model.build_model(tokenizer, seed=0)
    tiny_model.warm_up(model, tokenizer, PROMPTS, CODES, steps=80)
    return tokenizer, model.state_dict()


def run(coder, reward, folder, steps, **columns):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    tokenizer, weights = coder
    model = tiny_model.build_model(tokenizer)
    model.load_state_dict(weights)
    settings = {
        "output_dir": str(folder), "use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no",
        "per_device_train_batch_size": 16, "num_generations": 8, "max_completion_length": 40, "max_steps": steps,
        "logging_steps": 1, "learning_rate": 5e-4, "disable_tqdm": True, "seed": 0, "log_completions": True,
        "num_completions_to_print": 0,
    }  # fmt: skip
    data = [{"prompt": prompt, "test_code": TESTS, "reference": RIGHT, **columns} for prompt in PROMPTS]
    trainer = GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=[reward],
        args=GRPOConfig(**settings),
        train_dataset=Dataset.from_list(data),
    )
    trainer.train()
    return trainer


def table_of(folder) -> list[dict]:
    import pyarrow.parquet

    files = sorted((Path(folder) / "completions").glob("*.parquet"))
    return [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]


@needs_bubblewrap
def test_a_policy_learns_to_write_right_code_not_to_exit(coder, tmp_path):
    """The dataset also tries to take the sandbox away."""
    reward = rewards.make_test_execution_reward(sandbox.bubblewrap(), timeout_s=5, mode="auto")
    trainer = run(coder, reward, tmp_path, steps=40, sandbox_cmd="false", sandbox="env", mode="inproc")
    table = table_of(tmp_path)
    for row in table:
        code = rewards.extract_code(row["completion"]).strip()
        assert row[reward.__name__] == float(code == RIGHT), row
        expected = {RIGHT: "passed", WRONG: "wrong", HOSTILE: "exited"}.get(code)
        assert expected is None or row[f"{reward.__name__}/reason"] == expected
    first, last = table[:32], table[-32:]
    assert {"passed", "wrong", "exited"} <= {row[f"{reward.__name__}/reason"] for row in first}
    assert sum(row[reward.__name__] for row in last) > sum(row[reward.__name__] for row in first) + 5
    history = [row for row in trainer.state.log_history if f"{reward.__name__}/inproc_rate" in row]
    assert history and all(row[f"{reward.__name__}/inproc_rate"] == 0.0 for row in history)


MY_REWARDS = """
from rewards import make_test_execution_reward
from sandbox import bubblewrap

code_reward = make_test_execution_reward(bubblewrap(), timeout_s=5)
"""


def command_line(coder, folder: Path, steps: int) -> list[str]:
    """`trl grpo --reward_funcs my_rewards.code_reward` in a folder that holds copies of the scripts."""
    tokenizer, weights = coder
    model = tiny_model.build_model(tokenizer)
    model.load_state_dict(weights)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    for name in ("rewards.py", "sandbox.py", "sandbox_runner.py", "sandbox_proxy.py"):
        shutil.copy(ROOT / "scripts" / name, folder)
    (folder / "my_rewards.py").write_text(MY_REWARDS)
    rows = [json.dumps({"prompt": prompt, "test_code": TESTS}) for prompt in PROMPTS]
    (folder / "data").mkdir()
    (folder / "data/train.jsonl").write_text("\n".join(rows) + "\n")
    return [
        str(Path(sys.executable).parent / "trl"), "grpo", "--model_name_or_path", "model", "--dataset_name", "data",
        "--reward_funcs", "my_rewards.code_reward", "--output_dir", "out", "--use_cpu", "true", "--bf16", "false",
        "--report_to", "none", "--per_device_train_batch_size", "8", "--num_generations", "4", "--max_steps", str(steps),
        "--max_completion_length", "40", "--log_completions", "true", "--logging_steps", "1", "--save_strategy", "no",
    ]  # fmt: skip


def processes() -> dict[str, tuple[str, str]]:
    """pid -> (parent, name) of all that are alive."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        state, parent = rest.split()[:2]
        if state != "Z":
            found[path.parent.name] = (parent, name)
    return found


def descendants(pid, alive) -> set[str]:
    found, wave = set(), {str(pid)}
    while wave:
        wave = {child for child, (parent, _) in alive.items() if parent in wave} - found
        found |= wave
    return found


@needs_bubblewrap
def test_by_the_command_line_and_killed(coder, tmp_path):
    command = command_line(coder, tmp_path, steps=2)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    table = table_of(tmp_path / "out")
    assert len(table) == 16
    codes = [rewards.extract_code(row["completion"]).strip() for row in table]
    assert [row["test_execution_reward"] for row in table] == [float(code == RIGHT) for code in codes]

    command[command.index("--max_steps") + 1] = "500"
    trainer = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # `trl` starts the trainer as a child; the sandboxes are the trainer's.
    deadline, boxes = time.monotonic() + 120, set()
    while len(boxes) < 2 and time.monotonic() < deadline and trainer.poll() is None:
        time.sleep(0.5)
        alive = processes()
        boxes = {pid for pid in descendants(trainer.pid, alive) if alive[pid][1] == "bwrap"}
    assert boxes
    parents = {alive[pid][0] for pid in boxes if alive[alive[pid][0]][1] != "bwrap"}
    assert len(parents) == 1
    inside = set().union(*(descendants(pid, alive) for pid in boxes)) | boxes
    assert len(inside) >= 4 * len(parents)  # bubblewrap, supervisor and zygotes
    os.kill(int(parents.pop()), signal.SIGKILL)
    trainer.wait(60)
    while inside & set(processes()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not inside & set(processes())
