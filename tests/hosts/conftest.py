"""What the tests of all hosts share: a gateway, people who answer, and the installed host."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.records import StoredRequest
from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, Replica
from tests.hosts.__main__ import HOSTS, file_name, known_hosts

Answer = Callable[..., Awaitable[StoredRequest]]
NO_GATEWAY = {"GATEWAY_URL": "http://127.0.0.1:9", "GATEWAY_CONNECT_TIMEOUT": "0.1"}


@pytest.fixture
def answer(gate: Replica) -> Answer:
    """Return what waits for the next request, and has Ann answer it."""

    async def answer_next(action: str = "approve", **more: Any) -> StoredRequest:
        waiting = await gate.waiting()
        record = waiting[-1]
        done = await gate.decided(record.id, action, **more)
        assert done.status == 200, done.json
        return record

    return answer_next


@pytest.fixture
def installed(request: pytest.FixtureRequest) -> Path:
    """Return the folder of the host whose tests these are."""
    stem = Path(str(request.path)).stem.removeprefix("test_")
    folder = next(HOSTS / name for name in known_hosts() if stem.startswith(file_name(name)))
    if not (folder / "installed").exists():
        pytest.skip("`make test-hosts` installs the host")
    return folder


def environment(gate: Replica, home: Path, **more: str) -> dict[str, str]:
    """Return the environment of an agent that has a home of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "GATEWAY_URL": gate.url,
        "GATEWAY_TOKEN": AGENT_TOKEN,
        "GATEWAY_AGENT": "agent1",
        **more,
    }


async def run(*command: str, env: dict[str, str], cwd: Path) -> tuple[int, str]:
    """Run a program to its end; return its exit code and everything that it printed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=env,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    return process.returncode or 0, said.decode()


async def remember(gate: Replica) -> None:
    """Approve what waits for the next request, and remember that for its session."""
    waiting = await gate.waiting()
    offers = await gate.call("GET", f"/v1/requests/{waiting[0].id}/offers", token=ANN_TOKEN)
    wish = {"offer": offers.json["approve"][0]["id"], "lifetime": "1h", "everywhere": False}
    done = await gate.decided(waiting[0].id, remember=wish)
    assert done.status == 200, done.json


async def finish(running: Coroutine[Any, Any, tuple[int, str]], *answers: Any) -> list[Any]:
    """Run a host to its end while somebody answers, one after another; return what it printed, and
    what was answered. Fails where it ends before."""
    ends, given = asyncio.create_task(running), []
    for one in answers:
        answering = asyncio.create_task(one)
        await asyncio.wait({ends, answering}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            answering.cancel()
            raise AssertionError(f"it ended and nobody was asked: {ends.result()}")
        given.append(answering.result())
    code, said = await ends
    assert code == 0, said
    return [said, *given]
