"""The page of a diagnosis: each finding is on it, nothing a model wrote acts, what was not measured is never green."""

import copy
import json
import math
import re
import sys

import pytest

jinja2 = pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
import diagnosis_page  # noqa: E402
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

STEPS = range(1, 121)
ROW = {"file": "completions_00110.parquet", "step": 110, "row": 3, "reward": 1.0, "advantage": -0.25}
DEAD = {
    "id": "dead-groups",
    "severity": "dead",
    "title": "Nearly every group has one reward",
    "seen": [
        {
            "metric": "frac_reward_zero_std",
            "first_step": 60,
            "last_step": 120,
            "values": {"first": 0.81, "last": 1.0, "mean": 0.93},
            "text": "above the limit in 58 of 60 steps",
        },
        {"metric": "grad_norm", "first_step": 80, "last_step": 120, "values": {"max": 0.0}, "text": "exactly nothing"},
    ],
    "threshold": {"text": "dead groups over 20 steps", "value": 0.8, "unit": "share", "source": "judgement"},
    "causes": [
        {"cause": "too easy", "how_to_tell": "rewards at the top", "confirmed": True, "evidence": "54 of 58 are 1"},
        {"cause": "too cold", "how_to_tell": "equal completions", "confirmed": None, "evidence": None},
        {"cause": "prompt only", "how_to_tell": "dead from step 1", "confirmed": False, "evidence": "alive before 20"},
    ],
    "fix": [{"set": {"num_generations": 16, "scale_rewards": "none"}}, {"text": "keep prompts that pass 20-80 %"}],
    "variant": "larger-group",
    "failure": "dead-groups",
    "not": "loss 0 is no fault",
    "rows": [ROW | {"why": "all eight got 1", "prompt": "What is 2+2?", "completion": "<think>easy</think> 4"}],
    "steps": [60, 120],
}
WASTE = DEAD | {
    "id": "cut-answers",
    "severity": "waste",
    "title": "A third of the answers is cut",
    "seen": [{"metric": "completions/clipped_ratio", "first_step": 7, "last_step": 7, "values": {}, "text": "once"}],
    "threshold": {"text": "a quarter", "value": 0.25, "unit": "share", "source": "trl#6263"},
    "rows": [],
    "steps": [7, 7],
}
TELL = WASTE | {"id": "reward-scale", "severity": "tell", "title": "One reward is wider", "seen": [], "fix": []}
DIAGNOSIS = {
    "schema_version": 1,
    "created": "2026-11-30T09:00:00Z",
    "verdict": "dead",
    "run": {
        "folder": "runs/small",
        "state": "running",
        "steps": 120,
        "max_steps": 500,
        "rows": 118,
        "generations": 120,
        "parquet_files": 117,
        "num_generations": 8,
        "logging_steps": 1,
        "config": {"temperature": 0.7, "loss_type": "dapo"},
        "sources": ["trainer_state.json"],
        "problems": ["completions_00121.parquet: cut short"],
    },
    "findings": [DEAD, WASTE, TELL],
    "not_measured": [{"id": "held-out-falls", "why": "no eval_reward", "mend": "eval_steps=50"}],
    "passed": [{"id": "entropy-collapse", "text": "entropy stays above 0.3"}],
    "notes": ["reward_std is over the whole batch"],
    "curves": {
        "reward": [[step, step / 150] for step in STEPS],
        "rewards/format/mean": [[step, 0.5] for step in STEPS],
        "rewards/correct/mean": [[step, step / 300] for step in STEPS],
        "frac_reward_zero_std": [[step, min(1, step / 75)] for step in STEPS],
        "grad_norm": [[step, max(0, 1 - step / 80) if step % 17 else None] for step in STEPS],
        "completions/clipped_ratio": [[step, 0.3] for step in STEPS],
        "loss": [[step, 0] for step in STEPS],
    },
}


def diagnosis(**changes) -> dict:
    return copy.deepcopy(DIAGNOSIS) | copy.deepcopy(changes)


def words(page: str) -> str:
    return " ".join("".join(Elements(page.partition("<body>")[2]).text).split())


def green(page: str) -> bool:
    return bool(re.search(r'class="[^"]*\bgood\b', page))


def charts(page: str) -> list[str]:
    return [attributes["aria-label"] for tag, attributes in Elements(page).found if tag == "svg"]


@pytest.fixture
def quick(monkeypatch):
    """Pages without drawing, for tests of the words; the template takes longer to compile than to fill in."""
    monkeypatch.setattr(diagnosis_page, "draw", lambda *_: markupsafe.Markup("<svg></svg>"))
    compile_, known = jinja2.Environment.compile, {}

    def compile_once(self, source):
        return known.get(source) or known.setdefault(source, compile_(self, source))

    monkeypatch.setattr(jinja2.Environment, "compile", compile_once)
    return diagnosis_page.page


@pytest.fixture(scope="module")
def page():
    return diagnosis_page.page(diagnosis())


def hostile_input(texts: list[str]) -> dict:
    """Every place that a model, a log or a config writes to holds a text; with harmless texts the skeleton is equal."""
    at = iter(range(10**6))

    def text() -> str:
        return f"{texts[next(at) % len(texts)]}."

    def names(some) -> dict:
        return {f"{text()[:300]}{index}": value for index, value in enumerate(some)}

    def finding(severity: str) -> dict:
        metric = f"{text()[:300]}{len(metrics)}"
        metrics.append(metric)
        seen = [{"metric": metric, "first_step": 1, "last_step": 9, "values": names((1, 2)), "text": text()}]
        causes = [{"cause": text(), "how_to_tell": text(), "confirmed": True, "evidence": text()} for _ in range(3)]
        return {
            "id": text(), "severity": severity, "title": text(), "seen": seen, "causes": causes, "steps": [1, 9],
            "threshold": {"text": text(), "value": 0.5, "unit": "share", "source": text()},
            "fix": [{"set": names((text(), [text()], None))}, {"text": text()}],
            "variant": text(), "failure": text(), "not": text(),
            "rows": [ROW | {"file": text(), "why": text(), "prompt": text(), "completion": text()} for _ in range(4)],
        }  # fmt: skip

    metrics: list[str] = []
    findings = [finding(severity) for severity in ("dead", "waste", "tell") * 2]
    given = diagnosis(findings=findings, verdict="dead", created=text(), notes=[text() for _ in texts])
    given["run"] |= {"folder": text(), "sources": [text() for _ in texts], "problems": [text() for _ in texts]}
    given["run"]["config"] = names([text() for _ in texts])
    given["not_measured"] = [{"id": text(), "why": text(), "mend": text()} for _ in texts]
    given["passed"] = [{"id": text(), "text": text()} for _ in texts]
    given["curves"] |= {f"rewards/{text()[:300]}{index}/mean": [[1, 1], [9, 2]] for index in range(3)}
    given["curves"] |= {metric: [[1, 0.25], [9, 1]] for metric in metrics}
    return given


@pytest.fixture(scope="module")
def hostile_page():
    return diagnosis_page.page(hostile_input(HOSTILE))


@pytest.fixture(scope="module")
def harmless_page():
    return diagnosis_page.page(hostile_input(["harmless"] * len(HOSTILE)))


@pytest.fixture(scope="module")
def unescaped_page():
    with pytest.MonkeyPatch.context() as patch:
        escape_nothing(patch)
        patch.setattr(diagnosis_page, "draw", lambda *_: "")
        return diagnosis_page.page(hostile_input(HOSTILE[:22]))


# ---------------------------------------------------------------- what it shows


def test_all_of_a_diagnosis_is_on_the_page(page):
    """Walks the JSON: a text or number that is nowhere on the page is a finding that nobody reads."""
    text = words(page)

    def leaves(node, path=()):
        if isinstance(node, dict | list):
            for key, value in node.items() if isinstance(node, dict) else enumerate(node):
                yield from leaves(value, (*path, key))
        else:
            yield path, node

    unshown = {
        "severity",
        "verdict",
        "schema_version",
        "generations",
        "logging_steps",
        "confirmed",
        "evidence",
        "state",
    }
    unshown |= {"value", "unit"}  # of a threshold that has a text; the charts show them
    seen = 0
    for path, value in leaves({key: value for key, value in DIAGNOSIS.items() if key != "curves"}):
        if path[-1] not in unshown and value is not None:
            wanted = value if isinstance(value, str) else inspect_report.number(value)
            assert wanted in text, path
            seen += 1
    assert seen > 80
    for said in (
        "54 of 58 are 1", "✓ too easy, confirmed here", "? too cold, unknown", "✕ prompt only, ruled out here",
        "✕ dead 1. Nearly every", "! waste 2. A third", "○ to know 3. One reward", "steps 60 to 120", "step 7",
        'num_generations=16 scale_rewards="none"', "source: judgement", "no setting is known to mend it",
        "python scripts/variants.py emit larger-group --base grpo.yaml",
    ):  # fmt: skip
        assert said in text, said
    assert text.index("Nearly every") < text.index("A third of") < text.index("One reward is wider")


def test_the_verdict_is_said_first_with_cause_and_change(page):
    top = words(page).partition("Findings")[0]
    for said in ("This run cannot learn", "Stop it", "Most likely: too easy (confirmed here)", "num_generations=16"):
        assert said in top, said
    assert "to know" not in top, "what costs nothing is no reason to stop"


def test_dead_findings_come_first_at_the_top(quick):
    top = words(quick(diagnosis(findings=[WASTE, WASTE, WASTE, DEAD]))).partition("Findings")[0]
    assert "dead 4. Nearly every" in top and top.index("dead 4.") < top.index("waste 1.") and "and 1 more below" in top


def test_a_command_to_copy_holds_no_foreign_name(quick):
    page = quick(diagnosis(findings=[DEAD | {"variant": "x; rm -rf ~"}]))
    assert "x; rm -rf ~" in words(page) and "variants.py emit" not in page


@pytest.mark.parametrize(
    ("changes", "says", "is_green"),
    [
        ({"verdict": "ok", "findings": [TELL]}, "no clean bill", False),
        ({"verdict": "ok", "findings": [TELL], "not_measured": []}, "no clean bill", False),  # a file was not read
        ({"verdict": "ok", "findings": [TELL], "not_measured": [], "run": {}}, "Nothing dead, nothing wasted", True),
        ({"verdict": "ok", "findings": [WASTE], "not_measured": [], "run": {}}, "Compute is wasted", False),
        ({"verdict": "waste"}, "This run cannot learn", False),
        ({"verdict": "dead", "findings": []}, "This run cannot learn", False),
        ({"verdict": "not measured", "findings": []}, "Nothing could be judged", False),
        ({"verdict": "<b>", "findings": []}, "Nothing could be judged", False),
        ({"verdict": None, "findings": None, "not_measured": None}, "Nothing could be judged", False),
    ],
)
def test_green_needs_that_all_was_measured(changes, says, is_green, quick):
    page = quick(diagnosis(**changes))
    assert says in words(page).partition("Findings")[0] and green(page) == is_green


def test_curves_show_the_limit_and_the_steps_of_a_finding(page):
    labels = charts(page)
    assert [re.match(r".*?\(([^()]*)\)", label)[1] for label in labels] == [
        "frac_reward_zero_std", "grad_norm", "completions/clipped_ratio",
        "reward", "rewards/format/mean", "rewards/correct/mean",
    ]  # fmt: skip
    dead, pulse, cut, reward = labels[:4]
    assert "limit 0.8; finding 1 at steps 60 to 120" in dead and "from 0.0133 to 1" in dead
    assert "7 of 120 points are no number" in pulse and "finding 1 at steps 80 to 120" in pulse and "limit" not in pulse
    assert "finding 2 at step 7" in cut and "finding" not in reward
    figures = re.findall(r"<figure>(.*?)</figure>", page, flags=re.S)
    for label, figure in zip(labels, figures):
        assert ("stroke-dasharray" in figure) == ("limit" in label), label
        assert ("<pattern" in figure) == ("finding" in label), label  # the hatching
    assert "Not in the log: entropy, completions/mean_length." in words(page)


@pytest.mark.parametrize(
    ("threshold", "drawn"),
    [
        ({"value": 0.8, "unit": "share of groups"}, True),
        ({"value": 0.8, "unit": "share", "metric": "grad_norm"}, True),
        ({"value": 0.8}, True),
        ({"value": 20, "unit": "steps"}, False),
        ({"value": 0.3, "unit": "times the first"}, False),
        ({"value": None, "unit": "share"}, False),
        ({"value": math.nan}, False),
        ({"value": 0.8, "metric": "reward"}, False),  # no part of the finding
        (None, False),
    ],
)
def test_only_a_limit_in_the_unit_of_a_curve_is_drawn(threshold, drawn):
    findings = diagnosis_page.findings_of({"findings": [DEAD | {"threshold": threshold}]})
    panels = {panel["metric"]: panel for panel in diagnosis_page.panels_of(DIAGNOSIS, findings)[0]}
    assert [name for name, panel in panels.items() if panel["limits"]] == (
        [(threshold or {}).get("metric", "frac_reward_zero_std")] if drawn else []
    )


@pytest.mark.parametrize(
    "points",
    [
        [],
        None,
        "nonsense",
        [[1, None], [2, math.nan]],
        [[5, 0.5]],
        [[1, 0.5], [1, 0.5]],
        [[step, 10.0**step] for step in range(1, 150)],
        [[step, (-1) ** step * 1e149] for step in range(50)],
        [[1, 1e308], [2, -1e308], [3, 0]],
        [[1, 10**400], [2, 1]],
        [[10**400, 1], [2, 1], [2.5, -0.0]],
        [[0, 1e-300], [1, 2e-300]],
        [[step, None if step % 2 else step] for step in range(400)],
        [["x", 1], [1], {}, [None, 2], [True, 3], [3, "4"], [10**12, 3]],
    ],
)
def test_odd_curves_are_drawn_or_said(points):
    given = diagnosis(curves={"frac_reward_zero_std": points, "grad_norm": [[1, 1]]})
    page = diagnosis_page.page(given)
    assert foreign(page) == [] and 1 <= len(charts(page)) <= 2
    assert not re.search(r"\b(nan|inf|None)\b", words(page)) and "nan" not in "".join(charts(page))
    known = [value for value in charts(page) if "frac_reward_zero_std" in value]
    assert known or "Not in the log: reward, frac_reward_zero_std" in words(page), "neither drawn nor said"


def leaves_of(node, path=()):
    yield path
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from leaves_of(value, (*path, key))


@pytest.mark.parametrize("value", [None, 10**400, "<i>", [1], {"x": {}}])
def test_a_diagnosis_of_another_shape_is_a_page(value, quick):
    small = diagnosis(findings=[DEAD], curves={"grad_norm": [[1, 1]]})
    paths = [path for path in leaves_of(small) if path]
    assert len(paths) > 80
    for path in paths:
        given = copy.deepcopy(small)
        inner = given
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        assert foreign(quick(given)) == [], path
    assert foreign(quick({})) == [] and not green(quick({})) and foreign(quick(value)) == []


def test_long_lists_are_cut_and_counted(quick):
    given = diagnosis(findings=[DEAD | {"rows": DEAD["rows"] * 30, "id": f"f{index}"} for index in range(130)])
    given["curves"] |= {f"rewards/{index}/mean": [[1, index]] for index in range(40)}
    given["run"]["sources"] = [f"file{index}" for index in range(5000)]
    page = quick(given)
    text = words(page)
    assert text.count("What is 2+2?") == 40 and "5 of 30" in text and "4,960 more are only in diagnosis.json" in text
    assert "f99" in text and "f100" not in text and "30 more are only in diagnosis.json" in text
    assert "and 97 more below" in text and "36 more curves are only in diagnosis.json" in text


def test_the_same_input_gives_the_same_bytes(page):
    assert diagnosis_page.page(json.loads(json.dumps(DIAGNOSIS))) == page


@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
def test_a_missing_library_is_one_line_with_the_command(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"needs {library}: pip install matplotlib jinja2"):
        diagnosis_page.page(diagnosis())


def test_colours_have_contrast_in_both_schemes():
    blocks = re.findall(r":root\{(.*?)\}", diagnosis_page.TEMPLATE, flags=re.S)
    light, dark, more_light, more_dark = (dict(re.findall(r"--(\w+):(#\w+)", block)) for block in blocks)
    for scheme in (light | more_light, dark | more_dark):
        for one, other in (("warn", "warnbg"), ("warn", "card"), ("ink", "warnbg"), ("bad", "card"), ("muted", "card")):
            assert contrast(scheme[one], scheme[other]) >= 4.5, (one, other)


# ---------------------------------------------------------------- nothing a model wrote acts


def test_hostile_texts_add_no_element_and_no_attribute(page, hostile_page, harmless_page, unescaped_page):
    assert foreign(page) == foreign(hostile_page) == []
    assert skeleton(hostile_page) == skeleton(harmless_page)
    assert {"script", "img"} <= set(foreign(unescaped_page))
    assert len(hostile_page.encode()) < 3_000_000
    found = Elements(hostile_page).found
    assert [tag for tag, _ in found].count("style") == 1 and CSP.search(page).start() < page.index("<style>")
    ids = [attributes["id"] for _, attributes in found if "id" in attributes]
    assert len(set(ids)) == len(ids) and set(re.findall(r'(?:href="|url\()#([\w-]+)', hostile_page)) <= set(ids)
    assert len(charts(hostile_page)) >= 12


def test_unseen_characters_are_shown(hostile_page, monkeypatch):
    assert raw_characters(hostile_page) == set()
    hostile_page.encode("utf-8")
    for placeholder in ("␛", "␀", "U+202E", "U+200B", "U+D800", "U+E0041", "U+0085", "U+3164"):
        assert placeholder in hostile_page
    monkeypatch.setattr(inspect_report, "pieces", lambda text: [(False, text)])
    monkeypatch.setattr(diagnosis_page, "draw", lambda *_: "")
    assert {"\x00", "\x1b", "\u202e", "\ud800"} <= raw_characters(diagnosis_page.page(hostile_input(HOSTILE)))


@needs_browser
def test_hostile_texts_do_not_act_in_a_browser(chromium, hostile_page, unescaped_page):
    dom = chromium(CSP.sub("", hostile_page), "--dump-dom")
    assert not acted(dom) and foreign(dom) == []
    assert acted(chromium(CSP.sub("", unescaped_page), "--dump-dom")), "the check sees what acts"


@needs_browser
def test_the_page_asks_for_nothing(asked, hostile_page):
    assert asked(CSP.sub("", hostile_page)) == set()  # test_inspect_report.py shows that `asked` sees a request


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_are_seen(picture, page, scheme):
    image = picture(page, scheme=scheme)
    assert not blank(image) and not blank(image[:300]), "the verdict stands at the top"
    assert (image.mean() > 0.8) if scheme == "light" else (image.mean() < 0.35)


@needs_browser
def test_a_phone_needs_no_sideways_scrolling(width, hostile_page):
    assert width(hostile_page) <= 400


@needs_browser
def test_print_is_two_pages(chromium, page, tmp_path):
    chromium(page, f"--print-to-pdf={tmp_path / 'page.pdf'}", "--no-pdf-header-footer")
    assert b"/Count 2" in (tmp_path / "page.pdf").read_bytes()
