"""Attacks on the rights of groups: no person counts twice, and nobody keeps a right too long."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.policy_document import Route
from gateway.domain.records import Identity, Person
from gateway.errors import NotFound, Unauthorized
from gateway.models import Origin, Status
from gateway.policy.authorization import lets_through
from gateway.policy.grants.grant import GrantVoter
from gateway.sign_in.logins import Ways
from gateway.stores.backup import BackupFile, confirm_held, load_backup, write_backup
from gateway.wire.codec import JsonObject
from tests.contract.test_grants import GRANTED
from tests.sign_in.authenticator import Authenticator
from tests.sign_in.provider import Provider
from tests.sign_in.test_groups import (
    POLICY,
    apply,
    check,
    decide,
    person,
    provider,
    refused,
    sign_in,
)
from tests.sign_in.test_provider import PUBLIC, make_ways
from tests.waiting import moment
from tests.world import World, identity

__all__ = ["provider"]
TWO = POLICY.replace('"oidc-group:payments"]', '"oidc-group:payments", "dan"]\nquorum = 2') + (
    '[[people]]\nname = "dan"\n'
)
ANN = Identity(platform="oidc", id="1")


@pytest.fixture
def ways(world: World, provider: Provider) -> Ways:
    """Return the ways to sign in of a gateway that knows people by their subject."""
    return make_ways(world, provider, claim="sub")


@pytest.mark.parametrize("written", ["oidc:7", "oidc:ISSUER#7"])
async def test_who_is_listed_after_joining_counts_once(
    ways: Ways, world: World, provider: Provider, written: str
) -> None:
    """A file names a person by the subject alone; the member with this subject leaves at once."""
    session = await sign_in(ways, provider, "7", "payments")
    member = await ways.who(session)
    listed = written.replace("ISSUER", provider.issuer)
    policy = await apply(world, f'{TWO}identities = ["{listed}"]\n')
    assert [one.name for one in policy.people] == ["ann", "dan"]
    assert await ways.who(session) is None
    dan = await ways.who(await sign_in(ways, provider, "7", "payments"))
    assert dan is not None and policy.name_of(dan) == "dan"
    record = await decide(world, dan, await world.submit())
    if dan != member:
        with pytest.raises(Unauthorized, match="does not know"):
            await decide(world, member, record)
    assert (await decide(world, ANN, record)).status is Status.APPROVED


async def test_a_member_whom_the_policy_lists_leaves_at_the_next_check(
    ways: Ways, world: World, provider: Provider
) -> None:
    """Also if the file was applied by a gateway that did not notice."""
    session = await sign_in(ways, provider, "7", "payments")
    policy = await world.store.policy()
    dan = Person(name="dan", identities=("oidc:7",))
    await world.put(people=(*policy.people, dan))
    await check(world, ways)
    assert await ways.who(session) is None
    assert [one.name for one in (await world.store.policy()).people] == ["ann", "dan"]


async def test_no_claim_names_a_member(ways: Ways, world: World, provider: Provider) -> None:
    """A subject that somebody chose does not open the session of a member."""
    await sign_in(ways, provider, "7", "payments")
    chosen = f"{provider.issuer}#7"
    assert "named a group member" in await refused(ways, world, provider, chosen)
    assert "named a group member" in await refused(ways, world, provider, chosen, "payments")


@pytest.mark.parametrize("changed", [{"claim": "preferred_username"}, {"secret": ""}], ids=str)
async def test_members_leave_if_the_settings_may_mistake_people(
    ways: Ways, world: World, provider: Provider, changed: dict[str, Any]
) -> None:
    """After the change of a setting, a listed person may be a member too."""
    session = await sign_in(ways, provider, "7", "payments")
    await check(world, make_ways(world, provider, **{"claim": "sub", **changed}))
    assert await ways.who(session) is None


async def test_the_vote_of_a_member_who_became_an_auditor_does_not_count(
    ways: Ways, world: World, provider: Provider
) -> None:
    """Although they are still in the group that admitted it."""
    await apply(world, TWO + 'identities = ["oidc:2"]\n')
    who = await ways.who(await sign_in(ways, provider, "7", "payments"))
    record = await decide(world, who, await world.submit())
    provider.accounts["7"]["groups"] = ["payments", "audit"]
    await check(world, ways)
    after = await decide(world, ANN, record)
    assert (after.status, [one.person for one in after.votes]) == (Status.PENDING, ["ann"])


async def test_the_vote_of_a_listed_auditor_does_not_count(world: World) -> None:
    """A user group of a chat may have admitted the vote, and has the auditor still."""
    route = Route(approvers=("ann", "slack:T1/S9"), quorum=2)
    people = tuple(Person(name=one, identities=(f"token:{one}",)) for one in ("ann", "eve"))
    await world.put(people=people, routes=(route,))
    world.core.writer.forget_policy()
    eve = replace(identity("eve"), groups=("slack:T1/S9",))
    record = await decide(world, eve, await world.submit())
    await world.put(people=(people[0], replace(people[1], auditor=True)))
    world.core.writer.forget_policy()
    after = await decide(world, identity("ann"), record)
    assert (after.status, [one.person for one in after.votes]) == (Status.PENDING, ["ann"])


async def test_slow_answers_about_others_keep_no_silent_member(
    ways: Ways, world: World, provider: Provider
) -> None:
    """Nobody confirmed one member for minutes; the provider hangs on forty others."""
    for number in range(41):
        session = await sign_in(ways, provider, f"8{number}", "payments")
    who = await ways.who(session)
    assert who is not None
    await world.store.redis.delete(ways.members._name("member", who))
    never = asyncio.Event()

    async def renew(refresh: str) -> tuple[JsonObject, str]:
        await never.wait()
        raise AssertionError(refresh)

    checking = asyncio.create_task(ways.provider.members.check(renew))
    try:
        async with asyncio.timeout(20):
            while await person(world, who) is not None:
                await moment()
    finally:
        checking.cancel()
        await asyncio.wait({checking})


@pytest.mark.parametrize("how", ["ended", "applied"])
async def test_a_late_answer_gives_no_right_back(
    ways: Ways, world: World, provider: Provider, how: str
) -> None:
    """It arrives after another replica ended the member, or after a file without the group."""
    session = await sign_in(ways, provider, "7", "payments", "admins")
    who = await ways.who(session)
    member = await person(world, who)
    assert member is not None
    asked, answered = asyncio.Event(), asyncio.Event()

    async def renew(refresh: str) -> tuple[JsonObject, str]:
        asked.set()
        await answered.wait()
        return {"iss": provider.issuer, "sub": "7", "groups": ["payments", "admins"]}, "next"

    checking = asyncio.create_task(ways.provider.members.check(renew))
    await asked.wait()
    if how == "ended":
        await ways.members.change(lambda now: now.with_member(member, ()), about="a test")
    else:
        file = POLICY.replace(', "oidc-group:payments"', "")
        await apply(world, file.replace('["oidc-group:admins"]', "[]"))
    answered.set()
    await checking
    assert await person(world, who) is None
    assert await ways.who(session) is None
    await apply(world, POLICY)
    await sign_in(ways, provider, "7", "payments")
    assert await ways.who(session) is None, "an old session stays ended"


async def test_fewer_groups_at_a_new_sign_in_count_at_once(
    ways: Ways, world: World, provider: Provider
) -> None:
    """Also in a session that is already open; and nobody gets a link or a token as a member."""
    session = await sign_in(ways, provider, "7", "payments", "admins")
    who = await ways.who(session)
    member = await person(world, who)
    assert who is not None and member is not None
    await sign_in(ways, provider, "7", "payments")
    assert not (await world.store.policy()).is_admin(who)
    with pytest.raises(NotFound):
        await ways.invite(member.name)
    with pytest.raises(Exception, match="a person's name must have"):
        await world.credentials.add_approver(member.name)


async def test_a_member_whom_the_agent_names_as_the_sender_does_not_decide(
    ways: Ways, world: World, provider: Provider
) -> None:
    """Where a requester never decides."""
    file = POLICY.replace('"oidc-group:payments"]', '"oidc-group:payments"]\nself_approval = false')
    await apply(world, file)
    who = await ways.who(await sign_in(ways, provider, "7", "payments"))
    assert who is not None
    record = await world.submit(origin=Origin(channel="oidc", sender=who.id))
    with pytest.raises(Unauthorized, match="you submitted"):
        await decide(world, who, record)


async def test_a_pass_of_a_member_who_could_be_the_requester_decides_nothing(
    ways: Ways, world: World, provider: Provider
) -> None:
    """Ben is listed without a subject after the member made the pass, and then requests."""
    who = await ways.who(await sign_in(ways, provider, "7", "payments"))
    member = await person(world, who)
    assert member is not None
    strict = POLICY.replace('oidc:1"]', 'oidc:1", "slack:T1/U1"]')
    strict = strict.replace(
        '"oidc-group:payments"]', '"oidc-group:payments"]\nself_approval = false'
    )
    voter = GrantVoter(person=member.name, via=("oidc-group:payments",))
    made = replace(GRANTED, backers=(voter,))
    record = await world.submit(origin=Origin(channel="slack", sender="T1/U1"))
    policy = await apply(world, strict)
    route = policy.route_for(record.request.agent, record.request.tool)
    assert lets_through(policy, made, record, route)
    policy = await apply(world, f'{strict}[[people]]\nname = "ben"\n')
    assert not lets_through(policy, made, record, route)


async def test_a_passkey_of_a_member_ends_with_the_membership(
    ways: Ways, world: World, provider: Provider, tmp_path: Path
) -> None:
    """Also after a return, and after a restore from a backup that has it."""
    session = await sign_in(ways, provider, "7", "payments")
    who = await ways.who(session)
    assert who is not None
    device = Authenticator("approvals.example", PUBLIC)
    made = device.make(await ways.passkeys.begin_adding(session))
    await ways.passkeys.add(session, made, device="Firefox")

    async def enter() -> Identity | None:
        signed = device.sign(await ways.passkeys.begin_sign_in("a browser", address="a"))
        return await ways.who(
            await ways.passkeys.sign_in("a browser", signed, address="a", device="Firefox")
        )

    assert await enter() == who
    refresh = await ways.members.load(who)
    await world.store.redis.delete(ways.members._name("member", who))
    assert await enter() is None, "nobody confirmed the member"
    await ways.members.save(who, refresh)
    path, store = tmp_path / "backup", world.store
    head = {"version": "1", "namespace": store.keys.namespace, "made": 1, "public_key": ""}
    await write_backup(store, path, head)
    provider.accounts.clear()
    await check(world, ways)
    with pytest.raises(Unauthorized):
        await enter()
    await sign_in(ways, provider, "7", "payments")
    with pytest.raises(Unauthorized):
        await enter()
    async for key in store.redis.scan_iter(match=store.keys.of("*")):
        await store.redis.delete(key)
    await load_backup(store, BackupFile(path))
    await confirm_held(store, "sign-ins")
    assert await person(world, who) is not None
    assert await ways.who(session) is None
    assert await enter() is None
    await check(world, ways)
    assert await person(world, who) is None
