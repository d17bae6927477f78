"""A run of Pydantic AI that pauses for people and goes on in any process.

Run it again until it no longer ends with exit code 6.
"""

import asyncio
import os
from pathlib import Path

from pydantic_ai import Agent, DeferredToolRequests

from gateway.integrations.frameworks.calls import PausedRun
from gateway.integrations.frameworks.pydantic_ai import DeferredTools

model = "openai:gpt-5"
agent = Agent(model, output_type=[str, DeferredToolRequests])
kept = Path("paused.json")


@agent.tool_plain(requires_approval=True)
def delete_file(path: str) -> str:
    """Delete a file."""
    os.remove(path)
    return f"deleted {path}"


async def main() -> None:
    tools = DeferredTools()
    if kept.exists():
        paused = PausedRun.from_json(kept.read_text())
        result = await tools.resume(agent, paused)
    else:
        result = await tools.begin(agent, "Delete old.txt")
    if isinstance(result, PausedRun):
        kept.write_text(result.to_json())
        raise SystemExit(6)  # nobody has answered yet
    kept.unlink(missing_ok=True)
    print(result.output)


asyncio.run(main())
