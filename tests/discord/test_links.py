"""Links to cards in Discord, and from a card to the message that the agent names as its origin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.cards.card import TO_ORIGIN
from gateway.models import Origin
from tests.discord.stage import Stage
from tests.world import over_http


def links(part: Any) -> dict[str, str]:
    """Return the addresses of a message's buttons that open a page, by their labels."""
    return dict(_links(part))


def _links(part: Any) -> Iterator[tuple[str, str]]:
    if isinstance(part, dict):
        if part.get("url"):
            yield part["label"], part["url"]
        for one in part.get("components", ()):
            yield from _links(one)


async def posted_at(stage: Stage, record: Any) -> tuple[str, ...]:
    """Return the addresses that the agent gets, once there are some."""
    while True:
        state = await stage.approvals.fetch(record.id, over_http())
        assert state.record is not None
        if state.record.messages:
            return state.record.messages


async def test_a_card_s_address_names_server_channel_and_message(stage: Stage) -> None:
    """For the agent, the inbox and the audit."""
    record = await stage.ask()
    card = await stage.card(record)
    server = stage.server
    url = f"https://discord.com/channels/{server.guild.id}/{server.channel.id}/{card['id']}"
    assert await posted_at(stage, record) == (url,)
    assert await stage.core.copies.links.link_all(record) == {url: "Open the card in Discord"}
    (event,) = await stage.events("delivered")
    assert event.data["url"] == url


async def test_a_card_in_direct_messages_has_their_address(stage: Stage) -> None:
    """It names no server, and opens for that person alone."""
    await stage.policy(stage.route(targets=(f"discord:@{stage.server.ann.id}",)))
    record = await stage.ask()
    (url,) = await posted_at(stage, record)
    assert url.startswith("https://discord.com/channels/@me/")


async def test_a_card_leads_to_the_message_that_the_agent_names(stage: Stage) -> None:
    """By a button, which has no preview; the ended card has it too."""
    server = stage.server
    place = f"{server.guild.id}/{server.channel.id}"
    record = await stage.ask(origin=Origin(channel="discord", chat=place, message="42"))
    card = await stage.card(record)
    expected = {TO_ORIGIN: f"https://discord.com/channels/{place}/42"}
    assert links(card) == expected
    await stage.click(server.ann, card, "Approve")
    await stage.shows(card, "Approved by ann")
    assert links(card) == expected


@pytest.mark.parametrize(
    "claimed",
    [
        ("77/{channel}", "42"),  # a server without the bot
        ("{channel}", "42"),
        ("@{channel}", "42"),
        ("@me/{channel}", "42"),
        ("{guild}/{channel}/../x", "42"),
        ("{guild}/{channel}", "42/../x"),
        ("{guild}/{channel}", "\u0664\u0662"),
        ("{guild}/\u0664\u0662", "42"),
        ("{guild}/{channel}", "https://evil.example"),
        ("{guild}/{channel}", "42\n"),
        ("{guild}/{channel}", "1" * 400),
        ("https://evil.example/{channel}", "42"),
    ],
)
async def test_what_names_no_message_here_is_no_link(
    stage: Stage, claimed: tuple[str, str]
) -> None:
    """The card is there all the same."""
    server = stage.server
    chat = claimed[0].format(guild=server.guild.id, channel=server.channel.id)
    record = await stage.ask(origin=Origin(channel="discord", chat=chat, message=claimed[1]))
    assert links(await stage.card(record)) == {}
    assert TO_ORIGIN not in (await stage.core.copies.links.link_all(record)).values()
