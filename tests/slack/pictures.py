"""Takes the pictures for the documents: `python -m tests.slack.pictures`."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.picture_files import picture_file
from tests.slack import render, states
from tests.web.chromium import Page, chromium

CARDS = 720
PHONE = 390
_TOO_HIGH = (
    "modal-home-empty",
    "modal-details-first",
    "modal-details-last",
    "long-denied",
    "pending-long-no-file",
)


async def main() -> None:
    """Take every picture: cards by state, modals, and the pending card on a phone."""
    made = states.messages()
    pages = {name: render.page(render.message(*one)) for name, one in made.items()}
    pages |= {f"modal-{name}": render.page(render.modal(v)) for name, v in states.views().items()}
    for name in _TOO_HIGH:
        del pages[name]
    async with chromium() as page:
        for name, html in pages.items():
            await shot(page, html, picture_file(f"slack-{name}.png"), CARDS)
        for name in ("pending", "pending-high-risk", "approved", "modal-home", "modal-remember"):
            path = picture_file(f"slack-{name}-phone.png")
            await shot(page, pages[name], path, PHONE, dark=True)


async def shot(page: Page, html: str, path: Path, width: int, *, dark: bool = False) -> None:
    """Save a page as high as it is."""
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as file:
        file.write(html)
        file.flush()
        await page.size((width, 100), dark=dark)
        await page.goto(Path(file.name).as_uri())
        await page.until("document.readyState === 'complete' && document.title === 'Slack'")
        height = await page.evaluate("document.documentElement.scrollHeight")
        await page.size((width, int(height)), dark=dark)
        await page.screenshot(path, whole=False)


if __name__ == "__main__":
    asyncio.run(main())
