"""What a session's pass lets through: every text of every argument is looked at, at any depth.

A pass for edits covers what is understood as a whole, and asks about the rest. A pass for all
refuses whatever names a delicate place in any spelling, and what shows or sends away secrets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gateway.domain.records import Record
from gateway.models import Kind
from gateway.policy.calls.argument_names import (
    gives_rights,
    is_content,
    is_file_tool,
    is_plain_content,
    names_any_path,
    names_path,
    plain_name,
    runs_what_it_is_given,
)
from gateway.policy.calls.patches import files_of_patch
from gateway.policy.calls.path_spelling import could_be_delicate, names_delicate, reveals
from gateway.policy.calls.paths import below, delicate, is_root, is_systems, within

_MAX_DEPTH = 16
_MAX_LEAVES = 512
_MAX_TEXT = 65_536
_LOOKED_AT = 20_000  # characters of a command, as the guardrails have it
_NOT_GIVEN = (None, False, "", "false", "use_default")
_PATCHES = frozenset({"patch", "diff", "patchtext", "unifieddiff", "input"})
# These hold what is changed in several places; the keys of the first two may be paths.
_BY_PATH = frozenset({"changes", "files"})
_HOLDING = _BY_PATH | {"edits", "patches", "operation", "operations"}
_VERBS = frozenset({"type", "operation", "op", "action", "command", "editmode"})
_CHANGING = frozenset(
    {"append", "create", "create_file", "insert", "replace", "str_replace", "update", "update_file",
     "write"}
)  # fmt: skip
_PARTS = frozenset(
    {"replaceall", "append", "overwrite", "createdirs", "lines", "linecount", "cellid", "celltype",
     "celltypes", "allowmultiple", "dryrun", "expectedreplacements", "useregex"}
)  # fmt: skip

Leaf = tuple[str, Any]


def lets_edit(record: Record) -> bool:
    """Whether a call creates and changes files below where the agent works, and does no more."""
    request = record.request
    cwd = request.context.cwd
    if request.kind is not Kind.FILE_CHANGE or not is_file_tool(request.tool, moving=True):
        return False
    if is_root(cwd):
        return False
    try:
        paths = list(_list_changed(record.arguments, "", 0))
    except _NotUnderstoodError:
        return False
    paths += request.context.files
    return bool(paths) and all(isinstance(one, str) and _editable(one, cwd) for one in paths)


def lets_all(record: Record) -> bool:
    """Whether nothing in a call is delicate, shows or sends away secrets, or has more rights."""
    request = record.request
    cwd = request.context.cwd
    if is_root(cwd) or (cwd is not None and delicate(cwd) is not None):
        return False
    try:
        leaves = list(_leaves(record.arguments))
    except _NotUnderstoodError:
        return False
    if any(delicate(path) is not None for path in request.context.files):
        return False
    command = request.kind is Kind.COMMAND
    return not any(_is_refused(name, value, cwd, command=command) for name, value in leaves)


class _NotUnderstoodError(Exception):
    """A call is not one that a pass may cover."""


# ---------------------------------------------------------------- edits


def _list_changed(value: Any, name: str, depth: int) -> Iterator[Any]:
    """Yield every path that a change names; raises _NotUnderstoodError."""
    if depth > _MAX_DEPTH:
        raise _NotUnderstoodError
    plain = plain_name(name)
    if isinstance(value, dict):
        if name and plain not in _HOLDING:
            raise _NotUnderstoodError
        yield from _of_object(value, depth, keys=plain in _BY_PATH)
    elif isinstance(value, list):
        if not (plain in _HOLDING or names_path(name)):
            raise _NotUnderstoodError
        for part in value:
            yield from _list_changed(part, name, depth + 1)
    elif plain in _HOLDING - _BY_PATH - _VERBS:
        yield from _list_changed(_load(value), name, depth + 1)
    else:
        yield from _of_leaf(name, value)


def _of_object(members: dict[str, Any], depth: int, *, keys: bool) -> Iterator[Any]:
    named = [value for key, value in members.items() if names_any_path(key)]
    texts = [value for value in named if isinstance(value, str)]
    # Some tools join a folder with a name.
    yield from (f"{one}/{two}" for one in texts for two in texts if not two.startswith("/"))
    for key, value in members.items():
        if keys and isinstance(value, dict):
            yield key
            yield from _of_object(value, depth + 1, keys=False)
        else:
            yield from _list_changed(value, key, depth + 1)


def _of_leaf(name: str, value: Any) -> Iterator[Any]:
    plain = plain_name(name)
    if is_content(name):
        known = is_plain_content(name, value)
    elif plain in _PATCHES:
        found = files_of_patch(value) if isinstance(value, str) else None
        known = found is not None
        yield from found or ()
    elif plain in _VERBS:
        known = value in _CHANGING if isinstance(value, str) else False
    elif plain in _PARTS:
        known = value is None or isinstance(value, bool | int | str)
    else:
        known = names_any_path(name)
        yield value
    if not known:
        raise _NotUnderstoodError


def _editable(path: str, cwd: str | None) -> bool:
    if could_be_delicate(path, cwd):
        return False
    if cwd is None:
        return below(path)
    return within(path, cwd, cwd) and not is_systems(path, cwd)


# ---------------------------------------------------------------- all


def _leaves(
    value: Any, name: str = "", depth: int = 0, left: list[int] | None = None
) -> Iterator[Leaf]:
    """Yield each text and number with the name that it stands under; keys are texts too."""
    left = left or [_MAX_LEAVES]
    left[0] -= 1
    if depth > _MAX_DEPTH or left[0] < 0:
        raise _NotUnderstoodError
    if isinstance(value, dict):
        for key, part in value.items():
            yield "", key
            yield from _leaves(part, key, depth + 1, left)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part, name, depth + 1, left)
    elif isinstance(value, str) and not is_content(name) and value.lstrip()[:1] in ("{", "["):
        yield name, value
        yield from _inside(value, name, depth, left)
    else:
        yield name, value


def _inside(text: str, name: str, depth: int, left: list[int]) -> Iterator[Leaf]:
    """Yield what stands in a text that is JSON; any other is a text and nothing more."""
    try:
        found = _load(text)
    except _NotUnderstoodError:
        if len(text) > _MAX_TEXT:
            raise
        return
    if isinstance(found, dict | list):
        yield from _leaves(found, name, depth + 1, left)


def _is_refused(name: str, value: Any, cwd: str | None, *, command: bool) -> bool:
    if gives_rights(name) and value not in _NOT_GIVEN:
        return True
    if not isinstance(value, str):
        return names_path(name) and value is not None  # a path that is none is not understood
    data = is_content(name) and not command
    if not data and len(value) > _MAX_TEXT:
        return True
    runs = command or runs_what_it_is_given(name)
    if runs and (len(value) > _LOOKED_AT or reveals(value, cwd)):
        return True
    if command and is_root(value):
        return True
    return names_delicate(value, cwd, data=data, globs=runs)


def _load(text: Any) -> Any:
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        raise _NotUnderstoodError
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _NotUnderstoodError from None
