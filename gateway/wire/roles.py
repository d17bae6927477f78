"""The roles that an argument of a tool can have, and how declared ones are checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from gateway.wire.schema import InvalidRequest, Says

MOST_ROLES = 64
LONGEST_ADDRESS = 200
_MOST_QUOTED = 80


class Role(StrEnum):
    """What an argument is to its tool. Only `data`, `part` and `remark` may be free to vary."""

    COMMAND = "command"
    """One command, as text that a shell reads."""
    COMMANDS = "commands"
    """Several commands, run one after another."""
    ARGV = "argv"
    """The words of one command."""
    WORKING_FOLDER = "working_folder"
    """The folder in which it runs."""
    READ = "read"
    """A path that is read."""
    WRITE = "write"
    """A path that is written."""
    DELETE = "delete"
    """A path that is deleted."""
    DESTINATION = "destination"
    """A second path, which is written."""
    FOLDER = "folder"
    """A folder."""
    PATH = "path"
    """A path of which nobody said what becomes of it."""
    GLOB = "glob"
    """A pattern of paths."""
    URL = "url"
    """An address of the web."""
    HOST = "host"
    """The machine or server on which it runs, or which it reaches."""
    ENVIRONMENT = "environment"
    """Environment variables."""
    USER = "user"
    """The user, or the shell, as which it runs."""
    RIGHTS = "rights"
    """More rights than usual."""
    ACTION = "action"
    """Text that is the action: code, a query, a prompt, the body of a call."""
    INPUT = "input"
    """What is typed into something that runs."""
    NESTED = "nested"
    """Another call."""
    PATCH = "patch"
    """A patch, which names files."""
    DATA = "data"
    """Text or values that are only kept, sent or read by people."""
    PART = "part"
    """Which part of something: lines, a page, a limit."""
    REMARK = "remark"
    """Words about the call, which change nothing."""
    FLAG = "flag"
    """A switch that changes what is done."""
    ID = "id"
    """The name of one thing: an order, a branch, a session."""
    RECIPIENT = "recipient"
    """Who gets it."""
    AMOUNT = "amount"
    """How much."""
    UNKNOWN = "unknown"
    """Not known; the same each time."""


def check_roles(roles: Mapping[str, str]) -> None:
    """Raise InvalidRequest unless these are roles by the address of an argument.

    An address is an argument's name, or that of a value in it, such as `edits[].text`.
    """
    if len(roles) > MOST_ROLES:  # first, so that nobody has thousands of mistakes explained
        raise InvalidRequest(f"roles: {len(roles)} are declared; {MOST_ROLES} is the most")
    for mistake in role_mistakes(roles).values():
        raise InvalidRequest(f"roles: {mistake}")


def role_mistakes(roles: Mapping[str, str]) -> dict[str, str]:
    """Return what is wrong with declared roles, a sentence by address."""
    return {address: said for address, role in roles.items() for said in _mistakes(address, role)}


def _mistakes(address: object, role: object) -> Iterator[str]:
    if not isinstance(address, str) or not 0 < len(address) <= LONGEST_ADDRESS:
        yield f"the name of an argument has 1 to {LONGEST_ADDRESS} characters"
    elif not isinstance(role, str) or role not in _WORDS:
        yield f"{_quote(role)}, declared for {_quote(address)}, is no role{_suggest(role)}"


_WORDS = {role.value for role in Role}
DECLARED_ROLES = Says(
    maxProperties=MOST_ROLES,
    propertyNames={"minLength": 1, "maxLength": LONGEST_ADDRESS},
    additionalProperties={"type": "string", "enum": sorted(_WORDS)},
)


def _quote(value: object) -> str:
    """Return a value quoted, whole or not at all: half a secret is not known as one."""
    quoted = repr(value)
    return quoted if len(quoted) <= _MOST_QUOTED else "something too long"


def _suggest(role: object) -> str:
    """Return the nearest role, in brackets as a question; without one, all of them."""
    from difflib import get_close_matches  # noqa: PLC0415 (only for a mistake)

    words = list(Role)
    near = get_close_matches(role[:_MOST_QUOTED].lower(), words) if isinstance(role, str) else []
    return f" (did you mean {near[0]!s}?)" if near else f" (the roles are {', '.join(words)})"
