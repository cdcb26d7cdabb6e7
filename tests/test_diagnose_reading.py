"""scripts/diagnose_run.py reading what broke it once: each input is handled, and a sound twin stays fine."""

import csv
import json
import os
import random
import threading
import time
from pathlib import Path

import diagnose_checks as c
import diagnose_run as d
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[1]
DEAD = {"reward": 0.0, "reward_std": 0.0, "frac_reward_zero_std": 1.0, "grad_norm": 0.0}


def row(step: int, **more) -> dict:
    return {"step": step, "reward": 0.1 + step / 100, "reward_std": 0.3, "frac_reward_zero_std": 0.1, "grad_norm": 0.5,
            "loss": 0.0, "entropy": 1.0, "completions/clipped_ratio": 0.0,
            "completions/mean_length": 100.0 + step % 3} | more  # fmt: skip


ROWS = [row(step) for step in range(1, 41)]


def state(folder: Path, rows=ROWS, old: float = 0, **more) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trainer_state.json"
    known = {"global_step": rows[-1]["step"], "log_history": rows, "max_steps": 40, "logging_steps": 1}
    d.write(path, json.dumps(known | more))
    os.utime(path, (time.time() - old,) * 2)
    return path


def generation(folder: Path, step: int, dead=False, old: float = 0, **columns) -> None:
    """Two groups of four; what is dead earns 0."""
    rewards = [0.0] * 8 if dead else [float((place + step) % 2) for place in range(8)]
    table = {"step": [step] * 8, "prompt": [f"question {step * 2 + place // 4}" for place in range(8)],
             "completion": [f"It is {step * 8 + place}." for place in range(8)], "acc": rewards,
             "advantage": [0.0 if dead else 2 * value - 1 for value in rewards]} | columns  # fmt: skip
    path = folder / "completions" / f"completions_{step:05d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(".part")
    pq.write_table(pa.table(table), part)
    part.replace(path)
    os.utime(path, (time.time() - old,) * 2)


def said(record: dict) -> str:
    return " / ".join(record["run"]["problems"])


def missing(record: dict) -> set[str]:
    return {one["id"] for one in record["not_measured"]}


def command(monkeypatch, *args) -> int:
    monkeypatch.setattr("sys.argv", ["diagnose_run.py", *map(str, args)])
    return d.main()


# ---- texts


@pytest.mark.parametrize("text", ["\n" * 100_000 + "1", "\nuser" + " " * 100_000 + "x", "\n \n\t" * 30_000])
def test_a_text_of_white_space_takes_no_time(text):
    begun = time.perf_counter()
    assert not c.goes_on(text)
    assert time.perf_counter() - begun < 2
    assert c.goes_on("4\n\n  user:\nand more") and c.goes_on("4\nuser \nmore") and not c.goes_on("the user: said")


def test_long_texts_take_seconds():
    words = [f"w{number}" for number in range(500)]
    chance = random.Random(0)
    texts = [" ".join(chance.choices(words, k=4000)) for _ in range(32)]
    begun = time.perf_counter()
    assert not any(c._shared(texts, [f"q{place // 8}" for place in range(32)]))
    assert time.perf_counter() - begun < 1
    same = [f"{' '.join(chance.choices(words, k=2000))} so the answer must surely be" for _ in range(8)]
    assert all(c._shared(same, [f"q{place // 2}" for place in range(8)]))  # the end is looked at


def test_parts_and_tool_calls_are_text_and_what_holds_none_is_not_measured(tmp_path):
    call = {"function": {"name": "submit", "arguments": '{"x": 1}'}}
    forms = {
        "parts": [{"role": "assistant", "content": [{"type": "text", "text": "It is N."}]}],
        "calls": [{"role": "assistant", "content": "", "tool_calls": [call]}],
        "empty": [{"role": "assistant", "content": ""}],
    }
    for name, form in forms.items():
        for step in range(1, 6):
            many = [json.loads(json.dumps(form).replace("N", str(step * 8 + place))) for place in range(8)]
            generation(tmp_path / name, step, completion=many)
    records = {name: d.diagnose(tmp_path / name) for name in forms}
    for name in ("parts", "calls"):
        assert "many-answers" not in missing(records[name]) and "holds text" not in said(records[name]), name
    copied = next(one for one in records["calls"]["findings"] if one["id"] == "duplicate-completions")
    assert copied["rows"][0]["completion"] == 'submit({"x": 1})'
    assert not [one for one in records["parts"]["findings"] if one["id"] == "duplicate-completions"]
    assert {"many-answers", "duplicate-completions"} <= missing(records["empty"])
    assert "5 completions files (the first completions_00001.parquet): no completion holds text" in said(
        records["empty"]
    )


def test_rewards_that_are_no_numbers_are_not_scored(tmp_path):
    for step in range(1, 6):
        generation(tmp_path / "words", step, acc=["high"] * 8)
        generation(tmp_path / "logged", step, acc=["high"] * 8)
        generation(tmp_path / "sound", step)
    named = ROWS[0] | {"rewards/acc/mean": 0.5, "rewards/acc/std": 0.5}
    state(tmp_path / "logged", [named, *ROWS[1:]])
    for name in ("words", "logged"):
        record = d.diagnose(tmp_path / name)
        assert "5 completions files (the first completions_00001.parquet) have no reward that can be read" in said(
            record
        )
        assert record["run"]["parquet_files"] == 0
    assert record["verdict"] == "ok"  # the log is measured
    assert d.diagnose(tmp_path / "words")["verdict"] == "not measured"
    sound = d.diagnose(tmp_path / "sound")
    assert sound["verdict"] == "ok" and sound["run"]["parquet_files"] == 5


# ---- settings and logs


@pytest.mark.parametrize("line", ["reward_weights: [x]", 'reward_weights: ["1.0"]', "reward_weights: [[1]]",
                                  "num_generations: -4", "num_generations: abc"])  # fmt: skip
def test_a_setting_of_another_kind_is_one_line(line, tmp_path):
    state(tmp_path)
    for step in range(1, 6):
        generation(tmp_path, step)
    (tmp_path / "grpo.yaml").write_text(line + "\n", encoding="utf-8")
    record = d.diagnose(tmp_path)
    name = line.partition(":")[0]
    assert sum(f"grpo.yaml: {name}" in problem for problem in record["run"]["problems"]) == 1
    assert not [one for one in record["not_measured"] if "failed itself" in one["why"]] and record["verdict"] == "ok"
    (tmp_path / "grpo.yaml").write_text("reward_weights: [1, 0.5]\nnum_generations: 4\n", encoding="utf-8")
    assert not d.diagnose(tmp_path)["run"]["problems"]


def panel(path: Path, *runs: str) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        names = ("reward", "reward_std", "frac_reward_zero_std", "grad_norm")
        out.writerow(
            ["Step", *(f"{run} - train/{name}{end}" for run in runs for name in names for end in ("", "__MIN"))]
        )
        for one in ROWS:
            values = [(one if run == "live" else DEAD)[name] for run in runs for name in names for _ in range(2)]
            out.writerow([one["step"], *values])
    return path


def test_two_runs_in_one_export_are_a_question(tmp_path, monkeypatch, capsys):
    labelled = tmp_path / "trackio.jsonl"
    labelled.write_text("".join(json.dumps({"run": run, **one}) + "\n" for run in ("live", "dead") for one in (
        ROWS if run == "live" else [one | DEAD for one in ROWS])), encoding="utf-8")  # fmt: skip
    for path in (panel(tmp_path / "two.csv", "dead", "live"), labelled):
        assert command(monkeypatch, path) == 2
        err = capsys.readouterr().err
        assert "which run? --run NAME" in err and "dead" in err and "live" in err and err.count("\n") == 1
        assert command(monkeypatch, path, "--run", "other") == 2 and "no run other" in capsys.readouterr().err
        assert d.diagnose(path, choice="live")["verdict"] == "ok"
        assert d.diagnose(path, choice="dead")["verdict"] == "dead"
    assert d.diagnose(panel(tmp_path / "one.csv", "live"))["verdict"] == "ok"
    with pytest.raises(d.Usage, match="--run is for an export"):
        d.diagnose(state(tmp_path / "own"), choice="live")
    (tmp_path / "twice.csv").write_text("step,reward,train/reward\n1,0,1\n", encoding="utf-8")
    with pytest.raises(d.Usage, match="two columns are reward: reward and train/reward"):
        d.diagnose(tmp_path / "twice.csv")


@pytest.mark.parametrize("form", ["jsonl", "null.jsonl", "list.json", "csv"])
@pytest.mark.parametrize("first", ["table", "training"])
def test_tables_in_a_history_of_wandb_are_no_rows_and_its_counter_is_no_step(form, first, tmp_path):
    rows = []
    for place, one in enumerate(ROWS):
        train = {f"train/{name}": value for name, value in one.items() if name != "step"}
        pair = [{"_step": 2 * place, "_timestamp": 1.0, "completions": {"_type": "table-file"}},
                {"_step": 2 * place + 1, "train/global_step": one["step"], **train}]  # fmt: skip
        rows += pair if first == "table" else pair[::-1]
    keys = list(rows[0] | rows[1])
    path = tmp_path / f"h.{form}"
    if form == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.DictWriter(file, keys)
            out.writeheader()
            out.writerows(rows)
    else:
        full = rows if form == "jsonl" else [{key: one.get(key) for key in keys} for one in rows]
        path.write_text(json.dumps(full) if form == "list.json" else "\n".join(map(json.dumps, full)), encoding="utf-8")
    record = d.diagnose(path)
    assert record["run"]["rows"] == 40 and record["run"]["steps"] == 40 and record["verdict"] == "ok"
    assert not record["run"]["problems"] and "several-runs" not in {one["id"] for one in record["findings"]}


def test_of_many_metrics_those_of_trl_are_kept(tmp_path):
    probes = {f"probe/{number}": 0.1 for number in range(600)}
    state(tmp_path, [{**probes, **one, **DEAD} for one in ROWS])
    record = d.diagnose(tmp_path)
    assert record["verdict"] == "dead" and "100 metrics above 500 were left out" in said(record)
    state(tmp_path, [{**dict(list(probes.items())[:400]), **one} for one in ROWS])
    record = d.diagnose(tmp_path)
    assert record["verdict"] == "ok" and not said(record)


# ---- a folder that is used again


@pytest.mark.parametrize("plan", [40, 1000])
def test_the_log_of_an_earlier_run_does_not_count(plan, tmp_path):
    state(tmp_path, old=90_000, max_steps=plan)
    for step in range(1, 41, 5):
        generation(tmp_path, step, old=90_000)
    assert d.diagnose(tmp_path)["verdict"] == "ok"
    for step in range(1, 15):
        generation(tmp_path, step, dead=True)
    record = d.diagnose(tmp_path)
    assert record["verdict"] == "dead" and record["run"]["state"] == "running" and record["run"]["rows"] == 0
    assert "of an earlier run" in said(record) and record["run"]["parquet_files"] == 14


def test_a_state_that_is_only_behind_counts(tmp_path):
    state(tmp_path, old=900, max_steps=1000)
    for step in range(1, 51):
        generation(tmp_path, step, old=940 - step if step <= 40 else 0)
    record = d.diagnose(tmp_path)
    assert record["run"]["rows"] == 40 and record["run"]["parquet_files"] == 50 and not said(record)
    state(tmp_path, old=900)  # it had ended, and goes on
    record = d.diagnose(tmp_path)
    assert record["run"]["state"] == "running" and record["run"]["rows"] == 40
    for step in range(41, 51):
        (tmp_path / "completions" / f"completions_{step:05d}.parquet").unlink()
    assert d.diagnose(tmp_path)["run"]["state"] == "finished"


# ---- watch


def watching(path: Path, *extra: str):
    args = d._parser().parse_args([str(path), "--watch", "0.02", *extra])
    args.rewards = []
    lines: list[str] = []
    result: dict = {}

    def go():
        try:
            result["code"] = d.watch(args, lambda text, flush=True: lines.append(text))
        except d.Usage as error:
            result["usage"] = str(error)

    thread = threading.Thread(target=go)
    thread.start()
    return thread, lines, result


def wait_for(lines: list[str], count: int) -> None:
    until = time.monotonic() + 10
    while len(lines) < count and time.monotonic() < until:
        time.sleep(0.01)


def test_watch_counts_patience_anew_for_a_new_run(tmp_path):
    dead = [one | DEAD for one in ROWS]
    state(tmp_path, dead[:20], max_steps=999)
    thread, lines, result = watching(tmp_path, "--patience", "10", "--give-up", "1.5")
    wait_for(lines, 1)
    time.sleep(0.1)
    state(tmp_path, [one | {"reward": 0.25} for one in dead[:8]], max_steps=999)  # another run, dead as well
    time.sleep(0.3)
    state(tmp_path, [one | {"reward": 0.25} for one in dead[:15]], max_steps=999)  # 7 generations on
    thread.join(20)
    assert result == {"code": 3} and "stop" not in " ".join(lines)


def test_watch_does_not_end_with_the_run_before(tmp_path):
    state(tmp_path, old=90_000)
    generation(tmp_path, 1, dead=True)
    thread, lines, result = watching(tmp_path, "--patience", "4", "--give-up", "5")
    for step in range(2, 30):
        if not thread.is_alive():
            break
        generation(tmp_path, step, dead=True)
        time.sleep(0.05)
    thread.join(20)
    assert result == {"code": 1} and "stood for 4 generations" in lines[-1]


def test_watch_looks_again_at_a_file_that_is_rewritten(tmp_path):
    path = state(tmp_path, max_steps=999)
    text = path.read_text(encoding="utf-8")
    thread, lines, result = watching(path, "--give-up", "5")
    wait_for(lines, 1)
    path.write_text("", encoding="utf-8")
    time.sleep(0.2)
    assert thread.is_alive()
    path.write_text(text.replace('"max_steps": 999', '"max_steps": 40'), encoding="utf-8")
    thread.join(20)
    assert result == {"code": 0} and "has ended, ok" in lines[-1]
    path.write_text("no log", encoding="utf-8")  # never was one
    thread, lines, result = watching(path, "--give-up", "60")
    thread.join(5)
    assert "neither JSON nor CSV" in result["usage"]


@pytest.mark.parametrize("value", ["inf", "1e300", "nan", "0"])
def test_seconds_that_cannot_be_waited_are_refused(value, monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        command(monkeypatch, tmp_path, "--watch", value)
    assert stop.value.code == 2 and "a day (86400) at most" in capsys.readouterr().err


# ---- what is written and shown


def test_only_its_own_files_are_written_over(tmp_path, monkeypatch, capsys):
    run = state(tmp_path / "run")
    page, record, foreign, other = (tmp_path / name for name in ("p.html", "r.json", "my.html", "other.json"))
    for _ in range(2):
        assert command(monkeypatch, run, "--html", page, "--record", record) == 0
    foreign.write_text("<html><head><title>My thesis</title></head></html>", encoding="utf-8")
    other.write_text('{"schema_version": 1, "findings": "of another tool"}', encoding="utf-8")
    for option, path in (("--html", foreign), ("--record", other)):
        before = path.read_bytes()
        capsys.readouterr()
        assert command(monkeypatch, run, option, path) == 2 and path.read_bytes() == before
        assert "was not written by this command" in capsys.readouterr().err
    assert command(monkeypatch, run, "--html", page, "--record", tmp_path / "run/../p.html") == 2
    assert "name one file" in capsys.readouterr().err


def test_nothing_that_drives_a_terminal_is_shown(tmp_path, monkeypatch, capsys):
    bad = "\x1b[2J\x9b31m\u202eevil\u2066\x07"
    run = tmp_path / f"run{bad}"
    state(run, [one | DEAD | {f"rewards/{bad}/mean": 0.0, f"rewards/{bad}/std": 0.0} for one in ROWS])
    for step in range(1, 6):
        generation(run, step, dead=True, completion=[bad] * 8, prompt=[bad] * 8)
    shown = []
    for extra in ([], ["--full"], ["--watch", "1"]):
        assert command(monkeypatch, run, *extra) == 1
        shown.append(capsys.readouterr().out)
    assert command(monkeypatch, run / bad) == 2
    shown.append(capsys.readouterr().err)
    with pytest.raises(SystemExit):
        command(monkeypatch, run, bad)
    shown.append(capsys.readouterr().err)
    for text in shown:
        assert text and not [mark for mark in text if not (mark.isprintable() or mark == "\n")]
    assert "constant-reward" in shown[0] and "evil" in shown[1]


def test_help_says_what_is_scanned_and_how_to_stop_a_job():
    text = d._parser().format_help()
    assert f"shared words in {c.SCANNED} of" in text and str(d.TEXT_MOST) in text
    assert "--watch; [ $? = 1 ] && scancel" in text and "3 = nothing was" in text
