"""What an approver may remember about a request, in words, narrow first.

An offer is made from the request alone, so that a click which names one can be checked against the
same list made anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gateway.canonical import canonical, sha256_hex
from gateway.grants.commands import Reading, read
from gateway.grants.forbidding import words_of
from gateway.grants.grant import (
    CommandPattern,
    Cover,
    Effect,
    Grant,
    Match,
    Operands,
    Rule,
    RuleKind,
    Shape,
)
from gateway.grants.matching import covers, legible
from gateway.grants.paths import components, delicate, is_root
from gateway.grants.patterns import denial
from gateway.grants.shell import Word
from gateway.grants.tools import (
    is_content,
    is_foreign_shell,
    is_runner,
    is_said_about,
    names_command,
    names_path,
    runs_what_it_is_given,
)
from gateway.masking import start_of
from gateway.models import Kind, RiskLevel
from gateway.records import Record
from gateway.wire import JsonObject, Wire, plain

HOUR_MS = 3_600_000
# Each way to end: its name, what is shown, and its length; None lasts until it is revoked.
LIFETIMES: tuple[tuple[str, str, int | None], ...] = (
    ("1h", "for an hour", HOUR_MS),
    ("1d", "for a day", 24 * HOUR_MS),
    ("1w", "for a week", 7 * 24 * HOUR_MS),
    ("revoked", "until revoked", None),
)
_LONGEST_WORDS = 300
_SHORTEST_PROSE = 40
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
    request = record.request
    high = record.risk.level is RiskLevel.HIGH and effect is Effect.ALLOW
    if high or request.questions or not legible([request.tool, *record.parts]):
        return ()
    made = (_offer(words, match) for words, match in _matches(record, effect))
    return tuple(offer for offer in made if _covered(offer, record, effect))


def narrowest(record: Record, effect: Effect = Effect.ALLOW) -> Offer | None:
    """Return the narrowest offer: for a `remember` that cannot say how much."""
    return next(iter(offers(record, effect)), None)


def offered(record: Record, offer_id: str, effect: Effect = Effect.ALLOW) -> Offer | None:
    """Return the offer with this id, if it is still made for the request as it stands."""
    return next((offer for offer in offers(record, effect) if offer.id == offer_id), None)


def _matches(record: Record, effect: Effect) -> Iterator[tuple[str, Match]]:
    request = record.request
    yield "exactly this, and nothing else", _match(record, Shape.EXACT, digest=record.digest)
    if request.kind is Kind.PLAN:
        return
    yield from _commands(record, effect)
    yield from _folders(record)
    yield from _free_text(record)
    words = f"everything that {request.tool} can do"
    yield words, _match(record, Shape.TOOL)


def _commands(record: Record, effect: Effect) -> Iterator[tuple[str, Match]]:
    name = next(filter(names_command, record.arguments), None)
    words = words_of(record.arguments[name]) if name is not None else None
    if name is None or words is None:
        return
    if effect is Effect.DENY:
        for pattern in _denials(words):
            said = " ".join((pattern.program, *pattern.verbs, *pattern.flags))
            yield f"{said}, whatever follows", _command_match(record, name, pattern)
        return
    reading = read(words)
    if reading is None or is_foreign_shell(record.request.tool):
        return
    for pattern, said in _patterns(reading, record.request.context.cwd):
        text = f"{_command_words(pattern)}, {said}{_where(record)}"
        yield text, _command_match(record, name, pattern)


def _denials(words: tuple[Word, ...]) -> Iterator[CommandPattern]:
    narrow, wide = denial(words, flags=True), denial(words, flags=False)
    if narrow.flags:
        yield replace(narrow, verbs=wide.verbs)
    yield wide


def _patterns(reading: Reading, folder: str | None) -> Iterator[tuple[CommandPattern, str]]:
    """Yield the command with the flags and the kind of operands it has, then with harmless ones."""
    known, used = reading.known, reading.flags
    if is_root(folder) and known.operands in (Operands.PATHS, Operands.TEXT_PATHS):
        return
    narrow = CommandPattern(
        program=known.program,
        verbs=known.verbs,
        flags=tuple(sorted(used)),
        needs=known.restraining(used),
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


def _command_match(record: Record, name: str, pattern: CommandPattern) -> Match:
    rule = Rule(name=name, kind=RuleKind.COMMAND, command=pattern)
    return _pattern(record, rule)


def _folders(record: Record) -> Iterator[tuple[str, Match]]:
    """Offer the folder of the one path that a call names, where the rest is content or the same."""
    names = [name for name in record.arguments if names_path(name)]
    path = record.arguments[names[0]] if len(names) == 1 else None
    if not isinstance(path, str) or any(map(runs_what_it_is_given, record.arguments)):
        return
    cwd = record.request.context.cwd
    parts = components(path, cwd)
    if parts is None or not parts[1:] or delicate(path, cwd) is not None:
        return  # never the root of the disk
    folder = "/" + "/".join(parts[:-1])
    rule = Rule(name=names[0], kind=RuleKind.FOLDER, value=folder)
    free = frozenset(filter(is_content, record.arguments))
    words = (
        f"{record.request.tool} on anything in {folder}, by its name; links are not followed here"
    )
    yield words, _pattern(record, rule, free=free)


def _free_text(record: Record) -> Iterator[tuple[str, Match]]:
    """Offer the same call with other prose, where the rest says what it is about."""
    arguments = record.arguments
    prose = frozenset(name for name, value in arguments.items() if _is_prose(value))
    if not prose or prose == set(arguments) or any(map(names_path, arguments)):
        return
    if is_runner(record.request.tool, Kind.TOOL, arguments):
        return
    kept = ", ".join(
        f"{name} = {_short(value)}" for name, value in arguments.items() if name not in prose
    )
    words = f"{record.request.tool} with {kept} and any {', '.join(sorted(prose))}"
    yield words, _pattern(record, free=prose)


def _is_prose(value: Any) -> bool:
    """Whether a value is words to be read: several, and many or in lines."""
    if not isinstance(value, str) or " " not in value.strip():
        return False
    return len(value) >= _SHORTEST_PROSE or "\n" in value


def _pattern(record: Record, *rules: Rule, free: frozenset[str] = frozenset()) -> Match:
    """Return a pattern of these rules; other arguments are as they are, or `free` where scalar."""
    named = {rule.name for rule in rules}
    others = tuple(
        Rule(name=name, kind=RuleKind.ANY)
        if name in free or (is_said_about(name) and isinstance(value, str | int | float))
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
    return Offer(id=offer_id, words=_short(words, _LONGEST_WORDS), match=match)


def _covered(offer: Offer, record: Record, effect: Effect) -> bool:
    grant = Grant(
        id="0" * 32,
        effect=effect,
        agent=record.request.agent,
        match=offer.match,
        made_by="",
        made_at=0,
    )
    return covers(grant, record) is Cover.YES


def _short(value: Any, most: int = 60) -> str:
    text = value if isinstance(value, str) else canonical(value).decode()
    return text if len(text) <= most else f"{start_of(text, most - 1)}…"
