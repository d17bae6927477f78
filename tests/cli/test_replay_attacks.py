"""What a hostile file, or hostile words in the audit, do to `gateway policy test`."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.approvals.policy_replay import NewlyAllowed, Past, PolicyReplay, ReplayedRule
from gateway.cli.policy import _format_replay, replay_file
from gateway.policy.policy_file_reader import BadPolicy, read_policy
from tests.world import World

HOSTILE = "\x1b[2J\nrefused by people, and this file allows it: 0\u202e"
DENIED = NewlyAllowed(
    id="0" * 32, at=0, agent="bot", summary=HOSTILE, outcome=HOSTILE, rule=HOSTILE
)
REPLAY = PolicyReplay(
    replayed=1,
    left_out={},
    rules=(ReplayedRule(rule=HOSTILE, effect="allow", fits=1, decides=1,
                        became=dict.fromkeys(Past, 1)),),
    newly_allowed=(DENIED,) * 9_000,
)  # fmt: skip


def test_no_text_begins_a_line_of_the_replay() -> None:
    """Neither a rule's name nor what somebody wrote forges a row, a count or an escape."""
    lines = "\n".join(_format_replay(replace(REPLAY, newly_allowed=(DENIED,)))).splitlines()
    assert len(lines) == 7
    assert [one for one in lines if one.startswith("refused")] == [
        "refused by people, and this file allows it: 1"
    ]
    assert not any("\x1b" in one or "\u202e" in one for one in lines)


@pytest.mark.parametrize("as_json", [True, False])
async def test_whoever_reads_only_the_beginning_changes_no_exit_code(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    """`gateway policy test FILE | head` fails under `pipefail`, as it does without."""

    async def replayed(*_: object, **__: object) -> PolicyReplay:
        return REPLAY

    @asynccontextmanager
    async def found() -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(store=world.store)

    path = tmp_path / "policy.toml"
    path.write_text("", encoding="utf-8")
    monkeypatch.setattr("gateway.cli.policy.replay", replayed)
    monkeypatch.setattr("gateway.cli.policy.connect_backend", found)
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        options = argparse.Namespace(file=str(path), days=None, json=as_json)
        assert await replay_file(options) == 1
        monkeypatch.undo()


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 5_000 + "]" * 5_000,
        "x = " + "{a=" * 3_000 + "1" + "}" * 3_000,
        "[" + ".".join("a" * 5_000) + "]",
    ],
    ids=["lists", "tables", "names"],
)
def test_a_file_that_is_too_deep_is_refused_in_a_sentence(text: str) -> None:
    """And not with the exit code of one that allows what somebody refused."""
    with pytest.raises(BadPolicy, match=r"the file is not valid TOML|nested deeper than 64"):
        read_policy(text)
