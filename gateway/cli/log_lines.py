"""The log of a gateway: lines or JSON objects on standard error, and what repeats is counted."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from gateway.domain.redaction import mask
from gateway.server.settings import Settings
from gateway.stores.connect import AWAY

_REPEAT_SECONDS = 60.0
_MOST_KNOWN = 1000
_MEMBERS = ("event", "request_id", "caller", "agent", "milliseconds")

_Key = tuple[str, int, str, str]

if TYPE_CHECKING:
    from logging import _SysExcInfoType


def configure_log(settings: Settings) -> None:
    """Send log records to standard error, as lines or as JSON objects."""
    handler = CountingHandler()
    handler.setFormatter(JsonFormatter() if settings.log_json else LineFormatter())
    logging.basicConfig(level=settings.log_level, handlers=[handler])


class CountingHandler(logging.StreamHandler[TextIO]):
    """Writes a warning or an error once in a minute; how often it came again follows in one line.

    The same are two of one logger with the same text and the same kind of exception.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._first: OrderedDict[_Key, float] = OrderedDict()  # when it was written, oldest first
        self._more: dict[_Key, logging.LogRecord] = {}  # the last that was not
        self._counts: dict[_Key, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it; first the counts of those whose minute is over."""
        now = record.created
        while self._first:
            key, written = next(iter(self._first.items()))
            if now - written < _REPEAT_SECONDS and len(self._first) <= _MOST_KNOWN:
                break
            self._tell(key)
        if record.levelno < logging.WARNING:
            super().emit(record)
            return
        error = record.exc_info[0] if record.exc_info else None
        key = (record.name, record.levelno, record.getMessage(), error.__name__ if error else "")
        if key in self._first:
            self._counts[key] = self._counts.get(key, 0) + 1
            self._more[key] = record
            return
        self._first[key] = now
        super().emit(record)

    def close(self) -> None:
        """Write the counts that are left."""
        for key in list(self._first):
            self._tell(key)
        super().close()

    def _tell(self, key: _Key) -> None:
        """Write how often a record came again, if it did, and forget it."""
        written = self._first.pop(key)
        last, count = self._more.pop(key, None), self._counts.pop(key, 0)
        if last is None:
            return
        seconds = last.created - written
        told = logging.makeLogRecord(last.__dict__ | {"exc_info": None, "exc_text": None})
        told.msg, told.args = f"{last.getMessage()} ({count} times more within {seconds:.0f} s)", ()
        super().emit(told)


class _ExceptionFormatter(logging.Formatter):
    """Says in one line that a server is away: its traceback is the same each time, and long."""

    def formatException(self, ei: _SysExcInfoType) -> str:
        """Return the traceback, or type and text of the error of a connection; of the first, where
        tasks of one group failed by nothing else."""
        found = list(_list_errors(ei[1]))
        if found and all(isinstance(one, AWAY) for one in found):
            return f"{type(found[0]).__name__}: {found[0]}"
        return super().formatException(ei)


def _list_errors(error: BaseException | None) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _list_errors(one)
    elif error is not None:
        yield error


class LineFormatter(_ExceptionFormatter):
    """Formats a record as one line, with its traceback below. Secrets are masked, because the text
    of a library's exception may hold one."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        return str(mask(super().format(record)))


class JsonFormatter(_ExceptionFormatter):
    """Formats a record as one JSON object: time, level, logger, and the members of the event
    where given. Secrets are masked."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        format_line = {
            "at": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in _MEMBERS:
            if name in record.__dict__:
                format_line[name] = record.__dict__[name]
        if record.exc_info:
            format_line["exception"] = self.formatException(record.exc_info)
        return json.dumps(mask(format_line))
