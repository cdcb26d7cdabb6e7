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

sys.path.insert(0, str(ROOT / "benchmarks"))
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
    assert sum(sizes.values()) < 1_800_000 and max(sizes.values()) < 150_000, sizes


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
