"""Guards of the gateway that are taken out one at a time, to see that a test finds each missing."""
