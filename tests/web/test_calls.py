"""What calls somebody back on every page: sound, notification and title."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.sweeps import sweep
from tests.web.chromium import Browser, Page
from tests.web.inbox import COMMAND, FILE_CHANGE, Inbox, line

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

# What a browser does for a page, recorded: no test hears a sound.
RECORDER = """
window.sounds = 0;
window.shown = [];
window.AudioContext = class {
  currentTime = 0;
  destination = null;
  createOscillator() { return { connect() {}, start() { window.sounds += 1; }, stop() {} }; }
  close() {}
};
window.Notification = class {
  static permission = "granted";
  static requestPermission() { return Promise.resolve("granted"); }
};
navigator.serviceWorker.getRegistration = async () => ({
  pushManager: { getSubscription: async () => null },
  showNotification: async (title, options) => { window.shown.push([title, options.body]); },
});
Object.defineProperty(document, "hidden", { get: () => true });
"""
CHOSEN = "localStorage.setItem('sound', 'on'), localStorage.setItem('notify', 'on'), true"
PAGES = {
    "waiting": ("", "Approvals"),
    "history": ("?view=final", "Approvals"),
    "sessions": ("?view=sessions", "Approvals"),
    "remembered": ("?view=grants", "Approvals"),
    "audit": ("?view=audit", "Approvals"),
    "together": ("/batch?agent=deployer", "Review together"),
    "report": ("/report", "How people decide"),
}


@pytest.fixture
async def listener(box: Inbox, browser: Browser) -> AsyncIterator[Page]:
    """Yield a page of ann's whose sounds and notifications are recorded."""
    page = await browser.tab()
    await page.send("Page.addScriptToEvaluateOnNewDocument", source=RECORDER)
    await box.sign_in(page)
    yield page
    assert page.errors == []


@sweep("name", PAGES, few=2)
async def test_a_request_calls_on_every_page(box: Inbox, listener: Page, name: str) -> None:
    """What waits when the page comes is counted in its title, and is quiet; what comes then rings
    once, is shown once, without a name, and is counted."""
    path, title = PAGES[name]
    await listener.evaluate(CHOSEN)
    first = await box.ask(**COMMAND)
    await listener.goto(f"{box.gateway.url}/inbox{path}")
    await listener.until(f"document.title === '(1) {title}'")
    assert await listener.evaluate("[window.sounds, window.shown.length]") == [0, 0]
    await box.ask(**FILE_CHANGE)
    await listener.until(f"document.title === '(2) {title}'")
    await listener.until("window.sounds === 1 && window.shown.length === 1")
    told = [["Approval needed", "A new request arrived."]]
    assert await listener.evaluate("window.shown") == told
    said = await listener.evaluate("document.getElementById('announce').textContent")
    assert said == "A new request arrived."
    await box.decide(first)
    await listener.until(f"document.title === '(1) {title}'")
    assert await listener.evaluate("window.sounds") == 1


async def test_what_was_not_chosen_is_silent(box: Inbox, listener: Page) -> None:
    """The title counts all the same."""
    await box.ask(**COMMAND)
    await listener.until("document.title === '(1) Approvals'")
    assert await listener.evaluate("[window.sounds, window.shown.length]") == [0, 0]


async def test_what_waits_for_others_calls_nobody(box: Inbox, listener: Page) -> None:
    """Neither sound nor count for what ann may not decide."""
    await listener.evaluate(CHOSEN)
    await box.route(approvers=("bob",))
    await box.ask(**COMMAND)
    await listener.until("document.querySelector('[data-side=others] span').textContent === '1'")
    assert await listener.evaluate("[document.title, window.sounds]") == ["Approvals", 0]


async def test_a_browser_that_refuses_loses_no_line(box: Inbox, listener: Page) -> None:
    """A phone's browser throws where a page makes a notification: the request is there, and so is
    the next one."""
    await listener.evaluate(CHOSEN)
    refuse = "window.Notification = class { static permission = 'granted';"
    await listener.evaluate(
        f"({refuse} constructor() {{ throw new TypeError('illegal') }} }}, true)"
    )
    for details in (COMMAND, FILE_CHANGE):
        record = await box.ask(**details)
        await listener.until(line(record))
    await listener.until("document.title === '(2) Approvals'")


async def test_what_came_while_the_line_was_down_calls_too(box: Inbox, listener: Page) -> None:
    """When the page is connected again, it rings for what it did not know."""
    await listener.evaluate(CHOSEN)
    await listener.until("document.getElementById('who').textContent")
    await listener.send("Network.enable")
    await listener.send("Network.setBlockedURLs", urls=["*/inbox/api/*"])
    await box.ask(**COMMAND)
    await listener.until("!document.getElementById('offline').hidden || true")
    await listener.send("Network.setBlockedURLs", urls=[])
    await box.ask(**FILE_CHANGE)
    await listener.until("document.title === '(2) Approvals' && window.sounds >= 1")
