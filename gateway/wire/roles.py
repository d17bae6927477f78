"""Define the roles of a tool's arguments (`Role`), and check declared roles (`check_roles`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from gateway.wire.schema import InvalidRequest, Says

MOST_ROLES = 64
LONGEST_ADDRESS = 200
_MOST_QUOTED = 80


class Role(StrEnum):
    """The meaning of an argument for its tool. A grant can cover any value only for `data`, `part`
    and `remark`."""

    COMMAND = "command"
    """One command, as text for a shell."""
    COMMANDS = "commands"
    """Several commands that run one after another."""
    ARGV = "argv"
    """The words of one command."""
    WORKING_FOLDER = "working_folder"
    """The folder in which the command runs."""
    READ = "read"
    """A path to read."""
    WRITE = "write"
    """A path to write."""
    DELETE = "delete"
    """A path to delete."""
    DESTINATION = "destination"
    """A second path, to write."""
    FOLDER = "folder"
    """A folder."""
    PATH = "path"
    """A path with an unknown use."""
    GLOB = "glob"
    """A pattern of paths."""
    URL = "url"
    """A web address."""
    HOST = "host"
    """The host to run on or to connect to."""
    ENVIRONMENT = "environment"
    """Environment variables."""
    USER = "user"
    """The user or shell that runs the command."""
    RIGHTS = "rights"
    """A request for more rights than usual."""
    ACTION = "action"
    """Text that is the action: code, a query, a prompt, the body of a call."""
    INPUT = "input"
    """Input typed into a running program."""
    NESTED = "nested"
    """Another tool call."""
    PATCH = "patch"
    """A patch, which names files."""
    DATA = "data"
    """Text or values that are only stored, sent or read by people."""
    PART = "part"
    """Part of something: lines, a page, a limit."""
    REMARK = "remark"
    """A comment about the call, without any effect."""
    FLAG = "flag"
    """A switch that changes the action."""
    ID = "id"
    """The name of one thing: an order, a branch, a session."""
    RECIPIENT = "recipient"
    """The recipient."""
    AMOUNT = "amount"
    """An amount."""
    UNKNOWN = "unknown"
    """Unknown; must be the same each time."""


def check_roles(roles: Mapping[str, str]) -> None:
    """Raise InvalidRequest unless all values are roles and all keys are addresses of arguments.

    An address is an argument's name, or the path of a value inside an argument, such as
    `edits[].text`.
    """
    if len(roles) > MOST_ROLES:  # first, so that a message never lists thousands of mistakes
        raise InvalidRequest(f"roles: {len(roles)} are declared; the limit is {MOST_ROLES}")
    for mistake in role_mistakes(roles).values():
        raise InvalidRequest(f"roles: {mistake}")


def role_mistakes(roles: Mapping[str, str]) -> dict[str, str]:
    """Return a sentence for each wrong role or address, by address."""
    return {address: said for address, role in roles.items() for said in _mistakes(address, role)}


def _mistakes(address: object, role: object) -> Iterator[str]:
    if not isinstance(address, str) or not 0 < len(address) <= LONGEST_ADDRESS:
        yield f"the name of an argument must have 1 to {LONGEST_ADDRESS} characters"
    elif not isinstance(role, str) or role not in _WORDS:
        yield f"{_quote(role)}, declared for {_quote(address)}, is not a role{_suggest(role)}"


_WORDS = {role.value for role in Role}
DECLARED_ROLES = Says(
    maxProperties=MOST_ROLES,
    propertyNames={"minLength": 1, "maxLength": LONGEST_ADDRESS},
    additionalProperties={"type": "string", "enum": sorted(_WORDS)},
)


def _quote(value: object) -> str:
    """Return a value in quotes if it is short. A long value is left out: if it were a secret and
    cut, it could not be recognised and masked."""
    quoted = repr(value)
    return quoted if len(quoted) <= _MOST_QUOTED else "a role that is too long"


def _suggest(role: object) -> str:
    """Return a question in brackets with the most similar role, or the list of all roles."""
    from difflib import get_close_matches  # noqa: PLC0415 (only for a mistake)

    words = list(Role)
    near = get_close_matches(role[:_MOST_QUOTED].lower(), words) if isinstance(role, str) else []
    return f" (did you mean {near[0]!s}?)" if near else f" (the roles are {', '.join(words)})"
