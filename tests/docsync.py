"""Hold the documents to the code they describe.

Every `check_*(root)` is one rule: it yields the findings in the repository at `root`, none when clean.
`fix(root)` applies the findings that carry an edit, then copies the mirror; `stamp(root)` renews `Last verified`.

Kinds of Python fence, by info string:
  python            synced: every top-level node equals the node of that name in the script, line for line
  python example    executed after the document's synced fences; its truth is the `assert`s in it
  python fragment   parsed only; its first line says why: `# fragment: why`
"""

from __future__ import annotations

import ast
import builtins
import importlib.metadata
import itertools
import os
import re
import shlex
import shutil
import subprocess
import symtable
import sys
import traceback
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from difflib import unified_diff
from functools import cache
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin

ROOT = Path(__file__).resolve().parents[1]
SKILL = "skills/grpo-training"
MIRRORED = ("references", "scripts")  # copied into SKILL
MANIFEST = ("plugin.json", ".claude-plugin/plugin.json")  # source, copy

SYNCED = {"references/reward-library.md": "scripts/rewards.py"}  # document with synced fences: its script
NOT_REWARDS = {"main", "lint"}  # names in a script's `__all__` that need not be shown
FENCE_KINDS = ("python", "python example", "python fragment")
GENERATED, GENERATED_END = re.compile(r"<!-- generated: (python \w+/\w+\.py.*) -->"), "<!-- /generated -->"
COMMAND_TIMEOUT = 60  # seconds, for a generated block's command and for `--help`

MAX_STAMP_AGE = 180  # days
STAMP = {
    "Last verified: YYYY-MM-DD": re.compile(r"Last verified: (\d{4}-\d\d-\d\d)"),
    "Verified against: trl X.Y.Z, …": re.compile(r"Verified against: ([\w.-]+ \d[\w.+!]*(?:, [\w.-]+ \d[\w.+!]*)*)"),
    "<!-- body-sha256: 12 hex digits -->": re.compile(r"<!-- body-sha256: ([0-9a-f]{12}) -->"),
}

# Base models age faster than advice: prose gives a size class and a source instead of a name.
MODEL_NAMES = re.compile(
    r"\b(?:(?:Code|Tiny)?Llama|Qwen|QwQ|Mistral|Mixtral|Ministral|Magistral|Codestral|(?:Code)?Gemma|Phi-?\d"
    r"|DeepSeek-?(?:R1|V\d)|SmolLM|SmolVLM|GPT-?\d|gpt-oss|Claude[- ](?:\d|Sonnet|Opus|Haiku)|Gemini|Falcon|OLMo"
    r"|Yi-\d|InternLM|(?:Chat)?GLM-?\d|Kimi|MiniMax-M\d|Nemotron|Granite|Command[- ]R)(?![a-z])",
    re.IGNORECASE,
)
# Addresses, comments, ids of chat templates in code marks, and programs that are called like a model.
ALLOWED_NAMES = re.compile(r"https?://[^\s)>]+|<!--.*?-->|`[a-z0-9_]+(\.jinja)?`|llama\.cpp|Gemini CLI")


@dataclass(frozen=True)
class Finding:
    """One broken rule at one place; with an `edit`, `--fix` can repair it; a `warning` fails only when strict."""

    path: str
    line: int
    what: str
    fix: str
    diff: str = ""
    edit: tuple[int, int, list[str]] | None = None  # first and last line (from 1), and the lines in their place
    warning: bool = False

    def __str__(self) -> str:
        return "\n".join(filter(None, [f"{self.path}:{self.line}: {self.what}", self.diff, f"Fix: {self.fix}"]))


def diff_of(have: list[str], want: list[str], have_name: str, want_name: str) -> str:
    return "\n".join(unified_diff(have, want, have_name, want_name, lineterm=""))


# ---- reading markdown


@dataclass(frozen=True)
class Document:
    path: str  # from the repository root, with forward slashes
    lines: list[str]
    tokens: list[Token]


@dataclass(frozen=True)
class Fence:
    line: int  # of the opening fence; the code begins on the next
    info: str
    code: str
    markup: str


def read(root: Path, path: str) -> Document:
    text = (root / path).read_text(encoding="utf-8")
    parser = MarkdownIt("commonmark").enable("table").use(front_matter_plugin)
    return Document(path, text.split("\n"), parser.parse(text))


def reference_paths(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in (root / "references").glob("*.md"))


def documents(root: Path) -> list[Document]:
    paths = ["README.md", "AGENTS.md", "CHANGELOG.md", f"{SKILL}/SKILL.md", *reference_paths(root)]
    return [read(root, path) for path in paths]  # a missing one is an error, not a clean document


def fences(document: Document, *infos: str) -> list[Fence]:
    """The fences whose info string is one of `infos`; all without `infos`."""
    tokens = [token for token in document.tokens if token.type == "fence"]
    found = [Fence(token.map[0] + 1, token.info.strip(), token.content, token.markup) for token in tokens]
    return [fence for fence in found if not infos or fence.info in infos]


def unfenced_lines(document: Document) -> Iterator[tuple[int, str]]:
    fenced = {line for token in document.tokens if token.type == "fence" for line in range(*token.map)}
    return ((line, text) for line, text in enumerate(document.lines, 1) if line - 1 not in fenced)


def inline_tokens(document: Document) -> Iterator[tuple[int, Token]]:
    """Links, images, code marks and text, each with its line."""
    for token in document.tokens:
        for position, child in enumerate(token.children or []):
            breaks = [before for before in token.children[:position] if before.type in ("softbreak", "hardbreak")]
            yield token.map[0] + 1 + len(breaks), child


def check_fences(root: Path) -> Iterator[Finding]:
    """Every Python fence is of a known kind, and what its kind demands."""
    for document in documents(root):
        for fence in fences(document):
            if re.match(r"\W*py", fence.info, re.IGNORECASE):
                for what, repair in fence_problems(fence, document.path in SYNCED):
                    yield Finding(document.path, fence.line, what, repair)


def fence_problems(fence: Fence, has_script: bool) -> Iterator[tuple[str, str]]:
    if fence.info not in FENCE_KINDS:
        yield f"unknown info string `{fence.info}`", f"write one of {', '.join(FENCE_KINDS)}"
    try:
        tree = ast.parse(fence.code)
    except SyntaxError as error:
        yield f"line {error.lineno} of the fence does not parse: {error.msg}", "write Python that parses"
        return
    if fence.info == "python" and not has_script:
        yield "synced fence in a document that has no script", f"write one of {', '.join(FENCE_KINDS[1:])}"
    if fence.info == "python" and not tree.body:
        yield "synced fence holds no code", "fill it or delete it"
    if fence.info == "python fragment" and not re.match(r"# fragment: \S", fence.code):
        yield "fragment does not say why it is one", "begin it with `# fragment: why`"
    if fence.info == "python example" and not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        yield "example asserts nothing", "assert what the example shows"


@dataclass(frozen=True)
class Node:
    name: str
    start: int  # counting decorators and the comment block directly above
    end: int
    lines: list[str]


def name_of(node: ast.stmt) -> str:
    if isinstance(node, ast.Assign):
        return " = ".join(ast.unparse(target) for target in node.targets)
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node.target)
    return getattr(node, "name", None) or ast.unparse(node).split("\n")[0]


def nodes(source: str) -> list[Node]:
    """The top-level nodes of a module."""
    lines, found, previous = source.split("\n"), [], 0
    for node in ast.parse(source).body:
        start = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
        while start - 1 > previous and lines[start - 2].startswith("#"):
            start -= 1
        end = node.end_lineno
        while end < len(lines) and re.match(r"\s+#", lines[end]):  # a comment that ends the body
            end += 1
        found.append(Node(name_of(node), start, end, lines[start - 1 : end]))
        previous = end
    return found


def public_names(source: str) -> list[str]:
    """The entries of `__all__`, read without importing."""
    assigned = [node for node in ast.parse(source).body if isinstance(node, ast.Assign) and name_of(node) == "__all__"]
    return [name for node in assigned for name in ast.literal_eval(node.value) if name not in NOT_REWARDS]


def check_synced(root: Path) -> Iterator[Finding]:
    """Synced fences equal their script, and show every public reward."""
    for path, script in SYNCED.items():
        document, source = read(root, path), (root / script).read_text(encoding="utf-8")
        defined, shown = nodes(source), set()
        for fence in fences(document, "python"):
            try:
                in_fence = nodes(fence.code)
            except SyntaxError:  # reported by check_fences
                continue
            shown |= {node.name for node in in_fence}
            for node in in_fence:
                yield from node_drift(document, fence, node, script, [n for n in defined if n.name == node.name])
        public = public_names(source)
        if not public:
            yield Finding(script, 1, "`__all__` names no reward", "assign a literal list of names to `__all__`")
        hidden = [f"`{name}`" for name in public if name not in shown]
        if hidden:
            what = f"no synced fence shows {', '.join(hidden)} of {script}"
            yield Finding(path, 1, what, "show each name of `__all__` in a `python` fence")


def node_drift(document: Document, fence: Fence, node: Node, script: str, same: list[Node]) -> Iterator[Finding]:
    """The difference between one node of a fence and the script's nodes of its name."""
    line = fence.line + node.start
    if not same:
        repair = "use the script's name for it, or make the fence `python example`"
        yield Finding(document.path, line, f"`{node.name}` is not at the top level of {script}", repair)
    elif all(node.lines != other.lines for other in same):
        want, place = same[0].lines, f"{script}:{same[0].start}"
        edit, repair = None, "copy the script's text by hand: a line closes the fence, or several nodes have the name"
        if len(same) == 1 and not any(text.strip().startswith(fence.markup) for text in want):
            marks = document.lines[line - 1].removesuffix(node.lines[0])  # of the list or quote around
            edit = (line, fence.line + node.end, [(marks + text).rstrip() for text in want])
            repair = f"edit {script}, then run `pytest --fix`"
        diff = diff_of(node.lines, want, f"{document.path}:{line}", place)
        yield Finding(document.path, line, f"`{node.name}` differs from {place}", repair, diff, edit)


def shown_source(document: Document) -> str:
    """The synced fences of a document, each line of code at its line number in the document."""
    lines: list[str] = []
    for fence in fences(document, "python"):
        lines += [""] * (fence.line - len(lines)) + fence.code.split("\n")[:-1]
    return "\n".join(lines) + "\n"


def assemble(root: Path, path: str) -> types.ModuleType:
    """Run the synced fences of a document, and nothing else, in a new module."""
    module = types.ModuleType(f"shown_{len(sys.modules)}")
    module.__file__ = str(root / path)
    sys.modules[module.__name__] = module  # pickle and dataclasses look a class's module up there
    exec(compile(shown_source(read(root, path)), module.__file__, "exec", dont_inherit=True), vars(module))
    return module


def check_assembled(root: Path) -> Iterator[Finding]:
    """Synced fences run by themselves and define every name they use; then the document's examples pass, in order."""
    for document in documents(root):
        line, what = 1, "synced fences do not run alone"
        try:
            module = assemble(root, document.path)
            missing = list(undefined_names(document))
            yield from missing
            for fence in fences(document, "python example") if not missing else ():
                line, what = fence.line, "example fails"
                code = compile("\n" * fence.line + fence.code, module.__file__, "exec", dont_inherit=True)
                exec(code, vars(module))
        except (Exception, SystemExit) as error:
            frames = reversed(traceback.extract_tb(error.__traceback__))
            line = next((frame.lineno for frame in frames if frame.filename == str(root / document.path)), line)
            what += f": {type(error).__name__}: {error}"
            yield Finding(document.path, line, what, "correct the code, or show what it needs above it")


def undefined_names(document: Document) -> Iterator[Finding]:
    """Names that shown functions use and no fence defines: helpers the reader would miss."""
    module = symtable.symtable(shown_source(document), document.path, "exec")
    defined = {*dir(builtins), "__name__", "__file__"}
    defined |= {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    tables = module.get_children()
    for table in tables:
        tables += table.get_children()
        used = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
        for name in sorted(used - defined):
            what = f"`{table.get_name()}` uses `{name}`, which no synced fence shows"
            yield Finding(document.path, table.get_lineno(), what, f"show `{name}` too")


# ---- generated blocks and the mirror


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python script without colour and with a fixed width."""
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    options = {"cwd": root, "env": environment, "capture_output": True, "encoding": "utf-8"}
    return subprocess.run([sys.executable, *words], **options, timeout=COMMAND_TIMEOUT)


def check_generated(root: Path) -> Iterator[Finding]:
    """What stands between `<!-- generated: COMMAND -->` and `<!-- /generated -->` is what the command prints."""
    for document in documents(root):
        markers = [(n, text) for n, text in unfenced_lines(document) if re.match(r"\s*<!--\s*/?generated", text)]
        for (start, opening), (end, closing) in itertools.zip_longest(markers[::2], markers[1::2], fillvalue=(0, "")):
            command = GENERATED.fullmatch(opening)
            if not command or closing != GENERATED_END:
                repair = f"write `<!-- generated: python scripts/NAME.py … -->`, the block, `{GENERATED_END}`"
                yield Finding(document.path, start, "generated block is not opened and closed as it must", repair)
                break
            yield from block_drift(root, document, start, end, command[1])


def block_drift(root: Path, document: Document, start: int, end: int, command: str) -> Iterator[Finding]:
    result = run(root, *shlex.split(command)[1:])
    have = "\n".join(document.lines[start : end - 1]).strip("\n").split("\n")
    want = result.stdout.strip("\n").split("\n")
    if result.returncode or want == [""]:
        what = f"`{command}` failed or printed nothing: {result.stderr.strip()[-500:]}"
        yield Finding(document.path, start, what, "repair the command or the script")
    elif have != want:
        diff = diff_of(have, want, f"{document.path}:{start + 1}", command)
        what, edit = "generated block differs from its command", (start + 1, end - 1, ["", *want, ""])
        yield Finding(document.path, start, what, "run `pytest --fix`", diff, edit)


def files_below(folder: Path) -> set[str]:
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if "__pycache__" not in path.parts}


def mirror_differences(root: Path) -> Iterator[tuple[str, str, str]]:
    """Source, copy, and "a symbolic link", "extra", "missing" or "different"."""
    pairs = [MANIFEST]
    for top in MIRRORED:
        names = sorted(files_below(root / top) | files_below(root / SKILL / top))
        pairs += [(f"{top}/{name}", f"{SKILL}/{top}/{name}") for name in names]
    for source, copy in pairs:
        if (root / copy).exists() and (root / copy).resolve() != root.resolve() / copy:
            yield source, copy, "a symbolic link"  # packagers drop it
        elif not (root / source).is_file():
            yield source, copy, "extra"
        elif not (root / copy).is_file():
            yield source, copy, "missing"
        elif (root / source).read_bytes() != (root / copy).read_bytes():
            yield source, copy, "different"


def check_mirror(root: Path) -> Iterator[Finding]:
    """The skill folder and .claude-plugin/ hold byte copies, as regular files."""
    for top in MIRRORED:
        if not files_below(root / top):
            yield Finding(top, 1, "no file to mirror", f"restore {top}/")
    for source, copy, state in mirror_differences(root):
        diff = ""
        if state == "different":
            have, want = ((root / path).read_text(encoding="utf-8").split("\n") for path in (copy, source))
            diff = diff_of(have, want, copy, source)
        repair = f"edit {source}, then run `pytest --fix` (a link: delete it first)"
        yield Finding(copy, 1, f"{state}: not a byte copy of {source}", repair, diff)


def fix_mirror(root: Path) -> Iterator[str]:
    for source, copy, state in mirror_differences(root):
        if state == "extra":
            (root / copy).unlink()
            yield f"{copy}:1 removed: there is no {source}"
        elif state in ("missing", "different"):
            (root / copy).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / source, root / copy)
            yield f"{copy}:1 copied from {source}"


# ---- links, names, shell lines


def anchors(document: Document) -> set[str]:
    """GitHub's anchors of the headings."""
    found, seen = set(), Counter()
    for opening, heading in itertools.pairwise(document.tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in heading.children if child.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return found


def check_links(root: Path) -> Iterator[Finding]:
    """Links and anchors resolve; those of mirrored documents from both places."""
    for document in documents(root):
        places = [SKILL] if document.path.startswith(SKILL) else [""]
        if document.path.startswith(MIRRORED):
            places.append(SKILL)
        for (line, token), place in itertools.product(inline_tokens(document), places):
            target = token.attrs.get("href") or token.attrs.get("src")
            problem = target and link_problem(root / place, document.path.removeprefix(f"{SKILL}/"), target)
            if problem:
                what = f"link `{target}`: {problem} {place or 'the repository'}"
                yield Finding(document.path, line, what, "correct the link or what it names")
    for name in sorted(files_below(root / "scripts")):
        for line, text in enumerate((root / "scripts" / name).read_text(encoding="utf-8").split("\n"), 1):
            if "../SKILL.md" in text:
                what = "names ../SKILL.md, which is in only one of the script's two places"
                yield Finding(f"scripts/{name}", line, what, "say it here")


def link_problem(home: Path, path: str, target: str) -> str | None:
    parts = urlsplit(target)
    if parts.scheme:
        return None
    goal = Path(os.path.normpath((home / path).parent / unquote(parts.path))) if parts.path else home / path
    if not goal.is_relative_to(home):
        return "leaves"
    if not goal.exists():
        return "no such file in"
    if parts.fragment and (goal.suffix != ".md" or unquote(parts.fragment) not in anchors(read(home, str(goal)))):
        return "no such heading in"
    return None


def check_names(root: Path) -> Iterator[Finding]:
    """The prose of the skill and its references names no base model."""
    for path in (f"{SKILL}/SKILL.md", *reference_paths(root)):
        for line, text in unfenced_lines(read(root, path)):
            match = MODEL_NAMES.search(ALLOWED_NAMES.sub("", text))
            if match:
                yield Finding(path, line, f"names the base model `{match[0]}`", "give the size class, link the source")


def check_shell(root: Path) -> Iterator[Finding]:
    """Shell lines that call our scripts or make use scripts, subcommands, flags and targets that exist."""
    for document in documents(root):
        for line, text in shell_lines(document):
            try:
                problems = [problem for words in simple_commands(text) for problem in call_problems(root, words)]
            except ValueError as error:
                problems = [f"`{text}` cannot be read: {error}"]
            for what in problems:
                yield Finding(document.path, line, what, "correct the line, or the script")


def shell_lines(document: Document) -> Iterator[tuple[int, str]]:
    """Lines of shell fences, continuations joined, and code marks, as far as they may call ours."""
    lines = [(line, token.content) for line, token in inline_tokens(document) if token.type == "code_inline"]
    for fence in fences(document, "bash", "sh", "console"):
        for match in re.finditer(r"(?:.*\\\n)*.+", fence.code):
            line = fence.line + 1 + fence.code[: match.start()].count("\n")
            lines.append((line, match[0].replace("\\\n", " ").removeprefix("$ ")))
    return ((line, text) for line, text in lines if re.search(r"\bmake |scripts/\w+\.py", text))


def simple_commands(text: str) -> list[list[str]]:
    """Split a line at `|`, `&&`, `;`, … into the words of each command."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    groups = itertools.groupby(lexer, lambda word: set(word) <= set("();<>|&"))
    return [list(words) for is_separator, words in groups if not is_separator]


def call_problems(root: Path, words: list[str]) -> Iterator[str]:
    words = list(itertools.dropwhile(re.compile(r"\w+=").match, words))
    if words[:1] == ["make"]:
        rules = re.findall(r"^([\w .-]+):(?!=)", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        for word in words[1:]:
            if not re.search(r"^-|=", word) and word not in " ".join(rules).split():
                yield f"`make {word}`: no such target in the Makefile"
    for position, word in enumerate(words):
        script = re.fullmatch(r"(?:.*/)?(scripts/\w+\.py)", word)
        if script and words[0] in ("python", "python3", "uv") and "-m" not in words[:position]:
            yield from script_problems(root, script[1], words[position + 1 :])


def script_problems(root: Path, script: str, arguments: list[str]) -> Iterator[str]:
    known, subcommands = help_of(root, script)
    if not known:
        yield f"`{script}` is missing, or its `--help` fails"
        return
    subcommand = next((word for word in arguments if word in subcommands), None)
    positional = [word for word in arguments if not word.startswith("-")]
    if subcommand:
        known = known | help_of(root, script, subcommand)[0]
    elif subcommands and positional:
        yield f"`{script}` has no subcommand `{positional[0]}`"
    for word in arguments:
        if re.match(r"--?[A-Za-z]", word) and word.split("=")[0] not in known:
            yield f"`{script}` has no flag `{word}`"


@cache
def help_of(root: Path, script: str, *subcommand: str) -> tuple[set[str], list[str]]:
    """Flags and subcommands that argparse's `--help` lists; none when it fails."""
    text = run(root, script, *subcommand, "--help").stdout
    options = " ".join(re.findall(r"^ +(-.*?)(?:  |$)", text, re.MULTILINE))
    subcommands = re.search(r"\{([^{}]+)\} \.\.\.", " ".join(text.split()))
    flags = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", options))
    return flags, subcommands[1].split(",") if subcommands else []


# ---- stamps and repairs


def read_stamp(lines: list[str]) -> tuple[date, dict[str, str], str]:
    """Date, versions by distribution, and hash; ValueError says what is wrong."""
    found = [pattern.fullmatch(line) for pattern, line in zip(STAMP.values(), [*lines, "", ""])]
    if not all(found):
        wrong = found.index(None)
        raise ValueError(f"line {wrong + 1} is not `{list(STAMP)[wrong]}`")
    versions = dict(pair.split(" ") for pair in found[1][1].split(", "))
    return date.fromisoformat(found[0][1]), versions, found[2][1]


def body_hash(lines: list[str]) -> str:
    return sha256("\n".join(lines[len(STAMP) :]).encode()).hexdigest()[:12]


def today() -> date:
    return datetime.now(UTC).date()


def installed(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution).split("+")[0]  # a build tag is no other version
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def check_stamps(root: Path) -> Iterator[Finding]:
    """Each reference carries a valid stamp of its present body; an old one, or one of other versions, is a warning."""
    for path in reference_paths(root):
        for line, what, warning in stamp_problems(read(root, path).lines):
            yield Finding(path, line, what, "run the whole suite with `pytest --stamp`", warning=warning)


def stamp_problems(lines: list[str]) -> Iterator[tuple[int, str, bool]]:
    """Line, what is wrong, and whether it is only a warning."""
    try:
        verified, versions, body = read_stamp(lines)
    except ValueError as error:
        yield 1, f"bad stamp: {error}", False
        return
    age = (today() - verified).days
    if age < 0:
        yield 1, "verified in the future", False
    if age > MAX_STAMP_AGE:
        yield 1, f"verified {age} days ago, more than {MAX_STAMP_AGE}", True
    for name, version in versions.items():
        if installed(name) != version:
            yield 2, f"verified against {name} {version}; here it is {installed(name)}", True
    if body != body_hash(lines):
        yield 3, "the body changed since it was verified", False


def stamp(root: Path) -> list[str]:
    """Renew every reference's stamp; say so, and list the claims no test vouches for.

    Call it only after a session that passed, as `pytest --stamp` does. Raises ValueError, having written nothing.
    """
    new, said, claims = {}, [], []
    for path in reference_paths(root):
        lines = read(root, path).lines
        against = ", ".join(f"{name} {installed(name)}" for name in read_stamp(lines)[1])
        if "not installed" in against:
            raise ValueError(f"{path}:2: {against}")
        head = [f"Last verified: {today()}", f"Verified against: {against}"]
        new[path] = [*head, f"<!-- body-sha256: {body_hash(lines)} -->", *lines[len(STAMP) :]]
        said.append(f"stamped {path}: {today()}, {against}")
        for number, line in enumerate(lines, 1):
            if re.search(r"retrieved \d{4}-\d\d-\d\d", line):
                claims.append(f"{path}:{number}: {line.strip()}")
    for path, lines in new.items():
        (root / path).write_text("\n".join(lines), encoding="utf-8", newline="\n")
    return [*said, *fix_mirror(root), f"hand-sourced claims that this does not vouch for: {len(claims)}", *claims]


def fix(root: Path) -> list[str]:
    """Rewrite fences and generated blocks, then copy the mirror; say each change."""
    changes = []
    for check in (check_synced, check_generated):
        findings = [finding for finding in check(root) if finding.edit]
        for finding in sorted(findings, key=lambda finding: finding.line, reverse=True):  # the last line first
            lines, (first, last, new) = read(root, finding.path).lines, finding.edit
            lines[first - 1 : last] = new
            (root / finding.path).write_text("\n".join(lines), encoding="utf-8", newline="\n")
            changes.append(f"{finding.path}:{finding.line} {finding.what}")
    return [f"fixed {change}" for change in [*changes, *fix_mirror(root)]]
