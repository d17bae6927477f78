"""The agents' Redis users: made, changed and removed on every server."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import ResponseError

from gateway.stores.keys import Keys
from gateway.stores.servers import Heard, each
from gateway.wire.canonical_json import sha256_hex

_NO_FILE = "not configured to use an ACL file"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisUser:
    """A user at the one moment when its password is known.

    `kept` tells whether every server writes its users down; `silent` are the servers that did not
    take part, and why.
    """

    name: str
    password: str = field(repr=False)
    sha256: str
    kept: bool
    silent: dict[str, str]


def user_name(keys: Keys, agent: str) -> str:
    """Return the name of an agent's user; namespaces share a server, and may share agents' names.

    Neither name can hold the dot between them.
    """
    return f"{keys.namespace}.agent-{agent}"


async def grant(client: Any, keys: Keys, agent: str, *, beside: Collection[str] = ()) -> RedisUser:
    """Give an agent a user that can write its own stream, read its replies, nothing else.

    A user of that name is replaced, and its open connections are cut; not so with the hashes of
    passwords that it keeps `beside` the new one.
    """
    password = secrets.token_urlsafe(32)
    sha256 = sha256_hex(password.encode())
    heard = await put(client, keys, agent, [sha256, *beside], cut=not beside)
    return RedisUser(
        name=user_name(keys, agent),
        password=password,
        sha256=sha256,
        kept=all(heard.answers.values()),
        silent=heard.silent,
    )


async def put(
    client: Any, keys: Keys, agent: str, passwords: Collection[str], *, cut: bool
) -> Heard[bool]:
    """Give an agent's user these passwords alone, as SHA-256; return who writes its users down."""
    name = user_name(keys, agent)
    rule = [
        "on",
        *(f"#{one}" for one in passwords),
        "resetkeys",
        f"%W~{keys.ingress(agent)}",
        f"%R~{keys.replies(agent, '*')}",
        "resetchannels",
        "-@all",
        "+xadd",
        "+xread",
        "+ping",
    ]

    async def replace(node: Any) -> bool:
        if cut:
            await node.execute_command("ACL", "DELUSER", name)
        try:
            await node.execute_command("ACL", "SETUSER", name, "reset", *rule, "+client|setinfo")
        except ResponseError:
            # Redis 7.0 cannot grant a single subcommand of CLIENT; its ACL log then names the
            # refusal.
            await node.execute_command("ACL", "SETUSER", name, "reset", *rule)
        return await _save(node)

    return await each(client, replace)


async def remove(client: Any, keys: Keys, agent: str) -> Heard[int]:
    """Delete an agent's user, which cuts its open connections; return on how many each had it."""

    async def delete(node: Any) -> int:
        gone = int(await node.execute_command("ACL", "DELUSER", user_name(keys, agent)))
        await _save(node)
        return gone

    return await each(client, delete)


async def _save(node: Any) -> bool:
    """Write users to the server's ACL file; return False when it has none."""
    try:
        await node.execute_command("ACL", "SAVE")
    except ResponseError as error:
        if _NO_FILE not in str(error):
            raise
        return False
    return True
