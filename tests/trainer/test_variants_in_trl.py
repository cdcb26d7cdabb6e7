"""What references/variants.md and troubleshooting.md say of training, in the real trainer on a tiny model.

Then the presets of scripts/variants.py: each constructs, is taken by TRL's parser, trains; and losses beside formulas
that were written from the papers.
"""

import dataclasses
import importlib
import math

import docsync
import numpy as np
import pytest
import tiny_dataset
import torch
import trl
import variants
from test_grpo_config import CLASSES, EXPERIMENTAL, FIELDS, parsed_by_trl
from test_grpo_config import build as build_config


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


def test_on_policy_beta_acts_from_the_second_step(train):
    """On the first, policy and reference are one, where the KL term has no gradient."""
    norms = []
    for beta in (0.0, 0.5):
        rows = train(uneven_reward, beta=beta).state.log_history
        norms.append([row["grad_norm"] for row in rows if "reward" in row])
    assert norms[0][0] == pytest.approx(norms[1][0], rel=1e-4) and norms[0][1] != pytest.approx(norms[1][1], rel=1e-3)


# ---- the presets of scripts/variants.py

PRESETS = variants.variants()
# Scaled down, so that a tiny model takes a second: everything else is trained as it is written.
SMALL = {"num_generations": 4, "max_completion_length": 12, "num_value_samples": 2}
NO_VLLM_HERE = ["more-steps"]  # presets that set `use_vllm`, left out on this CPU


def trainer_classes(config: str) -> tuple:
    if config in ("GRPOConfig", "RLOOConfig"):
        return getattr(trl, config.replace("Config", "Trainer")), CLASSES[config]
    (module,) = [module for module, name in EXPERIMENTAL.items() if name == config]
    return getattr(importlib.import_module(f"trl.experimental.{module}"), config.replace("Config", "Trainer")), CLASSES[
        config
    ]


def binary_reward(completions, **kwargs):
    return [float(index % 2) for index in range(len(completions))]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_constructs_and_the_config_holds_it(name):
    variant = PRESETS[name]
    config = build_config(variant.config, **variant.preset())
    assert {key: getattr(config, key) for key in variant.preset()} == variant.preset()
    assert all(FIELDS[variant.config][key].default == value for key, value in variant.restores.items())


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "async-grpo"])  # it needs a vLLM server
def test_a_preset_trains(train, name):
    variant = PRESETS[name]
    settings = {
        key: min(value, SMALL.get(key, value)) if key in SMALL else value for key, value in variant.settings.items()
    }
    assert (settings.pop("use_vllm", None) is not None) == (name in NO_VLLM_HERE)
    steps = variant.steps or (2 if "off-policy" in variant.needs else 1)  # so that ratios leave 1
    if steps > 1:
        settings["steps_per_generation"] = steps
    rewards = [binary_reward, uneven_reward] if "several-rewards" in variant.needs else [binary_reward]
    trainer = train(rewards, tiny_dataset.rows(False) * 4, classes=trainer_classes(variant.config), **settings)
    logged = [row for row in trainer.state.log_history if "grad_norm" in row]
    assert trainer.state.global_step == 2 == len(logged)
    assert all(math.isfinite(row["loss"]) and 0 < row["grad_norm"] < math.inf for row in logged)
    assert {key: getattr(trainer.args, key) for key in settings} == settings


@pytest.mark.parametrize("name", [name for name in PRESETS if PRESETS[name].config == "GRPOConfig"])
def test_an_emitted_yaml_is_taken_by_trls_own_parser(tmp_path, name):
    (fence,) = docsync.fences(docsync.read(docsync.ROOT, "references/variants.md"), "yaml")
    base, path = variants._load(fence.code), tmp_path / "grpo.yaml"
    path.write_text(variants.emit(name, fence.code, base)[0])
    training = parsed_by_trl(path)[1]
    assert {key: getattr(training, key) for key in PRESETS[name].settings} == PRESETS[name].settings
    accumulation = base["gradient_accumulation_steps"]
    assert training.steps_per_generation == (PRESETS[name].steps or 1) * accumulation
    assert training.learning_rate == PRESETS[name].settings.get("learning_rate", base["learning_rate"])


def test_what_emit_refuses_trl_refuses():
    verdicts = set()
    for batch, accumulation, name in [
        (8, 1, "grpo"),
        (16, 4, "grpo"),
        (6, 2, "gspo"),
        (6, 1, "dr-grpo"),
        (1, 2, "2-grpo"),
    ]:
        base = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation}
        settings = {**base, **PRESETS[name].preset(accumulation)}
        verdict = []
        for refuse, error in (
            (
                lambda: variants.emit(name, "\n".join(f"{key}: {base[key]}" for key in base), base),
                variants.VariantError,
            ),
            (lambda: build_config("GRPOConfig", **settings), ValueError),
        ):
            try:
                refuse()
                verdict.append("taken")
            except error as said:
                verdict.append("refused" if "num_generations" in str(said) else str(said))
        assert verdict[0] == verdict[1], (name, verdict)
        verdicts.add(verdict[0])
    assert verdicts == {"taken", "refused"}


def test_what_emit_refuses_for_other_reasons(build):
    from peft import LoraConfig

    with pytest.raises(NotImplementedError, match="sync_ref_model=True"):
        build(uneven_reward, peft_config=LoraConfig(), **PRESETS["moving-reference"].settings)
    with pytest.raises(ValueError, match="vllm_importance_sampling_clip_min"):
        build_config("GRPOConfig", vllm_importance_sampling_clip_min=2.5, **PRESETS["tis"].settings)
    with pytest.warns(FutureWarning, match="vllm_importance_sampling_cap"):
        config = trl.GRPOConfig(
            "out", use_cpu=True, bf16=False, vllm_importance_sampling_cap=5.0, **PRESETS["tis"].settings
        )
    assert config.vllm_importance_sampling_clip_max == 5.0  # not the preset's


def test_on_policy_gmpo_has_the_gradient_of_grpo(train):
    norms = []
    for settings in ({"loss_type": "grpo"}, {"classes": trainer_classes("GMPOConfig"), **PRESETS["gmpo"].settings}):
        norms.append(train(uneven_reward, max_steps=1, **settings).state.log_history[0]["grad_norm"])
    assert norms[0] > 0.1 and norms[1] == pytest.approx(norms[0], rel=1e-4)


# ---- losses beside formulas


@dataclasses.dataclass
class Batch:
    """Two micro-batches of four completions: log-probabilities now, when sampled and of the reference, advantages."""

    new: list[np.ndarray]  # (4, 6) each, of which the first `length` of a row count
    old: list[np.ndarray]
    reference: list[np.ndarray]
    lengths: list[list[int]]
    advantages: list[list[float]]

    def completions(self, new, part=None):
        """(log-probabilities now, as sampled, of the reference, advantage) of each completion, cut to its length."""
        for k in range(2) if part is None else [part]:
            for i, length in enumerate(self.lengths[k]):
                yield new[k][i, :length], self.old[k][i, :length], self.reference[k][i, :length], self.advantages[k][i]


def fixed_batch() -> Batch:
    """Ratios from e^-2 to e^2, advantages of both signs, completions of 1 to 6 tokens."""
    random = np.random.default_rng(7)
    old = [random.uniform(-3, -0.5, (4, 6)) for _ in range(2)]
    new = [part + random.uniform(-2, 2, (4, 6)) for part in old]
    reference = [part + random.uniform(-1, 1, (4, 6)) for part in old]
    return Batch(new, old, reference, [[6, 1, 3, 2], [4, 5, 2, 6]], [[1.3, -0.7, -1.1, 0.5], [-0.4, 0.9, 1.7, -2.0]])


LONGEST = 12  # `max_completion_length`


def clipped(ratio, advantage, low=0.2, high=0.2, most=math.inf):
    """PPO's objective of one ratio; `most` bounds it on the far side (2505.07291, equation 3)."""
    return min(min(ratio, most) * advantage, min(max(ratio, 1 - low), 1 + high) * advantage)


def terms(new, old, advantage, **clip):
    return [clipped(math.exp(a - b), advantage, **clip) for a, b in zip(new, old)]


def whole_sequence(new, old, advantage, **clip):
    """GSPO's ratio (2507.18071, equation 7): the length-th root of the product of the tokens' ratios."""
    return clipped(math.prod(math.exp(a - b) for a, b in zip(new, old)) ** (1 / len(new)), advantage, **clip)


def grpo(batch, new, frozen, **clip):  # 2402.03300, equation 3: mean of each completion, then of the completions
    return -np.mean([np.mean(terms(n, o, a, **clip)) for n, o, _, a in batch.completions(new)])


def dr_grpo(batch, new, frozen):  # 2503.20783: a constant in place of the length
    return -np.mean([sum(terms(n, o, a)) / LONGEST for n, o, _, a in batch.completions(new)])


def dapo(batch, new, frozen, **clip):  # 2503.14476, equation 8: every token of the step weighs the same
    tokens = [term for n, o, _, a in batch.completions(new) for term in terms(n, o, a, **clip)]
    return -sum(tokens) / len(tokens)


def bnpo(batch, new, frozen):  # as `dapo`, of each micro-batch
    parts = [[t for n, o, _, a in batch.completions(new, k) for t in terms(n, o, a)] for k in range(2)]
    return -np.mean([np.mean(part) for part in parts])


def cispo(batch, new, frozen):  # 2506.13585, equation 4: the weight is cut and carries no gradient
    tokens = [
        min(math.exp(f - b), 5.0) * a * p
        for (n, o, _, a), (g, *_) in zip(batch.completions(new), batch.completions(frozen))
        for p, f, b in zip(n, g, o)
    ]
    return -sum(tokens) / len(tokens)


def gspo(batch, new, frozen):
    return -np.mean([whole_sequence(n, o, a, low=3e-4, high=4e-4) for n, o, _, a in batch.completions(new)])


def luspo(batch, new, frozen):  # 2602.05261: GSPO times the length
    low_high = {"low": 2e-3, "high": 2.5e-3}
    return -np.mean([len(n) * whole_sequence(n, o, a, **low_high) for n, o, _, a in batch.completions(new)])


def sapo(batch, new, frozen):  # 2511.20347: a sigmoid gate, steeper for bad answers
    def gate(ratio, advantage):
        temperature = 1.0 if advantage > 0 else 1.05
        return 4 / temperature / (1 + math.exp(-temperature * (ratio - 1))) * advantage

    return -np.mean(
        [np.mean([gate(math.exp(x - y), a) for x, y in zip(n, o)]) for n, o, _, a in batch.completions(new)]
    )


def two_sided(batch, new, frozen):
    return dapo(batch, new, frozen, most=4.0)


def divergence(batch, new, unbiased):  # Schulman's k3; 2512.02556 multiplies it by the ratio
    return np.mean([
        np.mean([(math.exp(r - x) - (r - x) - 1) * (math.exp(x - y) if unbiased else 1) for x, y, r in zip(n, o, ref)])
        for n, o, ref, _ in batch.completions(new)
    ])  # fmt: skip


LOSSES = {
    "grpo": (grpo, {"loss_type": "grpo"}),
    "dr_grpo": (dr_grpo, {"loss_type": "dr_grpo"}),
    "dapo": (dapo, {"loss_type": "dapo"}),
    "bnpo": (bnpo, {"loss_type": "bnpo"}),
    "clip-higher": (lambda *given: dapo(*given, high=0.28), {"epsilon_high": 0.28}),
    "cispo": (cispo, {"loss_type": "cispo", "epsilon_high": 5.0}),
    "cispo ignores": (cispo, {"loss_type": "cispo", "epsilon_high": 5.0, "delta": 0.5, "epsilon": 0.9}),
    "gspo": (gspo, PRESETS["gspo"].settings),
    "luspo": (luspo, PRESETS["luspo"].settings),
    "sapo": (sapo, PRESETS["sapo"].settings),
    "two-sided": (two_sided, {"delta": 4.0}),
    "k3": (lambda b, n, f: grpo(b, n, f) + 0.04 * divergence(b, n, False),
           {"loss_type": "grpo", "beta": 0.04, "use_bias_correction_kl": False}),
    "unbiased KL": (lambda b, n, f: grpo(b, n, f) + 0.04 * divergence(b, n, True), {"loss_type": "grpo", "beta": 0.04}),
}  # fmt: skip


@pytest.fixture
def trl_loss(build):
    """Loss and gradient of one optimizer step as TRL computes them, summed over its micro-batches.

    Only the model is replaced: the method that asks it for log-probabilities gives those of the batch.
    """

    def compute(batch: Batch, settings: dict) -> tuple[float, np.ndarray]:
        trainer = build(uneven_reward, gradient_accumulation_steps=2, per_device_train_batch_size=4,
                        max_completion_length=LONGEST, **settings)  # fmt: skip
        trainer.current_gradient_accumulation_steps = 2  # transformers sets it when it trains
        total, gradients = 0.0, []
        for k in range(2):
            new = torch.tensor(batch.new[k], requires_grad=True)
            trainer._get_per_token_logps_and_entropies = lambda *_, new=new, **__: (new, torch.zeros_like(new), None)
            mask = torch.tensor([[float(t < length) for t in range(6)] for length in batch.lengths[k]])
            inputs = {
                "prompt_ids": torch.ones(4, 1, dtype=torch.long), "prompt_mask": torch.ones(4, 1, dtype=torch.long),
                "completion_ids": torch.ones(4, 6, dtype=torch.long), "completion_mask": mask.double(),
                "advantages": torch.tensor(batch.advantages[k], dtype=torch.float64),
                "old_per_token_logps": torch.tensor(batch.old[k]),
                "ref_per_token_logps": torch.tensor(batch.reference[k]),
                "num_items_in_batch": torch.tensor(sum(map(sum, batch.lengths))),
            }  # fmt: skip
            loss = trainer.compute_loss(trainer.model.train(), inputs)
            loss.backward()
            total += loss.item()
            gradients.append(new.grad.numpy())
        return total, np.stack(gradients)

    return compute


def slope(formula, batch: Batch) -> np.ndarray:
    """Central differences; what is frozen keeps the batch's values."""
    gradient, step = np.zeros((2, 4, 6)), 1e-6
    for place in np.ndindex(gradient.shape):
        ends = []
        for sign in (1, -1):
            moved = [part.copy() for part in batch.new]
            moved[place[0]][place[1:]] += sign * step
            ends.append(formula(batch, moved, batch.new))
        gradient[place] = (ends[0] - ends[1]) / (2 * step)
    return gradient


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradient_are_the_papers(trl_loss, name):
    formula, settings = LOSSES[name]
    batch = fixed_batch()
    loss, gradient = trl_loss(batch, settings)
    assert loss == pytest.approx(formula(batch, batch.new, batch.new), rel=1e-6)
    assert gradient == pytest.approx(slope(formula, batch), abs=1e-6) and np.abs(gradient).max() > 1e-2
    same = {name, *(("cispo", "cispo ignores") if "cispo" in name else ())}
    for other in set(LOSSES) - same:  # so that the comparison can fail
        assert loss != pytest.approx(LOSSES[other][0](batch, batch.new, batch.new), rel=1e-4), other
