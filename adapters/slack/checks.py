"""What `gateway doctor` finds about Slack, and what to do about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.calls import CALL_SECONDS, SlackRefused, asked, client_of
from adapters.slack.manifest import BOT_SCOPES
from adapters.slack.rehearsal import rehearsed
from adapters.slack.settings import SlackSettings
from adapters.slack.values import Malformed, place_of
from adapters.slack.workspaces import NEEDED_SCOPES
from gateway.clock import Clock
from gateway.delivery import DeliveryFailed
from gateway.errors import GatewayError
from gateway.findings import Finding, doubtful, failed, fine

_LARGEST_GAP_SECONDS = 60
_MANIFEST = "make the app from `gateway manifest slack`, and install it again"
Found = tuple[str, Finding]


async def examined(targets: Sequence[str], clock: Clock, *, live: bool) -> list[Found]:
    """Run every check; what depends on something that failed is left out."""
    settings = SlackSettings()
    try:
        settings.refuse_incomplete()
    except GatewayError as error:
        return [("slack settings", failed(str(error), "see docs/slack.md"))]
    found = [("slack settings", fine(f"mode {settings.mode}"))]
    if settings.bot_token is None:
        said = "workspaces install by OAuth; each token is checked when it is used"
        return [*found, ("slack tokens", fine(said))]
    timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        client = client_of(settings.bot_token.get_secret_value(), settings.api_url, session)
        try:
            who: Any = await client.auth_test()
        except (SlackApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
            said = f"Slack does not take the bot token: {_code(error)}"
            remedy = "copy GATEWAY_SLACK_BOT_TOKEN from OAuth & Permissions of the app's page"
            return [*found, ("slack tokens", failed(said, remedy))]
        found.append(("slack tokens", await _tokens(settings, client, who, session)))
        found.append(("slack scopes", _scopes(who)))
        found.append(("slack clock", _clock(who, clock)))
        found.append(("slack channels", await _channels(client, who["team_id"], targets)))
        if live:
            found.append(("slack live", await rehearsed(client, who["team_id"], targets)))
    return found


async def _tokens(
    settings: SlackSettings, client: AsyncWebClient, who: Any, session: aiohttp.ClientSession
) -> Finding:
    said = f"{who['user']} in {who['team']} ({who['team_id']})"
    if settings.app_token is None or settings.mode != "socket":
        return fine(said)
    app = client_of(settings.app_token.get_secret_value(), settings.api_url, session)
    remedy = "make an app-level token with connections:write on the app's page"
    try:
        theirs = (await app.auth_test())["app_id"]
        await app.apps_connections_open(app_token=settings.app_token.get_secret_value())
        ours = (await client.bots_info(bot=who["bot_id"]))["bot"]["app_id"]
    except (SlackApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
        return failed(f"Slack does not take the app token: {_code(error)}", remedy)
    if theirs != ours:
        return failed("the app token and the bot token belong to two different apps", remedy)
    return fine(said)


def _scopes(who: Any) -> Finding:
    granted = set(str(who.headers.get("x-oauth-scopes", "")).split(","))
    missing = [scope for scope in BOT_SCOPES if scope not in granted]
    if not missing:
        return fine("all that the manifest asks for")
    said = f"missing: {', '.join(missing)}"
    needed = any(scope in NEEDED_SCOPES for scope in missing)
    return failed(said, _MANIFEST) if needed else doubtful(said, _MANIFEST)


def _clock(who: Any, clock: Clock) -> Finding:
    try:
        theirs = parsedate_to_datetime(str(who.headers.get("Date"))).timestamp()
    except ValueError:
        return doubtful("Slack did not say the time", "try again")
    gap = abs(theirs - clock.now_ms() / 1000)
    if gap > _LARGEST_GAP_SECONDS:
        said = f"this host and Slack differ by {gap:.0f} s; signed requests are refused from 300 s"
        return failed(said, "set the host's clock, for example with chrony")
    return fine("agrees with Slack's")


async def _channels(client: AsyncWebClient, team: str, targets: Sequence[str]) -> Finding:
    wrong = [why for target in targets if (why := await _unreachable(client, team, target))]
    if wrong:
        return failed("; ".join(wrong), "invite the app: /invite @approvals in the channel")
    if not targets:
        return doubtful("no route in force names Slack", "name slack:TEAM/CHANNEL in a route")
    return fine(f"{len(targets)} reachable")


async def _unreachable(client: AsyncWebClient, team: str, target: str) -> str:
    """Return why a target cannot be posted to, empty when it can."""
    try:
        workspace, channel, _ = place_of(target)
    except Malformed as error:
        return str(error)
    if workspace != team:
        return f"{target} is in another workspace than the token, {team}"
    person = channel[0] in "UW"
    call: Callable[[], Awaitable[Any]] = (
        (lambda: client.users_info(user=channel))
        if person
        else (lambda: client.conversations_info(channel=channel))
    )
    try:
        answer = await asked(call)
    except SlackRefused as refused:
        return f"{target}: {refused.error}"
    except DeliveryFailed as failure:
        return f"{target}: {failure}"
    about = answer.get("user" if person else "channel", {})
    if about.get("deleted") or about.get("is_archived"):
        return f"{target} is {'deactivated' if person else 'archived'}"
    return "" if person or about.get("is_member") else f"the app is not in {target}"


def _code(error: Exception) -> str:
    response = getattr(error, "response", None)
    data = getattr(response, "data", None)
    return str(data.get("error")) if isinstance(data, dict) else type(error).__name__
