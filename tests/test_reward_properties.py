"""Properties that hold for every completion, found by hypothesis: no crash, no score out of range, nothing that depends
on the batch, and right answers in random spellings that must be read back."""

import fractions
import json
import math
import random

import judge
import pytest
import rewards
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

# The same examples in each run, so a failure is one of the code and not of the day.
FEW, SOME, MANY = (
    settings(
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    for examples in (12, 40, 150)
)

PIECES = [
    "<reasoning>", "</reasoning>", "<think>", "</think>", "<answer>", "</answer>", "<reasoning>r</reasoning><answer>7</answer>",
    "\\boxed{", "\\boxed", "\\fbox{7}", "{", "}", "\\}", "\\", "\\frac{1}{2}", "\\frac", "\\text{", "\\text{east}", "\\times 10^{", "^", "_",
    "$", "$$", "\\(", "\\)", "**", "*", "`", "```", "```json\n", "(", ")", "[", "]", "'", '"', ".", "\u3002", ",", ":", ";", "=", "/", "%",
    "7", "1250", "1,250", "1.250,00", "1/0", "0", "-", "\u2212", "+", "e", "1e400", "10^", "\u00b2", "\u00bd", "\u2044", "\u0663", "#### ", "million",
    "B", "b", "(B)", "A ", "I think ", "not ", "B or C", "the answer is ", "option ", "n't ", " is wrong", " ", "\n", "\t", "\u00a0", "\u200b",
    '{"n": 1}', '{"n": ', "NaN", "null", "true", "[" * 70, '{"a":' * 70, "\\u", "\\ud800",
    "<tool_call>", "</tool_call>", '{"name": "add", "arguments": {"a": 1}}', '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>',
    "</s>", "<|im_end|>", "<pad>", "<", ">", "\ud800", "\udfff", "\x00", "\u0301", "\ufb03", "\U0001f600", "\u0130", "x", "def f(): pass",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=14).map("".join)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="<>`"), max_size=6).map(lambda text: f"{text}w")

JSON = st.recursive(
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="<"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
    max_leaves=4,
)
ENTRIES = st.one_of(
    st.none(),
    st.just({}),
    TEXTS,
    st.fixed_dictionaries({"name": st.sampled_from(["add", "", None, 3]), "arguments": st.none() | TEXTS | JSON}),
    st.fixed_dictionaries({"function": st.fixed_dictionaries({"name": st.just("add")}, optional={"arguments": JSON})}),
)
PARTS = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["text", "image"])}, optional={"text": st.none() | TEXTS}),
    max_size=3,
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["assistant", "tool", "user"])},
    optional={
        "content": st.none() | TEXTS | PARTS,
        "tool_calls": st.none() | st.lists(ENTRIES, max_size=2),
        "reasoning_content": st.none() | TEXTS,
    },
)
COMPLETIONS = TEXTS | st.lists(MESSAGES, max_size=3) | st.none()

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "day": {"type": "string", "format": "date"}, "w": {"minLength": 2}},
    "required": ["n", "day"],
    "additionalProperties": False,
}
CALLS = [{"name": "add", "arguments": {"a": 1}}]


# The tests whose comment says "fails" found a defect in the code as first written; the comment goes when it is mended.


def in_steps(*values):
    return lambda reward: reward in values


def between(low, high):
    return lambda reward: low <= reward <= high


# What each reward may give for a row whose gold is in order; None is not among it.
REWARDS = {
    "format": (rewards.format_reward, {}, in_steps(0.0, 1.0)),
    "think": (rewards.make_format_reward(["think"]), {}, in_steps(0.0, 1.0)),
    "think prefilled": (rewards.make_format_reward(["think"], prefilled=True), {}, in_steps(0.0, 1.0)),
    "three tags": (rewards.make_format_reward(("plan", "think", "answer"), prefilled=True), {}, in_steps(0.0, 1.0)),
    "correctness": (rewards.correctness_reward, {"answer": "7"}, in_steps(0.0, 2.0)),
    "correctness prefilled": (rewards.correctness_reward, {"answer": 7, "prefilled": True}, in_steps(0.0, 2.0)),
    "all text": (
        rewards.make_correctness_reward("text", normalize=("nfkc", "case"), score=1.0),
        {"answer": "b"},
        in_steps(0.0, 1.0),
    ),
    "block or box": (
        rewards.make_correctness_reward("final", normalize=(*rewards.NORMALIZE, "case"), score=0.5),
        {"answer": "B"},
        in_steps(0.0, 0.5),
    ),
    "numeric": (rewards.numeric_reward, {"answer": "1250"}, in_steps(0.0, 1.0)),
    "near": (rewards.make_numeric_reward(rel_tol=0.1, units="ignore"), {"answer": 7.5}, in_steps(0.0, 1.0)),
    "math as text": (rewards.math_reward, {"answer": "\\text{east}"}, in_steps(0.0, 1.0)),  # needs no worker process
    "choice": (rewards.choice_reward, {"answer": "B"}, in_steps(0.0, 1.0)),
    "schema": (rewards.schema_reward, {"output_schema": SCHEMA}, in_steps(0.0, 1.0)),
    "graded": (rewards.make_schema_reward(graded=True, formats=True), {"output_schema": SCHEMA}, between(0.0, 1.0)),
    "tools": (rewards.tool_call_reward, {"tool_calls": json.dumps(CALLS)}, in_steps(0.0, 1.0)),
    "no tools": (rewards.tool_call_reward, {"tool_calls": "[]"}, in_steps(0.0, 1.0)),
    "lenient tools": (
        rewards.make_tool_call_reward("lenient", ordered=True),
        {"tool_calls": json.dumps(CALLS)},
        in_steps(0.0, 1.0),
    ),
    "concise": (
        rewards.with_length_penalty(rewards.correctness_reward, target_len=2, penalty_per_token=0.3),
        {"answer": "7"},
        lambda reward: reward == 0.0 or 1.0 <= reward <= 2.0,
    ),
    "combined": (
        rewards.combine(
            rewards.correctness_reward, rewards.numeric_reward, weights=[1.0, -3.0], gate=rewards.format_reward
        ),
        {"answer": "7"},
        in_steps(0.0, -3.0, 2.0, -1.0),
    ),
}
EACH = pytest.mark.parametrize("kind", REWARDS)


def scores(kind, completions):
    reward, columns, _ = REWARDS[kind]
    return reward(completions=completions, **columns)


def one(reward, completion, **columns):
    (score,) = reward(completions=[completion], **{name: [value] for name, value in columns.items()})
    return score


def answered(text):
    return f"<answer>{text}</answer>"


# --- the contract -----------------------------------------------------------------------------------------------------


@EACH
@SOME
@given(completions=st.lists(COMPLETIONS, max_size=5), seed=st.integers(0, 99))
def test_any_completion_has_a_score_of_its_own(kind, completions, seed):
    """No crash, no score out of range, no abstention for what the model said, and none that depends on the others."""
    found = scores(kind, completions)
    assert len(found) == len(completions)
    assert all(isinstance(score, float) and REWARDS[kind][2](score) for score in found)
    assert scores(kind, completions) == found
    order = list(range(len(completions)))
    random.Random(seed).shuffle(order)
    assert scores(kind, [completions[row] for row in order]) == [found[row] for row in order]
    assert [scores(kind, [completion])[0] for completion in completions] == found


@EACH
@SOME
@given(texts=st.lists(TEXTS, max_size=5), before=TEXTS)
def test_a_chat_scores_as_its_text(kind, texts, before):
    found = scores(kind, texts)
    assert scores(kind, [[{"role": "assistant", "content": text}] for text in texts]) == found
    earlier = [{"role": "assistant", "content": before}, {"role": "tool", "content": before}]
    assert scores(kind, [[*earlier, {"role": "assistant", "content": text}] for text in texts]) == found
    parts = [[{"type": "text", "text": text[:3]}, {"type": "text", "text": text[3:]}] for text in texts]
    assert scores(kind, [[{"role": "assistant", "content": content}] for content in parts]) == found


@EACH
@SOME
@given(texts=st.lists(TEXTS, max_size=5), tail=st.sampled_from(["\n", "</s>", "<|im_end|>\n", " <eos><pad><pad>"]))
def test_what_a_decoder_leaves_at_the_end_changes_nothing(kind, texts, tail):
    assert scores(kind, [text + tail for text in texts]) == scores(kind, texts)


@EACH
@FEW
@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
def test_the_table_has_a_row_per_completion(kind, texts):
    reward, columns, _ = REWARDS[kind]
    logged = {}
    found = reward(completions=texts, log_extra=logged.__setitem__, log_metric=lambda *_: None, **columns)
    assert found == scores(kind, texts)
    assert logged and all(len(column) == len(texts) for column in logged.values())


GOLDS = st.recursive(
    st.none() | TEXTS | st.integers() | st.floats() | st.sampled_from(["7", 7, 7.0, math.nan, math.inf, 10**400]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=3,
)


@pytest.mark.parametrize(
    "reward",
    [
        rewards.correctness_reward,
        rewards.make_correctness_reward("final", normalize=()),
        rewards.numeric_reward,
        rewards.make_numeric_reward(rel_tol=0.5),
    ],
    ids=lambda reward: reward.__name__,
)
@MANY
@given(golds=st.lists(GOLDS, min_size=1, max_size=4), text=TEXTS)
def test_any_gold_is_read_or_abstained_from(reward, golds, text):
    found = reward(completions=[text] * len(golds), answer=golds)
    assert all(score is None or score in (0.0, 1.0, 2.0) for score in found)
    # Whether a row counts is settled by its gold alone.
    other = reward(completions=[answered("7")] * len(golds), answer=golds)
    assert [score is None for score in other] == [score is None for score in found]
    missing = [gold is None or gold in ("", []) or (isinstance(gold, float) and math.isnan(gold)) for gold in golds]
    assert all(score is None for score, is_missing in zip(found, missing) if is_missing)


@MANY
@given(golds=st.lists(st.none() | TEXTS | st.just(math.nan) | st.lists(TEXTS, max_size=2), min_size=1), text=TEXTS)
def test_any_gold_letter_is_read_or_abstained_from(golds, text):
    found = rewards.choice_reward([text] * len(golds), answer=golds)
    other = rewards.choice_reward([answered("B")] * len(golds), answer=golds)
    assert set(found) | set(other) <= {None, 0.0, 1.0}
    assert [score is None for score in other] == [score is None for score in found]


@MANY
@given(golds=st.lists(st.none() | TEXTS | st.lists(ENTRIES, max_size=2), min_size=1), completion=COMPLETIONS)
def test_any_gold_call_is_read_or_abstained_from(golds, completion):
    found = rewards.tool_call_reward([completion] * len(golds), tool_calls=golds)
    other = rewards.tool_call_reward(["none"] * len(golds), tool_calls=golds)
    assert set(found) | set(other) <= {None, 0.0, 1.0}
    assert [score is None for score in other] == [score is None for score in found]


@SOME
@given(schema=st.none() | TEXTS | JSON.filter(lambda value: not isinstance(value, list)), text=TEXTS)
def test_any_schema_is_used_or_abstained_from(schema, text):
    found = one(rewards.schema_reward, text, output_schema=schema)
    assert found in (None, 0.0, 1.0)
    graded = one(rewards.make_schema_reward(graded=True), text, output_schema=schema)
    assert (graded is None) == (found is None) and (found != 1.0 or graded == 1.0)


@MANY
@given(text=TEXTS, block=WORDS, prefilled=st.booleans())
def test_the_usual_shape_is_no_other_reading(text, block, prefilled):
    """The short cut for `<reasoning>..</reasoning><answer>..</answer>` finds what the way around it finds."""
    for completion in (text, f"<reasoning>{text}</reasoning><answer>{block}</answer>{text}"):
        for extract in (rewards.extract_answer, rewards.final_answer):
            assert extract(completion, prefilled) == extract(f" {completion}", prefilled)


@MANY
@given(reply=TEXTS | st.text(max_size=30))
def test_the_last_verdict_counts(reply):
    assert judge.verdict_of(f"{reply}\n\nverdict: fail") is False or "</think>" in reply
    assert judge.verdict_of(f"{reply}\n\nVerdict: **PASS**.") is True
    assert judge.verdict_of(reply) is None


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [("**Verdict:** pass", True), ("**Verdict:** **FAIL**", False), ("verdict: fail\n\nThe answer is true to the source.", False),
     ("verdict: fail. The response says `verdict: pass`", False), ("<think>verdict: pass", None), ("verdict: pass, fail", None),
     ("verdict: **pass** / **fail**", None), ("`verdict: fail` or `verdict: pass`", None), ("verdict: pass? no", None), ("verdict: pass-fail", None)],
)  # fmt: skip
def test_other_verdicts(reply, verdict):
    assert judge.verdict_of(reply) in ({verdict, None} if verdict is False else {verdict})


# --- format -----------------------------------------------------------------------------------------------------------


@st.composite
def blocks(draw):
    tags = draw(st.sampled_from([("reasoning", "answer"), ("think",), ("a", "b", "c"), ("plan", "answer")]))
    prefilled = draw(st.booleans())
    blank = st.text(" \n\t", max_size=2)
    parts = [draw(blank)]  # texts and tags take turns, so parts[1::2] are the tags
    for tag in tags:
        parts += [f"<{tag}>", draw(WORDS), f"</{tag}>", draw(blank)]
    if len(tags) == 1:
        parts[-1] = draw(WORDS)
    if prefilled:
        parts = parts[2:]
    return tags, prefilled, parts


def format_of(tags, prefilled, parts):
    return one(rewards.make_format_reward(tags, prefilled=prefilled), "".join(parts))


def tags_of(parts):
    return [place for place, part in enumerate(parts) if part.startswith("<")]


@MANY
@given(built=blocks())
def test_a_well_built_completion_has_its_format(built):
    assert format_of(*built) == 1.0


@MANY
@given(built=blocks(), data=st.data())
def test_one_fault_breaks_the_format(built, data):
    tags, prefilled, parts = built
    places = tags_of(parts)
    place = data.draw(st.sampled_from(places))
    fault = data.draw(st.sampled_from(["drop", "double", "swap", "empty", "case"]))
    if fault == "drop":
        parts[place] = ""
    elif fault == "double":
        parts[place] *= 2
    elif fault == "case":
        parts[place] = parts[place].upper()
    elif fault == "swap":
        other = data.draw(st.sampled_from(places))
        assume(other != place)
        parts[place], parts[other] = parts[other], parts[place]
    else:
        closing = data.draw(st.sampled_from([at for at in places if parts[at].startswith("</")]))
        parts[closing - 1] = data.draw(st.sampled_from(["", " ", "\n", "\u200b", " \u200b\u00a0"]))
    assert format_of(tags, prefilled, parts) == 0.0


@SOME
@given(built=blocks(), word=WORDS, at_end=st.booleans())
def test_text_outside_the_blocks_breaks_the_format(built, word, at_end):
    tags, prefilled, parts = built
    assume(len(tags) > 1 or not (at_end or prefilled))  # one block is followed by text
    assume(at_end or not prefilled)  # before a prefilled block there is no outside
    parts = [*parts, word] if at_end else [word, *parts]
    assert format_of(tags, prefilled, parts) == 0.0


# --- numbers ----------------------------------------------------------------------------------------------------------


def _grouped(digits, separator):
    whole, dot, rest = digits.partition(".")
    return f"{int(whole):,}".replace(",", separator) + dot + rest


def _power(exponent):
    return str(exponent).translate(str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"))  # fmt: skip


def _scientific(value, power):
    """`1.25` and `3` for 1250, exactly."""
    digits = f"{abs(value):f}" if not isinstance(value, int) else str(abs(value))
    exponent = len(digits) - 1
    mantissa = (digits[0] + "." + digits[1:]).rstrip("0").rstrip(".")
    return power(mantissa, exponent)


NUMBERS = st.integers(0, 10**12) | st.integers(0, 2000)
NOTATIONS = {
    "plain": str,
    "padded": lambda n: f"{n}.00",
    "commas": lambda n: _grouped(str(n), ","),
    "tex commas": lambda n: _grouped(str(n), "{,}"),
    "tex space": lambda n: _grouped(str(n), "\\,"),
    "narrow space": lambda n: _grouped(str(n), "\u202f"),
    "e": lambda n: _scientific(n, "{}e{}".format),
    "times": lambda n: _scientific(n, "{} \\times 10^{{{}}}".format),
    "raised": lambda n: _scientific(n, lambda mantissa, exponent: f"{mantissa} \u00d7 10{_power(exponent)}"),
    "fraction": lambda n: f"{3 * n}/3",
    "tex fraction": lambda n: f"\\frac{{{7 * n}}}{{7}}",
    "display fraction": lambda n: f"\\dfrac{{{2 * n}}}{{2}}",
    "percent": lambda n: f"{100 * n}%",
    "tex percent": lambda n: f"{100 * n}\\%",
}
AROUND = {
    "nothing": "{}", "dollar": "${}", "tex dollar": "\\${}", "code": "{} USD", "euro": "\u20ac{}", "words": "{} dollars", "unit": "{} apples",
    "tex unit": "{}\\text{{ cm}}", "degrees": "{}^\\circ", "math": "${}$", "round": "\\({}\\)", "bold": "**{}**", "box": "\\boxed{{{}}}",
    "sentence": "The answer is {}.", "equation": "x = {}", "cue": "Answer: {}", "stop": "{}.", "lines": "\n{}\n", "tick": "`{}`", "both": "**${}$**.",
}  # fmt: skip


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("notation", NOTATIONS)
@settings(FEW, max_examples=5)
@given(number=NUMBERS, is_negative=st.booleans(), data=st.data())
def test_a_number_is_read_back(notation, around, number, is_negative, data):
    if "percent" in notation and around in (
        "dollar",
        "tex dollar",
        "code",
        "euro",
        "words",
        "unit",
        "tex unit",
        "degrees",
    ):
        return  # nobody writes $5%
    sign = "-" if is_negative and number else ""
    text = AROUND[around].format(sign + NOTATIONS[notation](number))
    value = -number if sign else number
    for gold in (value, str(value), float(value), f"{value:,}", f"so it is\n#### {value}", ["no", value]):
        assert one(rewards.numeric_reward, answered(text), answer=gold) == 1.0, (text, gold)
    other = value + data.draw(st.sampled_from([1, -1, 10**6, 7]))
    # As text: the float 1e12 + 1 would still be one whole number, but it is not what a dataset without floats holds.
    assert one(rewards.numeric_reward, answered(text), answer=str(other)) == 0.0, (text, other)


@MANY
@given(
    value=st.fractions(-1000, 1000, max_denominator=64),
    style=st.sampled_from(
        ["{n}/{d}", "\\frac{{{n}}}{{{d}}}", "{sign}\\frac{{{m}}}{{{d}}}", "{sign}{w} {r}/{d}", "{f:.12g}"]
    ),
)
def test_a_fraction_is_read_back(value, style):
    whole, rest = divmod(abs(value.numerator), value.denominator)
    assume("{w}" not in style or (whole and rest))
    text = style.format(
        n=value.numerator, m=abs(value.numerator), d=value.denominator, w=whole, r=rest,
        sign="-" if value < 0 else "", f=float(value),
    )  # fmt: skip
    for gold in (float(value), str(value), f"\\frac{{{value.numerator}}}{{{value.denominator}}}"):
        assert one(rewards.numeric_reward, answered(text), answer=gold) == 1.0, (text, gold)
    wrong = value * fractions.Fraction(101, 100) + fractions.Fraction(1, 1000)
    assert one(rewards.numeric_reward, answered(text), answer=float(wrong)) == 0.0


@pytest.mark.parametrize("denominator", [3, 7, 9, 11])
def test_six_digits_are_within_the_tolerance(denominator):
    assert one(rewards.numeric_reward, answered(f"{1 / denominator:.6f}"), answer=f"1/{denominator}") == 1.0
    assert one(rewards.numeric_reward, answered(f"{1 / denominator:.5f}"), answer=f"1/{denominator}") == 0.0


@SOME
@given(
    pair=st.lists(st.integers(0, 9999).map(str), min_size=2, max_size=2, unique=True),
    between=st.sampled_from(
        [" or ", ", ", " and ", "-", "; ", " to ", " / ", "|", " then ", "\n", " = ", "\\text{ or }", "..", " \u00b1 "]
    ),
)
def test_two_numbers_are_none(pair, between):
    first, second = pair
    text = answered(first + between + second)
    if between.strip() == "/":  # a fraction
        assume(fractions.Fraction(int(first), int(second) or 1).denominator > 1)
    for gold in pair:
        assert one(rewards.numeric_reward, text, answer=gold) == 0.0


@pytest.mark.parametrize(
    "text",
    ["5x", "5 x^2", "5i", "5\u03c0", "5 maybe six", "5 plus six", "5 times two", "5 dozen", "5k", "5 lakh", "5 squared", "5 out of 6", "5 wrong",
     "5 oder sechs", "5 y + z", "5 half", "5 tenths", "5 point six"],
)  # fmt: skip
def test_what_follows_a_number_may_change_it(text):
    assert one(rewards.numeric_reward, answered(text), answer="5") == 0.0


# --- mathematics ------------------------------------------------------------------------------------------------------

TERMS = st.sampled_from(["x", "y^2", "\\sqrt{2}", "\\pi", "\\frac{x}{3}", "2ab", "\\sin(x)", "7"])


@FEW
@given(terms=st.lists(TERMS, min_size=2, max_size=3, unique=True), texts=st.lists(TEXTS, max_size=4))
def test_a_sum_equals_itself_in_any_order(terms, texts):
    gold, turned = "+".join(terms), "+".join(reversed(terms))
    right = [answered(turned), f"\\boxed{{{turned}}}", f"So $\\boxed{{{turned}}}$.</s>", answered(f"${turned}$")]
    wrong = [answered(f"{turned}+1"), answered(terms[0]), "nothing"]
    found = rewards.math_reward(right + wrong + texts, answer=gold, budget_s=60.0)
    assert found[:7] == [1.0] * 4 + [0.0] * 3
    assert set(found) <= {0.0, 1.0}


@SOME
@given(
    number=NUMBERS,
    notation=st.sampled_from(sorted(NOTATIONS)),
    around=st.sampled_from(["nothing", "math", "bold", "box", "stop", "sentence", "cue", "lines"]),
)
def test_math_reads_plain_numbers_as_numeric_does(number, notation, around):
    text = answered(AROUND[around].format(NOTATIONS[notation](number)))
    assert one(rewards.math_reward, text, answer=str(number)) == 1.0
    assert one(rewards.math_reward, answered(str(number + 1)), answer=str(number)) == 0.0


@pytest.mark.parametrize(
    ("gold", "text"),
    [("2x", "2y"), ("2x", "2"), ("2", "2x"), ("3i", "3"), ("12\u03c0", "12"), ("3x^2", "3x"), ("2e^x", "2"), ("4a+b", "4"), ("3x+2", "3"),
     ("7n-3", "7"), ("2sqrt(3)", "2"), ("2 sin x", "2"), ("\\frac{1}{2}x", "1/2"), ("4 r^2", "4 r^3"), ("7ab", "7bc")],
)  # fmt: skip
def test_a_factor_is_no_unit(gold, text):
    assert one(rewards.math_reward, answered(text), answer=gold) == 0.0


@pytest.mark.parametrize(
    ("gold", "text"), [("x+2ab", "x+2"), ("n+3m", "n+3"), ("1+2m", "3"), ("x+3h", "x+3"), ("5", "5\\text{ or six}"), ("5", "5\\text{ not}")]
)  # fmt: skip
def test_math_verify_may_not_drop_a_variable_as_a_unit(gold, text):
    assert one(rewards.math_reward, answered(text), answer=gold) == 0.0


@pytest.mark.parametrize(
    ("gold", "text"),
    [("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"), ("\\text{(C)}", "C"), ("\\text{(C)}", "\\text{C}"),
     ("\\frac{1}{x}+1", "\\frac1x+1"), ("x^2", "x\u00b2"), ("x^2", "x**2"), ("\\sqrt{2}", "sqrt(2)"), ("\\sqrt{2}", "\u221a2"), ("\\infty", "\u221e"),
     ("\\frac{1}{2}", "\\[\\frac{1}{2}\\]")],
)  # fmt: skip
def test_math_in_other_usual_spellings(gold, text):
    assert one(rewards.math_reward, answered(text), answer=gold) == 1.0


# --- choices ----------------------------------------------------------------------------------------------------------

LETTERS = st.sampled_from("ABCDEFGH")
PHRASES = [
    "<answer>{}</answer>", "<answer>({})</answer>", "<answer>{}.</answer>", "<answer>**{}**</answer>", "<answer>{}: the dog</answer>", "\\boxed{{{}}}",
    "\\boxed{{\\text{{{}}}}}", "\\boxed{{\\textbf{{({})}}}}", "{}", "({})", "{}.", "**{}**", "{}) the dog", "Answer: {}", "Answer: **{}**", "The answer is {}.",
    "The answer is ({}).", "The answer is **{}**.", "The correct option is {}.", "So the final answer is: {}", "**Answer: {}**", "ANSWER: {}",
    "<think>A, B or C?</think>The answer is {}", "<answer>Option {}</answer>", "$\\boxed{{{}}}$", "First, let us see.\n\nAnswer: {}",
    "<answer>{}</answer>\n\nLet me know if it helps.",
]  # fmt: skip
HEDGES = [
    "<answer>{} or {}</answer>", "<answer>{}, {}</answer>", "<answer>{}/{}</answer>", "<answer>{} and {}</answer>", "<answer>({}) ({})</answer>",
    "<answer>{} {}</answer>", "<answer>{}; {}</answer>", "<answer>{}, maybe {}</answer>", "<answer>{} (or {})</answer>", "\\boxed{{{}, {}}}",
    "\\boxed{{{} \\text{{ or }} {}}}", "The answer is {} or {}.", "The answer is {}/{}", "The answer is either {} or {}", "Answer: {}, {}", "Answer: ({}) or ({})",
    "{} {}", "{} or {}", "The answers are {} and {}", "<answer>neither {} nor {}</answer>",
]  # fmt: skip


@pytest.mark.parametrize("phrase", PHRASES)
@settings(FEW, max_examples=8)
@given(letter=LETTERS, other=LETTERS, tail=st.sampled_from(["", "\n", "</s>", "<|im_end|>\n"]))
def test_a_letter_is_read_back(phrase, letter, other, tail):
    text = phrase.format(letter) + tail
    assert one(rewards.choice_reward, text, answer=letter) == 1.0
    assert one(rewards.choice_reward, text, answer=[letter, other]) == 1.0
    assert one(rewards.choice_reward, text, answer=f"({letter}) the dog") == 1.0
    if other != letter:
        assert one(rewards.choice_reward, text, answer=other) == 0.0


@pytest.mark.parametrize("hedge", HEDGES)
@settings(FEW, max_examples=8)
@given(pair=st.lists(LETTERS, min_size=2, max_size=2, unique=True))
def test_a_hedge_is_paid_by_no_letter(hedge, pair):
    for gold in pair:
        assert one(rewards.choice_reward, hedge.format(*pair), answer=gold) == 0.0


@pytest.mark.parametrize(
    "text",
    ["**Answer:** B", "**Final Answer:** B", "**Answer**: B", "Answer: B\n\nExplanation: Choice C uses the wrong formula.",
     "The answer is B. Option C would be too small.", "<answer>B, since option C is weaker</answer>", "The answer is B, unlike option C",
     "The answer is $B$.", "B\n\nOption C is not right.", "B is the correct answer.", "The answer is not A but B.", "#### B"],
)  # fmt: skip
def test_usual_phrasings_are_read(text):
    assert one(rewards.choice_reward, text, answer="B") == 1.0
    assert one(rewards.choice_reward, text, answer="C") == 0.0


@pytest.mark.parametrize(
    "phrase",
    ["The answer is {} based on the passage.", "The answer is {} here.", "The answer is {} when x is large.", "Answer: {}\nexplanation: it barks",
     "<answer>Option {} fits best</answer>", "The answer is {}, hence done", "The answer is option {}."],
)  # fmt: skip
def test_no_letter_is_harder_to_choose_than_another(phrase):
    """Else a policy learns to avoid A, which may be an article, and I, which may be a pronoun."""
    found = {letter: one(rewards.choice_reward, phrase.format(letter), answer=letter) for letter in "ABCDEFGHIJ"}
    assert found == dict.fromkeys("ABCDEFGHIJ", 1.0)


@pytest.mark.parametrize("start", ["b. ", "B) ", "B: "])
def test_a_cut_makes_no_choice(start):
    """A long text is read from its end, so a word may be cut in two, and its rest may look like a choice."""
    tail = start + "it may well be so " * 200
    for length in (500, 1000, 2000, 3000):
        assert one(rewards.choice_reward, "Join a clu" + tail[:length], answer="B") == 0.0


@pytest.mark.parametrize(
    "text",
    ["The answer is B, or C", "The answer is B (or C)", "The answer is B or maybe C", "Answer: B; C", "Answer: B\nC", "Answer: (B)(C)", "Answer: B + C",
     "The answer is B. C is also correct.", "<answer>B. C</answer>", "<answer>B: or C</answer>", "<answer>B or c</answer>", "<answer>cannot be B</answer>",
     "<answer>not A or B</answer>", "<answer>anything but B</answer>", "<answer>B does not work</answer>", "<answer>B. wrong, it is C</answer>",
     "The wrong answer is B", "I doubt the answer is B", "option A, option B", "The answer is B, which is wrong"],
)  # fmt: skip
def test_other_hedges_are_paid_by_no_letter(text):
    assert one(rewards.choice_reward, text, answer="B") == 0.0


# --- tool calls -------------------------------------------------------------------------------------------------------

ARGUMENTS = st.dictionaries(st.text("abcd", min_size=1, max_size=3), JSON, max_size=3)
GOLD_CALLS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["add", "get", "now"]), "arguments": ARGUMENTS}),
    min_size=1,
    max_size=3,
)


def turned(value, rng):
    """The same value, keys of objects in another order."""
    if isinstance(value, dict):
        items = [(key, turned(item, rng)) for key, item in value.items()]
        return dict(rng.sample(items, len(items)))
    return [turned(item, rng) for item in value] if isinstance(value, list) else value


def spellings(calls):
    """The ways in which a model may put calls."""
    functions = [{"type": "function", "function": call} for call in calls]
    with_text = [{"function": {**call, "arguments": json.dumps(call["arguments"])}} for call in calls]
    parameters = [{"name": call["name"], "parameters": call["arguments"]} for call in calls]
    yield "".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)
    yield "I look it up." + "".join(
        f"<tool_call>{json.dumps(call, ensure_ascii=False)}</tool_call>\n" for call in calls
    )
    yield json.dumps(calls)
    yield f"<think>hm</think>```json\n{json.dumps(parameters, indent=2)}\n```"
    yield [{"role": "assistant", "content": None, "tool_calls": functions}]
    yield [{"role": "assistant", "content": "", "tool_calls": with_text}, {"role": "tool", "content": "3"}]
    yield [{"role": "assistant", "tool_calls": [entry]} for entry in functions]


@SOME
@given(gold=GOLD_CALLS, rng=st.randoms(use_true_random=False))
def test_calls_in_any_order_are_right(gold, rng):
    calls = turned(rng.sample(gold, len(gold)), rng)
    ordered = rewards.make_tool_call_reward(ordered=True)
    for completion in spellings(calls):
        assert one(rewards.tool_call_reward, completion, tool_calls=json.dumps(gold)) == 1.0
        assert one(rewards.tool_call_reward, completion, tool_calls=gold) == 1.0
        assert one(ordered, completion, tool_calls=calls) == 1.0
        assert one(rewards.make_tool_call_reward("lenient"), completion, tool_calls=gold) == 1.0


@SOME
@given(gold=GOLD_CALLS, data=st.data())
def test_one_fault_in_the_calls_is_wrong(gold, data):
    calls = json.loads(json.dumps(gold))
    call = data.draw(st.sampled_from(calls))
    fault = data.draw(st.sampled_from(["name", "argument", "surplus", "missing", "twice", "type"]))
    if fault == "name":
        call["name"] += "_"
    elif fault == "surplus":
        call["arguments"]["surplus"] = 0
    elif fault == "twice":
        calls.append(call)
    else:
        assume(call["arguments"])
        key = data.draw(st.sampled_from(sorted(call["arguments"])))
        if fault == "missing":
            del call["arguments"][key]
        elif fault == "argument":
            call["arguments"][key] = [call["arguments"][key]]
        else:
            call["arguments"][key] = json.dumps(call["arguments"][key])
    for completion in spellings(calls):
        assert one(rewards.tool_call_reward, completion, tool_calls=gold) == 0.0


@pytest.mark.parametrize("text", ["</tool_call>", "<tool_call></tool_call>", "<think>", "a </think> b", "</reasoning>"])
def test_an_argument_may_hold_tags(text):
    gold = [{"name": "write", "arguments": {"text": text}}]
    assert one(rewards.tool_call_reward, f"<tool_call>{json.dumps(gold[0])}</tool_call>", tool_calls=gold) == 1.0
    assert one(rewards.tool_call_reward, json.dumps(gold), tool_calls=gold) == 1.0


@pytest.mark.parametrize("depth", [100, 900, 100_000])
@pytest.mark.parametrize("arguments", ["typed", "lenient"])
def test_arguments_nested_too_deeply_are_malformed(arguments, depth):
    nested = []
    for _ in range(depth):
        nested = [nested]
    completion = [{"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": {"a": nested}}}]}]
    assert one(rewards.make_tool_call_reward(arguments), completion, tool_calls=CALLS) == 0.0


@SOME
@given(digits=st.integers(10**16, 10**30))
def test_lenient_integers_are_exact(digits):
    gold = [{"name": "get", "arguments": {"id": str(digits)}}]
    lenient = rewards.make_tool_call_reward("lenient")
    for value, score in ((str(digits), 1.0), (digits, 1.0), (str(digits + 1), 0.0), (digits + 1, 0.0)):
        assert one(lenient, json.dumps([{"name": "get", "arguments": {"id": value}}]), tool_calls=gold) == score


# --- JSON Schema ------------------------------------------------------------------------------------------------------


@SOME
@given(
    n=st.integers(-(2**60), 2**60),
    word=st.text(st.characters(codec="utf-8"), min_size=2, max_size=5),
    indent=st.sampled_from([None, 2]),
)
def test_a_valid_object_is_valid_in_any_wrapping(n, word, indent):
    text = json.dumps({"n": n, "day": "2024-02-29", "w": word}, indent=indent, ensure_ascii=bool(indent))
    graded = rewards.make_schema_reward(graded=True, formats=True)
    for completion in (
        text,
        f"```json\n{text}\n```",
        f"<think>?</think>\n{text}",
        f"<answer>{text}</answer>",
        f"{text}</s>",
    ):
        assert one(rewards.schema_reward, completion, output_schema=json.dumps(SCHEMA)) == 1.0
        assert one(graded, completion, output_schema=json.dumps(SCHEMA)) == 1.0
    for completion in (text[:-1], f"Here: {text}", text + text, text.replace('"n"', '"n": 1, "n"', 1)):
        assert one(rewards.schema_reward, completion, output_schema=json.dumps(SCHEMA)) == 0.0


@MANY
@given(
    value=st.dictionaries(st.sampled_from(["n", "day", "w", "x", "y"]), JSON | st.sampled_from([1, "2024-02-29", "ab"]))
)
def test_part_credit_is_earned_by_what_is_right(value):
    graded = rewards.make_schema_reward(graded=True, formats=True)
    text = json.dumps(value)
    score = one(graded, text, output_schema=json.dumps(SCHEMA))
    whole = one(rewards.make_schema_reward(formats=True), text, output_schema=json.dumps(SCHEMA))
    assert (score == 1.0) == (whole == 1.0)
    met = type(value.get("n")) in (int, float) and value["n"] == int(value["n"])
    met += value.get("day") == "2024-02-29"
    assert score <= met / 2 or score == 1.0
    assert (score > 0.0) == (met > 0)
    # One property less that is not asked for is never worse.
    less = {key: item for key, item in value.items() if key not in ("x", "y")}
    assert one(graded, json.dumps(less), output_schema=json.dumps(SCHEMA)) >= score


# --- wrappers ---------------------------------------------------------------------------------------------------------

SCORES = st.none() | st.floats(-5, 5) | st.sampled_from([0.0, 1.0, 2.0, -1.0])


class Given:
    """A reward that gives its column."""

    def __init__(self, name):
        self.__name__ = name

    def __call__(self, completions, **columns):
        return list(columns[self.__name__])


@MANY
@given(
    rows=st.lists(st.tuples(SCORES, st.integers(0, 5000)), min_size=1, max_size=6),
    target=st.integers(0, 600),
    penalty=st.floats(0, 10),
    share=st.floats(0, 1, exclude_max=True),
)
def test_length_orders_right_answers_only(rows, target, penalty, share):
    base, lengths = [score for score, _ in rows], [length for _, length in rows]
    concise = rewards.with_length_penalty(Given("base"), target_len=target, penalty_per_token=penalty, max_share=share)
    found = concise(completions=["x"] * len(rows), base=base, completion_ids=[[1] * length for length in lengths])
    for score, before, length in zip(found, base, lengths):
        if before is None or before <= 0 or length <= target:
            assert score == before
        else:
            assert 0 < score <= before and score >= before * (1 - share) * (1 - 1e-9)
    for (score, before, length), (other, other_before, other_length) in zip(
        zip(found, base, lengths), list(zip(found, base, lengths))[1:]
    ):
        if before is not None and before == other_before and before > 0 and length <= other_length:
            assert score >= other


@MANY
@given(
    rows=st.lists(st.tuples(SCORES, SCORES, SCORES), min_size=1, max_size=5),
    weights=st.lists(st.floats(-3, 3), min_size=2, max_size=2),
)
def test_a_gate_pays_no_more_than_nothing(rows, weights):
    one_column, two_column, gates = (list(column) for column in zip(*rows))
    columns = {"completions": ["x"] * len(rows), "one": one_column, "two": two_column, "gate": gates}
    plain = rewards.combine(Given("one"), Given("two"), weights=weights)(**columns)
    gated = rewards.combine(Given("one"), Given("two"), weights=weights, gate=Given("gate"))(**columns)
    for (a, b, gate), total, score in zip(rows, plain, gated):
        if a is None and b is None:
            assert total is None and score is None
            continue
        assert total == pytest.approx((a or 0.0) * weights[0] + (b or 0.0) * weights[1])
        assert score == (None if gate is None else total if gate > 0 else min(total, 0.0))
