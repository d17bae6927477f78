"""The five verbs as agents send them over Redis."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from gateway.domain.policy_document import Mode, Route
from gateway.domain.records import Query, StoredRequest
from gateway.errors import Conflict, NotFound, Unauthorized
from gateway.models import (
    Action,
    DecidedBy,
    DeciderKind,
    Execution,
    Kind,
    Question,
    Reason,
    Report,
    Status,
)
from gateway.policy.verdict import Verdict
from gateway.wire.codec import plain
from gateway.wire.signatures import Verifier
from tests.world import (
    AGENT,
    PROCESS,
    World,
    assembled,
    click,
    identity,
    over_http,
    policy,
    request,
)

OTHER = "q" * 16


async def test_ask_answer_go_on(world: World) -> None:
    """The whole path: submitted, shown as pending, approved by a person, pushed with a
    signature."""
    asked = request()
    async with world.ingress().running():
        nonce = await world.send("submit", plain(asked))
        first = await world.reply()
        assert (first["re"], first["nonce"], first["id"]) == ("submit", nonce, asked.id)
        assert first["state"]["status"] == "pending"
        record = await world.core.requests.get(asked.id)
        await world.core.requests.decide(click(record))
        pushed = await world.reply()
    assert pushed["re"] == "push"
    decision = pushed["state"]["decision"]
    assert decision["digest"] == asked.digest
    assert decision["decided_by"] == {"kind": "person", "name": "ann"}
    final = await world.core.requests.get(asked.id)
    assert final.decision is not None
    Verifier(world.signer.public_key).verify(final.decision.signed_bytes(), decision["signature"])
    assert await world.store.redis.xlen(world.store.keys.ingress(AGENT)) == 0


async def test_submit_is_idempotent(world: World) -> None:
    """The same message twice is one request, one event, and two answers."""
    asked = request()
    for _ in range(2):
        await world.send("submit", plain(asked))
    await world.handled()
    assert [(await world.reply())["state"]["status"] for _ in range(2)] == ["pending"] * 2
    assert [event.type for event in await world.events(asked.id)] == ["submitted"]


async def test_the_same_id_with_other_content_is_a_conflict_and_audited(world: World) -> None:
    """An id names one action for good."""
    asked = request()
    await world.send("submit", plain(asked))
    await world.send("submit", plain(request(id=asked.id, arguments={"command": "rm"})))
    await world.handled()
    await world.reply()
    assert (await world.reply())["error"]["code"] == "conflict"
    assert "refused" in {event.type for event in await world.events()}
    assert (await world.core.requests.get(asked.id)).request.arguments == {"command": "ls"}


async def test_another_agents_id_is_refused_everywhere(world: World) -> None:
    """No verb of one agent reads or touches another's request."""
    record = await world.submit()
    thief = over_http(agent="thief")
    with pytest.raises(Unauthorized):
        await world.approvals.submit(request(id=record.id, agent="thief"), thief)
    with pytest.raises(Unauthorized):
        await world.approvals.submit(request(), thief)
    for attempt in (
        world.approvals.consume(record.id, thief),
        world.approvals.cancel(record.id, thief, reason=Reason.CANCELLED_BY_AGENT),
        world.approvals.report(record.id, Report(execution=Execution.STARTED), thief),
        world.approvals.state(record.id, thief),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert await world.approvals.sync([record.id], thief) == []
    assert await world.core.requests.get(record.id) == record


MESSAGES: tuple[tuple[str, Any], ...] = (("submit", "body"), ("cancel", "id"), ("sync", "ids"))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("doubled", [False, True])
async def test_messages_commute(world: World, order: tuple[int, ...], doubled: bool) -> None:
    """A cancel before its submit leaves a tombstone: every order, doubled or not, ends
    cancelled."""
    asked = request()
    bodies = {"body": plain(asked), "id": {"id": asked.id}, "ids": {"ids": [asked.id]}}
    for index in order:
        verb, name = MESSAGES[index]
        for _ in range(2 if doubled else 1):
            await world.send(verb, bodies[name])
    await world.handled()
    record = await world.core.requests.get(asked.id)
    assert record.status is Status.CANCELLED
    assert [e.type for e in await world.events(asked.id)].count("cancelled") == 1
    assert (await world.core.requests.page(Query())).items == ()


async def test_detached_goes_to_whoever_consumes_first(world: World) -> None:
    """Nobody waits, so nobody is handed the approval until one process takes it, once."""
    record, _ = await world.approvals.submit(request(), over_http(), detached=True)
    await world.core.requests.decide(click(record))
    assert (await world.approvals.state(record.id, over_http())).decision is None
    first = await world.approvals.consume(record.id, over_http(OTHER))
    assert first.decision is not None
    assert not first.may_have_run
    again = await world.approvals.consume(record.id, over_http(OTHER))
    assert (again.decision is not None, again.may_have_run) == (True, False)
    second = await world.approvals.consume(record.id, over_http(PROCESS))
    assert (second.decision is not None, second.may_have_run) == (True, True)
    back = await world.approvals.consume(record.id, over_http(OTHER))
    assert back.may_have_run


async def test_another_process_is_warned_that_it_may_have_run(world: World) -> None:
    """The submitter was handed the approval; a second taker is told so."""
    record = await world.submit()
    await world.core.requests.decide(click(record))
    assert (await world.approvals.state(record.id, over_http())).decision is not None
    assert (await world.approvals.state(record.id, over_http(OTHER))).decision is None
    assert (await world.approvals.consume(record.id, over_http(OTHER))).may_have_run


async def test_a_process_that_attaches_is_told_how_it_ends(world: World) -> None:
    """Sync from another process: it sees the end, but not the approval until it consumes."""
    record = await world.submit()
    await world.send("sync", {"ids": [record.id]}, process=OTHER)
    await world.handled()
    assert (await world.reply(process=OTHER))["state"]["status"] == "pending"
    await world.core.requests.decide(click(await world.core.requests.get(record.id)))
    pushed = await world.reply(process=OTHER)
    assert pushed["state"]["status"] == "approved"
    assert "decision" not in pushed["state"]


async def test_sync_without_ids_is_answered(world: World) -> None:
    """A heartbeat renews the lease and proves that the gateway reads."""
    await world.send("sync", {})
    await world.handled()
    assert (await world.reply())["state"] == {}
    lease = await world.store.redis.zscore(world.store.keys.processes, f"{AGENT} {PROCESS}")
    assert lease > 0


async def test_a_report_is_kept_and_cannot_go_back(world: World) -> None:
    """Started, then an ending; late and doubled reports change nothing."""
    record = await world.submit()
    await world.core.requests.decide(click(record))
    for execution in (Execution.STARTED, Execution.SUCCEEDED, Execution.STARTED, Execution.FAILED):
        await world.approvals.report(record.id, Report(execution=execution), over_http())
    found = await world.core.requests.get(record.id)
    assert found.report == Report(execution=Execution.SUCCEEDED)
    kinds = [event.type for event in await world.events(record.id)]
    assert kinds == ["submitted", "approved", "reported", "reported"]


async def test_a_report_before_the_end_is_refused(world: World) -> None:
    """Nothing may run before it is decided."""
    record = await world.submit()
    with pytest.raises(Conflict):
        await world.approvals.report(record.id, Report(execution=Execution.STARTED), over_http())


async def test_the_deadline_ends_a_request_once(world: World) -> None:
    """Past its deadline by the server's clock: expired, not denied, and the waiter is told."""
    asked = request(timeout=0.001)
    await world.send("submit", plain(asked))
    await world.handled()
    while (await world.core.requests.get(asked.id)).status is Status.PENDING:
        await world.sweeper.sweep()
    await world.sweeper.sweep()
    record = await world.core.requests.get(asked.id)
    assert record.status is Status.EXPIRED
    assert record.decision is not None
    assert record.decision.reason is Reason.TIMEOUT
    with pytest.raises(Conflict, match="nobody answered"):
        await world.core.requests.decide(click(record))
    assert [e.type for e in await world.events(asked.id)].count("expired") == 1


async def test_an_entry_read_after_its_deadline_is_never_shown(world: World) -> None:
    """It is recorded as expired, and was never pending."""
    asked = request(timeout=1.0)
    await world.send("submit", plain(asked), entry="1-1")
    await world.handled()
    assert (await world.reply())["state"]["status"] == "expired"
    kinds = [event.type for event in await world.events(asked.id)]
    assert kinds == ["submitted", "expired"]


async def test_a_late_click_expires_the_request_instead(world: World) -> None:
    """A click after the deadline loses, even when the sweeper has not been there."""
    record = await world.submit(timeout=0.001)
    with pytest.raises(Conflict):
        while True:
            await world.core.requests.decide(click(record, identity=identity("ann"), revision=0))
    while not (await world.store.due(idle_ms=10**9, limit=1)).expired:
        pass
    with pytest.raises(Conflict, match="expired before"):
        await world.core.requests.decide(click(record))
    assert (await world.core.requests.get(record.id)).status is Status.EXPIRED


async def test_the_kill_switch_denies_at_once_what_comes_and_what_waits(world: World) -> None:
    """New requests, clicks and consumes: all refused, and said to be the kill switch."""
    waits = await world.submit()
    taken, _ = await world.approvals.submit(request(), over_http(), detached=True)
    await world.core.requests.decide(click(taken))
    await world.store.set_stopped(True, by="test")
    new = await world.submit()
    assert new.decision is not None
    assert (new.status, new.decision.reason) == (Status.DENIED, Reason.STOPPED)
    with pytest.raises(Conflict, match="kill switch"):
        await world.core.requests.decide(click(waits))
    assert (await world.core.requests.get(waits.id)).status is Status.DENIED
    with pytest.raises(Conflict, match="kill switch"):
        await world.approvals.consume(taken.id, over_http())


async def test_the_kill_switch_drains_what_waits(world: World) -> None:
    """Within one tick all that waits is denied, without a click; lifted, people are asked again."""
    waits = await world.submit()
    await world.store.set_stopped(True, by="test")
    await world.sweeper.sweep()
    decision = (await world.core.requests.get(waits.id)).decision
    assert decision is not None
    assert (decision.status, decision.reason) == (Status.DENIED, Reason.STOPPED)
    await world.store.set_stopped(False, by="test")
    asked = await world.submit()
    await world.sweeper.sweep()
    assert (await world.core.requests.get(asked.id)).status is Status.PENDING


async def test_a_removed_approver_is_out_at_the_next_click(world: World) -> None:
    """Even on a replica whose copy of the policy is old: the script makes it look again."""
    record = await world.submit()
    await world.core.requests.may_decide(identity("ann"), record)
    await policy(world.store, Route(approvers=("bob",)))
    with pytest.raises(Unauthorized):
        await world.core.requests.decide(click(record))
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
    await world.core.requests.decide(click(record, identity=identity("bob")))


async def test_refused_clicks_are_audited_and_change_nothing(world: World) -> None:
    """Not an approver: refused, and an entry in the audit."""
    record = await world.submit()
    with pytest.raises(Unauthorized):
        await world.core.requests.decide(click(record, identity=identity("eve")))
    assert await world.core.requests.get(record.id) == record
    refused = [event for event in await world.events() if event.type == "refused"]
    assert refused[0].data["request_id"] == record.id


async def test_a_retried_click_is_told_that_it_won(world: World) -> None:
    """The same interaction twice is one decision and no error."""
    record = await world.submit()
    tap = click(record)
    first = await world.core.requests.decide(tap)
    assert (await world.core.requests.decide(tap)).decision == first.decision
    assert [e.type for e in await world.events(record.id)].count("approved") == 1


async def test_eight_taps_at_once_make_one_decision(world: World) -> None:
    """Four approve and four deny at the same moment: exactly one is terminal."""

    record = await world.submit()
    taps = [
        world.core.requests.decide(
            click(record, Action.APPROVE if number % 2 else Action.DENY, identity=identity(who))
        )
        for number in range(4)
        for who in ("ann", "bob")
    ]
    results = await asyncio.gather(*taps, return_exceptions=True)
    assert sum(isinstance(result, StoredRequest) for result in results) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 7
    kinds = [event.type for event in await world.events(record.id)]
    assert len(kinds) == 2


async def test_edited_arguments_pass_the_deny_rules_again(server_url: str, namespace: str) -> None:
    """An approver cannot edit a call into what a rule denies."""

    class NoRoot:
        name, priority = "no-root", 50

        async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
            """Deny sudo."""
            if "sudo" not in record.request.arguments["command"]:
                return None
            by = DecidedBy(kind=DeciderKind.RULE, name=self.name)
            return Verdict(effect="deny", by=by)

    async with assembled(server_url, namespace, (NoRoot(),)) as world:
        record = await world.submit()
        with pytest.raises(Exception, match="no-root refuses"):
            await world.core.requests.decide(
                click(record, Action.EDIT, arguments={"command": "sudo ls"})
            )
        done = await world.core.requests.decide(
            click(record, Action.EDIT, arguments={"command": "pwd"})
        )
        assert done.status is Status.APPROVED


@pytest.mark.parametrize(
    ("mode", "status"), [(Mode.AUTO_APPROVE, Status.APPROVED), (Mode.AUTO_DENY, Status.DENIED)]
)
async def test_a_mode_settles_within_submit(world: World, mode: Mode, status: Status) -> None:
    """One message, one answer, decided by the rule that the decision cites."""
    await world.route(Route(mode=mode))
    asked = request()
    await world.send("submit", plain(asked))
    await world.handled()
    answer = (await world.reply())["state"]
    assert answer["status"] == status
    assert answer["decision"]["decided_by"]["kind"] == "rule"
    assert answer["decision"]["signature"]
    assert (await world.core.requests.page(Query())).items == ()


async def test_secret_answers_reach_only_the_asking_process(world: World) -> None:
    """Not the audit, not another process, and gone once they arrived."""
    fields = (Question(id="pw", text="?", secret=True),)
    asked = request(kind=Kind.QUESTION, questions=fields, allowed=(Action.ANSWER,))
    await world.send("submit", plain(asked))
    await world.handled()
    await world.reply()
    record = await world.core.requests.get(asked.id)
    await world.core.requests.decide(click(record, Action.ANSWER, answers={"pw": "hunter2"}))
    assert (await world.reply())["state"]["secrets"] == {"pw": "hunter2"}
    assert (await world.approvals.state(asked.id, over_http(OTHER))).secrets is None
    assert "hunter2" not in repr(await world.events())
    assert "hunter2" not in repr(await world.core.requests.get(asked.id))
    await world.approvals.report(asked.id, Report(execution=Execution.SUCCEEDED), over_http())
    assert await world.store.secrets(asked.id) is None


async def test_ending_a_session_cancels_what_waits_in_it(world: World) -> None:
    """Only that session, only that agent, and it is no longer listed."""
    inside, outside = await world.submit(session="s1"), await world.submit(session="s2")
    await world.send("cancel", {"session": "s1"})
    await world.handled()
    assert (await world.core.requests.get(inside.id)).status is Status.CANCELLED
    assert (await world.core.requests.get(outside.id)).status is Status.PENDING
    assert [one.name for one in await world.core.operator.list_sessions(AGENT)] == ["s2"]
