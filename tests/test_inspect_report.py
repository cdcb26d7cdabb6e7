"""The inspection report: nothing a model wrote acts, what was not measured is never green, a person can read it."""

import copy
import functools
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

jinja2 = pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
import inspect_report  # noqa: E402
import markupsafe  # noqa: E402
from pages import (  # noqa: E402
    CSP,
    HOSTILE,
    Elements,
    acted,
    blank,
    contrast,
    escape_nothing,
    foreign,
    needs_browser,
    raw_characters,
    skeleton,
)

SCRIPTS = Path(__file__).parents[1] / "scripts"
RECORD = {
    "schema_version": 1,
    "created": "2026-11-30T09:00:00Z",
    "verdict": "pass",
    "reasons": ["agreement 0.94 of 50"],
    "sampling": {"source": "runs/a", "model": "tiny", "temperature": 1.0, "max_tokens": 256, "num_generations": 8},
    "rewards": ["format", "correct"],
    "pass_above": 0.5,
    "rows": 96,
    "groups": 12,
    "group_size": 8,
    "labels": {
        "human": 60, "agent": 1, "synthetic": 10, "random_part": 50, "suspicious_part": 10, "unsure": 3,
        "disputed": 1, "changed_after_reveal": 2,
        "labellers": {"ann": 60},
    },
    "confusion": {"paid_pass": 30, "paid_fail": 2, "unpaid_pass": 1, "unpaid_fail": 17},
    "agreement": {"value": 0.94, "low": 0.838, "high": 0.979, "n": 50, "threshold": 0.9},
    "kappa": 0.87,
    "between_labellers": {"agreement": 0.9, "kappa": 0.8, "n": 20, "labellers": ["ann", "bo"]},
    "reward": {
        name: {"mean": 0.4, "min": 0.0, "max": 1.0, "scored": 96, "abstained": 0, "errors": 0}
        for name in ("format", "correct")
    },
    "dead_groups": {"value": 0.25, "n": 12},
    "success_rate": {"value": 0.3, "low": 0.2, "high": 0.4, "n": 96, "by": "human", "reading": "GRPO can learn"},
    "dead_groups_for": {"4": 0.5, "8": 0.3, "16": 0.15, "32": 0.08},
    "length_reward": {"spearman": 0.1, "p": 0.3, "n": 96},
    "seconds_per_row": {"median": 0.002, "p95": 0.01, "max": 0.5},
    "clipped": {"value": 0.1, "n": 96},
    "fingerprint": "sha256:00",
}  # fmt: skip
DECIDE = ("agreement", "confusion", "dead_groups", "success_rate")


def record(**changes) -> dict:
    return copy.deepcopy(RECORD) | changes


def make_row(index: int, **changes) -> dict:
    right, formatted = index % 3 == 0, index % 2 == 0
    return {
        "id": f"r{index}",
        "group": index // 8,
        "prompt": f"question {index // 8}",
        "completion": f"answer {index}",
        "length": 5 + index * 7 % 40,
        "length_unit": "tokens",
        "total": float(right),
        "rewards": {"format": float(formatted), "correct": float(right)},
        "reasons": {"format": "ok", "correct": "ok"},
        "label": "pass" if right else "fail",
        "kind": "human",
        "note": "",
        "part": "random",
        "clipped": False,
        "error": None,
        "seconds": 0.001,
    } | changes


def make_rows(count: int = 96, **changes) -> list[dict]:
    return [make_row(index, **changes) for index in range(count)]


def hostile_input(texts: list[str]) -> tuple[dict, list[dict]]:
    """Every place that a model, a dataset or a labeller writes to holds each of the texts once. With texts that are
    all harmless the page has the same skeleton."""
    names = [f"{text[:300]}#{index}" for index, text in enumerate(texts[:11])]
    rows = []
    for index in range(96):
        text = texts[index % len(texts)]
        row = make_row(index, prompt=text, completion=text, note=f"{text[:2000]}.", error=f"{text[:2000]}.")
        row["id"] = text[:500]
        row["rewards"] = dict.fromkeys(names, row["total"])
        row["reasons"] = dict.fromkeys(names, f"{text}.")
        row["label"] = "fail" if row["total"] else "pass"  # all disagree
        if index % 4 == 3:
            row |= {"label": None, "part": "suspicious"}
        rows.append(row)
    given = record(rewards=names, reasons=[f"{text[:400]}." for text in texts][:12])
    given["reward"] = dict.fromkeys(names, RECORD["reward"]["format"])
    given["sampling"] |= {"source": texts[0], "model": texts[2]}
    given["labels"]["labellers"] = dict.fromkeys(names, 3)
    given["between_labellers"]["labellers"] = names[:4]
    given["success_rate"] |= {"reading": texts[1], "by": texts[3]}
    given |= {"created": texts[4], "fingerprint": texts[5]}
    return given, rows


HARMLESS = ["harmless"] * len(HOSTILE)


@pytest.fixture(scope="module")
def hostile_page():
    return inspect_report.render(*hostile_input(HOSTILE))


@pytest.fixture(scope="module")
def harmless_page():
    return inspect_report.render(*hostile_input(HARMLESS))


@pytest.fixture
def unescaped(monkeypatch):
    escape_nothing(monkeypatch)


@pytest.fixture(scope="module")
def unescaped_page():
    """The known-bad page: the same template by a renderer that escapes nothing."""
    with pytest.MonkeyPatch.context() as patch:
        escape_nothing(patch)
        return inspect_report.render(*hostile_input(HOSTILE[:22]))


@pytest.fixture(scope="module")
def pages():
    """One page per verdict."""
    nothing = record(verdict="not measured", agreement=None, confusion=None, kappa=None, reasons=["no labels"])
    nothing["labels"] = dict.fromkeys(nothing["labels"], 0) | {"labellers": {}}
    disagree = [row | {"label": "fail"} if row["total"] else row for row in make_rows()]
    return {
        "pass": inspect_report.render(record(), make_rows()),
        "fail": inspect_report.render(record(verdict="fail", reasons=["agreement 0.7 is below 0.9"]), disagree),
        "not measured": inspect_report.render(nothing, make_rows(label=None, kind=None)),
    }


@pytest.fixture
def quick(monkeypatch):
    """Renders without drawing, for tests of the words."""
    empty = dict.fromkeys(("length", "groups", "expected"), markupsafe.Markup("<svg></svg>"))
    empty |= dict.fromkeys(("points", "drawn", "group_count", "dead_count"), 1) | {"distribution": []}
    monkeypatch.setattr(inspect_report, "draw", lambda *_: empty)
    compile_, known = jinja2.Environment.compile, {}  # the template takes longer to compile than to fill in

    def compile_once(self, source):
        return known.get(source) or known.setdefault(source, compile_(self, source))

    monkeypatch.setattr(jinja2.Environment, "compile", compile_once)
    return inspect_report.render


def run_python(code: str, **environment) -> subprocess.CompletedProcess:
    env = {**os.environ, "PYTHONPATH": str(SCRIPTS), **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)


# ---------------------------------------------------------------- nothing a model wrote acts


def test_hostile_texts_add_no_element_and_no_attribute(hostile_page, harmless_page, unescaped_page):
    assert foreign(hostile_page) == []
    assert skeleton(hostile_page) == skeleton(harmless_page)
    assert {"script", "img"} <= set(foreign(unescaped_page))
    assert skeleton(unescaped_page) != skeleton(harmless_page)


@pytest.mark.parametrize("text", HOSTILE[:6] + HOSTILE[7:13])  # without the one for attributes in single quotes
def test_the_check_sees_each_hostile_text(text, unescaped):
    """The known-bad pages: in one that escapes nothing each text is found, as a completion or in an attribute."""
    rows = make_rows(8, completion=text, label="pass", total=0.0, rewards={text: 1.0})
    assert foreign(inspect_report.render(record(rewards=[text]), rows))


def test_unseen_characters_are_shown(hostile_page, monkeypatch):
    assert raw_characters(hostile_page) == set()
    hostile_page.encode("utf-8")
    for placeholder in ("␛", "␀", "U+202E", "U+200B", "U+D800", "U+E0041", "U+0085", "U+3164"):
        assert placeholder in hostile_page
    monkeypatch.setattr(inspect_report, "pieces", lambda text: [(False, text)])
    monkeypatch.setattr(inspect_report, "plain", lambda text, limit=80: str(text))
    bad = raw_characters(inspect_report.render(*hostile_input(HOSTILE)))
    assert {"\x00", "\x1b", "\u202e", "\ud800", "\u200b"} <= bad


def test_a_tower_of_marks_is_taken_down():
    assert inspect_report.pieces("e\u0301" * 9) == [(False, "e\u0301" * 9)]
    assert inspect_report.pieces("Z" + "\u0301" * 6 + "a") == [
        (False, "Z" + "\u0301" * 4),
        (True, "U+0301 U+0301"),
        (False, "a"),
    ]


@pytest.mark.parametrize("text", ["a <b> & \"c\" 'd'", "tab\tand\nline", "x&lt;y", "100 % \u00e9\u4e2d\U0001f600"])
def test_harmless_text_reads_as_it_was_written(text, quick):
    page = quick(record(), make_rows(8, completion=f"[{text}]", label="pass", total=0.0))
    assert f"[{text}]" in "".join(Elements(page).text)


def test_what_no_filter_escapes_jinja_would(monkeypatch):
    """The second wall: a value that a later template forgets to filter."""
    monkeypatch.setattr(inspect_report, "TEMPLATE", "{{ record.created }}")
    assert inspect_report.render(record(created="<b>"), make_rows(8)) == "&lt;b&gt;"


def test_no_script_one_style_and_a_policy(pages):
    for page in pages.values():
        found = Elements(page).found
        tags = [tag for tag, _ in found]
        assert page.startswith("<!DOCTYPE html>") and tags.count("style") == 1 and "script" not in tags
        assert CSP.search(page).start() < page.index("<style>")
        policy = next(attributes["content"] for _, attributes in found if "http-equiv" in attributes)
        assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        assert (
            "http://" not in page.replace('xmlns:xlink="http://www.w3.org/1999/xlink"', "") and "https://" not in page
        )
        assert foreign(page) == []
        ids = [attributes["id"] for _, attributes in found if "id" in attributes]
        assert len(ids) > 50 and len(set(ids)) == len(ids)
        assert set(re.findall(r'(?:href="|url\()#([\w-]+)', page)) <= set(ids)
        named = [attributes for tag, attributes in found if tag == "svg"]
        assert len(named) >= 6 and all(one["aria-label"] and one["role"] == "img" for one in named)
        assert not re.search(r"#0[1-6]0[2-7]0[3-8]", page), "a stand-in colour was left"


def test_long_texts_lose_their_middle_and_say_how_much(quick):
    text = "START" + "m" * 9990 + "ENDED"
    page = quick(record(), make_rows(8, completion=text, label="pass", total=0.0))
    assert "6,000 characters cut" in page and "START" in page and "ENDED" in page
    assert inspect_report.shorten("ab" * 2000, 4000) == ("ab" * 2000, 0, "")
    start, cut, end = inspect_report.shorten(text, 4000)
    assert len(start) + cut + len(end) == len(text) and len(start) + len(end) == 4000


# ---------------------------------------------------------------- not measured is never green


def leaves(node, path=()):
    yield path
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, (*path, key))


def without(path, value=None) -> dict:
    changed = record()
    inner = functools.reduce(dict.__getitem__, path[:-1], changed)
    inner[path[-1]] = value
    return changed


def neutral(page: str) -> int:
    return page.count('<span class="nm">not measured</span>')


def green(page: str) -> bool:
    return bool(re.search(r'class="[^"]*\bgood\b', page))


PATHS = [
    path for path in leaves(RECORD) if path and path[0] != "dead_groups_for" and path[:2] != ("labels", "labellers")
]


def test_a_full_record_has_nothing_unmeasured_and_is_green(quick):
    page = quick(record(), make_rows())
    assert neutral(page) == 0 and green(page) and "not measured" not in page


@pytest.mark.parametrize("value", [None, math.nan], ids=["None", "NaN"])
def test_every_missing_field_is_said_in_a_neutral_style(value, quick):
    assert len(PATHS) > 60
    for path in PATHS:
        if value is not None and not isinstance(functools.reduce(dict.__getitem__, path, RECORD), (int, float)):
            continue
        page = quick(without(path, value), make_rows())
        assert neutral(page) >= 1, path
        assert page.count("not measured") == neutral(page) + page.count("but this was not measured") + page.count(
            "inspection: not measured"
        ), path
        if path[0] in (*DECIDE, "verdict") or path == ("labels", "human") or path == ("labels",):
            assert not green(page), path


def test_a_record_that_says_pass_without_numbers_is_no_pass(quick):
    page = quick({"verdict": "pass"}, make_rows())
    assert not green(page) and "Take it for no pass" in page
    assert green(quick(record(), make_rows())), "the check would see green"
    for verdict in (None, "PASS", "good", 1, "<b>"):
        page = quick(record(verdict=verdict), make_rows())
        assert not green(page) and '<p class="word"><span class="nm">not measured</span></p>' in page


def test_a_record_of_another_shape_is_not_measured(quick):
    for path in PATHS:
        for value in ("<i>", [1], 7, {"x": {}}):
            page = quick(without(path, value), make_rows(8))
            assert foreign(page) == []
            if path[0] in DECIDE and len(path) == 1:
                assert not green(page), (path, value)


def test_expected_shares_that_are_missing_are_said():
    some = without(("dead_groups_for", "4"))
    page = inspect_report.render(some, make_rows())
    assert 'For 4: <span class="nm">not measured</span>' in page
    page = inspect_report.render(record(dead_groups_for=None, pass_above=None), make_rows())
    assert "needs success rates per group" in page and "no row has both a label and a threshold" in page


def test_no_number_that_is_none_reaches_the_page():
    bad = [math.nan, math.inf, -math.inf, None]

    def spoil(node):
        if isinstance(node, dict):
            return {key: spoil(value) for key, value in node.items()}
        return bad[0] if isinstance(node, (int, float)) else node

    rows = [
        row | {"total": bad[i % 4], "length": bad[i % 3], "seconds": bad[i % 4], "rewards": {"format": bad[i % 4]}}
        for i, row in enumerate(make_rows())
    ]
    page = inspect_report.render(spoil(RECORD), rows)
    assert not re.search(r"\b(nan|inf|infinity|none)\b", " ".join(Elements(page.partition("<body>")[2]).text), re.I)
    assert not green(page)
    mixed = [row | {"total": bad[i % 4]} if i % 2 else row for i, row in enumerate(make_rows())]
    assert "nan" not in inspect_report.render(record(), mixed).lower()


def test_without_labels_the_page_says_what_to_do(pages):
    assert "a person reads 50 more of the completions" in pages["not measured"] and not green(pages["not measured"])
    assert "Mend the reward, not the hyperparameters" in pages["fail"] and not green(pages["fail"])
    assert "Next:" not in pages["fail"]


# ---------------------------------------------------------------- what it shows


def test_disagreements_come_in_the_order_of_harm(quick):
    rows = [
        make_row(0, id="agent-paid", total=1.0, label="fail", kind="agent"),
        make_row(1, id="unpaid", total=0.0, label="pass"),
        make_row(2, id="paid", total=1.0, label="fail"),
        make_row(3, id="paid-most", total=3.0, label="fail"),
        make_row(4, id="agrees", total=1.0, label="pass"),
        make_row(5, id="unsure", total=1.0, label="unsure"),
        make_row(6, id="unscored", total=None, label="pass"),
    ]
    found = inspect_report.disagreements_of(rows, 0.5)
    assert [row["id"] for row in found] == ["paid-most", "paid", "unpaid", "agent-paid"]
    page = quick(record(), rows)
    assert page.count("paid, but labelled fail") == 3 and page.count("not paid, but labelled pass") == 1
    assert "label by an agent" in page


def test_only_a_persons_labels_colour_the_charts():
    assert [inspect_report.human_label(make_row(0, kind=kind)) for kind in ("human", "agent", "synthetic", None)] == [
        "pass", "none", "none", "none",
    ]  # fmt: skip
    page = inspect_report.render(record(), make_rows(kind="agent"))
    assert "no pass or fail by a person: 96" in page and "a person says pass" not in page


def test_dead_groups_are_those_with_equal_totals():
    rows = make_rows(8, total=1.0) + make_rows(8, group=7) + [make_row(0, group=9), make_row(0, group=11, total=None)]
    assert inspect_report.group_facts(rows, 0.5) == [(8, 8, True), (3, 8, False)]


def test_cards_are_limited_and_counted(quick):
    page = quick(record(), make_rows(200, total=1.0, label="fail") + make_rows(90, label=None, part="suspicious"))
    assert page.count('<details class="card"') == 50 + 20
    assert "50 of 200, paid but fail first" in page and "20 of 90." in page


@pytest.mark.parametrize(
    "rows",
    [
        make_rows(1),
        make_rows(16, total=None, rewards={"format": None, "correct": None}),
        make_rows(16, total=1.0, rewards={"format": 1.0, "correct": 1.0}),
        make_rows(40, group=0),
        [make_row(i, length=0, total=i / 7, rewards={"format": i / 3 - 9}) for i in range(64)],
        [make_row(i, length=10 ** (i % 6), total=-1e9 if i % 2 else 1e9) for i in range(64)],
        [{"id": 1}, {"id": None, "group": None, "completion": None}],
        make_rows(8, rewards={f"r{i}": 1.0 for i in range(40)}),
        make_rows(8, rewards=None, reasons=None, label="fail", total=1.0, kind="x", length_unit=None),
    ],
    ids=["one", "no-rewards", "all-equal", "one-group", "continuous", "extreme", "bare", "many-rewards", "no-dicts"],
)
def test_odd_rows(rows):
    names = list(rows[0].get("rewards") or {}) or None
    page = inspect_report.render(record(rewards=names), rows)
    assert foreign(page) == [] and "</html>" in page
    bare = inspect_report.render({}, rows)
    assert not green(bare) and neutral(bare) > 20


def test_no_rows_is_an_error():
    with pytest.raises(ValueError, match="no rows: a report needs at least one scored completion"):
        inspect_report.render(record(), [])


def test_beyond_2000_rows_the_page_says_that_it_draws_a_sample():
    page = inspect_report.render(record(), make_rows(2400))
    assert re.search(r"2,000 of\s+2,400 rows are drawn", page)


@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
def test_a_missing_library_is_one_line_with_the_command(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError) as error:
        inspect_report.render(record(), make_rows(8))
    assert str(error.value) == f"the report needs {library}: pip install matplotlib jinja2"


def test_import_is_cheap():
    heavy = "{'matplotlib', 'jinja2', 'markupsafe', 'numpy'}"
    done = run_python(f"import sys, inspect_report; sys.exit(bool({heavy} & set(sys.modules)))")
    assert done.returncode == 0, done.stderr
    done = run_python(f"import sys, jinja2, inspect_report; sys.exit(bool({heavy} & set(sys.modules)))")
    assert done.returncode == 1, "the check sees an import"


def test_the_same_input_gives_the_same_bytes(tmp_path):
    (tmp_path / "in.json").write_text(json.dumps([record(), make_rows()]))
    (tmp_path / "matplotlibrc").write_text("axes.grid: True\nfont.size: 30\nsvg.fonttype: path\n")
    code = f"import json, inspect_report as r; print(hash('x')); print(r.render(*json.load(open({str(tmp_path / 'in.json')!r}))))"
    one = run_python(code, PYTHONHASHSEED="1")
    two = run_python(code, PYTHONHASHSEED="2", MATPLOTLIBRC=str(tmp_path), TZ="Asia/Tokyo")
    assert one.returncode == two.returncode == 0, one.stderr + two.stderr
    (seed1, page1), (seed2, page2) = (done.stdout.split("\n", 1) for done in (one, two))
    assert seed1 != seed2 and page1 == page2 and len(page1) > 50_000


@pytest.mark.parametrize("unit", ["one two three ", "a\u202e", "\U0001f600<"], ids=["words", "bidi", "emoji"])
def test_10000_rows_stay_under_5_mb(unit, capsys):
    text = (unit * 6000)[:6000]
    changes = {"completion": text, "prompt": text, "note": text, "reasons": {"format": text, "correct": text}}
    rows = make_rows(9000, total=2.5, label="fail", **changes)
    rows += [make_row(9000 + i, label=None, part="suspicious", error=text, **changes) for i in range(1000)]
    for index, row in enumerate(rows):
        row |= {"length": 20 + index * 7919 % 3000, "rewards": {"format": index % 2, "correct": index * 31 % 997 / 997}}
    start = time.perf_counter()
    page = inspect_report.render(record(rows=10_000, groups=1250), rows)
    took, size = time.perf_counter() - start, len(page.encode())
    with capsys.disabled():
        print(f" [10,000 rows of {unit!a}: {took:.1f} s, {size / 1e6:.2f} MB]", end="")
    assert size <= 5_000_000


def test_colours_have_contrast_in_both_schemes():
    light, dark = (
        dict(re.findall(r"--(\w+):(#\w+)", block))
        for block in re.findall(r":root\{(.*?)\}", inspect_report.TEMPLATE, flags=re.S)
    )
    text = [
        ("ink", "bg"),
        ("ink", "card"),
        ("muted", "bg"),
        ("muted", "card"),
        ("muted", "plainbg"),
        ("muted", "badbg"),
    ]
    text += [
        ("ink", "goodbg"),
        ("good", "goodbg"),
        ("good", "card"),
        ("bad", "badbg"),
        ("bad", "card"),
        ("ink", "badbg"),
    ]
    for scheme in (light, dark | {}):
        assert len(scheme) == 13
        for one, other in text:
            assert contrast(scheme[one], scheme[other]) >= 4.5, (one, other)
        for one in ("pass", "fail", "none"):
            assert contrast(scheme[one], scheme["card"]) >= 3, one
    assert contrast("#777", "#888888") < 3


# ---------------------------------------------------------------- in a browser


@needs_browser
def test_hostile_texts_do_not_act_in_a_browser(chromium, hostile_page, harmless_page, unescaped_page):
    def open_page(page: str) -> str:
        assert len(CSP.findall(page)) == 1
        return chromium(CSP.sub("", page), "--dump-dom")

    dom = open_page(hostile_page)
    assert not acted(dom) and foreign(dom) == []
    assert skeleton(dom) == skeleton(open_page(harmless_page))
    assert acted(open_page(unescaped_page)), "the check sees what acts"
    assert not acted(chromium(unescaped_page, "--dump-dom")), "the policy is a second wall"


@needs_browser
def test_the_page_asks_for_nothing(asked, hostile_page):
    assert asked(CSP.sub("", hostile_page)) == set()
    assert asked('<title>x</title><img src="http://127.0.0.1:9/pixel.png">') == {"http://127.0.0.1:9/pixel.png"}


def green_pixels(image) -> int:
    red, green_, blue = image[..., 0], image[..., 1], image[..., 2]
    return int(((green_ - red > 0.25) & (green_ - blue > 0.08)).sum())


@needs_browser
def test_light_and_dark_are_seen_and_only_a_pass_is_green(picture, pages):
    shots = {
        (verdict, scheme): picture(page, scheme=scheme)
        for verdict, page in pages.items()
        for scheme in (("light",) if verdict == "fail" else ("light", "dark"))
    }
    for (verdict, scheme), image in shots.items():
        assert image.shape[:2] == (1400, 1200) and not blank(image)
        assert (image.mean() > 0.8) if scheme == "light" else (image.mean() < 0.35), (verdict, scheme)
        assert (green_pixels(image) > 1000) == (verdict == "pass"), (verdict, scheme, green_pixels(image))
        top = image[:500]
        assert not blank(top), "the verdict stands at the top"
    assert blank(picture("<title>x</title>"))


@needs_browser
def test_a_phone_needs_no_sideways_scrolling(width, pages, hostile_page):
    assert width(pages["pass"]) <= 400 and width(hostile_page) <= 400
    assert width("<body><div style='width:900px'>x</div></body>") > 400
