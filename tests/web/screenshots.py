"""Takes the pictures of the inbox for the documents: `make screenshots`."""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.domain.policy_document import Budget
from gateway.domain.records import Query, StoredRequest
from gateway.domain.store import MessageContext
from gateway.models import Action, Execution, Reason, Report
from tests.picture_files import picture_file
from tests.web.chromium import DESK, PHONE, Page, running, visiting
from tests.web.inbox import (
    AGENT,
    COMMAND,
    CONNECTED,
    FILE_CHANGE,
    HIGH_RISK,
    HOSTILE,
    LONG,
    MASKED,
    QUESTION,
    Inbox,
    card,
    inbox,
    see,
)
from tests.web.phone import PushService, pretend, push_service
from tests.web.sheets import cropped, only, sheet
from tests.web.visitor import visitor

SHAPES = {"phone": (PHONE, 4, 1500), "desk": (DESK, 2, 1250)}
SHEETS = {
    "queue": ("fourteen wait", "opened from the queue", "time runs out", "looked for"),
    "ask": ("high risk", "a command", "a file change", "a question"),
    "care": ("cut", "everything, at its end", "hostile text", "masked secrets"),
    "answer": ("edit with its diff", "high risk asks twice", "deny with a reason", "revealed"),
    "team": ("one of two approved", "claimed", "nobody waits", "not yours to decide"),
    "done": ("history", "history, opened", "sessions", "nothing waits"),
    "remember": ("remember", "remembered", "just approved", "somebody was faster"),
    "batch": ("side by side", "at their end", "one stood in the way", "denied with a reason"),
    "page": ("login", "signed out", "settings", "not connected"),
    "notified": ("not told here", "devices", "nothing can be pushed"),
}


PATIENT = (Budget(denials=0),)
"""So many denials would pause the agent."""

_READ = "document.querySelector('[data-key=approve]')?.textContent !== 'Read on'"


@dataclass
class Camera:
    """Takes each state in every shape, in light and dark."""

    page: Page
    taken: dict[tuple[str, bool], dict[str, bytes]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    async def take(self, name: str, *, at_end: bool = False) -> None:
        """Take the page as it stands."""
        for shape, (size, _, most) in SHAPES.items():
            for dark in (False, True):
                await self.page.size(size, dark=dark)
                await self.page.until("!document.querySelector('.settling')")
                if at_end:
                    await self.page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
                    await self.page.until(_READ)
                    picture = await self.page.picture()
                else:
                    await self.page.evaluate("scrollTo(0, 0)")
                    tall = await self.page.evaluate("document.body.getBoundingClientRect().bottom")
                    # What stays at the end of the screen stands at the end of the picture.
                    high = min(max(int(tall), 600), most)
                    await self.page.size((size[0], high), dark=dark)
                    await self.page.until("!document.querySelector('.settling')")
                    picture = cropped(await self.page.picture(), most)
                self.taken[shape, dark][name] = picture
        await self.page.size(PHONE)

    def develop(self) -> None:
        """Write the sheets."""
        for (shape, dark), pictures in self.taken.items():
            for title, names in SHEETS.items():
                path = picture_file(f"inbox-{title}-{shape}{'-dark' if dark else ''}.png")
                sheet(only(pictures, names), path, columns=SHAPES[shape][1], dark=dark)


async def main() -> None:
    """Take every picture."""
    with tempfile.TemporaryDirectory() as folder, running() as address:
        async with visiting(address) as browser, push_service() as service:
            camera = Camera(await browser.tab())
            async with inbox(Path(folder), push_hosts=(service.host,)) as box:
                await notified(box, camera, service)
            async with inbox(Path(folder) / "other", denial_minutes=0) as box:
                await box.route(budgets=PATIENT)
                await doors(box, camera)
                await asking(box, camera)
                await queue(box, camera)
                await answering(box, camera)
                await team(box, camera)
                await together(box, camera)
                await remembering(box, camera)
                await done(box, camera)
                await shown(box, camera, **COMMAND)
            await camera.page.until("!document.getElementById('offline').hidden")
            await camera.take("not connected")
            assert camera.page.errors == []
    await asyncio.to_thread(camera.develop)


async def notified(box: Inbox, camera: Camera, service: PushService) -> None:
    """Show the page of notifications: off, with devices, and where nothing can be pushed."""
    page, phone = camera.page, service.phone()
    await page.send("Page.addScriptToEvaluateOnNewDocument", source=pretend(phone.subscription))
    await box.sign_in(page)
    await page.goto(f"{box.gateway.url}/inbox/notifications")
    await page.until("document.body.textContent.includes('This device gets no notifications')")
    await camera.take("not told here")
    async with visitor(box) as elsewhere:
        other = service.phone("other")
        other.answers.append((403, {}))
        answer = await elsewhere.post(
            "push/subscribe", {"subscription": other.subscription}, **{"User-Agent": _ANDROID}
        )
        await elsewhere.post(f"push/devices/{answer[1]['id']}/test", {})
        hours = {"begin": "22:00", "end": "07:00", "zone": "Europe/Berlin", "high": True}
        await elsewhere.post("push/quiet", {"hours": hours})
        await page.evaluate("Notification.requestPermission = async () => 'granted'")
        await page.press("Notify me here")
        await page.until("document.body.textContent.includes('This device gets a notification')")
        await camera.take("devices")
    await page.send("Page.addScriptToEvaluateOnNewDocument", source="delete window.PushManager")
    await page.evaluate("location.reload()")
    await page.until("document.body.textContent.includes('This browser does not support push')")
    await camera.take("nothing can be pushed")


_ANDROID = "Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36"


async def doors(box: Inbox, camera: Camera) -> None:
    """Show the ways in and out, and the settings."""
    page, logins = camera.page, box.gateway.backend.logins
    await page.goto(f"{box.gateway.url}/inbox/login#code={await logins.invite('ann')}")
    await page.until("!document.querySelector('button').disabled")
    await camera.take("login")
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until("document.body.textContent.includes('You are signed out')")
    await camera.take("signed out")
    await box.sign_in(page)
    await camera.take("nothing waits")
    await page.evaluate("document.querySelector('.menu').open = true")
    await camera.take("settings")
    await page.evaluate("document.querySelector('.menu').open = false")


async def asking(box: Inbox, camera: Camera) -> None:
    """Show what requests look like."""
    kinds: dict[str, dict[str, Any]] = {
        "a command": COMMAND,
        "a file change": FILE_CHANGE,
        "a question": QUESTION,
        "cut": LONG,
        "hostile text": HOSTILE,
        "masked secrets": MASKED,
    }
    for name, details in kinds.items():
        record = await shown(box, camera, **details)
        await camera.take(name)
        if name == "cut":
            await camera.page.press("Open everything")
            await camera.page.until(f"{card(record)}.textContent.includes('a = 8999;')")
            await camera.take("everything, at its end", at_end=True)
        await away(box, camera, record)
    record = await shown(box, camera, **HIGH_RISK)
    await camera.take("high risk")
    await away(box, camera, record)


async def queue(box: Inbox, camera: Camera) -> None:
    """Show the queue with much in it, one that was opened, and time that runs out."""
    page = camera.page
    kinds: tuple[dict[str, Any], ...] = (COMMAND, HIGH_RISK, FILE_CHANGE, MASKED, QUESTION, HOSTILE)
    made = [
        await box.ask(**{**kinds[n % 6], "session": f"s{n}", "timeout": 300 + 90 * n})
        for n in range(14)
    ]
    await page.until("document.querySelectorAll('.row-link').length === 14")
    await camera.take("fourteen wait")
    await see(page, made[1])
    await camera.take("opened from the queue")
    await page.goto(f"{box.gateway.url}/inbox")
    for record in made:
        await box.decide(record, Action.DENY)
    await page.until("document.querySelector('#rows .empty')")
    soon = await box.ask(**COMMAND, timeout=59)
    await page.until("document.querySelector('.row-left.soon')")
    await camera.take("time runs out")
    await away(box, camera, soon)
    await page.goto(f"{box.gateway.url}/inbox?view=final&outcome=denied&text=tax")
    await page.until("document.getElementById('looked').textContent")
    await camera.take("looked for")
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until(CONNECTED)


async def answering(box: Inbox, camera: Camera) -> None:
    """Show what an approver does."""
    page = camera.page
    record = await shown(box, camera, **HIGH_RISK)
    await page.press("Edit")
    await page.fill("[data-key^=arg1]", "249.0")
    await page.press("Show the changes")
    await page.until("document.querySelector('.panel .added')")
    await camera.take("edit with its diff")
    await away(box, camera, record)
    record = await shown(box, camera, **HIGH_RISK)
    await page.press("Review…")
    await page.until("document.querySelector('.sure')")
    await camera.take("high risk asks twice")
    await away(box, camera, record)
    record = await shown(box, camera, **COMMAND)
    await page.press("Deny with a reason")
    await page.fill("[data-key=reason]", "Not on a Friday evening.")
    await camera.take("deny with a reason")
    await away(box, camera, record)
    record = await shown(box, camera, **MASKED)
    await page.press("Reveal secrets")
    await page.until(f"{card(record)}.textContent.includes('ghp_')")
    await camera.take("revealed")
    await away(box, camera, record)


async def team(box: Inbox, camera: Camera) -> None:
    """Show what others do."""
    await box.route(quorum=2, budgets=PATIENT)
    record = await shown(box, camera, **COMMAND)
    await box.decide(record)
    await camera.page.until(f"{card(record)}.textContent.includes('1 of 2')")
    await camera.take("one of two approved")
    await away(box, camera, record)
    await box.route(budgets=PATIENT)
    record = await shown(box, camera, **FILE_CHANGE)
    await box.claim(record)
    await camera.page.until(f"{card(record)}.textContent.includes('bob is looking')")
    await camera.take("claimed")
    await away(box, camera, record)
    record = await shown(box, camera, **COMMAND)
    await box.leave()
    await camera.page.until(f"{card(record)}.textContent.includes('Agent gone')")
    await camera.take("nobody waits")
    await away(box, camera, record)
    await box.route(approvers=("bob",), budgets=PATIENT)
    record = await shown(box, camera, **HIGH_RISK)
    await camera.take("not yours to decide")
    await box.route(budgets=PATIENT)
    await away(box, camera, record)


async def together(box: Inbox, camera: Camera) -> None:
    """Show several requests reviewed at once."""
    page = camera.page
    await box.route(budgets=PATIENT)
    records = [await box.ask(**kind) for kind in (COMMAND, FILE_CHANGE, MASKED)]
    await box.ask(**HIGH_RISK)
    await page.press(f"Review 3 from {AGENT} together")
    for record in records[:2]:
        await page.press("I have read this one", card(record))
    await camera.take("side by side")
    await camera.take("at their end", at_end=True)
    await page.send("Network.enable")
    await page.send("Network.setBlockedURLs", urls=["*/inbox/api/batch?*", "*/requests/*"])
    await box.decide(records[1], Action.DENY)
    await page.press("Approve 2")
    await page.until("document.querySelector('.card .problem')")
    await camera.take("one stood in the way")
    await page.send("Network.setBlockedURLs", urls=[])
    await page.press("Deny with a reason")
    await camera.take("denied with a reason")
    for record in (*records, *(await box.gateway.core.requests.page(Query())).items):
        if not (await box.get(record)).final:
            await box.decide(record, Action.DENY)
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until(CONNECTED)


async def remembering(box: Inbox, camera: Camera) -> None:
    """Show what is remembered, and a card right after the tap."""
    page = camera.page
    record = await shown(box, camera, **FILE_CHANGE)
    await page.press("Remember…")
    await page.until("document.body.textContent.includes('exactly this')")
    await camera.take("remember")
    await page.press("Approve and remember")
    await page.until(f"{card(record)}.classList.contains('approved')")
    await camera.take("just approved")
    record = await shown(box, camera, **HIGH_RISK)
    await page.press("Edit")
    await page.press("As JSON")
    await page.until("document.querySelector('[data-key=edit]')")
    await page.send("Network.enable")
    await page.send("Network.setBlockedURLs", urls=["*?whole=1"])
    await box.decide(record, Action.DENY, message="ask the customer first")
    await page.press("Back")
    await page.press("Deny")
    await page.until("document.querySelector('[role=alert].problem')")
    await page.send("Network.setBlockedURLs", urls=[])
    await camera.take("somebody was faster")
    await page.evaluate("document.querySelector('[data-view=grants]').click()")
    await page.until("document.querySelector('.grants')")
    await camera.take("remembered")
    await page.press_twice("Revoke what ann remembered for deployer")
    await page.until("document.querySelector('.empty')")
    await page.evaluate("document.querySelector('[data-view=pending]').click()")


async def done(box: Inbox, camera: Camera) -> None:
    """Show how requests end."""
    page = camera.page
    approved = await box.ask(**COMMAND)
    await box.decide(approved)
    report = Report(execution=Execution.SUCCEEDED, duration_ms=1840)
    await box.gateway.core.approvals.report(approved.id, report, MessageContext(agent=AGENT))
    await box.decide(
        await box.ask(**FILE_CHANGE), Action.DENY, message="use the rates table of 2026"
    )
    await box.expire(await box.ask(tool="restart", arguments={"service": "web"}, timeout=0.001))
    cancelled = await box.ask(**HIGH_RISK)
    await box.gateway.core.approvals.cancel(
        cancelled.id, MessageContext(agent=AGENT), reason=Reason.CANCELLED_BY_AGENT
    )
    await page.press("History")
    await page.until("document.querySelector('.card.cancelled')")
    await camera.take("history")
    await page.press("Details", card(approved))
    await page.until(f"{card(approved)}.querySelector('pre')")
    await page.evaluate(f"document.getElementById('list').prepend({card(approved)})")
    await camera.take("history, opened")
    await page.press("Sessions")
    await page.until("document.querySelector('.sessions')")
    await camera.take("sessions")
    await page.press("Waiting")


async def shown(box: Inbox, camera: Camera, **details: Any) -> StoredRequest:
    """Ask, and wait until the page shows it."""
    record = await box.ask(**details)
    await see(camera.page, record)
    return record


async def away(box: Inbox, camera: Camera, record: StoredRequest) -> None:
    """End a request, and begin with an empty list."""
    await box.decide(record, Action.DENY)
    await camera.page.evaluate(
        "document.getElementById('who').textContent = ''; location.replace('/inbox')"
    )
    await camera.page.until(CONNECTED)
    await camera.page.until(f"!{card(record)}")


if __name__ == "__main__":
    asyncio.run(main())
