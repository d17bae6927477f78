"""Whether all that would run fits on a card. Known from drawing the card, checked at each click."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.domain.records import Record
from gateway.ports.blocks import Block, blocks_of, cut

_MOST = 10_000


class CardSizes:
    """Remembers for waiting requests whether their cards show all that would run."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str, int, int], bool] = {}

    def fits(self, record: Record, *, lines: int, chars: int) -> bool:
        """Tell whether a card of this size shows all that would run."""
        known = None if record.final else self._known.get(_key(record, lines, chars))
        if known is None:
            whole = blocks_of(record)
            known = same(cut(whole, lines=lines, chars=chars), whole)
            self.remember_fit(record, lines, chars, known)
        return known

    def remember_fit(self, record: Record, lines: int, chars: int, fit: bool) -> None:
        """Remember whether it fits, while the record waits: what ended may be erased."""
        if record.final:
            return
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[_key(record, lines, chars)] = fit


def _key(record: Record, lines: int, chars: int) -> tuple[str, int, str, int, int]:
    """Return what stands for all that a card shows. The digest alone does not: 1 and 1.0 have the
    same, and an agent could have the one vouch for the other."""
    return record.id, record.shown_since, record.digest, lines, chars


def same(blocks: Sequence[Block], whole: Sequence[Block]) -> bool:
    """Tell whether nothing was cut off these blocks."""
    return all(part.text == full.text for part, full in zip(blocks, whole, strict=True))
