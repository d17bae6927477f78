"""Pictures of cards for the documents: real discord.py in the simulator, drawn by Chromium.

`python -m tests.discord.pictures` writes docs/images/discord-*.png. Look at them afterwards.
"""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import discord
import simcord

from adapters.discord.ids import Button
from adapters.discord.views import CARD_CHARS, CARD_LINES, PAGE_CHARS, Shown, card_view, full_view
from gateway.cards import card_of
from gateway.cards import full_view as pages_of
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    DecidedBy,
    DeciderKind,
    Decision,
    Execution,
    Reason,
    Report,
    Risk,
    RiskLevel,
    Status,
)
from gateway.records import Record, Vote
from tests.web.chromium import Page, chromium
from tests.world import request

FOLDER = Path(__file__).parents[2] / "docs" / "images"
NOW = 1_795_000_000_000
COPY = "0" * 22
NARROW, WIDE = (390, 1400), (1100, 1400)
MARGIN = 8
_ALONE = (
    "(() => { for (let one = document.querySelector('#focused-content'); one.parentElement;"
    " one = one.parentElement) for (const other of one.parentElement.children)"
    " if (other !== one && other.style) other.style.display = 'none' })()"
)
_STILL = (
    "(() => { const box = document.querySelector('#focused-content').getBoundingClientRect();"
    " const now = [box.y, box.height].join(); const before = window.wasAt; window.wasAt = now;"
    " return now === before })()"
)
_SETTLED = (
    "document.querySelector('#preview-app').ariaBusy !== 'true'"
    " && !document.body.innerText.includes('Updating viewport')"
    " && document.fonts.status === 'loaded'"
)
HOSTILE = (
    "echo ok # ```\n@everyone <@&1> [click](https://evil.example) ||spoiler||\n# Approved\n"
    "-# small \u202egnp.exe\u202c a\u200bb \x1b[31mred\x07 <t:0:R>\np\u0430ypal.com"
)


def pending(**changes: Any) -> Record:
    """Return a request that waits, as the store would."""
    return stored(
        request(
            agent="deploy-bot",
            session="release-4.2",
            tool="shell",
            arguments={"command": "kubectl rollout restart deployment/api -n production"},
            hint="The new image is healthy in staging; this restarts production one pod at a time.",
            context=Context(host="build-7", cwd="/srv/release"),
            allowed=(Action.APPROVE, Action.EDIT, Action.DENY),
            **changes,
        )
    )


def stored(asked: ApprovalRequest, **changes: Any) -> Record:
    """Return the record of a request."""
    values: dict[str, Any] = {
        "request": asked,
        "status": Status.PENDING,
        "revision": 1,
        "shown_since": 1,
        "digest": asked.digest,
        "created": NOW,
        "deadline": NOW + 900_000,
        "route": "default",
        "owner": "ann",
    }
    return Record(**{**values, **changes})


def decided(record: Record, status: Status, **changes: Any) -> Record:
    """Return how a request looks once it has ended."""
    values: dict[str, Any] = {
        "request_id": record.id,
        "revision": 2,
        "status": status,
        "action": None,
        "reason": Reason.PERSON,
        "digest": record.digest,
        "decided_by": DecidedBy(kind=DeciderKind.PERSON, name="bob"),
        "decided_at": NOW + 60_000,
        "expires_at": NOW + 900_000,
    }
    return replace(record, status=status, revision=2, decision=Decision(**{**values, **changes}))


def scenes() -> dict[str, Shown]:
    """Return every picture by name."""
    plain = pending()
    risky = replace(
        plain, risk=Risk(level=RiskLevel.HIGH, reasons=("touches production", "restarts pods"))
    )
    approved = decided(plain, Status.APPROVED, action=Action.APPROVE)
    ran = Report(execution=Execution.SUCCEEDED, duration_ms=4200)
    system = DecidedBy(kind=DeciderKind.SYSTEM, name="system")
    long = "\n".join(f"terraform apply -target=module.shard_{n} -auto-approve" for n in range(120))
    long_record = pending_with(command=long)
    hostile = pending_with(command=HOSTILE)
    return {
        "pending": _card(plain),
        "high-risk": _card(risky),
        "approved": _card(replace(approved, report=ran)),
        "denied": _card(
            decided(
                plain,
                Status.DENIED,
                action=Action.DENY,
                reason=Reason.FEEDBACK,
                message="not before the freeze ends on Monday",
            )
        ),
        "expired": _card(decided(plain, Status.EXPIRED, reason=Reason.TIMEOUT, decided_by=system)),
        "quorum": _card(
            replace(plain, quorum=2, votes=(Vote(person="ann", action=Action.APPROVE, at=NOW),))
        ),
        "long": _card(long_record),
        "full-view": _full(long_record),
        "hostile": _card(hostile),
    }


def pending_with(**arguments: Any) -> Record:
    """Return a request that waits, with these arguments."""
    base = pending().request
    return stored(request(agent=base.agent, session=base.session, arguments=arguments))


def _card(record: Record) -> Shown:
    return card_view(card_of(record, lines=CARD_LINES, chars=CARD_CHARS), COPY)


def _full(record: Record) -> Shown:
    whole = card_of(record, lines=10**9, chars=10**9)
    button = Button(verb="read", request_id=record.id, revision=record.revision)
    return full_view(whole, pages_of(record, page_chars=PAGE_CHARS), button)


async def photographed(
    page: Page, shown: Shown, path: Path, size: tuple[int, int], *, word: str, dark: bool = True
) -> str:
    """Draw one message as a person sees it, once `word` stands there; return all text."""
    client = discord.Client(intents=discord.Intents(guilds=True))
    async with simcord.run(client) as env:
        guild = env.create_guild(name="Acme")
        channel = guild.create_text_channel("approvals")
        ann = guild.add_member(env.create_user("ann"))
        target = client.get_channel(channel.id)
        assert isinstance(target, discord.TextChannel)
        await target.send(view=shown.view, files=shown.files, nonce=COPY)
        async with env.preview(
            channel,
            viewers=[ann],
            layout="message",
            width=size[0],
            height=size[1],
            presentation_time=datetime.fromtimestamp(NOW / 1000, UTC),
        ) as preview:
            await page.size(size, dark=dark)
            await page.goto(preview.url)
            await page.until(f"document.body.innerText.includes({json.dumps(word)})")
            await page.until(_SETTLED)
            await page.evaluate("document.fonts.ready.then(() => true)")
            await framed(page, path)
            return str(await page.evaluate("document.body.innerText"))


async def framed(page: Page, path: Path) -> None:
    """Save the message without the simulator's own frame."""
    await page.evaluate(_ALONE)
    for _ in range(5):  # the frame finds its place in steps
        await page.until(_STILL)
    box = await page.evaluate(
        "(() => { const box = document.querySelector('#focused-content').getBoundingClientRect();"
        " return [box.x + scrollX, box.y + scrollY, box.width, box.height] })()"
    )
    clip = {
        "x": box[0] - MARGIN,
        "y": box[1] - MARGIN,
        "width": box[2] + 2 * MARGIN,
        "height": box[3] + 2 * MARGIN,
        "scale": 1,
    }
    result = await page.send(
        "Page.captureScreenshot", format="png", captureBeyondViewport=False, clip=clip
    )
    path.write_bytes(base64.b64decode(result["data"]))


async def main() -> None:
    """Draw all of them."""
    async with chromium() as page:
        for name in scenes():
            sizes = {"": WIDE, "-phone": NARROW} if name in ("pending", "hostile") else {"": WIDE}
            for suffix, size in sizes.items():
                path = FOLDER / f"discord-{name}{suffix}.png"
                await photographed(page, scenes()[name], path, size, word="shell")


if __name__ == "__main__":
    asyncio.run(main())
