"""Measures speed and memory against the raw floor of redis-py, side by side in one run."""
