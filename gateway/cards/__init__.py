"""Build cards, summaries, masks and forms in one way for all platforms. Start reading at `card`."""
