"""scripts/preflight.py and preflight_data.py: each check is shown an input that must fail and one that must pass."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import preflight
import preflight_checks as checks
import preflight_config as config
import pytest
import tiny_model
from test_inspect_rewards import judge, made

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts/preflight.py"
MINE = ("dataset", "rewards", "memory", "gates")
REWARDS = """
def exact(completions, answer, **kwargs):
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
    return [float(t.strip().endswith(f"<answer>{a}</answer>") and t.count("<answer>") == 1) if a else None
            for t, a in zip(texts, answer)]
def other(completions, answer, **kwargs):
    return exact(completions, answer)
def closed(completions, answer):
    return exact(completions, answer)
def gold(completions, gold, **kwargs):
    return [1.0] * len(completions)
def constant(completions, **kwargs):
    return [1.0] * len(completions)
def hangs(completions, **kwargs):
    while True: pass
def slow(completions, answer, **kwargs):
    import time
    time.sleep(0.002 * len(completions))
    return exact(completions, answer)
def twin(completions, **kwargs):
    return [0.0] * len(completions)
twin.__name__ = "exact"
def format_reward(completions, **kwargs):
    return [0.0] * len(completions)
"""
JUDGE = f"""
import sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
import rewards
class Client:
    model = "judge-2026-08-06"
    sampling = {{"temperature": 0}}
    def judge(self, rubric, prompt, response, output_format): return "pass"
ask = rewards.make_rubric_judge_reward(Client(), "It asks.")
graded = rewards.correctness_reward
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Folder of a model: config, tokenizer, chat template; no weights are needed."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = tiny_model.build_tokenizer(["What is 1 + 2 ? ", "<answer>3</answer> grpo"])
    tokenizer.save_pretrained(folder)
    tiny_model.build_model(tokenizer).config.save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [tokenizer.eos_token_id]}))
    return folder


def chat(text):
    return [{"role": "user", "content": text}]


def rows(count=12):
    return [{"prompt": chat(f"What is {n} + {n}?"), "answer": str(2 * n)} for n in range(count)]


@pytest.fixture
def project(tmp_path, model):
    """A run that has nothing wrong with it: `project(settings, rows, ...)` gives the checks' view of it."""
    (tmp_path / "mine.py").write_text(REWARDS)
    (tmp_path / "judged.py").write_text(JUDGE)

    def make(settings=None, dataset=None, rewards=("mine.exact",), folder=model, **options):
        said = {"model_name_or_path": str(folder), "max_completion_length": 16, **(settings or {})}
        path = tmp_path / "grpo.yaml"
        path.write_text(json.dumps(said))
        source = options.pop("source", None)
        if source is None:
            source = tmp_path / "rows.jsonl"
            source.write_text("".join(json.dumps(row) + "\n" for row in (rows() if dataset is None else dataset)))
        words = ["--config", path, "--dataset", source, "--inspection", tmp_path / "d", "--rewards", *rewards]
        words += [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        return preflight.build_parser().parse_args(list(map(str, words)))

    return make


def outcomes(options: argparse.Namespace, check: str) -> list[dict]:
    known = next(one for one in checks.CHECKS if one.id == check)
    with contextlib.chdir(options.config.parent):
        run = preflight.gather(options, (known.group,))
        return [one for one in checks.results(run, (known.group,)) if one["id"] == check]


CHAT_ROWS = rows()
TEXT_ROWS = [{"prompt": "What is 1 + 2?", "answer": "3"}] * 2
# check -> (what makes it fail, words of the evidence, what makes it pass); a dict holds arguments of `project`.
CASES = {
    "dataset": ({"source": "nowhere.jsonl"}, "no such file", {}),
    "prompt-column": ({"dataset": [{"question": "?", "answer": "1"}]}, "columns are answer, question", {}),
    "prompt-format": ({"dataset": [*rows(1), *TEXT_ROWS]}, "messages: row 1; text: rows 2, 3", {"dataset": TEXT_ROWS}),
    "prompt-is-text": ({"dataset": TEXT_ROWS}, "template is not applied", {}),
    "last-role": ({"dataset": [{"prompt": [*chat("?"), {"role": "assistant", "content": "x"}], "answer": "1"}]},
                  "row 1: the last message", {}),
    "reserved-columns": ({"dataset": [{**row, "completions": "x"} for row in rows()]}, "completions", {}),
    "reward-columns": ({"rewards": ["mine.gold"]}, "mine.gold needs gold; columns are answer", {}),
    "column-types": ({"dataset": [*rows(), {"prompt": chat("?"), "answer": "x"}, {"prompt": chat("?"), "answer": 3}]},
                     "answer: 13 number, 1 str", {}),
    "none-filled": ({"dataset": [{**row, "schema": {f"k{n % 2}": 1}} for n, row in enumerate(rows())]},
                    "schema: 12 of 12", {"dataset": [{**row, "schema": {"k": 1}} for row in rows()]}),
    "missing-golds": ({"dataset": [*rows(), {"prompt": chat("?"), "answer": ""}]}, "answer is empty in 1 of 13", {}),
    "duplicate-prompts": ({"dataset": [*rows(), *rows(1)]}, "12 different prompts in 13 rows", {}),
    "template": ({"folder": "without"}, "no chat template", {}),
    "template-tail": ({"folder": "opens", "rewards": ["mine.format_reward"]}, "no completion begins with it", {}),
    "end-token": ({"folder": "other_end"}, "generation stops only at <eos>", {}),
    "context-length": ({"settings": {"max_completion_length": 1020}}, "above max_position_embeddings 1024", {}),
    "reward-import": ({"rewards": ["mine.nothing"]}, "has no reward 'nothing'", {}),
    "reward-names": ({"rewards": ["mine.exact", "mine.twin"]}, "exact stands for mine.exact, mine.twin",
                     {"rewards": ["mine.exact", "mine.other"]}),
    "reward-weights": ({"settings": {"reward_weights": [1.0, 2.0]}}, "2 weights for 1 rewards",
                       {"settings": {"reward_weights": [1.0]}}),
    "reward-lint": ({"rewards": ["mine.constant"]}, "mine.constant, variance", {"rewards": ["judged.graded"]}),
    "reward-speed": ({"rewards": ["mine.slow"], "settings": {"per_device_train_batch_size": 65536}}, "65536 completions", {}),
    "memory": ({"device_gib": 0.05}, "verdict", {"device_gib": 140}),
    "calibration": ({"rewards": ["judged.ask"]}, "no calibration was given", {}),
}  # fmt: skip
GATES = {"success-rate", "dead-groups", "cut-completions", "inspection"}  # they read an inspection: tested below


def test_each_check_of_these_groups_has_its_case():
    assert {one.id for one in checks.CHECKS if one.group in MINE} == CASES.keys() | GATES


@pytest.fixture(scope="module")
def folders(model, tmp_path_factory):
    """Models that differ in their template or in what ends a turn."""
    made_of = {
        "without": {"chat_template": None},
        "opens": {"chat_template": "{% for m in messages %}{{ m['content'] }}<eos>{% endfor %}"
                                   "{% if add_generation_prompt %}<think>\n{% endif %}"},
        "other_end": {"chat_template": "{% for m in messages %}{{ m['content'] }}<|user|>{% endfor %}"},
    }  # fmt: skip
    found = {}
    for name, change in made_of.items():
        folder = tmp_path_factory.mktemp(name)
        for path in model.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        (folder / "chat_template.jinja").unlink(missing_ok=True)
        tokenizer = folder / "tokenizer_config.json"
        tokenizer.write_text(json.dumps({**json.loads(tokenizer.read_text()), **change}))
        found[name] = folder
    return found


@pytest.mark.parametrize("check", CASES)
def test_a_check_fails_and_passes_where_it_must(check, project, folders):
    bad, words, good = CASES[check]
    if "folder" in bad:
        bad = {**bad, "folder": folders[bad["folder"]]}
    found = outcomes(project(**bad), check)
    failures = [one for one in found if one["verdict"] == "fail"]
    assert failures and any(words in one["evidence"] for one in failures) and all(one["fix"] for one in failures), found
    fine = outcomes(project(**good), check)
    assert fine and {one["verdict"] for one in fine} == {"pass"}, fine


def test_what_datasets_does_with_such_columns(tmp_path):
    """The reasons of the checks on columns, asked of the installed library."""
    from datasets import Dataset, load_dataset

    def loaded(text):
        path = tmp_path / "rows.jsonl"
        path.write_text(text)
        return list(load_dataset("json", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache")))

    mixed = loaded('{"answer": "1.50"}\n{"answer": "true"}\n{"answer": "x"}\n{"answer": 2}\n')
    assert [row["answer"] for row in mixed] == [1.5, True, "x", 2]
    assert [row["answer"] for row in loaded('{"answer": "1.50"}\n{"answer": "2"}\n')] == ["1.50", "2"]
    objects = [{"schema": {"a": 1}}, {"schema": {"b": 1}}]
    assert loaded("".join(json.dumps(row) + "\n" for row in objects)) == objects
    assert Dataset.from_list(objects)[0] == {"schema": {"a": 1, "b": None}}


# ---- datasets as `trl grpo` loads them


def loaded(tmp_path, settings, text=None):
    """Outcome of the check `dataset` for a YAML, and the rows that the checks see."""
    path = tmp_path / "grpo.yaml"
    path.write_text(json.dumps(settings))
    (tmp_path / "rows.jsonl").write_text(text or "".join(json.dumps(row) + "\n" for row in rows()))
    with contextlib.chdir(tmp_path):
        run = preflight.gather(preflight.build_parser().parse_args(["--config", "grpo.yaml"]), ("dataset",))
        return next(one for one in checks.results(run, ("dataset",)) if one["id"] == "dataset"), run


ENTRY = {"path": "json", "data_files": "rows.jsonl"}
TRL_LOADS = {
    "plain": ({"datasets": [ENTRY]}, 12, {"prompt", "answer"}),
    "columns": ({"datasets": [{**ENTRY, "columns": ["prompt"]}]}, 12, {"prompt"}),
    "split": ({"datasets": [{**ENTRY, "split": "train[:2]"}]}, 2, {"prompt", "answer"}),
    "fraction": ({"datasets": [{**ENTRY, "fraction": 0.5}, {**ENTRY, "fraction": 0.5}]}, 24, {"prompt", "answer"}),
    "list": ({"datasets": [{"path": "json", "data_files": ["rows.jsonl"]}]}, 12, {"prompt", "answer"}),
    "glob": ({"datasets": [{"path": "json", "data_files": "row*.jsonl"}]}, 12, {"prompt", "answer"}),
}
TRL_REFUSES = {
    "split": ({"datasets": [{**ENTRY, "split": "test"}]}, 'Unknown split "test"'),
    "kind": ({"datasets": [{"path": "parquet", "data_files": "rows.jsonl"}]}, "cannot be loaded"),
    "key": ({"datasets": [{**ENTRY, "field_x": 1}]}, "unexpected keyword argument 'field_x'"),
    "name": ({"dataset_name": "rows.jsonl"}, "a file cannot be named so"),
    "train split": ({"datasets": [ENTRY], "dataset_train_split": "training"}, "makes a split train only"),
    "text": ({"datasets": "rows.jsonl"}, "must be a list of entries"),
}


@pytest.mark.parametrize("case", TRL_LOADS)
def test_rows_are_those_that_trl_loads(case, tmp_path):
    from trl import DatasetMixtureConfig, get_dataset

    settings, count, columns = TRL_LOADS[case]
    entry, run = loaded(tmp_path, settings)
    assert entry["verdict"] == "pass" and run.total_rows == len(run.rows) == count and set(run.rows[0]) == columns
    with contextlib.chdir(tmp_path):
        assert run.rows == list(get_dataset(DatasetMixtureConfig(datasets=settings["datasets"]))["train"])


@pytest.mark.parametrize("case", TRL_REFUSES)
def test_datasets_that_trl_cannot_load_are_dead(case, tmp_path):
    settings, words = TRL_REFUSES[case]
    entry, _ = loaded(tmp_path, settings)
    assert entry["verdict"] == "fail" and entry["severity"] == "dead" and words in entry["evidence"], entry


def test_a_hub_that_cannot_be_reached_costs_seconds_and_the_quick_groups_nothing(tmp_path):
    """Without a way out each question to the hub would be put again for half a minute."""
    (tmp_path / "grpo.yaml").write_text("dataset_name: org/none\nmodel_name_or_path: org/none\nreward_funcs: [m.r]\n")
    env = {name: value for name, value in os.environ.items() if not name.startswith("HF_HUB")}
    env |= {"HF_ENDPOINT": "http://127.0.0.1:9"}  # nothing listens there
    quick = command("--config", "grpo.yaml", "--only", "batch", "--json", cwd=tmp_path, env=env)
    found = {one["id"]: one for one in json.loads(quick.stdout)["checks"]}
    assert "are not fetched for these groups alone" in found["too-few-prompts"]["evidence"], quick.stdout
    start = time.monotonic()
    whole = command("--config", "grpo.yaml", "--only", "dataset", "--json", cwd=tmp_path, env=env)
    found = {one["id"]: one for one in json.loads(whole.stdout)["checks"]}
    assert found["dataset"]["verdict"] == "fail" and "--model FOLDER" in found["end-token"]["fix"], whole.stdout
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(("rows_seen", "verdict"), [(2000, "pass"), (5, "not measured")])
@pytest.mark.parametrize("size", [None, 0.5])
def test_a_dataset_of_unknown_size_is_enough_or_not_known(tmp_path, rows_seen, verdict, size):
    (tmp_path / "grpo.yaml").write_text(json.dumps({"datasets": [{"path": "org/x"}], "test_split_size": size}
                                                   | {"gradient_accumulation_steps": 8}))  # fmt: skip
    run = checks.Run(config.read(tmp_path / "grpo.yaml"), rows=[{"prompt": "?"}] * rows_seen, total_rows=None)
    (entry,) = [one for one in checks.results(run, ("batch",)) if one["id"] == "too-few-prompts"]
    assert entry["verdict"] == verdict and "failed itself" not in entry["evidence"], entry


# ---- rewards as `trl grpo` finds them


@pytest.mark.parametrize(
    ("name", "words"),
    [("correctness_reward", "and no other name"), ("rewards.correctness_reward", "cannot import rewards"),
     ("judge.Desk", "cannot import judge"), ("accuracy_reward", None), ("get_soft_overlong_punishment", None)],
)  # fmt: skip
def test_rewards_are_found_as_trl_finds_them(project, name, words):
    (entry,) = outcomes(project(rewards=[name]), "reward-import")
    assert (entry["verdict"] == "pass") == (words is None) and (words or "") in entry["evidence"], entry


def test_a_module_of_ones_own_that_is_called_like_ours(project, tmp_path):
    options = project(rewards=["rewards.mine"])
    (tmp_path / "rewards.py").write_text("def mine(completions, **kwargs):\n    return [0.5] * len(completions)\n")
    assert outcomes(options, "reward-import")[0]["verdict"] == "pass"
    (entry,) = outcomes(options, "reward-lint")
    assert entry["verdict"] == "not measured" and "rename it" in entry["evidence"], entry


def test_an_import_that_hangs_costs_its_budget_only(project, tmp_path):
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")
    start = time.monotonic()
    (entry,) = outcomes(project(rewards=["slow.one"], reward_budget_s=2), "reward-import")
    assert entry["verdict"] == "fail" and "no answer in 2 s" in entry["evidence"] and time.monotonic() - start < 20


def test_a_folder_without_a_tokenizer_is_not_measured(project, model, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text((model / "config.json").read_text())
    for check in ("template", "end-token", "context-length"):
        (entry,) = outcomes(project(folder=bare), check)
        assert entry["verdict"] == "not measured" and "holds no tokenizer" in entry["evidence"], entry


def test_code_of_a_tokenizer_is_never_run(project, model, tmp_path):
    folder = tmp_path / "auto"
    folder.mkdir()
    for path in model.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"auto_map": {"AutoTokenizer": ["mytok.Tok", "mytok.Tok"]}, "tokenizer_class": "Tok"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "mytok.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    outcomes(project(folder=folder), "template")
    assert not (tmp_path / "ran").exists()


UNKNOWN = "import sys\nfrom trl import GRPOConfig\nGRPOConfig(output_dir='o', {})\n"


@pytest.mark.parametrize(
    "text", ["**cfg", "gradient_checkpointing=bool(sys.argv)", "steps_per_generation=len(sys.argv)"]
)
def test_memory_is_not_planned_from_what_is_not_known(project, model, tmp_path, text):
    options = project(device_gib=80, model=model)
    options.config = tmp_path / "train.py"
    options.config.write_text(UNKNOWN.format(text))
    (entry,) = outcomes(options, "memory")
    assert entry["verdict"] == "not measured" and "known only" in entry["evidence"] + "known only" * ("cfg" in text), (
        entry
    )


# ---- gates


def inspected(tmp_path, paid=lambda group, place: place % 2, finish=None, labels=60, people="human", sampled=()):
    folder, _ = made(tmp_path, REWARDS, [
        {"prompt": f"What is {group} + 1?", "completion": f"<answer>{3 if paid(group, place) else 4}</answer>",
         "answer": "3", **({"finish": finish} if finish else {})}
        for group in range(10) for place in range(8)
    ], "mine.exact", sampled=sampled)  # fmt: skip
    judge(folder, labels, lambda row: "pass" if "3" in row["completion"] else "fail", people)
    return folder


def test_gates_pass_on_a_record_that_people_made(tmp_path, project):
    inspected(tmp_path)
    for check in ("success-rate", "dead-groups"):
        assert [one["verdict"] for one in outcomes(project(), check)] == ["pass"], outcomes(project(), check)


@pytest.mark.parametrize(
    ("check", "paid", "words"),
    [("success-rate", lambda group, place: False, "0% of 80"), ("success-rate", lambda group, place: True, "100% of 80"),
     ("dead-groups", lambda group, place: group % 4 == 0, "100% of groups of 8")],
)  # fmt: skip
def test_gates_fail_on_samples_that_teach_nothing(tmp_path, project, check, paid, words):
    inspected(tmp_path, paid, labels=0)
    found = outcomes(project(), check)
    assert [one["verdict"] for one in found] == ["fail"] and words in found[0]["evidence"], str(found)


@pytest.mark.parametrize(("finish", "verdict"), [("length", "fail"), ("stop", "pass"), (None, "not measured")])
def test_cut_completions(tmp_path, project, finish, verdict):
    inspected(tmp_path, finish=finish, labels=0)
    found = outcomes(project(), "cut-completions")
    assert [one["verdict"] for one in found] == [verdict], found
    assert finish != "length" or found[0]["severity"] == "dead"


def test_the_inspection_gate(tmp_path, project):
    assert outcomes(project(), "inspection")[0]["verdict"] == "not measured"
    settings = {"temperature": 1.0, "max_completion_length": 16, "model_name_or_path": "m"}
    (tmp_path / "grpo.yaml").write_text(json.dumps(settings))
    folder = inspected(tmp_path, people="agent", sampled=("--config", "grpo.yaml", "--model", "m"))
    found = outcomes(project(settings), "inspection")
    assert found[0]["verdict"] == "fail" and "judged 0 outputs" in found[0]["evidence"], str(found)
    judge(folder, 60, lambda row: "pass" if "3" in row["completion"] else "fail")
    assert outcomes(project(settings), "inspection")[0]["verdict"] == "pass", outcomes(project(settings), "inspection")
    found = outcomes(project({**settings, "temperature": 0.7}), "inspection")
    assert found[0]["verdict"] == "fail" and "temperature" in found[0]["evidence"]
    (tmp_path / "mine.py").write_text(REWARDS + "\n# another word\n")
    found = outcomes(project(settings), "inspection")
    assert found[0]["verdict"] == "fail" and "mine.py" in found[0]["evidence"]


def test_a_calibration_that_vouches(tmp_path, project, monkeypatch):
    import judge as judge_script

    path = tmp_path / "calibration.json"
    record = {
        "schema_version": 1, "verdict": "calibrated", "rubric_sha256": judge_script.rubric_sha256("It asks."),
        "measured": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "judge": {"model": "judge-2026-08-06", "sampling": {"temperature": 0},
                  "instructions_sha256": judge_script.instructions_sha256()},
    }  # fmt: skip
    monkeypatch.setenv("PREFLIGHT_CALIBRATION", "")
    path.write_text(json.dumps(record))
    found = outcomes(project(rewards=["judged.ask"], calibration=path), "calibration")
    assert [one["verdict"] for one in found] == ["pass"], found
    path.write_text(json.dumps({**record, "verdict": "no"}))
    found = outcomes(project(rewards=["judged.ask"], calibration=path), "calibration")
    assert found[0]["verdict"] == "fail" and "verdict is 'no'" in found[0]["evidence"]


@pytest.mark.parametrize(
    ("weights", "more", "verdict", "severity"),
    [([0.0], {}, "fail", "dead"), ([-1.0], {}, "fail", "tell"), ([float("nan")], {}, "fail", "dead"),
     ([1.0], {"reward_model_name_or_path": "m"}, "fail", "dead"),
     ([1.0, 1.0], {"reward_model_name_or_path": "m"}, "pass", None)],
)  # fmt: skip
def test_weights_that_pay_nothing_or_do_not_fit(project, weights, more, verdict, severity):
    (entry,) = outcomes(project({"reward_weights": weights, **more}), "reward-weights")
    assert entry["verdict"] == verdict and (severity is None or entry["severity"] == severity), entry


# ---- the command


def command(*words, cwd, **more):
    words = [sys.executable, str(SCRIPT), *map(str, words)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120, **more)


def test_go_needs_every_dead_check_and_every_gate(tmp_path, project):
    options = project()
    words = ["--config", options.config, "--dataset", options.dataset, "--rewards", "mine.exact", "--json"]
    first = command(*words, "--device-gib", "100", "--record", tmp_path / "preflight.json", cwd=tmp_path)
    record = json.loads(first.stdout)
    assert first.returncode == 1 and record["verdict"] == "no-go", first.stderr
    assert {"inspection", "success-rate"} <= set(record["stops"])
    assert json.loads((tmp_path / "preflight.json").read_text()) == record
    options = project(device_gib=100)
    with contextlib.chdir(tmp_path):
        run = preflight.gather(options, checks.GROUPS)
        entries = checks.results(run)
    assert [one["id"] for one in entries] == [one["id"] for one in record["checks"]]
    for left_out in (None, *record["stops"]):
        waivers = {name: "known from the run before" for name in record["stops"] if name != left_out}
        again = preflight.record_of(run, entries, waivers, checks.GROUPS)
        assert again["verdict"] == ("no-go" if left_out else "go"), left_out
        assert again["waivers"] == waivers and again["stops"] == ([left_out] if left_out else [])
        assert ("waived: known from the run before" in preflight.as_text(again, False)) == bool(waivers)
    part = preflight.record_of(run, entries, waivers, ("arguments",))
    assert part["verdict"] != "go"


def test_a_record_replaces_nothing_but_a_record(tmp_path, project):
    options = project()
    before = options.config.read_text()
    bad = command("--config", "grpo.yaml", "--only", "batch", "--record", "grpo.yaml", cwd=tmp_path)
    assert bad.returncode == 2 and "no record of preflight" in bad.stderr and options.config.read_text() == before
    nowhere = command("--config", "grpo.yaml", "--only", "batch", "--record", "no/folder.json", cwd=tmp_path)
    assert nowhere.returncode == 2 and "there is no folder" in nowhere.stderr and not nowhere.stdout
    for _ in range(2):
        fine = command("--config", "grpo.yaml", "--only", "arguments", "--record", "preflight.json", cwd=tmp_path)
        assert fine.returncode == 0 and json.loads((tmp_path / "preflight.json").read_text())["verdict"] == "partial"


def test_fix_with_nothing_to_mend_is_no_bad_usage(tmp_path, project):
    project()
    result = command("--config", "grpo.yaml", "--only", "arguments", "--fix", "new.yaml", cwd=tmp_path)
    assert result.returncode == 0 and "nothing can be mended" in result.stderr and not (tmp_path / "new.yaml").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "give the run's settings"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: No such file"),
        (["--config", "grpo.yaml", "--waive", "inspection"], "say why"),
        (["--config", "grpo.yaml", "--waive", "inspektion=x"], "did you mean inspection"),
        (["--config", "grpo.yaml", "--fix", "grpo.yaml"], "is there already"),
        (["--config", "grpo.yaml", "--world-size", "0"], "must be 1 or more"),
        (["--config", "rows.jsonl"], "neither a YAML"),
        (["--config", "list.yaml"], "holds no settings"),
        (["--config", "broken.yaml"], "not YAML"),
        (["--config", "twice.yaml"], "beta is given twice"),
        (["--config", "broken.py"], "broken.py:1: not Python"),
        (["--config", "empty.py"], "no call of GRPOConfig"),
        (["--config", "two.py"], "name one of"),
        (["--config", "binary.yaml"], "not text in UTF-8"),
        (["--config", "rloo.py"], "calls RLOOConfig"),
    ],
)  # fmt: skip
def test_bad_usage_is_one_line(tmp_path, project, words, says):
    project()
    for name, text in {
        "list.yaml": "- a\n", "broken.yaml": "a: [", "twice.yaml": "beta: 1\nbeta: 2\n", "broken.py": "def (",
        "empty.py": "x = 1", "two.py": "GRPOConfig()\nGRPOConfig()\n", "rloo.py": "RLOOConfig()",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    result = command(*words, "--only", "arguments", cwd=tmp_path)
    assert result.returncode == 2 and says in result.stderr, result.stderr
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1 and not result.stdout


def test_a_script_is_never_run(tmp_path, project):
    project()
    (tmp_path / "train.py").write_text(
        "import pathlib\npathlib.Path('ran').touch()\nfrom mine import exact\n"
        "from trl import GRPOConfig, GRPOTrainer\n"
        "args = GRPOConfig(output_dir='x', learning_rate=rate(), num_generations=4)\n"
        "GRPOTrainer(model='m', reward_funcs=[exact], args=args)\n"
    )
    result = command("--config", "train.py", "--dataset", "rows.jsonl", "--json", cwd=tmp_path)
    record = json.loads(result.stdout)
    assert result.returncode == 1 and not (tmp_path / "ran").exists()
    assert record["inputs"]["rewards"] == ["mine.exact"]
    assert any("`rate()`" in one["evidence"] for one in record["checks"] if one["verdict"] == "not measured")


def test_rewards_that_live_in_the_script_are_not_measured(tmp_path, project):
    project()
    (tmp_path / "train.py").write_text("def r(completions): pass\nGRPOTrainer(reward_funcs=[r], args=GRPOConfig())\n")
    result = command("--config", "train.py", "--dataset", "rows.jsonl", "--only", "rewards", "--json", cwd=tmp_path)
    found = {one["id"]: one for one in json.loads(result.stdout)["checks"]}
    assert result.returncode == 1 and found["reward-lint"]["verdict"] == "not measured"
    assert "move the rewards into a module" in found["reward-lint"]["evidence"]


def test_a_reward_that_hangs_is_killed(project, tmp_path):
    start = time.monotonic()
    found = outcomes(project(rewards=["mine.hangs"], reward_budget_s=3), "reward-lint")
    assert [one["verdict"] for one in found] == ["not measured"] and "3 s" in found[0]["evidence"], str(found)
    assert time.monotonic() - start < 20


def test_a_failing_check_of_ours_is_not_fine(project, monkeypatch):
    def broken(run):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(checks, "CHECKS", [checks.Check("broken", "dataset", "dead", "", "", broken)])
    (entry,) = checks.results(preflight.gather(project(), ("dataset",)), ("dataset",))
    assert entry["verdict"] == "not measured" and "ZeroDivisionError" in entry["evidence"]


def test_fast_groups_need_no_torch_and_answer_in_a_second(tmp_path, project):
    """From the bundled table: an environment that holds PyYAML and nothing of torch or trl."""
    options = project({"max_prompt_length": 256})
    empty = tmp_path / "empty"
    for name in ("torch", "trl", "transformers", "datasets", "numpy", "scipy"):
        (empty / name).mkdir(parents=True)
        (empty / name / "__init__.py").write_text(f"raise ImportError('{name} must not be imported')\n")
    code = (
        "import importlib.metadata as m, sys\n"
        "real = m.version\n"
        "def version(name):\n"
        "    if name in ('trl', 'transformers', 'torch'): raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
        f"sys.path[:0] = [{str(empty)!r}, {str(SCRIPT.parent)!r}]\n"
        "import preflight; sys.exit(preflight.main(sys.argv[1:]))\n"
    )
    words = ["--config", str(options.config), "--only", "arguments", "batch", "memory", "gates", "--json",
             "--device-gib", "80", "--dataset", str(options.dataset)]  # fmt: skip
    result = subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True)
    record = json.loads(result.stdout)
    assert result.returncode == 1 and record["trl"]["installed"] is None, result.stderr
    found = {one["id"]: one for one in record["checks"]}
    assert (
        found["unknown-argument"]["verdict"] == "fail" and "max_prompt_length" in found["unknown-argument"]["evidence"]
    )
    assert found["memory"]["verdict"] == "pass", found["memory"]
    assert not [one for one in record["checks"] if "failed itself" in one["evidence"]], record


def test_the_names_of_another_trl_are_read_from_its_source(monkeypatch):
    """The reader of sources agrees with the installed class, and is used when the version differs from the table's."""
    import dataclasses

    from trl import GRPOConfig

    fields = config.fields_in_source()
    real = {field.name: field for field in dataclasses.fields(GRPOConfig)}
    assert fields.keys() == real.keys()
    assert fields["loss_type"] == "dapo" and fields["num_generations"] == 8 and fields["learning_rate"] == 1e-6
    config.arguments.cache_clear()
    monkeypatch.setattr(config, "installed", lambda package: "9.9.9")
    monkeypatch.setattr(config, "fields_in_source", lambda: {"brand_new": 1, "loss_type": "new"})
    try:
        known = config.arguments()
        assert "brand_new" in known and "beta" not in known and known["loss_type"]["default"] == "new"
        assert "lora_r" in known and "9.9.9" in config.about_table()
    finally:
        config.arguments.cache_clear()


SCRIPT_TEXT = """
from trl import GRPOConfig as Config, GRPOConfig, GRPOTrainer
from my.rewards import fmt
LENGTH = 2048
again = 1
again = 2
args = GRPOConfig(
    "out", learning_rate=-(-5e-6), max_completion_length=LENGTH - 256, beta=again, bf16=ok(),
    model_init_kwargs=dict(dtype=torch.bfloat16), reward_weights=[1.0, 0.5], loss_type="dapo" if x else "grpo",
)
args.beta = 0.04
if x:
    args.epsilon = 0.3
trainer = GRPOTrainer(model="org/name", reward_funcs=[fmt], args=args, peft_config=LoraConfig(r=32))
"""


def test_what_a_script_says(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT_TEXT)
    settings = config.read(path)
    assert settings.get("output_dir") == "out" and settings.get("learning_rate") == 5e-6
    assert settings.get("max_completion_length") == 1792 and settings.get("beta") == 0.04
    assert settings.get("model_init_kwargs") == {"dtype": "bfloat16"} and settings.get("reward_weights") == [1.0, 0.5]
    assert settings.get("use_peft") is True and settings.get("lora_r") == 32 and settings.get("lora_dropout") == 0.0
    assert settings.rewards == ["my.rewards.fmt"] and settings.get("model_name_or_path") == "org/name"
    for name in ("bf16", "loss_type", "epsilon"):
        with pytest.raises(config.NotKnown):
            settings.get(name)
    assert settings.where("beta") == "train.py:11" and settings.get("num_generations") == 8


@pytest.mark.parametrize(
    ("text", "name"),
    [("def f(n): return GRPOConfig(beta=n)\nn = 1\n", "beta"), ("GRPOConfig(**cfg)", "beta"),
     ("for n in (1, 2): GRPOConfig(beta=n)", "beta"), ("n = 1\nn += 1\nGRPOConfig(beta=n)", "beta"),
     ("a = GRPOConfig()\ndef g():\n    a.beta = 1\n", "beta"), ("with x() as n: GRPOConfig(beta=n)", "beta"),
     ("n = m = 1\n(n, q) = 2, 3\nGRPOConfig(beta=n)", "beta"), ("n = 1 / 0\nGRPOConfig(beta=n)", "beta")],
)  # fmt: skip
def test_what_a_script_does_not_say_is_not_guessed(tmp_path, text, name):
    path = tmp_path / "train.py"
    path.write_text(text)
    with pytest.raises(config.NotKnown):
        config.read(path).get(name)


def test_yaml_values_become_what_trls_parser_makes_of_them(tmp_path):
    from transformers import HfArgumentParser
    from trl import GRPOConfig

    texts = {"learning_rate": "1e-6", "beta": "0.1", "num_generations": "4", "use_vllm": "yes", "bf16": "false",
             "max_steps": "3", "epsilon_high": "0.3", "loss_type": "grpo"}  # fmt: skip
    parser = HfArgumentParser(GRPOConfig)
    parser.set_defaults(output_dir=str(tmp_path), use_cpu=True, **{**texts, "use_vllm": "no"})
    (real,) = parser.parse_args_into_dataclasses([])
    for name, text in texts.items():
        mine = config.as_parsed(text, config.arguments()[name]["types"])
        assert name == "use_vllm" or (mine == getattr(real, name) and type(mine) is type(getattr(real, name))), name


def test_help_is_quick_and_says_what_it_must():
    result = command("--help", cwd=ROOT)
    assert result.returncode == 0
    for word in ("example", "exit codes", "severity", *checks.GROUPS):
        assert word in result.stdout, word


def test_a_rehearsal_is_part_of_the_answer(tmp_path, project):
    """Through the real trainer: once with rewards that live, once with one that raises."""
    options = project({"per_device_train_batch_size": 8, "num_generations": 4, "output_dir": str(tmp_path / "out")})
    sampled = tmp_path / "sampled.jsonl"
    texts = [(row, f"<answer>{value}</answer>") for row in rows() for value in (row["answer"], "no")]
    sampled.write_text("".join(json.dumps({"prompt": row["prompt"], "completion": text}) + "\n" for row, text in texts))
    words = ["--config", options.config, "--dataset", options.dataset, "--completions", sampled, "--only", "batch"]
    fine = command(*words, "--rewards", "mine.other", "--rehearse", "--json", cwd=tmp_path)
    record = json.loads(fine.stdout)
    assert fine.returncode == 0 and record["verdict"] == "partial", fine.stdout[-3000:]
    assert [one["verdict"] for one in record["checks"] if one["group"] == "rehearsal"] == ["pass"]
    assert record["rehearsal"]["steps"]["done"] == 2


def test_faults_of_a_rehearsal_are_dead_and_its_silence_is_not_measured(project, monkeypatch):
    run = preflight.gather(project(), ("dataset",))

    def answers(kind):
        report = {"steps": {"done": 1, "asked": 2}, "seconds": {"total": 3.0}, "switched": [],
                  "faults": [{"kind": kind, "evidence": "seen", "fix": "mend"}]}  # fmt: skip
        monkeypatch.setattr(preflight.data, "command", lambda words, timeout_s: (1, report))
        return preflight.rehearse(run)

    for kind, verdict in {"reward_raised": "fail", "no_signal": "not measured"}.items():
        (entry,) = answers(kind)
        assert (entry["verdict"], entry["waive"], entry["severity"]) == (verdict, f"rehearsal:{kind}", "dead")

    def silent(words, timeout_s):
        raise preflight.data.CommandFailed("gave no answer in 150 s and was killed")

    monkeypatch.setattr(preflight.data, "command", silent)
    (entry,) = preflight.rehearse(run)
    assert entry["verdict"] == "not measured" and "no answer in 150 s" in entry["evidence"]
