"""A batch in a modal: each of its requests whole, answered one by one, or all at once where all of
them were read there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from adapters.slack.cards import (
    CARD_CHARS,
    TextBudget,
    build_actions,
    button,
    choose_above,
    context,
    label_pairs,
    line,
    lines,
    list_notices,
    one_line,
    plain,
    render_above,
    render_blocks,
    render_findings,
    render_head,
    render_risk,
    rich,
    row,
    section,
    words,
)
from adapters.slack.modals import build_modal, build_notice
from adapters.slack.payloads import BATCH_VIEW, NO_COPY, Act, Interaction, Json, ModalMetadata
from adapters.slack.users_and_rights import Rights
from adapters.slack.web_api import Workspace
from gateway.cards.batch_cards import BatchCard, batch_card_of, named_facts
from gateway.cards.card import Card, leads_to_inbox
from gateway.cards.summary import plain_head
from gateway.errors import BatchRefused, Conflict, InvalidRequest
from gateway.models import Action
from gateway.ports import Click, Desk, Worklist

BATCH_CHARS = 9000
_ITEM_UNITS = 900
_SEEN_SECONDS = 3600.0
_ACTIONS = {Act.BATCH_APPROVE: Action.APPROVE, Act.BATCH_DENY: Action.DENY}


class BatchModals:
    """Shows the batch of a request, and answers all of it at once."""

    def __init__(self, desk: Desk, rights: Rights, worklist: Worklist) -> None:
        self._desk = desk
        self._rights = rights
        self._worklist = worklist

    async def count(self, workspace: Workspace, did: Interaction, request_id: str) -> int:
        """Return how many requests of this batch wait for the person."""
        identity = await self._rights.identify_caller(workspace, did.actor)
        record = await self._desk.requests.get(request_id)
        return len(await self._worklist.list_batch(identity, record))

    async def build(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata, told: str = ""
    ) -> Json:
        """Return the modal of the batch, as it stands now, below what came of the last tap."""
        identity = await self._rights.identify_caller(workspace, did.actor)
        record = await self._desk.requests.get(form.request_id)
        found = await self._worklist.list_batch(identity, record)
        if not found:
            return build_notice("Several requests", told or "None of them waits any more.")
        person = await self._desk.requests.person(identity)
        reader = person.name if person else identity.written
        batch = batch_card_of(found, chars=BATCH_CHARS, each=CARD_CHARS, reader=reader)
        batch = replace(batch, items=tuple(map(self._lead_on, batch.items)))
        seen = [[card.request_id, card.revision] for card in batch.items]
        kept = {"seen": seen, "together": batch.together}
        await self._desk.notes.put(_key(did.nonce), json.dumps(kept), seconds=_SEEN_SECONDS)
        return build_batch(batch, replace(form, kept=did.nonce), told)

    def _lead_on(self, card: Card) -> Card:
        """Return the card with where it is answered, if Slack cannot."""
        leads = leads_to_inbox(card)
        return replace(card, inbox=self._desk.address_of(card.request_id) if leads else "")

    async def decide(self, workspace: Workspace, did: Interaction, form: ModalMetadata) -> str:
        """Answer all that the modal showed, or none of it; return what came of it."""
        text = await self._desk.notes.get(_key(form.kept))
        if text is None:
            raise Conflict("this was left open for too long; open it again")
        kept: dict[str, Any] = json.loads(text)
        action = _ACTIONS[Act(did.act)]
        if not kept["together"] and action is Action.APPROVE:
            raise InvalidRequest("not all of them can be read here: answer each")
        identity = await self._rights.identify_caller(workspace, did.actor)
        clicks = [
            Click(
                request_id=request_id,
                revision=revision,
                identity=identity,
                action=action,
                nonce=did.nonce,
            )
            for request_id, revision in kept["seen"]
        ]
        try:
            done = await self._desk.requests.decide_all(clicks)
        except BatchRefused as refused:
            return str(refused)
        return f"All {len(done)} are {done[0].status.value}."


def build_batch(batch: BatchCard, form: ModalMetadata, told: str = "") -> Json:
    """Return the modal of a batch."""
    blocks: list[Json] = [rich("title", [line(words(one_line(batch.title.text), bold=True))])]
    if told:
        blocks.append(section(plain(told[:1].upper() + told[1:])))
    for number, card in enumerate(batch.items):
        blocks += _render_item(card, number)
    if batch.more:
        blocks.append(context(plain(f"{batch.more} more do not fit here: open each alone.")))
    if batch.deniable:
        value = form.button.encode()
        more = bool(batch.more)
        all_row = _build_all_row(batch.items, value, approves=batch.together, more=more)
        blocks += [{"type": "divider"}, all_row]
        if not batch.together:
            said = "Not all may be approved at once: decide each by itself."
            blocks.append(context(plain(said)))
    return build_modal("Several requests", blocks, form=form, kind=BATCH_VIEW)


def _build_all_row(cards: Sequence[Card], value: str, *, approves: bool, more: bool) -> Json:
    """Return the buttons that answer all of these at once; not all may be approved so. With `more`
    there are others that are not shown."""
    count, heads = len(cards), "; ".join(plain_head(card.head) for card in cards)
    confirm = (heads, "Approve all")
    approve = button(
        f"Approve all {count}", Act.BATCH_APPROVE, value, style="primary", confirm=confirm
    )
    every = f"Deny {'these' if more else 'all'} {count}"
    deny = button(every, Act.BATCH_DENY, value, style="danger")
    return row("all", *((approve,) if approves else ()), deny)


def _render_item(card: Card, number: int) -> Iterator[Json]:
    """Yield one request: its head, what was found, exactly what runs, its answers."""
    budget = TextBudget(_ITEM_UNITS)
    yield {"type": "divider"}
    above = choose_above(card)
    yield {**render_head(card, budget), "block_id": f"head {number}"}
    yield from render_above(card, above, budget)
    facts = [(fact.label, one_line(fact.text.text)) for fact in named_facts(card)]
    yield rich(f"body {number}", [*render_blocks(card), label_pairs(facts)])
    yield from render_findings(card, above, budget)
    yield from render_risk(card, above, budget)
    told = [f"⚠️ {one}" for one in list_notices(card)]
    told += [text for text in (card.progress, card.claimed) if text]
    if told:
        yield lines(budget.take(one_line(one), _ITEM_UNITS) for one in told)
    yield build_actions(card, NO_COPY, block_id=f"actions {number}")


def _key(name: str) -> str:
    return f"batch {name}"
