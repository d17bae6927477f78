"""Receive Slack's events with Bolt, acknowledge them within three seconds, and do the work in
separate tasks; start with App. HttpReceiver adds HTTP mode.

Listeners only acknowledge and start tasks. Bolt would lose the response if a listener failed right
after it, does not track running work, and does not drop repeated envelopes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web
from slack_bolt import BoltResponse
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_sdk.signature import SignatureVerifier

from adapters.slack import modals, payloads
from adapters.slack.clicks import DONE, OPENS_MODAL, ButtonActions, Submissions
from adapters.slack.commands import COMMAND, SlackCommands
from adapters.slack.home_tab import HomeTab, HomeTabRefresher
from adapters.slack.payloads import ANSWER_SHORTCUT, NO_COPY, Interaction, Json, Malformed
from adapters.slack.posting import PrivateReply
from adapters.slack.users_and_rights import EVENTS as SHARING
from adapters.slack.users_and_rights import GROUP_EVENTS, LOSSES, WorkspaceNews
from adapters.slack.web_api import Workspace, Workspaces, library_logger
from gateway.chat.answering import describe_error as describe
from gateway.errors import Conflict, GatewayError, InvalidRequest, NotFound
from gateway.ports import (
    BodyTooLarge,
    BodyTooSlow,
    Clock,
    bug,
    parse_json,
    read_whole,
)

log = logging.getLogger("adapters.slack")

NO_REQUEST = f"This message is not a request. Use {COMMAND} list for your pending requests."
PATIENCE_SECONDS = 1.0  # a slower submission shows "Recording it…"
_HEAD_START_SECONDS = 0.01
_WORK_SECONDS = 20.0
_ANY = re.compile(".*", re.DOTALL)
_NAME = "app.py"  # without a name, Bolt reads the source files of all callers to find one

NewReply = Callable[[Workspace, Interaction], PrivateReply]


class App:
    """Receives Slack's events, acknowledges them, and starts tasks for the work."""

    def __init__(
        self,
        workspaces: Workspaces,
        acts: ButtonActions,
        submissions: Submissions,
        commands: SlackCommands,
        home: HomeTab,
        homes: HomeTabRefresher,
        news: WorkspaceNews,
        reply: NewReply,
    ) -> None:
        self._homes = homes
        self._news = news
        self._workspaces = workspaces
        self._acts = acts
        self._submissions = submissions
        self._commands = commands
        self._home = home
        self._reply = reply
        self._running: set[asyncio.Task[Any]] = set()
        self.heard = 0  # the number of messages from Slack

    def build_bolt_app(self, signing_secret: str | None) -> AsyncApp:
        """Build the Bolt app with its listeners; without a signing secret, for Socket Mode."""
        http = signing_secret is not None
        app = AsyncApp(
            name=_NAME,
            logger=library_logger(),
            authorize=_authorize,
            signing_secret=signing_secret or "",
            before_authorize=_Clicks(self._on_click),
            # These checks apply to HTTP only.
            request_verification_enabled=http,
            ssl_check_enabled=http,
            url_verification_enabled=http,
            # The gateway uses no functions or assistants, and handles no messages of apps.
            attaching_function_token_enabled=False,
            attaching_conversation_kwargs_enabled=False,
            ignoring_self_assistant_message_events_enabled=False,
        )
        app.action(_ANY)(self._on_closed)  # the middleware handles real clicks before this
        app.view(_ANY)(self._on_submission)
        app.view_closed(_ANY)(self._on_closed)
        app.command(_ANY)(self._on_command)
        app.event("app_home_opened")(self._on_home)
        app.event("app_uninstalled")(self._on_uninstalled)
        app.event("tokens_revoked")(self._on_revoked)
        app.event("team_access_granted")(self._on_access)
        app.event("team_access_revoked")(self._on_access)
        for event in (*GROUP_EVENTS, *LOSSES, *SHARING):
            app.event(event)(self._on_news)
        app.event(_ANY)(self._on_other)
        app.message_shortcut(ANSWER_SHORTCUT)(self._on_shortcut)
        app.shortcut(_ANY)(self._on_closed)
        app.options(_ANY)(self._on_closed)
        app.error(self._on_error)
        return app

    @property
    def busy(self) -> bool:
        """Whether work is still running."""
        return bool(self._running)

    async def drain(self, seconds: float) -> None:
        """Wait for running work for at most `seconds`, then cancel the rest."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        for task in list(self._running):
            task.cancel()

    # ---------------------------------------------------------------- listeners

    async def _on_click(self, body: Json) -> None:
        self._hand_over(self._run_button(body))
        # Start the click before acknowledging: Slack sends nothing else meanwhile.
        await asyncio.sleep(_HEAD_START_SECONDS)

    async def _on_submission(self, ack: Any, body: Json) -> None:
        task = self._hand_over(self._submit(body))
        done, _ = await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
        if done and not task.cancelled() and task.exception() is None:
            await ack(**(task.result() or {}))
            return
        await ack(response_action="update", view=modals.build_notice("Approvals", "Recording it…"))
        self._hand_over(self._show_late(task, body))

    async def _on_command(self, ack: Any, body: Json) -> None:
        await ack()
        self._hand_over(self._run_command(body))

    async def _on_shortcut(self, ack: Any, body: Json) -> None:
        await ack()
        self._hand_over(self._run_shortcut(body))

    async def _on_home(self, body: Json) -> None:
        self._hand_over(self._open_home(body))

    async def _on_uninstalled(self, body: Json) -> None:
        self._hand_over(self._uninstall(body))

    async def _on_revoked(self, body: Json) -> None:
        if body.get("event", {}).get("tokens", {}).get("bot"):
            self._hand_over(self._uninstall(body))

    async def _on_news(self, body: Json) -> None:
        self._hand_over(self._news.follow(body))

    async def _on_access(self, body: Json) -> None:
        self._hand_over(self._workspaces.refresh(str(body.get("enterprise_id") or "")))

    async def _on_closed(self, ack: Any) -> None:
        await ack()

    async def _on_other(self) -> None:
        self.heard += 1

    async def _on_error(self, error: Exception) -> None:
        log.error("a listener failed: %s", bug(error), extra={"event": "slack_listener"})

    # ---------------------------------------------------------------- work

    def _hand_over(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        self.heard += 1
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _run_button(self, body: Json) -> None:
        async def work(workspace: Workspace, did: Interaction, reply: PrivateReply) -> None:
            try:
                await self._acts.run(workspace, did, reply)
            except Conflict:  # somebody else was faster, or the card is outdated
                await self._acts.repair(did, reply)
                raise
            if did.view.get("type") == "home" and did.act not in OPENS_MODAL:
                await self._draw_home(workspace, did.actor.user)

        await self._run_work(payloads.read_click, body, work)

    async def _run_command(self, body: Json) -> None:
        await self._run_work(payloads.read_command, body, self._commands.run)

    async def _run_shortcut(self, body: Json) -> None:
        async def work(workspace: Workspace, did: Interaction, reply: PrivateReply) -> None:
            if did.value:
                await self._acts.run(workspace, did, reply)
            else:
                await reply.tell(NO_REQUEST)

        await self._run_work(payloads.read_shortcut, body, work)

    async def _run_work(
        self,
        read: Callable[[Json], Interaction],
        body: Json,
        work: Callable[[Workspace, Interaction, PrivateReply], Awaitable[None]],
    ) -> None:
        """Parse the event and do the work; on failure, tell the person."""
        try:
            did = read(body)
            workspace = await self._find_workspace(did)
        except (Malformed, GatewayError) as error:
            log.warning("refused: %s", type(error).__name__, extra={"event": "slack_refused"})
            return
        reply = self._reply(workspace, did)
        try:
            async with asyncio.timeout(_WORK_SECONDS):
                await work(workspace, did, reply)
        except Exception as error:
            # The person must learn of every failure.
            await reply.tell(describe_error(error))

    async def _submit(self, body: Json) -> Json:
        """Handle a submitted modal; return the response for Slack."""
        try:
            did = payloads.read_submission(body)
            workspace = await self._find_workspace(did)
            async with asyncio.timeout(_WORK_SECONDS):
                if did.act == modals.ADD_PLACE:
                    return await self._commands.claims.submit(workspace, did)
                answer = await self._submissions.submit(workspace, did)
                if answer == DONE and did.form().copy == NO_COPY:
                    self._hand_over(self._draw_home(workspace, did.actor.user))
                return answer
        except Exception as error:
            # Without a response, the modal would stay open with an unclear error.
            return {
                "response_action": "update",
                "view": modals.build_notice("Approvals", describe_error(error)),
            }

    async def _show_late(self, task: asyncio.Task[Json], body: Json) -> None:
        """Show the result of a submission whose modal already said "Recording it…"."""
        answer = await task
        did = payloads.read_submission(body)
        reply = self._reply(await self._find_workspace(did), did)
        done = modals.build_notice("Approvals", "Your decision was recorded. The card shows it.")
        if answer.get("response_action") == "errors":
            done = modals.build_notice("Approvals", "; ".join(answer["errors"].values()))
        await reply.show(answer.get("view") or done)

    async def _open_home(self, body: Json) -> None:
        event = body.get("event") or {}
        if event.get("tab") != "home":
            return
        try:
            workspace = await self._workspaces.find(str(body.get("team_id") or ""))
        except GatewayError as error:
            log.warning("no Home: %s", type(error).__name__, extra={"event": "slack_no_home"})
            return
        seen, user = (event.get("view") or {}).get("hash"), str(event.get("user") or "")
        await self._draw_home(workspace, user, seen)
        await self._homes.watch(workspace.team, user)

    async def _draw_home(self, workspace: Workspace, user: str, seen: str | None = None) -> None:
        """Publish a user's Home tab. Log failures and go on."""
        try:
            await self._home.publish(workspace, user, seen)
        except Exception as error:
            # The action itself succeeded, and the tab is published again when it is opened.
            log.warning("no Home: %s", bug(error), extra={"event": "slack_no_home"})

    async def _uninstall(self, body: Json) -> None:
        team, org = str(body.get("team_id") or ""), str(body.get("enterprise_id") or "")
        if org and team in ("", org):
            await self._workspaces.uninstall_everywhere(org)
        else:
            await self._workspaces.uninstall(team)

    async def _find_workspace(self, did: Interaction) -> Workspace:
        """Return the workspace of an interaction. Raises Malformed if it is for another app."""
        workspace = await self._workspaces.find(did.actor.team)
        if did.app_id != workspace.app_id:
            raise Malformed("the interaction is for another app")
        return workspace


class _Clicks(AsyncMiddleware):
    """Handles clicks before Bolt's slow search for a listener."""

    def __init__(self, take: Callable[[Json], Awaitable[None]]) -> None:
        self._take = take

    async def async_process(
        self,
        *,
        req: AsyncBoltRequest,
        resp: BoltResponse,
        next: Callable[[], Awaitable[BoltResponse]],
    ) -> BoltResponse:
        """Handle clicks; pass everything else on to the listeners."""
        if req.body.get("type") != "block_actions":
            return await next()
        await self._take(req.body)
        return BoltResponse(status=200)


async def _authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
    """Return a dummy token, because Bolt requires one before it calls a listener.

    Slack waits for the response here, so there is no lookup. The tasks check the workspace later,
    with their own clients.
    """
    return AuthorizeResult(
        enterprise_id=enterprise_id, team_id=team_id, bot_token="none", bot_user_id="none"
    )


def describe_error(error: Exception) -> str:
    """Describe an error in a sentence for a person."""
    return describe(NotFound() if isinstance(error, Malformed) else error)[1]


# HTTP mode: receives Slack's deliveries, and passes only freshly signed ones on to Bolt.

PATH = "/slack/events"
MAX_BYTES = 1_000_000
_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
_WINDOW_SECONDS = 300
_REMEMBERED = 20_000  # signatures, each valid no longer than the window


class BadDelivery(Exception):
    """The receiver refuses a delivery with this HTTP status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class HttpReceiver:
    """Verifies Slack's HTTP deliveries before Bolt gets them."""

    def __init__(self, app: AsyncApp, signing_secret: str, clock: Clock) -> None:
        self._app = app
        self._verifier = SignatureVerifier(signing_secret)
        self._clock = clock
        self._seen: OrderedDict[str, int] = OrderedDict()

    def routes(self) -> list[web.RouteDef]:
        """Return the HTTP route that Slack posts to."""
        return [web.post(PATH, self._receive)]

    async def _receive(self, request: web.Request) -> web.Response:
        try:
            body = await self._read_verified(request)
        except BadDelivery as bad:
            log.warning("refused: %s", bad, extra={"event": "slack_unsigned"})
            return web.Response(status=bad.status, text="refused")
        headers: dict[str, str | Sequence[str]] = dict(request.headers.items())
        answer = await self._app.async_dispatch(AsyncBoltRequest(body=body, headers=headers))
        first = answer.first_headers_without_set_cookie()
        kind = str(first.get("content-type", "text/plain")).partition(";")[0]
        return web.Response(status=answer.status, text=answer.body or "", content_type=kind)

    async def _read_verified(self, request: web.Request) -> str:
        """Return the body, if Slack signed it within five minutes and it is not a replay. Raises
        BadDelivery."""
        if request.content_type not in (_FORM, _JSON):
            raise BadDelivery(400, "the content type is not supported")
        raw = await _read(request)
        try:
            body = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise BadDelivery(400, "the body is not UTF-8") from None
        self._check_signature(request, body)
        _check_form(body) if request.content_type == _FORM else _check_json(raw)
        return body

    def _check_signature(self, request: web.Request, body: str) -> None:
        stamps = request.headers.getall("X-Slack-Request-Timestamp", [])
        signatures = request.headers.getall("X-Slack-Signature", [])
        if len(stamps) != 1 or len(signatures) != 1 or not stamps[0].isascii():
            raise BadDelivery(401, "the signature headers are missing or malformed")
        if not (stamps[0].isdigit() and len(stamps[0]) <= 12):  # noqa: PLR2004 (a time in seconds)
            raise BadDelivery(401, "timestamp")
        now = self._clock.now_ms() // 1000
        if abs(now - int(stamps[0])) > _WINDOW_SECONDS:
            raise BadDelivery(401, "stale")
        if not self._verifier.is_valid(body, stamps[0], signatures[0]):
            raise BadDelivery(401, "signature")
        self._check_first(signatures[0], now)

    def _check_first(self, signature: str, now: int) -> None:
        """Refuse a second delivery with the same signature: Slack signs each retry again."""
        key = hashlib.sha256(signature.encode()).hexdigest()
        while self._seen and next(iter(self._seen.values())) < now - 2 * _WINDOW_SECONDS:
            self._seen.popitem(last=False)
        if key in self._seen:
            raise BadDelivery(401, "replay")
        self._seen[key] = now
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)


async def _read(request: web.Request) -> bytes:
    try:
        return await read_whole(request.content.iter_any(), most=MAX_BYTES)
    except BodyTooLarge:
        raise BadDelivery(413, "the body is too large") from None
    except BodyTooSlow:
        raise BadDelivery(408, "the body did not arrive in time") from None


def _check_form(body: str) -> None:
    """Refuse a form that parsers could read differently, or a payload that is not strict JSON."""
    try:
        pairs = parse_qsl(body, keep_blank_values=True, strict_parsing=True, max_num_fields=100)
    except ValueError:
        raise BadDelivery(400, "form") from None
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise BadDelivery(400, "the JSON has a duplicate key")
    payload = dict(pairs).get("payload")
    if payload is not None:
        _check_json(payload.encode("utf-8", "surrogatepass"))


def _check_json(raw: bytes) -> None:
    try:
        value = parse_json(raw, max_bytes=MAX_BYTES)
    except InvalidRequest:
        raise BadDelivery(400, "the body is not strict JSON") from None
    if not isinstance(value, dict):
        raise BadDelivery(400, "the body is not a JSON object")
