"""What Slack tells of channels that are lost or shared, and of user groups that changed."""

from __future__ import annotations

import logging

from adapters.slack.payloads import PLATFORM, Json
from adapters.slack.shared_channels import EVENTS as SHARING
from adapters.slack.shared_channels import SharedChannels
from adapters.slack.users_and_rights import UserDirectory
from gateway.ports import Desk, MessageRef, bug

log = logging.getLogger("adapters.slack.news")

LOSSES = {
    "channel_archive": "the channel was archived",
    "channel_deleted": "the channel was deleted",
    "channel_left": "the app was removed from the channel",
    "group_archive": "the channel was archived",
    "group_deleted": "the channel was deleted",
    "group_left": "the app was removed from the channel",
}
"""The events after which nobody can answer in a channel, and what they say."""
GROUP_EVENTS = ("subteam_members_changed", "subteam_updated")
"""The events after which the members of user groups are others."""


class WorkspaceNews:
    """Follows what Slack tells. Never raises: the next edit or click finds it out all the same."""

    def __init__(self, desk: Desk, directory: UserDirectory, shared: SharedChannels) -> None:
        self._desk = desk
        self._directory = directory
        self._shared = shared

    async def follow(self, body: Json) -> None:
        """Follow one event."""
        event, team = body.get("event") or {}, str(body.get("team_id") or "")
        if event.get("type") in GROUP_EVENTS:
            self._directory.forget_groups(team)
            return
        if event.get("type") in SHARING:
            self._shared.forget(team, str(event.get("channel")))
            return
        place = f"{team}/{event.get('channel')}"

        def stood(_: str, ref: MessageRef) -> bool:
            return ref.adapter == PLATFORM and ref.channel == place

        try:
            why = LOSSES[str(event.get("type"))]
            await self._desk.requests.doubt_copies(stood, away=why)
        except Exception as error:
            log.warning("a loss is not followed: %s", bug(error), extra={"event": "slack_loss"})
