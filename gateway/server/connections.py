"""Connect gateways and operators' commands to Redis, and load the signing key."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.approvals.services import Core, OtherStores
from gateway.domain.redaction import key_masks
from gateway.domain.time_and_tasks import Clock, SystemClock
from gateway.errors import Unreachable
from gateway.policy.chain import ModeDecider
from gateway.policy.hooks import HookHost, links
from gateway.policy.verdict import Decider
from gateway.server.plugins import deciders as plugged_in
from gateway.server.settings import BadSettings, Settings
from gateway.sign_in.logins import Ways
from gateway.sign_in.provider import ProviderSettings
from gateway.stores.archive_folder import Archive
from gateway.stores.connect import connect, disconnect, line_to
from gateway.stores.credentials import RedisCredentials
from gateway.stores.embedded_server import engine_url
from gateway.stores.event_feed import RedisFeed
from gateway.stores.grants import RedisGrants
from gateway.stores.keys import Keys
from gateway.stores.outbox import RedisAdapterStorage, RedisOutbox
from gateway.stores.requests import RedisGroups, RedisStore
from gateway.stores.scripts import At, ignore_step
from gateway.wire.local_discovery import write_private
from gateway.wire.signatures import SEED_BYTES, Signer

_KEY_FILE = "signing.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A connected namespace, for gateways and operators' commands."""

    store: RedisStore
    credentials: RedisCredentials
    logins: Ways
    url: str


@asynccontextmanager
async def open_backend(
    settings: Settings, redis_url: str, *, at: At = ignore_step
) -> AsyncIterator[Backend]:
    """Connect to the namespace; close the connections at the end of the block."""
    redis = connect(redis_url)
    try:
        async with line_to(redis_url) as line:
            folder = settings.archive_folder
            archive = None if folder is None else Archive(folder, at)
            store = RedisStore(redis, Keys(settings.namespace), at=at, line=line, archive=archive)
            await store.check_schema()
            yield Backend(
                store=store,
                credentials=RedisCredentials(store, SystemClock()),
                logins=Ways(
                    store,
                    SystemClock(),
                    public_url=settings.public_url,
                    provider=provider_of(settings),
                    production=settings.production,
                ),
                url=redis_url,
            )
    finally:
        await disconnect(redis)


def build_core(
    settings: Settings, store: RedisStore, feed: RedisFeed, hooks: HookHost, signer: Signer | None
) -> Core:
    """Return the core of a namespace with all its deciders: hooks, installed deciders, and the mode
    last. Every entry point uses it, so that none misses a decider."""
    judges = [*links(hooks), *plugged_in(settings.deciders), ModeDecider()]
    minutes = settings.denial_minutes
    return core_over(store, feed, judges, SystemClock(), signer, denial_minutes=minutes)


def core_over(
    store: RedisStore,
    feed: RedisFeed,
    deciders: Sequence[Decider],
    clock: Clock,
    signer: Signer | None,
    *,
    denial_minutes: int = 0,
) -> Core:
    """Return the core of a namespace, with these deciders after its rules and grants."""
    notes = RedisAdapterStorage(store, "suggestions")
    return Core(
        store,
        feed,
        deciders,
        clock,
        signer=signer,
        stores=OtherStores(RedisGrants(store), RedisOutbox(store), RedisGroups(store), notes),
        denial_minutes=denial_minutes,
    )


def provider_of(settings: Settings) -> ProviderSettings | None:
    """Return the settings of the identity provider, or None."""
    if settings.oidc_issuer is None:
        return None
    if settings.oidc_client_id is None or settings.public_url is None:
        raise BadSettings("GATEWAY_OIDC_ISSUER needs GATEWAY_OIDC_CLIENT_ID and GATEWAY_PUBLIC_URL")
    secret = settings.oidc_client_secret
    return ProviderSettings(
        issuer=settings.oidc_issuer,
        client=settings.oidc_client_id,
        secret="" if secret is None else secret.get_secret_value(),
        claim=settings.oidc_claim,
        public_url=settings.public_url,
    )


def url_of(settings: Settings) -> str:
    """Return the URL of the configured Redis, or of the embedded server of a running gateway.

    Raises Unreachable if there is neither.
    """
    if settings.own_redis is not None:
        return settings.own_redis
    if (found := engine_url(settings.data_dir)) is not None:
        return found
    raise Unreachable(
        f"you run no gateway with the data folder {settings.data_dir}, and REDIS_URL is unset: "
        f"start a gateway with `gateway up`"
    )


def signer_of(settings: Settings) -> Signer:
    """Return the signer with the configured key, or the one in the data folder. The key of this
    process's masks is derived from it."""
    signer = _signer_of(settings)
    key_masks(signer.sign(b"the key of masks").encode())
    return signer


def known_public_key(settings: Settings) -> str:
    """Return the public key of the gateway's signer; empty if this process does not know it."""
    known = settings.signing_key is not None or (settings.data_dir / _KEY_FILE).exists()
    return _signer_of(settings).public_key if known else ""


def _signer_of(settings: Settings) -> Signer:
    if settings.signing_key is not None:
        return Signer(settings.signing_key.get_secret_value())
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = settings.data_dir / _KEY_FILE
    if not path.exists():
        write_private(path, base64.b64encode(os.urandom(SEED_BYTES)).decode())
    try:
        return Signer(path.read_text(encoding="utf-8").strip())
    except ValueError:
        raise BadSettings(
            f"{path} "
            "is not a signing key. Restore the file from a backup. Or remove the file to get a "
            "new key, then give the new public key to agents that pin the old one"
        ) from None
