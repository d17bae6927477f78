"""Both ways from nothing to the first tap, as somebody goes them who reads only the terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.discord.rest import settled
from tests.discord.server import running_discord
from tests.setup.discord_client import DiscordClient
from tests.setup.discord_portal import DiscordPortal
from tests.setup.machine import Machine, Terminal
from tests.setup.slack_client import SlackClient, read_number
from tests.setup.slack_portal import SlackPortal
from tests.setup.way import TERMINAL, Way
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Channel

_TEAM, _CHANNEL, _ANN = "T07SHOP4X", "C08OPS11A", "U09ANN77B"


async def walk_slack(home: Path) -> Way:
    """Connect Slack: a workspace with Ann and her channel, and no app."""
    way, slack = Way("slack"), Slack()
    portal, ann = SlackPortal(way, slack, _TEAM), slack.person(_ANN, team=_TEAM, name="ann")
    channel = Channel(id=_CHANNEL, name="ops", members={_ANN})
    portal.workspace.channels[_CHANNEL] = channel
    client = SlackClient(way, slack, ann, portal)
    async with slack.running():
        addresses = {"GATEWAY_SLACK_API_URL": slack.api_url}
        async with Machine(home, addresses) as machine:
            way.next_step()
            way.type(TERMINAL, "gateway slack setup")
            with machine.open("slack", "setup") as tty:
                terminal = Terminal(tty, way)
                await _make_app(terminal, portal, way)
                await terminal.until("The gateway runs, and slack is connected")
                invite = (await terminal.until(r"type:  (/invite \S+)\s"))[1]
                here = (await terminal.until(r"type:  (/approvals here \S+)\s"))[1]
                way.next_step()
                client.open_channel(channel)
                client.invite(invite)
                way.next_step()
                number = read_number(await client.type(here))
                way.next_step()
                await _agree(terminal, number)
                await client.press("Approve")
                way.tapped()
                await _ended(terminal)
                _refuse_leaks(terminal, portal.workspace.bot_token, slack.state.app_token)
            ids = (_TEAM, _CHANNEL, _ANN, slack.state.app_id, portal.workspace.bot_user)
            way.look_back(ids, machine.list_files())
            opened = slack.sockets.connected

            async def connected_again() -> None:
                await slack.until(lambda: slack.sockets.connected > opened and slack.sockets.open)

            await _prove_it_stays(machine, connected_again)
    return way


async def _make_app(terminal: Terminal, portal: SlackPortal, way: Way) -> None:
    """Make the app and paste its tokens."""
    portal.open(await terminal.read_link("https://api.slack.com/apps?"))
    portal.choose_workspace()
    portal.press_next()
    portal.press_create()
    way.next_step()
    portal.go_to_oauth()
    portal.press_install()
    portal.press_allow()
    await terminal.until(r"Token \(xoxb-…\)")
    terminal.paste(portal.copy_bot_token(), "the bot's token")
    await terminal.until("The bot token works")
    way.next_step()
    portal.open(await terminal.read_link("https://api.slack.com/apps/"))
    portal.press_generate_token()
    portal.name_token("gateway")
    portal.press_add_scope()
    portal.choose_scope("connections:write")
    portal.press_generate()
    await terminal.until(r"Token \(xapp-…\)")
    terminal.paste(portal.copy_app_token(), "the app-level token")
    await terminal.until("The app-level token works")


async def walk_discord(home: Path) -> Way:
    """Connect Discord: Ann's server, in which nobody may do anything but she, and no bot."""
    way = Way("discord")
    async with running_discord() as discord:
        discord.api.strict_clock = False  # on a loaded machine all takes longer
        ann = discord.person("ann")
        guild = discord.town.guild("Acme", ann.user)
        guild.roles[guild.id]["permissions"] = "0"
        channel = discord.town.channel(guild, "ops")
        portal, client = DiscordPortal(way, discord, ann.user), DiscordClient(way, ann)
        addresses = {
            "GATEWAY_DISCORD_API_BASE": discord.api_base,
            "GATEWAY_DISCORD_GATEWAY_URL": discord.gateway_url,
        }
        async with Machine(home, addresses) as machine:
            way.next_step()
            way.type(TERMINAL, "gateway discord setup")
            with machine.open("discord", "setup") as tty:
                terminal = Terminal(tty, way)
                await _make_bot(terminal, portal, way)
                way.next_step()
                portal.open(await terminal.read_link("https://discord.com/oauth2/"))
                portal.choose_server(guild)
                portal.press_continue()
                portal.press_authorize()
                await terminal.until("The bot is in Acme")
                await terminal.until("The gateway runs, and discord is connected")
                here = (await terminal.until(r"type:  (/approvals here \S+)\s"))[1]
                way.next_step()
                client.open_channel(channel)
                number = read_number(await client.type(portal.app, here))
                await _agree(terminal, number)
                way.next_step()
                await client.press(portal.app, "Approve")
                way.tapped()
                await _ended(terminal)
                _refuse_leaks(terminal, portal.app.token)
            ids = (guild.id, channel.id, ann.id, portal.app.id, portal.app.user.id)
            way.look_back(ids, machine.list_files())
            identified = discord.gateway.identified

            async def connected_again() -> None:
                await settled(lambda: discord.gateway.identified > identified)

            await _prove_it_stays(machine, connected_again)
    return way


async def _make_bot(terminal: Terminal, portal: DiscordPortal, way: Way) -> None:
    """Make the bot and paste its token."""
    portal.open(await terminal.read_link("https://discord.com/developers/"))
    portal.name_application("Approvals")
    portal.accept_terms()
    portal.press_create()
    portal.go_to_bot()
    portal.press_reset_token()
    portal.press_yes()
    portal.type_password()
    token = portal.copy_token()
    way.next_step()
    await terminal.until("The bot's token")
    terminal.paste(token, "the token")
    await terminal.until("The token works")


async def _agree(terminal: Terminal, number: str) -> None:
    """Say yes where the terminal shows the number of the private reply, and whose it is."""
    await terminal.until(r"Ann \(@ann, full member, [^)]+\) in #ops of ")
    assert (await terminal.until(r"private reply: (\d\d)\s"))[1] == number
    await terminal.until(r"\[y/N\]")
    terminal.type("y")


async def _ended(terminal: Terminal) -> None:
    """Read that Ann approved, and that the command ends well."""
    await terminal.until("✓ Approved by ann-")
    assert await terminal.ended() == 0, terminal.said


def _refuse_leaks(terminal: Terminal, *secrets: str) -> None:
    """Fail where a secret stands in the terminal."""
    assert not [one for one in secrets if one in terminal.said]


async def _prove_it_stays(machine: Machine, connected_again: Callable[[], Awaitable[None]]) -> None:
    """See that the gateway goes on by itself, ends when told to, and needs no more to be told when
    it is started again."""
    assert machine.gateway is not None
    assert "has ended" in await machine.run("down")
    with machine.open("up") as tty:
        terminal = Terminal(tty, Way(""))
        await terminal.until("The gateway is ready at")
        await connected_again()
        assert "has ended" in await machine.run("down")
        assert await terminal.ended() == 0, terminal.said
