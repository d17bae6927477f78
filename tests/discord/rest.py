"""The REST API of the wire-level Discord, version 10, as far as a bot like ours uses it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import BodyPartReader, web

from gateway.domain.time_and_tasks import SystemClock
from tests.discord.faults import VIA, Fault, Limits, too_many
from tests.discord.interactions import Desk
from tests.discord.messages import Board, Upload
from tests.discord.town import THREAD, Application, Channel, DiscordError, Guild, Json, Town
from tests.waiting import moment

BASE = "/api/v10"
Work = Callable[["Call"], Awaitable[Any]]


@dataclass
class Call:
    """One REST call: who calls, the path's parts, the body and the files."""

    app: Application | None
    method: str
    path: str
    parts: dict[str, str]
    query: dict[str, str]
    body: Any
    uploads: list[Upload]

    @property
    def bot(self) -> Application:
        if self.app is None:
            raise DiscordError(401, 0, "401: Unauthorized")
        return self.app


class Rest:
    """Routes, with what a test stages and what it may look at afterwards."""

    def __init__(self, town: Town, board: Board, api: Desk) -> None:
        self.town, self.board, self.api = town, board, api
        self.limits = Limits()
        self.faults: list[Fault] = []
        self.calls: list[Call] = []
        self.statuses: list[int] = []
        self.gateway_url = ""
        self.posted = asyncio.Event()

    @property
    def invalid(self) -> int:
        """How many answers count towards Discord's ban of 10 000 in 10 minutes."""
        return sum(status in (401, 403, 429) for status in self.statuses)

    def stage(self, method: str, path: str, **how: Any) -> Fault:
        """Let the next call that fits fail in a way of its own; see Fault."""
        fault = Fault(method, path, **how)
        self.faults.append(fault)
        return fault

    def made(self, method: str, path: str) -> list[Call]:
        """Return the calls so far whose path ends so; `#` stands for an id."""
        return [
            one
            for one in self.calls
            if one.method == method and _matches(one.path.removeprefix(BASE), path)
        ]

    def routes(self) -> list[web.RouteDef]:
        message = "/channels/{channel}/messages"
        hook = "/webhooks/{app}/{token}"
        table: list[tuple[str, str, Work]] = [
            ("GET", "/users/@me", self._me),
            ("GET", "/users/@me/guilds", self._my_guilds),
            ("GET", "/oauth2/applications/@me", self._application),
            ("GET", "/applications/@me", self._application),
            ("GET", "/gateway/bot", self._gateway),
            ("POST", "/users/@me/channels", self._open_direct),
            ("GET", "/channels/{channel}", self._channel),
            ("PATCH", "/channels/{channel}", self._change_thread),
            ("POST", "/channels/{channel}/threads", self._new_thread),
            ("POST", message, self._post),
            ("GET", message + "/{message}", self._message),
            ("PATCH", message + "/{message}", self._edit),
            ("DELETE", message + "/{message}", self._delete),
            ("GET", "/guilds/{guild}", self._guild),
            ("GET", "/guilds/{guild}/roles", self._roles),
            ("GET", "/guilds/{guild}/channels", self._channels),
            ("GET", "/guilds/{guild}/members/{user}", self._member),
            ("PUT", "/applications/{app}/commands", self._set_commands),
            ("GET", "/applications/{app}/commands", self._commands),
            ("POST", "/applications/{app}/commands", self._add_command),
            ("PUT", "/applications/{app}/guilds/{guild}/commands", self._set_commands),
            ("POST", "/interactions/{interaction}/{token}/callback", self._callback),
            ("POST", hook, self._follow_up),
            ("GET", hook + "/messages/{message}", self._webhook_message),
            ("PATCH", hook + "/messages/{message}", self._webhook_edit),
        ]
        routes = [web.route(verb, BASE + path, self._serving(work)) for verb, path, work in table]
        return [*routes, web.get("/attachments/{id}/{name}", self._download)]

    # --- the way of every call ----------------------------------------------------------------

    def _serving(self, work: Work) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def serve(request: web.Request) -> web.StreamResponse:
            call = await self._call(request)
            self.calls.append(call)
            fault = self._fault(call)
            if fault is not None and (fault.refuse or fault.status):
                return self._failed(request, fault)
            now = SystemClock().now_ms() / 1000
            early, overall, headers = self.limits.check(call.method, call.path, now)
            if early:
                body, headers = too_many(early, overall, headers)
                return self._answer(429, body, headers)
            status, answer = await self._worked(work, call, fault)
            if fault is not None and fault.silent is not None:
                await fault.silent.wait()
            if fault is not None and fault.drop:
                return self._cut(request)
            return self._answer(status, answer, headers | VIA)

        return serve

    async def _worked(self, work: Work, call: Call, fault: Fault | None) -> tuple[int, Any]:
        if fault is not None and fault.held is not None:
            await fault.held.wait()
        try:
            answer = await work(call)
        except DiscordError as error:
            extra = {"retry_after": 60.0} if error.status == 429 else {}
            return error.status, {**error.body(), **extra}
        return (204, None) if answer is None else (200, answer)

    def _fault(self, call: Call) -> Fault | None:
        found = next((one for one in self.faults if one.fits(call.method, call.path)), None)
        if found is not None:
            found.times -= 1
            found.reached.set()
        return found

    def _failed(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.refuse:
            return self._cut(request)
        return self._answer(fault.status, fault.body, fault.headers)

    def _cut(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    def _answer(self, status: int, answer: Any, headers: dict[str, str]) -> web.Response:
        self.statuses.append(status)
        if answer is None:
            return web.Response(status=status, headers=headers)
        if isinstance(answer, str):
            return web.Response(status=status, text=answer, headers=headers)
        # discord.py compares the content type as a whole, so no charset may follow it.
        return web.Response(
            status=status,
            body=json.dumps(answer).encode(),
            headers={**headers, "Content-Type": "application/json"},
        )

    async def _call(self, request: web.Request) -> Call:
        body, uploads = await _content(request)
        token = request.headers.get("Authorization", "").removeprefix("Bot ")
        parts = dict(request.match_info)
        app = self.town.applications.get(token)
        return Call(app, request.method, request.path, parts, dict(request.query), body, uploads)

    # --- what is asked for --------------------------------------------------------------------

    def _place(self, call: Call) -> Channel:
        """Return the channel of the path, if the bot can see it."""
        channel = self.town.channels.get(call.parts["channel"])
        if channel is None:
            raise DiscordError(404, 10003, "Unknown Channel")
        if not self.town.allows(call.bot.user, channel, "view_channel"):
            raise DiscordError(403, 50001, "Missing Access")
        return channel

    def _home(self, call: Call) -> Guild:
        guild = self.town.guilds.get(call.parts["guild"])
        if guild is None or call.bot.user.id not in guild.members:
            raise DiscordError(404, 10004, "Unknown Guild")
        return guild

    async def _me(self, call: Call) -> Json:
        return {**call.bot.user.json(), "mfa_enabled": False, "verified": True, "flags": 0}

    async def _my_guilds(self, call: Call) -> list[Json]:
        bot, after = call.bot.user, int(call.query.get("after", 0))
        mine = [one for one in self.town.guilds.values() if bot.id in one.members]
        shown: list[Json] = [
            {"id": one.id, "name": one.name, "icon": None, "owner": False, "features": []}
            for one in sorted(mine, key=lambda one: int(one.id))
            if int(one.id) > after
        ]
        return shown[: int(call.query.get("limit", 200))]

    async def _application(self, call: Call) -> Json:
        return call.bot.json()

    async def _gateway(self, call: Call) -> Json:
        limit = {"total": 1000, "remaining": 999, "reset_after": 0, "max_concurrency": 1}
        assert call.bot
        return {"url": self.gateway_url, "shards": 1, "session_start_limit": limit}

    async def _open_direct(self, call: Call) -> Json:
        user = self.town.users.get(str(call.body["recipient_id"]))
        if user is None:
            raise DiscordError(404, 10013, "Unknown User")
        channel = self.town.direct(call.bot.user, user)
        return {**channel.json(), "recipients": [user.json()]}

    async def _channel(self, call: Call) -> Json:
        return self._place(call).json()

    async def _change_thread(self, call: Call) -> Json:
        thread = self._place(call)
        if thread.kind != THREAD:
            raise DiscordError(403, 50013, "Missing Permissions")
        if thread.locked and not self.town.allows(call.bot.user, thread, "manage_threads"):
            raise DiscordError(403, 160005, "Thread is locked")
        thread.archived = call.body.get("archived", thread.archived)
        return thread.json()

    async def _new_thread(self, call: Call) -> Json:
        return self.town.thread(self._place(call), call.body["name"]).json()

    async def _post(self, call: Call) -> Json:
        found, _ = self.board.create(call.bot.user, self._place(call), call.body, call.uploads)
        self.posted.set()
        return found

    async def _message(self, call: Call) -> Json:
        return self.board.find(self._place(call), call.parts["message"])

    async def _edit(self, call: Call) -> Json:
        channel = self._place(call)
        return self.board.edit(channel, call.parts["message"], call.body, call.uploads)

    async def _delete(self, call: Call) -> None:
        self.board.delete(self._place(call), call.parts["message"])

    async def _guild(self, call: Call) -> Json:
        home = self._home(call)
        if call.query.get("with_counts") != "1":
            return home.json()
        return {**home.json(), "approximate_member_count": len(home.members)}

    async def _roles(self, call: Call) -> list[Json]:
        return list(self._home(call).roles.values())

    async def _channels(self, call: Call) -> list[Json]:
        return [one.json() for one in self._home(call).channels.values() if one.parent is None]

    async def _member(self, call: Call) -> Json:
        member = self._home(call).members.get(call.parts["user"])
        if member is None:
            raise DiscordError(404, 10007, "Unknown Member")
        return member.json()

    async def _commands(self, call: Call) -> list[Json]:
        return call.bot.commands.get("", [])

    async def _add_command(self, call: Call) -> Json:
        made: Json = {
            "type": 1,
            "default_member_permissions": None,
            **call.body,
            "id": self.api.calendar.snowflake(),
            "application_id": call.bot.id,
            "version": "1",
        }
        others = [
            one
            for one in call.bot.commands.get("", [])
            if (one["name"], one["type"]) != (made["name"], made["type"])
        ]
        call.bot.commands[""] = [*others, made]
        return made

    async def _set_commands(self, call: Call) -> list[Json]:
        place = call.parts.get("guild", "")
        made = []
        for command in call.body:
            extra = {
                "id": self.api.calendar.snowflake(),
                "application_id": call.bot.id,
                "version": "1",
            }
            made.append({"type": 1, "default_member_permissions": None, **command, **extra})
        call.bot.commands[place] = made
        return made

    async def _callback(self, call: Call) -> Json | None:
        reply = self.api.callback(
            call.parts["interaction"], call.parts["token"], call.body, call.uploads
        )
        return reply if call.query.get("with_response") in ("1", "true") else None

    async def _follow_up(self, call: Call) -> Json:
        return self.api.follow_up(call.parts["token"], call.body, call.uploads)

    async def _webhook_message(self, call: Call) -> Json:
        return self.api.original(call.parts["token"])

    async def _webhook_edit(self, call: Call) -> Json:
        token, message = call.parts["token"], call.parts["message"]
        return self.api.edit(token, message, call.body, call.uploads)

    async def _download(self, request: web.Request) -> web.Response:
        return web.Response(body=self.board.files[request.match_info["id"]])


async def _content(request: web.Request) -> tuple[Any, list[Upload]]:
    """Read a JSON body, or a multipart one with files."""
    if not request.content_type.startswith("multipart/"):
        return (await request.json() if request.can_read_body else None), []
    body: Any = {}
    uploads = []
    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)
        content = bytes(await part.read())
        if part.name == "payload_json":
            body = json.loads(content)
        else:
            uploads.append(Upload(part.filename or "file", content))
    return body, uploads


def _matches(path: str, pattern: str) -> bool:
    parts, wanted = path.strip("/").split("/"), pattern.strip("/").split("/")
    same = len(parts) == len(wanted)
    return same and all(w in ("#", p) for p, w in zip(parts, wanted, strict=True))


async def settled(condition: Callable[[], bool], seconds: float = 40) -> None:
    """Return once a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await moment()
