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
REWARD_TESTS = "tests/test_rewards.py"


def assert_clean(findings):
    assert not findings, "\n\n" + "\n\n".join(map(str, findings))


# ---- this repository


@pytest.mark.parametrize("rule", [rule for rule in docsync.RULES if rule is not docsync.check_stamps])
def test_repository(rule, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples leave no files behind
    assert_clean(rule(ROOT))


def assert_stamped(findings, strict):
    for finding in findings:
        if finding.warning and not strict:
            warnings.warn(docsync.StampWarning(str(finding)), stacklevel=1)
    assert_clean([finding for finding in findings if strict or not finding.warning])


@pytest.mark.stamp
@pytest.mark.parametrize("path", docsync.reference_paths(ROOT))
def test_stamp(path, request):
    findings = [finding for finding in docsync.check_stamps(ROOT) if finding.path == path]
    assert_stamped(findings, request.config.option.strict_stamps)


@pytest.fixture(scope="module")
def library():
    return docsync.assemble(LIBRARY)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_shown_code_passes_the_rewards_cases(library, case):
    run_case(library, case)


# ---- a small repository that is clean

REWARDS = '''"""Rewards."""
import argparse
import re

__all__ = ["exact_reward", "Length", "lint"]

# Digits only.
_NUMBER = re.compile(r"\\d+")


def exact_reward(completions, answer):
    """One for the right number."""
    # the last number counts
    return [float(_NUMBER.findall(text)[-1:] == [want]) for text, want in zip(completions, answer)]


class Length:
    def __call__(self, completions):
        return [float(len(text)) for text in completions]


def lint():
    print("| reward | range |\\n|---|---|\\n| exact | 0..1 |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("lint").add_argument("--json", action="store_true")
    parser.parse_args()
    lint()
'''

LIBRARY_TEXT = '''
# Rewards

See [memory](memory-sizing.md#how-much-memory-1), [the script](../scripts/rewards.py) and [itself](#rewards).
Template `qwen3_5` has tools. [DeepSeekMath](https://arxiv.org/abs/2402.03300) defined GRPO (retrieved 2026-01-02).

1. The number:

   ```python
   import re

   # Digits only.
   _NUMBER = re.compile(r"\\d+")

   def exact_reward(completions, answer):
       """One for the right number."""
       # the last number counts
       return [float(_NUMBER.findall(text)[-1:] == [want]) for text, want in zip(completions, answer)]
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
| exact | 0..1 |

<!-- /generated -->

The end.
'''

SKILL_TEXT = """---
name: grpo-training
description: Trains with GRPO.
---

# GRPO

Read [the rewards](references/reward-library.md). Works in Claude Code and llama.cpp.

```bash
VERBOSE=1 uv run scripts/rewards.py lint \\
  --json > out.json && make check  # then read it
```
"""

GOOD = {
    "README.md": "# Read me\n\n[Skill](skills/grpo-training/SKILL.md), `make check`\n",
    "AGENTS.md": "# Agents\n",
    "CHANGELOG.md": "# Changes\n",
    "Makefile": "SHELL := bash\ncheck: ## check: all\n\tpytest\n",
    "plugin.json": "{}\n",
    "scripts/rewards.py": REWARDS,
    "references/reward-library.md": LIBRARY_TEXT,
    "references/memory-sizing.md": "# How much memory?\n\n## How much `memory`?\n",
    "skills/grpo-training/SKILL.md": SKILL_TEXT,
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
    assert_clean([finding for rule in docsync.RULES for finding in rule(repository)])


# ---- one broken rule at a time: (rule, file, text, its replacement, what the only finding says)
# No text: the replacement becomes the file. No replacement: the file or folder is deleted.

OLD = (docsync.today() - timedelta(days=181)).isoformat()
TOMORROW = (docsync.today() + timedelta(days=1)).isoformat()
TODAY = docsync.today().isoformat()
FENCES = LIBRARY_TEXT[LIBRARY_TEXT.index("1. The") : LIBRARY_TEXT.index("```python example")]
LENGTH = FENCES[FENCES.index("> class") : FENCES.rindex("> ```")]
DAY_1 = f"Last verified: {TODAY}"

BAD = {
    "missing document": ("documents", "AGENTS.md", None, None, "AGENTS.md:1: file is missing"),
    "comment drift": (
        "synced",
        LIBRARY,
        "# the last",
        "# the first",
        "`exact_reward` differs from scripts/rewards.py:11",
    ),
    "comment above drift": ("synced", LIBRARY, "   # Digits only.\n", "", "`_NUMBER` differs"),
    "loose comment": ("synced", LIBRARY, "   import re\n", "   # fast\n\n   import re\n", "comment `# fast` is not in"),
    "renamed in script": ("synced", SCRIPT, "_NUMBER = ", "_DIGITS = ", "`_NUMBER` is not at the top level"),
    "unshown reward": ("synced", SCRIPT, '"Length", ', '"Length", "argparse", ', "`__all__` names `argparse`"),
    "missing reward": ("synced", LIBRARY, LENGTH, "> import re\n", "public `Length` of scripts/rewards.py"),
    "fence without match": ("synced", LIBRARY, "The end.", "```python\nx = 1\n```", "`x` is not at the top level"),
    "no __all__": ("synced", SCRIPT, "__all__", "ALL", "`__all__` names no reward"),
    "zero fences": ("synced", LIBRARY, FENCES, "", "no synced fence"),
    "script does not parse": ("synced", SCRIPT, "import re", "import", "scripts/rewards.py:3: does not parse"),
    "unknown info string": ("fences", LIBRARY, "```python example", "```python3", "unknown info string `python3`"),
    "braces info string": ("fences", LIBRARY, "```python example", "```{.python}", "unknown info string"),
    "fragment does not parse": ("fences", LIBRARY, "GRPOTrainer(", "GRPOTrainer((", "fence does not parse"),
    "fragment without why": ("fences", LIBRARY, "# fragment: the", "# the", "fragment does not say why"),
    "example without assert": ("fences", LIBRARY, "assert exact", "exact", "example asserts nothing"),
    "synced fence elsewhere": (
        "fences",
        "README.md",
        "# Read",
        "```python\nx = 1\n```\n# Read",
        "README.md:1: synced fence",
    ),
    "unclosed fence": ("fences", LIBRARY, "The end.", "```text\nThe end.", "never closed"),
    "fence in HTML": ("fences", LIBRARY, "The end.", "<b>\n```python\n1\n```\n</b>", "a fence in this HTML block"),
    "failing example": ("assembled", LIBRARY, "== [1.0]", "== [2.0]", "example fails: AssertionError"),
    "helper after its use": ("assembled", LIBRARY, "   import re\n", "", "do not run alone: NameError: name 're'"),
    "helper not shown": ("assembled", LIBRARY, "   _NUMBER =", "   _DIGITS =", "uses `_NUMBER`, which no synced"),
    "unclosed generated block": ("generated", LIBRARY, "<!-- /generated -->", "", "never closed"),
    "nested generated block": ("generated", LIBRARY, "| reward", "<!-- generated: x -->\n|", "block inside another"),
    "unopened generated block": ("generated", "AGENTS.md", "# Agents", "<!-- /generated -->", "was not opened"),
    "generated in a line": ("generated", "AGENTS.md", "Agents", "A <!-- generated: x -->", "not alone on its line"),
    "generated drift": ("generated", LIBRARY, "| 0..1 |", "| 0..2 |", "block differs from its command"),
    "generated by a shell": ("generated", LIBRARY, f"python {SCRIPT} lint", "sh x", "`sh x` is refused"),
    "generated nothing": ("generated", SCRIPT, "    lint()\n", "", "printed nothing"),
    "generating fails": ("generated", SCRIPT, "    lint()\n", "    1 / 0\n", "failed: Traceback"),
    "mirror extra": ("mirror", f"{SKILL}/scripts/old.py", None, "", "extra: not a byte copy of scripts/old.py"),
    "mirror missing": ("mirror", f"{SKILL}/{LIBRARY}", None, None, f"missing: not a byte copy of {LIBRARY}"),
    "mirror different": ("mirror", f"{SKILL}/{LIBRARY}", "The end.", "End.", "+The end."),
    "mirror of zero files": ("mirror", "scripts/", None, None, "no file to mirror"),
    "manifest different": ("mirror", docsync.MANIFEST[1], "{}", "{ }", "not a byte copy of plugin.json"),
    "link to ../SKILL.md": ("links", LIBRARY, "../scripts/rewards.py", "../SKILL.md", "no such file in the repository"),
    "script names SKILL.md": ("links", SCRIPT, "# Digits", "# ../SKILL.md", "scripts/rewards.py:7: mirrored script"),
    "link out of the mirror": ("links", LIBRARY, "../scripts/rewards.py", "../README.md", f"no such file in {SKILL}"),
    "link out of the skill": ("links", SKILL_MD, "(references", "(../../references", "leaves the folder"),
    "link to a missing file": ("links", "README.md", "SKILL.md)", "SKILLS.md)", "README.md:3: link `skills/grpo"),
    "link to a missing anchor": ("links", LIBRARY, "memory-1", "memory-2", "no such heading"),
    "link without a host": ("links", LIBRARY, "https://arxiv.org", "https://arxiv", "no valid host"),
    "absolute link": ("links", LIBRARY, "(#rewards)", "(/references)", "neither relative nor http(s)"),
    "model in prose": ("names", LIBRARY, "The end.", "Use\nqwen3-4B.", ":48: names the base model `qwen`"),
    "model in a description": ("names", SKILL_MD, "with GRPO", "Llama", "SKILL.md:3: names the base model"),
    "model in code": ("names", LIBRARY, "`qwen3_5`", "`Qwen/Qwen3-8B`", "names the base model `Qwen`"),
    "paper without its link": ("names", LIBRARY, "The end.", "DeepSeekMath.", "names the base model `DeepSeekMath`"),
    "unknown script": ("shell", "AGENTS.md", "Agents", "`python scripts/x.py`", "`scripts/x.py` does not exist"),
    "unknown flag": ("shell", SKILL_MD, "--json", "--yaml", "SKILL.md:11: `scripts/rewards.py` has no flag"),
    "flag of no subcommand": ("shell", SKILL_MD, "lint ", "", "has no flag `--json`"),
    "unknown subcommand": ("shell", "AGENTS.md", "Agents", f"`python {SCRIPT} lnt`", "has no subcommand `lnt`"),
    "unknown make target": ("shell", SKILL_MD, "make check", "make chekc", "no such target"),
    "console line": ("shell", "AGENTS.md", "# A", "```console\n$ make x\nmake y\n```\n", "AGENTS.md:2: `make x`"),
    "bad stamp": ("stamps", LIBRARY, DAY_1, "Last verified: 2026-2-30", "line 1 is not"),
    "future stamp": ("stamps", LIBRARY, DAY_1, f"Last verified: {TOMORROW}", "in the future"),
    "old stamp": ("stamps", LIBRARY, DAY_1, f"Last verified: {OLD}", "verified 181 days ago"),
    "bad versions": ("stamps", LIBRARY, "against: trl ", "against: trl==", "line 2 is not"),
    "other versions": ("stamps", LIBRARY, "against: trl ", "against: trl 0.1, trl ", "trl 0.1; here it is"),
    "changed body": ("stamps", LIBRARY, "The end.", "The End.", "body changed"),
    "no hash": ("stamps", LIBRARY, "body-sha256", "sha256", "no `<!-- body-sha256"),
}


def spoil(repository, path, old, new):
    if new is None:
        shutil.rmtree(repository / path) if path.endswith("/") else (repository / path).unlink()
    else:
        text = new if old is None else (repository / path).read_text(encoding="utf-8")
        assert old is None or old in text
        write(repository, path, text.replace(old, new) if old else new)


@pytest.mark.parametrize(("rule", "path", "old", "new", "what"), BAD.values(), ids=BAD)
def test_bad_repository_is_rejected(repository, rule, path, old, new, what):
    spoil(repository, path, old, new)
    findings = getattr(docsync, f"check_{rule}")(repository)
    assert len(findings) == 1 and what in str(findings[0]), list(map(str, findings))
    assert "\nFix: " in str(findings[0])
    assert findings[0].warning == ("here it is" in what or "days ago" in what)


def test_an_old_stamp_warns_and_fails_only_when_strict(repository):
    spoil(repository, LIBRARY, DAY_1, f"Last verified: {OLD}")
    with pytest.warns(docsync.StampWarning, match="181 days ago"):
        assert_stamped(docsync.check_stamps(repository), strict=False)
    with pytest.raises(AssertionError, match="181 days ago"):
        assert_stamped(docsync.check_stamps(repository), strict=True)


# ---- --fix and --stamp

FIXED = {"comment drift", "comment above drift", "generated drift", "manifest different"}
FIXED |= {"mirror extra", "mirror missing", "mirror different"}


def snapshot(repository):
    return {path: path.read_bytes() for path in repository.rglob("*") if path.is_file() and path.suffix != ".pyc"}


@pytest.mark.parametrize("name", [name for name in BAD if BAD[name][0] in ("synced", "generated", "mirror")])
def test_fix_restores_what_it_can_and_leaves_the_rest(repository, name):
    good = snapshot(repository)
    spoil(repository, *BAD[name][1:4])
    spoiled = snapshot(repository)
    docsync.fix(repository)
    if name in FIXED:
        assert snapshot(repository) == good
    else:
        copies = set((repository / SKILL).rglob("*"))
        assert {p: text for p, text in snapshot(repository).items() if p not in copies} == {
            p: text for p, text in spoiled.items() if p not in copies
        }
    assert docsync.fix(repository) == []
    assert bool(getattr(docsync, f"check_{BAD[name][0]}")(repository)) == (name not in FIXED)


def test_fix_takes_the_scripts_text_and_keeps_the_prose(repository):
    before = (repository / LIBRARY).read_text(encoding="utf-8")
    spoil(repository, SCRIPT, "class Length:\n", "# Long is good.\nclass Length:\n    unit = 1\n\n")
    assert docsync.fix(repository)[0] == f"fixed {LIBRARY}:25 `Length` differs from scripts/rewards.py:17"
    after = before.replace("> class Length:\n", "> # Long is good.\n> class Length:\n>     unit = 1\n>\n")
    assert (repository / LIBRARY).read_text(encoding="utf-8") == after


def test_symbolic_links_are_rejected_and_nothing_is_removed_through_them(repository):
    shutil.rmtree(repository / SKILL / "scripts")
    (repository / SKILL / "scripts").symlink_to(repository / "scripts", target_is_directory=True)
    findings = docsync.check_mirror(repository)
    assert [str(finding).split("\n")[0] for finding in findings] == [f"{SKILL}/scripts:1: symbolic link"]
    assert docsync.fix(repository) == [] and (repository / SCRIPT).is_file()


SESSION = {
    "tests/test_docsync.py": "import docsync, pytest\n@pytest.mark.stamp\ndef test_stamp():\n"
    "    assert not docsync.check_stamps(docsync.ROOT)\ndef test_other(): pass\n",
    "tests/test_rewards.py": "def test_rewards(): pass\n",
    "tests/trainer/test_trainer.py": "def test_trainer(): pass\n",
}


@pytest.fixture
def session(repository):
    """Run pytest with our options in the small repository; give its exit status and output."""
    for name in ("conftest.py", "docsync.py"):
        write(repository, f"tests/{name}", (ROOT / "tests" / name).read_text(encoding="utf-8"))
    for path, text in SESSION.items():
        write(repository, path, text)

    def run(*options):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        result = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=60)
        return result.returncode, result.stdout + result.stderr

    return run


def test_stamp_renews_a_changed_body_and_lists_claims(repository, session):
    spoil(repository, LIBRARY, "The end.", "The End.")
    assert session()[0] == 1
    status, output = session("--stamp")
    assert status == 0 and f"stamped {LIBRARY}: {TODAY}, trl " in output, output
    assert f"does not vouch for: 1\n{LIBRARY}:8: Template" in output
    assert session()[0] == 0
    assert_clean([finding for rule in docsync.RULES for finding in rule(repository)])


@pytest.mark.parametrize(
    ("path", "text", "options", "why"),
    [
        (None, "", ["tests/test_docsync.py"], f"{REWARD_TESTS} was not collected"),
        (None, "", ["-k", "not trainer"], "test_trainer was deselected"),
        (REWARD_TESTS, "import pytest\ndef test_it(): pytest.skip()", [], f"{REWARD_TESTS}::test_it did not pass"),
        (REWARD_TESTS, "def test_it(): assert 0", [], f"{REWARD_TESTS}::test_it did not pass"),
        (REWARD_TESTS, "import pytest\npytest.importorskip('nothing')", [], "was not collected: skipped"),
    ],
)
def test_stamp_is_refused(repository, session, path, text, options, why):
    spoil(repository, LIBRARY, "The end.", "The End.")
    if path:
        write(repository, path, text)
    before = (repository / LIBRARY).read_text(encoding="utf-8")
    status, output = session("--stamp", *options)
    assert status != 0 and "not stamped" in output and why in output, output
    assert (repository / LIBRARY).read_text(encoding="utf-8") == before


@pytest.mark.parametrize("line", ["Verified against: trl==1", "Verified against: no-such-thing 1.0"])
def test_stamp_writes_nothing_when_it_cannot_name_the_versions(repository, line):
    text = (repository / LIBRARY).read_text(encoding="utf-8")
    write(repository, LIBRARY, text.replace(text.split("\n")[1], line))
    with pytest.raises(ValueError, match=f"{LIBRARY}:2: "):
        docsync.stamp(repository)
    assert line in (repository / LIBRARY).read_text(encoding="utf-8")


def test_fix_exits_with_1_once(repository, session):
    spoil(repository, LIBRARY, "# the last", "# the first")
    status, output = session("--fix")
    assert status == 1 and f"fixed {LIBRARY}:18 `exact_reward` differs" in output, output
    assert session("--fix")[0] == 0
