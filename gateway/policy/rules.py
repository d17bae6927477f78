"""Apply the operator's rules, and the guardrails, in the policy chain. Start reading at `Rules`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gateway.domain.policy_document import Guardrails, PolicyDocument, PolicyRule, Route, RuleEffect
from gateway.domain.records import Spend, StoredRequest
from gateway.domain.risk import is_named, searchable_text
from gateway.domain.safe_text import fold
from gateway.models import DecidedBy, DeciderKind, Kind, Reason
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
    Leaf,
    UncertaintyKind,
    effects_of,
    fits_text,
    touch,
    values_named,
)
from gateway.policy.calls.paths import delicate, is_root, within
from gateway.policy.calls.recipients import (
    find_outside,
    holds_address,
    is_address,
    names_amount,
    names_recipient,
    spell,
)
from gateway.policy.chain import ALLOW, ASK, DENY, Shadow
from gateway.policy.grants.coverage import runs_only
from gateway.policy.grants.denials import (
    forbids_command,
    most,
    over_readings,
    reaches_folder,
    read_without_authors,
)
from gateway.policy.grants.grant import MatchResult
from gateway.policy.grants.variations import (
    command_leaf,
    derive_allow_pattern,
    derive_deny_pattern,
    is_delicate,
    legible,
    may_write,
)
from gateway.policy.guardrails import find_dangers
from gateway.policy.limits import (
    arguments_of,
    each_named,
    limit_mistakes,
    meets,
    number_of,
    numbers_named,
    say_shortage,
    spends_of,
)
from gateway.policy.verdict import Verdict
from gateway.wire.roles import Role

_RUNNING = (Role.ACTION, Role.INPUT, Role.NESTED, *COMMANDS)
_SIGN, _SEPARATOR = re.compile(r"[^\w.+-]"), re.compile(r"[\s,;\\@]")
_UNCLEAR = frozenset(UncertaintyKind) - {UncertaintyKind.CONTAINER, UncertaintyKind.URL}
GUARDRAILS_PRIORITY = 1000
PRIORITIES = {RuleEffect.DENY: 950, RuleEffect.ASK: 700, RuleEffect.ALLOW: 300}

ReadPolicy = Callable[[], Awaitable[PolicyDocument]]
ReadCounted = Callable[[Sequence[Spend]], Awaitable[list[int]]]


def rule_links(policy: ReadPolicy, counted: ReadCounted) -> tuple[Rules | GuardrailLink, ...]:
    """Return the deciders: one for the guardrails, and one for the rules of each effect."""
    return (GuardrailLink(policy), *(Rules(policy, counted, effect) for effect in RuleEffect))


class Rules:
    """Decides with all rules that have one effect, in the order of the policy file."""

    def __init__(self, policy: ReadPolicy, counted: ReadCounted, effect: RuleEffect) -> None:
        self._policy = policy
        self._counted = counted
        self._effect = effect
        self.seconds = None
        self.name = f"{effect} rules"
        self.priority = PRIORITIES[effect]

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Answer with the first active rule that fits the request."""
        found = [one for one in await self._find_fitting(record) if not one[0].shadow]
        certain = (rule for rule, cover in found if cover is MatchResult.YES)
        unsure = (
            replace(_verdict(rule), effect=ASK, message=f"may be {rule.name}")
            for rule, cover in found
            if cover is MatchResult.UNSURE
        )
        rule = next(certain, None)
        return next(unsure, None) if rule is None else await self._limit(rule, record)

    async def asks_because(self, record: StoredRequest) -> str:
        """Return which limit stopped an allow rule that fits from allowing the request; "" if none
        did."""
        found = await self.decide(record, Route()) if self._effect is RuleEffect.ALLOW else None
        return found.message if found is not None and found.effect == ASK else ""

    async def _limit(self, rule: PolicyRule, record: StoredRequest) -> Verdict:
        """Return the verdict of a rule that fits the request. If it exceeds the rule's limits,
        people decide."""
        spends = spends_of(rule, record.request.agent, effects_of(record)[0])
        # Only an estimate: the script that stores the decision counts again.
        counted = await self._counted(spends) if spends else []
        if short := say_shortage(rule, spends, counted):
            return replace(_verdict(rule), effect=ASK, message=short)
        return replace(_verdict(rule), spends=spends or ())

    async def shadows(self, record: StoredRequest) -> list[Shadow]:
        """Return the effects that the report-only rules would have had."""
        found = await self._find_fitting(record)
        return [Shadow(rule=one.name, effect=one.effect.value) for one, _ in found if one.shadow]

    async def _find_fitting(self, record: StoredRequest) -> list[tuple[PolicyRule, MatchResult]]:
        policy = await self._policy()
        rules = [one for one in policy.rules if one.effect is self._effect]
        found = [(rule, fits(rule, record, policy.own_domains)) for rule in rules]
        return [one for one in found if one[1] is not MatchResult.NO]


class GuardrailLink:
    """Decides with the built-in guardrails, if the policy enables them."""

    name = "guardrails"
    priority = GUARDRAILS_PRIORITY
    seconds = None

    def __init__(self, policy: ReadPolicy) -> None:
        self._policy = policy

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """If a guardrail finds something, ask people or deny, whichever the policy specifies."""
        policy = await self._policy()
        mode = policy.guardrails
        if mode not in (Guardrails.ASK, Guardrails.DENY):
            return None
        found = find_dangers(record, policy.own_domains)
        if not found:
            return None
        by = DecidedBy(kind=DeciderKind.RULE, name=self.name)
        # A finding that is only worth a look is for people, also in mode deny.
        refused = mode is Guardrails.DENY and any(one.destroys for one in found)
        return Verdict(
            effect=DENY if refused else ASK,
            by=by,
            reason=Reason.RULE,
            message="; ".join(one.words for one in found),
        )

    async def shadows(self, record: StoredRequest) -> list[Shadow]:
        """Return the findings for which active guardrails would have denied the request."""
        if (await self._policy()).guardrails is not Guardrails.SHADOW:
            return []
        return [Shadow(rule=self.name, effect=DENY, why=why) for why in record.located_findings]


def fits(rule: PolicyRule, record: StoredRequest, own: tuple[str, ...] = ()) -> MatchResult:
    """Return whether a rule fits a request. An allow rule never fits if anything is unclear, and
    must name each recipient outside the `own` domains. For a deny or ask rule the result may also
    be unsure."""
    request = record.request
    if not (is_named(rule.agents, request.agent) and _is_for_tool(rule, record)):
        return MatchResult.NO
    if rule.kinds and request.kind not in rule.kinds:
        return MatchResult.NO
    if rule.read_only and not request.read_only:
        return MatchResult.NO
    if rule.effect is RuleEffect.ALLOW:
        return MatchResult.YES if _may_allow(rule, record, own) else MatchResult.NO
    found = set(_hits(rule, record))
    if MatchResult.NO in found:
        return MatchResult.NO
    return MatchResult.UNSURE if MatchResult.UNSURE in found else MatchResult.YES


def _is_for_tool(rule: PolicyRule, record: StoredRequest) -> bool:
    """Return whether a rule names the tool. A deny or ask rule may also name an inner call or the
    tool by one of its other names."""
    if is_named(rule.tools, record.request.tool):
        return True
    if rule.effect is RuleEffect.ALLOW:
        return False
    calls = (one for part in effects_of(record) for one in part.everything())
    return any(is_named(rule.tools, name) for one in calls for name in one.names)


def mistakes(rule: PolicyRule) -> Iterator[str]:
    """Yield the mistakes in a rule."""
    allows = rule.effect is RuleEffect.ALLOW
    if allows and rule.contains:
        yield "an allow rule cannot use `contains`, because the rest of the text could do anything."
    if rule.read_only and not allows:
        yield (
            "only an allow rule can use `read_only`, because an agent could leave that member out."
        )
    if allows and not (rule.tools or rule.commands):
        yield "an allow rule must name tools or commands."
    for text in rule.commands:
        if (derive_allow_pattern(text, None) if allows else derive_deny_pattern(text)) is None:
            known = "known in known_commands.txt, without flags" if allows else "plain"
            yield f"the command {text!r} is not {known}."
    for folder in rule.folders:
        if not folder.startswith("/"):
            yield f"the folder {folder!r} must begin with /."
    for name, wanted in rule.arguments.items():
        if wanted == []:
            yield f"the argument {name!r} has an empty list, which no value matches."
    yield from limit_mistakes(rule)


def _verdict(rule: PolicyRule) -> Verdict:
    by = DecidedBy(kind=DeciderKind.RULE, name=rule.name)
    effect = {RuleEffect.ALLOW: ALLOW, RuleEffect.DENY: DENY, RuleEffect.ASK: ASK}[rule.effect]
    return Verdict(effect=effect, by=by, reason=Reason.RULE, message=rule.message)


def _may_allow(rule: PolicyRule, record: StoredRequest, own: tuple[str, ...]) -> bool:
    request = record.request
    if record.for_people or request.questions or rule.contains or not legible(record.arguments):
        return False
    if request.context.env or request.payload is not None:
        return False
    effects = _read(rule, record)
    if not (_has_arguments(rule, effects) and _names_each(rule, effects, own)):
        return False
    if rule.commands:
        return _runs_plainly(rule, effects) and _runs_one_of(rule, record, effects)
    if rule.folders:
        return request.kind is not Kind.COMMAND and _stays_in(rule, record, effects)
    return bool(rule.tools) and request.kind is Kind.TOOL and _is_ordinary(rule, effects)


def _has_arguments(rule: PolicyRule, effects: CallEffects) -> bool:
    """Return whether a call has each value that an allow rule names, and each of them fits."""
    found: list[tuple[list[Any], Callable[[Any], bool]]] = [
        *((_values(effects, one, said), partial(_is_surely, said))
          for one, said in rule.arguments.items()),
        *((numbers_named(effects, one), partial(meets, said))
          for one, said in rule.numbers.items()),
    ]  # fmt: skip
    return all(values and all(map(fit, values)) for values, fit in found)


def _is_surely(wanted: str | list[str], value: Any) -> bool:
    """Return whether a value fits a pattern of an allow rule, and no `*` in it matches a second
    address or name."""
    patterns = [wanted] if isinstance(wanted, str) else wanted
    found = (one for one in patterns if fits_text(one, value))
    return any(_is_one_name(one, value, listed=one != wanted) for one in found)


def _is_one_name(pattern: str, value: Any, *, listed: bool) -> bool:
    """Return whether a string is a single address or name, if the pattern requires one. In a list
    of patterns, signs that the pattern lacks could separate several names. A pattern with a blank
    accepts any text."""
    if isinstance(value, str) and "*" in pattern and "@" in pattern[1:]:
        return is_address(value)
    if not (listed and isinstance(value, str) and set(pattern) > {"*"}) or " " in pattern:
        return True
    signs = _SIGN.findall(value) if "://" not in pattern else _SEPARATOR.findall(value)
    return set(signs) <= set(pattern) and ".." not in value


def _values(effects: CallEffects, name: str, wanted: str | list[str]) -> list[Any]:
    """Return the values under a name. If the rule has a list of values, also return the entries of
    lists."""
    return [*(values_named if isinstance(wanted, str) else each_named)(effects, name)]


def _names_each(rule: PolicyRule, effects: CallEffects, own: tuple[str, ...]) -> bool:
    """Return whether an allow rule names every value that it must. If it compares numbers, it must
    name each amount; if it names a recipient, it must name each recipient. It must always name each
    recipient outside the `own` domains."""
    given = [one for one in effects.leaves if one.value not in (None, "", [], {})]
    compares = rule.numbers or any(one.of for one in rule.limits)
    if compares and not all(_names(rule, one) for one in given if names_amount(one)):
        return False
    named = [_names(rule, one) for one in given if names_recipient(one) or holds_address(one)]
    if any(named) and not all(named):
        return False
    outside = (leaf for leaf, _ in find_outside(effects, own))
    return all(_names(rule, one, any_value=False) for one in outside)


def _names(rule: PolicyRule, leaf: Leaf, *, any_value: bool = True) -> bool:
    """Return whether a rule names a value by its argument's name or address. With
    `any_value=False`, a bare `*` does not count."""
    said = {name for name, wanted in rule.arguments.items() if any_value or set(wanted) != {"*"}}
    if any_value:
        said |= {*rule.numbers, *(name for one in rule.limits for name in arguments_of(one))}
    plain = plain_name(leaf.name)
    return leaf.address in said or (
        plain != "" and not leaf.owner and any(plain_name(name) == plain for name in said)
    )


def _read(rule: PolicyRule, record: StoredRequest) -> CallEffects:
    """Return a call's effects. If a rule names both tools and commands, arguments with a command's
    name are read as commands."""
    (found,) = effects_of(record)
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


def _runs_plainly(rule: PolicyRule, effects: CallEffects) -> bool:
    """Return whether a call, under every reading, runs in its context's folder or the rule's
    folder, as the same user and without additional rights."""
    if effects.rights or effects.users or effects.environment or effects.foreign_shell:
        return False
    if any(one is not effects for one in effects.everything()) or effects.with_role(
        Role.INPUT, Role.HOST
    ):
        return False
    if effects.base_source == "context":
        return True
    return effects.base is not None and any(within(effects.base, one) for one in rule.folders)


def _adds_nothing(effects: CallEffects, rule: PolicyRule) -> bool:
    """Return whether a call has no inner call, and sets no environment variables, user or rights
    except those that the rule names."""
    inner = any(one is not effects for one in effects.everything())
    more = (*effects.rights, *effects.users, *effects.environment)
    named = set(map(plain_name, rule.arguments))
    return not inner and all(plain_name(one.address) in named for one in more)


def _stays_in(rule: PolicyRule, record: StoredRequest, effects: CallEffects) -> bool:
    """Return whether a call names paths and runs nothing. Under every reading, all paths must be in
    the rule's folders and not delicate."""
    if not _adds_nothing(effects, rule) or any(effects.all_programs()):
        return False
    if effects.urls or effects.with_role(*_RUNNING, Role.HOST, Role.URL):
        return False
    paths = list(effects.all_paths())
    written = any(may_write(effects, path) for path in paths)
    # The paths that the agent's side resolved must be there too, and not be delicate.
    bound = record.request.context.files
    return (
        any(not path.looks for path in paths)
        and all(_lies_in(rule, path.absolute) and not is_delicate(effects, path) for path in paths)
        and all(_lies_in(rule, one) and not delicate(one, written=written) for one in bound)
    )


def _lies_in(rule: PolicyRule, path: str | None) -> bool:
    return path is not None and any(within(path, one) for one in rule.folders)


def _is_ordinary(rule: PolicyRule, effects: CallEffects) -> bool:
    """Return whether a call may be allowed whatever its arguments are: nothing runs, nothing is
    delicate, and each path is clear."""
    if may_run_anything(effects.call.tool) or not _adds_nothing(effects, rule):
        return False
    if effects.with_role(*_RUNNING) or any(one.kind in _UNCLEAR for one in effects.uncertainties):
        return False
    return not any(is_delicate(effects, path) for path in effects.all_paths())


def _runs_one_of(rule: PolicyRule, record: StoredRequest, effects: CallEffects) -> bool:
    cwd = record.request.context.cwd
    leaf = command_leaf(effects)
    if leaf is None or effects.readings:
        return False
    # Only remarks and a checked working folder may accompany the command.
    beside = {one.role for one in effects.leaves if one is not leaf}
    if not beside <= {Role.REMARK, Role.WORKING_FOLDER}:
        return False
    # The agent names its working folder, so that must not be the root.
    folders = rule.folders or (() if is_root(cwd) else (cwd,))
    patterns = (derive_allow_pattern(text, folder) for text in rule.commands for folder in folders)
    return any(one is not None and runs_only(one, effects.programs, record) for one in patterns)


def _hits(rule: PolicyRule, record: StoredRequest) -> Iterator[MatchResult]:
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
    for address, comparison in rule.numbers.items():
        yield _has_number(parts, address, comparison)


def _has_argument(effects: CallEffects, address: str, wanted: str | list[str]) -> MatchResult:
    """Return whether a call, or an inner call, has a value that an argument condition matches."""
    return over_readings(effects, lambda one: _has_value(one, address, wanted))


def _has_value(effects: CallEffects, address: str, wanted: str | list[str]) -> MatchResult:
    values = _values(effects, address, wanted)
    patterns = [wanted] if isinstance(wanted, str) else wanted
    if any(fits_text(pattern, one) for one in values for pattern in patterns):
        return MatchResult.YES
    folded = tuple(map(fold, patterns))
    inner = [one.value for one in _leaves_named(effects, address)]
    spelled = (way for one in (*values, *inner) if isinstance(one, str) for way in spell(one))
    if folded and any(is_named(folded, one) for one in spelled):
        return MatchResult.UNSURE
    plain = all(isinstance(one, str | int | float) or one is None for one in values)
    return _no_or_unsure(effects, plain=plain)


def _has_number(parts: Sequence[CallEffects], address: str, wanted: str) -> MatchResult:
    """Return whether a call, or an inner call, has a number that satisfies a comparison. The result
    is unsure if the number is missing, negative or not plain."""

    def judge(effects: CallEffects) -> MatchResult:
        numbers = [number_of(one) for one in values_named(effects, address)]
        if any(one is not None and meets(wanted, one) for one in numbers):
            return MatchResult.YES
        numbers += [number_of(one.value) for one in _leaves_named(effects, address)]
        plain = all(one is not None and one >= 0 and not meets(wanted, one) for one in numbers)
        return _no_or_unsure(effects, plain=plain)

    calls = (one for part in parts for one in part.everything())
    known = any(True for one in calls for _ in values_named(one, address))
    return most([over_readings(one, judge) for one in parts]) if known else MatchResult.UNSURE


def _leaves_named(effects: CallEffects, name: str) -> list[Leaf]:
    """Return all values with this name, anywhere in a call."""
    plain = plain_name(name)
    return [one for one in effects.leaves if plain_name(one.name) == plain]


def _no_or_unsure(effects: CallEffects, *, plain: bool) -> MatchResult:
    hidden = any(one.kind is UncertaintyKind.LIMIT for one in effects.uncertainties)
    return MatchResult.NO if plain and not hidden else MatchResult.UNSURE
