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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CONFIGS = ("GRPOConfig", "VLMGRPOConfig")
OTHER_CONFIGS = ("RLOOConfig", "AsyncGRPOConfig", "GMPOConfig", "A2POConfig", "SFTConfig", "DPOConfig")
TRAINERS = ("GRPOTrainer",)
SCALARS = {bool: "bool", int: "int", float: "float", str: "str", dict: "dict", list: "list", type(None): "none"}
# What a script gets where ModelConfig is not asked: PEFT's own defaults (peft.LoraConfig).
SCRIPT_DEFAULTS = {"lora_r": 8, "lora_alpha": 8, "lora_dropout": 0.0}


class ConfigError(ValueError):
    """A config that cannot be read; the message is one line for the user."""


class NotKnown(Exception):
    """A setting that stands in the file but is only known when the file is run."""


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


# ---- settings


@dataclass
class Settings:
    """What one file says. `values` holds what is known, `unread` the source text of what is not."""

    path: Path
    kind: str  # "yaml" or "python"
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)  # values of a type that TRL's parser refuses, with why
    anything: str | None = None  # `**settings` in a script: whatever is not written there is not known either
    rewards: list[str] | None = None  # import paths; None: not said, or not known
    local_rewards: list[str] = field(default_factory=list)  # defined in the script itself: reached only by running it
    text: str = ""
    span: tuple[int, int] | None = None  # lines of the call in a script

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
        if self.anything:
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
                settings.values[name] = as_parsed(value, arguments()[name]["types"])
            except ValueError as error:
                settings.wrong[name] = str(error)
    functions = settings.values.get("reward_funcs")
    settings.rewards = functions if isinstance(functions, list) and all(isinstance(f, str) for f in functions) else None
    return settings


def as_parsed(value: Any, types: list[str]) -> Any:
    """A YAML value as TRL's parser hands it on: a string becomes the number or truth value that the argument takes.

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
    elif isinstance(value, bool) and types == ["str"]:
        return value  # scale_rewards: TRL maps the truth values itself
    elif isinstance(value, str):
        return value
    elif isinstance(value, float) and "int" in types and value.is_integer():
        return int(value)
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
    if call.args:
        reader.put(settings, "output_dir", call.args[0])
    for keyword in call.keywords:
        if keyword.arg is None:
            known = reader.value(keyword.value)
            if isinstance(known, dict):
                for name, value in known.items():
                    settings.values[str(name)], settings.lines[str(name)] = value, keyword.value.lineno
            else:
                settings.anything = f"**{ast.unparse(keyword.value)}"
        else:
            reader.put(settings, keyword.arg, keyword.value)
    reader.later_changes(settings, call)
    reader.model_and_rewards(settings)
    for name, value in settings.values.items():
        types = arguments().get(name, {}).get("types", ["object"])
        fits = SCALARS.get(type(value)) in types or "object" in types or (type(value) is int and "float" in types)
        mapped = (name == "scale_rewards" and isinstance(value, bool)) or (
            name == "learning_rate" and _is_number(value)
        )
        if not (fits or mapped):
            settings.wrong[name] = f"{value!r}, and must be {' or '.join(types)}"
    return settings


def _is_number(value: Any) -> bool:
    try:
        return float(value) is not None
    except (TypeError, ValueError):
        return False


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
        self.assigned: dict[str, list[ast.expr | None]] = {}
        self.imported: dict[str, str] = {}
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
                for part in ast.walk(node.target):
                    if isinstance(part, ast.Name):
                        self.assigned.setdefault(part.id, []).append(None)
            elif isinstance(node, ast.arg):
                self.assigned.setdefault(node.arg, []).append(None)
            elif isinstance(node, ast.Global | ast.Nonlocal):
                for name in node.names:
                    self.assigned.setdefault(name, []).append(None)
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                for part in ast.walk(node.optional_vars):
                    if isinstance(part, ast.Name):
                        self.assigned.setdefault(part.id, []).append(None)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self.imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                self.imported |= {alias.asname or alias.name: alias.name for alias in node.names}

    def calls(self, names: tuple[str, ...]) -> list[ast.Call]:
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return sorted((node for node in found if called(node) in names), key=lambda node: node.lineno)

    def once(self, name: str) -> ast.expr | None:
        """What a name stands for, if it is assigned in one place only."""
        values = self.assigned.get(name, [])
        return values[0] if len(values) == 1 else None

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """A literal, a name assigned once, arithmetic on these; else `_Unread`."""
        if depth > 20:
            return _Unread(node)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and self.once(node.id) is not None:
            found = self.value(self.once(node.id), depth + 1)
            return _Unread(node) if isinstance(found, _Unread) else found
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
        """`args.beta = 0.1` after the call."""
        names = {
            target.id
            for node in ast.walk(self.tree) if isinstance(node, ast.Assign) and node.value is call
            for target in node.targets if isinstance(target, ast.Name)
        }  # fmt: skip
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Assign | ast.AugAssign):
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Attribute) and getattr(target.value, "id", None) in names:
                    certain = isinstance(node, ast.Assign) and any(node is top for top in self.tree.body)
                    if certain:
                        self.put(settings, target.attr, node.value)
                    else:  # in a branch, a loop or a function: it may not happen
                        settings.values.pop(target.attr, None)
                        settings.lines[target.attr] = node.lineno
                        settings.unread[target.attr] = ast.unparse(node)[:80]

    def model_and_rewards(self, settings: Settings) -> None:
        """What GRPOTrainer, LoraConfig and from_pretrained are given, under the names of `trl grpo`."""
        arguments = {}
        for call in self.calls(TRAINERS)[:1]:
            arguments = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
            arguments |= dict(zip(("model", "reward_funcs", "args"), call.args))
        if "model" in arguments:
            model = self.value(arguments["model"])
            if isinstance(model, str):
                settings.values["model_name_or_path"] = model
                settings.lines["model_name_or_path"] = arguments["model"].lineno
            else:
                settings.unread["model_name_or_path"] = ast.unparse(arguments["model"])[:80]
                settings.lines["model_name_or_path"] = arguments["model"].lineno
                self.loaded_model(settings)
        for call in self.calls(("LoraConfig", "get_peft_model")):
            renamed = {"r": "lora_r", "target_modules": "lora_target_modules", "lora_alpha": "lora_alpha",
                       "lora_dropout": "lora_dropout", "modules_to_save": "lora_modules_to_save"}  # fmt: skip
            settings.values["use_peft"], settings.lines["use_peft"] = True, call.lineno
            for keyword in call.keywords:
                if keyword.arg in renamed:
                    self.put(settings, renamed[keyword.arg], keyword.value)
        adapter = arguments.get("peft_config")
        if adapter is not None and "use_peft" not in settings.values and self.value(adapter) is not None:
            settings.unread["use_peft"], settings.lines["use_peft"] = ast.unparse(adapter)[:80], adapter.lineno
        functions = arguments.get("reward_funcs")
        if isinstance(functions, ast.Name) and self.once(functions.id) is not None:
            functions = self.once(functions.id)
        if functions is None:
            return
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

    def loaded_model(self, settings: Settings) -> None:
        """A model object: how it was loaded."""
        for call in self.calls(("from_pretrained",)):
            if not any(word in ast.unparse(call.func) for word in ("Model", "ForCausalLM")):
                continue
            keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
            first = (
                keywords.get("model_name")
                or keywords.get("pretrained_model_name_or_path")
                or next(iter(call.args), None)
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
            if "quantization_config" in keywords and not settings.given("load_in_4bit"):
                self.bits(settings)
            if not settings.given("dtype"):  # transformers 5 keeps the checkpoint's
                settings.unread["dtype"], settings.lines["dtype"] = "the checkpoint's own", call.lineno

    def bits(self, settings: Settings) -> None:
        for call in self.calls(("BitsAndBytesConfig",)):
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
