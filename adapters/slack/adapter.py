"""The Slack adapter: builds its parts, runs them, and lets running work finish."""

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

from adapters.slack.app import App, HttpReceiver
from adapters.slack.batches import BatchModals
from adapters.slack.cards import CARD_CHARS, CARD_LINES
from adapters.slack.checks import run_checks
from adapters.slack.clicks import ButtonActions, Submissions
from adapters.slack.commands import COMMAND, SlackCommands
from adapters.slack.grants import AdminActions
from adapters.slack.home_tab import HomeTab, HomeTabRefresher
from adapters.slack.installation import InstallPages, build_manifest, find_problems
from adapters.slack.modals import EditModals
from adapters.slack.payloads import PLATFORM, Interaction
from adapters.slack.posting import CardPosting, ClickedCards, PrivateReply, SlackGrantPosting
from adapters.slack.settings import SlackSettings
from adapters.slack.socket_mode import IDLE_SECONDS, PING_SECONDS, SocketConnection
from adapters.slack.users_and_rights import Rights, SharedChannels, UserDirectory, WorkspaceNews
from adapters.slack.web_api import (
    TOKEN_SECONDS,
    CircuitBreaker,
    Uploads,
    Workspace,
    Workspaces,
    build_client,
    open_session,
)
from gateway.cards.card import Card
from gateway.cards.grant_cards import GrantCard
from gateway.errors import InvalidRequest
from gateway.ports import (
    AdapterStorage,
    Desk,
    Finding,
    Logins,
    MessageRef,
    Notice,
    RateLimiter,
    RetryLater,
    SystemClock,
    Worklist,
    cancel_and_wait,
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
        self._posts: CardPosting | None = None
        self._app: App | None = None
        self._socket: SocketConnection | None = None
        self._workspaces: Workspaces | None = None
        self._routes: list[web.RouteDef] = []
        self._patience = CircuitBreaker()

    @asynccontextmanager
    async def run(self, desk: Desk) -> AsyncIterator[None]:
        """Serve until left. Leaving waits for running work.

        Entering means connected, or that Slack is away, which `problems` says until it is back.
        """
        settings = SlackSettings()
        settings.refuse_incomplete()
        async with open_session() as session:
            self._workspaces = workspaces = Workspaces(settings, desk.notes, session)
            await workspaces.start()
            uploads = Uploads(desk, session)
            pace = RateLimiter(desk.notes)
            clicked = ClickedCards(desk)
            self._shared = shared = SharedChannels()
            self._posts = CardPosting(
                workspaces, desk.notes, pace, uploads, clicked.rank, shared, desk.address_of
            )
            directory = UserDirectory()
            self._app = app = self._build_parts(
                desk, settings, workspaces, directory, uploads, clicked, session
            )
            if settings.oauth:
                install_pages = InstallPages(settings, workspaces, desk.notes, session)
                self._routes += install_pages.routes()
            watching = asyncio.create_task(workspaces.watch(self.token_seconds), name="slack token")
            drawing = asyncio.create_task(self._homes.run(), name="slack homes")
            try:
                async with self._listen(app, settings, session):
                    yield
            finally:
                await cancel_and_wait(watching, drawing)
            directory.close()
            self._posts = None

    def _build_parts(
        self,
        desk: Desk,
        settings: SlackSettings,
        workspaces: Workspaces,
        directory: UserDirectory,
        uploads: Uploads,
        clicked: ClickedCards,
        session: aiohttp.ClientSession,
    ) -> App:
        worklist = Worklist(desk)
        rights = Rights(desk, worklist, directory, uploads)
        operating = AdminActions(desk, rights, worklist)
        edits = EditModals(desk)
        batches = BatchModals(desk, rights, worklist)
        acts = ButtonActions(desk, rights, operating, clicked, edits, batches)
        commands = SlackCommands(desk, worklist, rights, acts, operating)
        hosts = frozenset({_HOOKS, urlsplit(settings.api_url).hostname or _HOOKS})

        def reply(workspace: Workspace, did: Interaction) -> PrivateReply:
            return PrivateReply(workspace, did, session, hosts)

        home = HomeTab(directory, worklist, operating, desk.address_of)

        async def draw(team: str, user: str) -> None:
            await home.publish(await workspaces.find(team), user, changed=True)

        self._homes = homes = HomeTabRefresher(desk, RateLimiter(desk.notes), draw)
        return App(
            workspaces,
            acts,
            Submissions(desk, rights, clicked, edits),
            commands,
            home,
            homes,
            WorkspaceNews(desk, directory, self._shared),
            reply,
        )

    @asynccontextmanager
    async def _listen(
        self, app: App, settings: SlackSettings, session: aiohttp.ClientSession
    ) -> AsyncIterator[None]:
        if settings.mode == "http":
            secret = settings.signing_secret.get_secret_value() if settings.signing_secret else ""
            self._routes += HttpReceiver(app.build_bolt_app(secret), secret, SystemClock()).routes()
            try:
                yield
            finally:
                await app.drain(_DRAIN_SECONDS)
            return
        async with self._connect(app, app.build_bolt_app(None), settings, session):
            yield

    @asynccontextmanager
    async def _connect(
        self, app: App, bolt: AsyncApp, settings: SlackSettings, session: aiohttp.ClientSession
    ) -> AsyncIterator[None]:
        token = settings.app_token.get_secret_value() if settings.app_token else ""
        client = build_client(None, settings.api_url, session)
        self._socket = socket = SocketConnection(
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
        self, targets: Sequence[str], notes: AdapterStorage, *, live: bool
    ) -> Sequence[tuple[str, Finding]]:
        """Return the findings of `gateway doctor` about Slack."""
        return await run_checks(targets, notes, SystemClock(), live=live)

    def commands(self, verbs: Any) -> None:
        """Add `gateway manifest slack`."""
        parser = verbs.add_parser("manifest", help="print the manifest to make the Slack app from")
        parser.add_argument("--http", metavar="URL", help="for mode http, with the public address")
        parser.add_argument("--org", action="store_true", help="a whole organisation installs it")
        parser.set_defaults(run=_print_manifest)

    @property
    def busy(self) -> bool:
        """Whether work is still running."""
        return self._app is not None and self._app.busy

    def problems(self) -> Sequence[str]:
        """Describe what keeps people from answering, empty when nothing does."""
        parts = (self._socket, self._workspaces)
        return [f"Slack: {part.problem}" for part in parts if part is not None and part.problem]

    def routes(self, desk: Desk, logins: Logins, *, secure: bool) -> Sequence[web.RouteDef]:
        """Return the routes for Slack and for installing the app."""
        return self._routes

    async def deliver(self, target: str, card: Card, nonce: str) -> MessageRef:
        """Post a card."""
        return await self._run_patiently(lambda posts: posts.deliver(target, card, nonce))

    async def update(self, ref: MessageRef, card: Card, nonce: str) -> None:
        """Edit a posted card."""
        await self._run_patiently(lambda posts: posts.update(ref, card, nonce))

    async def tell(self, notice: Notice, card: Card) -> None:
        """Post a notice."""
        await self._run_patiently(lambda posts: posts.tell(notice, card))

    async def withdraw(self, target: str, nonce: str) -> None:
        """Leave the line of a channel."""
        if self._posts is not None:
            await self._posts.withdraw(target, nonce)

    async def check_copy(self, ref: MessageRef) -> None:
        """Ask whether a copy is still there."""
        await self._run_patiently(lambda posts: posts.check_copy(ref))

    async def deliver_grant(self, target: str, card: GrantCard, nonce: str) -> MessageRef:
        """Post the card of a remembered decision."""
        return await self._run_patiently(
            lambda posts: SlackGrantPosting(posts).deliver(target, card, nonce)
        )

    async def update_grant(self, ref: MessageRef, card: GrantCard, nonce: str) -> None:
        """Edit the posted card of a remembered decision."""
        await self._run_patiently(lambda posts: SlackGrantPosting(posts).update(ref, card, nonce))

    async def tell_grant(self, notice: Notice, card: GrantCard) -> None:
        """Reply to the card of a remembered decision with its news."""
        await self._run_patiently(lambda posts: SlackGrantPosting(posts).announce(notice, card))

    async def _run_patiently(self, work: Callable[[CardPosting], Awaitable[_T]]) -> _T:
        """Do the work, unless Slack is unavailable."""
        if self._posts is None:
            raise RetryLater(1.0, "Slack is not connected yet")
        with self._patience.trying():
            return await work(self._posts)


async def _print_manifest(options: argparse.Namespace) -> int:
    made = build_manifest(options.http, org=options.org)
    if wrong := find_problems(made):
        raise InvalidRequest(f"Slack would refuse this manifest: {'; '.join(wrong)}")
    sys.stdout.write(json.dumps(made, indent=2) + "\n")
    return 0
