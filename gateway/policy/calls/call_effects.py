"""Compute what a call affects. Deciders, grants, guardrails and cards all use this model.

    touches = touch(Call(tool=…, kind=…, arguments=…, context=…, roles=…))

`touch` has no side effects and never raises, whatever the arguments are. A value that it does not
understand gets the role `unknown`, may not vary, and is listed in `uncertainties`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gateway.domain.records import StoredRequest
from gateway.domain.risk import is_named
from gateway.errors import InvalidRequest
from gateway.policy.calls.argument_roles import (
    COMMANDS,
    NAMES_OF_COMMANDS,
    PATHS,
    Family,
    RoleSource,
    SiblingContext,
    bare_name,
    family_of,
    is_foreign_shell,
    looks_like,
    names_of,
    plain_name,
    role_of_name,
    rows_of_any_name,
)
from gateway.policy.calls.call_arguments import (
    MAX_LEAVES,
    MAX_TEXT,
    Call,
    Declaration,
    InnerCall,
    Leaf,
    ReadingLimits,
    Traversal,
    Uncertainty,
    UncertaintyKind,
    calls_of,
    walk,
)
from gateway.policy.calls.code_effects import files_of_patch, named_in_patches
from gateway.policy.calls.known_commands import (
    Program,
    is_list_of_texts,
    paths_of_program,
    read_argv,
    read_each,
    read_text,
)
from gateway.policy.calls.paths import (
    EFFECTS,
    MOST_URLS,
    PathEffect,
    PathUse,
    UrlUse,
    below,
    find_urls,
    use_path,
    use_url,
)
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.roles import Role

__all__ = [
    "Ambiguity",
    "Call",
    "CallEffects",
    "Declaration",
    "Leaf",
    "PathEffect",
    "PathUse",
    "Program",
    "Reading",
    "Uncertainty",
    "UncertaintyKind",
    "UrlUse",
    "calls_of",
    "effects_of",
    "touch",
]  # fmt: skip

_KEPT = "_touches"

MAX_NESTED = 4
_MOST_JOINED = 8
_INTERPRETERS = frozenset({"shell", "shellpath", "shelltype", "interpreter", "executable"})
_POSIX_SHELLS = frozenset(
    f"{folder}{name}"
    for folder in ("", "/bin/", "/usr/bin/")
    for name in ("ash", "bash", "dash", "sh", "zsh")
)
_NOT_GIVEN = (None, False, "", "false", "False", "use_default", "default", 0)
_DELETING = frozenset({"delete", "del", "remove", "unlink", "rm", "rmdir", "erase", "trash"})
_UNCLEAR = frozenset({"chmod", "chown", "hardlink", "link", "move", "mv", "rename", "symlink"})
_LOOKED_AT = frozenset({Role.ACTION, Role.INPUT, Role.UNKNOWN, Role.NESTED})
_GUESSED = (RoleSource.NAME, RoleSource.LOOK, RoleSource.NOBODY)
_MAYBE_COMMANDS = (Role.ACTION, Role.UNKNOWN, Role.NESTED)
_UNREAD = frozenset({Role.DATA}) | COMMANDS
_WORDS_BESIDE = frozenset(
    {"args", "arglist", "argument", "arguments", "argv", "commandargs", "parameters", "params",
     "programargs"}
)  # fmt: skip
_PROGRAMS = NAMES_OF_COMMANDS | {
    "bin", "binary", "exe", "exec", "executable", "executablepath", "program", "programpath",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One interpretation of a value: the programs it runs, the paths it names, the calls it
    makes."""

    programs: tuple[Program, ...] = ()
    paths: tuple[PathUse, ...] = ()
    nested: tuple[CallEffects, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguity:
    """A value that can be read in several ways. An approval must cover each of them."""

    place: str
    ways: tuple[Reading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEffects:
    """The effects of one call.

    `programs`, `paths` and `nested` are certain; `readings` lists other meanings that values may
    have. `base` is the folder in which the call runs, or None if unknown. `base_source` is
    "context", the place of the argument that names the folder, or "" if unclear. `names` lists all
    names by which a denial may identify the tool. `harmless` comes from the operator, a trusted
    author or a fitting table row. `fingerprint` changes if a declaration or table row changes that
    a role comes from.
    """

    call: Call
    leaves: tuple[Leaf, ...]
    base: str | None
    base_source: str
    programs: tuple[Program, ...]
    paths: tuple[PathUse, ...]
    urls: tuple[UrlUse, ...]
    nested: tuple[CallEffects, ...]
    readings: tuple[Ambiguity, ...]
    uncertainties: tuple[Uncertainty, ...]
    family: Family
    foreign_shell: bool
    names: tuple[str, ...]
    harmless: bool
    fingerprint: str

    def with_role(self, *roles: Role) -> tuple[Leaf, ...]:
        """Return the values with one of these roles."""
        return tuple(leaf for leaf in self.leaves if leaf.role in roles)

    @property
    def environment(self) -> tuple[Leaf, ...]:
        """The values that change environment variables; an empty object changes none."""
        return tuple(one for one in self.with_role(Role.ENVIRONMENT) if one.value not in ({}, None))

    @property
    def rights(self) -> tuple[Leaf, ...]:
        """The values that request more rights. In an object, any value does."""
        found = self.with_role(Role.RIGHTS)
        return tuple(one for one in found if one.address != one.name or one.value not in _NOT_GIVEN)

    @property
    def users(self) -> tuple[Leaf, ...]:
        """The values that name the user that the call runs as."""
        return tuple(one for one in self.with_role(Role.USER) if one.value is not None)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that the call contacts or runs on, by its context, arguments and URLs."""
        said = [one.value for one in self.with_role(Role.HOST) if isinstance(one.value, str)]
        named = [one.host for one in self.urls if one.host]
        context = [self.call.context.host] if self.call.context.host else []
        return tuple(dict.fromkeys([*context, *said, *named]))

    def everything(self) -> Iterator[CallEffects]:
        """Yield this call and each call that it contains, under every reading, outermost first."""
        yield self
        ways = (way for one in self.readings for way in one.ways)
        for inner in (*self.nested, *(call for way in ways for call in way.nested)):
            yield from inner.everything()

    def all_programs(self) -> Iterator[Program]:
        """Yield each program of this call and of all calls that it contains, under every
        reading."""
        for one in self.everything():
            yield from one.programs
            yield from (found for each in one.readings for way in each.ways
                        for found in way.programs)  # fmt: skip

    def all_paths(self) -> Iterator[PathUse]:
        """Yield each path of this call and of all calls that it contains, under every reading."""
        for one in self.everything():
            yield from one.paths
            yield from (found for each in one.readings for way in each.ways
                        for found in way.paths)  # fmt: skip

    def texts_to_look_through(self) -> Iterator[tuple[str, str]]:
        """Yield the place and the text of each value that runs, is typed, is passed to an inner
        call, or is unknown.

        Data and remarks about the call are skipped.
        """
        for leaf in self.leaves:
            guessed = leaf.source in _GUESSED and not leaf.free
            if guessed or leaf.role in _LOOKED_AT or leaf.role in COMMANDS:
                yield from ((leaf.place, text) for text in texts_of(leaf.value))


def texts_of(value: Any) -> Iterator[str]:
    """Yield each string and key in a value. A list of strings is also yielded as one string.

    It does not recurse, so that deeply nested values cannot exhaust the stack.
    """
    if is_list_of_texts(value):
        yield " ".join(value)
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            left += one


def touch(call: Call) -> CallEffects:
    """Return what a call affects. It never raises, whatever the arguments are."""
    return _touch(call, ReadingLimits(), 0)


def _touch(call: Call, budget: ReadingLimits, depth: int) -> CallEffects:
    return _Toucher(call, walk(call, budget), budget, depth).run()


class _Toucher:
    def __init__(self, call: Call, walked: Traversal, budget: ReadingLimits, depth: int) -> None:
        self._call = call
        self._walked = walked
        self._budget = budget
        self._depth = depth
        self._uncertainties = walked.uncertainties
        self._programs: list[Program] = []
        self._paths: list[PathUse] = []
        self._urls: list[UrlUse] = []
        self._nested: list[CallEffects] = []
        self._readings: list[Ambiguity] = []
        self._base, self._base_source = self._find_base()

    def run(self) -> CallEffects:
        for leaf in self._walked.leaves:
            self._read(leaf)
        for name, place in self._walked.keys:
            self._paths.append(use_path(name, PathEffect.UNKNOWN, self._base, place))
        self._join_paths()
        self._join_words()
        for inner in self._walked.inner:
            self._enter(inner)
        for program in self._programs:
            self._paths += paths_of_program(program)
        rows = self._walked.rows
        call = self._call
        return CallEffects(
            call=call,
            leaves=tuple(self._walked.leaves),
            base=self._base,
            base_source=self._base_source,
            programs=tuple(self._programs),
            paths=tuple(self._paths),
            urls=tuple(self._urls),
            nested=tuple(self._nested),
            readings=tuple(self._readings),
            uncertainties=tuple(dict.fromkeys(self._uncertainties)),
            family=family_of(bare_name(call.tool)),
            foreign_shell=is_foreign_shell(call.tool)
            or any(map(_names_foreign_shell, self._walked.leaves)),
            names=names_of(call.tool, call.server),
            harmless=any(one.harmless and _counts(one) for one in call.roles)
            or any(row.harmless for row in rows),
            fingerprint=_fingerprint(call),
        )

    # ------------------------------------------------------------ base

    def _find_base(self) -> tuple[str | None, str]:
        cwd = self._call.context.cwd
        said = [one for one in self._walked.leaves if one.role is Role.WORKING_FOLDER]
        if any(one.kind is UncertaintyKind.BASE for one in self._uncertainties):
            return None, ""
        if said[1:]:
            for one in said:
                self._unclear(UncertaintyKind.BASE, one, "two arguments name its folder")
            return None, ""
        if not said or said[0].value is None:
            return cwd, "context"
        leaf = said[0]
        parts = use_path(str(leaf.value), PathEffect.LIST, cwd, leaf.place).parts
        if parts is None:
            self._unclear(UncertaintyKind.BASE, leaf, "the folder where it runs is unclear")
            return None, leaf.place
        return "/" + "/".join(parts), leaf.place

    # ------------------------------------------------------------ values

    def _read(self, leaf: Leaf) -> None:
        role, value = leaf.role, leaf.value
        if not leaf.read or (role is Role.NESTED and self._is_handed_on(leaf)):
            return
        if role in COMMANDS or _may_be_command(leaf):
            self._read_command(leaf)
        elif role in PATHS and isinstance(value, str):
            self._read_path(leaf, value)
        elif role is Role.PATCH and isinstance(value, str):
            self._read_patch(leaf, value)
        elif role is Role.URL and isinstance(value, str):
            self._read_url(leaf, value)
        elif role not in (Role.DATA, Role.WORKING_FOLDER) and isinstance(value, str):
            self._look_at(leaf, value)
        if isinstance(value, str) and role not in _UNREAD and value.lstrip()[:1] in ("{", "["):
            self._read_json(leaf, value)

    def _is_handed_on(self, leaf: Leaf) -> bool:
        """Return whether a value is an argument of a call that this call contains."""
        return any(
            leaf.place == one.place or leaf.place.startswith((f"{one.place}.", f"{one.place}["))
            for one in self._walked.inner
        )

    def _read_command(self, leaf: Leaf) -> None:
        value, base, place = leaf.value, self._base, leaf.place
        proven = leaf.role in COMMANDS
        if isinstance(value, str):
            program = read_text(value, base, place, proven=proven)
            if leaf.role is Role.ARGV:
                program = Program(text=value, words=None, reading=None, base=base, place=place)
                self._unclear(UncertaintyKind.COMMAND, leaf, "it is not a list of words")
            self._add_program(program, certain=proven or self._call.kind.value == "command")
            return
        if not is_list_of_texts(value):
            return
        if leaf.role is Role.COMMANDS:
            self._programs += read_each(value, base, place)
            return
        whole = read_argv(value, base, place)
        if leaf.role is Role.ARGV or (proven and whole.wrapper):
            self._programs.append(whole)
            return
        ways = (Reading(programs=(whole,)), Reading(programs=read_each(value, base, place)))
        self._add_ways(place, ways)
        self._unclear(UncertaintyKind.COMMAND, leaf, "its list could be one command or several")

    def _add_program(self, program: Program, *, certain: bool) -> None:
        if certain:
            self._programs.append(program)
            return
        opaque = Program(text=program.text, words=None, reading=None, base=program.base,
                         place=program.place, proven=False)  # fmt: skip
        self._add_ways(program.place, (Reading(programs=(program,)), Reading(programs=(opaque,))))

    def _add_ways(self, place: str, ways: tuple[Reading, ...]) -> None:
        full = tuple(
            Reading(
                programs=way.programs,
                paths=(*way.paths, *(p for one in way.programs for p in paths_of_program(one))),
                nested=way.nested,
            )
            for way in ways
        )
        self._readings.append(Ambiguity(place=place, ways=full))

    def _read_path(self, leaf: Leaf, text: str) -> None:
        effect = self._effect(leaf)
        second = leaf.role is Role.DESTINATION
        found = use_path(text, effect, self._base, leaf.place, second=second)
        self._paths.append(found)
        # Without a base, a relative path must still stay below the folder where it starts.
        known = found.parts is not None or (self._base is None and below(text))
        if not known:
            self._unclear(UncertaintyKind.PATH, leaf, "programs may read this path differently")

    def _effect(self, leaf: Leaf) -> PathEffect:
        effect = EFFECTS[leaf.role]
        verbs = self._walked.verbs
        said = verbs.get(leaf.owner) or verbs.get("", frozenset())
        if said & _DELETING:
            return PathEffect.DELETE
        return PathEffect.UNKNOWN if said & _UNCLEAR else effect

    def _read_patch(self, leaf: Leaf, text: str) -> None:
        named = files_of_patch(text)
        if named is None:
            self._unclear(UncertaintyKind.PATCH, leaf, "the patch is not fully understood")
            named, effect = named_in_patches(text), PathEffect.UNKNOWN
        else:
            effect = PathEffect.WRITE
        named = self._take(leaf, named)
        self._paths += [use_path(one, effect, self._base, leaf.place) for one in named]

    def _read_url(self, leaf: Leaf, text: str) -> None:
        if text[:5].lower() == "file:":
            self._read_path_of_url(leaf, text)
            return
        found = use_url(text, leaf.place)
        self._urls.append(found)
        if found.uncertainty is not None:
            self._unclear(UncertaintyKind.URL, leaf, found.uncertainty)

    def _read_path_of_url(self, leaf: Leaf, text: str) -> None:
        found = use_path(text, PathEffect.UNKNOWN, self._base, leaf.place)
        self._paths.append(found)
        if found.parts is None:
            self._unclear(UncertaintyKind.URL, leaf, "programs may read this path differently")

    def _look_at(self, leaf: Leaf, text: str) -> None:
        """Record the path, patch or URLs that a string looks like, even if it may be something
        else."""
        look = looks_like(text)
        if look is Role.PATH:
            self._paths.append(
                use_path(text, PathEffect.UNKNOWN, self._base, leaf.place, looks=True)
            )
        elif look is Role.PATCH:
            self._paths += [
                use_path(one, PathEffect.UNKNOWN, self._base, leaf.place, looks=True)
                for one in self._take(leaf, named_in_patches(text))
            ]
        if "://" in text:
            found = tuple(find_urls(text, leaf.place))
            self._urls += found[:MOST_URLS]
            if found[MOST_URLS:]:
                self._unclear(UncertaintyKind.LIMIT, leaf, "it names too many addresses")

    def _take(self, leaf: Leaf, named: tuple[str, ...]) -> tuple[str, ...]:
        """Return the files that a string names. If there are too many, record that and drop the
        rest."""
        if named[MAX_LEAVES:]:
            self._unclear(UncertaintyKind.LIMIT, leaf, "it names too many files")
        return named[:MAX_LEAVES]

    def _read_json(self, leaf: Leaf, text: str) -> None:
        loaded = self._load(leaf.address, text)
        if isinstance(loaded, dict | list) and loaded and self._depth < MAX_NESTED:
            if leaf.role is Role.NESTED:  # a declaration says that it is a call
                arguments = loaded if isinstance(loaded, dict) else {"edits": loaded}
                self._nested.append(self._inside(self._call.tool, arguments, None))
                return
            inner = self._inside(self._call.tool, {leaf.name or "value": loaded}, None)
            self._readings.append(
                Ambiguity(place=leaf.place, ways=(Reading(), Reading(nested=(inner,))))
            )

    def _load(self, address: str, text: str) -> Any:
        """Parse a string as JSON. Return None if it is not JSON, or if parsers may disagree."""
        if len(text) > min(MAX_TEXT, max(self._budget.text, 0)):
            self._uncertainties.append(
                Uncertainty(UncertaintyKind.LIMIT, address, "it is too long to be read")
            )
            return None
        self._budget.text -= len(text)
        try:
            return json.loads(text, object_pairs_hook=_unique)
        except _TwiceError:
            words = "its JSON has a name twice"
            self._uncertainties.append(Uncertainty(UncertaintyKind.TWINS, address, words))
        except RecursionError:
            self._uncertainties.append(
                Uncertainty(UncertaintyKind.LIMIT, address, "it is too deep to be read")
            )
        except ValueError:
            pass  # a plain text
        return None

    # ------------------------------------------------------------ calls and paths together

    def _enter(self, inner: InnerCall) -> None:
        arguments = inner.arguments
        for _ in range(MAX_NESTED):
            if not isinstance(arguments, str):
                break
            arguments = self._load(inner.place, arguments)
        if not isinstance(arguments, dict):
            words = "the call within it is not understood"
            self._uncertainties.append(Uncertainty(UncertaintyKind.NESTED, inner.place, words))
            arguments = {}
        if self._depth >= MAX_NESTED:
            words = "its inner calls are too deep to be read"
            self._uncertainties.append(Uncertainty(UncertaintyKind.LIMIT, inner.place, words))
            return
        self._nested.append(self._inside(inner.tool, arguments, inner.server))

    def _inside(self, tool: str, arguments: dict[str, Any], server: str | None) -> CallEffects:
        call = Call(
            tool=tool,
            kind=self._call.kind,
            arguments=arguments,
            context=self._call.context,
            payload=self._call.payload,
            server=server,
        )
        found = _touch(call, self._budget, self._depth + 1)
        limits = (one for one in found.uncertainties if one.kind is UncertaintyKind.LIMIT)
        self._uncertainties += limits
        return found

    def _join_paths(self) -> None:
        """Add the reading in which a folder and a separate name form one path."""
        by_owner: dict[str, list[Leaf]] = {}
        for leaf in self._walked.leaves:
            if leaf.role in PATHS and isinstance(leaf.value, str) and leaf.value:
                by_owner.setdefault(leaf.owner, []).append(leaf)
        for leaves in by_owner.values():
            some = leaves[:_MOST_JOINED]
            addresses = {leaf.address for leaf in leaves}
            if leaves[_MOST_JOINED:] and len(addresses) > 1:
                self._unclear(
                    UncertaintyKind.LIMIT, leaves[_MOST_JOINED], "more paths than are joined"
                )
            joined = tuple(
                use_path(f"{one.value.rstrip('/')}/{two.value}", self._effect(two), self._base,
                         two.place)
                for one in some
                for two in some
                if one is not two and one.address != two.address
                and not two.value.startswith("/")
            )  # fmt: skip
            if joined:
                ways = (Reading(), Reading(paths=joined))
                self._readings.append(Ambiguity(place=some[0].place, ways=ways))

    def _join_words(self) -> None:
        """Add the reading in which a program and its separate arguments form one command. In a tool
        that runs commands, this reading is certain."""
        words: dict[str, list[Leaf]] = {}
        for leaf in self._walked.leaves:
            if plain_name(leaf.name) in _WORDS_BESIDE and leaf.value not in ("", []):
                words.setdefault(leaf.owner, []).append(leaf)
        for leaf in self._walked.leaves if words else ():
            beside = [one for one in words.get(leaf.owner, ()) if one is not leaf]
            if not beside or not _may_be_program(leaf):
                continue
            first = leaf.value if isinstance(leaf.value, list) else [leaf.value]
            texts = [text for one in beside for text in
                     (one.value if isinstance(one.value, list) else [one.value])]  # fmt: skip
            if not is_list_of_texts([*first, *texts]):
                continue
            whole = read_argv([*first, *texts], self._base, leaf.place)
            if any(isinstance(one.value, str) and not one.address.endswith("[]") for one in beside):
                whole = read_text(" ".join([*first, *texts]), self._base, leaf.place)
            if self._runs_commands():
                self._programs.insert(0, whole)
            else:
                self._add_ways(leaf.place, (Reading(), Reading(programs=(whole,))))

    def _runs_commands(self) -> bool:
        return family_of(bare_name(self._call.tool)) is Family.SHELL or (
            self._call.kind.value == "command"
        )

    def _unclear(self, kind: UncertaintyKind, leaf: Leaf, words: str) -> None:
        self._uncertainties.append(Uncertainty(kind, leaf.address, words))


def _names_foreign_shell(leaf: Leaf) -> bool:
    """Return whether an argument names an interpreter other than a POSIX shell."""
    if plain_name(leaf.name) not in _INTERPRETERS or leaf.value in (None, ""):
        return False
    return not isinstance(leaf.value, str) or leaf.value not in _POSIX_SHELLS


class _TwiceError(ValueError):
    """A JSON object has the same name twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _TwiceError
    return found


def _may_be_command(leaf: Leaf) -> bool:
    """Return whether a value's name means a command, in a tool that may not be a shell."""
    if leaf.role not in _MAYBE_COMMANDS:
        return False
    return plain_name(leaf.name) in NAMES_OF_COMMANDS


def _may_be_program(leaf: Leaf) -> bool:
    """Return whether a value may be a program whose arguments are in another value."""
    held = leaf.role in COMMANDS or leaf.role in (*_MAYBE_COMMANDS, Role.PATH)
    return held and plain_name(leaf.name) in _PROGRAMS


def _counts(declaration: Declaration) -> bool:
    return declaration.by is RoleSource.OPERATOR or declaration.trusted


def _fingerprint(call: Call) -> str:
    rows = rows_of_any_name(call.tool)
    parts = [*(one.fingerprint for one in call.roles), *(row.fingerprint for row in rows)]
    return sha256_hex("\n".join(parts).encode())[:32] if parts else ""


def effects_of(record: StoredRequest) -> tuple[CallEffects, ...]:
    """Return the effects of each part of a record: its arguments, then any payload.

    The result is cached on the record, because deciders, offers and cards all need it. A copy of
    the record computes it again if its request, arguments or declarations are different objects.
    """
    rests_on = (record.request, record.arguments, record.declared, record.harmless, record.trusted)
    known, found = record.__dict__.get(_KEPT, ((), ()))
    if known and all(one is two for one, two in zip(known, rests_on, strict=True)):
        return found  # type: ignore[no-any-return]
    found = tuple(touch(call) for call in calls_of(record))
    record.__dict__[_KEPT] = rests_on, found
    return found


# Values of a call by argument name, and their comparison with patterns.

_NOTHING_BESIDE = SiblingContext(family=Family.FILE)


def values_named(effects: CallEffects, name: str) -> Iterator[Any]:
    """Yield the values whose argument has this name, in any spelling, or whose address it is."""
    wanted = plain_name(name)
    for argument, value in effects.call.arguments.items():
        if plain_name(argument) == wanted:
            yield value
    for leaf in effects.leaves:
        if leaf.address == name and leaf.owner:
            yield leaf.value


def names_path(name: str) -> bool:
    """Return whether an argument's name means a path, whatever its value is."""
    return role_of_name(name, "", _NOTHING_BESIDE) in PATHS


def is_same(wanted: Any, value: Any) -> bool:
    """Return whether two values are the same JSON."""
    try:
        return canonical(wanted) == canonical(value)
    except InvalidRequest:
        return False


def fits_text(wanted: str, value: Any) -> bool:
    """Return whether a string, number or boolean matches a pattern with `*`."""
    if isinstance(value, str):
        return is_named((wanted,), value)
    plain = isinstance(value, bool | int | float)
    return plain and is_named((wanted,), canonical(value).decode())
