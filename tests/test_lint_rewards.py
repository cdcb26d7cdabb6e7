"""`rewards.lint` and its command: each check is shown a reward it must refuse, and the library's own pass them all.

The rewards below stand in the module, because lint calls a reward in a fresh process, which imports it from here.
"""

import asyncio
import functools
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import lint_rewards
import pytest
import rewards

ROOT = Path(__file__).parents[1]
SUMS = [(3, 4), (1, 1), (20, 9), (5, 7), (8, 80), (2, 9), (30, 3), (10, 5)]
ROWS = [{"prompt": f"What is {a} + {b}?", "answer": str(a + b)} for a, b in SUMS]
CHAT = [{**row, "prompt": [{"role": "user", "content": row["prompt"]}]} for row in ROWS]
LABELLED = [
    {**row, "completion": f"It is {answer}.", "label": label}
    for row in ROWS
    for answer, label in ((row["answer"], "pass"), ("0", "fail"))
]
LATEX = [{"prompt": "Solve.", "answer": gold} for gold in (r"\frac12", "x^2+1", "7", r"\sqrt{2}", "(1,2)", "3.5")]
LETTERS = [{"prompt": "Which? A) w B) x C) y D) z", "answer": letter} for letter in "BCADBC"]
SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
OBJECTS = [{"prompt": "Give n.", "output_schema": SCHEMA, "right": f'{{"n": {n}}}', "wrong": "[]"} for n in range(4)]
CALLS = [
    {"prompt": "Add.", "tool_calls": json.dumps([{"name": "add", "arguments": {"a": n, "b": 2}}])} for n in range(5)
]
CALLED = [
    {**row, "right": [{"role": "assistant", "content": None, "tool_calls": json.loads(row["tool_calls"])}]}
    for row in CALLS
]


def judged(completions, answer, pays=1.0):
    """What a sound reward would give; the bad ones below spoil one thing."""
    return [None if value is None else value * pays for value in rewards.correctness_reward(completions, answer)]


nameless = lambda completions, answer, **kwargs: judged(completions, answer)  # noqa: E731


def no_kwargs(completions, answer, trainer_state=None, log_extra=None, log_metric=None):
    return judged(completions, answer)


def other_column(completions, answers, **kwargs):
    return judged(completions, answers)


def looks_up(completions, **kwargs):
    return judged(completions, kwargs["solution"])


def needs_hooks(completions, answer, log_metric, **kwargs):
    log_metric("needs_hooks/size", float(len(completions)))
    return judged(completions, answer)


def numbers_only(completions, answer, **kwargs):
    if any(not isinstance(gold, str) or not gold.isdigit() for gold in answer):
        raise ValueError("answer must be a number")
    return judged(completions, answer)


def text_only(completions, answer, **kwargs):
    return judged([completion.strip() for completion in completions], answer)


def chat_only(completions, answer, **kwargs):
    return judged([completion[-1]["content"].strip() for completion in completions], answer)


def drops_none(completions, answer, **kwargs):
    return [value for value in judged(completions, answer) if value]


def gives_text(completions, answer, **kwargs):
    return ["yes" if value else 0.0 for value in judged(completions, answer)]


def gives_infinity(completions, answer, **kwargs):
    return [float("inf") if "7" in str(completion) else 0.0 for completion in completions]


def parses(completions, answer, **kwargs):
    found = map(rewards.extract_answer, map(rewards.completion_text, completions))
    return [float(int(text or 0) == int(gold)) for text, gold in zip(found, answer, strict=True)]


def hangs_on_towers(completions, answer, **kwargs):
    while any("^{9^" in rewards.completion_text(completion) for completion in completions):
        time.sleep(0.01)
    return judged(completions, answer)


def hangs(completions, **kwargs):
    time.sleep(60)


class Mute(Exception):
    def __str__(self):
        raise ValueError


def raises_mute(completions, **kwargs):
    raise Mute


def exits(completions, **kwargs):
    sys.exit("no GPU")


def dies(completions, **kwargs):
    os._exit(3)


def scores_missing_gold(completions, answer, **kwargs):
    return [value or 0.0 for value in judged(completions, answer)]


def zips_short(completions, answer, **kwargs):
    return [judged([completion], [gold])[0] for completion, gold in zip(completions, answer)]


def by_rank(completions, answer, **kwargs):
    return [(value or 0.0) + index for index, value in enumerate(judged(completions, answer))]


def by_chance(completions, answer, **kwargs):
    return [value and value + random.random() for value in judged(completions, answer)]


def changes(completions, answer, **kwargs):
    values = judged(completions, answer)
    answer.append("7")
    return values


def logs_step(completions, answer, log_extra=None, **kwargs):
    log_extra = log_extra or (lambda *_: None)
    log_extra("step", [0] * len(completions))
    return judged(completions, answer)


def logs_short(completions, answer, log_extra=None, **kwargs):
    if log_extra:
        log_extra("logs_short/reason", ["ok"])
    return judged(completions, answer)


def logs_nan(completions, answer, log_metric=None, **kwargs):
    if log_metric:
        log_metric("logs_nan/share", float("nan"))
    return judged(completions, answer)


def sleeps(completions, answer, **kwargs):
    time.sleep(0.005 * len(completions))
    return judged(completions, answer)


def substring(completions, answer, **kwargs):
    texts = map(rewards.completion_text, completions)
    return [None if gold is None else float(gold in text) for text, gold in zip(texts, answer, strict=True)]


def first_block(completions, answer, **kwargs):
    """Pays a draft that was taken back."""
    texts = [rewards.completion_text(completion).partition("</answer>")[0] for completion in completions]
    return judged([f"{text}</answer>" for text in texts], answer)


def any_block(completions, **kwargs):
    return [float("</answer>" in rewards.completion_text(completion)) for completion in completions]


def shorter(completions, **kwargs):
    return [-float(len(rewards.completion_text(completion))) for completion in completions]


def backwards(completions, answer, **kwargs):
    return judged(completions, answer, -1.0)


def constant(completions, **kwargs):
    return [0.5] * len(completions)


def never(completions, answer, **kwargs):
    return [0.0] * len(completions)


async def awaited(completions, answer, **kwargs):
    await asyncio.sleep(0)
    return judged(completions, answer)


def forgotten(completions, answer, **kwargs):
    return awaited(completions, answer)


def sentence(completions, answer, **kwargs):
    """Wants an answer in a shape of its own."""
    texts = map(rewards.completion_text, completions)
    return [None if gold is None else float(text == f"It is {gold}.") for text, gold in zip(texts, answer, strict=True)]


def found(reward, rows=ROWS, **options) -> dict[str, dict]:
    return _once(reward) if rows is ROWS and not options else checked(reward, rows, **options)


@functools.cache
def _once(reward) -> dict[str, dict]:
    return checked(reward, ROWS)


def checked(reward, rows, **options) -> dict[str, dict]:
    findings = rewards.lint(reward, rows, **options)
    assert [finding["check"] for finding in findings] == list(lint_rewards.CHECKS)
    for finding in findings:
        assert set(finding) == {"check", "verdict", "severity", "evidence", "fix"} and finding["evidence"]
        assert finding["verdict"] in ("pass", "fail", "not_measured")
        assert finding["severity"] in ("dead", "waste", "tell")
        assert bool(finding["fix"]) == (finding["verdict"] != "pass"), finding
    return {finding["check"]: finding for finding in findings}


def failed(findings: dict) -> list[str]:
    return [check for check, finding in findings.items() if finding["verdict"] != "pass"]


@pytest.mark.parametrize(
    ("reward", "rows"),
    [
        (rewards.format_reward, ROWS),
        (rewards.correctness_reward, ROWS),
        (rewards.correctness_reward, CHAT),
        (rewards.numeric_reward, ROWS),
        (functools.partial(rewards.math_reward, budget_s=1.0), LATEX),
        (rewards.choice_reward, LETTERS),
        (rewards.schema_reward, OBJECTS),
        (rewards.make_schema_reward(graded=True), OBJECTS),
        (rewards.tool_call_reward, CALLS),
        (rewards.tool_call_reward, CALLED),
        (rewards.combine(rewards.correctness_reward, gate=rewards.format_reward), ROWS),
        (rewards.with_length_penalty(rewards.correctness_reward), ROWS),
        (awaited, ROWS),
        (sentence, LABELLED),
    ],
    ids=lambda value: rewards._reward_name(value) if callable(value) else "",
)
def test_sound_rewards_pass_every_check(reward, rows):
    findings = found(reward, rows)
    assert not failed(findings), [findings[check] for check in failed(findings)]


BAD = [
    (nameless, "name", "tell", "<lambda>"),
    (nameless, "pickle", "tell", "PicklingError"),
    (no_kwargs, "arguments", "dead", "completion_ids, prompts"),
    (other_column, "arguments", "dead", "'answers'; the columns are: answer"),
    (looks_up, "arguments", "dead", "'solution'; the columns are: answer"),
    (needs_hooks, "arguments", "tell", "AsyncGRPO"),
    (exits, "arguments", "dead", "SystemExit: no GPU"),
    (forgotten, "arguments", "dead", "TypeError: it gave <coroutine object"),
    (chat_only, "shapes", "dead", "text: TypeError"),
    (text_only, "shapes", "tell", "chat messages: AttributeError"),
    (drops_none, "length", "dead", "rewards for 7 completions"),
    (gives_text, "length", "dead", "a reward of 'yes'"),
    (gives_infinity, "length", "dead", "a reward of inf"),
    (parses, "hostile", "dead", "ValueError: invalid literal for int()"),
    (scores_missing_gold, "missing_column_values", "waste", "answer=None"),
    (parses, "missing_column_values", "waste", "answer=None: TypeError"),
    (zips_short, "wrong_length_column", "tell", "2 values of answer for 3 completions give 2 rewards"),
    (by_rank, "order_and_batch", "waste", "another order"),
    (by_chance, "order_and_batch", "waste", "a second call"),
    (changes, "mutation", "waste", "it changes answer"),
    (logs_step, "log_names", "waste", "'step' does not begin with 'logs_step/'"),
    (logs_short, "log_names", "dead", "1 values for 7 completions"),
    (logs_nan, "log_names", "waste", "'logs_nan/share' is None"),
    (substring, "discriminates", "dead", "'gold or another' is paid like the right one on 8 of 8"),
    (first_block, "discriminates", "dead", "'gold, then another'"),
    (any_block, "discriminates", "waste", "'empty blocks'"),
    (shorter, "discriminates", "tell", "'nothing'"),
    (constant, "variance", "dead", "every text tried got 0.5"),
]


@pytest.mark.parametrize(("reward", "check", "severity", "said"), BAD, ids=lambda value: getattr(value, "__name__", ""))
def test_each_check_catches_its_bad_reward(reward, check, severity, said):
    finding = found(reward)[check]
    assert (finding["verdict"], finding["severity"]) == ("fail", severity), finding
    assert said in finding["evidence"]


def test_a_column_that_is_almost_right_is_suggested():
    assert "did you mean 'answer'" in found(other_column)["arguments"]["fix"]
    assert "add a column 'solution'" in found(looks_up)["arguments"]["fix"]
    assert "arguments" not in failed(found(functools.partial(other_column, answers="7")))
    assert "arguments" not in failed(found(other_column, constants={"answers": "7"}))


def test_rows_that_raise_are_named_and_the_others_tried():
    findings = found(numbers_only, [*ROWS, {"prompt": "Who?", "answer": "Ada"}])
    assert "1 of 9 rows raise, row 9: ValueError: answer must be a number" in findings["arguments"]["evidence"]
    assert findings["discriminates"]["verdict"] == "pass" and failed(findings) == ["arguments"]


def test_column_names_that_trl_takes():
    rows = [{**row, "completions": "x", "trainer_state": 1} for row in ROWS]
    finding = found(rewards.correctness_reward, rows)["column_names"]
    assert finding["severity"] == "dead" and "'completions'" in finding["evidence"]
    rows = [{**row, "trainer_state": 1} for row in ROWS]
    assert found(rewards.correctness_reward, rows)["column_names"]["severity"] == "waste"


def test_a_reward_that_is_slow():
    finding = found(sleeps, ROWS[:3], max_row_s=0.002)["speed"]
    assert (finding["verdict"], finding["severity"]) == ("fail", "waste") and "completions a second" in finding[
        "evidence"
    ]


def test_a_reward_that_hangs_is_killed(monkeypatch):
    start = time.monotonic()
    finding = found(hangs_on_towers, max_row_s=0.01)["hostile"]
    assert "a power tower" in finding["evidence"] and "did not come back" in finding["evidence"]
    monkeypatch.setattr(lint_rewards, "START_S", 0.5)
    findings = found(hangs, max_row_s=0.01)
    assert findings["speed"]["verdict"] == "fail" and "did not come back" in findings["speed"]["evidence"]
    assert findings["hostile"]["verdict"] == findings["discriminates"]["verdict"] == "not_measured"
    closure = lambda completions, **kwargs: hangs(completions)  # noqa: E731
    assert "could not be killed" in found(closure, max_row_s=0.01)["speed"]["evidence"]
    assert time.monotonic() - start < 15


def test_a_reward_that_ends_its_process():
    findings = found(dies)
    assert "its process ended with status 3" in findings["speed"]["evidence"]


def test_a_completion_that_must_be_paid_is_not():
    rows = [{**row, "right": f"So it is {row['answer']}."} for row in ROWS]
    finding = found(never, rows)["discriminates"]
    assert (finding["verdict"], finding["severity"]) == ("fail", "dead") and "So it is 7." in finding["evidence"]
    assert found(rewards.correctness_reward, rows)["discriminates"]["verdict"] == "fail"
    assert found(backwards, [{**row, "right": f"<answer>{row['answer']}</answer>"} for row in ROWS])["discriminates"]["verdict"] == "fail"  # fmt: skip
    half = [{**row, "right": f"<answer>{row['answer']}</answer>"} for row in ROWS[:4]] + rows[4:]
    finding = found(rewards.correctness_reward, half)["discriminates"]
    assert finding["severity"] == "waste" and "4 right ones are not paid" in finding["evidence"]


def test_a_completion_given_as_wrong_is_paid():
    rows = [{**row, "right": f"<answer>{row['answer']}</answer>", "wrong": f"I guess <answer>{row['answer']}</answer>"} for row in ROWS]  # fmt: skip
    finding = found(rewards.correctness_reward, rows)["discriminates"]
    assert finding["severity"] == "dead" and "'a completion given as wrong'" in finding["evidence"]
    rows = [{**row, "label": "pass"} for row in LABELLED]
    assert "completion given as wrong" not in found(sentence, rows)["discriminates"]["evidence"]


@pytest.mark.parametrize("reward", [never, sentence])
def test_what_was_not_measured_is_not_called_fine(reward):
    findings = found(reward)
    assert {findings[check]["verdict"] for check in ("discriminates", "variance")} == {"not_measured"}
    assert '"right"' in findings["discriminates"]["fix"]


def test_rows_without_a_gold_are_counted():
    rows = [*ROWS, {"prompt": "Who?", "answer": None}]
    finding = found(rewards.correctness_reward, rows)["gold_readable"]
    assert (finding["verdict"], finding["severity"]) == ("fail", "waste")
    assert "1 of 9 rows give None" in finding["evidence"] and "row 9, answer=" in finding["evidence"]
    finding = found(rewards.correctness_reward, rows[-1:])["gold_readable"]
    assert finding["severity"] == "dead"


def test_golds_are_found_in_their_rationale():
    rows = [{**row, "answer": f"We add. #### {row['answer']}"} for row in ROWS]
    assert failed(found(rewards.numeric_reward, rows)) == []
    rows = [{"prompt": "How much?", "answer": gold} for gold in ("50%", "1/2", "0.5", "3 km", "$5", "1,250")]
    assert failed(found(rewards.numeric_reward, rows)) == []  # another row's gold may be the same number
    rows = [{**row, "answer": [row["answer"], f"{row['answer']}.0"]} for row in ROWS]
    assert failed(found(rewards.correctness_reward, rows)) == []


def test_rows_that_cannot_be_pickled_and_errors_that_cannot_speak():
    rows = [{**row, "lock": threading.Lock()} for row in ROWS]
    assert not failed(found(rewards.correctness_reward, rows))
    assert "rows raise, row 1: Mute: " in found(raises_mute)["arguments"]["evidence"]


def test_bad_usage_is_refused():
    for reward, rows in (("format_reward", ROWS), (rewards.format_reward, ["row"])):
        with pytest.raises(TypeError, match="callable and a list of dicts"):
            rewards.lint(reward, rows)
    with pytest.raises(ValueError, match="at least one row"):
        rewards.lint(rewards.format_reward, [])


@pytest.fixture
def lint(tmp_path):
    """Runs the command in a folder of its own; rows are written to prompts.jsonl there."""

    def run(*options, rows=ROWS, text=None, expect=0, file="prompts.jsonl"):
        content = "".join(json.dumps(row) + "\n" for row in rows) if text is None else text
        (tmp_path / "prompts.jsonl").write_text(content, encoding="utf-8")
        (tmp_path / "mine.py").write_text(
            "def loud(completions, **kwargs):\n    print('loud')\n    return [1.0] * len(completions)\n"
            "def format_reward(completions, **kwargs):\n    return [1.0] * len(completions)\n"
            "def never(completions, answer, **kwargs):\n"
            "    return [None if gold is None else 0.0 for _, gold in zip(completions, answer, strict=True)]\n"
        )
        command = [sys.executable, str(ROOT / "scripts/rewards.py"), "lint", *([file] if file else []), *options]
        env = {**os.environ, "COLUMNS": "160"}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == expect, done.stdout + done.stderr
        assert "Traceback" not in done.stderr and (expect != 2 or not done.stdout)
        return json.loads(done.stdout) if "--json" in options and expect != 2 else done

    return run


def test_a_lint_that_is_killed_leaves_no_process_behind(tmp_path):
    """Its worker may be in the midst of a reward that never ends."""
    marker = tmp_path / "pid"
    (tmp_path / "endless.py").write_text(
        f"import os\ndef endless(completions, **kwargs):\n    open({str(marker)!r}, 'w').write(str(os.getpid()))\n    while True: pass\n",
        encoding="utf-8",
    )
    code = (
        "import lint_rewards, endless\n"
        "lint_rewards.START_S = 1.0\n"
        "lint_rewards.lint(endless.endless, [{'prompt': 'p'}], max_row_s=0.01)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "scripts")])}
    parent = subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for _ in range(300):
        if marker.exists() and marker.read_text():
            break
        time.sleep(0.1)
    worker = int(marker.read_text())
    parent.kill()
    parent.wait()
    for _ in range(200):
        if not Path(f"/proc/{worker}").exists() or Path(f"/proc/{worker}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    os.kill(worker, 9)
    raise AssertionError("the worker outlived its parent")


def inverted(completions, answer, **kwargs):
    return [1.0 if value == 0.0 else 0.0 for value in judged(completions, answer)]


def pays_length(completions, answer, **kwargs):
    texts = map(rewards.completion_text, completions)
    return [value + min(len(text), 5000) / 2000 for value, text in zip(judged(completions, answer), texts)]


def last_number(completions, answer, **kwargs):
    found = [
        rewards.re.findall(r"\d+", rewards.final_answer(rewards.completion_text(text)) or "") for text in completions
    ]
    return [float(numbers[-1:] == [gold]) for numbers, gold in zip(found, answer, strict=True)]


def a_part(completions, answer, **kwargs):
    found = [rewards.final_answer(rewards.completion_text(text)) for text in completions]
    return [
        float(bool(text and text.strip()) and gold.startswith(text.strip()))
        for text, gold in zip(found, answer, strict=True)
    ]


def no_sign(completions, answer, **kwargs):
    texts = [rewards.completion_text(text).replace("-", "") for text in completions]
    return judged(texts, answer)


@pytest.mark.parametrize(
    ("reward", "severity", "said"),
    [
        (inverted, "dead", "it pays the opposite"), (pays_length, "waste", "is paid more than the right one"), (last_number, "dead", "'another or gold'"),
        (a_part, "dead", "'the gold cut short'"), (no_sign, "dead", "'the gold negated'"),
    ],
)  # fmt: skip
def test_a_reward_that_teaches_something_else_is_told(reward, severity, said):
    findings = {finding["check"]: finding for finding in lint_rewards.lint(reward, ROWS)}
    found = findings["discriminates"]
    assert (found["verdict"], found["severity"]) == ("fail", severity) and said in found["evidence"] and found["fix"]


def test_the_command_refuses_what_would_change_nothing(lint):
    assert (
        "--param graded: no reward takes it"
        in lint("--reward", "correctness_reward", "--param", "graded=true", expect=2).stderr
    )
    rows = [{**row, "prompt": 5} for row in ROWS]
    assert (
        "a prompt must be text or a list of chat messages"
        in lint("--reward", "correctness_reward", rows=rows, expect=2).stderr
    )


def test_the_command_shows_a_table_and_json(lint):
    shown = lint("--reward", "correctness_reward", "--reward", "format_reward")
    assert all(check in shown.stdout for check in lint_rewards.CHECKS) and "correctness_reward" in shown.stdout
    assert all(line.startswith("note: trying ") for line in shown.stderr.splitlines())
    result = lint("--reward", "correctness_reward", "--rows", "3", "--json")
    assert result["schema_version"] == 1 and list(result["rewards"]) == ["correctness_reward"]
    findings = {finding["check"]: finding for finding in result["rewards"]["correctness_reward"]}
    assert list(findings) == list(lint_rewards.CHECKS) and "3 of 3 rows" in findings["discriminates"]["evidence"]


def test_the_command_fails_where_a_reward_does(lint):
    result = lint("--reward", "mine.loud", "--json", expect=1)  # what it prints is not in the data
    assert any(finding["verdict"] == "fail" for finding in result["rewards"]["loud"])


def test_the_command_says_loudly_what_was_not_measured(lint):
    done = lint("--reward", "mine.never")
    assert "note: never: WHETHER IT TELLS RIGHT FROM WRONG WAS NOT MEASURED (discriminates)" in done.stderr
    assert "not measured: variance" in done.stderr


def test_the_command_takes_constants(lint):
    rows = [{"prompt": row["prompt"]} for row in ROWS]
    options = ("--reward", "format_reward", "--param", "prefilled=true", "--json")
    findings = {one["check"]: one for one in lint(*options, rows=rows)["rewards"]["format_reward"]}
    assert "the shape r</reasoning> <answer>gold</answer>" in findings["discriminates"]["evidence"]


def test_the_command_reads_sampled_completions(lint):
    options = ("--reward", "correctness_reward", "--json", "--rows", "12")
    result = lint(*options, file=str(ROOT / "examples/completions.jsonl"))
    findings = {one["check"]: one for one in result["rewards"]["correctness_reward"]}
    assert "right (as the rows give it) is paid more on 11 of 12 rows" in findings["discriminates"]["evidence"]
    assert "a completion given as wrong" in findings["discriminates"]["evidence"]


@pytest.mark.parametrize(
    ("options", "given", "said"),
    [
        (("--reward", "nope"), {}, "unknown reward 'nope'"),
        (("--reward", "format_reward", "--reward", "mine.format_reward"), {}, "two rewards are called 'format_reward'"),
        (("--reward", "format_reward"), {"file": "none.jsonl"}, "no such file"),
        (("--reward", "format_reward"), {"text": "{oops\n"}, "prompts.jsonl:1: not JSON"),
        (("--reward", "format_reward"), {"text": ""}, "prompts.jsonl: no rows"),
        (("--reward", "format_reward"), {"rows": [{"answer": 1}]}, 'row 1 has no "prompt"; it has answer'),
        (("--reward", "format_reward"), {"rows": [{"prompt": "p", "completion": 7}]}, "row 1: a completion must be"),
        (("--reward", "format_reward", "--rows", "0"), {}, "--rows must be at least 1"),
        (("--reward", "format_reward", "--max-row-s", "nan"), {}, "--max-row-s above 0"),
        (("--reward", "format_reward", "--param", "answer=1"), {}, "in TRL the column wins"),
        (("--reward", "format_reward", "--param", "prompts=1"), {}, "prompts is what TRL passes itself"),
        ((), {}, "--reward"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_usage_and_input_get_one_clear_line(lint, options, given, said):
    assert said in lint(*options, expect=2, **given).stderr


def test_help_says_what_goes_in_and_comes_out(lint):
    said = lint("--help", file=None).stdout
    for word in ("--reward", "--max-row-s", "--json", '"right"', "example:", "exit codes: 0"):
        assert word in said
