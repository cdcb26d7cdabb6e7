#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["ruamel.yaml", "pyyaml"]
# ///
"""GRPO variants in TRL 1.16 as data: what the log shows, which variant answers it, and its exact arguments.

The tables of references/variants.md and SKILL.md are printed from here, and `emit` merges a preset into the YAML that
`trl grpo --config` takes. Presets hold Python values; the tests build each with the installed TRL and train with it.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import importlib.metadata
import io
import json
import math
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Absent", "Departure", "Failure", "Variant", "absent", "call", "emit", "failures", "variants"]

SCHEMA_VERSION = 1
TRL = "1.16"
SHOWN_ACCUMULATION = 8  # `gradient_accumulation_steps` of the presets as the tables show them
NEEDS = {  # what a preset cannot bring along
    "off-policy": "several optimizer steps per rollout; on-policy it does nothing or is plain GRPO",
    "sequence-level": "importance_sampling_level: sequence, which the preset sets",
    "mixture-of-experts": "meant for routed experts",
    "several-rewards": "two or more reward_funcs",
    "vllm": "use_vllm: true",
    "binary-reward": "a reward of 0 or 1",
    "reference-model": "a second model in memory (LoRA: none)",
    "full-fine-tuning": "no LoRA",
}
HOW = {  # the other trainers' configs: how they are run
    "RLOOConfig": "RLOOTrainer takes it: `trl rloo --config` with these keys",
    "GMPOConfig": "from trl.experimental.gmpo import GMPOConfig, GMPOTrainer, in your script",
    "A2POConfig": "from trl.experimental.a2po import A2POConfig, A2POTrainer, in your script",
    "AsyncGRPOConfig": "from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer, in your script",
}
ANY = "*"  # in `clashes`: any value but null
_TIMES = "\N{MULTIPLICATION SIGN}"
_PAPERS = "https://huggingface.co/papers/"


@dataclass(frozen=True)
class Failure:
    """A row of the failure table. `log`, `label`, `needs`, `covered` are Markdown; `tries` names the variants to try.

    `settings` are the arguments as tried here, where they are not the variants' own. `short` is what SKILL.md shows in
    place of `log` and `needs`, with the first alternative only; a row without it is not in SKILL.md. `same_as` is the
    row that a `log` of "the same" speaks of.
    """

    id: str
    log: str
    label: str
    tries: tuple[str, ...]
    needs: str
    covered: str
    settings: tuple[dict, ...] = ()
    short: tuple[str, str] | None = None
    same_as: str = ""

    @property
    def alone(self) -> str:
        """`log` where it stands without the table."""
        return f"{self.log} (the same: {self.same_as})" if self.same_as else self.log

    def presets(self, shown: bool = True) -> list[dict]:
        """One dict of arguments for each alternative; `shown=False` leaves out what depends on the batch."""
        tries = [variants()[name] for name in self.tries]
        return list(self.settings) or [variant.preset() if shown else variant.settings for variant in tries]


@dataclass(frozen=True)
class Variant:
    """One preset.

    `settings`: arguments of `config` as Python values. `steps`: optimizer steps per rollout (0: as the base has it),
    from which `steps_per_generation` follows. `needs`: names of NEEDS. `failures`: ids of the failure rows it answers.
    `clashes`: values of other arguments with which it raises or does nothing. `restores`: TRL's defaults without which
    it is not this variant, written where a base says otherwise. `ignores`: arguments that then have no effect.
    `rewards`: rewards to add. `row`: "own", the variant whose table row shows it as an alternative, or "" for none.
    """

    name: str
    title: str
    settings: dict
    purpose: str
    text: str
    covered: str
    paper: str = ""
    note: str = ""
    needs: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    clashes: dict = field(default_factory=dict)
    restores: dict = field(default_factory=dict)
    ignores: tuple[str, ...] = ()
    rewards: tuple[str, ...] = ()
    steps: int = 0
    config: str = "GRPOConfig"
    row: str = "own"

    def preset(self, accumulation: int = SHOWN_ACCUMULATION) -> dict:
        """The arguments with the rollout's length at this `gradient_accumulation_steps`.

        >>> variants()["gspo"].preset(2)["steps_per_generation"]
        8
        """
        if not self.steps:
            return dict(self.settings)
        unit = {"gradient_accumulation_steps": accumulation, "steps_per_generation": self.steps * accumulation}
        return {**self.settings, **unit}


@dataclass(frozen=True)
class Departure:
    """Where a preset is not what TRL's paper index says (retrieved 2026-11-29), and why."""

    variants: tuple[str, ...]
    index: str
    here: str
    why: str


@dataclass(frozen=True)
class Absent:
    """What TRL lacks, what to do instead, where it exists (retrieved 2026-11-29)."""

    names: tuple[str, ...]
    missing: str
    instead: str
    elsewhere: str

    def __str__(self) -> str:
        instead = "nothing" if self.instead == "-" else self.instead
        return f"instead: {instead}; elsewhere (retrieved 2026-11-29): {self.elsewhere}"


class VariantError(ValueError):
    """A name or a base that cannot be used; the message says what, where and how to mend it."""


# ---- the data


def _adaptive(**others) -> dict:
    return {"use_adaptive_entropy": True, **others}


_FAILURES = (
    Failure(
        "dead-groups", "`frac_reward_zero_std` above 0.5 (judgement)", "none: change the data", ("larger-group",),
        "keep prompts that pass 20-80 % of the time (judgement); TRL cannot resample", "nothing",
        short=("`frac_reward_zero_std` above 0.5", "prompts solved 20-80 % of the time"),
    ),
    Failure(
        "entropy-collapse", "`entropy` falls below 0.1 (judgement) while `frac_reward_zero_std` rises; on-policy",
        "entropy bonus", ("entropy-bonus", "adaptive-entropy"),
        "set the target at the level to hold, well below your first `entropy` (half: judgement)", "nothing",
        settings=({"entropy_coef": 0.001}, _adaptive(entropy_target=0.3, entropy_coef_max=0.01)),
        short=("`entropy` below 0.1, `frac_reward_zero_std` rises", ""),
    ),
    Failure(
        "entropy-collapse-off-policy", "the same, off-policy, with `clip_ratio/high_mean` above 0", "clip-higher",
        ("clip-higher",), "off-policy, else it does nothing", "symmetric clip",
        short=("the same, `clip_ratio/high_mean` above 0", "off-policy"), same_as="entropy-collapse",
    ),
    Failure(
        "length-growth", "`completions/mean_length` grows, `reward` does not", "Dr. GRPO", ("dr-grpo",),
        "both; if answers hit the limit, add `get_soft_overlong_punishment(max_completion_len=1024, "
        "soft_punish_cache=256)` as a reward, the first being your `max_completion_length`",
        "the per-sequence length division is gone already",
        short=("`completions/mean_length` grows, `reward` does not", "both"),
    ),
    Failure(
        "cut-answers", "`completions/clipped_ratio` low but not 0, and cut answers score at random",
        "overlong filtering", ("overlong-filtering",),
        "only below about 0.2 (judgement); at 1.0 nothing is left to learn from", "nothing",
    ),
    Failure(
        "clipping", "`clip_ratio/region_mean` above 0.3 (judgement), off-policy", "CISPO", ("cispo",),
        "never without `epsilon_high`; logs `cispo_clip_ratio` instead", "fewer steps per rollout is the cheaper cure",
        short=("`clip_ratio/region_mean` above 0.3", "off-policy; both"),
    ),
    Failure(
        "clipping-long", "the same with long completions and several steps per rollout", "GSPO", ("gspo",),
        "off-policy; the small epsilons; `clip_ratio/region_mean` of 0.3 to 0.7 is then normal, it counts sequences",
        'on-policy it is plain `"grpo"`',
        short=("the same, long completions", "4 optimizer steps a rollout; clip ratio 0.3-0.7 is normal"),
        same_as="clipping",
    ),
    Failure(
        "sampler-mismatch", "`sampling/importance_sampling_ratio/mean` below 0.5", "first the sampler",
        ("sampler-defaults",), "`min_p` unset, also inside `generation_kwargs`", "these are the defaults",
        short=("`sampling/importance_sampling_ratio/mean` below 0.5", "also inside `generation_kwargs`"),
    ),
    Failure(
        "sampler-mismatch-long", "still below 0.5, completions of thousands of tokens", "TIS per token", ("tis",),
        "`use_vllm=True`", "correction is on, as a product over tokens",
        short=("still, long completions", "vLLM"), same_as="sampler-mismatch",
    ),
    Failure(
        "expert-mismatch",
        "`grad_norm` spikes together with `sampling/sampling_logp_difference/max`; mixture of experts", "IcePop",
        ("icepop",), "`use_vllm=True`; the real cure, router replay, is not in TRL", "an upper bound only",
    ),
    Failure(
        "reward-dominance", "one `rewards/<name>/std` dwarfs the others", "GDPO", ("gdpo",),
        "two or more rewards; `scale_rewards` is then ignored", "nothing; try `reward_weights` first",
    ),
    Failure(
        "held-out-falls", "held-out quality falls while `reward` rises, and the reward is sound", "KL to the start",
        ("kl-to-start",), "full fine-tuning: a second model in memory; LoRA: none", "no KL",
    ),
    Failure(
        "slow-generation", "`step_time` is mostly generation", "more steps per rollout", ("more-steps",),
        "now off-policy: the clip rows above apply", "on-policy",
    ),
)  # fmt: skip

_TOKEN = {"importance_sampling_level": "token"}
_WITH_VLLM = {
    "use_vllm": (False,),
    "vllm_importance_sampling_correction": (False,),
    "vllm_importance_sampling_cap": (ANY,),
}
_NO_GDPO = {"multi_objective_aggregation": ("normalize_then_sum",)}  # it ignores `scale_rewards`
_CISPO = {"loss_type": "cispo", "epsilon_high": 5.0}
_OVERLONG = "get_soft_overlong_punishment(max_completion_len=20480, soft_punish_cache=4096)"
_UNCLIPPED = ("cispo", "sapo", "vespo")  # losses without the clip

_VARIANTS = (
    Variant(
        "grpo", "GRPO",
        {"loss_type": "grpo", "beta": 0.04, "use_bias_correction_kl": False, "num_generations": 64,
         "max_completion_length": 1024},
        "comparing with the paper", "reference model in memory (LoRA: none)",
        "no: the default is DAPO's loss without KL", _PAPERS + "2402.03300", ", original",
        needs=("reference-model",), restores=_TOKEN,
    ),
    Variant(
        "grpo-long", "GRPO, long reasoning",
        {"loss_type": "grpo", "beta": 0.001, "epsilon": 10.0, "num_generations": 16, "max_completion_length": 32768},
        "comparing with the paper", "16 optimizer steps per rollout", "no", _PAPERS + "2501.12948",
        needs=("off-policy", "reference-model"), restores=_TOKEN, steps=16,
    ),
    Variant(
        "dr-grpo", "Dr. GRPO", {"loss_type": "dr_grpo", "scale_rewards": "none"}, "length and difficulty bias",
        "divides by `max_completion_length`: changing that rescales the loss",
        "the length part; the division by the std is on", _PAPERS + "2503.20783",
        failures=("length-growth",), clashes=_NO_GDPO, restores=_TOKEN,
    ),
    Variant(
        "bnpo", "BNPO", {"loss_type": "bnpo"}, "TRL's default from 0.17 to 0.21",
        "depends on `per_device_train_batch_size`; at 1 it is GRPO's loss", "all of it: `dapo` replaced it",
        restores=_TOKEN,
    ),
    Variant(
        "dapo", "DAPO",
        {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28, "mask_truncated_completions": True,
         "num_generations": 16, "max_completion_length": 20480},
        "long reasoning", f"also `{_OVERLONG}`; its dynamic sampling is not in TRL",
        "the token-level loss and no KL", _PAPERS + "2503.14476",
        needs=("off-policy",), failures=("entropy-collapse-off-policy", "cut-answers"), restores=_TOKEN,
        rewards=(_OVERLONG,),
    ),
    Variant(
        "clip-higher", "Clip-higher alone", {"epsilon_high": 0.28}, "entropy", "off-policy", "a symmetric clip",
        _PAPERS + "2503.14476", needs=("off-policy",), failures=("entropy-collapse-off-policy",),
        clashes={"loss_type": _UNCLIPPED},
    ),
    Variant(
        "lite-ppo", "Lite PPO", {"scale_rewards": "batch", "num_generations": 8},
        "small base models, noisy group stds", "blinds `frac_reward_zero_std`", "the loss; the std is of the group",
        _PAPERS + "2508.08221", needs=("off-policy",), clashes=_NO_GDPO, restores={"loss_type": "dapo", **_TOKEN},
        steps=8,
    ),
    Variant(
        "gspo", "GSPO",
        {"importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4},
        "noisy token ratios",
        "off-policy; `epsilon` 0.2 never clips here; other losses weight by length and only warn",
        "on-policy it is plain GRPO", _PAPERS + "2507.18071", needs=("off-policy", "sequence-level"),
        failures=("clipping-long",), steps=4,
    ),
    Variant(
        "luspo", "LUSPO",
        {"loss_type": "luspo", "importance_sampling_level": "sequence", "epsilon": 2e-3, "epsilon_high": 2.5e-3},
        "GSPO's length bias",
        "a token level only warns; gradients are larger by the length, `max_grad_norm` cuts them", "no",
        _PAPERS + "2602.05261", needs=("sequence-level",), failures=("clipping-long",),
    ),
    Variant(
        "cispo", "CISPO", _CISPO, "rare tokens that clipping silences",
        "without `epsilon_high` every weight is cut to 0.2", "on-policy the gradient is the default's",
        _PAPERS + "2506.13585", needs=("off-policy",), failures=("clipping",), restores=_TOKEN,
        ignores=("delta", "epsilon"),
    ),
    Variant(
        "scalerl", "ScaleRL",
        {**_CISPO, "num_generations": 16, "scale_rewards": "batch", "cast_lm_head_to_fp32": True},
        "large runs", "untied embeddings, says TRL; zero-variance filtering is not in TRL", "no",
        _PAPERS + "2510.13786", ", in part", failures=("clipping",), clashes=_NO_GDPO, restores=_TOKEN,
        ignores=("delta", "epsilon"),
    ),
    Variant(
        "sapo", "SAPO", {"loss_type": "sapo", "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05},
        "a soft clip", "off-policy", "on-policy the gradient is that of `grpo`", _PAPERS + "2511.20347",
        needs=("off-policy",), failures=("clipping",), ignores=("delta", "epsilon", "epsilon_high"),
    ),
    Variant(
        "vespo", "VESPO", {"loss_type": "vespo", "vllm_importance_sampling_mode": "token_truncate"},
        "stale rollouts",
        'with vLLM a sequence mode raises when the trainer is built; keep the level at `"token"`',
        "on-policy the gradient is the default's", _PAPERS + "2602.10693", needs=("off-policy",),
        failures=("clipping",), restores=_TOKEN, ignores=("delta", "epsilon", "epsilon_high"),
    ),
    Variant(
        "two-sided-clip", "Two-sided clip",
        {"delta": 4.0, "epsilon": 0.2, "beta": 0.001, "num_generations": 16, "learning_rate": 3e-7},
        "exploding ratios of bad answers", "off-policy; `delta` above 1 + `epsilon`, which TRL does not check",
        "no bound where a bad answer's ratio grows", _PAPERS + "2505.07291", needs=("off-policy", "reference-model"),
        clashes={"loss_type": _UNCLIPPED},
    ),
    Variant(
        "entropy-80-20", "80/20 entropy",
        {"top_entropy_quantile": 0.2, "epsilon_high": 0.28, "mask_truncated_completions": True}, "entropy",
        "a fraction: 20 is taken and ignored", "no: all tokens count", _PAPERS + "2506.01939",
        failures=("entropy-collapse", "entropy-collapse-off-policy"), clashes={"loss_type": ("cispo",)},
    ),
    Variant(
        "entropy-bonus", "Entropy bonus", {"entropy_coef": 0.001}, "entropy",
        "same meaning in every loss; logs `policy_loss`", "no: it is off", failures=("entropy-collapse",),
    ),
    Variant(
        "adaptive-entropy", "Adaptive entropy",
        _adaptive(entropy_coef=0.01, entropy_target=0.2, entropy_coef_delta=0.005), "entropy",
        "watch `entropy_coef` in the log", "no: it is off", _PAPERS + "2505.22312", failures=("entropy-collapse",),
    ),
    Variant(
        "tis", "TIS", {"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": 2.0},
        "sampler mismatch", "`use_vllm=True`", "the correction is on: a product over tokens, masked above 3",
        "https://fengyao.notion.site/off-policy-rl", needs=("vllm",), failures=("sampler-mismatch-long",),
        clashes=_WITH_VLLM,
    ),
    Variant(
        "tis-sequence", "TIS, per sequence",
        {"vllm_importance_sampling_mode": "sequence_truncate", "vllm_importance_sampling_clip_max": 2.0},
        "sampler mismatch", "`use_vllm=True`", "the correction is on: a product over tokens, masked above 3",
        "https://fengyao.notion.site/off-policy-rl", needs=("vllm",),
        clashes={**_WITH_VLLM, "loss_type": ("vespo",)}, row="tis",
    ),
    Variant(
        "mis", "MIS", {"vllm_importance_sampling_mode": "sequence_mask", "vllm_importance_sampling_clip_max": 2.0},
        "sampler mismatch", "`use_vllm=True`; the default with a tighter bound", "all but the bound, which is 3",
        "https://yingru.notion.site/271211a558b7808d8b12d403fd15edda", needs=("vllm",),
        clashes={**_WITH_VLLM, "loss_type": ("vespo",)},
    ),
    Variant(
        "icepop", "IcePop",
        {"vllm_importance_sampling_mode": "token_mask", "vllm_importance_sampling_clip_min": 0.5,
         "vllm_importance_sampling_clip_max": 2.0},
        "mismatch, experts", "`use_vllm=True`", "an upper bound only, per sequence",
        "https://ringtech.notion.site/icepop", needs=("mixture-of-experts", "vllm"),
        failures=("sampler-mismatch-long", "expert-mismatch"), clashes=_WITH_VLLM,
    ),
    Variant(
        "off-policy-mask", "Unbiased KL and off-policy mask",
        {"beta": 0.001, "use_bias_correction_kl": True, "off_policy_mask_threshold": 0.5},
        "stale bad answers, KL bias", "the paper's keep-routing and keep-sampling-mask are not in TRL",
        "the unbiased KL, once `beta` is above 0", _PAPERS + "2512.02556", needs=("off-policy", "reference-model"),
        failures=("expert-mismatch",),
    ),
    Variant(
        "k3-kl", "Old k3 KL", {"beta": 0.04, "use_bias_correction_kl": False}, "comparing with TRL up to 1.9", "",
        "no: there is no KL", needs=("reference-model",),
    ),
    Variant(
        "gdpo", "GDPO", {"multi_objective_aggregation": "normalize_then_sum"}, "rewards that drown each other",
        "two rewards; `frac_reward_zero_std` is then 0 as soon as one group lives", "no: rewards are summed first",
        _PAPERS + "2601.05242", needs=("several-rewards",), failures=("reward-dominance",), ignores=("scale_rewards",),
    ),
    Variant(
        "2-grpo", "2-GRPO", {"num_generations": 2, "loss_type": "grpo"}, "cost",
        "pass rates near one half: of two answers, both agree in 1 - 2p(1-p) of groups", "no",
        _PAPERS + "2510.00977", failures=("slow-generation",),
    ),
    Variant(
        "moving-reference", "Moving reference",
        {"beta": 0.01, "sync_ref_model": True, "ref_model_sync_steps": 64, "ref_model_mixup_alpha": 0.6},
        "KL that grows for good reasons", "raises with LoRA or at `beta` 0, when the trainer is built",
        "no: there is no reference", _PAPERS + "2404.09656", needs=("reference-model", "full-fine-tuning"),
        clashes={"use_peft": (True,)},
    ),
    Variant(
        "rloo", "RLOO", {"num_generations": 4, "beta": 0.05}, "a simpler baseline",
        "`RLOOTrainer`; KL inside the reward; no `loss_type`", "no: another trainer", _PAPERS + "2402.14740",
        needs=("reference-model",), config="RLOOConfig",
    ),
    Variant(
        "reinforce-plus-plus", "REINFORCE++", {"normalize_advantages": True}, "batch-wide normalisation",
        "`RLOOTrainer`", "no: another trainer", _PAPERS + "2501.03262", ", nearly", needs=("reference-model",),
        config="RLOOConfig",
    ),
    Variant(
        "gmpo", "GMPO", {"epsilon": 0.4}, "outlier tokens",
        "experimental; off-policy; ignores `loss_type`, `delta`, `entropy_coef`, `off_policy_mask_threshold` and "
        "vLLM's correction",
        "no: another trainer", _PAPERS + "2507.20673", needs=("off-policy",), failures=("clipping",),
        ignores=("loss_type", "delta", "entropy_coef", "off_policy_mask_threshold"), config="GMPOConfig",
    ),
    Variant(
        "a2po", "A2PO", {"beta1": 0.5, "beta2": 1e-3, "num_value_samples": 8}, "one completion per prompt",
        "experimental; binary reward; still has `max_prompt_length`", "no: another trainer", _PAPERS + "2505.20686",
        needs=("binary-reward", "reference-model"), failures=("slow-generation",), config="A2POConfig",
    ),
    Variant(
        "async-grpo", "Async GRPO", {"max_staleness": 4}, "generation time",
        "experimental; vLLM server only; no `beta`, `loss_type`, `scale_rewards`, `num_iterations`",
        "no: another trainer", needs=("vllm",), failures=("slow-generation",), config="AsyncGRPOConfig",
    ),
    # Settings of the failure table that are no variant of the loss.
    Variant(
        "larger-group", "Larger group", {"num_generations": 16, "temperature": 1.0}, "fewer dead groups",
        "keep prompts that pass 20-80 % of the time (judgement)", "8 completions a prompt, temperature 1",
        failures=("dead-groups",), row="",
    ),
    Variant(
        "overlong-filtering", "Overlong filtering", {"mask_truncated_completions": True},
        "cut answers that score at random", "`completions/clipped_ratio` below about 0.2 (judgement)", "no: it is off",
        _PAPERS + "2503.14476", failures=("cut-answers",), row="",
    ),
    Variant(
        "sampler-defaults", "Plain sampling", {"top_p": 1.0, "top_k": 0, "repetition_penalty": 1.0},
        "a weight that cut sampling starves", "`min_p` unset, also inside `generation_kwargs`", "all of it",
        failures=("sampler-mismatch",), clashes={"min_p": (ANY,)}, row="",
    ),
    Variant(
        "kl-to-start", "KL to the start", {"beta": 0.001}, "quality that falls while the reward rises",
        "full fine-tuning: a second model in memory", "no: there is no KL", needs=("reference-model",),
        failures=("held-out-falls",), row="",
    ),
    Variant(
        "more-steps", "More steps per rollout", {"use_vllm": True}, "time spent on generation",
        "now off-policy: the clips act", "no: one step per rollout, without vLLM", failures=("slow-generation",),
        steps=2, row="",
    ),
)  # fmt: skip

_DEPARTURES = (
    Departure(
        ("dr-grpo",), "Dr. GRPO: leaves `scale_rewards` alone", '`scale_rewards="none"`',
        "the paper removes the division by the std; the default keeps it",
    ),
    Departure(
        ("lite-ppo",), "Lite PPO: `steps_per_generation=8` with `gradient_accumulation_steps=32`",
        f"8 {_TIMES} `gradient_accumulation_steps`", "as written it generates four times per optimizer step",
    ),
    Departure(
        ("lite-ppo",), "Lite PPO: top-p 0.99, top-k 100, temperature 0.99", "left out",
        "with vLLM, cut sampling starves the weights (troubleshooting)",
    ),
    Departure(
        ("grpo", "grpo-long"),
        "GRPO: the values of the long-reasoning report, `steps_per_generation=16` with "
        "`gradient_accumulation_steps=128`",
        f"two rows; 16 {_TIMES} `gradient_accumulation_steps`", "the paper gives values of its own; same unit",
    ),
    Departure(
        ("rloo",),
        "RLOO: `RLOOConfig(num_generations=2, beta=0.03, steps_per_generation=2)` (an older copy, "
        "retrieved 2026-11-30)",
        "`RLOOConfig(num_generations=4, beta=0.05)`",
        "the paper's other group size, as two answers give a baseline of one; TRL's default `beta` (both judgement)",
    ),
    Departure(
        ("adaptive-entropy",), "Adaptive entropy, also on the trainer's page: `entropy_target=5.0`",
        "`entropy_target=0.2`, or half of your first `entropy` (judgement)",
        "TRL's help says 2 to 10 nats per token; another project calls a run sound below 1 "
        "([rllm#116](https://github.com/rllm-org/rllm/issues/116)). A target above what you log keeps the bonus on and "
        "drives it to `entropy_coef_max`",
    ),
    Departure(
        ("tis", "tis-sequence", "mis"), "TIS, MIS: `vllm_importance_sampling_cap`",
        "`vllm_importance_sampling_clip_max`", "deprecated since 1.6",
    ),
)  # fmt: skip

_ISSUES = "https://github.com/huggingface/trl/"
_ABSENT = (
    Absent(
        ("dynamic-sampling",),
        f"dynamic sampling (asked for in [trl#3708]({_ISSUES}issues/3708), [trl#4764]({_ISSUES}issues/4764))",
        "filter prompts by pass rate before the run", "verl, NeMo-RL, ms-swift",
    ),
    Absent(
        ("router-replay",), "router replay for mixture of experts",
        "the IcePop preset; `off_policy_mask_threshold=0.5`",
        "verl, [NeMo-RL](https://github.com/NVIDIA-NeMo/RL/pull/2590), ms-swift on Megatron",
    ),
    Absent(
        ("replay-buffer",),
        "replay buffer for dead groups (`trl.experimental.grpo_with_replay_buffer`, gone since 1.14)",
        "filtering", "TRL 1.13",
    ),
    Absent(
        ("gspo-token",), "GSPO-token (`trl.experimental.gspo_token`, gone since 1.14)", "GSPO", "TRL 1.13",
    ),
    Absent(
        ("gfpo", "papo", "dppo", "ppo"), "GFPO and PAPO (gone since 1.8), DPPO (1.9), PPO (1.13)", "-",
        "the TRL release before",
    ),
    Absent(
        ("adapter-sync",),
        f"adapter-only weight sync to vLLM in `GRPOTrainer` ([trl#5188]({_ISSUES}issues/5188))",
        "fewer syncs: a larger `steps_per_generation`",
        f"TRL's own Async GRPO since 1.14 ([trl#7017]({_ISSUES}pull/7017)); ms-swift",
    ),
)  # fmt: skip

# Setting, what it does on-policy, what it does off-policy.
_ON_POLICY = (
    ("`epsilon`, `epsilon_high`, `delta` above 1", "nothing (except CISPO's `epsilon_high`)", "clip"),
    ("`importance_sampling_level`", "nothing at `beta` 0", "token or sequence ratio"),
    ('`loss_type="cispo", epsilon_high=5.0` or `loss_type="vespo"`', 'the gradient of `"dapo"`', "differ"),
    ('`loss_type="sapo"`', 'the gradient of `"grpo"`', "differs"),
    ('`loss_type="bnpo"`', 'that of `"dapo"`, if the micro-batch is the batch', "differs with the micro-batch"),
    ("`off_policy_mask_threshold`", "nothing without vLLM; with it, masks sampler mismatch", "masks both"),
    (
        "`scale_rewards`, `mask_truncated_completions`, `entropy_coef`, `beta`, `top_entropy_quantile`", "act", "act",
    ),
    ("`vllm_importance_sampling_mode` and its bounds", "act, with `use_vllm`", "act"),
)  # fmt: skip


def variants() -> dict[str, Variant]:
    """All presets by name.

    >>> variants()["dr-grpo"].settings
    {'loss_type': 'dr_grpo', 'scale_rewards': 'none'}
    """
    return {variant.name: variant for variant in _VARIANTS}


def failures() -> dict[str, Failure]:
    """The rows of the failure table by id; the ids are stable.

    >>> failures()["length-growth"].tries
    ('dr-grpo',)
    """
    return {failure.id: failure for failure in _FAILURES}


def absent() -> dict[str, Absent]:
    """What TRL lacks, by each of its names."""
    return {name: missing for missing in _ABSENT for name in missing.names}


# ---- tables


def _value(value: object) -> str:
    if isinstance(value, float) and 0 < abs(value) < 1e-3:
        mantissa, exponent = f"{value:e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def call(settings: dict, config: str = "GRPOConfig") -> str:
    """Arguments as Python writes them; another config than GRPOConfig with its name.

    >>> call({"loss_type": "grpo", "epsilon": 0.0003}), call({"epsilon": 0.4}, "GMPOConfig")
    ('loss_type="grpo", epsilon=3e-4', 'GMPOConfig(epsilon=0.4)')
    """
    arguments = ", ".join(f"{key}={_value(value)}" for key, value in settings.items())
    return arguments if config == "GRPOConfig" else f"{config}({arguments})"


def _marks(presets: list[dict], config: str = "GRPOConfig") -> str:
    return " or ".join(f"`{call(preset, config)}`" for preset in presets)


def _table(headers: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" if row else "|---" * len(headers) + "|" for row in [headers, [], *rows]]


def _alternatives(variant: Variant) -> list[dict]:
    return [other.preset() for other in _VARIANTS if variant.name in (other.name, other.row)]


def _variant_rows() -> list[list[str]]:
    rows = []
    for variant in _VARIANTS:
        if variant.row == "own":
            linked = variant.paper and variant.name != "clip-higher"  # DAPO's paper, linked in the row above
            title = f"[{variant.title}]({variant.paper})" if linked else variant.title
            preset = _marks(_alternatives(variant), variant.config)
            rows.append([variant.name, title + variant.note, preset, variant.purpose, variant.text])
    return rows


def _skill_rows() -> list[list[str]]:
    shown = [failure for failure in _FAILURES if failure.short]
    return [[f"`{f.id}`", f.short[0], f.label, _marks(f.presets(shown=False)[:1]), f.short[1]] for f in shown]


TABLES = {
    "failures": lambda: _table(
        ["The log shows", "Variant", "Exact settings", "Needs, does not combine", "What the default already covers",
         "Id"],
        [[f.log, f.label, _marks(f.presets()), f.needs, f.covered, f.id] for f in _FAILURES],
    ),
    "variants": lambda: _table(["Name", "Variant", "Preset", "For", "Needs, does not combine"], _variant_rows()),
    "departures": lambda: _table(
        [f"[Index]({_ISSUES}blob/v1.14.1/docs/source/paper_index.md) (retrieved 2026-11-29)", "Here", "Why"],
        [[d.index, d.here, d.why] for d in _DEPARTURES],
    ),
    "absent": lambda: _table(
        ["Missing", "Instead", "Elsewhere (retrieved 2026-11-29)"],
        [[a.missing, a.instead, a.elsewhere] for a in _ABSENT],
    ),
    "on-policy": lambda: _table(["Setting", "On-policy", "Off-policy"], [list(row) for row in _ON_POLICY]),
    "skill": lambda: _table(["Finding", "The log shows", "Variant", "Exact settings", "Needs"], _skill_rows()),
}  # fmt: skip


# ---- list and show


def _plain(record: object) -> dict:
    found = dataclasses.asdict(record)
    if isinstance(record, Variant):
        found["preset"] = record.preset()
        found["departures"] = [dataclasses.asdict(d) for d in _DEPARTURES if record.name in d.variants]
    if isinstance(record, Failure):
        found["settings"] = record.presets()
        found["answered_by"] = [variant.name for variant in _VARIANTS if record.id in variant.failures]
    return found


def _named(name: str, *kinds: dict) -> object:
    """The record of this name, however it is spelt; unknown names are refused with the choices, nearest first."""
    known = {key: record for kind in kinds for key, record in kind.items()}
    spelt = re.sub(r"[^a-z0-9]+", "-", name.lower().replace("+", " plus ")).strip("-")
    if spelt in known:
        return known[spelt]
    near = difflib.get_close_matches(spelt, known, 5, 0.4)
    raise VariantError(f"no variant {name!r}; choose from {', '.join([*near, *sorted(set(known) - set(near))])}")


def _as_text(record: Variant | Failure | Absent) -> str:
    if isinstance(record, Absent):
        return f"{record.missing}\nnot in TRL {TRL}\n{record}"
    if isinstance(record, Failure):
        lines = [f"{record.id}: {record.alone}", f"try: {record.label}"]
        lines += [f"  {name}" for name in record.tries]
        lines += [f"  {call(preset)}" for preset in record.presets()]
        also = [v.name for v in _VARIANTS if record.id in v.failures and v.name not in record.tries]
        lines += [f"also aimed at it: {', '.join(also)}"] if also else []
        return "\n".join([*lines, f"needs: {record.needs}", f"the default covers: {record.covered}"])
    lines = [f"{record.name}: {record.title}{record.note}, for {record.purpose}", f"paper: {record.paper or 'none'}"]
    lines += [f"settings: {call(record.preset(), record.config)}"]
    if record.steps:
        lines += [f"  {record.steps} optimizer steps per rollout: steps_per_generation counts micro-steps"]
    if record.config != "GRPOConfig":
        lines += [f"  {HOW[record.config]}"]
    lines += [f"answers {name}: {failures()[name].alone}" for name in record.failures]
    lines += [f"notes: {record.text}"] if record.text else []
    lines += [f"needs {need}: {NEEDS[need]}" for need in record.needs]
    lines += [f"needs the reward {reward}" for reward in record.rewards]
    lines += [f"does not combine with {key}: {_values(values)}" for key, values in record.clashes.items()]
    lines += [f"restores the default {call({key: value})}" for key, value in record.restores.items()]
    lines += [f"then without effect: {', '.join(record.ignores)}"] if record.ignores else []
    lines += [f"the default covers: {record.covered}"]
    for departure in _DEPARTURES:
        if record.name in departure.variants:
            lines += [f"TRL's paper index: {departure.index}", f"  here: {departure.here}; {departure.why}"]
    return "\n".join(lines)


def _values(values: tuple) -> str:
    return "any value" if ANY in values else ", ".join(map(_value, values))


# ---- emit


def _preflight():
    """The two modules that read a YAML as TRL's parser does and check it; only `emit` needs them."""
    try:
        import preflight_checks
        import preflight_config
    except ImportError as error:
        raise VariantError(f"{error.name}.py is not beside {Path(__file__).name}: copy it too") from None
    return preflight_checks, preflight_config


def _read_base(path: str) -> tuple[str, dict]:
    """Text of the base, with its own line ends, and its values as PyYAML sees them."""
    _, config = _preflight()
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise VariantError(f"{path}: {error.strerror}; --base takes the YAML of `trl grpo --config`") from None
    except UnicodeDecodeError:
        raise VariantError(f"{path}: not text in UTF-8; --base takes the YAML of `trl grpo --config`") from None
    known = config.arguments()
    for name in _settings(path, text).values:
        if name not in known:
            mend = config.nearest(name, known) or "; remove the line"
            raise VariantError(f"{path}: {name} is no argument of `trl grpo` in TRL {TRL}{mend}")
    return text, _load(text)


def _settings(path: str, text: str):
    """The values as TRL's parser makes them: `use_peft: "true"` is true."""
    _, config = _preflight()
    try:
        return config.read_yaml(Path(path), text)
    except config.ConfigError as error:
        raise VariantError(str(error)) from None


def _plainly(said: object) -> str:
    """What a check says, on one line, without places: they are lines of a text that nobody has seen."""
    return re.sub(r" \(base:\d+\)", "", " ".join(str(said).split()))


def _counts(run, *names: str) -> list[int]:
    checks, config = _preflight()
    try:
        return checks.counted(run, *names)
    except config.NotKnown as error:
        said = _plainly(error).removesuffix(" (see positive-counts)")
        raise VariantError(f"{said}; write a whole number of 1 or more") from None


def _refuse_clashes(variant: Variant, base: dict, new: dict) -> None:
    """`base` as TRL's parser makes it."""
    for key, values in variant.clashes.items():
        value = base.get(key)
        if value is not None and (ANY in values or value in values):
            raise VariantError(
                f"{variant.name} does not combine with {key}: {_yaml(value)} of the base; take that line out"
            )
    inside = base.get("generation_kwargs")
    hidden = sorted(set(inside) & (set(new) | set(variant.clashes))) if isinstance(inside, dict) else []
    if hidden:
        raise VariantError(f"generation_kwargs of the base overrules {', '.join(hidden)}; take it out there")
    if "several-rewards" in variant.needs:
        rewards = base.get("reward_funcs")
        if rewards is not None and (not isinstance(rewards, list) or len(rewards) < 2):
            raise VariantError(f"{variant.name} needs two or more reward_funcs; the base has one")
    for key in new:
        if isinstance(base.get(key), dict | list):
            raise VariantError(f"{key} of the base is no single value; write one")


def _refuse_bounds(new: dict, run) -> None:
    """Bounds of the base that turn the preset's value round: TRL takes them without a word."""
    checks, config = _preflight()
    why = "the first step would move the weight to that bound"  # TRL 1.16, grpo_trainer.py: min, max
    entropy = (("entropy_coef", "entropy_coef_max", why), ("entropy_coef_min", "entropy_coef", why))
    try:
        clipped = run.get("loss_type") in checks.CLIPS
        pairs = [("epsilon", "epsilon_high", "the upper clip would be the narrower one")] if clipped else []
        pairs += entropy if run.get("use_adaptive_entropy") else ()
        values = {name: run.get(name) for low, high, _ in pairs for name in (low, high)}
    except config.NotKnown as error:
        raise VariantError(f"{_plainly(error)}; mend it in the base") from None
    for low, high, why in pairs:
        theirs = [name for name in (low, high) if name not in new]
        bottom, top = values[low], values[high]
        if len(theirs) < 2 and checks.number(bottom) and checks.number(top) and bottom > top:
            mend = f"; take {theirs[0]} out of the base, or change it" if theirs else ""
            raise VariantError(f"{low} {bottom:g} would be above {high} {top:g}: {why}{mend}")


def _yaml(value: object) -> str:
    """A value as YAML writes it; without the dot PyYAML, and so TRL, would read 3e-7 as text."""
    if isinstance(value, float):
        return re.sub(r"^(-?\d)e-0?", r"\1.0e-", repr(value))
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _refuse_parts_of_groups(run) -> None:
    """TRL's rule: the completions of one rollout are whole groups. The mend is one that the preset does not overwrite;
    the check batch-divides would name `steps_per_generation`."""
    batch, group, _ = _counts(run, "per_device_train_batch_size", "num_generations", "gradient_accumulation_steps")
    given = [n for n in ("generation_batch_size", "steps_per_generation") if run.settings.values.get(n) is not None]
    _counts(run, "num_iterations", *given)
    if len(given) == 2:
        raise VariantError(
            "generation_batch_size and steps_per_generation (of base or preset) are both set, and TRL takes one: "
            "take generation_batch_size out of the base"
        )
    if "generation_batch_size" not in given and run.generation_batch() % group:
        steps = run.steps_per_generation()
        step = group // math.gcd(group, steps * run.world)
        raise VariantError(
            f"{batch} per_device_train_batch_size x {steps} steps_per_generation x {run.world} GPUs = "
            f"{run.generation_batch()} completions are no whole groups of num_generations {group}; nearest: "
            f"per_device_train_batch_size: {max(1, round(batch / step)) * step}"
        )


def _checked(name: str, before, after) -> list[str]:
    """Notes on what preflight's checks of arguments and batch say of the merged settings.

    Raises VariantError for what is dead in them, unless the base alone is told the same, word for word: that is no
    matter of the preset. A batch that does not divide is refused all the same, as no preset can be tried with it.
    """
    checks, _ = _preflight()
    found = []
    for run in (before, after):
        failing = [one for one in checks.results(run, ("arguments", "batch")) if one["verdict"] == "fail"]
        found.append({(one["id"], _plainly(one["evidence"])): one for one in failing if one["severity"] != "tell"})
    notes = []
    for (check, evidence), one in found[1].items():
        said = f"{check}: {evidence}; mend: {_plainly(one['fix'])}"
        old = (check, evidence) in found[0]
        if one["severity"] == "dead" and (not old or one["group"] == "batch"):
            raise VariantError(f"{name} on this base cannot work: {said}")
        if one["severity"] == "dead" or not old:
            notes.append(f"the base has this already, and cannot work with it: {said}" if old else f"new: {said}")
    return notes


def _merged_text(text: str, changes: dict, base: dict, name: str) -> str:
    """The base's text with the changed keys, each with an end comment; comments and order are kept."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    flat = re.search(r"^\w+:.*\n(?:\s*#.*\n|\s*\n)*- ", text, re.MULTILINE)  # list items under their key, not indented
    parser = YAML()
    parser.preserve_quotes, parser.width = True, 10_000
    parser.indent(mapping=2, sequence=2 if flat else 4, offset=0 if flat else 2)
    try:
        document = parser.load(text)
    except YAMLError as error:
        raise VariantError(f"the base is not YAML: {' '.join(str(error).split())[:200]}") from None
    for key, value in changes.items():
        mark = f"# variants.py {name}" + (f": was {_yaml(base[key])}" if key in base else "")
        document[key] = parser.load(_yaml(value)) if isinstance(value, float) else value
        token = document.ca.items.get(key, [None] * 4)[2]
        if token is None:
            document.yaml_add_eol_comment(mark, key, column=0)
        else:  # its own end comment, or comment lines below it
            own, *below = token.value.split("\n")
            token.value = "\n".join([f"{own.rstrip()}; {mark[2:]}" if own.strip() else f" {mark}", *below])
    out = io.StringIO()
    parser.dump(document, out)
    return out.getvalue().rstrip("\n") + "\n"


def emit(name: str, text: str, base: dict, world: int = 1) -> tuple[str, list[str]]:
    """The YAML of `text` (whose values are `base`) with the preset merged in, and what the preset needs besides.

    `steps_per_generation` becomes optimizer steps per rollout x the base's `gradient_accumulation_steps`; `world` is
    the number of GPUs. The text keeps its line ends. Raises VariantError for a name and a base that do not go
    together: by the preset's own clashes, or by what preflight's checks call dead in the merged settings.

    >>> print(emit("clip-higher", "beta: 0.0 # no KL", {"beta": 0.0})[0], end="")
    beta: 0.0 # no KL
    epsilon_high: 0.28 # variants.py clip-higher
    """
    variant = _named(name, variants(), absent())
    if isinstance(variant, Absent):
        raise VariantError(f"{name} is not in TRL {TRL}; {variant}")
    if variant.config != "GRPOConfig":
        raise VariantError(f"{name} is {call(variant.settings, variant.config)}; {HOW[variant.config]}")
    checks, _ = _preflight()
    ends = "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"
    text = re.sub(r"\r\n?", "\n", text)  # ruamel.yaml takes \r into comments
    before = checks.Run(_settings("base", text), world)
    parsed, wrong = before.settings.values, before.settings.wrong
    (accumulation,) = _counts(before, "gradient_accumulation_steps")
    new = dict(variant.settings) | ({"steps_per_generation": variant.steps * accumulation} if variant.steps else {})
    new |= {key: value for key, value in variant.restores.items() if parsed.get(key) is not None}
    _refuse_clashes(variant, parsed, new)
    changes = {k: value for k, value in new.items() if k not in parsed or k in wrong or parsed[k] != value}
    found = _merged_text(text, changes, base, variant.name)
    if _load(found) != {**base, **changes}:  # what TRL's reader would see
        raise VariantError(
            "the base cannot be rewritten without changing other values; write it without tags and anchors"
        )
    after = checks.Run(_settings("base", found), world)
    _refuse_parts_of_groups(after)
    _refuse_bounds(new, after)
    notes = [
        f"overwritten: {key}: {_yaml(base[key])} is now {_yaml(value)}"
        for key, value in changes.items()
        if base.get(key) is not None
    ]
    notes += _checked(variant.name, before, after)
    notes += [f"add the reward {reward}" for reward in variant.rewards]
    if "off-policy" in variant.needs and after.on_policy():
        notes.append(
            "the run is on-policy, where every ratio is 1 and what this preset does to ratios does nothing: it needs "
            f"steps_per_generation: {2 * accumulation} or more (`emit more-steps`)"
        )
    if "vllm" in variant.needs and not after.settings.values.get("use_vllm"):
        notes.append("without use_vllm: true it does nothing")
    others = [need for need in variant.needs if need not in ("off-policy", "vllm", "sequence-level")]
    notes += [f"needs {need}: {NEEDS[need]}" for need in others]
    notes += [f"{key} of the base is then without effect" for key in variant.ignores if parsed.get(key) is not None]
    kept = [f"{key}: {_yaml(base[key])}" for key in sorted(_of_the_loss() - set(new)) if parsed.get(key)]
    if kept:
        notes.append(f"kept from the base, and read by the loss too: {', '.join(kept)}")
    return found.replace("\n", ends), notes


def _load(text: str) -> object:
    import yaml

    return yaml.safe_load(text)


def _of_the_loss() -> set[str]:
    """What presets set, less what says how much is generated and trained."""
    plain = {"num_generations", "max_completion_length", "learning_rate", "use_vllm", "temperature", "top_p", "top_k"}
    keys = {key for variant in _VARIANTS if variant.config == "GRPOConfig" for key in variant.settings}
    return (keys | {"num_iterations"}) - plain - {"repetition_penalty"}


# ---- the command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=f"GRPO variants in TRL {TRL}: which answers what the log shows, its exact arguments, its YAML.",
        epilog="example:\n  python scripts/variants.py emit gspo --base grpo.yaml > gspo.yaml\n\n"
        "exit codes: 0 ok, 2 an unknown name, or a base that the preset does not go with",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="every variant, what TRL lacks, the rows of the failure table")
    listing.add_argument("--json", action="store_true", help="all records, with stable keys")
    show = commands.add_parser("show", help="one variant, failure or absent feature with all that is known of it")
    show.add_argument("name", metavar="NAME", help="a name or failure id of `list`")
    show.add_argument("--json", action="store_true", help="the record, with stable keys")
    merge = commands.add_parser("emit", help="a YAML for `trl grpo --config`: the base with the preset merged in")
    merge.add_argument("name", metavar="NAME", help="a name of `list`")
    merge.add_argument("--base", required=True, metavar="YAML", help="what `trl grpo --config` takes; - reads stdin")
    merge.add_argument("--world-size", type=int, default=1, metavar="N", help="GPUs of the run (default 1)")
    table = commands.add_parser("table", help="a table of references/variants.md or SKILL.md as Markdown")
    table.add_argument("which", choices=list(TABLES))
    return parser


def _listing() -> str:
    lines = ["VARIANTS"]
    for variant in _VARIANTS:
        where = "" if variant.config == "GRPOConfig" else f" [{variant.config}]"
        lines.append(f"  {variant.name:<20} {variant.title}{variant.note}: {variant.purpose}{where}")
    lines.append("FAILURES")
    lines += [f"  {f.id:<27} {f.alone.replace('`', '')} -> {', '.join(f.tries)}" for f in _FAILURES]
    lines.append(f"NOT IN TRL {TRL}")
    lines += [f"  {name:<20} {str(missing).replace('`', '')}" for name, missing in absent().items()]
    return "\n".join(lines)


def main() -> int:
    arguments = _parser().parse_args()
    try:
        installed = importlib.metadata.version("trl")
    except importlib.metadata.PackageNotFoundError:
        installed = TRL  # nothing to compare with
    if installed != TRL and not installed.startswith(f"{TRL}."):
        print(f"note: these presets were tested with trl {TRL}; here it is {installed}", file=sys.stderr)
    try:
        if arguments.command == "list":
            everything = {
                "schema_version": SCHEMA_VERSION, "trl": TRL, "variants": [_plain(v) for v in _VARIANTS],
                "failures": [_plain(f) for f in _FAILURES], "absent": [_plain(a) for a in _ABSENT],
            }  # fmt: skip
            print(json.dumps(everything, indent=2, ensure_ascii=False) if arguments.json else _listing())
        elif arguments.command == "show":
            record = _named(arguments.name, variants(), failures(), absent())
            plain = {"schema_version": SCHEMA_VERSION, "kind": type(record).__name__.lower(), **_plain(record)}
            print(json.dumps(plain, indent=2, ensure_ascii=False) if arguments.json else _as_text(record))
        elif arguments.command == "emit":
            if arguments.world_size < 1:
                raise VariantError(f"--world-size is {arguments.world_size}, and must be 1 or more")
            merged, notes = emit(arguments.name, *_read_base(arguments.base), arguments.world_size)
            sys.stdout.reconfigure(newline="")  # the base's line ends, on Windows too
            print(merged, end="")
            for note in notes:
                print(f"{arguments.name}: {note}", file=sys.stderr)
        else:
            print("\n".join(TABLES[arguments.which]()))
    except VariantError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
