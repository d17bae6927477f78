"""An agent in Slack: `@agent delete old.txt`. The card is in the thread where it was asked.

The agent has its own Slack app, with the scopes app_mentions:read and chat:write. In the policy,
its route has `targets = ["origin", …]` and `origins = ["slack:TEAM/CHANNEL"]`.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler

from gateway.client import origin, requires_approval
from gateway.errors import NotApproved

app = AsyncApp(token=os.environ["SLACK_BOT_TOKEN"])
app.client.retry_handlers.append(AsyncRateLimitErrorRetryHandler(max_retry_count=3))


@requires_approval
async def delete_file(path: str) -> str:
    await asyncio.to_thread(Path(path).unlink)
    return f"deleted {path}"


@app.event("app_mention")
async def answer(event: dict[str, Any], context: Any, say: Any) -> None:
    team, thread = context.team_id, event.get("thread_ts") or event["ts"]
    path = event["text"].rpartition(" ")[2]
    place = f"{team}/{event['channel']}"
    with origin(channel="slack", chat=place, thread=thread, sender=f"{team}/{event['user']}"):
        try:
            said = await delete_file(path)
        except NotApproved as refused:
            said = f"not deleted: {refused}"
    await say(text=said, thread_ts=thread)


if __name__ == "__main__":
    asyncio.run(AsyncSocketModeHandler(app, os.environ["SLACK_APP_TOKEN"]).start_async())
