"""Convert a call into labelled blocks of readable text. Start reading at `blocks_of`.

Everything that the digest covers becomes a block, so nothing that runs is left out. When a card is
built, the gateway records whether all blocks fit, and each click checks that. Large calls are
rendered in a thread, so that the event loop can answer taps meanwhile.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gateway.domain.argument_order import part_long_members, put_short_first, weigh
from gateway.domain.plans import plan_of
from gateway.domain.records import StoredRequest
from gateway.domain.redaction import find_known, list_known, render_safe, start_of
from gateway.domain.safe_text import Segment, Visible
from gateway.models import KIND_WORDS, Kind
from gateway.wire.codec import plain

# Splits a long text into pages. Each has as much as the platform can show whole. The platform's
# renderer measures that, because only it knows what it escapes and how it counts.
#
# The pages together are the text. None is empty, each heading is on the page of its text, and no
# page ends inside an escape, a mask or a composed character.

Fits = Callable[[str], bool]

_GUESS = 1000  # characters; where the search for the end of a page begins
_MOST_CLINGING = 32  # characters drawn as one; joined emoji have no length limit
_ZERO_WIDTH_JOINER = "\u200d"
_CLINGING = frozenset({"Mn", "Mc", "Me", "Cf"})
_SKIN = range(0x1F3FB, 0x1F400)
_HALF_FLAGS = range(0x1F1E6, 0x1F200)


def paginate(
    segments: Sequence[Segment], headings: Mapping[int, int], fits: Fits
) -> list[tuple[Segment, ...]]:
    """Split segments into pages; `headings` maps the end of each heading to its start.

    `fits` returns whether a page with this text is shown whole. If a part does not fit even alone,
    it gets its own page, and the caller finds that this page does not fit.
    """
    text = "".join(part for part, _ in segments)
    ends = list(_ends(text, headings, fits))
    return list(_slice(segments, ends))


def _ends(text: str, headings: Mapping[int, int], fits: Fits) -> Iterator[int]:
    inked = len(text.rstrip())
    at = 0
    while at < len(text):
        reach = _reach(text, at, fits)
        end = reach if reach == len(text) else _break(text, at, reach, headings)
        if end < len(text) and end >= inked > at + 1:
            end = _unit_start(text, at, inked - 1)  # the last page is not blank
        at = end if end > at else _unit_end(text, at, reach)
        yield at


def _reach(text: str, at: int, fits: Fits) -> int:
    """Return the end of the longest page that begins at `at`, or `at` if nothing fits."""
    low, high = at, min(len(text), at + _GUESS)
    while fits(text[at:high]):
        if high == len(text):
            return high
        low, high = high, min(len(text), at + 2 * (high - at))
    while high - low > 1:
        middle = (low + high) // 2
        if fits(text[at:middle]):
            low = middle
        else:
            high = middle
    return low


def _break(text: str, at: int, reach: int, headings: Mapping[int, int]) -> int:
    """Return the end of the page: after a line if the page is then half full, else inside the
    line."""
    line = text.rfind("\n", at, reach) + 1
    line = headings.get(line, line)
    if line > at and 2 * (line - at) >= reach - at:
        return line
    return _unit_start(text, at, reach)


def _unit_start(text: str, at: int, end: int) -> int:
    """Return the last position up to `end` that is not inside an escape or a composed character."""
    opened = text.rfind("⟨", at, end)
    if opened > text.rfind("⟩", at, end):
        end = opened
    first = max(at, end - _MOST_CLINGING)
    place = end
    while place > first and _clings(text, at, place):
        place -= 1
    return place if place > first or first == at else end


def _unit_end(text: str, at: int, reach: int) -> int:
    if text[at] == "⟨":
        return text.find("⟩", at) + 1 or len(text)
    return max(reach, at + 1)


def _clings(text: str, begin: int, at: int) -> bool:
    """Whether a character is drawn together with the one before it. The page begins at `begin`."""
    char, before = text[at], text[at - 1]
    if char.isascii():
        return False
    if before == _ZERO_WIDTH_JOINER or ord(char) in _SKIN:
        return True
    if ord(char) in _HALF_FLAGS:
        start = at
        while start > begin and ord(text[start - 1]) in _HALF_FLAGS:
            start -= 1
        return (at - start) % 2 == 1
    return unicodedata.category(char) in _CLINGING


def _slice(segments: Sequence[Segment], ends: Sequence[int]) -> Iterator[tuple[Segment, ...]]:
    left = list(reversed(segments))
    done = 0
    for end in ends:
        page: list[Segment] = []
        while done < end:
            part, escape = left.pop()
            if len(part) > end - done:
                left.append((part[end - done :], escape))
                part = part[: end - done]
            page.append((part, escape))
            done += len(part)
        yield tuple(page)


DIFF_CONTEXT = 3  # unchanged lines around a change
LABEL_CHARS = 60  # every platform has room for these, even if it escapes many
_NAME_CHARS = 60  # the same for a name with its quotes
_ARGUMENT_CHARS = 50  # the same for an argument's name in a label
_SHORT_CALL = 80  # characters: shorter arguments of a planned call are on its line
_BEGINNINGS = (45, 20, 4)  # characters of a longer name; four fit however they are escaped
FORMATS = {"command": "shell", "cmd": "shell", "script": "shell", "diff": "diff", "patch": "diff"}


@dataclass(frozen=True, slots=True)
class Block:
    """A text with a label. `format` is shell, diff, json or text.

    The end of `text` may be cut off; `lines` and `chars` count the whole text.
    """

    label: str
    format: str
    text: Visible
    lines: int
    chars: int


@dataclass(frozen=True, slots=True)
class Change:
    """One row of a diff. `sign` is +, -, a space, or @ for a gap."""

    sign: str
    text: Visible


def blocks_of(record: StoredRequest, *, reveal: bool = False) -> list[Block]:
    """Return the whole call in reading order: arguments, payload, changed environment variables,
    and files whose content is fixed. Long names of the tool, host and folder follow."""
    texts = [*_list_names(record), *texts_of(record)]
    texts.sort(key=lambda one: weigh(one[2]))
    return [_block(record, label, kind, text, reveal) for label, kind, text in texts]


def quote_name(name: str, *, reveal: bool = False) -> Visible:
    """Return a name that an agent chose, quoted as in JSON, so that it cannot imitate the gateway's
    words."""
    return render_safe(json.dumps(name, ensure_ascii=False), reveal=reveal)


def call_name(name: str, *, reveal: bool = False) -> Visible:
    """Return a name for titles and facts. A long name is shortened here, but is whole in
    `blocks_of`."""
    whole = quote_name(name, reveal=reveal)
    if not _long(name):
        return whole
    begun = (quote_name(start_of(name, most), reveal=reveal) for most in _BEGINNINGS)
    shown = next(one for one in begun if len(one.text) <= _NAME_CHARS)
    return Visible((*shown.segments, ("…", False)), whole.hidden, whole.mixed_script, shown.masked)


def _list_names(record: StoredRequest) -> list[tuple[str, str, str]]:
    """Return the names of the tool, host and folder that titles and facts shorten."""
    context = record.request.context
    named = (("tool", record.request.tool), ("host", context.host), ("folder", context.cwd))
    return [(f"name of the {what}", "text", text) for what, text in named if text and _long(text)]


def _long(name: str, most: int = _NAME_CHARS) -> bool:
    """Whether some platform would shorten this name on a line."""
    return len(quote_name(name).text) > most


def warnings(record: StoredRequest) -> tuple[Visible, ...]:
    """Return the guardrails' findings, each with the place where it was found; paths in them are
    quoted."""
    return tuple(record.show(f"Guardrail: {finding}") for finding in record.located_findings)


def short_warnings(record: StoredRequest, blocks: Sequence[Block]) -> tuple[Visible, ...]:
    """Return the guardrails' findings, without their places if the call has only one block."""
    only = blocks[0].label if len(blocks) == 1 else ""
    places = (*record.finding_places, *("" for _ in record.findings))
    found = zip(record.findings, places, record.located_findings, strict=False)
    return tuple(record.show(words if place == only else sign) for words, place, sign in found)


def why_asked(record: StoredRequest) -> Visible | None:
    """Return why no grant or rule covered a pending request, as a sentence, or None."""
    said = "" if record.final else record.asks_because
    return record.show(said[:1].upper() + said[1:]) if said else None


def cut(blocks: Iterable[Block], *, lines: int, chars: int) -> list[Block]:
    """Return the blocks, shortened to a total number of lines and characters."""
    kept: list[Block] = []
    for block in blocks:
        fitting = list(_take_fitting(block.text.lines(), lines, chars))
        lines -= len(fitting)
        chars -= sum(_length(line) for line in fitting)
        part = _part(block.text, fitting)
        text = block.text if part.text == block.text.text else part
        kept.append(Block(block.label, block.format, text, block.lines, block.chars))
    return kept


def changes(before: Any, after: Any) -> tuple[Change, ...]:
    """Return the differences between two sets of arguments, line by line.

    Secrets are masked in the whole text first, because the word that reveals a secret may be on an
    earlier line.
    """
    known = [*list_known([before]), *list_known([after])]
    texts = map(pretty, (before, after))
    old, new = (render_safe(one, found=find_known(one, known)).lines() for one in texts)
    rows: list[Change] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=True)
    for number, group in enumerate(matcher.get_grouped_opcodes(DIFF_CONTEXT)):
        if number or group[0][1]:
            rows.append(Change("@", render_safe("…")))
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                rows.extend(Change(" ", Visible(line)) for line in old[old_from:old_to])
                continue
            rows.extend(Change("-", Visible(line)) for line in old[old_from:old_to])
            rows.extend(Change("+", Visible(line)) for line in new[new_from:new_to])
    return tuple(rows)


def headline(record: StoredRequest, chars: int) -> Visible:
    """Return the start of the call as one line."""
    if record.request.questions:
        return record.show(_one_line(record.request.questions[0].text, chars))
    if record.request.kind is Kind.CALLS:
        return record.show(_one_line(say_plan(record).replace("\n", " "), chars))
    spoken = (record.arguments.get(name) for name in FORMATS)
    command = next((one for one in spoken if isinstance(one, str) and one), None)
    if command is not None:
        return record.show(_one_line(command, chars))
    arguments = put_short_first(record.arguments)
    return record.show(_one_line(json.dumps(arguments, ensure_ascii=False), chars))


def pretty(value: Any) -> str:
    """Return a value as indented JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def texts_of(record: StoredRequest) -> list[tuple[str, str, str]]:
    """Return (label, format, text) for everything that would run.

    Commands come first, then arguments on one line, then longer texts. Labels are the gateway's
    words. Argument names in them are quoted, except names such as `cmd`, which mark a command.
    """
    request, rest = record.request, dict(record.arguments)
    if request.kind is Kind.CALLS:
        return [("calls", "json", say_plan(record)), *_beside(record)]
    alone = {
        name: rest.pop(name) for name, value in record.arguments.items() if _alone(name, value)
    }
    found = [(name, FORMATS[name], text) for name, text in alone.items() if name in FORMATS]
    short, long = part_long_members(rest)
    if short or not (long or alone or request.questions):
        found.append(("arguments", "json", pretty(short)))
    found += _beside(record)
    found += [(_call(name), "text", text) for name, text in alone.items() if name not in FORMATS]
    found += [("argument", "json", pretty({name: value})) for name, value in long.items()]
    return found


def _beside(record: StoredRequest) -> list[tuple[str, str, str]]:
    """Return (label, format, text) for everything that runs in addition to the arguments."""
    request, found = record.request, list[tuple[str, str, str]]()
    if request.payload is not None:
        found.append(("payload", "json", pretty(put_short_first(request.payload))))
    if request.context.env:
        found.append(("changed environment", "json", pretty(put_short_first(request.context.env))))
    if request.context.files:
        found.append(("files and their SHA-256", "json", pretty(request.context.files)))
    return found


def say_plan(record: StoredRequest) -> str:
    """Return a plan as text. Names and values are quoted, so that they cannot imitate the plan's
    lines."""
    plan = plan_of(record)
    unit = f"minute{'' if plan.minutes == 1 else 's'}"
    said = [f"For {plan.minutes} {unit} in this session, at most:"]
    for number, one in enumerate(plan.calls, 1):
        times = "once" if one.times == 1 else f"{one.times} times"
        kind = f" ({KIND_WORDS[one.kind]})" if one.kind in KIND_WORDS else ""
        varies = f", any text in {_list_names_of(one.any_text)}" if one.any_text else ""
        roles = f", with the roles {json.dumps(one.roles, ensure_ascii=False)}" if one.roles else ""
        arguments = record.arguments["calls"][number - 1]["arguments"]
        text = json.dumps(arguments, ensure_ascii=False)
        shown = f" {text}" if len(text) <= _SHORT_CALL else f"\n{pretty(arguments)}"
        said.append(
            f"{number}. {_list_names_of((one.tool,))}{kind}, {times}{varies}{roles}:{shown}"
        )
    return "\n".join(said)


def _list_names_of(names: Iterable[str]) -> str:
    return ", ".join(json.dumps(one, ensure_ascii=False) for one in names)


def _block(record: StoredRequest, label: str, kind: str, text: str, reveal: bool) -> Block:
    seen = record.show(text, reveal=reveal)
    return Block(
        render_safe(label, reveal=reveal).text, kind, seen, seen.count_lines(), len(seen.text)
    )


def _alone(name: str, value: Any) -> bool:
    """Whether an argument gets its own block. It does not if its name is too long for a label."""
    if not isinstance(value, str):
        return False
    return bool(value) if name in FORMATS else "\n" in value and not _long(name, _ARGUMENT_CHARS)


def _call(name: str) -> str:
    return f"argument {json.dumps(name, ensure_ascii=False)}"


def _one_line(text: str, chars: int) -> str:
    end = text.find("\n", 0, chars)
    line = start_of(text, chars if end < 0 else end)
    return line if line == text else f"{line} …"


def _part(text: Visible, lines: list[tuple[Segment, ...]]) -> Visible:
    return Visible(_join(lines), text.hidden, text.mixed_script, text.masked)


def _join(lines: list[tuple[Segment, ...]]) -> tuple[Segment, ...]:
    joined: list[Segment] = []
    for number, line in enumerate(lines):
        if number:
            joined.append(("\n", False))
        joined.extend(line)
    return tuple(joined)


def _length(line: tuple[Segment, ...]) -> int:
    return sum(len(text) for text, _ in line)


def _take_fitting(
    lines: list[tuple[Segment, ...]], lines_left: int, chars_left: int
) -> Iterator[tuple[Segment, ...]]:
    for line in lines[: max(0, lines_left)]:
        length = _length(line)
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


_MOST_KNOWN = 10_000


class CardSizes:
    """A cache that stores whether the cards of pending requests show the whole call."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str, int, int], bool] = {}

    def fits(self, record: StoredRequest, *, lines: int, chars: int) -> bool:
        """Return whether a card of this size shows the whole call."""
        known = None if record.final else self._known.get(_key(record, lines, chars))
        if known is None:
            whole = blocks_of(record)
            known = same(cut(whole, lines=lines, chars=chars), whole)
            self.remember_fit(record, lines, chars, known)
        return known

    def remember_fit(self, record: StoredRequest, lines: int, chars: int, fit: bool) -> None:
        """Store whether the call fits, but only for a pending record, because a decided one may be
        erased."""
        if record.final:
            return
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[_key(record, lines, chars)] = fit


def _key(record: StoredRequest, lines: int, chars: int) -> tuple[str, int, str, int, int]:
    """Return the cache key of a card's content. The digest alone is not enough, because 1 and 1.0
    have the same digest but are shown differently."""
    return record.id, record.shown_since, record.digest, lines, chars


def same(blocks: Sequence[Block], whole: Sequence[Block]) -> bool:
    """Return whether these blocks show all of the blocks in `whole`, without a cut."""
    return all(part.text == full.text for part, full in zip(blocks, whole, strict=True))


HEAVY_CHARS = 50_000

T = TypeVar("T")


async def draw(make: Callable[[], T], *values: Any) -> T:
    """Call `make`, in a thread if the values that it renders are large."""
    return await asyncio.to_thread(make) if heavy(*values) else make()


def heavy(*values: Any) -> bool:
    """Whether these values have too much text to render on the event loop."""
    left, waiting = HEAVY_CHARS, list(values)
    while waiting and left > 0:
        value = waiting.pop()
        left -= 1
        if isinstance(value, str):
            left -= len(value)
        elif isinstance(value, dict):
            waiting += value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return left <= 0


def weight_of(record: StoredRequest) -> tuple[Any, ...]:
    """Return the parts of a request that may be large."""
    request, decision = record.request, record.decision
    runs = (request.arguments, record.edited, request.payload, request.schema)
    said = (request.preview, request.questions, request.context, request.origin, record.risk)
    ended = (decision.message, decision.answers, decision.result) if decision else ()
    return (*runs, request.hint, plain(said), *ended)
