"""Somebody at Slack itself, who does what the terminal says."""

from __future__ import annotations

import re

from tests.setup.slack_manifest import Json
from tests.setup.slack_portal import SlackPortal
from tests.setup.way import Way
from tests.slack.counterpart.person import Human, NotShown
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Channel

CHAT = "Slack"


class SlackClient:
    """Knows the app by what its manifest says of it. Each method is an act."""

    def __init__(self, way: Way, slack: Slack, human: Human, portal: SlackPortal) -> None:
        self._way, self._slack, self._human, self._portal = way, slack, human, portal
        self._channel: Channel | None = None

    def open_channel(self, channel: Channel) -> None:
        """Click the channel in the sidebar."""
        self._way.act(CHAT, f"open #{channel.name}")
        self._channel = channel

    def invite(self, line: str) -> None:
        """Type `/invite @name`: Slack's own command, which adds an app by the name of its bot."""
        self._way.type(CHAT, line)
        name = self._app["features"]["bot_user"]["display_name"]
        if line != f"/invite @{name}":
            raise NotShown(f"nobody is called as in {line!r}; the app is @{name}")
        self._open.members.add(self._portal.workspace.bot_user)

    async def type(self, line: str) -> str:
        """Type a command of the app; return the private reply."""
        self._way.type(CHAT, line)
        command, _, text = line.partition(" ")
        known = [one["command"] for one in self._app["features"]["slash_commands"]]
        if command not in known:
            raise NotShown(f"{command} is not a valid command; there are {known}")
        before = len(self._human.private())
        await self._human.slash(command, text, self._open.id)
        await self._slack.until(lambda: self._human.told_more_than(before))
        return self._human.private()[-1]

    async def press(self, label: str) -> None:
        """Press a button of the first card, once it is there."""
        await self._slack.until(lambda: self._open.messages)
        if not self._app["settings"]["interactivity"]["is_enabled"]:
            raise NotShown("this app is not configured to handle interactive responses")
        self._way.act(CHAT, label)
        (card,) = self._open.messages.values()
        ack = await self._human.click(card, label)
        assert ack.ok, self._human.toasts

    @property
    def _app(self) -> Json:
        assert self._portal.installed is not None, "the app is not in the workspace"
        return self._portal.installed

    @property
    def _open(self) -> Channel:
        assert self._channel is not None, "no channel is open"
        return self._channel


def read_number(text: str) -> str:
    """Return the number of two digits in a private reply."""
    found = re.search(r"Your number is (\d\d)\.", text)
    assert found is not None, text
    return found[1]
