"""Register and run slash commands, with the same checks as buttons; start with DiscordCommands."""

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
from adapters.discord.cards import READ, MessageContent, build_outcome_view, escape_line
from adapters.discord.claims import ROUTES, DiscordClaims
from adapters.discord.custom_ids import PLATFORM, DiscordButton
from adapters.discord.full_view import show_page
from adapters.discord.grants import NO_REQUEST, RememberDialog, build_switch_view
from adapters.discord.interactions import (
    DiscordTap,
    InteractionReply,
    build_private_reply,
    read_identity,
    refuse_unfit,
)
from gateway.cards.card import card_of
from gateway.cards.shared_texts import ANOTHER_PLAN, clip
from gateway.cards.summary import plain_summary
from gateway.chat import claiming
from gateway.chat.answering import Answering, read_denial
from gateway.chat.away import AWAY, BACK, change_absence
from gateway.chat.lists_and_batches import NOTHING_WAITS, Worklist, make_login_link, read_switch
from gateway.errors import Unauthorized
from gateway.models import Action, RiskLevel
from gateway.ports import AdapterApi, AdapterStorage, Identity, JsonObject, StoredRequest, bug

log = logging.getLogger("adapters.discord")

_OPEN = "ag1:open"  # the menu under /pending
MENUS = {_OPEN, ROUTES}
_LISTED = 20
_OFFERED = 100  # candidates; Discord shows at most 25 matches
_COMPLETION_SECONDS = 2.0
_BOOLEAN, _USER = 5, 6  # as below
_TEXT = 3  # Discord's type number of a string option
_NOTE = "commands"
_SHORT, _LINE, _SENTENCE = 8, 100, 300


def _build_option(name: str, says: str, *, required: bool, completes: bool = False) -> JsonObject:
    option = {"type": _TEXT, "name": name, "description": says, "required": required}
    return option | {"autocomplete": True} if completes else option


def _build_subcommand(name: str, says: str, *options: JsonObject) -> JsonObject:
    return {"type": 1, "name": name, "description": says, "options": list(options)}


_REQUEST = _build_option("request", "the request", required=True, completes=True)
DEFINITIONS: list[JsonObject] = [
    {"name": "pending", "description": "List the requests that you can decide", "options": []},
    {"name": "approve", "description": "Read a request and approve it", "options": [_REQUEST]},
    {
        "name": "deny",
        "description": "Deny a request",
        "options": [
            _REQUEST,
            _build_option("reason", "your reason, which the agent sees", required=False),
            _build_option("plan", ANOTHER_PLAN.lower(), required=False) | {"type": _BOOLEAN},
        ],
    },
    {"name": "grants", "description": "List the grants that you can revoke", "options": []},
    {"name": "inbox", "description": "Get a link that signs you in to the inbox", "options": []},
    {
        "name": "stop-all",
        "description": "Open the kill switch (admins only)",
        "options": [],
    },
    {
        "name": "revoke",
        "description": "Revoke a grant",
        "options": [_build_option("grant", "the grant", required=True, completes=True)],
    },
    {
        "name": "approvals",
        "description": "Set where requests are posted, and who decides them",
        "options": [
            _build_subcommand(
                claiming.HERE,
                "Send requests to this channel",
                _build_option(
                    "code", "code that the terminal printed; admins need no code", required=False
                ),
            ),
            _build_subcommand(
                claiming.ME,
                "Link this account to your name in the policy",
                _build_option("code", "code that an admin gave you", required=True),
            ),
            _build_subcommand(
                AWAY,
                "Ask somebody else instead of you for a time",
                _build_option("until", "as in Mon 09:00 (UTC)", required=True),
                _build_option("delegate", "who is asked instead", required=True) | {"type": _USER},
            ),
            _build_subcommand(BACK, "End your absence"),
            _build_subcommand(claiming.WHO, "Show your id, this channel's id, and the admins"),
        ],
    },
]
_MANAGE_SERVER = str(1 << 5)  # who sees the command, unless the server's settings name others
for _one in DEFINITIONS:
    _one |= {"type": 1, "contexts": [0, 1], "integration_types": [0]}
    _one["default_member_permissions"] = _MANAGE_SERVER if _one["name"] == "stop-all" else None


async def register_missing(client: discord.Client, notes: AdapterStorage) -> None:
    """Register the commands that Discord does not know, or all of them if they changed.

    Each has its own API call, so the commands of other programs with the same bot remain.
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

    def __init__(self, api: AdapterApi, answering: Answering, remembering: RememberDialog) -> None:
        self._api = api
        self._worklist = Worklist(api)
        self._answering = answering
        self._remembering = remembering
        self._claims = DiscordClaims(api)

    async def run(self, interaction: discord.Interaction) -> InteractionReply:
        """Run a command and return a private reply."""
        await refuse_unfit(self._api, interaction, NO_REQUEST)
        data: Any = interaction.data
        options = _read_options(data)
        identity = read_identity(interaction)
        match data.get("name"):
            case "pending":
                work = self._list_pending(identity)
            case "approve":
                work = self._show(interaction, options.get("request", ""))
            case "deny":
                work = self._deny(interaction, options)
            case "grants":
                work = self._remembering.list_grants(identity)
            case "inbox":
                work = self._make_login_link(identity)
            case "stop-all":
                work = self._show_switch(identity)
            case "revoke":
                work = self._remembering.revoke(identity, options.get("grant", ""))
            case "approvals":
                (below,) = data["options"]
                given = _read_options(below)
                if below["name"] in (AWAY, BACK):
                    typed = f"until {given.get('until')} to {PLATFORM}:{given.get('delegate')}"
                    told = await change_absence(self._api, identity, below["name"], typed)
                    return build_private_reply(escape_line(told, 2 * _SENTENCE))
                code = given.get("code", "")
                work = self._claims.run(interaction, below["name"], code=code)
            case _:
                return build_private_reply("This command no longer exists.")
        return await work

    async def complete(self, interaction: discord.Interaction) -> None:
        """Suggest the requests or grants that match; suggest none if the search takes too long."""
        data: Any = interaction.data
        written = [str(one.get("value", "")) for one in data["options"] if one.get("focused")]
        choices: list[discord.app_commands.Choice[str]] = []
        try:
            async with asyncio.timeout(_COMPLETION_SECONDS):
                for value, name in await self._find_choices(interaction):
                    if not written or written[0].lower() in f"{value} {name}".lower():
                        choices.append(discord.app_commands.Choice(name=name, value=value))
        except Exception as error:
            # After any failure, the person can type without suggestions.
            log.info("not completed: %s", bug(error), extra={"event": "completion_failed"})
        try:
            await interaction.response.autocomplete(choices[:25])
        except (discord.DiscordException, OSError, aiohttp.ClientError) as error:
            log.info(
                "Discord did not accept the suggestions: %s", error, extra={"event": "answer_late"}
            )

    async def choose(self, interaction: discord.Interaction) -> InteractionReply:
        """Show the request chosen in the menu of /pending, or add this channel to the route chosen
        in the menu of /approvals."""
        await refuse_unfit(self._api, interaction, NO_REQUEST)
        data: Any = interaction.data
        chosen = str((data.get("values") or [""])[0])
        if interaction.custom_id == ROUTES:
            return await self._claims.run(interaction, claiming.HERE, route=chosen)
        return await self._show(interaction, chosen)

    async def _make_login_link(self, identity: Identity) -> InteractionReply:
        says, url = await make_login_link(self._api, identity)
        return build_private_reply(escape_line(says, _SENTENCE), url)

    async def _show_switch(self, identity: Identity) -> InteractionReply:
        switch, admin = await read_switch(self._api, identity)
        if not admin:
            raise Unauthorized("only an admin may use the kill switch")
        return InteractionReply(build_switch_view(switch))

    async def _list_pending(self, identity: Identity) -> InteractionReply:
        records = await self._worklist.list_mine(identity, _LISTED)
        if not records:
            told = await claiming.introduce_stranger(self._api, identity, NOTHING_WAITS)
            return build_private_reply(f"✅ {escape_line(told, 3 * _SENTENCE)}")
        return InteractionReply(build_pending_view(records))

    async def _show(self, interaction: discord.Interaction, written: str) -> InteractionReply:
        """Show the full view with its decision buttons. Raises Unauthorized for non-approvers."""
        tap = await self._find(interaction, written)
        record = await self._answering.check_approver(tap.press)
        return await show_page(self._answering, tap, record)

    async def _deny(
        self, interaction: discord.Interaction, options: dict[str, str]
    ) -> InteractionReply:
        tap = await self._find(interaction, options.get("request", ""))
        replan = options.get("plan") == str(True)
        said = read_denial(reason=options.get("reason", ""), replan=replan)
        record = await self._answering.decide(tap.press, Action.DENY, **said)
        return InteractionReply(build_outcome_view(await self._answering.build_posted(record)))

    async def _find(self, interaction: discord.Interaction, written: str) -> DiscordTap:
        """Find a request by its id or the beginning of it. Raises NotFound, InvalidRequest."""
        record = await self._worklist.find(read_identity(interaction), written)
        button = DiscordButton(verb=READ, request_id=record.id, revision=record.revision)
        return DiscordTap(interaction, button)

    async def _find_choices(self, interaction: discord.Interaction) -> list[tuple[str, str]]:
        data: Any = interaction.data
        identity = read_identity(interaction)
        if data.get("name") == "revoke":
            return await self._remembering.find_choices(identity)
        records = await self._worklist.list_mine(identity, _OFFERED)
        return [(record.id, _render_line(record)) for record in records]


def _read_options(data: JsonObject) -> dict[str, str]:
    return {one["name"]: str(one.get("value", "")) for one in data.get("options", [])}


def build_pending_view(records: Sequence[StoredRequest]) -> MessageContent:
    """Build a list of pending requests, with a menu to open one of them."""
    lines = ["### Pending requests"]
    for record in records:
        ends = f"<t:{record.deadline // 1000}:R>"
        said, number = escape_line(_describe(record), 300), record.id[:_SHORT]
        lines.append(f"- {said} · expires {ends} · `{number}`")
    menu: ui.Select[Any] = ui.Select(
        custom_id=_OPEN,
        placeholder="Open a request",
        options=[
            discord.SelectOption(label=_render_line(record), value=record.id) for record in records
        ],
    )
    view = ui.LayoutView(timeout=None)
    view.add_item(ui.TextDisplay("\n".join(lines)[:3900])).add_item(ui.ActionRow(menu))
    view.stop()
    return MessageContent(view)


def _render_line(record: StoredRequest) -> str:
    """Return the menu line of a request; it always ends with the short id."""
    number = f" · {record.id[:_SHORT]}"
    return f"{clip(_describe(record), _LINE - len(number))}{number}"


def _describe(record: StoredRequest) -> str:
    """Describe a request: high risk if so, the agent, and the summary."""
    card = card_of(record, lines=1, chars=1)
    high = "🔴 High risk · " if card.risk is RiskLevel.HIGH else ""
    return f"{high}{record.request.agent}: {plain_summary(card.summary)}"
