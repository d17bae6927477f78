"""Split a command line into parts that can each be approved like a call. Start reading at `split`.

A line can run without approval if each of its parts could, and if together they do no more than
each alone. Parts that only print, change the folder or filter piped input need no approval. A line
that `policy.calls.command_lines` cannot read is never split.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from gateway.domain.records import StoredRequest
from gateway.models import Kind, digest_of
from gateway.policy.calls.argument_roles import COMMANDS, is_of_server, words_of
from gateway.policy.calls.call_effects import CallEffects, Leaf, effects_of
from gateway.policy.calls.command_lines import read_line, spell
from gateway.policy.calls.known_commands import paths_of, read
from gateway.policy.calls.known_steps import (
    Extent,
    is_clear_pattern,
    is_idle,
    may_put_files,
    may_run,
    names_delicate_place,
    reach_of_step,
)
from gateway.policy.calls.paths import components, delicate, is_executed, within
from gateway.policy.calls.script import Certainty, ShellScript, Step
from gateway.policy.calls.shell_words import WRAPPER, Word, unwrap
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import Answer, Grant, Match, MatchResult, RuleKind, Shape
from gateway.policy.grants.variations import command_leaf, legible, why_fixed
from gateway.wire.roles import Role

_KEPT = "parts of a line"
_STEERING = re.compile(r"\.git\b|config", re.IGNORECASE)
_LINE_ENDS = re.compile(r"\s*\n\s*")
_BY_PATHS = frozenset({"black", "isort", "mkdir", "ruff check", "ruff format"})
# Words that change the shell itself or make it run something else: never a call by themselves.
_OF_SHELL = frozenset(
    {"-", ".", "..", "alias", "and", "autoload", "begin", "bind", "break", "builtin", "chdir",
     "command", "continue", "coproc", "declare", "disable", "emulate", "enable", "end", "eval",
     "exec", "exit", "export", "fc", "functions", "getopts", "hash", "let", "local", "logout",
     "mapfile", "nocorrect", "noglob", "not", "or", "popd", "pushd", "read", "readarray",
     "readonly", "repeat", "return", "set", "setopt", "shift", "shopt", "source", "suspend",
     "trap", "typeset", "ulimit", "umask", "unalias", "unfunction", "unset", "unsetopt", "vared",
     "zle", "zmodload"}
)  # fmt: skip


class Part(NamedTuple):
    """A command that needs an approval, or a file that the shell writes. Both are empty if the part
    is not understood.

    Each of `ways` expresses the command as calls, one for each folder in which it may run. The part
    is covered if one of the ways is covered.
    """

    text: str
    ways: tuple[tuple[StoredRequest, ...], ...] = ()
    written: str = ""


def split(record: StoredRequest) -> tuple[Part, ...]:
    """Return the parts of a command line. The result is empty if the line is not read completely,
    may do more than its parts, or only people may decide it."""
    if record.for_people:
        return ()
    effects = effects_of(record)
    known, found = record.__dict__.get(_KEPT, ((), ()))
    if known is not effects:  # cached, because deciders, offers and cards all need it
        found = _split(record)
        record.__dict__[_KEPT] = effects, found
    return found  # type: ignore[no-any-return]


def _split(record: StoredRequest) -> tuple[Part, ...]:
    effects = _readable(record)
    leaf = command_leaf(effects) if effects is not None else None
    text = _text_of(leaf)
    if effects is None or leaf is None or text is None or effects.programs[0].reading is not None:
        return ()  # it is a single command
    steps = tuple(map(_without_tee, read_line(text)))
    if not _only_looks_at_input(steps, effects.base):
        return ()
    unsafe = _find_putting(steps, effects.base)
    parts: list[Part] = []
    for at, step in enumerate(steps):
        found = [*_parts(step, record, effects, leaf), *_writing(step, effects.base)]
        parts += [Part(text=one.text) for one in found] if at in unsafe else found
    calls = [one for part in parts for way in part.ways for one in way]
    if not calls or [one.digest for one in calls] == [record.digest]:
        return ()  # it runs nothing, or nothing but one command
    return tuple(parts)


def _without_tee(step: Step) -> Step:
    """Return a step `tee FILE` as `cat`, with the files that it writes."""
    files = tuple(one for one in step.words[1:] if one != "-a")
    plain = all(one is Certainty.PLAIN for one in step.marks) and not step.wrapping
    if step.words[0] != "tee" or not (plain and files) or any(one[:1] == "-" for one in files):
        return step
    return replace(step, words=("cat",), marks=step.marks[:1], writes=(*step.writes, *files))


def _only_looks_at_input(steps: tuple[Step, ...], base: str | None) -> bool:
    """Return whether no step names a delicate place, and each step with piped input only looks."""
    script = ShellScript(steps, whole=True)
    for at, step in enumerate(steps):
        fed = bool(step.fed_by) and not is_idle(step, base)
        if names_delicate_place(script, at, base):
            return False
        if fed and reach_of_step(step, base) is not Extent.LOOK:
            return False
    return True


def _find_putting(steps: tuple[Step, ...], base: str | None) -> frozenset[int]:
    """Return the steps that write files which a different step may run, or from which it may read
    settings.

    A step whose own output goes to a file, directly or through `tee`, does not count as a different
    step."""
    putting = [at for at, one in enumerate(steps) if one.writes or not is_idle(one, base)]
    putting = [at for at in putting if may_put_files(steps[at], base)]
    running = [at for at, one in enumerate(steps) if not is_idle(one, base) and may_run(one, base)]
    return frozenset(
        one
        for one in putting
        if (_steers(steps[one]) and len(steps) > 1)
        or any(one != two and not _passes_on(steps[one], two) for two in running)
    )


def _passes_on(step: Step, at: int) -> bool:
    return step.words == ("cat",) and at in step.fed_by


def _steers(step: Step) -> bool:
    """Return whether a step may change the settings of programs."""
    return any(map(_STEERING.search, (*step.words, *step.writes)))


def part_is_covered(grant: Grant, part: Part) -> bool:
    """Return whether a grant covers a part of a line, in each folder in which the part may run."""
    if part.written:
        return _may_write(grant.match, part.written)
    return any(way_is_covered(grant, one) for one in part.ways)


def way_is_covered(grant: Grant, way: tuple[StoredRequest, ...]) -> bool:
    """Return whether a grant covers a command in each folder in which it may run."""
    exact = grant.match.shape is Shape.EXACT  # it promises that any change requires approval
    return not exact and all(covers(grant, one) is MatchResult.YES for one in way)


def _may_write(match: Match, path: str) -> bool:
    """Return whether a grant for file changes lets the shell write a file. The file must be in the
    grant's folder, may not be delicate, and may not run later."""
    folders = [str(rule.value) for rule in match.rules if rule.kind is RuleKind.FOLDER]
    changes = match.answer is Answer.FOLDER and writes_whole_files(match.tool, match.kind)
    free = all(rule.kind in (RuleKind.FOLDER, RuleKind.ANY) for rule in match.rules)
    named = changes and free and any(within(path, folder) for folder in folders)
    return named and delicate(path) is None and not is_executed(path)


def writes_whole_files(tool: str, kind: Kind) -> bool:
    """Return whether a tool replaces whole files, as a shell does. Tools that edit, append or make
    folders do not count."""
    words = words_of(tool)
    return kind is Kind.FILE_CHANGE and "write" in words and not words & {"append", "insert"}


def _readable(record: StoredRequest) -> CallEffects | None:
    """Return the effects of a call if it is one command line and a grant may cover it, else
    None."""
    request = record.request
    if request.kind not in (Kind.COMMAND, Kind.TOOL) or request.questions:
        return None
    found = effects_of(record)
    if len(found) != 1 or why_fixed(Answer.COMMAND, record, found[0]) is not None:
        return None
    if not legible([request.tool, record.arguments]):
        return None
    programs, base = found[0].programs, found[0].base
    if base is None or not base.startswith("/") or is_of_server(request.tool):
        return None  # it may be for another system's shell, or another machine
    return found[0] if programs and all(one.proven for one in programs) else None


def _text_of(leaf: Leaf | None) -> str | None:
    if leaf is None or leaf.place != leaf.name or leaf.role not in COMMANDS:
        return None
    text = unwrap(leaf.value) if isinstance(leaf.value, list) else leaf.value
    return text if isinstance(text, str) else None


def _parts(step: Step, record: StoredRequest, effects: CallEffects, leaf: Leaf) -> Iterator[Part]:
    """Yield a step as a part, with the calls that are equivalent to it."""
    if is_idle(step, effects.base):
        return
    words, folders = _without_folder(step)
    text = _spell(step, words) if words[0] not in _OF_SHELL else None
    if text is None or folders is None:
        yield Part(text=step.text)
        return
    places = [_at(effects.base, folder) for folder in folders]
    if any(one is None and folder for one, folder in zip(places, folders, strict=True)):
        yield Part(text=step.text)
        return
    ways = [[_as_call(record, effects, leaf, text, place) for place in places]]
    if (spelled := [_spell_from_base(step, words, one) for one in folders]) and all(spelled):
        ways.append([_as_call(record, effects, leaf, one, effects.base) for one in spelled if one])
    known = (tuple(one for one in way if one is not None) for way in ways)
    yield Part(text=text, ways=tuple(way for way in known if len(way) == len(places)))


def _without_folder(step: Step) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return a step's words without `git -C FOLDER`, and the folders in which it then runs."""
    words, folders = step.words, step.folders
    if words[0] == "git" and words[1:2] == ("--no-pager",):
        words = (words[0], *words[2:])
    if words[0] == "git" and words[1:2] == ("-C",) and len(words) > 3:  # noqa: PLR2004
        moved = words[2][:1] not in ("-", "~") and ".." not in words[2] and folders is not None
        folders = tuple(posixpath.join(one, words[2]) for one in folders or ()) if moved else None
        words = (words[0], *words[3:])
    return words, folders


def _spell(step: Step, words: tuple[str, ...]) -> str | None:
    """Return a step as one plain command, or None if it has no such form. Wildcards may match only
    files. Line ends in a commit message become blanks, because a grant permits any message."""
    if Certainty.GLOB in step.marks:
        reading = read(tuple(Word(one, one) for one in words))
        files = paths_of(reading) if reading is not None else ()
        globs = [one for one, mark in zip(step.words, step.marks, strict=True)
                 if mark is Certainty.GLOB]  # fmt: skip
        if not all(is_clear_pattern(one) and (one in files or one[:2] == "--") for one in globs):
            return None
    if words[:2] == ("git", "commit"):
        words = tuple(_LINE_ENDS.sub(" ", one) for one in words)
    return spell(words)


def _at(base: str | None, folder: str) -> str | None:
    """Return the folder in which a step runs; None if unknown."""
    if base is None:
        return None
    place = posixpath.normpath(posixpath.join(base, folder))
    return place if components(place) is not None else None


def _spell_from_base(step: Step, words: tuple[str, ...], folder: str) -> str | None:
    """Return a command on paths as it would be written in the line's own folder, or None.

    For example, `ruff check .` in `app` becomes `ruff check app`."""
    reading = read(tuple(Word(one, one) for one in words)) if folder else None
    if reading is None or " ".join((reading.known.program, *reading.known.verbs)) not in _BY_PATHS:
        return None
    paths = paths_of(reading)
    own = all(one[:1] not in ("/", "~", "-") and ".." not in one.split("/")
              and words.count(one) == 1 for one in paths)  # fmt: skip
    if not paths or not own or folder[:1] in ("/", "~", "$"):
        return None
    moved = {one: posixpath.normpath(posixpath.join(folder, one)) for one in paths}
    return spell(tuple(moved.get(one, one) for one in words))


def _as_call(
    record: StoredRequest, effects: CallEffects, leaf: Leaf, text: str, folder: str | None
) -> StoredRequest | None:
    """Return a step as a separate call, or None if a call cannot name its folder."""
    request, context = record.request, record.request.context
    value = [*WRAPPER, text] if isinstance(leaf.value, list) else text
    arguments = {**record.arguments, leaf.name: value}
    if folder != effects.base:
        if effects.base == context.cwd:
            context = replace(context, cwd=folder)
        for one in effects.with_role(Role.WORKING_FOLDER):
            if one.place == one.name and one.value == effects.base:
                arguments[one.name] = folder
    alone = replace(request, arguments=arguments, context=context)
    call = record.copy_with(request=alone, edited=None, digest=digest_of(alone))
    (read,) = effects_of(call)
    return call if read.base == folder else None


def _writing(step: Step, base: str | None) -> Iterator[Part]:
    """Yield the files that the shell writes for a step."""
    for path in step.writes:
        places = [_at(base, one) for one in step.places(path)]
        for place in places:
            known = place is not None and path[:1] != "~" and ".." not in path.split("/")
            yield Part(text=f"> {path}", written=place if known and place else "")
