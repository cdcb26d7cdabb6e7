"""Labels read by a person, one output at a time, in a terminal (textual 8.2.8): behind `inspect_rewards.py label`.

The reward of an output is hidden until it has been judged, because a person who has seen it agrees with it. The file of
labels only grows: a judgement, a change of mind and an undo are one line each, on disk before the next output shows.
textual is imported by `label` and `build_app` only; `read_labels` and `append_label` need nothing.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import sys
import unicodedata
from pathlib import Path

LABELS = ("pass", "fail", "unsure")
KINDS = ("human", "agent", "synthetic")
FIELDS = ("id", "label", "note", "labeller", "kind", "part", "time")
TORN = b" #torn"  # closes what a crash left of a line; no line of ours ends so
SHOWN = 20_000  # characters of one output on the screen; what is more is cut from the middle, the answer stands last
PROMPT_FOLDS = 600  # a prompt longer than this, or than eight lines, starts folded
PAID_ABOVE = 0.0  # as --pass-above of `rewards.py score`

HELP = """\
1 y pass, 2 x fail, 3 s unsure: does the output do what the prompt asks?
n a note, saved with the judgement that follows
u undo: withdraws your last judgement and shows that output again
r the rewards and reasons of the output judged last, whole
t folds and unfolds thinking, also of the outputs that follow
p the same for a long prompt, of this output only
arrows, j k, space, page keys, home, end scroll
q leaves; every judgement is on disk, the next start goes on here

The reward shows after you have judged, below the next output. "!!" marks a disagreement: paid but judged fail, or \
unpaid but judged pass. Paid: the sum of the rewards is above what `score --pass-above` says.
Reversed signs such as \u241b or <U+202E> stand for characters that a terminal would obey or not show.
Only labels of kind human count for the gate; agent and synthetic ones are advisory.

q, escape, enter or ? closes this page."""


def _record(line: bytes) -> dict:
    """One label from its line, or ValueError that says what is wrong with it."""
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    if not isinstance(record, dict):
        raise ValueError(f"a line must hold an object, not {type(record).__name__}")
    _check(record)
    return record


def _check(record: dict) -> None:
    if missing := [key for key in FIELDS if key not in record]:
        raise ValueError(f"lacks {', '.join(missing)}")
    if odd := [key for key in FIELDS if not isinstance(record[key], str)]:
        raise ValueError(f"{', '.join(odd)} must be text")
    if record["label"] not in (*LABELS, "undo"):
        raise ValueError(f"unknown label {record['label']!r:.40}; choose from {', '.join(LABELS)}, undo")
    if record["kind"] not in KINDS:
        raise ValueError(f"unknown kind {record['kind']!r:.40}; choose from {', '.join(KINDS)}")


def read_labels(path: Path) -> list[dict]:
    """The labels that stand, in the order they were given: later ones replace earlier ones of the same labeller.

    A file that is not there holds none. What a crash left of a line is skipped, with a note on standard error; another
    line that is no label is a ValueError.
    """
    standing = {}
    try:
        lines = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except FileNotFoundError:
        return []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            if line.endswith(TORN):
                raise ValueError("torn")
            record = _record(line)
        except ValueError as error:
            if line.endswith(TORN) or number == len(lines):
                print(f"note: {path}:{number}: a line torn by a crash, skipped; its label is lost", file=sys.stderr)
                continue
            raise ValueError(f"{path}:{number}: {error}") from None
        key = record["labeller"], record["id"]
        standing.pop(key, None)  # so that the order is that of the last word
        if record["label"] != "undo":
            standing[key] = record
    return list(standing.values())


def append_label(path: Path, record: dict) -> None:
    """Adds one line, and returns when it is on disk. What a crash left of a line is closed first, never rewritten.

    ValueError: the record is no label, and nothing was written. OSError: it is not on disk.
    """
    _check(record)
    line = json.dumps(record).encode() + b"\n"
    is_new = not os.path.exists(path)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        # No lock: two who find the same torn line both close it, and what the second writes for that is skipped too.
        content = Path(path).read_bytes()
        last = content[content.rfind(b"\n") + 1 :]
        if last:
            try:
                _record(last.removeprefix(b"\xef\xbb\xbf"))
                line = b"\n" + line  # only its line break was lost
            except ValueError:
                line = TORN + b"\n" + line
        if (written := os.write(descriptor, line)) != len(line):
            raise OSError(f"{path}: {written} of {len(line)} bytes were written; is the disk full?")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new and os.name == "posix":  # the file's name is on disk when its folder is
        folder = os.open(Path(path).absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


# What is shown: pieces (ours, text), where `ours` says that this program wrote it and not the model.

_TAG = re.compile(r"<(/?)(think|thinking|reasoning)>", re.IGNORECASE)
# Letters, marks and symbols that show as nothing, though Python calls them printable.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def visible(text: str) -> list[tuple[bool, str]]:
    """Text of a model as pieces that no terminal obeys: whatever drives one or shows as nothing has a sign.

    Example:
        >>> visible("7\\x1b[31m\\u200b")
        [(False, '7'), (True, '\u241b'), (False, '[31m'), (True, '<U+200B>')]
    """
    pieces, plain, marks, last = [], [], 0, "\n"
    extra = 0  # marks not shown

    def sign(name: str) -> None:
        if plain:
            pieces.append((False, "".join(plain)))
            plain.clear()
        pieces.append((True, name))

    text = text.replace("\r\n", "\n").replace("\t", "    ")
    for match in re.finditer(r"(.)\1*", text, re.DOTALL):
        char, count = match[1], len(match[0])
        code, category = ord(char), unicodedata.category(char)
        times = f"\u00d7{count}" if count > 3 else ""
        if category in ("Mn", "Me") and not _BLANK.match(char):
            if last in "\n ":  # a mark with no letter would land on whatever stands before it
                plain.append("\u25cc")
            kept = min(count, max(0, 4 - marks))  # a tower of marks paints over the lines above
            plain.append(char * kept)
            marks, extra, last = marks + count, extra + count - kept, "m"
            continue
        if extra:
            sign(f"<+{extra} marks>")
        marks, extra, last = 0, 0, char
        if char in "\n\u3000" or (char.isprintable() and not _BLANK.match(char)):
            plain.append(match[0])
        elif char in "\ufe0e\ufe0f" and count == 1 and plain and plain[-1] > "\u2000":
            continue  # how an emoji is drawn; terminals disagree on its width
        elif code < 32 or code == 127:
            sign((chr(0x2400 + code) if code < 32 else "\u2421") * (1 if times else count) + times)
        elif category == "Zs":
            sign("\u237d" * (1 if times else count) + times)
        else:
            sign(f"<U+{code:04X}{times}>" if times else f"<U+{code:04X}>" * count)
    sign(f"<+{extra} marks>" if extra else "")
    return [piece for piece in pieces if piece[1]]


def fold(text: str, unfolded: bool) -> list[tuple[bool, str]]:
    """A model's text as pieces with its thinking folded, unless it says nothing besides.

    As in `rewards.visible_text` a block never closed takes the rest, and a closing tag that comes first all before it.
    """
    blocks, start, opened = [], 0, None  # blocks: (is thinking, text, what is odd about it)
    for tag in _TAG.finditer(text):
        closing, name = tag[1], tag[2].lower()
        if not closing and opened is None:
            blocks.append((False, text[start : tag.start()], ""))
            start, opened = tag.start(), name
        elif closing and (name == opened or not blocks):
            blocks.append((True, text[start : tag.end()], "" if opened else ", never opened"))
            start, opened = tag.end(), None
    blocks.append((opened is not None, text[start:], ", never closed" if opened else ""))
    says = any(block.strip() for thinking, block, _ in blocks if not thinking)
    pieces = []
    for thinking, block, odd in blocks:
        if thinking and says and not unfolded:
            pieces.append((True, f"\u25b8 thinking, {len(block):,} characters{odd}; t unfolds\n"))
        elif thinking:  # a person must have something to judge
            pieces.append((True, f"\u25be thinking{odd}; {'t folds' if says else 'nothing else is said'}\n"))
            pieces.append((False, block if block.endswith("\n") else block + "\n"))
        else:
            pieces.append((False, block.lstrip("\n") if pieces else block))
    return [(ours, block) for ours, block in pieces if block]


def turns(messages) -> list[tuple[str, str]]:
    """Role and text of each message; reasoning kept beside the text goes back into it, parts and calls are named."""
    if not isinstance(messages, list):
        return [("", "" if messages is None else str(messages))]
    found = []
    for message in messages:
        if not isinstance(message, dict):
            found.append(("?", str(message)))
            continue
        content = message.get("content")
        if isinstance(content, list):
            parts = [part if isinstance(part, dict) else {"text": str(part)} for part in content]
            content = "\n".join(str(part.get("text") or f"({part.get('type')}: not shown)") for part in parts)
        text = "" if content is None else str(content)
        if message.get("reasoning_content"):
            text = f"<think>{message['reasoning_content']}</think>\n{text}"
        for call in message.get("tool_calls") or ():
            made = (call.get("function") or call) if isinstance(call, dict) else {"name": call}
            text += f"\ncalls {made.get('name')}({json.dumps(made.get('arguments'), default=str)})"
        found.append((str(message.get("role", "assistant")), text))
    return found


def cut(pieces: list[tuple[bool, str]], limit: int) -> list[tuple[bool, str]]:
    """The beginning and the end of what is longer than `limit`, with a line that says how much is between them."""
    total = sum(len(text) for _, text in pieces)
    if total <= limit:
        return pieces
    begin, end, at, kept = limit // 2, total - (limit - limit // 2), 0, []
    for ours, text in pieces:
        kept.append((ours, text[: max(0, begin - at)]))
        if at <= begin < at + len(text):
            kept.append((True, f"\n[{end - begin:,} of {total:,} characters hidden here, the end follows]\n"))
        kept.append((ours, text[max(0, end - at, begin - at) :]))
        at += len(text)
    return [(ours, text) for ours, text in kept if text]


def one_line(text: str) -> str:
    return "".join(piece for _, piece in visible(" ".join(str(text).split())))


def reveal(item: dict, label: str, note: str) -> tuple[str, str]:
    """What an item was paid beside its label: a line, and the details."""
    total = item.get("total")
    paid = None if total is None else total > item.get("pass_above", PAID_ABOVE)
    odd = {("fail", True): "PAID BUT JUDGED FAIL", ("pass", False): "UNPAID BUT JUDGED PASS"}.get((label, paid))
    said = "not scored" if total is None else f"reward {total:.3g}"
    head = f"last: {said} !! {odd}" if odd else f"last: judged {label}, {said}"
    lines = []
    for name, value in item.get("rewards", {}).items():
        reason = one_line(item.get("reasons", {}).get(name) or "")
        lines.append(f"{one_line(name)} {'none' if value is None else format(value, '.3g')} {reason}".strip())
    why = one_line(item.get("why") or "")
    lines += [f"{item.get('part', '')}: {why}" if why else str(item.get("part", ""))]
    lines += [f"note: {one_line(note)}"] if note else []
    return head, "\n".join(lines)


class Session:
    """Which item shows, what was judged, what is on disk; no screen."""

    def __init__(self, items: list[dict], path: Path, labeller: str, kind: str):
        ids = [item["id"] for item in items]
        if not items:
            raise ValueError("no items to label")
        if odd := [one for one in ids if not isinstance(one, str)]:
            raise ValueError(f"the id {odd[0]!r} must be text")
        if len(set(ids)) < len(ids):
            raise ValueError(f"two items have the id {next(one for one in ids if ids.count(one) > 1)!r}")
        if kind not in KINDS:
            raise ValueError(f"unknown kind {kind!r}; choose from {', '.join(KINDS)}")
        if not labeller.strip():
            raise ValueError("a label needs the name of who gives it")
        mine = [record for record in read_labels(path) if record["labeller"] == labeller]
        if others := {record["kind"] for record in mine} - {kind}:
            # One name for both would let an advisory label replace a person's, or a person's skip what nobody read.
            raise ValueError(f"{path}: {labeller!r} has labels of kind {others.pop()}; take another name for {kind}")
        self.items = {item["id"]: item for item in items}
        self.path, self.labeller, self.kind = path, labeller, kind
        self.done = {record["id"]: record for record in mine if record["id"] in self.items}  # in the order judged
        self.queue = [item for item in items if item["id"] not in self.done]
        self.resumed = len(self.done)

    @property
    def item(self) -> dict | None:
        return self.queue[0] if self.queue else None

    def _write(self, item: dict, label: str, note: str = "") -> dict:
        time = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        values = (item["id"], label, note, self.labeller, self.kind, str(item.get("part", "")), time)
        record = dict(zip(FIELDS, values))
        append_label(self.path, record)
        return record

    def judge(self, label: str, note: str) -> None:
        self.done[self.item["id"]] = self._write(self.item, label, note)
        self.queue.pop(0)

    def undo(self) -> dict | None:
        """Withdraws the last judgement and puts its item first; its record, or None where there is none."""
        if not self.done:
            return None
        identity = next(reversed(self.done))
        self._write(self.items[identity], "undo")
        self.queue.insert(0, self.items[identity])
        return self.done.pop(identity)

    def counts(self) -> dict:
        given = [record["label"] for record in self.done.values()]
        return {"labelled": len(given), "left": len(self.queue)} | {label: given.count(label) for label in LABELS}


def _bindings(keys: str) -> list[tuple[str, str, str]]:
    return [(*line.split(), "") for line in keys.strip().splitlines()]


MOVES = _bindings("""
    down,j app.move('down')
    up,k app.move('up')
    pagedown,space app.move('page_down')
    pageup app.move('page_up')
    home app.move('home')
    end app.move('end')
""")
KEYS = _bindings("""
    1,y judge('pass')
    2,x judge('fail')
    3,s judge('unsure')
    n note
    u undo
    t thinking
    p prompt
    r reasons
    question_mark help
    q,ctrl+c quit
    escape no_note
""")


def build_app(session: Session):
    """The textual App over a session; a function, so that importing this module does not import textual."""
    from rich.text import Text
    from textual.app import App
    from textual.containers import VerticalScroll
    from textual.screen import ModalScreen
    from textual.widgets import Input, Static

    def styled(pieces: list[tuple[bool, str]]) -> Text:
        """Model text never becomes markup: Text takes it as it is."""
        text = Text(no_wrap=False, overflow="fold")
        for ours, piece in pieces:
            if ours:
                text.append(piece, "bold")
            else:
                for is_sign, part in visible(piece):
                    text.append(part, "reverse" if is_sign else "")
        return text

    class Sheet(ModalScreen):
        """A page over everything: the help, or all reasons."""

        CSS = "Sheet VerticalScroll { scrollbar-size: 0 0; padding: 0 1; background: ansi_default; }"
        BINDINGS = [("q,escape,enter,question_mark,r", "dismiss", ""), *MOVES]  # noqa: RUF012

        def __init__(self, text: str):
            super().__init__()
            self.text = text

        def compose(self):
            with VerticalScroll(id="body"):
                yield Static(Text(self.text), markup=False)

    class Labeller(App):
        ENABLE_COMMAND_PALETTE = False
        CSS = """
        Screen { background: ansi_default; }
        Static { height: auto; }
        #head, #keys { text-style: reverse; }
        #body { height: 1fr; scrollbar-size: 0 0; padding: 0 1; }
        #where { height: 1; text-align: right; }
        #last { max-height: 4; }
        #note { border: none; height: 1; padding: 0; }
        """
        BINDINGS = [*KEYS, *MOVES]  # noqa: RUF012

        def compose(self):
            for name in ("head", "advisory"):
                yield Static(id=name, markup=False)
            with VerticalScroll(id="body"):
                yield Static(id="text", markup=False)
            for name in ("where", "last", "said"):
                yield Static(id=name, markup=False)
            yield Input(id="note", compact=True, placeholder="note, then enter (escape: none)")
            yield Static(id="keys", markup=False)

        def on_mount(self) -> None:
            self.theme = "ansi-dark"  # the terminal's own colours
            self.unfolded = self.prompt_open = False
            self.last, self.message, self.note, self.warned = None, "", "", False
            self.animation_level = "none"
            if session.resumed:
                self.message = f"{session.resumed} judged before; u goes back to the last"
            self.find("note").display = False
            self.watch(self.find("body"), "scroll_y", self.show_where, init=False)
            self.show()

        def on_resize(self) -> None:
            self.call_after_refresh(self.show)

        def show(self, fresh: bool = False) -> None:
            """Fills the screen for the item in turn; `fresh` when it was not the one on the screen."""
            item, width, total = session.item, self.size.width, len(session.items)
            if fresh:
                self.prompt_open = False  # thinking stays as it was: who reads it reads all of it
            place = f"{len(session.done) + 1} of {total}" if item else f"all {total} judged"
            self.put("head", f"{place} \u00b7 {one_line(session.labeller)[:24]} \u00b7 {session.kind}")
            advisory = f"ADVISORY: {session.kind} labels do not count for the gate"
            advisory = advisory if len(advisory) <= width else f"ADVISORY ({session.kind}): not for the gate"
            self.put("advisory", advisory if session.kind != "human" else "")
            self.find("text").update(self.page(item) if item else self.farewell())
            self.show_last(width)
            self.put("said", self.message)
            wide = "1 pass 2 fail 3 unsure n note u undo t thinking p prompt r reasons ? help q quit"
            wide = "enter keeps the note, escape leaves it" if self.find("note").display else wide
            keys = (wide, "1 pass 2 fail 3 unsure n u t p r ? q", "1 2 3 n u t p r ? q")
            self.put("keys", next((line for line in keys if len(line) <= width), keys[-1]))
            if fresh:
                self.find("body").scroll_home(animate=False)
            self.call_after_refresh(self.show_where)

        def find(self, name: str):
            return self.screen_stack[0].query_one(f"#{name}")  # a help page may lie above it

        def put(self, name: str, text: str) -> None:
            widget = self.find(name)
            widget.update(Text(text))
            widget.display = bool(text)

        def page(self, item: dict) -> Text:
            def rule(name: str) -> tuple[bool, str]:
                return True, f"\u2500\u2500 {name} ".ljust(min(60, self.size.width - 2), "\u2500") + "\n"

            pieces, messages = [rule("prompt")], turns(item.get("prompt"))
            size, most = sum(len(text) for _, text in messages), min(PROMPT_FOLDS, 6 * self.size.width)
            is_long = size > most or sum(text.count("\n") + 1 for _, text in messages) > 8
            if not is_long or self.prompt_open:
                prompt = []
                for role, text in messages:
                    prompt += [(True, f"{one_line(role)}: ")] if role and len(messages) > 1 else []
                    prompt.append((False, text.strip("\n") + "\n"))
                pieces += [(True, "\u25be p folds\n")] if is_long else [] if size else [(True, "(none)")]
                pieces += cut(prompt, SHOWN)
            else:
                asked = [text for role, text in messages if role in ("user", "")] or [messages[-1][1]]
                part = ", its last question:" if len(messages) > 1 else ""
                pieces.append((True, f"\u25b8 prompt, {size:,} characters; p unfolds{part}\n"))
                lines = asked[-1].strip("\n").split("\n")
                first, rest = "\n".join(lines[:-5][:2]), "\n".join(lines[-5:])
                hidden = f"\n[{len(lines) - 7} lines hidden here]\n" if len(lines) > 7 else "\n" if first else ""
                pieces += [*cut([(False, first), (True, hidden), (False, rest)], most), (False, "\n")]
            output, messages = [], turns(item.get("completion"))
            for role, text in messages:
                folded = fold(text, self.unfolded) if role in ("", "assistant") else [(False, text)]
                output += [(True, f"{one_line(role)}: ")] if len(messages) > 1 else []
                output += [*folded, (False, "\n")] if len(messages) > 1 else folded
            if not any(text.strip() for _, text in output):
                output = [(True, "(empty)" if not output else f"(only {sum(len(t) for _, t in output)} blanks)")]
            size = sum(len(text) for _, text in output)
            pieces.append(rule(f"output, {size:,} characters, cut" if size > SHOWN else "output"))
            return styled(pieces + cut(output, SHOWN))

        def farewell(self) -> Text:
            counts = session.counts()
            lines = [f"All {counts['labelled']} are judged and on disk."]
            lines += [", ".join(f"{counts[label]} {label}" for label in LABELS)]
            if session.kind != "human":
                lines += [f"Kind {session.kind}: advisory, they do not open the gate; a person must read."]
            return Text("\n".join([*lines, "", "q leaves, u goes back to the last."]))

        def show_last(self, width: int) -> None:
            """What the output before was paid: this is the first time that its reward shows."""
            if not self.last:
                return self.put("last", "")
            head, details = reveal(*self.last)
            text = Text(head, style="bold" if "!!" in head else "")
            if self.size.height >= 20:
                line = Text(details.replace("\n", "; "))
                line.truncate(2 * width - 4, overflow="ellipsis")
                text = text + Text("\n") + line
            self.find("last").update(text)
            self.find("last").display = True

        def show_where(self) -> None:
            body = self.find("body")
            height, first = body.virtual_size.height, int(body.scroll_y)
            end = min(height, first + body.size.height)
            more = ", more below" if end < height else ", the end" if first else ""
            self.put("where", f"lines {first + 1}-{end} of {height}{more}" if height > body.size.height else " ")

        def judge_or_say(self, action) -> bool:
            """Goes on only when the line is on disk."""
            try:
                action()
            except OSError as error:
                self.message = f"NOT SAVED, judge again: {error.strerror or error}"
                self.show()
                return False
            self.message = ""
            return True

        def action_judge(self, label: str) -> None:
            item, note = session.item, self.note
            if item and self.judge_or_say(lambda: session.judge(label, note)):
                self.last, self.note = (item, label, note), ""
                self.show(fresh=True)

        def action_undo(self) -> None:
            if not session.done:
                self.message = "nothing to undo"
                return self.show()
            back = []
            if self.judge_or_say(lambda: back.append(session.undo())):
                self.note, self.last = back[0]["note"], None
                self.message = f"withdrawn: {back[0]['label']}; judge again"
                self.message += f"; note: {one_line(self.note)}" if self.note else ""
                self.show(fresh=True)

        def action_note(self) -> None:
            if session.item:
                box = self.find("note")
                box.value, box.display = one_line(self.note), True
                box.focus()
                self.show()

        def on_input_changed(self, event) -> None:
            """What is pasted may come from a model too."""
            clean = "".join(piece for _, piece in visible(event.value))
            if clean != event.value:
                event.input.value = clean

        def on_input_submitted(self, event) -> None:
            self.note, self.warned = event.value.strip(), False
            self.message = f"note: {one_line(self.note)}" if self.note else ""
            self.action_no_note()

        def action_no_note(self) -> None:
            self.find("note").display = False
            self.find("body").focus()
            self.show()

        def action_thinking(self) -> None:
            self.unfolded = not self.unfolded
            self.show()

        def action_prompt(self) -> None:
            self.prompt_open = not self.prompt_open
            self.show()

        def action_reasons(self) -> None:
            if self.last:
                self.push_screen(Sheet("\n".join(reveal(*self.last)) + "\n\nq closes"))

        def action_help(self) -> None:
            self.push_screen(Sheet(HELP))

        def action_move(self, where: str) -> None:
            getattr(self.screen.query_one("#body"), f"scroll_{where}")(animate=False)

        async def action_quit(self) -> None:
            if self.note and session.item and not self.warned:
                self.warned, self.message = True, "the note belongs to no judgement yet; q again drops it"
                return self.show()
            self.exit()

    return Labeller(ansi_color=True)  # before the theme, or NO_COLOR would make it black on black


def label(items: list[dict], path: Path, labeller: str, kind: str) -> dict:
    """Shows the items that `labeller` has not judged yet, until all are judged or the person leaves.

    Args:
        items (`list[dict]`): in the order to show, with `id`, `part`, `why`, `prompt`, `completion`, `rewards`,
            `reasons` and `total`.
        path (`Path`): `labels.jsonl`, only ever appended to.
        labeller (`str`): who judges; labels of others in the file change nothing.
        kind (`str`): `human`, `agent` or `synthetic`.

    Returns:
        `dict`: of these items `labelled` and `left`, and how many stand as `pass`, `fail` and `unsure`.

    Raises:
        ValueError: no items, an id twice, an unknown kind, a file that holds no labels, or a labeller of another kind.
        RuntimeError: no terminal.
        ImportError: no textual.
        OSError: the file cannot be written.
    """
    session = Session(items, Path(path), labeller, kind)
    if not all(stream and stream.isatty() for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__)):
        # textual draws on standard error
        raise RuntimeError(
            "label needs a terminal on stdin, stdout and stderr (over SSH: ssh -t); without one fill the label column "
            "of the CSV file"
        )
    try:
        app = build_app(session)
    except ImportError as error:
        if not (error.name or "").startswith(("textual", "rich")):
            raise
        raise ImportError("label needs textual: pip install textual") from None
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644))  # better now than after the first reading
    app.run(mouse=False)  # so that the terminal can still select text
    return session.counts()
