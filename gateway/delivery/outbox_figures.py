"""How true the posted cards of one adapter are at this moment, for the metrics."""

from __future__ import annotations

from gateway.domain.clock import Clock
from gateway.domain.records import GROUP_MARK
from gateway.domain.store import Store
from gateway.ports.outgoing import Copy, CopyState, Outbox, OutboxFigures, is_grant

_MOST = 1000  # what is behind more than this is behind
_SOON_MS = 30_000  # the longest wait for a turn under a platform's limit; what is later is a check


async def measure_outbox(adapter: str, store: Store, outbox: Outbox, clock: Clock) -> OutboxFigures:
    """Return the figures of an adapter's queue: what is on it is what may be untrue."""
    queued = await outbox.queued(adapter, limit=_MOST)
    now = clock.now_ms()
    ids = [one for one, _ in queued if not is_grant(one) and not one.startswith(GROUP_MARK)]
    ended, armed = list[int](), 0
    for record in await store.load_many(ids) if ids else ():
        if record is None or not record.final:
            continue
        copies = (await outbox.copies(record.id)).values()
        if count := sum(_is_armed(copy, adapter) for copy in copies):
            armed += count
            ended.append(record.decision.decided_at if record.decision else now)
    return OutboxFigures(
        adapter=adapter,
        waiting=sum(due <= now + _SOON_MS for _, due in queued),
        overdue=max(0, max((now - due for _, due in queued), default=0)) / 1000,
        stale=armed,
        oldest_stale=max((now - at for at in ended), default=0) / 1000,
    )


def _is_armed(copy: Copy, adapter: str) -> bool:
    stands = copy.ref is not None and copy.state in (CopyState.POSTED, CopyState.STUCK)
    ours = copy.target.startswith(f"{adapter}:") and not copy.outcome
    return stands and ours and not copy.disarmed
