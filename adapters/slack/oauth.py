"""OAuth installation: an admin adds the app to a workspace; its token is stored as a note.

Why this is not Bolt's OAuth flow: docs/adr/0023-slack-installs-by-our-own-pages.md.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from adapters.slack.manifest import BOT_SCOPES
from adapters.slack.settings import SlackSettings
from adapters.slack.workspaces_and_web_api import Workspaces, build_client, call_repeatable
from gateway.errors import GatewayError, Misconfigured
from gateway.ports import DeliveryFailed, Notes, SystemClock

log = logging.getLogger("adapters.slack.oauth")

INSTALL, REDIRECT = "/slack/install", "/slack/oauth_redirect"
_AUTHORIZE = "https://slack.com/oauth/v2/authorize"
_COOKIE = "agw_slack_install"
_STATE_SECONDS = 600
_STATE = re.compile(r"([0-9]{1,15})\.[A-Za-z0-9_-]{43}\.([0-9a-f]{64})")


class InstallPages:
    """The two pages of an installation.

    A state is valid for ten minutes, in the browser that asked for it, for one installation. It is
    signed rather than stored, so that a stranger who asks for states fills no store.
    """

    def __init__(
        self,
        settings: SlackSettings,
        workspaces: Workspaces,
        notes: Notes,
        session: aiohttp.ClientSession,
    ) -> None:
        self._settings = settings
        self._workspaces = workspaces
        self._notes = notes
        self._session = session
        self._clock = SystemClock()

    def routes(self) -> list[web.RouteDef]:
        """Return the two pages."""
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
            return _build_page(400, "This installation was not begun in this browser. Begin again.")
        if not self._is_good(state) or await self._notes.get(_build_note_key(state)) is not None:
            return _build_page(400, "This installation took too long, or was used. Begin again.")
        if not code:
            return _build_page(400, "Slack says that the installation was cancelled.")
        try:
            await self._install(code)
        except (DeliveryFailed, GatewayError) as error:
            log.warning("not installed: %s", type(error).__name__, extra={"event": "slack_oauth"})
            return _build_page(502, "Slack did not complete the installation. Begin again.")
        # Recorded only after Slack issued a token, so that strangers cannot fill the store.
        await self._notes.put(_build_note_key(state), "1", seconds=_STATE_SECONDS)
        return _build_page(
            200, "The app is installed. Invite it to a channel, and name it in a route."
        )

    def _sign(self, text: str) -> str:
        secret = self._settings.client_secret
        key = secret.get_secret_value() if secret else ""
        if not key:
            raise Misconfigured("installing by OAuth needs GATEWAY_SLACK_CLIENT_SECRET")
        words = f"slack install {text}".encode()
        return f"{text}.{hmac.new(key.encode(), words, hashlib.sha256).hexdigest()}"

    def _is_good(self, state: str) -> bool:
        """Whether we signed this state, and it has not expired."""
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
