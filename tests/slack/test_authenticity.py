"""Only Slack, our app, our workspace and our own cards are believed: scenarios 13 to 17."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request, Response
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult

from adapters.slack.app import PATH, HttpReceiver
from adapters.slack.payloads import (
    NO_COPY,
    Actor,
    Interaction,
    Malformed,
    ModalMetadata,
    SlackButton,
    read_button,
    read_metadata,
)
from gateway.models import Status, new_id
from tests.clocks import ShiftedClock
from tests.slack.counterpart.deliveries import form as form_body
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import BUTTONS, Office, at_work, form, labels
from tests.waiting import announced
from tests.world import World

Json = dict[str, Any]
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
async def web(slack: Slack, world: World) -> AsyncIterator[Office]:
    """Yield a gateway at work over signed HTTP."""
    async with at_work(slack, world, env={"GATEWAY_SLACK_MODE": "http"}) as made:
        yield made


def click_body(office: Office, message: Message, **changes: Any) -> bytes:
    """Return the body of ann's click on Approve."""
    payload = {**payload_of(office, message), **changes}
    return form_body("interactive", payload)[0]


def payload_of(office: Office, message: Message) -> Json:
    """Return the payload of ann's click on Approve."""
    block, button = next(
        pair for pair in office.ann.buttons(message.blocks) if pair[1]["text"]["text"] == "Approve"
    )
    return office.ann.payloads.on_message("C1", message, block, button)


async def still_waits(office: Office, request_id: str) -> None:
    """Check that nothing was decided, once all that was delivered has been worked on."""
    await office.settled()
    assert (await office.api.requests.get(request_id)).status is Status.PENDING


async def test_people_decide_over_http_as_over_sockets(web: Office) -> None:
    """Card, click, modal, command and Home work over signed HTTP."""
    record, message = await web.asked()
    await web.bob.click(message, "Deny…")
    await form(web.bob, "deny")
    await web.bob.submit()
    assert (await web.ended(record)).status is Status.DENIED
    assert (await web.ann.slash("/approvals", "list", "C1")).ok
    await web.slack.until(lambda: "You have no pending requests." in web.ann.private())
    assert (await web.ann.open_home()).ok
    assert await web.slack.until(lambda: web.slack.workspace().homes)


async def test_13_unsigned_stale_and_future_deliveries_are_refused(web: Office) -> None:
    """401 or 400 for each, no traceback, and nothing is decided."""
    record, message = await web.asked()
    body = click_body(web, message)
    good = web.slack.deliveries.signature(body)
    bad: list[dict[str, str]] = [
        {},
        {"X-Slack-Signature": good["X-Slack-Signature"]},
        {"X-Slack-Request-Timestamp": good["X-Slack-Request-Timestamp"]},
        {**good, "X-Slack-Signature": "v0=00"},
        {**good, "X-Slack-Request-Timestamp": "yesterday"},
        {**good, "X-Slack-Request-Timestamp": "²"},
        {**good, "X-Slack-Request-Timestamp": "-1"},
        {**good, "X-Slack-Request-Timestamp": "9" * 40},
        web.slack.deliveries.signature(body, secret="another"),
        web.slack.deliveries.signature(body, shift=-301),
        web.slack.deliveries.signature(body, shift=302),
    ]
    for headers in bad:
        status, _ = await web.slack.deliveries.post(body, content_type=FORM, headers=headers)
        assert status == 401
    await still_waits(web, record.id)


async def test_13_the_receiver_lets_nothing_else_through(slack: Slack) -> None:
    """It counts neither on Bolt's own check nor on the machine's clock instead of the gateway's.

    Bolt checks nothing here, and answers what reaches it with 404.
    """
    bolt = AsyncApp(
        authorize=_nobody, request_verification_enabled=False, ssl_check_enabled=False
    )  # fmt: skip
    clock, app = ShiftedClock(), Application()
    app.add_routes(HttpReceiver(bolt, slack.state.signing_secret, clock).routes())
    async with TestClient(TestServer(app)) as client:
        for secret, clock.ahead, status in (
            ("", 0, 404), ("another", 0, 401), ("", 302, 401), ("", -302, 401),
        ):  # fmt: skip
            body = form_body("interactive", {"type": "none", "case": f"{secret} {clock.ahead}"})
            headers = {**slack.deliveries.signature(body[0], secret=secret), "Content-Type": FORM}
            answer = await client.post(PATH, data=body[0], headers=headers)
            assert answer.status == status, (secret, clock.ahead)


async def _nobody() -> AuthorizeResult:
    return AuthorizeResult(enterprise_id=None, team_id="T1", bot_token="none", bot_user_id="none")


async def test_13_an_ssl_check_does_not_get_around_the_signature(web: Office) -> None:
    """Neither form field nor payload member `ssl_check` lets an unsigned click through."""
    record, message = await web.asked()
    for body in (
        click_body(web, message, ssl_check="1"),
        click_body(web, message) + b"&ssl_check=1",
    ):
        status, _ = await web.slack.deliveries.post(body, content_type=FORM, headers={})
        assert status == 401
    await still_waits(web, record.id)


async def test_14_a_replayed_delivery_has_no_second_effect(web: Office) -> None:
    """The very same signed bytes are refused the second time."""
    _, message = await web.asked()
    body = click_body(web, message)
    headers = web.slack.deliveries.signature(body)
    first = await web.slack.deliveries.post(body, content_type=FORM, headers=headers)
    second = await web.slack.deliveries.post(body, content_type=FORM, headers=headers)
    assert (first[0], second[0]) == (200, 401)


async def test_15_a_delivery_that_trickles_is_cut_off(
    web: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read before its signature can be checked, so anybody may send it."""
    monkeypatch.setattr("gateway.domain.web_limits.SECONDS", 0.05)
    url = web.slack.deliveries.request_url
    assert url is not None
    assert await announced(url, Content_Type=FORM) == 408


async def test_15_malformed_deliveries_are_refused(web: Office) -> None:
    """Broken JSON, doubled keys, a huge body and a wrong type: 400 or 413, though signed."""
    record, message = await web.asked()
    payload = json.dumps(payload_of(web, message))
    doubled = payload[:-1] + ', "user": {"id": "UBOB", "team_id": "T1"}}'
    cases: list[tuple[bytes, str, int]] = [
        (b"payload=%7Bnot+json", FORM, 400),
        (b"payload=%5B%5D", FORM, 400),
        (urlencode({"payload": doubled}).encode(), FORM, 400),
        (urlencode([("payload", payload), ("payload", payload)]).encode(), FORM, 400),
        (b"\xff\xfe", FORM, 400),
        (b"payload=" + b"x" * 1_100_000, FORM, 413),
        (payload.encode(), "text/plain", 400),
        (b"{}{}", "application/json", 400),
    ]
    for body, kind, wanted in cases:
        status, _ = await web.slack.deliveries.post(body, content_type=kind)
        assert status == wanted, body[:60]
    await still_waits(web, record.id)


@pytest.mark.parametrize(
    "change",
    [
        {"team": {"id": "T9"}},
        {"team": None},
        {"api_app_id": "A0OTHER"},
        {"api_app_id": ""},
        {"user": {"id": "UANN"}},
        {"user": {"id": "UANN", "team_id": "T9"}},
        {"actions": []},
    ],
)
async def test_16_other_workspaces_and_apps_are_refused(office: Office, change: Json) -> None:
    """A payload of another team, another app or nobody in particular decides nothing."""
    record, message = await office.asked()
    ack = await office.slack.deliveries.interaction({**payload_of(office, message), **change})
    assert ack.ok or "actions" in change
    await still_waits(office, record.id)


async def test_17_button_value_tampered(office: Office) -> None:
    """Unknown versions, foreign ids, wrong revisions and wrong copies decide nothing."""
    record, message = await office.asked()
    other, second = await office.asked(arguments={"command": "pwd"})
    (copy,) = (await office.world.core.outbox.copies(record.id)).values()
    for value in (
        "",
        "v1",
        f"v2:{record.id}:{record.revision}:{copy.nonce}",
        f"v1:{record.id}:{record.revision}:{copy.nonce}:more",
        f"v1:{new_id()}:{record.revision}:{copy.nonce}",
        f"v1:{record.id}:{record.revision + 5}:{copy.nonce}",
        f"v1:{record.id}:{record.revision}:none",
        f"v1:{record.id}:{record.revision}:{'0' * 22}",
    ):
        payload = payload_of(office, message)
        payload["actions"][0]["value"] = value
        assert (await office.slack.deliveries.interaction(payload)).ok
    misplaced = payload_of(office, message)
    misplaced["container"]["message_ts"] = second.ts
    await office.slack.deliveries.interaction(misplaced)
    elsewhere = payload_of(office, message)
    elsewhere["container"]["channel_id"] = "C7"
    await office.slack.deliveries.interaction(elsewhere)
    await still_waits(office, record.id)
    await still_waits(office, other.id)
    assert len(await office.events("refused")) >= 3
    assert labels(office.ann, message) == BUTTONS


async def test_17_a_reply_goes_to_slack_alone(office: Office) -> None:
    """An address of another host in a payload is not called: the person is told the other way."""
    called: list[str] = []

    async def take(request: Request) -> Response:
        called.append(request.path)
        return Response()

    _, message = await office.asked()
    app = Application()
    app.router.add_post("/{path:.*}", take)
    async with TestServer(app) as elsewhere:
        payload = payload_of(office, message)
        payload["actions"][0]["value"] = f"v1:{new_id()}:1:none"
        payload["response_url"] = f"http://localhost:{elsewhere.port}/actions/T1/1/abc"
        assert (await office.slack.deliveries.interaction(payload)).ok
        await office.settled()
        assert called == []
    assert office.ann.private()


def test_17_a_button_counts_where_it_was_posted() -> None:
    """In a modal it is of the request that the modal shows, and that of a copy stands on a card."""
    shown, other = (SlackButton(new_id(), 1, "ab12") for _ in range(2))
    metadata = ModalMetadata(shown.request_id, 1, "ab12").encode()
    modal: Json = {"type": "modal", "private_metadata": metadata}
    nowhere = {"type": "home"}
    for view, message, button, counts in (
        (modal, "", shown, True), (modal, "", other, False),
        (nowhere, "", SlackButton(new_id(), 1, NO_COPY), True), (nowhere, "", shown, False),
        ({}, "1.2", shown, True),
    ):  # fmt: skip
        did = Interaction(
            actor=Actor("T1", "UANN", "T1"), app_id="A", nonce="n", trigger_id="t",
            message=message, value=button.encode(), view=view,
        )  # fmt: skip
        if counts:
            assert did.form().button == button
        else:
            with pytest.raises(Malformed):
                did.form()


def test_17_values_are_read_strictly() -> None:
    """What a button carries round-trips, and nothing else is read."""
    button = SlackButton(new_id(), 3, "ab12")
    assert read_button(button.encode()) == button
    for value in (None, 3, "", "v1::1:a", button.encode() + " ", button.encode().upper()):
        with pytest.raises(Malformed):
            read_button(value)
    for metadata in (None, "", "[]", "{}", '{"v": 2}', '{"v":1,"request_id":"x"}'):
        with pytest.raises(Malformed):
            read_metadata(metadata)
