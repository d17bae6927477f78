"""What a session's pass lets through, by the model of what a call touches.

A pass for edits covers what is understood as a whole, and asks about the rest. A pass for all
refuses whatever names a delicate place in any spelling, and what shows or sends away secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gateway.domain.records import Record
from gateway.models import Kind
from gateway.policy.calls.known_tools import find_known_tools
from gateway.policy.calls.path_spelling import could_be_delicate, names_delicate, reveals
from gateway.policy.calls.paths import below, delicate, is_root, is_systems, within
from gateway.policy.calls.roles import COMMANDS, FREE, PATHS, looks_like, plain_name
from gateway.policy.calls.tool_names import Family, family_of, verbs_of_file_tool
from gateway.policy.calls.touches import (
    DoubtKind,
    Leaf,
    PathEffect,
    PathUse,
    Touches,
    texts_of,
    touches_of,
)
from gateway.wire.roles import Role

_LOOKED_AT = 20_000  # characters of a command, as the guardrails have it
_UNDERSTOOD = PATHS | FREE | {Role.PATCH, Role.FLAG, Role.WORKING_FOLDER}
_VERBS = frozenset({"type", "operation", "op", "action", "command", "editmode"})
_CHANGING = frozenset(
    {"append", "create", "create_file", "insert", "replace", "str_replace", "update", "update_file",
     "write"}
)  # fmt: skip
_SWITCHES = frozenset({"append", "createdirs", "dryrun", "encoding", "overwrite", "useregex"})
# Of these a part of the call was not looked at, or nobody knows where it runs.
_UNSEEN = frozenset({DoubtKind.BASE, DoubtKind.LIMIT, DoubtKind.NESTED, DoubtKind.TWINS})
_RUN = COMMANDS | {Role.ACTION, Role.INPUT}
# An agent or a service reads these: what stands in them is not for a shell.
_PROSE = frozenset(
    {"body", "data", "fact", "goal", "instruction", "json", "manifest", "message", "plan", "prompt",
     "task", "template", "yaml"}
)  # fmt: skip
_ROOT = frozenset({"root", "0"})


# ---------------------------------------------------------------- edits


def lets_edit(record: Record, folder: str | None = None) -> bool:
    """Whether a call creates, changes and moves files below where the agent works, and no more.

    A pass that names a `folder` covers what lies below that one, too.
    """
    request = record.request
    cwd, host = request.context.cwd, request.context.host
    if request.kind is not Kind.FILE_CHANGE or host is not None or is_root(cwd):
        return False
    resolved = request.context.files
    return all(
        _is_edit(touches)
        and all(_is_editable(text, touches.base, cwd, folder) for text in (*resolved, *named))
        for touches, named in ((one, _list_named(one)) for one in touches_of(record))
    )


def _is_edit(touches: Touches) -> bool:
    """Whether a call changes files, and every value of it is understood."""
    call = touches.call
    fits = any(
        row.kind is Kind.FILE_CHANGE and row.fits(call.arguments)
        for row in find_known_tools(call.tool)
    )
    if not fits and family_of(call.tool) is not Family.FILE:
        return False
    inner = sum(1 for _ in touches.everything()) - 1
    if _has_doubts(touches) or inner or not touches.paths:
        return False
    return all(map(_is_understood, touches.leaves)) and not any(
        _deletes(touches, one) for one in touches.all_paths()
    )


def _has_doubts(touches: Touches) -> bool:
    """Whether anything is doubtful but what stands under a path: each value there is looked at."""
    paths = {one.place for one in touches.paths}
    return any(
        one.kind is not DoubtKind.CONTAINER or one.address not in paths for one in touches.doubts
    )


def _is_understood(leaf: Leaf) -> bool:
    """Whether a value is a path, a patch, or speaks of nothing but the change itself."""
    plain = plain_name(leaf.name)
    if leaf.role not in _UNDERSTOOD or not leaf.read:
        return False
    if leaf.role in PATHS and "link" in plain:
        return False
    if leaf.role is Role.FLAG:
        verb = plain in _VERBS and leaf.value in _CHANGING
        return verb or (plain in _SWITCHES and looks_like(leaf.value) is None)
    return True


def _deletes(touches: Touches, use: PathUse) -> bool:
    """Whether a path is deleted: what is moved is, but lies at its second path then."""
    if use.effect is not PathEffect.DELETE:
        return False
    moves = "move" in verbs_of_file_tool(touches.call.tool)
    return not (moves and touches.with_role(Role.DESTINATION))


def _list_named(touches: Touches) -> list[str]:
    """Return every path that a call names, and the folder in which it says that it runs."""
    folders = touches.with_role(Role.WORKING_FOLDER)
    return [*(one.text for one in touches.all_paths()),
            *(one.value for one in folders if isinstance(one.value, str))]  # fmt: skip


def _is_editable(path: str, base: str | None, cwd: str | None, folder: str | None) -> bool:
    if could_be_delicate(path, base):
        return False
    if base is None or cwd is None:
        return folder is None and base is None and below(path)
    outer = (base, cwd) if folder is None else (base, cwd, folder)
    return all(within(path, one, base) for one in outer) and not is_systems(path, base)


# ---------------------------------------------------------------- all


def lets_all(record: Record) -> bool:
    """Whether nothing in a call is delicate, shows or sends away secrets, or has more rights."""
    context = record.request.context
    if any(delicate(path) is not None for path in context.files):
        return False
    every = (inner for one in touches_of(record) for inner in one.everything())
    return not any(map(_is_refused, every))


def _is_refused(touches: Touches) -> bool:
    """Whether a call has more rights, moves things away, or was not looked at as a whole."""
    base = touches.base
    if is_root(base) or (base is not None and delicate(base) is not None):
        return True
    if touches.rights or touches.environment or any(_is_other_user(touches, one)
                                                    for one in touches.users):  # fmt: skip
        return True
    if any(one.kind in _UNSEEN for one in touches.doubts) or _moves_away(touches):
        return True
    names = (*_keys_of(touches.call.arguments), *(one.text for one in touches.all_paths()))
    if any(names_delicate(one, base, data=False, globs=False) for one in names):
        return True
    return any(_names_secret(touches, leaf) for leaf in touches.leaves)


def _is_other_user(touches: Touches, leaf: Leaf) -> bool:
    """Whether something runs as root, or as somebody that the call names."""
    if str(leaf.value).strip().lower() in _ROOT:
        return True
    return plain_name(leaf.name) != "shell" and next(touches.all_programs(), None) is not None


def _moves_away(touches: Touches) -> bool:
    """Whether a tool that moves or copies files does so to where the agent does not work."""
    base, tool = touches.base, touches.call.tool
    if touches.family is not Family.FILE or "move" not in verbs_of_file_tool(tool):
        return False
    seconds = (one.text for one in touches.paths if one.second)
    return not all(below(one) if base is None else within(one, base, base) for one in seconds)


def _names_secret(touches: Touches, leaf: Leaf) -> bool:
    """Whether a value names a delicate place, or is a command that shows or sends secrets."""
    command = touches.call.kind is Kind.COMMAND
    prose = leaf.role is Role.ACTION and plain_name(leaf.name) in _PROSE
    data = leaf.role is Role.DATA or (leaf.free and not command)
    runs = not data and not prose and (command or leaf.role in _RUN)
    base = touches.base
    for text in texts_of(leaf.value):
        if runs and (len(text) > _LOOKED_AT or is_root(text) or reveals(text, base)):
            return True
        pattern = text if leaf.role is not Role.GLOB else _without_stars(text)
        if names_delicate(pattern, base, data=data, globs=runs or leaf.role is Role.GLOB):
            return True
    return False


def _without_stars(pattern: str) -> str:
    """Return a pattern of paths without the parts that say nothing of the name."""
    return "/".join(part for part in pattern.split("/") if part.strip("*"))


def _keys_of(value: Any) -> Iterator[str]:
    """Yield the names in a value at any depth; a key can be a path."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield from one
            left += one.values()
        elif isinstance(one, list):
            left += one
