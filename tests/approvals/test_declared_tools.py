"""What authors and operators declare of a tool, through the gateway and its store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.domain.policy_document import ToolRow
from gateway.domain.records import Remember
from gateway.models import Action, Status
from gateway.policy.grants.grant import Scope
from gateway.policy.grants.offers import offers
from gateway.server.app import run_gateway
from gateway.server.settings import Settings
from tests.world import AGENT, World, click

ROLES = {"city": "data"}
HARMLESS: dict[str, Any] = {"tool": "get_weather", "roles": ROLES, "harmless": True}


async def trusting(world: World, *agents: str, **more: Any) -> None:
    """Trust the declarations of these agents from now on."""
    await world.put(trust_declarations=agents, **more)


async def asked(world: World, city: str, **changes: Any) -> Status:
    """Ask for the weather of a city, and return what became of it."""
    record = await world.submit(**{**HARMLESS, "arguments": {"city": city}, **changes})
    return record.status


async def test_an_authors_word_counts_while_it_is_trusted_and_said(world: World) -> None:
    """It offers the whole tool; without the trust, the word or the row it covers nothing."""
    first = await world.submit(**HARMLESS, arguments={"city": "Oslo"})
    assert Scope.TOOL not in [one.match.scope for one in offers(first)]
    await trusting(world, AGENT)
    second = await world.submit(**HARMLESS, arguments={"city": "Bergen"})
    whole = offers(second)[-1]
    assert whole.match.scope is Scope.TOOL
    decided = click(second, Action.APPROVE, remember=Remember(offer=whole.id))
    await world.core.requests.decide(decided)
    assert await asked(world, "Rome") is Status.APPROVED
    assert await asked(world, "Rome", harmless=False) is Status.PENDING
    await trusting(world, AGENT, tools=(ToolRow(name="get_weather", harmless=False),))
    assert await asked(world, "Paris") is Status.PENDING
    await trusting(world, "other", tools=())
    assert await asked(world, "Berlin") is Status.PENDING
    await trusting(world, "b*", AGENT)
    assert await asked(world, "Madrid") is Status.APPROVED


async def test_what_is_decided_later_goes_by_the_policy_of_then(world: World) -> None:
    """Remembered answers see a request as it is declared now, not as it was when it was asked."""
    await trusting(world, AGENT)
    record = await world.submit(**HARMLESS, arguments={"city": "Oslo"})
    assert (record.harmless, record.trusted) == (True, True)
    await trusting(world, "other")
    book = world.core.writer.book
    book.at(await world.store.policy())
    later = book.redeclare(record)
    assert (later.harmless, later.trusted) == (False, False)


async def test_what_is_declared_is_stored_and_survives_an_edit(world: World) -> None:
    """The author's roles with the request, the operator's beside it."""
    await trusting(
        world, AGENT, tools=(ToolRow(name="get_weather", harmless=True, arguments={"x": "id"}),)
    )
    both = (Action.APPROVE, Action.EDIT)
    record = await world.submit(**HARMLESS, arguments={"city": "Oslo"}, allowed=both)
    kept = await world.store.load(record.id)
    assert kept == record
    assert kept is not None
    assert (kept.request.roles, kept.request.harmless) == (ROLES, True)
    assert (kept.declared, kept.trusted, kept.harmless) == ({"x": "id"}, True, True)
    await world.core.requests.decide(click(kept, Action.EDIT, arguments={"city": "Rome"}))
    edited = await world.store.load(record.id)
    assert edited is not None
    assert (edited.arguments, edited.status) == ({"city": "Rome"}, Status.APPROVED)
    assert (edited.request.roles, edited.declared, edited.trusted) == (ROLES, {"x": "id"}, True)


async def test_the_first_policy_of_a_gateway_trusts_declarations(tmp_path: Path) -> None:
    """Whoever starts one for themselves runs code of their own; a file says it or not."""
    settings = Settings(data_dir=tmp_path / "state", port=0, adapters=())
    async with run_gateway(settings) as gateway:
        assert (await gateway.backend.store.policy()).trust_declarations == ("*",)
    file = tmp_path / "policy.toml"
    file.write_text('[[routes]]\nname = "default"\n')
    async with run_gateway(replace_file(settings, file)) as gateway:
        assert (await gateway.backend.store.policy()).trust_declarations == ()


def replace_file(settings: Settings, file: Path) -> Settings:
    """Return the settings with this policy file."""
    return settings.model_copy(update={"policy_file": file})
