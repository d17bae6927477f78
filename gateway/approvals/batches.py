"""Decides several waiting requests of one agent by one answer: all of them, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway.approvals.decisions import TOLD, ClickJudge
from gateway.approvals.writer import Overtaken, Writer
from gateway.domain.records import Click, Record
from gateway.domain.store import Transition
from gateway.errors import (
    BatchRefused,
    GatewayError,
    InvalidRequest,
    NotFound,
    Unreachable,
    WasCanary,
)
from gateway.models import Action, Reason, RiskLevel
from gateway.wire.canonical_json import sha256_hex

MOST = 50  # what a person may be asked to read in one go, and what one script decides

_ANSWERS = (Action.APPROVE, Action.DENY)


class Batches:
    """Judges each click of a batch as if it came alone, and has one script apply them."""

    def __init__(self, writer: Writer, clicks: ClickJudge) -> None:
        self._writer = writer
        self._clicks = clicks

    async def decide(self, clicks: Sequence[Click]) -> list[Record]:
        """Apply the clicks, all or none. See `gateway.ports.RequestCalls` for what it raises."""
        _check(clicks)
        clicks = _bind(clicks)

        async def decide(found: Sequence[Record | None]) -> Sequence[Transition]:
            transitions = await self._judge(clicks, found)
            await self._reveal(clicks, transitions)
            return transitions

        try:
            return await self._writer.update_all([one.request_id for one in clicks], decide)
        except Overtaken as late:
            raise BatchRefused({late.request_id: str(late)}) from None

    async def _reveal(self, clicks: Sequence[Click], transitions: Sequence[Transition]) -> None:
        """Raise BatchRefused when an approval counts a canary in: then it alone is ended.

        Who did not see what one item would do has not read the others either.
        """
        canaries = {one.before.id for one in transitions if one.before.canary}
        for click in clicks:
            if click.request_id in canaries and click.action is Action.APPROVE:
                try:
                    await self._clicks.decide(click)
                except WasCanary as told:
                    raise BatchRefused({click.request_id: str(told)}) from None

    async def _judge(
        self, clicks: Sequence[Click], found: Sequence[Record | None]
    ) -> list[Transition]:
        """Return what the clicks do to those of the requests that they have not decided yet."""
        if len({record.request.agent for record in found if record}) > 1:
            raise InvalidRequest("a batch is of one agent")
        transitions: list[Transition] = []
        refused: dict[str, str] = {}
        for record, click in zip(found, clicks, strict=True):
            try:
                transition = await self._judge_one(record, click)
            except Unreachable:
                raise
            except GatewayError as refusal:
                await self._clicks.note(refusal, click)
                refused[click.request_id] = str(refusal)
                continue
            if transition is not None:
                transitions.append(transition)
        if refused:
            raise BatchRefused(refused)
        return transitions

    async def _judge_one(self, record: Record | None, click: Click) -> Transition | None:
        if record is None:
            raise NotFound("no such request")
        policy = await self._writer.policy()
        approves = click.action is not Action.DENY
        if approves and policy.step_up_of(record).asked:
            raise InvalidRequest("it takes a step-up, which is done alone")
        if approves and record.risk.level is RiskLevel.HIGH:
            raise InvalidRequest("it is high risk, which is decided alone")
        transition = (await self._clicks.judge(record, click)).transition
        if transition is None and record.canary and click.action is Action.APPROVE:
            raise WasCanary(TOLD[Reason.CANARY_MISSED])
        return transition


def _check(clicks: Sequence[Click]) -> None:
    if not 1 <= len(clicks) <= MOST:
        raise InvalidRequest(f"a batch is of 1 to {MOST} requests")
    if len({click.request_id for click in clicks}) < len(clicks):
        raise InvalidRequest("a request stands twice in the batch")
    first = clicks[0]
    if any((one.identity, one.action) != (first.identity, first.action) for one in clicks):
        raise InvalidRequest("a batch is one answer of one person")
    if first.action not in _ANSWERS or any(click.remember for click in clicks):
        raise InvalidRequest("a batch is approved or denied, and not remembered")


def _bind(clicks: Sequence[Click]) -> list[Click]:
    """Return the clicks with a nonce that names this batch: a part of it is another batch."""
    named = sorted(f"{click.request_id} {click.revision} {click.nonce}" for click in clicks)
    nonce = sha256_hex(" ".join((clicks[0].action, *named)).encode())
    return [replace(click, nonce=nonce) for click in clicks]
