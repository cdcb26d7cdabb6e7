"""SKILL.md repeats the sizes of a reference: they must be the reference's rows.

Its table of variants is a generated block, which tests/test_docsync.py holds to scripts/variants.py.
"""

from pathlib import Path

from test_memory_sizing import table_with

ROOT = Path(__file__).parents[1]
SKILL = ROOT / "skills/grpo-training/SKILL.md"


def repeated_rows(skill: str, sizing: str) -> list[str]:
    """Rows of SKILL.md's table that are not in the reference it comes from."""
    sizes = table_with(sizing, "QLoRA r16")
    return [f"sizes: {row}" for row in table_with(skill, "QLoRA r16") if row not in sizes]


def texts() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in (SKILL, ROOT / "references/memory-sizing.md")]


def test_repeated_rows_are_the_references_rows():
    assert repeated_rows(*texts()) == []


def test_a_row_that_drifted_is_found():
    skill, sizing = texts()
    assert "57.9 / 42.6" in skill and repeated_rows(skill.replace("57.9 / 42.6", "57.9 / 52.6"), sizing)
