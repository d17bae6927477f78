"""What a session's pass lets through, and an approval of looking: only what is known to stay within
its words."""

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
# What a command may be told beside it that changes nothing of what it does, or where.
_BESIDE = frozenset({"background", "blocking", "isbackground", "login", "persistent", "pty",
                     "runinbackground", "stream", "tty"})  # fmt: skip
# Which lines of a file are read: `start_line`, `should_read_entire_file`.
_LINES = re.compile(r"lines?(?:one)?|offset|limit|entirefile")
_SEEN = frozenset({Role.READ, Role.FOLDER, Role.GLOB})
_BESIDE_LOOKING = frozenset({Role.PART, Role.REMARK, Role.FLAG})


# ---------------------------------------------------------------- edits


def lets_edit(record: StoredRequest, folder: str | None = None) -> bool:
    """Whether a call creates, changes and moves files below where the agent works, and no more.

    A pass that names a `folder` covers what lies below that one, too.
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
    """Whether a call changes files, and every value of it is understood."""
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
    """Whether anything is doubtful but what stands under a path: each value there is looked at."""
    paths = {one.place for one in effects.paths}
    return any(
        one.kind is not UncertaintyKind.CONTAINER or one.address not in paths
        for one in effects.uncertainties
    )


def _is_understood(leaf: Leaf) -> bool:
    """Whether a value is a path, a patch, or speaks of nothing but the change itself."""
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
    """Whether a path is deleted: what is moved is, but lies at its second path then."""
    if use.effect is not PathEffect.DELETE:
        return False
    moves = "move" in verbs_of_file_tool(effects.call.tool)
    return not (moves and effects.with_role(Role.DESTINATION))


def _list_named(effects: CallEffects) -> list[str]:
    """Return every path that a call names, and the folder in which it says that it runs."""
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
    """Whether a call is known to look, or to create, change and move files, below where the agent
    works; with `scripts` also whether it runs the project's own code. What is not known is not."""
    request = record.request
    base, files = request.context.cwd, request.context.files
    outside = (path for path in files if base is not None and not within(path, base))
    if is_of_server(request.tool):  # its server may run anywhere
        return False
    if is_root(base) or any(delicate(path) is not None for path in files) or any(outside):
        return False
    if lets_edit(record):
        return True
    return all(_is_work(record, one, scripts=scripts) for one in effects_of(record))


def lets_look(record: StoredRequest, folder: str) -> bool:
    """Whether a call is known to do no more than look, below a folder."""
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
        return False  # it may start what it opens
    if effects.programs and effects.call.kind in (Kind.COMMAND, Kind.TOOL):
        git = any(one.words[0] == "git" for one in _steps(effects))
        if git and effects.base != folder:
            return False  # another repository's settings run programs
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
    """Return how far a call's command reaches, where nothing beside it adds to that."""
    texts = [text for leaf in effects.with_role(*COMMANDS) for text in texts_of(leaf.value)]
    if any(set("#!") & set(text) for text in texts) and "terminal" in words_of(effects.call.tool):
        return None  # a terminal's shell may know no comments, and repeat what ran before
    known = why_fixed(Answer.COMMAND, record, effects) is None
    beside = (leaf for leaf in effects.leaves if leaf.role not in COMMANDS)
    return _reach(effects) if known and all(map(_changes_nothing, beside)) else None


def _steps(effects: CallEffects) -> Iterator[Step]:
    """Yield what a call's commands start."""
    for leaf in effects.with_role(*COMMANDS):
        for text in texts_of(leaf.value):
            yield from read_script(text).steps


def _changes_nothing(leaf: Leaf) -> bool:
    """Whether a value beside a command only speaks about it, or is not given."""
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
    """Return how far a call's command reaches, where it runs below where the agent works."""
    base, cwd = effects.base, effects.call.context.cwd
    leaf = command_leaf(effects)
    if leaf is None or (base is not None and (cwd is None or not within(base, cwd))):
        return None
    if leaf.role is Role.COMMANDS and isinstance(leaf.value, list):
        found = [reach_of(one, base) for one in (*leaf.value, "\n".join(leaf.value))]
        known = [one for one in found if one is not None]
        return max(known, default=None) if len(known) == len(found) else None
    text = leaf.value if isinstance(leaf.value, str) else unwrap(leaf.value)
    if text is None:  # a word that needs quoting is another one wherever the list is put together
        text = " ".join(leaf.value) if plain_words(leaf.value) is not None else None
    return None if text is None else reach_of(text, base)


def _is_look(effects: CallEffects, folder: str | None = None) -> bool:
    """Whether a file tool only reads, lists or searches below where the agent works, or below a
    folder."""
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
    """Return whether an argument, such as `name`, is a path in some file tools only."""
    return plain_name(leaf.name) in PATHS_OF_FILE_TOOLS


def _is_seen(effects: CallEffects, leaf: Leaf, folder: str | None, beside: frozenset[Role]) -> bool:
    """Whether a value is a place to look at below the folder, or says how to look."""
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
    """Return a pattern of paths without the parts that say nothing of the name."""
    parts = pattern.split("/")
    return "/".join(part for part in parts if part.strip("*"))
