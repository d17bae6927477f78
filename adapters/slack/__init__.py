"""The Slack adapter: people decide requests in channels and direct messages. See docs/slack.md."""

from adapters.slack.adapter import SlackAdapter

__all__ = ["SlackAdapter"]
