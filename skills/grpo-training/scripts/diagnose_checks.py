"""What diagnose_run.py looks for in a GRPO run of TRL 1.16: thresholds, findings, checks.

A check is one function that reads a `Run` (series of the log, statistics of the completions files, the config) and
answers with findings, with "fine", or with "not measured" and what would make it visible. A metric that is absent is
never fine. Every number a check compares with stands in THRESHOLDS, and nowhere else.

Facts this rests on (read in TRL 1.16, trainer/grpo_trainer.py): `reward_std` is taken over the whole batch;
`frac_reward_zero_std` is blind with `scale_rewards="batch"`, with `normalize_then_sum`, where every reward is None, and
to eight equal rewards of 0.3, 0.6 or 0.7, whose float32 std is 6e-8 and so not close to 0 (run);
`completions/clipped_ratio` is the share of completions without an end token; importance ratios are logged after the
cut; rows between generations hold no reward; the loss is no sign of health in either direction.
"""

import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SEVERITIES = {"dead": "cannot learn", "waste": "costs rollouts or time", "tell": "know it"}
JUDGEMENT = "judgement"
MOST, SOME, LITTLE, FEW = 0.5, 0.3, 0.2, 0.05  # shares that confirm or refute a cause (judgement)
NEAR = 0.9  # share of its best at which a reward counts as won (judgement)
PENALTY = re.compile(r"penal|punish|overlong|repet", re.IGNORECASE)  # names of rewards whose best is 0 (judgement)
RIGHT = re.compile(r"acc|correct|exact|solv|match|verif|pass", re.IGNORECASE)  # names of rewards for right answers
LIVE = 8  # live groups before length is held against advantage (judgement)
LEAST = 3  # generations before a run is judged at all: one batch is chance (judgement)


# ---- thresholds


@dataclass(frozen=True)
class Threshold:
    """One number a check compares with. `fails` says on which side of `value` it fails."""

    key: str
    finding: str
    metric: str
    fails: str  # "above", "at least", "below"
    value: float
    unit: str
    severity: str
    source: str
    condition: str = ""

    def hit(self, value: float) -> bool:
        """Whether this value fails. A value that is not a number never does.

        >>> BY_KEY["dead-groups"].hit(0.8), BY_KEY["dead-groups"].hit(0.81), BY_KEY["dead-groups"].hit(math.nan)
        (False, True, False)
        """
        if value is None or math.isnan(value):
            return False
        return {"above": value > self.value, "at least": value >= self.value, "below": value < self.value}[self.fails]

    def text(self) -> str:
        shown = f"{self.metric} {self.fails} {self.value:g}" + (f" {self.unit}" if self.unit else "")
        return shown + (f", {self.condition}" if self.condition else "")


_T = Threshold
_SIGNS = {
    "many-answers": "several answer blocks", "empty-blocks": "an empty block",
    "repetition": "word quadruples mostly repeated", "copied-prompt": "the prompt's end",
    "boilerplate": "five words in a row that half of the prompts get",
}  # fmt: skip
THRESHOLDS = (
    _T("no-steps", "no-steps", "rows of training", "below", 1, "rows", "dead", "run", "and the run has ended"),
    _T("ended-early", "ended-early", "`global_step` / `max_steps`", "below", 1, "", "tell", "run",
       "and nothing was written for 10 minutes (judgement)"),
    _T("non-finite-gradient", "non-finite-gradient", "last rows with NaN, inf or null `grad_norm`", "at least", 3,
       "rows", "dead", JUDGEMENT),
    _T("non-finite-gradient-share", "non-finite-gradient", "share of rows with NaN, inf or null `grad_norm`",
       "at least", 0.5, "", "dead", JUDGEMENT),
    _T("non-finite-gradient-some", "non-finite-gradient", "share of rows with NaN, inf or null `grad_norm`",
       "at least", 0.1, "", "waste", JUDGEMENT),
    _T("not-a-number", "not-a-number", "rows of a metric, none of them a finite number", "at least", 3, "rows", "tell",
       JUDGEMENT),
    _T("kl-infinite", "not-a-number", "rows with an infinite `kl`", "at least", 1, "rows", "waste",
       "TRL 1.16 source: with `beta` it is part of the loss"),
    _T("rate-zero", "rate-zero", "rows of `learning_rate`, all of them 0", "at least", 3, "rows", "dead",
       "an update is the rate times a direction"),
    _T("non-finite-reward", "non-finite-reward", "generations with an infinite reward", "at least", 1, "generations",
       "waste", "run: one inf kills its group"),
    _T("non-finite-reward-dead", "non-finite-reward", "share of generations with an infinite reward", "at least", 0.5,
       "", "dead", JUDGEMENT),
    _T("all-none", "all-none", "share of completions without any reward", "at least", 0.99, "", "dead",
       "TRL 1.16 source: their advantage is 0"),
    _T("some-none", "all-none", "share of completions without any reward", "at least", 0.2, "", "waste", JUDGEMENT),
    _T("masked-away-dead", "masked-away", "share of completions left by the mask", "below", 0.05, "", "dead",
       "run: all masked, `grad_norm` 0", "with `mask_truncated_completions`"),
    _T("masked-away", "masked-away", "share of completions left by the mask", "below", 0.3, "", "waste", JUDGEMENT,
       "with `mask_truncated_completions`"),
    _T("all-cut-dead", "all-cut", "`completions/clipped_ratio`", "at least", 0.5, "", "dead",
       "57-80 % cut kills GSM8K (trl#6263)", "and no gradient, dead groups or one reward for all"),
    _T("all-cut", "all-cut", "`completions/clipped_ratio`", "at least", 0.5, "", "waste",
       "57-80 % cut kills GSM8K (trl#6263)", "and some groups still teach"),
    _T("cut-answers-waste", "cut-answers", "`completions/clipped_ratio`", "at least", 0.2, "", "waste",
       "judgement; 14 % works (trl#5759)"),
    _T("cut-answers", "cut-answers", "`completions/clipped_ratio`", "above", 0.05, "", "tell",
       "judgement: the limit below the 95th percentile"),
    _T("constant-reward", "constant-reward", "last rows with one `reward` and `reward_std` 0", "at least", 10, "rows",
       "dead", JUDGEMENT),
    _T("reward-won", "constant-reward", "last rows with one `reward`, near the best of the run", "at least", 10, "rows",
       "waste", JUDGEMENT, "after rewards that differed and rose"),
    _T("constant-reward-files", "constant-reward", "groups in the last files, all with one reward", "at least", 16,
       "groups", "dead", JUDGEMENT, "where only files were read"),
    _T("unscored-reward", "silent-reward", "rows with `rewards/<name>/mean`, none of them a number", "at least", 10,
       "rows", "waste", JUDGEMENT, "and other rewards vary"),
    _T("silent-from-the-start", "silent-reward", "rows with one `rewards/<name>/mean` and std 0, all of the run",
       "at least", 10, "rows", "tell", JUDGEMENT, "above 0, or a penalty of 0"),
    _T("silent-reward", "silent-reward", "last rows with one `rewards/<name>/mean` and std 0", "at least", 10, "rows",
       "waste", JUDGEMENT, "and other rewards vary"),
    _T("prompt-only-reward", "prompt-only-reward", "share of groups with one reward", "at least", 0.95, "", "dead",
       "run; ms-swift#4570", "while rewards differ between groups, and each prompt keeps its own"),
    _T("duplicate-completions", "duplicate-completions", "share of completions that repeat another of their group",
       "above", 0.5, "", "tell", JUDGEMENT),
    _T("duplicate-completions-waste", "duplicate-completions",
       "share of completions that repeat another of their group", "above", 0.5, "", "waste", JUDGEMENT,
       "and most groups have one reward"),
    _T("dead-groups", "dead-groups", "share of groups with one reward", "above", 0.8, "", "dead",
       "judgement, from p^G + (1-p)^G at pass rates of 20-80 %"),
    _T("dead-groups-waste", "dead-groups", "share of groups with one reward", "above", 0.5, "", "waste",
       "judgement, from p^G + (1-p)^G at pass rates of 20-80 %"),
    _T("dead-groups-solved", "dead-groups", "share of groups with one reward", "above", 0.8, "", "waste", JUDGEMENT,
       "after a `reward` that rose to 0.9 of its best"),
    _T("dead-groups-few", "dead-groups", "groups seen since they are dead", "below", 16, "groups", "waste", JUDGEMENT,
       "then it is not yet dead; a row counts as one group where their number is not known"),
    _T("no-gradient-share", "no-gradient", "share of rows with `grad_norm` exactly 0", "at least", 0.9, "", "dead",
       JUDGEMENT),
    _T("no-gradient-some", "no-gradient", "share of rows with `grad_norm` exactly 0", "at least", 0.5, "", "waste",
       JUDGEMENT),
    _T("no-gradient", "no-gradient", "last rows with `grad_norm` exactly 0", "at least", 3, "rows", "dead",
       "run; trl#3857"),
    _T("sampler-dead", "sampler-mismatch", "`sampling/importance_sampling_ratio/mean`", "below", 0.1, "", "dead",
       "judgement: nine tenths of the gradient are gone"),
    _T("sampler-low", "sampler-mismatch", "`sampling/importance_sampling_ratio/mean`", "below", 0.5, "", "waste",
       "verl check_rollout_correction_health"),
    _T("sampler-high", "sampler-mismatch", "`sampling/importance_sampling_ratio/mean`", "above", 2.0, "", "waste",
       "verl check_rollout_correction_health"),
    _T("sampler-long", "sampler-mismatch-long", "`completions/mean_length`", "at least", 1000, "tokens", "waste",
       "judgement; trl#5814", "with the ratio below 0.5 and a config without top_p, top_k, min_p, repetition_penalty"),
    _T("sampler-drift-waste", "sampler-drift", "`sampling/sampling_logp_difference/mean`", "above", 0.11, "nats",
       "waste", "from KL 0.01 (Tinker) for Gaussian differences"),
    _T("sampler-drift", "sampler-drift", "`sampling/sampling_logp_difference/mean`", "above", 0.036, "nats", "tell",
       "from KL 0.001 (NeMo-RL) for Gaussian differences"),
    _T("expert-mismatch", "expert-mismatch", "rows where `grad_norm` spikes as the log-probability difference does",
       "at least", 2, "rows", "waste", JUDGEMENT),
    _T("cispo-epsilon-high", "cispo-epsilon-high", "`cispo_clip_ratio`", "above", 0.3, "", "waste",
       "run: near the share of positive advantages"),
    _T("kl-at-start-waste", "kl-at-start", "first `kl`", "above", 0.5, "nats", "waste", "judgement; trl#3500"),
    _T("kl-at-start", "kl-at-start", "`kl` of step 1, logged alone", "above", 1e-4, "nats", "tell",
       "run: exactly 0 without dropout, 0.0009 with it"),
    _T("kl-level", "kl-growth", "`kl`", "above", 1.0, "nats", "waste", JUDGEMENT, "and above its start"),
    _T("kl-growth", "kl-growth", "`kl` / its first rows", "above", 10, "times", "tell", JUDGEMENT,
       "and above 0.1 nats (judgement)"),
    _T("entropy-collapse", "entropy-collapse", "`entropy`", "below", 0.1, "nats", "waste",
       "judgement; Skywork holds 0.2", "having begun above twice that, while dead groups grow; else a tell"),
    _T("entropy-drop", "entropy-collapse", "loss of `entropy` since the first rows", "at least", 0.8, "", "waste",
       "judgement; rllm#116", "while dead groups grow; else a tell"),
    _T("entropy-off-policy", "entropy-collapse-off-policy", "`clip_ratio/high_mean`", "above", 0, "", "waste", "run",
       "with `entropy-collapse`, off-policy"),
    _T("entropy-rise", "entropy-rise", "`entropy` / its first rows", "above", 2.0, "times", "tell", JUDGEMENT),
    _T("clipping", "clipping", "`clip_ratio/region_mean`", "above", 0.3, "", "waste", JUDGEMENT,
       "per token; per sequence (GSPO) it is normal, so a tell where the config does not say which"),
    _T("clipping-long", "clipping-long", "`completions/mean_length`", "at least", 1000, "tokens", "waste", JUDGEMENT,
       "with `clipping`"),
    _T("inert-settings", "inert-settings", "last rows with `clip_ratio/region_mean` exactly 0", "at least", 10, "rows",
       "tell", "run", "with a setting that acts off-policy only"),
    _T("length-growth", "length-growth", "`completions/mean_length` / its first rows", "above", 1.5, "times", "waste",
       JUDGEMENT, "while `reward` does not rise"),
    _T("length-bias", "length-bias", "correlation of length and advantage inside groups, either sign", "above", 0.5,
       "", "tell", JUDGEMENT),
    _T("held-out-falls", "held-out-falls", "share of the run over which `eval_reward` falls and `reward` rises",
       "at least", 0.3, "", "waste", JUDGEMENT),
    _T("part-falls", "part-falls", "share of the run over which one reward falls and `reward` rises", "at least", 0.3,
       "", "tell", JUDGEMENT),
    *(_T(name, name, f"share of the best-paid texts with {what}", "at least", 0.3, "", "waste", JUDGEMENT,
         "and twice the share among the worst paid; a tell where a reward for right answers rises and nothing falls")
      for name, what in _SIGNS.items()),
    *(_T(f"{name}-grown", name, f"share of all texts with {what}, in the last third of the files", "at least", 0.8, "",
         "waste", JUDGEMENT, "and twice the share of the first third, while `reward` rises")
      for name, what in _SIGNS.items()),
    _T("touches-tests-waste", "touches-tests", "share of the best-paid texts that reach for the test runner",
       "at least", 0.3, "", "waste", JUDGEMENT, "and twice the share among the worst paid"),
    _T("touches-tests", "touches-tests", "share of the best-paid texts that reach for the test runner", "above", 0, "",
       "tell", JUDGEMENT),
    _T("reward-dominance", "reward-dominance", "share of one reward in the variance inside groups", "above", 0.95, "",
       "tell", "judgement; trl#4785", "and another reward varies too"),
    _T("tiny-differences", "tiny-differences", "share of live groups whose rewards differ by under 1 % of the batch",
       "above", 0.3, "", "tell", "judgement; run: 0.001 becomes an advantage of 1", 'with `scale_rewards="group"`'),
    _T("not-moving", "not-moving", "generations without a trend in `reward`", "at least", 100, "generations", "tell",
       "judgement; a trend is 2 standard errors"),
    _T("not-moving-long", "not-moving", "generations without a trend in `reward`", "at least", 1000, "generations",
       "waste", "judgement; a trend is 2 standard errors"),
    _T("reward-falls", "reward-falls", "fall of `reward` from its first to its last third", "above", 4,
       "standard errors", "waste", JUDGEMENT, "and above a tenth of what it was, over 20 rows or more"),
    _T("not-moving-bf16", "not-moving", "generations without a trend in `reward`", "at least", 40, "generations",
       "waste", "judgement; a trend is 2 standard errors", "and weights in bf16 at a rate that rounds"),
    _T("not-moving-rate", "not-moving", "generations without a trend in `reward`", "at least", 20, "generations",
       "waste", "judgement; a trend is 2 standard errors", "and a `learning_rate` that explains it"),
    _T("rate-low", "not-moving", "`learning_rate` at its peak", "below", 5e-7, "", "waste",
       "judgement: half of TRL's default", "full fine-tuning"),
    _T("rate-low-lora", "not-moving", "`learning_rate` at its peak", "below", 1e-5, "", "waste",
       "judgement; trl#2872", "LoRA"),
    _T("rate-low-bf16", "not-moving", "`learning_rate` at its peak", "below", 1e-5, "", "waste",
       "run: at 1e-6 2 % of bf16 weights move in 30 steps, at 1e-5 15 %", "weights in bf16"),
    _T("policy-collapse", "policy-collapse", "last rows with one `reward`, lower than at first", "at least", 10, "rows",
       "dead", JUDGEMENT, "after rewards that differed, and the texts changed with it"),
    _T("rate-high", "policy-collapse", "`learning_rate` at its peak", "above", 1e-4, "", "dead", JUDGEMENT,
       "confirms the cause in full fine-tuning; 1e-3 with LoRA"),
    _T("grad-spikes", "grad-spikes", "`grad_norm` / its median", "above", 10, "times", "tell", JUDGEMENT),
    _T("entropy-coef-at-max", "entropy-coef-at-max", "last rows with `entropy_coef` at its maximum", "at least", 3,
       "rows", "tell", "TRL 1.16 source"),
    _T("tool-failures", "tool-failures", "`tools/failure_frequency`", "above", 0.5, "", "waste", JUDGEMENT),
    _T("aux-loss", "aux-loss-growth", "`aux_loss` / its first rows", "above", 10, "times", "tell", JUDGEMENT),
    _T("stalls", "stalls", "95th percentile of `step_time` / its median", "above", 3, "times", "tell", JUDGEMENT),
    _T("stalls-waste", "stalls", "share of the time spent in stalled steps", "at least", 0.2, "", "waste", JUDGEMENT,
       "a stalled step takes over 3 times the median"),
    _T("slow-generation", "slow-generation", "correlation of `step_time` and `completions/max_length`", "above", 0.8,
       "", "tell", JUDGEMENT, "over 20 rows or more, without vLLM"),
    _T("throughput-drop", "throughput-drop", "tokens per second / its first rows", "below", 0.5, "times", "tell",
       JUDGEMENT),
    _T("several-runs", "several-runs", "times that the steps begin again", "at least", 1, "times", "tell", "run"),
    _T("duplicate-names", "duplicate-names", "reward functions that share a name", "at least", 1, "names", "waste",
       "TRL 1.16 source: one column, one metric for both", "by the config; a tell where only the log hints at it"),
    _T("unlike-expected", "unlike-expected", "mean `reward` of the last five steps, below the lowest of three seeds by",
       "above", 0.4, "reward", "waste", "judgement: above the gap between two of the seeds", "for examples/sums.yaml"),
    _T("columns-differ", "columns-differ", "reward names in only one of log and completions", "at least", 1, "names",
       "tell", "run"),
)  # fmt: skip
BY_KEY = {one.key: one for one in THRESHOLDS}


# ---- findings


@dataclass(frozen=True)
class Kind:
    """What a finding is called, what it is not, which row of the failure table it is, what it explains.

    A finding that another one explains is told inside that one: five names for one fault help nobody.
    """

    title: str
    isnt: str = ""
    failure: str | None = None
    explains: tuple[str, ...] = ()


_NO_SIGNAL = ("prompt-only-reward", "dead-groups", "no-gradient", "not-moving", "silent-reward", "length-bias",
              "reward-falls")  # fmt: skip
_SIGN = "a sign in a text proves nothing: read the rows"
_LED_TO = ("entropy-collapse", "entropy-collapse-off-policy", "duplicate-completions", "constant-reward", "dead-groups",
           "no-gradient", "not-moving", "length-bias", "part-falls")  # fmt: skip
KINDS = {
    "no-steps": Kind("No training step was made", "not a fault of the model or the reward: neither was used"),
    "non-finite-gradient": Kind(
        "The gradient is not a number", "a null `clip_ratio/low_min` is something else: everything was masked",
        explains=("constant-reward", *_NO_SIGNAL, "all-cut", "cut-answers", "entropy-collapse",
                  "entropy-collapse-off-policy", "duplicate-completions", "non-finite-reward", "not-a-number"),
    ),
    "rate-zero": Kind("The learning rate is 0", "warm-up begins at 0, and leaves it", explains=("not-moving",)),
    "policy-collapse": Kind(
        "The policy was destroyed", "not a reward that broke: the texts changed with it",
        explains=("all-cut", "cut-answers", "constant-reward", *_NO_SIGNAL, "entropy-collapse",
                  "entropy-collapse-off-policy", "entropy-rise", "duplicate-completions", "kl-growth", "length-growth",
                  "grad-spikes", "throughput-drop", "masked-away", "not-a-number"),
    ),
    "all-none": Kind(
        "The rewards return None", "not a low reward: None means unscored, and `frac_reward_zero_std` shows 0",
        explains=("constant-reward", *_NO_SIGNAL, "non-finite-reward", "not-a-number"),
    ),
    "non-finite-reward": Kind(
        "A reward is infinite", "NaN is no such fault: TRL takes it as None",
        explains=("no-gradient", "dead-groups"),
    ),
    "masked-away": Kind(
        "The mask removes the completions", "the filter itself is sound where few answers are cut", None,
        ("all-cut", "cut-answers", "constant-reward", *_NO_SIGNAL, "entropy-collapse", "entropy-collapse-off-policy",
         "inert-settings", "not-a-number"),
    ),
    "all-cut": Kind(
        "Answers are cut at the limit", "`mask_truncated_completions=True` is no cure here: it masks what is left",
        explains=("constant-reward", *_NO_SIGNAL, "cut-answers", "length-growth", "inert-settings"),
    ),
    "constant-reward": Kind(
        "Every completion gets the same reward", "a loss of 0 is only the consequence; more steps do not mend it",
        explains=(*_NO_SIGNAL, "inert-settings"),
    ),
    "duplicate-completions": Kind(
        "The completions of a group are the same", "not a fault of the reward: equal texts must score alike",
        explains=("prompt-only-reward", "dead-groups", "no-gradient", "not-moving"),
    ),
    "prompt-only-reward": Kind(
        "The reward depends on the prompt only", "`reward_std` above 0 proves nothing: it is over the batch",
        explains=("dead-groups", "no-gradient", "not-moving"),
    ),
    "dead-groups": Kind(
        "Most groups teach nothing", "`reward_std` is no group signal since TRL 0.28", "dead-groups",
        ("no-gradient", "not-moving", "inert-settings"),
    ),
    "sampler-mismatch": Kind(
        "The importance weights starve the gradient", "a ratio max below 3 proves nothing: it is logged after the cut",
        "sampler-mismatch", ("sampler-drift", "not-moving"),
    ),
    "sampler-mismatch-long": Kind(
        "Long completions lose their importance weight", "not a wrong sampler: a product over thousands of tokens",
        "sampler-mismatch-long", ("sampler-drift", "not-moving"),
    ),
    "no-gradient": Kind("The gradient is exactly 0", "a loss of 0 alone would not be a fault", None, ("not-moving",)),
    "cispo-epsilon-high": Kind("CISPO's weights are cut", "not the other losses' clip: here the weight is capped"),
    "silent-reward": Kind("One reward always says the same", "not dead as long as another reward separates answers"),
    "cut-answers": Kind("Some answers are cut at the limit", "a few per cent are normal", "cut-answers"),
    "kl-at-start": Kind("The policy differs from the reference at once", "not learning: nothing was learned yet"),
    "kl-growth": Kind("The policy leaves the reference", "some growth is what learning looks like"),
    "entropy-collapse": Kind(
        "The policy has lost its variety", "low entropy with a high, rising reward and live groups is learning",
        "entropy-collapse", ("duplicate-completions", "dead-groups", "no-gradient", "not-moving", "boilerplate"),
    ),
    "entropy-collapse-off-policy": Kind(
        "The policy has lost its variety, and the clip helps", "low entropy with live groups is learning",
        "entropy-collapse-off-policy",
        ("duplicate-completions", "dead-groups", "no-gradient", "not-moving", "boilerplate"),
    ),
    "expert-mismatch": Kind(
        "Gradient spikes come with sampler mismatch", "not the learning rate alone", "expert-mismatch",
        ("grad-spikes", "sampler-drift"),
    ),
    "clipping": Kind("The clip cuts much of the gradient", "per sequence (GSPO) 0.3 to 0.7 is normal", "clipping"),
    "clipping-long": Kind(
        "The clip cuts much of the gradient, in long completions", "per sequence (GSPO) 0.3 to 0.7 is normal",
        "clipping-long", ("clipping",),
    ),
    "length-growth": Kind(
        "Completions grow, the reward does not", "growth with a rising reward is reasoning", "length-growth",
        ("length-bias", "repetition", "boilerplate"),
    ),
    "held-out-falls": Kind(
        "The reward rises, the held-out reward falls", "one falling evaluation is noise", "held-out-falls",
    ),
    "many-answers": Kind("Several answers in one text are paid for", _SIGN, None, _LED_TO),
    "empty-blocks": Kind("Empty blocks are paid for", _SIGN, None, _LED_TO),
    "repetition": Kind("Repetition is paid for", _SIGN, None, ("all-cut", "cut-answers", *_LED_TO)),
    "copied-prompt": Kind("Copies of the prompt are paid for", _SIGN, None, _LED_TO),
    "boilerplate": Kind("A phrase for every prompt is paid for", _SIGN, None, _LED_TO[2:]),
    "touches-tests": Kind("Well-paid code reaches for the test runner", _SIGN, None, _LED_TO),
    "tool-failures": Kind("Tool calls fail", "a model that calls no tool has a frequency of 0, not of 1"),
    "part-falls": Kind("One reward falls while the sum rises", "a trade may be wanted: then weigh it"),
    "not-moving": Kind("The reward has no trend", "a plateau at the ceiling is success; the gradient is alive"),
    "reward-falls": Kind("The reward falls", "a curriculum that becomes harder looks alike"),
    "not-a-number": Kind("A metric is no number", "not absent, and not fine: it was logged as NaN, inf or null"),
    "sampler-drift": Kind("Sampler and trainer disagree", "0.03 nats are bf16 noise (Fast-LLM#525)"),
    "reward-dominance": Kind(
        "One reward decides", "a saturated second reward does not vary and is not drowned", "reward-dominance",
    ),
    "tiny-differences": Kind("Tiny differences get full advantages", "`reward_std` does not show it"),
    "length-bias": Kind("Length and advantage go together", "not a fault if long answers are the right ones"),
    "entropy-rise": Kind("The policy becomes noisier", "a bonus on entropy is meant to do that"),
    "grad-spikes": Kind("The gradient spikes", "`max_grad_norm` cuts the step; a few are harmless"),
    "inert-settings": Kind("A setting for off-policy training does nothing", "a clip ratio of 0 is normal on-policy"),
    "entropy-coef-at-max": Kind("The entropy bonus is stuck at its maximum", "a high target, not a broken controller"),
    "aux-loss-growth": Kind("The router's auxiliary loss grows", "it is not part of the reward"),
    "slow-generation": Kind("Generation takes the step's time", "not the reward, nor the update", "slow-generation"),
    "stalls": Kind("Some steps take several times as long", "the first step is always slow, and is left out"),
    "throughput-drop": Kind("Fewer tokens per second than at the start", "not a fault of learning"),
    "ended-early": Kind("The run ended before its last step", "a run that is still being written is not told so"),
    "several-runs": Kind(
        "Several runs, or a resumed one, lie in one place", "a resumed run is no fault: its newest rows count",
    ),
    "duplicate-names": Kind(
        "Two reward functions share a name", "not lost for training: only the log and the completions mix them up",
    ),
    "unlike-expected": Kind(
        "The example learns less than it did elsewhere", "not a threshold for other runs: it holds for one example",
    ),
    "columns-differ": Kind("Log and completions name different rewards", "columns a reward logs itself are extra"),
}  # fmt: skip
ORDER = list(KINDS)


def cause(text: str, tell: str, confirmed: bool | None = None, evidence: str = "") -> dict:
    """A likely cause, how to tell it from the user's own files, and whether they already did."""
    return {"cause": text, "how_to_tell": tell, "confirmed": confirmed, "evidence": evidence}


def setting(text: str = "", **arguments: Any) -> dict:
    """A change to make: exact TRL arguments, and what they are for."""
    return {**({"set": arguments} if arguments else {}), **({"text": text} if text else {})}


@functools.cache
def _failures() -> dict:
    import variants

    return variants.failures()


def finding(id: str, key: str, seen: list[dict], causes: list[dict], fix: list[dict], *, severity: str | None = None,
            steps: tuple[float, float] | None = None, share: float = 1.0, rows: list[dict] = (),
            isnt: str = "") -> dict:  # fmt: skip
    """One entry of `findings`. Confirmed causes come first, refuted ones last."""
    kind, threshold = KINDS[id], BY_KEY[key]
    failure = _failures()[kind.failure] if kind.failure else None
    first = min((one["first_step"] for one in seen if one["first_step"] is not None), default=None)
    last = max((one["last_step"] for one in seen if one["last_step"] is not None), default=None)
    return {
        "id": id, "severity": severity or threshold.severity, "title": kind.title, "seen": seen,
        "threshold": {"text": threshold.text(), "value": threshold.value, "unit": threshold.unit,
                      "source": threshold.source},
        "causes": sorted(causes, key=lambda one: {True: 0, None: 1, False: 2}[one["confirmed"]]),
        "fix": fix, "variant": failure.tries[0] if failure else None, "failure": kind.failure,
        "not": isnt or kind.isnt, "rows": list(rows), "steps": list(steps or (first, last)), "share": round(share, 4),
        "explains": [],
    }  # fmt: skip


def fine(id: str, text: str) -> dict:
    return {"fine": id, "text": text}


def unmeasured(id: str, why: str, mend: str) -> dict:
    return {"unmeasured": id, "why": why, "mend": mend}


# ---- what a run is


@dataclass
class Series:
    """A metric over steps. `values` holds NaN where the log says NaN or null."""

    steps: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.steps)

    def finite(self) -> "Series":
        keep = np.isfinite(self.values)
        return Series(self.steps[keep], self.values[keep])


@dataclass
class Batch:
    """Statistics of one completions file: one generation. Texts are counted, not kept."""

    step: int
    rows: int
    size: int = 0  # completions per group; 0: not known
    groups: int = 0
    dead: int = 0  # groups with one reward, or none, or killed by an infinite one
    tiny: int = 0  # live groups whose rewards differ by less than 1 % of the batch's
    none: int = 0  # completions without any reward
    infinite: int = 0
    low: float = math.nan  # least and greatest total reward that is finite
    high: float = math.nan
    names: tuple[str, ...] = ()
    means: dict[str, float] = field(default_factory=dict)
    spread: dict[str, float] = field(default_factory=dict)  # mean variance inside groups, times the weight squared
    constant: tuple[str, ...] = ()
    between: bool = False  # the groups' means differ
    zero: float = math.nan  # share of advantages that are 0; NaN where some are not known
    unpaid: int = 0  # groups whose rewards differ and whose advantages are all 0
    read: bool = False  # whether texts were read
    copies: float = math.nan
    lengths: tuple[float, float, float] = (0.0, 0.0, 0.0)  # sums of xx, yy, xy inside groups
    signs: dict[str, tuple[int, int]] = field(default_factory=dict)  # among best and worst paid
    best: int = 0
    worst: int = 0
    texts: Counter = field(default_factory=Counter)  # how completions end, and what they hold
    examples: dict[str, list[dict]] = field(default_factory=dict)
    digest: str = ""
    prompts: dict[int, float] = field(default_factory=dict)  # prompt's hash -> the one reward of its group, or NaN


@dataclass
class Run:
    """What was read of a run."""

    series: dict[str, Series] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    state: str = "unknown"  # finished, running, stopped, unknown
    settings: Any = None  # preflight_config.Settings
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def get(self, name: str) -> Series | None:
        """The metric where it has at least one finite value."""
        one = self.series.get(name)
        return one if one is not None and np.isfinite(one.values).any() else None

    def known(self, name: str) -> Any:
        """A setting of the run, or None where no config says it."""
        if self.settings is None:
            return None
        import preflight_config

        try:
            return self.settings.get(name)
        except preflight_config.NotKnown:
            return None

    def given(self, name: str) -> bool:
        return self.settings is not None and self.settings.given(name)

    def where(self, *names: str) -> str:
        return self.settings.say(*names) if self.settings is not None else "no config was given"

    @functools.cached_property
    def rewards(self) -> list[str]:
        """Names of the reward functions, in their order where that is known: see `ordered`."""
        return self._rewards[0]

    @functools.cached_property
    def ordered(self) -> bool:
        """Whether `rewards` is in the order of reward_funcs, and so of reward_weights: the log is sorted by name."""
        return self._rewards[1]

    @functools.cached_property
    def _rewards(self) -> tuple[list[str], bool]:
        logged = [key[len("rewards/") : -len("/mean")] for key in self.series
                  if key.startswith("rewards/") and key.endswith("/mean")]  # fmt: skip
        filed = list(self.batches[-1].names) if self.batches else []
        if not logged:
            return filed, bool(filed)
        written = self.settings.rewards if self.settings is not None and self.settings.rewards else []
        for order in (filed, [one.rpartition(".")[2].rpartition("/")[2] for one in written]):
            if set(order) == set(logged):
                return order, True
        return logged, len(logged) < 2

    @functools.cached_property
    def log_end(self) -> float:
        """The log's last step with a gradient or a reward; -inf without a log."""
        ends = [one.steps[-1] for name in ("reward", "grad_norm") if len(one := self.series.get(name, ()))]
        return float(max(ends, default=-math.inf))

    @functools.cached_property
    def later(self) -> list[Batch]:
        """Generations after the log's last row: a state is written with a checkpoint, a file with every logged step."""
        return [one for one in self.batches if one.step > self.log_end] if math.isfinite(self.log_end) else []

    @functools.cached_property
    def generations(self) -> int:
        """Generations seen: the log's rows and the files after them, or the files alone."""
        return max(len(self.series.get("reward", ())) + len(self.later), len(self.batches))

    @functools.cached_property
    def dead_shares(self) -> tuple[Series | None, str]:
        """Share of dead groups by step, and where it was read.

        The log has more rows than the completions; it is taken unless it is blind. Whether it is, the config says, or
        the steps that both have.
        """
        grouped = [one for one in self.batches if one.groups]
        files = None
        if grouped:
            files = Series(np.array([one.step for one in grouped], float),
                           np.array([one.dead / one.groups for one in grouped]))  # fmt: skip
        log = self.get("frac_reward_zero_std")
        blind = self.blind(files, log)
        if log is not None and not blind:
            later = [one for one in self.later if one.groups]
            if later:
                steps, values = [one.step for one in later], [one.dead / one.groups for one in later]
                return (
                    Series(np.r_[log.steps, steps], np.r_[log.values, values]),
                    f"`frac_reward_zero_std`, after step {log.steps[-1]:g} {len(later)} completions files",
                )
            return log, "`frac_reward_zero_std`"
        if files is not None:
            return files, f"rewards per group in {len(grouped)} completions files"
        return (None, blind or "neither `frac_reward_zero_std` nor completions files")

    def blind(self, files: Series | None, log: Series | None) -> str:
        if self.known("scale_rewards") == "batch":
            return '`frac_reward_zero_std` is blind with `scale_rewards="batch"`'
        if self.known("multi_objective_aggregation") == "normalize_then_sum":
            return "`frac_reward_zero_std` is blind with `normalize_then_sum`"
        reward = self.series.get("reward")
        if reward is not None and not np.isfinite(reward.values).any():
            return "`frac_reward_zero_std` is blind where every reward is None"
        if files is not None and log is not None:
            common, ours, theirs = np.intersect1d(files.steps, log.steps, return_indices=True)
            differ = len(common) and np.mean(np.abs(files.values[ours] - log.values[theirs]) > 0.1) > 0.5
            zero = [one.zero > 1 - 1e-9 for one in self.batches if one.groups]  # advantages hold weights and scaling
            sure = len(zero) >= LEAST and all(zero)
            if differ and (sure or self.info.get("logging_steps", 1) == 1 or log.values.max() < 0.01):
                return "`frac_reward_zero_std` is not what the rewards per group say: blind in this run"
        return ""

    @functools.cached_property
    def off_policy(self) -> bool | None:
        """Whether one generation serves several optimizer steps; None where nothing tells."""
        if self.settings is not None:
            steps, accumulation = self.known("steps_per_generation"), self.known("gradient_accumulation_steps")
            rounds = self.known("num_iterations")
            if accumulation and rounds:
                if steps is None and self.known("generation_batch_size") is None:
                    return rounds > 1
                if steps is not None:
                    return accumulation % (steps * rounds) != 0
        gradient, reward = self.series.get("grad_norm"), self.series.get("reward")
        if gradient is not None and reward is not None and len(reward) and len(gradient) > 1.5 * len(reward):
            return True
        clip = self.get("clip_ratio/region_mean")
        return True if clip is not None and np.nanmax(clip.values) > 0 else None

    @functools.cached_property
    def limit(self) -> int | None:
        """`max_completion_length`: the config's, else the longest completion of a row in which one was cut."""
        if self.given("max_completion_length"):
            return self.known("max_completion_length")
        longest, cut = self.get("completions/max_length"), self.get("completions/clipped_ratio")
        if longest is not None and cut is not None and np.nanmax(cut.values) > 0:
            return int(longest.finite().values.max())
        return None

    @functools.cached_property
    def text_counts(self) -> Counter:
        total: Counter = Counter()
        for one in self.batches:
            total.update(one.texts)
        return total

    def rows(self, kind: str, most: int = 4) -> list[dict]:
        """Rows to read: the latest files first."""
        found = [row for one in reversed(self.batches) for row in one.examples.get(kind, [])]
        return found[:most]

    def best_rows(self, most: int = 5) -> list[dict]:
        found = [row for one in self.batches for row in one.examples.get("best", [])]
        return sorted(found, key=lambda row: -(row["advantage"] or 0))[:most]


# ---- windows


def window(count: int) -> int:
    """Rows at the end of a series that count as now: a fifth, at least 5 (judgement)."""
    return min(count, max(5, math.ceil(count / 5)))


def seen(metric: str, series: Series, text: str = "") -> dict:
    """What a metric did, for `seen`."""
    finite = series.finite()
    if not len(finite):
        return {"metric": metric, "first_step": _number(series.steps[0]), "last_step": _number(series.steps[-1]),
                "values": {}, "text": text or f"{metric}: no number in {len(series)} rows"}  # fmt: skip
    now = finite.values[-window(len(finite)) :]
    values = {"first": finite.values[0], "last": finite.values[-1], "min": finite.values.min(),
              "max": finite.values.max(), "mean": finite.values.mean(), "recent": now.mean()}  # fmt: skip
    values = {name: _number(value) for name, value in values.items()}
    return {
        "metric": metric, "first_step": _number(finite.steps[0]), "last_step": _number(finite.steps[-1]),
        "values": values,
        "text": text or f"{metric}: {values['recent']:.3g} now, {values['first']:.3g} at first, {values['min']:.3g} to "
        f"{values['max']:.3g} over {len(finite)} rows",
    }  # fmt: skip


def told(metric: str, text: str, steps: tuple | None = None, **values: float) -> dict:
    """A `seen` that is no series of the log."""
    first, last = steps or (None, None)
    return {"metric": metric, "first_step": _number(first), "last_step": _number(last),
            "values": {name: _number(value) for name, value in values.items()}, "text": text}  # fmt: skip


def _number(value: Any) -> Any:
    """A plain number for JSON: finite, whole steps as int, six digits."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if float(value).is_integer() and abs(value) < 1e15 else float(f"{float(value):.6g}")


@dataclass
class Level:
    """Which threshold a series fails, and when."""

    threshold: Threshold
    severity: str
    when: str
    share: float
    steps: tuple[float, float]


def level(series: Series, *keys: str) -> Level | None:
    """The gravest threshold that the recent mean fails; else one that start or whole failed, healed since: a tell.

    >>> steps = np.arange(100.0)
    >>> level(Series(steps, np.full(100, 0.9)), "dead-groups", "dead-groups-waste").when
    'over the whole run'
    >>> healed = level(Series(steps, np.where(steps < 30, 0.9, 0.1)), "dead-groups", "dead-groups-waste")
    >>> healed.severity, healed.when
    ('tell', 'at the start; healed since step 30')
    """
    finite = series.finite()
    if not len(finite):
        return None
    size = window(len(finite))
    values, steps = finite.values, finite.steps
    for key in keys:
        threshold = BY_KEY[key]
        bad = np.array([threshold.hit(value) for value in values])
        if threshold.hit(values[-size:].mean()):
            begun = steps[np.argmax(bad)] if bad.any() else steps[-size]
            if threshold.hit(values.mean()) and threshold.hit(values[:size].mean()):
                when = "over the whole run"
            else:
                good = np.flatnonzero(~bad[:-size]) if len(bad) > size else []
                begun = steps[min(good[-1] + 1, len(steps) - 1)] if len(good) else begun
                when = f"since step {begun:g}"
            return Level(threshold, threshold.severity, when, float(bad.mean()), (float(begun), float(steps[-1])))
    for key in keys:
        threshold = BY_KEY[key]
        if len(values) >= 2 * size and threshold.hit(values[:size].mean()):
            bad = np.array([threshold.hit(value) for value in values])
            last = steps[min(np.flatnonzero(bad)[-1] + 1, len(steps) - 1)] if bad.any() else steps[size]
            return Level(threshold, "tell", f"at the start; healed since step {last:g}", float(bad.mean()),
                         (float(steps[0]), float(last)))  # fmt: skip
    return None


def tail(flags: np.ndarray) -> int:
    """How many of the last rows hold.

    >>> tail(np.array([True, False, True, True]))
    2
    """
    broken = np.flatnonzero(~flags)
    return int(len(flags) - (broken[-1] + 1 if len(broken) else 0))


def rises(series: Series, sure: float = 2.0) -> int:
    """1 if the last third lies above the first by `sure` standard errors, -1 if below, 0 if neither (judgement).

    >>> rises(Series(np.arange(30.0), np.arange(30.0))), rises(Series(np.arange(30.0), np.ones(30)))
    (1, 0)
    """
    values = series.finite().values
    third = len(values) // 3
    if third < 2:
        return 0
    first, last = values[:third], values[-third:]
    error = math.sqrt(first.var(ddof=1) / third + last.var(ddof=1) / third)
    gap = last.mean() - first.mean()
    if abs(gap) < 1e-9:
        return 0
    return int(np.sign(gap)) if abs(gap) > sure * error else 0


# ---- the checks

Outcome = Iterator[dict]


@dataclass(frozen=True)
class Check:
    ids: tuple[str, ...]
    run: Callable[[Run], Outcome]


CHECKS: list[Check] = []


def check(*ids: str):
    """Register a check with the findings it may make."""

    def register(function):
        CHECKS.append(Check(ids, function))
        return function

    return register


LOG = "give the run's trainer_state.json, or an export of its log"
FILES = "set log_completions=True: TRL then writes completions/*.parquet"

VLLM = "nothing to do without vLLM; else look at use_vllm and vllm_importance_sampling_correction"


def absent(run: Run, id: str, text: str) -> dict:
    """What is not in a log that is there is not used; without a log nothing is known."""
    logged = any(name in run.series for name in ("reward", "grad_norm", "loss"))
    return fine(id, text) if logged else unmeasured(id, "no log was read", LOG)


def _more(run: Run) -> str:
    """What makes a check on live groups possible."""
    return "wait for groups that differ" if run.batches else FILES


@check("no-steps", "ended-early")
def _steps(run: Run) -> Outcome:
    rows, done, most = run.info.get("log_rows", 0), run.info.get("global_step"), run.info.get("max_steps")
    if run.state in ("finished", "stopped") and BY_KEY["no-steps"].hit(rows) and not done:
        yield finding(
            "no-steps", "no-steps", [told("log_history", f"no row of training in {run.info.get('folder')}")],
            [cause("fewer prompts than one generation batch needs",
                   "count prompts: generation_batch_size / num_generations are needed"),
             cause("resumed from a checkpoint that had reached max_steps", "global_step of the checkpoint")],
            [setting("more prompts, or a smaller generation batch", generation_batch_size=run.known("num_generations")
                     or 8)],
        )  # fmt: skip
        return
    yield fine("no-steps", f"{rows} rows of training") if rows or run.batches else unmeasured(
        "no-steps", "no rows, and nothing says that the run has ended", LOG)  # fmt: skip
    if done is None or not most or most < 0 or run.state == "unknown":
        yield unmeasured("ended-early", "global_step and max_steps stand in trainer_state.json only",
                         "give the output directory")  # fmt: skip
    elif run.state == "stopped" and BY_KEY["ended-early"].hit(done / most):
        yield finding(
            "ended-early", "ended-early",
            [told("global_step", f"step {done} of {most}, and nothing new", (done, done), last=done)],
            [cause("it crashed or was killed", "the job's own output"),
             cause("the newest checkpoint is older than the end", "save_steps, and the console output"),
             cause("a reward hangs", "py-spy dump shows your reward on one rank")],
            [setting("resume from the last checkpoint: pass resume_from_checkpoint to trainer.train")],
            share=1 - done / most,
        )  # fmt: skip
    else:
        yield fine("ended-early", f"step {done} of {most}, {run.state}")


@check("non-finite-gradient")
def _finite_gradient(run: Run) -> Outcome:
    series = run.series.get("grad_norm")
    if series is None:
        yield unmeasured("non-finite-gradient", "no `grad_norm`", LOG)
        return
    bad = ~np.isfinite(series.values)
    count, share = tail(bad), float(bad.mean())
    enough = len(bad) >= 10  # a share of fewer rows is chance
    key = "non-finite-gradient" if BY_KEY["non-finite-gradient"].hit(count) else next(
        (key for key in ("non-finite-gradient-share", "non-finite-gradient-some") if enough and BY_KEY[key].hit(share)),
        None)  # fmt: skip
    if key:
        begun = series.steps[-count if key == "non-finite-gradient" else int(np.argmax(bad))]
        yield finding(
            "non-finite-gradient", key,
            [told("grad_norm", f"`grad_norm` is NaN, inf or null in the last {count} of {len(series)} rows, and in "
                  f"{share:.0%} of all", (begun, series.steps[-1]), rows=count, share=share)],
            [cause("weights became NaN: learning rate, or fp16 overflow", "the rows before: does `grad_norm` climb?",
                   True if run.known("fp16") else None, "fp16 is on" if run.known("fp16") else ""),
             cause("an infinite reward or log-probability", "`reward` and sampling/* of the same rows")],
            [setting("bf16 in place of fp16, a lower rate, from the checkpoint before", fp16=False, bf16=True,
                     max_grad_norm=0.2)], share=share,
        )  # fmt: skip
    else:
        yield fine("non-finite-gradient", f"`grad_norm` is a number in {int((~bad).sum())} of {len(bad)} rows")


@check("all-none", "non-finite-reward")
def _scored(run: Run) -> Outcome:
    reward = run.series.get("reward")
    rows = sum(one.rows for one in run.batches)
    if reward is None and not rows:
        yield unmeasured("all-none", "neither `reward` nor completions", LOG)
        yield unmeasured("non-finite-reward", "neither `reward` nor completions", LOG)
        return
    if reward is not None and run.info.get("nulls"):
        empty = np.isnan(reward.values)
        shares = Series(reward.steps, empty.astype(float))
    else:
        shares = Series(np.array([]), np.array([]))
    if rows and not (len(shares) and shares.values.any()):
        shares = Series(np.array([one.step for one in run.batches], float),
                        np.array([one.none / one.rows for one in run.batches]))  # fmt: skip
    hit = level(shares, "all-none", "some-none")
    if hit:
        counts = f" ({sum(one.none for one in run.batches)} of {rows} completions in the files)" if rows else ""
        yield finding(
            "all-none", hit.threshold.key,
            [told("reward", f"no reward for {shares.values.mean():.0%} of what was generated, {hit.when}{counts}",
                  hit.steps, share=shares.values.mean())],
            [cause("the dataset's column spells a task otherwise than the reward does",
                   "compare the column's values with those the reward tests for"),
             cause("the reward cannot read the gold and abstains", "run it on ten golds by hand"),
             cause("the reward returns nothing on some path", "a branch without return")],
            [setting("return a number for every completion that some reward should score; None only for other tasks")],
            severity=hit.severity, share=hit.share, rows=run.rows("none"),
        )  # fmt: skip
    else:
        yield fine("all-none", "completions are scored")
    bad = {float(step) for step, value in zip(reward.steps, reward.values) if np.isinf(value)} if reward else set()
    bad |= {float(one.step) for one in run.batches if one.infinite}
    total = max(run.generations, 1)
    key = "non-finite-reward-dead" if BY_KEY["non-finite-reward-dead"].hit(len(bad) / total) else "non-finite-reward"
    if BY_KEY[key].hit(len(bad) / total if key.endswith("dead") else len(bad)):
        killed = sum(one.infinite for one in run.batches)
        yield finding(
            "non-finite-reward", key,
            [told("reward", f"an infinite reward in {len(bad)} of {total} generations; {killed} such completions in "
                  "the files: each kills its whole group", (min(bad), max(bad)), generations=len(bad))],
            [cause("a division by 0, a log of 0 or an overflow in a reward", "the rows below: what is special there?")],
            [setting("clamp what the reward returns; return None where it cannot be computed")],
            share=len(bad) / total, rows=run.rows("infinite"),
        )  # fmt: skip
    else:
        yield fine("non-finite-reward", "no infinite reward")


def signal(run: Run) -> tuple[bool | None, str]:
    """Whether the groups still teach: None where nothing tells."""
    shares, where = run.dead_shares
    if shares is not None and len(shares.finite()):
        now = shares.finite().values
        value = now[-window(len(now)) :].mean()
        return not BY_KEY["dead-groups"].hit(value), f"{value:.0%} of the groups have one reward ({where})"
    gradient = run.get("grad_norm")
    if gradient is not None:
        now = gradient.finite().values[-window(len(gradient.finite())) :]
        return bool((now > 0).any()), f"`grad_norm` {now.mean():.3g}"
    return None, "neither groups nor `grad_norm` were seen"


@check("masked-away", "all-cut", "cut-answers")
def _cut(run: Run) -> Outcome:
    series = run.get("completions/clipped_ratio")
    if series is None:
        for id in ("masked-away", "all-cut", "cut-answers"):
            yield unmeasured(id, "no `completions/clipped_ratio`", LOG)
        return
    mask, inferred = run.known("mask_truncated_completions"), False
    if mask is None:  # everything masked leaves its own trace
        entropy, low = run.get("entropy"), run.series.get("clip_ratio/low_min")
        if entropy is not None and low is not None:
            mask = inferred = bool((entropy.values[np.isfinite(entropy.values)] == 0).any() and
                                   np.isnan(low.values).any())  # fmt: skip
    left = Series(series.steps, 1 - series.values)
    hit = level(left, "masked-away-dead", "masked-away") if mask else None
    cut = "completions/clipped_ratio"
    if hit:
        said = "`entropy` 0 and a null `clip_ratio/low_min`" if inferred else run.where("mask_truncated_completions")
        yield finding(
            "masked-away", hit.threshold.key, [seen(cut, series, f"{_recent(series):.0%} of the completions are cut "
                                                                f"and masked, {hit.when}")],
            [cause("mask_truncated_completions with a limit below the answers' length", "the config", True, said),
             *_cut_causes(run)],
            [setting("first a limit that answers fit", max_completion_length=_longer(run),
                     mask_truncated_completions=False)],
            severity=hit.severity, share=hit.share, steps=hit.steps, rows=run.rows("last"),
        )  # fmt: skip
    elif mask is None or (mask and not len(series.finite())):
        yield unmeasured("masked-away", "mask_truncated_completions is not known",
                         "--config grpo.yaml")  # fmt: skip
    else:
        yield fine("masked-away", "few completions are masked" if mask else "no mask")
    hit = level(series, "all-cut")
    if hit:
        teaches, why = signal(run)
        key = "all-cut-dead" if teaches is False and hit.severity != "tell" else "all-cut"
        ended = run.get("completions/mean_terminated_length")
        yield finding(
            "all-cut", key,
            [seen(cut, series, f"{_recent(series):.0%} of the completions have no end token, {hit.when}; {why}"),
             *([seen("completions/mean_terminated_length", ended)] if ended else [])],
            _cut_causes(run),
            [setting(f"{'the limit is ' + str(run.limit) + '; ' if run.limit else ''}double it until under 5 % are cut "
                     "(judgement), or take the 95th percentile of the untrained model's lengths",
                     max_completion_length=_longer(run)),
             setting("if texts end and go on: the chat end token belongs in eos_token_id of the generation config")],
            severity=hit.severity if hit.severity == "tell" else None, share=hit.share, steps=hit.steps,
            rows=run.rows("last"),
        )  # fmt: skip
    else:
        yield fine("all-cut", f"{_recent(series):.0%} of the completions are cut")
    hit = None if hit and hit.severity != "tell" else level(series, "cut-answers-waste", "cut-answers")
    if hit:
        few = hit.threshold.key == "cut-answers"
        one = finding(
            "cut-answers", hit.threshold.key,
            [seen(cut, series, f"{_recent(series):.0%} of the completions are cut, {hit.when}")],
            _cut_causes(run), [setting("a limit above the longest answers that end",
                                       max_completion_length=_longer(run))],
            severity=hit.severity, share=hit.share, steps=hit.steps, rows=run.rows("last"),
        )  # fmt: skip
        if few:
            one["fix"].append(setting("or leave cut answers out of the loss: only while few are cut",
                                      mask_truncated_completions=True))  # fmt: skip
        else:
            one["variant"] = None  # the mask would take too many
        yield one
    else:
        yield fine("cut-answers", f"{_recent(series):.0%} cut now")


def _recent(series: Series) -> float:
    values = series.finite().values
    return float(values[-window(len(values)) :].mean()) if len(values) else math.nan


def _longer(run: Run) -> int:
    """A limit to try: twice the present one; where few are cut, the longest that ended, and a quarter (judgement)."""
    cut, ended = run.get("completions/clipped_ratio"), run.get("completions/max_terminated_length")
    if cut is not None and ended is not None and _recent(cut) < 0.2 and run.limit:
        return max(run.limit + 1, math.ceil(1.25 * float(ended.finite().values.max())))
    return 2 * (run.limit or 512)


def _cut_causes(run: Run) -> list[dict]:
    """Limit or end token: what the texts say."""
    texts, ended = run.text_counts, run.get("completions/mean_terminated_length")
    read = texts["read"]
    some = ended is not None and np.nanmax(ended.values) > 0
    if not read:
        return [
            cause("the limit is too small", "texts stop in the middle of a sentence",
                  None, "some completions do end by themselves" if some else ""),
            cause("the end token is not recognised", "texts are finished, then go on: another turn, another answer",
                  False if some else None, "some completions do end: the token is known" if some else ""),
            cause("the model repeats itself", "the same words over and over"),
        ]  # fmt: skip
    open_, on, loop = (texts[name] / read for name in ("unfinished", "goes-on", "loops"))
    return [
        cause("the limit is too small", "texts stop in the middle of a sentence",
              True if open_ >= MOST and on < SOME and loop < SOME else None,
              f"{open_:.0%} of {read} texts end without a full stop or a closing tag"),
        cause("the end token is not recognised", "texts are finished, then go on: another turn, another answer",
              True if on >= SOME else False if some or on < FEW else None,
              f"{on:.0%} of {read} texts go on after an end-of-turn marker or a closed answer"
              + ("; some completions do end: the token is known" if some else "")),
        cause("the model repeats itself", "the same words over and over",
              True if loop >= SOME else False if loop < FEW else None, f"{loop:.0%} of {read} texts repeat themselves"),
    ]  # fmt: skip


@check("constant-reward", "silent-reward")
def _constant(run: Run) -> Outcome:
    reward, deviation = run.series.get("reward"), run.series.get("reward_std")
    if reward is None and not run.batches:
        yield unmeasured("constant-reward", "neither `reward` nor completions", LOG)
        yield unmeasured("silent-reward", "neither `rewards/<name>/mean` nor completions", LOG)
        return
    count, where, steps, value, total = _same(run, "reward", "reward_std", None)
    key, long = "constant-reward", BY_KEY["constant-reward"].hit(count)
    if where == "files":  # a file may hold one group or a hundred
        last = [one for one in run.batches if one.rows][total - count :]
        key = "constant-reward-files"
        long = count >= LEAST and BY_KEY[key].hit(sum(one.groups or one.rows / 8 for one in last))
    if long and (won := _won(run, count, value)):
        yield finding(
            "constant-reward", "reward-won",
            [told("reward", f"`reward` rose to {value:g} and is that for every completion in the last {count} of "
                  f"{total} {where}", steps, last=value, rows=count)],
            [cause("the prompts are solved: nothing is left to learn", "read ten rows: are they right?", None, won),
             cause("the reward was gamed", "the same ten rows", *_gamed(run))],
            [setting("stop here, or go on with harder prompts")], share=count / max(total, 1), rows=run.rows("last"),
            isnt="not a broken reward: it told answers apart before",
        )  # fmt: skip
    elif long:
        yield finding(
            "constant-reward", key,
            [told("reward", f"`reward` is {value:g} for every completion in the last {count} of {total} {where}",
                  steps, last=value, rows=count)],
            _constant_causes(run, value), _constant_fix(run), share=count / max(total, 1), rows=run.rows("last"),
        )  # fmt: skip
    elif total < LEAST:
        yield unmeasured("constant-reward", f"{total} generations so far", f"wait for {LEAST}")
    elif reward is not None and deviation is None and not run.batches and len(set(reward.values[-10:])) == 1:
        yield unmeasured("constant-reward", "`reward` does not move and `reward_std` is not there", LOG)
    else:
        yield fine("constant-reward", "rewards differ")
    if len(run.rewards) < 2:
        yield fine("silent-reward", "one reward only: see constant-reward") if run.rewards else unmeasured(
            "silent-reward", "no reward's name is known", LOG)  # fmt: skip
        return
    silent = []
    for name in run.rewards:
        logged = run.series.get(f"rewards/{name}/mean")
        if logged is not None and np.isnan(logged.values).all() and BY_KEY["unscored-reward"].hit(len(logged)):
            silent.append((name, len(logged), "rows", (logged.steps[0], logged.steps[-1]), math.nan, len(logged)))
            continue
        count, where, steps, value, total = _same(run, f"rewards/{name}/mean", f"rewards/{name}/std", name)
        if BY_KEY["silent-reward"].hit(count):
            silent.append((name, count, where, steps, value, total))
    # It has done its work: it rose to this, or fell to no penalty at all.
    top = [one for one in silent if _earned(run, one[0], one[1], one[4]) or (one[4] == 1 and one[1] < one[5])]
    silent = [one for one in silent if one not in top]
    # From the first row on: a default, a format that is never missed, a penalty that is never due.
    always = [one for one in silent if one[1] == one[5] and (one[4] > 0 or (one[4] == 0 and PENALTY.search(one[0])))]
    mild = len(always) == len(silent)
    silent = silent if mild else [one for one in silent if one not in always]
    key = "silent-from-the-start" if mild else "silent-reward"
    if silent and all(math.isnan(one[4]) for one in silent):
        key = "unscored-reward"
    if silent:
        tag = run.text_counts
        yield finding(
            "silent-reward", key,
            [told(f"rewards/{name}/mean", f"`rewards/{name}/mean` is no number in all {total} rows: it scores nothing"
                  if math.isnan(value) else f"`rewards/{name}/mean` is {value:g} for every completion in the last "
                  f"{count} of {total} {where}", steps, last=value) for name, count, where, steps, value, total
             in silent],
            [*([cause("nothing is wrong: every completion earns it, or no penalty is due", "read ten rows")] * mild),
             cause("the template already wrote the opening tag into the prompt", "completions hold `</think>` and no "
                   "`<think>`", None if not tag["read"] else tag["think-closed-only"] > SOME * tag["read"],
                   f"{tag['think-closed-only']} of {tag['read']} texts close a tag they did not open" if tag["read"]
                   else ""),
             *_constant_causes(run, silent[0][4])],
            [setting("mend this reward, or give it no weight: a format reward must take a missing opening tag "
                     "(trl#6966)")],
            share=silent[0][1] / max(silent[0][5], 1), rows=run.rows("last"),
        )  # fmt: skip
    else:
        said = f"; {', '.join(one[0] for one in top)} is earned by everything" if top else ""
        yield fine("silent-reward", "each reward varies" + said)


def _same(run: Run, mean: str, std: str, name: str | None) -> tuple[int, str, tuple, float, int]:
    """How many of the last rows (or files) had one reward for all, and that reward."""
    values, deviations = run.series.get(mean), run.series.get(std)
    if values is not None and deviations is not None and len(values) == len(deviations):
        # TRL's float32 std of eight times 0.6 is 6e-8, not 0.
        small = 1e-6 * np.maximum(1, np.abs(values.values))
        flags = np.isfinite(values.values) & (deviations.values <= small)
        count = tail(flags)
        while count and abs(values.values[-count] - values.values[-1]) > 1e-6:  # one value for all of these rows
            count -= 1
        value = float(values.values[-1]) if len(values) else math.nan
        begun, last = (values.steps[-count], values.steps[-1]) if count else (None, None)
        if run.later:  # what the log does not know yet
            same = np.array([_one_reward(one, name) for one in run.later])
            after, now = tail(np.abs(same - same[-1]) <= 1e-6), float(same[-1])
            through = after == len(same) and count and abs(now - value) <= 1e-6
            if not through:
                count, begun = 0, run.later[-after].step if after else None
            count, value, last = count + after, now, run.later[-1].step if after else None
        return count, "rows and files" if run.later else "rows", (begun, last), value, len(values) + len(run.later)
    files = [one for one in run.batches if one.rows]
    if not files:
        return 0, "rows", (None, None), math.nan, 0
    if name is None:
        flags = np.array([one.low == one.high for one in files])
        value = files[-1].low
        same = np.array([one.low == value for one in files])
    else:
        flags = np.array([name in one.constant for one in files])
        value = files[-1].means.get(name, math.nan)
        same = np.array([one.means.get(name) == value for one in files])
    count = tail(flags & same)
    return count, "files", (files[-count].step if count else None, files[-1].step), value, len(files)


def _one_reward(one: Batch, name: str | None) -> float:
    """The one reward that all completions of a file got; NaN if they differ."""
    if name is None:
        return one.low if one.low == one.high else math.nan
    return one.means.get(name, math.nan) if name in one.constant else math.nan


def _earned(run: Run, name: str, count: int, value: float) -> bool:
    """Whether a reward rose to the value that all completions now get."""
    series = run.get(f"rewards/{name}/mean")
    lived = _lived(run, series, count)
    return len(lived) >= LEAST and value > lived[:LEAST].mean() and value >= lived.max() - 1e-6


def _lived(run: Run, series: Series | None, count: int) -> np.ndarray:
    """The rows of a log before the last `count`, some of which may be files after the log's end."""
    rows = max(count - len(run.later), 0)
    return series.finite().values[: len(series.finite()) - rows] if series is not None else np.array([])


def _won(run: Run, count: int, value: float) -> str:
    """Whether the reward rose to its end: then it is earned by all, and not broken."""
    reward = run.get("reward")
    lived = _lived(run, reward, count)
    if len(lived) < LEAST:
        return ""
    first, most = lived[:LEAST].mean(), max(float(lived.max()), value)
    return f"{first:.3g} at first" if value > first and value >= first + 0.8 * (most - first) else ""


def _constant_causes(run: Run, value: float) -> list[dict]:
    texts, read = run.text_counts, run.text_counts["read"]
    cut = run.get("completions/clipped_ratio")
    share = _recent(cut) if cut is not None else math.nan
    gold, inside = texts["gold-rows"], texts["gold-in-text"]
    dropped = run.known("remove_unused_columns")
    found = []
    if dropped:
        found.append(cause("remove_unused_columns removes the gold column", "the config", True,
                           run.where("remove_unused_columns")))  # fmt: skip
    if texts["message-lists"] and read:
        wrong = "the reward reads the list of messages, not the text (or the gold has another type)"
    else:
        wrong = "the reward reads the wrong thing: the gold is another type, or spelt otherwise"
    found.append(
        cause(wrong, "score 50 completions by hand beside the reward; look for the gold in the text",
              True if gold and inside >= LITTLE * gold and value <= 0 else False if gold and not inside else None,
              f"the logged gold stands in {inside} of {gold} texts" if gold else
              "no gold is logged: `log_extra` in the reward would show it"))  # fmt: skip
    if value <= 0 or math.isnan(value):
        found += [
            cause("the answers are cut before the result", "`completions/clipped_ratio`",
                  None if math.isnan(share) else True if share >= MOST else False if share < LITTLE else None,
                  "" if math.isnan(share) else f"{share:.0%} are cut"),
            cause("the model never solves it", "no completion is right by your own reading",
                  True if gold and not inside and share < LITTLE else None, ""),
        ]  # fmt: skip
    else:
        default = "the reward pays for everything: a default, an exception that is caught, a gold that cannot be parsed"
        found.insert(int(bool(dropped)), cause(default, "run it on a text that is plainly wrong"))
    return found


def _constant_fix(run: Run) -> list[dict]:
    fix = [setting("mend the reward until `rewards.py score` tells right from wrong on 50 of these completions; if "
                   "nothing is ever right, supervised fine-tuning or easier prompts first")]  # fmt: skip
    if run.known("remove_unused_columns"):
        fix.insert(0, setting(remove_unused_columns=False))
    return fix


@check("duplicate-completions", "prompt-only-reward", "dead-groups")
def _groups(run: Run) -> Outcome:
    read = [one for one in run.batches if one.read and one.groups]
    copies = Series(np.array([one.step for one in read], float), np.array([one.copies for one in read]))
    if read:
        # Short answers repeat by nature; while groups differ in reward they teach all the same.
        hit = level(copies, "duplicate-completions" if _groups_live(run) else "duplicate-completions-waste")
        if hit:
            cold = run.known("temperature")
            yield finding(
                "duplicate-completions", hit.threshold.key,
                [told("completions", f"{_recent(copies):.0%} of the completions repeat another one of their group, "
                      f"{hit.when}", hit.steps, share=_recent(copies))],
                [cause("sampling is too cold", "temperature, top_k, top_p in the config",
                       None if cold is None else cold < 0.7, "" if cold is None else run.where("temperature")),
                 cause("the policy has collapsed", "`entropy` was higher at first", *_entropy_says(run)),
                 cause("the prompt leaves one answer only", "read the rows")],
                [setting("sample at 1", temperature=1.0, top_p=1.0, top_k=0)], share=hit.share, rows=run.rows("copy"),
                severity=hit.severity,
            )  # fmt: skip
        else:
            yield fine("duplicate-completions", f"{_recent(copies):.0%} repeat another of their group")
    else:
        yield unmeasured("duplicate-completions", "no completions in known groups", FILES)
    shares, where = run.dead_shares
    if shares is None:
        yield unmeasured("prompt-only-reward", where, FILES)
        yield unmeasured("dead-groups", where, FILES if "blind" in where else LOG)
        return
    if len(shares.finite()) < LEAST:
        for id in ("prompt-only-reward", "dead-groups"):
            yield unmeasured(id, f"{len(shares.finite())} generations so far", f"wait for {LEAST}")
        return
    grouped = [one for one in run.batches if one.groups]
    always = sum(one.dead for one in grouped) / max(sum(one.groups for one in grouped), 1)
    values: dict[int, set] = {}
    for one in grouped:
        for prompt, reward in one.prompts.items():
            values.setdefault(prompt, set()).add(reward)
    again = [found for found in values.values() if len({one for one in found if not math.isnan(one)}) > 1]
    only = (
        BY_KEY["prompt-only-reward"].hit(always) and any(one.between for one in grouped)
        and not again and _recent(shares) >= BY_KEY["prompt-only-reward"].value and not _binary(run)
    )  # fmt: skip
    if not grouped:
        yield unmeasured("prompt-only-reward", "no completions in known groups", FILES)
    elif only:
        yield finding(
            "prompt-only-reward", "prompt-only-reward",
            [told("rewards", f"{always:.0%} of {sum(one.groups for one in grouped)} groups have one reward, and the "
                  "groups differ", (grouped[0].step, grouped[-1].step), share=always),
             *([seen("reward_std", run.get("reward_std"))] if run.get("reward_std") else [])],
            [cause("the reward does not look at the completion", "put two texts to one prompt into the reward", True,
                   f"rewards differ between {len(values)} prompts, never inside one group")],
            [setting("a reward that separates answers to one prompt")], share=always, rows=run.rows("last"),
        )  # fmt: skip
    else:
        yield fine("prompt-only-reward", "rewards differ inside groups, or not even between them")
    hit = level(shares, "dead-groups", "dead-groups-waste")
    if hit:
        key, severity, solved = hit.threshold.key, hit.severity, ""
        if severity == "dead":
            count = int((shares.finite().steps >= hit.steps[0]).sum() * _per_row(run))
            solved = _solved(run)
            if solved or BY_KEY["dead-groups-few"].hit(count):
                key, severity = "dead-groups-solved" if solved else "dead-groups-few", None
        yield finding(
            "dead-groups", key,
            [seen("dead groups", shares, f"{_recent(shares):.0%} of the groups have one reward, {hit.when} ({where})"),
             *([seen("reward", run.get("reward"))] if run.get("reward") else [])],
            [*([cause("the prompts are solved", "`reward` near its best; read ten rows: are they right?", None, solved)]
               if solved else []), *_dead_causes(run)],
            [*([setting("harder prompts, or stop here")] if solved else []),
             setting("keep prompts that pass 20-80 % of the time (judgement); TRL cannot resample"),
             setting("a larger group finds more that differ", num_generations=max(16, 2 * _size(run))),
             setting(temperature=1.0)],
            severity=severity, share=hit.share, steps=hit.steps, rows=run.rows("dead"),
        )  # fmt: skip
    else:
        yield fine("dead-groups", f"{_recent(shares):.0%} of the groups have one reward ({where})")


def _groups_live(run: Run) -> bool:
    shares, _ = run.dead_shares
    return shares is not None and len(shares.finite()) > 0 and not BY_KEY["dead-groups-waste"].hit(_recent(shares))


def _per_row(run: Run) -> float:
    """Groups that a row of the log (or a file) stands for; 1 where nothing tells."""
    grouped = [one.groups for one in run.batches if one.groups]
    if grouped:
        return float(np.mean(grouped))
    size, whole = run.known("num_generations"), run.known("generation_batch_size")
    return max(1.0, whole / size) if size and whole else 1.0


def _solved(run: Run) -> str:
    """Whether the reward rose to near the best that was seen: dead groups are then a success."""
    reward = run.get("reward")
    highs = [one.high for one in run.batches if math.isfinite(one.high)]
    if reward is None or rises(reward) <= 0 or run.later or (len(run.rewards) > 1 and not highs):
        return ""
    best = max([*highs, float(reward.finite().values.max()), *([1.0] if len(run.rewards) < 2 else [])])
    now = _recent(reward)
    return f"`reward` rose to {now:.3g} of at most {best:.3g}" if best > 0 and now >= NEAR * best else ""


def _size(run: Run) -> int:
    return next((one.size for one in run.batches if one.size), run.known("num_generations") or 8)


def _binary(run: Run) -> bool:
    """Whether all totals seen are 0 or 1: then groups of one reward are solved or unsolved prompts."""
    ends = {value for one in run.batches for value in (one.low, one.high) if math.isfinite(value)}
    return ends <= {0.0, 1.0}


def _dead_causes(run: Run) -> list[dict]:
    known = [value for one in run.batches for value in one.prompts.values() if not math.isnan(value)]
    reward = run.get("reward")
    top = max((one.high for one in run.batches if math.isfinite(one.high)), default=math.nan)
    low = min((one.low for one in run.batches if math.isfinite(one.low)), default=math.nan)
    easy = sum(value == top for value in known) if top > low else 0
    hard = sum(value == low for value in known) if top > low else 0
    said = f"{easy} dead groups at the best reward, {hard} at the worst, of {len(known)}" if known else ""
    cold = run.known("temperature")
    unpaid, groups = sum(one.unpaid for one in run.batches), sum(one.groups for one in run.batches)
    other = [
        cause(
            "what differs is paid nothing: a weight of 0, or a column that is no reward",
            "reward_weights; --rewards names the rewards",
            True,
            f"in {unpaid} of {groups} groups the columns differ and every advantage is 0",
        )
    ] * bool(unpaid)
    copies = [one.copies for one in run.batches if one.read and not math.isnan(one.copies)]
    return [
        *other,
        cause("prompts are too hard", "dead groups at the lowest reward", hard > easy if known and top > low else None,
              said),
        cause("prompts are too easy", "dead groups at the highest reward",
              easy > SOME * len(known) if known and top > low else None, said),
        cause("sampling is too cold", "equal completions inside a group",
              True if copies and np.mean(copies) > MOST else False if copies and np.mean(copies) < LITTLE else
              None if cold is None else cold < 0.7,
              f"{np.mean(copies):.0%} repeat another of their group" if copies else ""),
        cause("the policy has collapsed", "`entropy` was higher at first", *_entropy_says(run)),
        cause("the reward is too coarse", "most texts differ in quality, not in reward", None,
              f"`reward` {_recent(reward):.3g} now" if reward is not None else ""),
    ]  # fmt: skip


def _entropy_says(run: Run) -> tuple[bool | None, str]:
    entropy = run.get("entropy")
    if entropy is None:
        return None, ""
    values = entropy.finite().values
    first, now = values[: window(len(values))].mean(), _recent(entropy)
    fell = BY_KEY["entropy-collapse"].hit(now) or BY_KEY["entropy-drop"].hit(1 - now / first if first else 0)
    return bool(fell), f"`entropy` {first:.3g} at first, {now:.3g} now"


@check("no-gradient")
def _gradient(run: Run) -> Outcome:
    series = run.get("grad_norm")
    if series is None:
        yield unmeasured("no-gradient", "no `grad_norm`", LOG)
        return
    flags = series.values == 0
    count = tail(flags)
    share = float(flags.mean())
    key = "no-gradient" if BY_KEY["no-gradient"].hit(count) else next(
        (key for key in ("no-gradient-share", "no-gradient-some")
         if len(series) >= 10 and BY_KEY[key].hit(share) and flags[-window(len(flags)) :].any()), None)  # fmt: skip
    shares = run.dead_shares[0]
    now = shares.finite().values[-count:] if shares is not None and count else np.array([])
    few = (key == "no-gradient" and len(now) and BY_KEY["dead-groups"].hit(now.mean())
           and BY_KEY["dead-groups-few"].hit(count * _per_row(run)))  # fmt: skip
    if key:
        begun = series.steps[-count if key == "no-gradient" else int(np.argmax(flags))]
        yield finding(
            "no-gradient", key,
            [told("grad_norm", f"`grad_norm` is exactly 0 in the last {count} rows, {share:.0%} of {len(series)}",
                  (begun, series.steps[-1]), rows=count, share=share)],
            [cause("all advantages are 0", "the groups' rewards in the completions files"),
             cause("nothing is trainable, or LoRA's B is exactly 0", "trainable parameters; the adapter's weights"),
             cause("importance weights are 0", "sampling/importance_sampling_ratio/mean")],
            [setting("find out which of these it is: log every step and keep the completions",
                     logging_steps=1, log_completions=True)],
            share=share, severity="waste" if few else None,
        )  # fmt: skip
    else:
        yield fine(
            "no-gradient", f"`grad_norm` {_recent(series):.3g} now; exactly 0 in {share:.0%} of {len(series)} rows"
        )


# ---- sampler


@check("sampler-mismatch", "sampler-mismatch-long", "sampler-drift", "expert-mismatch", "grad-spikes")
def _sampler(run: Run) -> Outcome:
    ratio = run.get("sampling/importance_sampling_ratio/mean")
    drift = run.get("sampling/sampling_logp_difference/mean")
    off = run.known("use_vllm") is False
    why = "vLLM is off: no sampler to compare" if off else "no `sampling/*`: they are logged with use_vllm only"
    if ratio is None:
        for id in ("sampler-mismatch", "sampler-mismatch-long"):
            yield fine(id, why) if off else unmeasured(id, why, VLLM)  # fmt: skip
    else:
        hit = level(ratio, "sampler-dead", "sampler-low", "sampler-high")
        truncating = _truncating(run)
        length = run.get("completions/mean_length")
        long = hit and hit.threshold.fails == "below" and truncating == "" and length is not None and BY_KEY[
            "sampler-long"].hit(_recent(length))  # fmt: skip
        if hit:
            told_ = [seen("sampling/importance_sampling_ratio/mean", ratio,
                          f"the mean importance weight is {_recent(ratio):.3g}, {hit.when}"),
                     *([seen("sampling/sampling_logp_difference/mean", drift)] if drift else []),
                     *([seen("completions/mean_length", length)] if length and long else [])]  # fmt: skip
            causes = [
                cause("top_p, top_k, min_p or repetition_penalty is set: the weight falls with every token",
                      "the config, also generation_kwargs",
                      None if truncating is None else bool(truncating), truncating or ""),
                cause("long completions: the default weight is a product over tokens",
                      "`completions/mean_length` of a thousand and more", True if long else None,
                      f"{_recent(length):.0f} tokens" if length else ""),
                cause("the server's logprobs mode is not processed_logprobs", "its command line"),
            ]  # fmt: skip
            neutral = setting("sample from the whole distribution", top_p=1.0, top_k=0, min_p=None,
                              repetition_penalty=1.0)  # fmt: skip
            token = setting("a weight per token", vllm_importance_sampling_mode="token_truncate")
            yield finding("sampler-mismatch-long" if long else "sampler-mismatch", hit.threshold.key, told_, causes,
                          [token] if long else [neutral, token], severity=hit.severity, share=hit.share,
                          steps=hit.steps)  # fmt: skip
        for id in ("sampler-mismatch", "sampler-mismatch-long"):
            if not hit:
                yield fine(id, f"the mean importance weight is {_recent(ratio):.3g}")
    if drift is None:
        yield fine("sampler-drift", why) if off else unmeasured("sampler-drift", why, VLLM)
    else:
        hit = level(drift, "sampler-drift-waste", "sampler-drift")
        if hit:
            yield finding(
                "sampler-drift", hit.threshold.key, [seen("sampling/sampling_logp_difference/mean", drift)],
                [cause("other numerics in vLLM", "bf16 noise alone is about 0.03 nats"),
                 cause("top_p, top_k, min_p or a penalty", "the config",
                       None if _truncating(run) is None else bool(_truncating(run)), _truncating(run) or ""),
                 cause("the weights were not synced", "the server's log")],
                [setting("a head in fp32 (untied embeddings only)", cast_lm_head_to_fp32=True)],
                severity=hit.severity, share=hit.share, steps=hit.steps,
            )  # fmt: skip
        else:
            yield fine("sampler-drift", f"{_recent(drift):.3g} nats a token")
    gradient, worst = run.get("grad_norm"), run.get("sampling/sampling_logp_difference/max")
    if gradient is None:
        yield unmeasured("grad-spikes", "no `grad_norm`", LOG)
    spikes = _spikes(gradient) if gradient is not None else np.array([])
    both = np.intersect1d(spikes, _spikes(worst, 3)) if worst is not None else np.array([])
    if worst is None:
        yield fine("expert-mismatch", why) if off else unmeasured("expert-mismatch", why, VLLM)
    elif BY_KEY["expert-mismatch"].hit(len(both)):
        yield finding(
            "expert-mismatch", "expert-mismatch",
            [told("grad_norm", f"`grad_norm` spikes together with the log-probability difference in {len(both)} rows",
                  (both[0], both[-1]), rows=len(both))],
            [cause("routing differs between vLLM and the trainer", "a mixture of experts? its config has experts"),
             cause("rare tokens that vLLM scores otherwise", "the rows of these steps")],
            [setting("a mask on both sides", vllm_importance_sampling_mode="token_mask",
                     vllm_importance_sampling_clip_min=0.5, vllm_importance_sampling_clip_max=2.0)],
            share=len(both) / len(gradient),
        )  # fmt: skip
    else:
        yield fine("expert-mismatch", "gradient and sampler do not spike together")
    if len(spikes):
        yield finding(
            "grad-spikes", "grad-spikes",
            [seen("grad_norm", gradient, f"`grad_norm` is over 10 times its median in {len(spikes)} of {len(gradient)} "
                                         f"rows, up to {gradient.finite().values.max():.3g}")],
            [cause("the learning rate is too high", "do entropy, kl or reward jump in these rows?"),
             cause("few live groups: one of them is the whole batch", "`frac_reward_zero_std` of these rows")],
            [setting("cut harder, or learn slower", max_grad_norm=0.2,
                     learning_rate=(run.known("learning_rate") or 1e-6) / 2)],
            share=len(spikes) / len(gradient), steps=(float(spikes[0]), float(spikes[-1])),
        )  # fmt: skip
    elif gradient is not None:
        yield fine("grad-spikes", "no spike in `grad_norm`")


def _spikes(series: Series, times: float | None = None) -> np.ndarray:
    """Steps at which a metric is far above its median (of values above 0)."""
    finite = series.finite()
    alive = finite.values[finite.values > 0]
    if len(alive) < 10:
        return np.array([])
    bound = np.median(alive)
    hits = finite.values > times * bound if times else np.array(
        [BY_KEY["grad-spikes"].hit(value / bound) for value in finite.values])  # fmt: skip
    return finite.steps[hits]


def _truncating(run: Run) -> str | None:
    """Settings that keep only a part of the distribution; "" if there are none, None if not known."""
    if run.settings is None:
        return None
    neutral = {"top_p": (1.0, None), "top_k": (0, -1, None), "min_p": (None, 0.0), "repetition_penalty": (1.0, None)}
    inside = run.known("generation_kwargs") or {}
    found = [f"{name}={run.known(name)}" for name, values in neutral.items() if run.known(name) not in values]
    found += [f"generation_kwargs: {name}={inside[name]}" for name in neutral
              if isinstance(inside, dict) and name in inside and inside[name] not in neutral[name]]  # fmt: skip
    return ", ".join(found)


# ---- the policy


@check("kl-at-start", "kl-growth")
def _kl(run: Run) -> Outcome:
    series = run.get("kl")
    if series is None:
        for id in ("kl-at-start", "kl-growth"):
            unused = run.known("beta") in (0, None)
            yield absent(run, id, "no `kl`: `beta` is 0, its default") if unused else unmeasured(
                id, "no `kl` though `beta` is set", LOG)  # fmt: skip
        return
    values, steps = series.finite().values, series.finite().steps
    alone = steps[0] <= 1 and run.info.get("logging_steps", 1) == 1
    key = "kl-at-start-waste" if BY_KEY["kl-at-start-waste"].hit(values[0]) else "kl-at-start"
    if BY_KEY[key].hit(values[0]) and (alone or key == "kl-at-start-waste"):
        yield finding(
            "kl-at-start", key, [seen("kl", series, f"`kl` is {values[0]:.3g} in the first row")],
            [cause("dropout is active in the policy", "dropout in the model's and the adapter's config",
                   None if run.known("disable_dropout") is None else False if run.known("disable_dropout") else None),
             cause("the adapter was not new, or the reference is another model", "what was loaded"),
             cause("the reference is quantised otherwise", "what was loaded")],
            [setting("and LoRA's dropout 0", disable_dropout=True)],
        )  # fmt: skip
    else:
        yield fine("kl-at-start", f"`kl` {values[0]:.3g} in the first row")
    size = window(len(values))
    first, now = float(values[:size].mean()), _recent(series)
    grown = now / first if first > 0 else math.nan
    key = "kl-level" if BY_KEY["kl-level"].hit(now) and now > 2 * first else None
    key = key or ("kl-growth" if BY_KEY["kl-growth"].hit(grown) and now > 0.1 else None)
    if key and len(values) >= 2 * LEAST:
        shares = run.dead_shares[0]
        dead = _recent(shares) if shares is not None else math.nan
        yield finding(
            "kl-growth", key, [seen("kl", series)],
            [cause("the learning rate is too high", "does a lower one hold it?"),
             cause("dead groups feel only the KL", "share of dead groups",
                   None if math.isnan(dead) else dead > 0.5, "" if math.isnan(dead) else f"{dead:.0%} dead"),
             cause("the reward pulls far away", "read the best-paid rows")],
            [setting(learning_rate=(run.known("learning_rate") or 1e-6) / 2)], rows=run.best_rows(2),
            steps=(float(steps[0]), float(steps[-1])),
        )  # fmt: skip
    else:
        yield fine("kl-growth", f"`kl` {first:.3g} at first, {now:.3g} now")


@check("entropy-collapse", "entropy-collapse-off-policy", "entropy-rise")
def _entropy(run: Run) -> Outcome:
    series = run.get("entropy")
    ids = ("entropy-collapse", "entropy-collapse-off-policy", "entropy-rise")
    if series is None or len(series.finite()) < 2 * LEAST:
        for id in ids:
            yield unmeasured(id, "no `entropy`" if series is None else "too few rows", LOG)
        return
    values = series.finite().values
    first, now = float(values[: min(10, len(values) // 2)].mean()), _recent(series)
    low = BY_KEY["entropy-collapse"].hit(now) and first >= 2 * BY_KEY["entropy-collapse"].value
    drop = BY_KEY["entropy-drop"].hit(round(1 - now / first, 9)) if first > 0 else False
    if low or drop:
        shares = run.dead_shares[0]
        grow = shares is not None and len(shares.finite()) >= 2 * LEAST and (
            rises(shares, 1.0) > 0 or _recent(shares) > BY_KEY["dead-groups-waste"].value)  # fmt: skip
        high = run.get("clip_ratio/high_mean")
        clipped = high is not None and BY_KEY["entropy-off-policy"].hit(float(np.nanmax(high.values)))
        id = ids[1] if run.off_policy and clipped else ids[0]
        fix = ([setting("off-policy only", epsilon_high=0.28)] if id == ids[1] else
               [setting("a small bonus", entropy_coef=0.001),
                setting("or a controller that holds half of the first entropy (judgement)", use_adaptive_entropy=True,
                        entropy_target=round(first / 2, 3), entropy_coef_max=0.01)])  # fmt: skip
        cold = run.known("temperature")
        yield finding(
            id, "entropy-off-policy" if id == ids[1] else "entropy-collapse" if low else "entropy-drop",
            [seen("entropy", series, f"`entropy` fell from {first:.3g} to {now:.3g}"),
             *([seen("dead groups", shares)] if shares is not None else [])],
            [cause("the reward is won and the groups agree", "is `reward` at its ceiling?"),
             cause("the rate is too high", "does it fall in the first tenth of the run?"),
             cause("sampling is too cold", "temperature", None if cold is None else cold < 1, run.where("temperature")
                   if cold is not None else ""),
             cause("the symmetric clip holds rare tokens down", "off-policy, `clip_ratio/high_mean` above 0",
                   True if id == ids[1] else None if run.off_policy is None else bool(run.off_policy))],
            fix, severity=None if grow else "tell", rows=run.rows("copy", 3),
        )  # fmt: skip
    else:
        for id in ids[:2]:
            yield fine(id, f"`entropy` {first:.3g} at first, {now:.3g} now")
    if BY_KEY["entropy-rise"].hit(now / first if first > 0 else math.nan):
        yield finding(
            "entropy-rise", "entropy-rise", [seen("entropy", series)],
            [cause("the entropy bonus is too large", "entropy_coef", None if run.known("entropy_coef") is None else
                   bool(run.known("entropy_coef")), ""),
             cause("the update damages the model", "do texts become noise? does `grad_norm` spike?")],
            [setting(learning_rate=(run.known("learning_rate") or 1e-6) / 2, entropy_coef=0.0)],
        )  # fmt: skip
    else:
        yield fine("entropy-rise", f"`entropy` {first:.3g} at first, {now:.3g} now")


@check("clipping", "clipping-long", "inert-settings", "cispo-epsilon-high")
def _clip(run: Run) -> Outcome:
    series, cispo = run.get("clip_ratio/region_mean"), run.get("cispo_clip_ratio")
    if series is None:
        for id in ("clipping", "clipping-long", "inert-settings"):
            other = cispo is not None or run.known("loss_type") in ("cispo", "sapo", "vespo")
            yield fine(id, "this loss has no clip") if other else unmeasured(id, "no `clip_ratio/region_mean`", LOG)
    else:
        hit = level(series, "clipping")
        sequence = run.known("importance_sampling_level") == "sequence"
        length = run.get("completions/mean_length")
        if hit and not sequence:
            long = length is not None and BY_KEY["clipping-long"].hit(_recent(length))
            yield finding(
                "clipping-long" if long else "clipping", "clipping-long" if long else "clipping",
                [seen("clip_ratio/region_mean", series),
                 *([seen("completions/mean_length", length)] if long else [])],
                [cause("several optimizer steps per rollout", "steps_per_generation, num_iterations", run.off_policy,
                       run.where("steps_per_generation", "num_iterations")),
                 cause("the learning rate is too high", "is it 0 in the first step after each generation?"),
                 cause("dropout in the policy", "above 0 although on-policy",
                       None if run.off_policy is None else not run.off_policy)],
                [setting("fewer optimizer steps per rollout: the same as gradient_accumulation_steps",
                         steps_per_generation=run.known("gradient_accumulation_steps") or 1),
                 *([setting(importance_sampling_level="sequence", loss_type="grpo", epsilon=3e-4, epsilon_high=4e-4)]
                   if long else [setting(loss_type="cispo", epsilon_high=5.0)])],
                severity=hit.severity if run.known("importance_sampling_level") else "tell", share=hit.share,
                steps=hit.steps,
            )  # fmt: skip
        else:
            for id in ("clipping", "clipping-long"):
                yield fine(id, f"`clip_ratio/region_mean` {_recent(series):.3g}" + (
                    ", counted in sequences" if sequence else ""))  # fmt: skip
        acting = [name for name in ("epsilon_high", "delta", "off_policy_mask_threshold") if run.known(name) is not None
                  and run.given(name)] + ["importance_sampling_level"] * sequence  # fmt: skip
        still = tail(series.values == 0)
        if run.settings is None:
            yield unmeasured("inert-settings", "no config: which clip is set is not known", "--config grpo.yaml")
        elif acting and BY_KEY["inert-settings"].hit(still):
            yield finding(
                "inert-settings", "inert-settings",
                [seen("clip_ratio/region_mean", series, f"`clip_ratio/region_mean` is 0 in the last {still} rows "
                      f"though {run.where(*acting)}")],
                [cause("training is on-policy: the ratio is 1", "steps_per_generation, num_iterations",
                       None if run.off_policy is None else not run.off_policy,
                       run.where("steps_per_generation", "num_iterations"))],
                [setting("leave it, or train several steps per rollout",
                         steps_per_generation=4 * (run.known("gradient_accumulation_steps") or 1))],
            )  # fmt: skip
        else:
            yield fine("inert-settings", "no setting waits for off-policy steps" if not acting else "the clip acts")
    if cispo is None:
        none = run.known("loss_type")
        yield fine("cispo-epsilon-high", "the loss is not CISPO") if series is not None or none not in (
            None, "cispo") else unmeasured("cispo-epsilon-high", "no `cispo_clip_ratio`", LOG)  # fmt: skip
    else:
        hit = level(cispo, "cispo-epsilon-high")
        if hit:
            high = run.known("epsilon_high")
            yield finding(
                "cispo-epsilon-high", "cispo-epsilon-high", [seen("cispo_clip_ratio", cispo)],
                [cause("epsilon_high is left out: every weight is cut to 0.2", "the config",
                       None if run.settings is None else high is None or high < 1, run.where("epsilon_high")),
                 cause("steps far off-policy", "steps_per_generation")],
                [setting(loss_type="cispo", epsilon_high=5.0)], severity=hit.severity, share=hit.share, steps=hit.steps,
            )  # fmt: skip
        else:
            yield fine("cispo-epsilon-high", f"`cispo_clip_ratio` {_recent(cispo):.3g}")


# ---- what the reward buys


@check("length-growth", "length-bias")
def _length(run: Run) -> Outcome:
    length, reward = run.get("completions/mean_length"), run.get("reward")
    if length is None or reward is None or len(length.finite()) < 2 * LEAST:
        yield unmeasured("length-growth", "`completions/mean_length` and `reward` are not both there, or few rows", LOG)
    else:
        values = length.finite().values
        size = window(len(values))
        grown = _recent(length) / values[:size].mean() if values[:size].mean() > 0 else math.nan
        if BY_KEY["length-growth"].hit(grown) and rises(reward) <= 0:
            yield finding(
                "length-growth", "length-growth", [seen("completions/mean_length", length), seen("reward", reward)],
                [cause("the loss favours length", "loss_type; the default dapo counts tokens",
                       None if run.known("loss_type") is None else run.known("loss_type") == "grpo"),
                 cause("the reward pays for length", "length against advantage inside groups", *_paid(run)),
                 cause("answers no longer end", "`completions/clipped_ratio` rises",
                       None if run.get("completions/clipped_ratio") is None else
                       rises(run.get("completions/clipped_ratio")) > 0)],
                [setting("both", loss_type="dr_grpo", scale_rewards="none"),
                 setting(f"get_soft_overlong_punishment(max_completion_len={run.limit or 1024}, "
                         f"soft_punish_cache={max(1, (run.limit or 1024) // 4)}) as a reward")],
                rows=run.best_rows(3),
            )  # fmt: skip
        else:
            yield fine("length-growth", f"{grown:.2f} times the first length")
    sums = np.sum([one.lengths for one in run.batches if one.read], axis=0) if any(
        one.read for one in run.batches) else None  # fmt: skip
    if sums is None or not (sums[0] > 0 and sums[1] > 0):
        yield unmeasured("length-bias", "no completions whose advantages and lengths differ inside groups", _more(run))
        return
    r = float(sums[2] / math.sqrt(sums[0] * sums[1]))
    read = [one for one in run.batches if one.read]
    live = sum(one.groups - one.dead for one in read)
    if live < LIVE:
        yield unmeasured(
            "length-bias", f"{live} live groups were read: too few for a correlation (8: judgement)", FILES
        )
    elif BY_KEY["length-bias"].hit(abs(r)):
        yield finding(
            "length-bias", "length-bias",
            [told("advantage", f"length and advantage correlate by {r:.2f} inside groups, in {len(read)} files read",
                  (read[0].step, read[-1].step), r=r)],
            [cause("the reward pays for length, or its lack", "sort the rows of one prompt by length"),
             cause("wrong answers ramble, or right ones need room", "read three groups")],
            [setting("score the shortest right answer and a long wrong one by hand")], rows=run.best_rows(3),
        )  # fmt: skip
    else:
        yield fine("length-bias", f"length and advantage correlate by {r:.2f} inside groups")


def _paid(run: Run) -> tuple[bool | None, str]:
    sums = [np.array(one.lengths) for one in run.batches if one.read]
    total = np.sum(sums, axis=0) if sums else np.zeros(3)
    if not (total[0] > 0 and total[1] > 0):
        return None, ""
    r = float(total[2] / math.sqrt(total[0] * total[1]))
    return r > 0.3, f"correlation {r:.2f}"


def _against(run: Run, other: Series) -> float:
    """Share of the run over which `reward` rises while the other falls, by their last peak."""
    reward = run.get("reward")
    if reward is None or rises(reward) <= 0 or len(other.finite()) < LEAST:
        return 0.0
    values, steps = other.finite().values, other.finite().steps
    if len(values) > 20:  # a mean over neighbours, or the peak is chance
        width = len(values) // 10
        values = np.convolve(values, np.ones(width) / width, "valid")
        steps = steps[width - 1 :]
    peak = int(np.flatnonzero(values >= values.max() - 1e-9)[-1])
    fall = values[peak] - values[-1]
    noise = np.std(np.diff(other.finite().values)) if len(other.finite()) > 3 else 0.0
    few = len(other.finite()) <= 20  # a few evaluations on a few prompts: a twentieth is noise (judgement)
    if fall <= (FEW if few else 0.02) * max(abs(values[peak]), 1e-9) or fall <= noise:
        return 0.0
    if len(reward.finite()) and _recent(reward) <= _at(reward, steps[peak]):
        return 0.0
    span = reward.steps[-1] - reward.steps[0]
    return float((steps[-1] - steps[peak]) / span) if span > 0 else 0.0


def _at(series: Series, step: float) -> float:
    """The mean around a step."""
    finite = series.finite()
    place = int(np.searchsorted(finite.steps, step))
    width = max(2, len(finite) // 20)
    return float(finite.values[max(0, place - width) : place + width].mean())


@check("held-out-falls", "part-falls")
def _falls(run: Run) -> Outcome:
    held = run.get("eval_reward")
    if held is None or len(held.finite()) < LEAST:
        yield unmeasured("held-out-falls", "fewer than 3 rows with `eval_reward`",
                         'an eval_dataset and eval_strategy="steps"')  # fmt: skip
    else:
        share = _against(run, held)
        if BY_KEY["held-out-falls"].hit(share):
            yield finding(
                "held-out-falls", "held-out-falls", [seen("eval_reward", held), seen("reward", run.get("reward"))],
                [cause("the reward is gamed", "the ten rows with the highest advantage", *_gamed(run)),
                 cause("the training prompts are learned by heart", "few prompts, many epochs"),
                 cause("the held-out prompts are of another kind", "read both")],
                [setting("mend the reward, start again from the checkpoint before"),
                 setting("if the reward is sound: stay near the start", beta=0.001)],
                share=share, rows=run.best_rows(),
            )  # fmt: skip
        else:
            yield fine("held-out-falls", f"`eval_reward` {held.finite().values[-1]:.3g} last")
    parts = {name: run.get(f"rewards/{name}/mean") for name in run.rewards}
    parts = {name: one for name, one in parts.items() if one is not None and len(one.finite()) >= 2 * LEAST}
    if len(run.rewards) < 2:
        yield fine("part-falls", "one reward only") if run.rewards else unmeasured(
            "part-falls", "no reward's name is known", LOG)  # fmt: skip
    elif not parts or run.get("reward") is None:
        yield unmeasured("part-falls", "no `rewards/<name>/mean`", LOG)
    else:
        falling = {name: _against(run, one) for name, one in parts.items() if rises(one) < 0}
        falling = {name: share for name, share in falling.items() if BY_KEY["part-falls"].hit(share)}
        if falling:
            yield finding(
                "part-falls", "part-falls",
                [*(seen(f"rewards/{name}/mean", parts[name]) for name in falling), seen("reward", run.get("reward"))],
                [cause("the rewards pull apart, and the wider one wins", "variance of each inside groups"),
                 cause("one reward is gamed at the cost of the other", "the best-paid rows", *_gamed(run))],
                [setting("a larger entry in reward_weights for " + ", ".join(falling))],
                share=max(falling.values()), rows=run.best_rows(),
            )  # fmt: skip
        else:
            yield fine("part-falls", "no reward falls while the sum rises")


SIGNS = {
    "many-answers": "several answer blocks",
    "empty-blocks": "an empty block",
    "repetition": "the same words over and over",
    "copied-prompt": "the prompt copied out",
    "boilerplate": "a phrase shared by unrelated prompts",
    "touches-tests": "reaches for the test runner",
}
PAID = tuple(name for name in SIGNS if name != "touches-tests")


def _signs(run: Run) -> tuple[dict[str, tuple[float, float]], int]:
    """Share of the best and of the worst paid texts with each sign, and how many best-paid texts there are."""
    best, worst = sum(one.best for one in run.batches), sum(one.worst for one in run.batches)
    found = {}
    for name in SIGNS:
        high = sum(one.signs.get(name, (0, 0))[0] for one in run.batches)
        low = sum(one.signs.get(name, (0, 0))[1] for one in run.batches)
        found[name] = (high / best if best else 0.0, low / worst if worst else 0.0)
    return found, best


def _grown(run: Run, name: str) -> tuple[float, float]:
    """Share of all texts with a sign in the first and in the last third of the files that were read."""
    read = [one for one in run.batches if one.read]
    third = max(1, len(read) // 3)
    parts = (read[:third], read[-third:]) if len(read) > 1 else ([], [])
    return tuple(sum(one.texts[f"sign:{name}"] for one in part) / max(sum(one.texts["read"] for one in part), 1)
                 for part in parts)  # fmt: skip


def _paid_for(run: Run, name: str, high: float, low: float) -> tuple[str, str]:
    """How a sign shows to be paid for, and by which threshold; "" where it does not."""
    key = f"{name}-waste" if f"{name}-waste" in BY_KEY else name
    if BY_KEY[key].hit(high) and high >= 2 * low:
        return f"it is in {high:.0%} of the best-paid texts and in {low:.0%} of the worst paid", key
    early, late = _grown(run, name)
    reward, grown = run.get("reward"), f"{name}-grown"
    if grown in BY_KEY and BY_KEY[grown].hit(late) and late >= 2 * early and reward is not None:
        values = reward.finite().values
        if rises(reward) > 0 or _recent(reward) > values[: min(len(values) // 2, 5)].mean():
            return f"it grew from {early:.0%} to {late:.0%} of all texts while `reward` rose", grown
    return "", key


def _gamed(run: Run) -> tuple[bool | None, str]:
    found, best = _signs(run)
    said = (
        [f"{SIGNS[name]}: {text}" for name in SIGNS if (text := _paid_for(run, name, *found[name])[0])] if best else []
    )
    return (_worse(run) or None, said[0]) if said else (None, "")


def _worse(run: Run) -> bool:
    """Whether the held-out reward or one of the rewards fell while the sum rose: what a game does to the rest."""
    others = [("held-out-falls", run.get("eval_reward"))]
    others += [("part-falls", run.get(f"rewards/{name}/mean")) for name in run.rewards if len(run.rewards) > 1]
    return any(BY_KEY[key].hit(_against(run, one)) for key, one in others
               if one is not None and (key == "held-out-falls" or rises(one) < 0))  # fmt: skip


def _right(run: Run) -> bool:
    """Whether a reward that is named for right answers rises."""
    parts = [run.get(f"rewards/{name}/mean") for name in run.rewards if RIGHT.search(name)]
    return any(rises(one) > 0 for one in parts if one is not None)


@check(*SIGNS)
def _hacking(run: Run) -> Outcome:
    found, best = _signs(run)
    if not best:
        for name in SIGNS:
            yield unmeasured(name, "no completions with advantages above 0 were read", _more(run))
        return
    read = [one for one in run.batches if one.read]
    worse, right = _worse(run), _right(run)
    for name, (high, low) in found.items():
        paid, key = _paid_for(run, name, high, low)
        if not paid and not (name == "touches-tests" and BY_KEY[name].hit(high)):
            yield fine(name, f"{high:.0%} of {best} best-paid texts, {low:.0%} of the worst paid")
            continue
        yield finding(
            name, key if paid else name,
            [told("completions", f"{SIGNS[name]}: {paid or f'in {high:.0%} of the best-paid texts'}",
                  (read[0].step, read[-1].step), best=high, worst=low)],
            [cause("the reward pays for it", "score a row with and without it", True if paid and worse else None, paid),
             cause("right answers happen to look like that", "read the rows", None,
                   "a reward for right answers rises too" if right else "")],
            severity="tell" if right and not worse else None,
            fix=[setting("mend the reward: the sign must earn nothing; then start again from the checkpoint before")],
            share=max(high, _grown(run, name)[1]), rows=run.rows(f"sign:{name}", 5),
        )  # fmt: skip


@check("reward-dominance", "tiny-differences")
def _dominance(run: Run) -> Outcome:
    names = run.rewards
    totals = {name: float(np.mean([one.spread.get(name, 0.0) for one in run.batches if one.groups])) for name in names
              } if any(one.groups for one in run.batches) else {}  # fmt: skip
    if not totals and len(names) > 1:  # from the log: over the batch, so groups and prompts are mixed
        weights = (run.known("reward_weights") if run.ordered else None) or [1.0] * len(names)
        for name, weight in zip(names, weights):
            one = run.get(f"rewards/{name}/std")
            if one is not None:
                totals[name] = (weight * _recent(one)) ** 2
    if len(names) < 2:
        yield fine("reward-dominance", "one reward only") if run.rewards else unmeasured(
            "reward-dominance", "no reward's name is known", LOG)  # fmt: skip
    elif len(totals) < 2 or not sum(totals.values()):
        yield unmeasured("reward-dominance", "no variance of the rewards inside groups was seen", FILES)
    else:
        name = max(totals, key=totals.get)
        share = totals[name] / sum(totals.values())
        drowned = [other for other in totals if other != name and totals[other] > 0]
        if BY_KEY["reward-dominance"].hit(share) and drowned:
            order = [round(math.sqrt(min(v for v in totals.values() if v > 0) / totals[one]), 3) if totals[one] else 1.0
                     for one in names]  # fmt: skip
            yield finding(
                "reward-dominance", "reward-dominance",
                [told(f"rewards/{name}", f"{name} makes {share:.1%} of the variance inside groups; "
                      f"{', '.join(drowned)} vary too", share=share)],
                [cause("its range is wider", "the rewards' ranges"),
                 cause("the others seldom differ inside a group", "their share of live groups")],
                [setting("in the order of reward_funcs, to level them", reward_weights=order) if run.ordered else
                 setting("reward_weights to level them: " + ", ".join(map("{} {}".format, names, order))),
                 setting(multi_objective_aggregation="normalize_then_sum")],
            )  # fmt: skip
        else:
            yield fine("reward-dominance", f"{name} makes {share:.0%} of the variance" + (
                "; no other varies" if not drowned else ""))  # fmt: skip
    grouped = [one for one in run.batches if one.groups]
    live = sum(one.groups - one.dead for one in grouped)
    scaled = run.known("scale_rewards")
    if not grouped or not live:
        yield unmeasured("tiny-differences", "no live groups in completions files", _more(run))
        return
    share = sum(one.tiny for one in grouped) / live
    if BY_KEY["tiny-differences"].hit(share) and scaled in (None, "group", True):
        yield finding(
            "tiny-differences", "tiny-differences",
            [told("rewards", f"in {share:.0%} of {live} live groups the rewards differ by less than 1 % of the batch's "
                  "range, and get advantages of full size", (grouped[0].step, grouped[-1].step), share=share)],
            [cause("a tie-breaker or a bonus decides where all else ties", "the rewards of one such group",
                   True if len(names) > 1 else None, "")],
            [setting(scale_rewards="none"), setting("or drop the bonus")], rows=run.rows("tiny"),
        )  # fmt: skip
    else:
        yield fine("tiny-differences", f"{share:.0%} of the live groups differ by less than 1 %")


def _rate(run: Run) -> float:
    """The learning rate at its peak: the log's, else the config's; NaN if neither says it."""
    logged = run.get("learning_rate")
    if logged is not None:
        return float(np.nanmax(logged.values))
    known = run.known("learning_rate")
    return float(known) if isinstance(known, int | float) else math.nan


@check("not-moving")
def _flat(run: Run) -> Outcome:
    reward = run.get("reward")
    if reward is None:
        yield unmeasured("not-moving", "no `reward`", LOG)
        return
    values = reward.finite().values
    third = max(1, len(values) // 3)
    rate, lora = _rate(run), run.known("use_peft")
    kwargs = run.known("model_init_kwargs") or {}
    half = not lora and "bfloat16" in (run.known("dtype"), kwargs.get("dtype") if isinstance(kwargs, dict) else None)
    low = not math.isnan(rate) and rate > 0 and BY_KEY["rate-low-lora" if lora else "rate-low"].hit(rate)
    rounding = half and BY_KEY["rate-low-bf16"].hit(rate)
    key = "not-moving-rate" if low else "not-moving-bf16" if rounding else "not-moving"
    if key == "not-moving" and BY_KEY["not-moving-long"].hit(len(values)):
        key = "not-moving-long"
    if not BY_KEY[key].hit(len(values)):
        yield unmeasured("not-moving", f"{len(values)} rows: too few to tell a trend from chance",
                         f"wait for {BY_KEY['not-moving'].value:g}")  # fmt: skip
        return
    top = len(run.rewards) == 1 and values[-third:].mean() > 0.95
    if rises(reward) or top:
        yield fine("not-moving", f"`reward` {values[:third].mean():.3g} in the first third, "
                                 f"{values[-third:].mean():.3g} in the last")  # fmt: skip
        return
    gradient = run.get("grad_norm")
    shown = "" if math.isnan(rate) else f"learning_rate {rate:g}"
    yield finding(
        "not-moving", key,
        [seen("reward", reward), *([seen("grad_norm", gradient)] if gradient is not None else [])],
        [cause("LoRA at a full fine-tuning rate (trl#2872)", "learning_rate beside use_peft; LoRA's B near 0",
               False if lora is False else None if lora is None else bool(low), shown),
         cause("bf16 weights at a small rate: updates are rounded away", "weights equal the checkpoint's",
               True if rounding else False if run.settings is not None and run.given("dtype") else None,
               run.where("dtype") if run.given("dtype") else ""),
         cause("the rate is too low", "learning_rate in the log",
               None if math.isnan(rate) or lora is None else bool(low and not lora), shown),
         cause("the task is at its ceiling, or far out of reach", "pass rates of the prompts")],
        [setting("weights in fp32: give the model as a string", dtype="float32") if rounding else
         setting("LoRA", learning_rate=2e-5) if lora else
         setting("full fine-tuning; 2e-5 with LoRA", learning_rate=1e-6)],
    )  # fmt: skip


@check("rate-zero", "reward-falls")
def _rate_and_fall(run: Run) -> Outcome:
    logged = run.get("learning_rate")
    if logged is None:
        yield unmeasured("rate-zero", "no `learning_rate`", LOG)
    elif not logged.finite().values.any() and BY_KEY["rate-zero"].hit(len(logged.finite())):
        yield finding(
            "rate-zero", "rate-zero",
            [seen("learning_rate", logged, f"`learning_rate` is 0 in all {len(logged)} rows")],
            [cause("learning_rate is 0 in the config", "the config",
                   None if run.settings is None else run.known("learning_rate") == 0, run.where("learning_rate")),
             cause("the schedule ended before: resumed after its last step", "global_step against max_steps"),
             cause("a warm-up longer than the run", "warmup_steps")],
            [setting("full fine-tuning; 2e-5 with LoRA", learning_rate=1e-6)],
        )  # fmt: skip
    else:
        yield fine("rate-zero", f"`learning_rate` {_rate(run):.3g} at its peak")
    reward = run.get("reward")
    values = reward.finite().values if reward is not None else np.array([])
    if len(values) < 20:
        yield unmeasured("reward-falls", f"{len(values)} rows with a reward", "wait for 20")
        return
    third = len(values) // 3
    first, last = values[:third], values[-third:]
    fall = float(first.mean() - last.mean())
    error = math.sqrt(first.var(ddof=1) / third + last.var(ddof=1) / third)
    sure = fall / max(error, 1e-9)
    if BY_KEY["reward-falls"].hit(sure) and fall > 0.1 * max(abs(first.mean()), 1e-9):
        entropy = run.get("entropy")
        yield finding(
            "reward-falls", "reward-falls",
            [seen("reward", reward, f"`reward` fell from {first.mean():.3g} in the first third to {last.mean():.3g} in "
                                    f"the last, {min(sure, 99):.3g} standard errors")],
            [cause("the update damages the policy: the rate is too high, or too far off-policy",
                   "do `entropy`, `kl` or `grad_norm` rise with it?", None,
                   "" if entropy is None else f"`entropy` {entropy.finite().values[0]:.3g} at first, "
                   f"{_recent(entropy):.3g} now"),
             cause("the prompts become harder", "a dataset sorted by difficulty, shuffle_dataset"),
             cause("a sign is turned round in the reward or its weight", "score a right and a wrong text by hand")],
            [setting("half the rate, from a checkpoint before the fall",
                     learning_rate=(run.known("learning_rate") or 1e-6) / 2)],
            rows=run.rows("last"),
        )  # fmt: skip
    else:
        yield fine("reward-falls", f"`reward` {first.mean():.3g} in the first third, {last.mean():.3g} in the last")


NUMBERS = ("kl", "entropy", "loss", "reward_std", "frac_reward_zero_std", "learning_rate", "step_time", "eval_reward",
           "completions/mean_length", "completions/clipped_ratio", "clip_ratio/region_mean", "aux_loss",
           "sampling/sampling_logp_difference/mean", "sampling/importance_sampling_ratio/mean")  # fmt: skip


@check("not-a-number")
def _numbers(run: Run) -> Outcome:
    there = [name for name in NUMBERS if len(run.series.get(name, ()))]
    if not there:
        yield unmeasured("not-a-number", "no log was read", LOG)
        return
    never = [name for name in there if BY_KEY["not-a-number"].hit(len(run.series[name]))
             and not np.isfinite(run.series[name].values).any()]  # fmt: skip
    kl = run.series.get("kl")
    infinite = int(np.isinf(kl.values).sum()) if kl is not None else 0
    far = BY_KEY["kl-infinite"].hit(infinite)
    if not never and not far:
        yield fine("not-a-number", f"{len(there)} metrics hold numbers")
        return
    yield finding(
        "not-a-number", "kl-infinite" if far else "not-a-number",
        [*([told("kl", f"`kl` is infinite in {infinite} of {len(kl)} rows", (kl.steps[0], kl.steps[-1]))] if far else
           []), *(seen(name, run.series[name]) for name in never if not (far and name == "kl"))],
        [cause("a log-probability overflows or is -inf", "the same rows of `grad_norm` and `loss`"),
         cause("the reference or the weights hold NaN", "load the checkpoint and look"),
         cause("the export wrote no numbers", "the run's trainer_state.json")],
        [setting("bf16 in place of fp16; a lower rate", fp16=False, bf16=True)],
    )  # fmt: skip


@check("policy-collapse")
def _destroyed(run: Run) -> Outcome:
    reward, deviation = run.get("reward"), run.get("reward_std")
    if reward is None or deviation is None:
        yield unmeasured("policy-collapse", "no `reward` with `reward_std`", LOG)
        return
    count, _, steps, value, total = _same(run, "reward", "reward_std", None)
    lived = len(reward) - max(count - len(run.later), 0)  # `count` may hold files after the log's end
    first = float(reward.values[: max(1, lived)].mean())
    changed = []
    for name, least in (("completions/clipped_ratio", None), ("entropy", 1.5), ("completions/mean_length", 1.5)):
        one = run.get(name)
        if one is None or not lived or not count:
            continue
        before, now = float(one.finite().values[0]), _recent(one)
        moved = abs(now - before) > 0.5 if least is None else max(now, before) > least * max(min(now, before), 1e-9)
        if moved:
            changed.append(f"`{name}` {before:.3g} to {now:.3g}")
    if not (BY_KEY["policy-collapse"].hit(count) and lived and value < first and changed):
        yield fine("policy-collapse", "the policy was not destroyed in this run")
        return
    rate, lora = _rate(run), run.known("use_peft")
    high = BY_KEY["rate-high"].hit(rate / (10 if lora else 1))
    yield finding(
        "policy-collapse", "policy-collapse",
        [seen("reward", reward, f"`reward` was {first:.3g} and differed until step {reward.steps[lived - 1]:g}; since "
                                f"then it is {value:g} for everything"),
         told("texts", f"the texts changed with it: {', '.join(changed)}", steps)],
        [cause("the learning rate is too high", "learning_rate in the log", True if high else None,
               "" if math.isnan(rate) else f"learning_rate {rate:g}"),
         cause("one huge gradient", "`grad_norm` in the last rows before"),
         cause("the reward led there: it was gamed, then lost", "read the rows just before")],
        [setting("a hundredth, from the start: this checkpoint is lost", learning_rate=2e-5 if lora else 1e-6),
         setting(max_grad_norm=0.2)], share=count / total, steps=steps, rows=run.rows("last"),
    )  # fmt: skip


# ---- the machine


@check("entropy-coef-at-max", "tool-failures", "aux-loss-growth")
def _extras(run: Run) -> Outcome:
    coefficient = run.get("entropy_coef")
    if coefficient is None:
        yield absent(run, "entropy-coef-at-max", "no adaptive entropy is logged")
    else:
        most = run.known("entropy_coef_max") if run.settings is not None else 1.0
        count = tail(coefficient.values >= (most if most is not None else 1.0) - 1e-12)
        if BY_KEY["entropy-coef-at-max"].hit(count):
            yield finding(
                "entropy-coef-at-max", "entropy-coef-at-max", [seen("entropy_coef", coefficient)],
                [cause("entropy_target is above what the model has", "`entropy` never reaches it",
                       None if run.get("entropy") is None or run.known("entropy_target") is None else
                       bool(np.nanmax(run.get("entropy").values) < run.known("entropy_target")),
                       run.where("entropy_target"))],
                [setting("half of the first entropy (judgement)", entropy_coef_max=0.01,
                         entropy_target=round(float(run.get("entropy").finite().values[0]) / 2, 3)
                         if run.get("entropy") else 0.3)],
                share=count / len(coefficient),
            )  # fmt: skip
        else:
            yield fine("entropy-coef-at-max", f"`entropy_coef` {coefficient.finite().values[-1]:.3g}")
    tools = run.get("tools/failure_frequency")
    if tools is None:
        yield absent(run, "tool-failures", "no tools are logged")
    else:
        hit = level(tools, "tool-failures")
        yield fine("tool-failures", f"{_recent(tools):.0%} fail") if not hit else finding(
            "tool-failures", "tool-failures", [seen("tools/failure_frequency", tools)],
            [cause("calls do not parse or name no tool", "the completions: what stands where a call should be?"),
             cause("the tool itself raises", "its own log")],
            [setting("an example of a call in the prompt")], severity=hit.severity, share=hit.share, steps=hit.steps,
            rows=run.rows("last"),
        )  # fmt: skip
    aux = run.get("aux_loss")
    if aux is None:
        yield absent(run, "aux-loss-growth", "no `aux_loss`: not a mixture of experts, or its coefficient is 0")
    else:
        values = aux.finite().values
        grown = (
            _recent(aux) / values[: window(len(values))].mean() if values[: window(len(values))].mean() else math.nan
        )
        yield fine("aux-loss-growth", f"{grown:.2f} times its start") if not BY_KEY["aux-loss"].hit(grown) else finding(
            "aux-loss-growth", "aux-loss", [seen("aux_loss", aux)],
            [cause("the router collapses", "load of the experts")], [setting(router_aux_loss_coef=0.01)],
        )  # fmt: skip


@check("slow-generation", "stalls", "throughput-drop")
def _time(run: Run) -> Outcome:
    times, longest, tokens = run.get("step_time"), run.get("completions/max_length"), run.get("num_tokens")
    if times is None or len(times.finite()) < 11:
        for id in ("slow-generation", "stalls", "throughput-drop"):
            yield unmeasured(id, "no `step_time`" if times is None else "under 11 rows of `step_time`", LOG)
        return
    late = Series(times.finite().steps[1:], times.finite().values[1:])  # the first step warms up
    made = run.series.get("reward")
    if made is not None and len(made) < 0.8 * len(late):  # steps between generations are short: no stall
        keep = np.isin(late.steps, made.steps)
        late = Series(late.steps[keep], late.values[keep])
    median, slow = float(np.median(late.values)), float(np.percentile(late.values, 95))
    far = late.steps[late.values > BY_KEY["stalls"].value * median]
    lost = float(late.values[late.values > BY_KEY["stalls"].value * median].sum() / late.values.sum())
    grave = BY_KEY["stalls-waste"].hit(lost) and len(far) > 1  # one long step may be the machine
    if grave or BY_KEY["stalls"].hit(slow / median if median > 0 else math.nan):
        yield finding(
            "stalls", "stalls-waste" if grave else "stalls",
            [seen("step_time", times, f"a step takes {median:.3g} s, {len(far)} of {len(late)} take over "
                                      f"3 times that and {lost:.0%} of the time; steps "
                                      f"{', '.join(f'{step:g}' for step in far[:6])}")],
            [cause("a reward hangs on some completions", "time the reward on the rows of these steps"),
             cause("checkpoints or evaluation", "are these steps multiples of save_steps or eval_steps?",
                   _regular(far, run)),
             cause("the machine is shared", "other jobs")],
            [setting("a time limit in a child process around the reward")], share=len(far) / len(late),
        )  # fmt: skip
    else:
        yield fine("stalls", f"a step takes {median:.3g} s, 95 % under {slow:.3g} s")
    r = math.nan
    if longest is not None:
        common, ours, theirs = np.intersect1d(late.steps, longest.steps, return_indices=True)
        x, y = late.values[ours], longest.values[theirs]
        if len(common) >= 20 and x.std() > 0 and y.std() > 0:
            r = float(np.corrcoef(x, y)[0, 1])
    if run.known("use_vllm"):
        yield fine("slow-generation", "vLLM generates")
    elif math.isnan(r):
        yield unmeasured(
            "slow-generation", "under 20 rows in which time and `completions/max_length` vary", "wait for 20"
        )
    elif BY_KEY["slow-generation"].hit(r):
        yield finding(
            "slow-generation", "slow-generation",
            [seen("step_time", times, f"`step_time` follows `completions/max_length`, correlation {r:.2f}")],
            [cause("generation without vLLM waits for the longest completion", "use_vllm",
                   None if run.known("use_vllm") is None else not run.known("use_vllm"), run.where("use_vllm"))],
            [setting(use_vllm=True), setting("with LoRA only", use_transformers_continuous_batching=True),
             setting("more steps per rollout: off-policy",
                     steps_per_generation=4 * (run.known("gradient_accumulation_steps") or 1))],
        )  # fmt: skip
    else:
        yield fine("slow-generation", f"`step_time` and `completions/max_length` correlate by {r:.2f}")
    if tokens is None or len(tokens.finite()) < 11:
        yield unmeasured("throughput-drop", "no `num_tokens`", LOG)
        return
    common, ours, theirs = np.intersect1d(late.steps, tokens.steps, return_indices=True)
    made, spent = np.diff(tokens.values[theirs]), late.values[ours][1:]
    keep = (made > 0) & (spent > 0)
    gaps = np.diff(common)[keep]  # step_time is per step, tokens are between rows
    speed = Series(common[1:][keep], made[keep] / spent[keep] / np.maximum(gaps, 1))
    if len(speed) < 10:
        yield unmeasured("throughput-drop", "too few rows", LOG)
        return
    size = window(len(speed))
    ratio = float(np.median(speed.values[-size:]) / np.median(speed.values[:size]))
    if BY_KEY["throughput-drop"].hit(ratio):
        yield finding(
            "throughput-drop", "throughput-drop", [seen("tokens per second", speed)],
            [cause("completions grow: the longest one is waited for", "`completions/max_length`",
                   None if longest is None else rises(longest) > 0),
             cause("memory is short: preemption in vLLM, fragmentation", "its log"),
             cause("another job shares the machine", "nvidia-smi")],
            [setting("see slow-generation")],
        )  # fmt: skip
    else:
        yield fine("throughput-drop", f"{ratio:.2f} times the tokens per second of the start")


def _regular(steps: np.ndarray, run: Run) -> bool | None:
    every = [run.info.get("save_steps"), run.info.get("eval_steps")]
    every = [int(one) for one in every if one and one >= 1]
    if not every or not len(steps):
        return None
    return bool(np.mean([any(step % one in (0, 1) for one in every) for step in steps]) > 0.8)


@check("several-runs")
def _several(run: Run) -> Outcome:
    times = len(run.info.get("restarts", ())) + run.info.get("leftovers", 0)
    if not BY_KEY["several-runs"].hit(times):
        yield fine("several-runs", "one run")
        return
    said = [f"the log's steps begin again at {', '.join(f'{step:g}' for step in run.info['restarts'][:5])}"
            ] if run.info.get("restarts") else []  # fmt: skip
    said += [f"{run.info['leftovers']} files are of an earlier run"] if run.info.get("leftovers") else []
    yield finding(
        "several-runs", "several-runs",
        [told("step", f"{'; '.join(said)}; only what was written last is judged", times=times)],
        [cause("output_dir was used before", "dates of the files"),
         cause("the run was resumed from a checkpoint", "the job's command")],
        [setting("one output_dir for each run", output_dir="runs/<name>")],
    )  # fmt: skip


@check("duplicate-names")
def _duplicates(run: Run) -> Outcome:
    functions = run.settings.rewards if run.settings is not None else None
    if functions:
        names = [one.rpartition(".")[2].rpartition("/")[2] for one in functions]
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        many = len(names)
        if not twice and run.rewards and len(run.rewards) < many:  # other names in the modules, one `__name__`
            twice = run.rewards[:1] if len(run.rewards) == 1 else [f"{many - len(run.rewards)} of {run.rewards}"]
    else:  # two functions under one name: the sum is twice the mean of what is logged for them
        reward = run.get("reward")
        parts = run.get(f"rewards/{run.rewards[0]}/mean") if len(run.rewards) == 1 else None
        if reward is None or parts is None or len(parts) != len(reward) or run.given("reward_weights"):
            yield unmeasured("duplicate-names", "no config says which reward functions there are", "--config grpo.yaml")
            return
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (reward.values / parts.values)[np.abs(parts.values) > 1e-6]
        many = round(float(np.median(ratio))) if len(ratio) and np.isfinite(np.median(ratio)) else 1
        same = many > 1 and bool(np.all(np.abs(ratio - many) < 1e-3))
        twice = [run.rewards[0]] if same else []
    if not BY_KEY["duplicate-names"].hit(len(twice)):
        yield fine("duplicate-names", f"{len(run.rewards)} rewards, as many names")
        return
    yield finding(
        "duplicate-names", "duplicate-names",
        [told("rewards", f"{many} reward functions share {', '.join(twice)}: the log averages them, the completions "
              "show the last" if functions else f"`reward` is {many} times `rewards/{twice[0]}/mean` in every row",
              count=len(twice))],
        [cause("two functions with one `__name__`: a factory, functools.partial, or two modules",
               "print the names of reward_funcs", True if functions else None,
               ", ".join(functions) if functions else "`reward` is a multiple of its only part"),
         *([] if functions else [cause("reward_weights holds this number", "the config")])],
        [setting("give each function a __name__ of its own: f.__name__ = 'right_answer'")],
        severity=None if functions else "tell",
    )  # fmt: skip


FIVE = 5  # steps of a mean in the table of curves


def fives(values: list[float]) -> list[float]:
    """Means of steps 1-5, 6-10 and so on.

    >>> fives([1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 9])
    [1.0, 2.0]
    """
    return [float(np.mean(values[at : at + FIVE])) for at in range(0, len(values) - FIVE + 1, FIVE)]


def example_like(run: Run) -> dict | None:
    """The curves of the example that this run is of: the same rewards on the same rows."""
    import preflight_config

    table = preflight_config.beside("expected_curves.json")
    same = all(run.given(name) and run.known(name) == table["settings"][name] for name in ("reward_funcs", "datasets"))
    return table if same else None


@check("unlike-expected")
def _expected(run: Run) -> Outcome:
    table = example_like(run)
    if table is None:
        yield {"skip": "unlike-expected"}  # another run: there is nothing to compare it with
        return
    reward = run.get("reward")
    common = min(len(reward.finite()) if reward is not None else 0, len(table["curves"]["reward"][0]))
    if common < FIVE:
        yield unmeasured("unlike-expected", f"{common} steps with a reward", f"wait for {FIVE}")
        return
    at = common // FIVE * FIVE
    mine = float(reward.finite().values[at - FIVE : at].mean())
    seeds = [float(np.mean(values[at - FIVE : at])) for values in table["curves"]["reward"]]
    steps, low, high = f"steps {at - FIVE + 1} to {at}", min(seeds), max(seeds)
    said = f"mean `reward` of {steps} is {mine:.2f}; three seeds had {low:.2f} to {high:.2f}"
    if not BY_KEY["unlike-expected"].hit(low - mine):
        yield fine("unlike-expected", said)
        return
    others = {name: value for name, value in table["settings"].items()
              if name not in ("max_steps", "save_steps", "logging_steps") and run.known(name) != value}  # fmt: skip
    yield finding(
        "unlike-expected", "unlike-expected", [seen("reward", reward, said)],
        [cause("a setting differs", "the config beside examples/sums.yaml", bool(others),
               "; ".join(f"{name} is {run.known(name)!r} here, {value!r} there" for name, value in others.items())),
         cause("another model or template", "model_name_or_path; the first prompt in the parquet"),
         cause("another version", f"made with {', '.join(f'{a} {b}' for a, b in table['versions'].items())}")],
        [setting("run examples/sums.yaml as it stands")],
    )  # fmt: skip


def curves_table() -> str:
    """The expected curves as markdown: means of five steps, lowest to highest seed."""
    import preflight_config

    table = preflight_config.beside("expected_curves.json")
    names = list(table["curves"])
    means = {name: [fives(values) for values in table["curves"][name]] for name in names}
    rows = [("Steps", *(f"`{name}`" for name in names)), ("---",) * (len(names) + 1)]
    for part in range(len(means[names[0]][0])):
        low_high = [(min(one[part] for one in means[name]), max(one[part] for one in means[name])) for name in names]
        rows.append(
            (f"{part * FIVE + 1}-{part * FIVE + FIVE}", *(f"{low:.2f} to {high:.2f}" for low, high in low_high))
        )
    versions = ", ".join(f"{name} {version}" for name, version in table["versions"].items())
    return f"{_cells(rows)}\n\nMade {table['made']} with {versions}; seeds {', '.join(map(str, table['seeds']))}."


@check("columns-differ")
def _columns(run: Run) -> Outcome:
    logged = {name for name in run.rewards if f"rewards/{name}/mean" in run.series}
    filed = {name for one in run.batches for name in one.names}
    if not logged or not run.batches:
        yield unmeasured("columns-differ", "log and completions are not both there", "give the output directory")
        return
    lost = sorted(logged - filed)
    if BY_KEY["columns-differ"].hit(len(lost)):
        yield finding(
            "columns-differ", "columns-differ",
            [told("completions", f"in the log, not in the completions: {', '.join(lost)}", rows=len(lost))],
            [cause("files of another run lie in the folder", "the files' dates"),
             cause("an extra column has the reward's name", "log_extra in the reward")],
            [setting("one output_dir for each run")],
        )  # fmt: skip
    else:
        yield fine("columns-differ", f"log and completions name {', '.join(sorted(logged))}")


# ---- all of it

GROUPS, SIGNAL = "dead-groups", {"constant-reward", "no-gradient"}  # known before a run may be called ok


def examine(run: Run) -> dict:
    """Findings, passed, not measured and notes; a finding that another explains is told inside that one."""
    found, passed, missing = [], [], []
    for known in CHECKS:
        try:
            with np.errstate(all="ignore"):  # a reward of 1e308 is the user's, and no noise on stderr
                outcomes = list(known.run(run))
        except Exception as error:  # a fault of ours may not pass as fine, nor hide the other checks
            outcomes = [unmeasured(id, f"this check failed itself: {type(error).__name__}: {error}"[:200], "report it")
                        for id in known.ids]  # fmt: skip
        said = {one.get("id") or one.get("fine") or one.get("unmeasured") or one.get("skip") for one in outcomes}
        rest = [id for id in known.ids if id not in said]
        outcomes += [fine(id, f"see {', '.join(sorted(said))}") for id in rest]
        found += [one for one in outcomes if "id" in one]
        passed += [{"id": one["fine"], "text": one["text"]} for one in outcomes if "fine" in one]
        missing += [{"id": one["unmeasured"], "why": one["why"], "mend": one["mend"]} for one in outcomes
                    if "unmeasured" in one]  # fmt: skip
    if run.info.get("eval_files"):
        for one in missing:
            if one["mend"] == FILES:
                one["why"] += f"; all {run.info['eval_files']} completions files hold an evaluation's rows"
                one["mend"] = "an eval_steps larger than logging_steps: TRL writes one file for both"
    found = fold(found)
    rank = {name: place for place, name in enumerate(SEVERITIES)}
    found.sort(key=lambda one: (rank[one["severity"]], -one["share"], ORDER.index(one["id"])))
    early = 0 < run.generations < LEAST
    if early:  # one batch is chance
        run.notes.append(f"{run.generations} generations: too few to judge by, findings are shown as tell")
        for one in found:
            one["severity"] = "tell"
    grave = [one["severity"] for one in found]
    measured = {one["id"] for one in passed} | {one["id"] for one in found}
    measured |= {id for one in found for id in one["explains"]}
    if "dead" in grave or "waste" in grave:
        verdict = "dead" if "dead" in grave else "waste"
    else:
        verdict = "ok" if not early and GROUPS in measured and measured & SIGNAL else "not measured"
    return {"verdict": verdict, "findings": found, "passed": passed, "not_measured": missing, "notes": notes(run)}


_NO_FAULT = ("reward-won", "dead-groups-solved")


def fold(found: list[dict]) -> list[dict]:
    """Findings without those that a graver or equal one explains; these are told in its `seen`."""
    rank = {name: place for place, name in enumerate(SEVERITIES)}
    by_id = {one["id"]: one for one in found}
    gone: dict[str, str] = {}
    for id in ORDER:  # causes stand before consequences
        one = by_id.get(id)
        if one is None or id in gone:
            continue
        for other in KINDS[id].explains:
            if other in by_id and other not in gone and rank[one["severity"]] <= max(rank[by_id[other]["severity"]], 1):
                if one["severity"] == "tell" and by_id[other]["severity"] != "tell":
                    continue
                gone[other] = id
    for other, id in gone.items():
        root = id
        while root in gone:
            root = gone[root]
        target, lost = by_id[root], by_id[other]
        won = target["threshold"]["text"] in [BY_KEY[key].text() for key in _NO_FAULT]  # dead groups are then no fault
        if rank[lost["severity"]] < rank[target["severity"]] and not won:
            target["severity"] = lost["severity"]  # what it explains shows how grave it is
        target["explains"].append(other)
        target["share"] = max(target["share"], lost["share"])
        target["seen"] += [replace_text(entry, f"also seen ({other}): {entry['text']}") for entry in lost["seen"][:1]]
        if not target["rows"]:
            target["rows"] = lost["rows"]
    return [one for one in found if one["id"] not in gone]


def replace_text(entry: dict, text: str) -> dict:
    return {**entry, "text": text}


def notes(run: Run) -> list[str]:
    """What looks like a fault in this run and is none, and what was left out."""
    said = list(run.notes)
    loss, gradient = run.get("loss"), run.get("grad_norm")
    if loss is not None and gradient is not None:
        quiet = (np.abs(loss.values) < 1e-6) & np.isin(loss.steps, gradient.steps[gradient.values > 0])
        if quiet.any():
            said.append("`loss` is 0 in rows whose `grad_norm` is not: on-policy it is the mean advantage, no fault")
        if (loss.values < 0).any():
            said.append("`loss` is negative in places: advantages weighted by length, no fault; never stop by it")
    reward = run.series.get("reward")
    if gradient is not None and reward is not None and len(gradient) > len(reward) > 0:
        said.append("rows without `reward` lie between generations: steps_per_generation or num_iterations, no fault")
    if loss is not None and run.get("kl") is None:
        said.append("no `kl`: `beta` is 0, TRL's default")
    shares, where = run.dead_shares
    deviation = run.get("reward_std")
    if shares is not None and deviation is not None and _recent(shares) > 0.5 and _recent(deviation) > 0:
        said.append("`reward_std` is above 0 though groups are dead: since TRL 0.28 it is taken over the batch")
    if "files" in where and run.get("frac_reward_zero_std") is not None:
        said.append("`frac_reward_zero_std` was not believed: " + run.blind(None, None) if run.blind(None, None) else
                    "`frac_reward_zero_std` was not believed: it differs from the rewards per group (in float32 eight "
                    "rewards of 0.6 have a std above 0)")  # fmt: skip
    if run.later:
        said.append(f"the log ends at step {run.log_end:g}, {run.later[-1].step - run.log_end:g} steps behind the "
                    f"completions: {len(run.later)} files after it tell of dead groups and constant rewards, nothing "
                    "tells of gradient, entropy or lengths there")  # fmt: skip
    if run.known("importance_sampling_level") == "sequence":
        said.append("`clip_ratio/region_mean` of 0.3 to 0.7 is normal: it counts sequences")
    if run.info.get("logging_steps", 1) > 1:
        said.append(f"each row is a mean over {run.info['logging_steps']} steps: logging_steps=1 shows more, and more "
                    "completions files")  # fmt: skip
    return said


def curve(series: Series, most: int = 400) -> list[list]:
    """At most `most` points; of each stretch its least and its greatest, so that spikes stay.

    >>> points = curve(Series(np.arange(10_000.0), np.where(np.arange(10_000) == 7777, 5.0, 1.0)))
    >>> len(points) <= 400, max(value for _, value in points)
    (True, 5)
    """
    finite = series.finite()
    if len(finite) <= most:
        keep = np.arange(len(finite))
    else:
        cuts = np.linspace(0, len(finite), most // 2 + 1).astype(int)
        keep = sorted({place for a, b in itertools.pairwise(cuts) if b > a for place in
                       (a + int(np.argmin(finite.values[a:b])), a + int(np.argmax(finite.values[a:b])))})  # fmt: skip
    return [[_number(finite.steps[place]), _number(finite.values[place])] for place in keep]


CURVES = ("reward", "eval_reward", "frac_reward_zero_std", "grad_norm", "completions/clipped_ratio",
          "completions/mean_length", "entropy", "kl", "clip_ratio/region_mean", "step_time",
          "sampling/importance_sampling_ratio/mean", "sampling/sampling_logp_difference/mean")  # fmt: skip


def curves(run: Run) -> dict[str, list]:
    names = [*CURVES, *(f"rewards/{name}/mean" for name in run.rewards[:8])]
    found = {name: curve(run.series[name]) for name in names if run.get(name) is not None}
    shares, where = run.dead_shares
    if shares is not None and "files" in where:
        found["dead groups"] = curve(shares)
    return found


# ---- tables for the reference


def _cells(rows: list[tuple]) -> str:
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)


def table(which: str) -> str:
    """The thresholds, or the findings, as a Markdown table.

    >>> table("thresholds").splitlines()[0]
    '| Finding | Severity | Metric | Fails | Where | Source |'
    """
    if which == "curves":
        return curves_table()
    if which == "thresholds":
        rows = [("Finding", "Severity", "Metric", "Fails", "Where", "Source"), ("---",) * 6]
        rows += [(f"`{one.finding}`", one.severity, one.metric,
                  f"{one.fails} {one.value:g}" + (f" {one.unit}" if one.unit else ""), one.condition or "-", one.source)
                 for one in THRESHOLDS]  # fmt: skip
        return _cells(rows)
    worst = {id: min((one.severity for one in THRESHOLDS if one.finding == id), key=list(SEVERITIES).index)
             for id in KINDS if any(one.finding == id for one in THRESHOLDS)}  # fmt: skip
    rows = [("Finding", "At worst", "What it is", "What it is not", "Variant to try"), ("---",) * 5]
    for id, kind in KINDS.items():
        failure = _failures()[kind.failure] if kind.failure else None
        tries = f"`{failure.tries[0]}`" if failure else "-"
        rows.append((f"`{id}`", worst[id], kind.title, kind.isnt or "-", tries))
    return _cells(rows)


# ---- texts

MARKERS = re.compile(
    r"<\|(?:im_end|im_start|eot_id|endoftext|end|start_header_id|eom_id)\|>|</s>|<end_of_turn>|<start_of_turn>|\[/INST\]"
    r"|\n[^\S\n]*(?:user|assistant|human|question|system)[^\S\n]*(?::|\n)", re.IGNORECASE)  # fmt: skip
CLOSED = re.compile(r"</answer>|\\boxed\{[^{}]*\}")
EMPTY = re.compile(r"<(answer|think|reasoning|reason)>\s*</\1>", re.IGNORECASE)
ANSWERS = re.compile(r"<answer>(.*?)(?:</answer>|$)", re.DOTALL | re.IGNORECASE)
RUNNER = re.compile(
    r"\bsys\.exit\b|\bos\._exit\b|\b__eq__\b|\bpytest\b|\bunittest\b|\bconftest\b|\binspect\.(?:stack|currentframe)\b"
    r"|\bsys\.(?:modules|_getframe|settrace)\b|\bmonkeypatch\b|\bbuiltins\b|\bgc\.get_\w+")  # fmt: skip
SCANNED = 4000  # characters of one text in which shared words are looked for (judgement: it is the slow part)
CHUNK = 60  # characters of the prompt that must come back for a copy (judgement)


def text_of(value: Any) -> str:
    """The text of a completion or prompt: a string, or messages.

    >>> text_of([{"role": "assistant", "content": "4"}]), text_of(None)
    ('4', '')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "\n".join(text_of(one) for one in value)
    if isinstance(value, dict):
        return text_of(value.get("content") or value.get("text") or str(value.get("tool_calls") or ""))
    return "" if value is None else str(value)


def loops(text: str) -> bool:
    """Whether most word quadruples of a text were there before; short texts are not judged.

    >>> loops("so it goes on and on " * 20), loops(" ".join(str(n) for n in range(100)))
    (True, False)
    """
    words = text[-6000:].split()
    if len(words) < 20:
        return False
    quads = [tuple(words[place : place + 4]) for place in range(len(words) - 3)]
    return len(set(quads)) < 0.5 * len(quads)


def goes_on(text: str) -> bool:
    """Whether a text is finished and goes on: a marker of a turn's end, or an answer closed in its first half.

    >>> goes_on("4<|im_end|>\\nuser"), goes_on("<answer>4</answer>"), goes_on("<answer>4</answer>" + " and so on" * 9)
    (True, False, True)
    """
    marker = MARKERS.search(text)
    if marker and marker.end() < len(text.rstrip()):
        return True
    closed = CLOSED.search(text)
    return bool(closed) and len(text) - closed.end() > max(60, len(text) // 2)


def unfinished(text: str) -> bool:
    """Whether a text stops in the middle.

    >>> unfinished("so the sum is"), unfinished("The sum is 4."), unfinished("<answer>4</answer>")
    (True, False, False)
    """
    end = text.rstrip()
    return not end or end[-1] not in ".!?>}`)]\"'"


def signs_of(text: str, prompt: str) -> set[str]:
    """Signs of gaming in one text; see SIGNS.

    >>> sorted(signs_of("<answer>4</answer><answer>5</answer><think></think>", "2 + 2 ="))
    ['empty-blocks', 'many-answers']
    """
    found = set()
    answers = {answer.strip() for answer in ANSWERS.findall(text)}
    if len(answers) > 1 or len(set(re.findall(r"\\boxed\{([^{}]*)\}", text))) > 1:
        found.add("many-answers")
    if EMPTY.search(text):
        found.add("empty-blocks")
    if loops(text):
        found.add("repetition")
    if RUNNER.search(text):
        found.add("touches-tests")
    plain = prompt.strip()
    if len(plain) >= CHUNK and plain[-CHUNK:] in text:
        found.add("copied-prompt")
    return found


def shortened(text: str, most: int = 400) -> str:
    """The beginning and the end of a text: a cut shows at its end.

    >>> shortened("ab" * 400, 20)
    'ababababab … ababababab'
    """
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-(most // 2) :]}"


@np.errstate(all="ignore")
def batch(step: int, columns: dict[str, list], rewards: list[str], size: int | None, weights: list[float] | None = None,
          file: str = "", separate: bool = False, texts: bool = True) -> Batch:  # fmt: skip
    """Statistics of one generation from its columns: rewards, `advantage`, and `prompt` and `completion` if read.

    `size` is the number of completions per group; None: runs of equal prompts. `separate` is normalize_then_sum: a
    group is dead only if every reward is constant in it.

    >>> one = batch(1, {"prompt": ["a", "a"], "r": [1.0, 1.0], "advantage": [0.0, 0.0]}, ["r"], 2)
    >>> one.groups, one.dead
    (1, 1)
    """
    count = len(columns["advantage"]) if "advantage" in columns else len(next(iter(columns.values()), []))
    made = Batch(step, count, names=tuple(rewards), read=texts)
    size = size if isinstance(size, int) and size > 0 else None  # a config may say anything
    if not all(isinstance(one, int | float) for one in weights or ()):
        weights = None
    if not count:
        return made
    matrix = np.array([[math.nan if value is None else value for value in columns[name]] for name in rewards], float)
    matrix = matrix.reshape(len(rewards), count)
    weight = np.array(weights if weights and len(weights) == len(rewards) else [1.0] * len(rewards))
    scored = ~np.isnan(matrix).all(axis=0) if len(rewards) else np.zeros(count, bool)
    with np.errstate(invalid="ignore"):
        total = np.where(scored, np.nansum(matrix * weight[:, None], axis=0), math.nan)
    logged = columns.get("advantage", [math.nan] * count)
    advantage = np.array([math.nan if value is None else value for value in logged], float)
    finite = total[np.isfinite(total)]
    made.none, made.infinite = int((~scored).sum()) if len(rewards) else 0, int(np.isinf(matrix).any(axis=0).sum())
    said = np.isfinite(advantage)
    made.zero = float(np.mean(np.abs(advantage) < 1e-9)) if said.all() else math.nan
    if len(finite):
        made.low, made.high = float(finite.min()), float(finite.max())
    for name, values in zip(rewards, matrix):
        known = values[np.isfinite(values)]
        made.means[name] = float(known.mean()) if len(known) else math.nan
        if len(known) and known.min() == known.max():
            made.constant += (name,)
    prompts = columns.get("prompt")
    if prompts is not None:
        found = run_length(prompts)
        if size is None or (found is not None and found % size):  # a config of another run
            size = found
    guessed = size is None and prompts is not None and all(one == prompts[0] for one in prompts)
    if guessed:  # one prompt for all: a run of equal prompts is no group
        size = count if made.zero > 1 - 1e-9 else _by_advantage(total, advantage)
    if rewards and size and size > 1 and count % size == 0:
        _grouped(made, matrix, weight, total, size, prompts, separate, advantage)
        if guessed:
            made.size = 0  # good for this file only
            if made.zero > 1 - 1e-9:  # all groups are dead, whatever their size
                made.unpaid, made.between, made.prompts = 0, False, {}
    if texts and "completion" in columns:
        _texts(made, columns, rewards, matrix, total, advantage, size if made.groups else 0, file)
    return made


def run_length(prompts: list) -> int | None:
    """Completions per group, from runs of equal prompts; None where it cannot be told.

    >>> run_length(["a", "a", "b", "b"]), run_length(["a", "b", "c"])
    (2, None)
    """
    runs, last = [], object()
    for prompt in prompts:
        if prompt == last:
            runs[-1] += 1
        else:
            runs.append(1)
            last = prompt
    size = math.gcd(*runs) if len(runs) > 1 else 0
    return size if size > 1 else None


def _by_advantage(total: np.ndarray, advantage: np.ndarray) -> int | None:
    """The greatest group size for which advantages follow rewards: equal for equal ones, summing to 0.

    >>> _by_advantage(np.array([0.0, 1.0, 1.0, 0.0]), np.array([-1.0, 1.0, 1.0, -1.0]))
    4
    """
    count = len(total)
    if not (np.isfinite(total).all() and np.isfinite(advantage).all()):
        return None
    for size in (one for one in range(count, 1, -1) if count % one == 0):
        groups = zip(total.reshape(-1, size), advantage.reshape(-1, size))
        if all(abs(gains.sum()) <= 1e-3 * size and all(np.ptp(gains[paid == one]) <= 1e-4 for one in set(paid.tolist()))
               for paid, gains in groups):  # fmt: skip
            return size
    return None


def _grouped(made: Batch, matrix, weight, total, size: int, prompts, separate: bool, advantage) -> None:
    groups = total.reshape(-1, size)
    made.size, made.groups = size, len(groups)
    spread = made.high - made.low if math.isfinite(made.high) else 0.0
    parts, gains = matrix.reshape(len(matrix), -1, size), advantage.reshape(-1, size)
    middles = []
    for place, values in enumerate(groups):
        known = values[~np.isnan(values)]
        killed = bool(np.isinf(known).any())
        gap = float(known.max() - known.min()) if len(known) > 1 and not killed else 0.0
        if separate and not killed and len(known) > 1:
            gap = max((float(np.nanmax(one[place]) - np.nanmin(one[place])) for one in parts
                       if not np.isnan(one[place]).all()), default=0.0)  # fmt: skip
        # Float32 rewards: a difference below a millionth of the size is rounding.
        if gap <= 1e-6 * max(1.0, float(np.abs(known).max()) if len(known) and not killed else 1.0):
            made.dead += 1
            if len(known) and not killed:
                middles.append(float(known[0]))
        elif np.all(np.abs(gains[place]) < 1e-9):  # no weight, or a column that is no reward: advantages know
            made.dead += 1
            made.unpaid += 1
        else:
            middles.append(float(known.mean()))
            made.tiny += spread > 0 and gap < 0.01 * spread
        if prompts is not None and len(known) and not killed:
            key = hash(repr(prompts[place * size]))
            made.prompts[key] = float(known[0]) if gap == 0 else math.nan
    made.between = bool(middles) and max(middles) - min(middles) > 1e-6
    for name, values, one in zip(made.names, parts, weight):
        known = np.where(np.isfinite(values), values, math.nan)
        enough = (~np.isnan(known)).sum(axis=1) > 1
        made.spread[name] = float(np.nanvar(known[enough], axis=1).mean() * one**2) if enough.any() else 0.0


def _texts(made: Batch, columns: dict, rewards, matrix, total, advantage, size: int, file: str) -> None:
    """Counts over the texts of a batch, and a few rows to show."""
    raw, asked = columns["completion"], columns.get("prompt") or [""] * made.rows
    texts, prompts = [text_of(value) for value in raw], [text_of(value) for value in asked]
    counts = made.texts
    counts["read"] += len(texts)
    counts["message-lists"] += sum(isinstance(value, list) for value in raw)
    counts["unfinished"] += sum(map(unfinished, texts))
    counts["goes-on"] += sum(map(goes_on, texts))
    counts["loops"] += sum(map(loops, texts))
    counts["think-closed-only"] += sum("</think>" in text and "<think>" not in text for text in texts)
    extra = [name for name in columns if name not in ("step", "prompt", "completion", "advantage", *rewards)]
    golds = next((columns[name] for name in extra if re.search(r"gold|answer|solution|target|label|reference", name)
                  and not name.endswith("/extracted")), None)  # fmt: skip
    if golds is not None:
        for gold, text in zip(golds, texts):
            plain = text_of(gold).strip()
            if plain:
                counts["gold-rows"] += 1
                counts["gold-in-text"] += re.search(rf"(?<!\w){re.escape(plain)}(?!\w)", text) is not None

    def row(place: int, why: str) -> dict:
        return {"file": file, "step": made.step, "row": place, "reward": _number(total[place]),
                "advantage": _number(advantage[place]), "why": why, "prompt": shortened(prompts[place]),
                "completion": shortened(texts[place])}  # fmt: skip

    def show(kind: str, places, why: str, most: int = 2) -> None:
        for place in list(places)[:most]:
            made.examples.setdefault(kind, []).append(row(int(place), why))

    show("last", range(0, made.rows, max(1, made.rows // 3)), "one of the latest", 3)
    show("none", np.flatnonzero(np.isnan(total)), "no reward at all")
    show("infinite", np.flatnonzero(np.isinf(matrix).any(axis=0)), "an infinite reward")
    order = np.argsort(-np.nan_to_num(advantage, nan=-math.inf), kind="stable")
    paid = [place for place in order[:3] if advantage[place] > 0]
    show("best", paid, "among the highest advantages", 3)
    if not size:
        return
    copies = 0
    for start in range(0, made.rows, size):
        group = texts[start : start + size]
        same = Counter(group)
        copies += sum(number for number in same.values() if number > 1)
        if len(same) == 1:
            show("copy", [start], "every completion of this group is this text")
        rewards_here = total[start : start + size]
        if np.isfinite(rewards_here).all() and np.ptp(rewards_here) == 0:
            show("dead", [start], f"all {size} completions of this prompt have this reward")
        sizes = np.array([len(text) for text in group], float)
        gains = np.nan_to_num(advantage[start : start + size])
        sizes, gains = sizes - sizes.mean(), gains - gains.mean()
        if np.abs(gains).max() > 0:
            made.lengths = tuple(np.add(made.lengths, (sizes @ sizes, gains @ gains, sizes @ gains)))
    made.copies = copies / made.rows
    best = set(np.flatnonzero(_extreme(advantage, size, 1)).tolist())
    worst = set(np.flatnonzero(_extreme(advantage, size, -1)).tolist())
    made.best, made.worst = len(best), len(worst)
    shared = _shared(texts, prompts)
    for place in range(made.rows):
        found = signs_of(texts[place], prompts[place])
        if shared[place]:
            found.add("boilerplate")
        for name in found:
            counts[f"sign:{name}"] += 1
            if place not in best and place not in worst:
                continue
            high, low = made.signs.get(name, (0, 0))
            made.signs[name] = (high + (place in best), low + (place in worst))
            if place in best and len(made.examples.get(f"sign:{name}", [])) < 2:
                show(f"sign:{name}", [place], SIGNS[name], 1)


def _extreme(advantage: np.ndarray, size: int, side: int) -> np.ndarray:
    """Rows with the highest (or lowest) advantage of their group, where that is above (below) 0."""
    groups = np.nan_to_num(advantage * side).reshape(-1, size)
    return ((groups == groups.max(axis=1, keepdims=True)) & (groups > 1e-9)).reshape(-1)


def grams(text: str) -> set[tuple[str, ...]]:
    """Five words in a row, tags apart.

    >>> sorted(grams("<a>one two three</a> four five six"))
    [('one', 'two', 'three', 'four', 'five'), ('two', 'three', 'four', 'five', 'six')]
    """
    if len(text) > SCANNED:  # what comes back in every answer stands at the beginning or at the end
        text = text[: SCANNED // 2] + "\n" + text[-SCANNED // 2 :]
    words = re.sub(r"<[^<>]*>", " ", text).split()
    return {tuple(words[place : place + 5]) for place in range(len(words) - 4)}


def _shared(texts: list[str], prompts: list[str]) -> list[bool]:
    """Which texts hold five words in a row that the answers to half of at least 3 prompts hold.

    A text that most prompts got word for word is a collapse, one that loops is repetition: neither counts.
    """
    held, asked = [grams(text) for text in texts], {}
    whole: dict[str, set[str]] = {}
    for text, prompt, found in zip(texts, prompts, held):
        whole.setdefault(text, set()).add(prompt)
        for gram in found:
            asked.setdefault(gram, set()).add(prompt)
    different = len(set(prompts))
    common = {gram for gram, by in asked.items() if len(by) >= different / 2} if different >= 3 else set()
    return [
        bool(found & common) and len(whole[text]) <= different / 2 and not loops(text)
        for text, found in zip(texts, held)
    ]


__all__ = ["BY_KEY", "Batch", "CHECKS", "KINDS", "Run", "Series", "THRESHOLDS", "batch", "curves", "examine",
           "table"]  # fmt: skip
