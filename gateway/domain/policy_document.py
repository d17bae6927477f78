"""Define the operator's policy: routes, rules, budgets and tools. Start reading at
`PolicyDocument`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from gateway.domain.records import Identity, Person, ScopeQuorum, StoredRequest
from gateway.domain.risk import RiskRule, RulesByRisk, StepUp, assess_by_rules, is_named
from gateway.models import ApprovalRequest, Kind, Risk, RiskLevel
from gateway.wire.codec import JsonObject, Wire

DEFAULT_TIMEOUT_SECONDS = 900.0
# In a route's `notify`: the owner of the agent's credential.
REQUESTER = "requester"
# In a route's `targets`, and in the targets of cards there: the conversation where it began.
ORIGIN = "origin"
# Begins the name of a group of the identity provider. No identity begins like this.
GROUP = "oidc-group:"
_CONVERSATION = re.compile(r"[a-z][a-z0-9_-]{0,31}:[A-Za-z0-9]{1,32}/[A-Za-z0-9]{1,32}")
_THREAD = re.compile(r"[A-Za-z0-9.]{1,32}")
ALLOWED_ORIGIN = re.compile(
    rf"(?:{_CONVERSATION.pattern})|[a-z][a-z0-9_-]{{0,31}}:[A-Za-z0-9]{{1,32}}/"
)


class RuleEffect(StrEnum):
    """The effect of a rule. With `ask`, a request requires a person's approval even if another rule
    or grant allows it."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


class Guardrails(StrEnum):
    """The effect of guardrail findings on a request."""

    OFF = "off"
    SHADOW = "shadow"
    ASK = "ask"
    DENY = "deny"


class Window(StrEnum):
    """The period over which a rule's limit counts approvals."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLimit(Wire):
    """The limit of one allow rule: at most `most` calls or, with `of`, at most that sum of this
    argument, per hour or 24 hours. `for_each` names an argument, or is `agent`: then each of its
    values, or each agent, is counted separately. Without `for_each`, all calls are counted
    together."""

    most: float
    of: str = ""
    per: Window = Window.DAY
    for_each: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule(Wire):
    """One rule of the policy. It matches if all given members match. A list matches if any of its
    entries matches.

    `agents` and `tools` are names in which `*` matches anything. `commands` are the beginnings of
    plain commands, such as `git log`; `folders` must contain the paths that a tool names.
    `contains` lists strings to find in arguments and payload, ignoring case. An allow rule may not
    have `contains`, because the text around a string could say anything. A rule with `shadow`
    decides nothing; the audit log records the effect that it would have had. `message` is for the
    agent. `arguments` maps a name, or an address such as `edits[].path`, to the required value, in
    which `*` matches anything. If the required value is a list, the argument must match one of its
    entries. If the argument is also a list, each entry of the argument must. `numbers` compare
    arguments, as in `> 0, <= 100`. `read_only` and `limits` are for allow rules only. With
    `read_only`, the tool's author must declare that the tool changes nothing. Calls that exceed
    `limits` require approval.
    """

    name: str
    effect: RuleEffect
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    commands: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    arguments: Mapping[str, str | list[str]] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    limits: tuple[RuleLimit, ...] = ()
    shadow: bool = False
    message: str = ""
    read_only: bool = False


class Mode(StrEnum):
    """The effect of a route on a request that no decider has decided."""

    ASK = "ask"
    AUTO_APPROVE = "auto-approve"
    AUTO_DENY = "auto-deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation(Wire):
    """More targets for a request that is still pending after `after` seconds, or that has no
    target."""

    after: float
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Wire):
    """Selects requests by agent and tool, and says where they are posted and who may decide them.

    `approvers` name people, identities, or groups of a platform; empty means nobody. `quorum` is
    the number of distinct people who must approve; one denial ends the request. `scope_quorum` is
    the number of people who must vote before a broad grant is saved. Times are in seconds.
    `timeout` applies if the agent gives none; 0 means that only the 30-day limit applies.
    `max_timeout`, if given, limits the agent's own timeout. `remind_after` lists times of
    reminders, counted from the submission. `agents` and `tools` are names in which `*` matches
    anything; empty means all. A target has the form `adapter:channel`, where a card is posted. It
    may also be only the name of an adapter that shows all requests, such as `web`. The target
    `origin` is the conversation where the request began. Channels after it are used if it is not in
    `origins` or cannot be reached. With `mention`, a new card mentions the approvers. `notify`
    lists the people who get a message about the outcome; `requester` means the agent's owner.
    Without `self_approval`, a requester may never decide; nor may they at high risk. With
    `discreet`, notifications name only the agent and the risk. With `high_risk_delegates`,
    delegates of people who are away are asked at high risk too. `risk` lists exceptions for risk
    levels; `at` applies them.
    """

    name: str = "default"
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    scope_quorum: ScopeQuorum = field(default_factory=ScopeQuorum)
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    max_timeout: float | None = None
    self_approval: bool = True
    mode: Mode = Mode.ASK
    targets: tuple[str, ...] = ("web",)
    origins: tuple[str, ...] = ()
    mention: bool = False
    remind_after: tuple[float, ...] = ()
    escalations: tuple[Escalation, ...] = ()
    notify: tuple[str, ...] = ()
    discreet: bool = False
    high_risk_delegates: bool = False
    risk: RulesByRisk = field(default_factory=RulesByRisk)

    def at(self, level: RiskLevel) -> Route:
        """Return the route with its exceptions for this risk level applied."""
        rules = self.risk.at(level)
        if rules is None:
            return self
        return replace(
            self,
            approvers=self.approvers if rules.approvers is None else rules.approvers,
            quorum=self.quorum if rules.quorum is None else rules.quorum,
        )

    def levels(self) -> tuple[tuple[RiskLevel, Route], ...]:
        """Return each risk level with the route that applies at it."""
        return tuple((level, self.at(level)) for level in RiskLevel)

    @property
    def admitted(self) -> tuple[str, ...]:
        """All entries that may approve at any risk level, without duplicates."""
        return tuple(dict.fromkeys(one for _, at in self.levels() for one in at.approvers))

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Names of the route, or of its risk levels, for which nobody may approve."""
        if not self.approvers:
            return (self.name,)
        empty = (level for level, route in self.levels() if not route.approvers)
        return tuple(f"{self.name} at {level} risk" for level in empty)

    def without(self, gone: Collection[str]) -> Route:
        """Return the route without these entries among its approvers, at each risk level."""
        kept = tuple(one for one in self.approvers if one not in gone)
        return replace(self, approvers=kept, risk=self.risk.without(gone))

    def step_up(self, level: RiskLevel) -> tuple[StepUp, ...]:
        """Return the step-ups of which an approval at this level requires one; empty if none is
        required."""
        rules = self.risk.at(level)
        return () if rules is None else rules.step_up

    def places(self, tier: int, conversation: str = "") -> tuple[str, ...]:
        """Return the targets in use after `tier` escalations, in order, without duplicates.

        A `conversation` takes the place of `origin` and of the channels after it. Without one,
        `origin` is left out.
        """
        first = self.targets
        if conversation:
            at = first.index(ORIGIN)
            first = (*first[:at], conversation, *(one for one in first[at:] if ":" not in one))
        later = (target for step in self.escalations[:tier] for target in step.targets)
        return tuple(dict.fromkeys(one for one in (*first, *later) if one != ORIGIN))

    def allows_origin(self, place: str) -> bool:
        """Return whether cards may go to a conversation, written `platform:SPACE/CHANNEL`."""
        return any(
            place.startswith(one) if one.endswith("/") else place == one for one in self.origins
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Wire):
    """Limits on the pending requests and cards of each agent that it names.

    At most `waiting` requests with `bytes` in total may be pending; more requests are rejected.
    Requests are also rejected if those of one day, decided or not, exceed `daily` bytes; each
    counts for 1 kB more than its size. `cards` may be posted at once, and then that many per
    minute. One overflow card covers all other requests. After `denials` by people in a row (0:
    never), the agent is blocked for `pause` seconds. `agents` are names in which `*` matches
    anything; empty means all.
    """

    name: str = "default"
    agents: tuple[str, ...] = ()
    waiting: int = 1000
    bytes: int = 32 * 1024 * 1024
    daily: int = 128 * 1024 * 1024
    cards: int = 30
    denials: int = 20
    pause: float = 600.0

    @property
    def card_ms(self) -> int:
        """The average time between two cards at the permitted rate, in ms."""
        return max(1, 60_000 // self.cards)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow(Wire):
    """An operator's declaration of one tool, by its full name.

    A grant may cover a `harmless` tool as a whole. `agents` are names in which `*` matches
    anything; empty means all. `arguments` maps a name, or an address such as `edits[].text`, to a
    role from `gateway.wire.roles`. `declared_by` and `declared_at` record the last change made from
    a card.
    """

    name: str
    harmless: bool = False
    agents: tuple[str, ...] = ()
    arguments: dict[str, str] = field(default_factory=dict)
    declared_by: str = ""
    declared_at: str = ""


class StepUps(NamedTuple):
    """The required step-ups (any one of them is enough), and those of them that are possible. Both
    are empty if a tap is enough."""

    asked: tuple[StepUp, ...]
    able: tuple[StepUp, ...]


class Ruling(NamedTuple):
    """A policy and a request's route, looked up once for each submission, click or card.

    The route depends on the risk, which can rise while a request is judged. So each method expects
    the request's current record.
    """

    policy: PolicyDocument
    route: Route

    def route_at(self, record: StoredRequest) -> Route:
        """Return the route that applies at a record's risk."""
        return self.route.at(record.risk.level)

    def find_conversation(self, request: ApprovalRequest) -> tuple[str, str]:
        """Return the target of the conversation where a request began, or "" and why not.

        The agent names it, so everything in it is checked. Both are "" without `origin` as target.
        """
        said = request.origin
        if ORIGIN not in self.route.targets:
            return "", ""
        if not (said.channel and said.chat):
            return "", "the request names no conversation"
        place, thread = f"{said.channel}:{said.chat}", said.thread or ""
        if not _CONVERSATION.fullmatch(place) or (thread and not _THREAD.fullmatch(thread)):
            return "", "the request's origin is not written as platform, SPACE/CHANNEL and thread"
        if not self.route.allows_origin(place):
            return "", f"{place} is not in the `origins` of route {self.route.name}"
        return f"{said.channel}:{ORIGIN}/{said.chat}{thread and f'/{thread}'}", ""

    def places(self, record: StoredRequest) -> tuple[str, ...]:
        """Return a record's targets. Its conversation counts if the policy still allows it."""
        there = record.conversation
        allowed = there and there == self.find_conversation(record.request)[0]
        return self.route.places(record.tier, there if allowed else "")

    def step_up(self, record: StoredRequest) -> StepUps:
        """Return the step-ups of which an approval requires one, and those of them that are
        possible."""
        asked = self.route.step_up(record.risk.level)
        able = (one for one in asked if one is not StepUp.NUMBER or record.numbered)
        return StepUps(asked, tuple(able))

    def quorum(self, record: StoredRequest) -> int:
        """Return the quorum at the record's risk. It is at least 2 if a second person is the only
        step-up."""
        quorum = self.route_at(record).quorum
        return max(quorum, 2) if self.step_up(record).able == (StepUp.PERSON,) else quorum


_NOBODY = Route()
_USUAL = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rulebook(Wire):
    """Everything that an operator configures.

    A tool author's declaration may free arguments, and declare the tool harmless, only for agents
    in `trust_declarations`. These are names in which `*` matches anything; empty means none. A
    recipient outside `own_domains` is a finding; an entry that begins with `*.` includes all
    subdomains. `groups_claim` is the ID-token claim that lists a person's groups, written
    `oidc-group:NAME` in this policy.
    """

    people: tuple[Person, ...] = ()
    groups_claim: str = ""
    admin_groups: tuple[str, ...] = ()
    auditor_groups: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    risks: tuple[RiskRule, ...] = ()
    rules: tuple[PolicyRule, ...] = ()
    guardrails: Guardrails = Guardrails.SHADOW
    budgets: tuple[Budget, ...] = ()
    tools: tuple[ToolRow, ...] = ()
    trust_declarations: tuple[str, ...] = ()
    own_domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDocument(Rulebook):
    """The active rulebook. It is always replaced as a whole; `generation` counts the
    replacements."""

    generation: int = 0

    def person_of(self, identity: Identity) -> Person | None:
        """Return the person who has this verified identity, or None."""
        wanted = identity.written
        for person in self.people:
            if wanted in person.identities:
                return person
        return None

    def name_of(self, identity: Identity) -> str:
        """Return the name of the person with this identity, or the identity if nobody has it."""
        person = self.person_of(identity)
        return person.name if person else identity.written

    def names_of(self, identity: Identity) -> tuple[str, ...]:
        """Return all entries by which a route may admit an identity, its person's name first. No
        route admits an auditor."""
        person = self.person_of(identity)
        if person and person.auditor:
            return ()
        groups = person.groups if person else ()
        return (self.name_of(identity), identity.written, *identity.groups, *groups)

    def accounts_of(self, names: Iterable[str], platform: str) -> tuple[str, ...]:
        """Return the account ids of people on a platform, for each person one per workspace or
        similar place. If a name is not the name of a person, it counts as an identity."""
        known = {person.name: person.identities for person in self.people}
        prefix = f"{platform}:"
        found: list[str] = []
        for name in names:
            written = [one for one in known.get(name, (name,)) if one.startswith(prefix)]
            places: dict[str, str] = {}
            for account in (one.removeprefix(prefix) for one in written):
                places.setdefault(account.rpartition("/")[0], account)
            found += places.values()
        return tuple(found)

    def is_admin(self, identity: Identity) -> bool:
        """Whether an identity belongs to an admin."""
        person = self.person_of(identity)
        return person is not None and person.admin and not person.auditor

    def is_auditor(self, identity: Identity) -> bool:
        """Whether an identity belongs to an auditor."""
        person = self.person_of(identity)
        return person is not None and person.auditor

    def may_read_all(self, identity: Identity) -> bool:
        """Whether an identity may read the audit log, reports and explanations."""
        return self.is_admin(identity) or self.is_auditor(identity)

    @property
    def listed(self) -> tuple[Person, ...]:
        """The people of the policy file: all but group members."""
        return tuple(one for one in self.people if not one.groups)

    @property
    def provider_groups(self) -> frozenset[str]:
        """The groups of the identity provider that this policy gives a right."""
        named = (one for route in self.routes for one in route.admitted if one.startswith(GROUP))
        every = (*named, *self.admin_groups, *self.auditor_groups)
        return frozenset(every if self.groups_claim else ())

    def with_member(self, member: Person, groups: Collection[str]) -> PolicyDocument:
        """Return the policy with a group member who has the rights of these groups, or without the
        member if no group gives a right or the policy file lists them. An auditor has no other
        right."""
        kept = tuple(sorted(self.provider_groups.intersection(groups)))
        if self._lists(member):
            kept = ()
        auditor = not {*self.auditor_groups}.isdisjoint(kept)
        admin = not auditor and not {*self.admin_groups}.isdisjoint(kept)
        new = replace(member, groups=kept, admin=admin, auditor=auditor)
        known = (one for one in self.people if kept or one.name != member.name or not one.groups)
        people = {one.name: one for one in known} | ({member.name: new} if kept else {})
        return replace(self, people=tuple(people.values()))

    def _lists(self, member: Person) -> bool:
        """Whether the policy file lists a group member: by name, by identity, or by the subject
        alone, as files usually do."""
        own = (one.partition("#") for one in member.identities if one.startswith("oidc:"))
        theirs = {member.name, *member.identities, *(f"oidc:{subject}" for _, _, subject in own)}
        return any(not theirs.isdisjoint((one.name, *one.identities)) for one in self.listed)

    def succeed(self, before: PolicyDocument) -> PolicyDocument:
        """Return this policy, read from a file, as the one to apply after `before`. The group
        members stay, with the rights of the new file, unless the file lists them."""
        after = replace(self, generation=before.generation)
        for one in before.people:
            if one.groups:
                after = after.with_member(one, one.groups)
        return after

    def places(self) -> tuple[str, ...]:
        """Return every target of every route, without duplicates."""
        every = (one for route in self.routes for one in route.places(len(route.escalations)))
        return tuple(dict.fromkeys(every))

    def route_for(self, agent: str, tool: str) -> Route:
        """Return the first route that matches. If none matches, return a route on which nobody may
        approve."""
        for route in self.routes:
            if is_named(route.agents, agent) and is_named(route.tools, tool):
                return route
        return _NOBODY

    def ruling_on(self, request: ApprovalRequest) -> Ruling:
        """Return this policy together with a request's route, so that the route is looked up only
        once."""
        return Ruling(self, self.route_for(request.agent, request.tool))

    def declare(self, record: StoredRequest) -> StoredRequest:
        """Return a record with the current declarations of its tool, which replace earlier ones.

        The operator's row, if there is one, overrides what the tool's author declared.
        """
        request = record.request
        trusted = bool(self.trust_declarations) and is_named(self.trust_declarations, request.agent)
        row = self._tool_row(request.agent, request.tool)
        return record.copy_with(
            harmless=row.harmless if row else trusted and request.harmless,
            declared=row.arguments if row else {},
            trusted=trusted,
        )

    def _tool_row(self, agent: str, tool: str) -> ToolRow | None:
        for row in self.tools:
            if row.name == tool and is_named(row.agents, agent):
                return row
        return None

    def budget_for(self, agent: str) -> Budget:
        """Return the first budget that names an agent, or the default budget."""
        for budget in self.budgets:
            if is_named(budget.agents, agent):
                return budget
        return _USUAL

    def risk_of(self, request: ApprovalRequest, arguments: JsonObject) -> Risk:
        """Return the highest risk that a rule sets or the agent claims; medium if there is
        neither."""
        return assess_by_rules(self.risks, request, arguments)


def adapters_of(targets: Iterable[str]) -> tuple[str, ...]:
    """Return the adapters that post cards at these targets, without duplicates."""
    return tuple(dict.fromkeys(t.partition(":")[0] for t in targets if ":" in t))
