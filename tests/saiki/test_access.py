"""Who may connect and answer: nobody unknown, no foreign page, and only as long as they may."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest

from adapters.saiki.adapter import BEAT_SECONDS, MOST_OF_SESSION, ORIGINS, read_origins
from gateway.errors import Misconfigured
from gateway.models import Status
from tests.saiki.site import LOGIN, PATH, Ui, site, token_of, ui
from tests.web.inbox import Inbox

FOREIGN = "https://example.invalid"


async def execution_of(box: Inbox) -> str:
    """Ask, and return the `executionId`."""
    return f"{(await box.ask()).id}.1"


async def still_waits(box: Inbox, execution: str) -> bool:
    """Whether nobody decided it."""
    found = await box.gateway.core.requests.get(execution.partition(".")[0])
    return found.status is Status.PENDING


async def refused(ui: Ui, **headers: str) -> int:
    """Return the status with which a WebSocket is refused."""
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        async with ui.connect(**headers):
            pass
    return error.value.status


async def test_anonymous_callers_see_and_decide_nothing(box: Inbox) -> None:
    """No WebSocket opens, no POST decides, whatever token they make up."""
    execution = await execution_of(box)
    async with aiohttp.ClientSession() as http:
        for headers in ({}, {"Authorization": "Bearer guessed"}, {"Authorization": "Basic eA=="}):
            nobody = Ui(http, box.gateway.url, "")
            assert await refused(nobody, **headers) == 401
            assert (await nobody.post(execution, {"approved": True}, **headers))[0] == 401
    assert await still_waits(box, execution)


async def test_pages_of_other_origins_are_refused(box: Inbox, ann: Ui) -> None:
    """With a bearer token as with a cookie; our own origin passes."""
    execution = await execution_of(box)
    ours = box.gateway.url
    for origin in (FOREIGN, "null", ours.replace("http:", "https:")):
        assert await refused(ann, Origin=origin) == 403
        assert (await ann.post(execution, {"approved": True}, Origin=origin))[0] == 403
    assert await still_waits(box, execution)
    assert (await ann.post(execution, {"approved": True}, Origin=ours))[0] == 200


async def test_a_cookie_counts_only_beside_an_origin(box: Inbox) -> None:
    """A signed-in browser says where a page is from; what does not is no browser's page."""
    url, execution = box.gateway.url, await execution_of(box)
    jar = aiohttp.CookieJar(unsafe=True)
    code = await box.gateway.backend.logins.invite("ann")
    async with aiohttp.ClientSession(cookie_jar=jar) as http:
        answer = await http.post(f"{url}{LOGIN}", json={"code": code}, headers={"Origin": url})
        kept = answer.headers["Set-Cookie"]
        assert "HttpOnly" in kept
        assert "SameSite=Strict" in kept
        page = Ui(http, url, "")
        assert await refused(page) == 401
        assert (await page.post(execution, {"approved": True}))[0] == 401
        assert (await page.post(execution, {"approved": True}, Origin=FOREIGN))[0] == 403
        assert await still_waits(box, execution)
        async with page.connect(Origin=url) as screen:
            assert (await screen.next())["executionId"] == execution
        assert (await page.post(execution, {"approved": True}, Origin=url))[0] == 200


async def test_a_login_code_works_once_and_from_no_foreign_page(box: Inbox) -> None:
    """Nobody is signed in by another site, nor by a code that was used or made up."""
    code = await box.gateway.backend.logins.invite("ann")
    login = f"{box.gateway.url}{LOGIN}"
    async with aiohttp.ClientSession() as http:
        for body, headers, status in (
            ({"code": code}, {"Origin": FOREIGN}, 403),
            ({"code": 7}, {}, 422),
            ([], {}, 422),
            ({"code": "made up"}, {}, 403),
            ({"code": code}, {}, 200),
            ({"code": code}, {}, 403),
        ):
            answer = await http.post(login, json=body, headers=headers)
            assert answer.status == status, body


async def test_signing_out_ends_connections_and_answers(box: Inbox, ann: Ui) -> None:
    """At once; the token is worth nothing any more."""
    execution = await execution_of(box)
    async with ann.connect() as screen:
        await screen.next()
        answer = await ann.http.delete(f"{ann.url}{LOGIN}")
        assert answer.status == 200
        await screen.closed(within=BEAT_SECONDS / 2)
    assert (await ann.post(execution, {"approved": True}))[0] == 401
    assert await still_waits(box, execution)


async def test_who_was_signed_out_elsewhere_decides_nothing(box: Inbox, ann: Ui) -> None:
    """The session is looked up for every frame, not only when the WebSocket opened."""
    async with ann.connect() as screen:
        await box.ask()
        execution = (await screen.next())["executionId"]
        await box.gateway.backend.logins.end(ann.token)
        await screen.emit({"executionId": execution, "approved": True})
        frame = await screen.socket.receive(20)
        assert frame.type is not aiohttp.WSMsgType.TEXT or "no longer signed in" in frame.data
    assert await still_waits(box, execution)


async def test_who_is_no_approver_sees_and_decides_nothing(box: Inbox, ann: Ui) -> None:
    """A person whom the route does not name is shown nothing, and their yes is refused."""
    async with ui(box, "eve") as eve, eve.connect() as hers, ann.connect() as screen:
        await box.ask()
        execution = (await screen.next())["executionId"]
        assert (await eve.post(execution, {"approved": True}))[0] == 403
        await hers.emit({"executionId": execution, "approved": True})
        assert "error" in await hers.next("error")
    assert await still_waits(box, execution)


RUBBISH = (
    "rubbish",
    "[]",
    "{}",
    '{"type": "toolConfirmationResponse"}',
    '{"type": "toolConfirmationRequest", "data": {}}',
    '{"type": "toolConfirmationResponse", "data": []}',
    '{"type": "toolConfirmationResponse", "data": {"executionId": "%s"}}',
    '{"type": "toolConfirmationResponse", "data": {"executionId": "%s", "approved": "true"}}',
    '{"type": "toolConfirmationResponse", "data": {"executionId": "%s", "approved": 1}}',
    '{"type": "toolConfirmationResponse", "data": {"executionId": ["%s"], "approved": true}}',
    '{"type": "toolConfirmationResponse", "data": '
    '{"executionId": "%s", "approved": true, "rememberChoice": true, "sessionId": null}}',
    '{"type": "toolConfirmationResponse", "data": '
    '{"executionId": "%s", "approved": true, "sessionId": "another"}}',
    '{"type": "toolConfirmationResponse", "data": '
    '{"executionId": "%s", "approved": false, "approved": true}}',
    '{"type": "toolConfirmationResponse", "data": '
    '{"executionId": "%s", "approved": true, "force": true}}',
    "[" * 5000,
)


async def test_rubbish_is_answered_and_approves_nothing(box: Inbox, ann: Ui) -> None:
    """Every frame that is not understood whole gets an error frame, and the connection goes on."""
    async with ann.connect() as screen:
        await box.ask()
        execution = (await screen.next())["executionId"]
        for text in RUBBISH:
            await screen.socket.send_str(text.replace("%s", execution))
            assert "error" in await screen.next("error"), text
        await screen.socket.send_bytes(b"\xff\x00")
        assert "error" in await screen.next("error")
        assert await still_waits(box, execution)
        await screen.emit({"executionId": execution, "approved": False})
        await screen.next("toolConfirmationResponse")


async def test_unknown_executions_are_not_found(box: Inbox, ann: Ui) -> None:
    """As the document says: 404 with its sentence."""
    record = await box.ask()
    for name in ("nothing", f"{'0' * 32}.1", record.id, f"{record.id}.x", f"{record.id}.٣"):
        status, answer = await ann.post(name, {"approved": True})
        assert (status, answer) == (404, {"error": "Confirmation not found or expired"}), name
    assert (await ann.post(f"{record.id}.9", {"approved": True}))[0] == 409
    assert await still_waits(box, f"{record.id}.1")


async def test_posts_are_read_strictly(box: Inbox, ann: Ui) -> None:
    """JSON alone, of a bounded size, about the confirmation that the address names."""
    execution = await execution_of(box)
    url = f"{ann.url}{PATH}/{execution}"
    for body, kind, status in (
        (b'{"approved": true}', "text/plain", 415),
        (b"approved", "application/json", 400),
        (b"[]", "application/json", 422),
        (b'{"approved": true, "pad": "%s"}' % (b"x" * 20_000), "application/json", 413),
        (b'{"approved": true, "executionId": "other"}', "application/json", 422),
        (b"{}", "application/json", 422),
    ):
        answer = await ann.http.post(url, data=body, headers={"Content-Type": kind})
        assert answer.status in {status, 422}, body[:40]
        assert "error" in await answer.json()
    assert await still_waits(box, execution)


async def test_a_page_that_vanishes_leaves_the_request(box: Inbox, ann: Ui) -> None:
    """Half of an answer decides nothing, and the next page is shown the request."""
    async with ann.connect() as screen:
        await box.ask()
        execution = (await screen.next())["executionId"]
        await screen.socket.send_str(
            '{"type": "toolConfirmationResponse", "data": {"approved": true'
        )
    assert await still_waits(box, execution)
    async with ann.connect() as screen:
        assert (await screen.next())["executionId"] == execution


async def test_connections_of_a_session_are_bounded(box: Inbox, ann: Ui) -> None:
    """One that forgets to close its own cannot take all."""
    open_ = [await ann.http.ws_connect(f"{ann.url}{PATH}") for _ in range(MOST_OF_SESSION)]
    assert await refused(ann) == 429
    await asyncio.gather(*(one.close() for one in open_))


async def test_a_plain_get_is_told_what_this_is(box: Inbox, ann: Ui) -> None:
    """A browser's address bar gets a sentence."""
    answer = await ann.http.get(f"{ann.url}{PATH}")
    assert (answer.status, "WebSocket" in (await answer.json())["error"]) == (426, True)


async def test_pages_of_listed_origins_may_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their preflight is answered, and they decide with their cookie; others are refused."""
    listed = "https://ui.example"
    monkeypatch.setenv(ORIGINS, json.dumps([listed]))
    async with site(tmp_path) as box, ui(box) as ann:
        execution = await execution_of(box)
        url = f"{ann.url}{PATH}/{execution}"
        for origin, status in ((listed, 204), (FOREIGN, 403)):
            answer = await ann.http.options(url, headers={"Origin": origin})
            assert answer.status == status
            told = answer.headers.get("Access-Control-Allow-Origin")
            assert told == (listed if origin == listed else None)
        async with aiohttp.ClientSession(cookies={"saiki": ann.token}) as http:
            page = Ui(http, ann.url, "")
            assert (await page.post(execution, {"approved": True}, Origin=FOREIGN))[0] == 403
            assert (await page.post(execution, {"approved": True}, Origin=listed))[0] == 200


@pytest.mark.parametrize(
    "value", ["*", "https://ui.example", '"https://ui.example"', '["*"]', '["https://a/b"]', "[1]"]
)
def test_origins_are_written_exactly(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A star, a path or a bare text stops the gateway's start."""
    monkeypatch.setenv(ORIGINS, value)
    with pytest.raises(Misconfigured):
        read_origins()
    monkeypatch.setenv(ORIGINS, json.dumps(["https://ui.example:8443"]))
    assert read_origins() == {"https://ui.example:8443"}


async def test_tokens_are_of_their_person(box: Inbox) -> None:
    """Two people who sign in have two tokens."""
    assert await token_of(box, "ann") != await token_of(box, "bob")
