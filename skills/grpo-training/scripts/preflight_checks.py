"""The checks of preflight.py that need nothing but the run's settings: arguments, batches, generation, rates.

A check is one function, registered with its id, group, severity, one sentence that says what fails, and where that is
known from. It returns an `Outcome` or a list of them. `Run.get` gives the value that the run will have; a setting that
cannot be known without running the user's script raises `NotKnown`, and the check is then "not measured".
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    import preflight_config as config
except ImportError:
    from scripts import preflight_config as config

GROUPS = ("arguments", "batch", "dataset", "rewards", "generation", "learning", "memory", "gates")
SEVERITIES = {"dead": "cannot learn, or stops", "waste": "costs rollouts or time", "tell": "know it"}
DELETE = object()


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
    source: str  # "TRL 1.16 source", "run", a thread, a paper, or "judgement"
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
        return self.settings.given(name)

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
            outcome = unmeasured(str(error), "write it as a number or a name in the config, or give the YAML")
        except Exception as error:  # a fault of ours may not pass as fine, nor hide the other checks
            outcome = unmeasured(
                f"this check failed itself: {type(error).__name__}: {error}"[:300], "look at the setting; report it"
            )
        for one in outcome if isinstance(outcome, list) else [outcome]:
            found.append(
                {"id": known.id, "group": known.group, "severity": one.severity or known.severity,
                 "verdict": one.verdict, "evidence": one.evidence, "fix": one.fix, "waive": one.waive or known.id,
                 "change": one.change, "rename": one.rename}
            )  # fmt: skip
    return found


def vllm(run: Run) -> bool:
    return bool(run.get("use_vllm"))


# ---- 1 arguments

CHANGES = Path(__file__).with_name("trl_changes.json")


@check("unknown-argument", "arguments", "dead", "a key that the installed TRL does not take", "TRL's own fields")
def unknown_argument(run: Run) -> list[Outcome] | Outcome:
    known = config.arguments()
    changes = {row["old"]: row for row in config.beside(CHANGES.name)["changes"]}
    strange = [name for name in (*run.settings.values, *run.settings.unread) if name not in known]
    found = []
    for name in strange:
        where = run.settings.where(name)
        row = changes.get(name)
        if row is None:
            near = config.nearest(name, known)
            found.append(failed(f"{name} ({where}) is no argument of TRL", f"remove it, or mend the spelling{near}"))
        elif row.get("new"):
            found.append(
                failed(f"{name} ({where}) is gone since {row['since']}", row["use"], rename={name: row["new"]})
            )
        else:
            found.append(failed(f"{name} ({where}) is gone since {row['since']}", row["use"], change={name: DELETE}))
    return found or passed(f"all {len(run.settings.lines)} keys are known ({config.about_table()})")
