"""First-run setup: create the owner, enrol local agents."""

from __future__ import annotations

import json
import os
import pwd
import secrets
from contextlib import suppress
from urllib.parse import quote, urlsplit

from gateway.api.call import Enrolment
from gateway.errors import Conflict
from gateway.server.connections import Backend
from gateway.server.settings import Settings
from gateway.wire.codec import JsonObject
from gateway.wire.local_discovery import OWNER_FILE, write_private

OWNER = "owner"


async def first_login(
    backend: Backend, url: str, settings: Settings, *, link: bool = True
) -> list[str]:
    """Return the lines that tell a local person how to log in; create the owner first.

    With `link` they hold a login link, which is for a person's eyes and not for a log.
    """
    path = settings.data_dir / OWNER_FILE
    people = {person.name for person in (await backend.store.policy()).people}
    with suppress(Conflict):  # another replica is creating the owner
        if not people:
            here = _terminal_identities()
            owner = await backend.credentials.add_approver(OWNER, admin=True, identities=here)
            write_private(path, json.dumps({"name": OWNER, "token": owner.token}))
            people = {OWNER}
    if OWNER not in people or not path.exists():
        return ["Log in with the link of: gateway login NAME"]
    if not link:
        return [f"Answer in the browser with the link of: gateway login {OWNER}"]
    code = await backend.logins.invite(OWNER)
    return [f"Answer in the browser (works once): {url}/inbox/login#code={code}"]


def _terminal_identities() -> tuple[str, ...]:
    """Return this user's identity in the terminal adapter; empty where the user has no name."""
    try:
        return (f"terminal:{pwd.getpwuid(os.getuid()).pw_name}",)
    except KeyError:
        return ()


def enrolment(backend: Backend, public_key: str) -> Enrolment:
    """Return the enrolment: agents that know the discovery file's secret get a credential."""

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
