"""Whether a grant covers a request.

An allow must be certain: what is not read completely is not covered. A deny that may apply is
unsure, and people decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from gateway.canonical import canonical
from gateway.errors import InvalidRequest
from gateway.grants.commands import Reading, files_of, paths_of, read
from gateway.grants.forbidding import forbids_command, forbids_folder, most, words_of
from gateway.grants.grant import (
    ANY_TOOL,
    MAX_TEXT,
    PASSES,
    CommandPattern,
    Cover,
    Effect,
    Grant,
    Match,
    Operands,
    Rule,
    RuleKind,
    Shape,
    is_number,
)
from gateway.grants.paths import below, delicate, is_root, is_systems, within
from gateway.grants.tools import (
    is_foreign_shell,
    is_runner,
    names_path,
    pathlike,
    paths_in,
    runs_what_it_is_given,
)
from gateway.models import Kind, RiskLevel
from gateway.records import Record
from gateway.visible import visible
from gateway.wire import JsonObject

_MAX_DEPTH = 16


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
    if request.context.env or request.payload is not None or request.kind is Kind.PLAN:
        return False
    cwd = request.context.cwd
    if is_root(cwd) or _names_delicate(arguments, cwd):
        return False
    if shape is Shape.ALL:
        return True
    paths = paths_in(arguments)
    edits = request.kind is Kind.FILE_CHANGE and bool(paths)
    return edits and all(_editable(path, cwd) for path in paths)


def _editable(path: str, cwd: str | None) -> bool:
    if cwd is None:
        return below(path)
    return within(path, cwd, cwd) and not is_systems(path, cwd)


def _names_delicate(arguments: JsonObject, cwd: str | None) -> bool:
    """Whether arguments name a delicate path, or name paths in a way that is not looked through."""
    named = paths_in(arguments)
    if not all(isinstance(path, str) for path in named):
        return True
    return any(delicate(path, cwd) for path in (*named, *pathlike(arguments)))


def fits_tool(record: Record) -> bool:
    """Whether a call of an ordinary tool may be covered whatever its arguments are."""
    request, arguments = record.request, record.arguments
    if _names_delicate(arguments, request.context.cwd):
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
    if rule.kind is RuleKind.ANY and (names_path(rule.name) or runs_what_it_is_given(rule.name)):
        return False  # nobody means any file, or anything to run
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
    return delicate(value, context.cwd) is None and all(
        within(path, folder) and delicate(path) is None for path in context.files
    )


def runs_only(pattern: CommandPattern, value: Any, record: Record) -> bool:
    """Whether a command is read completely, and is one that the pattern permits."""
    words = words_of(value)
    reading = read(words) if words else None
    if reading is None or is_foreign_shell(record.request.tool) or not _permits(pattern, reading):
        return False
    cwd = record.request.context.cwd
    if any(delicate(path, cwd) for path in (cwd or ".", *files_of(reading))):
        return False
    paths = list(record.request.context.files)
    if pattern.operands is not Operands.FIXED:
        paths += paths_of(reading)
    return all(_reachable(path, pattern.folder, cwd) for path in paths)


def _permits(pattern: CommandPattern, reading: Reading) -> bool:
    known, operands = reading.known, reading.operands
    if (known.program, known.verbs) != (pattern.program, pattern.verbs):
        return False
    if not set(pattern.needs) <= reading.flags <= set(pattern.flags):
        return False
    if pattern.operands is Operands.FIXED:
        return operands == pattern.words
    return not operands if pattern.operands is Operands.NONE else pattern.operands is known.operands


def _reachable(path: str, folder: str | None, cwd: str | None) -> bool:
    if delicate(path) is not None:
        return False
    return below(path) if folder is None else within(path, folder, cwd)


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
    # Each rule looks at all that would run: what one forbids may stand apart from the other.
    found = {most([_forbids(one, part, record) for part in record.parts]) for one in match.rules}
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
