"""Several requests decided by one call."""

from __future__ import annotations

from typing import Any

from gateway.models import new_id
from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, EVE_TOKEN, Answer, Replica, made


async def asked(gate: Replica, count: int = 2) -> list[dict[str, Any]]:
    """Submit some requests; return them as a batch names them."""
    requests = [made(arguments={"command": f"ls {n}"}) for n in range(count)]
    for one in requests:
        await gate.submitted(one)
    return [{"id": one.id, "revision": 1} for one in requests]


async def batch(gate: Replica, items: Any, token: str = ANN_TOKEN, **more: Any) -> Answer:
    """Send a batch."""
    body = {"action": "approve", "items": items, **more}
    return await gate.call("POST", "/v1/batches", body, token=token)


async def test_a_batch_is_decided_and_a_repeated_call_is_the_same_one(gate: Replica) -> None:
    """Each is shown as it then stands; with the same nonce the call may be repeated."""
    items, nonce = await asked(gate), new_id()
    for _ in range(2):
        answer = await batch(gate, items, nonce=nonce, note="both read")
        assert answer.status == 200, answer.text
        found = [(one["request"]["id"], one["status"], one["note"]) for one in answer.json["items"]]
        assert found == [(one["id"], "approved", "both read") for one in items]
    again = await batch(gate, items)
    assert again.status == 409


async def test_what_stops_a_batch_is_named(gate: Replica) -> None:
    """The problem says by id what was wrong; nothing else was decided."""
    items = await asked(gate, 3)
    await gate.decided(items[1]["id"], "deny")
    answer = await batch(gate, items)
    assert (answer.status, answer.json["code"]) == (409, "batch_refused")
    assert answer.json["reasons"] == {
        items[1]["id"]: "this request was decided already: denied by ann"
    }
    listed = await gate.call("GET", "/v1/requests", token=ANN_TOKEN)
    assert {one["request"]["id"] for one in listed.json["items"]} == {
        items[0]["id"],
        items[2]["id"],
    }


async def test_who_may_not_decide_gets_nothing_done(gate: Replica) -> None:
    """An agent's token is refused on the route; somebody else's for each request, and audited."""
    items = await asked(gate)
    assert (await batch(gate, items, token=AGENT_TOKEN)).status == 403
    answer = await batch(gate, items, token=EVE_TOKEN)
    assert answer.status == 409
    assert set(answer.json["reasons"].values()) == {"you are not an approver for this request"}
    refused = [one for one in await gate.store.history(None, 99) if one.type == "refused"]
    assert [one.data["request_id"] for one in refused] == [one["id"] for one in items]
    for wrong in ([], items * 26, [{"id": "x", "revision": 1}], [{"id": items[0]["id"]}]):
        assert (await batch(gate, wrong)).status == 422
    assert (await batch(gate, items, action="respond")).status == 422
