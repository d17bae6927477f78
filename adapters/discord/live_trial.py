"""Run `gateway doctor --live --with-me` in Discord; start with `DiscordTrial.run`.

The trial posts sample cards, compares them with what Discord returns, and asks the person for two
clicks. It ignores clicks of other people and clicks on other cards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import discord
from discord.abc import Messageable

from adapters.discord import library
from adapters.discord.cards import (
    CARD_CHARS,
    CARD_LINES,
    NOBODY,
    READ,
    MessageContent,
    build_card_view,
    build_more_view,
    render_about,
)
from adapters.discord.custom_ids import DiscordButton, read_button, read_target
from adapters.discord.edits import build_modal
from adapters.discord.full_view import build_full_view, page_fits
from gateway.cards.card import Card, card_of, full_view
from gateway.chat import rehearsal
from gateway.models import Action
from gateway.ports import Finding, LiveTrial, StoredRequest, cancel_and_wait, report_doubt

_CONNECT_SECONDS = 20.0
_BUTTON = DiscordButton(verb=READ, request_id=rehearsal.SAMPLE_ID, revision=1, copy=rehearsal.COPY)
_PLAIN = rehearsal.build_sample()
_END = rehearsal.end_sample(_PLAIN)


def make_sample_card(record: StoredRequest) -> Card:
    """Return the card of a sample."""
    return card_of(record, lines=CARD_LINES, chars=CARD_CHARS)


def make_sample_message(record: StoredRequest) -> MessageContent:
    """Return the message of a sample."""
    return build_card_view(make_sample_card(record), rehearsal.COPY)


@dataclass
class DiscordTrial:
    """The trial with one person, in their direct messages. If those are closed, it uses the first
    channel of a route. With `over_http`, Discord sends clicks to the gateway's own URL."""

    client: discord.Client
    trial: LiveTrial
    targets: Sequence[str]
    over_http: bool
    changes: list[str] = field(default_factory=list)
    arrived: asyncio.Queue[discord.Interaction] = field(default_factory=asyncio.Queue)

    async def run(self) -> list[Finding]:
        """Run the trial, and delete its messages at the end, also after an error."""
        return await rehearsal.run_steps(self._echo, self._try_acts)

    async def _echo(self) -> Finding:
        card, full = make_sample_card(_PLAIN), full_view(_PLAIN, fits=page_fits)
        shown = [make_sample_message(one) for one in rehearsal.build_samples()]
        shown += [build_more_view(card, _BUTTON), build_full_view(card, full, _BUTTON)]
        for content in shown:
            async with self._post(content) as message:
                await self._compare(message, content)
                await message.edit(
                    view=make_sample_message(_END).view, attachments=[], allowed_mentions=NOBODY
                )
                await self._compare(message, make_sample_message(_END))
        said = f"{len(shown)} messages, their edits, and a file"
        return rehearsal.report_changes(said, self.changes)

    def _post(self, content: MessageContent) -> AbstractAsyncContextManager[discord.Message]:
        return rehearsal.shown(self._send(content), discord.Message.delete)

    async def _send(self, content: MessageContent) -> discord.Message:
        async def send(place: Messageable) -> discord.Message:
            view, files = content.view, content.files
            return await place.send(view=view, files=files, allowed_mentions=NOBODY)

        direct = await self.client.create_dm(discord.Object(int(self.trial.user)))
        try:
            return await send(direct)
        except discord.Forbidden:
            places = [place for one in self.targets if (place := read_target(one))]
            for channel in (int(one.channel) for one in places if one.channel):
                return await send(self.client.get_partial_messageable(channel))
            raise

    async def _compare(self, message: discord.Message, content: MessageContent) -> None:
        """Record the differences between the sent components and the ones Discord returns."""
        view: Any = content.view
        sent, got = view.to_components(), await library.read_message(self.client, message)
        self.trial.record("sent", {"components": sent})
        self.trial.record("got", got)
        self.changes += rehearsal.find_changes(sent, got["components"], "components")

    async def _try_acts(self) -> Finding:
        if self.over_http:
            said = "clicks were not tested, because Discord sends them to the gateway over HTTP"
            return report_doubt(said, "start the gateway, then decide a card to test the clicks")

        async def on_interaction(interaction: discord.Interaction) -> None:
            self.arrived.put_nowait(interaction)

        self.client.event(on_interaction)
        connecting = asyncio.create_task(self.client.connect(), name="discord trial")
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await self.client.wait_for("connect")
            async with self._post(make_sample_message(_PLAIN)) as message:
                direct = isinstance(message.channel, discord.DMChannel)
                where = "your direct messages" if direct else "the first channel of your routes"
                denied = f"Press Deny on the card in {where}, then Submit in the form."
                deny, approve = partial(self._deny, message), partial(self._approve, message)
                acts = [(denied, deny), ("Press Approve on it.", approve)]
                return await rehearsal.ask(self.trial, acts)
        finally:
            await cancel_and_wait(connecting)
            await library.close_new_sockets(self.client)

    async def _deny(self, message: discord.Message) -> Awaitable[object]:
        did = await self._wait_for(message, Action.DENY, discord.InteractionType.component)
        card, button = make_sample_card(_PLAIN), _BUTTON.with_verb(Action.DENY.value)
        modal = build_modal(Action.DENY, card, button, about=render_about(card))
        await did.response.send_modal(modal)
        did = await self._wait_for(message, Action.DENY, discord.InteractionType.modal_submit)
        return did.response.defer()

    async def _approve(self, message: discord.Message) -> Awaitable[object]:
        did = await self._wait_for(message, Action.APPROVE, discord.InteractionType.component)
        return did.response.edit_message(view=make_sample_message(_END).view)

    async def _wait_for(
        self, message: discord.Message, verb: Action, kind: discord.InteractionType
    ) -> discord.Interaction:
        """Wait for this person's next click on this button, or for its submitted form."""
        while True:
            did = await self.arrived.get()
            ours = did.message is not None and did.message.id == message.id
            if ours and did.type is kind and str(did.user.id) == self.trial.user:
                button = read_button(did.custom_id or "")
                if button is not None and button.verb == verb:
                    self.trial.record("got", {"type": kind.name, "data": did.data})
                    return did
