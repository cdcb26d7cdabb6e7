"""scripts/inspect_rewards.py: rewards that hang or lie, labels that must count or not, and a gate that must say no."""

import contextlib
import csv
import http.server
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

import inspect_label
import inspect_rewards as ir
import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts/inspect_rewards.py"
EXAMPLES = ROOT / "examples/completions.jsonl"


def run(*words, cwd=ROOT, **more):
    words = [sys.executable, str(SCRIPT), *map(str, words)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120, **more)


def made(tmp_path, rewards="", rows=None, reward="mine.paid", above=0.5, sampled=()):
    """A folder with completions, and scores of a reward written for the test."""
    (tmp_path / "mine.py").write_text(
        rewards or "def paid(completions, **kwargs):\n    return [float('good' in c) for c in completions]\n"
    )
    rows = rows or [
        {"prompt": f"p{group}", "completion": f"{'good' if place % 2 else 'bad'} {group} {place}"}
        for group in range(10) for place in range(8)
    ]  # fmt: skip
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder = tmp_path / "d"
    first = run("sample", "--completions", "c.jsonl", "--dir", folder, *sampled, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    second = run("score", "--reward", reward, "--dir", folder, "--pass-above", above, "--budget-s", 0.4, cwd=tmp_path)
    return folder, second


def judge(
    folder, count, verdict=lambda row: "pass" if "good" in row["completion"] else "fail", kind="human", who="ann"
):
    """Labels of the first `count` outputs of the random order, as the labelling program writes them."""
    rows = {row["id"]: row for row in ir.completions_of(folder)}
    for ident in ir.random_order(list(rows.values()))[:count]:
        inspect_label.append_label(folder / "labels.jsonl", {
            "id": ident, "label": verdict(rows[ident]), "note": "", "labeller": who, "kind": kind, "part": "random",
            "time": "2026-11-30T09:00:00Z",
        })  # fmt: skip


def gate(folder, *words):
    """The command's own function, in this process: scipy is imported once. Exit codes: `test_the_gates_exit_codes`."""
    args = ir.build_parser().parse_args(["gate", "--dir", str(folder), *map(str, words)])
    with contextlib.chdir(folder.parent):
        found = ir.gate(args)
    return {"go": 0, "no": 1}[found["gate"]], json.loads(json.dumps(found))


def test_the_gates_exit_codes(tmp_path):
    folder, _ = made(tmp_path)
    no = run("gate", "--dir", folder, "--json", cwd=tmp_path)
    assert no.returncode == 1 and json.loads(no.stdout)["gate"] == "no", no.stderr
    judge(folder, 50)
    go = run("gate", "--dir", folder, cwd=tmp_path)
    assert go.returncode == 0 and go.stdout.startswith("go"), go.stderr


# ---- score: what a reward does to itself


HANGS = """import os, time, sys
def paid(completions, **kwargs):
    for text in completions:
        print("chatter that must not end up among the answers")
        if "3 3" in text: time.sleep(60)
        if "4 4" in text: os._exit(3)
        if "5 5" in text: raise KeyError("gold")
        if "6 6" in text: return [float("inf")] * len(completions)
        if "7 7" in text: sys.exit(1)
    return [float("good" in c) for c in completions]
"""


def test_a_reward_that_fails_costs_its_row_only(tmp_path):
    folder, result = made(tmp_path, HANGS)
    assert result.returncode == 0 and "failed: 5" in result.stdout, result.stdout + result.stderr
    rows = {row["completion"]: row["id"] for row in ir.completions_of(folder)}
    scores = {one["id"]: one for one in json.loads((folder / "scores.json").read_text())["rows"]}
    said = {text: scores[rows[text]]["error"] for text in rows if scores[rows[text]]["error"]}
    assert set(said) == {"good 3 3", "bad 4 4", "good 5 5", "bad 6 6", "good 7 7"}
    assert "no answer within 0.4 s" in said["good 3 3"] and "ended the process (3)" in said["bad 4 4"]
    assert "KeyError" in said["good 5 5"] and "finite" in said["bad 6 6"] and "SystemExit" in said["good 7 7"]
    assert all(scores[ident]["total"] == float("good" in text) for text, ident in rows.items() if text not in said)
    judge(folder, 80)
    code, found = gate(folder)
    assert (
        code == 1 and found["verdict"] == "not measured" and any("failed on some rows" in r for r in found["reasons"])
    )


@pytest.mark.parametrize(
    ("reward", "says"),
    [
        ("mine.nothing", "has no reward 'nothing'"), ("nowhere.paid", "cannot import nowhere"),
        ("correctness_rewards", "unknown reward"), ("correctness_reward", "answer"),
    ],
)  # fmt: skip
def test_a_reward_that_cannot_be_called_is_one_line(tmp_path, reward, says):
    _, result = made(tmp_path, reward=reward)
    said = result.stderr if result.returncode == 2 else result.stdout
    assert says in said and "Traceback" not in result.stderr
    assert result.returncode in (1, 2)


def test_a_reward_that_always_abstains_is_not_measured(tmp_path):
    folder, result = made(tmp_path, "def paid(completions, **kwargs):\n    return [float('nan')] * len(completions)\n")
    assert result.returncode == 1
    judge(folder, 80)
    code, found = gate(folder)
    assert code == 1 and found["verdict"] == "not measured" and "paid scored no row" in found["reasons"]


# ---- the gate


def test_fifty_outputs_read_by_a_person_open_the_gate(tmp_path):
    folder, _ = made(tmp_path)
    code, found = gate(folder)
    assert code == 1 and found["verdict"] == "not measured" and "judged 0 outputs" in found["reasons"][0]
    judge(folder, 49)
    assert gate(folder)[0] == 1
    judge(folder, 50)
    code, found = gate(folder)
    assert code == 0 and found["gate"] == "go" and found["agreement"]["n"] == 50 and found["reasons"] == []


@pytest.mark.parametrize("kind", ["agent", "synthetic"])
def test_labels_by_others_do_not_count(tmp_path, kind):
    folder, _ = made(tmp_path)
    judge(folder, 80, kind=kind)
    code, found = gate(folder)
    assert code == 1 and found["verdict"] == "not measured" and "80 labels by agents or programs" in found["reasons"][0]


def test_suspicious_outputs_do_not_stand_for_the_random_part(tmp_path):
    folder, _ = made(tmp_path)
    rows = ir.completions_of(folder)
    order = ir.random_order(rows)
    judge(folder, 80)
    lines = (folder / "labels.jsonl").read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["id"] != order[30]]  # 79 read, but with a gap at place 30
    (folder / "labels.jsonl").write_text("\n".join(kept) + "\n")
    code, found = gate(folder)
    assert code == 1 and "judged 30 outputs" in found["reasons"][0] and found["labels"]["suspicious_part"] == 49


def test_a_reward_that_disagrees_with_the_person(tmp_path):
    folder, _ = made(tmp_path)
    wrong = iter([True] * 9 + [False] * 1000)
    judge(folder, 50, lambda row: "pass" if ("good" in row["completion"]) != next(wrong) else "fail")
    code, found = gate(folder)
    assert code == 1 and found["verdict"] == "fail" and "mend the reward" in found["reasons"][0]
    assert found["agreement"]["value"] == pytest.approx(41 / 50)
    assert found["agreement"]["low"] == pytest.approx(0.6920, abs=2e-4)  # Wilson, 41 of 50, by hand
    assert gate(folder, "--threshold", "0.6")[0] == 0


@pytest.mark.parametrize("always", ["pass", "fail", "unsure"])
def test_labels_that_are_all_equal_measure_nothing(tmp_path, always):
    folder, _ = made(tmp_path)
    judge(folder, 80, lambda row: always)
    code, found = gate(folder)
    assert code == 1 and found["verdict"] == "not measured"


def test_two_people_who_differ_leave_the_output_open(tmp_path):
    folder, _ = made(tmp_path)
    judge(folder, 60)
    judge(folder, 20, lambda row: "fail", who="bo")
    found, _ = ir.inspection(folder)
    good = sum(
        "good" in row["completion"]
        for row in ir.completions_of(folder)
        if row["id"] in ir.random_order(ir.completions_of(folder))[:20]
    )
    assert found["labels"]["disputed"] == good and found["between_labellers"]["n"] == 20
    assert found["between_labellers"]["agreement"] == pytest.approx((20 - good) / 20)
    assert found["between_labellers"]["kappa"] is None  # one of them never varies


CHANGES = {
    "the reward": (
        "mine.py",
        "def paid(completions, **kwargs):\n    return [float('bad' in c) for c in completions]\n",
    ),
    "a module it imports": ("helper.py", "WORD = 'bad'\n"),
    "a module it loads when called": ("later.py", "X = 2\n"),
    "a module in a package": ("kit/__init__.py", "Y = 2\n"),
}
PARTS = (
    "import helper\nfrom kit import Y\ndef paid(completions, **kwargs):\n    import importlib\n"
    "    importlib.import_module('later')\n    return [float(helper.WORD in c) for c in completions]\n"
)


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_reward_closes_the_gate(tmp_path, what):
    (tmp_path / "helper.py").write_text("WORD = 'good'\n")
    (tmp_path / "later.py").write_text("X = 1\n")
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit/__init__.py").write_text("Y = 1\n")
    folder, result = made(tmp_path, PARTS)
    assert result.returncode == 0, result.stderr
    judge(folder, 50)
    assert gate(folder)[0] == 0
    name, text = CHANGES[what]
    (tmp_path / name).write_text(text)
    code, found = gate(folder)
    assert code == 1 and any(name in reason and "was changed" in reason for reason in found["reasons"]), found


def test_another_setting_of_a_factory_or_another_package_closes_the_gate(tmp_path):
    text = (
        "import os, sys\nsys.path.insert(0, {scripts!r})\nimport rewards\n"
        "paid = rewards.make_format_reward(required_tags=('answer',)) if False else "
        "rewards.with_length_penalty(rewards.correctness_reward, target_len=int(os.environ.get('TARGET', '5')))\n"
    ).format(scripts=str(ROOT / "scripts"))
    rows = [
        {"prompt": f"p{g}", "completion": f"<answer>{p % 2}</answer> good", "answer": "1"}
        for g in range(10)
        for p in range(8)
    ]
    folder, result = made(tmp_path, text, rows)
    assert result.returncode == 0, result.stderr
    _, found = gate(folder)
    assert not any("changed since" in reason for reason in found["reasons"]), found
    os.environ["TARGET"] = "9"
    try:
        assert any("changed since" in reason for reason in gate(folder)[1]["reasons"])
    finally:
        del os.environ["TARGET"]
    record = json.loads((folder / "scores.json").read_text())
    record["fingerprint"]["packages"]["numpy"] = "0.1"
    (folder / "scores.json").write_text(json.dumps(record))
    assert any("numpy was 0.1" in r for r in gate(folder)[1]["reasons"])


def test_a_run_that_samples_or_rewards_otherwise_closes_the_gate(tmp_path):
    config = tmp_path / "grpo.yaml"
    config.write_text("model_name_or_path: org/name\nnum_generations: 8\n")
    folder, _ = made(tmp_path, sampled=["--config", config])
    judge(folder, 50)
    assert gate(folder, "--config", config)[0] == 0
    config.write_text("model_name_or_path: org/other\nreward_funcs: [mine.paid]\n")
    code, found = gate(folder, "--config", config)
    assert code == 1 and len(found["reasons"]) == 1 and "org/other" in found["reasons"][0]
    settings = json.loads((folder / "sampling.json").read_text())
    for line, says in (
        ("temperature: 0.7", "temperature was"), ("max_completion_length: 2048", "max_tokens was"),
        ("chat_template_kwargs: {enable_thinking: false}", "chat_template_kwargs was"), ("top_p: 0.9", "top_p was"),
        ("top_k: 20", "top_k was"), ("repetition_penalty: 1.1", "repetition_penalty was"), ("min_p: 0.1", "min_p"),
        ("generation_kwargs: {min_new_tokens: 5}", "generation_kwargs"), ("reward_weights: [-1.0]", "reward_weights"),
        ("reward_funcs: [other.reward]", "the run's reward_funcs are other.reward"),
    ):  # fmt: skip
        config.write_text(f"model_name_or_path: org/name\n{line}\n")
        reasons = ir.unlike_the_run(settings, ["mine.paid"], config)
        assert len(reasons) == 1 and reasons[0].startswith(says), (line, reasons)
    config.write_text("model_name_or_path: org/name\ntemperature: 10e-1\n")  # YAML 1.1 takes it for text
    assert ir.unlike_the_run(settings, ["mine.paid"], config) == []
    assert any(
        "temperature of what was read is not known" in r
        for r in ir.unlike_the_run({**settings, "temperature": None}, [], config)
    )
    config.write_text("temperature: hot\n")
    assert "must be a number" in run("gate", "--dir", folder, "--config", config, cwd=tmp_path).stderr
    assert run("gate", "--dir", folder, "--config", tmp_path / "none.yaml", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("threshold", ["nan", "0", "1", "-1", "2", "inf"])
def test_a_threshold_that_is_none_is_refused(tmp_path, threshold):
    result = run("gate", "--dir", tmp_path, "--threshold", threshold)
    assert result.returncode == 2 and "between 0 and 1" in result.stderr


def test_a_reward_that_fails_only_in_a_batch_is_no_pass(tmp_path):
    for text in ("if len(completions) > 1: raise RuntimeError('x')", "completions = completions[:1]"):
        where = tmp_path / str(len(text))
        where.mkdir()
        folder, result = made(
            where,
            f"def paid(completions, **kwargs):\n    {text}\n    return [float('good' in c) for c in completions]\n",
        )
        assert "failed: 80" in result.stdout and "with others of its group" in result.stdout
        judge(folder, 80)
        assert gate(folder)[1]["verdict"] == "not measured"


def test_a_reward_that_forks_or_writes_into_the_answers_shifts_nothing(tmp_path):
    text = "import os\ndef paid(completions, **kwargs):\n    os.fork()\n    return [float('good' in c) for c in completions]\n"
    folder, result = made(tmp_path, text)
    assert result.returncode == 0, result.stderr
    scores = json.loads((folder / "scores.json").read_text())["rows"]
    for row, one in zip(ir.completions_of(folder), scores):
        assert one["error"] or one["total"] == float("good" in row["completion"])
    assert sum(one["error"] is None for one in scores) == 80
    where = tmp_path / "b"
    where.mkdir()
    folder, result = made(
        where,
        "import os\ndef paid(completions, **kwargs):\n    for n in range(3, 12):\n        try: os.write(n, b'junk\\n')\n        except OSError: pass\n    return [1.0] * len(completions)\n",
        [{"prompt": f"p{n // 2}", "completion": "good"} for n in range(4)],
    )
    assert "Traceback" not in result.stderr and "failed: 4" in result.stdout


def test_what_lies_in_the_folder_is_what_was_scored(tmp_path):
    folder, _ = made(tmp_path)
    judge(folder, 80)
    for name, old, new in (
        ("completions.jsonl", "bad 1 0", "bad one"),
        ("sampling.json", '"temperature": null', '"temperature": 2'),
    ):
        before = (folder / name).read_text()
        assert old in before
        (folder / name).write_text(before.replace(old, new))
        result = run("gate", "--dir", folder, cwd=tmp_path)
        assert result.returncode == 2 and "is not what was scored" in result.stderr, result.stderr
        (folder / name).write_text(before)
    assert gate(folder)[0] == 0
    lines = (folder / "completions.jsonl").read_text()
    (folder / "completions.jsonl").write_text(lines + lines)
    result = run("gate", "--dir", folder, cwd=tmp_path)
    assert result.returncode == 2 and "more than once" in result.stderr


def test_changing_ones_mind_after_the_reward_showed_does_not_count(tmp_path):
    folder, _ = made(tmp_path)
    judge(folder, 50, lambda row: "pass")
    judge(folder, 50)  # later lines of the same person
    found, _ = ir.inspection(folder)
    assert found["labels"]["changed_after_reveal"] > 10 and found["verdict"] != "pass"


def test_hard_outputs_cannot_be_left_out(tmp_path):
    folder, _ = made(tmp_path)
    unsure = iter([True] * 20 + [False] * 1000)
    judge(folder, 75, lambda row: "unsure" if next(unsure) else "pass" if "good" in row["completion"] else "fail")
    code, found = gate(folder)
    assert code == 1 and any("judged unsure" in reason for reason in found["reasons"])
    other = tmp_path / "other"
    other.mkdir()
    folder, _ = made(other)
    wrong = iter([True] * 15 + [False] * 1000)
    judge(folder, 60, lambda row: "pass" if ("good" in row["completion"]) != next(wrong) else "fail")
    first = ir.inspection(folder)[0]["agreement"]
    for line in (folder / "labels.jsonl").read_text().splitlines()[:15]:  # a second person waves the disputes away
        inspect_label.append_label(folder / "labels.jsonl", {**json.loads(line), "label": "unsure", "labeller": "bo"})
    assert ir.inspection(folder)[0]["agreement"] == first and gate(folder)[0] == 1


def test_one_prompt_in_several_groups_is_one_prompt(tmp_path):
    (tmp_path / "c.jsonl").write_text(
        "".join(
            json.dumps({"prompt": "q", "completion": f"{'good' if n % 2 else 'bad'} {n}"}) + "\n" for n in range(64)
        )
    )
    (tmp_path / "mine.py").write_text(
        "def paid(completions, **kwargs):\n    return [float('good' in c) for c in completions]\n"
    )
    folder = tmp_path / "d"
    assert run("sample", "--completions", "c.jsonl", "--group-size", 8, "--dir", folder, cwd=tmp_path).returncode == 0
    assert run("score", "--reward", "mine.paid", "--dir", folder, cwd=tmp_path).returncode == 0
    judge(folder, 64)
    assert any("one prompt" in reason for reason in gate(folder)[1]["reasons"])


def test_columns_reach_the_reward_as_in_training(tmp_path):
    rows = [{"prompt": "p", "completion": "bad", "completions": "good"}] * 2
    _, result = made(tmp_path, rows=rows)
    assert result.returncode == 2 and "completions is what TRL passes itself" in result.stderr
    rows = [
        {"prompt": f"p{n}", "completion": "x", "label": "x", "id": 7, "group": "g", "finish": "z", "kind": "k"}
        for n in range(2)
    ]
    where = tmp_path / "b"
    where.mkdir()
    _, result = made(
        where,
        "def paid(completions, label, id, group, finish, kind, **kwargs):\n    assert (id[0], group[0], finish[0], kind[0]) == (7, 'g', 'z', 'k')\n    return [float(c == x) for c, x in zip(completions, label)]\n",
        rows,
    )
    assert "failed: 0" in result.stdout, result.stdout + result.stderr
    taken = run("score", "--reward", "mine.paid", "--dir", where / "d", "--param", 'label="y"', cwd=where)
    assert taken.returncode == 2 and "the column wins" in taken.stderr


def test_files_that_a_reward_reads_close_the_gate_if_they_are_named(tmp_path):
    (tmp_path / "words.txt").write_text("good")
    text = "def paid(completions, **kwargs):\n    word = open('words.txt').read()\n    return [float(word in c) for c in completions]\n"
    folder, _ = made(tmp_path, text)
    assert (
        run(
            "score", "--reward", "mine.paid", "--dir", folder, "--also", "words.txt", "--pass-above", 0.5, cwd=tmp_path
        ).returncode
        == 0
    )
    judge(folder, 50)
    assert gate(folder)[0] == 0
    (tmp_path / "words.txt").write_text("bad")
    assert any("words.txt was changed" in reason for reason in gate(folder)[1]["reasons"])
    assert (
        "no such file"
        in run("score", "--reward", "mine.paid", "--dir", folder, "--also", "none.txt", cwd=tmp_path).stderr
    )


@pytest.mark.parametrize("where", ["relative", "src", "set"])
def test_where_a_reward_is_made_of_is_found(tmp_path, where, monkeypatch):
    """Relative imports of a parent package, a source folder on the path, and a set, whose pickle varies by the start."""
    if where == "relative":
        (tmp_path / "pkg/sub").mkdir(parents=True)
        (tmp_path / "pkg/__init__.py").write_text("")
        (tmp_path / "pkg/sub/__init__.py").write_text("")
        (tmp_path / "pkg/common.py").write_text("WORD = 'good'\n")
        (tmp_path / "pkg/sub/r.py").write_text(
            "def paid(completions, **kwargs):\n    from ..common import WORD\n    return [float(WORD in c) for c in completions]\n"
        )
        reward, part = "pkg.sub.r.paid", tmp_path / "pkg/common.py"
    elif where == "src":
        (tmp_path / "src/mod").mkdir(parents=True)
        (tmp_path / "src/mod/__init__.py").write_text("")
        (tmp_path / "src/mod/helpers.py").write_text("WORD = 'good'\n")
        (tmp_path / "src/mod/r.py").write_text(
            "def paid(completions, **kwargs):\n    from mod.helpers import WORD\n    return [float(WORD in c) for c in completions]\n"
        )
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "src"))
        reward, part = "mod.r.paid", tmp_path / "src/mod/helpers.py"
    else:
        (tmp_path / "st.py").write_text(
            "import functools\ndef base(completions, words, **kwargs):\n    return [float('good' in c) for c in completions]\npaid = functools.partial(base, words=frozenset('abcdefgh'))\n"
        )
        reward, part = "st.paid", tmp_path / "st.py"
    folder, result = made(tmp_path, reward=reward)
    assert result.returncode == 0, result.stderr
    judge(folder, 50)
    assert gate(folder)[0] == 0, gate(folder)
    part.write_text(part.read_text().replace("'good'", "'bad'"))
    assert any(part.name in reason for reason in gate(folder)[1]["reasons"])


def test_packages_that_work_in_other_processes_are_versions_too(tmp_path):
    rows = [
        {"prompt": f"p{n}", "completion": f"<answer>{n}</answer>", "solution": str(n), "answer": str(n)}
        for n in range(2)
    ]
    folder, result = made(tmp_path, rows=rows, reward="math_reward")
    assert result.returncode == 0, result.stderr
    assert "math-verify" in json.loads((folder / "scores.json").read_text())["fingerprint"]["packages"]


# ---- sample


class Model(http.server.BaseHTTPRequestHandler):
    """Speaks OpenAI's protocol; answers depend on the seed, so that groups vary."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list] = []
    wait_s = 0.0
    hangs: ClassVar[set] = set()
    body: ClassVar[bytes | None] = None

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked.append(asked)
        if asked["seed"] in self.hangs:
            time.sleep(25)
        time.sleep(self.wait_s)
        text = f"answer {asked['seed']}"
        choice = {"index": 0, "finish_reason": "length" if asked["seed"] % 3 == 0 else "stop", "logprobs": None}
        if "messages" in asked:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        body = json.dumps(
            {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        ).encode()
        body = self.body or body
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    Model.asked, Model.wait_s = [], 0.0
    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{serving.server_port}/v1"
    serving.shutdown()


def prompts_file(tmp_path, count=6, chat=True):
    rows = [
        {"prompt": [{"role": "user", "content": f"q{n}"}] if chat else f"q{n}", "answer": str(n)} for n in range(count)
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "p.jsonl"


@pytest.mark.parametrize("chat", [True, False])
def test_sampling_from_an_endpoint(tmp_path, server, chat):
    words = ["sample", prompts_file(tmp_path, chat=chat), "--dir", tmp_path / "d", "--endpoint", server, "--model", "m",
             "--num-generations", 4, "--max-tokens", 7, "--temperature", 0.9, "--json",
             "--chat-template-kwargs", '{"enable_thinking": false}']  # fmt: skip
    result = run(*words)
    assert result.returncode == 0 and json.loads(result.stdout)["sampled"] == 24, result.stderr
    rows = ir.completions_of(tmp_path / "d")
    assert len({row["id"] for row in rows}) == 24 and {row["group"] for row in rows} == set(range(6))
    assert all(row["columns"]["answer"] == str(row["group"]) for row in rows)  # the dataset's columns come along
    assert {row["finish"] for row in rows} == {"stop", "length"}
    assert isinstance(rows[0]["completion"], list) == chat
    assert all(one["max_tokens"] == 7 and one["temperature"] == 0.9 for one in Model.asked)
    assert all(one["chat_template_kwargs"] == {"enable_thinking": False} for one in Model.asked)
    # A server that is told nothing takes its own: TRL's defaults are said too.
    said = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "repeat_penalty": 1.0}
    assert all({name: one[name] for name in said} == said for one in Model.asked)
    before = len(Model.asked)
    assert json.loads(run(*words).stdout)["sampled"] == 0 and len(Model.asked) == before
    other = run(*words[:-1], '{"enable_thinking": true}')
    assert other.returncode == 2 and "another chat_template_kwargs" in other.stderr


def test_sampling_goes_on_after_it_was_stopped(tmp_path, server):
    Model.wait_s = 0.15
    words = [sys.executable, str(SCRIPT), "sample", str(prompts_file(tmp_path, 8)), "--dir", str(tmp_path / "d"),
             "--endpoint", server, "--model", "m", "--num-generations", "4", "--concurrency", "2"]  # fmt: skip
    path = tmp_path / "d/completions.jsonl"
    for stop in (signal.SIGINT, signal.SIGKILL):
        before = len(ir.read_lines(path))
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        while len(ir.read_lines(path)) < before + 5:
            time.sleep(0.02)
        process.send_signal(stop)
        _, said = process.communicate(timeout=30)
        assert "Traceback" not in said
        assert process.returncode == (130 if stop is signal.SIGINT else -signal.SIGKILL), said
    with path.open("ab") as file:
        file.write(b'{"id": "torn')  # as a full disk or a crash leaves it
    kept = path.read_bytes().rpartition(b"\n")[0]
    Model.wait_s = 0
    assert subprocess.run(words, capture_output=True).returncode == 0
    rows = ir.read_lines(path)
    assert path.read_bytes().startswith(kept)  # nothing that was there was written again
    assert sorted((row["group"], row["place"]) for row in rows) == [(g, p) for g in range(8) for p in range(4)]


def test_what_was_sampled_is_kept_whatever_happens(tmp_path, server):
    """A request that hangs, a server that fails, two at once, other prompts under the same name."""
    prompts = prompts_file(tmp_path, 4)
    words = ["sample", prompts, "--dir", tmp_path / "d", "--endpoint", server, "--model", "m", "--num-generations", 2]
    Model.hangs = {0}
    process = subprocess.Popen([sys.executable, str(SCRIPT), *map(str, words)], stderr=subprocess.PIPE, text=True)
    path = tmp_path / "d/completions.jsonl"
    while len(ir.read_lines(path)) < 7:
        time.sleep(0.02)
    second = run(*words)
    assert second.returncode == 2 and "at work in it" in second.stderr
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130 and time.monotonic() - started < 5 and len(ir.read_lines(path)) == 7
    Model.hangs = set()
    prompts.write_text(prompts.read_text().replace("q3", "other"))
    result = run(*words)
    assert result.returncode == 2 and "another prompts_sha256" in result.stderr
    for status, says in (
        (b"<html>", "does the address end in /v1"),
        (b'{"choices": []}', "does the address end in /v1"),
        (
            b'{"choices": [{"finish_reason": "stop", "message": {"content": "4", "reasoning_content": "2 and 2"}}]}',
            "thinking into reasoning_content",
        ),
    ):
        Model.body = status
        broken = run(
            "sample", prompts, "--dir", tmp_path / "e", "--endpoint", server, "--model", "m", "--num-generations", 2
        )
        assert broken.returncode == 2 and says in broken.stderr and "Traceback" not in broken.stderr, broken.stderr
    Model.body = None


def test_sampling_from_a_local_model(tmp_path):
    import tiny_model

    tokenizer = tiny_model.build_tokenizer(["q0 q1 answer"])
    tiny_model.build_model(tokenizer).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    result = run("sample", prompts_file(tmp_path, 2), "--dir", tmp_path / "d", "--local", tmp_path / "model",
                 "--num-generations", 3, "--max-tokens", 5)  # fmt: skip
    assert result.returncode == 0, result.stderr
    rows = ir.completions_of(tmp_path / "d")
    assert len(rows) == 6 and all(row["completion"][0]["role"] == "assistant" for row in rows)
    assert {row["finish"] for row in rows} <= {"stop", "length"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sample"], "one of --endpoint"), (["sample", "none.jsonl", "--endpoint", "http://x", "--model", "m"], "no such file"),
        (["sample", "p.jsonl", "--endpoint", "http://x"], "needs --model"),
        (["sample", "p.jsonl", "--endpoint", "http://127.0.0.1:9/v1", "--model", "m"], "APIConnectionError"),
        (["sample", "p.jsonl", "--local", "nowhere"], "cannot be loaded"),
        (["sample", "p.jsonl", "--endpoint", "x", "--model", "m", "--num-generations", "1"], "2 or more"),
        (["sample", "--completions", "empty.jsonl"], "no rows"), (["sample", "--completions", "p.jsonl"], 'no "completion"'),
        (["score", "--reward", "format_reward"], "no completions"), (["report"], "no completions"), (["gate"], "no completions"),
        (["label", "--labeller", "ann"], "no completions"), (["gate", "--threshold", "2"], "between 0 and 1"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(tmp_path, words, says):
    prompts_file(tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    result = run(*words, cwd=tmp_path, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    assert result.returncode == 2 and says in result.stderr, result.stderr
    assert "Traceback" not in result.stderr and result.stderr.count("\n") == 1


def test_files_of_a_run_carry_what_its_config_says(tmp_path):
    (tmp_path / "grpo.yaml").write_text("model_name_or_path: org/name\ntemperature: 0.9\n")
    (tmp_path / "c.jsonl").write_text('{"prompt": "p", "completion": "c"}\n' * 8)
    words = ["sample", "--completions", "c.jsonl", "--dir"]
    assert run(*words, "with", "--config", "grpo.yaml", cwd=tmp_path).returncode == 0
    assert run(*words, "without", cwd=tmp_path).returncode == 0
    said, nothing = (json.loads((tmp_path / name / "sampling.json").read_text()) for name in ("with", "without"))
    assert (said["model"], said["temperature"], said["max_tokens"]) == ("org/name", 0.9, 512)
    assert (nothing["model"], nothing["temperature"], nothing["max_tokens"]) == (None, None, None)
    assert nothing["num_generations"] == 8
    given = run(*words, "given", "--config", "grpo.yaml", "--temperature", "0.5", cwd=tmp_path)
    assert given.returncode == 0 and json.loads((tmp_path / "given/sampling.json").read_text())["temperature"] == 0.5


def test_completions_that_exist_are_never_written_over(tmp_path):
    folder, _ = made(tmp_path)
    before = (folder / "completions.jsonl").read_bytes()
    again = run("sample", "--completions", "c.jsonl", "--dir", folder, cwd=tmp_path)
    assert again.returncode == 2 and "is there already" in again.stderr
    assert (folder / "completions.jsonl").read_bytes() == before


# ---- choosing and spreadsheets


def test_what_looks_like_trouble_is_shown(tmp_path):
    rows = [{"prompt": f"p{g}", "completion": f"bad {g} {p}", "finish": "stop"} for g in range(10) for p in range(8)]
    rows[3] |= {"completion": "good " * 400, "finish": "stop"}  # longest
    rows[11] |= {"completion": "good cut off", "finish": "length"}
    rows[20] |= {"completion": "The answer is GOOD!"}
    rows[21] |= {"completion": "the answer is good"}  # nearly the same, and paid otherwise
    rows[30] = dict(rows[29])
    folder, _ = made(tmp_path, rows=rows)
    rows = ir.completions_of(folder)
    scores = {one["id"]: one for one in json.loads((folder / "scores.json").read_text())["rows"]}
    found = {
        rows[[r["id"] for r in rows].index(ident)]["completion"][:20]: why
        for ident, why in ir.suspicious(rows, scores, 12).items()
    }
    assert found["good good good good "] in ("highest reward", "longest") and found["good cut off"] in (
        "cut off, yet paid",
        "highest reward",
    )
    assert (
        found["The answer is GOOD!"] == "nearly the same text, other reward" and "said more than once" in found.values()
    )
    items = ir.items_to_read(rows, scores, 50, 12)
    assert len(items) == len({item["id"] for item in items}) and sum(item["part"] == "random" for item in items) == 50
    assert [item["id"] for item in items if item["part"] == "random"] == ir.random_order(rows)[:50]


def test_the_random_order_is_random_and_stays():
    rng = random.Random(3)
    rows = [{"id": f"{rng.getrandbits(64):016x}"} for _ in range(400)]
    order = ir.random_order(rows)
    assert ir.random_order(rows[:200]) == [ident for ident in order if {"id": ident} in rows[:200]]
    assert order != sorted(order) and order != [row["id"] for row in rows]
    firsts = sum({"id": ident} in rows[:200] for ident in order[:200])
    assert 70 < firsts < 130  # half of either half, within five standard deviations


HOSTILE = [
    "=1+1",
    "+SUM(A1)",
    "-2",
    "@x",
    "\t=1",
    "\r=1",
    "|calc",
    "%0",
    '=HYPERLINK("http://x")',
    "a\x00b\x1b[31m",
    "\ud800",
    "x" * 200_000,
]


def test_a_spreadsheet_goes_out_and_comes_back(tmp_path):
    rows = [
        {"prompt": f"p{g}", "completion": HOSTILE[(g + p) % len(HOSTILE)] + " good"[: 5 * (p % 2)]}
        for g in range(10)
        for p in range(8)
    ]
    folder, result = made(tmp_path, rows=rows)
    assert result.returncode == 0, result.stderr
    out = run("label", "--labeller", "ann", "--dir", folder, "--csv-out", tmp_path / "l.csv", "--random", 60)
    assert out.returncode == 0, out.stderr
    with (tmp_path / "l.csv").open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 80 and all(
        text[:1] not in "=+-@\t\r|%" for line in lines for text in (line["prompt"], line["completion"]) if text
    )
    assert all(len(line["completion"]) <= 32_767 for line in lines)
    assert (
        run("label", "--labeller", "ann", "--dir", folder, "--csv-out", tmp_path / "l.csv").returncode == 2
    )  # never over it
    for line in lines:
        line["label"] = "pass" if "good" in line["completion"] else "Fail "
    broken = [dict(line) for line in lines]
    broken[40]["label"] = "maybe"
    for name, content in (("broken.csv", broken), ("l2.csv", lines)):
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, ir.CELLS)
            writer.writeheader()
            writer.writerows(content)
    words = ["label", "--labeller", "ann", "--dir", folder, "--csv-in", tmp_path / "broken.csv"]
    assert "--csv-in needs --kind" in run(*words).stderr
    bad = run(*words, "--kind", "human")
    assert (
        bad.returncode == 2 and "'maybe'" in bad.stderr and not (folder / "labels.jsonl").exists()
    )  # nothing half taken
    taken = run(
        "label", "--labeller", "ann", "--kind", "synthetic", "--dir", folder, "--csv-in", tmp_path / "l2.csv", "--json"
    )
    assert taken.returncode == 0 and json.loads(taken.stdout)["taken"] == 80 and "advisory" in taken.stderr
    again = run(
        "label", "--labeller", "ann", "--kind", "synthetic", "--dir", folder, "--csv-in", tmp_path / "l2.csv", "--json"
    )
    assert json.loads(again.stdout)["taken"] == 0
    assert gate(folder)[1]["verdict"] == "not measured"


# ---- the numbers


def test_the_expected_share_of_dead_groups():
    rng = random.Random(5)
    rates = [rng.betavariate(0.6, 0.9) for _ in range(4000)]
    groups = [[float(rng.random() < rate) for _ in range(8)] for rate in rates]
    for size in (2, 4, 8, 16, 32):
        truth = sum(rate**size + (1 - rate) ** size for rate in rates) / len(rates)
        assert ir.expected_dead(groups, size) == pytest.approx(truth, abs=0.02), size
    assert ir.expected_dead([[1.0] * 8] * 3, 4) == 1.0
    assert ir.expected_dead([[1.0, 2.0, 3.0, 4.0]] * 6, 8) is None  # more than two values: not measured
    assert ir.expected_dead([[1.0]], 2) is None


def test_the_record_says_not_measured_for_what_was_not(tmp_path):
    folder, _ = made(tmp_path, rows=[{"prompt": "p", "completion": f"bad {n}"} for n in range(4)])
    found, rows = ir.inspection(folder)
    assert found["verdict"] == "not measured" and found["agreement"] is None and found["kappa"] is None
    assert found["confusion"] is None and found["clipped"] is None and found["length_reward"] is None
    assert found["dead_groups"] == {"value": 1.0, "n": 1} and "teach it first" in found["success_rate"]["reading"]
    assert any("one prompt" in reason for reason in found["reasons"]) and len(rows) == 4
    assert "NaN" not in json.dumps(found)


def test_help_is_light():
    code = "import sys; sys.argv[1:] = ['--help']\ntry:\n import inspect_rewards as i; i.main()\nexcept SystemExit: pass\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "scripts", capture_output=True, text=True)
    assert "a whole inspection" in result.stdout, result.stderr
    heavy = {"torch", "scipy", "statsmodels", "openai", "textual", "matplotlib", "numpy", "rich"}
    assert not heavy & set(result.stdout.splitlines()[-1].split())


def test_the_examples_real_completions(tmp_path):
    result = run("sample", "--completions", EXAMPLES, "--dir", tmp_path / "d")
    assert result.returncode == 0, result.stderr
    words = ["score", "--dir", tmp_path / "d", "--reward", "correctness_reward", "--pass-above", "0.5"]
    assert run(*words).returncode == 0
    found, _ = ir.inspection(tmp_path / "d")
    assert found["rows"] == 96 and found["groups"] == 12 and found["success_rate"]["n"] == 96
    assert run("gate", "--dir", tmp_path / "d").returncode == 1  # no person has read them here


def test_sixty_outputs_labelled_by_keys_in_a_terminal(tmp_path):
    """The whole command in tmux, killed in the middle: nothing is lost, and the gate still says no."""
    if not shutil.which("tmux"):
        pytest.skip("NOT RUN: tmux is missing")
    folder = tmp_path / "d"
    assert run("sample", "--completions", EXAMPLES, "--dir", folder).returncode == 0
    assert run("score", "--dir", folder, "--reward", "correctness_reward", "--pass-above", 0.5).returncode == 0
    name = f"inspect-{os.getpid()}"
    command = (
        f"{sys.executable} {SCRIPT} label --dir {folder} --labeller bot --kind synthetic --random 40 --suspicious 20"
    )
    path = folder / "labels.jsonl"

    def tmux(*words):
        return subprocess.run(["tmux", "-L", name, *words], capture_output=True, text=True).stdout

    def count():
        return len(path.read_bytes().splitlines()) if path.exists() else 0

    def wait(done, what):
        until = time.monotonic() + 60
        while not done():
            assert time.monotonic() < until, f"{what}: {tmux('capture-pane', '-p')}"
            time.sleep(0.02)

    try:
        for first, last in ((0, 25), (25, 60)):
            tmux("new-session", "-d", "-x", "80", "-y", "24", command)
            wait(lambda: f"{first + 1} of 60" in tmux("capture-pane", "-p"), f"output {first + 1} shows")
            assert "correctness_reward" not in tmux("capture-pane", "-p")
            for number in range(first, last):
                tmux("send-keys", "123"[number % 3])
                wait(lambda: count() == number + 1, f"label {number + 1}")
            if last == 25:
                tmux("kill-server")  # the terminal is gone, as when an SSH connection drops
                wait(
                    lambda: (
                        "no server" in subprocess.run(["tmux", "-L", name, "ls"], capture_output=True, text=True).stderr
                    ),
                    "gone",
                )
    finally:
        tmux("kill-server")
    labels = inspect_label.read_labels(path)
    assert len({one["id"] for one in labels}) == 60 and {one["kind"] for one in labels} == {"synthetic"}
    assert [one["label"] for one in labels] == [("pass", "fail", "unsure")[number % 3] for number in range(60)]
    assert sum(one["part"] == "random" for one in labels) == 40
    code, found = gate(folder)
    assert code == 1 and "60 labels by agents or programs do not count" in found["reasons"][0]


def test_a_reward_that_pays_everything_does_not_pass_on_easy_prompts(tmp_path):
    rows = [{"prompt": f"p{n // 8}", "completion": f"{'bad' if n % 20 == 0 else 'good'} {n}"} for n in range(80)]
    folder, _ = made(tmp_path, "def paid(completions, **kwargs):\n    return [1.0] * len(completions)\n", rows)
    judge(folder, 80)
    code, found = gate(folder)
    assert code == 1 and found["agreement"]["low"] > 0.8 and found["verdict"] == "fail"
    assert "the same verdict" in found["reasons"][0]


def test_the_runs_defaults_are_trls():
    from dataclasses import fields

    from trl import GRPOConfig

    defaults = {field.name: field.default for field in fields(GRPOConfig)}
    for name, (key, default) in ir.SETTINGS.items():
        if name != "model":
            assert (defaults[key] or None) == (default or None), key
