"""The table of known tools: each row can be read, says where it was read, frees what it may."""

import re
import tomllib
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import gateway.policy.calls

Row = dict[str, Any]

TABLE = Path(gateway.policy.calls.__file__).parent / "known_tools.toml"
ROWS: list[Row] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["tool"]

FREE_ROLES = {"data", "part", "remark"}
ROLES_THAT_RUN = {"command", "commands", "argv", "action", "input", "nested"}
ROLES_THAT_CHANGE_FILES = {"write", "delete", "destination", "patch", "nested"}
OTHER_ROLES = {
    *("working_folder", "read", "folder", "path", "glob", "url", "host", "environment", "user"),
    *("rights", "flag", "id", "recipient", "amount", "unknown"),
}
ROLES = FREE_ROLES | ROLES_THAT_RUN | ROLES_THAT_CHANGE_FILES | OTHER_ROLES
TYPES = {"text", "number", "boolean", "list", "object", "any"}
TYPES_OF_ROLES = {
    "command": {"text"},
    "argv": {"list"},
    "commands": {"list", "any"},
    "working_folder": {"text"},
    "data": {"text"},
    "remark": {"text", "number", "boolean"},
    "part": {"text", "number", "boolean", "list"},
}
MEMBERS = {"names", "host", "checked", "kind", "arguments"}
KINDS = {"command", "file_change", "tool"}
WORDS_OF_HARMLESS_TOOLS = ("todo", "plan", "think", "task")
ROLES_OF_HARMLESS_TOOLS = {"data", "remark", "flag", "id", "recipient"}
ADDRESS = re.compile(r"[A-Za-z0-9_-]+(\[\])?(\.[A-Za-z0-9_-]+(\[\])?)*")
SOURCE = re.compile(r".*[0-9].*, (package|source|documentation)")


def split_roles(row: Row) -> dict[str, tuple[str, str]]:
    """Return the role and the type of each address of a row."""
    return {
        address: (role, kind)
        for address, (role, kind) in (
            (a, v.removesuffix("?").split(" ")) for a, v in row["arguments"].items()
        )
    }


def list_roles(row: Row) -> set[str]:
    """Return the roles that a row names."""
    return {role for role, _ in split_roles(row).values()}


def find_rows(is_wrong: Callable[[Row], object]) -> list[str]:
    """Name the rows for which something is wrong."""
    return [f"{row['host']}: {row['names'][0]}" for row in ROWS if is_wrong(row)]


def test_table_has_the_tools_of_the_known_hosts() -> None:
    """The table is not empty, and holds the agents that our adapters serve."""
    hosts = {row["host"] for row in ROWS}
    assert {"Claude Code", "OpenAI Codex", "Gemini CLI", "OpenCode", "gptme", "PicoClaw"} <= hosts
    assert len(ROWS) >= 66


def test_rows_have_only_known_members() -> None:
    """A misspelt member would be passed over without a word."""
    assert not find_rows(lambda row: not MEMBERS <= set(row) <= MEMBERS | {"harmless"})
    assert not find_rows(lambda row: row["kind"] not in KINDS)
    assert not find_rows(lambda row: not row["host"].strip() or not row["names"])
    assert not find_rows(lambda row: any(name != name.strip() or not name for name in row["names"]))
    assert not find_rows(lambda row: row.get("harmless", True) is not True)


def test_roles_types_and_addresses_are_known() -> None:
    """Each argument has an address, one known role and one known type that fits the role."""
    for row in ROWS:
        for address, (role, kind) in split_roles(row).items():
            where = f"{row['host']}: {row['names'][0]}: {address}"
            assert ADDRESS.fullmatch(address), where
            assert role in ROLES, where
            assert kind in TYPES_OF_ROLES.get(role, TYPES), where


def test_rows_say_where_they_were_read() -> None:
    """`checked` names a version and a place, or is "no"."""
    assert not find_rows(
        lambda row: row["checked"] != "no" and not SOURCE.fullmatch(row["checked"])
    )


def test_unread_rows_free_nothing() -> None:
    """A row that nobody could read names no free value and is never harmless."""
    unread = {id(row) for row in ROWS if row["checked"] == "no"}
    assert not find_rows(lambda row: id(row) in unread and list_roles(row) & FREE_ROLES)
    assert not find_rows(lambda row: id(row) in unread and row.get("harmless"))


def test_only_lists_of_tasks_plans_and_thoughts_are_harmless() -> None:
    """Whole-tool answers exist for tools that keep a list or a thought and reach nothing."""

    def is_wrong(row: Row) -> bool:
        names = [name.lower() for name in row["names"]]
        return (
            row["kind"] != "tool"
            or not all(any(word in name for word in WORDS_OF_HARMLESS_TOOLS) for name in names)
            or not list_roles(row) <= ROLES_OF_HARMLESS_TOOLS
        )

    assert not find_rows(lambda row: row.get("harmless") and is_wrong(row))


def test_no_value_is_named_whole_and_by_its_members() -> None:
    """`edits` and `edits[].old_string` in one row would give one value two roles."""
    assert not find_rows(
        lambda row: any(
            other.startswith((address + ".", address + "[]"))
            for address in row["arguments"]
            for other in row["arguments"]
        )
    )


def test_changes_of_files_name_what_they_change() -> None:
    """A change of a file has a path that is written, or a patch that may hold paths."""
    assert not find_rows(
        lambda row: row["kind"] == "file_change" and not list_roles(row) & ROLES_THAT_CHANGE_FILES
    )


def test_nothing_beside_a_thing_that_runs_is_data() -> None:
    """Text beside a command, an action or input is never free as data."""
    assert not find_rows(
        lambda row: (
            "data" in list_roles(row)
            and (row["kind"] == "command" or list_roles(row) & ROLES_THAT_RUN)
        )
    )


def test_one_name_of_a_host_has_one_meaning() -> None:
    """Two rows of one host that share a name agree on every address that they share."""
    for one, other in combinations(ROWS, 2):
        if one["host"] == other["host"] and set(one["names"]) & set(other["names"]):
            first, second = split_roles(one), split_roles(other)
            assert first != second, one["names"]
            assert all(first[a] == second[a] for a in first.keys() & second.keys()), one["names"]


def test_no_name_stands_twice_in_a_row() -> None:
    """A row lists each name once."""
    assert not find_rows(lambda row: len(set(row["names"])) != len(row["names"]))


@pytest.mark.parametrize(
    ("host", "name", "address", "role"),
    [
        ("Claude Code", "Bash", "dangerouslyDisableSandbox", "rights"),
        ("Claude Code", "NotebookEdit", "edit_mode", "flag"),
        ("Claude Code", "SendMessage", "message", "action"),
        ("Gemini CLI", "run_shell_command", "dir_path", "working_folder"),
        ("Gemini CLI", "web_fetch", "prompt", "action"),
        ("LangChain", "terminal", "commands", "commands"),
        ("MCP desktop-commander", "read_file", "isUrl", "flag"),
        ("MCP filesystem", "edit_file", "dryRun", "flag"),
        ("MCP git", "git_commit", "repo_path", "working_folder"),
        ("MCP playwright", "browser_run_code_unsafe", "filename", "action"),
        ("OpenAI Agents SDK", "apply_patch", "move_to", "destination"),
        ("OpenAI Codex", "exec_command", "shell", "user"),
        ("OpenAI Codex", "write_stdin", "chars", "input"),
        ("OpenCode", "task", "command", "remark"),
        ("OpenHands", "str_replace_editor", "command", "flag"),
        ("OpenHands", "terminal", "is_input", "flag"),
        ("PicoClaw", "cron", "message", "action"),
        ("PicoClaw", "exec", "data", "input"),
        ("gptme", "tmux", "command", "action"),
    ],
)
def test_misleading_names_keep_their_role(host: str, name: str, address: str, role: str) -> None:
    """An argument whose name misleads keeps the role that its tool's source gives it."""
    rows = [row for row in ROWS if row["host"] == host and name in row["names"]]
    assert {split_roles(row)[address][0] for row in rows if address in row["arguments"]} == {role}
