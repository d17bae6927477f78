"""Paths that a call touches: what is done to each, where it lies, why it is delicate."""

from __future__ import annotations

import unicodedata
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import unquote

from gateway.policy.calls.paths import MAX_PATH, components, delicate
from gateway.wire.roles import Role

_LOCAL_FILE = ("file:///", "file://localhost/")


class PathEffect(StrEnum):
    """What is done to a path, the worst first."""

    DELETE = "delete"
    UNKNOWN = "unknown"
    WRITE = "write"
    READ = "read"
    LIST = "list"


EFFECTS = {
    Role.READ: PathEffect.READ,
    Role.WRITE: PathEffect.WRITE,
    Role.DELETE: PathEffect.DELETE,
    Role.DESTINATION: PathEffect.WRITE,
    Role.FOLDER: PathEffect.LIST,
    Role.PATH: PathEffect.UNKNOWN,
}


class PathUse(NamedTuple):
    """One path: its text as sent, what is done to it, and where it stands in the call.

    `parts` are the absolute components from the base, None where readers could differ or no base is
    known. `delicate` says why it is asked about each time. `second` is a path that another one
    beside it is moved, copied or linked to. What only `looks` like a path may be none.
    """

    text: str
    effect: PathEffect
    parts: tuple[str, ...] | None
    delicate: str | None
    place: str
    second: bool = False
    looks: bool = False

    @property
    def absolute(self) -> str | None:
        """The absolute path, None where it is not known."""
        return None if self.parts is None else "/" + "/".join(self.parts)


def use_path(
    text: str, effect: PathEffect, base: str | None, place: str, *, second: bool = False,
    looks: bool = False,
) -> PathUse:  # fmt: skip
    """Return the use of a path, resolved from the base."""
    plain = plain_path(text)
    parts = components(plain, base) if plain else None
    return PathUse(text, effect, parts, _find_delicate(text, base), place, second, looks)


def plain_path(text: str) -> str | None:
    """Return the path that every reader of a text finds, None where readers could differ."""
    if len(text) > MAX_PATH or not text:
        return None
    text = _without_scheme(text)
    if text[:5].lower() == "file:":
        return None
    decoded = _decode(text)
    return text if decoded == text or decoded.split("/") == text.split("/") else None


def _find_delicate(text: str, base: str | None) -> str | None:
    if len(text) > MAX_PATH:
        return "it is too long to be read"
    text = _without_scheme(text)
    found = delicate(text, base)
    decoded = _decode(text)
    return found or (delicate(decoded, base) if decoded != text else None)


def _without_scheme(text: str) -> str:
    if text.startswith("file:"):
        for start in _LOCAL_FILE:
            if text.startswith(start):
                text = text[len(start) - 1 :]
    return text


def _decode(text: str) -> str:
    decoded = unquote(text) if "%" in text else text
    return decoded if decoded.isascii() else unicodedata.normalize("NFKC", decoded)
