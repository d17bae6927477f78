"""`gateway doctor --live --with-me` in Discord: what comes back, two acts, nothing left over."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from discord.gateway import KeepAliveHandler

from adapters.discord.adapter import DiscordAdapter
from gateway.chat import rehearsal
from gateway.ports import Finding
from gateway.ports.adapters import FAIL, OK, WARN
from tests.discord import messages
from tests.discord.furnished import Server
from tests.discord.interactions import MESSAGE, UPDATE, Interaction
from tests.discord.person import Person
from tests.discord.town import Channel, Json
from tests.operator import Operator, kept_words
from tests.waiting import moment


@pytest.fixture
async def ann(server: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Operator]:
    """Yield ann at her terminal and at her client, who does all that she is asked for."""
    monkeypatch.setenv("GATEWAY_DISCORD_TOKEN", server.app.token)
    made = Operator(server.ann.id)
    place = server.ann.inbox(server.app)
    made.does = acts(server, server.ann, place)
    yield made
    await made.stop()


def acts(server: Server, who: Person, place: Channel) -> dict[str, Any]:
    """Return what somebody does with the card in a channel."""

    async def press(label: str) -> Interaction:
        return await who.click(server.app, place, card(place), label)

    async def deny() -> None:
        await who.submit(await press("Deny"), reason="hunter2 of Acme")

    return {"Press Deny": deny, "Press Approve": lambda: press("Approve")}


def card(place: Channel) -> Json:
    """Return the last message of a channel."""
    return list(place.messages.values())[-1]


def left(server: Server) -> list[Json]:
    """Return every message of the trial that is still there."""
    return [
        one for place in server.discord.town.channels.values() for one in place.messages.values()
    ]


async def tried(operator: Operator, *targets: str) -> list[Finding]:
    """Return what the trial found."""
    notes: Any = None
    found = await DiscordAdapter().checks(
        dict.fromkeys(targets, ()), notes, live=False, trial=operator.trial
    )
    return [one for name, one in found if name == "discord live"]


async def test_all_is_well(server: Server, ann: Operator) -> None:
    """Each card comes back as it was sent, one with its file; both acts are ticked off; nothing is
    left, and the connection is closed."""
    echoed, acted = await tried(ann)
    assert (echoed.result, echoed.says) == (
        OK,
        "6 messages, their edits, and a file: the platform returned everything as sent",
    )
    assert (acted.result, acted.says) == (OK, "2 actions arrived and were answered")
    assert ann.ticked == 2
    assert left(server) == []
    assert sum(bool(call.uploads) for call in server.discord.rest.calls) == 1
    answers = [one.answer for one in server.discord.api.by_id.values()]
    assert len(answers) == 3 and MESSAGE not in answers and answers[-1] == UPDATE
    assert all(one.wire is None for one in server.discord.gateway.sessions.values())


async def test_closed_direct_messages(server: Server, ann: Operator) -> None:
    """Then it is in the first channel of a route; where there is none, that is the finding."""
    server.ann.user.takes_direct = False
    echoed, acted = await tried(ann)
    assert [echoed.result, acted.result] == [FAIL, FAIL]
    assert "50007" in echoed.says
    ann.does = acts(server, server.ann, server.channel)
    target = f"discord:{server.guild.id}/{server.channel.id}"
    found = await tried(ann, "discord:@1", target)
    assert {one.result for one in found} == {OK}
    assert "in the first channel of your routes" in "".join(ann.lines)
    assert left(server) == []


async def test_what_discord_changes_is_told(
    server: Server, ann: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where, and to what; the ids that it gives are no change."""
    numbered = messages._numbered

    def change(components: list[Json]) -> list[Json]:
        return list(json.loads(json.dumps(numbered(components)).replace("sample", "SAMPLE")))

    monkeypatch.setattr(messages, "_numbered", change)
    echoed, _ = await tried(ann)
    assert echoed.result == WARN
    assert "changed components[0].components[3].content from" in echoed.says
    assert "SAMPLE" in echoed.says
    assert left(server) == []


async def test_what_discord_refuses_is_told(server: Server, ann: Operator) -> None:
    """The acts are asked for all the same, and nothing is left."""
    server.discord.rest.stage(
        "PATCH", "/messages/", status=400, body={"code": 50035, "message": "x"}
    )
    echoed, acted = await tried(ann)
    assert (echoed.result, acted.result) == (FAIL, OK)
    assert "50035" in echoed.says
    assert left(server) == []


async def test_an_act_that_never_comes(
    server: Server, ann: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named with its time limit; a form that was opened and not sent is half of an act."""
    monkeypatch.setattr(rehearsal, "ACT_SECONDS", 2)
    place = server.ann.inbox(server.app)
    ann.does["Press Deny"] = lambda: server.ann.click(server.app, place, card(place), "Deny")
    _, acted = await tried(ann)
    assert acted.result == FAIL
    assert acted.says.startswith("1 of 2 acts: Press Deny on the card in your direct messages")
    assert "no click arrived within 2 s" in acted.says
    assert left(server) == []


async def test_what_the_wrong_person_does_counts_for_nothing(
    server: Server, ann: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a channel all see the card; nothing answers bob, who finds it failed."""
    monkeypatch.setattr(rehearsal, "ACT_SECONDS", 1)
    server.ann.user.takes_direct = False
    ann.does = acts(server, server.bob, server.channel)
    _, acted = await tried(ann, f"discord:{server.guild.id}/{server.channel.id}")
    assert acted.says.startswith("2 of 2 acts")
    pressed = list(server.discord.api.by_id.values())
    assert [one.failed for one in pressed] == [True, True]
    assert left(server) == []


async def test_over_http_the_acts_are_left_to_a_gateway(
    server: Server, ann: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Components are compared; nothing is asked for that could not come."""
    monkeypatch.setenv("GATEWAY_DISCORD_PUBLIC_KEY", server.app.verify_key)
    echoed, acted = await tried(ann)
    assert (echoed.result, acted.result, ann.lines) == (OK, WARN, [])


async def test_no_connection_to_discord(
    server: Server, ann: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a finding, after a while."""
    monkeypatch.setattr("adapters.discord.live_trial._CONNECT_SECONDS", 0.2)
    before = {*threading.enumerate()}
    server.discord.gateway.refuse = 4009
    _, acted = await tried(ann)
    assert (acted.result, acted.says) == (FAIL, "with you: TimeoutError")
    async with asyncio.timeout(20):  # nothing sends heartbeats for what was given up
        while any(isinstance(one, KeepAliveHandler) for one in {*threading.enumerate()} - before):
            await moment()


@pytest.mark.parametrize("asked", [False, True])
async def test_interrupted(server: Server, ann: Operator, asked: bool) -> None:
    """While Discord is slow, or while it waits for an act: what was posted is deleted."""
    ann.does = {}
    silent = asyncio.Event()
    if not asked:
        server.discord.rest.stage("PATCH", "/messages/", silent=silent)
    running = asyncio.create_task(tried(ann))
    while not (ann.lines if asked else server.discord.rest.made("PATCH", "/channels/#/messages/#")):
        await moment()
    assert len(left(server)) == 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    silent.set()
    assert left(server) == []


async def test_no_token_id_or_name_is_recorded(
    server: Server, ann: Operator, tmp_path: Path
) -> None:
    """Nor what was typed; what was shown is."""
    ann.recording.add("got", {"account": ["ann", server.ann.id]})  # as doctor does
    await tried(ann)
    path = tmp_path / "exchange.jsonl"
    ann.recording.save(path)
    town = server.discord.town
    ids = [server.ann.id, server.app.id, *town.channels, *server.discord.api.by_id]
    names = ["ann", "Ann", "gateway", "Gateway", "hunter2", server.app.token]
    assert kept_words(path, [*ids, *names]) == []
    assert "127.0.0.1" not in path.read_text(encoding="utf-8")
    lines = [json.loads(one) for one in path.read_text(encoding="utf-8").splitlines()]
    got = [one["what"] for one in lines if one["direction"] == "got"]
    assert any("rehearsal" in json.dumps(one.get("components")) for one in got)
    assert any(one.get("type") == "modal_submit" for one in got)
