"""Cards in the thread where the conversation began, in Discord, and how agents could abuse that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.models import Origin, Status
from gateway.ports.outgoing import CopyState
from tests.discord.stage import AGENT, Stage, private_text
from tests.discord.town import Channel, Json
from tests.waiting import moment
from tests.world import over_http


@dataclass
class Talk:
    """A gateway, a channel `talk` with a thread where eve asked the agent something."""

    stage: Stage
    channel: Channel
    thread: Channel

    @property
    def origin(self) -> Origin:
        """What the agent names."""
        chat = f"{self.stage.server.guild.id}/{self.channel.id}"
        return Origin(
            channel="discord", chat=chat, thread=self.thread.id, sender=self.stage.server.eve.id
        )

    @property
    def target(self) -> str:
        """What the gateway calls it."""
        return f"discord:origin/{self.origin.chat}/{self.thread.id}"

    def route(self, **changes: Any) -> Route:
        """Return a route for this conversation, or else the channel `approvals`."""
        values: Json = {
            "agents": (AGENT,),
            "targets": ("origin", self.stage.target),
            "origins": (f"discord:{self.origin.chat}",),
        }
        return self.stage.route(**{**values, **changes})

    @property
    def everywhere(self) -> Route:
        """Return a route that allows the whole server."""
        return self.route(origins=(f"discord:{self.stage.server.guild.id}/",))

    async def refused(self, said: str, **changes: Any) -> StoredRequest:
        """Ask from a place that takes no card: it is in `approvals`, and the audit says why."""
        record = await self.stage.ask(origin=replace(self.origin, **changes))
        await self.stage.card(record)
        assert said in await self.why(record)
        assert not self.thread.messages
        return record

    async def why(self, record: StoredRequest) -> str:
        """Return why a card is not where its conversation is, as the audit has it."""
        for event in await self.stage.events("submitted", "undelivered"):
            about = record.id in (event.request_id, event.data.get("request_id"))
            if about and (said := event.data.get("origin_refused") or event.data.get("why")):
                return str(said)
        raise AssertionError("the audit has no reason")


@pytest.fixture
async def talk(stage: Stage) -> AsyncIterator[Talk]:
    """Have a conversation begin in a thread of the channel `talk`."""
    town = stage.server.discord.town
    channel = town.channel(stage.server.guild, "talk")
    made = Talk(stage, channel, town.thread(channel, "clean up, please"))
    await stage.policy(made.route())
    yield made


async def test_the_card_is_in_the_thread_and_only_approvers_decide_there(talk: Talk) -> None:
    """Nothing is in `approvals`; eve, who talks with the agent, may not decide, ann may."""
    stage, server = talk.stage, talk.stage.server
    record = await stage.ask(origin=talk.origin)
    card = await stage.card(record, talk.thread)
    done = await stage.click(server.eve, card, "Approve", channel=talk.thread)
    await stage.seen(lambda: "not an approver" in private_text(done))
    await stage.click(server.ann, card, "Approve", channel=talk.thread)
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.shows(card, "Approved")
    assert not server.channel.messages
    assert not talk.channel.messages


async def test_a_conversation_without_a_thread_is_its_channel(talk: Talk) -> None:
    """The agent was asked in the channel itself."""
    record = await talk.stage.ask(origin=replace(talk.origin, thread=None))
    await talk.stage.card(record, talk.channel)


async def test_a_reminder_is_in_the_thread(talk: Talk) -> None:
    """It replies to the card, and on a discreet route names only agent and risk."""
    await talk.stage.policy(talk.route(remind_after=(0.1,), discreet=True))
    await talk.stage.ask(origin=talk.origin)
    await talk.stage.seen(lambda: len(talk.thread.messages) == 2)
    _, reminder = talk.thread.messages.values()
    assert "Still pending: bot asks for approval, medium risk" in reminder["content"]


@pytest.mark.parametrize("member", ["archived", "locked"])
async def test_a_closed_thread_gets_no_card(talk: Talk, member: str) -> None:
    """Nor does a post open it again."""
    setattr(talk.thread, member, True)
    await talk.refused(f"the thread is {member}")
    assert getattr(talk.thread, member)


async def test_a_thread_that_is_archived_later_shows_the_decision(talk: Talk) -> None:
    """As for other targets: the edit opens it."""
    stage = talk.stage
    record = await stage.ask(origin=talk.origin)
    card = await stage.card(record, talk.thread)
    talk.thread.archived = True
    await stage.click(stage.server.ann, card, "Approve", channel=talk.thread)
    await stage.shows(card, "Approved")


async def test_a_deleted_thread_gets_no_card(talk: Talk) -> None:
    """The first message and its thread are gone before the card is posted."""
    town = talk.stage.server.discord.town
    del town.channels[talk.thread.id], talk.stage.server.guild.channels[talk.thread.id]
    await talk.refused("the channel no longer exists")


async def test_a_thread_that_is_deleted_later_sends_the_request_on(talk: Talk) -> None:
    """The next target gets a card at once, and it is answered there."""
    stage, server = talk.stage, talk.stage.server
    record = await stage.ask(origin=talk.origin)
    await stage.card(record, talk.thread)
    await posted(talk, record)
    told = talk.thread.json()
    del server.discord.town.channels[talk.thread.id], server.guild.channels[talk.thread.id]
    await server.discord.gateway.send_raw("THREAD_DELETE", told)
    card = await stage.card(record)
    await stage.click(server.ann, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED


async def test_a_card_that_people_keep_deleting_there_goes_elsewhere(talk: Talk) -> None:
    """Two more cards in the thread; then the next target."""
    stage = talk.stage
    record = await stage.ask(origin=talk.origin)
    for _ in range(3):
        card = await stage.card(record, talk.thread)
        await posted(talk, record)
        stage.server.discord.board.delete(talk.thread, card["id"])
    await stage.card(record)


async def posted(talk: Talk, record: StoredRequest) -> None:
    """Wait until the place of the card in the conversation is written down."""
    async with asyncio.timeout(40):
        while True:
            copy = (await talk.stage.outbox.copies(record.id)).get(talk.target)
            if copy is not None and copy.ref is not None and copy.state is CopyState.POSTED:
                return
            await moment()


async def test_what_is_not_on_the_list_gets_no_card(talk: Talk) -> None:
    """Another channel, and one whose id begins alike: the next target."""
    other = talk.stage.server.discord.town.channel(talk.stage.server.guild, "other")
    guild = talk.stage.server.guild.id
    for chat in (f"{guild}/{other.id}", f"{talk.origin.chat}0", f"{guild}/{talk.thread.id}"):
        await talk.refused("is not in the `origins`", chat=chat, thread=None)
    assert not other.messages


async def test_a_thread_of_another_channel_gets_no_card(talk: Talk) -> None:
    """The channel is on the list; the thread is not in it, or is no thread."""
    town = talk.stage.server.discord.town
    other = town.channel(talk.stage.server.guild, "other")
    secret = town.thread(other, "secret")
    for place in (secret, other):
        await talk.refused("the thread is not in the channel", thread=place.id)
        assert not place.messages


async def test_another_server_gets_no_card(talk: Talk) -> None:
    """The whole server is on the list; the agent puts its id before a channel of another one."""
    server = talk.stage.server
    far = server.discord.town.guild("Far", server.discord.town.user("far"))
    server.discord.town.join(far, server.app.user)
    there = server.discord.town.channel(far, "there")
    await talk.stage.policy(talk.everywhere)
    chat = f"{server.guild.id}/{there.id}"
    await talk.refused(
        "does not belong to the server that the target names", chat=chat, thread=None
    )
    await talk.refused("is not in the `origins`", chat=f"{far.id}/{there.id}", thread=None)
    assert not there.messages


async def test_direct_messages_are_no_origin(talk: Talk) -> None:
    """Of somebody else with the bot, in whatever way the agent writes it."""
    server = talk.stage.server
    direct = server.discord.town.direct(server.app.user, server.bob.user)
    await talk.stage.policy(talk.everywhere)
    chat = f"{server.guild.id}/{direct.id}"
    await talk.refused(
        "does not belong to the server that the target names", chat=chat, thread=None
    )
    for chat in (f"@{server.bob.id}", server.bob.id, f"@me/{direct.id}"):
        await talk.refused("is not written as", chat=chat, thread=None)
    assert not direct.messages


@pytest.mark.parametrize("tail", ["\n", "/1", "/../2", "٣", " ", "@everyone", "x" * 100_000])
async def test_hostile_text_names_no_conversation(talk: Talk, tail: str) -> None:
    """Neither as chat nor as thread; the audit does not repeat it."""
    for changes in ({"chat": f"{talk.origin.chat}{tail}"}, {"thread": f"{talk.thread.id}{tail}"}):
        record = await talk.refused("", **changes)
        assert len(await talk.why(record)) < 200


async def test_a_repeated_call_moves_no_card(talk: Talk) -> None:
    """The same call id with another origin: the first one counts."""
    stage = talk.stage
    await stage.policy(talk.everywhere)
    other = stage.server.discord.town.channel(stage.server.guild, "other")
    record = await stage.ask(origin=talk.origin, call_id="call-1")
    await stage.card(record, talk.thread)
    moved = replace(talk.origin, chat=f"{stage.server.guild.id}/{other.id}", thread=None)
    again, new = await stage.approvals.submit(replace(record.request, origin=moved), over_http())
    assert not new
    assert again.conversation == talk.target
    assert not other.messages
