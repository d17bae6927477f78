"""`gateway doctor --live`: a card goes through its life in a real channel, and is taken away again.

Block limits, edits of rich text and file uploads cannot be proven without Slack's own servers.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import blocks, modals
from adapters.slack.blocks import CARD_CHARS, CARD_LINES
from adapters.slack.calls import SlackRefused, asked, sent
from adapters.slack.text import Json
from adapters.slack.values import Form, Malformed, place_of
from gateway.cards import Card, card_of, full_view
from gateway.delivery import DeliveryFailed
from gateway.findings import Finding, doubtful, failed, fine
from gateway.models import Action, ApprovalRequest, Kind, Risk, RiskLevel, Status
from gateway.records import Record

_COPY = "rehearsal"
_ID = "0" * 32
_OK = 200


async def rehearsed(client: AsyncWebClient, team: str, targets: Sequence[str]) -> Finding:
    """Post, edit, attach and delete a sample card in the first channel of the routes."""
    channel = next((place for one in targets if (place := _channel(one, team))), None)
    if channel is None:
        return doubtful("no route names a channel to try it in", "name slack:TEAM/CHANNEL")
    step = "validate"
    try:
        await _validated(client)
        step = "post"
        text, made = blocks.message(_card(long=True), _COPY)
        posted = await sent(
            lambda: client.chat_postMessage(channel=channel, text=text, blocks=made)
        )
        try:
            step = "edit"
            await _edited(client, channel, posted["ts"])
            step = "attach"
            await _attached(client, channel, posted["ts"])
        finally:
            await asked(lambda: client.chat_delete(channel=channel, ts=posted["ts"]))
    except DeliveryFailed as failure:
        return failed(f"{step}: {failure}", "report it with this sentence")
    return fine(f"a card was posted, edited, given a file and deleted in {channel}")


async def _validated(client: AsyncWebClient) -> None:
    """Have Slack check blocks and modals, where it offers that."""
    for card in (_card(long=False), _card(long=True)):
        _, made = blocks.message(card, _COPY)
        await _checked(client, blocks_=made)
        await _checked(client, view=modals.deny(card, Form(_ID, 1, _COPY)))


async def _checked(
    client: AsyncWebClient, *, blocks_: list[Json] | None = None, view: Json | None = None
) -> None:
    try:
        if view is None:
            await asked(lambda: client.blocks_validate(blocks=blocks_))
        else:
            await asked(lambda: client.blocks_validate(view=view))
    except SlackRefused as refused:
        if refused.error not in ("unknown_method", "method_deprecated", "not_allowed_token_type"):
            raise


async def _edited(client: AsyncWebClient, channel: str, ts: str) -> None:
    text, made = blocks.message(_card(long=False, ended=True), _COPY)
    await asked(lambda: client.chat_update(channel=channel, ts=ts, text=text, blocks=made))


async def _attached(client: AsyncWebClient, channel: str, ts: str) -> None:
    content = full_view(_record(long=True), page_chars=modals.PAGE_CHARS).text.encode()
    place = await asked(
        lambda: client.files_getUploadURLExternal(filename="sample.txt", length=len(content))
    )
    async with (
        aiohttp.ClientSession() as session,
        session.post(place["upload_url"], data=io.BytesIO(content)) as response,
    ):
        if response.status != _OK:
            raise DeliveryFailed(f"Slack did not take the file ({response.status})")
    await asked(
        lambda: client.files_completeUploadExternal(
            files=[{"id": place["file_id"], "title": "Sample"}], channel_id=channel, thread_ts=ts
        )
    )
    # Deleting the card alone would leave its thread.
    await asked(lambda: client.files_delete(file=place["file_id"]))


def _card(*, long: bool, ended: bool = False) -> Card:
    record = _record(long=long)
    if ended:
        record = replace(record, status=Status.CANCELLED, revision=2)
    return card_of(record, lines=CARD_LINES, chars=CARD_CHARS)


def _record(*, long: bool) -> Record:
    """Return a sample request, with text that Slack must not act on."""
    command = "echo '<!channel> <@U0> *bold* ```fence``` <https://example.com|here>' 😀\n"
    request = ApprovalRequest(
        id=_ID,
        agent="doctor",
        tool="sample, nothing runs",
        kind=Kind.COMMAND,
        arguments={"command": command * (200 if long else 1)},
        digest="0" * 64,
        hint="This is a rehearsal of `gateway doctor --live`; it is deleted at once.",
        allowed=(Action.APPROVE, Action.DENY),
    )
    return Record(
        request=request,
        status=Status.PENDING,
        revision=1,
        shown_since=1,
        digest=request.digest,
        created=0,
        deadline=0,
        route="default",
        risk=Risk(level=RiskLevel.LOW),
    )


def _channel(target: str, team: str) -> str | None:
    try:
        workspace, channel, _ = place_of(target)
    except Malformed:
        return None
    return channel if workspace == team and channel[0] not in "UW" else None
