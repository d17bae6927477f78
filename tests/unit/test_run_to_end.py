"""A write is completed even if its caller disconnects, and a failure is then in the log."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gateway.domain.time_and_tasks import run_to_end


class _Write:
    def __init__(self, error: Exception | None = None) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.done = False
        self._error = error

    async def work(self) -> str:
        self.begun.set()
        await self.may_end.wait()
        self.done = True
        if self._error is not None:
            raise self._error
        return "written"


async def _disconnect(write: _Write) -> asyncio.Task[str]:
    caller = asyncio.create_task(run_to_end(write.work()))
    await write.begun.wait()
    caller.cancel()
    write.may_end.set()
    await asyncio.wait({caller})
    return caller


async def test_a_write_continues_after_its_caller_disconnects() -> None:
    """Also when the caller is cancelled before the write ends."""
    write = _Write()
    caller = await _disconnect(write)
    assert caller.cancelled()
    assert write.done


async def test_an_error_that_no_caller_hears_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The line has an event that an operator can search for."""
    with caplog.at_level(logging.WARNING, "gateway"):
        caller = await _disconnect(_Write(ValueError("no room")))
    assert caller.cancelled()
    assert [record.event for record in caplog.records] == ["write_unheard"]  # type: ignore[attr-defined]
    assert "no room" in caplog.text


async def test_its_caller_gets_the_result_or_the_error() -> None:
    """As without `run_to_end`."""
    write = _Write()
    write.may_end.set()
    assert await run_to_end(write.work()) == "written"
    failing = _Write(ValueError("no room"))
    failing.may_end.set()
    with pytest.raises(ValueError, match="no room"):
        await run_to_end(failing.work())
