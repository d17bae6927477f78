"""Uploads of full texts to a card's thread. Long requests need one to be approved in Slack."""

from __future__ import annotations

import logging
from io import BytesIO

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.card_blocks import FullText
from adapters.slack.payloads import SlackPlace, read_place
from adapters.slack.workspaces_and_web_api import Workspace, call_repeatable
from gateway.ports import Card, DeliveryFailed, Desk, MessageRef, full_view

log = logging.getLogger("adapters.slack.uploads")

_KEPT_SECONDS = 40 * 24 * 3600.0
_OK = 200


class Uploads:
    """Attaches full texts, once for each card and digest."""

    def __init__(self, desk: Desk, session: aiohttp.ClientSession) -> None:
        self._desk = desk
        self._session = session

    async def attach(
        self, workspace: Workspace, ref: MessageRef, card: Card, thread: str
    ) -> FullText:
        """Attach the full text to a thread, unless it is there; return whether it is."""
        if await self.is_attached(ref, card.digest):
            return FullText.ATTACHED
        record = await self._desk.requests.get(card.request_id)
        if record.digest != card.digest:
            return FullText.MISSING
        text = full_view(record).text.encode()
        place = SlackPlace(*read_place(ref.channel)[:2], thread)
        name, title = f"approval-{card.short_id}.txt", f"All of it · sha256 {card.digest}"
        try:
            await upload_file(workspace.client, self._session, place, text, name=name, title=title)
        except DeliveryFailed as error:
            data = {"event": "slack_upload_failed", "request_id": card.request_id}
            log.warning("full text not attached: %s", type(error).__name__, extra=data)
            return FullText.MISSING
        await self._desk.notes.put(_key(ref, card.digest), "1", seconds=_KEPT_SECONDS)
        return FullText.ATTACHED

    async def is_attached(self, ref: MessageRef, digest: str) -> bool:
        """Whether a copy's thread has the full text of this digest."""
        return await self._desk.notes.get(_key(ref, digest)) is not None


async def upload_file(
    client: AsyncWebClient,
    session: aiohttp.ClientSession,
    place: SlackPlace,
    content: bytes,
    *,
    name: str,
    title: str,
) -> str:
    """Attach a file to a thread; return its id. Raises DeliveryFailed."""
    given = await call_repeatable(
        lambda: client.files_getUploadURLExternal(filename=name, length=len(content))
    )
    try:
        async with session.post(given["upload_url"], data=BytesIO(content)) as response:
            status = response.status
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise DeliveryFailed(f"Slack did not take the file: {type(error).__name__}") from error
    if status != _OK:
        raise DeliveryFailed(f"Slack did not take the file ({status})")
    file_id = str(given["file_id"])
    await call_repeatable(
        lambda: client.files_completeUploadExternal(
            files=[{"id": file_id, "title": title}],
            channel_id=place.channel,
            thread_ts=place.thread,
        )
    )
    return file_id


def _key(ref: MessageRef, digest: str) -> str:
    return f"file {ref.channel} {ref.message} {digest}"
