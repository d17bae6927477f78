"""The Home tab: what waits for this person, within Slack's hundred blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adapters.slack.admin_actions import Operating, all_of
from adapters.slack.commands import COMMAND, listed, remembered
from adapters.slack.text_objects import Json, context, header, plain, section
from adapters.slack.users import Actor, Directory, Stranger
from adapters.slack.web_api import SlackRefused, asked
from adapters.slack.workspaces import Workspace
from gateway.ports import Grant, Record, Worklist

_MOST_BLOCKS = 100
_FRAME = 4  # header, count, the last line, and one to spare
_CONFLICT = "hash_conflict"


class Home:
    """Publishes Home tabs."""

    def __init__(self, directory: Directory, worklist: Worklist, operating: Operating) -> None:
        self._directory = directory
        self._worklist = worklist
        self._operating = operating

    async def publish(self, workspace: Workspace, user: str, seen: str | None = None) -> None:
        """Show what waits for a user now; `seen` is the hash of what they see."""
        view = await self._view(workspace, user)
        client = workspace.client
        more = {"hash": seen} if seen else {}
        try:
            await asked(lambda: client.views_publish(user_id=user, view=view, **more))
        except SlackRefused as refused:
            if refused.error != _CONFLICT:
                raise
            # Somebody published meanwhile: what is shown must not be older than that.
            fresh = await self._view(workspace, user)
            await asked(lambda: client.views_publish(user_id=user, view=fresh))

    async def _view(self, workspace: Workspace, user: str) -> Json:
        actor = Actor(workspace.team, user, workspace.team)
        try:
            identity = await self._directory.member(workspace, actor)
        except Stranger as stranger:
            return _home([section(plain(str(stranger)))])
        identity = replace(identity, groups=await self._directory.groups(workspace, identity))
        waiting = [record async for record in self._worklist.list_waiting(identity)]
        frame = await self._operating.frame(identity)
        return home(waiting, await self._worklist.grants(identity), frame)


def home(waiting: Sequence[Record], grants: Sequence[Grant], frame: Sequence[Json] = ()) -> Json:
    """Return the Home tab of somebody for whom this waits, and who remembered this, below what
    stands above everything."""
    taken = all_of(grants)
    entries = [*map(listed, waiting), *([taken] if taken else []), *map(remembered, grants)]
    blocks: list[Json] = []
    shown = 0
    for entry in entries:
        if len(frame) + len(blocks) + len(entry) > _MOST_BLOCKS - _FRAME:
            break
        blocks += entry
        shown += 1
    count = f"{len(waiting)} waiting" if waiting else "Nothing waits for you."
    if shown < len(entries):
        more = f"{len(entries) - shown} more: {COMMAND} list, {COMMAND} grants"
        blocks.append(context(plain(more)))
    return _home([*frame, context(plain(count)), *blocks])


def _home(blocks: list[Json]) -> Json:
    return {"type": "home", "callback_id": "home", "blocks": [header("Approvals"), *blocks]}
