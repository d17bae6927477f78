"""Pure functions that compute how a click or the passing of time changes a record. Start with
`apply_click`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from gateway.domain.parsing import check_schema
from gateway.domain.records import NOBODY, Click, Remember, RequestOutcome, StoredRequest, Vote
from gateway.domain.redaction import masks_in
from gateway.domain.risk import MOST_GUESSES, StepUpDone
from gateway.errors import Conflict, InvalidRequest, Unconfirmed
from gateway.models import (
    Action,
    DecidedBy,
    DeciderKind,
    Decision,
    Execution,
    FieldKind,
    HostRule,
    Kind,
    Question,
    Reason,
    Report,
    RiskLevel,
    Status,
)
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject, plain

SignDecision = Callable[[Decision], Decision]

_STATUS = {
    Action.APPROVE: Status.APPROVED,
    Action.EDIT: Status.APPROVED,
    Action.RESPOND: Status.APPROVED,
    Action.ANSWER: Status.APPROVED,
    Action.DENY: Status.DENIED,
    Action.ABORT: Status.DENIED,
}
_ABORTS = ("turn", "agent")
_NONCES_KEPT = 20
_NONCE_LENGTH = 32
_NOTHING_MORE = (None,) * 5


def close_record(
    record: StoredRequest,
    ending: RequestOutcome,
    *,
    revision: int,
    now: int,
    sign: SignDecision,
    **noted: Any,
) -> StoredRequest:
    """Return the record with its final decision, at the given revision.

    `noted` are other members of the record to set.
    """
    decision = Decision(
        request_id=record.id,
        revision=revision,
        status=ending.status,
        action=ending.action,
        reason=ending.reason,
        digest=record.digest,
        decided_by=ending.by,
        decided_at=max(now, record.created),  # two clocks may differ
        expires_at=record.deadline,
        message=ending.message,
        arguments=ending.arguments,
        answers=ending.answers,
        result=ending.result,
        abort=ending.abort,
        host_rule=ending.host_rule,
    )
    approved = ending.status is Status.APPROVED
    # A process that no longer waits gets nothing; it asks when it comes back.
    consumers = (record.process,) if approved and record.process and record.waiting else ()
    return record.copy_with(
        status=ending.status,
        revision=revision,
        decision=sign(decision),
        consumers=consumers,
        spends=ending.spends,
        **noted,
    )


def is_news(known: Report | None, report: Report) -> bool:
    """Return whether a report adds to the previous report. The order is: started, then a final
    result."""
    return known is None or (
        known.execution is Execution.STARTED and report.execution is not Execution.STARTED
    )


def give_up(
    record: StoredRequest, why: str = "superseded by a newer version"
) -> StoredRequest | None:
    """Return a record whose approval can no longer be claimed. None if the request is not approved,
    the approval was already voided, or the call was already started."""
    if record.status is not Status.APPROVED or record.given_up or record.report is not None:
        return None
    report = Report(execution=Execution.REFUSED_LATE, detail=why)
    return replace(
        record,
        report=report,
        consumers=(*record.consumers, NOBODY),
        revision=record.revision + 1,
    )


def note_never_fetched(record: StoredRequest) -> StoredRequest | None:
    """Return an approved record with a note that no process claimed the approval. None if a process
    claimed it or reported a result."""
    if not record.untaken:
        return None
    report = Report(execution=Execution.NEVER_FETCHED)
    return replace(record, report=report, revision=record.revision + 1)


def erase_content(record: StoredRequest) -> StoredRequest:
    """Return a final record without its content. The names of people, times and digests are
    kept."""
    request = replace(
        record.request,
        arguments={},
        payload=None,
        hint="",
        preview=None,
        context=replace(record.request.context, cwd=None, env={}, files={}),
        questions=(),
        kind=Kind.TOOL
        if record.request.kind in (Kind.QUESTION, Kind.CALLS)
        else record.request.kind,
        schema=None,
        roles={},
        host_rules=(),
    )
    decision = record.decision and replace(
        record.decision, message="", arguments=None, answers=None, result=None, host_rule=None
    )
    return replace(
        record,
        request=request,
        edited=None,
        risk=replace(record.risk, reasons=()),
        raised=tuple(replace(one, reasons=()) for one in record.raised),
        edits=tuple(replace(one, why="") for one in record.edits),
        findings=(),
        asks_because="",
        finding_places=(),
        decision=decision,
        note="",
        erased=True,
        revision=record.revision + 1,
    )


class ClickResult(NamedTuple):
    """Result of a click: the changed record, the name of its event, and the person's secret
    answers."""

    after: StoredRequest
    event: str
    secrets: JsonObject | None = None


class Clicker(NamedTuple):
    """The person who clicked, the route entry that allows them to decide, the click's ID on the
    record, and the extra verification that they completed."""

    person: str
    via: str
    nonce: str
    stepped: StepUpDone | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberRequest:
    """The grant that an approval should create, and how many votes it needs. `host_rule` is a rule
    that the coding agent stores instead."""

    remember: Remember
    needs: int
    host_rule: HostRule | None = None


def apply_click(
    record: StoredRequest,
    click: Click,
    by: Clicker,
    *,
    now: int,
    sign: SignDecision,
    wished: Callable[[StoredRequest], RememberRequest | None] = lambda record: None,
    again: str = "",
    edited: StoredRequest | None = None,
) -> ClickResult:
    """Return what an authorized click does to a pending record.

    `wished` returns the grant to create for the record after the click, or raises an error. `again`
    is the error text for a person who already approved. `edited` is the record with the person's
    edit (`edit_record`). Raises Conflict for an outdated revision or a repeated vote. Raises
    InvalidRequest if the action is not allowed or its content does not fit the request.
    """
    check_action(record, click)
    if click.action is Action.EDIT:
        record = edited or edit_record(record, click, by)
    if click.action in (Action.DENY, Action.ABORT):
        return _end(record, click, by, now=now, sign=sign)
    if click.action in (Action.RESPOND, Action.ANSWER):
        _refuse_quorum(record)
        return _end(record, click, by, now=now, sign=sign)
    wish = None if click.remember is None else wished(record)
    kept = None if wish is None else wish.host_rule
    alone = record.quorum <= 1 and (wish is None or wish.needs <= 1)
    if alone and not record.votes:
        return _end(record, click, by, now=now, sign=sign, host_rule=kept)
    vote = Vote(
        person=by.person,
        action=click.action,
        at=now,
        via=by.via,
        remember=wish.remember if wish else None,
        needs=wish.needs if wish else 0,
        stepped=by.stepped,
    )
    if any((one.person, one.remember) == (by.person, vote.remember) for one in record.votes):
        raise Conflict(
            again or "you have already approved this; another person must approve it too"
        )
    # A person may change their vote, and votes for one thing only.
    votes = (*(one for one in record.votes if one.person != by.person), vote)
    if len(votes) >= record.quorum and len(agreeing_votes(votes, vote.remember)) >= vote.needs:
        return _end(record, click, by, now=now, sign=sign, host_rule=kept, votes=votes)
    after = replace(record, votes=votes, nonces=_nonces(record, by), revision=record.revision + 1)
    return ClickResult(after=after, event="edited" if click.action is Action.EDIT else "voted")


def hand_on(edited: StoredRequest, by: Clicker) -> ClickResult:
    """Return the result of an edit by a person who may not approve the edited call. The request
    stays pending for people who may."""
    after = replace(edited, nonces=_nonces(edited, by), revision=edited.revision + 1)
    return ClickResult(after=after, event="edited")


def count_guess(record: StoredRequest, by: Clicker, *, now: int, sign: SignDecision) -> ClickResult:
    """Return the result of a wrong code: the attempt is counted, and the last allowed one denies
    the request."""
    guesses = record.guesses + 1
    counted = replace(record, guesses=guesses, nonces=_nonces(record, by))
    if guesses < MOST_GUESSES:
        after = replace(counted, revision=record.revision + 1)
        return ClickResult(after=after, event="number_refused")
    denial = RequestOutcome(status=Status.DENIED, action=Action.DENY, reason=Reason.WRONG_NUMBER)
    note = f"{by.person} typed the last wrong number"
    after = close_record(
        counted, denial, revision=record.revision + 1, now=now, sign=sign, note=note
    )
    return ClickResult(after=after, event=str(after.status))


def agreeing_votes(votes: Iterable[Vote], wish: Remember | None) -> tuple[Vote, ...]:
    """Return the votes for the same offer, for this session or for all as wished, whatever their
    lifetime."""
    if wish is None:
        return ()
    return tuple(
        vote
        for vote in votes
        if vote.remember is not None
        and (vote.remember.offer, vote.remember.everywhere) == (wish.offer, wish.everywhere)
    )


def nonce_of(click: Click, person: str) -> str:
    """Return the ID of this person's click on the record. It is the same each time the click is
    sent.

    A different decision with the same nonce gets a different ID, so that it never counts as already
    applied.
    """
    said = f"{person} {click.nonce} {click.action}".encode()
    answer = (click.arguments, click.answers, click.result, click.abort, click.remember)
    if answer != _NOTHING_MORE:
        said += canonical([plain(part) for part in answer])
    if click.number:
        said += f" {click.number}".encode()
    return sha256_hex(said)[:_NONCE_LENGTH]


def _nonces(record: StoredRequest, by: Clicker) -> tuple[str, ...]:
    return (*record.nonces, by.nonce)[-_NONCES_KEPT:]


def check_action(record: StoredRequest, click: Click) -> None:
    """Raise if the click's action, revision or confirmation does not fit a pending record. See
    `apply_click`."""
    if (
        record.risk.level is RiskLevel.HIGH
        and not click.confirmed
        and click.action not in (Action.DENY, Action.ABORT)
    ):
        raise Unconfirmed("this request is high risk: confirm that you have read all of it")
    # An edit that strikes nothing approves the complete list.
    whole = click.action is Action.APPROVE or (
        click.action is Action.EDIT and click.arguments == record.arguments
    )
    planned = record.request.kind is Kind.CALLS and whole
    if planned and not click.confirmed:
        raise Unconfirmed("this is a plan: confirm that you have read every line of it")
    if click.revision < record.shown_since or click.revision > record.revision:
        raise Conflict("the request has changed since you saw it; read it again")
    # A denial is always possible, even if the agent does not list it.
    if click.action is not Action.DENY and click.action not in record.request.allowed:
        takes = " or ".join(dict.fromkeys((*record.request.allowed, Action.DENY)))
        raise InvalidRequest(f"this request does not allow {click.action}; it allows {takes}")
    if (click.action is Action.ANSWER) != bool(record.request.questions) and (
        click.action not in (Action.DENY, Action.ABORT)
    ):
        raise InvalidRequest(
            f"{click.action} is not possible for a request of kind {record.request.kind}"
        )


def _refuse_quorum(record: StoredRequest) -> None:
    if record.quorum > 1:
        raise InvalidRequest(
            f"{record.quorum} people must decide this request, so you can only "
            f"approve, edit or deny it"
        )


def edit_record(record: StoredRequest, click: Click, by: Clicker) -> StoredRequest:
    """Return a pending record with the edited arguments, and without votes for the earlier
    arguments. Raises the errors of `apply_click`."""
    check_action(record, click)
    if click.arguments is None:
        raise InvalidRequest("an edit needs the new arguments")
    if masks_in(click.arguments) - masks_in(record.arguments):
        raise InvalidRequest(
            "the arguments contain a masked secret: reveal the secret before you edit"
        )
    check_schema(record.request.schema, click.arguments)
    editor = DecidedBy(kind=DeciderKind.PERSON, name=by.person)
    return replace(
        record.edited_as(click.arguments, editor),
        shown_since=record.revision + 1,
        votes=(),
    )


def _end(
    record: StoredRequest,
    click: Click,
    by: Clicker,
    *,
    now: int,
    sign: SignDecision,
    host_rule: HostRule | None = None,
    **noted: Any,
) -> ClickResult:
    answers, secrets = (
        _answers(record.request.questions, click) if click.action is Action.ANSWER else (None, None)
    )
    if click.abort is not None and click.abort not in _ABORTS:
        raise InvalidRequest("the member abort must be turn or agent")
    feedback = click.action is Action.DENY and click.feedback
    edited = click.action is Action.APPROVE and record.edited is not None
    ending = RequestOutcome(
        status=_STATUS[click.action],
        # A partner's approval of edited arguments is still an edit to whoever runs them.
        action=Action.EDIT if edited else click.action,
        reason=Reason.FEEDBACK if feedback else Reason.PERSON,
        by=DecidedBy(kind=DeciderKind.PERSON, name=by.person),
        message=click.message,
        arguments=record.edited,
        answers=answers,
        result=click.result if click.action is Action.RESPOND else None,
        abort=(click.abort or "turn") if click.action is Action.ABORT else None,
        host_rule=host_rule,
    )
    after = close_record(
        record,
        ending,
        revision=record.revision + 1,
        now=now,
        sign=sign,
        note=click.note,
        nonces=_nonces(record, by),
        **noted,
    )
    return ClickResult(after=after, event=str(after.status), secrets=secrets)


def _answers(
    questions: tuple[Question, ...], click: Click
) -> tuple[JsonObject | None, JsonObject | None]:
    given = click.answers or {}
    if unknown := set(given) - {question.id for question in questions}:
        raise InvalidRequest(f"the form has no field {sorted(unknown)[0]!r}")
    for question in questions:
        _check_answer(question, given.get(question.id))
    secret_ids = {question.id for question in questions if question.secret}
    secrets = {name: value for name, value in given.items() if name in secret_ids}
    answers = {name: None if name in secrets else value for name, value in given.items()}
    return answers, secrets or None


def _check_answer(question: Question, value: Any) -> None:
    if value is None or value in ("", []):
        if question.required:
            raise InvalidRequest(f"the field {question.id!r} needs an answer")
        return
    choices = {option.value for option in question.options}
    fits = {
        FieldKind.TEXT: lambda: isinstance(value, str),
        FieldKind.NUMBER: lambda: isinstance(value, int | float) and not isinstance(value, bool),
        FieldKind.BOOLEAN: lambda: isinstance(value, bool),
        FieldKind.CHOICE: lambda: isinstance(value, str) and value in choices,
        FieldKind.CHOICES: lambda: (
            isinstance(value, list)
            and all(isinstance(item, str) and item in choices for item in value)
        ),
    }
    if not fits[question.kind]():
        raise InvalidRequest(
            f"the answer to {question.id!r} is not valid for a field of kind {question.kind}"
        )
