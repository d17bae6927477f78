"""Where somebody is signed in: listed with words, ended one by one or all others, at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from pydantic import SecretStr

from gateway.ports import name_device
from gateway.server.app import Gateway, run_gateway
from gateway.server.settings import Settings
from tests.clocks import ShiftedClock
from tests.web.chromium import Browser, Page
from tests.web.inbox import COMMAND, CONNECTED, Inbox
from tests.web.test_access import flaws
from tests.web.test_streams import rest, stream
from tests.web.visitor import Visitor, visitor

pytestmark = pytest.mark.timeout(240)

SAFARI = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like "
    "Gecko) Version/18.1 Mobile/15E148 Safari/604.1"
)


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (SAFARI, "Safari on iPhone"),
        (
            "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
            "Firefox on Linux",
        ),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/142.0.0.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        ("<script>alert(1)</script> you are bob", "A browser"),
        ("", "A browser"),
    ],
)
def test_a_device_has_words_of_ours(agent: str, words: str) -> None:
    """Browser and system as they call themselves, and nothing that a browser could write."""
    assert name_device(agent) == words


@pytest.mark.browser
async def test_a_device_is_ended_from_another(box: Inbox, browser: Browser, page: Page) -> None:
    """The page lists both, the other one is signed out at once, and this one stays."""
    async with visitor(box) as other, stream(other) as messages:
        await page.goto(f"{box.gateway.url}/inbox/devices")
        await page.until("document.querySelectorAll('#sessions li').length === 2")
        text = await page.evaluate("document.getElementById('sessions').textContent")
        assert "Python" in text
        assert "This device" in text
        assert "a one-time link" in text
        assert await flaws(page) == []
        await page.press("Sign out", "document.getElementById('sessions')")
        await page.until("document.body.textContent.includes('One device was signed out.')")
        assert await rest(messages) == []
        async with other.http.get(f"{other.url}/inbox/api/me") as answer:
            assert answer.status == 401
    await page.until("document.getElementById('others').hidden")
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until(CONNECTED)


@pytest.mark.browser
async def test_all_other_devices_are_ended(box: Inbox, browser: Browser, page: Page) -> None:
    """Open inboxes elsewhere say that they are signed out."""
    second = await browser.tab()
    await second.goto(f"{box.gateway.url}/inbox")
    await second.until(CONNECTED)
    async with visitor(box) as one, visitor(box) as two, visitor(box, "bob") as bob:
        await page.goto(f"{box.gateway.url}/inbox/devices")
        await page.press("Sign out everywhere else")
        await page.until("document.body.textContent.includes('2 devices were signed out.')")
        for who, status in ((one, 401), (two, 401), (bob, 200)):
            async with who.http.get(f"{who.url}/inbox/api/me") as answer:
                assert answer.status == status
    assert await second.evaluate(CONNECTED)
    await page.press("Sign out here")
    for tab in (page, second):
        await tab.until("document.body.textContent.includes('You are signed out')")


async def test_an_end_is_meant(box: Inbox) -> None:
    """Not without our token, not for what was left out, and nobody ends what is not theirs."""
    async with visitor(box) as ann, visitor(box, "bob") as bob:
        (own,) = (await ann.get("devices"))["items"]
        for body in ({}, {"others": False}, {"others": True, "device": own["id"]}, {"device": 7}):
            assert (await ann.post("devices/end", body))[0] == 422
        stolen = Visitor(ann.http, ann.url)
        assert (await stolen.post("devices/end", {"others": True}))[0] == 403
        assert await bob.post("devices/end", {"device": own["id"]}) == (200, {"ended": 0})
        assert await ann.post("devices/end", {"device": own["id"][:12]}) == (200, {"ended": 0})
        assert [one["id"] for one in (await ann.get("devices"))["items"]] == [own["id"]]


async def test_it_ends_on_every_replica(server_url: str, namespace: str, tmp_path: Path) -> None:
    """What is ended at one is refused by the other, whose open stream ends without a beat."""

    def settings(name: str) -> Settings:
        url = SecretStr(server_url)
        return Settings(data_dir=tmp_path / name, port=0, namespace=namespace, REDIS_URL=url)

    async with run_gateway(settings("one")) as one, run_gateway(settings("two")) as two:
        await one.backend.credentials.add_approver("ann")
        async with visitor(Inbox(two)) as phone, stream(phone) as messages:
            (device,) = await one.backend.logins.list_devices_of("ann")
            ended = asyncio.get_running_loop().time()
            await one.backend.logins.end_devices_of("ann", (device.id,), by="operator")
            assert await refused(two, phone)
            await rest(messages)
            # Far less than a beat of the stream; a second on a machine that has nothing else to do.
            assert asyncio.get_running_loop().time() - ended < 5


async def refused(gateway: Gateway, who: Visitor) -> bool:
    """Whether a replica knows a visitor no more."""
    async with who.http.get(f"{gateway.url}/inbox/api/me") as answer:
        return answer.status == 401


async def test_an_open_page_alone_prolongs_nothing(box: Inbox) -> None:
    """A stream looks whether its session lives, and leaves its end alone; a read moves it."""
    store, logins = box.gateway.backend.store, box.gateway.backend.logins
    async with visitor(box) as ann, stream(ann) as messages:
        (device,) = await logins.list_devices_of("ann")
        key = store.keys.of("browser", device.id)
        await store.redis.expire(key, 40)
        logins._clock = ShiftedClock(ahead=120)
        await store.note("agent_added", data={})
        record = await box.ask(**COMMAND)
        assert (await anext(messages))[1]["id"] == record.id
        assert await store.redis.ttl(key) <= 40
        await ann.get("me")
        assert await store.redis.ttl(key) > 40


@pytest.mark.browser
async def test_a_link_says_whom_it_signs_in(box: Inbox, page: Page) -> None:
    """Opened by somebody who is somebody else, it names both and waits to be pressed."""
    code = await box.gateway.backend.logins.invite("bob")
    await page.goto(f"{box.gateway.url}/inbox/login#code={code}")
    await page.until("document.body.textContent.includes('In this browser you are now ann')")
    assert await flaws(page) == []
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until(f"{CONNECTED} && document.getElementById('who').textContent.includes('ann')")
    await page.goto(f"{box.gateway.url}/inbox/login#code={code}")
    await page.press("Sign in as bob")
    await page.until(f"{CONNECTED} && document.getElementById('who').textContent.includes('bob')")


async def test_another_site_learns_no_name(box: Inbox) -> None:
    """Whom a link is for is told to our own page alone, and a guess is a wrong link."""
    code = await box.gateway.backend.logins.invite("ann")
    url = f"{box.gateway.url}/inbox/api/login/whose"
    async with aiohttp.ClientSession() as http:
        for origin, status in (("https://evil.example", 403), (box.gateway.url, 200)):
            headers = {"Origin": origin}
            async with http.post(url, json={"code": code}, headers=headers) as answer:
                assert answer.status == status
        async with http.post(url, json={"code": "guess"}, headers=headers) as answer:
            assert answer.status == 403
    assert await box.events("sign_in_refused") != []
