"""Build a batch card: several pending requests of one agent, each with its summary and its whole
call.

A person opens the card and decides the requests one by one. They can decide all at once only if the
card shows each request in full. Then one script checks each revision, and decides all requests or
none.
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
    """A batch: `title` counts its requests, `items` are the cards that are shown, oldest first, and
    `more` counts the others."""

    title: Visible
    items: tuple[Card, ...]
    more: int = 0

    @property
    def together(self) -> bool:
        """Whether all requests may be approved at once. An adapter also checks that its message
        shows every call in full."""
        return len(self.items) > 1 and not self.more and all(map(is_simple, self.items))

    @property
    def deniable(self) -> bool:
        """Whether all shown requests may be denied at once. The calls need not be shown in full,
        because a denial requires no reading."""
        denials = [any(one.action is Action.DENY for one in card.controls) for card in self.items]
        return len(denials) > 1 and all(denials)


def is_simple(card: Card) -> bool:
    """Whether a card shows the whole call and one tap approves it. It may not have a high risk, a
    step-up, a form, or a mask that hides how the call acts."""
    approve = next((one for one in card.controls if one.action is Action.APPROVE), None)
    if approve is None or approve.confirm is not None or approve.number or approve.passkey:
        return False
    return card.complete and not card.hides and not card.fields


def named_facts(card: Card) -> tuple[Fact, ...]:
    """Return the facts of a card that are part of the call."""
    return tuple(fact for fact in card.facts if fact.label in _NAMED)


def is_of_batch(record: StoredRequest, other: StoredRequest) -> bool:
    """Whether another pending request is in the same batch: in the same group or, if there is no
    group, in the same session. Requests that the card of an identical request covers do not
    count."""
    one, two = record.request, other.request
    if other.final or other.follows or (one.agent, one.session) != (two.agent, two.session):
        return False
    return one.group is None or one.group == two.group


def batch_card_of(
    records: Sequence[StoredRequest], *, chars: int, each: int, reader: str = ""
) -> BatchCard:
    """Return the card of a batch. `chars` limits the size of all its calls, `each` the size of each
    request's call, which is the limit on the request's own card."""
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
