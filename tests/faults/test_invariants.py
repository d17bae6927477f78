"""The judge is judged: an orderly story has no problems, and each planted violation is seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.domain.audit import GENESIS, event_line, seal_events, seal_line
from gateway.domain.records import AuditEvent
from gateway.wire.schema import digest_process
from tests.faults.invariants import ended_as, problems

ID, OTHER = "1" * 32, "2" * 32
DIGEST, EDITED = "a" * 64, "b" * 64
BEGAN = 1_000_000_000_000

Line = dict[str, Any]
Plant = Callable[["Story"], None]


class Story:
    """What happened: the audit's events, and the agents' lines. Tests bend it."""

    def __init__(self) -> None:
        person = {"kind": "person", "name": "ann"}
        decided: Line = {"reason": "person", "digest": DIGEST, "expires_at": BEGAN + 60_000}
        self.events = [
            _event("submitted", 1, 0, digest=DIGEST),
            _event("approved", 2, 500, decided_by=person, **decided),
            _event("reported", 3, 700, execution="succeeded"),
            _event("submitted", 1, 800, OTHER, digest=DIGEST),
            _event("denied", 1, 800, OTHER, **{**decided, "reason": "rule"}),
        ]
        self.said = [
            _said("asked", 0, digest=DIGEST, timeout=60.0),
            _said("told", 550, status="approved", reason="person", revision=2, digest=DIGEST),
            _said("ran", 600, digest=DIGEST),
            _said("asked", 790, OTHER, digest=DIGEST, timeout=60.0),
            _said("told", 810, OTHER, status="denied", reason="rule", revision=1, digest=DIGEST),
        ]
        self.cards = [_card("pending"), _card("approved")]

    @property
    def export(self) -> list[str]:
        """The audit as it would be exported, sealed after the fact."""
        events = [AuditEvent(id=f"{BEGAN}-{n + 1}", **one) for n, one in enumerate(self.events)]
        return [*map(event_line, events), seal_line(seal_events(events, GENESIS))]

    @property
    def problems(self) -> list[str]:
        """What the judge finds."""
        return problems(self.export, [[json.dumps(line) for line in self.said]], self.cards)

    def insert(self, at: int, *more: Line) -> None:
        """Put events into the audit."""
        self.events[at:at] = more


def _event(kind: str, revision: int, ms: int, request_id: str = ID, **data: Any) -> Line:
    return {
        "type": kind,
        "revision": revision,
        "at": BEGAN + ms,
        "request_id": request_id,
        "agent": "bot",
        "data": data,
    }


def _said(kind: str, ms: int, request_id: str = ID, **more: Any) -> Line:
    return {
        "event": kind,
        "at": BEGAN + ms,
        "id": request_id,
        "agent": "bot",
        "process": "p" * 32,
        **more,
    }


def _card(status: str, message: str = "m1", request_id: str = ID) -> Line:
    return {"message": message, "target": "chat:a", "id": request_id, "status": status}


def test_an_orderly_story_has_no_problems() -> None:
    """Asked, approved, run once, reported; and one denied by a rule at birth."""
    assert Story().problems == []
    assert ended_as(Story().export) == {ID: "approved", OTHER: "denied"}


def test_giving_up_by_ones_own_clock_is_no_problem() -> None:
    """An agent that heard nothing says expired with revision 0, whatever the gateway did later."""
    story = Story()
    story.said[1:3] = [
        _said("told", 60_500, status="expired", reason="timeout", revision=0, digest=DIGEST)
    ]
    assert story.problems == []


def test_a_grant_that_holds_may_decide() -> None:
    """Made before, and not ended: its approval is as good as a person's."""
    story = Story()
    made_up_grant(story)
    made = {"revision": 0, "at": BEGAN, "request_id": "", "agent": "bot"}
    story.insert(0, {**made, "type": "grant_made", "data": {"grant": {"id": "g" * 32}}})
    assert story.problems == []


def test_what_took_it_by_consume_may_run_it() -> None:
    """An approval goes to the process that consumed it."""
    story = Story()
    story.events[2:2] = [_event("consumed", 3, 560, process=digest_process("q" * 32))]
    story.events[3]["revision"] = 4
    story.said[2]["process"] = "q" * 32
    assert story.problems == []


def two_endings(story: Story) -> None:
    """A second terminal decision."""
    story.insert(2, _event("denied", 3, 600, digest=DIGEST, reason="person"))
    story.events[3]["revision"] = 4


def submitted_twice(story: Story) -> None:
    """One request, two records."""
    story.insert(1, {**story.events[0], "revision": 2})
    story.events[2]["revision"] = 3


def approved_by_nobody(story: Story) -> None:
    """The system approves."""
    story.events[1]["data"]["decided_by"] = {"kind": "system", "name": "gateway"}


def approved_late(story: Story) -> None:
    """The click came after the deadline."""
    story.events[1]["at"] = BEGAN + 60_000


def swapped(story: Story) -> None:
    """Ended before it was submitted."""
    story.events[:2] = story.events[1::-1]


def revision_missing(story: Story) -> None:
    """A transition that left no event."""
    story.events[1]["revision"] = 3
    story.events[2]["revision"] = 4


def went_on(story: Story) -> None:
    """A vote after the end."""
    story.events[2]["type"] = "voted"


def never_ended(story: Story) -> None:
    """Lost: it stands as pending for ever."""
    del story.events[1:3]
    del story.said[1:3]


def anothers_event(story: Story) -> None:
    """Another agent reports."""
    story.events[2]["agent"] = "mallory"


def anothers_run(story: Story) -> None:
    """Another agent runs it."""
    story.said[2]["agent"] = "mallory"


def ran_without_approval(story: Story) -> None:
    """Denied, and run all the same."""
    story.said.append(_said("ran", 900, OTHER, digest=DIGEST))


def ran_unheard_of(story: Story) -> None:
    """Run, and never asked of any gateway."""
    story.said.append(_said("ran", 900, "3" * 32, digest=DIGEST))


def ran_twice(story: Story) -> None:
    """Run again."""
    story.said.append({**story.said[2], "at": BEGAN + 650})


def ran_late(story: Story) -> None:
    """Run after the deadline."""
    story.said[2]["at"] = BEGAN + 60_000


def ran_early(story: Story) -> None:
    """Run first, approved later."""
    story.said[2]["at"] = BEGAN + 400


def ran_other_digest(story: Story) -> None:
    """Something else than what was approved."""
    story.said[2]["digest"] = EDITED


def ran_elsewhere(story: Story) -> None:
    """By a process that neither asked nor consumed."""
    story.said[2]["process"] = "q" * 32


def told_otherwise(story: Story) -> None:
    """The agent hears approved, the audit says denied."""
    story.said[4]["status"] = "approved"


def told_other_reason(story: Story) -> None:
    """The agent hears that a person denied it."""
    story.said[4]["reason"] = "person"


def told_of_nothing(story: Story) -> None:
    """The agent hears of an end while it is pending."""
    del story.events[4]
    story.events[3]["type"] = "submitted"


def two_cards(story: Story) -> None:
    """A second card in the same channel."""
    story.cards.append(_card("approved", "m2"))


def untrue_card(story: Story) -> None:
    """A card that was never changed."""
    del story.cards[1]


def card_of_nothing(story: Story) -> None:
    """A card of no request."""
    story.cards.append(_card("pending", "m3", "3" * 32))


def made_up_grant(story: Story) -> None:
    """Approved by a grant that nobody made."""
    story.events[1]["data"]["decided_by"] = {"kind": "grant", "name": "g" * 32}


def ended_grant(story: Story) -> None:
    """Approved by a grant that was taken back before."""
    made_up_grant(story)
    made = {"revision": 0, "at": BEGAN, "request_id": "", "agent": "bot"}
    story.insert(
        1,
        {**made, "type": "grant_made", "data": {"grant": {"id": "g" * 32}}},
        {**made, "type": "grant_ended", "data": {"grant": "g" * 32}},
    )


def returned_late(story: Story) -> None:
    """The waiter hung."""
    story.said[4]["at"] = BEGAN + 70_000


def token_in_the_audit(story: Story) -> None:
    """Whoever reads the audit could take the approval."""
    story.events[2:2] = [_event("consumed", 3, 560, process="p" * 32)]
    story.events[3]["revision"] = 4


VIOLATIONS: dict[Plant, str] = {
    two_endings: "ended 2 times",
    submitted_twice: "submitted once",
    approved_by_nobody: "approved by nobody",
    approved_late: "approved after its deadline",
    swapped: "and first",
    revision_missing: "revisions are missing",
    went_on: "went on after its end",
    never_ended: "never ended",
    anothers_event: "another agent had an effect",
    anothers_run: "another agent's process",
    ran_without_approval: "ran without approval",
    ran_unheard_of: "the audit knows nothing",
    ran_twice: "ran 2 times",
    ran_late: "ran after its deadline",
    ran_early: "ran before it was approved",
    ran_other_digest: "ran something else",
    ran_elsewhere: "had not taken the approval",
    told_otherwise: "was told approved",
    told_other_reason: "another reason",
    told_of_nothing: "an end that never was",
    returned_late: "long after its deadline",
    two_cards: "two cards in one place",
    untrue_card: "a card says pending",
    card_of_nothing: "has a card",
    made_up_grant: "a grant that did not hold",
    ended_grant: "a grant that did not hold",
    token_in_the_audit: "by what is no digest",
}


@pytest.mark.parametrize("plant", VIOLATIONS, ids=lambda plant: str(plant.__name__))
def test_a_planted_violation_is_seen(plant: Plant) -> None:
    """Each of them alone is enough."""
    story = Story()
    plant(story)
    assert any(VIOLATIONS[plant] in problem for problem in story.problems), story.problems


@pytest.mark.parametrize("line", range(5))
def test_a_changed_or_dropped_line_breaks_the_chain(line: int) -> None:
    """After sealing nothing can be bent, whatever it says."""
    export = Story().export
    for bent in (
        [*export[:line], *export[line + 1 :]],
        [*export[:line], export[line].replace('"bot"', '"bos"'), *export[line + 1 :]],
        [*export[:line], export[line], *export[line:]],
    ):
        assert any("differ from the sealed ones" in one for one in problems(bent))
