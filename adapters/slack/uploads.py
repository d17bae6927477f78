"""Full texts as files in a card's thread. Without its file a long request cannot be approved."""

from __future__ import annotations

import logging
from io import BytesIO

import aiohttp

from adapters.slack.blocks import FullText
from adapters.slack.calls import CALL_SECONDS, asked
from adapters.slack.modals import PAGE_CHARS
from adapters.slack.values import Place, place_of
from adapters.slack.workspaces import Workspace
from gateway.cards import Card, full_view
from gateway.delivery import DeliveryFailed, Notes
from gateway.ports import Desk
from gateway.records import MessageRef

log = logging.getLogger("adapters.slack.uploads")

_KEPT_SECONDS = 40 * 24 * 3600.0
_OK = 200


class Uploads:
    """Attaches full texts, once for each card and each version of what would run."""

    def __init__(self, desk: Desk, notes: Notes, session: aiohttp.ClientSession) -> None:
        self._desk = desk
        self._notes = notes
        self._session = session

    async def attach(
        self, workspace: Workspace, ref: MessageRef, card: Card, thread: str
    ) -> FullText:
        """Attach what would run to a thread, unless it is there; return whether it is."""
        if await self.attached(ref, card.digest):
            return FullText.ATTACHED
        record = await self._desk.get(card.request_id)
        if record.digest != card.digest:
            return FullText.MISSING
        text = full_view(record, page_chars=PAGE_CHARS).text.encode()
        try:
            await self._upload(workspace, Place(*place_of(ref.channel)[:2], thread), card, text)
        except (DeliveryFailed, aiohttp.ClientError, TimeoutError) as error:
            data = {"event": "slack_upload_failed", "request_id": card.request_id}
            log.warning("full text not attached: %s", type(error).__name__, extra=data)
            return FullText.MISSING
        await self._notes.put(_key(ref, card.digest), "1", seconds=_KEPT_SECONDS)
        return FullText.ATTACHED

    async def attached(self, ref: MessageRef, digest: str) -> bool:
        """Tell whether a copy's thread holds the full text of this digest."""
        return await self._notes.get(_key(ref, digest)) is not None

    async def _upload(self, workspace: Workspace, place: Place, card: Card, text: bytes) -> None:
        client = workspace.client
        name = f"approval-{card.short_id}.txt"
        given = await asked(
            lambda: client.files_getUploadURLExternal(filename=name, length=len(text))
        )
        timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
        async with self._session.post(
            given["upload_url"], data=BytesIO(text), timeout=timeout
        ) as response:
            if response.status != _OK:
                raise DeliveryFailed(f"Slack did not take the file ({response.status})")
        await asked(
            lambda: client.files_completeUploadExternal(
                files=[{"id": given["file_id"], "title": f"All of it · sha256 {card.digest}"}],
                channel_id=place.channel,
                thread_ts=place.thread,
            )
        )


def _key(ref: MessageRef, digest: str) -> str:
    return f"file {ref.channel} {ref.message} {digest}"
