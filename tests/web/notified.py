"""A device on which a person turned notifications on: a whole Chromium, and what it shows."""

from __future__ import annotations

import json
from dataclasses import dataclass

from gateway.wire.codec import JsonObject
from tests.waiting import moment
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

    async def shown(self) -> list[JsonObject]:
        """Return the notifications that stand."""
        found: list[JsonObject] = await self.page.evaluate(SHOWN)
        return found

    async def until_shown(self, count: int) -> list[JsonObject]:
        """Return the notifications once there are so many."""
        while len(found := await self.shown()) != count:
            await moment()
        return found

    async def until_tagged(self, tag: str) -> None:
        """Wait until a notification of this request stands."""
        while tag not in [one["tag"] for one in await self.shown()]:
            pass

    async def receive(self, count: int = 1) -> JsonObject:
        """Have the browser take the next push; return what it said."""
        told = (await self.phone.pushed(count))[count - 1]
        await self.deliver(told)
        return told

    async def deliver(self, told: JsonObject) -> None:
        """Hand a text to the worker, as the push service of the browser does."""
        page = self.page
        await page.send("ServiceWorker.enable")
        while not (found := page.told.get("ServiceWorker.workerRegistrationUpdated")):
            await page.evaluate("1")
        ours = [one for one in found["registrations"] if self.box.gateway.url in one["scopeURL"]]
        await page.send(
            "ServiceWorker.deliverPushMessage",
            origin=self.box.gateway.url,
            registrationId=ours[0]["registrationId"],
            data=json.dumps(told),
        )


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
    await page.until("document.body.textContent.includes('This device is told')")
    return Device(box, page, browser, phone)
