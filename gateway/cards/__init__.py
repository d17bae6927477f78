"""What an approver sees: cards, summaries, blocks, masks and forms, once for all platforms."""
