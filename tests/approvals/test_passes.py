"""Passes: a session is let through for a while, visibly, and never for what is dangerous."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.domain.risk import RiskRule
from gateway.domain.store import MessageContext
from gateway.errors import InvalidRequest, Unauthorized
from gateway.models import Action, Context, Kind, RiskLevel, Status, new_id
from gateway.policy.grants.grant import Effect, Grant, Match, Shape
from gateway.server.connections import core_over
from tests.clocks import ShiftedClock
from tests.world import World, click, identity, over_http, policy, request

HOUR = 3_600_000
EDIT: dict[str, Any] = {
    "tool": "write_file",
    "kind": Kind.FILE_CHANGE,
    "context": Context(cwd="/ws"),
}


async def passed(world: World, shape: Shape = Shape.WORK, **more: Any) -> Grant:
    """Let the session `default` of bot through, as ann."""
    if not await world.core.operator.list_sessions("bot"):
        await world.core.requests.decide(click(await world.submit(tool="begin"), Action.DENY))
    wish: dict[str, Any] = {"agent": "bot", "session": "default", "hours": 1, **more}
    return await world.core.remembering.let_through(identity("ann"), shape=shape, **wish)


async def written(world: World, path: str, **more: Any) -> StoredRequest:
    """Submit a change of a file."""
    return await world.submit(**{**EDIT, "arguments": {"path": path, "text": "x"}, **more})


async def test_what_is_known_goes_through_and_cites_the_pass(world: World) -> None:
    """One session, what waits too; each use is counted and recorded."""
    waiting = await world.submit()
    grant = await passed(world)
    assert (await world.core.requests.get(waiting.id)).status is Status.APPROVED
    done = await world.submit(tool="bash", arguments={"command": "ls -l"})
    assert done.decision is not None
    assert done.decision.decided_by.name == grant.id
    assert (await written(world, "/ws/a")).status is Status.APPROVED
    outside = await written(world, "/elsewhere/a")
    assert (outside.status, len(outside.findings)) == (Status.PENDING, 1)
    assert (await world.submit(session="other")).status is Status.PENDING
    assert (await world.core.grants.get(grant.id)).used == 3


async def test_what_is_dangerous_still_asks(world: World) -> None:
    """High risk, secrets, what runs later, destruction, hidden text, another environment."""
    await passed(world)
    for path in ("/ws/.env", "/ws/.git/hooks/x", "/home/me/.ssh/config"):
        assert (await written(world, path)).status is Status.PENDING, path
    for text in ("rm -rf x", "git push --force", "cat .env", "ls\u200b"):
        asked = await world.submit(kind=Kind.COMMAND, arguments={"command": text})
        assert asked.status is Status.PENDING, text
    for name in ("LD_PRELOAD", "COLOUR"):  # the second is no finding of the guardrails
        changed = Context(env={name: "./x"})
        assert (await world.submit(context=changed)).status is Status.PENDING, name
    assert (await world.submit(kind=Kind.PLAN)).status is Status.PENDING
    rule = RiskRule(name="r", level=RiskLevel.HIGH, reason="because")
    await world.put(risks=(rule,))
    assert (await world.submit()).status is Status.PENDING


async def test_a_script_whose_name_says_that_it_destroys_still_asks(world: World) -> None:
    """The pass lets own scripts run, and knows nothing against this one; the guardrails do."""
    await passed(world, Shape.SCRIPTS)
    for text, status in (("npm test", Status.APPROVED), ("npm run db:drop", Status.PENDING)):
        asked = await world.submit(
            tool="bash",
            kind=Kind.COMMAND,
            context=Context(cwd="/ws"),
            arguments={"command": text},
        )
        assert asked.status is status, text


@pytest.mark.parametrize("text", ["touch {}/x && ls", "ls; echo a > {}/x", "cd {} && make"])
async def test_a_command_that_changes_what_lies_outside_still_asks(world: World, text: str) -> None:
    """Also where it is several commands: below the folder it goes through."""
    await passed(world, Shape.SCRIPTS)
    for folder, status in (("sub", Status.APPROVED), ("/srv", Status.PENDING)):
        asked = await world.submit(
            kind=Kind.COMMAND,
            arguments={"command": text.format(folder)},
            context=Context(cwd="/ws"),
        )
        assert asked.status is status


async def test_edits_are_files_below_where_the_agent_works(world: World) -> None:
    """Not commands, not other folders, not a path that climbs."""
    await passed(world, Shape.EDITS)
    for path in ("/ws/a.py", "src/b.py"):
        assert (await written(world, path)).status is Status.APPROVED, path
    for path in ("/etc/hosts", "../x", "/ws/../x", "/ws/.vscode/settings.json"):
        assert (await written(world, path)).status is Status.PENDING, path
    assert (await world.submit()).status is Status.PENDING
    assert (await written(world, "a", kind=Kind.TOOL)).status is Status.PENDING
    nowhere = Context()
    assert (await written(world, "a.py", context=nowhere)).status is Status.APPROVED
    assert (await written(world, "/ws/a.py", context=nowhere)).status is Status.PENDING


async def test_the_next_few_are_counted_read_set_anew_and_reset(world: World) -> None:
    """Two go through, the third asks; a new pass takes the place of the old."""
    first = await passed(world, max_uses=2)
    assert first.uses_left == 2
    statuses = [(await world.submit()).status for _ in range(3)]
    assert statuses == [Status.APPROVED, Status.APPROVED, Status.PENDING]
    await passed(world, max_uses=5)
    second = await passed(world, max_uses=1)
    left = await world.core.grants.all("bot", "default")
    assert [grant.id for grant in left] == [second.id]
    await world.core.grant_service.revoke(second.id, identity("ann"))
    assert (await world.submit()).status is Status.PENDING


async def test_all_goes_through_until_it_is_reset(world: World) -> None:
    """A pass without a number lets everything through until somebody takes it back."""
    grant = await passed(world)
    for number in range(12):
        done = await world.submit(arguments={"command": f"ls dir{number}"})
        assert done.status is Status.APPROVED
    await world.core.grant_service.revoke(grant.id, identity("ann"))
    assert (await world.submit(arguments={"command": "ls dir0"})).status is Status.PENDING


async def test_a_pass_ends_with_its_session(world: World) -> None:
    """It is gone when the session is."""
    await passed(world)
    await world.core.sessions.end("default", MessageContext(agent="bot"))
    assert (await world.submit()).status is Status.PENDING


@pytest.mark.parametrize("hours", [8.01, 0.0001 + 8, 100])
async def test_no_pass_is_longer_than_eight_hours(world: World, hours: float) -> None:
    """Nor without a session, nor a denial, nor for one tool."""
    with pytest.raises(InvalidRequest):
        await passed(world, hours=hours)
    match = Match(shape=Shape.WORK, tool="*")
    values: dict[str, Any] = {
        "id": new_id(),
        "agent": "bot",
        "match": match,
        "made_by": "ann",
        "made_at": 0,
    }
    good: dict[str, Any] = {"effect": Effect.ALLOW, "session": "s", "expires_at": HOUR}
    assert Grant(**values, **good)
    for bad in ({"session": None}, {"expires_at": None}, {"effect": Effect.DENY}):
        with pytest.raises(InvalidRequest):
            Grant(**values, **{**good, **bad})
    for shape, tool in ((Shape.WORK, "shell"), (Shape.TOOL, "*")):
        with pytest.raises(InvalidRequest):
            Match(shape=shape, tool=tool)


@pytest.mark.parametrize(
    ("ago", "status"), [(7.9, Status.APPROVED), (8.1, Status.PENDING)], ids=["before", "after"]
)
async def test_a_pass_ends_by_itself_after_eight_hours(
    world: World, ago: float, status: Status
) -> None:
    """A gateway whose clock is behind gives it, so that its time is nearly over, or over."""
    await world.core.requests.decide(click(await world.submit(tool="begin"), Action.DENY))
    before = core_over(world.store, world.feed, [], ShiftedClock(-ago * 3600), None)
    await before.remembering.let_through(
        identity("ann"), agent="bot", session="default", shape=Shape.WORK, hours=8
    )
    assert (await world.submit()).status is status


async def test_who_approves_only_some_of_it_gives_no_pass(world: World) -> None:
    """A pass covers all tools, so it takes someone who may approve all of them."""
    pay = Route(name="pay", tools=("pay",), approvers=("bob",))
    await policy(world.store, pay, Route(approvers=("ann", "bob")))
    with pytest.raises(Unauthorized):
        await passed(world)
    await world.core.remembering.let_through(
        identity("bob"), agent="bot", session="default", shape=Shape.WORK, hours=1
    )
    with pytest.raises(InvalidRequest):
        await world.core.remembering.let_through(
            identity("bob"), agent="bot", session="default", shape=Shape.TOOL, hours=1
        )


async def test_a_pass_is_not_for_tools_on_whose_requests_nobody_may_decide(world: World) -> None:
    """Ann may approve `shell`, and no route names `bash`: her pass lets only the first through."""
    await world.route(Route(name="reading", tools=("shell", "begin"), approvers=("ann",)))
    waiting = await world.submit(tool="bash")
    with pytest.raises(Unauthorized):
        await world.core.requests.decide(click(waiting))
    await passed(world)
    assert (await world.core.requests.get(waiting.id)).status is Status.PENDING
    assert (await world.submit(tool="bash")).status is Status.PENDING
    assert (await world.submit(tool="shell")).status is Status.APPROVED


async def test_who_asked_lets_nothing_through_where_they_may_not_decide(world: World) -> None:
    """Bot is ann's, and on this route nobody decides on their own requests: bob's pass does."""
    await world.route(Route(approvers=("ann", "bob"), self_approval=False))
    first, _ = await world.approvals.submit(request(), replace(over_http(), owner="ann"))
    with pytest.raises(Unauthorized):
        await world.core.requests.decide(click(first))
    for name, status in (("ann", Status.PENDING), ("bob", Status.APPROVED)):
        await world.core.remembering.let_through(
            identity(name), agent="bot", session="default", shape=Shape.WORK, hours=1
        )
        assert (await world.core.requests.get(first.id)).status is status
