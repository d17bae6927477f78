"""Credentials of agents and people: made once, by one; gone whole; kept apart."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry

import gateway.stores.credentials as stores_credentials
from gateway.domain.records import Person
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import Conflict, NotFound, Unauthorized
from gateway.stores import credentials as users
from gateway.stores.connect import connect
from gateway.stores.credentials import AGENT, APPROVER, NewCredential, RedisCredentials
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from tests.clocks import StandingClock
from tests.world import World


@pytest.fixture
def credentials(store: RedisStore) -> RedisCredentials:
    """Return the credentials of a namespace of the test's own."""
    return RedisCredentials(store, SystemClock())


def as_agent(server_url: str, new: NewCredential) -> Any:
    """Return a connection with the agent's own Redis user."""
    return redis.Redis.from_url(
        server_url,
        username=new.redis_user,
        password=new.redis_password,
        retry=Retry(NoBackoff(), 0),  # redis-py takes a refused login for a lost connection
    )


async def test_no_token_without_a_redis_user(
    server_url: str, namespace: str, store: RedisStore, credentials: RedisCredentials
) -> None:
    """When the server refuses to make the user, the name stays free and nothing works."""
    rules = ["on", ">limited", "~*", "&*", "+@all", "-acl|setuser"]
    await store.redis.execute_command("ACL", "SETUSER", f"{namespace}-limited", *rules)
    url = server_url.replace("unix://", f"unix://{namespace}-limited:limited@")
    limited = RedisStore(connect(url), Keys(namespace))
    with pytest.raises(NoPermissionError):
        await RedisCredentials(limited, SystemClock()).add_agent("ci")
    await limited.redis.aclose()
    assert await credentials.list_all(AGENT) == []
    assert await credentials.authenticate((await credentials.add_agent("ci")).token)


@pytest.mark.parametrize("kind", [AGENT, APPROVER])
async def test_a_name_is_given_once(server_url: str, store: RedisStore, kind: str) -> None:
    """Of eight replicas that add one name at the same time one wins, and what it shows works."""

    async def add() -> NewCredential:
        mine = RedisCredentials(store, SystemClock())
        return await (mine.add_agent("ci") if kind == AGENT else mine.add_approver("ci"))

    done = await asyncio.gather(*(add() for _ in range(8)), return_exceptions=True)
    won = [one for one in done if isinstance(one, NewCredential)]
    assert [type(one) for one in done if not isinstance(one, NewCredential)] == [Conflict] * 7
    credentials = RedisCredentials(store, SystemClock())
    assert await credentials.authenticate(won[0].token)
    assert len(await credentials.list_all(kind)) == 1
    if kind == AGENT:
        with as_agent(server_url, won[0]) as client:
            assert client.ping()


async def test_rotations_at_once_leave_one_whole_credential(
    server_url: str, store: RedisStore, credentials: RedisCredentials
) -> None:
    """The token that works and the password that works were shown together."""
    await credentials.add_agent("ci")
    fresh = [RedisCredentials(store, SystemClock()) for _ in range(5)]
    made = await asyncio.gather(*(one.rotate_agent("ci") for one in fresh))
    good = [
        one for one in made if await RedisCredentials(store, SystemClock()).authenticate(one.token)
    ]
    assert len(good) == 1
    with as_agent(server_url, good[0]) as client:
        assert client.ping()


async def renewed(store: RedisStore, key: str, *, times: int) -> None:
    """Return when a claim was made longer so many times."""
    left = await store.redis.pttl(key)
    while times:
        now = await store.redis.pttl(key)
        assert now > 0, "the claim ran out"
        times -= now > left
        left = now


async def test_a_change_that_takes_long_stays_alone(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim is renewed, so that it can be short: what a killed gateway leaves blocks nobody
    for longer than others wait for their turn."""
    assert stores_credentials.CHANGE_MS < 1000 * stores_credentials._TURN_SECONDS
    await RedisCredentials(store, SystemClock()).add_agent("ci")
    make, steps = users.grant, []

    async def slowly(*args: Any, **more: Any) -> Any:
        steps.append("begins")
        await renewed(store, store.keys.of("changing", "agent", "ci"), times=3)
        steps.append("ends")
        return await make(*args, **more)

    monkeypatch.setattr(stores_credentials, "grant", slowly)
    both = [RedisCredentials(store, SystemClock(), change_ms=150) for _ in range(2)]
    await asyncio.gather(*(one.rotate_agent("ci") for one in both))
    assert steps == ["begins", "ends"] * 2


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
async def test_every_token_of_a_name_is_forgotten(
    store: RedisStore, credentials: RedisCredentials, verb: str
) -> None:
    """Should one name ever have two tokens, both end: two were once made at the same moment."""
    tokens = []
    for name in ("one", "two"):
        token = (await credentials.add_agent(name)).token
        key_id = token.split("_")[1]
        row = json.loads(await store.redis.hget(store.keys.credentials, key_id))
        row["name"] = "twin"
        await store.redis.hset(store.keys.credentials, key_id, json.dumps(row))
        tokens.append(token)
    fresh = RedisCredentials(store, SystemClock())
    assert [await fresh.authenticate(token) is not None for token in tokens] == [True, True]
    if verb == "rotate":
        new = await fresh.rotate_agent("twin")
        assert await fresh.authenticate(new.token)
    else:
        await fresh.revoke_agent("twin")
    assert [await fresh.authenticate(token) for token in tokens] == [None, None]


async def test_namespaces_do_not_share_users(
    server_url: str, namespace: str, store: RedisStore, credentials: RedisCredentials
) -> None:
    """Two tenants on one server may both have an agent of one name; each keeps its own."""
    mine = await credentials.add_agent("ci")
    other = RedisStore(store.redis, Keys(f"{namespace}-agent"))
    theirs = RedisCredentials(other, SystemClock())
    await theirs.add_agent("ci")
    await theirs.revoke_agent("ci")
    with as_agent(server_url, mine) as client:
        assert client.xadd(store.keys.ingress("ci"), {"v": "1"})


async def test_revoking_leaves_nothing_of_an_agent(
    server_url: str, store: RedisStore, credentials: RedisCredentials
) -> None:
    """No token, no user, no queue, no name to be read; a second time there is no such agent."""
    made = await credentials.add_agent("ci")
    await store.redis.xadd(store.keys.ingress("ci"), {"v": "1"})
    await credentials.revoke_agent("ci")
    assert await store.agents() == []
    assert not await store.redis.exists(store.keys.ingress("ci"))
    with as_agent(server_url, made) as client, pytest.raises(redis.AuthenticationError):
        client.ping()
    with pytest.raises(Unauthorized):
        await credentials.holder("ci")
    with pytest.raises(NotFound):
        await credentials.revoke_agent("ci")


async def test_a_person_who_is_known_keeps_their_identities(world: World) -> None:
    """A token for somebody who answers in a chat does not take the chat away from them."""
    policy = await world.store.policy()
    slack = Person(name="dana", identities=("slack:T1/U1",), admin=True)
    await world.store.apply(replace(policy, people=(*policy.people, slack)), by="test")
    await world.credentials.add_approver("dana")
    found = next(one for one in (await world.store.policy()).people if one.name == "dana")
    assert found.identities == ("slack:T1/U1", "token:dana")
    assert found.admin


async def test_a_person_without_a_token_can_be_revoked(world: World) -> None:
    """Somebody who was named in the policy alone may not decide any more either."""
    await world.credentials.revoke_approver("eve")
    assert "eve" not in {person.name for person in (await world.store.policy()).people}
    with pytest.raises(NotFound):
        await world.credentials.revoke_approver("eve")


async def test_a_revoked_person_is_gone_from_the_routes(world: World) -> None:
    """Also where a route names the identity instead of the person: the chat decides no more."""
    policy = await world.store.policy()
    slack = Person(name="dana", identities=("slack:T1/U1",))
    route = replace(policy.routes[0], approvers=("ann", "slack:T1/U1", "token:dana", "slack:T1/S9"))
    people = (*policy.people, slack)
    await world.store.apply(replace(policy, people=people, routes=(route,)), by="test")
    await world.credentials.revoke_approver("dana")
    assert (await world.store.policy()).routes[0].approvers == ("ann", "slack:T1/S9")


async def test_the_token_of_somebody_the_policy_dropped_opens_nothing(world: World) -> None:
    """Taken out of the policy file: neither deciding nor reading, and back when they are back."""
    made = await world.credentials.add_approver("dana")
    before = await world.store.policy()
    assert await world.credentials.authenticate(made.token) is not None
    people = tuple(one for one in before.people if one.name != "dana")
    generation = await world.store.apply(replace(before, people=people), by="test")
    assert await world.credentials.authenticate(made.token) is None
    await world.store.apply(replace(before, generation=generation), by="test")
    assert await world.credentials.authenticate(made.token) is not None


async def test_a_token_works_from_the_moment_it_is_printed(
    store: RedisStore, credentials: RedisCredentials
) -> None:
    """Also where another process made it, and this one had read all tokens just before."""
    here, there = RedisCredentials(store, SystemClock()), credentials
    assert await here.authenticate(f"agw_{'0' * 8}_{'x' * 43}") is None
    made = [await there.add_agent("bot"), await there.add_approver("ann")]
    found = [await here.authenticate(one.token) for one in made]
    assert [one and one.name for one in found] == ["bot", "ann"]
    replaced = await there.rotate_agent("bot")
    assert await here.authenticate(replaced.token) is not None


async def test_an_old_token_and_password_work_beside_the_new_ones(
    server_url: str, store: RedisStore, namespace: str
) -> None:
    """For the overlap: open connections stay. Then the token is refused, the password is gone, and
    whoever logged in with it is cut; the audit says both."""
    clock = StandingClock(1_000_000)
    credentials = RedisCredentials(store, clock)
    old = await credentials.add_agent("ci")
    with as_agent(server_url, old) as earlier:
        assert earlier.ping()
        new = await credentials.rotate_agent("ci", overlap_ms=60_000)
        assert new.old_until == clock.now_ms() + 60_000
        with as_agent(server_url, new) as later:
            assert earlier.ping()
            assert later.ping()
            assert await held(credentials, old, new) == [True, True]
            (row,) = await credentials.list_all(AGENT)
            assert row.old_until == new.old_until
            assert row.key_id == new.token.split("_")[1]
            await credentials.end_replaced()
            assert await held(credentials, old, new) == [True, True]
            clock.now += 60_000
            assert await held(credentials, old, new) == [False, True]
            await credentials.end_replaced()
    with as_agent(server_url, old) as again, pytest.raises(redis.AuthenticationError):
        again.ping()
    with as_agent(server_url, new) as still:
        assert still.ping()
    (row,) = await credentials.list_all(AGENT)
    assert row.old_until is None
    told = {event.type: event.data for event in await store.history("0-0", 100)}
    assert told["agent_rotated"]["old_until"] == new.old_until
    assert told["old_token_ended"]["tokens"] == 1


async def test_the_end_of_an_old_token_cuts_its_connections(
    server_url: str, store: RedisStore
) -> None:
    """Somebody who holds the old password and stays logged in is out, too."""
    clock = StandingClock(1_000_000)
    credentials = RedisCredentials(store, clock)
    old = await credentials.add_agent("ci")
    with as_agent(server_url, old) as client:
        line = client.connection_pool.get_connection()
        line.send_command("PING")
        line.read_response()
        await credentials.rotate_agent("ci", overlap_ms=1000)
        clock.now += 1000
        await credentials.end_replaced()
        with pytest.raises(redis.ConnectionError):
            line.send_command("PING")
            line.read_response()


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
async def test_an_overlap_ends_early(server_url: str, store: RedisStore, verb: str) -> None:
    """A rotation with none, or the revocation of the agent, ends the old one at once."""
    credentials = RedisCredentials(store, SystemClock())
    old = await credentials.add_agent("ci")
    new = await credentials.rotate_agent("ci", overlap_ms=60_000)
    if verb == "rotate":
        await credentials.rotate_agent("ci")
    else:
        await credentials.revoke_agent("ci")
    assert await held(credentials, old, new) == [False, False]
    for one in (old, new):
        with as_agent(server_url, one) as client, pytest.raises(redis.AuthenticationError):
            client.ping()


async def test_an_approvers_token_is_replaced(store: RedisStore) -> None:
    """They stay who they are, and the old one ends by its time."""
    clock = StandingClock(1_000_000)
    credentials = RedisCredentials(store, clock)
    old = await credentials.add_approver("ann")
    new = await credentials.rotate_approver("ann", overlap_ms=1000)
    assert await held(credentials, old, new) == [True, True]
    clock.now += 1000
    assert await held(credentials, old, new) == [False, True]
    await credentials.end_replaced()
    assert [row.name for row in await credentials.list_all(APPROVER)] == ["ann"]
    with pytest.raises(NotFound):
        await credentials.rotate_approver("bob")


async def held(credentials: RedisCredentials, *made: NewCredential) -> list[bool]:
    """Return which tokens are good."""
    return [await credentials.authenticate(one.token) is not None for one in made]
