"""Pictures of cards for the documents: real discord.py in the simulator, drawn by Chromium.

`python -m tests.discord.pictures` writes docs/images/discord-*.png: one for each page that shows
it, and sheets of all of them, dark and light, wide and on a phone. Look at them afterwards.
"""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import discord
import simcord

from adapters.discord.cards import CARD_CHARS, CARD_LINES, MessageContent, build_card_view
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.full_view import build_full_view, page_fits
from adapters.discord.grants import build_grants_view
from gateway.cards.card import card_of
from gateway.cards.card import full_view as pages_of
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import StoredRequest, Vote
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    DecidedBy,
    DeciderKind,
    Decision,
    Execution,
    FieldKind,
    Kind,
    Option,
    Question,
    Reason,
    Report,
    Risk,
    RiskLevel,
    Status,
)
from gateway.policy.grants.grant import Effect, Grant, Match, Shape
from gateway.policy.guardrails import assess
from tests.picture_files import picture_file
from tests.web.chromium import Page, chromium
from tests.web.sheets import cropped, only, sheet
from tests.world import request

NOW = 1_795_000_000_000
COPY = "0" * 22
NARROW, WIDE = (390, 1400), (800, 1400)
SHAPES = {"": (WIDE, 2, 1200), "-phone": (NARROW, 4, 1300)}
SHEETS = {
    "cards": (
        *("pending", "high-risk", "quorum", "question"),
        *("approved", "edited", "denied", "expired"),
    ),
    "reading": ("long", "full-view", "hostile", "grants"),
}
PAGES = ("pending", "denied", "long", "full-view", "hostile")
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
# The simulator scrolls long lines of code sideways, where Discord's own clients wrap them, and is
# dark only: the light colours are Discord's, laid over its own.
_WRAPPED = """
.code-block, .code-block code { white-space: pre-wrap !important; min-width: 0 !important;
  overflow-wrap: anywhere }
"""
_LIGHT = """
:root { color-scheme: light; color: #2f3035; --discord-bg: #ffffff; --discord-surface: #f2f3f5;
  --discord-elevated: #ffffff; --discord-control: #ebedef; --discord-hover: #e0e1e5;
  --discord-text: #2f3035; --discord-muted: #6a6d75; --discord-subtle: #4e5058;
  --discord-border: #d8d9dc; --component-surface: #f8f8f9; --component-border: #d8d9dc;
  --subtle-surface: #e0e1e5; --subtle-surface-text: #2f3035; --button-alt: #e0e1e5;
  --code-surface: #eeeef2; --code-border: #d5d6dc; --code-text: #2f3035; --link-text: #006ce7;
  --entity-text: #2f3035; --entity-dim: #4e5058; --option-hover: #e0e1e5 }
.message-content, .button-style-2 { color: #2f3035 !important }
html, body { background: #ffffff }
.hljs-comment, .hljs-quote { color: #6a737d }
.hljs-built_in, .hljs-type, .hljs-attr, .hljs-attribute { color: #b05a00 }
.hljs-string, .hljs-doctag, .hljs-regexp { color: #0a4a8f }
"""
HOSTILE = (
    "echo ok # ```\n@everyone <@&1> [click](https://evil.example) ||spoiler||\n# Approved\n"
    "-# small \u202egnp.exe\u202c a\u200bb \x1b[31mred\x07 <t:0:R>\np\u0430ypal.com"
)


def pending(**changes: Any) -> StoredRequest:
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


def stored(asked: ApprovalRequest, **changes: Any) -> StoredRequest:
    """Return the record of a request, as the gateway keeps it: with what its guardrails find."""
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
    made = StoredRequest(**values)
    return replace(assess(made, PolicyDocument().ruling_on(made.request)), **changes)


def decided(record: StoredRequest, status: Status, **changes: Any) -> StoredRequest:
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


def scenes() -> dict[str, MessageContent]:
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
        "edited": _card(_edited(plain)),
        "question": _card(_question()),
        "grants": build_grants_view(_grants()),
    }


def _edited(record: StoredRequest) -> StoredRequest:
    """Return a request that was approved with other arguments."""
    changed = {"command": "kubectl rollout restart deployment/api -n staging"}
    ended = decided(record, Status.APPROVED, action=Action.EDIT, arguments=changed)
    return replace(ended, edited=changed)


def _question() -> StoredRequest:
    """Return a question with a free text and a choice."""
    asked = request(
        agent="deploy-bot",
        session="release-4.2",
        tool="ask",
        kind=Kind.QUESTION,
        arguments={},
        questions=(
            Question(id="when", text="When may the migration lock the table?"),
            Question(
                id="where",
                text="Which cluster goes first?",
                kind=FieldKind.CHOICE,
                options=(Option(value="eu-1"), Option(value="us-1")),
            ),
        ),
        allowed=(Action.ANSWER, Action.DENY),
    )
    return stored(asked)


def _grants() -> list[Grant]:
    """Return three remembered decisions: narrow, wide, and a denial."""
    day = 86_400_000
    tool = Match(shape=Shape.TOOL, tool="shell")
    values: dict[str, Any] = {"agent": "deploy-bot", "match": tool, "made_at": NOW}
    return [
        Grant(
            id="5c" * 16,
            effect=Effect.ALLOW,
            made_by="ann",
            session="release-4.2",
            expires_at=NOW + day,
            used=4,
            words="exactly this command: make lint",
            **values,
        ),
        Grant(
            id="a1" * 16,
            effect=Effect.ALLOW,
            made_by="bob",
            expires_at=NOW + 30 * day,
            used=112,
            words="git status with any paths, in /srv/release",
            **values,
        ),
        Grant(
            id="e9" * 16,
            effect=Effect.DENY,
            made_by="ann",
            words="every use of @everyone **shell** [here](https://x)",
            **values,
        ),
    ]


def pending_with(**arguments: Any) -> StoredRequest:
    """Return a request that waits, with these arguments."""
    base = pending().request
    return stored(request(agent=base.agent, session=base.session, arguments=arguments))


def _card(record: StoredRequest) -> MessageContent:
    return build_card_view(card_of(record, lines=CARD_LINES, chars=CARD_CHARS), COPY)


def _full(record: StoredRequest) -> MessageContent:
    whole = card_of(record, lines=10**9, chars=10**9)
    button = DiscordButton(verb="read", request_id=record.id, revision=record.revision)
    return build_full_view(whole, pages_of(record, fits=page_fits), button)


async def photographed(
    page: Page,
    shown: MessageContent,
    path: Path,
    size: tuple[int, int],
    *,
    word: str,
    dark: bool = True,
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
            style = json.dumps(_WRAPPED + ("" if dark else _LIGHT))
            await page.evaluate(
                "(() => { const sheet = new CSSStyleSheet(); sheet.replaceSync(" + style + ");"
                " document.adoptedStyleSheets = [sheet] })()"
            )
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
        "x": box[0],
        "y": box[1],
        "width": box[2],
        "height": box[3] + MARGIN,
        "scale": 1,
    }
    result = await page.send(
        "Page.captureScreenshot", format="png", captureBeyondViewport=False, clip=clip
    )
    path.write_bytes(base64.b64decode(result["data"]))


async def main() -> None:
    """Draw all of them."""
    every = tuple(scenes())
    taken: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        async with chromium() as page:
            for shape, (size, columns, most) in SHAPES.items():
                for dark in (True, False):
                    for name in every:
                        # Each anew: sending uses a view up.
                        shown = scenes()[name]
                        await photographed(page, shown, path, size, word="TestBot", dark=dark)
                        taken[name] = cropped(path.read_bytes(), most)
                    for title, names in SHEETS.items():
                        end = f"{title}{shape}{'' if dark else '-light'}"
                        at = picture_file(f"discord-{end}.png")
                        sheet(only(taken, names), at, columns=columns, dark=dark)
                    for name in PAGES if dark and not shape else ():
                        one = {"": taken[name]}
                        sheet(one, picture_file(f"discord-{name}.png"), columns=1, dark=dark)


if __name__ == "__main__":
    asyncio.run(main())
