#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["pyyaml", "libcst", "pyarrow", "datasets", "transformers>=5", "scipy", "statsmodels"]
# ///
"""Go or no-go for a GRPO run with TRL 1.16, before a GPU is rented.

Every check says pass, fail or not measured, with evidence from your own files and the fix. A run is a go only if no
check of severity dead, and no gate, failed or was not measured. What you know better is waived by name, with a reason
that is kept in the record.
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import shlex
import sys
import tempfile
import textwrap
from pathlib import Path

import preflight_checks as checks
import preflight_config as config
import preflight_data as data

SCHEMA_VERSION = 1
EXIT_CODES = "exit codes: 0 = go (with --only: nothing dead in these groups), 1 = no-go, 2 = bad usage or input"


class Usage(ValueError):
    """Bad usage; the message is one line."""


# ---- what the record holds


def waived(entry: dict, waivers: dict[str, str]) -> str | None:
    return waivers.get(entry["waive"])


def blocks(entry: dict) -> bool:
    """Whether an entry stops the run: a dead fault or a gate that failed or was not measured."""
    grave = entry["severity"] == "dead"
    return entry["verdict"] != "pass" and grave and "waived" not in entry


def record_of(run: checks.Run, entries: list[dict], waivers: dict[str, str], groups: tuple[str, ...]) -> dict:
    """`preflight.json`. Keys are stable; `changes` of a check are those of `--fix`."""
    shown = []
    for entry in entries:
        one = {key: entry[key] for key in ("id", "group", "severity", "verdict", "evidence", "fix")}
        one["waive_as"] = entry["waive"]
        one["mechanical"] = bool(entry["change"] or entry["rename"])
        if entry["verdict"] != "pass" and waived(entry, waivers):
            one["waived"] = waived(entry, waivers)
        shown.append(one)
    stops = [one for one in shown if blocks(one)]
    whole = set(groups) == set(checks.GROUPS)
    options, settings = run.options, run.settings
    return {
        "schema_version": SCHEMA_VERSION,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "verdict": "no-go" if stops else "go" if whole else "partial",
        "stops": [one["waive_as"] for one in stops],
        "groups": list(groups),
        "trl": {"installed": config.installed("trl"), "checked_for": config.beside("trl_arguments.json")["trl"]},
        "inputs": {
            "config": str(settings.path), "config_sha256": hashlib.sha256(settings.text.encode()).hexdigest(),
            "dataset": run.cache.get("source"), "rows": run.total_rows, "rewards": options.rewards or settings.rewards,
            "model": options.model or settings.values.get("model_name_or_path"), "gpu": options.gpu,
            "world_size": run.world, "inspection": options.inspection, "calibration": options.calibration,
        },
        "waivers": waivers,
        "counts": {
            "pass": sum(one["verdict"] == "pass" for one in shown),
            **{
                severity: sum(one["verdict"] == "fail" and one["severity"] == severity for one in shown)
                for severity in checks.SEVERITIES
            },
            "not_measured": sum(one["verdict"] == "not measured" for one in shown),
        },
        "checks": shown,
        "rehearsal": run.cache.get("rehearsal"),
    }  # fmt: skip


def check_target(path: Path) -> None:
    """A record replaces a record, and nothing else."""
    if not path.parent.is_dir():
        raise Usage(f"--record {path}: there is no folder {path.parent}")
    if path.exists():
        try:
            old = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            old = None
        if not (isinstance(old, dict) and {"verdict", "waivers", "checks"} <= old.keys()):
            raise Usage(f"--record {path}: is there and is no record of preflight, so it is kept; name another file")


def write(path: Path, text: str) -> None:
    """Atomically."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise Usage(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        part.unlink(missing_ok=True)


# ---- what a person reads


def as_text(record: dict, everything: bool) -> str:
    lines = []
    for group in [*record["groups"], *(["rehearsal"] if record["rehearsal"] else [])]:
        entries = [one for one in record["checks"] if one["group"] == group]
        fine = sum(one["verdict"] == "pass" for one in entries)
        lines.append(f"{group}: {fine} of {len(entries)} pass")
        for one in entries:
            if one["verdict"] == "pass":
                if everything:
                    lines += _wrapped("  pass  ", f"{one['id']}: {one['evidence']}")
                continue
            mark = one["severity"] if one["verdict"] == "fail" else f"not measured, {one['severity']}"
            mark = f"waived {mark}" if "waived" in one else mark
            lines += _wrapped("  ", f"[{mark}] {one['waive_as']}: {one['evidence']}", "      ")
            if "waived" in one:
                lines += _wrapped("      waived: ", one["waived"])
            elif one["fix"]:
                lines += _wrapped("      fix: ", one["fix"])
    counts = record["counts"]
    told = ", ".join(f"{counts[name]} {name}" for name in checks.SEVERITIES)
    lines.append(f"{record['verdict'].upper()}: {told}; {counts['not_measured']} not measured; {counts['pass']} pass")
    if record["stops"]:
        lines += _wrapped("stopped by: ", ", ".join(dict.fromkeys(record["stops"])))
    return "\n".join(lines)


def _wrapped(first: str, text: str, rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        text, 110, initial_indent=first, subsequent_indent=" " * len(first) if rest is None else rest,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


# ---- fix


def fix(run: checks.Run, entries: list[dict], target: Path) -> list[str]:
    """Write a corrected copy; what was changed, a line each."""
    changes, renames = {}, {}
    for entry in entries:
        if entry["verdict"] == "fail":
            renames |= entry["rename"]
            changes |= entry["change"] if entry["severity"] != "tell" else {}  # of these only old names are mended
    if not changes and not renames:
        return []
    if target.resolve() == run.settings.path.resolve():
        raise Usage(f"--fix {target}: is the config itself; name a new file")
    if target.suffix != run.settings.path.suffix:
        raise Usage(f"--fix {target}: the copy of {run.settings.path.name} must end in {run.settings.path.suffix}")
    write(target, config.corrected(run.settings, changes, renames))
    said = [f"{old} -> {new}" for old, new in renames.items()]
    return said + [
        f"{name} removed" if value is checks.DELETE else f"{name}={value!r}" for name, value in changes.items()
    ]


# ---- the command


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="preflight.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=textwrap.dedent(f"""\
            groups: {", ".join(checks.GROUPS)}
            severity: {"; ".join(f"{name} = {what}" for name, what in checks.SEVERITIES.items())}

            Rewards are imported and tried in a process of their own, from the current folder. A training script is
            parsed and never run. arguments, batch, memory and gates need no torch and no trl.

            example:
              python scripts/preflight.py --config grpo.yaml --model MODEL_FOLDER --gpu h100-80gb
              python scripts/preflight.py --config train.py --dataset prompts.jsonl --rewards my_rewards.exact
              python scripts/preflight.py --config grpo.yaml --only arguments --fix mended.yaml
              python scripts/preflight.py --config grpo.yaml --only arguments batch

            {EXIT_CODES}"""),
    )  # fmt: skip
    parser.add_argument(
        "--config",
        type=Path,
        help="YAML of `trl grpo`, or a script with a GRPOConfig(...) call (train.py:LINE if several)",
    )
    parser.add_argument(
        "--dataset",
        metavar="D",
        help="rows: .jsonl, .parquet, .json, .csv or a hub id (default: what the config names)",
    )
    parser.add_argument(
        "--rewards", nargs="+", metavar="NAME", help="module.function, as reward_funcs (default: the config's)"
    )
    parser.add_argument(
        "--model", help="folder with config.json and tokenizer, config.json, or hub id (default: the config's)"
    )
    parser.add_argument("--gpu", metavar="NAME", help="card, from gpu_rates.py, such as h100-80gb")
    parser.add_argument("--device-gib", type=float, metavar="GIB", help="usable memory of any other card")
    parser.add_argument("--world-size", type=int, metavar="N", help="training processes (num_processes, or 1)")
    parser.add_argument("--sharding", choices=["ddp", "zero2", "zero3", "fsdp2"], help="for the memory plan")
    parser.add_argument(
        "--inspection", default="inspection", metavar="DIR", help="folder of inspect_rewards.py (inspection)"
    )
    parser.add_argument("--calibration", metavar="FILE", help="calibration.json, if a judge pays a reward")
    parser.add_argument(
        "--only", nargs="+", choices=checks.GROUPS, metavar="GROUP", help="some groups; the verdict is then partial"
    )
    parser.add_argument(
        "--waive",
        action="append",
        default=[],
        metavar="ID=REASON",
        help="let a check pass, with the reason; may be repeated",
    )
    parser.add_argument(
        "--reward-budget-s", type=float, default=60, metavar="S", help="seconds for the trial of one reward (60)"
    )
    parser.add_argument(
        "--rehearse", action="store_true", help="also two steps of the real GRPOTrainer on a tiny model, on the CPU"
    )
    parser.add_argument(
        "--completions", metavar="FILE", help="sampled completions for the rehearsal (default: the inspection's)"
    )
    parser.add_argument(
        "--fix", type=Path, metavar="FILE", help="write a corrected copy of the config, for what is mechanical"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="also write the JSON there (preflight.json)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--full", action="store_true", help="also what was seen where a check passes")
    parser.add_argument(
        "--table", choices=["checks", "changes"], help="print a table of the reference, and nothing else"
    )
    return parser


def waivers_of(texts: list[str]) -> dict[str, str]:
    found = {}
    known = {one.id for one in checks.CHECKS} | {"rehearsal"}
    for text in texts:
        name, _, reason = text.partition("=")
        if not reason.strip():
            raise Usage(f"--waive {text}: say why, as in --waive {name or 'ID'}='trained before on this data'")
        if name.partition(":")[0] not in known:
            raise Usage(f"--waive {name}: no such check{config.nearest(name, known)}; --table checks lists them")
        found[name] = reason.strip()
    return found


def gather(options: argparse.Namespace, groups: tuple[str, ...]) -> checks.Run:
    settings = config.read(options.config)
    if options.world_size is not None and options.world_size < 1:
        raise Usage(f"--world-size {options.world_size}: must be 1 or more")
    world = options.world_size or config.processes(settings)
    if world is None and settings.given("accelerate_config"):
        raise Usage(
            f"{settings.say('accelerate_config')}: how many processes that makes is not known here: --world-size N"
        )
    world = world or 1
    os.environ["PREFLIGHT_CALIBRATION"] = options.calibration or ""  # read by the child that loads the rewards
    run = checks.Run(settings, world, options=options)
    with contextlib.suppress(config.NotKnown):
        run.cache["model_config"] = data.model_config(run)
    sampled = Path(options.inspection) / "completions.jsonl"
    if sampled.is_file():
        with contextlib.suppress(ValueError, AttributeError):
            ends = [json.loads(line).get("finish") for line in sampled.read_text(encoding="utf-8").splitlines() if line]
            if all(ends):
                run.cache["clipped_share"] = ends.count("length") / len(ends)
    if {"dataset", "rewards", "batch"} & set(groups) or options.dataset or options.rehearse:
        quick = not {"dataset", "rewards"} & set(groups) and not options.rehearse
        try:
            run.rows, run.total_rows, run.cache["source"] = data.load_rows(settings, options.dataset, quick)
        except (config.ConfigError, config.NotKnown) as error:
            run.cache["dataset_problem"] = error
    return run


def rehearse(run: checks.Run) -> list[dict]:
    """What `preflight_rehearse.py` says: one entry, or one for each fault."""
    options = run.options
    arguments = ["preflight_rehearse.py", "--config", str(options.config), "--json"]
    try:
        arguments += ["--rewards", *data.rewards_of(run)]
        rows = data.rows_of(run)
    except config.NotKnown as error:
        return [_rehearsal("not measured", str(error), error.fix)]
    arguments += ["--model", options.model] if options.model else []
    arguments += ["--gpus", str(run.world)] if run.world > 1 else []
    sampled = options.completions or str(Path(options.inspection) / "completions.jsonl")
    arguments += ["--completions", sampled] if Path(sampled).exists() or options.completions else []
    print("note: rehearsing, about a minute", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:  # the rows as they were loaded: columns and split count
        path = Path(folder) / "rows.jsonl"
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows), encoding="utf-8")
        try:
            code, answer = data.command([*arguments, "--dataset", str(path)], 150)
        except data.CommandFailed as error:
            return [_rehearsal("not measured", str(error), shlex.join(["python", *arguments, "--dataset", "FILE"]))]
    run.cache["rehearsal"] = answer
    steps, switched = answer["steps"], [one["setting"] for one in answer["switched"]]
    said = f"{steps['done']} of {steps['asked']} steps on a tiny model in {answer['seconds']['total']:.0f} s"
    said += f"; switched to run here, so not rehearsed: {', '.join(switched)}" if switched else ""
    if code == 0:
        return [_rehearsal("pass", said)]
    found = []
    for fault in answer["faults"]:
        # A random model that wrote everything itself says nothing of rewards that pay nothing.
        verdict = "not measured" if fault["kind"] == "no_signal" else "fail"
        found.append(_rehearsal(verdict, f"{fault['kind']}: {fault['evidence']}", fault["fix"], fault["kind"]))
    return found or [_rehearsal("not measured", f"exit code {code} without a fault; {said}", "run it alone")]


def _rehearsal(verdict: str, evidence: str, fix_text: str = "", kind: str = "") -> dict:
    waive = f"rehearsal:{kind}" if kind else "rehearsal"
    return {"id": "rehearsal", "group": "rehearsal", "severity": "dead", "verdict": verdict, "evidence": evidence,
            "fix": fix_text, "waive": waive, "change": {}, "rename": {}}  # fmt: skip


def run_all(options: argparse.Namespace) -> int:
    if options.table:
        print(checks.checks_table() if options.table == "checks" else checks.changes_table())
        return 0
    if options.config is None:
        raise Usage("give the run's settings: --config grpo.yaml, or the training script")
    if options.fix and options.fix.exists():
        raise Usage(f"--fix {options.fix}: is there already, and is not overwritten; name another file")
    if options.record:
        check_target(options.record)
    groups = tuple(group for group in checks.GROUPS if not options.only or group in options.only)
    waivers = waivers_of(options.waive)
    run = gather(options, groups)
    entries = checks.results(run, groups)
    if options.rehearse:
        entries += rehearse(run)
    record = record_of(run, entries, waivers, groups)
    if options.record:
        write(options.record, json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1) if options.json else as_text(record, options.full))
    unused = [
        name for name in waivers if not any(name == one["waive_as"] and "waived" in one for one in record["checks"])
    ]
    for name in unused:
        print(f"note: the waiver of {name} was not needed", file=sys.stderr)
    if options.fix:
        wanted = [entry for entry in entries if not waived(entry, waivers)]
        said = fix(run, wanted, options.fix)
        print(f"wrote {options.fix}: {'; '.join(said)}" if said else "note: nothing can be mended mechanically, so "
              f"{options.fix} was not written", file=sys.stderr)  # fmt: skip
    return 1 if record["verdict"] == "no-go" else 0


def main(argv: list[str] | None = None) -> int:
    options = build_parser().parse_args(argv)
    try:
        return run_all(options)
    except (Usage, config.ConfigError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
