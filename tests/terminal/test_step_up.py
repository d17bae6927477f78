"""The terminal asks for the number that is shown where the agent waits."""

from __future__ import annotations

from gateway.domain.risk import LevelRules, RulesByRisk, StepUp
from gateway.models import Risk, RiskLevel, Status
from tests.approvals.test_step_up import other_than
from tests.terminal.seat import seated, staffed
from tests.world import World

HIGH = Risk(level=RiskLevel.HIGH, reasons=("touches prod",))


async def in_force(world: World, *ways: StepUp) -> None:
    """Have high risk take one of these."""
    await staffed(world, approvers=("ann", "bob"), risk=RulesByRisk(high=LevelRules(step_up=ways)))


async def test_a_wrong_number_is_told_and_the_right_one_approves(world: World) -> None:
    """Yes alone approves nothing."""
    await in_force(world, StepUp.NUMBER)
    record = await world.submit(risk=HIGH)
    number = await world.store.number_of(record.id) or ""
    async with seated(world) as seat:
        await seat.sees("Approving requires the number that is shown where the agent waits.")
        await seat.press("y")
        await seat.type("yes")
        await seat.sees("not approved")
        await seat.press("y")
        await seat.type(other_than(number))
        await seat.sees("2 tries are left")
        await seat.press("y")
        await seat.type(number)
        done = await seat.ended(record)
    assert (done.status, [one.way for one in done.stepped]) == (
        Status.APPROVED,
        [StepUp.NUMBER],
    )


async def test_yes_is_the_first_of_two_where_that_is_a_way(world: World) -> None:
    """It is offered beside the number."""
    await in_force(world, StepUp.NUMBER, StepUp.PERSON)
    await world.submit(risk=HIGH)
    async with seated(world) as seat:
        await seat.sees("waits, or a second")
        await seat.press("y")
        await seat.sees("or yes if a second person")
        await seat.type("yes")
        await seat.sees("You approved; waits for 1 more: bob")


async def test_what_cannot_be_done_here_says_where_and_decides_nothing(world: World) -> None:
    """A passkey is used in the inbox: the terminal names it in a line."""
    await in_force(world, StepUp.PASSKEY)
    record = await world.submit(risk=HIGH)
    async with seated(world) as seat:
        await seat.sees("touches prod")
        assert "y approve" not in seat.text()
        await seat.press("y")
        await seat.sees("needs a passkey")
        await seat.sees("Go on at")
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
