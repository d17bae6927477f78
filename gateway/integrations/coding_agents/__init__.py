"""Hooks for coding agents: read the input of each, and write the reply. Start at `hook`."""
