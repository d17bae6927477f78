"""The inbox as an app: it can be installed, and keeps nothing of what it shows."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from PIL import Image

from gateway.ports.devices import QuietHours
from gateway.stores.devices import RedisDevices
from tests.devices import push_device
from tests.web.chromium import PHONE, Page, at_home, running
from tests.web.inbox import COMMAND, Inbox, see
from tests.web.test_access import flaws

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("whole browser"),  # one for all of them
]

_STATIC = Path(__file__).parents[2] / "adapters" / "web" / "static"
WORKING = (
    "navigator.serviceWorker.getRegistration('/inbox').then((one) => one?.active?.state"
    " === 'activated' && one.scope)"
)


@pytest.fixture(scope="module")
def whole_browser() -> Iterator[str]:
    """Run a whole Chromium, which alone can install a page."""
    with running(whole=True) as address:
        yield address


@pytest.fixture
async def tab(box: Inbox, whole_browser: str) -> AsyncIterator[Page]:
    """Yield ann's inbox in her own profile."""
    async with at_home(whole_browser) as browser:
        made = await browser.tab()
        await box.sign_in(made)
        yield made
        assert made.errors == []


async def scope_of(page: Page) -> str:
    """Return the scope of the page's worker, once it works."""
    while not (scope := await page.evaluate(WORKING)):
        pass
    return str(scope)


async def test_it_can_be_installed(box: Inbox, tab: Page) -> None:
    """A whole Chromium finds nothing that is missing; the manifest is ours, and it has our id."""
    await scope_of(tab)
    assert await tab.send("Page.getInstallabilityErrors") == {"installabilityErrors": []}
    manifest = await tab.send("Page.getAppManifest")
    assert manifest["errors"] == []
    assert json.loads(manifest["data"])["start_url"] == "/inbox"
    assert (await tab.send("Page.getAppId"))["appId"] == f"{box.gateway.url}/inbox"


async def test_without_a_manifest_it_could_not(box: Inbox, tab: Page) -> None:
    """The browser does say so: the check above proves something."""
    await tab.evaluate("document.querySelector('link[rel=manifest]').remove()")
    errors: list[Any] = []
    while not errors:  # the browser notices a moment later
        errors = (await tab.send("Page.getInstallabilityErrors"))["installabilityErrors"]
    assert [one["errorId"] for one in errors] == ["no-manifest"]


async def test_the_worker_keeps_nothing(box: Inbox, tab: Page) -> None:
    """Its scope is the inbox alone; after requests were shown and the page was loaded again, there
    is no cache, and every page came from the gateway."""
    record = await box.ask(**COMMAND)
    await see(tab, record)
    assert await scope_of(tab) == f"{box.gateway.url}/inbox"
    await tab.evaluate("location.reload()")
    await see(tab, record)
    assert await tab.evaluate("navigator.serviceWorker.controller !== null")
    assert await tab.evaluate("caches.keys()") == []
    assert await tab.evaluate("performance.getEntriesByType('navigation')[0].workerStart") == 0, (
        "the worker answered for the gateway"
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_everybody_can_use_the_page_of_notifications(
    box: Inbox, tab: Page, dark: bool
) -> None:
    """Axe finds nothing serious, with a device that fails and quiet hours, in light and dark."""
    devices = RedisDevices(box.gateway.backend.store)
    await devices.add(push_device(failure="the push service returned status 403", failed_at=1))
    await devices.set_quiet("ann", QuietHours(begin="22:00", end="07:00", zone="UTC"))
    await tab.size(PHONE, dark=dark)
    await tab.goto(f"{box.gateway.url}/inbox/notifications")
    await tab.until("document.body.textContent.includes('status 403')")
    await tab.until("document.body.textContent.includes('Quiet from 22:00 to 07:00')")
    assert await flaws(tab) == []
    names = [name for _, name in await tab.controls()]
    assert "Send a test notification to Chrome on Android" in names
    assert all(name.strip() for name in names)


async def test_who_has_no_quiet_hours_is_shown_none(box: Inbox, tab: Page) -> None:
    """The fields are empty, and so they are again once hours that were kept are given up."""
    await tab.goto(f"{box.gateway.url}/inbox/notifications")
    fields = "['begin', 'end'].map((one) => document.getElementById(one).value).join()"
    none = "document.body.textContent.includes('You have no quiet hours.')"
    await tab.until(f"{none} && {fields} === ','")
    for name, hour in (("begin", "21:30"), ("end", "06:00")):
        await tab.evaluate(f"document.getElementById({name!r}).value = {hour!r}")
    await tab.press("Save quiet hours")
    await tab.until("document.body.textContent.includes('Quiet from 21:30 to 06:00')")
    await tab.press("Turn off")
    await tab.until(f"{none} && {fields} === ','")


async def test_only_the_worker_may_have_the_wider_scope(box: Inbox) -> None:
    """Its scope is longer than its folder, so its answer alone says that it may."""
    async with aiohttp.ClientSession() as http:
        for path, allowed in (("sw.js", "/inbox"), ("static/sw.js", None), ("static/api.js", None)):
            async with http.get(f"{box.gateway.url}/inbox/{path}") as answer:
                assert answer.status == 200
                assert answer.content_type == "text/javascript"
                assert answer.headers.get("Service-Worker-Allowed") == allowed, path
                assert answer.headers["Cache-Control"] == "no-store"


async def test_every_icon_is_what_the_manifest_says(box: Inbox) -> None:
    """Each is served, as large as it is said to be; the one to be masked has no corners to lose."""
    manifest = json.loads((_STATIC / "app.webmanifest").read_text(encoding="utf-8"))
    purposes = {icon.get("purpose", "any") for icon in manifest["icons"]}
    assert purposes == {"any", "maskable"}
    async with aiohttp.ClientSession() as http:
        for icon in manifest["icons"]:
            async with http.get(f"{box.gateway.url}{icon['src']}") as answer:
                assert (answer.status, answer.content_type) == (200, icon["type"])
                body = await answer.read()
            if icon["type"] != "image/png":
                continue
            drawn = Image.open(io.BytesIO(body)).convert("RGBA")
            assert f"{drawn.width}x{drawn.height}" == icon["sizes"]
            corner = drawn.getpixel((0, 0))
            assert isinstance(corner, tuple)
            assert (corner[3] == 255) == (icon.get("purpose") == "maskable")
