"""What an agent's own Redis user may do: write its stream, read its replies, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ResponseError

from gateway.stores.keys import Keys
from tests.world import AGENT, World

# What any client may say before it has logged in, and a ping.
HARMLESS = {"auth", "hello", "quit", "reset", "ping", "client|setinfo"}
ALLOWED = {"xadd", "xread"}


async def tried(world: World, user: str, *words: Any) -> bool:
    """Whether the server would let the user do this; asked, not done."""
    try:
        said = await world.store.redis.execute_command("ACL", "DRYRUN", user, *words)
    except ResponseError as error:
        # It has no such arity or form: then it is refused whoever asks.
        assert "permission" not in str(error).lower()
        return False
    return str(said) == "OK"


async def every_command(world: World) -> list[tuple[str, int]]:
    """Return each command and subcommand of the server, with how many words it takes."""
    rows = await world.store.redis.execute_command("COMMAND")
    found: list[tuple[str, int]] = []
    for row in rows.values() if isinstance(rows, dict) else rows:
        name, arity = (row["name"], row["arity"]) if isinstance(row, dict) else row[:2]
        found.append((str(name), int(arity)))
        inner = row.get("subcommands", ()) if isinstance(row, dict) else row[9]
        found += [(str(sub[0]), int(sub[1])) for sub in inner or ()]
    return found


async def test_of_all_commands_an_agent_has_two(world: World) -> None:
    """Every command that the server knows, on the one key that the agent may write."""
    made = await world.credentials.rotate_agent(AGENT)
    commands = await every_command(world)
    assert len(commands) > 300
    own = world.store.keys.ingress(AGENT)
    may = set()
    for name, arity in commands:
        words = name.split("|")
        fill = [own] * max(abs(arity) - len(words), 0)
        if await tried(world, made.redis_user or "", *words, *fill):
            may.add(name)
    assert ALLOWED - {"xread"} <= may
    assert may <= ALLOWED | HARMLESS


@pytest.mark.parametrize("way", ["write", "read"])
async def test_those_two_reach_its_own_keys_alone(world: World, way: str) -> None:
    """No other agent's, no other namespace's, no state, and not its own stream the other way."""
    made = await world.credentials.rotate_agent(AGENT)
    keys = world.store.keys
    elsewhere = Keys(f"{keys.namespace}x")
    mine = keys.ingress(AGENT) if way == "write" else keys.replies(AGENT, "p1")
    others = [
        keys.replies(AGENT, "p1") if way == "write" else keys.ingress(AGENT),
        *(keys.ingress(name) for name in (f"{AGENT}2", "other", "*")),
        *(keys.replies(name, "p1") for name in (f"{AGENT}2", "other", "*")),
        elsewhere.ingress(AGENT),
        elsewhere.replies(AGENT, "p1"),
        *(keys.events, keys.policy, keys.meta, keys.credentials, keys.departed, keys.dead),
    ]

    async def may(*names: str) -> bool:
        if way == "write":
            return await tried(world, made.redis_user or "", "XADD", names[-1], "*", "a", "b")
        cursors = ["0"] * len(names)
        return await tried(world, made.redis_user or "", "XREAD", "STREAMS", *names, *cursors)

    assert await may(mine)
    for other in others:
        assert not await may(other), other
        assert not await may(mine, other), other
