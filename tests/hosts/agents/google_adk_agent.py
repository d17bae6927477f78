"""A model by the kit's own base class, for the programs of its page."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import scripted
from google.adk.models import BaseLlm, LlmResponse
from google.genai.types import Content, FunctionCall, Part


class Scripted(BaseLlm):  # type: ignore[misc]  # its types are the framework's
    """Makes its calls once, and ends when it was told what became of them."""

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield what the model says."""
        parts = [part for one in llm_request.contents for part in one.parts or ()]
        told = [part.function_response.response for part in parts if part.function_response]
        if scripted.hear([one.get("result", one) for one in told]):
            said = [Part(text=scripted.END)]
        else:
            calls = [
                FunctionCall(id=one["id"], name=one["name"], args=one["args"])
                for one in scripted.CALLS
            ]
            said = [Part(function_call=one) for one in calls]
        yield LlmResponse(content=Content(role="model", parts=said))


scripted.run_page(Scripted(model="scripted"))
