"""Login codes and sessions of browsers: for one person, once, for a time, and for nobody else."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from gateway.errors import Busy, Unauthorized
from gateway.stores.browser_sessions import CODE_SECONDS, SESSION_SECONDS, RedisLogins
from tests.world import World, identity


@pytest.fixture
def logins(world: World) -> RedisLogins:
    """Return the logins of a gateway that knows ann."""
    return RedisLogins(world.store)


async def test_a_code_and_a_session_are_two_secrets(logins: RedisLogins) -> None:
    """A code is no session, a session is no code, and each works whole alone."""
    code = await logins.invite("ann")
    assert await logins.who(code) is None
    for wrong in (code[:-1], f"{code}A", code.swapcase(), "", "ann"):
        with pytest.raises(Unauthorized):
            await logins.redeem(wrong, address="")
    session = await logins.redeem(code, address="")
    assert await logins.who(session) == identity("ann")
    for wrong in (session[:-1], f"{session}A", session.swapcase(), "", "ann"):
        assert await logins.who(wrong) is None
    for used in (code, session):
        with pytest.raises(Unauthorized):
            await logins.redeem(used, address="")


async def test_both_end_by_themselves(logins: RedisLogins) -> None:
    """The server is told when to forget a code and a session."""
    code = await logins.invite("ann")
    ttl = await logins._redis.ttl(logins._key("login", code))
    assert CODE_SECONDS - 60 < ttl <= CODE_SECONDS
    session = await logins.redeem(code, address="")
    ttl = await logins._redis.ttl(logins._key("browser", session))
    assert SESSION_SECONDS - 60 < ttl <= SESSION_SECONDS
    await logins.end(session)
    assert await logins.who(session) is None


async def test_nobody_logs_in_whom_the_policy_does_not_know(
    world: World, logins: RedisLogins
) -> None:
    """Neither by a code that was made for a name of nobody's, nor with what they had before."""
    with pytest.raises(Unauthorized):
        await logins.redeem(await logins.invite("mallory"), address="")
    code = await logins.invite("ann")
    session = await logins.redeem(await logins.invite("ann"), address="")
    policy = await world.store.policy()
    others = tuple(one for one in policy.people if one.name != "ann")
    await world.store.apply(replace(policy, people=others), by="test")
    assert await logins.who(session) is None
    with pytest.raises(Unauthorized):
        await logins.redeem(code, address="")


async def test_wrong_codes_are_limited_and_a_good_one_still_works(logins: RedisLogins) -> None:
    """Of an address, and of all together; who has a link gets in whatever others try."""
    code = await logins.invite("ann")
    for _ in range(20):
        with pytest.raises(Unauthorized):
            await logins.redeem("wrong", address="a")
    with pytest.raises(Busy):
        await logins.redeem("wrong", address="a")
    for number in range(2000):
        with suppress(Unauthorized, Busy):
            await logins.redeem("wrong", address=f"{number}")
    with pytest.raises(Busy):
        await logins.redeem("wrong", address="one more")
    assert await logins.who(await logins.redeem(code, address="a")) == identity("ann")
