"""Checks a running gateway's surroundings, and says what to do. docs/troubleshooting.md lists the
checks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from gateway.doctor.namespace import NAMESPACE_CHECKS
from gateway.doctor.outside import OUTSIDE_CHECKS, gateway_url
from gateway.doctor.servers import SERVER_CHECKS, all_facts
from gateway.domain.redaction import masked
from gateway.errors import Conflict, GatewayError
from gateway.ports import HasChecks
from gateway.ports.checks import FAIL, OK, WARN, Finding, doubtful, failed, fine
from gateway.server.connections import Backend
from gateway.server.plugins import adapter_class
from gateway.server.settings import Settings
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.outbox import RedisNotes
from gateway.stores.requests import RedisStore

__all__ = ["FAIL", "OK", "WARN", "Check", "examine", "gateway_url"]

_ERRORS: tuple[type[Exception], ...] = (GatewayError, *REDIS_ERRORS)
_NO_CHAT = "name it in GATEWAY_ADAPTERS, or run this where the chat's tokens are"
_NO_REDIS = "is it running? is a REDIS_URL right? What lies in Redis was not checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding: `result` is ok, warn or fail."""

    name: str
    result: str
    says: str
    remedy: str = ""


async def examine(
    settings: Settings,
    backend: Callable[[], AbstractAsyncContextManager[Backend]],
    *,
    live: bool = False,
) -> list[Check]:
    """Run every check that can be run, in the order a person would ask.

    With `live` the adapters also try what only the platform itself can prove.
    """
    found = [_named(name, await _made(check(settings))) for name, check in OUTSIDE_CHECKS]
    try:
        async with backend() as inside:
            found.append(_named("redis", fine("answers")))
            found += await _inside(settings, inside)
            found += await _adapters(settings, inside.store, live=live)
    except Conflict as error:
        found.append(_named("redis", fine("answers")))
        found.append(_named("schema", failed(str(error), "update this gateway")))
    except _ERRORS as error:
        found.append(_named("redis", failed(str(error), _NO_REDIS)))
    return found


async def _inside(settings: Settings, backend: Backend) -> list[Check]:
    found = []
    try:
        facts = await all_facts(settings, backend)
    except _ERRORS as error:
        refused = failed(f"the server does not tell: {error}", "see deploy/users.acl.example")
        found += [_named(name, refused) for name, _ in SERVER_CHECKS]
    else:
        found += [_named(name, check(facts)) for name, check in SERVER_CHECKS]
    found += [_named(name, await _made(check(backend))) for name, check in NAMESPACE_CHECKS]
    return found


async def _adapters(settings: Settings, store: RedisStore, *, live: bool) -> list[Check]:
    places = (await store.policy()).places()
    found: list[Check] = []
    looked = False
    for name in settings.adapters:
        ours = [place for place in places if place.startswith(f"{name}:")]
        try:
            adapter = adapter_class(name)()
            if isinstance(adapter, HasChecks):
                looked = True
                made = await adapter.checks(ours, RedisNotes(store, name), live=live)
                found += [_named(*one) for one in made]
        except Exception as error:  # whatever somebody else's code does; it stops no other check
            says = str(error) if isinstance(error, GatewayError) else _what(error)
            remedy = "see GATEWAY_ADAPTERS, and the adapter's own page"
            found.append(_named(f"adapter {name}", failed(says, remedy)))
    if live and not looked:
        found.append(_named("live", doubtful("no chat was tried: there is none here", _NO_CHAT)))
    return found


def _what(error: Exception) -> str:
    """Say what somebody else's code raised; its words may hold anything."""
    return f"{type(error).__name__}: {masked(str(error))}"


async def _made(check: Awaitable[Finding]) -> Finding:
    """Make one check; that it cannot be made is a finding too, and stops no other."""
    try:
        return await check
    except _ERRORS as error:
        return failed(f"cannot be checked: {error}", "see the gateway's log")


def _named(name: str, finding: Finding) -> Check:
    return Check(name=name, result=finding.result, says=finding.says, remedy=finding.remedy)
