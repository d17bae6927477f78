"""The Slack adapter: people decide requests in channels and direct messages.

See docs/guides/slack.md.
"""

from adapters.slack.adapter import SlackAdapter

__all__ = ["SlackAdapter"]
