"""An agent of the Claude Agent SDK whose permissions people give; prints how its turn ended."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

from gateway.client import AsyncClient
from gateway.integrations.frameworks.claude_sdk import can_use_tool


async def main() -> None:
    """Run one prompt."""
    cwd = str(Path.cwd())
    async with AsyncClient.from_env() as approvals:
        options = ClaudeAgentOptions(
            can_use_tool=can_use_tool(approvals, session=os.environ["SESSION"], cwd=cwd),
            cwd=cwd,
            permission_mode="default",
            setting_sources=[],
        )
        async with ClaudeSDKClient(options=options) as claude:
            await claude.query("go")
            async for message in claude.receive_response():
                if isinstance(message, ResultMessage):
                    sys.stdout.write(f"ended: {message.subtype}\n")


asyncio.run(main())
