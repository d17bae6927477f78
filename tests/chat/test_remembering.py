"""What may be remembered, and taken back, the same in each chat."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.chat.lists_and_batches import Worklist, make_login_link, read_switch
from gateway.chat.remembering import ALL, Remembering
from gateway.domain.policy_document import Route
from gateway.errors import Conflict, InvalidRequest, NotFound
from gateway.models import Action, Kind
from gateway.ports import AdapterApi, Grant, Remember
from tests.world import World, click, identity, policy

ANN = identity("ann")
LINT = {"kind": Kind.COMMAND, "arguments": {"command": "make lint"}}


async def remembered(world: World, api: AdapterApi, command: str = "ls") -> Grant:
    """Have ann remember a command; return what is remembered."""
    record = await world.submit(kind=Kind.COMMAND, arguments={"command": command})
    await world.core.requests.decide(click(record, remember=Remember()))
    made = await Remembering(api).find_made(record)
    assert made is not None
    return made


async def test_the_narrowest_come_first_and_passes_last(world: World, api: AdapterApi) -> None:
    """Where there are too many, passes stay."""
    record = await world.submit(**LINT)
    remembering = Remembering(api)
    found = await remembering.list_options(ANN, record, Action.APPROVE, 100)
    assert found[0].words.text.startswith("exactly this")
    assert [one.session_pass for one in found] == sorted(one.session_pass for one in found)
    passes = [one for one in found if one.session_pass]
    few = await remembering.list_options(ANN, record, Action.APPROVE, 1 + len(passes))
    assert few == [found[0], *passes]
    reach = await remembering.find_reach(record, few)
    assert set(reach) == {one.id for one in few}


async def test_no_pass_is_offered_to_who_may_not_give_it(world: World, api: AdapterApi) -> None:
    """Where another route of the agent has other approvers."""
    await policy(
        world.store, Route(approvers=("ann",), tools=("shell",)), Route(approvers=("bob",))
    )
    world.core.writer.forget_policy()
    record = await world.submit(**LINT)
    found = await Remembering(api).list_options(ANN, record, Action.APPROVE, 100)
    assert found and not any(one.session_pass for one in found)


async def test_one_is_revoked_by_the_beginning_of_its_id(world: World, api: AdapterApi) -> None:
    """And said to be, with what it covered; who may not is told that there is none."""
    grant, remembering = await remembered(world, api), Remembering(api)
    with pytest.raises(NotFound):
        await remembering.revoke(identity("eve"), grant.id[:8])
    with pytest.raises(InvalidRequest, match="at least 4"):
        await remembering.revoke(ANN, grant.id[:3])
    said = await remembering.revoke(identity("bob"), grant.id[:8])
    assert said.startswith("Revoked: exactly this")
    assert said.endswith("Matching requests require approval again.")


async def test_a_sessions_and_all_are_revoked(world: World, api: AdapterApi) -> None:
    """Counted; nothing left is said, and a session without a name is asked for."""
    remembering = Remembering(api)
    for what in (ALL, "session bot default"):
        await remembered(world, api)
        assert (
            await remembering.revoke(ANN, what)
            == "Revoked: 1. Matching requests require approval again."
        )
        with pytest.raises(Conflict, match="no grants that you may revoke"):
            await remembering.revoke(ANN, what)
    with pytest.raises(InvalidRequest, match="AGENT NAME"):
        await remembering.revoke(ANN, "session bot")


async def test_people_list_what_they_may_see_and_decide(world: World, api: AdapterApi) -> None:
    """The newest first; who asked sees their own, and an id names one of them."""
    worklist = Worklist(api)
    first, second = await world.submit(), await world.submit(arguments={"command": "pwd"})
    assert await worklist.list_mine(ANN, 1) == [second]
    assert await worklist.list_mine(ANN, 9) == [second, first]
    assert await worklist.list_mine(identity("eve"), 9) == []
    assert [one async for one in worklist.list_waiting(identity("eve"))] == []
    assert (await worklist.find(ANN, first.id[:12])).id == first.id
    with pytest.raises(NotFound):
        await worklist.find(identity("eve"), first.id[:12])


async def test_the_kill_switch_is_shown_to_all_and_used_by_admins(
    world: World, api: AdapterApi
) -> None:
    """Who may use it is said beside its state."""
    switch, admin = await read_switch(api, ANN)
    assert (switch.on, admin) == (False, False)
    current = await world.store.policy()
    people = tuple(replace(one, admin=one.name == "ann") for one in current.people)
    await world.store.apply(replace(current, people=people), by="test")
    world.core.writer.forget_policy()
    await api.operator.stop_all(ANN, on=True)
    switch, admin = await read_switch(api, ANN)
    assert (switch.on, admin) == (True, True)


async def test_a_link_to_sign_in_says_for_whom_and_how_long(api: AdapterApi) -> None:
    """It is for the caller alone."""
    says, url = await make_login_link(api, ANN)
    assert says == "This link signs you in to the inbox as ann. It works once, within 5 minutes."
    assert url.startswith("https://inbox.example/")


async def test_the_usual_choice_comes_first_and_says_so(
    world: World, api: AdapterApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where it is none of the options, and never at the price of the form."""
    for number in range(10):
        seen = await world.submit(kind=Kind.COMMAND, arguments={"command": f"git log -n {number}"})
        await world.core.requests.decide(click(seen))
    record = await world.submit(kind=Kind.COMMAND, arguments={"command": "git log -n 99"})
    remembering = Remembering(api)
    options = await remembering.list_options(ANN, record, Action.APPROVE, 100)
    reach = await remembering.find_reach(record, options)
    before = dict(reach)
    usual = await remembering.find_usual(record, reach)
    assert usual == options[1].id
    said = "Preselected: it covers the last 10 similar requests."
    assert await remembering.find_usual(record, {options[0].id: ""}) == ""
    assert reach == {**before, usual: f"{said} {before[usual]}"}

    async def fail(*_: object, **__: object) -> list[str]:
        raise RuntimeError("the store is gone")

    monkeypatch.setattr(world.store, "list_decided", fail)
    assert await remembering.find_usual(record, reach) == ""
    assert await remembering.suggest(ANN, record) is None


async def test_a_slow_look_keeps_nobody_waiting(
    world: World, api: AdapterApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form opens with the narrowest choice."""

    async def hang(*_: object, **__: object) -> list[str]:
        return await asyncio.Event().wait()  # type: ignore[return-value]

    monkeypatch.setattr(world.store, "list_decided", hang)
    monkeypatch.setattr("gateway.chat.remembering._LOOK_SECONDS", 0.01)
    record = await world.submit(**LINT)
    assert await Remembering(api).find_usual(record, {}) == ""
