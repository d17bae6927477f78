"""What an operator sets and types for Discord: refused early, with a sentence, and least rights."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import discord
import pytest

from adapters.discord.adapter import DiscordAdapter
from adapters.discord.settings import DiscordSettings
from gateway.errors import GatewayError
from gateway.ports.adapters import FAIL, OK, WARN
from tests.discord.furnished import Server
from tests.discord.town import FORUM

NOTES: Any = None  # what is checked lies in Discord alone


def test_the_endpoints_are_loopback_only_and_never_in_production(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bot's token is sent there: no other host, and not where it matters."""
    monkeypatch.setenv("GATEWAY_DISCORD_TOKEN", "x")
    for url in ("https://evil.example/api", "http://127.0.0.1.evil.example", "http://10.0.0.1"):
        monkeypatch.setenv("GATEWAY_DISCORD_API_BASE", url)
        with pytest.raises(ValueError, match="loopback"):
            DiscordSettings()
    monkeypatch.setenv("GATEWAY_DISCORD_API_BASE", "http://127.0.0.1:1/api")
    assert DiscordSettings().api_base
    monkeypatch.setenv("GATEWAY_ENV", "production")
    with pytest.raises(ValueError, match="production"):
        DiscordSettings()


async def test_a_missing_token_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And it may come from a file."""
    with pytest.raises(GatewayError, match="GATEWAY_DISCORD_TOKEN"):
        async with DiscordAdapter().run(None):  # type: ignore[arg-type]
            pass
    (tmp_path / "token").write_text("from-a-file\n", encoding="utf-8")
    monkeypatch.setenv("GATEWAY_DISCORD_TOKEN_FILE", str(tmp_path / "token"))
    assert DiscordSettings().token.get_secret_value() == "from-a-file"


async def command(server: Server, verb: str, *words: str, **env: str) -> tuple[int, str]:
    """Run `gateway discord VERB …` as an operator does."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.cli", "discord", verb, *words),
        env={
            "GATEWAY_DISCORD_TOKEN": server.app.token,
            "GATEWAY_DISCORD_API_BASE": server.discord.api_base,
            **env,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def test_the_invite_link_asks_for_the_least(server: Server) -> None:
    """Both scopes, six permissions, nothing that administers."""
    code, said = await command(server, "invite")
    assert code == 0, said
    assert f"client_id={server.app.id}" in said
    assert "bot+applications.commands" in said
    asked = discord.Permissions(int(said.partition("permissions=")[2].split("&")[0]))
    assert sorted(name for name, value in asked if value) == [
        "attach_files",
        "embed_links",
        "read_message_history",
        "read_messages",
        "send_messages",
        "send_messages_in_threads",
    ]


async def test_discord_is_called_through_the_proxy_that_the_environment_names(
    server: Server,
) -> None:
    """Except where NO_PROXY has its host."""
    heard: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        writer.write(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        env = {"HTTPS_PROXY": f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"}
        code, _ = await command(server, "invite", **env)
        assert code != 0
        assert heard[0].startswith(f"GET {server.discord.api_base}/".encode())
        heard.clear()
        code, said = await command(server, "invite", **env, NO_PROXY="127.0.0.1")
        assert (code, heard) == (0, []), said


async def test_permissions_are_checked_per_channel(server: Server) -> None:
    """Each channel says what the bot lacks there; any fault makes the command fail."""
    town, guild = server.discord.town, server.guild
    mute, hidden = town.channel(guild, "mute"), town.channel(guild, "hidden")
    forum, thread = town.channel(guild, "forum", FORUM), town.thread(server.channel, "t")
    mute.overwrites[guild.id] = (0, 1 << 15)
    hidden.overwrites[guild.id] = (0, 1 << 10)
    names = [f"discord:{guild.id}/{one.id}" for one in (server.channel, thread)]
    code, said = await command(server, "check", *names)
    assert code == 0, said
    bad = [f"discord:{guild.id}/{one.id}" for one in (mute, hidden, forum)]
    code, said = await command(server, "check", *bad, "discord:nonsense")
    assert code == 1
    lines = said.splitlines()
    assert "attach files" in lines[0]
    assert "cannot see" in lines[1]
    assert "this kind" in lines[2]
    assert "not a Discord target" in lines[3]


async def found(server: Server, *targets: str, live: bool = False) -> dict[str, tuple[str, str]]:
    """Return result and words of every check that `gateway doctor` makes, by name and target."""
    environment = pytest.MonkeyPatch()
    environment.setenv("GATEWAY_DISCORD_TOKEN", server.app.token)
    try:
        checks = await DiscordAdapter().checks(dict.fromkeys(targets, ()), NOTES, live=live)
    finally:
        environment.undo()
    return {name: (one.result, f"{one.says} → {one.remedy}") for name, one in checks}


async def mentioned(server: Server, target: str, *called: str) -> dict[str, tuple[str, str]]:
    """Return what `gateway doctor` says of those whom the cards of a target call."""
    environment = pytest.MonkeyPatch()
    environment.setenv("GATEWAY_DISCORD_TOKEN", server.app.token)
    try:
        checks = await DiscordAdapter().checks({target: called}, NOTES, live=False)
    finally:
        environment.undo()
    told = {name: (one.result, f"{one.says} → {one.remedy}") for name, one in checks}
    return {name: said for name, said in told.items() if name == "discord mentions"}


async def test_doctor_names_a_role_that_is_called_and_not_notified(server: Server) -> None:
    """Neither is it mentionable, nor may the bot mention everyone in that channel; either mends it.
    People, and roles of another server, need no look; a role that is gone is said."""
    town, guild = server.discord.town, server.guild
    target, role = f"discord:{guild.id}/{server.channel.id}", town.role(guild, "deciders")
    name = f"{guild.id}/{role}"
    assert await mentioned(server, target, server.ann.id, "1/2") == {}
    result, said = (await mentioned(server, target, name))["discord mentions"]
    assert (result, "notifies nobody" in said, "mentionable" in said) == (WARN, True, True)
    server.channel.overwrites[guild.id] = (1 << 17, 0)
    assert (await mentioned(server, target, name))["discord mentions"][0] == OK
    server.channel.overwrites.clear()
    guild.roles[role]["mentionable"] = True
    assert (await mentioned(server, target, name))["discord mentions"][0] == OK
    del guild.roles[role]
    assert (await mentioned(server, target, name))["discord mentions"][0] == FAIL


async def test_doctor_says_what_is_well(server: Server) -> None:
    """Settings, token, endpoint, channel, and a message that goes away again; each check stands on
    the page."""
    target = f"discord:{server.guild.id}/{server.channel.id}"
    role = server.discord.town.role(server.guild, "deciders")
    server.guild.roles[role]["mentionable"] = True
    told = await found(server, target, live=True)
    told |= await mentioned(server, target, f"{server.guild.id}/{role}")
    assert {result for result, _ in told.values()} == {OK}
    assert not server.channel.messages
    page = (Path(__file__).parents[2] / "docs" / "guides" / "discord.md").read_text(
        encoding="utf-8"
    )
    documented = {
        line.split("`")[1] for line in page.splitlines() if line.startswith("| `discord ")
    }
    assert set(told) == documented


async def test_doctor_tries_each_channel(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, also where several routes or a person's messages stand between; one that refuses stops
    no other."""
    mute = server.discord.town.channel(server.guild, "mute")
    mute.overwrites[server.guild.id] = (0, 1 << 11)
    targets = [f"discord:{server.guild.id}/{one.id}" for one in (mute, server.channel)]
    monkeypatch.setenv("GATEWAY_DISCORD_TOKEN", server.app.token)
    checks = await DiscordAdapter().checks(
        dict.fromkeys([*targets, "discord:@1"], ()), NOTES, live=True
    )
    tried = [(one.result, one.says.split(":")[0]) for name, one in checks if name == "discord live"]
    assert tried == [(FAIL, str(mute.id)), (OK, str(server.channel.id))]
    assert not server.channel.messages


async def test_doctor_says_what_is_wrong_and_what_to_do(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A permission that a channel takes away, a wrong endpoint on either side, a bad token, no
    token, and no route that leads here."""
    mute = server.discord.town.channel(server.guild, "mute")
    mute.overwrites[server.guild.id] = (0, 1 << 16)
    result, said = (await found(server, f"discord:{server.guild.id}/{mute.id}"))["discord channel"]
    assert result == FAIL and "read message history" in said and "allow it" in said
    result, said = (await found(server))["discord channel"]
    assert result == WARN and "route" in said
    monkeypatch.setenv("GATEWAY_DISCORD_PUBLIC_KEY", server.app.verify_key)
    result, said = (await found(server))["discord endpoint"]
    assert result == FAIL and "/discord/interactions" in said
    monkeypatch.delenv("GATEWAY_DISCORD_PUBLIC_KEY")
    server.app.endpoint = "https://example.org/x"
    result, said = (await found(server))["discord endpoint"]
    assert result == FAIL and "remove the Interactions Endpoint URL" in said
    server.discord.revoke(server.app)
    result, said = (await found(server))["discord token"]
    assert result == FAIL and server.app.token not in said
    ((name, one),) = await DiscordAdapter().checks({}, NOTES, live=False)
    assert (name, one.result) == ("discord settings", FAIL)
