"""Decide one request from a chat: rights, forms, edits and error texts. Start reading at
`Answering`."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gateway.cards.blocks import changes, draw, weight_of
from gateway.cards.card import Card, Control, Field, card_of, leads_to_inbox
from gateway.cards.forms import EditField, WrongField, check_edit, edit_fields, put_together
from gateway.cards.shared_texts import DENIALS, SAY_THE_PLAN, join_reason
from gateway.chat.lists_and_batches import Worklist
from gateway.chat.remembering import remember_denial
from gateway.errors import (
    Conflict,
    GatewayError,
    InvalidRequest,
    NotFound,
    StepUpNeeded,
    Unauthorized,
    Unconfirmed,
    Unreachable,
)
from gateway.models import Action, FieldKind, RiskLevel
from gateway.ports import (
    MOST_GUESSES,
    AdapterApi,
    Click,
    DeliveryFailed,
    Groups,
    Identity,
    JsonObject,
    MessageRef,
    StoredRequest,
    bug,
    parse_json,
    render_safe,
)

log = logging.getLogger("gateway.chat")

WHOLE = 10**9
"""A size that cuts nothing."""
ABOUT_LINES, ABOUT_CHARS = 10, 700
"""How much of the call a form shows above its fields."""
REASON = "reason"
"""The id of the field for a denial's reason."""
YES, NO = "yes", "no"
CHANGED = "the request has changed since you saw it; read it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Press:
    """One use of a button, a form or a command: the person, and the request.

    If the platform delivers the press again, `nonce` is the same. `copy` and `ref` identify the
    posted card. `groups` asks the platform for the person's groups if `identity` has none.
    """

    request_id: str
    revision: int
    identity: Identity
    nonce: str
    copy: str | None = None
    ref: MessageRef | None = None
    groups: Groups | None = None

    def click(self, action: Action, **content: Any) -> Click:
        """Return the click for this press."""
        return Click(
            request_id=self.request_id,
            revision=self.revision,
            identity=self.identity,
            action=action,
            nonce=self.nonce,
            copy=self.copy,
            ref=self.ref,
            **content,
        )


class Answering:
    """Shows requests to people who may see them, and applies their decisions. `lines` and `chars`
    are the size of a card on this `platform`."""

    def __init__(self, api: AdapterApi, platform: str, *, lines: int, chars: int) -> None:
        self._api = api
        self._worklist = Worklist(api)
        self._platform = platform
        self._size = (lines, chars)

    async def _find_refusal(self, press: Press, record: StoredRequest) -> tuple[Press, str | None]:
        """Return the press, with the person's groups if they were needed, and why this person may
        not decide the request. Without an obstacle, the reason is empty (None)."""
        refusal = await self._api.requests.may_decide(press.identity, record)
        if refusal is not None and press.groups is not None:
            identity = replace(press.identity, groups=await press.groups())
            press = replace(press, identity=identity)
            refusal = await self._api.requests.may_decide(identity, record)
        return press, refusal

    async def check_approver(self, press: Press) -> StoredRequest:
        """Return the request if this person may decide it. Raises NotFound, Unauthorized."""
        record = await self._api.requests.get(press.request_id)
        press, refusal = await self._find_refusal(press, record)
        if refusal is not None:
            await self._refuse(press, refusal)
        return record

    async def check_viewer(self, press: Press) -> tuple[StoredRequest, str]:
        """Return the request if this person may see it, and why they may not decide it, "" if they
        may. Raises NotFound, Unauthorized."""
        record = await self._api.requests.get(press.request_id)
        press, refusal = await self._find_refusal(press, record)
        if refusal is not None and not await self._worklist.is_involved(press.identity, record):
            await self._refuse(press, refusal)
        return record, refusal or ""

    async def get_open(self, press: Press) -> StoredRequest:
        """Return the request if this person may decide it now, in the version that they saw. Raises
        NotFound, Unauthorized, Conflict."""
        record = await self.check_approver(press)
        refuse_old(press, record)
        return record

    async def decide(self, press: Press, action: Action, **content: Any) -> StoredRequest:
        """Decide the request. Raises the same errors as `RequestCalls.decide`."""
        click = press.click(action, **content)
        return await self._api.requests.decide(click, groups=press.groups)

    async def claim(self, press: Press, *, on: bool) -> StoredRequest:
        """Record whether this person is looking at the request. Raises the same errors as
        `decide`."""
        return await self._api.requests.claim(
            press.request_id, press.identity, on=on, groups=press.groups
        )

    # ---------------------------------------------------------------- cards

    async def build_posted(self, record: StoredRequest) -> Card:
        """Return the card to post."""
        lines, chars = self._size
        card = await self._api.requests.draw(record, self._platform, lines=lines, chars=chars)
        leads = self._api.address_of(record.id) if leads_to_inbox(card) else ""
        return replace(card, inbox=leads)

    async def build_own(self, record: StoredRequest, identity: Identity) -> tuple[Card, bool]:
        """Return this person's card at the posted size, with its address, and whether they are
        marked as looking at it."""
        reader = await self._name(identity)
        card = await self._draw(record, *self._size, reader)
        mine = record.claim is not None and record.claim.person == reader
        return replace(card, inbox=self._api.address_of(record.id)), mine

    async def build_whole(self, record: StoredRequest, identity: Identity | None = None) -> Card:
        """Return the card without a size limit, and therefore with every control, and with its
        address."""
        reader = "" if identity is None else await self._name(identity)
        card = await self._draw(record, WHOLE, WHOLE, reader)
        return replace(card, inbox=self._api.address_of(record.id))

    async def build_for_form(self, record: StoredRequest) -> Card:
        """Return a card with every control, and the part of the call to show at the top of a
        form."""
        card = await self.build_whole(record)
        about = await self._draw(record, ABOUT_LINES, ABOUT_CHARS)
        return replace(card, blocks=about.blocks, complete=about.complete, size=about.size)

    async def _draw(self, record: StoredRequest, lines: int, chars: int, reader: str = "") -> Card:
        return await draw(
            lambda: card_of(record, lines=lines, chars=chars, reader=reader), *weight_of(record)
        )

    async def _name(self, identity: Identity) -> str:
        person = await self._api.requests.person(identity)
        return person.name if person else identity.written

    async def _refuse(self, press: Press, why: str) -> None:
        await self._api.requests.refuse(press.request_id, press.identity, why)
        raise Unauthorized(why)


def refuse_old(press: Press, record: StoredRequest) -> None:
    """Raise Conflict if a request is decided, or has changed since the card was shown."""
    if record.final:
        raise Conflict(f"this request was decided already: {describe_state(record)}")
    if press.revision < record.shown_since:
        raise Conflict(CHANGED)


def describe_state(record: StoredRequest) -> str:
    """Return a request's outcome or progress, as a sentence."""
    card = card_of(record, lines=1, chars=1)
    if card.outcome is not None:
        return as_sentence(card.outcome.text)
    return as_sentence(card.progress or "it is still pending")


def as_sentence(text: str) -> str:
    """Return the gateway's words as a sentence, with an initial capital and a full stop."""
    stop = "" if text.endswith((".", "!", "?", "…")) else "."
    return f"{text[:1].upper()}{text[1:]}{stop}"


# The contents of forms.


def read_denial(
    *,
    tapped: str = "",
    reason: str = "",
    note: str = "",
    replan: bool = False,
    again: str = "",
) -> JsonObject:
    """Return the content of a denial, for `Answering.decide`.

    The content has the reason that the person tapped, the one they typed, the note, and whether
    they want another plan. `again` says what happens to an identical request. Raises WrongField if
    they want another plan but typed no reason.
    """
    words = join_reason(tapped, reason.strip())
    if replan and not words:
        raise WrongField(REASON, SAY_THE_PLAN)
    return {
        "message": words,
        "note": note,
        "feedback": replan,
        "remember": remember_denial(again),
    }


def find_reason(number: str) -> str:
    """Return the reason for a denial whose button has this number. Raises InvalidRequest."""
    if number not in map(str, range(len(DENIALS))):
        raise InvalidRequest("unknown reason; choose one of the offered reasons")
    return DENIALS[int(number)]


def find_numbered(card: Card) -> Control:
    """Return the card's approve control that requires a verification code. Raises
    InvalidRequest."""
    for control in card.controls:
        if control.action is Action.APPROVE and control.number:
            return control
    raise InvalidRequest("this request no longer needs a number; read it again")


def warn_of_tries(guesses: int) -> str:
    """Return how many tries are left for a verification code after `guesses` wrong ones, in
    words."""
    left = MOST_GUESSES - guesses
    tries = "1 try is left" if left == 1 else f"{left} tries are left"
    return f"⚠️ {tries}: the third wrong number denies the request."


def read_answers(fields: Sequence[Field], given: Sequence[str | list[str] | None]) -> JsonObject:
    """Return the answers to a form's fields, without empty answers.

    A choice is given as its number, a boolean as YES or NO, any other answer as text. Raises
    WrongField, which names the field as people see it.
    """
    found = {
        field.id: _read_answer(field, value)
        for field, value in zip(fields, given, strict=True)
        if value not in (None, "", [])
    }
    return {name: value for name, value in found.items() if value is not None}


def _read_answer(field: Field, given: str | list[str] | None) -> Any:
    text = given if isinstance(given, str) else "".join((given or [])[:1])
    if field.kind is FieldKind.TEXT:
        return text
    if field.kind is FieldKind.NUMBER:
        return _read_number(field, text)
    if field.kind is FieldKind.BOOLEAN:
        return text == YES
    chosen = given if isinstance(given, list) else [text]
    try:
        values = [field.choices[int(number)].value for number in chosen]
    except (ValueError, IndexError):
        raise _wrong(field, "is not one of the choices") from None
    return values if field.kind is FieldKind.CHOICES else values[0]


def _read_number(field: Field, text: str) -> int | float:
    try:
        value = parse_json(text.strip().encode())
    except InvalidRequest:
        value = None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong(field, "is not a number")
    return value


def _wrong(field: Field, why: str) -> WrongField:
    return WrongField(field.id, f"the answer to {field.text.text!r} {why}")


# Edits: the typed values are kept for an hour, checked, shown as a diff, and approved. After a
# refusal they are still there to edit again.

KEPT_NOTE = "Nothing was decided; what you typed is kept."
YES_NO = (("true", "Yes"), ("false", "No"))
"""The choices of a yes-or-no field."""
_KEPT_SECONDS = 3600.0
_MOST_NAMED = 3

Typed = Mapping[str, str] | str
"""Typed values, by field id, or the raw JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditState:
    """An edit that a person typed, stored under `key`. It has either the `diff` to approve, or a
    `refusal`, which is a sentence, and the faulty `field`. `high` says that it is high risk."""

    key: str
    typed: Typed
    diff: str = ""
    high: bool = False
    refusal: str = ""
    field: str = ""


class Edits:
    """Stores the values that people type in edits, and approves the edits."""

    def __init__(self, api: AdapterApi, answering: Answering) -> None:
        self._api = api
        self._answering = answering

    async def show(self, record: StoredRequest, typed: Typed, key: str) -> EditState:
        """Store the typed values under a key. Return their diff, or why they are wrong. Nothing is
        decided yet."""
        await self._api.notes.put(_name(key), json.dumps(typed), seconds=_KEPT_SECONDS)
        try:
            arguments = read_edit(record, typed)
            if not (diff := describe_changes(record, arguments)):
                raise WrongField("", "you changed nothing; approve the request as it is")
        except WrongField as wrong:
            why = _name_field(record, wrong)
            return EditState(key=key, typed=typed, refusal=why, field=wrong.field)
        high = record.risk.level is RiskLevel.HIGH
        return EditState(key=key, typed=typed, diff=diff, high=high)

    async def read_kept(self, key: str) -> Typed:
        """Return the stored values of an edit. Raises Conflict if they have expired."""
        text = await self._api.notes.get(_name(key))
        if text is None:
            raise Conflict("this edit has expired; edit the request again")
        kept: Typed = json.loads(text)
        return kept

    async def approve(
        self, press: Press, record: StoredRequest, key: str, *, high: bool
    ) -> StoredRequest | EditState:
        """Approve the changes that were shown. `high` says that the person confirmed a high risk.

        Return the request, or the edit to show again if it was rejected or has a high risk that was
        not confirmed. Raises Conflict if the edit has expired, StepUpNeeded, and the errors of
        `Answering.decide`.
        """
        typed = await self.read_kept(key)
        try:
            arguments = read_edit(record, typed)
            return await self._answering.decide(
                press, Action.EDIT, arguments=arguments, confirmed=high
            )
        except StepUpNeeded:
            raise
        except Unconfirmed:
            diff = describe_changes(record, arguments)
            return EditState(key=key, typed=typed, diff=diff, high=True)
        except InvalidRequest as refused:
            return EditState(key=key, typed=typed, refusal=as_sentence(str(refused)))


def read_edit(record: StoredRequest, typed: Typed) -> JsonObject:
    """Return the request's arguments, changed to the typed values. Raises WrongField."""
    if not isinstance(typed, str):
        return put_together(record, typed)
    try:
        arguments = parse_json(typed.encode("utf-8", "surrogatepass"))
    except InvalidRequest as error:
        raise WrongField("", str(error)) from error
    if not isinstance(arguments, dict):
        raise WrongField("", "the arguments must be one JSON object, in braces")
    check_edit(record, arguments)
    return arguments


def describe_changes(record: StoredRequest, arguments: JsonObject) -> str:
    """Return the changes that an edit makes, as a diff."""
    rows = changes(record.arguments, arguments)
    return "\n".join(f"{row.sign} {row.text.text}" for row in rows)


def name_left_out(fields: Sequence[EditField], shown: Sequence[EditField]) -> str:
    """Return a sentence that names the fields for which a form has no room, or ""."""
    rest = [one.label.text for one in fields if one not in shown]
    if not rest:
        return ""
    more = f" and {len(rest) - _MOST_NAMED} more" if len(rest) > _MOST_NAMED else ""
    return f"These are not shown here and stay unchanged: {', '.join(rest[:_MOST_NAMED])}{more}"


def _name_field(record: StoredRequest, wrong: WrongField) -> str:
    """Return why a field is wrong, in words that begin with the field's name as people see it."""
    named = (one.label.text for one in edit_fields(record) if one.id == wrong.field)
    return as_sentence(": ".join((*named, str(wrong))))


def _name(key: str) -> str:
    return f"edit {key}"


# Error texts for people.

_GONE = "This request is no longer available."
_NOT_RECORDED = "Not recorded: the gateway cannot reach its store. Try again in a moment."
_UNSURE = (
    "Something went wrong; probably nothing was recorded. If the card is still pending, try again."
)


def describe_error(error: Exception) -> tuple[str, str]:
    """Return a sign and a sentence that describe an error to a person, without claiming more than
    is known. The sentence may quote other people's text, and is safe to show."""
    if isinstance(error, NotFound):
        return "🗑️", _GONE
    if isinstance(error, Unreachable):
        return "⚠️", _NOT_RECORDED if error.code == Unreachable.code else _say(error)
    if isinstance(error, Unauthorized):
        return "⛔", _say(error)
    if isinstance(error, InvalidRequest) and not isinstance(error, Conflict):
        return "✏️", f"{_say(error)} Nothing was decided."
    if isinstance(error, GatewayError) and not isinstance(error, DeliveryFailed):
        return "ℹ️", _say(error)  # noqa: RUF001 (the sign is for people)
    log.error("not done: %s", bug(error), extra={"event": "chat_failed"})
    return "⚠️", _UNSURE


def _say(error: GatewayError) -> str:
    return as_sentence(render_safe(str(error)).text)
