"""scripts/calibrate_judge.py against a real HTTP server whose judge errs at known rates, and textbook figures."""

import contextlib
import hashlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import calibrate_judge as cal
import judge
import pytest
import rewards
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[1]
RUBRIC = "The response is right. Say pass or fail."
MODEL = "judge-2026-08-06"
JUDGE = ["--model", MODEL, "--judge-family", "north", "--policy-family", "south"]
HOSTILE = "\x1b[31mred\x1b]0;title\x07 \x00 \ud800 \u202e\r\n"


# --- a server that speaks OpenAI's protocol, with a judge whose errors are known --------------------------------------


def chance(*parts) -> float:
    """A number in [0, 1) that only these parts decide."""
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:12], 16) / 16**12


def known(tpr, tnr, salt=""):
    """A judge with these error rates. The truth stands in the response (good or bad), the error hangs on its first
    line, so neither filler nor order changes a verdict."""

    def verdict(asked):
        first = asked["response"].partition("\n")[0]
        good = first.startswith("good")
        errs = chance("err", salt, asked["prompt"], first) >= (tpr if good else tnr)
        return good != errs

    return verdict


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64

    def __init__(self):
        self.asked, self.verdict, self.status, self.wait, self.lock = [], known(0.99, 0.99), 200, 0.0, threading.Lock()
        self.now = self.most = 0
        self.model, self.finish = None, "stop"
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request, client_address):
        """A client that was killed leaves a broken connection, which is no news."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes: 40 ms a request otherwise

    def log_message(self, *args):
        pass

    def do_POST(self):
        server, request = self.server, json.loads(self.rfile.read(int(self.headers["content-length"])))
        system, user = (message["content"] for message in request["messages"])
        asked = {**json.loads(user), "fields": list(json.loads(user)), "system": system, "request": request}
        with server.lock:
            server.asked.append(asked)
            server.now += 1
            server.most = max(server.most, server.now)
        time.sleep(server.wait)
        with server.lock:
            server.now -= 1
        found = server.verdict(asked)
        reply = found if isinstance(found, str) else f"Because.\nverdict: {'pass' if found else 'fail'}"
        choices = [{"index": 0, "finish_reason": server.finish, "message": {"role": "assistant", "content": reply}}]
        model = server.model or request["model"]
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": model, "choices": choices}
        data = json.dumps(body if server.status == 200 else {"error": {"message": "as told \x1b[31m"}}).encode()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(server.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)


@pytest.fixture
def server():
    server = Server()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    server.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield server
    server.shutdown()
    server.server_close()


def rows_of(prompts, each=1, kind="human", good=lambda n: n % 2 == 0, **more):
    return [
        {"prompt": f"Question {n}?", "completion": f"{'good' if good(n) else 'bad'} answer {n} {k}", "kind": kind,
         "label": "pass" if good(n) else "fail", "labeller": "kim", **more}
        for n in range(prompts) for k in range(each)
    ]  # fmt: skip


class Bench:
    """The command in a folder of its own."""

    def __init__(self, folder, server, capsys):
        self.folder, self.server, self.capsys = folder, server, capsys
        (folder / "rubric.txt").write_text(RUBRIC + "\n")
        self.rubric = folder / "rubric.txt"

    def path(self, name):
        return self.folder / name

    def write(self, name, rows):
        self.path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(self.path(name))

    def __call__(self, command, *options, judge=JUDGE):
        """Exit code, what was printed on stdout, on stderr."""
        if command != "split":
            options = ["--rubric", str(self.rubric), "--base-url", self.server.url, "--attempts", "1", *judge, *options]
        code = cal.main([command, *options, "--record", str(self.path("calibration.json"))])
        out, err = self.capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    def json(self, command, *options, **how):
        code, out, _err = self(command, *options, "--json", **how)
        found = json.loads(out)
        assert found["exit_code"] == code and found["command"] == command
        return found

    def split(self, rows):
        return self.json("split", self.write("given.jsonl", rows))

    @property
    def record(self):
        return json.loads(self.path("calibration.json").read_text())

    @property
    def openings(self):
        path = self.path("sealed_openings.jsonl")
        return path.read_text().splitlines() if path.exists() else []

    def ids(self, split):
        return {one.id for one in cal.State(self.path("calibration.json")).of(split)}

    def texts(self, split):
        return {one.response for one in cal.State(self.path("calibration.json")).of(split)}


@pytest.fixture
def bench(tmp_path, server, capsys, monkeypatch):
    # One split for all runs of this suite: an interval of 95 % misses the truth in one split of twenty.
    monkeypatch.setattr(cal.secrets, "token_hex", lambda size: "5a17")
    return Bench(tmp_path, server, capsys)


# --- statistics beside the textbook -----------------------------------------------------------------------------------


def answers(*verdicts):
    return [cal.Answer({True: "pass", False: "fail", None: "no_verdict"}[verdict], "", "") for verdict in verdicts]


def test_wilson_is_the_textbooks():
    found = cal.interval(8, 10)
    assert (round(found["low"], 4), round(found["high"], 4)) == (0.4902, 0.9433)
    # Newcombe 1998, Statistics in Medicine 17:857, table I: 81/263 and 0/20
    assert [round(cal.interval(81, 263)[key], 4) for key in ("low", "high")] == [0.2553, 0.3662]
    assert [round(cal.interval(0, 20)[key], 4) for key in ("low", "high")] == [0.0, 0.1611]
    assert cal.interval(0, 0)["value"] is None


def test_rates_and_kappa_of_a_known_table():
    # The usual worked example of kappa: 20 both yes, 15 both no, 5 and 10 apart: 0.4
    labels = [True] * 25 + [False] * 25
    found = cal.rates(labels, answers(*[True] * 20, *[False] * 5, *[True] * 10, *[False] * 15))
    assert found["kappa"] == pytest.approx(0.4)
    assert found["tpr"]["value"] == 0.8 and found["tnr"]["value"] == 0.6 and found["status"] == "measured"
    assert found["confusion"] == {"true_pass": 20, "false_fail": 5, "false_pass": 10, "true_fail": 15}
    silent = cal.rates([True, False], answers(None, None))
    assert silent["status"] == cal.NOT_MEASURED and silent["abstention"]["value"] == 1.0 and silent["kappa"] is None


def test_bias_is_held_against_a_control():
    assert cal.biased([True] * 7 + [False] * 23, [False] * 30, 0.05 / 3)["p_value"] == pytest.approx(2 * 0.5**7)
    assert cal.biased([True] * 7 + [False] * 23, [False] * 30, 0.05 / 3)["status"] == "found"
    wavering = [True] * 10 + [False] * 20
    assert cal.biased(wavering, wavering[::-1], 0.05 / 3)["status"] == "no sign"  # it flips as often without a change
    assert cal.biased([False] * 30, [True] * 30, 0.05 / 3)["status"] == "no sign"  # fewer flips are no bias
    assert cal.biased([True] * 19, [False] * 19, 0.05 / 3)["status"] == cal.NOT_MEASURED


def test_same_again():
    assert cal.same_again([True] * 100, [True] * 99 + [None], 0.05)["status"] == "stable"
    assert cal.same_again([True] * 100, [True] * 85 + [False] * 15, 0.05)["status"] == "drifted"
    assert cal.same_again([True] * 19, [False] * 19, 0.05)["status"] == cal.NOT_MEASURED
    assert cal.same_again([], [], 0.05)["status"] == cal.NOT_MEASURED


def test_the_corrected_rate_covers_the_truth_where_the_naive_one_does_not():
    """200 worlds with a true rate of 0.2 and a judge of TPR 0.9, TNR 0.8: intervals must hold 0.2 about 95 % of the time."""
    import numpy

    generator, corrected, naive = numpy.random.default_rng(7), 0, 0
    for world in range(200):
        counts = [(int(generator.binomial(60, rate)), 60) for rate in (0.9, 0.8)]
        truth = generator.random(400) < 0.2
        verdicts = numpy.where(truth, generator.random(400) < 0.9, generator.random(400) < 0.2)
        found = cal.corrected(*counts, [[bool(verdict)] for verdict in verdicts], seed=world)
        corrected += found["low"] <= 0.2 <= found["high"]
        naive += found["naive"]["low"] <= 0.2 <= found["naive"]["high"]
    assert 0.91 <= corrected / 200 <= 0.99 and naive / 200 < 0.05


def test_completions_of_one_prompt_are_not_taken_for_many():
    alone = cal.corrected((95, 100), (95, 100), [[True]] * 160 + [[False]] * 160)
    together = cal.corrected((95, 100), (95, 100), [[True] * 8] * 20 + [[False] * 8] * 20)
    assert together["value"] == alone["value"] == pytest.approx(0.5)
    assert together["high"] - together["low"] > 2 * (alone["high"] - alone["low"])
    assert "prompts resampled" in together["method"]


@pytest.mark.parametrize(("tpr", "tnr"), [(50, 50), (100, 0), (0, 100), (57, 55)])
def test_a_coin_identifies_nothing(tpr, tnr):
    found = cal.corrected((tpr, 100), (tnr, 100), [[True]] * 30 + [[False]] * 30)
    assert found["status"] == "not identifiable" and found["value"] is None


def test_estimates_outside_are_clipped_and_say_so():
    found = cal.corrected((90, 100), (80, 100), [[False]] * 100)
    assert found["value"] == 0.0 and found["clipped"] and found["low"] == 0.0
    perfect = cal.corrected((40, 40), (40, 40), [[True]] * 50 + [[False]] * 50)
    assert not perfect["clipped"] and perfect["high"] - perfect["low"] > 0.15  # no error seen is not: no error


# --- the split --------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec=None), max_size=20)


@given(st.lists(st.tuples(texts, texts), max_size=20), st.lists(st.tuples(texts, texts), max_size=20), texts)
@settings(max_examples=60, deadline=None)
def test_no_example_moves_when_data_grows(first, more, salt):
    def ledger(pairs):
        return [
            {
                "id": cal.digest(p, r),
                "prompt": p,
                "response": r,
                "label": "pass",
                "kind": "human",
                "labeller": "k",
                "time": "",
            }
            for p, r in pairs
        ]

    before = {one.id: one.split for one in cal.examples_of(ledger(first), salt, cal.SHARES)}
    after = {one.id: one.split for one in cal.examples_of(ledger(more + first), salt, cal.SHARES)}
    assert before.items() <= after.items()
    by_prompt = {}
    for one in cal.examples_of(ledger(more + first), salt, cal.SHARES):
        if cal._normal(one.prompt):
            assert by_prompt.setdefault(cal._normal(one.prompt), one.split) == one.split


def test_shares_are_kept_and_salts_differ():
    splits = [cal.split_of("salt", f"prompt {n}", "r") for n in range(5000)]
    assert [round(splits.count(name) / 5000, 1) for name in cal.SPLITS] == [0.2, 0.4, 0.4]
    assert splits != [cal.split_of("other", f"prompt {n}", "r") for n in range(5000)]
    assert len({cal.split_of("salt", "", f"response {n}") for n in range(50)}) == 3  # no prompt: the response decides


def test_split_shows_no_content_asks_nobody_and_only_appends(bench, server):
    rows = rows_of(60)
    first = bench.split(rows)
    ledger = bench.path("label_ledger.jsonl").read_bytes()
    code, out, err = bench("split", bench.write("again.jsonl", rows))
    assert code == 0 and "0 labels added" in out and bench.path("label_ledger.jsonl").read_bytes() == ledger
    assert "Question" not in out + err + json.dumps(first) and "answer" not in json.dumps(first["examples"])
    grown = bench.split(rows_of(90))
    assert {e["id"]: e["split"] for e in first["examples"]}.items() <= {
        e["id"]: e["split"] for e in grown["examples"]
    }.items()
    assert grown["added"] == 30 and bench.path("label_ledger.jsonl").read_bytes().startswith(ledger)
    assert server.asked == []
    assert bench.record["verdict"] == cal.NOT_MEASURED and bench.record["salt"]


def test_a_label_is_revised_by_appending(bench):
    bench.split(rows_of(20))
    before = bench.path("label_ledger.jsonl").read_bytes()
    changed = [{**rows_of(1)[0], "label": "fail"}]
    _code, _out, err = bench("split", bench.write("new.jsonl", changed))
    assert "1 labels take the place of earlier ones" in err and bench.path(
        "label_ledger.jsonl"
    ).read_bytes().startswith(before)
    (one,) = [e for e in cal.State(bench.path("calibration.json")).examples if e.prompt == "Question 0?"]
    assert one.label is False and one.revised
    bench("split", bench.write("new.jsonl", [{**rows_of(1)[0], "labeller": "lee"}]))
    (one,) = [e for e in cal.State(bench.path("calibration.json")).examples if e.prompt == "Question 0?"]
    assert one.label is None  # two people disagree: nobody decides for them


def test_what_was_recorded_must_still_be_there(bench):
    bench.split(rows_of(200))
    bench("open")
    ledger = bench.path("label_ledger.jsonl")
    whole = ledger.read_bytes()
    ledger.write_bytes(b"\n".join(whole.split(b"\n")[:-5]) + b"\n")
    code, _, err = bench("run")
    assert code == 2 and "restore it" in err
    ledger.write_bytes(whole)
    bench.path("sealed_openings.jsonl").unlink()
    code, _, err = bench("open")
    assert code == 2 and "holds 0 openings" in err
    ledger.write_text("{}\n")
    assert "is no label ledger" in bench("run")[2]
    bench.path("calibration.json").write_text("[]")
    assert "is no record" in bench("run")[2]


# --- error rates, with a judge whose rates are known ------------------------------------------------------------------


def test_the_main_job(bench, server):
    server.verdict = known(0.97, 0.93)
    bench.split(rows_of(400))
    ran = bench.json("run")
    sealed_texts = bench.texts("test")
    assert {asked["response"] for asked in server.asked} == bench.texts("train") | bench.texts("dev")
    for name in ("train", "dev"):
        measured = ran["splits"][name]
        assert measured["tpr"]["low"] <= 0.97 <= measured["tpr"]["high"]
        assert measured["tnr"]["low"] <= 0.93 <= measured["tnr"]["high"]
    assert not {row["completion"] for row in ran["rows"]} & sealed_texts and bench.openings == []
    wrong = {row["id"] for row in ran["rows"] if row["label"] != row["judge"]}
    truly_wrong = {
        row["id"]
        for row in ran["rows"]
        if server.verdict({"prompt": row["prompt"], "response": row["completion"]}) != (row["label"] == "pass")
    }
    assert wrong == truly_wrong and wrong
    code, out, _ = bench("run")
    assert f"{len(wrong)} of {len(ran['rows'])} disagree" in out and code == 0

    server.asked.clear()
    opened = bench.json("open")
    assert {asked["response"] for asked in server.asked} == sealed_texts
    sealed = opened["sealed"]
    assert opened["verdict"] == "calibrated" and opened["exit_code"] == 0
    assert (
        sealed["tpr"]["low"] <= 0.97 <= sealed["tpr"]["high"] and sealed["tnr"]["low"] <= 0.93 <= sealed["tnr"]["high"]
    )
    record = bench.record
    assert record["verdict"] == "calibrated" and record["openings"]["count"] == 1 and record["openings"]["last"]
    assert (
        record["judge"]["model"] == MODEL
        and record["judge"]["family"] == "north"
        and record["policy_family"] == "south"
    )
    assert record["splits"]["test"]["kinds"]["human"]["pass"] == sealed["tpr"]["n"]
    assert set(record["versions"]) >= {"python", "scipy", "statsmodels"} and record["labels"]["sha256"]
    assert not list(bench.folder.glob(".calibration*"))

    # What the judge says of 600 unlabelled answers, 15 % of them good
    more = [{key: row[key] for key in ("prompt", "completion")} for row in rows_of(600, good=lambda n: n % 20 < 3)]
    rate = bench.json("rate", bench.write("more.jsonl", more))["rate"]
    assert rate["low"] <= 0.15 <= rate["high"] and abs(rate["value"] - 0.15) < abs(rate["naive"]["value"] - 0.15)
    assert not rate["naive"]["low"] <= 0.15 <= rate["naive"]["high"]


def test_a_poor_judge_is_not_calibrated(bench, server):
    server.verdict = known(0.97, 0.7)
    bench.split(rows_of(300))
    found = bench.json("open")
    assert found["exit_code"] == 1 and found["verdict"] == "not calibrated" and "TNR is" in found["reasons"][0]
    server.verdict = lambda asked: True  # agreement of a half, and every failure paid
    bench.rubric.write_text("another")
    found = bench.json("open")
    assert (
        found["verdict"] == "not calibrated"
        and found["sealed"]["tpr"]["value"] == 1.0
        and found["sealed"]["tnr"]["value"] == 0.0
    )
    found = bench.json("rate", bench.write("more.jsonl", rows_of(50)))
    assert found["status"] == "not identifiable" and found["exit_code"] == 1


def test_concurrency_is_bounded_and_the_question_is_the_rewards(bench, server):
    server.wait = 0.02
    bench.split(rows_of(60))
    bench("run", "--concurrency", "3", "--max-tokens", "50")
    assert server.most == 3
    client = judge.OpenAIJudge(MODEL, base_url=server.url, max_tokens=50)
    reward = rewards.make_rubric_judge_reward(client, RUBRIC)
    one = server.asked[0]
    reward(prompts=[one["prompt"]], completions=[one["response"]])
    assert server.asked[-1]["request"] == one["request"]


# --- the cache --------------------------------------------------------------------------------------------------------


def test_nothing_is_asked_twice(bench, server):
    bench.split(rows_of(40))
    bench("run")
    asked = len(server.asked)
    assert asked == len({one["response"] for one in server.asked})
    bench("run")
    assert len(server.asked) == asked
    bench.rubric.write_text("Another criterion.")
    bench("run")
    assert len(server.asked) == 2 * asked  # another question
    bench("run", "--model-revision", "abcdef1")
    assert len(server.asked) == 3 * asked


def test_a_killed_run_goes_on_where_it_stopped(bench, server):
    bench.split(rows_of(120))
    server.wait = 0.05
    command = [sys.executable, str(ROOT / "scripts/calibrate_judge.py"), "run", *JUDGE, "--rubric", str(bench.rubric),
               "--base-url", server.url, "--concurrency", "2", "--record", str(bench.path("calibration.json"))]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    cache = bench.path("judge_cache.jsonl")
    for _ in range(1000):
        if cache.exists() and cache.read_bytes().count(b"\n") >= 10:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stderr.close()
    time.sleep(0.2)
    kept = cache.read_bytes()
    complete = kept.count(b"\n")
    assert 10 <= complete < 70
    cache.write_bytes(kept + b'{"key": "torn')  # what a kill in the middle of a write leaves
    server.wait = 0.0
    server.asked.clear()
    found = bench.json("run")
    assert found["exit_code"] == 0 and len(server.asked) == len(found["rows"]) - complete
    server.asked.clear()
    bench("run")
    assert server.asked == []


# --- the sealed test --------------------------------------------------------------------------------------------------


def test_only_open_sends_the_sealed_test(bench, server):
    bench.split(rows_of(160))
    sealed = bench.texts("test")
    bench("run")
    bench("probe")
    bench("recheck")
    sent = {asked["response"].strip() for asked in server.asked}
    assert len(sent) > 80 and not [text for text in sent if any(text.startswith(one) for one in sealed)]
    assert bench.openings == []


def test_openings_are_recorded_before_the_judge_is_asked(bench, server):
    bench.split(rows_of(200))
    server.status = 401
    code, _, err = bench("open")
    assert code == 2 and "401" in err and "\x1b" not in err
    assert (
        len(bench.openings) == 1
        and bench.record["openings"]["count"] == 1
        and bench.record["verdict"] == cal.NOT_MEASURED
    )
    server.status = 500
    found = bench.json("open")
    assert found["exit_code"] == 1 and found["verdict"] == cal.NOT_MEASURED and "got no answer" in found["reasons"][0]
    server.status = 200
    first_two = bench.openings
    code, _out, err = bench("open")
    assert code == 0 and "opened 3 x, with 1 draw of rubric" in err and bench.openings[:2] == first_two
    line = json.loads(bench.openings[2])
    assert line["number"] == 3 and line["rubric_sha256"] == judge.rubric_sha256(RUBRIC) and line["model"] == MODEL


def test_another_rubric_on_the_sealed_test_is_warned_about_and_widens(bench, server):
    bench.split(rows_of(200))
    narrow = bench.json("open")["sealed"]["tpr"]
    bench.rubric.write_text("The response is quite right.")
    _code, _, err = bench("open")
    assert "no longer blind" in err and "97.5%" in err
    wide = bench.record["splits"]["test"]["measured"]["tpr"]
    assert wide["count"] == narrow["count"] and wide["low"] < narrow["low"]
    assert bench.record["openings"] == {**bench.record["openings"], "count": 2, "judges": 2}
    with bench.path("sealed_openings.jsonl").open("a") as file:
        file.write('{"torn')
    bench("open")
    assert bench.record["openings"]["count"] == 4 and bench.record["openings"]["judges"] == 3  # a torn line was a look


def test_an_opening_that_can_decide_nothing_is_not_spent(bench, server):
    bench.split(rows_of(40))
    found = bench.json("open")
    assert found["exit_code"] == 1 and "not opened" in found["reasons"][0] and found["sealed"] is None
    assert bench.openings == [] and server.asked == []
    assert bench.json("open", "--min-each", "3")["verdict"] == "not calibrated"  # too few for a low end of 0.8


def test_labels_revised_after_an_opening_are_told(bench):
    bench.split(rows_of(200))
    bench("open")
    assert bench.record["verdict"] == "calibrated"
    (row,) = [row for row in rows_of(200) if row["completion"] == sorted(bench.texts("test"))[0]]
    bench("split", bench.write("new.jsonl", [{**row, "label": "fail" if row["label"] == "pass" else "pass"}]))
    assert bench.record["verdict"] == cal.NOT_MEASURED and "1 labels of the sealed" in bench.record["reasons"][0]
    assert "1 labels of the sealed test were revised" in bench("open")[2]
    assert bench.record["splits"]["test"]["measured"]["labels_revised"] == 1


def test_a_rubric_that_quotes_the_sealed_test_is_refused(bench):
    rows = [{**row, "completion": row["completion"] + " and some more words to be long enough"} for row in rows_of(200)]
    bench.split(rows)
    quote = next(iter(bench.texts("test")))
    bench.rubric.write_text(f"Right, as in: {quote.upper()}")
    code, out, err = bench("run")
    assert code == 2 and "quotes an example of the sealed test" in err and quote not in out + err
    bench.rubric.write_text(f"Right, as in: {next(iter(bench.texts('dev')))}")
    assert "quotes 1 examples of dev" in bench("run")[2]
    bench.rubric.write_text(f"Right, as in: {next(iter(bench.texts('train')))}")
    assert "quotes" not in bench("run")[2]


# --- which judge ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["judge-2024-08-06", "judge-20240806", "judge@sha256:" + "a" * 64, "org/judge@1f3c9ab", "judge-0613", "judge-1106-preview", "judge-001"])  # fmt: skip
def test_snapshots(model):
    assert cal.is_pinned(model)


ALIASES = ["judge", "judge-latest", "judge-2024-08-06-latest", "latest", "judge-4", "judge-v2", "judge-70b", "org/judge-8b-instruct", "judge-2024-13-41", "judge@main", "judge-latest-001", "latest-2024-08-06", "embed-1024", "ctx-0512", "judge@decaded"]  # fmt: skip


@pytest.mark.parametrize("model", ALIASES)
def test_aliases_are_refused(bench, server, model):
    bench.split(rows_of(20))
    code, out, err = bench("run", judge=["--model", model, *JUDGE[2:]])
    assert code == 2 and "--model-revision" in err and err.count("\n") == 1 and out == "" and server.asked == []


def test_a_served_model_is_pinned_by_its_revision(bench):
    bench.split(rows_of(40))
    mine = ["--model", "org/judge-8b", "--model-revision", "1F3C9AB", *JUDGE[2:]]
    assert bench("run", judge=mine)[0] == 0 and bench.record["judge"]["revision"] == "1F3C9AB"
    assert bench("run", judge=[])[0] == 0  # the record knows
    code, _, err = bench("run", judge=["--model", "other", *JUDGE[2:]])
    assert code == 2 and "'other' may be another model tomorrow" in err  # a revision is not handed on to another model
    assert "hex digits" in bench("run", judge=[*mine[:2], "--model-revision", "main", *JUDGE[2:]])[2]


@pytest.mark.parametrize(
    ("families", "says"),
    [(("North", "north "), "both of the family"), (("north", None), "--policy-family"), ((None, "south"), "--judge-family"), (("north", " "), "--policy-family")],
)  # fmt: skip
def test_families(bench, server, families, says):
    bench.split(rows_of(20))
    flags = [
        part for flag, name in zip(("--judge-family", "--policy-family"), families) if name for part in (flag, name)
    ]
    code, out, err = bench("run", judge=["--model", MODEL, *flags])
    assert code == 2 and says in err and err.count("\n") == 1 and out == "" and server.asked == []


def test_a_name_that_belies_the_declared_family_is_noted(bench):
    bench.split(rows_of(20))
    assert "is it truly of another?" in bench("run", judge=["--model", "south-judge-2026-08-06", *JUDGE[2:]])[2]


# --- whose labels count -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["agent", "synthetic"])
def test_labels_that_are_no_persons_never_calibrate(bench, server, kind):
    server.verdict = known(1, 1)
    bench.split(rows_of(300, kind=kind))
    code, out, err = bench("run")
    assert code == 1 and "advisory" in err and "no human labels" in err and "advisory labels: TPR 1.000" in out
    for options in ((), ("--min-each", "1")):
        found = bench.json("open", *options)
        assert found["verdict"] == cal.NOT_MEASURED and found["exit_code"] == 1 and found["sealed"] is None
    assert bench.record["verdict"] == cal.NOT_MEASURED and bench.openings == []


def test_a_persons_label_hides_an_agents_and_person_is_human(bench, server):
    server.verdict = known(1, 1)
    rows = rows_of(200, kind="person")
    lies = [
        {**row, "kind": "agent", "labeller": "bot", "label": {"pass": "fail", "fail": "pass"}[row["label"]]}
        for row in rows
    ]
    bench.split(lies + rows)
    found = bench.json("open")
    assert (
        found["verdict"] == "calibrated"
        and found["sealed"]["tpr"]["value"] == 1.0
        and found["sealed"]["advisory"] is None
    )


def test_one_prompt_is_not_taken_for_many(bench):
    bench.split(rows_of(20, each=8))
    assert "human labels are of" in bench("run")[2]


# --- bad input --------------------------------------------------------------------------------------------------------

ROW = rows_of(1)[0]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "no rows"), ([{"prompt": "p"}], 'no "completion"'), ([{"completion": "c"}], "no column 'prompt'"),
        ([{"prompt": "p", "completion": "c"}], "no column 'label'"), ([{**ROW, "label": ""}], "no row has a label"),
        ([{key: ROW[key] for key in ROW if key != "kind"}], "no column 'kind'"), ([{**ROW, "kind": "robot"}], "kind 'robot'"),
        ([{**ROW, "labeller": ""}], "no labeller"), ([{**ROW, "label": "great"}], "label 'great'"), ([[1]], "must hold an object"),
        ([{**ROW, "completion": 7}], "row 1: prompt or completion is neither"), ([{**ROW, "prompt": 7}], "row 1: prompt or completion is neither"),
        ([{**ROW, "prompt": [7]}], "neither text"), ([{**ROW, "kind": HOSTILE}], "kind"), ([{**ROW, "label": "x" * 10**6}], "is not one of"),
        ([{HOSTILE: 1, "completion": HOSTILE}], "no column"),
    ],
)  # fmt: skip
def test_bad_labels_get_one_line(bench, lines, says):
    code, out, err = bench("split", bench.write("bad.jsonl", lines))
    assert code == 2 and says in err and err.count("\n") == 1 and len(err) < 1000 and out == ""
    assert not [c for c in err if not c.isprintable() and c != "\n"]
    assert not bench.path("label_ledger.jsonl").exists()


def test_bad_usage(bench, server, capsys):
    assert "no such file" in bench("split", "missing.jsonl")[2]
    assert "no labels yet" in bench("run")[2]
    bench.split(rows_of(20))
    for options in (["--concurrency", "0"], ["--timeout", "x"], ["--rows", "-1"]):
        with pytest.raises(SystemExit) as stop:
            bench("run", *options)
        assert stop.value.code == 2
    for options in (["--min-tpr", "0.4"], ["--min-tnr", "1.1"], ["--min-each", "0"]):
        with pytest.raises(SystemExit):
            bench("open", *options)
    with pytest.raises(SystemExit):
        bench("split", "x.jsonl", "--shares", "50,40,20")
    capsys.readouterr()
    assert "fixed since its first label" in bench("split", str(bench.path("given.jsonl")), "--shares", "10,45,45")[2]
    bench.rubric.write_text(" \n")
    assert "is empty" in bench("run")[2]
    bench.rubric.unlink()
    assert "cannot be read" in bench("run")[2]
    assert server.asked == []


@pytest.mark.parametrize("label", ["pass", "fail"])
def test_one_class_alone_is_not_measured(bench, label):
    bench.split(rows_of(100, good=lambda n: label == "pass"))
    found = bench.json("run")
    assert (
        found["exit_code"] == 1
        and found["splits"]["dev"]["status"] == cal.NOT_MEASURED
        and found["verdict"] == cal.NOT_MEASURED
    )
    measured, missing = ("tpr", "tnr") if label == "pass" else ("tnr", "tpr")
    assert found["splits"]["dev"][missing]["value"] is None and found["splits"]["dev"][measured]["value"] > 0.8
    assert bench.json("open")["verdict"] == cal.NOT_MEASURED and bench.openings == []
    assert bench.json("rate", bench.write("more.jsonl", rows_of(5)))["status"] == cal.NOT_MEASURED


def test_a_judge_that_never_answers_is_not_measured(bench, server):
    server.verdict = lambda asked: f"Hard to say. {HOSTILE}"
    bench.split(rows_of(200))
    found = bench.json("run")
    assert found["exit_code"] == 1 and found["splits"]["dev"]["abstained"]["no_verdict"] > 50
    _code, out, err = bench("run")
    assert "TPR not measured; TNR not measured; kappa not measured" in out and "\x1b" not in out + err
    assert bench.json("open")["verdict"] == cal.NOT_MEASURED
    assert bench.json("rate", bench.write("more.jsonl", rows_of(5)))["status"] == cal.NOT_MEASURED
    found = bench.json("probe")
    assert found["exit_code"] == 1 and found["probes"]["position"]["fields_swapped"]["status"] == cal.NOT_MEASURED


def test_a_judge_that_shirks_the_hard_ones_is_not_calibrated(bench, server):
    right = known(1, 1)
    server.verdict = lambda asked: "hm" if chance(asked["prompt"]) < 0.25 else right(asked)
    bench.split(rows_of(300))
    found = bench.json("open")
    assert (
        found["sealed"]["tpr"]["value"] == 1.0
        and found["verdict"] == "not calibrated"
        and "no verdict on" in found["reasons"][0]
    )


def test_a_run_with_gaps_says_no(bench, server):
    """As a server leaves it that dies in between: what got no answer is not measured, whatever the others say."""
    right = known(1, 1)
    server.verdict = lambda asked: right(asked) if chance(asked["prompt"]) < 0.9 else 1 / 0  # closes the connection
    bench.split(rows_of(60))
    found = bench.json("run")
    assert found["exit_code"] == 1 and found["splits"]["dev"]["status"] == "measured"
    assert 0 < sum(split["abstained"]["unreachable"] for split in found["splits"].values()) < len(found["rows"]) / 2
    server.verdict = right
    assert bench.json("run")["exit_code"] == 0


def test_another_model_and_cut_replies_are_told(bench, server):
    bench.split(rows_of(40))
    _, _, err = bench("run")
    assert "answered as" not in err and "were cut" not in err
    server.model, server.finish = "small\x1b[31m", "length"
    for _ in range(2):  # of replies in the cache too
        code, _, err = bench("run", "--max-tokens", "9")
        assert code == 0 and f"asked for {MODEL!r}, the server answered as 'small" in err and "replies were cut" in err
        assert "\x1b" not in err


def test_no_server_and_no_key(bench, server, monkeypatch):
    bench.split(rows_of(60))
    server.status = 503
    code, _, err = bench("run")
    assert code == 1 and "got no answer" in err
    assert all(
        not split["measured"]["tpr"]["n"] for split in (bench.record["splits"]["train"], bench.record["splits"]["dev"])
    )
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert cal.main(["run", *JUDGE, "--rubric", str(bench.rubric), "--record", str(bench.path("new.json"))]) == 2
    assert "holds no key" in bench.capsys.readouterr().err


def test_hostile_texts_break_neither_terminal_nor_files(bench, server):
    server.verdict = lambda asked: f"{HOSTILE}\nverdict: {'pass' if chance(asked['response']) < 0.5 else 'fail'}"
    rows = [
        {**row, "prompt": row["prompt"] + HOSTILE, "completion": row["completion"] + HOSTILE, "labeller": HOSTILE}
        for row in rows_of(100)
    ]
    rows[0]["completion"] += "x" * 10**6
    rows += [
        {
            **row,
            "prompt": [{"role": "user", "content": HOSTILE + str(n)}],
            "completion": [{"role": "assistant", "content": HOSTILE}],
        }
        for n, row in enumerate(rows_of(20))
    ]
    for command in (
        ["split", bench.write("h.jsonl", rows)],
        ["run"],
        ["open", "--min-each", "9"],
        ["probe", "--size", "20"],
        ["recheck", "--size", "20"],
        ["rate", bench.write("h.jsonl", rows)],
    ):
        for options in ([], ["--json"]):
            code, out, err = bench(*command, *options)
            assert code in (0, 1), err
            assert not [c for c in out + err if not c.isprintable() and c != "\n"], command
    assert len(bench.openings) == 2
    for path in bench.folder.glob("*.json*"):
        if path.name != "h.jsonl":
            path.read_text("ascii")
            for line in path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]:
                json.loads(line)


def test_a_torn_ledger_line_costs_only_itself(bench):
    bench.split(rows_of(20))
    with bench.path("label_ledger.jsonl").open("ab") as file:
        file.write(b'{"id": "torn')
    assert bench.split(rows_of(25))["added"] == 5
    assert len(cal.State(bench.path("calibration.json")).examples) == 25


def test_the_record_is_replaced_whole(bench, monkeypatch):
    bench.split(rows_of(20))
    before = bench.path("calibration.json").read_bytes()
    monkeypatch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    code, _, err = bench("run")
    assert code == 2 and "No space left" in err and bench.path("calibration.json").read_bytes() == before
    assert not list(bench.folder.glob(".calibration*"))


# --- probes and drift -------------------------------------------------------------------------------------------------

FAIR = known(0.95, 0.9)


def likes_length(asked):
    return FAIR(asked) or (len(asked["response"]) > 200 and chance("long", asked["prompt"]) < 0.5)


def likes_order(asked):
    return FAIR(asked) != (asked["fields"] == ["response", "prompt"] and chance("order", asked["prompt"]) < 0.4)


def likes_the_first_word(asked):
    first = asked["system"].index("verdict: fail") < asked["system"].index("verdict: pass")
    return FAIR(asked) and not (first and chance("word", asked["prompt"]) < 0.5)


def wavers(asked):
    """Verdicts hang on every character, so any change draws some anew: noise, and no bias."""
    return FAIR(asked) != (chance(asked["response"], asked["fields"], asked["system"]) < 0.15)


@pytest.mark.parametrize(
    ("verdict", "found"),
    [(FAIR, []), (wavers, []), (likes_length, ["padded_failures"]), (likes_order, ["fields_swapped"]), (likes_the_first_word, ["words_swapped"])],
)  # fmt: skip
def test_probes(bench, server, verdict, found):
    server.verdict = verdict
    bench.split(rows_of(200))
    probed = bench.json("probe", "--size", "40")
    assert probed["found"] == found and probed["exit_code"] == bool(found)
    assert bool(bench.record["warnings"]) == bool(found) and bench.record["probes"] == probed["probes"]
    _code, out, err = bench("probe", "--size", "40")
    assert ("found a bias" in err) == bool(found) and "padded_failures" in out


def test_length_that_goes_with_the_verdict_is_seen():
    examples = [cal.Example(str(n), "p", "x" * n, "dev", False, "human", "") for n in range(60)]
    rising = cal.length_association(examples, answers(*[n > 30 for n in range(60)]))["human_fail"]
    assert rising["status"] == "associated" and rising["spearman"] > 0.8
    fair = cal.length_association(examples, answers(*[n % 2 == 0 for n in range(60)]))["human_fail"]
    assert fair["status"] == "no sign"
    for few in (examples[:19], examples):
        assert cal.length_association(few, answers(*[True] * len(few)))["human_fail"]["status"] == cal.NOT_MEASURED


def test_a_small_dev_is_not_probed(bench):
    bench.split(rows_of(20))
    code, out, err = bench("probe")
    assert code == 1 and out.count(cal.NOT_MEASURED) >= 3 and "fewer than 20" in err


def test_words_swap_in_rubric_and_instructions():
    client = cal.Client("m")
    client.order = "words"
    system = client._request("Say pass or fail, never fail/pass.", "p", "r")["messages"][0]["content"]
    assert "Say fail or pass, never pass/fail." in system and "`verdict: fail` or `verdict: pass`" in system


def test_drift(bench, server):
    server.verdict = known(0.98, 0.98)
    bench.split(rows_of(200))
    code, _, err = bench("recheck")
    assert code == 2 and "is another" in err  # nothing is pinned yet
    bench("run")
    assert bench.json("open")["verdict"] == "calibrated"
    asked, measured = len(server.asked), bench.record["measured"]
    same = bench.json("recheck")
    assert same["exit_code"] == 0 and same["drift"]["status"] == "stable" and same["drift"]["flips"]["count"] == 0
    assert len(server.asked) == asked + 100 and bench.record["measured"] > measured  # asked anew, past the cache
    server.verdict = lambda asked: known(0.98, 0.98)(asked) != (chance("few", asked["prompt"]) < 0.05)
    measured, few = bench.record["measured"], bench.json("recheck")["drift"]
    assert few["status"] == "stable" and few["flips"]["value"] > 0.05 and bench.record["measured"] == measured
    server.verdict = known(0.98, 0.6)  # the snapshot kept its name and not its mind
    changed = bench.json("recheck")
    assert (
        changed["exit_code"] == 1 and changed["drift"]["status"] == "drifted" and changed["verdict"] == "not calibrated"
    )
    assert changed["drift"]["fail_to_pass"] > changed["drift"]["pass_to_fail"]
    assert bench.json("open")["verdict"] == "not calibrated"  # the cached answers are those of before
    server.status = 503
    assert bench.json("recheck")["drift"]["status"] == cal.NOT_MEASURED and bench.record["verdict"] == "not calibrated"
    server.status, server.verdict = 200, known(0.98, 0.98, salt="new")
    assert bench.json("open", "--cache", str(bench.path("new_cache.jsonl")))["verdict"] == "calibrated"
    bench.rubric.write_text("Another.")
    code, _, err = bench("recheck")
    assert code == 2 and "is another" in err


# --- the reward built from the record ---------------------------------------------------------------------------------


@pytest.fixture
def calibrated(bench, server):
    server.verdict = known(1, 1)
    bench.split(rows_of(200))
    bench("run")
    assert bench.json("open")["verdict"] == "calibrated"
    return bench.path("calibration.json")


def built(calibration, rubric=RUBRIC, model=MODEL, **options):
    return rewards.make_rubric_judge_reward(
        judge.OpenAIJudge(model, base_url="http://localhost:9/v1"), rubric, calibration=calibration, **options
    )


def test_the_reward_takes_a_good_record_and_refuses_each_bad_one(calibrated, caplog):
    record = json.loads(calibrated.read_text())
    assert built(calibrated) and built(str(calibrated)) and built(record) and built(record, rubric=RUBRIC + "\n")
    assert caplog.text == ""
    old = (cal.datetime.datetime.now(cal.datetime.UTC) - cal.datetime.timedelta(days=91)).isoformat()
    bad = {
        "not calibrated": {**record, "verdict": "not calibrated", "reasons": ["TPR is low"]},
        "TPR is low": {**record, "verdict": cal.NOT_MEASURED, "reasons": ["TPR is low"]},
        "another rubric": {**record, "rubric_sha256": "0" * 64},
        "other words": {**record, "judge": {**record["judge"], "instructions_sha256": "0"}},
        "91 days old": {**record, "measured": old},
        "in the future": {**record, "measured": "2999-01-01T00:00:00+00:00"},
        "does not say when": {**record, "measured": None},
        "of the sampling": {**record, "judge": {**record["judge"], "sampling": {"temperature": 0, "max_tokens": 5}}},
        "asks 'judge-2026-08-06'": {**record, "judge": {**record["judge"], "model": "judge-2025-01-01"}},
        "no record": {},
        "can be read": calibrated.parent / "missing.json",
        "None": {key: value for key, value in record.items() if key != "verdict"},
    }
    for says, calibration in bad.items():
        with pytest.raises(ValueError, match=says) as refused:
            built(calibration)
        assert "\n" not in str(refused.value) and "allow_uncalibrated" in str(refused.value)
        caplog.clear()
        assert built(calibration, allow_uncalibrated=True).__name__ and says in caplog.text
    assert built({**record, "measured": old}, max_age_days=100)
    with pytest.raises(ValueError, match="another rubric"):
        built(record, rubric="another")
    caplog.clear()
    assert built({**record, "warnings": ["the probe padded_failures found a bias"]}) and "found a bias" in caplog.text
    assert rewards.make_rubric_judge_reward(judge.OpenAIJudge("alias"), "r")  # nothing given, nothing checked


def test_a_run_with_another_rubric_takes_the_verdict_away(bench, calibrated):
    bench.rubric.write_text("Another.")
    _code, _, err = bench("run")
    assert "another rubric or judge" in err and bench.record["verdict"] == cal.NOT_MEASURED
    with pytest.raises(ValueError, match="not measured"):
        built(calibrated, rubric="Another.")


# --- command line -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [[], ["split"], ["run"], ["open"], ["probe"], ["recheck"], ["rate"]])
def test_help_is_quick_and_says_the_exit_codes(command):
    code = f"""
import sys, runpy
sys.argv = ["calibrate_judge.py", *{command}, "--help"]
try:
    runpy.run_path({str(ROOT / "scripts/calibrate_judge.py")!r}, run_name="__main__")
except SystemExit as stop:
    assert stop.code == 0
heavy = {{"numpy", "scipy", "statsmodels", "pandas", "openai", "rich", "tenacity", "pyarrow", "httpx"}} & set(sys.modules)
assert not heavy, heavy
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert "exit codes: 0 = ok, 1 = the gate says no, or not measured, 2 = bad usage or input" in done.stdout


def test_a_password_in_an_address_reaches_no_file(bench, server):
    bench.split(rows_of(20))
    assert bench("run", "--base-url", server.url.replace("://", "://kim:secret@"))[0] in (0, 1)
    assert bench.record["judge"]["base_url"] == server.url and server.asked
    assert cal._without_password("http://kim:secret@host:1/v1") == "http://host:1/v1"
    assert not [path for path in bench.folder.glob("*.json*") if "secret" in path.read_text()]


def test_another_cache_is_another_draw_of_the_sealed_test(bench):
    bench.split(rows_of(200))
    bench("run")
    bench("open")
    _, _, err = bench("open", "--cache", str(bench.path("fresh.jsonl")))
    assert "2 draws" in err and "97.5%" in err
    assert bench.record["splits"]["test"]["measured"]["gate"]["confidence"] == pytest.approx(0.975)
    _, _, err = bench("open")  # from the first cache: nothing new was drawn
    assert "2 draws" in err


def test_another_persons_word_after_an_opening_is_told(bench):
    rows = rows_of(200)
    bench.split(rows)
    bench("run")
    bench("open")
    flipped = [{**row, "label": "fail" if row["label"] == "pass" else "pass", "labeller": "bo"} for row in rows]
    bench.split(flipped)
    assert bench.record["splits"]["test"]["revised_since_opening"] > 0
    assert bench.record["verdict"] != "calibrated"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("calibration.json", '{"schema_version": 1, "splits": null}'),
        ("calibration.json", '{"schema_version": 1, "labels": 5}'),
        ("calibration.json", '{"schema_version": 1, "judge": [1]}'),
        ("label_ledger.jsonl", '{"ledger": "labels", "salt": "s", "shares": [0.2]}\n'),
        ("label_ledger.jsonl", '{"ledger": "labels", "salt": "s", "shares": [0.2, 0.4, 0.4]}\n{"id": "a", "prompt": "p", "response": "r", "label": "pass", "kind": "person", "labeller": "k", "time": "t"}\n'),
    ],
)  # fmt: skip
def test_a_damaged_folder_is_one_line(bench, name, text):
    bench.split(rows_of(40))
    bench.path(name).write_text(text)
    code, out, err = bench("run")
    assert code == 2 and err.count("\n") == 1 and out == "", err


def test_two_first_splits_make_one_ledger(tmp_path):
    given = tmp_path / "given.jsonl"
    given.write_text("".join(json.dumps(row) + "\n" for row in rows_of(60)))
    words = [sys.executable, cal.__file__, "split", str(given), "--record", str(tmp_path / "calibration.json")]
    running = [subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    for process in running:
        process.communicate()
    codes = [process.returncode for process in running]
    assert 0 in codes and set(codes) <= {0, 2}
    heads = [line for line in (tmp_path / "label_ledger.jsonl").read_text().splitlines() if '"ledger"' in line]
    assert len(heads) == 1
    assert subprocess.run(words, capture_output=True).returncode == 0


def test_what_the_reference_says_of_the_defaults_is_so():
    import inspect

    text = " ".join((Path(__file__).parents[1] / "references/reward-library.md").read_text(encoding="utf-8").split())
    args = cal.build_parser().parse_args(["open", "--rubric", "r"])
    assert f"{args.min_each} of each class must fall into the sealed part, {cal.SHARES[2]:.0%} of" in text.replace(
        " %", "%"
    )
    assert args.min_tpr == args.min_tnr and f"true negative rate ({args.min_tpr}, judgement)" in text
    days = inspect.signature(rewards.make_rubric_judge_reward).parameters["max_age_days"].default
    assert f"a record older than {days} days (judgement)" in text
