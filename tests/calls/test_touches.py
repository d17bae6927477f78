"""What a call runs, reads, writes and reaches, and why it is not wholly understood."""

import json
from typing import Any

import pytest

from gateway.models import Context, Kind
from gateway.policy.calls.argument_roles import RoleSource
from gateway.policy.calls.call_arguments import MAX_LEAVES, Declaration
from gateway.policy.calls.call_effects import Call, CallEffects, UncertaintyKind, touch
from gateway.policy.calls.code_effects import files_of_patch
from gateway.policy.calls.paths import PathEffect
from gateway.wire.roles import Role
from tests.calls.reading import kinds_of_doubts, operator, read, roles_of

C, F, T = Kind.COMMAND, Kind.FILE_CHANGE, Kind.TOOL


def _words(effects: CallEffects) -> list[list[str] | None]:
    return [
        None if one.words is None else [word.text for word in one.words] for one in effects.programs
    ]


# ---------------------------------------------------------------- base


@pytest.mark.parametrize(
    ("argument", "base"),
    [("/srv/other", "/srv/other"), ("src", "/ws/src"), ("./src/", "/ws/src"), (None, "/ws"),
     ("/", "/"), ("..", None), ("/ws/../x", None), ("~/.ssh", None), ("~", None), ("", None),
     ("C:\\x", None), ("a\\b", None), ("//host/x", None), ("%2e%2e", None), ("$HOME", None),
     ("/proc/self/cwd", None), ("\uff0e\uff0e/x", None)],
)  # fmt: skip
def test_the_base_is_where_it_runs(argument: str | None, base: str | None) -> None:
    """The folder that an argument names is resolved by components, or nobody knows it."""
    found = read("shell", {"command": "cat a", "cwd": argument}, C)
    assert found.base == base
    assert (UncertaintyKind.BASE in kinds_of_doubts(found)) == (base is None)
    assert found.programs[0].base == base


@pytest.mark.parametrize(
    "arguments",
    [{"cwd": True}, {"cwd": []}, {"cwd": ["/a"]}, {"cwd": 1}, {"cwd": "/a", "Cwd": "/a"}],
)
def test_a_folder_that_is_no_text_is_a_doubt(arguments: dict[str, Any]) -> None:
    """Whatever else stands under the name of the working folder: nobody knows where it runs."""
    found = read("shell", {"command": "ls", **arguments}, C)
    assert found.base is None and UncertaintyKind.BASE in kinds_of_doubts(found)


def test_two_folders_or_a_relative_one_of_nowhere_are_a_doubt() -> None:
    """With two working folders, or a relative one and no context, the base is not known."""
    two = read("shell", {"command": "ls", "cwd": "a", "workdir": "a"}, C)
    assert two.base is None and UncertaintyKind.BASE in kinds_of_doubts(two)
    nowhere = read("shell", {"command": "ls", "cwd": "a"}, C, None)
    assert nowhere.base is None and UncertaintyKind.BASE in kinds_of_doubts(nowhere)
    plain = read("shell", {"command": "ls"}, C, None)
    assert plain.base is None and not plain.uncertainties


# ---------------------------------------------------------------- commands


def test_a_list_of_commands_is_each_of_them() -> None:
    """Rows 1 and 2: under `commands` each element is a command of its own."""
    assert _words(read("terminal", {"commands": ["ls", "./evil.sh"]}, C)) == [["ls"], ["./evil.sh"]]
    assert _words(read("terminal", {"commands": "ls src"}, C)) == [["ls", "src"]]


def test_a_list_of_no_known_meaning_is_kept_in_all_readings() -> None:
    """Row 3: one command with its words, or several commands; and a doubt."""
    found = read("run", {"command": ["cat", "a"]}, C)
    ways = [[one.words for one in way.programs] for way in found.readings[0].ways]
    assert found.programs == () and [len(way) for way in ways] == [1, 2]
    assert UncertaintyKind.COMMAND in kinds_of_doubts(found)


def test_a_text_where_a_list_of_words_belongs_is_a_doubt() -> None:
    """Nobody knows whether a shell reads it, or whether it is one word."""
    found = read("shell", {"argv": "ls -la"}, C)
    assert UncertaintyKind.COMMAND in kinds_of_doubts(found)
    assert [one.reading for one in found.programs] == [None]


def test_a_wrapper_is_read_and_said() -> None:
    """Rows 4 and 5: `bash -lc` wraps the command; another shell or order is no wrapper."""
    found = read("shell", {"command": ["bash", "-lc", "git status"]}, C)
    assert _words(found) == [["git", "status"]] and found.programs[0].wrapper == ("bash", "-lc")
    other = read("shell", {"command": ["sh", "-c", "git status"]}, C)
    assert all(one.wrapper == () and one.reading is None for one in other.all_programs())


def test_the_words_of_one_program_are_read_under_argv() -> None:
    """Row 6: `argv` is one program; a word that needs quoting has no reading."""
    found = read("shell", {"argv": ["ls", "-la"]}, C)
    assert _words(found) == [["ls", "-la"]] and found.programs[0].reading is not None
    assert read("shell", {"argv": ["ls", "a b"]}, C).programs[0].reading is None
    assert read("shell", {"argv": "ls -la"}, C).programs[0].words is None


def test_a_command_of_no_shell_is_the_action() -> None:
    """Row 16: it is read for denials, in some readings only, and varies for nobody."""
    found = read("npm", {"command": "rm x"}, T)
    assert found.programs == () and roles_of(found) == {"command": Role.ACTION}
    assert [one.proven for one in found.all_programs()] == [False, False]
    assert [one.proven for one in read("redis", {"command": "rm x"}, C).programs] == [False]


def test_a_command_of_a_declared_argument_is_read() -> None:
    """An operator who says that an argument is a command has it read, with what stands beside."""
    found = read("deploy", {"run_it": "ls", "dir": "a"}, T, "/ws", operator(run_it="command"))
    assert _words(found) == [["ls"]] and found.base == "/ws/a"


@pytest.mark.parametrize(
    ("command", "paths"),
    [("cat a b", {"a": "read", "b": "read"}), ("mkdir x", {"x": "write"}),
     ("ls src", {"src": "list"}),
     ("rm -rf build", {"build": "delete"}), ("mv a b", {"a": "write", "b": "write"}),
     ("echo a", {}), ("cat a; rm b", {})],
)  # fmt: skip
def test_operands_are_paths(command: str, paths: dict[str, str]) -> None:
    """What a command that is read does to its operands is among the paths."""
    found = read("bash", {"command": command}, C)
    assert {one.text: one.effect.value for one in found.paths} == paths


# ---------------------------------------------------------------- paths and patches


@pytest.mark.parametrize(
    ("path", "parts"),
    [("a.py", ("ws", "a.py")), ("/ws/src/a", ("ws", "src", "a")), ("file:///ws/a", ("ws", "a")),
     ("file://localhost/a", ("a",)), ("file://host/a", None), ("file:a", None),
     ("/ws/../a", None), ("%2e%2e/a", None), ("..%2fa", None), ("a\\b", None), ("~bob/a", None),
     ("C:/a", None), ("//host/a", None), ("\uff0e\uff0e/a", None), ("\u2026/a", None),
     ("$X/a", None),
     ("`x`", None), ("", None)],
)  # fmt: skip
def test_a_path_is_resolved_or_a_doubt(path: str, parts: tuple[str, ...] | None) -> None:
    """A path has components where every reader finds the same, and else there is a doubt."""
    found = read("write_file", {"path": path, "content": "x"}, F)
    assert found.paths[0].parts == parts
    assert (UncertaintyKind.PATH in kinds_of_doubts(found)) == (parts is None)


def test_a_folder_and_a_name_are_also_one_path() -> None:
    """Row 32: joined, they may be delicate though neither is."""
    found = read("writer", {"directory": ".config/gh", "filename": "hosts.yml"}, F)
    assert "/ws/.config/gh/hosts.yml" in {one.absolute for one in found.all_paths()}


def test_second_paths_are_paths() -> None:
    """Row 31: where it is moved to is written, and is said to be the second."""
    found = read("move_file", {"source": "a", "destination": ".bashrc"}, F)
    second = next(one for one in found.paths if one.second)
    assert second.text == ".bashrc" and second.delicate and second.effect is PathEffect.WRITE


@pytest.mark.parametrize(
    ("verb", "effect"),
    [("update_file", "write"), ("delete_file", "delete"), ("symlink", "unknown"),
     ("format", "write"),
     ("rm", "delete")],
)  # fmt: skip
def test_a_verb_beside_a_path_says_what_is_done(verb: str, effect: str) -> None:
    """Rows 19 and 20: `type: delete_file` makes the same path one that is deleted."""
    found = read("apply_patch", {"type": verb, "path": "a/x", "diff": "@@\n-a\n+b"}, F)
    assert {one.text: one.effect.value for one in found.paths} == {"a/x": effect}
    assert not found.uncertainties


@pytest.mark.parametrize(
    ("patch", "understood"),
    [("*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch", True),
     ("*** Begin Patch\n*** Delete File: a\n*** End Patch", False),
     ("*** Begin Patch\n*** Update File: a\n@@\n-x\n*** End Patch\nrm -rf x", False),
     ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", True), ("Index: x\n--- a/x\n+++ b/x\n", False),
     ("@@\n-a\n+b", True), ("text", False)],
)  # fmt: skip
def test_a_patch_is_understood_whole_or_not_at_all(patch: str, understood: bool) -> None:
    """Row 18: what is not wholly understood is a doubt; files that it could name are paths."""
    found = read("apply_patch", {"patch": patch}, F)
    assert (UncertaintyKind.PATCH in kinds_of_doubts(found)) != understood


def test_keys_that_name_files_are_paths() -> None:
    """Changes by path: each key is a path, and the values keep their roles."""
    found = read("apply_changes", {"changes": {"/root/.bashrc": {"content": "x"}}}, F)
    assert "/root/.bashrc" in {one.text for one in found.paths}


def test_what_only_looks_like_a_path_is_seen() -> None:
    """A bare delicate name under any name, and JSON in a text, are among all paths; data is not."""
    found = read("x", {"note": "id_rsa", "j": json.dumps({"path": "/etc/shadow"})})
    delicate = {one.text for one in found.all_paths() if one.delicate}
    assert delicate == {"id_rsa", "/etc/shadow"}
    data = read("write_file", {"path": "a", "content": "/etc/shadow"}, F)
    assert {one.text for one in data.all_paths()} == {"a"}


# ---------------------------------------------------------------- hosts, rights, environment


@pytest.mark.parametrize(
    ("url", "doubtful"),
    [("https://example.org/a", False), ("https://u@example.org/", True), ("https://1.2.3.4/", True),
     ("http://localhost/", True), ("https://x.internal/", True),
     ("https://example.org:8443/", True),
     ("https://[::1]/", True), ("https://a b/", True), ("nonsense", True), ("https://[", True)],
)  # fmt: skip
def test_a_url_says_its_host_or_is_a_doubt(url: str, doubtful: bool) -> None:
    """Userinfo, odd ports, numbers and private names are doubts."""
    found = read("fetch", {"url": url})
    assert (UncertaintyKind.URL in kinds_of_doubts(found)) == doubtful


def test_hosts_are_those_of_arguments_addresses_and_context() -> None:
    """Row 12: all hosts are said, also one that stands within a prompt."""
    context = Context(cwd="/ws", host="here")
    arguments = {"host": "prod", "prompt": "get https://example.org/a now"}
    found = touch(Call(tool="x", kind=T, arguments=arguments, context=context))
    assert found.hosts == ("here", "prod", "example.org")


@pytest.mark.parametrize("given", [[False], [False, False], [None], {"a": False}, [[]], "yes"])
def test_whatever_stands_in_a_list_of_rights_counts(given: object) -> None:
    """A list that holds a no is no no: to a host that asks whether it is empty it is a yes."""
    assert read("shell", {"command": "ls", "sudo": given}, C).rights


@pytest.mark.parametrize("given", [False, None, "", "false", 0])
def test_a_plain_no_gives_no_rights(given: object) -> None:
    """What a host sends for "not wanted" is not taken for a wish."""
    assert not read("shell", {"command": "ls", "sudo": given}, C).rights


def test_rights_and_environment_count_where_they_are_given() -> None:
    """Rows 10, 11 and 13: an empty environment and a right not taken are nothing."""
    given = read("shell", {"command": "ls", "env": {"A": "1"}, "sudo": True, "user": "root"}, C)
    assert given.environment and given.rights and given.users
    none = read("shell", {"command": "ls", "env": {}, "sudo": False}, C)
    assert not none.environment and not none.rights


# ---------------------------------------------------------------- calls within calls


@pytest.mark.parametrize(
    ("tool", "arguments", "names"),
    [("use_mcp_tool", {"server_name": "sh", "tool_name": "run", "arguments": '{"command":"rm x"}'},
      ("run", "mcp__sh__run")),
     ("call_tool", {"name": "bash", "arguments": {"command": "rm x"}}, ("bash",)),
     ("multi_tool_use.parallel",
      {"tool_uses": [{"recipient_name": "functions.bash", "parameters": {"command": "rm x"}}]},
      ("functions.bash", "bash"))],
)  # fmt: skip
def test_a_call_within_a_call_is_read(
    tool: str, arguments: dict[str, Any], names: tuple[str, ...]
) -> None:
    """Rows 22 and 40: its tool by all its names, and its command; all its values are fixed."""
    found = read(tool, arguments)
    assert found.nested[0].names == names
    assert [one.text for one in found.all_programs() if one.words] == ["rm x"]
    assert Role.NESTED in roles_of(found).values()


def test_calls_within_calls_end_at_four() -> None:
    """Deeper ones are a doubt of the outermost call."""
    call: dict[str, Any] = {"tool_name": "bash", "arguments": {"command": "rm x"}}
    for _ in range(6):
        call = {"tool_name": "t", "arguments": call}
    found = read("t", call)
    assert UncertaintyKind.LIMIT in kinds_of_doubts(found)
    assert len(list(found.everything())) == 5


def test_json_that_says_a_name_twice_is_a_doubt() -> None:
    """Readers differ on which of two values counts."""
    found = read("use_mcp_tool", {"tool_name": "t", "arguments": '{"a":1,"a":2}'})
    assert UncertaintyKind.TWINS in kinds_of_doubts(found)


# ---------------------------------------------------------------- limits


def test_limits_are_doubts_and_never_free() -> None:
    """What is too deep, too much or too long is unknown, and there is a doubt."""
    deep: dict[str, Any] = {"content": "x"}
    for _ in range(20):
        deep = {"edits": [deep]}
    for arguments in (
        {"path": "a", **deep},
        {"path": "a", "edits": [{"old_string": "x"}] * 600},
        {"path": "a", "x": "y" * 70_000},
        {f"k{at}": 1 for at in range(600)},
        {"k" * 300: "x"},
    ):
        found = read("write_file", arguments, F)
        assert UncertaintyKind.LIMIT in kinds_of_doubts(found)
        cut = [leaf for leaf in found.leaves if not leaf.read]
        assert cut and {leaf.role for leaf in cut} == {Role.UNKNOWN}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("apply_patch", {"patch": "x\n" + "+++ b/f\n" * 600}),
     ("x", {"note": "diff --git a/a b/b\n" + "+++ b/f\n" * 600}),
     ("x", {"note": " ".join(f"https://x{at}.org/" for at in range(65))}),
     ("x", {"a_path": "a", **{f"p{at}_path": "b" for at in range(9)}})],
)  # fmt: skip
def test_what_is_not_read_to_its_end_is_a_doubt(tool: str, arguments: dict[str, Any]) -> None:
    """More files, addresses or paths side by side than are read are never passed over silently."""
    assert UncertaintyKind.LIMIT in kinds_of_doubts(read(tool, arguments, F))


def test_as_much_as_is_read_is_no_doubt() -> None:
    """The limits themselves are no doubts."""
    urls = " ".join(f"https://x{at}.org/" for at in range(64))
    paths = {f"p{at}_path": "b" for at in range(8)}
    assert UncertaintyKind.LIMIT not in kinds_of_doubts(read("x", {"note": urls, **paths}, F))


def test_data_may_be_long() -> None:
    """What is only kept need not be read."""
    found = read("write_file", {"path": "a", "content": "x" * 1_000_000}, F)
    assert not found.uncertainties and roles_of(found)["content"] is Role.DATA


# ---------------------------------------------------------------- for whoever asks


def test_texts_to_look_through_hold_no_data() -> None:
    """A message that tells of a command is not one; what nobody knows is looked through."""
    found = read(
        "send_mail_to", {"to": "kim@example.org", "body": "never rm -rf it", "x": "rm -rf y"}
    )
    assert [text for _, text in found.texts_to_look_through()] == ["kim@example.org", "rm -rf y"]


def test_the_fingerprint_follows_declarations_and_rows() -> None:
    """It is another one with another declaration, and none where nobody declared anything."""
    assert read("x", {}).fingerprint == ""
    one, two = operator(a="data"), operator(a="id")
    prints = {read("x", {}, T, "/ws", said).fingerprint for said in (one, two)}
    prints.add(read("Bash", {"command": "ls"}, C).fingerprint)
    assert len(prints) == 3 and "" not in prints


@pytest.mark.parametrize("name", ["mode", "Mode", "m_o_d_e"])
def test_what_the_table_holds_it_holds_in_any_spelling(name: str) -> None:
    """A row that does not fit narrows all the same, however the words of a name are joined."""
    assert read("new_task", {name: "architect", "message": "go on"}, T).rights


# ---------------------------------------------------------------- what single hosts send


def test_patches_in_a_text_are_read_as_the_files_that_they_change() -> None:
    """gptme's `patch_many` gives several paths in one text: each is written, none is left out."""
    block = "<<<<<<< ORIGINAL\na\n=======\nb\n>>>>>>> UPDATED"
    patches = [{"path": "a.py", "patch": block}, {"path": "/srv/x", "patch": block}]
    found = read("patch_many", {"patches": json.dumps(patches)}, F)
    written = {(one.text, one.effect) for one in found.all_paths()}
    assert written == {("a.py", PathEffect.WRITE), ("/srv/x", PathEffect.WRITE)}
    assert not [uncertainty for one in found.everything() for uncertainty in one.uncertainties
                if uncertainty.kind is UncertaintyKind.PATCH]  # fmt: skip


@pytest.mark.parametrize("block", ["<<<<<<< ORIGINAL\na\n=======\nb\n>>>>>>> REPLACE",
                                   "<<<<<<< ORIGINAL\na\n=======\nb"])  # fmt: skip
def test_blocks_that_end_otherwise_are_a_doubt(block: str) -> None:
    """A block that begins as one host's ends as that host's, or it is not understood."""
    found = read("patch", {"path": "a.py", "patch": block}, F)
    assert UncertaintyKind.PATCH in kinds_of_doubts(found)


@pytest.mark.parametrize(
    ("tool", "kind", "arguments", "optional"),
    [
        ("editor", F, {"path": "a.py", "new_text": "x"}, ("old_text", "insert_line")),
        ("execute_command", C, {"command": "ls", "timeout": 5}, ("cwd",)),
        ("execute_command", C, {"command": "ls", "cwd": "src"}, ("timeout",)),
    ],
)
def test_null_is_no_value_where_the_host_says_so(
    tool: str, kind: Kind, arguments: dict[str, Any], optional: tuple[str, ...]
) -> None:
    """Cline and Roo send null for what they leave out: the call is the same as without it."""
    without = read(tool, arguments, kind)
    with_null = read(tool, {**arguments, **dict.fromkeys(optional)}, kind)
    assert with_null.leaves == without.leaves and with_null.base == without.base


def test_null_stays_a_value_where_another_host_may_have_sent_it() -> None:
    """Another host's tool of the same name fits too, and nobody read what null is to it."""
    found = read("execute_command", {"command": "ls", "timeout": None}, C)
    assert "timeout" in [one.place for one in found.leaves]


def test_a_list_where_a_text_belongs_is_a_doubt() -> None:
    """What its host does with a list of texts for people is not known."""
    found = read("post_message", {"channel": "#ops", "text": ["a b", "c d"]}, T)
    assert roles_of(found)["text[0]"] is Role.UNKNOWN
    assert UncertaintyKind.CONTAINER in kinds_of_doubts(found)


def test_no_declaration_lifts_rights_or_the_environment() -> None:
    """Neither of the whole nor of a part of it, whoever declares it."""
    arguments = {"command": "ls", "sudo": True, "env": {"A": "1"}}
    said = operator(**{"sudo": "flag", "env": "data", "env.A": "data"})
    roles = roles_of(read("Bash", arguments, C, "/ws", said))
    assert (roles["sudo"], roles["env.A"]) == (Role.RIGHTS, Role.ENVIRONMENT)


@pytest.mark.parametrize("trusted", [True, False])
def test_harmless_is_what_a_trusted_author_says(trusted: bool) -> None:
    """An operator's word counts, and that of an author whom an operator trusts."""
    word = Declaration(by=RoleSource.AUTHOR, roles={}, harmless=True, trusted=trusted)
    assert read("lookup", {"id": 1}, T, "/ws", word).harmless is trusted


def test_a_list_of_more_values_than_are_read_is_a_doubt() -> None:
    """It is one value, of which nobody knows what it is."""
    found = read("lookup", {"ids": list(range(MAX_LEAVES + 1))}, T)
    assert roles_of(found) == {"ids": Role.UNKNOWN}
    assert UncertaintyKind.LIMIT in kinds_of_doubts(found)


@pytest.mark.parametrize(
    "text",
    [
        "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
        "*** Begin Patch\n*** Update File: a\nrm -rf /\n*** End Patch",
        "*** Begin Patch\n@@\n+a\n*** End Patch",
    ],
)
def test_a_patch_that_deletes_or_holds_another_line_is_not_understood(text: str) -> None:
    """Every line of it has to be one of a patch that creates or changes a file."""
    assert files_of_patch("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
    assert files_of_patch(text) is None


def test_null_of_an_unknown_argument_stays_unknown() -> None:
    """What is in no row stays a value, and fixed."""
    found = read("editor", {"path": "a.py", "new_text": "x", "force": None}, F)
    assert roles_of(found)["force"] is Role.UNKNOWN


def test_a_program_and_its_words_in_an_object_are_one_command() -> None:
    """Cline's `commands` may be objects: what each runs is known, and none of it is left open."""
    commands = [{"command": "git", "args": ["push", "origin"]}, {"command": "ls -la"}]
    found = read("run_commands", {"commands": commands}, C)
    texts = {" ".join(word.text for word in one.words or ()) for one in found.all_programs()}
    assert {"git push origin", "ls -la"} <= texts
    assert UncertaintyKind.CONTAINER in kinds_of_doubts(found)
