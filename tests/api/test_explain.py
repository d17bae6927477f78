"""What would become of a call, asked of the gateway that would decide it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.models import Origin
from gateway.wire.codec import plain
from tests.api.replica import ANN_TOKEN, Replica, made


@pytest.mark.parametrize("agent", ["agent1", "nobody"])
async def test_it_is_explained_and_not_asked(gate: Replica, agent: str) -> None:
    """Each decider's opinion, the route and the people; an agent that does not exist is said."""
    policy = await gate.store.policy()
    people = tuple(replace(one, admin=one.name == "ann") for one in policy.people)
    await gate.store.apply(replace(policy, people=people), by="test")
    body = {"request": plain(made(agent=agent))}
    answer = await gate.call("POST", "/v1/explain", body, token=ANN_TOKEN)
    assert answer.status == 200
    assert answer.json["result"] == "people are asked"
    assert answer.json["approvers"] == ["ann"]
    assert answer.json["deciders"]
    assert answer.json.get("known", True) is (agent != "nobody")
    assert (await gate.call("GET", "/v1/requests", token=ANN_TOKEN)).json["items"] == []


async def test_it_says_where_the_card_would_go_and_why_not(gate: Replica) -> None:
    """The conversation on the route's list, another one, and none."""
    policy = await gate.store.policy()
    people = tuple(replace(one, admin=one.name == "ann") for one in policy.people)
    targets, origins = ("origin", "slack:T1/C9", "web"), ("slack:T1/C1",)
    (route,) = (replace(one, targets=targets, origins=origins) for one in policy.routes)
    await gate.store.apply(replace(policy, people=people, routes=(route,)), by="test")
    there = Origin(channel="slack", chat="T1/C1", thread="1780000000.000100")
    for origin, places, why in (
        (there, ["slack:origin/T1/C1/1780000000.000100", "web"], None),
        (
            replace(there, chat="T1/C2"),
            ["slack:T1/C9", "web"],
            "slack:T1/C2 is not in the `origins`",
        ),
        (Origin(), ["slack:T1/C9", "web"], "the request names no conversation"),
    ):
        body = {"request": plain(made(origin=plain(origin)))}
        answer = (await gate.call("POST", "/v1/explain", body, token=ANN_TOKEN)).json
        assert answer["targets"] == places
        assert (answer.get("origin_refused") or "").startswith(why or "")
        assert bool(answer.get("origin_refused")) is bool(why)


async def test_only_an_admin_may_ask(gate: Replica) -> None:
    """What is in force is not for agents, nor for everybody who may approve."""
    body = {"request": plain(made())}
    assert (await gate.call("POST", "/v1/explain", body)).status == 403
    assert (await gate.call("POST", "/v1/explain", body, token=ANN_TOKEN)).status == 403


@pytest.mark.parametrize(
    "wrong", [{"roles": {"": "data"}}, {"roles": {"x": "?"}}, {"id": "0" * 32}]
)
async def test_what_would_be_refused_is_not_explained(
    gate: Replica, wrong: dict[str, object]
) -> None:
    """Roles that there are not, and an id that is not that of its call."""
    policy = await gate.store.policy()
    people = tuple(replace(one, admin=one.name == "ann") for one in policy.people)
    await gate.store.apply(replace(policy, people=people), by="test")
    body = {"request": {**plain(made()), "call_id": "call-1", **wrong}}
    answer = await gate.call("POST", "/v1/explain", body, token=ANN_TOKEN)
    assert answer.problem == (422, "invalid_request")
