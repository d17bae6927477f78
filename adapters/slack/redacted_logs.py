"""A logger for Slack's libraries that never repeats tokens, payloads or addresses.

Bolt logs rejected bodies, the Socket Mode client logs messages it could not handle, and both format
exceptions that carry responses. What is kept is where it was said and the kind of exception.
"""

from __future__ import annotations

import logging

NAME = "adapters.slack.library"


class Sparing(logging.Filter):
    """Replaces what a library says by where it says it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record, without its words."""
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        said = f"{record.module}.{record.funcName}, line {record.lineno}"
        record.msg = f"Slack's library: {said}{f': {kind}' if kind else ''}"
        record.args = None
        record.exc_info = None
        record.exc_text = None
        return True


def library_logger() -> logging.Logger:
    """Return the logger to hand to slack_sdk and slack_bolt."""
    logger = logging.getLogger(NAME)
    logger.setLevel(logging.WARNING)
    if not any(isinstance(one, Sparing) for one in logger.filters):
        logger.addFilter(Sparing())
    return logger
