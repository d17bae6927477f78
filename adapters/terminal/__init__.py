"""The terminal adapter: people decide requests with keys. See docs/terminal.md."""

from adapters.terminal.adapter import TerminalAdapter

__all__ = ["TerminalAdapter"]
