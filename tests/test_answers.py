"""scripts/answers.py: numbers, choices and expressions, read from what models write and refused where it is not one."""

from fractions import Fraction

import answers
import pytest
import rewards


def number(text):
    found = answers.read_number(rewards._normalize(text))
    return found and (found[0], found[1] + ("%" if found[2] else ""))


@pytest.mark.parametrize(
    ("value", "unit", "texts"),
    [
        (1250, "", ["1250", "1,250", "1 250", "1\u00a0250", "1\u202f250", "1_250", "1{,}250", r"1\,250", "1250.0", "1.250,0", "1.25e3", "1.25E+3", r"1.25 \times 10^{3}",
                    "1.25*10^3", "1.25\u00d710\u00b3", "12.5\u00b710\u00b2", r"\frac{2500}{2}", "2500/2", "x = 1250", "= 1250", "\u2248 1250", "about 1250", "The answer is 1250.", "Answer: **1,250**",
                    "(1250)", r"\text{1250}", r"\mathrm{1,250}", "$1250$", r"\(1250\)", "**1250**", "+1250", "\uff11\uff12\uff15\uff10", "1250."]),
        (1500000, "", ["1.5 million", "1,500,000", "15,00,000", "0.0015 billion", "1500 thousand"]),
        (Fraction(3, 2), "", ["1.5", "3/2", "1 1/2", "1\u00bd", r"1\frac{1}{2}", r"\frac32", r"\dfrac{3}{2}", "1.50"]),
        (-5, "", ["-5", "\u22125", "- 5", "\u20135", "-10/2"]),
        (Fraction(1, 3), "", [r"0.\overline{3}", r".\overline{3}", "1/3"]), (Fraction(1, 6), "", [r"0.1\overline{6}"]),
        (Fraction(1, 2), "", [".5", "0.5", "\u00bd", "1/2", "5e-1", "5\u00b710\u207b\u00b9"]),
        (70000, "$", ["$70,000", r"\$70,000", "70,000 dollars", "USD 70,000", "70000 USD", "US$70,000", "70 thousand dollars"]),
        (-5, "$", ["-$5", "$-5"]), (5, "\u20ac", ["\u20ac5", "5 \u20ac", "5 euros", "EUR 5"]),
        (28, "%", ["28%", r"28\%", "28 %", "28 percent", "28.0%"]),
        (5, "cm", ["5 cm", r"5\text{ cm}", r"5 \mathrm{cm}", "5cm"]), (5, "m2", ["5 m^2", "5 m\u00b2"]), (90, "degree", ["90\u00b0", r"90^\circ", r"90^{\circ}", "90 degrees"]),
        (12, "apple", ["12 apples", "12 Apples", "12 apple"]), (5, "km/hour", ["5 km/h", "5 km per hour", "5 kilometers per hour"]), (10**5, "", ["10^5", "10**5", "10\u2075", "10^{5}"]),
    ],
)  # fmt: skip
def test_one_number_in_many_spellings(value, unit, texts):
    assert {text: number(text) for text in texts} == dict.fromkeys(texts, (value, unit))


@pytest.mark.parametrize(
    "text",
    ["", "five", "3 or 4", "3 and 4", "3, 4", "3-4", "3\u20134", "3 to 4", "not 5", "5 is wrong", "5 5", "1,25", "1,2,3", "12/25/2020", "5:30", "5.5.5", "1,250,00", "1/0", "0x10", "NaN",
     "inf", "x", "2x", "5 + 3", "5!", "2^3", r"\sqrt{4}", "(1,250)", "[1,250]", r"\{5\}", "10^999999999", "1e999999999", "9" * 500, "5 or so", "5?", "5 < 6", "between 5 and 6", "2 h 30 min",
     "5x", "5i", "5\u03c0", "5 x^2", "5 y + z", "5k", "5 dozen", "5 half", "5 tenths", "5 squared", "5 plus six", "5 maybe six", "5 wrong", "5 point six", "5 oder sechs", "5 maybe 3", "5x3",
     "5 choose 2", "5C2", "5 vs 3", "2 out of 3", "5 (or 6)", "5 cups flour sugar butter milk eggs vanilla", "5 one two", "five 5", "-", "$", "%", "e5", "1e", "1/2/3", "--5", "5-", "\u2080"],
)  # fmt: skip
def test_what_is_not_one_number(text):
    assert number(text) is None


def chosen(text, is_block=True, letters="ABCDEFGHIJ"):
    return answers.choice_in("\n".join(map(rewards._normalize, text.splitlines())), letters, is_block)


@pytest.mark.parametrize(
    ("letter", "texts"),
    [
        ("B", ["B", "b", "(B)", "(b)", "B.", "B)", "b)", "[B]", "B:", "B: a dog", "(B) a dog", "B) a dog", "B. A dog", "B - a dog", "**B**", "**B.** a dog", r"\text{B}", r"\textbf{(B)}", "\uff22",
               "option B", "Option (B)", "choice b", "The answer is B", "the answer is **B**.", "Answer: B", "answer: (b)", "The correct answer is B because A is too small", "I think it is B", "It must be B!",
               "not A but B", "not A, the answer is B", "The answer isn't A, it's B", "A is wrong, so B", "neither A nor C but B", "rather than A, B", "eliminate A; B", "B (not A)", "B: vitamin C",
               "B, because", "It can't be A, so B", "The answer is A. Wait, the answer is B.", "A is incorrect; the answer is B"]),
        ("A", ["A", "a", "(a)", "A: a dog", "The answer is A", "The answer is A because it fits", "A since B is false", "A."]),
        ("I", ["I", "(I)", "The answer is I"]),
        ("?", ["A or B", "A and B", "A, B", "A/B", "both A and B", "The answer is A or B", "The answer is A, B", "(A) x (B) y (C) z", "A) x B) y", "A: x. B: y", "(a) and (b)", "A, B, C, D"]),
        ("", ["", "A dog", "a dog", "an apple", "I think so", "the answer is a dog", "none", "AB", "B12", "x", "not B", "B is wrong", "K", "Aa", "don't", "it's"]),
    ],
)  # fmt: skip
def test_choices_in_a_block(letter, texts):
    assert {text: chosen(text) for text in texts} == dict.fromkeys(texts, letter)


@pytest.mark.parametrize(
    ("letter", "texts"),
    [
        ("B", ["B", "(B)", "B: a dog", "The answer is B.", "I looked at A and C. So the answer is (B)", "Answer: B", "Option B"]),
        ("?", ["The answer is A or B", "A) x B) y"]),
        ("", ["A dog and B movies", "B or C", "It could be B", "Vitamin B helps"]),
    ],
)  # fmt: skip
def test_outside_a_block_a_bare_letter_is_no_choice(letter, texts):
    assert {text: chosen(text, is_block=False) for text in texts} == dict.fromkeys(texts, letter)


@pytest.mark.parametrize(
    "text",
    ["The answer is B. Actually, C.", "The answer is B. No wait, C.", "The answer is B. Correction: C", "The answer is B. Hmm, actually it is C.", "The answer is B. On second thought, option C.", "The answer is B, or C", "The answer is B (or C)", "The answer is B or maybe C", "Answer: B; C", "Answer: B\nC", "Answer: (B)(C)", "Answer: B + C", "Answer: B|C", "The answer is B. C is also correct.",
     "B. C", "B: or C", "B or c", "cannot be B", "not A or B", "anything but B", "all but B", "excluding B", "without B", "unlike B", "B does not work", "B fails", "B has been ruled out",
     "B. wrong, it is C", "The wrong answer is B", "I doubt the answer is B", "The answer is B, which is wrong", "option A, option B", "B\n\nor C", "either B or C", "B and also C", "B/C"],
)  # fmt: skip
def test_a_hedge_or_what_is_taken_back_is_not_paid(text):
    assert chosen(text) != "B"


@pytest.mark.parametrize(
    ("text", "letter"),
    [("The answer is B. Actually, A dog would do.", "B"), ("The answer is B. No other option fits.", "B"), ("Answer: C\n\nExplanation: Choice B uses the wrong formula.", "C"), ("The answer is C. Option B would be too small.", "C"), ("C, since option B is weaker", "C"), ("The answer is C, unlike option B", "C"),
     ("The answer is A based on the passage.", "A"), ("The answer is A here.", "A"), ("Answer: A\nexplanation follows", "A"), ("Option A fits best", "A"), ("**Answer:** B", "B"), ("**Answer**: B", "B"),
     ("**Final Answer:**\nB", "B"), ("The answer is $B$.", "B"), ("B is the correct answer.", "B"), ("The answer is not A but B.", "B"), ("#### B", "B"), ("B\n\nOption C is not right.", "B"),
     ("We compare A and C.\n\nB", "B"), ("\u7b54\u6848\uff1aB", "B"), ('{"answer": "B"}', "B"), ("The answer is b.", "B"), ("The answer is B. C is too small.", "B"), ("B: not enough sleep", "B"), ("The answer is B not C", "B"),
     ("(B) is wrong, (C)", "C"), ("The correct option is \\textbf{(B)}", "B"), ("My answer: **(B)** because C fails", "B")],
)  # fmt: skip
def test_how_people_and_models_name_a_choice(text, letter):
    assert chosen(text) == letter


def test_letters_are_the_callers():
    assert (
        chosen("K", letters="KLM") == "K"
        and chosen("A", letters="KLM") == ""
        and chosen("E: vitamin B", letters="AE") == "E"
    )


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("x+1", "x+1"), (r"\frac{x}{2}", r"\frac{x}{2}"), ("n = 5", "n = 5"), ("The answer is x+1", "x+1"), (r"\sin x", r"\sin x"), ("sin(x)", "sin(x)"), (r"5 \text{ apples}", "5"), ("5 cm", "5"), (r"5\text{ cm}^2", "5"), (r"2\pi \,\mathrm{m}", r"2\pi"),
        (r"5\text{ or six}", None), (r"5\text{ not}", None), (r"1\text{ or }2", r"1\text{ or }2"), ("2 sinh x", "2 sinh x"), ("2 ab", "2 ab"), ("x**2", "x^{2}"), ("x\u00b2", "x^{2}"), ("sqrt(2)", r"\sqrt{2}"),
        ("\u221a2", r"\sqrt{2}"), (r"0.1\overline{6}", r"\frac{15}{90}"), (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"3\sqrt{2} meters", r"3\sqrt{2}"), ("12 apples", "12"), (r"x \in [0, \infty)", r"x \in [0, \infty)"), (r"\text{no solution}", r"\text{no solution}"),
        ("see the figure", None), ("Tuesday", None), ("it is x", None), ("I do not know", None), ("", None), ("x" * 5000, None), ("abcd", None),
    ],
)  # fmt: skip
def test_prose_is_no_expression(text, expression):
    assert answers.expression(rewards._normalize(text)) == expression


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        ("5", "5.0", "equal"), ("5", "6", "unequal"), ("1/2", "0.5", "equal"), ("1/3", "0.3333", None), (r"\text{east}", "East.", "equal"), (r"\text{east}", r"\text{west}", "unequal"),
        ("28%", "28", "equal"), ("28%", "29", None), ("x", "x", None), (r"\text{13}", "13", "equal"), ("(1,250)", "1250", None), ("2m", "2", None), ("2", "2m", None), ("x", "X", "unequal"), ("$5", "5 dollars", "equal"), ("Monday", "monday", "equal"), ("unknown", "unknown", None),
    ],
)  # fmt: skip
def test_what_needs_no_algebra(gold, answer, verdict):
    assert answers.settled(gold, rewards._normalize(answer)) == verdict


def test_integers_are_equal_or_not_and_the_rest_has_a_tolerance():
    one, other, third = (answers.read_number(text) for text in ("1000000", "1000001", "1000000.5"))
    assert (
        not answers.same_number(one, other, None)
        and answers.same_number(one, other, 1e-5)
        and answers.same_number(one, third, None)
    )
    zero, tiny = answers.read_number("0"), answers.read_number("1e-9")
    assert not answers.same_number(zero, tiny, 0.5)
