"""Grants that an admin makes unasked: an offer of an example, in the gateway's words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.policy_document import ToolRow
from gateway.models import new_id
from tests.api.replica import ANN_TOKEN, EVE_TOKEN, Replica, made

Json = dict[str, Any]
GIT: Json = {"kind": "command", "tool": "shell", "arguments": {"command": "git log -n 5"}}
WEATHER: Json = {"tool": "weather", "arguments": {"city": "Oslo"}}


@pytest.fixture
async def admin(gate: Replica) -> AsyncIterator[Replica]:
    """Yield a gateway of which ann is an admin, and where `weather` is harmless."""
    policy = await gate.store.policy()
    people = tuple(replace(one, admin=one.name == "ann") for one in policy.people)
    tools = (ToolRow(name="weather", harmless=True),)
    await gate.store.apply(replace(policy, people=people, tools=tools), by="test")
    yield gate


def body(example: Json, **more: Any) -> Json:
    """Return what is sent to remember something of an example."""
    return {"agent": "agent1", "effect": "allow", "example": example, **more}


async def offered(gate: Replica, example: Json, **more: Any) -> list[Json]:
    """Return the offers of an example."""
    answer = await gate.call(
        "POST", "/v1/grants/offers", {**body(example), **more}, token=ANN_TOKEN
    )
    assert answer.status == 200, answer.text
    found: list[Json] = answer.json["offers"]
    return found


async def refused(gate: Replica, sent: Json, status: int = 422) -> str:
    """Have a grant refused, and nothing made; return the sentence that says why."""
    answer = await gate.call("POST", "/v1/grants", sent, token=ANN_TOKEN)
    assert answer.status == status, answer.text
    assert await gate.core.grants.all() == []
    return str(answer.json["detail"])


async def test_an_offer_is_chosen_and_worded_by_the_gateway(admin: Replica) -> None:
    """Listed first, written by its id, it then covers what it says, for every session."""
    found = await offered(admin, GIT)
    assert found[0]["words"] == 'exactly this: "git log -n 5"'
    sent = body(GIT, offer=found[-1]["id"], lifetime="1d", max_uses=1)
    grant = (await admin.call("POST", "/v1/grants", sent, token=ANN_TOKEN)).json
    assert (grant["words"], grant["match"]) == (found[-1]["words"], found[-1]["match"])
    assert (grant["made_by"], grant["max_uses"]) == ("ann", 1)
    sibling = made(**{**GIT, "arguments": {"command": "git log -n 6"}, "session": "s9"})
    assert (await admin.submitted(sibling)).json["status"] == "approved"
    again = made(**{**GIT, "arguments": {"command": "git log -n 7"}})
    assert (await admin.submitted(again)).json["status"] == "pending", "it was for one use"


async def test_a_request_is_an_example_waiting_or_ended(admin: Replica) -> None:
    """By its id, of its own agent only; the grant names it, and ends when it is erased."""
    request = made(**WEATHER)
    await admin.submitted(request)
    example = {"request": request.id}
    (wide,) = [one for one in await offered(admin, example) if "everything that" in one["words"]]
    assert "a request of another agent, agent1" in await refused(
        admin, {**body(example, offer=wide["id"]), "agent": "agent2"}
    )
    assert await refused(admin, body({"request": new_id()}, offer=wide["id"]), 404)
    sent = body(example, match=wide["match"])
    grant = (await admin.call("POST", "/v1/grants", sent, token=ANN_TOKEN)).json
    assert (grant["from_request"], grant["words"]) == (request.id, wide["words"])
    bergen = made(tool="weather", arguments={"city": "Bergen"})
    assert (await admin.submitted(bergen)).json["status"] == "approved"
    await admin.core.approvals.erase(request.id, by="ann")
    erased = await admin.core.grants.get(grant["id"])
    assert (erased.erased, erased.words) == (True, "")
    assert "choose another request" in await refused(admin, body(example, offer=wide["id"]))


async def test_nobody_words_a_grant(admin: Replica) -> None:
    """Words that are sent along are refused, not passed over."""
    (exact, *_) = await offered(admin, GIT)
    said = await refused(admin, body(GIT, offer=exact["id"], words="only reads the weather"))
    assert "words" in said


@pytest.mark.parametrize(
    ("match", "why"),
    [
        ({"shape": "exact", "tool": "shell", "kind": "command", "digest": "0" * 64}, "never cover"),
        ({"shape": "tool", "tool": "shell", "kind": "command"}, "never cover"),
        ({"shape": "tool", "tool": "weather"}, "never cover"),
        (
            {
                "shape": "pattern",
                "tool": "shell",
                "kind": "command",
                "rules": [{"name": "command", "kind": "equals", "value": "git log -n 5"}],
            },
            "never cover",
        ),
        ({"shape": "work", "tool": "*"}, "a pass"),
        ({"shape": "exact", "tool": "shell"}, "digest"),
        ({"shape": "pattern", "tool": "shell"}, "a pattern needs rules"),
        ({"shape": "tool"}, "tool"),
    ],
)
async def test_a_match_that_is_no_offer_is_refused_with_the_reason(
    admin: Replica, match: Json, why: str
) -> None:
    """What could never cover anything, and what no offer of the example says."""
    assert why in await refused(admin, body(GIT, match=match))


@pytest.mark.parametrize(
    ("example", "chosen", "why"),
    [
        (GIT, {"offer": "0" * 16}, "unknown offer"),
        (GIT, {}, "name one offer"),
        (GIT, {"offer": "x", "match": {"shape": "tool", "tool": "shell"}}, "name one offer"),
        ({}, {"offer": "x"}, "an example needs"),
        ({**GIT, "request": "0" * 32}, {"offer": "x"}, "an example needs"),
        (
            {"request": "0" * 32, "arguments": {"a": 1}},
            {"offer": "x"},
            "with the member request cannot",
        ),
        ({"request": "x"}, {"offer": "x"}, "request"),
        ({"tool": "sh\u202e"}, {"offer": "x"}, "cannot be remembered"),
        ({"tool": "x", "kind": "question"}, {"offer": "x"}, "question"),
        (GIT, {"offer": "x", "nonce": "short"}, "nonce"),
    ],
)
async def test_an_example_or_choice_that_says_nothing_is_refused(
    admin: Replica, example: Json, chosen: Json, why: str
) -> None:
    """One example, one choice among its offers."""
    assert why in await refused(admin, body(example, **chosen))


@pytest.mark.parametrize("limits", [{"lifetime": "9y"}, {"max_uses": 0}, {"session": "a\nb"}])
async def test_limits_that_do_not_fit_are_refused(admin: Replica, limits: Json) -> None:
    """A life, uses and a session as everywhere else."""
    (exact, *_) = await offered(admin, GIT)
    await refused(admin, body(GIT, offer=exact["id"], **limits))


async def test_who_is_no_admin_makes_none_and_sees_no_offers(gate: Replica) -> None:
    """An approver is told so, and nothing is made."""
    for token in (ANN_TOKEN, EVE_TOKEN):
        for path, more in (("/v1/grants", {"offer": "x"}), ("/v1/grants/offers", {})):
            answer = await gate.call("POST", path, body(GIT, **more), token=token)
            assert answer.problem == (403, "unauthorized"), path


async def test_a_call_that_is_sent_again_makes_one_grant(admin: Replica) -> None:
    """By its nonce; under which nothing else is made, and what was revoked stays so."""
    exact, *others = await offered(admin, GIT)
    sent = body(GIT, offer=exact["id"], nonce="n" * 16)
    ids = [
        (await admin.call("POST", "/v1/grants", sent, token=ANN_TOKEN)).json["id"] for _ in range(2)
    ]
    assert ids == [one.id for one in await admin.core.grants.all()] * 2
    other = {**sent, "offer": others[0]["id"]}
    assert (await admin.call("POST", "/v1/grants", other, token=ANN_TOKEN)).status == 409
    await admin.call("POST", f"/v1/grants/{ids[0]}/revoke", {}, token=ANN_TOKEN)
    assert await refused(admin, sent, 409)


async def test_a_denial_by_hand_denies(admin: Replica) -> None:
    """Its offers are those of a denial."""
    (exact, *_) = await offered(admin, WEATHER, effect="deny")
    sent = {**body(WEATHER, offer=exact["id"]), "effect": "deny"}
    assert (await admin.call("POST", "/v1/grants", sent, token=ANN_TOKEN)).status == 201
    assert (await admin.submitted(made(**WEATHER))).json["status"] == "denied"


async def test_what_a_mask_hides_is_not_remembered_by_hand(admin: Replica) -> None:
    """Of a request whose words hide a secret: that is for the inbox, where it was revealed."""
    arguments = {"to": "kim@example.org", "threadid": "ghp_" + "a" * 36, "body": "words " * 9}
    request = made(tool="send_mail", arguments=arguments)
    await admin.submitted(request)
    example = {"request": request.id}
    (wide,) = [one for one in await offered(admin, example) if "any body" in one["words"]]
    assert "ghp_" not in wide["words"]
    assert "in the inbox, and remember" in await refused(admin, body(example, offer=wide["id"]))


async def test_exactly_a_request_that_a_mask_hides_is_not_allowed_by_hand(admin: Replica) -> None:
    """Its card is read in full in the inbox only. To deny exactly that is possible anywhere."""
    request = made(arguments={"command": "env Basic evil/payload.sh"})
    await admin.submitted(request)
    example = {"request": request.id}
    (exact, *_) = await offered(admin, example)
    assert "in the inbox, and remember" in await refused(admin, body(example, offer=exact["id"]))
    denial = {**body(example, match=exact["match"]), "effect": "deny"}
    assert (await admin.call("POST", "/v1/grants", denial, token=ANN_TOKEN)).status == 201


async def test_a_grant_by_hand_keeps_no_secret_in_its_words(admin: Replica) -> None:
    """They are stored, listed and exported; what it covers is compared with the value itself."""
    secret = "ghp_" + "a" * 36
    example = {"tool": "send_mail", "arguments": {
        "to": "kim@example.org", "threadid": secret, "body": "words " * 9}}  # fmt: skip
    (wide,) = [one for one in await offered(admin, example) if "any body" in one["words"]]
    answer = await admin.call(
        "POST", "/v1/grants", body(example, offer=wide["id"]), token=ANN_TOKEN
    )
    kept = await admin.core.grants.get(answer.json["id"])
    assert "secret of 40" in kept.words and secret not in kept.words
