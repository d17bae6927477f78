"""Grants: which requests a grant covers, as a sentence and as a test. No I/O.

Start reading at `offers` (which grants a request offers) or `coverage` (whether a grant covers a
request).
"""
