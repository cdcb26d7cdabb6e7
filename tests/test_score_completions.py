"""`rewards.py score` as a user runs it: a process, files, exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from reward_cases import PLUMBING

ROOT = Path(__file__).parents[1]
RIGHT = "<reasoning>3 + 4</reasoning><answer>7</answer>"
ROWS = [
    {"prompt": "3 + 4", "completion": RIGHT, "answer": "7", "label": "pass", "kind": "person"},
    {"prompt": "3 + 4", "completion": "7", "answer": "7", "label": "pass", "kind": "person"},
    {"prompt": "1 + 1", "completion": RIGHT, "answer": "2", "label": "fail", "kind": "person"},
    {"prompt": "1 + 1", "completion": "two", "answer": "2", "label": "fail", "kind": "person"},
]


@pytest.fixture
def score(tmp_path):
    """Runs the command in a folder of its own; rows are written to completions.jsonl there."""

    def run(*options, rows=ROWS, text=None, expect=0, columns="160"):
        content = "".join(json.dumps(row) + "\n" for row in rows) if text is None else text
        (tmp_path / "completions.jsonl").write_text(content, encoding="utf-8", errors="surrogateescape")
        files = [] if any(option.endswith((".parquet", ".txt")) for option in options) else ["completions.jsonl"]
        command = [sys.executable, str(ROOT / "scripts/rewards.py"), "score", *files, *options]
        env = {**os.environ, "COLUMNS": columns}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == expect, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        if expect == 2:
            assert done.stdout == "" and len(done.stderr.strip().splitlines()) <= 20
        return json.loads(done.stdout) if "--json" in options and expect != 2 else done

    return run


EXACT = ("--reward", "correctness_reward")


def test_rewards_reasons_and_groups(score):
    result = score(*EXACT, "--reward", "format_reward", "--json")
    assert [row["rewards"]["correctness_reward"] for row in result["rows"]] == [2.0, 0.0, 0.0, 0.0]
    assert [row["reasons"]["correctness_reward"] for row in result["rows"]] == [
        "correct",
        "no_answer",
        "wrong",
        "no_answer",
    ]
    assert [row["group"] for row in result["rows"]] == [1, 1, 2, 2]
    stats = result["rewards"]["correctness_reward"]
    assert (stats["scored"], stats["mean"], stats["groups"], stats["dead_groups"]) == (4, 0.5, 2, 1)
    assert [row["total"] for row in result["rows"]] == [3.0, 0.0, 1.0, 0.0] and result["total"]["dead_groups"] == 0


def test_disagreements_with_the_label(score):
    result = score(*EXACT, "--reward", "format_reward", "--json")
    assert [(entry["row"], entry["reward"], entry["label"]) for entry in result["disagreements"]] == [
        (2, "correctness_reward", "pass"), (2, "format_reward", "pass"), (3, "format_reward", "fail"),
    ]  # fmt: skip
    only = score(*EXACT, "--reward", "format_reward", "--compare", "correctness_reward", "--json")
    assert [entry["row"] for entry in only["disagreements"]] == [2]
    assert result["labels"] == {**result["labels"], "column": "label", "labelled": 4, "kinds": ["person"], "unsure": 0}
    rows = [{**ROWS[0], "answer": None}, {**ROWS[1], "label": "unsure"}, {**ROWS[2], "label": None}, ROWS[3]]
    labels = score(*EXACT, "--json", rows=rows)["labels"]
    assert (labels["labelled"], labels["unsure"], labels["compared"]) == (2, 1, {"correctness_reward": 1})
    assert "1 rows have no label, 1 are unsure" in score(*EXACT, rows=rows).stderr
    strict = score(*EXACT, "--pass-above", "2", "--json")
    assert [entry["row"] for entry in strict["disagreements"]] == [1, 2]


def test_tables_show_reward_beside_text(score):
    shown = score(*EXACT)
    assert (
        "2 correct" in shown.stdout
        and "<answer>7</answer>" in shown.stdout
        and "not paid but labelled pass" in shown.stdout
    )


def test_full_shows_whole_completions_and_narrow_terminals_stay_readable(score):
    assert "prompt: 3 + 4\nanswer: 7\n" in score(*EXACT, "--full").stdout
    long = "<reasoning>" + "so we add\n" * 60 + "</reasoning><answer>7</answer>"
    rows = [{**row, "completion": long} for row in ROWS]
    assert score(*EXACT, "--full", rows=rows).stdout.count("so we add") >= 4 * 60
    narrow = score(*EXACT, "--reward", "format_reward", rows=rows, columns="60").stdout
    assert "<answer>7</answer>" in narrow and max(map(len, narrow.splitlines())) <= 60


def test_rows_are_written_for_labelling_and_never_over_labels(score, tmp_path):
    rows = [{key: value for key, value in row.items() if key not in ("label", "kind")} for row in ROWS]
    score(*EXACT, "--write", "to_label.jsonl", rows=rows)
    written = [json.loads(line) for line in (tmp_path / "to_label.jsonl").read_text().splitlines()]
    assert written == [{"label": "", "kind": "", **row} for row in rows]
    assert "may hold labels" in score(*EXACT, "--write", "to_label.jsonl", rows=rows, expect=2).stderr
    labelled = [{**row, "label": "pass", "kind": "person"} for row in written]
    assert score(*EXACT, "--json", rows=labelled)["labels"]["labelled"] == 4


def test_what_a_model_wrote_cannot_drive_the_terminal(score):
    rows = [{**ROWS[0], "completion": "\x1b[31mred\x07 [bold]<answer>7</answer>\r\n\u202eabc"}, ROWS[1]]
    shown = score(*EXACT, rows=rows).stdout
    assert "\x1b" not in shown and "\x07" not in shown and "\u202e" not in shown and "[bold]" in shown


def test_labels_of_an_agent_are_called_so(score):
    note = score(*EXACT, rows=[{**row, "kind": "agent"} for row in ROWS]).stderr
    assert "kind agent" in note and "do not replace a person" in note
    assert "do not replace" not in score(*EXACT).stderr


def test_dead_groups_and_zero_variance_are_said(score):
    """P-zero-std: identical rewards give no gradient, and that must be visible."""
    assert "P-zero-std" in PLUMBING
    note = score(*EXACT, rows=[{**row, "completion": "?"} for row in ROWS]).stderr
    assert "zero variance" in note and "2 of 2 groups are dead" in note


def test_scoring_nothing_is_not_fine(score):
    result = score(*EXACT, "--json", rows=[{**row, "answer": None} for row in ROWS], expect=1)
    assert result["rewards"]["correctness_reward"]["scored"] == 0
    assert result["total"]["groups"] == 0 and result["rewards"]["correctness_reward"]["mean"] is None


def test_trl_parquet_with_the_dataset_joined(score, tmp_path):
    import pyarrow
    import pyarrow.parquet

    prompt = [{"role": "user", "content": "3 + 4"}]
    chat = [
        {"step": 1, "prompt": prompt, "completion": [{"role": "assistant", "content": text}], "advantage": 0.0}
        for text in (RIGHT, "no")
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(chat), tmp_path / "completions_00001.parquet")
    (tmp_path / "data.jsonl").write_text(json.dumps({"prompt": prompt, "answer": 7}) + "\n")
    # A step without generation leaves an empty file.
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(chat).slice(0, 0), tmp_path / "completions_00000.parquet")
    files = ("completions_00000.parquet", "completions_00001.parquet", *EXACT, "--json")
    result = score(*files, "--dataset", "data.jsonl")
    assert [row["rewards"]["correctness_reward"] for row in result["rows"]] == [2.0, 0.0]
    assert "missing a required argument: 'answer'" in score(*files, expect=2).stderr
    (tmp_path / "data.jsonl").write_text(json.dumps({"prompt": "other", "answer": 7}) + "\n")
    assert "no row with the prompt of completion 1" in score(*files, "--dataset", "data.jsonl", expect=2).stderr


def test_params_are_bound_and_group_size_chunks(score):
    result = score("--reward", "format_reward", "--param", "prefilled=true", "--group-size", "4", "--json")
    assert [row["rewards"]["format_reward"] for row in result["rows"]] == [0.0] * 4
    assert {row["group"] for row in result["rows"]} == {1}


def test_a_gold_column_called_label_is_not_a_persons_verdict(score):
    rows = [{**row, "label": value} for row, value in zip(ROWS, ["positive", "1", "0", "1"])]
    assert score(*EXACT, "--json", rows=rows)["labels"]["column"] is None
    assert "row 1 says 'positive'" in score(*EXACT, rows=rows).stderr
    flags = [{**row, "label": value} for row, value in zip(ROWS, [1.0, True, "0", float("nan")])]
    assert score(*EXACT, "--json", rows=flags)["labels"]["column"] is None
    asked = score(*EXACT, "--label", "label", "--json", rows=flags)
    assert [row["label"] for row in asked["rows"]] == ["pass", "pass", "fail", None]


def test_without_prompts_there_are_no_groups_to_measure(score):
    rows = [{key: value for key, value in row.items() if key != "prompt"} for row in ROWS]
    result = score(*EXACT, "--json", rows=rows)
    assert result["total"]["groups"] == 0 and result["total"]["mean_std_in_group"] is None
    assert "not measured" in score(*EXACT, rows=rows).stdout


def test_chats_that_parquet_filled_with_none_still_join(score, tmp_path):
    import pyarrow
    import pyarrow.parquet

    prompt = [{"role": "system", "content": "s", "name": "x"}, {"role": "user", "content": "3 + 4"}]
    table = pyarrow.Table.from_pylist([{"step": 1, "prompt": prompt, "completion": RIGHT}] * 2)
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "data.jsonl").write_text(json.dumps({"prompt": prompt, "answer": "7"}) + "\n")
    result = score("a.parquet", *EXACT, "--dataset", "data.jsonl", "--json")
    assert result["rewards"]["correctness_reward"]["mean"] == 2.0


MODULE = """
import rewards
async def slow(completions, **kwargs):
    return [1.0] * len(completions)
def buggy(completions, **kwargs):
    return [completion + 1 for completion in completions]
def mixed(completions, **kwargs):
    return [1.0, {"score": 1.0}] * (len(completions) // 2)
def short(completions, **kwargs):
    return [1.0]
def nans(completions, **kwargs):
    return [float("nan"), 1.0] * (len(completions) // 2)
def infinite(completions, **kwargs):
    return [float("inf")] * len(completions)
def renamed(completions, solutions, **kwargs):
    return [0.0] * len(completions)
def closed(completions):
    return [0.0] * len(completions)
def tokens(completions, completion_ids, **kwargs):
    return [float(len(ids)) for ids in completion_ids]
def coroutine(completions, **kwargs):
    return slow(completions)
def reasons(completions, log_extra, **kwargs):
    log_extra("reasons/reason", ["one"])
    return [0.0] * len(completions)
def chatty(completions, trainer_state, log_extra, log_metric, **kwargs):
    print("debug", trainer_state.global_step)
    log_extra(column="chatty/reason", values=["\\x1b[2J[/red]"] * len(completions))
    log_metric(name="m", value=1.0)
    return [float(index) for index in range(len(completions))]
concise = rewards.with_length_penalty(rewards.correctness_reward, target_len=1, penalty_per_token=0.1)
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)


def test_what_a_reward_prints_and_logs_harms_neither_data_nor_terminal(score, mine):
    assert score("--reward", "mine.chatty", "--json")["rows"][0]["reasons"]["chatty"] == "\x1b[2J[/red]"
    shown = score("--reward", "mine.chatty").stdout
    assert "debug" not in shown and "\x1b" not in shown and "[/red]" in shown


def test_nan_abstains_as_in_trl(score, mine):
    result = score("--reward", "mine.nans", "--json")
    assert (result["rewards"]["nans"]["abstained"], result["rewards"]["nans"]["mean"]) == (2, 1.0)


def test_a_length_penalty_without_token_ids_says_that_it_counts_words(score, mine):
    assert "counted words" in score("--reward", "mine.concise").stderr
    with_ids = [{**row, "completion_ids": [1, 2]} for row in ROWS]
    done = score("--reward", "mine.concise", rows=with_ids)
    assert "counted words" not in done.stderr and "1.9 correct" in done.stdout


def test_output_that_cannot_be_written(score, tmp_path):
    score(*EXACT)  # writes completions.jsonl
    script = [sys.executable, str(ROOT / "scripts/rewards.py"), "score", "completions.jsonl", *EXACT]
    for words, status in (("| head -1", 0), ("> /dev/full", 2)):
        line = f"set -o pipefail; {' '.join(script)} --json {words}"
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == status and "Traceback" not in done.stderr, (words, done)
    latin = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
    done = subprocess.run(script, cwd=tmp_path, env=latin, capture_output=True, text=True)
    assert done.returncode == 0 and "Traceback" not in done.stderr


def test_an_async_reward_of_the_users_module(score, mine):
    assert score("--reward", "mine.slow", "--json")["rewards"]["slow"]["mean"] == 1.0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("buggy", "buggy raised TypeError"),  # P-swallow
        ("mixed", "row 2 must be a finite number or None"),  # P-mixed-return
        ("short", "short gave 1 rewards for 4 completions"),
        ("infinite", "must be a finite number"),
        ("renamed", "missing a required argument: 'solutions'"),  # P-column-name
        ("closed", "add **kwargs"),
        ("tokens", "missing a required argument: 'completion_ids'"),
        ("coroutine", "coroutine raised TypeError"),
        ("reasons", "logged 1 values of reasons/reason for 4 completions"),
        ("gone", "has no reward 'gone'; it has "),
    ],
)
def test_a_reward_that_would_end_the_training_is_found_before(score, mine, name, said):
    assert said in score("--reward", f"mine.{name}", expect=2).stderr


@pytest.mark.parametrize(
    ("options", "rows", "said"),
    [
        (("--reward", "no_such"), ROWS, "choose from format_reward"),
        (("--reward", "no.such"), ROWS, "cannot import no"),
        ((*EXACT, *EXACT), ROWS, "two rewards are called"),
        ((*EXACT, "--label", "verdict"), ROWS, "no column 'verdict'"),
        ((*EXACT, "--compare", "format_reward"), ROWS, "no such reward; choose from correctness_reward"),
        ((*EXACT, "--group-size", "3"), ROWS, "does not divide the 4 rows"),
        ((*EXACT, "--group-size", "1"), ROWS, "at least 2"),
        ((*EXACT, "--param", "x"), ROWS, "is not NAME=JSON"),
        ((*EXACT, "--param", "x=y"), ROWS, "is not JSON"),
        (EXACT, [], "no rows"),
        ((*EXACT, "--param", "answer=1"), ROWS, "in TRL the column wins"),
        (EXACT, [{"prompt": "p"}], 'row 1 has no "completion"'),
        ((*EXACT, "--label", "label"), [{**ROWS[0], "label": "good"}], "label 'good'"),
        (EXACT, [{**ROWS[0], "completions": "x"}], "completions is what TRL passes itself"),
        ((*EXACT, "--param", "prompts=1"), ROWS, "prompts is what TRL passes itself"),
        (EXACT, [ROWS[0], ROWS[2], ROWS[1]], "row 3 comes back to an earlier prompt"),
        (EXACT, [{**ROWS[0], "completion": 7}], "string or a list of chat messages"),
        ((), ROWS, "--reward"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, (str, tuple)) else "",
)  # fmt: skip
def test_bad_usage_and_input_get_one_clear_line(score, options, rows, said):
    assert said in score(*options, rows=rows, expect=2).stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [('{"completion": "a"}\n{oops\n', "completions.jsonl:2: not JSON"), ("[1]\n", ":1: a line must hold an object"),
     ("\ufeff{oops", ":1: not JSON"), ("[" * 100_000, ":1: not JSON"), ("\udcff", "cannot be read")],
    ids=["bad line", "not an object", "byte order mark", "nested", "not utf-8"],
)  # fmt: skip
def test_broken_files_say_where(score, text, said):
    assert said in score(*EXACT, text=text, expect=2).stderr


def test_files_that_are_not_what_they_are_called(score, tmp_path):
    (tmp_path / "x.parquet").write_text("no")
    (tmp_path / "x.txt").write_text("no")
    assert "not a parquet file" in score("x.parquet", *EXACT, expect=2).stderr
    assert "choose from .jsonl, .parquet" in score("x.txt", *EXACT, expect=2).stderr
    assert "none.parquet: no such file" in score("none.parquet", *EXACT, expect=2).stderr
    (tmp_path / "d.parquet").mkdir()
    assert "is a folder" in score("d.parquet", *EXACT, expect=2).stderr


def test_a_copied_rewards_file_alone_says_what_it_needs(tmp_path):
    (tmp_path / "rewards.py").write_bytes((ROOT / "scripts/rewards.py").read_bytes())
    done = subprocess.run([sys.executable, "rewards.py", "score"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "score_completions.py" in done.stderr and "Traceback" not in done.stderr


def test_the_example_holds_what_the_readme_says():
    command = [sys.executable, "scripts/rewards.py", "score", "examples/completions.jsonl", *EXACT, "--json"]
    result = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert len(result["rows"]) == 96 and result["total"]["groups"] == 12
    assert result["labels"]["labelled"] == 96 and result["labels"]["kinds"] == ["agent"]
    assert result["disagreements"], "an example without a disagreement teaches nothing"


def test_the_reason_of_a_wrapper_is_its_own_and_those_of_its_parts(score, tmp_path):
    (tmp_path / "mine.py").write_text(
        f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r})\nimport rewards as r\n"
        "strict = r.combine(r.correctness_reward, gate=r.format_reward, name='strict')\n"
        "short = r.with_length_penalty(r.correctness_reward, name='short')\n",
        encoding="utf-8",
    )
    result = score("--reward", "mine.strict", "--reward", "mine.short", "--json")
    assert result["rows"][0]["reasons"] == {"strict": "open (correct, ok)", "short": "correct"}
    assert result["rows"][1]["reasons"]["strict"].startswith(("gated (", "open ("))
    assert result["rows"][0]["extracted"] == {"strict": "7", "short": "7"}


def test_a_parameter_that_no_reward_takes_is_refused(score):
    done = score("--reward", "schema_reward", "--param", "formats=true", "--param=output_schema={}", expect=2)
    assert "--param formats: no reward takes it" in done.stderr and "make_schema_reward(formats=True)" in done.stderr


@pytest.mark.parametrize("reward", ["builtins.max", "sys.exit"])
def test_what_is_no_reward_gets_one_line(score, reward):
    assert "error: " in score("--reward", reward, expect=2).stderr


def test_more_input_that_is_refused(score):
    assert "a prompt must be text" in score(*EXACT, rows=[{**ROWS[0], "prompt": 5}], expect=2).stderr
    assert "--pass-above" in score(*EXACT, "--pass-above", "nan", expect=2).stderr


def test_full_shows_every_turn_with_its_calls(score):
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 3, "b": 4}}}
    turns = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "name": "add", "content": "7"},
        {"role": "assistant", "content": "<answer>7</answer>"},
    ]
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "3 + 4"}]
    shown = score(*EXACT, "--full", rows=[{"prompt": prompt, "completion": turns, "answer": 7}]).stdout
    for line in (
        "system: Be brief.",
        "user: 3 + 4",
        'assistant calls add({"a": 3, "b": 4})',
        "tool: 7",
        "assistant: <answer>7</answer>",
    ):
        assert line in shown
    assert "correctness_reward graded: 7" in shown


def readme_block(first_line: str) -> list[str]:
    """The lines of the README's text block that begins with `first_line`."""
    blocks = (ROOT / "README.md").read_text(encoding="utf-8").split("```text\n")[1:]
    (block,) = [block for block in blocks if block.startswith(first_line)]
    return block.split("```")[0].splitlines()


def printed_by(folder: Path, *words: str) -> list[str]:
    env = {**os.environ, "COLUMNS": "110"}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True)
    return [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]


def test_the_readme_quotes_real_output():
    """Every table line of the README's first output block is a line the command prints today."""
    readme = readme_block("$ python scripts/rewards.py score examples")
    printed = printed_by(ROOT, *readme[0].removeprefix("$ python ").split())
    quoted = [line for line in readme if line.startswith(("\u2502", "note:")) and line != "\u2502 \u2026"]
    assert len(quoted) > 15 and not [line for line in quoted if line not in printed]
    assert any(line in printed for line in readme if " labelled rows disagree with correctness_reward" in line)


def test_the_readmes_copier_gets_what_it_shows(tmp_path):
    """The block's files are written, its command is run, and its output is the block's, to the line."""
    lines, outputs, command = readme_block("$ cp scripts/*.py"), {}, None
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            outputs[command] = []
        else:
            outputs[command].append(line)
    for name in (script.name for script in (ROOT / "scripts").glob("*.py")):
        (tmp_path / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    for command, output in outputs.items():
        if command.startswith("cat "):
            (tmp_path / command.split()[1]).write_text("\n".join(output) + "\n", encoding="utf-8")
    (scoring,) = [command for command in outputs if command.startswith("python rewards.py score")]
    assert printed_by(tmp_path, *scoring.split()[1:]) == outputs[scoring]


def test_the_readmes_bad_reward_is_refused_as_shown(tmp_path):
    lines = readme_block("$ cat naive.py")
    for name in ("naive.py", "prompts.jsonl"):
        start = lines.index(f"$ cat {name}") + 1
        end = next(number for number in range(start, len(lines)) if lines[number].startswith("$ "))
        (tmp_path / name).write_text("\n".join(lines[start:end]) + "\n", encoding="utf-8")
    for script in (ROOT / "scripts").glob("*.py"):
        (tmp_path / script.name).write_bytes(script.read_bytes())
    command = next(line for line in lines if " lint " in line)
    printed = printed_by(tmp_path, *command.split()[2:])
    quoted = lines[lines.index(command) + 1 :]
    assert len(quoted) > 15 and not [line for line in quoted if line not in printed and line != "\u2502 \u2026"]


@pytest.mark.parametrize("script", ["preflight.py --config tests/data", "diagnose_run.py tests/data"])
def test_the_readme_shows_what_the_command_says(script, tmp_path):
    command, *output = readme_block(f"$ python scripts/{script}")
    words = [word.replace("mended.yaml", str(tmp_path / "mended.yaml")) for word in command.split()[2:]]
    said = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    real = said.stdout + said.stderr.replace(str(tmp_path / "mended.yaml"), "mended.yaml")
    shown = [line.rstrip("…").rstrip() for line in output if line.strip("…")]
    assert len(shown) > 5 and said.returncode == 1
    assert not [line for line in shown if line not in real], real
