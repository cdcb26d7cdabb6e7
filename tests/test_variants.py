"""scripts/variants.py: the data names what exists, `emit` merges or refuses; no torch here.

That presets construct, train and are what their papers say is in tests/trainer/test_variants_in_trl.py.
"""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import variants as v
import yaml

ROOT = Path(__file__).parents[1]
PRESETS = [name for name, variant in v.variants().items() if variant.config == "GRPOConfig"]
OTHERS = [name for name in v.variants() if name not in PRESETS]
BASE = """\
# A base with what makes rewriting hard.
model_name_or_path: 'quoted' # its own end comment
datasets:
  - path: json # inside a list
    data_files: prompts.jsonl

reward_funcs: [rewards.format_reward, rewards.correctness_reward]
# a line above the batch
per_device_train_batch_size: 64
gradient_accumulation_steps: 4
num_generations: 8 # was ours
# a line below, and nothing at its end
learning_rate: 1.0e-6
use_vllm: true

# the last line
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Exit code, stdout and stderr of the command; `base` becomes a file."""

    def call(*arguments, base=None):
        if base is not None:
            path = tmp_path / "grpo.yaml"
            path.write_text(base, encoding="utf-8")
            arguments = (*arguments, "--base", str(path))
        monkeypatch.setattr(sys, "argv", ["variants.py", *arguments])
        code = v.main()
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


# ---- the data


def problems(failures, variants, absent, departures) -> list[str]:
    """Names that point nowhere, failures that nothing answers."""
    found = []
    for failure in failures.values():
        answering = {name for name, variant in variants.items() if failure.id in variant.failures}
        found += [f"{failure.id}: tries {name}, which does not name it" for name in set(failure.tries) - answering]
        found += [f"{failure.id}: nothing to try"] * (not failure.tries)
        same = failure.log.startswith(("the same", "still"))
        found += [f"{failure.id}: the same as what?"] * (same and failure.same_as not in failures)
    for name, variant in variants.items():
        found += [f"{name}: no failure {failure}" for failure in set(variant.failures) - set(failures)]
        found += [f"{name}: no need {need}" for need in set(variant.needs) - set(v.NEEDS)]
        found += [f"{name}: no row {variant.row}"] * (variant.row not in ("own", "", *variants))
        found += [f"{name}: sets and clashes"] * bool(set(variant.clashes) & {*variant.settings, *variant.restores})
        found += [f"{name}: says {variant.config}"] * (variant.config not in ("GRPOConfig", *v.HOW))
        found += [f"{name}: nothing on the default"] * (not variant.covered)
    found += [f"departs: {name}" for departure in departures for name in set(departure.variants) - set(variants)]
    names = [*failures, *variants, *absent]
    found += [f"{name}: twice, or not kebab-case" for name in names if names.count(name) > 1 or not kebab(name)]
    return found


def kebab(name: str) -> bool:
    return bool(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name))


def test_names_point_at_each_other():
    assert problems(v.failures(), v.variants(), v.absent(), v._DEPARTURES) == []
    assert len(v.variants()) > 30 and len(v.failures()) > 12 and len(v.absent()) > 7


def test_names_that_point_nowhere_are_found():
    bad = v.Variant("Bad_Name", "", {"beta": 0.1}, "", "", "", needs=("money",), failures=("no-such",), row="tsi",
                    clashes={"beta": (0.0,)}, config="PPOConfig")  # fmt: skip
    failure = v.Failure("lonely", "the same", "", ("bad",), "", "")
    found = "\n".join(
        problems({"lonely": failure}, {"bad": bad, "Bad_Name": bad}, {}, [v.Departure(("x",), "", "", "")])
    )
    for what in ("does not name it", "the same as what?", "no failure no-such", "no need money", "no row tsi", "sets and clashes",
                 "says PPOConfig", "nothing on the default", "departs: x", "not kebab-case"):  # fmt: skip
        assert what in found, what


def test_importing_it_loads_no_heavy_package():
    heavy = {"torch", "trl", "transformers", "yaml", "preflight_checks"}
    code = f"import variants, sys; variants.variants(); print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "scripts", capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


# ---- list, show, table


def test_list_and_show(run):
    code, out, _ = run("list", "--json")
    everything = json.loads(out)
    assert code == 0 and [record["name"] for record in everything["variants"]] == list(v.variants())
    assert [record["id"] for record in everything["failures"]] == list(v.failures())
    assert everything["schema_version"] == 1 and everything["absent"]
    text = run("list")[1]
    for name in (*v.variants(), *v.failures(), *v.absent()):
        assert name in text
        code, shown, _ = run("show", name)
        assert code == 0 and shown.count("\n") >= 2
        assert json.loads(run("show", name, "--json")[1])["schema_version"] == 1


def test_show_says_what_is_known(run):
    out = run("show", "Dr. GRPO")[1]  # spelt as in the table
    for part in ('loss_type="dr_grpo", scale_rewards="none"', "length-growth", "2503.20783", "paper index: Dr. GRPO"):
        assert part in out
    record = json.loads(run("show", "gspo", "--json")[1])
    assert record["preset"]["steps_per_generation"] == 32 and record["needs"] == ["off-policy", "sequence-level"]
    assert json.loads(run("show", "clipping", "--json")[1])["answered_by"] == [
        "cispo",
        "scalerl",
        "sapo",
        "vespo",
        "gmpo",
    ]


def test_tables_hold_every_record(run):
    tables = {which: run("table", which)[1] for which in v.TABLES}
    assert all(variant.title in tables["variants"] for variant in v.variants().values() if variant.row == "own")
    assert all(f"| {failure} |" in tables["failures"] for failure in v.failures())
    assert "`vllm_importance_sampling_clip_max=2.0` or `vllm" not in tables["skill"]
    assert '` or `vllm_importance_sampling_mode="sequence_truncate"' in tables["variants"]
    with pytest.raises(SystemExit) as stopped:
        run("table", "nothing")
    assert stopped.value.code == 2


# ---- emit


def unmarked(text: str) -> list[str]:
    """The lines without what emit adds."""
    return [re.sub(r"(; | ?# )variants\.py .*", "", line).rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_merged_and_the_rest_is_kept(run, name):
    code, out, err = run("emit", name, base=BASE)
    assert code == 0, err
    base, merged, variant = yaml.safe_load(BASE), yaml.safe_load(out), v.variants()[name]
    want = {**base, **variant.settings} | ({"steps_per_generation": 4 * variant.steps} if variant.steps else {})
    assert merged == want and {key: type(value) for key, value in merged.items()} == {
        key: type(value) for key, value in want.items()
    }
    changed = {key for key in want if base.get(key) != want[key]}
    assert {line.split(":")[0] for line in out.splitlines() if f"variants.py {name}" in line} == changed
    assert all(f"overwritten: {key}: {v._yaml(base[key])} is now" in err for key in changed & set(base))
    kept = [line for line in BASE.splitlines() if line.split(":")[0] not in changed]
    assert [line for line in unmarked(out) if line in kept] == [line.rstrip() for line in kept]
    if "num_generations" in changed:
        assert f"num_generations: {want['num_generations']} # was ours; variants.py {name}: was 8\n" in out
        assert "# a line below, and nothing at its end" in out.splitlines()


def test_a_second_preset_is_merged_into_the_first(run, monkeypatch):
    once = run("emit", "clip-higher", base=BASE)[1]
    _, both, err = run("emit", "more-steps", base=once)
    assert yaml.safe_load(both)["steps_per_generation"] == 8 and "epsilon_high: 0.28 # variants.py clip-higher" in both
    assert "kept from the base, and read by the loss too: epsilon_high: 0.28" in err
    again = run("emit", "clip-higher", base=once)
    assert again[1] == once and "overwritten" not in again[2]
    import io

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(once.encode())))
    assert run("emit", "more-steps", "--base", "-")[1] == both


@pytest.mark.parametrize(
    "style", ["reward_funcs:\n- a.b\n- c.d\n", "reward_funcs:\n  - a.b\n  - c.d\n", "beta: 1e-3\n"]
)
def test_the_style_of_lists_and_numbers_is_kept(run, style):
    code, out, _ = run("emit", "clip-higher", base=f"bf16: no\n{style}seed: 1")
    assert code == 0 and out == f"bf16: no\n{style}seed: 1\nepsilon_high: 0.28 # variants.py clip-higher\n"


def test_groups_are_whole_or_refused_and_the_fix_that_is_named_mends_it(run):
    refused = 0
    for batch, accumulation, world, name in itertools.product((1, 6, 48), (1, 3), (1, 4), ("grpo", "gspo", "2-grpo")):
        base = f"per_device_train_batch_size: {batch}\ngradient_accumulation_steps: {accumulation}\n"
        variant = v.variants()[name]
        group = variant.settings.get("num_generations", 8)
        whole = batch * accumulation * (variant.steps or 1) * world % group == 0
        code, out, err = run("emit", name, "--world-size", str(world), base=base)
        assert (code, bool(out)) == ((0, True) if whole else (2, False)), (base, err)
        if not whole:
            refused += 1
            assert err.count("\n") == 1 and f"num_generations {group}" in err and f"x {world} GPUs" in err
            key, value = re.search(r"nearest: (\w+): (\d+)", err).groups()
            mended = re.sub(rf"{key}: \d+", f"{key}: {value}", base)
            assert run("emit", name, "--world-size", str(world), base=mended)[0] == 0
    assert 5 < refused < 30


REFUSED = {
    "unknown name": ("gpso", BASE, "no variant 'gpso'; choose from gspo, "),
    "absent": ("dynamic-sampling", BASE, "is not in TRL 1.16; instead: filter prompts"),
    "another trainer": ("rloo", BASE, "`trl rloo --config`"),
    "experimental": ("GMPO", BASE, "GMPOConfig(epsilon=0.4); from trl.experimental.gmpo import"),
    "no mapping": ("gspo", "- a\n", "holds no settings"),
    "empty": ("gspo", "# nothing\n", "holds no settings"),
    "not YAML": ("gspo", "a: [", "not YAML"),
    "two documents": ("gspo", "beta: 0.1\n---\nbeta: 0.1\n", "not YAML"),
    "unknown key": ("gspo", "gradient_acumulation_steps: 4\n", "did you mean gradient_accumulation_steps"),
    "key twice": ("gspo", "beta: 0.0\nbeta: 0.1\n", "beta is given twice"),
    "no number": ("gspo", "gradient_accumulation_steps: four\n", "gradient_accumulation_steps is 'four'"),
    "no vLLM": ("tis", "use_vllm: false\n", "tis does not combine with use_vllm: false"),
    "correction off": ("mis", "vllm_importance_sampling_correction: false\n", "correction: false"),
    "old bound": ("icepop", "vllm_importance_sampling_cap: 2.0\n", "vllm_importance_sampling_cap: 2.0"),
    "LoRA": ("moving-reference", "use_peft: true\n", "use_peft: true"),
    "loss without clip": ("clip-higher", "loss_type: cispo\n", "loss_type: cispo"),
    "GDPO's aggregation": ("dr-grpo", "multi_objective_aggregation: normalize_then_sum\n", "normalize_then_sum"),
    "cut sampling": ("sampler-defaults", "min_p: 0.1\n", "min_p: 0.1"),
    "hidden key": ("sampler-defaults", "generation_kwargs: {top_p: 0.9}\n", "generation_kwargs of the base overrules top_p"),
    "one reward": ("gdpo", "reward_funcs: [rewards.format_reward]\n", "needs two or more reward_funcs"),
    "batch of the rollout": ("gspo", "generation_batch_size: 64\n", "take generation_batch_size out"),
    "both": ("clip-higher", "generation_batch_size: 16\nsteps_per_generation: 2\n", "TRL takes one"),
    "parts of groups": ("dr-grpo", "generation_batch_size: 60\n", "mend: generation_batch_size: 64"),
    "parts of groups held out": ("dr-grpo", "eval_strategy: steps\nper_device_eval_batch_size: 6\n",
                                 "mend: per_device_eval_batch_size: 8"),
    "LoRA in quotes": ("moving-reference", 'use_peft: "true"\n', "use_peft: true"),
    "LoRA as a word": ("moving-reference", "use_peft: 'Yes'\n", "use_peft: true"),
    "bound under the preset's": ("tis", "vllm_importance_sampling_clip_min: 3.0\n", "weight-bounds: "),
    "bound in quotes": ("tis", "vllm_importance_sampling_clip_min: '2.5'\n", "weight-bounds: "),
    "nothing to divide by": ("dr-grpo", "max_completion_length: null\n", "completion-limit: "),
    "no count": ("dr-grpo", "num_iterations: 0\n", "write a whole number of 1 or more"),
    "count of another type": ("clip-higher", "num_iterations: two\n", "num_iterations is 'two'"),
    "bound of another type": ("adaptive-entropy", "entropy_coef_max: [1]\n", "entropy_coef_max is [1]"),
    "weight above its bound": ("adaptive-entropy", "entropy_coef_max: 0.005\n", "take entropy_coef_max out of the base"),
    "weight below its bound": ("adaptive-entropy", "entropy_coef_min: 0.05\n", "take entropy_coef_min out of the base"),
    "clip that is not higher": ("clip-higher", "epsilon: 0.5\n", "take epsilon out of the base"),
    "the same, with entropy": ("entropy-80-20", "epsilon: '0.5'\n", "take epsilon out of the base"),
    "clip above the base's": ("two-sided-clip", "per_device_train_batch_size: 16\nepsilon_high: 0.1\n",
                              "take epsilon_high out of the base"),
    "list for a value": ("dr-grpo", "scale_rewards: [group]\n", "scale_rewards of the base is no single value"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "base", "what"), REFUSED.values(), ids=REFUSED)
def test_refused_in_one_line(run, name, base, what):
    code, out, err = run("emit", name, base=base)
    assert code == 2 and not out and err.count("\n") == 1 and what in err, err
    assert run("emit", "entropy-bonus", base=BASE)[0] == 0


def test_every_name_that_is_no_preset_is_refused_with_what_to_do(run):
    for name in (*OTHERS, *v.absent()):
        code, _, err = run("emit", name, base=BASE)
        assert code == 2 and re.search(r"instead: |import |`trl rloo", err), err


def test_a_base_that_is_not_there(run, tmp_path):
    for path in ("nothing.yaml", "."):
        code, _, err = run("emit", "gspo", "--base", str(tmp_path / path))
        assert code == 2 and "--base takes the YAML" in err
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    assert "not text in UTF-8" in run("emit", "gspo", "--base", str(tmp_path / "bytes"))[2]
    assert "must be 1 or more" in run("emit", "gspo", "--world-size", "0", base=BASE)[2]


def test_a_rewritten_base_that_reads_otherwise_is_refused(run, monkeypatch):
    monkeypatch.setattr(v, "_merged_text", lambda text, *_: text + "seed: 1\n")
    code, out, err = run("emit", "gspo", base=BASE)
    assert code == 2 and not out and "cannot be rewritten" in err


FOUR = "generation_batch_size: 64\ngradient_accumulation_steps: 2\n"  # 64 / (4 GPUs x 16) = 1: twice a step
NOTES = {
    "overwritten": ("dr-grpo", "scale_rewards: batch\n", "overwritten: scale_rewards: batch is now none"),
    "restored": ("dapo", "importance_sampling_level: sequence\n", "importance_sampling_level: sequence is now token"),
    "restored loss": ("lite-ppo", "loss_type: grpo\n", "loss_type: grpo is now dapo"),
    "reward": ("dapo", "seed: 1\n", "add the reward get_soft_overlong_punishment("),
    "on-policy": ("cispo", "gradient_accumulation_steps: 4\n", "steps_per_generation: 8 or more"),
    "vLLM": ("tis", "seed: 1\n", "without use_vllm: true it does nothing"),
    "experts": ("icepop", "use_vllm: true\n", "needs mixture-of-experts"),
    "ignored": ("gdpo", "scale_rewards: batch\n", "scale_rewards of the base is then without effect"),
    "on-policy over four GPUs": ("cispo", FOUR, "steps_per_generation: 4 or more"),
    "dead before": (
        "entropy-bonus",
        "remove_unused_columns: true\n",
        "the base has this already, and cannot work with it",
    ),
    "waste that is new": ("two-sided-clip", "epsilon_high: 5.0\n", "new: two-sided-clip: delta=4.0"),
    "kept": ("dr-grpo", "epsilon_high: 5.0\n", "kept from the base, and read by the loss too: epsilon_high: 5.0"),
}
QUIET = {
    "on-policy": ("cispo", "gradient_accumulation_steps: 4\nsteps_per_generation: 8\n"),
    "vLLM": ("tis", "use_vllm: true\n"),
    "two iterations": ("clip-higher", "num_iterations: 2\n"),
    "healthy bounds": ("tis", "use_vllm: 'true'\nvllm_importance_sampling_clip_min: 0.5\n"),
    "no LoRA, in quotes": ("moving-reference", 'use_peft: "false"\n'),
    "the bound is the weight": ("adaptive-entropy", "entropy_coef_max: 0.01\n"),
    "a clip that is higher": ("clip-higher", "epsilon: 0.1\nnum_iterations: 2\n"),
    "a clip that is not read": ("cispo", "epsilon: 6.0\nnum_iterations: 2\n"),
    "a rollout of two steps": ("clip-higher", "generation_batch_size: 16\n"),
}


@pytest.mark.parametrize(("name", "base", "what"), NOTES.values(), ids=NOTES)
def test_what_it_needs_besides_is_said(run, name, base, what):
    batch = "" if "per_device_train" in base else "per_device_train_batch_size: 16\n"
    code, _, err = run("emit", name, "--world-size", "4" if base == FOUR else "1", base=base + batch)
    assert code == 0 and what in err, err


@pytest.mark.parametrize(("name", "base"), QUIET.values(), ids=QUIET)
def test_what_the_base_has_is_not_asked_for(run, name, base):
    _, out, err = run("emit", name, base=base)
    assert out and "on-policy" not in err and "does nothing" not in err, err


def test_the_world_size_decides_what_is_on_policy(run):
    base = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\ngeneration_batch_size: 32\n"
    said = {
        world: "on-policy" in run("emit", "cispo", "--world-size", world, base=base)[2] for world in ("1", "2", "4")
    }
    assert said == {"1": False, "2": False, "4": True}  # 32 / (4 x world) passes serve 4, 2, 1 optimizer steps


def test_a_value_in_quotes_that_is_the_presets_stays(run):
    _, out, err = run("emit", "clip-higher", base='epsilon_high: "0.28"\n')
    assert out == 'epsilon_high: "0.28"\n' and "overwritten" not in err


def test_what_the_base_alone_is_told_is_noted_and_not_refused(run):
    base = "vllm_importance_sampling_clip_min: 4.0\nuse_vllm: true\n"
    code, out, err = run("emit", "dr-grpo", base=base)
    assert code == 0 and out and err.count("cannot work with it: weight-bounds: ") == 1, err
    assert run("emit", "tis", base=base)[0] == 2  # its own bound is part of it


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_line_ends_are_the_bases(run, tmp_path, ends):
    path = tmp_path / "ends.yaml"
    path.write_bytes(BASE.replace("\n", ends).encode())
    out = run("emit", "grpo", "--base", str(path))[1]
    assert out.count("\r") == out.count("\r\n") == (out.count("\n") if ends == "\r\n" else 0)
    assert out.replace("\r\n", "\n") == run("emit", "grpo", base=BASE)[1]
