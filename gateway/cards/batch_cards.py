"""Several requests of one group on one card: each with its head and exactly what runs.

They are answered one by one; all at once only where each was read whole there, and none is decided
alone. A click on all of them is a batch: one script, and a revision checked for each. Such a card
is opened by one person, on demand, or is posted for all: then its set never changes, each request
keeps its place, and one that ended stays there as a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway.cards.blocks import call_name
from gateway.cards.card import Card, Fact, card_of
from gateway.cards.summary import NOTICE_CHARS, discreet_notice, name_agent, say_found
from gateway.domain.records import Record
from gateway.domain.redaction import render_safe
from gateway.domain.safe_text import Visible
from gateway.errors import InvalidRequest
from gateway.models import KIND_WORDS, Action, RiskLevel

MOST_TOGETHER = 12
_NAMED = ("Tool", "Host", "Folder")
_LINES = 30
_ENDED = 0  # in the place of a revision: this one had no button any more
_MOST_REVISIONS = 36  # characters, which is what a button of any platform has room for


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCard:
    """What a group asks: `title` counts it, `items` are cards of those that are shown, the oldest
    first, `more` counts those that are not.

    A posted one has in `summary` what notifications say, and in `calls` whom it calls, as a card
    has; it `disarms` when one of its requests ended since it was last shown.
    """

    title: Visible
    items: tuple[Card, ...]
    more: int = 0
    summary: str = ""
    calls: tuple[str, ...] = ()
    disarms: bool = False

    @property
    def waiting(self) -> tuple[Card, ...]:
        """The cards of those that still wait."""
        return tuple(card for card in self.items if not card.final)

    @property
    def together(self) -> bool:
        """Whether all that wait may be approved at once, as far as the core knows: an adapter adds
        whether it shows all of it."""
        waiting = self.waiting
        return len(waiting) > 1 and not self.more and all(map(is_simple, waiting))

    @property
    def deniable(self) -> bool:
        """Whether all that are shown and wait may be denied at once: denying takes no reading."""
        denials = [any(one.action is Action.DENY for one in card.controls) for card in self.waiting]
        return len(denials) > 1 and all(denials)

    @property
    def newest(self) -> Card:
        """The card of what happened last on a posted one: who ended last, or else the first."""
        ended = [card for card in self.items if card.final]
        last = max(ended, key=lambda card: card.decided_at or 0, default=self.items[0])
        return replace(last, disarms=self.disarms)

    @property
    def revisions(self) -> str:
        """The revisions that it shows, for the button that answers all that wait; empty when they
        find no room there."""
        shown = (_ENDED if card.final else card.revision for card in self.items)
        written = ".".join(map(str, shown))
        return written if len(written) <= _MOST_REVISIONS else ""


def read_revisions(written: str, ids: Sequence[str]) -> dict[str, int]:
    """Return the revisions that were seen of the requests of a posted card, in their order, of
    those that waited. Raises InvalidRequest."""
    parts = written.split(".")
    if len(parts) != len(ids) or not all(part.isascii() and part.isdecimal() for part in parts):
        raise InvalidRequest("this button does not belong to its card")
    seen = {one: int(part) for one, part in zip(ids, parts, strict=True)}
    return {one: revision for one, revision in seen.items() if revision != _ENDED}


def is_simple(card: Card) -> bool:
    """Whether a card shows all of what would run, and takes one tap: no high risk, no step-up, no
    question, nothing that a mask hides."""
    approve = next((one for one in card.controls if one.action is Action.APPROVE), None)
    if approve is None or approve.confirm is not None or approve.number or approve.passkey:
        return False
    return card.complete and not card.hides and not card.fields


def is_groupable(card: Card) -> bool:
    """Whether a card may be one of several on a posted one: it takes one tap of one person."""
    return is_simple(card) and not card.progress


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


def posted_group_of(
    shown: Sequence[tuple[Record, Card]],
    *,
    calls: tuple[str, ...] = (),
    discreet: bool = False,
    disarms: bool = False,
) -> GroupCard:
    """Return the posted card of these requests, in this order, each with its own card."""
    records = [record for record, _ in shown]
    title, agent = _title(records), records[0].request.agent
    levels = {record.risk.level for record in records}
    risk = next(level for level in reversed(RiskLevel) if level in levels)
    return GroupCard(
        title=title,
        items=tuple(card for _, card in shown),
        summary=discreet_notice(agent, "", risk) if discreet else _notice_of(records),
        calls=calls,
        disarms=disarms,
    )


def _notice_of(records: Sequence[Record]) -> str:
    """Return what a notification says of a group: its title, and what was found in it first."""
    agent = render_safe(name_agent(records[0].request.agent))
    found = next((say_found(one) for one in records if one.findings and not one.final), "")
    return f"{_title(records, agent).text[: NOTICE_CHARS - len(found)]}{found}"


def _title(records: Sequence[Record], agent: Visible | None = None) -> Visible:
    waiting = [one for one in records if not one.final]
    counts = waiting or records  # what ended is decided, and no part of the answer
    kinds = Counter(KIND_WORDS.get(one.request.kind, "call").lower() for one in counts)
    counted = ", ".join(f"{count} {_plural(kind, count)}" for kind, count in kinds.most_common())
    agent = agent or call_name(records[0].request.agent)
    count = len(records)
    begin = f"{count} {_plural('request', count)} of "
    waits = f", {len(waiting)} of them waiting" if 0 < len(waiting) < count else ""
    said = f"{waits}: {counted}" if set(kinds) != {"call"} else waits
    return Visible(((begin, False), *agent.segments, (said, False)))


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
