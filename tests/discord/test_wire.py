"""The wire-level Discord itself, against real discord.py: what later tests rely on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import discord
import pytest

from tests.discord.furnished import Server
from tests.discord.interactions import UPDATE
from tests.discord.messages import shown_text
from tests.discord.person import NotShown


class Bot(discord.Client):
    """Real discord.py that keeps what it is told."""

    def __init__(self, intents: discord.Intents | None = None) -> None:
        super().__init__(intents=intents or discord.Intents(guilds=True))
        self._connection.guild_ready_timeout = 0.05
        self.came: asyncio.Queue[discord.Interaction] = asyncio.Queue()
        self.resumes = 0

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self.came.put_nowait(interaction)

    async def on_resumed(self) -> None:
        self.resumes += 1

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        return None


@asynccontextmanager
async def logged_in(server: Server, bot: Bot | None = None) -> AsyncIterator[Bot]:
    """Run a bot until it is ready, and close it afterwards."""
    made = bot or Bot()
    task = asyncio.create_task(made.start(server.app.token))
    ready = asyncio.create_task(_ready(made, server))
    try:
        await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        assert ready.done(), task.exception()
        yield made
    finally:
        await made.close()
        await asyncio.gather(task, return_exceptions=True)


async def _ready(bot: Bot, server: Server) -> None:
    await server.discord.gateway.until(lambda: server.discord.gateway.connected > 0)
    await bot.wait_until_ready()


def card(*ids: str) -> discord.ui.LayoutView:
    """Return a message with a text and one button for each id, that nobody listens to here."""
    view = discord.ui.LayoutView(timeout=None)
    row: discord.ui.ActionRow[Any] = discord.ui.ActionRow()
    for one in ids:
        row.add_item(discord.ui.Button(label=one.title(), custom_id=one))
    view.add_item(discord.ui.Container(discord.ui.TextDisplay("Shall I?"), row))
    view.stop()
    return view


async def posted(bot: Bot, server: Server, *ids: str) -> discord.Message:
    """Post a card with these buttons to the channel of approvals."""
    channel = bot.get_partial_messageable(int(server.channel.id))
    return await channel.send(view=card(*(ids or ("yes", "no"))))


async def test_a_bot_logs_in_posts_and_is_clicked(server: Server) -> None:
    """Login, GUILD_CREATE, a V2 message, a click by label and its type-7 answer all work."""
    async with logged_in(server) as bot:
        guild = bot.get_guild(int(server.guild.id))
        assert guild is not None and guild.me.id == int(server.app.id)
        message = await posted(bot, server)
        shown = server.channel.messages[str(message.id)]
        click = await server.ann.click(server.app, server.channel, shown, "Yes", wait=False)
        interaction = await bot.came.get()
        assert interaction.custom_id == "yes"
        await interaction.response.edit_message(view=card("undo"))
        assert (await server.ann.outcome(click)).answer == UPDATE
        assert shown_text(shown) == "Shall I?"
        with pytest.raises(NotShown):
            await server.ann.click(server.app, server.channel, shown, "Yes")


async def test_the_second_and_the_late_answer_are_refused(server: Server) -> None:
    """40060 for a second answer, 10062 after three seconds, 10015 and 50027 for its token."""
    async with logged_in(server) as bot:
        message = await posted(bot, server)
        shown = server.channel.messages[str(message.id)]
        await server.ann.click(server.app, server.channel, shown, "Yes", wait=False)
        interaction = await bot.came.get()
        await interaction.response.defer()
        again = discord.Interaction(data=_payload(server, interaction), state=bot._connection)
        with pytest.raises(discord.HTTPException) as caught:
            await again.response.defer()
        assert caught.value.code == 40060
        await server.ann.click(server.app, server.channel, shown, "Yes", wait=False)
        late = await bot.came.get()
        server.discord.calendar.advance(4)
        with pytest.raises(discord.NotFound) as gone:
            await late.response.defer()
        assert gone.value.code == 10062
        with pytest.raises(discord.NotFound) as unknown:
            await late.followup.send("x")
        assert unknown.value.code == 10015
        server.discord.calendar.advance(900)
        with pytest.raises(discord.HTTPException) as dead:
            await interaction.followup.send("x")
        assert (dead.value.status, dead.value.code) == (401, 50027)


def _payload(server: Server, interaction: discord.Interaction) -> Any:
    made = server.discord.api.by_id[str(interaction.id)]
    return server.discord.api._payload(made)


async def test_a_modal_opens_and_comes_back(server: Server) -> None:
    """A modal is opened by a click, filled in by its field ids, and answered ephemerally."""
    async with logged_in(server) as bot:
        message = await posted(bot, server)
        shown = server.channel.messages[str(message.id)]
        click = await server.ann.click(server.app, server.channel, shown, "No", wait=False)
        interaction = await bot.came.get()
        modal = discord.ui.Modal(title="Why?", custom_id="why")
        modal.add_item(
            discord.ui.Label(text="Reason", component=discord.ui.TextInput(custom_id="reason"))
        )
        await interaction.response.send_modal(modal)
        opened = await server.ann.outcome(click)
        sent = await server.ann.submit(opened, wait=False, reason="because")
        back = await bot.came.get()
        data: Any = back.data
        assert data["components"][0]["component"]["value"] == "because"
        await back.response.send_message("noted", ephemeral=True)
        done = await server.ann.outcome(sent)
        assert done.private[0]["content"] == "noted"
        assert done.private[0]["id"] not in server.channel.messages


async def test_a_nonce_returns_the_first_message(server: Server) -> None:
    """The same author and nonce within minutes is the same message, posted once."""
    async with logged_in(server) as bot:
        channel = bot.get_partial_messageable(int(server.channel.id))
        first = await channel.send("once", nonce="n1")
        second = await channel.send("once", nonce="n1")
        assert first.id == second.id and len(server.channel.messages) == 1


async def test_limits_are_refused_with_50035(server: Server) -> None:
    """4001 characters of text and a second equal custom_id are refused; 4000 pass."""
    async with logged_in(server) as bot:
        channel = bot.get_partial_messageable(int(server.channel.id))
        view = discord.ui.LayoutView()
        view.add_item(discord.ui.TextDisplay("x" * 4000))
        view.stop()
        await channel.send(view=view)
        view.add_item(discord.ui.TextDisplay("y"))
        with pytest.raises(discord.HTTPException) as caught:
            await channel.send(view=view)
        assert caught.value.code == 50035
        with pytest.raises(discord.HTTPException) as double:
            await channel.send(view=card("a", "a"))
        assert double.value.code == 50035


async def test_files_arrive_whole(server: Server) -> None:
    """A multipart file is stored and can be downloaded; mentions not allowed ping nobody."""
    async with logged_in(server) as bot:
        channel = bot.get_partial_messageable(int(server.channel.id))
        text = f"<@{server.ann.id}> @everyone"
        view = discord.ui.LayoutView()
        view.add_item(discord.ui.TextDisplay(text)).add_item(discord.ui.File("attachment://a.txt"))
        view.stop()
        file = discord.File(__file__, filename="a.txt")
        none = discord.AllowedMentions.none()
        message = await channel.send(view=view, file=file, allowed_mentions=none)
        loud = await channel.send(text)
        assert (
            await message.attachments[0].read()
            == server.discord.board.files[str(message.attachments[0].id)]
        )
        pinged = server.discord.board.pinged
        assert pinged[str(message.id)] == set()
        assert pinged[str(loud.id)] == {server.ann.id, "@everyone"}


async def test_a_dropped_line_resumes_and_replays(server: Server) -> None:
    """A click made while the line is cut is replayed by RESUME; op 7 resumes as well."""
    gateway = server.discord.gateway
    async with logged_in(server) as bot:
        message = await posted(bot, server)
        shown = server.channel.messages[str(message.id)]
        await gateway.drop()
        await server.ann.click(server.app, server.channel, shown, "Yes", wait=False)
        await bot.came.get()
        assert gateway.resumed == 1
        await gateway.command(7)
        await gateway.until(lambda: gateway.resumed == 2)
        await gateway.command(9, True)
        await gateway.until(lambda: gateway.resumed == 3)
        assert gateway.identified == 1
        await gateway.command(9, False)
        await gateway.until(lambda: gateway.identified == 2)


@pytest.mark.parametrize("code", [4004, 4014])
async def test_fatal_close_codes_end_the_client(server: Server, code: int) -> None:
    """A refused token and a privileged intent that was not granted end the connection."""
    intents = discord.Intents(guilds=True, members=code == 4014)
    server.discord.gateway.refuse = 4004 if code == 4004 else None
    bot = Bot(intents)
    with pytest.raises((discord.ConnectionClosed, discord.PrivilegedIntentsRequired)):
        await asyncio.wait_for(bot.start(server.app.token), 15)
    await bot.close()


async def test_two_processes_on_one_token_both_get_each_click(server: Server) -> None:
    """Two sessions of one application are both told, which is what the gateway must survive."""
    async with logged_in(server) as one, logged_in(server) as two:
        message = await posted(one, server)
        shown = server.channel.messages[str(message.id)]
        await server.ann.click(server.app, server.channel, shown, "Yes", wait=False)
        first, second = await one.came.get(), await two.came.get()
        assert first.id == second.id


async def test_429_of_both_kinds(server: Server) -> None:
    """With Via the client waits and tries again; without it is taken for a ban and raised."""
    rest = server.discord.rest
    async with logged_in(server) as bot:
        channel = bot.get_partial_messageable(int(server.channel.id))
        rest.stage(
            "POST",
            "/messages",
            status=429,
            body={"message": "slow down", "retry_after": 0.01, "global": False},
            headers={"Via": "1.1 google", "Content-Type": "application/json"},
        )
        await channel.send("waits")
        rest.stage("POST", "/messages", status=429, body="<html>banned")
        with pytest.raises(discord.HTTPException) as banned:
            await channel.send("raises")
        assert banned.value.status == 429


async def test_a_refused_place_says_why(server: Server) -> None:
    """10003, 50001, 50013, 50007, 10008 and 200000 come where Discord sends them."""
    town = server.discord.town
    secret, mute, words = (town.channel(server.guild, name) for name in ("a", "b", "c"))
    secret.overwrites[server.guild.id] = (0, 1 << 10)
    mute.overwrites[server.guild.id] = (0, 1 << 11)
    words.blocked_words = ("forbidden",)
    server.eve.user.takes_direct = False
    async with logged_in(server) as bot:

        async def code(place: Any, text: str = "hi") -> int:
            with pytest.raises(discord.HTTPException) as caught:
                await place.send(text)
            return caught.value.code

        def at(channel_id: str) -> Any:
            return bot.get_partial_messageable(int(channel_id))

        eve = await bot.create_dm(discord.Object(int(server.eve.id)))
        assert await code(at("1234567890123")) == 10003
        assert await code(at(secret.id)) == 50001
        assert await code(at(mute.id)) == 50013
        assert await code(eve) == 50007
        assert await code(at(words.id), "a forbidden word") == 200000
        with pytest.raises(discord.NotFound) as gone:
            await at(server.channel.id).get_partial_message(5).edit(content="x")
        assert gone.value.code == 10008


async def test_an_unanswered_heartbeat_means_a_new_connection(server: Server) -> None:
    """A gateway that stops acknowledging is left, and the session resumed."""
    gateway = server.discord.gateway
    gateway.heartbeat_ms = 100
    bot = Bot()
    bot._connection.heartbeat_timeout = 0.3
    async with logged_in(server, bot):
        gateway.mute = True
        await gateway.until(lambda: gateway.connections >= 2)
        gateway.mute = False
