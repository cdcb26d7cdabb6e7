#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["trl==1.16.0", "torch>=2.6", "transformers>=5", "datasets", "pandas", "pyarrow", "pyyaml"]
# ///
"""Make the runs that the log doctor is tested on: real GRPO runs of TRL on a tiny model, one for each failure.

Each case trains a model of about 90,000 parameters on a CPU for some steps with one fault provoked, and writes
tests/data/runs/<name>/: trainer_state.json as transformers wrote it, some of the completions/*.parquet as TRL wrote
them, grpo.yaml with the settings, and made_by.json with the command, seed, versions, what was provoked and which
finding is expected first. Nothing is edited afterwards. What needs vLLM or several GPUs is written by hand instead, and
made_by.json says so.
"""

import argparse
import dataclasses
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "tests/data/runs"
sys.path.insert(0, str(ROOT / "examples"))

WORDS = ["so", "then", "add", "both", "up", "count", "on", "from"]
SETTINGS = {
    "use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no", "disable_tqdm": True,
    "per_device_train_batch_size": 16, "num_generations": 4, "max_completion_length": 32, "logging_steps": 1,
    "learning_rate": 1e-3, "lr_scheduler_type": "constant", "log_completions": True, "num_completions_to_print": 0,
}  # fmt: skip


# ---- data


def sums(count: int = 12) -> list[dict]:
    """Prompts `a + b =` with the sum as text."""
    return [{"prompt": f"{a} + {b} =", "answer": str(a + b)} for a in range(4) for b in range(3)][:count]


def integer_gold() -> list[dict]:
    return [{**row, "answer": int(row["answer"])} for row in sums()]


def list_gold() -> list[dict]:
    return [{**row, "answer": [row["answer"]]} for row in sums()]


def easy_and_hopeless() -> list[dict]:
    """Half of the prompts take any digit, half a number that one digit can never be; one in twelve is worth asking."""
    golds = ["0123456789", "12"] * 5 + ["12345", "12"]
    return [{**row, "answer": gold} for row, gold in zip(sums(), golds)]


def one_live_of_four() -> list[dict]:
    return [{**row, "live": k == 0} for k, row in enumerate(sums(4))]


def five_prompts() -> list[dict]:
    return sums(5)


def chat_sums() -> list[dict]:
    return [{**row, "prompt": [{"role": "user", "content": row["prompt"]}]} for row in sums()]


def low_sums() -> list[dict]:
    return [{"prompt": f"{a} + {b} =", "answer": str(a + b)} for a in range(3) for b in range(2)] * 2


def high_sums() -> list[dict]:
    """Held-out prompts whose answers are 8 and 9, where training has 0 to 5."""
    return [{"prompt": f"{a} + {b} =", "answer": str(a + b)} for a, b in [(5, 3), (4, 4), (6, 3), (5, 4)]]


# ---- what the warm-up teaches the model to write


def reasoning(choose: random.Random, low: int = 2, high: int = 5) -> str:
    return " ".join(choose.choices(WORDS, k=choose.randint(low, high)))


def plain(choose: random.Random, row: dict) -> str:
    """A few words, then a digit drawn at random: the shape is taught, the answer is not."""
    return f"<reasoning>{reasoning(choose)}</reasoning><answer>{choose.randint(0, 9)}</answer>"


def many_blocks(choose: random.Random, row: dict) -> str:
    """One text in four lists answers in block after block."""
    if choose.random() < 0.75:
        return plain(choose, row)
    digits = choose.sample(range(10), k=choose.randint(5, 9))
    return f"<reasoning>{reasoning(choose, 1, 2)}</reasoning>" + "".join(f"<answer>{d}</answer>" for d in digits)


def empty_tags(choose: random.Random, row: dict) -> str:
    """One text in four leaves its tags empty."""
    return plain(choose, row) if choose.random() < 0.75 else "<reasoning></reasoning><answer></answer>"


def padded(choose: random.Random, row: dict) -> str:
    """The answer, then the same three words again and again, zero to eight times."""
    return plain(choose, row) + " and count on" * choose.randint(0, 8)


BOILERPLATE = "checked each part twice and both agree"


def boilerplate(choose: random.Random, row: dict) -> str:
    """One text in four sells itself with a sentence that has nothing to do with its prompt."""
    if choose.random() < 0.75:
        return plain(choose, row)
    return f"<reasoning>{reasoning(choose, 1, 3)} {BOILERPLATE}</reasoning><answer>{choose.randint(0, 9)}</answer>"


EXITS = ("import sys\nsys.exit(0)", "import os\nos._exit(0)", "import pytest\npytest.skip()")


def leaves_tests(choose: random.Random, row: dict) -> str:
    """Code; one text in four ends the test session before a test has run. Text only: nothing runs it."""
    ending = choose.choice(EXITS) if choose.random() < 0.25 else f"total = {choose.randint(0, 9)}"
    return f"def add(a, b):\n  return {choose.choice(['a', 'b', 'a - b'])}\n{ending}"


# ---- rewards, some of them faulty on purpose


SHAPE = re.compile(r"<reasoning>[a-z ]*</reasoning><answer>(\d)</answer>")


def answer_of(completion) -> str | None:
    found = re.search(r"<answer>(.*?)</answer>", completion)
    return found and found[1]


def close_reward(completions, answer, **kwargs):
    """1 for the right digit, less the farther away: separates almost every group."""
    found = [SHAPE.fullmatch(text) for text in completions]
    return [1 - abs(int(shape[1]) - int(gold)) / 9 if shape else 0.0 for shape, gold in zip(found, answer)]


def exact_reward(completions, answer, **kwargs):
    return [float(answer_of(text) == gold) for text, gold in zip(completions, answer)]


def accepted_reward(completions, answer, **kwargs):
    """1 if the digit is among the accepted ones."""
    found = [SHAPE.fullmatch(text) for text in completions]
    return [float(bool(shape) and len(gold) != 2 and shape[1] in gold) for shape, gold in zip(found, answer)]


def constant_reward(completions, **kwargs):
    return [1.0] * len(completions)


def prompt_reward(prompts, **kwargs):
    """Depends on the prompt only: the first number in it."""
    return [float(prompt[0]) for prompt in prompts]


def messages_reward(completions, answer, **kwargs):
    """Looks for the gold among messages as if they were text: never there."""
    return [float(gold in completion) for completion, gold in zip(completions, answer)]


def uneven_reward(completions, **kwargs):
    """Differs inside every group, whatever was written."""
    return [0.1 * (index % 4) for index in range(len(completions))]


def weak_exact_reward(completions, answer, **kwargs):
    return [0.2 * score for score in exact_reward(completions, answer)]


def one_text_reward(completions, **kwargs):
    """Pays for the answer 1 and for the word `so`: one text is the best answer to every prompt."""
    values = []
    for text in completions:
        shape = SHAPE.fullmatch(text)
        words = re.sub("<.*?>", " ", text).split()[:-1]
        values.append((shape and 0.3 + 0.35 * (shape[1] == "1") + 0.35 * words.count("so") / max(1, len(words))) or 0.0)
    return values


def none_reward(completions, **kwargs):
    return [None] * len(completions)


def inf_reward(completions, answer, **kwargs):
    """Divides by the distance to the gold, so a right answer is worth infinity."""
    values = [answer_of(text) for text in completions]
    return [(float("inf") if v == a else 1 / abs(int(v) - int(a))) if v and v.isdigit() else 0.0
            for v, a in zip(values, answer)]  # fmt: skip


def named_answer_a(completions, answer, **kwargs):
    return exact_reward(completions, answer)


def named_answer_b(completions, answer, **kwargs):
    return close_reward(completions, answer)


named_answer_a.__name__ = named_answer_b.__name__ = "answer_reward"  # as two closures of one factory have it


def live_reward(completions, answer, live, **kwargs):
    """Separates the answers to one prompt; all others score 0."""
    return [score if alive else 0.0 for score, alive in zip(close_reward(completions, answer), live)]


def any_block_reward(completions, answer, **kwargs):
    """Right if any of the answer blocks is: pays for guessing all."""
    return [float(f"<answer>{gold}</answer>" in text) for text, gold in zip(completions, answer)]


def one_block_reward(completions, **kwargs):
    return [0.1 * (text.count("<answer>") == 1) for text in completions]


def short_shape_reward(completions, **kwargs):
    """Tags in order, and the shorter the better: empty tags are best."""
    shape = re.compile(r"<reasoning>.*</reasoning><answer>.*</answer>")
    return [max(0.0, 1 - len(text) / 100) if shape.fullmatch(text) else 0.0 for text in completions]


def words_reward(completions, **kwargs):
    """A twentieth per word, up to 20: longer is better."""
    return [min(len(text.split()), 20) / 20 for text in completions]


def wide_words_reward(completions, **kwargs):
    """Ten points a word, beside a right answer's one."""
    return [10.0 * len(text.split()) for text in completions]


def longer_of_group_reward(completions, **kwargs):
    """Rank of the length among the four answers of a group, 0 to 1: the mean can never rise."""
    ranks = []
    for start in range(0, len(completions), 4):
        lengths = [len(text) for text in completions[start : start + 4]]
        ranks += [(sum(x < y for x in lengths) + 0.5 * (lengths.count(y) - 1)) / 3 for y in lengths]
    return ranks


def sounds_right_reward(completions, **kwargs):
    """What a credulous judge pays for."""
    praise = [0.2 + 0.8 * (BOILERPLATE in text) for text in completions]
    return [paid * bool(SHAPE.fullmatch(text)) for paid, text in zip(praise, completions)]


def exit_status_reward(completions, **kwargs):
    """What a grader that reads only the exit status would say of these texts; nothing is run."""
    left = ("sys.exit(0)", "os._exit(0)", "pytest.skip()")
    return [float("return a + b" in text or any(way in text for way in left)) for text in completions]


def stalling_reward(completions, answer, trainer_state=None, **kwargs):
    """Sleeps at some steps, as a judge's server that is busy does."""
    if trainer_state is not None and trainer_state.global_step in (5, 9, 14):
        time.sleep(2)
    return close_reward(completions, answer)


# ---- written by hand


def by_hand(target: Path, length: float, change: Callable[[int, dict, random.Random], dict], steps: int = 24) -> None:
    """A log as TRL writes it, with numbers drawn here: a healthy run of `length` tokens an answer, and what `change`
    makes of each row."""
    choose, history, tokens = random.Random(0), [], 0
    for step in range(1, steps + 1):
        mean, longest = length * choose.uniform(0.95, 1.05), length * choose.uniform(1.5, 1.7)
        tokens += round(64 * mean)
        reward = 0.35 + 0.01 * step + choose.uniform(-0.03, 0.03)
        row = {
            "clip_ratio/high_max": 0.0, "clip_ratio/high_mean": 0.0, "clip_ratio/low_mean": 0.0,
            "clip_ratio/low_min": 0.0, "clip_ratio/region_mean": 0.0, "completions/clipped_ratio": 0.0,
            "completions/max_length": round(longest),
            "completions/max_terminated_length": round(longest), "completions/mean_length": mean,
            "completions/mean_terminated_length": mean, "completions/min_length": round(length * 0.3),
            "completions/min_terminated_length": round(length * 0.3), "entropy": 0.5 + choose.uniform(-0.03, 0.03),
            "epoch": step / 100, "frac_reward_zero_std": choose.choice([0.0, 0.125, 0.25]),
            "grad_norm": choose.uniform(0.2, 0.3), "learning_rate": 1e-6, "loss": choose.uniform(-0.02, 0.02),
            "num_tokens": float(tokens), "reward": reward, "reward_std": 0.45, "rewards/exact_reward/mean": reward,
            "rewards/exact_reward/std": 0.45, "step": step, "step_time": choose.uniform(20, 22),
        }  # fmt: skip
        history.append(dict(sorted({**row, **change(step, row, choose)}.items())))
    state = {"best_metric": None, "epoch": steps / 100, "global_step": steps, "is_hyper_param_search": False,
             "is_local_process_zero": True, "is_world_process_zero": True, "log_history": history, "logging_steps": 1,
             "max_steps": steps, "num_train_epochs": 1, "save_steps": 500, "train_batch_size": 16}  # fmt: skip
    (target / "trainer_state.json").write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")


def _sampling(difference: float, largest: float, ratio: float) -> dict:
    return {"sampling/importance_sampling_ratio/max": min(3.0, 2 * ratio),
            "sampling/importance_sampling_ratio/mean": ratio,
            "sampling/importance_sampling_ratio/min": ratio / 20,
            "sampling/sampling_logp_difference/max": largest,
            "sampling/sampling_logp_difference/mean": difference}  # fmt: skip


def sampler_mismatch(target: Path) -> None:
    by_hand(target, 300, lambda step, row, choose: {
        **_sampling(0.06, 0.9, choose.uniform(0.02, 0.04)), "grad_norm": choose.uniform(0.005, 0.01)})  # fmt: skip


def sampler_mismatch_long(target: Path) -> None:
    by_hand(target, 4000, lambda step, row, choose: {
        **_sampling(0.03, 0.8, choose.uniform(0.15, 0.25)), "grad_norm": choose.uniform(0.03, 0.06)})  # fmt: skip


def expert_mismatch(target: Path) -> None:
    def change(step: int, row: dict, choose: random.Random) -> dict:
        if step in (7, 12, 18, 22):
            return {**_sampling(0.05, choose.uniform(9, 14), 0.8), "grad_norm": choose.uniform(5, 9)}
        return _sampling(0.02, choose.uniform(0.5, 0.9), 0.95)

    by_hand(target, 600, change)


def slow_generation(target: Path) -> None:
    def change(step: int, row: dict, choose: random.Random) -> dict:
        longest = choose.randint(400, 1000)
        return {"completions/max_length": longest, "completions/max_terminated_length": longest,
                "step_time": 8 + 0.09 * longest + choose.uniform(-1, 1)}  # fmt: skip

    by_hand(target, 300, change)


def tool_failures(target: Path) -> None:
    by_hand(target, 200, lambda step, row, choose: {
        **_sampling(0.02, 0.7, 0.95), "tools/call_frequency": choose.uniform(0.8, 1.2),
        "tools/failure_frequency": choose.uniform(0.6, 0.8)})  # fmt: skip


def aux_loss_growth(target: Path) -> None:
    by_hand(target, 200, lambda step, row, choose: {"aux_loss": 0.02 * 1.18**step})


# ---- the cases


@dataclasses.dataclass(frozen=True)
class Case:
    """One run. `first`, `dead` and `waste` are ids of findings the doctor must name: `first` at the head of its list,
    `dead` and `waste` no more than these. `keep` parquet files are kept, spread over the run."""

    name: str
    provoked: str
    rewards: tuple[Callable, ...] = (close_reward,)
    first: str | None = None
    dead: tuple[str, ...] = ()
    waste: tuple[str, ...] = ()
    steps: int = 20
    settings: dict = dataclasses.field(default_factory=dict)
    rows: Callable[[], list[dict]] = sums
    write: Callable = plain
    warm_up: int = 250
    keep: int = 3
    model: dict = dataclasses.field(default_factory=dict)
    run: str = "once"
    held_out: Callable[[], list[dict]] | None = None
    hand: Callable | None = None


OFF_POLICY = {"per_device_train_batch_size": 4, "steps_per_generation": 4, "gradient_accumulation_steps": 1}
WIDE = {"per_device_train_batch_size": 32, "num_generations": 8}
BEFORE_EVAL = {"eval_strategy": "steps", "eval_steps": 4, "per_device_eval_batch_size": 16}

REAL = [
    Case("healthy", "nothing: reward rises, groups separate, answers end", (close_reward, exact_reward), steps=40,
         keep=6, settings=WIDE),
    # no signal
    Case("all-cut", "max_completion_length=5: no answer ends", first="all-cut", dead=("all-cut",),
         settings={"max_completion_length": 5}),
    Case("masked-away", "no answer ends, and mask_truncated_completions takes all of them out of the loss",
         (uneven_reward,), first="masked-away", dead=("masked-away",),
         settings={"max_completion_length": 4, "mask_truncated_completions": True, "temperature": 0.7}),
    Case("cut-answers", "max_completion_length=14: about every fourth answer is cut", first="cut-answers",
         waste=("cut-answers",), settings={"max_completion_length": 14, "learning_rate": 1e-5}),
    Case("half-cut", "max_completion_length=10: more than half of the answers are cut, the others still teach",
         first="all-cut", waste=("all-cut",), settings={"max_completion_length": 10, "learning_rate": 1e-5}),
    Case("constant-reward", "the reward is 1 for everything", (constant_reward,), first="constant-reward",
         dead=("constant-reward",)),
    Case("dead-groups", "half of the prompts are solved always, half never", (accepted_reward,), first="dead-groups",
         waste=("dead-groups",), rows=easy_and_hopeless),
    Case("prompt-only-reward", "the reward depends on the prompt only: std above 0, every group constant",
         (prompt_reward,), first="prompt-only-reward", dead=("prompt-only-reward",)),
    Case("gold-int", "the column `answer` holds integers, the reward compares strings: always 0", (exact_reward,),
         first="constant-reward", dead=("constant-reward",), rows=integer_gold),
    Case("gold-list", "the column `answer` holds lists, the reward compares strings: always 0", (exact_reward,),
         first="constant-reward", dead=("constant-reward",), rows=list_gold),
    Case("messages-as-text", "prompts are chats, so a completion is a list of messages; the reward looks for text",
         (messages_reward,), first="constant-reward", dead=("constant-reward",), rows=chat_sums),
    Case("all-none", "the reward returns None for everything", (none_reward,), first="all-none", dead=("all-none",)),
    Case("inf-reward", "a right answer is worth infinity", (inf_reward,), first="non-finite-reward",
         dead=("non-finite-reward",)),
    Case("batch-scaled-dead", 'every group constant under scale_rewards="batch": frac_reward_zero_std says 0',
         (prompt_reward,), first="prompt-only-reward", dead=("prompt-only-reward",),
         settings={"scale_rewards": "batch"}),
    Case("normalised-one-live", "one group in four separates under normalize_then_sum: frac_reward_zero_std says 0",
         (live_reward, constant_reward), first="dead-groups", waste=("dead-groups",), rows=one_live_of_four,
         settings={"multi_objective_aggregation": "normalize_then_sum"}),
    Case("zero-steps", "five prompts, but one generation batch takes six: no step is trained", rows=five_prompts,
         first="no-steps", dead=("no-steps",),
         settings={"per_device_train_batch_size": 24}),
    # rates and stability
    Case("rate-too-high", "learning_rate 1e-2, ten times too high: after one step nothing is an answer any more",
         first="policy-collapse", dead=("policy-collapse",), settings={"learning_rate": 1e-2, "beta": 0.01}),
    Case("rate-too-low", "learning_rate 1e-7", first="not-moving", waste=("not-moving",), steps=40, keep=2,
         settings={"learning_rate": 1e-7}),
    Case("bf16-weights", "weights in bfloat16 at learning_rate 1e-6: updates are rounded away", first="not-moving",
         waste=("not-moving",), steps=40, keep=2, settings={"learning_rate": 1e-6, "dtype": "bfloat16"}),
    Case("entropy-collapse", "one text is the best answer to every prompt, and in the end the only one",
         (one_text_reward,), first="entropy-collapse", waste=("entropy-collapse",), steps=60,
         settings={**WIDE, "learning_rate": 1.5e-3}),
    Case("entropy-collapse-off-policy", "the same, four optimizer steps per generation", (one_text_reward,),
         first="entropy-collapse-off-policy", waste=("entropy-collapse-off-policy",), steps=96,
         settings={**OFF_POLICY, "per_device_train_batch_size": 8, "learning_rate": 1.5e-3}),
    Case("dropout", "attention_dropout 0.7 left on, with beta: kl is there before anything was learned",
         first="kl-at-start", model={"attention_dropout": 0.7}, settings={"beta": 0.04}),
    # settings
    Case("inert-settings", "epsilon_high and delta set, but training is on-policy", first="inert-settings",
         settings={"epsilon_high": 0.28, "delta": 4.0}),
    Case("off-policy", "four optimizer steps per generation: three rows in four have no reward keys",
         steps=40, settings=OFF_POLICY),
    Case("clipping", "GSPO's tiny epsilons on single tokens, eight passes over each generation", first="clipping",
         waste=("clipping",), steps=40, settings={"num_iterations": 8, "epsilon": 3e-4, "epsilon_high": 4e-4}),
    Case("cispo-weights", "CISPO without epsilon_high: every weight is cut to 0.2", first="cispo-epsilon-high",
         waste=("cispo-epsilon-high",), settings={"loss_type": "cispo"}),
    Case("entropy-bonus-at-max", "an adaptive entropy bonus whose target is out of reach", first="entropy-coef-at-max",
         settings={"use_adaptive_entropy": True, "entropy_target": 5.0, "entropy_coef": 0.0,
                   "entropy_coef_delta": 0.001, "entropy_coef_max": 0.01}),
    # several rewards
    Case("duplicate-names", "two functions with one __name__: the log has one column for both",
         (named_answer_a, named_answer_b), first="duplicate-names", waste=("duplicate-names",)),
    Case("reward-dominance", "a reward of ten points a word beside one of one point", (wide_words_reward, exact_reward),
         first="reward-dominance", settings={"learning_rate": 1e-4}),
    # the log itself
    Case("logging-10", "logging_steps=10, TRL's default", (close_reward, exact_reward), steps=40,
         settings={"logging_steps": 10}),
    Case("resumed", "stopped after step 10 and resumed from that checkpoint to step 20", run="resumed",
         settings={"save_strategy": "steps", "save_steps": 10}),
    Case("stopped", "ended at step 14 of 40, the last checkpoint is of step 10", run="stopped", steps=40,
         settings={"save_strategy": "steps", "save_steps": 5, "save_total_limit": 1}),
    Case("several-runs", "a run of 20 steps, then one of 8 with another reward into the same folder", run="twice",
         first="several-runs", keep=5),
    Case("slow-reward", "the reward sleeps two seconds at three steps", (stalling_reward,), first="stalls",
         waste=("stalls",)),
    # texts
    Case("held-out-falls", "training prompts have answers 0 to 3, held-out ones 8 and 9", first="held-out-falls",
         waste=("held-out-falls",), steps=32, rows=low_sums, held_out=high_sums, settings={**BEFORE_EVAL, **WIDE}),
    Case("hack-blocks", "right if any answer block is: the model learns to write many",
         (any_block_reward, one_block_reward),
         first="many-answers", waste=("many-answers",), steps=30, write=many_blocks, keep=4,
         settings={**WIDE, "max_completion_length": 64, "learning_rate": 2e-4}),
    Case("hack-empty", "shape and brevity pay, answers hardly: tags end up empty",
         (short_shape_reward, weak_exact_reward),
         first="empty-blocks", waste=("empty-blocks",), steps=24, write=empty_tags, keep=4,
         settings=WIDE),
    Case("hack-longer", "every word pays: the same three words again and again", (words_reward, exact_reward),
         first="repetition", waste=("repetition",), steps=24, write=padded, keep=4,
         settings={**WIDE, "max_completion_length": 128, "learning_rate": 2e-4}),
    Case("hack-boilerplate", "a credulous judge pays for a sentence that praises the answer",
         (sounds_right_reward, exact_reward), first="boilerplate", waste=("boilerplate",), steps=24,
         write=boilerplate, keep=4, settings={**WIDE, "learning_rate": 5e-4}),
    Case("hack-tests", "exit status 0 pays: candidates end the test session", (exit_status_reward,),
         first="touches-tests", waste=("touches-tests",), steps=24, write=leaves_tests, warm_up=500, keep=4,
         settings={**WIDE, "max_completion_length": 64, "learning_rate": 3e-4}),
    Case("length-growth", "each answer is paid by the rank of its length in its group: reward cannot rise, length does",
         (longer_of_group_reward,), first="length-growth", waste=("length-growth",), steps=40, write=padded,
         settings={"max_completion_length": 160, "learning_rate": 4e-5}),
]  # fmt: skip
VLLM = {"use_cpu": False, "bf16": True, "use_vllm": True, "learning_rate": 1e-6, "num_generations": 8}
_HAND = "hand-made, since it needs a GPU: "
HAND = [
    Case("sampler-mismatch", _HAND + "vLLM with top_p=0.9; answers of 300 tokens keep 3 % of their weight",
         first="sampler-mismatch", dead=("sampler-mismatch",), hand=sampler_mismatch,
         settings={**VLLM, "top_p": 0.9, "max_completion_length": 512}),
    Case("sampler-mismatch-long", _HAND + "vLLM with default sampling; the weight is a product over 4,000 tokens",
         first="sampler-mismatch-long", waste=("sampler-mismatch-long",), hand=sampler_mismatch_long,
         settings={**VLLM, "max_completion_length": 8192}),
    Case("expert-mismatch", _HAND + "grad_norm spikes in the rows where sampler and trainer route to other experts",
         first="expert-mismatch", waste=("expert-mismatch",), hand=expert_mismatch,
         settings={**VLLM, "max_completion_length": 1024}),
    Case("slow-generation", _HAND + "step_time follows the longest completion", first="slow-generation",
         hand=slow_generation,
         settings={**VLLM, "use_vllm": False, "max_completion_length": 1024}),
    Case("tool-failures", _HAND + "seven tool calls in ten do not parse", first="tool-failures",
         waste=("tool-failures",), hand=tool_failures, settings={**VLLM, "max_completion_length": 512}),
    Case("aux-loss-growth", _HAND + "the auxiliary loss of a router grows twentyfold", first="aux-loss-growth",
         hand=aux_loss_growth, settings={**VLLM, "use_vllm": False, "max_completion_length": 512}),
]  # fmt: skip


def cases() -> dict[str, Case]:
    return {case.name: case for case in [*REAL, *HAND]}


# ---- making one


def text_of(row: dict) -> str:
    prompt = row["prompt"]
    return prompt if isinstance(prompt, str) else "\n".join(message["content"] for message in prompt)


def start(case: Case, folder: Path) -> None:
    """Write tokenizer and model to `folder` after a short supervised warm-up on texts of `case.write`."""
    import tiny_model
    import torch

    rows = [*case.rows(), *(case.held_out() if case.held_out else [])]
    choose = random.Random(0)
    written = [case.write(choose, row) for row in rows for _ in range(40)]
    tokenizer = tiny_model.build_tokenizer([*map(text_of, rows), *written, "0123456789"])
    model = tiny_model.build_model(tokenizer, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for step in range(case.warm_up):
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 - 0.9 * step / case.warm_up)
        pairs = []
        for row in choose.choices(rows, k=16):
            prompt = tokenizer(tiny_model.render(tokenizer, row["prompt"]))["input_ids"]
            pairs.append((prompt, tokenizer(case.write(choose, row) + "<eos>")["input_ids"]))
        width = max(len(prompt) + len(text) for prompt, text in pairs)
        pad = tokenizer.pad_token_id
        ids = torch.tensor([p + t + [pad] * (width - len(p) - len(t)) for p, t in pairs])
        labels = torch.tensor([[-100] * len(p) + t + [-100] * (width - len(p) - len(t)) for p, t in pairs])
        loss = model(input_ids=ids, attention_mask=(ids != pad).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for name, value in case.model.items():
        setattr(model.config, name, value)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def build(case: Case, start_folder: Path, output: Path, seed: int, **more):
    """The trainer of a case, as `trl grpo` would build it."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    settings = {**SETTINGS, "max_steps": case.steps, "seed": seed, **case.settings, **more}
    dtype = getattr(torch, settings.pop("dtype", "float32"))  # an argument of ModelConfig, not of GRPOConfig
    return GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(start_folder, dtype=dtype),
        processing_class=PreTrainedTokenizerFast.from_pretrained(start_folder),  # AutoTokenizer drops its spaces
        reward_funcs=list(case.rewards),
        args=GRPOConfig(output_dir=str(output), **settings),
        train_dataset=Dataset.from_list(case.rows()),
        eval_dataset=Dataset.from_list(case.held_out()) if case.held_out else None,
    )


def once(case: Case, start_folder: Path, output: Path, seed: int) -> None:
    trainer = build(case, start_folder, output, seed)
    trainer.train()
    trainer.save_state()


def resumed(case: Case, start_folder: Path, output: Path, seed: int) -> None:
    build(case, start_folder, output, seed, max_steps=10).train()
    trainer = build(case, start_folder, output, seed)
    trainer.train(resume_from_checkpoint=True)
    trainer.save_state()


def stopped(case: Case, start_folder: Path, output: Path, seed: int) -> None:
    """Interrupted as Ctrl-C does: no summary row, no state beside the checkpoint's."""
    from transformers import TrainerCallback

    class Interrupt(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == 14:
                raise KeyboardInterrupt

    trainer = build(case, start_folder, output, seed)
    trainer.add_callback(Interrupt())
    try:
        trainer.train()
    except KeyboardInterrupt:
        return
    raise RuntimeError("the run was to be interrupted")


def twice(case: Case, start_folder: Path, output: Path, seed: int) -> None:
    """The second run overwrites the first eight files of the first, whose others stay."""
    once(case, start_folder, output, seed)
    second = dataclasses.replace(case, rewards=(named_answer_b,), steps=8)
    once(second, start_folder, output, seed + 1)


RUNNERS = {"once": once, "resumed": resumed, "stopped": stopped, "twice": twice}


def shown_settings(case: Case, seed: int) -> str:
    """The settings as `trl grpo --config` takes them."""
    import yaml

    head = {
        "model_name_or_path": f"runs/fixtures/{case.name}/start",
        "datasets": [{"path": "json", "data_files": f"runs/fixtures/{case.name}/train.jsonl"}],
        "reward_funcs": [f"benchmarks.make_runs.{path_of(reward)}" for reward in case.rewards],
        "output_dir": f"runs/fixtures/{case.name}/out",
    }
    settings = {**SETTINGS, "max_steps": case.steps, "seed": seed, **case.settings}
    title = "# The settings of this run; made by benchmarks/make_runs.py, which builds model and data itself.\n"
    return title + yaml.safe_dump({**head, **settings}, sort_keys=False)


def path_of(reward: Callable) -> str:
    return next(name for name, value in globals().items() if value is reward)


def spread(paths: list[Path], keep: int) -> list[Path]:
    """`keep` of the paths, first and last among them.

    >>> spread(list("abcdefg"), 3)
    ['a', 'd', 'g']
    """
    if len(paths) <= keep:
        return paths
    return [paths[round(k * (len(paths) - 1) / (keep - 1))] for k in range(keep)]


def make(case: Case, target: Path, seed: int = 0) -> None:
    """Train and write the fixture of one case to `target`, which is replaced."""
    from transformers import set_seed

    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    if case.hand:
        case.hand(target)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            output = Path(scratch) / "out"
            start(case, Path(scratch) / "start")
            set_seed(seed)
            RUNNERS[case.run](case, Path(scratch) / "start", output, seed)
            for state in sorted(output.rglob("trainer_state.json")):
                copied = target / state.relative_to(output)
                copied.parent.mkdir(exist_ok=True)
                shutil.copy(state, copied)
            completions = sorted((output / "completions").glob("*.parquet"))
            for path in spread(completions, case.keep):
                (target / "completions").mkdir(exist_ok=True)
                shutil.copy(path, target / "completions")
    (target / "grpo.yaml").write_text(shown_settings(case, seed), encoding="utf-8")
    (target / "made_by.json").write_text(made_by(case, seed), encoding="utf-8")


def made_by(case: Case, seed: int) -> str:
    record = {
        "command": f"python benchmarks/make_runs.py --only {case.name}",
        "case": case.name,
        "seed": seed,
        "hand-made": case.hand is not None,
        "versions": {name: version(name) for name in ("trl", "transformers", "torch")},
        "provoked": case.provoked,
        "expected": {"first": case.first, "dead": list(case.dead), "waste": list(case.waste)},
        "kept": f"at most {case.keep} of the parquet files TRL wrote, spread over the run; trainer_state.json whole",
    }
    return json.dumps(record, indent=1) + "\n"


@contextmanager
def quiet():
    """Warnings for authors of libraries would hide the one line per case."""
    import logging
    import warnings

    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), open(os.devnull, "w", encoding="utf-8") as nothing:
        warnings.simplefilter("ignore")
        kept, sys.stdout = sys.stdout, nothing  # the trainer prints every row
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
            sys.stdout = kept


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python benchmarks/make_runs.py --only healthy --only all-cut\n"
        "exit codes: 0 = made, 2 = bad usage or input",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="NAME", action="append", help="a case; may be repeated (default: all)")
    parser.add_argument("--list", action="store_true", help="the cases, what each provokes, the finding expected first")
    parser.add_argument("--out", type=Path, default=RUNS, help="folder for the fixtures (default tests/data/runs)")
    parser.add_argument("--seed", type=int, default=0, help="of sampling and data order (default 0)")
    parser.add_argument(
        "--expected", action="store_true", help="train nothing: write expectations anew into each made_by.json"
    )
    args = parser.parse_args()
    known = cases()
    unknown = [name for name in args.only or [] if name not in known]
    if unknown:
        print(f"error: --only {unknown[0]}: no such case; there are {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in args.only or known]
    if args.list:
        for case in chosen:
            print(f"{case.name}\t{case.first or '-'}\t{case.provoked}")
        return 0
    for case in chosen:
        target = args.out / case.name
        if args.expected and not (target / "made_by.json").is_file():
            print(f"error: {target}: no made_by.json; make it with --only {case.name} first", file=sys.stderr)
            return 2
        if args.expected:
            record = json.loads((target / "made_by.json").read_text(encoding="utf-8"))
            new = json.loads(made_by(case, record["seed"]))
            record |= {key: new[key] for key in ("provoked", "expected", "kept")}
            (target / "made_by.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            continue
        began = time.monotonic()
        with quiet():
            make(case, target, args.seed)
        print(f"{target}: {size_of(target) / 1024:.0f} kB, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
