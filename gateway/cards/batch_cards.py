"""Build a batch card: several pending requests of one agent, each with its summary and whole call.

One person opens it on demand and decides the requests one by one. They can decide all at once only
if the card shows each in full. Then one script decides all or none, after it checks each revision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.cards.blocks import call_name
from gateway.cards.card import Card, Fact, card_of
from gateway.domain.records import StoredRequest
from gateway.domain.safe_text import Visible
from gateway.models import KIND_WORDS, Action

_MOST_TOGETHER = 12
_NAMED = ("Tool", "Host", "Folder")
_LINES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCard:
    """A batch: `title` counts it, `items` are the cards that are shown, oldest first, and `more`
    counts the others."""

    title: Visible
    items: tuple[Card, ...]
    more: int = 0

    @property
    def together(self) -> bool:
        """Whether all may be approved at once; an adapter also checks that its message shows it
        all."""
        return len(self.items) > 1 and not self.more and all(map(is_simple, self.items))

    @property
    def deniable(self) -> bool:
        """Whether all shown requests may be denied at once; a denial requires no reading."""
        denials = [any(one.action is Action.DENY for one in card.controls) for card in self.items]
        return len(denials) > 1 and all(denials)


def is_simple(card: Card) -> bool:
    """Whether a card shows the whole call and one tap approves it: without high risk, step-up,
    question or hiding mask."""
    approve = next((one for one in card.controls if one.action is Action.APPROVE), None)
    if approve is None or approve.confirm is not None or approve.number or approve.passkey:
        return False
    return card.complete and not card.hides and not card.fields


def named_facts(card: Card) -> tuple[Fact, ...]:
    """Return the facts of a card that are part of the call."""
    return tuple(fact for fact in card.facts if fact.label in _NAMED)


def is_of_batch(record: StoredRequest, other: StoredRequest) -> bool:
    """Whether another pending request is in the same batch: in the same group or, without a group,
    in the same session. Requests behind an identical one are left out."""
    one, two = record.request, other.request
    if other.final or other.follows or (one.agent, one.session) != (two.agent, two.session):
        return False
    return one.group is None or one.group == two.group


def batch_card_of(
    records: Sequence[StoredRequest], *, chars: int, each: int, reader: str = ""
) -> BatchCard:
    """Return the card of a batch. `chars` limits the calls in all of it, `each` one request's, as
    on its own card."""
    ordered = sorted(records, key=lambda one: (one.created, one.id))
    items: list[Card] = []
    for record in ordered[:_MOST_TOGETHER]:
        card = card_of(record, lines=_LINES, chars=min(chars, each), reader=reader)
        size = sum(len(block.text.text) for block in card.blocks)
        if not card.complete:
            continue
        items.append(card)
        chars -= size
    return BatchCard(title=_title(ordered), items=tuple(items), more=len(ordered) - len(items))


def _title(records: Sequence[StoredRequest]) -> Visible:
    kinds = Counter(KIND_WORDS.get(one.request.kind, "call").lower() for one in records)
    counted = ", ".join(f"{count} {_plural(kind, count)}" for kind, count in kinds.most_common())
    agent, count = call_name(records[0].request.agent), len(records)
    begin = f"{count} {_plural('request', count)} of "
    said = f": {counted}" if set(kinds) != {"call"} else ""
    return Visible(((begin, False), *agent.segments, (said, False)))


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
