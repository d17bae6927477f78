"""Scenarios 38 to 44: the connection breaks in every way, and clicks still count, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from gateway.errors import GatewayError
from gateway.models import Status
from gateway.server.app import run_adapter
from tests.discord.furnished import Server
from tests.discord.ground import Ground
from tests.discord.messages import buttons
from tests.discord.stage import Stage, environment, labels, private_text
from tests.waiting import announced, moment


async def approved(stage: Stage) -> None:
    """Ask, click and see that it counted."""
    record, card = await stage.asked()
    done = await stage.click(stage.server.ann, card, "Approve")
    assert not done.failed
    assert (await stage.ended(record)).status is Status.APPROVED


async def ready(stage: Stage) -> tuple[str, str]:
    """Return what the gateway answers about being ready."""
    return await ready_at(stage.gateway.url)


async def ready_at(url: str) -> tuple[str, str]:
    """Return what a gateway or an adapter there answers about being ready, in a word and whole."""
    async with aiohttp.ClientSession() as http, http.get(f"{url}/readyz") as answer:
        return (await answer.json())["status"], await answer.text()


async def test_38_a_failing_first_connection_is_tried_again(
    server: Server,
    ground: Ground,
) -> None:
    """discord.py ends when its first connection fails (T4); we do not."""
    server.discord.gateway.down = 1
    async with ground.staged() as stage:
        await server.discord.gateway.until(lambda: server.discord.gateway.connected == 1)
        await approved(stage)


async def test_38_discord_away_at_the_start_stops_nothing_else(
    server: Server,
    ground: Ground,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No name, no route, no answer: the gateway starts without it, says so, and connects later."""
    monkeypatch.setattr("adapters.discord.connection._START_SECONDS", 0.2)
    monkeypatch.setattr("adapters.discord.connection._FIRST_PAUSE", 0.2)
    fault = server.discord.rest.stage("GET", "/users/@me", times=3, refuse=True)
    async with ground.staged() as stage:
        assert fault.reached.is_set()
        await server.discord.gateway.until(lambda: server.discord.gateway.connected == 1)
        await approved(stage)


async def test_38_a_dropped_line_replays_the_click(stage: Stage) -> None:
    """Cut for a moment: RESUME brings the click that was made meanwhile."""
    record, card = await stage.asked()
    await stage.server.discord.gateway.drop()
    await stage.click(stage.server.ann, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED
    assert stage.server.discord.gateway.resumed == 1


async def test_38_after_a_long_cut_a_new_session_takes_the_clicks(stage: Stage) -> None:
    """The session is forgotten: identified anew, and old cards work."""
    gateway = stage.server.discord.gateway
    record, card = await stage.asked()
    await gateway.drop(forget=True)
    await gateway.until(lambda: gateway.identified == 2)
    await stage.click(stage.server.ann, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED


@pytest.mark.parametrize(("op", "data"), [(7, None), (9, True), (9, False)])
async def test_38_discord_asks_to_reconnect(stage: Stage, op: int, data: Any) -> None:
    """Op 7, and op 9 that can and cannot be resumed."""
    gateway = stage.server.discord.gateway
    await gateway.command(op, data)
    await gateway.until(lambda: gateway.identified + gateway.resumed == 2)
    await approved(stage)


async def test_38_a_line_that_stays_cut_turns_us_red(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at once, because short cuts are everyday; green again once we are back."""
    monkeypatch.setattr("adapters.discord.connection._CUT_SECONDS", 0.5)
    gateway = stage.server.discord.gateway
    assert (await ready(stage))[0] == "ready"
    gateway.down = 3
    await gateway.drop()
    async with asyncio.timeout(40):
        while (await ready(stage))[0] == "ready":
            await moment()
    assert "cut for a while" in (await ready(stage))[1]
    await gateway.until(lambda: gateway.connected == 1, 40)
    async with asyncio.timeout(40):
        while (await ready(stage))[0] != "ready":
            await moment()


async def test_39_a_revoked_token_turns_us_red_and_is_not_hammered(stage: Stage) -> None:
    """4004 and 401: degraded, one more login at most, and what is asked is not approved."""
    server = stage.server
    record, _ = await stage.asked()
    server.discord.revoke(server.app)
    await server.discord.gateway.drop(code=4004)
    async with asyncio.timeout(40):
        while (await ready(stage))[0] == "ready":
            await moment()
    assert "token" in (await ready(stage))[1]
    calls = len(server.discord.rest.calls)
    other = await stage.ask()
    assert len(server.discord.rest.calls) - calls < 5
    for one in (record, other):
        assert not (await stage.core.requests.get(one.id)).final


async def test_39_a_revoked_token_turns_an_adapter_of_its_own_red(
    server: Server,
    ground: Ground,
) -> None:
    """`gateway adapter discord` tells how it is, as the gateway does."""
    async with run_adapter(ground.settings(), "discord") as url:
        await server.discord.gateway.until(lambda: server.discord.gateway.connected == 1)
        assert (await ready_at(url))[0] == "ready"
        server.discord.revoke(server.app)
        await server.discord.gateway.drop(code=4004)
        async with asyncio.timeout(40):
            while (await ready_at(url))[0] == "ready":
                pass
        assert "token" in (await ready_at(url))[1]


async def test_39_a_bad_token_is_refused_at_the_start(
    server: Server,
    ground: Ground,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a sentence that says what to do, and without the token."""
    environment(monkeypatch, server, TOKEN="wrong.token.here")
    with pytest.raises(GatewayError, match="developer portal") as refused:
        async with ground.staged():
            pass
    assert "wrong.token" not in str(refused.value)


@pytest.mark.parametrize(("code", "said"), [(4014, "intents"), (4011, "2500 servers")])
async def test_40_refused_sessions_are_told_and_not_tried_for_ever(
    stage: Stage, code: int, said: str
) -> None:
    """Wrong intents, and too many servers for one connection: red with a sentence that says what to
    do; no further IDENTIFY, of which a day has only a thousand."""
    gateway = stage.server.discord.gateway
    gateway.refuse = code
    await gateway.drop(forget=True)
    async with asyncio.timeout(40):
        while (await ready(stage))[0] == "ready":
            await moment()
    assert said in (await ready(stage))[1]
    assert gateway.connected == 0


async def test_40_sessions_that_end_as_they_begin_do_not_use_up_the_day(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """discord.py would begin one every five seconds, and Discord reset the token after a thousand:
    here they are counted, it is said, and a restart of the line waits for the next one."""
    monkeypatch.setattr("adapters.discord.connection._SESSIONS_AT_ONCE", 1)
    gateway = stage.server.discord.gateway
    gateway.fickle = True
    await gateway.command(9, False)
    async with asyncio.timeout(40):
        while (await ready(stage))[0] == "ready":
            await moment()
    assert "too many sessions" in (await ready(stage))[1]
    assert gateway.identified == 1


async def test_41_events_nobody_understands_do_not_end_us(stage: Stage) -> None:
    """Unknown events, broken ones, and component types of the future (T5)."""
    gateway = stage.server.discord.gateway
    await gateway.send_raw("SOMETHING_NEW", {"x": 1})
    await gateway.send_raw("INTERACTION_CREATE", {"broken": True})
    await gateway.until(lambda: gateway.identified + gateway.resumed >= 2)
    record, card = await stage.asked()
    data = {"custom_id": buttons(card)["Approve"]["custom_id"], "component_type": 2, "id": 1}
    strange = {**card, "components": [*card["components"], {"type": 99, "id": 77}]}
    await stage.server.discord.raw(
        stage.server.app, stage.server.ann.user, stage.server.channel, data, message=strange
    )
    assert (await stage.ended(record)).status is Status.APPROVED


# --- HTTP ---------------------------------------------------------------------------------------


@pytest.fixture
async def pushed(
    server: Server,
    ground: Ground,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Stage]:
    """Run a gateway that gets its clicks over HTTP."""
    environment(monkeypatch, server, PUBLIC_KEY=server.app.verify_key)
    server.app.endpoint = "set in the portal"
    async with ground.staged() as stage:
        server.app.endpoint = f"{stage.gateway.url}/discord/interactions"
        yield stage


async def test_42_clicks_come_signed_over_http(pushed: Stage) -> None:
    """A button, a modal and a command, without any gateway connection; PING gets PONG."""
    server = pushed.server
    await approved(pushed)
    record, card = await pushed.asked()
    opened = await pushed.click(server.bob, card, "Deny")
    await server.bob.submit(opened, reason="über HTTP 🙂")
    assert (await pushed.ended(record)).status is Status.DENIED
    listed = await server.ann.command(server.app, server.channel, "pending")
    assert "You have no pending" in private_text(listed)
    assert server.discord.gateway.connections == 0
    assert {one.status for one in server.discord.pushes} == {202}
    pong = await server.discord.push(server.app, b'{ "type":1 ,"id":"1" }')
    assert (pong.status, json.loads(pong.body)) == (200, {"type": 1})
    # In so many bytes it comes in many pieces.
    long = await server.discord.push(server.app, b'{"type":1,"id":"' + b"1" * 900_000 + b'"}')
    assert long.status == 200


async def test_42_what_discord_did_not_sign_now_is_refused(pushed: Stage) -> None:
    """No signature, a bad one, another body, an old one, one from the future, and a replay."""
    server, fake = pushed.server, pushed.server.discord
    record, card = await pushed.asked()
    made, payload = fake.api.start(
        server.app,
        server.ann.user,
        server.channel,
        3,
        {"custom_id": buttons(card)["Approve"]["custom_id"], "component_type": 2, "id": 1},
        card,
    )
    body = json.dumps(payload).encode()
    now = fake.calendar.now_ms() // 1000
    for headers in (
        {"X_Signature_Ed25519": ""},
        {"X_Signature_Ed25519": "00" * 64},
        {"X_Signature_Ed25519": "zz"},
        {"X_Signature_Timestamp": ""},
        {"X_Signature_Timestamp": str(now - 1)},
    ):
        assert (await fake.push(server.app, body, **headers)).status == 401
    for stamp in (now - 600, now + 600):
        assert (await fake.push(server.app, body, at=str(stamp))).status == 401
    assert not (await pushed.core.requests.get(record.id)).final
    assert (await fake.push(server.app, body)).status == 202
    assert (await pushed.ended(record)).status is Status.APPROVED
    assert (await fake.push(server.app, body)).status == 401
    assert not made.failed or made.answered.is_set()


async def test_42_without_the_store_no_push_is_taken(
    pushed: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could tell then whether it came before: Discord and the person are told, by a 503."""
    server, fake = pushed.server, pushed.server.discord
    record, card = await pushed.asked()
    press = {"custom_id": buttons(card)["Approve"]["custom_id"], "component_type": 2, "id": 1}
    _, payload = fake.api.start(server.app, server.ann.user, server.channel, 3, press, card)
    monkeypatch.setattr("adapters.discord.connection._PUSH_NOTE_SECONDS", 0.05)
    redis = pushed.gateway.backend.store.redis
    await redis.execute_command("CLIENT", "PAUSE", "500", "ALL")
    assert (await fake.push(server.app, json.dumps(payload).encode())).status == 503
    assert (await pushed.core.requests.get(record.id)).status is Status.PENDING


async def test_42_a_push_that_trickles_is_cut_off(
    pushed: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read before its signature can be checked, so anybody may send it."""
    monkeypatch.setattr("gateway.domain.web_limits.SECONDS", 0.05)
    url = pushed.server.app.endpoint
    assert url is not None
    assert await announced(url, Content_Type="application/json") == 408


async def test_42_bodies_that_are_no_interactions(pushed: Stage) -> None:
    """Signed nonsense is a 400, more than a megabyte a 413; nothing breaks."""
    fake, app = pushed.server.discord, pushed.server.app
    for body in (b"", b"[]", b"{", b'{"type":3,"id":"9"}', b"\xff"):
        assert (await fake.push(app, body)).status == 400
    assert (await fake.push(app, b'{"type":1,"id":"' + b"1" * 1_048_576 + b'"}')).status == 413
    await approved(pushed)


async def test_43_a_stopping_gateway_answers_the_clicks_that_came(
    server: Server,
    ground: Ground,
) -> None:
    """The store is slow and the gateway is told to stop: the click is decided and answered."""
    async with ground.staged() as stage:
        record, card = await stage.asked()
        redis = stage.gateway.backend.store.redis
        await redis.execute_command("CLIENT", "PAUSE", "700", "ALL")
        click = await stage.click(server.ann, card, "Approve", wait=False)
        await stage.seen(lambda: discord_has(server, click.id))
    assert not (await server.ann.outcome(click)).failed
    await stage.seen(lambda: labels(card) == {"Details"})
    assert record.id


def discord_has(server: Server, interaction: str) -> bool:
    """Tell whether an interaction is on its way to a session, and give it a turn of the loop."""
    sent = (one for session in server.discord.gateway.sessions.values() for one in session.sent)
    return any(one["d"].get("id") == interaction for one in sent)


async def test_44_an_endpoint_set_in_the_portal_is_told_at_the_start(
    server: Server,
    ground: Ground,
) -> None:
    """Clicks would never come over the gateway: it refuses to start, and says what to do."""
    server.app.endpoint = "https://example.org/interactions"
    with pytest.raises(GatewayError, match="Interactions Endpoint URL"):
        async with ground.staged():
            pass
