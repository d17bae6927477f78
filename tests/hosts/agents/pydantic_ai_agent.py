"""Pydantic AI's own function model, for the programs of its page."""

from __future__ import annotations

from typing import Any

import scripted
from pydantic_ai import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel


def _say(messages: list[Any], info: Any) -> ModelResponse:
    parts = [part for message in messages for part in message.parts]
    returned = [one.model_response_str() for one in parts if isinstance(one, ToolReturnPart)]
    if scripted.hear(returned):
        return ModelResponse(parts=[TextPart(scripted.END)])
    return ModelResponse(
        parts=[ToolCallPart(one["name"], one["args"], one["id"]) for one in scripted.CALLS]
    )


scripted.run_page(FunctionModel(_say))
