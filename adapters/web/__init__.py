"""The inbox: people answer in a browser. See docs/guides/answer.md."""

from adapters.web.adapter import WebAdapter

__all__ = ["WebAdapter"]
