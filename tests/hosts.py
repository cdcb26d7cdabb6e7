"""Ask the hosts' own tools about this plugin, and pack the skill for hosts that take an upload.

    python tests/hosts.py validate [--cache DIR]
    python tests/hosts.py zip

A tool is worth its yes only if it can say no: each check first gets a copy of the tracked files with a fault in it, and
must refuse that; then it must accept a copy without. A tool that cannot be had is reported as NOT RUN and fails nothing.
Exit codes: 0 = every check that could run passed, 1 = one failed or none ran, 2 = bad usage or input.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = "grpo-training"
SKILL = f"skills/{PLUGIN}"
CLAUDE = "2.1.332"  # newest of 2026-11-29; asks for Node 22, which only its installer needs, and 20 does
NPM_TIMEOUT = 300  # seconds; 5 to 15 are usual, for 200 MB
TOOL_TIMEOUT = 60  # seconds; each takes less than one
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can hold: the same files give the same bytes


@dataclass(frozen=True)
class Check:
    """Commands that all succeed on a good copy, and the fault with which one of them fails."""

    commands: tuple[str, ...]
    fault: tuple[str, str, str]  # file, text, text in its place
    shows: str = ""  # what the output must hold

    @property
    def tool(self) -> str:
        return self.commands[0].split()[0]

    @property
    def title(self) -> str:
        return " … ".join(dict.fromkeys((self.commands[0], self.commands[-1])))


FRONTMATTER = (f"{SKILL}/SKILL.md", "description: >-", "description: [")
CHECKS = (
    Check((f"agentskills validate {SKILL}",), FRONTMATTER),
    Check(("skillsaw lint --strict .",), FRONTMATTER),
    # One path per call: of several, only the first is read, and the rest pass unseen.
    Check(("claude plugin validate --strict .",), (".claude-plugin/marketplace.json", '"source": "./"', '"source": 1')),
    Check(
        ("claude plugin validate --strict .claude-plugin/plugin.json",),
        (".claude-plugin/plugin.json", f'"name": "{PLUGIN}"', '"name": 1'),
    ),
    Check(("claude plugin validate --strict skills",), FRONTMATTER),
    # `validate` accepts a source that is not there, and an installation a plugin without a skill.
    Check(
        (
            "claude plugin marketplace add ./",
            f"claude plugin install {PLUGIN}@{PLUGIN}",
            f"claude plugin details {PLUGIN}",
            f"claude plugin uninstall {PLUGIN}@{PLUGIN}",
        ),
        (".claude-plugin/marketplace.json", '"source": "./"', '"source": "./absent"'),
        shows=f"Skills (1)  {PLUGIN}",
    ),
)


def tracked(root: Path, under: str = ".") -> list[str]:
    """The files below `under` that git tracks: what a clone holds, without environments and runs."""
    git = ["git", "-C", str(root), "ls-files", "-z", "--", under]
    listed = subprocess.run(git, capture_output=True, text=True, check=False).stdout.split("\0")
    files = sorted(path for path in listed if path and (root / path).is_file())
    if not files:
        raise ValueError(f"git tracks no file in {under}; run this in a clone, after `git add`")
    return files


def copy(root: Path, to: Path, fault: tuple[str, str, str] | None = None) -> None:
    for path in tracked(root):
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, to / path)
    if fault:
        path, old, new = fault
        text = (to / path).read_text(encoding="utf-8")
        if old not in text:
            raise ValueError(f"{path} does not hold `{old}`, so the fault of a check cannot be put there")
        (to / path).write_text(text.replace(old, new), encoding="utf-8")


def install_claude(cache: Path) -> Path | str:
    """The folder of the command `claude`; a text says why there is none."""
    folder = cache / "node_modules" / ".bin"
    if not shutil.which("npm"):
        return "npm is not installed"
    cache.mkdir(parents=True, exist_ok=True)
    npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(cache), f"@anthropic-ai/claude-code@{CLAUDE}"]
    if claude_version(folder) != CLAUDE:
        print(f"note: npm installs claude {CLAUDE}, 400 MB", file=sys.stderr)
        try:
            done = subprocess.run(npm, capture_output=True, text=True, timeout=NPM_TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            return f"npm install did not end within {NPM_TIMEOUT} s"
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
            return f"npm install failed: {(errors or ['no message'])[0]}"
    version = claude_version(folder)
    return folder if version == CLAUDE else f"npm installed a command that says it is {version or 'nothing'}"


def claude_version(folder: Path) -> str:
    with tempfile.TemporaryDirectory() as home:
        return call("claude --version", folder, Path(home), Path(home)).stdout.partition(" ")[0].strip()


def call(command: str, folder: Path, home: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command from `folder` with an empty home and nothing of the caller's environment but the path."""
    environment = {
        "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",  # no telemetry, no update
    }
    tool, *arguments = command.split()
    streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "encoding": "utf-8", "errors": "replace"}
    try:
        words = [str(folder / tool), *arguments]
        return subprocess.run(words, cwd=cwd, env=environment, timeout=TOOL_TIMEOUT, check=False, **streams)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(words, 1, "", f"{type(error).__name__}: {error}\n")


def accepts(check: Check, folder: Path, root: Path, fault: tuple[str, str, str] | None) -> tuple[bool, str]:
    """Whether the tool accepts a copy of `root`, and what it said."""
    said = ""
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made).resolve()  # as the tools print it
        home, plugin = scratch / "home", scratch / PLUGIN
        home.mkdir()
        copy(root, plugin, fault)
        for command in check.commands:
            done = call(command, folder, home, plugin)
            said += f"$ {command}\n{done.stdout}{done.stderr}".replace(f"{scratch}/", "")
            if done.returncode:
                return False, said
    return check.shows in said, said


def validate(root: Path, tools: dict[str, Path | str]) -> int:
    """Run every check. `tools` holds the folder of each tool, or why it cannot be had."""
    ran = failed = 0
    for check in CHECKS:
        folder = tools[check.tool]
        if isinstance(folder, str):
            print(f"NOT RUN: {check.title} ({folder})")
            continue
        ran += 1
        good, said = accepts(check, folder, root, None)
        bad, _ = accepts(check, folder, root, check.fault)
        failed += bad or not good
        if not good:
            print(f"FAILED: {check.title}\n{said}" + (f"`{check.shows}` is missing\n" if check.shows else ""))
        elif bad:
            print(f"FAILED: {check.title} accepts a copy with the fault `{check.fault[2]}` in {check.fault[0]}")
        else:
            print(f"ok: {check.title}")
    print(f"{ran} of {len(CHECKS)} checks ran, {failed} failed; each was shown a fault it must refuse")
    if not ran:
        print("FAILED: nothing ran")
    return int(failed > 0 or ran == 0)


def find_tools(cache: Path) -> dict[str, Path | str]:
    here = Path(sys.executable).parent
    tools = {
        name: here if (here / name).exists() else "not in this environment" for name in ("agentskills", "skillsaw")
    }
    return {**tools, "claude": install_claude(cache)}


def write_zip(root: Path, into: Path) -> Path:
    """Pack the skill folder's tracked files; SKILL.md is at the top of the one folder in the zip."""
    manifest = json.loads((root / "plugin.json").read_text(encoding="utf-8"))
    files = tracked(root, SKILL)
    target = into / f"{manifest['name']}-{manifest['version']}.zip"
    into.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w") as archive:  # stored: compressors differ between machines
        for path in files:
            entry = zipfile.ZipInfo(path.removeprefix("skills/"), ZIP_DATE)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16  # Unix, a regular file
            archive.writestr(entry, (root / path).read_bytes())
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, does in (("validate", "run the hosts' validators"), ("zip", "write dist/<name>-<version>.zip")):
        command = commands.add_parser(name, help=does)
        if name == "validate":
            command.add_argument("--cache", type=Path, default=ROOT / ".venv/hosts", help="npm puts 400 MB here")
    arguments = parser.parse_args()
    try:
        if arguments.command == "validate":
            return validate(ROOT, find_tools(arguments.cache.resolve()))
        print(f"wrote {write_zip(ROOT, ROOT / 'dist').relative_to(ROOT)}")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
