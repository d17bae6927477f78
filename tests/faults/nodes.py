"""A Sentinel trio and a cluster of real servers, and fail-overs of both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.stores.embedded_server import find_server_binary
from tests.ports import free_port
from tests.waiting import moment

_SERVER = (
    *("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
    *("--repl-ping-replica-period", "1", "--repl-diskless-sync-delay", "0"),
)
_SLOTS = 16384


@dataclass
class Node:
    """One server on a port of its own."""

    folder: Path
    words: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | None = None

    async def start(self, *words: str) -> None:
        """Run it until it answers."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "users.acl").touch()
        own = words or (
            *_SERVER,
            *("--dir", str(self.folder), "--aclfile", str(self.folder / "users.acl")),
        )
        self.process = await asyncio.create_subprocess_exec(
            str(find_server_binary()),
            *(*own, "--port", str(self.port), "--bind", "127.0.0.1", *self.words),
            stdout=asyncio.subprocess.DEVNULL,
        )
        while not await self.says("PING"):
            assert self.process.returncode is None
            await moment()

    async def says(self, *command: str) -> Any:
        """Return what it answers, None while it does not."""
        client: Any = Redis(port=self.port, decode_responses=True)
        try:
            return await client.execute_command(*command)
        except (RedisError, OSError):
            return None
        finally:
            await client.aclose()

    async def kill(self) -> None:
        """kill -9, if it runs."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def role(self) -> str:
        """Return `master` or `slave`, empty while it does not answer."""
        said = await self.says("ROLE")
        return str(said[0]) if said else ""


@dataclass
class Servers:
    """What a gateway's `url` leads to: the nodes that hold data, by their present roles."""

    url: str
    nodes: list[Node]
    primary_of: Any

    async def primary(self) -> Node:
        """Return the node that holds the namespace now."""
        while (found := await self.primary_of()) is None:
            await moment()
        node: Node = found
        return node

    async def replica(self) -> Node:
        """Return a node that follows the primary, and has all that it has."""
        primary = await self.primary()
        while True:
            info = await primary.says("INFO", "replication") or {}
            for number in range(int(info.get("connected_slaves", 0))):
                one = info[f"slave{number}"]
                if one["state"] == "online" and one["offset"] == info["master_repl_offset"]:
                    return next(node for node in self.nodes if node.port == one["port"])
            await moment()


@asynccontextmanager
async def sentinel_trio(folder: Path) -> AsyncIterator[Servers]:
    """Run a primary with two replicas under three Sentinels."""
    async with AsyncExitStack() as stack:
        nodes = [Node(folder / f"node{number}") for number in range(3)]
        for node in nodes:
            node.words = ("--min-replicas-to-write", "1")
            if node is not nodes[0]:
                node.words = (*node.words, "--replicaof", f"127.0.0.1 {nodes[0].port}")
            stack.push_async_callback(node.kill)
            await node.start()
        watchers = [Node(folder / f"sentinel{number}") for number in range(3)]
        for watcher in watchers:
            stack.push_async_callback(watcher.kill)
            watcher.folder.mkdir()
            config = watcher.folder / "sentinel.conf"
            config.write_text(
                f"sentinel monitor main 127.0.0.1 {nodes[0].port} 2\n"
                "sentinel down-after-milliseconds main 1000\n"
                "sentinel failover-timeout main 5000\n",
                encoding="ascii",
            )
            await watcher.start(str(config), "--sentinel")
        for watcher in watchers:
            while True:
                state = await watcher.says("SENTINEL", "MASTER", "main") or {}
                if (int(state.get("num-other-sentinels", 0)), int(state["num-slaves"])) == (2, 2):
                    break
                await moment()
        places = ",".join(f"127.0.0.1:{watcher.port}" for watcher in watchers)

        async def primary() -> Node | None:
            place = await watchers[0].says("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
            found = next((one for one in nodes if place and str(one.port) == place[1]), None)
            return found if found and await found.role() == "master" else None

        servers = Servers(f"redis+sentinel://{places}/main", nodes, primary)
        await servers.replica()
        servers.watcher = watchers[0]  # type: ignore[attr-defined]
        yield servers


@asynccontextmanager
async def cluster(folder: Path, slot: int) -> AsyncIterator[Servers]:
    """Run a cluster of three primaries, each with a replica; `slot` is the namespace's."""
    async with AsyncExitStack() as stack:
        nodes = [Node(folder / f"node{number}") for number in range(6)]
        for node in nodes:
            node.words = (
                *("--cluster-enabled", "yes", "--cluster-node-timeout", "1000"),
                *("--cluster-port", str(free_port()), "--cluster-config-file", "nodes.conf"),
            )
            stack.push_async_callback(node.kill)
            await node.start()
        first = nodes[0]
        for node in nodes[1:]:
            bus = node.words[5]
            assert await first.says("CLUSTER", "MEET", "127.0.0.1", str(node.port), bus)
        share = -(-_SLOTS // 3)
        await _share_out(nodes, share)
        pair = nodes[slot // share], nodes[3 + slot // share]

        async def primary() -> Node | None:
            for node in pair:
                if await node.role() == "master":
                    return node
            return None

        places = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        servers = Servers(f"redis+cluster://{places}", list(pair), primary)
        await servers.replica()
        yield servers


async def _share_out(nodes: list[Node], share: int) -> None:
    """Give each of the first three its slots and a replica, and wait until all agree."""
    for number, node in enumerate(nodes[:3]):
        last = min((number + 1) * share, _SLOTS) - 1
        await node.says("CLUSTER", "ADDSLOTSRANGE", str(number * share), str(last))
    for number, node in enumerate(nodes[3:]):
        name = await nodes[number].says("CLUSTER", "MYID")
        while await node.says("CLUSTER", "REPLICATE", name) not in (True, "OK"):
            await moment()
    for node in nodes:
        while "ok" not in str(await node.says("CLUSTER", "INFO")).partition("cluster_state")[2][:8]:
            await moment()
