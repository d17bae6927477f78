"""The counterpart's transports and people, against the real slack_bolt and Socket Mode client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from slack_sdk.web.async_client import AsyncWebClient

from tests.slack.counterpart.person import NotShown
from tests.slack.counterpart.slack import Slack
from tests.slack.test_counterpart import button, exact, modal, plain

Json = dict[str, Any]


def app_of(slack: Slack, client: AsyncWebClient, seen: list[Json]) -> AsyncApp:
    """Return a Bolt app that opens a modal on `deny`, and notes what it gets."""
    app = AsyncApp(client=client, signing_secret=slack.state.signing_secret)

    @app.action("approve")
    async def approve(ack: Any, body: Json) -> None:
        await ack()
        seen.append(body)

    @app.action("deny")
    async def deny(ack: Any, body: Json) -> None:
        await ack()
        field = {"type": "plain_text_input", "action_id": "why", "max_length": 10}
        block = {"type": "input", "block_id": "why", "label": plain("Why"), "element": field}
        view = modal(blocks=[block], submit=plain("Deny"), callback_id="deny")
        await client.views_open(trigger_id=body["trigger_id"], view=view)

    @app.view("deny")
    async def denied(ack: Any, body: Json) -> None:
        seen.append(body)
        typed = body["view"]["state"]["values"]["why"]["why"]["value"]
        if typed == "no":
            await ack(response_action="errors", errors={"why": "say more"})
        else:
            await ack()

    @app.command("/approvals")
    async def approvals(ack: Any, command: Json) -> None:
        seen.append(command)
        await ack("two wait")

    @app.event("app_home_opened")
    async def home(event: Json) -> None:
        await client.views_publish(user_id=event["user"], view=modal(type="home"))

    return app


@asynccontextmanager
async def by_socket(slack: Slack, app: AsyncApp, client: AsyncWebClient) -> AsyncIterator[Any]:
    """Run the app over Socket Mode."""
    handler: Any = AsyncSocketModeHandler(
        app, slack.state.app_token, web_client=client, ping_interval=1
    )
    await handler.connect_async()
    try:
        yield handler
    finally:
        await handler.close_async()


@asynccontextmanager
async def by_http(slack: Slack, app: AsyncApp) -> AsyncIterator[str]:
    """Run the app behind a web server that the counterpart calls."""

    async def events(request: web.Request) -> web.Response:
        headers: Any = {name: [value] for name, value in request.headers.items()}
        body = (await request.read()).decode()
        answer = await app.async_dispatch(AsyncBoltRequest(body=body, headers=headers))
        kind = answer.first_headers_without_set_cookie().get("content-type", "text/plain")
        return web.Response(
            status=answer.status, text=answer.body or "", content_type=kind.partition(";")[0]
        )

    site = web.Application()
    site.add_routes([web.post("/slack/events", events)])
    runner = web.AppRunner(site, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    slack.deliveries.request_url = f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events"
    try:
        yield slack.deliveries.request_url
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("transport", ["socket", "http"])
async def test_people_do_the_same_over_both_transports(
    slack: Slack, client: AsyncWebClient, transport: str
) -> None:
    """Click, modal, errors, command and Home reach a Bolt app with what a client sends."""
    seen: list[Json] = []
    app = app_of(slack, client, seen)
    running: Any = by_socket(slack, app, client) if transport == "socket" else by_http(slack, app)
    ann = slack.person("UANN")
    actions: Json = {"type": "actions", "elements": [button("Approve", "approve", value="v1:x")]}
    deny = {"type": "actions", "elements": [button("Deny…", "deny")]}
    async with running:
        await client.chat_postMessage(channel="C1", text="card", blocks=[exact("ls"), actions])
        await client.chat_postMessage(channel="C1", text="card", blocks=[exact("ls"), deny])
        first, second = slack.messages("C1")
        assert (await ann.click(first, "Approve")).ok
        await slack.until(lambda: seen)
        assert seen[0]["actions"][0]["value"] == "v1:x"
        assert seen[0]["message"]["ts"] == first.ts

        assert (await ann.click(second, "Deny…")).ok
        await slack.until(lambda: ann.has_modal)
        with pytest.raises(NotShown):
            await ann.submit()  # the client wants the field
        with pytest.raises(NotShown):
            ann.fill("Why", "x" * 11)
        ann.fill("Why", "no")
        await ann.submit()
        assert ann.modal.view["errors"] == {"why": "say more"}
        ann.fill("Why", "because")
        await ann.submit()
        assert not ann.has_modal

        assert (await ann.slash("/approvals", "list", "C1")).ok
        assert ann.private() == ["two wait"]
        await ann.open_home()
        assert await slack.until(lambda: slack.workspace().homes)
        assert ann.home["type"] == "home"


async def test_a_person_acts_only_on_what_is_shown(slack: Slack, client: AsyncWebClient) -> None:
    """No button that is hidden, gone, in a foreign channel, or not confirmed can be clicked."""
    secret = button("Approve", "approve", visible_to_user_ids=["UBOB"])
    confirm = {name: plain(name) for name in ("title", "text", "confirm", "deny")}
    sure = button("Sure", "sure", confirm=confirm)
    actions: Json = {"type": "actions", "elements": [secret, sure]}
    await client.chat_postMessage(channel="C1", text="card", blocks=[actions])
    (message,) = slack.messages("C1")
    ann, stranger = slack.person("UANN"), slack.person("UEVE")
    with pytest.raises(NotShown):
        await ann.click(message, "Approve")
    with pytest.raises(NotShown):
        await stranger.click(message, "Sure")
    ann.confirms = False
    with pytest.raises(NotShown):
        await ann.click(message, "Sure")


async def test_an_envelope_goes_to_exactly_one_socket(slack: Slack, client: AsyncWebClient) -> None:
    """Two connections share the clicks: each click arrives once."""
    first: list[Json] = []
    second: list[Json] = []
    actions: Json = {"type": "actions", "elements": [button("Approve", "approve")]}
    async with (
        by_socket(slack, app_of(slack, client, first), client),
        by_socket(slack, app_of(slack, client, second), client),
    ):
        await slack.until(lambda: len(slack.sockets.open) == 2)
        await client.chat_postMessage(channel="C1", text="card", blocks=[actions])
        for _ in range(4):
            await slack.person("UANN").click(slack.messages("C1")[0], "Approve")
        await slack.until(lambda: len(first) + len(second) == 4)
        assert (len(first), len(second)) == (2, 2)


async def test_a_socket_told_to_refresh_comes_back(slack: Slack, client: AsyncWebClient) -> None:
    """The SDK reconnects after `refresh_requested`, stays after `warning`, and no click is lost."""
    seen: list[Json] = []
    actions: Json = {"type": "actions", "elements": [button("Approve", "approve")]}
    async with by_socket(slack, app_of(slack, client, seen), client):
        await client.chat_postMessage(channel="C1", text="card", blocks=[actions])
        await slack.sockets.disconnect("warning")
        await slack.sockets.disconnect("refresh_requested")
        await slack.until(lambda: slack.sockets.connected == 2 and slack.sockets.open)
        assert (await slack.person("UANN").click(slack.messages("C1")[0], "Approve")).ok
        await slack.until(lambda: seen)


async def test_an_envelope_sent_twice_is_handled_twice_by_bolt(
    slack: Slack, client: AsyncWebClient
) -> None:
    """The trap: nothing in Bolt removes duplicates. Our adapter must."""
    seen: list[Json] = []
    actions: Json = {"type": "actions", "elements": [button("Approve", "approve")]}
    async with by_socket(slack, app_of(slack, client, seen), client):
        await client.chat_postMessage(channel="C1", text="card", blocks=[actions])
        (message,) = slack.messages("C1")
        ann = slack.person("UANN")
        payload = ann.payloads.on_message("C1", message, actions, actions["elements"][0])
        envelope = await slack.sockets.deliver("interactive", payload)
        await envelope.acked.wait()
        await slack.sockets.send(envelope)
        await slack.until(lambda: len(seen) == 2)
        assert (envelope.sent, envelope.acks) == (2, 2)


async def test_an_unsigned_or_stale_delivery_is_refused_by_bolt(
    slack: Slack, client: AsyncWebClient
) -> None:
    """What the counterpart signs passes; another secret or an old stamp does not."""
    async with by_http(slack, app_of(slack, client, [])):
        body = b"command=%2Fapprovals&team_id=T1&user_id=UANN&text="
        kind = "application/x-www-form-urlencoded"
        sign = slack.deliveries.signature
        for headers, status in (
            (sign(body), 200),
            (sign(body, secret="other"), 401),
            (sign(body, shift=-301), 401),
            ({}, 401),
        ):
            answer = await slack.deliveries.post(body, content_type=kind, headers=headers)
            assert answer[0] == status


async def test_a_click_nobody_acks_fails_for_the_person(
    slack: Slack, client: AsyncWebClient
) -> None:
    """A deaf connection: the client tells the person that the app did not respond."""
    actions: Json = {"type": "actions", "elements": [button("Approve", "approve")]}
    async with by_socket(slack, app_of(slack, client, []), client):
        await client.chat_postMessage(channel="C1", text="card", blocks=[actions])
        slack.sockets.deaf, slack.state.hands.grace = True, 0
        ann = slack.person("UANN")
        async with asyncio.timeout(40):
            ack = await ann.click(slack.messages("C1")[0], "Approve")
        assert not ack.ok
        assert ann.toasts


async def test_a_refused_app_token_gets_no_socket(slack: Slack, client: AsyncWebClient) -> None:
    """After a revocation apps.connections.open names the reason."""
    slack.sockets.refuses = "invalid_auth"
    answer = client.apps_connections_open(app_token=slack.state.app_token)
    with pytest.raises(Exception, match="invalid_auth"):
        await answer
