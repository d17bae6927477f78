"""Build cards, summaries, masks and forms, once for all platforms; start at `card`."""
