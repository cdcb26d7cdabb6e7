"""Hold the documents to the code they describe.

One rule per function: `check_*(root)` takes the repository root and returns findings, none when clean.
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
import os
import re
import shlex
import shutil
import subprocess
import symtable
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from difflib import unified_diff
from functools import cache, wraps
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

DOCUMENTS = {"references/reward-library.md": "scripts/rewards.py"}  # document with synced fences: its script
NOT_REWARDS = {"main", "lint"}  # names in a script's `__all__` that need not be shown
PYTHON_FENCES = ("python", "python example", "python fragment")
SHELLS = ("bash", "sh", "shell", "zsh", "console")
GENERATED, GENERATED_END = re.compile(r"<!-- generated: (.+) -->"), "<!-- /generated -->"
COMMAND_TIMEOUT = 60  # seconds, for a generated block's command and for `--help`

MAX_STAMP_AGE = 180  # days
STAMP_DATE = re.compile(r"Last verified: (\d{4}-\d{2}-\d{2})")
STAMP_VERSIONS = re.compile(r"Verified against: ([\w.-]+ \d[\w.+!]*(?:, [\w.-]+ \d[\w.+!]*)*)")
STAMP_HASH = re.compile(r"<!-- body-sha256: ([0-9a-f]{12}) -->")
FIRST_STAMP = "trl ?, transformers ?"  # the distributions a first stamp names

# Base models age faster than advice: prose gives a size class and a source instead of a name.
MODEL_NAMES = re.compile(
    r"\b(?:(?:Code|Tiny)?Llama|Qwen|QwQ|Mistral|Mixtral|Ministral|Magistral|Codestral|(?:Code)?Gemma|Phi-?\d"
    r"|DeepSeek-?(?:R1|V\d|Math)|SmolLM|SmolVLM|GPT-?\d|gpt-oss|Claude[- ](?:\d|Sonnet|Opus|Haiku)|Gemini|Falcon|OLMo"
    r"|Yi-\d|InternLM|(?:Chat)?GLM-?\d|Kimi|MiniMax-M\d|Nemotron|Granite|Command[- ]R)(?![a-z])",
    re.IGNORECASE,
)
# Place ("code": whole inline code, "link": text of an http(s) link, "any"), pattern, and why it is allowed.
ALLOWED_NAMES = [
    ("code", r"(?=\w*[\d_])[a-z]+\d*[a-z]*(_[a-z0-9]+)*(\.jinja)?", "id of a chat template or a config's model_type"),
    ("link", r"DeepSeekMath", "the paper that introduced GRPO, linked"),
    ("any", r"llama\.cpp|Gemini CLI", "a program, not a model"),
]


@dataclass(frozen=True)
class Edit:
    """Replace lines `start` to `end` (from 1, inclusive) by `lines`."""

    start: int
    end: int
    lines: list[str]


@dataclass(frozen=True)
class Finding:
    """One broken rule at one place; with an `edit` `--fix` can repair it; a `warning` is an error only when strict."""

    path: str
    line: int
    what: str
    fix: str
    diff: str = ""
    edit: Edit | None = None
    warning: bool = False

    def __str__(self) -> str:
        return "\n".join(filter(None, [f"{self.path}:{self.line}: {self.what}", self.diff, f"Fix: {self.fix}"]))


class StampWarning(UserWarning):
    """A stamp that is old or of other versions."""


RULES: list[Callable[[Path], list[Finding]]] = []


def rule(check: Callable[[Path], Iterator[Finding]]) -> Callable[[Path], list[Finding]]:
    @wraps(check)
    def listed(root: Path) -> list[Finding]:
        return list(check(root))

    RULES.append(listed)
    return listed


def diff_of(have: list[str], want: list[str], have_name: str, want_name: str) -> str:
    return "\n".join(unified_diff(have, want, have_name, want_name, lineterm=""))


# ---- reading markdown


@dataclass(frozen=True)
class Document:
    path: str  # from the repository root, with forward slashes
    text: str
    tokens: list[Token] = field(repr=False)

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")


@dataclass(frozen=True)
class Fence:
    line: int  # of the opening fence; the code begins on the next
    info: str
    code: str
    markup: str
    closed: bool

    @property
    def language(self) -> str:
        return self.info.lower().lstrip("{. ").split(" ")[0]


@cache
def parse(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").use(front_matter_plugin).parse(text)


def read(root: Path, path: str) -> Document:
    text = (root / path).read_text(encoding="utf-8")
    return Document(path, text, parse(text))


def reference_paths(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in (root / "references").glob("**/*.md"))


def documents(root: Path, *more: str) -> list[Document]:
    """The documents that exist; `check_documents` reports those that do not."""
    paths = ["README.md", "AGENTS.md", f"{SKILL}/SKILL.md", *more, *reference_paths(root)]
    return [read(root, path) for path in paths if (root / path).is_file()]


def fences(document: Document, info: str | None = None) -> list[Fence]:
    found = []
    for token in document.tokens:
        if token.type == "fence":
            start, end = token.map
            closed = end - start == token.content.count("\n") + 2
            found.append(Fence(start + 1, token.info.strip(), token.content, token.markup, closed))
    return [fence for fence in found if info in (None, fence.info)]


def inline_tokens(document: Document) -> Iterator[tuple[int, Token, str]]:
    """Each inline token with its line and the address of the link around it."""
    for token in document.tokens:
        if token.type == "inline":
            line, address = token.map[0] + 1, ""
            for child in token.children:
                if child.type in ("softbreak", "hardbreak"):
                    line += 1
                elif child.type in ("link_open", "link_close"):
                    address = str(child.attrs.get("href", ""))
                yield line, child, address


@rule
def check_documents(root: Path) -> Iterator[Finding]:
    """Every document the other rules read is there."""
    wanted = {"README.md", "AGENTS.md", "CHANGELOG.md", f"{SKILL}/SKILL.md", *DOCUMENTS, *DOCUMENTS.values()}
    for path in sorted(wanted):
        if not (root / path).is_file():
            yield Finding(path, 1, "file is missing", "write it, or take it out of tests/docsync.py")


# ---- fences


@rule
def check_fences(root: Path) -> Iterator[Finding]:
    """Every Python fence is of a known kind, parses, and stands where the other rules see it."""
    for document in documents(root):
        for fence in fences(document):
            for line, what, fix in fence_problems(fence, document.path in DOCUMENTS):
                yield Finding(document.path, line, what, fix)
        for token in document.tokens:
            if token.type == "html_block" and re.search(r"^\s*(```|~~~)", token.content, re.MULTILINE):
                what, fix = "a fence in this HTML block is not code to markdown", "put an empty line above the fence"
                yield Finding(document.path, token.map[0] + 1, what, fix)


def fence_problems(fence: Fence, has_script: bool) -> Iterator[tuple[int, str, str]]:
    if not fence.closed:
        yield fence.line, "fence is never closed", f"close it with {fence.markup}"
    if not fence.language.startswith("python") and fence.language not in ("py", "py3", "pycon"):
        return
    if fence.info not in PYTHON_FENCES:
        fix = "write `python` (synced), `python example` (executed) or `python fragment` (parsed only)"
        yield fence.line, f"unknown info string `{fence.info}`", fix
    try:
        tree = ast.parse(fence.code)
    except SyntaxError as error:
        yield fence.line + (error.lineno or 0), f"fence does not parse: {error.msg}", "write Python that parses"
        return
    if fence.info == "python" and not has_script:
        fix = "write `python example` or `python fragment`, or name its script in DOCUMENTS"
        yield fence.line, "synced fence in a document that has no script", fix
    if fence.info == "python" and not tree.body:
        yield fence.line, "synced fence holds no code", "fill it or delete it"
    if fence.info == "python fragment" and not re.match(r"# fragment: \S", fence.code):
        yield fence.line, "fragment does not say why it is one", "begin it with `# fragment: why`"
    if fence.info == "python example" and not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        yield fence.line, "example asserts nothing", "assert what the example shows"


@dataclass(frozen=True)
class Node:
    name: str
    start: int  # counting decorators and the comment block directly above
    end: int
    lines: list[str]


def name_of(node: ast.stmt) -> str:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.Assign):
        return " = ".join(ast.unparse(target) for target in node.targets)
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return ast.unparse(node.target)
    return ast.unparse(node).split("\n")[0]


def nodes(source: str) -> list[Node]:
    """The top-level nodes of a module."""
    lines, found, previous = source.split("\n"), [], 0
    for node in ast.parse(source).body:
        start = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
        while start - 1 > previous and lines[start - 2].startswith("#"):
            start -= 1
        end = node.end_lineno
        while re.match(r"\s+#", lines[end] if end < len(lines) else ""):  # an indented comment that ends a body
            end += 1
        found.append(Node(name_of(node), start, end, lines[start - 1 : end]))
        previous = end
    return found


def public_names(source: str) -> list[str]:
    """The entries of `__all__`, read without importing; none when it is missing or not a literal."""
    for node in ast.parse(source).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and name_of(node) == "__all__":
            try:
                return [name for name in ast.literal_eval(node.value) if name not in NOT_REWARDS]
            except ValueError:
                return []
    return []


@rule
def check_synced(root: Path) -> Iterator[Finding]:
    """Synced fences equal their script, and show every public reward."""
    for path, script in DOCUMENTS.items():
        if not (root / path).is_file() or not (root / script).is_file():
            continue  # reported by check_documents
        document, source = read(root, path), (root / script).read_text(encoding="utf-8")
        try:
            defined, public = nodes(source), public_names(source)
        except SyntaxError as error:
            yield Finding(script, error.lineno or 1, f"does not parse: {error.msg}", "repair the script")
            continue
        shown: set[str] = set()
        for fence in fences(document, "python"):
            yield from fence_drift(document, fence, script, source, defined, shown)
        if not shown:
            yield Finding(path, 1, "no synced fence", f"show {script} in a `python` fence")
        if not public:
            yield Finding(script, 1, "`__all__` names no reward", "assign a literal list of names to `__all__`")
        for name in public:
            if name not in {node.name for node in defined}:
                yield Finding(script, 1, f"`__all__` names `{name}`, which is not defined", "define it or delete it")
            elif shown and name not in shown:
                what = f"public `{name}` of {script} appears in no synced fence"
                yield Finding(path, 1, what, f"show `{name}` in a `python` fence")


def fence_drift(
    document: Document, fence: Fence, script: str, source: str, defined: list[Node], shown: set[str]
) -> Iterator[Finding]:
    """Differences between one fence and its script; adds the names the fence defines to `shown`."""
    try:
        in_fence = nodes(fence.code)
    except SyntaxError:  # reported by check_fences
        return
    shown |= {node.name for node in in_fence}
    for node in in_fence:
        line, same = fence.line + node.start, [other for other in defined if other.name == node.name]
        if not same:
            fix = "use the script's name for it, or make the fence `python example`"
            yield Finding(document.path, line, f"`{node.name}` is not at the top level of {script}", fix)
        elif not any(node.lines == other.lines for other in same):
            place, fix = f"{script}:{same[0].start}", f"edit {script}, then run `pytest --fix`"
            edit = fence_edit(document, fence, node, same)
            if edit is None:
                fix = f"copy the script's text by hand ({fence.markup} in it, or several nodes of that name)"
            diff = diff_of(node.lines, same[0].lines, f"{document.path}:{line}", place)
            yield Finding(document.path, line, f"`{node.name}` differs from {place}", fix, diff, edit)
    in_a_node = {number for node in in_fence for number in range(node.start, node.end + 1)}
    for number, text in enumerate(fence.code.split("\n"), 1):
        if text.lstrip().startswith("#") and number not in in_a_node and text not in source.split("\n"):
            what, fix = f"comment `{text.strip()}` is not in {script}", "move it to the text around the fence"
            yield Finding(document.path, fence.line + number, what, fix)


def fence_edit(document: Document, fence: Fence, node: Node, same: list[Node]) -> Edit | None:
    """Put the script's text in place of a node, behind the marks of the list or quote around; None when unsure."""
    first = next(number for number, text in enumerate(fence.code.split("\n")) if text.strip())
    raw, text = document.lines[fence.line + first], fence.code.split("\n")[first]
    unsafe = any(line.strip().startswith(fence.markup) for line in same[0].lines)  # would close the fence
    if len(same) > 1 or unsafe or not raw.endswith(text):
        return None
    prefix = raw.removesuffix(text)
    lines = [prefix + line if line else prefix.rstrip() for line in same[0].lines]
    return Edit(fence.line + node.start, fence.line + node.end, lines)


# ---- running what is shown


def assembled_source(document: Document) -> str:
    """The synced fences of a document, each line of code at its line number in the document."""
    lines: list[str] = []
    for fence in fences(document, "python"):
        lines += [""] * (fence.line - len(lines)) + fence.code.split("\n")[:-1]
    return "\n".join(lines) + "\n"


def assemble(path: str | Path, root: Path = ROOT, name: str = "") -> types.ModuleType:
    """Run the synced fences of a document, and nothing else, in a new module registered in `sys.modules`.

    Tracebacks and `inspect.getsource` show the document, because the code keeps its line numbers.
    """
    document = read(root, (root / path).relative_to(root).as_posix())
    module = types.ModuleType(name or "assembled_" + re.sub(r"\W", "_", Path(path).stem))
    module.__file__ = str(root / path)
    sys.modules[module.__name__] = module  # pickle and dataclasses look a class's module up there
    execute(assembled_source(document), module)
    return module


def execute(source: str, module: types.ModuleType) -> None:
    exec(compile(source, module.__file__, "exec", dont_inherit=True), module.__dict__)


@rule
def check_assembled(root: Path) -> Iterator[Finding]:
    """Synced fences run by themselves and define every name they use; then the document's examples pass, in order."""
    for document in documents(root):
        examples = fences(document, "python example")
        if document.path not in DOCUMENTS and not examples:
            continue
        line, what, fix = 1, "synced fences do not run alone", "show what they need above them"
        try:
            module = assemble(document.path, root, "examples_" + re.sub(r"\W", "_", document.path))
            missing = list(undefined_names(document, vars(module)))
            yield from missing
            for fence in examples if not missing else ():
                line, what, fix = fence.line, "example fails", "correct the example, or the script it shows"
                execute("\n" * fence.line + fence.code, module)
        except (Exception, SystemExit) as error:
            frames = reversed(traceback.extract_tb(error.__traceback__))
            line = next((frame.lineno for frame in frames if frame.filename == str(root / document.path)), line)
            yield Finding(document.path, line, f"{what}: {type(error).__name__}: {error}".rstrip(": "), fix)


def undefined_names(document: Document, defined: dict[str, object]) -> Iterator[Finding]:
    """Names that shown functions use and no fence defines: helpers the reader would miss."""
    for owner in symtable.symtable(assembled_source(document), document.path, "exec").get_children():
        tables, used = [owner], set()
        while tables:
            table = tables.pop()
            tables += table.get_children()
            used |= {name.get_name() for name in table.get_symbols() if name.is_global() and name.is_referenced()}
        for name in sorted(used - set(defined) - set(dir(builtins))):
            what = f"`{owner.get_name()}` uses `{name}`, which no synced fence shows"
            yield Finding(document.path, owner.get_lineno(), what, f"show `{name}` too")


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a script of ours, without colour and with a fixed width."""
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    environment |= {"COLUMNS": "120", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    options = {"cwd": root, "env": environment, "capture_output": True, "encoding": "utf-8"}
    try:
        return subprocess.run([sys.executable, *words], **options, timeout=COMMAND_TIMEOUT)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 1, "", f"no answer within {COMMAND_TIMEOUT} s")


# ---- generated blocks


@rule
def check_generated(root: Path) -> Iterator[Finding]:
    """What stands between `<!-- generated: COMMAND -->` and `<!-- /generated -->` is what the command prints."""
    for document in documents(root):
        markers = generated_markers(document)
        problem = marker_problem(markers)
        if problem:
            yield Finding(document.path, *problem)
            continue
        for (start, opening, _), (end, _, _) in zip(markers[::2], markers[1::2], strict=True):
            command = GENERATED.fullmatch(opening)[1]
            what, fix, want = generated_text(root, command)
            have = "\n".join(document.lines[start : end - 1]).strip("\n").split("\n")
            if what:
                yield Finding(document.path, start, f"`{command}` {what}", fix)
            elif have != want:
                diff = diff_of(have, want, f"{document.path}:{start + 1}", command)
                what, edit = "generated block differs from its command", Edit(start + 1, end - 1, ["", *want, ""])
                yield Finding(document.path, start, what, "run `pytest --fix`", diff, edit)


def generated_markers(document: Document) -> list[tuple[int, str, bool]]:
    """Line, text, and whether it stands alone outside lists and quotes, of each marker."""
    markers = []
    for token in document.tokens:
        for part in [token, *(token.children or [])]:
            text = part.content.strip()
            if part.type in ("html_block", "html_inline") and re.search(r"<!--\s*/?generated", text):
                known = text == GENERATED_END or GENERATED.fullmatch(text) is not None
                markers.append((token.map[0] + 1, text, part is token and not token.level and known))
    return markers


def marker_problem(markers: list[tuple[int, str, bool]]) -> tuple[int, str, str] | None:
    for position, (line, text, alone) in enumerate(markers):
        if not alone:
            fix = "write it as documented, on its own line, outside lists and quotes"
            return line, "marker of a generated block is not alone on its line", fix
        if position % 2 and text != GENERATED_END:
            return line, "generated block inside another", f"close the one above with {GENERATED_END}"
        if not position % 2 and text == GENERATED_END:
            return line, "end of a generated block that was not opened", "delete it, or open the block"
    return (markers[-1][0], "generated block is never closed", f"write {GENERATED_END}") if len(markers) % 2 else None


def generated_text(root: Path, command: str) -> tuple[str, str, list[str]]:
    """What is wrong with a command, how to repair it, and the lines it prints."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if words[:1] != ["python"] or not re.fullmatch(r"scripts/\w+\.py", "".join(words[1:2])):
        return "is refused", "use `python scripts/NAME.py …`", []
    result = run(root, *words[1:])
    if result.returncode:
        return f"failed: {result.stderr.strip()[-500:]}", "repair the command or the script", []
    if not result.stdout.strip():
        return "printed nothing", "print the table on stdout", []
    if "<!--" in result.stdout:
        return "printed an HTML comment, which could end the block", "print markdown without comments", []
    return "", "", result.stdout.strip("\n").split("\n")


# ---- mirror


def files_below(folder: Path) -> set[str]:
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if "__pycache__" not in path.parts}


def mirror_differences(root: Path) -> Iterator[tuple[str, str, str]]:
    """Source, copy, and "missing", "extra" or "different"; a folder without files is left alone."""
    pairs = [MANIFEST] if (root / MANIFEST[0]).is_file() else []
    for top in MIRRORED:
        names = files_below(root / top)
        names |= files_below(root / SKILL / top) if names else set()
        pairs += [(f"{top}/{name}", f"{SKILL}/{top}/{name}") for name in sorted(names)]
    for source, copy in pairs:
        if not (root / source).is_file():
            yield source, copy, "extra"
        elif not (root / copy).is_file():
            yield source, copy, "missing"
        elif (root / source).read_bytes() != (root / copy).read_bytes():
            yield source, copy, "different"


def symbolic_links(root: Path) -> list[Path]:
    tops = [root / top for top in (*MIRRORED, *MANIFEST, "skills", ".claude-plugin")]
    below = [path for top in tops if not top.is_symlink() for path in top.rglob("*")]
    return sorted({path for path in (*tops, *below) if path.is_symlink()})


@rule
def check_mirror(root: Path) -> Iterator[Finding]:
    """The skill folder and .claude-plugin/ hold byte copies of the sources, as regular files."""
    for path in symbolic_links(root):
        fix = "make it a regular file: packagers drop symbolic links"
        yield Finding(path.relative_to(root).as_posix(), 1, "symbolic link", fix)
    for source in (*MIRRORED, MANIFEST[0]):
        if not files_below(root / source) and not (root / source).is_file():
            yield Finding(source, 1, "no file to mirror", f"restore {source}")
    for source, copy, state in mirror_differences(root):
        diff = ""
        if state == "different":
            have, want = ((root / path).read_text(encoding="utf-8", errors="replace") for path in (copy, source))
            diff = diff_of(have.split("\n"), want.split("\n"), copy, source)
        yield Finding(copy, 1, f"{state}: not a byte copy of {source}", f"edit {source}, then run `pytest --fix`", diff)


def fix_mirror(root: Path) -> list[str]:
    changes = []
    if symbolic_links(root):  # removing an extra through a link would remove the source
        return changes
    for source, copy, state in list(mirror_differences(root)):
        if state == "extra":
            (root / copy).unlink()
            changes.append(f"{copy}:1 removed: there is no {source}")
        else:
            (root / copy).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / source, root / copy)
            changes.append(f"{copy}:1 copied from {source}")
    return changes


# ---- links


def anchors(document: Document) -> set[str]:
    """GitHub's anchors of the headings."""
    found: set[str] = set()
    for heading, token in zip(document.tokens, document.tokens[1:], strict=False):
        if heading.type == "heading_open":
            text = "".join(child.content for child in token.children if child.type in ("text", "code_inline"))
            slug = base = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            repeated = 0
            while slug in found:
                repeated += 1
                slug = f"{base}-{repeated}"
            found.add(slug)
    return found


@rule
def check_links(root: Path) -> Iterator[Finding]:
    """Links and anchors resolve; those of mirrored documents from both places."""
    for document in documents(root, "CHANGELOG.md"):
        for line, token, _ in inline_tokens(document):
            target = token.attrs.get({"link_open": "href", "image": "src"}.get(token.type, ""))
            problem = None if target is None else link_problem(root, document.path, str(target))
            if problem:
                yield Finding(document.path, line, f"link `{target}`: {problem}", "correct the link or what it names")
    for name in sorted(files_below(root / "scripts")):
        lines = (root / "scripts" / name).read_text(encoding="utf-8", errors="replace").split("\n")
        for number, line in enumerate(lines, 1):
            if "../SKILL.md" in line:
                fix = "say it here: that path exists in only one of the script's two places"
                yield Finding(f"scripts/{name}", number, "mirrored script names ../SKILL.md", fix)


def link_problem(root: Path, path: str, target: str) -> str | None:
    parts = urlsplit(target)
    if parts.scheme in ("http", "https"):
        known = re.fullmatch(r"(localhost|([\w-]+\.)+[a-z]{2,})(:\d+)?", parts.netloc, re.IGNORECASE)
        return None if known else "the address has no valid host"
    if parts.scheme or parts.netloc or target.startswith("/"):
        return None if parts.scheme == "mailto" else "neither relative nor http(s)"
    in_skill = path.startswith(SKILL)
    path = path.removeprefix(f"{SKILL}/")
    for place in [SKILL] if in_skill else ["", SKILL] if path.startswith(MIRRORED) else [""]:
        goal = os.path.normpath(Path(path).parent / unquote(parts.path)) if parts.path else path
        file, where = root / place / goal, f"in {place or 'the repository'}"
        if goal.startswith(".."):
            return f"leaves the folder {place or 'of the repository'}"
        if not file.exists():
            return f"no such file {where}"
        if parts.fragment and not (file.suffix == ".md" and unquote(parts.fragment) in anchors(read(root, str(file)))):
            return f"no such heading {where}"
    return None


# ---- model names


@rule
def check_names(root: Path) -> Iterator[Finding]:
    """The prose of the skill and its references names no base model."""
    for document in documents(root):
        for line, text, where in prose(document) if document.path not in ("README.md", "AGENTS.md") else ():
            for match in MODEL_NAMES.finditer(text):
                if not any(name_is_allowed(text, match, where, *entry) for entry in ALLOWED_NAMES):
                    what, fix = f"names the base model `{match[0]}`", "give the size class and link the source"
                    yield Finding(document.path, line, what, fix)
                    break


def prose(document: Document) -> Iterator[tuple[int, str, str]]:
    """Line, text and kind ("code", "link" or "text"), without addresses, fenced code and HTML comments."""
    for token in document.tokens:
        if token.type in ("front_matter", "code_block", "html_block") and not token.content.startswith("<!--"):
            first = token.map[0] + (2 if token.type == "front_matter" else 1)
            for line, text in enumerate(token.content.split("\n"), first):
                yield line, re.sub(r"https?://\S+", "", text), "text"
    for line, token, address in inline_tokens(document):
        if token.type in ("text", "code_inline", "image"):
            linked = "link" if address.startswith(("http://", "https://")) else "text"
            where = "code" if token.type == "code_inline" else linked
            yield line, re.sub(r"https?://\S+", "", token.content), where


def name_is_allowed(text: str, match: re.Match[str], where: str, place: str, pattern: str, reason: str) -> bool:
    if place == "code":
        return where == "code" and re.fullmatch(pattern, text) is not None
    return place in (where, "any") and re.compile(pattern).match(text, match.start()) is not None


# ---- shell lines


@rule
def check_shell(root: Path) -> Iterator[Finding]:
    """Shell lines that call our scripts or make use scripts, subcommands, flags and targets that exist."""
    for document in documents(root):
        for line, text in shell_lines(document):
            try:
                problems = [problem for words in simple_commands(text) for problem in call_problems(root, words)]
            except ValueError as error:
                problems = [f"`{text}` cannot be read: {error}"] if "scripts/" in text else []
            for what in problems:
                yield Finding(document.path, line, what, "correct the line, or the script")


def shell_lines(document: Document) -> Iterator[tuple[int, str]]:
    """Lines of shell fences, continuations joined; and inline code."""
    for fence in fences(document):
        start, pending = 0, ""
        for number, text in enumerate(fence.code.split("\n") if fence.language in SHELLS else (), fence.line + 1):
            if fence.language == "console" and not pending and not text.startswith("$ "):
                continue  # output
            start = start if pending else number
            pending += text.strip().removeprefix("$ ").removesuffix("\\")
            if not text.endswith("\\"):
                yield start, pending
                pending = ""
    for line, token, _ in inline_tokens(document):
        if token.type == "code_inline":
            yield line, token.content


def simple_commands(text: str) -> Iterator[list[str]]:
    """Split a line at `|`, `&&`, `;`, … into the words of each command, without leading `NAME=value`."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    for word in lexer:
        if word.startswith("#"):
            break
        if set(word) <= set("();<>|&"):
            yield words
            words = []
        elif words or not re.match(r"\w+=", word):
            words.append(word)
    yield words


def call_problems(root: Path, words: list[str]) -> list[str]:
    if words[:1] == ["make"]:
        makefile = (root / "Makefile").read_text(encoding="utf-8") if (root / "Makefile").is_file() else ""
        rules = re.findall(r"^([\w.-][\w. -]*?)\s*:(?!=)", makefile, re.MULTILINE)
        asked = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return [
            f"`make {word}`: no such target in the Makefile" for word in asked if word not in " ".join(rules).split()
        ]
    for position, word in enumerate(words):
        script = re.fullmatch(r"(?:.*/)?(scripts/\w+\.py)", word)
        if script and words[0] in ("python", "python3", "uv") and "-m" not in words[:position]:
            return script_problems(root, script[1], words[position + 1 :])
    return []


def script_problems(root: Path, script: str, arguments: list[str]) -> list[str]:
    if not (root / script).is_file():
        return [f"`{script}` does not exist"]
    problems, (known, subcommands) = [], help_of(root, script)
    if not known:
        return [f"`python {script} --help` fails or lists nothing"]
    positional = [word for word in arguments if not word.startswith("-")] if subcommands else []
    subcommand = next((word for word in positional if word in subcommands), None)
    if subcommand:
        known = known | help_of(root, script, subcommand)[0]
    elif positional:
        problems.append(f"`{script}` has no subcommand `{positional[0]}`")
    flags = [word.split("=")[0] for word in arguments if re.match(r"--?[A-Za-z]", word)]
    return problems + [f"`{script}` has no flag `{flag}`" for flag in flags if flag not in known]


@cache
def help_of(root: Path, script: str, *subcommand: str) -> tuple[set[str], list[str]]:
    """Flags and subcommands that argparse's `--help` lists."""
    result = run(root, script, *subcommand, "--help")
    if result.returncode:
        return set(), []
    usage = " ".join(result.stdout.split("\n\n")[0].split())
    options = [line.strip() for line in result.stdout.split("\n") if line.lstrip().startswith("-")]
    options = [re.split(r"\s{2,}", line)[0] for line in options]
    subcommands = re.search(r"\{([^}]+)\} \.\.\.", usage)
    flags = re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", " ".join([usage, *options]))
    return set(flags), subcommands[1].split(",") if subcommands else []


# ---- stamp


def stamp_lines(lines: list[str]) -> dict[str | int, int]:
    """Where (from 0) the lines of the stamp stand."""
    found = {}
    for at, line in enumerate(lines[:10]):
        if STAMP_HASH.fullmatch(line):
            found.setdefault("hash", at)
        elif at < 2 and line.startswith(("Last verified:", "Verified against:")[at]):
            found[at] = at
    return found


def body_hash(lines: list[str]) -> str:
    at_stamp = stamp_lines(lines).values()
    return sha256("\n".join(line for at, line in enumerate(lines) if at not in at_stamp).encode()).hexdigest()[:12]


def today() -> date:
    return datetime.now(timezone.utc).date()


def installed(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@rule
def check_stamps(root: Path) -> Iterator[Finding]:
    """Each reference carries a valid stamp of its present body; an old one, or one of other versions, is a warning."""
    for path in reference_paths(root):
        for line, what, warning in stamp_problems(read(root, path).lines):
            yield Finding(path, line, what, "run the whole suite with `pytest --stamp`", warning=warning)


def stamp_problems(lines: list[str]) -> Iterator[tuple[int, str, bool]]:
    """Line, what is wrong, and whether it is only a warning."""
    try:
        age = (today() - date.fromisoformat(STAMP_DATE.fullmatch(lines[0])[1])).days
    except (TypeError, ValueError):
        yield 1, "line 1 is not `Last verified: YYYY-MM-DD`", False
    else:
        if age < 0:
            yield 1, "verified in the future", False
        if age > MAX_STAMP_AGE:
            yield 1, f"verified {age} days ago, more than {MAX_STAMP_AGE}", True
    versions = STAMP_VERSIONS.fullmatch("".join(lines[1:2]))
    if not versions:
        yield 2, "line 2 is not `Verified against: trl X.Y.Z, transformers X.Y.Z, …`", False
    for name, version in (pair.split(" ") for pair in (versions[1].split(", ") if versions else ())):
        if installed(name) != version:
            yield 2, f"verified against {name} {version}; here it is {installed(name)}", True
    at = stamp_lines(lines).get("hash")
    if at is None:
        yield 3, "no `<!-- body-sha256: … -->` in the first 10 lines", False
    elif STAMP_HASH.fullmatch(lines[at])[1] != body_hash(lines):
        yield at + 1, "the body changed since it was verified", False


def stamp(root: Path) -> list[str]:
    """Renew every reference's stamp; say so, and list the claims no test vouches for.

    Call it only after a session that passed, as `pytest --stamp` does. Raises ValueError, and writes nothing, when
    line 2 of a document cannot be renewed.
    """
    new, said, claims = {}, [], []
    for path in reference_paths(root):
        lines = read(root, path).lines
        at, versions = stamp_lines(lines), STAMP_VERSIONS.fullmatch("".join(lines[1:2]))
        names = [pair.split(" ")[0] for pair in (versions[1] if versions else FIRST_STAMP).split(", ")]
        against = ", ".join(f"{name} {installed(name)}" for name in names)
        if (1 in at and not versions) or "not installed" in against:
            raise ValueError(f"{path}:2: {against if versions else lines[1]}")
        mark = f"<!-- body-sha256: {body_hash(lines)} -->"
        body = [mark if here == at.get("hash") else line for here, line in enumerate(lines) if at.get(here) is None]
        head = [f"Last verified: {today()}", f"Verified against: {against}", *([] if "hash" in at else [mark])]
        new[path] = head + body
        said.append(f"stamped {path}: {today()}, {against}")
        for number, line in enumerate(new[path], 1):
            if re.search(r"retrieved \d{4}-\d{2}-\d{2}", line):
                claims.append(f"{path}:{number}: {line.strip()}")
    for path, lines in new.items():
        (root / path).write_text("\n".join(lines), encoding="utf-8", newline="\n")
    fix_mirror(root)
    return [*said, f"hand-sourced claims that this does not vouch for: {len(claims)}", *claims]


def fix(root: Path) -> list[str]:
    """Rewrite fences and generated blocks, then copy the mirror; say each change."""
    changes = []
    for check in (check_synced, check_generated):
        findings = [finding for finding in check(root) if finding.edit]
        for path in sorted({finding.path for finding in findings}):
            lines, above = (root / path).read_text(encoding="utf-8").split("\n"), sys.maxsize
            here = [finding for finding in findings if finding.path == path]
            for finding in sorted(here, key=lambda finding: finding.line, reverse=True):  # the last first
                if finding.edit.end < above:  # two nodes on one line cannot both be replaced
                    above = finding.edit.start
                    lines[above - 1 : finding.edit.end] = finding.edit.lines
                    changes.append(f"{path}:{finding.line} {finding.what}")
            (root / path).write_text("\n".join(lines), encoding="utf-8", newline="\n")
    return [f"fixed {change}" for change in changes + fix_mirror(root)]
