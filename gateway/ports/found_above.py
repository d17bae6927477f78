"""Chooses what was found that stands between a head and what runs, as far as few words allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.domain.safe_text import Visible
from gateway.models import RiskLevel
from gateway.ports.cards import Card

MOST_BEFORE = 12
"""Words that people read before the first character of what runs."""
_MOST_LINE = 90  # characters of a finding that stands before it
_HIGH_RISK, _LOOK_CLOSER = "High risk", "Look closer"


@dataclass(frozen=True, slots=True)
class FoundAbove:
    """A `mark` of two words, "" without one, and the first findings and reasons in short. What is
    found further stands below what runs."""

    mark: str
    findings: tuple[Visible, ...]
    reasons: tuple[Visible, ...]

    def findings_below(self, card: Card) -> tuple[Visible, ...]:
        """Return the findings that do not stand above."""
        return card.findings[len(self.findings) :]

    def reasons_below(self, card: Card) -> tuple[Visible, ...]:
        """Return the reasons of the risk that do not stand above."""
        return () if card.final else card.reasons[len(self.reasons) :]


def choose_found_above(card: Card, *before: str) -> FoundAbove:
    """Return what of the findings of a card that waits has room beside its head and the texts that
    stand `before` what runs; nothing of one that ended."""
    if card.final:
        return FoundAbove("", (), ())
    reasons = () if card.risk is RiskLevel.LOW else card.reasons
    mark = _HIGH_RISK if card.risk is RiskLevel.HIGH else ""
    said = (*before, mark, "".join(part.text.text for part in card.head))
    left = MOST_BEFORE - sum(len(text.split()) for text in said)
    findings, left = _take(card.shorts, left)
    told, _ = _take(reasons, left)
    closer = _LOOK_CLOSER if (card.shorts or reasons) and not (findings or told) else ""
    return FoundAbove(mark or closer, findings, told)


def _take(texts: Iterable[Visible], left: int) -> tuple[tuple[Visible, ...], int]:
    """Return the first of these texts that fit into so many words, and how many words are left."""
    taken: list[Visible] = []
    for text in texts:
        left -= len(text.text.split()) if len(text.text) <= _MOST_LINE else MOST_BEFORE
        if left >= 0:
            taken.append(text)
    return tuple(taken), left
