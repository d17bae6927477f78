"""Requests that wait without a card of their own, and what an agent may ask for at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.delivery.overflow_cards import build_overflow_card
from gateway.domain.policy_document import Budget, PolicyDocument, Route
from gateway.domain.records import Remember, StoredRequest
from gateway.errors import OverBudget
from gateway.models import Action, DeciderKind, Origin, Reason, Risk, RiskLevel, Status
from gateway.wire.codec import plain
from tests.delivery.test_outbox import Office
from tests.world import AGENT, PEOPLE, World, assembled, click, identity, over_http, request

CARDS = Budget(cards=2)


@pytest.fixture
async def office(world: World) -> Office:
    """Yield an office on a route that posts to one place."""
    await govern(world)
    return Office(world)


async def govern(world: World, *budgets: Budget, **route: Any) -> None:
    """Put one route, and these budgets, in force."""
    values = {"approvers": ("ann", "bob"), "targets": ("rec:a",), **route}
    current = await world.store.policy()
    document = PolicyDocument(
        generation=current.generation, people=PEOPLE, routes=(Route(**values),), budgets=budgets
    )
    await world.store.apply(document, by="test")
    world.core.writer.forget_policy()


async def distinct(office: Office, count: int, **more: Any) -> list[StoredRequest]:
    """Submit so many requests that differ."""
    return [
        await office.world.submit(arguments={"command": f"make {number}"}, **more)
        for number in range(count)
    ]


async def now(office: Office, record: StoredRequest) -> StoredRequest:
    """Return a request as it stands."""
    return await office.api.requests.get(record.id)


async def load(office: Office) -> tuple[str, list[str]]:
    """Return the bytes that wait of the agent, and the places that its leaders hold."""
    found = await office.world.store.redis.hgetall(office.world.store.keys.load(AGENT))
    return found["bytes"], [name for name in found if name.startswith("=")]


async def settled(office: Office) -> None:
    """Work until nothing is due, also not in the seconds that counting waits for."""
    office.clock.seconds += 6
    await office.soon()
    await office.soon("followups")
    await office.settle()


def cards(office: Office) -> list[str]:
    """Return the requests that have cards, oldest first."""
    return [one.card.request_id for one in office.adapter.messages.values() if one.card.asks]


# ---------------------------------------------------------------- the same request


async def test_identical_requests_share_one_card_that_counts_them(office: Office) -> None:
    """Three that ask the same show one card, which says so."""
    first, *others = [await office.world.submit() for _ in range(3)]
    await office.settle()
    assert cards(office) == [first.id]
    assert "2 more identical requests are pending." in " ".join(
        office.adapter.shown("rec:a").notices
    )
    assert [one.behind for one in others] == [first.id, first.id]
    events = [one for one in await office.world.events(others[0].id) if one.type == "submitted"]
    assert events[0].data["behind"] == first.id


@pytest.mark.parametrize(
    "change",
    [
        {"session": "other"},
        {"arguments": {"command": "ls -l"}},
        {"hint": "because"},
        {"origin": Origin(channel="token", sender="eve")},
        {"allowed": (Action.APPROVE, Action.DENY)},
        {"risk": Risk(level=RiskLevel.HIGH)},
    ],
)
async def test_what_differs_in_anything_people_see_has_its_own_card(
    office: Office, change: dict[str, Any]
) -> None:
    """Another session, argument, word, sender, action or risk is another request."""
    await office.world.submit()
    other = await office.world.submit(**change)
    assert other.behind == ""
    assert (await office.world.submit()).behind


async def test_two_of_high_risk_never_share(office: Office) -> None:
    """Each high-risk request is looked at for itself."""
    risky = {"risk": Risk(level=RiskLevel.HIGH)}
    made = [await office.world.submit(**risky) for _ in range(2)]
    await office.settle()
    assert sorted(cards(office)) == sorted(one.id for one in made)


async def test_a_denial_is_for_all_that_ask_the_same(office: Office) -> None:
    """Followers end with the words and the person of the denial; the requester hears once."""
    await govern(office.world, notify=("rec:log",))
    first, *others = [await office.world.submit() for _ in range(3)]
    await office.settle()
    await office.api.requests.decide(click(first, Action.DENY, message="no", feedback=True))
    await office.settle()
    for one in others:
        end = (await now(office, one)).decision
        assert end is not None
        assert (end.status, end.reason, end.message) == (Status.DENIED, Reason.FEEDBACK, "no")
        assert (end.decided_by.kind, end.decided_by.name) == (DeciderKind.PERSON, "ann")
        assert end.request_id == one.id
        assert first.id in (await now(office, one)).note
    assert cards(office) == [first.id]
    assert len(office.adapter.notices) == 1
    assert await office.due() == await office.due("followups") == 0


async def test_an_approval_is_for_one_and_the_next_is_asked(office: Office) -> None:
    """After an approval the next has a card, and the last still waits behind it."""
    first, *others = [await office.world.submit() for _ in range(3)]
    second, third = sorted(others, key=lambda one: (one.created, one.id))
    await office.settle()
    await office.api.requests.decide(click(first))
    await settled(office)
    assert [(await now(office, one)).status for one in (second, third)] == [Status.PENDING] * 2
    assert cards(office) == [first.id, second.id]
    assert (await now(office, third)).behind == second.id
    assert (await now(office, second)).alike == 1
    newest = await office.world.submit()
    assert newest.behind == second.id
    for one in (second, third, newest):
        assert len((await load(office))[1]) == 1, "whoever is next takes the place"
        await office.api.requests.decide(click(one))
        await settled(office)
    assert await load(office) == ("0", [])


@pytest.mark.parametrize("ending", ["cancel", "expire"])
async def test_the_next_is_asked_when_the_first_goes(office: Office, ending: str) -> None:
    """A cancelled or expired leader leaves its card to the next."""
    first = await office.world.submit(timeout=0.05 if ending == "expire" else None)
    second = await office.world.submit()
    assert second.behind == first.id
    if ending == "cancel":
        await office.world.approvals.cancel(first.id, over_http(), reason=Reason.CANCELLED_BY_AGENT)
    while (await now(office, first)).status is Status.PENDING:
        await office.world.sweeper.sweep()
    await settled(office)
    assert second.id in cards(office)
    assert (await now(office, second)).behind == ""


async def test_followers_that_go_are_not_counted_any_more(office: Office) -> None:
    """The card says how many really wait behind it."""
    first, second, third = [await office.world.submit() for _ in range(3)]
    await office.settle()
    await office.api.requests.decide(click(second, Action.DENY))
    await office.world.approvals.cancel(third.id, over_http(), reason=Reason.ABANDONED)
    await settled(office)
    assert (await now(office, first)).alike == 0
    assert not any("exactly this" in one for one in office.adapter.shown("rec:a").notices)
    assert (await now(office, first)).status is Status.PENDING


async def test_an_edit_leaves_the_others_to_be_asked(office: Office) -> None:
    """What was edited is not what the others ask, so a denial of it is none of theirs."""
    await govern(office.world, quorum=2)
    first, second = [await office.world.submit() for _ in range(2)]
    new = await office.api.requests.decide(click(first, Action.EDIT, arguments={"command": "pwd"}))
    await settled(office)
    assert (await now(office, second)).behind == ""
    await office.api.requests.decide(click(new, Action.DENY, identity=identity("bob")))
    await settled(office)
    assert (await now(office, second)).status is Status.PENDING


@pytest.mark.parametrize("place", [0, 1])
async def test_what_was_edited_takes_nobodys_place_when_it_ends(office: Office, place: int) -> None:
    """Whether it led the others or followed: who leads them since then goes on doing so."""
    await govern(office.world, quorum=2)
    pair = [await office.world.submit() for _ in range(2)]
    edit = click(pair[place], Action.EDIT, arguments={"command": "pwd"})
    edited = await office.api.requests.decide(edit)
    await settled(office)
    leader, edited = [await now(office, one) for one in (pair[1 - place], edited)]
    assert (leader.behind, edited.behind) == ("", "")
    await office.api.requests.decide(click(edited, Action.DENY, identity=identity("bob")))
    await settled(office)
    assert (await office.world.submit()).behind == leader.id


async def test_one_that_is_not_alike_after_all_gives_its_place_up(office: Office) -> None:
    """As two would whose likeness has the same digits: it is asked for itself, and ends so."""
    redis, keys = office.world.store.redis, office.world.store.keys
    other, first = await distinct(office, 2)
    like = await redis.hget(keys.record(first.id), "leads")
    await redis.hset(keys.record(other.id), "leads", like)
    await redis.hset(keys.load(AGENT), f"={like}", other.id)
    second, third = [await office.world.submit(arguments=first.arguments) for _ in range(2)]
    assert (second.behind, third.behind) == ("", second.id)
    await office.api.requests.decide(click(other))
    assert (await office.world.submit(arguments=first.arguments)).behind == second.id


async def test_remembering_settles_all_without_another_card(office: Office) -> None:
    """A grant made with the approval decides those behind it; none of them is shown meanwhile."""
    first, *others = [await office.world.submit() for _ in range(3)]
    await office.settle()
    await office.api.requests.decide(click(first, remember=Remember()))
    await settled(office)
    ends = [(await now(office, one)).decision for one in others]
    assert [end and end.reason for end in ends] == [Reason.GRANT] * 2
    assert cards(office) == [first.id]


async def test_one_that_comes_while_the_line_moves_gathers_the_others(office: Office) -> None:
    """Those behind a request that ended join the new one that asks the same: still one card."""
    first, second = [await office.world.submit() for _ in range(2)]
    await office.world.approvals.cancel(first.id, over_http(), reason=Reason.ABANDONED)
    newer = await office.world.submit()
    assert newer.behind == ""
    await settled(office)
    assert (await now(office, second)).behind == newer.id
    assert (await now(office, newer)).alike == 1


async def test_a_denial_is_no_more_for_those_whose_requester_differs(office: Office) -> None:
    """Whoever may not be ruled by the decision is asked for, not denied."""
    first, second = [await office.world.submit() for _ in range(2)]
    key = office.world.store.keys.record(second.id)
    await office.world.store.redis.hset(key, "owner", "eve")
    await office.api.requests.decide(click(first, Action.DENY))
    await settled(office)
    assert (await now(office, second)).status is Status.PENDING
    assert (await now(office, second)).behind == ""


# ---------------------------------------------------------------- the overflow card


async def test_what_exceeds_the_cards_waits_behind_one_overflow_card(office: Office) -> None:
    """Two have cards, the others one overflow card that counts and lists them."""
    await govern(office.world, CARDS)
    made = await distinct(office, 5)
    await office.settle()
    assert sorted(cards(office)) == sorted(one.id for one in made[:2])
    (digest,) = [one.card for one in office.adapter.messages.values() if not one.card.asks]
    assert (
        digest.notification
        == f"3 more requests of {AGENT} wait; they get cards when its budget allows"
    )
    assert "make 2" in digest.blocks[0].text.text
    assert digest.controls == ()
    assert {one.behind for one in made[2:]} == {f"~{AGENT}"}


async def test_high_risk_is_never_behind_the_build_overflow_card(office: Office) -> None:
    """However many cards there are, a high-risk request has its own."""
    await govern(office.world, CARDS)
    await distinct(office, 4)
    risky = await office.world.submit(risk=Risk(level=RiskLevel.HIGH))
    await office.settle()
    assert risky.id in cards(office)


async def test_when_the_flood_ends_the_oldest_get_cards_first(office: Office) -> None:
    """As the budget allows, cards come in order; then the overflow card closes."""
    await govern(office.world, CARDS)
    made = await distinct(office, 4)
    await office.settle()
    await govern(office.world, Budget(cards=1_000_000))
    await settled(office)
    assert sorted(cards(office)) == sorted(one.id for one in made)
    shown = [one.request_id for one in await office.world.events() if one.type == "shown"]
    # Those of one millisecond stand in the order of their ids.
    assert shown == [one.id for one in sorted(made[2:], key=lambda one: (one.created, one.id))]
    (digest,) = [one.card for one in office.adapter.messages.values() if not one.card.asks]
    assert digest.word == "No requests are pending here"
    assert await office.outbox.copies(f"~{AGENT}") == {}


async def test_one_behind_the_build_overflow_card_is_decided_in_the_inbox(office: Office) -> None:
    """It is an ordinary request; when it ends the overflow card counts one less."""
    await govern(office.world, CARDS)
    made = await distinct(office, 4)
    await office.settle()
    await office.api.requests.decide(click(made[3]))
    await settled(office)
    (digest,) = [one.card for one in office.adapter.messages.values() if not one.card.asks]
    assert digest.notification.startswith("1 more request of")
    assert (await now(office, made[3])).status is Status.APPROVED


async def test_the_next_in_line_waits_behind_the_build_overflow_card_too(office: Office) -> None:
    """Where there is no card left, a new leader gets none out of turn."""
    await govern(office.world, Budget(cards=1))
    first, second = [await office.world.submit() for _ in range(2)]
    await office.world.approvals.cancel(first.id, over_http(), reason=Reason.ABANDONED)
    await settled(office)
    assert (await now(office, second)).behind == f"~{AGENT}"


async def test_the_build_overflow_card_says_where_to_answer_them(office: Office) -> None:
    """The inbox's address where it has one; else the command of the chat, or the inbox's name."""
    await govern(office.world, CARDS)
    await distinct(office, 3)
    overflow = await office.world.core.holding.overflow(AGENT)
    address = "https://approvals.example/inbox"
    linked = build_overflow_card(overflow, address, "/waiting")
    assert linked.inbox == address
    assert not any("/waiting" in one for one in linked.notices)
    assert (
        build_overflow_card(overflow, "", "/waiting")
        .notices[0]
        .startswith("/waiting shows the request")
    )
    assert build_overflow_card(overflow, "", "").notices[0].startswith("Open the inbox")


# ---------------------------------------------------------------- how much may wait


@pytest.mark.parametrize("budget", [Budget(waiting=2), Budget(bytes=1000)])
async def test_too_much_is_refused_and_nobody_is_asked(world: World, budget: Budget) -> None:
    """What exceeds the budget leaves no request; what ends makes room again."""
    await govern(world, budget)
    letters = "x" * (300 if budget.waiting > 2 else 1)
    made: list[StoredRequest] = []
    with pytest.raises(OverBudget):
        for number in range(5):
            made.append(await world.submit(arguments={"command": f"{number}{letters}"}))
    assert 0 < len(made) <= 3
    assert await world.store.count_pending() == len(made)
    await world.core.requests.decide(click(made[0]))
    await world.submit()
    for one in await world.store.pending_of(AGENT):
        await world.approvals.cancel(one, over_http(), reason=Reason.ABANDONED)
    assert await world.store.redis.hget(world.store.keys.load(AGENT), "bytes") == "0"


async def test_over_redis_the_refusal_is_an_answer(world: World) -> None:
    """An agent that is over its budget is told so, and its message is gone."""
    await govern(world, Budget(waiting=1))
    await world.submit()
    await world.send("submit", plain(request(arguments={"command": "pwd"})))
    await world.handled()
    assert (await world.reply())["error"]["code"] == "over_budget"


async def test_racing_replicas_make_one_leader_and_lose_nobody(
    world: World, server_url: str
) -> None:
    """Two gateways take in, deny and release at once: each request ends once, with a decision."""
    await govern(world, Budget(cards=3, denials=0))
    async with assembled(server_url, world.store.keys.namespace) as other:
        both = (Office(world), Office(other))
        for office in both[1:]:
            office.adapter = both[0].adapter
        asked = [request(arguments={"command": f"make {number % 5}"}) for number in range(40)]
        taken = [
            both[number % 2].world.approvals.submit(one, over_http())
            for number, one in enumerate(asked)
        ]
        made = [record for record, _ in await asyncio.gather(*taken)]
        assert len({one.id for one in made if not one.behind}) == 3
        leaders = [one for one in made if not one.behind or one.behind.startswith("~")]
        assert len(leaders) == 5
        for one in leaders:
            await other.core.requests.decide(click(one, Action.DENY))
        await asyncio.gather(*(settled(office) for office in both))
        ends = await world.store.load_many([one.id for one in made])
        assert {one and one.status for one in ends} == {Status.DENIED}
    endings = [one for one in await world.events() if one.type == "denied"]
    assert len(endings) == len({one.request_id for one in endings}) == 40
    assert await load(both[0]) == ("0", [])
