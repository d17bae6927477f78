"""An agent in Discord: `@agent delete old.txt`. The card is in the channel or thread where it was
asked.

The agent has its own bot, which needs no privileged intent. In the policy, its route has
`targets = ["origin", …]` and `origins = ["discord:SERVER/CHANNEL"]`.
"""

import asyncio
import os
from pathlib import Path

import discord

from gateway.client import origin, requires_approval
from gateway.errors import NotApproved

bot = discord.Client(intents=discord.Intents.default())


@requires_approval
async def delete_file(path: str) -> str:
    await asyncio.to_thread(Path(path).unlink)
    return f"deleted {path}"


@bot.event
async def on_message(message: discord.Message) -> None:
    if bot.user is None or bot.user.id not in message.raw_mentions or message.guild is None:
        return
    thread = message.channel if isinstance(message.channel, discord.Thread) else None
    channel = thread.parent_id if thread else message.channel.id
    place = {"chat": f"{message.guild.id}/{channel}", "sender": str(message.author.id)}
    if thread:
        place["thread"] = str(thread.id)
    with origin(channel="discord", **place):
        try:
            said = await delete_file(message.content.rpartition(" ")[2])
        except NotApproved as refused:
            said = f"not deleted: {refused}"
    await message.channel.send(said, allowed_mentions=discord.AllowedMentions.none())


if __name__ == "__main__":
    bot.run(os.environ["DISCORD_BOT_TOKEN"])
