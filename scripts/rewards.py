#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "jsonschema>=4.21", "jsonschema-rs>=0.30", "math-verify>=0.9", "tenacity>=9", "openai>=2",
#     "rich>=13", "pyarrow>=15",
# ]
# ///
"""Reward functions for TRL's GRPOTrainer, and commands that score sampled completions and try a reward before training.

Copy this file into your project and hand the functions to `GRPOTrainer(reward_funcs=[...])`, or name them
on the command line: `trl grpo --reward_funcs rewards.format_reward rewards.correctness_reward`. Some rewards need
another file of this folder beside it, and say so: answers.py, math_checks.py, schema_checks.py, killable.py, judge.py,
sandbox.py with its sandbox_runner.py and sandbox_proxy.py.

The contract every function here keeps (trl 1.16.0, trl/trainer/grpo_trainer.py, `_calculate_rewards`):

1. It is called with keywords only: `prompts`, `completions`, `completion_ids`, every dataset column as a list
   aligned with `completions`, `trainer_state`, `log_extra`, `log_metric`. AsyncGRPO leaves the last three out.
2. `completions` holds strings (string prompts) or lists of chat messages (conversational prompts).
3. It returns one float per completion, or None where the row does not count. TRL treats None as "no opinion".
4. What the model got wrong scores 0. What the user got wrong is an error or None, never a silent 0.
5. It can be pickled (AsyncGRPO spawns a process), and its `__name__` is its column in the logs.

Why each row scored as it did goes to the completions table as `<reward name>/reason` and `<reward name>/extracted`.
Importing this file needs the standard library only; everything else is imported where it is used.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import json
import logging
import math
import numbers
import os
import re
import sys
import unicodedata

__all__ = [
    "completion_text",
    "visible_text",
    "format_reward",
    "make_format_reward",
    "extract_answer",
    "final_answer",
    "correctness_reward",
    "make_correctness_reward",
    "numeric_reward",
    "make_numeric_reward",
    "math_reward",
    "choice_reward",
    "parse_json",
    "schema_reward",
    "make_schema_reward",
    "tool_call_reward",
    "make_tool_call_reward",
    "extract_code",
    "test_execution_reward",
    "make_test_execution_reward",
    "with_length_penalty",
    "combine",
    "make_rubric_judge_reward",
]

logger = logging.getLogger(__name__)


def completion_text(completion) -> str:
    """The text a completion is judged by: the string itself, or what the last assistant message says.

    Tool results and earlier turns are not the model's answer. `content` may be None (a pure tool call), or a list of
    parts (multimodal), of which the text parts count. `reasoning_content` is reasoning, so it is left out.

    Args:
        completion (`str`, `list[dict]` or `None`): one item of TRL's `completions`.

    Returns:
        `str`: the text, `""` where the model said nothing.

    Raises:
        TypeError: `completion` is neither text nor chat messages.

    Example:
        >>> completion_text([{"role": "assistant", "content": None, "tool_calls": []},
        ...                  {"role": "tool", "content": "42"},
        ...                  {"role": "assistant", "content": "It is 42."}])
        'It is 42.'
    """
    if isinstance(completion, str):
        return completion
    if completion is None:
        return ""
    if not isinstance(completion, (list, tuple)) or not all(isinstance(message, dict) for message in completion):
        raise TypeError(f"a completion must be a string or a list of chat messages, got {completion!r:.80}")
    for message in reversed(completion):
        if message.get("role", "assistant") == "assistant":
            content = message.get("content") or ""
            if isinstance(content, (list, tuple)):
                content = "".join(part.get("text") or "" for part in content if isinstance(part, dict))
            if not isinstance(content, str):
                raise TypeError(f"the content of a message must be text or a list of parts, got {content!r:.80}")
            return content
    return ""


# A decoder that keeps special tokens leaves these at the end (TRL's drops them). They are no part of the answer.
_END_OF_TURN = (
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|end|>", "<|return|>", "</s>",
    "<|eot|>", "<|call|>", "<|pad|>", "<|fim_pad|>", "<|vision_pad|>", "<|finetune_right_pad_id|>",
    "<|END_OF_TURN_TOKEN|>", "<eos>", "<pad>", "<end_of_turn>", "<\uff5cend\u2581of\u2581sentence\uff5c>",
)  # fmt: skip


def _without_end_of_turn(text: str) -> str:
    end = len(text.rstrip())
    while text.endswith(_END_OF_TURN, 0, end):  # by index: a tail of a thousand pad tokens must not be copied each time
        end = text.rfind("<", 0, end)
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]


def _column(reward_name: str, column: str, values, size: int) -> list:
    """One value per completion: a constant (text, number, dict, None) is repeated, a wrong length is an error."""
    if values is None or isinstance(values, (str, bytes, dict, numbers.Number)):
        return [values] * size
    values = list(values)
    if len(values) != size:
        raise ValueError(f"{reward_name}: column '{column}' has {len(values)} values for {size} completions")
    return values


def _report(name: str, rewards: list, reasons: list, log_extra, log_metric, extracted: list | None = None) -> None:
    """Show why each row scored as it did. The names carry the reward's own name: TRL keeps one column per name, so of
    two rewards that shared one only the later would be seen."""
    if log_extra is not None:
        log_extra(f"{name}/reason", reasons)
        if extracted is not None:
            log_extra(f"{name}/extracted", [None if text is None else str(text)[:200] for text in extracted])
    if log_metric is not None and rewards:
        log_metric(f"{name}/abstained", rewards.count(None) / len(rewards))


def _judge_answers(
    name: str, completions, answer, prefilled, read_gold, judge, log_extra, log_metric
) -> list[float | None]:
    """The rewards of `judge(text, gold, prefilled)`, which gives `(reward, reason, extracted)` for one completion. A
    gold is read once for the completions of its group, which follow each other."""
    size, verdicts, previous, gold_read = len(completions), [], name, None
    golds, flags = _column(name, "answer", answer, size), _column(name, "prefilled", prefilled, size)
    for completion, gold, flag in zip(completions, golds, flags):
        if gold is not previous or not verdicts:
            previous, gold_read = gold, read_gold(gold)
        verdicts.append(judge(completion_text(completion), gold_read, flag))
    rewards = [verdict[0] for verdict in verdicts]
    if log_extra is not None or log_metric is not None:
        reasons, extracted = [verdict[1] for verdict in verdicts], [verdict[2] for verdict in verdicts]
        _report(name, rewards, reasons, log_extra, log_metric, extracted)
    return rewards


class _Bound:
    """A reward with its settings bound. A class, because AsyncGRPO pickles rewards and a closure cannot be pickled, and
    because TRL lets a dataset column overrule what functools.partial has bound."""

    def __init__(self, function, name, **settings):
        self.function, self.__name__, self.settings = function, name, settings

    @property
    def __signature__(self) -> inspect.Signature:
        """So that a missing column is found before training."""
        signature = inspect.signature(self.function)
        kept = [one for key, one in signature.parameters.items() if key not in {"name", *self.settings}]
        return signature.replace(parameters=kept)

    def __call__(self, /, completions, **kwargs) -> list[float | None]:
        return self.function(**{**kwargs, **self.settings, "completions": completions, "name": self.__name__})


def _name_with(base: str, **settings) -> str:
    """A name that tells instances apart in the logs: the base, and what was set away from its default."""
    spelled = ("_".join(map(str, value)) if isinstance(value, tuple) else value for value in settings.values())
    return "_".join([base, *(re.sub(r"[^\w.+-]+", "_", str(value)) for value in spelled if value not in (None, ""))])


def _beside(module: str):
    """A script beside this one, whether this one is imported as `rewards`, as `scripts.rewards` or by its path."""
    package = __name__.rpartition(".")[0]
    name = f"{package}.{module}" if package else module
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{module}.py")
    try:
        found = importlib.import_module(name)
    except ImportError as error:
        if error.name != name:
            raise ImportError(f"{error}; pip install {error.name}") from error
        if not os.path.exists(path):
            raise ImportError(f"{error}; copy {module}.py beside rewards.py") from error
        specification = importlib.util.spec_from_file_location(name, path)
        found = sys.modules[name] = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(found)
    if os.path.exists(path) and not os.path.samefile(found.__file__, path):
        raise ImportError(f"{found.__file__} is imported in place of {path}; rename yours")
    return found


_NO_GLYPH = frozenset("\u115f\u1160\u2800\u3164\uffa0")


def _is_blank(text: str) -> bool:
    """Nothing to see: white space, or characters without a glyph such as U+200B."""
    text = text.strip()
    if not text or text.isascii():
        return not text
    return not any(
        c.isprintable() and not c.isspace() and c not in _NO_GLYPH and unicodedata.category(c)[0] != "M" for c in text
    )


@functools.lru_cache
def _tag_pattern(tags: tuple[str, ...]) -> re.Pattern:
    return re.compile(f"</?(?:{'|'.join(tags)})>")


def _format_reason(text: str, tags: tuple[str, ...], prefilled: bool) -> str:
    text = _without_end_of_turn(text)
    expected = [f"<{slash}{tag}>" for tag in tags for slash in ("", "/")][1 if prefilled else 0 :]
    # All tags in one pass, so time is linear in length whatever the text repeats. Each occurs once and in order, or
    # the completion is refused here: what follows may look for them one after the other.
    if _tag_pattern(tags).findall(text) != expected:
        return "wrong_tags"
    blocks, outside = [], []
    for tag in tags:
        if not (prefilled and tag == tags[0]):
            before, _, text = text.partition(f"<{tag}>")
            outside.append(before)
        block, _, text = text.partition(f"</{tag}>")
        blocks.append(block)
    if len(tags) == 1:  # a single block, followed by the answer
        blocks.append(text)
    else:
        outside.append(text)
    if any(map(str.strip, outside)):
        return "text_outside_blocks"
    return "empty_block" if any(map(_is_blank, blocks)) else "ok"


def _format_rewards(completions, tags, prefilled, name, log_extra=None, log_metric=None, **kwargs) -> list[float]:
    flags = _column(name, "prefilled", prefilled, len(completions))
    reasons = [_format_reason(completion_text(completion), tags, flag) for completion, flag in zip(completions, flags)]
    rewards = [1.0 if reason == "ok" else 0.0 for reason in reasons]
    _report(name, rewards, reasons, log_extra, log_metric)
    return rewards


def format_reward(completions, prefilled=False, log_extra=None, log_metric=None, **kwargs) -> list[float]:
    """1.0 if the completion is one `<reasoning>` block followed by one `<answer>` block and nothing else, else 0.0.

    Each tag occurs exactly once, in order, and neither block is empty: repeated, nested, mismatched and empty blocks
    are the cheapest ways for a policy to collect a format reward. End-of-turn tokens after the last block are no
    error. A gate, not a correctness signal.

    Args:
        completions (`list[str]` or `list[list[dict]]`): one per rollout.
        prefilled (`bool` or `list[bool]`): True where the chat template already wrote `<reasoning>`, so that the
            completion starts inside the block. Bind it with `functools.partial(format_reward, prefilled=True)`.

    Returns:
        `list[float]`: 1.0 or 0.0. Reasons: `ok`, `wrong_tags`, `text_outside_blocks`, `empty_block`.

    Example:
        >>> format_reward(["<reasoning>3 + 4</reasoning> <answer>7</answer>", "<answer>7</answer>"])
        [1.0, 0.0]
        >>> format_reward(["3 + 4</reasoning><answer>7</answer>"], prefilled=True)
        [1.0]
    """
    return _format_rewards(completions, ("reasoning", "answer"), prefilled, "format_reward", log_extra, log_metric)


def make_format_reward(tags=("reasoning", "answer"), prefilled=False, name=None):
    """`format_reward` for other tags: two or more blocks with nothing outside, or one block followed by text.

    Args:
        tags (`tuple[str, ...]`): names of the blocks in their order, without angle brackets.
        prefilled (`bool`): True if the chat template already wrote the first opening tag.
        name (`str`, *optional*): name in the logs. By default it tells settings apart.

    Returns:
        callable: picklable; range and reasons as `format_reward`.

    Raises:
        ValueError: a tag is no name, or one occurs twice.

    Example:
        >>> thinks = make_format_reward(["think"])
        >>> thinks(completions=["<think>3 + 4</think> It is 7.", "<think>3 + 4</think>", "It is 7."])
        [1.0, 0.0, 0.0]
        >>> make_format_reward(("plan", "code"), prefilled=True).__name__
        'format_reward_plan_code_prefilled'
    """
    tags = (tags,) if isinstance(tags, str) else tuple(tags)
    for tag in tags:
        if not re.fullmatch(r"[A-Za-z_][\w-]*", tag, re.ASCII):
            raise ValueError(
                f"make_format_reward: {tag!r} is no tag name; give it without angle brackets, as in 'think'"
            )
    if not tags or len(set(tags)) < len(tags):
        raise ValueError(f"make_format_reward: tags must be one or more different names, got {tags!r}")
    default = _name_with(
        "format_reward",
        tags=None if tags == ("reasoning", "answer") else tags,
        prefilled="prefilled" if prefilled else None,
    )
    return _Bound(_format_rewards, name or default, tags=tags, prefilled=bool(prefilled))


_REASONING_TAG = re.compile(r"<(/?)(reasoning|think)>")


def visible_text(text: str, prefilled: bool = False) -> str:
    """What is left of a completion without its reasoning (`<reasoning>` or `<think>` blocks).

    A block that is never closed hides the rest of the text: a truncated completion has not answered yet. A closing tag
    without an opening one hides everything before it. With `prefilled` (the chat template wrote the opening tag) the
    text begins inside a block.

    Example:
        >>> visible_text("<think>maybe 3</think>4")
        '4'
        >>> visible_text("maybe 3</think>4<think>or 5")
        '4'
        >>> visible_text("maybe 3", prefilled=True)
        ''
    """
    visible, start, opened = [], None if prefilled else 0, None  # start: of the stretch outside, None inside a block
    for tag in _REASONING_TAG.finditer(text):
        is_closing, name = tag.groups()
        if start is not None and not is_closing:
            visible.append(text[start : tag.start()])
            start, opened = None, name
        elif start is not None:
            visible.clear()
            start = tag.end()
        elif is_closing and opened in (name, None):
            start = tag.end()
    if start is not None:
        visible.append(text[start:])
    return "\n".join(filter(None, visible))


_USUAL_END = re.compile(r"</reasoning>[^<]*<answer>([^<]*)</answer>[^<]*")


def extract_answer(text: str, prefilled: bool = False) -> str | None:
    """The content of the last `<answer>` block outside the reasoning, or None if there is none.

    The last block counts because a draft that was taken back must not be paid; a last block that was never closed
    counts as no answer for the same reason. `prefilled` as in `visible_text`.

    Example:
        >>> extract_answer("<answer>red</answer> no, wait: <answer>blue</answer>")
        'blue'
        >>> extract_answer("<reasoning>say <answer>7</answer>?</reasoning> I do not know") is None
        True
    """
    # The usual shape, four tags and no other "<", is told without a pass over all tags.
    usual = text.startswith("<reasoning>") and _USUAL_END.fullmatch(text, text.find("<", 1))
    if usual:
        return usual[1]
    text = visible_text(text, prefilled)
    start = text.rfind("<answer>")
    end = text.find("</answer>", start)
    return None if start < 0 or end < 0 else text[start + len("<answer>") : end]


_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


def _last_box(text: str) -> tuple[int, int, str | None]:
    """Start and end of the last `\\boxed{...}` (-1: there is none) and what it holds (None: it was never closed)."""
    start = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    opening = _BOX.match(text, start) if start >= 0 else None
    if not opening:
        return -1, -1, None
    depth = 1
    for brace in _BRACE.finditer(text, opening.end()):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return start, brace.end(), text[opening.end() : brace.start()]
    return start, len(text), None


def final_answer(text: str, prefilled: bool = False) -> str | None:
    """The last `<answer>` block or `\\boxed{...}` outside the reasoning, or None if there is none.

    A box inside the block is taken out of it. The last one counts, and one that was never closed is no answer, because
    a draft that was taken back must not be paid. `prefilled` as in `visible_text`.

    Example:
        >>> final_answer("First \\\\boxed{3}. No: \\\\boxed{\\\\frac{1}{2}}")
        '\\\\frac{1}{2}'
        >>> final_answer("<answer>So it is \\\\boxed{7}.</answer>")
        '7'
    """
    usual = text.startswith("<reasoning>") and "\\" not in text and _USUAL_END.fullmatch(text, text.find("<", 1))
    if usual:
        return usual[1]
    text = visible_text(text, prefilled)
    start = text.rfind("<answer>")
    end = text.find("</answer>", start) if start >= 0 else -1
    box_start, _, box = _last_box(text)
    if start < 0 or box_start > max(start, end):
        return box
    if end < 0:
        return None
    block = text[start + len("<answer>") : end]
    box_start, _, box = _last_box(block)
    return block if box_start < 0 else box


_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "-")
_LAYERS = {
    "emphasis": (("**", "**"), ("*", "*"), ("`", "`")),
    "box": (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")),
}
NORMALIZE = ("nfkc", "minus", "emphasis", "box", "full_stop")


def _nfkc(text: str) -> str:
    """Unicode NFKC, but raised and lowered characters stay, and a fraction keeps its distance: plain NFKC would make
    10\u00b2 equal to 102 and 1\u00bd to 11/2."""
    folded = []
    for c in text:
        if unicodedata.category(c) == "Cf":  # no glyph: zero-width blanks, byte order and direction marks
            continue
        kind, plain = unicodedata.decomposition(c), unicodedata.normalize("NFKC", c)
        is_fraction = kind.startswith("<fraction>")
        folded.append(c if kind.startswith(("<super>", "<sub>")) else f" {plain}" if is_fraction else plain)
    return unicodedata.normalize("NFC", "".join(folded)).replace("\u2044", "/")


def _inside(text: str, steps: tuple[str, ...]) -> str:
    """The text without its outermost layer of emphasis or box, or without its full stop."""
    if "full_stop" in steps and text.endswith((".", "\u3002")) and len(text) > 1 and text[-2] != ".":
        return text[:-1].rstrip()
    for step in steps:
        for opening, closing in _LAYERS.get(step, ()):
            inner = text[len(opening) : len(text) - len(closing)]
            plain = inner.replace(f"\\{opening}", "")  # in $\\$5$ the inner one is money
            if text.startswith(opening) and text.endswith(closing) and inner and opening not in plain:
                return inner.strip()
    start, end, box = _last_box(text) if "box" in steps and text.endswith("}") else (-1, -1, None)
    return box.strip() if box is not None and (start, end) == (0, len(text)) else text


def _normalize(text: str, steps: tuple[str, ...] = NORMALIZE) -> str:
    """One spelling for texts that read the same. Runs of white space are one blank in any case."""
    if text.isalnum() and text.isascii():  # the usual answer has nothing to fold
        return text.casefold() if "case" in steps else text
    if not text.isascii():
        text = _nfkc(text) if "nfkc" in steps else text
        text = text.translate(_DASHES) if "minus" in steps else text
    text = " ".join(text.split())
    for _ in range(4):  # **\boxed{42}**. has three layers; more is no way to write an answer
        if text[-1:] not in ("*", "`", "$", ")", "]", "}", ".", "\u3002"):
            break
        text = _inside(text, steps)
    return text.casefold() if "case" in steps else text


def _accepted_answers(gold, steps: tuple[str, ...] = NORMALIZE) -> list[str]:
    """Every spelling that counts as right; empty if the row has no usable gold."""
    if isinstance(gold, str):
        gold = _normalize(gold, steps)
        return [gold] if gold else []
    if gold is None:
        return []
    if isinstance(gold, bool):
        return [str(gold), str(gold).lower()]
    if isinstance(gold, numbers.Integral):
        return [str(gold)]
    if isinstance(gold, numbers.Number):
        if gold != gold:  # NaN is how pandas spells "missing"
            return []
        # datasets turns a column of 1 and 2.5 into 1.0 and 2.5, so 1.0 must accept "1"
        return [str(gold), *([str(int(gold))] if math.isfinite(gold) and gold == int(gold) else [])]
    if hasattr(gold, "tolist"):  # numpy and torch
        return _accepted_answers(gold.tolist(), steps)
    if isinstance(gold, (list, tuple)):
        return [spelling for item in gold for spelling in _accepted_answers(item, steps)]
    raise TypeError(f"gold answers must be text or numbers, got {gold!r:.80}")


def _whole_text(text: str, prefilled: bool = False) -> str:
    return _without_end_of_turn(visible_text(text, prefilled))


def _exact_rewards(
    completions, answer, extract, normalize, score, name, prefilled=False, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    def judge(text: str, accepted: list[str], flag: bool) -> tuple:
        predicted = extract(text, flag)
        if not accepted:
            return None, "missing_gold", predicted
        if predicted is None:
            return 0.0, "no_answer", None
        if predicted not in accepted:
            predicted = _normalize(predicted, normalize)
        return (score, "correct", predicted) if predicted in accepted else (0.0, "wrong", predicted)

    def read_gold(gold) -> list[str]:
        return _accepted_answers(gold, normalize)

    return _judge_answers(name, completions, answer, prefilled, read_gold, judge, log_extra, log_metric)


def correctness_reward(
    completions, answer, prefilled=False, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    """2.0 if the last `<answer>` block outside the reasoning equals the gold answer, else 0.0.

    Equal means the same text after what `NORMALIZE` lists: Unicode NFKC, one kind of dash and minus, Markdown emphasis
    and `\\boxed{}` or `$` around the whole, a full stop at its end; and single spaces. Case, units and number formats
    are not folded: `1,000` is not `1000` here.

    Args:
        completions (`list[str]` or `list[list[dict]]`): one per rollout.
        answer (`list` or a constant): gold per completion: text, a number, or a list of accepted answers.
        prefilled (`bool` or `list[bool]`): as in `format_reward`; a completion cut off in its reasoning has no answer.

    Returns:
        `list[float | None]`: 2.0, 0.0, or None where the gold is missing (None, NaN, empty).
        Reasons: `correct`, `wrong`, `no_answer`, `missing_gold`.

    Raises:
        ValueError: `answer` has neither one value nor one per completion.
        TypeError: a gold is neither text, number nor a list of these.

    Example:
        >>> correctness_reward(["<answer>7</answer>", "<answer>8</answer>", "seven"], answer=[7, "7", None])
        [2.0, 0.0, None]
    """
    name = "correctness_reward"
    return _exact_rewards(completions, answer, extract_answer, NORMALIZE, 2.0, name, prefilled, log_extra, log_metric)


_EXTRACT = {"answer": extract_answer, "final": final_answer, "text": _whole_text}


def make_correctness_reward(extract="answer", normalize=NORMALIZE, score=2.0, name=None):
    """`correctness_reward` with its own way to find the answer, its own normalisation, and its own score.

    Args:
        extract: `"answer"` (last `<answer>` block), `"final"` (`final_answer`: block or box), `"text"` (all of it,
            reasoning aside), or a function `(text, prefilled) -> str | None`, of a module if it is to be pickled.
        normalize (`tuple[str, ...]`): any of `nfkc`, `minus`, `emphasis`, `box`, `full_stop`, `case`.
        score (`float`): for a right answer, above 0.
        name (`str`, *optional*): name in the logs. By default it tells settings apart.

    Returns:
        callable: takes the column `answer`; reasons as `correctness_reward`.

    Raises:
        ValueError: an unknown step of normalisation or way to extract, or a score that is not above 0.

    Example:
        >>> capital = make_correctness_reward("text", normalize=("nfkc", "full_stop", "case"), score=1.0)
        >>> capital(completions=["paris.", "Lyon"], answer="Paris")
        [1.0, 0.0]
    """
    if not callable(extract) and extract not in _EXTRACT:
        raise ValueError(f"make_correctness_reward: extract must be a function or one of {', '.join(_EXTRACT)}")
    normalize = (normalize,) if isinstance(normalize, str) else tuple(normalize)
    unknown = [step for step in normalize if step not in (*NORMALIZE, "case")]
    if unknown:
        raise ValueError(
            f"make_correctness_reward: unknown step {unknown[0]!r}; choose from {', '.join(NORMALIZE)}, case"
        )
    if not 0 < score < math.inf:
        raise ValueError(f"make_correctness_reward: score must be a number above 0, got {score!r}")
    default = _name_with(
        "correctness_reward",
        extract=None if extract == "answer" else getattr(extract, "__name__", extract),
        normalize=None if normalize == NORMALIZE else normalize or ("as_is",),
        score=None if score == 2.0 else f"{score:g}",
    )
    extract = _EXTRACT.get(extract, extract) if isinstance(extract, str) else extract
    return _Bound(_exact_rewards, name or default, extract=extract, normalize=normalize, score=float(score))


# How competition sets write a gold: the letter of the choice and its value, \\textbf{(B)}\\ 39.
_LETTER_AND_VALUE = re.compile(
    r"(\\(?:text|textbf|mathrm|mathbf)\s*\{\s*\(?[A-E]\)?\s*\})(?:\\[ ,;:!]|\\q?quad|~|\s)*(\S.*)"
)


def _golds(gold) -> list[str]:
    """The accepted golds as text, without the rationale that GSM8K keeps before `####`."""
    if isinstance(gold, bool):
        raise TypeError(f"gold answers must be text or numbers, got {gold!r}")
    texts = [_normalize(text.rpartition("####")[2]) for text in _accepted_answers(gold, steps=())]
    pairs = [(text, _LETTER_AND_VALUE.fullmatch(text)) for text in texts]
    return [part for text, pair in pairs for part in (map(_normalize, pair.groups()) if pair else [text])]


def _numeric_rewards(
    completions, answer, rel_tol, units, name, prefilled=False, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    answers = _beside("answers")

    def read_gold(gold) -> tuple[list[str], list]:
        texts = _golds(gold)
        return texts, list(filter(None, map(answers.read_number, texts)))

    def judge(text: str, gold: tuple, flag: bool) -> tuple:
        predicted = final_answer(text, flag)
        if not gold[1]:
            return None, "unreadable_gold" if gold[0] else "missing_gold", predicted
        if predicted is None:
            return 0.0, "no_answer", None
        number = answers.read_number(_normalize(predicted)) if len(predicted) < 256 else None
        if number is None:
            return 0.0, "unreadable", predicted
        equal = [accepted for accepted in gold[1] if answers.same_number(accepted, number, rel_tol)]
        if not equal:
            return 0.0, "wrong", predicted
        if units == "same" and not any("" in (one[1], number[1]) or one[1] == number[1] for one in equal):
            return 0.0, "other_unit", predicted
        return 1.0, "correct", predicted

    return _judge_answers(name, completions, answer, prefilled, read_gold, judge, log_extra, log_metric)


def numeric_reward(
    completions, answer, prefilled=False, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    """1.0 if `final_answer` is the gold number, however it is written, else 0.0.

    Read are thousands separators (`1,250`, `1 250`, `1.250,00`), currency, percent, units, fractions and mixed numbers,
    scientific notation, `million`, and all of these in TeX. An answer must be one number: a range, a list or `3 or 4`
    is `unreadable`. Integers must be equal; everything else may differ by 1e-6 of the gold. If both name a unit, it
    must be the same (nothing is converted). A percent sign in one of the two is taken either way: 28% is 28 and 0.28.

    Args:
        completions (`list[str]` or `list[list[dict]]`): one per rollout.
        answer (`list` or a constant): gold per completion: a number, text, or a list of accepted ones. Of a GSM8K
            rationale the part after `####` counts.
        prefilled (`bool` or `list[bool]`): as in `format_reward`.

    Returns:
        `list[float | None]`: 1.0, 0.0, or None where the gold is missing or no number. Reasons: `correct`, `wrong`,
        `other_unit`, `no_answer`, `unreadable`, `missing_gold`, `unreadable_gold`.

    Raises:
        ImportError: answers.py is missing.
        ValueError: `answer` has neither one value nor one per completion.
        TypeError: a gold is neither text, number nor a list of these.

    Example:
        >>> texts = ["<answer>$1,250.00</answer>", "<answer>1.25e3</answer>", "\\\\boxed{1250 or 1251}"]
        >>> numeric_reward(texts, answer="1250")
        [1.0, 1.0, 0.0]
    """
    return _numeric_rewards(completions, answer, None, "same", "numeric_reward", prefilled, log_extra, log_metric)


def make_numeric_reward(rel_tol=None, units="same", name=None):
    """`numeric_reward` with a declared tolerance.

    Args:
        rel_tol (`float`, *optional*): largest difference as a share of the gold, 0 or more, for all numbers. None:
            integers exactly, everything else to 1e-6. A gold of 0 is met by 0 only.
        units (`str`): `"same"` (two different units are wrong) or `"ignore"`.
        name (`str`, *optional*): name in the logs. By default it tells settings apart.

    Returns:
        callable: takes the column `answer`; range and reasons as `numeric_reward`.

    Raises:
        ValueError: a setting is out of range.

    Example:
        >>> make_numeric_reward(rel_tol=0.01)(completions=["\\\\boxed{3.14}", "\\\\boxed{3}"], answer=3.14159)
        [1.0, 0.0]
    """
    if rel_tol is not None and not 0 <= rel_tol < math.inf:
        raise ValueError(f"make_numeric_reward: rel_tol must be 0 or more, or None, got {rel_tol}")
    if units not in ("same", "ignore"):
        raise ValueError(f"make_numeric_reward: units must be 'same' or 'ignore', got {units!r}")
    default = _name_with(
        "numeric_reward",
        rel_tol=None if rel_tol is None else f"{rel_tol:g}",
        units=None if units == "same" else "any_unit",
    )
    return _Bound(_numeric_rewards, name or default, rel_tol=rel_tol, units=units)


MATH_BUDGET_S = 5.0  # wall-clock seconds per expression; usual ones take milliseconds


def _gold_expression(gold: str) -> str:
    """The last box of a gold that still holds its solution, else all of it."""
    _, _, box = _last_box(gold)
    return gold if box is None else _normalize(box)


def _math_verdicts(pairs: list, budget_s: float) -> dict:
    """What math-verify says of each pair; a gold with the answer None is only read."""
    pairs = list(dict.fromkeys(pairs))
    verdicts = _beside("killable").run("math_checks.verdict", [list(pair) for pair in pairs], budget_s)
    return dict(zip(pairs, verdicts))


def math_reward(
    completions, answer, prefilled=False, budget_s=MATH_BUDGET_S, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    """1.0 if `final_answer` is mathematically equal to the gold, else 0.0.

    math-verify decides, in worker processes that are killed after `budget_s` whatever they are doing. Off the main
    thread, where AsyncGRPO calls rewards, nothing else would end sympy's work on a short power tower. It works in any
    thread and in AsyncGRPO's daemonic process. Plain numbers are compared in place. The gold is read first: if it is
    no expression, the row does not count. The answer is the last box or `<answer>` block, never one in the reasoning.

    Args:
        completions (`list[str]` or `list[list[dict]]`): one per rollout.
        answer (`list` or a constant): gold per completion: LaTeX, text or a number, or a list of accepted ones. Of a
            whole solution the last `\\boxed{}` counts, of a GSM8K rationale the part after `####`. `\\text{east}` is
            compared as text.
        prefilled (`bool` or `list[bool]`): as in `format_reward`.
        budget_s (`float`): wall-clock seconds for one comparison.

    Returns:
        `list[float | None]`: 1.0, 0.0, or None where the gold is missing or unreadable. Reasons: `correct`, `wrong`,
        `no_answer`, `unreadable`, `over_budget` (the answer cost too much), `missing_gold`, `unreadable_gold`.

    Raises:
        ImportError: math-verify, or answers.py, killable.py or math_checks.py beside this file is missing.
        ValueError: `answer` has neither one value nor one per completion.
        TypeError: a gold is neither text, number nor a list of these, or `budget_s` is no number above 0.

    Example:
        >>> texts = ["\\\\boxed{2/4}", "<answer>0.49</answer>", "<think>\\\\boxed{1/2}</think> Maybe."]
        >>> math_reward(texts, answer="\\\\frac12")
        [1.0, 0.0, 0.0]
    """
    name, size = "math_reward", len(completions)
    if isinstance(budget_s, bool) or not isinstance(budget_s, numbers.Real) or not 0 < budget_s < 1e6:
        raise TypeError(f"{name}: budget_s must be one number of seconds above 0 for all rows, got {budget_s!r:.80}")
    budget_s = float(budget_s)
    flags = _column(name, "prefilled", prefilled, size)
    golds = [[_gold_expression(text) for text in _golds(gold)] for gold in _column(name, "answer", answer, size)]
    found = [final_answer(completion_text(text), flag) for text, flag in zip(completions, flags)]
    predicted = [text if text is None else _normalize(text) for text in found]
    pairs = [(text, text and _LETTER_AND_VALUE.fullmatch(text)) for text in predicted]
    predicted = [_normalize(pair[2]) if pair else text for text, pair in pairs]
    answers, expression = _beside("answers"), _beside("answers").expression

    # A gold that needs no algebra is readable as it stands; of the others math-verify says it.
    distinct = dict.fromkeys(gold for accepted in golds for gold in accepted)
    plain = {gold for gold in distinct if answers.settled(gold, gold)}
    doubtful = {gold: expression(gold) for gold in distinct if gold not in plain and expression(gold)}
    reads = _math_verdicts([(latex, None) for latex in doubtful.values()], budget_s)
    readable = plain | {gold for gold, latex in doubtful.items() if reads[latex, None] == "readable"}

    pairs = {(gold, text) for accepted, text in zip(golds, predicted) for gold in accepted if text and gold in readable}
    verdicts = {pair: answers.settled(*pair) for pair in pairs}
    unsettled = {pair: answers.comparable(*pair) for pair in pairs if not verdicts[pair]}
    asked = _math_verdicts([latex for latex in unsettled.values() if all(latex)], budget_s)
    verdicts.update({pair: asked.get(latex, "unreadable") for pair, latex in unsettled.items()})
    # Where a comparison cost too much, the gold may be the one to blame.
    suspects = sorted(
        {(gold, unsettled[gold, text][0]) for (gold, text), said in verdicts.items() if said == "over_budget"}
    )
    probes = _beside("killable").run("math_checks.compare_with_a_number", [[latex] for _, latex in suspects], budget_s)
    readable -= {gold for (gold, _), probe in zip(suspects, probes) if probe == "over_budget"}

    rewards, reasons = [], []
    for accepted, text in zip(golds, predicted):
        said = {verdicts[gold, text] for gold in accepted if text and gold in readable}
        if not readable.intersection(accepted):
            reward, reason = None, "unreadable_gold" if accepted else "missing_gold"
        elif text is None:
            reward, reason = 0.0, "no_answer"
        elif "equal" in said:
            reward, reason = 1.0, "correct"
        else:
            reward, reason = 0.0, next((one for one in ("over_budget", "unequal") if one in said), "unreadable")
        rewards.append(reward)
        reasons.append("wrong" if reason == "unequal" else reason)
    _report(name, rewards, reasons, log_extra, log_metric, predicted)
    return rewards


MAX_CHOICE = 2000  # characters; the choice of a longer text is looked for at its end


def _choice_rewards(
    completions, answer, letters, name, prefilled=False, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    choice_in = _beside("answers").choice_in

    def read_gold(gold) -> tuple[list[str], set[str]]:
        for item in gold if isinstance(gold, (list, tuple)) else [gold]:
            if isinstance(item, numbers.Number) and item == item:
                raise TypeError(f"{name}: a gold must be a letter, got {item!r}; counting from 0 or 1 is not guessed")
        texts = _accepted_answers(gold)
        return texts, {choice_in(text, letters, is_block=True) for text in texts} - {"", "?"}

    def judge(text: str, gold: tuple, flag: bool) -> tuple:
        found = final_answer(text, flag)
        visible = _whole_text(text, flag) if found is None else found
        # A block or box that was never closed is no answer, and a long text is no block.
        has_open_block = found is None and ("<answer>" in visible or _last_box(visible)[0] >= 0)
        is_long = len(visible) > MAX_CHOICE
        lines = visible[-MAX_CHOICE:].splitlines()[1 if is_long else 0 :]  # the cut may have left half a word
        # Full stops stay: they tell "A is wrong. B" from a list.
        said = "" if has_open_block else "\n".join(_normalize(line, NORMALIZE[:-1]) for line in lines)
        chosen = choice_in(said, letters, found is not None and not is_long)
        if not gold[1]:
            return None, "unreadable_gold" if gold[0] else "missing_gold", chosen or None
        if chosen in ("", "?"):
            return 0.0, "several_choices" if chosen else "no_choice", None
        return (1.0, "correct", chosen) if chosen in gold[1] else (0.0, "wrong", chosen)

    return _judge_answers(name, completions, answer, prefilled, read_gold, judge, log_extra, log_metric)


def choice_reward(
    completions, answer, letters="ABCDEFGHIJ", prefilled=False, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    """1.0 if the completion chooses the gold letter of a multiple-choice question, else 0.0.

    Read are `final_answer`, or without block and box a phrase such as "the answer is (B)" or a text that is one
    letter. The letter may carry its option's text (`B: a dog`), brackets or emphasis. The article in `A dog` and the
    pronoun in `I think` are no choice, one that is taken back (`not B`, `B is wrong`) does not count, and naming
    several scores 0.0.

    Args:
        completions (`list[str]` or `list[list[dict]]`): one per rollout.
        answer (`list[str]` or `str`): gold letter per completion, `B`, `(B)` or `B. text`, or a list of them.
        letters (`str`): capital letters that name choices, the same for all rows.
        prefilled (`bool` or `list[bool]`): as in `format_reward`.

    Returns:
        `list[float | None]`: 1.0, 0.0, or None where the gold is missing or names no single letter. Reasons: `correct`,
        `wrong`, `no_choice`, `several_choices`, `missing_gold`, `unreadable_gold`.

    Raises:
        ImportError: answers.py is missing.
        TypeError: a gold is a number (whether choices count from 0 or 1 is not guessed), or `letters` is no text.
        ValueError: `answer` has neither one value nor one per completion.

    Example:
        >>> choice_reward(["<answer>B: a dog</answer>", "So the answer is (B).", "<answer>B or C</answer>"], answer="B")
        [1.0, 1.0, 0.0]
    """
    if not isinstance(letters, str) or not letters.isupper():
        raise TypeError(f"choice_reward: letters must be one text of capital letters for all rows, got {letters!r:.80}")
    return _choice_rewards(completions, answer, letters, "choice_reward", prefilled, log_extra, log_metric)


# RFC 8259 lets a reader set these limits. Without the depth limit the verdict on a nesting bomb would depend on how
# deep the interpreter's stack already is; real structured outputs stay far below it.
MAX_JSON_DEPTH = 64


def _object_without_duplicates(pairs: list) -> dict:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate key in an object")
    return result


def _finite_number(digits: str) -> float | int:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"number out of range: {digits:.20}")
    # To JSON Schema 1.0 is the integer 1. Beyond 2**53 a float no longer says which integer was meant.
    return int(number) if number.is_integer() and abs(number) <= 2**53 else number


def _no_constant(name: str):
    raise ValueError(f"{name} is not JSON")


_STRICT_JSON = json.JSONDecoder(
    object_pairs_hook=_object_without_duplicates, parse_float=_finite_number, parse_constant=_no_constant
)


def _deeper_than(value, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


def parse_json(text: str):
    """Strict JSON: what `json.loads` takes, less NaN and Infinity, duplicate keys, numbers out of range, lone
    surrogates, and nesting deeper than `MAX_JSON_DEPTH`.

    Raises:
        ValueError: the text is not such JSON. Nothing else is raised, whatever the text.

    Example:
        >>> parse_json('{"n": 1}')
        {'n': 1}
        >>> parse_json('{"n": "x", "n": 1}')
        Traceback (most recent call last):
        ValueError: duplicate key in an object
    """
    try:
        value = _STRICT_JSON.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if text.count("[") + text.count("{") > MAX_JSON_DEPTH and _deeper_than(value, MAX_JSON_DEPTH):
        raise ValueError("nested too deeply")
    if "\\u" in text or not text.isascii():
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate raises UnicodeEncodeError, a ValueError
    return value


def _unfenced(text: str) -> str:
    lines = text.strip().split("\n")
    is_fenced = len(lines) > 1 and lines[0].startswith("```") and lines[-1].strip() == "```"
    return "\n".join(lines[1:-1]) if is_fenced else text.strip()


def _json_of(text: str, prefilled: bool):
    """The JSON value a completion consists of, reasoning aside: bare, in a code fence, or in the `<answer>` block."""
    text = text.removeprefix("\ufeff")
    if text[:1] in ("{", "[") and not prefilled:  # the usual output
        try:
            return parse_json(text)
        except ValueError:
            pass
    # The whole text comes first, because strings in it may hold tags.
    for part in (None if prefilled else text, visible_text(text, prefilled), extract_answer(text, prefilled)):
        if part is not None:
            try:
                return parse_json(_unfenced(part))
            except ValueError:
                pass
    raise ValueError("no JSON")


SCHEMA_BUDGET_S = 2.0  # wall-clock seconds for a value whose check could cost without bound; others take milliseconds


def _schema_rewards(
    completions, output_schema, graded, formats, name, prefilled=False, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    checks, size = _beside("schema_checks"), len(completions)
    schemas, flags = _column(name, "output_schema", output_schema, size), _column(name, "prefilled", prefilled, size)
    rewards, reasons, costly = [None] * size, [""] * size, []
    previous, schema_text, compiled, is_valid = object(), None, None, None
    for row, (completion, schema, flag) in enumerate(zip(completions, schemas, flags)):
        if schema is None:
            reasons[row] = "missing_schema"
            continue
        if schema is not previous:  # a constant schema is serialised and looked up once, not once per row
            previous, schema_text = schema, schema if isinstance(schema, str) else json.dumps(schema)
            compiled = checks.compiled(schema_text, formats)
            is_valid = None if compiled is None or compiled.fast is None or graded else compiled.fast.is_valid
        if compiled is None:
            reasons[row] = "broken_schema"
            continue
        try:
            value = _json_of(_without_end_of_turn(completion_text(completion)), flag)
        except ValueError:
            rewards[row], reasons[row] = 0.0, "not_json"
            continue
        if is_valid is not None:
            rewards[row] = 1.0 if is_valid(value) else 0.0
        elif compiled.needs_budget(graded):
            costly.append((row, [schema_text, value, graded, formats]))
        else:
            rewards[row] = checks.score(schema_text, value, graded, formats)
    if costly:
        scores = _beside("killable").run("schema_checks.score", [call for _, call in costly], SCHEMA_BUDGET_S)
        for (row, (schema_text, *_)), score in zip(costly, scores):
            rewards[row] = score
            if score == "over_budget":
                rewards[row], reasons[row] = 0.0, "over_budget"
                logger.warning("%s: a value cost more than %g s with %.200s", name, SCHEMA_BUDGET_S, schema_text)
    for row, reward in enumerate(rewards):
        if not reasons[row]:
            found = {1.0: "valid", 0.0: "invalid", None: "broken_schema"}
            reasons[row] = found.get(reward, "partly_valid")
    _report(name, rewards, reasons, log_extra, log_metric)
    return rewards


def schema_reward(
    completions, output_schema, prefilled=False, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    """1.0 if the completion is JSON that conforms to its JSON Schema, else 0.0.

    The JSON may stand bare, in one code fence, or in the `<answer>` block; prose beside it scores 0.0, because a
    program that reads the output would fail on it. `format` is an annotation, as the specification has it by default;
    `make_schema_reward` checks it. Nothing is fetched for a `$ref`, and no schema or value costs more than
    `SCHEMA_BUDGET_S`.

    Args:
        completions (`list[str]` or `list[list[dict]]`): one per rollout.
        output_schema (`dict`, `bool`, JSON text, or a list of these): one schema for all, or one per completion.
            Keep per-row schemas in the dataset as JSON text: datasets fills dicts of unlike keys with None, which is
            undone here as far as it can be told apart.
        prefilled (`bool` or `list[bool]`): as in `format_reward`.

    Returns:
        `list[float | None]`: 1.0, 0.0, or None where the schema is missing or broken (invalid, refers to a remote or
        missing `$ref`, refers to itself without end). Reasons: `valid`, `invalid`, `not_json`, `over_budget`,
        `missing_schema`, `broken_schema`.

    Raises:
        ImportError: jsonschema or schema_checks.py is missing.
        ValueError: `output_schema` has neither one value nor one per completion.

    Example:
        >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        >>> schema_reward(['{"n": 1}', '{"n": "1"}', 'n = 1'], output_schema=schema)
        [1.0, 0.0, 0.0]
    """
    return _schema_rewards(completions, output_schema, False, False, "schema_reward", prefilled, log_extra, log_metric)


def make_schema_reward(graded=False, formats=False, name=None):
    """`schema_reward` with part credit, or with `format` checked.

    Args:
        graded (`bool`): an object that does not conform gets the share of its top-level requirements that it meets: of
            the `required` properties (all properties if none is) those present and valid, where each other keyword or
            property that is broken counts as one more requirement. `{}` gets 0.0 unless it is valid. Below 1.0 unless
            valid, so read what the policy leaves out.
        formats (`bool`): check `format`; jsonschema-rs does it. A format it does not know makes the schema broken.
        name (`str`, *optional*): name in the logs. By default it tells settings apart.

    Returns:
        callable: takes the column `output_schema`; range 0.0 to 1.0, one more reason: `partly_valid`.

    Raises:
        ImportError: `formats` is set and jsonschema-rs is not installed.

    Example:
        >>> schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"]}
        >>> make_schema_reward(graded=True)(completions=['{"a": 1, "b": 2}', "{}"], output_schema=schema)
        [0.5, 0.0]
    """
    if formats and importlib.util.find_spec("jsonschema_rs") is None:
        raise ImportError("make_schema_reward: formats are checked by jsonschema-rs; pip install jsonschema-rs")
    default = _name_with("schema_reward", graded="graded" if graded else None, formats="formats" if formats else None)
    return _Bound(_schema_rewards, name or default, graded=bool(graded), formats=bool(formats))


# Attempts in a notation that is not read here.
_OTHER_CALL = re.compile(
    r"<\|python_tag\|>|\[TOOL_CALLS\]|<function\b|<function_calls?>|<tool_call|<[|\uff5c]tool"
    r"|\"(?:arguments|parameters|tool_calls|action_input)\"\s*:"
)
_CALL_KEYS = frozenset(["name", "type", "id", "function", "arguments", "parameters", "args"])


def _call(entry) -> tuple[str, dict]:
    """Name and arguments of one call in any usual shape; ValueError if it is none."""
    if isinstance(entry, dict) and isinstance(entry.get("function"), dict):
        entry = entry["function"]
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(name, str):
        raise ValueError("a call has no name")
    given = [entry[key] for key in ("arguments", "parameters", "args") if entry.get(key) is not None]
    if len(given) > 1 or {key for key, value in entry.items() if value is not None} - _CALL_KEYS:
        raise ValueError("a call has a key that is not known, or arguments under two names")
    arguments = given[0] if given else {}
    if isinstance(arguments, str):
        arguments = parse_json(arguments) if arguments.strip() else {}
    if not isinstance(arguments, dict) or _deeper_than(arguments, MAX_JSON_DEPTH):
        raise ValueError("arguments must be an object")
    return name, arguments


def _calls_of(value) -> list[tuple[str, dict]]:
    return [_call(entry) for entry in (value if isinstance(value, list) else [value])]


def _tagged_calls(text: str) -> list[tuple[str, dict]]:
    """The calls in `<tool_call>` blocks. Each ends where its JSON ends, so tags in its strings are only text."""
    calls, end, outside = [], 0, []
    while (start := text.find("<tool_call>", end)) >= 0:
        outside.append(text[end:start])
        start += len("<tool_call>")
        while text[start : start + 1].isspace():
            start += 1
        try:
            _, end = _STRICT_JSON.raw_decode(text, start)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        in_block = _calls_of(parse_json(text[start:end]))
        if not in_block:
            raise ValueError("a block without a call")
        calls += in_block
        closing = text.find("</tool_call>", end)
        if closing < 0 or text[end:closing].strip():
            raise ValueError("a call was not closed")
        end = closing + len("</tool_call>")
    if _OTHER_CALL.search("\n".join([*outside, text[end:]])):
        raise ValueError("a call in a notation that is not read here")
    return calls


def _predicted_calls(completion, prefilled: bool) -> list[tuple[str, dict]]:
    """All calls of a completion in their order; ValueError if one is malformed or in a notation not read here."""
    calls = []
    if isinstance(completion, (list, tuple)):
        turns = [message for message in completion if message.get("role", "assistant") == "assistant"]
        calls = _calls_of([call for message in turns for call in message.get("tool_calls") or ()])
    text = _without_end_of_turn(completion_text(completion))
    try:
        if "<tool_call>" in text and text.lstrip()[:1] not in ("[", "{", "`"):
            raise ValueError("its calls are in blocks")
        value = _json_of(text, prefilled)
    except ValueError:
        pass
    else:
        entries = value if isinstance(value, list) else [value]
        is_call = all(isinstance(entry, dict) and "name" in (entry.get("function") or entry) for entry in entries)
        if entries and is_call:
            return calls + _calls_of(entries)
        if value in (None, "", [], {}) or (
            isinstance(value, dict) and {"tool_calls", "function_call", "action"} & set(value)
        ):
            raise ValueError("JSON that says nothing, or a call in a notation that is not read here")
        return calls
    first_call, first_tag = text.find("<tool_call>"), _REASONING_TAG.search(text)
    if prefilled or (first_tag and not 0 <= first_call < first_tag.start()):  # else tags may be part of an argument
        text = visible_text(text, prefilled)
    return calls + _tagged_calls(text)


def _canonical(value, lenient: bool):
    """Equal for values that are the same argument. None is the same as absent: datasets fills it in."""
    if isinstance(value, dict):
        return {key: _canonical(item, lenient) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_canonical(item, lenient) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    if lenient and isinstance(value, str):
        text = _normalize(value, ("nfkc", "minus", "case"))
        if text in ("true", "false"):
            return text == "true"
        if re.fullmatch(r"-?(?:0|[1-9]\d{0,299})", text):  # 01234 is a code and no number
            return int(text)
        return _canonical(_finite_number(text), False) if re.fullmatch(r"-?\d{1,300}\.\d{1,300}", text) else text
    return value


def _spelled(call: tuple[str, dict], lenient: bool) -> str:
    return json.dumps([call[0], _canonical(call[1], lenient)], sort_keys=True)


@functools.lru_cache(maxsize=4096)
def _gold_calls(gold: str) -> list[tuple[str, dict]] | None:
    """The calls of a gold given as JSON text, or None if it is broken, which the log says once."""
    try:
        return _calls_of(parse_json(gold))
    except ValueError as error:
        logger.warning("tool_call_reward: rows with these gold calls do not count (%s): %.200s", error, gold)
        return None


def _tool_reason(predicted: list, gold: list, lenient: bool, ordered: bool) -> str:
    names, gold_names = [name for name, _ in predicted], [name for name, _ in gold]
    if sorted(names) != sorted(gold_names):
        return "no_call" if not names else "wrong_count" if len(names) != len(gold_names) else "wrong_name"
    calls, gold_calls = [_spelled(call, lenient) for call in predicted], [_spelled(call, lenient) for call in gold]
    if sorted(calls) != sorted(gold_calls):
        return "wrong_arguments"
    return "wrong_order" if ordered and calls != gold_calls else "correct"


def _tool_rewards(
    completions, tool_calls, lenient, ordered, name, prefilled=False, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    size, rewards, reasons, extracted = len(completions), [], [], []
    golds, flags = _column(name, "tool_calls", tool_calls, size), _column(name, "prefilled", prefilled, size)
    texts = [gold if isinstance(gold, str) or gold is None else json.dumps(gold) for gold in golds]
    for completion, gold, flag in zip(completions, texts, flags):
        gold_calls = _gold_calls(gold) if gold and gold.strip() else None
        try:
            predicted = _predicted_calls(completion, flag)
        except ValueError:
            predicted = None
        if gold_calls is None:
            reward, reason = None, "broken_gold" if gold and gold.strip() else "missing_gold"
        elif predicted is None:
            reward, reason = 0.0, "malformed"
        elif not (predicted or gold_calls or re.search(r"\w", _whole_text(completion_text(completion), flag))):
            reward, reason = 0.0, "no_answer"  # saying nothing is no way to decline a tool
        else:
            reason = _tool_reason(predicted, gold_calls, lenient, ordered)
            reward = 1.0 if reason == "correct" else 0.0
        rewards.append(reward)
        reasons.append(reason)
        extracted.append(json.dumps([{"name": n, "arguments": a} for n, a in predicted]) if predicted else None)
    _report(name, rewards, reasons, log_extra, log_metric, extracted)
    return rewards


def tool_call_reward(
    completions, tool_calls, prefilled=False, log_extra=None, log_metric=None, **kwargs
) -> list[float | None]:
    """1.0 if the completion calls the gold tools with the gold arguments and no others, else 0.0.

    Calls are read from the `tool_calls` of all assistant messages, or without these from `<tool_call>` blocks, or from
    a text that is JSON. Their order is free, names must be equal, arguments must have the same types (`1` is not
    `"1"`, but `1.0` is `1`). An argument that is null counts as absent.

    Args:
        completions (`list[str]` or `list[list[dict]]`): one per rollout.
        tool_calls (`list`, or JSON text for all): gold per completion: JSON text, or a list of `{"name", "arguments"}`
            or of `{"function": {"name", "arguments"}}`. JSON text keeps datasets from filling unlike arguments with
            None. An empty list says that no tool must be called, and that something must be said instead.
        prefilled (`bool` or `list[bool]`): as in `format_reward`.

    Returns:
        `list[float | None]`: 1.0, 0.0, or None where the gold is missing or broken. Reasons: `correct`, `no_call`,
        `wrong_count`, `wrong_name`, `wrong_arguments`, `wrong_order`, `malformed`, `no_answer`, `missing_gold`,
        `broken_gold`.

    Raises:
        ValueError: `tool_calls` has neither one value nor one per completion.

    Example:
        >>> call = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
        >>> gold = '[{"name": "add", "arguments": {"b": 2, "a": 1}}]'
        >>> tool_call_reward([call, call.replace("2", '"2"'), "It is 3."], tool_calls=gold)
        [1.0, 0.0, 0.0]
    """
    return _tool_rewards(completions, tool_calls, False, False, "tool_call_reward", prefilled, log_extra, log_metric)


def make_tool_call_reward(arguments="typed", ordered=False, name=None):
    """`tool_call_reward` with lenient arguments, or with calls whose order matters.

    Args:
        arguments (`str`): `"typed"`, or `"lenient"`: `"2"` is `2`, `"True"` is `true`, and texts are compared without
            case and surplus blanks.
        ordered (`bool`): the calls depend on each other, so their order must be the gold's.
        name (`str`, *optional*): name in the logs. By default it tells settings apart.

    Returns:
        callable: takes the column `tool_calls`; range and reasons as `tool_call_reward`.

    Raises:
        ValueError: `arguments` is neither.

    Example:
        >>> call = '{"name": "f", "arguments": {"n": "2"}}'
        >>> make_tool_call_reward("lenient")(completions=[call], tool_calls='[{"name": "f", "arguments": {"n": 2}}]')
        [1.0]
    """
    if arguments not in ("typed", "lenient"):
        raise ValueError(f"make_tool_call_reward: arguments must be 'typed' or 'lenient', got {arguments!r}")
    default = _name_with(
        "tool_call_reward",
        arguments=None if arguments == "typed" else arguments,
        ordered="ordered" if ordered else None,
    )
    return _Bound(_tool_rewards, name or default, lenient=arguments == "lenient", ordered=bool(ordered))


_FENCE = re.compile(r" {0,3}(`{3,})[ \t]*([^`\s]*)[^`]*")


def extract_code(text: str) -> str:
    """The code a completion offers, reasoning aside: its last fenced block that is marked as Python, else its last
    fenced block, else its last `<answer>` block, else all of it.

    Example:
        >>> extract_code("First:\\n```python\\nx = 1\\n```\\nBetter:\\n```python\\nx = 2\\n```\\n")
        'x = 2\\n'
    """
    answer, text = extract_answer(text), visible_text(text)
    blocks, opening = [], None  # blocks: (is marked as Python, its lines)
    for line in text.splitlines(keepends=True):
        fence = _FENCE.fullmatch(line.rstrip())
        if opening is None and fence:
            opening = fence[1]
            blocks.append((fence[2].lower() in ("python", "python3", "py"), []))
        elif opening is not None and fence and len(fence[1]) >= len(opening) and not fence[2]:
            opening = None
        elif opening is not None:
            blocks[-1][1].append(line)
    if not blocks:
        return text if answer is None else answer
    marked = [lines for is_python, lines in blocks if is_python]
    return "".join(marked[-1] if marked else blocks[-1][1])


def _execution_rewards(
    completions, test_code, sandbox_cmd, timeout_s, reference, settings, name, log_extra=None, log_metric=None
) -> list[float | None]:
    size, on_infra_error = len(completions), settings["on_infra_error"]
    tests = _column(name, "test_code", test_code, size)
    references = _column(name, "reference", reference, size)
    if settings["score"] not in ("all", "fraction"):
        raise ValueError(f"{name}: score must be 'all' or 'fraction', got {settings['score']!r}")
    if on_infra_error not in ("raise", "none"):
        raise ValueError(f"{name}: on_infra_error must be 'raise' or 'none', got {on_infra_error!r}")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, numbers.Real) or not timeout_s > 0:
        raise TypeError(f"{name}: timeout_s must be one number above 0 for all rows, got {timeout_s!r:.80}")
    sandbox = _beside("sandbox")
    if not sandbox_cmd:
        if settings["strict"]:
            raise sandbox.SandboxError(f"{name}: no sandbox_cmd, and model-written code is never run without one")
        logger.warning("%s: no sandbox_cmd, so nothing is executed and every completion scores 0.0", name)
        _report(name, [0.0] * size, ["not_executed"] * size, log_extra, log_metric)
        return [0.0] * size
    sandbox_cmd = sandbox.from_command(sandbox_cmd)
    has_tests = [tests_of_row is not None and bool(str(tests_of_row).strip()) for tests_of_row in tests]
    judged = [at for at in range(size) if has_tests[at]]
    verdicts, trouble = {}, None
    try:
        found = sandbox.judge(
            [extract_code(completion_text(completions[at])) for at in judged],
            [str(tests[at]) for at in judged],
            sandbox_cmd,
            timeout_s=timeout_s,
            references=[references[at] for at in judged],
            partial=settings["score"] == "fraction",
            **{key: settings[key] for key in ("mode", "memory_mb", "workers", "engine")},
        )
        verdicts = dict(zip(judged, found))
        broken = [at for at, verdict in verdicts.items() if verdict.is_ours]
        if broken:
            detail = verdicts[broken[0]].detail
            trouble = sandbox.TestsError(f"{name}: {len(broken)} of {size} rows have tests that judge nobody: {detail}")
    except sandbox.SandboxError as error:
        trouble = error
    if trouble is not None and on_infra_error == "raise":
        raise trouble
    if trouble is not None:
        logger.warning("%s: rows do not count, %s", name, trouble)
    rewards, reasons = [], []
    for at in range(size):
        verdict = verdicts.get(at)
        reasons.append(verdict.reason if verdict else "sandbox_unavailable" if has_tests[at] else "missing_tests")
        if verdict is None or verdict.is_ours:
            rewards.append(None)
        elif settings["score"] == "fraction":
            rewards.append(verdict.passed / verdict.total if verdict.total else 0.0)
        else:
            rewards.append(float(verdict.reason == "passed"))
    _report(name, rewards, reasons, log_extra, log_metric)
    if log_extra is not None:
        log_extra(f"{name}/detail", [verdicts[at].detail if at in verdicts else "" for at in range(size)])
        log_extra(f"{name}/mode", [verdicts[at].mode if at in verdicts else "" for at in range(size)])
    if log_metric is not None and verdicts:
        for what in ("timeout", "tamper", "killed_sandbox"):
            log_metric(f"{name}/{what}_rate", reasons.count(what) / len(verdicts))
        weaker = [verdict.mode == "inproc" for verdict in verdicts.values()]
        log_metric(f"{name}/inproc_rate", sum(weaker) / len(weaker))
    return rewards


def test_execution_reward(
    completions,
    test_code,
    sandbox_cmd,
    timeout_s=10,
    *,
    reference=None,
    mode="split",
    score="all",
    strict=False,
    on_infra_error="raise",
    memory_mb=1024,
    workers=None,
    engine="local",
    name="test_execution_reward",
    log_extra=None,
    log_metric=None,
    **kwargs,
) -> list[float | None]:
    """1.0 if the completion's code passes its row's pytest tests in a sandbox, else 0.0. Needs sandbox.py,
    sandbox_runner.py and sandbox_proxy.py beside this file.

    SECURITY: this runs what the model wrote. The boundary is `sandbox_cmd`, which is probed from inside before it may
    judge (`python scripts/sandbox.py doctor` shows how). Each completion runs in a process of its own; the tests run in
    another one and use it through stand-ins: only plain values cross, so neither an exit status nor anything printed,
    written or returned by an object that claims to equal everything makes a verdict.

    What tests cannot do in mode "split": compare an object of the candidate with plain data by its own `==`, `<`, `in`
    or `-` (an object the test has built itself may do arithmetic and `in`); see a change of an argument if the function
    also returns something; read the candidate's source or frames; pickle its objects; `eval` what it returns; run two
    of its coroutines at once; be decorated as a whole by the candidate's code. `mode="auto"` finds the rows that need
    it, with a reference solution for each row.

    Args:
        completions (`list[str]` or `list[list[dict]]`): one per rollout; the last fenced block is taken as the code.
        test_code (`list[str]` or `str`): pytest source that imports from `candidate`. Skipped tests count as failed.
        sandbox_cmd (`Sandbox` or `list[str]`): made by `bubblewrap()`, `docker(image)` or `podman(image)` of
            sandbox.py, or a command prefix of your own that passes standard input on, with python3 and pytest inside.
            If it is empty or None nothing is executed: one warning, and 0.0 for every completion.
            TRL never passes it: bind it with `make_test_execution_reward`.
        timeout_s (`float`): seconds per completion for its tests, of processor time and of the clock alike.
        reference (`list[str]` or `str`, optional): a right answer for each row. It is run once: tests that it fails, or
            that code passes which returns None, equals everything or ends its process, are broken; and it makes the
            time limit: ten times its own, at least 0.5 s.
        mode (`str`): "split"; "changes": as split, but what is done to an argument is done to the test's object too;
            "inproc": candidate and tests in one process, where a wrong answer can pass by patching the tests; "auto":
            for each row the first of the three in which its reference passes.
        score (`str`): "all" or "fraction" (passed tests of all, 0.0 to 1.0).
        strict (`bool`): raise `SandboxError` without a sandbox, in place of the warning.
        on_infra_error (`str`): "raise" if nobody could judge, after two more attempts. "none" gives None, which is safe
            only if this is the only reward: TRL adds several with nansum, and None then counts as 0.
        memory_mb (`int`): for one completion. workers (`int`, optional): sandboxes at a time, default one per core.
        engine (`str`): "local", or "ray" for the machines of a Ray cluster.

    Returns:
        `list[float | None]`: between 0.0 and 1.0, or None where the row has no tests.
        Reasons: `passed`, `wrong`, `syntax`, `load_error`, `timeout`, `memory`, `disk`, `output`, `exited`, `tamper`,
        `skipped`, `too_long`, `killed_sandbox`; `missing_tests`, `broken_tests`, `sandbox_unavailable`;
        `not_executed`.

    Raises:
        SandboxError: nobody could judge; its subclass TestsError: the tests of a row are broken.
        TypeError, ValueError: an argument is wrong, or a column has not one value per completion.

    Example:
        >>> logging.getLogger(__name__).setLevel(logging.ERROR)
        >>> test_execution_reward(["def f(): ..."], test_code="def test_f(): ...", sandbox_cmd=None)
        [0.0]
    """
    settings = {"mode": mode, "score": score, "strict": strict, "on_infra_error": on_infra_error}
    settings.update(memory_mb=memory_mb, workers=workers, engine=engine)
    return _execution_rewards(
        completions, test_code, sandbox_cmd, timeout_s, reference, settings, name, log_extra, log_metric
    )


test_execution_reward.__test__ = False  # else pytest takes it for a test wherever it is imported by name


class _BoundExecution:
    """A class, because TRL lets a dataset column overrule what functools.partial has bound."""

    __test__ = False

    def __init__(self, sandbox, timeout_s, settings, name):
        self.sandbox, self.timeout_s, self.settings, self.__name__ = sandbox, timeout_s, settings, name

    def __call__(
        self, /, completions, test_code, reference=None, log_extra=None, log_metric=None, **kwargs
    ) -> list[float | None]:
        return _execution_rewards(
            completions, test_code, self.sandbox, self.timeout_s, reference, self.settings, self.__name__,
            log_extra=log_extra, log_metric=log_metric,
        )  # fmt: skip


def make_test_execution_reward(
    sandbox,
    timeout_s=10,
    score="all",
    mode="split",
    strict=False,
    on_infra_error="raise",
    memory_mb=1024,
    workers=None,
    engine="local",
    name=None,
):
    """`test_execution_reward` with its sandbox bound, for `GRPOTrainer(reward_funcs=[...])` or, as an attribute of your
    module, `trl grpo --reward_funcs my_rewards.code_reward`.

    The sandbox and its settings are the trainer's decision: columns of a dataset with their names change nothing.

    Args:
        sandbox (`Sandbox` or `list[str]`): what `test_execution_reward` takes as `sandbox_cmd`; for example
            `bubblewrap()` of sandbox.py.
        name (`str`, optional): in the logs, default `test_execution_reward` and what was set away from its default.
        others: as in `test_execution_reward`.

    Returns:
        callable: picklable; takes the columns `test_code` and, optionally, `reference`.

    Example:
        >>> make_test_execution_reward(["docker", "run", "-i", "IMAGE"], score="fraction").__name__
        'test_execution_reward_fraction'
    """
    settings = {"mode": mode, "score": score, "strict": strict, "on_infra_error": on_infra_error}
    settings.update(memory_mb=memory_mb, workers=workers, engine=engine)
    parts = {"score": None if score == "all" else score, "mode": None if mode == "split" else mode}
    return _BoundExecution(sandbox, timeout_s, settings, name or _name_with("test_execution_reward", **parts))


def _unwrapped(reward_fn):
    while isinstance(reward_fn, functools.partial):
        reward_fn = reward_fn.func
    return reward_fn


def _reward_name(reward_fn) -> str:
    """The name TRL logs a reward under (trl 1.16.0, trainer/utils.py, `get_callable_name`)."""
    return getattr(_unwrapped(reward_fn), "__name__", type(_unwrapped(reward_fn)).__name__)


def _is_async(reward_fn) -> bool:
    """Whether TRL awaits a reward (trl 1.16.0, trainer/utils.py, `is_async_callable`)."""
    reward_fn = _unwrapped(reward_fn)
    return inspect.iscoroutinefunction(reward_fn) or inspect.iscoroutinefunction(reward_fn.__call__)


def _extra_below(prefix: str, log_extra, column: str, values: list) -> None:
    log_extra(f"{prefix}/{column}", values)


def _metric_below(prefix: str, log_metric, name: str, value: float) -> None:
    log_metric(f"{prefix}/{name}", value)


def _parameters_of(reward_fns) -> inspect.Signature:
    """What wrapped rewards ask for, by name, so that a missing column is found before training."""
    found = {}
    for reward_fn in reward_fns:
        for key, one in inspect.signature(reward_fn).parameters.items():
            is_named = one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
            if is_named and (key not in found or one.default is one.empty):
                found[key] = one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    found.pop("completions", None)
    completions = inspect.Parameter("completions", inspect.Parameter.KEYWORD_ONLY)
    return inspect.Signature([completions, *found.values(), inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)])


def _arguments_below(name: str, kwargs: dict) -> dict:
    """What a wrapped reward logs goes below the wrapper's name, so that both can run side by side."""
    below = {"log_extra": _extra_below, "log_metric": _metric_below}
    return {
        key: functools.partial(below[key], name, value) if key in below and value is not None else value
        for key, value in kwargs.items()
    }


def _checked(name: str, reward_fn, rewards, size: int) -> list:
    rewards = list(rewards)
    if len(rewards) != size:
        raise ValueError(f"{name}: {_reward_name(reward_fn)} gave {len(rewards)} rewards for {size} completions")
    rewards = [None if reward is None or reward != reward else float(reward) for reward in rewards]
    if not all(reward is None or math.isfinite(reward) for reward in rewards):
        raise ValueError(f"{name}: {_reward_name(reward_fn)} gave a reward that is not finite")
    return rewards


class _LengthPenalty:
    """A class, because AsyncGRPO pickles rewards and a closure cannot be pickled."""

    def __init__(self, reward_fn, target_len, penalty_per_token, max_share, name):
        self.reward_fn, self.target_len, self.penalty_per_token = reward_fn, target_len, penalty_per_token
        self.max_share, self.__name__ = max_share, name

    @property
    def __signature__(self) -> inspect.Signature:
        return _parameters_of([self.reward_fn])

    def _penalise(self, rewards, completions, kwargs: dict) -> list[float | None]:
        name, size = self.__name__, len(completions)
        rewards = _checked(name, self.reward_fn, rewards, size)
        completion_ids = kwargs.get("completion_ids")
        if completion_ids is None:
            lengths = [len(completion_text(completion).split()) for completion in completions]
        else:
            lengths = [len(ids) for ids in _column(name, "completion_ids", completion_ids, size)]
        penalties = [
            min(max(0, length - self.target_len) * self.penalty_per_token, self.max_share * reward)
            if reward is not None and reward > 0
            else 0.0
            for reward, length in zip(rewards, lengths)
        ]
        if kwargs.get("log_extra") is not None:
            kwargs["log_extra"](f"{name}/penalty", penalties)
        return [None if reward is None else reward - penalty for reward, penalty in zip(rewards, penalties)]

    def __call__(self, /, completions, **kwargs):
        rewards = self.reward_fn(completions=completions, **_arguments_below(self.__name__, kwargs))
        return self._penalise(rewards, completions, kwargs)


class _AsyncLengthPenalty(_LengthPenalty):
    async def __call__(self, /, completions, **kwargs):
        rewards = await self.reward_fn(completions=completions, **_arguments_below(self.__name__, kwargs))
        return self._penalise(rewards, completions, kwargs)


def with_length_penalty(reward_fn, target_len=512, penalty_per_token=0.001, max_share=0.5, name=None):
    """A reward that takes `penalty_per_token` off `reward_fn`'s score for every token past `target_len`.

    Only a positive score is touched, and it keeps at least `1 - max_share` of itself: a long right answer stays above
    every wrong one, and a negative score does not become a better one. None stays None. Tokens are counted from
    TRL's `completion_ids` (which include the end token and, in tool runs, the tools' results); without them words
    stand in for tokens, and a text without spaces is one word.

    Args:
        reward_fn (callable): any reward, sync or async; the result is of the same kind.
        target_len (`int`): tokens that cost nothing.
        penalty_per_token (`float`): score per token past `target_len`, 0 or more.
        max_share (`float`): largest share of a positive score that length may cost, 0 to below 1.
        name (`str`, *optional*): name in the logs. By default it tells base and settings apart.

    Returns:
        callable: picklable if `reward_fn` is. Writes `<name>/penalty` to the completions table.

    Raises:
        TypeError: `reward_fn` cannot be called.
        ValueError: a setting is out of range; on a call: `reward_fn` gave a wrong number of rewards.

    Example:
        >>> concise = with_length_penalty(correctness_reward, target_len=3, penalty_per_token=0.1)
        >>> concise(completions=["<answer>7</answer>"] * 2, completion_ids=[[1, 2, 3], [1, 2, 3, 4]], answer="7")
        [2.0, 1.9]
        >>> concise.__name__
        'correctness_reward_over_3_by_0.1'
    """
    if not callable(reward_fn):
        raise TypeError(f"with_length_penalty: reward_fn must be callable, got {reward_fn!r:.80}")
    # Written so that NaN fails them too.
    if not target_len >= 0:
        raise ValueError(f"with_length_penalty: target_len must be 0 or more, got {target_len}")
    if not 0 <= penalty_per_token < math.inf:
        raise ValueError(f"with_length_penalty: penalty_per_token must be 0 or more, got {penalty_per_token}")
    if not 0 <= max_share < 1:
        raise ValueError(f"with_length_penalty: max_share must be at least 0 and below 1, got {max_share}")
    share = "" if max_share == 0.5 else f"_up_to_{max_share}"
    name = name or f"{_reward_name(reward_fn)}_over_{target_len}_by_{penalty_per_token}{share}"
    wrapper = _AsyncLengthPenalty if _is_async(reward_fn) else _LengthPenalty
    return wrapper(reward_fn, target_len, penalty_per_token, max_share, name)


class _Combined:
    """A class, because AsyncGRPO pickles rewards and a closure cannot be pickled."""

    def __init__(self, parts, weights, gate, name):
        self.parts, self.weights, self.gate, self.__name__ = parts, weights, gate, name
        self.reward_fns = [*parts, *([] if gate is None else [gate])]

    @property
    def __signature__(self) -> inspect.Signature:
        return _parameters_of(self.reward_fns)

    def _sum(self, results, completions, /, log_extra=None, log_metric=None, **kwargs) -> list[float | None]:
        name, size, totals = self.__name__, len(completions), []
        columns = [_checked(name, fn, rewards, size) for fn, rewards in zip(self.reward_fns, results)]
        gates = [1.0] * size if self.gate is None else columns[len(self.parts)]
        for row, gate in enumerate(gates):
            known = [(column[row], weight) for column, weight in zip(columns, self.weights) if column[row] is not None]
            total = sum(value * weight for value, weight in known) if known and gate is not None else None
            # At most 0, not 0: else a wrong answer worth -1 would be worth spoiling the format for.
            totals.append(min(total, 0.0) if total is not None and gate <= 0 else total)
        for fn, column in zip(self.reward_fns, columns):
            scored = [value for value in column if value is not None]
            if log_metric is not None and scored:
                log_metric(f"{name}/{_reward_name(fn)}", sum(scored) / len(scored))
            if log_extra is not None:
                log_extra(f"{name}/{_reward_name(fn)}", column)
        if log_extra is not None and self.gate is not None:
            log_extra(
                f"{name}/reason", ["no_gate" if gate is None else "open" if gate > 0 else "gated" for gate in gates]
            )
        return totals

    def __call__(self, /, completions, **kwargs):
        below = _arguments_below(self.__name__, kwargs)
        return self._sum([fn(completions=completions, **below) for fn in self.reward_fns], completions, **kwargs)


class _AsyncCombined(_Combined):
    async def __call__(self, /, completions, **kwargs):
        import asyncio  # two thirds of this file's import time, and only an async run needs it

        below = _arguments_below(self.__name__, kwargs)

        async def one(fn):
            called = fn(completions=completions, **below)
            return await called if _is_async(fn) else called

        return self._sum(await asyncio.gather(*map(one, self.reward_fns)), completions, **kwargs)


def combine(*reward_fns, weights=None, gate=None, name=None):
    """One reward from several: their weighted sum, paid only where `gate` pays.

    TRL sums `reward_funcs` itself; use this where that sum is not enough: a gate (no reward for a right answer in a
    broken format), or AsyncGRPO, which has no `reward_weights`. A part that abstains counts as nothing, as in TRL; a
    row on which all parts or the gate abstain is None. A gated row gets 0.0, or its sum if that is lower.

    Args:
        *reward_fns (callable): the parts, sync or async; the result is async if one of them is.
        weights (`list[float]`, *optional*): one per part, 1.0 each by default.
        gate (callable, *optional*): a reward; above 0 lets a row pass.
        name (`str`, *optional*): name in the logs. By default it is made of the parts' names.

    Returns:
        callable: picklable if its parts are. Each part's mean is the metric `<name>/<part>`, its values are a column of
        that name, and what the parts log is below it. Reasons, with a gate: `open`, `gated`, `no_gate`.

    Raises:
        TypeError: a part or the gate cannot be called.
        ValueError: no part, two parts of one name, or weights that do not fit.

    Example:
        >>> strict = combine(correctness_reward, gate=format_reward)
        >>> strict(completions=["<reasoning>r</reasoning><answer>7</answer>", "<answer>7</answer>"], answer="7")
        [2.0, 0.0]
        >>> strict.__name__
        'correctness_reward_if_format_reward'
    """
    if not reward_fns:
        raise ValueError("combine: give at least one reward")
    used = [*reward_fns, *([gate] if gate is not None else [])]
    for reward_fn in used:
        if not callable(reward_fn):
            raise TypeError(f"combine: a part must be callable, got {reward_fn!r:.80}")
    names = list(map(_reward_name, used))
    if len(set(names)) < len(names):
        raise ValueError(
            f"combine: two parts are called {max(names, key=names.count)!r}, so the logs could not tell them apart"
        )
    weights = [1.0] * len(reward_fns) if weights is None else [float(weight) for weight in weights]
    if len(weights) != len(reward_fns) or not all(map(math.isfinite, weights)):
        raise ValueError(f"combine: weights must be {len(reward_fns)} finite numbers, one per part, got {weights}")
    spelled = [part if weight == 1.0 else f"{weight:g}_{part}" for part, weight in zip(names, weights)]
    default = "_and_".join(spelled) + (f"_if_{names[-1]}" if gate is not None else "")
    kind = _AsyncCombined if any(map(_is_async, used)) else _Combined
    return kind(reward_fns, weights, gate, name or default)


def _prompt_text(prompt) -> str:
    """A prompt as one text for a judge; chat messages keep their roles unless there is a single one."""
    if isinstance(prompt, str):
        return prompt
    turns = [(message.get("role", "user"), completion_text([{**message, "role": "assistant"}])) for message in prompt]
    return turns[0][1] if len(turns) == 1 else "\n\n".join(f"{role}: {text}" for role, text in turns)


class _RubricJudge:
    """A class, because AsyncGRPO pickles rewards and a closure cannot be pickled."""

    def __init__(self, desk, name):
        self.desk, self.__name__ = desk, name

    def _pairs(self, completions, prompts) -> list[tuple[str, str]]:
        prompts = _column(self.__name__, "prompts", prompts, len(completions))
        return [(_prompt_text(prompt), completion_text(text)) for prompt, text in zip(prompts, completions)]

    def _rewards(self, verdicts, /, log_extra=None, log_metric=None, **kwargs) -> list[float | None]:
        name, reasons, replies = self.__name__, [reason for reason, _ in verdicts], [reply for _, reply in verdicts]
        for reason in {"unreachable", "refused"}.intersection(reasons):
            share, reply = f"{reasons.count(reason)} of {len(reasons)} rows", replies[reasons.index(reason)]
            logger.warning("%s: %s do not count, %s: %.200s", name, share, reason, reply)
        rewards = [{"pass": 1.0, "fail": 0.0}.get(reason) for reason in reasons]
        _report(name, rewards, reasons, log_extra, log_metric, replies)
        if log_metric is not None and reasons:
            log_metric(f"{name}/unreachable", reasons.count("unreachable") / len(reasons))
        return rewards

    def __call__(self, /, completions, prompts, **kwargs):
        return self._rewards(self.desk.ask(self._pairs(completions, prompts)), **kwargs)


class _AsyncRubricJudge(_RubricJudge):
    async def __call__(self, /, completions, prompts, **kwargs):
        return self._rewards(await self.desk.ask_async(self._pairs(completions, prompts)), **kwargs)


def make_rubric_judge_reward(
    judge_client, rubric, name=None, concurrency=8, attempts=4, backoff_s=0.5,
    calibration=None, allow_uncalibrated=False, max_age_days=90,
):  # fmt: skip
    """A reward that asks a judge model whether a completion meets one fixed pass/fail criterion.

    Calibrate the judge against people's labels before a run. It must not be of the policy's model family.

    Args:
        judge_client: has `judge(rubric=, prompt=, response=, output_format="pass_fail")`, sync or `async def`, where
            prompt and response are text (chat messages are rendered). It answers a bool, a dict with a `"verdict"`, or
            a text in which the last verdict counts: a line that says only `pass` or `fail`, or `verdict: pass`.
            `OpenAIJudge` is one.
        rubric (`str`): the criterion.
        name (`str`, *optional*): name in the logs; by default `rubric_judge_reward_` and a hash of the rubric, which
            does not tell two clients with one rubric apart.
        concurrency (`int`): calls at a time. A sync client is called from that many threads.
        attempts (`int`): tries per row when the judge cannot be reached, with random exponential backoff.
        backoff_s (`float`): seconds the first wait lasts at most; each next one is up to twice as long, 30 s at most.
        calibration (`str`, `Path` or `dict`, *optional*): the record of `calibrate_judge.py`. It must say "calibrated"
            for this rubric, and for the client's `model` and `sampling` if it has them. Without it nothing is checked.
        allow_uncalibrated (`bool`): warn instead of refusing when the record does not vouch for the judge.
        max_age_days (`float`): how old the oldest answer or the last good recheck may be (90 is judgement).

    Returns:
        callable: picklable if `judge_client` is, async if its method is. 1.0 for pass, 0.0 for fail, None where there
        was no clear verdict. Identical pairs of prompt and completion are judged once. Reasons: `pass`, `fail`,
        `no_verdict`, `unreachable` (after all attempts; also the metric `<name>/unreachable`), `refused` (HTTP 400, 413
        or 422: too long, or filtered). The reply is in `<name>/extracted`.

    Raises:
        ImportError: tenacity (on a call) or judge.py is missing.
        TypeError: `judge_client` has no `judge` method; on a call: the method returned a coroutine without being async.
        ValueError: the rubric is empty, a setting is out of range, or the calibration does not vouch for this judge and
            rubric: not calibrated, of another rubric, model or sampling, or too old. On a call, any error of the
            client that another try would not mend, such as a wrong key.

    Example:
        >>> class Judge:
        ...     def judge(self, rubric, prompt, response, output_format):
        ...         return "It asks.\\nVerdict: pass" if response.endswith("?") else "fail"
        >>> on_topic = make_rubric_judge_reward(Judge(), "The response is a question.")
        >>> on_topic(prompts=["Ask me."] * 2, completions=["Why?", "No"])
        [1.0, 0.0]
        >>> on_topic.__name__
        'rubric_judge_reward_f26a604a'
    """
    if not callable(getattr(judge_client, "judge", None)):
        raise TypeError(f"make_rubric_judge_reward: judge_client needs a method judge(), got {judge_client!r:.80}")
    if not isinstance(rubric, str) or not rubric.strip():
        raise ValueError("make_rubric_judge_reward: the rubric must be a text with one pass/fail criterion")
    if not (concurrency >= 1 and attempts >= 1 and 0 <= backoff_s < math.inf):
        raise ValueError("make_rubric_judge_reward: concurrency and attempts must be 1 or more, backoff_s 0 or more")
    name = name or f"rubric_judge_reward_{hashlib.sha256(rubric.encode()).hexdigest()[:8]}"
    if calibration is not None:
        record = _beside("judge").read_calibration(calibration)
        problem = _beside("judge").calibration_problem(record, judge_client, rubric, max_age_days)
        if problem and not allow_uncalibrated:
            raise ValueError(f"make_rubric_judge_reward: {problem}; allow_uncalibrated=True would only warn")
        for warning in filter(None, [problem, *(record.get("warnings") or ())]):
            logger.warning("%s: %s", name, warning)
    desk = _beside("judge").Desk(judge_client, rubric, int(concurrency), int(attempts), backoff_s)
    return (_AsyncRubricJudge if desk.is_async else _RubricJudge)(desk, name)


def __getattr__(name: str):
    """The judge clients live in judge.py; `from rewards import OpenAIJudge` finds them."""
    if name in ("OpenAIJudge", "AsyncOpenAIJudge"):
        return getattr(_beside("judge"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def lint(reward, rows, **options) -> list[dict]:
    """Try a reward before training; `lint_rewards.lint` says what is tried and what the findings hold."""
    return _beside("lint_rewards").lint(reward, rows, **options)


def main() -> int:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    try:
        import score_completions
    except ImportError:
        print("error: the score command needs score_completions.py beside rewards.py; copy both", file=sys.stderr)
        return 2
    return score_completions.main()


if __name__ == "__main__":
    sys.exit(main())
