"""Slow hooks are asked once the request is stored: nobody sees it before, and no death loses it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.client import AsyncClient
from gateway.client.redis_transport import RedisTransport
from gateway.domain.policy_document import Budget, PolicyRule, RuleEffect
from gateway.domain.records import REVIEWS, AuditEvent, Query, Remember, StoredRequest
from gateway.errors import Aborted, Denied, NotFound, Unauthorized
from gateway.models import Action, Reason, Status
from gateway.policy.hooks import Hook, HookHost, HookLink
from gateway.server.background import adapter_api, run_reviews
from gateway.stores.requests import RedisGroups
from tests.faults import roles
from tests.faults.processes import child
from tests.hooks.stage import hook, reviewed_in
from tests.waiting import moment
from tests.world import AGENT, World, assembled, click, identity, over_http


@asynccontextmanager
async def staged(server_url: str, namespace: str, **hooks: Hook) -> AsyncIterator[World]:
    """Run a gateway with these hooks, whose reviews are not running."""
    host = HookHost(hooks)
    async with (
        host.running(),
        assembled(server_url, namespace, (HookLink(host),)) as world,
    ):
        yield world


@pytest.fixture
async def world(server_url: str, namespace: str) -> AsyncIterator[World]:
    """Yield a gateway with one hook."""
    async with staged(server_url, namespace, puppet=hook()) as made:
        yield made


async def waiting(world: World, **more: Any) -> StoredRequest:
    """Submit a call that waits for its review."""
    record = await world.submit(tool="thing", **{"arguments": {"x": 1}, **more})
    assert record.unreviewed
    return record


async def test_nobody_sees_or_decides_what_hooks_are_asked_about(world: World) -> None:
    """Not on a list, not by its id, not by a click; afterwards it is there, and can be approved."""
    api = adapter_api("test", world.core, world.store)
    record = await waiting(world)
    assert record.queues == (REVIEWS,)
    assert (await api.requests.page(Query())).items == ()
    with pytest.raises(NotFound):
        await api.requests.get(record.id)
    assert await api.requests.may_decide(identity("ann"), record) is not None
    for action in (Action.APPROVE, Action.DENY):
        with pytest.raises(Unauthorized):
            await api.requests.decide(click(record, action))
    await reviewed_in(world, record.id)
    (shown,) = (await api.requests.page(Query())).items
    assert (shown.id, shown.revision, shown.shown_since) == (record.id, 2, 2)
    done = await api.requests.decide(click(shown))
    assert done.status is Status.APPROVED
    types = [event.type for event in await world.events(record.id)]
    assert [one for one in types if one != "refused"] == ["submitted", "reviewed", "approved"]


async def test_a_place_is_found_once(world: World) -> None:
    """Done twice it is done once; nothing waits behind itself, nor behind what is not there."""
    first, second, third = [await waiting(world) for _ in range(3)]
    groups, redis, keys = RedisGroups(world.store), world.store.redis, world.store.keys

    async def place(record: StoredRequest) -> None:
        await groups.place(record, Budget(), posts=False, alone=False)

    for record in (first, first, second, second):
        await place(record)
    assert await groups.behind(first.id) == [second.id]
    assert await redis.hget(keys.record(first.id), "behind") is None
    assert await redis.hget(keys.record(first.id), "alike") == "1"
    load = keys.load(first.request.agent)
    (slot,) = [name for name in await redis.hkeys(load) if name.startswith("=")]
    await redis.hset(load, slot, "0" * 32)
    await place(third)
    assert await groups.behind("0" * 32) == []
    assert await redis.hget(load, slot) == third.id


async def test_what_quick_deciders_refuse_is_refused_at_once(world: World) -> None:
    """A denial above the hooks does not wait for them; an approval below does."""
    await reviewed_in(world, (first := await waiting(world)).id)
    shown = await world.core.requests.get(first.id)
    await world.core.requests.decide(click(shown, remember=Remember()))
    again = await waiting(world)
    await reviewed_in(world, again.id)
    assert (await world.core.requests.get(again.id)).status is Status.APPROVED
    rule = PolicyRule(name="no", effect=RuleEffect.DENY, tools=("thing",))
    await world.put(rules=(rule,))
    record = await world.submit(tool="thing", arguments={"x": 1})
    assert record.status is Status.DENIED


async def test_a_policy_that_changed_meanwhile_is_the_one_that_counts(world: World) -> None:
    """What was taken in under one policy is reviewed under the next."""
    record = await waiting(world)
    current = await world.store.policy()
    rule = PolicyRule(name="no", effect=RuleEffect.DENY, tools=("thing",))
    await world.store.apply(replace(current, rules=(rule,)), by="test")
    await reviewed_in(world, record.id)  # with the old policy in mind
    ended = (await world.core.requests.get(record.id)).decision
    assert ended is not None
    assert ended.decided_by.name == "no"


async def test_what_ends_before_its_review_is_not_brought_back(world: World) -> None:
    """Withdrawn by its agent, or stopped by the kill switch."""
    record = await waiting(world)
    await world.approvals.cancel(record.id, over_http(), reason=Reason.CANCELLED_BY_AGENT)
    await reviewed_in(world, record.id)
    assert (await world.core.requests.get(record.id)).status is Status.CANCELLED
    other = await waiting(world, arguments={"x": 2})
    await world.store.set_stopped(True, by="ann")
    await reviewed_in(world, other.id)
    ended = await world.core.requests.get(other.id)
    assert ended.decision is not None
    assert ended.decision.reason is Reason.STOPPED


async def test_two_replicas_that_look_at_once_make_one_answer(
    world: World, server_url: str
) -> None:
    """One of them finds the other's."""
    async with staged(server_url, world.store.keys.namespace, puppet=hook()) as other:
        for number in range(5):
            record = await waiting(world, arguments={"x": number})
            await asyncio.gather(reviewed_in(world, record.id), reviewed_in(other, record.id))
            types = [event.type for event in await world.events(record.id)]
            assert types == ["submitted", "reviewed"]


async def test_what_was_reviewed_finds_its_place_as_if_there_were_no_hooks(world: World) -> None:
    """Equal ones share a card, and cards beyond the budget wait behind the overflow card. What
    hooks or rules decide costs no card."""
    current = await world.store.policy()
    route = replace(current.routes[0], targets=("chat:1",))
    budget = Budget(cards=2)
    await world.put(routes=(route,), budgets=(budget,))
    no = {"all": {"approve_tool": {"approved": False, "reason": "no"}}}
    found = []
    for arguments in ({"x": 1}, {"x": 1}, no, no, {"x": 2}, {"x": 3}):
        record = await waiting(world, arguments=arguments)
        assert not record.behind
        await reviewed_in(world, record.id)
        await reviewed_in(world, record.id)
        found.append(await world.core.requests.get(record.id))
    first, twin, denied, _, second, third = found
    assert (twin.behind, denied.status) == (first.id, Status.DENIED)
    assert (first.behind, second.behind, third.behind) == ("", "", f"~{AGENT}")
    for record in (second, third):
        await world.core.requests.decide(click(record))
    places = await world.store.redis.hgetall(world.store.keys.load(AGENT))
    assert [places[name] for name in places if name.startswith("=")] == [first.id]


async def test_a_slow_hook_holds_up_nobody_else(
    server_url: str, namespace: str, tmp_path: Path
) -> None:
    """Other messages of the same agent, and reviews of other requests, go on."""
    notes = tmp_path / "notes"
    slow = hook(notes=notes, intercept=("approve_tool",), timeout=60)
    async with (
        staged(server_url, namespace, puppet=slow) as world,
        run_reviews(world.core),
    ):
        held = await waiting(world, arguments={"all": {"hold": True}})
        while not (notes.exists() and "approve_tool" in notes.read_text()):
            await moment()
        quick = await waiting(world, arguments={"x": 2})
        # With its next answer the hook says what it held: it is asked although one is held.
        await world.until(lambda found: {held.id, quick.id} <= _reviewed(found))


def _reviewed(events: list[AuditEvent]) -> set[str]:
    return {event.request_id for event in events if event.type == "reviewed"}


@pytest.mark.parametrize(
    ("answer", "error", "abort"),
    [
        ({"action": "deny_tool", "reason": "not here"}, Denied, None),
        ({"action": "abort_turn", "reason": "not here"}, Aborted, "turn"),
        ({"action": "hard_abort", "reason": "not here"}, Aborted, "agent"),
    ],
)
async def test_a_hooks_refusal_reaches_the_agent_as_its_own_exception(
    world: World, server_url: str, answer: dict[str, Any], error: type[Denied], abort: str | None
) -> None:
    """From a hook's process through the gateway and Redis to the agent's `except`."""
    arguments = {"all": {"before_tool": answer}}
    transport = RedisTransport(server_url, AGENT, world.store.keys.namespace)
    async with (
        world.ingress().running(),
        run_reviews(world.core),
        AsyncClient(transport) as client,
    ):
        with pytest.raises(error) as refused:
            await client.ask("thing", arguments, timeout=30)
    assert type(refused.value) is error
    assert refused.value.decision.abort == abort
    assert refused.value.decision.reason is Reason.HOOK


def hooks_file(folder: Path, name: str, **env: str) -> Path:
    """Write a hooks file with the puppet."""
    path = folder / f"{name}.toml"
    puppet = Path(__file__).with_name("puppet.py")
    notes = folder / f"{name}.notes"
    given = {"PUPPET": name, "PUPPET_NOTES": str(notes), **env}
    values = ", ".join(f"{key} = {json.dumps(value)}" for key, value in given.items())
    command = json.dumps([sys.executable, str(puppet)])
    path.write_text(f"[hooks.{name}]\ncommand = {command}\ntimeout = 60\nenv = {{ {values} }}\n")
    return path


async def test_a_killed_gateways_review_is_taken_over(
    server_url: str, namespace: str, tmp_path: Path
) -> None:
    """kill -9 while its hook thinks: when the lease has ended, another gateway asks its own."""
    refuse = {"second": {"approve_tool": {"approved": False, "reason": "the second says no"}}}
    stuck = hooks_file(tmp_path, "first", STUCK="1")
    env = {
        "REDIS_URL": server_url, "GATEWAY_NAMESPACE": namespace, "GATEWAY_PORT": "0",
        "GATEWAY_ADAPTERS": "[]", "GATEWAY_DATA_DIR": str(tmp_path / "state"),
    }  # fmt: skip
    async with (
        assembled(server_url, namespace) as world,
        AsyncClient(RedisTransport(server_url, AGENT, namespace)) as client,
    ):
        async with child(roles.gateway, {**env, "GATEWAY_HOOKS_FILE": str(stuck)}) as first:
            assert await first.heard()
            asking = asyncio.create_task(client.ask("thing", refuse, timeout=60))
            notes = tmp_path / "first.notes"
            while not notes.exists() or "approve_tool" not in notes.read_text():
                await moment()
            first.signal(signal.SIGKILL)
            await first.ended()
        answers = hooks_file(tmp_path, "second")
        async with child(roles.gateway, {**env, "GATEWAY_HOOKS_FILE": str(answers)}) as second:
            assert await second.heard()
            with pytest.raises(Denied) as refused:
                await asking
        assert refused.value.decision.message == "the second says no"
        assert [event.type for event in await world.events() if event.request_id] == [
            "submitted", "denied",
        ]  # fmt: skip
