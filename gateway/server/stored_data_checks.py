"""Check the data in Redis, such as people, grants, agents and outboxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from gateway.approvals.request_writer import FOLLOWUPS
from gateway.domain.audit import UNTRUE
from gateway.domain.policy_document import ORIGIN, Mode, adapters_of
from gateway.domain.records import REVIEWS, SCHEMA_VERSION
from gateway.domain.store import REROUTING
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import GatewayError
from gateway.policy.grant_book import every
from gateway.policy.policy_file_reader import find_no_admin
from gateway.ports.adapters import (
    Finding,
    report_doubt,
    report_failure,
    report_ok,
)
from gateway.ports.operations import Check
from gateway.server.connections import Backend
from gateway.stores.credentials import AGENT, APPROVER, REDIS_ERRORS
from gateway.stores.grants import RedisGrants
from gateway.stores.requests import RedisGroups

_ERRORS: tuple[type[Exception], ...] = (GatewayError, *REDIS_ERRORS)
_LARGEST_CLOCK_GAP_MS = 1000
_LATE_MS = 60_000
_RECENT_MS = 3_600_000
_MOST_EVENTS = 10_000
MOST_NAMED = 3
MOST_USED = 0.8
"""The share of a limit from which an operator is warned."""
MEMORY_REMEDY = "add memory, shorten GATEWAY_RETENTION_DAYS, or revoke the agent that fills it"
UNREAD_REMEDY = "check that a gateway runs on this Redis; look for entry_failed in its log"
_SWITCH = "run gateway stop-all, or gateway resume if agents may continue"


async def _clock(backend: Backend) -> Finding:
    gap = SystemClock().now_ms() - await backend.store.now()
    says = f"this host's clock is {gap} ms ahead of Redis"
    if abs(gap) > _LARGEST_CLOCK_GAP_MS:
        return report_doubt(
            says, "run a time service on both hosts; deadlines use the clock of Redis"
        )
    return report_ok(says)


async def _schema(backend: Backend) -> Finding:
    # Connecting already rejects any other schema.
    return report_ok(f"version {SCHEMA_VERSION}")


async def _approvers(backend: Backend) -> Finding:
    policy = await backend.store.policy()
    empty = [name for route in policy.routes for name in route.unanswered]
    if empty or not policy.routes:
        says = f"nobody may approve on: {', '.join(empty) or 'default'}"
        return report_failure(says, "gateway approver add NAME")
    tokens = [row.name for row in await backend.credentials.list_all(APPROVER)]
    if missing := find_no_admin(policy, tokens):
        says, _, remedy = missing.partition("; ")
        return report_doubt(says, remedy)
    return report_ok("1 person" if len(policy.people) == 1 else f"{len(policy.people)} people")


async def _tokens(backend: Backend) -> Finding:
    people = {person.name for person in (await backend.store.policy()).people}
    approvers = [row.name for row in await backend.credentials.list_all(APPROVER)]
    agents = await backend.credentials.list_all(AGENT)
    strangers = [name for name in approvers if name not in people]
    if strangers:
        says = f"tokens of people who are not in the policy: {', '.join(strangers)}"
        return report_doubt(says, "gateway approver revoke NAME")
    return report_ok(f"{len(agents)} agents, {len(approvers)} approvers")


async def _owners(backend: Backend) -> Finding:
    people = {person.name for person in (await backend.store.policy()).people}
    agents = await backend.credentials.list_all(AGENT)
    lost = [f"{row.name} of {row.owner}" for row in agents if row.owner not in {None, *people}]
    if lost:
        says = f"agents of people who are not in the policy: {', '.join(lost)}"
        remedy = (
            "their owners could approve their own requests: give the person this name in the "
            "policy file, or revoke the agent and add it with --owner"
        )
        return report_doubt(says, remedy)
    return report_ok("every agent's owner is in the policy, or it has no owner")


async def _mode(backend: Backend) -> Finding:
    policy = await backend.store.policy()
    modes = {route.name: route.mode for route in policy.routes if route.mode is not Mode.ASK}
    if modes:
        problems = ", ".join(f"{name}: {mode}" for name, mode in modes.items())
        return report_doubt(
            f"these routes decide without a person: {problems}",
            "set the mode of these routes to ask",
        )
    return report_ok("every route requires a person's approval")


async def _kill_switch(backend: Backend) -> Finding:
    stopped = await backend.store.is_stopped()
    if stopped is None:
        return report_failure("unknown: Redis lost its key, so nothing can be approved", _SWITCH)
    if stopped:
        return report_failure("on: every request is denied", "gateway resume")
    return report_ok("off")


async def _paused_agents(backend: Backend) -> Finding:
    if paused := await RedisGroups(backend.store).list_paused():
        names = ", ".join(one.agent for one in paused)
        says = f"in a cool-down, because people denied too many requests in a row: {names}"
        return report_doubt(
            says,
            "list them with gateway agent paused; end a cool-down with gateway agent lift NAME",
        )
    return report_ok("no agent is blocked")


async def _grants(backend: Backend) -> Finding:
    grants = await every(RedisGrants(backend.store))
    suspended = sum(grant.outdated is not None for grant in grants)
    if suspended:
        says = f"{suspended} of {len(grants)} grants are suspended"
        remedy = "gateway grant list --suspended says why and what to do"
        return report_doubt(says, remedy)
    return report_ok(f"{len(grants)} grants, none is suspended")


async def _unread(backend: Backend) -> Finding:
    store = backend.store
    unread = 0
    for agent in await store.agents():
        key = store.keys.ingress(agent)
        if await store.redis.type(key) not in ("stream", "none"):
            return report_failure(
                f"{key} is not a stream, so messages of {agent} cannot be read",
                f"delete the key {key}",
            )
        unread += await store.redis.xlen(key)
    if unread:
        says = f"{unread} messages of agents are unread"
        return report_doubt(says, UNREAD_REMEDY)
    return report_ok("no unread messages")


async def _dead(backend: Backend) -> Finding:
    count = await backend.store.redis.xlen(backend.store.keys.dead)
    if count:
        return report_doubt(
            f"{count} messages could not be handled", "read the dead_letter events in the audit log"
        )
    return report_ok("none")


async def _queues(backend: Backend) -> Finding:
    """Warn about queues with overdue entries, because no adapter or gateway processes them."""
    store, policy = backend.store, await backend.store.policy()
    late = await store.now() - _LATE_MS
    idle = [
        queue
        for queue in (*adapters_of(policy.places()), FOLLOWUPS, REVIEWS, REROUTING)
        if await store.redis.zcount(store.keys.dirty(queue), "-inf", late)
    ]
    if idle:
        says = f"requests are overdue for more than a minute in {', '.join(idle)}"
        return report_doubt(
            says,
            "check that a gateway runs with this adapter in GATEWAY_ADAPTERS, or that the "
            "adapter runs separately",
        )
    return report_ok("nothing is overdue")


async def _cards(backend: Backend) -> Finding:
    since = SystemClock().now_ms() - _RECENT_MS
    events = await backend.store.history(f"{since}-0", _MOST_EVENTS)
    found = Counter(event.type for event in events if event.type in UNTRUE)
    if found:
        problems = ", ".join(f"{count} {name}" for name, count in sorted(found.items()))
        remedy = "run gateway audit export to see the places and the platform's errors"
        return report_doubt(f"in the last hour: {problems}", remedy)
    return report_ok("every card of the last hour was posted and kept up to date")


async def _origins(backend: Backend) -> Finding:
    """Warn about routes whose conversations get no cards, with the reason why cards went
    elsewhere."""
    routes = [one for one in (await backend.store.policy()).routes if ORIGIN in one.targets]
    if closed := [one.name for one in routes if not one.origins]:
        says = f"no conversation gets cards on: {', '.join(closed)}"
        return report_doubt(says, "write `origins` and `agents` in the route")
    if alone := [one.name for one in routes if not one.places(len(one.escalations))]:
        says = f"requests that began in no open conversation are denied on: {', '.join(alone)}"
        return report_doubt(says, "write another target after `origin`")
    since = SystemClock().now_ms() - _RECENT_MS
    why = Counter[str]()
    for event in await backend.store.history(f"{since}-0", _MOST_EVENTS):
        if "origin_refused" in event.data:
            why[str(event.data["origin_refused"])] += 1
        elif event.type in UNTRUE and f":{ORIGIN}/" in str(event.data.get("target")):
            why[str(event.data.get("why"))] += 1
    if why:
        most = "; ".join(f"{count}: {said}" for said, count in why.most_common(MOST_NAMED))
        says = f"cards of the last hour that are not in their conversation: {most}"
        return report_doubt(says, "see docs/guides/where-cards-go.md")
    names = ", ".join(one.name for one in routes)
    return report_ok(f"get cards on: {names}" if routes else "no route sends cards to them")


STORED_DATA_CHECKS: tuple[tuple[str, Callable[[Backend], Awaitable[Finding]]], ...] = (
    ("clock", _clock),
    ("schema", _schema),
    ("approvers", _approvers),
    ("tokens", _tokens),
    ("owners", _owners),
    ("mode", _mode),
    ("kill switch", _kill_switch),
    ("paused agents", _paused_agents),
    ("remembered", _grants),
    ("intake", _unread),
    ("dead letters", _dead),
    ("outboxes", _queues),
    ("cards", _cards),
    ("conversations", _origins),
)


async def run_check(name: str, check: Awaitable[Finding]) -> Check:
    """Run one check. An error of the gateway or of Redis becomes a finding."""
    try:
        return label(name, await check)
    except _ERRORS as error:
        says = f"this cannot be checked: {error}"
        return label(name, report_failure(says, "see the gateway's log"))


def label(name: str, finding: Finding) -> Check:
    """Return a finding with the name of its check."""
    return Check(name=name, result=finding.result, says=finding.says, remedy=finding.remedy)
