"""`gateway doctor --live`: post, edit and delete a sample card in a real channel.

Block limits, edits of rich text and file uploads cannot be tested without Slack's own servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import card_blocks as blocks
from adapters.slack import modals
from adapters.slack.card_blocks import CARD_CHARS, CARD_LINES
from adapters.slack.payloads import Json, ModalMetadata, SlackPlace
from adapters.slack.uploads import upload_file
from adapters.slack.workspaces_and_web_api import SlackRefused, call_once, call_repeatable
from gateway.models import Action, ApprovalRequest, Kind, Risk, RiskLevel, Status
from gateway.ports import (
    Card,
    DeliveryFailed,
    Finding,
    Record,
    card_of,
    full_view,
    report_doubt,
    report_failure,
    report_ok,
)

_COPY = "rehearsal"
_ID = "0" * 32
MOST_CHANNELS = 20


async def try_channels(
    clients: Mapping[str, AsyncWebClient],
    places: Sequence[SlackPlace],
    session: aiohttp.ClientSession,
) -> list[Finding]:
    """Post, edit, attach and delete a sample card in each channel, one after the other."""
    if not places:
        return [report_doubt("no route names a channel to try it in", "name slack:TEAM/CHANNEL")]
    found = []
    validated: set[str] = set()
    for place in places[:MOST_CHANNELS]:
        first = place.team not in validated
        found.append(await _try_channel(clients[place.team], place, session, validate=first))
        validated.add(place.team)
    if rest := places[MOST_CHANNELS:]:
        names = ", ".join(f"{place.team}/{place.channel}" for place in rest)
        remedy = "what Slack takes in the others it takes here; `slack channels` looked at each"
        found.append(report_doubt(f"after {MOST_CHANNELS} channels, not tried: {names}", remedy))
    return found


async def _try_channel(
    client: AsyncWebClient, place: SlackPlace, session: aiohttp.ClientSession, *, validate: bool
) -> Finding:
    step = "validate"
    channel = place.channel
    try:
        if validate:
            await _validate_samples(client)
        step = "post"
        text, made = blocks.build_message(_build_card(long=True), _COPY)
        posted = await call_once(
            lambda: client.chat_postMessage(channel=channel, text=text, blocks=made)
        )
        try:
            step = "edit"
            await _edit(client, channel, posted["ts"])
            step = "attach"
            await _attach(client, place._replace(thread=posted["ts"]), session)
        finally:
            await _delete(client, channel, posted["ts"])
    except DeliveryFailed as failure:
        said = f"{place.team}/{channel}: {step}: {failure}"
        return report_failure(said, "if all other checks are well, report it with this sentence")
    did = "a card was posted, edited, given a file and deleted"
    return report_ok(f"{place.team}/{channel}: {did}")


async def _validate_samples(client: AsyncWebClient) -> None:
    """Have Slack validate blocks and modals, where it has that method."""
    for card in (_build_card(long=False), _build_card(long=True)):
        _, made = blocks.build_message(card, _COPY)
        await _validate(client, blocks_=made)
    # A modal shows no more of it than this.
    short = _build_card(long=False)
    await _validate(client, view=modals.build_deny(short, ModalMetadata(_ID, 1, _COPY)))


async def _validate(
    client: AsyncWebClient, *, blocks_: list[Json] | None = None, view: Json | None = None
) -> None:
    try:
        if view is None:
            await call_repeatable(lambda: client.blocks_validate(blocks=blocks_))
        else:
            await call_repeatable(lambda: client.blocks_validate(view=view))
    except SlackRefused as refused:
        if refused.error not in ("unknown_method", "method_deprecated", "not_allowed_token_type"):
            raise


async def _edit(client: AsyncWebClient, channel: str, ts: str) -> None:
    text, made = blocks.build_message(_build_card(long=False, ended=True), _COPY)
    await call_repeatable(
        lambda: client.chat_update(channel=channel, ts=ts, text=text, blocks=made)
    )


async def _attach(
    client: AsyncWebClient, place: SlackPlace, session: aiohttp.ClientSession
) -> None:
    content = full_view(_build_record(long=True)).text.encode()
    file = await upload_file(client, session, place, content, name="sample.txt", title="Sample")
    # Deleting the card alone would leave the file in its thread.
    await call_repeatable(lambda: client.files_delete(file=file))


async def _delete(client: AsyncWebClient, channel: str, ts: str) -> None:
    try:
        await call_repeatable(lambda: client.chat_delete(channel=channel, ts=ts))
    except DeliveryFailed as failure:
        raise DeliveryFailed(f"the sample card is still there: {failure}") from failure


def _build_card(*, long: bool, ended: bool = False) -> Card:
    record = _build_record(long=long)
    if ended:
        record = replace(record, status=Status.CANCELLED, revision=2)
    return card_of(record, lines=CARD_LINES, chars=CARD_CHARS)


def _build_record(*, long: bool) -> Record:
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
