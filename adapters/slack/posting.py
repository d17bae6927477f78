"""Posts cards, edits them and says short things beside them: the courier's hands at Slack."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from adapters.slack import card_blocks as blocks
from adapters.slack.card_blocks import FullText, escape, fit, one_line, ours, section
from adapters.slack.group_cards import build_group_message
from adapters.slack.payloads import Json, Malformed, SlackPlace, build_ref, read_place
from adapters.slack.shared_channels import SharedChannels
from adapters.slack.uploads import Uploads
from adapters.slack.workspaces_and_web_api import (
    NotInstalled,
    SlackFailed,
    SlackRefused,
    TokenRefused,
    Workspace,
    Workspaces,
    call_once,
    call_repeatable,
)
from gateway.ports import (
    Card,
    CopyGone,
    DeliveryFailed,
    DeliveryUncertain,
    GroupCard,
    MessageRef,
    Notes,
    Notice,
    NoticeKind,
    Pace,
    Rate,
    RetryLater,
    Urgency,
)

# Slack's tier 3 is 50 in any minute, all at once if need be; two of them, and more than a second,
# are for calls that take longer than others to arrive. Edits that take no buttons away leave room
# for those that do. A channel takes one post a second, with bursts.
UPDATES = Rate(48, 61.5)
_LEFT = 16
POSTS = Rate(3, 3.1)
_CHECKS = Rate(90, 61.5)  # Slack allows hundreds a minute
_AGAIN_SECONDS = 1.0
_NOTE_SECONDS = 40 * 24 * 3600.0
# Slack says that the message is not there, or can never be changed. What is about the channel or
# the app (archived, not in it, a private one that is not found) may come back.
_DELETED = "message_not_found"
_GONE = {_DELETED, "cant_update_message", "edit_window_closed"}
_MENTION = re.compile(r"[UWS][A-Z0-9]{1,31}")
_MOST_MENTIONS = 20


RankOf = Callable[[MessageRef, Card], Awaitable[int]]
"""Says how urgent an edit of a posted card is: those of the lowest rank come first."""


class CardPosting:
    """Posts and edits cards. Raises only errors that `gateway.ports.outgoing` names."""

    def __init__(
        self,
        workspaces: Workspaces,
        notes: Notes,
        pace: Pace,
        uploads: Uploads,
        rank: RankOf,
        shared: SharedChannels,
        address_of: Callable[[str], str],
    ) -> None:
        self._address_of = address_of
        self._shared = shared
        self._rank = rank
        self._workspaces = workspaces
        self._notes = notes
        self._pace = pace
        self._uploads = uploads

    async def deliver(self, target: str, card: Card, nonce: str) -> MessageRef:
        """Post a card. It is sent once more when Slack answers that it failed, and not again when
        Slack does not answer. One too many, which no click counts on, is better than none.
        """
        workspace, place = await self.find_open_place(target)
        made = blocks.build_message(card, nonce, called=mention_people(workspace.team, card))
        ref = await self._post(workspace, place, card, nonce, *made)
        if not card.complete:
            await self._attach(workspace, ref, card, nonce)
        return ref

    async def deliver_group(self, target: str, group: GroupCard, nonce: str) -> MessageRef:
        """Post the card of a group, as `deliver` posts one."""
        workspace, place = await self.find_open_place(target)
        made = self._build_group(workspace, group, nonce)
        return await self._post(workspace, place, group.items[0], nonce, *made)

    async def _post(
        self,
        workspace: Workspace,
        place: SlackPlace,
        card: Card,
        nonce: str,
        text: str,
        made: list[Json],
    ) -> MessageRef:
        about = {"event_type": "approval", "event_payload": {"request": card.request_id}}

        async def send() -> Json:
            thread, channel = place.thread, place.channel
            return await post_message(
                workspace, channel, text, made, thread=thread, mrkdwn=False, metadata=about
            )

        async with self.turn(place, nonce, rank=card.created, about=card.request_id):
            try:
                answer = await send()
            except SlackFailed:
                answer = await _send_again(send)
        ref = build_ref(workspace.team, str(answer["channel"]), str(answer["ts"]))
        if place.thread:
            await self._notes.put(_thread_note(ref), place.thread, seconds=_NOTE_SECONDS)
        return ref

    @staticmethod
    def _build_group(workspace: Workspace, group: GroupCard, nonce: str) -> tuple[str, list[Json]]:
        called = _build_mentions(workspace.team, group.calls)
        return build_group_message(group, nonce, partial(mention_people, workspace.team), called)

    async def _attach(self, workspace: Workspace, ref: MessageRef, card: Card, nonce: str) -> None:
        """Attach the full text and mention it on the card. Failures leave the card as posted."""
        full = await self._uploads.attach(workspace, ref, card, await self._thread(ref))
        try:
            async with self.edit_turn(workspace, nonce, Urgency.ENDED.rank(card.created)):
                await self._edit(workspace, ref, card, nonce, full)
        except DeliveryFailed:
            return

    async def _thread(self, ref: MessageRef) -> str:
        """Return the thread for replies to a copy: the one it is in, or its own."""
        return await self._notes.get(_thread_note(ref)) or ref.message

    async def update(self, ref: MessageRef, card: Card, nonce: str) -> None:
        """Edit a posted card."""
        workspace, _ = await self.find_place(ref.channel)
        async with self.edit_turn(workspace, nonce, await self._rank(ref, card)):
            full = FullText.FITS
            if not card.complete and not card.final:
                full = await self._uploads.attach(workspace, ref, card, await self._thread(ref))
            await self._edit(workspace, ref, card, nonce, full)
        await self._note_progress(workspace, ref, card)

    async def update_group(self, ref: MessageRef, group: GroupCard, nonce: str) -> None:
        """Edit the posted card of a group."""
        workspace, _ = await self.find_place(ref.channel)
        async with self.edit_turn(workspace, nonce, await self._rank(ref, group.newest)):
            await edit_message(workspace, ref, *self._build_group(workspace, group, nonce))
        for card in group.items:
            await self._note_progress(workspace, ref, card)

    async def check_copy(self, ref: MessageRef) -> None:
        """Ask Slack, which tells nobody of deleted messages, whether a copy is still there. Any
        token may ask for the address of a message."""
        workspace, place = await self.find_place(ref.channel)
        name = f"{ref.channel} {ref.message}"
        async with self._pace.slot(f"check {workspace.team}", _CHECKS, name, rank=0):
            with _tell_gone():
                await call_repeatable(
                    lambda: workspace.client.chat_getPermalink(
                        channel=place.channel, message_ts=ref.message
                    )
                )

    async def _edit(
        self, workspace: Workspace, ref: MessageRef, card: Card, nonce: str, full: FullText
    ) -> None:
        if full is FullText.MISSING:
            card = replace(card, inbox=self._address_of(card.request_id))
        text, made = blocks.build_message(card, nonce, full, mention_people(workspace.team, card))
        await edit_message(workspace, ref, text, made)

    async def _note_progress(self, workspace: Workspace, ref: MessageRef, card: Card) -> None:
        """Post votes and the agent's report in the thread, each once: edits notify nobody."""
        news: dict[str, str] = {}
        if card.result is not None:
            news["result"] = f"{card.tool.text}: {card.result.text}"
        if not card.final and card.progress and not card.progress.startswith("0 "):
            news["votes"] = card.progress
        for about, text in news.items():
            said = fit(one_line(text), 600)
            key = f"said {ref.channel} {ref.message} {about} {said}"[:200]
            if await self._notes.put_new(key, "1", seconds=_NOTE_SECONDS):
                await self._reply(workspace, ref, said, blocks.build_thread_note(said))

    async def tell(self, notice: Notice, card: Card) -> None:
        """Post a reminder in a card's thread, or an outcome to a target."""
        workspace, place = await self.find_open_place(notice.target)
        async with self.turn(place, notice.nonce, rank=card.created, about=card.request_id):
            if notice.kind is NoticeKind.REMINDER and notice.ref is not None:
                lead = _build_mentions(workspace.team, notice.mentions)
                said = f"{lead} This still waits for an answer.".strip()
                await self._reply(workspace, notice.ref, said, [section(ours(said))])
                return
            full = f"{card.title}: {_describe_outcome(card)}"
            said = fit(one_line(card.summary if notice.discreet else full), 900)
            note = blocks.build_thread_note(said)
            await post_message(workspace, place.channel, escape(said), note, thread=place.thread)

    async def _reply(
        self, workspace: Workspace, ref: MessageRef, text: str, made: list[Json]
    ) -> None:
        channel, thread = read_place(ref.channel).channel, await self._thread(ref)
        top = text if made and made[0]["type"] == "section" else escape(text)
        try:
            await post_message(workspace, channel, top, made, thread=thread)
        except (RetryLater, DeliveryUncertain, SlackRefused):
            # Replies are optional: the card says the same.
            return

    def turn(
        self, place: SlackPlace, nonce: str, *, rank: int = 0, about: str = ""
    ) -> AbstractAsyncContextManager[None]:
        """Hold a turn to post to a channel and its threads, lowest rank first."""
        return self._pace.turn(_posts_of(place), POSTS, nonce, rank=rank, about=about)

    async def withdraw(self, target: str, nonce: str) -> None:
        """Leave the line of a channel."""
        await self._pace.leave(_posts_of(read_place(target)), POSTS, nonce)

    def edit_turn(
        self, workspace: Workspace, name: str, rank: int
    ) -> AbstractAsyncContextManager[None]:
        """Edit a message of a workspace in its turn. Entering raises RetryLater."""
        leave = _LEFT if rank >= Urgency.OTHER.rank(0) else 0
        budget = f"update {workspace.team}"
        return self._pace.slot(budget, UPDATES, name, rank=rank, leave=leave)

    async def find_open_place(self, target: str) -> tuple[Workspace, SlackPlace]:
        """Return the workspace and channel of a target that may be posted to: no other organisation
        reads there, or the target allows it. Raises DeliveryFailed, RetryLater."""
        workspace, place = await self.find_place(target)
        await self._shared.refuse_outsiders(workspace, place)
        return workspace, place

    async def find_place(self, target: str) -> tuple[Workspace, SlackPlace]:
        """Return the workspace and channel of a target. Raises DeliveryFailed, RetryLater."""
        try:
            place = read_place(target)
            return await self._workspaces.find(place.team), place
        except (Malformed, NotInstalled, TokenRefused) as error:
            raise DeliveryFailed(str(error)) from error


async def post_message(
    workspace: Workspace,
    channel: str,
    text: str,
    made: list[Json],
    *,
    thread: str = "",
    **more: Any,
) -> Json:
    """Post a message, in a thread if one is named, without link previews."""
    answer: Json = await call_once(
        lambda: workspace.client.chat_postMessage(
            channel=channel,
            thread_ts=thread or None,
            text=text,
            blocks=made,
            unfurl_links=False,
            unfurl_media=False,
            **more,
        )
    )
    return answer


async def edit_message(workspace: Workspace, ref: MessageRef, text: str, made: list[Json]) -> None:
    """Edit a posted message. Raises CopyGone when it is gone or can never be edited."""
    channel = read_place(ref.channel).channel
    with _tell_gone():
        await call_repeatable(
            lambda: workspace.client.chat_update(
                channel=channel, ts=ref.message, text=text, blocks=made
            )
        )


@contextmanager
def _tell_gone() -> Iterator[None]:
    """Raise CopyGone where Slack refuses because a message is gone or can never be edited."""
    try:
        yield
    except SlackRefused as refused:
        if refused.error in _GONE:
            raise CopyGone(str(refused), deleted=refused.error == _DELETED) from refused
        raise


async def _send_again(send: Callable[[], Awaitable[Json]]) -> Json:
    """Send what Slack failed at once more. Raises DeliveryFailed when it fails again."""
    await asyncio.sleep(_AGAIN_SECONDS)
    try:
        return await send()
    except SlackFailed as lasting:
        raise DeliveryFailed(f"{lasting}, twice") from lasting


def _posts_of(place: SlackPlace) -> str:
    """Return the budget of posts to a channel and its threads."""
    return f"post {place.team}/{place.channel}"


def _thread_note(ref: MessageRef) -> str:
    return f"thread {ref.channel} {ref.message}"


def mention_people(team: str, card: Card) -> str:
    """Return mentions of those whom a card calls, or who decided it. Edits notify nobody."""
    return _build_mentions(team, card.deciders if card.final else card.calls)


def _build_mentions(team: str, wanted: tuple[str, ...]) -> str:
    """Return mentions of people and groups of this workspace, by id."""
    found = []
    for one in wanted:
        place, _, name = one.partition("/")
        if place == team and _MENTION.fullmatch(name):
            found.append(f"<!subteam^{name}>" if name[0] == "S" else f"<@{name}>")
    return " ".join(found[:_MOST_MENTIONS])


def _describe_outcome(card: Card) -> str:
    said = card.outcome.text if card.outcome else card.word
    return f"{said}. {card.result.text}" if card.result else said
