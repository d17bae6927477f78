"""Decide whether a grant covers a request. Start reading at `covers`; `blast` tests a grant against
past requests.

A grant that allows never covers a call that the gateway cannot read completely. If a deny grant
might apply, the result is "unsure", and people decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from gateway.domain.records import StoredRequest
from gateway.domain.redaction import mask, names_secret, quote_start, start_of
from gateway.models import Context, Kind, Reason, RiskLevel, Status
from gateway.policy.calls.call_effects import CallEffects, Leaf, Program, effects_of, is_same
from gateway.policy.calls.known_commands import Operands, ParsedCommand, files_of, paths_of, writes
from gateway.policy.calls.paths import below, components, delicate, is_executed, within
from gateway.policy.calls.recipients import find_outside
from gateway.policy.grants.denials import denies
from gateway.policy.grants.grant import (
    ANY_TOOL,
    LONGEST_PASS_MS,
    OF_ALL_TOOLS,
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
from gateway.policy.grants.session_passes import lets_edit, lets_look, lets_work
from gateway.policy.grants.variations import (
    DECLARED,
    fixed_words,
    is_delicate,
    is_open,
    legible,
    may_come,
    may_write,
    path_leaf,
    path_of,
    why_fixed,
)
from gateway.wire.codec import Wire
from gateway.wire.roles import Role

_DIFFERS = "differs"
_LONGEST_SAID = 60  # characters of one value in a sentence
_MOST_NEAR = 8  # differences to count when looking for the nearest grant
_READING = frozenset({"cat", "get", "head", "list", "ls", "read", "search", "stat", "tail", "view"})
_CHANGING = frozenset(
    {"append", "apply", "change", "create", "delete", "edit", "edits", "editor", "insert", "make",
     "mkdir", "move", "copy", "open", "patch", "rename", "replace", "remove", "save", "set", "put",
     "post", "update", "write", "writer", "run", "exec", "execute"}
)  # fmt: skip


def covers(grant: Grant, record: StoredRequest) -> MatchResult:
    """Return whether a grant covers a request's current call. Its expiry and uses are not
    checked."""
    request = record.request
    if grant.agent != request.agent or grant.session not in (None, request.session):
        return MatchResult.NO
    if request.questions:
        return MatchResult.NO
    if grant.effect is Effect.DENY:
        return denies(grant.match, record)
    if grant.match.tool not in (request.tool, ANY_TOOL):
        return MatchResult.NO
    if grant.match.shape in OF_ALL_TOOLS:
        return MatchResult.YES if _passes(grant.match, record) else MatchResult.NO
    return MatchResult.YES if _allows(grant.match, record) else MatchResult.NO


# ---------------------------------------------------------------- approvals


class Difference(NamedTuple):
    """A reason why a grant does not cover a call. `place` is the place in the arguments that
    differs. If another value differs, `called` is its name."""

    place: str
    why: str
    now: Any = None
    remembered: Any = None
    called: str = ""


def _allows(match: Match, record: StoredRequest) -> bool:
    request = record.request
    if record.for_people or request.kind is not match.kind:
        return False
    if match.shape is Shape.EXACT:
        return match.digest == record.digest
    return match.answer is not None and next(differences(match, record), None) is None


def differences(match: Match, record: StoredRequest) -> Iterator[Difference]:
    """Yield the reasons why a match does not cover a call; none if it covers the call."""
    request, context = record.request, record.request.context
    if record.risk.level is RiskLevel.HIGH:
        yield Difference("", "its risk is high")
    if record.demands_person:
        yield Difference("", "the agent requires a person")
    if request.kind is not match.kind:
        yield Difference("", _DIFFERS, request.kind.value, match.kind.value, "its kind")
    if match.answer is None:
        yield from _exactly(match, record)
        return
    if context.host != match.host:
        yield Difference("", _DIFFERS, context.host, match.host, "the host")
    effects = effects_of(record)[0]
    if match.fingerprint != effects.fingerprint:
        yield Difference("", "the tool's declaration has changed")
    place = effects.base_source if effects.base_source != "context" else ""
    if effects.base != match.base:
        yield Difference(place, _DIFFERS, effects.base, match.base, "its folder")
    elif context.cwd != match.cwd:
        yield Difference("", _DIFFERS, context.cwd, match.cwd, "its folder")
    yield from _by_leaf(match, match.answer, record, effects)


def _exactly(match: Match, record: StoredRequest) -> Iterator[Difference]:
    if match.digest not in (None, record.digest):
        yield Difference("", "it is not exactly the same")


def _by_leaf(
    match: Match, answer: Answer, record: StoredRequest, effects: CallEffects
) -> Iterator[Difference]:
    rules = {rule.address: rule for rule in match.rules}
    found = group_by_address(effects)
    for address, leaves in found.items():
        rule = rules.get(address)
        if rule is not None:
            yield from _compare(answer, rule, leaves, record, effects)
        elif match.whole or not all(
            may_come(answer, one)
            or is_where_it_works(one, effects)
            or _is_empty_list(answer, one, rules)
            for one in leaves
        ):
            yield Difference(leaves[0].place, "is new")
    for address, rule in rules.items():
        if address not in found and not (rule.optional or answer is Answer.TOOL):
            yield Difference(address, "is missing")
    if (why := why_fixed(answer, record, effects)) is not None:
        yield Difference("", why)
    if match.whole and not _reaches_the_same(answer, record, effects):
        yield Difference(
            "", "it leads to a different file, or to a file that always requires approval"
        )


def _reaches_the_same(answer: Answer, record: StoredRequest, effects: CallEffects) -> bool:
    """Return whether a planned call affects only the file that it names."""
    leaf = path_leaf(effects)
    if answer is not Answer.FOLDER or leaf is None:
        return not record.request.context.files
    use = path_of(effects, leaf)
    return use is not None and _lies_in(str(use.absolute), leaf, record, effects)


def names_each(grant: Grant, record: StoredRequest, own: tuple[str, ...]) -> bool:
    """Return whether a grant that allows fixes each recipient outside the operator's own
    domains."""
    if grant.effect is Effect.DENY or grant.match.shape is Shape.EXACT:
        return True
    fixed = {rule.address for rule in grant.match.rules if rule.kind is RuleKind.EQUALS}
    calls = (call for part in effects_of(record) for call in part.everything())
    return all(leaf.address in fixed for one in calls for leaf, _ in find_outside(one, own))


def _is_empty_list(answer: Answer, leaf: Leaf, rules: Iterable[str]) -> bool:
    """Return whether a harmless tool gets an empty list where the grant has a list of values."""
    starts = (f"{leaf.address}[", f"{leaf.address}.")
    return (
        answer is Answer.TOOL
        and leaf.value in ([], {})
        and any(address.startswith(starts) for address in rules)
    )


def group_by_address(effects: CallEffects) -> dict[str, list[Leaf]]:
    """Return the values of a call by address. Elements of a list share one address."""
    found: dict[str, list[Leaf]] = {}
    for leaf in effects.leaves:
        found.setdefault(leaf.address, []).append(leaf)
    return found


def is_where_it_works(leaf: Leaf, effects: CallEffects) -> bool:
    """Return whether a declared argument only names the folder where the agent works."""
    known = leaf.role is Role.WORKING_FOLDER and leaf.source in DECLARED
    return known and effects.base is not None and effects.base == effects.call.context.cwd


def value_at(address: str, leaves: list[Leaf]) -> Any:
    """Return the value at an address, or each element of a list with its place."""
    if len(leaves) == 1 and leaves[0].place == address:
        return leaves[0].value
    return [[one.place, one.value] for one in leaves]


def _compare(
    answer: Answer, rule: Rule, leaves: list[Leaf], record: StoredRequest, effects: CallEffects
) -> Iterator[Difference]:
    for leaf in leaves:
        if rule.type and leaf.type.value != rule.type:
            yield Difference(leaf.place, f"is {leaf.type.value} and was {rule.type}")
            return
    first = leaves[0]
    if rule.kind is RuleKind.COMMAND:
        if len(leaves) > 1 or not _runs_only(rule, first, record, effects):
            yield Difference(first.place, "runs something else", first.value)
    elif rule.kind in (RuleKind.FOLDER, RuleKind.HOST):
        if len(leaves) > 1 or not _lies_there(rule, first, record, effects):
            yield Difference(first.place, _DIFFERS, first.value, f"{rule.value}/…")
    elif rule.kind is RuleKind.ANY:
        shut = (one for one in leaves if not is_open(answer, one))
        yield from (Difference(one.place, "is not plain text or data here", one.value)
                    for one in shut)  # fmt: skip
    else:
        now = value_at(rule.address, leaves)
        if not is_same(rule.value, now):
            yield Difference(first.place, _DIFFERS, now, rule.value)


def _runs_only(rule: Rule, leaf: Leaf, record: StoredRequest, effects: CallEffects) -> bool:
    """Return whether everything that a value runs is read completely and permitted by the rule."""
    starts = f"{leaf.place}["
    programs = [one for one in effects.programs
                if one.place == leaf.place or one.place.startswith(starts)]  # fmt: skip
    wrapper = tuple(rule.value or ())
    same = all(one.wrapper == wrapper for one in programs)
    return rule.command is not None and same and runs_only(rule.command, programs, record)


def runs_only(pattern: CommandPattern, programs: Sequence[Program], record: StoredRequest) -> bool:
    """Return whether there are programs, and all are read completely and permitted by the
    pattern."""
    return bool(programs) and all(
        one.proven and _permits_run(pattern, one.reading, one.base, record.request.context)
        for one in programs
    )


def _lies_there(rule: Rule, leaf: Leaf, record: StoredRequest, effects: CallEffects) -> bool:
    """Return whether a URL has a rule's host, or a path or patch stays in the rule's folder."""
    if rule.kind is RuleKind.HOST:
        return [one.host for one in effects.urls if one.place == leaf.place] == [rule.value]
    if leaf.role is Role.PATCH:
        return lets_edit(record, str(rule.value))
    return _lies_in(str(rule.value), leaf, record, effects)


def _lies_in(folder: str, leaf: Leaf, record: StoredRequest, effects: CallEffects) -> bool:
    """Return whether a path is in a folder, by its name and by the files that the client
    resolved."""
    use, outer = path_of(effects, leaf), components(folder)
    if use is None or use.parts is None or outer is None or is_delicate(effects, use):
        return False
    if use.parts[: len(outer)] != outer or use.text[:5].lower() == "file:":
        return False
    # The files that the agent's side resolved must be there too, and not be delicate.
    written = may_write(effects, use)
    files = record.request.context.files
    return all(
        within(path, folder)
        and not delicate(path, written=written)
        and not (written and is_executed(path))
        for path in files
    )


# ---------------------------------------------------------------- why not


def what_differs(grant: Grant, record: StoredRequest) -> str | None:
    """Return the first reason why a grant does not cover a call, as a sentence; None if it covers
    the call. Secrets in values are masked.

    Secrets in values are masked.
    """
    found = next(differences(grant.match, record), None)
    return None if found is None else _say(found, record)


def why_asked(grants: Iterable[Grant], record: StoredRequest) -> str:
    """Return why the grant that comes nearest, of those for this tool, does not cover a call; ""
    without one."""
    near: tuple[int, str] | None = None
    for grant in grants:
        planned = grant.line is not None
        if grant.match.shape is not Shape.PATTERN and not planned:
            continue
        if grant.match.tool != record.request.tool:
            continue
        found = list(islice(differences(grant.match, record), _MOST_NEAR))
        if found and (near is None or len(found) < near[0]):
            said = _say(found[0], record, "planned" if planned else "remembered")
            near = len(found), f"line {grant.line}: {said}" if planned else said
    return near[1] if near is not None else ""


def why_unplanned(lines: Iterable[Grant], record: StoredRequest) -> str:
    """Return how a call differs from its session's plan. `lines` are the plan's unused lines."""
    why = why_asked(lines, record) or "the plan has no such call, or all of them were used"
    return f"deviates from the plan: {why}"


def _say(found: Difference, record: StoredRequest, known: str = "remembered") -> str:
    why = str(mask(found.why))  # it may name arguments
    named = quote_start(found.place, _LONGEST_SAID) if found.place else found.called
    if found.why is not _DIFFERS or names_secret(found.place):
        return f"{named} {why}".strip()
    now, before = (_show(found.place, one) for one in (found.now, found.remembered))
    # Only its place marks the value as secret, so the remembered one is not known as a secret.
    return (
        f"{named} {why}"
        if record.find_secrets(now, named=True)
        else (f"{named} is {now}, {known} {before}")
    )


def _show(place: str, value: Any) -> str:
    """Return a value shortened to a few characters, with secrets masked."""
    name = place.rpartition(".")[2]
    safe = mask({name: value})
    shown = next(iter(safe.values()))
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
    return start_of(text, _LONGEST_SAID) + ("…" if len(text) > _LONGEST_SAID else "")


# ---------------------------------------------------------------- passes


def _passes(match: Match, record: StoredRequest) -> bool:
    """Return whether a grant for all tools covers a request. It never covers high risk, secrets or
    hidden text."""
    request, arguments = record.request, record.arguments
    elsewhere = match.host is not None and match.host != request.context.host
    if record.for_people or elsewhere or not legible([request.tool, arguments]):
        return False
    if request.context.env or request.payload is not None or request.kind is Kind.PLAN:
        return False
    if match.shape is Shape.LOOKS:
        return match.host == request.context.host and lets_look(record, match.cwd or "/")
    if match.shape is Shape.EDITS:
        return lets_edit(record, match.cwd)
    return lets_work(record, scripts=match.shape is Shape.SCRIPTS)


# ---------------------------------------------------------------- single commands


def _permits_run(
    pattern: CommandPattern, reading: ParsedCommand | None, base: str | None, context: Context
) -> bool:
    if reading is None or not _permits(pattern, reading):
        return False
    written = writes(reading)
    named = (base or ".", *files_of(reading), *context.files)
    if any(delicate(path, base, written=written) for path in named):
        return False
    paths = list(context.files)
    if pattern.operands is not Operands.FIXED:
        paths += paths_of(reading)
    return all(_reachable(path, pattern.folder, base) for path in paths)


def _permits(pattern: CommandPattern, reading: ParsedCommand) -> bool:
    known, operands = reading.known, reading.operands
    if (known.program, known.verbs) != (pattern.program, pattern.verbs):
        return False
    permitted = set(pattern.flags)
    flags = {one if one in permitted else one.partition("=")[0] for one in reading.flags}
    if not set(pattern.needs) <= reading.flags or not flags <= permitted:
        return False
    if pattern.operands in (Operands.FIXED, Operands.LOCAL):
        return fixed_words(reading) == pattern.words
    return not operands if pattern.operands is Operands.NONE else pattern.operands is known.operands


def _reachable(path: str, folder: str | None, cwd: str | None) -> bool:
    return below(path) if folder is None else within(path, folder, cwd)


# A grant's matches in history: replays a match over requests that people decided.

_BY_PEOPLE = frozenset({Reason.PERSON, Reason.FEEDBACK})


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchPreview(Wire):
    """How many of the `looked_at` recent requests a grant covers, and how people decided those."""

    looked_at: int
    covered: int
    approved: int
    denied: int

    def words(self) -> str:
        """Return the preview as one sentence, or "" if the grant covers none."""
        if not self.covered:
            return ""
        return (
            f"It would have covered {self.covered} of the last {self.looked_at} requests; "
            f"people had approved {self.approved} of these and denied {self.denied}."
        )


def blast(
    match: Match, agent: str, records: Iterable[StoredRequest], session: str | None = None
) -> MatchPreview:
    """Return which of an agent's recent requests a grant with this match would have allowed. A
    session pass needs its `session`.

    A pass needs its `session`.
    """
    grant = Grant(
        id="0" * 32,
        effect=Effect.ALLOW,
        agent=agent,
        session=session,
        match=match,
        made_by="",
        made_at=0,
        expires_at=LONGEST_PASS_MS if match.shape in PASSES else None,
    )
    mine = [record for record in records if record.request.agent == agent and not record.erased]
    # Compare what the agent asked for, without the edits of people.
    asked = [replace(record, edited=None, digest=record.request.digest) for record in mine]
    covered = [record for record in asked if covers(grant, record) is MatchResult.YES]
    by_people = [
        record.status
        for record in covered
        if record.decision and record.decision.reason in _BY_PEOPLE
    ]
    return MatchPreview(
        looked_at=len(mine),
        covered=len(covered),
        approved=by_people.count(Status.APPROVED),
        denied=by_people.count(Status.DENIED),
    )
