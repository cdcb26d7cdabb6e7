"""The checks of preflight.py that need nothing but the run's settings: arguments, batches, generation, rates.

A check is one function, registered with its id, group, severity, one sentence that says what fails, and where that is
known from. It returns an `Outcome` or a list of them. `Run.get` gives the value that the run will have; a setting that
cannot be known without running the user's script raises `NotKnown`, and the check is then "not measured".
"""

import ast
import difflib
import json
import math
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import preflight_config as config

GROUPS = ("arguments", "batch", "dataset", "rewards", "generation", "learning", "memory", "gates")
SEVERITIES = {"dead": "cannot learn, or stops", "waste": "costs rollouts or time", "tell": "know it"}
DELETE = config.DELETE


@dataclass
class Outcome:
    """One finding of a check.

    `change` is what a corrected copy of the config gets: new values by key, or `DELETE`. `rename` moves a value to
    another key where it stands. Only what is mechanical belongs there.
    """

    verdict: str  # "pass", "fail" or "not measured"
    evidence: str
    fix: str = ""
    change: dict[str, Any] = field(default_factory=dict)
    rename: dict[str, str] = field(default_factory=dict)
    severity: str | None = None  # milder or graver than the check's own, where the evidence says so
    waive: str | None = None  # what a waiver names, if more than the check's id: "reward-lint/pickling"
    key: str = ""  # the setting, where a check may return several: a waiver names "wrong-type:beta"


def passed(evidence: str) -> Outcome:
    return Outcome("pass", evidence)


def failed(evidence: str, fix: str, **more: Any) -> Outcome:
    return Outcome("fail", evidence, fix, **more)


def unmeasured(evidence: str, fix: str, **more: Any) -> Outcome:
    return Outcome("not measured", evidence, fix, **more)


@dataclass(frozen=True)
class Check:
    id: str
    group: str
    severity: str
    asks: str  # what a fail means, one sentence for the table
    source: str  # the source file that was read, a run of it, a thread, a paper, or "judgement"
    run: Callable[["Run"], Outcome | list[Outcome]]


CHECKS: list[Check] = []


def check(id: str, group: str, severity: str, asks: str, source: str):
    """Register a check; ids are stable, waivers name them."""
    if group not in GROUPS or severity not in SEVERITIES or any(id == known.id for known in CHECKS):
        raise ValueError(f"check {id}: unknown group or severity, or an id taken before")

    def register(function):
        CHECKS.append(Check(id, group, severity, asks, source, function))
        return function

    return register


@dataclass
class Run:
    """What a check may look at."""

    settings: config.Settings
    world: int = 1
    rows: list[dict] | None = None  # rows of the dataset, in order; None: no dataset was given
    total_rows: int | None = None
    options: Any = None  # the command's own options, for the checks that call other commands
    cache: dict = field(default_factory=dict)

    def get(self, name: str) -> Any:
        return self.settings.get(name)

    def given(self, name: str) -> bool:
        """Whether the file says it.

        Raises:
            NotKnown: if it does not, and `**settings` of a script may.
        """
        if not self.settings.given(name):
            self.all_read()
        return self.settings.given(name)

    def all_read(self) -> None:
        """What says that something is nowhere in the file must not say so of a file that is not read to its end."""
        if self.settings.anything:
            raise config.NotKnown(f"`{self.settings.anything}` in {self.settings.path.name} may hold more keys")

    def say(self, *names: str) -> str:
        return self.settings.say(*names)

    # ---- arithmetic of TRL (GRPOConfig.__post_init__, GRPOTrainer), held to it by tests

    def global_batch(self) -> int:
        """Completions of one forward and backward pass, over all processes."""
        return self.get("per_device_train_batch_size") * self.world

    def steps_per_generation(self) -> int:
        """Micro-steps that one generation serves."""
        if self.get("steps_per_generation") is not None:
            return self.get("steps_per_generation")
        if self.get("generation_batch_size") is not None:
            return max(1, self.get("generation_batch_size") // self.global_batch())
        return self.get("gradient_accumulation_steps")

    def generation_batch(self) -> int:
        """Completions of one generation, over all processes."""
        return self.get("generation_batch_size") or self.global_batch() * self.steps_per_generation()

    def on_policy(self) -> bool:
        """Whether each generation serves at most one optimizer step, so that the policy ratio is 1."""
        span = self.steps_per_generation() * self.get("num_iterations")
        return self.get("gradient_accumulation_steps") % span == 0


def results(run: Run, groups: tuple[str, ...] = GROUPS) -> list[dict]:
    """Every check of these groups, in order of registration; one entry for each outcome."""
    found = []
    for known in CHECKS:
        if known.group not in groups:
            continue
        try:
            outcome = known.run(run)
        except config.NotKnown as error:
            outcome = unmeasured(
                str(error), error.fix or "write it as a number or a name in the config, or give the YAML"
            )
        except Exception as error:  # a fault of ours may not pass as fine, nor hide the other checks
            outcome = unmeasured(
                f"this check failed itself: {type(error).__name__}: {error}"[:300], "look at the setting; report it"
            )
        for one in outcome if isinstance(outcome, list) else [outcome]:
            found.append(
                {"id": known.id, "group": known.group, "severity": one.severity or known.severity,
                 "verdict": one.verdict, "evidence": one.evidence, "fix": one.fix,
                 "waive": one.waive or (f"{known.id}:{one.key}" if one.key else known.id),
                 "change": one.change, "rename": one.rename}
            )  # fmt: skip
    return found


def vllm(run: Run) -> bool:
    return bool(run.get("use_vllm"))


def colocate(run: Run) -> bool:
    return vllm(run) and run.get("vllm_mode") == "colocate"


def lora(run: Run) -> bool:
    return bool(run.get("use_peft"))


def corrects(run: Run) -> bool:
    """Whether TRL weighs completions by the ratio of the trainer's probability to vLLM's."""
    return vllm(run) and bool(run.get("vllm_importance_sampling_correction"))


def per_sequence(run: Run) -> bool:
    """Whether that ratio is one product over all tokens of a completion."""
    return run.get("vllm_importance_sampling_mode") in ("sequence_mask", "sequence_truncate")


def evaluates(run: Run) -> bool:
    return run.get("eval_strategy") != "no"


def counted(run: Run, *names: str) -> list[int]:
    """These settings, as counts; a batch check has nothing to say where one of them is none.

    Raises:
        NotKnown: if one is not a whole number above 0, which is what the check positive-counts reports.
    """
    for name in names:
        if not isinstance(run.get(name), int) or isinstance(run.get(name), bool) or run.get(name) < 1:
            raise config.NotKnown(f"{run.say(name)} is no count (see positive-counts)")
    return [run.get(name) for name in names]


BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_iterations", "num_generations")


def sound_batch(run: Run) -> None:
    counted(run, *BATCH, *(n for n in ("steps_per_generation", "generation_batch_size") if run.get(n) is not None))
    if run.get("steps_per_generation") is None and run.generation_batch() % run.global_batch():
        raise config.NotKnown("the batch does not divide (see batch-divides)")


def mapping(run: Run, name: str) -> dict:
    """A setting that is a mapping, or JSON of one, as TRL's parser takes it.

    Raises:
        NotKnown: if it is neither.
    """
    value = run.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.startswith("{") else value
        except ValueError:
            pass
    if value is not None and not isinstance(value, dict):
        raise config.NotKnown(f"{run.say(name)} is no mapping")
    return value or {}


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ---- 1 arguments: names, types, choices

CHANGES = Path(__file__).with_name("trl_changes.json")
TRAINER = "TRL 1.16, grpo_trainer.py"
CONFIG = "TRL 1.16, grpo_config.py"
BASE = "transformers 5.24, training_args.py"
RAN = "a run of TRL 1.16"


def changes() -> dict[str, dict]:
    """Rows of the table of renamed and removed arguments, by the old name."""
    return {row["old"]: row for row in config.beside(CHANGES.name)["changes"]}


def moved(run: Run, name: str, row: dict) -> dict[str, dict]:
    """How a corrected copy spells an old argument."""
    new, value = row.get("new"), run.settings.values.get(name)
    if name == "warmup_ratio" and not below_1(value):
        new = None  # warmup_steps reads 1 and more as steps
    if name == "adafactor" and value is True:
        return {"change": {name: DELETE, "optim": "adafactor"}}
    if name == "torch_dtype" and name in run.settings.in_call:  # GRPOConfig has no such field
        extra = (
            {} if run.settings.given("model_init_kwargs") or value is None else {"model_init_kwargs": {"dtype": value}}
        )
        return {"change": {name: DELETE, **extra}}
    if new and not run.settings.given(new):
        return {"rename": {name: new}}
    return {"change": {name: DELETE}}


def below_1(value: Any) -> bool:
    try:
        return 0 <= float(value) < 1
    except (TypeError, ValueError):
        return False


@check("unknown-argument", "arguments", "dead", "a key that the installed TRL does not take there", "TRL's own fields")
def unknown_argument(run: Run) -> list[Outcome] | Outcome:
    known, old, found = config.arguments(), changes(), []
    script = run.settings.kind == "python"
    for name in dict.fromkeys((*run.settings.values, *run.settings.unread)):
        where, owner = run.settings.where(name), known.get(name, {}).get("class")
        if name in known:
            if script and name in run.settings.in_call and owner != "GRPOConfig":
                theirs = config.LORA.get(name)
                place = f"LoraConfig, as {theirs}" if theirs else PLACES.get(name, "the script")
                found.append(
                    failed(
                        f"{name} ({where}) is a key of `trl grpo`, and GRPOConfig(...) does not take it",
                        f"move it to {place}",
                        change={name: DELETE},
                        key=name,
                    )
                )
            continue
        row = old.get(name)
        if row is None:  # what was meant is the user's to say: nothing is written
            meant = MEANT.get(name)
            fix = (
                f"{meant}, most likely"
                if meant in known
                else "remove it, or mend the spelling" + config.nearest(name, known)
            )
            found.append(failed(f"{name} ({where}) is no argument of TRL", FOREIGN.get(name, fix), key=name))
        else:
            since = row["since"] if row["since"].startswith("never") else f"gone since {row['since']}"
            found.append(failed(f"{name} ({where}) is {since}", row["use"], key=name, **moved(run, name, row)))
    if not found:
        run.all_read()
    return found or passed(f"all {len(run.settings.lines)} keys are known ({config.about_table()})")


# Short names and those of other trainers, by the name here.
MEANT = {
    "lr": "learning_rate", "batch_size": "per_device_train_batch_size", "epochs": "num_train_epochs",
    "train_batch_size": "per_device_train_batch_size", "num_epochs": "num_train_epochs", "steps": "max_steps",
    "grad_accum": "gradient_accumulation_steps", "max_new_tokens": "max_completion_length",
    "max_tokens": "max_completion_length", "max_response_length": "max_completion_length",
    "group_size": "num_generations", "n": "num_generations", "num_return_sequences": "num_generations",
    "kl_coef": "beta", "clip_ratio": "epsilon", "clip_range": "epsilon", "clip_ratio_high": "epsilon_high",
    "model": "model_name_or_path", "optimizer": "optim", "lora_rank": "lora_r", "rewards": "reward_funcs",
    "target_modules": "lora_target_modules", "warmup": "warmup_steps", "scheduler": "lr_scheduler_type",
    "grad_clip": "max_grad_norm",
}  # fmt: skip

# Keys of other projects' training scripts, and how TRL's own gets the same.
FOREIGN = {
    "system_prompt": "a system message at the start of each row's prompt",
    "dataset_prompt_column": "name that column of the dataset prompt",
    "chat_template": "set it on the tokenizer that is saved beside the model",
    "wandb_project": "the environment variable WANDB_PROJECT",
    "wandb_entity": "the environment variable WANDB_ENTITY",
}

# Where a script says what `trl grpo` takes as a key.
PLACES = {
    "model_name_or_path": "GRPOTrainer(model=...)", "reward_funcs": "GRPOTrainer(reward_funcs=...)",
    "dtype": "model_init_kwargs={'dtype': ...}", "attn_implementation": "model_init_kwargs={...}",
    "model_revision": "model_init_kwargs={'revision': ...}", "use_peft": "GRPOTrainer(peft_config=...)",
    "load_in_4bit": "GRPOTrainer(quantization_config=...)", "load_in_8bit": "GRPOTrainer(quantization_config=...)",
    "use_dora": "LoraConfig", "use_rslora": "LoraConfig", "dataset_name": "load_dataset(...)",
}  # fmt: skip


@check("old-argument", "arguments", "tell", "an old name or value that still works and will go", CONFIG)
def old_argument(run: Run) -> list[Outcome] | Outcome:
    known, found = config.arguments(), []
    for row in config.beside(CHANGES.name)["changes"]:
        name, _, value = row["old"].partition("=")
        if not run.settings.given(name) or name not in known or (value and str(run.settings.values.get(name)) != value):
            continue
        if row["since"].startswith("transformers"):
            change = {}  # TRL sets this one itself, and an older transformers knows no other name
        elif row["on"] == "mapped":
            change = {"change": {name: {"True": "group", "False": "none"}[value]}}
        else:
            change = moved(run, name, row)
        what = "an old value" if value else f"the old name of {row['new']}"
        found.append(failed(f"{run.say(name)}: {what}", row["use"], key=name, **change))
    if run.settings.values.get("use_liger_kernel"):
        found.append(
            failed(
                f"{run.say('use_liger_kernel')} goes with TRL 2.0",
                '`model_init_kwargs={"use_kernels": True}`',
                key="use_liger_kernel",
            )
        )
    if not found:
        run.all_read()
    return found or passed("no old name in use")


# A whole number written as 4.0 stops the run at these; the others work, or were not tried.
WHOLE = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_iterations", "num_generations", "seed",
         "max_completion_length", "steps_per_generation", "generation_batch_size", "lora_r")  # fmt: skip


@check("wrong-type", "arguments", "dead", "a value of a type that the argument does not take", "TRL's own fields")
def wrong_type(run: Run) -> list[Outcome] | Outcome:
    found = []
    for name, why in run.settings.wrong.items():
        choices = config.arguments()[name].get("choices", ())
        value = run.settings.values.get(name)
        bare_no = value is False and "no" in choices
        whole = isinstance(value, float) and value.is_integer()
        found.append(
            failed(
                f"{name} ({run.settings.where(name)}) is {why}",
                f"{name}: a value of the named type",
                change={name: "no"} if bare_no else {name: int(value)} if whole else {},
                severity="tell" if whole and name not in WHOLE else None,
                key=name,
            )
        )
    for name, value in run.settings.values.items():
        if name.endswith("_kwargs") and isinstance(value, str):
            try:
                mapping(run, name)
            except config.NotKnown as error:
                found.append(failed(str(error), f"{name}: a mapping", key=name))
        elif isinstance(value, float) and math.isnan(value):
            found.append(failed(f"{run.say(name)} is no number", f"{name}: a number", key=name))
    if not found:
        run.all_read()
    return found or passed("every known value has a type that its argument takes")


@check(
    "unknown-choice",
    "arguments",
    "dead",
    "a word that the option does not have; some fail after the first generation",
    TRAINER,
)
def unknown_choice(run: Run) -> list[Outcome] | Outcome:
    found, looked = [], 0
    for name, entry in config.arguments().items():
        value, choices = run.settings.values.get(name), entry.get("choices")
        if not choices or not isinstance(value, str) or (run.settings.kind == "python" and name == "dtype"):
            continue
        looked += 1
        if value in choices:
            continue
        near = difflib.get_close_matches(value, choices, 2)
        inert = name == "train_sampling_strategy" or (name.startswith("vllm_") and not vllm(run))
        found.append(
            failed(
                f"{run.say(name)} is none of {', '.join(choices)}",
                f"{name}: one of {', '.join(choices)}",
                change={name: near[0]} if len(near) == 1 else {},
                severity="tell" if inert else None,
                key=name,
            )
        )
    unread = [name for name in run.settings.unread if config.arguments().get(name, {}).get("choices")]
    for name in unread:
        if run.settings.kind == "python" and name not in run.settings.in_call:
            continue
        found.append(unmeasured(f"{name} is `{run.settings.unread[name]}`", "write the word itself", key=name))
    if not found:
        run.all_read()
    return found or passed(f"{looked} options with a closed set of words are in theirs")


# ---- 1 arguments: what GRPOConfig and TrainingArguments refuse


@check("positive-counts", "arguments", "dead", "a batch, step or length count that is no whole number above 0", RAN)
def positive_counts(run: Run) -> list[Outcome] | Outcome:
    found = []
    names = (
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "num_iterations",
        "num_generations",
        "max_completion_length",
        "steps_per_generation",
        "generation_batch_size",
        "num_generations_eval",
        "per_device_eval_batch_size",
        "logging_steps",
        "save_steps",
    )
    for name in names:
        try:
            value = run.get(name)
        except config.NotKnown as error:
            found.append(unmeasured(str(error), "write it as a number", key=name))
            continue
        empty = value is None and name in (
            "per_device_train_batch_size",
            "num_generations",
            "gradient_accumulation_steps",
        )
        share = name in ("logging_steps", "save_steps")  # below 1 they are a share of all steps
        fractional = number(value) and not float(value).is_integer() and not (share and value < 1)
        if share and run.get(name.replace("_steps", "_strategy")) != "steps":
            continue
        if empty or fractional or (number(value) and value <= 0 and name != "save_steps"):
            default = config.arguments()[name]["default"]
            fix = f"{name}: a whole number of 1 or more (TRL's default: {default})"
            found.append(failed(f"{run.say(name)}", fix, key=name))
    return found or passed(run.say("per_device_train_batch_size", "gradient_accumulation_steps", "num_generations"))


@check("group-of-one", "arguments", "dead", "one completion a prompt has nothing to be compared with", CONFIG)
def group_of_one(run: Run) -> Outcome:
    (size,) = counted(run, "num_generations")
    if size < 2:
        return failed(run.say("num_generations"), "num_generations: 8 (TRL refuses less than 2)")
    return passed(run.say("num_generations"))


@check("batch-given-twice", "arguments", "dead", "both ways to say the generation batch are set", CONFIG)
def batch_given_twice(run: Run) -> Outcome:
    names = ("generation_batch_size", "steps_per_generation")
    if all(run.get(name) is not None for name in names):
        return failed(run.say(*names), "keep one of the two: the other follows from it")
    return passed(run.say(*names))


@check("auto-batch-size", "arguments", "dead", "a batch that shrinks by itself would break up the groups", CONFIG)
def auto_batch_size(run: Run) -> Outcome:
    if run.get("auto_find_batch_size"):
        return failed(
            run.say("auto_find_batch_size"),
            "remove it, and set per_device_train_batch_size by the memory plan",
            change={"auto_find_batch_size": DELETE},
        )
    return passed(run.say("auto_find_batch_size"))


@check("two-precisions", "arguments", "dead", "fp16 and bf16 at once", BASE)
def two_precisions(run: Run) -> Outcome:
    for pair in (("fp16", "bf16"), ("fp16_full_eval", "bf16_full_eval")):
        if all(run.get(name) for name in pair):
            return failed(
                run.say(*pair),
                f"keep {pair[1]} (the default), unless the card is older than Ampere",
                change={pair[0]: DELETE},
            )
    return passed(run.say("fp16", "bf16"))


@check("weight-bounds", "arguments", "dead", "bounds of the importance weights that TRL refuses", CONFIG)
def weight_bounds(run: Run) -> Outcome:
    low, high = "vllm_importance_sampling_clip_min", "vllm_importance_sampling_clip_max"
    old = run.get("vllm_importance_sampling_cap") if "vllm_importance_sampling_cap" in config.arguments() else None
    bottom, top = run.get(low), run.get(high) if old is None else old
    mode = run.get("vllm_importance_sampling_mode")
    if bottom is not None and top is not None and bottom >= top:
        return failed(run.say(low, high), f"{low} below {high}; TRL's defaults are no lower bound and 3.0")
    outside = (top is not None and top < 1) or (bottom is not None and bottom > 1)
    if outside and corrects(run) and mode in ("token_mask", "sequence_mask"):
        return failed(
            f"{run.say(low, high, 'vllm_importance_sampling_mode')}: the weight 1, of engines that agree, is cut to 0",
            f"{low} below 1, {high} above 1",
        )
    truncates = run.get("vllm_importance_sampling_correction") and mode in ("token_truncate", "sequence_truncate")
    if truncates and bottom is None and top is None:
        return failed(run.say("vllm_importance_sampling_mode", low, high), f"{high}: 3.0", change={high: 3.0})
    return passed(run.say(low, high))


@check("completions-repo", "arguments", "dead", "a repository for completions that are not logged", CONFIG)
def completions_repo(run: Run) -> Outcome:
    if run.get("log_completions_hub_repo") is not None and not run.get("log_completions"):
        return failed(
            run.say("log_completions_hub_repo", "log_completions"),
            "log_completions: true",
            change={"log_completions": True},
        )
    return passed(run.say("log_completions_hub_repo", "log_completions"))


@check("step-settings", "arguments", "dead", "steps, warm-up or workers that TrainingArguments refuses", BASE)
def step_settings(run: Run) -> list[Outcome] | Outcome:
    found = []
    every = run.get("eval_steps") or run.get("logging_steps")
    if run.get("eval_strategy") == "steps" and number(every) and every > 1 and every != int(every):
        found.append(failed(run.say("eval_steps"), "a whole number above 1, or a share below 1", key="eval_steps"))
    if run.get("lr_scheduler_type") in ("reduce_lr_on_plateau", "greedy") and not evaluates(run):
        found.append(
            failed(
                run.say("lr_scheduler_type", "eval_strategy"),
                'lr_scheduler_type: "constant_with_warmup", or set eval_strategy',
                key="lr_scheduler_type",
            )
        )
    if number(run.get("warmup_steps")) and run.get("warmup_steps") < 0:
        fix = "warmup_steps: 0 or more; below 1 it is a share of all steps"
        found.append(failed(run.say("warmup_steps"), fix, key="warmup_steps"))
    if run.get("dataloader_prefetch_factor") is not None and run.get("dataloader_num_workers") == 0:
        found.append(
            failed(
                run.say("dataloader_prefetch_factor", "dataloader_num_workers"),
                "remove dataloader_prefetch_factor",
                change={"dataloader_prefetch_factor": DELETE},
                key="dataloader_prefetch_factor",
            )
        )
    empty = run.get("torch_empty_cache_steps")
    if empty is not None and not (isinstance(empty, int) and empty > 0):
        fix = "a whole number of 1 or more, or remove it"
        found.append(failed(run.say("torch_empty_cache_steps"), fix, key="torch_empty_cache_steps"))
    return found or passed(run.say("logging_steps", "eval_strategy", "save_strategy", "warmup_steps"))


@check(
    "best-checkpoint",
    "arguments",
    "dead",
    "the best checkpoint cannot be found: saving and evaluation do not meet",
    BASE,
)
def best_checkpoint(run: Run) -> Outcome:
    if run.get("save_strategy") == "best":
        chosen = run.get("load_best_model_at_end") or run.get("lr_scheduler_type") in ("reduce_lr_on_plateau", "greedy")
        if run.get("metric_for_best_model") is None and not chosen:
            return failed(
                run.say("save_strategy", "metric_for_best_model"),
                'metric_for_best_model: "reward"',
                change={"metric_for_best_model": "reward"},
            )
        if not evaluates(run):
            return failed(
                f"{run.say('save_strategy', 'eval_strategy')}: without evaluation no checkpoint is the best",
                'eval_strategy: "steps", or save_strategy: "steps"',
                severity="waste",
            )
    if not run.get("load_best_model_at_end") or run.get("save_strategy") == "best":
        return passed(run.say("load_best_model_at_end", "save_strategy"))
    if run.get("eval_strategy") != run.get("save_strategy"):
        return failed(
            run.say("load_best_model_at_end", "eval_strategy", "save_strategy"),
            "the same eval_strategy and save_strategy, or load_best_model_at_end: false",
        )
    save, every = run.get("save_steps"), run.get("eval_steps") or run.get("logging_steps")
    if run.get("eval_strategy") == "steps" and number(save) and number(every) and every > 0:
        shares = save < 1 and every < 1
        mixed = (save < 1) != (every < 1)
        rest = round(save * 1_000_000) % round(every * 1_000_000) if shares else save % every
        if mixed or rest:
            return failed(run.say("save_steps", "eval_steps", "logging_steps"), "save_steps: a multiple of eval_steps")
    return passed(run.say("save_steps", "eval_steps"))


@check("parallelism", "arguments", "dead", "context or sequence parallelism, which GRPO does not have", CONFIG)
def parallelism(run: Run) -> Outcome:
    said = run.settings.unread.get("parallelism_config", "")
    value = run.settings.values.get("parallelism_config")
    if any(int(size) > 1 for size in re.findall(r"\b[cs]p_size=(\d+)", said)):
        return failed(f"parallelism_config={said} ({run.settings.where('parallelism_config')})", "cp_size=1, sp_size=1")
    if value is not None:
        return failed(
            run.say("parallelism_config"),
            "remove it: only a script can give the object that TRL wants",
            change={"parallelism_config": DELETE},
        )
    run.get("parallelism_config")  # not known: not measured
    return passed(run.say("parallelism_config"))


@check("training-length", "arguments", "dead", "no step would be trained", f"{RAN}; transformers 5.24, trainer.py")
def training_length(run: Run) -> list[Outcome] | Outcome:
    steps, epochs = run.get("max_steps"), run.get("num_train_epochs")
    if number(steps) and steps == 0:
        return failed(
            f"{run.say('max_steps')}: one step at rate 0, then the end",
            "max_steps: -1, and num_train_epochs",
            change={"max_steps": DELETE},
        )
    if number(steps) and steps < 0 and number(epochs) and epochs <= 0:
        return failed(run.say("num_train_epochs", "max_steps"), "num_train_epochs above 0, or max_steps")
    if run.get("dataset_streaming") and number(steps) and steps <= 0:
        return failed(run.say("dataset_streaming", "max_steps"), "max_steps above 0: a stream has no length")
    return passed(run.say("max_steps", "num_train_epochs"))


@check(
    "quantised-alone",
    "arguments",
    "dead",
    "quantised weights cannot be trained without an adapter",
    "transformers 5.24, trainer_utils.py",
)
def quantised_alone(run: Run) -> Outcome:
    four, eight = bool(run.get("load_in_4bit")), bool(run.get("load_in_8bit"))
    if four and eight:
        return failed(run.say("load_in_4bit", "load_in_8bit"), "keep one of the two")
    if (four or eight) and not lora(run):
        return failed(
            run.say("load_in_4bit" if four else "load_in_8bit", "use_peft"),
            "use_peft: true (in a script: peft_config)",
            change={"use_peft": True} if run.settings.kind == "yaml" else {},
        )
    return passed(run.say("load_in_4bit", "load_in_8bit", "use_peft"))


@check("use-cpu", "arguments", "waste", "the GPU that is rented would not be used", BASE)
def use_cpu(run: Run) -> Outcome:
    if run.get("use_cpu"):
        return failed(
            f"{run.say('use_cpu', 'bf16')}: a rehearsal, not the run",
            "remove use_cpu before a GPU is rented",
            change={"use_cpu": DELETE},
        )
    return passed(run.say("use_cpu"))


@check(
    "eval-data",
    "arguments",
    "dead",
    "evaluation is on and the trainer gets nothing to evaluate",
    "transformers 5.24, trainer.py",
)
def eval_data(run: Run) -> Outcome:
    if not evaluates(run) and not run.get("eval_on_start"):
        return passed(run.say("eval_strategy", "eval_on_start"))
    said = run.say("eval_strategy", "eval_on_start")
    if run.settings.kind == "yaml":
        return eval_split(run, said)
    call = config.trainer_of(run.settings)
    if call is None:
        return unmeasured(
            f"{said}; no GRPOTrainer call that is known to get this config", "give the script that has it"
        )
    place = f"{run.settings.path.name}:{call.lineno}"
    given = call.args[4:5] + [one.value for one in call.keywords if one.arg == "eval_dataset"]
    spread = any(one.arg is None for one in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args)
    if not given and spread:
        return unmeasured(f"{said}; GRPOTrainer ({place}) gets what only running tells", "write eval_dataset=... there")
    if given and not (isinstance(given[0], ast.Constant) and given[0].value is None):
        return passed(f"{said}, eval_dataset ({place})")
    return failed(f"{said}; GRPOTrainer ({place}) has no eval_dataset", 'eval_dataset=..., or eval_strategy="no"')


def eval_split(run: Run, said: str) -> Outcome:
    """What `trl grpo` evaluates on: the split dataset_test_split, where eval_strategy is not "no"."""
    if not evaluates(run):
        return failed(f"{said}: `trl grpo` gives no rows to evaluate", 'eval_strategy: "steps", or no eval_on_start')
    if run.get("datasets"):
        said += f", {run.say('test_split_size', 'dataset_test_split')}"
        if run.get("test_split_size") is None:
            return failed(f"{said}: `datasets` has no test split then", 'test_split_size: 0.05, or eval_strategy: "no"')
        if run.get("dataset_test_split") != "test":
            return failed(
                f"{said}: the split is called test", 'dataset_test_split: "test"', change={"dataset_test_split": DELETE}
            )
        return passed(said)
    return unmeasured(
        f"{said}; whether the dataset has a split {run.get('dataset_test_split')!r} is not known here",
        "look at the dataset's splits",
        severity="tell",
    )


def tested(run: Run) -> int:
    """Rows that `trl grpo` keeps for testing: a whole number is a count, a share is rounded up."""
    if run.settings.kind != "yaml" or not run.get("datasets") or run.get("test_split_size") is None:
        return 0
    size = run.get("test_split_size")
    return size if isinstance(size, int) else math.ceil(size * (run.total_rows or len(run.rows)))


@check("test-split", "arguments", "dead", "a test split that cannot be cut, or a split that is not there", RAN)
def split_size(run: Run) -> Outcome:
    size = run.get("test_split_size")
    if run.settings.kind != "yaml" or not run.get("datasets"):
        if run.settings.kind == "yaml" and size is not None:
            return failed(f"{run.say('test_split_size')}: read with `datasets` only", "remove it", severity="tell")
        return passed("no `datasets`")
    if run.get("dataset_train_split") != "train":
        return failed(
            f"{run.say('dataset_train_split')}: the rows of `datasets` are called train, whatever they were",
            "remove dataset_train_split; a split belongs into datasets: - split: ...",
            change={"dataset_train_split": DELETE},
        )
    if size is None:
        return passed(run.say("test_split_size"))
    if run.get("streaming"):
        return failed(f"{run.say('test_split_size', 'streaming')}: a stream cannot be cut", "streaming: false")
    inside = size > 0 if isinstance(size, int) else 0 < size < 1
    if not inside:
        return failed(run.say("test_split_size"), "a share between 0 and 1 (0.05), or a whole number of rows")
    if run.total_rows is not None and not 0 < tested(run) < run.total_rows:
        return failed(f"{run.say('test_split_size')}; {run.total_rows} rows: none is left to train on", "a smaller one")
    return passed(run.say("test_split_size"))


@check(
    "sharding", "arguments", "dead", "FSDP together with DeepSpeed, or on one process", "transformers 5.24, trainer.py"
)
def sharding(run: Run) -> Outcome:
    if run.get("fsdp") and run.get("deepspeed"):
        return failed(run.say("fsdp", "deepspeed"), "keep one of the two")
    if run.get("fsdp") and run.world == 1:
        return failed(f"{run.say('fsdp')}; 1 process", "remove fsdp, or plan for several GPUs", change={"fsdp": DELETE})
    return passed(f"{run.say('fsdp', 'deepspeed')}; {run.world} process(es)")


# ---- 1 arguments: what TRL takes in silence and that cannot work

NEEDS = {"cosine_with_min_lr": ("min_lr", "min_lr_rate"), "cosine_warmup_with_min_lr": ("min_lr", "min_lr_rate"),
         "warmup_stable_decay": ("num_decay_steps",)}  # fmt: skip
ACCELERATOR = ("split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler", "non_blocking",
               "gradient_accumulation_kwargs", "use_configured_state")  # fmt: skip


@check(
    "value-range",
    "arguments",
    "dead",
    "a value that is taken, and stops the run at its first step or trains nothing",
    f"{RAN}; the borders of adam_epsilon and warmup_steps are judgement",
)
def value_range(run: Run) -> list[Outcome] | Outcome:
    found, lost, causes = [], [], []

    def get(name: str, take: Callable = run.get) -> Any:  # one that is not known may not hide the others
        try:
            return take(name)
        except config.NotKnown as error:
            lost.append(name)
            causes.append(str(error))

    def bad(name: str, why: str, fix: str, severity: str | None = None) -> None:
        found.append(failed(f"{run.say(name)}: {why}", fix, severity=severity, key=name))

    loss = get("loss_type")
    for name in ("adam_beta1", "adam_beta2"):
        if number(get(name)) and not 0 <= get(name) < 1:
            bad(name, "the optimizer refuses it", f"{name}: from 0 to below 1 ({config.arguments()[name]['default']})")
    tiny = get("adam_epsilon")
    if number(tiny) and (tiny < 0 or tiny > 1e-3):
        why = (
            "the optimizer refuses it"
            if tiny < 0
            else "it is added to what each step is divided by, and makes it small"
        )
        bad("adam_epsilon", why, "adam_epsilon: 1e-8", "waste" if 0 < tiny < 1 else None)
    if number(get("weight_decay")) and get("weight_decay") < 0:
        bad("weight_decay", "the weights grow at each step", "weight_decay: 0.0", "waste")
    for name in ("sapo_temperature_pos", "sapo_temperature_neg"):
        if loss == "sapo" and number(get(name)) and get(name) <= 0:
            bad(name, "the loss divides by it", f"{name}: {config.arguments()[name]['default']}")
    if number(get("beta")) and get("beta") < 0:
        bad("beta", "pays for distance from the reference", "beta: 0.0, or 0.01", "waste")
    if number(get("entropy_coef")) and get("entropy_coef") < 0:
        bad("entropy_coef", "pays for answers that are alike", "entropy_coef: 0.0", "waste")
    for name in ("epsilon", "epsilon_high"):
        if loss in CLIPS and number(get(name)) and get(name) < 0:
            bad(name, "clips on the wrong side of the ratio 1", f"{name}: 0.2", "waste")
    kind, extra = get("lr_scheduler_type"), get("lr_scheduler_kwargs", lambda name: mapping(run, name))
    if kind in NEEDS and extra is not None and not any(extra.get(name) is not None for name in NEEDS[kind]):
        wanted = " or ".join(NEEDS[kind])
        bad("lr_scheduler_type", f"raises without {wanted}", f"lr_scheduler_kwargs: {{{NEEDS[kind][-1]}: ...}}")
    steps, warm = get("max_steps"), get("warmup_steps")
    if number(steps) and number(warm) and 0 < steps <= warm and warm >= 1 and kind != "constant":
        severity = None if warm >= 20 * steps else "waste"
        bad(
            "warmup_steps",
            f"the rate is never reached ({run.say('max_steps')})",
            "warmup_steps: 0.05, a share",
            severity,
        )
    unknown = [
        name for name in get("accelerator_config", lambda name: mapping(run, name)) or () if name not in ACCELERATOR
    ]
    if unknown:
        bad("accelerator_config", f"{', '.join(unknown)} is not in it", f"of {', '.join(ACCELERATOR)}")
    if lost:  # said once: with `**settings` it may be all of them
        said = f"{causes[0]}; not known: {', '.join(dict.fromkeys(lost))}"
        found.append(unmeasured(said, "write it as a number or a name in the config", key="unread"))
    return found or passed(run.say("adam_beta1", "adam_beta2", "adam_epsilon", "lr_scheduler_type", "warmup_steps"))


@check("packages", "arguments", "tell", "a setting needs a package that is not installed here", RAN)
def packages(run: Run) -> list[Outcome] | Outcome:
    wanted, trackers = {}, run.get("report_to")
    for tracker in trackers if isinstance(trackers, list) else [trackers]:
        if tracker in (
            "wandb",
            "mlflow",
            "trackio",
            "swanlab",
            "clearml",
            "comet_ml",
            "tensorboard",
            "dvclive",
            "codecarbon",
        ):
            wanted[tracker.replace("_", "-")] = "report_to"
    if run.get("use_liger_kernel"):
        wanted["liger-kernel"] = "use_liger_kernel"
    kernels = mapping(run, "model_init_kwargs").get("attn_implementation") or run.get("attn_implementation")
    if kernels == "flash_attention_2":
        name = "attn_implementation" if run.given("attn_implementation") else "model_init_kwargs"
        wanted["flash-attn"] = name
    if run.get("deepspeed"):
        wanted["deepspeed"] = "deepspeed"
    bits = next((name for name in ("load_in_4bit", "load_in_8bit") if run.get(name)), None)
    small = isinstance(run.get("optim"), str) and re.search("bnb|8bit", run.get("optim"))
    if bits or small:
        wanted["bitsandbytes"] = bits or "optim"
    missing = [
        unmeasured(f"{run.say(name)}; {package} is not installed here", f"pip install {package} where the run is to be",
                   key=package)
        for package, name in wanted.items() if config.installed(package) is None
    ]  # fmt: skip
    return missing or passed(", ".join(wanted) + " installed" if wanted else "nothing that needs more than TRL")


CLIPS = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")  # losses with a clipped ratio (TRL 1.16, _compute_loss)


@check(
    "cispo-clip",
    "arguments",
    "waste",
    "CISPO with its weights cut below 1: every token weighs the same",
    f"{RAN}; trl#4495",
)
def cispo_clip(run: Run) -> Outcome:
    if run.get("loss_type") != "cispo":
        return passed(run.say("loss_type"))
    high = run.get("epsilon_high") if run.get("epsilon_high") is not None else run.get("epsilon")
    if number(high) and high <= 0:
        return failed(
            f"{run.say('loss_type', 'epsilon_high', 'epsilon')}: each weight is cut to 0 or below: nothing is learnt",
            "epsilon_high: 5.0",
            change={"epsilon_high": 5.0},
            severity="dead",
        )
    if number(high) and high < 1:
        return failed(
            f"{run.say('loss_type', 'epsilon_high', 'epsilon')}: ratios are cut to {high}, so near 1 all weigh alike",
            "epsilon_high: 5.0",
            change={"epsilon_high": 5.0},
        )
    return passed(run.say("loss_type", "epsilon_high"))


@check(
    "dr-grpo-scaling",
    "arguments",
    "waste",
    "Dr. GRPO that keeps the std scaling its paper removes",
    "Dr. GRPO paper; " + TRAINER,
)
def dr_grpo_scaling(run: Run) -> Outcome:
    if run.get("loss_type") == "dr_grpo" and run.get("scale_rewards") not in ("none", False):
        return failed(run.say("loss_type", "scale_rewards"), 'scale_rewards: "none"', change={"scale_rewards": "none"})
    return passed(run.say("loss_type", "scale_rewards"))


@check(
    "two-sided-clip",
    "arguments",
    "dead",
    "delta cuts where the ratio is 1, or below the upper clip",
    f"{RAN}; {TRAINER}",
)
def two_sided_clip(run: Run) -> Outcome:
    delta = run.get("delta")
    if delta is None or run.get("loss_type") not in CLIPS:
        return passed(run.say("delta", "loss_type"))
    high = run.get("epsilon_high") if run.get("epsilon_high") is not None else run.get("epsilon")
    if delta > 1 + high:
        return passed(run.say("delta", "epsilon", "epsilon_high"))
    change = {"change": {"delta": 4.0}} if 1 + high < 4 else {}
    if delta < 1:
        return failed(f"{run.say('delta')} is below the ratio 1: good answers get no gradient", "delta: 4.0", **change)
    return failed(
        f"{run.say('delta', 'epsilon', 'epsilon_high')}: at or below 1 + the upper clip ({1 + high:g}), where it"
        " only narrows that clip",
        "delta: 4.0, or any value above 1 + epsilon_high",
        severity="waste",
        **change,
    )


@check("entropy-tokens", "arguments", "waste", "top_entropy_quantile is a share in (0, 1]", f"{RAN}; {TRAINER}")
def entropy_tokens(run: Run) -> Outcome:
    share = run.get("top_entropy_quantile")
    if number(share) and share > 1:
        part = share / 100 if share <= 100 else 1.0
        return failed(
            f"{run.say('top_entropy_quantile')}: above 1 it is ignored",
            f"top_entropy_quantile: {part:g}",
            change={"top_entropy_quantile": part},
        )
    if number(share) and share <= 0:
        what = (
            "torch.quantile refuses it" if share < 0 else "only the single most uncertain token of a batch is trained"
        )
        return failed(f"{run.say('top_entropy_quantile')}: {what}", "top_entropy_quantile: 0.2", severity="dead")
    return passed(run.say("top_entropy_quantile"))


@check(
    "entropy-target",
    "arguments",
    "tell",
    "a target for an entropy control that is off, or out of reach",
    TRAINER + "; rllm#116",
)
def entropy_target(run: Run) -> list[Outcome] | Outcome:
    names = ("entropy_target", "entropy_coef_delta", "entropy_coef_min", "entropy_coef_max")
    given = [name for name in names if run.given(name)]
    if not run.get("use_adaptive_entropy"):
        if given:
            return failed(
                f"{run.say(*given, 'use_adaptive_entropy')}: not read", "use_adaptive_entropy: true, or remove them"
            )
        return passed(run.say("use_adaptive_entropy"))
    if number(run.get("entropy_target")) and run.get("entropy_target") > 1.5:
        return failed(
            f"{run.say('entropy_target')}: above what a policy has (0.2 to 1 nats), so the bonus is always on and"
            f" its weight climbs to {run.get('entropy_coef_max')}",
            "entropy_target: 0.2, or the `entropy` of your first rows (1.5 as the border is judgement)",
            severity="waste",
        )
    return passed(run.say("entropy_target"))


@check("moving-reference", "arguments", "dead", "there is no reference model to move", TRAINER)
def moving_reference(run: Run) -> Outcome:
    if not run.get("sync_ref_model"):
        return passed(run.say("sync_ref_model"))
    if run.get("beta") == 0:
        return failed(
            run.say("sync_ref_model", "beta"), "sync_ref_model: false, or beta: 0.01", change={"sync_ref_model": False}
        )
    if lora(run):
        return failed(
            run.say("sync_ref_model", "use_peft"),
            "sync_ref_model: false: the reference is the model without its adapter",
            change={"sync_ref_model": False},
        )
    return passed(run.say("sync_ref_model", "beta", "use_peft"))


@check("vespo-weights", "arguments", "dead", "VESPO with vLLM wants token-level weights", TRAINER)
def vespo_weights(run: Run) -> Outcome:
    if run.get("loss_type") == "vespo" and corrects(run) and per_sequence(run):
        return failed(
            run.say("loss_type", "vllm_importance_sampling_mode"),
            'vllm_importance_sampling_mode: "token_truncate"',
            change={"vllm_importance_sampling_mode": "token_truncate"},
        )
    return passed(run.say("loss_type", "use_vllm"))


@check("ratio-level", "arguments", "waste", "loss and level of the policy ratio do not fit", TRAINER + "; trl#6042")
def ratio_level(run: Run) -> Outcome:
    level, loss = run.get("importance_sampling_level"), run.get("loss_type")
    if level == "sequence" and loss in ("bnpo", "dr_grpo", "dapo", "cispo"):
        return failed(
            f"{run.say('importance_sampling_level', 'loss_type')}: long answers weigh more; TRL only warns",
            'loss_type: "grpo"',
            change={"loss_type": "grpo"},
        )
    if (loss, level) in (("luspo", "token"), ("vespo", "sequence")):
        want = "sequence" if loss == "luspo" else "token"
        return failed(
            f"{run.say('loss_type', 'importance_sampling_level')}: not the paper's; TRL only warns",
            f'importance_sampling_level: "{want}"',
            change={"importance_sampling_level": want},
            severity="tell",
        )
    return passed(run.say("importance_sampling_level", "loss_type"))


@check(
    "sequence-clip",
    "arguments",
    "waste",
    "a clip made for tokens never clips a sequence",
    f"{RAN}; trl#3834; 0.01 is judgement",
)
def sequence_clip(run: Run) -> Outcome:
    names = ("importance_sampling_level", "epsilon", "epsilon_high")
    if run.get("importance_sampling_level") != "sequence" or run.get("loss_type") not in CLIPS:
        return passed(run.say(*names))
    sound_batch(run)
    if run.on_policy():
        return passed(f"{run.say(*names)}; on-policy, where no clip acts")
    if number(run.get("epsilon")) and run.get("epsilon") > 0.01:
        return failed(
            f"{run.say(*names)}: a sequence's ratio is a mean over its tokens and stays within a few thousandths of 1",
            "epsilon: 3e-4, epsilon_high: 4e-4 (GSPO paper)",
            change={"epsilon": 3e-4, "epsilon_high": 4e-4},
        )
    return passed(run.say(*names))


@check(
    "completion-limit",
    "arguments",
    "waste",
    "no limit on completions: 20 tokens without vLLM, the whole context with it",
    RAN,
)
def completion_limit(run: Run) -> Outcome:
    if run.get("max_completion_length") is not None:
        return passed(run.say("max_completion_length"))
    what = "vLLM writes until its context is full" if vllm(run) else "the generator's own default is 20 tokens"
    divides = run.get("loss_type") == "dr_grpo"
    return failed(
        f"{run.say('max_completion_length')}: {what}" + ("; dr_grpo divides by it, and raises" if divides else ""),
        "max_completion_length: the 95th percentile of the untrained model's lengths",
        severity="dead" if divides else None,
    )


@check("router-loss", "arguments", "dead", "a router loss for a model that has no router", TRAINER)
def router_loss(run: Run) -> Outcome:
    if not run.get("router_aux_loss_coef"):
        return passed(run.say("router_aux_loss_coef"))
    model = run.cache.get("model_config")
    if model is None:
        return unmeasured(
            f"{run.say('router_aux_loss_coef')}: whether the model is a mixture of experts is not known here",
            "give the model's config.json",
        )
    text = model.get("text_config") or model
    if "output_router_logits" in text:
        return passed(f"{run.say('router_aux_loss_coef')}; the model's config has output_router_logits")
    if any(key in text for key in ("num_experts", "num_local_experts", "n_routed_experts")):
        return unmeasured(
            f"{run.say('router_aux_loss_coef')}; a mixture of experts whose config does not say output_router_logits",
            "ask transformers: TRL refuses a model class that returns none",
        )
    return failed(
        f"{run.say('router_aux_loss_coef')}; the model's config names no experts",
        "remove router_aux_loss_coef",
        change={"router_aux_loss_coef": DELETE},
    )


@check("gold-column-kept", "arguments", "dead", "the columns that rewards compare with are removed", RAN)
def gold_column_kept(run: Run) -> Outcome:
    if not run.get("remove_unused_columns"):
        return passed(run.say("remove_unused_columns"))
    blind = {"think_format_reward", "get_soft_overlong_punishment"}
    return failed(
        f"{run.say('remove_unused_columns')}: only the prompt is left, and a reward that takes another column raises",
        "remove_unused_columns: false",
        change={"remove_unused_columns": False},
        severity="tell" if run.settings.rewards and set(run.settings.rewards) <= blind else None,
    )


@check("zero3-gather", "arguments", "waste", "under ZeRO-3 the weights are gathered for each token", "trl#3858")
def zero3_gather(run: Run) -> Outcome:
    if run.get("ds3_gather_for_generation") is False and not vllm(run):
        return failed(
            run.say("ds3_gather_for_generation", "use_vllm"),
            "ds3_gather_for_generation: true, the default",
            change={"ds3_gather_for_generation": DELETE},
        )
    return passed(run.say("ds3_gather_for_generation", "use_vllm"))


@check("dropout", "arguments", "tell", "dropout makes the policy differ from itself", "trl#3500")
def dropout(run: Run) -> Outcome:
    if run.get("disable_dropout"):
        return passed(run.say("disable_dropout"))
    model = run.cache.get("model_config")
    if model is None:
        return unmeasured(
            f"{run.say('disable_dropout')}: whether the model has dropout is not known here",
            "disable_dropout: true costs nothing; or give the model's config.json",
        )
    text = model.get("text_config") or model
    names = ("dropout", "pdrop", "dropout_prob", "dropout_rate")
    rates = {k: v for k, v in text.items() if k.endswith(names) and number(v) and v > 0}
    if rates:
        return failed(
            f"{run.say('disable_dropout')}, and the model has {', '.join(f'{k}={v}' for k, v in rates.items())}",
            "disable_dropout: true",
            change={"disable_dropout": True},
        )
    return passed("the model's config has no dropout above 0")


@check(
    "truncated-masked",
    "arguments",
    "tell",
    "cut completions count for nothing, so few may be left",
    f"{RAN}; 50 % is judgement",
)
def truncated_masked(run: Run) -> Outcome:
    if not run.get("mask_truncated_completions"):
        return passed(run.say("mask_truncated_completions"))
    share = run.cache.get("clipped_share")
    if share is None:
        return failed(
            f"{run.say('mask_truncated_completions')}; the share of cut completions is not measured",
            "measure it on the untrained model: where all are cut, loss and grad_norm are 0",
        )
    if share > 0.5:
        return failed(
            f"{run.say('mask_truncated_completions', 'max_completion_length')}; {share:.0%} of completions were cut",
            "a larger max_completion_length, or mask_truncated_completions: false",
            change={"mask_truncated_completions": False},
            severity="dead" if share >= 1 else "waste",
        )
    return passed(f"{run.say('mask_truncated_completions')}; {share:.0%} of the completions were cut")


@check(
    "best-metric",
    "arguments",
    "waste",
    "the best checkpoint is chosen by the loss, which means nothing here",
    f"{RAN}; trl#4458",
)
def best_metric(run: Run) -> Outcome:
    if run.get("load_best_model_at_end") and run.get("metric_for_best_model") in (None, "loss", "eval_loss"):
        return failed(
            run.say("load_best_model_at_end", "metric_for_best_model"),
            'metric_for_best_model: "reward"',
            change={"metric_for_best_model": "reward"},
        )
    return passed(run.say("load_best_model_at_end", "metric_for_best_model"))


@check(
    "resume-ignored",
    "arguments",
    "waste",
    "the checkpoint to resume from is not read",
    "trl#3247; transformers 5.24, trainer.py",
)
def resume_ignored(run: Run) -> Outcome:
    if run.settings.kind != "python" or not run.given("resume_from_checkpoint"):
        return passed("`trl grpo` passes it on" if run.settings.kind == "yaml" else "no resume_from_checkpoint")
    for node in ast.walk(ast.parse(run.settings.text)):
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "train":
            continue
        if node.args or any(keyword.arg in ("resume_from_checkpoint", None) for keyword in node.keywords):
            return passed(f"passed to train() ({run.settings.path.name}:{node.lineno})")
    return failed(
        f"resume_from_checkpoint ({run.settings.where('resume_from_checkpoint')}) stands in the config only",
        "trainer.train(resume_from_checkpoint=...)",
    )


@check("log-rows", "arguments", "tell", "too little is logged to diagnose the run later", "TRL 1.16, base_config.py")
def log_rows(run: Run) -> list[Outcome] | Outcome:
    found = []
    if not run.get("log_completions"):
        extra = ["num_completions_to_print"] if run.given("num_completions_to_print") else []
        found.append(
            failed(
                f"{run.say('log_completions', *extra)}: no table of completions, so no group can be looked at",
                "log_completions: true",
                change={"log_completions": True},
                key="log_completions",
            )
        )
    every = run.get("logging_steps")
    if number(every) and every > 1 and run.get("logging_strategy") == "steps":
        found.append(
            failed(
                f"{run.say('logging_steps')}: each row is a mean over that many steps",
                "logging_steps: 1",
                change={"logging_steps": 1},
                key="logging_steps",
            )
        )
    return found or passed(run.say("log_completions", "logging_steps"))


@check("scaling-ignored", "arguments", "tell", "a scaling of rewards that this aggregation does not read", TRAINER)
def scaling_ignored(run: Run) -> Outcome:
    names = ("multi_objective_aggregation", "scale_rewards")
    if run.get("multi_objective_aggregation") == "normalize_then_sum" and run.given("scale_rewards"):
        return failed(
            f"{run.say(*names)}: rewards are scaled one by one, then over the batch",
            "remove scale_rewards",
            change={"scale_rewards": DELETE},
        )
    return passed(run.say(*names))


# ---- 2 batch


@check("batch-divides", "batch", "dead", "the generation batch does not hold whole groups", CONFIG)
def batch_divides(run: Run) -> Outcome:
    size, _, _, group = counted(run, *BATCH)
    span, whole, given = size * run.world, run.get("generation_batch_size"), run.get("steps_per_generation")
    said = f"{run.world} process(es) x {run.say('per_device_train_batch_size')}"
    if whole is not None and given is None:
        counted(run, "generation_batch_size")
        if whole % span or whole % group:
            step = math.lcm(span, group)
            new = -(-whole // step) * step
            return failed(
                f"{run.say('generation_batch_size')} is not a multiple of both {span} ({said}) and"
                f" {run.say('num_generations')}",
                f"generation_batch_size: {new}",
                change={"generation_batch_size": new},
            )
        return passed(f"{run.say('generation_batch_size')}, {said}, {run.say('num_generations')}")
    name = "gradient_accumulation_steps" if given is None else "steps_per_generation"
    (steps,) = counted(run, name)
    if span * steps % group == 0:
        return passed(f"{said} x {run.say(name)} = {span * steps} completions, {run.say('num_generations')}")
    step = group // math.gcd(group, span)
    new = -(-steps // step) * step
    return failed(
        f"{said} x {run.say(name)} = {span * steps}, no multiple of {run.say('num_generations')}",
        f"{name}: {new} (the next that divides; num_generations as it is)",
        change={name: new},
    )


@check("eval-batch-divides", "batch", "dead", "the evaluation batch does not hold whole groups", CONFIG)
def eval_batch_divides(run: Run) -> Outcome:
    if not evaluates(run):
        return passed(run.say("eval_strategy"))
    name = "num_generations_eval" if run.get("num_generations_eval") else "num_generations"
    group, size = counted(run, name, "per_device_eval_batch_size")
    said = f"{run.world} process(es) x {run.say('per_device_eval_batch_size')} = {run.world * size}"
    if run.world * size % group:
        step = group // math.gcd(group, run.world)
        new = -(-size // step) * step
        return failed(
            f"{said}, no multiple of {run.say(name)}",
            f"per_device_eval_batch_size: {new}",
            change={"per_device_eval_batch_size": new},
        )
    return passed(f"{said}, {run.say(name)}")


@check("steps-unit", "batch", "waste", "steps_per_generation counts passes, not optimizer steps", f"{RAN}; {TRAINER}")
def steps_unit(run: Run) -> Outcome:
    sound_batch(run)
    steps, accumulated = run.steps_per_generation(), run.get("gradient_accumulation_steps")
    said = run.say("steps_per_generation", "generation_batch_size", "gradient_accumulation_steps")
    if steps % accumulated == 0:
        return passed(f"{said}: one generation serves {steps // accumulated} optimizer step(s)")
    fix = f"steps_per_generation: {accumulated} is on-policy; k optimizer steps on one generation are {accumulated} x k"
    if accumulated % steps == 0:
        return failed(f"{said}: {accumulated // steps} generations for each optimizer step", fix, severity="tell")
    return failed(f"{said}: generations and optimizer steps are out of phase", fix)


INERT = {"epsilon": CLIPS, "epsilon_high": CLIPS, "delta": CLIPS, "sapo_temperature_pos": ("sapo",),
         "sapo_temperature_neg": ("sapo",), "vespo_k_pos": ("vespo",), "vespo_k_neg": ("vespo",),
         "vespo_lambda_pos": ("vespo",), "vespo_lambda_neg": ("vespo",)}  # fmt: skip


@check(
    "inert-on-policy",
    "batch",
    "tell",
    "settings that act only where a generation serves several optimizer steps",
    RAN,
)
def inert_on_policy(run: Run) -> Outcome:
    sound_batch(run)
    said = run.say("steps_per_generation", "gradient_accumulation_steps", "num_iterations")
    if not run.on_policy():
        return passed(f"{said}: generations are used for more than one optimizer step")
    loss, weighed = run.get("loss_type"), corrects(run)
    inert = [
        name
        for name, losses in INERT.items()
        if run.given(name) and loss in losses and not (weighed and "vespo" in name)
    ]
    if run.get("importance_sampling_level") == "sequence":
        inert.append("importance_sampling_level")
    if run.get("off_policy_mask_threshold") is not None and not weighed:
        inert.append("off_policy_mask_threshold")
    if inert:
        return failed(
            f"{run.say(*inert)}: no or almost no effect, as the ratio is 1 ({said})",
            f"leave them out, or steps_per_generation: {4 * run.get('gradient_accumulation_steps')} for"
            " 4 optimizer steps on each generation",
        )
    return passed(f"nothing set that needs old samples ({said})")


@check("other-loss", "batch", "tell", "settings of a loss that is not chosen", TRAINER)
def other_loss(run: Run) -> Outcome:
    loss = run.get("loss_type")
    idle = [
        name
        for name, losses in INERT.items()
        if run.given(name) and loss not in losses and not (name in ("epsilon", "epsilon_high") and loss == "cispo")
    ]
    if idle:
        return failed(
            f"{run.say(*idle, 'loss_type')}: not read",
            "remove them, or choose their loss_type",
            change=dict.fromkeys(idle, DELETE),
        )
    return passed(run.say("loss_type"))


@check("too-few-prompts", "batch", "dead", "fewer prompts than one generation takes: no step is trained", RAN)
def too_few_prompts(run: Run) -> Outcome:
    sound_batch(run)
    needed = -(-run.generation_batch() // run.get("num_generations"))
    said = (
        f"one generation takes {needed} prompts ({run.generation_batch()} completions / {run.say('num_generations')})"
    )
    if run.total_rows is None and run.rows is None:
        problem = run.cache.get("dataset_problem") or "no dataset was given"
        return unmeasured(f"{said}; {problem}", getattr(problem, "fix", "") or "--dataset prompts.jsonl")
    if run.total_rows is None:  # the first rows of a hub dataset of unknown size
        if len(run.rows) - tested(run) >= needed:
            return passed(f"at least {len(run.rows)} rows; {said}")
        return unmeasured(f"{said}; how many rows there are is not known", "--dataset prompts.jsonl")
    rows, kept = max(0, run.total_rows - tested(run)), f"{run.total_rows} rows"
    if rows < run.total_rows:
        kept += f", {rows} of them for training ({run.say('test_split_size')})"
    if rows < needed:
        return failed(f"{kept}; {said}", f"at least {needed} prompts, or a smaller generation batch")
    lost = rows % needed
    if lost / rows > 0.1:
        return failed(
            f"{kept}; {said}: {lost} rows ({lost / rows:.0%}) are left out of each epoch"
            " (10 % as the border is judgement)",
            f"a multiple of {needed} prompts",
            severity="tell",
        )
    return passed(f"{kept}; {said}")


@check("few-completions", "batch", "tell", "a gradient from few completions is noisy", "judgement: below 64")
def few_completions(run: Run) -> Outcome:
    sound_batch(run)
    total = run.global_batch() * run.get("gradient_accumulation_steps")
    said = (
        f"{total} completions for each optimizer step, {total / run.get('num_generations'):g} prompts"
        f" ({run.world} process(es), {run.say('per_device_train_batch_size', 'gradient_accumulation_steps')})"
    )
    if total < 64:
        whole = run.get("num_generations") // math.gcd(run.get("num_generations"), run.global_batch())
        if run.get("steps_per_generation") or run.get("generation_batch_size"):  # and in phase with the generations
            whole = math.lcm(whole, run.steps_per_generation())
        steps = -(-128 // run.global_batch())
        return failed(
            said, f"gradient_accumulation_steps: {-(-steps // whole) * whole} makes 128 or more; with LoRA fewer do"
        )
    return passed(said)


@check(
    "small-group",
    "batch",
    "tell",
    "small groups are often all right or all wrong",
    "arithmetic: p^G + (1-p)^G; below 4 is judgement",
)
def small_group(run: Run) -> Outcome:
    (size,) = counted(run, "num_generations")
    dead = ", ".join(f"{p**size + (1 - p) ** size:.0%} at a pass rate of {p:g}" for p in (0.5, 0.2))
    said = f"{run.say('num_generations')}: groups without signal under a binary reward: {dead}"
    if size < 4:
        return failed(said, "num_generations: 8, or a graded reward")
    return passed(said)


# ---- 3 generation


def kept_weight(mass: float, tokens: int) -> float:
    """Weight of a completion whose sampler kept this probability mass at each token.

    The sampler's probabilities are divided by the kept mass, the trainer's are not, so each token's ratio is the mass.

    >>> round(kept_weight(0.99, 256), 3)
    0.076
    """
    return mass**tokens


def noisy_weight(tokens: int, noise: float, cut: float, masks: bool = True) -> tuple[float, float]:
    """Mean weight, and effective share of the completions, when two engines differ by rounding.

    The log-ratio of a token is taken as normal with mean -s^2/2, so that ratios average 1; `noise` is the mean absolute
    difference (0.8 s). Weights above `cut` are set to 0 (`masks`) or to `cut`. Exact for that model; a simulation in
    the tests agrees.

    >>> [round(part, 2) for part in noisy_weight(4096, 0.02, 3.0)]
    [0.45, 0.37]
    """
    variance = tokens * (noise / math.sqrt(2 / math.pi)) ** 2
    spread = math.sqrt(variance)

    def below(moment: float) -> float:  # E[w^moment; w < cut] = exp(...) * this
        return 0.5 * (1 + math.erf((math.log(cut) + variance / 2 - moment * variance) / spread / math.sqrt(2)))

    mean, square = below(1), math.exp(min(variance, 600)) * below(2)
    if not masks:
        above = 1 - below(0)
        mean, square = mean + cut * above, square + cut**2 * above
    return mean, mean**2 / square if square else 0.0


# Of engines in bfloat16; Fast-LLM#525 measured about 0.03 on a small model.
NOISE = 0.02
TRUNCATES = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}


def sampling(run: Run) -> tuple[dict[str, Any], dict]:
    """What truncates the sampler, by name, as generation_kwargs leave it; and generation_kwargs."""
    extra = mapping(run, "generation_kwargs")
    found = {name: extra.get(name, run.get(name)) for name in TRUNCATES}
    neutral = {
        "top_p": (None, 1, 1.0),
        "top_k": (None, 0, -1),
        "min_p": (None, 0, 0.0),
        "repetition_penalty": (None, 1, 1.0),
    }
    found = {name: value for name, value in found.items() if value not in neutral[name]}
    for name in ("presence_penalty", "frequency_penalty", "logit_bias", "bad_words", "allowed_token_ids"):
        if extra.get(name):
            found[name] = extra[name]
    return found, extra


@check(
    "truncated-sampling",
    "generation",
    "dead",
    "a truncated sampler under vLLM's correction: weights go to 0 with length",
    "trl#6789; " + TRAINER,
)
def truncated_sampling(run: Run) -> Outcome:
    if not vllm(run):
        return passed(f"{run.say('use_vllm')}: no weights")
    cut, extra = sampling(run)
    if not cut:
        return passed(run.say(*TRUNCATES))
    place = run.settings.where("generation_kwargs")
    shown = ", ".join(
        f"generation_kwargs[{name}]={extra[name]} ({place})" if name in extra else run.say(name) for name in cut
    )
    if not corrects(run):
        return failed(
            f"{shown}, {run.say('vllm_importance_sampling_correction')}: samples of another policy, uncorrected",
            "leave them out",
            severity="tell",
        )
    change: dict[str, Any] = {name: TRUNCATES[name] for name in cut if name in TRUNCATES and name not in extra}
    if set(cut) & set(extra):
        rest = {key: value for key, value in extra.items() if key not in cut}
        change["generation_kwargs"] = rest or DELETE
    change = {name: DELETE if value is None else value for name, value in change.items()}
    length, mass = run.get("max_completion_length"), cut.get("top_p")
    fix = "leave them out: top_p 1.0, top_k 0, no min_p, repetition_penalty 1.0"
    if not per_sequence(run):
        return failed(
            f"{shown}, {run.say('vllm_importance_sampling_mode')}: each token's weight is its kept mass, a bias",
            fix,
            change=change,
            severity="waste",
        )
    if set(cut) == {"top_p"} and number(mass) and 0 < mass < 1 and number(length):
        weight = kept_weight(mass, length)
        said = (
            f"{shown}, {run.say('max_completion_length', 'vllm_importance_sampling_mode')}: where {mass:g} of the mass"
            f" is kept at each token, a full completion weighs {mass:g}^{length} = {weight:.2g}"
        )
        severity = "dead" if weight < 0.01 else "waste" if weight < 0.9 else "tell"
        return failed(said, fix, change=change, severity=severity)
    return failed(
        f"{shown}, {run.say('max_completion_length')}: a completion weighs the product of the kept mass over its"
        f" tokens (0.99 of it kept: {kept_weight(0.99, length or 512):.2g}); how much these keep is not known here",
        fix,
        change=change,
    )


@check(
    "long-weights",
    "generation",
    "waste",
    "one weight for a long completion is a product of many small errors",
    "trl#5814; arithmetic at a noise of 0.02 a token",
)
def long_weights(run: Run) -> Outcome:
    if not corrects(run) or not per_sequence(run):
        return passed(run.say("use_vllm", "vllm_importance_sampling_mode"))
    (length,) = counted(run, "max_completion_length")
    cut, mode = run.get("vllm_importance_sampling_clip_max"), run.get("vllm_importance_sampling_mode")
    mean, left = noisy_weight(length, NOISE, cut if number(cut) else 1e9, mode == "sequence_mask")
    said = (
        f"{run.say('max_completion_length', 'vllm_importance_sampling_mode')}: at a noise of {NOISE} nats a token"
        f" (bfloat16), full completions weigh {mean:.2f} on average and count as {left:.0%} of their number"
    )
    if length < 2048 and mean > 0.6:
        return passed(said)
    return failed(
        said,
        'vllm_importance_sampling_mode: "token_truncate"',
        change={"vllm_importance_sampling_mode": "token_truncate"} if mean < 0.6 else {},
        severity=None if mean < 0.6 else "tell",
    )


@check(
    "broken-sampling",
    "generation",
    "dead",
    "a sampler that writes one answer for the whole group, or that raises",
    RAN,
)
def broken_sampling(run: Run) -> list[Outcome] | Outcome:
    extra, found = mapping(run, "generation_kwargs"), []

    def bad(name: str, why: str, fix: str, severity: str | None = None) -> None:
        if name in extra:
            said = f"generation_kwargs[{name}]={extra[name]} ({run.settings.where('generation_kwargs')})"
            change = {"generation_kwargs": {key: value for key, value in extra.items() if key != name} or DELETE}
        else:
            said, change = run.say(name), {name: TRUNCATES[name] if TRUNCATES[name] is not None else DELETE}
        found.append(failed(f"{said}: {why}", fix, change=change, severity=severity, key=name))

    same, raises = "the same answer each time, so no group has a signal", "raises at the first generation"
    if extra.get("do_sample") is False:
        bad("do_sample", same, "remove do_sample")
    value = {name: extra.get(name, run.get(name)) for name in TRUNCATES}
    value = {name: one if number(one) else TRUNCATES[name] for name, one in value.items()}
    if not 0 < value["top_p"] <= 1:
        unread = value["top_p"] > 1 and not vllm(run)
        why = same if value["top_p"] == 0 else "above 1, and not read" if unread else raises
        bad("top_p", why, "top_p: 1.0", "tell" if unread else None)
    if value["top_k"] == 1 or value["top_k"] < (-1 if vllm(run) else 0):
        bad("top_k", same if value["top_k"] == 1 else raises, "top_k: 0")
    if value["min_p"] is not None and not 0 <= value["min_p"] < 1:
        bad("min_p", same if value["min_p"] == 1 else raises, "no min_p")
    if value["repetition_penalty"] <= 0:
        bad("repetition_penalty", raises, "repetition_penalty: 1.0")
    if extra.get("num_return_sequences") not in (None, 1):
        bad("num_return_sequences", "more completions than prompts; " + raises, "num_generations says it")
    if extra.get("num_beams") not in (None, 1):
        bad("num_beams", "a search, no samples of the policy", "remove num_beams", "waste")
    if extra.get("stop_strings"):
        bad("stop_strings", "the generator gets no tokenizer; " + raises, "remove it; with vLLM: stop")
    for name in ("max_new_tokens", "max_tokens"):
        if extra.get(name) not in (None, run.get("max_completion_length")):
            bad(name, f"overrules {run.say('max_completion_length')}", "max_completion_length says it", "waste")
    return found or passed(run.say(*TRUNCATES, "generation_kwargs"))


@check(
    "temperature",
    "generation",
    "waste",
    "no or little variety inside a group, or noise alone",
    f"{RAN}; below 0.5 and above 2 is judgement",
)
def temperature(run: Run) -> Outcome:
    extra = mapping(run, "generation_kwargs")
    value, said, change = run.get("temperature"), run.say("temperature"), {"temperature": 1.0}
    if "temperature" in extra:
        value, said = extra["temperature"], f"generation_kwargs[temperature]={extra['temperature']}"
        said += f" ({run.settings.where('generation_kwargs')})"
        change["generation_kwargs"] = {key: part for key, part in extra.items() if key != "temperature"} or DELETE
    if not number(value) or not COOL <= value <= HOT:
        dead = not number(value) or not 0.01 <= value < 1000
        if not number(value) or not value > 0:
            why = "raises at the first generation"
        elif value < COOL:
            why = "answers of a group come out alike, and equal rewards teach nothing"
        else:
            why = "answers are noise, and the gradient is divided by it"
        return failed(f"{said}: {why}", "temperature: 1.0", change=change, severity="dead" if dead else None)
    return passed(said)


COOL, HOT = 0.5, 2.0


@check(
    "two-temperatures",
    "generation",
    "waste",
    "the sampler's temperature is not the one of the trainer's probabilities",
    TRAINER,
)
def two_temperatures(run: Run) -> Outcome:
    _, extra = sampling(run)
    if extra.get("temperature") not in (None, run.get("temperature")):
        rest = {key: value for key, value in extra.items() if key != "temperature"}
        return failed(
            f"generation_kwargs[temperature]={extra['temperature']} ({run.settings.where('generation_kwargs')}),"
            f" {run.say('temperature')}",
            f"temperature: {extra['temperature']}, and not in generation_kwargs",
            change={"temperature": extra["temperature"], "generation_kwargs": rest or DELETE}
            if number(extra["temperature"]) and COOL <= extra["temperature"] <= HOT
            else {},  # the check temperature has a better one
        )
    return passed(run.say("temperature", "generation_kwargs"))


@check("vllm-version", "generation", "waste", "a vLLM that this TRL was not made for", "TRL 1.16, import_utils.py")
def vllm_version(run: Run) -> Outcome:
    if not vllm(run):
        return passed(run.say("use_vllm"))
    low, high = "0.22.0", "0.31.0"
    now = config.installed("vllm")
    if now is None:
        return unmeasured(
            f"{run.say('use_vllm')}; vLLM is not installed here, TRL 1.16 supports {low} to {high}",
            f"pip install 'vllm>={low},<={high}' where the run is to be",
        )
    numbers = tuple(int(part) for part in re.findall(r"\d+", now.partition("+")[0])[:3])
    if not tuple(map(int, low.split("."))) <= numbers <= tuple(map(int, high.split("."))):
        return failed(f"vLLM {now}; TRL 1.16 supports {low} to {high}", f"pip install 'vllm>={low},<={high}'")
    return passed(f"vLLM {now} (supported: {low} to {high})")


@check(
    "quantised-vllm",
    "generation",
    "dead",
    "a quantised policy cannot be pushed into vLLM",
    "trl#4973; TRL 1.16, vllm_generation.py",
)
def quantised_vllm(run: Run) -> Outcome:
    bits = next((name for name in ("load_in_4bit", "load_in_8bit") if run.get(name)), None)
    if not vllm(run) or bits is None:
        return passed(run.say("use_vllm", "load_in_4bit", "load_in_8bit"))
    unsloth = "unsloth" in run.settings.text
    why = "Unsloth patches the sync; not checked here" if unsloth else "packed weights do not fit the engine's shapes"
    return failed(
        f"{run.say('use_vllm', bits)}: {why}",
        f"use_vllm: false, or {bits}: false with LoRA on a bfloat16 base",
        severity="tell" if unsloth else None,
    )


@check(
    "tensor-parallel",
    "generation",
    "dead",
    "vLLM's tensor parallelism does not divide the processes, or may hang",
    "TRL 1.16, vllm_generation.py; trl#3671",
)
def tensor_parallel(run: Run) -> Outcome:
    if not colocate(run):
        return passed(run.say("use_vllm", "vllm_mode"))
    (size,) = counted(run, "vllm_tensor_parallel_size")
    if run.world % size:
        return failed(
            f"{run.say('vllm_tensor_parallel_size')} does not divide {run.world} process(es)",
            "vllm_tensor_parallel_size: 1",
            change={"vllm_tensor_parallel_size": 1},
        )
    if size > 1:
        return failed(
            f"{run.say('vllm_tensor_parallel_size')}: reported to hang on GPUs without NVLink",
            "vllm_tensor_parallel_size: 1 if one card holds the weights",
            severity="tell",
        )
    return passed(run.say("vllm_tensor_parallel_size"))


@check(
    "vllm-share",
    "generation",
    "waste",
    "vLLM's share of the card comes on top of training",
    "trl#2688; above 0.5 is judgement",
)
def vllm_share(run: Run) -> Outcome:
    if not colocate(run):
        return passed(run.say("use_vllm", "vllm_mode"))
    share = run.get("vllm_gpu_memory_utilization")
    if number(share) and not 0 < share <= 1:
        return failed(
            f"{run.say('vllm_gpu_memory_utilization')} is no share of a card",
            "vllm_gpu_memory_utilization: 0.3",
            change={"vllm_gpu_memory_utilization": 0.3},
            severity="dead",
        )
    if number(share) and share > 0.5:
        return failed(
            f"{run.say('vllm_gpu_memory_utilization', 'vllm_mode')}: the rest holds weights, gradients, optimizer",
            "vllm_gpu_memory_utilization: 0.3 (TRL's default), or what estimate_memory.py says",
        )
    return passed(run.say("vllm_gpu_memory_utilization"))


@check(
    "vllm-context",
    "generation",
    "tell",
    "vLLM's cache is planned for the model's whole context",
    "vllm#2418; " + CONFIG,
)
def vllm_context(run: Run) -> Outcome:
    if not colocate(run):
        return passed(run.say("use_vllm", "vllm_mode"))
    limit, length = run.get("vllm_max_model_length"), run.get("max_completion_length")
    if limit is None:
        return failed(
            run.say("vllm_max_model_length", "max_completion_length"),
            "vllm_max_model_length: the longest prompt in tokens + max_completion_length",
        )
    if number(length) and limit <= length:
        return failed(
            f"{run.say('vllm_max_model_length', 'max_completion_length')}: no room for a prompt",
            f"vllm_max_model_length above {length}, by the longest prompt",
            severity="dead",
        )
    return passed(run.say("vllm_max_model_length", "max_completion_length"))


@check("vllm-sleep", "generation", "tell", "vLLM keeps its memory during training", TRAINER)
def vllm_sleep(run: Run) -> Outcome:
    if colocate(run) and not run.get("vllm_enable_sleep_mode"):
        return failed(
            run.say("vllm_enable_sleep_mode", "vllm_gpu_memory_utilization"),
            "vllm_enable_sleep_mode: true frees it between generations, for some time at each",
            change={"vllm_enable_sleep_mode": True},
        )
    return passed(run.say("use_vllm", "vllm_mode", "vllm_enable_sleep_mode"))


@check("vllm-server", "generation", "tell", "a server must run before, on GPUs of its own", "TRL 1.16, vllm_client.py")
def vllm_server(run: Run) -> Outcome:
    if not vllm(run) or run.get("vllm_mode") != "server":
        return passed(run.say("use_vllm", "vllm_mode"))
    try:
        model = run.get("model_name_or_path") or "MODEL"
    except config.NotKnown:
        model = "MODEL"
    command = (
        f'VLLM_SERVER_DEV_MODE=1 vllm serve {shlex.quote(model)} --weight-transfer-config \'{{"backend": "nccl"}}\''
        f" --logprobs-mode processed_logprobs --max-logprobs -1 --port {run.get('vllm_server_port')}"
    )
    if run.get("vllm_max_model_length") is not None:
        command += f" --max-model-len {run.get('vllm_max_model_length')}"
    where = "vllm_server_base_url" if run.get("vllm_server_base_url") else "vllm_server_host"
    return failed(f"{run.say('vllm_mode', where)}: TRL waits {run.get('vllm_server_timeout'):g} s for it", command)


COLOCATE_ONLY = ("vllm_gpu_memory_utilization", "vllm_max_model_length", "vllm_tensor_parallel_size",
                 "vllm_enable_sleep_mode", "vllm_model_impl")  # fmt: skip
SERVER_ONLY = ("vllm_server_host", "vllm_server_port", "vllm_server_base_url", "vllm_server_timeout", "vllm_group_port")


@check("vllm-inert", "generation", "tell", "vLLM settings that are not read", "TRL 1.16, vllm_generation.py")
def vllm_inert(run: Run) -> Outcome:
    known = config.arguments()
    given = [name for name in run.settings.lines if name.startswith("vllm_") and name in known and name != "vllm_mode"]
    if not vllm(run):
        if given:
            return failed(f"{run.say(*given, 'use_vllm')}: not read", "use_vllm: true, or remove them")
        return passed(run.say("use_vllm"))
    wrong = SERVER_ONLY if run.get("vllm_mode") == "colocate" else COLOCATE_ONLY
    idle = [name for name in given if name in wrong]
    if idle:
        return failed(
            f"{run.say(*idle, 'vllm_mode')}: not read",
            "flags of `vllm serve`, not of the trainer"
            if wrong is COLOCATE_ONLY
            else 'vllm_mode: "server", or remove them',
        )
    return passed(run.say("use_vllm", "vllm_mode"))


@check(
    "batched-generation",
    "generation",
    "waste",
    "continuous batching casts the trained weights to 16 bits in place",
    TRAINER,
)
def batched_generation(run: Run) -> Outcome:
    on = run.get("use_transformers_continuous_batching") or run.get("use_transformers_paged")
    if not on or vllm(run):
        return passed(run.say("use_transformers_continuous_batching", "use_vllm"))
    half = run.get("fp16") or run.get("bf16") is not False
    if half:
        return failed(
            f"{run.say('use_transformers_continuous_batching', 'bf16', 'use_peft')}: model.to(16 bits) at each"
            " generation, adapters too",
            "use_vllm: true, or leave it out",
            severity="tell" if lora(run) else None,
        )
    return passed(run.say("use_transformers_continuous_batching", "bf16"))


# ---- 4 learning

# Full fine-tuning: TRL's default 1e-6, most of verl's GRPO examples 1e-6, INTELLECT-2 3e-7, AReaL#1634 6e-6, open-r1 to
# 2e-5. LoRA: TRL's page "LoRA without regret" 1e-5 to 5e-5, verl's LoRA scripts 3e-5, trl#2872 learns nothing at 5e-7.
RATES = {"full": (3e-7, 6e-6, 2e-5), "LoRA": (5e-6, 5e-5, 2e-4)}
RATE_SOURCE = "TRL, LoRA without regret; verl's examples; trl#2872; the borders are judgement"


@check(
    "learning-rate", "learning", "waste", "a rate outside of what was published for this way of training", RATE_SOURCE
)
def learning_rate(run: Run) -> Outcome:
    rate = run.get("learning_rate")
    mode = "LoRA" if lora(run) else "full"
    low, high, top = RATES[mode]
    said = f"{run.say('learning_rate', 'use_peft')}; published for {mode} fine-tuning: {low:g} to {high:g}"
    start = "learning_rate: 2e-5" if mode == "LoRA" else "learning_rate: 1e-6"
    if not number(rate) or rate <= 0 or math.isinf(rate):
        return failed(said, start, severity="dead")
    if rate < low:
        return failed(f"{said}; this is below", start, severity=None if rate < low / 2 or mode == "LoRA" else "tell")
    if rate > high:
        return failed(f"{said}; this is above", start, severity=None if rate > top else "tell")
    return passed(said)


def weights_dtype(run: Run) -> tuple[str, str]:
    """Name of the dtype that the trained weights are stored in, and the setting that says so."""
    extra = mapping(run, "model_init_kwargs")
    for key in ("dtype", "torch_dtype"):
        if key in extra:
            return str(extra[key]).removeprefix("torch."), "model_init_kwargs"
    return str(run.get("dtype")).removeprefix("torch."), "dtype"


@check(
    "weights-dtype",
    "learning",
    "waste",
    "most steps of a small rate are rounded away in 16-bit weights",
    "a run (2 % of bfloat16 weights changed in 30 steps at 1e-6); AReaL#1634; 2e-6 is judgement",
)
def weights_in_16_bits(run: Run) -> Outcome:
    if lora(run):
        return passed(f"{run.say('use_peft')}: the adapter is trained, not these weights")
    name, key = weights_dtype(run)
    said, rate = run.say(key, "learning_rate"), run.get("learning_rate")
    if name in ("auto", "None"):
        return unmeasured(
            f"{said}: the checkpoint's own, most often bfloat16", 'dtype: "float32", which is TRL\'s default'
        )
    if name in ("bfloat16", "float16") and number(rate) and rate <= 2e-6:
        return failed(
            f"{said}: a step of {rate:g} is below half a unit of most weights",
            'dtype: "float32" (16 bytes a parameter with AdamW), or LoRA',
            change={"dtype": "float32"} if key == "dtype" and run.settings.kind == "yaml" else {},
        )
    return passed(said)


@check(
    "lora-dropout",
    "learning",
    "tell",
    "an adapter with dropout differs from the policy that sampled",
    "trl#3500; TRL 1.16, model_config.py",
)
def lora_dropout(run: Run) -> Outcome:
    if not lora(run) or run.get("disable_dropout"):
        return passed(run.say("use_peft", "disable_dropout"))
    if number(run.get("lora_dropout")) and run.get("lora_dropout") > 0:
        return failed(run.say("lora_dropout", "disable_dropout"), "lora_dropout: 0.0", change={"lora_dropout": 0.0})
    return passed(run.say("lora_dropout"))


@check(
    "lora-targets",
    "learning",
    "tell",
    "which layers the adapter is put on",
    "TRL 1.16, grpo_trainer.py; TRL, LoRA without regret",
)
def lora_targets(run: Run) -> Outcome:
    if not lora(run):
        return passed(run.say("use_peft"))
    targets = run.get("lora_target_modules")
    if targets is None:
        return failed(
            f"{run.say('lora_target_modules')}: PEFT's own, for most models the query and value projections",
            'lora_target_modules: "all-linear"',
            change={"lora_target_modules": ["all-linear"]} if run.settings.kind == "yaml" else {},
        )
    names = [targets] if isinstance(targets, str) else targets
    if any(str(name).split(".")[-1] == "lm_head" for name in names):
        kept = [name for name in names if str(name).split(".")[-1] != "lm_head"]
        if run.settings.kind == "yaml" and len(kept) == 1:
            kept = pattern(kept[0])
        return failed(
            f"{run.say('lora_target_modules')}: TRL refuses an adapter on the head",
            "remove lm_head",
            change={"lora_target_modules": kept} if kept else {},
            severity="dead",
        )
    # TRL takes one name out of its list, and PEFT reads a text as a pattern of the whole path.
    alone = isinstance(targets, str) or (run.settings.kind == "yaml" and len(targets) == 1)
    if alone and pattern(names[0]) != names[0]:
        return failed(
            f"{run.say('lora_target_modules')}: one name is read as a pattern for a module's whole path, and fits none",
            f'lora_target_modules: "{pattern(names[0])}", or more than one name',
            change={"lora_target_modules": pattern(names[0])},
            severity="dead",
        )
    return passed(run.say("lora_target_modules"))


def pattern(name: str) -> str:
    """A module's plain name as a pattern that PEFT finds.

    >>> pattern("q_proj"), pattern("all-linear"), pattern(".*q_proj")
    ('.*q_proj', 'all-linear', '.*q_proj')
    """
    return f".*{name}" if re.fullmatch(r"\w+", name) else name


@check("lora-size", "learning", "dead", "an adapter of rank 0, or with nothing of it added", RAN)
def lora_size(run: Run) -> list[Outcome] | Outcome:
    if not lora(run):
        return passed(run.say("use_peft"))
    rank, alpha, found = run.get("lora_r"), run.get("lora_alpha"), []
    if number(rank) and rank <= 0:
        found.append(failed(f"{run.say('lora_r')}: PEFT refuses it", "lora_r: 16", key="lora_r"))
    if number(alpha) and alpha <= 0:
        why = "its output is multiplied by 0, so nothing is trained" if alpha == 0 else "a sign that nobody means"
        severity = None if alpha == 0 else "tell"
        found.append(failed(f"{run.say('lora_alpha')}: {why}", "lora_alpha: 32", severity=severity, key="lora_alpha"))
    return found or passed(run.say("lora_r", "lora_alpha"))


SPLIT = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
# Linear layers (and embeddings) by model_type, as transformers names them; held to it by a test.
MODULES = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"), SPLIT | {"embed_tokens"}),
    "phi3": {"qkv_proj", "o_proj", "gate_up_proj", "down_proj", "embed_tokens"},
    "gpt2": {"c_attn", "c_proj", "c_fc", "wte", "wpe"},
    "gpt_neox": {"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h", "embed_in"},
}  # fmt: skip


@check("lora-modules", "learning", "dead", "an adapter for layers that the model does not have", RAN)
def lora_modules(run: Run) -> Outcome:
    if not lora(run):
        return passed(run.say("use_peft"))
    targets = run.get("lora_target_modules")
    if not isinstance(targets, list) or targets == ["all-linear"]:
        return passed(f"{run.say('lora_target_modules')}: no list of names")
    kind = (run.cache.get("model_config") or {}).get("model_type")
    if kind not in MODULES:
        return unmeasured(
            f"{run.say('lora_target_modules')}; the layers of model_type {kind!r} are not known here",
            "print the names of model.named_modules()",
            severity="tell",
        )
    missing = [str(name) for name in targets if re.split(r"\.|\*", str(name))[-1] not in MODULES[kind] | {"lm_head"}]
    if missing:
        return failed(
            f"{run.say('lora_target_modules')}: {kind} has no {', '.join(missing)}",
            f"of {', '.join(sorted(MODULES[kind]))}",
            severity=None if len(missing) == len(targets) else "tell",
        )
    return passed(f"{run.say('lora_target_modules')}, all of {kind}")


@check(
    "reference-model", "learning", "tell", "beta above 0 in full fine-tuning keeps a second model in memory", TRAINER
)
def reference_model(run: Run) -> Outcome:
    if number(run.get("beta")) and run.get("beta") != 0 and not lora(run):
        return failed(
            run.say("beta", "use_peft"),
            "plan memory for it, or beta: 0.0 (TRL's default), or LoRA: its reference is free",
        )
    return passed(run.say("beta", "use_peft"))


@check("scheduler", "learning", "tell", "the rate falls to 0 by the last step", BASE)
def scheduler(run: Run) -> Outcome:
    if run.get("lr_scheduler_type") in ("linear", "cosine"):
        return failed(
            f"{run.say('lr_scheduler_type', 'warmup_steps')}: 0 at the end; half of the steps are below half the rate",
            'lr_scheduler_type: "constant_with_warmup" with warmup_steps: 0.05',
        )
    return passed(run.say("lr_scheduler_type", "warmup_steps"))


@check("optimizer", "learning", "waste", "an optimizer that the published rates do not hold for", "judgement")
def optimizer(run: Run) -> Outcome:
    if run.get("optim") in ("sgd", "rmsprop", "rmsprop_bnb", "rmsprop_bnb_8bit", "rmsprop_bnb_32bit", "adagrad"):
        return failed(run.say("optim", "learning_rate"), 'optim: "adamw_torch_fused", or "adamw_8bit" for memory')
    return passed(run.say("optim"))


# ---- tables for the reference


def changes_table() -> str:
    """Removed and renamed arguments, as a markdown table."""
    rows = [f"| `{row['old']}` | {row['on']} | {row['since']} | {row['use']} |" for row in changes().values()]
    return "\n".join(["| Old | On 1.16 | Since | Use instead |", "|---|---|---|---|", *rows])


def checks_table(groups: tuple[str, ...] = GROUPS) -> str:
    """Every registered check, as a markdown table; the severity is the gravest that is usual for it."""
    rows = [
        f"| {known.id} | {known.group} | {known.severity} | {known.asks} | {known.source} |"
        for group in groups
        for known in CHECKS
        if known.group == group
    ]
    return "\n".join(["| Check | Group | Severity | Fails on | Known from |", "|---|---|---|---|---|", *rows])
