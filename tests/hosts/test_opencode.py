"""OpenCode's server itself, as it is published, with our bridge beside it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientError, ClientSession

from gateway.domain.records import Query, Record
from gateway.integrations.host_plans import PLANS, Wish
from gateway.models import Action, Reason
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.coding_models import CodingModel, Use, coding_model
from tests.hosts.conftest import NO_GATEWAY, Answer, environment, remember
from tests.ports import free_port
from tests.waiting import moment

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(120)]

TOUCH = Use("bash", {"command": "touch made", "description": "make a file"}, "call_1")
QUIET = {  # what it would otherwise fetch
    "OPENCODE_PURE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_SERVER_PASSWORD": "hush",
}


class OpenCode:
    """OpenCode's server with a scripted model, and the bridge, in a folder of their own."""

    def __init__(self, gate: Replica, installed: Path, folder: Path) -> None:
        self._gate, self._installed, self.folder = gate, installed, folder
        self.work = folder / "work"
        self.work.mkdir()
        self.url = f"http://127.0.0.1:{free_port()}"
        self.http: ClientSession

    @asynccontextmanager
    async def running(self, model: CodingModel, **env: str) -> AsyncIterator[None]:
        """Run both inside the block."""
        provider = {
            "npm": "@ai-sdk/anthropic",
            "options": {"baseURL": f"{model.url}/v1", "apiKey": "none"},
            "models": {"m": {"name": "m", "tool_call": True}},
        }
        known = {"provider": {"fake": provider}, "model": "fake/m", "small_model": "fake/m"}
        settings = PLANS["opencode"].add(known, Wish(program="gateway"))
        (self.work / "opencode.json").write_text(json.dumps(settings))
        everything = environment(self._gate, self.folder, **QUIET)
        program = str(self._installed / "node_modules" / ".bin" / "opencode")
        port = self.url.rpartition(":")[2]
        async with (
            ClientSession(self.url, auth=None, headers=_KNOWN) as self.http,
            _process(program, "serve", "--port", port, env=everything, cwd=self.work),
        ):
            await self._until_it_answers()
            bridge = (sys.executable, "-m", "gateway.integrations", "bridge", "opencode")
            async with _process(*(*bridge, "--url", self.url), env={**everything, **env}, cwd=ROOT):
                yield

    async def _until_it_answers(self) -> None:
        while True:
            try:
                async with self.http.get("/permission") as answer:
                    if answer.status == 200:
                        return
            except (ClientError, OSError):
                await moment()

    async def prompt(self) -> str:
        """Begin a session and a turn in it; return the session's id."""
        async with self.http.post("/session", json={}) as answer:
            session = str((await answer.json())["id"])
        parts = {"parts": [{"type": "text", "text": "go"}]}
        async with self.http.post(f"/session/{session}/prompt_async", json=parts) as answer:
            assert answer.status < 300, await answer.text()
        return session


_KNOWN = {"Authorization": "Basic b3BlbmNvZGU6aHVzaA=="}


@asynccontextmanager
async def _process(*words: str, env: dict[str, str], cwd: Path) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *words, env=env, cwd=cwd, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest_asyncio.fixture
async def opencode(gate: Replica, installed: Path, tmp_path: Path) -> OpenCode:
    """Return OpenCode, which is told to ask."""
    return OpenCode(gate, installed, tmp_path)


async def told(model: CodingModel, times: int) -> None:
    """Wait until the model was asked so often."""
    while len(model.told) < times:
        await moment()


async def ended(gate: Replica, times: int = 1) -> tuple[Record, ...]:
    """Return the requests when so many have ended."""
    while len(items := (await gate.core.requests.page(Query(final=True))).items) < times:
        await moment()
    return items


async def test_an_approved_command_runs(opencode: OpenCode, answer: Answer) -> None:
    """The card has the command, the folder and the session; it offers no edit."""
    async with coding_model(TOUCH) as model, opencode.running(model):
        session = await opencode.prompt()
        record = await answer()
        await told(model, 2)
    assert (opencode.work / "made").exists()
    request = record.request
    assert (request.tool, request.kind, request.session) == ("bash", "command", session)
    assert "touch made" in json.dumps(request.arguments)
    assert request.context.cwd == str(opencode.work)
    assert request.origin.tool_call_id == "call_1"
    assert Action.EDIT not in request.allowed


async def test_a_denial_reaches_the_model(opencode: OpenCode, answer: Answer) -> None:
    """With the person's words."""
    async with coding_model(TOUCH) as model, opencode.running(model):
        await opencode.prompt()
        await answer("deny", message="not on a Friday")
        await told(model, 2)
        assert "not on a Friday" in model.heard
    assert not (opencode.work / "made").exists()


async def test_an_abort_stops_the_turn(opencode: OpenCode, answer: Answer, gate: Replica) -> None:
    """Nothing runs."""
    async with coding_model(TOUCH) as model, opencode.running(model):
        await opencode.prompt()
        await answer("abort", message="enough")
        await ended(gate)
    assert not (opencode.work / "made").exists()


async def test_a_remembered_answer_asks_nobody(opencode: OpenCode, gate: Replica) -> None:
    """The second of two equal calls needs nobody."""
    twice = (TOUCH, Use("bash", TOUCH.arguments, "call_2"))
    async with coding_model(*twice) as model, opencode.running(model):
        await opencode.prompt()
        await remember(gate)
        await told(model, 3)
    items = await ended(gate, 2)
    assert sorted(one.decision.reason for one in items if one.decision) == ["grant", "person"]


async def test_what_opencode_itself_was_told_closes_the_card(
    opencode: OpenCode, gate: Replica
) -> None:
    """Its own page answers as well; the first answer counts."""
    async with coding_model(TOUCH) as model, opencode.running(model):
        await opencode.prompt()
        while not (await gate.core.requests.page(Query())).items:
            await moment()
        async with opencode.http.get("/permission") as answer:
            (asked,) = await answer.json()
        path = f"/permission/{asked['id']}/reply"
        async with opencode.http.post(path, json={"reply": "once"}) as answer:
            assert answer.status == 200
        (record,) = await ended(gate)
    assert record.decision is not None
    assert record.decision.reason is Reason.RESOLVED_ELSEWHERE
    assert (opencode.work / "made").exists()


async def test_a_bridge_that_ends_rejects_what_waits(opencode: OpenCode, gate: Replica) -> None:
    """Nobody would answer it any more."""
    async with coding_model(TOUCH) as model:
        async with opencode.running(model):
            await opencode.prompt()
            while not (await gate.core.requests.page(Query())).items:
                await moment()
        (record,) = await ended(gate)
    assert record.decision is not None
    assert record.decision.reason is Reason.ABANDONED
    assert not (opencode.work / "made").exists()


async def test_without_a_gateway_nothing_runs(opencode: OpenCode) -> None:
    """OpenCode waits for ever, as it does without a bridge."""
    async with coding_model(TOUCH) as model, opencode.running(model, **NO_GATEWAY):
        await opencode.prompt()
        waits: list[Any] = []
        while not waits:
            async with opencode.http.get("/permission") as answer:
                waits = await answer.json()
        assert len(model.told) == 1
    assert not (opencode.work / "made").exists()
