"""kill -9 at every step of post, save, ack, click, decide and edit: one decision, true cards."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from gateway.delivery.outbox_worker import TIMINGS
from gateway.models import Status
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.person import NotShown
from tests.slack.counterpart.slack import Slack
from tests.slack.office import ROUTE as C1
from tests.slack.office import environment, put_in_force, shown
from tests.world import World, click

pytestmark = pytest.mark.thorough


class Replica:
    """One gateway process."""

    def __init__(self, slack: Slack, server_url: str, namespace: str) -> None:
        self._slack = slack
        self._arguments = ("-m", "tests.slack.replica", server_url, namespace)
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, *doom: str) -> None:
        """Start, and return once it is connected; it kills itself at the step that `doom` names."""
        with environment(self._slack):
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *(*self._arguments, *doom),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(40):
            assert await self._process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        """End it with SIGKILL, at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)

    async def gone(self) -> None:
        """Wait until it is gone, and every socket of it."""
        assert self._process is not None
        async with asyncio.timeout(40):
            await self._process.wait()
        await self._slack.until(lambda: not self._slack.sockets.open)


@asynccontextmanager
async def running(slack: Slack, url: str, namespace: str) -> AsyncIterator[Replica]:
    """Yield a replica to be started; whatever happens, none is left."""
    replica = Replica(slack, url, namespace)
    slack.faults.kill = replica.kill
    try:
        yield replica
    finally:
        replica.kill()
        await replica.gone()


# Steps are before and after a script. `put_copy` writes down a copy: first that it will be posted,
# then where it stands, then what it shows. `change_requests` decides.
KEEP_INTENT, KEEP_PLACE, KEEP_SHOWN = "1", "2", "3"
slow = pytest.mark.slow


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("step", "cards"),
    [
        pytest.param(("put_copy:before", KEEP_INTENT), 1, marks=slow),
        pytest.param(("put_copy:after", KEEP_INTENT), 0, marks=slow),
        pytest.param(Fault.KILLED, 0, marks=slow),
        pytest.param(Fault.KILLED_AFTER, 1),
        pytest.param(("put_copy:before", KEEP_PLACE), 1, marks=slow),
        pytest.param(("put_copy:after", KEEP_PLACE), 1, marks=slow),
    ],
)
async def test_34_killed_around_the_post(
    slack: Slack,
    world: World,
    server_url: str,
    namespace: str,
    step: Fault | tuple[str, str],
    cards: int,
) -> None:
    """At every step of posting and saving: never two cards, and what stands there is true."""
    await put_in_force(world, C1)
    async with running(slack, server_url, namespace) as replica:
        if isinstance(step, Fault):
            slack.faults.plan("chat.postMessage", step)
            await replica.start()
        else:
            await replica.start(*step)
        record = await world.submit()
        await replica.gone()
        await replica.start()
        if cards:
            await slack.until(lambda: slack.messages("C1"), seconds=20)
            (message,) = slack.messages("C1")
            await slack.person("UANN").click(message, "Approve")
            await slack.until(lambda: "Approved by ann" in shown(message), seconds=20)
        else:
            await world.core.requests.decide(click(await world.core.requests.get(record.id)))
        await one_decision(world, record.id)
        assert len(slack.messages("C1")) == cards


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "step",
    [
        pytest.param("acked", marks=slow),
        pytest.param("users.info", marks=slow),
        pytest.param(("change_requests:before", "1"), marks=slow),
        pytest.param(("change_requests:after", "1")),
        pytest.param(Fault.KILLED, marks=slow),
        pytest.param(Fault.KILLED_AFTER, marks=slow),
        pytest.param(("put_copy:before", KEEP_SHOWN), marks=slow),
        pytest.param(("put_copy:after", KEEP_SHOWN), marks=slow),
    ],
)
async def test_34_killed_around_the_click(
    slack: Slack, world: World, server_url: str, namespace: str, step: Fault | str | tuple[str, str]
) -> None:
    """At every step of ack, click, decide and edit: one decision, a true card."""
    await put_in_force(world, C1)
    ann = slack.person("UANN")
    async with running(slack, server_url, namespace) as replica:
        await replica.start(*(step if isinstance(step, tuple) else ()))
        record = await world.submit()
        await slack.until(lambda: slack.messages("C1"))
        await world.until(lambda events: any(one.type == "delivered" for one in events))
        (message,) = slack.messages("C1")
        if step == "acked":
            slack.sockets.on_ack = replica.kill
        elif step == "users.info":
            slack.faults.plan(step, Fault.KILLED)
        elif isinstance(step, Fault):
            slack.faults.plan("chat.update", step)
        # Whoever clicked waits for an answer; none comes any more once the process is dead.
        clicked = asyncio.create_task(ann.click(message, "Approve"))
        await replica.gone()
        clicked.cancel()
        slack.sockets.on_ack = lambda: None
        await replica.start()
        if not (await world.core.requests.get(record.id)).final:
            with suppress(NotShown):
                await ann.click(message, "Approve")
        # What a killed process was looking at is looked at again when its lease ends.
        await slack.until(lambda: "Approved by ann" in shown(message), seconds=TIMINGS.lease + 20)
        await one_decision(world, record.id)
        assert len(slack.messages("C1")) == 1


async def one_decision(world: World, request_id: str) -> None:
    """Fail unless it is approved, once."""
    assert (await world.core.requests.get(request_id)).status is Status.APPROVED
    events = await world.events(request_id)
    assert len([one for one in events if one.type == "approved"]) == 1
