"""A whole gateway in a scratch folder, with one approver and a route that a rule decides."""

from __future__ import annotations

import asyncio
import base64
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import SecretStr

from gateway.domain.policy_document import Budget, Mode, Route
from gateway.domain.records import Click, Identity
from gateway.models import Action, new_id
from gateway.server import app
from gateway.server.settings import Settings
from gateway.stores.requests import RedisStore

APPROVER = "ann"
RULE_TOOL = "shell"
ASK_TOOL = "deploy"
ARGUMENT = "x" * 388
"""As `{"command":"..."}` this makes 402 bytes of arguments."""

_AMPLE = Budget(waiting=10**6, bytes=10**12, daily=10**12, cards=10**6, denials=10**6)
"""One agent stands for many here, and asks for more than people could bear."""
_LOOK_SECONDS = 0.005
_SIGNING_KEY = base64.b64encode(bytes(32)).decode()
"""Gateways that share a namespace share their key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running gateway and the folder where its agents find it."""

    gateway: app.Gateway
    folder: Path

    @property
    def redis_url(self) -> str:
        """The engine, with the gateway's own rights."""
        return self.gateway.backend.url


@asynccontextmanager
async def stage(
    redis_url: str | None = None,
    namespace: str = "gw",
    *,
    first: bool = True,
    adapters: tuple[str, ...] = ("web",),
) -> AsyncIterator[Stage]:
    """Run a gateway in this process, with an embedded server unless one is given.

    The `first` gateway of a namespace writes its policy.
    """
    with tempfile.TemporaryDirectory(prefix="agw-bench-") as name:
        settings = Settings(
            data_dir=Path(name),
            port=0,
            namespace=namespace,
            adapters=adapters,
            signing_key=SecretStr(_SIGNING_KEY),
            REDIS_URL=SecretStr(redis_url) if redis_url else None,
        )
        async with app.run_gateway(settings) as gateway:
            if first:
                await prepare(gateway)
            yield Stage(gateway=gateway, folder=Path(name))


async def prepare(gateway: app.Gateway) -> None:
    """Let one person answer, and a rule answer for one tool."""
    store = gateway.backend.store
    await gateway.backend.credentials.add_approver(APPROVER)
    policy = await store.policy()
    rule = Route(name="rule", tools=(RULE_TOOL, f"mcp__bench__{RULE_TOOL}"), mode=Mode.AUTO_APPROVE)
    routes = (rule, *policy.routes)
    await store.apply(replace(policy, routes=routes, budgets=(_AMPLE,)), by="bench")


async def until_pending(store: RedisStore, wanted: int) -> None:
    """Wait until that many requests are pending: another process is putting them there."""
    while await store.count_pending() < wanted:  # noqa: ASYNC110 (what to wait for is in Redis)
        await asyncio.sleep(_LOOK_SECONDS)


def argument(letters: int = len(ARGUMENT)) -> str:
    """Return an argument of that length that was never there before, as real ones are."""
    return f"{new_id()}{ARGUMENT}"[:letters]


def click(request_id: str) -> Click:
    """Return the approver's tap on a request that nothing has happened to."""
    return Click(
        request_id=request_id,
        revision=1,
        identity=Identity(platform="token", id=APPROVER),
        action=Action.APPROVE,
        nonce=new_id(),
    )
