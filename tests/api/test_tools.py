"""Declarations over HTTP: only admins write them, they count at once, and floors are confirmed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.delivery.reminders_and_escalation import Rerouting
from gateway.domain.policy_document import ToolRow
from gateway.errors import Conflict
from gateway.policy.calls.call_effects import effects_of
from gateway.wire.roles import MOST_ROLES
from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, EVE_TOKEN, POLICY, Answer, Replica, made

NOTE: dict[str, Any] = {"tool": "jot", "arguments": {"zork": "a marked value"}}
WORD = {"tool": "jot", "arguments": {"zork": "data"}}


@pytest.fixture
async def admin(gate: Replica) -> Replica:
    """A replica on which ann is an admin."""
    await policy(gate)
    return gate


async def policy(gate: Replica, **changes: Any) -> None:
    """Put the usual policy in force, with ann as an admin."""
    ann, eve = POLICY.people
    generation = await gate.store.generation()
    people = (replace(ann, admin=True), eve)
    await gate.store.apply(
        replace(POLICY, generation=generation, **{"people": people, **changes}), by="test"
    )
    gate.core.writer.forget_policy()


async def declare(gate: Replica, token: str = ANN_TOKEN, **word: Any) -> Answer:
    """Declare something as somebody."""
    return await gate.call("POST", "/v1/tools", {**WORD, **word}, token=token)


async def events(gate: Replica, kind: str) -> list[Any]:
    """Return the events of a kind."""
    return [one for one in await gate.store.history(None, 200) if one.type == kind]


async def test_a_declaration_is_a_row_of_the_policy_with_who_and_when(admin: Replica) -> None:
    """It is a new generation; the audit has tool, address, role and person, and never a value."""
    request = made(**NOTE)
    await admin.submitted(request)
    before = await admin.store.generation()
    told = await declare(admin)
    assert told.status == 200, told.text
    assert await admin.store.generation() == before + 1
    (row,) = (await admin.store.policy()).tools
    assert (row.name, row.arguments, row.declared_by) == ("jot", {"zork": "data"}, "ann")
    assert row.declared_at.endswith("+00:00")
    (event,) = await events(admin, "tool_declared")
    assert event.data == {"tool": "jot", "address": "zork", "role": "data", "by": "ann"}
    listed = await admin.call("GET", "/v1/tools", token=EVE_TOKEN)
    assert listed.json == told.json
    assert "marked value" not in str([await events(admin, "policy"), event, told.text])


async def test_a_waiting_request_is_read_anew_at_once(admin: Replica) -> None:
    """What its card offers goes by the declaration, under a new revision; old clicks count."""
    request = made(**NOTE)
    await admin.submitted(request)
    before = await admin.core.requests.get(request.id)
    assert not effects_of(before)[0].leaves[0].free
    await declare(admin)
    await Rerouting(admin.core).look(request.id)
    after = await admin.core.requests.get(request.id)
    assert effects_of(after)[0].leaves[0].free
    assert (after.revision, after.shown_since) == (before.revision + 1, before.shown_since)
    assert len(await events(admin, "redeclared")) == 1
    await Rerouting(admin.core).look(request.id)
    assert (await admin.core.requests.get(request.id)).revision == after.revision


async def test_only_admins_declare_and_the_others_are_written_down(admin: Replica) -> None:
    """Not an approver, not an agent; nothing is changed by their trying."""
    before = await admin.store.generation()
    assert (await declare(admin, EVE_TOKEN)).status == 403
    assert (await declare(admin, AGENT_TOKEN)).status == 403
    assert (await admin.call("GET", "/v1/tools", token=AGENT_TOKEN)).status == 403
    assert await admin.store.generation() == before
    assert [one.agent for one in await events(admin, "refused")] == ["token:eve"]


async def test_an_admin_no_more_is_refused_though_this_replica_knew_them_as_one(
    admin: Replica,
) -> None:
    """The policy is read anew: what another replica just changed counts."""
    assert (await declare(admin)).status == 200
    ann, eve = POLICY.people
    now = await admin.store.policy()
    await admin.store.apply(replace(now, people=(ann, eve)), by="somebody else")
    assert (await declare(admin, arguments={"other": "data"})).status == 403


async def test_the_same_again_changes_nothing(admin: Replica) -> None:
    """Twice in turn, and twice at once: one generation, one event, and all are told yes."""
    before = await admin.store.generation()
    both = await asyncio.gather(declare(admin), declare(admin))
    assert [one.status for one in both] == [200, 200]
    assert (await declare(admin)).status == 200
    assert await admin.store.generation() == before + 1
    assert len(await events(admin, "tool_declared")) == 1


async def test_two_at_once_about_one_tool_both_count(admin: Replica) -> None:
    """Neither overwrites the other's word, nor another part of the policy."""
    words = [declare(admin, arguments={f"zork{number}": "data"}) for number in range(4)]
    assert {one.status for one in await asyncio.gather(*words)} == {200}
    found = await admin.store.policy()
    assert set(found.tools[0].arguments) == {f"zork{number}" for number in range(4)}
    assert found.routes == POLICY.routes


@pytest.mark.parametrize(
    "word",
    [
        {"arguments": {"query": "data"}},
        {"arguments": {"params.x": "data"}},
        {"arguments": {"target_path": "remark"}},
        {"arguments": {"prompt": "command"}},
        {"tool": "save_memory", "arguments": {"fact": "data"}},
        {"tool": "Bash", "arguments": {"command": "data"}},
        {"arguments": {}, "harmless": True},
    ],
)
async def test_what_frees_against_a_name_is_confirmed_first(admin: Replica, word: Any) -> None:
    """Nothing is written before that; confirmed, an operator may do it."""
    before = await admin.store.generation()
    refused = await declare(admin, **word)
    assert refused.problem[0] == 422
    assert "Confirm the declaration" in refused.json["detail"]
    assert await admin.store.generation() == before
    assert (await declare(admin, **word, confirmed=True)).status == 200


@pytest.mark.parametrize(
    "word",
    [
        {"arguments": {"query": "action"}},
        {"arguments": {"path": "read"}},
        {"arguments": {"query": "id"}},
    ],
)
async def test_what_frees_nothing_needs_no_confirmation(admin: Replica, word: Any) -> None:
    """To narrow, or to say what becomes of a path, is one press."""
    assert (await declare(admin, **word)).status == 200


async def test_more_agents_for_what_was_declared_earlier_are_confirmed(admin: Replica) -> None:
    """A row about one agent does not silently come to hold for another."""
    assert (await declare(admin, agents=["one"])).status == 200
    assert (await declare(admin, agents=["two"])).problem[0] == 422
    assert (await declare(admin, agents=["two"], confirmed=True)).status == 200
    (row,) = (await admin.store.policy()).tools
    assert row.agents == ("one", "two")
    assert (await declare(admin, agents=["two"], arguments={"other": "id"})).status == 200


@pytest.mark.parametrize(
    "word",
    [
        {"arguments": {"zork": "dta"}},
        {"arguments": {"": "data"}},
        {"arguments": {"x" * 300: "data"}},
        {"arguments": {}},
        {"tool": "a*"},
        {"tool": ""},
        {"tool": "a\nb"},
        {"arguments": {f"zork{number}": "data" for number in range(MOST_ROLES + 1)}},
    ],
)
async def test_what_no_policy_holds_is_refused(admin: Replica, word: Any) -> None:
    """With a sentence, and nothing is written."""
    before = await admin.store.generation()
    assert (await declare(admin, **word)).status == 422
    assert await admin.store.generation() == before


async def test_a_policy_that_keeps_changing_is_told(
    admin: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else was faster each time: 409, no event."""

    async def lose(*_: object, **__: object) -> int:
        raise Conflict("someone else changed the policy at the same time; try again")

    monkeypatch.setattr(admin.core.operator._store, "apply", lose)
    assert (await declare(admin)).status == 409
    assert await events(admin, "tool_declared") == []


async def test_a_row_of_the_file_is_kept_and_added_to(admin: Replica) -> None:
    """What the file says of the tool stays, but for what the word is about."""
    row = ToolRow(name="jot", harmless=True, arguments={"channel": "recipient", "zork": "id"})
    await policy(admin, tools=(row,))
    assert (await declare(admin)).status == 200
    (now,) = (await admin.store.policy()).tools
    assert now.harmless
    assert now.arguments == {"channel": "recipient", "zork": "data"}
