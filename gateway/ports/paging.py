"""A long text in pages. Each holds as much as the platform shows whole, and the platform is asked:
what it escapes, and how it counts, is known to its renderer alone.

Put together, the pages are the text. None is empty, no heading stands without its text, and no page
ends within an escape, a mask or a character that consists of several.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence

from gateway.domain.safe_text import Segment

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
