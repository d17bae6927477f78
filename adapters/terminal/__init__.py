"""Answer in the terminal."""

from adapters.terminal.adapter import TerminalAdapter

__all__ = ["TerminalAdapter"]
