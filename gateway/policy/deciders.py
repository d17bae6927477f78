"""Links of the policy chain: the operator's rules, the guardrails, and remembered decisions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Protocol

from gateway.domain.policy_document import Guardrails, PolicyDocument, PolicyRule, Route, RuleEffect
from gateway.domain.records import Record
from gateway.domain.risk import is_named, searchable_text
from gateway.domain.safe_text import fold
from gateway.domain.time_and_tasks import Clock
from gateway.models import DecidedBy, DeciderKind, Kind, Reason
from gateway.policy.authorization import holds_at_risk, is_backed, lets_through
from gateway.policy.calls.argument_roles import (
    COMMAND_NAMES,
    COMMANDS,
    RoleSource,
    may_run_anything,
    plain_name,
)
from gateway.policy.calls.call_arguments import Call, Declaration
from gateway.policy.calls.call_effects import (
    CallEffects,
    DoubtKind,
    fits_text,
    touch,
    touches_of,
    values_named,
)
from gateway.policy.calls.paths import delicate, is_root, within
from gateway.policy.chain import ALLOW, ASK, DENY, Shadow
from gateway.policy.grants.coverage import covers, runs_only, why_asked
from gateway.policy.grants.denials import (
    forbids_command,
    most,
    over_readings,
    reaches_folder,
    read_without_authors,
)
from gateway.policy.grants.grant import PASSES, Effect, Grant, MatchResult, Suspension
from gateway.policy.grants.variations import (
    command_leaf,
    derive_allow_pattern,
    derive_deny_pattern,
    is_delicate,
    legible,
    may_write,
)
from gateway.policy.guardrails import find_signs, findings
from gateway.policy.verdict import Decider, Verdict
from gateway.wire.roles import Role

_RUNNING = (Role.ACTION, Role.INPUT, Role.NESTED, *COMMANDS)
_UNCLEAR = frozenset(DoubtKind) - {DoubtKind.CONTAINER, DoubtKind.URL}
GUARDRAILS_PRIORITY = 1000
PRIORITIES = {RuleEffect.DENY: 950, RuleEffect.ASK: 700, RuleEffect.ALLOW: 300}

ReadPolicy = Callable[[], Awaitable[PolicyDocument]]


def rule_links(policy: ReadPolicy) -> tuple[Rules | GuardrailLink, ...]:
    """Return the links that answer with what operators wrote."""
    return (GuardrailLink(policy), *(Rules(policy, effect) for effect in RuleEffect))


class Rules:
    """All rules of one effect, in the order in which they are written."""

    def __init__(self, policy: ReadPolicy, effect: RuleEffect) -> None:
        self._policy = policy
        self._effect = effect
        self.seconds = None
        self.name = f"{effect} rules"
        self.priority = PRIORITIES[effect]

    async def decide(self, record: Record, route: Route) -> Verdict | None:
        """Answer with the first rule that fits and is in force."""
        found = [one for one in await self._find_fitting(record) if not one[0].shadow]
        certain = (_verdict(rule) for rule, cover in found if cover is MatchResult.YES)
        unsure = (
            replace(_verdict(rule), effect=ASK, message=f"may be {rule.name}")
            for rule, cover in found
            if cover is MatchResult.UNSURE
        )
        return next(certain, None) or next(unsure, None)

    async def shadows(self, record: Record) -> list[Shadow]:
        """Return what the rules in shadow would have done."""
        found = await self._find_fitting(record)
        return [Shadow(rule=one.name, effect=one.effect.value) for one, _ in found if one.shadow]

    async def _find_fitting(self, record: Record) -> list[tuple[PolicyRule, MatchResult]]:
        rules = [one for one in (await self._policy()).rules if one.effect is self._effect]
        found = [(rule, fits(rule, record)) for rule in rules]
        return [one for one in found if one[1] is not MatchResult.NO]


class GuardrailLink:
    """The built-in guardrails, as far as the policy has them in force."""

    name = "guardrails"
    priority = GUARDRAILS_PRIORITY
    seconds = None

    def __init__(self, policy: ReadPolicy) -> None:
        self._policy = policy

    async def decide(self, record: Record, route: Route) -> Verdict | None:
        """Ask or deny where something was found, and the policy says so."""
        mode = (await self._policy()).guardrails
        if mode not in (Guardrails.ASK, Guardrails.DENY):
            return None
        found = find_signs(record)
        if not found:
            return None
        by = DecidedBy(kind=DeciderKind.RULE, name=self.name)
        # What is only worth a look is for people, however strict the policy is.
        refused = mode is Guardrails.DENY and any(one.destroys for one in found)
        return Verdict(
            effect=DENY if refused else ASK,
            by=by,
            reason=Reason.RULE,
            message="; ".join(one.words for one in found),
        )

    async def shadows(self, record: Record) -> list[Shadow]:
        """Return what would have been stopped."""
        if (await self._policy()).guardrails is not Guardrails.SHADOW:
            return []
        return [Shadow(rule=self.name, effect=DENY, why=why) for why in record.signs]


def fits(rule: PolicyRule, record: Record) -> MatchResult:
    """Return whether a rule fits a request: an allow must be certain, others miss nothing."""
    request = record.request
    if not (is_named(rule.agents, request.agent) and _is_for_tool(rule, record)):
        return MatchResult.NO
    if rule.kinds and request.kind not in rule.kinds:
        return MatchResult.NO
    if rule.read_only and not request.read_only:
        return MatchResult.NO
    if rule.effect is RuleEffect.ALLOW:
        return MatchResult.YES if _may_allow(rule, record) else MatchResult.NO
    found = set(_hits(rule, record))
    if MatchResult.NO in found:
        return MatchResult.NO
    return MatchResult.UNSURE if MatchResult.UNSURE in found else MatchResult.YES


def _is_for_tool(rule: PolicyRule, record: Record) -> bool:
    """Whether a rule names the tool; a deny or ask also by other names, and within a call."""
    if is_named(rule.tools, record.request.tool):
        return True
    if rule.effect is RuleEffect.ALLOW:
        return False
    calls = (one for part in touches_of(record) for one in part.everything())
    return any(is_named(rule.tools, name) for one in calls for name in one.names)


def mistakes(rule: PolicyRule) -> Iterator[str]:
    """Say what is wrong with a rule as it is written."""
    allows = rule.effect is RuleEffect.ALLOW
    if allows and rule.contains:
        yield "an allow cannot go by `contains`: text around it could say anything."
    if rule.read_only and not allows:
        yield "only an allow goes by `read_only`: an agent could leave the word out."
    if allows and not (rule.tools or rule.commands):
        yield "an allow names tools or commands."
    for text in rule.commands:
        if (derive_allow_pattern(text, None) if allows else derive_deny_pattern(text)) is None:
            known = "known in known_commands.txt, without flags" if allows else "plain"
            yield f"the command {text!r} is not {known}."
    for folder in rule.folders:
        if not folder.startswith("/"):
            yield f"the folder {folder!r} does not begin at the root."


def _verdict(rule: PolicyRule) -> Verdict:
    by = DecidedBy(kind=DeciderKind.RULE, name=rule.name)
    effect = {RuleEffect.ALLOW: ALLOW, RuleEffect.DENY: DENY, RuleEffect.ASK: ASK}[rule.effect]
    return Verdict(effect=effect, by=by, reason=Reason.RULE, message=rule.message)


def _may_allow(rule: PolicyRule, record: Record) -> bool:
    request = record.request
    if record.for_people or request.questions or rule.contains or not legible(record.arguments):
        return False
    if request.context.env or request.payload is not None:
        return False
    touches = _read(rule, record)
    if not all(
        [*values_named(touches, address)] != []
        and all(fits_text(wanted, one) for one in values_named(touches, address))
        for address, wanted in rule.arguments.items()
    ):
        return False
    if rule.commands:
        return _runs_plainly(rule, touches) and _runs_one_of(rule, record, touches)
    if rule.folders:
        return request.kind is not Kind.COMMAND and _stays_in(rule, record, touches)
    return bool(rule.tools) and request.kind is Kind.TOOL and _is_ordinary(rule, touches)


def _read(rule: PolicyRule, record: Record) -> CallEffects:
    """Return what a call touches. A rule that names tools beside commands says that they run them,
    as a declaration would."""
    (found,) = touches_of(record)
    if not (rule.tools and rule.commands):
        return found
    call: Call = found.call
    roles = {name: role for name in call.arguments if (role := _role_of_command(name))}
    return touch(
        replace(call, roles=(*call.roles, Declaration(by=RoleSource.OPERATOR, roles=roles)))
    )


def _role_of_command(name: str) -> Role | None:
    plain = plain_name(name)
    if plain in COMMAND_NAMES:
        return Role.COMMAND
    return {"commands": Role.COMMANDS, "argv": Role.ARGV}.get(plain)


def _runs_plainly(rule: PolicyRule, touches: CallEffects) -> bool:
    """Whether a call runs where its context says, or in the rule's folders, as nobody else and
    with no other rights, under every reading."""
    if touches.rights or touches.users or touches.environment or touches.foreign_shell:
        return False
    if any(one is not touches for one in touches.everything()) or touches.with_role(
        Role.INPUT, Role.HOST
    ):
        return False
    if touches.base_source == "context":
        return True
    return touches.base is not None and any(within(touches.base, one) for one in rule.folders)


def _adds_nothing(touches: CallEffects, rule: PolicyRule) -> bool:
    """Whether a call changes no environment, asks for no rights and hands on no other call, but for
    what the rule names with its value."""
    inner = any(one is not touches for one in touches.everything())
    more = (*touches.rights, *touches.users, *touches.environment)
    named = set(map(plain_name, rule.arguments))
    return not inner and all(plain_name(one.address) in named for one in more)


def _stays_in(rule: PolicyRule, record: Record, touches: CallEffects) -> bool:
    """Whether a call names paths, each in one of the folders under every reading and not delicate,
    and nothing runs."""
    if not _adds_nothing(touches, rule) or any(touches.all_programs()):
        return False
    if touches.urls or touches.with_role(*_RUNNING, Role.HOST, Role.URL):
        return False
    paths = list(touches.all_paths())
    written = any(may_write(touches, path) for path in paths)
    # What the agent's side resolved must lie there too, and nothing there may be delicate.
    bound = record.request.context.files
    return (
        any(not path.looks for path in paths)
        and all(_lies_in(rule, path.absolute) and not is_delicate(touches, path) for path in paths)
        and all(_lies_in(rule, one) and not delicate(one, written=written) for one in bound)
    )


def _lies_in(rule: PolicyRule, path: str | None) -> bool:
    return path is not None and any(within(path, one) for one in rule.folders)


def _is_ordinary(rule: PolicyRule, touches: CallEffects) -> bool:
    """Whether a call may be allowed whatever its arguments are: nothing runs, nothing is delicate,
    and each path is one to all readers."""
    if may_run_anything(touches.call.tool) or not _adds_nothing(touches, rule):
        return False
    if touches.with_role(*_RUNNING) or any(one.kind in _UNCLEAR for one in touches.doubts):
        return False
    return not any(is_delicate(touches, path) for path in touches.all_paths())


def _runs_one_of(rule: PolicyRule, record: Record, touches: CallEffects) -> bool:
    cwd = record.request.context.cwd
    leaf = command_leaf(touches)
    if leaf is None or touches.readings:
        return False
    # Beside the command stand words about it, and where it runs, which was looked at.
    beside = {one.role for one in touches.leaves if one is not leaf}
    if not beside <= {Role.REMARK, Role.WORKING_FOLDER}:
        return False
    # An agent says where it works: that must not be everywhere.
    folders = rule.folders or (() if is_root(cwd) else (cwd,))
    patterns = (derive_allow_pattern(text, folder) for text in rule.commands for folder in folders)
    return any(one is not None and runs_only(one, touches.programs, record) for one in patterns)


def _hits(rule: PolicyRule, record: Record) -> Iterator[MatchResult]:
    if rule.contains:
        text = searchable_text(record.parts)
        yield (
            MatchResult.YES if any(fold(part) in text for part in rule.contains) else MatchResult.NO
        )
    parts = read_without_authors(record)
    if rule.commands:
        patterns = list(filter(None, map(derive_deny_pattern, rule.commands)))
        yield most([forbids_command(one, part) for one in patterns for part in parts])
    if rule.folders:
        yield most([reaches_folder(one, part) for one in rule.folders for part in parts])
    for address, wanted in rule.arguments.items():
        yield most([_has_argument(part, address, wanted) for part in parts])


def _has_argument(touches: CallEffects, address: str, wanted: str) -> MatchResult:
    """Whether a call, or one within it, has a value that a condition on its arguments means."""
    return over_readings(touches, lambda one: _has_value(one, address, wanted))


def _has_value(touches: CallEffects, address: str, wanted: str) -> MatchResult:
    values = list(values_named(touches, address))
    if any(fits_text(wanted, one) for one in values):
        return MatchResult.YES
    hidden = any(one.kind is DoubtKind.LIMIT for one in touches.doubts)
    plain = all(isinstance(one, str | int | float) or one is None for one in values)
    return MatchResult.NO if plain and not hidden else MatchResult.UNSURE


# The remembered decisions as the policy chain sees them: two links, denials above approvals.
#
# What was read stays in memory for one generation of the policy. It can be out of date for a
# moment, and then decides nothing: the script that stores the decision refuses another generation,
# and a grant that was ended, has expired or is used up.

DENY_PRIORITY, ALLOW_PRIORITY = 900, 500
PAGE = 200
_MOST_ENTRIES = 10_000

_Entry = tuple[int, tuple[Grant, ...]]


class GrantStore(Protocol):
    """Remembered decisions. Making one counts as a new generation of the policy, and so does
    ending one before its time."""

    async def add(self, grant: Grant) -> str:
        """Write a grant and its event. Results: OK, EXISTS (or ended before), FULL."""

    async def end(
        self,
        grant: Grant,
        *,
        why: str,
        by: str,
        only_spent: bool = False,
        announced: bool = False,
    ) -> bool:
        """Take a grant back, with `only_spent` one that expired or is used up; was it there?

        With `announced` its end is told beside its cards.
        """

    async def say(
        self, grant: Grant, field: str, *, before: str, after: str, event: str, announced: bool
    ) -> bool:
        """Note something about a live grant, if it stood as `before`; return whether it did."""

    async def rest(self, grant: Grant, rests: Suspension) -> bool:
        """Suspend a live grant; return False when it changed meanwhile. No request finds it any
        more."""

    async def erase(self, grant: Grant) -> None:
        """Put a grant that ended in the place of what it covered."""

    async def get(self, grant_id: str) -> Grant | None:
        """Return a grant with its uses, None when it is not there any more."""

    async def find(self, grant_id: str) -> Grant | None:
        """Return a grant with its uses, also one that ended and is not forgotten yet."""

    async def about(self, agent: str, tool: str, digest: str) -> tuple[int, list[Grant]]:
        """Return the grants that may cover such a request, without their uses, and the generation
        they are of."""

    async def count(self) -> tuple[int, int]:
        """Return the generation, and how many grants there are in it."""

    async def page(self, *, after: str | None, limit: int) -> tuple[list[Grant], str | None]:
        """Return one page of grants with their uses, the newest first, and the next cursor."""

    async def list_ended(self, limit: int) -> list[Grant]:
        """Return the grants that ended last, the last one first."""

    async def of_session(self, agent: str, session: str) -> list[Grant]:
        """Return the grants that end with a session."""

    async def due(self, now: int, limit: int) -> tuple[list[Grant], list[Grant]]:
        """Return grants whose time is over at `now`, and those whose end is to be announced."""


async def every(store: GrantStore) -> list[Grant]:
    """Return all grants with their uses, the newest first."""
    found: list[Grant] = []
    cursor: str | None = None
    while True:
        grants, cursor = await store.page(after=cursor, limit=PAGE)
        found += grants
        if cursor is None:
            return found


class GrantBook:
    """Remembered decisions by what they may cover."""

    def __init__(self, store: GrantStore, clock: Clock) -> None:
        self.store = store
        self._clock = clock
        self._entries: dict[tuple[str, str, str], _Entry] = {}
        self._spent: set[str] = set()
        self._limited: set[str] = set()
        self._policy = PolicyDocument()
        self._generation = -1
        self._counted = (-1, 0)

    @property
    def deciders(self) -> tuple[Decider, Decider]:
        """The two links of the chain."""
        return _Link(self, Effect.DENY, DENY_PRIORITY), _Allows(self, Effect.ALLOW, ALLOW_PRIORITY)

    def at(self, policy: PolicyDocument) -> None:
        """Use only what is of this policy's generation from now on."""
        if policy.generation != self._generation:
            self._generation = policy.generation
            self._entries.clear()
        self._policy = policy

    def spend(self, grant_id: str) -> None:
        """Never use this grant again: the server says that it is over."""
        self._spent.add(grant_id)

    def is_limited(self, grant_id: str) -> bool:
        """Whether a grant that was seen here may be used so many times only."""
        return grant_id in self._limited

    async def about(self, record: Record) -> tuple[Grant, ...]:
        """Return the grants that may cover a record, the session's first."""
        if await self._empty():
            return ()
        request = record.request
        key = (request.agent, request.tool, record.digest)
        found = self._entries.get(key)
        if found is None or found[0] != self._generation:
            generation, grants = await self.store.about(*key)
            speaking = (one for one in grants if is_backed(self._policy, one))
            found = generation, tuple(sorted(speaking, key=_narrow_first))
            self._limited |= {one.id for one in grants if one.max_uses is not None}
            while len(self._entries) >= _MOST_ENTRIES:
                self._entries.pop(next(iter(self._entries)))
            self._entries[key] = found
        now = self._clock.now_ms()
        return tuple(one for one in found[1] if one.live(now) and one.id not in self._spent)

    def redeclare(self, record: Record) -> Record:
        """Return the record as this policy declares its tool, whatever was declared before."""
        return self._policy.declare(record)

    def fit(self, grant: Grant, record: Record, route: Route) -> bool:
        """Whether a grant may decide a request of this risk, and a pass, whose requests nobody
        sees, one like this."""
        if not holds_at_risk(self._policy, grant, record, route):
            return False
        if grant.match.shape not in PASSES:
            return True
        return lets_through(self._policy, grant, record, route) and not findings(record)

    async def _empty(self) -> bool:
        """Tell whether nothing is remembered: then nothing need be looked up for each request."""
        if self._counted[0] != self._generation:
            self._counted = await self.store.count()
        return self._counted == (self._generation, 0)


class _Link:
    """All remembered denials, or all remembered approvals, as one decider."""

    def __init__(self, book: GrantBook, effect: Effect, priority: int) -> None:
        self._book = book
        self._effect = effect
        self.name = f"remembered {effect.value}"
        self.priority = priority
        self.seconds = None

    async def decide(self, record: Record, route: Route) -> Verdict | None:
        """Answer with the first grant that covers the request."""
        record = self._book.redeclare(record)
        mine = [one for one in await self._book.about(record) if one.effect is self._effect]
        mine = [one for one in mine if self._book.fit(one, record, route)]
        covered = [(covers(grant, record), grant) for grant in mine]
        for cover, grant in covered:
            if cover is MatchResult.YES:
                effect = DENY if self._effect is Effect.DENY else ALLOW
                return _cite(effect, grant, grant.told or grant.match.scope.value)
        for cover, grant in covered:
            if cover is MatchResult.UNSURE:
                return _cite(ASK, grant, "may be what a remembered denial covers")
        return None


class _Allows(_Link):
    """The remembered approvals, which can tell what kept them from covering a request."""

    async def asks_because(self, record: Record) -> str:
        """Return what kept the nearest remembered approval of the tool from covering it."""
        record = self._book.redeclare(record)
        near = [one for one in await self._book.about(record) if one.effect is Effect.ALLOW]
        return why_asked(near, record)


def _cite(effect: str, grant: Grant, message: str) -> Verdict:
    # Agents and the audit read the message: nothing of what the grant covers stands in it, but
    # what they were told when it was denied.
    by = DecidedBy(kind=DeciderKind.GRANT, name=grant.id)
    return Verdict(effect=effect, by=by, reason=Reason.GRANT, message=message)


def _narrow_first(grant: Grant) -> tuple[bool, bool, int]:
    return grant.match.shape in PASSES, grant.session is None, grant.made_at
