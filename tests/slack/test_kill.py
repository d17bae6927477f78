"""kill -9 at every step of post, save, ack, click, decide and edit: one decision, true cards."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from gateway.models import Status
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.person import NotShown
from tests.slack.counterpart.slack import Slack
from tests.slack.office import ROUTE as C1
from tests.slack.office import environment, put_in_force, shown
from tests.world import World, click


class Replica:
    """One gateway process."""

    def __init__(self, slack: Slack, server_url: str, namespace: str) -> None:
        self._slack = slack
        self._arguments = ("-m", "tests.slack.replica", server_url, namespace)
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start, and return once it is connected."""
        with environment(self._slack):
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._arguments,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(20):
            assert await self._process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        """End it with SIGKILL, at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)

    async def gone(self) -> None:
        """Wait until it is gone, and every socket of it."""
        assert self._process is not None
        async with asyncio.timeout(20):
            await self._process.wait()
        await self._slack.until(lambda: not self._slack.sockets.open)


@asynccontextmanager
async def running(slack: Slack, url: str, namespace: str) -> AsyncIterator[Replica]:
    """Run a replica; whatever happens, none is left."""
    replica = Replica(slack, url, namespace)
    slack.faults.kill = replica.kill
    await replica.start()
    try:
        yield replica
    finally:
        replica.kill()
        await replica.gone()


@pytest.mark.parametrize("step", ["post", "posted", "saved"])
async def test_34_killed_around_the_post(
    slack: Slack, world: World, server_url: str, namespace: str, step: str
) -> None:
    """Before the post, after it, after it was written down: never two cards, all true."""
    await put_in_force(world, C1)
    if step != "saved":
        slack.faults.plan(
            "chat.postMessage", Fault.KILLED if step == "post" else Fault.KILLED_AFTER
        )
    async with running(slack, server_url, namespace) as replica:
        record = await world.submit()
        if step == "saved":
            await world.until(lambda events: any(one.type == "delivered" for one in events))
            replica.kill()
        await replica.gone()
        await replica.start()
        if step == "post":
            assert not slack.messages("C1")
            await world.approvals.decide(click(await world.approvals.get(record.id)))
        else:
            (message,) = slack.messages("C1")
            await slack.person("UANN").click(message, "Approve")
            await slack.until(lambda: "Approved by ann" in shown(message), seconds=20)
        assert (await world.approvals.get(record.id)).status is Status.APPROVED
        assert len(slack.messages("C1")) <= 1


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("step", ["clicked", "acked", "edit", "edited"])
async def test_34_killed_around_the_click(
    slack: Slack, world: World, server_url: str, namespace: str, step: str
) -> None:
    """At the look-up, the ack, before and after the edit: one decision, a true card."""
    await put_in_force(world, C1)
    ann = slack.person("UANN")
    async with running(slack, server_url, namespace) as replica:
        record = await world.submit()
        await slack.until(lambda: slack.messages("C1"))
        await world.until(lambda events: any(one.type == "delivered" for one in events))
        (message,) = slack.messages("C1")
        if step == "acked":
            slack.sockets.on_ack = replica.kill
        else:
            method = "users.info" if step == "clicked" else "chat.update"
            slack.faults.plan(method, Fault.KILLED_AFTER if step == "edited" else Fault.KILLED)
        await ann.click(message, "Approve")
        await replica.gone()
        slack.sockets.on_ack = lambda: None
        await replica.start()
        if not (await world.approvals.get(record.id)).final:
            with suppress(NotShown):
                await ann.click(message, "Approve")
        # A killed process's lease on the card ends after 30 seconds; then another one looks at it.
        await slack.until(lambda: "Approved by ann" in shown(message), seconds=60)
        assert (await world.approvals.get(record.id)).status is Status.APPROVED
        events = await world.events(record.id)
        assert len([one for one in events if one.type == "approved"]) == 1
        assert len(slack.messages("C1")) == 1
