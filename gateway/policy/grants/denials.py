"""Decide whether a deny grant matches what a call runs, changes or contacts. Start reading at
`denies`.

Nobody can evade a deny grant by unclear spelling. If it may apply, the result is "unsure": no lower
decider can then allow the call, and people decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

from gateway.domain.records import StoredRequest
from gateway.models import Action, Kind, Reason, Status
from gateway.policy.calls.argument_roles import COMMANDS, FREE, RoleSource, bare_name, plain_name
from gateway.policy.calls.call_effects import (
    CallEffects,
    Leaf,
    PathUse,
    Program,
    Reading,
    UncertaintyKind,
    UrlUse,
    calls_of,
    effects_of,
    names_path,
    texts_of,
    touch,
)
from gateway.policy.calls.known_commands import (
    RUNNERS,
    ParsedCommand,
    is_list_of_texts,
    paths_of,
    read,
    read_each,
)
from gateway.policy.calls.paths import components
from gateway.policy.calls.script import read_script
from gateway.policy.calls.shell_words import Word, unwrap
from gateway.policy.grants.grant import (
    ANY_TOOL,
    CommandPattern,
    Effect,
    Grant,
    Match,
    MatchResult,
    Rule,
    RuleKind,
    Shape,
)
from gateway.policy.grants.variations import denial
from gateway.wire.roles import Role

_MOST_OFFERED = 8
_EMPTY: tuple[Any, ...] = (None, "", [], {})
# Nobody looked at the value, so it may be anything.
_HIDING = frozenset({UncertaintyKind.LIMIT, UncertaintyKind.NESTED})
_MAYBE_RUN = COMMANDS | {Role.ACTION, Role.UNKNOWN}
# Values under these names are read as commands, whichever tool runs them.
_COMMAND_NAMES = frozenset({"command", "cmd", "commands", "argv", "cmdline", "commandline"})
# Texts that are only kept or describe the call; and commands, which are checked as commands.
_KEPT = FREE | COMMANDS
_Words = tuple[Word, ...] | None
_PART = re.compile(r"[^\s=:,;&|()<>${}`'\"\\]+")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_HOST = re.compile(r"[a-z0-9_.-]*[a-z_-][a-z0-9_.-]*|")
_WILD = re.compile(r"[*?\[]")
_VERSION = re.compile(r"[-.]?[0-9][0-9.]*(?:\.exe)?$|\.exe$")


def most(covers: list[MatchResult]) -> MatchResult:
    """Return the strongest of several results if any one of them is enough."""
    return next(
        (one for one in (MatchResult.YES, MatchResult.UNSURE) if one in covers), MatchResult.NO
    )


def denies(match: Match, record: StoredRequest) -> MatchResult:
    """Return whether a deny grant matches the request's current call.

    The result is yes if it matches under every reading, and unsure if it matches only under some or
    is unclear. Declarations of the tool's author are ignored here.
    """
    if match.shape is Shape.EXACT:
        return MatchResult.YES if match.digest == record.digest else MatchResult.NO
    parts = read_without_authors(record)
    named = most([_is_tool(match.tool, one.names) for one in parts])
    if named is not MatchResult.NO:
        return _least(
            [named, *(most([_keeps(rule, one) for one in parts]) for rule in match.rules)]
        )
    return most([over_readings(one, lambda inner: _denies_call(match, inner)) for one in parts])


def _denies_call(match: Match, effects: CallEffects) -> MatchResult:
    """Return whether a deny grant matches one call, by the call's own name and its contents."""
    if effects.call.server is None and any(one.kind in _HIDING for one in effects.uncertainties):
        return MatchResult.UNSURE  # an unread call may be inside
    named = _is_tool(match.tool, effects.names)
    return named if named is MatchResult.NO else _least([
        named, *(_keeps(rule, effects) for rule in match.rules)
    ])  # fmt: skip


def _is_tool(denied: str, names: tuple[str, ...]) -> MatchResult:
    """Return whether a call has a denied name; unsure if it has that name in another spelling."""
    if denied in (*names, ANY_TOOL):
        return MatchResult.YES
    spelled = {plain_name(bare_name(one)) for one in names}
    return MatchResult.UNSURE if plain_name(bare_name(denied)) in spelled else MatchResult.NO


def _keeps(rule: Rule, effects: CallEffects) -> MatchResult:
    if rule.command is not None:
        return forbids_command(rule.command, effects)
    if rule.kind is RuleKind.FOLDER:
        return reaches_folder(str(rule.value), effects)
    if rule.kind is RuleKind.HOST:
        return reaches_host(str(rule.value), effects)
    return MatchResult.UNSURE  # denials have no other kinds of rules


def denial_matches(record: StoredRequest) -> Iterator[tuple[str, Match]]:
    """Yield the wider deny grants that a request offers, each with its words, narrow first."""
    request = record.request
    for words, rule in _denial_rules(read_without_authors(record)):
        # The tool, the folder and other arguments may differ: the denied action is the same.
        match = Match(shape=Shape.PATTERN, tool=ANY_TOOL, kind=request.kind, rules=(rule,))
        if denies(match, record) is MatchResult.YES:
            yield words, match
    words = f"{request.tool} with any arguments"
    yield words, Match(shape=Shape.TOOL, tool=request.tool, kind=request.kind)


def _denial_rules(parts: tuple[CallEffects, ...]) -> Iterator[tuple[str, Rule]]:
    seen: set[str] = set()
    for words, rule in chain.from_iterable(map(_rules_of, parts)):
        if words not in seen and len(seen) < _MOST_OFFERED:
            seen.add(words)
            yield words, rule


def _rules_of(effects: CallEffects) -> Iterator[tuple[str, Rule]]:
    for program in effects.programs:
        for pattern in _patterns(program.words) if program.words is not None else ():
            said = " ".join((pattern.program, *pattern.verbs, *pattern.flags))
            rule = Rule(name=program.place, kind=RuleKind.COMMAND, command=pattern)
            yield f"{said}, whatever follows, by any tool", rule
    commands = {program.place for program in effects.programs}
    for path in effects.paths:
        if path.looks or path.place in commands:
            continue
        if path.parts is not None and path.parts[1:]:  # never the root
            folder = "/" + "/".join(path.parts[:-1])
            yield (
                f"anything in {folder}, by its name and by any tool; links are not followed here",
                Rule(name=path.place, kind=RuleKind.FOLDER, value=folder),
            )
    named = [(one.place, one.host) for one in effects.urls if one.host and one.uncertainty is None]
    said_so = [(one.place, one.value) for one in effects.with_role(Role.HOST)]
    for place, host in (*named, *said_so):
        if isinstance(host, str) and host:
            rule = Rule(name=place, kind=RuleKind.HOST, value=host)
            yield f"anything on the host {host}, by any tool", rule


def _patterns(words: tuple[Word, ...]) -> Iterator[CommandPattern]:
    narrow, wide = denial(words, flags=True), denial(words, flags=False)
    if narrow.flags:
        yield replace(narrow, verbs=wide.verbs)
    yield wide


def read_without_authors(record: StoredRequest) -> tuple[CallEffects, ...]:
    """Return the effects of each part of a record, ignoring declarations of the tool's author."""
    if not record.request.roles:
        return effects_of(record)
    return tuple(
        touch(
            replace(call, roles=tuple(one for one in call.roles if one.by is RoleSource.OPERATOR))
        )
        for call in calls_of(record)
    )


# ---------------------------------------------------------------- readings


def over_readings(effects: CallEffects, judge: Callable[[CallEffects], MatchResult]) -> MatchResult:
    """Judge a call and its inner calls: yes if one of them matches, unsure if one matches only
    under some readings."""
    found = [judge(effects), *(over_readings(one, judge) for one in effects.nested)]
    for one in effects.readings:
        found.append(_agree([
            most([over_readings(inner, judge) for inner in way.nested]) for way in one.ways
        ]))  # fmt: skip
    return most(found)


def _judge_all(
    effects: CallEffects,
    of_call: Callable[[CallEffects], MatchResult],
    of_program: Callable[[Program], MatchResult],
    of_path: Callable[[PathUse], MatchResult],
) -> MatchResult:
    """Judge everything that a call runs and names, under each reading."""

    def of_reading(way: Reading | CallEffects) -> MatchResult:
        inner = [_judge_all(one, of_call, of_program, of_path) for one in way.nested]
        return most([*map(of_program, way.programs), *map(of_path, way.paths), *inner])

    found = [of_call(effects), of_reading(effects)]
    for one in effects.readings:
        found.append(_agree([of_reading(way) for way in one.ways if not _is_idle(way)]))
    if any(one.kind in _HIDING for one in effects.uncertainties):
        found.append(MatchResult.UNSURE)
    return most(found)


def _is_idle(way: Reading) -> bool:
    """Return whether a reading is implausible, or has nothing that a deny grant could match.

    No command begins with a dash, so a list with an item that begins with a dash contains the words
    of one command.
    """
    unproven = bool(way.programs) and not any(one.proven for one in way.programs)
    dashed = way.programs[1:] and any(one.text.startswith("-") for one in way.programs)
    return bool((unproven and way.programs[0].words is None) or dashed)


def _agree(found: list[MatchResult]) -> MatchResult:
    """Return the result that all readings share, or unsure if they differ."""
    each = set(found) or {MatchResult.NO}
    return each.pop() if len(each) == 1 else MatchResult.UNSURE


def _least(found: list[MatchResult]) -> MatchResult:
    """Return the weakest of several results if all of them are needed."""
    weakest = (MatchResult.NO, MatchResult.UNSURE)
    return next((one for one in weakest if one in found), MatchResult.YES)


# ---------------------------------------------------------------- commands


def forbids_command(pattern: CommandPattern, effects: CallEffects) -> MatchResult:
    """Return whether a call runs, or may run, a command that a deny grant matches."""

    def of_program(program: Program) -> MatchResult:
        found = _forbids_script(pattern, program)
        wrapped = program.wrapper and _program(pattern.program) == program.wrapper[0]
        return most([found, MatchResult.UNSURE]) if wrapped else found

    def of_call(one: CallEffects) -> MatchResult:
        runs = any(way.programs for each in one.readings for way in each.ways)
        if one.call.kind is Kind.COMMAND and not (one.programs or runs or one.nested):
            return MatchResult.UNSURE
        each = [_forbids(pattern, program.words) for program in _read_as_several(one)]
        if _has_unread_command(one) or set(each) - {MatchResult.NO}:
            return MatchResult.UNSURE
        return _may_hold(one, lambda text: any(_may_be(_program(pattern.program), text)))

    return _judge_all(effects, of_call, of_program, lambda _: MatchResult.NO)


def _read_as_several(effects: CallEffects) -> Iterator[Program]:
    """Yield the commands of a list that is read as one command only because of the tool's name.

    A tool with the same name from another vendor may run each element.
    """
    for leaf in effects.with_role(Role.ARGV):
        texts = leaf.value if is_list_of_texts(leaf.value) else []
        named = leaf.source is RoleSource.OPERATOR or plain_name(leaf.name) == "argv"
        if not (named or unwrap(texts) or any(one.startswith("-") for one in texts)):
            yield from read_each(texts, effects.base, leaf.place)


def _has_unread_command(effects: CallEffects) -> bool:
    """Return whether a value under a command's name is neither a string nor a list of strings."""
    return any(
        leaf.role in _MAYBE_RUN
        and plain_name(leaf.name) in _COMMAND_NAMES
        and leaf.value not in _EMPTY
        and not isinstance(leaf.value, str)
        and not is_list_of_texts(leaf.value)
        for leaf in effects.leaves
    )


def _may_hold(effects: CallEffects, holds: Callable[[str], bool]) -> MatchResult:
    """Return unsure if a call has an action or input, or an unknown text that `holds` accepts; else
    no."""
    for leaf in effects.with_role(Role.ACTION, Role.INPUT):
        read = leaf.role is Role.ACTION and plain_name(leaf.name) in _COMMAND_NAMES
        if leaf.value not in _EMPTY and not read:
            return MatchResult.UNSURE
    # A role that comes only from a name may be wrong, so all other values count.
    others = (leaf for leaf in effects.leaves if leaf.role not in _KEPT and not _is_checked(leaf))
    found = (text for leaf in others for text in texts_of(leaf.value))
    return MatchResult.UNSURE if any(map(holds, found)) else MatchResult.NO


def _is_checked(leaf: Leaf) -> bool:
    """Return whether the table of known tools or the operator confirms that a value runs
    nothing."""
    return leaf.source in (RoleSource.OPERATOR, RoleSource.TABLE) and leaf.role is not Role.UNKNOWN


def _forbids_script(pattern: CommandPattern, program: Program) -> MatchResult:
    """Return whether any step of a command matches a deny grant's pattern."""
    script = read_script(program.text) if program.words is None else None
    if script is None or not script.whole:
        return _forbids(pattern, program.words)
    denied = _program(pattern.program)
    found = [
        _forbids(pattern, tuple(Word(one, one) for one in step.words)) for step in script.steps
    ]
    if any(step.is_open for step in script.steps) or any(
        denied in map(_program, step.wrappers) for step in script.steps
    ):
        found.append(MatchResult.UNSURE)
    return most(found)


def _forbids(pattern: CommandPattern, words: _Words) -> MatchResult:
    if words is None:
        return MatchResult.UNSURE
    reading = read(words)
    program, denied = _program(words[0].text), _program(pattern.program)
    # A command that is read completely runs nothing else; an unread runner may run anything.
    opaque = reading is None and program in RUNNERS
    texts = tuple(word.text for word in words[1:])
    if program != denied:
        started = _WILD.search(program) is not None and fnmatchcase(denied, program)
        named = started or (reading is None and any(_may_be(denied, *texts)))
        return MatchResult.UNSURE if opaque or named else MatchResult.NO
    found = _forbids_words(pattern, texts, reading)
    # A no must be certain for every reader, and so must a yes.
    quoted = not all(word.plain for word in words[1:])
    uncertainty = opaque if found is MatchResult.NO else quoted
    return MatchResult.UNSURE if uncertainty else found


# ---------------------------------------------------------------- folders and hosts


def reaches_folder(folder: str, effects: CallEffects) -> MatchResult:
    """Return whether a call names, or may name, a path in a denied folder, or runs there."""
    denied = components(folder.casefold())

    stands_in = re.compile(re.escape(folder.rstrip("/")) + r"(?![\w.-])", re.IGNORECASE)

    def names_it(text: str) -> bool:
        # A flag's value or a quoted word may hold the path, after any other text.
        return not _WEB.match(text) and stands_in.search(text) is not None

    def of_parts(parts: tuple[str, ...] | None) -> MatchResult:
        if denied is None or parts is None:
            return MatchResult.UNSURE
        found = tuple(one.casefold() for one in parts)
        if found[: len(denied)] == denied:
            return MatchResult.YES
        return MatchResult.UNSURE if denied[: len(found)] == found else MatchResult.NO

    def of_path(path: PathUse) -> MatchResult:
        found = of_parts(path.parts)
        return MatchResult.UNSURE if path.looks and found is MatchResult.YES else found

    def of_program(program: Program) -> MatchResult:
        words = program.words
        if words is None or (program.reading is None and _program(words[0].text) in RUNNERS):
            return MatchResult.UNSURE
        # A working folder above the denied one does not mean that the program goes there.
        inside = program.base is not None and of_parts(components(program.base)) is MatchResult.YES
        named = [text for word in words for text in (word.text, word.text.partition("=")[2])]
        found = [
            of_parts(components(text, program.base))
            for text in (named if program.reading is None else paths_of(program.reading))
            if text
        ]
        attached = MatchResult.UNSURE if names_it(program.text) else MatchResult.NO
        return most([*found, attached, *([MatchResult.YES] if inside else [])])

    def of_call(one: CallEffects) -> MatchResult:
        odd = any(
            leaf.role is Role.UNKNOWN and not isinstance(leaf.value, str) and names_path(leaf.name)
            for leaf in one.leaves
        )
        # The files that the agent's side resolved are what the call is really about.
        bound = [of_parts(components(path)) for path in one.call.context.files]
        return most([*bound, MatchResult.UNSURE if odd else _may_hold(one, names_it)])

    return _judge_all(effects, of_call, of_program, of_path)


def reaches_host(host: str, effects: CallEffects) -> MatchResult:
    """Return whether a call contacts, or may contact, a denied host."""
    denied = host.casefold().rstrip(".")

    def of_name(name: str) -> MatchResult:
        found = name.casefold().rstrip(".")
        if found == denied:
            return MatchResult.YES
        # With a user, a port, a path or other letters, it may be the same host.
        unclear = denied in found or not _HOST.fullmatch(found)
        return MatchResult.UNSURE if unclear else MatchResult.NO

    def of_url(url: UrlUse) -> MatchResult:
        if url.uncertainty is not None:
            return MatchResult.UNSURE
        found = of_name(url.host)
        elsewhere = found is MatchResult.NO and denied in url.text.casefold()
        return MatchResult.UNSURE if elsewhere else found

    def of_call(one: CallEffects) -> MatchResult:
        said = [leaf.value for leaf in one.with_role(Role.HOST)]
        named = [of_name(name) if isinstance(name, str) else MatchResult.UNSURE for name in said]
        urls = [of_url(url) for url in one.urls]
        runs_on = [of_name(one.call.context.host or "")]
        return most([*named, *urls, *runs_on, _may_hold(one, lambda text: denied in text.lower())])

    def of_program(program: Program) -> MatchResult:
        opaque = program.words is None or _program(program.words[0].text) in RUNNERS
        named = denied in program.text.casefold()
        return (
            MatchResult.UNSURE if named or (opaque and program.reading is None) else MatchResult.NO
        )

    return _judge_all(effects, of_call, of_program, lambda _: MatchResult.NO)


# ---------------------------------------------------------------- words of a command


def _forbids_words(
    pattern: CommandPattern, texts: tuple[str, ...], reading: ParsedCommand | None
) -> MatchResult:
    verbs = pattern.verbs
    if reading is not None and verbs and reading.known.verbs and _differ(verbs, reading):
        return MatchResult.NO
    if texts[: len(verbs)] == verbs:
        return _forbids_flags(pattern.flags, texts[len(verbs) :], reading)
    if texts[:1] and texts[0].startswith("-") and reading is None:
        return MatchResult.UNSURE
    rest = iter(texts)
    return MatchResult.UNSURE if all(verb in rest for verb in verbs) else MatchResult.NO


def _differ(verbs: tuple[str, ...], reading: ParsedCommand) -> bool:
    known = reading.known.verbs
    common = min(len(verbs), len(known))
    return verbs[:common] != known[:common]


def _forbids_flags(
    wanted: tuple[str, ...], texts: tuple[str, ...], reading: ParsedCommand | None
) -> MatchResult:
    flags = [text.partition("=")[0] for text in texts if text.startswith("-")]
    letters = {f"-{char}" for flag in flags if not flag.startswith("--") for char in flag[1:]}
    if set(wanted) <= letters | set(flags):
        return MatchResult.YES
    if any(text.startswith("+") for text in texts):
        return MatchResult.UNSURE  # `git push origin +main` is a push by force
    if reading is not None and not set(wanted) & set(reading.known.flags):
        return MatchResult.NO
    # Long names have several spellings; short ones ignore case, since many read -R as -r.
    doubtful = any(flag.startswith("--") for flag in (*flags, *(wanted if flags else ())))
    spelled = {flag.lower() for flag in wanted} <= {letter.lower() for letter in letters}
    return MatchResult.UNSURE if doubtful or spelled else MatchResult.NO


def _program(text: str) -> str:
    """Return a program's name without its folder, version and Windows extension."""
    name = text.replace("\\", "/").rpartition("/")[2].lower()
    return _VERSION.sub("", name) or name


def _may_be(denied: str, *texts: str) -> Iterator[bool]:
    """Yield, for each part of some words, whether it could name the denied program, directly or as
    a wildcard."""
    for program in map(_program, chain.from_iterable(map(_PART.findall, texts))):
        wild = _WILD.search(program) is not None and any(map(str.isalnum, program))
        yield program == denied or (wild and fnmatchcase(denied, program))


# A person's plain denial also denies the same call for a few minutes, so that an agent cannot wear
# people down by asking again. It is stored beside the denied request, under keys that expire.


def is_plain_denial(record: StoredRequest) -> bool:
    """Return whether a person ended a request with a plain denial. Feedback that asks for another
    plan does not count, nor does a form. A plain denial also denies the same call for some
    minutes."""
    decision = record.decision
    if decision is None or record.request.questions:
        return False
    how = (decision.status, decision.action, decision.reason)
    return how == (Status.DENIED, Action.DENY, Reason.PERSON)


def denial_of(record: StoredRequest, *, minutes: int, until: int) -> Grant | None:
    """Return a plain denial as a grant with the request's id, so that people can list and revoke
    it.

    The grant denies the same call in the same session until `until`, and has no card in chats."""
    decision, request = record.decision, record.request
    if decision is None:
        return None
    words = f"exactly this, denied for {minutes} minute{'s' if minutes > 1 else ''}"
    return Grant(
        id=record.id,
        effect=Effect.DENY,
        agent=request.agent,
        session=request.session,
        # The digest of the agent's call, also if people edited it before they denied it.
        match=Match(shape=Shape.EXACT, tool=request.tool, kind=request.kind, digest=request.digest),
        made_by=decision.decided_by.name,
        made_at=decision.decided_at,
        expires_at=until,
        from_request=record.id,
        words=words,
        told=f"{words}: {record.hide(decision.message)}" if decision.message else words,
    )
