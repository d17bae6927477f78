"""The Home tab: pending requests and grants of a person, within Slack's hundred blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from adapters.slack.admin_actions import AdminActions, build_revoke_all
from adapters.slack.card_blocks import context, header, join_entries, plain, section
from adapters.slack.commands import BEING_DENIED, COMMAND, build_grant_entry, build_request_entry
from adapters.slack.payloads import Actor, Json
from adapters.slack.users_and_rights import Stranger, UserDirectory
from adapters.slack.workspaces_and_web_api import SlackRefused, Workspace, call_repeatable
from gateway.ports import Grant, Record, Worklist

_MOST_BLOCKS = 100
_FRAME = 5  # two headings, count, the last line, and one to spare
_CONFLICT = "hash_conflict"
_MOST_PUBLISHED = 200


class HomeTab:
    """Publishes Home tabs."""

    def __init__(
        self,
        directory: UserDirectory,
        worklist: Worklist,
        operating: AdminActions,
        address_of: Callable[[str], str],
    ) -> None:
        self._address_of = address_of
        self._directory = directory
        self._worklist = worklist
        self._operating = operating
        self._published: dict[tuple[str, str], Json] = {}

    async def publish(
        self, workspace: Workspace, user: str, seen: str | None = None, *, changed: bool = False
    ) -> None:
        """Publish a user's Home tab; `seen` is the hash of the view they have. With `changed` only
        one that says something else than what was published here before."""
        view = await self._build_view(workspace, user)
        if changed and self._published.get((workspace.team, user)) == view:
            return
        self._published[workspace.team, user] = view
        while len(self._published) > _MOST_PUBLISHED:
            del self._published[next(iter(self._published))]
        client = workspace.client
        more = {"hash": seen} if seen else {}
        try:
            await call_repeatable(lambda: client.views_publish(user_id=user, view=view, **more))
        except SlackRefused as refused:
            if refused.error != _CONFLICT:
                raise
            # Another view was published meanwhile; build a newer one.
            fresh = await self._build_view(workspace, user)
            await call_repeatable(lambda: client.views_publish(user_id=user, view=fresh))

    async def _build_view(self, workspace: Workspace, user: str) -> Json:
        actor = Actor(workspace.team, user, workspace.team)
        try:
            identity = await self._directory.find_member(workspace, actor)
        except Stranger as stranger:
            return _build_home_view([section(plain(str(stranger)))])
        identity = replace(identity, groups=await self._directory.find_groups(workspace, identity))
        waiting = [record async for record in self._worklist.list_waiting(identity)]
        frame = await self._operating.build_kill_switch(identity)
        stopped = await self._operating.is_stopped()
        grants = await self._worklist.grants(identity)
        return build_home(waiting, grants, frame, stopped=stopped, address_of=self._address_of)


def build_home(
    waiting: Sequence[Record],
    grants: Sequence[Grant],
    frame: Sequence[Json] = (),
    *,
    stopped: bool = False,
    address_of: Callable[[str], str] = lambda _: "",
) -> Json:
    """Return the Home tab with these requests and grants, below the blocks of `frame`.

    While everything is `stopped` nothing waits: what did is being denied, and has no button.
    """
    entries = [
        build_request_entry(one, stopped=stopped, inbox=address_of(one.id)) for one in waiting
    ]
    remembered = [build_grant_entry(one) for one in grants]
    if remembered:  # nothing of them looks like a part of what waits
        remembered[0] = [header("Remembered answers"), *build_revoke_all(grants), *remembered[0]]
    entries += remembered
    blocks, shown = join_entries(entries, _MOST_BLOCKS - _FRAME - len(frame))
    title, count = _say_waiting(len(waiting), stopped=stopped)
    if shown < len(entries):
        more = f"{len(entries) - shown} more: {COMMAND} list, {COMMAND} grants"
        blocks.append(context(plain(more)))
    heading = [header(title)] if waiting else []
    return _build_home_view([*frame, *heading, context(plain(count)), *blocks])


def _say_waiting(count: int, *, stopped: bool) -> tuple[str, str]:
    """Return what stands above the requests: a title, and how many they are."""
    if not count:
        return "", "Nothing waits for you."
    if not stopped:
        return "Waits for you", f"{count} waiting"
    return BEING_DENIED, "1 request waited here" if count == 1 else f"{count} requests waited here"


def _build_home_view(blocks: list[Json]) -> Json:
    return {"type": "home", "callback_id": "home", "blocks": [header("Approvals"), *blocks]}
