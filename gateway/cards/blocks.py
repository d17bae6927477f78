"""What would run, as labelled blocks of text that people can read, and as much of it as fits.

Everything the digest covers becomes a block: nothing that runs stays unshown. Whether all of it
fits on a card is known from drawing the card, and checked at each click. What may be large is drawn
beside the event loop, which would stand still: taps are answered in time while a megabyte becomes a
card.
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

# A long text in pages. Each holds as much as the platform shows whole, and the platform is asked:
# what it escapes, and how it counts, is known to its renderer alone.
#
# Put together, the pages are the text. None is empty, no heading stands without its text, and no
# page ends within an escape, a mask or a character that consists of several.

Fits = Callable[[str], bool]

_GUESS = 1000  # characters; where the search for the end of a page begins
_MOST_CLINGING = 32  # characters that are drawn as one; joined pictures have no end of their own
_ZERO_WIDTH_JOINER = "\u200d"
_CLINGING = frozenset({"Mn", "Mc", "Me", "Cf"})
_SKIN = range(0x1F3FB, 0x1F400)
_HALF_FLAGS = range(0x1F1E6, 0x1F200)


def paginate(
    segments: Sequence[Segment], headings: Mapping[int, int], fits: Fits
) -> list[tuple[Segment, ...]]:
    """Return the segments in pages. `headings` has the end of each heading, and its start.

    `fits` says whether a page of this text is shown whole. What does not fit even alone has a page
    of its own: whoever shows it finds that it does not fit.
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
    """Return how far a page may go that begins here; no further than here if nothing fits."""
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
    """Return where the page ends: after a line, if that leaves it half full, else within one."""
    line = text.rfind("\n", at, reach) + 1
    line = headings.get(line, line)
    if line > at and 2 * (line - at) >= reach - at:
        return line
    return _unit_start(text, at, reach)


def _unit_start(text: str, at: int, end: int) -> int:
    """Return the last place up to `end` that is not within an escape or a drawn character."""
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
    """Whether a character is drawn together with the one before it; a page begins at `begin`."""
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
LABEL_CHARS = 60  # every platform has room for these, whatever it escapes and however it counts
_NAME_CHARS = 60  # of a name with its quotes, likewise
_ARGUMENT_CHARS = 50  # of one in a label
_SHORT_CALL = 80  # characters of the arguments of a planned call that stand in its line
_BEGINNINGS = (45, 20, 4)  # characters of a longer name; four fit however they are escaped
FORMATS = {"command": "shell", "cmd": "shell", "script": "shell", "diff": "diff", "patch": "diff"}


@dataclass(frozen=True, slots=True)
class Block:
    """A labelled piece of text. `format` is shell, diff, json or text.

    `text` is the start of it when it was cut, `lines` and `chars` count the whole.
    """

    label: str
    format: str
    text: Visible
    lines: int
    chars: int


@dataclass(frozen=True, slots=True)
class Change:
    """One row of a diff: `sign` is +, -, a space, or @ for a gap."""

    sign: str
    text: Visible


def blocks_of(record: StoredRequest, *, reveal: bool = False) -> list[Block]:
    """Return all that would run, whole and in reading order: arguments, payload, changed
    environment, bound files, and what names tool, host and folder where that is long."""
    texts = [*_list_names(record), *texts_of(record)]
    texts.sort(key=lambda one: weigh(one[2]))
    return [_block(record, label, kind, text, reveal) for label, kind, text in texts]


def quote_name(name: str, *, reveal: bool = False) -> Visible:
    """Return a name that an agent chose, quoted as in JSON: it cannot pass for words of ours."""
    return render_safe(json.dumps(name, ensure_ascii=False), reveal=reveal)


def call_name(name: str, *, reveal: bool = False) -> Visible:
    """Return a name as titles and facts show it; a longer one stands whole in what would run."""
    whole = quote_name(name, reveal=reveal)
    if not _long(name):
        return whole
    begun = (quote_name(start_of(name, most), reveal=reveal) for most in _BEGINNINGS)
    shown = next(one for one in begun if len(one.text) <= _NAME_CHARS)
    return Visible((*shown.segments, ("…", False)), whole.hidden, whole.mixed_script, shown.masked)


def _list_names(record: StoredRequest) -> list[tuple[str, str, str]]:
    """Return what titles and facts may cut: a long name of the tool, of the host, of the folder."""
    context = record.request.context
    named = (("tool", record.request.tool), ("host", context.host), ("folder", context.cwd))
    return [(f"name of the {what}", "text", text) for what, text in named if text and _long(text)]


def _long(name: str, most: int = _NAME_CHARS) -> bool:
    """Whether some platform would cut this name where it has one line for it."""
    return len(quote_name(name).text) > most


def warnings(record: StoredRequest) -> tuple[Visible, ...]:
    """Return what the guardrails found, each with its place; paths stand quoted in them."""
    return tuple(record.show(f"Guardrail: {finding}") for finding in record.located_findings)


def short_warnings(record: StoredRequest, blocks: Sequence[Block]) -> tuple[Visible, ...]:
    """Return what the guardrails found, each without its place where there is no other."""
    only = blocks[0].label if len(blocks) == 1 else ""
    places = (*record.finding_places, *("" for _ in record.findings))
    found = zip(record.findings, places, record.located_findings, strict=False)
    return tuple(record.show(words if place == only else sign) for words, place, sign in found)


def why_asked(record: StoredRequest) -> Visible | None:
    """Return what kept a remembered approval from covering a request that waits, as a sentence."""
    said = "" if record.final else record.asks_because
    return record.show(said[:1].upper() + said[1:]) if said else None


def cut(blocks: Iterable[Block], *, lines: int, chars: int) -> list[Block]:
    """Return the blocks as far as they fit into so many lines and characters together."""
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
    """Return what differs between two sets of arguments, line by line.

    Each is made safe as a whole: what tells that a word is a secret may stand a line above it.
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
    """Return the start of what would run, in one line."""
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
    """Return JSON for people: every value, two spaces a level."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def texts_of(record: StoredRequest) -> list[tuple[str, str, str]]:
    """Return (label, format, text) of everything that would run.

    Commands come first, then what has no lines of its own, then the texts. Each label is ours: an
    argument's name stands quoted in it, save those few by which a command is known.
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
    """Return (label, format, text) of what runs with the arguments."""
    request, found = record.request, list[tuple[str, str, str]]()
    if request.payload is not None:
        found.append(("payload", "json", pretty(put_short_first(request.payload))))
    if request.context.env:
        found.append(("changed environment", "json", pretty(put_short_first(request.context.env))))
    if request.context.files:
        found.append(("files and their SHA-256", "json", pretty(request.context.files)))
    return found


def say_plan(record: StoredRequest) -> str:
    """Return all that a plan says, a paragraph a line; no value of a call can look like one."""
    plan = plan_of(record)
    unit = f"minute{'' if plan.minutes == 1 else 's'}"
    said = [f"In this session, for {plan.minutes} {unit}, at most so often:"]
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
    """Whether an argument is a block. A name that would be cut as a label stays in the JSON."""
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
    """Remembers for waiting requests whether their cards show all that would run."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str, int, int], bool] = {}

    def fits(self, record: StoredRequest, *, lines: int, chars: int) -> bool:
        """Tell whether a card of this size shows all that would run."""
        known = None if record.final else self._known.get(_key(record, lines, chars))
        if known is None:
            whole = blocks_of(record)
            known = same(cut(whole, lines=lines, chars=chars), whole)
            self.remember_fit(record, lines, chars, known)
        return known

    def remember_fit(self, record: StoredRequest, lines: int, chars: int, fit: bool) -> None:
        """Remember whether it fits, while the record waits: what ended may be erased."""
        if record.final:
            return
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[_key(record, lines, chars)] = fit


def _key(record: StoredRequest, lines: int, chars: int) -> tuple[str, int, str, int, int]:
    """Return what stands for all that a card shows. The digest alone does not: 1 and 1.0 have the
    same, and an agent could have the one vouch for the other."""
    return record.id, record.shown_since, record.digest, lines, chars


def same(blocks: Sequence[Block], whole: Sequence[Block]) -> bool:
    """Tell whether nothing was cut off these blocks."""
    return all(part.text == full.text for part, full in zip(blocks, whole, strict=True))


HEAVY_CHARS = 50_000

T = TypeVar("T")


async def draw(make: Callable[[], T], *values: Any) -> T:
    """Return what `make` returns, in a thread when the values it renders are large."""
    return await asyncio.to_thread(make) if heavy(*values) else make()


def heavy(*values: Any) -> bool:
    """Whether values hold more text than the event loop should wait for."""
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
