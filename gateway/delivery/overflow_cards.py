"""Post overflow cards, which show an agent's requests without a separate card, or its cool-down.

Start with `OverflowCards.look`.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.approvals.duplicates_and_overflow import Overflow
from gateway.approvals.services import Core
from gateway.cards.blocks import Block, headline, quote_name, warnings
from gateway.cards.card import Card, CardState, Fact
from gateway.cards.summary import own_summary
from gateway.delivery.posting_and_editing import CardCopies, CardSource
from gateway.domain.records import StoredRequest
from gateway.domain.redaction import render_safe, start_of
from gateway.domain.risk import finding_sign
from gateway.domain.safe_text import Segment, Visible
from gateway.domain.time_and_tasks import Clock
from gateway.models import Kind, RiskLevel, Status
from gateway.ports import Adapter, AdapterApi
from gateway.ports.outgoing import Copy, CopyState

_LISTED = 5
_LINE_CHARS = 100
_DOUBT_MS = 30_000
_LEAST_REST = 1.0  # a cool-down ends by the server's clock, which may be behind


class OverflowCards:
    """Keeps the overflow cards of one agent at a time up to date, for one adapter that posts
    cards."""

    def __init__(
        self, adapter: Adapter, api: AdapterApi, core: Core, clock: Clock, copies: CardCopies
    ) -> None:
        self._adapter = adapter
        self._inbox = api.inbox
        self._core = core
        self._clock = clock
        self._copies = copies

    async def look(self, agent: str) -> list[float]:
        """Post and update an agent's overflow card at all its places. Return the seconds to
        wait."""
        overflow, policy = (
            await self._core.holding.overflow(agent),
            await self._core.writer.policy(),
        )
        copies = await self._core.outbox.copies(overflow.id)
        about = (*overflow.records, *((overflow.denied,) if overflow.denied else ()))
        there = [(one, policy.route_for(agent, one.request.tool).places(one.tier)) for one in about]
        targets = {place for _, places in there for place in places} | copies.keys()
        waits = []
        if overflow.paused is not None:
            waits.append(max(_LEAST_REST, (overflow.paused - self._clock.now_ms()) / 1000))
        for target in sorted(filter(self._copies.is_ours, targets)):
            here = tuple(
                one for one, places in there if target in places and one is not overflow.denied
            )
            waits += await self._at(replace(overflow, records=here), target, copies.get(target))
        return waits

    async def _at(self, overflow: Overflow, target: str, known: Copy | None) -> list[float]:
        subject = OverflowSource(overflow, self._inbox, self._adapter.list_command)
        if known is not None and self._copies.is_in_doubt(known) and not overflow.final:
            # No click will show whether the card exists. A second card is better than an overflow
            # that nobody sees.
            rest = known.at + _DOUBT_MS - self._clock.now_ms()
            if rest > 0:
                return [rest / 1000]
            await self._core.outbox.forget(overflow.id, known)
            known = None
        copies = {} if known is None else {target: known}
        waits = await self._copies.look(subject, (target,), copies)
        if overflow.final:
            await self._close(subject, target)
        return waits

    async def _close(self, subject: CardSource, target: str) -> None:
        """Forget a card that covers no request any more. The next overflow gets a new card."""
        copy = (await self._core.outbox.copies(subject.id)).get(target)
        if copy and (copy.state is not CopyState.POSTED or copy.revision >= subject.revision):
            await self._core.outbox.forget(subject.id, copy)


class OverflowSource(CardSource):
    """The content of an agent's overflow card, which has no reminders."""

    def __init__(self, overflow: Overflow, inbox: str, command: str) -> None:
        self.id = overflow.id
        self.agent = overflow.agent
        self.about = {"overflow": overflow.id}
        # The final state is shown at once.
        self.revision = overflow.revision + 1 if overflow.final else 1
        self.final = overflow.final
        # The number changes with the text: a cool-down also ends without an event.
        self.count = (
            None if overflow.final else 2 * overflow.revision + (overflow.paused is not None)
        )
        self._card = build_overflow_card(overflow, inbox, command)

    async def draw(self, copy: Copy | None = None) -> Card:
        """Return the overflow card to post."""
        return self._card


def build_overflow_card(overflow: Overflow, inbox: str, command: str) -> Card:
    """Build the overflow card, which has no buttons.

    The card links to the `inbox` if that has a public address. Otherwise it names the chat
    `command` that lists pending requests.
    """
    agent = quote_name(overflow.agent)
    said = _describe(overflow)
    listed = _list_oldest(overflow)
    return Card(
        request_id=overflow.id,
        short_id="",
        revision=overflow.revision,
        status=Status.PENDING,
        kind=Kind.TOOL,
        asks=False,
        paused=overflow.paused,
        inbox="" if overflow.final else inbox,
        state=_state(overflow),
        tool=agent,
        summary=own_summary(said),
        notification=said,
        headline=render_safe(said),
        facts=(Fact("Agent", agent),),
        risk=_risk(overflow),
        reasons=(),
        says=None,
        blocks=() if listed is None else (listed,),
        complete=True,
        size="",
        preview=None,
        changed=(),
        fields=(),
        notices=_notices(overflow, inbox, command),
        progress="",
        claimed="",
        created=overflow.records[0].created if overflow.records else 0,
        deadline=max((one.deadline for one in overflow.records), default=0),
        digest="",
        outcome=render_safe(said),
        decided_at=None,
        note=None,
        result=None,
        editable=None,
        controls=(),
    )


def _state(overflow: Overflow) -> CardState:
    if overflow.paused is not None:
        return CardState("⏸️", "Paused")
    if not overflow.records:
        return CardState("📭", "No requests are pending here")
    return CardState("📚", "Too many requests at once")


def _describe(overflow: Overflow) -> str:
    agent, count = overflow.agent, len(overflow.records)
    alone = count == 1
    requests, wait = ("request", "waits") if alone else ("requests", "wait")
    cards = "it gets a card" if alone else "they get cards"
    if overflow.paused is not None:
        paused = (
            f"people denied too many requests of {agent} in a row, so new ones are denied at once"
        )
        earlier = f"{count} from before still {wait}; {cards} when its budget allows"
        return f"{paused}; {earlier}" if count else paused
    if not count:
        return f"no request of {agent} waits here now, and it may ask again"
    return f"{count} more {requests} of {agent} {wait}; {cards} when its budget allows"


def _notices(overflow: Overflow, inbox: str, command: str) -> tuple[str, ...]:
    """Return the sentences that say what people can do."""
    agent, said = overflow.agent, []
    if overflow.paused is not None:
        said.append(
            "Each new request that people would have to decide is denied at once. Rules and "
            "grants still decide requests that they cover."
        )
        said.append(
            "An admin or an approver of this agent can let it ask again: in the inbox under "
            f"Sessions, or with gateway agent lift {agent}"
        )
    if overflow.records:
        by_command = command and not inbox
        count = len(overflow.records)
        what, they, lone = (
            ("the request that waits", "it is not", "it")
            if count == 1
            else (f"the {count} requests that wait", "none is", "them all")
        )
        where = f"{command} shows {what}" if by_command else f"Open the inbox to decide {what}"
        said.append(f"{where}; {they} of high risk.")
        said.append(f"To end {lone}: end {agent}'s sessions in the inbox.")
    return tuple(said)


def _risk(overflow: Overflow) -> RiskLevel:
    levels = {one.risk.level for one in overflow.records}
    return RiskLevel.MEDIUM if RiskLevel.MEDIUM in levels else RiskLevel.LOW


def _list_oldest(overflow: Overflow) -> Block | None:
    """Return the oldest requests, one line each."""
    if not overflow.records:
        return None
    lines = [_line(one) for one in overflow.records[:_LISTED]]
    if len(overflow.records) > _LISTED:
        lines.append([(f"… and {len(overflow.records) - _LISTED} more", False)])
    segments: list[Segment] = []
    for number, line in enumerate(lines):
        segments += [("\n", False)] if number else []
        segments += line
    text = Visible(tuple(segments))
    return Block("The oldest of them", "text", text, len(lines), len(text.text))


def _line(record: StoredRequest) -> list[Segment]:
    tool, first = (
        quote_name(start_of(record.request.tool, _LINE_CHARS)),
        headline(record, _LINE_CHARS),
    )
    alike = f" (and {record.alike} the same)" if record.alike else ""
    found: list[Segment] = []
    for one in warnings(record)[:1]:
        found += [(f"{finding_sign(alarms=record.alarms)} ", False), *one.segments, (" · ", False)]
    return [*found, *tool.segments, (": ", False), *first.segments, (alike, False)]
