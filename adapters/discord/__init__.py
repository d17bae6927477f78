"""The Discord adapter: people decide requests in servers, threads and direct messages. See
docs/discord.md."""

from adapters.discord.adapter import DiscordAdapter

__all__ = ["DiscordAdapter"]
