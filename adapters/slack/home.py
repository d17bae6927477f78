"""The Home tab: what waits for this person, within Slack's hundred blocks."""

from __future__ import annotations

from adapters.slack.calls import SlackRefused, asked
from adapters.slack.commands import COMMAND, Commands, listed, remembered
from adapters.slack.directory import Actor, Directory, Stranger
from adapters.slack.text import Json, context, header, plain, section
from adapters.slack.workspaces import Workspace

_MOST_BLOCKS = 100
_FRAME = 4  # header, count, the last line, and one to spare
_CONFLICT = "hash_conflict"


class Home:
    """Publishes Home tabs."""

    def __init__(self, directory: Directory, commands: Commands) -> None:
        self._directory = directory
        self._commands = commands

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
        identity = await self._directory.with_groups(workspace, identity)
        entries = [listed(record) async for record in self._commands.waiting(identity)]
        waiting = len(entries)
        entries += [remembered(grant) for grant in await self._commands.granted(identity)]
        blocks: list[Json] = []
        shown = 0
        for entry in entries:
            if len(blocks) + len(entry) > _MOST_BLOCKS - _FRAME:
                break
            blocks += entry
            shown += 1
        count = f"{waiting} waiting" if waiting else "Nothing waits for you."
        more = (
            f"{len(entries) - shown} more: {COMMAND} list, {COMMAND} grants"
            if shown < len(entries)
            else ""
        )
        return _home([context(plain(count)), *blocks, *([context(plain(more))] if more else [])])


def _home(blocks: list[Json]) -> Json:
    return {"type": "home", "callback_id": "home", "blocks": [header("Approvals"), *blocks]}
