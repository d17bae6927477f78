"""Build the Slack app's manifest, and serve its installation by OAuth; start with `build_manifest`
and InstallPages."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from adapters.slack.commands import COMMAND
from adapters.slack.payloads import ANSWER_SHORTCUT, Json
from adapters.slack.settings import SlackSettings
from adapters.slack.users_and_rights import EVENTS as SHARING
from adapters.slack.users_and_rights import GROUP_EVENTS, LOSSES
from adapters.slack.web_api import Workspaces, build_client, call_repeatable
from gateway.cards.shared_texts import count_units
from gateway.errors import GatewayError, Misconfigured
from gateway.ports import AdapterStorage, DeliveryFailed, SystemClock

BOT_SCOPES = (
    "channels:read",
    "chat:write",
    "commands",
    "files:write",
    "groups:read",
    "usergroups:read",
    "users:read",
)
EVENTS = (
    "app_home_opened",
    "app_uninstalled",
    "tokens_revoked",
    *GROUP_EVENTS,
    *LOSSES,
    *SHARING,
)
_ORG_EVENTS = ("team_access_granted", "team_access_revoked")
SHORTCUT = {
    "name": "Answer this request",
    "type": "message",
    "callback_id": ANSWER_SHORTCUT,
    "description": "Open the full view of the request on this card, with its buttons",
}
_SHORTCUT, _CALLBACK, _SHORT = 24, 255, 150
_NAME, _COMMAND, _DESCRIPTION, _LONG, _EVENTS = 35, 32, 140, 4000, 100
_COMMAND_WORDS, _LEAST_LONG, _HINT = 2000, 175, 1000
_LONG_DESCRIPTION = (
    "Your agents ask before they act. Each request appears in the channel that its route names, "
    "and shows exactly what would run. Approve it, deny it with a reason, or change it first. "
    "The agent continues at once, and the card keeps showing who decided what."
)


def build_manifest(public_url: str | None = None, *, org: bool = False) -> Json:
    """Build the manifest for Socket Mode, or with a public URL for HTTP mode.

    With `org`, an Enterprise organisation can install the app for all its workspaces.
    """
    http = public_url is not None
    url = f"{public_url.rstrip('/')}/slack/events" if public_url else ""
    address = {"url": url} if http else {}
    command = {
        "command": COMMAND,
        "description": "List and decide your pending requests",
        "usage_hint": "list | show ID | approve ID | deny ID reason | here | who",
        "should_escape": False,
        **address,
    }
    request = {"request_url": url} if http else {}
    oauth: Json = {"scopes": {"bot": list(BOT_SCOPES)}}
    if public_url:
        oauth["redirect_urls"] = [f"{public_url.rstrip('/')}/slack/oauth_redirect"]
    return {
        "_metadata": {"major_version": 1, "minor_version": 1},
        "display_information": {
            "name": "Approvals",
            "description": "Approve what your agents are about to do",
            "long_description": _LONG_DESCRIPTION,
            "background_color": "#1d4b3a",
        },
        "features": {
            "app_home": {
                "home_tab_enabled": True,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": True,
            },
            "bot_user": {"display_name": "approvals", "always_online": True},
            "slash_commands": [command],
            "shortcuts": [SHORTCUT],
        },
        "oauth_config": oauth,
        "settings": {
            "event_subscriptions": {
                "bot_events": [*EVENTS, *(_ORG_EVENTS if org else ())],
                **request,
            },
            "interactivity": {"is_enabled": True, **request},
            "org_deploy_enabled": org,
            "socket_mode_enabled": not http,
            "token_rotation_enabled": False,
        },
    }


def find_problems(found: Json) -> list[str]:
    """Return the faults for which Slack would refuse a manifest; empty if it has none."""
    wrong: list[str] = []

    def limit(path: str, most: int, least: int = 1) -> None:
        text = _get_path(found, path)
        if not isinstance(text, str) or not least <= count_units(text) <= most:
            wrong.append(f"{path} must have {least} to {most} characters")

    limit("display_information.name", _NAME)
    limit("display_information.description", _DESCRIPTION)
    limit("display_information.long_description", _LONG, _LEAST_LONG)
    limit("features.bot_user.display_name", 80)
    for number in range(len(_get_path(found, "features.slash_commands") or [])):
        path = f"features.slash_commands.{number}"
        limit(f"{path}.command", _COMMAND, 2)
        limit(f"{path}.description", _COMMAND_WORDS)
        limit(f"{path}.usage_hint", _HINT)
    for number in range(len(_get_path(found, "features.shortcuts") or [])):
        path = f"features.shortcuts.{number}"
        limit(f"{path}.name", _SHORTCUT)
        limit(f"{path}.callback_id", _CALLBACK)
        limit(f"{path}.description", _SHORT)
    events = _get_path(found, "settings.event_subscriptions.bot_events") or []
    if len(events) > _EVENTS:
        wrong.append(f"at most {_EVENTS} bot events")
    return wrong + _check_addresses(found)


def _check_addresses(found: Json) -> list[str]:
    """Return the faults of the URLs: missing, not https, or set in Socket Mode."""
    socket = _get_path(found, "settings.socket_mode_enabled") is True
    paths = ["settings.event_subscriptions.request_url", "settings.interactivity.request_url"]
    commands = _get_path(found, "features.slash_commands") or []
    paths += [f"features.slash_commands.{number}.url" for number in range(len(commands))]
    wrong = []
    for path in paths:
        url = _get_path(found, path)
        if socket and url is not None:
            wrong.append(f"{path} must not be set in Socket Mode")
        if not socket and not (isinstance(url, str) and url.startswith("https://")):
            wrong.append(f"{path} must be an https address")
    return wrong


def _get_path(value: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


# OAuth installation: an admin adds the app to a workspace; its token is stored as a note.
#
# docs/adr/0023-own-slack-install-pages.md says why this is not Bolt's OAuth flow.

log = logging.getLogger("adapters.slack")

INSTALL, REDIRECT = "/slack/install", "/slack/oauth_redirect"
_AUTHORIZE = "https://slack.com/oauth/v2/authorize"
_COOKIE = "agw_slack_install"
_STATE_SECONDS = 600
_STATE = re.compile(r"([0-9]{1,15})\.[A-Za-z0-9_-]{43}\.([0-9a-f]{64})")


class InstallPages:
    """Serves the two pages of an installation.

    A state is valid for ten minutes, in one browser, for one installation. It is signed, not
    stored, so that strangers who request states cannot fill the store.
    """

    def __init__(
        self,
        settings: SlackSettings,
        workspaces: Workspaces,
        notes: AdapterStorage,
        session: aiohttp.ClientSession,
    ) -> None:
        self._settings = settings
        self._workspaces = workspaces
        self._notes = notes
        self._session = session
        self._clock = SystemClock()

    def routes(self) -> list[web.RouteDef]:
        """Return the HTTP routes of the two pages."""
        return [web.get(INSTALL, self._begin), web.get(REDIRECT, self._end)]

    @property
    def _redirect_uri(self) -> str:
        return f"{(self._settings.public_url or '').rstrip('/')}{REDIRECT}"

    async def _begin(self, request: web.Request) -> web.Response:
        until = self._clock.now_ms() + _STATE_SECONDS * 1000
        state = self._sign(f"{until}.{secrets.token_urlsafe(32)}")
        query = {
            "client_id": self._settings.client_id or "",
            "scope": ",".join(BOT_SCOPES),
            "state": state,
            "redirect_uri": self._redirect_uri,
        }
        response = web.Response(
            status=302, headers={"Location": f"{_AUTHORIZE}?{urlencode(query)}"}
        )
        secure = self._redirect_uri.startswith("https:")
        response.set_cookie(
            _COOKIE,
            state,
            max_age=_STATE_SECONDS,
            httponly=True,
            secure=secure,
            samesite="Lax",
            path="/slack",
        )
        return response

    async def _end(self, request: web.Request) -> web.Response:
        state, code = request.query.get("state", ""), request.query.get("code", "")
        cookie = request.cookies.get(_COOKIE, "")
        if not state or not hmac.compare_digest(state.encode(), cookie.encode()):
            return _build_page(
                400, "You started this installation in another browser. Start it again here."
            )
        if not self._is_good(state) or await self._notes.get(_build_note_key(state)) is not None:
            return _build_page(
                400, "This link has expired or was already used. Start the installation again."
            )
        if not code:
            return _build_page(
                400, "The installation was cancelled in Slack. Nothing was installed."
            )
        try:
            await self._install(code)
        except (DeliveryFailed, GatewayError) as error:
            log.warning("not installed: %s", type(error).__name__, extra={"event": "slack_oauth"})
            return _build_page(502, "Slack did not complete the installation. Start it again.")
        # Stored only after Slack issued a token, so that strangers cannot fill the store.
        await self._notes.put(_build_note_key(state), "1", seconds=_STATE_SECONDS)
        return _build_page(
            200, "The app is installed. Invite it to a channel, and name it in a route."
        )

    def _sign(self, text: str) -> str:
        secret = self._settings.client_secret
        key = secret.get_secret_value() if secret else ""
        if not key:
            raise Misconfigured("installation by OAuth needs GATEWAY_SLACK_CLIENT_SECRET")
        words = f"slack install {text}".encode()
        return f"{text}.{hmac.new(key.encode(), words, hashlib.sha256).hexdigest()}"

    def _is_good(self, state: str) -> bool:
        """Whether the gateway signed this state, and it has not expired."""
        found = _STATE.fullmatch(state)
        if found is None:
            return False
        ours = self._sign(state.removesuffix(f".{found[2]}"))
        return hmac.compare_digest(ours, state) and self._clock.now_ms() < int(found[1])

    async def _install(self, code: str) -> None:
        client = build_client(None, self._settings.api_url, self._session)
        secret = self._settings.client_secret
        answer = await call_repeatable(
            lambda: client.oauth_v2_access(
                client_id=self._settings.client_id or "",
                client_secret=secret.get_secret_value() if secret else "",
                code=code,
                redirect_uri=self._redirect_uri,
            )
        )
        token = str(answer.get("access_token") or "")
        if answer.get("is_enterprise_install") is True:
            org = str((answer.get("enterprise") or {}).get("id") or "")
            await self._workspaces.install_everywhere(org, token)
        else:
            await self._workspaces.install(token)


def _build_note_key(state: str) -> str:
    return f"oauth {state}"


def _build_page(status: int, text: str) -> web.Response:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return web.Response(status=status, text=text, headers=headers)
