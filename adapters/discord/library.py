"""Wrap every undocumented part of discord.py that the gateway uses; start with `prepare`.

If a documented alternative exists, it is the fallback. Otherwise `prepare` reports at startup what
the installed version lacks. pyproject.toml allows only the tested versions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from urllib.request import getproxies, proxy_bypass

import discord
import yarl

from adapters.discord.settings import DiscordSettings
from gateway.errors import Misconfigured
from gateway.ports import (
    JsonObject,
)

# These have no documented alternative: the API addresses, the keep-alive threads, and the calls
# that list and register commands, and read messages, as JSON.
_NEEDED = (
    "gateway.DiscordWebSocket.DEFAULT_GATEWAY",
    "gateway.KeepAliveHandler",
    "http.HTTPClient.get_global_commands",
    "http.HTTPClient.get_message",
    "http.HTTPClient.upsert_global_command",
    "http.Route.BASE",
)
_SLASH = 1
_STATE = "_connection"  # of a client; each interaction and each connection refers to it


def prepare(settings: DiscordSettings) -> None:
    """Check the installed discord.py, and set the API addresses from the settings.

    Raises Misconfigured if the installed version lacks a needed part that has no fallback.
    """
    discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # nobody speaks here
    logging.getLogger("discord.client").addFilter(_QUIET)  # once, however often it is added
    if lacking := _find_missing():
        raise Misconfigured(
            f"discord.py {discord.__version__} lacks {', '.join(lacking)}"
            ", which the gateway needs: install a version that the gateway's requirements allow"
        )
    if settings.api_base is not None:
        discord.http.Route.BASE = settings.api_base
    if settings.gateway_url is not None:
        discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(settings.gateway_url)


def find_proxy() -> str | None:
    """Return the proxy that the environment names for Discord (HTTPS_PROXY, NO_PROXY)."""
    host = yarl.URL(discord.http.Route.BASE).host or ""
    return None if proxy_bypass(host) else getproxies().get("https")


class _Quiet(logging.Filter):
    """Logs a reconnect as one INFO line instead of an error with a traceback.

    Reconnects are normal. `Connection.problems` reports a connection that stays lost.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Downgrade the record if it reports a reconnect. Always return True."""
        if record.levelno == logging.ERROR and "reconnect" in str(record.msg):
            record.levelno, record.levelname = logging.INFO, "INFO"
            record.exc_info = record.exc_text = None
        return True


_QUIET = _Quiet()


def read_interaction(client: discord.Client, payload: JsonObject) -> discord.Interaction:
    """Build the interaction that a payload describes. Can raise any error of discord.py."""
    data: Any = payload
    return discord.Interaction(data=data, state=client._connection)


def role_ids(member: discord.Member) -> Sequence[int]:
    """Return the role ids from a member's payload, without `@everyone`.

    The fallback is the documented `roles`. It omits roles of servers that are not cached.
    """
    listed: Sequence[int] | None = getattr(member, "_roles", None)
    if listed is None:
        return [role.id for role in member.roles if not role.is_default()]
    return listed


async def close_new_sockets(client: discord.Client) -> None:
    """Close the client's sockets that have no session yet. discord.py would leave each open, with
    a thread that sends heartbeats."""
    for thread in threading.enumerate():
        if isinstance(thread, discord.gateway.KeepAliveHandler):
            socket = thread.ws
            if socket._connection is client._connection:
                await socket.close(code=1000)


async def read_message(client: discord.Client, message: discord.Message) -> JsonObject:
    """Read a message as Discord's own JSON: discord.py drops the members it does not know."""
    found: Any = await client.http.get_message(message.channel.id, message.id)
    return dict(found)


async def list_commands(client: discord.Client, application: int) -> set[str]:
    """Return the names of all registered slash commands, also those of other programs."""
    found = await client.http.get_global_commands(application)
    return {one["name"] for one in found if one.get("type", _SLASH) == _SLASH}


async def register_command(
    client: discord.Client, application: int, definition: JsonObject
) -> None:
    """Register one command; it replaces a command of the same name."""
    content: Any = definition
    await client.http.upsert_global_command(application, content)


def _find_missing() -> list[str]:
    lacking = [name for name in _NEEDED if not _has(name)]
    if not hasattr(discord.Client(intents=discord.Intents(guilds=True)), _STATE):
        lacking.append(f"Client.{_STATE}")
    return lacking


def _has(name: str) -> bool:
    try:
        attrgetter(name)(discord)
    except AttributeError:
        return False
    return True
