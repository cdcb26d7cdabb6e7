"""The page behind `inspect_rewards.py report`: one HTML file a person reads before a run.

`render(record, rows)` returns the whole document: the verdict and the numbers that decide it first, then charts, then
the completions to read. It has no script, asks no network (a Content-Security-Policy says so to the browser too), and
everything a model, a dataset or a labeller wrote is escaped. The same input gives the same bytes.

Needs matplotlib and jinja2, imported when a page is rendered.
"""

from __future__ import annotations

import contextlib
import io
import math
import random
import re
import statistics
import sys
import unicodedata
from collections import Counter

__all__ = ["render"]

LABELS_NEEDED = 50  # the Inspection Rule
FULL_CARDS, CARD_CHARACTERS, PROMPT_CHARACTERS = 50, 4000, 1500
SUSPICIOUS_CARDS, SUSPICIOUS_CHARACTERS = 20, 1500
POINTS, PANELS, REWARDS_IN_CARD, EXTREMES = 2000, 12, 12, 5
MARKS = 4  # on one letter
NOT_MEASURED = "not measured"
# The page is green only where all of these were measured, whatever the record's verdict says.
DECIDING = ("agreement", "confusion", "dead_groups", "success_rate")

DICTS = (*DECIDING, "sampling", "labels", "between_labellers", "reward", "dead_groups_for", "length_reward")
KINDS = dict.fromkeys((*DICTS, "seconds_per_row", "clipped"), dict) | dict.fromkeys(("rewards", "reasons"), list)

# Invisible and still "printable" for str.isprintable: fillers, blanks and variation selectors, which can carry text.
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef"
_INVISIBLE = re.compile(f"[{_FILLERS}]")

# Drawn with these, then replaced by CSS variables, so that one picture serves dark and light.
INK, MUTED, PASS, FAIL, NONE, CARD = "#010203", "#020304", "#030405", "#040506", "#050607", "#060708"
_VARIABLES = {INK: "ink", MUTED: "muted", PASS: "pass", FAIL: "fail", NONE: "none", CARD: "card"}
_CLASSES = {"pass": (PASS, "", "o"), "fail": (FAIL, "////", "x"), "none": (NONE, "", ".")}


def finite(value) -> float | int | None:
    """The number, or None for what is none: NaN, infinity and an integer beyond any float never reach the page."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and abs(value) <= sys.float_info.max else None


def placeholder(character: str) -> str:
    """
    >>> placeholder(chr(27)), placeholder(chr(0x202E))
    ('␛', 'U+202E')
    """
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else f"U+{code:04X}"


def pieces(text: str) -> list[tuple[bool, str]]:
    """Runs of `text`: (False, what can be seen) and (True, placeholders for what would be unseen or drive the page).

    >>> pieces("a" + chr(0) + "b")
    [(False, 'a'), (True, '␀'), (False, 'b')]
    """
    runs: list[tuple[bool, list[str]]] = []
    marks = 0  # a tower of marks on one letter would paint over the lines around it
    for character in text:
        marks = marks + 1 if not character.isascii() and unicodedata.category(character) in ("Mn", "Me") else 0
        seen = character in "\n\t" or (character.isprintable() and not _INVISIBLE.match(character) and marks <= MARKS)
        if not runs or runs[-1][0] == seen:
            runs.append((not seen, []))
        runs[-1][1].append(character if seen else placeholder(character))
    return [(hidden, (" " if hidden else "").join(run)) for hidden, run in runs]


def shorten(text, limit: int) -> tuple[str, int, str]:
    """Start, number of characters cut, end: cut from the middle, because the answer stands at the end.

    >>> shorten("0123456789", 6)
    ('01', 4, '6789')
    """
    text = "" if text is None else str(text)
    if len(text) <= limit:
        return text, 0, ""
    start = limit // 3
    return text[:start], len(text) - limit, text[start - limit :]


def plain(text, limit: int = 80) -> str:
    """One line for a title or an attribute, where no markup can stand; the caller escapes it."""
    start, cut, end = shorten(text, limit)
    return " ".join("".join(part for _, part in pieces(f"{start}…{end}" if cut else start)).split())


def number(value) -> str:
    """
    >>> number(0.12345), number(12345), number(2.0), number(float("nan"))
    ('0.123', '12,345', '2', 'not measured')
    """
    value = finite(value)
    if value is None:
        return NOT_MEASURED
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3g}"


def percent(value) -> str:
    """Rounding must not turn "almost" into "all" or "none".

    >>> percent(0.94), percent(0.99996), percent(0.0004), percent(0), percent(None)
    ('94 %', 'over 99.9 %', '0.04 %', '0 %', 'not measured')
    """
    value = finite(value)
    if value is None:
        return NOT_MEASURED
    text = f"{100 * value:.3g}"
    return "over 99.9 %" if text == "100" and value < 1 else f"{text} %"


def seconds(value) -> str:
    """
    >>> seconds(0.0021), seconds(1.5), seconds(None)
    ('2.1 ms', '1.5 s', 'not measured')
    """
    value = finite(value)
    if value is None:
        return NOT_MEASURED
    return f"{number(value)} s" if value >= 1 else f"{number(1000 * value)} ms"


def measured(value) -> bool:
    """Whether a value, and all values within it, are there."""
    if isinstance(value, dict):
        return bool(value) and all(measured(inner) for inner in value.values())
    return value is not None and (not isinstance(value, float) or math.isfinite(value))


def human_label(row: dict) -> str:
    """pass, fail, or none: what a person said. Labels of agents and planted rows are no reading."""
    label = row.get("label") if row.get("kind") == "human" else None
    return label if label in ("pass", "fail") else "none"


# ---------------------------------------------------------------- charts


class Charts:
    """SVG drawings without any text of a model or a user: names stand in the HTML around them."""

    def __init__(self, matplotlib, escape, markup):
        self.matplotlib, self.escape, self.markup, self.count = matplotlib, escape, markup, 0

    @contextlib.contextmanager
    def look(self):
        """The settings to draw with."""
        with self.matplotlib.rc_context():
            self.matplotlib.rcdefaults()  # a matplotlibrc of the user's must not change the page
            colours = ("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor")
            self.matplotlib.rcParams.update(
                {"svg.fonttype": "none", "font.size": 10, "hatch.linewidth": 1.2, "hatch.color": CARD}
            )
            self.matplotlib.rcParams.update(dict.fromkeys(colours, INK))
            self.matplotlib.rcParams.update(dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), MUTED))
            yield

    def axes(self, height: float = 2.5, width: float = 4.6):
        from matplotlib.figure import Figure

        axes = Figure(figsize=(width, height), layout="constrained").add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        return axes

    def svg(self, axes, title: str):
        """The drawing as inline SVG: unique ids, variables for colours, the page's fonts, no style sheet of its own."""
        self.count += 1
        prefix, out = f"chart{self.count}", io.StringIO()
        self.matplotlib.rcParams["svg.hashsalt"] = prefix
        axes.figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        text = out.getvalue()
        box = re.search(r'viewBox="([\d. ]+)"', text).group(1)
        body = text[text.index(">", text.index("<svg")) + 1 :].strip()
        body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.S)
        body = re.sub(r'\bid="', f'id="{prefix}-', body)  # matplotlib calls the parts of every figure alike
        body = re.sub(r'(href="|url\()#', rf"\1#{prefix}-", body)
        body = re.sub(r"font-family: [^;\"]*", "font-family: var(--font)", body)
        body = re.sub(r"#0[1-6]0[2-7]0[3-8]", lambda found: f"var(--{_VARIABLES[found[0]]})", body)
        body = re.sub(r"\n\s*", "\n", body)
        title = self.escape(title)
        return self.markup(f'<svg role="img" aria-label="{title}" viewBox="{box}">\n<title>{title}</title>\n{body}')

    def distribution(self, values: dict[str, list[float]], pass_above: float | None, title: str):
        """Histogram of one reward: for each class of rows the share of its rows, so that 50 labels beside 10,000 rows
        can be seen."""
        axes, every = self.axes(), sorted({value for group in values.values() for value in group})
        drawn = {name: group for name, group in values.items() if group}
        if discrete := len(every) <= 8:
            place = {value: index for index, value in enumerate(every)}
            centres, width = list(range(len(every))), 0.8
            axes.set_xticks(centres, [f"{value:.3g}" for value in every])
            threshold = None if pass_above is None else sum(value <= pass_above for value in every) - 0.5
        else:
            low, step = every[0], (every[-1] - every[0]) / 12
            place = {value: min(11, int((value - low) / step)) for value in every}
            centres, width, threshold = [low + step * (index + 0.5) for index in range(12)], 0.9 * step, pass_above
        for index, (name, group) in enumerate(drawn.items()):
            counts = Counter(place[value] for value in group)
            colour, hatch, _ = _CLASSES[name]
            at = [centre + width * ((index + 0.5) / len(drawn) - 0.5) for centre in centres]
            heights = [100 * counts[bin_] / len(group) for bin_ in range(len(centres))]
            axes.bar(at, heights, width / len(drawn), color=colour, hatch=hatch, edgecolor=CARD, linewidth=0.5)
        if threshold is not None and (discrete or every[0] <= threshold <= every[-1]):
            axes.axvline(threshold, color=INK, linestyle="--", linewidth=1)
            axes.text(threshold, 1.01, "paid →", transform=axes.get_xaxis_transform(), ha="left", va="bottom", size=9)
        axes.set(xlabel="reward", ylabel="% of the rows so labelled" if len(drawn) > 1 else "% of the rows")
        axes.set_ylim(0, 105)
        axes.set_xlim(*((-0.6, len(every) - 0.4) if discrete else (None, None)))
        return self.svg(axes, title)

    def length_reward(self, rows: list[tuple[float, float, str]], unit: str, title: str):
        """Points of (length, reward, class), at most POINTS of them, and median and mean of all rows by length."""
        axes, dice = self.axes(3.0), random.Random(0)
        lengths, rewards = [row[0] for row in rows], [row[1] for row in rows]
        spread = 0.02 * ((max(rewards) - min(rewards)) or 1)
        labelled = [row for row in rows if row[2] != "none"]
        others = [row for row in rows if row[2] == "none"]
        labelled = dice.sample(labelled, min(len(labelled), POINTS // 2 if others else POINTS))
        points = labelled + dice.sample(others, min(len(others), POINTS - len(labelled)))
        for name in ("none", "pass", "fail"):
            colour, _, marker = _CLASSES[name]
            some = [(x, y + dice.uniform(-spread, spread)) for x, y, kind in points if kind == name]
            edge = {} if marker == "x" else {"edgecolors": "none"}
            axes.scatter(
                *(zip(*some) if some else ([], [])),
                s=20 if len(points) > 300 else 40,
                c=colour,
                marker=marker,
                alpha=0.6,
                **edge,
            )
        size, bins, last = math.ceil(len(rows) / 8), [[]], None
        for x, y in sorted(zip(lengths, rewards)):  # eight parts; equal lengths stay in one
            if len(bins[-1]) >= size and x != last:
                bins.append([])
            bins[-1].append((x, y))
            last = x
        middle = [statistics.median(x for x, _ in part) for part in bins]
        for average, style in ((statistics.median, "-"), (statistics.fmean, ":")):
            heights = [average(y for _, y in part) for part in bins]
            axes.plot(middle, heights, style, color=INK, linewidth=1.8, marker="o", markersize=3)
        log = min(lengths) > 0 and max(lengths) > 20 * statistics.median(lengths)
        if log:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")  # the default is mathematics, with its fonts
            axes.xaxis.set_minor_formatter(lambda *_: "")
        axes.set(xlabel=f"length in {unit}{' (log scale)' if log else ''}", ylabel="total reward")
        return self.svg(axes, title)

    def groups(self, groups: list[tuple[int, int, bool]], title: str):
        """Bars of how many groups have 0..G paid completions; each group is (paid, size, dead)."""
        axes, largest = self.axes(), max(size for _, size, _ in groups)
        by_share = largest > 24
        counts = {dead: Counter() for dead in (False, True)}
        for paid, size, dead in groups:
            counts[dead][round(10 * paid / size) if by_share else paid] += 1
        at = list(range(11 if by_share else largest + 1))
        below = [0] * len(at)
        for dead, colour, hatch in ((False, PASS, ""), (True, FAIL, "////")):
            heights = [counts[dead][index] for index in at]
            axes.bar(at, heights, 0.8, bottom=below, color=colour, hatch=hatch, edgecolor=CARD, linewidth=0.5)
            below = [one + other for one, other in zip(below, heights)]
        if by_share:
            axes.set_xticks(at, [f"{10 * index}%" for index in at])
        elif largest <= 16:
            axes.set_xticks(at)
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.set(xlabel="paid completions in the group", ylabel="groups")
        return self.svg(axes, title)

    def expected_dead(self, shares: dict[int, float], size: int | None, title: str):
        axes = self.axes()
        at = range(len(shares))
        hatches = ["" if key == size else "////" for key in shares]
        bars = axes.bar(at, [100 * share for share in shares.values()], 0.6, color=FAIL, edgecolor=CARD, linewidth=0.5)
        for bar, hatch in zip(bars, hatches):
            bar.set_hatch(hatch)
        axes.bar_label(bars, [f"{100 * share:.0f}%" for share in shares.values()], padding=2)
        axes.set_xticks(at, [f"{key}\n(now)" if key == size else str(key) for key in shares])
        axes.set(xlabel="num_generations", ylabel="% of groups dead", ylim=(0, 112))
        return self.svg(axes, title)


def group_facts(rows: list[dict], pass_above: float) -> list[tuple[int, int, bool]]:
    """(paid, scored, dead) of each group with two scored completions or more; dead = all totals equal."""
    totals: dict = {}
    for row in rows:
        if (total := finite(row.get("total"))) is not None:
            totals.setdefault(row.get("group"), []).append(total)
    return [
        (sum(total > pass_above for total in group), len(group), min(group) == max(group))
        for group in totals.values()
        if len(group) > 1
    ]


def draw(charts: Charts, record: dict, rows: list[dict], names: list[str]) -> dict:
    """All charts, as {part: [(name or None, svg)]}; a part without data is empty."""
    pass_above, found = finite(record.get("pass_above")), {}

    def by_class(value_of) -> dict[str, list[float]]:
        values = {name: [] for name in _CLASSES}
        for row in rows:
            if (value := finite(value_of(row))) is not None:
                values[human_label(row)].append(value)
        return values

    totals = by_class(lambda row: row.get("total"))
    single = [(row.get("rewards") or {}).get(names[0]) for row in rows] if len(names) == 1 else []
    panels = [("total", totals, pass_above)]
    if single != [row.get("total") for row in rows]:
        panels += [(name, by_class(lambda row: (row.get("rewards") or {}).get(name)), None) for name in names[:PANELS]]  # noqa: B023
    found["distribution"] = [
        (name, charts.distribution(values, threshold, f"Distribution of {plain(name)}") if any(values.values()) else "")
        for name, values, threshold in panels
    ]
    points = [
        (length, total, human_label(row))
        for row in rows
        if (length := finite(row.get("length"))) is not None and (total := finite(row.get("total"))) is not None
    ]
    units = {row.get("length_unit") for row in rows}
    unit = units.pop() if units in ({"tokens"}, {"words"}) else "tokens or words"
    found["length"] = charts.length_reward(points, unit, "Length against total reward") if points else ""
    found["points"], found["drawn"] = len(points), min(len(points), POINTS)
    facts = group_facts(rows, pass_above) if pass_above is not None else []
    found["groups"] = charts.groups(facts, "How many groups have how many paid completions") if facts else ""
    found["group_count"], found["dead_count"] = len(facts), sum(dead for _, _, dead in facts)
    given = record.get("dead_groups_for") or {}
    given = {int(key): finite(share) for key, share in given.items() if str(key).isdecimal()}
    shares = {key: given[key] for key in sorted(given) if given[key] is not None}
    found["not_expected"] = sorted(given.keys() - shares.keys())
    title = "Expected share of dead groups for other num_generations"
    found["expected"] = charts.expected_dead(shares, record.get("group_size"), title) if shares else ""
    return found


# ---------------------------------------------------------------- what the page says


def verdict_of(record: dict) -> dict:
    """The record's verdict, and the colour it may have: green needs every deciding number."""
    word = record.get("verdict") if record.get("verdict") in ("pass", "fail") else NOT_MEASURED
    missing = [name.replace("_", " ") for name in DECIDING if not measured(record.get(name))]
    if finite((record.get("labels") or {}).get("human")) is None:
        missing.append("human labels")
    says = {
        "pass": "A person's labels and the reward agree. Size the run and rehearse it next.",
        "fail": "Do not train with this reward. Mend the reward, not the hyperparameters, and inspect again.",
        NOT_MEASURED: "Nothing here says that the reward is right. No run before it is measured.",
    }
    state = {"pass": "plain" if missing else "good", "fail": "bad"}.get(word, "plain")
    if word == "pass" and missing:
        says["pass"] = f"The record says pass, but this was not measured: {', '.join(missing)}. Take it for no pass."
    read = finite((record.get("labels") or {}).get("human")) or 0
    following = ""
    if word != "fail" and read < LABELS_NEEDED:
        following = (
            f"Next: a person reads {LABELS_NEEDED - read:.0f} more of the completions drawn at random, beside what the "
            "reward gave them, and labels each pass, fail or unsure. An agent does not label in their place. Then "
            "write this report again."
        )
    mark = {"good": "✓", "bad": "✕"}.get(state, "?")
    return {"word": word, "state": state, "mark": mark, "says": says[word], "next": following}


def tiles_of(record: dict, state: str) -> list[dict]:
    """The four numbers that decide. A tile is green only on a green page; bad is bad on any."""
    agreement, labels = record.get("agreement") or {}, record.get("labels") or {}
    dead, success = record.get("dead_groups") or {}, record.get("success_rate") or {}
    value, threshold, low = (finite(agreement.get(key)) for key in ("value", "threshold", "low"))
    read, dead_value, rate = (finite(one) for one in (labels.get("human"), dead.get("value"), success.get("value")))

    def tile(name, big, lines, good: bool | None, bar=None):
        """`good` None: nothing to judge by."""
        shade = "plain" if good is None else ("good" if state == "good" else "plain") if good else "bad"
        word = {True: "✓", False: "✕", None: ""}[good]
        return {"name": name, "big": big, "lines": lines, "state": shade, "mark": word, "bar": bar}

    def bar(of: dict, value, tick=None):
        ends = [finite(of.get("low")), finite(of.get("high"))]
        low, high = (value if end is None else end for end in ends)
        if value is None:
            return None
        place = {"value": value, "low": low, "width": high - low, "tick": tick}
        return {key: None if at is None else round(100 * min(1, max(0, at)), 2) for key, at in place.items()}

    met = None if value is None or threshold is None else value >= threshold
    by = success.get("by")
    judge = {"human": "a person", "reward": "the reward", "None": NOT_MEASURED}.get(str(by)) or plain(by)
    guide = "0 = teach it first by SFT; near 1 = nothing to learn"
    wide = met and low is not None and low < threshold
    interval = f"95 % interval {percent(agreement.get('low'))} to {percent(agreement.get('high'))}"
    return [
        tile(
            "Reward agrees with the person",
            percent(value),
            ["needs labels of a person on completions drawn at random"]
            if not agreement
            else [
                f"needed: {percent(threshold)}; {number(agreement.get('n'))} labels",
                interval + (", which reaches below what is needed" if wide else ""),
            ],
            met,
            bar(agreement, value, threshold),
        ),
        tile(
            "Read by a person",
            NOT_MEASURED if read is None else f"{read:,.0f} / {LABELS_NEEDED}",
            [
                f"of them drawn at random: {number(labels.get('random_part'))}, picked as suspicious: "
                f"{number(labels.get('suspicious_part'))}, unsure: {number(labels.get('unsure'))}"
            ],
            None if read is None else read >= LABELS_NEEDED,
            None if read is None else {"value": round(min(100, 100 * read / LABELS_NEEDED), 2), "fill": True},
        ),
        tile(
            "Dead groups",
            percent(dead_value),
            [f"of {number(dead.get('n'))} groups; all rewards equal, so nothing to learn. Under 50 % is our judgement"],
            None if dead_value is None else dead_value < 0.5,
            bar({}, dead_value),
        ),
        tile(
            "Success before training",
            percent(rate),
            [guide]
            if not success
            else [
                f"95 % interval {percent(success.get('low'))} to {percent(success.get('high'))}; "
                f"{number(success.get('n'))} completions, judged by {judge}",
                plain(success.get("reading") or f"reading: {NOT_MEASURED}", 300),
                guide,
            ],
            None if rate is None else (False if rate in (0, 1) else None),
            bar(success, rate),
        ),
    ]


def disagreements_of(rows: list[dict], pass_above: float | None) -> list[dict]:
    """Labelled rows whose reward says otherwise: a person's labels first, and paid but fail first, as that is what a
    policy exploits."""
    found = []
    for row in rows:
        label, total = row.get("label"), finite(row.get("total"))
        if label in ("pass", "fail") and total is not None and pass_above is not None:
            paid = total > pass_above
            if paid != (label == "pass"):
                found.append((row.get("kind") != "human", not paid, -total if paid else total, row))
    found.sort(key=lambda item: item[:3])
    return [{**row, "paid": not unpaid} for _, unpaid, _, row in found]


def extremes_of(rows: list[dict], pass_above: float | None) -> list[tuple[str, list[dict]]]:
    def top(key: str, of: list[dict], reverse=True) -> list[dict]:
        of = [row for row in of if finite(row.get(key)) is not None]
        return sorted(of, key=lambda row: row[key], reverse=reverse)[:EXTREMES]

    paid = [row for row in rows if pass_above is not None and (finite(row.get("total")) or -math.inf) > pass_above]
    broken = [row for row in rows if row.get("error")]
    tables = [
        ("The longest", top("length", rows)),
        ("The shortest that were paid", top("length", paid, reverse=False)),
        ("The slowest to score", top("seconds", rows)),
        (f"A reward failed on {len(broken):,}, of them", broken[:EXTREMES]),
    ]
    return [(name, table) for name, table in tables if table]


def _libraries():
    try:
        import jinja2
        import markupsafe
        import matplotlib
    except ImportError as error:
        raise ImportError(f"the report needs {error.name}: pip install matplotlib jinja2") from None
    return jinja2, markupsafe, matplotlib


def tools():
    """What a page is made with: the jinja2 environment, which escapes and has the filters, and a Charts. ImportError
    names what is missing."""
    jinja2, markupsafe, matplotlib = _libraries()
    markup, escape = markupsafe.Markup, markupsafe.escape
    missing = markup(f'<span class="nm">{NOT_MEASURED}</span>')

    def text(value, limit: int = CARD_CHARACTERS):
        """A model's text as HTML: escaped, invisible characters as marked placeholders, the middle cut out."""
        if value is None:
            return missing

        def part(some: str) -> str:
            return "".join(f"<b>{escape(run)}</b>" if hidden else str(escape(run)) for hidden, run in pieces(some))

        start, cut, end = shorten(value, limit)
        said = f" … {cut:,} characters cut … " if limit >= 500 else "…"  # names and excerpts need no count
        middle = f'<em class="cut">{said}</em>' if cut else ""
        return markup(part(start) + middle + part(end))

    def shown(said: str):
        """One of our own sentences, with "not measured" in its neutral style."""
        return markup(str(escape(said)).replace(NOT_MEASURED, str(missing)))

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.Undefined)
    filters = {"number": number, "percent": percent, "seconds": seconds}
    environment.filters.update({name: lambda value, make=make: shown(make(value)) for name, make in filters.items()})
    environment.filters.update(text=text, shown=shown, finite=finite)
    environment.globals["missing"] = missing
    return environment, Charts(matplotlib, escape, markup)


def render(record: dict, rows: list[dict]) -> str:
    """The whole HTML document. `record` is what inspection.json holds, None in it means not measured; `rows` are the
    scored completions. ValueError: there are no rows. ImportError: matplotlib or jinja2 is missing."""
    if not rows:
        raise ValueError("no rows: a report needs at least one scored completion")
    # A record somebody edited: what has another shape than ours was not measured.
    record = {key: value if isinstance(value, KINDS.get(key, object)) else None for key, value in record.items()}
    environment, charts = tools()
    names = [str(name) for name in record.get("rewards") or (rows[0].get("rewards") or {})]
    pass_above = finite(record.get("pass_above"))
    disagreements = disagreements_of(rows, pass_above)
    suspicious = [row for row in rows if row.get("part") == "suspicious" and row.get("label") is None]
    with charts.look():
        charts = draw(charts, record, rows, names)
    verdict = verdict_of(record)
    return environment.from_string(TEMPLATE).render(
        record=record,
        labels=record.get("labels") or {},
        verdict=verdict,
        tiles=tiles_of(record, verdict["state"]),
        names=names,
        charts=charts,
        panels=PANELS,
        classes=Counter(human_label(row) for row in rows),
        disagreements=disagreements[:FULL_CARDS],
        disagreement_count=len(disagreements),
        comparable=pass_above is not None and any(row.get("label") in ("pass", "fail") for row in rows),
        suspicious=suspicious[:SUSPICIOUS_CARDS],
        suspicious_count=len(suspicious),
        extremes=extremes_of(rows, pass_above),
        limits={"prompt": PROMPT_CHARACTERS, "suspicious": SUSPICIOUS_CHARACTERS, "rewards": REWARDS_IN_CARD},
        full=CARD_CHARACTERS,
        title=f"Reward inspection: {verdict['word']}",
    )


# The start of this page and of diagnosis_page.py: policy, colours, style; it ends inside <style>.
HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{ title }}</title>
<style>
:root{--font:system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans","DejaVu Sans",sans-serif;--bg:#f4f5f7;
--card:#fff;--ink:#16191d;--muted:#565e69;--line:#d5d9df;--pass:#0067a8;--fail:#c85200;--none:#7d8590;--good:#00704f;
--bad:#b3261e;--goodbg:#e2f4ec;--badbg:#fce9e7;--plainbg:#e9ebee}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--card:#1d2126;--ink:#e8eaed;--muted:#a3abb6;--line:#394049;
--pass:#56b4e9;--fail:#ff9a4d;--none:#8b949e;--good:#4fd1a1;--bad:#ff8a80;--goodbg:#12352a;--badbg:#431d1b;
--plainbg:#2a2f36}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1rem;background:var(--bg);color:var(--ink);
font:16px/1.45 var(--font);overflow-wrap:anywhere}
h1{font-size:1.15rem;margin:0}h2{font-size:1.2rem;margin:2rem 0 .3rem}h3{font-size:1rem;margin:1rem 0 .3rem}
p{margin:.3rem 0}.sub,small,figcaption,.lead{color:var(--muted)}
.verdict,.tile,figure,.card,.box{background:var(--card);border:1px solid var(--line);border-radius:.6rem}
.verdict{display:flex;gap:1rem;padding:1rem 1.2rem;margin:.8rem 0;border-left:.7rem solid var(--none)}
.verdict>div,.tile{min-width:0}.verdict .mark{flex:none;font-size:3rem;line-height:1;font-weight:700}
.verdict .word{font-size:2rem;line-height:1.1;font-weight:700;margin:0}.verdict .word .nm{font-weight:700;color:inherit}
.verdict .word::first-letter{text-transform:uppercase}.verdict ul{margin:.4rem 0;padding-left:1.2rem}
.verdict.good{border-color:var(--good);background:var(--goodbg)}
.verdict.bad{border-color:var(--bad);background:var(--badbg)}
.verdict.plain{background:var(--plainbg)}
.good>.mark,.good .word{color:var(--good)}.bad>.mark,.bad .word{color:var(--bad)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.8rem}
.tile{padding:.7rem .9rem;border-top:.3rem solid var(--none)}.tile.good{border-top-color:var(--good)}
.tile.bad{border-top-color:var(--bad)}.tile h2{font-size:.95rem;font-weight:600;margin:0}
.tile .big{font-size:1.9rem;font-weight:700;line-height:1.2;margin:.1rem 0}.tile.good .big{color:var(--good)}
.tile.bad .big{color:var(--bad)}.tile p{font-size:.88rem}.big .nm{font-size:1.3rem}
.bar{position:relative;height:.7rem;margin:.5rem 0;background:var(--plainbg);border-radius:.2rem}
.bar i{position:absolute;top:0;bottom:0}.bar .span{background:var(--none);opacity:.6;min-width:2px}
.bar .dot{width:4px;margin-left:-2px;background:var(--ink)}.bar .fill{left:0;background:var(--none)}
.bar .tick{top:-.3rem;bottom:-.3rem;border-left:2px dashed var(--ink)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(19rem,100%),1fr));gap:.8rem;align-items:start}
figure{margin:0;padding:.6rem;min-width:0;max-width:36rem}figure svg{display:block;width:100%;height:auto}
svg *{stroke-linejoin:round;stroke-linecap:butt}figcaption{font-size:.88rem}figcaption strong{color:var(--ink)}
.legend{font-size:.9rem;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;margin:.3rem 0 .6rem}
.sw{display:inline-block;width:1.1rem;height:.8rem;margin-right:.35rem;background:var(--none)}.sw.pass{background:var(--pass)}
.sw.fail{background:repeating-linear-gradient(135deg,var(--fail) 0 4px,var(--card) 4px 5px)}
.box{padding:.3rem .9rem;overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600}tr:last-child>*{border-bottom:0}.box thead th{color:var(--muted)}
.confusion td{font-size:1.5rem;font-weight:700;width:36%}.confusion td,.confusion thead th{padding-left:.6rem}
.confusion td small{display:block;font-size:.85rem;font-weight:400}.confusion td.wrong{background:var(--badbg)}
.confusion .nm{font-size:1rem}thead th,.num td{white-space:nowrap}.num tr th:first-child{min-width:9rem}
.charts+.box,.lead+.box{margin-top:.8rem}
.extremes td:last-child{min-width:14rem}.extremes td{white-space:normal}.facts th{width:40%;min-width:8rem}
.nm{color:var(--muted);font-style:italic;font-weight:400}.empty{padding:1.5rem .5rem}
.card{margin:.5rem 0;padding:.5rem .9rem}.card summary{cursor:pointer}
.tag{display:inline-block;font-weight:600;padding:0 .5rem;margin-right:.4rem;border-radius:.3rem;
background:var(--plainbg)}
.tag.bad{background:var(--badbg);color:var(--bad)}
.what,.note span{color:var(--muted);font-size:.85rem;margin:.5rem 0 .1rem}
.rewards{margin:.4rem 0;padding-left:1.2rem;font-size:.92rem}
pre,bdi{unicode-bidi:isolate;direction:ltr}
pre{white-space:pre-wrap;overflow:hidden;tab-size:4;margin:0;padding:.5rem .7rem;background:var(--bg);
border:1px solid var(--line);border-radius:.3rem;
font:.88rem/1.45 ui-monospace,"Liberation Mono","DejaVu Sans Mono",monospace}
pre b,bdi b{font-weight:400;font-size:.85em;border:1px solid var(--none);border-radius:.2rem;padding:0 .15em}
.cut{background:var(--plainbg);font-style:normal}
@media (max-width:34rem){body{padding:.6rem}.verdict{padding:.8rem;gap:.7rem}.verdict .mark{font-size:2.2rem}
.verdict .word{font-size:1.6rem}.tiles{grid-template-columns:1fr 1fr;gap:.5rem}.tile{padding:.5rem .6rem}
.tile .big{font-size:1.5rem}.tile h2,.tile p{font-size:.82rem}}
@media print{body{max-width:none;font-size:12px}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
.verdict,.tile,figure,tr{break-inside:avoid}}
"""

TEMPLATE = (
    """\
{% macro fact(name, value, note="") %}
<tr><th scope="row">{{ name }}</th><td>{{ value }}{% if note %} <small>{{ note }}</small>{% endif %}</td></tr>
{% endmacro %}
{% macro figure(svg, caption, empty) %}
<figure>{% if svg %}{{ svg }}{% else %}<p class="empty">{{ missing }}: {{ empty }}</p>{% endif %}
<figcaption>{{ caption }}</figcaption></figure>
{% endmacro %}
{% macro card(row, limit, open) %}
<details class="card"{% if open %} open{% endif %}>
<summary><span class="tag {{ "bad" if row.paid else "plain" }}">
{%- if row.paid is not defined %}not read yet{% else %}{{ "paid, but labelled fail" if row.paid else
"not paid, but labelled pass" }}{% endif %}</span>
<span>row <bdi dir="ltr">{{ row.id|text(40) }}</bdi> · total {{ row.total|number }}{% if row.label is not none
%} · label by {{ {"human": "a person", "agent": "an agent", "synthetic": "construction"}[row.kind]|default(missing)
}}{% endif %}</span></summary>
{% if row.note %}<p class="note"><span>note</span> <bdi dir="ltr">{{ row.note|text(500) }}</bdi></p>{% endif %}
{% if row.error %}<p class="note"><span>error</span> <bdi dir="ltr">{{ row.error|text(500) }}</bdi></p>{% endif %}
<ul class="rewards">
{% for name, value in ((row.rewards or {}).items()|list)[:limits.rewards] %}
<li><bdi dir="ltr">{{ name|text(80) }}</bdi> <strong>{{ value|number }}</strong>
{%- set reason = (row.reasons or {})[name] %}{% if reason %} <bdi dir="ltr">{{ reason|text(200) }}</bdi>{% endif %}</li>
{% endfor %}
</ul>
<details class="what"><summary>prompt</summary><pre dir="ltr">{{ row.prompt|text(limits.prompt) }}</pre></details>
<p class="what">completion, {{ row.length|number }} {{ row.length_unit|text(10) }}
{%- if row.clipped %}, clipped at max_tokens{% endif %}</p><pre dir="ltr">{{ row.completion|text(limit) }}</pre>
</details>
{% endmacro %}
"""
    + HEAD
    + """\
@media print{details::details-content{content-visibility:visible}}
</style>
</head>
<body>
<header>
<h1>Reward inspection</h1>
<p class="sub"><bdi dir="ltr">{{ record.created|text(40) }}</bdi> · {{ record.rows|number }} completions ·
{{ record.groups|number }} groups of {{ record.group_size|number }} · rewards:
{% for name in names[:limits.rewards] %}<bdi dir="ltr">{{ name|text(60) }}</bdi>{{ ", " if not loop.last }}
{% endfor %}{% if names|length > limits.rewards %} and {{ names|length - limits.rewards }} more{% endif %}
{% if record.rewards is none or not names %}{{ missing }}{% endif %}</p>
</header>
<section class="verdict {{ verdict.state }}" aria-label="Verdict">
<div class="mark" aria-hidden="true">{{ verdict.mark }}</div>
<div><p class="word">{{ verdict.word|shown }}</p><p>{{ verdict.says|shown }}</p>
{% if record.reasons %}<ul>{% for reason in record.reasons[:12] %}<li><bdi dir="ltr">{{ reason|text(300) }}</bdi></li>
{% endfor %}</ul>{% elif record.reasons is not defined or record.reasons is none %}
<p>reasons: {{ missing }}</p>{% endif %}
{% if verdict.next %}<p><strong>{{ verdict.next }}</strong></p>{% endif %}</div>
</section>
<section class="tiles" aria-label="The numbers that decide">
{% for tile in tiles %}
<div class="tile {{ tile.state }}"><h2>{{ tile.name }}</h2>
<p class="big">{{ tile.big|shown }}{% if tile.mark %} <span aria-hidden="true">{{ tile.mark }}</span>{% endif %}</p>
{% if tile.bar %}<div class="bar" aria-hidden="true">{% if tile.bar.fill %}
<i class="fill" style="width:{{ tile.bar.value }}%"></i>{% else %}
<i class="span" style="left:{{ tile.bar.low }}%;width:{{ tile.bar.width }}%"></i>
<i class="dot" style="left:{{ tile.bar.value }}%"></i>{% if tile.bar.tick is not none
%}<i class="tick" style="left:{{ tile.bar.tick }}%"></i>{% endif %}{% endif %}</div>{% endif %}
{% for line in tile.lines %}<p>{{ line|shown }}</p>
{% endfor %}</div>
{% endfor %}
</section>

<h2>Where label and reward differ</h2>
{% set c = record.confusion or {} %}
<p class="lead">Labels of a person on the part drawn at random. Paid = total above {{ record.pass_above|number }}.</p>
<div class="box"><table class="confusion">
<thead><tr><td></td><th scope="col">labelled pass</th><th scope="col">labelled fail</th></tr></thead>
<tr><th scope="row">paid</th><td>{{ c.paid_pass|number }}<small>paid and right</small></td>
<td{% if c.paid_fail|finite %} class="wrong"{% endif %}>{{ c.paid_fail|number }}
<small>paid though wrong: what a policy will learn</small></td></tr>
<tr><th scope="row">not paid</th><td{% if c.unpaid_pass|finite %} class="wrong"{% endif %}>{{ c.unpaid_pass|number }}
<small>right but unpaid</small></td>
<td>{{ c.unpaid_fail|number }}<small>unpaid and wrong</small></td></tr></table></div>

<h2>Rewards</h2>
<p class="lead">A good reward pays what the person passed, and puts the rest on the left.</p>
<p class="legend">{% for key, name in (("pass", "a person says pass"), ("fail", "a person says fail"),
("none", "no pass or fail by a person")) if classes[key] %}
<span><i class="sw {{ key }}"></i>{{ name }}: {{ classes[key]|number }}</span>{% endfor %}</p>
<div class="charts">
{% for name, svg in charts.distribution %}
<figure>{% if svg %}{{ svg }}{% else %}<p class="empty">{{ missing }}: no row has this reward</p>{% endif %}
<figcaption><strong><bdi dir="ltr">{{ name|text(80) }}</bdi></strong></figcaption></figure>
{% endfor %}
</div>
{% if names|length > panels %}<p class="lead">{{ names|length - panels }} more are only in the table.</p>{% endif %}
<div class="box"><table class="num">
<thead><tr><th>reward</th><th>mean</th><th>min</th><th>max</th><th>scored</th><th>abstained</th>
<th>errors</th></tr></thead>
{% for name in names %}{% set r = (record.reward or {})[name] or {} %}
<tr><th scope="row"><bdi dir="ltr">{{ name|text(80) }}</bdi></th>
{% for key in ("mean", "min", "max", "scored", "abstained", "errors") %}<td>{{ r[key]|number }}</td>{% endfor %}</tr>
{% endfor %}</table></div>

<h2>Length and groups</h2>
<div class="charts">
{% set caption %}<strong>Length against reward.</strong> Solid line: median, dotted: mean, of all rows, by
length. ● pass, &times; fail, grey: no label by a person.
{% if charts.drawn < charts.points %}{{ charts.drawn|number }} of {{ charts.points|number }} rows are drawn.
{% endif %}Points are moved a little, so that
equal ones can be seen.{% endset %}
{{ figure(charts.length, caption, "no row has a length and a reward") }}
{% set caption %}<strong>Paid completions per group.</strong> <i class="sw fail"></i>dead (all rewards equal):
{{ charts.dead_count|number }} of {{ charts.group_count|number }}; <i class="sw pass"></i>alive.{% endset %}
{{ figure(charts.groups, caption, "no group has two scored completions") }}
{% set caption %}<strong>Dead groups to expect</strong> for other num_generations, with the success rates seen
here.{% if charts.not_expected %} For {{ charts.not_expected|join(", ") }}: {{ missing }}.{% endif %}{% endset %}
{{ figure(charts.expected, caption, "needs success rates per group") }}
</div>

<h2>What else was measured</h2>
{% set b = record.between_labellers or {} %}{% set l = record.length_reward or {} %}
{% set s = record.seconds_per_row or {} %}{% set k = record.clipped or {} %}{% set p = record.sampling or {} %}
<div class="box"><table class="facts">
{{ fact("Cohen's kappa", record.kappa|number, "agreement beyond chance: 1 = full, 0 = chance") }}
{% set two %}{{ b.agreement|percent }}, kappa {{ b.kappa|number }}, {{ b.n|number }} rows,
{% if b.labellers is iterable %}
{% for who in (b.labellers|list)[:6] %}<bdi dir="ltr">{{ who|text(40) }}</bdi>{{ ", " if not loop.last }}
{% endfor %}{% else %}labellers {{ missing }}{% endif %}{% endset %}
{{ fact("Between two labellers", two if b else missing) }}
{% set value %}{{ l.spearman|number }} (p {{ l.p|number }}, {{ l.n|number }} rows){% endset %}
{{ fact("Length against reward, Spearman", value if l else missing, "above 0: longer is paid more") }}
{% set value %}{{ k.value|percent }} of {{ k.n|number }} rows{% endset %}
{{ fact("Clipped at max_tokens", value if k else missing) }}
{% set value %}median {{ s.median|seconds }}, 95 % under {{ s.p95|seconds }}, longest {{ s.max|seconds }}{% endset %}
{{ fact("Time to score a row", value if s else missing) }}
{% set value %}{{ labels.human|number }} by a person, {{ labels.agent|number }} by an agent,
{{ labels.synthetic|number }} by construction; at random: {{ labels.unsure|number }} unsure,
{{ labels.disputed|number }} disputed; {{ labels.changed_after_reveal|number }} changed after the reward showed
(the first counts){% endset %}
{{ fact("Labels", value, "only a person's count") }}
{% set value %}{% if labels.labellers is mapping and labels.labellers %}
{% for who, count in (labels.labellers.items()|list)[:12] %}
<bdi dir="ltr">{{ who|text(40) }}</bdi> {{ count|number }}{{ ", " if not loop.last }}{% endfor %}{% else %}{{ missing }}
{% endif %}{% endset %}
{{ fact("Labellers", value) }}
{% set value %}<bdi dir="ltr">{{ p.source|text(200) }}</bdi>; model <bdi dir="ltr">{{ p.model|text(120) }}</bdi>;
temperature {{ p.temperature|number }}; max_tokens {{ p.max_tokens|number }};
num_generations {{ p.num_generations|number }}
{% endset %}
{{ fact("Sampling", value if p else missing) }}
{% set value %}<bdi dir="ltr">{{ record.fingerprint|text(120) }}</bdi>,
schema {{ record.schema_version|number }}{% endset %}
{{ fact("Record", value) }}
</table></div>

<h2>Read these first: disagreements</h2>
{% if not comparable %}<p>{{ missing }}: no row has both a label and a threshold to compare with.</p>
{% elif not disagreements %}<p>Every label agrees with the reward.</p>
{% else %}<p class="lead">{{ disagreements|length|number }} of {{ disagreement_count|number }}, paid but fail first,
then right but unpaid; a person's labels before all others. Each is understood, or the reward is mended.</p>
{% for row in disagreements %}{{ card(row, full, loop.index <= 3) }}{% endfor %}{% endif %}

<h2>Suspicious and not read yet</h2>
{% if suspicious %}<p class="lead">{{ suspicious|length|number }} of {{ suspicious_count|number }}.</p>
{% for row in suspicious %}{{ card(row, limits.suspicious, false) }}{% endfor %}
{% else %}<p class="lead">No such row.</p>{% endif %}

{% if extremes %}<h2>Extremes</h2>{% endif %}

{% for name, table in extremes %}
<h3>{{ name }}</h3>
<div class="box"><table class="extremes"><thead><tr><th>row</th><th>length</th><th>total</th><th>label</th><th>time</th>
<th>completion</th></tr></thead>
{% for row in table %}<tr><td><bdi dir="ltr">{{ row.id|text(40) }}</bdi></td><td>{{ row.length|number }}</td>
<td>{{ row.total|number }}</td><td>{{ row.label|text(10) if row.label else "no label" }}</td>
<td>{{ row.seconds|seconds }}</td>
<td><bdi dir="ltr">{{ row.completion|text(160) }}</bdi>{% if row.error %}<br><small>error: <bdi dir="ltr">
{{- row.error|text(200) }}</bdi></small>{% endif %}</td></tr>
{% endfor %}</table></div>
{% endfor %}
</body>
</html>
"""
)
