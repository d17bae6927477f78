"""Which role each value has, and who said so."""

from typing import Any

import pytest

from gateway.models import Kind
from gateway.policy.calls.argument_roles import FREE, RoleSource, is_lookup, known_tools, looks_like
from gateway.wire.roles import Role
from tests.calls.reading import author, operator, read, roles_of

C, F, T = Kind.COMMAND, Kind.FILE_CHANGE, Kind.TOOL

BY_NAME: list[tuple[str, Kind, dict[str, Any], dict[str, str]]] = [
    ("sh_run", C, {"command": "ls", "description": "Look around"},
     {"command": "command", "description": "remark"}),
    ("sh_run", C, {"command": "ls", "timeout": 5}, {"command": "command", "timeout": "remark"}),
    ("sh_run", C, {"command": "ls", "timeout": 9**9}, {"command": "command", "timeout": "unknown"}),
    ("sh_run", C, {"command": "ls", "timeout": "x"}, {"command": "command", "timeout": "unknown"}),
    ("sh_run", C, {"command": "ls", "timeout": True}, {"command": "command", "timeout": "unknown"}),
    ("sh_run", C, {"command": "ls", "user": "root"}, {"command": "command", "user": "user"}),
    ("sh_run", C, {"command": "ls", "sudo": True}, {"command": "command", "sudo": "rights"}),
    ("sh_run", C, {"command": "ls", "env": {"A": "1"}},
     {"command": "command", "env.A": "environment"}),
    ("sh_run", C, {"command": "ls", "host": "prod"}, {"command": "command", "host": "host"}),
    ("sh_run", C, {"command": "ls", "dir_path": "a"},
     {"command": "command", "dir_path": "working_folder"}),
    ("sh_run", C, {"command": "ls", "path": "a"}, {"command": "command", "path": "working_folder"}),
    ("sh_run", C, {"command": "ls", "cwd": None}, {"command": "command", "cwd": "working_folder"}),
    ("sh_run", C, {"command": "ls", "cwd": True}, {"command": "command", "cwd": "unknown"}),
    ("run", C, {"command": "y", "is_input": "true"}, {"command": "input", "is_input": "flag"}),
    ("run", C, {"command": "y", "is_input": "false"}, {"command": "command", "is_input": "flag"}),
    ("npm", T, {"command": "ls"}, {"command": "action"}),
    ("redis", C, {"command": "echo a"}, {"command": "action"}),
    ("write_stdin", C, {"session_id": "1", "chars": "x"}, {"session_id": "id", "chars": "input"}),
    ("do_it", C, {"t": "x", "task": "tidy up"}, {"t": "unknown", "task": "action"}),
    ("db_read", T, {"q": "select 1"}, {"q": "action"}),
    ("graph", T, {"cypher": "x"}, {"cypher": "action"}),
    ("page", T, {"js": "x"}, {"js": "action"}),
    ("k8s", T, {"manifest": "x"}, {"manifest": "action"}),
    ("Taskx", T, {"prompt": "x"}, {"prompt": "action"}),
    ("keep_a_fact", T, {"fact": "x"}, {"fact": "unknown"}),
    ("http_post", T, {"url": "https://example.org/a", "body": "x"},
     {"url": "url", "body": "action"}),
    ("post_message", T, {"channel": "#ops", "text": "all is well"},
     {"channel": "recipient", "text": "data"}),
    ("post_message", T, {"channel": "#ops", "text": "/etc/passwd"},
     {"channel": "recipient", "text": "unknown"}),
    ("post_message", C, {"channel": "#ops", "text": "all is well"},
     {"channel": "recipient", "text": "unknown"}),
    ("send_mail_to", T, {"to": "kim@example.org", "subject": "hi you", "body": "a b", "bcc": "x"},
     {"to": "recipient", "subject": "data", "body": "data", "bcc": "recipient"}),
    ("write_file", F, {"path": "a", "content": "x", "line": 3},
     {"path": "write", "content": "data", "line": "part"}),
    ("write_a_file", C, {"path": "a", "content": "x"}, {"path": "path", "content": "unknown"}),
    ("write_file", F, {"path": "a", "content": ["x"]}, {"path": "write", "content[0]": "unknown"}),
    ("write_file", F, {"path": True, "content": "x"}, {"path": "unknown", "content": "data"}),
    ("write_file", F, {"path": "a", "line": "3"}, {"path": "write", "line": "unknown"}),
    ("read_a_file", T, {"path": "a", "offset": 1}, {"path": "read", "offset": "part"}),
    ("delete_file", F, {"path": "a"}, {"path": "delete"}),
    ("move_a_file", F, {"source": "a", "destination": "b"},
     {"source": "path", "destination": "destination"}),
    ("copy", F, {"src": "a", "dst": "b"}, {"src": "path", "dst": "destination"}),
    ("str_replace_based_edit_tool", F, {"command": "view", "path": "a"},
     {"command": "flag", "path": "write"}),
    ("str_replace_edit_tool", F, {"command": "rm x", "path": "a"},
     {"command": "action", "path": "write"}),
    ("apply_patch", F, {"patch": "x", "explanation": "why it is"},
     {"patch": "patch", "explanation": "remark"}),
    ("x", T, {"file_path": "a", "filePath": "b"}, {"file_path": "unknown", "filePath": "unknown"}),
    ("write_file", F, {"path": "a", "content": "x", "Content": "y"},
     {"path": "write", "content": "unknown", "Content": "unknown"}),
    ("write_file", F, {"path": "a", "x": {"content": "y"}},
     {"path": "write", "x.content": "unknown"}),
    ("write_file", F, {"path": "a", "x": {"edits": [{"new_string": "y"}]}},
     {"path": "write", "x.edits[0].new_string": "unknown"}),
    ("write_file", F, {"path": "a", "edits": [{"new_string": "y"}]},
     {"path": "write", "edits[0].new_string": "data"}),
    ("x", T, {"config_path": "a", "profile": "b", "logFile": "c", "base_url": "d"},
     {"config_path": "path", "profile": "unknown", "logFile": "destination", "base_url": "url"}),
    ("x", T, {"params": {"a": {"b": 1}}}, {"params.a.b": "action"}),
    ("x", T, {"a.b": 1, "a": {"b": 2}}, {'["a.b"]': "unknown", "a.b": "unknown"}),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "kind", "arguments", "roles"), BY_NAME)
def test_a_name_gives_a_role_as_its_tool_does(
    tool: str, kind: Kind, arguments: dict[str, Any], roles: dict[str, str]
) -> None:
    """Each value has the role that its name has in such a tool; what nobody knows is unknown."""
    assert roles_of(read(tool, arguments, kind)) == roles


def test_the_operator_says_first() -> None:
    """An operator's word outranks the table and names, and may free what a name holds."""
    found = read("db_read", {"q": "a b"}, T, "/ws", operator(q="data"))
    assert roles_of(found) == {"q": Role.DATA}
    assert found.leaves[0].source is RoleSource.OPERATOR
    found = read("Edit", {"file_path": "a", "old_string": "x"}, F, "/ws", operator(old_string="id"))
    assert roles_of(found)["old_string"] is Role.ID


@pytest.mark.parametrize("trusted", [False, True])
def test_an_author_may_always_narrow(trusted: bool) -> None:
    """What an author holds fixed is fixed, trusted or not."""
    said = author(trusted=trusted, text="action")
    found = read("post_message", {"channel": "#ops", "text": "a b"}, T, "/ws", said)
    assert roles_of(found)["text"] is Role.ACTION


def test_an_author_frees_only_where_trusted_and_no_name_holds() -> None:
    """An author frees nothing untrusted, and never what a built-in name says is the action."""
    arguments = {"fact": "a b", "q": "a b"}
    untrusted = read("x", arguments, T, "/ws", author(fact="data", q="data"))
    assert roles_of(untrusted) == {"fact": Role.UNKNOWN, "q": Role.ACTION}
    trusted = read("x", arguments, T, "/ws", author(trusted=True, fact="data", q="data"))
    assert roles_of(trusted) == {"fact": Role.DATA, "q": Role.ACTION}
    varied = read("x", {"fact": "a"}, T, "/ws", author(fact="command"))
    assert roles_of(varied) == {"fact": Role.UNKNOWN}


def test_harmless_counts_from_the_operator_the_table_and_trusted_authors() -> None:
    """A tool's own word that it is harmless counts for nothing unless it is trusted."""
    assert not read("x", {}).harmless
    assert not read("x", {}, T, "/ws", author()).harmless
    assert read("TodoWrite", {"todos": [{"content": "a"}]}).harmless
    assert not read("TodoWrite", {"todos": [{"content": "a"}], "path": "a"}).harmless


def test_the_table_speaks_only_for_calls_that_fit() -> None:
    """One more argument, or another type, and the row frees nothing; what it holds stays held."""
    edit = {"file_path": "a", "old_string": "x", "new_string": "y"}
    assert {leaf.source for leaf in read("Edit", edit, F).leaves} == {RoleSource.TABLE}
    more = read("Edit", {**edit, "mode": "x"}, F)
    assert RoleSource.TABLE not in {leaf.source for leaf in more.leaves}
    shell = read("Bash", {"command": "ls", "dangerouslyDisableSandbox": True, "new": 1}, C)
    assert roles_of(shell)["dangerouslyDisableSandbox"] is Role.RIGHTS
    listed = read("TodoWrite", {"todos": "text"})
    assert not listed.harmless and roles_of(listed) == {"todos": Role.UNKNOWN}


def test_a_payload_is_for_no_row_and_no_declaration() -> None:
    """The table says nothing of a payload, which is in the form of some other system."""
    from gateway.policy.calls.call_effects import Call, touch  # noqa: PLC0415

    found = touch(Call(tool="TodoWrite", kind=T, arguments={"todos": ["a b"]}, payload=True))
    assert roles_of(found) == {"todos[0]": Role.UNKNOWN} and not found.harmless


def test_every_row_of_the_table_is_read_as_it_is_written() -> None:
    """Each row fits a call of its own, and its values have the roles of the row."""
    assert known_tools()
    for row in known_tools():
        assert row.names and row.host and row.checked
        assert row.arguments or row.harmless
        assert not row.fits({"no such argument": 1})
        assert row.fits({})


@pytest.mark.parametrize(
    ("text", "look"),
    [("/etc/passwd", "path"), ("~/x", "path"), ("./x", "path"), ("..\\x", "path"),
     ("C:\\x", "path"),
     ("file:///x", "path"), ("a/b", "path"), (".env", "path"), ("main.py", "path"),
     ("id_rsa", "path"), ("https://x.org", "url"), ("*** Begin Patch\n", "patch"),
     ("two words", None), ("word", None), ("", None), (5, None), ("e.g. this", None)],
)  # fmt: skip
def test_a_look_tells_paths_addresses_and_patches(text: Any, look: str | None) -> None:
    """What looks like a path, an address or a patch is seen, and prose is not."""
    assert looks_like(text) == look


def test_a_command_or_a_plan_has_no_data() -> None:
    """The kind narrows: in a command and in a plan no name frees a text."""
    for kind in (C, Kind.PLAN):
        found = read("write_file", {"path": "a", "content": "x"}, kind)
        assert not {leaf.role for leaf in found.leaves} & FREE


@pytest.mark.parametrize(
    ("tool", "is_one"),
    [("get_weather", True), ("mcp__w__getWeather", True), ("lookup", False), ("weather", False),
     ("set_and_get", False), ("get_shell", False), ("get_sql", False), ("get_wetter\u202e", False),
     ("find_and_delete", False), ("check_out", False), ("checkOut", False),
     ("list_for_sale", False),
     ("get_shares", False), ("look_up_city", True), ("get_exchange_rate", True),
     ("mcp__shop__get_order", False)],
)  # fmt: skip
def test_lookups_begin_with_their_verb(tool: str, is_one: bool) -> None:
    """A look-up's first word says so, and none of its words may run anything."""
    assert is_lookup(tool) is is_one
