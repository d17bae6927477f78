"""Several waiting requests of one group in a modal: each whole, answered one by one, or all at once
where all of them were read there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.slack.cards import (
    CARD_CHARS,
    EACH_ALONE,
    build_all_row,
    context,
    line,
    one_line,
    plain,
    render_item,
    rich,
    section,
    shows_all,
    words,
)
from adapters.slack.modals import build_modal, build_notice
from adapters.slack.payloads import (
    GROUP_VIEW,
    Act,
    Interaction,
    Json,
    Malformed,
    ModalMetadata,
    read_button,
)
from adapters.slack.posting import ClickedCards
from adapters.slack.users_and_rights import Rights
from adapters.slack.web_api import Workspace
from gateway.errors import BatchRefused, Conflict, InvalidRequest
from gateway.models import Action
from gateway.ports import (
    Card,
    Click,
    Desk,
    GroupCard,
    Record,
    Worklist,
    group_card_of,
    leads_to_inbox,
    read_revisions,
)

GROUP_CHARS = 9000
_SEEN_SECONDS = 3600.0
_ACTIONS = {Act.GROUP_APPROVE: Action.APPROVE, Act.GROUP_DENY: Action.DENY}


class GroupModals:
    """Shows the group of a request, and answers all of it at once."""

    def __init__(
        self, desk: Desk, rights: Rights, worklist: Worklist, clicked: ClickedCards
    ) -> None:
        self._clicked = clicked
        self._desk = desk
        self._rights = rights
        self._worklist = worklist

    async def count(self, workspace: Workspace, did: Interaction, request_id: str) -> int:
        """Return how many requests of this group wait for the person."""
        identity = await self._rights.identify_caller(workspace, did.actor)
        record = await self._desk.requests.get(request_id)
        return len(await self._worklist.list_group(identity, record))

    async def build(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata, told: str = ""
    ) -> Json:
        """Return the modal of the group, as it stands now, below what came of the last tap."""
        identity = await self._rights.identify_caller(workspace, did.actor)
        record = await self._desk.requests.get(form.request_id)
        found = await self._worklist.list_group(identity, record)
        if not found:
            return build_notice("Several requests", told or "None of them waits any more.")
        person = await self._desk.requests.person(identity)
        reader = person.name if person else identity.written
        group = group_card_of(found, chars=GROUP_CHARS, each=CARD_CHARS, reader=reader)
        group = replace(group, items=tuple(map(self._lead_on, group.items)))
        seen = [[card.request_id, card.revision] for card in group.items]
        kept = {"seen": seen, "together": group.together}
        await self._desk.notes.put(_key(did.nonce), json.dumps(kept), seconds=_SEEN_SECONDS)
        return build_group(group, replace(form, kept=did.nonce), told)

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
        if not kept["together"] and _ACTIONS[Act(did.act)] is Action.APPROVE:
            raise InvalidRequest("not all of them can be read here: answer each")
        try:
            done = await self._decide_all(workspace, did, kept["seen"])
        except BatchRefused as refused:
            return str(refused)
        return f"All {len(done)} are {done[0].status.value}."

    async def decide_posted(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata
    ) -> None:
        """Answer all that wait on the posted card of a group, as it showed them, or none of it.

        Raises Malformed, Conflict, InvalidRequest.
        """
        records = await self._desk.requests.list_on_card(form.request_id, form.copy)
        if not records or did.ref is None:
            raise Malformed("not the card of a group")
        written = read_button(did.value).revisions
        seen = read_revisions(written, [one.id for one in records])
        await self._check_shown(did, seen, records)
        try:
            await self._decide_all(workspace, did, seen.items(), copy=form.copy, ref=did.ref)
        except BatchRefused as refused:
            raise Conflict(str(refused)) from refused

    async def _check_shown(
        self, did: Interaction, seen: Mapping[str, int], records: Sequence[Record]
    ) -> None:
        """Raise InvalidRequest for an approval of what is not all shown; who denies need not read
        it."""
        whole = _ACTIONS[Act(did.act)] is Action.DENY or shows_all(
            await self._clicked.draw_group(records)
        )
        if not seen or not whole:
            raise InvalidRequest("not all of them can be read here: answer each")

    async def _decide_all(
        self,
        workspace: Workspace,
        did: Interaction,
        seen: Iterable[tuple[str, int]],
        **where: Any,
    ) -> list[Record]:
        identity = await self._rights.identify_caller(workspace, did.actor)
        clicks = [
            Click(
                request_id=request_id,
                revision=revision,
                identity=identity,
                action=_ACTIONS[Act(did.act)],
                nonce=did.nonce,
                **where,
            )
            for request_id, revision in seen
        ]
        return await self._desk.requests.decide_all(clicks)


def build_group(group: GroupCard, form: ModalMetadata, told: str = "") -> Json:
    """Return the modal of a group."""
    blocks: list[Json] = [rich("title", [line(words(one_line(group.title.text), bold=True))])]
    if told:
        blocks.append(section(plain(told[:1].upper() + told[1:])))
    for number, card in enumerate(group.items):
        blocks += render_item(card, number)
    if group.more:
        blocks.append(context(plain(f"{group.more} more do not fit here: open each alone.")))
    if group.deniable:
        value = form.button.encode()
        more = bool(group.more)
        all_row = build_all_row(group.waiting, value, approves=group.together, more=more)
        blocks += [{"type": "divider"}, all_row]
        if not group.together:
            blocks.append(context(plain(EACH_ALONE)))
    return build_modal("Several requests", blocks, form=form, kind=GROUP_VIEW)


def _key(name: str) -> str:
    return f"group {name}"
