"""The SDK's own scripted model, for the programs of its page."""

from __future__ import annotations

from typing import Any

import scripted
from agents import set_tracing_disabled
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call


def _say(call: Any) -> ModelStep:
    heard = [one for one in call.input if isinstance(one, dict)] if call.input else []
    told = [one["output"] for one in heard if one.get("type") == "function_call_output"]
    if scripted.hear(told):
        return ModelStep(output=[assistant_message(scripted.END)])
    calls = [function_call(one["name"], one["args"], call_id=one["id"]) for one in scripted.CALLS]
    return ModelStep(output=calls)


set_tracing_disabled(True)
scripted.run_page(ScriptedModel([ModelStep.respond(_say) for _ in range(5)]))
