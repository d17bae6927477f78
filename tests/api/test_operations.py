"""Health, readiness, metrics, and the OpenAPI document."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from gateway.api.agent_hooks import BASE as HOOKS
from gateway.api.openapi import document_of, encode
from gateway.api.routes import ROUTES, routes
from gateway.approval_protocol.routes import BASE
from gateway.errors import GatewayError
from gateway.models import new_id
from gateway.stores.audit import Sealer
from tests.api.replica import (
    AGENT_TOKEN,
    ANN_TOKEN,
    PROCESS,
    Replica,
    made,
    replica,
)

COUNTED = (
    "gateway_submitted",
    "gateway_refused",
    "gateway_requests",
    "gateway_dead_",
    "gateway_cards",
)
DOCS = Path(__file__).parents[2] / "docs"


async def figures(gate: Replica) -> dict[str, float]:
    """Return the samples of the metrics page, labels in braces."""
    page = await gate.call("GET", "/metrics", token=None)
    assert page.headers["Content-Type"].startswith("text/plain")
    return {
        sample.name + (str(sorted(sample.labels.items())) if sample.labels else ""): sample.value
        for family in text_string_to_metric_families(page.text)
        for sample in family.samples
    }


async def test_health_is_open_and_asks_nothing(gate: Replica) -> None:
    """Liveness depends on the process alone, so that a store's outage restarts nothing."""
    await gate.store.redis.client_pause(300, all=True)
    answer = await asyncio.wait_for(gate.call("GET", "/healthz", token=None), 0.25)
    assert (answer.status, answer.json) == (200, {"status": "alive"})


async def test_readiness_says_what_is_missing(gate: Replica) -> None:
    """Ready is green with everything in place, red with a sentence per problem."""
    assert (await gate.call("GET", "/readyz", token=None)).json == {"status": "ready"}
    gate.problems.append("the intake does not read")
    red = await gate.call("GET", "/readyz", token=None)
    assert red.status == 503
    assert red.json == {"status": "not ready", "problems": ["the intake does not read"]}


async def test_readiness_is_red_when_the_store_is_silent(
    gate: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that hangs makes the gateway not ready, within a bound."""
    monkeypatch.setattr("gateway.api.operators.READY_SECONDS", 0.05)
    await gate.store.redis.client_pause(300, all=True)
    assert (await gate.call("GET", "/readyz", token=None)).status == 503


async def test_metrics_count_what_is_sealed(server_url: str, gate: Replica) -> None:
    """Requests by status and reason are the same on every replica, each event counted once,
    whoever decided and however many seal at the same time."""
    async with replica(server_url, gate.store.keys.namespace) as other:
        request, waiting = made(), made()
        await gate.submitted(waiting)
        await gate.submitted(request)
        await gate.decided(request.id)
        for noted in ("dead_letter", "copy_stuck", "refused"):
            await gate.store.note(noted, data={})
        sealers = [Sealer(one.store, one.core.feed) for one in (gate, other)]
        await asyncio.gather(*(one.seal_all() for one in sealers))
        found, here = await figures(other), await figures(gate)
        counted = [name for name in found if name.startswith(COUNTED)]
        assert {name: here[name] for name in counted} == {name: found[name] for name in counted}
    assert found["gateway_submitted_total"] == 2
    assert found["gateway_requests_total[('reason', 'person'), ('status', 'approved')]"] == 1
    assert found["gateway_dead_letters_total"] == 1
    assert found["gateway_refused_total"] == 1
    assert found["gateway_cards_total[('outcome', 'copy_stuck')]"] == 1
    assert found["gateway_pending_requests"] == 1


async def test_the_oldest_that_waits_has_its_age(gate: Replica) -> None:
    """Nothing waits: no age; then that of the request that was asked first."""
    assert (await figures(gate))["gateway_oldest_pending_seconds"] == 0
    await gate.submitted(made())
    first = (await gate.store.redis.zrange(gate.store.keys.pending, 0, 0))[0]
    await gate.store.redis.zincrby(gate.store.keys.pending, -60_000, first)
    await gate.submitted(made())
    assert 60 <= (await figures(gate))["gateway_oldest_pending_seconds"] < 100


async def test_metrics_count_what_happens_here(gate: Replica) -> None:
    """Decide times, failed credentials and open waits are this replica's own."""
    request = made()
    await gate.submitted(request)
    await gate.decided(request.id)
    await gate.call("GET", "/v1/requests", token="agw_x_x")
    await gate.call("GET", "/v1/requests", token=None)
    found = await figures(gate)
    assert found["gateway_decide_seconds_count"] == 1
    assert found["gateway_auth_failures_total"] == 2
    assert found["gateway_http_waiters"] == 0


async def test_a_reason_nobody_knows_makes_no_label_of_its_own(gate: Replica) -> None:
    """What stands in the stream cannot blow up the number of time series."""
    await gate.store.note("denied", data={"reason": new_id()})
    await Sealer(gate.store, gate.core.feed).seal_all()
    found = await figures(gate)
    assert found["gateway_requests_total[('reason', 'unknown'), ('status', 'denied')]"] == 1


async def served_routes(gate: Replica) -> set[tuple[str, str]]:
    """Return the method and path of every route that aiohttp serves."""
    return {
        (route.method, route.resource.canonical)
        for route in gate.app.router.routes()
        if route.resource is not None
    }


@pytest.mark.parametrize("enrolment", [True, False])
async def test_the_document_and_the_routes_are_the_same(
    server_url: str, namespace: str, enrolment: bool
) -> None:
    """Each served route is documented, and each documented one is served; but for those of the
    Agent Approval Protocol and of hosts' hooks, whose documents are their own."""
    async with replica(server_url, namespace, enrolment=enrolment) as gate:
        document = (await gate.call("GET", "/v1/openapi.json", token=None)).json
        documented = {
            (method.upper(), path)
            for path, methods in document["paths"].items()
            for method in methods
        }
        served = await served_routes(gate)
        others = (f"{BASE}/", f"{HOOKS}/")
        assert documented == {one for one in served if not one[1].startswith(others)}
        assert len(served) > len(documented)
        assert ("/v1/enroll" in document["paths"]) is enrolment


async def test_the_document_in_the_docs_is_the_one_served(server_url: str, namespace: str) -> None:
    """docs/openapi.json is written anew whenever the API changes."""
    async with replica(server_url, namespace, enrolment=True) as gate:
        served = (await gate.call("GET", "/v1/openapi.json", token=None)).text
    assert (DOCS / "openapi.json").read_text(encoding="utf-8") == served


def test_every_route_and_error_code_stands_in_the_docs() -> None:
    """The page about the HTTP API names each route and each code of a problem."""
    page = (DOCS / "reference" / "http-api.md").read_text(encoding="utf-8")
    for one in ROUTES:
        assert f"`{one.method} {one.path}" in page, one.path
    for code in ("unauthorized", "not_found", "too_large", "wrong_host", "too_many_requests"):
        assert f"`{code}`" in page


async def test_answers_fit_their_schemas(gate: Replica) -> None:
    """What the API says is what the document promises, for the messages that matter most."""
    document = (await gate.call("GET", "/v1/openapi.json", token=None)).json
    request = made(hint="why", risk={"level": "high", "reasons": ["it deletes"]})
    state = (await gate.submitted(request)).json
    view = (await gate.decided(request.id, "deny", message="no")).json
    refused = (await gate.call("GET", f"/v1/requests/{new_id()}")).json
    for name, value in (("State", state), ("RequestView", view), ("Problem", refused)):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema).validate(value)
    page = (await gate.call("GET", "/v1/requests?final=true")).json
    listing = {"$ref": "#/components/schemas/Requests", "components": document["components"]}
    Draft202012Validator(listing).validate(page)


def test_what_agents_send_is_closed_and_what_they_get_is_open() -> None:
    """Bodies refuse unknown members in the schema too; answers may grow."""
    schemas = document_of(routes(enrolment=True))["components"]["schemas"]
    for name in ("Submit", "ApprovalRequest", "Decide", "Report", "Context"):
        assert schemas[name]["additionalProperties"] is False
    for name in ("State", "Decision", "RequestView", "Problem"):
        assert "additionalProperties" not in schemas[name]
    asked, drafted = schemas["ApprovalRequest"], schemas["Prepare"]["properties"]["request"]
    assert {**drafted["properties"], "digest": asked["properties"]["digest"]} == asked["properties"]
    assert "digest" not in drafted["properties"]
    assert schemas["Batch"]["properties"]["action"]["enum"] == ["approve", "deny"]
    assert drafted["additionalProperties"] is False
    # `prepare` adds these three.
    assert {*asked["required"]} - {*drafted["required"]} == {"agent", "digest", "id"}


def test_integers_are_bounded_as_messages_are() -> None:
    """A client made of the document sends none that the gateway refuses."""
    text = json.dumps(document_of(routes(enrolment=True))["components"]["schemas"])
    integers = re.findall(r'\{[^{}]*"type": "integer"[^{}]*\}', text)
    assert len(integers) > 50
    for one in map(json.loads, integers):
        assert -(2**53) < one["minimum"] < one["maximum"] < 2**53, one


def test_reasons_may_be_added_and_an_agent_gives_one_of_its_own() -> None:
    """A client made of the document takes a reason that it does not know, and sends no such one."""
    document = document_of(routes(enrolment=True))
    for name, reason, fits in (
        ("Reason", "quarantined", True),
        ("Cancel", {"reason": "abandoned"}, True),
        ("Cancel", {"reason": "person"}, False),
        ("Cancel", {"reason": "quarantined"}, False),
    ):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        assert Draft202012Validator(schema).is_valid(reason) == fits, (name, reason)


def test_every_schema_has_the_name_of_its_class() -> None:
    """Two classes of one name would get longer names, with their modules or modes in them."""
    schemas = document_of(routes(enrolment=True))["components"]["schemas"]
    assert {name: schema["title"] for name, schema in schemas.items()} == {
        name: name for name in schemas
    }
    assert all(re.fullmatch("[A-Z][A-Za-z]+", name) for name in schemas), sorted(schemas)


def test_operations_are_named_once() -> None:
    """No two routes share an operationId."""
    assert len({one.operation.id for one in ROUTES}) == len(ROUTES)


def test_the_document_is_stable() -> None:
    """Two runs write the same bytes."""
    assert encode(document_of(ROUTES)) == encode(document_of(ROUTES))


@pytest.mark.parametrize("token", [AGENT_TOKEN, ANN_TOKEN])
async def test_random_bodies_never_break_a_route(gate: Replica, token: str) -> None:
    """Whatever is posted to whatever route, the answer is ours: never a 500, never empty."""
    bodies: list[object] = [None, [], "x", 0, {}, {"a": {}}, {"process": PROCESS, "ids": "x"}]
    for one in ROUTES:
        if one.operation.body is None:
            continue
        path = one.path.replace("{id}", new_id()).replace("{session}", "default")
        for body in bodies:
            raw = json.dumps(body).encode()
            answer = await gate.call(one.method, path, raw=raw, token=token)
            assert answer.status < 500, (path, body)
            assert answer.json is not None


def test_the_api_codes_are_those_of_the_errors() -> None:
    """Every problem's code belongs to exactly one meaning per status."""
    found: dict[tuple[str, int], str] = {}
    todo: list[type[GatewayError]] = [GatewayError]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if "code" in vars(cls):
            assert found.setdefault((cls.code, cls.status), cls.__name__) == cls.__name__
