"""Posts cards, edits them and says short things beside them: the courier's hands at Slack."""

from __future__ import annotations

import re
from typing import Any

from adapters.slack import blocks
from adapters.slack.blocks import FullText
from adapters.slack.calls import SlackRefused, asked, sent
from adapters.slack.pace import OTHER_UPDATES, POSTS, UPDATES, Pace
from adapters.slack.text import Json, escaped, fitted, one_line, ours, section
from adapters.slack.uploads import Uploads
from adapters.slack.values import Malformed, place_of, reference
from adapters.slack.workspaces import NotInstalled, Workspace, Workspaces
from gateway.cards import Card
from gateway.delivery import (
    CopyGone,
    DeliveryFailed,
    DeliveryUncertain,
    Notes,
    Notice,
    NoticeKind,
    TryLater,
)
from gateway.models import Status
from gateway.records import MessageRef

_NOTE_SECONDS = 40 * 24 * 3600.0
_LOCKED = {
    "message_not_found",
    "cant_update_message",
    "edit_window_closed",
    "is_inactive",
    "is_archived",
    "channel_not_found",
    "not_in_channel",
    "account_inactive",
}
_MENTION = re.compile(r"[UWS][A-Z0-9]{1,31}")
_MOST_MENTIONS = 20


class Posts:
    """Delivers, updates and tells. Raises only what `gateway.delivery` names."""

    def __init__(self, workspaces: Workspaces, notes: Notes, pace: Pace, uploads: Uploads) -> None:
        self._workspaces = workspaces
        self._notes = notes
        self._pace = pace
        self._uploads = uploads

    async def deliver(self, target: str, card: Card, nonce: str) -> MessageRef:
        """Post a card; it is never sent again when no answer came."""
        workspace, channel = await self._place(target)
        await self._pace.turn(f"post {target}", POSTS, nonce)
        text, made = blocks.message(card, nonce)
        answer = await sent(
            lambda: workspace.client.chat_postMessage(
                channel=channel,
                text=text,
                blocks=made,
                mrkdwn=False,
                unfurl_links=False,
                unfurl_media=False,
                metadata={"event_type": "approval", "event_payload": {"request": card.request_id}},
            )
        )
        ref = reference(workspace.team, str(answer["channel"]), str(answer["ts"]))
        if not card.complete:
            await self._attach(workspace, ref, card, nonce)
        return ref

    async def _attach(self, workspace: Workspace, ref: MessageRef, card: Card, nonce: str) -> None:
        """Attach the full text and say so on the card; the card is posted already, whatever
        happens."""
        full = await self._uploads.attach(workspace, ref, card)
        try:
            await self._edit(workspace, ref, card, nonce, full)
        except DeliveryFailed:
            return

    async def update(self, ref: MessageRef, card: Card, nonce: str) -> None:
        """Have a posted copy show this card."""
        workspace, _ = await self._place(ref.channel)
        decided = card.status in (Status.APPROVED, Status.DENIED)
        budget = f"update {workspace.team}"
        if not decided:
            await self._pace.turn(f"other {budget}", OTHER_UPDATES, nonce)
        await self._pace.turn(budget, UPDATES, nonce)
        full = FullText.FITS
        if not card.complete and not card.final:
            full = await self._uploads.attach(workspace, ref, card)
        await self._edit(workspace, ref, card, nonce, full)
        await self._note_progress(workspace, ref, card)

    async def _edit(
        self, workspace: Workspace, ref: MessageRef, card: Card, nonce: str, full: FullText
    ) -> None:
        text, made = blocks.message(card, nonce, full)
        _, channel = place_of(ref.channel)
        try:
            await asked(
                lambda: workspace.client.chat_update(
                    channel=channel, ts=ref.message, text=text, blocks=made
                )
            )
        except SlackRefused as refused:
            if refused.error in _LOCKED:
                raise CopyGone(str(refused)) from refused
            raise

    async def _note_progress(self, workspace: Workspace, ref: MessageRef, card: Card) -> None:
        """Reply in the thread to votes and to the agent's report, each once: edits ring no bell."""
        news: dict[str, str] = {}
        if card.result is not None:
            news["result"] = f"{card.tool.text} {card.result.text}"
        if not card.final and card.progress and not card.progress.startswith("0 "):
            news["votes"] = card.progress
        for about, text in news.items():
            said = fitted(one_line(text), 600)
            key = f"said {ref.channel} {ref.message} {about} {said}"[:200]
            if await self._notes.put_new(key, "1", seconds=_NOTE_SECONDS):
                await self._reply(workspace, ref, said, blocks.thread_note(said))

    async def tell(self, notice: Notice, card: Card) -> None:
        """Remind in a card's thread, or tell an outcome where it is wanted."""
        workspace, channel = await self._place(notice.target)
        name = f"{notice.kind} {notice.nonce} {card.revision}"
        await self._pace.turn(f"post {notice.target}", POSTS, name)
        if notice.kind is NoticeKind.REMINDER and notice.ref is not None:
            lead = " ".join(_mentions(workspace.team, notice.mentions))
            said = f"{lead} This still waits for an answer.".strip()
            await self._reply(workspace, notice.ref, said, [section(ours(said))])
            return
        said = fitted(one_line(f"{card.title}: {_ended(card)}"), 900)
        made = [*blocks.thread_note(said)]
        await sent(
            lambda: workspace.client.chat_postMessage(
                channel=channel, text=escaped(said), blocks=made, **_QUIET
            )
        )

    async def _reply(
        self, workspace: Workspace, ref: MessageRef, text: str, made: list[Json]
    ) -> None:
        _, channel = place_of(ref.channel)
        top = text if made and made[0]["type"] == "section" else escaped(text)
        try:
            await sent(
                lambda: workspace.client.chat_postMessage(
                    channel=channel, thread_ts=ref.message, text=top, blocks=made, **_QUIET
                )
            )
        except (TryLater, DeliveryUncertain, SlackRefused):
            # A reply is a courtesy: the card itself says the same.
            return

    async def _place(self, target: str) -> tuple[Workspace, str]:
        try:
            team, channel = place_of(target)
            return await self._workspaces.of(team), channel
        except (Malformed, NotInstalled) as error:
            raise DeliveryFailed(str(error)) from error


_QUIET: dict[str, Any] = {"unfurl_links": False, "unfurl_media": False}


def _mentions(team: str, wanted: tuple[str, ...]) -> list[str]:
    """Return mentions of the approvers of this workspace; ids only, never words."""
    found = []
    for one in wanted:
        place, _, name = one.partition("/")
        if place == team and _MENTION.fullmatch(name):
            found.append(f"<!subteam^{name}>" if name[0] == "S" else f"<@{name}>")
    return found[:_MOST_MENTIONS]


def _ended(card: Card) -> str:
    said = card.outcome.text if card.outcome else card.word
    return f"{said}; it {card.result.text}" if card.result else said
