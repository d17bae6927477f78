"""Agents' hosts as they are published, each driven by a model server of the tests' own."""
