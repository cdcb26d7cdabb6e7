#!/usr/bin/env python3
"""Write scripts/trl_arguments.json: what `trl grpo --config` takes in the installed TRL, by class, with types,
defaults, and for the string options that GRPOConfig takes unchecked the values that TRL's source compares them with."""

import ast
import dataclasses
import enum
import json
import typing
from importlib.metadata import version
from pathlib import Path

TABLE = Path(__file__).resolve().parents[1] / "scripts/trl_arguments.json"
PLAIN = {bool: "bool", int: "int", float: "float", str: "str", dict: "dict", list: "list", type(None): "none"}
UNCHECKED = ("loss_type", "scale_rewards", "importance_sampling_level", "multi_objective_aggregation", "vllm_mode",
             "vllm_importance_sampling_mode")  # fmt: skip


def types_of(annotation) -> list[str]:
    """Plain names of what a field takes; an enum takes its strings."""
    if typing.get_origin(annotation) is typing.Literal:
        return sorted({PLAIN[type(value)] for value in typing.get_args(annotation)})
    plain = PLAIN.get(typing.get_origin(annotation) or annotation)
    if plain:
        return [plain]
    if isinstance(annotation, type):
        return ["str"] if issubclass(annotation, enum.Enum) else ["object"]
    return sorted({name for part in typing.get_args(annotation) for name in types_of(part)})


def enum_values(annotation) -> list[str] | None:
    for part in (annotation, *typing.get_args(annotation)):
        if isinstance(part, type) and issubclass(part, enum.Enum):
            return sorted(member.value for member in part)
    return None


def compared_with(package: Path) -> dict[str, set[str]]:
    """For each attribute, the strings that TRL's source compares it with."""
    found: dict[str, set[str]] = {}
    for path in (package / "trainer/grpo_trainer.py", package / "generation/vllm_generation.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Attribute):
                continue
            name = "vllm_mode" if ast.unparse(node.left) == "self.mode" else node.left.attr
            strings = {part.value for part in ast.walk(node.comparators[0]) if isinstance(part, ast.Constant)}
            found.setdefault(name, set()).update(value for value in strings if isinstance(value, str))
    return found


def launch_arguments() -> dict:
    """What `trl grpo` hands on to `accelerate launch`: options with a value. A flag cannot stand in a YAML, as its
    `true` is handed on too, and taken for the script."""
    from accelerate.commands.launch import launch_command_parser

    found = {"accelerate_config": {"types": ["str"], "default": None}}
    for action in sorted(launch_command_parser()._actions, key=lambda action: action.dest):
        if action.nargs == 0 or f"--{action.dest}" not in action.option_strings:
            continue
        types = [PLAIN[action.type]] if action.type in (int, float) else ["object"]
        found[action.dest] = {"types": [*types, "none"], "default": None}
    return found


def arguments() -> dict:
    import trl
    from trl import DatasetMixtureConfig, GRPOConfig, ModelConfig
    from trl.scripts.grpo import GRPOScriptArguments

    strings = compared_with(Path(trl.__file__).parent)
    owners = (GRPOScriptArguments, GRPOConfig, ModelConfig, DatasetMixtureConfig)  # as trl/scripts/grpo.py parses them
    found: dict[str, dict] = {}
    for owner in owners:
        hints = typing.get_type_hints(owner)
        found[owner.__name__] = {}
        for field in sorted(dataclasses.fields(owner), key=lambda field: field.name):
            missing = field.default is dataclasses.MISSING
            factory = field.default_factory is not dataclasses.MISSING
            default = field.default_factory() if factory else None if missing else field.default
            entry = {"types": types_of(hints[field.name])}
            entry["default"] = default.value if isinstance(default, enum.Enum) else default
            choices = sorted(strings[field.name]) if field.name in UNCHECKED else enum_values(hints[field.name])
            choices = choices or sorted(field.metadata.get("choices", ()))
            found[owner.__name__][field.name] = entry | ({"choices": choices} if choices else {})
    taken = {name for names in found.values() for name in names}
    launch = {name: entry for name, entry in launch_arguments().items() if name not in taken | {"config", "env"}}
    parser = {name: {"types": ["dict" if name == "env" else "str"], "default": None} for name in ("config", "env")}
    return {
        "trl": version("trl"), "transformers": version("transformers"),
        "arguments": {**found, "TrlParser": parser, "launch": launch},
    }  # fmt: skip


def as_text(found: dict) -> str:
    """One argument a line, so that a new release reads as a diff."""
    owners = ",\n".join(
        f"{json.dumps(owner)}: {{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in names.items())
        + "\n}"
        for owner, names in found["arguments"].items()
    )
    head = "".join(f"{json.dumps(name)}: {json.dumps(found[name])},\n" for name in ("trl", "transformers"))
    return f'{{\n{head}"arguments": {{\n{owners}\n}}\n}}\n'


if __name__ == "__main__":
    TABLE.write_text(as_text(arguments()), encoding="utf-8")
