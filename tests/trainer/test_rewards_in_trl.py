"""The rewards in TRL's real GRPOTrainer: what is logged, what lands in the parquet, and that a run learns from them."""

import asyncio
import functools
import inspect
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import reward_cases
import rewards
from tiny_dataset import QUESTIONS, rows

ROOT = Path(__file__).parents[2]
NUMBER_SCHEMA = json.dumps({"type": "integer"})


def logged_rows(trainer) -> list[dict]:
    return [row for row in trainer.state.log_history if "reward" in row]


def parquet_rows(folder) -> list[dict]:
    import pyarrow.parquet

    files = sorted((Path(folder) / "completions").glob("*.parquet"))
    assert files
    return [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]


class Recorder:
    """A reward without opinion that keeps what TRL hands over."""

    __name__ = "recorder"

    def __init__(self):
        self.calls = []

    def __call__(self, **kwargs):
        self.calls.append(kwargs)
        return [None] * len(kwargs["completions"])


def sometimes_long(completions, **kwargs):
    return [1.0 if "7" in rewards.completion_text(completion) else -1.0 for completion in completions]


def the_digit(text, prefilled):
    """A way to find the answer that a user might write: the last digit anywhere."""
    return (re.findall(r"\d", text) or [None])[-1]


@pytest.mark.parametrize("conversational", [False, True], ids=["standard", "conversational"])
def test_all_rewards_wired_together(train, conversational):
    wrapped = rewards.with_length_penalty(rewards.correctness_reward, target_len=6, penalty_per_token=0.1)
    digit = rewards.make_correctness_reward(the_digit, score=1.0)
    functions = [
        rewards.format_reward,
        rewards.make_format_reward(["think"], prefilled=True),
        rewards.correctness_reward,
        digit,
        rewards.numeric_reward,
        rewards.make_numeric_reward(rel_tol=0.5),
        rewards.math_reward,
        rewards.schema_reward,
        rewards.make_schema_reward(graded=True),
        rewards.tool_call_reward,
        rewards.make_tool_call_reward("lenient"),
        wrapped,
        rewards.with_length_penalty(rewards.format_reward, target_len=6, penalty_per_token=0.1),
        rewards.combine(digit, rewards.correctness_reward, weights=[1, 0.5]),
        rewards.combine(digit, gate=sometimes_long),
        rewards.make_rubric_judge_reward(reward_cases.Replies("pass"), "It answers."),
        rewards.make_rubric_judge_reward(reward_cases.AsyncReplies("fail"), "It answers.", name="async_judge"),
        functools.partial(rewards.test_execution_reward, sandbox_cmd=None, test_code="def test(): ..."),
    ]
    recorder = Recorder()
    columns = {"output_schema": [NUMBER_SCHEMA] * len(QUESTIONS), "tool_calls": ["[]"] * len(QUESTIONS)}
    trainer = train([*functions, recorder], rows(conversational, **columns), conversational)

    names = [rewards._reward_name(function) for function in functions]
    assert trainer.reward_func_names == [*names, "recorder"] and len(set(names)) == len(names)
    for row in logged_rows(trainer):
        for name in names:
            assert math.isfinite(row[f"rewards/{name}/mean"]) and math.isfinite(row[f"rewards/{name}/std"])
        assert row["format_reward/abstained"] == 0.0 and "async_judge/unreachable" in row

    table = parquet_rows(trainer.args.output_dir)
    # TRL keeps one column per name: whatever a reward logs stands below its own.
    core = {"step", "prompt", "completion", "advantage", "recorder", *names}
    assert core < set(table[0])
    for column in set(table[0]) - core:
        assert column.partition("/")[0] in names or any(column.startswith(f"{name}/") for name in names), column
    for name in names:
        assert any(column.startswith(f"{name}/") for column in table[0]), name
    assert len(table) == sum(len(call["completions"]) for call in recorder.calls) == 16
    assert isinstance(table[0]["completion"], list if conversational else str)

    # What TRL logged is what a direct call gives on what TRL handed over.
    start = 0
    for call in recorder.calls:
        arguments = {**call, "log_extra": None, "log_metric": None}
        part = table[start : start + len(call["completions"])]
        start += len(part)
        for name, function in zip(names, functions):
            values = function(**arguments)
            values = asyncio.run(values) if inspect.isawaitable(values) else values
            assert [row[name] for row in part] == pytest.approx(values), name
    for name in ("correctness_reward", "format_reward", "numeric_reward", "math_reward", digit.__name__):
        assert any(row[name] for row in table), name
    for row in table:
        assert (row["numeric_reward/extracted"] or "").strip() == (row["correctness_reward/extracted"] or "")
        assert row["correctness_reward"] == 2 * row["numeric_reward"] == 2 * row["math_reward"]


def test_choices_and_two_instances_of_one_factory(train):
    """Names and columns of two instances stay apart in TRL's metrics and table."""
    letters = [{**row, "answer": "ABC"[index % 3]} for index, row in enumerate(rows(False))]
    tight, loose = rewards.make_numeric_reward(rel_tol=0), rewards.make_numeric_reward(rel_tol=9)
    choice_table = parquet_rows(train([rewards.choice_reward], letters).args.output_dir)
    assert {row["choice_reward/reason"] for row in choice_table} <= {"no_choice", "wrong", "correct", "several_choices"}
    trainer = train([tight, loose])
    table = parquet_rows(trainer.args.output_dir)
    assert {f"{one.__name__}/reason" for one in (tight, loose)} < set(table[0])
    means = [logged_rows(trainer)[-1][f"rewards/{one.__name__}/mean"] for one in (tight, loose)]
    assert means[0] < means[1]


def test_a_hostile_expression_does_not_stop_the_training(train):
    """TRL's accuracy_reward hangs on it for ever; see test_trl_rewards.py."""

    def hostile_or_right(completions, answer, **kwargs):
        texts = ["\\boxed{9^{9^{9^{9}}}}", "\\boxed{x+1}"] * (len(completions) // 2)
        return rewards.math_reward(
            texts, answer="1+x", budget_s=1.0, **{key: kwargs[key] for key in ("log_extra", "log_metric")}
        )

    trainer = train([hostile_or_right], max_steps=1)
    assert logged_rows(trainer)[0]["rewards/hostile_or_right/mean"] == 0.5
    reasons = [row["math_reward/reason"] for row in parquet_rows(trainer.args.output_dir)]
    assert reasons == ["over_budget", "correct"] * 4


def test_an_async_wrapped_reward_is_awaited(train):
    async def sometimes(completions, **kwargs):
        return [float(index % 2) for index in range(len(completions))]

    wrapped = rewards.with_length_penalty(sometimes)
    trainer = train([wrapped], max_steps=1)
    assert logged_rows(trainer)[0][f"rewards/{wrapped.__name__}/mean"] == pytest.approx(0.5)


def test_a_run_learns_from_a_library_reward(train):
    """Gold is one digit for all prompts, chance is 1 in 10, so the reward starts near 0.2 of 2.0.

    Margin: seeds 0, 1 and 2 ended at 1.9 or above after 60 steps (measured 2026-11-29); seed 0 runs here."""
    dataset = [{**row, "answer": "7"} for row in rows(True)]
    settings = {"max_steps": 60, "per_device_train_batch_size": 64, "num_generations": 8, "learning_rate": 2e-3,
                "lr_scheduler_type": "constant", "log_completions": False}  # fmt: skip
    trainer = train([rewards.correctness_reward, rewards.format_reward], dataset * 8, True, **settings)
    curve = [row["rewards/correctness_reward/mean"] for row in logged_rows(trainer)]
    first, last = sum(curve[:3]) / 3, sum(curve[-10:]) / 10
    assert first < 0.7 and last > 1.5, (first, last)


# --- TRL's side of the contract, as our documents state it ------------------------------------------------------------


def returning(*values, name="listed"):
    def listed(completions, **kwargs):
        return [values[index % len(values)] for index in range(len(completions))]

    listed.__name__ = name
    return listed


PLUMBING_CHECKED = set()


def plumbing(case_id):
    assert case_id in reward_cases.PLUMBING
    PLUMBING_CHECKED.add(case_id)


def test_p_column_name(train):
    plumbing("P-column-name")

    def solution_reward(completions, solutions, **kwargs):
        return [0.0] * len(completions)

    with pytest.raises(TypeError, match="solutions"):
        train([solution_reward], [{**row, "solution": "7"} for row in rows(False)])


def test_p_none(train):
    plumbing("P-none")
    trainer = train([returning(None, 1.0), rewards.format_reward])
    assert logged_rows(trainer)[-1]["rewards/listed/mean"] == 1.0
    assert {row["listed"] for row in parquet_rows(trainer.args.output_dir)} >= {1.0}


def test_p_nan_metric(train):
    plumbing("P-nan-metric")
    calls = []

    def now_and_then(completions, **kwargs):
        calls.append(len(calls))
        return [None if calls[-1] % 2 else 1.0] * len(completions)

    trainer = train([now_and_then, rewards.format_reward], max_steps=4, logging_steps=4)
    assert logged_rows(trainer)[0]["rewards/now_and_then/mean"] == 1.0


def test_p_gdpo_nan(train):
    plumbing("P-gdpo-nan")
    trainer = train(
        [returning(None, 1.0, 0.0), rewards.format_reward], multi_objective_aggregation="normalize_then_sum"
    )
    assert all(math.isfinite(row["advantage"]) for row in parquet_rows(trainer.args.output_dir))


def test_p_all_none_row(train, caplog):
    plumbing("P-all-none-row")
    trainer = train([returning(None, 1.0, 0.0, 1.0)])
    table = parquet_rows(trainer.args.output_dir)
    silent = [row["advantage"] for row in table if row["listed"] is None or math.isnan(row["listed"])]
    assert silent and set(silent) == {0.0} and any(row["advantage"] for row in table)


def test_p_mixed_return(train):
    plumbing("P-mixed-return")
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        train([returning(1.0, {"score": 1.0})])


def test_p_swallow(train):
    """Nothing of ours catches a bug in a reward, and TRL ends the training on it."""
    plumbing("P-swallow")

    def buggy(completions, **kwargs):
        return [completion + 1 for completion in completions]

    with pytest.raises(TypeError):
        train([rewards.with_length_penalty(buggy)])


def test_p_zero_std(train):
    plumbing("P-zero-std")
    row = logged_rows(train([returning(1.0)]))[0]
    assert row["frac_reward_zero_std"] == 1.0 and row["grad_norm"] == 0.0


def test_every_plumbing_case_has_its_test():
    source = Path(__file__).read_text(encoding="utf-8")
    missing = [case_id for case_id in reward_cases.PLUMBING if f'plumbing("{case_id}")' not in source]
    assert reward_cases.PLUMBING and not missing


def test_two_rewards_of_one_name_share_a_column(train):
    """Why our wrappers name themselves: TRL averages both into one metric and keeps one column, without a warning."""
    trainer = train([returning(1.0, name="same"), returning(3.0, name="same")])
    assert logged_rows(trainer)[0]["rewards/same/mean"] == 2.0
    assert len([column for column in parquet_rows(trainer.args.output_dir)[0] if column == "same"]) == 1


def test_of_two_rewards_that_log_one_column_the_later_is_seen(train):
    def logging_reward(value):
        def reward(completions, log_extra, **kwargs):
            log_extra("shared/reason", [value] * len(completions))
            return [1.0] * len(completions)

        reward.__name__ = value
        return reward

    table = parquet_rows(train([logging_reward("first"), logging_reward("second")]).args.output_dir)
    assert {row["shared/reason"] for row in table} == {"second"}


def test_a_column_overrules_what_a_partial_has_bound(train):
    """Why the sandbox is bound by a callable object."""
    seen = []

    def bound(completions, setting, **kwargs):
        seen.extend(setting)
        return [1.0] * len(completions)

    train(
        [functools.partial(bound, setting=["mine"])], [{**row, "setting": "theirs"} for row in rows(False)], max_steps=1
    )
    assert set(seen) == {"theirs"}


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    command = [sys.executable, "examples/tiny_model.py", "--prompts", "examples/prompts.jsonl", "--out", str(folder)]
    subprocess.run([*command, "--warm-up-steps", "10"], cwd=ROOT, check=True, capture_output=True)
    return folder


def trl_grpo(folder, model, *options):
    trl = Path(sys.executable).parent / "trl"
    command = [trl, "grpo", "--config", "examples/grpo.yaml", "--model_name_or_path", str(model), "--max_steps", "2",
               "--per_device_train_batch_size", "8", "--num_generations", "4", *options]  # fmt: skip
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_trl_grpo_from_the_repository_root(tiny_folder, tmp_path):
    trl_grpo(ROOT, tiny_folder, "--output_dir", str(tmp_path))
    table = parquet_rows(tmp_path)
    assert len(table) == 16
    assert {"format_reward", "correctness_reward", "concise"} <= set(table[0])
    assert [row["format_reward"] for row in table] == rewards.format_reward([row["completion"] for row in table])

    # The parquet TRL wrote can be scored again, and gives the same rewards.
    files = [str(path) for path in sorted((tmp_path / "completions").glob("*.parquet"))]
    command = [sys.executable, "scripts/rewards.py", "score", *files, "--dataset", "examples/prompts.jsonl", "--json",
               "--reward", "format_reward", "--reward", "scripts.rewards.correctness_reward"]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    scored = json.loads(done.stdout)
    assert [row["rewards"]["correctness_reward"] for row in scored["rows"]] == [
        row["correctness_reward"] for row in table
    ]
    assert scored["total"]["groups"] == 4


def test_trl_grpo_from_a_folder_with_a_copy(tiny_folder, tmp_path):
    (tmp_path / "examples").mkdir()
    for name in ("grpo.yaml", "prompts.jsonl"):
        shutil.copy(ROOT / "examples" / name, tmp_path / "examples")
    shutil.copy(ROOT / "scripts" / "rewards.py", tmp_path)
    trl_grpo(
        tmp_path,
        tiny_folder,
        "--output_dir",
        str(tmp_path / "out"),
        "--reward_funcs",
        "rewards.format_reward",
        "rewards.correctness_reward",
    )
    assert {"format_reward", "correctness_reward/reason"} <= set(parquet_rows(tmp_path / "out")[0])


def test_the_config_to_start_from_trains(tiny_folder, tmp_path):
    """The YAML of references/variants.md, LoRA lines included, as a reader would copy it; only the size is cut down."""
    text = (ROOT / "references/variants.md").read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    (tmp_path / "grpo.yaml").write_text(re.sub(r"^# (?=\w+:)", "", text, flags=re.MULTILINE), encoding="utf-8")
    shutil.copy(ROOT / "examples/prompts.jsonl", tmp_path)
    shutil.copy(ROOT / "scripts/rewards.py", tmp_path)
    command = [Path(sys.executable).parent / "trl", "grpo", "--config", "grpo.yaml", "--model_name_or_path", str(tiny_folder),
               "--max_steps", "1", "--gradient_accumulation_steps", "1", "--max_completion_length", "16",
               "--use_cpu", "true", "--bf16", "false", "--use_vllm", "false"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    table = parquet_rows(tmp_path / "runs/first")
    assert len(table) == 8 and {"format_reward", "correctness_reward"} <= set(table[0])
    assert json.loads((tmp_path / "runs/first/adapter_config.json").read_text())["lora_dropout"] == 0
    # The next step of SKILL.md's workflow: score what was sampled, and write it for a person to label.
    parquet = sorted(str(path) for path in (tmp_path / "runs/first/completions").glob("*.parquet"))
    command = [sys.executable, str(ROOT / "scripts/rewards.py"), "score", *parquet, "--dataset", "prompts.jsonl",
               "--reward", "format_reward", "--reward", "correctness_reward", "--write", "to_label.jsonl"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "to_label.jsonl").read_text().splitlines()) == 8
