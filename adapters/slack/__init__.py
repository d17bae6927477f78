"""Slack: people answer in a channel or on the phone. See docs/guides/slack.md."""

from adapters.slack.adapter import SlackAdapter

__all__ = ["SlackAdapter"]
