"""`inspect_rewards.py label` as a person uses it: keys, what shows when, and what is on disk after a crash.

The labels made here are of kind synthetic: no person read anything.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unicodedata
import warnings
from pathlib import Path

import inspect_label
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inspect_label import Session, append_label, build_app, cut, fold, read_labels, turns, visible

SCRIPTS = Path(__file__).parents[1] / "scripts"
HOSTILE = {
    "script": "<script>alert(1)</script>",
    "ansi": "\x1b[2J\x1b[31mred\x1b]0;title\x07\x9b5A",
    "bidi": "7\u202e\u2066evil\u200f",
    "invisible": "7\u200b\u200d\ufeff\u2060\u3164\u2800\U000e0041",
    "nul": "a\x00b\x7fc",
    "surrogate": "a\ud800b\udfff",
    "lines": "a\rb\x0bc\x0cd\x85e\u2028f\u2029g",
    "tower": "Z" + "\u0301\u0302" * 400 + "algo",
    "leading mark": "\u0301\u0301 a \u0301",
    "wide": "\u65e5\u672c\u8a9e" * 60 + " \u2764\ufe0f \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "markup": "[bold]x[/bold] [/] [link=http://a]b [@click=app.quit]c[/] :smile: [red",
    "private": "\ue000\uffff\U0010ffff",
    "thinking": "<think></think>" * 800,
}


def make(number: int, completion="The answer is 7.", **more) -> dict:
    return {
        "id": f"row-{number}",
        "part": "suspicious",
        "why": "WHY-shortest",
        "prompt": f"PROMPT-{number}",
        "completion": completion,
        "rewards": {"NAME-correct": 1.0, "NAME-format": None},
        "reasons": {"NAME-correct": "REASON-equal"},
        "total": 1.0,
        **more,
    }


def record(number=1, label="pass", labeller="ann", kind="synthetic", **more) -> dict:
    values = (f"row-{number}", label, "", labeller, kind, "random", "2026-11-30T12:00:00+00:00")
    return {**dict(zip(inspect_label.FIELDS, values)), **more}


def screen_of(app) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def drive(path, items, script, size=(80, 24), labeller="ann", kind="synthetic") -> Session:
    """Runs the app without a terminal; `script` is given a function that presses keys and gives back the screen."""
    session = Session(items, path, labeller, kind)

    async def run():
        app = build_app(session)
        async with app.run_test(size=size) as pilot:

            async def press(*keys: str) -> str:
                await pilot.press(*keys)
                await pilot.pause()
                return screen_of(app)

            press.app, press.pilot = app, pilot
            await press()
            await script(press)

    asyncio.run(run())
    return session


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.jsonl"


def labels_in(path) -> list[tuple[str, str]]:
    return [(line["id"], line["label"]) for line in map(json.loads, path.read_text().splitlines())]


# The reward is hidden until judged.


def leaks(screen: str, item: dict) -> list[str]:
    """What of an item shows, though it would anchor who judges it."""
    secrets = [*item["rewards"], *item["reasons"].values(), item["why"], item["part"], "reward"]
    return [secret for secret in secrets if secret in screen]


@pytest.mark.parametrize("size", [(80, 24), (40, 15), (120, 50)])
def test_the_reward_shows_only_after_the_judgement(path, size):
    items = [
        make(1),
        make(2, rewards={"OTHER": 0.0}, reasons={"OTHER": "SECOND"}, why="WHY-2", part="random", total=0.0),
    ]

    async def script(press):
        for keys in ((), ("t", "p"), ("j", "end", "home"), ("r",), ("n", "a", "escape")):
            screen = await press(*keys)
            assert "1 of 2" in screen and "The answer is 7." in screen
            assert not leaks(screen, items[0]), screen
        screen = await press("2")
        assert "2 of 2" in screen and "PAID BUT JUDGED FAIL" in screen.replace("UNPAID", "")
        assert not {"OTHER", "SECOND", "WHY-2", "random"} & set(screen.split()), screen
        if size[1] >= 20:  # the checker sees what it must reject
            assert set(leaks(screen, items[0])) >= {"NAME-correct", "REASON-equal"}
        assert set(leaks(await press("r"), items[0])) >= {"NAME-correct", "REASON-equal", "WHY-shortest", "suspicious"}
        await press("escape")
        screen = await press("1")
        assert "UNPAID BUT JUDGED PASS" in screen and "all 2 judged" in screen

    drive(path, items, script, size)


def test_agreement_is_not_marked_and_no_score_is_said(path):
    async def script(press):
        assert "!!" not in await press("1")
        assert "not scored" in (screen := await press("1")) and "!!" not in screen
        assert "!!" not in await press("3")

    drive(path, [make(1), make(2, total=None), make(3)], script)


# Keys.


def test_every_key_of_a_judgement(path):
    async def script(press):
        for key in "1y2x3s":
            await press(key)

    session = drive(path, [make(n) for n in range(7)], script)
    assert [label for _, label in labels_in(path)] == ["pass", "pass", "fail", "fail", "unsure", "unsure"]
    assert session.counts() == {"labelled": 6, "left": 1, "pass": 2, "fail": 2, "unsure": 2}
    line = json.loads(path.read_text().splitlines()[0])
    assert list(line) == ["id", "label", "note", "labeller", "kind", "part", "time"]
    assert (line["labeller"], line["kind"], line["part"]) == ("ann", "synthetic", "suspicious")
    assert line["time"].endswith("+00:00")


def test_a_label_is_on_disk_before_the_next_output_shows(path, monkeypatch):
    seen = []
    kept = inspect_label.append_label

    def spy(where, line):
        kept(where, line)
        seen.append((screen_of(app), path.read_text().count("\n")))

    monkeypatch.setattr(inspect_label, "append_label", spy)

    async def script(press):
        nonlocal app
        app = press.app
        await press("1")

    app = None
    drive(path, [make(1), make(2)], script)
    ((screen, lines),) = seen
    assert "PROMPT-1" in screen and lines == 1


def test_a_line_is_one_write_at_the_end_and_synced(path, monkeypatch):
    calls, real = [], (os.open, os.write, os.fsync)

    def spy(name, call):
        def called(*arguments):
            calls.append((name, *arguments[1:]))
            return call(*arguments)

        monkeypatch.setattr(inspect_label.os, name, called)

    for name, call in zip(("open", "write", "fsync"), real):
        spy(name, call)
    append_label(path, record(1))
    append_label(path, record(2))
    second = calls[-3:]
    assert [name for name, *_ in calls] == ["open", "write", "fsync", "open", "fsync", "open", "write", "fsync"]
    assert second[0][1] & os.O_APPEND and not second[0][1] & os.O_TRUNC
    assert second[1][1] == json.dumps(record(2)).encode() + b"\n"


def test_what_cannot_be_written_does_not_go_on(path, monkeypatch):
    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    async def script(press):
        with monkeypatch.context() as patch:
            patch.setattr(inspect_label.os, "write", full)
            screen = await press("1")
        assert "1 of 2" in screen and "NOT SAVED" in screen and "No space left" in screen
        screen = await press("1")
        assert "2 of 2" in screen and "NOT SAVED" not in screen

    drive(path, [make(1), make(2)], script)
    assert labels_in(path) == [("row-1", "pass")]


def test_a_short_write_is_an_error_and_costs_one_line(path, monkeypatch):
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(inspect_label.os, "write", lambda descriptor, data: write(descriptor, data[:20]))
        with pytest.raises(OSError, match="20 of"):
            append_label(path, record(1))
    append_label(path, record(2))
    assert [line["id"] for line in read_labels(path)] == ["row-2"]


def test_undo_goes_back_and_is_a_line_of_its_own(path):
    async def script(press):
        assert "nothing to undo" in await press("u")
        await press("n", *"odd", "enter", "1")
        screen = await press("u")
        assert "1 of 2" in screen and "PROMPT-1" in screen and "withdrawn: pass" in screen and "note: odd" in screen
        assert not leaks(screen, make(1)), screen
        assert "2 of 2" in await press("2")

    drive(path, [make(1), make(2)], script)
    assert labels_in(path) == [("row-1", "pass"), ("row-1", "undo"), ("row-1", "fail")]
    (standing,) = read_labels(path)
    assert (standing["label"], standing["note"]) == ("fail", "odd")


def test_undo_across_a_restart(path):
    items = [make(n) for n in range(3)]

    async def two(press):
        await press("1", "2", "q")

    async def back(press):
        assert "3 of 3" in (screen := await press()) and "2 judged before" in screen
        assert "2 of 3" in (screen := await press("u")) and "PROMPT-1" in screen
        assert "1 of 3" in (screen := await press("u")) and "PROMPT-0" in screen
        await press("3")

    drive(path, items, two)
    drive(path, items, back)
    assert labels_in(path)[2:] == [("row-1", "undo"), ("row-0", "undo"), ("row-0", "unsure")]
    assert [(line["id"], line["label"]) for line in read_labels(path)] == [("row-0", "unsure")]

    async def all_of_them(press):
        await press("1", "1")
        assert "all 3 judged" in await press()
        assert "3 of 3" in await press("u")

    assert drive(path, items, all_of_them).counts()["left"] == 1


def test_a_note_is_typed_kept_and_saved_with_the_label(path):
    async def script(press):
        screen = await press("n", *"1q?u", "space", *"[b]x")  # keys that judge and leave elsewhere
        assert "1 of 3" in screen and "1q?u [b]x" in screen and "enter keeps the note" in screen
        assert "note: 1q?u [b]x" in await press("enter")
        assert "q again drops it" in await press("q")
        await press("2")
        await press("n", *"gone", "escape", "1")

    drive(path, [make(n) for n in range(3)], script)
    assert [line["note"] for line in read_labels(path)] == ["1q?u [b]x", ""]


def test_what_is_pasted_into_a_note_is_harmless(path):
    async def script(press):
        await press("n")
        press.app.find("note").value = "a\x1b[31m\ud800\u202e"
        assert "a\u241b[31m<U+D800><U+202E>" in (screen := await press()) and not drives(screen)
        await press("enter", "1", "u", "n")

    drive(path, [make(1)], script)
    append_label(path, record(1, note="\x1b[2J\ud800"))

    async def again(press):
        assert not drives(await press("u")) and not drives(await press("n"))

    drive(path, [make(1)], again)


def test_help_and_quit(path):
    async def script(press):
        screen = await press("question_mark")
        assert "undo" in screen and "1 of" not in screen
        assert "1 of 2" in await press("1", "q")  # judges nothing below the page, closes it
        await press("q")
        assert not press.app.is_running

    drive(path, [make(1), make(2)], script)
    assert not path.exists()


def test_ctrl_c_leaves(path):
    async def script(press):
        await press("ctrl+c")
        assert not press.app.is_running

    drive(path, [make(1)], script)


# Reading: folds, scrolling, sizes.


def test_thinking_folds(path):
    thought = "<think>" + "hm " * 400 + "</think>\nThe answer is 7."

    async def script(press):
        screen = await press()
        assert "\u25b8 thinking, 1,215 characters; t unfolds" in screen and "hm" not in screen
        assert "The answer is 7." in screen
        assert "hm hm" in await press("t")
        assert "hm hm" in await press("1")  # who reads thinking reads that of the next output too
        assert "hm hm" not in await press("t")

    drive(path, [make(1, thought), make(2, [{"role": "assistant", "content": thought}])], script)


@pytest.mark.parametrize(
    "text, says",
    [
        ("<think>a</think>b", [(True, "\u25b8 thinking, 16 characters; t unfolds\n"), (False, "b")]),
        ("<THINKING>a</thinking>b<reasoning>c</reasoning>d", ["thinking, 22", "b", "thinking, 24", "d"]),
        ("a</think>b", [(True, "\u25b8 thinking, 9 characters, never opened; t unfolds\n"), (False, "b")]),
        ("a<think>b", ["a", "thinking, 8 characters, never closed"]),
        ("<think>all", ["nothing else is said", "<think>all"]),  # there must be something to judge
        ("<think>a</think>b</think>c", ["thinking, 16", "b</think>c"]),  # a stray tag must not hide the answer
        ("<think>a</reasoning>b", ["never closed; nothing else", "a</reasoning>b"]),
        ("plain", [(False, "plain")]),
    ],
)
def test_what_is_thinking(text, says):
    pieces = fold(text, unfolded=False)
    assert len(pieces) == len(says)
    for piece, said in zip(pieces, says):
        assert piece == said if isinstance(said, tuple) else said in piece[1]
    assert "".join(piece for ours, piece in fold(text, unfolded=True) if not ours).replace("\n", "") == text


def test_a_long_prompt_starts_at_its_last_question(path):
    shots = [{"role": r, "content": f"SHOT {n} " * 20} for n in range(6) for r in ("user", "assistant")]
    chat = [{"role": "system", "content": "SYSTEM"}, *shots, {"role": "user", "content": "LAST question?"}]
    poem = "FIRST line\n" + "\n".join(f"line {n}" for n in range(50)) + "\nEND line"

    async def script(press):
        screen = await press()
        assert "p unfolds" in screen and "LAST question?" in screen and "SHOT" not in screen and "SYSTEM" not in screen
        assert "SYSTEM" in (screen := await press("p")) and "SHOT 0" in screen and "p folds" in screen
        assert "SYSTEM" not in await press("p")
        await press("p")
        screen = await press("1")  # folded again: else the next output would be off the screen
        assert (
            "FIRST line" in screen and "END line" in screen and "line 20" not in screen and "45 lines hidden" in screen
        )
        assert "The answer is 7." in screen

    drive(path, [make(1, prompt=chat), make(2, prompt=poem)], script)


def test_scrolling(path):
    async def script(press):
        screen = await press()
        assert "LINE 0." in screen and "more below" in screen
        assert "LINE 0." not in await press("j", "j", "j", "j", "j") and "LINE 0." in await press(
            "k", "up", "k", "k", "k"
        )
        for key in ("pagedown", "space"):
            assert "LINE 0." not in await press(key)
            assert "LINE 0." in await press("pageup", "home")
        screen = await press("end")
        assert "LINE 199." in screen and ", the end" in screen
        assert "LINE 0." in await press("1") and "2 of 2" in await press()  # the next one starts at its top

    long = "\n".join(f"LINE {n}." for n in range(200))
    drive(path, [make(1, long), make(2, long)], script)


def test_a_megabyte_shows_at_once(path):
    text = "BEGIN" + "x" * 1_000_000 + "[END] 42"

    async def script(press):
        start = time.perf_counter()
        screen = await press("1")
        assert time.perf_counter() - start < 5
        assert "BEGIN" in screen and "1,000,013 characters, cut" in screen
        assert "[END] 42" in await press("end")
        assert press.app.find("text").size.height < 300

    drive(path, [make(1), make(2, text)], script)


def test_the_middle_is_cut_and_the_hole_is_said():
    pieces = [(False, "a" * 50), (True, "fold\n"), (False, "b" * 100 + "END")]
    assert cut(pieces, 158) == pieces
    kept = cut(pieces, 40)
    (hole,) = [text for ours, text in kept if ours and "hidden" in text]
    assert "[118 of 158 characters hidden here, the end follows]" in hole
    rest = "".join(text for _, text in kept if text != hole)
    assert rest == "a" * 20 + "b" * 17 + "END"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.text("ab\n", max_size=30)), max_size=6), st.integers(0, 60))
def test_a_cut_keeps_both_ends(pieces, limit):
    text = "".join(piece for _, piece in pieces)
    kept = cut(pieces, limit)
    holes = [piece for ours, piece in kept if ours and "hidden here" in piece]
    rest = "".join(piece for _, piece in kept if piece not in holes)
    assert len(holes) == (len(text) > limit)
    assert rest == (text if not holes else text[: limit // 2] + text[len(text) - (limit - limit // 2) :])


@pytest.mark.parametrize("size", [(80, 24), (40, 15), (24, 10)])
def test_head_and_keys_stay_on_a_small_screen_and_a_resize_survives(path, size):
    async def script(press):
        for keys in ((), ("1",), ("n", "a", "enter"), ("2",), ("u",)):
            screen = await press(*keys)
            lines = screen.splitlines()
            assert " of 4" in lines[0] and "ADVISORY" in lines[1] and lines[-1].startswith("1 "), screen
            assert "The answer" in screen or size[1] < 12, screen
        await press("question_mark")
        await press.pilot.resize_terminal(60, 20)
        assert " of 4" in await press("q")
        await press.pilot.resize_terminal(*size)
        assert " of 4" in await press()

    drive(path, [make(n) for n in range(4)], script, size)


@pytest.mark.parametrize("kind", inspect_label.KINDS)
def test_who_is_no_person_is_told_each_time(path, kind):
    async def script(press):
        for keys in ((), ("1",), ("1",)):
            assert ("ADVISORY" in await press(*keys)) == (kind != "human")
        assert ("a person must read" in await press()) == (kind != "human")

    drive(path, [make(1), make(2)], script, kind=kind)


def test_no_color_leaves_text_to_read(path, monkeypatch):
    """textual 8.2.8 chooses its filter before the theme: black on black, were it not told at once."""
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(press):
        assert [type(one).__name__ for one in press.app._filters][1:] == ["NoColor"]
        for strip in press.app.screen._compositor.render_strips():
            for segment in strip:
                color, back = segment.style and segment.style.color, segment.style and segment.style.bgcolor
                assert not color or not back or color.is_default or color != back

    drive(path, [make(1)], script)


# Hostile texts.


def drives(text: str) -> list[str]:
    """Characters that a terminal would obey, or that show as nothing."""
    bad = [c for c in text if c != "\n" and c != "\u3000" and not c.isprintable()]
    return bad + [c for c in text if c in "\u3164\u2800\u115f\uffa0\u034f"]


@pytest.mark.parametrize("size", [(80, 24), (40, 15)])
def test_hostile_texts_stay_text(path, size):
    items = []
    for name, text in HOSTILE.items():
        items.append(make(name, text))
        if size[0] == 80:
            chat = [{"role": text, "content": text}, {"role": "assistant", "content": text}]
            more = {"prompt": text, "why": text, "rewards": {text: 0.0}, "reasons": {text: text}}
            items.append(make(f"{name} everywhere", chat, **more))

    async def script(press):
        screen = await press("end")
        for number, item in enumerate(items, start=1):
            assert not drives(screen), (item["id"], drives(screen))
            assert f"{number} of {len(items)}" in screen, item["id"]
            screen = await press("1")
            if size[0] == 80:
                assert not drives(await press("r")), item["id"]
                screen = await press("q")
        assert press.app.is_running and f"all {len(items)} judged" in await press()

    drive(path, items, script, size)
    assert len(labels_in(path)) == len(items)


def test_the_checker_of_hostile_texts_sees_them():
    harmless = {"script", "markup", "thinking", "tower", "leading mark"}
    assert {name for name, text in HOSTILE.items() if not drives(text)} == harmless


def test_markup_and_tags_are_shown_as_written(path):
    async def script(press):
        screen = await press()
        assert "[bold]x[/bold] [/] [link=http://a]b [@click=app.quit]c[/] :smile: [red" in screen
        assert "<script>alert(1)</script>" in await press("1")

    drive(path, [make(1, HOSTILE["markup"]), make(2, HOSTILE["script"])], script)


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters() | st.sampled_from("\x1b\u202e\u0301\u200b\ud800\x00 \n\ufe0f"), max_size=60))
def test_no_character_that_drives_a_terminal_gets_through(text):
    shown = "".join(piece for _, piece in visible(text))
    assert not drives(shown)
    tower = 0
    for char in shown:
        tower = tower + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        assert tower <= 4
    # What is plain stays what it was, in its order.
    plain = "".join(c for c in text.replace("\r\n", "\n").replace("\t", "    ") if " " <= c <= "~" or c == "\n")
    assert "".join(c for ours, part in visible(text) if not ours for c in part if " " <= c <= "~" or c == "\n") == plain


def test_messages_of_any_shape_are_text():
    odd = [
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}]},
        {"content": [{"type": "text", "text": "hi"}, {"type": "image"}, "x"], "reasoning_content": "hm"},
        {"role": "tool", "content": 42},
        "stray",
    ]
    assert [text for _, text in turns(odd)] == [
        '\ncalls add({"a": 1})',
        "<think>hm</think>\nhi\n(image: not shown)\nx",
        "42",
        "stray",
    ]
    assert turns(None) == [("", "")] and turns({"a": 1}) == [("", "{'a': 1}")]


@pytest.mark.parametrize("completion", ["", None, [], [{"role": "assistant", "content": None}]])
def test_an_empty_output_is_said(path, completion):
    async def script(press):
        assert "(empty)" in await press()

    drive(path, [make(1, completion, prompt=None)], script)


# The file.


def test_a_torn_last_line_is_skipped_and_the_next_write_starts_a_line(path, capsys):
    append_label(path, record(1))
    append_label(path, record(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    assert [line["id"] for line in read_labels(path)] == ["row-1"]
    assert f"{path}:2: a line torn by a crash" in capsys.readouterr().err
    append_label(path, record(3))
    assert path.read_bytes().startswith(whole[:-30])  # nothing is rewritten
    assert [line["id"] for line in read_labels(path)] == ["row-1", "row-3"]
    assert path.read_bytes().count(b"\n") == 3


def test_a_line_that_lost_only_its_break_counts(path):
    append_label(path, record(1))
    path.write_bytes(path.read_bytes()[:-1])
    assert len(read_labels(path)) == 1
    append_label(path, record(2))
    assert [line["id"] for line in read_labels(path)] == ["row-1", "row-2"]


@pytest.mark.parametrize(
    "line, says",
    [
        ("not json", "not JSON"),
        ('{"id": "row-9", "label"', "not JSON"),  # complete, for a line follows: no crash of ours leaves that
        ("[1]", "must hold an object"),
        ('"pass"', "must hold an object"),
        ("[" * 100_000, "not JSON"),
        (json.dumps({"id": "row-1", "label": "pass"}), "lacks note, labeller, kind, part, time"),
        (json.dumps(record(1, "maybe")), "unknown label 'maybe'; choose from pass, fail, unsure, undo"),
        (json.dumps(record(1, kind="person")), "unknown kind 'person'; choose from human, agent, synthetic"),
        (json.dumps(record(1, id=7)), "id must be text"),
    ],
)
def test_a_foreign_line_is_named(path, line, says):
    append_label(path, record(1))
    path.write_text(path.read_text() + line + "\n" + json.dumps(record(2)) + "\n")
    with pytest.raises(ValueError) as error:
        read_labels(path)
    assert str(error.value).startswith(f"{path}:2: ") and says in str(error.value)


def test_what_is_no_label_is_not_written(path):
    for bad in (record(1, "maybe"), record(1, kind="person"), {"id": "row-1"}, record(1, note=None)):
        with pytest.raises(ValueError):
            append_label(path, bad)
    assert not path.exists()


def test_bytes_that_are_no_text_and_a_byte_order_mark(path):
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(record(1)).encode() + b"\r\n\r\n")
    assert len(read_labels(path)) == 1
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(ValueError, match=r":1: not JSON"):
        read_labels(path)


def test_two_labellers_share_a_file(path):
    items = [make(n) for n in range(2)]

    async def ann(press):
        await press("1", "1")

    async def bob(press):
        assert "1 of 2" in await press()
        await press("2")
        await press("u")  # his own only
        await press("3")

    drive(path, items, ann)
    session = drive(path, items, bob, labeller="bob")
    assert session.counts() == {"labelled": 1, "left": 1, "pass": 0, "fail": 0, "unsure": 1}
    standing = [(line["labeller"], line["id"], line["label"]) for line in read_labels(path)]
    assert standing == [("ann", "row-0", "pass"), ("ann", "row-1", "pass"), ("bob", "row-0", "unsure")]


def test_two_processes_at_once_lose_nothing(path):
    code = "import sys, json, inspect_label\nfor n in range(60):\n inspect_label.append_label(sys.argv[1], {**json.loads(sys.argv[2]), 'id': str(n)})"
    path.write_bytes(b'{"id": "to')  # both find a torn line
    runs = [
        subprocess.Popen([sys.executable, "-c", code, str(path), json.dumps(record(labeller=name))], cwd=SCRIPTS)
        for name in ("ann", "bob")
    ]
    assert [run.wait(timeout=30) for run in runs] == [0, 0]
    assert len(read_labels(path)) == 120


def test_one_name_is_not_two_kinds(path):
    append_label(path, record(1, kind="human"))
    with pytest.raises(ValueError, match="'ann' has labels of kind human; take another name for agent"):
        Session([make(1)], path, "ann", "agent")
    Session([make(1)], path, "ann", "human")


@pytest.mark.parametrize(
    "items, labeller, kind, says",
    [
        ([], "ann", "human", "no items"),
        ([make(1), make(1)], "ann", "human", "two items have the id 'row-1'"),
        ([make(1, id=3)], "ann", "human", "the id 3 must be text"),
        ([make(1)], "ann", "person", "unknown kind 'person'"),
        ([make(1)], " ", "human", "needs the name"),
    ],
)
def test_bad_input_is_named(path, items, labeller, kind, says):
    with pytest.raises(ValueError, match=says):
        inspect_label.label(items, path, labeller, kind)


RECORDS = st.builds(
    record,
    st.integers(0, 3),
    st.sampled_from(["pass", "fail", "unsure", "undo"]),
    st.sampled_from(["ann", "bob", "\u2028\ud800"]),
    st.sampled_from(inspect_label.KINDS),
    note=st.text(max_size=8),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(RECORDS, st.none() | st.integers(0, 400)), max_size=12))
def test_no_complete_line_is_ever_lost(tmp_path_factory, steps):
    """Each step writes a label; a number crashes it that many bytes before its end."""
    path = tmp_path_factory.mktemp("p") / "labels.jsonl"
    expected = {}
    for line, crash in steps:
        before = path.stat().st_size if path.exists() else 0
        append_label(path, line)
        if crash is not None:  # what stood before the write stays
            content = path.read_bytes()
            path.write_bytes(content[: max(before, len(content) - crash)])
        if (crash or 0) > 1:  # 1: its line break only
            continue
        key = line["labeller"], line["id"]
        expected.pop(key, None)
        if line["label"] != "undo":
            expected[key] = line
    assert read_labels(path) == list(expected.values())


# What it needs.


def test_importing_it_imports_no_textual():
    code = "import sys, inspect_label; print([m for m in sys.modules if m.split('.')[0] in ('textual', 'rich')])"
    code += "; inspect_label.build_app(inspect_label.Session([{'id': 'a'}], 'x', 'b', 'human')); print('textual' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=SCRIPTS, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "True"]  # and the check sees textual where it is


def test_without_a_terminal_it_says_what_to_do(path):
    code = "import sys, inspect_label; inspect_label.label([{'id': 'a'}], sys.argv[1], 'b', 'human')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=SCRIPTS, stdin=-3, capture_output=True, text=True
    )
    *_, last = done.stderr.strip().splitlines()
    assert last.startswith("RuntimeError: label needs a terminal") and "CSV" in last
    assert not path.exists()


def test_without_textual_it_says_what_to_install(path, monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    for name in ("__stdin__", "__stdout__", "__stderr__"):
        monkeypatch.setattr(sys, name, Terminal())
    for name in [*(name for name in sys.modules if name.startswith("textual.")), "textual", "textual.app"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install textual"):
        inspect_label.label([make(1)], path, "ann", "human")


# The real program in a real terminal.

DRIVER = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import inspect_label
Path("pid").write_text(str(os.getpid()))
items = json.loads(Path("items.json").read_text())
Path("counts.json").write_text(json.dumps(inspect_label.label(items, Path("labels.jsonl"), "robot", "synthetic")))
"""


def wrong_in(records: list[dict], expected: list[tuple[str, str]]) -> str:
    """What is lost, doubled, in another order or of another kind."""
    if [(line["id"], line["label"]) for line in records] != expected:
        return "ids, order or labels differ"
    return "" if {line["kind"] for line in records} == {"synthetic"} else "kind"


def test_sixty_items_by_keys_with_a_kill_in_the_middle(tmp_path):
    if not shutil.which("tmux"):
        warnings.warn("tmux IS MISSING: that a killed labelling session loses nothing WAS NOT TESTED", stacklevel=1)
        pytest.skip("NOT TESTED: tmux is missing (apt-get install tmux)")
    path = tmp_path / "labels.jsonl"
    odd = ["ansi", "markup", "bidi", "nul", "wide", "tower", "script"]
    items = [make(n, HOSTILE[odd[n % 10]] if n % 10 < len(odd) else f"Output {n}") for n in range(60)]
    items[7]["completion"] = "y" * 1_000_000
    keys = ["1x3y2s"[n % 6] for n in range(60)]
    meaning = dict(zip("1y2x3s", ["pass", "pass", "fail", "fail", "unsure", "unsure"]))
    expected = [(item["id"], meaning[key]) for item, key in zip(items, keys)]
    (tmp_path / "items.json").write_text(json.dumps(items))
    (tmp_path / "driver.py").write_text(DRIVER)
    environment = {**os.environ, "PYTHONUTF8": "1", "TMUX_TMPDIR": str(tmp_path), "TERM": "xterm-256color"}
    environment.pop("TMUX", None)

    def tmux(*arguments):
        command = ["tmux", "-u", "-f", "/dev/null", "-L", "label", *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)

    def start():
        command = [sys.executable, "driver.py", str(SCRIPTS)]
        tmux("new-session", "-d", "-x", "80", "-y", "24", "-s", "label", *command)
        tmux("set", "-g", "remain-on-exit", "on")

    def wait_for(text, seconds=15):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            screen = tmux("capture-pane", "-p", "-t", "label").stdout
            if text in screen:
                return screen
            time.sleep(0.02)
        raise AssertionError(f"{text!r} did not show:\n{screen}")

    def title():
        return tmux("display-message", "-p", "-t", "label", "#{pane_title}").stdout.strip()

    def wait_for_the_end(seconds=15):
        deadline = time.monotonic() + seconds
        while tmux("display-message", "-p", "-t", "label", "#{pane_dead}").stdout.strip() != "1":
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def press(key):
        assert tmux("send-keys", "-t", "label", key).returncode == 0

    try:
        start()
        for number, key in enumerate(keys[:25], start=1):
            screen = wait_for(f"{number} of 60 ")
            assert "ADVISORY" in screen and f"PROMPT-{number - 1}" in screen
            assert path.read_bytes().count(b"\n") == number - 1  # what shows was preceded by what is on disk
            press(key)
        wait_for("26 of 60 ")
        press(keys[25])  # and killed at once: it is on disk, or it is asked again
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        wait_for_the_end()
        done = len(read_labels(path))
        assert done in (25, 26)
        with path.open("ab") as file:  # as a crash in the middle of a write leaves it
            file.write(b'{"id": "row-26", "lab')
        tmux("kill-session", "-t", "label")
        start()
        assert f"{done} judged before" in wait_for(f"{done + 1} of 60 ")
        for number in range(done + 1, 61):
            wait_for(f"{number} of 60 ")
            press(keys[number - 1])
        assert "a person must read" in wait_for("all 60 judged")
        assert title() != "title"  # an output tried to set it
        press("q")
        wait_for_the_end()
        tmux("respawn-pane", "-k", "-t", "label", "printf '\\033]0;title\\007'; sleep 9")
        deadline = time.monotonic() + 9
        while title() != "title":  # the check sees one that does
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        tmux("kill-server")
    records = read_labels(path)
    assert not wrong_in(records, expected)
    assert len({line["id"] for line in records}) == 60
    lines = [line for line in path.read_bytes().split(b"\n") if line and not line.endswith(inspect_label.TORN)]
    assert not wrong_in(list(map(json.loads, lines)), expected)  # no line was written twice
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert counts == {"labelled": 60, "left": 0, "pass": 20, "fail": 20, "unsure": 20}
    # The checker sees a lost, a doubled, a swapped and a mislabelled one, and one that claims a person.
    swapped = [records[1], records[0], *records[2:]]
    other = [{**records[0], "label": "unsure"}, *records[1:]]
    human = [{**records[0], "kind": "human"}, *records[1:]]
    for bad in (records[1:], [*records, records[0]], swapped, other, human, []):
        assert wrong_in(bad, expected)


def test_paid_is_above_what_the_scoring_said():
    item = {"id": "a", "part": "random", "why": "", "rewards": {"r": 1.0}, "reasons": {}, "total": 1.0}
    assert "PAID BUT JUDGED FAIL" in inspect_label.reveal(item, "fail", "")[0]
    assert "!!" not in inspect_label.reveal({**item, "pass_above": 1.5}, "fail", "")[0]
    assert "UNPAID BUT JUDGED PASS" in inspect_label.reveal({**item, "pass_above": 1.5}, "pass", "")[0]
