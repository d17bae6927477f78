"""Build and run a gateway, or one adapter, from its settings; start at `run_gateway`."""

from __future__ import annotations

import base64
import logging
import secrets
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from gateway.api.agent_verbs import Intake
from gateway.api.api_call import Enrolment
from gateway.api.app import PublicAddress, RoutesOf, build_api, build_pages, runner
from gateway.approval_protocol.instances import RedisInstances, RedisNotices, RedisProtocolNotes
from gateway.approval_protocol.provisioning import Provisioning, ReceiverRegistration
from gateway.approval_protocol.requests import ProtocolRequests
from gateway.approval_protocol.routes import protocol_routes
from gateway.approval_protocol.webhooks import PollInterval, ProtocolNotices, ProtocolReceivers
from gateway.approvals.deadlines import Sweeper, dismiss
from gateway.approvals.services import Core
from gateway.delivery.hook_events import HookEvents
from gateway.delivery.outbox_worker import TIMINGS, measure_outbox
from gateway.delivery.webhooks import Webhook, Webhooks
from gateway.domain.health_and_metrics import Tally
from gateway.domain.policy_document import PolicyDocument, Route, adapters_of
from gateway.domain.records import Identity
from gateway.domain.time_and_tasks import Clock, SystemClock
from gateway.errors import Conflict, GatewayError
from gateway.integrations.coding_agents.claude_code import HTTP_HOOKS
from gateway.policy.calls.danger_patterns import load_tables
from gateway.policy.hooks import HookHost, host_hooks
from gateway.ports import Adapter, AdapterApi, Feed, WebPages
from gateway.ports.devices import PUSH
from gateway.ports.outgoing import OutboxFigures
from gateway.push.notifications import Notifications
from gateway.push.sending import MISSING, PushKey, PushQueue, PushSender, is_installed
from gateway.push.service import PushService
from gateway.server.background import (
    NOT_FOLLOWING,
    NOT_TAKING_IN,
    HealthWatch,
    adapter_api,
    follow_policy,
    follow_targets,
    hold_duty,
    run_in_background,
    run_reminders,
    run_reviews,
    run_worker,
    serve_adapters,
    watch_loop,
)
from gateway.server.connections import Backend, build_core, open_backend, signer_of, url_of
from gateway.server.lan import LocalNetwork
from gateway.server.operations import measure_operations
from gateway.server.plugins import adapter_class
from gateway.server.settings import BadSettings, Settings
from gateway.server.start_up_checks import POLICY_FILE, apply_at_start, enrolment, refuse_unsafe
from gateway.stores.archiver import Archiver, Trimming
from gateway.stores.audit import Sealer
from gateway.stores.connect import connect, disconnect
from gateway.stores.credentials import REDIS_ERRORS, RedisCredentials
from gateway.stores.devices import RedisDevices
from gateway.stores.embedded_server import DataFolder, running_engine
from gateway.stores.event_feed import RedisCursor, RedisFeed
from gateway.stores.ingress import Ingress
from gateway.stores.outbox import RedisAdapterStorage
from gateway.stores.requests import RedisStore, measure_store
from gateway.stores.retention import Retention
from gateway.stores.scripts import At, ignore_step
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.local_discovery import announce, name_data, write_private
from gateway.wire.signatures import Signer

# Builds web push: the key, the sender, the worker of its queue, and the devices of adapters'
# people.

KEY_FILE = "push.key"
_KEY_BYTES = 32
_TIMINGS = replace(TIMINGS, idle=30.0)
"""Events wake the worker at once; work that waits longer than this may be late by it."""
_CONTACT = "mailto:approval-gateway@localhost"
NO_KEY = (
    "push is off: with REDIS_URL, set the same GATEWAY_PUSH_KEY for all gateways, base64 of 32 "
    "random bytes"
)
NOT_INSTALLED = f"push is off: {MISSING}"


class PushParts:
    """Web push of one namespace; `missing` says why it is off, or ""."""

    def __init__(self, settings: Settings, core: Core, backend: Backend) -> None:
        self._core = core
        self._store = backend.store
        self._devices = RedisDevices(backend.store)
        self._clock = SystemClock()
        key, self.missing = push_key_of(settings, make=True)
        self._sender = self._telling = None
        if key is None:
            return
        self._sender = PushSender(
            key,
            self._clock,
            hosts=settings.push_hosts,
            production=settings.production,
            contact=_contact(settings),
        )
        self._telling = Notifications(
            core,
            backend.store,
            self._devices,
            backend.logins.holder,
            self._sender,
            RedisAdapterStorage(backend.store, PUSH),
            self._clock,
        )

    def service_for(self, place: str) -> PushService:
        """Return the push service for the devices of an adapter's people."""
        return PushService(
            place,
            self._core,
            self._store,
            self._devices,
            self._clock,
            sender=self._sender,
            telling=self._telling,
            missing=self.missing,
        )

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run the worker of the push queue until the block ends."""
        if self._telling is None:
            yield
            return
        queue = PushQueue(
            self._core.feed,
            self._core.requests,
            self._core.outbox,
            self._devices,
            tidy=self._telling.tidy,
            store_errors=REDIS_ERRORS,
        )
        look = self._telling.look
        async with run_worker(PUSH, look, self._core, _TIMINGS, changes=queue.changes):
            yield


def push_key_of(settings: Settings, *, make: bool = False) -> tuple[PushKey | None, str]:
    """Return the key that signs pushes, and "" or why it is missing. It is the setting's, or that
    of the data folder, where `make` creates one. Raises BadSettings."""
    if not is_installed():
        return None, NOT_INSTALLED
    if settings.push_key is not None:
        try:
            return PushKey(settings.push_key.get_secret_value()), ""
        except ValueError as error:
            raise BadSettings(f"GATEWAY_PUSH_KEY: {error}") from error
    if settings.redis_url is not None:
        return None, NO_KEY
    path = settings.data_dir / KEY_FILE
    if not path.exists():
        if not make:
            return None, "there is no push key yet"
        _make_key(path)
    try:
        return PushKey(path.read_text(encoding="utf-8").strip()), ""
    except ValueError:
        raise BadSettings(
            f"{path} "
            "is not a push key. Restore the file from a backup. Or remove the file to get a new "
            "key, then turn notifications off and on again on each device"
        ) from None


def _make_key(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode())


def _contact(settings: Settings) -> str:
    """Return the contact address that push services get: the gateway's own address."""
    parts = urlsplit(settings.public_url or "")
    return f"https://{parts.hostname}" if parts.scheme == "https" else _CONTACT


# Builds the Agent Approval Protocol: the routes for its clients, and the notices to instances about
# decided requests.

KEPT_DAYS = 8
"""The week for which the protocol promises results to clients, and a day for clock differences."""
_INSTANCES = b"tokens of the instances of the Agent Approval Protocol"


def receivers_of(settings: Settings) -> ProtocolReceivers:
    """Return the sender of notices to the receivers of instances."""
    return ProtocolReceivers(
        SystemClock(), hosts=settings.webhook_hosts, production=settings.production
    )


def serve_protocol(
    settings: Settings, core: Core, backend: Backend, signer: Signer
) -> RoutesOf | None:
    """Return the routes of the Agent Approval Protocol. Return None if the gateway deletes requests
    before the protocol's week is over."""
    if settings.retention_days < KEPT_DAYS:
        log.warning(
            "/aap is not served: GATEWAY_RETENTION_DAYS is %g, and the Agent Approval Protocol "
            "needs %d",
            settings.retention_days,
            KEPT_DAYS,
            extra={"event": "protocol_not_served"},
        )
        return None
    receivers = receivers_of(settings)
    return protocol_of(core, backend.store, backend.credentials, signer, receivers)


def protocol_of(
    core: Core,
    store: RedisStore,
    credentials: RedisCredentials,
    signer: Signer,
    receivers: ProtocolReceivers,
) -> RoutesOf:
    """Return the routes of the Agent Approval Protocol."""

    async def is_admin(name: str) -> bool:
        return (await store.policy()).is_admin(Identity(platform="token", id=name))

    secret = sha256_hex(signer.sign(_INSTANCES).encode()).encode()  # a signature that nobody gets
    provisioning = Provisioning(
        RedisInstances(store, credentials, secret),
        SystemClock(),
        ReceiverRegistration(check=receivers.check, verify=receivers.verify),
        is_admin=is_admin,
        dismiss=partial(dismiss, core, store),
    )
    requests = ProtocolRequests(RedisProtocolNotes(store), SystemClock())
    return partial(protocol_routes, requests, provisioning)


def notices_of(
    core: Core,
    store: RedisStore,
    receivers: ProtocolReceivers,
    *,
    clock: Clock | None = None,
    rhythm: PollInterval | None = None,
) -> ProtocolNotices:
    """Return the worker that notifies instances of decided requests."""
    return ProtocolNotices(
        RedisNotices(store),
        store,
        core.feed,
        receivers,
        clock or SystemClock(),
        core.tally,
        store_errors=REDIS_ERRORS,
        rhythm=rhythm,
    )


log = logging.getLogger("gateway.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A running gateway and its addresses; `lan_url` is for phones in this network."""

    backend: Backend
    core: Core
    url: str
    public_key: str
    lan_url: str = ""


@asynccontextmanager
async def run_gateway(
    settings: Settings, *, lan: LocalNetwork | None = None, at: At = ignore_step
) -> AsyncIterator[Gateway]:
    """Run a gateway: embedded server, intake, HTTP, adapters. It is ready inside the block.

    With `lan`, it also serves the inbox to phones. `at` is called at every step where a crash could
    happen, so that tests can stop the gateway there.
    """
    async with AsyncExitStack() as stack:
        redis_url = await _redis_url(settings, stack)
        backend = await stack.enter_async_context(open_backend(settings, redis_url, at=at))
        store = backend.store
        if settings.redis_url is None:
            # The folder is locked, so any other gateway with a lease was killed.
            await store.forget_replicas()
        refused = await _first_policy(backend, settings)
        await refuse_unsafe(settings, store)
        signer = signer_of(settings)
        blocking = connect(redis_url, blocking=True)
        stack.push_async_callback(disconnect, blocking)
        hooks = await stack.enter_async_context(_running_hooks(settings))
        feed = RedisFeed(blocking, store.keys)
        core = build_core(settings, store, feed, hooks, signer)
        core.health.note(POLICY_FILE, refused)
        load_tables()
        if settings.grants == "memory":
            await core.grants.forget_all("the gateway started")
        into = Intake(core, store, backend.credentials)
        ingress = Ingress(store.redis, blocking, store.keys, into.handle, into.dead_letter, at=at)
        await stack.enter_async_context(feed.running())
        await stack.enter_async_context(ingress.running())
        await stack.enter_async_context(_upkeep(settings, core, store))
        await stack.enter_async_context(run_in_background("old tokens", backend.credentials.run))
        push = PushParts(settings, core, backend)
        apis = {name: _api(name, settings, core, backend, push) for name in settings.adapters}
        adapters = {name: adapter_class(name)() for name in apis}
        pages = await stack.enter_async_context(_running_adapters(adapters, apis, core))
        work = partial(_work_for_all, settings, core, backend, feed, hooks, push)
        await stack.enter_async_context(hold_duty(ingress.duty, work))
        watching = _watch_health(settings, core, backend, ingress, feed, adapters)
        watch = await stack.enter_async_context(watching)
        enrolling = None if settings.production else enrolment(backend, signer.public_key)
        site = replace(
            _site_of(settings, pages),
            intercept=hooks.review_message,
            protocol=serve_protocol(settings, core, backend, signer),
            host_hooks=HTTP_HOOKS,
        )
        site = _with_figures(site, store, core, adapters)
        app = _api_of(backend, core, site, watch, enrolling)
        local = await listen(app, settings, stack)
        inbox = dict(zip(adapters, pages, strict=True)).get("web")
        phones = await _listen_for_phones(inbox, lan, watch, stack) if inbox and lan else ""
        url = settings.public_url.rstrip("/") if settings.public_url else local
        if enrolling is not None:
            stack.enter_context(_announce(settings, url, enrolling, signer))
        log.info("gateway ready at %s", url, extra={"event": "ready"})
        yield Gateway(
            backend=backend, core=core, url=url, public_key=signer.public_key, lan_url=phones
        )


def _announce(
    settings: Settings, url: str, enrolling: Enrolment, signer: Signer
) -> AbstractContextManager[None]:
    """Write this gateway's address to the data folder, for agents of the same user."""
    return announce(
        settings.data_dir,
        url=url,
        enroll=enrolling.secret,
        public_key=signer.public_key,
        data=name_data(settings.own_redis, settings.namespace),
        adapters=settings.adapters,
        policy_file=str(settings.policy_file or ""),
    )


def _api(
    name: str, settings: Settings, core: Core, backend: Backend, push: PushParts
) -> AdapterApi:
    return adapter_api(
        name,
        core,
        backend.store,
        inbox=settings.inbox_url,
        devices=push.service_for(name),
        logins=backend.logins,
        secure=settings.secure,
    )


@asynccontextmanager
async def _running_adapters(
    adapters: Mapping[str, Adapter], apis: Mapping[str, AdapterApi], core: Core
) -> AsyncIterator[list[WebPages]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(serve_adapters(adapter, apis[name], core))
            for name, adapter in adapters.items()
        ]


def _api_of(
    backend: Backend,
    core: Core,
    site: PublicAddress,
    watch: HealthWatch,
    enrolling: Enrolment | None,
) -> web.Application:
    return build_api(
        core=core,
        reads=backend.store,
        credentials=backend.credentials,
        ready=watch.look,
        store_errors=REDIS_ERRORS,
        site=site,
        enrolment=enrolling,
    )


def _with_figures(
    site: PublicAddress, store: RedisStore, core: Core, adapters: Mapping[str, Adapter]
) -> PublicAddress:
    """Return the site with the sources of its metrics."""
    return replace(
        site,
        measure=partial(measure_store, store),
        outboxes=partial(_measure_outboxes, store, core, adapters),
        adapters=partial(_problems_of, adapters),
    )


async def _measure_outboxes(
    store: RedisStore, core: Core, adapters: Mapping[str, Adapter]
) -> list[OutboxFigures]:
    """Return how current the cards of each posting adapter are, also of adapters that run apart."""
    here = [name for name, adapter in adapters.items() if adapter.posts]
    names = dict.fromkeys([*here, *adapters_of((await core.writer.policy()).places())])
    clock = SystemClock()
    return [await measure_outbox(name, store, core.outbox, clock) for name in names]


def _problems_of(adapters: Mapping[str, Adapter]) -> dict[str, Sequence[str]]:
    """Return the problems of each adapter."""
    return {name: one.problems for name, one in adapters.items()}


@asynccontextmanager
async def _running_hooks(settings: Settings) -> AsyncIterator[HookHost]:
    hooks = host_hooks(settings.hooks_file)
    async with hooks.running():
        yield hooks


@asynccontextmanager
async def _watch_health(
    settings: Settings,
    core: Core,
    backend: Backend,
    ingress: Ingress,
    feed: RedisFeed,
    adapters: Mapping[str, Adapter],
) -> AsyncIterator[HealthWatch]:
    readers: dict[str, RedisFeed | Ingress] = {NOT_FOLLOWING: feed, NOT_TAKING_IN: ingress}
    own = settings.redis_url is None
    watch = HealthWatch(
        core.health,
        backend.store,
        tuple(adapters.values()),
        readers,
        serves_api=True,
        is_disk_full=DataFolder(settings.data_dir.resolve()).is_full if own else lambda: False,
    )
    measure = partial(measure_operations, settings, backend, core)
    core.operator.measure = partial(measure, adapters, watch.look)
    async with run_in_background("health", watch.run):
        yield watch


@asynccontextmanager
async def _upkeep(settings: Settings, core: Core, store: RedisStore) -> AsyncIterator[None]:
    """Run each replica's work that depends on time and policy: deadlines, archive, retention."""
    trimming = Trimming(store)
    works: dict[str, Callable[[], Awaitable[None]]] = {
        "sweeper": Sweeper(core, store, session_idle_hours=settings.session_idle_hours).run,
        "policy": partial(follow_policy, core, store),
        "event loop": partial(watch_loop, core.tally),
        "unused grants": core.grants.run,
    }
    if store.archive is not None:
        tell = partial(core.health.note, "archive")
        works["archiver"] = Archiver(store, trimming, tell=tell).run
    days = settings.retention_days
    works["retention"] = Retention(store, SystemClock(), days=days, trimming=trimming).run
    async with _run_all(works):
        yield


@asynccontextmanager
async def _work_for_all(
    settings: Settings,
    core: Core,
    backend: Backend,
    feed: RedisFeed,
    hooks: HookHost,
    push: PushParts,
) -> AsyncIterator[None]:
    """Run the work of the leader replica, see ADR 35.

    It is: seals, reviews, reminders, targets, pushes, webhooks, notices, hook events and members.
    """
    store = backend.store
    works: dict[str, Callable[[], Awaitable[None]]] = {
        "sealer": Sealer(store, feed).run,
        "targets": partial(follow_targets, core.feed, store),
        "members": backend.logins.provider.confirm_members,
        "protocol notices": notices_of(core, store, receivers_of(settings)).run,
    }
    if settings.webhook_url is not None:
        works["webhooks"] = _webhooks(settings, core.feed, store, core.tally).run
    if settings.hooks_file is not None:
        works["hook events"] = HookEvents(hooks, store, feed).run
    async with _run_all(works), run_reviews(core), run_reminders(core), push.working():
        yield


@asynccontextmanager
async def _run_all(works: Mapping[str, Callable[[], Awaitable[None]]]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for name, work in works.items():
            await stack.enter_async_context(run_in_background(name, work))
        yield


async def _redis_url(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.redis_url is not None:
        return settings.redis_url.get_secret_value()
    if settings.production:
        raise GatewayError(
            "production needs REDIS_URL; the embedded server is for one machine only"
        )
    engine = await stack.enter_async_context(running_engine(settings.data_dir))
    return engine.url


async def _first_policy(backend: Backend, settings: Settings) -> str | None:
    """Apply the policy file; return why it could not be applied, or None.

    Without a file, give a new namespace a default route without approvers. Outside production, it
    trusts what tools' authors declare.
    """
    if settings.policy_file is not None:
        return await apply_at_start(backend, settings.policy_file)
    store = backend.store
    policy = await store.policy()
    if (await store.policy_file()).digest:
        await store.note_policy_file("")  # the settings no longer name one
    if not policy.routes:
        first = PolicyDocument(
            generation=policy.generation,
            people=policy.people,
            routes=(Route(mode=settings.mode),),
            trust_declarations=() if settings.production else ("*",),
        )
        try:
            await store.apply(first, by="first start")
        except Conflict:
            log.info("another replica wrote the first policy", extra={"event": "policy_exists"})
    return None


def _webhooks(settings: Settings, feed: Feed, store: RedisStore, tally: Tally) -> Webhooks:
    if settings.webhook_url is None or settings.webhook_secret is None:
        raise GatewayError("GATEWAY_WEBHOOK_URL needs GATEWAY_WEBHOOK_SECRET")
    hook = Webhook(
        url=settings.webhook_url,
        secret=settings.webhook_secret.get_secret_value(),
        hosts=settings.webhook_hosts,
        production=settings.production,
        inbox=settings.inbox_url,
    )
    return Webhooks(
        hook,
        feed,
        store.history,
        RedisCursor(store),
        SystemClock(),
        tally=tally,
        store_errors=REDIS_ERRORS,
    )


def _site_of(settings: Settings, pages: Sequence[WebPages]) -> PublicAddress:
    """Return the host names, TLS and adapter pages of the site."""
    host = urlsplit(settings.public_url).hostname if settings.public_url else None
    return PublicAddress(
        hosts=frozenset({host} if host else ()),
        secure=settings.secure,
        proxied=settings.trusted_proxy,
        pages=tuple(route for one in pages for route in one.routes),
        closing=tuple(one.end for one in pages),
    )


async def _listen_for_phones(
    inbox: WebPages, lan: LocalNetwork, watch: HealthWatch, stack: AsyncExitStack
) -> str:
    """Serve the inbox, without the API for agents, to the local network; return its URL."""
    site = PublicAddress(
        hosts=frozenset(lan.hosts), pages=tuple(inbox.routes), closing=(inbox.end,)
    )
    here = await listen(build_pages(site, watch.look), lan.settings, stack)
    return f"https://{lan.hosts[0]}:{urlsplit(here).port}"


async def listen(app: web.Application, settings: Settings, stack: AsyncExitStack) -> str:
    """Serve HTTP; return the URL for local callers."""
    served = runner(app)
    await served.setup()
    stack.push_async_callback(served.cleanup)
    context = None
    if settings.tls_cert is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(settings.tls_cert, settings.tls_key)
        except OSError as error:
            raise BadSettings(
                f"GATEWAY_TLS_CERT and GATEWAY_TLS_KEY are not a certificate and its key: {error}"
            ) from error
    site = web.TCPSite(served, settings.host, settings.port, ssl_context=context)
    try:
        await site.start()
    except OSError as error:
        raise GatewayError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; "
            "set GATEWAY_PORT to another port, or 0 for a free one"
        ) from error
    return settings.local_url(served.addresses[0][1])


# Runs one adapter as a separate process.


@asynccontextmanager
async def run_adapter(settings: Settings, name: str) -> AsyncIterator[str]:
    """Run one adapter on the Redis of a gateway that runs elsewhere.

    It yields the URL of its health endpoint and pages, empty for an adapter without them. Without
    `REDIS_URL`, it uses the embedded server of the data folder. It listens on the address in the
    settings, which must differ from that gateway's.
    """
    url = url_of(settings)
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(open_backend(settings, url))
        await refuse_unsafe(settings, backend.store)
        blocking = connect(url, blocking=True)
        stack.push_async_callback(disconnect, blocking)
        hooks = host_hooks(settings.hooks_file)
        await stack.enter_async_context(hooks.running())
        feed = RedisFeed(blocking, backend.store.keys)
        core = build_core(settings, backend.store, feed, hooks, signer_of(settings))
        await stack.enter_async_context(feed.running())
        await stack.enter_async_context(
            run_in_background("policy", partial(follow_policy, core, backend.store))
        )
        api = _api(name, settings, core, backend, PushParts(settings, core, backend))
        adapter = adapter_class(name)()
        pages = await stack.enter_async_context(serve_adapters(adapter, api, core))
        if not (adapter.posts or pages.routes):  # the terminal has no health endpoint
            yield ""
            return
        site = _site_of(settings, [pages])
        readers = {NOT_FOLLOWING: feed}
        watch = HealthWatch(core.health, backend.store, (adapter,), readers, serves_api=False)
        measure = partial(measure_operations, settings, backend, core)
        core.operator.measure = partial(measure, {name: adapter}, watch.look)
        await stack.enter_async_context(run_in_background("health", watch.run))
        yield await listen(build_pages(site, watch.look), settings, stack)
