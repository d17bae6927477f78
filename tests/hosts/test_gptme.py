"""gptme itself, as it is published, with the plugin: each answer, and what its model is told."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.records import Query
from gateway.models import Execution, FieldKind
from tests.api.replica import Replica
from tests.hosts.conftest import Answer, environment, run
from tests.hosts.model_server import Model, model_server

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

ON = "[plugin.approval_gateway]\nenabled = true\n"
TOUCH = "I do it.\n\n```shell\ntouch made\n```\n"
DIFFER = {
    *("test_no_hook_auto_confirm", "test_bool_return_compatibility"),
    *("test_with_confirm_hook", "test_with_skip_hook", "test_with_edit_hook"),
    *("test_registered_hook_is_used", "test_hook_fallthrough_to_next"),
    "test_no_hook_interactive_uses_cli",
}
"""gptme's own tests that expect another hook, or none, to be asked; ours is asked before it."""

SAVE = "I do it.\n\n```save note.txt\nfirst\n```\n"


class Talk:
    """One run of gptme with a scripted model in a folder of its own."""

    def __init__(self, gate: Replica, installed: Path, folder: Path) -> None:
        self._gate, self._installed, self.folder = gate, installed, folder
        self.work = folder / "work"
        self.work.mkdir()
        self.settings(ON)

    def settings(self, text: str) -> None:
        """Write the user's settings."""
        config = self.folder / ".config" / "gptme" / "config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(f"[prompt]\n[env]\n{text}")

    async def start(self, model: Model, *words: str, **env: str) -> tuple[int, str]:
        """Run gptme to its end, without a terminal."""
        return await run(
            str(self._installed / "bin" / "gptme"),
            *("-n", "-m", "local/m", "--tools", "shell,save,patch,ipython,elicit", "--no-stream"),
            *("--name", "talk", *(words or ("go",))),
            env=environment(
                self._gate,
                self.folder,
                OPENAI_BASE_URL=model.url,
                OPENAI_API_KEY="none",
                GPTME_TIKTOKEN_TIMEOUT="0",
                **env,
            ),
            cwd=self.work,
        )


@pytest.fixture
def talk(gate: Replica, installed: Path, tmp_path: Path) -> Talk:
    """Return gptme with the plugin enabled."""
    return Talk(gate, installed, tmp_path)


async def ended(gate: Replica) -> list[Execution | None]:
    """Return what became of each request that ended."""
    items = (await gate.core.requests.page(Query(final=True))).items
    return [one.report.execution if one.report else None for one in items]


async def test_an_approved_command_runs_and_is_reported(
    talk: Talk, answer: Answer, gate: Replica
) -> None:
    """Even under `-n`, where gptme asks nobody; the card has the command, folder and session."""
    async with model_server(TOUCH) as model:
        running = asyncio.create_task(talk.start(model))
        record = await answer()
        code, said = await running
    assert code == 0, said
    assert (talk.work / "made").exists()
    request = record.request
    assert (request.tool, request.arguments) == ("shell", {"command": "touch made"})
    assert request.context.cwd == str(talk.work)
    assert (request.session, request.origin.framework) == ("talk", "gptme")
    assert await ended(gate) == [Execution.SUCCEEDED]


async def test_a_denial_reaches_the_model_in_the_persons_words(talk: Talk, answer: Answer) -> None:
    """Nothing runs."""
    async with model_server(TOUCH) as model:
        running = asyncio.create_task(talk.start(model))
        await answer("deny", message="not on a Friday")
        code, said = await running
        assert "not on a Friday" in model.heard, said
    assert code == 0
    assert not (talk.work / "made").exists()


async def test_an_edited_command_runs_and_is_asked_once(
    talk: Talk, answer: Answer, gate: Replica
) -> None:
    """gptme asks again for the edited text; the plugin knows it."""
    async with model_server(TOUCH) as model:
        running = asyncio.create_task(talk.start(model))
        await answer("edit", arguments={"command": "touch other"})
        code, said = await running
    assert code == 0, said
    assert sorted(one.name for one in talk.work.iterdir() if one.name != "gptme.toml") == ["other"]
    assert await ended(gate) == [Execution.SUCCEEDED]


async def test_an_edited_file_is_saved_as_edited(talk: Talk, answer: Answer) -> None:
    """Only the text can be edited: another path is refused at the gateway."""
    async with model_server(SAVE) as model:
        running = asyncio.create_task(talk.start(model))
        record = await answer("edit", arguments={"path": "note.txt", "content": "second\n"})
        code, said = await running
    assert code == 0, said
    assert record.request.arguments["path"] == "note.txt"
    assert (talk.work / "note.txt").read_text().strip() == "second"


async def test_an_edit_of_the_path_is_refused(talk: Talk, answer: Answer, gate: Replica) -> None:
    """Nothing is decided by it, and the right answer still works."""
    async with model_server(SAVE) as model:
        running = asyncio.create_task(talk.start(model))
        with pytest.raises(AssertionError, match="422"):
            await answer("edit", arguments={"path": "../evil.txt", "content": "second\n"})
        await answer()
        code, said = await running
    assert code == 0, said
    assert (talk.work / "note.txt").read_text().strip() == "first"
    assert not (talk.folder / "evil.txt").exists()


async def test_an_answer_in_the_tools_place_reaches_the_model(talk: Talk, answer: Answer) -> None:
    """gptme skips the tool, and tells its model what the person wrote."""
    async with model_server(TOUCH) as model:
        running = asyncio.create_task(talk.start(model))
        await answer("respond", result="it is there already")
        code, said = await running
        assert "it is there already" in model.heard
    assert code == 0, said
    assert not (talk.work / "made").exists()


@pytest.mark.parametrize("tool", [TOUCH, SAVE, "I do it.\n\n```ipython\nopen('made', 'w')\n```\n"])
async def test_an_abort_ends_the_turn(talk: Talk, answer: Answer, gate: Replica, tool: str) -> None:
    """Nothing runs: not the tool, nor what the model asked for behind it, nor the next prompt. The
    model is not called again, and nobody is asked again."""
    turns = (f"{tool}\n```shell\ntouch second\n```\n", TOUCH, TOUCH)
    async with model_server(*turns) as model:
        running = asyncio.create_task(talk.start(model, "go", "-", "go on"))
        await answer("abort", abort="turn", message="stop")
        code, said = await running
        assert (code, len(model.told)) == (0, 1), said
    assert "stop" in said
    assert not [one.name for one in talk.work.iterdir()]
    assert len((await gate.core.requests.page(Query(final=True))).items) == 1


async def test_without_a_token_one_line_says_so(talk: Talk) -> None:
    """To who looks on, and to the model; nothing runs."""
    async with model_server(TOUCH) as model:
        code, said = await talk.start(model, GATEWAY_TOKEN="")
        assert "set GATEWAY_TOKEN" in model.heard
    assert code == 0
    assert "set GATEWAY_TOKEN" in said
    assert "Traceback" not in said
    assert not (talk.work / "made").exists()


async def test_after_an_aborted_turn_the_next_one_asks(talk: Talk, answer: Answer) -> None:
    """The conversation goes on where a person wants it to."""
    for words, action in ((("go",), "abort"), (("--resume", "go on"), "approve")):
        async with model_server(TOUCH) as model:
            running = asyncio.create_task(talk.start(model, *words))
            await answer(action, **({"abort": "turn"} if action == "abort" else {}))
            code, said = await running
            assert code == 0, said
    assert (talk.work / "made").exists()


async def test_a_conversation_that_goes_on_keeps_its_session(talk: Talk, answer: Answer) -> None:
    """What was remembered for the session still holds after gptme was started again."""
    sessions = []
    for words in (("go",), ("--resume", "go on")):
        async with model_server(TOUCH) as model:
            running = asyncio.create_task(talk.start(model, *words))
            sessions.append((await answer()).request.session)
            code, said = await running
            assert code == 0, said
    assert sessions == ["talk", "talk"]


async def test_enabled_without_a_gateway_runs_nothing(talk: Talk) -> None:
    """The model is told why."""
    async with model_server(TOUCH) as model:
        await talk.start(model, GATEWAY_URL="http://127.0.0.1:9", GATEWAY_CONNECT_TIMEOUT="0.1")
        assert "gateway" in model.heard
    assert not (talk.work / "made").exists()


@pytest.mark.parametrize(
    ("settings", "asks"),
    [("", False), ("[plugin.approval_gateway]\nenabled = false\n", False),
     ('[plugin.approval_gateway]\nenabled = "yes"\n', True)],
)  # fmt: skip
async def test_installed_is_not_enabled(talk: Talk, settings: str, asks: bool) -> None:
    """Without settings of the user gptme is as it was; settings that are wrong ask."""
    talk.settings(settings)
    async with model_server(TOUCH) as model:
        await talk.start(model, GATEWAY_URL="http://127.0.0.1:9", GATEWAY_CONNECT_TIMEOUT="0.1")
    assert (talk.work / "made").exists() is not asks


FORM = [
    {"name": "name", "prompt": "Name?"},
    {"name": "color", "prompt": "Color?", "type": "choice", "options": ["red", "blue"]},
    {"name": "count", "prompt": "How many?", "type": "number"},
    {"name": "sure", "prompt": "Sure?", "type": "boolean"},
    {"name": "key", "prompt": "Key?", "type": "secret", "required": False},
]


@pytest.mark.parametrize(
    ("asks", "kinds", "answers", "heard"),
    [
        ({"type": "text"}, [FieldKind.TEXT], {"answer": "word"}, "User input: word"),
        ({"type": "choice", "options": ["red", "blue"]}, [FieldKind.CHOICE],
         {"answer": "blue"}, "User input: blue"),
        ({"type": "multi_choice", "options": ["red", "blue", "gold"]}, [FieldKind.CHOICES],
         {"answer": ["red", "gold"]}, "User selected: red, gold"),
        ({"type": "secret"}, [FieldKind.TEXT], {"answer": "hush-7"}, "by user: hush-7"),
        ({"type": "confirmation"}, [FieldKind.BOOLEAN], {"answer": True}, "User confirmed: yes"),
        ({"type": "confirmation"}, [FieldKind.BOOLEAN], {"answer": False}, "User confirmed: no"),
        ({"type": "form", "fields": FORM},
         [FieldKind.TEXT, FieldKind.CHOICE, FieldKind.NUMBER, FieldKind.BOOLEAN, FieldKind.TEXT],
         {"name": "Ann", "color": "red", "count": 3, "sure": True, "key": "hush-8"}, "hush-8"),
    ],
    ids=["text", "choice", "multi_choice", "secret", "yes", "no", "form"],
)  # fmt: skip
async def test_what_gptme_asks_is_a_question(
    talk: Talk, answer: Answer, gate: Replica, asks: dict[str, Any], kinds: list[FieldKind],
    answers: dict[str, Any], heard: str,
) -> None:  # fmt: skip
    """The answer of the person is the tool's result. A secret is in no record of the gateway; that
    its model reads it is gptme's own rule."""
    spec = json.dumps({"prompt": "Which?", "description": "for the build", **asks})
    async with model_server(f"```elicit\n{spec}\n```\n") as model:
        running = asyncio.create_task(talk.start(model))
        record = await answer("answer", answers=answers)
        code, said = await running
        assert code == 0, said
        assert heard in model.heard
    questions = record.request.questions
    assert [one.kind for one in questions] == kinds
    assert questions[0].text == ("Name?" if asks["type"] == "form" else "Which?")
    assert record.request.hint == "for the build"
    assert [one.secret for one in questions] == [
        *([False] * (len(kinds) - 1)),
        asks["type"] in ("secret", "form"),
    ]
    kept = repr(await gate.core.requests.get(record.id))
    assert "hush-" not in kept


async def test_a_question_that_nobody_answers_is_cancelled(talk: Talk) -> None:
    """gptme tells its model so."""
    asks = '```elicit\n{"type": "text", "prompt": "Which?"}\n```\n'
    async with model_server(asks) as model:
        await talk.start(model, GATEWAY_URL="http://127.0.0.1:9", GATEWAY_CONNECT_TIMEOUT="0.1")
        assert "Elicitation cancelled" in model.heard


@pytest.mark.parametrize(
    "module", ["test_confirm", "test_elicitation", "test_server_confirm", "test_server_elicit"]
)
async def test_gptmes_own_tests_of_hooks_pass_beside_the_plugin(
    talk: Talk, gate: Replica, installed: Path, module: str
) -> None:
    """Installed and not enabled, it changes nothing that gptme promises."""
    python = str(installed / "bin" / "python")
    code, said = await run(
        *(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs"),
        f"gptme.hooks.tests.{module}",
        env=environment(gate, talk.folder),
        cwd=talk.work,
    )
    assert code == 0, said
    assert "passed" in said


async def test_gptmes_own_tests_of_hooks_with_the_hook_registered(
    talk: Talk, gate: Replica, installed: Path
) -> None:
    """Only those differ that ask in a process where a gateway must answer, and none does."""
    hooked = Path(__file__).with_name("gptme_hooked.py")
    (talk.folder / "plugins").mkdir()
    (talk.folder / "plugins" / hooked.name).write_text(hooked.read_text())
    modules = ("test_confirm", "test_elicitation", "test_server_confirm", "test_server_elicit")
    code, said = await run(
        *(str(installed / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("-p", "gptme_hooked", "--tb=no", "--pyargs"),
        *(f"gptme.hooks.tests.{one}" for one in modules),
        env=environment(
            gate,
            talk.folder,
            PYTHONPATH=str(talk.folder / "plugins"),
            GATEWAY_URL="http://127.0.0.1:9",
            GATEWAY_CONNECT_TIMEOUT="0.1",
        ),
        cwd=talk.work,
    )
    assert code == 1, said
    failed = re.findall(r"^FAILED \S*::(\w+)", said, re.MULTILINE)
    assert set(failed) == DIFFER, said
    assert len(failed) == len(DIFFER)
    assert "84 passed" in said
