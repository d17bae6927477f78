"""Several waiting requests of one agent, decided by one answer: all of them, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway.approvals.decisions import TOLD, TOO_LATE, TRIES, Clicks
from gateway.approvals.transitions import Effect
from gateway.approvals.writer import Writer
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Click, Record
from gateway.domain.store import Outcome, Store
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

Step = tuple[Record, Effect, PolicyDocument]


class Batches:
    """Judges each click of a batch as if it came alone, and has one script apply them."""

    def __init__(self, store: Store, writer: Writer, clicks: Clicks) -> None:
        self._store = store
        self._writer = writer
        self._clicks = clicks

    async def decide(self, clicks: Sequence[Click]) -> list[Record]:
        """Apply the clicks, all or none. See `gateway.ports.Desk` for what it raises."""
        _check(clicks)
        clicks = _bound(clicks)
        for _ in range(TRIES):
            records, steps = await self._judged(clicks)
            if not steps:
                return records  # it was this very batch that decided them
            await self._reveal(clicks, steps)
            outcome, which = await self._writer.apply_all(steps)
            if outcome == Outcome.OK:
                changed = {record.id: effect.after for record, effect, _ in steps}
                return [changed.get(record.id, record) for record in records]
            if outcome in TOO_LATE:
                raise BatchRefused({which: TOO_LATE[outcome]})
            if outcome == Outcome.AGAIN:
                self._writer.forget_policy()
        raise Unreachable("the requests keep changing")

    async def _reveal(self, clicks: Sequence[Click], steps: Sequence[Step]) -> None:
        """Raise BatchRefused when an approval counts a canary in: then it alone is ended.

        Who did not see what one item would do has not read the others either.
        """
        canaries = {record.id for record, _, _ in steps if record.canary}
        for click in clicks:
            if click.request_id in canaries and click.action is Action.APPROVE:
                try:
                    await self._clicks.decide(click)
                except WasCanary as told:
                    raise BatchRefused({click.request_id: str(told)}) from None

    async def _judged(self, clicks: Sequence[Click]) -> tuple[list[Record], list[Step]]:
        """Return the requests, and what the clicks do to those that they have not decided yet."""
        found = await self._store.load_many([click.request_id for click in clicks])
        if len({record.request.agent for record in found if record}) > 1:
            raise InvalidRequest("a batch is of one agent")
        records: list[Record] = []
        steps: list[Step] = []
        refused: dict[str, str] = {}
        for record, click in zip(found, clicks, strict=True):
            try:
                step = await self._step(record, click)
            except Unreachable:
                raise
            except GatewayError as refusal:
                await self._clicks.note(refusal, click)
                refused[click.request_id] = str(refusal)
                continue
            records.append(step[0])
            if step[1] is not None:
                steps.append((step[0], step[1], step[2]))
        if refused:
            raise BatchRefused(refused)
        return records, steps

    async def _step(
        self, record: Record | None, click: Click
    ) -> tuple[Record, Effect | None, PolicyDocument]:
        if record is None:
            raise NotFound("no such request")
        if record.risk.level is RiskLevel.HIGH:
            raise InvalidRequest("it is high risk, which is decided alone")
        policy, effect, _ = await self._clicks.effect(record, click)
        if effect is None and record.canary and click.action is Action.APPROVE:
            raise WasCanary(TOLD[Reason.CANARY_MISSED])
        return record, effect, policy


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


def _bound(clicks: Sequence[Click]) -> list[Click]:
    """Return the clicks with a nonce that names this batch: a part of it is another batch."""
    named = sorted(f"{click.request_id} {click.revision} {click.nonce}" for click in clicks)
    nonce = sha256_hex(" ".join((clicks[0].action, *named)).encode())
    return [replace(click, nonce=nonce) for click in clicks]
