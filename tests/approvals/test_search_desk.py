"""Looking for what ended and what happened: what is found, what is not, and how far one looked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.records import StoredRequest
from gateway.errors import Unauthorized
from gateway.models import Action, Kind, Status
from gateway.ports.adapter_api import Search
from tests.world import PEOPLE, World, click, identity

SECRET = "ghp_" + "a1B2c3D4e5" * 3


async def ended(
    world: World, action: Action = Action.DENY, by: str = "ann", **asked: Any
) -> StoredRequest:
    """Have a request decided."""
    record = await world.submit(**asked)
    return await world.core.requests.decide(click(record, action, identity=identity(by)))


async def found(world: World, **search: Any) -> list[str]:
    """Return the ids that a search of the history finds."""
    return [one.id for one in (await world.core.requests.search(Search(**search))).items]


async def test_each_field_narrows(world: World) -> None:
    """Text, agent, outcome, who and time, alone and together; the newest stands first."""
    old = await ended(world, Action.APPROVE, arguments={"command": "make Release"})
    new = await ended(world, Action.DENY, by="bob", arguments={"command": "make clean"})
    assert old.decision is not None
    assert await found(world) == [new.id, old.id]
    assert await found(world, text="make release") == [old.id]
    assert await found(world, agent="nobody") == []
    assert await found(world, outcome=Status.DENIED.value) == [new.id]
    assert await found(world, who="ann") == [old.id]
    assert await found(world, who="bob", text="release") == []
    assert await found(world, until=old.decision.decided_at) == []
    assert old.id in await found(world, since=old.decision.decided_at)
    assert await found(world, text=new.id[:12]) == [new.id]


async def test_the_head_is_found_in_the_words_of_the_card(world: World) -> None:
    """People look for what they read."""
    record = await ended(
        world, kind=Kind.COMMAND, arguments={"command": "rm -rf build && make all"}
    )
    assert await found(world, text="Deletes") == [record.id]


async def test_a_secret_is_not_found(world: World) -> None:
    """Otherwise it could be guessed letter by letter by who may not see it; what stands around it
    is found."""
    command = f"git push https://bot:{SECRET}@git.example.org/shop.git main"
    record = await ended(world, arguments={"command": command}, hint=f"I use {SECRET}.")
    assert await found(world, text="git.example.org") == [record.id]
    assert await found(world, text="I use") == [record.id]
    for part in (SECRET, SECRET[:8], "ghp_"):
        assert await found(world, text=part) == []


async def test_it_says_how_far_it_looked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search ends after the newest so many, and goes on from there when asked."""
    monkeypatch.setattr("gateway.approvals.search_and_report._MOST", 2)
    monkeypatch.setattr("gateway.approvals.search_and_report._PAGE", 2)
    made = [await ended(world, arguments={"command": f"echo {n}"}) for n in range(3)]
    first = await world.core.requests.search(Search(text="echo 0"))
    assert (first.items, first.looked) == ((), 2)
    rest = await world.core.requests.search(Search(text="echo 0", after=first.next))
    assert ([one.id for one in rest.items], rest.looked, rest.next) == ([made[0].id], 1, None)


async def test_the_audit_is_for_admins(world: World) -> None:
    """Others are refused; an admin finds events by type, agent, person and text without secrets."""
    people = tuple(replace(one, admin=one.name == "eve") for one in PEOPLE)
    await world.put(people=people)
    record = await ended(world, arguments={"command": "ls"})
    look = world.core.requests.search_events
    with pytest.raises(Unauthorized):
        await look(identity("ann"), Search())
    eve = identity("eve")
    denied = await look(eve, Search(outcome="denied"))
    assert [one.request_id for one in denied.items] == [record.id]
    assert not denied.more
    assert denied.looked > 1
    assert (await look(eve, Search(text=record.id, agent="nobody"))).items == ()
    assert {one.type for one in (await look(eve, Search(text=record.id))).items} >= {
        "submitted",
        "denied",
    }
    assert [one.type for one in (await look(eve, Search(who="ann"))).items] == ["denied"]
