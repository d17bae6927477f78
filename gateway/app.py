"""Puts a gateway together from its settings, and runs it: the composition root."""

from __future__ import annotations

import base64
import json
import logging
import os
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from getpass import getuser
from typing import Any
from urllib.parse import quote, urlsplit

from aiohttp import web

from gateway.api.app import Site, build_api, runner
from gateway.api.calls import Enrolment
from gateway.approvals import Approvals
from gateway.clock import SystemClock
from gateway.desk import FrontDesk
from gateway.discovery import announced, write_private
from gateway.embedded import running_engine
from gateway.errors import Conflict, GatewayError
from gateway.hooks.host import HookHost, hosted
from gateway.hooks.link import HookEvents, links
from gateway.intake import Intake
from gateway.policy import ModeDecider
from gateway.policyfile import differences, read_policy_file
from gateway.ports import Adapter, HasProblems, HasRoutes, HasStreams
from gateway.production import refuse_unsafe
from gateway.registry import adapter_class, deciders
from gateway.retention import Retention
from gateway.rulebook import PolicyDocument, Route
from gateway.serving import (
    background,
    desk_of,
    followed_up,
    policy_followed,
    served,
)
from gateway.settings import BadSettings, Settings
from gateway.signatures import SEED_BYTES, Signer
from gateway.stores.connect import connect, disconnect, line_to
from gateway.stores.credentials import REDIS_ERRORS, RedisCredentials
from gateway.stores.cursor import RedisCursor
from gateway.stores.feed import RedisFeed
from gateway.stores.grants import RedisGrants
from gateway.stores.ingress import Ingress
from gateway.stores.keys import Keys
from gateway.stores.logins import RedisLogins
from gateway.stores.scripts import At, unwatched
from gateway.stores.seals import Sealer
from gateway.stores.store import RedisStore
from gateway.sweeper import Sweeper
from gateway.webhooks import Webhook, Webhooks
from gateway.wire import JsonObject

log = logging.getLogger("gateway.app")

_KEY_FILE = "signing.key"
OWNER = "owner"
OWNER_FILE = "approver.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A connected namespace: what the operator's commands work on, without serving anyone."""

    store: RedisStore
    credentials: RedisCredentials
    logins: RedisLogins
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A running gateway and where it is reached."""

    backend: Backend
    approvals: Approvals
    url: str
    public_key: str


@asynccontextmanager
async def opened(
    settings: Settings, redis_url: str, *, at: At = unwatched
) -> AsyncIterator[Backend]:
    """Connect to the namespace; leaving closes the connections."""
    redis = connect(redis_url)
    try:
        async with line_to(redis_url) as line:
            store = RedisStore(redis, Keys(settings.namespace), at=at, line=line)
            await store.check_schema()
            yield Backend(
                store=store,
                credentials=RedisCredentials(store, SystemClock()),
                logins=RedisLogins(store),
                url=redis_url,
            )
    finally:
        await disconnect(redis)


@asynccontextmanager
async def running(settings: Settings, *, at: At = unwatched) -> AsyncIterator[Gateway]:
    """Run a whole gateway: engine, intake, HTTP, adapters. Entering means ready.

    `at` is called at every step that a killed gateway may stop at; tests kill it there.
    """
    async with AsyncExitStack() as stack:
        redis_url = await _redis_url(settings, stack)
        backend = await stack.enter_async_context(opened(settings, redis_url, at=at))
        store = backend.store
        if settings.redis_url is None:
            # The folder's lock says that no other gateway lives, whatever leases a killed one left.
            await store.forget_replicas()
        await _first_policy(store, settings)
        await refuse_unsafe(settings, store)
        signer = signer_of(settings)
        blocking = connect(redis_url, blocking=True)
        stack.push_async_callback(disconnect, blocking)

        hooks = hosted(settings.hooks_file)
        await stack.enter_async_context(hooks.running())
        feed = RedisFeed(blocking, store.keys)
        approvals = Approvals(
            store,
            feed,
            [*links(hooks), *deciders(settings.deciders), ModeDecider()],
            SystemClock(),
            signer=signer,
            grants=RedisGrants(store),
        )
        intake = Intake(approvals, store, backend.credentials)
        ingress = Ingress(store.redis, blocking, store.keys, intake.handle, intake.bury, at=at)
        await stack.enter_async_context(feed.running())
        await stack.enter_async_context(ingress.running())
        await stack.enter_async_context(_upkeep(settings, approvals, store, feed, hooks))

        desks = {name: desk_of(name, approvals, store) for name in settings.adapters}
        adapters = {name: adapter_class(name)() for name in desks}
        for name, adapter in adapters.items():
            await stack.enter_async_context(served(adapter, desks[name], store))
        await stack.enter_async_context(followed_up(approvals, store))
        enrolment = None if settings.production else _enrolment(backend, signer.public_key)
        app = build_api(
            approvals=approvals,
            credentials=backend.credentials,
            ready=_readiness(store, ingress, tuple(adapters.values())),
            pending=store.count_pending,
            store_errors=REDIS_ERRORS,
            site=replace(
                site_of(settings, adapters, desks, backend.logins), intercept=hooks.passed
            ),
            enrolment=enrolment,
        )
        url = await listen(app, settings, stack)
        if enrolment is not None:
            stack.enter_context(
                announced(
                    settings.data_dir,
                    url=url,
                    enroll=enrolment.secret,
                    public_key=signer.public_key,
                )
            )
        log.info("gateway ready at %s", url, extra={"event": "ready"})
        yield Gateway(backend=backend, approvals=approvals, url=url, public_key=signer.public_key)


@asynccontextmanager
async def _upkeep(
    settings: Settings, approvals: Approvals, store: RedisStore, feed: RedisFeed, hooks: HookHost
) -> AsyncIterator[None]:
    """Do until left what only time and events bring about: deadlines, seals, what is forgotten."""
    async with AsyncExitStack() as stack:
        sweeper = Sweeper(approvals, store, session_idle_hours=settings.session_idle_hours)
        await stack.enter_async_context(background("sweeper", sweeper.run))
        await stack.enter_async_context(background("policy", partial(policy_followed, approvals)))
        await stack.enter_async_context(background("sealer", Sealer(store, feed).run))
        retention = Retention(store, SystemClock(), days=settings.retention_days)
        await stack.enter_async_context(background("retention", retention.run))

        if settings.grants == "memory":
            await approvals.remembering.forget_all("the gateway started")
        unused = approvals.remembering.run
        await stack.enter_async_context(background("unused grants", unused))

        if settings.webhook_url is not None:
            posting = _webhooks(settings, approvals, store)
            await stack.enter_async_context(background("webhooks", posting.run))
        if settings.hooks_file is not None:
            told = HookEvents(hooks, approvals)
            await stack.enter_async_context(background("hook events", told.run))
        yield


async def first_login(gateway: Gateway, settings: Settings) -> list[str]:
    """Return what a person on this machine needs to log in; makes the local owner once."""
    backend, path = gateway.backend, settings.data_dir / OWNER_FILE
    people = {person.name for person in (await backend.store.policy()).people}
    with suppress(Conflict):  # another replica makes the owner at this moment
        if not people:
            here = (f"terminal:{getuser()}",)
            owner = await backend.credentials.add_approver(OWNER, admin=True, identities=here)
            write_private(path, json.dumps({"name": OWNER, "token": owner.token}))
            people = {OWNER}
    if OWNER not in people or not path.exists():
        return ["Log in with the link of: gateway login NAME"]
    code = await backend.logins.invite(OWNER)
    return [f"Answer in the browser (works once): {gateway.url}/inbox/login#code={code}"]


async def _redis_url(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.redis_url is not None:
        return settings.redis_url.get_secret_value()
    if settings.production:
        raise GatewayError("production needs REDIS_URL; the embedded server is for one machine")
    engine = await stack.enter_async_context(running_engine(settings.data_dir))
    return engine.url


async def _first_policy(store: RedisStore, settings: Settings) -> None:
    """Put the policy file in force; without one, give a new namespace a default route, on which
    nobody may approve yet."""
    policy = await store.policy()
    if settings.policy_file is not None:
        written = read_policy_file(settings.policy_file)
        if differences(policy, written):
            named = f"the file {settings.policy_file.name}"
            await store.apply(replace(written, generation=policy.generation), by=named)
        return
    if not policy.routes:
        first = PolicyDocument(
            generation=policy.generation, people=policy.people, routes=(Route(mode=settings.mode),)
        )
        try:
            await store.apply(first, by="first start")
        except Conflict:
            log.info("another replica wrote the first policy", extra={"event": "policy_exists"})


def signer_of(settings: Settings) -> Signer:
    """Return the signer of the configured key; in development of one kept in the data folder."""
    if settings.signing_key is not None:
        return Signer(settings.signing_key.get_secret_value())
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = settings.data_dir / _KEY_FILE
    if not path.exists():
        write_private(path, base64.b64encode(os.urandom(SEED_BYTES)).decode())
    return Signer(path.read_text(encoding="utf-8").strip())


def _webhooks(settings: Settings, approvals: Approvals, store: RedisStore) -> Webhooks:
    if settings.webhook_url is None or settings.webhook_secret is None:
        raise GatewayError("GATEWAY_WEBHOOK_URL needs GATEWAY_WEBHOOK_SECRET")
    hook = Webhook(
        url=settings.webhook_url,
        secret=settings.webhook_secret.get_secret_value(),
        hosts=settings.webhook_hosts,
        production=settings.production,
    )
    clock = SystemClock()
    return Webhooks(hook, approvals, RedisCursor(store), clock, store_errors=REDIS_ERRORS)


def _enrolment(backend: Backend, public_key: str) -> Enrolment:
    """Let local agents get a credential of their own by the secret in the discovery file."""

    async def enroll(name: str) -> JsonObject:
        credentials = backend.credentials
        try:
            new = await credentials.add_agent(name)
        except Conflict:
            new = await credentials.rotate_agent(name)
        user = f"{quote(new.redis_user or '')}:{quote(new.redis_password or '')}@"
        parts = urlsplit(backend.url)
        place = parts.netloc.rpartition("@")[2]
        redis_url = parts._replace(netloc=user + place).geturl()
        if parts.scheme not in ("redis", "rediss", "unix"):
            redis_url = ""
        return {
            "agent": name,
            "token": new.token,
            "public_key": public_key,
            "namespace": backend.store.keys.namespace,
            "redis_url": redis_url or None,
        }

    return Enrolment(secret=secrets.token_urlsafe(32), enroll=enroll)


def _readiness(store: RedisStore, ingress: Ingress, adapters: Sequence[Adapter]) -> Any:
    async def problems() -> Sequence[str]:
        found = [] if ingress.healthy else ["the agents' streams are not being read"]
        try:
            await store.redis.ping()
        except REDIS_ERRORS:
            found.append("Redis does not answer")
        for adapter in adapters:
            if isinstance(adapter, HasProblems):
                found += adapter.problems()
        return found

    return problems


def site_of(
    settings: Settings,
    adapters: Mapping[str, Adapter],
    desks: Mapping[str, FrontDesk],
    logins: RedisLogins,
) -> Site:
    """Return how we are reached, and the pages of these adapters."""
    pages: list[web.AbstractRouteDef] = []
    for name, adapter in adapters.items():
        if isinstance(adapter, HasRoutes):
            pages += adapter.routes(desks[name], logins, secure=settings.secure)
    host = urlsplit(settings.public_url).hostname if settings.public_url else None
    return Site(
        hosts=frozenset({host} if host else ()),
        secure=settings.secure,
        pages=tuple(pages),
        closing=tuple(one.end_streams for one in adapters.values() if isinstance(one, HasStreams)),
    )


async def listen(app: web.Application, settings: Settings, stack: AsyncExitStack) -> str:
    """Serve HTTP; return the URL that local callers use."""
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
                f"GATEWAY_TLS_CERT and GATEWAY_TLS_KEY are no certificate and its key: {error}"
            ) from error
    site = web.TCPSite(served, settings.host, settings.port, ssl_context=context)
    try:
        await site.start()
    except OSError as error:
        raise GatewayError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; "
            "set GATEWAY_PORT to another port, or 0 for a free one"
        ) from error
    if settings.public_url:
        return settings.public_url.rstrip("/")
    return settings.local_url(served.addresses[0][1])
