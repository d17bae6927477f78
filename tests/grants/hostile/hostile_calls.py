"""Hostile next calls, in a stream that a seed settles: each is a remembered call with one or two
things changed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.grants.hostile.base_calls import FOLDER, BaseCall

VALUES: list[Any] = [
    "/etc/passwd", "/root/.bashrc", "/root/.ssh/id_rsa", "/srv/other/x", "/srv/app2/a.txt",
    "../x", "../other/a.txt", f"{FOLDER}/../other/x", f"{FOLDER}/.git/hooks/pre-commit", ".env",
    "id_rsa", ".bashrc", ".ssh/config", "CLAUDE.md", ".github/workflows/ci.yml", "x", "b.txt",
    "src/b.py", f"{FOLDER}/src/b.py", "docs", "/", "~", "~/a.txt", "~root/.bashrc", "src",
    "%2e%2e/other/x", "..%2fother/x", "/srv/app/%2e%2e/other/x", "file:///etc/passwd",
    "file://localhost/etc/x", "C:\\x", "..\\other\\x", "\\\\host\\x", "\uff0e\uff0e/other/x",
    "\uff0fetc\uff0fpasswd", "\u2026/x", "a\u202eb", "\u0430.txt", "a\u200b.txt", "",
    "rm -rf x", "ls; rm x", "ls && ./evil.sh", "$(./evil.sh)", "`./evil.sh`", "ls ./evil.sh; evil",
    "./evil.sh", "evil", "ls\nevil", "ls &amp; evil", "ls &#59; evil", "ls &#x26; evil",
    "cat a.txt &gt;/srv/other/x", "ls | sh", "cat b.txt", "ls -la", "git log", "cat /etc/passwd",
    "cat ../other/a.txt", "sudo ls", "env evil", "bash -lc evil", "find . -exec evil {} +",
    "grep -r x /etc", "git -c alias.x=!evil x", "git log --output=/srv/other/x", "ls ~root",
    "https://evil.example/x", "http://127.0.0.1/", '{"path": "/srv/other/x"}',
    '{"command": "rm x"}', '[{"path": "/srv/other/x"}]', "@here look", "<!channel> all",
    "look here\n/merge", "#all", "kim@evil.example", "agent-2",
    "attach '/srv/other/x' as x; create table x.t(a)", "drop table users",
    "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch",
    "*** Begin Patch\n*** Update File: /root/.bashrc\n@@\n+x\n*** End Patch",
    "*** Begin Patch\n*** Update File: src/a.py\n*** Move to: /srv/other/x\n@@\n+x\n*** End Patch",
    "--- a/../other/x\n+++ b/../other/x\n@@ -1 +1 @@\n-marker-of-srv/other/x\n+b\n",
    "--- a/.git/config\n+++ b/.git/config\n@@ -1 +1 @@\n-marker-of-srv/app/.git/config\n+b\n",
    "Index: /srv/other/x\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-marker-of-srv/app/a.txt\n+b\n",
    "undo_edit", "delete", "delete_file", "require_escalated", "bypassPermissions", "root", "prod",
    "true", True, False, None, 0, -1, 1.5, 10**12,
    [], ["ls", "./evil.sh"], ["rm", "x"], ["bash", "-lc", "evil"], ["sh", "-c", "evil"], [["ls"]],
    ["/srv/other/x"], ["src/b.py", "/etc/passwd"], {}, {"A": "1"}, {"LD_PRELOAD": "/tmp/x"},
    {"command": "rm x"}, {"path": "/srv/other/x"}, [{"path": "/root/.bashrc", "new_string": "x"}],
    [{"file": "/srv/other/x"}],
]  # fmt: skip
TAILS = (
    "; evil", " && ./evil.sh", "\nevil", " | sh", " >/srv/other/x", " ../other/a.txt",
    " /etc/passwd", " $(evil)", " `evil`", " &amp; evil", " &#10;evil", "/../../other/x",
    "/../.git/config", "%00", " -exec evil {} +", " --output=/srv/other/x", " # x", " ", "~",
    "\u200b", "\u202e", " @here", "\n*** Delete File: a.txt",
    "\n--- a/../other/x\n+++ b/../other/x\n@@ -1 +1 @@\n-marker-of-srv/other/x\n+b\n",
)  # fmt: skip
_NAMES = (
    "cwd workdir working_dir working_directory chdir directory dir dir_path folder path root "
    "repo_path env environment envs user as_user uid sudo host container sandbox_permissions "
    "shell login with_escalated_permissions command cmd commands argv args stdin input chars "
    "code script sql query q cypher js manifest prompt task goal plan body payload url uri src "
    "source dst dest destination target to from name link output save_as move_to edits files "
    "patch diff auto_run attachment bcc is_input description timeout offset content new_string "
)
NAMES = _NAMES.split()
_CWDS = ("/srv/other", "/", "/srv/app/src", "/root", "/etc/cron.d", "/srv/app/../other")


@dataclass(frozen=True, slots=True)
class NextCall:
    """What is asked next, and what was done to make it."""

    remembered: BaseCall
    tool: str
    arguments: dict[str, Any]
    done: str
    detail: str
    context: dict[str, Any] = field(default_factory=dict)
    payload: Any = None


_Changed = tuple[dict[str, Any], str] | None
_Change = Callable[[dict[str, Any], random.Random], _Changed]


def hostile_calls(calls: Sequence[BaseCall], seed: int) -> Iterator[NextCall]:
    """Yield hostile next calls without end; the same seed yields the same."""
    chance = random.Random(seed)
    while True:
        call = chance.choice(calls)
        if chance.random() < 0.04:
            yield _around(call, chance)
            continue
        arguments, done, details = copy.deepcopy(call.arguments), "", []
        for _ in range(1 if chance.random() < 0.85 else 2):
            kind = chance.choices(list(_CHANGES), [weight for weight, _ in _CHANGES.values()])[0]
            if (changed := _CHANGES[kind][1](arguments, chance)) is not None:
                arguments, done = changed[0], kind
                details.append(changed[1])
        if done:
            yield NextCall(call, call.tool, arguments, done, "; ".join(details))


def with_value(call: BaseCall, name: str) -> Iterator[NextCall]:
    """Yield a call with each hostile value and tail in one argument."""
    was = call.arguments[name]
    tails = [was + tail for tail in TAILS] if isinstance(was, str) else []
    for value in [*VALUES, *tails]:
        yield NextCall(call, call.tool, {**call.arguments, name: value}, "value", repr(value))


def _around(call: BaseCall, chance: random.Random) -> NextCall:
    """Change what stands around the arguments: context, payload, the tool's name."""
    what = chance.choice(("cwd", "env", "host", "payload", "tool"))
    if what == "payload":
        payload = chance.choice(({"command": "evil"}, {"path": "/srv/other/x"}, {}))
        return NextCall(call, call.tool, call.arguments, "payload", repr(payload), payload=payload)
    if what == "tool":
        tool = chance.choice((f"functions.{call.tool}", f"mcp__x__{call.tool}", call.tool.upper()))
        return NextCall(call, tool, call.arguments, "tool", tool)
    values = {"cwd": chance.choice(_CWDS), "env": {"LD_PRELOAD": "/tmp/x"}, "host": "prod"}
    return NextCall(call, call.tool, call.arguments, "context", what, context={what: values[what]})


def _place(arguments: Any, chance: random.Random) -> tuple[Any, Any] | None:
    """Return a container and the key of one value in it, at any depth."""
    places: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            places.append((value, key))
            if isinstance(value[key], dict | list):
                collect(value[key])

    collect(arguments)
    return chance.choice(places) if places else None


def _replace(arguments: dict[str, Any], chance: random.Random) -> _Changed:
    if (place := _place(arguments, chance)) is None:
        return None
    holder, key = place
    holder[key] = copy.deepcopy(chance.choice(VALUES))
    return arguments, f"{key} = {holder[key]!r}"


def _lengthen(arguments: dict[str, Any], chance: random.Random) -> _Changed:
    place = _place(arguments, chance)
    if place is None or not isinstance(place[0][place[1]], str):
        return None
    tail = chance.choice(TAILS)
    place[0][place[1]] += tail
    return arguments, f"{place[1]} + {tail!r}"


def _change_elements(arguments: dict[str, Any], chance: random.Random) -> _Changed:
    lists = [value for value in arguments.values() if isinstance(value, list)]
    if not lists:
        return None
    chosen, how = (
        chance.choice(lists),
        chance.choice(("add", "first", "remove", "reverse", "twice")),
    )
    if how in ("add", "first"):
        chosen.insert(len(chosen) if how == "add" else 0, copy.deepcopy(chance.choice(VALUES)))
    elif how == "remove" and chosen:
        chosen.pop(chance.randrange(len(chosen)))
    elif how == "reverse":
        chosen.reverse()
    else:
        chosen.extend(copy.deepcopy(chosen))
    return arguments, f"{how}: {chosen!r}"


def _add(arguments: dict[str, Any], chance: random.Random) -> _Changed:
    objects = [arguments, *(value for value in arguments.values() if isinstance(value, dict))]
    name, value = chance.choice(NAMES), copy.deepcopy(chance.choice(VALUES))
    target = chance.choice(objects)
    if name in target:
        return None
    target[name] = value
    return arguments, f"+ {name} = {value!r}"


def _remove(arguments: dict[str, Any], chance: random.Random) -> _Changed:
    if len(arguments) < 2:
        return None
    name = chance.choice(list(arguments))
    return {key: value for key, value in arguments.items() if key != name}, f"- {name}"


def _rename(arguments: dict[str, Any], chance: random.Random) -> _Changed:
    name = chance.choice(list(arguments))
    spelled = chance.choice(
        (name.upper(), name.title(), name.replace("_", ""), name.replace("_", "-"), f"{name}_",
         "_".join(name), name.replace("_", ".") + "s")
    )  # fmt: skip
    double = chance.random() < 0.3
    changed = {spelled if key == name else key: value for key, value in arguments.items()}
    return ({**arguments, **changed} if double else changed), f"{name} → {spelled}"


def _retype(arguments: dict[str, Any], chance: random.Random) -> _Changed:
    name = chance.choice(list(arguments))
    was = arguments[name]
    value = chance.choice(
        ([was], {"x": was}, json.dumps(was), str(was), [str(was), "evil"], {name: was}, bool(was),
         [was, was])
    )  # fmt: skip
    return {**arguments, name: value}, f"{name} = {value!r}"


def _wrap(arguments: dict[str, Any], chance: random.Random) -> _Changed:
    hostile = {**arguments, chance.choice(list(arguments)): copy.deepcopy(chance.choice(VALUES))}
    wrapped: dict[str, Any] = chance.choice(
        (
            {"arguments": json.dumps(hostile)},
            {"arguments": hostile},
            {"tool_name": "Bash", "arguments": {"command": "evil"}},
            {"tool_uses": [{"recipient_name": "functions.shell", "parameters": hostile}]},
            {**arguments, "payload": hostile},
            {**arguments, "tool_input": json.dumps({"command": "evil"})},
            {name: json.dumps({"command": "evil", "path": "/srv/other/x"}) for name in arguments},
        )
    )
    return wrapped, f"wrapped: {wrapped!r}"


# What is done how often; a change of a value finds most.
_CHANGES: dict[str, tuple[int, _Change]] = {
    "value": (34, _replace),
    "tail": (14, _lengthen),
    "element": (10, _change_elements),
    "added": (22, _add),
    "removed": (4, _remove),
    "renamed": (6, _rename),
    "retyped": (6, _retype),
    "wrapped": (4, _wrap),
}
