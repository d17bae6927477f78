"""A run of LangChain that pauses for people and goes on in any process.

Run it again until it no longer ends with exit code 6.
"""

import asyncio
import os

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from gateway.integrations.frameworks.calls import PausedRun
from gateway.integrations.frameworks.langchain import Interrupts

model = "openai:gpt-5"


def delete_file(path: str) -> str:
    """Delete a file."""
    os.remove(path)
    return f"deleted {path}"


async def main() -> None:
    async with AsyncSqliteSaver.from_conn_string("threads.db") as threads:
        asks = HumanInTheLoopMiddleware({"delete_file": True}, interrupt_mode="per_call")
        agent = create_agent(model, tools=[delete_file], middleware=[asks], checkpointer=threads)
        thread = {"configurable": {"thread_id": "clean-up"}}
        if (await agent.aget_state(thread)).values:
            result = await Interrupts().resume(agent, thread)
        else:
            result = await Interrupts().begin(agent, {"messages": "Delete old.txt"}, thread)
        if isinstance(result, PausedRun):
            raise SystemExit(6)  # nobody has answered yet
        print(result["messages"][-1].content)


asyncio.run(main())
