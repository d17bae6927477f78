"""`gateway slack setup`: has the app made and installed, and checks both of its tokens."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

import aiohttp

from adapters.slack.claims import INVITE
from adapters.slack.commands import COMMAND
from adapters.slack.installation import BOT_SCOPES, build_manifest
from adapters.slack.settings import SlackSettings
from adapters.slack.web_api import (
    SlackRefused,
    build_client,
    call_for_response,
    open_session,
    read_scopes,
)
from gateway.errors import GatewayError, InvalidRequest, Unreachable
from gateway.ports import DeliveryFailed, SetupTerminal

BOT, APP = "GATEWAY_SLACK_BOT_TOKEN", "GATEWAY_SLACK_APP_TOKEN"
_APPS = "https://api.slack.com/apps"
_TRIES, _HELLO_SECONDS = 5, 10.0
_BOT_START, _APP_START = "xoxb-", "xapp-"
_APP_OF_TOKEN = re.compile(r"xapp-[0-9]+-(A[A-Z0-9]+)-.")
_KINDS = {
    _BOT_START: "a bot token",
    _APP_START: "an app-level token",
    "xoxp-": "a user token",
    "xoxe": "a token that configures apps",
    "xox": "a token of another kind",
    "": "no token of Slack",
}
_WANTED = {
    _BOT_START: "the bot token begins with xoxb- and is on the page OAuth & Permissions",
    _APP_START: "the app-level token begins with xapp- and is on the page Basic Information",
}
_WHY = {
    "invalid_auth": "Slack does not know this token",
    "token_revoked": "This token was revoked",
    "token_expired": "This token has expired",
    "account_inactive": "The app was removed from the workspace",
    "missing_scope": "This token lacks a scope",
}
_AGAIN = {
    _BOT_START: "copy it again, or reinstall the app and copy its new one",
    _APP_START: "copy it again, or generate another with the scope connections:write",
}
_Check = Callable[[str], Awaitable[str]]


class WrongToken(GatewayError):
    """A token that cannot be used, and what to do, in a sentence."""

    code = "wrong_token"


class SlackSetup:
    """How Slack is connected. It is a `ChatSetup`."""

    variables: tuple[str, ...] = (BOT, APP)
    invite = INVITE
    command = f"{COMMAND} here"

    async def connect(self, terminal: SetupTerminal, known: Mapping[str, str]) -> dict[str, str]:
        """Return both tokens, each checked. Raises InvalidRequest after five wrong ones, and where
        other settings connect Slack already; Unreachable."""
        settings = SlackSettings()
        if settings.mode != "socket" or settings.oauth:
            raise InvalidRequest(
                "set-up connects one workspace in mode socket; unset GATEWAY_SLACK_MODE and "
                "GATEWAY_SLACK_CLIENT_ID, or set the tokens by hand (docs/slack.md)"
            )
        async with open_session() as session:
            return await _Connecting(terminal, known, settings.api_url, session).run()


def build_create_link() -> str:
    """Return the link that makes the app: the manifest is in it."""
    manifest = json.dumps(build_manifest(), separators=(",", ":"))
    return f"{_APPS}?new_app=1&manifest_json={quote(manifest, safe='')}"


class _Connecting:
    """One run of the set-up. The bot token says which app it is, and the other must be of it."""

    def __init__(
        self,
        terminal: SetupTerminal,
        known: Mapping[str, str],
        api_url: str,
        session: aiohttp.ClientSession,
    ) -> None:
        self._terminal = terminal
        self._known = known
        self._api_url = api_url
        self._session = session
        self._app_id = self._team = ""

    async def run(self) -> dict[str, str]:
        """Return both tokens."""
        bot = await self._find(BOT, "Bot token (xoxb-…)", self._check_bot, self._lead_to_app)
        app = await self._find(
            APP, "App-level token (xapp-…)", self._check_app, self._lead_to_app_token
        )
        return {BOT: bot, APP: app}

    async def _find(
        self, variable: str, question: str, check: _Check, lead: Callable[[], None]
    ) -> str:
        """Return a token that works: the known one, else the one that somebody pastes."""
        known = self._known.get(variable)
        if known and await self._works(known, check):
            return known
        lead()
        for _ in range(_TRIES):
            token = (await self._terminal.ask_secret(question, variable)).strip()
            if await self._works(token, check):
                return token
        raise InvalidRequest("that was the fifth wrong token; set-up goes on here when run again")

    async def _works(self, token: str, check: _Check) -> bool:
        """Say what a token is, or why it cannot be used."""
        try:
            said, works = await check(token), True
        except WrongToken as wrong:
            said, works = str(wrong), False
        self._terminal.say(said)
        return works

    def _lead_to_app(self) -> None:
        self._terminal.say("Make the app in your browser: choose the workspace, Next, Create.")
        self._terminal.open(build_create_link())
        self._terminal.say(
            "Press Install to Workspace and Allow; copy the token under OAuth & Permissions."
        )

    def _lead_to_app_token(self) -> None:
        self._terminal.say(
            "Under App-Level Tokens: Generate Token and Scopes, add connections:write, Generate."
        )
        self._terminal.open(self._page)

    @property
    def _page(self) -> str:
        return f"{_APPS}/{self._app_id}/general"

    async def _check_bot(self, token: str) -> str:
        """Return which app a bot token is of. Raises WrongToken, Unreachable."""
        _refuse_other_kind(token, _BOT_START)
        client = build_client(token, self._api_url, self._session)
        who = await _ask(client.auth_test, _BOT_START)
        if missing := [scope for scope in BOT_SCOPES if scope not in read_scopes(who)]:
            raise WrongToken(
                f"The app lacks {', '.join(missing)}: add what is missing under OAuth & "
                "Permissions, reinstall the app, and paste its token again."
            )
        if who.get("is_enterprise_install"):
            raise WrongToken(
                "This token is of a whole organisation: install the app to one workspace."
            )
        team, bot = who["team_id"], who.get("bot_id", "")
        about = await _ask(lambda: client.bots_info(bot=bot, team_id=team), _BOT_START)
        self._app_id, self._team = str(about["bot"]["app_id"]), str(who.get("team"))
        return f"The bot token works: {who.get('user')} in {self._team} ({team})."

    async def _check_app(self, token: str) -> str:
        """Return that an app-level token works. Raises WrongToken, Unreachable."""
        _refuse_other_kind(token, _APP_START)
        found = _APP_OF_TOKEN.match(token)
        if found is None:
            raise WrongToken("This is not the whole token: copy it with its button Copy.")
        if found[1] != self._app_id:
            raise WrongToken(
                f"This token is of another app, {found[1]}, perhaps in another workspace; the bot "
                f"in {self._team} is of {self._app_id}: generate it at {self._page}"
            )
        client = build_client(None, self._api_url, self._session)
        opened = await _ask(lambda: client.apps_connections_open(app_token=token), _APP_START)
        if token != self._known.get(APP):  # else a gateway may run: a click could come to us
            await self._greet(str(opened["url"]))
        return "The app-level token works: Slack answers over Socket Mode."

    async def _greet(self, url: str) -> None:
        """Open a Socket Mode connection, and close it. Raises WrongToken, Unreachable."""
        try:
            async with asyncio.timeout(_HELLO_SECONDS), self._session.ws_connect(url) as socket:
                said = await socket.receive_json()
        except (TimeoutError, aiohttp.ClientError, OSError, TypeError, ValueError) as error:
            raise Unreachable(
                f"Slack takes the token, but no Socket Mode connection opens "
                f"({type(error).__name__}): look at this machine's proxy and firewall"
            ) from error
        if said.get("type") != "hello":
            raise WrongToken(
                f"Slack closes the connection ({said.get('reason')}): turn on Socket Mode on the "
                "app's page, and paste the token again."
            )


def _refuse_other_kind(token: str, start: str) -> None:
    """Raise WrongToken for a token that begins otherwise."""
    if not token.startswith(start):
        kind = next(said for begins, said in _KINDS.items() if token.startswith(begins))
        raise WrongToken(f"This is {kind}: {_WANTED[start]}.")


async def _ask(call: Callable[[], Awaitable[Any]], start: str) -> Any:
    """Return Slack's response to a token. Raises WrongToken, Unreachable."""
    try:
        return await call_for_response(call)
    except SlackRefused as refused:
        why = _WHY.get(refused.error, f"Slack refuses this token ({refused.error})")
        raise WrongToken(f"{why}: {_AGAIN[start]}.") from refused
    except DeliveryFailed as failure:
        raise Unreachable(f"{failure}; run set-up again, it goes on here") from failure
