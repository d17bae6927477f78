"""Channels and accounts that people claim in a chat with a code, and every wrong way to do so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gateway.approvals.claims import INVITATION_SECONDS, ClaimService
from gateway.domain.policy_document import Route
from gateway.domain.records import Identity, Person
from gateway.errors import Conflict, InvalidRequest, NotFound, Unauthorized
from gateway.ports import Claimant, ClaimedPlace
from gateway.ports.claims import ChatClaim, Invitation
from gateway.stores.claims import RedisClaims
from tests.clocks import ShiftedClock
from tests.world import World

OPS = ClaimedPlace(target="slack:T1/C1", words="#ops of Acme (34 members, not shared)")
OWNER = Person(name="owner", identities=("token:owner",), admin=True)
_CLOCK = ShiftedClock()


def slack(user: str, handle: str = "ana") -> Claimant:
    """Return a full member of the workspace."""
    identity = Identity(platform="slack", id=f"T1/{user}")
    return Claimant(identity=identity, handle=handle, words=f"Ana (@{handle}, full member, {user})")


@pytest.fixture
async def claims(world: World) -> AsyncIterator[ClaimService]:
    """Yield the claims of Slack, under a policy with an owner."""
    await world.put(people=(OWNER,), routes=(Route(approvers=("owner",)),))
    yield service(world)


def service(world: World, chat: str = "slack", clock: ShiftedClock = _CLOCK) -> ClaimService:
    """Return the claims of a chat, as one replica has them."""
    return ClaimService(world.store, RedisClaims(world.store, clock), clock, chat)


async def waiting(claims: ClaimService) -> tuple[Invitation, ChatClaim]:
    """Return the one claim that waits."""
    (found,) = await claims.list_waiting()
    return found


async def agree(claims: ClaimService) -> None:
    """Have the operator say yes to the one claim that waits, as it was shown."""
    claimed = await waiting(claims)
    await claims.approve(*claimed, await claims.preview(*claimed), by="operator")


async def test_a_channel_joins_with_its_person_when_the_operator_agrees(
    world: World, claims: ClaimService
) -> None:
    """Nothing changes before that; then all is added, nothing replaced, and it is audited."""
    before = await world.store.policy()
    _, code = await claims.invite()
    number = await claims.claim(code, slack("U1"), OPS)
    assert (await world.store.policy()) == before
    (_, claim) = await waiting(claims)
    assert (claim.number, claim.place, claim.words) == (number, OPS.words, slack("U1").words)
    await agree(claims)
    policy = await world.store.policy()
    assert policy.people == (OWNER, Person(name="ana-slack", identities=("slack:T1/U1",)))
    (route,) = policy.routes
    assert route.targets == ("web", "slack:T1/C1") and route.approvers == ("owner", "ana-slack")
    told = [one for one in await world.events() if one.type in ("claimed", "place_claimed")]
    assert [one.type for one in told] == ["claimed", "place_claimed"]
    assert told[1].data["by"] == "operator" and told[1].data["identity"] == "slack:T1/U1"
    assert await claims.list_waiting() == []


async def test_a_code_is_read_as_people_type_it(world: World, claims: ClaimService) -> None:
    """In small letters, without the dash, with blanks."""
    _, code = await claims.invite()
    assert await claims.claim(f" {code.lower().replace('-', ' ')} ", slack("U1"), OPS)


async def test_a_code_works_once(world: World, claims: ClaimService) -> None:
    """Who replays it gets nothing, before and after the operator's word."""
    _, code = await claims.invite()
    number = await claims.claim(code, slack("U1"), OPS)
    assert await claims.claim(code, slack("U1"), OPS) == number  # delivered twice
    with pytest.raises(Unauthorized):
        await claims.claim(code, slack("U2"), OPS)
    with pytest.raises(Unauthorized):
        await claims.claim(code, slack("U1"), replace(OPS, target="slack:T1/C2"))
    await agree(claims)
    with pytest.raises(Unauthorized):
        await claims.claim(code, slack("U1"), OPS)


async def test_of_two_at_once_one_has_it(world: World, claims: ClaimService) -> None:
    """On two replicas."""
    _, code = await claims.invite()
    tries = (service(world).claim(code, slack(f"U{number}"), OPS) for number in range(4))
    done = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(one, str) for one in done) == 1
    assert sum(isinstance(one, Unauthorized) for one in done) == 3
    assert len(await claims.list_waiting()) == 1


async def test_five_wrong_codes_end_all_that_wait(world: World, claims: ClaimService) -> None:
    """By whomever; what was claimed already stays, and another chat's codes too."""
    _, first = await claims.invite()
    await claims.claim(first, slack("U1"), OPS)
    open_, code = await claims.invite()
    _, other = await service(world, "discord").invite()
    for number in range(5):
        assert await claims.is_open(open_)
        with pytest.raises(Unauthorized):
            await claims.claim("AAAA-AAAA", slack(f"W{number}"), OPS)
    with pytest.raises(Unauthorized):
        await claims.claim(code, slack("U2"), OPS)
    assert len(await claims.list_waiting()) == 1
    ben = Claimant(identity=Identity(platform="discord", id="5"), handle="ben", words="ben")
    place = ClaimedPlace(target="discord:1/2", words="#ops")
    assert await service(world, "discord").claim(other, ben, place)
    refused = [one for one in await world.events() if one.type == "refused"]
    assert len(refused) >= 5 and refused[0].agent == "slack:T1/W0"


async def test_a_code_ends_after_ten_minutes(world: World, claims: ClaimService) -> None:
    """A claim that was made stays for the operator."""
    _, used = await claims.invite()
    await claims.claim(used, slack("U1"), OPS)
    _, code = await claims.invite()
    later = service(world, clock=ShiftedClock(INVITATION_SECONDS + 1))
    with pytest.raises(Unauthorized):
        await later.claim(code, slack("U2"), OPS)
    assert len(await later.list_waiting()) == 1


async def test_a_code_is_kept_hashed_and_for_its_chat_alone(
    world: World, claims: ClaimService
) -> None:
    """Whoever reads Redis learns no code; another chat takes none."""
    _, code = await claims.invite()
    kept = await world.store.redis.hgetall(world.store.keys.of("claims"))
    assert kept and code not in str(kept) and code.replace("-", "") not in str(kept)
    with pytest.raises(Unauthorized):
        await service(world, "discord").claim(code, slack("U1"), OPS)


async def test_the_operator_may_say_no(world: World, claims: ClaimService) -> None:
    """Then nothing changes, and a later yes finds nothing."""
    _, code = await claims.invite()
    await claims.claim(code, slack("U1"), OPS)
    claimed, before = await waiting(claims), await world.store.policy()
    shown = await claims.preview(*claimed)
    await claims.deny(*claimed, by="operator")
    with pytest.raises(NotFound):
        await claims.approve(*claimed, shown, by="operator")
    with pytest.raises(NotFound):
        await claims.deny(*claimed, by="operator")
    assert await world.store.policy() == before
    assert [one.type for one in await world.events()][-1] == "claim_denied"


async def test_a_yes_is_for_what_was_shown(world: World, claims: ClaimService) -> None:
    """Where the policy was changed since, nothing is done, and the claim is there to look at."""
    _, code = await claims.invite()
    await claims.claim(code, slack("U1"), OPS)
    claimed = await waiting(claims)
    shown = await claims.preview(*claimed)
    boss = Person(name="boss", identities=("token:boss", "slack:T1/U1"), admin=True)
    await world.put(people=(OWNER, boss))
    with pytest.raises(Conflict):
        await claims.approve(*claimed, shown, by="operator")
    assert (await world.store.policy()).people == (OWNER, boss)
    assert await waiting(claims) == claimed


async def test_a_code_that_ended_is_not_revived(world: World, claims: ClaimService) -> None:
    """Not by a claim that had found it before."""
    invitation, _ = await claims.invite()
    kept = RedisClaims(world.store, _CLOCK)
    await kept.end_all("slack")
    claim = ChatClaim(identity="slack:T1/U1", handle="ana", words="ana", number="11", at=0)
    assert not await kept.claim(invitation, claim, {})
    assert await kept.list_all() == []


async def test_two_operators_apply_it_once(world: World, claims: ClaimService) -> None:
    """The second is told that it is over."""
    _, code = await claims.invite()
    await claims.claim(code, slack("U1"), OPS)
    claimed = await waiting(claims)
    shown = await claims.preview(*claimed)
    done = await asyncio.gather(
        claims.approve(*claimed, shown, by="one"),
        service(world).approve(*claimed, shown, by="two"),
        return_exceptions=True,
    )
    assert sum(one is None for one in done) == 1
    assert sum(isinstance(one, Conflict | NotFound) for one in done) == 1
    assert len((await world.store.policy()).people) == 2


@pytest.mark.parametrize(
    ("handle", "name"),
    [("owner", "owner-slack"), ("gone", "gone-slack-2"), ("ghost", "ghost-slack-2"),
     ("\u0410na", "na-slack"),
     ("!!!", "somebody-slack"), ("X" * 90, f"{'x' * 40}-slack")],
)  # fmt: skip
async def test_a_name_is_never_one_that_bears_rights(
    world: World, claims: ClaimService, handle: str, name: str
) -> None:
    """Not that of an admin, of somebody who left, or of nobody that a route admits."""
    gone = Person(name="gone-slack", identities=("slack:T1/U9",))
    await world.put(people=(OWNER, gone))
    await world.put(people=(OWNER,), routes=(Route(approvers=("owner", "ghost-slack")),))
    _, code = await claims.invite()
    await claims.claim(code, slack("U1", handle), OPS)
    await agree(claims)
    person = (await world.store.policy()).person_of(slack("U1").identity)
    assert person is not None and (person.name, person.admin) == (name, False)


async def test_who_is_known_already_keeps_their_name(world: World, claims: ClaimService) -> None:
    """Their account gets a channel, and no second person is made of them."""
    known = Person(name="ana", identities=("token:ana", "slack:T1/U1"))
    await world.put(people=(OWNER, known))
    _, code = await claims.invite()
    await claims.claim(code, slack("U1", "other"), OPS)
    await agree(claims)
    policy = await world.store.policy()
    assert policy.people == (OWNER, known) and policy.routes[0].approvers == ("owner", "ana")


async def test_an_account_joins_a_person(world: World, claims: ClaimService) -> None:
    """With a code that was made for them, once the operator agrees."""
    _, code = await claims.invite(person="owner")
    with pytest.raises(Unauthorized):  # it is for an account, and for no channel
        await claims.claim(code, slack("U1"), OPS)
    await claims.claim(code, slack("U1"))
    await agree(claims)
    policy = await world.store.policy()
    assert policy.people == (
        Person(name="owner", identities=("token:owner", "slack:T1/U1"), admin=True),
    )
    assert policy.routes[0].targets == ("web",)


async def test_an_account_is_never_moved(world: World, claims: ClaimService) -> None:
    """Not at the claim, and not where it became somebody's in between."""
    ben = Person(name="ben", identities=("slack:T1/U1",))
    await world.put(people=(OWNER, ben))
    _, code = await claims.invite(person="owner")
    with pytest.raises(Unauthorized, match="belongs to ben"):
        await claims.claim(code, slack("U1"))
    await claims.claim(code, slack("U2"))
    claimed = await waiting(claims)
    shown = await claims.preview(*claimed)
    await world.put(people=(OWNER, Person(name="ben", identities=("slack:T1/U2",))))
    with pytest.raises(Conflict):
        await claims.approve(*claimed, shown, by="operator")
    with pytest.raises(Unauthorized, match="belongs to ben"):
        await claims.preview(*claimed)
    assert (await world.store.policy()).people[0] == OWNER


async def test_only_who_and_what_exists_is_invited(world: World, claims: ClaimService) -> None:
    """A person and a route of the policy."""
    with pytest.raises(NotFound, match="nobody"):
        await claims.invite(person="nobody")
    with pytest.raises(NotFound, match="no route deploys"):
        await claims.invite(route="deploys")


async def test_an_admin_adds_a_channel_without_a_code(world: World, claims: ClaimService) -> None:
    """And nobody else does, which the audit says."""
    admin = Person(name="owner", identities=("slack:T1/U1",), admin=True)
    await world.put(people=(admin, Person(name="ben", identities=("slack:T1/U2",))))
    for ask in (claims.list_routes(slack("U2").identity),
                claims.add_place(slack("U2").identity, "default", OPS)):  # fmt: skip
        with pytest.raises(Unauthorized, match="only an admin"):
            await ask
    (route,) = await claims.list_routes(slack("U1").identity)
    assert (route.name, route.targets) == ("default", ("web",))
    assert "default" in await claims.add_place(slack("U1").identity, "default", OPS)
    assert (await world.store.policy()).routes[0].targets == ("web", "slack:T1/C1")
    with pytest.raises(NotFound):
        await claims.add_place(slack("U1").identity, "gone", OPS)
    assert await claims.list_admins() == ("owner",)
    kinds = [one.type for one in await world.events()]
    assert kinds.count("refused") == 2 and kinds.count("place_claimed") == 1


async def test_where_a_policy_file_is_in_force_chats_change_nothing(
    world: World, claims: ClaimService
) -> None:
    """They say what to add to it; without the setting the file's time is over."""
    await world.put(people=(Person(name="owner", identities=("slack:T1/U1",), admin=True),))
    _, code = await claims.invite()
    await claims.claim(code, slack("U1"), OPS)
    await world.store.note_policy_file("a digest")
    before = await world.store.policy()
    with pytest.raises(InvalidRequest, match="file"):
        await agree(claims)
    with pytest.raises(InvalidRequest, match="slack:T1/C1"):
        await claims.add_place(slack("U1").identity, "default", OPS)
    assert await world.store.policy() == before
