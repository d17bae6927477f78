"""`gateway hook HOST`: a host's tool runs after an approval, and after nothing else."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gateway.cli
import gateway.client
import gateway.integrations.__main__
from gateway.client import hook_request
from gateway.integrations.coding_agents import hook as hook_process
from gateway.integrations.coding_agents import hook as occurrences
from gateway.integrations.coding_agents.hook import BLOCKED
from gateway.models import Action, HostRule, Reason, Status
from gateway.wire.codec import JsonObject
from tests.client.approving import PENDING, SIGNER, deciding
from tests.client.scripted import Script, answer, scripted
from tests.signals import handlers_kept

CLAUDE = {
    "session_id": "s-1",
    "cwd": "/srv/app",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "rm x", "timeout": 5},
    "tool_use_id": "toolu_01Xk9vTq4rN7",
}
REQUEST = {**CLAUDE, "hook_event_name": "PermissionRequest", "tool_use_id": None}
CALLS: dict[str, JsonObject] = {
    "claude-code": CLAUDE,
    "codex": {**CLAUDE, "turn_id": "t-1"},
    "gemini": {**CLAUDE, "hook_event_name": "BeforeTool", "tool_name": "run_shell_command"},
    "cursor": {
        "conversation_id": "s-1",
        "generation_id": "t-1",
        "hook_event_name": "preToolUse",
        "workspace_roots": ["/srv/app"],
        "tool_name": "Shell",
        "tool_input": {"command": "rm x", "timeout": 5},
        "tool_use_id": "call_3fQz81LmW0",
    },
    "copilot": {
        "sessionId": "s-1",
        "timestamp": 1,
        "cwd": "/srv/app",
        "toolName": "bash",
        "toolArgs": '{"command": "rm x", "timeout": 5}',
    },
}
HOSTS = sorted(CALLS)
EDITED = {"command": "rm y", "timeout": 5}
Ran = tuple[int, Any, str]


class Hook:
    """Runs the command in this process, against scripted answers."""

    def __init__(self, patch: pytest.MonkeyPatch, read: Callable[[], Any]) -> None:
        self._patch, self._read = patch, read
        self.calls: list[bytes] = []

    def __call__(
        self, host: str, *answers: Script, given: Any = None, words: tuple[str, ...] = ()
    ) -> Ran:
        """Return the exit code, the JSON that it printed, and what it said."""
        raw = given if isinstance(given, bytes) else json.dumps(given or CALLS[host]).encode()
        self._patch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(raw)))
        with scripted(*answers) as server:
            self._patch.setenv("GATEWAY_URL", server.url)
            code = hook_process.main(("hook", host, *words))
            self.calls = server.calls
        said = self._read()
        return code, json.loads(said.out) if said.out else None, said.err

    @property
    def asked(self) -> JsonObject:
        """The request that was submitted first."""
        body: JsonObject = json.loads(self.calls[0].partition(b"\r\n\r\n")[2])
        request: JsonObject = body["request"]
        return request


@pytest.fixture
def hook(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Hook]:
    """Return what runs the hook of a host."""
    monkeypatch.setenv("GATEWAY_TOKEN", "token")
    monkeypatch.setenv("GATEWAY_PUBLIC_KEY", SIGNER.public_key)
    monkeypatch.setenv("GATEWAY_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("GATEWAY_CONNECT_TIMEOUT", "10")
    monkeypatch.setattr(hook_request, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(hook_request, "_GRACE_SECONDS", 0.05)
    monkeypatch.setattr(hook_process, "_CLOSE_SECONDS", 0.05)
    with handlers_kept():
        yield Hook(monkeypatch, capsys.readouterr)


def blocked(host: str, ran: Ran) -> str:
    """Return the reason of a refusal, which it must be in the host's own form."""
    code, out, err = ran
    if host == "copilot":  # a decision on standard output is its only refusal
        assert (code, out["permissionDecision"]) == (0, "deny")
        return str(out["permissionDecisionReason"])
    assert code == BLOCKED
    if host == "cursor" and out is not None:
        assert out["permission"] == "deny"
    else:
        assert out is None
    assert err
    return err


def allowed(host: str, ran: Ran) -> Any:
    """Return the input that runs instead, of an approval in the host's own form."""
    code, out, err = ran
    assert (code, err) == (0, "")
    if host == "codex" and out is None:  # which takes an `allow` without a change for a mistake
        return None
    if host in ("claude-code", "codex"):
        told = out["hookSpecificOutput"]
        assert (told["hookEventName"], told["permissionDecision"]) == ("PreToolUse", "allow")
        return told.get("updatedInput")
    if host == "gemini":
        assert out["decision"] == "allow"
        return out.get("hookSpecificOutput", {}).get("tool_input")
    if host == "cursor":
        assert out["permission"] == "allow"
        return out.get("updated_input")
    assert out["permissionDecision"] == "allow"
    return out.get("modifiedArgs")


@pytest.mark.parametrize("host", HOSTS)
def test_an_approval_is_told_in_the_hosts_words(hook: Hook, host: str) -> None:
    """What is asked is the host's own call, in its folder, for less time than the host waits."""
    assert allowed(host, hook(host, deciding())) is None
    request = hook.asked
    assert request["arguments"] == {"command": "rm x", "timeout": 5}
    assert (request["session"], request["kind"]) == ("s-1", "command")
    assert request["context"]["cwd"] == "/srv/app"
    assert request["origin"]["framework"] == host
    assert request["call_id"]
    assert 0 < request["timeout"] <= hook_process.dialect_of(host).timeout


@pytest.mark.parametrize("host", HOSTS)
def test_a_mark_at_the_start_blocks_nothing(hook: Hook, host: str) -> None:
    """Some shells put one before what they pipe."""
    given = b"\xef\xbb\xbf" + json.dumps(CALLS[host]).encode()
    assert allowed(host, hook(host, deciding(), given=given)) is None


@pytest.mark.parametrize("host", HOSTS)
def test_an_edit_is_what_the_host_runs(hook: Hook, host: str) -> None:
    """Whole, as the person left it; with --no-edit nobody is offered one."""
    assert allowed(host, hook(host, deciding(action=Action.EDIT, arguments=EDITED))) == EDITED
    ran = hook(host, deciding(action=Action.EDIT, arguments=EDITED), words=("--no-edit",))
    assert "the request does not allow the decision edit" in blocked(host, ran)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ({"status": Status.DENIED, "action": Action.DENY, "message": "not now"}, "by ann: not now"),
        ({"status": Status.DENIED, "action": Action.DENY, "reason": Reason.RULE}, "by the rule"),
        ({"status": Status.EXPIRED, "action": None, "reason": Reason.TIMEOUT}, "expired"),
        (
            {"status": Status.CANCELLED, "action": None, "reason": Reason.CANCELLED_BY_OPERATOR},
            "by an operator",
        ),
    ],
)
def test_every_other_end_blocks(hook: Hook, host: str, ending: Any, words: str) -> None:
    """In the host's own form, with the reason, and no reason is taken for another."""
    assert words in blocked(host, hook(host, deciding(**ending)))


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    ("answers", "given", "words"),
    [
        ((), b"no json", ()),
        ((), b"", ()),
        ((), b"[" * 100_000, ()),
        ((), b"[]", ()),
        ((), b"{}", ()),
        ((), b'{"a": 1, "a": 2}', ()),
        ((), b" " * 2_000_000, ()),
        ((), None, ("--timeout", "0")),
        ((), None, ("--timeout", "soon")),
        ((), None, ("--timeout",)),
        ((), None, ("--nonsense",)),
        ((answer({"code": "unauthorized", "detail": "no"}, 401),) * 2, None, ()),
        ((answer({"code": "over_budget", "detail": "no"}, 429),), None, ()),
        ((answer([]),), None, ("--timeout", "0.2")),
        ((PENDING, b""), None, ("--timeout", "0.2")),
        ((deciding(lambda state: {**state, "id": "1" * 32}),), None, ()),
        ((deciding(lambda state: {**state, "may_have_run": True}),), None, ()),
    ],
)
def test_whatever_goes_wrong_blocks(
    hook: Hook, host: str, answers: tuple[Script, ...], given: Any, words: tuple[str, ...]
) -> None:
    """A hook that fails in another way lets the tool run."""
    if words[:1] in (("--timeout",), ("--nonsense",)) and not answers:
        code, out, err = hook(host, given=given, words=words)
        assert (code, out) == (BLOCKED, None)  # whose host is read before, and no more
        assert err
        return
    blocked(host, hook(host, *answers, given=given, words=words))


@pytest.mark.parametrize("name", ["emacs", "", "--hook"])
def test_a_host_that_nobody_knows_blocks(hook: Hook, name: str) -> None:
    """Whatever was meant by it."""
    assert hook_process.main(("hook", name)) == BLOCKED


@pytest.mark.parametrize("host", HOSTS)
def test_another_kind_of_call_is_not_asked_about(hook: Hook, host: str) -> None:
    """What cannot be read cannot be shown."""
    names = {"copilot": ("toolName", "toolArgs"), "cursor": ("tool_name", "tool_input")}
    tool, given = names.get(host, ("tool_name", "tool_input"))
    wrong: list[JsonObject] = [{tool: 5}, {tool: "a\nb"}, {given: 7}, {given: ["rm x"]}]
    if host != "copilot":  # which names no event
        wrong += [{"hook_event_name": "Other"}, {"hook_event_name": None}]
    if host != "cursor":
        wrong += [{"cwd": ["/"]}]
    for changes in wrong:
        blocked(host, hook(host, deciding(), given={**CALLS[host], **changes}))
        assert hook.calls == []


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_stops_its_hook_runs_nothing(hook: Hook, host: str) -> None:
    """SIGTERM is what it sends when its own time is over; the request is withdrawn."""

    def stopped(call: bytes) -> bytes:
        os.kill(os.getpid(), signal.SIGTERM)
        return b""

    blocked(host, hook(host, PENDING, stopped, answer({})))
    assert b"/cancel " in hook.calls[-1]


def test_a_host_that_is_gone_is_noticed(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hook does not wait for an answer that nobody would read."""
    parents = iter([1, 1])
    monkeypatch.setattr(hook_process, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr("os.getppid", lambda: next(parents, 2))
    blocked("codex", hook("codex", PENDING, b"", answer({})))
    assert b"/cancel " in hook.calls[-1]


@pytest.mark.parametrize("host", HOSTS)
def test_an_error_of_our_own_blocks(hook: Hook, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that nobody thought of, and one while it answers."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(hook_process, "decide", broken)
        blocked(host, hook(host, PENDING))
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", SimpleNamespace(write=broken, flush=broken))
        patch.setattr("sys.stderr", SimpleNamespace(write=broken))
        edit = deciding(action=Action.EDIT, arguments=EDITED)  # which every host is told
        assert hook(host, edit)[0] == BLOCKED


@pytest.mark.parametrize("start", [gateway.cli.main, gateway.integrations.__main__.run])
@pytest.mark.parametrize(
    "lost", ["gateway.integrations.coding_agents.hook", "gateway.client.config"]
)
def test_a_hook_that_cannot_be_loaded_blocks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], start: Any, lost: str
) -> None:
    """Hosts run the tool after the exit code of a traceback."""
    monkeypatch.delitem(sys.modules, "gateway.integrations.coding_agents.hook")
    monkeypatch.delattr(gateway.client, "config")
    monkeypatch.setitem(sys.modules, lost, None)
    assert start(["hook", "codex"]) == BLOCKED
    assert "the hook cannot be loaded: ModuleNotFoundError" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["claude-code", "codex", "cursor"])
def test_the_same_call_again_is_the_same_request(hook: Hook, host: str) -> None:
    """The host has an id for it; another call with the same content is another request."""
    ids = []
    other = {"tool_use_id": "toolu_01Bb7Rr2Pq55"}
    for given in (CALLS[host], CALLS[host], {**CALLS[host], **other}):
        hook(host, deciding(), given=given)
        ids.append(hook.asked["id"])
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("host", ["claude-code", "codex", "cursor"])
@pytest.mark.parametrize("counted", ["functions.Bash:0", "call_12", "Shell2", "0"])
def test_an_id_that_a_provider_repeats_names_no_call(hook: Hook, host: str, counted: str) -> None:
    """The next call with it is another request; one that nobody answered is tried again as it."""
    given = {**CALLS[host], "tool_use_id": counted}
    ids = []
    for _ in range(2):
        assert allowed(host, hook(host, deciding(), given=given)) is None
        ids.append(hook.asked["id"])
        assert hook.asked["origin"]["tool_call_id"] == counted
    assert ids[0] != ids[1]


def test_a_deferred_call_is_found_again_without_an_id_of_its_own(hook: Hook) -> None:
    """Claude Code asks its hook again when the run is resumed."""
    given = {**CLAUDE, "tool_use_id": "functions.Bash:0"}
    ids = []
    for script in (PENDING, deciding(), deciding()):
        hook("claude-code", script, given=given, words=("--defer",))
        ids.append(hook.asked["id"])
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("host", ["gemini", "copilot"])
def test_calls_without_an_id_are_counted(hook: Hook, host: str) -> None:
    """Each that was answered is another one; one that was not is tried again as the same."""
    ids = []
    for script in (deciding(), deciding()):
        hook(host, script)
        ids.append(hook.asked["id"])
    assert ids[0] != ids[1]


def test_a_call_whose_process_was_killed_is_found_again(tmp_path: Path, hook: Hook) -> None:
    """And one beside it, which lives, is another."""
    first = occurrences.take("gemini", "s", "c")
    beside = occurrences.take("gemini", "s", "c")
    assert first is not None
    assert beside is not None
    assert (first.number, beside.number) == (0, 1)
    first.note("0" * 32)
    os.close(first._handle)  # as the end of its process does
    again = occurrences.take("gemini", "s", "c")
    assert again is not None
    assert again.number == 0
    again.finish()
    third = occurrences.take("gemini", "s", "c")
    assert third is not None
    assert third.number == 2


def test_without_a_folder_each_call_is_a_new_one(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked about all the same."""
    monkeypatch.setenv("GATEWAY_DATA_DIR", "/dev/null/nowhere")
    assert allowed("gemini", hook("gemini", deciding())) is None


def test_an_approval_that_was_handed_out_before_blocks(hook: Hook) -> None:
    """Two hooks of one call would run it for two people; the reason says what to look for."""
    ran = hook("claude-code", deciding(lambda state: {**state, "may_have_run": True}))
    assert "Is the hook installed twice?" in blocked("claude-code", ran)


# ------------------------------------------------------------ where the host asks as well


def relayed(ran: Ran) -> Any:
    """Return the decision that Claude Code and Codex take."""
    code, out, _ = ran
    assert code == 0
    assert out["hookSpecificOutput"]["hookEventName"] == "PermissionRequest"
    return out["hookSpecificOutput"]["decision"]


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_relay_decides_only_what_was_decided(hook: Hook, host: str) -> None:
    """What is no answer of anybody leaves it to the terminal, which asks by itself."""
    assert relayed(hook(host, deciding(), given=REQUEST)) == {"behavior": "allow"}
    denied = deciding(status=Status.DENIED, action=Action.DENY, message="no")
    told = {"behavior": "deny", "message": "denied by ann: no"}
    assert relayed(hook(host, denied, given=REQUEST)) == told
    late = deciding(status=Status.EXPIRED, action=None, reason=Reason.TIMEOUT)
    for script in (late, answer({"code": "over_budget", "detail": "no"}, 429)):
        code, out, _ = hook(host, script, given=REQUEST)
        assert (code, out) == (0, None)


def test_relay_gives_codex_nothing_that_it_throws_away(hook: Hook) -> None:
    """A changed call, or a stop of the turn, makes Codex forget the whole answer."""
    hook("codex", deciding(), given=REQUEST)
    assert hook.asked["allowed"] == ["approve", "deny"]
    hook("claude-code", deciding(), given=REQUEST)
    assert "edit" in hook.asked["allowed"]


SUGGESTED: JsonObject = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "rm x"}],
    "behavior": "allow",
    "destination": "localSettings",
}
SUGGESTS: JsonObject = {**REQUEST, "permission_suggestions": [SUGGESTED]}
OFFERED = {
    "rule": "Bash(rm x)",
    "scope": "in this project, for this user (.claude/settings.local.json)",
}
CHOSEN = HostRule(**OFFERED)
NATIVE = ("--native-always",)


def test_what_claude_code_keeps_itself_is_what_was_chosen(hook: Hook) -> None:
    """Its own suggestion, unchanged, where the settings ask for that and a person chose it."""
    ran = hook("claude-code", deciding(host_rule=CHOSEN), given=SUGGESTS, words=NATIVE)
    assert relayed(ran) == {"behavior": "allow", "updatedPermissions": [SUGGESTED]}
    assert hook.asked["host_rules"] == [OFFERED]
    assert relayed(hook("claude-code", deciding(), given=SUGGESTS, words=NATIVE)) == {
        "behavior": "allow"
    }


def test_without_the_option_the_host_keeps_nothing(hook: Hook) -> None:
    """Nobody is offered it, and an answer that says so is no approval."""
    assert relayed(hook("claude-code", deciding(), given=SUGGESTS)) == {"behavior": "allow"}
    assert "host_rules" not in hook.asked
    code, out, err = hook("claude-code", deciding(host_rule=CHOSEN), given=SUGGESTS)
    assert (code, out) == (0, None)  # which leaves it to the terminal
    assert "did not offer" in err
    for host in ("codex", "gemini", "cursor", "copilot"):
        assert hook(host, words=NATIVE)[0] == BLOCKED


@pytest.mark.parametrize(
    "wider",
    [
        {"rule": "Bash(rm x)", "scope": "until its session ends"},
        {"rule": "Bash(*)", "scope": OFFERED["scope"]},
    ],
)
def test_a_rule_that_was_not_offered_is_no_approval(hook: Hook, wider: dict[str, str]) -> None:
    """Nor one with an edit: the host would keep what nobody asked for."""
    ran = hook("claude-code", deciding(host_rule=HostRule(**wider)), given=SUGGESTS, words=NATIVE)
    assert "did not offer" in ran[2]
    edit = deciding(action=Action.EDIT, arguments=EDITED, host_rule=CHOSEN)
    assert "did not offer" in hook("claude-code", edit, given=SUGGESTS, words=NATIVE)[2]
    assert ran[1] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "replaceRules"}, {"behavior": "deny"}, {"destination": "cliArg"}, {"rules": []},
        {"rules": [{"toolName": ""}]}, {"rules": [{"toolName": "Bash", "ruleContent": 5}]},
        {"rules": [{"toolName": "Bash", "more": 1}]}, {"rules": "Bash"}, {"more": 1},
        {"rules": [{"toolName": "Bash", "ruleContent": "x" * 400}]},
        {"type": "setMode", "mode": "acceptEdits"}, {"directories": ["/"]},
    ],
)  # fmt: skip
def test_a_suggestion_that_is_not_wholly_known_is_not_offered(
    hook: Hook, changes: JsonObject
) -> None:
    """Also a mode, which lets more through than its name says; it is asked about all the same."""
    given = {**REQUEST, "permission_suggestions": [{**SUGGESTED, **changes}]}
    assert relayed(hook("claude-code", deciding(), given=given, words=NATIVE))
    assert "host_rules" not in hook.asked


def test_suggestions_are_told_apart_by_their_words(hook: Hook) -> None:
    """Of two that read alike neither is offered; a whole tool and folders say so."""
    rules = {**SUGGESTED, "rules": [{"toolName": "mcp__a__x"}], "destination": "session"}
    folders = {"type": "addDirectories", "directories": ["/a", "/b"], "destination": "session"}
    given = {**REQUEST, "permission_suggestions": [SUGGESTED, rules, SUGGESTED, folders, 5]}
    hook("claude-code", deciding(), given=given, words=NATIVE)
    assert hook.asked["host_rules"] == [
        {"rule": "mcp__a__x (every call of it)", "scope": "until its session ends"},
        {"rule": "also work in /a, /b", "scope": "until its session ends"},
    ]


@pytest.mark.parametrize("host", HOSTS)
def test_no_hook_shows_a_number(hook: Hook, host: str) -> None:
    """A host shows what its hook says when it has ended. So where only a number would do, the
    gateway refuses at once."""
    hook(host, deciding())
    assert hook.asked["shows_number"] is False


def test_relay_closes_the_card_that_the_terminal_answered(hook: Hook) -> None:
    """By session, tool and input; other calls keep theirs."""
    waits = occurrences.take("claude-code", "s-1", _content())
    assert waits is not None
    waits.note("a" * 32)
    after = {**CLAUDE, "hook_event_name": "PostToolUse"}
    other = {**after, "tool_input": {"command": "ls"}}
    assert hook("claude-code", given=other) == (0, None, "")
    assert hook.calls == []
    assert hook("claude-code", answer({}), given=after) == (0, None, "")
    assert hook.calls[0].startswith(b"POST /v1/requests/" + b"a" * 32 + b"/cancel ")
    assert b'"resolved_elsewhere"' in hook.calls[0]


def test_relay_closes_what_the_turn_left(hook: Hook) -> None:
    """And a gateway that is gone never stops the host."""
    for name in "ab":
        waits = occurrences.take("claude-code", "s-1", name)
        assert waits is not None
        waits.note(name * 32)
    after = {"session_id": "s-1", "cwd": "/srv/app", "hook_event_name": "Stop"}
    assert hook("claude-code", answer({}), answer({}), given=after)[0] == 0
    assert len(hook.calls) == 2
    waits = occurrences.take("claude-code", "s-1", "c")
    assert waits is not None
    waits.note("c" * 32)
    code, out, err = hook("claude-code", b"", given=after)
    assert (code, out) == (0, None)
    assert "could not be closed" in err


def _content() -> str:
    call = hook_process.dialect_of("claude-code").read(CLAUDE)
    return f"PermissionRequest.{call.content}"


# ------------------------------------------------------------ questions, and runs that end


ASKED: JsonObject = {
    "questions": [
        {
            "question": "Which?",
            "header": "Colour",
            "multiSelect": False,
            "options": [{"label": "Red", "description": "warm"}, {"label": "Blue"}],
        }
    ]
}


def test_a_question_of_the_model_is_a_question(hook: Hook) -> None:
    """The answer is the tool's input, beside what was asked."""
    given = {**CLAUDE, "tool_name": "AskUserQuestion", "tool_input": ASKED}
    ran = hook("claude-code", deciding(action=Action.ANSWER, answers={"q1": "Blue"}), given=given)
    assert allowed("claude-code", ran) == {**ASKED, "answers": {"Which?": "Blue"}}
    assert (hook.asked["kind"], hook.asked["allowed"]) == ("question", ["answer", "deny"])
    ran = hook("claude-code", deciding(), given=given)
    assert "not an approval" in blocked("claude-code", ran)


@pytest.mark.parametrize("wrong", [{}, {"questions": []}, {"questions": [{"question": "?"}]}])
def test_a_question_that_cannot_be_read_blocks(hook: Hook, wrong: JsonObject) -> None:
    """Nobody could answer it."""
    given = {**CLAUDE, "tool_name": "AskUserQuestion", "tool_input": wrong}
    blocked("claude-code", hook("claude-code", given=given))


def test_a_deferred_call_ends_the_run_and_is_taken_up(hook: Hook) -> None:
    """It waits for nobody; the same call later takes the approval once. A host's own name is left
    out of what is asked: a job may go on at another machine."""
    ran = hook("claude-code", PENDING, words=("--defer",))
    assert ran[1]["hookSpecificOutput"]["permissionDecision"] == "defer"
    assert "host" not in hook.asked["context"]
    assert len(hook.calls) == 1
    approved: list[bytes] = []

    def unclaimed(call: bytes) -> bytes:
        approved.append(deciding()(call))
        state = json.loads(approved[0].partition(b"\r\n\r\n")[2])
        return answer({**state, "decision": None})

    ran = hook("claude-code", unclaimed, lambda _: approved[0], words=("--defer",))
    assert allowed("claude-code", ran) is None
    assert b"/consume " in hook.calls[1]
    assert hook("codex", words=("--defer",))[0] == BLOCKED
