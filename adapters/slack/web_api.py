"""Call Slack's Web API: find workspaces and tokens, translate errors, and upload files; start with
Workspaces and `call_once`.

The app is installed in one workspace by configured tokens, or in many by OAuth. OAuth tokens are
stored as notes. An organisation has one token for all its workspaces; it is stored once per
workspace, so that each can be looked up alone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.proxy_env_variable_loader import load_http_proxy_from_env
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.cards import FullText
from adapters.slack.payloads import Json, SlackPlace, read_place
from adapters.slack.settings import SlackSettings
from gateway.cards.card import Card, full_view
from gateway.errors import GatewayError
from gateway.ports import (
    AdapterApi,
    AdapterStorage,
    CopyGone,
    DeliveryFailed,
    DeliveryUncertain,
    Limited,
    MessageRef,
    RetryLater,
)

# A logger for Slack's libraries that never logs tokens, payloads or addresses.
#
# Bolt logs rejected bodies, the Socket Mode client logs messages it could not handle, and both
# format exceptions that contain responses. Only the source location and the exception's type
# remain.

NAME = "adapters.slack.library"


class LogRedactor(logging.Filter):
    """Replaces third-party log messages with their source location."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the message and drop the exception. Always return True."""
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        said = f"{record.module}.{record.funcName}, line {record.lineno}"
        record.msg = f"Slack's library: {said}{f': {kind}' if kind else ''}"
        record.args = None
        record.exc_info = None
        record.exc_text = None
        return True


def library_logger() -> logging.Logger:
    """Return the logger to hand to slack_sdk and slack_bolt."""
    logger = logging.getLogger(NAME)
    logger.setLevel(logging.WARNING)
    if not any(isinstance(one, LogRedactor) for one in logger.filters):
        logger.addFilter(LogRedactor())
    return logger


log = logging.getLogger("adapters.slack")

CALL_SECONDS = 10.0
_LONGEST_WAIT = 60.0
_LONGEST_PAUSE = 5.0
_TOO_MANY = 429

# Slack documents that the call may have taken effect before these errors.
_DOUBTFUL = {"internal_error", "fatal_error", "request_timeout"}
_LATER = {
    "ratelimited",
    "rate_limited",
    "service_unavailable",
    "team_added_to_org",
    "accesslimited",
}


class SlackRefused(DeliveryFailed):
    """Slack refused the call with an error code, `error`."""

    code = "slack_refused"

    def __init__(self, error: str, detail: str = "") -> None:
        super().__init__(f"Slack returned the error {error}{f': {detail}' if detail else ''}")
        self.error = error


class SlackFailed(DeliveryUncertain):
    """Slack reported an internal failure. The call probably had no effect, but may have."""

    code = "slack_failed"


class Unavailable(RetryLater):
    """Slack's API was not reached, or did nothing. `unsent` means that it never saw the call."""

    def __init__(self, why: str, *, unsent: bool = False) -> None:
        super().__init__(1.0, why, unsent=unsent)


class CircuitBreaker:
    """Circuit breaker: while Slack is down, send one probe at a time with exponential backoff.

    All other calls are delayed, so that they use up no rate limit and go out once Slack is back.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._until = 0.0
        self._trying = False

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Guard one call. Raises RetryLater while Slack is unavailable, also on entering."""
        now = asyncio.get_running_loop().time
        if now() < self._until:
            raise RetryLater(self._until - now(), "Slack is unavailable", unsent=True)
        alone = self._failures > 0
        if alone and self._trying:
            raise RetryLater(_AWAY_SECONDS / 2, "Slack is unavailable", unsent=True)
        self._trying = alone or self._trying
        try:
            yield
        except Unavailable as outage:
            if now() >= self._until:  # simultaneous failures count once
                self._failures += 1
                self._until = now() + min(2.0 ** (self._failures - 1), _LONGEST_PAUSE)
            raise RetryLater(self._until - now(), str(outage), unsent=outage.unsent) from outage
        except (SlackRefused, CopyGone):
            self._failures = 0  # Slack answers again
            raise
        else:
            self._failures = 0
        finally:
            self._trying = self._trying and not alone


def open_session() -> aiohttp.ClientSession:
    """Open an HTTP session for all workspaces: no cookies, a time limit for each call, and the
    proxy that the SDK would use."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=CALL_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        proxy=load_http_proxy_from_env(library_logger()),
    )


def build_client(token: str | None, api_url: str, session: aiohttp.ClientSession) -> AsyncWebClient:
    """Build a client without retries: the SDK's retries would post cards twice.

    Only the session limits the duration of calls.
    """
    return AsyncWebClient(
        token=token,
        base_url=api_url,
        session=session,
        timeout=int(CALL_SECONDS),
        retry_handlers=[],
        logger=library_logger(),
    )


async def call_repeatable(call: Callable[[], Awaitable[Any]]) -> Json:
    """Make a call that is safe to repeat, once; return its answer.

    Raises SlackRefused or RetryLater, never DeliveryUncertain.
    """
    try:
        return await call_once(call)
    except DeliveryUncertain as doubt:
        raise Unavailable(str(doubt)) from doubt


async def call_once(call: Callable[[], Awaitable[Any]]) -> Json:
    """Make a call once; return its answer. Raises as `call_for_response` does."""
    data = (await call_for_response(call)).data
    return data if isinstance(data, dict) else {}


async def call_for_response(call: Callable[[], Awaitable[Any]]) -> Any:
    """Make a call once; return the SDK's response with its headers.

    Raises SlackRefused, RetryLater if it certainly had no effect, DeliveryUncertain otherwise.
    """
    try:
        return await call()
    except SlackApiError as error:
        raise _translate_error(error) from error
    except aiohttp.ClientConnectorError as error:
        why = f"cannot reach Slack ({type(error).__name__})"
        raise Unavailable(why, unsent=True) from error
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise DeliveryUncertain(f"Slack did not respond: {type(error).__name__}") from error


def _translate_error(error: SlackApiError) -> DeliveryFailed:
    response: Any = error.response
    status = int(getattr(response, "status_code", 0) or getattr(response, "status", 0))
    data = getattr(response, "data", None)
    code = str(data.get("error", "")) if isinstance(data, dict) else ""
    if status == _TOO_MANY or code in _LATER:
        return Limited(_retry_after(response), "Slack's rate limit")
    if code in _DOUBTFUL:
        return SlackFailed(f"Slack returned the error {code}")
    if not code:
        # An error page from a server in front of Slack's API, which never saw the call.
        return Unavailable(f"Slack is not available ({status})", unsent=True)
    messages = (
        data.get("response_metadata", {}).get("messages", []) if isinstance(data, dict) else []
    )
    needed = data.get("needed", "") if isinstance(data, dict) else ""
    return SlackRefused(code, str(needed) or "; ".join(map(str, messages))[:300])


def _retry_after(response: Any) -> float:
    headers = getattr(response, "headers", None) or {}
    try:
        seconds = float(headers.get("Retry-After", "1"))
    except (TypeError, ValueError):
        seconds = 1.0
    return min(max(seconds, 1.0), _LONGEST_WAIT) if math.isfinite(seconds) else _LONGEST_WAIT


_INSTALL, _ORG = "install {team}", "organisation {org}"
TOKEN_SECONDS = 30.0  # between two checks of the configured token
_AWAY_SECONDS = 2.0  # the same, until the first check succeeds
NEEDED_SCOPES = ("chat:write", "commands", "users:read")


class NotInstalled(GatewayError):
    """The app is not installed in this workspace, or was removed from it."""

    code = "not_installed"


class TokenRefused(GatewayError):
    """Slack refuses this bot token, or it lacks scopes that the app needs."""

    code = "token_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """One workspace: its token and a client that acts as the app there.

    `org` is the organisation that the token belongs to; empty for a token of the workspace. `url`
    is the workspace's web address.
    """

    team: str
    token: str
    app_id: str
    client: AsyncWebClient
    org: str = ""
    url: str = ""


class Workspaces:
    """Finds the workspace of a team id, and stores installations.

    `problem` says why the configured token is unusable; empty if it works.
    """

    def __init__(
        self, settings: SlackSettings, notes: AdapterStorage, session: aiohttp.ClientSession
    ) -> None:
        self._settings = settings
        self._notes = notes
        self._session = session
        self._known: dict[str, Workspace] = {}
        self._lock = asyncio.Lock()
        self.problem = ""

    async def start(self) -> None:
        """Check the configured token. Raises TokenRefused, whose text says what to do.

        If Slack does not answer, `watch` tries again.
        """
        try:
            await self._check()
        except Unavailable as away:
            self._say(str(away))

    async def _check(self) -> None:
        """Look up the workspace of the configured token. Raises TokenRefused, Unavailable."""
        if self._settings.bot_token is not None:
            found = await self._look_up(self._settings.bot_token.get_secret_value())
            self._known[found.team] = found

    async def watch(self, seconds: float) -> None:
        """Check the configured token every `seconds` until cancelled: only this check detects that
        it was revoked."""
        while self._settings.bot_token is not None:
            await asyncio.sleep(seconds if self._known else min(seconds, _AWAY_SECONDS))
            try:
                await self._check()
            except TokenRefused as refused:
                self._say(str(refused))
            except Exception as error:
                # An unreachable Slack says nothing about the token.
                data = {"event": "slack_token_unsure"}
                log.info("could not check the token: %s", type(error).__name__, extra=data)
            else:
                self._say("")

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            data = {"event": "slack_token"}
            log.log(logging.ERROR if problem else logging.INFO, problem or "token ok", extra=data)
        self.problem = problem

    async def find(self, team: str) -> Workspace:
        """Return the workspace with this id. Raises NotInstalled, TokenRefused, Unavailable."""
        if self._settings.bot_token is not None and not self._known:
            await self._check()  # Slack did not answer at startup
        known = self._known.get(team)
        if known is not None and self._settings.bot_token is not None:
            return known
        token, org = await self.read_token(team)
        if known is not None and known.token == token:
            return known
        async with self._lock:
            found = await self._look_up(token, team, org)
        if found.team != team:
            raise NotInstalled(f"the stored token does not belong to the Slack workspace {team}")
        self._known[team] = found
        return found

    async def read_token(self, team: str) -> tuple[str, str]:
        """Return the token of a workspace's installation, and its organisation.

        Reads the store each time, because another replica may change it. Raises NotInstalled.
        """
        stored = None
        if self._settings.bot_token is None:
            stored = await self._notes.get(_INSTALL.format(team=team))
        if stored is None:
            self._known.pop(team, None)
            raise NotInstalled(f"the app is not installed in the Slack workspace {team}")
        kept = json.loads(stored)
        return str(kept["token"]), str(kept.get("org", ""))

    async def install(self, token: str) -> None:
        """Store the token of a workspace's installation."""
        found = await self._look_up(token)
        await self._notes.put(_INSTALL.format(team=found.team), json.dumps({"token": token}))
        self._known[found.team] = found

    async def install_everywhere(self, org: str, token: str) -> None:
        """Store an organisation's token for each workspace that has the app; forget the others."""
        stored = await self._notes.get(_ORG.format(org=org))
        before = set(json.loads(stored)["teams"]) if stored else set()
        teams = await self._teams(token)
        await self._notes.put(_ORG.format(org=org), json.dumps({"token": token, "teams": teams}))
        for team in teams:
            kept = json.dumps({"token": token, "org": org})
            await self._notes.put(_INSTALL.format(team=team), kept)
        for team in before - set(teams):
            await self.uninstall(team)

    async def _teams(self, token: str) -> list[str]:
        client = build_client(token, self._settings.api_url, self._session)
        teams: list[str] = []
        cursor = None
        while cursor != "":
            page = await call_repeatable(partial(client.auth_teams_list, cursor=cursor))
            teams += [team["id"] for team in page["teams"]]
            cursor = page.get("response_metadata", {}).get("next_cursor", "")
        return teams

    async def refresh(self, org: str) -> None:
        """Update an organisation's workspaces after it added or removed the app in some."""
        if stored := await self._notes.get(_ORG.format(org=org)):
            await self.install_everywhere(org, json.loads(stored)["token"])

    async def uninstall(self, team: str) -> None:
        """Forget a workspace that removed the app or revoked its token."""
        self._known.pop(team, None)
        await self._notes.delete(_INSTALL.format(team=team))
        log.warning("a workspace removed the app", extra={"event": "slack_uninstalled"})

    async def uninstall_everywhere(self, org: str) -> None:
        """Forget an organisation that removed the app."""
        stored = await self._notes.get(_ORG.format(org=org))
        for team in json.loads(stored)["teams"] if stored else ():
            await self.uninstall(team)
        await self._notes.delete(_ORG.format(org=org))

    async def _look_up(self, token: str, team: str = "", org: str = "") -> Workspace:
        """Return the workspace of a token, or with `org` the workspace `team`.

        Raises TokenRefused, Unavailable.
        """
        client = build_client(token, self._settings.api_url, self._session)
        try:
            who = await call_for_response(client.auth_test)
            if missing := set(NEEDED_SCOPES) - read_scopes(who):
                raise TokenRefused(
                    f"the Slack app lacks the scopes {', '.join(sorted(missing))}; "
                    "add them from `gateway slack manifest` and install it again"
                )
            team = team if org else who["team_id"]
            bot = await call_repeatable(
                lambda: client.bots_info(bot=who.get("bot_id", ""), team_id=team)
            )
        except SlackRefused as refused:
            raise TokenRefused(f"Slack rejects the bot token ({refused.error})") from refused
        except DeliveryFailed as error:
            raise Unavailable(str(error)) from error
        app_id, url = bot["bot"]["app_id"], str(who.get("url", ""))
        return Workspace(team=team, org=org, token=token, app_id=app_id, client=client, url=url)


def read_scopes(who: Any) -> set[str]:
    """Return the scopes of a token from Slack's answer to `auth.test`."""
    return set(str(who.headers.get("x-oauth-scopes", "")).split(","))


# Uploads of full texts to a card's thread. A long request needs one for approval in Slack.

_KEPT_SECONDS = 40 * 24 * 3600.0
_OK = 200


class Uploads:
    """Attaches full texts to cards, once for each card and action digest."""

    def __init__(self, api: AdapterApi, session: aiohttp.ClientSession) -> None:
        self._api = api
        self._session = session

    async def attach(
        self, workspace: Workspace, ref: MessageRef, card: Card, thread: str
    ) -> FullText:
        """Attach the full text to a thread, unless it is already there; return ATTACHED or
        MISSING."""
        if await self.is_attached(ref, card.digest):
            return FullText.ATTACHED
        record = await self._api.requests.get(card.request_id)
        if record.digest != card.digest:
            return FullText.MISSING
        text = full_view(record).text.encode()
        place = SlackPlace(*read_place(ref.channel)[:2], thread)
        name, title = f"approval-{card.short_id}.txt", f"Full text · sha256 {card.digest}"
        try:
            await upload_file(workspace.client, self._session, place, text, name=name, title=title)
        except DeliveryFailed as error:
            data = {"event": "slack_upload_failed", "request_id": card.request_id}
            log.warning("could not attach the full text: %s", type(error).__name__, extra=data)
            return FullText.MISSING
        await self._api.notes.put(_key(ref, card.digest), "1", seconds=_KEPT_SECONDS)
        return FullText.ATTACHED

    async def is_attached(self, ref: MessageRef, digest: str) -> bool:
        """Whether the thread of a posted card has the full text for this digest."""
        return await self._api.notes.get(_key(ref, digest)) is not None


async def upload_file(
    client: AsyncWebClient,
    session: aiohttp.ClientSession,
    place: SlackPlace,
    content: bytes,
    *,
    name: str,
    title: str,
) -> str:
    """Attach a file to a thread; return its id. Raises DeliveryFailed."""
    given = await call_repeatable(
        lambda: client.files_getUploadURLExternal(filename=name, length=len(content))
    )
    try:
        async with session.post(given["upload_url"], data=BytesIO(content)) as response:
            status = response.status
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise DeliveryFailed(f"Slack did not accept the file: {type(error).__name__}") from error
    if status != _OK:
        raise DeliveryFailed(f"Slack did not accept the file ({status})")
    file_id = str(given["file_id"])
    await call_repeatable(
        lambda: client.files_completeUploadExternal(
            files=[{"id": file_id, "title": title}],
            channel_id=place.channel,
            thread_ts=place.thread,
        )
    )
    return file_id


def _key(ref: MessageRef, digest: str) -> str:
    return f"file {ref.channel} {ref.message} {digest}"
