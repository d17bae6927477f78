"""The inbox: people answer in a browser. See docs/inbox.md."""

from adapters.web.adapter import WebAdapter

__all__ = ["WebAdapter"]
