"""Who clicked: asked of Slack at that moment, and nobody when it does not say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from adapters.slack.payloads import PLATFORM
from adapters.slack.text_objects import Json
from adapters.slack.web_api import asked
from adapters.slack.workspaces import Workspace
from gateway.errors import GatewayError
from gateway.ports import DeliveryFailed, Identity, RetryLater

_CHECK_SECONDS = 8.0


class Stranger(GatewayError):
    """This user may never decide here: a bot, a guest, somebody else's employee, or gone."""

    code = "stranger"


class Unknown(GatewayError):
    """Slack did not say who this is, so nothing was done."""

    code = "unknown_user"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did something, as the payload says: the workspace it happened in and their own."""

    team: str
    user: str
    user_team: str

    @property
    def identity(self) -> Identity:
        """The identity, without groups."""
        return Identity(platform=PLATFORM, id=f"{self.team}/{self.user}")


class Directory:
    """Checks users and groups, fresh each time; many clicks at once share the next question."""

    def __init__(self) -> None:
        self._asking: dict[str, _Shared] = {}

    async def member(self, workspace: Workspace, actor: Actor) -> Identity:
        """Return the identity of a full member of this very workspace, without groups.

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
        if user.get("id") != actor.user or not _belongs(user, workspace):
            raise Stranger(_ELSEWHERE)
        for sign, who in _NEVER.items():
            if user.get(sign) is not False:
                raise Stranger(f"{who} may not decide")
        return actor.identity

    async def groups(self, workspace: Workspace, identity: Identity) -> tuple[str, ...]:
        """Return the user groups that somebody belongs to now. Raises Unknown."""
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
        """Give up on what nobody waits for any more."""
        for shared in self._asking.values():
            shared.cancel()

    async def _ask(self, about: str, call: Callable[[], Awaitable[object]]) -> Json:
        shared = self._asking.setdefault(about, _Shared())
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                while True:
                    try:
                        return await shared.next(lambda: asked(call))
                    except RetryLater as wait:
                        await asyncio.sleep(wait.seconds)
        except (DeliveryFailed, TimeoutError) as error:
            raise Unknown("Slack did not say who you are; nothing was recorded") from error
        finally:
            if shared.idle:
                self._asking.pop(about, None)


def _belongs(user: Json, workspace: Workspace) -> bool:
    """Whether a user is of this workspace. Those of an organisation are at home in one of its
    workspaces, and members of several."""
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
    """One question at a time. Who asks while it runs gets the next answer, begun after that."""

    def __init__(self) -> None:
        self._running: asyncio.Future[Json] | None = None
        self._next: asyncio.Future[Json] | None = None

    @property
    def idle(self) -> bool:
        """Whether nobody waits."""
        return all(one is None or one.done() for one in (self._running, self._next))

    def cancel(self) -> None:
        """Stop asking."""
        for one in (self._running, self._next):
            if one is not None:
                one.cancel()

    async def next(self, ask: Callable[[], Coroutine[Any, Any, Json]]) -> Json:
        """Return an answer to a question that is asked from now on."""
        if self._running is None or self._running.done():
            self._running = done = asyncio.get_running_loop().create_future()
            try:
                return await ask()
            finally:
                done.cancel()  # nobody else wants this answer, only to know that it came
        if self._next is None or self._next.done():
            self._next = _task(self._after(self._running, ask))
        return await asyncio.shield(self._next)

    async def _after(
        self, before: asyncio.Future[Json], ask: Callable[[], Coroutine[Any, Any, Json]]
    ) -> Json:
        await asyncio.wait([before])
        self._running, self._next = self._next, None
        return await ask()


def _task(work: Coroutine[Any, Any, Json]) -> asyncio.Task[Json]:
    task = asyncio.ensure_future(work)
    # Whoever asked may have given up; then nobody looks at what went wrong.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
