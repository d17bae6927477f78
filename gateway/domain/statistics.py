"""Count decisions and requests from the audit log, for reports. Start reading at `EventTally`."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from gateway.domain.records import AuditEvent
from gateway.models import ENDINGS, DeciderKind, Status
from gateway.wire.codec import JsonObject, Wire

HASTY_MS = 2_000
"""A person who decides faster than this after a request was shown has hardly read it."""
MANY = 20
"""The fewest decisions after which `never_denies` is reported."""

_VOTES = ("voted", "edited")
_NOBODY = (DeciderKind.GRANT.value, DeciderKind.RULE.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproverReport(Wire):
    """One person's decisions. Times are in milliseconds, from when the request was shown until it
    was decided. They count only the `timed` decisions, on requests that were shown within the
    period. `hasty` is the share of these that took less than 2 s."""

    name: str
    decisions: int
    denials: int
    never_denies: bool
    timed: int
    median_ms: int | None
    p10_ms: int | None
    hasty: float | None
    grants_made: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport(Wire):
    """One agent's requests and their outcomes. The shares refer to the requests that `ended`.
    `auto` is the share that a rule or a grant decided, without a person."""

    name: str
    requests: int
    ended: int
    auto: float | None
    denied: float | None
    expired: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReport(Wire):
    """How many requests a policy hook, or another rule, changed."""

    name: str
    changed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodReport(Wire):
    """The figures of a period, from `since` (inclusive) to `until` (exclusive), in milliseconds
    since the epoch."""

    since: int
    until: int
    approvers: tuple[ApproverReport, ...]
    agents: tuple[AgentReport, ...]
    hooks: tuple[HookReport, ...] = ()


@dataclass(slots=True)
class _Person:
    decisions: int = 0
    denials: int = 0
    grants: int = 0
    times: array[int] = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class _Agent:
    requests: int = 0
    ended: int = 0
    auto: int = 0
    denied: int = 0
    expired: int = 0


class EventTally:
    """Counts events. Pass events to it in their order."""

    def __init__(self) -> None:
        self._people: defaultdict[str, _Person] = defaultdict(_Person)
        self._agents: defaultdict[str, _Agent] = defaultdict(_Agent)
        self._shown: dict[str, int] = {}  # pending requests, and when each could first be seen
        self._posted: set[str] = set()  # those of them that are in a chat
        self._hooks: Counter[str] = Counter()
        self._changed: defaultdict[str, set[str]] = defaultdict(
            set
        )  # the hooks that changed each pending request

    def take(self, event: AuditEvent) -> None:
        """Count one event."""
        self._count_changes(event)
        if event.type == "submitted":
            self._shown[event.request_id] = event.at
            self._agents[event.agent].requests += 1
        elif event.type == "delivered":
            self._count_delivery(str(event.data.get("request_id")), event.at)
        elif event.type in _VOTES:
            self._count_vote(event)
        elif event.type in ENDINGS:
            self._count_ending(event)
            self._changed.pop(event.request_id, None)
            self._shown.pop(event.request_id, None)
            self._posted.discard(event.request_id)
        elif event.type == "grant_made":
            self._count_grant(event.data)

    def report(self, since: int, until: int) -> PeriodReport:
        """Return the figures, with people and agents sorted by name."""
        people = sorted(self._people.items())
        agents = sorted(self._agents.items())
        return PeriodReport(
            since=since,
            until=until,
            approvers=tuple(_approver(name, one) for name, one in people),
            agents=tuple(_agent(name, one) for name, one in agents),
            hooks=tuple(
                HookReport(name=name, changed=count) for name, count in sorted(self._hooks.items())
            ),
        )

    def _count_changes(self, event: AuditEvent) -> None:
        """Count a request for each hook that changed it, only once even if several events name the
        hook."""
        told = [one["by"] for one in event.data.get("edits", ())]
        found = {str(by["name"]) for by in told if by["kind"] == DeciderKind.RULE}
        if found:
            known = self._changed[event.request_id]
            self._hooks.update(found - known)
            known |= found

    def _count_delivery(self, request_id: str, at: int) -> None:
        """Record when the first card was posted in a chat, because nobody there could see the
        request earlier."""
        if request_id in self._shown and request_id not in self._posted:
            self._posted.add(request_id)
            self._shown[request_id] = at

    def _count_vote(self, event: AuditEvent) -> None:
        votes = event.data.get("votes") or [{}]
        if name := votes[-1].get("person"):
            self._count_decision(str(name), event, denied=False)

    def _count_ending(self, event: AuditEvent) -> None:
        by = event.data.get("decided_by") or {}
        agent = self._agents[event.agent]
        agent.ended += 1
        agent.auto += by.get("kind") in _NOBODY
        agent.denied += event.type == Status.DENIED
        agent.expired += event.type == Status.EXPIRED
        if by.get("kind") == DeciderKind.PERSON:
            self._count_decision(str(by["name"]), event, denied=event.type == Status.DENIED)

    def _count_decision(self, name: str, event: AuditEvent, *, denied: bool) -> None:
        person = self._people[name]
        person.decisions += 1
        person.denials += denied
        shown = self._shown.get(event.request_id)
        if shown is not None:
            person.times.append(max(0, event.at - shown))

    def _count_grant(self, data: JsonObject) -> None:
        grant = data.get("grant")
        if isinstance(grant, dict) and grant.get("made_by"):
            self._people[str(grant["made_by"])].grants += 1


def lines(report: PeriodReport) -> Iterator[str]:
    """Yield a report as lines for a terminal."""
    heads = ("decisions", "denials", "median", "p10", "< 2 s", "grants")
    yield _row("approver", *heads)
    for one in report.approvers:
        times = (_seconds(one.median_ms), _seconds(one.p10_ms), _percent(one.hasty))
        told = _row(one.name, one.decisions, one.denials, *times, one.grants_made)
        yield f"{told}  never denies" if one.never_denies else told
    yield ""
    yield _row("agent", "requests", "ended", "auto", "denied", "expired")
    for agent in report.agents:
        shares = (_percent(agent.auto), _percent(agent.denied), _percent(agent.expired))
        yield _row(agent.name, agent.requests, agent.ended, *shares)
    if report.hooks:
        yield ""
        yield _row("policy hook", "changed")
        yield from (_row(hook.name, hook.changed) for hook in report.hooks)


def _row(name: str, *cells: str | int) -> str:
    return f"{name:24}" + "".join(f"{cell:>9}" for cell in cells)


def _approver(name: str, one: _Person) -> ApproverReport:
    times = sorted(one.times)
    return ApproverReport(
        name=name,
        decisions=one.decisions,
        denials=one.denials,
        never_denies=one.decisions >= MANY and not one.denials,
        timed=len(times),
        median_ms=round(median(times)) if times else None,
        p10_ms=_tenth(times),
        hasty=_share(sum(time < HASTY_MS for time in times), len(times)),
        grants_made=one.grants,
    )


def _tenth(times: Sequence[int]) -> int | None:
    """Return the 10th percentile of the times (nearest rank)."""
    return times[(len(times) + 9) // 10 - 1] if times else None


def _agent(name: str, one: _Agent) -> AgentReport:
    return AgentReport(
        name=name,
        requests=one.requests,
        ended=one.ended,
        auto=_share(one.auto, one.ended),
        denied=_share(one.denied, one.ended),
        expired=_share(one.expired, one.ended),
    )


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _seconds(ms: int | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.1f} s"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
