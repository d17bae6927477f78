"""Remembered decisions: what a grant covers, in words and as a test. Pure, no I/O."""
