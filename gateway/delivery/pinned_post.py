"""Posts to an address that the guard checked, and to nothing else: no redirect, no proxy, no
cookie, and no second look-up of the name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import aiohttp
from yarl import URL

from gateway.delivery.egress_guard import Forbidden, Resolve, Target, pin_addresses
from gateway.delivery.pinned_calls import PinnedResolver


class Answer(NamedTuple):
    """What came back; the body of an answer is never read."""

    status: int
    retry_after: str = ""


class Unanswered(Exception):
    """No answer came. Its text is the name of what happened, without addresses."""


async def post(
    target: Target, resolve: Resolve, *, body: bytes, headers: Mapping[str, str]
) -> Answer:
    """Resolve the target once, and post. Raises Forbidden, Unanswered."""
    url = URL(target.url)
    if (url.host, url.port) != (target.host, target.port):
        raise Forbidden("two parsers read the address differently")
    try:
        addresses = await pin_addresses(target, resolve)
        connector = aiohttp.TCPConnector(
            resolver=PinnedResolver(target, addresses), use_dns_cache=False, force_close=True
        )
        # No proxy from the environment and no cookies: the connection goes to the checked address.
        async with (
            aiohttp.ClientSession(
                connector=connector, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
            ) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            return Answer(answer.status, answer.headers.get("Retry-After", ""))
    except (aiohttp.ClientError, OSError) as error:
        raise Unanswered(type(error).__name__) from error
