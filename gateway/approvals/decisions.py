"""Decides on clicks: rights are checked at that moment, and one decision at most results."""

from __future__ import annotations

from dataclasses import replace

from gateway.approvals.aborted_turns import end_siblings
from gateway.approvals.grant_creation import GrantCreation
from gateway.approvals.transitions import (
    Clicker,
    ClickResult,
    apply_click,
    edit_record,
    hand_on,
    nonce_of,
)
from gateway.approvals.writer import Writer, raised_data
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Click, Record, told_edits, told_outcome
from gateway.domain.store import Store, Transition
from gateway.errors import (
    Conflict,
    GatewayError,
    InvalidRequest,
    Unauthorized,
    Unconfirmed,
    WasCanary,
)
from gateway.models import Action, Reason, RiskLevel, Status
from gateway.policy.authorization import (
    Approver,
    approver,
    may_approve,
    who_may_approve,
    with_valid_votes,
)
from gateway.policy.chain import ALLOW, ASK, MODIFY, Chain
from gateway.policy.grants.grant import Grant
from gateway.policy.guardrails import assess, weigh
from gateway.ports.blocks import draw, weight_of
from gateway.ports.desk import Groups
from gateway.ports.proven_masks import NEEDS_ALL_SEEN, MaskProofs
from gateway.ports.standing import standing_of
from gateway.wire.codec import JsonObject, plain

TOLD = {
    Reason.CANARY_MISSED: (
        "This was a test by the gateway, which asks now and then for something dangerous to see "
        "whether it is read. You approved it; nothing ran. It happens to all of us: look a moment "
        "longer next time"
    ),
    Reason.CANARY_CAUGHT: (
        "Well seen: this was a test by the gateway, and nothing was going to run"
    ),
}


async def with_groups(click: Click, groups: Groups) -> Click:
    """Return the click of the same person, who is in these groups."""
    return replace(click, identity=replace(click.identity, groups=await groups()))


class ClickJudge:
    """Decides on clicks, under the policy as it is now."""

    def __init__(
        self,
        store: Store,
        chain: Chain,
        writer: Writer,
        remembering: GrantCreation,
        proofs: MaskProofs,
    ) -> None:
        self._store = store
        self._chain = chain
        self._writer = writer
        self._remembering = remembering
        self._proofs = proofs

    async def decide(self, click: Click, groups: Groups | None = None) -> Record:
        """Apply a click. See `gateway.ports.RequestCalls` for what it raises."""
        grant: Grant | None = None

        async def decide(record: Record) -> Transition | None:
            nonlocal click, grant, groups
            try:
                transition, grant = await self.judge(record, click, last=groups is None)
            except Unauthorized:
                if groups is None:
                    raise
                click, groups = await with_groups(click, groups), None
                transition, grant = await self.judge(record, click)
            return transition

        known = self._store.recent(click.request_id)
        try:
            record, _ = await self._writer.update(click.request_id, decide, known=known)
        except GatewayError as refusal:
            await self.note(refusal, click)
            raise
        return await self._remember(record, grant)

    async def _remember(self, record: Record, grant: Grant | None) -> Record:
        """Write down what is to be remembered, now that it is decided, and end what was stopped
        with it; return the record.

        When that fails the click is retried as a whole, and only this part happens then. Who
        answered a canary is told so, privately, as of a refusal: raises WasCanary.
        """
        if record.canary and record.decision is not None:
            raise WasCanary(TOLD[record.decision.reason])
        if grant is not None:
            await self._remembering.keep(grant)
        await end_siblings(self._store, self._writer, record)
        return record

    async def judge(
        self, record: Record, click: Click, *, last: bool = True
    ) -> tuple[Transition | None, Grant | None]:
        """Return what a click does to a record, None when it did so before, and the grant to
        remember it by. Raises as `decide` does.

        Unless it is the `last` look, who may not is asked about again, with their groups.
        """
        policy, who = await self._approver(record, click, last=last)
        nonce = nonce_of(click, who.name)
        if nonce in record.nonces:
            # Only what decided is remembered; a vote sent again waits for others as before.
            decided = record.final and record.nonces[-1] == nonce
            if not decided:
                return None, None
            return None, self._remembering.plan_grant(policy, record, click, who, nonce)
        if record.final:
            raise Conflict(f"this was decided already: {told_outcome(record)}")
        await self._refuse_hidden(record, click)
        counted = with_valid_votes(policy, who.route, record)
        by = Clicker(who.name, who.via, nonce)
        edited = await self._edit(counted, click, by, policy)
        if edited is not None:
            if not may_approve(policy, edited, click.identity):
                return _step(record, hand_on(edited, by), policy), None
            who = _check_edited(edited, click, policy)
        effect = apply_click(
            counted,
            click,
            by,
            now=self._writer.now(),
            sign=self._writer.sign,
            wished=lambda shown: self._remembering.check_wish(policy, shown, click, who),
            again=_waits_for(policy, counted, who.name),
            edited=edited,
        )
        after = effect.after
        grant = None
        if after.final:
            grant = self._remembering.plan_grant(policy, after, click, who, nonce)
        return _step(record, effect, policy), grant

    async def _approver(
        self, record: Record, click: Click, *, last: bool
    ) -> tuple[PolicyDocument, Approver]:
        """Return who clicked, if they may decide, and under which policy; the last refusal is
        checked afresh."""
        policy = await self._writer.policy()
        try:
            return policy, approver(policy, record, click.identity)
        except Unauthorized:
            if not last:
                raise
            policy = await self._writer.fresh_policy()
        return policy, approver(policy, record, click.identity)

    async def note(self, refusal: GatewayError, click: Click) -> None:
        """Audit that someone clicked who may not."""
        if isinstance(refusal, Unauthorized):
            data = {"request_id": click.request_id, "why": str(refusal)}
            await self._store.note("refused", agent=click.identity.written, data=data)

    async def _edit(
        self, record: Record, click: Click, by: Clicker, policy: PolicyDocument
    ) -> Record | None:
        """Return the record as a click edits it, assessed as if the agent had asked so; None for
        another click. Raises when policy does not allow what would run then."""
        if click.action is not Action.EDIT or record.canary:
            return None
        after = assess(edit_record(record, click, by), policy)
        request = replace(after.request, arguments=after.arguments)
        route = policy.route_for(request.agent, request.tool)
        # Hooks are asked all that they are asked then.
        asked = replace(after, request=request, edited=None)
        judged, verdict = await self._chain.decide(asked, route)
        if verdict is not None and verdict.effect not in (ALLOW, ASK):
            wants = "would change" if verdict.effect == MODIFY else "refuses"
            why = f": {verdict.message}" if verdict.message else ""
            raise InvalidRequest(f"{verdict.by.name} {wants} the edited arguments{why}")
        if judged.raised == after.raised:
            return after
        return weigh(after.copy_with(raised=judged.raised), policy)

    async def _refuse_hidden(self, record: Record, click: Click) -> None:
        """Raise InvalidRequest when a mask left out what could act, where this click was made."""
        if click.revealed or click.action not in NEEDS_ALL_SEEN:
            return
        known = self._proofs.recall(record)
        if known is None:
            known = await draw(lambda: self._proofs.hides(record), *weight_of(record))
        if known:
            raise InvalidRequest(
                "a masked part of this could act, so it is approved in the inbox only, once it is "
                "revealed there (`gateway login NAME` prints a link to the inbox)"
            )


def _waits_for(policy: PolicyDocument, record: Record, name: str) -> str:
    """Say to who has voted who is missing."""
    if not record.votes:
        return ""
    seen = record.copy_with(approvers=who_may_approve(policy, record))
    return standing_of(seen, name).words


def _step(record: Record, effect: ClickResult, policy: PolicyDocument) -> Transition:
    """Return a click's effect as a transition, under the policy it was checked against."""
    after = effect.after
    return Transition(
        before=record,
        after=after,
        event=effect.event,
        data=_event_data(after),
        clock="before",
        generation=policy.generation,
        stoppable=after.status in (Status.PENDING, Status.APPROVED),
        secrets=effect.secrets,
        budget=None if after.canary else policy.budget_for(after.request.agent),
    )


def _check_edited(after: Record, click: Click, policy: PolicyDocument) -> Approver:
    """Return who edits, by the rules for what would run then. Raises Unconfirmed or Unauthorized
    where it is of high risk, and this click not enough for that."""
    if after.risk.level is RiskLevel.HIGH and not click.confirmed:
        raise Unconfirmed("the edited arguments are high risk: confirm them")
    return approver(policy, after, click.identity)


def _event_data(after: Record) -> JsonObject:
    """Return what the event of a vote says; that of an ending says what its decision says."""
    if after.final:
        return {}
    return {
        "digest": after.digest,
        "votes": plain(after.votes),
        **raised_data(after),
        **told_edits(after),
    }
