"""Plans: each call that one names runs so often, in its session and time, and nothing else does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.cards.card import card_of, full_view
from gateway.domain.policy_document import Guardrails, Mode, PolicyRule, Route, RuleEffect, ToolRow
from gateway.domain.records import Person, Remember, ScopeQuorum
from gateway.domain.risk import LevelRules, RiskRule, RulesByRisk, StepUp
from gateway.errors import (
    BatchRefused,
    Conflict,
    InvalidRequest,
    StepUpNeeded,
    Unauthorized,
    Unconfirmed,
    WrongNumber,
)
from gateway.models import (
    Action,
    DecidedBy,
    DeciderKind,
    Kind,
    Origin,
    Reason,
    RiskLevel,
    Status,
    digest_of,
)
from gateway.policy.chain import MODIFY
from gateway.policy.grants.offers import offers
from gateway.policy.verdict import Verdict
from gateway.stores import scripts
from gateway.wire.codec import plain
from tests.approvals.planning import (
    HERE,
    NOTES,
    REPORT,
    SEND,
    TEST,
    WRITE,
    agree,
    call,
    grants,
    listed,
    plan,
    planned,
    report,
    strike,
)
from tests.world import World, assembled, click, identity, over_http, request

NOBODY_SAID = "deviates from the plan: the plan has no such call, or all of them were used"


# ---------------------------------------------------------------- what a plan covers


async def test_a_line_covers_its_call_so_often_and_says_which_it_was(world: World) -> None:
    """Approved by the grant of its line, which the plan made, and is used up by it."""
    record = await planned(world, TEST, REPORT)
    assert record.status is Status.APPROVED
    made = await grants(world)
    assert {one.from_request for one in made.values()} == {record.id}
    assert (
        made[1].words
        == f'line 1 of plan {record.id[:8]}: exactly this: "make test" in /srv/app on build-1'
    )
    assert "send_email with any text in body, always with" in made[2].words
    assert (made[1].max_uses, made[2].max_uses) == (1, 2)
    ran = await call(world, TEST)
    assert ran.decision is not None
    assert (ran.status, ran.decision.reason) == (Status.APPROVED, Reason.GRANT)
    assert (ran.decision.decided_by.kind, ran.decision.decided_by.name) == (
        DeciderKind.GRANT,
        made[1].id,
    )
    assert ran.decision.message == "line 1 of a plan"
    again = await call(world, TEST)
    assert (again.status, again.asks_because) == (Status.PENDING, NOBODY_SAID)
    texts = [await report(world, text) for text in ("one", "two", "three")]
    assert [one.status for one in texts] == [Status.APPROVED, Status.APPROVED, Status.PENDING]
    assert await grants(world) == {}


async def test_grants_are_written_with_the_decision(world: World) -> None:
    """Before anybody hears of it: a gateway that dies at the script's end has lost none."""

    class Killed(BaseException):
        pass

    record = await plan(world, TEST, NOTES)

    def die(step: str) -> None:
        if step == "change_requests:after":
            raise Killed

    async with assembled(*_where(world), at=die) as other:
        with pytest.raises(Killed):
            await agree(other, record)
    assert (await world.core.requests.get(record.id)).status is Status.APPROVED
    assert sorted(await grants(world)) == [1, 2]
    assert (await call(world, TEST)).status is Status.APPROVED


async def test_a_plan_that_is_not_written_makes_no_grant(world: World) -> None:
    """A gateway that dies before its script leaves the plan waiting, and nothing let through."""

    class Killed(BaseException):
        pass

    record = await plan(world, TEST)

    def die(step: str) -> None:
        if step == "change_requests:before":
            raise Killed

    async with assembled(*_where(world), at=die) as other:
        with pytest.raises(Killed):
            await agree(other, record)
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
    assert await grants(world) == {}
    assert (await call(world, TEST)).status is Status.PENDING


def _where(world: World) -> tuple[str, str]:
    url = world.store.redis.connection_pool.connection_kwargs["path"]
    return f"unix://{url}", world.store.keys.namespace


async def test_what_waits_is_decided_by_the_plan_at_once(world: World) -> None:
    """The agent may ask before its plan is approved."""
    early = await call(world, TEST)
    await planned(world, TEST)
    after = await world.core.requests.get(early.id)
    assert after.status is Status.APPROVED
    assert await grants(world) == {}


async def test_two_uses_at_once_with_a_limit_of_one(world: World) -> None:
    """One runs, and the other asks."""
    await planned(world, TEST)
    both = await asyncio.gather(*(call(world, TEST) for _ in range(6)))
    assert sorted(one.status for one in both) == [Status.APPROVED] + [Status.PENDING] * 5


async def test_a_call_that_is_sent_again_is_used_once(world: World) -> None:
    """A retried submit finds its request, and a plan that is submitted again its own."""
    record = await planned(world, {**TEST, "times": 2})
    same = request(**TEST, context=HERE)
    for _ in range(3):
        found, _ = await world.approvals.submit(same, over_http())
        assert found.status is Status.APPROVED
    found, new = await world.approvals.submit(record.request, over_http())
    assert (found.status, new) == (Status.APPROVED, False)
    assert (await grants(world))[1].used == 1


async def test_a_click_that_is_sent_again_makes_no_second_grant(world: World) -> None:
    """Also after the first was used up and forgotten."""
    record = await plan(world, TEST)
    tap = click(record, confirmed=True)
    await world.core.requests.decide(tap)
    assert (await call(world, TEST)).status is Status.APPROVED
    await world.core.requests.decide(tap)
    assert await grants(world) == {}
    assert (await call(world, TEST)).status is Status.PENDING
    with pytest.raises(Conflict):
        await agree(world, record, identity=identity("bob"))


async def test_the_same_line_twice_is_twice_the_uses(world: World) -> None:
    """And a line that names a call exactly is used before one that names any text."""
    exact = {**SEND, "arguments": {**SEND["arguments"], "body": "hi"}}
    await planned(world, {**REPORT, "times": 1}, exact, TEST, TEST)
    for _ in range(2):
        assert (await call(world, TEST)).status is Status.APPROVED
    assert (await report(world, "hi")).status is Status.APPROVED
    assert (await report(world, "ho")).status is Status.APPROVED
    assert (await report(world, "hu")).status is Status.PENDING


# ---------------------------------------------------------------- where and how long


async def test_it_is_for_its_session_and_agent_only(world: World) -> None:
    """Another session asks."""
    await planned(world, TEST, session="one")
    assert (await call(world, TEST)).status is Status.PENDING
    assert (await call(world, TEST, session="two")).asks_because == ""
    assert (await call(world, TEST, session="one")).status is Status.APPROVED


async def test_it_ends_with_its_session(world: World) -> None:
    """A session of the same name that begins later has no plan."""
    await planned(world, {**TEST, "times": 5}, session="one")
    await world.core.sessions.end("one", over_http())
    assert (await call(world, TEST, session="one")).status is Status.PENDING


async def test_it_ends_when_its_time_is_over(world: World) -> None:
    """By the server's clock, though nobody swept it away."""
    await planned(world, {**TEST, "times": 5}, minutes=1)
    (grant,) = (await grants(world)).values()
    assert grant.expires_at == grant.made_at + 60_000
    key = world.store.keys.grant(grant.id)
    await world.store.redis.hset(key, "expires", grant.made_at - 1)
    assert (await call(world, TEST)).status is Status.PENDING


async def test_a_line_is_revoked_for_good(world: World) -> None:
    """And so is the whole plan, with its session."""
    await planned(world, {**TEST, "times": 5}, NOTES)
    made = await grants(world)
    await world.core.grant_service.revoke(made[1].id, identity("ann"))
    assert (await call(world, TEST)).status is Status.PENDING
    await world.core.grant_service.revoke_all(identity("bob"), agent="bot", session="default")
    assert await grants(world) == {}


async def test_an_approver_who_is_removed_backs_it_no_more(world: World) -> None:
    """From that moment its calls ask."""
    await planned(world, {**TEST, "times": 5})
    await world.route(Route(approvers=("bob",)))
    assert (await call(world, TEST)).status is Status.PENDING
    await world.route(Route(approvers=("ann",)))
    assert (await call(world, TEST)).status is Status.APPROVED


async def test_the_kill_switch_stops_it(world: World) -> None:
    """It approves no plan, and no call of one."""
    await planned(world, {**TEST, "times": 5})
    waits = await plan(world, NOTES)
    await world.store.set_stopped(True, by="test")
    with pytest.raises(Conflict, match="kill switch"):
        await agree(world, waits)
    assert (await call(world, TEST)).status is Status.DENIED


async def test_erasing_the_plan_ends_it(world: World) -> None:
    """Nothing of what it covered is left, and its card is drawn."""
    record = await planned(world, {**TEST, "times": 5})
    erased = await world.approvals.erase(record.id, by="ann")
    assert card_of(erased, lines=50, chars=5000).status is Status.APPROVED
    assert await grants(world) == {}
    assert (await call(world, TEST)).status is Status.PENDING


# ---------------------------------------------------------------- who approves it


async def test_nothing_but_a_person_approves_a_plan(world: World) -> None:
    """No mode, rule or hook, and no remembered decision."""
    await world.route(Route(approvers=("ann",), mode=Mode.AUTO_APPROVE))
    record = await plan(world, TEST)
    assert record.status is Status.PENDING
    rule = PolicyRule(name="all", effect=RuleEffect.ALLOW, tools=("*",))
    await world.put(rules=(rule,))
    assert (await plan(world, TEST)).status is Status.PENDING
    assert offers(record) == ()
    with pytest.raises(InvalidRequest, match="cannot be remembered"):
        await agree(world, record, remember=Remember())


async def test_a_stranger_and_who_asked_approve_none(world: World) -> None:
    """As any other request of the route."""
    record = await plan(world, TEST)
    with pytest.raises(Unauthorized):
        await agree(world, record, identity=identity("eve"))
    await world.route(Route(approvers=("ann", "bob"), self_approval=False))
    mine = await plan(world, TEST, origin=Origin(channel="token", sender="ann"))
    with pytest.raises(Unauthorized, match="yourself"):
        await agree(world, mine)
    assert await grants(world) == {}


async def test_each_line_takes_an_approver_of_its_own_route(world: World) -> None:
    """Who may approve the plan alone may not let through what only others may approve."""
    await world.route(
        Route(name="mail", tools=("send_email",), approvers=("bob",)),
        Route(approvers=("ann", "bob")),
    )
    record = await plan(world, TEST, REPORT)
    with pytest.raises(Unauthorized, match='line 2, "send_email": you are not an approver'):
        await agree(world, record)
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
    assert (await agree(world, record, identity=identity("bob"))).status is Status.APPROVED
    assert (await report(world)).status is Status.APPROVED
    other = await plan(world, TEST, REPORT)
    await strike(world, other, TEST)
    assert sorted(await grants(world)) == [1, 2]


async def test_a_plan_takes_as_many_as_its_lines(world: World) -> None:
    """The quorum of a line's route, and of the scope of one with any text."""
    await world.route(
        Route(name="shell", tools=("shell",), approvers=("ann", "bob"), quorum=2),
        Route(approvers=("ann", "bob"), scope_quorum=ScopeQuorum(pattern=2)),
    )
    notes = {**WRITE, "arguments": {**WRITE["arguments"], "content": "x"}}
    for line, asked in ((TEST, TEST), (NOTES, notes)):
        record = await plan(world, {**line, "times": 2})
        first = await agree(world, record)
        assert (first.status, first.quorum) == (Status.PENDING, 2)
        assert await grants(world) == {}
        assert (await call(world, asked)).status is Status.PENDING
        await agree(world, first, identity=identity("bob"))
        (grant,) = (await grants(world)).values()
        assert sorted(one.person for one in grant.backers) == ["ann", "bob"]
        assert (await call(world, asked)).status is Status.APPROVED


async def test_every_vote_is_of_somebody_who_may(world: World) -> None:
    """A second voter whom a line's route does not name changes nothing."""
    await world.route(
        Route(name="shell", tools=("shell",), approvers=("ann", "bob"), quorum=2),
        Route(approvers=("ann", "bob", "eve")),
    )
    first = await agree(world, await plan(world, TEST))
    with pytest.raises(Unauthorized, match="line 1"):
        await agree(world, first, identity=identity("eve"))
    with pytest.raises(Conflict, match="You approved"):
        await agree(world, first)
    assert await grants(world) == {}


async def test_a_route_that_came_to_ask_for_more_votes_refuses(world: World) -> None:
    """Since the plan was asked: one vote is not enough for that line any more."""
    shell = Route(name="shell", tools=("shell",), approvers=("ann", "bob"))
    await world.route(shell, Route(approvers=("ann", "bob")))
    record = await plan(world, TEST, NOTES)
    await world.route(replace(shell, quorum=2), Route(approvers=("ann", "bob")))
    with pytest.raises(Unauthorized, match=r"line 1.*more approvers"):
        await agree(world, record)
    assert (await strike(world, record, NOTES)).status is Status.APPROVED


async def test_too_many_grants_of_a_tool_refuse_a_plan(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is decided, and no grant of its other lines is made."""
    await planned(world, NOTES)
    record = await plan(world, TEST, NOTES)
    monkeypatch.setattr(scripts, "MOST_PATTERNS", 1)
    with pytest.raises(Conflict, match="too many grants"):
        await agree(world, record)
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
    assert sorted(await grants(world)) == [1]


async def test_a_line_with_a_step_up_cannot_be_planned(world: World) -> None:
    """It takes one each time."""
    number = RulesByRisk(medium=LevelRules(step_up=(StepUp.NUMBER,)))
    await world.route(
        Route(name="shell", tools=("shell",), approvers=("ann",), risk=number),
        Route(approvers=("ann",)),
    )
    record = await plan(world, TEST, REPORT)
    with pytest.raises(
        InvalidRequest, match='line 1, "shell": this line needs extra verification each time'
    ):
        await agree(world, record)
    assert (await strike(world, record, REPORT)).status is Status.APPROVED


async def test_a_plan_with_a_step_up_takes_one(world: World) -> None:
    """A wrong number makes no grant, and the right one makes each."""
    number = RulesByRisk(medium=LevelRules(step_up=(StepUp.NUMBER,)))
    await world.route(
        Route(name="plans", tools=("plan",), approvers=("ann",), risk=number),
        Route(approvers=("ann",)),
    )
    record = await plan(world, TEST)
    right = await world.store.number_of(record.id)
    assert right is not None
    wrong = "000" if right != "000" else "001"
    with pytest.raises(StepUpNeeded):
        await agree(world, record)
    with pytest.raises(WrongNumber):
        await agree(world, record, number=wrong)
    assert await grants(world) == {}
    now = await world.core.requests.get(record.id)
    await agree(world, now, number=right)
    assert sorted(await grants(world)) == [1]


async def test_a_plan_is_confirmed_and_decided_alone(world: World) -> None:
    """Whoever approves it says that they read every line; no batch approves it."""
    record, other = await plan(world, TEST), await plan(world, NOTES)
    with pytest.raises(Unconfirmed, match="every line"):
        await agree(world, record, confirmed=False)
    unread = click(record, action=Action.EDIT, arguments=record.arguments, confirmed=False)
    with pytest.raises(Unconfirmed, match="every line"):
        await world.core.requests.decide(unread)
    clicks = [click(one, confirmed=True, nonce="1") for one in (record, other)]
    with pytest.raises(BatchRefused, match="plan"):
        await world.core.requests.decide_all(clicks)
    assert await grants(world) == {}


# ---------------------------------------------------------------- struck lines


async def test_struck_lines_are_not_covered(world: World) -> None:
    """What is left is what was approved, and what the agent is told."""
    record = await plan(world, TEST, REPORT, NOTES)
    after = await strike(world, record, REPORT)
    assert after.decision is not None
    assert (after.status, after.decision.action) == (Status.APPROVED, Action.EDIT)
    assert after.decision.arguments == listed(REPORT)
    assert after.decision.digest == digest_of(record.request, listed(REPORT))
    assert sorted(await grants(world)) == [1]
    assert (await call(world, TEST)).status is Status.PENDING
    assert (await report(world)).status is Status.APPROVED


CHANGED: dict[str, tuple[list[dict[str, Any]], int]] = {
    "a changed argument": ([{**TEST, "arguments": {"command": "make all"}}, REPORT], 60),
    "an added line": ([TEST, REPORT, NOTES], 60),
    "a line twice": ([TEST, TEST], 60),
    "another order": ([REPORT, TEST], 60),
    "more uses": ([{**TEST, "times": 2}], 60),
    "fewer uses": ([{**REPORT, "times": 1}], 60),
    "any text in another argument": ([{**TEST, "any_text": ["description"]}], 60),
    "another kind": ([{**TEST, "kind": "command"}], 60),
    "a longer time": ([TEST, REPORT], 61),
    "a shorter time": ([TEST, REPORT], 59),
    "no line": ([], 60),
}


@pytest.mark.parametrize(("lines", "minutes"), CHANGED.values(), ids=CHANGED)
async def test_an_edit_only_strikes(
    world: World, lines: list[dict[str, Any]], minutes: int
) -> None:
    """Anything else is refused, and nothing is decided."""
    record = await plan(world, TEST, REPORT)
    with pytest.raises(InvalidRequest):
        await strike(world, record, *lines, minutes=minutes)
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
    assert await grants(world) == {}


class Hook:
    """A policy hook that changes plans to these lines."""

    name, priority, seconds = "hook", 700, None

    def __init__(self, *lines: dict[str, Any]) -> None:
        self.lines = lines

    async def decide(self, record: Any, route: Any) -> Verdict | None:
        """Change each plan."""
        if record.request.kind is not Kind.CALLS or record.edited is not None:
            return None
        by = DecidedBy(kind=DeciderKind.RULE, name="hook")
        return Verdict(effect=MODIFY, by=by, arguments=listed(*self.lines))


async def test_a_policy_hook_may_strike_lines_too(server_url: str, namespace: str) -> None:
    """People see what is left, and that is what they approve."""
    async with assembled(server_url, namespace, (Hook(REPORT),)) as world:
        record = await plan(world, TEST, REPORT)
        assert "make test" not in full_view(record).text
        after = await agree(world, record)
        assert after.decision is not None
        assert after.decision.arguments == listed(REPORT)
        assert sorted(await grants(world)) == [1]
        assert (await call(world, TEST)).status is Status.PENDING


async def test_a_policy_hook_adds_nothing_to_a_plan(server_url: str, namespace: str) -> None:
    """The plan is denied: what the hook wanted changed must not be approved as it was."""
    async with assembled(server_url, namespace, (Hook(TEST, REPORT),)) as world:
        record = await plan(world, TEST)
        assert record.status is Status.DENIED
        assert record.decision is not None
        assert "only remove whole lines" in record.decision.message


# ---------------------------------------------------------------- what still asks


async def test_high_risk_is_struck_before_a_plan_is_approved(world: World) -> None:
    """The card says which line raises it, and offers no approval."""
    await world.put(
        risks=(
            RiskRule(
                name="mail", level=RiskLevel.HIGH, reason="leaves the house", tools=("send_email",)
            ),
        )
    )
    record = await plan(world, TEST, REPORT)
    assert record.risk.level is RiskLevel.HIGH
    card = card_of(record, lines=50, chars=5000)
    assert [one.text for one in card.reasons] == [
        'Risk raised by line 2, "send_email": leaves the house'
    ]
    assert [one.action for one in card.controls] == [
        Action.EDIT,
        Action.RESPOND,
        Action.DENY,
        Action.ABORT,
    ]
    assert any("remove the lines" in one for one in card.notices)
    with pytest.raises(InvalidRequest, match="high-risk plan"):
        await agree(world, record)
    with pytest.raises(Unconfirmed):
        await strike(world, record, TEST, confirmed=False)
    assert (await strike(world, record, TEST)).status is Status.APPROVED
    assert sorted(await grants(world)) == [1]


async def test_what_becomes_high_risk_later_asks(world: World) -> None:
    """The call is judged as it comes."""
    await planned(world, {**REPORT, "times": 5})
    secret = RiskRule(name="pay", level=RiskLevel.HIGH, reason="money", contains=("invoice",))
    await world.put(risks=(secret,))
    assert (await report(world, "the invoice")).status is Status.PENDING
    assert (await report(world, "the weather")).status is Status.APPROVED


@pytest.mark.parametrize("guardrails", [Guardrails.SHADOW, Guardrails.OFF, Guardrails.ASK])
async def test_findings_ask_each_time(world: World, guardrails: Guardrails) -> None:
    """Wherever the guardrails stand, nobody plans what shows signs of danger."""
    await world.put(guardrails=guardrails)
    danger = {"tool": "shell", "arguments": {"command": "rm -rf /srv/app"}}
    record = await plan(world, TEST, danger)
    if guardrails is Guardrails.ASK:
        with pytest.raises(InvalidRequest, match="high-risk plan"):
            await agree(world, record)
    else:
        await agree(world, record)
    if guardrails is Guardrails.SHADOW:
        assert '(in "line 2")' in record.located_findings[0]
    assert (await call(world, danger)).status is Status.PENDING


async def test_a_recipient_outside_the_own_domains_asks_each_time(world: World) -> None:
    """It is a finding, on the card of the plan and of the call."""
    await world.put(own_domains=("corp.example",))
    record = await plan(world, REPORT)
    assert any('(in "line 1")' in one for one in record.located_findings)
    await agree(world, record)
    assert (await report(world)).status is Status.PENDING


async def test_deny_rules_still_deny(world: World) -> None:
    """They come before every grant."""
    await planned(world, {**TEST, "times": 5})
    await world.put(rules=(PolicyRule(name="no", effect=RuleEffect.DENY, tools=("shell",)),))
    assert (await call(world, TEST)).status is Status.DENIED


async def test_a_remembered_denial_outranks_a_plan(world: World) -> None:
    """Whoever denied the call for good is heard first."""
    asked = await call(world, TEST)
    await world.core.requests.decide(click(asked, Action.DENY, remember=Remember(everywhere=True)))
    await planned(world, TEST)
    assert (await call(world, TEST)).status is Status.DENIED


async def test_what_demands_a_person_asks(world: World) -> None:
    """Though the plan names it."""
    await planned(world, TEST)
    assert (await call(world, TEST, human=True)).status is Status.PENDING


async def test_a_call_says_how_it_deviates(world: World) -> None:
    """From the nearest line of its tool, or that no line names it."""
    await planned(world, TEST, REPORT)
    said = "deviates from the plan: "
    other = await call(world, {"tool": "deploy", "arguments": {}})
    assert other.asks_because == NOBODY_SAID
    changed = await call(world, {**TEST, "arguments": {"command": "make all"}})
    assert changed.asks_because == f"{said}line 1: it is not exactly the same"
    to_ben = {**SEND, "arguments": {"to": "ben@example.com", "subject": "Report", "body": "hi"}}
    assert (await call(world, to_ben)).asks_because == (
        f'{said}line 2: "to" is ben@example.com, planned ana@example.com'
    )


async def test_an_explanation_names_the_lines(world: World) -> None:
    """For an admin who asks why: which line covers it, and what keeps the others from it."""
    ann = Person(name="ann", identities=("token:ann",), admin=True)
    await world.put(people=(ann,))
    record = await planned(world, TEST, {**TEST, "arguments": {"command": "make docs"}})
    told = await world.core.explanations.explain(identity("ann"), request(**TEST, context=HERE))
    said = {one.words.partition(":")[0]: one.differs for one in told.grants}
    begins = f"of plan {record.id[:8]}"
    assert said == {f"line 1 {begins}": None, f"line 2 {begins}": "it is not exactly the same"}
    assert told.result == "allow by remembered allow"


# ---------------------------------------------------------------- what cannot be planned

DATA = "cannot be any text"
MAIL: dict[str, Any] = {"to": "ana@example.com"}
KEYS, HOOK = "/home/ana/.ssh/authorized_keys", "/srv/app/.git/hooks/pre-commit"


TO = f'line 1, "send_email": "to" {DATA}, as it is recipient: the table of known'


def line(tool: str, arguments: dict[str, Any], *any_text: str) -> dict[str, Any]:
    """Return a line with any text in these arguments."""
    return {"tool": tool, "arguments": arguments, "any_text": list(any_text)}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a recipient": (line("send_email", {"body": "x"}, "to"), TO),
    "a command": (line("shell", {}, "command"), f'"command" {DATA}'),
    "a path": (line("write_file", {"content": "x"}, "path"), f'"path" {DATA}'),
    "what nobody knows": (line("frob", {}, "what"), f'"what" {DATA}'),
    "an address": (line("http_post", {"body": "x"}, "url"), f'"url" {DATA}'),
    "code": (line("run_python", {}, "code"), f'"code" {DATA}'),
    "a patch": (line("edit_file", {"path": "/srv/app/x.txt"}, "patch"), f'"patch" {DATA}'),
    "a text of an unknown call": (line("deploy", {"to": "prod"}, "body"), DATA),
    "what runs later": (line("write_file", {"path": HOOK}, "content"), DATA),
    "what opens doors": (line("write_file", {"path": KEYS}, "content"), DATA),
    "an argument with a value": (
        line("send_email", {**MAIL, "body": "x"}, "body"),
        "line 1: name each argument once",
    ),
    "an argument twice": (
        line("send_email", MAIL, "body", "body"),
        "line 1: name each argument once",
    ),
    "an address within": (line("edit", {"path": "/srv/app/x"}, "edits[].new"), DATA),
    "hidden text": (line("shell", {"command": "ls \u202e txt"}), "hides something"),
    "a form": ({**line("ask", {}), "kind": "question"}, "cannot be of kind question"),
    "a plan": ({**line("plan", {}), "kind": "calls"}, "cannot be of kind calls"),
    "a plan in words": ({**line("plan", {}), "kind": "plan"}, "cannot be of kind plan"),
    "no uses": ({**TEST, "times": 0}, "1 to 100 times"),
    "too many uses": ({**TEST, "times": 101}, "1 to 100 times"),
    "uses as text": ({**TEST, "times": "3"}, "times"),
    "uses as a truth value": ({**TEST, "times": True}, "times"),
    "an unknown member": ({**TEST, "unless": "x"}, "line 1: unless is not a known member"),
    "no arguments": ({"tool": "shell"}, "line 1: arguments is missing"),
    "arguments in a list": ({"tool": "shell", "arguments": []}, "arguments"),
    "an unknown role": ({**TEST, "roles": {"command": "anything"}}, "roles"),
    "a tool of two lines": (line("a\nb", {}), "tool"),
}


@pytest.mark.parametrize(("line", "why"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_planned_is_refused_with_its_line(
    world: World, line: dict[str, Any], why: str
) -> None:
    """The agent is told which argument it is, and nobody is asked."""
    with pytest.raises(InvalidRequest, match=why.replace("(", r"\(")):
        await plan(world, line)
    assert await world.store.pending_of("bot") == []


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"calls": []},
        {"calls": "all"},
        {"calls": [TEST], "minutes": 0},
        {"calls": [TEST], "minutes": 481},
        {"calls": [TEST], "forever": True},
        {"calls": [TEST] * 51},
        {"calls": [{"tool": "shell", "arguments": {"command": "x" * 65_500}}]},
        {"calls": [[TEST]]},
        {"plan": "run the tests"},
    ],
)
async def test_what_is_no_plan_is_refused(world: World, arguments: dict[str, Any]) -> None:
    """With what is wrong of it."""
    with pytest.raises(InvalidRequest):
        await world.submit(tool="plan", kind=Kind.CALLS, arguments=arguments)


async def test_a_plan_has_no_payload(world: World) -> None:
    """No call that it names would carry it."""
    with pytest.raises(InvalidRequest, match="payload"):
        await plan(world, TEST, payload={"x": 1})


async def test_a_refused_plan_is_answered_over_redis_too(world: World) -> None:
    """With the same words."""
    asked = request(tool="plan", kind=Kind.CALLS, arguments=listed({**TEST, "times": 0}))
    await world.send("submit", plain(asked))
    await world.handled()
    answer = await world.reply()
    assert "1 to 100 times" in answer["error"]["detail"]


async def test_a_declaration_makes_data_and_its_change_ends_that(world: World) -> None:
    """As with every remembered decision; nothing is suspended that still holds."""
    row = ToolRow(name="note", harmless=False, arguments={"text": "data"})
    await world.put(tools=(row,))
    await planned(
        world, {"tool": "note", "arguments": {"book": "b1"}, "any_text": ["text"], "times": 5}
    )
    line = {"tool": "note", "arguments": {"book": "b1", "text": "hello"}}
    await world.core.grants.suspend_outdated()
    assert (await call(world, line)).status is Status.APPROVED
    await world.put(tools=(replace(row, arguments={"text": "data", "book": "id"}),))
    assert (await call(world, line)).status is Status.PENDING


# ---------------------------------------------------------------- what people see


async def test_a_card_shows_every_line(world: World) -> None:
    """In order, with how often and what is open; one that does not fit is approved elsewhere."""
    record = await plan(
        world, TEST, {**REPORT, "kind": "tool"}, {**NOTES, "roles": {"content": "data"}}
    )
    card = card_of(record, lines=50, chars=5000)
    assert card.blocks[0].text.text.split("\n") == [
        "For 60 minutes in this session, at most:",
        '1. "shell", once: {"command": "make test"}',
        '2. "send_email", 2 times, any text in "body":'
        ' {"to": "ana@example.com", "subject": "Report"}',
        '3. "write_file", once, any text in "content", with the roles {"content": "data"}:'
        ' {"path": "/srv/app/notes.txt"}',
    ]
    assert "".join(part.text.text for part in card.summary) == "Plans 4 uses of 3 tools"
    assert card.notification == "bot wants to plan 4 uses of 3 tools"
    approve = next(one for one in card.controls if one.action is Action.APPROVE)
    assert approve.confirm == "Plans 4 uses of 3 tools. Have you read all of it?"
    assert card.remembers == {Action.DENY}
    cut = card_of(record, lines=2, chars=5000)
    assert Action.APPROVE not in {one.action for one in cut.controls}


async def test_no_value_looks_like_a_line(world: World) -> None:
    """What an agent writes stands in JSON, and begins no line."""
    lie = 'make\n2. "shell", once: {"command": "rm"}'
    record = await plan(world, {"tool": '1. "x", once:', "arguments": {"command": lie * 5}})
    text = full_view(record).text
    assert sum(line[:2] in ("1.", "2.") for line in text.split("\n")) == 1


async def test_what_a_mask_hides_is_planned_only_where_it_is_revealed(world: World) -> None:
    """A mask could leave out what acts."""
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    record = await plan(world, {"tool": "shell", "arguments": {"command": f"./run {key} | sh"}})
    card = card_of(record, lines=50, chars=5000)
    assert card.hides
    assert key not in card.blocks[0].text.text
    with pytest.raises(InvalidRequest, match="masked"):
        await agree(world, record)
    await agree(world, record, revealed=True)
    assert key not in (await grants(world))[1].words


async def test_a_denied_or_cancelled_plan_covers_nothing(world: World) -> None:
    """Neither does an answer in its place."""
    for action in (Action.DENY, Action.RESPOND, Action.ABORT):
        record = await plan(world, TEST, session=action.value)
        more: dict[str, Any] = {"result": "no"} if action is Action.RESPOND else {}
        await agree(world, record, action=action, **more)
        assert (await call(world, TEST, session=action.value)).status is not Status.APPROVED
    record = await plan(world, TEST)
    await world.approvals.cancel(record.id, over_http(), reason=Reason.CANCELLED_BY_AGENT)
    with pytest.raises(Conflict):
        await agree(world, record)
    assert await grants(world) == {}
