"""Build the parts of the Slack adapter, run them, and let running work finish; start with
`SlackAdapter.run`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from slack_bolt.async_app import AsyncApp

from adapters.slack.app import App, HttpReceiver
from adapters.slack.cards import CARD_CHARS, CARD_LINES
from adapters.slack.checks import run_checks
from adapters.slack.claims import SlackClaims
from adapters.slack.clicks import ButtonActions, Submissions
from adapters.slack.commands import COMMAND, SlackCommands
from adapters.slack.home_tab import HomeTab, HomeTabRefresher
from adapters.slack.installation import InstallPages, build_manifest, find_problems
from adapters.slack.payloads import PLATFORM, Interaction
from adapters.slack.posting import CardPosting, ClickedCards, PrivateReply, SlackGrantPosting
from adapters.slack.settings import SlackSettings
from adapters.slack.setup import SlackSetup
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
from gateway.cards.grant_cards import GrantCard
from gateway.chat.answering import Answering
from gateway.errors import InvalidRequest
from gateway.ports import (
    FAIL,
    Adapter,
    AdapterApi,
    AdapterStorage,
    Called,
    Finding,
    LiveTrial,
    MessageRef,
    Notice,
    RateLimiter,
    RetryLater,
    Shown,
    SystemClock,
    WebPages,
    cancel_and_wait,
)

_DRAIN_SECONDS = 10.0
_HOOKS = "hooks.slack.com"


class SlackAdapter(Adapter):
    """Posts cards to Slack and accepts decisions. See docs/guides/slack.md."""

    name = PLATFORM
    checks_copies = True
    card_lines = CARD_LINES
    card_chars = CARD_CHARS
    list_command = f"{COMMAND} list"
    setup = SlackSetup()
    ping_seconds = PING_SECONDS
    idle_seconds = IDLE_SECONDS
    token_seconds = TOKEN_SECONDS

    def __init__(self) -> None:
        self._posts: CardPosting | None = None
        self._app: App | None = None
        self._socket: SocketConnection | None = None
        self._workspaces: Workspaces | None = None
        self._patience = CircuitBreaker()

    @asynccontextmanager
    async def run(self, api: AdapterApi) -> AsyncIterator[WebPages]:
        """Stay connected inside the context, and yield the HTTP routes that Slack calls.

        Entering succeeds also while Slack is unavailable; then `problems` says so. Leaving waits
        ten seconds for running work.
        """
        settings = SlackSettings()
        settings.refuse_incomplete()
        async with open_session() as session:
            self._workspaces = workspaces = Workspaces(settings, api.notes, session)
            await workspaces.start()
            uploads = Uploads(api, session)
            pace = RateLimiter(api.notes)
            clicked = ClickedCards(api)
            self._shared = shared = SharedChannels()
            self._posts = CardPosting(
                workspaces, api.notes, pace, uploads, clicked.rank, shared, api.address_of
            )
            api.messages.links[PLATFORM] = self._posts.link
            directory = UserDirectory()
            self._app = app = self._build_parts(
                api, settings, workspaces, directory, uploads, clicked, session
            )
            routes: list[web.RouteDef] = []
            if settings.oauth:
                routes += InstallPages(settings, workspaces, api.notes, session).routes()
            watching = asyncio.create_task(workspaces.watch(self.token_seconds), name="slack token")
            drawing = asyncio.create_task(self._homes.run(), name="slack homes")
            try:
                async with self._listen(app, settings, session) as listening:
                    yield WebPages([*routes, *listening])
            finally:
                await cancel_and_wait(watching, drawing)
            directory.close()
            self._posts = None

    def _build_parts(
        self,
        api: AdapterApi,
        settings: SlackSettings,
        workspaces: Workspaces,
        directory: UserDirectory,
        uploads: Uploads,
        clicked: ClickedCards,
        session: aiohttp.ClientSession,
    ) -> App:
        rights = Rights(api, directory, uploads)
        answering = Answering(api, PLATFORM, lines=CARD_LINES, chars=CARD_CHARS)
        acts = ButtonActions(api, rights, answering, clicked)
        commands = SlackCommands(api, rights, answering, acts, SlackClaims(api, directory))
        hosts = frozenset({_HOOKS, urlsplit(settings.api_url).hostname or _HOOKS})

        def reply(workspace: Workspace, did: Interaction) -> PrivateReply:
            return PrivateReply(workspace, did, session, hosts)

        home = HomeTab(api, directory)

        async def draw(team: str, user: str) -> None:
            await home.publish(await workspaces.find(team), user, changed=True)

        self._homes = homes = HomeTabRefresher(api, RateLimiter(api.notes), draw)
        return App(
            workspaces,
            acts,
            Submissions(api, rights, answering, clicked),
            commands,
            home,
            homes,
            WorkspaceNews(api, directory, self._shared),
            reply,
        )

    @asynccontextmanager
    async def _listen(
        self, app: App, settings: SlackSettings, session: aiohttp.ClientSession
    ) -> AsyncIterator[list[web.RouteDef]]:
        if settings.mode == "http":
            secret = settings.signing_secret.get_secret_value() if settings.signing_secret else ""
            try:
                yield HttpReceiver(app.build_bolt_app(secret), secret, SystemClock()).routes()
            finally:
                await app.drain(_DRAIN_SECONDS)
            return
        async with self._connect(app, app.build_bolt_app(None), settings, session):
            yield []

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
        self, called: Called, notes: AdapterStorage, *, live: bool, trial: LiveTrial | None = None
    ) -> Sequence[tuple[str, Finding]]:
        """Run the checks of `gateway doctor` for Slack."""
        return await run_checks(list(called), notes, SystemClock(), live=live, trial=trial)

    def commands(self, verbs: Any) -> None:
        """Add `gateway slack manifest` and `gateway slack check`."""
        parser = verbs.add_parser(
            "manifest", help="print the manifest from which Slack creates the app"
        )
        parser.add_argument(
            "--http", metavar="URL", help="make a manifest for HTTP mode with this public address"
        )
        parser.add_argument(
            "--org", action="store_true", help="let a whole organisation install the app"
        )
        parser.set_defaults(run=_print_manifest)
        check = verbs.add_parser(
            "check", help="check the tokens, and whether the bot can post to channels"
        )
        check.add_argument(
            "targets",
            nargs="+",
            metavar="TARGET",
            help="channel to check, written slack:TEAM/CHANNEL as in a route",
        )
        check.set_defaults(run=_print_checks)

    @property
    def busy(self) -> bool:
        """Whether work is still running."""
        return self._app is not None and self._app.busy

    @property
    def problems(self) -> Sequence[str]:
        """The problems that keep people from deciding; empty if there are none."""
        parts = (self._socket, self._workspaces)
        return [f"Slack: {part.problem}" for part in parts if part is not None and part.problem]

    async def deliver(self, target: str, shown: Shown, nonce: str) -> MessageRef:
        """Post a card."""
        with self._posting() as posts:
            if isinstance(shown, GrantCard):
                return await SlackGrantPosting(posts).deliver(target, shown, nonce)
            return await posts.deliver(target, shown, nonce)

    async def update(self, ref: MessageRef, shown: Shown, nonce: str) -> None:
        """Edit a posted card."""
        with self._posting() as posts:
            if isinstance(shown, GrantCard):
                await SlackGrantPosting(posts).update(ref, shown, nonce)
            else:
                await posts.update(ref, shown, nonce)

    async def tell(self, notice: Notice, shown: Shown) -> None:
        """Post a notice; news about a grant becomes a reply to its card."""
        with self._posting() as posts:
            if isinstance(shown, GrantCard):
                await SlackGrantPosting(posts).announce(notice, shown)
            else:
                await posts.tell(notice, shown)

    async def check_copy(self, ref: MessageRef) -> None:
        """Check whether a posted card still exists. Raises CopyGone if not."""
        with self._posting() as posts:
            await posts.check_copy(ref)

    @contextmanager
    def _posting(self) -> Iterator[CardPosting]:
        """Yield the posting part. Raises RetryLater while Slack is unavailable."""
        if self._posts is None:
            raise RetryLater(1.0, "Slack is not connected yet")
        with self._patience.trying():
            yield self._posts


async def _print_manifest(options: argparse.Namespace) -> int:
    made = build_manifest(options.http, org=options.org)
    if wrong := find_problems(made):
        raise InvalidRequest(f"Slack would reject this manifest: {'; '.join(wrong)}")
    sys.stdout.write(json.dumps(made, indent=2) + "\n")
    return 0


async def _print_checks(options: argparse.Namespace) -> int:
    if SlackSettings().oauth:
        raise InvalidRequest("workspaces install the app by OAuth: run `gateway doctor` instead")
    notes: Any = None  # the checks read notes only for OAuth tokens
    found = await run_checks(options.targets, notes, SystemClock(), live=False)
    for name, finding in found:
        remedy = f"; {finding.remedy}" if finding.remedy else ""
        sys.stdout.write(f"{finding.result:<4} {name}: {finding.says}{remedy}\n")
    return 1 if any(finding.result == FAIL for _, finding in found) else 0
