"""The whole way in a whole Chromium: the page subscribes, the gateway encrypts and posts, the test
is the push service and hands the text to the worker, and a person presses what a desktop shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.models import Action, Status
from gateway.wire.codec import JsonObject
from tests.waiting import moment
from tests.web.chromium import Browser, Page, at_home, running
from tests.web.desktop import Desktop, desktop
from tests.web.inbox import COMMAND, Inbox, card, inbox, line
from tests.web.notified import Device, turned_on
from tests.web.phone import push_service
from tests.web.test_push import SHORT
from tests.web.visitor import visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240), pytest.mark.thorough]


@pytest.fixture(scope="module")
def desk() -> Iterator[Desktop]:
    """Run a desktop."""
    with desktop() as made:
        yield made


@pytest.fixture(scope="module")
def whole_browser(desk: Desktop) -> Iterator[str]:
    """Run a whole Chromium on the desktop."""
    with running(whole=True, environment={"DBUS_SESSION_BUS_ADDRESS": desk.address}) as address:
        yield address


@pytest.fixture
async def device(tmp_path: Path, whole_browser: str, desk: Desktop) -> AsyncIterator[Device]:
    """Yield ann's device, which she turned notifications on at."""
    async with (
        push_service() as service,
        inbox(tmp_path, push_hosts=(service.host,)) as box,
        at_home(whole_browser) as browser,
    ):
        made = await turned_on(box, browser, service)
        desk.clear()
        yield made
        await made.page.evaluate(
            "navigator.serviceWorker.getRegistration('/inbox').then(async (one) =>"
            " { for (const it of await one.getNotifications()) it.close() })"
        )
        # A page that is left while the browser fetches its icon says so.
        assert [one for one in made.page.errors if "icon from the Mani" not in one] == []
        await made.page.send("Page.close")


async def test_a_request_is_shown_with_what_can_be_pressed(device: Device, desk: Desktop) -> None:
    """From the agent's call to the notification, through encryption and the worker; the next change
    replaces it, and the end is silent and has nothing to press."""
    record = await device.box.ask(**COMMAND)
    await device.page.goto(f"{device.box.gateway.url}/healthz")  # nobody looks at the inbox
    told = await device.receive()
    await desk.shows("rsync")
    (shown,) = await device.shown()
    assert shown == {
        "title": "Approval needed",
        "body": told["body"],
        "tag": record.id,
        "silent": False,
        "actions": ["deny", "open"],
    }
    await device.box.decide(record, Action.DENY)
    await device.receive(2)
    await desk.shows("Denied by bob")
    (over,) = await device.shown()
    assert (over["tag"], over["silent"], over["actions"]) == (record.id, True, [])
    assert over["body"].startswith("Denied by bob")


async def test_deny_on_the_desktop_denies(device: Device, desk: Desktop) -> None:
    """One press of a person, trusted by the browser, without a page: the request is denied by her,
    and nothing is left standing."""
    record = await device.box.ask(**COMMAND)
    await device.receive()
    shown = await desk.shows("rsync")
    assert set(shown.actions.values()) >= {"Deny", "Open"}
    assert "Approve" not in shown.actions.values()
    desk.press(shown, "Deny")
    after = await ended(device.box, record)
    assert after.status is Status.DENIED
    assert after.decision.decided_by.name == "ann"
    await device.receive(2)
    await desk.shows("Denied by ann")
    while await device.shown():
        await moment()


async def test_approve_on_the_desktop_approves(device: Device, desk: Desktop) -> None:
    """Where the whole call stands in the text, one press approves it."""
    record = await device.box.ask(**SHORT)
    await device.receive()
    shown = await desk.shows("make release")
    assert '"/srv/shop"' in shown.body
    assert '"ci-7"' in shown.body
    desk.press(shown, "Approve")
    after = await ended(device.box, record)
    assert after.status is Status.APPROVED
    assert after.decision.decided_by.name == "ann"


async def test_two_taps_from_a_notification_to_a_decision(device: Device, desk: Desktop) -> None:
    """The first opens this request, whole, the second decides it: where the system offers no
    actions, as on an iPhone."""
    record = await device.box.ask(**COMMAND)
    await device.receive()
    shown = await desk.shows("rsync")
    before = {one["targetId"] for one in await pages(device.browser)}
    desk.press(shown)  # the first tap
    while not (
        new := [one for one in await pages(device.browser) if one["targetId"] not in before]
    ):
        await moment()
    opened = await attach(device.browser, new[0]["targetId"])
    await opened.until(f"location.pathname === '/inbox/r/{record.id}' && {card(record)}")
    await opened.press("Approve", card(record))  # the second
    assert (await ended(device.box, record)).status is Status.APPROVED
    await opened.send("Page.close")


async def test_a_press_that_came_too_late_is_said(device: Device, desk: Desktop) -> None:
    """Somebody else was faster and the end is still on its way: the answer does not count, and the
    device says so."""
    record = await device.box.ask(**COMMAND)
    await device.receive()
    shown = await desk.shows("rsync")
    await device.box.decide(record, Action.DENY)
    desk.press(shown, "Deny")
    refused = await desk.shows("Your decision was not recorded")
    assert refused.actions
    assert (await device.box.get(record)).decision is not None


async def test_a_press_of_who_is_signed_out_is_said(device: Device, desk: Desktop) -> None:
    """Nothing is decided."""
    record = await device.box.ask(**COMMAND)
    await device.receive()
    shown = await desk.shows("rsync")
    await device.page.send("Network.clearBrowserCookies")
    desk.press(shown, "Deny")
    refused = await desk.shows("You are signed out on this device")
    assert refused.title == "Your decision was not recorded"
    assert (await device.box.get(record)).status is Status.PENDING


async def test_the_page_sends_a_test_and_stops(device: Device, desk: Desktop) -> None:
    """The button sends one, which is shown; stopping forgets the device on both sides."""
    await device.page.press("Send a test notification to Chrome on Linux")
    await device.page.until("document.body.textContent.includes('The test should appear')")
    await device.receive()
    await desk.shows("This is a test")
    (shown,) = await device.shown()
    assert (shown["tag"], shown["actions"]) == ("test", ["open"])
    await device.page.press("Stop on this device")
    await device.page.until(
        "document.body.textContent.includes('No device gets notifications yet')"
    )
    await device.box.ask(**COMMAND)
    assert len(device.phone.got) == 1


async def test_who_signs_in_again_is_told_again(device: Device) -> None:
    """The gateway forgot the device with its session; the next page of the inbox hands it in."""
    store = device.box.gateway.backend.store
    for key in await store.redis.keys(store.keys.of("browser", "*")):
        await store.redis.delete(key)
    gone = await device.box.ask(**COMMAND)
    while not await device.box.events("push_removed"):
        await moment()
    assert gone
    await device.box.sign_in(device.page)
    while len(await device.box.events("push_added")) < 2:
        await moment()
    record = await device.box.ask(**SHORT)
    assert (await device.phone.pushed())[0]["id"] == record.id


async def test_a_device_that_was_removed_elsewhere_stays_removed(device: Device) -> None:
    """Loading the inbox again does not hand it in; the browser gives its subscription up."""
    async with visitor(device.box) as elsewhere:
        (row,) = (await elsewhere.get("push"))["devices"]
        assert not row["here"]
        assert (await elsewhere.post(f"push/devices/{row['id']}/remove", {}))[0] == 200
        await device.page.goto(f"{device.box.gateway.url}/inbox")
        await device.page.until("localStorage.getItem('pretended') === null")
        assert (await elsewhere.get("push"))["devices"] == []


async def test_a_hidden_tab_notifies_by_the_worker(device: Device, desk: Desktop) -> None:
    """A tab that is not seen shows that something waits, and no more, where no push does."""
    page = device.page
    await page.evaluate("localStorage.removeItem('pretended')")
    await page.goto(f"{device.box.gateway.url}/inbox")
    await page.until("document.getElementById('who').textContent")
    await page.evaluate(
        "Object.defineProperty(document, 'hidden', { get: () => true });"
        "localStorage.setItem('notify', 'on')"
    )
    await device.box.ask(**COMMAND)
    await desk.shows("A new request arrived.")
    (shown,) = await device.shown()
    assert (shown["title"], shown["body"]) == ("Approval needed", "A new request arrived.")


async def test_the_sound_is_heard(device: Device) -> None:
    """A tone is played for a request that arrives, where that was chosen; once."""
    page = device.page
    await page.goto(f"{device.box.gateway.url}/inbox")
    await page.until("document.getElementById('who').textContent")
    await page.evaluate(
        "window.tones = 0; const real = OscillatorNode.prototype.start;"
        "OscillatorNode.prototype.start = function (...all)"
        " { window.tones += 1; return real.apply(this, all) };"
        "document.querySelector('.menu').open = true"
    )
    await page.press("Sound when a request arrives")  # a page is silent until somebody touches it
    record = await device.box.ask(**COMMAND)
    await page.until(line(record))
    await page.until("window.tones === 1")


async def ended(box: Inbox, record: Any) -> Any:
    """Return a request once it has ended."""
    while not (after := await box.get(record)).final:
        await moment()
    return after


async def pages(browser: Browser) -> list[JsonObject]:
    """Return the open tabs."""
    found = (await browser.control.send("Target.getTargets"))["targetInfos"]
    return [one for one in found if one["type"] == "page"]


async def attach(browser: Browser, target: str) -> Page:
    """Return a tab that the browser opened by itself."""
    socket = await browser.stack.enter_async_context(
        browser.http.ws_connect(browser.address, max_msg_size=0)
    )
    attached = await Page(socket, None).send("Target.attachToTarget", targetId=target, flatten=True)
    page = Page(socket, attached["sessionId"])
    await page.send("Page.enable")
    return page
