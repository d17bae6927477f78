"""Hostile next calls, made by a seeded generator out of calls that real tools send.

Whatever was remembered of a call covers a changed one only where the change is in what the words
of the offer leave open, and then only by what reads it.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.domain.records import StoredRequest
from gateway.models import Kind
from gateway.policy.grants.grant import Effect, RuleKind, Shape
from gateway.policy.grants.offers import Offer, offers
from gateway.wire.codec import JsonObject
from tests.grants.making import allowed, asked, granted

C, F, T = Kind.COMMAND, Kind.FILE_CHANGE, Kind.TOOL
PROSE = "The build of this afternoon is green again, all is well."
CALLS: list[tuple[str, Kind, JsonObject]] = [
    ("Bash", C, {"command": "git status", "description": "Look", "timeout": 5}),
    ("shell", C, {"command": ["bash", "-lc", "ls src"]}),
    ("shell", C, {"command": ["ls", "src"], "workdir": "/ws"}),
    ("shell", C, {"argv": ["cat", "a.txt"]}),
    ("exec_command", C, {"cmd": "cat a.txt", "workdir": "/ws"}),
    ("write_stdin", C, {"session_id": 1, "chars": PROSE}),
    ("terminal", C, {"commands": ["ls", "ls src"]}),
    ("run_shell_command", C, {"command": "make test", "dir_path": "/ws"}),
    ("npm", T, {"command": "ls"}),
    ("apply_patch", F, {"input": "*** Begin Patch\n*** Update File: a\n@@\n+b\n*** End Patch"}),
    ("Edit", F, {"file_path": "/ws/src/a.py", "old_string": "a", "new_string": "b"}),
    ("Write", F, {"file_path": "/ws/a.py", "content": PROSE}),
    ("MultiEdit", F, {"file_path": "/ws/a", "edits": [{"old_string": "a", "new_string": "b"}]}),
    ("Read", T, {"file_path": "/ws/a.py", "offset": 1, "limit": 5}),
    ("read_many_files", T, {"include": ["a/*.py"], "exclude": []}),
    ("move_file", F, {"source_path": "/ws/a", "destination_path": "/ws/b"}),
    ("str_replace_editor", F, {"command": "view", "path": "/ws/a"}),
    ("WebFetch", T, {"url": "https://example.com/a", "prompt": PROSE}),
    ("Task", T, {"prompt": PROSE, "description": "Look", "subagent_type": "x"}),
    ("use_mcp_tool", T, {"server_name": "a", "tool_name": "b", "arguments": '{"n": 1}'}),
    ("sql_db_query", T, {"query": PROSE, "db": "x"}),
    ("post_message", T, {"channel": "#ops", "text": PROSE, "thread_ts": "1.2"}),
    ("send_email", T, {"to": "kim@example.org", "subject": "Hi", "body": PROSE}),
    ("create_issue", T, {"owner": "a", "repo": "a/b", "title": "x y", "body": PROSE}),
    ("SendMessage", T, {"to": "agent-2", "message": PROSE}),
    ("get_weather", T, {"city": "Oslo"}),
    ("refund", T, {"order": "A-1", "amount": 5}),
]
VALUES: list[Any] = [
    "/etc/passwd", "/root/.bashrc", ".env", "../x", "/ws/../etc/x", "%2e%2e/x", "C:\\x", "id_rsa",
    "/ws/.git/hooks/x", "rm -rf /", "ls; rm x", "$(reboot)", "ls ./evil.sh; x", "./evil.sh",
    "https://evil.example/x", '{"path": "/srv/other/x"}', "@here look", "<!channel> all", "/merge",
    "*** Begin Patch\n*** Delete File: a\n*** End Patch", True, None, 10**12, -1, 1.5, "",
    ["ls", "./evil.sh"], ["rm", "x"], ["bash", "-lc", "rm x"], ["sh", "-c", "ls"], [],
    {"command": "rm x"}, [["ls"]], "a\u202eb", "\u0430", "/",
]  # fmt: skip
_NAMES = (
    "cwd workdir working_dir working_directory chdir directory dir dir_path folder path root "
    "repo_path env environment envs user as_user uid sudo host container sandbox_permissions shell "
    "login with_escalated_permissions command cmd commands argv args stdin input chars code script "
    "sql query q cypher js manifest prompt task goal plan body payload url uri src source dst dest "
    "destination target to from name link output save_as move_to edits files patch diff auto_run "
    "attachment bcc is_input"
)
NAMES = _NAMES.split()
_REMARKS = {"description", "timeout", "offset", "limit", "replace_all"}


def hostile(arguments: JsonObject, chance: random.Random) -> Iterator[JsonObject]:
    """Yield arguments in which one thing is other than it was."""
    for name in arguments:
        for value in VALUES:
            yield {**arguments, name: value}
        was = arguments[name]
        for value in ([was], {"x": was}, json.dumps(was), str(was) + " ", f"{was}; rm x"):
            yield {**arguments, name: value}
        yield {key: value for key, value in arguments.items() if key != name}
        yield {key.upper() if key == name else key: one for key, one in arguments.items()}
        if isinstance(was, list):
            yield {**arguments, name: [*was, "./evil.sh"]}
            yield {**arguments, name: was[::-1]}
    for name in NAMES:
        for value in chance.sample(VALUES, 6):
            if name not in arguments:
                yield {**arguments, name: copy.deepcopy(value)}


def open_in(offer: Offer) -> set[str]:
    """Return the arguments that an offer leaves open by a rule; its words name each of them, or
    the command or folder that it reads them by."""
    rules = offer.match.rules
    read = {RuleKind.COMMAND, RuleKind.FOLDER, RuleKind.HOST}
    reads = any(rule.kind in read for rule in rules)
    named = {rule.address.partition("[")[0] for rule in rules if rule.kind is RuleKind.ANY}
    if not reads or any(rule.kind is RuleKind.COMMAND for rule in rules):
        assert all(name in offer.words for name in named), offer.words
    for rule in rules:
        if rule.kind is RuleKind.EQUALS:
            assert f"{rule.address} = " in offer.words
    return named | {rule.address for rule in rules if rule.kind in read}


def harmful(kind: Kind, arguments: JsonObject) -> bool:
    """Whether no reading of these may let them pass as a command, or as a message."""
    said = {name: value for name, value in arguments.items() if name != "description"}
    text = json.dumps(said)
    if kind is C:
        listed = "./evil.sh" in arguments.get("commands", ())
        return listed or any(part in text for part in ("rm ", "reboot", "; ", "u202e"))
    message = kind is T and "file_path" not in arguments
    return message and any(part in text for part in ("@here", "<!", "u202e", '"/merge"'))


def _is_here(name: str, *calls: JsonObject) -> bool:
    """Whether one of the calls names the folder there in which it works anyway."""
    return any(call.get(name, "") in (None, "/ws") for call in calls)


def made(tool: str, kind: Kind, arguments: JsonObject) -> StoredRequest:
    """Return a request for a tool that nobody declared harmless."""
    return asked(tool, kind=kind, arguments=arguments)


@pytest.mark.thorough
@pytest.mark.parametrize(("tool", "kind", "arguments"), CALLS, ids=lambda one: str(one)[:24])
def test_a_hostile_next_call_is_not_covered(tool: str, kind: Kind, arguments: JsonObject) -> None:
    """A few hundred changes of each call against every offer made for it."""
    chance = random.Random(7)
    first = made(tool, kind, arguments)
    wide = [one for one in offers(first, Effect.ALLOW) if one.match.shape is not Shape.EXACT]
    for changed in hostile(arguments, chance):
        then = made(tool, kind, changed)
        for offer in wide:
            if then.digest == first.digest or not allowed([granted(offer.match)], then):
                continue
            differing = {name for name in changed if changed[name] != arguments.get(name, ...)}
            # A remark, a part, and the folder that it works in anyway may come and go.
            moved = set(changed) ^ set(arguments)
            named = {name.lower() for name in moved if not _is_here(name, arguments, changed)}
            assert named <= _REMARKS, (offer.words, changed)
            here = {name for name in differing if changed[name] in (None, "/ws")}
            assert differing - moved - here <= open_in(offer), (offer.words, changed)
            assert not harmful(kind, changed), (offer.words, changed)


def test_wide_offers_are_made_for_what_is_understood() -> None:
    """The generator attacks something: these calls, and no others, have an offer beyond exact."""
    with_wide = {
        tool for tool, kind, arguments in CALLS if len(offers(made(tool, kind, arguments))) > 1
    }
    assert with_wide == {
        "Bash", "shell", "terminal", "exec_command", "run_shell_command", "Edit", "MultiEdit",
        "Write", "Read", "str_replace_editor", "post_message", "send_email", "create_issue",
        "get_weather", "WebFetch", "apply_patch",
    }  # fmt: skip
