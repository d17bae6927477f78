"""The card of a remembered decision in Slack, and how it is posted, edited and announced."""

from __future__ import annotations

from adapters.slack.card_blocks import Act, notification, thread_note
from adapters.slack.payloads import place_of, reference
from adapters.slack.posting import Posts, edited, posted
from adapters.slack.text_objects import (
    Json,
    button,
    context,
    escaped,
    exact,
    fitted,
    header,
    label,
    labelled,
    moment,
    one_line,
    ours,
    plain,
    rich,
    row,
    section,
    words,
)
from gateway.ports import GrantCard, MessageRef, Notice

_WORDS_UNITS = 900
_FACT_UNITS = 120


class GrantPosts:
    """Delivers, updates and announces. Raises only what `gateway.ports.outgoing` names."""

    def __init__(self, posts: Posts) -> None:
        self._posts = posts

    async def deliver(self, target: str, card: GrantCard, nonce: str) -> MessageRef:
        """Post a card; it is never sent again when no answer came."""
        workspace, place = await self._posts.place(target)
        text, made = message(card, nonce)
        async with self._posts.turn(place, nonce):
            answer = await posted(workspace, place.channel, text, made, thread=place.thread)
        return reference(workspace.team, str(answer["channel"]), str(answer["ts"]))

    async def update(self, ref: MessageRef, card: GrantCard, nonce: str) -> None:
        """Have a posted copy show this card."""
        workspace, _ = await self._posts.place(ref.channel)
        await self._posts.edit_slot(workspace, nonce, decided=False)
        await edited(workspace, ref, *message(card, nonce))

    async def announce(self, notice: Notice, card: GrantCard) -> None:
        """Say beside a copy what its card says newly: edits ring no bell."""
        if notice.ref is None:
            return
        workspace, place = await self._posts.place(notice.ref.channel)
        news = card.outcome or " ".join(card.notices)
        said = fitted(one_line(f"{card.title}: {news}"), 600)
        thread = place_of(notice.ref.channel).thread or notice.ref.message
        async with self._posts.turn(place, f"grant {notice.nonce} {card.revision}"):
            await posted(workspace, place.channel, escaped(said), thread_note(said), thread=thread)


def message(card: GrantCard, copy: str) -> tuple[str, list[Json]]:
    """Return the top-level text and the blocks of a card."""
    blocks = [header(card.title)]
    if card.outcome:
        blocks.append(section(plain(card.outcome[:1].upper() + card.outcome[1:])))
    if card.ended_at is not None:
        blocks.append(context(ours(moment(card.ended_at))))
    facts = [(one.label, fitted(one_line(one.text.text), _FACT_UNITS)) for one in card.facts]
    said = fitted(one_line(card.words.text), _WORDS_UNITS)
    covers = {"type": "rich_text_quote", "elements": [words(said)]}
    parts = [labelled(facts), label("What it covers"), covers]
    if card.asked is not None:
        parts += [label("Made from"), exact(fitted(card.asked.text, _WORDS_UNITS))]
    blocks.append(rich("body", parts))
    if card.notices:
        blocks.append(context(*(plain(f"⚠️ {notice}") for notice in card.notices)))
    if card.reach:
        blocks.append(context(plain(card.reach)))
    blocks.append(context(ours(ends(card)), plain(f"{card.uses} · {card.short_id}")))
    if card.confirm:
        value = f"{card.grant_id} {copy}"
        confirm = (card.confirm, "Revoke")
        take_back = button("Revoke", Act.REVOKE, value, style="danger", confirm=confirm)
        blocks.append(row("actions", take_back))
    return notification(card.summary), blocks


def ends(card: GrantCard) -> str:
    """Say until when it holds, or how it was used; for `ours` alone."""
    if card.ended:
        return "Over"
    return f"Until {moment(card.until)}" if card.until else "Until revoked"
