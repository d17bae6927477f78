"""A wire-level Discord with one server, and real discord.py pointed at it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import discord
import pytest
import yarl
from discord.gateway import DiscordWebSocket

from tests.discord import stage as stages
from tests.discord.furnished import Server, furnished
from tests.discord.server import running_discord


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """Serve a Discord on loopback, and point discord.py of this process at it."""
    async with running_discord() as fake:
        monkeypatch.setattr(discord.http.Route, "BASE", fake.api_base)
        monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(fake.gateway_url))
        yield furnished(fake)


@pytest.fixture
async def stage(
    server: Server,
    server_url: str,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[stages.Stage]:
    """Run a gateway with the Discord adapter, connected."""
    stages.environment(monkeypatch, server)
    async with stages.staged(server, server_url, namespace, tmp_path) as made:
        yield made
