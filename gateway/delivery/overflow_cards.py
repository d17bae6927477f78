"""The digest card: what people see of an agent's requests that wait for cards of their own, and of
an agent that is paused. It is kept true wherever it stands."""

from __future__ import annotations

from dataclasses import replace

from gateway.approvals.duplicates_and_overflow import AgentGroup
from gateway.approvals.services import Core
from gateway.cards.blocks import Block, headline, quote_name, warnings
from gateway.cards.card import Card, CardState, Fact
from gateway.cards.summary import our_head
from gateway.delivery.posting_and_editing import CardCopies, CardSource
from gateway.domain.records import Record
from gateway.domain.redaction import render_safe, start_of
from gateway.domain.risk import finding_sign
from gateway.domain.safe_text import Segment, Visible
from gateway.domain.time_and_tasks import Clock
from gateway.models import Kind, RiskLevel, Status
from gateway.ports import Adapter, Desk
from gateway.ports.outgoing import Copy, CopyState

_LISTED = 5
_LINE_CHARS = 100
_DOUBT_MS = 30_000
_LEAST_REST = 1.0  # the server's clock, by which a pause ends, may be behind ours


class OverflowCards:
    """Looks at one agent's overflow at a time, for one adapter that posts."""

    def __init__(
        self, adapter: Adapter, desk: Desk, core: Core, clock: Clock, copies: CardCopies
    ) -> None:
        self._adapter = adapter
        self._inbox = desk.inbox
        self._core = core
        self._clock = clock
        self._copies = copies

    async def look(self, agent: str) -> list[float]:
        """Make an agent's card true wherever it stands, or should stand."""
        crowd, policy = await self._core.holding.crowd(agent), await self._core.writer.policy()
        copies = await self._core.outbox.copies(crowd.id)
        about = (*crowd.records, *((crowd.denied,) if crowd.denied else ()))
        there = [(one, policy.route_for(agent, one.request.tool).places(one.tier)) for one in about]
        targets = {place for _, places in there for place in places} | copies.keys()
        waits = []
        if crowd.paused is not None:
            waits.append(max(_LEAST_REST, (crowd.paused - self._clock.now_ms()) / 1000))
        for target in sorted(filter(self._copies.is_ours, targets)):
            here = tuple(
                one for one, places in there if target in places and one is not crowd.denied
            )
            waits += await self._at(replace(crowd, records=here), target, copies.get(target))
        return waits

    async def _at(self, crowd: AgentGroup, target: str, known: Copy | None) -> list[float]:
        subject = OverflowSource(crowd, self._inbox, self._adapter.list_command)
        if known is not None and self._copies.is_in_doubt(known) and not crowd.final:
            # No click will tell whether it stands there: one too many is better than a crowd that
            # nobody hears of.
            rest = known.at + _DOUBT_MS - self._clock.now_ms()
            if rest > 0:
                return [rest / 1000]
            await self._core.outbox.forget(crowd.id, known)
            known = None
        copies = {} if known is None else {target: known}
        waits = await self._copies.look(subject, (target,), copies)
        if crowd.final:
            await self._close(subject, target)
        return waits

    async def _close(self, subject: CardSource, target: str) -> None:
        """Forget a copy that has come to say that none waits: the next crowd gets a new one."""
        copy = (await self._core.outbox.copies(subject.id)).get(target)
        if copy and (copy.state is not CopyState.POSTED or copy.revision >= subject.revision):
            await self._core.outbox.forget(subject.id, copy)


class OverflowSource(CardSource):
    """What the copies of an agent's overflow show. Nobody is reminded of it."""

    def __init__(self, crowd: AgentGroup, inbox: str, command: str) -> None:
        self.id = crowd.id
        self.agent = crowd.agent
        self.about = {"crowd": crowd.id}
        # The last number is shown at once.
        self.revision = crowd.revision + 1 if crowd.final else 1
        self.final = crowd.final
        # Another number whenever it says something else: a pause also ends by itself.
        self.count = None if crowd.final else 2 * crowd.revision + (crowd.paused is not None)
        self._card = digest_card(crowd, inbox, command)

    async def draw(self, copy: Copy | None = None) -> Card:
        """Return the card."""
        return self._card


def digest_card(crowd: AgentGroup, inbox: str, command: str) -> Card:
    """Return the card that stands for a crowd. Nothing is decided on it.

    It leads to the `inbox`, where that has an address that people can open, or else names the
    `command` that lists what waits where the card stands.
    """
    agent = quote_name(crowd.agent)
    said = _describe(crowd)
    listed = _list_oldest(crowd)
    return Card(
        request_id=crowd.id,
        short_id="",
        revision=crowd.revision,
        status=Status.PENDING,
        kind=Kind.TOOL,
        asks=False,
        paused=crowd.paused,
        inbox="" if crowd.final else inbox,
        state=_state(crowd),
        tool=agent,
        head=our_head(said),
        summary=said,
        headline=render_safe(said),
        facts=(Fact("Agent", agent),),
        risk=_risk(crowd),
        reasons=(),
        says=None,
        blocks=() if listed is None else (listed,),
        complete=True,
        size="",
        preview=None,
        changed=(),
        fields=(),
        notices=_notices(crowd, inbox, command),
        progress="",
        claimed="",
        created=crowd.records[0].created if crowd.records else 0,
        deadline=max((one.deadline for one in crowd.records), default=0),
        digest="",
        outcome=render_safe(said),
        decided_at=None,
        note=None,
        result=None,
        editable=None,
        controls=(),
    )


def _state(crowd: AgentGroup) -> CardState:
    if crowd.paused is not None:
        return CardState("⏸️", "Paused")
    if not crowd.records:
        return CardState("📭", "Nothing waits here")
    return CardState("📚", "Too many at once")


def _describe(crowd: AgentGroup) -> str:
    agent, count = crowd.agent, len(crowd.records)
    alone = count == 1
    requests, wait = ("request", "waits") if alone else ("requests", "wait")
    cards = "it gets a card" if alone else "they get cards"
    if crowd.paused is not None:
        paused = f"people denied too many requests of {agent} in a row, so new ones ask nobody"
        earlier = f"{count} asked before still {wait}; {cards} as its budget allows"
        return f"{paused}; {earlier}" if count else paused
    if not count:
        return f"no request of {agent} waits for a card any more, and it may ask again"
    return f"{count} more {requests} of {agent} {wait}; {cards} as its budget allows"


def _notices(crowd: AgentGroup, inbox: str, command: str) -> tuple[str, ...]:
    """Say how people go on from here."""
    agent, said = crowd.agent, []
    if crowd.paused is not None:
        said.append(
            "Each new request that people would have to decide is denied at once. Rules and "
            "remembered decisions still decide theirs."
        )
        said.append(
            "An admin, or an approver of this agent, lets it ask again: in the inbox under "
            f"Sessions, or with gateway agent lift {agent}"
        )
    if crowd.records:
        by_command = command and not inbox
        count = len(crowd.records)
        what, they, lone = (
            ("the request that waits", "it is not", "it")
            if count == 1
            else (f"the {count} requests that wait", "none is", "them all")
        )
        where = f"{command} shows {what}" if by_command else f"Open the inbox to decide {what}"
        said.append(f"{where}; {they} of high risk.")
        said.append(f"To end {lone}: end {agent}'s sessions in the inbox.")
    return tuple(said)


def _risk(crowd: AgentGroup) -> RiskLevel:
    levels = {one.risk.level for one in crowd.records}
    return RiskLevel.MEDIUM if RiskLevel.MEDIUM in levels else RiskLevel.LOW


def _list_oldest(crowd: AgentGroup) -> Block | None:
    """Return the oldest of a crowd, a line each."""
    if not crowd.records:
        return None
    lines = [_line(one) for one in crowd.records[:_LISTED]]
    if len(crowd.records) > _LISTED:
        lines.append([(f"… and {len(crowd.records) - _LISTED} more", False)])
    segments: list[Segment] = []
    for number, line in enumerate(lines):
        segments += [("\n", False)] if number else []
        segments += line
    text = Visible(tuple(segments))
    return Block("The oldest of them", "text", text, len(lines), len(text.text))


def _line(record: Record) -> list[Segment]:
    tool, first = (
        quote_name(start_of(record.request.tool, _LINE_CHARS)),
        headline(record, _LINE_CHARS),
    )
    alike = f" (and {record.alike} the same)" if record.alike else ""
    found: list[Segment] = []
    for one in warnings(record)[:1]:
        found += [(f"{finding_sign(alarms=record.alarms)} ", False), *one.segments, (" · ", False)]
    return [*found, *tool.segments, (": ", False), *first.segments, (alike, False)]
