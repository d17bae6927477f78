"""Compute how a policy would have decided the requests in the audit log. Start at `replay`; it only
reads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import itemgetter

from gateway.approvals.request_writer import TOMBSTONE_DIGEST
from gateway.cards.summary import plain_summary, summarize
from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import RequestOutcome, Spend, StoredRequest, told_outcome
from gateway.domain.store import Store
from gateway.models import ENDINGS, Action, DecidedBy, DeciderKind, Reason, Status
from gateway.policy.chain import ALLOW, ASK, DENY, HOOKS_PRIORITY, Chain, ModeDecider, judge
from gateway.policy.grant_book import ALLOW_PRIORITY, DENY_PRIORITY
from gateway.policy.grants.grant import MatchResult
from gateway.policy.guardrails import assess
from gateway.policy.rules import fits, rule_links
from gateway.policy.verdict import Decider, Verdict
from gateway.wire.codec import Wire

_PAGE, _AT_ONCE = 500, 100  # events, and requests
_LAST = 2**64 - 1  # the greatest number of an event within a millisecond
AS_THEN = {Reason.GRANT: "grants, as then", Reason.HOOK: "policy hooks, as then"}
"""Which decisions are taken over, by their reasons, and the names of their rows."""
SHADOW = "shadow"


class Past(StrEnum):
    """How a request ended. `refused` means that people denied it, edited it or replied to it."""

    APPROVED = "approved"
    REFUSED = "refused"
    ALLOWED = "allowed"
    DENIED = "denied"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRule(Wire):
    """How many requests a rule matches, how many of them it decides, and how those ended.

    `rule` is empty for requests that no rule matches and that people decide. The effect of a
    report-only rule is `shadow`.
    """

    rule: str
    effect: str
    fits: int
    decides: int
    became: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewlyAllowed(Wire):
    """A request that people refused and that the replayed policy would allow. Secrets are
    masked."""

    id: str
    at: int
    agent: str
    summary: str
    outcome: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReplay(Wire):
    """The result of a replay. `left_out` counts the requests that were not replayed, by reason."""

    replayed: int
    left_out: dict[str, int]
    rules: tuple[ReplayedRule, ...]
    newly_allowed: tuple[NewlyAllowed, ...]


async def replay(store: Store, policy: PolicyDocument, *, since: int = 0) -> PolicyReplay:
    """Return how a policy would have decided the requests that ended at `since` or later, in ms.

    Each request is judged as its agent sent it. Decisions that grants and policy hooks made are
    kept. Installed deciders and the kill switch are ignored.
    """
    tally, ended = _Tally(policy), list[str]()
    cursor = f"{since - 1}-{_LAST}" if since > 0 else None
    while events := await store.history(cursor, _PAGE):
        ended += [event.request_id for event in events if event.type in ENDINGS]
        cursor = events[-1].id
    if any(rule.limits for rule in policy.rules):
        ended = await _sort_as_asked(store, ended)
    async for record in _load(store, ended):
        await tally.take(record)
    return tally.result()


async def _load(store: Store, ids: Sequence[str]) -> AsyncIterator[StoredRequest | None]:
    for begin in range(0, len(ids), _AT_ONCE):
        for record in await store.load_many(ids[begin : begin + _AT_ONCE]):
            yield record
            await asyncio.sleep(0)


async def _sort_as_asked(store: Store, ids: Sequence[str]) -> list[str]:
    """Return requests in the order in which they were submitted, because limits count them in that
    order."""
    asked = [0 if record is None else record.created async for record in _load(store, ids)]
    return [one for _, one in sorted(zip(asked, ids, strict=True), key=itemgetter(0))]


class _AsThen:
    """A decider that repeats the recorded decision of a grant or policy hook, at its original
    priority."""

    name = "as then"
    seconds = None

    def __init__(self, record: StoredRequest) -> None:
        decision = record.decision
        name = AS_THEN.get(decision.reason) if decision is not None else None
        allows = record.status is Status.APPROVED
        by = DecidedBy(kind=DeciderKind.RULE, name=name or self.name)
        effect = ALLOW if allows else DENY
        self._verdict = Verdict(effect=effect, by=by) if name is not None else None
        self.priority = ALLOW_PRIORITY if allows else DENY_PRIORITY
        if decision is not None and decision.reason == Reason.HOOK:
            self.priority = HOOKS_PRIORITY

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        return self._verdict


class _Noted:
    """Wraps a decider and records its verdicts. The first recorded verdict says why people are
    asked."""

    seconds = None

    def __init__(self, link: Decider, said: list[Verdict]) -> None:
        self._link, self._said = link, said
        self.name, self.priority = link.name, link.priority

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        verdict = await self._link.decide(record, route)
        if verdict is not None:
            self._said.append(verdict)
        return verdict


@dataclass
class _Tally:
    """Judges the requests one after the other and counts the results."""

    policy: PolicyDocument
    replayed: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    fitting: Counter[str] = field(default_factory=Counter)
    became: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    newly_allowed: list[NewlyAllowed] = field(default_factory=list)
    spent: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    at: int = 0

    def __post_init__(self) -> None:
        async def read() -> PolicyDocument:
            return self.policy

        async def counted(spends: Sequence[Spend]) -> list[int]:
            return [
                sum(n for at, n in self.spent.get(one.key, ()) if at > self.at - one.window_ms)
                for one in spends
            ]

        self._links = rule_links(read, counted)
        for rule in self.policy.rules:
            self.became[rule.name, SHADOW if rule.shadow else rule.effect.value] = Counter()

    async def take(self, record: StoredRequest | None) -> None:
        """Judge one request that ended."""
        why = _explain_left_out(record)
        if record is None or why:
            self.left_out[why] += 1
            return
        self.replayed += 1
        self.at = record.created
        ruling = self.policy.ruling_on(record.request)
        asked = assess(self.policy.declare(_as_asked(record)), ruling)
        said: list[Verdict] = []
        links = (*self._links, _AsThen(record), ModeDecider())
        _, outcome = await judge(Chain(_Noted(link, said) for link in links), asked, ruling)
        by = outcome.by.name if outcome else said[0].by.name if said else ""
        effect, past = _effect_of(outcome), past_of(record)
        self.became.setdefault((by, effect), Counter())[past] += 1
        self.fitting.update(
            rule.name
            for rule in self.policy.rules
            if fits(rule, asked, self.policy.own_domains) is not MatchResult.NO
        )
        for one in outcome.spends if outcome else ():
            self.spent.setdefault(one.key, []).append((self.at, one.amount))
        if effect == ALLOW and past is Past.REFUSED:
            self.newly_allowed.append(_describe(record, by))

    def result(self) -> PolicyReplay:
        """Return the counts: first the rules in the order of the policy file, then the other
        deciders."""
        written = {rule.name for rule in self.policy.rules}
        rows = (
            ReplayedRule(
                rule=rule,
                effect=effect,
                fits=self.fitting[rule] if rule in written else became.total(),
                decides=became.total(),
                became={one.value: became[one] for one in Past},
            )
            for (rule, effect), became in self.became.items()
        )
        names = [rule.name for rule in self.policy.rules]
        last = len(names)
        place = {name: at for at, name in enumerate(names)}
        ordered = sorted(
            rows, key=lambda row: (place.get(row.rule, last), not row.rule, row.rule, row.effect)
        )
        return PolicyReplay(
            replayed=self.replayed,
            left_out=dict(sorted(self.left_out.items())),
            rules=tuple(ordered),
            newly_allowed=tuple(self.newly_allowed),
        )


def _explain_left_out(record: StoredRequest | None) -> str:
    """Return why a request cannot be judged again, or "" if it can."""
    if record is None:
        return "its content is no longer stored"
    if record.erased:
        return "erased"
    if record.request.digest == TOMBSTONE_DIGEST:
        return "it was cancelled before it arrived"
    return "it is a form, which no rule can answer" if record.request.questions else ""


def _as_asked(record: StoredRequest) -> StoredRequest:
    """Return the request as it was before anybody decided or edited it."""
    return replace(
        record, status=Status.PENDING, decision=None, edited=None, edits=(), votes=(), quorum=1,
        digest=record.request.digest,
    )  # fmt: skip


def _effect_of(outcome: RequestOutcome | None) -> str:
    if outcome is None:
        return ASK
    return ALLOW if outcome.status is Status.APPROVED else DENY


def past_of(record: StoredRequest) -> Past:
    """Return how a request ended, as a `Past`."""
    decision = record.decision
    if decision is None or decision.decided_by.kind is DeciderKind.SYSTEM:
        return Past.NOBODY
    if decision.decided_by.kind is not DeciderKind.PERSON:
        return Past.ALLOWED if record.status is Status.APPROVED else Past.DENIED
    if record.status not in (Status.APPROVED, Status.DENIED):
        return Past.NOBODY
    as_asked = decision.action is Action.APPROVE and record.edited is None
    return Past.APPROVED if as_asked else Past.REFUSED


def _describe(record: StoredRequest, rule: str) -> NewlyAllowed:
    decision = record.decision
    assert decision is not None  # somebody refused it
    shown = record.copy_with(edited=None)
    return NewlyAllowed(
        id=record.id,
        at=decision.decided_at,
        agent=record.request.agent,
        summary=plain_summary(summarize(shown)),
        outcome=record.hide(told_outcome(record)),
        rule=rule,
    )
