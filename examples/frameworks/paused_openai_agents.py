"""A run of the OpenAI Agents SDK that pauses for people and goes on in any process.

Run it again until it no longer ends with exit code 6.
"""

import asyncio
import os
from pathlib import Path

from agents import Agent, function_tool

from gateway.integrations.frameworks.calls import PausedRun
from gateway.integrations.frameworks.openai_agents import RunStates

model = "gpt-5"
people = RunStates()
kept = Path("paused.json")


@people.gate
@function_tool
def delete_file(path: str) -> str:
    """Delete a file."""
    os.remove(path)
    return f"deleted {path}"


async def main() -> None:
    agent = Agent(name="cleaner", model=model, tools=[delete_file])
    if kept.exists():
        result = await people.resume(agent, PausedRun.from_json(kept.read_text()))
    else:
        result = await people.begin(agent, "Delete old.txt")
    if isinstance(result, PausedRun):
        kept.write_text(result.to_json())
        raise SystemExit(6)  # nobody has answered yet
    kept.unlink(missing_ok=True)
    print(result.final_output)


asyncio.run(main())
