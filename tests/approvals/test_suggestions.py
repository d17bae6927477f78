"""What people approved before says which offer is chosen first, and what is suggested."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.domain.policy_document import Route
from gateway.domain.records import Identity, Remember, StoredRequest
from gateway.domain.risk import LevelRules, RulesByRisk, StepUp
from gateway.errors import InvalidRequest, Unauthorized
from gateway.models import Action, Context, Kind, Reason, Risk, RiskLevel, Status
from gateway.policy.grants.grant import Answer
from gateway.policy.grants.offers import Offer, offers
from gateway.ports.adapter_api import Suggestion
from tests.world import World, assembled, click, identity

HERE = Context(cwd="/srv/app", host="laptop")


async def asked(world: World, command: str = "git log -n 5", **more: Any) -> StoredRequest:
    """Return a waiting command."""
    values = {"kind": Kind.COMMAND, "context": HERE, **more}
    return await world.submit(arguments={"command": command}, **values)


async def decided(
    world: World, command: str = "git log -n 5", action: Action = Action.APPROVE, **how: Any
) -> StoredRequest:
    """Return a command that ann answered."""
    return await world.core.requests.decide(click(await asked(world, command), action, **how))


async def usual(world: World, record: StoredRequest) -> Offer | None:
    """Return the offer that is chosen first, None for the narrowest by default."""
    found = await world.core.suggestions.find_usual(record)
    return next((one for one in offers(record) if one.id == found), None)


@pytest.mark.parametrize(
    ("commands", "at"),
    [(["git log -n 5"] * 10, 0), ([f"git log -n {n}" for n in range(10)], 1),
     ([*["git log -n 5"] * 9, "git log --stat"], 2)],
)  # fmt: skip
async def test_the_narrowest_that_covers_the_last_ten_comes_first(
    world: World, commands: list[str], at: int
) -> None:
    """Exactly this where all were the same, wider only as far as they differed."""
    for command in commands:
        await decided(world, command)
    record = await asked(world)
    assert await usual(world, record) == offers(record)[at]


async def test_nine_say_nothing(world: World) -> None:
    """Nor do requests that no offer covers: they are not similar."""
    for _ in range(9):
        await decided(world, "git log -n 7")
    await decided(world, "make")
    record = await asked(world)
    assert await usual(world, record) is None
    await decided(world, "git log -n 7")
    assert await usual(world, record) == offers(record)[1]


@pytest.mark.parametrize("action", [Action.DENY, Action.EDIT, Action.RESPOND])
async def test_one_that_was_not_approved_as_asked_says_nothing(
    world: World, action: Action
) -> None:
    """Until it is not among the last ten any more."""
    for _ in range(10):
        await decided(world, "git log -n 7")
    how: dict[Action, Any] = {
        Action.EDIT: {"arguments": {"command": "ls"}},
        Action.RESPOND: {"result": "none"},
    }
    await decided(world, "git log -n 8", action, **how.get(action, {}))
    assert await usual(world, await asked(world)) is None
    for _ in range(10):
        await decided(world, "git log -n 7")
    assert await usual(world, await asked(world)) is not None


async def test_a_denial_of_a_whole_group_counts_too(world: World) -> None:
    """Those that wait behind the one that was denied are denied by nobody's tap of their own."""
    for _ in range(10):
        await decided(world, "git log -n 7")
    leader, follower = await asked(world, "git log -n 8"), await asked(world, "git log -n 8")
    denied = await world.core.requests.decide(click(leader, Action.DENY))
    await world.core.holding.settle(denied, await world.store.now())
    ended = await world.core.requests.get(follower.id)
    assert ended.status is Status.DENIED and not ended.nonces
    record = await asked(world)
    assert await usual(world, record) is None
    for _ in range(10):
        await decided(world, "git log -n 7")
    assert await usual(world, record) is not None
    assert await suggested(world, record) is None


async def test_only_people_count(world: World) -> None:
    """What a grant lets through, however often, is no approval; nor is another agent's."""
    await decided(world, "git log -n 7", remember=Remember(lifetime="1d"))
    for _ in range(12):
        passed = await asked(world, "git log -n 7")
        assert passed.final
    record = await asked(world)
    assert await usual(world, record) is None
    ids = await world.store.list_decided("bot", "shell", limit=99)
    assert len(ids) == 1 and await world.store.list_decided("bot", "other", limit=99) == []


async def test_what_is_older_than_two_weeks_or_gone_is_not_known(world: World) -> None:
    """The index forgets what is old, and what was erased speaks for nothing."""
    records = [await decided(world) for _ in range(10)]
    key = world.store.keys.decided("bot", "shell")
    waits = await asked(world)
    assert await usual(world, waits) is not None
    erased = await world.core.approvals.erase(records[0].id, by="ann")
    assert erased and await usual(world, waits) is None
    old = await world.store.now() - 14 * 86_400_000 - 1
    await world.store.redis.zadd(key, {one.id: old for one in records})
    assert await world.store.list_decided("bot", "shell", limit=99) == []
    fresh = await decided(world)
    assert await world.store.redis.zrange(key, 0, -1) == [fresh.id]
    assert 0 < await world.store.redis.pttl(key) <= 14 * 86_400_000


async def test_nothing_is_chosen_where_nothing_may_be_remembered(world: World) -> None:
    """High risk has no offers, so there is no usual one."""
    for _ in range(10):
        await decided(world)
    record = await asked(world, "rm -rf /")
    assert await usual(world, record) is None


# ---------------------------------------------------------------- suggestions

ANN, BOB = identity("ann"), identity("bob")


async def approved(world: World, count: int = 12, command: str = "git log -n {}") -> None:
    """Have ann approve so many commands, each with a tap of its own."""
    for number in range(count):
        await decided(world, command.format(number))


async def suggested(world: World, record: StoredRequest, who: Identity = ANN) -> Suggestion | None:
    """Return what is suggested to somebody."""
    return await world.core.suggestions.suggest(who, record)


async def next_week(world: World) -> None:
    """Let the week be over in which nothing more is suggested."""
    await world.store.redis.delete(world.store.keys.note("suggestions", "week ann"))


async def test_what_somebody_approves_again_and_again_is_suggested(world: World) -> None:
    """From the twelfth time on, the narrowest offer, with what it would have let through."""
    await approved(world, 11)
    record = await asked(world)
    assert await suggested(world, record) is None
    await decided(world, "git log -n 11")
    found = await suggested(world, record)
    assert found is not None and found.offer == offers(record)[1].id
    seen = "; ".join(f'Runs "git log -n {number}"' for number in (11, 10, 9, 8, 7))
    assert found.text == (
        "You approved this 12 times in 14 days, and nobody denied it. "
        f"Remembering “{offers(record)[1].words}” would have approved 12 requests, "
        f"such as: {seen}."
    )
    assert await suggested(world, record) == found, "the same page is drawn again"


async def test_it_is_accepted_as_everything_is_remembered(world: World) -> None:
    """With the offer that it names, by the same click, for the request beside which it stands."""
    await approved(world)
    record = await asked(world)
    found = await suggested(world, record)
    assert found is not None
    await world.core.requests.decide(click(record, remember=Remember(offer=found.offer)))
    again = await asked(world, "git log -n 77")
    assert again.decision is not None and again.decision.reason is Reason.GRANT


async def test_an_approval_suggests_to_who_gave_it(world: World) -> None:
    """In a chat, after the tap; not to another person, and not after a denial or an edit."""
    await approved(world, 11)
    record = await decided(world, "git log -n 11")
    assert await suggested(world, record, BOB) is None
    denied = await decided(world, "make", Action.DENY)
    assert await suggested(world, denied) is None
    assert await suggested(world, record) is not None


@pytest.mark.parametrize("who", ["bob", "eve", "nobody"])
async def test_only_the_person_who_approved_is_told(world: World, who: str) -> None:
    """An approver who did not, somebody without the right, and nobody of the policy are not."""
    await approved(world)
    record = await asked(world)
    assert await suggested(world, record, identity(who)) is None
    if who == "nobody":
        with pytest.raises(Unauthorized):
            await world.core.suggestions.decline(identity(who), record, offers(record)[0].id)
    await world.route(Route(approvers=("bob",)))
    assert await suggested(world, record) is None, "ann may not decide it any more"
    await world.route(Route(approvers=("ann",)))
    assert await suggested(world, record) is not None


async def test_two_gateways_suggest_once(world: World, server_url: str, namespace: str) -> None:
    """Also at once, for two requests; a week later there is another one."""
    await approved(world)
    records = [await asked(world) for _ in range(6)]
    async with assembled(server_url, namespace) as other:
        worlds = [world, other] * 3
        made = await asyncio.gather(*map(suggested, worlds, records))
    assert len([one for one in made if one is not None]) == 1
    week = world.store.keys.note("suggestions", "week ann")
    assert 0 < await world.store.redis.ttl(week) <= 7 * 86_400
    assert await suggested(world, await asked(world)) is None
    await next_week(world)
    assert await suggested(world, await asked(world)) is not None


async def test_a_no_is_remembered(world: World) -> None:
    """For ninety days, for this person and this offer; what is no offer takes no no."""
    await approved(world)
    record = await asked(world)
    found = await suggested(world, record)
    assert found is not None
    with pytest.raises(InvalidRequest):
        await world.core.suggestions.decline(ANN, record, "0" * 16)
    await world.core.suggestions.decline(BOB, record, found.offer)
    await next_week(world)
    assert await suggested(world, record) is not None, "bob speaks for himself"
    await world.core.suggestions.decline(ANN, record, found.offer)
    await next_week(world)
    assert await suggested(world, await asked(world, "git log -n 3")) is None
    refused = world.store.keys.note("suggestions", f"no {found.offer} bot ann")
    assert 89 * 86_400 < await world.store.redis.ttl(refused) <= 90 * 86_400
    await approved(world, command="git show --stat a{}")
    assert await suggested(world, await asked(world, "git show --stat abc")) is not None


@pytest.mark.parametrize("action", [Action.DENY, Action.EDIT, Action.RESPOND])
async def test_one_that_anybody_refused_is_enough(world: World, action: Action) -> None:
    """An offer that covers it is not suggested; a narrower one that does not, is."""
    await approved(world)
    how: dict[Action, Any] = {Action.EDIT: {"arguments": {"command": "ls"}},
                              Action.RESPOND: {"result": "none"}}  # fmt: skip
    await decided(world, "git log -n 99", action, identity=BOB, **how.get(action, {}))
    record = await asked(world)
    assert await suggested(world, record) is None
    await approved(world, command="git log -n 5")
    found = await suggested(world, record)
    assert found is not None and found.offer == offers(record)[0].id


async def test_a_batch_is_one_time(world: World) -> None:
    """Twelve requests in one tap say as much as one."""
    await approved(world, 10)
    batch = [click(await asked(world, f"git log -n {n}"), nonce="tap") for n in range(12)]
    await world.core.requests.decide_all(batch)
    record = await asked(world)
    assert await suggested(world, record) is None
    await decided(world)
    found = await suggested(world, record)
    assert found is not None and "approved this 12 times" in found.text
    assert "would have approved 23 requests" in found.text


async def test_a_flood_suggests_nothing(world: World) -> None:
    """What no person answered does not count, and hides no denial."""
    await approved(world)
    await decided(world, "git log -n 98", Action.DENY, identity=BOB)
    await world.core.requests.decide(
        click(await asked(world, "git log -n 99"), remember=Remember(lifetime="1d"))
    )
    for _ in range(30):
        assert (await asked(world, "git log -n 99")).final
    assert await suggested(world, await asked(world)) is None


async def test_more_than_is_looked_at_says_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A denial could lie among the rest."""
    monkeypatch.setattr("gateway.approvals.suggestions._MOST", 14)
    monkeypatch.setattr("gateway.approvals.suggestions._PAGE", 7)
    await approved(world, 15)
    record = await asked(world)
    assert await suggested(world, record) is None
    monkeypatch.setattr("gateway.approvals.suggestions._MOST", 21)
    assert await suggested(world, record) is not None


async def test_nothing_wider_than_what_was_approved_is_suggested(world: World) -> None:
    """No flag that this command did not have, no whole tool, no pass."""
    await approved(world, command="git log --stat -n {}")
    assert await suggested(world, await asked(world, "git log -n 5")) is None
    assert await suggested(world, await asked(world, "git log --stat -n 5")) is not None
    await next_week(world)
    await world.route(Route(approvers=("ann", "bob")), harmless="weather")
    for number in range(12):
        seen = await world.submit(tool="weather", arguments={"city": f"c{number}"})
        await world.core.requests.decide(click(seen))
    seen = await world.submit(tool="weather", arguments={"city": "Bergen"})
    assert any(one.match.answer is Answer.TOOL for one in offers(seen))
    assert await suggested(world, seen) is None


async def test_what_takes_a_step_up_or_is_high_risk_is_not_suggested(world: World) -> None:
    """Neither may be remembered."""
    await approved(world)
    step = LevelRules(step_up=(StepUp.PERSON,))
    await world.route(Route(approvers=("ann",), risk=RulesByRisk(low=step, medium=step)))
    record = await asked(world)
    assert await suggested(world, record) is None
    await world.route(Route(approvers=("ann",)))
    high = await asked(world, risk=Risk(level=RiskLevel.HIGH, reasons=("prod",)))
    assert await suggested(world, high) is None
    assert await suggested(world, record) is not None


async def test_examples_are_masked(world: World) -> None:
    """As on the cards."""
    secret = "hunter2-Token-0123456789abcdef"
    given = {"channel": "ops", "password": secret}
    for _ in range(12):
        await world.core.requests.decide(click(await world.submit(tool="post", arguments=given)))
    found = await suggested(world, await world.submit(tool="post", arguments=given))
    assert found is not None and secret not in found.text
    assert "\u27e8" in found.text
