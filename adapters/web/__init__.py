"""The web adapter: people decide requests in the inbox, in a browser. See docs/guides/answer.md."""

from adapters.web.adapter import WebAdapter

__all__ = ["WebAdapter"]
