"""Leader lock: which replica listens on the gateway, and how many sessions all have started."""

from __future__ import annotations

import asyncio
import logging
import secrets

from gateway.ports import Notes, RetryLater, bug

log = logging.getLogger("adapters.discord")

LEASE_SECONDS = 10.0
_RENEW_SECONDS = 3.0
_HAND_OVER_SECONDS, _LOOK_SECONDS = 6.0, 0.1
_LEASE, _STANDBY, _ON_LINE = "gateway connection", "gateway standby", "gateway on the line"
# After a thousand sessions in 24 hours Discord resets the bot's token.
_SESSIONS_PER_MINUTE, _SESSIONS_AT_ONCE = 0.6, 100
_SPENT = "Discord ends the sessions as soon as they begin; the next try must wait"


class Lease:
    """The right to listen, held by one replica at a time. It expires, so a dead one is replaced."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._me = secrets.token_hex(8)
        self._leaving = False

    async def obtain(self) -> None:
        """Wait until the lease is ours; meanwhile announce that a replica is standing by."""
        while not await self._notes.put_new(_LEASE, self._me, seconds=LEASE_SECONDS):
            await self._notes.put(_STANDBY, self._me, seconds=_RENEW_SECONDS)
            await asyncio.sleep(_RENEW_SECONDS / 2)

    async def keep(self) -> None:
        """Renew the lease until another replica has it. When the store is away, keep listening."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            if self._leaving:
                continue
            try:
                if not await self._extend():
                    log.info("another replica listens now", extra={"event": "discord_standby"})
                    return
            except Exception as error:
                # Whatever the store's error is, clicks must still be received.
                log.warning("lease not renewed: %s", bug(error), extra={"event": "lease_unsure"})

    async def _extend(self) -> bool:
        if await self._notes.extend(_LEASE, self._me, seconds=LEASE_SECONDS) or self._leaving:
            return True
        return await self._notes.put_new(_LEASE, self._me, seconds=LEASE_SECONDS)

    async def announce(self) -> None:
        """Announce that this replica is connected, for one that waits to leave."""
        await self._notes.put(_ON_LINE, self._me)

    async def give_up(self) -> None:
        """Release the lease, if it is ours."""
        try:
            if await self._notes.get(_LEASE) == self._me:
                await self._notes.delete(_LEASE)
        except Exception as error:
            # It expires by itself; leaving must not be delayed.
            log.info("lease not given up: %s", bug(error), extra={"event": "lease_unsure"})

    async def hand_over(self) -> None:
        """Release the lease and wait until another replica is connected, if one is standing by.

        Until then this one listens too: a click that nobody receives fails visibly.
        """
        self._leaving = True
        try:
            async with asyncio.timeout(_HAND_OVER_SECONDS):
                if await self._notes.get(_STANDBY) in (None, self._me):
                    return
                await self.give_up()
                while True:  # notes send no events, and this is brief
                    if await self._notes.get(_ON_LINE) not in (None, self._me):
                        return
                    await asyncio.sleep(_LOOK_SECONDS)
        except Exception as error:
            # As above; also when nobody took over in time.
            log.warning("not handed over: %s", bug(error), extra={"event": "lease_unsure"})


class Sessions:
    """Limits the sessions that all replicas start, within Discord's daily limit."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._next: float | None = None  # when the delayed session may start

    def wait(self) -> float:
        """Return the seconds until the next session may start, 0 when unknown."""
        if self._next is None:
            return 0.0
        return max(0.0, self._next - asyncio.get_running_loop().time())

    async def begin(self) -> None:
        """Count a session. Raises RetryLater when it may not start yet; see `wait`."""
        if self._next is None:
            told = await self._notes.delay(
                "sessions", per_minute=_SESSIONS_PER_MINUTE, burst=_SESSIONS_AT_ONCE
            )
            self._next = asyncio.get_running_loop().time() + told
        if wait := self.wait():
            raise RetryLater(wait, _SPENT)
        self._next = None
