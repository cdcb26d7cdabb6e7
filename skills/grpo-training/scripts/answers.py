"""How the rewards read a number, a choice or an expression from the answer of a completion.

They take a text after `rewards._normalize` (NFKC that keeps superscripts, one kind of minus, single blanks, no emphasis
or box around it). They are strict: what is not one number, one letter or one expression is none, because a policy is
paid for whatever is read here.
"""

from __future__ import annotations

import fractions
import functools
import re
import typing

__all__ = ["choice_in", "comparable", "expression", "read_number", "same_number", "settled"]

_CURRENCY = {"$": "$", "us$": "$", "usd": "$", "dollar": "$", "\u20ac": "\u20ac", "eur": "\u20ac", "euro": "\u20ac",
             "\u00a3": "\u00a3", "gbp": "\u00a3", "pound": "\u00a3", "\u00a5": "\u00a5", "jpy": "\u00a5",
             "yen": "\u00a5", "\u20b9": "\u20b9", "inr": "\u20b9", "rupee": "\u20b9", "\u00b0": "degree"}  # fmt: skip
_SCALE = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
MAX_DIGITS = 400  # of a number or an exponent: 10^999999999 is no answer but an attack on the arithmetic

_TEXT = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname|boldsymbol|underline)\s*\{([^{}]*)\}"
# From TeX to plain text, one pass each. Braces of \text{...} go, and so does spacing.
_PLAIN = [
    (re.compile(_TEXT), r" \1 "),
    (re.compile(r"\\[dt]?frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))"), r" \1\2/\3\4"),
    (re.compile(r"(?<=\d)(?:\{,\}|,?\\[,!;: ]|~|\u2009|\u202f)(?=\d{3})"), ","),
    (re.compile(r"\\(?:times|cdot)\s*(?:\{10\})?|\u00d7|\u22c5|\u00b7|(?<=\d)\s+[xX]\s+(?=10\s*\^)"), "*"),
    (re.compile(r"\*\s*(?=\^)"), "*10"),
    (re.compile(r"\^\s*\{?\s*\\circ\s*\}?|\\degree\b|\u00ba|\u02da"), "\u00b0"),
    (re.compile(r"\s*\^\s*\{(-?\d)\}|\s+\^(?=\d)"), r"^\1"),
    (re.compile(r"\u00b0\s*([CF])\b"), r" degree\1"),
    (re.compile(r"^(?:\*\*|__)([^*_]+)(?:\*\*|__)"), r"\1"),
    (re.compile(r"\\([$%])"), r"\1"),
    (re.compile(r"\\[,!;: ]|\\left|\\right|~"), " "),
]
_RAISED = dict(zip("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b", "0123456789-"))
_RAISED_RUN = re.compile(f"(?<=[\\w)])[{''.join(_RAISED)}]+")
_REPEATING = re.compile(r"(\d{0,20})\.(\d{0,20})\\(?:overline|bar)\s*\{?(\d{1,20})\}?")
_LEAD = re.compile(
    r"(?:(?:the|my)\s+)?(?:(?:final|correct)\s+)?answer(?:\s+is)?\s*[:=]?\s*|\\?[A-Za-z]\w{0,20}(?:\(\w{1,9}\))?\s*(?:=|\\approx\b|\u2248)\s*"
    r"|(?:=|~|\u2248|\\approx\b|about|approximately|approx\.?)\s*",
    re.IGNORECASE,
)
_DIGITS = r"(?:\d{1,3}(?:,\d{2,3})*,\d{3}|\d{1,3}(?:[ _\u00a0]\d{3})+|\d+)"
_NUMBER = re.compile(
    rf"""(?P<sign>[-+]?)\s*
    (?P<before>(?:[A-Z]{{2,3}})?[$\u20ac\u00a3\u00a5\u20b9]|(?:USD|EUR|GBP|JPY|INR)(?=[\s\d]))?\s*(?P<inner_sign>[-+]?)\s*
    (?: (?:(?P<whole>\d+)\s+)?(?P<over>\d+)\s*[/\u2044]\s*(?P<under>\d+)
      | (?P<european>\d{{1,3}}(?:\.\d{{3}})+,\d+)
      | (?P<power>10)\s*(?:\^|\*\*)\s*\{{?(?P<power_of>[-+]?\d+)\}}?
      | (?P<decimal>{_DIGITS}(?:\.\d*)?|\.\d+)
        (?:\s*(?:[eE](?P<exponent>[-+]?\d+)|\*\s*10\s*(?:\^|\*\*)\s*\{{?(?P<times>[-+]?\d+)\}}?))?
    )
    (?:\s*(?P<scale>hundred|thousand|million|billion|trillion)\b)?
    (?:\s*(?P<percent>%|percent\b|per\ cent\b|pct\b))?
    (?P<unit>\s*(?:-(?=[A-Za-z])|/\s*)?[^\W\d_(][^,;:=<>?!+*|]*|\s*[\u00b0$\u20ac\u00a3\u00a5\u20b9]\s*[A-Za-z]?|\([^\W\d_]+\))?""",
    re.VERBOSE,
)
# Words that make "5 maybe six" more than a number and its unit.
_NO_UNIT = frozenset(
    """or and but not no nor to is are was were be than isn't aren't plus minus times over point out choose mod maybe so
    perhaps possibly probably either vs versus wrong incorrect right correct else also otherwise oder und ou et squared
    cubed half halves third thirds quarter quarters fourth fourths fifth fifths sixth sixths seventh sevenths eighth
    eighths ninth ninths tenth tenths eleventh elevenths twelfth twelfths hundredth hundredths thousandth thousandths
    millionth millionths dozen dozens gross score grand lakh lakhs crore crores bn mn factorial pi sqrt sin cos tan log
    negative nope unknown cannot determine determined undetermined ppm mille zero one two three four five six seven
    eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty
    sixty seventy eighty ninety hundred thousand million billion trillion approx guess unless remainder double triple
    twice mil thou permil""".split()  # noqa: SIM905
)
_NO_WORD = re.compile(rf"{'|'.join(sorted(_NO_UNIT))}|\w*(?:ieths?|ionths?)")
# Of one and two letters only these are units: 2x is no 2 of a unit x, and 3xy none of a unit xy.
_SHORT_UNITS = frozenset(
    """m s h g l L V W A K J N C F \u03a9 cm mm km dm nm kg mg lb oz ft in yd mi hr ml mL cL dL kW MW mW kJ kV kN Hz Pa
    ms ns am pm mo yr TB GB MB kB mph min sec lbs kHz MHz GHz kWh""".split()  # noqa: SIM905
)
_LENGTHS = frozenset(["m", "cm", "mm", "km", "dm", "ft", "in", "yd", "mi"])
_SAME_UNIT = {
    "hr": "hour", "h": "hour", "hrs": "hour", "min": "minute", "sec": "second", "s": "second", "yr": "year",
    "centimeter": "cm", "centimetre": "cm", "millimeter": "mm", "millimetre": "mm", "meter": "m", "metre": "m",
    "kilometer": "km", "kilometre": "km", "inche": "in", "inch": "in", "foot": "ft", "feet": "ft", "yard": "yd",
    "mile": "mi", "gram": "g", "kilogram": "kg", "liter": "l", "litre": "l", "L": "l", "lbs": "lb", "mph": "mi/hour",
}  # fmt: skip
_UNIT_PART = re.compile(r"([^\W\d_]+)(?:(\^-?[1-3])|([23]))?")


def _unit(text: str | None) -> str | None:
    """One spelling for a unit; None if the words are no unit but more of a sentence."""
    is_glued = not (text or " ")[:1].isspace()
    text = (text or "").translate({0xB2: "^2", 0xB3: "^3"}).strip().lstrip("-/").replace(" per ", "/")
    words = [word.strip(".()") for word in text.split()]
    words = [word for word in words if word and word != "of"]
    if len(words) > 5:
        return None
    spelled, power = [], ""
    for word in words:
        if word in _CURRENCY:
            spelled.append(_CURRENCY[word])
            continue
        if word in ("square", "sq", "cubic"):
            power = "3" if word == "cubic" else "2"
            continue
        parts = []
        for part in re.split(r"[/-]", word):
            found = _UNIT_PART.fullmatch(part)
            if not found or _NO_WORD.fullmatch(found[1].lower()) or (found[3] and found[1] not in _LENGTHS):
                return None
            if len(found[1]) <= (3 if is_glued else 2) and found[1] not in _SHORT_UNITS:
                return None
            # Case tells units apart (mW, MW); in whole words it does not, and neither does the plural.
            one = found[1].lower().removesuffix("s") if len(found[1]) > 3 else found[1]
            one = _SAME_UNIT.get(one) or _CURRENCY.get(one.lower(), one)
            parts.append(one + (found[2] or found[3] or "").strip("^") + power)
            power = ""
        spelled.append("/".join(parts))
    return " ".join(spelled)


def _trimmed(text: str) -> str:
    return " ".join(text.split()).strip("*`$ ").removesuffix(".")


def _as_fraction(repeating: re.Match) -> str:
    """0.1\\overline{6} as \\frac{15}{90}."""
    whole, still, again = (part or "" for part in repeating.groups())
    over = int(whole + still + again) - int(whole + still or 0)
    return f"\\frac{{{over}}}{{{(10 ** len(again) - 1) * 10 ** len(still)}}}"


def _plain(text: str) -> str:
    if not text.isascii():
        text = _RAISED_RUN.sub(lambda match: "^" + "".join(map(_RAISED.get, match[0])), text)
    text = _REPEATING.sub(_as_fraction, text.strip('"\u201c\u201d').rstrip(",;"))
    for pattern, plain in _PLAIN:
        text = pattern.sub(plain, text)
    if "," not in text:  # (1,250) is an interval or a point
        text = text.strip("[] ")
        text = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    return " ".join(text.split())


def read_number(text: str) -> tuple[fractions.Fraction, str, bool] | None:
    """Value, unit and whether it is a percentage, if the text is one number and nothing else.

    Example:
        >>> read_number("$1,250.50"), read_number("3 or 4")
        ((Fraction(2501, 2), '$', False), None)
    """
    return _number(text) if len(text) <= MAX_DIGITS else None


@functools.lru_cache(maxsize=4096)  # the answers of a group are often the same
def _number(text: str) -> tuple[fractions.Fraction, str, bool] | None:
    if text.isascii() and text.isdigit():  # the usual answer, without the machinery
        return fractions.Fraction(int(text)), "", False
    text = _plain(text)
    lead = _LEAD.match(text)
    found = _NUMBER.fullmatch(_trimmed(text[lead.end() :]) if lead else text)
    if not found:
        return None
    part = found.groupdict()
    unit = _unit(part["unit"])
    if unit is None or (part["sign"] and part["inner_sign"]) or (part["under"] and not int(part["under"])):
        return None
    if part["over"]:
        value = fractions.Fraction(int(part["over"]), int(part["under"])) + int(part["whole"] or 0)
    elif part["european"]:
        value = fractions.Fraction(part["european"].replace(".", "").replace(",", "."))
    else:
        digits = re.sub(r"[, _\u00a0]", "", part["decimal"] or "1").removesuffix(".")
        exponent = int(part["exponent"] or part["times"] or part["power_of"] or 0)
        if abs(exponent) > MAX_DIGITS:
            return None
        value = fractions.Fraction(digits) * fractions.Fraction(10) ** exponent
    value *= 10 ** _SCALE.get(part["scale"], 0)
    if "-" in (part["sign"], part["inner_sign"]):
        value = -value
    currency = _CURRENCY.get((part["before"] or "").strip().lower(), (part["before"] or "").strip())
    return value, currency or unit, part["percent"] is not None


@functools.lru_cache
def _tolerance(rel_tol: float) -> fractions.Fraction:
    """From the text of the float: 1e-6 itself lies below a millionth, which 0.333333 is away from a third."""
    return fractions.Fraction(str(rel_tol))


def same_number(gold: tuple, answer: tuple, rel_tol: float | None) -> bool:
    """Equal values, where a percent sign in one of the two may be meant either way.

    Example:
        >>> same_number(read_number("28%"), read_number("0.28"), None)
        True
    """

    def close(a: fractions.Fraction, b: fractions.Fraction) -> bool:
        if a == b:
            return True
        if rel_tol is None and a.denominator == b.denominator == 1:
            return False
        return abs(a - b) <= _tolerance(1e-6 if rel_tol is None else rel_tol) * abs(a)

    (a, a_unit, a_percent), (b, b_unit, b_percent) = gold, answer
    if a_percent != b_percent and (a_unit or b_unit):  # 20 apples are no 20%
        return False
    if close(a, b):
        return True
    return a_percent != b_percent and close(a / 100 if a_percent else a, b / 100 if b_percent else b)


_OPEN, _CLOSE = r"[\s(\[{*_\"'`$\\]*", r"[\s)\]}*_\"'`$\\]*"
_NOUN = r"\b(?:answer|ans|option|choice|letter)s?\b\.?"
_VERB = r"(?:is|are|was|must\s+be|should\s+be|would\s+be|will\s+be)"
_ADVERB = (
    r"(?:\s+(?:therefore|thus|hence|clearly|most\s+likely|likely|probably|definitely|indeed|then|actually|simply))?"
)
# "the answer is B", "**Answer:** B", '"answer": "B"', "the answer is not A but B", "## Answer", "#### B"
_CUE = re.compile(
    rf"{_NOUN}(?:\s+to\s+(?:the|this)\s+(?:\w+\s+)?question)?[*_\"'`\s]*{_VERB}\b{_ADVERB}[*_\s]*:?"
    rf"(?:[^.\n]{{0,40}}\bnot\b[^.\n]{{0,20}}\bbut\b)?(?:\s*(?:option|choice|letter)\b)?{_OPEN}$"
    r"|(?:\b(?:(?:answer|ans|letter)|(?:correct|right|final|best|my|\")\s*(?:option|choice))\b\.?[*_\"'`\s]*[:=]|\banswer[*_\s]*\n|\u7b54\u6848[\u662f\u4e3a\u70ba:\s]*|\u9009)"
    rf"(?:\s*(?:option|choice|letter)\b)?{_OPEN}$|\#\#\#\#{_OPEN}$",
    re.IGNORECASE,
)
_CUE_AFTER = re.compile(
    rf"{_CLOSE}\s*(?:is|was|must\s+be|would\s+be)\s+(?:(?:the|my)\s+)?"
    rf"(?:(?:\w+\s+)?{_NOUN}|(?:correct|right)\b(?!\s+(?:that|in)\b))",
    re.IGNORECASE,
)
_NAMED = re.compile(
    rf"\b(?:option|choice|letter|it\s+is|it's|go(?:ing)?\s+with|choose|pick|select|only){_OPEN}$", re.IGNORECASE
)
_NEGATED_BEFORE = re.compile(
    r"(?:\b(?:not|never|neither|nor|than|except|excluding|exclude[sd]?|eliminat(?:e[sd]?|ing)|reject(?:ed|s|ing)?|without"
    r"|unlike|versus|vs\.?|doubt|cannot|instead\s+of|rul(?:e[sd]?|ing)\s+out|(?:any\w*|all|every\w*)\s+but)|n't)\s+"
    rf"(?:(?:if|that)\s+)?(?:it\s+is\s+|be\s+)?(?:the\s+)?(?:(?:right|correct)\s+)?(?:{_NOUN}\s*)?(?:{_VERB}\s+)?{_OPEN}$"
    rf"|\b(?:wrong|incorrect|worst|false|bad)\s+{_NOUN}\s*(?:{_VERB}|:)?{_OPEN}$",
    re.IGNORECASE,
)
_WRONG = (
    r"(?:not\b(?!\s+\W*[A-Za-z]\b)|n't\b|wrong\b|incorrect\b|false\b|impossible\b|out\b|ruled\s+out\b|eliminated\b"
    r"|excluded\b|fails?\b)"
)
_BE = r"(?:is|was|are|seems|looks|has\s+been|can|could|must|would|does|did|will)"
_NEGATED_AFTER = re.compile(rf"{_CLOSE},?\s*(?:which\s+)?(?:{_BE}\s*(?:be\s+)?)?{_WRONG}", re.IGNORECASE)
# After "B:" the option's own text follows, and that may begin with "not".
_NEGATED_AFTER_LABEL = re.compile(
    rf"[).:\]]*{_CLOSE}(?:{_BE}\s*(?:be\s+)?{_WRONG}|(?:wrong|incorrect)\s*[,.;])", re.IGNORECASE
)
_JOINT = re.compile(
    r"(?:[\s()\[\]*_\"'`$,;:/|&+.-]|\b(?:or|and|maybe|perhaps|possibly|also|either|both|nor|option|choice)\b)*",
    re.IGNORECASE,
)
_ALSO = re.compile(
    rf"{_CLOSE}\s*(?:{_VERB}|(?:may|could|can|might)(?:\s+also)?\s+be)?\s*(?:also|correct|right|possible|valid|true)\b",
    re.IGNORECASE,
)
# Words after "A" that show it to be a choice; before other words it is the article: "A dog".
_AFTER_CHOICE = frozenset(
    """because since as for which that due given from by so and or is was with based here when hence in on at if while
    where after before although but not according per then thus therefore only instead rather than under to of would
    will can cannot does has have seems makes fits best also too being""".split()  # noqa: SIM905
)
_AFTER_I = frozenset(
    ["would", "will", "can", "cannot", "have", "was", "also", "only", "then", "therefore", "thus", "hence"]
)
_IN_A_NAME = re.compile(
    r"\b(?:vitamin|hepatitis|type|group|class|grade|stage|phase|factor|part|plan|section|figure|table|exhibit|model)\s+$",
    re.IGNORECASE,
)
# "The answer is B. Actually, C.": taken back, and not announced again.
_CHANGED = re.compile(
    r"\b(?:[Aa]ctually|[Ww]ait|[Cc]orrection|[Nn]o|[Ss]orry|[Kk]idding|[Ss]econd thoughts?)\b[,:.]?\s+"
    r"(?:wait,?\s+|actually,?\s+)?(?:(?:it\s+is|it's|I\s+mean)\s+)?(?:option\s+)?[(*]*([A-Z])(?![\w'])(?!\s+[a-z])"
)
_ALONE = re.compile(r"(?:option|choice|answer)?\W*([A-Za-z])\W*", re.IGNORECASE)
# Not \w around it: a letter may stand between Chinese characters.
_LETTER = re.compile(r"(?<![A-Za-z0-9_\u00c0-\u024f'\u2019])[A-Za-z](?![A-Za-z0-9_\u00c0-\u024f'\u2019])")


class _Token(typing.NamedTuple):
    """A letter that stands alone and may name a choice."""

    letter: str
    kind: str  # "cue" after "the answer is", "named" after "option", "label" as in "B)", else "bare"
    is_negated: bool
    start: int


def _choice_tokens(text: str, letters: str) -> list[_Token]:
    found = []
    for match in _LETTER.finditer(text):
        letter, start, end = match[0], match.start(), match.end()
        before, after = text[max(0, start - 80) : start], text[end : end + 60]
        line = before.rpartition("\n")[2]  # "C is wrong.\nAnswer: B" takes nothing back
        if letter.upper() not in letters:
            continue
        is_label = after.startswith((")", ".", ":", "]", " - ")) and (not letter.islower() or after[0] not in ". ")
        word = re.match(r"\s+([a-z]+|\d)", after)
        kind = "cue" if _CUE.search(before) or _CUE_AFTER.match(after) else "named" if _NAMED.search(before) else ""
        if letter.islower() and not is_label and (not kind or word):
            continue  # the article, a variable
        if letter == "I" and word and word[1] in _AFTER_I:
            continue
        if letter in "AI" and not is_label and kind != "named" and word and word[1] not in _AFTER_CHOICE:
            continue  # "A dog", "I think"
        if not kind and _IN_A_NAME.search(before):
            continue  # "vitamin C"
        kind = kind or ("label" if is_label else "bare")
        previous = found[-1] if found else None
        between = text[previous.start + 1 : start] if previous and previous.is_negated else ""
        is_listed = _JOINT.fullmatch(between) and re.search(r"\b(?:or|nor|and)\b|[/&]", between)  # not A or B
        negated_after = _NEGATED_AFTER_LABEL if kind == "label" else _NEGATED_AFTER
        is_asked = kind == "cue" and after.lstrip(")*\"'` ").startswith("?")  # "The answer is B? No."
        is_negated = bool(
            _NEGATED_BEFORE.search(line) or negated_after.match(after) or is_asked or (is_listed and kind != "cue")
        )
        found.append(_Token(letter.upper(), kind, is_negated, start))
    return found


def _has_rival(text: str, token: _Token, tokens: list[_Token]) -> bool:
    """Whether another letter is offered beside the chosen one: "B or C", "B (C)", "B. C is also correct"."""
    lower = re.compile(r"[\s,;/|&+]*\b(?:or|and)\b[\s(]*[a-z](?![\w'])(?!\s+[a-z])").match(text, token.start + 1)
    if lower and text[lower.end() - 1].upper() != token.letter:
        return True
    is_label = text[token.start + 1 : token.start + 2] in (")", "]", ".", ":")
    for other in tokens:
        if other.start <= token.start or other.is_negated or other.letter == token.letter:
            continue
        between, after = text[token.start + 1 : other.start], text[other.start + 1 : other.start + 61]
        if is_label and not re.match(r"[)\].:*\s]*(?:(?:or|and)\b|[,/&;+|])", between):
            # What follows "B)" is that option's text: I and II only, E. coli, both A and C.
            if _JOINT.fullmatch(between) and re.match(r"\s*(?:$|[)\]]|[.:]\s*(?:$|\n))", after):
                return True
            if re.search(r"[.\n]", between) and _ALSO.match(after):
                return True
            continue
        if _JOINT.fullmatch(between):
            is_new_sentence = re.search(r"[.\n]", between.strip(")]*_\"'`$")) is not None
            if not is_new_sentence or not re.match(r"\s+[a-z]", after) or _ALSO.match(after):
                return True
        elif _ALSO.match(after):
            return True
    return False


def choice_in(text: str, letters: str, is_block: bool) -> str:
    """The letter a text chooses, `""` if none, `"?"` if it names several.

    Args:
        text (`str`): the answer, or all a completion says; lines kept.
        letters (`str`): capital letters that name choices.
        is_block (`bool`): the text is the content of an answer block or box, so a bare letter in it is a choice.

    Example:
        >>> [choice_in(text, "ABCD", True) for text in ("not B, the answer is D", "A dog", "A or B")]
        ['D', '', '?']
    """
    text = re.sub(_TEXT, r"\1", text.strip())
    lines = text.split("\n")
    alone = {found[1].upper() for line in (lines[0], lines[-1]) if (found := _ALONE.fullmatch(line))} & set(letters)
    if len(lines) == 1 and alone:
        return alone.pop()
    tokens = _choice_tokens(text, letters)
    standing = [token for token in tokens if not token.is_negated]
    cued = [token for token in standing if token.kind == "cue"]
    if cued:
        changed = _CHANGED.search(text, cued[-1].start + 1)
        is_changed = changed and changed[1] in letters and changed[1] != cued[-1].letter
        return "?" if is_changed or _has_rival(text, cued[-1], tokens) else cued[-1].letter
    if alone:  # on a line of its own, the first or the last
        first = next((token for token in standing if token.letter in alone), None)
        return "?" if len(alone) > 1 or (first and _has_rival(text, first, tokens)) else alone.pop()
    lead = standing[0] if standing and standing[0].start <= 3 else None
    if lead and (lead.kind == "label" or (is_block and lead.kind == "bare")):
        # "B: text of the option", where that text may name letters of its own, and then perhaps why
        others = [token for token in standing if token.kind == "label" and token.letter != lead.letter]
        is_list = any(
            text[token.start + 1] in ")]:" or not text[: token.start].rpartition("\n")[2].strip() for token in others
        )
        return "?" if is_list or _has_rival(text, lead, tokens) else lead.letter
    if not is_block and not (len(lines) == 1 and standing and standing[0].kind == "named"):
        return ""
    chosen = {token.letter for token in standing}
    if len(chosen) == 1:
        return "?" if _has_rival(text, standing[0], tokens) else chosen.pop()
    return "?" if chosen else ""


MAX_EXPRESSION = 1000  # characters; what is longer is no final answer, and parsing takes more than linear time
_TEX_WORD = re.compile(r"\\(?:begin|end)\s*\{\w+\*?\}|\\text\w*\s*\{[^{}]*\}|\\[A-Za-z]+")
_WORDS = re.compile(r"[^\W\d_]{4,}|[^\W\d_]{2,}\s+[^\W\d_]{2,}")
_MATH_WORDS = re.compile(
    r"(?<![A-Za-z])(?:sqrt|frac|sin|cos|tan|log|ln|exp|arcsin|arccos|arctan|sinh|cosh|tanh|infty|infinity)\b"
)
_TEXT_ONLY = re.compile(rf"{_TEXT}\.?")
_TEXT_AT_END = re.compile(rf"(?<=\S)(?:\s|\\[,;:! ]|~)*{_TEXT}(?:\^\{{?\d\}}?)?$")
_WORDS_AT_END = re.compile(r"(?<=[\d})])\s+([^\W\d_]{4,}(?:\s+[^\W\d_]+)?)$")
_SHORT_AT_END = re.compile(
    r"(?<=\d)\s*(?:[mcdk]m|kg|m[gL]|mi|ft|yd|lb|oz|hr|min|sec|mph|[kM]?Hz|[kM]W)(?:\^\{?\d\}?)?$"
)
_TEX_FOR = [
    (re.compile(r"\*\*\s*(\(?-?\w+\)?)"), r"^{\1}"),
    (re.compile(r"(?<![\\A-Za-z])sqrt\s*\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(r"\u221a\s*(?:\(([^()]*)\)|\{([^{}]*)\}|(\w+))"), r"\\sqrt{\1\2\3}"),
    (re.compile(r"\u00d7|\u22c5|\u00b7"), r"\\cdot "),
    (re.compile("\u221e"), r"\\infty "),
    (re.compile("\u03c0"), r"\\pi "),
    (re.compile("\u2264"), r"\\le "),
    (re.compile("\u2265"), r"\\ge "),
    (re.compile("\u222a"), r"\\cup "),
    (re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])"), r"\\pi "),
    (re.compile(r"\\(?:big|Big|bigg|Bigg)[lr]?\b"), ""),
    (re.compile(r"\\\\\[[\w.]+\]"), r"\\\\"),
    (re.compile(r"\\[lr]angle\b"), lambda match: "(" if match[0] == "\\langle" else ")"),
    (re.compile(r"\\sqrt\[(\w+)\]\s*(\w)"), r"\\sqrt[\1]{\2}"),
    (re.compile(r"\\mathbb\s+([A-Z])"), r"\\mathbb{\1}"),
    (re.compile(r"\\varnothing\b"), r"\\emptyset "),
    (re.compile(r"\\(?:boldsymbol|mathbf|mathrm)\s*\{([^{}]{1,2})\}"), r"\1"),
]
_BASE = re.compile(r"\(?([^\W_]+)\)?_\{?(?:\\text\{)?(\d+)\}{0,2}")
_NOT_READ = re.compile(r"[A-Za-z]'|\\[lc]?dots|\.\.\.")  # math-verify leaves out what these say
_RELATIONS = re.compile(r"\\(?:approx|equiv|neq?|p?mod|bmod|sim)\b")
_ASSIGNMENT = re.compile(r"\\?([A-Za-z]\w*)\s*=\s*([^=,;]+?)\s*(?=,|;|$)")
_ASSIGNMENTS = re.compile(r"(?:\\?[A-Za-z]\w*\s*=\s*[^=,;]+[,;]\s*)+\\?[A-Za-z]\w*\s*=\s*[^=,;]+")
_SIGN = r"<=?|>=?|\\[lg](?:eq?(?:slant)?|t)\b"
_INEQUALITY = re.compile(
    rf"(?:([^<>\\]+|-?\\infty)\s*({_SIGN}))?\s*([A-Za-z])\s*(?:({_SIGN})\s*([^<>\\]+|\\infty|\\frac.+))?"
)
_INTERVAL = re.compile(r"[(\[][^,()\[\]]+,[^,()\[\]]+[)\]]")
_NAME = re.compile(r"\\?([A-Za-z]\w{0,20})\s*=")
_WORD_GOLD = re.compile(r"[^\W\d_]{2,}|no\s+(?:real\s+)?solutions?", re.IGNORECASE)
_NO_GOLD = frozenset(["none", "nan", "null", "unknown", "na", "todo", "figure", "image"])


def _without_unit(text: str) -> str | None:
    """The text without the unit at its end; None if what stands there is more of a sentence than a unit."""
    tex = _TEXT_AT_END.search(text)
    if tex and len(tex[1]) == 1 and tex[1] not in _SHORT_UNITS:  # \\mathrm{i}
        return text
    if tex:
        return text[: tex.start()] if _unit(tex[1]) is not None else None
    words = _WORDS_AT_END.search(text)
    if words and _unit(words[1]) is not None and not _MATH_WORDS.search(words[1]):
        return text[: words.start()]
    return _SHORT_AT_END.sub("", text)


def expression(text: str) -> str | None:
    """The expression a text consists of, ready for math-verify; None if it is prose. To a parser `see` is s*e*e.

    Example:
        >>> expression("The answer is x**2 + 1"), expression("see the figure")
        ('x^{2} + 1', None)
    """
    if not 0 < len(text) <= MAX_EXPRESSION or _NOT_READ.search(text):
        return None
    text = _RAISED_RUN.sub(lambda match: "^{" + "".join(map(_RAISED.get, match[0])) + "}", text)
    lead = _LEAD.match(text)
    text = _without_unit(_trimmed(text[lead.end() :]) if lead and "=" not in lead[0] else text)
    if not text:
        return None
    text = _REPEATING.sub(_as_fraction, text)
    for pattern, tex in _TEX_FOR:
        text = pattern.sub(tex, text)
    return None if _WORDS.search(_MATH_WORDS.sub(" ", _TEX_WORD.sub(" ", text))) else text


def _as_interval(text: str) -> str | None:
    """x > 5 as (5, \\infty), -2 \\le x < 7 as [-2, 7)."""
    found = _INEQUALITY.fullmatch(text)
    if not found or not (found[2] or found[4]):
        return None
    low, first, _, second, high = (part and part.strip() for part in found.groups())
    if low is None or high is None:  # one side only: is the name left or right of the sign?
        sign, bound = (second, high) if low is None else (first, low)
        is_lower = (">" in sign or "g" in sign) == (low is None)
        bracket = "e" in sign or "=" in sign or sign in ("\\geqslant", "\\leqslant")
        if is_lower:
            return f"{'[' if bracket else '('}{bound}, \\infty)"
        return f"(-\\infty, {bound}{']' if bracket else ')'}"
    if ">" in first + second or "g" in first + second:
        return None
    return (
        f"{'[' if 'e' in first or '=' in first else '('}{low}, {high}{']' if 'e' in second or '=' in second else ')'}"
    )


def comparable(gold: str, predicted: str) -> tuple[str | None, str | None]:
    """Both as expressions that math-verify may compare; None for one that is none.

    Example:
        >>> comparable("a=1, b=2", "b=2, a=1"), comparable("a=1, b=2", "2, 1")
        (('(1, 2)', '(1, 2)'), ('(1, 2)', '(2, 1)'))
    """
    one, other = expression(gold), expression(predicted)
    if other and _ASSIGNMENTS.fullmatch(one or ""):  # math-verify forgets which name has which value
        values = dict(_ASSIGNMENT.findall(one))
        if len(values) < len(_ASSIGNMENT.findall(one)):  # x=1, x=2: two values of one name
            return one, other
        names, said = list(values), dict(_ASSIGNMENT.findall(other)) if _ASSIGNMENTS.fullmatch(other) else None
        if said is None:
            other = f"({other.strip('() ')})"
        else:
            names = sorted(values)
            other = f"({', '.join(said[name] for name in names)})" if set(said) == set(values) else None
        one = f"({', '.join(values[name] for name in names)})"
    if one and other and _INTERVAL.fullmatch(one):
        other = _as_interval(other) or other
    if other and set(_RELATIONS.findall(other)) - set(_RELATIONS.findall(one or "")):
        other = None  # 6 \\approx 7 is no answer of 6
    return one, other


def settled(gold: str, predicted: str) -> str | None:
    """`equal` or `unequal` for a pair that needs no algebra, else None.

    Example:
        >>> settled("1250", "1,250"), settled(r"\\text{east}", "East"), settled("x", "y")
        ('equal', 'equal', None)
    """
    words, number = _TEXT_ONLY.fullmatch(gold), read_number(gold)
    is_word = _WORD_GOLD.fullmatch(gold) and gold.casefold() not in _NO_GOLD and not _MATH_WORDS.fullmatch(gold)
    if number is None and (words or is_word):  # \\text{east}, Monday: compared as text, for to a parser No is on
        found = _TEXT_ONLY.fullmatch(predicted)
        one, other = words[1] if words else gold, found[1] if found else predicted
        one, other = (re.sub(r"\s*,\s*", ",", _trimmed(text).strip("() ").casefold()) for text in (one, other))
        return "equal" if one == other else "unequal"
    base, other_base = _BASE.fullmatch(gold), _BASE.fullmatch(predicted)
    if (base and (other_base or predicted.isalnum())) or (other_base and gold.isalnum()):  # math-verify ignores it
        one, other = base[1] if base else gold, other_base[1] if other_base else predicted
        return "equal" if one == other and base and (not other_base or base[2] == other_base[2]) else "unequal"
    if len(gold) == len(predicted) == 1 and gold != predicted and gold.casefold() == predicted.casefold():
        return "unequal"  # X is not x; math-verify folds the case
    name, other_name = _NAME.match(gold), _NAME.match(predicted)
    if name and other_name and name[1] != other_name[1] and "," not in gold + predicted:
        return "unequal"
    starts = {gold[:1], predicted[:1]}
    if "\\{" in (gold[:2], predicted[:2]) and starts & {"(", "["}:  # a point or an interval is no set
        return "unequal"
    answer = read_number(predicted)
    if number and answer and {number[1], answer[1]} <= {"", *_CURRENCY.values()}:  # other letters may be variables
        if number[0].denominator == answer[0].denominator == 1 and not (number[2] or answer[2]):
            return "equal" if number[0] == answer[0] else "unequal"
        if same_number(number, answer, 1e-9):
            return "equal"
    return None
