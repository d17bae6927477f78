"""What the report counts, from events and from the life of a gateway."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.approvals.search_and_report import read_report
from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import AuditEvent, Person, Remember
from gateway.domain.statistics import (
    AgentReport,
    ApproverReport,
    EventTally,
    PeriodReport,
    lines,
)
from gateway.errors import InvalidRequest, Unauthorized
from gateway.models import Action, new_id
from tests.world import World, click, identity, over_http, request


class EventStory:
    """Events as the gateway writes them, one after the other."""

    def __init__(self) -> None:
        self.tally = EventTally()
        self.count = 0

    def event(self, kind: str, at: int, request_id: str = "", **data: Any) -> None:
        """Take one event."""
        self.count += 1
        agent = "bot" if request_id else ""
        made = AuditEvent(
            id=f"{at}-{self.count}", type=kind, at=at, agent=agent, request_id=request_id, data=data
        )
        self.tally.take(made)

    def decided(self, took: int, kind: str = "approved", name: str = "ann") -> None:
        """Have a request shown, and answered after so many ms."""
        request_id = new_id()
        self.event("submitted", 1_000, request_id)
        self.event(kind, 1_000 + took, request_id, decided_by={"kind": "person", "name": name})


def test_times_are_counted_from_the_first_card_to_the_answer() -> None:
    """The median, the fastest tenth, and the share under two seconds, by the exact figures."""
    story = EventStory()
    for took in (100, 1_999, 2_000, 4_000, 60_000):
        story.decided(took)
    posted = new_id()
    story.event("submitted", 0, posted)
    story.tally.take(AuditEvent(id="6-0", type="delivered", at=5_000, data={"request_id": posted}))
    story.tally.take(AuditEvent(id="7-0", type="delivered", at=9_000, data={"request_id": posted}))
    story.event("denied", 10_000, posted, decided_by={"kind": "person", "name": "ann"})
    story.event("denied", 10_000, new_id(), decided_by={"kind": "person", "name": "ann"})
    (ann,) = story.tally.report(1, 2).approvers
    assert ann == ApproverReport(
        name="ann",
        decisions=7,
        denials=2,
        never_denies=False,
        timed=6,
        median_ms=3_000,
        p10_ms=100,
        hasty=round(2 / 6, 4),
        grants_made=0,
    )


@pytest.mark.parametrize(
    ("answers", "denials", "never"), [(19, 0, False), (20, 0, True), (19, 1, False)]
)
def test_who_never_denies_is_named_after_many_answers(
    answers: int, denials: int, never: bool
) -> None:
    """Few answers say nothing; one denial among many is enough."""
    story = EventStory()
    for _ in range(answers):
        story.decided(9_000)
    for _ in range(denials):
        story.decided(9_000, "denied")
    (ann,) = story.tally.report(1, 2).approvers
    assert ann.never_denies is never
    said = list(lines(story.tally.report(1, 2)))
    assert any("never denies" in line for line in said) is never


def test_endings_without_a_person_are_nobodys_answers() -> None:
    """Rules and grants decide by themselves, time runs out, and agents withdraw."""
    story = EventStory()
    for kind, by in (
        ("approved", {"kind": "grant", "name": "g"}),
        ("denied", {"kind": "rule", "name": "r"}),
        ("expired", {"kind": "system", "name": "gateway"}),
        ("cancelled", {"kind": "system", "name": "gateway"}),
    ):
        story.event("submitted", 1, one := new_id())
        story.event(kind, 2, one, decided_by=by)
    story.event("submitted", 3, new_id())
    found = story.tally.report(1, 5)
    agent = AgentReport(name="bot", requests=5, ended=4, auto=0.5, denied=0.25, expired=0.25)
    assert (found.approvers, found.agents) == ((), (agent,))


async def test_a_gateways_life_is_counted_for_admins_alone(world: World) -> None:
    """Votes are answers, grants count for their maker, and pages end where the period does."""
    store = world.store
    await store.apply(
        PolicyDocument(
            generation=(await store.policy()).generation,
            people=(
                Person(name="Ann Bell", identities=("token:ann",), admin=True),
                Person(name="bob", identities=("token:bob",)),
            ),
            routes=(
                Route(tools=("deploy",), approvers=("Ann Bell", "bob"), quorum=2),
                Route(approvers=("Ann Bell", "bob")),
            ),
        ),
        by="test",
    )
    world.core.writer.forget_policy()
    voted = await world.core.requests.decide(click(await world.submit(tool="deploy")))
    await world.core.requests.decide(click(voted, identity=identity("bob")))
    await world.core.requests.decide(click(await world.submit(), remember=Remember()))
    await world.approvals.submit(request(), over_http())  # the grant approves it
    await world.core.requests.decide(click(await world.submit(tool="x"), Action.DENY))
    for _ in range(600):
        await store.note("filler", data={})
    operator = world.core.operator
    found = await operator.report(identity("ann"))
    people = [(one.name, one.decisions, one.denials, one.grants_made) for one in found.approvers]
    assert people == [("Ann Bell", 3, 1, 1), ("bob", 1, 0, 0)]
    assert [(one.requests, one.ended, one.auto) for one in found.agents] == [(4, 4, 0.25)]
    events = await world.events()
    first = await read_report(store, world.clock.now_ms(), since=1, until=events[0].at)
    assert first == PeriodReport(since=1, until=events[0].at, approvers=(), agents=())
    with pytest.raises(InvalidRequest):
        await read_report(store, world.clock.now_ms(), since=5, until=4)
    for stranger in ("bob", "eve"):
        with pytest.raises(Unauthorized):
            await operator.report(identity(stranger))
    assert json.dumps([*lines(found)]).count("Ann Bell") == 1
