"""A model by AG2's own classes, for the programs of its page."""

from __future__ import annotations

import json
from typing import Any

import scripted
from ag2.config import LLMClient
from ag2.events import (
    ModelMessage,
    ModelResponse,
    ToolCallEvent,
    ToolCallsEvent,
    ToolResultsEvent,
)
from ag2.testing import TestConfig


class Scripted(LLMClient):  # type: ignore[misc]  # its types are the framework's
    """Makes its calls once, and ends when it was told what became of them."""

    async def __call__(self, messages: Any, context: Any, **kwargs: Any) -> ModelResponse:
        """Return what the model says."""
        groups = [one for one in messages if isinstance(one, ToolResultsEvent)]
        results = [one for group in groups for one in group.results]
        if scripted.hear([str(part.content) for one in results for part in one.result.parts]):
            message = ModelMessage(scripted.END)
            await context.send(message)
            return ModelResponse(message)
        calls = [
            ToolCallEvent(one["name"], id=one["id"], arguments=json.dumps(one["args"]))
            for one in scripted.CALLS
        ]
        return ModelResponse(tool_calls=ToolCallsEvent(calls))


class Config(TestConfig):  # type: ignore[misc]  # its types are the framework's
    """The framework's configuration for tests, with the model above."""

    def create(self) -> Scripted:
        """Return the model."""
        return Scripted()


scripted.run_page(Config())
