"""Keep the Socket Mode connection, and report if it is silent, refused or lost; start with
`SocketConnection.connect`.

The SDK reconnects silently forever, so this module watches it from outside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.web_api import SlackRefused, call_repeatable, library_logger
from gateway.errors import GatewayError
from gateway.ports import DeliveryFailed, Limited

log = logging.getLogger("adapters.slack")

PING_SECONDS = 5.0
IDLE_SECONDS = 600.0  # reconnect after this time without a message: the connection may be dead
CONNECT_SECONDS = 30.0
LOCK_SECONDS = 5.0  # the longest wait for a running reconnect, as in the SDK
# In ping intervals. The SDK drops an unanswered connection after 1.5 and reconnects 0.5 later. The
# watch checks more often, and reports a connection as healthy only if it has lasted longer.
_LOOK, _HOLD = 0.4, 2.0
# Errors that last until an operator acts.
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


class SocketConnection:
    """One Socket Mode connection, with a watch that reports its problems."""

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
        self._count = 0  # messages at the last check
        self._since = asyncio.get_running_loop().time()  # when the last of them came
        self._begun = False  # whether the SDK has connected once, and so reconnects
        self._renewing: asyncio.Future[None] | None = None
        self._handler: Any = AsyncSocketModeHandler(
            app,
            token,
            logger=library_logger(),
            web_client=client,
            ping_interval=ping_seconds,
        )
        sdk: Any = self._handler.client
        sdk.connect_to_new_endpoint = _reconnect_once(sdk)
        sdk.issue_new_wss_url = self._address_in_time
        self._limited_until = 0.0  # the end of Slack's rate limit; no calls before it
        self._problem = "Slack is not connected yet"

    @property
    def problem(self) -> str:
        """The current problem in a sentence; empty if connected."""
        return self._problem

    async def connect(self) -> None:
        """Connect. Raises GatewayError if Slack refuses until an operator acts.

        After other failures, `watch` tries again.
        """
        code = await self._begin()
        if code in FATAL:
            raise GatewayError(_describe(code))
        self._say(_describe(code) if code else "")

    async def _begin(self) -> str:
        """Make the first connection; return the error code, empty on success."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                self._handler.client.wss_uri = await self._address()
                await self._handler.connect_async()
        except Exception as error:  # try again after any error
            return _read_code(error)
        self._begun = True
        return ""

    async def watch(self) -> None:
        """Watch the connection until cancelled: reconnect, and report problems.

        A new connection counts as healthy once it outlasts an unanswered one.
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
        """Return the current problem; empty if there is no problem."""
        if not self._begun:
            return _describe(code) if (code := await self._begin()) else ""
        if not await self._handler.client.is_connected():
            return _describe(await self._refusal())
        if not self._idle():
            return ""
        if (code := await self._refusal()) in FATAL:
            return _describe(code)
        self._since = asyncio.get_running_loop().time()
        log.info("idle: %s", code or "reconnecting", extra={"event": "slack_idle"})
        if code:
            return ""
        # The SDK retries until it succeeds. Cancelling it meanwhile would break it.
        self._renewing = asyncio.ensure_future(self._renew())
        await asyncio.wait([self._renewing], timeout=CONNECT_SECONDS)
        return ""

    def _idle(self) -> bool:
        """Whether the time without a message exceeds the limit, so the connection may be dead."""
        now = asyncio.get_running_loop().time()
        if self._heard() != self._count:
            self._count, self._since = self._heard(), now
        return now - self._since > self._idle_seconds

    async def _renew(self) -> None:
        try:
            await self._handler.client.connect_to_new_endpoint(force=True)
        except Exception as error:
            # After any error, the current connection remains and the watch goes on.
            data = {"event": "slack_not_renewed"}
            log.warning("not reconnected: %s", type(error).__name__, extra=data)

    async def _refusal(self) -> str:
        """Ask Slack for a connection; return its error code, empty if it agrees."""
        try:
            await self._address()
        except Exception as error:  # the watch goes on after any error
            return _read_code(error)
        return ""

    async def _address(self) -> str:
        """Return an address that is valid for one connection.

        Raises Limited without a call to Slack until the time that Slack named is over.
        """
        now = asyncio.get_running_loop().time
        if (left := self._limited_until - now()) > 0:
            raise Limited(left, "Slack's rate limit")
        try:
            opened = await call_repeatable(
                lambda: self._client.apps_connections_open(app_token=self._token)
            )
        except Limited as limit:
            self._limited_until = now() + limit.seconds
            raise
        return str(opened["url"])

    async def _address_in_time(self) -> str:
        """Return an address for the SDK's reconnect; wait while Slack's rate limit lasts."""
        while True:
            try:
                return await self._address()
            except Limited as limit:
                await asyncio.sleep(limit.seconds)

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            data = {"event": "slack_lost" if problem else "slack_connected"}
            log.log(logging.ERROR if problem else logging.INFO, problem or "connected", extra=data)
        self._problem = problem

    async def close(self) -> None:
        """Disconnect without waiting for running replies."""
        with suppress(Exception):  # the process ends, and the connection with it
            await self._handler.close_async()


def _reconnect_once(client: Any) -> Callable[..., Awaitable[None]]:
    """Return the SDK's reconnect function, changed to connect only once per disconnect.

    The SDK reconnects after Slack's disconnect message, and again after the close that follows it.
    The second connection would close the first, and lose the clicks that came over it.
    """
    connect = client.connect_to_new_endpoint

    async def reconnect(force: bool = False) -> None:
        session = client.current_session
        with suppress(TimeoutError):
            async with asyncio.timeout(LOCK_SECONDS), client.connect_operation_lock:
                pass
        if client.current_session is session or not await client.is_connected():
            await connect(force=force)

    return reconnect


def _read_code(error: Exception) -> str:
    """Return Slack's error code, or a description of another failure."""
    if isinstance(error, SlackRefused):
        return error.error
    return str(error) if isinstance(error, DeliveryFailed) else type(error).__name__


def _describe(code: str) -> str:
    if code in FATAL:
        return f"Slack rejects the app token ({code})"
    return f"Slack is not connected: {code}" if code else "Slack is not connected"
