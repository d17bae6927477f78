"""Restrict outgoing calls to allowed hosts and public addresses; start with `target_of` and `post`.

A URL is checked against a list of allowed hosts. The host name is resolved once, and every
resulting address must be public. The connection uses only these addresses.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from gateway.errors import GatewayError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host name as text."""

_HOST = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_PORTS = {"https": 443, "http": 80}
_MAX_PORT = 65535
# Ranges that forward to an embedded IPv4 address: NAT64 (also its local range), 6to4, Teredo.
_TUNNELS = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))
)

# Ranges that older Python versions consider global: the old 6to4 relays, and documentation.
_RESERVED_LATE = tuple(map(ipaddress.ip_network, ("192.88.99.0/24", "3fff::/20")))


class Forbidden(GatewayError):
    """The gateway is not allowed to call this address."""

    code = "forbidden_address"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A URL that passed the checks, with its host and port."""

    url: str
    host: str
    port: int
    loopback: bool


def target_of(url: str, *, allowed: Sequence[str], production: bool) -> Target:
    """Return the checked target of a URL. Raises Forbidden.

    The URL must be https, without user, fragment or trailing dot. Its host (`host:port` for an
    unusual port) must be in `allowed`, spelled identically. Outside production, http to an allowed
    `localhost` is valid too.
    """
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise Forbidden("the address has an invalid port") from error
    if not url.isprintable():
        raise Forbidden("the address contains characters that some parsers drop")
    if "@" in parts.netloc or parts.fragment or not _HOST.fullmatch(host):
        raise Forbidden("the address must be a plain host name, without user, fragment or dot")
    loopback = not production and host == "localhost"
    usual = _PORTS.get(parts.scheme, 0)
    port = usual if port is None else port
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
        raise Forbidden("the address must be https")
    named = host if port == usual else f"{host}:{port}"
    if not 0 < port <= _MAX_PORT or named not in allowed:
        raise Forbidden(f"{named} is not in the list of allowed hosts")
    return Target(url=url, host=host, port=port, loopback=loopback)


async def pin_addresses(target: Target, resolve: Resolve) -> list[Address]:
    """Resolve the target once and return its addresses. Raises Forbidden unless the gateway may
    call all of them."""
    found = [ipaddress.ip_address(text) for text in await resolve(target.host, target.port)]
    if not found:
        raise Forbidden(f"{target.host} has no address")
    for address in found:
        if not (address.is_loopback if target.loopback else is_public(address)):
            raise Forbidden(f"{target.host} resolves to an address that is not public")
    return found


def is_public(address: Address) -> bool:
    """Return whether an address is a public unicast address that does not embed another address."""
    if any(address.version == net.version and address in net for net in _RESERVED_LATE):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None or any(address in net for net in _TUNNELS):
            return False
        if address.scope_id is not None or address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


async def resolve_by_system(host: str, port: int) -> list[str]:
    """Return the addresses of a host name from the system's resolver. Raises OSError."""
    loop = asyncio.get_running_loop()
    rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(row[4][0]) for row in rows]


# Calls to a checked address: no redirect, proxy, cookie or second name look-up.

_LONGEST_PAUSE = 30 * 24 * 3600.0
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class PostAnswer(NamedTuple):
    """The response to a POST request. Its body is cut to the requested size."""

    status: int
    retry_after: str = ""
    body: bytes = b""


class Unanswered(Exception):
    """There was no response. The message names the kind of error, without addresses."""


async def post(
    target: Target, resolve: Resolve, *, body: bytes, headers: Mapping[str, str], most: int = 0
) -> PostAnswer:
    """Resolve the target once and send a POST request. Reads at most `most` + 1 bytes of the
    response, so that the caller sees whether it is too long. Raises Forbidden, Unanswered."""
    try:
        async with (
            open_session(target, resolve) as session,
            session.post(target.url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            said = b""
            while most and len(said) <= most and (more := await answer.content.read(most + 1)):
                said += more
            return PostAnswer(
                answer.status, answer.headers.get("Retry-After", ""), said[: most + 1]
            )
    except (aiohttp.ClientError, OSError) as error:
        raise Unanswered(type(error).__name__) from error


def read_pause(text: str, now_ms: int) -> float:
    """Return the seconds to wait from a `Retry-After` number or date, at most 30 days."""
    try:
        if text.isdecimal():
            return min(float(text), _LONGEST_PAUSE)
        left = parsedate_to_datetime(text).timestamp() - now_ms / 1000
    except ValueError:
        return 0.0
    return min(max(left, 0.0), _LONGEST_PAUSE)


@asynccontextmanager
async def open_session(
    target: Target, resolve: Resolve, *, seconds: float | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    """Resolve the target once and open a session that connects only to the checked addresses. The
    session uses no proxy from the environment and no cookies. `seconds` limits each call. Raises
    Forbidden."""
    url = URL(target.url)
    if (url.host, url.port) != (target.host, target.port):
        raise Forbidden("two parsers read the address differently, so it is rejected")
    addresses = await pin_addresses(target, resolve)
    connector = aiohttp.TCPConnector(
        resolver=_Pinned(target, addresses), use_dns_cache=False, force_close=True
    )
    async with aiohttp.ClientSession(
        connector=connector,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=seconds),
    ) as session:
        yield session


class _Pinned(AbstractResolver):
    """A resolver that returns the checked addresses, so that the host name is not resolved
    again."""

    def __init__(self, target: Target, addresses: Sequence[Address]) -> None:
        self._target = target
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if host != self._target.host:
            raise OSError("only the host that was checked may be called")
        return [
            {
                "hostname": host,
                "host": str(address),
                "port": port,
                "family": _FAMILIES[address.version],
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Do nothing, because there is nothing to close."""
