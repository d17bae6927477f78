"""Keeps the Socket Mode connection, and knows when it is deaf, refused or gone.

The SDK reconnects for ever and tells nobody; so somebody must look at it from outside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.redacted_logs import library_logger
from adapters.slack.web_api import SlackRefused, asked
from gateway.errors import GatewayError
from gateway.ports import DeliveryFailed

log = logging.getLogger("adapters.slack.sockets")

PING_SECONDS = 5.0
IDLE_SECONDS = 600.0  # nothing heard for so long: connect anew, the connection may be deaf
CONNECT_SECONDS = 30.0
# In ping intervals. One to which nobody answers is given up after one and a half, and made anew
# half of one later: looks are shorter than that, and it must last longer to count as well again.
_LOOK, _HOLD = 0.4, 2.0
# After these no connection will come until an operator acts.
FATAL = {
    "invalid_auth",
    "not_authed",
    "account_inactive",
    "token_revoked",
    "token_expired",
    "app_uninstalled",
    "not_allowed_token_type",
    "org_login_required",
    "missing_scope",
}


class Socket:
    """One Socket Mode connection under watch."""

    def __init__(
        self,
        app: AsyncApp,
        token: str,
        client: AsyncWebClient,
        heard: Callable[[], int],
        *,
        ping_seconds: float,
        idle_seconds: float,
    ) -> None:
        self._client = client
        self._token = token
        self._heard = heard
        self._idle_seconds = idle_seconds
        self._ping_seconds = ping_seconds
        self._count = 0  # how much had come when we last looked
        self._since = asyncio.get_running_loop().time()  # when it came
        self._begun = False  # whether there was a connection, which the SDK then keeps
        self._renewing: asyncio.Future[None] | None = None
        self._handler: Any = AsyncSocketModeHandler(
            app,
            token,
            logger=library_logger(),
            web_client=client,
            ping_interval=ping_seconds,
        )
        self._problem = "Slack is not connected yet"

    @property
    def problem(self) -> str:
        """What is wrong, in a sentence; empty when connected."""
        return self._problem

    async def connect(self) -> None:
        """Connect; raises GatewayError when Slack refuses us for good.

        When Slack is merely away, `watch` goes on trying.
        """
        code = await self._begin()
        if code in FATAL:
            raise GatewayError(_said(code))
        self._say(_said(code) if code else "")

    async def _begin(self) -> str:
        """Make the first connection; return the code of what was wrong, empty when it stands."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                self._handler.client.wss_uri = await self._address()
                await self._handler.connect_async()
        except Exception as error:  # away in whatever way: tried again in a moment
            return _code(error)
        self._begun = True
        return ""

    async def watch(self) -> None:
        """Look at the connection until cancelled; mend it, and say what is wrong.

        A lost one is well again when it has lasted for longer than one to which nobody answers.
        """
        loop = asyncio.get_running_loop()
        lost = 0.0
        while True:
            await asyncio.sleep(self._ping_seconds * _LOOK)
            if problem := await self._look():
                lost = loop.time()
                self._say(problem)
            elif loop.time() - lost > self._ping_seconds * _HOLD:
                self._say("")

    async def _look(self) -> str:
        """Return what is wrong now, empty when nothing is."""
        if not self._begun:
            return _said(code) if (code := await self._begin()) else ""
        if not await self._handler.client.is_connected():
            return _said(await self._refusal())
        if not self._idle():
            return ""
        if (code := await self._refusal()) in FATAL:
            return _said(code)
        self._since = asyncio.get_running_loop().time()
        log.info("idle: %s", code or "connecting anew", extra={"event": "slack_idle"})
        if code:
            return ""
        # The SDK tries until it succeeds, and must not be stopped in the middle of it.
        self._renewing = asyncio.ensure_future(self._renew())
        await asyncio.wait([self._renewing], timeout=CONNECT_SECONDS)
        return ""

    def _idle(self) -> bool:
        """Whether nothing has come for so long that the connection may be deaf."""
        now = asyncio.get_running_loop().time()
        if self._heard() != self._count:
            self._count, self._since = self._heard(), now
        return now - self._since > self._idle_seconds

    async def _renew(self) -> None:
        try:
            await self._handler.client.connect_to_new_endpoint(force=True)
        except Exception as error:
            # Away in whatever way: the connection that stands goes on, and is looked at again.
            data = {"event": "slack_not_renewed"}
            log.warning("not connected anew: %s", type(error).__name__, extra=data)

    async def _refusal(self) -> str:
        """Return the code with which Slack would not connect us now, empty when it would."""
        try:
            await self._address()
        except Exception as error:  # as above
            return _code(error)
        return ""

    async def _address(self) -> str:
        """Return an address to connect to, which Slack takes once."""
        opened = await asked(lambda: self._client.apps_connections_open(app_token=self._token))
        return str(opened["url"])

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            data = {"event": "slack_lost" if problem else "slack_connected"}
            log.log(logging.ERROR if problem else logging.INFO, problem or "connected", extra=data)
        self._problem = problem

    async def close(self) -> None:
        """Disconnect; what is being answered is not waited for."""
        with suppress(Exception):  # whatever it was, the process ends, and with it the connection
            await self._handler.close_async()


def _code(error: Exception) -> str:
    """Return Slack's own code of a refusal, else how it is away."""
    if isinstance(error, SlackRefused):
        return error.error
    return str(error) if isinstance(error, DeliveryFailed) else type(error).__name__


def _said(code: str) -> str:
    if code in FATAL:
        return f"Slack refuses the app token: {code}"
    return f"Slack is not connected: {code}" if code else "Slack is not connected"
