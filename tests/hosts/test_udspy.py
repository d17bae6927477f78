"""udspy itself, as it is published: functions, its ReAct loop, threads and tasks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.conftest import NO_GATEWAY, Answer, environment, run
from tests.hosts.model_server import Model, model_server
from tests.ports import free_port
from tests.waiting import moment

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

COMMON = """
import asyncio, os, sys
from pydantic import Field
import udspy
from udspy import (
    ConfirmationRejected, ConfirmationRequired, InputField, OutputField, ReAct, Signature,
    confirm_first, get_confirmation_status, respond_to_confirmation, tool,
)
from udspy.confirmation import get_confirmation_context
from gateway.integrations.frameworks.udspy import Refused, call, call_blocking, confirm, forward

ran = []

@confirm_first
def delete(path: str, force: bool = False) -> str:
    ran.append([path, force])
    if path == "broken":
        raise OSError("it is broken")
    return f"deleted {path}"

@tool(name="remove", description="Removes a file", require_confirmation=True)
def remove(path: str = Field(...)) -> str:
    return delete.__wrapped__(path)

@tool(name="ask_person", description="Asks")
def ask_person(question: str = Field(...)) -> str:
    raise ConfirmationRequired(question)

class Work(Signature):
    '''Do what is asked.'''
    question: str = InputField()
    answer: str = OutputField()

def agent():
    lm = udspy.LM(model="m", api_key="none", base_url=os.environ["MODEL"])
    udspy.settings.configure(lm=lm)
    return ReAct(Work, tools=[remove, ask_person], max_iters=4)

def told(work):
    try:
        print(work())
    except Refused as refusal:
        print("refused:", refusal, "|", refusal.outcome.kind)
    print(ran, get_confirmation_context())
"""
FUNCTION = "told(lambda: call_blocking(delete, 'a.txt'))"
FINISH = {"next_thought": "t", "next_tool_name": "finish", "next_tool_args": {}}
END = json.dumps({"reasoning": "r", "answer": "all done"})
REACT = "told(lambda: asyncio.run(forward(agent(), question='remove a.txt')).answer)"


def step(name: str, **arguments: str) -> str:
    """Return what the model says to call a tool."""
    return json.dumps({"next_thought": "t", "next_tool_name": name, "next_tool_args": arguments})


class Script:
    """Runs Python beside udspy."""

    def __init__(self, gate: Replica, installed: Path, folder: Path) -> None:
        self.gate, self.installed, self.folder = gate, installed, folder

    async def run(self, code: str, model: Model | None = None, **more: str) -> list[str]:
        """Return the lines that the code printed."""
        env = environment(self.gate, self.folder, MODEL=model.url if model else "", **more)
        python = str(self.installed / "bin" / "python")
        code_, said = await run(python, "-c", COMMON + code, env=env, cwd=self.folder)
        assert code_ == 0, said
        return said.strip().splitlines()


@pytest.fixture
def script(gate: Replica, installed: Path, tmp_path: Path) -> Script:
    """Return what runs code beside udspy."""
    return Script(gate, installed, tmp_path)


async def test_an_approved_function_runs_once(script: Script, answer: Answer) -> None:
    """Nothing of the approval stays behind; the card has the arguments by name."""
    running = asyncio.create_task(script.run(FUNCTION))
    record = await answer()
    assert await running == ["deleted a.txt", "[['a.txt', False]] {}"]
    request = record.request
    assert (request.tool, request.arguments) == ("delete", {"path": "a.txt", "force": False})
    assert request.origin.framework == "udspy"
    assert request.session.startswith("run-")


async def test_an_edited_function_runs_as_edited(script: Script, answer: Answer) -> None:
    """The edit is udspy's `data`."""
    running = asyncio.create_task(script.run(FUNCTION))
    await answer("edit", arguments={"path": "b.txt", "force": True})
    assert await running == ["deleted b.txt", "[['b.txt', True]] {}"]


async def test_an_edit_to_nothing_does_not_run_the_original(script: Script, answer: Answer) -> None:
    """To udspy no data means the arguments of before."""
    running = asyncio.create_task(script.run(FUNCTION))
    await answer("edit", arguments={})
    first, last = await running
    assert first.startswith("refused: an edit that leaves no arguments")
    assert last == "[] {}"


async def test_a_denied_function_raises_udspys_own_exception(
    script: Script, answer: Answer
) -> None:
    """With the person's words, and nothing sticky."""
    running = asyncio.create_task(script.run(FUNCTION))
    await answer("deny", message="keep it")
    assert await running == ["refused: denied by ann: keep it | denied", "[] {}"]


async def test_a_persons_result_takes_the_functions_place(script: Script, answer: Answer) -> None:
    """Nothing runs."""
    running = asyncio.create_task(script.run(FUNCTION))
    await answer("respond", result="it is gone")
    assert await running == ["it is gone", "[] {}"]


async def test_a_failed_run_leaves_no_approval(script: Script, answer: Answer) -> None:
    """udspy alone keeps it, and would run the call again unasked."""
    code = """
try:
    call_blocking(delete, "broken")
except OSError as error:
    print(error, get_confirmation_context())
"""
    running = asyncio.create_task(script.run(code))
    await answer()
    assert await running == ["it is broken {}"]


async def test_without_a_gateway_nothing_runs(script: Script) -> None:
    """It is a refusal that says so."""
    lines = await script.run(
        FUNCTION, GATEWAY_URL="http://127.0.0.1:9", GATEWAY_CONNECT_TIMEOUT="0.1"
    )
    assert any(line.startswith("refused:") and "unreachable" in line for line in lines)
    assert lines[-1] == "[] {}"


async def test_without_a_gateway_the_model_hears_why_and_goes_on(script: Script) -> None:
    """Nothing runs; a missing token is said before the model is called."""
    async with model_server(step("remove", path="a.txt"), json.dumps(FINISH), END) as model:
        assert (await script.run(REACT, model, **NO_GATEWAY))[-2:] == ["all done", "[] {}"]
        assert "the gateway at 127.0.0.1:9 does not respond" in model.heard
        asked = len(model.told)
        code = f"""
try:
    {REACT}
except Exception as error:
    print(type(error).__name__, error)
"""
        (line,) = await script.run(code, model, **NO_GATEWAY, GATEWAY_TOKEN="")
        assert line.startswith("InvalidRequest no token for the gateway")
        assert len(model.told) == asked


async def test_the_states_of_udspy(script: Script, answer: Answer) -> None:
    """pending, edited and feedback reach `get_confirmation_status` by `confirm`."""
    code = """
async def main():
    try:
        delete("a.txt")
    except ConfirmationRequired as required:
        print(get_confirmation_status(required.confirmation_id))
        for _ in range(3):
            await confirm(required)
            print(get_confirmation_status(required.confirmation_id))
asyncio.run(main())
"""
    running = asyncio.create_task(script.run(code))
    await answer("edit", arguments={"path": "b.txt", "force": False})
    await answer("deny", message="first make a copy", feedback=True)
    await answer("approve")
    assert await running == ["pending", "edited", "feedback", "approved"]


async def test_the_react_loop_goes_on_after_an_approval(script: Script, answer: Answer) -> None:
    """The model says its call once, and hears what came of the edited one."""
    finish = json.dumps(FINISH)
    async with model_server(step("remove", path="a.txt"), finish, END) as model:
        running = asyncio.create_task(script.run(REACT, model))
        await answer("edit", arguments={"path": "b.txt"})
        assert await running == ["all done", "[['b.txt', False]] {}"]
        assert "deleted b.txt" in model.heard
        assert len(model.told) == 3


async def test_the_react_loop_hears_a_denial(script: Script, answer: Answer) -> None:
    """In the person's words, without a traceback."""
    finish = json.dumps(FINISH)
    async with model_server(step("remove", path="a.txt"), finish, END) as model:
        running = asyncio.create_task(script.run(REACT, model))
        await answer("deny", message="not today")
        assert await running == ["all done", "[] {}"]
        assert "not today" in model.heard
        assert "Traceback" not in model.heard


async def test_an_abort_ends_the_react_loop(script: Script, answer: Answer) -> None:
    """The model is not asked again."""
    async with model_server(step("remove", path="a.txt")) as model:
        running = asyncio.create_task(script.run(REACT, model))
        await answer("abort", abort="turn", message="stop")
        first, last = await running
        assert first.startswith("refused:")
        assert (last, len(model.told)) == ("[] {}", 1)


async def test_a_question_of_an_agent_is_answered(script: Script, answer: Answer) -> None:
    """It is a question with a field, not an approval."""
    finish = json.dumps(FINISH)
    async with model_server(step("ask_person", question="Which?"), finish, END) as model:
        running = asyncio.create_task(script.run(REACT, model))
        record = await answer("answer", answers={"answer": "the red one"})
        assert (await running)[0] == "all done"
        assert "the red one" in model.heard
    assert record.request.kind == "question"


async def test_contexts_of_tasks_and_threads_stay_apart(
    script: Script, answer: Answer, gate: Replica
) -> None:
    """Each asks on its own, and the approval of one never runs another's call."""
    code = """
from threading import Thread
async def both():
    return await asyncio.gather(
        call(delete, "one"), call(delete, "two"), return_exceptions=True)
print([str(one) for one in asyncio.run(both())])
thread = Thread(target=lambda: print(call_blocking(delete, "three")))
thread.start(); thread.join()
print(sorted(ran), get_confirmation_context())
"""
    running = asyncio.create_task(script.run(code))
    items = await gate.waiting(2)
    for record in items:
        denied = record.request.arguments["path"] == "one"
        assert (await gate.decided(record.id, "deny" if denied else "approve")).status == 200
    await answer()
    lines = await running
    assert "denied by ann" in lines[0] and "deleted two" in lines[0]
    assert lines[1:] == ["deleted three", "[['three', False], ['two', False]] {}"]


EXAMPLES = ROOT / "examples" / "udspy"


def example(script: Script, model: Model) -> dict[str, str]:
    """Return the environment in which an example runs."""
    return environment(script.gate, script.folder, MODEL="m", MODEL_URL=model.url)


async def test_the_command_line_example(script: Script, answer: Answer) -> None:
    """It waits for its answer, and does what was approved."""
    (script.folder / "b.txt").touch()
    python, code = script.installed / "bin" / "python", EXAMPLES / "command_line.py"
    async with model_server(step("delete_file", path="a.txt"), json.dumps(FINISH), END) as model:
        env = example(script, model)
        running = asyncio.create_task(
            run(str(python), str(code), "Delete a.txt", env=env, cwd=script.folder)
        )
        await answer("edit", arguments={"path": "b.txt"})
        assert await running == (0, "all done\n")
    assert not (script.folder / "b.txt").exists()


async def test_the_batch_example(script: Script, gate: Replica) -> None:
    """Two agents ask side by side; each hears its own answer."""
    for name in ("a.txt", "b.txt"):
        (script.folder / name).touch()
    python, code = script.installed / "bin" / "python", EXAMPLES / "batch.py"
    turns = {
        name: [step("delete_file", path=name), json.dumps(FINISH), END]
        for name in ("a.txt", "b.txt")
    }
    async with model_server(apart=turns) as model:
        running = asyncio.create_task(
            run(
                *(str(python), str(code), "a.txt", "b.txt"),
                env=example(script, model),
                cwd=script.folder,
            )
        )
        items = await gate.waiting(2)
        for record in items:
            action = "deny" if record.request.arguments["path"] == "a.txt" else "approve"
            assert (await gate.decided(record.id, action)).status == 200
        assert await running == (0, "a.txt: all done\nb.txt: all done\n")
    assert (script.folder / "a.txt").exists()
    assert not (script.folder / "b.txt").exists()


@asynccontextmanager
async def web_session(script: Script, model: Model) -> AsyncIterator[str]:
    """Run the example's service in a process of its own; yield its address."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(str(script.installed / "bin" / "python"), str(EXAMPLES / "web_session.py")),
        *(str(script.folder), str(port)),
        env=example(script, model),
        cwd=script.folder,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def call_service(url: str, **body: str) -> dict[str, str]:
    """Call the example's service as soon as it is there."""
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.post(url, json=body) as response:
                    answer: dict[str, str] = await response.json(content_type=None)
                    return answer
            except aiohttp.ClientConnectorError:
                await moment()


async def test_the_web_session_goes_on_in_another_process(script: Script, answer: Answer) -> None:
    """The first process dies while people think; the second runs what was approved, once."""
    (script.folder / "a.txt").touch()
    async with model_server(step("delete_file", path="a.txt"), json.dumps(FINISH), END) as model:
        async with web_session(script, model) as url:
            waits = await call_service(f"{url}/start", question="Delete a.txt")
            assert await call_service(f"{url}/resume", **waits) == waits
        record = await answer()
        assert record.id == waits["waits"]
        async with web_session(script, model) as url:
            assert await call_service(f"{url}/resume", **waits) == {"answer": "all done"}
            async with (
                aiohttp.ClientSession() as late,
                late.post(f"{url}/resume", json=waits) as ended,
            ):
                assert ended.status == 404
        assert "deleted a.txt" in model.heard
        assert len(model.told) == 3
    assert list(script.folder.glob("*.json")) == []


async def test_what_was_kept_elsewhere_decides_nothing(script: Script, answer: Answer) -> None:
    """What runs after a suspension is what the gateway has; a second resume runs nothing."""
    code = """
from gateway.integrations.frameworks.udspy import Suspended, begin, resume
async def main():
    waiting = await begin(agent(), question="remove a.txt")
    print(waiting.request_id, flush=True)
    while isinstance(after := await resume(agent(), waiting, timeout=60), Suspended):
        pass
    print(after.answer, ran)
    print((await resume(agent(), waiting)).answer, ran)
asyncio.run(main())
"""
    finish = json.dumps(FINISH)
    async with model_server(step("remove", path="a.txt"), finish, END, finish, END) as model:
        running = asyncio.create_task(script.run(code, model))
        record = await answer()
        said, *lines = await running
        assert said.startswith("gateway client: waiting for approval of 'remove': answer at ")
        assert lines == [record.id, *["all done [['a.txt', False]]"] * 2]
        assert "already" in str(model.told[-1])


async def test_an_agent_that_asks_from_within_is_not_suspended(script: Script) -> None:
    """Its wait could not leave the process, so it is said before anybody is asked."""
    code = """
from gateway.integrations.frameworks.udspy import begin
@tool(name="remove_all", description="Removes all")
def remove_all(path: str = Field(...)) -> str:
    return delete(path)
def agent_within():
    one = agent()
    return ReAct(Work, tools=[remove_all], max_iters=4)
try:
    asyncio.run(begin(agent_within(), question="remove"))
except Exception as error:
    print(type(error).__name__, error)
"""
    async with model_server(step("remove_all", path="a.txt")) as model:
        [line] = await script.run(code, model)
    assert line.startswith("GatewayError a tool of this agent asks while it runs")
