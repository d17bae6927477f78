"""The inbox on a phone: from its address to the first words and the first requests.

The browser's own emulation slows line and processor down; its cache is empty each time.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from benchmarks.stage import APPROVER, ARGUMENT, ASK_TOOL, Stage, stage
from benchmarks.table import Row, p50
from gateway.domain.store import MessageContext
from gateway.models import ApprovalRequest, digest_of, new_id
from tests.web.chromium import PHONE, Page, running, visiting

_WAITING = 1_000
_LOOKS = 5
_AT_ONCE = 50
_BYTES = 1_600_000 / 8  # of each second
_LATENCY_MS = 150
_SLOWER = 4
# What the page itself saw, in ms since its address was asked for.
_WATCH = """
new MutationObserver((_, watch) => {
  if (!document.querySelector(".row-link")) return;
  watch.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.seen = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
_TEXT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


async def paint() -> list[Row]:
    """Measure the first sight of a long queue."""
    async with stage() as scene:
        await _ask(scene)
        with running() as address:
            async with visiting(address) as browser:
                page = await browser.tab(PHONE)
                await _sign_in(scene, page)
                await _slow_down(page)
                looks = [await _look(scene, page) for _ in range(_LOOKS + 1)][1:]
    text, requests = [p50(times) for times in zip(*looks, strict=True)]
    samples = {"waiting": _WAITING, "rtt_ms": _LATENCY_MS, "cpu_slower": _SLOWER}
    return [
        Row(name="inbox_first_text_ms", value=text, unit="ms", target="<= 1500", samples=samples),
        Row(
            name="inbox_first_requests_ms",
            value=requests,
            unit="ms",
            target="<= 1500",
            samples={**samples, "worst_ms": max(one for _, one in looks)},
        ),
    ]


async def _ask(scene: Stage) -> None:
    """Have a thousand requests wait, of many agents."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def ask(number: int) -> None:
        name = f"agent-{number % 40}"
        draft = ApprovalRequest(
            id=new_id(),
            agent=name,
            tool=ASK_TOOL,
            arguments={"command": f"{number} {ARGUMENT}"},
            digest="0" * 64,
        )
        request = replace(draft, digest=digest_of(draft))
        async with limit:
            await scene.gateway.core.approvals.submit(request, MessageContext(agent=name))

    await asyncio.gather(*(ask(number) for number in range(_WAITING)))


async def _sign_in(scene: Stage, page: Page) -> None:
    code = await scene.gateway.backend.logins.invite(APPROVER)
    await page.goto(f"{scene.gateway.url}/inbox/login#code={code}")
    await page.press(f"Sign in as {APPROVER}")
    await page.until("location.pathname === '/inbox' && document.querySelector('.row-link')")
    await page.send("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)


async def _slow_down(page: Page) -> None:
    await page.send("Network.enable")
    await page.send("Network.setCacheDisabled", cacheDisabled=True)
    await page.send(
        "Network.emulateNetworkConditions",
        offline=False,
        latency=_LATENCY_MS,
        downloadThroughput=_BYTES,
        uploadThroughput=_BYTES,
    )
    await page.send("Emulation.setCPUThrottlingRate", rate=_SLOWER)


async def _look(scene: Stage, page: Page) -> tuple[float, float]:
    """Open the inbox anew; return when its first words stood there, and its first requests."""
    await page.goto("about:blank")
    await page.until("location.href === 'about:blank'")
    await page.goto(f"{scene.gateway.url}/inbox")
    seen = await page.until("window.seen")
    return await page.evaluate(_TEXT), seen
