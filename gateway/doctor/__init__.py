"""Check everything that a gateway depends on, and say how to solve each problem.

Start at `examine`. docs/guides/troubleshooting.md lists the checks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from gateway.delivery.request_cards import mentions
from gateway.doctor.live_trial import find_trial
from gateway.doctor.push_devices import check_push
from gateway.doctor.reachability import REACHABILITY_CHECKS, check_hosts, gateway_url
from gateway.doctor.redis_and_archive import SERVER_CHECKS, check_archive, read_all_facts
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.redaction import mask
from gateway.errors import Conflict, GatewayError
from gateway.ports.adapters import (
    FAIL,
    OK,
    WARN,
    Finding,
    LiveTrial,
    report_doubt,
    report_failure,
    report_ok,
)
from gateway.ports.operations import Check
from gateway.server.connections import Backend
from gateway.server.plugins import adapter_class
from gateway.server.settings import Settings
from gateway.server.stored_data_checks import STORED_DATA_CHECKS, label, run_check
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.embedded_server import DataFolder
from gateway.stores.outbox import RedisAdapterStorage
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import NoRoom, NotRecorded

__all__ = ["FAIL", "OK", "WARN", "Check", "examine", "gateway_url"]

_ERRORS: tuple[type[Exception], ...] = (GatewayError, *REDIS_ERRORS)
_NO_CHAT = (
    "run `gateway slack setup` or `gateway discord setup`; if a chat is set up elsewhere, run "
    "`gateway doctor --live` there"
)
_NO_REDIS = (
    "check that Redis is running and that REDIS_URL is right. The data in Redis was not checked"
)


async def examine(
    settings: Settings,
    backend: Callable[[], AbstractAsyncContextManager[Backend]],
    *,
    live: bool = False,
    trial: LiveTrial | None = None,
) -> list[Check]:
    """Run all possible checks: reachability and coding agents first, then Redis, then the adapters.

    With `live`, adapters also post a sample to their platform and delete it. With a `trial`, the
    operator also tries each adapter, as the person or account in the trial. No gateway runs during
    a trial, so reachability is not checked.
    """
    checks = REACHABILITY_CHECKS if trial is None else ()
    found = [await run_check(name, check(settings)) for name, check in checks]
    found += [label(*one) for one in check_hosts(Path.home())]
    try:
        async with backend() as connected:
            found.append(await run_check("redis", _try_to_write(connected)))
            found += await _check_redis(settings, connected)
            found += await _check_adapters(settings, connected.store, live, trial)
    except Conflict as error:
        found.append(label("redis", report_ok("answers")))
        found.append(label("schema", report_failure(str(error), "update this gateway")))
    except _ERRORS as error:
        says = str(error)
        if settings.redis_url is None and DataFolder(settings.data_dir).is_full():
            says = f"the disk of {settings.data_dir} is full, where the gateway's own Redis writes"
        found.append(label("redis", report_failure(says, _NO_REDIS)))
    return found


async def _try_to_write(backend: Backend) -> Finding:
    try:
        await backend.store.probe()
    except NoRoom:
        pass  # the memory check reports it
    except NotRecorded as error:
        return report_failure(str(error), "check the disk, the replicas and the log of Redis")
    return report_ok("answers")


async def _check_redis(settings: Settings, backend: Backend) -> list[Check]:
    found = []
    try:
        facts = await read_all_facts(settings, backend)
    except _ERRORS as error:
        refused = report_failure(
            f"the server rejects the commands of this check: {error}",
            "see deploy/users.acl.example",
        )
        found += [label(name, refused) for name, _ in SERVER_CHECKS]
    else:
        found += [label(name, check(facts)) for name, check in SERVER_CHECKS]
    found += [await run_check(name, check(backend)) for name, check in STORED_DATA_CHECKS]
    found.append(await run_check("archive", check_archive(backend)))
    found.append(await run_check("push", check_push(settings, backend)))
    return found


async def _check_adapters(
    settings: Settings, store: RedisStore, live: bool, trial: LiveTrial | None
) -> list[Check]:
    policy = await store.policy()
    found: list[Check] = []
    looked = False
    for name in settings.adapters:
        try:
            adapter, notes = adapter_class(name)(), RedisAdapterStorage(store, name)
            mine = find_trial(trial, settings, policy, name) if trial and adapter.posts else None
            if isinstance(mine, Finding):
                found.append(label(f"{name} live", mine))
                mine = None
            called = _list_called(policy, name)
            made = await adapter.checks(called, notes, live=live, trial=mine)
            looked = looked or bool(made)
            found += [label(*one) for one in made]
        except Exception as error:  # an adapter may raise anything; the other checks continue
            says = str(error) if isinstance(error, GatewayError) else _describe_error(error)
            remedy = "see GATEWAY_ADAPTERS, and the documentation of the adapter"
            found.append(label(f"adapter {name}", report_failure(says, remedy)))
    if live and not looked:
        found.append(
            label(
                "live",
                report_doubt("no chat was tested, because none is configured here", _NO_CHAT),
            )
        )
    return found


def _list_called(policy: PolicyDocument, adapter: str) -> dict[str, tuple[str, ...]]:
    """Return an adapter's targets, each with the accounts that cards and reminders mention
    there."""
    called: dict[str, tuple[str, ...]] = {
        place: () for place in policy.places() if place.startswith(f"{adapter}:")
    }
    for route in policy.routes:
        if route.mention or route.remind_after:
            for target in route.places(len(route.escalations)):
                if target.startswith(f"{adapter}:"):
                    known = called[target]
                    called[target] = tuple(
                        dict.fromkeys((*known, *mentions(policy, route, adapter)))
                    )
    return called


def _describe_error(error: Exception) -> str:
    """Return the type and masked text of an adapter's exception, which may contain a secret."""
    return f"{type(error).__name__}: {mask(str(error))}"
