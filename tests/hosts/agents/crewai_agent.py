"""A model by CrewAI's own base class, for the programs of its page."""

from __future__ import annotations

import os
from typing import Any

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}

import json

import scripted
from crewai import BaseLLM


class Scripted(BaseLLM):  # type: ignore[misc]  # its types are the framework's
    """Makes its calls once, and ends when it was told what became of them."""

    def supports_function_calling(self) -> bool:
        """Return that it calls tools natively."""
        return True

    def call(self, messages: Any, tools: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return what the model says."""
        found = [one for one in messages if one.get("role") == "tool"]
        if scripted.hear([one["content"] for one in found]):
            return scripted.END
        return [
            {
                "id": one["id"],
                "type": "function",
                "function": {"name": one["name"], "arguments": json.dumps(one["args"])},
            }
            for one in scripted.CALLS
        ]


scripted.run_page(Scripted(model="scripted"))
