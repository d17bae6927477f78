"""A device on which a person turned notifications on: a whole Chromium, and what it shows."""

from __future__ import annotations

import json
from dataclasses import dataclass

from gateway.wire.codec import JsonObject
from tests.web.chromium import Browser, Page
from tests.web.inbox import Inbox
from tests.web.phone import Phone, PushService, pretend

SHOWN = (
    "navigator.serviceWorker.getRegistration('/inbox').then(async (one) =>"
    " (await one.getNotifications()).map(({title, body, tag, silent, actions}) =>"
    " ({title, body, tag, silent, actions: actions.map((act) => act.action)})))"
)


@dataclass
class Device:
    """Ann's phone: her browser, its address at a push service, and what it shows."""

    box: Inbox
    page: Page
    browser: Browser
    phone: Phone
    worker: str

    async def shown(self) -> list[JsonObject]:
        """Return the notifications that stand. To be asked once they were seen on the desktop:
        Chromium forgets one that it is about to show when it is asked at that moment."""
        found: list[JsonObject] = await self.page.evaluate(SHOWN)
        return found

    async def receive(self, count: int = 1) -> JsonObject:
        """Have the browser take the next push; return what it said."""
        told = (await self.phone.pushed(count))[count - 1]
        await self.deliver(told)
        return told

    async def deliver(self, told: JsonObject) -> None:
        """Hand a text to the worker, as the push service of the browser does."""
        await self.page.send(
            "ServiceWorker.deliverPushMessage",
            origin=self.box.gateway.url,
            registrationId=self.worker,
            data=json.dumps(told),
        )


async def find_worker(page: Page, url: str) -> str:
    """Return the id of a gateway's worker in the browser, once it is there."""
    await page.send("ServiceWorker.enable")
    while True:
        found = page.told.get("ServiceWorker.workerRegistrationUpdated", {})
        for one in found.get("registrations", []):
            if url in one["scopeURL"]:
                return str(one["registrationId"])
        await page.evaluate("1")


async def turned_on(box: Inbox, browser: Browser, service: PushService) -> Device:
    """Sign ann in, and press the button of the page."""
    phone = service.phone()
    await browser.control.send(
        "Browser.grantPermissions", origin=box.gateway.url, permissions=["notifications"]
    )
    page = await browser.tab()
    await page.send("Page.addScriptToEvaluateOnNewDocument", source=pretend(phone.subscription))
    await box.sign_in(page)
    await page.goto(f"{box.gateway.url}/inbox/notifications")
    await page.press("Notify me here")
    await page.until("document.body.textContent.includes('This device gets a notification')")
    return Device(box, page, browser, phone, await find_worker(page, box.gateway.url))
