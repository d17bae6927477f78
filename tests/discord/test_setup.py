"""`gateway discord setup`: a token is checked, a bot gets a server, and what broke off goes on."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import discord
import pytest

from adapters.discord import setup as discord_setup
from adapters.discord.adapter import DiscordAdapter
from adapters.discord.commands import DEFINITIONS
from adapters.discord.setup import PORTAL, TOKEN, DiscordSetup
from gateway.chat import claiming
from gateway.errors import GatewayError, InvalidRequest, Misconfigured
from gateway.ports import ChatSetup
from tests.discord.furnished import Server
from tests.discord.stage import environment

REVOKED = f"{'a' * 24}.test.{'b' * 32}"


class Scripted:
    """A terminal at which somebody pastes these answers, and does something with each link."""

    def __init__(self, *answers: str, opens: Callable[[str], object] = str) -> None:
        self.answers = list(answers)
        self.said: list[str] = []
        self.links: list[str] = []
        self.kept: dict[str, str] = {}
        self._opens = opens

    def say(self, line: str) -> None:
        self.said.append(line)

    def open(self, url: str) -> None:
        self.links.append(url)
        self._opens(url)

    def keep(self, variable: str, value: str) -> None:
        self.kept = {variable: value}

    async def ask_secret(self, question: str, variable: str) -> str:
        assert question and variable == TOKEN
        if not self.answers:
            raise InvalidRequest("nobody can type here")
        return self.answers.pop(0)

    def tells(self, *words: str) -> bool:
        """Whether one line has all these words."""
        return any(all(word in line for word in words) for line in self.said)


@pytest.fixture
def portal(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A Discord as somebody finds it who has no token yet: the bot is in no server."""
    environment(monkeypatch, server)
    monkeypatch.delenv("GATEWAY_DISCORD_TOKEN")
    monkeypatch.setattr(discord_setup, "_LOOK_SECONDS", 0.01)
    del server.guild.members[server.app.user.id]
    return server


def authorizing(server: Server) -> Callable[[str], object]:
    """Return somebody who opens links, and authorizes the bot on the one for that."""

    def opens(url: str) -> None:
        if "/oauth2/authorize" in url:
            assert parse_qs(urlsplit(url).query)["client_id"] == [server.app.id]
            server.discord.town.join(server.guild, server.app.user)

    return opens


def joined(server: Server) -> None:
    """Have the bot in a server from the start."""
    server.discord.town.join(server.guild, server.app.user)


async def connect(terminal: Scripted, **known: str) -> dict[str, str]:
    """Run the set-up that the adapter names."""
    chat = DiscordAdapter.setup
    assert chat is not None
    return await chat.connect(terminal, known)


async def test_a_bot_is_made_checked_and_added(portal: Server) -> None:
    """Two links, one token, a line for each step; the token is in none of them."""
    terminal = Scripted(portal.app.token, opens=authorizing(portal))
    assert await connect(terminal) == {TOKEN: portal.app.token}
    made, added = terminal.links
    assert made == f"{PORTAL}?new_application=true"
    asked = parse_qs(urlsplit(added).query)
    assert asked["scope"] == ["bot applications.commands"]
    assert asked["permissions"] == ["274878024704"]
    assert terminal.tells("Reset Token")
    assert terminal.tells("The token works", portal.app.id)
    assert terminal.said[-1].startswith("The bot is in Acme. ")
    assert portal.app.token not in "\n".join(terminal.said)


def test_it_is_a_set_up_as_the_gateway_calls_it() -> None:
    """The command is typed before `here`, and the code behind the name of its option: Discord sends
    nothing of a text that belongs to none. Nothing is invited to the channel first."""
    chat: ChatSetup = DiscordSetup()
    assert (chat.variables, chat.invite) == ((TOKEN,), "")
    (here,) = [one for one in DEFINITIONS[-1]["options"] if one["name"] == claiming.HERE]
    (option,) = here["options"]
    assert f"{chat.command} here {chat.option}" == f"/approvals here {option['name']}:"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "Nothing was pasted"),
        ("  \n", "Nothing was pasted"),
        ("1234567890123456789", "application id"),
        ("0f" * 32, "public key"),
        ("dG9_" * 8, "client secret"),
        ("mfa.two words.x", "not a bot token"),
        ("é.é.é", "not a bot token"),
        (REVOKED, "does not accept the bot's token"),
    ],
)
async def test_each_wrong_token_has_its_sentence(portal: Server, typed: str, said: str) -> None:
    """And is asked for again; what has no form of a token is sent to nobody."""
    joined(portal)
    terminal = Scripted(typed, f" Bot {portal.app.token}\n")
    assert await connect(terminal) == {TOKEN: portal.app.token}
    assert terminal.tells(said)
    assert REVOKED not in "\n".join(terminal.said)
    assert len(portal.discord.rest.made("GET", "/users/@me")) == (2 if typed == REVOKED else 1)


async def test_it_asks_five_times_at_most(portal: Server) -> None:
    """Then it ends, with how to begin again."""
    terminal = Scripted(*["wrong"] * 5, portal.app.token)
    with pytest.raises(InvalidRequest, match="gateway discord setup"):
        await connect(terminal)
    assert terminal.answers == [portal.app.token]


@pytest.mark.parametrize("kept", [True, False])
async def test_what_the_portal_says_wrong_is_put_right_there(portal: Server, kept: bool) -> None:
    """An Interactions Endpoint URL would swallow all clicks, and a code grant keeps the bot out of
    every server: each is named with its page. Enter alone checks the same token again."""
    joined(portal)
    app = portal.app
    app.endpoint, app.code_grant = "https://example.org/x", True

    class Mending(Scripted):
        async def ask_secret(self, question: str, variable: str) -> str:
            if self.tells("https://example.org/x", f"{PORTAL}/{app.id}/information"):
                app.endpoint = None
            if self.tells("OAuth2 Code Grant", f"{PORTAL}/{app.id}/bot"):
                app.code_grant = False
            return await super().ask_secret(question, variable)

    terminal = Mending(*(["", ""] if kept else [app.token, "", ""]))
    known = {TOKEN: app.token} if kept else {}
    assert await connect(terminal, **known) == {TOKEN: app.token}
    assert terminal.answers == []


async def test_clicks_over_http_need_their_url(
    portal: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a public key the URL is as it must be; without the URL yet, nothing is wrong either:
    Discord tries it, and nothing listens before the set-up is done."""
    joined(portal)
    monkeypatch.setenv("GATEWAY_DISCORD_PUBLIC_KEY", portal.app.verify_key)
    assert await connect(Scripted(portal.app.token))
    portal.app.endpoint = "https://example.org/x"
    assert await connect(Scripted(portal.app.token))


async def test_too_many_intents_are_said_and_stop_nothing(portal: Server) -> None:
    """The gateway needs no privileged one."""
    joined(portal)
    plain = Scripted(portal.app.token)
    await connect(plain)
    assert not plain.tells("Intents")
    portal.app.privileged = True
    terminal = Scripted(portal.app.token)
    assert await connect(terminal)
    assert terminal.tells("Privileged Gateway Intents", f"{PORTAL}/{portal.app.id}/bot")


async def test_a_known_token_is_not_asked_for_again(portal: Server) -> None:
    """Nor is a bot that is in a server added again; the command for another server is said."""
    joined(portal)
    terminal = Scripted()
    assert await connect(terminal, **{TOKEN: portal.app.token}) == {TOKEN: portal.app.token}
    assert terminal.links == []
    assert terminal.tells("gateway discord invite")


async def test_a_known_token_that_was_reset_is_asked_for(portal: Server) -> None:
    """With the portal, where the bot is already."""
    joined(portal)
    terminal = Scripted(portal.app.token)
    assert await connect(terminal, **{TOKEN: REVOKED}) == {TOKEN: portal.app.token}
    assert terminal.tells("does not accept")
    assert terminal.links == [PORTAL]


async def test_it_goes_on_where_nobody_added_the_bot(
    portal: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends after a while with what to do; the next time only the link is left."""
    with monkeypatch.context() as brief:
        brief.setattr(discord_setup, "_JOIN_SECONDS", 0.05)
        with pytest.raises(InvalidRequest, match="not in a server yet"):
            await connect(broken := Scripted("wrong", portal.app.token))
    assert broken.kept == {TOKEN: portal.app.token}
    terminal = Scripted(opens=authorizing(portal))
    assert await connect(terminal, **broken.kept)
    (link,) = terminal.links
    assert "/oauth2/authorize" in link


async def test_a_moment_without_discord_ends_no_waiting(portal: Server) -> None:
    """The servers are looked for again."""
    fault = portal.discord.rest.stage("GET", "/users/@me/guilds", times=2, status=503)
    terminal = Scripted(portal.app.token, opens=authorizing(portal))
    assert await connect(terminal)
    assert fault.times == 0


async def test_a_token_that_is_reset_meanwhile_ends_the_waiting(portal: Server) -> None:
    """Nobody waits five minutes for it."""
    terminal = Scripted(portal.app.token, opens=lambda url: _reset(portal, url))
    with pytest.raises(GatewayError, match="401"):
        await connect(terminal)


def _reset(server: Server, url: str) -> None:
    if "/oauth2/authorize" in url:
        server.discord.revoke(server.app)


async def test_a_token_is_not_wrong_because_discord_is_away(portal: Server) -> None:
    """The set-up ends, and asks for no other token."""
    portal.discord.rest.stage("GET", "/users/@me", times=9, status=503)
    terminal = Scripted("never asked")
    with pytest.raises(GatewayError, match="cannot reach Discord") as failed:
        await connect(terminal, **{TOKEN: portal.app.token})
    assert not isinstance(failed.value, Misconfigured)
    assert terminal.answers == ["never asked"]


async def test_where_nobody_can_type_it_says_so(portal: Server) -> None:
    """And is not caught as a wrong token."""
    with pytest.raises(InvalidRequest, match="nobody can type"):
        await connect(Scripted())


async def test_a_servers_name_is_shown_inertly(portal: Server) -> None:
    """It is chosen by whoever made the server."""
    joined(portal)
    portal.guild.name = "Acme\x1b[2J\u202e"
    terminal = Scripted(portal.app.token)
    await connect(terminal)
    assert "\x1b" not in terminal.said[-1] and "\u202e" not in terminal.said[-1]


def test_the_link_asks_for_what_the_check_wants() -> None:
    """274878024704 is view, send, send in threads, embed, attach and read history."""
    asked = {name for name, value in discord.Permissions(274878024704) if value}
    assert asked == {
        "read_messages",
        "send_messages",
        "send_messages_in_threads",
        "embed_links",
        "attach_files",
        "read_message_history",
    }
