"""What we use of discord.py beyond its documented interface: in one place, and missed in words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import discord
import pytest

from adapters.discord import library
from adapters.discord.adapter import DiscordAdapter
from gateway.errors import Misconfigured
from gateway.ports import AdapterApi

ADAPTER = Path(library.__file__).parent
OPEN_PARTS = {"discord.abc", "discord.app_commands", "discord.ui", "discord.utils"}
OWN = {"self", "cls"}


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that are complete."""
    monkeypatch.setenv("GATEWAY_DISCORD_TOKEN", "x")


def private_uses(tree: ast.AST) -> Iterator[str]:
    """Yield what a module reads that begins with an underscore on another object than itself, and
    the undocumented parts of discord that it imports or names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if node.attr.startswith("_") and not node.attr.startswith("__"):
                if ast.unparse(node.value) not in OWN:
                    yield text
            elif text in {"discord.gateway", "discord.http", "discord.state"}:
                yield text
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("discord."):
            if node.module not in OPEN_PARTS:
                yield f"from {node.module}"
        elif isinstance(node, ast.Import):
            yield from (
                one.name
                for one in node.names
                if one.name.startswith("discord.") and one.name not in OPEN_PARTS
            )


def test_nothing_private_is_used_outside_the_one_place() -> None:
    """A new version of discord.py can break us in `library` alone; and the search finds that."""
    found = {
        path.name: uses
        for path in sorted(ADAPTER.glob("*.py"))
        if (uses := list(private_uses(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert list(found) == ["library.py"], found
    assert any("client._connection" in one for one in found["library.py"])


@pytest.mark.parametrize(
    ("holder", "name"),
    [
        (discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY"),
        (discord.gateway, "KeepAliveHandler"),
        (discord.http.HTTPClient, "upsert_global_command"),
        (discord.http.Route, "BASE"),
    ],
)
async def test_what_cannot_be_replaced_is_missed_at_the_start(
    monkeypatch: pytest.MonkeyPatch, holder: Any, name: str
) -> None:
    """The adapter does not start, and says what is missing in which version."""
    monkeypatch.delattr(holder, name)
    with pytest.raises(Misconfigured, match=rf"discord.py {discord.__version__} lacks \S*{name},"):
        async with DiscordAdapter().run(
            cast(AdapterApi, SimpleNamespace(notes=None, messages=SimpleNamespace(links={})))
        ):
            pass


async def test_a_client_without_its_state_is_missed_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same for an attribute that only objects have."""

    class Client(discord.Client):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            del self._connection

    monkeypatch.setattr(discord, "Client", Client)
    with pytest.raises(Misconfigured, match=r"Client\._connection"):
        async with DiscordAdapter().run(
            cast(AdapterApi, SimpleNamespace(notes=None, messages=SimpleNamespace(links={})))
        ):
            pass


async def test_the_doctor_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a finding, with nothing tried after it."""
    monkeypatch.delattr(discord.http.Route, "BASE")
    found = await DiscordAdapter().checks({}, None, live=False)  # type: ignore[arg-type]
    assert found[-1][0] == "discord library"
    assert "http.Route.BASE" in found[-1][1].says


def member(**of: Any) -> Any:
    """Return a member as far as roles go."""
    everyone = SimpleNamespace(id=1, is_default=lambda: True)
    admin = SimpleNamespace(id=7, is_default=lambda: False)
    return SimpleNamespace(roles=[everyone, admin], **of)


def test_roles_are_read_from_the_payload_or_from_the_cache() -> None:
    """The payload's own where the library keeps them; otherwise those that the cache knows, and
    never `@everyone`, which a policy might name by the server's id."""
    assert list(library.role_ids(member(_roles=[7, 8]))) == [7, 8]
    assert list(library.role_ids(member())) == [7]
