#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["jsonschema>=4.21", "jsonschema-rs", "rich>=13", "trl==1.16.0", "math-verify>=0.9"]
# ///
"""Completions per second of our rewards, beside TRL's own functions and `jsonschema.validate`, in one run.

Every row is CPU time, best of `--repeat`, on synthetic completions of about 500 tokens (2,000 characters). The second
table scores degenerate repetition of growing length: time per doubling tells linear (about 2) from quadratic (about 4).

Each schema and each math row runs in a process of its own: whether jsonschema-rs can be imported decides the back end,
and sympy's caches must not carry over. `math_reward` is charged for its worker processes too, on one core like the
rest; its verdicts are remembered per pair, so no two of these answers are alike. `schema_reward` also refuses what
`json.loads` lets pass (duplicate keys, NaN, numbers out of range), which costs it about a third.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

SENTENCE = "We add the two numbers and check the sum once more. "


def completions_with(answer: str, count: int, tag: str = "reasoning") -> list[str]:
    """About 2,000 characters each, no two alike, half of them with another answer."""
    return [
        f"<{tag}>\n{SENTENCE * 37}{index}\n</{tag}>\n<answer>{answer if index % 2 else index}</answer>"
        for index in range(count)
    ]


ITEM_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "name": {"type": "string", "minLength": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "price": {"type": "number", "minimum": 0},
        "state": {"enum": ["new", "sold", "gone"]},
    },
    "required": ["id", "name", "price"],
    "additionalProperties": False,
}
SCHEMA = {"type": "object", "properties": {"items": {"type": "array", "items": ITEM_SCHEMA}}, "required": ["items"]}


def json_completions(count: int) -> list[str]:
    """About 1,800 characters of JSON with 15 nested items, every fourth one invalid at its end."""
    rows = []
    for index in range(count):
        items = [
            {
                "id": index + n,
                "name": f"item {n} of the list",
                "tags": ["red", "a longer tag"],
                "price": n + 0.5,
                "state": "new",
            }
            for n in range(15)
        ]
        if index % 4 == 0:
            items[-1]["price"] = "free"
        rows.append(json.dumps({"items": items}))
    return rows


def cpu_seconds(call, repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        started = time.process_time()
        call()
        best = min(best, time.process_time() - started)
    return best


def schema_rate(backend: str, count: int, repeat: int) -> float:
    """Completions per second of one way to check a schema; runs in the child process."""
    texts = json_completions(count)
    if backend == "jsonschema.validate per row":
        import jsonschema

        def call():
            for text in texts:
                try:
                    jsonschema.validate(json.loads(text), SCHEMA)
                except jsonschema.ValidationError:
                    pass
    elif backend == "json.loads and a kept jsonschema-rs validator":
        import jsonschema_rs

        validator = jsonschema_rs.validator_for(SCHEMA)

        def call():
            for text in texts:
                validator.is_valid(json.loads(text))
    else:
        if backend == "schema_reward, jsonschema":
            sys.modules["jsonschema_rs"] = None
        import rewards

        reward = rewards.make_schema_reward(graded="graded" in backend)

        def call():
            reward(completions=texts, output_schema=SCHEMA)

        call()  # imports and compilation happen once per process
    return count / cpu_seconds(call, repeat)


GROUP = 8  # completions of one prompt, which have one gold


def math_pairs(count: int, kind: str, seed: int) -> tuple[list[str], list[str]]:
    """Answers and golds: no two answers alike, every other one equal to its group's gold in value."""
    answers, golds = [], []
    for index in range(count):
        gold, k = seed * count + index // GROUP + 2, index % GROUP + 2
        other = gold + (0 if index % 2 else k)
        golds.append(str(gold) if kind == "integers" else rf"1+\frac{{x}}{{{gold}}}")
        answers.append(
            f"{other}{'.' + '0' * k}" if kind == "integers" else rf"\frac{{{k}x+{k * other}}}{{{k * other}}}"
        )
    return answers, golds


def math_rate(which: str, count: int, repeat: int) -> float:
    """Completions per second of one math reward; runs in the child process, on one core with all it starts."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    name, _, kind = which.partition(", ")
    seconds = []
    for seed in range(repeat + 1):
        answers, golds = math_pairs(count, kind, seed)
        texts = [f"{SENTENCE * 37} So it is \\boxed{{{answer}}}." for answer in answers]
        if name == "math_reward":
            import rewards

            started = time.monotonic()
            verdicts = rewards.math_reward(texts, answer=golds)
        else:
            from trl.rewards import accuracy_reward

            started = time.monotonic()
            chats = [[{"role": "assistant", "content": text}] for text in texts]
            verdicts = accuracy_reward(chats, solution=[f"${gold}$" for gold in golds])
        seconds.append(time.monotonic() - started)
        assert verdicts == [float(index % 2) for index in range(count)], "the rates must be those of right verdicts"
    return count / min(seconds[1:])  # the first run imports and starts workers


def child_rates(sizes: dict[str, int], repeat: int) -> dict[str, float]:
    rates = {}
    for which, size in sizes.items():
        command = [sys.executable, __file__, "--child", which, "--count", str(size), "--repeat", str(repeat)]
        rates[which] = float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return rates


def measure(count: int, repeat: int) -> dict:
    import rewards

    texts = completions_with("42", count)
    chats = [[{"role": "assistant", "content": text}] for text in texts]
    choices = completions_with("B", count)
    call = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
    calls = [f"<think>{SENTENCE * 37}{index}</think><tool_call>{call}</tool_call>" for index in range(count)]

    def rate(reward, completions, **columns) -> float:
        return len(completions) / cpu_seconds(lambda: reward(completions=completions, **columns), repeat)

    rates = {
        "format": {"format_reward": rate(rewards.format_reward, texts)},
        "answers": {
            "correctness_reward": rate(rewards.correctness_reward, texts, answer="42"),
            "correctness_reward, chat": rate(rewards.correctness_reward, chats, answer="42"),
            "numeric_reward": rate(rewards.numeric_reward, texts, answer="42"),
            "choice_reward": rate(rewards.choice_reward, choices, answer="B"),
            "tool_call_reward": rate(rewards.tool_call_reward, calls, tool_calls=f"[{call}]"),
        },
        "schema": child_rates(
            {
                "jsonschema.validate per row": max(10, count // 50),
                "schema_reward, jsonschema": max(10, count // 10),
                "json.loads and a kept jsonschema-rs validator": count,
                "schema_reward, jsonschema-rs": count,
                "schema_reward, jsonschema-rs, graded": max(10, count // 10),
            },
            repeat,
        ),
    }
    try:
        from trl.rewards import think_format_reward
    except ImportError as error:
        print(f"TRL's own functions: not measured ({error})", file=sys.stderr)
    else:
        thinking = [[{"role": "assistant", "content": text}] for text in completions_with("42", count, "think")]
        rates["format"]["trl think_format_reward"] = count / cpu_seconds(lambda: think_format_reward(thinking), repeat)
        few = max(10, count // 50)
        which = [
            "math_reward, integers",
            "trl accuracy_reward, integers",
            "math_reward, fractions",
            "trl accuracy_reward, fractions",
        ]
        rates["mathematics"] = child_rates(dict.fromkeys(which, few), min(repeat, 3))

    degenerate = {}
    shapes = {
        "opening tags": "<reasoning>",
        "block seams": "</reasoning><answer>",
        "answer tags": "<answer></answer>",
        "brackets": "[",
        "quotes": '{"a": "',
        "boxes": "\\boxed{",
        "emphasis": "**",
        "letters": "A ",
        "calls": "<tool_call>",
    }
    for name, unit in shapes.items():
        for function, arguments in (
            (rewards.format_reward, {}),
            (rewards.correctness_reward, {"answer": "42"}),
            (rewards.numeric_reward, {"answer": "42"}),
            (rewards.choice_reward, {"answer": "B"}),
            (rewards.schema_reward, {"output_schema": SCHEMA}),
            (rewards.tool_call_reward, {"tool_calls": "[]"}),
        ):
            times_ms = []
            for characters in (100_000, 200_000, 400_000):
                text = ["<answer>" + unit * (characters // len(unit)) + "</answer>"]
                times_ms.append(1000 * cpu_seconds(lambda: function(text, **arguments), repeat))
            degenerate[f"{function.__name__}, {name}"] = times_ms
    return {"schema_version": 1, "completions": count, "per_second": rates, "degenerate_ms_100k_200k_400k": degenerate}


def show(result: dict) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(
        "kind", "function", "completions/s", "against the slowest", title=f"{result['completions']:,} completions"
    )
    for kind, rates in result["per_second"].items():
        for name, rate in sorted(rates.items(), key=lambda pair: -pair[1]):
            table.add_row(kind, name, f"{rate:,.0f}", f"{rate / min(rates.values()):.1f} x")
    console.print(table)
    table = Table("function, what repeats", "100k chars", "200k", "400k", title="degenerate completions, ms of CPU")
    for name, times_ms in result["degenerate_ms_100k_200k_400k"].items():
        table.add_row(name, *(f"{ms:.2f}" for ms in times_ms))
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python benchmarks/rewards.py --count 2000 --json\n\nexit codes: 0 = measured, 2 = bad usage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=10_000, help="completions per function (default 10000)")
    parser.add_argument("--repeat", type=int, default=5, help="runs per function, the best counts (default 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.count < 10 or args.repeat < 1:
        parser.error("--count must be at least 10 and --repeat at least 1")
    if args.child:
        rate = math_rate if args.child.endswith(("integers", "fractions")) else schema_rate
        print(rate(args.child, args.count, args.repeat))
        return 0
    result = measure(args.count, args.repeat)
    print(json.dumps(result, indent=1)) if args.json else show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
