"""The HTTP side of the counterpart: Web API in every argument style, uploads, response_url."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from aiohttp import web

from tests.slack.counterpart.blocks import check_message
from tests.slack.counterpart.faults import Fault, Faults, Planned
from tests.slack.counterpart.files import received
from tests.slack.counterpart.methods import METHODS, SCOPES
from tests.slack.counterpart.rates import Rates
from tests.slack.counterpart.sockets import Sockets
from tests.slack.counterpart.state import Json, Refused, State, Workspace

RESPONSE_USES, RESPONSE_SECONDS = 5, 1800.0
OPEN = {"oauth.v2.access"}
_AFTER = (Fault.DROPPED, Fault.LOST, Fault.KILLED_AFTER)


class WebApi:
    """Answers what slack_sdk asks."""

    def __init__(self, state: State, rates: Rates, faults: Faults, sockets: Sockets) -> None:
        self._state, self._rates, self._faults = state, rates, faults
        self._sockets = sockets
        self.in_flight = 0

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the server."""
        return [
            web.post("/api/{method}", self._api),
            web.get("/api/{method}", self._api),
            web.post("/upload/v1/{team}/{file}", self._upload),
            web.post("/response/{name}", self._response),
        ]

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        arguments = await _arguments(request)
        token = _token(request, arguments)
        fault = self._faults.take(method, arguments)
        if fault is not None and fault.fault not in _AFTER:
            return await self._goes_wrong(fault)
        self.in_flight += 1
        try:
            answer, status, headers = self._answer(method, token, arguments, request)
        finally:
            self.in_flight -= 1
        if fault is not None:
            self._state.ring()
            if fault.fault is Fault.LOST:
                await self._hang()
            if fault.fault is Fault.KILLED_AFTER:
                self._faults.kill()
            _cut(request)
        return web.json_response(answer, status=status, headers=headers)

    def _answer(
        self, method: str, token: str, arguments: Json, request: web.Request
    ) -> tuple[Json, int, dict[str, str]]:
        headers: dict[str, str] = {}
        try:
            if method in OPEN:
                return self._oauth(arguments, request), 200, headers
            if token == self._state.app_token:
                return self._app_call(method, arguments), 200, headers
            workspace = self._state.by_token(token, arguments)
            headers["x-oauth-scopes"] = workspace.scopes
            wait = self._rates.wait(method, workspace.id, str(arguments.get("channel") or ""))
            if wait:
                headers["Retry-After"] = str(math.ceil(wait))
                return {"ok": False, "error": "ratelimited"}, 429, headers
            values = self._called(method, workspace, arguments)
            return {"ok": True, **values}, 200, headers
        except Refused as refused:
            return _refusal(refused), 200, headers

    def _called(self, method: str, workspace: Workspace, arguments: Json) -> Json:
        self._state.calls.append((method, workspace.id, arguments))
        if method not in METHODS:
            raise Refused("unknown_method")
        needed = SCOPES.get(method)
        if needed and needed not in workspace.scopes.split(","):
            raise Refused("missing_scope", needed=needed, provided=workspace.scopes)
        values = METHODS[method](self._state, workspace, arguments)
        if "upload_url" in values:
            values["upload_url"] = self._state.url + values["upload_url"]
        return values

    def _app_call(self, method: str, arguments: Json) -> Json:
        self._state.calls.append((method, "", arguments))
        if self._sockets.refuses:
            raise Refused(self._sockets.refuses)
        if method == "auth.test":
            return {"ok": True, "app_id": self._state.app_id, "app_name": "gateway"}
        if method == "apps.connections.open":
            return {"ok": True, "url": self._sockets.ticket(self._state.url)}
        raise Refused("not_allowed_token_type")

    def _oauth(self, arguments: Json, request: web.Request) -> Json:
        given = (arguments.get("client_id"), arguments.get("client_secret"))
        header = request.headers.get("Authorization", "")
        if header.startswith("Basic "):
            first, _, second = base64.b64decode(header[6:]).decode().partition(":")
            given = (first, second)
        if given != (self._state.client_id, self._state.client_secret):
            raise Refused("bad_client_secret")
        team = self._state.codes.pop(str(arguments.get("code")), None)
        if team is None:
            raise Refused("invalid_code")
        workspace = self._state.workspaces[team]
        org = {"id": workspace.org, "name": "Org"} if workspace.org else None
        return {
            "ok": True,
            "app_id": self._state.app_id,
            "access_token": workspace.bot_token,
            "token_type": "bot",
            "scope": workspace.scopes,
            "bot_user_id": workspace.bot_user,
            "team": None if org else {"id": team, "name": f"Team {team}"},
            "enterprise": org,
            "is_enterprise_install": org is not None,
            "authed_user": {"id": next(iter(workspace.users), "U0")},
        }

    async def _goes_wrong(self, planned: Planned) -> web.StreamResponse:
        self._state.ring()
        if planned.fault is Fault.KILLED:
            self._faults.kill()
        if planned.fault in (Fault.HANGS, Fault.KILLED):
            await self._hang()
        if planned.fault is Fault.LIMITED:
            body, headers = {"ok": False, "error": "ratelimited"}, {"Retry-After": "1"}
            return web.json_response(body, status=429, headers=headers)
        if planned.fault is Fault.HTML:
            return web.Response(text="<html>oops</html>", content_type="text/html")
        if planned.fault is Fault.ERROR:
            return web.json_response({"ok": False, "error": planned.error})
        return web.Response(status=503, text="upstream unavailable")

    async def _hang(self) -> None:
        await self._faults.hangs_end.wait()

    async def _upload(self, request: web.Request) -> web.Response:
        if self._faults.take("upload", {}) is not None:
            return web.Response(status=500, text="failed")
        workspace = self._state.workspaces[request.match_info["team"]]
        try:
            received(workspace, request.match_info["file"], await request.read())
        except Refused as refused:
            return web.Response(status=400, text=refused.error)
        return web.Response(text="OK")

    async def _response(self, request: web.Request) -> web.Response:
        state = self._state
        name = request.match_info["name"]
        if self._faults.take("response_url", {}) is not None:
            return web.Response(status=503)
        found = state.response_urls.get(name)
        if found is None:
            return web.Response(status=404, text="invalid_url")
        if found.uses >= RESPONSE_USES or state.hands.now() - found.at > RESPONSE_SECONDS:
            return web.Response(status=404, text="expired_url")
        found.uses += 1
        body = await request.json()
        try:
            self._respond(found.team, found.channel, found.user, found.ts, body)
        except Refused as refused:
            return web.Response(status=400, text=refused.error)
        return web.Response(text="ok")

    def _respond(self, team: str, channel: str, user: str, ts: str | None, body: Json) -> None:
        workspace = self._state.workspaces[team]
        blocks = check_message(body.get("blocks"), self._state.most_text)
        if body.get("replace_original") and ts is not None:
            message = workspace.message(channel, ts)
            message.text, message.blocks = str(body.get("text") or ""), blocks
        else:
            workspace.ephemerals.append((channel, user, body))
        self._state.ring()


async def _arguments(request: web.Request) -> Json:
    """Return the arguments from query string, form or JSON body."""
    values: Json = dict(request.query)
    if request.content_type == "application/json":
        body = await request.json()
        values.update(body if isinstance(body, dict) else {})
    elif request.content_type in ("application/x-www-form-urlencoded", "multipart/form-data"):
        values.update(await request.post())
    return values


def _token(request: web.Request, arguments: Json) -> str:
    header = request.headers.get("Authorization", "")
    inline = arguments.pop("token", "")
    return header.removeprefix("Bearer ") if header.startswith("Bearer ") else str(inline)


def _refusal(refused: Refused) -> Json:
    body: Json = {"ok": False, "error": refused.error, **refused.fields}
    if refused.messages:
        body["response_metadata"] = {"messages": list(refused.messages)}
    return body


def _cut(request: web.Request) -> None:
    transport: Any = request.transport
    if transport is not None:
        transport.abort()
    raise ConnectionResetError(json.dumps("cut"))
