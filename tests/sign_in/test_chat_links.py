"""Links that somebody asks for in a chat: for them alone, once, soon, and not without end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.domain.policy_document import Route
from gateway.domain.records import Identity, Person
from gateway.errors import Busy, InvalidRequest, Unauthorized
from gateway.ports import CHAT_LINK_SECONDS
from gateway.sign_in.logins import ChatLinks
from gateway.stores.sign_in import LINKS_AT_ONCE, RedisLogins
from tests.clocks import ShiftedClock
from tests.stores.test_browser_sessions import told
from tests.world import World

INBOX = "https://approvals.example/inbox"
ANN = Identity(platform="slack", id="T1/U1", groups=("slack:T1/S9",))
ALONE = Identity(platform="slack", id="T1/U2")


@pytest.fixture
async def logins(world: World) -> RedisLogins:
    """Return the logins of a gateway that knows ann in Slack, and somebody by their account."""
    policy = await world.store.policy()
    people = (*policy.people[1:], Person(name="ann", identities=("token:ann", ANN.written)))
    routes = (Route(approvers=("ann", ALONE.written, "slack:T1/S9")),)
    await world.store.apply(replace(policy, people=people, routes=routes), by="test")
    return RedisLogins(world.store, ShiftedClock())


def code_of(url: str) -> str:
    """Return the code of a link."""
    start, _, code = url.partition("#code=")
    assert start == f"{INBOX}/login"
    return code


async def test_a_link_signs_in_who_asked(world: World, logins: RedisLogins) -> None:
    """As the person whom the policy knows by this account; once, and soon; it is audited."""
    made = await ChatLinks(logins, "slack", INBOX).make(ANN)
    assert (made.name, made.minutes) == ("ann", 5)
    code = code_of(made.url)
    ttl = await world.store.redis.ttl(logins._code(code))
    assert CHAT_LINK_SECONDS - 60 < ttl <= CHAT_LINK_SECONDS
    assert await logins.find_holder(code, address="") == "ann"
    session = await logins.redeem(code, address="")
    assert await logins.who(session) == replace(ANN, groups=())
    with pytest.raises(Unauthorized):
        await logins.redeem(code, address="")
    (device,) = await logins.list_devices_of("ann")
    assert device.way == "slack"
    (event,) = await told(world, "login_link_made")
    assert event.data == {"person": "ann", "as": ANN.written, "way": "slack"}


async def test_an_account_that_a_route_names_needs_no_person(
    world: World, logins: RedisLogins
) -> None:
    """It signs in as itself, until the route names it no more, also when it comes back."""
    session = await logins.redeem(
        code_of((await ChatLinks(logins, "slack", INBOX).make(ALONE)).url), address=""
    )
    assert await logins.who(session) == ALONE
    policy = await world.store.policy()
    without = (Route(approvers=("ann",)),)
    await world.store.apply(replace(policy, routes=without), by="test")
    assert await logins.who(session) is None
    again = await world.store.policy()
    await world.store.apply(replace(again, routes=policy.routes), by="test")
    assert await logins.who(session) is None
    await logins.redeem(
        code_of((await ChatLinks(logins, "slack", INBOX).make(ALONE)).url), address=""
    )


async def test_whom_no_policy_names_gets_none(logins: RedisLogins) -> None:
    """A stranger of the same chat, and who is let in by a group that the inbox cannot ask about."""
    links = ChatLinks(logins, "slack", INBOX)
    stranger = Identity(platform="slack", id="T1/U9", groups=("slack:T1/S9",))
    for identity in (stranger, replace(ANN, platform="discord"), replace(ANN, id="T2/U1")):
        with pytest.raises(Unauthorized):
            await links.make(identity)


async def test_nobody_asks_without_end(world: World, logins: RedisLogins) -> None:
    """Over all replicas; another person is not held up, and the count ends by itself."""
    for number in range(LINKS_AT_ONCE):
        replica = RedisLogins(world.store, ShiftedClock())
        await ChatLinks(replica, "slack" if number else "discord", INBOX).make(ANN)
    with pytest.raises(Busy):
        await ChatLinks(logins, "slack", INBOX).make(ANN)
    await ChatLinks(logins, "slack", INBOX).make(ALONE)
    ttl = await world.store.redis.ttl(logins._keys.of("links", "ann"))
    assert 0 < ttl <= CHAT_LINK_SECONDS


async def test_without_an_address_there_is_no_link(world: World, logins: RedisLogins) -> None:
    """It says what to set, and makes no code."""
    with pytest.raises(InvalidRequest, match="GATEWAY_PUBLIC_URL"):
        await ChatLinks(logins, "slack", "").make(ANN)
    assert await told(world, "login_link_made") == []
