"""The settings of a run, from the YAML of `trl grpo --config` or from a training script that is read and never run.

A script is parsed; what its `GRPOConfig(...)` call says with literals, with names that are assigned once, or with
arithmetic on these, is known. Everything else is `unread`: asking for it raises `NotKnown`, so that a check which
needs it ends as "not measured" and not as a guess.
"""

import ast
import difflib
import functools
import importlib.metadata
import importlib.util
import json
import operator
import os
import socket
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CONFIGS = ("GRPOConfig", "VLMGRPOConfig")
OTHER_CONFIGS = ("RLOOConfig", "AsyncGRPOConfig", "GMPOConfig", "A2POConfig", "SFTConfig", "DPOConfig")
TRAINERS = ("GRPOTrainer",)
SCALARS = {bool: "bool", int: "int", float: "float", str: "str", dict: "dict", list: "list", type(None): "none"}
# What a script gets where ModelConfig is not asked: PEFT's own defaults (peft.LoraConfig).
SCRIPT_DEFAULTS = {"lora_r": 8, "lora_alpha": 8, "lora_dropout": 0.0}
# Keywords of LoraConfig, by the names that `trl grpo` has for them.
LORA = {"lora_r": "r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout",
        "lora_target_modules": "target_modules", "lora_modules_to_save": "modules_to_save"}  # fmt: skip
ADAPTERS = ("LoraConfig", "get_peft_model")
LOADED = ("dtype", "load_in_4bit", "load_in_8bit")  # what loading a model object says of it
# Methods that only read, and calls that leave what they are given as it is.
READS = {"get", "items", "keys", "values", "copy", "index", "count", "to_dict", "to_json_string", "to_sanitized_dict"}
TAKES = {*CONFIGS, *OTHER_CONFIGS, *TRAINERS, *ADAPTERS, "from_pretrained", "BitsAndBytesConfig", "load_dataset",
         "print", "pprint", "len", "repr", "str", "sorted", "list", "tuple", "set", "dict", "sum", "max", "min", "any",
         "all", "enumerate", "zip", "range", "isinstance", "type", "id", "getattr", "hasattr", "dumps", "asdict",
         "info", "debug", "warning", "log"}  # fmt: skip
DELETE = object()  # in changes: the key goes


class ConfigError(ValueError):
    """A config that cannot be read; the message is one line for the user."""


class NotKnown(Exception):
    """What cannot be known here, such as a setting that only running a script would tell; and what mends it."""

    def __init__(self, what: str, fix: str = ""):
        super().__init__(what)
        self.fix = fix


@functools.cache
def beside(name: str) -> dict:
    """A table that lies beside this file."""
    path = Path(__file__).with_name(name)
    if not path.exists():
        raise ConfigError(f"{name} is not beside {Path(__file__).name}: copy it too")
    return json.loads(path.read_text(encoding="utf-8"))


# ---- what TRL takes


def installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def arguments() -> dict[str, dict]:
    """Every argument of `trl grpo` by name: its class, types, default, and choices where there are some.

    From the table that was written from TRL 1.16. If another TRL is installed, its own source is read (not imported)
    for the names of GRPOConfig.

    >>> arguments()["loss_type"]["default"]
    'dapo'
    """
    table = beside("trl_arguments.json")
    known = {
        name: {**entry, "class": owner} for owner, names in table["arguments"].items() for name, entry in names.items()
    }
    now = installed("trl")
    if now is None or now == table["trl"]:
        return known
    fields = fields_in_source()
    mine = {name for name, entry in known.items() if entry["class"] == "GRPOConfig"}
    for name in mine - fields.keys():
        del known[name]
    for name in fields.keys() - known.keys():
        known[name] = {"types": ["object"], "default": fields[name], "class": "GRPOConfig"}
    for name in fields.keys() & mine:
        known[name]["default"] = fields[name]
    return known


def fields_in_source() -> dict[str, Any]:
    """Names and defaults of the installed GRPOConfig, by its source and that of its base classes.

    >>> fields_in_source()["num_generations"]
    8
    """
    fields: dict[str, Any] = {}
    for package, parts, name in (
        ("transformers", "training_args.py", "TrainingArguments"),
        ("trl", "trainer/base_config.py", "_BaseConfig"),
        ("trl", "trainer/grpo_config.py", "GRPOConfig"),
    ):
        spec = importlib.util.find_spec(package)
        path = Path(spec.origin).parent / parts if spec and spec.origin else None
        if path is None or not path.exists():
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                fields |= {
                    item.target.id: _field_default(item.value)
                    for item in node.body
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                }
    return {name: default for name, default in fields.items() if not name.startswith("_")}


def _field_default(node: ast.expr | None) -> Any:
    if isinstance(node, ast.Call):
        node = next((keyword.value for keyword in node.keywords if keyword.arg == "default"), None)
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None


def about_table() -> str:
    """Which TRL the argument checks hold for, as one sentence."""
    table, now = beside("trl_arguments.json"), installed("trl")
    if now is None:
        return f"TRL is not installed here: checked against the bundled table of TRL {table['trl']}"
    if now != table["trl"]:
        return f"names and defaults of the installed TRL {now}, read from its source; all else as in TRL {table['trl']}"
    return f"TRL {now}, as installed"


def hub_answers() -> bool:
    """Whether there is a way to the hub, as far as one connection tells; behind a proxy nobody knows."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    address = urllib.parse.urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    try:
        with socket.create_connection((address.hostname, address.port or 443), timeout=3):
            return True
    except (OSError, TypeError, ValueError):
        return False


@functools.cache
def offline_without_hub() -> None:
    """Else each question to a hub that cannot be reached is put again for half a minute. What is cached is still found.

    Call it before huggingface_hub is imported.
    """
    if not hub_answers():
        os.environ["HF_HUB_OFFLINE"] = "1"


# ---- settings


@dataclass
class Settings:
    """What one file says. `values` holds what is known, `unread` the source text of what is not."""

    path: Path
    kind: str  # "yaml" or "python"
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)  # values of a type that the argument does not take, with why
    anything: str | None = None  # `**settings` in a script: whatever is not written there is not known either
    rewards: list[str] | None = None  # import paths; None: not said, or not known
    local_rewards: list[str] = field(default_factory=list)  # defined in the script itself: reached only by running it
    text: str = ""
    span: tuple[int, int] | None = None  # lines of the call in a script
    in_call: set[str] = field(default_factory=set)  # keys that the GRPOConfig of a script gets, however it gets them
    adapter: tuple[int, int] | None = None  # lines of the LoraConfig (or get_peft_model) call that the trainer gets

    def given(self, name: str) -> bool:
        return name in self.values or name in self.unread

    def get(self, name: str) -> Any:
        """The value that the run will have: the file's, or TRL's default.

        Raises:
            NotKnown: if the file says it in a way that is known only when it is run.
        """
        if name in self.unread:
            raise NotKnown(f"{name} is `{self.unread[name]}` in {self.where(name)}: known only when the script runs")
        if name in self.wrong:
            raise NotKnown(f"{name} is {self.wrong[name]}")
        if name in self.values:
            return self.values[name]
        if self.anything and arguments().get(name, {}).get("class", "GRPOConfig") == "GRPOConfig":
            raise NotKnown(f"{name} may come from `{self.anything}` in {self.path.name}")
        if self.kind == "python" and name in SCRIPT_DEFAULTS:
            return SCRIPT_DEFAULTS[name]
        entry = arguments().get(name)
        return entry["default"] if entry else None

    def where(self, name: str) -> str:
        """`grpo.yaml:12`, or that it is TRL's default."""
        line = self.lines.get(name)
        return f"{self.path.name}:{line}" if line else "TRL's default"

    def say(self, *names: str) -> str:
        """Values with their places, for evidence.

        >>> Settings(Path("grpo.yaml"), "yaml", {"beta": 0.1}, {"beta": 3}).say("beta", "epsilon")
        'beta=0.1 (grpo.yaml:3), epsilon=0.2'
        """
        parts = []
        for name in names:
            shown = self.unread.get(name) or json.dumps(self.get(name), default=str)
            parts.append(f"{name}={shown}" + (f" ({self.where(name)})" if name in self.lines else ""))
        return ", ".join(parts)


def read(path: Path) -> Settings:
    """The settings of a `.yaml` or `.yml` (or `.json`) file, or of a Python script's GRPOConfig call.

    Raises:
        ConfigError: if the file cannot be read as what its name says, or holds no settings.
    """
    line = None
    if not path.exists() and ":" in path.name and path.name.rpartition(":")[2].isdigit():
        name, _, digits = path.name.rpartition(":")
        path, line = path.with_name(name), int(digits)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; give the run's YAML or script") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not text in UTF-8; give the YAML that `trl grpo --config` takes") from None
    if path.suffix == ".py":
        settings = read_script(path, text, line)
    elif path.suffix in (".yaml", ".yml", ".json"):
        settings = read_yaml(path, text)
    else:
        raise ConfigError(f"{path}: by its name neither a YAML (.yaml, .yml, .json) nor a script (.py)")
    settings.text = text
    return settings


def read_yaml(path: Path, text: str) -> Settings:
    try:
        import yaml
    except ImportError:
        raise ConfigError("reading a YAML needs PyYAML: pip install pyyaml") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(found, dict) or not found:
        raise ConfigError(f"{path}: holds no settings; it must be the YAML that `trl grpo --config` takes")
    settings = Settings(path, "yaml")
    for key, _ in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if name in settings.lines:
            raise ConfigError(
                f"{path}:{line}: {name} is given twice (line {settings.lines[name]} too); YAML would keep the last:"
                " remove one"
            )
        settings.lines[name] = line
    settings.values = {str(name): value for name, value in found.items()}
    for name, value in settings.values.items():
        if name in arguments():
            try:
                settings.values[name] = as_parsed(value, arguments()[name]["types"], name)
            except ValueError as error:
                settings.wrong[name] = str(error)
    functions = settings.values.get("reward_funcs")
    settings.rewards = functions if isinstance(functions, list) and all(isinstance(f, str) for f in functions) else None
    return settings


def processes(settings: Settings) -> int | None:
    """Training processes that a YAML asks of `accelerate launch`: num_processes, or what its accelerate_config says.

    None if it asks for nothing, or names a file that is not here. TRL's own files (zero2, ...) are read if it is
    installed.
    """
    if settings.kind != "yaml":
        return None
    count, name = settings.values.get("num_processes"), settings.values.get("accelerate_config")
    if count is None and isinstance(name, str):
        import yaml

        spec = importlib.util.find_spec("trl")
        places = [Path(name), *([Path(spec.origin).with_name("accelerate_configs") / f"{name}.yaml"] if spec else [])]
        for path in places:
            if path.is_file():
                try:
                    said = yaml.safe_load(path.read_text(encoding="utf-8"))
                    count = said.get("num_processes")
                    if said.get("distributed_type") in ("NO", False):  # TRL's single_gpu says 8 processes beside it
                        count = 1
                except (OSError, ValueError, AttributeError, yaml.YAMLError):
                    count = None
                break
    return count if type(count) is int and count > 0 else None


def as_parsed(value: Any, types: list[str], name: str = "") -> Any:
    """A YAML value as the run has it.

    TRL's parser makes a string into the number or the truth value that the argument takes, and hands all else on as it
    is, unchecked.

    Raises:
        ValueError: if it is of no type that the argument takes. The parser refuses it, or GRPOConfig, or the run
            breaks on it later.

    >>> as_parsed("1e-6", ["float"]), as_parsed("yes", ["bool", "none"]), as_parsed(3, ["float"])
    (1e-06, True, 3)
    >>> as_parsed("eight", ["int"])
    Traceback (most recent call last):
    ...
    ValueError: 'eight', and must be int
    """
    if "object" in types or value is None:
        if value is None and "none" not in types and "object" not in types:
            raise ValueError(f"null, and must be {' or '.join(types)}")
        return value
    if isinstance(value, str) and name == "lora_target_modules":
        return value  # ModelConfig hands one string on to PEFT: "all-linear"
    if isinstance(value, str) and "str" not in types:
        truths = dict.fromkeys(("yes", "true", "t", "y", "1"), True) | dict.fromkeys(
            ("no", "false", "f", "n", "0"), False
        )
        if "bool" in types and value.lower() in truths:
            return truths[value.lower()]
        for name, make in (("int", int), ("float", float)):
            if name in types:
                try:
                    return make(value)
                except ValueError:
                    pass
        if "dict" in types and value.lstrip().startswith("{"):
            return json.loads(value)
    elif SCALARS.get(type(value)) in types or (isinstance(value, int) and "float" in types and value is not True):
        return value
    elif isinstance(value, bool) and name == "scale_rewards":
        return value  # TRL maps the truth values itself
    elif value is False and "str" in types:
        raise ValueError("false (a bare no is that in YAML), and must be text: write it in quotes")
    elif isinstance(value, str):
        return value
    raise ValueError(f"{value!r}, and must be {' or '.join(types)}")


# ---- scripts


def read_script(path: Path, text: str, line: int | None = None) -> Settings:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}:{getattr(error, 'lineno', None) or 1}: not Python: {error}") from None
    reader = _Script(tree)
    calls = reader.calls(CONFIGS)
    if not calls:
        other = reader.calls(OTHER_CONFIGS)
        hint = f"it calls {called(other[0])}, which is not checked here" if other else "give the script that makes it"
        raise ConfigError(f"{path}: no call of GRPOConfig in it; {hint}")
    chosen = [call for call in calls if line is None or call.lineno <= line <= (call.end_lineno or call.lineno)]
    if len(chosen) != 1:
        places = ", ".join(f"{path}:{call.lineno}" for call in calls)
        raise ConfigError(f"{path}: {len(calls)} calls of GRPOConfig: name one of {places}")
    call = chosen[0]
    settings = Settings(path, "python", span=(call.lineno, call.end_lineno or call.lineno))
    if len(call.args) > 1 or any(isinstance(arg, ast.Starred) for arg in call.args):
        settings.anything = ", ".join(map(ast.unparse, call.args))[:80]  # by order: nobody writes that
    elif call.args:
        reader.put(settings, "output_dir", call.args[0])
        settings.in_call.add("output_dir")
    for keyword in call.keywords:
        if keyword.arg is None:
            known = reader.value(keyword.value)
            if isinstance(known, dict):
                for name, value in known.items():
                    settings.values[str(name)], settings.lines[str(name)] = value, keyword.value.lineno
                    settings.in_call.add(str(name))
            else:
                settings.anything = f"**{ast.unparse(keyword.value)}"
        else:
            reader.put(settings, keyword.arg, keyword.value)
            settings.in_call.add(keyword.arg)
    reader.later_changes(settings, call)
    reader.model_and_rewards(settings, call)
    for name, value in settings.values.items():
        types = arguments().get(name, {}).get("types", ["object"])
        fits = SCALARS.get(type(value)) in types or "object" in types or (type(value) is int and "float" in types)
        mapped = (name == "scale_rewards" and isinstance(value, bool)) or (
            name == "lora_target_modules" and isinstance(value, str)  # LoraConfig takes it, TRL's parser has a list
        )
        if not (fits or mapped):
            settings.wrong[name] = f"{value!r}, and must be {' or '.join(types)}"
    return settings


def trainer_of(settings: Settings) -> ast.Call | None:
    """The GRPOTrainer call of a script that gets this config, if that can be told."""
    reader = _Script(ast.parse(settings.text))
    return reader.trainer(next(call for call in reader.calls(CONFIGS) if call.lineno == settings.span[0]))[0]


def called(call: ast.Call) -> str:
    """Last part of what is called.

    >>> called(ast.parse("trl.GRPOConfig()", mode="eval").body)
    'GRPOConfig'
    """
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
             ast.Div: operator.truediv, ast.Mod: operator.mod}  # fmt: skip


class _Unread:
    """A value that only running the script would give."""

    def __init__(self, node: ast.expr):
        self.text = ast.unparse(node)[:80]


class _Script:
    """What can be said of a script without running it."""

    def __init__(self, tree: ast.Module):
        self.tree = tree
        self.parent = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self.assigned: dict[str, list[ast.expr | None]] = {}
        self.imported: dict[str, str] = {}
        self.odd: set[str] = set()  # names that loops, arguments, `with` and `global` set
        self.defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    for part in ast.walk(target):
                        if isinstance(part, ast.Name):
                            plain = isinstance(target, ast.Name)
                            self.assigned.setdefault(part.id, []).append(node.value if plain else None)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                self.assigned.setdefault(node.target.id, []).append(node.value)
            elif isinstance(node, ast.AugAssign | ast.NamedExpr | ast.For | ast.comprehension):
                self.odd |= {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
            elif isinstance(node, ast.arg):
                self.odd.add(node.arg)
            elif isinstance(node, ast.Global | ast.Nonlocal):
                self.odd |= set(node.names)
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                self.odd |= {part.id for part in ast.walk(node.optional_vars) if isinstance(part, ast.Name)}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self.imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                self.imported |= {alias.asname or alias.name: alias.name for alias in node.names}
        self.trainers = (
            *TRAINERS,
            *(name for name, path in self.imported.items() if path.endswith(".GRPOTrainer") and name not in TRAINERS),
            *(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
              and any(ast.unparse(base).split(".")[-1] in TRAINERS for base in node.bases)),
        )  # fmt: skip
        for name in self.odd:
            self.assigned.setdefault(name, []).append(None)

    def calls(self, names: tuple[str, ...]) -> list[ast.Call]:
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return sorted((node for node in found if called(node) in names), key=lambda node: node.lineno)

    def once(self, name: str) -> ast.expr | None:
        """What a name stands for, if it is assigned in one place only."""
        values = self.assigned.get(name, [])
        return values[0] if len(values) == 1 and name not in self.imported else None

    def touched(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether what a name holds may be changed: any use of it, or of another name for it, that is no plain read."""
        if name in seen:
            return False
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Name) or node.id != name or isinstance(node.ctx, ast.Store):
                continue
            if isinstance(node.ctx, ast.Del) or self._changes(node, seen | {name}):
                return True
        return False

    def _changes(self, node: ast.expr, seen: frozenset[str]) -> bool:
        up = self.parent[node]
        while True:  # what holds the object, or a part of it
            if isinstance(up, ast.Attribute | ast.Subscript) and up.value is node:
                if not isinstance(up.ctx, ast.Load):
                    return True
                if isinstance(up, ast.Attribute):
                    above = self.parent[up]
                    if up.attr == "__dict__":
                        return True
                    if isinstance(above, ast.Call) and above.func is up:
                        return up.attr not in READS
            elif isinstance(up, ast.Call):
                if called(up) not in TAKES and called(up) not in self.trainers:
                    return True
                if called(up) not in ("dict", "list", "tuple", "set"):
                    return False
            elif isinstance(up, ast.keyword):
                if up.arg is None:  # `**name`: its entries are copied
                    return False
            elif isinstance(up, ast.Assign | ast.AnnAssign | ast.NamedExpr):
                targets = up.targets if isinstance(up, ast.Assign) else [up.target]
                plain = all(isinstance(target, ast.Name) for target in targets)
                return not plain or any(self.touched(target.id, seen) for target in targets)
            elif isinstance(up, ast.Return | ast.Yield | ast.YieldFrom | ast.Lambda | ast.Await | ast.Delete):
                return True
            elif not isinstance(up, ast.List | ast.Tuple | ast.Set | ast.Dict | ast.Starred | ast.IfExp | ast.BoolOp):
                return False  # compared, counted, printed
            node, up = up, self.parent[up]

    def before(self, name: str, use: ast.AST) -> ast.expr | None:
        """What a name holds at a place, if each of its assignments stands in the same straight run of statements.

        Of `model, tokenizer = load()` the call is given for the first name.
        """
        if name in self.imported or name in self.odd:
            return None
        place, found = self.statement(use), None
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if not any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(target)):
                    continue
                if isinstance(target, ast.Attribute | ast.Subscript):
                    continue
                first = (
                    isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name) and target.elts[0].id == name
                )
                if not isinstance(node, ast.Assign | ast.AnnAssign) or not (isinstance(target, ast.Name) or first):
                    return None
                if self.parent[node] is not self.parent[place]:
                    return None
                if node.lineno < place.lineno and (found is None or node.lineno > found.lineno):
                    found = node
        return found.value if found is not None else None

    def statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self.parent[node]
        return node

    def made(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """The call or literal behind names; the name itself, if that is not known."""
        if isinstance(node, ast.Name) and depth < 20:
            held = self.once(node.id) or self.before(node.id, node)
            return node if held is None else self.made(held, depth + 1)
        return node

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """A literal, a name assigned once, arithmetic on these; else `_Unread`."""
        if depth > 20:
            return _Unread(node)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and self.once(node.id) is not None:
            found = self.value(self.once(node.id), depth + 1)
            changed = isinstance(found, list | dict) and self.touched(node.id)
            return _Unread(node) if isinstance(found, _Unread) or changed else found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd | ast.Not):
            inner = self.value(node.operand, depth + 1)
            if isinstance(inner, int | float):
                return -inner if isinstance(node.op, ast.USub) else not inner if isinstance(node.op, ast.Not) else inner
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
            if isinstance(left, int | float) and isinstance(right, int | float):
                try:
                    return OPERATORS[type(node.op)](left, right)
                except (ZeroDivisionError, OverflowError):
                    return _Unread(node)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            parts = [self.value(part, depth + 1) for part in node.elts]
            if not any(isinstance(part, _Unread) for part in parts):
                return parts
        if isinstance(node, ast.Dict) and all(key is not None for key in node.keys):
            keys = [self.value(key, depth + 1) for key in node.keys]
            values = [self.value(value, depth + 1) for value in node.values]
            if not any(isinstance(part, _Unread) for part in (*keys, *values)):
                try:
                    return dict(zip(keys, values))
                except TypeError:
                    return _Unread(node)
        if isinstance(node, ast.Call) and called(node) == "dict" and not node.args:
            parts = {keyword.arg: self.value(keyword.value, depth + 1) for keyword in node.keywords}
            if None not in parts and not any(isinstance(part, _Unread) for part in parts.values()):
                return parts
        if isinstance(node, ast.Attribute) and ast.unparse(node) in DTYPES:
            return DTYPES[ast.unparse(node)]
        return _Unread(node)

    def put(self, settings: Settings, name: str, node: ast.expr) -> None:
        found = self.value(node)
        settings.lines[name] = node.lineno
        settings.values.pop(name, None)
        settings.unread.pop(name, None)
        if isinstance(found, _Unread):
            settings.unread[name] = found.text
        else:
            settings.values[name] = found

    def later_changes(self, settings: Settings, call: ast.Call) -> None:
        """What happens to the config object after the call, under all its names.

        `args.beta = 0.1`, `self.args.beta = 0.1` and `setattr(args, "beta", 0.1)` are read. Where the object goes out
        of sight (passed to a function, put into a list, `vars(args)`), all that was known of it is unread, but for what
        is written below that place.
        """
        names, makers, events = set(), set(), []  # text of the expressions, and the functions, that give the object

        def ours(node: ast.AST) -> bool:
            if node is call:
                return True
            if isinstance(node, ast.Call):
                return called(node) in makers
            return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in names

        size = -1
        while size != len(names) + len(makers):  # a name may be found after its use
            size, events = len(names) + len(makers), []
            for node in ast.walk(self.tree):
                if ours(node) and isinstance(getattr(node, "ctx", None) or ast.Load(), ast.Load):
                    events += self._use_of_config(node, names, makers)
        top = {id(node) for node in self.tree.body}
        far = max((node.lineno for node, *_ in events), default=0) + 1
        for node, name, value in sorted(events, key=lambda event: event[0].lineno if id(event[0]) in top else far):
            if name is None:
                settings.anything = ast.unparse(node)[:80]
                for key in settings.in_call & settings.values.keys():
                    self.maybe(settings, key, node)
            elif value is not None and id(node) in top:
                self.put(settings, name, value)
                settings.in_call.add(name)
            else:
                self.maybe(settings, name, node)

    def _use_of_config(self, node: ast.expr, names: set[str], makers: set[str]) -> list[tuple]:
        """What one use of the config object does: statement, setting (None for any) and value (None if not plain)."""
        up, here = self.parent[node], self.statement(node)
        lost = [(here, None, None)]
        if isinstance(up, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            targets = up.targets if isinstance(up, ast.Assign) else [up.target]
            names |= {ast.unparse(target) for target in targets}
            return [] if all(isinstance(target, ast.Name | ast.Attribute) for target in targets) else lost
        if isinstance(up, ast.Attribute):
            above = self.parent[up]
            if not isinstance(up.ctx, ast.Load):
                plain = isinstance(above, ast.Assign | ast.AnnAssign)
                return [(here, up.attr, above.value if plain else None)]
            if up.attr == "__dict__":
                return lost
            if isinstance(above, ast.Call) and above.func is up:
                return [] if up.attr in READS else lost
            if not self._mutable(up.attr):
                return []
            return [(here, up.attr, None)] if self._changes(up, frozenset()) else []
        outer = self.parent[up] if isinstance(up, ast.keyword) else up
        if isinstance(outer, ast.Call):
            name = called(outer)
            if name == "setattr" and len(outer.args) == 3 and outer.args[0] is node:
                key = self.value(outer.args[1])
                return [(here, key, None)] if isinstance(key, str) else lost
            if name.endswith("Trainer") or name in self.trainers:
                holder = self.parent[outer]
                if isinstance(holder, ast.Assign):
                    names |= {f"{ast.unparse(target)}.args" for target in holder.targets}
                return []
            return [] if name in TAKES - {"dict", "list", "tuple", "set"} else lost
        if isinstance(up, ast.Return):
            while not isinstance(up, ast.FunctionDef | ast.Lambda | ast.Module):
                up = self.parent[up]
            if not isinstance(up, ast.FunctionDef):
                return lost
            makers.add(up.name)
            return []
        reads = (ast.Expr, ast.FormattedValue, ast.Compare, ast.If, ast.UnaryOp)
        return [] if isinstance(up, reads) else lost

    @staticmethod
    def _mutable(name: str) -> bool:
        return bool({"list", "dict", "object"} & set(arguments().get(name, {}).get("types", ["object"])))

    @staticmethod
    def maybe(settings: Settings, name: str, node: ast.AST) -> None:
        """A change in a branch, a loop or a function: it may not happen."""
        settings.in_call.add(name)
        settings.values.pop(name, None)
        settings.lines[name] = node.lineno
        settings.unread[name] = ast.unparse(node)[:80]

    def trainer(self, call: ast.Call) -> tuple[ast.Call | None, str | None]:
        """The trainer that gets this config; and why it cannot be told, if there are trainers and none is it."""
        found = self.calls(self.trainers)
        if not found:
            return None, None
        others = [other for other in self.calls(CONFIGS) if other is not call]
        mine, theirs = [], []
        for one in found:
            given = self.given_to(one).get("args")
            made = None if given is None else self.made(given)
            (mine if made is call else theirs if made in others else []).append(one)
        if len(mine) == 1:
            return mine[0], None
        left = [one for one in found if one not in theirs]
        if not mine and len(left) == 1 and not others:
            return left[0], None
        return None, f"one of {len(found)} GRPOTrainer calls"

    @staticmethod
    def given_to(call: ast.Call) -> dict[str, ast.expr]:
        """Arguments of a GRPOTrainer call by name."""
        found = dict(zip(("model", "reward_funcs", "args", "train_dataset", "eval_dataset"), call.args))
        return found | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}

    def unknown(self, settings: Settings, names: tuple[str, ...], node: ast.AST, text: str | None = None) -> None:
        for name in names:
            if not settings.given(name):
                settings.unread[name] = text or ast.unparse(node)[:80]
                settings.lines[name] = node.lineno

    def model_and_rewards(self, settings: Settings, call: ast.Call) -> None:
        """What the trainer of this config is given, under the names of `trl grpo`."""
        trainer, why = self.trainer(call)
        if trainer is None:
            if why:
                names = ("model_name_or_path", *LOADED, "use_peft", "reward_funcs")
                self.unknown(settings, names, self.calls(self.trainers)[0], why)
            elif self.calls(ADAPTERS):  # the trainer is out of sight, and may take it
                self.unknown(settings, ("use_peft",), self.calls(ADAPTERS)[0])
            return
        given = self.given_to(trainer)
        if any(keyword.arg is None for keyword in trainer.keywords) or any(
            isinstance(one, ast.Starred) for one in trainer.args
        ):
            missing = [name for name in ("model", "reward_funcs", "peft_config") if name not in given]
            under = {
                "model": ("model_name_or_path", *LOADED),
                "reward_funcs": ("reward_funcs",),
                "peft_config": ("use_peft",),
            }
            for name in missing:
                self.unknown(settings, under[name], trainer)
        model = given.get("model")
        if model is not None:
            self.model(settings, model)
        adapter = given.get("peft_config")
        if adapter is not None and self.value(adapter) is not None:
            self.adapter(settings, adapter)
        if "quantization_config" in given:
            self.bits(settings, given["quantization_config"])
        if "reward_funcs" in given:
            self.reward_functions(settings, given["reward_funcs"])

    def model(self, settings: Settings, node: ast.expr) -> None:
        """The model that is trained: its name, or the object, back to how it was loaded."""
        name, held = self.value(node), self.made(node)
        settings.lines["model_name_or_path"] = node.lineno
        if isinstance(name, str):
            settings.values["model_name_or_path"] = name
            return
        settings.unread["model_name_or_path"] = ast.unparse(node)[:80]
        for _ in range(20):
            if isinstance(held, ast.Call) and called(held) == "prepare_model_for_kbit_training" and held.args:
                held = self.made(held.args[0])
                continue
            if not isinstance(held, ast.Call) or called(held) != "get_peft_model":
                break
            keywords = {keyword.arg: keyword.value for keyword in held.keywords if keyword.arg}
            adapter = keywords.get("peft_config") or (held.args[1] if len(held.args) > 1 else None)
            self.adapter(settings, adapter or held)
            inner = keywords.get("model") or next(iter(held.args), None)
            held = self.made(inner) if inner is not None else None
        else:
            held = None
        loads = (
            isinstance(held, ast.Call) and called(held) == "from_pretrained" and "Peft" not in ast.unparse(held.func)
        )
        if not loads:
            self.unknown(settings, (*LOADED, "use_peft"), node)
            return
        if self.calls(("add_adapter", "load_adapter")):
            self.unknown(settings, ("use_peft",), self.calls(("add_adapter", "load_adapter"))[0])
        self.loaded_model(settings, held)

    def adapter(self, settings: Settings, node: ast.expr) -> None:
        """LoRA, if this is a LoraConfig(...) or a name for one."""
        call = self.made(node)
        name = called(call) if isinstance(call, ast.Call) else ""
        settings.lines["use_peft"] = node.lineno
        if name not in ADAPTERS:
            settings.unread["use_peft"] = ast.unparse(node)[:80]
            self.unknown(settings, tuple(LORA), node)
            return
        settings.values["use_peft"], settings.adapter = True, (call.lineno, call.end_lineno or call.lineno)
        renamed = {theirs: ours for ours, theirs in LORA.items()}
        for keyword in call.keywords:
            if keyword.arg in renamed:
                self.put(settings, renamed[keyword.arg], keyword.value)
        spread = any(keyword.arg is None for keyword in call.keywords) or (call.args and name == "LoraConfig")
        if spread or (isinstance(node, ast.Name) and call is not node and self.touched(node.id)):
            for ours in LORA:
                if ours not in settings.values or not spread:
                    settings.values.pop(ours, None)
                    self.unknown(settings, (ours,), call)

    def reward_functions(self, settings: Settings, functions: ast.expr) -> None:
        settings.lines["reward_funcs"] = functions.lineno
        if isinstance(functions, ast.Name) and self.once(functions.id) is not None:
            if self.touched(functions.id):
                settings.unread["reward_funcs"] = functions.id
                return
            functions = self.once(functions.id)
        parts = functions.elts if isinstance(functions, ast.List | ast.Tuple) else [functions]
        settings.lines["reward_funcs"] = functions.lineno
        paths = [self.import_path(part) for part in parts]
        settings.rewards = [path for path in paths if path] if all(paths) else None
        settings.local_rewards = [ast.unparse(part)[:60] for part, path in zip(parts, paths) if not path]

    def import_path(self, node: ast.expr) -> str | None:
        text = ast.unparse(node)
        head, _, tail = text.partition(".")
        if head in self.imported and head not in self.assigned and isinstance(node, ast.Name | ast.Attribute):
            return self.imported[head] + (f".{tail}" if tail else "")
        return None

    def loaded_model(self, settings: Settings, call: ast.Call) -> None:
        """What a `from_pretrained` call says of the model."""
        keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        first = (
            keywords.get("model_name") or keywords.get("pretrained_model_name_or_path") or next(iter(call.args), None)
        )
        name = self.value(first) if first is not None else None
        if isinstance(name, str):
            settings.values["model_name_or_path"], settings.lines["model_name_or_path"] = name, call.lineno
            settings.unread.pop("model_name_or_path", None)
        for names, target in ((("load_in_4bit",), "load_in_4bit"), (("load_in_8bit",), "load_in_8bit"),
                              (("dtype", "torch_dtype"), "dtype")):  # fmt: skip
            for keyword in names:
                if keyword in keywords:
                    self.put(settings, target, keywords[keyword])
        if "quantization_config" in keywords:
            self.bits(settings, keywords["quantization_config"])
        if any(keyword.arg is None for keyword in call.keywords):
            self.unknown(settings, LOADED, call)
        if not settings.given("dtype"):  # transformers 5 keeps the checkpoint's
            settings.unread["dtype"], settings.lines["dtype"] = "the checkpoint's own", call.lineno

    def bits(self, settings: Settings, node: ast.expr) -> None:
        call = self.made(node)
        if self.value(node) is None:
            return
        if not isinstance(call, ast.Call) or called(call) != "BitsAndBytesConfig":
            self.unknown(settings, ("load_in_4bit", "load_in_8bit"), node)
            return
        for keyword in call.keywords:
            if keyword.arg in ("load_in_4bit", "load_in_8bit"):
                self.put(settings, keyword.arg, keyword.value)


DTYPES = {"torch.bfloat16": "bfloat16", "torch.float16": "float16", "torch.float32": "float32"}


# ---- writing


def nearest(name: str, choices) -> str:
    """What somebody may have meant, as `, did you mean X?`, or nothing."""
    near = difflib.get_close_matches(str(name), list(choices), 2)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def known_as_yaml(settings: Settings, without: set[str] = frozenset()) -> str:
    """The settings that TRL knows and that are known here, as a YAML for the commands beside this file."""
    import yaml

    table = arguments()
    kept = {
        name: value for name, value in settings.values.items()
        if name in table and name not in settings.wrong and name not in without
    }  # fmt: skip
    return yaml.safe_dump(kept, sort_keys=False)


def corrected(settings: Settings, changes: dict[str, Any], renames: dict[str, str] | None = None) -> str:
    """The file's text with these values changed (or `DELETE`d) and these keys renamed; all else stays as it is.

    A renamed key keeps its value, unless `changes` has one for it, under the old or the new name. In a YAML each
    changed line says at its end what was there. The result is read again and must hold what was wanted.

    Raises:
        ConfigError: if a value stands where this cannot write (`**settings`, a later assignment, the model's call),
            with the line to mend by hand; if libcst is missing, which scripts need.
    """
    renames = dict(renames or {})
    changes = dict(changes)
    for old, new in list(renames.items()):
        if new in changes and old not in changes:
            changes[old] = changes.pop(new)
        if settings.given(new) or changes.get(old) is DELETE:  # both are there: the new name is right
            renames.pop(old)
            changes[old] = DELETE
    changes = {name: value for name, value in changes.items() if value is not DELETE or settings.given(name)}
    if not changes and not renames:
        return settings.text
    if settings.kind == "python":
        text = _corrected_script(settings, changes, renames)
        again = read_script(settings.path, text, _line_of_call(settings, text))
    else:
        text = _corrected_yaml(settings, changes, renames)
        again = read_yaml(settings.path, text)
    for name, value in {**{old: settings.values.get(old) for old in renames}, **changes}.items():
        new = renames.get(name, name)
        try:
            wanted = as_parsed(value, arguments()[new]["types"], new)
        except (KeyError, ValueError):
            wanted = value
        wrong = again.given(new) if value is DELETE else again.values.get(new) != wanted
        if wrong and not (value is None and new in again.unread):
            raise ConfigError(_by_hand(settings, name, "is written in a way that this cannot change"))
    return text


def _by_hand(settings: Settings, name: str, why: str) -> str:
    line = settings.lines.get(name)
    return f"{settings.path}{f':{line}' if line else ''}: {name} {why}: mend it by hand"


def _scalar(value: Any) -> str:
    """A value as YAML on one line, as PyYAML reads it back.

    >>> _scalar(1e-6), _scalar("no"), _scalar(["q_proj"]), _scalar(None)
    ('1.0e-06', "'no'", '[q_proj]', 'null')
    """
    import yaml

    return yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True).removesuffix("...\n").strip()


def _corrected_yaml(settings: Settings, changes: dict[str, Any], renames: dict[str, str]) -> str:
    """Whole lines are replaced where a key stands; a tree that is written anew would move comments and quotes."""
    import yaml

    root = yaml.compose(settings.text, Loader=yaml.SafeLoader)
    values = dict(yaml.safe_load(settings.text))
    if root.flow_style:  # {...}, or JSON: no lines of its own for a key
        kept = {renames.get(name, name): changes.get(name, value) for name, value in values.items()}
        kept |= {name: value for name, value in changes.items() if name not in values}
        kept = {name: value for name, value in kept.items() if value is not DELETE}
        if settings.path.suffix == ".json":
            return json.dumps(kept, indent=2) + "\n"
        return yaml.safe_dump(kept, sort_keys=False)
    lines = settings.text.splitlines()
    nodes = {str(key.value): (key, value) for key, value in root.value}
    for name in (*changes, *renames):
        if name in values and name not in nodes:
            raise ConfigError(_by_hand(settings, name, "comes by a merge key (<<)"))
    indent = root.value[0][0].start_mark.column
    for name, (key, node) in sorted(nodes.items(), key=lambda item: -item[1][0].start_mark.line):
        if name not in changes and name not in renames:
            continue
        first, last = key.start_mark.line, node.end_mark.line
        if last > first and node.end_mark.column <= indent:
            last -= 1
        while last > first and (not lines[last].strip() or lines[last].lstrip().startswith("#")):
            last -= 1  # what stands between this key and the next belongs to the next
        new, value = renames.get(name, name), changes.get(name, KEEP)
        old = lines[first : last + 1]
        if value is DELETE:
            lines[first : last + 1] = [f"{line[:indent]}# removed: {line[indent:]}" for line in old]
            continue
        if value is KEEP:
            text = old[0][: key.start_mark.column] + new + old[0][key.end_mark.column :]
            one_line = node.end_mark.line == first
            if one_line or isinstance(node, yaml.CollectionNode) or node.style in ("|", ">"):
                rest = old[0][(node if one_line else key).end_mark.column :]
                text = _noted(text, f"was {name}", " #" in rest)
            lines[first] = text
            continue
        was = " ".join(_scalar(values[name]).split())
        rest = lines[last][node.end_mark.column :].strip() if node.end_mark.line == last else ""
        text = f"{old[0][:indent]}{new}: {_scalar(value)}" + (f"  {rest}" if rest else "")
        lines[first : last + 1] = [_noted(text, f"was {was}" if new == name else f"was {name}: {was}", bool(rest))]
    for name, value in changes.items():
        if name not in nodes:
            lines.append(f"{' ' * indent}{renames.get(name, name)}: {_scalar(value)}  # added")
    return "\n".join(lines) + "\n"


KEEP = object()


def _noted(line: str, note: str, commented: bool) -> str:
    """A YAML line with a note at its end, after a comment that is there already.

    >>> _noted("beta: 0.0", "was 0.04", False), _noted("beta: 0.0  # no KL", "was 0.04", True)
    ('beta: 0.0  # was 0.04', 'beta: 0.0  # no KL; was 0.04')
    """
    return line + (f"; {note}" if commented else f"  # {note}")


def _line_of_call(settings: Settings, text: str) -> int | None:
    """A line of the same call in the new text: it is the same one in order."""

    old, new = (_Script(ast.parse(source)).calls(CONFIGS) for source in (settings.text, text))
    return new[[call.lineno for call in old].index(settings.span[0])].lineno


def _corrected_script(settings: Settings, changes: dict[str, Any], renames: dict[str, str]) -> str:
    try:
        import libcst
    except ImportError:
        raise ConfigError("a corrected copy of a script needs libcst: pip install libcst") from None

    edits: dict[tuple[int, int], dict[str, tuple[str, Any]]] = {settings.span: {}}
    for name in dict.fromkeys((*renames, *changes)):
        new, value = renames.get(name, name), changes.get(name, KEEP)
        if name in LORA and name not in settings.in_call:
            if settings.adapter is None:
                raise ConfigError(_by_hand(settings, name, "belongs into the LoraConfig that the trainer gets"))
            edits.setdefault(settings.adapter, {})[LORA[name]] = (LORA[name], value)
        elif arguments().get(new, {}).get("class", "GRPOConfig") != "GRPOConfig" and name not in settings.in_call:
            raise ConfigError(_by_hand(settings, name, "is not an argument of GRPOConfig"))
        else:
            edits[settings.span][name] = (new, value)
    names = {settings.span: CONFIGS} | {place: ADAPTERS for place in edits if place != settings.span}

    class Editor(libcst.CSTTransformer):
        METADATA_DEPENDENCIES = (libcst.metadata.PositionProvider,)

        def __init__(self):
            super().__init__()
            self.above = []  # comments for the line above the statement

        def leave_Call(self, original_node, updated_node):
            where = self.get_metadata(libcst.metadata.PositionProvider, original_node)
            place = (where.start.line, where.end.line)
            name = original_node.func
            name = name.attr.value if isinstance(name, libcst.Attribute) else getattr(name, "value", None)
            if place not in edits or name not in names[place]:
                return updated_node
            ours = {} if place == settings.span else {theirs: name for name, theirs in LORA.items()}

            def by_hand(key, why):
                return _by_hand(settings, ours.get(key, key), why)

            new, above = _edited(updated_node, edits.pop(place), by_hand)
            self.above += above
            return new

        def leave_SimpleStatementLine(self, original_node, updated_node):
            lines, self.above = [libcst.EmptyLine(comment=libcst.Comment(text)) for text in self.above], []
            return updated_node.with_changes(leading_lines=[*updated_node.leading_lines, *lines])

    return libcst.metadata.MetadataWrapper(libcst.parse_module(settings.text)).visit(Editor()).code


def _literal(value: Any) -> str:
    """A value as Python, strings in double quotes.

    >>> _literal(["q_proj"]), _literal({"dtype": "bfloat16"}), _literal(1e-6)
    ('["q_proj"]', '{"dtype": "bfloat16"}', '1e-06')
    """
    if isinstance(value, str):
        return json.dumps(value) if value.isascii() and value.isprintable() else repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(part)}" for key, part in value.items()) + "}"
    return repr(value)


def _edited(call, wanted: dict[str, tuple[str, Any]], by_hand):
    """A call (libcst) with its keywords changed; line breaks and comments stay where they are.

    What is removed leaves a comment in its place; where it shared a line, the comment is given back beside the call.
    """
    import libcst

    there = {arg.keyword.value for arg in call.args if arg.keyword}
    spread = any(arg.star for arg in call.args)
    by_order = {"output_dir"} if call.args and not call.args[0].keyword else set()
    for name, (_, value) in wanted.items():
        if name not in there and (spread or name in by_order or value is KEEP or value is DELETE):
            raise ConfigError(by_hand(name, "does not stand in the call as a keyword"))
    nothing, newline = libcst.SimpleWhitespace(""), libcst.TrailingWhitespace()
    folded = libcst.ParenthesizedWhitespace  # holds a line break, and the comments around it
    trailing = bool(call.args) and isinstance(call.args[-1].comma, libcst.Comma)
    before, args, spaces, above = call.whitespace_before_args, [], [], []  # spaces[i] stands after args[i]
    for arg in call.args:
        space = arg.comma.whitespace_after if isinstance(arg.comma, libcst.Comma) else arg.whitespace_after_arg
        new, value = wanted.get(arg.keyword.value, ("", KEEP)) if arg.keyword else ("", KEEP)
        if value is DELETE:
            left = spaces[-1] if spaces else before
            bare = arg.with_changes(comma=libcst.MaybeSentinel.DEFAULT, whitespace_after_arg=nothing)
            gone = f"# removed: {' '.join(libcst.Module([]).code_for_node(bare).split())}"
            if isinstance(left, folded):
                both = isinstance(space, folded)
                own = space.first_line.comment if both else None  # of this argument's own line
                line = libcst.EmptyLine(
                    left.indent, left.last_line, libcst.Comment(gone + (f"  {own.value}" if own else ""))
                )
                rest = space.empty_lines if both else ()
                left = (space if both else left).with_changes(
                    first_line=left.first_line, empty_lines=[*left.empty_lines, line, *rest]
                )
            else:
                above.append(gone)
                if isinstance(space, folded) or arg is call.args[-1]:
                    left = space
            if spaces:
                spaces[-1] = left
            else:
                before = left
            continue
        parts = {"keyword": libcst.Name(new)} if new else {}
        if value is not KEEP:
            parts["value"] = libcst.parse_expression(_literal(value))
        args.append(arg.with_changes(**parts))
        spaces.append(space)
    broken = next((space for space in (*spaces[:-1], before) if isinstance(space, folded)), None)
    for name, (new, value) in wanted.items():
        if name in there:
            continue
        end = spaces[-1] if spaces else nothing
        if spaces and broken:
            own = end.first_line if isinstance(end, folded) else newline
            spaces[-1] = broken.with_changes(first_line=own, empty_lines=())
        elif spaces:
            spaces[-1] = libcst.SimpleWhitespace(" ") if not isinstance(end, folded) else end
        equal = libcst.AssignEqual(whitespace_before=nothing, whitespace_after=nothing)
        args.append(libcst.Arg(libcst.parse_expression(_literal(value)), libcst.Name(new), equal=equal))
        spaces.append(end.with_changes(first_line=newline) if isinstance(end, folded) else end)
    for place, space in enumerate(spaces):
        comma = place < len(spaces) - 1 or trailing
        args[place] = args[place].with_changes(
            comma=libcst.Comma(whitespace_after=space) if comma else libcst.MaybeSentinel.DEFAULT,
            whitespace_after_arg=nothing if comma else space,
        )
    return call.with_changes(args=args, whitespace_before_args=before), above
