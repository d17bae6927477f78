"""No decision is dated before its request, whoever decides and whichever clock is behind."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace

import pytest

from gateway.approval_protocol.requests import resource
from gateway.approvals.duplicates_and_overflow import Grouping
from gateway.cli.audit import write_form
from gateway.domain.policy_document import Mode, Route
from gateway.domain.records import Remember, StoredRequest
from gateway.domain.time_and_tasks import SystemClock
from gateway.models import Action, DecidedBy, DeciderKind, Reason, Status
from gateway.policy.chain import ALLOW
from gateway.policy.verdict import Verdict
from gateway.stores.requests import RedisGroups
from tests.hooks.stage import reviewed_in
from tests.world import World, assembled, click, over_http, request

SKEWS = (-60_000, -900, 0, 900)


class Skewed:
    """The host's clock, so many ms ahead of the server's."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead

    def now_ms(self) -> int:
        """Return the skewed time."""
        return SystemClock().now_ms() + self._ahead


class Late:
    """A decider that is asked once the request is stored, and allows it."""

    name, priority, seconds, after_storing = "late", 600, None, True

    async def decide(self, record: StoredRequest, _route: Route) -> Verdict | None:
        """Allow it."""
        by = DecidedBy(kind=DeciderKind.RULE, name=self.name)
        return Verdict(effect=ALLOW, by=by, reason=Reason.RULE)


async def ask(world: World, mode: Mode) -> None:
    """Put a route with this mode in force."""
    await world.route(Route(approvers=("ann", "bob"), mode=mode))


async def decide_each_way(world: World) -> dict[str, StoredRequest]:
    """Return a request for each way to decide."""
    found: dict[str, StoredRequest] = {}

    async def submit(name: str) -> StoredRequest:
        return await world.submit(arguments={"command": name})

    for mode in (Mode.AUTO_APPROVE, Mode.AUTO_DENY):
        await ask(world, mode)
        found[mode] = await submit(mode)
    await ask(world, Mode.ASK)
    await world.core.requests.decide(click(await submit("grant"), remember=Remember()))
    found["grant"] = await submit("grant")
    asked, twin = await submit("denied"), await submit("denied")
    found["person"] = await world.core.requests.decide(click(asked, Action.DENY))
    found["denial"] = await submit("denied")
    edit = {"arguments": {"command": "ls -a"}}
    found["edit"] = await world.core.requests.decide(click(await submit("e"), Action.EDIT, **edit))
    held = RedisGroups(world.store)
    await Grouping(world.store, held, world.core.writer).settle(found["person"], 2**50)
    found["duplicate"] = await world.core.requests.get(twin.id)
    found["cancelled"] = await world.approvals.cancel(
        (await submit("cancelled")).id, over_http(), reason=Reason.CANCELLED_BY_AGENT
    )
    found["tombstone"] = await world.approvals.cancel(
        "ab" * 16, over_http(), reason=Reason.CANCELLED_BY_AGENT
    )
    young = replace(over_http(), since=await world.store.now() + 60_000)
    await ask(world, Mode.AUTO_DENY)
    found["young"], _ = await world.approvals.submit(request(arguments={"command": "y"}), young)
    await world.store.set_stopped(True, by="test")
    await ask(world, Mode.ASK)
    found["stopped"] = await submit("stopped")
    return found


def check(name: str, record: StoredRequest | None) -> None:
    """Fail where a decision is dated before its request."""
    assert record is not None, name
    assert record.decision is not None, name
    assert record.decision.decided_at >= record.created, name
    told = resource(record, {}, None)
    assert told["decision"]["decided_at"] >= told["created_at"], name


@pytest.mark.parametrize("ahead", SKEWS)
async def test_no_decision_is_dated_before_its_request(
    server_url: str, namespace: str, ahead: int
) -> None:
    """On the record as it is answered and as it is read again, in the approval protocol, in the
    events, and in the audit's envelopes."""
    clock = Skewed(ahead)
    async with assembled(server_url, namespace, denial_minutes=5, clock=clock) as world:
        found = await decide_each_way(world)
        for name, record in found.items():
            assert record.final, name
            check(name, record)
            check(name, await world.store.load(record.id))
            if name != "young":  # its name was given to it in the future
                (asked,) = (one for one in await world.events(record.id) if one.type == "submitted")
                assert record.decision is not None
                assert record.decision.decided_at >= asked.at, name
        lines = [json.loads(line) async for line in write_form(world.store, "interchange")]
        dates = defaultdict[str, list[str]](list)
        for line in lines:
            if (one := line.get("request")) is not None:
                dates[one["id"]].append(one["created_at"])
            if (one := line.get("decision")) is not None:
                dates[one["request_id"]].append(one["decided_at"])
        assert len(dates) > len(found)
        assert all(each == sorted(each) for each in dates.values())


@pytest.mark.parametrize("ahead", SKEWS)
async def test_what_a_hook_decides_is_not_dated_before_its_request(
    server_url: str, namespace: str, ahead: int
) -> None:
    """It was stored by the server's clock, and is decided by the gateway's."""
    async with assembled(server_url, namespace, (Late(),), clock=Skewed(ahead)) as world:
        record = await world.submit()
        await reviewed_in(world, record.id)
        kept = await world.core.requests.get(record.id)
        assert kept.status is Status.APPROVED
        check("hook", kept)
