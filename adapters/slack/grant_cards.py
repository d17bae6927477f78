"""Cards of remembered decisions (grants): layout, posting and editing."""

from __future__ import annotations

from adapters.slack.card_blocks import (
    build_thread_note,
    button,
    context,
    escape,
    exact,
    fit,
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
from adapters.slack.payloads import Act, Json, build_ref, read_place
from adapters.slack.posting import CardPosting, edit_message, post_message
from gateway.ports import GrantCard, MessageRef, Notice, Urgency

_WORDS_UNITS = 900
_FACT_UNITS = 120


class SlackGrantPosting:
    """Posts and edits grant cards. Raises only errors that `gateway.ports.outgoing` names."""

    def __init__(self, posts: CardPosting) -> None:
        self._posts = posts

    async def deliver(self, target: str, card: GrantCard, nonce: str) -> MessageRef:
        """Post a card. It is not sent again when Slack does not respond."""
        workspace, place = await self._posts.find_open_place(target)
        text, made = build_grant_message(card, nonce)
        async with self._posts.turn(place, nonce):
            answer = await post_message(workspace, place.channel, text, made, thread=place.thread)
        return build_ref(workspace.team, str(answer["channel"]), str(answer["ts"]))

    async def update(self, ref: MessageRef, card: GrantCard, nonce: str) -> None:
        """Edit a posted card."""
        workspace, _ = await self._posts.find_place(ref.channel)
        rank = (Urgency.ENDED if card.ended else Urgency.OTHER).rank(card.ended_at or 0)
        async with self._posts.edit_turn(workspace, nonce, rank):
            await edit_message(workspace, ref, *build_grant_message(card, nonce))

    async def announce(self, notice: Notice, card: GrantCard) -> None:
        """Reply to the card with its news, because edits notify nobody."""
        if notice.ref is None:
            return
        workspace, place = await self._posts.find_place(notice.ref.channel)
        news = card.outcome or " ".join(card.notices)
        said = fit(one_line(f"{card.title}: {news}"), 600)
        thread = read_place(notice.ref.channel).thread or notice.ref.message
        async with self._posts.turn(place, f"grant {notice.nonce} {card.revision}"):
            await post_message(
                workspace, place.channel, escape(said), build_thread_note(said), thread=thread
            )


def build_grant_message(card: GrantCard, copy: str) -> tuple[str, list[Json]]:
    """Return the top-level text and the blocks of a card."""
    blocks = [header(card.title)]
    if card.outcome:
        blocks.append(section(plain(card.outcome[:1].upper() + card.outcome[1:])))
    if card.ended_at is not None:
        blocks.append(context(ours(moment(card.ended_at))))
    facts = [(one.label, fit(one_line(one.text.text), _FACT_UNITS)) for one in card.facts]
    said = fit(one_line(card.words.text), _WORDS_UNITS)
    covers = {"type": "rich_text_quote", "elements": [words(said)]}
    parts = [label_pairs(facts), label("What it covers"), covers]
    if card.asked is not None:
        parts += [label("Made from"), exact(fit(card.asked.text, _WORDS_UNITS))]
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
    return render_notification(card.summary), blocks


def render_end(card: GrantCard) -> str:
    """Return until when it holds; for `ours` only."""
    if card.ended:
        return "Over"
    return f"Until {moment(card.until)}" if card.until else "Until revoked"
