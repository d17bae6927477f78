"""The policy chain: ask the deciders in order and use the first answer. If none answers, people
decide.

Start reading at `judge`, which runs the chain for a request and returns its outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from gateway.domain.parsing import check_schema
from gateway.domain.policy_document import Mode, Route, Ruling
from gateway.domain.records import REVIEWS, RequestOutcome, StoredRequest
from gateway.domain.redaction import start_of
from gateway.domain.risk import RaisedRisk, is_lower, lift
from gateway.errors import GatewayError, InvalidRequest
from gateway.models import Action, DecidedBy, DeciderKind, Reason, RiskLevel, Status
from gateway.policy.authorization import NO_STEP_UP
from gateway.policy.guardrails import assess, calculate_risk
from gateway.policy.verdict import Decider, Verdict
from gateway.wire.codec import Wire

log = logging.getLogger("gateway.policy")

_MOST_WORDS = 2000  # characters of a hook's reason that are stored with the request

ALLOW, DENY, ASK = "allow", "deny", "ask"
MODIFY, RESPOND = "modify", "respond"
CONTINUE = "continue"  # no opinion, but perhaps a higher risk
NO_OPINION, FAILED = "no opinion", "failed"  # further effects in `gateway explain`
HOOKS_PRIORITY = 800
LATER = "later"  # a slow decider is asked once the request is stored
HIGH_RISK = "would approve it, but a person must approve high-risk requests"
DEMANDED = "would decide it, but the agent requires a person"
A_PERSON = "a person must decide, because the agent requires it"

_MOST_REASONS, _MOST_REASON = 8, 300


class ChainResult(NamedTuple):
    """The record, with the risk that deciders raised, and the verdict. A verdict of None means that
    people decide."""

    record: StoredRequest
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion(Wire):
    """One decider's answer to one request, and the risk that it raised, for `gateway explain`."""

    decider: str
    priority: int
    effect: str
    message: str = ""
    raised: tuple[RaisedRisk, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow(Wire):
    """A report-only rule, with the effect that it would have had and the reason."""

    rule: str
    effect: str
    why: str = ""


class Chain:
    """Asks deciders in order of priority, highest first. A decider fails if it takes longer than
    its own `seconds` or, if it has none, the chain's."""

    def __init__(self, deciders: Iterable[Decider], *, seconds: float = 5.0) -> None:
        self._seconds = seconds
        self._deciders = sorted(deciders, key=lambda decider: -decider.priority)
        self._shadowing: list[Any] = [one for one in self._deciders if hasattr(one, "shadows")]
        self._reasoning: list[Any] = [one for one in self._deciders if hasattr(one, "asks_because")]

    async def decide(
        self, record: StoredRequest, route: Route, *, stored: bool = True
    ) -> ChainResult:
        """Return the first answer, and the record with the highest risk that deciders raised.

        If the request is not `stored` yet, the chain stops at the first decider with
        `after_storing`, and the effect is `later`.

        After a decider asks for people or fails, no lower decider may allow the request, because
        the missing answer could have been a denial. Denials still count. At high risk, even if a
        decider has only now raised it, people decide instead of an allow.
        """
        people = False
        for decider in self._deciders:
            if not stored and getattr(decider, "after_storing", False):
                by = DecidedBy(kind=DeciderKind.RULE, name=decider.name)
                return ChainResult(record, Verdict(effect=LATER, by=by))
            try:
                record, verdict = await _answer(decider, record, route, self._seconds)
            except Exception as error:
                # It may be third-party code. Without its answer people decide, see above. A
                # GatewayError, such as a hook without an answer, needs no traceback.
                trace = None if isinstance(error, GatewayError) else error
                log.error(
                    "a decider failed: %s: %s",
                    decider.name,
                    error,
                    exc_info=trace,
                    extra={"event": "decider_failed"},
                )
                people = True
                continue
            if verdict is None:
                continue
            if _decides(verdict.effect, people):
                return ChainResult(record, verdict)
            people = True
        return ChainResult(record, None)

    async def shadows(self, record: StoredRequest) -> list[Shadow]:
        """Return the effects that report-only rules would have had, and an entry if a decider
        failed."""
        found: list[Shadow] = []
        for decider in self._shadowing:
            try:
                found += await decider.shadows(record)
            except Exception as error:
                # Report-only: its failure must not keep a request from being stored.
                log.exception("a report-only decider failed", extra={"event": "shadow_failed"})
                found.append(
                    Shadow(rule=decider.name, effect="failed", why=start_of(repr(error), 200))
                )
        return found

    async def asks_because(self, record: StoredRequest) -> str:
        """Return why people decide although a grant or rule almost matched; "" if none did."""
        for decider in self._reasoning:
            try:
                said: str = await decider.asks_because(record)
                if said:
                    return said
            except Exception:
                # The reason only helps the approver: without it people decide as well.
                log.exception(
                    "a decider could not return its reason", extra={"event": "reason_failed"}
                )
        return ""

    async def explain(self, record: StoredRequest, route: Route) -> list[Opinion]:
        """Return the answer of each decider, in the order in which they are asked."""
        found: list[Opinion] = []
        for decider in self._deciders:
            record, opinion = await self._opinion(decider, record, route)
            found.append(opinion)
        return found

    async def _opinion(
        self, decider: Decider, record: StoredRequest, route: Route
    ) -> tuple[StoredRequest, Opinion]:
        raised: tuple[RaisedRisk, ...] = ()
        try:
            record, verdict = await _answer(decider, record, route, self._seconds)
        except Exception as error:
            # `gateway explain` shows the failure to the operator.
            effect, message = FAILED, str(error) or type(error).__name__
        else:
            effect = verdict.effect if verdict else NO_OPINION
            message = verdict.message if verdict else await _in_shadow(decider, record)
            raised = tuple(one for one in record.raised if one.decider == decider.name)
        return record, Opinion(
            decider=decider.name,
            priority=decider.priority,
            effect=effect,
            message=message,
            raised=raised,
        )


async def _in_shadow(decider: Decider, record: StoredRequest) -> str:
    """Return the effect that a decider without an opinion would have if it were not report-only."""
    found: list[Shadow] = await decider.shadows(record) if hasattr(decider, "shadows") else []
    said = dict.fromkeys(f"{one.effect}: {one.why or one.rule}" for one in found)
    return f"report-only: would {'; '.join(said)}" if said else ""


def find_decisive(opinions: Iterable[Opinion]) -> Opinion | None:
    """Return the opinion that `Chain.decide` would use, or None if people would decide."""
    people = False
    for one in opinions:
        if one.effect == NO_OPINION:
            continue
        if one.effect != FAILED and _decides(one.effect, people):
            return one
        people = True
    return None


def _decides(effect: str, people: bool) -> bool:
    return effect in (DENY, MODIFY) or (effect != ASK and not people)


async def _answer(
    decider: Decider, record: StoredRequest, route: Route, limit: float
) -> ChainResult:
    """Return a decider's answer, and the record with the raised risk. Raises if the answer is late
    or invalid.

    This is the only place where a decider's answer can become an approval. It never becomes one if
    the request is high risk, or if the agent requires a person.
    """
    seconds = getattr(decider, "seconds", limit)
    if seconds is None:  # a built-in decider, which waits for nothing but the store
        verdict = await decider.decide(record, route)
    else:
        async with asyncio.timeout(seconds):
            verdict = await decider.decide(record, route)
    if verdict is None:
        return ChainResult(_raise_risk(record, decider, ()), None)
    known = (ALLOW, DENY, ASK, MODIFY, RESPOND, CONTINUE)
    if verdict.effect not in known or (verdict.effect == MODIFY and verdict.arguments is None):
        raise ValueError(f"{decider.name} returned an unknown effect: {verdict.effect!r}")
    if verdict.by.kind not in (DeciderKind.RULE, DeciderKind.GRANT):
        raise ValueError(
            f"{decider.name} may not decide as a {verdict.by.kind}, only as a rule or a grant"
        )
    record = _raise_risk(record, decider, _raised_by(decider, verdict))
    if verdict.effect == CONTINUE:
        return ChainResult(record, None)
    if record.demands_person and verdict.effect in (ALLOW, RESPOND):
        return ChainResult(record, replace(verdict, effect=ASK, message=DEMANDED))
    if verdict.effect == ALLOW and record.risk.level is RiskLevel.HIGH:
        return ChainResult(record, replace(verdict, effect=ASK, message=HIGH_RISK))
    return ChainResult(record, verdict)


def _raised_by(decider: Decider, verdict: Verdict) -> Iterator[RaisedRisk]:
    """Yield the risks that an answer raises; raises ValueError for an unknown level."""
    own = ((f"decider {verdict.by.name}", verdict.risk),) if verdict.risk is not None else ()
    for by, risk in (*own, *((one.by, one) for one in verdict.raised)):
        if not isinstance(risk.level, RiskLevel):
            raise ValueError(f"{decider.name} returned an unknown risk level: {risk.level!r}")
        reasons = tuple(start_of(one, _MOST_REASON) for one in risk.reasons[:_MOST_REASONS])
        yield RaisedRisk(decider=decider.name, by=by, level=risk.level, reasons=reasons)


def _raise_risk(
    record: StoredRequest, decider: Decider, raised: Iterable[RaisedRisk]
) -> StoredRequest:
    """Return the record, with its risk raised by a decider that answered.

    If the decider judges the whole call again, its new reasons replace those that it gave before.
    If it judges only a change that a hook made later, its new reasons are added.
    """
    before = record.raised
    if record.edited is None:
        before = tuple(one for one in before if one.decider != decider.name)
    found = tuple(raised)
    for one in found:
        if is_lower(one.level, record.risk.level):
            log.warning(
                "a decider tried to lower the risk; the risk stays as it was",
                extra={"event": "risk_not_lowered", "decider": one.by},
            )
    risen = tuple(one for one in found if not is_lower(one.level, record.risk.level))
    if not risen and before == record.raised:
        return record
    return record.copy_with(raised=(*before, *risen), risk=lift(record.risk, risen))


class ModeDecider:
    """The last decider, which applies the route's mode."""

    name = "mode"
    priority = 0
    seconds = None

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Allow or deny by the route's mode. Return None if the mode asks people, or if an approval
        would need a step-up. At high risk, the chain asks people even if this allows."""
        if route.mode is Mode.ASK or record.request.questions:
            return None
        if route.mode is Mode.AUTO_APPROVE and route.step_up(record.risk.level):
            return None
        effect = ALLOW if route.mode is Mode.AUTO_APPROVE else DENY
        return Verdict(
            effect=effect,
            by=DecidedBy(kind=DeciderKind.RULE, name=f"mode {route.mode} of route {route.name}"),
            reason=Reason.RULE,
        )


async def judge(
    chain: Chain, record: StoredRequest, ruling: Ruling, *, stored: bool = True
) -> tuple[StoredRequest, RequestOutcome | None]:
    """Return the record, as changed by hooks, and its outcome. If people decide, there is no
    outcome (None).

    If the request is not `stored` yet, the chain stops at a slow decider, and
    `approvals.agent_service` asks it later.
    """
    record, verdict = await _judge_weighed(chain, record, ruling, stored=stored)
    if verdict is not None and verdict.effect == LATER:
        return replace(record, queues=(REVIEWS,)), None
    if verdict is not None and verdict.effect == MODIFY:
        try:
            record = _modify(record, verdict, ruling)
        except InvalidRequest as error:
            # The unchanged call must not run: the hook wanted it changed.
            return record, _outcome_of(record, replace(verdict, effect=DENY, message=str(error)))
        record, verdict = await _judge_weighed(chain, record, ruling)
    outcome = None if verdict is None else _outcome_of(record, verdict)
    outcome = outcome or _refuse_at_once(record, ruling)
    if outcome is None:
        asks_because = A_PERSON if record.demands_person else await chain.asks_because(record)
        record = record.copy_with(asks_because=asks_because)
    return record, outcome


def _refuse_at_once(record: StoredRequest, ruling: Ruling) -> RequestOutcome | None:
    """Return a denial if nobody could approve the request, else None."""
    asked, able = ruling.step_up(record)
    if not asked or able:
        return None
    by = DecidedBy(kind=DeciderKind.RULE, name=f"step-up of route {ruling.route.name}")
    return RequestOutcome(
        status=Status.DENIED,
        action=Action.DENY,
        reason=Reason.RULE,
        by=by,
        message=f"nobody could approve this: {NO_STEP_UP}",
    )


async def _judge_weighed(
    chain: Chain, record: StoredRequest, ruling: Ruling, *, stored: bool = True
) -> ChainResult:
    judged = await chain.decide(record, ruling.route, stored=stored)
    if judged.record.raised == record.raised:
        return judged
    return ChainResult(calculate_risk(judged.record, ruling), judged.verdict)


def _modify(record: StoredRequest, verdict: Verdict, ruling: Ruling) -> StoredRequest:
    """Return the record as a hook changed it, with a new digest and risk. People see the change."""
    request, arguments = record.request, verdict.arguments or {}
    if Action.EDIT not in request.allowed:
        raise InvalidRequest("a policy hook changed the call, but the agent accepts no changes")
    check_schema(request.schema, arguments)
    why = start_of(verdict.message, _MOST_WORDS)
    return assess(record.edited_as(arguments, verdict.by, why), ruling)


def _outcome_of(record: StoredRequest, verdict: Verdict) -> RequestOutcome | None:
    """Return the outcome that a verdict has for a pending request, or None if people decide."""
    if verdict.effect in (ASK, MODIFY):
        return None
    allows = verdict.effect == ALLOW
    # A question cannot be approved, so a rule can only deny it.
    if allows and Action.APPROVE not in record.request.allowed:
        return None
    if verdict.effect == RESPOND and Action.RESPOND not in record.request.allowed:
        return None
    approves = Action.APPROVE if record.edited is None else Action.EDIT
    denies = Action.ABORT if verdict.abort else Action.DENY
    return RequestOutcome(
        status=Status.APPROVED if allows or verdict.effect == RESPOND else Status.DENIED,
        action=Action.RESPOND if verdict.effect == RESPOND else approves if allows else denies,
        reason=verdict.reason,
        by=verdict.by,
        message=verdict.message,
        arguments=record.edited if allows else None,
        result=verdict.result if verdict.effect == RESPOND else None,
        abort=verdict.abort if verdict.effect == DENY else None,
        spends=verdict.spends if allows else (),
    )
