"""The calls that PicoClaw asks about: as it writes them, and which of two questions are one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gateway.client import AsyncClient, Outcome, OutcomeKind
from gateway.client.context import PARENT_ARROW, session_name
from gateway.models import Action, ApprovalRequest, Context, Kind, Origin
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject
from gateway.wire.roles import Role

_KINDS = {
    "exec": Kind.COMMAND,
    "write_file": Kind.FILE_CHANGE,
    "edit_file": Kind.FILE_CHANGE,
    "append_file": Kind.FILE_CHANGE,
}
_READ_ONLY = frozenset({"read_file", "list_dir"})
_LINES = dict.fromkeys(("offset", "length", "start_line", "max_lines"), Role.PART)
# Those of the tools that the gateway's own table of known tools has no row for.
_ROLES: dict[str, dict[str, Role]] = {
    "read_file": {"path": Role.READ, **_LINES},
    "list_dir": {"path": Role.FOLDER},
    "load_image": {"path": Role.READ},
    "send_file": {"path": Role.READ},
    "web_fetch": {"url": Role.URL},
}


class BadParams(ValueError):
    """The parameters of a method cannot be read."""


@dataclass(frozen=True, slots=True)
class PicoClawCall:
    """One call of a tool, as PicoClaw describes it."""

    tool: str
    arguments: JsonObject
    session: str
    turn: str
    parent_turn: str
    agent: str
    iteration: Any
    origin: Origin

    @classmethod
    def read(cls, params: JsonObject) -> PicoClawCall:
        """Read the parameters of a method about a tool, of any version. Raises BadParams."""
        meta = _object(params, "meta")
        inbound = {**params, **_object(_object(params, "context"), "inbound")}
        tool = read_text(params, "tool")
        if not tool:
            raise BadParams("tool is missing")
        agent = read_text(meta, "AgentID")
        return cls(
            tool=tool,
            arguments=_object(params, "arguments"),
            session=read_text(meta, "SessionKey"),
            turn=read_text(meta, "TurnID"),
            parent_turn=read_text(meta, "ParentTurnID"),
            agent=agent,
            iteration=_member(meta, "Iteration"),
            origin=Origin(
                framework="picoclaw",
                parent_agent=agent or None,
                channel=read_text(inbound, "channel") or None,
                chat=read_text(inbound, "chat_id") or None,
                sender=read_text(inbound, "sender_id") or None,
            ),
        )

    @property
    def key(self) -> str:
        """What `before_tool` and `approve_tool` of one call have in common."""
        return self.key_of(self.arguments)

    def key_of(self, arguments: JsonObject) -> str:
        """Return the key that this call has with other arguments."""
        place = [self.agent, self.session, self.turn, self.iteration]
        return sha256_hex(canonical([*place, self.tool, arguments]))

    def make_request(
        self, client: AsyncClient, where: Context, allowed: Sequence[Action], *, timeout: float
    ) -> ApprovalRequest:
        """Return the request that is made of this call."""
        turns = [name for name in (self.parent_turn, self.turn) if name]
        return client.request(
            self.tool,
            self.arguments,
            kind=_KINDS.get(self.tool, Kind.TOOL),
            session=session_name(self.session) if self.session else None,
            turn=PARENT_ARROW.join(turns) or None,
            origin=self.origin,
            context=where,
            roles=_ROLES.get(self.tool),
            read_only=self.tool in _READ_ONLY,
            allowed=allowed,
            timeout=timeout,
        )


class PicoClawQuestion:
    """What was asked about a call; its answer lets at most one call run."""

    Asked: TypeAlias = tuple[ApprovalRequest | None, Outcome]

    def __init__(self, call: PicoClawCall, task: asyncio.Task[PicoClawQuestion.Asked]) -> None:
        self.call = call
        self.task = task

    async def outcome(self) -> Outcome:
        """Wait for the answer. Whoever gives up waiting withdraws the question."""
        try:
            await asyncio.wait({self.task})
        except asyncio.CancelledError:
            self.task.cancel()
            raise
        if self.task.cancelled():
            return Outcome(kind=OutcomeKind.CANCELLED, message="the question was withdrawn")
        return self.task.result()[1]

    @property
    def request(self) -> ApprovalRequest | None:
        """The request, once it is answered."""
        ended = self.task.done() and not self.task.cancelled() and not self.task.exception()
        return self.task.result()[0] if ended else None

    @property
    def runs(self) -> str | None:
        """The key of the call that may run."""
        if self.request is None:
            return None
        outcome = self.task.result()[1]
        approved = outcome.runs and outcome.arguments is not None
        return self.call.key_of(outcome.arguments or {}) if approved else None

    def may_run(self, call: PicoClawCall) -> bool:
        """Whether this call was approved."""
        return self.runs == call.key


class PendingCalls:
    """The questions of `before_tool` that no `approve_tool` has taken yet."""

    def __init__(self, skip: Callable[[ApprovalRequest], None]) -> None:
        self._skip = skip
        self._open: list[PicoClawQuestion] = []
        self._tasks: set[asyncio.Task[PicoClawQuestion.Asked]] = set()

    def open(
        self,
        call: PicoClawCall,
        asking: Coroutine[Any, Any, PicoClawQuestion.Asked],
        lifetime: float,
    ) -> PicoClawQuestion:
        """Ask about a call. Its answer is kept for `approve_tool` until its time is over."""
        task = asyncio.create_task(asking)
        question = PicoClawQuestion(call, task)
        self._open.append(question)
        self._tasks.add(task)
        loop = asyncio.get_running_loop()
        ends = loop.time() + lifetime

        def note(task: asyncio.Task[PicoClawQuestion.Asked]) -> None:
            self._tasks.discard(task)
            loop.call_at(ends, self._lapse, question)

        task.add_done_callback(note)
        return question

    def claim(self, call: PicoClawCall) -> PicoClawQuestion | None:
        """Return the question about a call, for one `approve_tool` only: one that approved it, else
        one that waits, else one with another end."""
        key = call.key
        mine = [one for one in self._open if key == one.runs]
        mine += [one for one in self._open if key == one.call.key and not one.task.done()]
        mine += [one for one in self._open if key == one.call.key]
        if mine:
            self._open.remove(mine[0])
            return mine[0]
        return None

    def forget(self, question: PicoClawQuestion) -> None:
        """Keep a question for no `approve_tool`."""
        if question in self._open:
            self._open.remove(question)

    async def close(self) -> None:
        """Withdraw what still waits, and report what was approved and never run."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for question in list(self._open):
            self._lapse(question)

    def _lapse(self, question: PicoClawQuestion) -> None:
        if question in self._open:
            self._open.remove(question)
            if question.runs and question.request is not None:
                self._skip(question.request)


def normal_kind(event: JsonObject) -> str:
    """Return the kind of an event in one spelling: `tool_exec_end` is `agent.tool.exec_end`."""
    kind = read_text(event, "Kind").removeprefix("agent.")
    return kind.replace("_", ".")


def read_text(values: JsonObject, name: str) -> str:
    """Return a text by any spelling of its name; empty where it is missing. Raises BadParams."""
    found = _member(values, name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise BadParams(f"{name} must be a text")
    return found


def _object(values: JsonObject, name: str) -> JsonObject:
    found = values.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadParams(f"{name} must be an object")
    return found


def _member(values: JsonObject, name: str) -> Any:
    """Return a member by its name, whatever case and underscores it is written with."""
    wanted = _plain(name)
    return next((value for key, value in values.items() if _plain(key) == wanted), None)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
