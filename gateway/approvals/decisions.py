"""Decides on clicks, one request or a batch. Rights are checked at that moment."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from gateway.approvals.agent_service import end_siblings
from gateway.approvals.grant_creation import GrantCreation
from gateway.approvals.plan_grants import list_grants
from gateway.approvals.request_writer import Overtaken, Writer
from gateway.approvals.transitions import (
    Clicker,
    ClickResult,
    apply_click,
    check_action,
    count_guess,
    edit_record,
    hand_on,
    nonce_of,
)
from gateway.cards.blocks import draw, weight_of
from gateway.cards.masks import NEEDS_ALL_SEEN, MaskProofs
from gateway.cards.shared_texts import standing_of
from gateway.domain.policy_document import Ruling
from gateway.domain.records import Click, StoredRequest, told_changes, told_outcome
from gateway.domain.risk import MOST_GUESSES, NUMBER, StepUp, StepUpDone
from gateway.domain.store import Store, Transition
from gateway.errors import (
    BatchRefused,
    Conflict,
    GatewayError,
    InvalidRequest,
    NotFound,
    NotRemembered,
    StepUpNeeded,
    Unauthorized,
    Unconfirmed,
    Unreachable,
    WrongNumber,
)
from gateway.models import Action, Kind, Reason, RiskLevel, Status
from gateway.policy.authorization import (
    NO_STEP_UP,
    Approver,
    approver,
    may_approve,
    refuse_unknown,
    who_may_approve,
    with_valid_votes,
)
from gateway.policy.chain import ALLOW, ASK, MODIFY, Chain
from gateway.policy.grants.grant import Grant
from gateway.policy.guardrails import assess, calculate_risk
from gateway.ports.adapter_api import Groups
from gateway.ports.sign_in import Proof, Prove, subject_of
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.codec import JsonObject, plain
from gateway.wire.outcome_text import join_names

log = logging.getLogger("gateway.approvals")


async def with_groups(click: Click, groups: Groups) -> Click:
    """Return the click of the same person, who is in these groups."""
    return replace(click, identity=replace(click.identity, groups=await groups()))


class JudgedClick(NamedTuple):
    """What a click does: the step to take, None for none; the grant to remember it by; and what
    whoever clicked is told instead of the result, once the step is taken."""

    transition: Transition | None = None
    grant: Grant | None = None
    refusal: GatewayError | None = None


class ClickJudge:
    """Decides on clicks, under the policy as it is now."""

    def __init__(
        self,
        store: Store,
        chain: Chain,
        writer: Writer,
        remembering: GrantCreation,
        proofs: MaskProofs,
    ) -> None:
        self._store = store
        self._chain = chain
        self._writer = writer
        self._remembering = remembering
        self._proofs = proofs

    async def decide(
        self, click: Click, groups: Groups | None = None, prove: Prove | None = None
    ) -> StoredRequest:
        """Apply a click. See `gateway.ports.RequestCalls` for what it raises."""
        attempt = _Attempt(self, click, groups, prove and _once(prove))
        known = self._store.recent(click.request_id)
        try:
            record, _ = await self._writer.update(click.request_id, attempt.step, known=known)
            if attempt.judged.refusal is not None:
                raise attempt.judged.refusal
        except GatewayError as refusal:
            await self.note(refusal, attempt.click)
            raise
        return await self._remember(record, attempt.judged)

    async def _remember(self, record: StoredRequest, judged: JudgedClick) -> StoredRequest:
        """Write down what is to be remembered, now that it is decided, let what was planned settle
        what waits, and end what was stopped with it; return the record.

        Whatever becomes of that, the answer is recorded: raises NotRemembered, which says so. A
        click that is sent again does only this part.
        """
        grant, lines = judged.grant, judged.transition.grants if judged.transition else ()
        try:
            if grant is not None:
                await self._remembering.keep(grant)
            if lines:
                await self._remembering.settle(lines)
            await end_siblings(self._store, self._writer, record)
        except Exception as error:
            log.exception("what follows an answer failed", extra={"event": "not_remembered"})
            raise NotRemembered(_say_failed(grant, error), record) from error
        return record

    async def judge(
        self,
        record: StoredRequest,
        ruling: Ruling,
        click: Click,
        *,
        last: bool = True,
        prove: Prove | None = None,
    ) -> JudgedClick:
        """Return what a click does to a record, nothing when it did so before. Raises as `decide`
        does.

        Unless it is the `last` look, who may not is asked about again, with their groups.
        """
        ruling, who = await self._approver(record, ruling, click, last=last)
        by = Clicker(who.name, who.via, nonce_of(click, who.name))
        if by.nonce in record.nonces:
            return self._judge_again(ruling, record, click, who, by.nonce)
        if record.final:
            raise Conflict(f"this was decided already: {record.hide(told_outcome(record))}")
        await self._refuse_hidden(record, click)
        counted = with_valid_votes(ruling, record)
        click = _confirm_by_number(ruling, counted, click)
        check_action(counted, click)
        edited = await self._edit(counted, click, by, ruling)
        if edited is not None:
            click = _confirm_by_number(ruling, edited, click)
            if not may_approve(ruling, edited, click.identity):
                return JudgedClick(_step(record, hand_on(edited, by), ruling))
            who = _check_edited(edited, click, ruling)
        done = await self._step_up(ruling, edited or counted, click, prove)
        effect, grant = self._apply(ruling, counted, click, who, by._replace(stepped=done), edited)
        lines = list_grants(ruling, effect.after, click, self._writer.now())
        number = ""
        if done is not None and done.way is StepUp.NUMBER:
            # Only now, when the right one would count: who can confirm nothing uses up no try.
            number = click.number
            try:
                await self._compare(record, number)
            except WrongNumber as wrong:
                return JudgedClick(self._count_guess(record, counted, by, ruling), refusal=wrong)
        step = _step(record, effect, ruling, number)
        minutes = self._remembering.minutes_of(effect.after, click)
        return JudgedClick(step._replace(minutes=minutes, grants=lines), grant)

    def _apply(
        self,
        ruling: Ruling,
        record: StoredRequest,
        click: Click,
        who: Approver,
        by: Clicker,
        edited: StoredRequest | None,
    ) -> tuple[ClickResult, Grant | None]:
        """Return what a click does whose step-up is done, and the grant to remember it by."""
        asked = ruling.step_up(edited or record).asked
        if asked and by.stepped is None:
            # Whoever does no other step-up is the first of two.
            record, edited = _for_two(record), edited and _for_two(edited)
        effect = apply_click(
            record,
            click,
            by,
            now=self._writer.now(),
            sign=self._writer.sign,
            wished=lambda shown: self._remembering.check_wish(ruling, shown, click),
            again=_waits_for(ruling, record, who.name),
            edited=edited,
        )
        after = effect.after
        if asked and after.status is Status.APPROVED:
            after = after.copy_with(stepped=_steps_of(after, by))
        grant = None
        if after.final:
            grant = self._remembering.plan_grant(ruling, after, click, who, by.nonce)
        return effect._replace(after=after), grant

    def _judge_again(
        self, ruling: Ruling, record: StoredRequest, click: Click, who: Approver, nonce: str
    ) -> JudgedClick:
        """Return what a click does that was applied before: only what decided is remembered; a
        vote sent again waits for others as before, and a wrong number stays wrong."""
        ended = record.decision
        if ended is not None and ended.reason is Reason.WRONG_NUMBER:
            raise Conflict(f"this was decided already: {record.hide(told_outcome(record))}")
        if not record.final or record.nonces[-1] != nonce:
            if click.number and who.name not in {vote.person for vote in record.votes}:
                raise _wrong(record.guesses)
            return JudgedClick()
        grant = self._remembering.plan_grant(ruling, record, click, who, nonce)
        return JudgedClick(None, grant)

    async def _step_up(
        self, ruling: Ruling, record: StoredRequest, click: Click, prove: Prove | None
    ) -> StepUpDone | None:
        """Return the step-up that a click does, None where none is asked for or it is one of two
        people's. A number is compared later. Raises StepUpNeeded, InvalidRequest where none can be
        done."""
        asked, able = ruling.step_up(record)
        if not asked or click.action in (Action.DENY, Action.ABORT):
            return None
        if not able:
            raise InvalidRequest(
                f"nobody may approve this at {record.risk.level} risk: {NO_STEP_UP}"
            )
        if click.number and StepUp.NUMBER in able:
            if not NUMBER.fullmatch(click.number):
                raise InvalidRequest("the number has three digits")
            return StepUpDone(way=StepUp.NUMBER)
        if prove is not None and StepUp.PASSKEY in able:
            return await _check_passkey(record, click, prove)
        if StepUp.PERSON in able:
            refuse_unknown(ruling.policy, click.identity)
            return None
        how = {
            StepUp.NUMBER: f"type the number that is shown where {record.request.agent} waits",
            StepUp.PASSKEY: "confirm it with a passkey in the inbox",
        }
        raise StepUpNeeded(join_names([how[way] for way in able], "or"))

    async def _compare(self, record: StoredRequest, typed: str) -> None:
        """Raise WrongNumber unless this is the request's number."""
        number = await self._store.number_of(record.id)
        if number is None or not hmac.compare_digest(number, typed):
            raise _wrong(record.guesses + 1)

    def _count_guess(
        self, record: StoredRequest, counted: StoredRequest, by: Clicker, ruling: Ruling
    ) -> Transition:
        """Return the step that counts a wrong number. It is nobody's denial."""
        effect = count_guess(counted, by, now=self._writer.now(), sign=self._writer.sign)
        data = {"person": by.person, "guesses": effect.after.guesses}
        step = _step(record, effect, ruling)
        return step._replace(data=None if effect.after.final else data, budget=None)

    async def _approver(
        self, record: StoredRequest, ruling: Ruling, click: Click, *, last: bool
    ) -> tuple[Ruling, Approver]:
        """Return who clicked, if they may decide, and under which ruling; the last refusal is
        checked afresh."""
        try:
            return ruling, approver(ruling, record, click.identity)
        except Unauthorized:
            if not last:
                raise
            ruling = (await self._writer.fresh_policy()).ruling_on(record.request)
        return ruling, approver(ruling, record, click.identity)

    async def note(self, refusal: GatewayError, click: Click) -> None:
        """Audit that someone clicked who may not, or typed a number in vain."""
        if isinstance(refusal, Unauthorized) or click.number:
            data = {"request_id": click.request_id, "why": str(refusal)}
            await self._store.note("refused", agent=click.identity.written, data=data)

    async def _edit(
        self, record: StoredRequest, click: Click, by: Clicker, ruling: Ruling
    ) -> StoredRequest | None:
        """Return the record as a click edits it, assessed as if the agent had asked so; None for
        another click. Raises when policy does not allow what would run then."""
        if click.action is not Action.EDIT:
            return None
        after = assess(edit_record(record, click, by), ruling)
        request = replace(after.request, arguments=after.arguments)
        # Hooks are asked all that they are asked then.
        asked = replace(after, request=request, edited=None)
        judged, verdict = await self._chain.decide(asked, ruling.route)
        if verdict is not None and verdict.effect not in (ALLOW, ASK):
            wants = "would change" if verdict.effect == MODIFY else "refuses"
            why = f": {verdict.message}" if verdict.message else ""
            raise InvalidRequest(f"{verdict.by.name} {wants} the edited arguments{why}")
        if judged.raised == after.raised:
            return after
        return calculate_risk(after.copy_with(raised=judged.raised), ruling)

    async def _refuse_hidden(self, record: StoredRequest, click: Click) -> None:
        """Raise InvalidRequest when a mask left out what could act, where this click was made."""
        if click.revealed or click.action not in NEEDS_ALL_SEEN:
            return
        known = self._proofs.recall(record)
        if known is None:
            known = await draw(lambda: self._proofs.hides(record), *weight_of(record))
        if known:
            raise InvalidRequest(
                "a masked part of this could act, so it is approved in the inbox only, once it is "
                'revealed there ("gateway login NAME" prints a link to the inbox)'
            )


class _Attempt:
    """The tries of one click: each of the record as it then stands."""

    def __init__(
        self, judge: ClickJudge, click: Click, groups: Groups | None, prove: Prove | None
    ) -> None:
        self._judge = judge
        self._groups = groups
        self._prove = prove
        self.click = click
        self.judged = JudgedClick()

    async def step(self, record: StoredRequest, ruling: Ruling) -> Transition | None:
        """Return what the click does; who may not decide is asked about again, with groups."""
        judge, last = self._judge.judge, self._groups is None
        try:
            self.judged = await judge(record, ruling, self.click, last=last, prove=self._prove)
        except Unauthorized:
            if self._groups is None:
                raise
            self.click = await with_groups(self.click, self._groups)
            self._groups = None
            self.judged = await judge(record, ruling, self.click, prove=self._prove)
        return self.judged.transition


def _say_failed(grant: Grant | None, error: Exception) -> str:
    what = "the rest of the turn may still wait" if grant is None else "it was not remembered"
    known = isinstance(error, GatewayError)
    why = str(error).removeprefix("nothing was recorded: ") if known else "the store failed"
    return f"your answer was recorded, but {what}: {why}"


def _waits_for(ruling: Ruling, record: StoredRequest, name: str) -> str:
    """Say to who has voted who is missing."""
    if not record.votes:
        return ""
    seen = record.copy_with(approvers=who_may_approve(ruling, record))
    return standing_of(seen, name).words


def _confirm_by_number(ruling: Ruling, record: StoredRequest, click: Click) -> Click:
    """Return a click as confirmed that brings the number which its request is asked for: that is
    compared before anything comes of it. Any other number confirms nothing."""
    asked = StepUp.NUMBER in ruling.step_up(record).able
    return replace(click, confirmed=True) if click.number and asked else click


def _once(prove: Prove) -> Prove:
    """Return what checks each subject once, however often the click is judged anew: an assertion is
    good for one look, and stays refused when it was."""
    known: dict[str, Proof | GatewayError] = {}

    async def prove_once(subject: str) -> Proof:
        if subject not in known:
            try:
                known[subject] = await prove(subject)
            except GatewayError as refusal:
                known[subject] = refusal
        found = known[subject]
        if isinstance(found, GatewayError):
            raise found
        return found

    return prove_once


async def _check_passkey(record: StoredRequest, click: Click, prove: Prove) -> StepUpDone:
    """Return the step-up of somebody who agreed to exactly this with their own passkey. Raises
    Unauthorized."""
    proof = await prove(subject_of(record, click))
    if proof.identity != click.identity:
        raise Unauthorized("this passkey is somebody else's")
    return StepUpDone(way=StepUp.PASSKEY, name=proof.words)


def _for_two(record: StoredRequest) -> StoredRequest:
    return record.copy_with(quorum=max(record.quorum, 2))


def _steps_of(after: StoredRequest, by: Clicker) -> tuple[StepUpDone, ...]:
    """Return the step-ups that were done for an approval, each once: that there were two people is
    one where there was no other."""
    done = (*(vote.stepped for vote in after.votes), by.stepped)
    known = dict.fromkeys(one for one in done if one is not None)
    return tuple(known) or (StepUpDone(way=StepUp.PERSON),)


def _wrong(guesses: int) -> WrongNumber:
    left = MOST_GUESSES - guesses
    if left <= 0:
        return WrongNumber("this is not the number, for the third time: the request is denied")
    tries = "one try is" if left == 1 else f"{left} tries are"
    return WrongNumber(f"this is not the number that is shown where the agent waits; {tries} left")


def _step(
    record: StoredRequest, effect: ClickResult, ruling: Ruling, number: str = ""
) -> Transition:
    """Return a click's effect as a transition, under the ruling it was checked against."""
    after = effect.after
    return Transition(
        before=record,
        after=after,
        event=effect.event,
        data=_event_data(after),
        generation=ruling.policy.generation,
        secrets=effect.secrets,
        number=number,
        budget=ruling.policy.budget_for(after.request.agent),
    )


def _check_edited(after: StoredRequest, click: Click, ruling: Ruling) -> Approver:
    """Return who edits, by the rules for what would run then. Raises Unconfirmed or Unauthorized
    where it is of high risk, and this click not enough for that."""
    if after.risk.level is RiskLevel.HIGH and not click.confirmed:
        raise Unconfirmed("the edited arguments are high risk: confirm them")
    return approver(ruling, after, click.identity)


def _event_data(after: StoredRequest) -> JsonObject:
    """Return what the event of a vote says; that of an ending says what its decision says."""
    if after.final:
        return {}
    return {
        "digest": after.digest,
        "votes": plain(after.votes),
        **told_changes(after),
    }


# Decides several waiting requests of one agent by one answer: all of them, or none.

MOST = 50  # what a person may be asked to read in one go, and what one script decides

_ANSWERS = (Action.APPROVE, Action.DENY)


class Batches:
    """Judges each click of a batch as if it came alone, and has one script apply them."""

    def __init__(self, writer: Writer, clicks: ClickJudge) -> None:
        self._writer = writer
        self._clicks = clicks

    async def decide(self, clicks: Sequence[Click]) -> list[StoredRequest]:
        """Apply the clicks, all or none. See `gateway.ports.RequestCalls` for what it raises."""
        _check(clicks)
        clicks = _bind(clicks)

        judge = partial(self._judge, clicks)
        try:
            return await self._writer.update_all([one.request_id for one in clicks], judge)
        except Overtaken as late:
            raise BatchRefused({late.request_id: str(late)}) from None

    async def _judge(
        self, clicks: Sequence[Click], found: Sequence[StoredRequest | None]
    ) -> list[Transition]:
        """Return what the clicks do to those of the requests that they have not decided yet."""
        if len({record.request.agent for record in found if record}) > 1:
            raise InvalidRequest("a batch is of one agent")
        transitions: list[Transition] = []
        refused: dict[str, str] = {}
        for record, click in zip(found, clicks, strict=True):
            try:
                transition = await self._judge_one(record, click)
            except Unreachable:
                raise
            except GatewayError as refusal:
                await self._clicks.note(refusal, click)
                refused[click.request_id] = str(refusal)
                continue
            if transition is not None:
                transitions.append(transition)
        if refused:
            raise BatchRefused(refused)
        return transitions

    async def _judge_one(self, record: StoredRequest | None, click: Click) -> Transition | None:
        if record is None:
            raise NotFound("no such request")
        ruling = (await self._writer.policy()).ruling_on(record.request)
        approves = click.action is not Action.DENY
        if approves and ruling.step_up(record).asked:
            raise InvalidRequest("it takes a step-up, which is done alone")
        if approves and record.risk.level is RiskLevel.HIGH:
            raise InvalidRequest("it is high risk, which is decided alone")
        if approves and record.request.kind is Kind.CALLS:
            raise InvalidRequest("it is a plan, which is decided alone")
        return (await self._clicks.judge(record, ruling, click)).transition


def _check(clicks: Sequence[Click]) -> None:
    if not 1 <= len(clicks) <= MOST:
        raise InvalidRequest(f"a batch is of 1 to {MOST} requests")
    if len({click.request_id for click in clicks}) < len(clicks):
        raise InvalidRequest("a request stands twice in the batch")
    first = clicks[0]
    if any((one.identity, one.action) != (first.identity, first.action) for one in clicks):
        raise InvalidRequest("a batch is one answer of one person")
    if first.action not in _ANSWERS or any(click.remember for click in clicks):
        raise InvalidRequest("a batch is approved or denied, and not remembered")


def _bind(clicks: Sequence[Click]) -> list[Click]:
    """Return the clicks with a nonce that names this batch: a part of it is another batch."""
    named = sorted(f"{click.request_id} {click.revision} {click.nonce}" for click in clicks)
    nonce = sha256_hex(" ".join((clicks[0].action, *named)).encode())
    return [replace(click, nonce=nonce) for click in clicks]
