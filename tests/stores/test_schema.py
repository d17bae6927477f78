"""What records are stored without is told all the same."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.policy_document import Mode, Route
from gateway.domain.records import StoredRequest
from gateway.models import Action, Decision
from gateway.stores.record_codec import dumps, ending_of
from gateway.wire.codec import build, plain
from gateway.wire.signatures import Verifier
from tests.world import AGENT, PROCESS, World, click, identity, over_http, request

OTHER = "q" * 16
ANSWERS: dict[str, dict[str, Any]] = {
    "approved": {},
    "edited": {"action": Action.EDIT, "arguments": {"command": '"decided_by":{}'}},
    "answered for": {"action": Action.RESPOND, "result": {"decided_by": {"decided_at": 1}}},
    "denied": {"action": Action.DENY, "message": 'no \\"},"decided_at":5,"expires_at":6}'},
    "aborted": {"action": Action.ABORT, "abort": "turn"},
}
NAMES = ["ann", '",5,"x"]', '[2,"', "a\\", '},"decided_at":5', "%d%s", "Zoë"]


async def stored(world: World, record: StoredRequest) -> dict[str, str]:
    """Return what a record's hash holds."""
    found: dict[str, str] = await world.store.redis.hgetall(world.store.keys.record(record.id))
    return found


async def told(world: World, request_id: str, process: str = PROCESS) -> str:
    """Return the state, as text, that a process of the agent is told when it asks again."""
    await world.send("sync", {"ids": [request_id]}, process=process)
    await world.handled()
    return (await replies(world, process))[-1]


async def replies(world: World, process: str = PROCESS) -> list[str]:
    """Return all that a process was told, as text."""
    rows = await world.store.redis.xrange(world.store.keys.replies(AGENT, process))
    return [fields["state"] for _, fields in rows]


def whole(record: StoredRequest) -> str:
    """Return the decision as agents are to read it, byte for byte."""
    assert record.decision is not None
    return f'"decision":{dumps(record.decision.values())}'


@pytest.mark.parametrize("how", ANSWERS)
async def test_what_is_stored_in_short_is_told_whole(world: World, how: str) -> None:
    """The push, the answer to who asks again, and the record read anew give the same decision; of
    an approval only that is stored which the record does not say."""
    record = await world.submit()
    decided = await world.core.requests.decide(click(record, **ANSWERS[how]))
    kept = json.loads((await stored(world, decided))["decision"])
    assert isinstance(kept, list) == (how == "approved")
    assert whole(decided) in await told(world, record.id)
    again = await world.store.load(record.id)
    assert again is not None
    assert again.decision == decided.decision
    assert decided.decision is not None
    Verifier(world.signer.public_key).verify(
        again.decision.signed_bytes() if again.decision else b"", decided.decision.signature
    )


@pytest.mark.parametrize("name", NAMES)
async def test_no_name_changes_what_is_told(world: World, name: str) -> None:
    """Whoever decides may be called what they like: scripts put the decision together by text."""
    current = await world.store.policy()
    person = replace(current.people[0], name=name)
    route = Route(approvers=(name,))
    await world.put(people=(person,), routes=(route,))
    record = await world.submit()
    decided = await world.core.requests.decide(click(record, identity=identity("ann")))
    assert decided.decision is not None
    assert decided.decision.decided_by.name == name
    assert whole(decided) in await told(world, record.id)


async def test_every_process_is_told_what_it_was(world: World) -> None:
    """Pushed to who waits; by a rule, to who consumes it; to the second, that it may have run."""
    sent = request()
    await world.send("submit", plain(sent))
    await world.handled()
    record = await world.core.requests.get(sent.id)
    decided = await world.core.requests.decide(click(record))
    assert whole(decided) in (await replies(world))[-1]
    assert await world.approvals.consume(sent.id, over_http(OTHER))
    again = await world.store.load(sent.id)
    assert again is not None
    assert again.consumers == (PROCESS, OTHER)
    assert "decision" not in await told(world, sent.id)
    assert '"may_have_run":true' in await told(world, sent.id, OTHER)
    assert await world.approvals.consume(sent.id, over_http(PROCESS))
    assert '"may_have_run":true' in await told(world, sent.id)
    await world.route(Route(approvers=("ann",), mode=Mode.AUTO_APPROVE))
    ruled = request()
    await world.send("submit", plain(ruled))
    await world.handled()
    assert whole(await world.core.requests.get(ruled.id)) in (await replies(world))[-1]


async def test_a_decision_that_differs_from_its_record_is_kept_whole(world: World) -> None:
    """Nothing is left out that the record does not say itself."""
    record = await world.submit()
    decided = await world.core.requests.decide(click(record))
    assert decided.decision is not None
    other = replace(decided.decision, digest="f" * 64)
    kept, _ = ending_of(replace(decided, decision=other))
    assert build(Decision, json.loads(kept)) == other
