"""What an idle replica and fifty open inboxes cost, and how soon all replicas obey."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns

import aiohttp

from benchmarks.bare import AGENT
from benchmarks.children import Child, child
from benchmarks.stage import APPROVER, ASK_TOOL, argument
from benchmarks.table import Row, p50
from gateway.models import ApprovalRequest, digest_of, new_id
from gateway.stores.embedded_server import running_engine
from gateway.wire.codec import JsonObject, plain

_NAMESPACE = "gw"
_PER_SECOND = 100
_PAIRS = 1000
_PAGES, _PAGES_OF_A_SESSION = 50, 4
_ROUNDS, _DECISIONS = 3, 500
_POLICIES = 20
_SETTLE_SECONDS = 3.0
_MS = 1e6


async def replicas() -> list[Row]:
    """Measure two replicas on one server; the first one works, the second one is idle."""
    with tempfile.TemporaryDirectory(prefix="agw-bench-") as folder:
        async with (
            running_engine(Path(folder)) as engine,
            child("benchmarks.replica", engine.url, _NAMESPACE, "first") as busy,
            aiohttp.ClientSession() as http,
        ):
            keys = await busy.call("register", agent=AGENT)
            caller = Caller(http, await busy.call("address"), keys["token"])
            pages = await _pages(caller, busy)
            async with child("benchmarks.replica", engine.url, _NAMESPACE) as idle:
                return [await _idle(caller, busy, idle), pages, await _control(busy, idle)]


class Caller:
    """An agent and an approver that call the first replica over HTTP."""

    def __init__(self, http: aiohttp.ClientSession, address: JsonObject, token: str) -> None:
        self._http = http
        self.url: str = address["url"]
        self._agent = {"Authorization": f"Bearer {token}"}
        self._approver = {"Authorization": f"Bearer {address['approver']}"}

    async def submit(self) -> str:
        """Submit a new request; return its id."""
        arguments = {"command": argument()}
        draft = ApprovalRequest(
            id=new_id(), agent=AGENT, tool=ASK_TOOL, arguments=arguments, digest="0" * 64
        )
        request = replace(draft, digest=digest_of(draft))
        body = {"request": plain(request), "process": "bench0000001"}
        await self._post("/v1/requests", body, self._agent)
        return request.id

    async def pair(self) -> None:
        """Submit a request and approve it."""
        request_id = await self.submit()
        body = {"revision": 1, "action": "approve"}
        await self._post(f"/v1/requests/{request_id}/decide", body, self._approver)

    async def _post(self, path: str, body: JsonObject, headers: dict[str, str]) -> None:
        async with self._http.post(f"{self.url}{path}", json=body, headers=headers) as answer:
            if not answer.ok:
                raise RuntimeError(f"{path}: {answer.status} {await answer.text()}")
            await answer.read()


async def _idle(caller: Caller, busy: Child, idle: Child) -> Row:
    """Compare the processor time of both while one of them works."""
    await asyncio.gather(*(caller.pair() for _ in range(20)))
    await asyncio.sleep(_SETTLE_SECONDS)
    before = [(await one.call("cpu"))["ns"] for one in (busy, idle)]
    loop = asyncio.get_running_loop()
    began, calls = loop.time(), []
    for number in range(_PAIRS):
        await asyncio.sleep(began + number / _PER_SECOND - loop.time())
        calls.append(asyncio.create_task(caller.pair()))
    await asyncio.gather(*calls)
    after = [(await one.call("cpu"))["ns"] for one in (busy, idle)]
    worked, rested = (after[0] - before[0], after[1] - before[1])
    return Row(
        name="idle_replica_share",
        value=rested / worked,
        unit="of busy",
        target="<= 0.05",
        samples={"pairs": _PAIRS, "busy_ms": worked / _MS, "idle_ms": rested / _MS},
    )


async def _pages(caller: Caller, busy: Child) -> Row:
    """Compare the processor time of decisions without and with open inboxes, in turns."""
    bare, watched = [], []
    for _ in range(_ROUNDS):
        bare.append(await _decide(caller, busy))
        async with _open_pages(caller.url, busy):
            watched.append(await _decide(caller, busy))
    return Row(
        name="inbox_streams_50_ratio",
        value=p50(watched) / p50(bare),
        unit="of none",
        target="<= 1.3",
        samples={"streams": _PAGES, "decisions": _DECISIONS, "none_us": p50(bare),
                 "streams_us": p50(watched)},
    )  # fmt: skip


async def _decide(caller: Caller, busy: Child) -> float:
    """Return the processor time of one decision at the pace, in µs."""
    ids = [await caller.submit() for _ in range(_DECISIONS)]
    await asyncio.sleep(_SETTLE_SECONDS)
    found = await busy.call("decide_at", ids=ids, per_second=_PER_SECOND)
    return float(found["cpu"]) / _DECISIONS / 1e3


@asynccontextmanager
async def _open_pages(url: str, busy: Child) -> AsyncIterator[None]:
    """Keep the pages' streams open and read, of as many sessions as they need."""
    async with AsyncExitStack() as stack:
        readers = []
        for number in range(_PAGES):
            if number % _PAGES_OF_A_SESSION == 0:
                jar = aiohttp.CookieJar(unsafe=True)
                opened = aiohttp.ClientSession(cookie_jar=jar, headers={"Origin": url})
                http = await stack.enter_async_context(opened)
                code = (await busy.call("invite", person=APPROVER))["code"]
                async with http.post(f"{url}/inbox/api/login", json={"code": code}) as answer:
                    answer.raise_for_status()
            stream = await stack.enter_async_context(http.get(f"{url}/inbox/api/changes"))
            await stream.content.readline()
            readers.append(asyncio.create_task(_read(stream)))
        try:
            yield
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)


async def _read(stream: aiohttp.ClientResponse) -> None:
    async for _ in stream.content.iter_any():
        pass


async def _control(busy: Child, idle: Child) -> Row:
    """Time from a new policy on one replica until the idle one has read it."""
    took = []
    for _ in range(_POLICIES):
        generation = (await busy.call("apply"))["generation"]
        began = monotonic_ns()
        await idle.call("until_policy", generation=generation)
        took.append((monotonic_ns() - began) / _MS)
    return Row(
        name="control_event_ms",
        value=max(took),
        unit="ms, longest",
        target="<= 1000",
        samples={"count": _POLICIES, "p50_ms": p50(took)},
    )
