"""A tool of the OpenAI Agents SDK whose guardrail requests approval within the call."""

import os

from agents import Agent, Runner, function_tool

from gateway.integrations.frameworks.openai_agents import RunStates

model = "gpt-5"


@function_tool(tool_input_guardrails=[RunStates().guardrail()])
def delete_file(path: str) -> str:
    """Delete a file."""
    os.remove(path)
    return f"deleted {path}"


agent = Agent(name="cleaner", model=model, tools=[delete_file])
print(Runner.run_sync(agent, "Delete old.txt").final_output)
