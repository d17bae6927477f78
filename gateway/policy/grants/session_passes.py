"""Decide whether a session pass, or a grant for looking, covers a call. Start reading at
`lets_edit`, `lets_work` or `lets_look`. A call that may do more is never covered."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.domain.records import StoredRequest
from gateway.models import Kind
from gateway.policy.calls.argument_roles import (
    COMMANDS,
    FREE,
    PATHS,
    PATHS_OF_FILE_TOOLS,
    Family,
    family_of,
    find_known_tools,
    is_of_server,
    looks_like,
    plain_name,
    verbs_of_file_tool,
    words_of,
)
from gateway.policy.calls.call_effects import (
    CallEffects,
    Leaf,
    PathEffect,
    PathUse,
    UncertaintyKind,
    effects_of,
    texts_of,
)
from gateway.policy.calls.known_steps import Extent, hides_no_name, reach_of, sure_folder
from gateway.policy.calls.paths import (
    below,
    could_be_delicate,
    delicate,
    is_executed,
    is_root,
    is_systems,
    names_delicate,
    within,
)
from gateway.policy.calls.script import Step, read_script
from gateway.policy.calls.shell_words import plain_words, unwrap
from gateway.policy.grants.grant import Answer
from gateway.policy.grants.variations import command_leaf, is_open, is_systems_folder, why_fixed
from gateway.wire.roles import Role

_UNDERSTOOD = PATHS | FREE | {Role.PATCH, Role.FLAG, Role.WORKING_FOLDER}
_VERBS = frozenset({"type", "operation", "op", "action", "command", "editmode"})
_CHANGING = frozenset(
    {"append", "create", "create_file", "insert", "replace", "str_replace", "update", "update_file",
     "write"}
)  # fmt: skip
_SWITCHES = frozenset({"append", "createdirs", "dryrun", "encoding", "overwrite", "useregex"})
# Arguments beside a command that change neither what it does nor where.
_BESIDE = frozenset({"background", "blocking", "isbackground", "login", "persistent", "pty",
                     "runinbackground", "stream", "tty"})  # fmt: skip
# Arguments that select lines of a file: `start_line`, `should_read_entire_file`.
_LINES = re.compile(r"lines?(?:one)?|offset|limit|entirefile")
_SEEN = frozenset({Role.READ, Role.FOLDER, Role.GLOB})
_BESIDE_LOOKING = frozenset({Role.PART, Role.REMARK, Role.FLAG})


# ---------------------------------------------------------------- edits


def lets_edit(record: StoredRequest, folder: str | None = None) -> bool:
    """Return whether a call only creates, changes and moves files below the agent's working folder.
    With a `folder`, the files must also be below that folder.

    With a `folder`, the files must be below that, too.
    """
    request = record.request
    cwd = request.context.cwd
    if request.kind is not Kind.FILE_CHANGE or is_root(cwd):
        return False
    resolved = request.context.files
    return all(
        _is_edit(effects)
        and all(_is_editable(text, effects.base, cwd, folder) for text in (*resolved, *named))
        for effects, named in ((one, _list_named(one)) for one in effects_of(record))
    )


def _is_edit(effects: CallEffects) -> bool:
    """Return whether a call changes files, and each of its values is understood."""
    call = effects.call
    fits = any(
        row.kind is Kind.FILE_CHANGE and row.fits(call.arguments)
        for row in find_known_tools(call.tool)
    )
    if not fits and family_of(call.tool) is not Family.FILE:
        return False
    inner = sum(1 for _ in effects.everything()) - 1
    if _has_doubts(effects) or inner or not effects.paths:
        return False
    return all(map(_is_understood, effects.leaves)) and not any(
        _deletes(effects, one) for one in effects.all_paths()
    )


def _has_doubts(effects: CallEffects) -> bool:
    """Return whether anything is unclear. Lists and objects of paths do not count, because they are
    checked one by one."""
    paths = {one.place for one in effects.paths}
    return any(
        one.kind is not UncertaintyKind.CONTAINER or one.address not in paths
        for one in effects.uncertainties
    )


def _is_understood(leaf: Leaf) -> bool:
    """Return whether a value is a path, a patch, or only describes the change itself."""
    plain = plain_name(leaf.name)
    if leaf.role not in _UNDERSTOOD or not leaf.read:
        return False
    if leaf.role in PATHS and "link" in plain:
        return False
    if leaf.role is Role.FLAG:
        verb = plain in _VERBS and isinstance(leaf.value, str) and leaf.value in _CHANGING
        return verb or (plain in _SWITCHES and looks_like(leaf.value) is None)
    return True


def _deletes(effects: CallEffects, use: PathUse) -> bool:
    """Return whether a path is deleted. A path that is moved does not count."""
    if use.effect is not PathEffect.DELETE:
        return False
    moves = "move" in verbs_of_file_tool(effects.call.tool)
    return not (moves and effects.with_role(Role.DESTINATION))


def _list_named(effects: CallEffects) -> list[str]:
    """Return each path that a call names, and its working folder."""
    folders = effects.with_role(Role.WORKING_FOLDER)
    return [*(one.text for one in effects.all_paths()),
            *(one.value for one in folders if isinstance(one.value, str))]  # fmt: skip


def _is_editable(path: str, base: str | None, cwd: str | None, folder: str | None) -> bool:
    if could_be_delicate(path, base) or is_executed(path):
        return False
    if base is None or cwd is None:
        return folder is None and base is None and below(path)
    outer = (base, cwd) if folder is None else (base, cwd, folder)
    return all(within(path, one, base) for one in outer) and not is_systems(path, base)


# ---------------------------------------------------------------- work and scripts


def lets_work(record: StoredRequest, *, scripts: bool) -> bool:
    """Return whether a call only looks, or creates, changes and moves files, below the agent's
    working folder. With `scripts`, it may also run the project's code. Unknown calls are not
    covered."""
    request = record.request
    base, files = request.context.cwd, request.context.files
    outside = (path for path in files if base is not None and not within(path, base))
    if is_of_server(request.tool):  # its server may run on another machine
        return False
    if is_root(base) or any(delicate(path) is not None for path in files) or any(outside):
        return False
    if lets_edit(record):
        return True
    return all(_is_work(record, one, scripts=scripts) for one in effects_of(record))


def lets_look(record: StoredRequest, folder: str) -> bool:
    """Return whether a call only reads, lists or searches, below a folder."""
    request = record.request
    base, files = request.context.cwd, request.context.files
    if is_of_server(request.tool) or base is None or not within(base, folder):
        return False
    if is_systems_folder(folder):
        return False
    if any(delicate(path) is not None or not within(path, folder) for path in files):
        return False
    return all(_looks(record, one, folder) for one in effects_of(record))


def _looks(record: StoredRequest, effects: CallEffects, folder: str) -> bool:
    if effects.nested:
        return False
    if "open" in words_of(effects.call.tool):
        return False  # it may run the file that it opens
    if effects.programs and effects.call.kind in (Kind.COMMAND, Kind.TOOL):
        git = any(one.words[0] == "git" for one in _steps(effects))
        if git and effects.base != folder:
            return False  # git runs programs from another repository's settings
        return _reach_beside(record, effects) is Extent.LOOK
    return _is_look(effects, folder)


def _is_work(record: StoredRequest, effects: CallEffects, *, scripts: bool) -> bool:
    if effects.nested:
        return False
    if effects.programs and effects.call.kind in (Kind.COMMAND, Kind.TOOL):
        reach = _reach_beside(record, effects)
        return reach is not None and (scripts or reach is not Extent.RUN)
    harmless = why_fixed(Answer.TOOL, record, effects) is None
    plain = all(is_open(Answer.TOOL, leaf) for leaf in effects.leaves)
    return (harmless and plain) or _is_look(effects)


def _reach_beside(record: StoredRequest, effects: CallEffects) -> Extent | None:
    """Return how much a call's command may do. Return None if that is unknown, or if other
    arguments may add to it."""
    texts = [text for leaf in effects.with_role(*COMMANDS) for text in texts_of(leaf.value)]
    if any(set("#!") & set(text) for text in texts) and "terminal" in words_of(effects.call.tool):
        return None  # a terminal's shell may not read comments, and may repeat earlier commands
    known = why_fixed(Answer.COMMAND, record, effects) is None
    beside = (leaf for leaf in effects.leaves if leaf.role not in COMMANDS)
    return _reach(effects) if known and all(map(_changes_nothing, beside)) else None


def _steps(effects: CallEffects) -> Iterator[Step]:
    """Yield the steps of a call's commands."""
    for leaf in effects.with_role(*COMMANDS):
        for text in texts_of(leaf.value):
            yield from read_script(text).steps


def _changes_nothing(leaf: Leaf) -> bool:
    """Return whether a value that comes with a command only describes the command, or is empty."""
    if leaf.place != leaf.name:
        return False
    said = leaf.role in (Role.REMARK, Role.PART) and not isinstance(leaf.value, dict | list)
    known = leaf.role is Role.WORKING_FOLDER or plain_name(leaf.name) == "shell"  # a POSIX one
    switch = plain_name(leaf.name) in _BESIDE and isinstance(leaf.value, bool)
    switch = switch or (plain_name(leaf.name) == "isinput" and leaf.value in (False, "false"))
    refused = leaf.role is Role.RIGHTS and leaf.value is False
    nothing = leaf.value == {} and leaf.role is Role.ENVIRONMENT
    return said or known or switch or refused or leaf.value is None or nothing


def _reach(effects: CallEffects) -> Extent | None:
    """Return how much a command may do that runs below the agent's working folder, else None."""
    base, cwd = effects.base, effects.call.context.cwd
    leaf = command_leaf(effects)
    if leaf is None or (base is not None and (cwd is None or not within(base, cwd))):
        return None
    if leaf.role is Role.COMMANDS and isinstance(leaf.value, list):
        found = [reach_of(one, base) for one in (*leaf.value, "\n".join(leaf.value))]
        known = [one for one in found if one is not None]
        return max(known, default=None) if len(known) == len(found) else None
    text = leaf.value if isinstance(leaf.value, str) else unwrap(leaf.value)
    if text is None:  # joined without quotes, a word that needs them would be another word
        text = " ".join(leaf.value) if plain_words(leaf.value) is not None else None
    return None if text is None else reach_of(text, base)


def _is_look(effects: CallEffects, folder: str | None = None) -> bool:
    """Return whether a file tool only reads, lists or searches below a folder or below the agent's
    working folder."""
    call, base, cwd = effects.call, effects.base, effects.call.context.cwd
    rows = [row for row in find_known_tools(call.tool) if row.fits(call.arguments)]
    verbs = verbs_of_file_tool(call.tool)
    by_name = effects.family is Family.FILE and verbs <= {"read", "list"} and bool(verbs)
    if call.kind is not Kind.TOOL or not (rows or by_name) or _has_doubts(effects):
        return False
    if folder is not None and not rows and any(map(_may_be_no_path, effects.leaves)):
        return False  # a grant lasts, and nobody knows this tool
    if effects.rights or effects.environment or effects.users or effects.readings:
        return False
    if base is not None and (cwd is None or not within(base, cwd)):
        return False
    searches = any(one.role in _SEEN for row in rows for one in row.arguments.values())
    seen = searches or any(leaf.role in _SEEN for leaf in effects.leaves)
    beside = _BESIDE_LOOKING if folder is not None else _BESIDE_LOOKING | {Role.PATH}
    return seen and all(_is_seen(effects, leaf, folder or base, beside) for leaf in effects.leaves)


def _may_be_no_path(leaf: Leaf) -> bool:
    """Return whether an argument, such as `name`, is a path only in some file tools."""
    return plain_name(leaf.name) in PATHS_OF_FILE_TOOLS


def _is_seen(effects: CallEffects, leaf: Leaf, folder: str | None, beside: frozenset[Role]) -> bool:
    """Return whether a value is a place in the folder to look at, or an option of how to look."""
    if leaf.role is Role.UNKNOWN and _LINES.search(plain_name(leaf.name)):
        return leaf.value is None or isinstance(leaf.value, bool | int)
    if not leaf.read or leaf.role not in _SEEN | beside:
        return False
    if leaf.role in (Role.PART, Role.REMARK):
        return True
    if leaf.role is Role.FLAG:
        return leaf.value is None or isinstance(leaf.value, bool | int)
    globs = leaf.role is Role.GLOB
    base = effects.base
    lists = {one.role for one in effects.leaves} <= {Role.GLOB, Role.FOLDER}
    return all(
        _may_see(text, base, folder, globs=globs, lists=lists) for text in texts_of(leaf.value)
    )


def _may_see(text: str, base: str | None, folder: str | None, *, globs: bool, lists: bool) -> bool:
    named = _without_stars(text) if globs else text
    if names_delicate(named, base, data=False, globs=globs, written=False) or could_be_delicate(
        named, base, written=False
    ):
        return False
    path = sure_folder(text) if globs else text
    plain = lists and not set("?[") & set(text)
    certain = not globs or plain or hides_no_name(text)
    return certain and (not path or (below(path) if folder is None else within(path, folder, base)))


def _without_stars(pattern: str) -> str:
    """Return a path pattern without the parts that match any name."""
    parts = pattern.split("/")
    return "/".join(part for part in parts if part.strip("*"))
