"""Whether two mathematical expressions are equal: math-verify, and what it gets wrong mended.

`rewards.math_reward` calls `verdict` through killable.py, because sympy may work on a short expression for ever.
math-verify's own time limits stay off: they are signal handlers, which need the main thread (math-verify 0.9.0,
utils.py), and AsyncGRPO calls rewards off it.
"""

from __future__ import annotations

import functools
import logging
import re

import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

__all__ = ["compare_with_a_number", "verdict"]

# It warns at each call that its time limits are off.
logging.getLogger("math_verify").setLevel(logging.CRITICAL)

# Its own removal of units is off: it takes any m, g or s for one, so that 2m equals 2. answers.expression removes them.
_BOXED = [
    LatexExtractionConfig(
        normalization_config=NormalizationConfig(units=False), boxed_match_priority=0, try_extract_without_anchor=False
    )
]
# TeX takes one digit as an argument without braces; math-verify 0.9.0 does not read that inside a box.
_SHORT_FRACTION = re.compile(r"\\([dt]?frac)\s*(\{[^{}]*\}|[^\W_])\s*(\{[^{}]*\}|[^\W_])")
_SHORT_ROOT = re.compile(r"\\sqrt\s*(\d)")


def _braced(argument: str) -> str:
    return argument if argument.startswith("{") else f"{{{argument}}}"


def _spelled_out(latex: str) -> str:
    latex = _SHORT_ROOT.sub(r"\\sqrt{\1}", latex)
    latex = _SHORT_FRACTION.sub(lambda m: f"\\{m[1]}{_braced(m[2])}{_braced(m[3])}", latex)
    return latex.replace("\N{DEGREE SIGN}", r"^{\circ}")


@functools.lru_cache(maxsize=1024)
def _read(latex: str) -> list:
    """What math-verify makes of an expression: a sympy object, then its text. Empty if it is none."""
    box = f"\\boxed{{{_spelled_out(latex)}}}"
    try:
        # Without "no_fallback" it gives the text alone for what it cannot read, which then equals only itself.
        return parse(box, _BOXED, fallback_mode="no_fallback", extraction_mode="first_match", parsing_timeout=None)
    except (RecursionError, ValueError, TypeError, AttributeError, ZeroDivisionError):  # from the parsers below it
        return []


def _are_far_apart(gold, answer) -> bool:
    """Two numbers that math-verify calls equal because both vanish in a float, such as 3**-80 and 3**-81."""
    try:
        if not (gold.is_number and answer.is_number):
            return False
        gold, answer = sympy.N(gold, 30), sympy.N(answer, 30)
        # 1e-8: a decimal with ten digits may stand for a fraction (Math-Verify#2).
        return bool(gold != 0 and abs(gold - answer) > abs(gold) * sympy.Float("1e-8", 30))
    except (AttributeError, TypeError, ValueError):  # sets, relations, text
        return False


def _equal_where_gold_is_real(gold, answer) -> bool:
    """sqrt(1/k) and 1/sqrt(k): equal for the k > 0 without which the gold itself is no real number."""
    try:
        symbols = sorted(gold.free_symbols, key=str)
        has_root = any(not power.exp.is_Integer for power in gold.atoms(sympy.Pow)) or gold.has(sympy.log)
        if not has_root or not symbols or answer.free_symbols != gold.free_symbols or len(symbols) > 4:
            return False
        ones = dict.fromkeys(symbols, 1)
        if not all(sympy.N(gold.subs({**ones, symbol: -1})).is_real is False for symbol in symbols):
            return False
        positive = {symbol: sympy.Symbol(str(symbol), positive=True) for symbol in symbols}
        return sympy.simplify(gold.subs(positive) - answer.subs(positive)) == 0
    except (AttributeError, TypeError, ValueError, NotImplementedError):
        return False


def verdict(gold: str, answer: str | None) -> str:
    """`equal`, `unequal`, `unreadable` (the answer is no expression) or `unreadable_gold`.

    Args:
        gold (`str`), answer (`str`): LaTeX without `\\boxed` and dollar signs. Without an answer only the gold is read:
            `readable` or `unreadable_gold`.

    Example:
        >>> verdict(r"\\frac{1}{2}", "0.5"), verdict("x+1", "1+x"), verdict("2", "3"), verdict("2", r"\\frac{")
        ('equal', 'equal', 'unequal', 'unreadable')
    """
    read_gold = _read(gold)
    if not read_gold or (hasattr(read_gold[0], "has") and read_gold[0].has(sympy.zoo, sympy.nan)):  # 1/0
        return "unreadable_gold"
    if answer is None:
        return "readable"
    read_answer = _read(answer)
    if not read_answer:
        return "unreadable"
    try:
        is_equal = verify(read_gold, read_answer, timeout_seconds=None)
    except (RecursionError, ValueError, TypeError):
        is_equal = False
    if is_equal:
        is_percent = "%" in gold + answer  # 28% is accepted for 28 and for 0.28
        is_equal = is_percent or not _are_far_apart(read_gold[0], read_answer[0])
    else:
        is_equal = _equal_where_gold_is_real(read_gold[0], read_answer[0])
    return "equal" if is_equal else "unequal"


def compare_with_a_number(gold: str) -> bool:
    """Comes back soon unless the gold itself is what costs without end, such as a power tower.

    Example:
        >>> compare_with_a_number("x+1")
        True
    """
    verify(_read(gold), _read("0.123"), timeout_seconds=None)
    return True
