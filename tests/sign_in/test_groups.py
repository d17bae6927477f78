"""Groups of the identity provider give rights while the provider confirms them, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import Identity, Person, Remember, StoredRequest
from gateway.errors import Conflict, Unauthorized
from gateway.models import Origin, Status
from gateway.policy.policy_file_reader import BadPolicy, read_policy
from gateway.policy.policy_file_writer import write_policy
from gateway.sign_in.logins import Ways
from gateway.stores.backup import BackupFile, write_backup
from gateway.stores.sign_in import MEMBER_SECONDS
from tests.sign_in.provider import Provider, providing
from tests.sign_in.test_provider import BACK, make_ways
from tests.stores.test_browser_sessions import told
from tests.world import World, click, identity

POLICY = """
groups_claim = "groups"

admin_groups = ["oidc-group:admins"]
auditor_groups = ["oidc-group:audit"]

[[people]]
name = "ann"
admin = true
identities = ["oidc:1"]

[[routes]]
name = "default"
approvers = ["ann", "oidc-group:payments"]
"""


@pytest.fixture
async def provider(world: World) -> AsyncIterator[Provider]:
    """Run a provider; the policy names three of its groups, and lists ann."""
    await apply(world, POLICY)
    async with providing(BACK) as made:
        yield made


@pytest.fixture
def ways(world: World, provider: Provider) -> Ways:
    """Return the ways to sign in of a gateway that knows people by their subject."""
    return make_ways(world, provider, claim="sub")


async def apply(world: World, text: str) -> PolicyDocument:
    """Apply a policy file as `gateway apply` does, and return the active policy."""
    await world.store.apply(read_policy(text).succeed(await world.store.policy()), by="test")
    world.core.writer.forget_policy()
    return await world.store.policy()


async def sign_in(ways: Ways, provider: Provider, subject: str, *groups: str, **more: Any) -> str:
    """Sign in a subject of the provider who is in these groups, and return the session."""
    email = {"email": f"user{subject}@example.org", "email_verified": True}
    provider.claims = {"sub": subject, **email, "groups": [*groups], **more}
    answer = provider.agree(await ways.provider.begin("a browser", address="a"))
    return await ways.provider.finish("a browser", answer, address="a", device="Firefox")


async def refused(ways: Ways, world: World, *given: Any, **more: Any) -> str:
    """Sign in in vain, and return the reason in the audit log."""
    before = len(await told(world, "sign_in_refused"))
    with pytest.raises(Unauthorized) as error:
        await sign_in(ways, *given, **more)
    events = await told(world, "sign_in_refused")
    assert events[before:] == [] or events[-1].data["why"] == str(error.value)
    assert before > 3 or len(events) == before + 1, "the audit limits what it says"
    return str(error.value)


async def check(world: World, ways: Ways) -> None:
    """Check every member now, whoever's turn it is."""
    async for key in world.store.redis.scan_iter(match=world.store.keys.of("member-turn*")):
        await world.store.redis.delete(key)
    await ways.provider.members.check(ways.provider.renew)
    world.core.writer.forget_policy()


async def person(world: World, who: Identity | None) -> Person | None:
    """Return the person of an identity in the active policy."""
    assert who is not None
    return (await world.store.policy()).person_of(who)


async def decide(world: World, who: Identity | None, record: StoredRequest) -> StoredRequest:
    """Approve a request as this identity."""
    assert who is not None
    return await world.core.requests.decide(click(record, identity=who))


async def test_a_member_has_the_rights_of_the_group(
    ways: Ways, world: World, provider: Provider
) -> None:
    """With a name and an identity made of issuer and subject, and no entry in any file."""
    session = await sign_in(ways, provider, "7", "payments", "lunch")
    who = await ways.who(session)
    assert who == Identity(platform="oidc", id=f"{provider.issuer}#7")
    found = await person(world, who)
    assert found is not None
    assert (found.admin, found.auditor, found.groups) == (False, False, ("oidc-group:payments",))
    assert found.name.startswith("user7@oidc-")
    record = await decide(world, who, await world.submit())
    assert record.status is Status.APPROVED
    assert record.decision is not None
    assert record.decision.decided_by.name == found.name
    event = (await told(world, "policy_applied"))[-1]
    assert event.data["by"] == f"the identity provider, for {found.name},"
    policy = await world.store.policy()
    assert write_policy(policy) == write_policy(read_policy(POLICY))
    assert [one.name for one in policy.listed] == ["ann"], "who gets a link from an operator"


async def test_an_unusable_claim_gives_no_right(
    ways: Ways, world: World, provider: Provider
) -> None:
    """Each with a sentence: missing, another type, elsewhere, too many, or none that is named."""
    cases: dict[str, dict[str, Any]] = {
        "no list of groups in the claim 'groups'": {"groups": None},
        "no list of groups": {"groups": "payments"},
        "sent no list": {"groups": ["payments", 7]},
        "too many groups": {"groups": ["payments"], "_claim_names": {"groups": "src1"}},
        "more than 1000 groups": {"groups": ["payments", *map(str, range(1000))]},
        "neither you nor one of your groups": {"groups": ["oidc-group:payments", "Payments", ""]},
        "no usable claim 'sub'": {"groups": ["payments"], "sub": "7\n"},
    }
    for says, claims in cases.items():
        assert says in await refused(ways, world, provider, "7", **claims)
    assert await sign_in(ways, provider, "7", *map(str, range(999)), "payments")


async def test_settings_that_could_mistake_people_give_no_right(
    ways: Ways, world: World, provider: Provider
) -> None:
    """An address may change its owner, and a refresh token needs the secret and must exist."""
    by_email = make_ways(world, provider)
    assert "GATEWAY_OIDC_CLAIM=sub" in await refused(by_email, world, provider, "7", "payments")
    provider.bent = {"no refresh": True}
    assert "no refresh token" in await refused(ways, world, provider, "7", "payments")
    assert all(not one.groups for one in (await world.store.policy()).people)


async def test_a_listed_person_keeps_their_own_rights(
    ways: Ways, world: World, provider: Provider
) -> None:
    """Their entry counts, and no group; a name that somebody has is taken by nobody."""
    assert await ways.who(await sign_in(ways, provider, "1", "audit", "payments")) == Identity(
        platform="oidc", id="1"
    )
    first = await person(world, await ways.who(await sign_in(ways, provider, "7", "payments")))
    assert first is not None
    same = {"email": "user7@example.org"}
    other = await person(
        world, await ways.who(await sign_in(ways, provider, "8", "payments", **same))
    )
    assert other is not None and other.name.startswith("user7@")
    assert other.name != first.name
    unverified = await sign_in(
        ways, provider, "9", "payments", email="ann@example.org", email_verified=False
    )
    third = await person(world, await ways.who(unverified))
    assert third is not None and third.name.startswith("member@oidc-")
    policy = await world.store.policy()
    squatter = Person(name=first.name, identities=("token:squatter",))
    people = (*(one for one in policy.people if one.name != first.name), squatter)
    await world.put(people=people)
    assert "another person with the name" in await refused(ways, world, provider, "7", "payments")


@pytest.mark.parametrize("how", ["deactivated", "left", "renamed claim"])
async def test_who_is_refused_loses_everything_at_once(
    ways: Ways, world: World, provider: Provider, how: str
) -> None:
    """Open sessions, the vote on a pending request, and the right to the next click."""
    await world.route(Route(approvers=("oidc-group:payments", "ann"), quorum=2))
    await apply(
        world, POLICY.replace('"oidc-group:payments"]', '"oidc-group:payments"]\nquorum = 2')
    )
    session = await sign_in(ways, provider, "7", "payments")
    who = await ways.who(session)
    assert await ways.holder_of(session) is not None, "which passkeys and notifications rest on"
    record = await decide(world, who, await world.submit())
    assert len(record.votes) == 1
    if how == "deactivated":
        del provider.accounts["7"]
    else:
        provider.accounts["7"] = {**provider.claims, "groups": [] if how == "left" else "payments"}
    await check(world, ways)
    assert await ways.who(session) is None
    assert await ways.holder_of(session) is None
    assert await ways.list_devices_of(record.votes[0].person) == []
    with pytest.raises(Unauthorized, match="does not know"):
        await decide(world, who, await world.submit())
    after = await world.core.requests.decide(
        click(record, identity=Identity(platform="oidc", id="1"))
    )
    assert (after.status, [one.person for one in after.votes]) == (Status.PENDING, ["ann"])
    (event,) = await told(world, "member_left")
    assert event.data["person"] == record.votes[0].person
    again = await ways.who(await sign_in(ways, provider, "7", "payments"))
    assert again == who
    assert await ways.who(session) is None, "an old session stays ended"


async def test_a_member_who_changes_groups_changes_rights(
    ways: Ways, world: World, provider: Provider
) -> None:
    """Without signing in again; an admin's right ends while the session stays open."""
    session = await sign_in(ways, provider, "7", "payments", "admins")
    who = await ways.who(session)
    assert who is not None
    assert (await world.store.policy()).is_admin(who)
    await world.core.operator.stop_all(who, on=False)
    provider.accounts["7"]["groups"] = ["payments"]
    await check(world, ways)
    assert await ways.who(session) == who
    with pytest.raises(Unauthorized, match="only an admin"):
        await world.core.operator.stop_all(who, on=True)
    assert (await decide(world, who, await world.submit())).status is Status.APPROVED
    provider.accounts["7"]["groups"] = ["payments", "audit"]
    await check(world, ways)
    with pytest.raises(Unauthorized, match="you are an auditor"):
        await decide(world, who, await world.submit())
    generation = await world.store.generation()
    await check(world, ways)
    assert await world.store.generation() == generation, "no change, no new policy"


async def test_a_silent_provider_ends_the_rights_after_a_bounded_time(
    ways: Ways, world: World, provider: Provider
) -> None:
    """It may fail for some minutes; then neither the session nor the person in the policy counts,
    also if no leader checks."""
    session = await sign_in(ways, provider, "7", "payments")
    who = await ways.who(session)
    assert who is not None
    key = ways.members._name("member", who)
    assert 0 < await world.store.redis.ttl(key) <= MEMBER_SECONDS
    await world.store.redis.expire(key, 60)
    for status in (503, 429, 401):
        provider.bent = {"status": status}
        await check(world, ways)
        assert await ways.who(session) == who
    assert await world.store.redis.ttl(key) <= 60, "silence confirms nobody"
    provider.bent = {}
    await check(world, ways)
    assert await world.store.redis.ttl(key) > 60
    await world.store.redis.delete(key)  # as after MEMBER_SECONDS
    assert await ways.who(session) is None
    assert await person(world, who) is not None
    await check(world, ways)
    assert await person(world, who) is None


@pytest.mark.parametrize(
    "bent",
    [
        {"renewed": {"iss": "https://evil.example"}},
        {"renewed": {"aud": "another"}},
        {"renewed": {"sub": "8"}},
        {"renewed": {"exp": 1_000_000_000}},
        {"token": "rubbish"},
        {"no token": True},
    ],
    ids=str,
)
async def test_a_renewal_that_does_not_verify_ends_the_rights(
    ways: Ways, world: World, provider: Provider, bent: dict[str, Any]
) -> None:
    """Another issuer, audience or person, an old token, or none."""
    session = await sign_in(ways, provider, "7", "payments")
    provider.bent = bent
    await check(world, ways)
    assert await ways.who(session) is None


async def test_each_refresh_token_is_used_once_by_one_replica(
    ways: Ways, world: World, provider: Provider
) -> None:
    """Two leaders at the same time ask once; a replayed token is refused and ends the rights."""
    session = await sign_in(ways, provider, "7", "payments")
    who = await ways.who(session)
    assert who is not None
    old = await ways.members.load(who)
    tried, other = provider.tried, make_ways(world, provider, claim="sub")
    await asyncio.gather(
        ways.provider.members.check(ways.provider.renew),
        other.provider.members.check(other.provider.renew),
    )
    assert provider.tried == tried + 1
    assert await ways.members.load(who) != old
    await check(world, ways)
    assert await ways.who(session) == who
    await ways.members.save(who, old)
    await check(world, ways)
    assert await ways.who(session) is None


async def test_a_refused_token_does_not_end_a_newer_sign_in(
    ways: Ways, world: World, provider: Provider
) -> None:
    """The provider may end the old token when the person signs in on a second device."""
    session = await sign_in(ways, provider, "7", "payments")
    who = await ways.who(session)
    assert who is not None

    async def renew(refresh: str) -> Any:
        await ways.members.save(who, "the token of the second device")
        raise Unauthorized("ended")

    await ways.provider.members.check(renew)
    assert await ways.who(session) == who


async def test_one_error_stops_no_other_check(
    ways: Ways, world: World, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two members, the second one is still checked."""
    await sign_in(ways, provider, "7", "payments")
    session = await sign_in(ways, provider, "8", "payments")
    second = await ways.members.load(await ways.who(session) or identity(""))

    async def renew(refresh: str) -> Any:
        if refresh != second:
            raise RuntimeError("a bug")
        return await ways.provider.renew(refresh)

    del provider.accounts["8"]
    await ways.provider.members.check(renew)
    assert await ways.who(session) is None
    assert "a member was not checked" in caplog.text


async def test_a_quorum_counts_a_member_once_and_only_if_known_apart(
    ways: Ways, world: World, provider: Provider
) -> None:
    """Two devices are one person; with a listed person who could be the member, no vote counts."""
    two = POLICY.replace('"oidc-group:payments"]', '"oidc-group:payments"]\nquorum = 2')
    await apply(world, two)
    who = await ways.who(await sign_in(ways, provider, "7", "payments"))
    again = await ways.who(await sign_in(ways, provider, "7", "payments"))
    record = await decide(world, who, await world.submit())
    with pytest.raises(Conflict, match="waits for 1 more"):
        await decide(world, again, record)
    await apply(world, two + '[[people]]\nname = "ben"\n')
    with pytest.raises(Unauthorized, match="you could be ben"):
        await decide(world, who, await world.submit())
    ann = Identity(platform="oidc", id="1")
    after = await decide(world, ann, record)
    assert (after.status, [one.person for one in after.votes]) == (Status.PENDING, ["ann"])
    await apply(world, two + '[[people]]\nname = "ben"\nidentities = ["oidc:ben@example.org"]\n')
    with pytest.raises(Unauthorized, match="you could be ben"):
        await decide(world, who, await world.submit())
    await apply(world, two + '[[people]]\nname = "ben"\nidentities = ["oidc:2"]\n')
    assert (await decide(world, who, after)).status is Status.APPROVED


async def test_a_member_never_decides_what_they_may_have_requested(
    ways: Ways, world: World, provider: Provider
) -> None:
    """A chat account that nobody has may be the member's own; ann's is hers."""
    strict = POLICY.replace(
        '"oidc-group:payments"]', '"oidc-group:payments"]\nself_approval = false'
    )
    await apply(world, strict.replace('"oidc:1"]', '"oidc:1", "slack:T1/U1"]'))
    who = await ways.who(await sign_in(ways, provider, "7", "payments"))
    unknown = await world.submit(origin=Origin(channel="slack", sender="T1/U7"))
    with pytest.raises(Unauthorized, match="does not know who submitted"):
        await decide(world, who, unknown)
    known = await world.submit(origin=Origin(channel="slack", sender="T1/U1"))
    assert (await decide(world, who, known)).status is Status.APPROVED


async def test_a_new_file_keeps_the_members_that_its_groups_admit(
    ways: Ways, world: World, provider: Provider
) -> None:
    """With the rights of the new file; a file that lists them, or names no group, ends theirs."""
    session = await sign_in(ways, provider, "7", "payments")
    who = await ways.who(session)
    assert who is not None
    made = POLICY.replace('["oidc-group:admins"]', '["oidc-group:payments"]')
    policy = await apply(world, made)
    assert policy.is_admin(who)
    assert await ways.who(session) == who
    assert write_policy(policy) == write_policy(read_policy(made))
    listed = f'[[people]]\nname = "dan"\nidentities = ["{who.written}"]\n'
    policy = await apply(world, POLICY + listed)
    assert [one.name for one in policy.people if one.name != "ann"] == ["dan"]
    assert await ways.who(session) is None
    await apply(world, POLICY)
    session = await sign_in(ways, provider, "7", "payments")
    await apply(world, POLICY.replace(', "oidc-group:payments"', ""))
    assert await ways.who(session) is None


@pytest.mark.parametrize("groups", [[], ["payments", "audit"]], ids=["left", "auditor"])
async def test_a_grant_ends_with_the_membership_that_allowed_it(
    ways: Ways, world: World, provider: Provider, groups: list[str]
) -> None:
    """What a member remembered decides nothing once they left or became an auditor."""
    who = await ways.who(await sign_in(ways, provider, "7", "payments"))
    assert who is not None
    record = await world.submit()
    made = click(record, identity=who, remember=Remember(everywhere=True))
    await world.core.requests.decide(made)
    assert (await world.submit()).status is Status.APPROVED
    provider.accounts["7"]["groups"] = groups
    await check(world, ways)
    world.core.grants.policy_changed()
    assert (await world.submit()).status is Status.PENDING


async def test_a_backup_has_no_refresh_token(
    ways: Ways, world: World, provider: Provider, tmp_path: Path
) -> None:
    """So a stolen backup confirms nobody, and a restored member signs in again."""
    who = await ways.who(await sign_in(ways, provider, "7", "payments"))
    assert who is not None
    path = tmp_path / "backup"
    head = {"version": "1", "namespace": "n", "made": 1, "public_key": ""}
    await write_backup(world.store, path, head)
    lines = [str(line) for line in BackupFile(path).lines()]
    refresh = await ways.members.load(who)
    assert refresh
    assert not [one for one in lines if refresh in one]


ADMINS, AUDIT = '["oidc-group:admins"]', '["oidc-group:audit"]'
MISTAKES = {
    "'ops' must be written oidc-group:NAME": POLICY.replace(ADMINS, '["ops"]'),
    "'oidc-group:' must be written": POLICY.replace(AUDIT, '["oidc-group:"]'),
    "'oidc-group:admins' of auditors can have no": POLICY.replace(AUDIT, ADMINS),
    "'oidc-group:payments' of auditors": POLICY.replace(AUDIT, '["oidc-group:payments"]'),
    "'dan' cannot have groups": POLICY
    + '[[people]]\nname = "dan"\ngroups = ["oidc-group:admins"]\n',
    "identity provider names them": POLICY
    + '[[people]]\nname = "dan"\nidentities = ["oidc-group:admins"]\n',
    "neither an admin nor": POLICY + '[[people]]\nname = "dan"\nadmin = true\nauditor = true\n',
    "nor an approver": POLICY.replace('approvers = ["ann"', 'approvers = ["ann", "dan"')
    + '[[people]]\nname = "dan"\nauditor = true\n',
    "needs `groups_claim`": POLICY.replace('groups_claim = "groups"', ""),
}


@pytest.mark.parametrize("says", MISTAKES)
def test_a_file_with_a_mistake_about_groups_is_rejected(says: str) -> None:
    """As a whole, with a sentence."""
    with pytest.raises(BadPolicy, match=says):
        read_policy(MISTAKES[says])


def test_groups_need_the_claim() -> None:
    """Without it, no group gives a right."""
    assert replace(read_policy(POLICY), groups_claim="").provider_groups == frozenset()
