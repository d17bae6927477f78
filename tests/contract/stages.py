"""Where adapters play: each with its platform, one person at it, and what can go wrong there.

A stage is an adapter with the place where its messages appear. Another adapter joins by adding its
stage to STAGES.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import discord
import pytest
import yarl
from discord.gateway import DiscordWebSocket

from adapters.discord import DiscordAdapter
from adapters.slack import SlackAdapter
from gateway.ports import AdapterApi
from tests.contract.memory import Memory
from tests.discord import stage as discord_stage
from tests.discord.faults import VIA
from tests.discord.furnished import Server, furnished
from tests.discord.interactions import Interaction
from tests.discord.messages import buttons, shown_text
from tests.discord.server import running_discord
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.office import environment, shown
from tests.waiting import moment

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "write-an-adapter.md"
PATIENCE = 40.0


async def until(holds: Callable[[], Any]) -> Any:
    """Return what `holds` finds, once it finds something."""
    async with asyncio.timeout(PATIENCE):
        while not (found := holds()):
            await moment()
    return found


class Stage(Protocol):
    """A platform with one channel, `target`, in which `who` may press; `nowhere` is no channel."""

    target: str
    nowhere: str
    who: str

    def adapter(self, api: AdapterApi) -> Any:
        """Return an adapter to run with this API, as a gateway makes one when it starts."""

    def texts(self) -> list[str]:
        """Return the messages that people see in the channel now, the oldest first."""

    def links(self) -> list[str]:
        """Return the pages that those messages lead to."""

    def moment(self, at_ms: int) -> str:
        """Return how a message says a time."""

    def delete(self) -> None:
        """Have somebody delete every message."""

    async def press(self) -> None:
        """Press Approve on the newest card, as far as it is shown; return when that is over."""

    def told(self) -> list[str]:
        """Return what the person was told in private so far."""


class Granting(Stage, Protocol):
    """A stage whose adapter also posts the cards of remembered decisions."""

    async def revoke(self) -> None:
        """Press Revoke on the newest card; return when that is over."""

    def announced(self) -> list[str]:
        """Return what was said beside the cards in the channel."""


class Faulty(Stage, Protocol):
    """A stage whose platform can also be made to refuse."""

    def refuse_edits(self, times: int) -> None:
        """Refuse the next edits for good, for a reason that is not that the message is gone."""

    def limit_posts(self) -> None:
        """Answer the next post with: not now."""


class Folders:
    """The adapter of the page for authors. It tells nobody anything in private."""

    target, nowhere = "folder:team", "folder:nowhere"

    def __init__(self, folder: Path) -> None:
        self._team = folder / "team"
        self._team.mkdir()
        self.who = f"folder:{folder.owner()}"
        found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        assert found is not None
        self._names: dict[str, Any] = {}
        exec(found.group(1), self._names)  # the page is ours

    def adapter(self, api: AdapterApi) -> Any:
        return self._names["FolderAdapter"]()

    def texts(self) -> list[str]:
        paths = sorted(self._team.glob("*.txt"), key=lambda path: path.stat().st_mtime_ns)
        return [path.read_text() for path in paths]

    def links(self) -> list[str]:
        return re.findall(r"https://\S+", "\n".join(self.texts()))

    def moment(self, at_ms: int) -> str:
        return time.ctime(at_ms / 1000)

    def delete(self) -> None:
        for path in self._team.glob("*.txt"):
            path.unlink()

    async def press(self) -> None:
        newest = max(self._team.glob("*.txt"), key=lambda path: path.stat().st_mtime_ns)
        await self._answer(newest, "approve")

    async def revoke(self) -> None:
        newest = max(self._team.glob("*.txt"), key=lambda path: path.stat().st_mtime_ns)
        assert "Revoke" in newest.read_text().splitlines(), "there is no button any more"
        await self._answer(newest, "revoke")

    async def _answer(self, card: Path, words: str) -> None:
        answer = card.with_suffix(".answer")
        answer.write_text(words)
        await until(lambda: not answer.exists())

    def announced(self) -> list[str]:
        return (self._team.parent / "notices.txt").read_text().splitlines()

    def told(self) -> list[str]:
        return ["nothing is told"]


class InSlack:
    """The Slack adapter with the real SDK, at the wire-level counterpart."""

    target, nowhere, who = "slack:T1/C1", "slack:T1/C404", "slack:T1/UANN"

    def __init__(self, slack: Slack) -> None:
        self._slack = slack
        self._ann = slack.person("UANN", name="ann")

    def adapter(self, api: AdapterApi) -> Any:
        made = SlackAdapter()
        made.ping_seconds = 0.5
        return made

    def texts(self) -> list[str]:
        return [shown(message) for message in self._slack.messages("C1")]

    def links(self) -> list[str]:
        messages = self._slack.messages("C1")
        pressed = [one for message in messages for _, one in self._ann.buttons(message.blocks)]
        return [one["url"] for one in pressed if "url" in one]

    def moment(self, at_ms: int) -> str:
        return f"<!date^{at_ms // 1000}^"

    def delete(self) -> None:
        self._slack.workspace().channels["C1"].messages.clear()

    async def press(self) -> None:
        before = len(self.told())
        message = self._slack.messages("C1")[-1]
        await self._ann.click(message, "Approve")
        await until(lambda: len(self.told()) > before or "Approve " not in f"{shown(message)} ")

    async def revoke(self) -> None:
        message = self._slack.messages("C1")[-1]
        before = len(self.told())
        await self._ann.click(message, "Revoke")
        await until(lambda: len(self.told()) > before or "No longer" in shown(message))

    def announced(self) -> list[str]:
        cards = self._slack.messages("C1")
        return [shown(one) for card in cards for one in self._slack.thread("C1", card.ts)]

    def told(self) -> list[str]:
        return self._ann.private()

    def refuse_edits(self, times: int) -> None:
        self._slack.faults.plan("chat.update", Fault.ERROR, error="invalid_blocks", times=times)

    def limit_posts(self) -> None:
        self._slack.faults.plan("chat.postMessage", Fault.LIMITED)


class InDiscord:
    """The Discord adapter with the real discord.py, at the wire-level Discord."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.target = f"discord:{server.guild.id}/{server.channel.id}"
        self.nowhere = f"discord:{server.guild.id}/{int(server.channel.id) + 1}"
        self.who = f"discord:{server.ann.id}"
        self._pressings: list[Interaction] = []

    def adapter(self, api: AdapterApi) -> Any:
        return DiscordAdapter()

    def texts(self) -> list[str]:
        return [shown_text(message) for message in self._server.channel.messages.values()]

    def links(self) -> list[str]:
        messages = self._server.channel.messages.values()
        pressed = [one for message in messages for one in buttons(message).values()]
        return [one["url"] for one in pressed if "url" in one]

    def moment(self, at_ms: int) -> str:
        return f"<t:{at_ms // 1000}:f>"

    def delete(self) -> None:
        self._server.channel.messages.clear()

    async def press(self) -> None:
        await self._pressed("Approve")

    async def revoke(self) -> None:
        await self._pressed("Revoke")

    def announced(self) -> list[str]:
        return [text for text in self.texts() if "⏰" in text]

    async def _pressed(self, label: str) -> None:
        message = list(self._server.channel.messages.values())[-1]
        server = self._server
        await until(lambda: server.discord.gateway.connected)
        done = await server.ann.click(server.app, server.channel, message, label)
        self._pressings.append(done)

    def told(self) -> list[str]:
        return [shown_text(one) for done in self._pressings for one in done.private]

    def refuse_edits(self, times: int) -> None:
        body = {"code": 50035, "message": "Invalid Form Body"}
        self._server.discord.rest.stage(
            "PATCH", "/messages", times=times, status=400, body=body, headers=_JSON
        )

    def limit_posts(self) -> None:
        body = {"message": "slow", "retry_after": 0.05, "global": False}
        headers = {**VIA, **_JSON, "X-RateLimit-Remaining": "1"}
        self._server.discord.rest.stage("POST", "/messages", status=429, body=body, headers=headers)


_JSON = {"Content-Type": "application/json"}


@asynccontextmanager
async def memory(folder: Path) -> AsyncIterator[Stage]:
    """Yield the recording adapter's."""
    yield Memory()


@asynccontextmanager
async def folders(folder: Path) -> AsyncIterator[Stage]:
    """Yield that of the page for authors."""
    os.environ["FOLDER_ROOT"] = str(folder)
    try:
        yield Folders(folder)
    finally:
        del os.environ["FOLDER_ROOT"]


@asynccontextmanager
async def in_slack(folder: Path) -> AsyncIterator[Stage]:
    """Yield Slack's, with workspace T1 and channel C1."""
    slack = Slack()
    slack.channel("C1", "UANN")
    async with slack.running():
        with environment(slack):
            yield InSlack(slack)


@asynccontextmanager
async def in_discord(folder: Path) -> AsyncIterator[Stage]:
    """Yield Discord's, with discord.py of this process pointed at it."""
    async with running_discord() as fake:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(discord.http.Route, "BASE", fake.api_base)
            patch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(fake.gateway_url))
            server = furnished(fake)
            discord_stage.environment(patch, server)
            yield InDiscord(server)


STAGES: dict[str, Callable[[Path], AbstractAsyncContextManager[Stage]]] = {
    "recording": memory,
    "toy": folders,
    "slack": in_slack,
    "discord": in_discord,
}
FAULTY = ("recording", "slack", "discord")
"""Those whose platform can be made to refuse and to limit: a folder has neither."""
GRANTING = ("recording", "toy", "slack", "discord")
"""Those whose adapter posts the cards of remembered decisions."""
