"""The table of hostile inputs through the SDK, over Redis streams: what asks, and what goes on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.client import AsyncClient
from gateway.client.redis_transport import RedisTransport
from gateway.errors import InvalidRequest
from gateway.models import Context, DeciderKind, Kind, Risk, RiskLevel, Status, new_id
from gateway.policy.grants.grant import GrantVoter
from gateway.stores.grants import RedisGrants
from gateway.wire.codec import plain
from tests.grants.test_everyday import EVERYDAY
from tests.grants.test_hostile_inputs import (
    ASK,
    FOLDER,
    MORE,
    TAKEN_APART,
    TEMPLATES,
    TWISTED,
)
from tests.world import AGENT, World, request

HERE = Context(cwd="/ws")
COVERED = ("git status", "git log", "ls", "cat", "rg", "find", "sed", "go test")


@pytest.fixture
async def client(world: World, server_url: str, namespace: str) -> AsyncIterator[AsyncClient]:
    """Yield an agent's client, where the widest grants for everyday programs are remembered."""
    grants = RedisGrants(world.store)
    for grant in (*TEMPLATES, FOLDER):
        await grants.add(replace(grant, backers=(GrantVoter(person="ann", via=("ann",)),)))
    async with (
        world.ingress().running(),
        AsyncClient(RedisTransport(server_url, AGENT, namespace)) as made,
    ):
        yield made


async def asked(client: AsyncClient, tool: str, arguments: dict[str, Any], **more: Any) -> str:
    """Submit a request; return its id."""
    made = client.request(tool, arguments, context=HERE, **more)
    await client.submit(made)
    return made.id


async def test_rows_1_to_24_38_and_39_ask(world: World, client: AsyncClient) -> None:
    """No hostile command is settled by what was remembered."""
    ids: dict[str, str] = {}
    for name, text in (ASK | MORE).items():
        if "\x00" in text:
            continue  # row 34: refused
        arguments = {"command": text}
        ids[await asked(client, "shell", arguments, kind=Kind.COMMAND)] = name
    await world.until(lambda found: sum(one.type == "submitted" for one in found) >= len(ids))
    waiting = set(await world.store.pending_of(AGENT))
    gone = {name for one, name in ids.items() if one not in waiting}
    assert not [name for name in gone if name not in TAKEN_APART or "M" in MORE.get(name, "M")]


async def test_rows_25_and_63_everyday_commands_go_on(client: AsyncClient) -> None:
    """The positive control: nobody is asked, and the decision cites a grant."""
    covered = [text for _, text in EVERYDAY if text.startswith(COVERED)]
    assert len(covered) > 10
    for text in covered:
        approval = await client.ask(
            "shell", {"command": text}, kind=Kind.COMMAND, context=HERE, timeout=30
        )
        assert approval.decision.decided_by.kind is DeciderKind.GRANT


async def test_rows_26_to_28_folders(world: World, client: AsyncClient) -> None:
    """Outside by name asks, inside goes on."""
    ids = [
        await asked(client, "read_file", {"path": path})
        for path in ("/ws/../etc/passwd", "/ws-evil/k", "/ws/a b.txt")
    ]
    await world.until(lambda found: sum(one.type == "submitted" for one in found) >= len(ids))
    found = [(await world.core.requests.get(one)).status for one in ids]
    assert found == [Status.PENDING, Status.PENDING, Status.APPROVED]


async def test_rows_66_to_68_lists_folders_and_patches_ask(
    world: World, client: AsyncClient
) -> None:
    """As the words of a list, in another folder, or for a file that only some readers see."""
    ids = [await asked(client, tool, arguments, kind=kind) for tool, kind, arguments in TWISTED]
    await world.until(lambda found: sum(one.type == "submitted" for one in found) >= len(ids))
    assert set(ids) <= set(await world.store.pending_of(AGENT))


async def test_rows_31_to_34_and_37_a_broken_message_is_answered_and_never_shown(
    world: World, client: AsyncClient
) -> None:
    """Written past the SDK by whoever knows the agent's password: audited, and no request."""
    body = json.dumps(plain(request()))
    broken = [
        body.replace('"tool":', '"tool": "x", "tool":'),
        body.replace('"tool":', '"Cmd": "x", "tool":'),
        body.replace('"tool":', '"approvers": ["bot"], "tool":'),
        body.replace('"ls"', '"\\ud800"'),
        body.replace('"ls"', '"\\u0000"'),
    ]
    stream = world.store.keys.ingress(AGENT)
    for text in broken:
        fields = {"v": "1", "verb": "submit", "process": "process0001", "nonce": "n", "body": text}
        await world.store.redis.xadd(stream, fields)
    events = await world.until(
        lambda found: sum(one.type == "refused" for one in found) >= len(broken)
    )
    assert not [one for one in events if one.type == "submitted"]
    with pytest.raises(InvalidRequest):
        client.request("shell", {"command": "\ud800"})


async def test_row_33_reordered_keys_are_one_digest(client: AsyncClient) -> None:
    """The digest is over the value."""
    first = client.request("t", {"a": 1, "b": [{"c": 2, "d": 3}]}, context=HERE)
    second = client.request("t", {"b": [{"d": 3, "c": 2}], "a": 1}, context=HERE)
    assert first.digest == second.digest


async def test_row_36_a_claim_of_low_risk_opens_nothing(world: World, client: AsyncClient) -> None:
    """An agent's label only raises."""
    low = Risk(level=RiskLevel.LOW)
    made = client.request("shell", {"command": "rm x"}, kind=Kind.COMMAND, risk=low, id=new_id())
    await client.submit(made)
    await world.until(lambda found: any(one.type == "submitted" for one in found))
    record = await world.core.requests.get(made.id)
    assert (record.status, record.risk.level) == (Status.PENDING, RiskLevel.MEDIUM)
