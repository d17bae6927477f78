"""`gateway tool …`: declarations from the command line, and what `gateway apply` does with them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from gateway.cli.policy import format_tool
from gateway.policy.policy_file_reader import read_policy
from gateway.wire.codec import plain
from tests.cli.shell import Shell
from tests.cli.test_cli import POLICY


def test_a_declaration_is_printed_as_the_file_needs_it(up: Shell, tmp_path: Path) -> None:
    """Declared, listed, lost only with a warning, and kept by what `tool list` prints."""
    path = tmp_path / "policy.toml"
    path.write_text(POLICY, encoding="utf-8")
    up.run("apply", str(path))
    told = up.run("tool", "declare", "jot", "notes[].zork=data", "--agents", "bot,ci-*")
    assert '"notes[].zork" = "data"' in told
    assert "gateway apply" in told
    assert "write ADDRESS=ROLE" in up.run("tool", "declare", "jot", "zork", code=2)
    assert "twice" in up.run("tool", "declare", "jot", "a=data", "a=id", code=2)
    assert "Confirm the declaration" in up.run("tool", "declare", "jot", "query=data", code=2)
    up.run("tool", "declare", "jot", "query=data", "--yes")
    (row,) = json.loads(up.run("policy", "show"))["tools"]
    assert row["declared_by"] == "owner"
    check = up.run("apply", str(path), "--check")
    assert "- tool jot: " in check
    assert "notes[].zork" in check
    assert "removes what people declared on cards about jot" in check
    printed = up.run("tool", "list")
    path.write_text(f"{POLICY}\n{printed}", encoding="utf-8")
    assert "active policy" in up.run("apply", str(path))
    assert json.loads(up.run("tool", "list", "--json")) == [row]
    assert "owner declared " in up.run("audit", "tail", "--lines", "50")


def test_any_row_is_printed_so_that_a_policy_file_reads_it() -> None:
    """Quotes, escapes and characters that act on a terminal are in no way of that."""
    address = 'a"b\\c\x1b[2K\x7f\u202e.d'
    row = {"name": "jot", "agents": ["b*"], "arguments": {address: "id"}}
    printed = format_tool(row)
    assert printed.isascii()
    assert "\x1b" not in printed
    assert "\x7f" not in printed
    assert tomllib.loads(printed)["tools"] == [row]
    (read,) = read_policy(printed).tools
    assert plain(read) == row
