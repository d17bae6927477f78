"""The pieces of which heads are made: words of ours, and names from the call, cut to their room."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.domain.redaction import holds_secrets, render_safe, start_of
from gateway.domain.safe_text import Segment, Visible
from gateway.policy.calls.paths import MAX_PATH

SECRET_NAMED = "⟨secret⟩"
"""What stands in a head where a secret would."""
NAME_CHARS = 40
_LOOKED_AT = 200  # characters of a name
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class HeadPart:
    """A piece of a head, on one line: words of ours, or, when `named`, a name from the call."""

    text: Visible
    named: bool = False


Head = tuple[HeadPart, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """How much a head may say: `words` of each name, and so many `arguments`."""

    words: int
    arguments: int


def say_ours(text: str) -> HeadPart:
    """Return a piece of our own words."""
    return HeadPart(Visible(((text, False),)))


def say_some(
    names: Sequence[str], room: int, most: int, others: int = 0, chars: int = NAME_CHARS
) -> list[HeadPart]:
    """Return the first names, and how many more there are, these `others` too."""
    said: list[HeadPart] = [] if names else [say_ours("something")]
    for at, one in enumerate(names[:most]):
        said += [say_ours(", ")] if at else []
        said.append(say_name(one, room, chars))
    more = max(0, len(names) - most) + others
    return [*said, say_ours(f" and {more} more")] if more > 0 else said


def say_name(text: str, room: int, most: int = NAME_CHARS) -> HeadPart:
    """Return a name from the call in at most so many words and characters."""
    return HeadPart(cut_start(text, most, room), named=True)


def cut_start(text: str, most: int, room: int) -> Visible:
    """Return the start of a text on one line, safe to be shown, and "…" where more follows."""
    if _is_path(text) and len(text) > most:
        return render_safe(shorten(text, most))
    begun = start_of(text, _LOOKED_AT)
    seen = render_safe(begun)
    kept: list[Segment] = []
    whole = begun == text
    for piece, escape in seen.segments:
        said = _short_escape(piece) if escape else _BLANKS.sub(" ", piece)
        part = said if escape else said[: _fit(said, kept, most, room)]
        if _length(kept) + len(part) > most:
            part = ""
        kept.append((part, escape))
        if part != said:
            whole = False
            break
    kept = [*kept, ("…", False)] if not whole else kept
    segments = tuple(one for one in kept if one[0])
    return Visible(segments, seen.hidden, seen.mixed_script, seen.masked)


def _fit(piece: str, kept: list[Segment], most: int, room: int) -> int:
    """Return how many characters of a piece fit behind what is kept, by words and characters."""
    words = "".join(text for text, _ in kept).count(" ") + 1
    left = most - _length(kept)
    for at, char in enumerate(piece):
        if at >= left:
            blank = piece[:at].rfind(" ") if char != " " else at
            return blank if blank > left // 2 else at  # a long word is cut itself
        if char == " " and (words := words + 1) > room and piece[at:].strip():
            return at
    return len(piece)


def _length(kept: list[Segment]) -> int:
    return sum(len(text) for text, _ in kept)


def _is_path(text: str) -> bool:
    return "/" in text and not _BLANKS.search(text) and len(text) <= MAX_PATH


def shorten(path: str, most: int) -> str:
    """Return the start of a path and its last part, which says more than what is between. Of an
    address's host the end stays: that is whose it is."""
    begin, sign, rest = path.partition("://")
    host = rest.partition("/")[0]
    if sign and len(begin) + len(sign) + len(host) + len("…") > most and not holds_secrets(path):
        return f"{begin}{sign}…{host[len(begin) + len(sign) + 2 - most :]}…"
    last = path.rpartition("/")[2]
    if not last or len(last) > most - 3 or holds_secrets(path):
        return f"{start_of(path, most)}…"
    kept = path[: max(most - len(last) - 2, len(begin) + len(sign) + len(host) if sign else 0)]
    if len(kept) + len(last) + 2 > most:
        return f"{kept}…"
    return f"{kept.rstrip('/')}…/{last}"


def _short_escape(escape: str) -> str:
    return SECRET_NAMED if escape.startswith("⟨secret") else escape.strip()


def quote(text: str) -> str:
    """Return a name as plain text has it: quoted as in JSON."""
    return json.dumps(text, ensure_ascii=False)
