"""Approvals in Discord: servers, threads and direct messages."""

from adapters.discord.adapter import DiscordAdapter

__all__ = ["DiscordAdapter"]
