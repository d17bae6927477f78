"""Measure what the operator's page shows: start at `measure_operations`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from gateway.approvals.services import Core
from gateway.delivery.outbox_worker import measure_outbox
from gateway.domain.health_and_metrics import Readiness, StoreFigures
from gateway.domain.policy_document import PolicyDocument, adapters_of
from gateway.domain.time_and_tasks import SystemClock
from gateway.ports import Adapter
from gateway.ports.adapters import FAIL, OK, WARN
from gateway.ports.operations import AdapterState, Check, Operations, PendingShare
from gateway.server.connections import Backend
from gateway.server.settings import Settings
from gateway.server.stored_data_checks import (
    MEMORY_REMEDY,
    MOST_USED,
    STORED_DATA_CHECKS,
    UNREAD_REMEDY,
    run_check,
)
from gateway.stores.event_feed import RedisCursor
from gateway.stores.ingress import REPLICA_LEASE_MS
from gateway.stores.requests import RedisStore, list_gateways, measure_pending, measure_store

_QUICK = ("clock", "approvers", "mode", "kill switch", "paused agents", "dead letters", "outboxes")
"""The quick checks of `gateway doctor`."""
_MOST_AGENTS = 5
_LATE_SECONDS, _UNARCHIVED_SECONDS = 60, 2 * 3600
_DOCTOR = "run `gateway doctor` on the gateway's host"
_REMEDIES = {
    "redis": f"check that Redis runs, with free disk and memory; {_DOCTOR}",
    "target": f"check that the channel exists and that the app may post there; {_DOCTOR}",
    "adapter": f"check the adapter's token and the platform's status page; {_DOCTOR}",
    "archive": "check that the folder in GATEWAY_ARCHIVE exists, is writable and has room",
    "policy": "correct the policy file; until then, the previous policy applies",
}


async def measure_operations(
    settings: Settings,
    backend: Backend,
    core: Core,
    adapters: Mapping[str, Adapter],
    ready: Callable[[], Awaitable[Readiness]],
) -> Operations:
    """Return the state of all gateways, as this process sees it. Raises the errors of Redis.

    `ready` looks for this process's problems, as for `/readyz`.
    """
    store, policy, now = backend.store, await backend.store.policy(), await backend.store.now()
    oldest, readiness = await store.oldest_pending(), await ready()
    names = dict.fromkeys((*adapters, *adapters_of(policy.places())))
    found = Operations(
        at=now,
        status=readiness.status,
        checks=(),
        pending=await store.count_pending(),
        oldest=0.0 if oldest is None else max(0, now - oldest) / 1000,
        store=await measure_store(store),
        gateways=await list_gateways(store),
        adapters=tuple([await _measure_adapter(one, adapters, store, core) for one in names]),
        agents=_compare(policy, await measure_pending(store)),
        paused=(await core.operator.status()).paused,
        # Path, query and user of the address may be secret.
        webhook_host=urlsplit(settings.webhook_url or "").hostname or "",
        webhook_seconds=await _measure_webhooks(store, now) if settings.webhook_url else 0.0,
    )
    quick = [one for one in STORED_DATA_CHECKS if one[0] in _QUICK]
    checks = [*_list_current(core), *check_store(found.store), *check_others(found)]
    checks += [await run_check(name, check(backend)) for name, check in quick]
    worst_first = sorted(checks, key=lambda one: (FAIL, WARN, OK).index(one.result))
    return replace(found, checks=tuple(worst_first))


def _list_current(core: Core) -> Iterator[Check]:
    """Yield the current problems of this process, those of `/readyz`, with their remedies."""
    for place, sentence, down in core.health.problems:
        name = place.partition(" ")[0]
        remedy = _REMEDIES.get(name, f"restart this gateway if this lasts a minute; {_DOCTOR}")
        name = name if name in _REMEDIES else "gateway"
        yield _warn(name, sentence, remedy, result=FAIL if down else WARN)


def check_store(store: StoreFigures) -> Iterator[Check]:
    """Yield the problems that the figures of the store show, with their remedies."""
    if store.lease >= REPLICA_LEASE_MS / 1000:
        says = "no gateway is the leader, so none sends reminders or webhooks, or seals the audit"
        yield _warn("leader", says, "if this lasts a minute, restart the gateways")
    if store.intake > _LATE_SECONDS:
        yield _warn("intake", f"a message has waited for {store.intake:.0f} s", UNREAD_REMEDY)
    if store.memory > MOST_USED * store.room > 0:
        yield _warn("memory", f"more than {MOST_USED:.0%} of it is used", MEMORY_REMEDY)
    if store.unsealed > 2 * _LATE_SECONDS:
        says = f"the audit log has not been sealed for {store.unsealed:.0f} s"
        yield _warn("audit", says, "look for seal_failed in the leader's log")
    if store.unarchived > _UNARCHIVED_SECONDS:
        says = f"the oldest event has waited {store.unarchived / 3600:.0f} h for the archive"
        yield _warn("archive", says, f"{_REMEDIES['archive']}; {_DOCTOR}")


def check_others(found: Operations) -> Iterator[Check]:
    """Yield the problems of gateways, agents and webhooks, with their remedies."""
    versions = sorted({one.version for one in found.gateways})
    if len(versions) > 1:
        says = f"the gateways have different versions: {', '.join(versions)}"
        yield _warn("versions", says, "finish the upgrade of all gateways")
    for one in found.agents:
        if one.pending > MOST_USED * one.most:
            says = f"{one.agent} has {one.pending} of at most {one.most} pending requests"
            yield _warn("budget", says, "decide its requests, or raise `waiting` in its budget")
    if found.webhook_seconds > _LATE_SECONDS:
        says = f"{found.webhook_host} has not accepted a webhook for {found.webhook_seconds:.0f} s"
        yield _warn("webhooks", says, "check that it answers; the leader's log has webhook_failed")


def _warn(name: str, says: str, remedy: str, result: str = WARN) -> Check:
    return Check(name=name, result=result, says=says, remedy=remedy)


async def _measure_adapter(
    name: str, adapters: Mapping[str, Adapter], store: RedisStore, core: Core
) -> AdapterState:
    here = adapters.get(name)
    state = "elsewhere" if here is None else "failing" if here.problems else "working"
    posts = here is None or here.posts
    outbox = await measure_outbox(name, store, core.outbox, SystemClock()) if posts else None
    return AdapterState(name=name, state=state, outbox=outbox)


def _compare(policy: PolicyDocument, pending: Mapping[str, int]) -> tuple[PendingShare, ...]:
    """Return the agents with pending requests, the closest to their limit first."""
    shares = [
        PendingShare(agent=agent, pending=count, most=policy.budget_for(agent).waiting)
        for agent, count in pending.items()
        if count
    ]
    shares.sort(key=lambda one: one.pending / one.most, reverse=True)
    return tuple(shares[:_MOST_AGENTS])


async def _measure_webhooks(store: RedisStore, now: int) -> float:
    """Return how many seconds the next webhook has waited."""
    last = await RedisCursor(store).load_cursor()
    unsent = await store.history(last, 1) if last else []
    return max(0, now - unsent[0].at) / 1000 if unsent else 0.0
