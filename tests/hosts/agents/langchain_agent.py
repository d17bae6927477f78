"""A chat model of LangChain's that says what the test wrote, for the programs of its page."""

from __future__ import annotations

from typing import Any

import scripted
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Scripted(BaseChatModel):  # type: ignore[misc]  # its types are the framework's
    """Makes its calls once, and ends when it was told what became of them."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Scripted:
        """Return itself: it knows its tools."""
        return self

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None,
                  **kwargs: Any) -> ChatResult:  # fmt: skip
        if scripted.hear([str(one.content) for one in messages if one.type == "tool"]):
            said = AIMessage(scripted.END)
        else:
            said = AIMessage("", tool_calls=scripted.CALLS)
        return ChatResult(generations=[ChatGeneration(message=said)])


scripted.run_page(Scripted())
