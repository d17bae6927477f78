"""Explain how a call would be decided (`Explanations`). Nothing is sent to people or stored."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.approvals.agent_service import Approvals
from gateway.approvals.grant_lifecycle import GrantLifecycle
from gateway.approvals.request_writer import Writer
from gateway.domain.records import Identity, StoredRequest
from gateway.domain.risk import StepUp, lift
from gateway.domain.store import Store
from gateway.errors import Unauthorized
from gateway.models import ApprovalRequest, Risk
from gateway.policy.calls.argument_roles import VARYING
from gateway.policy.calls.call_effects import Leaf, effects_of
from gateway.policy.chain import DENY, Opinion, find_decisive
from gateway.policy.grants.coverage import covers, what_differs
from gateway.policy.grants.grant import Effect, Grant, MatchResult, Shape
from gateway.policy.guardrails import find_dangers
from gateway.wire.codec import Wire, build, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedValue(Wire):
    """How one argument value is classified, by which source, and when a grant lets it vary."""

    address: str
    role: str
    said_by: str
    varies: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFinding(Wire):
    """A guardrail finding, and the argument whose value caused it."""

    place: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedGrant(Wire):
    """A grant for the tool. `differs` says why it does not cover the call; None if the grant covers
    the call."""

    id: str
    words: str
    differs: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Wire):
    """The outcome that a call would have, each decider's verdict, and the people who would decide.

    `step_up` lists the kinds of extra verification, of which an approval needs one; it is empty if
    a click is enough. `origin_refused` says why no card is posted in the agent's conversation.
    `uncertainties` are values that were not understood. `stopped` means that the kill switch is on.
    `known` says whether the agent exists.
    """

    digest: str
    stopped: bool
    risk: Risk
    route: str
    targets: tuple[str, ...]
    approvers: tuple[str, ...]
    quorum: int
    arguments: tuple[ExplainedValue, ...]
    uncertainties: tuple[str, ...]
    findings: tuple[ExplainedFinding, ...]
    grants: tuple[ExplainedGrant, ...]
    deciders: tuple[Opinion, ...]
    result: str
    step_up: tuple[StepUp, ...] = ()
    known: bool = True
    origin_refused: str = ""


class Explanations:
    """Explains how this gateway would decide calls, with its configured hooks and deciders."""

    def __init__(
        self, store: Store, writer: Writer, approvals: Approvals, grants: GrantLifecycle
    ) -> None:
        self._store = store
        self._writer = writer
        self._approvals = approvals
        self._grants = grants

    async def explain(self, identity: Identity, request: ApprovalRequest) -> Explanation:
        """Return how a call would be decided, with secrets masked.

        Raises Unauthorized unless the person is an admin.
        """
        policy = await self._writer.fresh_policy()
        if not policy.may_read_all(identity):
            raise Unauthorized("only an admin may see how calls would be decided")
        opinions = await self._approvals.explain(request)
        stopped = await self._store.is_stopped() is not False
        record = await self._approvals.draft(request)
        every = await self._grants.all()
        grants = [one for one in every if _is_about(one, record)]
        yes = MatchResult.YES
        denied = [one.words for one in every if one.told and covers(one, record) is yes]
        risk = lift(record.risk, [raised for one in opinions for raised in one.raised])
        base = policy.route_for(request.agent, request.tool)
        route, ruling = base.at(risk.level), policy.ruling_on(request)
        decided = find_decisive(opinions)
        result = f"{decided.effect} by {decided.decider}" if decided else "people are asked"
        if denied and (decided is None or decided.effect != DENY):
            result = f"deny: {denied[0]}"
        touched, dangers = effects_of(record), find_dangers(record, policy.own_domains)
        made = Explanation(
            digest=request.digest,
            stopped=stopped,
            risk=risk,
            route=route.name,
            targets=ruling.places(record),
            origin_refused=ruling.find_conversation(request)[1],
            approvers=route.approvers,
            quorum=route.quorum,
            step_up=base.step_up(risk.level),
            arguments=tuple(_describe(leaf) for one in touched for leaf in one.leaves),
            uncertainties=tuple(
                f"{one.address}: {one.words}" for call in touched for one in call.uncertainties
            ),
            findings=tuple(ExplainedFinding(place=one.place, words=one.words) for one in dangers),
            grants=tuple(
                ExplainedGrant(id=one.id, words=one.words, differs=what_differs(one, record))
                for one in grants
            ),
            deciders=tuple(opinions),
            result="denied: the kill switch is on" if stopped else result,
        )
        return build(Explanation, record.hide_in(plain(made)))


def _is_about(grant: Grant, record: StoredRequest) -> bool:
    """Return whether an approving grant might cover the call if the arguments are ignored."""
    request = record.request
    near = (grant.agent, grant.match.tool) == (request.agent, request.tool)
    understood = grant.match.shape is Shape.PATTERN or grant.line is not None
    allows = grant.effect is Effect.ALLOW and understood
    return near and allows and grant.session in (None, request.session)


def _describe(leaf: Leaf) -> ExplainedValue:
    if leaf.free:
        varies = "may differ"
    elif leaf.role in VARYING:
        varies = "may differ as far as a grant's rule permits"
    else:
        varies = "must stay the same"
    return ExplainedValue(
        address=leaf.address, role=leaf.role.value, said_by=leaf.source.value, varies=varies
    )
