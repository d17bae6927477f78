"""Post and edit cards of requests and grants, and reply privately to clicks; start with
CardPosting."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from adapters.slack import cards as blocks
from adapters.slack import modals
from adapters.slack.cards import (
    CARD_CHARS,
    CARD_LINES,
    FullText,
    build_message,
    build_thread_note,
    button,
    context,
    escape,
    exact,
    header,
    label,
    label_pairs,
    moment,
    one_line,
    ours,
    plain,
    render_notices,
    render_notification,
    rich,
    row,
    section,
    words,
)
from adapters.slack.payloads import (
    PLATFORM,
    Act,
    Interaction,
    Json,
    Malformed,
    SlackPlace,
    build_ref,
    read_place,
)
from adapters.slack.users_and_rights import SharedChannels
from adapters.slack.web_api import (
    NotInstalled,
    SlackFailed,
    SlackRefused,
    TokenRefused,
    Uploads,
    Workspace,
    Workspaces,
    call_once,
    call_repeatable,
)
from gateway.cards.card import Card
from gateway.cards.grant_cards import GrantCard
from gateway.cards.shared_texts import clip
from gateway.cards.summary import plain_summary
from gateway.chat.answering import Answering
from gateway.ports import (
    AdapterApi,
    AdapterStorage,
    CopyGone,
    DeliveryFailed,
    DeliveryUncertain,
    MessageRef,
    Notice,
    NoticeKind,
    Priority,
    Rate,
    RateLimiter,
    RetryLater,
    StoredRequest,
    rank_edit,
)

# Slack's tier 3 allows 50 calls in any minute, in bursts too. Two calls and 1.5 seconds are a
# margin for calls that arrive late. Edits that keep buttons leave room for edits that remove them.
# A channel accepts one post a second, with bursts.
UPDATES = Rate(48, 61.5)
_LEFT = 16
POSTS = Rate(3, 3.1)
_CHECKS = Rate(90, 61.5)  # Slack allows hundreds a minute
_AGAIN_SECONDS = 1.0
_NOTE_SECONDS = 40 * 24 * 3600.0
# Only these errors are final: the message is deleted, or can never be edited. Errors about the
# channel or the app (archived, not a member, private channel not found) can go away.
_DELETED = "message_not_found"
_GONE = {_DELETED, "cant_update_message", "edit_window_closed"}
_TS = re.compile(r"[0-9]{1,12}\.[0-9]{6}")
_MENTION = re.compile(r"[UWS][A-Z0-9]{1,31}")
_MOST_MENTIONS = 20


RankOf = Callable[[MessageRef, Card], Awaitable[int]]
"""Returns the rank of an edit of a posted card; the lowest rank is the most urgent."""


class CardPosting:
    """Posts and edits cards. Raises only errors that `gateway.ports.outgoing` defines."""

    def __init__(
        self,
        workspaces: Workspaces,
        notes: AdapterStorage,
        pace: RateLimiter,
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
        """Post a card. If Slack reports a failure, send it once more; a duplicate card does no
        harm. If Slack does not answer, do not send it again.
        """
        workspace, place = await self.find_card_place(target)
        text, made = blocks.build_message(card, nonce, called=mention_people(workspace.team, card))
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
        if not card.complete:
            await self._attach(workspace, ref, card, nonce)
        return ref

    async def _attach(self, workspace: Workspace, ref: MessageRef, card: Card, nonce: str) -> None:
        """Attach the full text, and add a notice of it to the card. A failure changes nothing."""
        full = await self._uploads.attach(workspace, ref, card, await self._thread(ref))
        try:
            async with self.edit_turn(workspace, nonce, Priority.ENDED.rank(card.created)):
                await self._edit(workspace, ref, card, nonce, full)
        except DeliveryFailed:
            return

    async def _thread(self, ref: MessageRef) -> str:
        """Return the thread for replies to a message: its thread, or the message itself."""
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

    async def check_copy(self, ref: MessageRef) -> None:
        """Check whether a posted message still exists, because Slack reports no deletions. Raises
        CopyGone if not. It asks for the permalink, which every token may do."""
        workspace, place = await self.find_place(ref.channel)
        name = f"{ref.channel} {ref.message}"
        async with self._pace.slot(f"check {workspace.team}", _CHECKS, name, rank=0):
            with _tell_gone():
                await call_repeatable(
                    lambda: workspace.client.chat_getPermalink(
                        channel=place.channel, message_ts=ref.message
                    )
                )

    async def link(self, target: str, ref: MessageRef) -> str:
        """Return the archive address of a message, or "" for a malformed id. Raises DeliveryFailed
        for a workspace without the app."""
        if not _TS.fullmatch(ref.message):
            return ""
        workspace, place = await self.find_place(ref.channel)
        thread = read_place(target).thread or place.thread
        url = f"{workspace.url}archives/{place.channel}/p{ref.message.replace('.', '')}"
        return f"{url}?thread_ts={thread}&cid={place.channel}" if thread else url

    async def _edit(
        self, workspace: Workspace, ref: MessageRef, card: Card, nonce: str, full: FullText
    ) -> None:
        if full is FullText.MISSING:
            card = replace(card, inbox=self._address_of(card.request_id))
        text, made = blocks.build_message(card, nonce, full, mention_people(workspace.team, card))
        await edit_message(workspace, ref, text, made)

    async def _note_progress(self, workspace: Workspace, ref: MessageRef, card: Card) -> None:
        """Post votes and the agent's result in the thread, each once: edits notify nobody."""
        news: dict[str, str] = {}
        if card.result is not None:
            news["result"] = f"{card.tool.text}: {card.result.text}"
        if not card.final and card.progress and not card.progress.startswith("0 "):
            news["votes"] = card.progress
        for about, text in news.items():
            said = clip(one_line(text), 600)
            key = f"said {ref.channel} {ref.message} {about} {said}"[:200]
            if await self._notes.put_new(key, "1", seconds=_NOTE_SECONDS):
                await self._reply(workspace, ref, said, blocks.build_thread_note(said))

    async def tell(self, notice: Notice, card: Card) -> None:
        """Post a reminder in a card's thread, or an outcome to a target."""
        workspace, place = await self.find_open_place(notice.target)
        async with self.turn(place, notice.nonce, rank=card.created, about=card.request_id):
            if notice.kind is NoticeKind.REMINDER and notice.ref is not None:
                lead = _build_mentions(workspace.team, notice.mentions)
                said = f"{lead} Still pending, until {moment(card.deadline)}.".strip()
                what = card.notification if notice.discreet else plain_summary(card.summary)
                more = clip(one_line(f"{what} {notice.deciders}"), 900)
                made = [section(ours(said)), context(plain(more))]
                await self._reply(workspace, notice.ref, f"{said} {escape(more)}", made)
                return
            full = f"{card.title}: {_describe_outcome(card)}"
            said = clip(one_line(card.notification if notice.discreet else full), 900)
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
            # Replies are optional: the card shows the same.
            return

    def turn(
        self, place: SlackPlace, nonce: str, *, rank: int = 0, about: str = ""
    ) -> AbstractAsyncContextManager[None]:
        """Hold a turn to post to a channel and its threads, lowest rank first."""
        return self._pace.turn(_posts_of(place), POSTS, nonce, rank=rank, about=about)

    def edit_turn(
        self, workspace: Workspace, name: str, rank: int
    ) -> AbstractAsyncContextManager[None]:
        """Hold a turn to edit a message of a workspace. Entering raises RetryLater."""
        leave = _LEFT if rank >= Priority.OTHER.rank(0) else 0
        budget = f"update {workspace.team}"
        return self._pace.slot(budget, UPDATES, name, rank=rank, leave=leave)

    async def find_open_place(self, target: str) -> tuple[Workspace, SlackPlace]:
        """Return the workspace and channel of a target. Raises RetryLater, and DeliveryFailed also
        if another organisation reads there and the target does not allow that. A place that an
        agent named must be an open channel, too."""
        workspace, place = await self.find_place(target)
        await self._shared.refuse_outsiders(workspace, place)
        return workspace, place

    async def find_card_place(self, target: str) -> tuple[Workspace, SlackPlace]:
        """Return the workspace and channel for a new card. Raises as `find_open_place`, and
        DeliveryFailed if the first message of an agent's conversation was deleted."""
        workspace, place = await self.find_open_place(target)
        if place.origin and place.thread:
            # Slack may accept a reply to a deleted message, which nobody would see.
            try:
                await self.check_copy(build_ref(place.team, place.channel, place.thread))
            except CopyGone as gone:
                raise DeliveryFailed("the conversation's first message was deleted") from gone
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
    """Post a message without link previews, in `thread` if set; return Slack's answer."""
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
    """Edit a posted message. Raises CopyGone if it is deleted or can never be edited."""
    channel = read_place(ref.channel).channel
    with _tell_gone():
        await call_repeatable(
            lambda: workspace.client.chat_update(
                channel=channel, ts=ref.message, text=text, blocks=made
            )
        )


@contextmanager
def _tell_gone() -> Iterator[None]:
    """Turn Slack's final refusals into CopyGone: the message is deleted or cannot be edited."""
    try:
        yield
    except SlackRefused as refused:
        if refused.error in _GONE:
            raise CopyGone(str(refused), deleted=refused.error == _DELETED) from refused
        raise


async def _send_again(send: Callable[[], Awaitable[Json]]) -> Json:
    """Repeat a call after a failure of Slack. Raises DeliveryFailed if it fails again."""
    await asyncio.sleep(_AGAIN_SECONDS)
    try:
        return await send()
    except SlackFailed as lasting:
        raise DeliveryFailed(f"{lasting}; a second try failed too") from lasting


def _posts_of(place: SlackPlace) -> str:
    """Return the budget of posts to a channel and its threads."""
    return f"post {place.team}/{place.channel}"


def _thread_note(ref: MessageRef) -> str:
    return f"thread {ref.channel} {ref.message}"


def mention_people(team: str, card: Card) -> str:
    """Return mentions of the people who should decide a card, or who decided it."""
    return _build_mentions(team, card.deciders if card.final else card.calls)


def _build_mentions(team: str, wanted: tuple[str, ...]) -> str:
    """Return mentions of the people and groups that belong to this workspace."""
    found = []
    for one in wanted:
        place, _, name = one.partition("/")
        if place == team and _MENTION.fullmatch(name):
            found.append(f"<!subteam^{name}>" if name[0] == "S" else f"<@{name}>")
    return " ".join(found[:_MOST_MENTIONS])


def _describe_outcome(card: Card) -> str:
    said = card.outcome.text if card.outcome else card.word
    return f"{said}. {card.result.text}" if card.result else said


# Grant cards: layout, posting and editing.

_WORDS_UNITS = 900
_FACT_UNITS = 120


class SlackGrantPosting:
    """Posts and edits grant cards. Raises only errors that `gateway.ports.outgoing` defines."""

    def __init__(self, posts: CardPosting) -> None:
        self._posts = posts

    async def deliver(self, target: str, card: GrantCard, nonce: str) -> MessageRef:
        """Post a card. If Slack does not answer, do not send it again."""
        workspace, place = await self._posts.find_card_place(target)
        text, made = build_grant_message(card, nonce)
        async with self._posts.turn(place, nonce):
            answer = await post_message(workspace, place.channel, text, made, thread=place.thread)
        return build_ref(workspace.team, str(answer["channel"]), str(answer["ts"]))

    async def update(self, ref: MessageRef, card: GrantCard, nonce: str) -> None:
        """Edit a posted card."""
        workspace, _ = await self._posts.find_place(ref.channel)
        rank = (Priority.ENDED if card.ended else Priority.OTHER).rank(card.ended_at or 0)
        async with self._posts.edit_turn(workspace, nonce, rank):
            await edit_message(workspace, ref, *build_grant_message(card, nonce))

    async def announce(self, notice: Notice, card: GrantCard) -> None:
        """Reply to the card with its news, because edits notify nobody."""
        if notice.ref is None:
            return
        workspace, place = await self._posts.find_place(notice.ref.channel)
        news = card.outcome or " ".join(card.notices)
        said = clip(one_line(f"{card.title}: {news}"), 600)
        thread = read_place(notice.ref.channel).thread or notice.ref.message
        async with self._posts.turn(place, f"grant {notice.nonce} {card.revision}"):
            await post_message(
                workspace, place.channel, escape(said), build_thread_note(said), thread=thread
            )


def build_grant_message(card: GrantCard, copy: str) -> tuple[str, list[Json]]:
    """Build the top-level text and the blocks of a grant card."""
    blocks = [header(card.title)]
    if card.outcome:
        blocks.append(section(plain(card.outcome[:1].upper() + card.outcome[1:])))
    if card.ended_at is not None:
        blocks.append(context(ours(moment(card.ended_at))))
    facts = [(one.label, clip(one_line(one.text.text), _FACT_UNITS)) for one in card.facts]
    said = clip(one_line(card.words.text), _WORDS_UNITS)
    covers = {"type": "rich_text_quote", "elements": [words(said)]}
    parts = [label_pairs(facts), label("What it covers"), covers]
    if card.asked is not None:
        parts += [label("Made from"), exact(clip(card.asked.text, _WORDS_UNITS))]
    blocks.append(rich("body", parts))
    blocks += render_notices(card.notices)
    if card.reach:
        blocks.append(context(plain(card.reach)))
    blocks.append(context(ours(f"{render_end(card)} ·"), plain(f"{card.uses} · {card.short_id}")))
    if card.confirm:
        value = f"{card.grant_id} {copy}"
        confirm = (card.confirm, "Revoke")
        take_back = button("Revoke", Act.REVOKE, value, style="danger", confirm=confirm)
        blocks.append(row("actions", take_back))
    return render_notification(card.notification), blocks


def render_end(card: GrantCard) -> str:
    """Return when a grant ends. Use this only for messages for which `ours` is true."""
    if card.ended:
        return "Ended"
    return f"Until {moment(card.until)}" if card.until else "Until revoked"


# Private replies: in the person's open modal, or as a message that only they see.

log = logging.getLogger("adapters.slack")


class PrivateReply:
    """Replies to one interaction. `view_id` is the id of its open modal, or empty."""

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
        """Open a modal, on top of an open one if there is one; return False on failure."""
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
        """Replace the clicked message; return whether Slack accepted it."""
        return await self._by_response_url(
            {"replace_original": True, "text": text, "blocks": blocks}
        )

    async def tell(self, text: str, *, blocks: list[Json] | None = None) -> None:
        """Send a private text. Never raises, because the work itself is done."""
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


# The clicked card shows its outcome at once, even if other edits wait for Slack's rate limit.
#
# A click on a card includes an address that replaces its message without a rate limit. A decision
# in a modal has no such address, so the edit of its card gets the first rank. In both cases the
# outbox also edits the card later.

_CLICKED_CARDS_NOTE_SECONDS = 600.0
_FIRST, _SHOWN = "first", "shown"


class ClickedCards:
    """Replaces clicked cards at once, and ranks the edits that the outbox makes later."""

    def __init__(self, api: AdapterApi) -> None:
        self._notes = api.notes
        self._answering = Answering(api, PLATFORM, lines=CARD_LINES, chars=CARD_CHARS)

    async def expect(self, ref: MessageRef | None) -> None:
        """Give the edit that shows the outcome on this card the first rank. Call it before the
        decision."""
        if ref is not None:
            await self._notes.put(_name(ref), _FIRST, seconds=_CLICKED_CARDS_NOTE_SECONDS)

    async def show_end(self, did: Interaction, record: StoredRequest, reply: PrivateReply) -> bool:
        """Replace the clicked card by its outcome; return whether Slack accepted it.

        For a request that is still pending, do nothing and return True.
        """
        if did.ref is None or not record.final:
            return True
        card = await self._answering.build_posted(record)
        named = mention_people(did.actor.team, card)
        done = await reply.replace(*build_message(card, did.form().copy, called=named))
        await self._notes.put(
            _name(did.ref), _SHOWN if done else _FIRST, seconds=_CLICKED_CARDS_NOTE_SECONDS
        )
        return done

    async def show_grant_end(
        self, did: Interaction, card: GrantCard, copy: str, reply: PrivateReply
    ) -> None:
        """Replace the clicked card of a grant, if the grant ended."""
        if card.ended and copy:
            await reply.replace(*build_grant_message(card, copy))

    async def rank(self, ref: MessageRef, card: Card) -> int:
        """Return the rank of an edit: a clicked card is first, unless the click replaced it."""
        known = await self._notes.get(_name(ref)) if card.disarms else None
        if known is None:
            return rank_edit(card)
        return (Priority.CLICKED if known == _FIRST else Priority.OTHER).rank(card.decided_at or 0)


def _name(ref: MessageRef) -> str:
    return f"clicked {ref.channel} {ref.message}"
