"""Handling of submitted modals. Rights are checked again: time has passed since opening."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adapters.slack import modals
from adapters.slack.actions_and_replies import build_click, build_whole_card
from adapters.slack.clicked_cards import ClickedCards
from adapters.slack.modals import SubmittedValues
from adapters.slack.payloads import Interaction, Json, Malformed, ModalMetadata
from adapters.slack.users_and_rights import Rights
from adapters.slack.workspaces_and_web_api import Workspace
from gateway.errors import Conflict, InvalidRequest, Unconfirmed
from gateway.models import Action, RiskLevel
from gateway.ports import SAY_THE_PLAN, Desk, JsonObject, Record, changes

DONE: Json = {"response_action": "clear"}
_EDIT_SECONDS = 3600.0


class Submissions:
    """Makes the decisions of submitted modals."""

    def __init__(self, desk: Desk, rights: Rights, clicked: ClickedCards) -> None:
        self._clicked = clicked
        self._desk = desk
        self._rights = rights

    async def submit(self, workspace: Workspace, did: Interaction) -> Json:
        """Handle a submission; return the response for Slack: close, errors, or the next modal."""
        form, typed = did.form(), SubmittedValues(did.view)
        identity, record = await self._rights.identify(workspace, did.actor, form.request_id)
        try:
            if did.act == modals.EDIT:
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
        except Unconfirmed:
            if did.act != modals.CHECK:
                raise
            # High risk only since the edit: the submitted modal did not say so.
            return _build_edit_check(record, fields["arguments"], replace(form, high=True))
        return DONE

    async def _show_edit(
        self, did: Interaction, record: Record, form: ModalMetadata, typed: SubmittedValues
    ) -> Json:
        """Show an edit as a diff. Confirming it decides, with exactly these arguments."""
        try:
            arguments = modals.read_arguments(typed.read_text())
            rows = changes(record.arguments, arguments)
        except InvalidRequest as error:
            raise _Wrong("text", str(error)) from error
        if not rows:
            raise _Wrong("text", "Nothing is changed: approve it as it is.")
        await self._desk.notes.put(_edit_key(did.nonce), typed.read_text(), seconds=_EDIT_SECONDS)
        high = record.risk.level is RiskLevel.HIGH
        return _build_edit_check(record, arguments, replace(form, kept=did.nonce, high=high))

    async def _read_action(
        self, kind: str, form: ModalMetadata, typed: SubmittedValues, record: Record
    ) -> tuple[Action, dict[str, Any]]:
        """Return the action of a modal and its data. Raises _Wrong, Malformed, Conflict."""
        if kind == modals.CHECK:
            text = await self._desk.notes.get(_edit_key(form.kept))
            if text is None:
                raise Conflict("this edit was left for too long; edit it again")
            return Action.EDIT, {"arguments": modals.read_arguments(text), "confirmed": form.high}
        return _read_decision(kind, typed, record)


def _build_edit_check(record: Record, arguments: JsonObject, form: ModalMetadata) -> Json:
    """Return the response that shows an edit as a diff, to be confirmed."""
    rows = changes(record.arguments, arguments)
    shown = "\n".join(f"{row.sign} {row.text.text}" for row in rows)
    return {"response_action": "update", "view": modals.build_edit_check(shown, form)}


def _edit_key(name: str) -> str:
    return f"edit {name}"


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
    if kind == modals.RESPOND:
        return Action.RESPOND, {"result": typed.read_text(), "confirmed": True}
    if kind != modals.ANSWER:
        raise Malformed("an unknown modal")
    try:
        answers = typed.read_answers(build_whole_card(record).fields)
    except InvalidRequest as error:
        raise Conflict(str(error)) from error
    return Action.ANSWER, {"answers": answers, "confirmed": True}
