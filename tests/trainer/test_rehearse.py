"""preflight_rehearse.py: what a rehearsal sees, and each fault that it must refuse.

Three runs are the real command with its processes. The others run the child's part in this process, because importing
TRL takes longer than the steps; what they assert is the report that the command prints.
"""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import preflight_config
import preflight_rehearse as pr
import pytest
from score_completions import UserError

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "preflight_rehearse.py"
EXAMPLE = ("--config", "examples/grpo.yaml", "--dataset", "examples/prompts.jsonl",
           "--completions", "examples/completions.jsonl")  # fmt: skip

REWARDS = """
import os, pathlib, subprocess, sys, time
calls = []

def length(completions, **kwargs):
    texts = [one if isinstance(one, str) else one[0]["content"] for one in completions]
    return [float(len(text) % 7) for text in texts]

def late(completions, **kwargs):
    calls.append(1)
    if len(calls) > 1:
        raise RuntimeError("broken on the second batch")
    return length(completions)

def nothing(completions, **kwargs):
    print('{"verdict": "pass"}')
    return [None] * len(completions)

def always(completions, **kwargs):
    return [1.0] * len(completions)

def infinite(completions, **kwargs):
    return [float("inf"), *length(completions)[1:]]

def golds(completions, gold, **kwargs):
    return [float(g in str(c)) for g, c in zip(gold, completions)]

def ends(completions, **kwargs):
    os._exit(7)

def hangs(completions, **kwargs):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    pathlib.Path(os.environ["REHEARSAL_PID"]).write_text(str(child.pid))
    while True:
        pass

def leaves(completions, **kwargs):
    sys.exit(0)

def short(completions, **kwargs):
    return [1.0]

class Counts:
    def __call__(self, completions, answer, **kwargs):
        return [float(len(str(one)) % 5) for one in completions]

counts = Counts()

async def later(completions, **kwargs):
    return length(completions)
"""


def command(*arguments, cwd=ROOT, **environment):
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments), "--json"], capture_output=True, text=True, cwd=cwd,
        env={**os.environ, **environment},
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr, time.monotonic() - started


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A project: rewards, rows, samples and a config."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "rehearsed_rewards.py").write_text(REWARDS)
    rows = [{"prompt": f"What is {a} + {a + 1}?", "answer": str(2 * a + 1)} for a in range(150)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    samples = [{"prompt": row["prompt"], "completion": f"{'so ' * n}it is {int(row['answer']) + n}."}
               for row in rows for n in range(4)]  # fmt: skip
    (folder / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return folder


@pytest.fixture
def rehearse(place, monkeypatch, capsys):
    """The command on a config, its child's part in this process; exit code and report, or what it said."""

    def inside(job, budget_s):
        pr.attempt(job)
        events = [json.loads(line) for line in Path(job["events"]).read_text().splitlines()]
        return events, "end", 1.0

    import trl.trainer.utils

    monkeypatch.setattr(trl.trainer.utils, "_use_triton", trl.trainer.utils._use_triton)  # put back afterwards
    monkeypatch.setattr(pr, "watch", inside)
    monkeypatch.setattr(pr.signal, "signal", lambda *_: None)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))

    def run(*reward, config="num_generations: 4\nper_device_train_batch_size: 8\nlearning_rate: 1.0e-3\n",
            name="grpo.yaml", **options):  # fmt: skip
        (place / name).write_text(config)
        given = {"config": name, "dataset": "rows.jsonl", "completions": "samples.jsonl", **options}
        words = [word for key, value in given.items() if value is not None for word in (f"--{key}", str(value))]
        if reward:
            words += ["--rewards", *(one if "." in one else f"rehearsed_rewards.{one}" for one in reward)]
        code = pr.main([*words, "--json"])
        said = capsys.readouterr()
        text = said.out[said.out.rindex("\n{\n") + 1 :] if "\n{\n" in said.out else said.out
        return code, json.loads(text) if text.startswith("{") else said.err

    return run


def kinds(report):
    return [one["kind"] for one in report["faults"]]


def switched(report):
    return {one["setting"]: (one["from"], one["to"]) for one in report["switched"]}


# ---- the command itself


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    # `make demo` leaves the toy that the config names; the answer must not depend on it.
    return command(*EXAMPLE, "--model", "no/toy", "--keep", tmp_path_factory.mktemp("kept") / "run")


def test_the_example_passes_and_what_is_reported_is_real(healthy):
    import pyarrow.parquet

    code, report, _ = healthy
    assert code == 0 and report["verdict"] == "pass" and report["schema_version"] == 1 and not report["faults"]
    assert report["steps"] | {"asked": 2, "done": 2, "generations": 2} == report["steps"]
    kept = Path(report["kept"])
    history = json.loads((kept / "out/checkpoint-2/trainer_state.json").read_text())["log_history"]
    assert [row["grad_norm"] for row in history if "grad_norm" in row] == [
        row["grad_norm"] for row in report["metrics"]
    ]
    table = pyarrow.parquet.read_table(report["parquet"]["file"])
    assert table.column_names == report["parquet"]["columns"] and "correctness_reward/reason" in table.column_names
    last = [group for group in report["groups"] if group["generation"] == 1]
    assert table["correctness_reward"].to_pylist() == [v for g in last for v in g["rewards"]["correctness_reward"]]
    assert report["forced"]["completions"] * 2 == report["forced"]["of"] == table.num_rows * 2
    lines = (ROOT / "examples/completions.jsonl").read_text().splitlines()
    texts = {pr.said(json.loads(line)["completion"]).rstrip() for line in lines}
    seen = [messages[0]["content"] for messages in table["completion"].to_pylist()]
    assert sum(text.rstrip() in texts for text in seen) == table.num_rows // 2
    assert {"format_reward", "correctness_reward", "concise"} == set(report["rewards"])
    assert report["rewards"]["concise"]["received"] == ["answer"]


def test_the_phases_add_up_and_the_real_batch_is_projected(healthy):
    _, report, wall = healthy
    parts = [value for name, value in report["seconds"].items() if isinstance(value, float) and name != "total"]
    assert math.isclose(sum(parts), report["seconds"]["total"], rel_tol=0.05) and report["seconds"]["total"] <= wall
    assert report["seconds"]["total"] < 90 and report["seconds"]["load"] > report["seconds"]["rewards"]
    one = report["rewards"]["correctness_reward"]
    assert report["real_completions_per_process"] == 48
    assert one["projected_seconds"] == pytest.approx(48 * one["seconds_per_completion"])
    assert switched(report) == {"per_device_train_batch_size": (48, 32)}
    assert any(line.startswith("tokenizer: stand-in, template not rehearsed") for line in report["not_rehearsed"])


def test_a_reward_that_hangs_is_killed_with_its_children(healthy, place, tmp_path):
    pid = tmp_path / "pid"
    (place / "hang.yaml").write_text("num_generations: 4\nper_device_train_batch_size: 8\n")
    budget = healthy[1]["seconds"]["total"] + 6
    code, report, wall = command("--config", "hang.yaml", "--dataset", "rows.jsonl", "--rewards", "rehearsed_rewards.hangs",
                                 "--budget-s", budget, cwd=place, REHEARSAL_PID=str(pid))  # fmt: skip
    assert code == 1 and kinds(report) == ["over_budget"] and wall < budget + 5
    assert "while doing: reward hangs" in report["faults"][0]["evidence"]
    for _ in range(50):
        if (
            not Path(f"/proc/{pid.read_text()}").exists()
            or "State:\tZ" in Path(f"/proc/{pid.read_text()}/status").read_text()
        ):
            return
        time.sleep(0.1)
    raise AssertionError("a child of the reward is still there")


def test_a_reward_that_ends_the_process(place):
    (place / "ends.yaml").write_text("num_generations: 4\nper_device_train_batch_size: 8\n")
    code, report, _ = command(
        "--config", "ends.yaml", "--dataset", "rows.jsonl", "--rewards", "rehearsed_rewards.ends", cwd=place
    )
    assert code == 1 and kinds(report) == ["process_died"] and report["steps"]["done"] == 0
    assert "status 7) while doing: reward ends" in report["faults"][0]["evidence"]


# ---- rewards that are at fault


def test_a_reward_that_raises_on_the_second_batch(rehearse):
    code, report = rehearse("late")
    (one,) = report["exceptions"]
    assert code == 1 and kinds(report) == ["reward_raised"] and report["steps"]["done"] == 1
    assert (one["type"], one["message"], one["where"]) == ("RuntimeError", "broken on the second batch", "reward late")
    line = 1 + REWARDS.splitlines().index('        raise RuntimeError("broken on the second batch")')
    assert one["frame"] == f"rehearsed_rewards.py:{line}" and report["rewards"]["late"]["raised"]


@pytest.mark.parametrize(
    ("reward", "kind", "evidence"),
    [
        ("nothing", "reward_only_none", "nothing gave None (or NaN) for all 64"),
        ("always", "all_groups_dead", "in all 16 groups"),
        ("infinite", "reward_not_finite", "infinite gave infinity 2 times"),
        ("golds", "reward_raised", "missing 1 required positional argument: 'gold'"),
        ("leaves", "reward_raised", "reward leaves: SystemExit"),
        ("short", "reward_raised", "reward short: ValueError: The reward function 'short' returned 1 rewards"),
        ("no_such", "reward_raised", "rehearsed_rewards has no reward 'no_such'"),
    ],
)
def test_a_reward_at_fault(rehearse, reward, kind, evidence):
    steps = "num_generations: 4\nper_device_train_batch_size: 64\nmax_steps: 2\nlearning_rate: 1.0e-3\n"
    code, report = rehearse(reward, config=steps)
    assert code == 1 and report["verdict"] == "fail"
    assert any(one["kind"] == kind and evidence in one["evidence"] for one in report["faults"]), report["faults"]
    if reward == "always":
        assert report["rewards"]["always"]["constant"] == 1 and report["dead_share"] == 1
        assert [row["grad_norm"] for row in report["metrics"]] == [0, 0]
    if reward == "golds":
        assert report["rewards"]["golds"]["not_received"] == ["gold"]


def test_without_samples_dead_groups_say_nothing_of_the_reward(rehearse):
    code, report = rehearse("always", completions=None)
    assert code == 1 and kinds(report) == ["no_signal"] and report["forced"]["completions"] == 0
    assert any("--completions" in line for line in report["not_rehearsed"])


# ---- what goes through, what is switched


def test_off_policy_stays_off_policy_with_lora_on_experts(rehearse, place):
    (place / "moe.json").write_text(json.dumps({
        "model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_local_experts": 8,
        "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": True, "vocab_size": 32000,
        "attention_dropout": 0.1}))  # fmt: skip
    config = (
        "model_name_or_path: moe.json\nreward_funcs: [rehearsed_rewards.length, rehearsed_rewards.counts]\n"
        "reward_weights: [1.0, 0.5]\nnum_generations: 4\nper_device_train_batch_size: 8\ngradient_accumulation_steps: 4\n"
        "generation_batch_size: 512\nuse_vllm: true\nvllm_mode: colocate\noptim: adamw_8bit\nbf16: true\n"
        "load_in_4bit: true\nuse_peft: true\nlora_target_modules: [q_proj, v_proj]\nlearning_rate: 1e-4\nbeta: 0.04\n"
        "gradient_checkpointing: true\neval_strategy: steps\neval_steps: 500\nattn_implementation: flash_attention_2\n"
        "max_completion_length: 2048\nreport_to: wandb\n"
    )
    code, report = rehearse(config=config, gpus=4)
    assert code == 0, report["faults"]
    # generation_batch_size 512 over 4 x 8 is 16 micro-steps, 4 optimizer steps: one generation serves as many here
    assert report["steps"]["optimizer_steps_per_generation"] == 4 and report["steps"]["done"] == 5
    assert ["reward" in row for row in report["metrics"]] == [True, False, False, False, True]
    assert report["model"]["model_type"] == "mixtral" and not report["model"]["stand_in"]
    assert "kl" in report["metrics"][0] and report["eval_metrics"][0]["eval_reward"] is not None
    assert [group["totals"][0] for group in report["groups"]] == [
        pytest.approx(group["rewards"]["length"][0] + 0.5 * group["rewards"]["Counts"][0]) for group in report["groups"]
    ]
    gone = switched(report)
    assert gone["use_vllm"] == (True, False) and gone["optim"] == ("adamw_8bit", "adamw_torch")
    assert gone["bf16"] == (True, False) and gone["load_in_4bit"] == (True, False) and gone["world size"] == (4, 1)
    assert gone["report_to"] == ("wandb", "none") and gone["vllm_mode"] == ("colocate", "not used")
    assert gone["attn_implementation"] == ("flash_attention_2", None)
    assert report["real_completions_per_process"] == 128


def test_a_chat_template_of_the_users_own_and_an_async_reward(rehearse, place, monkeypatch):
    tokenizer = pr.stand_in_tokenizer(["What is + ? it is so . 0123456789 user assistant <>|"])
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        "<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    for kind in ("llama", "qwen2"):
        pr.tiny_model({"model_type": kind}, tokenizer, seed=0).config.save_pretrained(place / kind)
        tokenizer.save_pretrained(place / kind)
    rows = [{"prompt": [{"role": "user", "content": f"What is {a} + 1?"}], "answer": str(a + 1)} for a in range(20)]
    (place / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(pr, "LOGITS", 1)  # as with a large vocabulary: the loss reads little, rewards read all
    code, report = rehearse("later", dataset="chat.jsonl", model="llama")
    assert code == 0, report["faults"]
    assert "the loss beyond the first 8 tokens of a completion; rewards read all of them" in report["not_rehearsed"]
    sample = json.loads((place / "samples.jsonl").read_text().splitlines()[3])["completion"]
    assert report["groups"][1]["rewards"]["later"][2] == len(sample) % 7 and report["groups"][1]["forced"] == 2
    assert report["model"]["template"] and report["model"]["tokenizer"] == "llama"
    assert (
        report["model"]["model_type"] == "llama"
        and report["forced"]["of_other_prompts"] == report["forced"]["completions"]
    )
    assert not any("template" in line for line in report["not_rehearsed"])
    assert report["forced"]["altered_by_the_tokenizer"] == 0
    # transformers 5 takes this kind's own class for the same files, and loses words; so would the run
    code, report = rehearse("later", dataset="chat.jsonl", model="qwen2")
    assert report["forced"]["altered_by_the_tokenizer"] > 0
    rows[0]["prompt"].insert(0, {"role": "system", "content": "Think."})
    (place / "chat.jsonl").write_text(json.dumps(rows[0]) + "\n" + json.dumps(rows[0]) + "\n")
    code, report = rehearse("later", dataset="chat.jsonl", model="llama")
    assert (
        code == 1
        and report["exceptions"][0]["where"] == "generate"
        and "no system role" in report["exceptions"][0]["message"]
    )


SCRIPT_CONFIG = """
import os
from pathlib import Path
from trl import GRPOConfig, GRPOTrainer
from rehearsed_rewards import length
Path("it_was_run").write_text("yes")
GROUP = 4
args = GRPOConfig(output_dir="o", num_generations=GROUP, per_device_train_batch_size=2 * GROUP, bf16=True,
                  temperature=float(os.environ["TEMPERATURE"]), learning_rate=1e-3, loss_type="dr_grpo")
GRPOTrainer(model="nobody/nothing-of-this-name", reward_funcs=[length], args=args, train_dataset=None,
            tools=[print]).train()
"""


def test_a_script_is_read_and_never_run(rehearse, place, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, report = rehearse(config=SCRIPT_CONFIG, name="train.py")
    assert code == 0, report["faults"]
    assert not (place / "it_was_run").exists() and set(report["rewards"]) == {"length"}
    (one,) = report["unknown"]
    assert (one["setting"], one["left_at"]) == ("temperature", 1.0) and "TEMPERATURE" in one["text"]
    assert any(line.startswith("tools=... of GRPOTrainer") for line in report["not_rehearsed"])
    assert report["model"]["stand_in"] and any("plain decoder" in line for line in report["not_rehearsed"])


@pytest.mark.parametrize(
    ("line", "where", "message"),
    [
        ("max_prompt_length: 512\n", "construct", "max_prompt_length"),
        ("num_generations: 3\n", "construct", "divisible by num_generations"),
        ("learning_rate: fast\n", "construct", "learning_rate"),
        ("loss_type: gpo\n", "step", "Unknown loss type"),
        ("reward_weights: [1.0, 2.0]\n", "build trainer", "Number of reward weights"),
    ],
)
def test_what_trl_refuses_is_said_with_its_place(rehearse, line, where, message):
    code, report = rehearse("length", config="per_device_train_batch_size: 8\n" + line)
    (one,) = report["exceptions"]
    assert code == 1 and one["where"] == where and message in one["message"], one


def test_a_gradient_of_0_where_groups_differ(rehearse, place):
    lines = (place / "samples.jsonl").read_text().splitlines()
    (place / "cut.jsonl").write_text(
        "".join(json.dumps(json.loads(line) | {"finish": "length"}) + "\n" for line in lines)
    )
    config = "num_generations: 4\nper_device_train_batch_size: 8\nmask_truncated_completions: true\n"
    never_ends = "generation_kwargs: {suppress_tokens: [0, 1]}\n"
    code, report = rehearse("length", config=config + never_ends, completions="cut.jsonl")
    assert code == 1 and set(kinds(report)) == {"grad_norm"} and report["dead_share"] == 0
    assert "grad_norm is 0 though groups differ" in report["faults"][0]["evidence"]


def test_a_dataset_that_gives_no_step(rehearse, place):
    (place / "one.jsonl").write_text((place / "rows.jsonl").read_text().splitlines()[0] + "\n")
    code, report = rehearse("length", dataset="one.jsonl")
    assert code == 1 and kinds(report) == ["no_step", "too_few_rows"] and report["steps"]["done"] == 0


def test_too_few_rows_for_the_real_generation(rehearse):
    code, report = rehearse("length", config="per_device_train_batch_size: 64\nnum_generations: 2\n", gpus=8)
    assert (
        code == 1
        and kinds(report) == ["too_few_rows"]
        and "256 prompts, the dataset has 150" in report["faults"][0]["evidence"]
    )


@pytest.mark.parametrize(
    ("reward", "options", "message"),
    [
        (["length"], {"dataset": "none.jsonl"}, "none.jsonl: no such file"),
        (["length"], {"dataset": "samples.txt"}, "samples.txt"),
        (["length"], {"completions": "rows.jsonl"}, 'row 1 has no "completion"'),
        (["length"], {"model": "none.json"}, "none.json: no such file"),
        (["length"], {"steps": 0}, "--steps must be 1 or more"),
        ([], {}, "give --rewards"),
        (["length", "length"], {}, "two rewards are called 'length'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(rehearse, place, reward, options, message):
    (place / "samples.txt").write_text("x")
    code, said = rehearse(*reward, **options)
    assert code == 2 and message in said and said.count("\n") == 1 and said.startswith("error: ")


# ---- arithmetic and shapes, against TRL and transformers


@pytest.mark.parametrize("sizes", [(8, 16, None, None, 1, 8, 4), (2, 8, 32, None, 2, 16, 1), (4, 6, None, 96, 1, 4, 2),
                                   (48, 1, None, None, 1, 8, 1), (1, 64, None, None, 1, 64, 1), (4, 3, 8, None, 1, 4, 1),
                                   (6, 1, None, None, 1, 8, 1), (8, 1, 2, 16, 1, 8, 1)])  # fmt: skip
def test_ratios_are_those_of_the_run_and_trl_takes_them(sizes):
    from trl import GRPOConfig

    def config(per_device, accumulation, steps, whole, iterations, group, world):
        return GRPOConfig(output_dir="o", use_cpu=True, bf16=False, per_device_train_batch_size=per_device * world,
                          gradient_accumulation_steps=accumulation, steps_per_generation=steps, num_generations=group,
                          generation_batch_size=whole, num_iterations=iterations)  # fmt: skip

    small = pr.batches(*sizes)
    if small is None:
        with pytest.raises(ValueError):
            config(*sizes)
        return
    real = config(*sizes)
    here = config(small["per_device"], small["accumulation"], small["steps"], None, sizes[4], small["group"], 1)
    for one in (real, here):
        assert one.generation_batch_size % one.num_generations == 0
    assert real.steps_per_generation * here.gradient_accumulation_steps == (
        here.steps_per_generation * real.gradient_accumulation_steps
    )
    assert small["real_batch"] == real.generation_batch_size
    assert here.generation_batch_size <= max(pr.COMPLETIONS, 2 * here.num_generations)


def kept_of(config):
    return {name: getattr(config, name, None) for name in ("tie_word_embeddings", "attention_dropout", "hidden_act")}


@pytest.mark.parametrize(
    ("given", "check"),
    [
        ({"model_type": "qwen3_moe", "num_experts": 128}, lambda c: c.num_experts == 4 and c.num_experts_per_tok == 2),
        ({"model_type": "gemma3_text"}, lambda c: len(set(c.layer_types)) == 2),
        ({"model_type": "phi3", "hidden_size": 3072, "original_max_position_embeddings": 4096,
          "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}},
         lambda c: c.rope_parameters["rope_type"] == "longrope"),
        ({"model_type": "deepseek_v3"}, lambda c: c.q_lora_rank == 16 and c.n_routed_experts == 4),
        ({"model_type": "gpt2", "attn_pdrop": 0.3}, lambda c: c.attn_pdrop == 0.3 and c.n_embd == 64),
        ({"model_type": "gemma3", "text_config": {"num_key_value_heads": 1}}, lambda c: c.num_key_value_heads == 1),
        ({"model_type": "llama", "attention_dropout": 0.2, "num_key_value_heads": 32, "num_attention_heads": 32},
         lambda c: c.num_key_value_heads == c.num_attention_heads == 4 and c.attention_dropout == 0.2),
    ],
)  # fmt: skip
def test_a_kind_is_kept_when_it_is_made_small(given, check):
    from transformers import AutoConfig

    tokenizer = pr.stand_in_tokenizer(["a b c"])
    model = pr.tiny_model(given, tokenizer, seed=0)
    of = AutoConfig.for_model(**given).get_text_config()
    assert model.config.model_type == of.model_type and check(model.config)
    assert kept_of(model.config) == kept_of(of) and model.config.vocab_size == len(tokenizer)
    assert sum(p.numel() for p in model.parameters()) < 2_000_000


def test_a_kind_that_is_not_known_is_said():
    with pytest.raises(ValueError, match="no such type"):
        pr.tiny_model({"model_type": "nobodys"}, pr.stand_in_tokenizer(["a"]), seed=0)


def test_the_stand_in_tokenizer_loses_nothing():
    text = "So 12 + 3 = 15.\n\n<answer>\n15 </answer> naïve 漢字"
    tokenizer = pr.stand_in_tokenizer([text])
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


def test_replaced_leaves_all_else_alone():
    run = preflight_config.Settings(Path("g.yaml"), "yaml", {"loss_type": "grpo", "beta": 0.1, "max_grad_norm": 0.2})
    change = pr.replaced(run)
    assert not {"loss_type", "beta", "max_grad_norm", "temperature", "max_completion_length"} & set(change["values"])
    with pytest.raises(UserError):
        pr.rows_of("none.csv", 2)
