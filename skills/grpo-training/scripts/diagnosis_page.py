"""The page behind `diagnose_run.py --html`: one HTML file that says what is wrong with a run, in the order of harm.

`page(diagnosis)` returns the whole document from what diagnosis.json holds: the verdict in words first, then the
findings, the curves they speak of, the rows to read. No script, no network, everything a model or a log file wrote is
escaped; the tools and the look are inspect_report.py's. The same input gives the same bytes.

Needs matplotlib and jinja2, imported when a page is made.
"""

from __future__ import annotations

import math
import re

import inspect_report as report
import variants
from inspect_report import CARD, FAIL, INK, NOT_MEASURED, PASS, finite, number, plain

__all__ = ["page"]

# How much of each list is on the page; what is left out is counted there.
LIMITS = {"findings": 100, "seen": 8, "causes": 8, "fix": 8, "rows": 5, "cards": 40, "not_measured": 60}
LIMITS |= {"passed": 60, "notes": 40, "sources": 40, "problems": 20, "config": 60}
LIMITS |= {"words": 700, "prompt": 1500, "completion": 3000}  # characters
PANELS, REWARD_PANELS, POINTS = 16, 6, 2000

# The curves that matter, in the order drawn: metric, what it is, whether its absence is said.
CURVES = (
    ("reward", "Reward", True),
    ("rewards/*/mean", "One reward", False),
    ("frac_reward_zero_std", "Share of dead groups", True),
    ("grad_norm", "Gradient norm", True),
    ("entropy", "Entropy (nats)", True),
    ("completions/clipped_ratio", "Share of cut answers", True),
    ("completions/mean_length", "Mean length (tokens)", True),
    ("kl", "KL to the reference", False),
    ("clip_ratio/region_mean", "Share of clipped tokens", False),
    ("sampling/importance_sampling_ratio/mean", "Weight for the sampler", False),
)
_SHARES = {"frac_reward_zero_std", "completions/clipped_ratio", "clip_ratio/region_mean"}
# A threshold of another unit (steps, rows, times the first value) is no height in a chart.
DRAWN_UNITS = {"", "share", "fraction", "ratio", "nats", "nat", "tokens", "reward", "norm", "none", "metric"}

SEVERITIES = {  # class, mark, word; the mark and the word say what the colour says
    "dead": ("bad", "✕", "dead"),
    "waste": ("warn", "!", "waste"),
    "tell": ("plain", "○", "to know"),
}
CONFIRMED = {"True": ("✓", "confirmed here"), "False": ("✕", "ruled out here")}
UNKNOWN = ("?", "unknown")


# ---------------------------------------------------------------- what was given, in our shape


def _dict(value) -> dict:
    return value if isinstance(value, dict) else {}


def _list(value, kind: type = object) -> list:
    return [one for one in value if isinstance(one, kind)] if isinstance(value, (list, tuple)) else []


def span(steps) -> tuple[float, float] | None:
    """The first and last step of a finding, or None.

    >>> span([3, 40]), span([9, 2]), span([None, 4]), span(None)
    ((3, 40), (2, 9), (4, 4), None)
    """
    known = [step for step in map(finite, _list(steps)) if step is not None]
    return (min(known), max(known)) if known else None


def in_words(steps) -> str:
    """
    >>> in_words((3, 40)), in_words((7, 7)), in_words(None)
    ('steps 3 to 40', 'step 7', '')
    """
    if not steps:
        return ""
    first, last = (f"{step:.0f}" if abs(step) < 1e15 else number(step) for step in steps)
    return f"step {first}" if first == last else f"steps {first} to {last}"


def settings(fix: dict) -> str:
    """Arguments to copy, one a line, as Python writes them; "" where the fix is words.

    >>> settings({"set": {"num_generations": 16, "scale_rewards": "none"}})
    'num_generations=16\\nscale_rewards="none"'
    """
    return "\n".join(variants.call({str(key): value}) for key, value in _dict(fix.get("set")).items())


def findings_of(diagnosis: dict) -> list[dict]:
    """The findings in their order, each with what the template needs; a part of another shape is not there."""
    found = []
    for index, one in enumerate(_list(diagnosis.get("findings"), dict)[: LIMITS["findings"]], 1):
        style, mark, word = SEVERITIES.get(str(one.get("severity")), SEVERITIES["tell"])
        seen = []
        for what in _list(one.get("seen"), dict):
            values = {key: value for key, value in _dict(what.get("values")).items() if finite(value) is not None}
            steps = span((what.get("first_step"), what.get("last_step")))
            seen.append({**what, "numbers": list(values.items())[:8], "when": in_words(steps), "steps": steps})
        steps = span(one.get("steps")) or span([step for what in seen for step in what["steps"] or ()])
        causes = [
            {**cause, "state": CONFIRMED.get(str(cause.get("confirmed")), UNKNOWN)}
            for cause in _list(one.get("causes"), dict)
        ]
        fix = [{"set": settings(part), "text": part.get("text")} for part in _list(one.get("fix"), dict)]
        found.append(
            {
                **one,
                "number": index,
                "style": style,
                "mark": mark,
                "word": word,
                "seen": seen,
                "steps": steps,
                "when": in_words(steps),
                "threshold": _dict(one.get("threshold")),
                "causes": causes,
                "fix": fix,
                "rows": _list(one.get("rows"), dict),
            }
        )
    return found


def verdict_of(diagnosis: dict, findings: list[dict]) -> dict:
    """The verdict in words: a finding weighs more than the verdict that was given, and green needs that all was
    measured."""
    run, given = _dict(diagnosis.get("run")), diagnosis.get("verdict")
    severities = {str(one.get("severity")) for one in findings}
    verdict = next((name for name in ("dead", "waste") if name == given or name in severities), given)
    gaps = len(_list(diagnosis.get("not_measured"))) + len(_list(run.get("problems")))
    if verdict == "dead":
        state, mark, word = "bad", "✕", "This run cannot learn"
        says = "Mend this before any further step is paid for."
        if run.get("state") == "running":
            says = "Stop it: more steps do not help until this is mended."
    elif verdict == "waste":
        state, mark, word = "warn", "!", "Compute is wasted"
        says = "The run may learn, but it pays for more than it needs."
    elif verdict == "ok" and not gaps:
        state, mark, word = "good", "✓", "Nothing dead, nothing wasted"
        says = "Every check that applies was made. Whether the reward is right is another question: inspect it."
    elif verdict == "ok":
        state, mark, word = "plain", "◐", "Nothing found in what was measured"
        says = f"This is no clean bill: what was not measured or not read is listed below ({gaps})."
    else:
        state, mark, word = "plain", "?", NOT_MEASURED
        says = "Nothing could be judged. Below stands what to log; then ask again."
    return {"state": state, "mark": mark, "word": word, "says": says}


# ---------------------------------------------------------------- curves


def curve_of(points) -> list[tuple[float, float | None]]:
    """(step, value) by step, None for what is no number; at most POINTS, evenly taken."""
    pairs = [tuple(pair) for pair in _list(points, (list, tuple)) if len(pair) == 2]
    pairs = [(step, _drawable(value)) for at, value in pairs if (step := _drawable(at)) is not None]
    pairs.sort(key=lambda pair: pair[0])
    every = math.ceil(len(pairs) / POINTS) or 1
    return pairs[::every]


def _drawable(value) -> float | None:
    """Beyond 1e150 the distance of two values is no float, and no axis can be drawn."""
    value = finite(value)
    return None if value is None or abs(value) > 1e150 else float(value)


def panels_of(diagnosis: dict, findings: list[dict]) -> tuple[list[dict], list[str], int]:
    """Which curves are drawn, which of the usual are not there, and how many had no place.

    Those a finding speaks of come first, with the finding's steps to shade and its threshold as a line.
    """
    curves = {str(name): curve_of(points) for name, points in _dict(diagnosis.get("curves")).items()}
    curves = {name: points for name, points in curves.items() if any(value is not None for _, value in points)}
    about: dict[str, dict] = {}
    for one in findings:
        metrics = [str(what.get("metric")) for what in one["seen"]]
        for what, metric in zip(one["seen"], metrics):
            spans = about.setdefault(metric, {"spans": {}, "limits": []})["spans"]
            if steps := what["steps"] or one["steps"]:
                spans.setdefault(steps, []).append(one["number"])
        limit, unit = _drawable(one["threshold"].get("value")), str(one["threshold"].get("unit") or "")
        metric = str(one["threshold"].get("metric") or next(iter(metrics), ""))
        if limit is not None and unit.split(" ")[0].lower() in DRAWN_UNITS and metric in about:
            about[metric]["limits"].append(limit)
    wanted: dict[str, str] = {}
    single = [name for name in curves if re.fullmatch(r"rewards/.*/mean", name, re.S)]
    single = [name for name in single if len(single) > 1 or curves[name] != curves.get("reward")]
    for metric, title, _ in CURVES:
        names = sorted(single, key=lambda name: name not in about)[:REWARD_PANELS] if "*" in metric else [metric]
        wanted |= dict.fromkeys((name for name in names if name in curves), title)
    shown = {name: wanted.get(name, "") for name in about if name in curves} | {
        name: title for name, title in wanted.items() if name not in about
    }
    for name in shown:
        if name in single:
            shown[name] = f"Reward: {plain(name.removeprefix('rewards/').removesuffix('/mean'), 40)}"
    names = list(shown)
    panels = [
        {"metric": name, "title": shown[name], "points": curves[name], "spans": {}, "limits": []} | about.get(name, {})
        for name in names[:PANELS]
    ]
    missing = [metric for metric, _, is_said in CURVES if is_said and metric not in curves]
    left_out = len(names) - len(panels) + sum(name not in shown for name in single)
    return panels, missing, left_out


def describe(panel: dict) -> str:
    """What the chart shows, for who does not see it."""
    known = [(step, value) for step, value in panel["points"] if value is not None]
    values = [value for _, value in known]
    said = f"{panel['title']} ({panel['metric']})" if panel["title"] else panel["metric"]
    said = f"{plain(said, 120)}: {in_words((known[0][0], known[-1][0]))}, from {number(values[0])} to "
    said += f"{number(values[-1])}, lowest {number(min(values))}, highest {number(max(values))}"
    if gaps := len(panel["points"]) - len(known):
        said += f"; {gaps} of {len(panel['points'])} points are no number"
    for limit in dict.fromkeys(panel["limits"]):
        said += f"; limit {number(limit)}"
    for steps, findings in panel["spans"].items():
        said += f"; finding {', '.join(map(str, dict.fromkeys(findings)))} at {in_words(steps)}"
    return said


def draw(charts, panel: dict):
    """The curve with gaps where there is no number, each limit a dashed line, each finding's steps hatched and
    numbered."""
    axes = charts.axes(height=1.75, width=3.3)
    points = panel["points"]
    known = [(step, value) for step, value in points if value is not None]
    low, high = points[0][0], points[-1][0]
    width = (high - low) or 1
    heights = [math.nan if value is None else value for _, value in points]  # the line breaks at NaN
    marker = "o" if len(points) <= 25 else ""
    axes.plot([step for step, _ in points], heights, color=PASS, linewidth=1.6, marker=marker, markersize=3)
    around = zip([None, *points], points, [*points[1:], None])
    alone = [
        one for before, one, after in around if not any(other and other[1] is not None for other in (before, after))
    ]
    axes.plot(*zip(*alone, (math.nan, math.nan)), "o", color=PASS, markersize=2)  # no line goes to them
    gaps = [step for step, value in points if value is None]
    if gaps:
        axes.plot(gaps, [0.02] * len(gaps), "x", color=FAIL, markersize=4, transform=axes.get_xaxis_transform())
    axes.yaxis.get_major_formatter().set_useOffset(False)
    values = [value for _, value in known]
    if all(value >= 0 for value in values) and max(values) <= 1 and panel["metric"] in _SHARES:
        axes.set_ylim(-0.04, 1.04)
    elif min(values) > 0 and max(values) > 1000 * min(values):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}" if value > 9999 else f"{value:g}")
        axes.yaxis.set_minor_formatter(lambda *_: "")
    ends = [end for steps in panel["spans"] for end in steps if low - width <= end <= high + width]
    margin = 0.02 * width if high > low else 1
    axes.set_xlim(min([low, *ends]) - margin, max([high, *ends]) + margin)
    for (first, last), findings in panel["spans"].items():
        thin = 0.01 * width if first == last else 0
        if first > high + width or last < low - width:
            continue
        # A band beyond the curve is cut where the chart ends.
        ends = max(first, axes.get_xlim()[0]) - thin, min(last, axes.get_xlim()[1]) + thin
        axes.axvspan(*ends, facecolor=FAIL, alpha=0.22, hatch="///", edgecolor=CARD, linewidth=0, zorder=0)
        place = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "bottom", "size": 9}
        axes.text(sum(ends) / 2, 1.01, ", ".join(map(str, dict.fromkeys(findings))), **place)
    for limit in dict.fromkeys(panel["limits"]):
        if axes.get_yscale() == "log" and limit <= 0:
            continue
        axes.axhline(limit, color=INK, linestyle="--", linewidth=1)
        axes.text(1.02, limit, f"limit\n{limit:.3g}", transform=axes.get_yaxis_transform(), va="center", size=9)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)
    axes.set(xlabel="step")
    return charts.svg(axes, describe(panel))


# ---------------------------------------------------------------- the page


def page(diagnosis: dict) -> str:
    """The whole HTML document.

    Args:
        diagnosis (`dict`): what diagnose_run.py writes as diagnosis.json, schema_version 1. A part that is missing or
            of another shape is not shown; nothing in it is believed to be harmless. `threshold["metric"]` says in which
            curve a limit is drawn, else it is the first metric of `seen`; one in steps or rows is in no curve.

    Returns:
        `str`: HTML, without script or address.

    Raises:
        ImportError: matplotlib or jinja2 is missing; the message says how to install them.
    """
    diagnosis = _dict(diagnosis)
    environment, charts = report.tools()
    run = _dict(diagnosis.get("run"))
    findings = findings_of(diagnosis)
    panels, not_drawn, left_out = panels_of(diagnosis, findings)
    with charts.look():
        for panel in panels:
            values = [value for _, value in panel["points"] if value is not None]
            panel |= {"svg": draw(charts, panel), "first": values[0], "last": values[-1]}
    verdict = verdict_of(diagnosis, findings)
    left = LIMITS["cards"]
    for one in findings:
        one["cards"] = one["rows"][: min(LIMITS["rows"], left)]
        left -= len(one["cards"])
    lists = {name: _list(diagnosis.get(name), dict) for name in ("not_measured", "passed")}
    lists |= {"notes": _list(diagnosis.get("notes"))}
    lists |= {name: _list(run.get(name)) for name in ("sources", "problems")}
    return environment.from_string(TEMPLATE).render(
        title=f"Run: {verdict['word']}",
        diagnosis=diagnosis,
        run=run,
        config=_dict(run.get("config")),
        verdict=verdict,
        findings=findings,
        count=len(_list(diagnosis.get("findings"), dict)),
        grave=sorted((one for one in findings if one["style"] != "plain"), key=lambda one: one["style"] != "bad"),
        panels=panels,
        not_drawn=not_drawn,
        left_out=left_out,
        limits=LIMITS,
        variants=list(variants.variants()),  # a command to copy holds a name of ours, or it is not there
        call=lambda key, value: variants.call({str(key): value}),
        **lists,
    )


TEMPLATE = (
    """\
{% macro said(value, limit=limits.words) %}<bdi dir="ltr">{{ value|text(limit) }}</bdi>{% endmacro %}
{% macro left(all, shown) %}{% if all > shown %}
<p class="lead">{{ (all - shown)|number }} more are only in diagnosis.json.</p>{% endif %}{% endmacro %}
{% macro tag(one) %}<span class="tag {{ one.style }}"><span aria-hidden="true">{{ one.mark }}</span> {{ one.word -}}
</span> {% endmacro %}
{% macro bounded(items, limit) %}<ul>{% for item in items[:limit] %}<li>{{ said(item) }}</li>
{% endfor %}</ul>{{ left(items|length, limit) }}{% endmacro %}
"""
    + report.HEAD.replace("<title>", '<meta name="generator" content="diagnose_run.py">\n<title>', 1)
    + """\
:root{--warn:#8a4b00;--warnbg:#fdf0dc}
@media (prefers-color-scheme:dark){:root{--warn:#ffb86b;--warnbg:#3d2c12}}
.verdict.warn{border-color:var(--warn);background:var(--warnbg)}.warn>.mark,.warn .word{color:var(--warn)}
.verdict .mark{min-width:2.6rem;text-align:center}.verdict ul.top{margin:.5rem 0 0;padding:0;list-style:none}
.top li{margin:.4rem 0}
.tag{margin-right:.1rem}.tag.warn{background:var(--warnbg);color:var(--warn)}.verdict .tag{background:var(--card)}
.finding{background:var(--card);border:1px solid var(--line);border-left:.5rem solid var(--none);border-radius:.6rem;
padding:.7rem 1rem;margin:.8rem 0}.finding.bad{border-left-color:var(--bad)}.finding.warn{border-left-color:var(--warn)}
.finding h3{margin:0;font-size:1.1rem}.finding h4{margin:.7rem 0 .1rem;font-size:.85rem;color:var(--muted)}
.finding ul,.finding ol{margin:.1rem 0;padding-left:1.3rem}.finding li{margin:.15rem 0}
.parts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(18rem,100%),1fr));gap:0 1.6rem}
.parts>div{min-width:0}
.charts{grid-template-columns:repeat(auto-fit,minmax(min(16rem,100%),1fr))}figcaption code{font-size:.85em}
.ends{white-space:nowrap;color:var(--ink)}
.row{margin-top:1.2rem}code{font-family:ui-monospace,"Liberation Mono","DejaVu Sans Mono",monospace}
.box ul{margin:.3rem 0;padding-left:1.2rem}summary{cursor:pointer;padding:.15rem 0}
summary:focus-visible{outline:.2rem solid var(--pass);outline-offset:.15rem}
@media print{html{font-size:10px}body{font-size:10px;padding:0}h2{margin:1rem 0 .2rem}h2,h3,h4{break-after:avoid}
.verdict,.finding{margin:.5rem 0;padding:.5rem .8rem}.finding{break-inside:avoid}.charts,.parts{gap:.5rem 1rem}
.parts{grid-template-columns:1fr 1.2fr 1fr}.charts{grid-template-columns:repeat(4,1fr)}figure{padding:.3rem}}
</style>
</head>
<body>
<header>
<h1>Run diagnosis: {{ said(run.folder, 120) }}</h1>
<p class="sub">{{ run.state if run.state in ("finished", "running", "stopped") else "state unknown" }}
{% if run.steps|finite is not none %} · step {{ run.steps|number }} of {{ run.max_steps|number }}{% endif %}
{% for key, name in (("rows", "log rows"), ("parquet_files", "completion files"),
("num_generations", "completions per prompt")) if run[key]|finite is not none %} · {{ run[key]|number }} {{ name }}
{% endfor %}{% if diagnosis.created %} · {{ said(diagnosis.created, 40) }}{% endif %}</p>
</header>
<main>
<section class="verdict {{ verdict.state }}" aria-label="Verdict">
<div class="mark" aria-hidden="true">{{ verdict.mark }}</div>
<div><p class="word">{{ verdict.word|shown }}</p><p>{{ verdict.says }}</p>
{% if grave %}<ul class="top">
{% for one in grave[:3] %}
<li>{{ tag(one) }}<strong>{{ one.number }}. {{ said(one.title, 200) }}</strong>
{%- if one.when %}, {{ one.when }}{% endif %}
{% if one.causes and loop.first %}<br>Most likely: {{ said(one.causes[0].cause, 200) }}
 ({{ one.causes[0].state[1] }}){% endif %}
{% if one.fix and loop.first %}{% set part = one.fix[0] %}<br>Change:
{% if part.set %}<code>{{ said(part.set|replace("\n", ", "), 200) }}</code>
{% else %}{{ said(part.text, 200) }}{% endif %}{% endif %}</li>
{% endfor %}</ul>
{% if grave|length > 3 %}<p>and {{ grave|length - 3 }} more below</p>{% endif %}{% endif %}</div>
</section>

<h2>Findings</h2>
{% for one in findings %}
<section class="finding {{ one.style }}" aria-label="Finding {{ one.number }}">
<h3>{{ tag(one) }}{{ one.number }}. {{ said(one.title, 300) }}</h3>
<p class="sub"><code>{{ said(one.id, 80) }}</code>{% if one.when %} · {{ one.when }}{% endif %}</p>
<div class="parts"><div>
<h4>Seen</h4>
{% if one.seen %}<ul>{% for what in one.seen[:limits.seen] %}<li>
{% if what.metric %}<code>{{ said(what.metric, 120) }}</code>{% endif %}
{%- if what.when %} at {{ what.when }}{% endif -%}
{% if what.text %}: {{ said(what.text) }}{% endif %} {% if what.numbers %}<small>({% for key, value in what.numbers -%}
{{ said(key, 40) }} {{ value|number }}{{ ", " if not loop.last }}{% endfor %})</small>{% endif %}</li>
{% endfor %}</ul>{{ left(one.seen|length, limits.seen) }}{% else %}<p>{{ missing }}</p>{% endif %}
<h4>Threshold</h4>
<p>{% if one.threshold.text %}{{ said(one.threshold.text) }}{% else %}{{ one.threshold.value|number }}
{{ said(one.threshold.unit or "", 40) }}{% endif %} <small>source: {{ said(one.threshold.source, 300) }}</small></p>
{% if one.not %}<h4>What it is not</h4><p>{{ said(one.not) }}</p>{% endif %}
</div><div>
<h4>Likely causes, the likeliest first</h4>
{% if one.causes %}<ol>{% for cause in one.causes[:limits.causes] %}<li>
<span aria-hidden="true">{{ cause.state[0] }}</span> <strong>{{ said(cause.cause) }}</strong>, {{ cause.state[1] }}
{%- if cause.evidence %}: {{ said(cause.evidence) }}{% endif %}
{% if cause.how_to_tell %}<br><small>how to tell: {{ said(cause.how_to_tell) }}</small>{% endif %}</li>
{% endfor %}</ol>{{ left(one.causes|length, limits.causes) }}{% else %}<p>none is known</p>{% endif %}
</div><div>
<h4>Change</h4>
{% for part in one.fix[:limits.fix] %}
{% if part.set %}<pre dir="ltr">{{ part.set|text(1500) }}</pre>{% endif %}
{% if part.text %}<p>{{ said(part.text) }}</p>{% endif %}
{% else %}<p>no setting is known to mend it</p>{% endfor %}{{ left(one.fix|length, limits.fix) }}
{% if one.variant %}<h4>Variant</h4><p>{{ said(one.variant, 80) }}{% if one.failure %}, row
<code>{{ said(one.failure, 80) }}</code> of the failure table{% endif %}</p>
{% if one.variant in variants %}
<pre dir="ltr">python scripts/variants.py emit {{ one.variant|text(80) }} --base grpo.yaml</pre>{% endif %}{% endif %}
</div></div>
</section>
{% else %}<p class="lead">None{% if verdict.state != "good" %}; see what was not measured{% endif %}.</p>{% endfor %}
{{ left(count, findings|length) }}

<h2>Curves</h2>
{% if panels %}<p class="lead">Dashed: the limit of a finding. Hatched: its steps, with its number above. &times; at the
foot: logged, but no number.</p>{% endif %}
<div class="charts">
{% for panel in panels %}
<figure>{{ panel.svg }}<figcaption>{% if panel.title %}<strong>{{ said(panel.title, 60) }}</strong><br>{% endif %}
<code>{{ said(panel.metric, 80) }}</code> <span class="ends">{{ panel.first|number }} → {{ panel.last|number -}}
</span></figcaption></figure>
{% else %}<p class="empty">{{ missing }}: no curve has a number</p>{% endfor %}
</div>
{% if not_drawn %}<p class="lead">Not in the log:
{% for metric in not_drawn %}<code>{{ metric }}</code>{{ ", " if not loop.last }}{% endfor %}.</p>{% endif %}
{% if left_out %}<p class="lead">{{ left_out }} more curves are only in diagnosis.json.</p>{% endif %}

<h2>Rows to read</h2>
{% for one in findings if one.cards %}
<details class="card"><summary>Finding {{ one.number }}, {{ said(one.title, 120) }}: {{ one.cards|length }} of
{{ one.rows|length }}</summary>
{% for row in one.cards %}
<p class="row"><strong>Row {{ row.row|number }}</strong> of {{ said(row.file, 120) }}, step
{{ row.step|number }} · reward <strong>{{ row.reward|number }}</strong> · advantage
<strong>{{ row.advantage|number }}</strong></p>
{% if row.why %}<p>{{ said(row.why) }}</p>{% endif %}
<p class="what">prompt</p><pre dir="ltr">{{ row.prompt|text(limits.prompt) }}</pre>
<p class="what">completion</p><pre dir="ltr">{{ row.completion|text(limits.completion) }}</pre>
{% endfor %}</details>
{% else %}<p class="lead">No finding points to a row.</p>{% endfor %}

<h2>Not measured</h2>
{% if not_measured %}<p class="lead">Nothing is known about these. It does not mean that they are fine.</p>
<div class="box"><table><thead><tr><th scope="col">check</th><th scope="col">why not</th>
<th scope="col">to measure it</th></tr></thead>
{% for one in not_measured[:limits.not_measured] %}<tr><th scope="row">{{ said(one.id, 80) }}</th>
<td>{{ said(one.why) }}</td><td>{{ said(one.mend) }}</td></tr>
{% endfor %}</table></div>{{ left(not_measured|length, limits.not_measured) }}
{% else %}<p class="lead">{{ "Nothing was judged" if verdict.mark == "?" else
"Every check that applies was made" }}.</p>{% endif %}

{% if notes %}<h2>Not a fault</h2>
<div class="box">{{ bounded(notes, limits.notes) }}</div>{% endif %}

<h2>What was read</h2>
{% if problems %}<div class="box"><p><strong>Could not be read:</strong></p>
{{ bounded(problems, limits.problems) }}</div>{% endif %}
<details class="card"><summary>{{ sources|length }} files</summary>{{ bounded(sources, limits.sources) }}</details>
{% if passed %}<details class="card"><summary>{{ passed|length }} checks found nothing</summary>
<ul>{% for one in passed[:limits.passed] %}<li><code>{{ said(one.id, 80) }}</code> {{ said(one.text) }}</li>
{% endfor %}</ul>{{ left(passed|length, limits.passed) }}</details>{% endif %}
{% if config %}<details class="card"><summary>{{ config|length }} settings known</summary>
<pre dir="ltr">{% for key, value in (config.items()|list)[:limits.config] %}{{ call(key, value)|text(200) }}
{% endfor %}</pre>{{ left(config|length, limits.config) }}</details>{% endif %}
</main>
</body>
</html>
"""
)
