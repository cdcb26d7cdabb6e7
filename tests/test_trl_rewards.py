"""TRL's own rewards (trl 1.16.0): what they get right, and each limit that references/reward-library.md names.

Not a line of them is ours. A test that fails here after an upgrade of TRL or math-verify means: correct that page.
"""

import importlib.util
import os
import pickle
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tiny_model  # sets OMP_NUM_THREADS before torch is imported
from reward_cases import ALL_CASES, TRL_LENGTH
from trl.rewards import (
    accuracy_reward,
    get_cosine_scaled_reward,
    get_repetition_penalty_reward,
    get_soft_overlong_punishment,
    reasoning_accuracy_reward,
    think_format_reward,
)

MATH = [accuracy_reward, reasoning_accuracy_reward]
BOXED = r"\boxed{7}"
THOUGHT = rf"<think>so</think>{BOXED}"


def chat(*texts):
    return [[{"role": "assistant", "content": text}] for text in texts]


def tokens(*counts):
    return [[1] * count for count in counts]


def accuracy(text, gold):
    return accuracy_reward(chat(text), [gold])[0]


def reasoning_accuracy(text, gold="7", **options):
    return reasoning_accuracy_reward(chat(text), [gold], **options)[0]


def think_format(text):
    return think_format_reward(chat(text))[0]


# --- what all six share -----------------------------------------------------------------------------------------------


def test_what_is_exported():
    module = importlib.import_module("trl.rewards")
    assert {name for name in module.__all__ if callable(getattr(module, name))} == {
        "accuracy_reward", "reasoning_accuracy_reward", "think_format_reward",
        "get_cosine_scaled_reward", "get_repetition_penalty_reward", "get_soft_overlong_punishment",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reward", "name"),
    [
        (accuracy_reward, "accuracy_reward"),
        (reasoning_accuracy_reward, "reasoning_accuracy_reward"),
        (think_format_reward, "think_format_reward"),
        (get_cosine_scaled_reward(max_len=100), "cosine_scaled_reward"),
        (get_repetition_penalty_reward(), "repetition_penalty_reward"),
        (get_soft_overlong_punishment(100, 20), "soft_overlong_punishment_reward"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_all_are_named_and_pickle(reward, name):
    copy = pickle.loads(pickle.dumps(reward))
    call = dict(completions=chat(THOUGHT), prompts=["p"], completion_ids=tokens(90), solution=["7"])
    assert copy.__name__ == reward.__name__ == name and copy(**call) == reward(**call)


def test_two_settings_of_one_factory_share_a_name_until_you_set_one():
    short, long = get_soft_overlong_punishment(100, 20), get_soft_overlong_punishment(900, 20)
    assert short.__name__ == long.__name__
    short.__name__ = "overlong_100"
    assert pickle.loads(pickle.dumps(short)).__name__ == "overlong_100" != long.__name__


@pytest.mark.parametrize("reward", [*MATH, think_format_reward, get_cosine_scaled_reward(max_len=100)])
def test_a_completion_that_is_a_string_is_an_error(reward):
    with pytest.raises(TypeError, match="string indices must be integers"):
        reward(completions=[THOUGHT], prompts=["p"], completion_ids=tokens(9), solution=["7"])


@pytest.mark.parametrize("reward", [get_soft_overlong_punishment(100, 20), get_repetition_penalty_reward()])
def test_the_two_that_read_token_ids_take_strings_and_need_the_ids(reward):
    assert reward(completions=["a", "b"], prompts=["p"] * 2, completion_ids=[[1, 2, 3], [1] * 101])[0] == 0.0
    assert reward(completions=chat("a"), completion_ids=tokens(101))[0] < -0.9
    with pytest.raises(TypeError, match="completion_ids"):
        reward(completions=["a"])


def test_only_the_first_message_is_read():
    call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function"}]}
    turns = [call, {"role": "tool", "content": "7"}, *chat(THOUGHT)[0]]
    for reward in (*MATH, think_format_reward):
        assert reward([turns[2:]], solution=["7"]) == [1.0] and reward([turns], solution=["7"]) == [0.0]
    # TRL's parser writes "" where there is no content; messages from elsewhere may hold None, or a list of parts.
    turns[0] = {**call, "content": None}
    assert accuracy_reward([turns], ["7"]) == [0.0]
    for reward in (reasoning_accuracy_reward, think_format_reward):
        with pytest.raises(TypeError, match="NoneType"):
            reward([turns], solution=["7"])


def test_both_math_rewards_log_the_same_columns():
    logged = {}
    for reward in MATH:
        reward(chat(BOXED), ["7"], log_extra=lambda column, values: logged.setdefault(column, []).extend(values))
    assert set(logged) == {"solution", "gold_parsed", "answer_parsed"}
    assert [len(values) for values in logged.values()] == [2, 2, 2]  # for one completion
    get_cosine_scaled_reward(100)(chat(BOXED), ["7"], tokens(9), log_extra=None)  # logs nothing at all


# --- in the real trainer ----------------------------------------------------------------------------------------------

CALL = '<tool_call>{"name":"add","arguments":{"a":3,"b":4}}</tool_call>'
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% for call in message['tool_calls'] or [] %}<tool_call>{{ call['function'] | tojson }}</tool_call>{% endfor %}"
    "<eos>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PARSER = {  # the shape of those TRL sets on known tokenizers when a run has tools
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "reasoning_content": {"open": "<think>", "close_pattern": r"</think>\s*", "content": "text"},
        "tool_calls": {
            "open": "<tool_call>", "close_pattern": r"</tool_call>\s*", "repeats": True, "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<eos>\s*", "content": "text"},
    },
}  # fmt: skip


def add(a: int, b: int) -> str:
    """Adds, and talks a lot.

    Args:
        a: one number
        b: the other number
    """
    return "7 " * 20


@pytest.fixture
def step(tmp_path):
    """One real training step in which the model 'says' the given turns: metrics, completions table, a reward's call."""
    import pyarrow.parquet
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    def run(reward_funcs, turns, parser=None, template=TEMPLATE, tools=None):
        seen = {}

        def recorder(**call):
            seen.update(call)
            return [0.0] * len(call["completions"])

        question = [{"role": "user", "content": "3 + 4 ?"}]
        tokenizer = tiny_model.build_tokenizer([CALL, THOUGHT, "no way 8", question[0]["content"]])
        tokenizer.chat_template = template
        if parser:
            tokenizer.response_template = parser
        args = GRPOConfig(
            output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none", save_strategy="no", logging_steps=1,
            per_device_train_batch_size=2, num_generations=2, max_completion_length=200, max_steps=1, disable_tqdm=True,
            log_completions=True, num_completions_to_print=0,
        )  # fmt: skip
        trainer = GRPOTrainer(
            model=tiny_model.build_model(tokenizer),
            processing_class=tokenizer,
            reward_funcs=[*reward_funcs, recorder],
            args=args,
            train_dataset=Dataset.from_list([{"prompt": question, "solution": "7"}] * 2),
            tools=tools,
        )
        said = iter([tokenizer(f"{turn}<eos>")["input_ids"] for turn in turns])

        def say(prompt_ids, *_, **__):
            ids = next(said)
            return [list(ids) for _ in prompt_ids], None

        trainer._generate_single_turn = say
        trainer.train()
        (metrics,) = [row for row in trainer.state.log_history if "reward" in row]
        (file,) = (tmp_path / "completions").glob("*.parquet")
        return metrics, pyarrow.parquet.read_table(file).to_pylist(), seen

    return run


def means(metrics):
    return {key.split("/")[1]: value for key, value in metrics.items() if key.endswith("/mean") and "rewards/" in key}


def test_in_a_tool_run_the_final_answer_is_not_seen_and_tool_output_counts_as_length(step):
    functions = [accuracy_reward, reasoning_accuracy_reward, think_format_reward, get_soft_overlong_punishment(60, 9)]
    metrics, _, seen = step(functions, [CALL, THOUGHT], PARSER, tools=[add])
    call, _, final = seen["completions"][0]
    assert call["content"] == "" and final["content"] == BOXED
    assert means(metrics) == {
        "accuracy_reward": 0.0, "reasoning_accuracy_reward": 0.0, "think_format_reward": 0.0,
        "soft_overlong_punishment_reward": -1.0, "recorder": 0.0,
    }  # fmt: skip
    # The model wrote fewer than the 51 tokens that are free; the ids the rewards get hold the tool's words as well.
    assert metrics["completions/mean_length"] < 51 and len(seen["completion_ids"][0]) > 60


def test_where_the_tokenizer_parses_replies_the_reasoning_is_gone(step):
    metrics, _, seen = step([think_format_reward, *MATH], [THOUGHT], PARSER)
    assert seen["completions"][0] == [{"role": "assistant", "reasoning_content": "so", "content": BOXED}]
    assert means(metrics) == {
        "think_format_reward": 0.0, "reasoning_accuracy_reward": 0.0, "accuracy_reward": 1.0, "recorder": 0.0
    }  # fmt: skip


@pytest.mark.parametrize("prefilled", [False, True])
def test_a_template_that_opens_the_think_tag_makes_the_format_reward_constant(step, prefilled):
    opened, said = (
        ("<|assistant|><think>", THOUGHT.removeprefix("<think>")) if prefilled else ("<|assistant|>", THOUGHT)
    )
    template = TEMPLATE.replace("%}<|assistant|>{%", f"%}}{opened}{{%")
    metrics, _, _ = step([think_format_reward, *MATH], [said], template=template)
    assert means(metrics) == {
        "think_format_reward": 0.0 if prefilled else 1.0, "reasoning_accuracy_reward": 1.0, "accuracy_reward": 1.0,
        "recorder": 0.0,
    }  # fmt: skip


def test_two_of_one_name_are_averaged_in_the_metric_and_the_table_keeps_the_last(step):
    functions = [get_soft_overlong_punishment(20, 9), get_soft_overlong_punishment(200, 9), *MATH]
    metrics, table, seen = step(functions, [f"<think>{'so ' * 30}{BOXED}</think> no way"])
    assert 20 < len(seen["completion_ids"][0]) < 191  # -1 from the first, 0 from the second
    assert means(metrics)["soft_overlong_punishment_reward"] == -0.5
    assert metrics["reward"] == -1.0 + 0.0 + 1.0 + 0.0  # the sum that trains is right
    assert [row["soft_overlong_punishment_reward"] for row in table] == [0.0, 0.0]
    # The same happens to what the two math rewards log: accuracy_reward read the 7 that it paid for.
    assert [row["accuracy_reward"] for row in table] == [1.0, 1.0]
    assert [row["answer_parsed"] for row in table] == ["[unparseable]"] * 2


# --- think_format_reward ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["<think>a</think>b", "<think>\na\n</think>\n\nb\nc", "<think>a</think>b <answer>7</answer>"],
)
def test_think_format_right(text):
    assert think_format(text) == 1.0


@pytest.mark.parametrize(
    "text", ["a", "<think>a", "<Think>a</Think>b", "a<think>a</think>b", "<think>a<think>b</think>c"]
)
def test_think_format_wrong(text):
    assert think_format(text) == 0.0


def test_think_format_knows_nothing_of_an_opened_tag():
    assert think_format("so</think>7") == 0.0


@pytest.mark.parametrize(
    "text", ["\n<think>a</think>b", " <think>a</think>b", "<think>a</think>No second <think> here."]
)
def test_think_format_refuses(text):
    assert think_format(text) == 0.0


@pytest.mark.parametrize(
    "text", ["<think></think>", "<think> </think>7", "<think>a</think>", "<think>a</think>b</think>c"]
)
def test_think_format_pays_for_nothing_said(text):
    assert think_format(text) == 1.0


# --- accuracy_reward --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "gold", "reward"),
    [
        (BOXED, "7", 1.0),
        (r"\boxed{8}", "7", 0.0),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}", 1.0),
        (r"\boxed{0.5}", r"$\frac{1}{2}$", 1.0),
        (r"\boxed{0.1666666667}", r"$\frac{1}{6}$", 1.0),
        (r"\boxed{0.167}", r"$\frac{1}{6}$", 0.0),
        (r"\boxed{(x+1)^2}", "$x^2+2x+1$", 1.0),
        (r"\boxed{2, 1}", r"$\{1, 2\}$", 1.0),
        (r"\boxed{(1,2)}", "$[1,2]$", 0.0),
        (r"\boxed{n=5,6,7}", "$n=4,5,6$", 0.0),
        (r"\boxed{7}", r"$\pm 7$", 0.0),
        (r"\boxed{1,250}", "1250", 1.0),
        (r"\boxed{\$70,000}", "70000", 1.0),
        (r"\boxed{5\text{ cm}}", "5", 1.0),
        (r"\boxed{x=5}", "5", 1.0),
        (r"\boxed{\text{east}}", r"\boxed{\text{east}}", 1.0),
        (r"\boxed{B}", "$B$", 1.0),
        (BOXED, "3 + 4 = <<3+4=7>>7\n#### 7", 1.0),
        ("The final answer is $7$.", "7", 1.0),
        (r"First \boxed{3}. Correction: \boxed{4}.", "4", 1.0),
        (r"First \boxed{3}. Correction: \boxed{4}.", "3", 0.0),
        (r"\boxed{7", "7", 0.0),
        ("", "7", 0.0),
        (BOXED, "see the figure", None),
    ],
)  # fmt: skip
def test_accuracy_right(text, gold, reward):
    assert accuracy(text, gold) == reward


@pytest.mark.parametrize(
    "gold", [r"\sqrt{2}", r"\pi", r"\frac{\pi}{2}", r"\frac12", "x+1", "x^2", "(1,2)", "B", "Monday"]
)
def test_a_gold_without_dollar_signs_is_skipped(gold):
    assert accuracy(rf"\boxed{{{gold}}}", gold) is None
    if gold != r"\frac12":
        assert accuracy(rf"\boxed{{{gold}}}", f"${gold}$") == 1.0


@pytest.mark.parametrize(("gold", "read_as"), [(r"2\sqrt{3}", "2"), (r"3\pi", "3")])
def test_a_gold_without_dollar_signs_may_be_misread_and_pay_the_wrong_answer(gold, read_as):
    right, wrong = rf"\boxed{{{gold}}}", rf"\boxed{{{read_as}}}"
    assert [accuracy(right, gold), accuracy(wrong, gold)] == [0.0, 1.0]
    assert [accuracy(right, f"${gold}$"), accuracy(wrong, f"${gold}$")] == [1.0, 0.0]


@pytest.mark.parametrize("gold", [7, 7.0, None])
def test_a_gold_that_is_no_text_is_skipped(gold):
    assert accuracy(BOXED, gold) is None


@pytest.mark.parametrize(("short", "full"), [(r"\frac12", r"\frac{1}{2}"), (r"\sqrt2", r"\sqrt{2}")])
def test_short_tex_counts_as_wrong(short, full):
    assert accuracy(rf"\boxed{{{short}}}", f"${full}$") == 0.0
    assert accuracy(rf"\boxed{{{short}}}", f"${short}$") == 0.0
    assert accuracy(rf"\boxed{{{full}}}", f"${full}$") == 1.0


@pytest.mark.parametrize("text", ["The answer is 7.", "$7$", r"\(7\)", "#### 7", "**7**", "<answer>7</answer>"])
def test_an_answer_that_is_neither_boxed_nor_announced_counts_as_wrong(text):
    assert accuracy(text, "7") == 0.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\frac{1}{3^{81}}", r"\frac{1}{3^{80}}"),
        (r"1.6 \times 10^{-19}", r"9.1 \times 10^{-31}"),
        ("0.0000001", "0.0000002"),
    ],
)
def test_different_tiny_numbers_are_equal(one, other):
    assert accuracy(rf"\boxed{{{one}}}", f"${other}$") == 1.0


def test_numbers_that_are_not_tiny_are_told_apart():
    assert accuracy(r"\boxed{\frac{1}{3^{31}}}", r"$\frac{1}{3^{30}}$") == 0.0
    assert accuracy(r"\boxed{0.00002}", "$0.00001$") == 0.0


def test_equal_for_positive_numbers_only_counts_as_wrong():
    assert accuracy(r"\boxed{\frac{1}{\sqrt{k}}}", r"$\sqrt{1/k}$") == 0.0
    assert accuracy(r"\boxed{\sqrt{1/k}}", r"$\frac{1}{\sqrt{k}}$") == 0.0


def test_a_percent_sign_is_accepted_both_ways():
    assert [accuracy(r"\boxed{28\%}", gold) for gold in ("28", "0.28", "2.8")] == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("after", ["I am not sure.", "The answer is 8.", "So $8$.", r"So \boxed{8"])
def test_a_box_in_the_reasoning_is_paid(after):
    text = rf"<think>Maybe {BOXED}</think> {after}"
    assert accuracy(text, "7") == 1.0 and reasoning_accuracy(text) == 0.0
    assert get_cosine_scaled_reward(max_len=100)(chat(text), ["7"], tokens(100)) == [0.5]


def test_a_box_after_the_reasoning_wins():
    assert accuracy(rf"<think>Maybe {BOXED}</think> \boxed{{8}}", "7") == 0.0


CHILD = r"""
import os, sys, threading, time
from trl.rewards import accuracy_reward

def run():
    for text in (r"\boxed{7}", r"\boxed{9^{9^{9}}}"):
        started = time.monotonic()
        print(accuracy_reward([[{"content": text}]], ["7"]), time.monotonic() - started, flush=True)

if sys.argv[1] == "main":
    run()
else:
    threading.Thread(target=run, daemon=True).start()
    while True:
        time.sleep(0.2)
        print("main thread", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="math-verify's time limit is another one there")
def test_a_power_tower_costs_five_seconds_and_off_the_main_thread_it_stops_the_process():
    by_main, by_thread = children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, where], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for where in ("main", "thread")
    ]
    try:
        out, _ = by_main.communicate(timeout=60)
        verdicts = [line.split() for line in out.splitlines()]
        assert [reward for reward, _ in verdicts] == ["[1.0]", "[0.0]"]
        assert float(verdicts[0][1]) < 4 < float(verdicts[1][1]) < 30
        with pytest.raises(subprocess.TimeoutExpired):
            by_thread.communicate(timeout=4)
        by_thread.kill()
        out, _ = by_thread.communicate(timeout=10)
        _, harmless, after = out.partition("[1.0]")
        assert harmless and "[" not in after  # the thread itself works; the tower gives no verdict
        assert after.count("main thread") < 15  # five a second if the interpreter lock were free
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_in_a_thread_usual_answers_are_judged():
    rewards = []
    thread = threading.Thread(target=lambda: rewards.extend([accuracy(BOXED, "7"), reasoning_accuracy(THOUGHT)]))
    thread.start()
    thread.join(60)
    assert rewards == [1.0, 1.0]


def test_async_grpo_calls_rewards_off_the_main_thread():
    package = Path(importlib.util.find_spec("trl").origin).parent
    worker = (package / "experimental" / "async_grpo" / "async_rollout_worker.py").read_text(encoding="utf-8")
    assert "asyncio.to_thread(reward_func" in worker


# --- reasoning_accuracy_reward ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        (THOUGHT, 1.0),
        (THOUGHT.removeprefix("<think>"), 1.0),  # a template opened the tag
        (rf"<think>\boxed{{8}}</think>{BOXED}", 1.0),
        (rf"<think>{BOXED}</think>\boxed{{8}}", 0.0),
        (rf"<think>{BOXED}</think>I am not sure.", 0.0),
        (rf"<think>{BOXED}", 0.0),
    ],
)
def test_reasoning_accuracy_right(text, reward):
    assert reasoning_accuracy(text) == reward


def test_without_the_closing_tag_a_right_answer_counts_as_wrong():
    assert reasoning_accuracy(BOXED) == 0.0
    # Even where the gold is unreadable, which skips the row otherwise.
    assert [reasoning_accuracy(text, "see the figure") for text in (BOXED, THOUGHT)] == [0.0, None]


def test_a_later_closing_tag_hides_the_answer():
    assert reasoning_accuracy(rf"{THOUGHT} After </think> one answers.") == 0.0


def test_of_several_delimiters_the_first_listed_counts_not_the_last_in_the_text():
    text = rf"so</think>\boxed{{8}}<final>{BOXED}"
    assert reasoning_accuracy(text, reasoning_delimiters=["<final>", "</think>"]) == 1.0
    assert reasoning_accuracy(text, reasoning_delimiters=["</think>", "<final>"]) == 0.0


def test_it_shares_the_limits_of_accuracy_reward():
    assert reasoning_accuracy(r"so</think>\boxed{\frac12}", r"$\frac{1}{2}$") == 0.0
    assert reasoning_accuracy(r"so</think>\boxed{\sqrt{2}}", r"\sqrt{2}") is None
    assert reasoning_accuracy(r"so</think>\boxed{0.0000001}", "$0.0000002$") == 1.0


# --- get_cosine_scaled_reward -----------------------------------------------------------------------------------------


def cosine(text, *lengths, gold="7"):
    return get_cosine_scaled_reward(max_len=100)(chat(*[text] * len(lengths)), [gold] * len(lengths), tokens(*lengths))


def test_cosine_pays_short_right_answers_most_and_never_a_wrong_one_above_a_right_one():
    assert cosine(BOXED, 0, 50, 100) == pytest.approx([1.0, 0.75, 0.5])
    assert cosine(BOXED, 50, gold="see the figure") == [None]
    assert min(cosine(BOXED, 0, 100, 999)) > max(cosine(r"\boxed{8}", 0, 100, 999))


@pytest.mark.parametrize("text", [r"\boxed{8}", "", "I give up."])
def test_cosine_pays_long_wrong_answers_more_than_short_ones(text):
    assert cosine(text, 0, 50, 100) == pytest.approx([-1.0, -0.75, -0.5])


def test_cosine_is_flat_beyond_max_len():
    assert cosine(BOXED, 100, 101, 200, 5000) == [0.5] * 4
    assert cosine(r"\boxed{8}", 100, 101, 200, 5000) == [-0.5] * 4


# --- get_repetition_penalty_reward ------------------------------------------------------------------------------------


def repetition(*ids, **options):
    return get_repetition_penalty_reward(**options)(completion_ids=list(ids))


def test_repetition_is_counted_in_token_ids_whatever_the_text():
    loop = [5, 6] * 20
    assert repetition(list(range(40)), loop) == [0.0, pytest.approx(-36 / 38)]
    for text in ("\u4f60\u597d" * 20, "all words differ here"):
        assert get_repetition_penalty_reward()(completions=[text], completion_ids=[loop])[0] < -0.9
    assert repetition([*range(50)] * 4)[0] == pytest.approx(-148 / 198)  # a long loop is one too


def test_a_loop_at_the_end_of_a_long_completion_costs_only_its_share():
    assert repetition([*range(1000), *[7] * 100])[0] == pytest.approx(-97 / 1098)


def test_regular_text_is_penalised_too():
    """Ten lines that begin alike, as in a table or a list of steps."""
    assert repetition([token for line in range(10) for token in (1, 2, 3, 100 + line, 4)])[0] < -0.2


def test_fewer_tokens_than_ngram_size_are_never_repetition():
    assert repetition([5, 5], [5] * 3, [5] * 4) == [0.0, 0.0, -0.5]


def test_honest_text_grows_more_expensive_with_its_length():
    draw = random.Random(0)
    words = [draw.randrange(50) for _ in range(8000)]
    short, long = repetition(words[:200], words)
    assert short > -0.01 and long < -0.02


# --- get_soft_overlong_punishment -------------------------------------------------------------------------------------


def overlong(*lengths, max_len=100, cache=20):
    return get_soft_overlong_punishment(max_len, cache)(completion_ids=tokens(*lengths))


def test_overlong_ramps_inside_the_budget_and_stays_at_minus_one():
    assert overlong(0, 80, 81, 90, 100, 101, 5000) == [0.0, 0.0, -0.05, -0.5, -1.0, -1.0, -1.0]
    assert overlong(99, 100, 101, cache=0) == [0.0, 0.0, -1.0]


def test_overlong_asks_not_whether_the_answer_is_right():
    reward = get_soft_overlong_punishment(100, 20)
    assert reward(completions=chat(BOXED, "no"), completion_ids=tokens(100, 100), solution=["7"] * 2) == [-1.0, -1.0]


def test_overlong_never_fires_where_the_trainer_cuts_earlier():
    """max_completion_length = 100 lets no completion reach the ramp of a punishment set for 200."""
    assert set(overlong(*range(101), max_len=200, cache=20)) == {0.0}


# --- settings ---------------------------------------------------------------------------------------------------------


def test_most_settings_are_not_checked():
    with pytest.raises(ValueError, match="max_penalty"):  # the one that is
        get_repetition_penalty_reward(max_penalty=0.5)
    assert overlong(0, cache=200) == [-0.5]  # a ramp longer than the budget punishes the empty completion
    for reward in (get_cosine_scaled_reward(max_len=0), get_repetition_penalty_reward(ngram_size=0)):
        with pytest.raises(ZeroDivisionError):  # at the first batch, not when it is built
            reward(completions=chat(BOXED), solution=["7"], completion_ids=tokens(9))


# --- collected cases about length: TRL's functions meet all of them ---------------------------------------------------


def _overlong(given):
    return overlong(*given["lens"], max_len=given["max"], cache=given["cache"])


def _cosine_is_clamped(given):
    reward = get_cosine_scaled_reward(given["max_len"])
    text = BOXED if given["correct"] else r"\boxed{8}"
    rewards = reward(chat(*[text] * len(given["lens"])), ["7"] * len(given["lens"]), tokens(*given["lens"]))
    return {"equal": len(set(rewards)) == 1}


def _overlong_in_tokens(given):
    """Of the length rewards that TRL has this is the one with a limit. The text has fewer characters than the limit."""
    reward = get_soft_overlong_punishment(given["limit"], 20)
    few, many = reward(completions=[given["text"]] * 2, completion_ids=tokens(len(given["text"]), given["n_tokens"]))
    return {"penalised": few == 0.0 and many < 0.0}


def _repetition_in_ids(given):
    (reward,) = get_repetition_penalty_reward()(completions=[given["text"]], completion_ids=given["ids"])
    return {"negative": reward < 0.0}


def _repetition_without_penalty(given):
    reward = get_repetition_penalty_reward(max_penalty=given["max_penalty"])
    return reward(completions=[given["text"]], completion_ids=given["ids"])


LENGTH_CHECKS = {
    "L-overlong": _overlong,
    "L-cos-clamp": _cosine_is_clamped,
    "L-chars-vs-tokens": _overlong_in_tokens,
    "L-repeat-zh": _repetition_in_ids,
    "L-zero-penalty-type": _repetition_without_penalty,
}


@pytest.mark.parametrize("case_id", LENGTH_CHECKS)
def test_length_case(case_id):
    case = TRL_LENGTH[case_id]
    assert LENGTH_CHECKS[case_id](case["input"]) == case["expected"], case["why"]


def test_every_length_case_that_is_not_ours_is_put_to_trl():
    wanted = {c["id"] for c in ALL_CASES if c["function_kind"] == "length" and c["input"]["fn"] != "wrapper"}
    assert set(LENGTH_CHECKS) == wanted == set(TRL_LENGTH)
