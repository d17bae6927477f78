"""A chat client by agent-framework's own classes, for the programs of its page."""

from __future__ import annotations

from typing import Any

import scripted
from agent_framework import (
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)


class Scripted(FunctionInvocationLayer, BaseChatClient):  # type: ignore[misc]
    """Makes its calls once, and ends when it was told what became of them."""

    async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any,
                                  **kwargs: Any) -> ChatResponse:  # fmt: skip
        parts = [part for message in messages for part in message.contents]
        told = [str(part.result) for part in parts if part.type == "function_result"]
        if scripted.hear(told):
            return ChatResponse(messages=[Message("assistant", [scripted.END])])
        calls = [
            Content.from_function_call(one["id"], one["name"], arguments=one["args"])
            for one in scripted.CALLS
        ]
        return ChatResponse(messages=[Message("assistant", calls)])


scripted.run_page(Scripted())
