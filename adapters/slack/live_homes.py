"""Keeps the Home tabs that people have opened true: redrawn when requests come or go, and when
everything is stopped or allowed again."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

from gateway.errors import Unreachable
from gateway.ports import Desk, Pace, Rate, RetryLater, bug, cancel_and_wait

log = logging.getLogger("adapters.slack.homes")

# Slack allows a hundred looks at people a minute, and each drawing takes one; clicks come first.
DRAWINGS = Rate(40, 60.0)
_REST_SECONDS = 2.0  # what happens meanwhile is shown together
_WATCHED_SECONDS = 8 * 3600.0  # Slack does not say when somebody closes the tab
_MOST = 100
_NOTE = "homes"
_CHANGES = ("stopped", "resumed", "policy_applied", "grant_")

Draw = Callable[[str, str], Awaitable[None]]
"""Draws the Home tab of a user in a workspace, if it shows something else by now."""


class LiveHomes:
    """Knows who has opened Home of late, and has it drawn again."""

    def __init__(self, desk: Desk, pace: Pace, draw: Draw) -> None:
        self._desk = desk
        self._pace = pace
        self._draw = draw
        self._opened: dict[tuple[str, str], None] = {}  # the latest last
        self._bell = asyncio.Event()

    async def watch(self, team: str, user: str) -> None:
        """Keep this tab true from now on; other replicas know when they start."""
        known = (team, user) in self._opened
        self._opened.pop((team, user), None)
        self._opened[team, user] = None
        while len(self._opened) > _MOST:
            del self._opened[next(iter(self._opened))]
        if not known:
            text = json.dumps(list(self._opened))
            await self._desk.notes.put(_NOTE, text, seconds=_WATCHED_SECONDS)

    async def run(self) -> None:
        """Draw until cancelled."""
        known = await self._desk.notes.get(_NOTE)
        for team, user in json.loads(known) if known else ():
            self._opened.setdefault((team, user))
        listening = asyncio.create_task(self._listen(), name="slack home bell")
        try:
            while True:
                await self._bell.wait()
                self._bell.clear()
                for team, user in list(self._opened):
                    await self._draw_one(team, user)
                await asyncio.sleep(_REST_SECONDS)
        finally:
            await cancel_and_wait(listening)

    async def _draw_one(self, team: str, user: str) -> None:
        try:
            async with self._pace.slot(f"homes {team}", DRAWINGS, user, rank=0):
                await self._draw(team, user)
        except RetryLater as later:
            asyncio.get_running_loop().call_later(later.seconds, self._bell.set)
        except Exception as error:
            # Whatever it was, the others' tabs are drawn; this one at the next change.
            log.warning("no Home: %s", bug(error), extra={"event": "slack_no_home"})

    async def _listen(self) -> None:
        while True:
            try:
                async with self._desk.feed.changes() as events:
                    self._bell.set()
                    async for event in events:
                        if event.request_id or event.type.startswith(_CHANGES):
                            self._bell.set()
            except Unreachable:
                log.info("homes fell behind the events", extra={"event": "slack_homes_behind"})
