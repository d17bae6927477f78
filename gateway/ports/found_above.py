"""Chooses what was found that stands between a head and what runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

from gateway.domain.safe_text import Visible
from gateway.models import RiskLevel
from gateway.ports.cards import Card

MOST_BEFORE = 12
"""Words that people read before the first character of what runs, beside findings."""
_MOST_FOUND = 3  # findings that stand before it
_MOST_LINE = 130  # characters of each
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
    """Return the first findings of a card that waits, as far as they are short, and the reasons of
    its risk that have room beside its head and the texts that stand `before` what runs; nothing of
    one that ended."""
    if card.final:
        return FoundAbove("", (), ())
    reasons = () if card.risk is RiskLevel.LOW else card.reasons
    mark = _HIGH_RISK if card.risk is RiskLevel.HIGH else ""
    said = (*before, mark, "".join(part.text.text for part in card.head))
    left = MOST_BEFORE - sum(len(text.split()) for text in said)
    findings = tuple(takewhile(_is_line, card.shorts[:_MOST_FOUND]))
    told = _take(reasons, left)
    closer = _LOOK_CLOSER if (card.shorts or reasons) and not (findings or told) else ""
    return FoundAbove(mark or closer, findings, told)


def _is_line(text: Visible) -> bool:
    return len(text.text) <= _MOST_LINE


def _take(texts: Iterable[Visible], left: int) -> tuple[Visible, ...]:
    """Return the first of these texts that fit into so many words."""
    taken: list[Visible] = []
    for text in texts:
        left -= len(text.text.split()) if _is_line(text) else MOST_BEFORE
        if left < 0:
            break
        taken.append(text)
    return tuple(taken)
