"""Passkeys in a real browser with an authenticator of its own, and over HTTP without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.sign_in.authenticator import Authenticator
from tests.web.chromium import Browser, Page
from tests.web.inbox import CONNECTED, Inbox, inbox
from tests.web.test_access import flaws
from tests.web.visitor import Visitor, visitor

pytestmark = pytest.mark.timeout(240)

PRESENT: dict[str, Any] = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}
SIGNED_OUT = "document.body.textContent.includes('You are signed out')"


@pytest.fixture
async def named(tmp_path: Path) -> AsyncIterator[Inbox]:
    """Yield a gateway that knows its address."""
    async with inbox(tmp_path, named=True) as made:
        yield made


async def add_authenticator(page: Page) -> str:
    """Give a tab a device that makes passkeys and verifies its user; return its id."""
    await page.send("WebAuthn.enable")
    made = await page.send("WebAuthn.addVirtualAuthenticator", options=PRESENT)
    return str(made["authenticatorId"])


async def open_devices(box: Inbox, page: Page, says: str) -> None:
    """Open the page Devices, and wait for what it says of passkeys."""
    await page.goto(f"{box.gateway.url}/inbox/devices")
    await page.until(f"document.getElementById('passkeys-says').textContent.includes('{says}')")


@pytest.mark.browser
async def test_a_passkey_is_made_used_and_removed(named: Inbox, browser: Browser) -> None:
    """Made under Devices, it signs in by itself after a sign-out; removed, it does not."""
    page = await browser.tab()
    await named.sign_in(page)
    await add_authenticator(page)
    await open_devices(named, page, "without a link")
    await page.press("Add a passkey")
    await page.until("document.body.textContent.includes('The passkey was added.')")
    assert await page.evaluate("document.querySelectorAll('#passkeys li').length") == 1
    assert await flaws(page) == []
    await page.press("Add a passkey")
    await page.until("document.body.textContent.includes('You already have a passkey')")

    await page.press("Sign out here")
    await page.until(SIGNED_OUT)
    await page.until("!document.getElementById('passkey').hidden")
    assert await flaws(page) == []
    await page.press("Sign in with a passkey")
    await page.until(f"{CONNECTED} && document.getElementById('who').textContent.includes('ann')")
    assert [one.data["way"] for one in await named.events("signed_in")] == ["link", "passkey"]

    await open_devices(named, page, "without a link")
    assert await page.evaluate("document.body.textContent.includes('with a passkey')")
    await page.press("Remove")
    await page.until("document.body.textContent.includes('The passkey was removed.')")
    await page.press("Sign out here")
    await page.until(SIGNED_OUT)
    await page.press("Sign in with a passkey")
    await page.until("document.body.textContent.includes('was not accepted')")
    assert page.errors == []


@pytest.mark.browser
async def test_who_is_not_verified_makes_and_uses_nothing(named: Inbox, browser: Browser) -> None:
    """The browser itself refuses, and the page says so."""
    page = await browser.tab()
    await named.sign_in(page)
    device = await add_authenticator(page)
    await page.send("WebAuthn.setUserVerified", authenticatorId=device, isUserVerified=False)
    await open_devices(named, page, "without a link")
    await page.press("Add a passkey")
    await page.until("document.body.textContent.includes('You cancelled, or you took')")
    assert await page.evaluate("document.querySelectorAll('#passkeys li').length") == 0


@pytest.mark.browser
async def test_without_an_address_the_page_says_why(box: Inbox, page: Page) -> None:
    """And offers no button: neither under Devices nor to who is signed out."""
    await open_devices(box, page, "GATEWAY_PUBLIC_URL")
    assert await page.evaluate("document.getElementById('add').hidden")
    await page.press("Sign out here")
    await page.until(f"{SIGNED_OUT} && !document.getElementById('how').hidden")
    assert await page.evaluate("document.getElementById('passkey').hidden")


async def make(who: Visitor, device: Authenticator) -> None:
    """Make a passkey over HTTP."""
    _, options = await who.post("passkeys/options", {})
    assert (await who.post("passkeys", {"credential": device.make(options)}))[0] == 200


async def test_a_passkey_is_made_and_removed_by_our_page_alone(named: Inbox) -> None:
    """Every write needs the session, our origin and our token."""
    device = Authenticator("localhost", named.gateway.url)
    async with visitor(named) as ann:
        await make(ann, device)
        stolen = Visitor(ann.http, ann.url)
        for path, body in (
            ("passkeys/options", {}),
            ("passkeys", {"credential": {}}),
            ("passkeys/remove", {"id": "x"}),
        ):
            assert (await stolen.post(path, body))[0] == 403, path
            assert (await ann.post(path, body, Origin="https://evil.example"))[0] == 403, path
        for path, body in (
            ("passkeys", {}),
            ("passkeys", {"credential": "x"}),
            ("passkeys/remove", {}),
        ):
            assert (await ann.post(path, body))[0] == 422, (path, body)
        assert len((await ann.get("passkeys"))["items"]) == 1


async def test_a_sign_in_belongs_to_the_browser_that_began_it(named: Inbox) -> None:
    """The answer of one browser is worth nothing in another, nor from another site's page."""
    url = named.gateway.url
    device, ours = Authenticator("localhost", url), {"Origin": url}
    async with visitor(named) as ann:
        await make(ann, device)

    async def begin(http: aiohttp.ClientSession) -> Any:
        async with http.post(f"{url}/inbox/api/login/passkey/options", headers=ours) as answer:
            assert answer.status == 200
            cookie = answer.headers["Set-Cookie"]
            for part in ("HttpOnly", "SameSite=Strict", "Max-Age=300"):
                assert part in cookie
            return await answer.json()

    async def end(http: aiohttp.ClientSession, credential: Any, **headers: str) -> int:
        address = f"{url}/inbox/api/login/passkey"
        sent = {**ours, **headers}
        async with http.post(address, json={"credential": credential}, headers=sent) as answer:
            assert ("Set-Cookie" in answer.headers) == (answer.status == 200)
            return answer.status

    async with aiohttp.ClientSession() as one, aiohttp.ClientSession() as other:
        options, foreign = f"{url}/inbox/api/login/passkey/options", "https://evil.example"
        async with one.post(options, headers={"Origin": foreign}) as answer:
            assert (answer.status, "Set-Cookie" in answer.headers) == (403, False)
        credential = device.sign(await begin(one))
        assert await end(other, credential) == 403, "it began nothing"
        await begin(other)
        assert await end(other, credential) == 403, "it began something else"
        assert await end(one, credential, Origin="https://evil.example") == 403
        assert await end(one, credential) == 200
        assert await end(one, credential) == 403, "a second time"
        assert await end(one, {"id": "x"}) == 403
        assert await end(one, "x") == 422
    assert {one.data["way"] for one in await named.events("sign_in_refused")} == {"passkey"}
