"""URLs that a call names, and the hosts that it reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlsplit

_FOUND = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s\"'<>()`]{1,2048}")
MOST_URLS = 64
_USUAL_PORTS = frozenset({None, 80, 443})
_LITERAL = re.compile(r"[0-9.]+|0x[0-9a-f.x]+|.*:.*")
_PRIVATE = re.compile(r"localhost|[^.]+|.*\.(?:local|internal|lan|localhost|home|corp|intranet)")


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlUse:
    """One URL. `doubt` says why readers could differ on where it leads, or None.

    What only `looks` like one stands in a longer text, or under a name that does not say so.
    """

    text: str
    scheme: str
    host: str
    place: str
    doubt: str | None = None
    looks: bool = False


def use_url(text: str, place: str, *, looks: bool = False) -> UrlUse:
    """Return what a URL says."""
    try:
        parts = urlsplit(text)
        scheme, host, port = parts.scheme.lower(), (parts.hostname or "").rstrip("."), parts.port
        named = parts.username is not None or parts.password is not None
    except ValueError:
        return UrlUse(text=text, scheme="", host="", place=place, doubt="it is no URL",
                      looks=looks)  # fmt: skip
    doubt = _doubt(text, host, named, port)
    return UrlUse(text=text, scheme=scheme, host=host, place=place, doubt=doubt, looks=looks)


def find_urls(text: str, place: str) -> Iterator[UrlUse]:
    """Yield the URLs that stand in a text: one more than are read, where there are more."""
    for found in islice(_FOUND.finditer(text), MOST_URLS + 1):
        yield use_url(found.group(), place, looks=True)


def _doubt(text: str, host: str, named: bool, port: int | None) -> str | None:
    if not host:
        return "it names no host"
    if named:
        return "it names a user beside the host"
    if "\\" in text or not (text.isascii() and text.isprintable()) or " " in text or "%" in host:
        return "readers could take it for another one"
    if port not in _USUAL_PORTS:
        return "it names an unusual port"
    if _LITERAL.fullmatch(host):
        return "its host is a number"
    return "its host has a private name" if _PRIVATE.fullmatch(host) else None
