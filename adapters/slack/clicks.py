"""Run clicks on buttons and submitted modals, after Slack has its acknowledgement; start with
ButtonActions and Submissions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from adapters.slack import modals
from adapters.slack.cards import CARD_CHARS, FORMS, build_thread_note, button, row
from adapters.slack.modals import BATCH_CHARS, SubmittedValues, build_batch, list_shown, read_typed
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
from adapters.slack.users_and_rights import Rights, SlackUse
from adapters.slack.web_api import Workspace
from gateway.cards.card import Card, card_of, full_view
from gateway.cards.forms import WrongField, edit_fields
from gateway.cards.summary import plain_summary
from gateway.chat.answering import (
    Answering,
    Edits,
    EditState,
    Press,
    describe_state,
    find_numbered,
    find_reason,
    read_answers,
    read_denial,
    refuse_old,
)
from gateway.chat.lists_and_batches import NONE_WAITS, ChatBatches
from gateway.chat.remembering import ALL, NEXT_TIME, NOT_AGAIN, OF_SESSION, Remembering
from gateway.errors import InvalidRequest, StepUpNeeded
from gateway.models import Action
from gateway.ports import AdapterApi, JsonObject, StoredRequest

_ADMIN_BUTTONS = {Act.REVOKE, Act.REVOKE_SESSION, Act.REVOKE_ALL, Act.STOP_ALL, Act.ALLOW_AGAIN}
_ONCE_SECONDS = 600.0
_LONGEST_REFUSAL = 300
FORM_BUILDERS: dict[str, Callable[[Card, ModalMetadata], Json]] = {
    Act.DENY: modals.build_deny,
    Act.ABORT: modals.build_abort,
    Act.RESPOND: modals.build_respond,
    Act.ANSWER: modals.build_answer,
}
_EDITING = {Act.EDIT, Act.EDIT_JSON, Act.EDIT_AGAIN}
_OF_BATCH: dict[str, Action] = {
    Act.BATCH_APPROVE: Action.APPROVE,
    Act.BATCH_DENY: Action.DENY,
}
_Work = Callable[[SlackUse, PrivateReply], Awaitable[None]]

# These only open a modal.
OPENS_MODAL = {*FORM_BUILDERS, Act.EDIT, Act.REMEMBER, Act.DETAILS, Act.MORE, Act.BATCH}


class ButtonActions:
    """Runs the action of a clicked button: approves, denies, opens modals, claims, revokes."""

    def __init__(
        self,
        api: AdapterApi,
        rights: Rights,
        answering: Answering,
        clicked: ClickedCards,
    ) -> None:
        self._api = api
        self._rights = rights
        self._answering = answering
        self._clicked = clicked
        self._edits = Edits(api, answering)
        self._remembering = Remembering(api)
        self._batches = ChatBatches(api, chars=BATCH_CHARS, each=CARD_CHARS)
        self._doing: dict[str, _Work] = {
            **dict.fromkeys((Act.NEXT, Act.BACK), self._turn_page),
            **dict.fromkeys((Act.CLAIM, Act.UNCLAIM), self._claim),
            **dict.fromkeys(_OF_BATCH, self._decide_batch),
            **dict.fromkeys((Act.EDIT_JSON, Act.EDIT_AGAIN, Act.NUMBER), self._show_form),
            **dict.fromkeys(OPENS_MODAL, self._open_modal),
        }

    async def run(self, workspace: Workspace, did: Interaction, reply: PrivateReply) -> None:
        """Run the action of a button. Raises GatewayError, and Malformed for an unknown button."""
        if did.act == Act.OPEN:
            return
        if did.act in _ADMIN_BUTTONS:
            await self._operate(workspace, did)
            await self.repair(did, reply)
            return
        use = SlackUse(workspace, did, did.form())
        if did.act in (Act.APPROVE, Act.APPROVE_SURE):
            await self._approve_here(use, reply)
            return
        # Slack may deliver a click twice, also to two replicas. Only this makes these actions run
        # once.
        if not await self._api.notes.put_new(f"did {did.nonce}", "1", seconds=_ONCE_SECONDS):
            return
        if work := self._doing.get(did.act):
            await work(use, reply)
        elif did.act.startswith(Act.DENY_BECAUSE):
            await self._deny_because(use, reply)
        elif did.act.startswith(Act.DECLINE):
            await self._decline(use, reply)
        else:
            raise Malformed("the click is on an unknown button")

    async def repair(self, did: Interaction, reply: PrivateReply) -> None:
        """Show the outcome on the clicked card, if its request or grant ended."""
        if did.ref is None:
            return
        if did.act == Act.REVOKE:
            grant_id, _, copy = did.value.partition(" ")
            card = await self._api.grants.card(grant_id)
            await self._clicked.show_grant_end(did, card, copy, reply)
        elif did.act not in _ADMIN_BUTTONS:
            record = await self._api.requests.get(did.form().request_id)
            await self._clicked.show_end(did, record, reply)

    async def _operate(self, workspace: Workspace, did: Interaction) -> None:
        """Revoke grants or use the kill switch. The core checks the rights."""
        identity = await self._rights.identify_caller(workspace, did.actor)
        if did.act in (Act.STOP_ALL, Act.ALLOW_AGAIN):
            await self._api.operator.stop_all(identity, on=did.act == Act.STOP_ALL)
        elif did.act == Act.REVOKE_ALL:
            await self._remembering.revoke(identity, ALL)
        elif did.act == Act.REVOKE_SESSION:
            await self._remembering.revoke(identity, f"{OF_SESSION} {did.value}")
        else:
            grant_id, _, copy = did.value.partition(" ")
            if copy and (did.ref is None or copy == NO_COPY):
                raise Malformed("the button names a card, but the click is not on that card")
            ref = did.ref if copy else None
            await self._remembering.revoke(identity, grant_id, copy=copy, ref=ref)

    # ---------------------------------------------------------------- deciding

    async def _approve_here(self, use: SlackUse, reply: PrivateReply) -> None:
        """Approve on the card, or in the modal with the full view."""
        did = use.did
        if did.in_modal:
            await self._clicked.expect(use.form.ref(did.actor.team))
        sure = did.act == Act.APPROVE_SURE
        record = await self.approve(use, sure=sure)
        if did.view.get("callback_id") == BATCH_VIEW:
            await self._show_batch(use, reply, describe_state(record))
        elif did.in_modal:
            await reply.tell(describe_state(record))
        else:
            if not await self._clicked.show_end(did, record, reply):
                await reply.tell(f"{describe_state(record)} The card will update soon.")
            await self._suggest(use, record, reply)

    async def _suggest(self, use: SlackUse, record: StoredRequest, reply: PrivateReply) -> None:
        """Suggest privately to remember, if the request ended and the person often approves it."""
        who = (await self._rights.press(use)).identity
        if record.final and (found := await self._remembering.suggest(who, record)):
            text, value = f"{found.text} {NEXT_TIME}", use.form.button.encode()
            no = row("suggested", button(NOT_AGAIN, f"{Act.DECLINE}{found.offer}", value))
            await reply.tell(text, blocks=[*build_thread_note(text), no])

    async def _decline(self, use: SlackUse, reply: PrivateReply) -> None:
        who, form = (await self._rights.press(use)).identity, use.form
        offer = use.did.act.removeprefix(Act.DECLINE)
        await reply.tell(await self._remembering.decline(who, form.request_id, offer))

    async def approve(self, use: SlackUse, *, sure: bool) -> StoredRequest:
        """Approve unchanged. Raises InvalidRequest if Slack cannot show the complete call."""
        press = await self._rights.press(use, reads=True)
        return await self._answering.decide(press, Action.APPROVE, confirmed=sure)

    async def _deny_because(self, use: SlackUse, reply: PrivateReply) -> None:
        """Deny with the tapped reason and the other values of the modal."""
        tapped = find_reason(use.did.act.removeprefix(Act.DENY_BECAUSE))
        said = SubmittedValues(use.did.view).read_denial(tapped)
        await self._clicked.expect(use.form.ref(use.did.actor.team))
        press = await self._rights.press(use)
        record = await self._answering.decide(press, Action.DENY, **said)
        await reply.tell(describe_state(record))

    async def _claim(self, use: SlackUse, reply: PrivateReply) -> None:
        """Show on the card that this person is looking, or remove that."""
        on = use.did.act == Act.CLAIM
        await self._answering.claim(await self._rights.press(use), on=on)
        state = "says" if on else "no longer says"
        await reply.tell(f"The card {state} that you are looking at it.")

    async def _decide_batch(self, use: SlackUse, reply: PrivateReply) -> None:
        identity, action = await self._rights.identify(use), _OF_BATCH[use.did.act]
        told = await self._batches.decide(identity, use.form.kept, action, use.did.nonce)
        await self._show_batch(use, reply, told)

    async def _show_batch(self, use: SlackUse, reply: PrivateReply, told: str) -> None:
        form = read_metadata(use.did.view.get("private_metadata"))
        await reply.show(await self._build_batch(replace(use, form=form), told))

    # ---------------------------------------------------------------- modals

    async def _open_modal(self, use: SlackUse, reply: PrivateReply) -> None:
        """Open an empty modal within Slack's three seconds, then fill it."""
        opening = asyncio.ensure_future(reply.open(modals.build_loading()))
        try:
            view = await self._build_view(use)
        finally:
            opened = await opening
        if opened:
            await reply.show(view)
        else:
            await reply.tell("Slack took too long to open the form. Press the button again.")

    async def _show_form(self, use: SlackUse, reply: PrivateReply) -> None:
        """Replace the open modal by a form."""
        await reply.show(await self._build_view(use))

    async def _turn_page(self, use: SlackUse, reply: PrivateReply) -> None:
        step = 1 if use.did.act == Act.NEXT else -1
        form = replace(use.form, page=use.form.page + step)
        view = await self.build_details(replace(use, form=form))
        await reply.show(view, seen=str(use.did.view.get("hash") or ""))

    async def _build_view(self, use: SlackUse) -> Json:
        shown = {
            Act.DETAILS.value: self.build_details,
            Act.MORE.value: self._build_more,
            Act.BATCH.value: self._build_batch,
        }
        if build := shown.get(use.did.act):
            return await build(use)
        press = await self._rights.press(use)
        # Raises if the card showed an older revision.
        record = await self._answering.get_open(press)
        card = await self._answering.build_for_form(record)
        if use.did.act == Act.REMEMBER:
            return await self._build_remember(use, press, record, card)
        if use.did.act == Act.NUMBER:
            return modals.build_number(card, use.form, find_numbered(card), record.guesses)
        act = Act.EDIT if use.did.act in _EDITING else use.did.act
        if not any(FORMS[control.action] == act for control in card.controls):
            raise InvalidRequest("the request does not allow this action")
        if use.did.act == Act.EDIT_JSON:
            return modals.convert_to_json_form(record, card, use.form, use.did.view)
        if act == Act.EDIT:
            again = use.did.act == Act.EDIT_AGAIN
            kept = await self._edits.read_kept(use.form.kept) if again else ""
            return modals.choose_edit_form(record, card, use.form, kept)
        return FORM_BUILDERS[use.did.act](card, use.form)

    async def _build_more(self, use: SlackUse) -> Json:
        """Build the modal with a request's other actions. Raises Unauthorized."""
        press = await self._rights.press(use)
        record, refusal = await self._answering.check_viewer(press)
        refuse_old(press, record)
        card, mine = await self._answering.build_own(record, press.identity)
        count = 1
        if not refusal:
            count = await self._batches.count(await self._rights.identify(use), record.id)
        return modals.build_more(card, use.form, refusal=refusal, mine=mine, batch=count)

    async def _build_batch(self, use: SlackUse, told: str = "") -> Json:
        """Build the current batch of a request; `told` is the result of the last click."""
        identity, key = await self._rights.identify(use), use.did.nonce
        batch = await self._batches.open(identity, use.form.request_id, key)
        if batch is None:
            return modals.build_notice("Several requests", told or NONE_WAITS)
        return build_batch(batch, replace(use.form, kept=key), told)

    async def _build_remember(
        self, use: SlackUse, press: Press, record: StoredRequest, card: Card
    ) -> Json:
        if why := await self._rights.explain_unreadable(use, record):
            raise InvalidRequest(why)
        scopes = await self._remembering.list_options(
            press.identity, record, Action.APPROVE, modals.MOST_SCOPES
        )
        reach = await self._remembering.find_reach(record, scopes)
        usual = await self._remembering.find_usual(record, reach)
        return modals.build_remember(card, use.form, scopes, reach, usual)

    async def build_details(self, use: SlackUse) -> Json:
        """Build one page of the full view. Raises Unauthorized."""
        press = await self._rights.press(use)
        record, refusal = await self._answering.check_viewer(press)
        full = full_view(record, fits=modals.page_fits)
        page = max(min(use.form.page, len(full.pages) - 1), 0)
        form = replace(use.form, revision=record.revision, page=page)
        refusal = refusal or await self._rights.explain_unreadable(use, record)
        card = await self._answering.build_whole(record, press.identity)
        return modals.build_details(card, full, form, refusal=refusal)


def describe_what(record: StoredRequest) -> str:
    """Return a request's outcome or progress, and its summary."""
    summary = plain_summary(card_of(record, lines=1, chars=1).summary)
    return f"{describe_state(record).rstrip('.')} · {summary}."


# Submitted modals. Rights are checked again, because they may have changed since opening.

DONE: Json = {"response_action": "clear"}


class Submissions:
    """Turns submitted modals into decisions."""

    def __init__(
        self, api: AdapterApi, rights: Rights, answering: Answering, clicked: ClickedCards
    ) -> None:
        self._api = api
        self._rights = rights
        self._answering = answering
        self._clicked = clicked
        self._edits = Edits(api, answering)

    async def submit(self, workspace: Workspace, did: Interaction) -> Json:
        """Handle a submission; return the response for Slack: close, errors, or the next modal."""
        use = SlackUse(workspace, did, did.form())
        # As on the card, an unchanged approval requires that Slack showed the complete call.
        press = await self._rights.press(use, reads=did.act == modals.NUMBER)
        record = await self._api.requests.get(press.request_id)
        try:
            if did.act in (modals.EDIT, modals.EDIT_FIELDS):
                return await self._show_edit(use, record)
            if did.act == modals.CHECK:
                return await self._approve_edit(use, press, record)
            action, content = await self._read_decision(use, record)
            await self._clicked.expect(press.ref)
            await self._answering.decide(press, action, **content)
        except WrongField as wrong:
            return _refuse_field(wrong.field, str(wrong))
        except InvalidRequest as refused:
            if did.act == modals.NUMBER:
                return _refuse_field(modals.TEXT, str(refused))
            if not isinstance(refused, StepUpNeeded):
                raise
            said = f"Extra verification needed: {refused}. Approve in the inbox."
            where = await self._api.lead_to(record.id, press.identity)
            return _show(modals.build_referral("Approvals", said, where))
        return DONE

    async def _approve_edit(self, use: SlackUse, press: Press, record: StoredRequest) -> Json:
        """Approve the shown changes. If the risk has become high, or the edit is refused, return
        the next modal: to confirm, or to edit again."""
        form = use.form
        await self._clicked.expect(press.ref)
        done = await self._edits.approve(press, record, form.kept, high=form.high)
        if isinstance(done, StoredRequest):
            return DONE
        if not done.refusal:
            # The risk is high only since the edit, so the submitted modal did not say so.
            return _show(modals.build_edit_check(done.diff, replace(form, high=True)))
        card = await self._answering.build_whole(record)
        return _show(modals.choose_edit_form(record, card, form, done.typed, done.refusal))

    async def _show_edit(self, use: SlackUse, record: StoredRequest) -> Json:
        """Show an edit as a diff, or its error below the field."""
        raw, fields = use.did.act == modals.EDIT, edit_fields(record)
        values = SubmittedValues(use.did.view)
        typed = values.read_text() if raw else read_typed(values, fields)
        done: EditState = await self._edits.show(record, typed, use.did.nonce)
        if done.refusal:
            shown = [modals.TEXT] if raw else [one.id for one in list_shown(fields)]
            at = done.field if done.field in shown else shown[0]
            return _refuse_field(at, done.refusal)
        form = replace(use.form, kept=done.key, high=done.high)
        return _show(modals.build_edit_check(done.diff, form))

    async def _read_decision(
        self, use: SlackUse, record: StoredRequest
    ) -> tuple[Action, JsonObject]:
        """Return the action and the content of a submitted modal. Raises Malformed, and WrongField
        with the block of the wrong field."""
        kind, typed = use.did.act, SubmittedValues(use.did.view)
        if kind == modals.ANSWER:
            fields = (await self._answering.build_whole(record)).fields
            try:
                answers = read_answers(fields, typed.read_fields(fields))
            except WrongField as wrong:
                at = next(n for n, field in enumerate(fields) if field.id == wrong.field)
                raise WrongField(f"{modals.TEXT}{at}", str(wrong)) from wrong
            return Action.ANSWER, {"answers": answers, "confirmed": True}
        return _read_simple(kind, typed)


def _read_simple(kind: str, typed: SubmittedValues) -> tuple[Action, dict[str, Any]]:
    if kind == modals.DENY:
        return Action.DENY, typed.read_denial()
    if kind == modals.ABORT:
        stops = {"abort": typed.read_choice() or "turn"}
        return Action.ABORT, read_denial(reason=typed.reason, note=typed.note) | stops
    if kind == modals.REMEMBER:
        return Action.APPROVE, {"remember": typed.read_remember()}
    if kind == modals.NUMBER:
        return Action.APPROVE, {"number": typed.read_text().strip(), "confirmed": True}
    if kind == modals.RESPOND:
        return Action.RESPOND, {"result": typed.read_text(), "confirmed": True}
    raise Malformed("the form belongs to an unknown modal")


def _show(view: Json) -> Json:
    return {"response_action": "update", "view": view}


def _refuse_field(block: str, why: str) -> Json:
    return {"response_action": "errors", "errors": {block: why[:_LONGEST_REFUSAL]}}
