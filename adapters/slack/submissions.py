"""Handling of submitted modals. Rights are checked again: time has passed since opening."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adapters.slack import modals
from adapters.slack.actions_and_replies import build_click, build_whole_card
from adapters.slack.clicked_cards import ClickedCards
from adapters.slack.edits import EditModals, Typed, list_shown, read_typed
from adapters.slack.modals import SubmittedValues
from adapters.slack.payloads import Interaction, Json, Malformed, ModalMetadata
from adapters.slack.users_and_rights import Rights
from adapters.slack.workspaces_and_web_api import Workspace
from gateway.errors import Conflict, InvalidRequest, StepUpNeeded, Unconfirmed
from gateway.models import Action
from gateway.ports import SAY_THE_PLAN, Desk, Record, WrongField, edit_fields

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
