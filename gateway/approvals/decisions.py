"""Decide one request by a click (`ClickJudge`), or several at once (`Batches`), after checking
rights."""

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
    """Return the click with the groups of the person who clicked."""
    return replace(click, identity=replace(click.identity, groups=await groups()))


class JudgedClick(NamedTuple):
    """Result of a click: the transition or None, the grant to create, and the error to raise after
    the transition is written."""

    transition: Transition | None = None
    grant: Grant | None = None
    refusal: GatewayError | None = None


class ClickJudge:
    """Decides clicks under the current policy."""

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
        """Apply a click. `gateway.ports.RequestCalls` lists its errors."""
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
        """Complete a decision: create the grant, apply a plan's grants to pending requests, and end
        the requests of a stopped turn. Return the record.

        Raises NotRemembered if that fails; the decision stays recorded. If the click is sent again,
        only these steps are repeated.
        """
        grant, lines = judged.grant, judged.transition.grants if judged.transition else ()
        try:
            if grant is not None:
                await self._remembering.keep(grant)
            if lines:
                await self._remembering.settle(lines)
            await end_siblings(self._store, self._writer, record)
        except Exception as error:
            about = {"request": record.id, "agent": record.request.agent}
            about |= {"grant": grant.id} if grant else {}
            log.exception(
                "the steps that follow a decision failed",
                extra={"event": "not_remembered", **about},
            )
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
        """Return what a click does to a record, which is nothing if it was already applied. Raises
        the errors of `decide`.

        `last=False` means that the caller will try again with the person's groups.
        """
        ruling, who = await self._approver(record, ruling, click, last=last)
        by = Clicker(who.name, who.via, nonce_of(click, who.name))
        if by.nonce in record.nonces:
            return self._judge_again(ruling, record, click, who, by.nonce)
        if record.final:
            raise Conflict(f"this request was decided already: {record.hide(told_outcome(record))}")
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
            # Compare only now, when a correct code would count: others do not use up a try.
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
        """Return the result of a click after extra verification, and the grant to create."""
        asked = ruling.step_up(edited or record).asked
        if asked and by.stepped is None:
            # Without other extra verification, the person is the first of two approvers.
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
        """Return the result of a click that was applied before. Its grant is created only if the
        request is decided: a repeated vote still waits for others, and a wrong code stays wrong."""
        ended = record.decision
        if ended is not None and ended.reason is Reason.WRONG_NUMBER:
            raise Conflict(f"this request was decided already: {record.hide(told_outcome(record))}")
        if not record.final or record.nonces[-1] != nonce:
            if click.number and who.name not in {vote.person for vote in record.votes}:
                raise _wrong(record.guesses)
            return JudgedClick()
        grant = self._remembering.plan_grant(ruling, record, click, who, nonce)
        return JudgedClick(None, grant)

    async def _step_up(
        self, ruling: Ruling, record: StoredRequest, click: Click, prove: Prove | None
    ) -> StepUpDone | None:
        """Return the extra verification that a click completes. None if none is required, or if a
        second approver completes it. Codes are compared later. Raises StepUpNeeded, and
        InvalidRequest if the person has no way to complete it."""
        asked, able = ruling.step_up(record)
        if not asked or click.action in (Action.DENY, Action.ABORT):
            return None
        if not able:
            raise InvalidRequest(
                f"nobody may approve a request of {record.risk.level} risk here: {NO_STEP_UP}"
            )
        if click.number and StepUp.NUMBER in able:
            if not NUMBER.fullmatch(click.number):
                raise InvalidRequest("the verification code must have three digits")
            return StepUpDone(way=StepUp.NUMBER)
        if prove is not None and StepUp.PASSKEY in able:
            return await _check_passkey(record, click, prove)
        if StepUp.PERSON in able:
            refuse_unknown(ruling.policy, click.identity)
            return None
        how = {
            StepUp.NUMBER: f"type the number that is shown where {record.request.agent} waits",
            StepUp.PASSKEY: "confirm the decision with a passkey in the inbox",
        }
        raise StepUpNeeded(join_names([how[way] for way in able], "or"))

    async def _compare(self, record: StoredRequest, typed: str) -> None:
        """Raise WrongNumber unless this is the request's verification code."""
        number = await self._store.number_of(record.id)
        if number is None or not hmac.compare_digest(number, typed):
            raise _wrong(record.guesses + 1)

    def _count_guess(
        self, record: StoredRequest, counted: StoredRequest, by: Clicker, ruling: Ruling
    ) -> Transition:
        """Return the transition that counts a wrong code. It is not a person's denial."""
        effect = count_guess(counted, by, now=self._writer.now(), sign=self._writer.sign)
        data = {"person": by.person, "guesses": effect.after.guesses}
        step = _step(record, effect, ruling)
        return step._replace(data=None if effect.after.final else data, budget=None)

    async def _approver(
        self, record: StoredRequest, ruling: Ruling, click: Click, *, last: bool
    ) -> tuple[Ruling, Approver]:
        """Return the ruling and the approver who clicked. If the click is rejected, the policy is
        read again before the rejection is final."""
        try:
            return ruling, approver(ruling, record, click.identity)
        except Unauthorized:
            if not last:
                raise
            ruling = (await self._writer.fresh_policy()).ruling_on(record.request)
        return ruling, approver(ruling, record, click.identity)

    async def note(self, refusal: GatewayError, click: Click) -> None:
        """Audit a click by a person without rights, or a wrong code."""
        if isinstance(refusal, Unauthorized) or click.number:
            data = {"request_id": click.request_id, "why": str(refusal)}
            await self._store.note("refused", agent=click.identity.written, data=data)

    async def _edit(
        self, record: StoredRequest, click: Click, by: Clicker, ruling: Ruling
    ) -> StoredRequest | None:
        """Return the record with the click's edit, assessed like a new request from the agent. None
        for other clicks. Raises if policy rejects the edited call."""
        if click.action is not Action.EDIT:
            return None
        after = assess(edit_record(record, click, by), ruling)
        request = replace(after.request, arguments=after.arguments)
        # Hooks get the same question as for a new request.
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
        """Raise InvalidRequest if a mask on the clicked card hid a part that could change what
        runs."""
        if click.revealed or click.action not in NEEDS_ALL_SEEN:
            return
        known = self._proofs.recall(record)
        if known is None:
            known = await draw(lambda: self._proofs.hides(record), *weight_of(record))
        if known:
            raise InvalidRequest(
                "approve this request only in the inbox, after you reveal its masked parts there: "
                'one could change what runs ("gateway login NAME" prints a link)'
            )


class _Attempt:
    """Repeats one click until it takes effect, each time with the current record."""

    def __init__(
        self, judge: ClickJudge, click: Click, groups: Groups | None, prove: Prove | None
    ) -> None:
        self._judge = judge
        self._groups = groups
        self._prove = prove
        self.click = click
        self.judged = JudgedClick()

    async def step(self, record: StoredRequest, ruling: Ruling) -> Transition | None:
        """Return what the click does. If the person may not decide, try again with their groups."""
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
    what = "the rest of the turn may still be pending" if grant is None else "it was not remembered"
    known = isinstance(error, GatewayError)
    why = str(error).removeprefix("nothing was recorded: ") if known else "the store failed"
    return f"your decision was recorded, but {what}: {why}"


def _waits_for(ruling: Ruling, record: StoredRequest, name: str) -> str:
    """Return the error that tells a person who already voted which votes are missing."""
    if not record.votes:
        return ""
    seen = record.copy_with(approvers=who_may_approve(ruling, record))
    return standing_of(seen, name).words


def _confirm_by_number(ruling: Ruling, record: StoredRequest, click: Click) -> Click:
    """Mark a click as confirmed if it contains the required code. The code is compared before the
    click takes effect. If no code is required, it confirms nothing."""
    asked = StepUp.NUMBER in ruling.step_up(record).able
    return replace(click, confirmed=True) if click.number and asked else click


def _once(prove: Prove) -> Prove:
    """Return a function that checks each subject only once, even if the click is judged again. An
    assertion can be verified only once, so a failed check is not repeated."""
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
    """Return the extra verification of a person who confirmed exactly this approval with their own
    passkey. Raises Unauthorized."""
    proof = await prove(subject_of(record, click))
    if proof.identity != click.identity:
        raise Unauthorized("this passkey belongs to another person")
    return StepUpDone(way=StepUp.PASSKEY, name=proof.words)


def _for_two(record: StoredRequest) -> StoredRequest:
    return record.copy_with(quorum=max(record.quorum, 2))


def _steps_of(after: StoredRequest, by: Clicker) -> tuple[StepUpDone, ...]:
    """Return the extra verifications of an approval without repetitions. A second approver counts
    as one if there was no other."""
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
    """Return a click's result as a transition that is valid only under the ruling used."""
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
    """Return the approver of an edit, by the rules for the edited call. If that call is high risk
    and the click is not sufficient, raises Unconfirmed or Unauthorized."""
    if after.risk.level is RiskLevel.HIGH and not click.confirmed:
        raise Unconfirmed("the edited arguments are high risk: confirm that you have read them")
    return approver(ruling, after, click.identity)


def _event_data(after: StoredRequest) -> JsonObject:
    """Return the data for the event of a vote, or nothing for a decision, whose event contains the
    decision."""
    if after.final:
        return {}
    return {
        "digest": after.digest,
        "votes": plain(after.votes),
        **told_changes(after),
    }


# Batches: one decision for several pending requests of one agent, all or none.

MOST = 50  # limit for a person's attention and for one script

_ANSWERS = (Action.APPROVE, Action.DENY)


class Batches:
    """Judges each click of a batch like a single click, and applies all clicks with one script."""

    def __init__(self, writer: Writer, clicks: ClickJudge) -> None:
        self._writer = writer
        self._clicks = clicks

    async def decide(self, clicks: Sequence[Click]) -> list[StoredRequest]:
        """Apply all clicks or none of them. `gateway.ports.RequestCalls` lists the errors."""
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
        """Return the transitions of the clicks that are not applied yet."""
        if len({record.request.agent for record in found if record}) > 1:
            raise InvalidRequest("all requests of a batch must come from one agent")
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
            raise NotFound("there is no such request")
        ruling = (await self._writer.policy()).ruling_on(record.request)
        approves = click.action is not Action.DENY
        if approves and ruling.step_up(record).asked:
            raise InvalidRequest("it needs extra verification; decide it on its own")
        if approves and record.risk.level is RiskLevel.HIGH:
            raise InvalidRequest("it is high risk; decide high-risk requests one at a time")
        if approves and record.request.kind is Kind.CALLS:
            raise InvalidRequest("it is a plan; a plan cannot be decided in a batch")
        return (await self._clicks.judge(record, ruling, click)).transition


def _check(clicks: Sequence[Click]) -> None:
    if not 1 <= len(clicks) <= MOST:
        raise InvalidRequest(f"a batch must have 1 to {MOST} requests")
    if len({click.request_id for click in clicks}) < len(clicks):
        raise InvalidRequest("the batch contains the same request twice")
    first = clicks[0]
    if any((one.identity, one.action) != (first.identity, first.action) for one in clicks):
        raise InvalidRequest("one person must decide the whole batch, with the same decision")
    if first.action not in _ANSWERS or any(click.remember for click in clicks):
        raise InvalidRequest("a batch can only be approved or denied; it cannot be remembered")


def _bind(clicks: Sequence[Click]) -> list[Click]:
    """Return the clicks with a nonce for this batch. Sending only some of its clicks counts as a
    different batch."""
    named = sorted(f"{click.request_id} {click.revision} {click.nonce}" for click in clicks)
    nonce = sha256_hex(" ".join((clicks[0].action, *named)).encode())
    return [replace(click, nonce=nonce) for click in clicks]
