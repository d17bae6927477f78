"""Claude Code itself, as it is published, with our hook: each answer, and what its model hears."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.records import Query
from gateway.integrations.coding_agents.claude_code import AFTER_CALL, AFTER_TURN
from gateway.models import FieldKind, Reason, Status
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.coding_models import CodingModel, Use, coding_model
from tests.hosts.conftest import NO_GATEWAY, Answer, environment, finish, remember, run
from tests.waiting import moment

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

TOUCH = Use("Bash", {"command": "touch made", "description": "make a file"})
HOOK = f"{sys.executable} -m gateway.integrations hook claude-code"


CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
ASKED = {
    "questions": [
        {"question": "Which colour?", "header": "Colour", "multiSelect": False,
         "options": [{"label": "Red", "description": "warm"},
                     {"label": "Blue", "description": "cold"}]},
        {"question": "Which sizes?", "header": "Size", "multiSelect": True,
         "options": [{"label": "S", "description": "small"},
                     {"label": "L", "description": "large"}]},
    ]
}  # fmt: skip


def command(words: str) -> dict[str, Any]:
    """Return a hook as settings have it."""
    return {"type": "command", "command": words, "timeout": 60, "onFailure": "block"}


class Claude:
    """Runs of Claude Code with a scripted model in a folder of its own."""

    def __init__(self, gate: Replica, installed: Path, folder: Path) -> None:
        self._gate, self._installed, self.folder = gate, installed, folder
        self.work = folder / "work"
        self.work.mkdir()

    @property
    def settings_file(self) -> Path:
        """The user's settings."""
        return self.folder / ".claude" / "settings.json"

    def enforce(self, more: str = "") -> None:
        """Have the hook ask before every tool."""
        self.settings(PreToolUse=command(f"{HOOK} {more}"))

    def settings(self, **events: Any) -> None:
        """Write the user's settings, with one hook for each event."""
        path = self.settings_file
        path.parent.mkdir(exist_ok=True)
        hooks = {name: [{"matcher": "*", "hooks": [hook]}] for name, hook in events.items()}
        path.write_text(json.dumps({"hooks": hooks}))

    @property
    def program(self) -> str:
        """What starts it."""
        return str(self._installed / "node_modules" / ".bin" / "claude")

    def environment(self, model: CodingModel, **env: str) -> dict[str, str]:
        """Return its environment."""
        return environment(
            self._gate,
            self.folder,
            **{
                "ANTHROPIC_BASE_URL": model.url,
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "IS_SANDBOX": "1",  # else it refuses to skip permissions as root
                "PYTHONPATH": str(ROOT),
                **env,
            },
        )

    async def start(self, model: CodingModel, *words: str, **env: str) -> tuple[int, str]:
        """Run one prompt to its end, without a terminal."""
        prompt = () if "--resume" in words else ("go",)
        return await run(
            *(self.program, "-p", *prompt, "--output-format", "json", *words),
            env=self.environment(model, **env),
            cwd=self.work,
        )


@pytest.fixture
def claude(gate: Replica, installed: Path, tmp_path: Path) -> Claude:
    """Return Claude Code with the hook in its enforce profile."""
    made = Claude(gate, installed, tmp_path)
    made.enforce()
    return made


SKIP = "--dangerously-skip-permissions"


async def claude_run(running: Coroutine[Any, Any, tuple[int, str]], *answers: Any) -> list[Any]:
    """Run Claude while somebody answers; return what it said as JSON, and what was answered."""
    said, *given = await finish(running, *answers)
    return [json.loads(said), *given]


async def test_an_approved_command_runs(claude: Claude, answer: Answer) -> None:
    """The card has the command, the folder and the session."""
    async with coding_model(TOUCH) as model:
        told, record = await claude_run(claude.start(model), answer())
    assert (claude.work / "made").exists()
    request = record.request
    assert (request.tool, request.arguments) == ("Bash", TOUCH.arguments)
    assert (request.kind, request.call_id) == ("command", "toolu_01Xk9vTq4rN1")
    assert request.context.cwd == str(claude.work)
    assert request.session == told["session_id"]
    assert request.origin.framework == "claude-code"


async def test_a_denial_reaches_the_model_also_where_permissions_are_skipped(
    claude: Claude, answer: Answer
) -> None:
    """Nothing runs, and the model reads the person's words."""
    async with coding_model(TOUCH) as model:
        await claude_run(claude.start(model, SKIP), answer("deny", message="not on a Friday"))
        assert "not on a Friday" in model.heard
    assert not (claude.work / "made").exists()


async def test_an_edit_is_what_runs(claude: Claude, answer: Answer) -> None:
    """Whole, as the person left it."""
    edited = {"command": "touch other", "description": "make a file"}
    async with coding_model(TOUCH) as model:
        await claude_run(claude.start(model, SKIP), answer("edit", arguments=edited))
    assert [one.name for one in claude.work.iterdir()] == ["other"]


async def test_an_abort_stops_the_turn(claude: Claude, answer: Answer) -> None:
    """The model is not asked again."""
    async with coding_model(TOUCH) as model:
        await claude_run(claude.start(model, SKIP), answer("abort", message="enough"))
        assert len(model.told) == 1
    assert not (claude.work / "made").exists()


async def test_a_remembered_answer_asks_nobody(claude: Claude, gate: Replica) -> None:
    """The second of two equal calls needs nobody."""

    async with coding_model(TOUCH, Use("Bash", TOUCH.arguments, "toolu_01Xk9vTq4rN2")) as model:
        await claude_run(claude.start(model, SKIP), remember(gate))
        assert len(model.told) == 3
    ended = (await gate.core.requests.page(Query(final=True))).items
    assert sorted(one.decision.reason for one in ended if one.decision) == ["grant", "person"]


async def test_two_equal_calls_at_once_are_two_requests(claude: Claude, answer: Answer) -> None:
    """Each has its own answer."""
    twice = (TOUCH, Use("Bash", TOUCH.arguments, "toolu_01Xk9vTq4rN2"))
    async with coding_model(twice) as model:
        _, first, second = await claude_run(
            claude.start(model, SKIP), answer(), answer("deny", message="once is enough")
        )
        assert "once is enough" in model.heard
    assert first.id != second.id
    assert (claude.work / "made").exists()


async def test_nobody_answers(claude: Claude) -> None:
    """The model is told that, and not that anybody denied."""
    claude.enforce("--timeout 1")
    async with coding_model(TOUCH) as model:
        await claude_run(claude.start(model, SKIP))
        assert "nobody answered in time" in model.heard
    assert not (claude.work / "made").exists()


@pytest.mark.parametrize("hook", ["--nonsense", "; kill -9 $$", "; exit 1", "missing"])
async def test_a_hook_that_fails_runs_nothing(claude: Claude, hook: str) -> None:
    """Whichever way: Claude Code itself would run the tool after most of these."""
    if hook == "missing":
        claude.settings(PreToolUse=command("/nowhere/gateway hook claude-code || exit 2"))
    else:
        claude.enforce(hook)
    async with coding_model(TOUCH) as model:
        await claude_run(claude.start(model, SKIP))
        assert len(model.told) == 2
    assert not (claude.work / "made").exists()


async def test_without_a_gateway_nothing_runs(claude: Claude) -> None:
    """The model reads that nobody was asked."""
    async with coding_model(TOUCH) as model:
        await claude_run(claude.start(model, SKIP, **NO_GATEWAY))
        assert "nobody was asked: gateway unreachable" in model.heard
    assert not (claude.work / "made").exists()


def address(gate: Replica, query: str = "?timeout=50") -> dict[str, Any]:
    """Return the hook by HTTP as settings have it."""
    return {
        "type": "http",
        "url": f"{gate.url}/v1/hooks/claude-code{query}",
        "headers": {"Authorization": "Bearer $GATEWAY_TOKEN"},
        "allowedEnvVars": ["GATEWAY_TOKEN"],
        "timeout": 60,
        "onFailure": "block",
    }


async def test_by_http_each_answer_is_what_happens(
    claude: Claude, gate: Replica, answer: Answer
) -> None:
    """Approve, edit, deny with words: no process of ours is started."""
    claude.settings(PreToolUse=address(gate))
    edited = {"command": "touch other", "description": "make a file"}
    calls = [Use("Bash", TOUCH.arguments, f"toolu_01Xk9vTq4rN{number}") for number in range(3)]
    async with coding_model(*calls) as model:
        _, record, *_ = await claude_run(
            claude.start(model, SKIP),
            answer("deny", message="not on a Friday"),
            answer("edit", arguments=edited),
            answer(),
        )
        assert "not on a Friday" in model.heard
    assert sorted(one.name for one in claude.work.iterdir()) == ["made", "other"]
    assert record.request.call_id == "toolu_01Xk9vTq4rN0"


@pytest.mark.parametrize("wrong", ["token", "none", "query", "down"])
async def test_by_http_what_goes_wrong_runs_nothing(
    claude: Claude, gate: Replica, wrong: str
) -> None:
    """A token nobody knows, none, settings that make no sense, and no gateway at all."""
    hook = address(gate, "?timeout=soon" if wrong == "query" else "?timeout=50")
    if wrong == "down":
        hook["url"] = "http://127.0.0.1:9/v1/hooks/claude-code"
    else:
        del hook["onFailure"]  # the gateway's own answer is enough
    claude.settings(PreToolUse=hook)
    token = {"token": "agw_agent1_wrongwrongwrong", "none": ""}.get(wrong)
    more = {} if token is None else {"GATEWAY_TOKEN": token}
    async with coding_model(TOUCH) as model:
        await claude_run(claude.start(model, SKIP, **more))
        assert wrong == "down" or "nobody was asked" in model.heard
    assert not (claude.work / "made").exists()


@pytest.mark.parametrize("more", [(), ("--http",)], ids=["command", "http"])
async def test_what_install_writes_gates_and_what_undo_leaves_does_not(
    claude: Claude, answer: Answer, more: tuple[str, ...]
) -> None:
    """In a scratch home, in both directions."""
    async with coding_model() as model:
        env = claude.environment(model)

    async def install(*words: str) -> tuple[int, str]:
        program = (sys.executable, "-m", "gateway.integrations", "install", "claude-code")
        return await run(*program, *words, env=env, cwd=claude.work)

    claude.settings()
    before = claude.settings_file.read_text()
    code, said = await install(*more, "--yes")
    assert code == 0, said
    code, said = await install("--check")
    assert code == 0, said
    async with coding_model(TOUCH) as model:
        await claude_run(claude.start(model, SKIP), answer("deny", message="not on a Friday"))
        assert "not on a Friday" in model.heard
    assert not (claude.work / "made").exists()
    assert (await install("--undo", "--yes"))[0] == 0
    assert claude.settings_file.read_text() == before
    async with coding_model(TOUCH) as model:
        await claude_run(claude.start(model, SKIP))
    assert (claude.work / "made").exists()


class Screen:
    """Claude Code at a terminal of its own, and what a person does there."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._seen = b""
        asyncio.get_running_loop().add_reader(terminal, self._read)

    def _read(self) -> None:
        try:
            self._seen += os.read(self._terminal, 65536)
        except OSError:  # the program is gone
            asyncio.get_running_loop().remove_reader(self._terminal)

    async def shows(self, words: str) -> None:
        """Wait until words were shown, wherever on the screen."""
        async with asyncio.timeout(30):
            while words not in " ".join(
                CONTROL.sub(b" ", self._seen).decode(errors="replace").split()
            ):
                await moment()

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._terminal, keys)


@pytest.fixture
def relayed(claude: Claude) -> Claude:
    """Return Claude Code with the hook in its relay profile, past its first questions."""
    claude.settings(**dict.fromkeys(("PermissionRequest", *AFTER_CALL, *AFTER_TURN), command(HOOK)))
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["none"]},
        "projects": {str(claude.work): {"hasTrustDialogAccepted": True}},
    }
    (claude.folder / ".claude.json").write_text(json.dumps(known))
    return claude


@asynccontextmanager
async def at_a_terminal(claude: Claude, model: CodingModel) -> AsyncIterator[Screen]:
    """Run Claude Code with a terminal inside the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *(claude.program, "--permission-mode", "default", "go"),
        env=claude.environment(model, TERM="xterm-256color"),
        cwd=claude.work,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Screen(ours)
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        process.kill()
        await process.wait()
        os.close(ours)


async def until_told(model: CodingModel, times: int) -> None:
    """Wait until the model was asked so often."""
    async with asyncio.timeout(60):
        while len(model.told) < times:
            await moment()


async def test_relay_the_card_is_answered_first(relayed: Claude, answer: Answer) -> None:
    """Nobody touches the terminal, which asks as well."""
    async with coding_model(TOUCH) as model, at_a_terminal(relayed, model) as screen:
        await screen.shows("want to proceed")
        await answer()
        await until_told(model, 2)
    assert (relayed.work / "made").exists()


async def test_relay_by_http_closes_the_card_too(relayed: Claude, gate: Replica) -> None:
    """The terminal was answered first."""
    after = dict.fromkeys((*AFTER_CALL, *AFTER_TURN), address(gate, ""))
    relayed.settings(PermissionRequest=address(gate), **after)
    async with coding_model(TOUCH) as model, at_a_terminal(relayed, model) as screen:
        await screen.shows("want to proceed")
        screen.type(b"1")
        record = (await gate.ended())[0]
    assert record.decision is not None
    assert record.decision.reason is Reason.RESOLVED_ELSEWHERE
    assert (relayed.work / "made").exists()


async def test_relay_by_http_the_card_is_answered_first(
    relayed: Claude, gate: Replica, answer: Answer
) -> None:
    """Nobody touches the terminal."""
    relayed.settings(PermissionRequest=address(gate))
    async with coding_model(TOUCH) as model, at_a_terminal(relayed, model):
        await answer()
        await until_told(model, 2)
    assert (relayed.work / "made").exists()


async def test_relay_a_denial_reaches_the_model(relayed: Claude, answer: Answer) -> None:
    """With the person's words."""
    async with coding_model(TOUCH) as model, at_a_terminal(relayed, model):
        await answer("deny", message="not on a Friday")
        await until_told(model, 2)
        assert "not on a Friday" in model.heard
    assert not (relayed.work / "made").exists()


async def test_relay_the_terminal_is_answered_first(relayed: Claude, gate: Replica) -> None:
    """The card closes: it was decided elsewhere."""
    async with coding_model(TOUCH) as model, at_a_terminal(relayed, model) as screen:
        await screen.shows("want to proceed")
        screen.type(b"1")
        record = (await gate.ended())[0]
    assert record.decision is not None
    assert record.decision.reason is Reason.RESOLVED_ELSEWHERE
    assert (relayed.work / "made").exists()


async def test_relay_the_turn_is_stopped_at_the_terminal(relayed: Claude, gate: Replica) -> None:
    """The card closes: nobody waits any more."""
    async with coding_model(TOUCH) as model, at_a_terminal(relayed, model) as screen:
        await screen.shows("want to proceed")
        screen.type(b"\x1b")
        record = (await gate.ended())[0]
    assert record.status is Status.CANCELLED
    assert not (relayed.work / "made").exists()


async def test_relay_a_question_of_the_model_is_a_question(relayed: Claude, answer: Answer) -> None:
    """One choice, and several: the model reads what was chosen."""
    async with coding_model(Use("AskUserQuestion", ASKED)) as model, at_a_terminal(relayed, model):
        record = await answer("answer", answers={"q1": "Blue", "q2": ["S", "L"]})
        await until_told(model, 2)
        assert "Blue" in json.dumps(model.told[-1]["messages"][-1])
        assert "S, L" in json.dumps(model.told[-1]["messages"][-1])
    assert [one.kind for one in record.request.questions] == [FieldKind.CHOICE, FieldKind.CHOICES]


async def test_relay_without_a_gateway_leaves_it_to_the_terminal(
    claude: Claude, gate: Replica
) -> None:
    """Without one, as under `-p`, nothing runs."""
    claude.settings(PermissionRequest=command(HOOK))
    async with coding_model(TOUCH) as model:
        await claude_run(claude.start(model, **NO_GATEWAY))
        assert len(model.told) == 2
    assert not (claude.work / "made").exists()


async def test_relay_under_p_without_a_terminal(claude: Claude, answer: Answer) -> None:
    """The card alone decides."""
    claude.settings(PermissionRequest=command(HOOK))
    async with coding_model(TOUCH) as model:
        _, record = await claude_run(claude.start(model), answer())
    assert (claude.work / "made").exists()
    assert record.request.call_id is not None


NPM = Use("Bash", {"command": "npm test", "description": "run the tests"})


@pytest.mark.parametrize("way", ["command", "http"])
async def test_relay_claude_code_keeps_the_rule_that_was_chosen(
    claude: Claude, gate: Replica, answer: Answer, way: str
) -> None:
    """Its own suggestion: it writes it down, asks nobody about such a call again, and asks about
    another one all the same."""
    asks = address(gate, "?timeout=50&native_always=true")
    if way == "command":
        asks = command(f"{HOOK} --native-always")
    claude.settings(PermissionRequest=asks)
    again, other = (
        Use("Bash", NPM.arguments, "toolu_01Xk9vTq4rN2"),
        Use("Bash", TOUCH.arguments, "toolu_01Xk9vTq4rN3"),
    )
    async with coding_model(NPM, again, other) as model:
        chosen = answer(remember={"offer": "host:0"})
        _, record, last = await claude_run(claude.start(model), chosen, answer("deny"))
        assert len(model.told) == 4
    (rule, *_) = record.request.host_rules
    assert rule.rule == "Bash(npm test *)"
    assert rule.scope == "in this project, for this user (.claude/settings.local.json)"
    assert last.request.arguments["command"] == "touch made"
    kept = json.loads((claude.work / ".claude" / "settings.local.json").read_text())
    assert kept["permissions"]["allow"] == ["Bash(npm test *)"]


async def test_a_run_in_ci_ends_and_goes_on_when_it_was_answered(
    claude: Claude, gate: Replica
) -> None:
    """`--defer`: the run ends with the call, waits for nobody, and goes on with the same one."""
    claude.enforce("--defer")
    async with coding_model(TOUCH) as model:
        (told,) = await claude_run(claude.start(model))
        assert told["stop_reason"] == "tool_deferred", told
        (again,) = await claude_run(claude.start(model, "--resume", told["session_id"]))
        assert again["stop_reason"] == "tool_deferred", again
        (record,) = (await gate.core.requests.page(Query())).items
        await gate.decided(record.id)
        await claude_run(claude.start(model, "--resume", told["session_id"]))
    assert (claude.work / "made").exists()
