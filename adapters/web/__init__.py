"""The web adapter: people decide requests in the inbox, in a browser. See docs/inbox.md."""

from adapters.web.adapter import WebAdapter

__all__ = ["WebAdapter"]
