"""In how many files of the product does code run for one Slack approval?

One process holds the agent, the gateway and the wire-level Slack of the tests: an agent asks, its
card is posted, a person presses Approve, the agent goes on, and the card shows the decision. The
files are counted with a profiler in every thread, from the asking on; start-up is not counted.

    python -m benchmarks.files_per_approval
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import adapters
import gateway
from benchmarks.slack import route_to_channel
from benchmarks.stage import ASK_TOOL, Stage, stage
from benchmarks.taps import wait_until_recorded
from gateway.client import AsyncClient
from tests.slack.counterpart.slack import Slack
from tests.slack.office import environment, shown

_ROOTS = tuple(Path(one.__file__ or "").resolve().parent for one in (gateway, adapters))
_SECONDS = 60


class Trace:
    """Which function of the product ran first in each file, in that order."""

    def __init__(self) -> None:
        self.first: dict[str, str] = {}
        self._counts = False
        self._named: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Note a call, as `sys.setprofile` has it; the body of a module that is loaded is none."""
        code = frame.f_code
        if not self._counts or event != "call" or code.co_name == "<module>":
            return
        if code.co_filename not in self._named:
            self._named[code.co_filename] = _of_product(code.co_filename)
        name = self._named[code.co_filename]
        if name is not None:
            self.first.setdefault(name, code.co_qualname)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Hear of the calls in this thread, and in those that begin meanwhile."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Note what is heard of."""
        self._counts = True
        try:
            yield
        finally:
            self._counts = False


def _of_product(filename: str) -> str | None:
    """Return the path of a file from the repository's root, None for a file of somebody else."""
    path = Path(filename)
    root = next((one for one in _ROOTS if path.is_relative_to(one)), None)
    return None if root is None else path.relative_to(root.parent).as_posix()


async def trace_approval() -> Trace:
    """Have one request approved in Slack; return what ran for it."""
    slack, trace = Slack(), Trace()
    slack.person("UANN")
    slack.channel("C1", "UANN")
    with trace.installed():
        async with slack.running():
            with environment(slack):
                async with stage(adapters=("slack",)) as scene:
                    await route_to_channel(scene, ASK_TOOL, "C1")
                    async with await _agent(scene) as client:
                        with trace.counting():
                            await _approve(scene, slack, client)
    return trace


async def _agent(scene: Stage) -> AsyncClient:
    with patch.dict(os.environ, {"GATEWAY_DATA_DIR": str(scene.folder)}):
        return await asyncio.to_thread(AsyncClient.from_env)


async def _approve(scene: Stage, slack: Slack, client: AsyncClient) -> None:
    """Ask, press Approve on the card, and wait for the answer and the card that shows it."""
    request = client.request(ASK_TOOL, {"command": "make deploy"})
    answer = asyncio.create_task(client.send(request))
    await slack.until(lambda: bool(slack.messages("C1")), seconds=_SECONDS)
    await wait_until_recorded(scene, request.id)
    card = slack.messages("C1")[0]
    await slack.person("UANN").click(card, "Approve")
    await answer
    await slack.until(lambda: "Approved" in shown(card), seconds=_SECONDS)


def main() -> None:
    """Print the number of files, and each with the function that ran first in it."""
    trace = asyncio.run(trace_approval())
    for number, (name, function) in enumerate(trace.first.items(), 1):
        print(f"{number:3} {name}  {function}")
    print(f"{len(trace.first)} files")


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith(("GATEWAY_", "REDIS_"))]:
        del os.environ[name]
    logging.basicConfig(level="WARNING", stream=sys.stderr)
    main()
