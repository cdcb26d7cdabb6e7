"""The plugin's manifests, skill header and house files, held to rules no single validator enforces.

None of `claude plugin validate --strict`, `agentskills validate` and `skillsaw lint --strict` notices a manifest
without `$schema`, two manifests that differ, or a release the changelog does not name.

Each rule is a pure function of what it judges and returns messages "where: what is, what must be. Fix: how".
A rule that is handed nothing says so: an empty checkout is never green. REJECTED shows every rule what it must refuse.
The mirror of references/ and scripts/ is checked in docsync.py, not here.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
TEXT_KEYS = ("name", "version", "description", "license")  # required here; the schema requires $schema and name
# The schema is closed. It also allows `extensions`, but `claude plugin validate --strict` refuses that one.
MANIFEST_KEYS = {"$schema", *TEXT_KEYS, "author", "keywords", "homepage", "repository"}
KEBAB = r"(?!.{65})[a-z0-9]+(-[a-z0-9]+)*"  # the schema allows periods too, but Claude Code warns about them
RELEASE = r"\[((?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*))\] - 20\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
SKILL_KEYS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
DESCRIPTION_LIMIT = 1024  # characters, Agent Skills specification
BODY_LIMIT = 8 * 1024  # bytes: the body enters every conversation that fires the skill
# Claude Code replaces or executes these before the model reads SKILL.md, code fences included.
SUBSTITUTIONS = re.compile(r"\$ARGUMENTS|\$\d|!`|```!")
AGENTS_LIMIT = 150  # lines: AGENTS.md is read in full at the start of every session here
MANIFESTS = ("plugin.json", ".claude-plugin/plugin.json", ".claude-plugin/marketplace.json")
DOCUMENTS = ("README.md", "LICENSE", "CHANGELOG.md", "AGENTS.md", ".claude/CLAUDE.md")
REQUIRED_FILES = {*MANIFESTS, *DOCUMENTS, "pyproject.toml", "Makefile", ".gitattributes", ".ci/run"}
LINK_MODE = "120000"  # git's file mode of a symbolic link


def report(where: str, *checks: tuple[object, str, str]) -> list[str]:
    """One message for each (is wrong, what is and what must be, fix) whose first part is true."""
    return [f"{where}: {what}. Fix: {fix}." for wrong, what, fix in checks if wrong]


def parse_object(text: str) -> dict:
    """The JSON object in `text`; an empty one, which every caller reports, if there is none."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def split_skill(text: str) -> tuple[dict, str]:
    """Frontmatter and body; an empty frontmatter, which every caller reports, if it cannot be read."""
    parts = re.match(r"---\n(.*?\n)---\n(.*)", text, re.DOTALL)
    try:
        header = yaml.safe_load(parts[1]) if parts else None
    except yaml.YAMLError:
        header = None
    return (header if isinstance(header, dict) else {}), (parts[2] if parts else text)


def manifest_problems(text: str) -> list[str]:
    """Agent Plugins 1.0.0, with every field this project promises filled in."""
    manifest = parse_object(text)
    if not manifest:
        return report("plugin.json", (True, f"{text!r:.60} is no non-empty JSON object", "correct the syntax"))
    blank = [key for key in TEXT_KEYS if not isinstance(manifest.get(key), str) or not manifest[key].strip()]
    extra = sorted(set(manifest) - MANIFEST_KEYS)
    schema, name = manifest.get("$schema"), str(manifest.get("name"))
    author, words = manifest.get("author"), manifest.get("keywords")
    named = isinstance(author, dict) and author.get("name") and not set(author) - {"name", "email", "url"}
    listed = isinstance(words, list) and words and all(isinstance(word, str) for word in words)
    return report(
        "plugin.json",
        (schema != SCHEMA, f"$schema is {schema!r}, must be {SCHEMA!r}", "copy it exactly"),
        (blank, f"{blank} are missing or blank, {list(TEXT_KEYS)} must be text", "fill them in"),
        (extra, f"{extra} are not among {sorted(MANIFEST_KEYS)}", "remove them"),
        (not re.fullmatch(KEBAB, name), f"name is {name!r}, must be kebab-case of 1 to 64 characters", "rename it"),
        (not named, f"author is {author!r}, must hold a name, and email or url at most", "correct the object"),
        (not listed, f"keywords is {words!r}, must be a non-empty list of strings", "list the words users search"),
    )


def copy_problems(source: bytes, copy: bytes) -> list[str]:
    """Claude Code reads .claude-plugin/plugin.json, other hosts the root one: they must say the same."""
    differ = f"has {len(copy)} bytes that are not the {len(source)} bytes of plugin.json"
    return report(
        ".claude-plugin/plugin.json",
        (not source, "plugin.json is empty, nothing was compared", "write the manifest"),
        (source != copy, differ, "edit plugin.json and copy it here"),
    )


def marketplace_problems(text: str, plugin: str, root: Path) -> list[str]:
    """The catalogue lists this plugin once, from a folder that holds it; the version stands in plugin.json alone."""
    entries = parse_object(text).get("plugins")
    entry = entries[0] if isinstance(entries, list) and len(entries) == 1 and isinstance(entries[0], dict) else {}
    name, source = entry.get("name"), str(entry.get("source"))
    inside = source.startswith("./") and ".." not in Path(source).parts
    held = inside and (root / source / ".claude-plugin" / "plugin.json").is_file()
    return report(
        ".claude-plugin/marketplace.json",
        (not entry, f"plugins is {entries!r:.60}, must be a list of 1 object", "list the plugin once, in valid JSON"),
        (name != plugin, f"the entry's name is {name!r}, must be {plugin!r} as in plugin.json", "rename it"),
        ("version" in entry, "the entry has a version, which plugin.json overrides unseen; limit 0", "remove it"),
        (not held, f"source {source!r} is no folder here with a .claude-plugin/plugin.json", 'write "./"'),
    )


def name_problems(plugin: str, skills: dict[str, str]) -> list[str]:
    """One skill, and plugin, skill folder and frontmatter agree. `skills` maps each folder to its SKILL.md's text."""
    names = {folder: split_skill(text)[0].get("name") for folder, text in skills.items()}
    wrong = {folder: name for folder, name in names.items() if not folder == name == plugin}
    return report(
        "skills/",
        (len(skills) != 1, f"{len(skills)} folders hold a SKILL.md, must be 1", f"keep skills/{plugin}/ alone"),
        (wrong, f"folder and frontmatter name are {wrong}, must both be {plugin!r} as in plugin.json", "rename them"),
    )


def version_problems(version: str, changelog: str) -> list[str]:
    """The manifest carries the newest release the changelog names; `[Unreleased]` may stand only above it."""
    headings = re.findall(r"^## +(.*?)\s*$", changelog, re.MULTILINE)
    releases = headings[1:] if headings[:1] == ["[Unreleased]"] else headings
    wrong = [heading for heading in releases if not re.fullmatch(RELEASE, heading)]
    newest = re.fullmatch(RELEASE, releases[0])[1] if releases and not wrong else None
    return report(
        "CHANGELOG.md",
        (wrong, f"headings {wrong} are not `[X.Y.Z] - YYYY-MM-DD`, or `[Unreleased]` at the top", "correct them"),
        (newest != version, f"newest release is {newest!r}, plugin.json says {version!r}", "change both in one commit"),
    )


def frontmatter_problems(text: str) -> list[str]:
    """Only the specification's keys: hosts other than Claude Code refuse a skill with any other."""
    header = split_skill(text)[0]
    extra = sorted(map(str, set(header) - SKILL_KEYS))
    description, metadata = header.get("description"), header.get("metadata", {})
    size = len(description.strip()) if isinstance(description, str) else 0
    wrong = not 0 < size <= DESCRIPTION_LIMIT
    strings = isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    return report(
        "SKILL.md",
        (not header, "has no YAML mapping between `---` lines at its top", "start the file with one"),
        (extra, f"keys {extra} are not among {sorted(SKILL_KEYS)}", "move them under metadata"),
        (wrong, f"description has {size} characters, limit 1 to {DESCRIPTION_LIMIT}", "say what it does and when"),
        (not strings, f"metadata is {metadata!r}, must map keys to strings", "quote dates and numbers"),
    )


def body_problems(text: str) -> list[str]:
    """The body is short, and nothing in the file is rewritten on its way to the model."""
    body = split_skill(text)[1]
    size = len(body.encode()) if body.strip() else 0
    found = [f"line {at}: {hit}" for at, line in enumerate(text.splitlines(), 1) for hit in SUBSTITUTIONS.findall(line)]
    return report(
        "SKILL.md",
        (not 0 < size <= BODY_LIMIT, f"body has {size} bytes, limit 1 to {BODY_LIMIT}", "move detail to references/"),
        (found, f"Claude Code substitutes {found}, limit 0", "reword: a price is `3 USD/h`"),
    )


def symlink_problems(listing: str) -> list[str]:
    """Packagers drop links in silence, Windows clones break them. `listing` is what `git ls-files --stage` prints."""
    links = [line.partition("\t")[2] for line in listing.splitlines() if line.startswith(LINK_MODE)]
    return report(
        "git",
        (not listing.strip(), "tracks 0 files, nothing was checked", "run in a clone, after `git add`"),
        (links, f"{links} are symbolic links, limit 0", "commit regular files; `make fix` writes the mirror"),
    )


def file_problems(present: set[str]) -> list[str]:
    """What every visitor and tool of this house looks for; no root CLAUDE.md, which strict validation refuses."""
    missing = sorted(REQUIRED_FILES - present)
    return report(
        "repository",
        (missing, f"{missing} are missing, limit 0", "add them"),
        ("CLAUDE.md" in present, "CLAUDE.md stands at the root, limit 0", "move it to .claude/CLAUDE.md"),
    )


def agents_problems(text: str) -> list[str]:
    """AGENTS.md says something, and stays short enough to be read whole."""
    lines = len(text.splitlines()) if text.strip() else 0
    what = f"has {lines} lines, limit 1 to {AGENTS_LIMIT}"
    return report("AGENTS.md", (not 0 < lines <= AGENTS_LIMIT, what, "say less, or say it where it is used"))


RULES = [rule for name, rule in globals().items() if name.endswith("_problems")]


def house(root: Path) -> dict:
    """The arguments of every rule, read from `root`. An absent file is an empty one, which its rule reports."""

    def raw(path: str) -> bytes:
        return (root / path).read_bytes() if (root / path).is_file() else b""

    manifest, copy, market = (raw(path) for path in MANIFESTS)
    name, version = (str(parse_object(manifest.decode()).get(key)) for key in ("name", "version"))
    skills = {path.parent.name: path.read_text(encoding="utf-8") for path in root.glob("skills/*/SKILL.md")}
    git = ["git", "-C", str(root), "ls-files", "--stage"]
    return {
        manifest_problems: (manifest.decode(),),
        copy_problems: (manifest, copy),
        marketplace_problems: (market.decode(), name, root),
        name_problems: (name, skills),
        version_problems: (version, raw("CHANGELOG.md").decode()),
        frontmatter_problems: (skills.get(name, ""),),
        body_problems: (skills.get(name, ""),),
        symlink_problems: (subprocess.run(git, capture_output=True, text=True, check=False).stdout,),
        file_problems: ({path for path in (*REQUIRED_FILES, "CLAUDE.md") if (root / path).is_file()},),
        agents_problems: (raw("AGENTS.md").decode(),),
    }


def manifest(**changes) -> str:
    good = {"$schema": SCHEMA, "author": {"name": "a"}, "keywords": ["k"], **dict.fromkeys(TEXT_KEYS, "p")}
    return json.dumps(good | {"version": "1.0.0"} | changes)


def market(*entries: dict) -> str:
    return json.dumps({"plugins": entries})


def skill(description: str = "d", more: str = "", body: str = "b") -> str:
    return f"---\nname: p\ndescription: {description}\n{more}---\n{body}"


ENTRY = {"name": "p", "source": "./"}
ACCEPTED = {
    manifest_problems: (manifest(homepage="h"),),
    copy_problems: (b"{}", b"{}"),
    marketplace_problems: (market(ENTRY), "p", ROOT),
    name_problems: ("p", {"p": skill()}),
    version_problems: ("0.2.0", "## [Unreleased]\n\n## [0.2.0] - 2026-02-28\n### Added\n## [0.1.0] - 2026-01-31\n"),
    frontmatter_problems: (skill("d" * DESCRIPTION_LIMIT, 'metadata:\n  checked: "2026-01-31"\n'),),
    body_problems: (skill(body="b" * BODY_LIMIT),),
    symlink_problems: ("100644 0a 0\tREADME.md\n100755 0b 0\t.ci/run\n",),
    file_problems: (REQUIRED_FILES,),
    agents_problems: ("line\n" * AGENTS_LIMIT,),
}
# What a message must name, and the input that must raise it. The first of each rule is empty: zero items inspected.
REJECTED = {
    manifest_problems: {
        "'' is no": ("",), "'[1]' is no": ("[1]",), "'{p,}' is no": ("{p,}",), "['skills']": (manifest(skills="./s"),),
        "'…/1.0/": (manifest(**{"$schema": "…/1.0/"}),), "['license']": (manifest(license=" "),),
        "'a--b'": (manifest(name="a--b"),), "keywords is []": (manifest(keywords=[]),),
        "author is 'me'": (manifest(author="me"),), "'x': 1": (manifest(author={"name": "a", "x": 1}),),
    },
    copy_problems: {"nothing was compared": (b"", b""), "has 4 bytes": (b"{}\n", b"{}\r\n")},
    marketplace_problems: {
        "plugins is None": ("", "p", ROOT), "list of 1 object": (market(ENTRY, ENTRY), "p", ROOT),
        "must be 'q'": (market(ENTRY), "q", ROOT), "has a version": (market(ENTRY | {"version": "1"}), "p", ROOT),
        "'./nope'": (market(ENTRY | {"source": "./nope"}), "p", ROOT),
        "'./../x'": (market(ENTRY | {"source": "./../x"}), "p", ROOT),
    },
    name_problems: {
        "0 folders": ("p", {}), "2 folders": ("p", {"p": skill(), "q": skill()}),
        "{'q': 'p'}": ("q", {"q": skill()}), "must both be 'q'": ("q", {"p": skill()}),
    },
    version_problems: {
        "is None": ("0.1.0", ""), "None, plugin": ("0.1.0", "## [Unreleased]\n"), "['v1']": ("0.1.0", "## v1\n"),
        "is '0.2.0'": ("0.1.0", "## [0.2.0] - 2026-02-28\n## [0.1.0] - 2026-01-31\n"),
        "['[Unreleased]']": ("0.1.0", "## [0.1.0] - 2026-01-31\n## [Unreleased]\n"),
    },
    frontmatter_problems: {
        "no YAML mapping": ("",), "no YAML": ("---\nname: [p\n---\nb",), "['version']": (skill(more="version: 1\n"),),
        "0 characters": (skill(""),), "1025 characters": (skill("d" * 1025),),
        "to strings": (skill(more="metadata:\n  checked: 2026-01-31\n"),),
    },
    body_problems: {
        "0 bytes": ("",), "8193 bytes": (skill(body="é" * 4096 + "b"),),
        **{f"line 5: {bad}": (skill(body=f"{bad}`ls`"),) for bad in ("$ARGUMENTS", "$0", "$1", "!`", "```!")},
    },
    symlink_problems: {"tracks 0 files": ("",), "['skills/p/x']": ("100644 0a 0\ty\n120000 0b 0\tskills/p/x\n",)},
    file_problems: {"'.ci/run'": (set(),), "at the root": (REQUIRED_FILES | {"CLAUDE.md"},)},
    agents_problems: {"0 lines": ("",), "151 lines": ("line\n" * 151,)},
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_house(rule):
    problems = rule(*house(ROOT)[rule])
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("rule", RULES)
def test_known_good_is_accepted(rule):
    assert rule(*ACCEPTED[rule]) == []


@pytest.mark.parametrize(("rule", "named"), [(rule, named) for rule in RULES for named in REJECTED[rule]])
def test_known_bad_is_rejected(rule, named):
    problems = rule(*REJECTED[rule][named])
    assert any(named in problem for problem in problems), problems
    assert all(re.fullmatch(r".+: .+\. Fix: .+\.", problem) for problem in problems), problems


def test_no_rule_goes_missing():
    """`RULES` is collected by name: a rule renamed out of the pattern would no longer run."""
    assert set(RULES) == set(ACCEPTED) == set(REJECTED) == set(house(ROOT))
