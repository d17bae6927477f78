"""Calls of an identity provider: through the guard of addresses, bounded in time and size."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote, urlsplit

import aiohttp

from gateway.delivery.egress_guard import (
    Forbidden,
    Resolve,
    resolve_by_system,
    target_of,
)
from gateway.delivery.pinned_post import open_session
from gateway.domain.http_body import BodyTooLarge, BodyTooSlow, read_whole
from gateway.errors import InvalidRequest, Unreachable
from gateway.wire.canonical_json import parse
from gateway.wire.codec import JsonObject

_SECONDS = 10.0
_MOST_BYTES = 256 * 1024
_OK = 200


class ProviderCalls:
    """Calls the hosts that the provider itself names. In production only public addresses by
    https; elsewhere http to localhost too."""

    def __init__(self, *, production: bool, resolve: Resolve = resolve_by_system) -> None:
        self._production = production
        self._resolve = resolve

    async def read(self, url: str) -> JsonObject:
        """Return what is published at an address. Raises Unreachable."""
        return await self._call("GET", url, None, None)

    async def send(
        self, url: str, form: dict[str, str], login: tuple[str, str] | None
    ) -> JsonObject:
        """Send a form, with name and secret where there are any. Raises Unreachable."""
        words = None if login is None else ":".join(quote(one, safe="") for one in login)
        basic = None if words is None else f"Basic {b64encode(words.encode()).decode()}"
        return await self._call("POST", url, form, basic)

    async def _call(
        self, method: str, url: str, form: dict[str, str] | None, basic: str | None
    ) -> JsonObject:
        try:
            target = target_of(url, allowed=(urlsplit(url).netloc,), production=self._production)
            headers = {"Accept": "application/json"} | ({"Authorization": basic} if basic else {})
            async with (
                open_session(target, self._resolve, seconds=_SECONDS) as session,
                session.request(
                    method, target.url, data=form, headers=headers, allow_redirects=False
                ) as answer,
            ):
                body = await read_whole(answer.content.iter_any(), most=_MOST_BYTES)
                if answer.status != _OK:
                    raise Unreachable(f"the identity provider answered with {answer.status}")
                found = parse(body)
        except (Forbidden, aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable("the identity provider could not be asked") from error
        except (BodyTooLarge, BodyTooSlow, InvalidRequest, ValueError) as error:
            raise Unreachable("the identity provider's answer could not be read") from error
        if not isinstance(found, dict):
            raise Unreachable("the identity provider's answer could not be read")
        return found
