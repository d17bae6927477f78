"""An agent of the Claude Agent SDK with the hooks of the Agent Approval Protocol's client."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from agentapprovalprotocol.claude_agent_sdk import ApprovalHooks
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage


async def main() -> None:
    """Run one prompt."""
    hooks = ApprovalHooks(f"{os.environ['GATEWAY_URL']}/aap", os.environ["GATEWAY_TOKEN"])
    own = ClaudeAgentOptions(cwd=str(Path.cwd()), permission_mode="default", setting_sources=[])
    async with ClaudeSDKClient(options=hooks.options(own)) as claude:
        await claude.query("go")
        async for message in claude.receive_response():
            if isinstance(message, ResultMessage):
                sys.stdout.write(f"ended: {message.subtype}\n")


asyncio.run(main())
