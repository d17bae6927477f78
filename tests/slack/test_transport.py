"""Sockets that come and go, deliveries that repeat, work that must finish: scenarios 35 to 41."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from pathlib import Path

import aiohttp
import pytest
from pydantic import SecretStr

from adapters.slack import SlackAdapter
from adapters.slack.clicks import ButtonActions
from adapters.slack.users_and_rights import UserDirectory
from adapters.slack.web_api import open_session
from gateway.domain.redaction import mask
from gateway.errors import GatewayError
from gateway.models import Status
from gateway.server.app import run_adapter, run_gateway
from gateway.server.settings import Settings
from tests.ports import free_port
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.office import ROUTE, Office, at_work, environment, form, put_in_force, shown, told
from tests.slack.test_authenticity import payload_of
from tests.waiting import moment
from tests.world import SEED, World, click


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
async def test_35_a_reconnect_loses_no_click(office: Office, reason: str) -> None:
    """Slack takes the socket away in the middle of clicks: all of them count."""
    asked = [await office.asked(arguments={"command": f"ls {n}"}) for n in range(3)]
    before = office.slack.sockets.connected
    await office.ann.click(asked[0][1], "Approve")
    await office.slack.sockets.disconnect(reason)
    await office.slack.until(lambda: office.slack.sockets.connected > before)
    for _, message in asked[1:]:
        assert (await office.ann.click(message, "Approve")).ok
    for record, _ in asked:
        assert (await office.ended(record)).status is Status.APPROVED
    assert office.slack.sockets.connected == before + 1  # a second one would end the first


@pytest.mark.parametrize("reason", ["link_disabled", "invalid_auth"])
async def test_36_a_revoked_connection_turns_readiness_red(office: Office, reason: str) -> None:
    """Slack refuses the app token: the gateway says why, and is not ready."""
    assert not office.adapter.problems
    office.slack.sockets.refuses = reason
    await office.slack.sockets.disconnect("link_disabled")
    async with asyncio.timeout(40):
        while not any(reason in one for one in office.adapter.problems):
            await office.slack.until(lambda: True)
            await moment()
    assert office.adapter.problems[0].startswith("Slack: ")


async def test_36_a_revoked_token_fails_requests_closed(slack: Slack, world: World) -> None:
    """The bot token is revoked: nothing is delivered, and the agent is told."""
    async with at_work(slack, world, steps=True) as office:
        slack.workspace().error = "token_revoked"
        done = await office.ended(await office.ask())
        assert done.status is Status.DENIED
        assert (await office.until_event("undelivered")).data[
            "why"
        ] == "Slack returned the error token_revoked"


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"GATEWAY_SLACK_APP_TOKEN": "xapp-wrong"}, "invalid_auth"),
        ({"GATEWAY_SLACK_BOT_TOKEN": "xoxb-wrong"}, "invalid_auth"),
    ],
)
async def test_36_wrong_tokens_stop_the_start(
    slack: Slack, world: World, env: dict[str, str], said: str
) -> None:
    """A wrong token is told at the start, not in the log of a loop."""
    with pytest.raises(GatewayError, match=said):
        async with at_work(slack, world, env=env):
            pass


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.HTML, Fault.DROPPED])
async def test_36_slack_may_be_away_at_the_start(slack: Slack, world: World, fault: Fault) -> None:
    """The gateway starts and says so; when Slack is back it connects, and what was asked meanwhile
    is shown and answered."""
    adapter = SlackAdapter()
    adapter.token_seconds = 0.2
    away = ("auth.test", "apps.connections.open")
    for method in away:
        slack.faults.plan(method, fault, times=1000)
    async with at_work(slack, world, adapter=adapter) as office:
        assert len(adapter.problems) == 2
        record = await office.ask()
        await slack.until(lambda: len(slack.faults.happened) > 8)
        assert (await world.core.requests.get(record.id)).status is Status.PENDING
        slack.faults.planned.clear()
        await slack.until(lambda: slack.messages("C1"), seconds=30)
        async with asyncio.timeout(30):
            while adapter.problems:
                await moment()
        (message,) = slack.messages("C1")
        await office.ann.click(message, "Approve")
        assert (await office.ended(record)).status is Status.APPROVED


@pytest.mark.parametrize("begun", [False, True])
async def test_a_limit_on_connecting_is_kept(slack: Slack, world: World, begun: bool) -> None:
    """Slack says when to ask again for a connection: the adapter, and the library within it, ask no
    sooner, at the start and after a disconnect; then it connects."""
    tries: list[float] = []

    def note(_: object) -> bool:
        tries.append(asyncio.get_running_loop().time())
        return True

    adapter = SlackAdapter()
    if not begun:
        slack.faults.plan("apps.connections.open", Fault.LIMITED, times=2, fits=note)
    async with at_work(slack, world, adapter=adapter):
        if begun:
            slack.faults.plan("apps.connections.open", Fault.LIMITED, times=2, fits=note)
            await slack.sockets.disconnect("link_disabled")
        before = slack.sockets.connected
        await slack.until(lambda: len(tries) == 2 and slack.sockets.connected > before)
        await until(adapter, red=False)
    assert tries[1] - tries[0] > 0.99  # Retry-After is one second


async def test_37_the_same_envelope_twice_has_one_effect(office: Office) -> None:
    """A click and the opening of a form, each delivered twice: one decision, one form."""
    record, message = await office.asked()
    payload = payload_of(office, message)
    envelope = await office.slack.sockets.deliver("interactive", payload)
    await envelope.acked.wait()
    await office.slack.sockets.send(envelope)
    await office.slack.sockets.deliver("interactive", payload, retry=1)
    assert (await office.ended(record)).status is Status.APPROVED
    await office.slack.until(lambda: envelope.acks == 2)
    await office.settled()
    assert office.ann.private() == []
    _, message = await office.asked()
    block, button = office.ann.buttons(message.blocks)[1]
    opening = office.ann.payloads.on_message("C1", message, block, button)
    await asyncio.gather(*(office.slack.deliveries.interaction(opening) for _ in range(3)))
    await form(office.ann, "deny")
    assert len(office.slack.state.called("views.open")) == 1


async def test_38_a_failing_handler_still_answers(
    office: Office, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever breaks: the click is acked, the person told, and the log says where; nothing
    private."""
    record, message = await office.asked()

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("xoxb-T1-secret broke")

    monkeypatch.setattr(ButtonActions, "approve", broken)
    assert (await office.ann.click(message, "Approve")).ok
    await told(office.ann, "Something went wrong; probably nothing was recorded")
    assert "not done: RuntimeError in broken:" in caplog.text
    monkeypatch.undo()
    monkeypatch.setattr(UserDirectory, "find_member", broken)
    await office.bob.click(message, "Deny…")
    await office.slack.until(lambda: "nothing was recorded" in office.modal_says(office.bob))
    assert (await office.api.requests.get(record.id)).status is Status.PENDING
    assert "xoxb" not in caplog.text


async def test_44_unknown_and_older_buttons_get_a_polite_answer(office: Office) -> None:
    """A button of an older version: acked, and the person is told that it is gone."""
    _, message = await office.asked()
    payload = payload_of(office, message)
    payload["actions"][0]["action_id"] = "an_old_action"
    assert (await office.slack.deliveries.interaction(payload)).ok
    await told(office.ann, "This request is no longer available.")


async def test_39_leaving_waits_for_clicks_in_flight(slack: Slack, world: World) -> None:
    """SIGTERM while Slack is slow to say who clicked: the click still counts."""
    async with at_work(slack, world) as office:
        record, message = await office.asked()
        slack.faults.plan("users.info", Fault.LIMITED)
        assert (await office.ann.click(message, "Approve")).ok
        assert office.adapter.busy
    done = await world.core.requests.get(record.id)
    assert done.status is Status.APPROVED


async def test_40_a_socket_that_does_not_pong_is_replaced(office: Office) -> None:
    """No pong: the connection is given up and made anew."""
    before = office.slack.sockets.connected
    office.slack.sockets.mute = True
    await office.slack.until(lambda: office.slack.sockets.connected > before, seconds=30)
    office.slack.sockets.mute = False


async def test_40_a_silent_socket_is_replaced_too(slack: Slack, world: World) -> None:
    """Connected, but nothing has come for long: it may be deaf, so it is made anew."""
    adapter = SlackAdapter()
    adapter.idle_seconds = 0.1
    async with at_work(slack, world, adapter=adapter):
        await slack.until(lambda: slack.sockets.connected >= 2, seconds=20)


async def test_40_a_mute_socket_keeps_us_red(office: Office) -> None:
    """Nobody answers pings: not ready, also while the next such connection looks well for a moment;
    ready when they are answered again."""
    adapter, sockets = office.adapter, office.slack.sockets
    sockets.mute = True
    await until(adapter, red=True)
    before = sockets.connected
    while sockets.connected < before + 2:
        await moment()
        assert adapter.problems
    sockets.mute = False
    await until(adapter, red=False)


async def test_40_a_token_refused_in_the_quiet_is_seen(slack: Slack, world: World) -> None:
    """Nothing comes, the socket stands, and Slack would give us no other: not ready, then again.
    That Slack is away for a moment is no reason, as the socket stands."""
    adapter = SlackAdapter()
    adapter.idle_seconds = 0.1
    async with at_work(slack, world, adapter=adapter):
        slack.faults.plan("apps.connections.open", Fault.HTML)
        await slack.until(lambda: slack.faults.happened)
        before = slack.sockets.connected
        await slack.until(lambda: slack.sockets.connected > before)
        assert not adapter.problems
        for _ in range(2):
            slack.sockets.refuses = "invalid_auth"
            await until(adapter, red=True)
            assert adapter.problems == ["Slack: Slack rejects the app token (invalid_auth)"]
            assert mask(adapter.problems) == adapter.problems, "the log shows the code"
            slack.sockets.refuses = ""
            await until(adapter, red=False)


@pytest.mark.parametrize("mode", ["socket", "http"])
async def test_36_a_revoked_bot_token_turns_readiness_red(
    slack: Slack, world: World, mode: str
) -> None:
    """The socket stands, or there is none, but nothing can be posted: said; a Slack that is away
    for a moment is no reason; well again with the token."""
    adapter = SlackAdapter()
    adapter.token_seconds = 0.2
    async with at_work(slack, world, adapter=adapter, env={"GATEWAY_SLACK_MODE": mode}):
        slack.faults.plan("auth.test", Fault.HTML, times=2)
        await slack.until(lambda: len(slack.faults.happened) > 1)
        assert not adapter.problems
        slack.workspace().error = "token_revoked"
        await until(adapter, red=True)
        assert adapter.problems == ["Slack: Slack rejects the bot token (token_revoked)"]
        assert mask(adapter.problems) == adapter.problems, "the log shows the code"
        slack.workspace().error = None
        await until(adapter, red=False)


async def until(adapter: SlackAdapter, *, red: bool) -> None:
    """Wait until the adapter has problems, or none."""
    async with asyncio.timeout(40):
        while bool(adapter.problems) is not red:
            await moment()


async def test_41_every_interaction_is_acked_at_once(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack's directory hangs: no click, command or form waits for it before it is acked."""
    # Longer than this Slack waits.
    monkeypatch.setattr("adapters.slack.users_and_rights._CHECK_SECONDS", 100)
    asked = [await office.asked(arguments={"command": f"ls {n}"}) for n in range(2)]
    office.slack.faults.plan("users.info", Fault.HANGS, times=20)
    for _, message in asked:
        await office.ann.click(message, "Approve")
        await office.bob.click(message, "More…")
    await office.ann.slash("/approvals", "list", "C1")
    assert all(ack.ok for ack in office.slack.deliveries.acks)
    office.slack.faults.hangs_end.set()


async def test_41_a_slow_modal_gets_one_moment_and_then_the_truth(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The submitted form is answered before the decision is recorded; what came of it follows."""
    monkeypatch.setattr("adapters.slack.app.PATIENCE_SECONDS", 0.05)
    record, message = await office.asked()
    await office.bob.click(message, "Deny…")
    await form(office.bob, "deny")
    office.slack.faults.plan("users.info", Fault.LIMITED)
    assert (await office.bob.submit()).ok
    assert "Recording it" in office.modal_says(office.bob)
    await office.slack.until(lambda: "was recorded" in office.modal_says(office.bob))
    assert (await office.ended(record)).status is Status.DENIED


async def test_48_logs_hold_no_tokens_addresses_or_texts(
    slack: Slack, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """All levels, a working day with refusals and failures: none of it stands in the log."""
    caplog.set_level(logging.DEBUG)
    async with at_work(slack, world) as office:
        record, message = await office.asked(arguments={"command": "swordfish"})
        slack.faults.plan("chat.update", Fault.HTML)
        await slack.deliveries.interaction({"type": "block_actions", "nonsense": "swordfish"})
        stranger = {**payload_of(office, message), "team": {"id": "T9"}}
        await slack.deliveries.interaction(stranger)
        await office.ann.slash("/approvals", "approve swordfish", "C1")
        await world.core.requests.decide(click(record))
        await slack.sockets.disconnect("refresh_requested")
        await slack.until(lambda: slack.sockets.connected > 1)
    for secret in ("xoxb-", "xapp-", "swordfish", "/response/", "/link/"):
        assert secret not in caplog.text
    triggers = [name for name in slack.state.triggers if name in caplog.text]
    assert not triggers


def test_settings_that_do_not_go_together_are_refused(slack: Slack) -> None:
    """Each missing or contradicting setting is named."""
    from adapters.slack.settings import SlackSettings  # noqa: PLC0415 (reads the environment)

    by_oauth = {"BOT_TOKEN": "", "CLIENT_ID": "1", "CLIENT_SECRET": "2"}
    cases = (
        ({"APP_TOKEN": ""}, "GATEWAY_SLACK_APP_TOKEN"),
        ({"BOT_TOKEN": ""}, "GATEWAY_SLACK_BOT_TOKEN"),
        ({"MODE": "http", "SIGNING_SECRET": ""}, "GATEWAY_SLACK_SIGNING_SECRET"),
        ({"CLIENT_ID": "1", "CLIENT_SECRET": "2"}, "not both"),
        ({"MODE": "http"}, "GATEWAY_PUBLIC_URL"),
        (by_oauth, "GATEWAY_PUBLIC_URL"),
    )
    for changes, said in cases:
        env = {f"GATEWAY_SLACK_{name}": value for name, value in changes.items()}
        with environment(slack, **env), pytest.raises(GatewayError, match=said):
            SlackSettings().refuse_incomplete()
    assert SlackAdapter().name == "slack"


async def test_36_the_gateway_is_degraded_while_slack_is_refused(
    slack: Slack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole gateway: ready with Slack connected, degraded with the reason once Slack refuses it,
    since people still answer elsewhere."""
    monkeypatch.setattr(SlackAdapter, "ping_seconds", 0.5)
    settings = Settings(data_dir=tmp_path / "data", port=0, adapters=("slack",))
    with environment(slack):
        async with run_gateway(settings) as gateway, aiohttp.ClientSession() as http:

            def readiness() -> Awaitable[aiohttp.ClientResponse]:
                return http.get(f"{gateway.url}/readyz")

            async def metrics() -> str:
                return await (await http.get(f"{gateway.url}/metrics")).text()

            assert (await (await readiness()).json())["status"] == "ready"
            assert 'gateway_adapter_up{adapter="slack"} 1.0' in await metrics()
            slack.sockets.refuses = "invalid_auth"
            await slack.sockets.disconnect("link_disabled")
            async with asyncio.timeout(40):
                while "problems" not in (said := await (await readiness()).json()):
                    await moment()
            assert said["status"] == "degraded"
            assert said["problems"] == ["Slack: Slack rejects the app token (invalid_auth)"]
            assert (await readiness()).status == 200
            assert 'gateway_adapter_up{adapter="slack"} 0.0' in await metrics()


async def test_an_adapter_of_its_own_is_reached_over_http(
    slack: Slack, world: World, server_url: str, namespace: str, tmp_path: Path
) -> None:
    """`gateway adapter slack` in mode http serves what Slack posts to, and its own readiness."""
    await put_in_force(world, ROUTE)
    settings = Settings(
        data_dir=tmp_path / "data",
        port=free_port(),
        namespace=namespace,
        REDIS_URL=SecretStr(server_url),
        signing_key=SecretStr(SEED),
    )
    public = f"http://127.0.0.1:{settings.port}"
    with environment(slack, GATEWAY_SLACK_MODE="http", GATEWAY_PUBLIC_URL=public):
        async with run_adapter(settings, "slack") as url, aiohttp.ClientSession() as http:
            slack.deliveries.request_url = f"{url}/slack/events"
            record = await world.submit()
            await world.until(lambda events: any(one.type == "delivered" for one in events))
            (message,) = slack.messages("C1")
            await slack.person("UANN").click(message, "Approve")
            await slack.until(lambda: "Approved by ann" in shown(message))
            assert (await world.core.requests.get(record.id)).final
            assert (await http.get(f"{url}/readyz")).status == 200
            assert (await http.post(f"{url}/slack/events")).status in (400, 401)
            assert (await http.get(f"{url}/v1/requests")).status == 404


async def test_answers_go_to_slack_alone(office: Office) -> None:
    """A response_url of another host is not called; the person is told by the Web API instead."""
    _, message = await office.asked()
    payload = payload_of(office, message)
    payload["actions"][0]["action_id"] = "an_old_action"
    payload["response_url"] = "http://localhost:1/response/r1"
    await office.slack.deliveries.interaction(payload)
    await told(office.ann, "This request is no longer available.")
    assert len(office.slack.state.called("chat.postEphemeral")) == 1


async def test_all_of_slack_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads and private replies too, which are no calls of the SDK."""
    heard: list[str] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.readline()).decode())
        writer.write(b"HTTP/1.1 502 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        async with open_session() as session, session.get("http://slack.test/up") as answer:
            assert answer.status == 502
    assert heard == ["GET http://slack.test/up HTTP/1.1\r\n"]
