"""docs/discord.md: what a newcomer types works, in its order, and everything it names exists."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from adapters.discord.settings import DiscordSettings
from tests.discord.furnished import Server
from tests.discord.messages import shown_text
from tests.discord.pictures import SHEETS, scenes
from tests.discord.town import Json
from tests.waiting import moment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "discord.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """Return the command lines of the page, in order."""
    return re.findall(r"^ *\$ (.+)$", PAGE, re.MULTILINE)


def policy(server: Server) -> str:
    """Return the page's policy with the ids of a server."""
    found = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert found
    text = found[1].replace("SERVER", server.guild.id).replace("CHANNEL", server.channel.id)
    return "\n".join(line.strip() for line in text.replace("YOU", server.ann.id).splitlines())


class Shell:
    """A newcomer's terminal."""

    def __init__(self, server: Server, folder: Path) -> None:
        scripts = Path(sys.executable).parent
        self.folder = folder
        self.env = {
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "HOME": str(folder),
            "GATEWAY_DATA_DIR": str(folder / "data"),
            "GATEWAY_PORT": "0",
            "GATEWAY_DISCORD_TOKEN": server.app.token,
            "GATEWAY_DISCORD_API_BASE": server.discord.api_base,
            "GATEWAY_DISCORD_GATEWAY_URL": server.discord.gateway_url,
        }

    async def types(self, line: str) -> asyncio.subprocess.Process:
        """Type a line."""
        return await asyncio.create_subprocess_shell(
            f"exec env {line}",
            cwd=self.folder,
            env=self.env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def reads(self, line: str) -> str:
        """Type a line that ends by itself, without a failure; return what it says."""
        process = await self.types(line)
        out, _ = await process.communicate()
        assert process.returncode == 0, out.decode()
        return out.decode()


@pytest.mark.thorough
async def test_the_page_leads_to_a_first_approval(server: Server, tmp_path: Path) -> None:
    """Invite, check, policy, up, ask, tap: `gateway ask` ends with 0."""
    export, invite, check, up, ask = commands()
    assert export.startswith("export GATEWAY_DISCORD_TOKEN")
    shell = Shell(server, tmp_path)
    assert server.app.id in await shell.reads(invite)
    place = f"discord:{server.guild.id}/{server.channel.id}"
    assert "ok" in await shell.reads(check.replace("discord:SERVER/CHANNEL", place))
    (tmp_path / "policy.toml").write_text(policy(server), encoding="utf-8")
    gateway = await shell.types(up)
    try:
        assert gateway.stdout is not None
        said = b""
        while b"ready at" not in said:
            line = await gateway.stdout.readline()
            assert line, said.decode()
            said += line
        await server.discord.gateway.until(lambda: server.discord.gateway.connected == 1)
        asking = await shell.types(ask)
        card = await _card(server)
        assert "make deploy" in shown_text(card)
        await server.ann.click(server.app, server.channel, card, "Approve")
        assert await asking.wait() == 0
    finally:
        gateway.terminate()
        await gateway.communicate()


async def _card(server: Server) -> Json:
    async with asyncio.timeout(40):
        while not server.channel.messages:
            await moment()
    return next(iter(server.channel.messages.values()))


def test_the_page_names_every_setting_command_and_picture() -> None:
    """And no picture that is not there."""
    for name in DiscordSettings.model_fields:
        if name != "env":
            assert f"GATEWAY_DISCORD_{name.upper()}" in PAGE, name
    for command in ("/pending", "/approve", "/deny", "/grants", "/revoke"):
        assert f"`{command}`" in PAGE
    for picture in re.findall(r"images/[a-z-]+\.png", PAGE):
        assert (ROOT / "docs" / picture).exists(), picture


def test_there_is_a_picture_of_every_state() -> None:
    """`python -m tests.discord.pictures` draws each of them on some sheet."""
    drawn = {name for names in SHEETS.values() for name in names}
    asked = {"pending", "approved", "denied", "expired", "quorum", "long", "hostile", "question"}
    assert asked | {"grants"} <= drawn == set(scenes())
