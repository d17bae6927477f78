"""A model by smolagents' own base class, for the program of its page."""

from __future__ import annotations

import sys
from typing import Any

import scripted
from smolagents import ChatMessage, MessageRole, Model
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

CODE = sys.argv[1] == "1"
"""Whether it is the page's program with a `CodeAgent`."""


class Scripted(Model):  # type: ignore[misc]  # its types are the framework's
    """Makes its calls once, and gives its answer when it was told what became of them."""

    def generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> ChatMessage:
        """Return what the model says."""
        roles = (MessageRole.TOOL_RESPONSE, "tool-response")
        told = [part["text"] for one in messages if one.role in roles for part in one.content]
        calls = scripted.CALLS
        if scripted.hear(told):
            calls = [{"id": "end", "name": "final_answer", "args": {"answer": scripted.END}}]
        if not CODE:
            return ChatMessage(MessageRole.ASSISTANT, "", [_call(**one) for one in calls])
        lines = [f"{one['name']}({next(iter(one['args'].values()))!r})" for one in calls]
        last = lines[-1] if told else f"print({lines[-1]})"
        code = "\n".join([*lines[:-1], last])
        return ChatMessage(MessageRole.ASSISTANT, f"<code>\n{code}\n</code>")


def _call(id: str, name: str, args: dict[str, Any]) -> ChatMessageToolCall:
    return ChatMessageToolCall(ChatMessageToolCallFunction(args, name), id, "function")


if CODE:
    sys.argv[1] = "0"
    scripted.run_page(Scripted(), ("ToolCallingAgent", "CodeAgent"))
else:
    scripted.run_page(Scripted())
