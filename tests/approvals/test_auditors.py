"""An auditor reads everything and changes nothing, on every surface: all of an adapter's calls and
all routes of the API are tried."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_type_hints

import pytest

from gateway.domain.policy_document import Route
from gateway.domain.records import AUDITOR, Click, Identity, Person, Remember, StoredRequest
from gateway.errors import BatchRefused, Unauthorized
from gateway.models import Status
from gateway.policy.declared_tools import ToolWord
from gateway.policy.grants.grant import Effect
from gateway.ports.adapter_api import AdapterApi, ManualGrantRequest, QueueFilter, Search
from gateway.ports.claims import Claimant, ClaimedPlace
from gateway.server.background import adapter_api
from gateway.wire.codec import plain
from tests.api.replica import EVE_TOKEN, Replica, made
from tests.frame.tree import ROOT
from tests.world import World, click, identity

EVE = identity("eve")
READS = {
    "requests.list_queue",
    "requests.count_queue",
    "requests.search_events",
    "requests.person",
    "requests.may_pass",
    "requests.may_decide",
    "grants.newest",
    "suggestions.suggest",
    "operator.status",
    "operator.report",
    "links.make",
}
"""What an auditor may call. A link to sign in to the inbox is their own."""
RECORDS = {"requests.refuse": "it records that an adapter refused somebody"}


@pytest.fixture
async def api(world: World) -> AdapterApi:
    """Return what the adapters use; eve is an auditor, and a route names her all the same."""
    await world.store.apply(
        replace(
            await world.store.policy(),
            people=(
                Person(name="ann", identities=("token:ann",), admin=True),
                Person(name="eve", identities=("token:eve",), admin=True, auditor=True),
            ),
            routes=(Route(approvers=("ann", "eve", "token:eve", "slack:T1/S9")),),
        ),
        by="test",
    )
    world.core.writer.forget_policy()
    return adapter_api("web", world.core, world.store, inbox="https://approvals.example")


def list_calls(api: AdapterApi) -> dict[str, Any]:
    """Return each method of an adapter's API that takes a person, by its name."""
    found = {}
    for part, protocol in get_type_hints(AdapterApi).items():
        if not getattr(protocol, "_is_protocol", False) or part in ("feed", "notes", "logins"):
            continue
        for name, method in inspect.getmembers(protocol, inspect.isfunction):
            hints = " ".join(map(str, inspect.get_annotations(method).values()))
            if not name.startswith("_") and any(k in hints for k in ("Identity", "Click", "Claim")):
                found[f"{part}.{name}"] = getattr(getattr(api, part), name)
    return found


async def call(method: Any, record: StoredRequest, grant: str) -> Any:
    """Call a method as eve, with an argument for each parameter."""
    wish = ManualGrantRequest(agent="bot", effect=Effect.ALLOW, chosen="x")
    given = {
        "identity": replace(EVE, groups=("slack:T1/S9",)),
        "click": click(record, identity=EVE),
        "clicks": [click(record, identity=EVE)],
        "by": Claimant(identity=EVE, handle="eve", words="eve"),
        "place": ClaimedPlace(target="slack:T1/C1", words="here"),
        "request_id": record.id,
        "record": record,
        "grant_id": grant,
        "agent": "bot",
        "session": "default",
        "side": QueueFilter.ALL,
        "search": Search(),
        "word": ToolWord(tool="shell", arguments={"command": "data"}),
        "example": record.id,
        "effect": Effect.ALLOW,
        "wish": wish,
        "offer": "x",
        "why": "no reason",
        "code": "CODE",
        "route": "default",
        "delegate": "ann",
        "until": 2**41,
        "zone": "UTC",
        "on": True,
        "revocable_by": EVE,
    }
    asked = inspect.signature(method).parameters.values()
    wanted = [one for one in asked if one.default is one.empty or one.name in ("identity",)]
    positional = [given[one.name] for one in wanted if one.kind is not one.KEYWORD_ONLY]
    named = {one.name: given[one.name] for one in wanted if one.kind is one.KEYWORD_ONLY}
    return await method(*positional, **named)


async def test_every_call_of_an_adapter_refuses_an_auditor(world: World, api: AdapterApi) -> None:
    """So do all buttons, modals and commands of all chats, which have nothing but these calls. A
    new call must refuse too, or be listed as a read."""
    record = await world.submit()
    made_by_ann = click(record, identity=identity("ann"), remember=Remember(everywhere=True))
    await world.core.requests.decide(made_by_ann)
    (grant,) = await api.grants.newest()
    record = await world.submit(tool="deploy")
    calls = list_calls(api)
    assert calls.keys() > READS | RECORDS.keys()
    for name, method in calls.items():
        before = len(await world.events())
        if name in READS:
            await call(method, record, grant.id)
            continue
        if name in RECORDS:
            continue
        with pytest.raises((Unauthorized, BatchRefused)) as refusal:
            await call(method, record, grant.id)
        says = str(refusal.value)
        assert AUDITOR in says or "only an admin" in says, (name, says)
        after = (await world.events())[before:]
        assert {one.type for one in after} <= {"refused"}, name
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_an_auditor_sees_masks_and_never_a_secret(world: World, api: AdapterApi) -> None:
    """Not even with the admin's right to reveal."""
    record = await world.submit(
        arguments={"command": "curl -H 'Authorization: Bearer abcdef123456'"}
    )
    with pytest.raises(Unauthorized, match="you are an auditor"):
        await api.requests.reveal(record.id, EVE)
    assert (await api.requests.reveal(record.id, identity("ann"))).id == record.id


@pytest.fixture
async def watched(gate: Replica) -> Replica:
    """Serve the API; eve is an auditor there."""
    policy = await gate.store.policy()
    people = tuple(replace(one, auditor=one.name == "eve") for one in policy.people)
    await gate.store.apply(replace(policy, people=people), by="test")
    return gate


READING = {("post", "/v1/explain")}


def list_operations() -> Sequence[tuple[str, str]]:
    """Return the method and path of each operation in docs/openapi.json."""
    document = json.loads((ROOT / "docs/openapi.json").read_text())
    return [(method, path) for path, one in document["paths"].items() for method in one]


@pytest.mark.parametrize(("method", "path"), list_operations())
async def test_every_route_that_writes_refuses_an_auditor(
    watched: Replica, method: str, path: str
) -> None:
    """Before it reads the body; routes of agents refuse the kind of token. Reading works."""
    request, gate = made(), watched
    await gate.submitted(request)
    filled = path.replace("{id}", request.id).replace("{grant}", "0" * 32)
    filled = filled.replace("{session}", "default").replace("{agent}", "agent1")
    if path == "/v1/events":
        return  # a stream, which reads
    if method == "get":
        answer = await gate.call("GET", filled, token=EVE_TOKEN)
        assert answer.status in (200, 404, 422), answer.text
        return
    answer = await gate.call(method.upper(), filled, {}, token=EVE_TOKEN)
    if (method, path) in READING:
        assert answer.problem == (422, "invalid_request")
    elif path == "/v1/enroll":
        assert answer.status in (401, 404)
    else:
        assert answer.problem == (403, "unauthorized")
        assert answer.json["detail"] == AUDITOR or "of kind agent" in answer.json["detail"]
    assert (await gate.core.requests.get(request.id)).status is Status.PENDING


async def test_an_auditor_reads_what_admins_read(watched: Replica) -> None:
    """The report and the explanation of a call; the grant of a person's own stays out of reach."""
    assert (await watched.call("GET", "/v1/report", token=EVE_TOKEN)).status == 200
    body = {"request": plain(made())}
    answer = await watched.call("POST", "/v1/explain", body, token=EVE_TOKEN)
    assert answer.status == 200, answer.text


def test_a_click_names_its_person() -> None:
    """The calls above find every way to click by this member."""
    assert get_type_hints(Click)["identity"] is Identity
