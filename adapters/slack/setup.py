"""Run `gateway slack setup`: guide the operator to create and install the app, and check both
tokens; start with `SlackSetup.connect`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
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
from gateway.ports import ChatSetup, DeliveryFailed, SetupTerminal

BOT, APP = "GATEWAY_SLACK_BOT_TOKEN", "GATEWAY_SLACK_APP_TOKEN"
_APPS = "https://api.slack.com/apps"
_TRIES, _HELLO_SECONDS = 5, 10.0
_MAKE = (
    "Create the app: choose the workspace, and press Next, then Create. (If you have an app "
    "already, choose it at api.slack.com/apps.) Then open OAuth & Permissions in the sidebar. "
    "Press Install to Workspace, then Allow, and copy the Bot User OAuth Token. If the link does "
    "not open, press Create New App, choose From a manifest, and paste the output of `gateway "
    "slack manifest`."
)
_GENERATE = (
    "Under App-Level Tokens press Generate Token and Scopes, give it a name, add "
    "connections:write, press Generate, and copy the token."
)
_NETWORK = "check the network, the firewall and HTTPS_PROXY, then run `gateway slack setup` again"
_STARTS = {BOT: "xoxb-", APP: "xapp-"}
_PAGES = {BOT: "OAuth & Permissions", APP: "Basic Information, under App-Level Tokens"}
_KINDS = {
    "xoxb-": "a bot token",
    "xapp-": "an app-level token",
    "xoxp-": "a user token",
    "xoxe": "an app configuration token",
    "": "no app token",
}
_WHY = {
    "invalid_auth": "Slack does not know this token",
    "token_revoked": "This token was revoked",
    "account_inactive": "The app was removed from the workspace",
    "missing_scope": "This token lacks the scope connections:write",
}
_AGAIN = {
    BOT: "copy the token again, or reinstall the app and copy the new token",
    APP: "copy the token again, or generate a new token with connections:write",
}


class WrongSlackToken(GatewayError):
    """The token is unusable; the message says why and what to do."""

    code = "wrong_token"


class SlackSetup(ChatSetup):
    """Asks for both Slack tokens and checks them."""

    variables: tuple[str, ...] = (BOT, APP)
    invite = INVITE
    command = COMMAND

    async def connect(self, terminal: SetupTerminal, known: Mapping[str, str]) -> dict[str, str]:
        """Return both tokens, after checks. Raises InvalidRequest after five wrong tokens, or if
        settings use another mode; raises Unreachable if Slack does not answer."""
        settings = SlackSettings()
        if settings.mode != "socket" or settings.oauth:
            raise InvalidRequest(
                "`gateway slack setup` supports only socket mode: unset GATEWAY_SLACK_MODE and "
                "GATEWAY_SLACK_CLIENT_ID"
            )
        async with open_session() as session:
            checks = _SlackTokens(terminal, known, settings.api_url, session)
            bot = await checks.find(BOT, checks.check_bot, _MAKE, build_create_link())
            app = await checks.find(APP, checks.check_app, _GENERATE, checks.page)
        return {BOT: bot, APP: app}


def build_create_link() -> str:
    """Build the link that creates the app; it contains the manifest."""
    manifest = json.dumps(build_manifest(), separators=(",", ":"))
    return f"{_APPS}?new_app=1&manifest_json={quote(manifest, safe='')}"


@dataclass
class _SlackTokens:
    """Finds and checks the tokens. Both must belong to the same app; the bot token names it."""

    terminal: SetupTerminal
    known: Mapping[str, str]
    api_url: str
    session: aiohttp.ClientSession
    app_id: str = ""
    page: str = ""  # the address where the app gets app-level tokens
    team: str = ""

    async def find(
        self, variable: str, check: Callable[[str], Awaitable[str]], lead: str, link: str
    ) -> str:
        """Return a working token: the known one, or one that the operator pastes."""
        token = self.known.get(variable, "")
        for left in reversed(range(_TRIES + 1)):
            if token or left < _TRIES:
                try:
                    _refuse_other_kind(token, variable)
                    self.terminal.say(await check(token))
                    self.terminal.keep(variable, token)
                except WrongSlackToken as wrong:
                    self.terminal.say(str(wrong))
                else:
                    return token
            if left == _TRIES:
                self.terminal.say(lead)
                self.terminal.open(link)
            if left:
                asked = await self.terminal.ask_secret(f"Token ({_STARTS[variable]}…)", variable)
                token = asked.strip()
        raise InvalidRequest(f"all {_TRIES} tokens failed; run `gateway slack setup` again")

    async def check_bot(self, token: str) -> str:
        """Check a bot token, note its app, and say that it works. Raises WrongSlackToken,
        Unreachable."""
        client = build_client(token, self.api_url, self.session)
        who = await _ask(client.auth_test, BOT)
        if missing := [scope for scope in BOT_SCOPES if scope not in read_scopes(who)]:
            raise WrongSlackToken(
                f"The app lacks {', '.join(missing)}: add it under OAuth & Permissions, reinstall "
                "the app, and paste its token again."
            )
        bot, team = who.get("bot_id", ""), who["team_id"]
        about = await _ask(lambda: client.bots_info(bot=bot, team_id=team), BOT)
        self.app_id, self.team = str(about["bot"]["app_id"]), f"{who.get('team')} ({team})"
        self.page = f"{_APPS}/{self.app_id}/general"
        return f"The bot token works: {who.get('user')} in {self.team}."

    async def check_app(self, token: str) -> str:
        """Check an app-level token, and say that it works. Raises WrongSlackToken, Unreachable."""
        found = re.match(r"xapp-[0-9]+-(A[A-Z0-9]+)", token)
        if found is not None and found[1] != self.app_id:
            raise WrongSlackToken(
                f"This token belongs to another app, {found[1]}, perhaps in another workspace. The "
                f"bot in {self.team} belongs to {self.app_id}: generate the token at {self.page}"
            )
        client = build_client(None, self.api_url, self.session)
        opened = await _ask(lambda: client.apps_connections_open(app_token=token), APP)
        if token != self.known.get(APP):  # a running gateway may use it: this would steal clicks
            await self._greet(str(opened["url"]))
        return "The app-level token works: Slack responds over Socket Mode."

    async def _greet(self, url: str) -> None:
        """Open and close a Socket Mode connection. Raises WrongSlackToken, Unreachable."""
        try:
            async with asyncio.timeout(_HELLO_SECONDS), self.session.ws_connect(url) as socket:
                said = await socket.receive_json()
        except (TimeoutError, aiohttp.ClientError, OSError, TypeError, ValueError) as error:
            why = f"cannot open a Socket Mode connection ({type(error).__name__})"
            raise Unreachable(f"{why}: {_NETWORK}") from error
        if said.get("type") != "hello":
            why = f"Slack closes the connection ({said.get('reason')})"
            raise WrongSlackToken(
                f"{why}: turn on Socket Mode in the app, and paste the token again."
            )


def _refuse_other_kind(token: str, variable: str) -> None:
    start = _STARTS[variable]
    if not token.startswith(start):
        kind = next(said for begins, said in _KINDS.items() if token.startswith(begins))
        raise WrongSlackToken(
            f"You pasted {kind}. The right token begins with {start}; find it on the page "
            f"{_PAGES[variable]}."
        )


async def _ask(call: Callable[[], Awaitable[Any]], variable: str) -> Any:
    """Call Slack with a token; return its response. Raises WrongSlackToken, Unreachable."""
    try:
        return await call_for_response(call)
    except SlackRefused as refused:
        why = _WHY.get(refused.error, f"Slack rejects this token ({refused.error})")
        raise WrongSlackToken(f"{why}: {_AGAIN[variable]}.") from refused
    except DeliveryFailed as failure:
        raise Unreachable(f"{failure}: {_NETWORK}") from failure
