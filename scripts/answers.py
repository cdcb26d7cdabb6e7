"""How the rewards read a number, a choice or an expression from the answer of a completion.

They take a text after `rewards._normalize` (NFKC that keeps superscripts, one kind of minus, single blanks, no emphasis
or box around it). They are strict: what is not one number, one letter or one expression is none, because a policy is
paid for whatever is read here.
"""

from __future__ import annotations

import fractions
import functools
import re

__all__ = ["choice_in", "expression", "read_number", "same_number", "settled"]

_CURRENCY = {"$": "$", "us$": "$", "usd": "$", "dollar": "$", "\u20ac": "\u20ac", "eur": "\u20ac", "euro": "\u20ac",
             "\u00a3": "\u00a3", "gbp": "\u00a3", "pound": "\u00a3", "\u00a5": "\u00a5", "jpy": "\u00a5",
             "yen": "\u00a5", "\u20b9": "\u20b9", "inr": "\u20b9", "rupee": "\u20b9", "\u00b0": "degree"}  # fmt: skip
_SCALE = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
MAX_DIGITS = 400  # of a number or an exponent: 10^999999999 is no answer but an attack on the arithmetic

# From TeX to plain text, one pass each. Braces of \text{...} go, and so does spacing.
_PLAIN = [
    (re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\[dt]?frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))"), r" \1\2/\3\4"),
    (re.compile(r"(?<=\d)(?:\{,\}|\\[,!;: ]|~|\u2009|\u202f)(?=\d{3})"), ","),
    (re.compile(r"\\(?:times|cdot)|\u00d7|\u22c5|\u00b7"), "*"),
    (re.compile(r"\^\s*\{?\s*\\circ\s*\}?|\\degree\b"), "\u00b0"),
    (re.compile(r"\\([$%])"), r"\1"),
    (re.compile(r"\\[,!;: ]|\\left|\\right|~"), " "),
]
_RAISED = dict(zip("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b", "0123456789-"))
_RAISED_RUN = re.compile(f"(?<=\\d)[{''.join(_RAISED)}]+")
_LEAD = re.compile(
    r"(?:(?:the|my)\s+)?(?:(?:final|correct)\s+)?answer(?:\s+is)?\s*[:=]?\s*|[A-Za-z]\w{0,20}\s*=\s*"
    r"|(?:=|~|\u2248|about|approximately|approx\.?)\s*",
    re.IGNORECASE,
)
_DIGITS = r"(?:\d{1,3}(?:,\d{2,3})*,\d{3}|\d{1,3}(?:[ _\u00a0]\d{3})+|\d+)"
_NUMBER = re.compile(
    rf"""(?P<sign>[-+]?)\s*
    (?P<before>(?:[A-Z]{{2,3}})?[$\u20ac\u00a3\u00a5\u20b9]|(?:USD|EUR|GBP|JPY|INR)\s)?\s*(?P<inner_sign>[-+]?)\s*
    (?: (?:(?P<whole>\d+)\s+)?(?P<over>\d+)\s*[/\u2044]\s*(?P<under>\d+)
      | (?P<european>\d{{1,3}}(?:\.\d{{3}})+,\d+)
      | (?P<power>10)\s*(?:\^|\*\*)\s*\{{?(?P<power_of>[-+]?\d+)\}}?
      | (?P<decimal>{_DIGITS}(?:\.\d*)?|\.\d+)
        (?:\s*(?:[eE](?P<exponent>[-+]?\d+)|\*\s*10\s*(?:\^|\*\*)\s*\{{?(?P<times>[-+]?\d+)\}}?))?
    )
    (?:\s*(?P<scale>hundred|thousand|million|billion|trillion)\b)?
    \s*(?P<percent>%|percent\b|per\ cent\b|pct\b)?
    \s*(?P<unit>[^\W\d_\u2044][^\d,;:=<>?!]*(?:\^?[23]|[\u00b2\u00b3])?|[\u00b0$\u20ac\u00a3\u00a5\u20b9]\s*[A-Za-z]?)?""",
    re.VERBOSE,
)
_NO_UNIT = frozenset(["or", "and", "but", "not", "no", "to", "is", "are", "was", "than", "isn't", "more", "less"])


def _unit(text: str | None) -> str | None:
    """One spelling for a unit; None if the words are no unit but more of a sentence."""
    words = [word.strip(".,()") for word in (text or "").translate({0x5E: None, 0xB2: "2", 0xB3: "3"}).split()]
    words = [word for word in words if word and word != "of"]
    if len(words) > 4 or _NO_UNIT & {word.lower() for word in words}:
        return None
    spelled = []
    for word in words:
        # Case tells units apart (mW, MW); in whole words it does not, and neither does the plural.
        one = word.lower().removesuffix("s") if len(word) > 3 and word.isalpha() else word
        spelled.append(_CURRENCY.get(one.lower(), one))
    return " ".join(spelled)


def _trimmed(text: str) -> str:
    return " ".join(text.split()).strip("*`$ ").removesuffix(".")


def _plain(text: str) -> str:
    if not text.isascii():
        text = _RAISED_RUN.sub(lambda match: "^" + "".join(map(_RAISED.get, match[0])), text)
    for pattern, plain in _PLAIN:
        text = pattern.sub(plain, text)
    if "," not in text:  # (1,250) is an interval or a point
        text = text.strip("[]() ")
    return " ".join(text.split())


@functools.lru_cache(maxsize=4096)
def read_number(text: str) -> tuple[fractions.Fraction, str, bool] | None:
    """Value, unit and whether it is a percentage, if the text is one number and nothing else.

    Example:
        >>> read_number("$1,250.50"), read_number("3 or 4")
        ((Fraction(2501, 2), '$', False), None)
    """
    if len(text) > MAX_DIGITS:
        return None
    text = _plain(text)
    lead = _LEAD.match(text)
    found = _NUMBER.fullmatch(_trimmed(text[lead.end() :]) if lead else text)
    if not found:
        return None
    part = found.groupdict()
    unit = _unit(part["unit"])
    if unit is None or (part["under"] is not None and not int(part["under"])):
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


def same_number(gold: tuple, answer: tuple, rel_tol: float | None) -> bool:
    """Equal values, where a percent sign in one of the two may be meant either way."""

    def close(a: fractions.Fraction, b: fractions.Fraction) -> bool:
        if a == b:
            return True
        if rel_tol is None and a.denominator == b.denominator == 1:
            return False
        return abs(a - b) <= fractions.Fraction(1e-6 if rel_tol is None else rel_tol) * abs(a)

    (a, _, a_percent), (b, _, b_percent) = gold, answer
    if close(a, b):
        return True
    return a_percent != b_percent and close(a / 100 if a_percent else a, b / 100 if b_percent else b)


_CHOICE_CUE = r"(?:answer|choice|option|letter)s?\b(?:\s+(?:is|are|was|must\s+be|should\s+be|would\s+be))?\s*[:=]?\s*"
_NEGATED_BEFORE = re.compile(
    r"(?:\b(?:not|never|neither|nor|than|of|except|exclude[sd]?|eliminate[sd]?|reject(?:ed|s)?|out)|n't)\s+"
    r"(?:be\s+)?(?:the\s+)?(?:answer\s+|option\s+|choice\s+|letter\s+)?(?:is\s+)?[(\[*\"'`]*$",
    re.IGNORECASE,
)
_NEGATED_AFTER = re.compile(
    r"[)\]*\"'`]*\s*(?:(?:is|was|are|seems|looks|can|could|must|would)\s*(?:be\s+)?)?"
    r"(?:not\b|n[o']t\b|wrong\b|incorrect\b|false\b|impossible\b|ruled\s+out\b|eliminated\b|excluded\b)",
    re.IGNORECASE,
)
_JOINED = re.compile(r"[)\]*\"'`]*\s*(?:,|/|&|\bor\b|\band\b)+\s*(?:option\s+|choice\s+)?[(\[*\"'`]*(?=[A-Z](?![\w']))")
_AFTER_CHOICE = frozenset(
    [
        "because",
        "since",
        "as",
        "for",
        "which",
        "that",
        "due",
        "given",
        "from",
        "by",
        "so",
        "and",
        "or",
        "is",
        "was",
        "with",
    ]
)


def _choice_tokens(text: str, letters: str) -> list[tuple[str, str, bool, int]]:
    """Each letter that stands alone and may name a choice: (letter, how it stands, whether it is taken back, where).

    How: `cue` (after "the answer is"), `label` ("B)", "B:", "(B)"), or `bare`.
    """
    found = []
    for match in re.finditer(r"(?<![\w'\u2019])[A-Za-z](?![\w'\u2019])", text):
        letter, before, after = match[0], text[max(0, match.start() - 60) : match.start()], text[match.end() :][:60]
        if letter.upper() not in letters:
            continue
        is_boxed = before.endswith(("(", "[")) and after.startswith((")", "]"))
        is_label = is_boxed or after.startswith((")", ".", ":"))
        word = re.match(r"\s+([a-z]+)", after)
        if letter.islower() and not is_label:
            continue  # the article, a variable
        if letter in "AI" and not is_label and word and word[1] not in _AFTER_CHOICE:
            continue  # "A dog", "I think"
        is_negated = bool(_NEGATED_BEFORE.search(before) or _NEGATED_AFTER.match(after))
        has_cue = re.search(_CHOICE_CUE + r"[(\[*\"'`]*$", before, re.IGNORECASE)
        found.append((letter.upper(), "cue" if has_cue else "label" if is_label else "bare", is_negated, match.start()))
    return found


def choice_in(text: str, letters: str, is_block: bool, is_line: bool = True) -> str:
    """The letter a text chooses, `""` if none, `"?"` if it names several.

    Args:
        text (`str`): the answer, or all a completion says.
        letters (`str`): capital letters that name choices.
        is_block (`bool`): the text is the content of an answer block or box, so a bare letter in it is a choice.
        is_line (`bool`): the text was one line, so a label at its start is a choice.

    Example:
        >>> [choice_in(text, "ABCD", True) for text in ("not B, the answer is D", "A dog", "A or B")]
        ['D', '', '?']
    """
    text = re.sub(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}", r"\1", text)
    alone = re.fullmatch(r"(?:option|choice|answer)?\s*[:(\[]*\s*([A-Za-z])\s*[)\].:]*", text, re.IGNORECASE)
    if alone and alone[1].upper() in letters:
        return alone[1].upper()
    tokens = _choice_tokens(text, letters)
    cued = [token for token in tokens if token[1] == "cue" and not token[2]]
    if cued:
        letter, _, _, start = cued[-1]
        return "?" if _JOINED.match(text, start + 1) else letter
    standing = [token for token in tokens if not token[2]]
    labels = [token for token in standing if token[1] == "label"]
    if (
        (is_block or is_line) and labels and labels[0][3] <= 3
    ):  # "B: text of the option", where the text may hold letters of its own
        chosen = {token[0] for token in labels}
    else:
        chosen = {token[0] for token in standing} if is_block else set()
    return "" if not chosen else chosen.pop() if len(chosen) == 1 else "?"


MAX_EXPRESSION = 1000  # characters; what is longer is no final answer, and parsing takes more than linear time
_TEX_WORD = re.compile(r"\\text\w*\s*\{[^{}]*\}|\\[A-Za-z]+")
_WORDS = re.compile(r"[^\W\d_]{4,}|[^\W\d_]{2,}\s+[^\W\d_]{2,}")
_MATH_WORDS = re.compile(r"\b(?:sqrt|frac|sin|cos|tan|log|ln|exp|arcsin|arccos|arctan|sinh|cosh|tanh|infty|infinity)\b")
_TEXT_ONLY = re.compile(r"\\(?:text|textbf|textit|mathrm|mbox)\s*\{([^{}]*)\}\.?")
_BARE_UNIT = re.compile(r"(?<=[\d})])\s*[^\W\d_]{4,}(?:\s+[^\W\d_]+)?$")


def expression(text: str) -> str | None:
    """The expression a text consists of, ready for math-verify; None if it is prose. To a parser `see` is s*e*e."""
    lead = _LEAD.match(text)
    if lead and "=" not in lead[0]:
        text = _trimmed(text[lead.end() :])
    without_unit = _BARE_UNIT.sub("", text)
    prose = _MATH_WORDS.sub(" ", _TEX_WORD.sub(" ", without_unit))
    is_expression = 0 < len(without_unit) <= MAX_EXPRESSION and not _WORDS.search(prose)
    return without_unit if is_expression else None


def settled(gold: str, predicted: str) -> str | None:
    """`equal` or `unequal` for a pair that needs no algebra, else None.

    Example:
        >>> settled("1250", "1,250"), settled(r"\\text{east}", "East"), settled("x", "y")
        ('equal', 'equal', None)
    """
    words, number = _TEXT_ONLY.fullmatch(gold), read_number(gold)
    if words and number is None:  # \\text{east}: compared as text
        answer = _TEXT_ONLY.fullmatch(predicted)
        return (
            "equal"
            if _trimmed(words[1]).casefold() == _trimmed(answer[1] if answer else predicted).casefold()
            else "unequal"
        )
    answer = read_number(predicted)
    if number and answer:
        if same_number(number, answer, 1e-9):
            return "equal"
        if number[0].denominator == answer[0].denominator == 1 and not (number[2] or answer[2]):
            return "unequal"
    return None
