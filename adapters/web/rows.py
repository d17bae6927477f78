"""Rows of requests. Those of large requests are kept, as they take long to render."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from gateway.ports import Approvers, JsonObject, Record, draw, heavy, weight_of

_MOST_KEPT = 200


class Rows:
    """Rows of one kind, by `make`."""

    def __init__(self, make: Callable[[Record], JsonObject]) -> None:
        self._make = make
        self._heavy: OrderedDict[tuple[str, int, int, Approvers | None], JsonObject] = OrderedDict()

    async def build(self, record: Record) -> JsonObject:
        """Return the row of a request as it stands."""
        key = (record.id, record.revision, record.alike, record.approvers)
        if key in self._heavy:
            self._heavy.move_to_end(key)
            return self._heavy[key]
        row = await draw(lambda: self._make(record), *weight_of(record))
        if heavy(*weight_of(record)):
            self._heavy[key] = row
            if len(self._heavy) > _MOST_KEPT:
                self._heavy.popitem(last=False)
        return row
