"""What this process last saw of the requests that wait, so that a click need not read first."""

from __future__ import annotations

import logging

from gateway.domain.records import Record
from gateway.domain.redaction import bug
from gateway.stores.record_codec import record_from

log = logging.getLogger("gateway.store")

_MOST_BYTES = 64 * 1024 * 1024
_RECORD_BYTES = 4096
"""What a record weighs in memory, roughly, beside the text in it."""


class Recent:
    """Pending records as they were last read or written here. The oldest go when it gets full.

    Another replica may have changed any of them since: whoever uses one must leave the last word to
    a script that compares the revision.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._records: dict[str, tuple[Record, int]] = {}

    def get(self, request_id: str) -> Record | None:
        """Return what was seen last."""
        found = self._records.get(request_id)
        return found[0] if found else None

    def read(self, request_id: str, fields: dict[str, str]) -> Record | None:
        """Return the record that these fields hold, None when there are none; keep it."""
        if not fields:
            return None
        record = record_from(request_id, fields)
        self.keep(record, sum(map(len, fields.values())))
        return record

    def read_if_legible(self, request_id: str, fields: dict[str, str]) -> Record | None:
        """As `read`, for one of many: None, and logged, when it cannot be read."""
        try:
            return self.read(request_id, fields)
        except Exception as error:
            # Whatever is wrong with one must not hide the others.
            log.error(
                "request %s cannot be read: %s",
                request_id,
                bug(error),
                extra={"event": "record_unreadable"},
            )
            return None

    def keep(self, record: Record, letters: int) -> None:
        """Keep a record that waits, which holds about so many letters; forget a final one."""
        self.forget(record.id)
        if record.final:
            return
        weight = _RECORD_BYTES + letters
        self._records[record.id] = (record, weight)
        self._bytes += weight
        while self._bytes > self._most_bytes:
            self.forget(next(iter(self._records)))

    def forget(self, request_id: str) -> None:
        """Forget a record: it is not as it was."""
        _, weight = self._records.pop(request_id, (None, 0))
        self._bytes -= weight
