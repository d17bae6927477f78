"""Connects Discord for `gateway discord setup`: a bot's token is checked, the bot gets a server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

import aiohttp
import discord

from adapters.discord import library
from adapters.discord.connection import log_in
from adapters.discord.permissions_and_checks import build_invite_link, check_endpoint
from adapters.discord.settings import PREFIX, DiscordSettings, read_settings
from gateway.errors import GatewayError, InvalidRequest, Misconfigured
from gateway.ports import FAIL, SetupTerminal, render_safe

TOKEN = f"{PREFIX}TOKEN"
PORTAL = "https://discord.com/developers/applications"
_MAKE = 'Make the bot: name it, "Create"; then "Bot", "Reset Token", and copy the token.'
_JOIN = "Add the bot to your server: choose the server, then Authorize."
_AGAIN = "run `gateway discord setup` again"
_MOST_TRIES = 5
_LOOK_SECONDS, _JOIN_SECONDS = 2.0, 300.0
_MOST_NAMED = 3
_PRIVILEGED = 0xCF000  # flags of an application that may see presences, members or messages

_TOKEN_FORM = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
_OTHER_FORMS = {
    re.compile(r"[0-9]{15,20}"): "This is the application id.",
    re.compile(r"[0-9a-f]{64}"): "This is the public key.",
    re.compile(r"[\w-]{32}", re.ASCII): "This is a client secret.",
}
_WHERE = 'The bot token is on the page "Bot", under "Reset Token"; it has two dots.'
_ENTER = "Then press Enter: the same token is checked again."


class DiscordSetup:
    """How Discord is connected."""

    variables: tuple[str, ...] = (TOKEN,)
    invite = ""
    command = "/approvals"

    async def connect(self, terminal: SetupTerminal, known: Mapping[str, str]) -> dict[str, str]:
        """Have a bot made and added to a server, and return its token.

        Raises InvalidRequest after five wrong tokens, and where the bot is in no server after five
        minutes; GatewayError where Discord does not answer.
        """
        token, client = await _obtain_bot(terminal, known.get(TOKEN, ""))
        try:
            await _wait_for_server(terminal, client)
        finally:
            await client.close()
        return {TOKEN: token}


async def _obtain_bot(terminal: SetupTerminal, token: str) -> tuple[str, discord.Client]:
    """Return a token that works, this one if it does, and a client that is logged in with it."""
    client = await _try_token(terminal, token) if token else None
    if client is None:
        if not token:
            terminal.say(_MAKE)
        terminal.open(PORTAL if token else f"{PORTAL}?new_application=true")
    for _ in range(_MOST_TRIES):
        if client is not None:
            return token, client
        typed = await terminal.ask_secret("The bot's token", TOKEN)
        token = typed.strip().removeprefix("Bot ").strip() or token
        client = await _try_token(terminal, token)
    if client is None:
        raise InvalidRequest(f"none of {_MOST_TRIES} tokens works; {_AGAIN}")
    return token, client


async def _try_token(terminal: SetupTerminal, token: str) -> discord.Client | None:
    """Return a client that is logged in, or say what is wrong. Raises GatewayError where Discord
    does not answer."""
    try:
        client = await _log_in(token)
    except Misconfigured as wrong:
        terminal.say(str(wrong))
        return None
    terminal.say(f"The token works: this is {client.user}, application {client.application_id}.")
    if client.application and client.application.flags.value & _PRIVILEGED:
        page = f"{PORTAL}/{client.application_id}/bot"
        terminal.say(f"It needs none of the Privileged Gateway Intents: turn them off ({page}).")
    return client


async def _log_in(token: str) -> discord.Client:
    """Return a client that is logged in. Raises Misconfigured, which says what is wrong with the
    token or with the bot's settings in the portal, and GatewayError where Discord does not
    answer."""
    if not token:
        raise Misconfigured(f"Nothing was pasted. {_WHERE}")
    if not _TOKEN_FORM.fullmatch(token):
        other = (says for form, says in _OTHER_FORMS.items() if form.fullmatch(token))
        raise Misconfigured(f"{next(other, 'This is not a bot token.')} {_WHERE}")
    settings = read_settings(token)
    library.prepare(settings)
    client = await log_in(settings)
    try:
        _check_portal(client, settings)
    except Misconfigured:
        await client.close()
        raise
    return client


def _check_portal(client: discord.Client, settings: DiscordSettings) -> None:
    """Raise Misconfigured for a setting of the bot in the portal that would make it useless."""
    application = client.application
    if application is None:
        return
    page = f"{PORTAL}/{application.id}"
    endpoint = check_endpoint(client, settings)
    # Over HTTP the URL is set later: Discord tries it, and nothing listens yet.
    if endpoint.result == FAIL and application.interactions_endpoint_url:
        said = f"{endpoint.says}: {endpoint.remedy} ({page}/information)"
        raise Misconfigured(f"{said}. {_ENTER}")
    if application.bot_require_code_grant:
        said = 'the bot cannot be added by a link: turn off "Requires OAuth2 Code Grant"'
        raise Misconfigured(f"{said} ({page}/bot). {_ENTER}")


async def _wait_for_server(terminal: SetupTerminal, client: discord.Client) -> None:
    """Return once the bot is in a server. Raises InvalidRequest when that takes too long."""
    link = build_invite_link(client)
    servers = await _list_servers(client)
    if servers:
        terminal.say(f"To add the bot to another server: {link}")
    else:
        terminal.say(_JOIN)
        terminal.open(link)
    try:
        async with asyncio.timeout(_JOIN_SECONDS):
            while not servers:
                await asyncio.sleep(_LOOK_SECONDS)
                servers = await _list_servers(client)
    except TimeoutError:
        raise InvalidRequest(f"the bot is in no server yet; add it, then {_AGAIN}") from None
    named = ", ".join(render_safe(one).text for one in servers[:_MOST_NAMED])
    terminal.say(f"The bot is in {named}{' and others' if servers[_MOST_NAMED:] else ''}.")


async def _list_servers(client: discord.Client) -> list[str]:
    """Return the names of the bot's first servers, none while Discord does not answer."""
    try:
        found = client.fetch_guilds(limit=_MOST_NAMED + 1, with_counts=False)
        return [guild.name async for guild in found]
    except (discord.DiscordServerError, aiohttp.ClientError, OSError):
        return []
    except discord.HTTPException as error:
        raise GatewayError(f"Discord names no servers of the bot ({error.status})") from error
