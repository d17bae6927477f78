"""Offer the grants that an approver may make from a request, narrow first and session passes last.

Start reading at `offers` and `passes_for`. Offers depend only on the request. So when a click names
an offer, the gateway computes the list again and looks for it.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gateway.domain.records import ScopeQuorum, StoredRequest
from gateway.domain.redaction import mask_of, names_secret, render_safe, start_of
from gateway.errors import InvalidRequest
from gateway.models import HostRule, Kind, Risk, RiskLevel
from gateway.policy.calls.argument_roles import JsonType
from gateway.policy.calls.call_effects import CallEffects, Leaf, effects_of
from gateway.policy.calls.known_commands import CommandSpec, Operands, ParsedCommand
from gateway.policy.calls.paths import PathEffect, is_root, within
from gateway.policy.grants.coverage import (
    covers,
    group_by_address,
    is_where_it_works,
    value_at,
    what_differs,
)
from gateway.policy.grants.denials import denial_matches
from gateway.policy.grants.grant import (
    ANY_TOOL,
    LONGEST_PASS_MS,
    MAX_RULES,
    PASSES,
    Answer,
    CommandPattern,
    Effect,
    Grant,
    Match,
    MatchResult,
    Rule,
    RuleKind,
    Shape,
)
from gateway.policy.grants.line_parts import part_is_covered, split, writes_whole_files
from gateway.policy.grants.variations import (
    command_leaf,
    fixed_words,
    is_open,
    is_systems_folder,
    legible,
    patch_leaf,
    path_leaf,
    path_of,
    why_fixed,
)
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import Wire, plain
from gateway.wire.roles import Role

HOUR_MS = 3_600_000
# The lifetimes of grants: name, text and length; None lasts until revoked.
LIFETIMES: tuple[tuple[str, str, int | None], ...] = (
    ("1h", "for an hour", HOUR_MS),
    ("15m", "for 15 minutes", HOUR_MS // 4),
    ("8h", "for 8 hours", 8 * HOUR_MS),
    ("1d", "for a day", 24 * HOUR_MS),
    ("1w", "for a week", 7 * 24 * HOUR_MS),
    ("revoked", "until revoked", None),
)
_LONGEST_OPEN = 300  # an offer whose varying part is longer cannot be shown, so it is not made
_LONGEST_FLAGS = 160  # of flags that are named one by one
_LONGEST_FIXED = 200  # of fixed values; the others are counted
_LONGEST_VALUE = 40
_ID_LENGTH = 16
_IN_A_LINE = "; also in a line with other remembered commands"
_OUTPUT = "; also the output of remembered commands"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer(Wire):
    """A grant to choose: its scope in words, and the match that the grant will have."""

    id: str
    words: str
    match: Match


def offers(record: StoredRequest, effect: Effect = Effect.ALLOW) -> tuple[Offer, ...]:
    """Return the grants that a request offers, narrow first. The list is empty if no grant may be
    made.

    No grants are offered for high risk, for forms, or for text that hides something. Each offer
    covers the request that it comes from.
    """
    return tuple(_offers(record, effect))


def narrowest(record: StoredRequest, effect: Effect = Effect.ALLOW) -> Offer | None:
    """Return the narrowest offer, for a `remember` without a scope, or None. It is fast, because
    commands need to be read only for wider offers."""
    return next(_offers(record, effect), None)


def _offers(record: StoredRequest, effect: Effect) -> Iterator[Offer]:
    request = record.request
    if request.questions or not legible([request.tool, *record.parts]):
        return
    for words, match in _matches(record, effect):
        offer = _offer(words, match)
        if would_cover(offer, record, effect):
            yield offer


def find_offer(record: StoredRequest, offer_id: str, effect: Effect = Effect.ALLOW) -> Offer | None:
    """Return the offer with this id if the request still has it, else None."""
    return next((offer for offer in offers(record, effect) if offer.id == offer_id), None)


def _matches(record: StoredRequest, effect: Effect) -> Iterator[tuple[str, Match]]:
    request = record.request
    effects = effects_of(record)[0]
    yield _exact_words(record, effects), _exact(record)
    if request.kind in (Kind.PLAN, Kind.CALLS):
        return
    if effect is Effect.DENY:
        yield from denial_matches(record)
        return
    yield from _one_part(record)
    made = (*_commands(record, effects), *_folders(record, effects), *_texts(record, effects),
            *_values(record, effects), *_source(record, effects),
            *_whole_tool(record, effects))  # fmt: skip
    for said, match in made:
        if len(said.open) <= _LONGEST_OPEN and len(match.rules) <= MAX_RULES:
            yield said.words, match


@dataclass(frozen=True, slots=True)
class _Said:
    """The words of an offer: the varying part, which is never shortened, the fixed values, and the
    rest."""

    open: str
    fixed: str = ""
    behind: str = ""

    @property
    def words(self) -> str:
        return f"{self.open}{self.fixed}{self.behind}"


def _one_part(record: StoredRequest) -> Iterator[tuple[str, Match]]:
    """Yield the offers for a line that runs only one command, apart from idle parts such as
    `cd`."""
    parts = split(record)
    alike = len({(one.text, one.written) for one in parts}) == 1
    calls = parts[0].ways[0] if alike and parts[0].ways else ()
    if len(calls) != 1 or calls[0].digest == record.digest:
        return
    for words, match in _matches(calls[0], Effect.ALLOW):
        if match.shape is Shape.PATTERN:
            yield words, match


# ---------------------------------------------------------------- exactly this


def _exact(record: StoredRequest) -> Match:
    request = record.request
    return Match(shape=Shape.EXACT, tool=request.tool, kind=request.kind, digest=record.digest)


def _exact_words(record: StoredRequest, effects: CallEffects) -> str:
    """Return the words for exactly this call: its command, or its tool and arguments."""
    context = record.request.context
    leaf = command_leaf(effects)
    base, beside = effects.base, effects.leaves
    if leaf is not None and effects.programs:
        text = " ".join(leaf.value) if isinstance(leaf.value, list) else str(leaf.value)
        if leaf.role is Role.COMMANDS and isinstance(leaf.value, list):
            text = "; ".join(leaf.value)
        shown = json.dumps(start_of(text, _LONGEST_FIXED), ensure_ascii=False)
        shown += f"… ({len(text)} characters)" if len(text) > _LONGEST_FIXED else ""
        beside = tuple(one for one in beside if one is not leaf and one.role is not Role.REMARK)
        beside = tuple(one for one in beside if one.role is not Role.WORKING_FOLDER)
        given = _say_values([(one.place, one.value) for one in beside], ", with ")
    else:
        shown = record.request.tool
        given = _say_values([(one.place, one.value) for one in beside], " with ")
    where = f" in {base}" if base is not None else ""
    host = f" on {context.host}" if context.host else ""
    return f"exactly this: {shown}{given}{where}{host}"


# ---------------------------------------------------------------- approvals


def _commands(record: StoredRequest, effects: CallEffects) -> Iterator[tuple[_Said, Match]]:
    leaf = command_leaf(effects)
    if leaf is None or why_fixed(Answer.COMMAND, record, effects) is not None:
        return
    first = effects.programs[0] if effects.programs else None
    if first is None or first.reading is None or not first.proven:
        return
    each = "each command of a list: " if leaf.role is Role.COMMANDS else ""
    each = each if isinstance(leaf.value, list) else ""
    by = f", by {' '.join(first.wrapper)}" if first.wrapper else ""
    remarks = sorted({one.name for one in effects.with_role(Role.REMARK, Role.PART)})
    said = "say" if remarks[1:] else "says"
    behind = f"; whatever {', '.join(remarks)} {said}" if remarks else ""
    behind += _IN_A_LINE
    for pattern, flags in _patterns(first.reading, effects.base):
        text = f"{each}{_command_words(pattern)}, {flags}{by}{_where(record, effects)}"
        rule = Rule(name=_name(leaf.address), kind=RuleKind.COMMAND, command=pattern,
                    value=list(first.wrapper) or None, type=leaf.type.value)  # fmt: skip
        yield _pattern(record, effects, Answer.COMMAND, text, rule, behind=behind)


def _patterns(reading: ParsedCommand, folder: str | None) -> Iterator[tuple[CommandPattern, str]]:
    """Yield a command's pattern with its own flags and kind of operands, then wider patterns with
    more flags."""
    known, used = reading.known, reading.flags
    if is_root(folder) and known.operands in (Operands.PATHS, Operands.TEXT_PATHS):
        return
    narrow = CommandPattern(
        program=known.program,
        verbs=known.verbs,
        flags=tuple(sorted(used)),
        needs=known.list_restraints(used),
        operands=known.operands if reading.operands else Operands.NONE,
        words=fixed_words(reading),
        folder=folder,
    )
    listed, needed = " ".join(narrow.flags), " ".join(narrow.needs)
    always = f", always with {needed}" if needed else ""
    yield narrow, (f"with no flags but {listed}" if used else "without flags") + always
    for flags, said in _list_wider(known, used):
        wide = replace(narrow, flags=tuple(sorted(flags)), operands=known.operands)
        if wide != narrow:
            yield wide, said + always


def _list_wider(known: CommandSpec, used: frozenset[str]) -> Iterator[tuple[frozenset[str], str]]:
    """Yield wider sets of flags, with their words. The words may only count harmless flags, but
    name each of the others."""
    harmless, told = used | known.harmless, used | known.list_told(used)
    every = harmless | told
    if every > known.harmless:
        named = f"with no flags but {' '.join(sorted(every))}"
        if len(named) <= _LONGEST_FLAGS:
            yield every, named
            return
    if harmless == known.harmless:
        counted = f"with any of its {len(harmless)} flags that run and write nothing else"
        yield harmless, counted
        more = " ".join(sorted(told - harmless))
        if more and len(more) <= _LONGEST_FLAGS:
            yield every, f"{counted}, and with {more}"
    elif told - known.harmless:
        yield told, f"with no flags but {' '.join(sorted(told))}"


def _command_words(pattern: CommandPattern) -> str:
    command = " ".join((pattern.program, *pattern.verbs, *pattern.words))
    inside = f"in {pattern.folder}" if pattern.folder else "below where it runs"
    said = {
        Operands.PATHS: f" on any paths {inside}",
        Operands.TEXT: " with any text",
        Operands.TEXT_PATHS: f" for any text, on any paths {inside}",
        Operands.NAMES: " with any names",
        Operands.LOCAL: ", reading any page there",
    }
    return command + said.get(pattern.operands, "")


def _where(record: StoredRequest, effects: CallEffects) -> str:
    host = record.request.context.host
    on = f" on {host}" if host else ""
    return f", run in {effects.base}{on}" if effects.base else on


def _folders(record: StoredRequest, effects: CallEffects) -> Iterator[tuple[_Said, Match]]:
    """Yield offers for the folder of a call's only path, if the other values are content or stay
    fixed."""
    leaf = path_leaf(effects)
    use = path_of(effects, leaf) if leaf is not None else None
    if why_fixed(Answer.FOLDER, record, effects) is not None:
        return
    if leaf is None and (leaf := patch_leaf(effects)) is not None and effects.base is not None:
        rule = Rule(name=_name(leaf.address), kind=RuleKind.FOLDER, value=effects.base,
                    type=leaf.type.value)  # fmt: skip
        text = f"{record.request.tool}: creating, changing and moving files below {effects.base}"
        behind = f"{_on_host(record)}, not deleting"
        yield _pattern(record, effects, Answer.FOLDER, text, rule, behind=behind)
    if leaf is None or use is None:
        return
    if use.parts is None or not use.parts[1:]:
        return  # never the root
    varying = _varying_names(Answer.FOLDER, effects, leaf)
    given = f", with any {varying}" if varying else ""
    behind = f"{_on_host(record)}, by its name; links are not followed here"
    behind += _OUTPUT if writes_whole_files(record.request.tool, record.request.kind) else ""
    inner = use.parts if use.effect is PathEffect.LIST else use.parts[:-1]
    for folder in _outer_folders("/" + "/".join(inner), effects.base):
        rule = Rule(
            name=_name(leaf.address), kind=RuleKind.FOLDER, value=folder, type=leaf.type.value
        )
        text = f"{record.request.tool} on anything in {folder}{given}"
        yield _pattern(record, effects, Answer.FOLDER, text, rule, behind=behind)


def _outer_folders(folder: str, base: str | None) -> Iterator[str]:
    """Yield a file's folder, and the call's working folder if it contains the file."""
    if is_systems_folder(folder):
        return
    yield folder
    if base is not None and base != folder and within(folder, base) and not is_systems_folder(base):
        yield posixpath.normpath(base)


def _texts(record: StoredRequest, effects: CallEffects) -> Iterator[tuple[_Said, Match]]:
    """Yield offers for the same message to the same people with different text, or with other
    declared data."""
    varying = _varying_names(Answer.TEXT, effects)
    if varying and why_fixed(Answer.TEXT, record, effects) is None:
        text = f"{record.request.tool} with any {varying}"
        yield _pattern(record, effects, Answer.TEXT, text, behind=_behind(record, effects))


def _values(record: StoredRequest, effects: CallEffects) -> Iterator[tuple[_Said, Match]]:
    """Yield offers for a lookup with other plain values of the same arguments."""
    if why_fixed(Answer.VALUES, record, effects) is None:
        names = ", ".join(sorted(one.name for one in effects.leaves))
        text = f"{record.request.tool} with other plain values of {names}"
        yield _pattern(record, effects, Answer.VALUES, text, behind=_behind(record, effects))


def _source(record: StoredRequest, effects: CallEffects) -> Iterator[tuple[_Said, Match]]:
    """Yield an offer to read anything from the same host or repository."""
    if why_fixed(Answer.SOURCE, record, effects) is not None:
        return
    tool, behind = record.request.tool, _on_host(record)
    urls = effects.with_role(Role.URL)
    if urls:
        host = next(one.host for one in effects.urls if one.place == urls[0].place)
        rule = Rule(
            name=_name(urls[0].address), kind=RuleKind.HOST, value=host, type=urls[0].type.value
        )
        yield _pattern(
            record,
            effects,
            Answer.SOURCE,
            f"{tool} of any page of https://{host}",
            rule,
            behind=behind,
        )
    else:
        yield _pattern(
            record, effects, Answer.SOURCE, f"anything that {tool} reads there", behind=behind
        )


def _whole_tool(record: StoredRequest, effects: CallEffects) -> Iterator[tuple[_Said, Match]]:
    """Yield an offer for all calls of a harmless tool, with its declared arguments and those of
    this call."""
    if why_fixed(Answer.TOOL, record, effects) is None:
        varying = {one.address for one in effects.leaves if is_open(Answer.TOOL, one)}
        names = ", ".join(sorted(varying))
        given = f" with {names} and what is declared" if names else " with any declared arguments"
        text = f"everything that {record.request.tool} can do{given}"
        none = Rule(name="$", kind=RuleKind.ANY, optional=True)
        yield _pattern(record, effects, Answer.TOOL, text, none, behind=_behind(record, effects))


def _behind(record: StoredRequest, effects: CallEffects) -> str:
    return f", run in {effects.base}{_on_host(record)}" if effects.base else _on_host(record)


def _on_host(record: StoredRequest) -> str:
    host = record.request.context.host
    return f" on {host}" if host else ""


def _pattern(
    record: StoredRequest,
    effects: CallEffects,
    answer: Answer,
    text: str,
    *rules: Rule,
    behind: str = "",
    only: frozenset[str] | None = None,
) -> tuple[_Said, Match]:
    """Return a pattern with these rules. Other values may vary if they are open, and otherwise stay
    fixed.

    With `only`, only these addresses may vary, and no argument may be added or left out.
    """
    read = {rule.address for rule in rules}
    made: list[Rule] = list(rules)
    fixed: list[tuple[str, Any]] = []
    for address, leaves in group_by_address(effects).items():
        if address in read:
            continue
        name, first = _name(address), leaves[0]
        same = len({one.type for one in leaves}) == 1
        kept = first.type.value if same and len(leaves) == 1 else ""
        if _all_vary(answer, leaves) if only is None else address in only:
            source = answer is Answer.SOURCE and first.role is not Role.ACTION
            any_known = answer is Answer.TOOL or source
            optional = all(one.optional for one in leaves) or any_known
            optional = optional and only is None
            known = "" if first.type is JsonType.NULL or answer is Answer.TOOL else kept
            made.append(Rule(name=name, kind=RuleKind.ANY, type=known, optional=optional))
        else:
            value = value_at(address, leaves)
            same_place = only is None and all(is_where_it_works(one, effects) for one in leaves)
            made.append(
                Rule(name=name, kind=RuleKind.EQUALS, value=value, type=kept, optional=same_place)
            )
            fixed += [(one.place, one.value) for one in leaves]
    request = record.request
    match = Match(
        shape=Shape.PATTERN,
        tool=request.tool,
        kind=request.kind,
        rules=tuple(made[:MAX_RULES]),
        cwd=request.context.cwd,
        host=request.context.host,
        answer=answer,
        base=effects.base,
        fingerprint=effects.fingerprint,
        whole=only is not None,
    )
    if len(made) > MAX_RULES:
        return _Said("?" * (_LONGEST_OPEN + 1)), match
    return _Said(text, _say_values(fixed, ", always with "), behind), match


def _varying_names(answer: Answer, effects: CallEffects, besides: Leaf | None = None) -> str:
    """Return the names of the values that may vary. The leaf in `besides` is left out, because the
    words name it anyway."""
    names = {
        leaves[0].name
        for leaves in group_by_address(effects).values()
        if besides not in leaves and _all_vary(answer, leaves)
    }
    return ", ".join(sorted(names))


def _all_vary(answer: Answer, leaves: list[Leaf]) -> bool:
    return all(is_open(answer, one) and _may_vary(answer, one) for one in leaves)


def _may_vary(answer: Answer, leaf: Leaf) -> bool:
    return (
        answer in (Answer.VALUES, Answer.SOURCE, Answer.TOOL)
        or leaf.free
        or leaf.role is Role.PATCH
    )


def _name(address: str) -> str:
    return f"${address}" if address.startswith("[") else f"$.{address}"


def _say_values(values: list[tuple[str, Any]], before: str) -> str:
    """Return the fixed values in words. Long values are shortened and their length is given; values
    that do not fit are only counted."""
    said: list[str] = []
    for at, (place, value) in enumerate(values):
        one = f"{_cut(place, _LONGEST_VALUE)} = {_short(place, value)}"
        if said and len(", ".join((*said, one))) > _LONGEST_FIXED:
            said.append(f"and {len(values) - at} more, unchanged")
            break
        said.append(one)
    return before + ", ".join(said) if said else ""


def _short(place: str, value: Any) -> str:
    if names_secret(place) and isinstance(value, str):
        return mask_of(value)
    text = value if isinstance(value, str) else canonical(value).decode()
    return _cut(text, _LONGEST_VALUE)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{start_of(text, most)}… ({len(text)} characters)"


# ---------------------------------------------------------------- a line of a plan


def plan_line(record: StoredRequest, any_text: tuple[str, ...]) -> tuple[str, Match]:
    """Return the scope of a planned call, in words and as a match: exactly this call, or any text
    in the named arguments. Raises InvalidRequest if a named argument is not data."""
    request, effects = record.request, effects_of(record)[0]
    if not legible([request.tool, *record.parts]):
        raise InvalidRequest(
            "the text of the call hides something: remove invisible and look-alike characters"
        )
    if not any_text:
        return _exact_words(record, effects), _exact(record)
    answer = Answer.COMMAND if command_leaf(effects) else Answer.TEXT
    answer = Answer.FOLDER if answer is Answer.TEXT and path_leaf(effects) else answer
    leaves = group_by_address(effects)
    for name in any_text:
        found = leaves.get(name, [])
        if len(found) != 1 or not found[0].free or not is_open(answer, found[0]):
            what = f"is {found[0].role}: {found[0].why}" if found else "is not a plain argument"
            raise InvalidRequest(f"{json.dumps(name)} cannot be any text, as it {what}")
    text = f"{request.tool} with any text in {', '.join(any_text)}"
    behind, only = _behind(record, effects), frozenset(any_text)
    said, match = _pattern(record, effects, answer, text, behind=behind, only=only)
    # The plan's card shows the risk, so it does not count here.
    calm = record.copy_with(risk=Risk(level=RiskLevel.MEDIUM))
    why = what_differs(_draft_grant(match, calm, Effect.ALLOW), calm)
    if len(said.open) > _LONGEST_OPEN:
        why = "it has too many arguments"
    if why is not None:
        raise InvalidRequest(f"{json.dumps(any_text[0])} cannot be any text: {why}")
    return said.words, match


# ---------------------------------------------------------------- offers of matches


def _offer(words: str, match: Match) -> Offer:
    offer_id = sha256_hex(canonical(plain(match)))[:_ID_LENGTH]
    return Offer(id=offer_id, words=words, match=match)


def would_cover(offer: Offer, record: StoredRequest, effect: Effect = Effect.ALLOW) -> bool:
    """Return whether a grant made from this offer, for the request's agent, would decide the
    request."""
    grant = _draft_grant(offer.match, record, effect)
    if covers(grant, record) is MatchResult.YES:
        return True
    parts = split(record) if effect is Effect.ALLOW and not record.findings else ()
    return bool(parts) and all(part_is_covered(grant, one) for one in parts)


def might_cover(offer: Offer, record: StoredRequest) -> bool:
    """Return whether a grant made from this offer, together with others, could decide this
    request."""
    parts, grant = split(record), _draft_grant(offer.match, record, Effect.ALLOW)
    known = all(one.ways or one.written for one in parts)
    return would_cover(offer, record) or (
        known and any(part_is_covered(grant, one) for one in parts)
    )


def _draft_grant(match: Match, record: StoredRequest, effect: Effect) -> Grant:
    agent = record.request.agent
    return Grant(id="0" * 32, effect=effect, agent=agent, match=match, made_by="", made_at=0)


# Rules that the coding agent offers to keep itself, and their words.
#
# From then on the coding agent decides by such a rule without asking the gateway, which cannot
# revoke it. So it is offered only if the call may be remembered at all, by one person, unedited.

_PREFIX = "host:"
NO_REACH = "The gateway cannot check what this rule permits; only the coding agent can."
"""Shown in place of the matches in history that other offers have."""


def host_rules_of(record: StoredRequest) -> dict[str, HostRule]:
    """Return the rules that the coding agent may keep with an approval, by the id of each offer."""
    takes_several = record.quorum > 1 or record.scope_quorum != ScopeQuorum()
    rules = record.request.host_rules
    if not rules or takes_several or record.edited is not None:
        return {}
    if narrowest(record) is None:
        return {}
    return {
        f"{_PREFIX}{number}": rule
        for number, rule in enumerate(rules)
        if _is_read_whole(rule.rule) and _is_read_whole(rule.scope)
    }


def find_host_rule(record: StoredRequest, offer_id: str) -> HostRule | None:
    """Return the coding agent's rule with this offer id if the request still offers it, else
    None."""
    return host_rules_of(record).get(offer_id) if offer_id.startswith(_PREFIX) else None


def host_rule_words(record: StoredRequest, rule: HostRule) -> str:
    """Return the words for a rule of the coding agent. Its own text is quoted, so that it cannot
    imitate the gateway's."""
    return (
        f"kept by {name_host(record)} itself: {_quote(rule.rule)}, {_quote(rule.scope)}; it will "
        "not ask here again, and only it can revoke that. Place and time below do not apply"
    )


def kept_words(record: StoredRequest, rule: HostRule) -> str:
    """Return the words for a rule that the coding agent keeps after an approval."""
    return (
        f"{name_host(record)} itself keeps {_quote(rule.rule)}, {_quote(rule.scope)}, "
        "and only it can revoke that"
    )


def name_host(record: StoredRequest) -> str:
    """Return the name that the agent gives for its coding agent, quoted."""
    told = record.request.origin.framework
    return f"the host {_quote(told)}" if told else "the agent's host"


def _quote(words: str) -> str:
    return json.dumps(words, ensure_ascii=False)


def _is_read_whole(words: str) -> bool:
    seen = render_safe(words)
    return not (seen.suspicious or seen.masked)


# Looking, and a session's passes, which a card offers after all other offers.

_PASS_OFFERS_ID_LENGTH = 16
# The lifetimes of a pass: at most a working day, and never until revoked.
PASS_LIFETIMES = tuple(
    name for name, _, length in LIFETIMES if length is not None and length <= LONGEST_PASS_MS
)


def passes_for(record: StoredRequest) -> tuple[Offer, ...]:
    """Return the grants for all tools that cover this request, narrow first: a grant for looking,
    then session passes.

    The result is empty if the request has findings, because no pass covers them.
    """
    if record.findings:
        return ()
    context = record.request.context
    looks = [Match(shape=Shape.LOOKS, tool=ANY_TOOL, cwd=context.cwd, host=context.host)
             ] if context.cwd is not None else []  # fmt: skip
    made = (_offer(_look_words(one), one) for one in looks)
    return tuple(one for one in made if would_cover(one, record)) + tuple(
        _pass_offers_offer(shape, pass_words(shape, context.cwd, context.host), context.host)
        for shape in PASSES
        if _pass_offers_covers(shape, record)
    )


def find_pass(record: StoredRequest, offer_id: str) -> Offer | None:
    """Return the session pass with this id if the request still offers it, else None."""
    return next((one for one in passes_for(record) if one.id == offer_id), None)


def pass_words(shape: Shape, folder: str | None = None, host: str | None = None) -> str:
    """Return the scope of a session pass. `folder` and `host` are where the agent works now."""
    place = f" (now {folder}{f' on {host}' if host else ''})" if folder else ""
    below = f"below where the agent works{place}"
    ends = "secrets and files that run later require approval"
    if shape is Shape.EDITS:
        return f"creating, changing and moving files {below}, not deleting; {ends}"
    if shape is Shape.WORK:
        return (
            f"reading, searching, creating, changing and moving files {below}, by tools and "
            f"commands known to do no more; {ends}"
        )
    return (
        "running the project's tests, builds and scripts, which can do whatever the agent's user "
        f"can, and reading, searching and changing files {below}; {ends}"
    )


def _look_words(match: Match) -> str:
    on = f" on {match.host}" if match.host else ""
    return (
        f"looking at anything below {match.cwd}{on}, by any tool or command known to do no more; "
        "secrets require approval"
    )


def _pass_offers_offer(shape: Shape, words: str, host: str | None) -> Offer:
    match = Match(shape=shape, tool=ANY_TOOL, host=host)
    offer_id = sha256_hex(canonical(plain(match)))[:_PASS_OFFERS_ID_LENGTH]
    return Offer(id=offer_id, words=words, match=match)


def _pass_offers_covers(shape: Shape, record: StoredRequest) -> bool:
    grant = Grant(
        id="0" * 32,
        effect=Effect.ALLOW,
        agent=record.request.agent,
        session=record.request.session,
        match=Match(shape=shape, tool=ANY_TOOL),
        made_by="",
        made_at=0,
        expires_at=LONGEST_PASS_MS,
    )
    return covers(grant, record) is MatchResult.YES
