"""Keeps every posted card true: the outboxes' workers, and what they look at."""
