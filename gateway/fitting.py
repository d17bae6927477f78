"""Whether all that would run fits on a card. Every click asks, after the card was drawn once."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.blocks import Block, blocks_of, cut
from gateway.records import Record

_MOST = 10_000

_known: dict[tuple[str, int, int], bool] = {}
"""By digest, lines and characters: equal digests are of equal actions."""


def fits(record: Record, *, lines: int, chars: int) -> bool:
    """Whether a card of this size shows all that would run."""
    known = None if record.final else _known.get((record.digest, lines, chars))
    if known is None:
        whole = blocks_of(record)
        known = same(cut(whole, lines=lines, chars=chars), whole)
        remember_fit(record, lines, chars, known)
    return known


def remember_fit(record: Record, lines: int, chars: int, fit: bool) -> None:
    """Spare the next look the drawing. What ended may be erased, and is then not what its digest
    stands for."""
    if record.final:
        return
    if len(_known) >= _MOST:
        _known.clear()
    _known[record.digest, lines, chars] = fit


def same(blocks: Sequence[Block], whole: Sequence[Block]) -> bool:
    """Whether nothing was cut off these blocks."""
    return all(part.text == full.text for part, full in zip(blocks, whole, strict=True))
