"""A person at a Discord client: sees what is shown to them, and presses only what is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.discord.interactions import (
    CHOICES,
    COMMAND,
    COMPLETION,
    COMPONENT,
    MODAL,
    OPEN_MODAL,
    Desk,
    Interaction,
)
from tests.discord.limits import LABEL, SELECT, TEXT_INPUT, walk
from tests.discord.messages import buttons
from tests.discord.town import Application, Channel, Json, Town, User

Deliver = Callable[[Application, Json], Awaitable[None]]
_SUBCOMMAND = 1
_TEXT_OPTION = 3
_YES_OR_NO_OPTION = 5


class NotShown(AssertionError):
    """What a test wanted to press is not on the screen."""


class Person:
    """One user with eyes and a finger."""

    def __init__(self, user: User, town: Town, api: Desk, deliver: Deliver) -> None:
        self.user, self._town, self._api, self._deliver = user, town, api, deliver
        self.private: dict[str, Json] = {}

    @property
    def id(self) -> str:
        return self.user.id

    def sees(self, channel: Channel) -> list[Json]:
        """Return the messages of a channel that this person may read."""
        if not self._town.allows(self.user, channel, "view_channel"):
            return []
        return list(channel.messages.values())

    async def click(
        self, app: Application, channel: Channel, message: Json, label: str, *, wait: bool = True
    ) -> Interaction:
        """Press a button that the message shows; with `wait`, see what comes of it."""
        shown = message in self.sees(channel) or message["id"] in self.private
        found = buttons(message).get(label)
        if not shown or found is None:
            raise NotShown(f"no button {label!r}; there are {sorted(buttons(message))}")
        data = {"custom_id": found["custom_id"], "component_type": 2, "id": found["id"]}
        return await self._begin(app, channel, COMPONENT, data, message, wait=wait)

    async def choose(
        self, app: Application, channel: Channel, message: Json, *labels: str
    ) -> Interaction:
        """Choose from the select menu of a message by what its options say."""
        for one in walk(message["components"]):
            values = {option["label"]: option["value"] for option in one.get("options", [])}
            if one["type"] == SELECT and set(labels) <= set(values):
                data = {
                    "custom_id": one["custom_id"],
                    "component_type": SELECT,
                    "id": one["id"],
                    "values": [values[label] for label in labels],
                }
                return await self._begin(app, channel, COMPONENT, data, message)
        raise NotShown(f"no menu with {labels}")

    async def submit(
        self, opened: Interaction, *, wait: bool = True, **typed: str | list[str]
    ) -> Interaction:
        """Fill in the modal that an interaction opened, by the ids of its fields, and send it."""
        assert opened.answer == OPEN_MODAL, opened.answer_data
        modal = opened.answer_data
        parts = []
        for at, label in enumerate(modal["components"]):
            if label["type"] == LABEL:
                parts.append({"type": LABEL, "id": at + 1, "component": _filled(label, typed)})
        assert not typed, f"the modal has no fields {sorted(typed)}"
        data = {"custom_id": modal["custom_id"], "components": parts}
        return await self._begin(opened.app, opened.channel, MODAL, data, opened.message, wait=wait)

    async def command(
        self,
        app: Application,
        channel: Channel,
        name: str,
        *,
        wait: bool = True,
        **options: str | bool,
    ) -> Interaction:
        """Use a slash command that the app has registered, `name` or `name subcommand`."""
        data = self._command_data(app, channel, name, options)
        return await self._begin(app, channel, COMMAND, data, None, wait=wait)

    async def complete(
        self, app: Application, channel: Channel, name: str, option: str, typed: str = ""
    ) -> list[Json]:
        """Return what autocompletion offers while an option is typed."""
        data = self._command_data(app, channel, name, {option: typed})
        data["options"][0]["focused"] = True
        found = await self._begin(app, channel, COMPLETION, data, None)
        assert found.answer == CHOICES, found
        return list(found.answer_data["choices"])

    def _command_data(
        self, app: Application, channel: Channel, name: str, options: dict[str, str | bool]
    ) -> Json:
        place = channel.guild.id if channel.guild else ""
        known = app.commands.get("", []) + app.commands.get(place, [])
        name, _, below = name.partition(" ")
        found = next((one for one in known if one["name"] == name), None)
        if found is None:
            raise NotShown(f"there is no command /{name}")
        given = [
            {
                "name": key,
                "type": _YES_OR_NO_OPTION if isinstance(value, bool) else _TEXT_OPTION,
                "value": value,
            }
            for key, value in options.items()
        ]
        if below:
            given = [_subcommand(found, below, given)]
        return {"id": found["id"], "name": name, "type": 1, "options": given}

    async def _begin(
        self,
        app: Application,
        channel: Channel,
        kind: int,
        data: Json,
        message: Json | None,
        *,
        wait: bool = True,
    ) -> Interaction:
        made, payload = self._api.start(app, self.user, channel, kind, data, message)
        await self._deliver(app, payload)
        return await self.outcome(made) if wait else made

    async def outcome(self, made: Interaction, seconds: float = 40) -> Interaction:
        """Wait for what the app answers in the end, and remember what only this person sees."""
        async with asyncio.timeout(seconds):
            await made.completed.wait()
        self.private |= {one["id"]: one for one in made.private}
        return made

    def inbox(self, app: Application) -> Channel:
        """Return the direct-message channel with a bot."""
        return self._town.direct(app.user, self.user)


def _subcommand(command: Json, name: str, given: list[Json]) -> Json:
    """Return a subcommand with its options, as the client sends what it lets somebody type."""
    found = next((one for one in command["options"] if one["name"] == name), None)
    if found is None or found["type"] != _SUBCOMMAND:
        raise NotShown(f"there is no /{command['name']} {name}")
    named = {one["name"] for one in given}
    types = {one["name"]: one["type"] for one in found["options"]}
    assert named <= types.keys(), "the client knows no such option"
    given = [{**one, "type": types[one["name"]]} for one in given]
    needed = {one["name"] for one in found["options"] if one["required"]}
    assert needed <= named, f"the client sends nothing without {needed}"
    return {"name": name, "type": _SUBCOMMAND, "options": given}


def _filled(label: Json, typed: dict[str, Any]) -> Json:
    """Return the value of one field: what is typed, or what stood there."""
    field = label["component"]
    found: Json = {"type": field["type"], "id": 1, "custom_id": field["custom_id"]}
    value = typed.pop(field["custom_id"], None)
    if field["type"] == TEXT_INPUT:
        value = field.get("value", "") if value is None else value
        assert value or not field.get("required", True), "the client refuses an empty field"
        assert len(value) <= field.get("max_length", 4000), "the client takes no more"
        return {**found, "value": value}
    offered = [one["value"] for one in field["options"]]
    chosen = [one["value"] for one in field["options"] if one.get("default")]
    if value is not None:
        chosen = [value] if isinstance(value, str) else value
    assert set(chosen) <= set(offered), f"{chosen} is not offered"
    if field["type"] == SELECT:
        return {**found, "values": chosen}
    return {**found, "value": chosen[0] if chosen else None}
