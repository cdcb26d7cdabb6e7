"""The run of the hosts' tools can fail, and the packed skill is complete in itself."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import docsync
import hosts
import pytest

HERE = Path(sys.executable).parent  # agentskills and skillsaw are pinned; npm's tool is left to `make validate`
PINNED = {"agentskills": HERE, "skillsaw": HERE, "claude": "left out of this test"}


@pytest.fixture
def clone(tmp_path):
    """Write the plugin, with a fault if there is one, into a repository of its own."""

    def write(fault=None):
        hosts.copy(hosts.ROOT, tmp_path / "clone", fault)
        for words in (("init", "-q"), ("add", "-A")):
            subprocess.run(["git", "-C", str(tmp_path / "clone"), *words], check=True)
        return tmp_path / "clone"

    return write


def test_the_pinned_tools_accept_the_plugin_and_refuse_a_fault(capsys):
    assert hosts.validate(hosts.ROOT, PINNED) == 0
    said = capsys.readouterr().out
    assert said.count("ok: ") == 2
    assert said.count("NOT RUN: claude plugin ") == 4 and "(left out of this test)" in said


def test_a_refused_plugin_fails(clone, capsys):
    root = clone((f"{hosts.SKILL}/SKILL.md", "name: grpo-training\n", "name: Grpo_Training\n"))
    assert hosts.validate(root, PINNED) == 1
    said = capsys.readouterr().out
    assert "FAILED: agentskills" in said and "must be lowercase" in said
    assert "FAILED: skillsaw" in said and "agentskill-name" in said


def test_a_tool_that_accepts_everything_fails(tmp_path, capsys):
    for tool in PINNED:
        (tmp_path / tool).write_text(f"#!/bin/sh\necho '{hosts.CHECKS[-1].shows}'\n")
        (tmp_path / tool).chmod(0o755)
    assert hosts.validate(hosts.ROOT, dict.fromkeys(PINNED, tmp_path)) == 1
    assert capsys.readouterr().out.count(" accepts a copy with the fault ") == len(hosts.CHECKS)


def test_a_tool_that_does_not_start_fails(tmp_path):
    assert hosts.validate(hosts.ROOT, {**PINNED, "skillsaw": tmp_path}) == 1


def test_nothing_run_fails(capsys):
    assert hosts.validate(hosts.ROOT, dict.fromkeys(PINNED, "no network")) == 1
    assert "FAILED: nothing ran" in capsys.readouterr().out


def test_npm_that_is_missing_or_fails_is_a_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hosts.install_claude(tmp_path / "cache") == "npm is not installed"
    (tmp_path / "npm").write_text("#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\nexit 1\n")
    (tmp_path / "npm").chmod(0o755)
    assert hosts.install_claude(tmp_path / "cache") == "npm install failed: npm error code ENOTFOUND"
    (tmp_path / "npm").write_text("#!/bin/sh\n")
    assert hosts.install_claude(tmp_path / "cache") == "npm installed a command that says it is nothing"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The skill as a host has it that was given the zip, and nothing else."""
    folder = tmp_path_factory.mktemp("upload")
    with zipfile.ZipFile(hosts.write_zip(hosts.ROOT, folder / "dist")) as archive:
        archive.extractall(folder)
    return folder / hosts.PLUGIN


def test_zip_holds_the_tracked_files_and_no_links(tmp_path, clone):
    target = hosts.write_zip(hosts.ROOT, tmp_path)
    with zipfile.ZipFile(target) as archive:
        entries = {f"skills/{entry.filename}": entry for entry in archive.infolist()}
        listed = subprocess.check_output(["git", "ls-files", hosts.SKILL], cwd=hosts.ROOT, text=True).splitlines()
        assert list(entries) == sorted(listed) and f"{hosts.SKILL}/SKILL.md" in entries
        assert {entry.external_attr >> 16 for entry in entries.values()} == {0o100644}
        for name, entry in entries.items():
            assert archive.read(entry) == (hosts.ROOT / name).read_bytes()
    version = json.loads((hosts.ROOT / "plugin.json").read_text(encoding="utf-8"))["version"]
    assert target.name == f"grpo-training-{version}.zip"
    root = clone()  # another time, another place, a file that git does not know
    (root / hosts.SKILL / "notes.txt").write_text("mine")
    assert hosts.write_zip(root, tmp_path / "again").read_bytes() == target.read_bytes()


def test_no_git_is_an_error(tmp_path):
    shutil.copy(hosts.ROOT / "plugin.json", tmp_path)
    with pytest.raises(ValueError, match="git tracks no file"):
        hosts.write_zip(tmp_path, tmp_path)
    assert not list(tmp_path.glob("*.zip"))


def test_skill_alone_scores_without_any_package(unpacked, tmp_path):
    sample = tmp_path / "sample.jsonl"
    texts = {"7": 3.0, "8": 1.0}
    rows = [
        {"prompt": "3 + 4?", "completion": f"<reasoning>\nadd\n</reasoning>\n<answer>\n{text}\n</answer>"}
        for text in texts
    ]
    sample.write_text("".join(json.dumps({**row, "answer": "7"}) + "\n" for row in rows))
    score = ["scripts/rewards.py", "score", str(sample), "--reward", "format_reward", "--reward", "correctness_reward"]
    python = [sys.executable, "-S"]  # without site-packages
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run([*python, *score, "--json"], cwd=unpacked, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [row["total"] for row in json.loads(done.stdout)["rows"]] == list(texts.values())


def test_links_of_the_skill_alone_resolve(unpacked):
    problems, relative = [], 0
    for path in sorted(unpacked.rglob("*.md")):
        document = docsync.read(unpacked, path.relative_to(unpacked).as_posix())
        for line, token in docsync.inline_tokens(document):
            target = token.attrs.get("href") or token.attrs.get("src")
            if target and "://" not in target:
                relative += 1
                problem = docsync.link_problem(unpacked, document.path, target)
                problems += [f"{document.path}:{line}: {target}: {problem} the zip (git add it?)"] if problem else []
    assert relative and not problems, "\n".join(problems)
