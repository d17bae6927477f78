"""The example of an agent in Discord, as its own bot beside the gateway's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.ports import cancel_and_wait
from tests.discord.messages import shown_text
from tests.discord.stage import AGENT, Stage
from tests.discord.test_origin import Talk, talk
from tests.discord.town import Json
from tests.slack.test_origin_example import load

__all__ = ["talk"]


async def asked_in_thread(talk: Talk, bot_id: str, path: Path) -> Json:
    """Have eve mention the agent in the thread; return the gateway's card there."""
    server = talk.stage.server
    text = {"content": f"<@{bot_id}> delete {path}"}
    server.discord.board.create(server.eve.user, talk.thread, text, [])

    def card() -> Json | None:
        cards = (one for one in talk.thread.messages.values() if path.name in shown_text(one))
        return next((one for one in cards if one["author"]["id"] == server.app.user.id), None)

    found: Json = await talk.stage.seen(card)
    return found


@pytest.mark.usefixtures("own_clients")
async def test_its_cards_are_where_it_is_asked(
    talk: Talk, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eve asks in a thread; ann approves there, and the agent answers there."""
    server = stage.server
    app = server.discord.application("agent", server.eve.user)
    server.discord.town.join(server.guild, app.user)
    old = tmp_path / "old.txt"
    old.write_text("x", encoding="utf-8")
    made = await stage.gateway.backend.credentials.add_agent(AGENT)
    monkeypatch.setenv("GATEWAY_URL", stage.gateway.url)
    monkeypatch.setenv("GATEWAY_TOKEN", made.token)
    monkeypatch.setenv("GATEWAY_AGENT", AGENT)
    agent = load("discord")
    lines = server.discord.gateway.connected
    running = asyncio.create_task(agent.bot.start(app.token))
    try:
        await server.discord.gateway.until(lambda: server.discord.gateway.connected > lines)
        card = await asked_in_thread(talk, app.user.id, old)
        await stage.click(server.ann, card, "Approve", channel=talk.thread)
        await stage.seen(
            lambda: any(
                one["author"]["id"] == app.user.id and one["content"] == f"deleted {old}"
                for one in talk.thread.messages.values()
            )
        )
        assert not old.exists()
    finally:
        await agent.bot.close()
        await cancel_and_wait(running)
    assert not server.channel.messages
