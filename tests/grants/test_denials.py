"""A denial is not escaped by spelling, and means no more than it says."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.policy_document import PolicyRule, RuleEffect
from gateway.models import Context, Kind
from gateway.policy.allow_deny_rules import fits
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import Effect, Match, MatchResult, Rule, RuleKind, Shape
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
        ({"text": "rm -rf x"}, NO),
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
        ({"url": "file:///srv/secret/x"}, UNSURE),
        ({"path": "/srv/secrets"}, NO),
        ({"path": "/ws/a"}, NO),
        ({"url": "https://example.com/srv/secret"}, NO),
        ({"message": "yes/no, as you like it"}, NO),
        ({"path": "/ws/a", "content": "/srv/secret/x"}, NO),
    ],
)
def test_a_denied_folder(arguments: dict[str, Any], cover: MatchResult) -> None:
    """Whatever names a path in it, or above it, or in a way that nobody can follow."""
    assert in_folder(arguments) is cover


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
        ({"path": "/etc/x"}, {"mode": "r"}, NO),
        ({"path": "/srv/x"}, {"mode": "w"}, NO),
    ],
)
def test_a_remembered_denial_is_not_passed_by_moving_a_member(
    arguments: dict[str, Any], payload: dict[str, Any] | None, cover: MatchResult
) -> None:
    """Arguments and payload run together, so its rules look at both."""
    rules = (
        Rule(name="path", kind=RuleKind.FOLDER, value="/etc"),
        Rule(name="mode", kind=RuleKind.EQUALS, value="w"),
    )
    match = Match(shape=Shape.PATTERN, tool="write", rules=rules)
    grant = granted(match, Effect.DENY)
    assert covers(grant, asked(tool="write", arguments=arguments, payload=payload)) is cover
