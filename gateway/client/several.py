"""Asks several requests at once: all end, and an abort withdraws the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from gateway.client.approval import Approval
from gateway.client.outcome import Outcome, outcome_of, withdrawn
from gateway.models import ApprovalRequest

_STOPPED = "not asked any more: the answer to another request of this group stopped the turn"

Send = Callable[[ApprovalRequest], Awaitable[Approval]]
Refuse = Callable[[ApprovalRequest], Awaitable[None]]


async def ask_all(requests: Sequence[ApprovalRequest], send: Send, refuse: Refuse) -> list[Outcome]:
    """Return the outcome of each request, in their order.

    After an abort those that wait are withdrawn, and an approval that comes nevertheless is refused
    with `refuse`. An exception that is no outcome withdraws them too, and is raised.
    """
    tasks = [asyncio.create_task(outcome_of(send(one))) for one in requests]
    waiting = set(tasks)
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if any(one.result().abort for one in done):
                break
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # also those that failed beside it
    pairs = zip(requests, tasks, strict=True)
    return [
        await _last_word(request, task, refuse) if task in waiting else task.result()
        for request, task in pairs
    ]


async def _last_word(
    request: ApprovalRequest, task: asyncio.Task[Outcome], refuse: Refuse
) -> Outcome:
    """Return the outcome of a request that was withdrawn; one that was faster counts unless it may
    run."""
    if task.cancelled() or task.exception() is not None:
        return withdrawn(_STOPPED)
    outcome = task.result()
    if outcome.approval is None:
        return outcome
    await refuse(request)
    return withdrawn(_STOPPED)
