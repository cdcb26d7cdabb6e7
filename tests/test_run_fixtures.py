"""The runs the log doctor is tested on: each has its files, was made by a case of benchmarks/make_runs.py, and one is
made again here, so that the maker and what it made cannot drift apart."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import pytest
import yaml
from docsync import ROOT

sys.path.append(str(ROOT / "benchmarks"))  # last: it has a sandbox.py and a rewards.py too
import make_runs

RUNS = ROOT / "tests/data/runs"
CASES = make_runs.cases()
REAL = [name for name, case in CASES.items() if not case.hand]


def record(name: str) -> dict:
    return json.loads((RUNS / name / "made_by.json").read_text(encoding="utf-8"))


def state(folder: Path) -> dict:
    """The newest trainer_state.json: beside the checkpoints if the run ended, else the last checkpoint's."""
    found = sorted(folder.rglob("trainer_state.json"), key=lambda path: len(path.parts))
    return json.loads(found[0].read_text(encoding="utf-8"))


def test_every_case_has_a_fixture_and_every_fixture_a_case():
    assert {path.name for path in RUNS.iterdir()} == set(CASES) and len(CASES) > 40


def test_all_fixtures_together_stay_small():
    sizes = {name: make_runs.size_of(RUNS / name) for name in CASES}
    assert sum(sizes.values()) < 1_900_000 and max(sizes.values()) < 150_000, sizes


@pytest.mark.parametrize("name", CASES)
def test_a_fixture_says_how_it_was_made(name):
    case, made = CASES[name], record(name)
    assert made["case"] == name and made["command"] == f"python benchmarks/make_runs.py --only {name}"
    assert made["versions"]["trl"] == version("trl") and made["provoked"] == case.provoked
    assert made["expected"] == {"first": case.first, "dead": list(case.dead), "waste": list(case.waste)}
    assert made["hand-made"] == (case.hand is not None) == case.provoked.startswith("hand-made")
    settings = yaml.safe_load((RUNS / name / "grpo.yaml").read_text(encoding="utf-8"))
    assert settings.items() >= case.settings.items() and settings["seed"] == made["seed"]
    for reward in settings["reward_funcs"]:
        assert callable(getattr(make_runs, reward.rpartition(".")[2])), reward


@pytest.mark.parametrize("name", REAL)
def test_a_real_run_holds_what_trl_writes(name):
    case, folder = CASES[name], RUNS / name
    files = sorted((folder / "completions").glob("*.parquet"))
    assert 1 <= len(files) <= case.keep
    history = state(folder)["log_history"]
    rows = [row for row in history if "reward" in row]
    if name == "zero-steps":
        return
    assert rows and {"grad_norm", "entropy", "frac_reward_zero_std", "completions/clipped_ratio"} <= set(rows[0])
    names = {reward.__name__ for reward in case.rewards}
    assert {f"rewards/{reward}/mean" for reward in names} <= set(rows[0]) or name == "several-runs"
    size = case.settings.get("num_generations", make_runs.SETTINGS["num_generations"])
    for path in files:
        table = pd.read_parquet(path)
        assert {"step", "prompt", "completion", "advantage"} <= set(table.columns) and len(table) % size == 0
        for start in range(0, len(table), size):  # the rows of a group share its prompt
            assert len({str(prompt) for prompt in table["prompt"][start : start + size]}) == 1


def shape(folder: Path) -> tuple:
    history = state(folder)["log_history"]
    tables = [pd.read_parquet(path) for path in sorted((folder / "completions").glob("*.parquet"))]
    return (
        [sorted(row) for row in history],
        [(path.name) for path in sorted((folder / "completions").iterdir())],
        [(list(table.columns), list(map(str, table.dtypes)), len(table)) for table in tables],
        (folder / "grpo.yaml").read_text(encoding="utf-8"),
        json.loads((folder / "made_by.json").read_text(encoding="utf-8"))["expected"],
    )


def test_a_run_made_again_has_the_same_keys_and_shape(tmp_path):
    with make_runs.quiet():
        make_runs.make(CASES["constant-reward"], tmp_path / "again")
    assert shape(tmp_path / "again") == shape(RUNS / "constant-reward")
    assert shape(tmp_path / "again") != shape(RUNS / "all-none")  # so that the comparison can fail


def test_a_log_by_hand_made_again_is_the_same(tmp_path):
    for name in set(CASES) - set(REAL):
        (tmp_path / name).mkdir()
        CASES[name].hand(tmp_path / name)
        written = (tmp_path / name / "trainer_state.json").read_text(encoding="utf-8")
        assert written == (RUNS / name / "trainer_state.json").read_text(encoding="utf-8")


def test_a_case_that_is_not_there_is_refused_with_the_choices():
    done = subprocess.run(
        [sys.executable, "benchmarks/make_runs.py", "--only", "helthy"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2 and "--only helthy: no such case; there are healthy, all-cut" in done.stderr


# ---- what each run must show, so that the doctor is tested on the failure it is said to be


def series(name: str, key: str) -> list[float]:
    return [row[key] for row in state(RUNS / name)["log_history"] if row.get(key) is not None]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def tables(name: str) -> list[pd.DataFrame]:
    return [pd.read_parquet(path) for path in sorted((RUNS / name / "completions").glob("*.parquet"))]


def dead_share(name: str) -> float:
    """Share of groups with one sum of rewards, from the completions."""
    size = CASES[name].settings.get("num_generations", make_runs.SETTINGS["num_generations"])
    groups = []
    for table in tables(name):
        rewards = table[[reward.__name__ for reward in CASES[name].rewards]].sum(axis=1)
        groups += [rewards[start : start + size].nunique() == 1 for start in range(0, len(table), size)]
    return mean(groups)


def test_the_healthy_run_is_healthy():
    rewards, entropy = series("healthy", "reward"), series("healthy", "entropy")
    assert mean(rewards[-10:]) > 1.15 * mean(rewards[:10])
    assert mean(series("healthy", "frac_reward_zero_std")) < 0.05 and dead_share("healthy") < 0.05
    assert max(series("healthy", "completions/clipped_ratio")) < 0.05 and min(series("healthy", "grad_norm")) > 0
    assert mean(entropy[-5:]) > 0.6 * mean(entropy[:5])
    for table in tables("healthy"):
        for start in range(0, len(table), 8):
            assert table["completion"][start : start + 8].nunique() > 4


def test_runs_without_a_gradient_have_none():
    for name in ("all-cut", "masked-away", "constant-reward", "prompt-only-reward", "gold-int", "gold-list",
                 "messages-as-text", "all-none", "batch-scaled-dead"):  # fmt: skip
        assert set(series(name, "grad_norm")) == {0.0}, name
    assert mean(series("all-cut", "completions/clipped_ratio")) > 0.95
    assert set(series("masked-away", "completions/clipped_ratio")) == {1.0}
    assert set(series("masked-away", "entropy")) == {0.0} and "inf" in {str(x) for x in series("inf-reward", "reward")}
    assert 0.4 < mean(series("half-cut", "completions/clipped_ratio")) < 1


def test_group_metrics_are_blind_where_the_completions_are_not():
    assert mean(series("dead-groups", "frac_reward_zero_std")) > 0.75 and dead_share("dead-groups") > 0.6
    for name in ("batch-scaled-dead", "normalised-one-live", "all-none"):
        assert set(series(name, "frac_reward_zero_std")) == {0.0}
    assert dead_share("batch-scaled-dead") == 1 == dead_share("prompt-only-reward")
    assert dead_share("normalised-one-live") > 0.7
    assert min(series("prompt-only-reward", "reward_std")) > 0.5


def test_rows_between_generations_hold_no_reward():
    assert len(series("off-policy", "reward")) == 10 and len(series("off-policy", "grad_norm")) == 40
    assert max(series("off-policy", "clip_ratio/region_mean")) > 0
    assert set(series("inert-settings", "clip_ratio/region_mean")) == {0.0}
    assert mean(series("clipping", "clip_ratio/region_mean")) > 0.3


def test_stability_runs_show_what_they_are_for():
    assert series("rate-too-high", "reward")[0] > 0.5 and max(series("rate-too-high", "reward")[2:]) == 0
    for name in ("rate-too-low", "bf16-weights"):
        rewards = series(name, "reward")
        assert len(rewards) == 40 and abs(mean(rewards[-20:]) - mean(rewards[:20])) < 0.05
        assert min(series(name, "grad_norm")) > 0.05
    assert series("dropout", "kl")[0] > 0.5
    for name in ("entropy-collapse", "entropy-collapse-off-policy"):
        assert mean(series(name, "entropy")[-5:]) < 0.2 * mean(series(name, "entropy")[:5])
        assert mean(series(name, "frac_reward_zero_std")[-5:]) >= 0.5, name
    assert max(series("entropy-collapse-off-policy", "clip_ratio/high_mean")) > 0
    assert min(series("cispo-weights", "cispo_clip_ratio")) > 0.3
    assert series("entropy-bonus-at-max", "entropy_coef")[-3:] == [0.01] * 3
    times = sorted(series("slow-reward", "step_time")[1:])
    assert times[-3] > 3 * times[len(times) // 2]


def test_rewards_are_exploited_while_the_run_lasts():
    signs = {"hack-blocks": "</answer><answer>", "hack-empty": "<answer></answer>", "hack-boilerplate": make_runs.BOILERPLATE,
             "hack-longer": "and count on and count on"}  # fmt: skip
    for name, sign in signs.items():
        first, *_, last = [mean([sign in text for text in table["completion"]]) for table in tables(name)]
        assert last > 0.5 and last > first + 0.15, (name, first, last)
    left = [mean([any(way.splitlines()[1] in text for way in make_runs.EXITS) for text in table["completion"]])
            for table in tables("hack-tests")]  # fmt: skip
    assert left[-1] > max(0.5, left[0] + 0.15)
    lengths, rewards = series("length-growth", "completions/mean_length"), series("length-growth", "reward")
    assert mean(lengths[-5:]) > 1.5 * mean(lengths[:3]) and abs(mean(rewards[-5:]) - mean(rewards[:5])) < 0.05
    held_out, rewards = series("held-out-falls", "eval_reward"), series("held-out-falls", "reward")
    assert held_out[-1] < held_out[0] - 0.1 and mean(rewards[-5:]) > mean(rewards[:5])


def test_the_folder_of_each_run_is_the_state_it_claims():
    assert [path.parent.name for path in (RUNS / "stopped").rglob("trainer_state.json")] == ["checkpoint-10"]
    assert (tables("stopped")[-1]["step"] == 14).all() and state(RUNS / "stopped")["max_steps"] == 40
    assert [row["step"] for row in state(RUNS / "resumed")["log_history"] if "reward" in row] == list(range(1, 21))
    assert state(RUNS / "zero-steps")["global_step"] == 0
    names = {tuple(table.columns) for table in tables("several-runs")}
    assert len(names) == 2 and state(RUNS / "several-runs")["global_step"] == 8
    summed, named = series("duplicate-names", "reward"), series("duplicate-names", "rewards/answer_reward/mean")
    assert summed == pytest.approx([2 * value for value in named])  # one column for the mean of both
