"""A wire-level Discord with one server, and real discord.py pointed at it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import discord
import pytest
import yarl
from discord.gateway import DiscordWebSocket

from tests.discord.furnished import Server, furnished
from tests.discord.ground import Ground
from tests.discord.server import running_discord
from tests.discord.stage import Stage, environment


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """Serve a Discord on loopback, and point discord.py of this process at it."""
    async with running_discord() as fake:
        monkeypatch.setattr(discord.http.Route, "BASE", fake.api_base)
        monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(fake.gateway_url))
        yield furnished(fake)


@pytest.fixture
def ground(
    server: Server,
    server_url: str,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Ground:
    """Set what an operator sets for Discord; return where gateways stand."""
    environment(monkeypatch, server)
    return Ground(server, server_url, namespace, tmp_path)


@pytest.fixture
async def stage(ground: Ground) -> AsyncIterator[Stage]:
    """Run a gateway with the Discord adapter, connected."""
    async with ground.staged() as made:
        yield made
