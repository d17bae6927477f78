"""Slash commands: the way when a card is lost. They check exactly what buttons check."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from typing import Any

import aiohttp
import discord
from discord import ui

from adapters.discord import library
from adapters.discord.card_views import READ, Shown, outcome_view
from adapters.discord.custom_ids import PLATFORM, Button
from adapters.discord.full_view import Reading
from adapters.discord.grant_cards import Operating
from adapters.discord.identities import identity_of, refuse_stranger, refuse_unfit
from adapters.discord.markup import clipped, inert
from adapters.discord.remember import Remembering
from adapters.discord.responses import Answer, private
from gateway.models import Action
from gateway.ports import (
    Click,
    Desk,
    JsonObject,
    Notes,
    Record,
    Worklist,
    headline,
    render_safe,
    start_of,
)

log = logging.getLogger("adapters.discord")

OPEN = "ag1:open"  # the menu under /pending
_LISTED = 20
_OFFERED = 100  # what is typed chooses 25 of these
_COMPLETION_SECONDS = 2.0
_TEXT = 3  # Discord's number for an option of text
_NOTE = "commands"
_SHORT, _LINE = 8, 100


def _option(name: str, says: str, *, required: bool, completes: bool = False) -> JsonObject:
    return {
        "type": _TEXT,
        "name": name,
        "description": says,
        "required": required,
        "autocomplete": completes,
    }


_REQUEST = _option("request", "which request", required=True, completes=True)
DEFINITIONS: list[JsonObject] = [
    {"name": "pending", "description": "What waits for you", "options": []},
    {"name": "approve", "description": "Read a request and approve it", "options": [_REQUEST]},
    {
        "name": "deny",
        "description": "Deny a request",
        "options": [_REQUEST, _option("reason", "what the agent is told", required=False)],
    },
    {"name": "grants", "description": "What is remembered", "options": []},
    {"name": "stop-all", "description": "Deny everything, or allow again: admins", "options": []},
    {
        "name": "revoke",
        "description": "Take back what is remembered",
        "options": [_option("grant", "which one", required=True, completes=True)],
    },
]
for _one in DEFINITIONS:
    _one |= {"type": 1, "contexts": [0, 1], "integration_types": [0]}


async def registered(client: discord.Client, notes: Notes) -> None:
    """Tell Discord our commands, if they are not those that it was told last."""
    application = client.application_id
    known = hashlib.sha256(json.dumps(DEFINITIONS, sort_keys=True).encode()).hexdigest()
    if application is None or await notes.get(_NOTE) == f"{application} {known}":
        return
    await library.register_commands(client, application, DEFINITIONS)
    await notes.put(_NOTE, f"{application} {known}")


class Commands:
    """Runs slash commands and completes what is typed."""

    def __init__(
        self, desk: Desk, reading: Reading, remembering: Remembering, operating: Operating
    ) -> None:
        self._desk = desk
        self._worklist = Worklist(desk)
        self._reading = reading
        self._remembering = remembering
        self._operating = operating

    async def run(self, interaction: discord.Interaction) -> Answer:
        """Answer a command, privately."""
        data: Any = interaction.data
        options = {one["name"]: str(one.get("value", "")) for one in data.get("options", [])}
        match data.get("name"):
            case "pending":
                return await self._pending(interaction)
            case "approve":
                record = await self._found(interaction, options.get("request", ""))
                return await self._approve(interaction, record)
            case "deny":
                identity, wanted = identity_of(interaction), options.get("request", "")
                record = await self._worklist.find(identity, wanted)
                return await self._deny(interaction, record, options.get("reason", ""))
        return await self._operated(interaction, str(data.get("name")), options.get("grant", ""))

    async def _operated(self, interaction: discord.Interaction, name: str, what: str) -> Answer:
        match name:
            case "grants":
                return await self._remembering.listed(interaction)
            case "stop-all":
                return await self._operating.switch(interaction)
            case "revoke":
                return await self._remembering.revoked(interaction, what)
        return private("This command is not known any more.")

    async def complete(self, interaction: discord.Interaction) -> None:
        """Offer what the caller may decide; nothing when that cannot be told in time."""
        data: Any = interaction.data
        written = [str(one.get("value", "")) for one in data["options"] if one.get("focused")]
        choices: list[discord.app_commands.Choice[str]] = []
        try:
            async with asyncio.timeout(_COMPLETION_SECONDS):
                for value, name in await self._choices(interaction):
                    if not written or written[0].lower() in f"{value} {name}".lower():
                        choices.append(discord.app_commands.Choice(name=name, value=value))
        except Exception as error:
            # Whatever it was, who types goes on without suggestions.
            log.info("not completed: %s", error, extra={"event": "completion_failed"})
        try:
            await interaction.response.autocomplete(choices[:25])
        except (discord.DiscordException, OSError, aiohttp.ClientError) as error:
            log.info("completion not taken: %s", error, extra={"event": "answer_late"})

    async def opened(self, interaction: discord.Interaction) -> Answer:
        """Show the request that was chosen under /pending."""
        data: Any = interaction.data
        record = await self._found(interaction, str((data.get("values") or [""])[0]))
        return await self._approve(interaction, record)

    # --- the commands ---------------------------------------------------------------------------

    async def _pending(self, interaction: discord.Interaction) -> Answer:
        records = await self._waiting(interaction, _LISTED)
        if not records:
            return private("✅ Nothing waits for you.")
        lines = ["### What waits for you"]
        for record in records:
            ends = f"<t:{record.deadline // 1000}:R>"
            lines.append(f"- {inert(self._line(record), 150)} · expires {ends}")
        menu: ui.Select[Any] = ui.Select(
            custom_id=OPEN,
            placeholder="Read one",
            options=[
                discord.SelectOption(label=self._line(record), value=record.id)
                for record in records
            ],
        )
        view = ui.LayoutView(timeout=None)
        view.add_item(ui.TextDisplay("\n".join(lines)[:3900])).add_item(ui.ActionRow(menu))
        view.stop()
        return Answer(Shown(view))

    async def _approve(self, interaction: discord.Interaction, record: Record) -> Answer:
        """Show all of it; what may be done with it stands there, as under a card."""
        button = Button(verb=READ, request_id=record.id, revision=record.revision)
        return await self._reading.answer(record, interaction, button)

    async def _deny(self, interaction: discord.Interaction, record: Record, reason: str) -> Answer:
        await refuse_unfit(self._desk, interaction, record.id)
        click = Click(
            request_id=record.id,
            revision=record.revision,
            identity=identity_of(interaction),
            action=Action.DENY,
            nonce=f"{PLATFORM} {interaction.id}",
            message=reason,
            feedback=bool(reason),
        )
        record = await self._desk.requests.decide(click)
        return Answer(outcome_view(await self._reading.card(record)))

    async def _choices(self, interaction: discord.Interaction) -> list[tuple[str, str]]:
        data: Any = interaction.data
        if data.get("name") == "revoke":
            return await self._remembering.choices(interaction)
        records = await self._waiting(interaction, _OFFERED)
        return [(record.id, self._line(record)) for record in records]

    # --- finding --------------------------------------------------------------------------------

    async def _waiting(self, interaction: discord.Interaction, limit: int) -> list[Record]:
        """Return what waits for the caller to decide it, the newest first."""
        identity, found = identity_of(interaction), list[Record]()
        async for record in self._worklist.list_waiting(identity):
            if await self._desk.requests.may_decide(identity, record) is None:
                found.append(record)
            if len(found) == limit:
                break
        return found

    async def _found(self, interaction: discord.Interaction, written: str) -> Record:
        """Return the request that a person means, if they may decide it. Raises NotFound,
        InvalidRequest, Unauthorized."""
        record = await self._worklist.find(identity_of(interaction), written)
        await refuse_stranger(self._desk, interaction, record)
        return record

    def _line(self, record: Record) -> str:
        tool = render_safe(start_of(record.request.tool, _LINE)).text
        said = headline(record, _LINE).text
        return clipped(f"{record.id[:_SHORT]} · {tool} · {said}", _LINE)
