"""The adapter itself: routes for the gateway's web server, and the end of its live streams."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from adapters.web.routes import Inbox
from gateway.ports import Desk, Logins


class WebAdapter:
    """Serves the inbox under /inbox, beside the HTTP API."""

    name = "web"

    def __init__(self) -> None:
        self._stopping = asyncio.Event()

    @asynccontextmanager
    async def run(self, desk: Desk) -> AsyncIterator[None]:
        """Serve until left; leaving ends the live streams, so that the web server can stop."""
        try:
            yield
        finally:
            self._stopping.set()

    def routes(self, desk: Desk, logins: Logins, *, secure: bool) -> list[web.RouteDef]:
        """Return the inbox's routes. `secure` tells whether browsers reach us over TLS."""
        return Inbox(desk, logins, secure=secure, stopping=self._stopping).routes()
