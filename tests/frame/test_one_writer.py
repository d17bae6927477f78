"""Requests have one writer: no other module has the calls of the store that change one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.domain.store import Store, WritableStore
from tests.frame.tree import ROOT

CALLS = ("create", "change", "change_all")
WRITER = Path("gateway/approvals/request_writer.py")
PROTOCOLS = {
    # It is handed on to the writer, and to nothing else.
    "WritableStore": {
        WRITER,
        Path("gateway/domain/store.py"),
        Path("gateway/approvals/services.py"),
    },
}


def sources() -> Iterator[tuple[Path, str]]:
    """Yield every module of the gateway and of the adapters, with its text."""
    for folder in ("gateway", "adapters"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


def name_of(receiver: ast.expr) -> str:
    """Return the last name of what an attribute is taken from: `store` of `self.world._store`."""
    if isinstance(receiver, ast.Attribute):
        return receiver.attr
    if isinstance(receiver, ast.Call):
        return name_of(receiver.func)
    return receiver.id if isinstance(receiver, ast.Name) else ""


def writes(text: str) -> list[str]:
    """Return where a module takes a writing call from a store, called or only passed on."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in CALLS:
            owner = name_of(node.value).lower()
            # Grants have a store of their own, and `self.create` is a class's own method.
            if owner.endswith(("store", "stores", "requests")):
                found.append(f"{node.lineno}: {owner}.{node.attr}")
        if isinstance(node, ast.Call) and name_of(node.func) in ("getattr", "attrgetter"):
            named = [one.value for one in node.args if isinstance(one, ast.Constant)]
            found += [f"{node.lineno}: {one}" for one in named if one in CALLS]
    return found


def mentions(text: str, protocol: str) -> bool:
    """Whether a module names a protocol, in an import or as a member of a module."""
    return protocol in text and any(
        protocol in (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", ""))
        for node in ast.walk(ast.parse(text))
    )


def test_only_the_writer_calls_what_changes_a_request() -> None:
    """Nobody else has these attributes of anything that is named as a store."""
    found = {str(path): writes(text) for path, text in sources() if path != WRITER}
    assert {path: places for path, places in found.items() if places} == {}


def test_only_the_writer_is_handed_the_writing_protocol() -> None:
    """So that a type checker sees what this test cannot: a store under another name."""
    assert not [name for name in CALLS if hasattr(Store, name)]
    assert [name for name in CALLS if not hasattr(WritableStore, name)] == []
    for protocol, allowed in PROTOCOLS.items():
        assert {path for path, text in sources() if mentions(text, protocol)} == allowed


@pytest.mark.parametrize(
    "planted",
    [
        "await self._store.change(transition)",
        "outcome, _ = await store.create(record, origin)",
        "run = self.services.approvals.store.change_all",
        "RedisStore(redis).change(transition)",
        "getattr(self._store, 'change')(transition)",
    ],
)
def test_a_planted_write_is_seen(planted: str) -> None:
    """Called, passed on, or taken by name, wherever the store stands."""
    assert writes(f"async def meddle(self, store):\n    {planted}\n")


def test_a_planted_protocol_is_seen() -> None:
    """Imported under its own name or another, or taken from its module."""
    assert mentions("from gateway.domain.store import WritableStore as W", "WritableStore")
    assert mentions("def f(x: store.WritableStore) -> None: ...", "WritableStore")


def test_the_writer_itself_is_what_the_test_looks_for() -> None:
    """The guard would see each of the writer's own calls: it does not look past them."""
    found = " ".join(writes((ROOT / WRITER).read_text(encoding="utf-8")))
    assert all(f"_requests.{name}" in found for name in CALLS)
