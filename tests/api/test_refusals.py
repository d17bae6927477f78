"""What is not a proper message is refused with a problem document, and changes nothing."""

import asyncio
import json
import logging
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from redis.exceptions import ConnectionError as RedisDown

from gateway.api.api_call import Limits
from gateway.domain.policy_document import Budget
from gateway.wire.codec import plain
from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, PROCESS, Replica, made, replica


def envelope(**more: Any) -> dict[str, Any]:
    """Return the body of a submit whose request has these members changed."""
    return {"request": {**plain(made()), **more}, "process": PROCESS}


def raw(**more: Any) -> bytes:
    """Return such a body as bytes."""
    return json.dumps(envelope(**more)).encode()


BROKEN = {
    "no json": b"{",
    "not an object": b"[]",
    "duplicate key": raw().replace(b'"tool":', b'"tool": "x", "tool":'),
    "duplicate key in arguments": raw().replace(b'{"command"', b'{"command": "rm", "command"'),
    "NaN": raw().replace(b'"ls"', b"NaN"),
    "infinity": raw().replace(b'"ls"', b"-Infinity"),
    "a number that overflows": raw().replace(b'"ls"', b"1e999"),
    "an overflowing number outside the digest": raw(schema={"x": "N"}).replace(b'"N"', b"1e999"),
    "an integer that loses digits": raw(schema={"x": "N"}).replace(b'"N"', b"9007199254740993"),
    "lone surrogate": raw().replace(b'"ls"', b'"\\ud800"'),
    "NUL": raw().replace(b'"ls"', b'"\\u0000"'),
    "bad UTF-8": raw().replace(b'"ls"', b'"\xff"'),
    "too deep": raw().replace(b'"ls"', b"[" * 80 + b"]" * 80),
    "unknown member": raw(Cmd="rm"),
    "unknown member of the envelope": json.dumps({**envelope(), "approve": True}).encode(),
    "own approvers": raw(approvers=["agent1"]),
    "missing member": json.dumps({"process": PROCESS}).encode(),
    "number as text": raw(timeout="5"),
    "text as number": raw(hint=5),
    "unknown kind": raw(kind="magic"),
    "unknown risk": raw(risk={"level": "none"}),
    "wrong digest": raw(digest="0" * 64),
    "wrong id": raw(id="abc"),
    "wrong session": raw(session="a\nb"),
    "negative timeout": raw(timeout=-1),
    "wrong process": json.dumps({**envelope(), "process": "../x"}).encode(),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_submit_is_refused_whole(gate: Replica, name: str) -> None:
    """Every ambiguous or ill-formed message gets 422 and leaves no request and no event."""
    before = await gate.store.history(None, 100)
    answer = await gate.call("POST", "/v1/requests", raw=BROKEN[name])
    assert answer.problem == (422, "invalid_request")
    assert (await gate.call("GET", "/v1/requests")).json["items"] == []
    assert await gate.store.history(None, 100) == before


async def test_the_refusal_names_the_member_but_not_its_value(gate: Replica) -> None:
    """An author can find the fault, and a secret in it is not repeated."""
    answer = await gate.call("POST", "/v1/requests", raw=raw(context={"cwd": ["s3cr3t"]}))
    assert "context.cwd" in answer.json["detail"]
    assert "s3cr3t" not in answer.text


async def test_a_claim_of_low_risk_changes_nothing(gate: Replica) -> None:
    """A risk that an agent states never lowers the gateway's own."""
    answer = await gate.call("POST", "/v1/requests", envelope(risk={"level": "low"}))
    assert answer.json["status"] == "pending"
    view = await gate.call("GET", f"/v1/requests/{answer.json['id']}", token=ANN_TOKEN)
    assert view.json["risk"]["level"] == "medium"


async def test_reordered_keys_are_the_same_request(gate: Replica) -> None:
    """The digest is over the value, not over one way to write it."""
    request = made(arguments={"a": 1, "b": 2})
    body = {"request": plain(request), "process": PROCESS}
    first = await gate.call("POST", "/v1/requests", body)
    backwards = dict(reversed(plain(request).items()))
    backwards["arguments"] = {"b": 2, "a": 1}
    again = await gate.call("POST", "/v1/requests", {"process": PROCESS, "request": backwards})
    assert (first.status, again.status) == (201, 200)


async def test_a_large_request_is_taken(gate: Replica) -> None:
    """Up to 1 MiB is read, off the event loop beyond 64 kB."""
    assert (await gate.submitted(made(arguments={"text": "x" * 900_000}))).status == 201


async def opened(gate: Replica, length: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Announce a body of this length to the API, and send none of it."""
    host, port = gate.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"POST /v1/requests HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
        f"Content-Type: application/json\r\nAuthorization: Bearer {AGENT_TOKEN}\r\n\r\n"
    )
    writer.write(head.encode())
    return reader, writer


async def test_a_larger_body_is_refused_before_it_is_read(gate: Replica) -> None:
    """What announces more than 1 MiB is answered without waiting for any of it."""
    reader, writer = await opened(gate, 2 * 1024 * 1024)
    assert (await reader.readline()).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_a_body_of_unknown_length_is_cut_at_the_limit(gate: Replica) -> None:
    """A chunked body cannot get round the limit."""

    async def endless() -> Any:
        while True:
            yield b" " * 65536

    headers = {"Authorization": f"Bearer {AGENT_TOKEN}"}
    headers["Content-Type"] = "application/json"
    url = f"{gate.url}/v1/requests"
    async with gate.http.post(url, data=endless(), headers=headers) as answer:
        assert answer.status == 413


async def test_a_kept_connection_does_not_stay(
    server_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On which nothing more is asked: the server closes it, and its caller connects anew."""
    monkeypatch.setattr("gateway.api.app.IDLE_SECONDS", 0.05)
    async with replica(server_url, namespace) as gate:
        host, port = gate.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(20):
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_body_that_trickles_is_cut_off(server_url: str, namespace: str) -> None:
    """Who announces a body and does not send it is answered 408."""
    async with replica(server_url, namespace, limits=Limits(body_seconds=0.05)) as gate:
        reader, writer = await opened(gate, 5)
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": ""},
        {"Content-Encoding": "identity, gzip"},
    ],
)
async def test_only_plain_json_is_read(gate: Replica, headers: dict[str, str]) -> None:
    """What a web form could send without asking, and what would have to be unpacked, is refused."""
    answer = await gate.call("POST", "/v1/requests", raw=raw(), headers=headers)
    assert answer.problem == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "query",
    ["wait=nan", "wait=-1", "wait=1&wait=2", "revision=x", "unknown=1", "process=..", "wait=1e999"],
)
async def test_a_query_string_is_as_strict_as_a_body(gate: Replica, query: str) -> None:
    """Parameters that are unknown, doubled or out of range are refused."""
    request = made()
    await gate.submitted(request)
    answer = await gate.call("GET", f"/v1/requests/{request.id}?{query}")
    assert answer.problem == (422, "invalid_request")


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "status=ok", "after=x", "agent=A", "session=%0a", "final=maybe"],
)
async def test_a_listing_refuses_bad_parameters(gate: Replica, query: str) -> None:
    """A page is bounded, and a cursor is one that we gave."""
    assert (await gate.call("GET", f"/v1/requests?{query}")).problem == (422, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [
        {"revision": 1},
        {"action": "approve"},
        {"revision": "1", "action": "approve"},
        {"revision": 1, "action": "allow"},
        {"revision": 1, "action": "approve", "identity": {"platform": "slack", "id": "U1"}},
        {"revision": 1, "action": "approve", "person": "ann"},
        {"revision": 1, "action": "approve", "nonce": "x"},
    ],
)
async def test_a_broken_decision_decides_nothing(gate: Replica, body: dict[str, Any]) -> None:
    """A decision with missing, unknown or wrong members (an identity above all) has no effect."""
    request = made()
    await gate.submitted(request)
    answer = await gate.call("POST", f"/v1/requests/{request.id}/decide", body, token=ANN_TOKEN)
    assert answer.problem == (422, "invalid_request")
    assert (await gate.core.requests.get(request.id)).status == "pending"


async def test_unknown_paths_and_methods_are_problems_too(gate: Replica) -> None:
    """Every error has the same shape; a wrong method says which ones there are."""
    assert (await gate.call("GET", "/nothing/here")).problem == (404, "not_found")
    wrong = await gate.call("DELETE", "/v1/requests")
    assert wrong.problem == (405, "method_not_allowed")
    assert wrong.headers["Allow"] == "GET,POST"
    beside = await gate.call("OPTIONS", "/v1/requests/prepare")  # which is no id of a request
    assert beside.headers["Allow"] == "POST"


@pytest.mark.parametrize("head", [b"X-A: a\0b", b"Authorization: Bearer \0", b"X\0: 1"])
async def test_what_is_no_http_is_refused_without_a_traceback(
    gate: Replica, caplog: pytest.LogCaptureFixture, head: bytes
) -> None:
    """A caller's bytes are no failure of the gateway, and its log does not repeat them."""
    caplog.set_level(logging.INFO)
    place = urlsplit(gate.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head + b"\r\n\r\n")
    assert b" 400 " in await reader.readline()
    writer.close()
    (line,) = (one for one in caplog.records if one.name == "aiohttp.server")
    assert (line.levelno, line.exc_info) == (logging.INFO, None)
    assert line.getMessage().startswith("rejected malformed HTTP: ")


async def test_every_answer_carries_the_headers(gate: Replica) -> None:
    """Nothing is cached, sniffed or framed, and each call has an id that a caller may choose."""
    for path in ("/v1/requests", "/nothing", "/healthz"):
        headers = (await gate.call("GET", path, headers={"X-Request-ID": "my-call-1"})).headers
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Request-ID"] == "my-call-1"
        assert "aiohttp" not in headers["Server"]
        assert "Strict-Transport-Security" not in headers
    odd = await gate.call("GET", "/healthz", headers={"X-Request-ID": "x y"})
    assert odd.headers["X-Request-ID"] != "x y"


async def test_over_tls_browsers_are_told_to_stay_there(server_url: str, namespace: str) -> None:
    """With TLS in front the answers say so."""
    async with replica(server_url, namespace, secure=True) as gate:
        headers = (await gate.call("GET", "/healthz")).headers
        assert headers["Strict-Transport-Security"]


async def test_a_failure_is_a_problem_and_its_log_holds_nothing_of_the_caller(
    server_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error answers 500 without detail, and is logged without message or token."""

    async def broken(request: web.Request) -> web.Response:
        raise ValueError("s3cr3t of the caller")

    async def unreachable(request: web.Request) -> web.Response:
        raise RedisDown("s3cr3t of the caller")

    pages = [web.get("/broken", broken), web.get("/down", unreachable)]
    async with replica(server_url, namespace, pages=pages) as gate:
        caplog.set_level(logging.INFO)
        answer = await gate.call("GET", "/broken?x=1")
        down = await gate.call("GET", "/down")
    assert answer.problem == (500, "error")
    assert down.problem == (503, "unreachable")
    logged = "\n".join(f"{one.getMessage()} {one.__dict__}" for one in caplog.records)
    assert "ValueError in broken:" in logged
    assert "s3cr3t" not in logged + answer.text + down.text
    assert "secretsecretsecret" not in logged
    assert "x=1" not in logged


async def test_pages_keep_their_own_answers(server_url: str, namespace: str) -> None:
    """An adapter's page may redirect and refuse in its own words, under the same guards."""

    async def login(request: web.Request) -> web.Response:
        raise web.HTTPSeeOther("/elsewhere")

    async def refuse(request: web.Request) -> web.Response:
        raise web.HTTPForbidden(text="<p>no", content_type="text/html")

    pages = [web.get("/login", login), web.get("/refuse", refuse)]
    async with replica(server_url, namespace, pages=pages) as gate:
        async with gate.http.get(f"{gate.url}/login", allow_redirects=False) as answer:
            assert answer.status == 303
        refused = await gate.call("GET", "/refuse")
        assert (refused.status, refused.text) == (403, "<p>no")
        assert (await gate.call("GET", "/login", headers={"Host": "evil.example"})).status == 421


async def test_too_much_of_one_agent_is_a_problem_of_its_own(gate: Replica) -> None:
    """429 with a code that no other refusal has; room is made as soon as one ended."""
    await gate.put(budgets=(Budget(waiting=1),))
    first, more = made(), made(arguments={"command": "pwd"})
    assert (await gate.submitted(first)).status == 201
    assert (await gate.submitted(more)).problem == (429, "over_budget")
    assert (await gate.decided(first.id)).status == 200
    assert (await gate.submitted(more)).status == 201
