"""The documents agree with the code; and documents that do not are rejected."""

import shutil
import subprocess
import sys
import warnings
from datetime import timedelta

import docsync
import pytest
from docsync import ROOT, SKILL
from reward_cases import CASES, run_case

LIBRARY = "references/reward-library.md"
SCRIPT = "scripts/rewards.py"
SKILL_MD = f"{SKILL}/SKILL.md"
TRAINER_TESTS = "tests/trainer/test_trainer.py"
RULES = [name.removeprefix("check_") for name in dir(docsync) if name.startswith("check_")]


def findings_of(root, *rules):
    return [finding for rule in rules or RULES for finding in getattr(docsync, f"check_{rule}")(root)]


def assert_clean(findings, strict=True):
    for finding in findings:
        if finding.warning and not strict:
            warnings.warn(str(finding), stacklevel=1)
    errors = [str(finding) for finding in findings if strict or not finding.warning]
    assert not errors, "\n\n" + "\n\n".join(errors)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "stamps"])
def test_repository(rule, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples leave no files behind
    assert_clean(findings_of(ROOT, rule))


@pytest.mark.stamp
def test_stamps(request):
    assert_clean(findings_of(ROOT, "stamps"), request.config.option.strict_stamps)


@pytest.fixture(scope="module")
def library():
    return docsync.assemble(ROOT, LIBRARY)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_shown_code_passes_the_rewards_cases(library, case):
    run_case(library, case)


# ---- a small repository that is clean

STAMP = "Last verified: 2000-01-01\nVerified against: trl 1, transformers 1\n<!-- body-sha256: 000000000000 -->\n"

GOOD = {
    "README.md": "# Read me\n\n[Skill](skills/grpo-training/SKILL.md), `make check`\n",
    "AGENTS.md": "# Agents\n",
    "CHANGELOG.md": "# Changes\n",
    "Makefile": "SHELL := bash\ncheck: ## check: all\n\tpytest\n",
    "plugin.json": "{}\n",
    SCRIPT: '''"""Rewards."""
import argparse
import re

__all__ = ["exact_reward", "Length", "lint"]
# Digits only.
_NUMBER: re.Pattern = re.compile(r"\\d+")
def exact_reward(completions, answer):
    """One for the right number."""
    return [float(_NUMBER.findall(text)[-1:] == [want]) for text, want in zip(completions, answer)]
    # the last number counts
class Length:
    def __call__(self, completions):
        return [float(len(text)) for text in completions]
def lint():
    print("| reward | range |\\n|---|---|")
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_subparsers().add_parser("lint").add_argument("--json", action="store_true")
    parser.parse_args()
    lint()
''',
    LIBRARY: STAMP
    + '''
# Rewards
See [memory](memory-sizing.md#how-much-memory-1), [the script](../scripts/rewards.py) and [itself](#rewards).
Template `qwen3_5` has tools. [DeepSeekMath](https://arxiv.org/abs/2402.03300) defined GRPO (retrieved 2026-01-02).

1. The number:
   ```python
   import re
   # Digits only.
   _NUMBER: re.Pattern = re.compile(r"\\d+")
   def exact_reward(completions, answer):
       """One for the right number."""
       return [float(_NUMBER.findall(text)[-1:] == [want]) for text, want in zip(completions, answer)]
       # the last number counts
   ```
> ```python
> class Length:
>     def __call__(self, completions):
>         return [float(len(text)) for text in completions]
> ```
```python example
assert exact_reward(["1 or 2"], ["2"]) == [1.0]
```
```python fragment
# fragment: the trainer needs a model
GRPOTrainer(reward_funcs=[exact_reward])
```
<!-- generated: python scripts/rewards.py lint -->

| reward | range |
|---|---|

<!-- /generated -->
The end.
''',
    "references/memory-sizing.md": f"{STAMP}# How much memory?\n\n## How much `memory`?\n",
    SKILL_MD: """---
name: grpo-training
description: Trains with GRPO.
---
Read [the rewards](references/reward-library.md). Works in Claude Code and llama.cpp.
```bash
VERBOSE=1 uv run scripts/rewards.py lint \\
  --json > out.json && make check  # then read it
```
""",
}


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


@pytest.fixture
def repository(tmp_path):
    for path, text in GOOD.items():
        write(tmp_path, path, text)
    docsync.stamp(tmp_path)
    return tmp_path


def test_good_repository_is_clean(repository):
    assert_clean(findings_of(repository))


# ---- one broken rule at a time: (rule, file, text, its replacement, what the only finding says)
# No text: the replacement becomes the file. No replacement: the file is deleted.

TODAY, OLD, TOMORROW = ((docsync.today() + timedelta(days=days)).isoformat() for days in (0, -181, 1))
FENCES = GOOD[LIBRARY][GOOD[LIBRARY].index("1. The") : GOOD[LIBRARY].index("```python example")]
LENGTH = FENCES[FENCES.index("> class") : FENCES.rindex("> ```")]

BAD = {
    "comment drift": ("synced", LIBRARY, "# the last", "# the first", f"`exact_reward` differs from {SCRIPT}:8"),
    "comment above drift": ("synced", LIBRARY, "   # Digits only.\n", "", "`_NUMBER` differs"),
    "decorator drift": ("synced", LIBRARY, "> class", "> @total\n> class", "-@total"),
    "script closes fence": ("synced", SCRIPT, "the right number.", "it\n    ```\n    ", "by hand: a line closes"),
    "renamed in script": ("synced", SCRIPT, "_NUMBER: ", "_DIGITS: ", "`_NUMBER` is not at the top level"),
    "unshown reward": ("synced", LIBRARY, LENGTH, "> import re\n", f"no synced fence shows `Length` of {SCRIPT}"),
    "fence without match": ("synced", LIBRARY, "The end.", "```python\nx = 1\n```", "`x` is not at the top level"),
    "no __all__": ("synced", SCRIPT, "__all__", "ALL", "`__all__` names no reward"),
    "zero fences": ("synced", LIBRARY, FENCES, "", "no synced fence shows `exact_reward`, `Length`"),
    "synced and does not parse": ("synced", LIBRARY, "class Length:", "class Length", "no synced fence shows `Length`"),
    "zero nodes": ("fences", LIBRARY, "The end.", "```python\n# x\n```", "synced fence holds no code"),
    "unknown info string": ("fences", LIBRARY, "```python example", "```python3", "unknown info string `python3`"),
    "fragment does not parse": ("fences", LIBRARY, "GRPOTrainer(", "GRPOTrainer((", "does not parse"),
    "fragment without why": ("fences", LIBRARY, "# fragment: the", "# the", "fragment does not say why"),
    "example without assert": ("fences", LIBRARY, "assert exact", "exact", "example asserts nothing"),
    "synced elsewhere": ("fences", "README.md", "# R", "```python\nx\n```\n# R", "README.md:1: synced fence in"),
    "failing example": ("assembled", LIBRARY, "== [1.0]", "== [2.0]", "example fails: AssertionError"),
    "helper after its use": ("assembled", LIBRARY, "   import re\n", "", "do not run alone: NameError: name 're'"),
    "helper not shown": ("assembled", LIBRARY, "   _NUMBER:", "   _DIGITS:", "uses `_NUMBER`, which no synced"),
    "unclosed generated block": ("generated", LIBRARY, "<!-- /generated -->", "", "not opened and closed"),
    "generated by a shell": ("generated", LIBRARY, f"python {SCRIPT} lint", "sh x", "not opened and closed"),
    "generated drift": ("generated", LIBRARY, "| range |", "| ranges |", "block differs from its command"),
    "generated nothing": ("generated", SCRIPT, "    lint()\n", "", "printed nothing"),
    "generating fails": ("generated", SCRIPT, "    lint()\n", "    1 / 0\n", "ZeroDivisionError"),
    "mirror extra": ("mirror", f"{SKILL}/scripts/old.py", None, "", "extra: not a byte copy of scripts/old.py"),
    "mirror missing": ("mirror", f"{SKILL}/{LIBRARY}", None, None, f"missing: not a byte copy of {LIBRARY}"),
    "mirror different": ("mirror", f"{SKILL}/{LIBRARY}", "The end.", "End.", "+The end."),
    "manifest different": ("mirror", docsync.MANIFEST[1], "{}", "{ }", "not a byte copy of plugin.json"),
    "script names SKILL.md": ("links", SCRIPT, "Rewards.", "../SKILL.md", f"{SCRIPT}:1: names ../SKILL.md"),
    "link out of the mirror": ("links", LIBRARY, "../scripts/rewards.py", "../README.md", f"no such file in {SKILL}"),
    "link out of the skill": ("links", SKILL_MD, "(references", "(../../references", f"leaves {SKILL}"),
    "link to a missing anchor": ("links", "README.md", "SKILL.md)", "SKILL.md#grpo-1)", "no such heading in"),
    "model in prose": ("names", LIBRARY, "The end.", "Use\nqwen3-4B.", ":38: names the base model `qwen`"),
    "model in a description": ("names", SKILL_MD, "with GRPO", "Llama", "SKILL.md:3: names the base model"),
    "model in code": ("names", LIBRARY, "`qwen3_5`", "`Qwen/Qwen3-8B`", "names the base model `Qwen`"),
    "unknown script": ("shell", "AGENTS.md", "Agents", "`python scripts/x.py`", "`scripts/x.py` is missing"),
    "unknown flag": ("shell", SKILL_MD, "--json", "--yaml", f"SKILL.md:7: `{SCRIPT}` has no flag `--yaml`"),
    "flag of no subcommand": ("shell", SKILL_MD, "lint ", "", "has no flag `--json`"),
    "unknown subcommand": ("shell", "AGENTS.md", "Agents", f"`python {SCRIPT} lnt`", "has no subcommand `lnt`"),
    "unknown make target": ("shell", SKILL_MD, "make check", "make chekc", "no such target"),
    "unclosed quote": ("shell", SKILL_MD, "> out.json", "> 'out.json", "cannot be read: No closing quotation"),
    "bad line 1": ("stamps", LIBRARY, TODAY, "today", "line 1 is not"),
    "bad date": ("stamps", LIBRARY, TODAY, "2026-02-30", "bad stamp: day"),
    "future stamp": ("stamps", LIBRARY, TODAY, TOMORROW, "in the future"),
    "bad versions": ("stamps", LIBRARY, "against: trl ", "against: trl==", "line 2 is not"),
    "other versions": ("stamps", LIBRARY, "against: trl ", "against: trl 0.", "; here it is"),
    "no hash": ("stamps", LIBRARY, "body-sha256", "sha256", "line 3 is not"),
    "changed body": ("stamps", LIBRARY, "The end.", "The End.", "body changed"),
}


def spoil(repository, path, old, new):
    if new is None:
        (repository / path).unlink()
    elif old is None:
        write(repository, path, new)
    else:
        text = (repository / path).read_text(encoding="utf-8")
        assert old in text
        write(repository, path, text.replace(old, new))


@pytest.mark.parametrize(("rule", "path", "old", "new", "what"), BAD.values(), ids=BAD)
def test_bad_repository_is_rejected(repository, rule, path, old, new, what):
    spoil(repository, path, old, new)
    findings = findings_of(repository, rule)
    assert len(findings) == 1 and what in str(findings[0]), list(map(str, findings))
    assert "\nFix: " in str(findings[0]) and findings[0].warning == ("here it is" in what or "days ago" in what)


def test_zero_files_are_rejected(repository):
    shutil.rmtree(repository / "scripts")
    assert "scripts:1: no file to mirror" in str(findings_of(repository, "mirror")[0])


def test_an_old_stamp_warns_and_fails_only_when_strict(repository):
    spoil(repository, LIBRARY, TODAY, OLD)
    findings = findings_of(repository, "stamps")
    with pytest.warns(UserWarning, match="181 days ago"):
        assert_clean(findings, strict=False)
    with pytest.raises(AssertionError, match="181 days ago"):
        assert_clean(findings, strict=True)


# ---- --fix and --stamp

FIXED = {name for name in BAD if "drift" in name or name.startswith(("mirror", "manifest"))}


def snapshot(repository):
    """All files but the copies."""
    paths = [path for path in repository.rglob("*.*") if path.is_file() and path.suffix != ".pyc"]
    copies = tuple(str(repository / SKILL / top) for top in docsync.MIRRORED)
    return {str(path): path.read_bytes() for path in paths if not str(path).startswith(copies)}


@pytest.mark.parametrize("name", [name for name in BAD if BAD[name][0] in ("synced", "generated", "mirror")])
def test_fix_restores_what_it_can_and_leaves_the_rest(repository, name):
    good = snapshot(repository)
    spoil(repository, *BAD[name][1:4])
    want = good if name in FIXED else snapshot(repository)
    docsync.fix(repository)
    assert snapshot(repository) == want
    assert docsync.fix(repository) == [] and bool(findings_of(repository, BAD[name][0])) == (name not in FIXED)


def test_symbolic_links_are_rejected_and_nothing_is_removed_through_them(repository):
    shutil.rmtree(repository / SKILL / "scripts")
    (repository / SKILL / "scripts").symlink_to(repository / "scripts", target_is_directory=True)
    findings = findings_of(repository, "mirror")
    assert [str(finding).split(":")[0] for finding in findings] == [f"{SKILL}/{SCRIPT}"]
    assert docsync.fix(repository) == [] and (repository / SCRIPT).is_file()


@pytest.fixture
def session(repository):
    """Run pytest with our options in the small repository; give its exit status and output."""
    for name in ("conftest.py", "docsync.py", "pages.py"):
        write(repository, f"tests/{name}", (ROOT / "tests" / name).read_text(encoding="utf-8"))
    stamp_test = "@pytest.mark.stamp\ndef test_stamps():\n    assert not list(docsync.check_stamps(docsync.ROOT))\n"
    write(repository, "tests/test_docsync.py", f"import docsync, pytest\n{stamp_test}")
    write(repository, TRAINER_TESTS, "def test_it(): pass\n")

    def run(*options):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        result = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=60)
        return result.returncode, result.stdout + result.stderr

    return run


def test_fix_takes_the_scripts_text_keeps_the_prose_and_exits_with_1_once(repository, session):
    before = (repository / LIBRARY).read_text(encoding="utf-8")
    spoil(repository, SCRIPT, "class Length:\n", "# Long is good.\nclass Length:\n    unit = 1\n\n")
    status, output = session("--fix", "-m", "not stamp")
    assert status == 1 and f"fixed {LIBRARY}:20 `Length` differs from {SCRIPT}:12" in output, output
    after = before.replace("> class Length:\n", "> # Long is good.\n> class Length:\n>     unit = 1\n>\n")
    assert (repository / LIBRARY).read_text(encoding="utf-8") == after
    assert session("--fix", "-m", "not stamp")[0] == 0


def test_stamp_renews_a_changed_body_and_lists_claims(repository, session):
    spoil(repository, LIBRARY, "The end.", "The End.")
    assert session()[0] == 1
    status, output = session("--stamp")
    assert status == 0 and f"stamped {LIBRARY}: {TODAY}, trl " in output, output
    assert f"does not vouch for: 1\n{LIBRARY}:7: Template" in output
    assert session()[0] == 0
    assert_clean(findings_of(repository))


@pytest.mark.parametrize(
    ("path", "text", "options", "why"),
    [
        (TRAINER_TESTS, "", ["tests/test_docsync.py"], f"{TRAINER_TESTS} was not collected"),
        (TRAINER_TESTS, "def test_slow(): pass", ["-k", "not slow"], "test_slow was deselected"),
        (TRAINER_TESTS, "import pytest\ndef test_it(): pytest.skip()", [], f"{TRAINER_TESTS}::test_it did not pass"),
        (TRAINER_TESTS, "def test_it(): assert 0", [], f"{TRAINER_TESTS}::test_it did not pass"),
        (TRAINER_TESTS, "import pytest\npytest.importorskip('nothing')", [], "was not collected: skipped"),
        (LIBRARY, STAMP.replace("trl", "no-such-thing"), [], "no-such-thing not installed"),
    ],
)
def test_stamp_is_refused(repository, session, path, text, options, why):
    spoil(repository, LIBRARY, "The end.", "The End.")
    write(repository, path, text)
    before = (repository / LIBRARY).read_text(encoding="utf-8")
    status, output = session("--stamp", *options)
    assert status != 0 and "not stamped" in output and why in output, output
    assert (repository / LIBRARY).read_text(encoding="utf-8") == before
