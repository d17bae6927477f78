"""The digest card: what people see of an agent's requests that wait for cards of their own, kept
true wherever it stands."""

from __future__ import annotations

from dataclasses import replace

from gateway.blocks import Block, headline
from gateway.cards import Card, Fact
from gateway.clock import Clock
from gateway.copies import Copies, Subject
from gateway.delivery import Copy, CopyState, Outbox, Posts
from gateway.desk import FrontDesk
from gateway.holding import Crowd
from gateway.masking import shown
from gateway.models import Kind, RiskLevel, Status
from gateway.records import Record
from gateway.visible import Segment, Visible

_LISTED = 5
_LINE_CHARS = 100
_DOUBT_MS = 30_000


class Crowds:
    """Looks at one agent's digest card at a time, for one adapter that posts."""

    def __init__(
        self, adapter: Posts, desk: FrontDesk, outbox: Outbox, clock: Clock, copies: Copies
    ) -> None:
        self._adapter = adapter
        self._desk = desk
        self._outbox = outbox
        self._clock = clock
        self._copies = copies

    async def look(self, agent: str) -> float | None:
        """Make an agent's digest card true wherever it stands, or should stand."""
        crowd, policy = await self._desk.holding.crowd(agent), await self._desk.policy()
        copies = await self._outbox.copies(crowd.id)
        there = [
            (one, policy.route_for(agent, one.request.tool).places(one.tier))
            for one in crowd.records
        ]
        targets = {place for _, places in there for place in places} | copies.keys()
        waits = []
        for target in sorted(filter(self._copies.is_ours, targets)):
            here = tuple(one for one, places in there if target in places)
            waits += await self._at(replace(crowd, records=here), target, copies.get(target))
        return min(waits) if waits else None

    async def _at(self, crowd: Crowd, target: str, known: Copy | None) -> list[float]:
        subject = self._subject(crowd)
        if known is not None and self._in_doubt(known) and not crowd.final:
            # No click will tell whether it stands there: one too many is better than a crowd that
            # nobody hears of.
            rest = known.at + _DOUBT_MS - self._clock.now_ms()
            if rest > 0:
                return [rest / 1000]
            await self._outbox.forget(crowd.id, known)
            known = None
        copies = {} if known is None else {target: known}
        waits = await self._copies.look(subject, (target,), copies)
        if crowd.final:
            await self._close(subject, target)
        return waits

    def _in_doubt(self, copy: Copy) -> bool:
        return copy.state is CopyState.INTENDED and not self._adapter.repeatable

    async def _close(self, subject: Subject, target: str) -> None:
        """Forget a copy that has come to say that none waits: the next crowd gets a new one."""
        copy = (await self._outbox.copies(subject.id)).get(target)
        if copy and (copy.state is not CopyState.POSTED or copy.revision >= subject.revision):
            await self._outbox.forget(subject.id, copy)

    def _subject(self, crowd: Crowd) -> Subject:
        card, adapter = digest_card(crowd), self._adapter

        async def noted(event: str, copy: Copy, why: str) -> None:
            await self._desk.note(event, crowd.agent, {"crowd": crowd.id}, copy, why)

        async def remind(copy: Copy) -> None:
            raise AssertionError("a digest card is not reminded of")

        return Subject(
            id=crowd.id,
            # The last number is shown at once.
            revision=crowd.revision + 1 if crowd.final else 1,
            reminders=0,
            final=crowd.final,
            count=None if crowd.final else crowd.revision,
            deliver=lambda target, nonce: adapter.deliver(target, card, nonce),
            update=lambda ref, nonce: adapter.update(ref, card, nonce),
            remind=remind,
            noted=noted,
            stands=lambda copy: None,
        )


def digest_card(crowd: Crowd) -> Card:
    """Return the card that stands for a crowd. Nothing is decided on it."""
    count, agent = len(crowd.records), shown(crowd.agent)
    word = "All of them are out" if crowd.final else "Too many at once"
    said = _said(count, crowd.agent)
    listed = _listed(crowd)
    return Card(
        request_id=crowd.id,
        short_id="",
        revision=crowd.revision,
        status=Status.PENDING,
        kind=Kind.TOOL,
        asks=False,
        icon="📭" if crowd.final else "📚",
        word=word,
        tool=agent,
        summary=said,
        headline=shown(said),
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
        notices=()
        if crowd.final
        else (
            "Open the inbox to see and decide them all. High risk is never among them.",
            f"To end them all: end {crowd.agent}'s sessions in the inbox.",
        ),
        progress="",
        claimed="",
        created=crowd.records[0].created if crowd.records else 0,
        deadline=max((one.deadline for one in crowd.records), default=0),
        digest="",
        outcome=shown(said),
        decided_at=None,
        note=None,
        result=None,
        editable=None,
        controls=(),
    )


def _said(count: int, agent: str) -> str:
    if not count:
        return f"no more requests of {agent} wait for a card"
    requests = "request" if count == 1 else "requests"
    return f"{count} more {requests} of {agent} wait; they get cards as its budget allows"


def _risk(crowd: Crowd) -> RiskLevel:
    levels = {one.risk.level for one in crowd.records}
    return RiskLevel.MEDIUM if RiskLevel.MEDIUM in levels else RiskLevel.LOW


def _listed(crowd: Crowd) -> Block | None:
    """Return the oldest of a crowd, a line each."""
    if crowd.final:
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
    tool, first = shown(record.request.tool[:_LINE_CHARS]), headline(record, _LINE_CHARS)
    alike = f" (and {record.alike} the same)" if record.alike else ""
    return [*tool.segments, (": ", False), *first.segments, (alike, False)]
