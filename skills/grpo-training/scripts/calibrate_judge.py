#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["scipy>=1.17", "statsmodels>=0.15", "openai>=2", "tenacity>=9", "rich>=13", "pyarrow>=15"]
# ///
"""Hold a judge model to people's labels before it pays a reward: error rates, biases, drift, a sealed test.

The judge is asked exactly as `make_rubric_judge_reward` asks it. Labels and openings of the sealed test are only ever
appended; `calibration.json` is derived from them and from the judge's cached replies, and replaced whole. Labels of
kind `human` decide; those of agents and synthetic ones are shown beside them.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import secrets
import sys
import threading
import unicodedata
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import judge
import rewards
from score_completions import UserError, one_line, read_completions, read_labels, safe

__all__ = ["biased", "corrected", "interval", "is_pinned", "rates", "same_again", "split_of", "verdict_of_record"]

SCHEMA_VERSION = 1
SPLITS = ("train", "dev", "test")
# hamelsmu/evals-skills, validate-evaluator (retrieved 2026-11-30): train 10-20 %, dev 40-45 %, test 40-45 %.
SHARES = (0.2, 0.4, 0.4)
KINDS = {"human": "human", "person": "human", "agent": "agent", "synthetic": "synthetic"}  # the first counts most
ALPHA = 0.05
ENOUGH = 20  # answers below which a probe or a recheck is "not measured" (judgement)
DRAWS = 10_000
FILLER = "The points above stand as they were written, and nothing further is added to them in this paragraph. "
NOT_MEASURED = "not measured"

EPILOG = """
files, all in the folder of --record (one folder per criterion):
  label_ledger.jsonl      every label ever given, with labeller, kind and time; appended to by split
  sealed_openings.jsonl   one line per opening of the sealed test, written before the judge is asked
  judge_cache.jsonl       the judge's replies, so that a killed run goes on where it stopped
  calibration.json        the record, made from the three; make_rubric_judge_reward(calibration=...) reads it

input of split: .jsonl or .parquet with prompt, completion (text or chat messages), label (pass, fail, unsure),
  kind (human, agent or synthetic) and labeller; `rewards.py score --write` makes such a file

example:
  calibrate_judge.py split to_label.jsonl --labeller kim
  calibrate_judge.py run --rubric rubric.txt --model JUDGE-2026-08-06 --judge-family a --policy-family b
  calibrate_judge.py probe --rubric rubric.txt
  calibrate_judge.py open --rubric rubric.txt
  calibrate_judge.py recheck --rubric rubric.txt
  calibrate_judge.py rate sampled.jsonl --rubric rubric.txt

exit codes: 0 = ok, 1 = the gate says no, or not measured, 2 = bad usage or input
"""


# --- texts, hashes, files that only grow ------------------------------------------------------------------------------


def digest(*parts) -> str:
    """sha256 of any JSON values. ASCII escapes carry lone surrogates, which UTF-8 would refuse."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def split_of(salt: str, prompt: str, response: str, shares=SHARES) -> str:
    """The split of an example, from its prompt's hash alone: it never moves when data grows, and all completions of one
    prompt, however it is spaced or capitalised, are in one split. Without a prompt the response decides.

    Example:
        >>> split_of("s", "What is 2+2?", "4") == split_of("s", "what is  2+2? ", "5")
        True
    """
    place = int(digest(salt, _normal(prompt) or _normal(response))[:13], 16) / 16**13
    return "train" if place < shares[0] else "dev" if place < shares[0] + shares[1] else "test"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def append(path: Path, entries: list[dict], sync=True) -> None:
    """Whole lines at the end of a file. A line that a kill has torn is closed first, so it costs only itself."""
    data = "".join(json.dumps(entry) + "\n" for entry in entries).encode()
    try:
        with open(path, "a+b", buffering=0) as file:
            if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                data = b"\n" + data
            while data:
                data = data[file.write(data) :]
            if sync:
                os.fsync(file.fileno())
    except OSError as error:
        raise UserError(f"{path}: cannot be appended to ({error.strerror})") from None


def read_lines(path: Path) -> list[dict | None]:
    """The lines of a file of ours; None for one that holds no object."""
    if not path.exists():
        return []
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    found = []
    for line in filter(bytes.strip, lines):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        found.append(entry if isinstance(entry, dict) else None)
    return found


def write_record(path: Path, record: dict) -> None:
    """Replaces the record at once: a reader sees the old one or the new one, never half of one."""
    record["verdict"], record["reasons"] = verdict_of_record(record)
    record["updated"] = _now()
    record["versions"] = {"python": platform.python_version()}
    for name in ("scipy", "statsmodels", "numpy", "openai", "tenacity"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            record["versions"][name] = importlib.metadata.version(name)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(json.dumps(record, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        temporary.unlink(missing_ok=True)


# --- what is known: labels, openings, record --------------------------------------------------------------------------


@dataclasses.dataclass
class Example:
    id: str
    prompt: str
    response: str
    split: str
    label: bool | None  # None: unsure, or labellers of its kind disagree
    kind: str
    revised: str  # time of the last label that was not the example's first, or ""


def examples_of(entries: list[dict], salt: str, shares) -> list[Example]:
    """One example per prompt and response. Of each labeller the last label counts; a human's hides the others'."""
    by_id = {}
    for entry in entries:
        by_id.setdefault(entry["id"], []).append(entry)
    found = []
    for key, mine in by_id.items():
        last, revised = {}, ""
        for entry in mine:
            who = (entry["kind"], entry["labeller"])
            revised = entry["time"] if last else revised  # another person's later word too
            last[who] = entry["label"]
        kind = min((who[0] for who in last), key=("human", "agent", "synthetic").index)
        labels = {label for who, label in last.items() if who[0] == kind} - {"unsure"}
        label = labels.pop() == "pass" if len(labels) == 1 else None
        prompt, response = mine[0]["prompt"], mine[0]["response"]
        found.append(Example(key, prompt, response, split_of(salt, prompt, response, shares), label, kind, revised))
    return found


class State:
    """Ledger, openings and record of one folder, held against each other."""

    def __init__(self, record_path: Path):
        self.path = record_path
        self.ledger_path = record_path.parent / "label_ledger.jsonl"
        self.openings_path = record_path.parent / "sealed_openings.jsonl"
        self.record = self._read_record()
        lines = read_lines(self.ledger_path)
        self.head, self.entries = (lines[0], [entry for entry in lines[1:] if entry]) if lines else (None, [])
        keys = {"id", "prompt", "response", "label", "kind", "labeller", "time"}
        if lines and not {"ledger", "salt", "shares"} <= (self.head or {}).keys():
            raise UserError(f"{self.ledger_path}: is no label ledger; move it away")
        if odd := next(
            (entry for entry in self.entries if not keys <= entry.keys() or entry["kind"] not in KINDS.values()), None
        ):
            raise UserError(f"{self.ledger_path}: holds a line that is no label: {json.dumps(odd):.80}")
        if self.head:
            self.salt, self.shares = self.head["salt"], tuple(self.head["shares"])
        self.openings = read_lines(self.openings_path)  # a torn line is an opening too
        for what, have, file in (
            ("labels", len(self.entries), self.ledger_path),
            ("openings", len(self.openings), self.openings_path),
        ):
            if (before := (self.record.get(what) or {}).get("count", 0)) > have:
                raise UserError(f"{file}: holds {have} {what}, and {record_path} was made from {before}; restore it")
        if self.head and self.record.get("salt", self.salt) != self.salt:
            raise UserError(f"{record_path}: was made with another {self.ledger_path.name}; restore that one")
        self.examples = examples_of(self.entries, self.salt, self.shares) if self.head else []

    def _read_record(self) -> dict:
        if not self.path.exists():
            return {}
        try:
            record = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or record.get("schema_version") != SCHEMA_VERSION:
            raise UserError(f"{self.path}: is no record of version {SCHEMA_VERSION}; name another with --record")
        return record

    def of(self, *splits: str) -> list[Example]:
        return [example for example in self.examples if example.split in splits]

    def refresh(self) -> dict:
        """The record with what the ledger and the openings say now."""
        self.record["schema_version"] = SCHEMA_VERSION
        splits = self.record.setdefault("splits", {name: {} for name in SPLITS})
        for name in SPLITS:
            splits[name] |= counts_of(self.of(name))
        times = [line["time"] for line in self.openings if line and "time" in line]
        last = max(times, default=None)
        splits["test"]["revised_since_opening"] = sum(bool(last) and one.revised > last for one in self.of("test"))
        labels = {"count": len(self.entries), "sha256": labels_sha256(self.examples)}
        self.record |= {
            "created": self.record.get("created") or _now(),
            "salt": self.salt,
            "shares": list(self.shares),
            "labels": labels,
            "openings": {
                "count": len(self.openings),
                "judges": len(self.judges_opened()),
                "last": last,
            },
        }
        return self.record

    def judges_opened(self) -> set:
        """Rubrics, judges and caches the sealed test has been opened with: another cache asks again, and is another
        draw. Where a line is torn, nobody knows: one more."""
        return {
            ((line or {}).get("identity", f"unknown {number}"), (line or {}).get("cache"))
            for number, line in enumerate(self.openings)
        }


def labels_sha256(examples: list[Example]) -> str:
    return digest(sorted([one.id, one.label, one.kind] for one in examples))


def counts_of(examples: list[Example]) -> dict:
    kinds = {kind: {"pass": 0, "fail": 0, "undecided": 0} for kind in ("human", "agent", "synthetic")}
    for one in examples:
        kinds[one.kind][{True: "pass", False: "fail", None: "undecided"}[one.label]] += 1
    return {"examples": len(examples), "prompts": len({_normal(one.prompt) for one in examples}), "kinds": kinds}


# --- which judge ------------------------------------------------------------------------------------------------------

_DATE = r"20\d\d(?P<dash>-?)(?:0[1-9]|1[0-2])(?P=dash)(?:0[1-9]|[12]\d|3[01])(?!\d)"
_MONTH_DAY = r"(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_PINNED = re.compile(
    rf"(?<!\d){_DATE}|@(?:sha256:|(?=[a-f]*\d))[0-9a-f]{{7,64}}$|[-@](?!1024|0512){_MONTH_DAY}(?:-preview)?$|[-@]0\d\d$",
    re.IGNORECASE,
)  # the last two: -0613, -001
_LATEST = re.compile(r"(?:^|[\W_])latest(?:$|[\W_])", re.IGNORECASE)
_REVISION = re.compile(r"(?:sha256:)?[0-9a-f]{7,64}", re.IGNORECASE)


def is_pinned(model: str) -> bool:
    """Whether a name says which weights answer: a date, a hash, or a numbered snapshot; never `latest`.

    Example:
        >>> [is_pinned(name) for name in ("judge-2026-08-06", "judge@1f3c9ab", "judge", "judge-latest", "judge-v2")]
        [True, True, False, False, False]
    """
    return bool(_PINNED.search(model)) and not _LATEST.search(model)


def _without_password(url: str | None) -> str | None:
    if not url:
        return None
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


@dataclasses.dataclass
class Config:
    """Who is asked what. `identity` names all that decides a verdict, and so what a measurement is true of."""

    rubric: str
    model: str
    revision: str | None
    base_url: str | None
    sampling: dict
    judge_family: str
    policy_family: str

    @property
    def rubric_sha256(self) -> str:
        return judge.rubric_sha256(self.rubric)

    @property
    def identity(self) -> str:
        return digest(self.model, self.revision, self.sampling, judge.instructions_sha256(), self.rubric_sha256)

    def as_record(self) -> dict:
        return {
            "judge": {
                "model": self.model,
                "revision": self.revision,
                "base_url": _without_password(self.base_url),
                "sampling": self.sampling,
                "family": self.judge_family,
                "instructions_sha256": judge.instructions_sha256(),
            },
            "policy_family": self.policy_family,
            "rubric_sha256": self.rubric_sha256,
            "identity": self.identity,
        }


def configure(args, record: dict) -> Config:
    """What the flags say, and for what they leave out, what the record says."""
    try:
        rubric = args.rubric.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{args.rubric}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not rubric:
        raise UserError(f"{args.rubric}: is empty; it must hold one pass/fail criterion")
    known = record.get("judge") or {}
    model = args.model or known.get("model")
    if not model:
        raise UserError("no judge: give --model SNAPSHOT (later commands take it from the record)")
    # A revision belongs to the model it was given for.
    revision = args.model_revision or (known.get("revision") if model == known.get("model") else None)
    families = (args.judge_family or known.get("family"), args.policy_family or record.get("policy_family"))
    for flag, family in zip(("--judge-family", "--policy-family"), families):
        if not (family or "").strip():
            raise UserError(f"no family: give {flag}, such as the maker's name; a judge favours its own family")
    if families[0].strip().casefold() == families[1].strip().casefold():
        raise UserError(f"judge and policy are both of the family {families[0]!r}; take a judge of another family")
    if families[1].strip().casefold() in model.casefold():
        note(f"the judge's name {model!r} holds the policy's family {families[1]!r}: is it truly of another?")
    if args.model_revision and not _REVISION.fullmatch(args.model_revision):
        raise UserError(f"--model-revision {args.model_revision!r} must be 7 to 64 hex digits, such as a commit")
    if _LATEST.search(model) or (not revision and not is_pinned(model)):
        raise UserError(
            f"{model!r} may be another model tomorrow: give --model with a dated snapshot (name-2026-08-06, "
            f"name@sha256:...), or for weights that you serve --model-revision with their commit"
        )
    sampling = {"temperature": 0, **known.get("sampling", {})} if known else {"temperature": 0}
    if args.temperature is not None:
        sampling["temperature"] = None if args.temperature == "none" else args.temperature
    sampling |= {"max_tokens": args.max_tokens} if args.max_tokens else {}
    base_url = args.base_url or known.get("base_url")
    return Config(rubric, model, revision, base_url, sampling, families[0].strip(), families[1].strip())


def adopt(state: State, config: Config) -> dict:
    """The record for this judge and rubric. What was measured of another one is not carried over."""
    record = state.refresh()
    if record.get("identity") not in (None, config.identity):
        if (record["splits"]["test"].get("measured") or {}).get("judged"):
            note(
                "the sealed result in the record is of another rubric or judge and was taken out; `open` measures anew"
            )
        for name in SPLITS:
            record["splits"][name].pop("measured", None)
        record |= {"probes": None, "drift": None, "measured": None, "warnings": []}
    record |= config.as_record()
    return record


# --- asking -----------------------------------------------------------------------------------------------------------

_WORDS = re.compile(r"(`?(?:verdict: )?\b(?:pass|fail)\b`?)(\s*(?:or|/)\s*)(`?(?:verdict: )?\b(?:pass|fail)\b`?)", re.I)


class Client(judge.OpenAIJudge):
    """`OpenAIJudge` that can put a question in another order: `order` is "", "fields" or "words"."""

    order = ""

    def _request(self, rubric, prompt, response):
        request = super()._request(rubric, prompt, response)
        system, user = request["messages"]
        if self.order == "fields":
            user["content"] = json.dumps(dict(reversed(json.loads(user["content"]).items())), ensure_ascii=False)
        if self.order == "words":
            system["content"] = _WORDS.sub(r"\3\2\1", system["content"])
        return request

    def judge(self, rubric, prompt, response, output_format) -> dict:
        """The reply as a line of the cache: with the name the server answers by, and why the text ended."""
        found = self._client().chat.completions.create(**self._request(rubric, prompt, response))
        choice = found.choices[0] if found.choices else None
        text = choice.message.content if choice else None
        return {
            "reply": text if isinstance(text, str) else None, "time": _now(),
            "model": found.model, "finish": choice and choice.finish_reason,
        }  # fmt: skip


class CachedJudge:
    """A client for `judge.Desk` that keeps each reply on disk the moment it comes. The first reply to a question stays
    the one that counts, so what was measured can be pinned."""

    def __init__(self, client: Client, revision: str | None, path: Path | None, tick=lambda: None):
        self.client, self.revision, self.path, self.tick = client, revision, path, tick
        self.lock, self.used, self.known = threading.Lock(), {}, {}
        for entry in read_lines(path) if path else ():
            if entry and "key" in entry:  # a line without is torn, and is asked again
                self.known.setdefault(entry["key"], entry)

    def key(self, rubric, prompt, response) -> str:
        return digest(self.revision, self.client._request(rubric, prompt, response))

    def judge(self, rubric, prompt, response, output_format):
        key = self.key(rubric, prompt, response)
        if key not in self.known:
            found = {"key": key, **self.client.judge(rubric, prompt, response, output_format)}
            with self.lock:
                self.known[key] = found
                if self.path:
                    append(self.path, [found], sync=False)
        found = self.used[prompt, response] = self.known[key]
        self.tick()
        return found.get("reply")


@dataclasses.dataclass
class Answer:
    reason: str  # pass, fail, no_verdict, refused, unreachable
    reply: str
    time: str

    @property
    def verdict(self) -> bool | None:
        return {"pass": True, "fail": False}.get(self.reason)


@contextlib.contextmanager
def progress(total: int, what: str):
    """Gives a function to call once per answer; a bar where somebody watches."""
    if not sys.stderr.isatty() or not total:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def ask(args, config: Config, pairs: list[tuple[str, str]], what: str, order="", cached=True) -> list[Answer]:
    """The judge's answers, asked as the reward asks: through `judge.Desk`, so bounded, with retries."""
    client = Client(
        config.model, base_url=config.base_url, api_key_env=args.api_key_env, timeout_s=args.timeout, **config.sampling
    )
    client.order = order
    path = args.cache or args.record.parent / "judge_cache.jsonl"
    with progress(len(set(pairs)), what) as tick:
        keeper = CachedJudge(client, config.revision, path if cached else None, tick)
        desk = judge.Desk(keeper, config.rubric, concurrency=args.concurrency, attempts=args.attempts)
        try:
            found = desk.ask(pairs)
        except (UserError, ImportError):
            raise
        except Exception as error:  # a client may fail in any way; what another try would not mend ends the command
            where = _without_password(config.base_url) or "the default endpoint"
            raise UserError(f"the judge at {where}: {type(error).__name__}: {error}") from None
    lost = [reply for reason, reply in found if reason == "unreachable"]
    if lost:
        note(
            f"{len(lost)} of {len(found)} questions got no answer ({one_line(lost[0], 160)}); the same command goes on"
        )
    # Some servers look at no model name and answer with the weights they have.
    others = sorted({str(one["model"]) for one in keeper.used.values() if one.get("model") not in (None, config.model)})
    if others:
        note(
            f"asked for {config.model!r}, the server answered as {', '.join(map(repr, others))}: are these its weights?"
        )
    if cut := sum(one.get("finish") == "length" for one in keeper.used.values()):
        note(
            f"{cut} of {len(keeper.used)} replies were cut at their longest; what has no verdict may need --max-tokens"
        )
    return [Answer(*answer, keeper.used.get(pair, {}).get("time", "")) for answer, pair in zip(found, pairs)]


def pair_of(row: dict, number: int) -> tuple[str, str]:
    """Prompt and response as the reward puts them to the judge."""
    try:
        return rewards._prompt_text(row.get("prompt") or ""), rewards.completion_text(row["completion"])
    except (TypeError, AttributeError, IndexError) as error:
        raise UserError(f"row {number}: prompt or completion is neither text nor chat messages ({error})") from None


def pairs_of(examples: list[Example]) -> list[tuple[str, str]]:
    return [(one.prompt, one.response) for one in examples]


# --- statistics: scipy's and statsmodels' -----------------------------------------------------------------------------


def interval(count: int, n: int, alpha=ALPHA) -> dict:
    """A share with its Wilson interval.

    Example:
        >>> {key: round(value, 4) for key, value in interval(8, 10).items()}
        {'value': 0.8, 'low': 0.4902, 'high': 0.9433, 'count': 8, 'n': 10}
    """
    if not n:
        return {"value": None, "low": None, "high": None, "count": 0, "n": 0}
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(count, n, alpha=alpha, method="wilson")
    return {"value": count / n, "low": float(low), "high": float(high), "count": int(count), "n": int(n)}


def rates(labels: list[bool], answers: list[Answer], alpha=ALPHA) -> dict:
    """Confusion counts, TPR, TNR and kappa over the rows with a clear verdict, and how many had none."""
    pairs = collections.Counter((label, answer.verdict) for label, answer in zip(labels, answers))
    table = [[pairs[True, True], pairs[True, False]], [pairs[False, True], pairs[False, False]]]
    passes, fails = sum(table[0]), sum(table[1])
    kappa = None
    if passes and fails:
        from statsmodels.stats.inter_rater import cohens_kappa

        kappa = float(cohens_kappa(table, return_results=False))
    abstained = collections.Counter(answer.reason for answer in answers if answer.verdict is None)
    silent = abstained["no_verdict"] + abstained["refused"]
    return {
        "status": "measured" if passes and fails else NOT_MEASURED,
        "confusion": {"true_pass": table[0][0], "false_fail": table[0][1], "false_pass": table[1][0],
                      "true_fail": table[1][1]},
        "tpr": interval(table[0][0], passes, alpha),
        "tnr": interval(table[1][1], fails, alpha),
        "kappa": kappa,
        "abstained": {reason: abstained[reason] for reason in ("no_verdict", "refused", "unreachable")},
        "abstention": interval(silent, passes + fails + silent, alpha),
    }  # fmt: skip


def measure(examples: list[Example], answers: list[Answer], alpha=ALPHA) -> dict:
    """`rates` of the human labels, which count, and of the others, which do not."""
    labelled = [(one, answer) for one, answer in zip(examples, answers) if one.label is not None]
    human = [(one.label, answer) for one, answer in labelled if one.kind == "human"]
    other = [(one.label, answer) for one, answer in labelled if one.kind != "human"]
    times = [answer.time for one, answer in labelled if one.kind == "human" and answer.verdict is not None]
    return {
        "judged": len(labelled),
        **rates([label for label, _ in human], [answer for _, answer in human], alpha),
        "answers_since": min(times, default=None),
        "advisory": rates([label for label, _ in other], [answer for _, answer in other]) if other else None,
    }


def same_again(before: list[bool | None], after: list[bool | None], max_flip: float) -> dict:
    """How often a verdict changed, with its Wilson interval. Drift: even the interval's lower end is above `max_flip`.

    Example:
        >>> same_again([True] * 100, [True] * 80 + [False] * 20, max_flip=0.05)["status"]
        'drifted'
    """
    flips = interval(sum(a is not b for a, b in zip(before, after)), len(before))
    changes = collections.Counter(zip(before, after))
    status = "drifted" if flips["n"] and flips["low"] > max_flip else "stable"
    return {
        "status": status if flips["n"] >= ENOUGH else NOT_MEASURED,
        "flips": flips,
        "pass_to_fail": changes[True, False],
        "fail_to_pass": changes[False, True],
        "max_flip": max_flip,
    }


def biased(changed: list[bool], control: list[bool], alpha: float) -> dict:
    """Whether verdicts flip more often under a change than when the same question is merely put anew (a line break more
    at its end): an exact McNemar test on pairs, since a judge that wavers flips without any bias.

    Example:
        >>> biased([True] * 9 + [False] * 21, [False] * 30, alpha=0.05)["status"]
        'found'
    """
    from statsmodels.stats.contingency_tables import mcnemar

    changed_only = sum(c and not k for c, k in zip(changed, control))
    control_only = sum(k and not c for c, k in zip(changed, control))
    p_value = 1.0
    if changed_only + control_only:
        p_value = float(mcnemar([[0, changed_only], [control_only, 0]], exact=True).pvalue)
    status = "found" if p_value < alpha and changed_only > control_only else "no sign"
    return {
        "status": status if len(changed) >= ENOUGH else NOT_MEASURED,
        "flips": interval(sum(changed), len(changed)),
        "control_flips": interval(sum(control), len(control)),
        "p_value": p_value,
    }


def length_association(examples: list[Example], answers: list[Answer]) -> dict:
    """Spearman's correlation of the judge's pass with the response's length, among what people failed and what they
    passed apart, so that good answers being longer is no bias by itself."""
    found = {}
    for name, label in (("human_fail", False), ("human_pass", True)):
        rows = [(len(one.response), answer.verdict) for one, answer in zip(examples, answers)
                if one.label is label and answer.verdict is not None]  # fmt: skip
        lengths, verdicts = zip(*rows) if rows else ((), ())
        if len(rows) < ENOUGH or len(set(verdicts)) < 2 or len(set(lengths)) < 2:
            found[name] = {"status": NOT_MEASURED, "n": len(rows), "spearman": None, "p_value": None}
            continue
        from scipy.stats import spearmanr

        r, p_value = map(float, spearmanr(lengths, list(map(int, verdicts))))
        status = "associated" if p_value < ALPHA / 2 else "no sign"
        found[name] = {"status": status, "n": len(rows), "spearman": r, "p_value": p_value}
    return found


def corrected(tpr: tuple[int, int], tnr: tuple[int, int], groups: list[list[bool]], seed=0) -> dict:
    """Rogan and Gladen's estimate of the true pass rate, (observed + TNR - 1) / (TPR + TNR - 1), with an interval.

    The interval draws TPR and TNR from their Jeffreys posteriors: a bootstrap of counts without an error would believe
    in a judge that never errs. `groups` holds the verdicts prompt by prompt: completions of one prompt are alike, so
    prompts are resampled, unless each has one completion; then the observed rate is drawn like the other two.

    Args:
        tpr, tnr: (right, all) of the sealed test.
        groups: the judge's verdicts on unlabelled completions, one list per prompt.

    Returns:
        `dict`: status "estimated", or "not identifiable" when the judge may be no better than a coin.

    Example:
        >>> found = corrected((90, 100), (80, 100), [[True]] * 550 + [[False]] * 450)
        >>> round(found["value"], 3), found["low"] < 0.5 < found["high"], found["naive"]["value"]
        (0.5, True, 0.55)
    """
    import numpy
    from scipy.stats import beta

    generator = numpy.random.default_rng(seed)

    def draw(right, n):
        return beta.rvs(right + 0.5, n - right + 0.5, size=DRAWS, random_state=generator)

    verdicts = [verdict for group in groups for verdict in group]
    passed, n = sum(verdicts), len(verdicts)
    together = len(groups) < n
    if together:
        sums = numpy.array([[sum(group), len(group)] for group in groups])
        weights = generator.multinomial(len(groups), [1 / len(groups)] * len(groups), size=DRAWS)
        totals = weights @ sums
        observed = totals[:, 0] / totals[:, 1]
    else:
        observed = draw(passed, n)
    draws_tpr, draws_tnr = draw(*tpr), draw(*tnr)
    power = tpr[0] / tpr[1] + tnr[0] / tnr[1] - 1
    low_power = float(numpy.quantile(draws_tpr + draws_tnr - 1, ALPHA / 2))
    found = {"status": "not identifiable", "value": None, "low": None, "high": None, "clipped": None}
    if low_power > 0.05:  # judgement: below it one wrong label more moves the estimate across the whole scale
        raw = (passed / n + tnr[0] / tnr[1] - 1) / power
        with numpy.errstate(all="ignore"):
            draws = (observed + draws_tnr - 1) / (draws_tpr + draws_tnr - 1)
        low, high = numpy.clip(numpy.quantile(draws, [ALPHA / 2, 1 - ALPHA / 2]), 0, 1)
        found |= {"status": "estimated", "value": float(min(max(raw, 0.0), 1.0)), "low": float(low),
                  "high": float(high), "clipped": not 0 <= raw <= 1}  # fmt: skip
    how = "prompts resampled" if together else "Jeffreys draws of the observed rate"
    method = f"Rogan-Gladen; {DRAWS} Jeffreys draws of TPR and TNR, {how}; percentiles, clipped to [0, 1]"
    return {**found, "naive": interval(passed, n), "power": power, "power_low": low_power, "method": method,
            "prompts": len(groups)}  # fmt: skip


def verdict_of_record(record: dict) -> tuple[str, list[str]]:
    """`calibrated`, `not calibrated` or `not measured`, and why. Only human labels of the sealed test are looked at.

    Example:
        >>> verdict_of_record({"splits": {"test": {}}})
        ('not measured', ['the sealed test was not opened with this rubric and judge'])
    """
    sealed = record["splits"]["test"].get("measured")
    if not sealed:
        return NOT_MEASURED, ["the sealed test was not opened with this rubric and judge"]
    gate, missing, failed = sealed["gate"], [], []
    if lost := sealed["abstained"]["unreachable"]:
        missing.append(f"{lost} examples of the sealed test got no answer; open it again, what was answered is kept")
    for name, found in (("pass", sealed["tpr"]), ("fail", sealed["tnr"])):
        if found["n"] < gate["min_each"]:
            missing.append(
                f"{found['n']} answered human labels of {name} in the sealed test, {gate['min_each']} needed"
            )
    if revised := record["splits"]["test"].get("revised_since_opening"):
        missing.append(f"{revised} labels of the sealed test were revised since it was opened; open it again")
    for name in ("tpr", "tnr"):
        found, least = sealed[name], gate[f"min_{name}"]
        if found["n"] and found["low"] < least:
            failed.append(f"{name.upper()} is {found['value']:.3f}, at the low end {found['low']:.3f}, below {least:g}")
    silent = sealed["abstention"]
    if silent["n"] and silent["value"] > gate["max_abstain"]:
        failed.append(f"no verdict on {silent['value']:.1%} of the sealed test, above {gate['max_abstain']:.0%}")
    drift = record.get("drift") or {}
    if drift.get("status") == "drifted" and drift["time"] > (sealed["answers_since"] or ""):
        failed.append("the judge has drifted since; give run and open a new --cache file to measure it anew")
    if missing:
        return NOT_MEASURED, missing + failed
    return ("not calibrated", failed) if failed else ("calibrated", [])


# --- output -----------------------------------------------------------------------------------------------------------


def note(text: str) -> None:
    print(f"note: {safe(text)}", file=sys.stderr)


def say(text: str) -> None:
    print(safe(text))


def finish(args, command: str, code: int, answer: dict, lines: list[str]) -> int:
    if args.json:
        print(json.dumps({"schema_version": SCHEMA_VERSION, "command": command, "exit_code": code, **answer}, indent=1))
    else:
        for line in lines:
            say(line)
    return code


def shown(found: dict) -> str:
    if found["value"] is None:
        return NOT_MEASURED
    return f"{found['value']:.3f} [{found['low']:.3f}, {found['high']:.3f}] ({found['count']} of {found['n']})"


def lines_of(name: str, measured: dict) -> list[str]:
    cells, out = measured["confusion"], measured["abstained"]
    kappa = NOT_MEASURED if measured["kappa"] is None else f"{measured['kappa']:.3f}"
    lines = [
        f"{name:5} human pass: judge pass {cells['true_pass']}, fail {cells['false_fail']}; "
        f"human fail: judge pass {cells['false_pass']}, fail {cells['true_fail']}",
        f"      TPR {shown(measured['tpr'])}; TNR {shown(measured['tnr'])}; kappa {kappa}",
        f"      abstained: {', '.join(f'{count} {reason}' for reason, count in out.items())}",
    ]
    if other := measured.get("advisory"):
        lines.append(f"      advisory labels: TPR {shown(other['tpr'])}; TNR {shown(other['tnr'])}")
    return lines


def say_what_counts(examples: list[Example]) -> None:
    """Said each time: an agent's label must not pass for a person's, nor one prompt for many."""
    kinds = collections.Counter(one.kind for one in examples if one.label is not None)
    if others := {kind: count for kind, count in kinds.items() if kind != "human"}:
        held = ", ".join(f"{count} of kind {kind}" for kind, count in others.items())
        note(f"labels {held} are advisory: they count for no verdict")
    if not kinds["human"]:
        note("no human labels here: nothing that counts is measured")
    human = [one for one in examples if one.kind == "human"]
    if disputed := sum(one.label is None for one in human):
        note(f"{disputed} examples are unsure or disputed between people: they count for nothing until that is settled")
    prompts = len({_normal(one.prompt) for one in human})
    if 2 * prompts < len(human):
        note(f"{len(human)} human labels are of {prompts} prompts: alike answers make the intervals too narrow")


def refuse_quotes(config: Config, state: State) -> None:
    """A rubric that quotes an example knows its answer."""
    rubric = _normal(config.rubric)
    quoted = collections.Counter(
        one.split for one in state.examples if len(text := _normal(one.response)) >= 40 and text in rubric
    )
    if quoted["test"]:
        raise UserError("the rubric quotes an example of the sealed test; take examples from the train split only")
    if quoted["dev"]:
        note(f"the rubric quotes {quoted['dev']} examples of dev: its figures there are too good; quote train only")


# --- commands ---------------------------------------------------------------------------------------------------------


def command_split(args) -> int:
    rows = read_completions(args.files)
    for column, what in (
        ("prompt", "text or chat messages"),
        ("label", "pass, fail or unsure"),
        ("kind", "human, ..."),
    ):
        if not any(column in row for row in rows):
            have = ", ".join(sorted({key for row in rows for key in row} - {"_file"}))
            raise UserError(f"no column {column!r} ({what}); the columns are: {have}")
    _, labels = read_labels(rows, "label")
    state = State(args.record)
    shares = tuple(part / 100 for part in args.shares) if args.shares else getattr(state, "shares", SHARES)
    if state.head and shares != state.shares:
        raise UserError(f"--shares: the split is fixed since its first label, at {state.head['shares']}")
    new = []
    for number, (row, label) in enumerate(zip(rows, labels), start=1):
        is_unsure = str(row.get("label", "")).strip().lower() == "unsure"
        if label is None and not is_unsure:
            continue
        kind, labeller = KINDS.get(str(row.get("kind")).strip().lower()), row.get("labeller") or args.labeller
        if not kind:
            raise UserError(f"row {number} has a label of kind {row.get('kind')!r}; write human, agent or synthetic")
        if not labeller:
            raise UserError(f"row {number} has a label and no labeller; fill that column, or give --labeller NAME")
        prompt, response = pair_of(row, number)
        word = "unsure" if is_unsure else "pass" if label else "fail"
        new.append({"id": digest(prompt, response), "prompt": prompt, "response": response, "label": word,
                    "kind": kind, "labeller": str(labeller), "time": _now()})  # fmt: skip
    if not new:
        raise UserError("no row has a label: let people fill the column label with pass, fail or unsure")
    last = {(entry["id"], entry["kind"], entry["labeller"]): entry["label"] for entry in state.entries}
    fresh, revised = [], 0
    for entry in new:
        who = (entry["id"], entry["kind"], entry["labeller"])
        if last.get(who) != entry["label"]:
            revised += who in last
            fresh.append(entry)
            last[who] = entry["label"]
    if not state.head:
        try:
            state.ledger_path.open("xb").close()  # of two that begin at once, one goes on
        except FileExistsError:
            raise UserError(
                f"{state.ledger_path}: was begun by another split just now; run the command again"
            ) from None
        except OSError as error:
            raise UserError(f"{state.ledger_path}: cannot be written ({error.strerror})") from None
        head = {"ledger": "labels", "schema_version": 1, "salt": secrets.token_hex(8), "shares": list(shares)}
        fresh.insert(0, {**head, "time": _now()})
    if fresh:
        append(state.ledger_path, fresh)
    state = State(args.record)
    record = state.refresh()
    write_record(args.record, record)
    if revised:
        note(f"{revised} labels take the place of earlier ones; both stay in {state.ledger_path.name}")
    say_what_counts(state.examples)
    added = len(fresh) - ("ledger" in fresh[0]) if fresh else 0
    lines = [f"{added} labels added, {len(state.entries)} in {state.ledger_path}"]
    for name in SPLITS:
        held = [f"{kind} {c['pass']} pass, {c['fail']} fail, {c['undecided']} undecided"
                for kind, c in record["splits"][name]["kinds"].items() if any(c.values())]  # fmt: skip
        lines.append(f"{name:5} {record['splits'][name]['examples']} examples: {'; '.join(held) or 'none'}")
    answer = {"added": added, "revised": revised, "labels": record["labels"],
              "splits": {name: counts_of(state.of(name)) for name in SPLITS},
              "examples": [{"id": one.id, "split": one.split} for one in state.examples]}  # fmt: skip
    return finish(args, "split", 0, answer, lines)


def _started(args) -> tuple[State, Config]:
    state = State(args.record)
    if not state.examples:
        raise UserError(f"{state.ledger_path}: no labels yet; give them with `calibrate_judge.py split FILE`")
    config = configure(args, state.record)
    refuse_quotes(config, state)
    return state, config


def command_run(args) -> int:
    state, config = _started(args)
    examples = [one for one in state.of("train", "dev") if one.label is not None]
    say_what_counts(examples)
    answers = ask(args, config, pairs_of(examples), "train and dev")
    record, lines, rows = adopt(state, config), [], []
    for name in ("train", "dev"):
        mine = [(one, answer) for one, answer in zip(examples, answers) if one.split == name]
        measured = measure([one for one, _ in mine], [answer for _, answer in mine])
        record["splits"][name]["measured"] = measured
        lines += lines_of(name, measured)
    write_record(args.record, record)
    for one, answer in zip(examples, answers):
        rows.append({"id": one.id, "split": one.split, "kind": one.kind, "label": "pass" if one.label else "fail",
                     "judge": answer.reason, "prompt": one.prompt, "completion": one.response,
                     "reply": answer.reply})  # fmt: skip
    # Human labels first: where an agent and the judge differ, nobody has looked.
    wrong = [row for row in rows if row["judge"] != row["label"]]
    wrong.sort(key=lambda row: (row["kind"] != "human", row["judge"] not in ("pass", "fail"), row["id"]))
    lines.append(f"{len(wrong)} of {len(rows)} disagree with their label or have no verdict; read these first:")
    for row in wrong[: args.rows]:
        lines.append(f"  {row['id'][:8]} {row['split']} {row['kind']} {row['label']}, judge {row['judge']}")
        lines += [f"    {key}: {one_line(row[key], 150)}" for key in ("prompt", "completion", "reply")]
    dev = record["splits"]["dev"]["measured"]
    if dev["status"] == NOT_MEASURED:
        note("dev is not measured: it needs answered human labels of both classes, pass and fail")
    answer = {"verdict": record["verdict"], "reasons": record["reasons"], "rows": rows,
              "splits": {name: record["splits"][name]["measured"] for name in ("train", "dev")}}  # fmt: skip
    # What got no answer is not measured: `run && open` must not go on.
    lost = any(answer.reason == "unreachable" for answer in answers)
    return finish(args, "run", int(lost or dev["status"] == NOT_MEASURED), answer, lines)


def command_open(args) -> int:
    state, config = _started(args)
    examples = [one for one in state.of("test") if one.label is not None]
    say_what_counts(examples)
    record = adopt(state, config)
    human = record["splits"]["test"]["kinds"]["human"]
    if min(human["pass"], human["fail"]) < args.min_each:  # an opening that can decide nothing is not spent
        write_record(args.record, record)
        reason = f"the sealed test holds {human['pass']} human labels of pass and {human['fail']} of fail, and "
        reason += f"{args.min_each} of each are needed (--min-each): not opened, {NOT_MEASURED}"
        answer = {"verdict": NOT_MEASURED, "reasons": [reason], "openings": record["openings"], "sealed": None}
        return finish(args, "open", 1, answer, [reason])
    number = len(state.openings) + 1
    line = {
        "time": _now(), "number": number, "identity": config.identity, "rubric_sha256": config.rubric_sha256,
        "model": config.model, "revision": config.revision, "examples": len(examples),
        "cache": os.path.abspath(args.cache or args.record.parent / "judge_cache.jsonl"),
        "labels_sha256": labels_sha256(examples),
    }  # fmt: skip
    revised = record["splits"]["test"]["revised_since_opening"]
    append(state.openings_path, [line])  # before the judge is asked: a look that fails is a look
    state.openings.append(line)
    judges = len(state.judges_opened())
    note(
        f"sealed test opened {number} x, with {judges} {'draw' if judges == 1 else 'draws'} of rubric, judge and cache"
    )
    if judges > 1:
        note(f"it is no longer blind: intervals are widened to {1 - ALPHA / judges:.1%}; fresh labels would be better")
    if revised:
        note(f"{revised} labels of the sealed test were revised after it was last opened")
    record = state.refresh()
    write_record(args.record, record)
    measured = measure(examples, ask(args, config, pairs_of(examples), "sealed test"), ALPHA / judges)
    measured["gate"] = {
        "min_tpr": args.min_tpr, "min_tnr": args.min_tnr, "min_each": args.min_each, "max_abstain": args.max_abstain,
        "confidence": 1 - ALPHA / judges,
    }  # fmt: skip
    measured |= {"opening": number, "labels_sha256": line["labels_sha256"], "labels_revised": revised}
    record["splits"]["test"]["measured"] = measured
    record["measured"] = measured["answers_since"]
    write_record(args.record, record)
    lines = [*lines_of("test", measured), f"verdict: {record['verdict']}", *(f"  {why}" for why in record["reasons"])]
    answer = {key: record[key] for key in ("verdict", "reasons", "openings")} | {"sealed": measured}
    return finish(args, "open", int(record["verdict"] != "calibrated"), answer, lines)


def command_probe(args) -> int:
    state, config = _started(args)
    dev = sorted((one for one in state.of("dev") if one.kind == "human" and one.label is not None), key=lambda o: o.id)
    answers = ask(args, config, pairs_of(dev), "dev")
    pairs = list(zip(dev, answers))
    decided = [(one, answer) for one, answer in pairs if answer.verdict is not None][: args.size]
    failing = [(one, answer) for one, answer in pairs if one.label is False and answer.verdict is False][: args.size]

    def flipped(rows, change=lambda text: text, order="") -> list[bool | None]:
        """Whether each verdict became another; None where there was none."""
        asked = ask(args, config, [(one.prompt, change(one.response)) for one, _ in rows], order or "probe", order)
        return [None if new.verdict is None else new.verdict is not old.verdict for new, (_, old) in zip(asked, rows)]

    def held_against(rows, control, **how) -> dict:
        both = [(c, k) for c, k in zip(flipped(rows, **how), control) if None not in (c, k)]
        return biased([c for c, _ in both], [k for _, k in both], ALPHA / 3)  # three questions are asked of one judge

    def padded(text: str) -> str:
        return f"{text}\n\n{FILLER * max(4, -(-2 * len(text) // len(FILLER)))}".rstrip()

    again = [flipped(rows, change=lambda text: text + "\n") for rows in (decided, failing)]
    probes = {
        "position": {
            "fields_swapped": held_against(decided, again[0], order="fields"),
            "words_swapped": held_against(decided, again[0], order="words"),
        },
        "length": {
            "padded_failures": held_against(failing, again[1], change=padded),
            "association": length_association(dev, answers),
        },
        "time": _now(),
    }
    record = adopt(state, config)
    record["probes"] = probes
    arms = {**probes["position"], "padded_failures": probes["length"]["padded_failures"]}
    bad = [name for name, found in arms.items() if found["status"] == "found"]
    unmeasured = [name for name, found in arms.items() if found["status"] == NOT_MEASURED]
    record["warnings"] = [f"the probe {name} found a bias: what it rewards, a policy will learn" for name in bad]
    write_record(args.record, record)
    lines = [
        f"{name:16} {found['status']}: flipped {shown(found['flips'])}, control {shown(found['control_flips'])}, "
        f"McNemar p = {found['p_value']:.2g}"
        for name, found in arms.items()
    ]
    for name, found in probes["length"]["association"].items():
        of = "" if found["spearman"] is None else f", Spearman {found['spearman']:.2f}, p = {found['p_value']:.2g}"
        lines.append(f"length among {name} {found['status']}: n = {found['n']}{of}")
        if found["status"] == "associated":
            note(f"among {name} the judge's verdict goes with length; a sign, no proof: read those rows")
    if unmeasured:
        note(f"{', '.join(unmeasured)}: {NOT_MEASURED}, fewer than {ENOUGH} human labels in dev had a verdict to flip")
    for warning in record["warnings"]:
        note(warning)
    return finish(args, "probe", int(bool(bad or unmeasured)), {"probes": probes, "found": bad}, lines)


def command_recheck(args) -> int:
    state, config = _started(args)
    if state.record.get("identity") != config.identity:
        raise UserError(
            "recheck asks the judge of the record again; this rubric, model or sampling is another: `run` it"
        )
    pinned = sorted((one for one in state.of("train", "dev") if one.label is not None), key=lambda one: one.id)
    path = args.cache or args.record.parent / "judge_cache.jsonl"
    keeper = CachedJudge(Client(config.model, **config.sampling), config.revision, path)
    before = {}
    for one in pinned:  # only what was asked is pinned
        reply = keeper.known.get(keeper.key(config.rubric, one.prompt, one.response))
        if reply is not None and len(before) < args.size:
            before[one.prompt, one.response] = judge.verdict_of(reply.get("reply"))
    answers = ask(args, config, list(before), "recheck", cached=False)
    reached = [(old, new.verdict) for old, new in zip(before.values(), answers) if new.reason != "unreachable"]
    drift = same_again([old for old, _ in reached], [new for _, new in reached], args.max_flip) | {"time": _now()}
    record = adopt(state, config)
    if drift["status"] != NOT_MEASURED:  # an outage must not hide what was found before
        record["drift"] = drift
    # Vouched for anew, so its age begins anew; a few answers that merely fail to prove drift vouch for nothing.
    if drift["status"] == "stable" and drift["flips"]["value"] <= args.max_flip and record.get("measured"):
        record["measured"] = drift["time"]
    write_record(args.record, record)
    lines = [
        f"{drift['status']}: changed {shown(drift['flips'])}, pass to fail {drift['pass_to_fail']}, "
        f"fail to pass {drift['fail_to_pass']}; drift if the low end is above {args.max_flip:g}",
        f"verdict: {record['verdict']}",
    ]
    if drift["status"] == NOT_MEASURED:
        note(f"{NOT_MEASURED}: {len(reached)} pinned verdicts could be compared, {ENOUGH} are needed; `run` pins them")
    return finish(
        args, "recheck", int(drift["status"] != "stable"), {"drift": drift, "verdict": record["verdict"]}, lines
    )


def command_rate(args) -> int:
    rows = read_completions(args.files)
    state, config = _started(args)
    sealed = state.record.get("splits", {}).get("test", {}).get("measured")
    if not sealed or state.record.get("identity") != config.identity or sealed["status"] == NOT_MEASURED:
        reason = "TPR and TNR of this rubric and judge are not measured: `open` the sealed test first"
        note(reason)
        return finish(args, "rate", 1, {"status": NOT_MEASURED, "reasons": [reason], "rate": None}, [NOT_MEASURED])
    if state.record["verdict"] != "calibrated":
        note(f"the judge is {state.record['verdict']}: {'; '.join(state.record['reasons'])}")
    pairs = [pair_of(row, number) for number, row in enumerate(rows, start=1)]
    answers = ask(args, config, pairs, "rate")
    groups = {}
    for number, ((prompt, _), answer) in enumerate(zip(pairs, answers)):
        if answer.verdict is not None:
            groups.setdefault(_normal(prompt) or number, []).append(answer.verdict)
    silent = sum(answer.verdict is None for answer in answers)
    if silent:
        note(f"{silent} of {len(answers)} completions have no verdict and are left out")
    if not groups:
        return finish(args, "rate", 1, {"status": NOT_MEASURED, "reasons": ["no verdict at all"], "rate": None},
                      [NOT_MEASURED])  # fmt: skip
    counts = [(sealed[name]["count"], sealed[name]["n"]) for name in ("tpr", "tnr")]
    found = corrected(*counts, list(groups.values()))
    lines = [f"the judge passes {shown(found['naive'])}", f"corrected: {found['status']}"]
    if found["value"] is not None:
        lines[1] = f"corrected: {found['value']:.3f} [{found['low']:.3f}, {found['high']:.3f}] ({found['method']})"
        note("true if the judge errs on these completions as often as on the sealed test; other data, other rates")
    else:
        note(f"TPR + TNR - 1 is {found['power']:.2f}, at the low end {found['power_low']:.2f}: too near to a coin's 0")
    answer = {"status": found["status"], "reasons": [], "rate": found, "abstained": silent}
    return finish(args, "rate", int(found["status"] != "estimated"), answer, lines)


# --- command line -----------------------------------------------------------------------------------------------------


def _number(kind, least, most=float("inf")):
    def read(text: str):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            span = f"{least} or more" if most == float("inf") else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"{text!r} must be a number, {span}")
        return value

    return read


def _shares(text: str) -> list[int]:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) for part in parts) or sum(map(int, parts)) != 100:
        raise argparse.ArgumentTypeError(f"{text!r} must be three whole per cents that make 100, such as 20,40,40")
    return [int(part) for part in parts]


def _temperature(text: str):
    return "none" if text == "none" else _number(float, 0)(text)


def build_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="calibrate_judge.py", description=__doc__, epilog=EPILOG, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", required=True)
    everywhere = argparse.ArgumentParser(add_help=False)
    everywhere.add_argument(
        "--record", type=Path, default=Path("calibration.json"), metavar="FILE",
        help="the record; ledger, openings and cache lie beside it (default calibration.json)",
    )  # fmt: skip
    everywhere.add_argument("--json", action="store_true", help="print one JSON object with stable keys")
    asking = argparse.ArgumentParser(add_help=False)
    group = asking.add_argument_group("the judge (what is left out is taken from the record)")
    group.add_argument("--rubric", type=Path, required=True, metavar="FILE", help="text file with one criterion")
    group.add_argument("--model", metavar="SNAPSHOT", help="a dated or hashed snapshot; an alias is refused")
    group.add_argument("--model-revision", metavar="HEX", help="commit or hash of weights that you serve yourself")
    group.add_argument("--base-url", metavar="URL", help="endpoint with OpenAI's chat completions (default OpenAI's)")
    group.add_argument("--judge-family", metavar="NAME", help="model family of the judge, as you declare it")
    group.add_argument("--policy-family", metavar="NAME", help="model family of the policy; must be another")
    group.add_argument("--temperature", type=_temperature, metavar="X", help="default 0; none leaves it out")
    group.add_argument("--max-tokens", type=_number(int, 1), metavar="N", help="longest reply (default: the server's)")
    group.add_argument("--concurrency", type=_number(int, 1, 1024), default=8, metavar="N", help="calls at a time (8)")
    group.add_argument("--attempts", type=_number(int, 1), default=4, metavar="N", help="tries per question (4)")
    group.add_argument("--timeout", type=_number(float, 0.1), default=60.0, metavar="S", help="seconds per call (60)")
    group.add_argument("--api-key-env", default="OPENAI_API_KEY", metavar="NAME", help="variable that holds the key")
    group.add_argument("--cache", type=Path, metavar="FILE", help="replies (default judge_cache.jsonl by the record)")

    def add(name, run, what, parents=(everywhere, asking)):
        command = commands.add_parser(
            name, help=what, description=what[0].upper() + what[1:] + ".", parents=list(parents), formatter_class=raw,
            epilog="exit codes: 0 = ok, 1 = the gate says no, or not measured, 2 = bad usage or input",
        )  # fmt: skip
        command.set_defaults(run=run)
        return command

    command = add("split", command_split, "take labels in and say which example is in which split", (everywhere,))
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="labelled rows, .jsonl or .parquet")
    command.add_argument("--labeller", metavar="NAME", help="who labelled the rows that do not say")
    command.add_argument(
        "--shares", type=_shares, metavar="A,B,C", help="per cent of train, dev, test (20,40,40); once"
    )
    command = add("run", command_run, "ask the judge about train and dev: error rates, and disagreements to read")
    command.add_argument("--rows", type=_number(int, 0), default=10, metavar="N", help="disagreements shown (10)")
    command = add("open", command_open, "open the sealed test: recorded, counted, and the only way to a verdict")
    command.add_argument("--min-tpr", type=_number(float, 0.5, 1), default=0.8, metavar="X",
                         help="least lower end of TPR's Wilson interval (0.8, judgement)")  # fmt: skip
    command.add_argument(
        "--min-tnr", type=_number(float, 0.5, 1), default=0.8, metavar="X", help="the same of TNR (0.8)"
    )
    command.add_argument("--min-each", type=_number(int, 1), default=30, metavar="N",
                         help="human labels of pass, and of fail, that are needed (30, judgement)")  # fmt: skip
    command.add_argument("--max-abstain", type=_number(float, 0, 1), default=0.1, metavar="X",
                         help="largest share without verdict (0.1, judgement)")  # fmt: skip
    command = add("probe", command_probe, "look for position and length bias, on dev; each arm against a control")
    command.add_argument("--size", type=_number(int, ENOUGH), default=60, metavar="N", help="examples per arm (60)")
    command = add("recheck", command_recheck, "ask the same judge again what it was asked: has it drifted?")
    command.add_argument("--size", type=_number(int, ENOUGH), default=100, metavar="N", help="examples asked (100)")
    command.add_argument("--max-flip", type=_number(float, 0, 0.2), default=0.05, metavar="X",
                         help="share of changed verdicts that is still stable (0.05, judgement)")  # fmt: skip
    command = add("rate", command_rate, "pass rate of unlabelled completions, corrected for the judge's errors")
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="rows with prompt, completion")
    return parser


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"error: {one_line(str(error), 600)}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"error: {error.name} is not installed: pip install {error.name}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"error: the output cannot be written ({error.strerror})", file=sys.stderr)
        return 2
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        # Inputs were looked at; what is left is a damaged file of this folder. One line, and no traceback.
        what = one_line(f"{type(error).__name__}: {error}", 200)
        print(f"error: {args.record.parent}: a file of this folder cannot be worked with ({what})", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the judge's answers so far are in the cache", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
