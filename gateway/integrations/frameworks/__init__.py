"""Agent frameworks: a middleware or callback of each asks people before a tool runs."""
