"""Several waiting requests of one group on one card: each with its head and exactly what runs.

They are answered one by one; all at once only where each was read whole there, and none is decided
alone. A click on all of them is a batch: one script, and a revision checked for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.domain.records import Record
from gateway.domain.safe_text import Visible
from gateway.models import KIND_WORDS, Action
from gateway.ports.blocks import call_name
from gateway.ports.cards import Card, Fact, card_of

MOST_TOGETHER = 12
_NAMED = ("Tool", "Host", "Folder")
_LINES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCard:
    """What a group asks: `title` counts it, `items` are cards of those that are shown, the oldest
    first, `more` counts those that are not."""

    title: Visible
    items: tuple[Card, ...]
    more: int

    @property
    def together(self) -> bool:
        """Whether all of them may be approved at once, as far as the core knows: an adapter adds
        whether it shows all of it."""
        return len(self.items) > 1 and not self.more and all(map(is_simple, self.items))


def is_simple(card: Card) -> bool:
    """Whether a card shows all of what would run, and takes one tap: no high risk, no step-up, no
    question, nothing that a mask hides."""
    approve = [one for one in card.controls if one.action is Action.APPROVE]
    simple = card.complete and not card.hides and not card.fields
    return simple and bool(approve) and approve[0].confirm is None and not approve[0].number


def named_facts(card: Card) -> tuple[Fact, ...]:
    """Return those facts of a card that are part of what runs."""
    return tuple(fact for fact in card.facts if fact.label in _NAMED)


def is_of_group(record: Record, other: Record) -> bool:
    """Whether another waiting request belongs to the same group: what was asked as one, or else
    the rest of the session. What waits behind one that asks the same is not shown twice."""
    one, two = record.request, other.request
    if other.final or other.follows or (one.agent, one.session) != (two.agent, two.session):
        return False
    return one.group is None or one.group == two.group


def group_card_of(
    records: Sequence[Record], *, chars: int, each: int, reader: str = ""
) -> GroupCard:
    """Return the card of a group, with so many characters for what would run in all of it, and in
    each: no more than its own card has room for."""
    ordered = sorted(records, key=lambda one: (one.created, one.id))
    items: list[Card] = []
    for record in ordered[:MOST_TOGETHER]:
        card = card_of(record, lines=_LINES, chars=min(chars, each), reader=reader)
        size = sum(len(block.text.text) for block in card.blocks)
        if not card.complete:
            continue
        items.append(card)
        chars -= size
    return GroupCard(title=_title(ordered), items=tuple(items), more=len(ordered) - len(items))


def _title(records: Sequence[Record]) -> Visible:
    kinds = Counter(KIND_WORDS.get(one.request.kind, "call").lower() for one in records)
    counted = ", ".join(f"{count} {_plural(kind, count)}" for kind, count in kinds.most_common())
    agent = call_name(records[0].request.agent)
    count = len(records)
    begin = f"{count} {_plural('call', count)} of "
    said = f": {counted}" if set(kinds) != {"call"} else ""
    return Visible(((begin, False), *agent.segments, (said, False)))


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
