"""What an agent's host offers to keep itself: one person chooses it as it was read, or nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.approvals.transitions import erase_content
from gateway.cards.card import card_of
from gateway.cards.remember_options import scopes_of
from gateway.domain.policy_document import Route
from gateway.domain.records import Remember, ScopeQuorum, StoredRequest
from gateway.errors import Conflict, InvalidRequest, Unauthorized
from gateway.models import (
    MAX_HOST_RULES,
    Action,
    HostRule,
    Kind,
    Origin,
    Risk,
    RiskLevel,
    Status,
)
from tests.world import World, click, request

RULE = HostRule(rule="Bash(npm test:*)", scope="in this project")
OTHER = HostRule(rule="Bash(npm run:*)", scope="in all projects")
FIRST = Remember(offer="host:0")


async def asked(world: World, **changes: Any) -> StoredRequest:
    """Return a request whose host offers to keep two rules."""
    values = {
        "kind": Kind.COMMAND,
        "arguments": {"command": "npm test"},
        "host_rules": (RULE, OTHER),
        "origin": Origin(framework="claude-code"),
    }
    return await world.submit(**{**values, **changes})


def offered(record: StoredRequest, action: Action = Action.APPROVE) -> list[str]:
    """Return in words what the host would keep."""
    return [one.words.text for one in scopes_of(record, action) if one.by_host]


async def test_the_choice_is_in_the_signed_decision_and_no_grant_is_made(world: World) -> None:
    """The card offers it in the host's words, quoted, and afterwards says that only the host takes
    it back."""
    record = await asked(world)
    first, second = offered(record)
    assert '"claude-code" itself' in first
    assert '"Bash(npm test:*)", "in this project"' in first
    assert "only it can revoke that" in first
    assert '"Bash(npm run:*)"' in second
    assert await world.core.requests.reach(record.id, "host:0") == (
        "The gateway cannot check what this rule permits; only the coding agent can."
    )
    done = await world.core.requests.decide(click(record, remember=FIRST))
    assert done.decision is not None
    assert (done.status, done.decision.host_rule) == (Status.APPROVED, RULE)
    assert b"Bash(npm test:*)" in done.decision.signed_bytes()
    assert await world.core.grants.all() == []
    outcome = card_of(done, lines=9, chars=999).outcome
    assert outcome is not None
    assert 'keeps "Bash(npm test:*)", "in this project", and only it can revoke that' in (
        outcome.text
    )
    assert (await asked(world)).status is Status.PENDING, "nothing of it is remembered here"


async def test_an_answer_that_says_nothing_of_it_leaves_it_out(world: World) -> None:
    """Approved for once, remembered by us, denied: the host keeps nothing."""
    for action, wish in ((Action.APPROVE, None), (Action.APPROVE, Remember()), (Action.DENY, None)):
        record = await asked(world, arguments={"command": f"npm test {action} {wish}"})
        done = await world.core.requests.decide(click(record, action, remember=wish))
        assert done.decision is not None
        assert done.decision.host_rule is None


@pytest.mark.parametrize("offer", ["host:2", "host:-1", "host:", "host:00"])
async def test_what_is_not_offered_cannot_be_chosen(world: World, offer: str) -> None:
    """Nothing is decided then."""
    record = await asked(world)
    with pytest.raises(InvalidRequest):
        await world.core.requests.decide(click(record, remember=Remember(offer=offer)))
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_a_denial_or_an_edit_keeps_nothing(world: World) -> None:
    """The host offered to keep the call as it was asked."""
    record = await asked(world)
    assert offered(record, Action.DENY) == []
    for action, more in ((Action.DENY, {}), (Action.EDIT, {"arguments": {"command": "npm t"}})):
        with pytest.raises(InvalidRequest):
            await world.core.requests.decide(click(record, action, remember=FIRST, **more))
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


@pytest.mark.parametrize(
    "changes",
    [
        {"risk": Risk(level=RiskLevel.HIGH)},
        {"host_rules": (replace(RULE, rule="Bash(\u202etset mpn)"),)},
        {"host_rules": (replace(RULE, scope="pаypal"),)},  # noqa: RUF001 (a Cyrillic letter)
        {"host_rules": (replace(RULE, rule="Bash(curl -H 'Authorization: Bearer s3cr3tt0ken')"),)},
    ],
)
async def test_what_must_be_asked_each_time_or_cannot_be_read_is_not_offered(
    world: World, changes: dict[str, Any]
) -> None:
    """High risk; letters that deceive; a mask."""
    record = await asked(world, **changes)
    assert offered(record) == []
    with pytest.raises(InvalidRequest):
        await world.core.requests.decide(click(record, confirmed=True, remember=FIRST))


@pytest.mark.parametrize(
    "route",
    [
        Route(approvers=("ann", "bob"), quorum=2),
        Route(approvers=("ann", "bob"), scope_quorum=ScopeQuorum(everywhere=2)),
    ],
)
async def test_what_several_must_vote_for_is_not_one_persons_to_give(
    world: World, route: Route
) -> None:
    """The host has no votes."""
    await world.route(route)
    record = await asked(world)
    assert offered(record) == []
    with pytest.raises((InvalidRequest, Unauthorized, Conflict)):
        await world.core.requests.decide(click(record, remember=FIRST))


async def test_a_route_that_came_to_ask_for_more_votes_refuses(world: World) -> None:
    """The card was drawn before."""
    record = await asked(world)
    wide = Route(approvers=("ann",), scope_quorum=ScopeQuorum(tool=2))
    await world.route(wide)
    with pytest.raises(InvalidRequest, match="several people"):
        await world.core.requests.decide(click(record, remember=FIRST))


@pytest.mark.parametrize(
    "rules",
    [(RULE, RULE), tuple(replace(RULE, rule=str(one)) for one in range(MAX_HOST_RULES + 1))],
)
def test_rules_are_few_and_differ(rules: tuple[HostRule, ...]) -> None:
    """A choice must name one of them."""
    with pytest.raises(InvalidRequest, match="host_rules"):
        request(host_rules=rules)


@pytest.mark.parametrize("words", ["", "x" * 301])
def test_a_rule_can_be_read(words: str) -> None:
    """Neither nothing nor more than a card shows."""
    with pytest.raises(InvalidRequest, match="host rule"):
        HostRule(rule=words, scope="s")
    with pytest.raises(InvalidRequest, match="host rule"):
        HostRule(rule="r", scope=words)


async def test_erasing_takes_it_along(world: World) -> None:
    """It is what was asked and answered."""
    record = await asked(world)
    done = await world.core.requests.decide(click(record, remember=FIRST))
    gone = erase_content(done)
    assert gone.request.host_rules == ()
    assert gone.decision is not None
    assert gone.decision.host_rule is None
