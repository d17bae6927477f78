"""What the replicas share about the gateway connection: who listens, and the sessions of a day."""

from __future__ import annotations

import asyncio
import logging
import secrets

from gateway.ports import Notes, RetryLater

log = logging.getLogger("adapters.discord")

LEASE_SECONDS = 10.0
_RENEW_SECONDS = 3.0
_HAND_OVER_SECONDS, _LOOK_SECONDS = 6.0, 0.1
_LEASE, _STANDBY, _ON_LINE = "gateway connection", "gateway standby", "gateway on the line"
# After a thousand sessions in 24 hours Discord makes the bot's token worthless.
_SESSIONS_PER_MINUTE, _SESSIONS_AT_ONCE = 0.6, 100
_SPENT = "Discord ends the sessions as soon as they begin; the next try must wait"


class Lease:
    """One at a time may listen. A lease ends by itself, so that a dead replica is followed."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._me = secrets.token_hex(8)
        self._leaving = False

    async def obtain(self) -> None:
        """Return once it is ours; meanwhile others can see that somebody stands by."""
        while not await self._notes.put_new(_LEASE, self._me, seconds=LEASE_SECONDS):
            await self._notes.put(_STANDBY, self._me, seconds=_RENEW_SECONDS)
            await asyncio.sleep(_RENEW_SECONDS / 2)

    async def keep(self) -> None:
        """Return once another replica has it. When the store is away, we keep listening."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            if self._leaving:
                continue
            try:
                if not await self._extended():
                    log.info("another replica listens now", extra={"event": "discord_standby"})
                    return
            except Exception as error:
                # Whatever the store's trouble is, a tap that comes to us now must be heard.
                log.warning("lease not renewed: %s", error, extra={"event": "lease_unsure"})

    async def _extended(self) -> bool:
        if await self._notes.extend(_LEASE, self._me, seconds=LEASE_SECONDS) or self._leaving:
            return True
        return await self._notes.put_new(_LEASE, self._me, seconds=LEASE_SECONDS)

    async def on_line(self) -> None:
        """Let a replica that is about to leave know that we have taken over."""
        await self._notes.put(_ON_LINE, self._me)

    async def give_up(self) -> None:
        """Let another have it at once, if it is ours."""
        try:
            if await self._notes.get(_LEASE) == self._me:
                await self._notes.delete(_LEASE)
        except Exception as error:
            # Then it ends by itself; whoever leaves must not be kept.
            log.info("lease not given up: %s", error, extra={"event": "lease_unsure"})

    async def hand_over(self) -> None:
        """Return when another replica is on the line, at once when none stands by.

        Until then we listen too: a tap that nobody hears fails before the person's eyes.
        """
        self._leaving = True
        try:
            async with asyncio.timeout(_HAND_OVER_SECONDS):
                if await self._notes.get(_STANDBY) in (None, self._me):
                    return
                await self.give_up()
                while True:  # the store tells nobody of a note, and this is over in a moment
                    if await self._notes.get(_ON_LINE) not in (None, self._me):
                        return
                    await asyncio.sleep(_LOOK_SECONDS)
        except Exception as error:
            # As above, also when nobody took over in time.
            log.warning("not handed over: %r", error, extra={"event": "lease_unsure"})


class Sessions:
    """Counts the sessions that all replicas begin, and lets no more begin than a day has."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._next: float | None = None  # when the one that had to wait may begin

    def wait(self) -> float:
        """Return in how many seconds the next one may begin, 0 when that is not known."""
        if self._next is None:
            return 0.0
        return max(0.0, self._next - asyncio.get_running_loop().time())

    async def begin(self) -> None:
        """Return when a session may begin now; else raises RetryLater, and `wait` tells when."""
        if self._next is None:
            told = await self._notes.delay(
                "sessions", per_minute=_SESSIONS_PER_MINUTE, burst=_SESSIONS_AT_ONCE
            )
            self._next = asyncio.get_running_loop().time() + told
        if wait := self.wait():
            raise RetryLater(wait, _SPENT)
        self._next = None
