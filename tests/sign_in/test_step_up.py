"""A step-up by passkey: good for one answer to one request as it was seen, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.cards.card import card_of
from gateway.domain.policy_document import Route
from gateway.domain.records import Click, Remember, StoredRequest
from gateway.domain.risk import StepUp, StepUpDone
from gateway.errors import Conflict, StepUpNeeded, Unauthorized
from gateway.models import Action, Status
from gateway.ports import Proof, Prove, subject_of
from gateway.sign_in.logins import Ways
from tests.approvals.test_step_up import DANGEROUS, in_force, route
from tests.clocks import ShiftedClock
from tests.sign_in.authenticator import Authenticator
from tests.sign_in.test_passkeys import ORIGIN, with_passkey
from tests.world import World, click, identity

PASSKEY: Route = route(StepUp.PASSKEY)
NEW = {"command": "deploy prod 2"}


@pytest.fixture
def ways(world: World) -> Ways:
    """Return the ways in of a gateway that knows ann, bob and eve."""
    return Ways(world.store, ShiftedClock(), public_url=ORIGIN)


class Holder:
    """Somebody with a passkey, who signs what they are asked to."""

    def __init__(self, ways: Ways, session: str, device: Authenticator) -> None:
        self._passkeys, self._session, self._device = ways.passkeys, session, device

    async def sign(self, record: StoredRequest, tap: Click) -> Any:
        """Return what their device answers when it is to agree to a click."""
        subject = subject_of(record, tap)
        return self._device.sign(await self._passkeys.begin_proof(self._session, subject))

    def prove(self, credential: Any) -> Prove:
        """Return what the inbox gives the core with a click."""

        async def prove(subject: str) -> Proof:
            return await self._passkeys.check_proof(self._session, subject, credential)

        return prove


async def asked(world: World, ways: Ways, person: str = "ann") -> tuple[StoredRequest, Holder]:
    """Return a dangerous request, and somebody with a passkey."""
    await in_force(world, PASSKEY)
    record = await world.submit(arguments=DANGEROUS)
    return record, Holder(ways, *await with_passkey(ways, person))


async def test_a_passkey_approves_and_is_named(world: World, ways: Ways) -> None:
    """On the record, the card and the event; without it nothing is approved, and the same
    assertion approves nothing else."""
    record, ann = await asked(world, ways)
    tap = click(record, confirmed=True)
    with pytest.raises(StepUpNeeded, match="passkey in the inbox"):
        await world.core.requests.decide(tap)
    credential = await ann.sign(record, tap)
    done = await world.core.requests.decide(tap, prove=ann.prove(credential))
    named = StepUpDone(way=StepUp.PASSKEY, name="Safari on iPhone")
    assert (done.status, done.stepped) == (Status.APPROVED, (named,))
    outcome = card_of(done, lines=9, chars=900).outcome
    assert outcome is not None
    assert outcome.text == "approved by ann, confirmed by passkey Safari on iPhone"
    (event,) = [one for one in await world.events(record.id) if one.type == "approved"]
    assert event.data["stepped"] == [{"way": "passkey", "name": "Safari on iPhone"}]
    other = await world.submit(arguments=DANGEROUS)
    with pytest.raises(Unauthorized):
        replayed = click(other, confirmed=True)
        await world.core.requests.decide(replayed, prove=ann.prove(credential))


async def test_an_edit_is_signed_with_what_would_run(world: World, ways: Ways) -> None:
    """And nothing but that."""
    record, ann = await asked(world, ways)
    tap = click(record, Action.EDIT, arguments=NEW, confirmed=True)
    credential = await ann.sign(record, tap)
    swapped = replace(tap, arguments={"command": "deploy prod 3"})
    with pytest.raises(Unauthorized):
        await world.core.requests.decide(swapped, prove=ann.prove(credential))
    done = await world.core.requests.decide(tap, prove=ann.prove(credential))
    assert (done.status, done.arguments) == (Status.APPROVED, NEW)


OTHER: dict[str, Callable[[Click], Click]] = {
    "a denial": lambda tap: replace(tap, action=Action.DENY),
    "another request": lambda tap: replace(tap, request_id="0" * 32),
    "another revision": lambda tap: replace(tap, revision=tap.revision + 1),
    "other arguments": lambda tap: replace(tap, action=Action.EDIT, arguments=NEW),
    "another result": lambda tap: replace(tap, action=Action.RESPOND, result="done"),
    "other words for the agent": lambda tap: replace(tap, message="and push it"),
    "another note": lambda tap: replace(tap, note="seen with eve"),
    "one that is remembered": lambda tap: replace(tap, remember=Remember(everywhere=True)),
    "a wish for another plan": lambda tap: replace(tap, feedback=True),
    "a stop": lambda tap: replace(tap, abort="agent"),
}


@pytest.mark.parametrize("kind", OTHER)
async def test_an_assertion_for_something_else_decides_nothing(
    world: World, ways: Ways, kind: str
) -> None:
    """It is refused, and the audit says who tried."""
    record, ann = await asked(world, ways)
    tap = click(record, confirmed=True)
    signed = OTHER[kind](tap)
    shown = record
    if signed.request_id != record.id:
        shown = record.copy_with(request=replace(record.request, id=signed.request_id))
    credential = await ann.sign(shown, signed)
    with pytest.raises(Unauthorized, match="not accepted"):
        await world.core.requests.decide(tap, prove=ann.prove(credential))
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
    kinds = [one.type for one in await world.events()]
    assert {"sign_in_refused", "refused"} <= set(kinds)


async def test_somebody_elses_passkey_is_no_step_up(world: World, ways: Ways) -> None:
    """Bob cannot agree for ann, and an assertion on what was edited since is too old."""
    record, bob = await asked(world, ways, "bob")
    tap = click(record, confirmed=True)
    with pytest.raises(Unauthorized, match="belongs to another person"):
        await world.core.requests.decide(tap, prove=bob.prove(await bob.sign(record, tap)))
    old = click(record, identity=identity("bob"), confirmed=True)
    credential = await bob.sign(record, old)
    await in_force(world, replace(PASSKEY, quorum=2))
    edit = click(record, Action.EDIT, identity=identity("bob"), arguments=NEW, confirmed=True)
    signed = await bob.sign(record, edit)
    edited = await world.core.requests.decide(edit, prove=bob.prove(signed))
    assert edited.status is Status.PENDING
    with pytest.raises(Conflict, match="changed since"):
        await world.core.requests.decide(old, prove=bob.prove(credential))
    assert (await world.core.requests.get(record.id)).votes == edited.votes
