"""Who clicked, looked up in Slack on each click. Without an answer it is nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from adapters.slack.payloads import PLATFORM, Actor
from adapters.slack.text_objects import Json
from adapters.slack.web_api import call_repeatable
from adapters.slack.workspaces import Workspace
from gateway.errors import GatewayError
from gateway.ports import DeliveryFailed, Identity, RetryLater

_CHECK_SECONDS = 8.0


class Stranger(GatewayError):
    """A user who may never decide: a bot, a guest, an outsider, or a deactivated one."""

    code = "stranger"


class Unknown(GatewayError):
    """Slack did not say who this is, so nothing was done."""

    code = "unknown_user"


class UserDirectory:
    """Looks up users and groups, fresh each time. Clicks at the same time share a call."""

    def __init__(self) -> None:
        self._asking: dict[str, _Shared] = {}

    async def find_member(self, workspace: Workspace, actor: Actor) -> Identity:
        """Return the identity of a full member of this workspace, without groups.

        Raises Stranger, Unknown.
        """
        home = workspace.team if not workspace.org else actor.user_team
        if actor.team != workspace.team or actor.user_team != home:
            raise Stranger(_ELSEWHERE)
        user = (
            await self._ask(
                f"user {actor.team} {actor.user}",
                lambda: workspace.client.users_info(user=actor.user),
            )
        ).get("user", {})
        if user.get("id") != actor.user or not _is_member(user, workspace):
            raise Stranger(_ELSEWHERE)
        for sign, who in _NEVER.items():
            if user.get(sign) is not False:
                raise Stranger(f"{who} may not decide")
        return actor.identity

    async def find_groups(self, workspace: Workspace, identity: Identity) -> tuple[str, ...]:
        """Return a person's current user groups. Raises Unknown."""
        user = identity.id.partition("/")[2]
        answer = await self._ask(
            f"groups {workspace.team}",
            lambda: workspace.client.usergroups_list(
                include_users=True, include_disabled=False, team_id=workspace.team
            ),
        )
        groups = [one for one in answer.get("usergroups", []) if user in one.get("users", [])]
        return tuple(f"{PLATFORM}:{workspace.team}/{one['id']}" for one in groups)

    def close(self) -> None:
        """Cancel running calls."""
        for shared in self._asking.values():
            shared.cancel()

    async def _ask(self, about: str, call: Callable[[], Awaitable[object]]) -> Json:
        shared = self._asking.setdefault(about, _Shared())
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                while True:
                    try:
                        return await shared.next(lambda: call_repeatable(call))
                    except RetryLater as wait:
                        await asyncio.sleep(wait.seconds)
        except (DeliveryFailed, TimeoutError) as error:
            raise Unknown("Slack did not say who you are; nothing was recorded") from error
        finally:
            if shared.idle:
                self._asking.pop(about, None)


def _is_member(user: Json, workspace: Workspace) -> bool:
    """Whether a user is a member of this workspace. Users of an organisation have one home
    workspace and may be members of several."""
    if not workspace.org:
        return bool(user.get("team_id", workspace.team) == workspace.team)
    member = user.get("enterprise_user") or {}
    return member.get("enterprise_id") == workspace.org and workspace.team in member.get(
        "teams", ()
    )


_ELSEWHERE = "people from other organisations may not decide here"
_NEVER = {
    "deleted": "deactivated users",
    "is_bot": "bots",
    "is_restricted": "guests",
    "is_ultra_restricted": "guests",
}


class _Shared:
    """One call at a time. Callers during a call share the next one, which starts after it."""

    def __init__(self) -> None:
        self._running: asyncio.Future[Json] | None = None
        self._next: asyncio.Future[Json] | None = None

    @property
    def idle(self) -> bool:
        """Whether no call is running or due."""
        return all(one is None or one.done() for one in (self._running, self._next))

    def cancel(self) -> None:
        """Cancel the calls."""
        for one in (self._running, self._next):
            if one is not None:
                one.cancel()

    async def next(self, ask: Callable[[], Coroutine[Any, Any, Json]]) -> Json:
        """Return the answer of a call that starts from now on."""
        if self._running is None or self._running.done():
            self._running = done = asyncio.get_running_loop().create_future()
            try:
                return await ask()
            finally:
                done.cancel()  # others wait for its end only, not for its result
        if self._next is None or self._next.done():
            self._next = _start_task(self._after(self._running, ask))
        return await asyncio.shield(self._next)

    async def _after(
        self, before: asyncio.Future[Json], ask: Callable[[], Coroutine[Any, Any, Json]]
    ) -> Json:
        await asyncio.wait([before])
        self._running, self._next = self._next, None
        return await ask()


def _start_task(work: Coroutine[Any, Any, Json]) -> asyncio.Task[Json]:
    task = asyncio.ensure_future(work)
    # Retrieve the error even if every caller has given up.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
