"""Where the gateway may call out to: a guard against being used to reach what others cannot.

A URL is checked against a list of allowed hosts, its name is resolved once, and every address that
comes back must be public. The connection then goes to the checked addresses and nowhere else.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway.errors import GatewayError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host name, as text."""

_HOST = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_PORTS = {"https": 443, "http": 80}
_MAX_PORT = 65535
# Ranges that carry an IPv4 address to somewhere else: NAT64 (also its local one), 6to4, Teredo.
_TUNNELS = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))
)

# What the supported versions of Python take for global: the old 6to4 relays, and documentation.
_RESERVED_LATE = tuple(map(ipaddress.ip_network, ("192.88.99.0/24", "3fff::/20")))


class Forbidden(GatewayError):
    """The gateway does not call this address."""

    code = "forbidden_address"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A checked address to call: the URL as configured, its host and port."""

    url: str
    host: str
    port: int
    loopback: bool


def target_of(url: str, *, allowed: Sequence[str], production: bool) -> Target:
    """Return the target that a URL names; raises Forbidden.

    It must be https, without user, fragment or trailing dot, and its host (`host:port` for a port
    that is not the usual one) must be in `allowed`, letter by letter. Outside production http to
    `localhost` is taken too, when it is allowed.
    """
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise Forbidden("the address has no proper port") from error
    if not url.isprintable():
        raise Forbidden("the address holds characters that some parsers drop")
    if "@" in parts.netloc or parts.fragment or not _HOST.fullmatch(host):
        raise Forbidden("the address must be a plain host name, without user, fragment or dot")
    loopback = not production and host == "localhost"
    usual = _PORTS.get(parts.scheme, 0)
    port = usual if port is None else port
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
        raise Forbidden("the address must be https")
    named = host if port == usual else f"{host}:{port}"
    if not 0 < port <= _MAX_PORT or named not in allowed:
        raise Forbidden(f"{named} is not among the allowed hosts")
    return Target(url=url, host=host, port=port, loopback=loopback)


async def pin_addresses(target: Target, resolve: Resolve) -> list[Address]:
    """Resolve the target once; return its addresses. Raises Forbidden unless all may be called."""
    found = [ipaddress.ip_address(text) for text in await resolve(target.host, target.port)]
    if not found:
        raise Forbidden(f"{target.host} has no address")
    for address in found:
        if not (address.is_loopback if target.loopback else is_public(address)):
            raise Forbidden(f"{target.host} resolves to an address that is not public")
    return found


def is_public(address: Address) -> bool:
    """Tell whether an address is a public unicast one, and not another one in disguise."""
    if any(address.version == net.version and address in net for net in _RESERVED_LATE):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None or any(address in net for net in _TUNNELS):
            return False
        if address.scope_id is not None or address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


async def resolve_by_system(host: str, port: int) -> list[str]:
    """Return what the system's resolver says. Raises OSError."""
    loop = asyncio.get_running_loop()
    rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(row[4][0]) for row in rows]
