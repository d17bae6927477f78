"""At start-up: refuse unsafe settings, create the owner, enrol agents, apply the policy file."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import logging
import os
import pwd
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

from gateway.api.api_call import Enrolment
from gateway.domain.policy_document import PolicyDocument
from gateway.errors import Conflict, GatewayError
from gateway.policy.policy_file_reader import (
    BadPolicy,
    differences,
    find_lockout,
    find_no_admin,
    read_policy,
)
from gateway.server.connections import Backend
from gateway.server.plugins import refuse_unknown
from gateway.server.settings import Settings
from gateway.stores.backup import list_held_agents
from gateway.stores.connect import facts, writes_alone
from gateway.stores.credentials import APPROVER, REDIS_ERRORS, user_name
from gateway.stores.requests import RedisStore
from gateway.wire.codec import JsonObject
from gateway.wire.local_discovery import OWNER_FILE, write_private

OWNER = "owner"
_LOOK_SECONDS = 1.0


async def first_login(
    backend: Backend, url: str, settings: Settings, *, link: bool = True
) -> list[str]:
    """Create the owner if needed, and return the lines that tell a local person how to log in.

    With `link`, they have a login link: for a person's eyes, not for a log.
    """
    if not await is_owner_here(backend, settings):
        return ["Log in with the link of: gateway login NAME"]
    if not link:
        return [f"Answer in the browser with the link of: gateway login {OWNER}"]
    code = await backend.logins.invite(OWNER)
    return [f"Answer in the browser (works once): {url}/inbox/login#code={code}"]


async def is_owner_here(backend: Backend, settings: Settings) -> bool:
    """Whether this user is the owner; without any approvers, they become the owner."""
    path = settings.data_dir / OWNER_FILE
    people = {person.name for person in (await backend.store.policy()).people}
    with suppress(Conflict):  # another replica is creating the owner
        if not people:
            here = _terminal_identities()
            owner = await backend.credentials.add_approver(OWNER, admin=True, identities=here)
            write_private(path, json.dumps({"name": OWNER, "token": owner.token}))
            people = {OWNER}
    return OWNER in people and path.exists()


async def print_links(make: Callable[[], Awaitable[list[str]]], say: Callable[[str], None]) -> None:
    """Print fresh links at each press of Enter, because links expire. Ends by cancellation."""
    loop, typed = asyncio.get_running_loop(), asyncio.Event()
    # So in the background of its terminal, a read fails instead of stopping this process.
    signal.signal(signal.SIGTTIN, signal.SIG_IGN)
    while True:
        loop.add_reader(sys.stdin, typed.set)
        try:
            await typed.wait()
        finally:
            loop.remove_reader(sys.stdin)
        typed.clear()
        line = ""
        with suppress(OSError):
            line = sys.stdin.readline()
        if line:
            for told in await make():
                say(told)
        else:
            await asyncio.sleep(_LOOK_SECONDS)  # another process has the terminal, or none has


def _terminal_identities() -> tuple[str, ...]:
    """Return this user's identity in the terminal adapter; empty if the user has no name."""
    try:
        return (f"terminal:{pwd.getpwuid(os.getuid()).pw_name}",)
    except KeyError:
        return ()


def enrolment(backend: Backend, public_key: str) -> Enrolment:
    """Return the enrolment, for agents that know the discovery file's secret."""

    async def enroll(name: str) -> JsonObject:
        new = await backend.credentials.enrol_agent(name)
        user = f"{quote(new.redis_user or '')}:{quote(new.redis_password or '')}@"
        parts = urlsplit(backend.url)
        place = parts.netloc.rpartition("@")[2]
        redis_url = parts._replace(netloc=user + place).geturl()
        return {
            "agent": name,
            "token": new.token,
            "public_key": public_key,
            "namespace": backend.store.keys.namespace,
            "redis_url": redis_url,
        }

    return Enrolment(secret=secrets.token_urlsafe(32), enroll=enroll)


# The policy file of the settings: applied at the start, and again on demand.

log = logging.getLogger("gateway.server")

POLICY_FILE = "policy file"
"""The place in the health of a gateway for a policy file that was not applied."""

_PASSING: tuple[type[Exception], ...] = (GatewayError, *REDIS_ERRORS)


async def apply_at_start(backend: Backend, path: Path) -> str | None:
    """Apply the file; with an earlier policy, return why a bad file was not applied."""
    try:
        await apply_file(backend, path)
    except GatewayError as error:
        if not (await backend.store.policy()).routes:
            raise
        return _say_refusal(path, error)
    return None


async def apply_again(backend: Backend, path: Path) -> str | None:
    """Apply the file if it changed; return an error, after which the active policy stays."""
    try:
        await apply_file(backend, path)
    except _PASSING as error:
        return _say_refusal(path, error)
    return None


async def apply_file(backend: Backend, path: Path) -> None:
    """Apply a policy file, unless the same content was the last to be applied this way.

    So a later policy from `gateway apply` stays until the file changes. Raises GatewayError if the
    file is bad, or would leave nobody who can approve.
    """
    store = backend.store
    text, digest = _read(path)
    now, last = await store.policy(), await store.policy_file()
    written = read_policy(text).succeed(now)
    refuse_unknown(written)
    if last.digest == digest:
        if differences(now, written):
            log.warning(
                "the policy file %s is unchanged since it was applied; the active policy is newer, "
                "by %s: run `gateway apply %s` to apply the file again",
                path, last.by, path, extra={"event": "policy_file_older"},
            )  # fmt: skip
        return
    if not differences(now, written):
        await store.note_policy_file(digest)
        return
    await _refuse_lockout(backend, now, written)
    try:
        named = f"the file {path.name}"
        await store.apply(written, by=named, digest=digest)
    except Conflict:
        if (await store.policy_file()).digest != digest:
            raise
        return  # another replica applied the same file
    log.info("the policy file %s is active", path, extra={"event": "policy_file_applied"})


async def _refuse_lockout(backend: Backend, now: PolicyDocument, written: PolicyDocument) -> None:
    """Raise BadPolicy if people can approve now and nobody could then; the same for admins."""
    tokens = {row.name for row in await backend.credentials.list_all(APPROVER)}
    for find in (find_lockout, find_no_admin):
        if (missing := find(written, tokens)) and not find(now, tokens):
            raise BadPolicy(f"{missing}; or confirm it with: gateway apply FILE --yes")


def _read(path: Path) -> tuple[str, str]:
    """Return the text of the file, and a digest of it."""
    try:
        raw = path.read_bytes()
        return raw.decode(), hashlib.sha256(raw).hexdigest()
    except (OSError, UnicodeDecodeError) as error:
        raise BadPolicy(f"cannot read {path}: {error}") from None


def _say_refusal(path: Path, error: Exception) -> str:
    return f"the policy file {path} was not applied; the earlier policy stays active: {error}"


# Refuses unsafe settings in production, and names all problems at once.

OPEN_DEFAULT = (
    "The Redis user default is on, so the server needs no login: give the gateway a user as in "
    "deploy/users.acl.example, put it into REDIS_URL, then run ACL SETUSER default off and ACL "
    "SAVE."
)


class UnsafeSettings(GatewayError):
    """The settings are not safe for production."""

    code = "unsafe_settings"
    exit_code = 2


async def refuse_unsafe(settings: Settings, store: RedisStore) -> None:
    """Raise UnsafeSettings in production if the settings are not safe for it."""
    if not settings.production:
        return
    found = [*_own(settings), *await _of_server(store), *await _of_policy(store)]
    if found:
        raise UnsafeSettings("production refuses to start: " + " ".join(found))


def _own(settings: Settings) -> list[str]:
    found = []
    if settings.signing_key is None:
        found.append("GATEWAY_SIGNING_KEY is unset, so agents cannot verify decisions.")
    if not settings.secure and not is_loopback(settings.host):
        found.append(
            f"HTTP would listen on {settings.host} without TLS: set GATEWAY_TLS_CERT and "
            "GATEWAY_TLS_KEY, or GATEWAY_TRUSTED_PROXY if a proxy provides TLS."
        )
    return found


async def _of_server(store: RedisStore) -> list[str]:
    """Return the problems of every server, because any replica may become the primary."""
    heard = await facts(store.redis)
    for server, why in heard.silent.items():
        log.warning("%s was not checked: %s", server, why, extra={"event": "server_unchecked"})
    every = heard.answers.values()
    found = []
    if any(one.settings.get("appendonly") != "yes" for one in every):
        found.append("Redis keeps no append-only file: set appendonly yes.")
    if any(one.settings.get("maxmemory-policy") != "noeviction" for one in every):
        found.append("Redis may evict requests: set maxmemory-policy noeviction.")
    if writes_alone(every):
        found.append("A fail-over of Redis may lose decisions: set min-replicas-to-write 1.")
    if any(one.default for one in every):
        found.append(OPEN_DEFAULT)
    held = await list_held_agents(store)  # a restore took their users; they cannot act
    without = [
        agent
        for agent in await store.agents()
        if agent not in held and all(user_name(store.keys, agent) not in one.users for one in every)
    ]
    if without:
        found.append(
            f"These agents have no separate Redis user: {', '.join(without)}: "
            "run gateway agent rotate NAME."
        )
    return found


async def _of_policy(store: RedisStore) -> list[str]:
    policy = await store.policy()
    empty = [name for route in policy.routes for name in route.unanswered] or (
        [] if policy.routes else ["default"]
    )
    if empty:
        return [
            f"Nobody may approve on the routes {', '.join(empty)}: run gateway approver add NAME."
        ]
    return []


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
