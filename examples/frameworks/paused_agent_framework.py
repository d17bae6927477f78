"""A run of Microsoft agent-framework that pauses for people and goes on in any process.

Run it again until it no longer ends with exit code 6.
"""

import asyncio
import os
from pathlib import Path

from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatClient

from gateway.integrations.frameworks.agent_framework import FunctionApprovals
from gateway.integrations.frameworks.calls import PausedRun

model = OpenAIChatClient("gpt-5")
people = FunctionApprovals()
kept = Path("paused.json")


@tool(approval_mode="always_require")
def delete_file(path: str) -> str:
    """Delete a file."""
    os.remove(path)
    return f"deleted {path}"


async def main() -> None:
    agent = Agent(client=model, tools=[delete_file])
    if kept.exists():
        result = await people.resume(agent, PausedRun.from_json(kept.read_text()))
    else:
        result = await people.begin(agent, "Delete old.txt")
    if isinstance(result, PausedRun):
        kept.write_text(result.to_json())
        raise SystemExit(6)  # nobody has answered yet
    kept.unlink(missing_ok=True)
    print(result.text)


asyncio.run(main())
