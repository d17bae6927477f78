"""All hook processes together, asked in their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gateway.models import Risk
from gateway.policy.hooks.config import Hook, read_hooks
from gateway.policy.hooks.process import HookFailed, HookProcess
from gateway.policy.hooks.replies import (
    HookAction,
    HookApproval,
    HookReply,
    ToolCall,
    approval,
    other_answer,
    tool_answer,
)
from gateway.wire.codec import JsonObject

# Which member of the parameters each of these may change.
_CHANGES = {"before_llm": "request", "after_llm": "response", "after_tool": "result"}


class Intercepted(NamedTuple):
    """A call as hooks left it, the answer that ended it or the last one, whose it is, and the risks
    that they raised, each with the hook's name."""

    call: ToolCall
    answer: HookReply
    by: str
    risks: tuple[tuple[str, Risk], ...]


class HookHost:
    """Hosts the processes of a hooks file."""

    def __init__(self, hooks: Mapping[str, Hook]) -> None:
        self._hooks = [HookProcess(name, hook) for name, hook in hooks.items()]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep all processes running."""
        async with AsyncExitStack() as stack:
            for hook in self._hooks:
                await stack.enter_async_context(hook.running())
            yield

    def list_interceptors(self, method: str) -> Sequence[HookProcess]:
        """Return the hooks that intercept a method, in their order."""
        return [one for one in self._hooks if method in one.hook.intercept]

    @property
    def slowest(self) -> float:
        """How long asking about one call may take, in seconds."""
        one_by_one = sum(one.hook.timeout for one in self.list_interceptors("before_tool"))
        together = [one.hook.timeout for one in self.list_interceptors("approve_tool")]
        return one_by_one + max(together, default=0.0) + 1.0

    async def before_tool(self, call: ToolCall, about: JsonObject) -> Intercepted:
        """Ask each hook in turn about the call as those before left it. Raises HookFailed: a hook
        without an answer could have refused."""
        answer, by = HookReply(action=HookAction.CONTINUE), ""
        risks: list[tuple[str, Risk]] = []
        for hook in self.list_interceptors("before_tool"):
            params = {**about, "tool": call.tool, "arguments": call.arguments}
            found = tool_answer(await hook.ask("hook.before_tool", params))
            risks += [(hook.name, found.risk)] if found.risk else []
            if found.action is HookAction.CONTINUE:
                continue
            if found.action is HookAction.RESPOND and not hook.hook.may_respond:
                raise HookFailed(f"the hook {hook.name} responds, and is not configured to")
            answer, by = found, hook.name
            if found.action is not HookAction.MODIFY or found.call is None:
                break
            call = found.call
        return Intercepted(call, answer, by, tuple(risks))

    async def approve_tool(
        self, call: ToolCall, about: JsonObject
    ) -> list[tuple[str, HookApproval]]:
        """Ask all approvers at once; return what each says. Raises HookFailed if any says nothing,
        unless another one refuses."""
        hooks = self.list_interceptors("approve_tool")
        params = {**about, "tool": call.tool, "arguments": call.arguments}
        raw = await asyncio.gather(
            *(hook.ask("hook.approve_tool", params) for hook in hooks), return_exceptions=True
        )
        found: list[tuple[str, HookApproval]] = []
        failures: list[BaseException] = []
        for hook, answer in zip(hooks, raw, strict=True):
            try:
                found.append((hook.name, approval(_raise_error(answer))))
            except HookFailed as failure:
                failures.append(failure)
        if failures and all(one.approved for _, one in found):
            raise failures[0]
        return found

    def allows(self) -> bool:
        """Whether there are approvers, and the approval of each is configured to allow."""
        hooks = self.list_interceptors("approve_tool")
        return bool(hooks) and all(hook.hook.may_allow for hook in hooks)

    async def intercept(self, method: str, params: JsonObject) -> HookReply:
        """Ask about before_llm, after_llm or after_tool; return the last change, or what ended it.

        These guard nothing: a hook that fails is passed over.
        """
        member = _CHANGES[method]
        last = HookReply(action=HookAction.CONTINUE)
        for hook in self.list_interceptors(method):
            try:
                found = other_answer(await hook.ask(f"hook.{method}", params), member)
            except HookFailed:
                continue
            if found.action in (HookAction.ABORT_TURN, HookAction.HARD_ABORT):
                return found
            if found.body is not None:
                # A request's members stand at the top, a response and a result under their names.
                changed = found.body if method == "before_llm" else {member: found.body}
                params = {**params, **changed}
                last = replace(found, body={**(last.body or {}), **changed})
        return last

    async def review_message(
        self, method: str, params: JsonObject
    ) -> tuple[str, str, JsonObject | None]:
        """Return what the hooks make of an agent's message: action, reason, changed members."""
        answer = await self.intercept(method, params)
        return answer.action.value, answer.reason, answer.body

    def tell(self, kind: str, event: JsonObject) -> None:
        """Tell the observers of this kind; nobody waits for them."""
        for hook in self._hooks:
            if "*" in hook.hook.observe or kind in hook.hook.observe:
                hook.tell("hook.event", event)


def host_hooks(path: Path | None) -> HookHost:
    """Return a host of the hooks file's processes; of none without a file. Raises BadHooks."""
    return HookHost({} if path is None else read_hooks(path))


def _raise_error(answer: Any) -> Any:
    if isinstance(answer, BaseException):
        raise answer
    return answer
