"""Takes the pictures of the inbox for the documents: `python -m tests.web.screenshots`."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.models import Action, Execution, Report
from gateway.ports import Origin
from gateway.records import Record
from tests.web.chromium import DESK, PHONE, Page, chromium
from tests.web.inbox import (
    AGENT,
    COMMAND,
    FILE_CHANGE,
    HIGH_RISK,
    HOSTILE,
    LONG,
    QUESTION,
    Inbox,
    inbox,
)
from tests.world import click

FOLDER = Path(__file__).parents[2] / "docs" / "images"
SHAPES = (
    ("phone", PHONE, False),
    ("phone-dark", PHONE, True),
    ("desk", DESK, False),
    ("desk-dark", DESK, True),
)
STATES: dict[str, dict[str, Any]] = {
    "command": COMMAND,
    "high-risk": HIGH_RISK,
    "file-change": FILE_CHANGE,
    "hostile": HOSTILE,
    "long": LONG,
    "question": QUESTION,
}


async def main() -> None:
    """Take every picture."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with inbox(Path(folder)) as box, chromium() as page:
            await page.size(PHONE)
            await box.sign_in(page)
            await shots(page, "empty")
            for name, details in STATES.items():
                record = await box.ask(**details)
                await page.until(f"document.querySelector('[data-id=\"{record.id}\"]')")
                await shots(page, name)
                await box.gateway.approvals.decide(click(record, Action.DENY))
                await page.evaluate("location.reload()")
                await page.until("document.querySelector('.empty')")
            await edit(box, page)
            await endings(box, page)


async def edit(box: Inbox, page: Page) -> None:
    """Show an edit with its diff."""
    await box.ask(**HIGH_RISK)
    await page.press("Edit")
    changed = '{"order": "A-10477", "amount": 249.0, "currency": "EUR", "notify": true}'
    await page.fill("textarea", changed)
    await page.press("Show the changes")
    await page.until("document.querySelector('.extra .added')")
    await shots(page, "edit")


async def endings(box: Inbox, page: Page) -> None:
    """Show how requests end."""
    approved = await box.ask(**COMMAND)
    await decide(box, approved, Action.APPROVE)
    report = Report(execution=Execution.SUCCEEDED, duration_ms=1840)
    await box.gateway.approvals.report(approved.id, report, Origin(agent=AGENT))
    await decide(
        box, await box.ask(**FILE_CHANGE), Action.DENY, message="use the rates table of 2026"
    )
    expired = await box.ask(tool="restart", arguments={"service": "web"}, timeout=0.001)
    while (await box.get(expired)).final is False:
        await box.gateway.approvals.expire(expired.id)
    await page.press("History")
    await page.until("document.querySelector('.card.expired')")
    await shots(page, "history", whole=False)


async def decide(box: Inbox, record: Record, action: Action, message: str = "") -> None:
    """Decide as ann."""
    await box.gateway.approvals.decide(replace(click(record, action), message=message))


async def shots(page: Page, name: str, *, whole: bool = True) -> None:
    """Take one state in every shape."""
    for shape, size, dark in SHAPES:
        await page.size(size, dark=dark)
        await page.screenshot(FOLDER / f"inbox-{name}-{shape}.png", whole=whole)


if __name__ == "__main__":
    asyncio.run(main())
