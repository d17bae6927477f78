"""Run `gateway discord setup`: check the bot's token and wait until the bot is in a server; start
with `DiscordSetup.connect`."""

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
from gateway.ports import FAIL, ChatSetup, SetupTerminal, render_safe

TOKEN = f"{PREFIX}TOKEN"
PORTAL = "https://discord.com/developers/applications"
_MAKE = 'Open your application or "Create" one; then "Bot", "Reset Token", and copy the token.'
_AGAIN = "run `gateway discord setup` again"
_ENTER = "Then press Enter to check the same token again."
_MOST_TRIES, _MOST_NAMED = 5, 10
_LOOK_SECONDS, _JOIN_SECONDS = 2.0, 300.0
_PRIVILEGED = 0xCF000  # flags of an application that may see presences, members or messages
_FORM = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
_OTHER_FORMS = {
    r"": "Nothing was pasted.",
    r"[0-9]{15,20}": "You pasted the application id, not the bot token.",
    r"[0-9a-f]{64}": "You pasted the public key, not the bot token.",
    r"[A-Za-z0-9_-]{32}": "You pasted a client secret, not the bot token.",
}
_WHERE = 'The bot token is on the page "Bot", under "Reset Token"; it has two dots.'


class DiscordSetup(ChatSetup):
    """Asks for the bot's token, checks it, and guides the operator until the bot has a server."""

    variables: tuple[str, ...] = (TOKEN,)
    command = "/approvals"
    option = "code:"  # Discord drops text that belongs to no option

    async def connect(self, terminal: SetupTerminal, known: Mapping[str, str]) -> dict[str, str]:
        """Guide the operator to create a bot and add it to a server; return its token.

        Raises InvalidRequest after five wrong tokens, or if the bot has no server after five
        minutes. Raises GatewayError if Discord does not answer.
        """
        token, client = await _obtain_bot(terminal, known.get(TOKEN, ""))
        try:
            terminal.keep(TOKEN, token)
            await _wait_for_server(terminal, client)
        finally:
            await client.close()
        return {TOKEN: token}


async def _obtain_bot(terminal: SetupTerminal, token: str) -> tuple[str, discord.Client]:
    """Return a working token, this one if it works, and a client that is logged in with it."""
    client = await _try_token(terminal, token) if token else None
    if client is None:
        terminal.say(_MAKE)
        terminal.open(PORTAL if token else f"{PORTAL}?new_application=true")
    tries = 0
    while client is None:
        if tries == _MOST_TRIES:
            raise InvalidRequest(f"all {tries} tokens failed; {_AGAIN}")
        tries += 1
        typed = await terminal.ask_secret("The bot's token", TOKEN)
        token = typed.strip().removeprefix("Bot ").strip() or token
        client = await _try_token(terminal, token)
    return token, client


async def _try_token(terminal: SetupTerminal, token: str) -> discord.Client | None:
    """Return a client that is logged in. If the token or the bot's settings in the portal are
    wrong, say why and return None. Raises GatewayError if Discord does not answer."""
    if not _FORM.fullmatch(token):
        other = (says for form, says in _OTHER_FORMS.items() if re.fullmatch(form, token))
        terminal.say(f"{next(other, 'This is not a bot token.')} {_WHERE}")
        return None
    settings = read_settings(token)
    library.prepare(settings)
    try:
        client = await log_in(settings)
    except Misconfigured as refused:
        terminal.say(f"{refused}.")
        return None
    page = f"{PORTAL}/{client.application_id}"
    if wrong := _find_mistake(client, settings, page):
        terminal.say(f"{wrong}. {_ENTER}")
        await client.close()
        return None
    terminal.say(f"The token works: this is {client.user}, application {client.application_id}.")
    if client.application and client.application.flags.value & _PRIVILEGED:
        terminal.say(f"It needs no Privileged Gateway Intents: turn them off ({page}/bot).")
    return client


def _find_mistake(client: discord.Client, settings: DiscordSettings, page: str) -> str:
    """Describe a portal setting that would make the bot useless; return "" if all are fine."""
    endpoint = check_endpoint(client, settings)
    # Over HTTP the URL is set later: Discord calls it at once, and nothing listens yet.
    if endpoint.result == FAIL and settings.public_key is None:
        return f"{endpoint.says}: {endpoint.remedy} ({page}/information)"
    if client.application and client.application.bot_require_code_grant:
        return f'no link can add the bot: turn off "Requires OAuth2 Code Grant" ({page}/bot)'
    return ""


async def _wait_for_server(terminal: SetupTerminal, client: discord.Client) -> None:
    """Wait until the bot is in a server. Raises InvalidRequest after five minutes."""
    servers = await _list_servers(client)
    if not servers:
        terminal.say("Add the bot to your server: choose the server, then Authorize.")
        terminal.open(build_invite_link(client))
        terminal.say("Waiting until the bot is there …")
    try:
        async with asyncio.timeout(_JOIN_SECONDS):
            while not servers:
                await asyncio.sleep(_LOOK_SECONDS)
                servers = await _list_servers(client)
    except TimeoutError:
        raise InvalidRequest(f"the bot is not in a server yet; add it, then {_AGAIN}") from None
    named = ", ".join(render_safe(one).text for one in servers)
    terminal.say(f"The bot is in {named}. To add it elsewhere: gateway discord invite")


async def _list_servers(client: discord.Client) -> list[str]:
    """Return the names of the bot's first servers; empty while Discord does not answer."""
    try:
        found = client.fetch_guilds(limit=_MOST_NAMED, with_counts=False)
        return [guild.name async for guild in found]
    except (discord.DiscordServerError, aiohttp.ClientError, OSError):
        return []
    except discord.HTTPException as error:
        raise GatewayError(f"cannot list the bot's servers ({error.status})") from error
