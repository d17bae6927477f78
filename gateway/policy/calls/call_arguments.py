"""Find every value of a call, and give each exactly one role. Start reading at `walk`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, NamedTuple

from gateway.domain.records import StoredRequest
from gateway.models import Context, Kind
from gateway.policy.calls.argument_roles import (
    COMMANDS,
    FREE,
    HELD,
    LONGEST_NAME,
    NAMES_OF_COMMANDS,
    PATHS,
    VARYING,
    Family,
    JsonType,
    KnownTool,
    RoleSource,
    SiblingContext,
    bare_name,
    family_of,
    find_known_tools,
    fits_role,
    looks_like,
    narrowing_roles,
    plain_name,
    role_of_name,
    type_of,
    verbs_of_file_tool,
    words_in,
)
from gateway.policy.calls.known_commands import is_list_of_texts
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.codec import JsonObject
from gateway.wire.roles import Role

# A call as it would run, and the declarations about it.


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """Declared roles by address or name, and whether the tool is declared harmless.

    A tool author's declaration can only restrict, unless it is `trusted`. An operator's declaration
    always counts.
    """

    by: RoleSource
    roles: Mapping[str, Role] = field(default_factory=dict)
    harmless: bool = False
    trusted: bool = False

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the declaration."""
        said = {"by": self.by, "roles": dict(self.roles), "harmless": self.harmless,
                "trusted": self.trusted}  # fmt: skip
        return sha256_hex(json.dumps(said, sort_keys=True).encode())[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call as it would run. `roles` lists the declarations that apply to it, in any order.

    No declaration or table row applies to a `payload`: its roles come only from the names and forms
    of its values. `server` is the MCP server that an inner call names.
    """

    tool: str
    kind: Kind
    arguments: JsonObject
    context: Context = field(default_factory=Context)
    roles: tuple[Declaration, ...] = ()
    payload: bool = False
    server: str | None = None


def calls_of(record: StoredRequest) -> tuple[Call, ...]:
    """Return the calls of a record: one for the arguments, and one for a payload."""
    request, roles = record.request, declarations_of(record)
    return tuple(
        Call(
            tool=request.tool,
            kind=request.kind,
            arguments=part,
            context=request.context,
            roles=() if at else roles,
            payload=bool(at),
        )
        for at, part in enumerate(record.parts)
    )


def declarations_of(record: StoredRequest) -> tuple[Declaration, ...]:
    """Return the declarations that the operator and the tool's author made for a record's tool."""
    request = record.request
    operator = Declaration(
        by=RoleSource.OPERATOR, roles=_roles(record.declared), harmless=record.harmless
    )
    # The policy already decided whether an author may declare a whole tool: `record.harmless`.
    author = Declaration(by=RoleSource.AUTHOR, roles=_roles(request.roles), trusted=record.trusted)
    said = (operator, author)
    return tuple(one for one in said if one.roles or one.harmless)


def _roles(words: Mapping[str, str]) -> dict[str, Role]:
    """Convert strings to roles. A role of a newer version becomes `unknown`, which restricts."""
    return {name: _role(word) for name, word in words.items()}


def _role(word: str) -> Role:
    try:
        return Role(word)
    except ValueError:
        return Role.UNKNOWN


MAX_DEPTH = 16
MAX_LEAVES = 512
MAX_TEXT = 65_536
_PLAIN_KEY = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
# Names of objects that hold changes to several places; in the first two, keys may be paths.
BY_PATH = frozenset({"changes", "files"})
_HOLDING = BY_PATH | {"edits", "patches", "operation", "operations"}
_INHERITED = frozenset(Role) - FREE - VARYING - {Role.UNKNOWN, Role.URL, Role.GLOB, Role.PATCH,
                                                 Role.WORKING_FOLDER}  # fmt: skip
_TOOL_KEYS = ("toolname", "recipientname", "functionname", "tool", "function", "name")
_ARGUMENT_KEYS = ("arguments", "parameters", "toolinput", "toolarguments", "toolargs", "args",
                  "params", "kwargs", "input")  # fmt: skip
_NAMING_A_CALL = frozenset({"toolname", "recipientname"})
_SERVER_KEYS = ("servername", "mcpserver", "server")
_WHY = {
    RoleSource.OPERATOR: "the operator declared it",
    RoleSource.AUTHOR: "the tool's author declared it",
    RoleSource.TABLE: "the table of known tools says so",
    RoleSource.KIND: "in this kind of call, such values may not change freely",
    RoleSource.NAME: "its name says so",
    RoleSource.LOOK: "it looks like a path, an address or a patch",
    RoleSource.NOBODY: "it is not declared",
}


class UncertaintyKind(StrEnum):
    """The subject of an uncertainty."""

    BASE = "base"
    COMMAND = "command"
    CONTAINER = "container"
    LIMIT = "limit"
    NESTED = "nested"
    PATCH = "patch"
    PATH = "path"
    TWINS = "twins"
    URL = "url"


class Uncertainty(NamedTuple):
    """Why a call is not fully understood: what it is about, the address, and a sentence."""

    kind: UncertaintyKind
    address: str
    words: str


class Leaf(NamedTuple):
    """One value of a call, with its address, role and type, and where its role comes from.

    `address` is the same for all elements of a list (`edits[].new_string`), while `place` differs
    (`edits[0].new_string`). A list of words or commands is one leaf, and so is an empty list or
    object. A part of the call that exceeds a limit is also one leaf.
    """

    address: str
    place: str
    name: str
    role: Role
    type: JsonType
    value: Any
    source: RoleSource
    why: str
    owner: str  # the place of the object that contains it
    read: bool = True  # False beyond a limit, where nothing was checked

    @property
    def free(self) -> bool:
        """Whether the value may change without a rule."""
        return self.role in FREE

    @property
    def optional(self) -> bool:
        """Whether the value may also be added or left out."""
        return self.role in (Role.PART, Role.REMARK)


@dataclass(frozen=True, slots=True)
class InnerCall:
    """A call that another call contains, before it is read."""

    place: str
    tool: str
    server: str | None
    arguments: Any


@dataclass(slots=True)
class ReadingLimits:
    """How many more values, characters and inner calls of a call may be read."""

    leaves: int = MAX_LEAVES
    text: int = MAX_TEXT


@dataclass(slots=True)
class Traversal:
    """The values of a call, and everything else that was found while reading it."""

    leaves: list[Leaf] = field(default_factory=list)
    uncertainties: list[Uncertainty] = field(default_factory=list)
    inner: list[InnerCall] = field(default_factory=list)
    keys: list[tuple[str, str]] = field(default_factory=list)  # keys that may be paths; places
    verbs: dict[str, frozenset[str]] = field(default_factory=dict)  # by the place of an object
    rows: tuple[KnownTool, ...] = ()


class _Given(NamedTuple):
    role: Role
    source: RoleSource
    why: str
    address: str = ""


_NOBODY_SAYS = _Given(Role.UNKNOWN, RoleSource.NOBODY, _WHY[RoleSource.NOBODY])


class _Where(NamedTuple):
    address: str = ""
    place: str = ""
    known: bool = True  # False in an unknown object, where no value is free

    def of_key(self, key: str) -> _Where:
        address, place, known = self
        step, named = _steps_to(key)
        if not place:
            return _Where(named, named, known)
        return _Where(address + step, place + step, known)

    def of_index(self, at: int) -> _Where:
        address, place, known = self
        return _Where(address + "[]", f"{place}[{at}]", known)

    def as_unknown(self) -> _Where:
        return _Where(self.address, self.place, known=False)


@lru_cache(maxsize=4096)
def _steps_to(key: str) -> tuple[str, str]:
    """Return the step that adds a key to an address, and the start of an address that begins with
    the key."""
    if key and _PLAIN_KEY.issuperset(key):
        return f".{key}", key
    named = f"[{json.dumps(key)}]"
    return named, named


def walk(call: Call, budget: ReadingLimits) -> Traversal:
    """Return every value of a call with its role."""
    return _Walk(call, budget).run()


class _Walk:
    def __init__(self, call: Call, budget: ReadingLimits) -> None:
        self._call = call
        self._budget = budget
        self._found = Traversal()
        family = family_of(bare_name(call.tool))
        if call.kind is not Kind.TOOL and family is Family.MESSAGE:
            family = Family.OTHER
        if call.kind in (Kind.COMMAND, Kind.PLAN) and family is Family.FILE:
            family = Family.OTHER
        self._family = family
        self._operator = [one for one in call.roles if one.by is RoleSource.OPERATOR]
        self._author = [one for one in call.roles if one.by is not RoleSource.OPERATOR]
        self._narrow = narrowing_roles(call.tool)
        rows = () if call.payload else find_known_tools(call.tool)
        self._rows = rows
        self._found.rows = tuple(row for row in rows if row.fits(call.arguments))
        self._said_by_rows: dict[str, _Given | None] = {}  # by the address

    def run(self) -> Traversal:
        self._read_object(self._call.arguments, _Where(), None, 1)
        return self._found

    # ------------------------------------------------------------ structure

    def _read_object(
        self, members: Mapping[str, Any], at: _Where, held: _Given | None, depth: int
    ) -> None:
        if len(members) > self._budget.leaves or not all(map(_is_name, members)):
            self._cut("", members, at, at.place)
            return
        plain = {key: plain_name(key) for key in members}
        names = set(plain.values())
        joined = list(plain.values())
        twins = {one for one in names if joined.count(one) > 1} if len(names) < len(plain) else ()
        beside = self._look_around(names, plain, members, at)
        # Arguments for another tool are read as that call, not here.
        handed = held is not None and held.role is Role.NESTED
        calls = not handed and not names.isdisjoint(_TOOL_KEYS)
        inner = self._find_inner(plain, members, at) if calls else None
        if not names.isdisjoint(_VERB_KEYS):
            self._note_verb(plain, members, at)
        for key, value in members.items():
            where = at.of_key(key)
            if plain[key] in twins:
                given = _Given(Role.UNKNOWN, RoleSource.NOBODY, "its name appears in two spellings")
                self._unclear(
                    UncertaintyKind.TWINS, where, f"{key} appears twice, in two spellings"
                )
                if role_of_name(key, value, beside) is Role.WORKING_FOLDER:
                    self._unclear(UncertaintyKind.BASE, where, "two arguments name its folder")
                where = where.as_unknown()
            else:
                given = self._decide(key, value, where, beside, held)
                if key == inner and given.source not in (RoleSource.OPERATOR, RoleSource.TABLE):
                    given = _Given(Role.NESTED, RoleSource.NAME, "it is given to another tool")
            self._read_value(key, value, where, given, at.place, depth + 1)

    def _read_value(
        self, key: str, value: Any, where: _Where, given: _Given, owner: str, depth: int
    ) -> None:
        single = not isinstance(value, dict | list) or not value
        if single or (is_list_of_texts(value) and _is_command(key, given.role)):
            self._add(key, value, where, given, owner)
        elif depth > MAX_DEPTH:
            self._cut(key, value, where, owner)
        elif isinstance(value, dict):
            self._read_member_object(key, value, where, given, depth)
        elif len(value) > self._budget.leaves:
            self._cut(key, value, where, owner)
        else:
            self._read_list(key, value, where, given, owner, depth)

    def _read_list(
        self, key: str, value: list[Any], where: _Where, given: _Given, owner: str, depth: int
    ) -> None:
        if given.role is Role.WORKING_FOLDER:
            self._unclear(UncertaintyKind.BASE, where, "the folder where it runs is unclear")
        single = given.role in COMMANDS or given.role is Role.WORKING_FOLDER
        if single or (given.role is Role.DATA and not _is_whole(given)):
            given = _Given(Role.UNKNOWN, RoleSource.NOBODY, "its type does not fit")
            self._unclear(UncertaintyKind.CONTAINER, where, f"{key} is an unknown list")
        for at, part in enumerate(value):
            self._read_value(key, part, where.of_index(at), given, owner, depth + 1)

    def _read_member_object(
        self, key: str, value: dict[str, Any], where: _Where, given: _Given, depth: int
    ) -> None:
        declared = given.source in (RoleSource.OPERATOR, RoleSource.AUTHOR, RoleSource.TABLE)
        plain = plain_name(key)
        if plain in BY_PATH and all(isinstance(part, dict) for part in value.values()):
            names = [name for name in value if isinstance(name, str)]
            self._found.keys += [(name, where.of_key(name).place) for name in names[:MAX_LEAVES]]
            if names[MAX_LEAVES:]:
                self._unclear(UncertaintyKind.LIMIT, where, f"{key} names too many files")
        whole = given.role is Role.DATA and _is_whole(given)
        holds = plain in _HOLDING and not declared
        if whole or given.role in _INHERITED:
            self._read_object(value, where, given, depth)
        elif self._leads(where.address) or holds:
            self._read_object(value, where, None, depth)
        else:
            if where.known:
                self._unclear(UncertaintyKind.CONTAINER, where, f"{key} is an unknown object")
            self._read_object(value, where.as_unknown(), None, depth)

    def _leads(self, address: str) -> bool:
        """Return whether a declaration or a fitting table row names a value below this address."""
        if any(address in row.containers for row in self._found.rows):
            return True
        if not self._operator:
            return False
        starts = (f"{address}.", f"{address}[")
        return any(name.startswith(starts) for one in self._operator for name in one.roles)

    def _cut(self, key: str, value: Any, where: _Where, owner: str) -> None:
        why = "it is too large or too deep to be read"
        self._unclear(UncertaintyKind.LIMIT, where, f"{key or 'the call'} is too large to be read")
        self._budget.leaves -= 1
        self._found.leaves.append(
            Leaf(address=where.address, place=where.place, name=key, role=Role.UNKNOWN,
                 type=type_of(value), value=value, source=RoleSource.NOBODY, why=why, owner=owner,
                 read=False)
        )  # fmt: skip

    def _add(self, key: str, value: Any, where: _Where, given: _Given, owner: str) -> None:
        if value is None and self._is_absent(where.address):
            return
        role, source, why = self._narrow_leaf(key, value, given)
        if given.role is Role.WORKING_FOLDER and role is not given.role:
            self._unclear(UncertaintyKind.BASE, where, "the folder where it runs is unclear")
        if role is not Role.DATA and isinstance(value, str | list):
            self._budget.text -= _length(value)
            if self._budget.text < 0:
                self._cut(key, value, where, owner)
                return
        self._budget.leaves -= 1
        address, place, _ = where
        self._found.leaves.append(
            Leaf(address, place, key, role, type_of(value), value, source, why, owner)
        )

    def _is_absent(self, address: str) -> bool:
        """Return whether null means "no value" to every coding agent that may have sent it."""
        rows = self._found.rows
        return bool(rows) and all(
            address in row.arguments and row.arguments[address].optional for row in rows
        )

    def _unclear(self, kind: UncertaintyKind, where: _Where, words: str) -> None:
        if len(self._found.uncertainties) < MAX_LEAVES:
            self._found.uncertainties.append(Uncertainty(kind, where.address, words))

    # ------------------------------------------------------------ surroundings

    def _look_around(
        self, names: set[str], plain: Mapping[str, str], members: Mapping[str, Any], at: _Where
    ) -> SiblingContext:
        # In an editor, `command` is an action such as "insert".
        named = not names.isdisjoint(NAMES_OF_COMMANDS)
        command = named and self._family is not Family.FILE
        if not command and (self._operator or self._author or self._found.rows):
            command = any(
                said is not None and said.role in COMMANDS
                for key in plain
                for said in (self._declared_role("", at.of_key(key), None),)
            )
        typed = "isinput" in names and any(
            _is_on(members[key]) for key, name in plain.items() if name == "isinput"
        )
        return SiblingContext(family=self._family, command=command, url="url" in names, typed=typed)

    def _find_inner(
        self, plain: Mapping[str, str], members: Mapping[str, Any], at: _Where
    ) -> str | None:
        """Record the call that an object contains, and return the key of its arguments."""
        by_plain = {plain[key]: key for key in sorted(plain)}
        tool_key = next((by_plain[one] for one in _TOOL_KEYS if one in by_plain), None)
        if tool_key is None or not isinstance(members[tool_key], str):
            return None
        server_key = next((by_plain[one] for one in _SERVER_KEYS if one in by_plain), None)
        server = members[server_key] if server_key is not None else None
        tool: str = members[tool_key]
        server = server if isinstance(server, str) else None
        for name in _ARGUMENT_KEYS:
            key = by_plain.get(name)
            if key is not None and key != tool_key and _may_be_arguments(members[key]):
                place = at.of_key(key).place
                self._found.inner.append(InnerCall(place, tool, server, members[key]))
                return key
        if plain[tool_key] in _NAMING_A_CALL:
            self._found.inner.append(InnerCall(at.of_key(tool_key).place, tool, server, {}))
        return None

    def _note_verb(self, plain: Mapping[str, str], members: Mapping[str, Any], at: _Where) -> None:
        said = [members[key] for key, name in plain.items() if name in _VERB_KEYS]
        texts = [one for one in said if isinstance(one, str) and len(one) <= LONGEST_NAME]
        if texts:
            self._found.verbs[at.place] = frozenset(chain.from_iterable(map(words_in, texts)))

    # ------------------------------------------------------------ roles

    def _decide(
        self, key: str, value: Any, where: _Where, beside: SiblingContext, held: _Given | None
    ) -> _Given:
        by_name = role_of_name(key, value, beside)
        lifted = held is not None and held.role in _FLOORS
        given = None if lifted else self._declared_role(key, where, by_name)
        if given is None and held is not None:
            given = held
        if given is None and (role := self._narrow.get(plain_name(where.address))) is not None:
            given = _Given(role, RoleSource.TABLE, "the table of known tools holds it")
        if given is None and by_name is Role.WORKING_FOLDER and not beside.command:
            # Nothing runs there, and a file tool may ignore it and work elsewhere.
            self._unclear(UncertaintyKind.BASE, where, f"it may not work in {key}")
            return _Given(Role.UNKNOWN, RoleSource.NOBODY, "it may not work there")
        if given is None and by_name is not None:
            given = _Given(self._refine(by_name), RoleSource.NAME, _WHY[RoleSource.NAME])
            if not where.known and by_name in FREE:
                given = _Given(Role.UNKNOWN, RoleSource.NOBODY, "it is in an unknown object")
        if given is not None and beside.typed and given.role in COMMANDS:
            return _Given(Role.INPUT, RoleSource.NAME, "another argument says that it is typed")
        return given or _NOBODY_SAYS

    def _declared_role(self, key: str, where: _Where, by_name: Role | None) -> _Given | None:
        for one in self._operator:
            if by_name in _FLOORS:
                break  # an operator's declaration does not lift these
            if (role := one.roles.get(where.address)) is not None:
                return _Given(role, RoleSource.OPERATOR, _WHY[RoleSource.OPERATOR], where.address)
        for one in self._author:
            role = one.roles.get(where.address)
            if role is not None and _may_say(one, role, by_name):
                return _Given(role, RoleSource.AUTHOR, _WHY[RoleSource.AUTHOR], where.address)
        if not self._found.rows:
            return None
        if where.address not in self._said_by_rows:
            self._said_by_rows[where.address] = self._find_in_rows(where)
        return self._said_by_rows[where.address]

    def _find_in_rows(self, where: _Where) -> _Given | None:
        roles = {
            row.arguments[where.address].role
            for row in self._found.rows
            if where.address in row.arguments
        }
        roles.discard(Role.UNKNOWN)  # an unchecked row neither frees nor restricts
        if not roles:
            return None
        if Role.PATH in roles and roles <= PATHS:
            return _Given(self._refine(Role.PATH), RoleSource.TABLE, _WHY[RoleSource.TABLE])
        if len(roles) > 1:
            return _Given(Role.UNKNOWN, RoleSource.TABLE, "tools of this name disagree about it")
        (role,) = roles
        if role in FREE and self._held_by_another(where.address):
            return _Given(Role.UNKNOWN, RoleSource.TABLE, "tools of this name disagree about it")
        return _Given(role, RoleSource.TABLE, _WHY[RoleSource.TABLE], where.address)

    def _held_by_another(self, address: str) -> bool:
        """Return whether another coding agent has a tool of this name in which this value may not
        change freely."""
        return any(
            address in row.arguments and row.arguments[address].role not in FREE | {Role.UNKNOWN}
            for row in self._rows
        )

    def _refine(self, role: Role) -> Role:
        """Return the role of a path, made more exact by the action in a file tool's name."""
        if role is not Role.PATH or self._family is not Family.FILE:
            return role
        verbs = verbs_of_file_tool(bare_name(self._call.tool))
        if "delete" in verbs:
            return Role.DELETE
        if "move" in verbs:
            return Role.PATH
        if "write" in verbs:
            return Role.WRITE
        return Role.PATH if self._call.kind is Kind.FILE_CHANGE else Role.READ

    def _narrow_leaf(self, key: str, value: Any, given: _Given) -> tuple[Role, RoleSource, str]:
        """Return the role of a single value. Its kind, type, form and length can only restrict the
        role."""
        role, source, why = given.role, given.source, given.why
        if role in (Role.DATA, Role.PART) and self._is_too_bold(role, source):
            role, source, why = Role.UNKNOWN, RoleSource.KIND, _WHY[RoleSource.KIND]
        if role is Role.REMARK and self._call.kind is Kind.PLAN and source is RoleSource.NAME:
            role, source, why = Role.UNKNOWN, RoleSource.KIND, _WHY[RoleSource.KIND]
        if role is Role.UNKNOWN:
            return role, source, why
        whole = role is Role.DATA and source is RoleSource.TABLE and value is not None
        listed = isinstance(value, list | dict) and bool(value)
        fits = whole or listed or _is_empty(role, value) or fits_role(role, key, value)
        if not fits:
            return Role.UNKNOWN, RoleSource.NOBODY, "its type or its value does not fit"
        file_text = role is Role.DATA and self._family is Family.FILE
        if role in FREE and source is RoleSource.NAME and not file_text and looks_like(value):
            return Role.UNKNOWN, RoleSource.LOOK, _WHY[RoleSource.LOOK]
        return role, source, why

    def _is_too_bold(self, role: Role, source: RoleSource) -> bool:
        if self._call.kind not in (Kind.COMMAND, Kind.PLAN):
            return False
        if source is RoleSource.TABLE:
            return not any(row.kind is self._call.kind for row in self._found.rows)
        return source is not RoleSource.OPERATOR


_FLOORS = (Role.ENVIRONMENT, Role.RIGHTS)
_VERB_KEYS = frozenset({"type", "operation", "op", "action", "command", "editmode", "mode"})


def _may_say(declaration: Declaration, role: Role, by_name: Role | None) -> bool:
    """Return whether a role that a tool's author declared counts.

    A restrictive role that comes from a name stays, except that a trusted author may declare an
    action to be a command. An author who is not trusted can only declare a value an action or
    unknown.
    """
    if by_name in HELD:
        return declaration.trusted and by_name is Role.ACTION and role in COMMANDS
    return declaration.trusted or role in (Role.ACTION, Role.UNKNOWN)


def _is_command(key: str, role: Role) -> bool:
    """Return whether a list of strings is or may be a command, and is therefore read as a single
    value."""
    return role in COMMANDS or (role is Role.ACTION and plain_name(key) in NAMES_OF_COMMANDS)


def _is_whole(given: _Given) -> bool:
    """Return whether a table row gives one role and type to a whole list or object."""
    return given.source is RoleSource.TABLE and bool(given.address)


def _is_on(value: Any) -> bool:
    return value not in (None, False, "false", "False", "", 0)


def _is_name(key: Any) -> bool:
    return isinstance(key, str) and len(key) <= LONGEST_NAME


def _may_be_arguments(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, str) and value.lstrip()[:1] in ("{", '"'))


def _is_empty(role: Role, value: Any) -> bool:
    if not isinstance(value, dict | list) or value:
        return False
    return role not in _NOT_EMPTY


_NOT_EMPTY = FREE | VARYING | {Role.WORKING_FOLDER, Role.PATCH, Role.URL}


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(map(len, value)) if is_list_of_texts(value) else 0
