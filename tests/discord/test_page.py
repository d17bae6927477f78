"""docs/guides/discord.md: what a newcomer types works, in order, and all that it names exists."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from adapters.discord.commands import DEFINITIONS
from adapters.discord.settings import DiscordSettings
from tests.discord.furnished import Server
from tests.discord.messages import buttons, shown_text
from tests.discord.pictures import SHEETS, scenes
from tests.discord.rest import settled
from tests.discord.stage import private_text
from tests.discord.town import Json
from tests.waiting import moment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "discord.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """Return the command lines of the page, in order."""
    return re.findall(r"^ *\$ (.+)$", PAGE, re.MULTILINE)


class Window:
    """A newcomer's terminal window: what is typed there, and what a command says."""

    def __init__(self, server: Server, folder: Path) -> None:
        scripts = Path(sys.executable).parent
        self.folder = folder
        self.env = {
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "HOME": str(folder),
            "GATEWAY_DATA_DIR": str(folder / "data"),
            "GATEWAY_PORT": "0",
            "GATEWAY_DISCORD_API_BASE": server.discord.api_base,
            "GATEWAY_DISCORD_GATEWAY_URL": server.discord.gateway_url,
        }
        self.said = ""
        self._more = asyncio.Event()
        self._master, self._slave = pty.openpty()
        os.set_blocking(self._master, False)

    async def __aenter__(self) -> Window:
        asyncio.get_running_loop().add_reader(self._master, self._read)
        return self

    async def __aexit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)
        os.close(self._slave)

    def _read(self) -> None:
        self.said += os.read(self._master, 65536).decode(errors="replace")
        self._more.set()

    async def runs(self, line: str) -> asyncio.subprocess.Process:
        """Run a command in the window."""
        return await asyncio.create_subprocess_shell(
            f"exec env {line}",
            cwd=self.folder,
            env=self.env,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
        )

    async def ends(self, line: str) -> str:
        """Run a command that ends by itself, without a failure; return what it says."""
        before = len(self.said)
        process = await self.runs(line)
        assert await process.wait() == 0, self.said
        await moment()  # what it said last is in the window by then
        return self.said[before:]

    async def sees(self, pattern: str) -> str:
        """Return what fits the pattern, once it is there."""
        try:
            async with asyncio.timeout(60):
                while not (found := re.search(pattern, self.said)):
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError(self.said) from None
        return found[1] if found.groups() else found[0]

    def type(self, keys: str) -> None:
        """Type, and press Enter."""
        os.write(self._master, f"{keys}\n".encode())


@asynccontextmanager
async def running(window: Window) -> AsyncIterator[None]:
    """Run a gateway of the newcomer's data folder."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.cli", "up"),
        cwd=window.folder,
        env=window.env,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = b""
    try:
        while b"ready at" not in said:
            line = await process.stderr.readline()
            assert line, said.decode()
            said += line
        yield
    finally:
        process.terminate()
        await process.communicate()


@pytest.mark.thorough
async def test_the_page_leads_to_a_first_approval(server: Server, tmp_path: Path) -> None:
    """The set-up's token, link, code, number and first tap; then `gateway ask` ends with 0."""
    setup, ask = commands()
    del server.guild.members[server.app.user.id]
    async with Window(server, tmp_path) as window, running(window):
        process = await window.runs(setup)
        await window.sees("typing shows nothing")
        window.type(server.app.token)
        await window.sees("/oauth2/authorize")
        server.discord.town.join(server.guild, server.app.user)
        code = await window.sees(r"/approvals here code:(\w{4}-\w{4})")
        done = await _claim(server, code)
        number = await window.sees(r"private reply: (\d\d)")
        assert f"Your number is {number}." in done
        assert f"Ann (@ann, full member, {server.ann.id})" in window.said
        await window.sees(r"\[y/N\]")
        window.type("y")
        await _approve(server, "echo hello")
        assert await process.wait() == 0, window.said
        assert server.app.token not in window.said
        asking = await window.runs(ask)
        await _approve(server, "make deploy")
        assert await asking.wait() == 0


@pytest.mark.thorough
async def test_without_a_terminal_a_claim_waits_for_the_operator(
    server: Server, tmp_path: Path
) -> None:
    """The token is a setting, the code is in the output, and the yes a command of its own."""
    async with Window(server, tmp_path) as window, running(window):
        window.env["GATEWAY_DISCORD_TOKEN"] = server.app.token
        said = await window.ends("gateway discord setup --non-interactive")
        found = re.search(r"/approvals here code:(\w{4}-\w{4})", said)
        assert found, said
        await _claim(server, found[1])
        waiting = re.search(r"^(\w{8})  discord", await window.ends("gateway claims list"), re.M)
        assert waiting
        await window.ends(f"gateway claims approve {waiting[1]}")
        asking = await window.runs("gateway ask shell -- make deploy")
        await _approve(server, "make deploy")
        assert await asking.wait() == 0


async def _claim(server: Server, code: str) -> str:
    """Have ann type the code, once the gateway is connected; return what she alone reads."""
    await server.discord.gateway.until(lambda: server.discord.gateway.connected == 1)
    await settled(
        lambda: any(one["name"] == "approvals" for one in server.app.commands.get("", []))
    )
    done = await server.ann.command(server.app, server.channel, "approvals here", code=code)
    return private_text(done).replace("\\", "")


async def _approve(server: Server, words: str) -> None:
    """Have ann approve the card that shows these words."""

    def found() -> list[Json]:
        cards = server.channel.messages.values()
        return [one for one in cards if words in shown_text(one) and "Approve" in buttons(one)]

    await settled(lambda: bool(found()))
    await server.ann.click(server.app, server.channel, found()[0], "Approve")


def test_the_page_begins_with_the_set_up_and_is_short() -> None:
    """One command, and 900 words at most."""
    assert commands()[0] == "gateway discord setup"
    assert len(PAGE.split()) <= 900


def test_the_page_names_every_setting_command_and_picture() -> None:
    """And no picture that is not there."""
    for name in DiscordSettings.model_fields:
        if name != "env":
            assert f"GATEWAY_DISCORD_{name.upper()}" in PAGE, name
    for command in DEFINITIONS:
        assert f"`/{command['name']}" in PAGE
    for picture in re.findall(r"images/[a-z-]+\.png", PAGE):
        assert (ROOT / "docs" / picture).exists(), picture


def test_there_is_a_picture_of_every_state() -> None:
    """`python -m tests.discord.pictures` draws each of them on some sheet."""
    drawn = {name for names in SHEETS.values() for name in names}
    asked = {"pending", "approved", "denied", "expired", "quorum", "long", "hostile", "question"}
    assert asked | {"grants"} <= drawn == set(scenes())
