"""A plugin for gptme that gates its tools, through `tool.confirm` and `elicit`. Start at `plugin`.

gptme loads the plugin through the entry point `gptme.plugins`. The plugin is off until the user's
settings contain `enabled = true` under `[plugin.approval_gateway]`. A project's settings can turn
the plugin on, never off. If the plugin is on and no gateway answers, the tool does not run.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.client import Client, Outcome, OutcomeKind
from gateway.client.blocking_client import current_client
from gateway.client.context import session_name
from gateway.errors import GatewayError
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    Execution,
    FieldKind,
    Kind,
    Option,
    Origin,
    Preview,
    Question,
    Status,
)
from gateway.wire.codec import JsonObject
from gateway.wire.roles import Role

if TYPE_CHECKING:
    from gptme.config import Config
    from gptme.hooks.confirm import ConfirmationResult
    from gptme.hooks.elicitation import ElicitationRequest, ElicitationResponse, FormField
    from gptme.hooks.types import StopPropagation, ToolExecutePostData
    from gptme.message import Message
    from gptme.plugins.plugin import GptmePlugin
    from gptme.tools.base import ToolUse

log = logging.getLogger("gateway.integrations")

NAME = "approval_gateway"
PRIORITY = 5
"""Above gptme's own question at the terminal (0), below its allow lists (10) and server (100)."""

_BEFORE_ALL = 1_000_000
_LONGEST_PREVIEW = 20_000
_MOST_RUNNING = 100
_READ_BACK_SECONDS = 5.0
# Tools with a text that people can edit: the name of the text, and the name of the first word in
# the Markdown format.
_TEXTS = {
    "shell": ("command", None),
    "save": ("content", "path"),
    "append": ("content", "path"),
    "patch": ("patch", "path"),
}
_ROLES: dict[str, dict[str, Role]] = {
    "shell": {"command": Role.COMMAND},
    "save": {"path": Role.WRITE, "content": Role.DATA},
    "append": {"path": Role.WRITE, "content": Role.DATA},
    "patch": {"path": Role.WRITE, "patch": Role.PATCH},
    "ipython": {"code": Role.ACTION},
}
_KINDS = {"shell": Kind.COMMAND} | dict.fromkeys(("save", "append", "patch"), Kind.FILE_CHANGE)
_ALLOWED = (Action.APPROVE, Action.DENY, Action.ABORT)
_FAILED = "Error during execution:"
_FIELDS = {
    "secret": FieldKind.TEXT,
    "choice": FieldKind.CHOICE,
    "multi_choice": FieldKind.CHOICES,
    "boolean": FieldKind.BOOLEAN,
    "confirmation": FieldKind.BOOLEAN,
    "number": FieldKind.NUMBER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """An approved call. `edited` says that gptme will ask again, about the edited text."""

    tool_use: ToolUse
    request: ApprovalRequest
    edited: bool


def plugin() -> GptmePlugin:
    """Return the plugin. gptme calls this when it loads the entry point."""
    from gptme.plugins.plugin import GptmePlugin  # noqa: PLC0415 (only gptme has it)

    made = Plugin()
    return GptmePlugin(name=NAME, init=made.read_settings, register_hooks=made.register)


class Plugin:
    """The hooks and their settings, for one process of gptme."""

    def __init__(self, client: Client | None = None) -> None:
        self.enabled = False
        self.priority = PRIORITY
        self._given = client
        self._running: dict[int, _Call] = {}
        self._bridged: dict[str, None] = {}
        self._aborted: set[str | None] = set()  # conversations with an aborted turn

    def read_settings(self, config: Config) -> None:
        """Read `enabled` and `priority` from the user's `[plugin.approval_gateway]`.

        Invalid settings turn the plugin on, with the default priority. An exception would make
        gptme run without the plugin.
        """
        own: Any = config.user.plugin.get(NAME)
        projects: Any = config.project.plugin.get(NAME) if config.project else None
        self.enabled = _is_on(own) or _is_on(projects)
        priority = own.get("priority") if isinstance(own, dict) else None
        self.priority = priority if type(priority) is int else PRIORITY

    def register(self) -> None:
        """Register the hooks if the plugin is enabled."""
        if not self.enabled:
            return
        from gptme.hooks import HookType, register_hook  # noqa: PLC0415 (only gptme has it)

        register_hook(NAME, HookType.TOOL_CONFIRM, self.confirm, self.priority)
        register_hook(f"{NAME}.elicit", HookType.ELICIT, self.elicit, self.priority)
        register_hook(f"{NAME}.report", HookType.TOOL_EXECUTE_POST, self.report, self.priority)
        register_hook(f"{NAME}.begin", HookType.TURN_PRE, self.begin_turn, _BEFORE_ALL)
        register_hook(f"{NAME}.end", HookType.LOOP_CONTINUE, self.end_turn, _BEFORE_ALL)

    # ------------------------------------------------------------ may this tool run?

    def confirm(
        self, tool_use: ToolUse, preview: str | None = None, workspace: Path | None = None
    ) -> ConfirmationResult:
        """Ask people whether a tool may run, wait, and return the result for gptme.

        After an edit, gptme asks again about the call with the edited text, which is already
        approved. If a person aborts, return the fixed text after which gptme's loop ends the turn.
        """
        from gptme.constants import DECLINED_CONTENT  # noqa: PLC0415 (only gptme has it)
        from gptme.hooks.confirm import ConfirmationResult  # noqa: PLC0415 (only gptme has it)

        if session_of_conversation() in self._aborted:  # a parallel call of the aborted turn
            return ConfirmationResult.skip(DECLINED_CONTENT)
        before = self._running.pop(id(tool_use), None)
        if before is not None and before.edited and before.tool_use is tool_use:
            self._keep(replace(before, edited=False))
            return ConfirmationResult.confirm()
        try:
            if self._is_bridged(tool_use):
                return ConfirmationResult.confirm()
            outcome = self._client.outcome(self._make_request(tool_use, preview, workspace))
        except GatewayError as error:  # raising would also skip the tool, but with a traceback
            log.warning("nobody was asked: %s", error)
            return ConfirmationResult.skip(f"nobody was asked: {error}")
        return self._tell(tool_use, outcome)

    def _tell(self, tool_use: ToolUse, outcome: Outcome) -> ConfirmationResult:
        """Convert an outcome to the result for gptme."""
        from gptme.constants import DECLINED_CONTENT  # noqa: PLC0415 (only gptme has it)
        from gptme.hooks.confirm import ConfirmationResult  # noqa: PLC0415 (only gptme has it)

        if outcome.abort and not _is_served():
            log.warning("%s", outcome.message)
            self._aborted.add(session_of_conversation())
            return ConfirmationResult.skip(DECLINED_CONTENT)
        if outcome.kind is OutcomeKind.RESPONDED:
            return ConfirmationResult.skip(str(outcome.result))
        if outcome.arguments is None or outcome.approval is None:
            return ConfirmationResult.skip(outcome.message)
        request = outcome.approval.request
        self._client.report(request, Execution.STARTED)
        edited = outcome.kind is OutcomeKind.EDITED
        self._keep(_Call(tool_use=tool_use, request=request, edited=edited))
        if not edited:
            return ConfirmationResult.confirm()
        return ConfirmationResult.edit(outcome.arguments[text_of(tool_use.tool)])

    def begin_turn(self) -> None:
        """Start a turn: after an abort, let the conversation ask people again."""
        self._aborted.discard(session_of_conversation())

    def end_turn(
        self, prompt_queue: list[Message] | None = None
    ) -> Generator[StopPropagation, None, None]:
        """After an aborted turn, drop the queued prompts, as Ctrl-C does, and the prompts that
        other hooks would add."""
        from gptme.hooks import StopPropagation  # noqa: PLC0415 (only gptme has it)

        if session_of_conversation() in self._aborted:
            self.begin_turn()
            if prompt_queue is not None:
                prompt_queue.clear()
            yield StopPropagation()

    def _make_request(
        self, tool_use: ToolUse, preview: str | None, workspace: Path | None
    ) -> ApprovalRequest:
        arguments = arguments_of(tool_use)
        return self._client.request(
            tool_use.tool,
            arguments,
            preview=_preview(preview, arguments),
            context=Context(cwd=str(workspace or Path.cwd()), host=socket.gethostname()),
            origin=Origin(framework="gptme", tool_call_id=tool_use.call_id),
            session=session_of_conversation(),
            **details_of(tool_use.tool, arguments, more=(Action.RESPOND,)),
        )

    def _is_bridged(self, tool_use: ToolUse) -> bool:
        """Return whether people have already approved this call through the bridge, so that gptme's
        server runs the call now. Each approval of the bridge counts once."""
        for request_id in _ids_that_run() - set(self._bridged):
            try:
                if self._client.fetch(request_id).status is not Status.APPROVED:
                    continue
                approval = self._client.wait_id(request_id, timeout=_READ_BACK_SECONDS, rerun=True)
            except GatewayError as error:  # no request of the bridge: ask people below
                log.debug("%s was not asked by a bridge: %s", request_id, error)
                continue
            same = approval.request.tool, approval.arguments, approval.request.session
            if same == (tool_use.tool, arguments_of(tool_use), session_of_conversation()):
                self._bridged[request_id] = None
                if len(self._bridged) > _MOST_RUNNING:
                    del self._bridged[next(iter(self._bridged))]
                return True
        return False

    def _keep(self, call: _Call) -> None:
        self._running[id(call.tool_use)] = call
        if len(self._running) > _MOST_RUNNING:  # gptme does not report the end of every call
            del self._running[next(iter(self._running))]

    @property
    def _client(self) -> Client:
        return self._given or current_client("gptme")

    # ------------------------------------------------------------ how did it end?

    def report(self, data: ToolExecutePostData) -> Generator[Message, None, None]:
        """Report whether an approved tool succeeded, as far as gptme reports that."""
        call = self._running.pop(id(data.tool_use), None)
        if call is not None and call.tool_use is data.tool_use:
            failed = any(one.content.startswith(_FAILED) for one in data.result_msgs or ())
            execution = Execution.FAILED if failed else Execution.SUCCEEDED
            self._client.report(call.request, execution)
        yield from ()

    # ------------------------------------------------------------ questions

    def elicit(self, request: ElicitationRequest) -> ElicitationResponse:
        """Let a person answer a question of gptme. Without an answer, the question is cancelled."""
        from gptme.hooks.elicitation import ElicitationResponse  # noqa: PLC0415 (only gptme has it)

        fields = _fields(request)
        try:
            answers = self._client.question(
                request.prompt,
                *fields,
                hint=request.description or "",
                session=session_of_conversation(),
                origin=Origin(framework="gptme"),
            )
        except GatewayError:
            return ElicitationResponse.cancel()
        return _response(request, answers)


def arguments_of(tool_use: ToolUse) -> JsonObject:
    """Return all arguments of a call. Their names are the same for all tool formats of gptme."""
    text, first = _TEXTS.get(tool_use.tool, ("code" if tool_use.tool == "ipython" else "", None))
    named: JsonObject = dict(tool_use.kwargs or {})
    words = list(tool_use.args or [])
    if first and words and first not in named:
        # As gptme reads it: all words are the path, and the tool's name may come first.
        named[first] = " ".join(words).removeprefix(f"{tool_use.tool} ")
        words = []
    if tool_use.content is not None and text and text not in named:
        named[text] = tool_use.content
    elif tool_use.content is not None:
        named = {"content": tool_use.content, "kwargs": named}
    return {**named, **({"args": words} if words else {})}


def details_of(tool: str, arguments: JsonObject, *, more: tuple[Action, ...] = ()) -> JsonObject:
    """Return kind, roles, actions and edit schema for a request about a call.

    gptme supports an edit and the `more` actions only for a tool with an editable text.
    """
    text = text_of(tool)
    has_text = isinstance(arguments.get(text), str)
    roles = _ROLES.get(tool, {})
    return {
        "kind": _KINDS.get(tool, Kind.TOOL),
        "allowed": _ALLOWED + ((Action.EDIT, *more) if has_text else ()),
        "schema": _only_text_changes(text, arguments) if has_text else None,
        "roles": {name: str(role) for name, role in roles.items() if name in arguments},
    }


def text_of(tool: str) -> str:
    """Return the name of the argument that people can edit in gptme, "" if the tool has none."""
    return _TEXTS.get(tool, ("", None))[0]


def session_of_conversation() -> str | None:
    """Return the session of the current conversation. A continued conversation keeps its
    session."""
    from gptme.hooks import current_conversation_id  # noqa: PLC0415 (only gptme has it)
    from gptme.logmanager import LogManager  # noqa: PLC0415 (only gptme has it)

    if served := current_conversation_id.get():
        return session_name(served)
    log = LogManager.get_current_log()
    return session_name(log.logdir.name) if log else None


def _is_on(settings: Any) -> bool:
    """Return whether settings turn the plugin on. Invalid settings turn it on."""
    if settings is None:
        return False
    return not isinstance(settings, dict) or settings.get("enabled", False) is not False


def _is_served() -> bool:
    """Return whether this is gptme's server, where nobody can press Ctrl-C."""
    from gptme.hooks import current_session_id  # noqa: PLC0415 (only gptme has it)

    return current_session_id.get() is not None


def _ids_that_run() -> set[str]:
    """Return the request ids of the calls that gptme's server is running in this session."""
    from gptme.hooks import current_session_id  # noqa: PLC0415 (only gptme has it)

    if (served := current_session_id.get()) is None:
        return set()
    from gptme.server.api_v2_sessions import SessionManager  # noqa: PLC0415 (its server has it)

    session = SessionManager.get_session(served)
    running = getattr(session, "_executing_tools", ())
    return {one.replace("-", "") for one in list(running)}


def _preview(preview: str | None, arguments: JsonObject) -> Preview | None:
    """Return gptme's preview of the change, None if the arguments already contain it."""
    if not preview or preview in arguments.values():
        return None
    diff = any(line.startswith(("+++ ", "@@ ")) for line in preview.splitlines())
    return Preview(format="diff" if diff else "text", text=preview[:_LONGEST_PREVIEW])


def _only_text_changes(text: str, arguments: JsonObject) -> JsonObject:
    """Return a JSON Schema that lets an edit change only the tool's text."""
    fixed = {name: {"const": value} for name, value in arguments.items()}
    return {
        "type": "object",
        "properties": {**fixed, text: {"type": "string", "minLength": 1}},
        "required": list(arguments),
        "additionalProperties": False,
    }


def _fields(request: ElicitationRequest) -> list[Question]:
    if request.type == "form":
        return [_form_field(one) for one in request.fields or ()]
    return [
        Question(
            id="answer",
            text=request.prompt,
            kind=_FIELDS.get(request.type, FieldKind.TEXT),
            options=tuple(Option(value=one) for one in request.options or ()),
            secret=request.sensitive,
        )
    ]


def _form_field(field: FormField) -> Question:
    return Question(
        id=field.name,
        text=field.prompt,
        kind=_FIELDS.get(field.type, FieldKind.TEXT),
        options=tuple(Option(value=one) for one in field.options or ()),
        required=field.required,
        secret=field.type == "secret",
    )


def _response(request: ElicitationRequest, answers: JsonObject) -> ElicitationResponse:
    import json  # noqa: PLC0415 (only for a form)

    from gptme.hooks.elicitation import ElicitationResponse  # noqa: PLC0415 (only gptme has it)

    if request.type == "form":
        secret = any(one.type == "secret" for one in request.fields or ())
        return ElicitationResponse.text(json.dumps(answers), sensitive=request.sensitive or secret)
    answer = answers.get("answer")
    if request.type == "multi_choice":
        return ElicitationResponse.multi(list(answer or []))
    if request.type == "confirmation":
        return ElicitationResponse.text("yes" if answer is True else "no")
    if answer is None:
        return ElicitationResponse.cancel()
    return ElicitationResponse.text(str(answer), sensitive=request.sensitive)
