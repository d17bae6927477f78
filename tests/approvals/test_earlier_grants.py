"""What was remembered under earlier rules, after an upgrade: kept where today's bear it out, else
at rest, told once, and never silently lifted. Records are as the version before wrote them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.approvals.policy_changes import (
    BY_HAND,
    CHANGED,
    GONE,
    PASSES_CHANGED,
    WIDER,
    covers_no_more,
)
from gateway.domain.policy_document import Route, ToolRow
from gateway.domain.records import Record, RequestOutcome
from gateway.domain.store import Transition, WriteResult
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import Conflict
from gateway.models import Action, DecidedBy, DeciderKind, Kind, Reason, Status, new_id
from gateway.policy.calls.command_table import Operands
from gateway.policy.chain import ModeDecider
from gateway.policy.grants.grant import (
    READING,
    CommandPattern,
    Effect,
    Match,
    Rule,
    RuleKind,
    Shape,
)
from gateway.policy.grants.offers import offers
from gateway.server.connections import core_over
from gateway.stores.grants import RedisGrants
from gateway.stores.requests import RedisStore
from tests.approvals.test_grant_creation import GIT_LOG, remember
from tests.clocks import ShiftedClock
from tests.delivery.test_outbox import Office, route
from tests.earlier import older, stored
from tests.world import AGENT, World, click, identity, policy

LISTED = Rule(
    name="command",
    kind=RuleKind.COMMAND,
    command=CommandPattern(program="cat", operands=Operands.PATHS),
)
FREE = (Rule(name="to", kind=RuleKind.EQUALS, value="ops"), Rule(name="text", kind=RuleKind.ANY))
ANYWHERE = (LISTED, Rule(name="workdir", kind=RuleKind.ANY))


async def told(world: World, *kinds: str) -> list[Any]:
    """Return what the audit says of these."""
    return [one.data for one in await world.events() if one.type in kinds]


async def asked(world: World, **request: Any) -> Record:
    """Have a request approved once, so that something could have been remembered of it."""
    record = await world.submit(**request)
    return await world.core.requests.decide(click(record))


TELL = {"tool": "tell", "arguments": {"to": "ops", "text": "a"}}
READ = {"kind": Kind.COMMAND, "arguments": {"command": ["cat", "a"], "workdir": "/srv"}}
UNBORNE: list[Any] = [
    # What today's offers make of none of these requests, in shapes that once could be stored.
    pytest.param(TELL, Match(shape=Shape.PATTERN, tool="tell", rules=FREE), id="free text"),
    pytest.param(
        READ,
        Match(shape=Shape.PATTERN, tool="shell", kind=Kind.COMMAND, rules=ANYWHERE),
        id="a list of words, anywhere",
    ),
    pytest.param(
        {"kind": Kind.PLAN, "tool": "tell", "arguments": {"plan": "x"}},
        Match(shape=Shape.TOOL, tool="tell", kind=Kind.PLAN),
        id="the whole tool of a plan",
    ),
    # What the last version before offered, and today's does not.
    pytest.param(
        {
            "tool": "tell",
            "arguments": {"to": "ops", "text": "many words that somebody may read, one by one"},
        },
        Match(
            shape=Shape.PATTERN,
            tool="tell",
            rules=(
                Rule(name="to", kind=RuleKind.EQUALS, value="ops"),
                Rule(name="text", kind=RuleKind.ANY),
            ),
        ),
        id="free text of a tool that is no message",
    ),
    pytest.param(
        {"kind": Kind.COMMAND, "arguments": {"command": ["cat", "a"]}},
        Match(shape=Shape.PATTERN, tool="shell", kind=Kind.COMMAND, rules=(LISTED,)),
        id="a list of words",
    ),
    pytest.param(
        {"kind": Kind.COMMAND, "arguments": {"command": "cat a", "workdir": "/srv"}},
        Match(
            shape=Shape.PATTERN,
            tool="shell",
            kind=Kind.COMMAND,
            rules=(LISTED, Rule(name="workdir", kind=RuleKind.EQUALS, value="/srv")),
        ),
        id="a folder given as an argument",
    ),
    pytest.param(
        {"tool": "deploy", "arguments": {"to": "x"}},
        Match(shape=Shape.TOOL, tool="deploy"),
        id="the whole tool, undeclared",
    ),
]


async def test_what_is_kept_says_no_secret(world: World) -> None:
    """Its words are today's, made of the request as it is stored, and are kept masked."""
    text = "make deploy TOKEN=ghp_" + "a1B2" * 9
    record = await asked(world, kind=Kind.COMMAND, arguments={"command": text})
    wide = next(one for one in offers(record) if one.match.shape is Shape.PATTERN)
    assert "ghp_" in wide.words
    await stored(world.store, wide.match, from_request=record.id)
    await world.core.grants.reread()
    (kept,) = await world.core.grants.all()
    assert kept.rests is None
    assert "ghp_" not in kept.words and "secret of" in kept.words


@pytest.mark.parametrize(("request_", "match"), UNBORNE)
async def test_what_today_is_not_offered_rests_with_its_reason(
    world: World, request_: dict[str, Any], match: Match
) -> None:
    """It decides nothing before it was read nor after, says why, and is there to be revoked."""
    record = await asked(world, **request_)
    grant = await stored(world.store, match, from_request=record.id)
    assert (await world.submit(**request_)).status is Status.PENDING, "unread, it decides nothing"
    await world.core.grants.reread()
    (rested,) = await world.core.grants.all()
    assert rested.rests is not None
    assert rested.rests.why == WIDER
    assert (await world.submit(**request_)).status is Status.PENDING
    assert await told(world, "grant_rests") == [{"grant": grant.id, "why": WIDER, "used": 0}]
    card = (await world.core.grants.view(grant.id)).card  # type: ignore[union-attr]
    assert card.word == "Approval suspended"
    assert WIDER in card.notices[0]
    assert "let the agent ask again" in card.notices[1]
    await world.core.grants.revoke(grant.id, identity("ann"))
    with pytest.raises(Conflict, match="revoked, by ann"):
        await world.core.grants.revoke(grant.id, identity("ann"))


async def test_what_is_offered_in_the_same_way_goes_on(world: World) -> None:
    """A narrow pattern whose request is kept: same id, uses and life, today's number and words."""
    first = await world.submit(**GIT_LOG)
    grant = await remember(world, first, offer=widest_pattern(first), lifetime="1w", max_uses=3)
    await older(world.store, replace(grant, words="as it was said once"))
    assert (await world.submit(**GIT_LOG)).status is Status.PENDING
    await world.core.grants.reread()
    assert (await world.submit(**GIT_LOG)).status is Status.APPROVED
    (kept,) = await world.core.grants.all()
    assert replace(kept, used=0, last_used=None, generation=1) == replace(grant, reading=READING)
    assert await told(world, "grant_kept") == [{"grant": grant.id}]
    body = json.loads(await world.store.redis.hget(world.store.keys.grant(grant.id), "body"))
    assert body["reading"] == READING


def widest_pattern(record: Record) -> str:
    """Return the id of the widest pattern that is offered."""
    return [one.id for one in offers(record) if one.match.shape is Shape.PATTERN][-1]


async def test_the_form_of_the_version_before_becomes_that_of_today(world: World) -> None:
    """Rules by the names of arguments: the offer of today that covers no more takes their place,
    with its words, and covers what it covered."""
    record = await asked(world, **GIT_LOG)
    new = next(one for one in reversed(offers(record)) if one.match.shape is Shape.PATTERN)
    (rule,) = new.match.rules
    by_name = replace(rule, name="command", type="", optional=False)
    old = replace(new.match, rules=(by_name,), answer=None, base=None, fingerprint="")
    grant = await stored(world.store, old, from_request=record.id, max_uses=9)
    assert (await world.submit(**GIT_LOG)).status is Status.PENDING
    await world.core.grants.reread()
    (kept,) = await world.core.grants.all()
    assert (kept.id, kept.max_uses, kept.rests) == (grant.id, 9, None)
    assert (kept.match, kept.words, kept.reading) == (new.match, new.words, READING)
    assert (await world.submit(**GIT_LOG)).status is Status.APPROVED
    wider = replace(old, rules=(replace(by_name, command=LISTED.command),))
    assert not covers_no_more(new.match, wider)
    assert covers_no_more(new.match, old)


async def declare(world: World, arguments: dict[str, str]) -> None:
    """Have the operator declare the arguments of one tool."""
    row = ToolRow(name="lookup_order", harmless=False, arguments=arguments)
    await world.store.apply(replace(await world.store.policy(), tools=(row,)), by="test")
    world.core.writer.forget_policy()


async def test_a_declaration_that_changes_suspends_what_rests_on_it(world: World) -> None:
    """At once it covers nothing; the next look suspends it, and says why."""
    await declare(world, {"order": "data"})
    first = await world.submit(tool="lookup_order", arguments={"order": "A-1"})
    await remember(world, first, offer=widest_pattern(first), lifetime="1w")
    again = {"tool": "lookup_order", "arguments": {"order": "A-2"}}
    assert (await world.submit(**again)).status is Status.APPROVED
    await world.core.grants.reread()
    assert (await world.submit(**again)).status is Status.APPROVED
    await declare(world, {"order": "data", "refund": "amount"})
    asks = await world.submit(**again)
    assert asks.status is Status.PENDING
    assert asks.asks_because == "what is declared about the tool was changed"
    await world.core.grants.reread()
    (rested,) = await world.core.grants.all()
    assert rested.rests is not None
    assert rested.rests.why == CHANGED
    await world.core.grants.reread()
    assert len(await told(world, "grant_rests")) == 1


async def test_people_are_told_what_kept_an_answer_from_covering(world: World) -> None:
    """The nearest remembered approval of the tool, the first value that differs; no secret."""
    first = await world.submit(**GIT_LOG)
    await remember(world, first, offer=widest_pattern(first), lifetime="1w")
    arguments = {**GIT_LOG["arguments"], "auto_run": True}
    then = await world.submit(**{**GIT_LOG, "arguments": arguments})
    assert then.asks_because == '"auto_run" is new'
    assert (await world.store.load(then.id)).asks_because == '"auto_run" is new'  # type: ignore[union-attr]
    secret = "ghp_" + "a1B2" * 9
    hides = await world.submit(**{**GIT_LOG, "arguments": {**GIT_LOG["arguments"], secret: 1}})
    assert hides.asks_because.endswith("is new")
    assert secret not in hides.asks_because
    await world.core.requests.decide(click(then))
    await world.approvals.erase(then.id, by="test")
    assert (await world.store.load(then.id)).asks_because == ""  # type: ignore[union-attr]


async def test_exact_answers_and_denials_go_on_as_they_were(world: World) -> None:
    """Exactly this is exactly this; a denial allows nothing. Neither is written anew."""
    same = {"arguments": {"command": "make x"}}
    exact = await remember(world, await world.submit(**same))
    await older(world.store, exact)
    denied = await stored(
        world.store, Match(shape=Shape.TOOL, tool="wipe"), effect=Effect.DENY, from_request=new_id()
    )
    for _ in range(2):
        assert (await world.submit(**same)).status is Status.APPROVED
        assert (await world.submit(tool="wipe")).status is Status.DENIED
        await world.core.grants.reread()
    found = {one.id: one for one in await world.core.grants.all()}
    assert {one: found[one].rests for one in found} == {exact.id: None, denied.id: None}
    assert await told(world, "grant_rests", "grant_kept", "grant_ended") == []


async def test_what_nothing_tells_of_rests_unless_it_is_exact(world: World) -> None:
    """Its request was retained away or erased, or there was none: an admin wrote it by hand."""
    record = await asked(world, **GIT_LOG)
    match = next(one.match for one in offers(record) if one.match.shape is Shape.PATTERN)
    gone = await stored(world.store, match, from_request=new_id())
    await world.approvals.erase(record.id, by="test")
    erased = await stored(world.store, match, from_request=record.id)
    by_hand = await stored(world.store, match)
    digest = (await world.submit(tool="once")).digest
    exact = await stored(world.store, Match(shape=Shape.EXACT, tool="once", digest=digest))
    await world.core.grants.reread()
    whys = {one.id: one.rests and one.rests.why for one in await world.core.grants.all()}
    assert whys == {gone.id: GONE, erased.id: GONE, by_hand.id: BY_HAND, exact.id: None}
    assert (await world.submit(tool="once")).status is Status.APPROVED


async def test_a_pass_of_earlier_rules_ends(world: World) -> None:
    """It lets nothing through before it was read either, and its card says why it ended."""
    await world.submit(session="s")
    until = SystemClock().now_ms() + 3_600_000
    match = Match(shape=Shape.WORK, tool="*")
    grant = await stored(world.store, match, session="s", expires_at=until)
    for _ in range(2):
        assert (await world.submit(session="s", tool="x")).status is Status.PENDING
        await world.core.grants.reread()
    assert await world.core.grants.all() == []
    end = (await world.core.grants.get(grant.id)).end
    assert end is not None
    assert end.why == PASSES_CHANGED


async def test_no_gateway_of_an_earlier_version_finds_it(world: World) -> None:
    """Those know of no rest: it stands in no index, and what they had found is refused."""
    grant = await stored(world.store, Match(shape=Shape.TOOL, tool="tell"))
    keys, redis = world.store.keys, world.store.redis
    waiting = await world.submit(tool="tell")
    before = await world.store.generation()
    await world.core.grants.reread()
    assert await redis.hgetall(keys.grants_on(AGENT, "tell")) == {}
    assert (await RedisGrants(world.store).about(AGENT, "tell", waiting.digest))[1] == []
    by = DecidedBy(kind=DeciderKind.GRANT, name=grant.id)
    ending = RequestOutcome(
        status=Status.APPROVED, action=Action.APPROVE, reason=Reason.GRANT, by=by
    )
    after = world.core.writer.close_record(waiting, ending, revision=2)
    found = Transition(before=waiting, after=after, event="approved", generation=before)
    assert await world.store.change(found) == WriteResult.AGAIN


async def test_neither_the_recount_nor_the_policy_lifts_it(world: World) -> None:
    """Its backers went and came back, and it was looked over each time: it rests."""
    await stored(world.store, Match(shape=Shape.TOOL, tool="tell"))
    await world.core.grants.reread()
    for approvers in (("bob",), ("ann", "bob")):
        await policy(world.store, Route(approvers=approvers))
        world.core.writer.forget_policy()
        await world.core.grants.look_over()
        assert (await world.submit(tool="tell")).status is Status.PENDING
    (rested,) = await world.core.grants.all()
    assert rested.rests is not None
    assert await told(world, "grant_suspended", "grant_resumed") == []


async def test_new_grants_are_of_todays_rules(world: World) -> None:
    """Whatever is written says so, and no look touches it."""
    first = await world.submit(**GIT_LOG)
    grant = await remember(world, first, offer=widest_pattern(first))
    body = json.loads(await world.store.redis.hget(world.store.keys.grant(grant.id), "body"))
    assert body["reading"] == READING
    await world.core.grants.reread()
    assert await world.core.grants.all() == [grant]
    assert (await world.submit(**GIT_LOG)).status is Status.APPROVED


class Killed(RuntimeError):
    """Stands for a gateway that is killed."""


async def test_a_crash_in_the_middle_is_made_up_for(world: World) -> None:
    """The next start settles what is left, and announces it then, once."""
    for tool in ("a", "b", "c"):
        await stored(world.store, Match(shape=Shape.TOOL, tool=tool))
    steps: list[str] = []

    def at(step: str) -> None:
        steps.append(step)
        if steps.count("grant_reread:before") == 2:
            raise Killed

    store = RedisStore(world.store.redis, world.store.keys, at=at)
    crashing = core_over(store, world.feed, [], SystemClock(), None)
    with pytest.raises(Killed):
        await crashing.grants.reread()
    found = await world.core.grants.all()
    assert sum(one.rests is not None for one in found) == 1
    assert sum(one.notices for one in found) == 0
    for tool in ("a", "b", "c"):
        assert (await world.submit(tool=tool)).status is Status.PENDING
    await world.core.grants.reread()
    found = await world.core.grants.all()
    assert all(one.rests is not None for one in found)
    assert sum(one.notices for one in found) == 1
    assert len(await told(world, "grant_rests")) == 3


@pytest.fixture
async def office(world: World) -> Office:
    """Yield an office on a route that posts to two places."""
    await route(world, targets=("rec:a", "rec:b"))
    return Office(world)


async def test_people_are_told_once_for_each_route(office: Office) -> None:
    """One notice at each place, with counts, whoever looks and however often; each card says it."""
    world = office.world
    kept = await remember(world, await world.submit(arguments={"command": "x"}))
    resting = [
        await stored(world.store, Match(shape=Shape.TOOL, tool=tool)) for tool in ("a", "b", "c")
    ]
    await office.soon()
    await office.settle()
    assert office.adapter.announced == []
    await asyncio.gather(*(world.core.grants.reread() for _ in range(3)))
    for _ in range(2):
        await world.core.grants.reread()
        await world.core.grants.look_over()
        await office.settle()
    assert [notice.target for notice, _ in office.adapter.announced] == ["rec:a", "rec:b"]
    (said,) = {card.notices for _, card in office.adapter.announced}
    assert said[0].startswith("3 remembered answers are suspended: they may have covered more")
    assert "1 stays in force." in said[0]
    assert "gateway grant list --suspended" in said[0]
    cards = [plate.card for plate in office.adapter.plates.values()]
    words = {card.grant_id: card.word for card in cards}
    assert words == {kept.id: "Approval remembered"} | {
        one.id: "Approval suspended" for one in resting
    }
    assert all(card.confirm for card in cards), "each may still be revoked"
    assert len(await told(world, "grant_rests")) == 3


async def test_what_came_later_is_settled_without_a_second_notice(office: Office) -> None:
    """An older replica that still ran remembered one more: it rests too, and its card says so."""
    world = office.world
    for tool in ("a", "b"):
        await stored(world.store, Match(shape=Shape.TOOL, tool=tool))
        await office.settle()
        await world.core.grants.reread()
        await office.settle()
    assert len(office.adapter.announced) == 2
    words = [plate.card.word for plate in office.adapter.plates.values()]
    assert words == ["Approval suspended"] * 4


async def test_what_rests_does_not_say_that_it_ends_soon(world: World) -> None:
    """Nobody waits for its end, which comes all the same."""
    until = SystemClock().now_ms() + 3_600_000
    grant = await stored(world.store, Match(shape=Shape.TOOL, tool="a"), expires_at=until)
    keys, redis = world.store.keys, world.store.redis
    await redis.zadd(keys.grants_ending, {grant.id: 0})
    await world.core.grants.reread()
    await world.sweeper.sweep()
    assert await told(world, "grant_ending") == []
    await redis.hset(keys.grant(grant.id), "expires", "1")
    await redis.zadd(keys.grants_due, {grant.id: 0})
    await world.sweeper.sweep()
    assert [one["why"] for one in await told(world, "grant_ended")] == ["expired"]


async def test_what_rests_ends_after_thirty_days_without_a_word(office: Office) -> None:
    """Counted from when it came to rest, whenever it was used last; only its card says it."""
    world = office.world
    month = 30 * 86_400_000
    at = SystemClock().now_ms() - month
    grant = await stored(world.store, Match(shape=Shape.TOOL, tool="a"), made_at=at)
    await office.settle()
    await world.core.grants.reread()
    await office.settle()
    said = len(office.adapter.announced)
    for days, left in ((29, 1), (31, 0)):
        later = core_over(
            world.store, world.feed, [ModeDecider()], ShiftedClock(days * 86_400), None
        )
        await later.grants.look_over()
        assert len(await world.core.grants.all()) == left
    await office.settle()
    assert len(office.adapter.announced) == said
    assert (await world.core.grants.get(grant.id)).end is not None


async def test_remembered_anew_it_decides_again(world: World) -> None:
    """The agent asks, somebody remembers what is offered today; the old one goes on resting."""
    record = await asked(world, **GIT_LOG)
    wide = Match(shape=Shape.TOOL, tool="shell", kind=Kind.COMMAND)
    old = await stored(world.store, wide, from_request=record.id)
    await world.core.grants.reread()
    again = await world.submit(**GIT_LOG)
    assert again.status is Status.PENDING
    await remember(world, again, offer=widest_pattern(again))
    assert (await world.submit(**GIT_LOG)).status is Status.APPROVED
    rests = {one.id: one.rests is not None for one in await world.core.grants.all()}
    assert rests.pop(old.id)
    assert list(rests.values()) == [False]
