"""Who gets in: tokens, kinds, hosts, query strings, and the limit on failed credentials."""

import asyncio
import logging
from urllib.parse import urlsplit

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from gateway.api.authentication import bearer_token
from gateway.api.problems import Unauthenticated
from gateway.domain.web_limits import FailureLimit
from gateway.models import new_id
from tests.api.replica import (
    AGENT_TOKEN,
    ANN_TOKEN,
    EVE_TOKEN,
    OTHER_TOKEN,
    PROCESS,
    Replica,
    made,
    replica,
)

AGENT_CALLS = [
    ("POST", "/v1/requests"),
    ("POST", f"/v1/requests/{'0' * 32}/cancel"),
    ("POST", f"/v1/requests/{'0' * 32}/consume"),
    ("POST", f"/v1/requests/{'0' * 32}/report"),
    ("POST", "/v1/sync"),
]
APPROVER_CALLS = [("POST", f"/v1/requests/{'0' * 32}/decide"), ("GET", "/v1/events")]
CALLS_OF_BOTH = [
    ("GET", "/v1/requests"),
    ("GET", f"/v1/requests/{'0' * 32}"),
    ("GET", "/v1/sessions"),
    ("POST", "/v1/sessions/default/end"),
]


@pytest.mark.parametrize(("method", "path"), AGENT_CALLS + APPROVER_CALLS + CALLS_OF_BOTH)
async def test_every_route_needs_a_good_token(gate: Replica, method: str, path: str) -> None:
    """Without a token, and with an unknown one, every route of the API says 401."""
    for token in (None, "agw_unknown_x"):
        answer = await gate.call(method, path, {} if method == "POST" else None, token=token)
        assert answer.problem == (401, "unauthorized")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(("method", "path"), APPROVER_CALLS)
async def test_agents_never_decide(gate: Replica, method: str, path: str) -> None:
    """An agent's token is refused before anything is looked at, also for its own request."""
    request = made()
    await gate.submitted(request)
    path = path.replace("0" * 32, request.id)
    body = {"revision": 1, "action": "approve"} if method == "POST" else None
    assert (await gate.call(method, path, body)).problem == (403, "unauthorized")
    assert (await gate.core.requests.get(request.id)).status == "pending"


@pytest.mark.parametrize(("method", "path"), AGENT_CALLS)
async def test_approvers_never_speak_for_agents(gate: Replica, method: str, path: str) -> None:
    """An approver's token neither submits nor takes approvals."""
    assert (await gate.call(method, path, {}, token=ANN_TOKEN)).problem == (403, "unauthorized")


async def test_a_listed_token_who_is_no_approver_of_the_route_is_refused(gate: Replica) -> None:
    """An approver's credential alone decides nothing: the route says who may."""
    request = made()
    await gate.submitted(request)
    body = {"revision": 1, "action": "approve"}
    answer = await gate.call("POST", f"/v1/requests/{request.id}/decide", body, token=EVE_TOKEN)
    assert answer.problem == (403, "unauthorized")
    assert (await gate.core.requests.get(request.id)).status == "pending"


@pytest.mark.parametrize(
    "scheme", ["Basic {}", "{}", "Bearer", "Bearer  {}", "Bearer {} x", "Bearer \u00e4{}"]
)
async def test_only_a_plain_bearer_header_counts(gate: Replica, scheme: str) -> None:
    """Anything but `Bearer <token>` is no credential."""
    headers = {"Authorization": scheme.format(AGENT_TOKEN)}
    answer = await gate.call("GET", "/v1/requests", token=None, headers=headers)
    assert answer.problem == (401, "unauthorized")


@pytest.mark.parametrize("count", [0, 2])
def test_one_header_gives_the_token(count: int) -> None:
    """Of two a proxy may have checked the other one; the server's own parser refuses them too."""
    once = ("Authorization", f"Bearer {AGENT_TOKEN}")
    for headers in ([once], [once] * count):
        request = make_mocked_request("GET", "/", headers=CIMultiDict(headers))
        if len(headers) == 1:
            assert bearer_token(request) == AGENT_TOKEN
        else:
            with pytest.raises(Unauthenticated):
                bearer_token(request)


RAW = {
    "a length and chunks": "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    "two lengths": "Content-Length: 2\r\nContent-Length: 3\r\n",
    "a length with a sign": "Content-Length: +2\r\n",
    "an unknown encoding": "Transfer-Encoding: xchunked\r\n",
    "a space before the colon": "Transfer-Encoding : chunked\r\n",
    "a folded header": "X-A: b\r\n c\r\n",
    "half a line end": "X-A: b\rX-B: c\r\n",
    "NUL": "X-A: b\0c\r\n",
    "two hosts": "Host: example.invalid\r\n",
    "two credentials": f"Authorization: Bearer {ANN_TOKEN}\r\n",
}


@pytest.mark.parametrize("name", RAW)
async def test_what_a_proxy_may_read_otherwise_is_refused(gate: Replica, name: str) -> None:
    """No request hides in another, and nobody is taken for somebody else."""
    parts = urlsplit(gate.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = f"Host: {parts.netloc}\r\nAuthorization: Bearer {AGENT_TOKEN}\r\n"
    head += "Content-Type: application/json\r\n"
    hidden = f"GET /healthz HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n"
    raw = f"POST /v1/sync HTTP/1.1\r\n{head}{RAW[name]}Connection: close\r\n\r\n0\r\n\r\n{hidden}"
    writer.write(raw.encode())
    answer = await asyncio.wait_for(reader.read(), 15)
    writer.close()
    assert answer.split()[1] in (b"400", b"401"), answer
    assert b"alive" not in answer


@pytest.mark.parametrize(
    "query", [f"token={AGENT_TOKEN}", f"x={AGENT_TOKEN}", "access_token=abc", "KEY=abc"]
)
async def test_token_in_the_query_string_is_refused_and_logged_without_it(
    gate: Replica, query: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An address ends up in logs: a token there is refused even beside a good header."""
    caplog.set_level(logging.INFO)
    answer = await gate.call("GET", f"/v1/requests?{query}")
    assert answer.problem == (401, "unauthorized")
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert [one.__dict__["event"] for one in warnings] == ["token_in_query"]
    assert "secretsecretsecret" not in caplog.text + answer.text


async def test_a_foreign_unknown_or_malformed_id_gets_the_same_answer(gate: Replica) -> None:
    """An agent never learns that another agent's id exists, by no route and no word."""
    request = made()
    await gate.submitted(request)
    bodies = {"consume": {"process": PROCESS}, "report": {"report": {"execution": "started"}}}
    for verb in ("", "consume", "report"):
        answers = []
        for one in (request.id, new_id(), "abc", request.id.upper(), request.id[:-1]):
            path = f"/v1/requests/{one}" + (f"/{verb}" if verb else "?wait=1")
            method = "POST" if verb else "GET"
            answers.append(await gate.call(method, path, bodies.get(verb), token=OTHER_TOKEN))
        assert {one.problem for one in answers} == {(404, "not_found")}
        assert len({one.text for one in answers}) == 1


async def test_cancel_of_a_foreign_id_is_not_found_and_changes_nothing(gate: Replica) -> None:
    """Another agent's request cannot be withdrawn."""
    request = made()
    await gate.submitted(request)
    path = f"/v1/requests/{request.id}/cancel"
    assert (await gate.call("POST", path, {}, token=OTHER_TOKEN)).problem == (404, "not_found")
    assert (await gate.core.requests.get(request.id)).status == "pending"


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "localhost.", "a@b", ""]
)
async def test_other_hosts_are_refused(gate: Replica, host: str) -> None:
    """A web page that rebinds its name to this address gets nothing."""
    answer = await gate.call("GET", "/v1/requests", headers={"Host": host})
    assert answer.problem == (421, "wrong_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "[::1]:8000", "gateway.example"])
async def test_own_hosts_are_served(gate: Replica, host: str) -> None:
    """Loopback names and the configured ones are ours, with any port."""
    assert (await gate.call("GET", "/v1/requests", headers={"Host": host})).status == 200


async def test_probes_are_answered_under_any_host(gate: Replica) -> None:
    """Orchestrators ask by address."""
    assert (await gate.call("GET", "/healthz", headers={"Host": "10.1.2.3"})).status == 200


async def test_failed_credentials_are_limited_also_on_loopback(gate: Replica) -> None:
    """After twenty failures an address gets no more answers to guesses; good ones are let in,
    also those that were never seen before: a proxy's address is everybody's."""
    for number in range(20):
        answer = await gate.call("GET", "/v1/requests", token=f"agw_guess{number}_x")
        assert answer.status == 401
    held = await gate.call("GET", "/v1/requests", token="agw_guess_x")
    assert held.problem == (429, "too_many_requests")
    assert held.headers["Retry-After"]
    for token in (AGENT_TOKEN, OTHER_TOKEN, ANN_TOKEN):
        assert (await gate.call("GET", "/v1/requests", token=token)).status == 200


async def test_a_revoked_credential_counts_as_failed(gate: Replica) -> None:
    """What was good is checked each time and is no longer good once revoked."""
    assert (await gate.call("GET", "/v1/requests")).status == 200
    del gate.credentials.known[AGENT_TOKEN]
    assert (await gate.call("GET", "/v1/requests")).problem == (401, "unauthorized")


def test_the_limit_ends_with_its_window() -> None:
    """Failures are forgiven after the window, counted by an injected clock, for each address."""
    now = [0.0]
    limit = FailureLimit(now=lambda: now[0], most=2, in_all=5, window=60.0)
    assert [limit.count("a") for _ in range(3)] == [True, True, False]
    assert [limit.count("b") for _ in range(3)] == [True, True, False]
    assert not limit.count("c")
    now[0] = 60.0
    assert limit.count("a")
    assert limit.count("c")


async def test_enrolment_guesses_are_limited(server_url: str, namespace: str) -> None:
    """The enrolment secret cannot be guessed faster than tokens."""
    async with replica(server_url, namespace, enrolment=True) as gate:
        body = {"agent": "local"}
        for number in range(20):
            await gate.call("POST", "/v1/enroll", body, token=f"guess{number}")
        held = await gate.call("POST", "/v1/enroll", body, token="guess")
        assert held.problem == (429, "too_many_requests")
