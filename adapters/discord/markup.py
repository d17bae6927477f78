"""Escaping of text for Discord, and cutting to its limits.

The core has replaced invisible characters already; this escapes markup, mentions, links and fences.
Lengths are counted in UTF-16 units: Discord never counts more.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_LANGUAGES = {"shell": "bash", "diff": "diff", "json": "json"}
# Discord hides a backslash before any punctuation, so escaping too much does no harm.
_PUNCTUATION = frozenset("\\*_~|`>#-[]()<@:+=.!{}^&")
_MARKUP = re.compile(r"[\\*_~|`>#\-\[\]()<@:+=.!{}^&]")
_FENCE = re.compile(r"`{3,}")
_PERSON = re.compile(r"discord\\:(\d{15,20})(?!\d)")
_ELLIPSIS = "…"


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def escape_line(text: str, budget: int) -> str:
    """Return text escaped, on one line, within `budget` units."""
    return _escape(text.replace("\n", " ⏎ "), budget)


def escape_with_mentions(text: str, budget: int, people: Collection[str]) -> str:
    """Return a sentence of ours, escaped. Those of `people` who are users become mentions: they are
    whom the gateway names. Whoever else a text names stays text."""
    users = {f"discord\\:{one.removeprefix('discord:')}" for one in people}

    def mention(found: re.Match[str]) -> str:
        return f"<@{found[1]}>" if found[0] in users else found[0]

    return _PERSON.sub(mention, escape_line(text, budget))


def mention_others(users: Sequence[str], said: str) -> str:
    """Return mentions of those users whom what is said does not mention already."""
    told = (f"<@{one}>" for one in users if one.isdecimal())
    return " ".join(one for one in told if one not in said)


def inline_code(text: str) -> str:
    """Return a name in code style, on one line; a backtick in it is spelled out."""
    line = text.replace("\n", " ⏎ ").replace("`", "⟨U+0060⟩")
    return f"`{line or ' '}`"


def quote(text: str, budget: int) -> str:
    """Return text as a block quote."""
    lines = text.split("\n")
    kept: list[str] = []
    for line in lines:
        left = budget - sum(count_units(one) + 1 for one in kept) - 2
        if left < 2:  # noqa: PLR2004 (room for a letter and the ellipsis)
            kept[-1] = f"> {_ELLIPSIS}"
            break
        kept.append(f"> {_escape(line, left)}")
    return "\n".join(kept)


def fence(text: str, kind: str, budget: int) -> tuple[str, bool]:
    """Return text in a code block, within `budget` units, and whether all of it fits.

    A fence in the text would end the block, so it is replaced: ⟨3 x U+0060⟩.
    """
    opening = f"```{_LANGUAGES.get(kind, '')}\n"
    closing = "\n```"
    safe = _FENCE.sub(_spell_fence, text)
    room = budget - count_units(opening) - count_units(closing)
    if count_units(safe) <= room:
        return f"{opening}{safe}{closing}", True
    cut = _cut(safe, max(0, room - 2))
    # Never cut within an escape: half of one reads as plain text.
    if cut.rfind("⟨") > cut.rfind("⟩"):
        cut = cut[: cut.rfind("⟨")]
    return f"{opening}{cut}\n{_ELLIPSIS}{closing}", False


def clip(text: str, budget: int) -> str:
    """Return the text, or its start and an ellipsis."""
    return text if count_units(text) <= budget else f"{_cut(text, budget - 1)}{_ELLIPSIS}"


def keep_whole_lines(lines: Sequence[str], budget: int) -> list[str]:
    """Return the first lines that fit as a whole."""
    kept: list[str] = []
    for line in lines:
        budget -= count_units(line) + 1
        if budget < 0:
            break
        kept.append(line)
    return kept


def _spell_fence(found: re.Match[str]) -> str:
    return f"⟨{len(found.group())} × U+0060⟩"  # noqa: RUF001 (as the core writes runs)


def _escape(text: str, budget: int) -> str:
    if 2 * len(text) <= budget and text.isascii():
        return _MARKUP.sub(r"\\\g<0>", text)
    kept: list[str] = []
    left = budget
    for at, char in enumerate(text):
        piece = f"\\{char}" if char in _PUNCTUATION else char
        cost = count_units(piece)
        if cost > left - (at + 1 < len(text)):
            kept.append(_ELLIPSIS)
            break
        kept.append(piece)
        left -= cost
    return "".join(kept)


def _cut(text: str, budget: int) -> str:
    if count_units(text) <= budget:
        return text
    cut = text[:budget]
    while count_units(cut) > budget:
        cut = cut[: len(cut) - max(1, (count_units(cut) - budget) // 2)]
    return cut
