"""Private replies to the person: in their open modal, or as a message only they see."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

import aiohttp

from adapters.slack import modals
from adapters.slack.card_blocks import build_thread_note, escape
from adapters.slack.payloads import Interaction, Json
from adapters.slack.workspaces_and_web_api import Workspace, call_once, call_repeatable
from gateway.ports import DeliveryFailed

log = logging.getLogger("adapters.slack.replies")


class PrivateReply:
    """Replies to one interaction. `view_id` is the modal that was opened for it, if any."""

    def __init__(
        self,
        workspace: Workspace,
        interaction: Interaction,
        session: aiohttp.ClientSession,
        hosts: frozenset[str],
    ) -> None:
        self._workspace = workspace
        self._interaction = interaction
        self._session = session
        self._hosts = hosts
        self.view_id = interaction.view_id if interaction.in_modal else ""

    async def open(self, view: Json) -> bool:
        """Open a modal, on top of an open one; return False when it failed."""
        client, trigger = self._workspace.client, self._interaction.trigger_id
        opening = client.views_push if self._interaction.in_modal else client.views_open
        try:
            answer = await call_once(lambda: opening(trigger_id=trigger, view=view))
        except DeliveryFailed as failure:
            log.info("no modal: %s", type(failure).__name__, extra={"event": "slack_no_modal"})
            return False
        self.view_id = str(answer["view"]["id"])
        return True

    async def show(self, view: Json, *, seen: str | None = None) -> None:
        """Replace the open modal; with `seen`, only if its hash is still the same."""
        client = self._workspace.client
        more = {"hash": seen} if seen else {}
        try:
            await call_repeatable(
                lambda: client.views_update(view_id=self.view_id, view=view, **more)
            )
        except DeliveryFailed as failure:
            log.info("modal gone: %s", type(failure).__name__, extra={"event": "slack_modal_gone"})

    async def replace(self, text: str, blocks: list[Json]) -> bool:
        """Replace the clicked message; return whether Slack took it."""
        return await self._by_response_url(
            {"replace_original": True, "text": text, "blocks": blocks}
        )

    async def tell(self, text: str, *, blocks: list[Json] | None = None) -> None:
        """Send a private text. Never raises: the work itself is done."""
        if self.view_id:
            await self.show(modals.build_notice("Approvals", text))
            return
        if self._interaction.view and await self.open(modals.build_notice("Approvals", text)):
            return
        made = build_thread_note(text) if blocks is None else blocks
        body = {
            "response_type": "ephemeral",
            "replace_original": False,
            "text": escape(text),
            "blocks": made,
        }
        try:
            if not await self._by_response_url(body):
                await self._by_ephemeral(escape(text), made)
        except (DeliveryFailed, aiohttp.ClientError, TimeoutError, OSError) as failure:
            log.info("not told: %s", type(failure).__name__, extra={"event": "slack_not_told"})

    async def _by_response_url(self, body: Json) -> bool:
        url = self._interaction.response_url
        if not url or urlsplit(url).hostname not in self._hosts:
            return False
        try:
            async with self._session.post(url, json=body) as response:
                return response.ok
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def _by_ephemeral(self, text: str, made: list[Json]) -> None:
        actor, client = self._interaction.actor, self._workspace.client
        channel = self._interaction.channel
        if not channel or channel.startswith("D"):
            await call_once(
                lambda: client.chat_postMessage(channel=actor.user, text=text, blocks=made)
            )
            return
        await call_once(
            lambda: client.chat_postEphemeral(
                channel=channel, user=actor.user, text=text, blocks=made
            )
        )
