"""What references/variants.md and troubleshooting.md say of training, in the real trainer on a tiny model."""

import math

import pytest
import tiny_dataset


def uneven_reward(completions, **kwargs):
    """Differs inside every group, whatever was generated."""
    return [(index % 4 == 0) + 0.3 * (index % 3) for index in range(len(completions))]


def prompt_reward(prompts, **kwargs):
    """Differs between prompts, never inside a group."""
    return [float(index // 4) for index in range(len(prompts))]


def half_dead_reward(completions, **kwargs):
    """Separates answers of the first prompt only."""
    return [float(index == 0) for index in range(len(completions))]


def silent_reward(completions, **kwargs):
    return [None] * len(completions)


def infinite_reward(completions, **kwargs):
    return [math.inf, *uneven_reward(completions)[1:]]


@pytest.fixture
def first_row(train, monkeypatch):
    """The first logged row of one step. Completions of a group differ in length: the first of each is cut after two."""
    from trl import GRPOTrainer

    generate = GRPOTrainer._generate_single_turn

    def shorten(trainer, *args, **kwargs):
        completion_ids, *rest = generate(trainer, *args, **kwargs)
        return [ids[: 2 if index % 4 == 0 else None] for index, ids in enumerate(completion_ids)], *rest

    def run(reward=uneven_reward, uneven=True, **settings):
        if uneven:
            monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", shorten)
        trainer = train(reward, **{"max_steps": 1, **settings})
        return next(row for row in trainer.state.log_history if "reward" in row)

    return run


SEQUENCE = {"importance_sampling_level": "sequence"}
SAME_ON_POLICY = {
    "dapo": [{}, SEQUENCE, {"loss_type": "cispo", "epsilon_high": 5.0}, {"loss_type": "vespo"}, {"loss_type": "bnpo"},
             {"epsilon": 3e-4, "epsilon_high": 0.28, "delta": 4.0, "off_policy_mask_threshold": 0.5},
             {"top_entropy_quantile": 20}],
    "grpo": [{}, SEQUENCE, {"loss_type": "sapo"}, {**SEQUENCE, "epsilon": 3e-4, "epsilon_high": 4e-4}],
}  # fmt: skip


@pytest.mark.parametrize("loss_type", SAME_ON_POLICY)
def test_on_policy_these_settings_share_one_gradient(first_row, loss_type):
    rows = [first_row(**{"loss_type": loss_type, **settings}) for settings in SAME_ON_POLICY[loss_type]]
    norms = [row["grad_norm"] for row in rows]
    assert norms[0] > 0.1 and norms == pytest.approx([norms[0]] * len(norms), rel=1e-4)
    assert rows[0]["completions/min_length"] < rows[0]["completions/max_length"]
    assert all(row.get("clip_ratio/region_mean", 0) == 0 for row in rows)


def test_on_policy_these_settings_change_the_gradient(first_row):
    norm = first_row()["grad_norm"]
    for settings in (
        {"loss_type": "grpo"},
        {"scale_rewards": "none"},
        {"entropy_coef": 0.1},
        {"top_entropy_quantile": 0.2},
        {"mask_truncated_completions": True},
        {"delta": 0.5},
    ):
        assert first_row(**settings)["grad_norm"] != pytest.approx(norm, rel=2e-4), settings


def test_loss_is_0_for_grpo_and_a_number_of_no_meaning_for_the_default(first_row):
    assert first_row(loss_type="grpo")["loss"] == pytest.approx(0, abs=1e-6)
    assert abs(first_row()["loss"]) > 1e-3


def test_cispo_without_epsilon_high_cuts_every_weight_to_a_fifth(first_row):
    right, wrong = first_row(loss_type="cispo", epsilon_high=5.0), first_row(loss_type="cispo")
    assert wrong["grad_norm"] == pytest.approx(0.2 * right["grad_norm"], rel=1e-4)
    assert right["cispo_clip_ratio"] == 0 < wrong["cispo_clip_ratio"] and "clip_ratio/region_mean" not in right


def test_masking_swallows_everything_when_all_are_truncated(first_row):
    cut = {"max_completion_length": 5, "uneven": False}  # up to the digit, the only token left to chance
    row, masked = first_row(**cut), first_row(**cut, mask_truncated_completions=True)
    for logged in (row, masked):
        assert logged["completions/clipped_ratio"] == 1 and logged["completions/mean_terminated_length"] == 0
    assert row["grad_norm"] > 0.1 and masked["grad_norm"] == masked["loss"] == masked["entropy"] == 0
    assert masked["clip_ratio/low_min"] is masked["clip_ratio/high_max"] is None


@pytest.mark.parametrize(
    ("settings", "dead"),
    [({}, 1), ({"scale_rewards": "batch"}, 0), ({"multi_objective_aggregation": "normalize_then_sum"}, 1)],
)
def test_a_reward_of_the_prompt_alone_teaches_nothing(first_row, settings, dead):
    row = first_row(prompt_reward, **settings)
    assert row["reward_std"] > 0 and row["rewards/prompt_reward/std"] > 0 and row["grad_norm"] == 0
    assert row["frac_reward_zero_std"] == dead


@pytest.mark.parametrize(("settings", "dead"), [({}, 0.5), ({"multi_objective_aggregation": "normalize_then_sum"}, 0)])
def test_one_living_group_hides_the_dead_ones_from_gdpo(first_row, settings, dead):
    assert first_row(half_dead_reward, **settings)["frac_reward_zero_std"] == dead


def test_rewards_that_are_no_numbers(first_row):
    silent = first_row(silent_reward)
    assert silent["reward"] is None and silent["frac_reward_zero_std"] == 0 and silent["grad_norm"] == 0
    infinite = first_row(infinite_reward)
    assert infinite["reward"] == math.inf and infinite["grad_norm"] < first_row()["grad_norm"]


@pytest.mark.parametrize(
    ("settings", "rollouts"),
    [
        ({"gradient_accumulation_steps": 8, "steps_per_generation": 2, "max_steps": 1}, 4),
        ({"gradient_accumulation_steps": 8, "max_steps": 1}, 1),
        ({"gradient_accumulation_steps": 2, "steps_per_generation": 8, "max_steps": 4}, 1),
    ],
)
def test_steps_per_generation_counts_passes(train, settings, rollouts):
    calls = []

    def counting_reward(completions, **kwargs):
        calls.append(len(completions))
        return [0.0] * len(completions)

    trainer = train(counting_reward, per_device_train_batch_size=4, **settings)
    assert len(calls) == rollouts and trainer.state.global_step == settings["max_steps"]
    if settings["max_steps"] > 1:  # rows between generations carry no reward
        assert ["reward" in row for row in trainer.state.log_history[:-1]] == [True, False, False, False]


def test_too_few_prompts_end_the_run_without_a_step(train):
    trainer = train(uneven_reward, [{"prompt": "0 + 0 =", "answer": 0}])
    assert trainer.state.global_step == 0 and not any("reward" in row for row in trainer.state.log_history)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"loss_type": "gpo"}, "Unknown loss type"),
        ({"scale_rewards": "std"}, "Invalid value for scale_rewards"),
        ({"importance_sampling_level": "seq"}, "Unknown importance sampling level"),
        ({"multi_objective_aggregation": "gdpo"}, "Invalid multi_objective_aggregation"),
        ({"temperature": 0.0}, "temperature"),
        ({"sync_ref_model": True}, "nothing to synchronize"),
    ],
)
def test_what_the_config_accepts_the_trainer_refuses(train, settings, what):
    with pytest.raises(ValueError, match=what):
        train(uneven_reward, **settings)


def test_off_policy_gspo_needs_its_small_epsilons(train):
    clipped = []
    for epsilon in (0.2, 3e-4):
        trainer = train(uneven_reward, loss_type="grpo", steps_per_generation=2, epsilon=epsilon, **SEQUENCE)
        clipped.append([row["clip_ratio/region_mean"] for row in trainer.state.log_history[:-1]])
    assert clipped[0] == [0, 0] and clipped[1][0] == 0 < clipped[1][1]


@pytest.mark.parametrize("column", ["prompts", "completions"])
def test_a_column_that_trl_passes_itself(train, column):
    with pytest.raises(TypeError, match=f"got multiple values for keyword argument '{column}'"):
        train(uneven_reward, [{**row, column: "x"} for row in tiny_dataset.rows(False)])
