"""Whether a grant covers a request.

An allow must be certain: what is not read completely is not covered. A deny that may apply is
unsure, and people decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from gateway.domain.records import Record
from gateway.domain.safe_text import make_visible
from gateway.errors import InvalidRequest
from gateway.models import Kind, RiskLevel
from gateway.policy.calls.argument_names import (
    ARGUMENT_LIST,
    COMMAND_LIST,
    gives_rights,
    is_file_tool,
    is_foreign_shell,
    is_plain_content,
    is_runner,
    is_said,
    is_shell,
    names_any_path,
    names_path,
    pathlike,
    paths_in,
    plain_name,
    runs_what_it_is_given,
    words_of_name,
)
from gateway.policy.calls.command_table import (
    Operands,
    ParsedCommand,
    files_of,
    paths_of,
    read,
    writes,
)
from gateway.policy.calls.paths import below, delicate, within
from gateway.policy.grants.denials import denies, runs_of
from gateway.policy.grants.grant import (
    ANY_TOOL,
    MAX_TEXT,
    PASSES,
    CommandPattern,
    Effect,
    Grant,
    Match,
    MatchResult,
    Rule,
    RuleKind,
    Shape,
    is_number,
)
from gateway.policy.grants.messages_to_people import is_message, is_message_text
from gateway.policy.grants.session_passes import lets_all, lets_edit
from gateway.wire.canonical_json import canonical
from gateway.wire.codec import JsonObject

_MAX_DEPTH = 16
_READING = frozenset({"cat", "get", "head", "list", "ls", "read", "search", "stat", "tail", "view"})
_CHANGING = frozenset(
    {"append", "apply", "change", "create", "delete", "edit", "edits", "editor", "insert", "make",
     "mkdir", "move", "copy", "open", "patch", "rename", "replace", "remove", "save", "set", "put",
     "post", "update", "write", "writer", "run", "exec", "execute"}
)  # fmt: skip


def covers(grant: Grant, record: Record) -> MatchResult:
    """Return whether the grant covers what would run now; its time and uses are not asked."""
    request = record.request
    if grant.agent != request.agent or grant.session not in (None, request.session):
        return MatchResult.NO
    if request.questions:
        return MatchResult.NO
    if grant.effect is Effect.DENY:
        return denies(grant.match, record)
    if grant.match.tool not in (request.tool, ANY_TOOL):
        return MatchResult.NO
    if grant.match.shape in PASSES:
        return MatchResult.YES if _passes(grant.match.shape, record) else MatchResult.NO
    return MatchResult.YES if _allows(grant.match, record) else MatchResult.NO


# ---------------------------------------------------------------- allow: only what is certain


def _allows(match: Match, record: Record) -> bool:
    request = record.request
    if record.risk.level is RiskLevel.HIGH or request.kind is not match.kind:
        return False
    if match.shape is Shape.EXACT:
        return match.digest == record.digest
    if request.context.env or request.payload is not None or not legible(record.arguments):
        return False
    if match.shape is Shape.TOOL:
        return record.harmless and request.kind is Kind.TOOL and not _names_delicate(record)
    return _fits_pattern(match, record)


def _passes(shape: Shape, record: Record) -> bool:
    """Whether a session's pass lets a request through: never high risk, secrets or hidden text."""
    request, arguments = record.request, record.arguments
    if record.risk.level is RiskLevel.HIGH or not legible([request.tool, arguments]):
        return False
    if request.context.env or request.payload is not None or request.kind is Kind.PLAN:
        return False
    return lets_all(record) if shape is Shape.ALL else lets_edit(record)


def _names_delicate(record: Record) -> bool:
    """Whether arguments name a delicate path, or name paths in a way that is not looked through."""
    arguments, cwd = record.arguments, record.request.context.cwd
    named = paths_in(arguments)
    if not all(isinstance(path, str) for path in named):
        return True
    written = not reads_files(record)
    paths = (*named, *pathlike(arguments))
    return any(delicate(path, cwd, written=written) for path in paths)


def fits_tool(record: Record) -> bool:
    """Whether a call of an ordinary tool may be covered whatever its arguments are."""
    request = record.request
    return not _names_delicate(record) and not is_runner(
        request.tool, request.kind, record.arguments
    )


def _fits_pattern(match: Match, record: Record) -> bool:
    context = record.request.context
    if (match.cwd, match.host) != (context.cwd, context.host):
        return False
    if {rule.name for rule in match.rules} != set(record.arguments):
        return False
    return _may_vary(match, record) and all(_holds(rule, record) for rule in match.rules)


def _may_vary(match: Match, record: Record) -> bool:
    """Whether what the rules leave open is known to be open in such a call.

    Beside a command, and where text is free, every argument must be known.
    """
    rules = {rule.name: rule for rule in match.rules}
    kinds = [rule.kind for rule in match.rules]
    others = {name: value for name, value in record.arguments.items() if rules[name].kind not in
              (RuleKind.COMMAND, RuleKind.FOLDER)}  # fmt: skip
    reading = kinds.count(RuleKind.COMMAND) + kinds.count(RuleKind.FOLDER)
    if reading > 1:
        return False
    if RuleKind.COMMAND in kinds:
        return is_shell(record.request.tool) and all(is_said(*one) for one in others.items())
    free = {name: value for name, value in others.items() if rules[name].kind is RuleKind.ANY}
    if RuleKind.FOLDER in kinds:
        fixed = {name: value for name, value in others.items() if name not in free}
        return is_file_call(record, fixed) and all(is_plain_content(*one) for one in free.items())
    request = record.request
    return not free or (
        is_message(request.tool, request.kind, record.arguments)
        and all(is_message_text(*one) for one in free.items())
    )


def is_file_call(record: Record, fixed: JsonObject) -> bool:
    """Whether a call reads or writes one file, where `fixed` stands beside path and content."""
    request = record.request
    if request.kind is Kind.COMMAND or not is_file_tool(request.tool):
        return False
    return not any(
        names_any_path(name)
        or runs_what_it_is_given(name)
        or gives_rights(name)
        or isinstance(value, dict | list)
        for name, value in fixed.items()
    )


def _holds(rule: Rule, record: Record) -> bool:
    value = record.arguments[rule.name]
    if rule.command is not None:
        same = (rule.value is not None) == _is_wrapped(rule.name, value)
        return same and runs_only(rule.command, rule.name, value, record)
    if rule.kind is RuleKind.FOLDER:
        return lies_in(str(rule.value), value, record)
    if rule.kind is RuleKind.ANY and (names_path(rule.name) or runs_what_it_is_given(rule.name)):
        return False  # nobody means any file, or anything to run
    return _ALLOWING[rule.kind](rule.value, value)


def _is_wrapped(name: str, value: Any) -> bool:
    return isinstance(value, list) and plain_name(name) not in (ARGUMENT_LIST, COMMAND_LIST)


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


def reads_files(record: Record) -> bool:
    """Whether a call only reads files, as far as kind and name tell."""
    verbs = words_of_name(record.request.tool)
    return record.request.kind is Kind.TOOL and bool(verbs & _READING) and not verbs & _CHANGING


def lies_in(folder: str, value: Any, record: Record) -> bool:
    """Whether a path lies in a folder, as far as names and what was resolved tell."""
    context = record.request.context
    if not isinstance(value, str) or not value or not within(value, folder, context.cwd):
        return False
    # What the agent's side resolved must lie there too, and nothing there may be delicate.
    written = not reads_files(record)
    return delicate(value, context.cwd, written=written) is None and all(
        within(path, folder) and delicate(path, written=written) is None for path in context.files
    )


def runs_only(pattern: CommandPattern, name: str, value: Any, record: Record) -> bool:
    """Whether all that an argument runs is read completely, and is what the pattern permits."""
    if is_foreign_shell(record.request.tool):
        return False
    runs = runs_of(name, value)
    return runs is not None and all(_runs(pattern, read(words), record) for words in runs)


def _runs(pattern: CommandPattern, reading: ParsedCommand | None, record: Record) -> bool:
    if reading is None or not _permits(pattern, reading):
        return False
    cwd = record.request.context.cwd
    written = writes(reading)
    named = (cwd or ".", *files_of(reading))
    if any(
        delicate(path, cwd, written=written) for path in (*named, *record.request.context.files)
    ):
        return False
    paths = list(record.request.context.files)
    if pattern.operands is not Operands.FIXED:
        paths += paths_of(reading)
    return all(_reachable(path, pattern.folder, cwd) for path in paths)


def _permits(pattern: CommandPattern, reading: ParsedCommand) -> bool:
    known, operands = reading.known, reading.operands
    if (known.program, known.verbs) != (pattern.program, pattern.verbs):
        return False
    if not set(pattern.needs) <= reading.flags <= set(pattern.flags):
        return False
    if pattern.operands is Operands.FIXED:
        return operands == pattern.words
    return not operands if pattern.operands is Operands.NONE else pattern.operands is known.operands


def _reachable(path: str, folder: str | None, cwd: str | None) -> bool:
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
        seen = make_visible(value)
        return not seen.hidden and not seen.mixed_script
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, dict):
        return all(legible(item, depth + 1) for pair in value.items() for item in pair)
    return not isinstance(value, list) or all(legible(item, depth + 1) for item in value)
