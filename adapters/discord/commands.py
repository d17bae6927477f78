"""Slash commands. They make the same checks as buttons."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Any

import aiohttp
import discord
from discord import ui

from adapters.discord import library
from adapters.discord.cards import READ, MessageContent, build_outcome_view, clip, escape_line
from adapters.discord.custom_ids import PLATFORM, DiscordButton
from adapters.discord.edits import check_plan
from adapters.discord.full_view import FullViewPages
from adapters.discord.grants import KillSwitchActions, RememberDialog
from adapters.discord.interactions import (
    InteractionReply,
    build_private_reply,
    find_objection,
    read_identity,
    refuse_stranger,
    refuse_unfit,
)
from gateway.cards.card import card_of
from gateway.cards.summary import plain_head
from gateway.cards.words import ANOTHER_PLAN
from gateway.errors import Unauthorized
from gateway.models import Action, RiskLevel
from gateway.ports import AdapterStorage, Click, Desk, JsonObject, Record, Worklist, bug

log = logging.getLogger("adapters.discord")

OPEN = "ag1:open"  # the menu under /pending
_LISTED = 20
_OFFERED = 100  # candidates, of which Discord shows 25 that match
_COMPLETION_SECONDS = 2.0
_BOOLEAN = 5  # as below
_TEXT = 3  # Discord's type number of a string option
_NOTE = "commands"
_SHORT, _LINE = 8, 100


def _build_option(name: str, says: str, *, required: bool, completes: bool = False) -> JsonObject:
    option = {"type": _TEXT, "name": name, "description": says, "required": required}
    return option | {"autocomplete": True} if completes else option


_REQUEST = _build_option("request", "which request", required=True, completes=True)
DEFINITIONS: list[JsonObject] = [
    {"name": "pending", "description": "What waits for you", "options": []},
    {"name": "approve", "description": "Read a request and approve it", "options": [_REQUEST]},
    {
        "name": "deny",
        "description": "Deny a request",
        "options": [
            _REQUEST,
            _build_option("reason", "what the agent is told", required=False),
            _build_option("plan", ANOTHER_PLAN.lower(), required=False) | {"type": _BOOLEAN},
        ],
    },
    {"name": "grants", "description": "What is remembered", "options": []},
    {"name": "inbox", "description": "A link that signs you in to the inbox", "options": []},
    {
        "name": "stop-all",
        "description": "Deny everything, or let agents ask again: admins",
        "options": [],
    },
    {
        "name": "revoke",
        "description": "Revoke a remembered decision",
        "options": [_build_option("grant", "which one", required=True, completes=True)],
    },
]
_MANAGE_SERVER = str(1 << 5)  # only these see it, unless the server's settings name others
for _one in DEFINITIONS:
    _one |= {"type": 1, "contexts": [0, 1], "integration_types": [0]}
    _one["default_member_permissions"] = _MANAGE_SERVER if _one["name"] == "stop-all" else None


async def register_missing(client: discord.Client, notes: AdapterStorage) -> None:
    """Register the commands that Discord does not know, or all when they have changed.

    Each is registered by itself: those of others who share the bot stay.
    """
    application = client.application_id
    if application is None:
        return
    digest = hashlib.sha256(json.dumps(DEFINITIONS, sort_keys=True).encode()).hexdigest()
    same = await notes.get(_NOTE) == f"{application} {digest}"
    known = await library.list_commands(client, application) if same else set()
    for one in DEFINITIONS:
        if one["name"] not in known:
            await library.register_command(client, application, one)
    await notes.put(_NOTE, f"{application} {digest}")


class DiscordCommands:
    """Runs slash commands and autocompletes their options."""

    def __init__(
        self,
        desk: Desk,
        reading: FullViewPages,
        remembering: RememberDialog,
        operating: KillSwitchActions,
    ) -> None:
        self._desk = desk
        self._worklist = Worklist(desk)
        self._reading = reading
        self._remembering = remembering
        self._operating = operating

    async def run(self, interaction: discord.Interaction) -> InteractionReply:
        """Run a command and return a private reply."""
        data: Any = interaction.data
        options = {one["name"]: str(one.get("value", "")) for one in data.get("options", [])}
        match data.get("name"):
            case "pending":
                return await self._list_pending(interaction)
            case "approve":
                record = await self._find_request(interaction, options.get("request", ""))
                return await self._show_for_approval(interaction, record)
            case "deny":
                identity, wanted = read_identity(interaction), options.get("request", "")
                record = await self._worklist.find(identity, wanted)
                reason, plan = options.get("reason", ""), options.get("plan") == str(True)
                return await self._deny(interaction, record, reason, replan=plan)
        return await self._run_admin_command(
            interaction, str(data.get("name")), options.get("grant", "")
        )

    async def _run_admin_command(
        self, interaction: discord.Interaction, name: str, what: str
    ) -> InteractionReply:
        match name:
            case "grants":
                return await self._remembering.list_grants(interaction)
            case "inbox":
                return await self._make_login_link(interaction)
            case "stop-all":
                return await self._operating.show_state(interaction)
            case "revoke":
                return await self._remembering.revoke(interaction, what)
        return build_private_reply("This command no longer exists.")

    async def complete(self, interaction: discord.Interaction) -> None:
        """Offer what the caller may decide, or nothing when that takes too long."""
        data: Any = interaction.data
        written = [str(one.get("value", "")) for one in data["options"] if one.get("focused")]
        choices: list[discord.app_commands.Choice[str]] = []
        try:
            async with asyncio.timeout(_COMPLETION_SECONDS):
                for value, name in await self._find_choices(interaction):
                    if not written or written[0].lower() in f"{value} {name}".lower():
                        choices.append(discord.app_commands.Choice(name=name, value=value))
        except Exception as error:
            # Whatever it was, the person can type without suggestions.
            log.info("not completed: %s", bug(error), extra={"event": "completion_failed"})
        try:
            await interaction.response.autocomplete(choices[:25])
        except (discord.DiscordException, OSError, aiohttp.ClientError) as error:
            log.info("completion not taken: %s", error, extra={"event": "answer_late"})

    async def open_selected(self, interaction: discord.Interaction) -> InteractionReply:
        """Show the request that was selected under /pending."""
        data: Any = interaction.data
        record = await self._find_request(interaction, str((data.get("values") or [""])[0]))
        return await self._show_for_approval(interaction, record)

    # --- the commands ---------------------------------------------------------------------------

    async def _list_pending(self, interaction: discord.Interaction) -> InteractionReply:
        records = await self._find_waiting(interaction, _LISTED)
        if not records:
            return build_private_reply("✅ Nothing waits for you.")
        return InteractionReply(build_pending_view(records))

    async def _make_login_link(self, interaction: discord.Interaction) -> InteractionReply:
        """Return a button that only the caller sees."""
        if why := find_objection(interaction):
            raise Unauthorized(why)
        made = await self._desk.links.make(read_identity(interaction))
        name = escape_line(made.name, _LINE)
        says = f"This signs you in to the inbox as {name}: once, in {made.minutes} minutes."
        return build_private_reply(says, made.url)

    async def _show_for_approval(
        self, interaction: discord.Interaction, record: Record
    ) -> InteractionReply:
        """Show the full view, which has the buttons to decide."""
        button = DiscordButton(verb=READ, request_id=record.id, revision=record.revision)
        return await self._reading.build_full_view(record, interaction, button)

    async def _deny(
        self, interaction: discord.Interaction, record: Record, reason: str, *, replan: bool
    ) -> InteractionReply:
        await refuse_unfit(self._desk, interaction, record.id)
        click = Click(
            request_id=record.id,
            revision=record.revision,
            identity=read_identity(interaction),
            action=Action.DENY,
            nonce=f"{PLATFORM} {interaction.id}",
            message=reason,
            feedback=check_plan(replan, reason),
        )
        record = await self._desk.requests.decide(click)
        return InteractionReply(build_outcome_view(await self._reading.build_card(record)))

    async def _find_choices(self, interaction: discord.Interaction) -> list[tuple[str, str]]:
        data: Any = interaction.data
        if data.get("name") == "revoke":
            return await self._remembering.find_choices(interaction)
        records = await self._find_waiting(interaction, _OFFERED)
        return [(record.id, _render_line(record)) for record in records]

    # --- look-ups -------------------------------------------------------------------------------

    async def _find_waiting(self, interaction: discord.Interaction, limit: int) -> list[Record]:
        """Return pending requests that the caller may decide, newest first."""
        identity, found = read_identity(interaction), list[Record]()
        async for record in self._worklist.list_waiting(identity):
            if await self._desk.requests.may_decide(identity, record) is None:
                found.append(record)
            if len(found) == limit:
                break
        return found

    async def _find_request(self, interaction: discord.Interaction, written: str) -> Record:
        """Return the request of an id or its beginning, if the caller may decide it.

        Raises NotFound, InvalidRequest, Unauthorized.
        """
        record = await self._worklist.find(read_identity(interaction), written)
        await refuse_stranger(self._desk, interaction, record)
        return record


def build_pending_view(records: Sequence[Record]) -> MessageContent:
    """Return a list of what waits, with a menu to read one of them."""
    lines = ["### What waits for you"]
    for record in records:
        ends = f"<t:{record.deadline // 1000}:R>"
        said, number = escape_line(_describe(record), 300), record.id[:_SHORT]
        lines.append(f"- {said} · expires {ends} · `{number}`")
    menu: ui.Select[Any] = ui.Select(
        custom_id=OPEN,
        placeholder="Read one",
        options=[
            discord.SelectOption(label=_render_line(record), value=record.id) for record in records
        ],
    )
    view = ui.LayoutView(timeout=None)
    view.add_item(ui.TextDisplay("\n".join(lines)[:3900])).add_item(ui.ActionRow(menu))
    view.stop()
    return MessageContent(view)


def _render_line(record: Record) -> str:
    """Return a line for a menu, which always ends with the id."""
    number = f" · {record.id[:_SHORT]}"
    return f"{clip(_describe(record), _LINE - len(number))}{number}"


def _describe(record: Record) -> str:
    """Say whether it is high risk, who asks, and what happens."""
    card = card_of(record, lines=1, chars=1)
    high = "🔴 High risk · " if card.risk is RiskLevel.HIGH else ""
    return f"{high}{record.request.agent}: {plain_head(card.head)}"
