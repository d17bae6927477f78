"""Codex itself, as it is published, with our hook: each answer, and what its model hears."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.records import Query
from gateway.integrations.coding_agents.install_plans import OR_BLOCK
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.coding_models import CodingModel, Use, coding_model
from tests.hosts.conftest import NO_GATEWAY, Answer, environment, finish, remember, run

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

HOOK = f"{sys.executable} -m gateway.integrations hook codex"
TOUCH = Use("exec_command", {"cmd": "touch made"}, "call_3fQz81LmW1")
TRUSTED = "--dangerously-bypass-hook-trust"
UNGUARDED = "--dangerously-bypass-approvals-and-sandbox"


class Codex:
    """Runs of Codex with a scripted model in a folder of its own."""

    def __init__(self, gate: Replica, installed: Path, folder: Path) -> None:
        self._gate, self._installed, self.folder = gate, installed, folder
        self.work = folder / "work"
        self.work.mkdir()
        (folder / ".codex").mkdir()

    @property
    def program(self) -> str:
        """What starts it."""
        return str(self._installed / "node_modules" / ".bin" / "codex")

    def hooks(self, command: str, event: str = "PreToolUse") -> None:
        """Write the user's hooks: this one."""
        hook = {"type": "command", "command": command, "timeout": 60}
        hooks = {"hooks": {event: [{"matcher": "*", "hooks": [hook]}]}}
        (self.folder / ".codex" / "hooks.json").write_text(json.dumps(hooks))

    def environment(self, model: CodingModel, **env: str) -> dict[str, str]:
        """Write the settings that name the model; return the environment."""
        config = f"""model = "gpt-5.1-codex"
model_provider = "fake"
check_for_update_on_startup = false
[model_providers.fake]
name = "fake"
base_url = "{model.url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
"""
        (self.folder / ".codex" / "config.toml").write_text(config)
        return environment(self._gate, self.folder, FAKE_KEY="none", PYTHONPATH=str(ROOT), **env)

    async def trust_all(self, env: dict[str, str]) -> None:
        """Trust every hook, as a person does with /hooks."""
        process = await asyncio.create_subprocess_exec(
            *(self.program, "app-server"),
            env=env,
            cwd=self.work,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        to, back = process.stdin, process.stdout
        assert to is not None
        assert back is not None

        async def call(number: int, method: str, params: Any) -> Any:
            said = {"id": number, "method": method, "params": params}
            to.write(json.dumps(said).encode() + b"\n")
            while True:
                told = json.loads(await back.readline())
                if told.get("id") == number:
                    return told["result"]

        await call(1, "initialize", {"clientInfo": {"name": "t", "title": "t", "version": "1"}})
        listed = await call(2, "hooks/list", {"cwds": [str(self.work)]})
        state = {
            hook["key"]: {"trusted_hash": hook["currentHash"]}
            for hook in listed["data"][0]["hooks"]
        }
        edit = {"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}
        await call(3, "config/batchWrite", {"edits": [edit]})
        os.killpg(process.pid, signal.SIGKILL)  # the script, and the program that it starts
        await process.wait()

    async def start(self, model: CodingModel, *words: str, **env: str) -> tuple[int, str]:
        """Run one prompt to its end, where Codex itself asks nobody."""
        return await run(
            *(self.program, "exec", "--skip-git-repo-check", UNGUARDED, *words, "go"),
            env=self.environment(model, **env),
            cwd=self.work,
        )


@pytest.fixture
def codex(gate: Replica, installed: Path, tmp_path: Path) -> Codex:
    """Return Codex with the hook."""
    made = Codex(gate, installed, tmp_path)
    made.hooks(f"{HOOK} --timeout 50 {OR_BLOCK}")
    return made


async def test_an_approved_command_runs(codex: Codex, answer: Answer) -> None:
    """Codex says that the hook did its work; the card has the command, folder, session and turn."""
    async with coding_model(TOUCH) as model:
        said, record = await finish(codex.start(model, TRUSTED), answer())
    assert (codex.work / "made").exists()
    assert "hook: PreToolUse Completed" in said
    request = record.request
    assert (request.tool, request.arguments) == ("Bash", {"command": "touch made"})
    assert (request.kind, request.call_id) == ("command", "call_3fQz81LmW1")
    assert request.context.cwd == str(codex.work)
    assert f"session id: {request.session}" in said
    assert request.turn


async def test_a_denial_reaches_the_model(codex: Codex, answer: Answer) -> None:
    """Even where Codex itself asks nobody and has no sandbox."""
    async with coding_model(TOUCH) as model:
        await finish(codex.start(model, TRUSTED), answer("deny", message="not on a Friday"))
        assert "not on a Friday" in model.heard
        assert "hook failed" not in model.heard
    assert not (codex.work / "made").exists()


async def test_an_edit_is_what_runs(codex: Codex, answer: Answer) -> None:
    """As the person left it."""
    edited = {"command": "touch other"}
    async with coding_model(TOUCH) as model:
        said, _ = await finish(codex.start(model, TRUSTED), answer("edit", arguments=edited))
    assert "hook: PreToolUse Completed" in said
    assert [one.name for one in codex.work.iterdir()] == ["other"]


async def test_a_remembered_answer_asks_nobody(codex: Codex, gate: Replica) -> None:
    """The second of two equal calls needs nobody."""
    async with coding_model(
        TOUCH, Use("exec_command", TOUCH.arguments, "call_3fQz81LmW2")
    ) as model:
        await finish(codex.start(model, TRUSTED), remember(gate))
        assert len(model.told) == 3
    ended = (await gate.core.requests.page(Query(final=True))).items
    assert sorted(one.decision.reason for one in ended if one.decision) == ["grant", "person"]


async def test_nobody_answers(codex: Codex) -> None:
    """The model is told that, and not that anybody denied."""
    codex.hooks(f"{HOOK} --timeout 1 {OR_BLOCK}")
    async with coding_model(TOUCH) as model:
        await finish(codex.start(model, TRUSTED))
        assert "nobody answered in time" in model.heard
    assert not (codex.work / "made").exists()


async def test_without_a_gateway_nothing_runs(codex: Codex) -> None:
    """The model reads that nobody was asked."""
    async with coding_model(TOUCH) as model:
        await finish(codex.start(model, TRUSTED, **NO_GATEWAY))
        assert "nobody was asked: gateway unreachable" in model.heard
    assert not (codex.work / "made").exists()


@pytest.mark.parametrize("hook", [f"{HOOK} --nonsense", "sh -c 'kill -9 $$'", "/nowhere/gateway"])
async def test_a_hook_that_fails_runs_nothing(codex: Codex, hook: str) -> None:
    """As `gateway install` writes it. Codex itself runs the tool after each of these."""
    codex.hooks(f"{hook} {OR_BLOCK}")
    async with coding_model(TOUCH) as model:
        await finish(codex.start(model, TRUSTED))
    assert not (codex.work / "made").exists()


async def test_a_hook_that_nobody_trusts_is_skipped(codex: Codex, gate: Replica) -> None:
    """Codex's own rule, which the page and `gateway install` say: nobody is asked, and it runs."""
    async with coding_model(TOUCH) as model:
        await finish(codex.start(model))
    assert (codex.work / "made").exists()
    assert not (await gate.core.requests.page(Query(final=True))).items


async def test_the_check_asks_codex_whether_it_trusts_the_hook(codex: Codex) -> None:
    """Installed and not trusted it does not gate, and the check says what to do."""
    async with coding_model() as model:
        env = codex.environment(model)
    env["PATH"] = f"{Path(codex.program).parent}:{env['PATH']}"
    program = (sys.executable, "-m", "gateway.integrations", "install", "codex")
    code, said = await run(*program, "--yes", env=env, cwd=codex.work)
    assert code == 0, said
    code, said = await run(*program, "--check", env=env, cwd=codex.work)
    assert code == 1
    assert "the hook is untrusted: Codex skips it" in said
    await codex.trust_all(env)
    code, said = await run(*program, "--check", env=env, cwd=codex.work)
    assert code == 0, said
    assert "a harmless call was held, cancelled, and blocked" in said
    hooks = codex.folder / ".codex" / "hooks.json"
    hooks.write_text(json.dumps({**json.loads(hooks.read_text()), "theirs": 1}))
    code, said = await run(*program, "--check", env=env, cwd=codex.work)
    assert code == 1
    assert "Codex says: failed to parse hooks config" in said
    assert "unknown field `theirs`" in said
