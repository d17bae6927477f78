"""Does what submitted modals ask for. Rights are checked anew: time has passed meanwhile."""

from __future__ import annotations

from typing import Any

from adapters.slack import modals
from adapters.slack.acts import click, whole
from adapters.slack.interactions import Interaction
from adapters.slack.modals import Typed
from adapters.slack.rights import Rights
from adapters.slack.text import Json
from adapters.slack.values import Form, Malformed
from adapters.slack.workspaces import Workspace
from gateway.blocks import changes
from gateway.errors import InvalidRequest
from gateway.models import Action, RiskLevel
from gateway.ports import Desk
from gateway.records import Record

DONE: Json = {"response_action": "clear"}


class Submissions:
    """Denies, edits, answers."""

    def __init__(self, desk: Desk, rights: Rights) -> None:
        self._desk = desk
        self._rights = rights

    async def submitted(self, workspace: Workspace, did: Interaction) -> Json:
        """Do what a modal asks for; return Slack's answer: close, errors, or the next modal."""
        form, typed = did.form(), Typed(did.view)
        identity, record = await self._rights.known(workspace, did.actor, form.request_id)
        if did.act == modals.EDIT:
            return self._shown_edit(record, form, typed)
        try:
            action, fields = _asked(did.act, typed, record)
        except _Wrong as wrong:
            return {"response_action": "errors", "errors": {wrong.block: str(wrong)}}
        await self._desk.decide(click(did, form, identity, action, **fields))
        return DONE

    def _shown_edit(self, record: Record, form: Form, typed: Typed) -> Json:
        """Show an edit as a diff. It is decided when that is confirmed."""
        try:
            rows = changes(record.arguments, modals.arguments_of(typed.text()))
        except InvalidRequest as error:
            return {"response_action": "errors", "errors": {"text": str(error)[:300]}}
        if not rows:
            why = "Nothing is changed: approve it as it is."
            return {"response_action": "errors", "errors": {"text": why}}
        shown = "\n".join(f"{row.sign} {row.text.text}" for row in rows)
        high = record.risk.level is RiskLevel.HIGH
        view = modals.check_edit(shown, typed.text(), form, high=high)
        return {"response_action": "update", "view": view}


class _Wrong(Exception):
    """What was typed does not fit; `block` is the field."""

    def __init__(self, block: str, why: str) -> None:
        super().__init__(why[:300])
        self.block = block


def _asked(kind: str, typed: Typed, record: Record) -> tuple[Action, dict[str, Any]]:
    """Return the action of a modal and what belongs to it; raises _Wrong, Malformed."""
    if kind == modals.DENY:
        replan = typed.chosen() == modals.REPLAN
        if replan and not typed.reason:
            raise _Wrong("reason", "Say what the agent should plan instead.")
        return Action.DENY, {"message": typed.reason, "feedback": replan}
    if kind == modals.ABORT:
        return Action.ABORT, {"message": typed.reason, "abort": typed.chosen() or "turn"}
    try:
        if kind == modals.CHECK:
            arguments = modals.arguments_of(typed.text())
            return Action.EDIT, {"arguments": arguments, "confirmed": True}
        if kind == modals.RESPOND:
            return Action.RESPOND, {"result": typed.text(), "confirmed": True}
        if kind == modals.ANSWER:
            answers = typed.answers(whole(record).fields)
            return Action.ANSWER, {"answers": answers, "confirmed": True}
    except InvalidRequest as error:
        raise _Wrong("text", str(error)) from error
    raise Malformed("an unknown modal")
