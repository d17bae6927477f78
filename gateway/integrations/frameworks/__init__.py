"""Adapters for agent frameworks: a middleware or callback asks people before a tool runs."""
