"""Whether a grant covers a request.

An allow must be certain: what is not read completely is not covered. A deny must not be escaped by
unclear spelling: where it could apply and nobody can tell, the answer is unsure, and people decide.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from gateway.canonical import canonical
from gateway.errors import InvalidRequest
from gateway.grants.commands import RUNNERS, paths_of, read
from gateway.grants.grant import (
    ANY_TOOL,
    MAX_TEXT,
    PASSES,
    CommandPattern,
    Effect,
    Grant,
    Match,
    Operands,
    Rule,
    RuleKind,
    Shape,
    is_number,
)
from gateway.grants.paths import below, components, delicate, within
from gateway.grants.shell import Word, plain_words, simple_command
from gateway.grants.tools import PATH_NAMES, is_runner
from gateway.models import Kind, RiskLevel
from gateway.records import Record
from gateway.visible import visible
from gateway.wire import JsonObject

_MAX_DEPTH = 16


class Cover(StrEnum):
    """Whether a grant covers a request; `unsure` exists for denials only."""

    YES = "yes"
    NO = "no"
    UNSURE = "unsure"


def covers(grant: Grant, record: Record) -> Cover:
    """Return whether the grant covers what would run now; its time and uses are not asked."""
    request = record.request
    if grant.agent != request.agent or grant.session not in (None, request.session):
        return Cover.NO
    if request.questions or grant.match.tool not in (request.tool, ANY_TOOL):
        return Cover.NO
    if grant.match.shape in PASSES:
        return Cover.YES if _passes(grant.match.shape, record) else Cover.NO
    if grant.effect is Effect.DENY:
        return _denies(grant.match, record)
    return Cover.YES if _allows(grant.match, record) else Cover.NO


# ---------------------------------------------------------------- allow: only what is certain


def _allows(match: Match, record: Record) -> bool:
    request = record.request
    if record.risk.level is RiskLevel.HIGH or request.kind is not match.kind:
        return False
    if match.shape is Shape.EXACT:
        return match.digest == record.digest
    if request.context.env or request.payload is not None or not legible(record.arguments):
        return False
    return fits_tool(record) if match.shape is Shape.TOOL else _fits_pattern(match, record)


def _passes(shape: Shape, record: Record) -> bool:
    """Whether a session's pass lets a request through: never high risk, secrets or hidden text."""
    request, arguments = record.request, record.arguments
    if record.risk.level is RiskLevel.HIGH or not legible([request.tool, arguments]):
        return False
    if request.context.env or request.kind is Kind.PLAN:
        return False
    paths = [arguments[name] for name in PATH_NAMES if name in arguments]
    if any(not isinstance(path, str) or delicate(path) for path in paths):
        return False
    if shape is Shape.ALL:
        return True
    cwd = request.context.cwd
    edits = request.kind is Kind.FILE_CHANGE and request.payload is None and bool(paths)
    return edits and all(below(path) if cwd is None else within(path, cwd, cwd) for path in paths)


def fits_tool(record: Record) -> bool:
    """Whether a call of an ordinary tool may be covered whatever its arguments are."""
    request, arguments = record.request, record.arguments
    paths = (arguments[name] for name in PATH_NAMES if name in arguments)
    if any(not isinstance(path, str) or delicate(path) for path in paths):
        return False
    return not is_runner(request.tool, request.kind, arguments)


def _fits_pattern(match: Match, record: Record) -> bool:
    context = record.request.context
    if (match.cwd, match.host) != (context.cwd, context.host):
        return False
    if {rule.name for rule in match.rules} != set(record.arguments):
        return False
    return all(_holds(rule, record) for rule in match.rules)


def _holds(rule: Rule, record: Record) -> bool:
    value = record.arguments[rule.name]
    if rule.command is not None:
        return runs_only(rule.command, value, record)
    if rule.kind is RuleKind.FOLDER:
        return lies_in(str(rule.value), value, record)
    return _ALLOWING[rule.kind](rule.value, value)


def _equals(wanted: Any, value: Any) -> bool:
    try:
        return canonical(wanted) == canonical(value)
    except InvalidRequest:
        return False


def _at_most(most: Any, value: Any) -> bool:
    return is_number(value) and 0 <= value <= most


def _within(prefix: Any, value: Any) -> bool:
    """Whether a URL or a name with slashes lies at or below another, component by component."""
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        return False
    outer, inner = _place(prefix), _place(value)
    return outer is not None and inner is not None and inner[: len(outer)] == outer


def _any(_: Any, value: Any) -> bool:
    return value is None or is_number(value) or isinstance(value, bool | str)


_ALLOWING: dict[RuleKind, Callable[[Any, Any], bool]] = {
    RuleKind.EQUALS: _equals,
    RuleKind.AT_MOST: _at_most,
    RuleKind.WITHIN: _within,
    RuleKind.ANY: _any,
}


def lies_in(folder: str, value: Any, record: Record) -> bool:
    """Whether a path lies in a folder, as far as names and what was resolved tell."""
    context = record.request.context
    if not isinstance(value, str) or not value or not within(value, folder, context.cwd):
        return False
    # What the agent's side resolved must lie there too, and nothing there may be delicate.
    return delicate(value) is None and all(
        within(path, folder) and delicate(path) is None for path in context.files
    )


def runs_only(pattern: CommandPattern, value: Any, record: Record) -> bool:
    """Whether a command is read completely, and is one that the pattern permits."""
    words = words_of(value)
    reading = read(words) if words else None
    if words is None or reading is None or words[0].text != pattern.program:
        return False
    known = reading.known
    if known.verbs != pattern.verbs or not reading.flags <= set(pattern.flags):
        return False
    if pattern.operands is Operands.FIXED and reading.operands != pattern.words:
        return False
    if pattern.operands is Operands.NONE and reading.operands:
        return False
    if pattern.operands not in (Operands.FIXED, Operands.NONE, known.operands):
        return False
    paths = list(record.request.context.files)
    if pattern.operands is not Operands.FIXED:
        paths += paths_of(reading)
    cwd = record.request.context.cwd
    return all(_reachable(path, pattern.folder, cwd) for path in paths)


def _reachable(path: str, folder: str | None, cwd: str | None) -> bool:
    if delicate(path) is not None:
        return False
    return below(path) if folder is None else within(path, folder, cwd)


def words_of(value: Any) -> tuple[Word, ...] | None:
    """Return the words of a command, given as a string or as a list; None when it is not plain."""
    if isinstance(value, str):
        return simple_command(value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return plain_words(value)
    return None


def _place(text: str) -> tuple[str, ...] | None:
    """Return scheme and host, if any, and the components; None where readers differ."""
    if any(char in text for char in "\\%?#@ ;") or not (text.isascii() and text.isprintable()):
        return None
    try:
        parts = urlsplit(text)
        place = (parts.scheme, parts.hostname or "", str(parts.port or ""))
    except ValueError:
        return None
    names = tuple(parts.path.split("/"))
    named = names[1:] if names[:1] == ("",) else names
    last = named[:-1] if named[-1:] == ("",) else named
    if any(name in ("", ".", "..") for name in last):
        return None
    return (*place, str(names[:1] == ("",)), *last)


def legible(value: Any, depth: int = 0) -> bool:
    """Whether nothing in a value hides, reorders or passes for other text."""
    if isinstance(value, str):
        seen = visible(value)
        return not seen.hidden and not seen.mixed_script
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, dict):
        return all(legible(item, depth + 1) for pair in value.items() for item in pair)
    return not isinstance(value, list) or all(legible(item, depth + 1) for item in value)


# ---------------------------------------------------------------- deny: nothing slips through


def _denies(match: Match, record: Record) -> Cover:
    if match.shape is Shape.EXACT:
        return Cover.YES if match.digest == record.digest else Cover.NO
    found = {_forbids(rule, record.arguments, record) for rule in match.rules}
    if Cover.NO in found:
        return Cover.NO
    return Cover.UNSURE if Cover.UNSURE in found else Cover.YES


def _forbids(rule: Rule, arguments: JsonObject, record: Record) -> Cover:
    if rule.name not in arguments:
        return Cover.NO
    value = arguments[rule.name]
    if rule.command is not None:
        return forbids_command(rule.command, value)
    if rule.kind is RuleKind.FOLDER:
        return forbids_folder(str(rule.value), value, record.request.context.cwd)
    if rule.kind is RuleKind.ANY:
        return Cover.YES
    if rule.kind is RuleKind.WITHIN and (not isinstance(value, str) or _place(value) is None):
        return Cover.UNSURE
    return Cover.YES if _ALLOWING[rule.kind](rule.value, value) else Cover.NO


def forbids_folder(folder: str, value: Any, cwd: str | None) -> Cover:
    """Whether a path lies in a folder that a denial means, or may."""
    if not isinstance(value, str) or components(value, cwd) is None:
        return Cover.UNSURE
    return Cover.YES if within(value.lower(), folder.lower(), cwd and cwd.lower()) else Cover.NO


def forbids_command(pattern: CommandPattern, value: Any) -> Cover:
    """Whether a command is one that a denial means, or may be."""
    words = words_of(value)
    if words is None:
        return Cover.UNSURE
    program = words[0].text.rpartition("/")[2].lower()
    if program != pattern.program.rpartition("/")[2].lower():
        # Fully read, it runs nothing else; otherwise what it runs is anyone's guess.
        return Cover.UNSURE if program in RUNNERS and read(words) is None else Cover.NO
    rest = words[1:]
    if not all(word.plain for word in rest):
        return Cover.UNSURE
    texts = tuple(word.text for word in rest)
    verbs = pattern.verbs
    if texts[: len(verbs)] != verbs:
        return Cover.UNSURE if verbs and texts[:1] and texts[0].startswith("-") else Cover.NO
    return _forbids_flags(pattern.flags, texts[len(verbs) :])


def _forbids_flags(wanted: tuple[str, ...], texts: tuple[str, ...]) -> Cover:
    flags = [text.partition("=")[0] for text in texts if text.startswith("-")]
    letters = {f"-{char}" for flag in flags if not flag.startswith("--") for char in flag[1:]}
    if set(wanted) <= letters | set(flags):
        return Cover.YES
    # Long names can be spelled in several ways.
    return Cover.UNSURE if any(flag.startswith("--") for flag in flags) else Cover.NO
