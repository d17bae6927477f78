"""A run of Google ADK that pauses for people and goes on in any process.

Run it again until it no longer ends with exit code 6.
"""

import asyncio
import os
from pathlib import Path

from google.adk.agents import Agent
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from gateway.integrations.frameworks.calls import PausedRun
from gateway.integrations.frameworks.google_adk import ToolConfirmations

model = "gemini-3.5-flash"
people = ToolConfirmations()
kept = Path("paused.json")


@people.gate
def delete_file(path: str) -> str:
    """Delete a file."""
    os.remove(path)
    return f"deleted {path}"


async def main() -> None:
    agent = Agent(name="cleaner", model=model, tools=[delete_file])
    sessions = SqliteSessionService("paused.db")
    runner = Runner(app_name="cleaner", agent=agent, session_service=sessions)
    if kept.exists():
        result = await people.resume(runner, PausedRun.from_json(kept.read_text()))
    else:
        session = await sessions.create_session(app_name="cleaner", user_id="me")
        result = await people.begin(runner, "Delete old.txt", session=session)
    if isinstance(result, PausedRun):
        kept.write_text(result.to_json())
        raise SystemExit(6)  # nobody has answered yet
    kept.unlink(missing_ok=True)
    print(result[-1].content.parts[0].text)


asyncio.run(main())
