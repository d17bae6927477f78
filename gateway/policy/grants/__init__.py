"""Remembered decisions: what a grant covers, in words and as a test. Pure, no I/O.

Enter at `offers` (what may be remembered of a request) or `coverage` (does a grant cover this?).
"""
