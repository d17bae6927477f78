"""A wire-level Discord with one server, and real discord.py pointed at it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import discord
import pytest
import yarl
from discord.gateway import DiscordWebSocket

from tests.discord.person import Person
from tests.discord.server import FakeDiscord, running_discord
from tests.discord.town import Application, Channel, Guild


@dataclass
class Server:
    """A Discord with the server Acme: its channel `approvals`, a bot in it, ann, bob and eve."""

    discord: FakeDiscord
    guild: Guild
    channel: Channel
    app: Application
    ann: Person
    bob: Person
    eve: Person


def furnished(fake: FakeDiscord) -> Server:
    """Make the server that most tests use; its owner is nobody's approver."""
    owner = fake.town.user("owner")
    guild = fake.town.guild("Acme", owner)
    app = fake.application("gateway", owner)
    fake.town.join(guild, app.user)
    people = [fake.person(name) for name in ("ann", "bob", "eve")]
    for person in people:
        fake.town.join(guild, person.user)
    channel = fake.town.channel(guild, "approvals")
    return Server(fake, guild, channel, app, *people)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """Serve a Discord on loopback, and point discord.py of this process at it."""
    async with running_discord() as fake:
        monkeypatch.setattr(discord.http.Route, "BASE", fake.api_base)
        monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(fake.gateway_url))
        yield furnished(fake)
