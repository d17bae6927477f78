"""What an approver may remember about a request, in words, narrow first.

An offer is made from the request alone, so that a click which names one can be checked against the
same list made anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gateway.domain.records import Record
from gateway.domain.redaction import start_of
from gateway.models import Kind, RiskLevel
from gateway.policy.calls.argument_names import (
    is_command_list,
    is_content,
    is_said_about,
    is_shell,
    names_command,
    names_path,
    runs_what_it_is_given,
)
from gateway.policy.calls.command_table import Operands, ParsedCommand, read
from gateway.policy.calls.paths import components, delicate, is_root
from gateway.policy.calls.shell_words import WRAPPER, Word, unwrap
from gateway.policy.grants.command_patterns import denial
from gateway.policy.grants.coverage import covers, is_file_call, legible, reads_files
from gateway.policy.grants.denials import runs_of
from gateway.policy.grants.grant import (
    MAX_RULES,
    CommandPattern,
    Effect,
    Grant,
    Match,
    MatchResult,
    Rule,
    RuleKind,
    Shape,
)
from gateway.policy.grants.messages_to_people import is_message, is_message_text
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject, Wire, plain

HOUR_MS = 3_600_000
# Each way to end: its name, what is shown, and its length; None lasts until it is revoked.
LIFETIMES: tuple[tuple[str, str, int | None], ...] = (
    ("1h", "for an hour", HOUR_MS),
    ("15m", "for 15 minutes", HOUR_MS // 4),
    ("8h", "for 8 hours", 8 * HOUR_MS),
    ("1d", "for a day", 24 * HOUR_MS),
    ("1w", "for a week", 7 * 24 * HOUR_MS),
    ("revoked", "until revoked", None),
)
_LONGEST_WORDS = 500  # what does not fit cannot be said, so it is not offered
_ID_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer(Wire):
    """One thing to remember: what it covers in words, and the match that it would become."""

    id: str
    words: str
    match: Match


def offers(record: Record, effect: Effect = Effect.ALLOW) -> tuple[Offer, ...]:
    """Return what may be remembered about a request, narrow first; nothing when nothing may be.

    High risk, questions, and text that hides something are asked about each time. Every offer
    covers the request that it was made from.
    """
    return tuple(_offers(record, effect))


def narrowest(record: Record, effect: Effect = Effect.ALLOW) -> Offer | None:
    """Return the narrowest offer: for a `remember` that cannot say how much. Wider ones are not
    looked for, which would take reading commands."""
    return next(_offers(record, effect), None)


def _offers(record: Record, effect: Effect) -> Iterator[Offer]:
    request = record.request
    high = record.risk.level is RiskLevel.HIGH and effect is Effect.ALLOW
    if high or request.questions or not legible([request.tool, *record.parts]):
        return
    for words, match in _matches(record, effect):
        if len(words) > _LONGEST_WORDS:
            continue
        offer = _offer(words, match)
        if _covers(offer, record, effect):
            yield offer


def find_offer(record: Record, offer_id: str, effect: Effect = Effect.ALLOW) -> Offer | None:
    """Return the offer with this id, if it is still made for the request as it stands."""
    return next((offer for offer in offers(record, effect) if offer.id == offer_id), None)


def _matches(record: Record, effect: Effect) -> Iterator[tuple[str, Match]]:
    request = record.request
    yield "exactly this, and nothing else", _match(record, Shape.EXACT, digest=record.digest)
    if request.kind is Kind.PLAN:
        return
    if effect is Effect.DENY:
        yield from _denied_commands(record)
    else:
        yield from _commands(record)
    yield from _folders(record, effect)
    yield from _free_text(record)
    words = f"everything that {request.tool} can do"
    yield words, _match(record, Shape.TOOL)


def _denied_commands(record: Record) -> Iterator[tuple[str, Match]]:
    name = next(filter(names_command, record.arguments), None)
    runs = runs_of(name, record.arguments[name]) if name is not None else None
    if name is None or runs is None:
        return
    for pattern in _denials(runs[0]):
        said = " ".join((pattern.program, *pattern.verbs, *pattern.flags))
        rule = Rule(name=name, kind=RuleKind.COMMAND, command=pattern)
        # Whatever stands beside: another folder or user makes it no other command.
        match = _match(record, Shape.PATTERN, rules=(rule,))
        yield f"{said}, whatever follows", match


def _commands(record: Record) -> Iterator[tuple[str, Match]]:
    name = next(filter(names_command, record.arguments), None)
    value = record.arguments[name] if name is not None else None
    runs = runs_of(name, value) if name is not None else None
    if name is None or runs is None or not is_shell(record.request.tool):
        return
    reading = read(runs[0])
    if reading is None:
        return
    wrapper = list(WRAPPER) if isinstance(value, list) and unwrap(value) is not None else None
    each = "each command of a list: " if isinstance(value, list) and is_command_list(name) else ""
    by = f", by {' '.join(WRAPPER)}" if wrapper is not None else ""
    for pattern, said in _patterns(reading, record.request.context.cwd):
        ignored = _describe_ignored(record)
        text = f"{each}{_command_words(pattern)}, {said}{by}{_where(record)}{ignored}"
        rule = Rule(name=name, kind=RuleKind.COMMAND, value=wrapper, command=pattern)
        yield text, _pattern(record, rule, free=frozenset(filter(is_said_about, record.arguments)))


def _denials(words: tuple[Word, ...]) -> Iterator[CommandPattern]:
    narrow, wide = denial(words, flags=True), denial(words, flags=False)
    if narrow.flags:
        yield replace(narrow, verbs=wide.verbs)
    yield wide


def _patterns(reading: ParsedCommand, folder: str | None) -> Iterator[tuple[CommandPattern, str]]:
    """Yield the command with the flags and the kind of operands it has, then with harmless ones."""
    known, used = reading.known, reading.flags
    if is_root(folder) and known.operands in (Operands.PATHS, Operands.TEXT_PATHS):
        return
    narrow = CommandPattern(
        program=known.program,
        verbs=known.verbs,
        flags=tuple(sorted(used)),
        needs=known.list_restraints(used),
        operands=known.operands if reading.operands else Operands.NONE,
        words=reading.operands if known.operands is Operands.FIXED else (),
        folder=folder,
    )
    listed, needed = " ".join(narrow.flags), " ".join(narrow.needs)
    always = f", always with {needed}" if needed else ""
    yield narrow, (f"with no flags but {listed}" if used else "without flags") + always
    wide = replace(narrow, flags=tuple(sorted(used | known.harmless)), operands=known.operands)
    if wide != narrow:
        count = len(wide.flags)
        yield wide, f"with any of its {count} flags that run and write nothing else{always}"


def _command_words(pattern: CommandPattern) -> str:
    command = " ".join((pattern.program, *pattern.verbs, *pattern.words))
    inside = f"in {pattern.folder}" if pattern.folder else "below where it runs"
    said = {
        Operands.PATHS: f" on any paths {inside}",
        Operands.TEXT: " with any text",
        Operands.TEXT_PATHS: f" for any text, on any paths {inside}",
        Operands.NAMES: " with any names",
    }
    return command + said.get(pattern.operands, "")


def _where(record: Record) -> str:
    context = record.request.context
    host = f" on {context.host}" if context.host else ""
    return f", run in {context.cwd}{host}" if context.cwd else host


def _describe_ignored(record: Record) -> str:
    """Say what may differ beside a command, because it only speaks about it."""
    names = sorted(filter(is_said_about, record.arguments))
    return f"; whatever {', '.join(names)} {'say' if names[1:] else 'says'}" if names else ""


def _folders(record: Record, effect: Effect) -> Iterator[tuple[str, Match]]:
    """Offer the folder of the one path that a call names, where the rest is content or the same."""
    arguments, cwd = record.arguments, record.request.context.cwd
    names = [name for name in arguments if names_path(name)]
    path = arguments[names[0]] if len(names) == 1 else None
    if not isinstance(path, str) or any(map(runs_what_it_is_given, arguments)):
        return
    if len(arguments) > MAX_RULES:
        return
    parts = components(path, cwd)
    if parts is None or not parts[1:] or delicate(path, cwd, written=not reads_files(record)):
        return  # never the root of the disk
    folder = "/" + "/".join(parts[:-1])
    rule = Rule(name=names[0], kind=RuleKind.FOLDER, value=folder)
    free = frozenset(filter(is_content, arguments))
    fixed = {name: value for name, value in arguments.items() if name not in {names[0], *free}}
    if effect is Effect.ALLOW and not is_file_call(record, fixed):
        return
    words = (
        f"{record.request.tool} on anything in {folder}{_with(fixed)}, by its name; "
        "links are not followed here"
    )
    yield words, _pattern(record, rule, free=free)


def _free_text(record: Record) -> Iterator[tuple[str, Match]]:
    """Offer a message to the same people with another text."""
    request, arguments = record.request, record.arguments
    free = frozenset(name for name, value in arguments.items() if is_message_text(name, value))
    if not free or not is_message(request.tool, request.kind, arguments):
        return
    fixed = {name: value for name, value in arguments.items() if name not in free}
    words = f"{request.tool} with any {', '.join(sorted(free))}{_with(fixed)}"
    yield words, _pattern(record, free=free)


def _with(fixed: JsonObject) -> str:
    """Say each argument that is the same each time, a long one by its beginning and length."""
    said = ", ".join(f"{name} = {_long(value)}" for name, value in fixed.items())
    return f", always with {said}" if said else ""


def _long(value: Any) -> str:
    text = value if isinstance(value, str) else canonical(value).decode()
    short = _short(text)
    return short if short == text else f"{short} ({len(text)} characters)"


def _pattern(record: Record, *rules: Rule, free: frozenset[str] = frozenset()) -> Match:
    """Return a pattern of these rules; other arguments are as they are, or `free`."""
    named = {rule.name for rule in rules}
    others = tuple(
        Rule(name=name, kind=RuleKind.ANY)
        if name in free
        else Rule(name=name, kind=RuleKind.EQUALS, value=value)
        for name, value in record.arguments.items()
        if name not in named
    )
    return _match(record, Shape.PATTERN, rules=rules + others)


def _match(record: Record, shape: Shape, **members: Any) -> Match:
    request = record.request
    where: JsonObject = {}
    if shape is Shape.PATTERN:
        where = {"cwd": request.context.cwd, "host": request.context.host}
    return Match(shape=shape, tool=request.tool, kind=request.kind, **where, **members)


def _offer(words: str, match: Match) -> Offer:
    offer_id = sha256_hex(canonical(plain(match)))[:_ID_LENGTH]
    return Offer(id=offer_id, words=words, match=match)


def _covers(offer: Offer, record: Record, effect: Effect) -> bool:
    grant = Grant(
        id="0" * 32,
        effect=effect,
        agent=record.request.agent,
        match=offer.match,
        made_by="",
        made_at=0,
    )
    return covers(grant, record) is MatchResult.YES


def _short(value: Any, most: int = 60) -> str:
    text = value if isinstance(value, str) else canonical(value).decode()
    return text if len(text) <= most else f"{start_of(text, most - 1)}…"
