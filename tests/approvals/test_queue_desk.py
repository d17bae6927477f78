"""The queue as one person sees it: what waits for them, and what waits for others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.models import Risk, RiskLevel
from gateway.ports.adapter_api import QueueFilter
from tests.world import World, click, identity, over_http, request


async def asked(world: World, seconds: int) -> StoredRequest:
    """Submit a request unlike any other that ends so soon."""
    return await world.submit(timeout=seconds, arguments={"n": seconds})


async def ids(world: World, person: str, side: QueueFilter) -> list[str]:
    """Return what stands on a side of somebody's queue."""
    return [one.id for one in (await world.core.requests.list_queue(identity(person), side)).items]


async def counted(world: World, person: str) -> tuple[int, int, bool]:
    """Return what waits for somebody, what for others, and whether there is more."""
    found = await world.core.requests.count_queue(identity(person))
    return found.mine, found.others, found.more


async def test_the_soonest_deadline_stands_first(world: World) -> None:
    """Whatever was asked first; each with who may approve it."""
    late, soon = [await asked(world, one) for one in (900, 60)]
    page = await world.core.requests.list_queue(identity("ann"), QueueFilter.ALL)
    assert [one.id for one in page.items] == [soon.id, late.id]
    assert page.items[0].approvers is not None


async def test_mine_is_what_i_may_decide_and_have_not(world: World) -> None:
    """Eve may decide nothing, so all waits for others; what ann voted on does so, too."""
    await world.route(Route(approvers=("ann", "bob"), quorum=2))
    voted, fresh = await asked(world, 60), await asked(world, 90)
    await world.core.requests.decide(click(voted))
    assert await ids(world, "ann", QueueFilter.MINE) == [fresh.id]
    assert await ids(world, "ann", QueueFilter.OTHERS) == [voted.id]
    assert await ids(world, "bob", QueueFilter.MINE) == [voted.id, fresh.id]
    assert await ids(world, "eve", QueueFilter.MINE) == []
    assert await ids(world, "eve", QueueFilter.ALL) == [voted.id, fresh.id]
    assert await counted(world, "ann") == (1, 1, False)
    assert await counted(world, "eve") == (0, 2, False)


async def test_what_is_new_is_theirs_and_later(world: World) -> None:
    """A page that knew of the first hears of the second alone, and who may decide neither of
    none."""
    first = await asked(world, 60)
    while (second := await asked(world, 90)).created == first.created:
        await world.core.requests.decide(click(second))
    count = world.core.requests.count_queue
    known = await count(identity("ann"), since=first.created)
    assert (known.fresh, known.newest) == (1, second.created)
    assert (await count(identity("ann"), since=second.created)).fresh == 0
    none = await count(identity("eve"))
    assert (none.fresh, none.newest) == (0, 0)


async def test_who_asked_for_a_high_risk_waits_for_others(world: World) -> None:
    """The page offers them no decision, so the badge does not call them either."""
    submit = world.approvals.submit
    risky = request(risk=Risk(level=RiskLevel.HIGH))
    record, _ = await submit(risky, replace(over_http(), owner="ann"))
    assert await ids(world, "ann", QueueFilter.OTHERS) == [record.id]
    assert await ids(world, "bob", QueueFilter.MINE) == [record.id]


@pytest.mark.parametrize("side", [QueueFilter.MINE, QueueFilter.ALL])
async def test_pages_go_on_where_the_last_ended(world: World, side: QueueFilter) -> None:
    """Each request once, in order."""
    made = [await asked(world, 60 + n) for n in range(5)]
    seen: list[StoredRequest] = []
    after = None
    while True:
        page = await world.core.requests.list_queue(identity("ann"), side, after=after, limit=2)
        seen += page.items
        if (after := page.next) is None:
            break
    assert [one.id for one in seen] == [one.id for one in made]


async def test_a_count_says_when_it_did_not_look_at_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound holds for pages too: a page may be short, and go on."""
    monkeypatch.setattr("gateway.approvals.request_service._MOST_QUEUED", 3)
    for number in range(5):
        await world.submit(arguments={"n": number})
    assert await counted(world, "ann") == (3, 0, True)
    page = await world.core.requests.list_queue(identity("eve"), QueueFilter.MINE)
    assert (page.items, page.next is not None) == ((), True)
