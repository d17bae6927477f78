"""A person's plain denial answers the same call for a few minutes, visibly, and no other call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.policy_document import Mode, Route
from gateway.domain.records import Remember, StoredRequest
from gateway.domain.store import MessageContext
from gateway.errors import Conflict, Unauthorized
from gateway.models import Action, DeciderKind, Kind, Question, Reason, Status
from gateway.policy.grants.grant import Effect, Grant, Scope
from gateway.server.app import run_gateway
from gateway.server.settings import Settings
from gateway.stores.retention import Retention
from tests.world import AGENT, World, assembled, click, identity, over_http, policy, request

WORDS = "exactly this, denied for 5 minutes"
NOT_PLAIN: tuple[tuple[Action, dict[str, Any]], ...] = (
    (Action.DENY, {"feedback": True, "message": "not now"}),
    (Action.ABORT, {}),
    (Action.APPROVE, {}),
    (Action.RESPOND, {"result": "no"}),
)


@pytest.fixture
async def firm(server_url: str, namespace: str) -> AsyncIterator[World]:
    """Yield a gateway whose denials answer the same call for 5 minutes, as the product's do."""
    async with assembled(server_url, namespace, denial_minutes=5) as made:
        yield made


async def deny(world: World, record: StoredRequest, **how: Any) -> Grant:
    """Deny a request as ann; return what that remembers."""
    await world.core.requests.decide(click(record, Action.DENY, **how))
    (grant,) = await world.core.grants.all()
    return grant


async def test_the_same_call_is_denied_at_once_and_told_why(firm: World) -> None:
    """By the denial's own words, counted on a grant that is listed like any other, and ends."""
    first = await firm.submit()
    grant = await deny(firm, first, message="not on a Friday")
    assert (grant.effect, grant.match.scope, grant.session) == (
        Effect.DENY,
        Scope.EXACT,
        first.request.session,
    )
    assert (grant.words, grant.made_by, grant.from_request) == (WORDS, "ann", first.id)
    assert grant.expires_at is not None
    assert abs(grant.expires_at - grant.made_at - 300_000) < 5000
    again = await firm.submit()
    assert again.status is Status.DENIED
    assert again.decision is not None
    assert again.decision.reason is Reason.GRANT
    assert (again.decision.decided_by.kind, again.decision.decided_by.name) == (
        DeciderKind.GRANT,
        grant.id,
    )
    assert again.decision.message == f"{WORDS}: not on a Friday"
    assert (await firm.core.grants.get(grant.id)).used == 1
    assert [
        one.id for one in await firm.core.grant_service.newest(revocable_by=identity("ann"))
    ] == [grant.id]


@pytest.mark.parametrize(
    "changes",
    [{"session": "other"}, {"arguments": {"command": "ls -l"}}, {"tool": "shell2"}],
)
async def test_no_other_call_is_denied(firm: World, changes: dict[str, Any]) -> None:
    """Another session, other arguments and another tool ask people as before."""
    await deny(firm, await firm.submit())
    assert (await firm.submit(**changes)).status is Status.PENDING


async def test_no_other_agent_is_denied(firm: World) -> None:
    """What was denied to one agent is asked about for another."""
    await firm.credentials.add_agent("other")
    await deny(firm, await firm.submit())
    asked = request(agent="other")
    record, _ = await firm.approvals.submit(asked, over_http(agent="other"))
    assert record.status is Status.PENDING


@pytest.mark.parametrize(("action", "how"), NOT_PLAIN)
async def test_other_answers_remember_nothing(
    firm: World, action: Action, how: dict[str, Any]
) -> None:
    """Feedback asks for another plan, an abort stops the turn: what comes then asks anew."""
    await firm.core.requests.decide(click(await firm.submit(), action, **how))
    assert await firm.core.grants.all() == []
    assert (await firm.submit()).status is Status.PENDING


async def test_nothing_but_a_persons_denial_remembers(firm: World) -> None:
    """Not a vote that waits for others, a question, a withdrawal, or the end of its time."""
    await firm.route(Route(approvers=("ann", "bob"), quorum=2))
    voted = await firm.submit(arguments={"command": "two"})
    await firm.core.requests.decide(click(voted))
    questions = (Question(id="q", text="Which?"),)
    asked = await firm.submit(
        kind=Kind.QUESTION, questions=questions, arguments={}, allowed=(Action.ANSWER,)
    )
    await firm.core.requests.decide(click(asked, Action.DENY))
    late = await firm.submit(arguments={"command": "late"}, timeout=0.001)
    await firm.approvals.expire(late.id)
    origin = MessageContext(agent=AGENT)
    await firm.approvals.cancel(
        (await firm.submit(arguments={"command": "gone"})).id,
        origin,
        reason=Reason.CANCELLED_BY_AGENT,
    )
    assert await firm.core.grants.all() == []


async def test_a_denial_that_is_remembered_longer_stays_the_only_one(firm: World) -> None:
    """Who says how long does not get five minutes beside it."""
    grant = await deny(firm, await firm.submit(), remember=Remember(lifetime="1d"))
    assert grant.expires_at == grant.made_at + 86_400_000


async def test_a_denial_ends_a_quorum_and_counts(firm: World) -> None:
    """One denial decides where two must approve, also of arguments that somebody edited."""
    await firm.route(Route(approvers=("ann", "bob"), quorum=2))
    record = await firm.submit()
    edited = await firm.core.requests.decide(
        click(record, Action.EDIT, arguments={"command": "ls -a"}, identity=identity("bob"))
    )
    await deny(firm, edited)
    assert (await firm.submit()).status is Status.DENIED


async def test_a_click_sent_twice_makes_one_grant_and_none_once_it_was_revoked(
    firm: World,
) -> None:
    """A click that is delivered again does not bring back what a person took back."""
    record = await firm.submit()
    denial = click(record, Action.DENY)
    for _ in range(2):
        await firm.core.requests.decide(denial)
    (grant,) = await firm.core.grants.all()
    with pytest.raises(Unauthorized):
        await firm.core.grant_service.revoke(grant.id, identity("eve"))
    await firm.core.grant_service.revoke(grant.id, identity("bob"))
    assert (await firm.submit()).status is Status.PENDING
    await firm.core.requests.decide(denial)
    assert await firm.core.grants.all() == []


async def test_who_may_not_deny_silences_nothing(firm: World) -> None:
    """A stranger's click decides nothing, and a denial after the decision is too late."""
    record = await firm.submit()
    with pytest.raises(Unauthorized):
        await firm.core.requests.decide(click(record, Action.DENY, identity=identity("eve")))
    await firm.core.requests.decide(click(record))
    with pytest.raises(Conflict):
        await firm.core.requests.decide(click(record, Action.DENY, identity=identity("bob")))
    assert await firm.core.grants.all() == []


async def test_it_is_kept_by_the_step_that_denies(firm: World) -> None:
    """It makes no new policy, and no event beside that of the denial."""
    generation = await firm.store.generation()
    await firm.core.requests.decide(click(await firm.submit(), Action.DENY))
    assert await firm.store.generation() == generation
    told = [one.type for one in await firm.events()]
    assert told[-1] == "denied"
    assert "grant_made" not in told
    assert (await firm.submit()).status is Status.DENIED


async def test_it_ends_by_itself(firm: World) -> None:
    """Its keys expire."""
    record = await firm.core.requests.decide(click(await firm.submit(), Action.DENY))
    store, asked = firm.store, record.request
    same = store.keys.same(asked.agent, asked.session, asked.digest)
    for key in (same, store.keys.grant(record.id)):
        assert 0 < await store.redis.pttl(key) <= 300_000
    await pass_by(firm, record)
    assert (await firm.submit()).status is Status.PENDING
    assert await firm.core.grants.all() == []


async def test_it_raises_no_cards_and_is_never_announced(firm: World) -> None:
    """Neither the short grant nor what it denies is posted where people answer."""
    route = Route(approvers=("ann",), targets=("slack:C1",))
    await firm.route(route)
    first = await firm.submit()
    assert first.queues
    grant = await deny(firm, first)
    outbox = firm.store.keys.dirty("slack")
    posted = await firm.store.redis.zrange(outbox, 0, -1)
    again = await firm.submit()
    assert again.status is Status.DENIED
    assert (grant.queues, grant.announced_at) == ((), None)
    assert await firm.store.redis.zrange(outbox, 0, -1) == posted
    assert await firm.core.writer.book.store.due(2**50, 10) == ([], [])


async def test_a_batch_that_is_denied_answers_each_of_its_calls(firm: World) -> None:
    """All of them, also when the batch is delivered again; not where it asks for another plan."""
    records = [await firm.submit(arguments={"command": name}) for name in ("one", "two")]
    clicks = [click(record, Action.DENY) for record in records]
    for _ in range(2):
        await firm.core.requests.decide_all(clicks)
    assert len(await firm.core.grants.all()) == 2
    for name in ("one", "two"):
        assert (await firm.submit(arguments={"command": name})).status is Status.DENIED
    other = await firm.submit(arguments={"command": "three"})
    await firm.core.requests.decide_all([click(other, Action.DENY, feedback=True)])
    assert (await firm.submit(arguments={"command": "three"})).status is Status.PENDING


async def test_what_waits_and_asks_the_same_is_left_to_people(firm: World) -> None:
    """The one that waits takes the denial over in its group, or is asked: the grant is for later
    calls."""
    first, second = await firm.submit(), await firm.submit()
    await deny(firm, first)
    kept = await firm.store.load(second.id)
    assert kept is not None
    assert kept.status is Status.PENDING


async def test_erasing_the_request_forgets_what_was_said(firm: World) -> None:
    """The words of the denial go with its request, and the call asks again."""
    record = await firm.submit()
    grant = await deny(firm, record, message="a name")
    await firm.approvals.erase(record.id, by="test")
    erased = await firm.core.grants.get(grant.id)
    assert ("a name" in f"{erased.told}{erased.words}", erased.erased) == (False, True)
    assert (await firm.submit()).status is Status.PENDING


async def test_with_0_minutes_the_same_call_asks_again(world: World) -> None:
    """The setting turns it off."""
    await world.core.requests.decide(click(await world.submit(), Action.DENY))
    assert await world.core.grants.all() == []
    assert (await world.submit()).status is Status.PENDING


@pytest.mark.parametrize(
    ("changes", "after"), [({}, Status.DENIED), ({"denial_minutes": 0}, Status.PENDING)]
)
async def test_a_gateway_does_so_unless_its_setting_says_0(
    tmp_path: Path, changes: dict[str, Any], after: Status
) -> None:
    """The product's default is 5 minutes."""
    settings = Settings(data_dir=tmp_path / "state", port=0, adapters=(), **changes)
    async with run_gateway(settings) as gateway:
        store = gateway.backend.store
        await policy(store, Route(approvers=("ann",)))
        await gateway.backend.credentials.add_agent(AGENT)
        gateway.core.writer.forget_policy()
        asked = request()
        record, _ = await gateway.core.approvals.submit(asked, over_http())
        await gateway.core.requests.decide(click(record, Action.DENY))
        again, _ = await gateway.core.approvals.submit(request(), over_http())
        assert again.status is after
        assert [one.words for one in await gateway.core.grants.all()] == [WORDS] * (
            after is Status.DENIED
        )


async def pass_by(world: World, record: StoredRequest) -> None:
    """Let a denial's minutes be over, for the server too."""
    store, asked = world.store, record.request
    same = store.keys.same(asked.agent, asked.session, asked.digest)
    await store.redis.delete(same, store.keys.grant(record.id))
    await store.redis.zadd(store.keys.grants_passed, {record.id: 1})


async def test_denials_that_ran_out_push_nothing_out_of_the_list(firm: World) -> None:
    """Others that ended stay in the list of the last, and so does one that a person took back."""
    grants, store = firm.core.grant_service, firm.core.writer.book.store
    lasting = await deny(firm, await firm.submit(), remember=Remember(lifetime="1d"))
    await grants.revoke(lasting.id, identity("ann"))
    for number in range(3):
        record = await firm.submit(arguments={"command": f"ls {number}"})
        await deny(firm, record)
        await pass_by(firm, record)
    assert [one.id for one in await store.list_ended(1)] == [lasting.id]
    taken = await deny(firm, await firm.submit(arguments={"command": "ls"}, session="s9"))
    await grants.revoke(taken.id, identity("ann"))
    assert [one.id for one in await store.list_ended(9)] == [taken.id, lasting.id]
    end = (await firm.core.grants.get(taken.id)).end
    assert end is not None
    assert (end.why, end.by) == ("revoked", "ann")


async def test_denials_end_with_their_session_and_are_not_listed(firm: World) -> None:
    """No person took them back; the same call asks again."""
    grant = await deny(firm, await firm.submit())
    await firm.core.grants.end_session(grant.agent, str(grant.session))
    assert await firm.core.grants.all() == []
    assert await firm.core.grant_service.newest(ended=True) == []
    assert (await firm.submit()).status is Status.PENDING


async def test_all_that_is_remembered_can_be_taken_back(firm: World) -> None:
    """Denials too, at once."""
    await deny(firm, await firm.submit())
    assert len(await firm.core.grant_service.revoke_all(identity("ann"))) == 1
    assert (await firm.submit()).status is Status.PENDING


async def test_of_two_denials_of_the_same_call_one_is_left(firm: World) -> None:
    """Both waited; whoever takes one back does not take back the other."""
    first, second = await firm.submit(), await firm.submit()
    for record in (first, second):
        await firm.core.requests.decide(click(record, Action.DENY))
    await firm.core.grant_service.revoke(first.id, identity("ann"))
    assert (await firm.submit()).status is Status.DENIED
    await firm.core.grant_service.revoke(second.id, identity("ann"))
    assert (await firm.submit()).status is Status.PENDING


async def test_denials_that_ran_out_are_forgotten_with_their_events(firm: World) -> None:
    """Nothing of them stays longer than of other grants."""
    record, store = await firm.submit(), firm.store
    await deny(firm, record)
    await pass_by(firm, record)
    await Retention(store, firm.clock, days=1)._forget_grants(firm.clock.now_ms() + 60_000)
    left = await store.redis.exists(store.keys.grant(record.id), store.keys.grants_passed)
    assert left == 0


async def test_a_rule_that_allows_counts_less_than_a_denial(firm: World) -> None:
    """Of the same call, and of no other."""
    await deny(firm, await firm.submit())
    await firm.route(Route(approvers=("ann",), mode=Mode.AUTO_APPROVE))
    assert (await firm.submit()).status is Status.DENIED
    assert (await firm.submit(arguments={"command": "ls -l"})).status is Status.APPROVED
