"""Takes the pictures of README's first screen: `python -m tests.first_screen`.

A card in Slack and the same request on a phone; and a moving picture, in which README's own script
asks, a person taps, and the script goes on. Gateway, adapter, agent and browser are the real ones.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import sys
import tempfile
from asyncio.subprocess import PIPE, STDOUT
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from PIL import Image, ImageDraw

from gateway.domain.records import Query
from gateway.models import Action
from tests.picture_files import ROOT, picture_file
from tests.slack import render
from tests.slack.counterpart.slack import Slack
from tests.slack.office import environment
from tests.web.chromium import Page, running, visiting
from tests.web.inbox import COMMAND, CONNECTED, Inbox, card, inbox, see
from tests.world import identity

SCALE = 2
SLACK_WIDTH = 480
SCREEN, SHORT_SCREEN = (390, 720), (390, 560)
TERMINAL = (414, 170)
BEZEL = 12 * SCALE
PAPER = (234, 238, 242)
EDGE = (208, 215, 222)
COLOURS, OPAQUE = 256, 128
MOST_BYTES = 1_000_000
COMMAND_LINE = "python agent.py"
APPROVE = "document.querySelector('.card [data-key=approve]')"
_STYLE = """
body { margin: 0; background: #1d2021; color: #ebdbb2; padding: 14px 16px; white-space: pre-wrap;
  overflow-wrap: anywhere; font: 13px/1.45 "DejaVu Sans Mono", monospace }
b { color: #b8bb26; font-weight: 400 } i { color: #83a598; font-style: normal }
"""


async def main() -> None:
    """Take every picture."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agent-")))
        slack = Slack()
        slack.channel("C1", "UANN")
        await stack.enter_async_context(slack.running())
        stack.enter_context(environment(slack))
        address = stack.enter_context(running())
        browser = await stack.enter_async_context(visiting(address))
        box = await stack.enter_async_context(inbox(folder, named=True, adapters=("web", "slack")))
        await box.route(approvers=("ann",), targets=("slack:T1/C1",))
        phone, desk = await browser.tab(), await browser.tab()
        await phone.size(SCREEN, scale=SCALE)
        await box.sign_in(phone)
        await beside(slack, box, phone, desk)
        await Film(box, phone, desk, folder).take()


async def beside(slack: Slack, box: Inbox, phone: Page, desk: Page) -> None:
    """Take a request as a card in Slack, and on a phone."""
    record = await box.ask(**COMMAND)
    await see(phone, record)
    await slack.until(lambda: slack.messages("C1"))
    (message,) = slack.messages("C1")
    html = render.page(render.message(message.text, message.blocks))
    posted = await drawn(desk, html, SLACK_WIDTH)
    ImageDraw.Draw(posted).rectangle((0, 0, posted.width - 1, posted.height - 1), None, EDGE, SCALE)
    save(posted, picture_file("first-slack.png"))
    save(in_hand(await phone.picture()), picture_file("first-phone.png"))
    await box.decide(record, Action.DENY, identity=identity("ann"))
    await phone.goto(f"{box.gateway.url}/inbox")
    await phone.until(f"{CONNECTED} && !{card(record)}")


async def drawn(page: Page, html: str, width: int, height: int | None = None) -> Image.Image:
    """Return a page of these words, as high as it is unless a height is given."""
    await page.size((width, height or 100), scale=SCALE)
    await page.evaluate(f"document.open(), document.write({html!r}), document.close()")
    await page.until("document.readyState === 'complete'")
    tall = height or await page.evaluate("Math.ceil(document.body.getBoundingClientRect().height)")
    await page.size((width, int(tall)), scale=SCALE)
    return Image.open(io.BytesIO(await page.picture())).convert("RGB")


def in_hand(screen: bytes) -> Image.Image:
    """Return a screen as the phone around it shows it, on nothing."""
    seen = Image.open(io.BytesIO(screen)).convert("RGB")
    size = (seen.width + 2 * BEZEL, seen.height + 2 * BEZEL)
    phone = Image.new("RGBA", size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(phone)
    draw.rounded_rectangle((0, 0, size[0] - 1, size[1] - 1), 4 * BEZEL, (24, 26, 27, 255))
    mask = Image.new("L", seen.size, 0)
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, *(one - 1 for one in seen.size)), 3 * BEZEL, 255)
    phone.paste(seen, (BEZEL, BEZEL), mask)
    return phone


def save(picture: Image.Image, path: Path) -> None:
    """Save a picture with few colours, the last of which is none, as around the phone."""
    few = picture.convert("RGB").quantize(COLOURS - 1)
    around = picture.convert("RGBA").getchannel("A").point(lambda alpha: 255 * (alpha < OPAQUE))
    few.putpalette([*(few.getpalette() or []), 0, 0, 0])
    few.paste(COLOURS - 1, mask=around)
    few.save(path, optimize=True, transparency=COLOURS - 1)


@dataclass
class Film:
    """The moving picture: a terminal, the phone below it, and a finger."""

    box: Inbox
    phone: Page
    desk: Page
    folder: Path
    frames: list[tuple[Image.Image, int]] = field(default_factory=list)
    said: str = ""

    async def take(self) -> None:
        """Run README's script, answer it by a tap, and write what was seen."""
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        (script,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
        (self.folder / "agent.py").write_text(script, encoding="utf-8")
        await self.phone.size(SHORT_SCREEN, scale=SCALE)
        for length in range(0, len(COMMAND_LINE) + 1, 3):
            await self.frame(120, typed=COMMAND_LINE[:length])
        await self.frame(700)
        agent = await asyncio.create_subprocess_exec(
            sys.executable, "agent.py", cwd=self.folder, stdout=PIPE, stderr=STDOUT,
            env={**os.environ, "GATEWAY_DATA_DIR": str(self.folder / "data")},
        )  # fmt: skip
        assert agent.stdout is not None
        self.said = (await agent.stdout.readline()).decode()
        (record,) = (await self.box.gateway.core.requests.page(Query())).items
        await see(self.phone, record)
        await self.phone.until(APPROVE)
        await self.frame(2600)
        await self.frame(500, finger=await self.place())
        await self.phone.press("Approve", card(record))
        await self.phone.until(f"{card(record)}.classList.contains('approved')")
        await self.frame(900)
        self.said += (await agent.stdout.read()).decode()
        assert await agent.wait() == 0, self.said
        await self.frame(3200)
        self.write(picture_file("first-minute.gif"))

    async def place(self) -> tuple[int, int]:
        """Return the middle of *Approve* on the phone's screen."""
        await self.phone.evaluate(f"{APPROVE}.scrollIntoView({{block: 'nearest'}})")
        box = await self.phone.evaluate(
            f"(() => {{ const box = {APPROVE}.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        return int(box[0] * SCALE), int(box[1] * SCALE)

    async def frame(
        self, milliseconds: int, *, typed: str = COMMAND_LINE, finger: tuple[int, int] | None = None
    ) -> None:
        """Add what is seen now, for so long."""
        words = f"<i>$</i> <b>{escape(typed)}</b>\n{escape(self.said)}"
        html = f"<!doctype html><style>{_STYLE}</style><body>{words}"
        above = await drawn(self.desk, html, *TERMINAL)
        below = in_hand(await self.phone.picture())
        whole = Image.new("RGB", (above.width, above.height + BEZEL + below.height), PAPER)
        whole.paste(above, (0, 0))
        whole.paste(below, (0, above.height + BEZEL), below)
        if finger:
            x, y = finger[0] + BEZEL, finger[1] + above.height + 2 * BEZEL
            mask = Image.new("L", whole.size, 0)
            ImageDraw.Draw(mask).circle((x, y), 22 * SCALE, 110)
            whole.paste((40, 40, 40), (0, 0), mask)
        self.frames.append((whole, milliseconds))

    def write(self, path: Path) -> None:
        """Write the frames, all with the colours of the last two."""
        seen = [image for image, _ in self.frames]
        both = Image.new("RGB", (seen[0].width, 2 * seen[0].height))
        both.paste(seen[-1], (0, 0))
        both.paste(seen[-3], (0, seen[0].height))
        palette = both.quantize(COLOURS)
        few = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in seen]
        times = [milliseconds for _, milliseconds in self.frames]
        few[0].save(
            path, save_all=True, append_images=few[1:], duration=times, loop=0, optimize=True
        )
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"{path.name} is larger than {MOST_BYTES} bytes")


if __name__ == "__main__":
    asyncio.run(main())
