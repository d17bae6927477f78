"""What would run, as blocks of visible text, and how much of it fits on a card.

Everything the digest covers becomes a block or a fact of the card: nothing that runs stays unshown.
"""

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gateway.models import Kind
from gateway.records import Record
from gateway.visible import Segment, Visible, visible
from gateway.wire import JsonObject

CARD_LINES = 120  # what a card shows of all blocks together
CARD_CHARS = 20_000
DIFF_CONTEXT = 3  # unchanged lines around a change
_FORMATS = {"command": "shell", "cmd": "shell", "script": "shell", "diff": "diff", "patch": "diff"}

Line = str | list[list[str | bool]]  # plain text, or segments of [text, is an escape]


@dataclass(frozen=True, slots=True)
class Block:
    """A labelled piece of exact text. `format` is shell, json, diff or text."""

    label: str
    format: str
    text: str


@dataclass(frozen=True, slots=True)
class Shown:
    """Blocks as the page gets them, and how much of the whole they are."""

    blocks: list[JsonObject]
    lines: int
    total_lines: int
    total_chars: int
    hidden: bool
    mixed_script: bool

    @property
    def long(self) -> bool:
        """Whether the whole is more than a card shows."""
        return self.total_lines > CARD_LINES or self.total_chars > CARD_CHARS


def blocks_of(record: Record) -> Iterator[Block]:
    """Return all that would run: arguments, payload, changed environment and bound files."""
    rest = dict(record.arguments)
    for name, value in record.arguments.items():
        if isinstance(value, str) and _stands_alone(record.request.kind, name, value):
            yield Block(name, _FORMATS.get(name, "text"), value)
            del rest[name]
    if rest or not record.arguments:
        yield Block("arguments", "json", pretty(rest))
    if record.request.payload is not None:
        yield Block("payload", "json", pretty(record.request.payload))
    context = record.request.context
    if context.env:
        yield Block("changed environment", "json", pretty(context.env))
    if context.files:
        yield Block("files and their SHA-256", "json", pretty(context.files))


def shown(blocks: Iterator[Block], *, full: bool) -> Shown:
    """Return the blocks as far as they fit on a card, or in full."""
    seen = [(block, visible(block.text)) for block in blocks]
    lines_left = CARD_LINES if not full else sum(len(text.lines()) for _, text in seen)
    chars_left = CARD_CHARS if not full else sum(len(text.text) for _, text in seen)
    made: list[JsonObject] = []
    lines = total_lines = total_chars = 0
    for block, text in seen:
        every = text.lines()
        fitting = list(_fitting(every, lines_left, chars_left))
        lines_left -= len(fitting)
        chars_left -= sum(len(part) for line in fitting for part, _ in line)
        lines += len(fitting)
        total_lines += len(every)
        total_chars += len(text.text)
        made.append(
            {
                "label": shown_text(block.label),
                "format": block.format,
                "lines": [shown_line(line) for line in fitting],
                "total": len(every),
            }
        )
    return Shown(
        made,
        lines,
        total_lines,
        total_chars,
        any(text.hidden for _, text in seen),
        any(text.mixed_script for _, text in seen),
    )


def changes(before: str, after: str) -> list[list[str | Line]]:
    """Return a diff as rows of [sign, line]; the sign is `+`, `-`, a space, or `@` for a gap."""
    old, new = before.split("\n"), after.split("\n")
    rows: list[list[str | Line]] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=True)
    for number, group in enumerate(matcher.get_grouped_opcodes(DIFF_CONTEXT)):
        if number or group[0][1]:
            rows.append(["@", "…"])
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                rows.extend([" ", shown_text(line)] for line in old[old_from:old_to])
                continue
            rows.extend(["-", shown_text(line)] for line in old[old_from:old_to])
            rows.extend(["+", shown_text(line)] for line in new[new_from:new_to])
    return rows


def headline(record: Record) -> Line:
    """Return the start of what would run, for a row of the list."""
    if record.request.questions:
        return shown_text(record.request.questions[0].text[:HEADLINE_CHARS])
    first = next(blocks_of(record)).text
    if record.request.kind is not Kind.COMMAND and not _FORMATS.keys() & record.arguments.keys():
        first = json.dumps(record.arguments, ensure_ascii=False)
    return shown_text(first[:HEADLINE_CHARS])


HEADLINE_CHARS = 240


def pretty(value: Any) -> str:
    """Return JSON for people: every value, two spaces a level."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def shown_text(text: str) -> Line:
    """Return text with everything that deceives the eye made visible."""
    return shown_line(visible(text).segments)


def shown_line(segments: tuple[Segment, ...]) -> Line:
    """Return segments in the shape that the page reads."""
    if not any(escape for _, escape in segments):
        return "".join(text for text, _ in segments)
    return [[text, escape] for text, escape in segments]


def flags(*texts: str) -> tuple[bool, bool]:
    """Return whether any of the texts hides something, and whether any mixes scripts."""
    seen: list[Visible] = [visible(text) for text in texts]
    return any(text.hidden for text in seen), any(text.mixed_script for text in seen)


def _stands_alone(kind: Kind, name: str, value: str) -> bool:
    return "\n" in value or (name in _FORMATS and (kind is Kind.COMMAND or len(value) > 0))


def _fitting(
    lines: list[tuple[Segment, ...]], lines_left: int, chars_left: int
) -> Iterator[tuple[Segment, ...]]:
    for line in lines[: max(0, lines_left)]:
        length = sum(len(text) for text, _ in line)
        if length > chars_left:
            if chars_left > 0:
                yield _start(line, chars_left)
            return
        chars_left -= length
        yield line


def _start(line: tuple[Segment, ...], chars: int) -> tuple[Segment, ...]:
    kept: list[Segment] = []
    for text, escape in line:
        if chars <= 0:
            break
        kept.append((text if escape else text[:chars], escape))
        chars -= len(text)
    return tuple(kept)
