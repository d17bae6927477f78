"""Slack Connect: keeps cards out of what people of other organisations read, unless a route says
otherwise."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from adapters.slack.payloads import Json, SlackPlace
from adapters.slack.users_and_rights import is_member
from adapters.slack.workspaces_and_web_api import SlackRefused, Workspace, call_repeatable
from gateway.ports import DeliveryFailed

KNOWN_SECONDS = 60.0
EVENTS = ("channel_shared", "channel_unshared")
"""The events after which other people read a channel."""


class SharedChannels:
    """Asks Slack who reads a channel, at most once a minute, and again when Slack tells of news."""

    def __init__(self) -> None:
        self._known: dict[SlackPlace, tuple[float, str]] = {}
        self._asking: defaultdict[SlackPlace, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def refuse_outsiders(self, workspace: Workspace, place: SlackPlace) -> None:
        """Raise DeliveryFailed when people of other organisations would read what is posted there,
        or when Slack does not say; RetryLater when it was not reached. A target may allow it."""
        # The bot may not ask about a direct channel; it was written by its id, for one person.
        if place.shared or place.channel.startswith("D"):
            return
        place, now = SlackPlace(place.team, place.channel), asyncio.get_running_loop().time
        async with self._asking[place]:
            since, why = self._known.get(place, (float("-inf"), ""))
            if now() - since >= KNOWN_SECONDS:
                asked = now()
                why = await explain_outsiders(workspace, place)
                self._known[place] = (asked, why)
        if why:
            raise DeliveryFailed(why)

    def forget(self, team: str, channel: str) -> None:
        """Ask about a channel again: Slack tells that others read it now."""
        self._known.pop(SlackPlace(team, channel), None)


async def explain_outsiders(workspace: Workspace, place: SlackPlace) -> str:
    """Return who else would read what is posted there, empty when nobody would.

    Raises DeliveryFailed, RetryLater.
    """
    client, channel = workspace.client, place.channel
    try:
        if channel[0] in "UW":
            answer = await call_repeatable(lambda: client.users_info(user=channel))
            foreign = not is_member(answer.get("user") or {}, workspace)
            return f"{name_place(place)} belongs to another organisation" if foreign else ""
        answer = await call_repeatable(lambda: client.conversations_info(channel=channel))
    except SlackRefused as refused:
        if refused.error != "missing_scope":
            raise  # as a post would be refused
        said = f"whether {name_place(place)} is shared with others is not known: {refused}"
        raise DeliveryFailed(said) from refused
    return explain_shared(place, answer.get("channel") or {})


def explain_shared(place: SlackPlace, about: Json) -> str:
    """Return what Slack's answer about a channel says of other organisations; empty for none."""
    if about.get("is_ext_shared") is False and not about.get("is_pending_ext_shared"):
        return ""
    if about.get("is_ext_shared") or about.get("is_pending_ext_shared"):
        soon = "" if about.get("is_ext_shared") else "about to be "
        return (
            f"{name_place(place)} is {soon}shared with another organisation (Slack Connect); "
            f"to post there all the same, write slack:shared/{place.team}/{place.channel}"
        )
    return f"Slack does not say whether {name_place(place)} is shared with others"


def name_place(place: SlackPlace) -> str:
    """Return a place as a target is written."""
    return f"slack:{place.team}/{place.channel}"
