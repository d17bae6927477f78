"""Buttons on cards and submitted modals, run after Slack has its acknowledgement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from adapters.slack import modals
from adapters.slack.batches import BatchModals
from adapters.slack.cards import CARD_CHARS, CARD_LINES, FORMS, as_sentence
from adapters.slack.grants import ADMIN_BUTTONS, AdminActions
from adapters.slack.modals import EditModals, SubmittedValues, Typed, list_shown, read_typed
from adapters.slack.payloads import (
    BATCH_VIEW,
    NO_COPY,
    Act,
    Interaction,
    Json,
    Malformed,
    ModalMetadata,
    read_metadata,
)
from adapters.slack.posting import ClickedCards, PrivateReply
from adapters.slack.users_and_rights import Rights
from adapters.slack.web_api import Workspace
from gateway.cards.card import Card, Control, card_of, full_view
from gateway.cards.forms import WrongField, edit_fields
from gateway.cards.remember_options import scopes_of
from gateway.cards.summary import plain_head
from gateway.cards.words import DENIALS, SAY_THE_PLAN, join_reason
from gateway.errors import Conflict, InvalidRequest, StepUpNeeded, Unconfirmed
from gateway.models import Action
from gateway.ports import Click, Desk, Identity, Record

_WHOLE = 10**9
_ONCE_SECONDS = 600.0
_BUILD: dict[str, Callable[[Card, ModalMetadata], Json]] = {
    Act.DENY: modals.build_deny,
    Act.ABORT: modals.build_abort,
    Act.RESPOND: modals.build_respond,
    Act.ANSWER: modals.build_answer,
}

_EDITING = {Act.EDIT, Act.EDIT_JSON, Act.EDIT_AGAIN}
_Work = Callable[[Workspace, Interaction, ModalMetadata, PrivateReply], Awaitable[None]]

# These open a modal, and change nothing yet.
OPENS_MODAL = {*_BUILD, Act.EDIT, Act.REMEMBER, Act.DETAILS, Act.MORE, Act.BATCH}


class ButtonActions:
    """Approves, opens modals, turns pages, claims."""

    def __init__(
        self,
        desk: Desk,
        rights: Rights,
        operating: AdminActions,
        clicked: ClickedCards,
        edits: EditModals,
        batches: BatchModals,
    ) -> None:
        self._edits = edits
        self._batches = batches
        self._clicked = clicked
        self._desk = desk
        self._rights = rights
        self._operating = operating

    async def run(self, workspace: Workspace, did: Interaction, reply: PrivateReply) -> None:
        """Run the action of a button."""
        if did.act == Act.OPEN:
            return
        if did.act in ADMIN_BUTTONS:
            await self._operating.run(workspace, did)
            await self.repair(did, reply)
            return
        form = did.form()
        if did.act in (Act.APPROVE, Act.APPROVE_SURE):
            await self._approve_here(workspace, did, form, reply)
            return
        # Slack may deliver a click twice, and to two replicas; these actions have no other guard.
        if not await self._desk.notes.put_new(f"did {did.nonce}", "1", seconds=_ONCE_SECONDS):
            return
        doing: dict[str, _Work] = {
            Act.NEXT: self._turn_page,
            Act.BACK: self._turn_page,
            Act.CLAIM: self._claim,
            Act.UNCLAIM: self._claim,
            Act.BATCH_APPROVE: self._decide_batch,
            Act.BATCH_DENY: self._decide_batch,
            Act.EDIT_JSON: self._show_form,
            Act.EDIT_AGAIN: self._show_form,
            Act.NUMBER: self._show_form,
        }
        if work := doing.get(did.act):
            await work(workspace, did, form, reply)
        elif did.act.startswith(Act.DENY_BECAUSE):
            await self._deny_because(workspace, did, form, reply)
        elif did.act in OPENS_MODAL:
            await self._open_modal(workspace, did, form, reply)
        else:
            raise Malformed("an unknown button")

    async def repair(self, did: Interaction, reply: PrivateReply) -> None:
        """Have the clicked card show the end, if what it is about ended."""
        if did.ref is None:
            return
        if did.act == Act.REVOKE:
            grant_id, _, copy = did.value.partition(" ")
            card = await self._desk.grants.card(grant_id)
            await self._clicked.show_grant_end(did, card, copy, reply)
        elif did.act not in ADMIN_BUTTONS:
            record = await self._desk.requests.get(did.form().request_id)
            await self._clicked.show_end(did, record, reply)

    async def _approve_here(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata, reply: PrivateReply
    ) -> None:
        """Approve on the card, or in the modal with the full view."""
        if did.in_modal:
            await self._clicked.expect(form.ref(did.actor.team))
        sure = did.act == Act.APPROVE_SURE
        record = await self.approve(workspace, did, form, sure=sure)
        if did.view.get("callback_id") == BATCH_VIEW:
            await self._show_batch(workspace, did, reply, describe_state(record))
        elif did.in_modal:
            await reply.tell(describe_state(record))
        elif not await self._clicked.show_end(did, record, reply):
            await reply.tell(f"{describe_state(record)} The card follows.")

    async def _decide_batch(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata, reply: PrivateReply
    ) -> None:
        told = await self._batches.decide(workspace, did, form)
        await self._show_batch(workspace, did, reply, told)

    async def _show_form(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata, reply: PrivateReply
    ) -> None:
        """Show the form of an edit in place of the open modal."""
        await reply.show(await self._build_view(workspace, did, form))

    async def _show_batch(
        self, workspace: Workspace, did: Interaction, reply: PrivateReply, told: str
    ) -> None:
        form = read_metadata(did.view.get("private_metadata"))
        await reply.show(await self._batches.build(workspace, did, form, told))

    async def _deny_because(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata, reply: PrivateReply
    ) -> None:
        """Deny with the reason that was tapped, and with what was typed and chosen beside it."""
        typed = modals.SubmittedValues(did.view)
        number = did.act.removeprefix(Act.DENY_BECAUSE)
        if number not in map(str, range(len(DENIALS))):
            raise Malformed("an unknown reason")
        await self._clicked.expect(form.ref(did.actor.team))
        identity, _ = await self._rights.identify(workspace, did.actor, form.request_id)
        said = join_reason(DENIALS[int(number)], typed.reason)
        replan = typed.read_choice() == modals.REPLAN
        again = typed.read_denial_remember()
        record = await self._desk.requests.decide(
            build_click(
                did, form, identity, Action.DENY, message=said, feedback=replan, remember=again
            ),
            groups=self._rights.build_group_query(workspace, identity),
        )
        await reply.tell(describe_state(record))

    async def _claim(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata, reply: PrivateReply
    ) -> None:
        """Say on the card that this person is looking, or is not any more."""
        on = did.act == Act.CLAIM
        identity, _ = await self._rights.identify(workspace, did.actor, form.request_id)
        groups = self._rights.build_group_query(workspace, identity)
        await self._desk.requests.claim(form.request_id, identity, on=on, groups=groups)
        state = "says" if on else "no longer says"
        await reply.tell(f"The card {state} that you are looking at it.")

    async def approve(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata, *, sure: bool
    ) -> Record:
        """Approve unchanged, if all of it can be read in Slack."""
        identity, _ = await self._rights.identify(workspace, did.actor, form.request_id, read=form)
        return await self._desk.requests.decide(
            build_click(did, form, identity, Action.APPROVE, confirmed=sure),
            groups=self._rights.build_group_query(workspace, identity),
        )

    async def _open_modal(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata, reply: PrivateReply
    ) -> None:
        """Open a modal within the three seconds that Slack gives, then fill it."""
        opening = asyncio.ensure_future(reply.open(modals.build_loading()))
        try:
            view = await self._build_view(workspace, did, form)
        finally:
            opened = await opening
        if opened:
            await reply.show(view)
        else:
            await reply.tell("Slack took too long to open the form. Press the button again.")

    async def _build_view(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata
    ) -> Json:
        shown = {
            Act.DETAILS.value: self.build_details,
            Act.MORE.value: self._build_more,
            Act.BATCH.value: self._batches.build,
        }
        if build := shown.get(did.act):
            return await build(workspace, did, form)
        record = await self._rights.check_approver(workspace, did.actor, form.request_id)
        if record.final:
            raise Conflict(f"This was decided already: {describe_state(record)}")
        # The modal belongs to the revision that the card showed.
        _refuse_old(form, record)
        card = _cut(build_whole_card(record), record)
        card = replace(card, inbox=self._desk.address_of(record.id))
        if did.act == Act.REMEMBER:
            return await self._build_remember_view(workspace, did, form, record, card)
        if did.act == Act.NUMBER:
            return modals.build_number(card, form, _find_numbered(card), record.guesses)
        act = Act.EDIT if did.act in _EDITING else did.act
        if not any(FORMS[control.action] == act for control in card.controls):
            raise InvalidRequest("this request does not allow that")
        if act == Act.EDIT:
            return await self._build_edit_view(did, form, record, card)
        return _BUILD[did.act](card, form)

    async def _build_edit_view(
        self, did: Interaction, form: ModalMetadata, record: Record, card: Card
    ) -> Json:
        """Return the form of an edit: anew, as raw JSON, or with what was typed before."""
        if did.act == Act.EDIT_JSON:
            return self._edits.build_as_json(record, card, form, did.view)
        kept = await self._edits.read_kept(form) if did.act == Act.EDIT_AGAIN else ""
        return self._edits.build(record, card, form, kept)

    async def _build_more(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata
    ) -> Json:
        """Return what else may be done with a request, as it stands now. Raises Unauthorized."""
        record, refusal = await self._rights.check_viewer(workspace, did.actor, form.request_id)
        if record.final:
            raise Conflict(f"This was decided already: {describe_state(record)}")
        _refuse_old(form, record)
        identity, _ = await self._rights.identify(workspace, did.actor, form.request_id)
        person = await self._desk.requests.person(identity)
        reader = person.name if person else identity.written
        card = card_of(record, lines=CARD_LINES, chars=CARD_CHARS, reader=reader)
        card = replace(card, inbox=self._desk.address_of(record.id))
        mine = record.claim is not None and record.claim.person == reader
        count = 1 if refusal else await self._batches.count(workspace, did, record.id)
        return modals.build_more(card, form, refusal=refusal or "", mine=mine, batch=count)

    async def _build_remember_view(
        self,
        workspace: Workspace,
        did: Interaction,
        form: ModalMetadata,
        record: Record,
        card: Card,
    ) -> Json:
        if why := await self._rights.explain_unreadable(form, did.actor.team, record):
            raise InvalidRequest(why)
        identity, _ = await self._rights.identify(workspace, did.actor, form.request_id)
        may = await self._desk.requests.may_pass(identity, record)
        scopes = scopes_of(record, Action.APPROVE, passes=may)
        reach = await asyncio.gather(
            *(self._desk.requests.reach(record.id, one.id) for one in scopes)
        )
        return modals.build_remember(
            card, form, scopes, dict(zip((one.id for one in scopes), reach, strict=True))
        )

    async def build_details(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata
    ) -> Json:
        """Return one page of the full view. Raises Unauthorized."""
        record, refusal = await self._rights.check_viewer(workspace, did.actor, form.request_id)
        full = full_view(record, fits=modals.page_fits)
        page = max(min(form.page, len(full.pages) - 1), 0)
        form = replace(form, revision=record.revision, page=page)
        refusal = refusal or await self._rights.explain_unreadable(form, did.actor.team, record)
        identity, _ = await self._rights.identify(workspace, did.actor, form.request_id)
        person = await self._desk.requests.person(identity)
        card = build_whole_card(record, person.name if person else identity.written)
        card = replace(card, inbox=self._desk.address_of(record.id))
        return modals.build_details(card, full, form, refusal=refusal)

    async def _turn_page(
        self, workspace: Workspace, did: Interaction, form: ModalMetadata, reply: PrivateReply
    ) -> None:
        step = 1 if did.act == Act.NEXT else -1
        view = await self.build_details(workspace, did, replace(form, page=form.page + step))
        await reply.show(view, seen=str(did.view.get("hash") or ""))


def build_click(
    did: Interaction, form: ModalMetadata, identity: Identity, action: Action, **more: Any
) -> Click:
    """Return the click that an interaction stands for."""
    return Click(
        request_id=form.request_id,
        revision=form.revision,
        identity=identity,
        action=action,
        nonce=did.nonce,
        copy=None if form.copy == NO_COPY else form.copy,
        ref=form.ref(did.actor.team),
        **more,
    )


def _find_numbered(card: Card) -> Control:
    for control in card.controls:
        if control.action is Action.APPROVE and control.number:
            return control
    raise InvalidRequest("this takes no number; look at it again")


def _refuse_old(form: ModalMetadata, record: Record) -> None:
    if form.revision < record.shown_since:
        raise Conflict("the request has changed since you saw it; look at it again")


def _cut(card: Card, record: Record) -> Card:
    """Return a whole card with as much of what runs as a modal shows above its fields."""
    about = card_of(record, lines=modals.ABOUT_LINES, chars=modals.ABOUT_CHARS)
    return replace(card, blocks=about.blocks, complete=about.complete, size=about.size)


def build_whole_card(record: Record, reader: str = "") -> Card:
    """Return the card of a request without a size limit, as this reader sees it."""
    return card_of(record, lines=_WHOLE, chars=_WHOLE, reader=reader)


def describe_state(record: Record) -> str:
    """Return a request's outcome or progress, in a sentence."""
    card = build_whole_card(record)
    if card.outcome is not None:
        return as_sentence(card.outcome.text)
    return as_sentence(card.progress or "it still waits for an answer")


def describe_what(record: Record) -> str:
    """Return a request's outcome or progress, and what it is about: the head."""
    head = plain_head(build_whole_card(record).head)
    state = describe_state(record)
    return f"{state.rstrip('.')} · {head}."


# Handling of submitted modals. Rights are checked again: time has passed since opening.

DONE: Json = {"response_action": "clear"}


class Submissions:
    """Makes the decisions of submitted modals."""

    def __init__(
        self, desk: Desk, rights: Rights, clicked: ClickedCards, edits: EditModals
    ) -> None:
        self._edits = edits
        self._clicked = clicked
        self._desk = desk
        self._rights = rights

    async def submit(self, workspace: Workspace, did: Interaction) -> Json:
        """Handle a submission; return the response for Slack: close, errors, or the next modal."""
        form, typed = did.form(), SubmittedValues(did.view)
        # As on the card: what is approved unchanged was read in Slack.
        read = form if did.act == modals.NUMBER else None
        identity, record = await self._rights.identify(
            workspace, did.actor, form.request_id, read=read
        )
        try:
            if did.act in (modals.EDIT, modals.EDIT_FIELDS):
                return await self._show_edit(did, record, form, typed)
            action, fields = await self._read_action(did.act, form, typed, record)
        except _Wrong as wrong:
            return {"response_action": "errors", "errors": {wrong.block: str(wrong)}}
        await self._clicked.expect(form.ref(did.actor.team))
        try:
            await self._desk.requests.decide(
                build_click(did, form, identity, action, **fields),
                groups=self._rights.build_group_query(workspace, identity),
            )
        except StepUpNeeded as needed:
            said = f"It takes a step-up: {needed}. Do that in the inbox."
            if below := self._refuse_number(did, needed):
                return below
            where = await self._desk.lead_to(record.id, identity)
            view = modals.build_referral("Approvals", said, where)
            return {"response_action": "update", "view": view}
        except InvalidRequest as refused:
            if did.act not in (modals.CHECK, modals.NUMBER):
                raise
            below = self._refuse_number(did, refused)
            return below or await self._show_again(record, form, fields, refused)
        return DONE

    async def _show_again(
        self, record: Record, form: ModalMetadata, fields: dict[str, Any], refused: InvalidRequest
    ) -> Json:
        """Return the form of an edit that was refused: to be confirmed, or edited again."""
        if isinstance(refused, Unconfirmed):
            # High risk only since the edit: the submitted modal did not say so.
            view = self._edits.build_check(record, fields["arguments"], replace(form, high=True))
        else:
            kept, card = await self._edits.read_kept(form), build_whole_card(record)
            view = self._edits.build(record, card, form, kept, str(refused))
        return {"response_action": "update", "view": view}

    @staticmethod
    def _refuse_number(did: Interaction, refused: InvalidRequest) -> Json | None:
        """Return why a number was refused, below its field; None for another modal."""
        if did.act != modals.NUMBER:
            return None
        return {"response_action": "errors", "errors": {modals.TEXT: str(refused)[:300]}}

    async def _show_edit(
        self, did: Interaction, record: Record, form: ModalMetadata, values: SubmittedValues
    ) -> Json:
        """Show an edit as a diff, or what is wrong with it below its field."""
        fields = edit_fields(record)
        raw = did.act == modals.EDIT
        typed: Typed = values.read_text() if raw else read_typed(values, fields)
        try:
            view = await self._edits.check(record, form, did.nonce, typed)
        except WrongField as wrong:
            shown = [modals.TEXT] if raw else [one.id for one in list_shown(fields)]
            at = wrong.field if wrong.field in shown else shown[0]
            raise _Wrong(at, str(wrong)) from wrong
        return {"response_action": "update", "view": view}

    async def _read_action(
        self, kind: str, form: ModalMetadata, typed: SubmittedValues, record: Record
    ) -> tuple[Action, dict[str, Any]]:
        """Return the action of a modal and its data. Raises _Wrong, Malformed, Conflict."""
        if kind == modals.CHECK:
            arguments = await self._edits.read_arguments(record, form)
            return Action.EDIT, {"arguments": arguments, "confirmed": form.high}
        return _read_decision(kind, typed, record)


class _Wrong(Exception):
    """A submitted value is invalid; `block` is its field."""

    def __init__(self, block: str, why: str) -> None:
        super().__init__(why[:300])
        self.block = block


def _read_decision(
    kind: str, typed: SubmittedValues, record: Record
) -> tuple[Action, dict[str, Any]]:
    if kind == modals.DENY:
        replan = typed.read_choice() == modals.REPLAN
        if replan and not typed.reason:
            raise _Wrong("reason", SAY_THE_PLAN)
        again = typed.read_denial_remember()
        return Action.DENY, {"message": typed.reason, "feedback": replan, "remember": again}
    if kind == modals.REMEMBER:
        return Action.APPROVE, {"remember": typed.read_remember()}
    if kind == modals.ABORT:
        return Action.ABORT, {"message": typed.reason, "abort": typed.read_choice() or "turn"}
    if kind == modals.NUMBER:
        return Action.APPROVE, {"number": typed.read_text().strip(), "confirmed": True}
    if kind == modals.RESPOND:
        return Action.RESPOND, {"result": typed.read_text(), "confirmed": True}
    if kind != modals.ANSWER:
        raise Malformed("an unknown modal")
    try:
        answers = typed.read_answers(build_whole_card(record).fields)
    except InvalidRequest as error:
        raise Conflict(str(error)) from error
    return Action.ANSWER, {"answers": answers, "confirmed": True}
