"""Puts the counterpart together and serves it on the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tests.slack.counterpart.deliveries import Deliveries
from tests.slack.counterpart.faults import Faults
from tests.slack.counterpart.person import Human
from tests.slack.counterpart.rates import Rates
from tests.slack.counterpart.sockets import Sockets
from tests.slack.counterpart.state import Channel, Hands, Message, State, User, Workspace
from tests.slack.counterpart.web_api import WebApi


class Slack:
    """A Slack with one app, installed in one or more workspaces."""

    def __init__(self, hands: Hands | None = None, *, burst: int = 5) -> None:
        self.hands = hands or Hands()
        self.state = State(self.hands)
        self.rates = Rates(self.hands.now, burst=burst)
        self.faults = Faults()
        self.sockets = Sockets(self.state)
        self.deliveries = Deliveries(self.state, self.sockets)
        self.web_api = WebApi(self.state, self.rates, self.faults, self.sockets)
        self.until = self.state.until

    @property
    def url(self) -> str:
        """The server's address, ending in a slash."""
        return self.state.url

    @property
    def api_url(self) -> str:
        """The base_url of a slack_sdk client."""
        return f"{self.url}api/"

    def workspace(self, team: str = "T1") -> Workspace:
        """Return a workspace, made when it is new."""
        if team not in self.state.workspaces:
            self.state.workspaces[team] = Workspace(
                id=team,
                bot_token=f"xoxb-{team}-secret",
                bot_user=f"UBOT{team}",
                bot_id=f"B{team}",
            )
        return self.state.workspaces[team]

    def channel(self, channel: str, *members: str, team: str = "T1") -> Channel:
        """Make a channel with the app and these members."""
        workspace = self.workspace(team)
        made = Channel(
            id=channel, name=f"name-{channel}".lower(), members={workspace.bot_user, *members}
        )
        workspace.channels[channel] = made
        return made

    def person(self, user: str, *, team: str = "T1", name: str = "") -> Human:
        """Return someone who sits at a Slack client, made a member when new."""
        workspace = self.workspace(team)
        if user not in workspace.users:
            workspace.users[user] = User(id=user, name=name or user.lower(), team=team)
        return Human(self.state, workspace, workspace.users[user], self.deliveries)

    def messages(self, channel: str, team: str = "T1") -> list[Message]:
        """Return what stands in a channel, threads left out."""
        found = self.workspace(team).channel(channel).messages.values()
        return [message for message in found if message.thread_ts is None]

    def thread(self, channel: str, ts: str, team: str = "T1") -> list[Message]:
        """Return the replies in a thread."""
        found = self.workspace(team).channel(channel).messages.values()
        return [message for message in found if message.thread_ts == ts]

    @asynccontextmanager
    async def running(self, host: str = "127.0.0.1") -> AsyncIterator[Slack]:
        """Serve until left, at an address of this machine."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.add_routes([*self.web_api.routes(), web.get("/link/{ticket}", self.sockets.serve)])
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, host, 0).start()
        self.state.url = f"http://{host}:{runner.addresses[0][1]}/"
        try:
            yield self
        finally:
            await self.sockets.drop()
            await runner.cleanup()
