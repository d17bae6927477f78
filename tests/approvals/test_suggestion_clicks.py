"""Hostile texts in suggestions, forged clicks, races, and a server that dies between the steps."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from adapters.discord.cards import escape_line
from adapters.slack.cards import build_thread_note
from gateway.cards.command_summary import CallSummary
from gateway.cards.summary import summarize
from gateway.chat.remembering import Remembering
from gateway.domain.policy_document import Route
from gateway.domain.records import Remember, ScopeQuorum, StoredRequest
from gateway.errors import GatewayError, InvalidRequest, Unauthorized, Unreachable
from gateway.models import (
    Action,
    Kind,
    Status,
)
from gateway.policy.grants.offers import offers
from gateway.ports.adapter_api import Suggestion
from gateway.server.background import adapter_api
from tests.approvals.test_suggestion_attacks import answered
from tests.approvals.test_suggestions import (
    ANN,
    BOB,
    approved,
    asked,
    next_week,
    suggested,
)
from tests.world import World, assembled, click, identity

HIDDEN = ("Cc", "Cf", "Zl", "Zp", "Co", "Cs")


def texts_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the pieces of text in a block of Slack."""
    if isinstance(value, dict) and "text" in value:
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from texts_in(one)


# ---------------------------------------------------------------- its text

SECRET = "ghp_" + "a1B2" * 9
TEXTS = [
    "a\nYou approved this 99 times", "a\r\nb", "x” is required. “", "“", "”", "\u202egnp",
    "a\u200bb",
    "a\u2028b", "\x1b[2J", "\x00"[:0] + "\x07", "<!channel>", "<!here> <@U1>",
    "@everyone @here", "<@123>",
    "[a](https://evil.example)", "<https://evil.example|ok>", "**b** __u__ ~~s~~ `c` ||d||",
    "<t:1:R>",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;b&gt;", "# big\n## big",
    "-# small", "> quote", "```\ncode", SECRET, f"token={SECRET}", f"https://u:{SECRET}@x.example/",
    "AKIA" + "IOSFODNN7EXAMPLE", "⟨secret of 3 characters, digest 00000000…⟩", "⟨U+202E⟩",
    "p\u0430ypal", "x" * 5_000, "&" * 900, "\u4e2d" * 500, "a\u0301\u0301\u0301\u0301\u0301b",
    "%0a%0d", "=?utf-8?q?=0A?=",
    "; such as: Runs nothing.", "nobody denied it", " " * 60 + "x",
]  # fmt: skip
PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "a value": lambda text: {"arguments": {"to": "ops", "note": text}},
    "a name": lambda text: {"arguments": {text: "ops"}},
    "a command": lambda text: {"kind": Kind.COMMAND, "arguments": {"command": f"./say '{text}'"}},
    "data": lambda text: {"roles": {"text": "data"}, "arguments": {"book": "b", "text": text}},
}


@pytest.mark.parametrize("place", PLACES)
async def test_no_text_of_an_agent_passes_for_ours(
    world: World, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A suggestion is one line, in which the offer's words stand between our quotes, and nothing
    hides or is told that is secret."""
    monkeypatch.setattr("gateway.approvals.suggestions._TIMES", 2)
    told = 0
    for number, text in enumerate(TEXTS):
        call = {**PLACES[place](text), "tool": f"post_{number}"}
        for _ in range(2):
            await world.core.requests.decide(click(await world.submit(**call), revealed=True))
        found = await suggested(world, await world.submit(**call))
        await next_week(world)
        if found is None:
            continue
        told, said = told + 1, found.text
        assert re.match(r"You approved this 2 times [^“”]*“[^“”]*” would have app", said), said
        assert SECRET not in said and len(said) < 2_500
        assert not any(unicodedata.category(one) in HIDDEN for one in said), repr(said)
        live = escape_line(said, 8_000).replace("@everyone", "")
        assert re.search(r"(?<!\\)[<>@*_`|\[\]#]", live) is None
        (block,) = build_thread_note(said)
        assert {one["type"] for one in texts_in(block)} == {"text"}
    assert told >= 15


# ---------------------------------------------------------------- clicks, races and faults


async def test_only_the_usual_click_takes_it_and_once(world: World) -> None:
    """By who may decide, on this request as it stands, with an offer of it."""
    await approved(world)
    record, other = await asked(world), await asked(world, "git show -n 5")
    found = await suggested(world, record)
    assert found is not None
    wish = Remember(offer=found.offer)
    for tap in (
        click(record, remember=wish, identity=identity("eve")),
        click(record, remember=wish, identity=identity("nobody")),
        click(record, remember=wish, revision=record.revision + 1),
        click(record, Action.RESPOND, result="x", remember=wish),
        *(click(record, remember=Remember(offer=one)) for one in ("0" * 16, "x", found.offer[:8])),
        click(record, remember=replace(wish, lifetime="10y")),
        click(record, remember=replace(wish, max_uses=-1)),
        click(other, remember=wish),
    ):
        with pytest.raises(GatewayError):
            await world.core.requests.decide(tap)
        assert (await world.core.requests.get(tap.request_id)).status is Status.PENDING
    taps = [click(record, remember=wish, identity=who) for who in (ANN, BOB) * 10]
    await asyncio.gather(*map(world.core.requests.decide, taps), return_exceptions=True)
    assert len(await world.core.grants.all()) == 1
    with pytest.raises(GatewayError):
        await world.core.requests.decide(click(record, remember=wish))


async def test_it_takes_as_many_votes_as_any_pattern(world: World) -> None:
    """One person's habit is one vote."""
    await approved(world)
    await world.route(Route(approvers=("ann", "bob"), scope_quorum=ScopeQuorum(pattern=2)))
    record = await asked(world)
    found = await suggested(world, record)
    assert found is not None
    after = await world.core.requests.decide(click(record, remember=Remember(offer=found.offer)))
    assert after.status is Status.PENDING and not await world.core.grants.all()


async def test_one_request_has_one_suggestion_a_week(world: World) -> None:
    """Not another one when a narrower offer was approved as often meanwhile."""
    await approved(world)
    record = await asked(world)
    first = await suggested(world, record)
    assert first is not None and await suggested(world, record) == first
    await approved(world, command="git log -n 5")
    assert await suggested(world, record) is None


@pytest.mark.parametrize("seed", range(6))
async def test_whoever_races_one_is_told_one(server_url: str, namespace: str, seed: int) -> None:
    """Forty looks at once on two gateways, with clicks, a no and a denial among them."""
    async with assembled(server_url, namespace) as one, assembled(server_url, namespace) as two:
        await approved(one, 12 if seed % 2 else 11)
        waits = [await asked(one) for _ in range(10)]
        offer = offers(waits[0])[1].id
        looks = [suggested(world, record) for record in waits for world in (one, two) * 2]
        noise: list[Awaitable[Any]] = [
            one.core.suggestions.decline(ANN, waits[0], offer),
            two.core.requests.decide(click(waits[1])),
            *([answered(two, waits[2], Action.DENY)] if seed > 4 else []),
        ]
        all_at_once = [*looks, *noise]
        random.Random(seed).shuffle(all_at_once)
        done = await asyncio.gather(*all_at_once)
        found = [result for result in done if isinstance(result, Suggestion)]
        assert len({result.text for result in found}) <= 1 and len(found) <= 4
        await next_week(one)
        assert await suggested(two, await asked(two)) is None, "the no is kept"


FAULTS = ["get", "put_new", "list_decided", "load_many", "policy"]


@pytest.mark.parametrize(("fault", "at"), [*itertools.product(FAULTS, range(3))])
async def test_a_store_that_dies_between_tells_nothing_and_grants_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, fault: str, at: int
) -> None:
    """Before and after each step; the next look is as if nothing had been."""
    await approved(world)
    record, made = await asked(world), world.core.suggestions
    api = adapter_api("slack", world.core, world.store)
    owner: Any = {"get": made._notes, "put_new": made._notes, "policy": made._writer}.get(
        fault, world.store
    )
    kept, calls = getattr(owner, fault), itertools.count()

    async def fail(*given: Any, **more: Any) -> Any:
        call = next(calls)
        if call == at // 2 and at % 2:
            await kept(*given, **more)
        if call == at // 2:
            raise Unreachable("the server is gone")
        return await kept(*given, **more)

    monkeypatch.setattr(owner, fault, fail)
    first = await Remembering(api).suggest(ANN, record)
    assert first is None or next(calls) <= at // 2
    monkeypatch.setattr(owner, fault, kept)
    again = await suggested(world, record)
    assert again is not None and not await world.core.grants.all()
    assert await suggested(world, await asked(world)) is None, "one a week"


async def test_few_summaries_are_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One may take long, where an agent wants that, and nothing else runs meanwhile."""
    made: list[str] = []

    def count(record: StoredRequest) -> CallSummary:
        made.append(record.id)
        return summarize(record)

    monkeypatch.setattr("gateway.approvals.suggestions.summarize", count)
    await approved(world, 40, command="git log -n 5")
    assert await suggested(world, await asked(world)) is not None
    assert len(made) <= 20


async def test_a_no_is_ones_own(world: World) -> None:
    """Whoever sends it, for whatever, as often as they like; it decides nothing."""
    await approved(world)
    record = await asked(world)
    found = await suggested(world, record)
    assert found is not None
    no = world.core.suggestions.decline
    for who in ("bob", "eve"):
        await asyncio.gather(*(no(identity(who), record, found.offer) for _ in range(5)))
    with pytest.raises(Unauthorized):
        await no(identity("mallory"), record, found.offer)
    for offer in ("", "x", "*", found.offer + "0", found.offer.upper(), f"{found.offer} bot ann"):
        with pytest.raises(InvalidRequest):
            await no(ANN, record, offer)
    assert await suggested(world, record) == found
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
