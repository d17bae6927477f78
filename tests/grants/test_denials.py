"""A denial is not escaped by spelling, and means no more than it says."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.policy_document import PolicyRule, RuleEffect
from gateway.errors import InvalidRequest
from gateway.models import Context, Kind
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.denials import denial_matches
from gateway.policy.grants.grant import (
    CommandPattern,
    Effect,
    Grant,
    Match,
    MatchResult,
    Rule,
    RuleKind,
    Shape,
)
from gateway.policy.grants.offers import offers
from gateway.policy.rules import fits
from tests.grants.making import asked, command, granted

YES, NO, UNSURE = MatchResult.YES, MatchResult.NO, MatchResult.UNSURE


def denied(*commands: str, folders: tuple[str, ...] = ()) -> PolicyRule:
    """Return a rule that denies."""
    return PolicyRule(name="no", effect=RuleEffect.DENY, commands=commands, folders=folders)


@pytest.mark.parametrize(
    ("rule", "text", "cover"),
    [
        ("rm -rf", "rm -rf x", YES),
        ("rm -rf", "/bin/rm x -fr", YES),
        ("rm -rf", "rm -Rf x", UNSURE),
        ("rm -rf", "rm --recursive --force x", UNSURE),
        ("rm -rf", "rm '-rf' x", UNSURE),
        ("rm -rf", "rm -i x", NO),
        ("rm -rf", "rm 'a b'", NO),
        ("rm -rf", "busybox rm -rf x", UNSURE),
        ("rm -rf", "runuser -u x rm -rf x", UNSURE),
        ("rm -rf", "newtool --exec='rm -rf x'", UNSURE),
        ("rm -rf", "find . -delete", UNSURE),
        ("rm -rf", "find . -name rm", NO),
        ("rm -rf", "tar xf a --to-command=x", UNSURE),
        ("rm -rf", "./deploy.sh --all", NO),
        ("rm -rf", "git log --grep=rm", NO),
        ("rm", "/bin/r[m] x", UNSURE),
        ("rm", "/usr/bin/r? x", UNSURE),
        ("rm", "r* x", UNSURE),
        ("rm", "GIT_PAGER='rm x' git log", YES),
        ("rm", "export EDITOR='rm x'; git commit", YES),
        ("rm", "env PAGER='rm x' man ls", UNSURE),
        ("rm", "PAGER=cat git log", NO),
        ("rm", "ls *.py", NO),
        ("git push --force", "git push --force", YES),
        ("git push --force", "git push origin --force main", YES),
        ("git push --force", "git push -f", UNSURE),
        ("git push --force", "git push --force-with-lease", UNSURE),
        ("git push --force", "git push origin +main", UNSURE),
        ("git push --force", "git -C x push --force", UNSURE),
        ("git push --force", "git rebase -x 'git push --force' main", UNSURE),
        ("git push --force", "git p", UNSURE),
        ("git push --force", "git push -u origin main", NO),
        ("git push --force", "git commit -m 'push it'", NO),
        ("git push --force", "git status", NO),
        ("git push origin main", "git push -u origin main", UNSURE),
        ("make deploy", "make deploy", YES),
        ("make deploy", "make -C x deploy", UNSURE),
        ("make deploy", "make test", NO),
        ("npm run deploy", "npm run deploy", YES),
        ("npm run deploy", "npm run build", NO),
        ("npm run deploy", "npm run-script deploy", UNSURE),
        ("docker run --privileged", "docker container run --privileged x", UNSURE),
        ("docker run --privileged", "docker run --privileged x", YES),
        ("docker run --privileged", "docker ps -a", NO),
    ],
)
def test_a_denied_command(rule: str, text: str, cover: MatchResult) -> None:
    """Yes where it is plainly meant, no where it is plainly not, and people for the rest."""
    assert fits(denied(rule), command(text)) is cover


@pytest.mark.parametrize(
    ("arguments", "cover"),
    [
        ({"CommandLine": "rm -rf x"}, YES),
        ({"Command": ["rm", "-rf", "x"]}, YES),
        ({"command": "ls", "cmd": "rm -rf x"}, YES),
        ({"script": "rm -rf x"}, UNSURE),
        ({"command": "ls", "stdin": "rm -rf x"}, UNSURE),
        ({"text": "rm -rf x"}, UNSURE),
        ({"text": "form a line"}, NO),
    ],
)
def test_a_denied_command_by_any_name(arguments: dict[str, Any], cover: MatchResult) -> None:
    """A command is found however its argument is spelled; what nobody reads may hold it."""
    assert fits(denied("rm -rf"), asked("thing", arguments=arguments)) is cover


def in_folder(arguments: dict[str, Any], **more: Any) -> MatchResult:
    """Return what a denial of /srv/secret says to a call."""
    return fits(denied(folders=("/srv/secret",)), asked("thing", arguments=arguments, **more))


@pytest.mark.parametrize(
    ("arguments", "cover"),
    [
        ({"path": "/srv/secret/x"}, YES),
        ({"filePath": "/srv//secret/./x/"}, YES),
        ({"path": "/SRV/Secret/x"}, YES),
        ({"paths": ["/ws/a", "/srv/secret/x"]}, YES),
        ({"path": "/srv"}, UNSURE),
        ({"path": "/"}, UNSURE),
        ({"path": "/srv/secret/../public"}, UNSURE),
        ({"path": "/proc/self/root/srv/secret/x"}, UNSURE),
        ({"path": "/proc/self/cwd/x"}, UNSURE),
        ({"path": "//srv/secret/x"}, UNSURE),
        ({"path": "/srv/secre\u0301t/x"}, UNSURE),
        ({"path": 7}, UNSURE),
        ({"source": "/srv/secret/x"}, UNSURE),
        ({"what": [{"from": "/srv/secret/a b"}]}, UNSURE),
        ({"url": "file:///srv/secret/x"}, YES),
        ({"path": "/srv/secrets"}, NO),
        ({"path": "/ws/a"}, NO),
        ({"url": "https://example.com/srv/secret"}, NO),
        ({"message": "yes/no, as you like it"}, NO),
        ({"path": "/ws/a", "content": "/srv/secret/x"}, UNSURE),
    ],
)
def test_a_denied_folder(arguments: dict[str, Any], cover: MatchResult) -> None:
    """Whatever names a path in it, or above it, or in a way that nobody can follow."""
    assert in_folder(arguments) is cover


def test_a_denied_folder_is_remembered_as_such() -> None:
    """What was denied of one file there is denied of its siblings, and of nothing elsewhere."""
    first = asked("read", arguments={"path": "/srv/secret/x"})
    (offer,) = [one for one in offers(first, Effect.DENY) if one.words.startswith("anything in")]
    denied = granted(offer.match, Effect.DENY)
    for path, cover in (("/srv/secret/y", YES), ("/srv/other/x", NO), ("/srv", UNSURE)):
        assert covers(denied, asked("read", arguments={"path": path})) is cover


@pytest.mark.parametrize(
    ("text", "cwd", "cover"),
    [
        ("cat /srv/secret/x", "/ws", YES),
        ("cat x", "/srv/secret", YES),
        ("ls", "/srv/secret/deep", YES),
        ("tool --file=/srv/secret/x", "/ws", YES),
        ("grep -r x /srv", "/ws", UNSURE),
        ("cat $SECRET", "/ws", UNSURE),
        ("python3 x.py", "/ws", UNSURE),
        ("cat x", None, UNSURE),
        ("cat a", "/ws", NO),
        ("git status", "/ws", NO),
        ("./deploy.sh --all", "/ws", NO),
    ],
)
def test_a_command_that_reaches_into_a_denied_folder(
    text: str, cwd: str | None, cover: MatchResult
) -> None:
    """Commands name paths too."""
    context = Context(cwd=cwd)
    found = in_folder({"command": text}, context=context, kind=Kind.COMMAND)
    assert found is cover


@pytest.mark.parametrize(
    ("arguments", "payload", "cover"),
    [
        ({"path": "/etc/x", "mode": "w"}, None, YES),
        ({"path": "/etc/x"}, {"mode": "w"}, YES),
        ({"hint": "tidy"}, {"path": "/etc/x", "mode": "w"}, YES),
        ({"path": "/srv/x"}, {"mode": "w"}, NO),
    ],
)
def test_a_remembered_denial_is_not_passed_by_moving_a_member(
    arguments: dict[str, Any], payload: dict[str, Any] | None, cover: MatchResult
) -> None:
    """Arguments and payload run together, so its rule looks at both."""
    rule = Rule(name="path", kind=RuleKind.FOLDER, value="/etc")
    match = Match(shape=Shape.PATTERN, tool="write", rules=(rule,))
    grant = granted(match, Effect.DENY)
    assert covers(grant, asked(tool="write", arguments=arguments, payload=payload)) is cover


def deny(shape: Shape = Shape.PATTERN, tool: str = "shell", **rule: Any) -> Grant:
    """Return a remembered denial of one rule, or of a whole tool."""
    rules = (Rule(**rule),) if rule else ()
    return granted(Match(shape=shape, tool=tool, rules=rules), Effect.DENY)


RM: dict[str, Any] = {
    "name": "command",
    "kind": RuleKind.COMMAND,
    "command": CommandPattern(program="rm"),
}
_PARALLEL = {
    "tool_uses": [{"recipient_name": "functions.shell", "parameters": {"command": "rm x"}}]
}
_MCP = {"server_name": "box", "tool_name": "shell", "arguments": '{"command": "rm x"}'}


@pytest.mark.parametrize(
    ("tool", "arguments", "cover"),
    [
        ("shell", {"commands": ["ls", "rm"]}, YES),
        ("shell", {"command": ["ls", "rm"]}, UNSURE),
        ("shell", {"COMMAND": "rm x"}, YES),
        ("shell", {"command": "rm", "args": ["x"]}, YES),
        ("shell", {"executable": "/bin/rm", "arguments": ["-rf", "/"]}, YES),
        ("shell", {"program": "env", "args": "rm -rf /"}, UNSURE),
        ("shell", {"process": {"binary": "rm", "argv": ["-rf", "/"]}}, YES),
        ("shell", {"command": ["bash", "-lc", "rm x"]}, YES),
        ("shell", {"workdir": "/etc", "command": "rm x", "env": {"A": "1"}}, YES),
        ("functions.shell", {"command": "rm x"}, YES),
        ("mcp__box__shell", {"command": "rm x"}, YES),
        ("Shell", {"command": "rm x"}, UNSURE),
        ("multi_tool_use.parallel", _PARALLEL, YES),
        ("use_mcp_tool", _MCP, YES),
        ("use_mcp_tool", {**_MCP, "arguments": "{{"}, UNSURE),
        ("use_mcp_tool", {**_MCP, "arguments": '{"command": "ls"}'}, NO),
        ("write_file", {"path": "/ws/a", "content": "rm x"}, NO),
        ("lookup", {"command": "rm x"}, NO),
    ],
)
def test_a_denied_program_behind_lists_wrappers_and_calls(
    tool: str, arguments: dict[str, Any], cover: MatchResult
) -> None:
    """Each element, each call within, each prefix of the same tool; data and other tools never."""
    assert covers(deny(**RM), asked(tool, arguments=arguments)) is cover


def test_a_denied_tool_is_denied_behind_a_dispatcher() -> None:
    """Whatever it is given, also within another call; another spelling asks."""
    grant = deny(Shape.TOOL)
    for tool, arguments in (("shell", {}), ("functions.shell", {"x": 1}), ("use_mcp_tool", _MCP)):
        assert covers(grant, asked(tool, arguments=arguments)) is YES, tool
    assert covers(grant, asked("SHELL")) is UNSURE
    assert covers(grant, asked("lookup")) is NO


def test_what_an_author_declares_frees_nothing_from_a_denial() -> None:
    """An author who calls a command data does not take it out of reach."""
    roles = {"command": "data", "note": "data"}
    record = asked("shell", arguments={"command": "rm x", "note": "rm"}, roles=roles)
    assert covers(deny(**RM), record.copy_with(trusted=True)) is YES
    record = asked("shell", arguments={"command": "ls", "note": "rm x"}, roles=roles)
    assert covers(deny(**RM), record.copy_with(trusted=True)) is UNSURE


@pytest.mark.parametrize(
    ("url", "cover"),
    [
        ("https://example.com/a", YES),
        ("https://EXAMPLE.com./b?c", YES),
        ("https://a.example.com/", UNSURE),
        ("https://you@example.com/", UNSURE),
        ("https://example.org/", NO),
    ],
)
def test_a_denied_host_is_offered_and_found(url: str, cover: MatchResult) -> None:
    """Whatever the path and the case; a name below it asks."""
    first = asked("fetch", arguments={"url": "https://example.com/x"})
    words, match = next(one for one in denial_matches(first) if "host" in one[0])
    assert words == "anything on the host example.com, by any tool"
    assert covers(granted(match, Effect.DENY), asked("fetch", arguments={"url": url})) is cover


def test_every_offer_of_a_denial_says_and_covers_the_call_it_was_made_from() -> None:
    """Each program of a list, the folder of each path, then the tool."""
    record = asked("shell", arguments={"commands": ["ls", "rm -rf build"]})
    found = dict(denial_matches(record))
    assert list(found) == [
        "ls, whatever follows, by any tool",
        "rm -f -r, whatever follows, by any tool",
        "rm, whatever follows, by any tool",
        "shell with any arguments",
    ]
    assert all(covers(granted(one, Effect.DENY), record) is YES for one in found.values())
    written = dict(
        denial_matches(asked("write_file", arguments={"path": "/ws/src/a", "content": ""}))
    )
    folder = "anything in /ws/src, by its name and by any tool; links are not followed here"
    assert folder in written


def test_a_denied_command_is_denied_by_any_tool() -> None:
    """Another tool that runs it is no way around, nor is a command among others; an approval is
    never for any tool."""
    match = dict(denial_matches(command("rm -r x")))["rm, whatever follows, by any tool"]
    grant = granted(match, Effect.DENY)
    for tool, arguments in (
        ("exec_command", {"cmd": "rm y"}), ("Bash", {"command": "ls && rm y"}),
        ("mcp__box__shell", {"command": "rm y"}),
    ):  # fmt: skip
        assert covers(grant, asked(tool, kind=Kind.COMMAND, arguments=arguments)) is YES, tool
    assert covers(grant, asked("Bash", kind=Kind.COMMAND, arguments={"command": "ls; cd x"})) is NO
    with pytest.raises(InvalidRequest):
        granted(match, Effect.ALLOW)


@pytest.mark.parametrize(
    ("arguments", "deny_fits", "allow_fits"),
    [
        ({"env": "prod-eu", "n": 3}, YES, YES),
        ({"Env": "prod-eu", "n": 3}, YES, YES),
        ({"env": "test", "n": 3}, NO, NO),
        ({"env": ["prod-eu"], "n": 3}, UNSURE, NO),
        ({"env": "prod-eu"}, NO, NO),
        ({"n": 3}, NO, NO),
    ],
)
def test_rules_look_at_named_arguments(
    arguments: dict[str, Any], deny_fits: MatchResult, allow_fits: MatchResult
) -> None:
    """By name or address, equal or with `*`; all conditions of a rule must fit."""
    wanted = {"env": "prod-*", "n": "3"}
    no = PolicyRule(name="no", effect=RuleEffect.DENY, arguments=wanted)
    assert fits(no, asked("promote", arguments=arguments)) is deny_fits
    yes = PolicyRule(name="yes", effect=RuleEffect.ALLOW, tools=("promote",), arguments=wanted)
    assert fits(yes, asked("promote", arguments=arguments)) is allow_fits


@pytest.mark.parametrize(
    ("tool", "arguments", "cover"),
    [
        ("shell", {"command": "git log"}, YES),
        ("shell", {"command": "git log", "workdir": "/ws/src"}, NO),
        ("shell", {"command": "git log", "sudo": True}, NO),
        ("shell", {"command": "git log", "user": "root"}, NO),
        ("shell", {"command": "git log", "host": "prod"}, NO),
        ("shell", {"command": ["git log", "rm x"]}, NO),
        ("write_file", {"path": "/ws/a", "content": "x"}, YES),
        ("write_file", {"path": "/ws/a", "content": "x", "target": "/etc/x"}, NO),
        ("write_file", {"directory": "/ws/docs", "filename": "../../x", "content": ""}, NO),
        ("write_file", {"path": "/ws/a", "content": "x", "sudo": True}, NO),
    ],
)
def test_an_allow_rule_holds_under_every_reading(
    tool: str, arguments: dict[str, Any], cover: MatchResult
) -> None:
    """Not as somebody else, not elsewhere, not with a second path."""
    run = PolicyRule(name="a", effect=RuleEffect.ALLOW, tools=("shell",), commands=("git log",))
    write = PolicyRule(name="b", effect=RuleEffect.ALLOW, tools=("write*",), folders=("/ws",))
    assert fits(run if tool == "shell" else write, asked(tool, arguments=arguments)) is cover


@pytest.mark.parametrize(
    ("tool", "arguments", "cover"),
    [
        ("thing", {"command": ["ls", "rm x"]}, UNSURE),
        ("use_mcp_tool", _MCP, YES),
        ("use_mcp_tool", {**_MCP, "arguments": "{{"}, UNSURE),
    ],
)
def test_a_deny_rule_holds_under_all_readings_and_within_calls(
    tool: str, arguments: dict[str, Any], cover: MatchResult
) -> None:
    """Yes under all, asks under some or where nobody looked, and looks into calls within."""
    assert fits(denied("rm"), asked(tool, arguments=arguments)) is cover
