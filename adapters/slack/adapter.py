"""The adapter itself: puts the parts together, runs them, and lets them finish."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from slack_bolt.async_app import AsyncApp

from adapters.slack.actions import Acts
from adapters.slack.admin_actions import Operating
from adapters.slack.app import App
from adapters.slack.card_blocks import CARD_CHARS, CARD_LINES
from adapters.slack.checks import run_checks
from adapters.slack.commands import COMMAND, Commands
from adapters.slack.grant_cards import GrantPosts
from adapters.slack.home_tab import Home
from adapters.slack.http_mode import Receiver
from adapters.slack.interactions import Interaction
from adapters.slack.manifest import manifest, problems
from adapters.slack.oauth import InstallPages
from adapters.slack.payloads import PLATFORM
from adapters.slack.permissions import Rights
from adapters.slack.posting import Posts
from adapters.slack.private_replies import Reply
from adapters.slack.settings import SlackSettings
from adapters.slack.socket_mode import IDLE_SECONDS, PING_SECONDS, Socket
from adapters.slack.submissions import Submissions
from adapters.slack.uploads import Uploads
from adapters.slack.users import Directory
from adapters.slack.web_api import CALL_SECONDS, Patience, Unavailable, client_of
from adapters.slack.workspaces import TOKEN_SECONDS, Workspace, Workspaces
from gateway.errors import InvalidRequest
from gateway.ports import (
    Card,
    Desk,
    Finding,
    GrantCard,
    Logins,
    MessageRef,
    Notes,
    Notice,
    Pace,
    RetryLater,
    SystemClock,
    Worklist,
)

_DRAIN_SECONDS = 10.0
_HOOKS = "hooks.slack.com"
_T = TypeVar("_T")


class SlackAdapter:
    """People answer in Slack. See docs/slack.md."""

    name = PLATFORM
    repeatable = False
    card_lines = CARD_LINES
    card_chars = CARD_CHARS
    list_command = f"{COMMAND} list"
    ping_seconds = PING_SECONDS
    idle_seconds = IDLE_SECONDS
    token_seconds = TOKEN_SECONDS

    def __init__(self) -> None:
        self._posts: Posts | None = None
        self._app: App | None = None
        self._socket: Socket | None = None
        self._workspaces: Workspaces | None = None
        self._routes: list[web.RouteDef] = []
        self._patience = Patience()

    @asynccontextmanager
    async def run(self, desk: Desk) -> AsyncIterator[None]:
        """Serve until left. Leaving waits for what people asked for.

        Entering means connected, or that Slack is away, which `problems` says until it is back.
        """
        settings = SlackSettings()
        settings.refuse_incomplete()
        timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
        # One session serves all workspaces: none may be known by another's cookies.
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=jar) as session:
            self._workspaces = workspaces = Workspaces(settings, desk.notes, session)
            await workspaces.start()
            uploads = Uploads(desk, session)
            pace = Pace(desk.notes, SystemClock())
            self._posts = Posts(workspaces, desk.notes, pace, uploads)
            directory = Directory()
            self._app = app = self._built(desk, settings, workspaces, directory, uploads, session)
            if settings.oauth:
                install_pages = InstallPages(settings, workspaces, desk.notes, session)
                self._routes += install_pages.routes()
            watching = asyncio.create_task(workspaces.watch(self.token_seconds), name="slack token")
            try:
                async with self._listening(app, settings, session):
                    yield
            finally:
                watching.cancel()
            directory.close()
            self._posts = None

    def _built(
        self,
        desk: Desk,
        settings: SlackSettings,
        workspaces: Workspaces,
        directory: Directory,
        uploads: Uploads,
        session: aiohttp.ClientSession,
    ) -> App:
        worklist = Worklist(desk)
        rights = Rights(desk, worklist, directory, uploads)
        operating = Operating(desk, rights, worklist)
        acts = Acts(desk, rights, operating)
        commands = Commands(desk, worklist, rights, acts, operating)
        hosts = frozenset({_HOOKS, urlsplit(settings.api_url).hostname or _HOOKS})

        def reply(workspace: Workspace, did: Interaction) -> Reply:
            return Reply(workspace, did, session, hosts)

        home = Home(directory, worklist, operating)
        return App(workspaces, acts, Submissions(desk, rights), commands, home, reply)

    @asynccontextmanager
    async def _listening(
        self, app: App, settings: SlackSettings, session: aiohttp.ClientSession
    ) -> AsyncIterator[None]:
        if settings.mode == "http":
            secret = settings.signing_secret.get_secret_value() if settings.signing_secret else ""
            self._routes += Receiver(app.bolt(secret), secret, SystemClock()).routes()
            try:
                yield
            finally:
                await app.drain(_DRAIN_SECONDS)
            return
        async with self._connected(app, app.bolt(None), settings, session):
            yield

    @asynccontextmanager
    async def _connected(
        self, app: App, bolt: AsyncApp, settings: SlackSettings, session: aiohttp.ClientSession
    ) -> AsyncIterator[None]:
        token = settings.app_token.get_secret_value() if settings.app_token else ""
        client = client_of(None, settings.api_url, session)
        self._socket = socket = Socket(
            bolt,
            token,
            client,
            lambda: app.heard,
            ping_seconds=self.ping_seconds,
            idle_seconds=self.idle_seconds,
        )
        async with AsyncExitStack() as stack:
            stack.push_async_callback(socket.close)
            await socket.connect()
            stack.push_async_callback(app.drain, _DRAIN_SECONDS)
            watching = asyncio.create_task(socket.watch(), name="slack socket")
            stack.callback(watching.cancel)
            yield

    async def checks(
        self, targets: Sequence[str], notes: Notes, *, live: bool
    ) -> Sequence[tuple[str, Finding]]:
        """Return what `gateway doctor` finds about Slack."""
        return await run_checks(targets, notes, SystemClock(), live=live)

    def commands(self, verbs: Any) -> None:
        """Add `gateway manifest slack`."""
        parser = verbs.add_parser("manifest", help="print the manifest to make the Slack app from")
        parser.add_argument("--http", metavar="URL", help="for mode http, with the public address")
        parser.add_argument("--org", action="store_true", help="a whole organisation installs it")
        parser.set_defaults(run=_print_manifest)

    @property
    def busy(self) -> bool:
        """Whether something that people asked for is still being done."""
        return self._app is not None and self._app.busy

    def problems(self) -> Sequence[str]:
        """Return what keeps people from answering, empty when nothing does."""
        parts = (self._socket, self._workspaces)
        return [f"Slack: {part.problem}" for part in parts if part is not None and part.problem]

    def routes(self, desk: Desk, logins: Logins, *, secure: bool) -> Sequence[web.RouteDef]:
        """Return the routes that Slack, and whoever installs the app, reach."""
        return self._routes

    async def deliver(self, target: str, card: Card, nonce: str) -> MessageRef:
        """Post a card."""
        return await self._patient(lambda posts: posts.deliver(target, card, nonce))

    async def update(self, ref: MessageRef, card: Card, nonce: str) -> None:
        """Edit a posted card."""
        await self._patient(lambda posts: posts.update(ref, card, nonce))

    async def tell(self, notice: Notice, card: Card) -> None:
        """Post a notice."""
        await self._patient(lambda posts: posts.tell(notice, card))

    async def deliver_grant(self, target: str, card: GrantCard, nonce: str) -> MessageRef:
        """Post the card of a remembered decision."""
        return await self._patient(lambda posts: GrantPosts(posts).deliver(target, card, nonce))

    async def update_grant(self, ref: MessageRef, card: GrantCard, nonce: str) -> None:
        """Edit the posted card of a remembered decision."""
        await self._patient(lambda posts: GrantPosts(posts).update(ref, card, nonce))

    async def tell_grant(self, notice: Notice, card: GrantCard) -> None:
        """Announce what the card of a remembered decision says newly."""
        await self._patient(lambda posts: GrantPosts(posts).announce(notice, card))

    async def _patient(self, work: Callable[[Posts], Awaitable[_T]]) -> _T:
        """Do it, and while Slack is unavailable let it rest longer and longer."""
        if self._posts is None:
            raise RetryLater(1.0, "Slack is not connected yet")
        try:
            done = await work(self._posts)
        except Unavailable as outage:
            wait = self._patience.failed(asyncio.get_running_loop().time())
            raise RetryLater(wait, str(outage)) from outage
        self._patience.worked()
        return done


async def _print_manifest(options: argparse.Namespace) -> int:
    made = manifest(options.http, org=options.org)
    if wrong := problems(made):
        raise InvalidRequest(f"Slack would refuse this manifest: {'; '.join(wrong)}")
    sys.stdout.write(json.dumps(made, indent=2) + "\n")
    return 0
