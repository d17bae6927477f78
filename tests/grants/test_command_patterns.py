"""What a remembered command does not stretch to, each found by asking the real program."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.models import Context, Kind
from gateway.policy.grants.grant import Answer, CommandPattern, Rule, RuleKind, Shape
from gateway.policy.grants.offers import offers
from tests.grants.making import (
    allowed,
    asked,
    command,
    granted,
    handmade,
    offer_of,
    patterns_of,
    remembered,
)

# What was approved, and what must not follow from it, however wide the pattern is.
NOT_MEANT = [
    ("git push --dry-run origin main", "git push origin main"),
    ("git push origin main", "git push --tags origin main"),
    ("git fetch origin", "git fetch --depth=1 origin"),
    ("git pull --ff-only", "git pull"),
    ("git pull", "git pull --rebase"),
    ("git add -n .", "git add ."),
    ("git commit -m fix", "git commit --amend -m fix"),
    ("git add a.txt", "git add -A"),
    ("git add a.txt", "git add --all"),
    ("git add a.txt", "git add -u"),
    ("git commit -m fix", "git commit -am fix"),
    ("git commit -m fix", "git commit --all -m fix"),
    ("git commit -m fix", "git commit --allow-empty -m fix"),
    ("git log HEAD", "git log 'HEAD^' --output=x"),
    ("git log HEAD", "git log HEAD^"),
    ("git log -S a", "git log -S a -O/ws/x"),
    ("git show HEAD", "git show 'HEAD^:.env'"),
    ("git rev-list HEAD", "git rev-list --stdin"),
    ("git merge-base a b", "git merge-base a ../b"),
    ("git branch", "git branch --merged -d x"),
    ("grep x a.py", "grep -e root /etc/passwd"),
    ("grep x a.py", "grep -ne root /etc/passwd"),
    ("grep x a.py", "grep --regexp=root .env"),
    ("grep -e x a.py", "grep -f a.py b.py"),
    ("rg x a.py", "rg -e root /etc/passwd"),
    ("rg x a.py", "rg -e x --pre=./p a.py"),
    ("jq .a a.json", "jq -e env a.json"),
    ("cargo test", "cargo test -- --logfile x"),
    ("cargo test", "cargo test -- --logfile=x"),
    ("cargo test", "cargo test --nocapture"),
    ("cargo test", "cargo test -- --ignored"),
    ("cargo test", "cargo test -- --release"),
    ("cargo test -- --list", "cargo test"),
    ("npm run test", "npm run test -- --reporter=/x"),
    ("npm run test", "npm run test2"),
    ("npm run test", "npm run deploy"),
    ("pytest", "pytest --verbose --junitxml=x"),
    ("pytest", "pytest -rs -p x"),
    ("mkdir x", "mkdir node_modules/x"),
    ("touch a.md", "touch CLAUDE.md"),
    ("git add a.txt", "git add .github/workflows/ci.yml"),
    ("cat a", "cat .unknown"),
    ("cat a", "cat secrets/prod.yaml"),
    ("git checkout main", "git checkout -- main"),
    ("git checkout -b main", "git checkout main"),
    ("git restore --staged a", "git restore a"),
    ("git stash -k", "git stash"),
    ("make -n deploy", "make deploy"),
    ("make --dry-run deploy", "make deploy"),
    ("npm run build x", "npm run build -- x"),
    ("npm ci --ignore-scripts", "npm ci"),
    ("cargo test --no-run", "cargo test"),
    ("cargo build --locked", "cargo build"),
    ("cargo fmt --check", "cargo fmt"),
    ("go fmt -n .", "go fmt ."),
    ("pytest --collect-only tests", "pytest tests"),
    ("black --check src", "black src"),
    ("isort --check-only src", "isort src"),
    ("ruff format --check src", "ruff format src"),
    ("ruff check src", "ruff check --fix src"),
    ("ruff check --diff src", "ruff check src"),
    ("eslint src", "eslint --fix src"),
    ("prettier --check src", "prettier --write src"),
    ("terraform fmt -check", "terraform fmt"),
    ("tsc --noEmit", "tsc"),
    ("tsc --version", "tsc"),
    ("kubectl get secret db", "kubectl get secret db -o yaml"),
    ("grep -r x .", "grep -R x ."),
    # A program that takes more than it shows.
    ("tree -I a .", "tree -Io x M"),
    ("ruff check .", "ruff check @arguments"),
    ("mypy src", "mypy @arguments"),
    ("pytest tests", "pytest @arguments"),
    ("yarn test", "yarn test --silent"),
    # A file with secrets by another name.
    ("git show HEAD", "git show HEAD:src/.env"),
    ("git show HEAD:a", "git show HEAD:../x"),
    ("git diff HEAD", "git diff src/.env"),
    ("git blame a.py", "git blame src/id_rsa"),
    ("rg -g '*.py' x", "rg -g .env x"),
    ("rg -g '*.py' x", "rg -g '*' x"),
    ("rg -g '*.py' x", "rg -ng=id_rsa x"),
    ("rg -g '*.py' x", "rg --glob='src/**' x"),
    ("grep -r --include='*.py' x .", "grep -r --include=.env x ."),
    ("grep -r --include='*.py' x .", "grep -r --include='*.pem' x ."),
    ("cat a", "cat .env"),
    # Another program, though its flags and operands are of the same kind.
    ("cat a", "touch a"),
]


@pytest.mark.parametrize(("approved", "next_one"), NOT_MEANT)
def test_a_pattern_stays_with_what_was_approved(approved: str, next_one: str) -> None:
    """A dry run is not the run, a check is not the change, one argument is not another."""
    patterns = patterns_of(approved)
    assert patterns
    assert allowed([granted(match) for match in patterns], command(approved))
    assert not allowed([granted(match) for match in patterns], command(next_one))


def test_the_words_say_what_is_always_there() -> None:
    """An approver reads that a dry run stays one."""
    assert "always with --dry-run" in offer_of(command("git push --dry-run origin main")).words


@pytest.mark.parametrize("tool", ["powershell", "run_pwsh", "fish", "tcsh", "cmd", "cmd.exe"])
def test_other_shells_than_posix_ones_have_no_patterns(tool: str) -> None:
    """They read the same text otherwise: to cmd.exe a quoted ampersand is an operator."""
    ask: dict[str, Any] = {"kind": Kind.COMMAND, "arguments": {"command": "echo 'a & calc'"}}
    assert {offer.match.shape for offer in offers(asked(tool, **ask))} == {Shape.EXACT}
    pattern = Rule(name="command", kind=RuleKind.COMMAND, command=CommandPattern(program="echo"))
    call = asked(tool, **{**ask, "arguments": {"command": "echo"}})
    assert not allowed([granted(handmade(call, Answer.COMMAND, pattern))], call)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("python_repl", {"code": "print('a rather long program of one line')", "timeout": 5}),
        ("report", {"db": "x", "sql": "select everything from everywhere and more"}),
        ("run_tests", {"directory": "/ws/app", "command": "make test"}),
        ("start", {"folder": "/ws/app", "script": "echo it is a script, and a long one too"}),
    ],
)
def test_what_runs_is_never_free(tool: str, arguments: dict[str, Any]) -> None:
    """Neither as prose, nor beside a folder, and not in a pattern that nobody is offered either."""
    call = asked(tool, arguments=arguments)
    other = {
        **arguments,
        next(n for n in ("code", "sql", "command", "script") if n in arguments): "x",
    }
    for offer in offers(call):
        assert not allowed([granted(offer.match)], asked(tool, arguments=other)), offer.words
    rules = tuple(Rule(name=name, kind=RuleKind.ANY) for name in arguments)
    assert not allowed([granted(handmade(call, Answer.TEXT, *rules))], call)


@pytest.mark.parametrize(
    ("tool", "arguments", "changed"),
    [
        ("copy_file", {"path": "/ws/a", "destination": "/ws/b"}, {"destination": "/etc/cron.d/x"}),
        ("chmod", {"path": "/ws/a", "mode": 420}, {"mode": 511}),
        ("remove", {"path": "/ws/a", "recursive": False}, {"recursive": True}),
        ("move", {"file": "/ws/a", "directory": "/ws/b"}, {"directory": "/etc"}),
        ("fetch_to", {"path": "/ws/a", "url": "https://a.example/x"}, {"url": "https://b.example"}),
    ],
)
def test_a_folder_leaves_nothing_else_open(
    tool: str, arguments: dict[str, Any], changed: dict[str, Any]
) -> None:
    """Beside the path only content and the part of a file may differ."""
    call = asked(tool, arguments=arguments)
    grants = [granted(one.match) for one in offers(call) if one.match.shape is Shape.PATTERN]
    assert not allowed(grants, asked(tool, arguments={**arguments, **changed}))
    read = remembered(asked("read_file", arguments={"filePath": "/ws/a", "offset": 1, "limit": 5}))
    again = {"filePath": "/ws/src/b", "offset": 90, "limit": 50}
    assert allowed([read], asked("read_file", arguments=again))


@pytest.mark.parametrize("cwd", ["/root/.aws", "/ws/.git", "/home/ann/.ssh", "/srv/secrets"])
def test_where_secrets_lie_nothing_is_covered(cwd: str) -> None:
    """The name of a file says nothing there: `config` is no secret, ~/.aws/config is."""
    context = Context(cwd=cwd)
    for text in ("cat config", "ls", "rg key"):
        shapes = {offer.match.shape for offer in offers(command(text, context=context))}
        assert shapes == {Shape.EXACT}, text
    copy = Context(cwd="/home/ann/app/.claude/worktrees/fix")
    assert len(offers(command("cat config", context=copy))) > 1


def test_the_root_of_the_disk_is_no_place_to_work() -> None:
    """Below it lies everything, so no pattern with paths is offered there."""
    root = Context(cwd="/")
    for text in ("cat a", "rg x", "touch a"):
        shapes = {offer.match.shape for offer in offers(command(text, context=root))}
        assert shapes == {Shape.EXACT}, text
    assert len(offers(command("git status -s", context=Context(cwd="/ws")))) > 1


@pytest.mark.parametrize(
    "arguments",
    [{"filePath": "/root/.ssh/id_rsa"}, {"source": "/ws/.env"}, {"what": {"from": "~/.netrc"}},
     {"paths": ["/ws/a", "/ws/b"]}, {"url": "file:///root/.netrc"}],
)  # fmt: skip
def test_a_whole_tool_does_not_reach_secrets(arguments: dict[str, Any]) -> None:
    """Whatever the argument is called."""
    whole = remembered(asked("get_item", arguments={"id": 1}, harmless=True), Shape.TOOL)
    assert allowed([whole], asked("get_item", arguments={"id": 2}, harmless=True))
    assert not allowed([whole], asked("get_item", arguments=arguments, harmless=True))
