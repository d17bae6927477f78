"""The web adapter: routes for the gateway's web server, and an orderly end of live streams."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from adapters.web.routes import Inbox
from gateway.ports import Desk, Logins


class WebAdapter:
    """Serves the inbox under /inbox, beside the HTTP API."""

    name = "web"

    def __init__(self) -> None:
        self._inboxes: list[Inbox] = []

    @asynccontextmanager
    async def run(self, desk: Desk) -> AsyncIterator[None]:
        """Do nothing until left: the web server serves the routes."""
        yield

    def routes(self, desk: Desk, logins: Logins, *, secure: bool) -> list[web.RouteDef]:
        """Return the inbox's routes. `secure`: browsers reach the gateway over TLS."""
        inbox = Inbox(desk, logins, secure=secure)
        self._inboxes.append(inbox)
        return inbox.routes()

    def end_streams(self) -> None:
        """End the live streams, so that the web server can stop."""
        for inbox in self._inboxes:
            inbox.end_streams()
