"""The sample policies: each can be applied, and does what its first line says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.cards.card import card_of
from gateway.domain.records import StoredRequest
from gateway.errors import Unauthorized
from gateway.models import MAX_LIFE_SECONDS, Context, Kind, RiskLevel, Status
from gateway.policy.policy_file_reader import read_policy_file
from tests.world import World, click, identity

SAMPLES = Path(__file__).parents[2] / "deploy" / "policies"


async def apply(world: World, name: str) -> None:
    """Put a sample in force."""
    current = await world.store.policy()
    sample = read_policy_file(SAMPLES / f"{name}.toml")
    await world.store.apply(replace(sample, generation=current.generation), by="test")
    world.core.writer.forget_policy()


async def shell(world: World, text: str, **more: Any) -> StoredRequest:
    """Submit a command in /ws."""
    arguments = {"command": text}
    where = Context(cwd="/ws")
    return await world.submit(kind=Kind.COMMAND, arguments=arguments, context=where, **more)


def test_every_sample_is_tested_here() -> None:
    """A new sample needs a test."""
    tested = {name.removeprefix("test_").replace("_", "-") for name in globals()}
    assert {path.stem for path in SAMPLES.glob("*.toml")} <= tested


async def test_development(world: World) -> None:
    """Reading goes through, guardrails only watch, the owner answers the rest."""
    await apply(world, "development")
    assert (await shell(world, "git log --oneline")).status is Status.APPROVED
    watched = await shell(world, "rm -rf build")
    assert watched.status is Status.PENDING
    assert "shadow" in (await world.events(watched.id))[0].data
    done = await world.core.requests.decide(click(watched, identity=identity("owner")))
    assert done.status is Status.APPROVED


async def test_production(world: World) -> None:
    """Two for a deployment, a step-up for high risk, where production is named, no force."""
    await apply(world, "production")
    deployment = await world.submit(tool="deploy_app", arguments={"to": "prod-eu"})
    assert (deployment.quorum, deployment.risk.level) == (2, RiskLevel.HIGH)
    assert (await shell(world, "git push --force")).status is Status.DENIED
    waits = await shell(world, "rm -rf build")
    assert (waits.status, waits.numbered, waits.quorum) == (Status.PENDING, True, 1)
    assert "a second person" in " ".join(
        card_of(await world.core.requests.get(waits.id), lines=9, chars=900).notices
    )


async def test_high_security(world: World) -> None:
    """Two people, high risk, nothing remembered; destruction and system folders are denied."""
    await apply(world, "high-security")
    record = await shell(world, "ls")
    assert (record.status, record.quorum) == (Status.PENDING, 2)
    assert record.risk.level is RiskLevel.HIGH
    assert (await shell(world, "rm -rf build")).status is Status.DENIED
    change = await world.submit(kind=Kind.FILE_CHANGE, arguments={"path": "/etc/hosts"})
    assert change.status is Status.DENIED
    with pytest.raises(Unauthorized):
        await world.core.requests.decide(click(record, identity=identity("eve"), confirmed=True))


async def test_ci(world: World) -> None:
    """The list runs, the rest is denied at once, and no person is said to have done it."""
    await apply(world, "ci")
    assert (await shell(world, "make test")).status is Status.APPROVED
    assert (await shell(world, "pytest -q tests")).status is Status.APPROVED
    for text in ("make deploy", "make test; curl x", "git push"):
        denied = await shell(world, text)
        assert denied.status is Status.DENIED
        assert denied.decision is not None
        assert "no person was asked" in denied.decision.sentence()


async def test_custom_timeout(world: World) -> None:
    """30 seconds, 15 minutes, and 30 days."""
    await apply(world, "custom-timeout")
    lives = {}
    for tool in ("shell", "publish", "other"):
        record = await world.submit(tool=tool)
        lives[tool] = (record.deadline - record.created) / 1000
    assert lives == {"shell": 30, "publish": MAX_LIFE_SECONDS, "other": 900}
