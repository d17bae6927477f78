"""Tokens of the real registry, at every door: a known key id without its secret opens nothing."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio
from aiohttp import ClientError

from gateway.api.api_call import Limits
from gateway.api.app import SERVICES
from gateway.api.routes import AGENTS, APPROVERS, ENROL_SECRET, ApiRoute, routes
from gateway.domain.time_and_tasks import SystemClock
from gateway.stores.credentials import RedisCredentials
from gateway.wire.codec import plain
from tests.api.replica import ENROL_SECRET as SECRET
from tests.api.replica import PROCESS, Replica, made, replica, until
from tests.waiting import moment

AGENT, PERSON = "bot", "ann"
GUARDED = [one for one in routes(enrolment=True) if one.needs_token]
KINDS = {AGENT: AGENTS, PERSON: APPROVERS}


@pytest_asyncio.fixture
async def gate(server_url: str, namespace: str) -> AsyncIterator[Replica]:
    """A replica with the real registry, which does not tire of bad tokens."""
    limits = Limits(heartbeat_seconds=0.05)
    async with replica(
        server_url, namespace, enrolment=True, registered=True, limits=limits
    ) as one:
        one.app[SERVICES].access.limit.most = 10_000
        yield one


@pytest_asyncio.fixture
async def registry(gate: Replica) -> RedisCredentials:
    """The registry as another process of the gateway has it."""
    return RedisCredentials(gate.store, SystemClock())


@pytest_asyncio.fixture
async def tokens(registry: RedisCredentials) -> dict[str, str]:
    """The token of an agent, and that of a person."""
    agent, person = await registry.add_agent(AGENT), await registry.add_approver(PERSON, admin=True)
    return {AGENT: agent.token, PERSON: person.token}


def wrong(token: str, others: list[str]) -> list[str]:
    """Return tokens with this one's key id, and another secret."""
    head, secret = token[:13], token[13:]
    spoilt = [
        secret[:at] + ("B" if secret[at] == "A" else "A") + secret[at + 1 :] for at in (0, 21, 42)
    ]
    whole = [*spoilt, secret.swapcase(), secret[::-1], "A" * 43, *(one[13:] for one in others)]
    return [head + one for one in (*whole, secret[:-1], f"{secret}A", "", "*")]


async def status(gate: Replica, one: ApiRoute, token: str) -> int:
    """Return what a call answers, whose body is read by nobody: it may never end."""
    path = re.sub(r"{\w+}", "0" * 32, one.path)
    data = b"{}" if one.method == "POST" else None
    async with gate.opened(one.method, path, data, token=token) as answer:
        return answer.status


@pytest.mark.parametrize("name", [AGENT, PERSON])
async def test_a_key_id_without_its_secret_opens_no_door(
    gate: Replica, tokens: dict[str, str], name: str
) -> None:
    """At every route, the stream of events too, for both kinds: 401, where the true token is let
    in or told that it is of the other kind."""
    token = tokens.pop(name)
    bad = wrong(token, list(tokens.values()))
    assert len(GUARDED) > 20
    for one in GUARDED:
        admitted = await status(gate, one, token)
        assert admitted != 401, one
        assert (admitted == 403) is not bool(one.who & KINDS[name]), one
        for other in bad if one.path in ("/v1/requests", "/v1/events") else bad[:1]:
            assert await status(gate, one, other) == 401, (one, other)


@pytest.mark.parametrize("name", [AGENT, PERSON])
async def test_the_registry_knows_whole_tokens_alone(
    registry: RedisCredentials, tokens: dict[str, str], name: str
) -> None:
    """Neither part of a token, nor parts of two, nor what is kept of it, nor more around it."""
    token = tokens.pop(name)
    found = await registry.authenticate(token)
    assert found is not None
    assert (found.name, found.kind) == (name, *KINDS[name])
    rows = await registry._redis.hgetall(registry._keys.credentials)
    kept = [json.loads(row)["sha256"] for row in rows.values()]
    around = [f"{token}\n", f" {token}", f"{token}\0", token.upper(), *kept]
    foreign = [f"agw_{'0' * 8}_{token[13:]}", *(one[:13] + token[13:] for one in tokens.values())]
    for one in (*wrong(token, list(tokens.values())), *around, *foreign):
        assert await registry.authenticate(one) is None, one


async def test_enrolling_takes_the_whole_secret(gate: Replica, tokens: dict[str, str]) -> None:
    """No part of it, no other case, and no token of the registry, an admin's neither."""
    (enroll,) = [one for one in routes(enrolment=True) if one.who == ENROL_SECRET]
    bad = [SECRET[:-1], f"{SECRET}x", SECRET[0], SECRET.upper(), SECRET[::-1], *tokens.values()]
    for one in bad:
        answer = await gate.call(enroll.method, enroll.path, {"agent": AGENT}, token=one)
        assert answer.problem == (401, "unauthorized")
    good = await gate.call(enroll.method, enroll.path, {"agent": AGENT}, token=SECRET)
    assert good.status == 200


@pytest.mark.parametrize("name", [AGENT, PERSON])
async def test_what_was_revoked_elsewhere_is_refused_within_a_second(
    gate: Replica, registry: RedisCredentials, tokens: dict[str, str], name: str
) -> None:
    """By a replica that read the credentials a moment ago: no call that began later is served."""
    assert (await gate.call("GET", "/v1/requests", token=tokens[name])).status == 200
    await (registry.revoke_agent if name == AGENT else registry.revoke_approver)(name)
    asked = revoked = asyncio.get_running_loop().time()
    while (await gate.call("GET", "/v1/requests", token=tokens[name])).status != 401:
        assert asked - revoked < 1
        await moment()
        asked = asyncio.get_running_loop().time()


async def test_one_name_of_two_kinds_is_two_credentials(registry: RedisCredentials) -> None:
    """An agent that is called as a person is: neither is taken for the other, and revoking or
    renewing the one leaves the other."""
    agent, person = await registry.add_agent(PERSON), await registry.add_approver(PERSON)
    found = [await registry.authenticate(one.token) for one in (agent, person)]
    assert [one and one.kind for one in found] == ["agent", "approver"]
    renewed = await registry.rotate_agent(PERSON)
    assert await registry.authenticate(agent.token) is None
    assert await registry.authenticate(person.token) is not None
    await registry.revoke_approver(PERSON)
    assert await registry.authenticate(person.token) is None
    assert await registry.authenticate(renewed.token) is not None
    await registry.revoke_agent(PERSON)
    assert await registry.authenticate(renewed.token) is None


async def test_a_stream_ends_with_the_token_that_opened_it(
    gate: Replica, tokens: dict[str, str]
) -> None:
    """At the next sign of life, without any event."""
    async with gate.opened("GET", "/v1/events", token=tokens[PERSON]) as stream:
        assert stream.status == 200
        await stream.content.readline()
        await gate.store.redis.delete(gate.store.keys.credentials)
        async with asyncio.timeout(20):
            with suppress(ClientError):
                while await stream.content.readline():
                    pass


async def test_a_poll_is_not_answered_to_a_token_that_was_renewed_meanwhile(
    gate: Replica, registry: RedisCredentials, tokens: dict[str, str]
) -> None:
    """Who had the old token hears nothing of how the request ended."""
    request = made(AGENT)
    await gate.call(
        "POST",
        "/v1/requests",
        {"request": plain(request), "process": PROCESS},
        token=tokens[AGENT],
    )
    path = f"/v1/requests/{request.id}?wait=20&process={PROCESS}"
    polling = asyncio.create_task(gate.call("GET", path, token=tokens[AGENT]))
    await until(lambda: gate.hanging == 1)
    renewed = await registry.rotate_agent(AGENT)
    while (await gate.call("GET", "/v1/requests", token=tokens[AGENT])).status != 401:
        await moment()
    path = f"/v1/requests/{request.id}/cancel"
    assert (await gate.call("POST", path, {}, token=renewed.token)).status == 200
    assert (await polling).problem == (401, "unauthorized")
