"""SKILL.md repeats a few rows of the references: they must be the references' rows, and run where they say commands."""

from pathlib import Path

import pytest
from test_memory_sizing import table_with

ROOT = Path(__file__).parents[1]
SKILL = ROOT / "skills/grpo-training/SKILL.md"


def repeated_rows(skill: str, variants: str, sizing: str) -> list[str]:
    """Rows of SKILL.md's tables that are not in the reference they come from."""
    problems = []
    source = {(row[0], row[1], row[2]): row for row in table_with(variants, "What the default already covers")}
    rows = table_with(skill, "Exact settings")
    assert len(rows) >= 6
    problems += [f"variants: {row[:3]}" for row in rows if tuple(row[:3]) not in source]
    sizes = table_with(sizing, "QLoRA r16")
    problems += [f"sizes: {row}" for row in table_with(skill, "QLoRA r16") if row not in sizes]
    return problems


def texts() -> list[str]:
    paths = [SKILL, ROOT / "references/variants.md", ROOT / "references/memory-sizing.md"]
    return [path.read_text(encoding="utf-8") for path in paths]


def test_repeated_rows_are_the_references_rows():
    assert repeated_rows(*texts()) == []


@pytest.mark.parametrize(
    ("old", "new"), [("epsilon_high=5.0", "epsilon_high=4.0"), ("57.9 / 42.6", "57.9 / 52.6"), ("`frac_reward_zero_std` above", "`loss` above")]
)  # fmt: skip
def test_a_row_that_drifted_is_found(old, new):
    skill, variants, sizing = texts()
    assert old in skill and repeated_rows(skill.replace(old, new), variants, sizing)
