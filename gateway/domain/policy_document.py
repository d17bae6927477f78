"""What an operator writes: routes, risks and rules, and the policy that holds them with the people.
Values only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from gateway.domain.records import Identity, Person, ScopeQuorum, StoredRequest
from gateway.domain.risk import RiskRule, RulesByRisk, StepUp, assess_by_rules, is_named
from gateway.models import ApprovalRequest, Kind, Risk, RiskLevel
from gateway.wire.codec import JsonObject, Wire

DEFAULT_TIMEOUT_SECONDS = 900.0
# In a route's `notify`: the person whom the agent's credential belongs to.
REQUESTER = "requester"


class RuleEffect(StrEnum):
    """What a rule does: `ask` means that people decide, whatever would allow it."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


class Guardrails(StrEnum):
    """What becomes of requests that look destructive or reach for secrets."""

    OFF = "off"
    SHADOW = "shadow"
    ASK = "ask"
    DENY = "deny"


class Window(StrEnum):
    """How long what a rule approved counts against its limit."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLimit(Wire):
    """How much one allow rule approves by itself within any hour, or any 24 hours: at most `most`
    of the argument `of`, or so many calls. It is counted for each value of the argument `for_each`,
    for each `agent`, or without it for all together."""

    most: float
    of: str = ""
    per: Window = Window.DAY
    for_each: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule(Wire):
    """One rule. All that is given must fit; a list fits when any of its entries does.

    `agents` and `tools` are names in which `*` stands for anything. `commands` are the beginnings
    of plain commands, such as `git log`; `folders` hold the paths that a tool names. `contains` are
    strings sought in arguments and payload without regard to case; an allow has none, because text
    around them could say anything. A rule in `shadow` decides nothing, and the audit says what it
    would have done. `message` is for the agent. `arguments` are values by the name of an argument,
    or by an address such as `edits[].path`, in which `*` stands for anything; all must fit. Where
    a value is a list, any of it is enough, for each entry of a list in the call. `numbers` compare
    arguments, as in `> 0, <= 100`. With `read_only`, which only an allow has, the author of the
    tool must say that it changes nothing. Only an allow has `limits`, which people go beyond.
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
    """What a route does with a request that no other decider settled."""

    ASK = "ask"
    AUTO_APPROVE = "auto-approve"
    AUTO_DENY = "auto-deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation(Wire):
    """Where a request goes too when it still waits `after` seconds, or reached nobody before."""

    after: float
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Wire):
    """Which requests go where and who may decide them.

    `approvers` name people, identities, or groups of a platform; empty means nobody. `quorum`
    counts distinct people; one deny ends it. `scope_quorum` is how many must vote before an
    approval is remembered widely. Times are in seconds; a `timeout` of 0 is none but the 30-day
    cap, and holds where the agent names none; `max_timeout`, where it is written, bounds what an
    agent asks for. `remind_after` lists when to remind, counted from the request. `agents` and
    `tools` are names in which `*` stands for anything; empty for all. `targets` are places:
    `adapter:channel` where a card is posted, or the bare name of an adapter that shows all
    requests, such as `web`. With `mention` the card calls the approvers when it is posted. `notify`
    are told the outcome; `requester` stands for the agent's owner. With `self_approval` off, a
    requester may never decide; high risk always behaves so. With `discreet`, notifications name
    the agent and the risk, and not what would run. `risk` says what holds instead at a level of
    risk: `at` returns the route as it holds there.
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
    mention: bool = False
    remind_after: tuple[float, ...] = ()
    escalations: tuple[Escalation, ...] = ()
    notify: tuple[str, ...] = ()
    discreet: bool = False
    risk: RulesByRisk = field(default_factory=RulesByRisk)

    def at(self, level: RiskLevel) -> Route:
        """Return the route as it holds for requests of this risk."""
        rules = self.risk.at(level)
        if rules is None:
            return self
        return replace(
            self,
            approvers=self.approvers if rules.approvers is None else rules.approvers,
            quorum=self.quorum if rules.quorum is None else rules.quorum,
        )

    def levels(self) -> tuple[tuple[RiskLevel, Route], ...]:
        """Return the route as it holds at each level of risk."""
        return tuple((level, self.at(level)) for level in RiskLevel)

    @property
    def admitted(self) -> tuple[str, ...]:
        """Who may approve at some level of risk, each once."""
        return tuple(dict.fromkeys(one for _, at in self.levels() for one in at.approvers))

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Where nobody may approve: the route's name, or that of a level of risk on it."""
        if not self.approvers:
            return (self.name,)
        empty = (level for level, route in self.levels() if not route.approvers)
        return tuple(f"{self.name} at {level} risk" for level in empty)

    def without(self, gone: Collection[str]) -> Route:
        """Return the route with these entries taken out of its approvers, at each level."""
        kept = tuple(one for one in self.approvers if one not in gone)
        return replace(self, approvers=kept, risk=self.risk.without(gone))

    def step_up(self, level: RiskLevel) -> tuple[StepUp, ...]:
        """Return the ways of which an approval takes one at this level; none where a tap is
        enough."""
        rules = self.risk.at(level)
        return () if rules is None else rules.step_up

    def places(self, tier: int) -> tuple[str, ...]:
        """Return the targets in use after `tier` escalations, each once, in order."""
        later = (target for step in self.escalations[:tier] for target in step.targets)
        return tuple(dict.fromkeys((*self.targets, *later)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Wire):
    """How much attention the agents that it names may ask for, each of them.

    `waiting` requests of `bytes` in all may wait; more are refused. So is what exceeds `daily`
    bytes handed in within a day, whatever became of them: they are kept for long, so each counts
    for 1 kB more than its own. `cards` may be posted at once, and then as many a minute; what
    exceeds them waits behind one overflow card. After `denials` of people in a row (0: never)
    nobody is asked for `pause` seconds. `agents` are names in which `*` stands for anything; empty
    for all.
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
        """How long one card's share of a minute is, in ms."""
        return max(1, 60_000 // self.cards)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow(Wire):
    """What an operator says of one tool, by its whole name as it is sent.

    A `harmless` one may be remembered as a whole. `agents` are names in which `*` stands for
    anything; empty for all. `arguments` are the roles of arguments (`gateway.wire.roles`) by name,
    or by an address such as `edits[].text`. `declared_by` and `declared_at` say who wrote it from a
    card, or changed it there, and when.
    """

    name: str
    harmless: bool = False
    agents: tuple[str, ...] = ()
    arguments: dict[str, str] = field(default_factory=dict)
    declared_by: str = ""
    declared_at: str = ""


class StepUps(NamedTuple):
    """The ways of which an approval takes one, and those of them that can be done; both empty where
    a tap is enough."""

    asked: tuple[StepUp, ...]
    able: tuple[StepUp, ...]


class Ruling(NamedTuple):
    """A policy and the route of a request: found once for each submission, click or card.

    What holds depends on the risk, which may rise while a request is judged. So each method takes
    the request's record as it stands.
    """

    policy: PolicyDocument
    route: Route

    def route_at(self, record: StoredRequest) -> Route:
        """Return the route as it holds at a record's risk."""
        return self.route.at(record.risk.level)

    def step_up(self, record: StoredRequest) -> StepUps:
        """Return which ways of a step-up an approval is asked for, and which can be done."""
        asked = self.route.step_up(record.risk.level)
        able = (one for one in asked if one is not StepUp.NUMBER or record.numbered)
        return StepUps(asked, tuple(able))

    def quorum(self, record: StoredRequest) -> int:
        """Return how many people a record takes at its risk: two where that is the only
        step-up."""
        quorum = self.route_at(record).quorum
        return max(quorum, 2) if self.step_up(record).able == (StepUp.PERSON,) else quorum


_NOBODY = Route()
_USUAL = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rulebook(Wire):
    """Everything that an operator writes.

    What the authors of tools declare about them may free arguments, and count as harmless, only for
    the agents of `trust_declarations`: names in which `*` stands for anything; empty for none.
    A recipient outside `own_domains` is a finding; one that begins with `*.` has all below it.
    """

    people: tuple[Person, ...] = ()
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
    """The rulebook in force. Replaced as a whole; `generation` counts the replacements."""

    generation: int = 0

    def person_of(self, identity: Identity) -> Person | None:
        """Return the person whom this verified identity belongs to."""
        wanted = identity.written
        for person in self.people:
            if wanted in person.identities:
                return person
        return None

    def name_of(self, identity: Identity) -> str:
        """Return the name of the person behind an identity; without one the identity itself."""
        person = self.person_of(identity)
        return person.name if person else identity.written

    def names_of(self, identity: Identity) -> tuple[str, ...]:
        """Return all by which a route may admit an identity, its person's name first."""
        return (self.name_of(identity), identity.written, *identity.groups)

    def accounts_of(self, names: Iterable[str], platform: str) -> tuple[str, ...]:
        """Return the identities of people on a platform, without its name: of each person one for
        each place, such as a workspace. An identity that is nobody's stands for itself."""
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
        """Whether an identity is an admin's."""
        person = self.person_of(identity)
        return person is not None and person.admin

    def places(self) -> tuple[str, ...]:
        """Return every target of every route, once."""
        every = (one for route in self.routes for one in route.places(len(route.escalations)))
        return tuple(dict.fromkeys(every))

    def route_for(self, agent: str, tool: str) -> Route:
        """Return the first route that fits; without one, a route on which nobody may approve."""
        for route in self.routes:
            if is_named(route.agents, agent) and is_named(route.tools, tool):
                return route
        return _NOBODY

    def ruling_on(self, request: ApprovalRequest) -> Ruling:
        """Return what this policy says of a request, to be passed on: its route is found once."""
        return Ruling(self, self.route_for(request.agent, request.tool))

    def declare(self, record: StoredRequest) -> StoredRequest:
        """Return a record with what is declared about its tool, whatever was declared before.

        A row of the operator's speaks before the author: a tool in it is as harmless as it says.
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
        """Return the first budget that names an agent, or the default one."""
        for budget in self.budgets:
            if is_named(budget.agents, agent):
                return budget
        return _USUAL

    def risk_of(self, request: ApprovalRequest, arguments: JsonObject) -> Risk:
        """Return the highest risk that a rule sets or the agent claims; medium where none does."""
        return assess_by_rules(self.risks, request, arguments)


def adapters_of(targets: Iterable[str]) -> tuple[str, ...]:
    """Return the adapters that post cards at these targets, each once."""
    return tuple(dict.fromkeys(t.partition(":")[0] for t in targets if ":" in t))
