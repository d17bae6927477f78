"""Calls an address that the guard checked, and nothing else: no redirect, no proxy, no cookie, and
no second look-up of the name."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from gateway.delivery.egress_guard import Address, Forbidden, Resolve, Target, pin_addresses

_LONGEST_PAUSE = 30 * 24 * 3600.0
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class PostAnswer(NamedTuple):
    """What came back; of its body no more than was asked for."""

    status: int
    retry_after: str = ""
    body: bytes = b""


class Unanswered(Exception):
    """No answer came. Its text is the name of what happened, without addresses."""


async def post(
    target: Target, resolve: Resolve, *, body: bytes, headers: Mapping[str, str], most: int = 0
) -> PostAnswer:
    """Resolve the target once, and post; read `most` bytes of the answer, and one more where it is
    longer. Raises Forbidden, Unanswered."""
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
    """Return the seconds that an answer asks to wait, by a number or a date; a month at most."""
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
    """Resolve the target once; what is called in the session goes to the checked addresses, without
    a proxy from the environment or cookies, and takes so many seconds at most. Raises Forbidden."""
    url = URL(target.url)
    if (url.host, url.port) != (target.host, target.port):
        raise Forbidden("two parsers read the address differently")
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
    """Answers with the checked addresses, so that nothing is resolved a second time."""

    def __init__(self, target: Target, addresses: Sequence[Address]) -> None:
        self._target = target
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if host != self._target.host:
            raise OSError("only the checked host is called")
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
        """Nothing is held open."""
