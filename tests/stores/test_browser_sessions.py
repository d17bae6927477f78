"""Login codes and sessions of browsers: for one person, once, for a time, and for nobody else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from gateway.domain.records import AuditEvent, Identity
from gateway.domain.risk import LevelRules, RulesByRisk
from gateway.errors import Busy, NotFound, Unauthorized
from gateway.ports.sign_in import IDLE_SECONDS, LONGEST_SECONDS
from gateway.stores.sign_in import CODE_SECONDS, MOST_DEVICES, RedisLogins
from tests.clocks import ShiftedClock
from tests.world import World, identity

TYPED: dict[str, Callable[[str], str]] = {
    "in small letters": str.lower,
    "without dashes": lambda code: code.replace("-", ""),
    "with blanks": lambda code: f" {code.replace('-', ' ')} ",
    "with letters for digits": lambda code: code.replace("0", "o").replace("1", "l"),
}


@pytest.fixture
def clock() -> ShiftedClock:
    """Return the clock of the logins."""
    return ShiftedClock()


@pytest.fixture
def logins(world: World, clock: ShiftedClock) -> RedisLogins:
    """Return the logins of a gateway that knows ann."""
    return RedisLogins(world.store, clock)


async def sign_in(logins: RedisLogins, person: str = "ann", device: str = "") -> str:
    """Return a session, as a one-time link gives it."""
    return await logins.redeem(await logins.invite(person), address="", device=device)


async def told(world: World, kind: str) -> list[AuditEvent]:
    """Return the events of a kind."""
    return [one for one in await world.store.history(None, 1000) if one.type == kind]


async def test_a_code_and_a_session_are_two_secrets(logins: RedisLogins) -> None:
    """A code is no session, a session is no code, and each works whole alone."""
    code = await logins.invite("ann")
    assert await logins.who(code) is None
    for wrong in (code[:-1], f"{code}A", code[::-1], "", "ann"):
        with pytest.raises(Unauthorized):
            await logins.redeem(wrong, address="")
    session = await logins.redeem(code, address="")
    assert await logins.who(session) == identity("ann")
    for wrong in (session[:-1], f"{session}A", session.swapcase(), "", "ann"):
        assert await logins.who(wrong) is None
    for used in (code, session):
        with pytest.raises(Unauthorized):
            await logins.redeem(used, address="")


@pytest.mark.parametrize("typed", TYPED.values(), ids=TYPED)
async def test_a_code_is_typed_as_people_type(
    logins: RedisLogins, typed: Callable[[str], str]
) -> None:
    """It is the same code, and works once whichever way."""
    code = await logins.invite("ann")
    assert await logins.find_holder(typed(code), address="") == "ann"
    await logins.redeem(typed(code), address="")
    for again in (code, typed(code)):
        with pytest.raises(Unauthorized):
            await logins.redeem(again, address="")


async def test_a_code_says_whose_it_is_and_stays(logins: RedisLogins) -> None:
    """To look at it does not use it up; one that is used, or was never made, says nobody."""
    code = await logins.invite("ann")
    assert await logins.find_holder(code, address="") == "ann"
    await logins.redeem(code, address="")
    for wrong in (code, "guess"):
        with pytest.raises(Unauthorized):
            await logins.find_holder(wrong, address="")


async def test_both_end_by_themselves(logins: RedisLogins) -> None:
    """The server is told when to forget a code and a session."""
    code = await logins.invite("ann")
    ttl = await logins._redis.ttl(logins._code(code))
    assert CODE_SECONDS - 60 < ttl <= CODE_SECONDS
    session = await logins.redeem(code, address="")
    ttl = await logins._redis.ttl(logins._key("browser", session))
    assert IDLE_SECONDS - 60 < ttl <= IDLE_SECONDS
    await logins.end(session)
    assert await logins.who(session) is None


async def test_a_session_in_use_slides(logins: RedisLogins, clock: ShiftedClock) -> None:
    """Each use begins the seven days anew; what happens without the person does not."""
    session = await sign_in(logins)
    key = logins._key("browser", session)
    for prolong, wanted in ((False, 40), (True, IDLE_SECONDS)):
        await logins._redis.expire(key, 40)
        clock.ahead += 120
        assert await logins.who(session, prolong=prolong) == identity("ann")
        ttl = await logins._redis.ttl(key)
        assert wanted - 30 < ttl <= wanted
    (listed,) = await logins.list_devices(session)
    assert listed.used >= listed.made + 240_000
    assert listed.current


async def test_no_use_prolongs_a_session_past_its_end(
    logins: RedisLogins, clock: ShiftedClock
) -> None:
    """After thirty days it has ended, though it was used a moment ago."""
    session = await sign_in(logins)
    clock.ahead = LONGEST_SECONDS - 100
    assert await logins.who(session) == identity("ann")
    assert await logins._redis.ttl(logins._key("browser", session)) <= 100
    clock.ahead = LONGEST_SECONDS + 1
    await logins._redis.persist(logins._key("browser", session))
    assert await logins.who(session) is None
    assert await logins.list_devices_of("ann") == []


async def test_a_prolonged_session_that_was_ended_stays_ended(
    logins: RedisLogins, clock: ShiftedClock
) -> None:
    """The last write of a use that crosses with the end makes nothing anew."""
    session = await sign_in(logins)
    found = await logins._find(session)
    assert found is not None
    await logins.end(session)
    clock.ahead = 3600
    await logins._prolong(logins._name(session), found)
    assert await logins.who(session) is None
    assert await logins._redis.zcard(logins._devices("ann")) == 0


async def test_devices_are_listed_and_ended_one_by_one(logins: RedisLogins, world: World) -> None:
    """Each with its words and its way; of one's own only, and whoever is left stays."""
    phone = await sign_in(logins, device="Safari on iPhone")
    api = await sign_in(logins, device="Firefox on Linux")
    bobs = await sign_in(logins, "bob")
    listed = await logins.list_devices(api)
    assert sorted((one.words, one.way, one.current) for one in listed) == [
        ("Firefox on Linux", "link", True),
        ("Safari on iPhone", "link", False),
    ]
    (other,) = (one.id for one in listed if not one.current)
    assert await logins.end_devices(bobs, (other,)) == 0, "it is not bob's"
    assert await logins.who(phone) is not None
    assert await logins.end_devices(api, (other, "guess")) == 1
    assert await logins.who(phone) is None
    assert await logins.who(api) is not None
    (event,) = await told(world, "signed_out")
    assert event.data == {"person": "ann", "by": "ann", "devices": [other[:12]]}


async def test_all_others_end_and_this_one_stays(logins: RedisLogins) -> None:
    """Of ann's, not bob's."""
    sessions = [await sign_in(logins) for _ in range(3)]
    bobs = await sign_in(logins, "bob")
    assert await logins.end_devices(sessions[0]) == 2
    alive = [await logins.who(one) is not None for one in (*sessions, bobs)]
    assert alive == [True, False, False, True]
    with pytest.raises(Unauthorized):
        await logins.end_devices(sessions[1])


async def test_somebody_is_signed_in_on_so_many_devices(logins: RedisLogins) -> None:
    """One more ends the one that was not used the longest."""
    first = await sign_in(logins)
    second = await sign_in(logins)
    for _ in range(MOST_DEVICES - 1):
        await sign_in(logins)
    assert await logins.who(first) is None
    assert await logins.who(second) is not None
    assert len(await logins.list_devices_of("ann")) == MOST_DEVICES


async def test_sign_ins_are_in_the_audit(logins: RedisLogins, world: World) -> None:
    """Who, as whom, in which way and on what; what was refused too, but not without end."""
    await sign_in(logins, device="Safari on iPhone")
    (event,) = await told(world, "signed_in")
    device = event.data.pop("device")
    assert event.data == {
        "person": "ann",
        "as": "token:ann",
        "way": "link",
        "on": "Safari on iPhone",
    }
    assert device == (await logins.list_devices_of("ann"))[0].id[:12]
    for number in range(60):
        with suppress(Unauthorized, Busy):
            await logins.redeem("wrong", address=f"198.51.100.{number // 10}")
    refused = await told(world, "sign_in_refused")
    assert len(refused) == 30
    assert refused[0].data["from"] == "198.51.100.0"
    assert refused[0].data["way"] == "link"


async def test_nobody_logs_in_whom_the_policy_does_not_know(
    world: World, logins: RedisLogins
) -> None:
    """Neither is a code made for a name of nobody's, nor does what they had before work."""
    with pytest.raises(NotFound):
        await logins.invite("mallory")
    code = await logins.invite("ann")
    session = await logins.redeem(await logins.invite("ann"), address="")
    policy = await world.store.policy()
    others = tuple(one for one in policy.people if one.name != "ann")
    await world.store.apply(replace(policy, people=others), by="test")
    assert await logins.who(session) is None
    for call in (logins.redeem, logins.find_holder):
        with pytest.raises(Unauthorized):
            await call(code, address="")


async def test_who_approves_at_one_level_of_risk_alone_signs_in(
    world: World, logins: RedisLogins
) -> None:
    """A route admits at any of its levels; out of that level, they are signed out."""
    policy, token = await world.store.policy(), Identity(platform="token", id="u9")
    rules = RulesByRisk(high=LevelRules(approvers=(token.written,)))
    routes = (replace(policy.routes[0], risk=rules), *policy.routes[1:])
    await world.store.apply(replace(policy, routes=routes), by="test")
    session = await logins.redeem(await logins.invite("u9"), address="")
    assert await logins.who(session) == token
    policy = await world.store.policy()
    closed = (replace(policy.routes[0], risk=RulesByRisk()), *policy.routes[1:])
    await world.store.apply(replace(policy, routes=closed), by="test")
    assert await logins.who(session) is None


async def test_an_identity_that_becomes_another_persons_is_signed_out(
    world: World, logins: RedisLogins
) -> None:
    """A session is of the person whom it was made for, and never somebody else's."""
    session = await sign_in(logins)
    policy = await world.store.policy()
    moved = tuple(
        replace(one, identities=("token:ann", "token:bob") if one.name == "bob" else ())
        for one in policy.people
    )
    await world.store.apply(replace(policy, people=moved), by="test")
    assert await logins.who(session) is None


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
