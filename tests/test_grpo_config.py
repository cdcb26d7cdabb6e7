"""references/variants.md and troubleshooting.md against the installed TRL: arguments, values, defaults, metrics, errors.

Every code mark of the two documents is accounted for: it is a setting that constructs, a field, a metric that the
trainer logs, a text of an error that the source holds, or one of the few other words listed here.
"""

import ast
import dataclasses
import functools
import importlib
import inspect
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import diagnose_checks
import docsync
import preflight_config
import pytest
import transformers
import trl
import variants
from transformers import TrainingArguments

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

VARIANTS, TROUBLE = "references/variants.md", "references/troubleshooting.md"
EXPERIMENTAL = {"gmpo": "GMPOConfig", "a2po": "A2POConfig", "async_grpo": "AsyncGRPOConfig"}
CLASSES = {"GRPOConfig": trl.GRPOConfig, "RLOOConfig": trl.RLOOConfig} | {
    name: getattr(importlib.import_module(f"trl.experimental.{module}"), name) for module, name in EXPERIMENTAL.items()
}
FIELDS = {name: {field.name: field for field in dataclasses.fields(cls)} for name, cls in CLASSES.items()}
GRPO = FIELDS["GRPOConfig"]
TRL = Path(trl.__file__).parent
REWARDS = importlib.import_module("trl.rewards")
TRAINER = TRL / "trainer/grpo_trainer.py"
TRAINER_KEYS = {"loss", "grad_norm"}  # logged by transformers' Trainer
WORDS = {"global_step", "None", "True", "False", "python", "trainer.train", "eos_token_id"}
COLUMNS = {"prompts", "completions", "completion", "trainer_state"}  # names that TRL keeps for itself
FILES = {"trainer_state.json", "completions/*.parquet"}
COMMANDS = re.compile(r"(trl|accelerate|py-spy) [a-z][\w -]*")
PYTHON_SAYS = {
    "got an unexpected keyword argument",
    "got multiple values for keyword argument",
    "unrecognized arguments",
}  # all provoked by tests
OLD = "Old"  # headers: what stands below is meant to be wrong
WRONG_VALUES = "Setting", "What happens"


# ---- reading the documents


@dataclasses.dataclass(frozen=True)
class Cell:
    line: int
    text: str
    marks: tuple[str, ...]  # what stands in code marks


@dataclasses.dataclass(frozen=True)
class Table:
    headers: tuple[str, ...]
    rows: list[list[Cell]]

    def column(self, header: str) -> list[Cell]:
        return [row[self.headers.index(header)] for row in self.rows]


def tables(document: docsync.Document) -> list[Table]:
    found, line = [], 0
    for token in document.tokens:
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            line = token.map[0] + 1
            found[-1].append([])
        elif token.type == "inline" and token.level and found and token.map[0] + 1 == line:
            marks = tuple(child.content for child in token.children if child.type == "code_inline")
            found[-1][-1].append(Cell(line, token.content, marks))
    return [Table(tuple(cell.text for cell in rows[0]), rows[1:]) for rows in found]


def table(root: Path, path: str, *headers: str) -> Table:
    """The one table that has these headers; an empty one is an error."""
    same = [found for found in tables(docsync.read(root, path)) if set(headers) <= set(found.headers)]
    assert len(same) == 1 and same[0].rows, f"{path}: {len(same)} tables with {headers}, or no rows"
    return same[0]


def settings_of(mark: str) -> tuple[str, dict[str, ast.expr]] | None:
    """Name of the callee ('' if none) and keywords of `a=1, b="x"` or `Name(a=1)`; None for anything else."""
    try:
        call = ast.parse(mark if re.match(r"\w+\(", mark) else f"_({mark})", mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(call, ast.Call) or call.args or not call.keywords:
        return None
    return call.func.id.removesuffix("_") if call.func.id == "_" else call.func.id, {
        keyword.arg: keyword.value for keyword in call.keywords
    }


def values_of(keywords: dict[str, ast.expr]) -> dict:
    return {name: ast.literal_eval(value) for name, value in keywords.items()}


def build(name: str, **settings):
    """A config on the CPU. The batch divides by every group size in the documents."""
    base = {"output_dir": "out", "use_cpu": True, "bf16": False, "report_to": "none"}
    if "num_generations" in FIELDS[name]:
        base |= {"per_device_train_batch_size": 64, "per_device_eval_batch_size": 64}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CLASSES[name](**{**base, **settings})


# ---- what the installed source says


@functools.cache
def metric_patterns() -> list[re.Pattern]:
    """The keys that GRPOTrainer puts into `self._metrics[mode]`; a formatted part matches any name."""
    patterns = [re.escape(name) for name in TRAINER_KEYS]
    for node in ast.walk(ast.parse(TRAINER.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Subscript) and re.match(r"self\._metrics\[.*\]$", ast.unparse(node.value)):
            parts = node.slice.values if isinstance(node.slice, ast.JoinedStr) else [node.slice]
            if all(isinstance(part, ast.Constant | ast.FormattedValue) for part in parts):
                key = [re.escape(part.value) if isinstance(part, ast.Constant) else r"[\w<>]+" for part in parts]
                patterns.append("".join(key))
    assert len(patterns) > 25
    return [re.compile(rf"(eval_)?{pattern}") for pattern in patterns]


def is_metric(name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in metric_patterns())


@functools.cache
def allowed_values() -> dict[str, set[str]]:
    """For each argument that GRPOConfig takes unchecked, the strings that TRL's source compares it with."""
    table = preflight_config.beside("trl_arguments.json")["arguments"]["GRPOConfig"]  # held to the source by a test
    chosen = ("loss_type", "scale_rewards", "importance_sampling_level", "multi_objective_aggregation", "vllm_mode",
              "vllm_importance_sampling_mode")  # fmt: skip
    assert all(GRPO[name].default in table[name]["choices"] and len(table[name]["choices"]) > 1 for name in chosen)
    return {name: set(table[name]["choices"]) for name in chosen}


@functools.cache
def messages() -> str:
    """Every string of TRL's trainer code and of transformers' training arguments; formatted parts are `…`."""
    texts = []
    sources = [*(TRL / "trainer").glob("grpo*.py"), *(TRL / "generation").glob("*.py")]
    for path in [*sources, Path(transformers.__file__).parent / "training_args.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts).replace("`", "").replace("…'", "…").replace("'…", "…")


@functools.cache
def our_names() -> set[str]:
    """Ids of the log doctor's findings, of failures and of variants."""
    return {*diagnose_checks.KINDS, *variants.failures(), *variants.variants()}


# ---- the rules


def mark_problem(mark: str, wrong_values_meant: bool = False) -> str | None:
    """Why a code mark is not accounted for."""
    settings = settings_of(mark)
    if mark in our_names():
        return None
    if settings:
        return setting_problem(*settings, wrong_values_meant)
    if re.fullmatch(r"[A-Za-z_][\w.]*", mark):
        known = (
            mark in WORDS | COLUMNS | FILES
            or mark in set().union(*FIELDS.values())
            or is_metric(mark)
            or mark in old_names()
        )
        known = known or hasattr(trl, mark) or hasattr(REWARDS, mark) or mark in old_modules()
        return None if known else "no argument, metric, or name of TRL"
    if re.fullmatch(r"[a-z_]+/[\w<>/]+", mark):
        return None if is_metric(mark) else "no metric that GRPOTrainer logs"
    if mark in FILES | PYTHON_SAYS or COMMANDS.fullmatch(mark):
        return None
    if re.fullmatch(r'"\w+"', mark):
        return None if any(mark[1:-1] in values for values in allowed_values().values()) else "no value of an argument"
    try:
        ast.literal_eval(mark)
        return None
    except (ValueError, SyntaxError):
        pass
    return None if " " in mark and mark in messages() else "no text that TRL's source holds"


def setting_problem(callee: str, keywords: dict[str, ast.expr], wrong_values_meant: bool) -> str | None:
    if hasattr(REWARDS, callee):
        try:
            inspect.signature(getattr(REWARDS, callee)).bind(**values_of(keywords))
        except TypeError as error:
            return str(error)
        return None
    name = callee or "GRPOConfig"
    if name not in CLASSES:
        return f"`{name}` is no config class known here"
    unknown = [keyword for keyword in keywords if keyword not in FIELDS[name]]
    if unknown:
        return f"{name} has no {unknown}"
    settings = values_of(keywords)
    for keyword, value in settings.items():
        allowed = allowed_values().get(keyword)
        if allowed and not wrong_values_meant and isinstance(value, str) and value not in allowed:
            return f"{keyword} takes one of {sorted(allowed)}"
    try:
        build(name, **settings)
    except (TypeError, ValueError) as error:
        return f"does not construct: {error}"


def problems(root: Path, path: str) -> Iterator[str]:
    """Every code mark of a document that is not accounted for."""
    document, skipped, meant = docsync.read(root, path), set(), set()
    for found in tables(document):
        if OLD in found.headers:
            skipped |= {cell.line for cell in found.column(OLD)}  # tested by test_removed_and_renamed_arguments
        if set(WRONG_VALUES) <= set(found.headers):
            meant |= {cell.line for cell in found.column(WRONG_VALUES[0])}
    marks = [(n, token.content) for n, token in docsync.inline_tokens(document) if token.type == "code_inline"]
    assert marks, f"{path} holds no code mark"
    for line, mark in marks:
        problem = None if line in skipped else mark_problem(mark, line in meant)
        if problem:
            yield f"{path}:{line}: `{mark}`: {problem}"


@functools.cache
def old_rows() -> list[tuple[str, str, list[str]]]:
    """Old name or setting, what 1.16 does with it, and the marks that replace it."""
    found = table(docsync.ROOT, TROUBLE, OLD, "On 1.16", "Use instead")
    columns = zip(found.column(OLD), found.column("On 1.16"), found.column("Use instead"))
    return [(old.marks[0], what.text, list(new.marks)) for old, what, new in columns]


def old_names() -> set[str]:
    return {old for old, _, _ in old_rows()}


@functools.cache
def old_modules() -> set[str]:
    cells = table(docsync.ROOT, VARIANTS, "Missing", "Instead").column("Missing")
    return {mark for cell in cells for mark in cell.marks if mark.startswith("trl.")}


def default_problems(root: Path) -> Iterator[str]:
    found = table(root, VARIANTS, "Argument", "Default in 1.16")
    for name, default in zip(found.column("Argument"), found.column("Default in 1.16")):
        want = GRPO[name.marks[0]].default if name.marks[0] in GRPO else "no such argument"
        if default.marks != (repr(want).replace("'", '"'),):
            yield f"{VARIANTS}:{name.line}: default of {name.marks}: says {default.marks}, is {want!r}"


def preset_problems(root: Path) -> Iterator[str]:
    """Every row of the two preset tables holds a preset; that presets construct is checked with all the settings."""
    for header in ("Preset", "Exact settings"):
        for cell in table(root, VARIANTS, header).column(header):
            if not any(settings_of(mark) for mark in cell.marks):
                yield f"{VARIANTS}:{cell.line}: no preset in {cell.text!r}"


RULES = {
    "variants": lambda root: problems(root, VARIANTS),
    "troubleshooting": lambda root: problems(root, TROUBLE),
    "defaults": default_problems,
    "presets": preset_problems,
}


@pytest.mark.parametrize("rule", RULES)
def test_document(rule):
    found = list(RULES[rule](docsync.ROOT))
    assert not found, "\n".join(found)


# ---- removed arguments, wrong values


def raises_type_error(name: str) -> bool:
    with pytest.raises(TypeError, match=f"got an unexpected keyword argument '{name}'"):
        build("GRPOConfig", **{name: 1})
    return True


def warns(name: str) -> bool:
    value = {"vllm_importance_sampling_cap": 2.0}.get(name, True)
    with pytest.warns(FutureWarning, match=f"`{name}`.*(deprecated|removed)"):
        trl.GRPOConfig(output_dir="out", use_cpu=True, bf16=False, **{name: value})
    return True


@pytest.mark.parametrize(("old", "what", "new"), old_rows(), ids=[old for old, _, _ in old_rows()])
def test_removed_and_renamed_arguments(old, what, new):
    if what == "mapped":
        (name, value), (_, mapped) = *values_of(settings_of(old)[1]).items(), *values_of(settings_of(new[0])[1]).items()
        assert getattr(build("GRPOConfig", **{name: value}), name) == mapped
        return
    assert {"TypeError": raises_type_error, "FutureWarning": warns}[what](old)
    assert not [problem for problem in map(mark_problem, new) if problem]


def test_removed_rows_are_plenty_and_each_kind_is_there():
    assert len(old_rows()) > 15 and {what for _, what, _ in old_rows()} == {"TypeError", "FutureWarning", "mapped"}
    with pytest.raises(pytest.fail.Exception):
        raises_type_error("beta")
    with pytest.raises(pytest.fail.Exception):
        warns("log_completions")


def test_removed_modules():
    assert len(old_modules()) > 1
    for name in [*old_modules(), *(f"trl.experimental.{gone}" for gone in ("gfpo", "papo", "dppo", "ppo"))]:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


def silent_settings() -> list[dict]:
    cells = table(docsync.ROOT, TROUBLE, *WRONG_VALUES).column(WRONG_VALUES[0])
    return [values_of(settings_of(cell.marks[0])[1]) for cell in cells]


@pytest.mark.parametrize("settings", silent_settings(), ids=str)
def test_accepted_in_silence(settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="`gradient_checkpointing`")  # TRL's own setting, in every config
        trl.GRPOConfig(output_dir="out", use_cpu=True, bf16=False, report_to="none", **settings)


def test_other_classes_lack_what_the_table_says():
    assert not {"beta", "loss_type", "scale_rewards", "num_iterations"} & set(FIELDS["AsyncGRPOConfig"])
    assert "loss_type" not in FIELDS["RLOOConfig"] and "max_prompt_length" in FIELDS["A2POConfig"]
    assert FIELDS["RLOOConfig"]["num_generations"].default == 2
    ignored = inspect.getsource(importlib.import_module("trl.experimental.gmpo.gmpo_trainer"))
    for name in ("loss_type", "args.delta", "entropy_coef", "off_policy_mask_threshold", "importance_sampling_ratio"):
        assert name not in ignored
    assert {"warmup_steps", "activation_checkpointing"} <= {
        field.name for field in dataclasses.fields(TrainingArguments)
    }


# ---- the rules reject what they must

BAD = {
    "unknown argument": ("variants", VARIANTS, "`epsilon_high=0.28`", "`epsilon_hi=0.28`", "has no ['epsilon_hi']"),
    "unknown class": ("variants", VARIANTS, "`GMPOConfig(", "`GMPConfig(", "no config class"),
    "argument of another class": ("variants", VARIANTS, "`RLOOConfig(num", "`RLOOConfig(delta=4.0, num", "has no"),
    "unknown value": ("variants", VARIANTS, '`loss_type="bnpo"`', '`loss_type="bpno"`', "takes one of"),
    "bare unknown value": ("variants", VARIANTS, 'of `"grpo"`', 'of `"gpro"`', "no value of an argument"),
    "preset that raises": ("variants", VARIANTS, "`num_generations=2,", "`num_generations=1,", "does not construct"),
    "reward signature": ("variants", VARIANTS, "(max_completion_len=2048", "(max_len=2048", "missing a required argument"),
    "unknown name": ("variants", VARIANTS, "`RLOOTrainer`", "`RLOTrainer`", "no argument, metric"),
    "unknown metric": ("troubleshooting", TROUBLE, "`clip_ratio/low_min`", "`clip_ratio/low_max`", "no metric"),
    "unknown bare metric": ("troubleshooting", TROUBLE, "`cispo_clip_ratio`", "`cispo_ratio`", "no argument, metric"),
    "unknown error text": ("troubleshooting", TROUBLE, "does not support nn.D", "cannot support nn.D", "no text"),
    "old argument as a fix": ("troubleshooting", TROUBLE, "`use_vllm=False`", "`use_liger_loss=False`", "has no"),
    "wrong default": ("defaults", VARIANTS, "| `512` |", "| `256` |", "is 512"),
    "default of no argument": ("defaults", VARIANTS, "| `top_k` |", "| `topk` |", "no such argument"),
    "row without preset": ("presets", VARIANTS, 'BNPO | `loss_type="bnpo"`', "BNPO | -", "no preset"),
}  # fmt: skip


@pytest.fixture
def copy(tmp_path):
    for path in (VARIANTS, TROUBLE):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes((docsync.ROOT / path).read_bytes())
    return tmp_path


@pytest.mark.parametrize(("rule", "path", "old", "new", "what"), BAD.values(), ids=BAD)
def test_bad_document_is_rejected(copy, rule, path, old, new, what):
    text = (copy / path).read_text(encoding="utf-8")
    assert old in text
    (copy / path).write_text(text.replace(old, new, 1), encoding="utf-8")
    found = list(RULES[rule](copy))
    assert len(found) == 1 and what in found[0], found


@pytest.mark.parametrize("rule", RULES)
def test_empty_document_is_rejected(copy, rule):
    for path in (VARIANTS, TROUBLE):
        (copy / path).write_text("# Nothing\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="holds no code mark|0 tables"):
        list(RULES[rule](copy))


def starting_config(tmp_path: Path) -> tuple[dict, Path]:
    """The YAML of variants.md, the lines that are commented out taken in."""
    import yaml

    (fence,) = docsync.fences(docsync.read(docsync.ROOT, VARIANTS), "yaml")
    config = yaml.safe_load(re.sub(r"^# (?=\w+:)", "", fence.code, flags=re.MULTILINE))
    path = tmp_path / "grpo.yaml"
    path.write_text(yaml.safe_dump(config))
    return config, path


def parsed_by_trl(path: Path, *options: str):
    from trl import DatasetMixtureConfig, ModelConfig, TrlParser
    from trl.scripts.grpo import GRPOScriptArguments

    parser = TrlParser((GRPOScriptArguments, trl.GRPOConfig, ModelConfig, DatasetMixtureConfig))
    arguments = ["--config", str(path), "--use_cpu", "true", "--bf16", "false", *options]
    return parser.parse_args_and_config(args=arguments, fail_with_unknown_args=True)


def test_the_config_to_start_from_is_taken_by_trls_own_parser(tmp_path):
    config, path = starting_config(tmp_path)
    script, training, model, data = parsed_by_trl(path, "--max_steps", "2", "--use_vllm", "false")
    assert script.reward_funcs == config["reward_funcs"] and data.datasets[0].data_files == "prompts.jsonl"
    assert model.use_peft and model.lora_target_modules in ("all-linear", ["all-linear"]) and model.dtype == "bfloat16"
    assert training.generation_batch_size % training.num_generations == 0 and training.max_steps == 2


def test_an_unknown_key_is_unrecognized(tmp_path, capsys):
    _, path = starting_config(tmp_path)
    path.write_text(path.read_text() + "max_prompt_length: 512\n")
    with pytest.raises((SystemExit, ValueError)) as error:
        parsed_by_trl(path)
    said = capsys.readouterr().err + str(error.value)
    assert "max_prompt_length" in said
