"""scripts/diagnose_run.py: real runs get their cause first, each threshold flips, what is broken is said.

The runs in tests/data/runs were made by TRL 1.16 (`made_by.json` says how); logs made by hand here are for the
thresholds, and for what a tiny model on a CPU cannot provoke.
"""

import contextlib
import csv
import io
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import diagnose_checks as c
import diagnose_run as d
import numpy as np
import preflight_config
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import variants

ROOT = Path(__file__).parents[1]
RUNS = sorted(path.parent for path in (ROOT / "tests/data/runs").glob("*/made_by.json"))
SCRIPT = ROOT / "scripts/diagnose_run.py"


# ---- real runs


@pytest.fixture(scope="module")
def diagnoses():
    return {path.name: d.diagnose(path) for path in RUNS}


def test_there_are_runs_to_look_at():
    assert {"healthy", "all-cut", "dead-groups", "constant-reward", "masked-away"} <= {path.name for path in RUNS}


@pytest.mark.parametrize("name", [path.name for path in RUNS])
def test_a_real_run_gets_its_cause_first(name, diagnoses):
    expected = json.loads((ROOT / "tests/data/runs" / name / "made_by.json").read_text())["expected"]
    found = diagnoses[name]["findings"]
    grave = {one["severity"]: set() for one in found}
    for one in found:
        grave[one["severity"]] |= {one["id"], *one["explains"]}
    first = found[0]["id"] if found and (found[0]["severity"] != "tell" or expected["first"]) else None
    assert first == expected["first"]
    assert set(expected["dead"]) <= grave.get("dead", set())
    assert set(expected["waste"]) <= grave.get("waste", set()) | grave.get("dead", set())
    if expected["first"] is None:
        assert not grave.get("dead") and not grave.get("waste") and diagnoses[name]["verdict"] == "ok"
    assert not [one for one in diagnoses[name]["not_measured"] if "failed itself" in one["why"]]


CAUSES = {  # the cause that made_by.json says was provoked, first among the causes
    "all-cut": "the limit is too small", "bf16-weights": "bf16 weights", "rate-too-low": "the rate is too low",
    "rate-too-high": "the learning rate is too high", "constant-reward": "the reward pays for everything",
    "gold-int": "the reward reads the wrong thing", "gold-list": "the reward reads the wrong thing",
    "messages-as-text": "the reward reads the list of messages", "cispo-weights": "epsilon_high is left out",
    "sampler-mismatch": "top_p", "sampler-mismatch-long": "long completions", "masked-away": "mask_truncated",
    "prompt-only-reward": "the reward does not look", "duplicate-names": "two functions with one",
    "length-growth": "the reward pays for length", "zero-steps": "fewer prompts", "clipping": "several optimizer steps",
    "dropout": "dropout", "slow-reward": "a reward hangs", "inert-settings": "training is on-policy",
}  # fmt: skip


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_that_was_provoked_stands_first(name, diagnoses):
    assert diagnoses[name]["findings"][0]["causes"][0]["cause"].startswith(CAUSES[name])


def test_one_fault_is_told_once(diagnoses):
    """Dead groups and a gradient of 0 follow from a constant reward: told inside it, not beside it."""
    (one,) = [one for one in diagnoses["constant-reward"]["findings"] if one["severity"] != "tell"]
    assert {"dead-groups", "no-gradient"} <= set(one["explains"])
    assert any("also seen (no-gradient)" in entry["text"] for entry in one["seen"])
    (cut,) = [one for one in diagnoses["all-cut"]["findings"] if one["severity"] != "tell"]
    assert {"constant-reward", "dead-groups", "no-gradient"} <= set(cut["explains"])
    assert cut["causes"][0] == {**cut["causes"][0], "cause": "the limit is too small", "confirmed": True}
    assert cut["fix"][0]["set"]["max_completion_length"] > 5


def test_the_record_has_its_keys_and_is_plain_json(diagnoses):
    for name, record in diagnoses.items():
        assert json.loads(json.dumps(record, allow_nan=False)) == record, name
        assert list(record) == ["schema_version", "created", "verdict", "run", "findings", "not_measured", "passed",
                                "notes", "curves"]  # fmt: skip
        assert all(len(points) <= 400 for points in record["curves"].values())
        said = [one["id"] for part in ("findings", "not_measured", "passed") for one in record[part]]
        said += [id for one in record["findings"] for id in one["explains"]]
        # Only a run of examples/sums.yaml is compared with its curves.
        assert set(said) == set(c.KINDS) - {"unlike-expected"}, f"{name}: a check said nothing"
        for one in record["findings"]:
            assert one["causes"] and one["fix"] and one["not"] and one["seen"] and one["steps"], (name, one["id"])


def test_a_blind_metric_is_not_believed(diagnoses):
    for name in ("batch-scaled-dead", "normalised-one-live"):
        if name in diagnoses:
            assert any("not believed" in note for note in diagnoses[name]["notes"]), name
            assert diagnoses[name]["curves"]["frac_reward_zero_std"][-1][1] == 0


def test_the_loss_is_never_a_signal():
    rows = log(40, loss=0.0)
    assert not raw(rows) and any("`loss` is 0" in note for note in c.notes(rows))
    assert not raw(log(40, loss=-3.0))


# ---- thresholds: each flips just below and just above


def config(**values) -> preflight_config.Settings:
    return preflight_config.Settings(Path("grpo.yaml"), "yaml", values)


def log(count=40, state="unknown", settings=None, info=None, **metrics) -> c.Run:
    """A healthy log in which these metrics are otherwise; None takes one away."""
    wave = np.tile([0.0, 0.01], count)[:count]
    base = {
        "reward": np.linspace(0.2, 0.8, count) + wave, "reward_std": 0.3, "frac_reward_zero_std": 0.1, "grad_norm": 0.5,
        "completions/clipped_ratio": 0.0, "completions/mean_length": 100.0, "completions/max_length": 150.0 + wave,
        "completions/mean_terminated_length": 100.0, "completions/max_terminated_length": 150.0, "entropy": 1.0,
        "learning_rate": 1e-6, "step_time": 1.0, "num_tokens": np.arange(count) * 1000.0 + 1000, "loss": 0.01,
        "clip_ratio/region_mean": 0.0, "rewards/r/mean": 0.5 + wave, "rewards/r/std": 0.3,
    }  # fmt: skip
    base |= metrics
    steps = np.arange(1.0, count + 1)
    run = c.Run(state=state, settings=settings)
    run.series = {name: c.Series(steps, np.broadcast_to(np.asarray(value, float), (count,)).copy())
                  for name, value in base.items() if value is not None}  # fmt: skip
    run.info = {"log_rows": count, "folder": "here", "logging_steps": 1, "nulls": True, **(info or {})}
    return run


def files(run: c.Run, *generations, size=4, weights=None, rewards=("r",)) -> c.Run:
    """Completions files: each generation is a list of rows (prompt, completion, rewards, advantage)."""
    for place, rows in enumerate(generations, 1):
        columns = {"prompt": [row[0] for row in rows], "completion": [row[1] for row in rows],
                   "advantage": [float(row[3]) for row in rows]}  # fmt: skip
        for index, name in enumerate(rewards):
            columns[name] = [row[2][index] for row in rows]
        run.batches.append(c.batch(place, columns, list(rewards), size, weights, f"completions_{place:05d}.parquet"))
    return run


def raw(run: c.Run) -> list[dict]:
    """All findings, before one explains another."""
    return [one for check in c.CHECKS for one in check.run(run) if "id" in one]


def end(value, count, ok, bad) -> np.ndarray:
    """`bad` in the last `value` rows."""
    return np.where(np.arange(count) >= count - value, bad, ok)


def shared(share: float, many=100) -> list:
    """Groups of 4 of which this share have one reward, the others two."""
    rows = []
    for group in range(many):
        dead = group < round(share * many)
        for place in range(4):
            reward = 0.37 if dead else float(place % 2)
            rows.append((f"p{group}", f"text {group} {place}", [reward], 0.0 if dead else place % 2 - 0.5))
    return rows


def prompt_only(share: float, many=100) -> list:
    """Groups with a reward of their own; the others hold two rewards."""
    rows = []
    for group in range(many):
        live = group >= round(share * many)
        rows += [(f"p{group}", f"text {group} {place}", [group / many + (place * 0.1 if live else 0)],
                  place - 1.5 if live else 0.0)
                 for place in range(4)]  # fmt: skip
    return rows


def copied(share: float, many=100, dead=False) -> list:
    return [(f"p{group}", "same" if place < 4 and group < round(share * many) else f"{group} {place}",
             [float((group if dead else place) % 2)], 0.0 if dead else place % 2 - 0.5)
            for group in range(many) for place in range(4)]  # fmt: skip


def unscored(share: float, many=400) -> list:
    return [(f"p{place // 4}", f"{place}", [None if place < round(share * many) else place % 2], place % 2 - 0.5)
            for place in range(many)]  # fmt: skip


def example():
    """The settings of examples/sums.yaml, whose curves are kept."""
    return preflight_config.read(ROOT / "examples/sums.yaml")


def lowest(steps: int) -> float:
    """Mean reward of the last five of these steps, of the lowest seed."""
    kept = json.loads((ROOT / "scripts/expected_curves.json").read_text())["curves"]["reward"]
    return min(sum(values[steps - 5 : steps]) / 5 for values in kept)


TEXT = {
    "many-answers": "<answer>4</answer><answer>5</answer>", "empty-blocks": "<think></think>", "repetition": "on and on " * 30,
    "copied-prompt": "", "boilerplate": "This line is long and says nothing at all.", "touches-tests": "sys.exit(0)",
}  # fmt: skip


def signed(share: float, sign="empty-blocks", many=100) -> list:
    """In each group one best-paid text; this share of them holds the sign."""
    rows = []
    for group in range(many):
        prompt = f"Prompt {group % 5}, longer than sixty characters, so that a copy can be seen and known as one?"
        text = prompt if sign == "copied-prompt" else f"{TEXT[sign]}\n{group}"
        best = text if group < round(share * many) else f"It is {group}."
        rows += [(prompt, best if not place else f"It is {group} {place}.", [float(not place)],
                  1.0 if not place else -0.3) for place in range(4)]  # fmt: skip
    return rows


def both(share: float, sign: str) -> list:
    """This share of the groups hold the sign in all their texts, best and worst alike."""
    rows = signed(share, sign)
    marked = {row[0] + str(n // 4): row[1] for n, row in enumerate(rows) if n % 4 == 0 and n // 4 < round(share * 100)}
    return [(row[0], marked.get(row[0] + str(n // 4), row[1]) + f" {n}", *row[2:]) for n, row in enumerate(rows)]


def named(*functions: str) -> preflight_config.Settings:
    settings = config(reward_funcs=list(functions))
    settings.rewards = list(functions)
    return settings


def two_rewards(share: float, many=20) -> list:
    """The first reward makes this share of the variance inside groups."""
    wide, narrow = math.sqrt(share), math.sqrt(1 - share)
    return [(f"p{group}", f"{group} {place}", [wide * (place % 2), narrow * (place // 2)], place % 2 - 0.5)
            for group in range(many) for place in range(4)]  # fmt: skip


def ties(share: float, many=100) -> list:
    rows = []
    for group in range(many):
        step = 0.001 if group < round(share * many) else 1.0
        rows += [(f"p{group}", f"{group} {place}", [step * (place % 2)], place % 2 - 0.5) for place in range(4)]
    return rows


def correlated(r: float) -> list:
    """Lengths and advantages inside groups that correlate by r."""
    x = np.array([1.0, 1.0, -1.0, -1.0]) * 50
    y = np.array([1.0, -1.0, 1.0, -1.0])
    gains = r * x / 50 + math.sqrt(1 - r * r) * y
    return [(f"p{group}", "a" * int(100 + x[place]), [float(gains[place])], float(gains[place]))
            for group in range(20) for place in range(4)]  # fmt: skip


def following(r: float, count=40) -> dict:
    """step_time and completions/max_length that correlate by r; the first step does not count."""
    x = np.tile([1.0, 1.0, -1.0, -1.0], count)[: count - 1]
    x -= x.mean()
    y = np.tile([1.0, -1.0], count)[: count - 1]
    y = y - y.mean() - x * (x @ (y - y.mean())) / (x @ x)
    time_ = r * x / x.std() + math.sqrt(1 - r * r) * y / y.std()
    return {"completions/max_length": np.r_[150, 150 + x], "step_time": np.r_[10, 10 + 0.1 * time_]}


def spiking(rows: int, count=60) -> dict:
    peaks = np.isin(np.arange(count), np.arange(10, 10 + rows))
    return {"grad_norm": np.where(peaks, 50, 0.5), "sampling/sampling_logp_difference/max": np.where(peaks, 9, 0.5),
            "sampling/sampling_logp_difference/mean": 0.01}  # fmt: skip


def falling(share: float, count=100) -> np.ndarray:
    """A metric that rises, and falls over the last share of the run."""
    return np.interp(np.arange(count), [0, count - 1 - share * (count - 1), count - 1], [0.1, 0.6, 0.0])


def first(run: c.Run) -> tuple[str, str, str]:
    """The verdict, the first finding and its severity."""
    record = c.examine(run)
    one = (record["findings"] or [{"id": "", "severity": ""}])[0]
    return record["verdict"], one["id"], one["severity"]


def later(run: c.Run, groups: list, begin: int, many=30) -> c.Run:
    """Files of the steps after the log's end."""
    files(run, *[groups] * many)
    for one, step in zip(run.batches, range(begin, begin + many)):
        one.step = step
    return run


def test_files_after_the_logs_end_count():
    """A state is written with a checkpoint only: what came after it stands in the completions."""
    dead = later(log(40, state="running"), prompt_only(1.0, 4), 41)
    assert dead.generations == 70 and first(dead)[::2] == ("dead", "dead")
    assert any("the log ends at step 40, 30 steps behind" in note for note in c.notes(dead))
    constant = c.examine(later(log(40, state="running"), shared(1.0, 4), 41))["findings"][0]
    assert constant["id"] == "constant-reward" and "last 30 of 70 rows and files" in constant["seen"][0]["text"]
    assert "dead-groups" in constant["explains"]
    live = later(log(40, state="running"), shared(0.0, 4), 41)
    assert first(live)[0] == "ok" and live.generations == 70


def test_advantages_win_over_rewards():
    """A weight of 0, or a column that is no reward: the groups differ in it, and every advantage is 0."""

    def rows(paid):
        return [(f"p{n // 4}", f"t{n}", [n % 2], (n % 2 - 0.5) * paid) for n in range(32)]

    record = c.examine(files(c.Run(), *[rows(0)] * 5))
    assert record["verdict"] == "dead" and record["findings"][0]["id"] == "dead-groups"
    assert record["findings"][0]["causes"][0]["cause"].startswith("what differs is paid nothing")
    assert first(files(c.Run(), *[rows(1)] * 5))[0] == "ok"
    run = files(log(frac_reward_zero_std=1.0), *[rows(0)] * 5)  # and the log is not called blind
    assert not any("not believed" in note for note in c.notes(run)) and first(run)[1] == "dead-groups"
    ten = files(log(frac_reward_zero_std=0.02, info={"logging_steps": 10}), *[rows(0)] * 5)
    assert first(ten)[:2] == ("dead", "dead-groups")
    assert first(files(log(frac_reward_zero_std=0.02, info={"logging_steps": 10}), *[rows(1)] * 5))[0] == "ok"


@pytest.mark.parametrize(("gain", "size", "groups", "dead"), [(0.0, None, 1, 1), (1.0, None, 1, 0), (None, None, 0, 0),
                                                               (0.0, 4, 8, 8)])  # fmt: skip
def test_one_prompt_is_no_group(gain, size, groups, dead):
    """One prompt for the whole file says nothing of the groups: a config does, or the advantages."""
    columns = {
        "prompt": ["play"] * 32,
        "completion": [f"{n}" for n in range(32)],
        "r": [float(n // 8 % 2) for n in range(32)],
    }
    if gain is not None:
        columns["advantage"] = [(n // 8 % 2 - 0.5) * gain for n in range(32)]
    made = c.batch(1, columns, ["r"], size)
    assert (made.groups, made.dead) == (groups, dead)
    split = [float(n % 8 < 1 + n // 8) for n in range(32)]  # four groups of 8, of four means
    gains = [value - (1 + n // 8) / 8 for n, value in enumerate(split)]
    made = c.batch(1, columns | {"r": split, "advantage": gains}, ["r"], None)
    assert made.groups == 4 and not made.dead


twice = np.tile([0.5, 0.501], 600)  # no trend
half_nan = np.where(np.arange(60) % 3, math.nan, 0.5)
FOUND = {  # what the doctor once called sound, and a sound twin
    "a falling reward": (log(60, reward=np.linspace(0.7, 0.1, 60)), "reward-falls", "waste",
                         log(60, reward=0.5 + np.tile([0.1, -0.1], 30) - np.linspace(0, 0.05, 60))),
    "rate 0": (log(learning_rate=0.0), "rate-zero", "dead", log(learning_rate=np.r_[0.0, 0.0, np.full(38, 1e-6)])),
    "NaN in two of three rows": (log(60, grad_norm=half_nan), "non-finite-gradient", "dead",
                                 log(60, grad_norm=np.where(np.arange(60) == 9, math.nan, 0.5))),
    "gradients of 0 in most rows": (log(60, grad_norm=np.where(np.arange(60) % 20, 0, 0.5)), "no-gradient", "dead",
                                    log(60, grad_norm=np.where(np.arange(60) % 4, 0.5, 0))),
    "a reward that scores nothing": (log(**{"rewards/a/mean": math.nan, "rewards/a/std": math.nan}), "silent-reward",
                                     "waste", log(**{"rewards/a/mean": np.where(np.arange(40) % 2, math.nan, 0.5),
                                                     "rewards/a/std": 0.1})),
    "a default": (log(**{"rewards/a/mean": 1.0, "rewards/a/std": 0.0}), "silent-reward", "tell",
                  log(**{"rewards/a/mean": np.linspace(0, 1, 40).clip(0, 0.6) / 0.6,
                         "rewards/a/std": end(16, 40, 0.3, 0.0)})),
    "kl NaN": (log(kl=math.nan), "not-a-number", "tell", log(kl=0.0)),
    "no trend in a thousand": (log(1200, reward=twice), "not-moving", "waste", log(1200)),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_what_was_missed_is_found_and_its_twin_is_sound(name):
    run, id, severity, sound = FOUND[name]
    assert first(run)[1:] == (id, severity)
    assert first(sound) == ("ok", "", "")


MILD = {  # what the doctor once condemned
    "a penalty that is never due": log(**{"rewards/overlong/mean": 0.0, "rewards/overlong/std": 0.0}),
    "solved in part": log(state="finished", frac_reward_zero_std=0.1, reward=np.linspace(0.5, 1.0, 40)),
    "clipping per sequence or token": log(**{"clip_ratio/region_mean": 0.45}),
    "a weight of 2": log(reward=np.linspace(0.2, 0.8, 40), **{"rewards/r/mean": np.linspace(0.1, 0.4, 40)}),
    "bf16, 25 noisy rows": log(25, reward=twice[:25], learning_rate=1e-6, settings=config(dtype="bfloat16")),
    "right answers share a phrase": files(log(**{"rewards/r/mean": None, "rewards/r/std": None,
                                                 "rewards/accuracy/mean": np.linspace(0.2, 0.8, 40),
                                                 "rewards/accuracy/std": 0.4}),
                                          *[signed(0.6, "boilerplate")] * 3, rewards=("accuracy",)),
}  # fmt: skip


@pytest.mark.parametrize("name", MILD)
def test_what_is_no_fault_is_a_tell_at_most(name):
    assert first(MILD[name])[0] == "ok"


def test_a_fall_within_the_noise_is_no_held_out_fall():
    run = log(60, reward=np.linspace(0.2, 0.8, 60))
    run.series["eval_reward"] = c.Series(np.arange(12.0, 61, 12), np.array([0.60, 0.62, 0.61, 0.605, 0.604]))
    assert not [one for one in raw(run) if one["id"] == "held-out-falls"]
    run.series["eval_reward"].values[2:] = 0.5, 0.42, 0.3
    assert [one for one in raw(run) if one["id"] == "held-out-falls"]


def test_solved_prompts_are_no_dead_run():
    run = log(frac_reward_zero_std=0.88, reward=np.linspace(0.1, 0.98, 40), grad_norm=end(3, 40, 0.5, 0.0))
    record = c.examine(run)
    assert (record["verdict"], record["findings"][0]["causes"][0]["cause"]) == ("waste", "the prompts are solved")
    assert first(log(frac_reward_zero_std=0.88, reward=np.linspace(0.1, 0.3, 40)))[:2] == ("dead", "dead-groups")


def test_few_groups_are_not_dead_yet():
    assert first(log(5, frac_reward_zero_std=1.0, grad_norm=0.0, reward=0.1))[0] == "waste"
    assert first(files(log(5, frac_reward_zero_std=1.0, reward=0.1), *[prompt_only(1.0, 8)] * 5))[0] == "dead"


def test_ok_needs_groups_and_a_reward_or_gradient():
    assert first(log())[0] == "ok" and first(log(reward=None, **{"rewards/r/mean": None}))[0] == "ok"
    assert first(log(frac_reward_zero_std=None))[0] == "not measured"
    assert first(log(frac_reward_zero_std=None, reward=None, grad_norm=None))[0] == "not measured"


def test_files_of_evaluations_alone_are_not_measured(tmp_path):
    rows = [row for n in range(1, 41) for row in (ROWS[n - 1], {"step": n, "eval_reward": 0.2})]
    (tmp_path / "trainer_state.json").write_text(state(rows), encoding="utf-8")
    for step in range(1, 6):
        generation(step, folder=tmp_path / "completions")
    record = d.diagnose(tmp_path)
    assert not record["run"]["parquet_files"]
    said = {one["id"]: one["why"] for one in record["not_measured"]}
    assert "all 5 completions files hold an evaluation's rows" in said["prompt-only-reward"]


def test_a_falling_held_out_reward_names_the_gaming_it_saw():
    run = files(evaluated(0.6), *[signed(0.6)] * 3)
    one = next(one for one in raw(run) if one["id"] == "held-out-falls")
    assert one["causes"][0]["cause"] == "the reward is gamed" and one["causes"][0]["confirmed"]
    assert "an empty block" in one["causes"][0]["evidence"]


def evaluated(share: float) -> c.Run:
    run = log(101, reward=np.linspace(0.1, 0.9, 101))
    peak = 101 - share * 100
    run.series["eval_reward"] = c.Series(np.array([1.0, peak, 101.0]), np.array([0.3, 0.6, 0.2]))
    return run


def part(share: float) -> c.Run:
    other = np.interp(np.arange(1, 102), [1, 101 - share * 100, 101], [0.9, 0.9, 0.1])
    return log(101, reward=np.linspace(0.1, 2.0, 101),
               **{"rewards/a/mean": np.linspace(0, 1, 101), "rewards/a/std": 0.3, "rewards/b/mean": other,
                  "rewards/b/std": 0.3})  # fmt: skip


def ended(done: float) -> c.Run:
    return log(40, "stopped", info={"global_step": 1000 * done, "max_steps": 1000})


VLLM = {"sampling/sampling_logp_difference/mean": 0.01, "sampling/sampling_logp_difference/max": 0.1}
RATIO = "sampling/importance_sampling_ratio/mean"
half = {"frac_reward_zero_std": np.linspace(0.1, 0.9, 40)}


def before(share: float, ok, bad) -> np.ndarray:
    """`bad` in this share of 100 rows, the last row apart."""
    place = np.arange(100)
    return np.where((place >= 99 - round(share * 100)) & (place < 99), bad, ok)


def fallen(errors: float) -> np.ndarray:
    """60 rewards whose last third lies below the first by so many standard errors."""
    return 0.5 + np.tile([1.0, -1.0], 30) - np.r_[np.zeros(40), np.full(20, errors * math.sqrt(2 / 19))]


BUILD = {
    "non-finite-gradient-share": lambda v: log(100, grad_norm=before(v, 0.5, math.nan)),
    "non-finite-gradient-some": lambda v: log(100, grad_norm=before(v, 0.5, math.nan)),
    "not-a-number": lambda v: log(int(v), entropy=math.nan),
    "kl-infinite": lambda v: log(kl=end(v, 40, 0.01, math.inf)),
    "rate-zero": lambda v: log(int(v), learning_rate=0.0),
    "constant-reward-files": lambda v: files(c.Run(), *[shared(1.0, many) for many in (5, 5, int(v) - 10)]),
    "unscored-reward": lambda v: log(int(v), **{"rewards/a/mean": math.nan, "rewards/a/std": math.nan}),
    "silent-from-the-start": lambda v: log(int(v), **{"rewards/a/mean": 0.5, "rewards/a/std": 0.0}),
    "dead-groups-solved": lambda v: log(frac_reward_zero_std=v, reward=np.linspace(0.1, 1, 40)),
    "dead-groups-few": lambda v: log(int(v), frac_reward_zero_std=1.0),
    "no-gradient-share": lambda v: log(100, grad_norm=before(v, 0.5, 0.0)),
    "no-gradient-some": lambda v: log(100, grad_norm=before(v, 0.5, 0.0)),
    "not-moving-long": lambda v: log(int(v), reward=twice[: int(v)]),
    "not-moving-bf16": lambda v: log(int(v), reward=twice[: int(v)], learning_rate=2e-6,
                                     settings=config(dtype="bfloat16")),
    "reward-falls": lambda v: log(60, reward=fallen(v)),
    "no-steps": lambda v: log(max(int(v), 1), "finished", info={"log_rows": int(v)}),
    "ended-early": ended,
    "non-finite-gradient": lambda v: log(40, grad_norm=end(v, 40, 0.5, math.nan)),
    "non-finite-reward": lambda v: log(40, reward=end(v, 40, 0.5, math.inf)),
    "non-finite-reward-dead": lambda v: log(100, reward=end(v * 100, 100, 0.5, math.inf)),
    "all-none": lambda v: files(log(reward=None), *[unscored(v)] * 5),
    "some-none": lambda v: files(log(reward=None), *[unscored(v)] * 5),
    "masked-away-dead": lambda v: log(settings=config(mask_truncated_completions=True),
                                      **{"completions/clipped_ratio": 1 - v}),
    "masked-away": lambda v: log(settings=config(mask_truncated_completions=True),
                                 **{"completions/clipped_ratio": 1 - v}),
    "all-cut-dead": lambda v: log(frac_reward_zero_std=0.9, **{"completions/clipped_ratio": v}),
    "all-cut": lambda v: log(**{"completions/clipped_ratio": v}),
    "cut-answers-waste": lambda v: log(**{"completions/clipped_ratio": v}),
    "cut-answers": lambda v: log(**{"completions/clipped_ratio": v}),
    "constant-reward": lambda v: log(reward=end(v, 40, 0.5, 0.0), reward_std=end(v, 40, 0.3, 0.0)),
    "reward-won": lambda v: log(reward=end(v, 40, np.linspace(0.1, 0.8, 40), 0.9), reward_std=end(v, 40, 0.3, 0.0)),
    "silent-reward": lambda v: log(**{"rewards/a/mean": end(v, 40, 0.5, 0.0), "rewards/a/std": end(v, 40, 0.3, 0.0)}),
    "prompt-only-reward": lambda v: files(log(frac_reward_zero_std=None), *[prompt_only(v)] * 3),
    "duplicate-completions": lambda v: files(log(), *[copied(v)] * 3),
    "duplicate-completions-waste": lambda v: files(log(frac_reward_zero_std=None), *[copied(v, dead=True)] * 3),
    "unlike-expected": lambda v: log(20, reward=lowest(20) - v, settings=example()),
    "dead-groups": lambda v: log(frac_reward_zero_std=v),
    "dead-groups-waste": lambda v: files(log(frac_reward_zero_std=None), *[shared(v)] * 3),
    "no-gradient": lambda v: log(grad_norm=end(v, 40, 0.5, 0.0)),
    "sampler-dead": lambda v: log(**{RATIO: v}, **VLLM),
    "sampler-low": lambda v: log(**{RATIO: v}, **VLLM),
    "sampler-high": lambda v: log(**{RATIO: v}, **VLLM),
    "sampler-long": lambda v: log(settings=config(use_vllm=True),
                                  **{RATIO: 0.3, "completions/mean_length": v}, **VLLM),
    "sampler-drift-waste": lambda v: log(**{"sampling/sampling_logp_difference/mean": v}),
    "sampler-drift": lambda v: log(**{"sampling/sampling_logp_difference/mean": v}),
    "expert-mismatch": lambda v: log(60, **spiking(int(v))),
    "cispo-epsilon-high": lambda v: log(cispo_clip_ratio=v),
    "kl-at-start-waste": lambda v: log(kl=np.r_[v, [0.01] * 39]),
    "kl-at-start": lambda v: log(kl=np.r_[v, [0.01] * 39]),
    "kl-level": lambda v: log(kl=np.r_[[0.0] * 20, [v] * 20]),
    "kl-growth": lambda v: log(kl=np.r_[[0.05] * 20, [0.05 * v] * 20]),
    "entropy-collapse": lambda v: log(entropy=np.r_[[0.3] * 20, [v] * 20], **half),
    "entropy-drop": lambda v: log(entropy=np.r_[[2.0] * 20, [2 * (1 - v)] * 20], **half),
    "entropy-off-policy": lambda v: log(settings=config(num_iterations=4), entropy=np.r_[[0.3] * 20, [0.01] * 20],
                                        **{"clip_ratio/high_mean": v}, **half),
    "entropy-rise": lambda v: log(entropy=np.r_[[1.0] * 20, [v] * 20]),
    "clipping": lambda v: log(settings=config(loss_type="dapo"), **{"clip_ratio/region_mean": v}),
    "clipping-long": lambda v: log(**{"clip_ratio/region_mean": 0.5, "completions/mean_length": v}),
    "inert-settings": lambda v: log(settings=config(epsilon_high=0.28),
                                    **{"clip_ratio/region_mean": end(v, 40, 0.1, 0.0)}),
    "length-growth": lambda v: log(reward=twice[:40], **{"completions/mean_length": np.r_[[100.0] * 20, [100 * v] * 20]}),
    "length-bias": lambda v: files(log(), *[correlated(v)] * 3),
    "held-out-falls": evaluated,
    "part-falls": part,
    **{name: lambda v, name=name: files(log(), *[signed(v, name)] * 3) for name in c.SIGNS},
    **{f"{name}-grown": lambda v, name=name: files(log(), signed(0, name), both(v, name)) for name in c._SIGNS},
    "touches-tests-waste": lambda v: files(log(), *[signed(v, "touches-tests")] * 3),
    "several-runs": lambda v: log(info={"restarts": [1.0] * int(v)}),
    "duplicate-names": lambda v: log(settings=named("a.right", *["b.right"] * int(v))),
    "stalls-waste": lambda v: log(101, step_time=np.r_[1.0, np.where(np.arange(100) >= 98, 49 * v / (1 - v), 1.0)]),
    "reward-dominance": lambda v: files(log(**{"rewards/r/mean": None, "rewards/r/std": None}), *[two_rewards(v)] * 3,
                                        rewards=("a", "b")),
    "tiny-differences": lambda v: files(log(), *[ties(v)] * 3),
    "not-moving": lambda v: log(int(v), reward=twice[: int(v)]),
    "not-moving-rate": lambda v: log(int(v), reward=twice[: int(v)], learning_rate=1e-8),
    "rate-low": lambda v: log(50, reward=twice[:50], learning_rate=v),
    "rate-low-lora": lambda v: log(50, reward=twice[:50], learning_rate=v, settings=config(use_peft=True)),
    "rate-low-bf16": lambda v: log(50, reward=twice[:50], learning_rate=v, settings=config(dtype="bfloat16")),
    "policy-collapse": lambda v: log(40, reward=end(v, 40, 0.5, 0.0), reward_std=end(v, 40, 0.3, 0.0),
                                   entropy=end(10, 40, 1.0, 0.01)),
    "rate-high": lambda v: log(40, reward=end(20, 40, 0.5, 0.0), reward_std=end(20, 40, 0.3, 0.0),
                               entropy=end(20, 40, 1.0, 0.01), learning_rate=v),
    "grad-spikes": lambda v: log(40, grad_norm=np.where(np.arange(40) == 20, 0.5 * v, 0.5)),
    "entropy-coef-at-max": lambda v: log(entropy_coef=end(v, 40, 0.5, 1.0)),
    "tool-failures": lambda v: log(**{"tools/failure_frequency": v}),
    "aux-loss": lambda v: log(aux_loss=np.r_[[0.1] * 20, [0.1 * v] * 20]),
    "stalls": lambda v: log(101, step_time=np.r_[1.0, np.where(np.arange(100) >= 94, v, 1.0)]),
    "slow-generation": lambda v: log(**following(v)),
    "throughput-drop": lambda v: log(step_time=np.r_[[1.0] * 20, [1 / v] * 20]),
    "columns-differ": lambda v: files(log(**{f"rewards/lost{n}/mean": 0.5 + twice[:40] for n in range(int(v))}),
                                      *[shared(0.0)] * 3),
}  # fmt: skip
WHOLE = ("rows", "generations", "names", "groups")
MARKED = {  # thresholds that change a finding instead of making one
    "sampler-long": lambda found: any(one["id"] == "sampler-mismatch-long" for one in found),
    "clipping-long": lambda found: any(one["id"] == "clipping-long" for one in found),
    "rate-low": lambda found: any(one["id"] == "not-moving" and one["severity"] == "waste" for one in found),
    "rate-low-lora": lambda found: any(one["id"] == "not-moving" and one["severity"] == "waste" for one in found),
    "rate-low-bf16": lambda found: any(one["id"] == "not-moving" and one["severity"] == "waste" for one in found),
    "rate-high": lambda found: any(one["id"] == "policy-collapse" and one["causes"][0]["confirmed"] for one in found),
}


def sees(key: str, run: c.Run) -> bool:
    found = raw(run)
    if key in MARKED:
        return MARKED[key](found)
    threshold = c.BY_KEY[key]
    return any(one["id"] == threshold.finding and one["threshold"]["text"] == threshold.text()
               and one["severity"] == threshold.severity for one in found)  # fmt: skip


def edges(threshold: c.Threshold) -> tuple[float, float]:
    """A value that just passes and one that just fails."""
    if threshold.value == 0:
        return 0.0, 0.01
    step = 1 if threshold.unit in WHOLE else 0.01 if threshold.value <= 1 and threshold.unit in ("", "times") else None
    step = step or abs(threshold.value) * 0.02
    step = min(step, threshold.value / 2) if threshold.unit not in WHOLE else step
    below, above = threshold.value - step, threshold.value + step
    return {"above": (below, above), "at least": (below, above if threshold.unit not in WHOLE else threshold.value),
            "below": (above if threshold.unit not in WHOLE else threshold.value, below)}[threshold.fails]  # fmt: skip


@pytest.mark.parametrize("key", [one.key for one in c.THRESHOLDS])
def test_a_threshold_flips(key):
    assert key in BUILD, f"{key} has no values just below and just above"
    passes, fails = edges(c.BY_KEY[key])
    assert not sees(key, BUILD[key](passes)), f"{key} fails at {passes}"
    assert sees(key, BUILD[key](fails)), f"{key} does not fail at {fails}"


def test_the_numbers_are_those_of_their_sources():
    """What a source or a run gave; the others are judgement and say so."""
    published = {
        "no-gradient": 3, "dead-groups": 0.8, "dead-groups-waste": 0.5, "all-cut": 0.5, "all-cut-dead": 0.5,
        "cut-answers-waste": 0.2, "masked-away": 0.3, "constant-reward": 10, "sampler-low": 0.5, "sampler-high": 2.0,
        "sampler-drift": 0.036, "sampler-drift-waste": 0.11, "kl-at-start-waste": 0.5, "kl-level": 1.0, "kl-growth": 10,
        "entropy-collapse": 0.1, "entropy-drop": 0.8, "entropy-rise": 2.0, "clipping": 0.3, "cispo-epsilon-high": 0.3,
        "length-bias": 0.5, "grad-spikes": 10, "duplicate-completions": 0.5, "reward-dominance": 0.95,
        "held-out-falls": 0.3, "part-falls": 0.3, "stalls": 3, "tool-failures": 0.5, "throughput-drop": 0.5,
    }  # fmt: skip
    assert {key: c.BY_KEY[key].value for key in published} == published
    assert all(one.source for one in c.THRESHOLDS)


def test_every_finding_has_a_threshold_and_a_check():
    assert {one.finding for one in c.THRESHOLDS} == set(c.KINDS)
    assert {id for check in c.CHECKS for id in check.ids} == set(c.KINDS)
    assert len({one.key for one in c.THRESHOLDS}) == len(c.THRESHOLDS) == len(BUILD)
    assert {one for kind in c.KINDS.values() for one in kind.explains} <= set(c.KINDS)


def test_a_removed_check_is_noticed(monkeypatch, tmp_path):
    """The lists above would fail: shown by taking one out."""
    monkeypatch.setattr(c, "CHECKS", [one for one in c.CHECKS if "dead-groups" not in one.ids])
    with pytest.raises(AssertionError):
        test_every_finding_has_a_threshold_and_a_check()
    with pytest.raises(AssertionError):
        test_a_threshold_flips("dead-groups")


def test_a_healthy_log_has_no_finding():
    assert raw(log(200, settings=config(use_vllm=False))) == []


def test_a_check_that_breaks_is_not_measured(monkeypatch):
    def broken(run):
        raise RuntimeError("no")

    monkeypatch.setattr(c, "CHECKS", [c.Check(("all-cut",), broken)])
    assert c.examine(log())["not_measured"][0] == {
        "id": "all-cut", "why": "this check failed itself: RuntimeError: no", "mend": "report it"
    }  # fmt: skip


def test_eight_rewards_of_six_tenths_are_constant_whatever_the_log_says():
    """TRL's float32 std of them is 6e-8: `frac_reward_zero_std` says 0 and the gradient is not exactly 0."""
    torch = pytest.importorskip("torch")
    rewards = torch.full((1, 8), 0.6)
    std = float(torch.std(rewards))
    assert not torch.isclose(torch.tensor(std), torch.tensor(0.0)) and std > 0
    run = log(reward=0.6, reward_std=std, frac_reward_zero_std=0.0, grad_norm=1e-4)
    assert c.examine(run)["findings"][0]["id"] == "constant-reward"
    dead = [(f"p{n // 8}", f"{n}", [0.6 if n < 56 else n % 2], 5.96e-4) for n in range(64)]
    record = c.examine(files(log(frac_reward_zero_std=0.0), *[dead] * 4, size=8))
    assert record["findings"][0]["id"] == "dead-groups" and any("not believed" in note for note in record["notes"])


# ---- when: whole run, start, now


def test_a_finding_that_healed_is_milder_and_says_so():
    healed = [
        one for one in raw(log(60, frac_reward_zero_std=np.r_[[0.95] * 20, [0.1] * 40])) if one["id"] == "dead-groups"
    ]
    assert healed[0]["severity"] == "tell" and "healed since step 21" in healed[0]["seen"][0]["text"]
    late = [
        one for one in raw(log(60, frac_reward_zero_std=np.r_[[0.1] * 40, [0.95] * 20])) if one["id"] == "dead-groups"
    ]
    assert late[0]["severity"] == "dead" and "since step 41" in late[0]["seen"][0]["text"]


def test_causes_are_told_apart_by_the_users_own_texts():
    def causes(text, **metrics):
        rows = [(f"p{n // 4}", f"{text} {n}", [0.0], 0.0) for n in range(16)]
        run = files(log(reward=0.0, reward_std=0.0, frac_reward_zero_std=1.0,
                        **{"completions/clipped_ratio": 1.0, "completions/mean_terminated_length": 0.0,
                           "completions/max_terminated_length": 0.0} | metrics), *[rows] * 3)  # fmt: skip
        return next(one for one in c.examine(run)["findings"] if one["id"] == "all-cut")["causes"]

    assert causes("so the sum of the two is")[0]["cause"] == "the limit is too small"
    assert causes("<answer>4</answer>\nuser\nWhat is 5 + 5? 10 and then")[0]["cause"].startswith("the end token")
    assert causes("on and on and on it goes " * 20)[0]["cause"] == "the model repeats itself"


def test_weights_go_with_the_order_of_the_functions_not_of_the_log():
    """trainer_state.json is sorted by name; reward_weights and the columns of the completions are not."""
    metrics = {"rewards/r/mean": None, "rewards/r/std": None, "rewards/a/mean": 0.5 + twice[:40], "rewards/a/std": 1.0,
               "rewards/z/mean": 0.5 + twice[:40], "rewards/z/std": 1.0}  # fmt: skip
    settings = named("m.z", "m.a")
    settings.values["reward_weights"] = [10.0, 1.0]
    one = next(one for one in raw(log(settings=settings, **metrics)) if one["id"] == "reward-dominance")
    assert "z makes 99.0%" in one["seen"][0]["text"] and one["fix"][0]["set"] == {"reward_weights": [0.1, 1.0]}
    run = files(log(settings=settings, **metrics), *[two_rewards(0.99)] * 3, rewards=("z", "a"))
    one = next(one for one in raw(run) if one["id"] == "reward-dominance")
    assert run.rewards == ["z", "a"] and one["fix"][0]["set"]["reward_weights"][1] == 1.0
    assert not [one for one in raw(log(**metrics)) if one["id"] == "reward-dominance"]


def test_a_gold_in_the_text_confirms_a_misreading_reward():
    columns = {"prompt": ["p"] * 4, "completion": [f"It is 42, {n}." for n in range(4)], "r": [0.0] * 4,
               "advantage": [0.0] * 4, "gold": [42] * 4}  # fmt: skip
    run = log(reward=0.0, reward_std=0.0)
    run.batches = [c.batch(n, columns, ["r"], 4) for n in range(3)]
    one = next(one for one in raw(run) if one["id"] == "constant-reward")
    assert one["causes"][0]["confirmed"] and "12 of 12" in one["causes"][0]["evidence"]


def test_signs_name_their_rows():
    for sign in c.SIGNS:
        one = next(one for one in raw(files(log(), *[signed(0.6, sign)] * 3)) if one["id"] == sign)
        assert one["rows"] and all(row["why"] == c.SIGNS[sign] and row["advantage"] > 0 for row in one["rows"])


# ---- the failure table, both ways


def test_findings_and_the_failure_table_point_at_each_other():
    failures = variants.failures()
    for id, failure in failures.items():
        assert c.KINDS[id].failure == id, f"{id}: no finding of this name points to it"
        made = c.finding(id, next(one.key for one in c.THRESHOLDS if one.finding in (id, failure.same_as)), [
            c.told("x", "x")], [], [])  # fmt: skip
        assert made["variant"] in failure.tries and made["variant"] in variants.variants()
    for id, kind in c.KINDS.items():
        assert kind.failure in (None, id) and (kind.failure is None or id in failures)


def test_the_same_limits_as_the_failure_table():
    """The table says 0.5, 0.1, 0.3, 0.2 in its text; these are the numbers here."""
    log_of = {id: failure.log + failure.needs for id, failure in variants.failures().items()}
    for key, finding_ in (("dead-groups-waste", "dead-groups"), ("entropy-collapse", "entropy-collapse"),
                          ("clipping", "clipping"), ("sampler-low", "sampler-mismatch"),
                          ("cut-answers-waste", "cut-answers")):  # fmt: skip
        assert f"{c.BY_KEY[key].value:g}" in log_of[finding_], key


# ---- reading


ROWS = [{"step": n, "reward": 0.1 + n / 100, "reward_std": 0.3, "frac_reward_zero_std": 0.1, "grad_norm": 0.5,
         "loss": 0.0, "entropy": 1.0, "completions/clipped_ratio": 0.0, "completions/mean_length": 100.0 + n % 3}
        for n in range(1, 41)]  # fmt: skip


def state(rows=ROWS, **more) -> str:
    return json.dumps(
        {"global_step": rows[-1]["step"], "log_history": rows, "max_steps": 40, "logging_steps": 1, **more}
    )


def as_csv(rows, name) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([name(key) for key in rows[0]])
    writer.writerows([list(row.values()) for row in rows])
    return out.getvalue()


FORMS = {
    "trainer_state.json": state(),
    "log_history.json": json.dumps(ROWS),
    "log.jsonl": "\n".join(json.dumps(row) for row in ROWS),
    "wandb.csv": as_csv(ROWS, lambda key: "_step" if key == "step" else f"train/{key}"),
    "panel.csv": as_csv(ROWS, lambda key: "Step" if key == "step" else f"run 7 - train/{key}"),
    "trackio.jsonl": "\n".join(json.dumps({"step": row["step"], **{f"train/{key}": value for key, value in row.items()
                                                                  if key != "step"}}) for row in ROWS),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_log_is_read_alike(name, tmp_path):
    path = tmp_path / name
    path.write_text(FORMS[name], encoding="utf-8")
    record = d.diagnose(path)
    assert record["run"]["rows"] == 40 and record["run"]["problems"] == []
    assert record["curves"]["reward"][-1] == [40, 0.5]
    assert record["verdict"] == "ok" and record["run"]["steps"] == 40


def test_null_nan_infinity_and_strings(tmp_path):
    rows = [dict(row) for row in ROWS]
    rows[3]["reward"], rows[4]["entropy"], rows[5]["grad_norm"] = None, math.nan, "0.5"
    rows[6]["grad_norm"], rows[7]["note"] = "NaN", "a word"
    path = tmp_path / "trainer_state.json"
    path.write_text(state(rows), encoding="utf-8")
    record = d.diagnose(path)
    assert record["run"]["problems"] == ["1 values are no numbers and were left out"]
    assert record["verdict"] == "ok"
    rows[8]["reward"] = math.inf
    path.write_text(state(rows), encoding="utf-8")
    assert d.diagnose(path)["findings"][0]["id"] == "non-finite-reward"


def test_an_empty_cell_of_an_export_is_no_null_reward_unless_something_was_generated(tmp_path):
    rows = [{"_step": n, "train/loss": 0.0, "train/grad_norm": 0.5, "train/reward": None,
             "train/completions/mean_length": 9.0 if n % 2 else None} for n in range(20)]  # fmt: skip
    path = tmp_path / "h.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    record = d.diagnose(path)
    assert record["findings"][0]["id"] == "all-none" and record["run"]["generations"] == 10
    for row in rows:
        row["train/completions/mean_length"] = None
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert d.diagnose(path)["run"]["generations"] == 0


def test_eval_and_summary_rows_are_not_generations(tmp_path):
    rows = [
        *ROWS[:20],
        {"step": 20, "eval_reward": 0.4},
        *ROWS[20:],
        {"step": 40, "train_runtime": 9.0, "train_loss": 0},
    ]
    path = tmp_path / "trainer_state.json"
    path.write_text(state(rows), encoding="utf-8")
    record = d.diagnose(path)
    assert record["run"]["rows"] == 40 and record["run"]["state"] == "finished" and record["verdict"] == "ok"
    assert record["curves"]["eval_reward"] == [[20, 0.4]]


def test_rows_between_generations_are_normal(tmp_path):
    rows = [row if n % 4 == 0 else {"step": row["step"], "loss": 0.0, "grad_norm": 0.5} for n, row in enumerate(ROWS)]
    (tmp_path / "h.json").write_text(json.dumps(rows), encoding="utf-8")
    record = d.diagnose(tmp_path / "h.json")
    assert record["verdict"] == "ok" and any("between generations" in note for note in record["notes"])


def test_several_runs_in_one_log_the_last_counts(tmp_path):
    bad = [{**row, "frac_reward_zero_std": 1.0, "grad_norm": 0.0} for row in ROWS]
    (tmp_path / "h.json").write_text(json.dumps([*bad, *ROWS[:20]]), encoding="utf-8")
    record = d.diagnose(tmp_path / "h.json")
    assert record["run"]["steps"] == 20 and record["verdict"] == "ok"
    assert (
        record["findings"][0]["id"] == "several-runs" and "begin again at 1" in record["findings"][0]["seen"][0]["text"]
    )


def test_a_truncated_state_gives_the_rows_that_parse(tmp_path):
    text = json.dumps(json.loads(state()), indent=2)
    path = tmp_path / "trainer_state.json"
    path.write_text(text[: int(len(text) * 0.6)], encoding="utf-8")
    record = d.diagnose(path)
    assert 15 < record["run"]["rows"] < 30
    assert any("cut off after" in problem for problem in record["run"]["problems"])


def test_a_giant_line_and_a_broken_line_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(d, "LONGEST", 1 << 20)
    monkeypatch.setattr(d, "CHUNK", 1 << 16)
    lines = [json.dumps(row) for row in ROWS]
    lines[5] = '{"step": 6, "reward": "' + "x" * (3 << 20)
    lines[9] = "{broken"
    (tmp_path / "l.jsonl").write_text("\n".join(lines), encoding="utf-8")
    record = d.diagnose(tmp_path / "l.jsonl")
    assert record["run"]["rows"] == 38 and "2 lines are not JSON" in record["run"]["problems"][0]


def generation(step: int, rows=None, folder: Path | None = None) -> Path:
    rows = rows or [("p1", "It is 1.", 0.0, -1.0), ("p1", f"It is {step}.", 1.0, 1.0), ("p2", "So 2.", 0.0, -1.0),
                    ("p2", "So 3.", 1.0, 1.0)]  # fmt: skip
    table = pa.table({"step": [step] * len(rows), "prompt": [row[0] for row in rows],
                      "completion": [row[1] for row in rows], "r": [row[2] for row in rows],
                      "advantage": [row[3] for row in rows]})  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"completions_{step:05d}.parquet"
    pq.write_table(table, path)
    return path


def test_a_directory_in_progress_has_completions_only(tmp_path):
    for step in range(1, 6):
        generation(step, folder=tmp_path / "completions")
    record = d.diagnose(tmp_path)
    assert record["verdict"] == "ok" and record["run"]["state"] == "running" and record["run"]["num_generations"] == 2
    missing = {one["id"] for one in record["not_measured"]}
    seen = {"reward-dominance", "part-falls", "silent-reward", "constant-reward", "dead-groups", "prompt-only-reward"}
    seen |= {"duplicate-completions", "all-none", "non-finite-reward", "tiny-differences", "several-runs", "no-steps"}
    passed = {one["id"] for one in record["passed"]}
    assert passed - set(c.SIGNS) <= seen  # never a clean bill for what was not seen
    assert {"no-gradient", "all-cut", "entropy-collapse", "kl-growth", "tool-failures"} <= missing
    dead = [
        ("p1", "It is 1.", 0.5, 0.0),
        ("p1", "It is 2.", 0.5, 0.0),
        ("p2", "So.", 0.1, 0.0),
        ("p2", "So 3.", 0.1, 0.0),
    ]
    for step in range(1, 6):
        generation(step, [(*row[:1], f"{row[1]} {step}", *row[2:]) for row in dead], tmp_path / "two/completions")
    assert d.diagnose(tmp_path / "two")["findings"][0]["id"] == "prompt-only-reward"


def test_a_config_of_another_run_is_noticed(tmp_path):
    for step in range(1, 6):
        generation(step, folder=tmp_path / "completions")
    (tmp_path / "grpo.yaml").write_text("num_generations: 4\n", encoding="utf-8")
    record = d.diagnose(tmp_path)
    assert record["run"]["num_generations"] == 2 and "the prompts come 2 at a time" in record["run"]["problems"][0]
    with pytest.raises(d.Usage, match="not there|No such file"):
        d.diagnose(tmp_path, tmp_path / "nowhere.yaml")


def test_a_constant_reward_shows_in_completions_alone(tmp_path):
    for step in range(1, 14):
        rows = [("p1", f"It is {step} {n}.", 0.25, 0.0) for n in range(2)] + [
            ("p2", f"{step}{n}", 0.25, 0.0) for n in range(2)
        ]
        generation(step, rows, tmp_path / "completions")
    (one,) = [one for one in d.diagnose(tmp_path)["findings"] if one["severity"] == "dead"]
    assert (
        one["id"] == "constant-reward"
        and "0.25 for every completion in the last 13 of 13 files" in one["seen"][0]["text"]
    )


def test_damaged_repeated_and_old_completions_are_said(tmp_path):
    folder = tmp_path / "completions"
    for step in range(1, 6):
        generation(step, folder=folder)
    whole = (folder / "completions_00003.parquet").read_bytes()
    (folder / "completions_00003.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "completions_00006.parquet").write_bytes(b"")
    shutil.copy(folder / "completions_00005.parquet", folder / "completions_00007.parquet")
    shutil.copy(folder / "completions_00002.parquet", folder / "completions_00002 (copy).parquet")
    pq.write_table(pa.table({"x": [1]}), folder / "completions_00008.parquet")
    old = generation(90, folder=folder)
    os.utime(old, (time.time() - 9999,) * 2)
    record = d.diagnose(tmp_path)
    said = " / ".join(record["run"]["problems"])
    for word in ("completions_00003.parquet: still being written", "completions_00006", "step 2 is there twice",
                 "completions_00008.parquet: no column", "1 completions files above step 8 are older than it"):  # fmt: skip
        assert word in said, said
    assert any("1 completions files repeat" in note for note in record["notes"])
    assert record["run"]["parquet_files"] == 4


def test_files_of_an_evaluation_are_left_out(tmp_path):
    for step in range(1, 6):
        generation(step, folder=tmp_path / "completions")
    (tmp_path / "trainer_state.json").write_text(state([*ROWS[:5], {"step": 5, "eval_reward": 0.2}]), encoding="utf-8")
    record = d.diagnose(tmp_path)
    assert record["run"]["parquet_files"] == 4 and any("evaluation" in note for note in record["notes"])


def test_the_newest_checkpoint_is_read(tmp_path):
    for step in (9, 20, 100):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(state(ROWS[: min(step, 40)]), encoding="utf-8")
    os.utime(tmp_path / "checkpoint-100/trainer_state.json", (time.time() - 9999,) * 2)  # of an earlier run
    assert d.diagnose(tmp_path)["run"]["rows"] == 20
    assert d.diagnose(tmp_path / "checkpoint-9")["run"]["rows"] == 9
    (tmp_path / "checkpoint-20/trainer_state.json").write_text("{", encoding="utf-8")  # being written
    assert d.diagnose(tmp_path)["run"]["rows"] == 9


# ---- what cannot be read


BAD = {
    "no folder": (None, "nowhere", "not there"),
    "empty file": (b"", "trainer_state.json", "empty"),
    "binary": (b"\x00\x01\x02" * 99, "log.json", "not text"),
    "list of strings": (b'["a", "b"]', "log.json", "none is a row"),
    "no rows": (b"[]", "log.json", "no row with loss"),
    "a config": (b"learning_rate: 1e-6\n", "grpo.yaml", "a config, not a run"),
    "prose": (b"it went well\n", "notes.txt", "neither JSON nor CSV"),
    "a table of words": (b"a,b\nx,y\n", "t.csv", "no column with numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_line(case, tmp_path, monkeypatch, capsys):
    content, name, word = BAD[case]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(sys, "argv", ["diagnose_run.py", str(tmp_path / name)])
    assert d.main() == 2
    said = capsys.readouterr()
    assert word in said.err and said.err.count("\n") == 1 and said.out == "" and "Traceback" not in said.err


def test_an_empty_folder_and_a_folder_of_runs(tmp_path):
    with pytest.raises(d.Usage, match=r"no trainer_state.json, no completions"):
        d.diagnose(tmp_path)
    generation(1, folder=tmp_path / "one/completions")
    with pytest.raises(d.Usage, match="runs lie below it: one"):
        d.diagnose(tmp_path)


def test_two_rows_are_too_few_to_judge_by(tmp_path):
    for rows in (ROWS[:2], [{**row, "completions/clipped_ratio": 1.0, "grad_norm": 0.0} for row in ROWS[:2]]):
        (tmp_path / "h.json").write_text(json.dumps(rows), encoding="utf-8")
        record = d.diagnose(tmp_path / "h.json")
        assert record["verdict"] == "not measured" and any("too few" in note for note in record["notes"])
        assert all(one["severity"] == "tell" for one in record["findings"])


def test_nothing_measured_is_no_clean_bill(tmp_path, monkeypatch, capsys):
    (tmp_path / "h.json").write_text(json.dumps([{"step": n, "loss": 0.1} for n in range(9)]), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["diagnose_run.py", str(tmp_path / "h.json")])
    assert d.main() == 1
    assert "NOT MEASURED" in capsys.readouterr().out


# ---- the command


def test_help_answers_and_options_are_refused():
    done = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "exit codes" in done.stdout and "example" in done.stdout
    for extra in ([], ["x", "--watch", "0"], ["x", "--watch", "1", "--json"]):
        done = subprocess.run([sys.executable, SCRIPT, *extra], capture_output=True, text=True)
        assert done.returncode == 2, extra


@pytest.mark.parametrize("form", ["text", "json"])
def test_exit_codes_and_output(form, tmp_path, monkeypatch, capsys):
    for name, code in (("healthy", 0), ("all-cut", 1)):
        run = str(ROOT / "tests/data/runs" / name)
        record = tmp_path / f"{name}.json"
        extra = ["--json"] if form == "json" else ["--full"]
        monkeypatch.setattr(sys, "argv", ["diagnose_run.py", run, "--record", str(record), *extra])
        assert d.main() == code
        out = capsys.readouterr().out
        assert json.loads(record.read_text())["schema_version"] == 1
        assert (json.loads(out)["verdict"] if form == "json" else out.splitlines()[0].split(":")[0].lower()) == (
            "ok" if name == "healthy" else "dead")  # fmt: skip


def test_one_page_of_html(tmp_path, monkeypatch, capsys):
    pytest.importorskip("diagnosis_page")
    monkeypatch.setattr(sys, "argv", ["diagnose_run.py", str(ROOT / "tests/data/runs/all-cut"), "--html",
                                      str(tmp_path / "p.html")])  # fmt: skip
    assert d.main() == 1
    assert "all-cut" in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_no_secret_is_recorded(tmp_path):
    (tmp_path / "trainer_state.json").write_text(state(), encoding="utf-8")
    (tmp_path / "grpo.yaml").write_text("hub_token: hf_secret\nbeta: 0.0\n", encoding="utf-8")
    assert d.diagnose(tmp_path)["run"]["config"] == {"beta": 0.0}


def test_a_reward_that_all_earn_is_no_silent_one():
    rising = end(20, 40, np.linspace(0.1, 0.45, 40), 0.5)
    won = log(**{"rewards/a/mean": rising, "rewards/a/std": end(20, 40, 0.3, 0.0)})
    assert not [one for one in raw(won) if one["id"] == "silent-reward"]


def test_the_tables_name_everything(monkeypatch, capsys):
    for which, names in (("thresholds", {one.finding for one in c.THRESHOLDS}), ("findings", set(c.KINDS))):
        monkeypatch.setattr(sys, "argv", ["diagnose_run.py", "--table", which])
        assert d.main() == 0
        out = capsys.readouterr().out
        assert all(f"`{name}`" in out for name in names if name in c.KINDS)


# ---- watch


def watching(path: Path, *extra: str):
    args = d._parser().parse_args([str(path), "--watch", "0.02", *extra])
    args.rewards = []
    lines: list[str] = []
    result: dict = {}

    def go():
        try:
            result["code"] = d.watch(args, lambda text, flush=True: lines.append(text))
        except d.Usage as error:
            result["usage"] = str(error)

    thread = threading.Thread(target=go)
    thread.start()
    return thread, lines, result


def test_watch_waits_reports_changes_and_ends_with_the_run(tmp_path):
    run = tmp_path / "later"
    thread, lines, result = watching(run)
    for count in range(4, 44, 4):
        run.mkdir(exist_ok=True)
        (run / "half.json").write_text("{", encoding="utf-8")
        d.write(run / "trainer_state.json", state(ROWS[:count], max_steps=40))
        (run / "completions").mkdir(exist_ok=True)
        (run / "completions/completions_99999.parquet").write_bytes(b"PAR1 half written")
        time.sleep(0.03)
    thread.join(20)
    assert result == {"code": 0} and len(lines) <= 4 and "the run has ended, ok" in lines[-1]
    assert len(set(lines)) == len(lines)


def test_watch_stops_a_dead_run(tmp_path):
    dead = [{**row, "frac_reward_zero_std": 1.0} for row in ROWS]
    (tmp_path / "trainer_state.json").write_text(state(dead[:5], max_steps=999), encoding="utf-8")
    thread, lines, result = watching(tmp_path, "--patience", "10")
    for count in range(6, 40):
        if not thread.is_alive():
            break
        d.write(tmp_path / "trainer_state.json", state(dead[:count], max_steps=999))
        time.sleep(0.05)
    thread.join(20)
    assert result == {"code": 1} and "stop; dead-groups stood for 10 generations" in lines[-1]
    assert count < 39 and 15 <= int(lines[-1].split(":")[0].removeprefix("step ")) < 39  # dead from step 5 on


def test_watch_gives_up(tmp_path):
    thread, lines, result = watching(tmp_path / "never", "--give-up", "0.1")
    thread.join(20)
    assert result == {"code": 3} and "nothing to read after" in lines[-1]
    (tmp_path / "trainer_state.json").write_text(state(max_steps=999), encoding="utf-8")
    thread, lines, result = watching(tmp_path, "--give-up", "0.2")
    thread.join(20)
    assert result == {"code": 3} and "it hangs" in lines[-1]


def test_ctrl_c(monkeypatch, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(d.time, "sleep", stop)
    monkeypatch.setattr(sys, "argv", ["diagnose_run.py", str(tmp_path), "--watch"])
    with contextlib.redirect_stdout(io.StringIO()):
        assert d.main() == 130
