"""Read a plan: the list of intended calls in a request of kind `calls`. Start reading at
`plan_of`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from gateway.domain.parsing import LARGE_BYTES, adapter_of, sentence
from gateway.domain.records import StoredRequest
from gateway.errors import InvalidRequest
from gateway.models import PlannedCall
from gateway.wire.canonical_json import canonical
from gateway.wire.codec import JsonObject, Wire

T = TypeVar("T")
MOST_LINES = 50
MOST_MINUTES = 480  # as long as a session pass


class CallPlan(NamedTuple):
    """The lines of a plan, and for how many minutes they may run."""

    calls: tuple[PlannedCall, ...]
    minutes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arguments(Wire):
    calls: tuple[JsonObject, ...]
    minutes: int = 60

    def __post_init__(self) -> None:
        if not 1 <= len(self.calls) <= MOST_LINES:
            raise InvalidRequest(f"a plan must have 1 to {MOST_LINES} lines")
        if not 1 <= self.minutes <= MOST_MINUTES:
            raise InvalidRequest(f"a plan must be valid for 1 to {MOST_MINUTES} minutes")


def plan_of(record: StoredRequest) -> CallPlan:
    """Return the current plan, without the lines that a person removed.

    Raises InvalidRequest if the arguments are not a plan, or if an edit did more than remove lines.
    """
    if record.request.payload is not None:
        raise InvalidRequest("a plan cannot have a payload")
    if len(canonical(record.arguments)) > LARGE_BYTES:
        raise InvalidRequest(f"a plan can have at most {LARGE_BYTES} bytes")
    said = _parse(_Arguments, record.arguments, "not a plan")
    calls = tuple(_parse(PlannedCall, one, f"line {n}") for n, one in enumerate(said.calls, 1))
    if record.edited is not None and not _strikes(record.request.arguments, record.edited):
        raise InvalidRequest("an edit of a plan can only remove whole lines")
    return CallPlan(calls, said.minutes)


def _parse(cls: type[T], values: JsonObject, what: str) -> T:
    kind: Any = cls  # to the type checker a class is not hashable
    try:
        found: T = adapter_of(kind).validate_json(canonical(values), strict=True)
    except ValidationError as error:
        raise InvalidRequest(f"{what}: {sentence(error)}") from None
    except InvalidRequest as error:
        raise InvalidRequest(f"{what}: {error}") from None
    return found


def _strikes(before: JsonObject, after: JsonObject) -> bool:
    """Whether an edit of a plan only removes lines."""
    rest = [canonical({**one, "calls": []}) for one in (before, after)]
    left = iter(list(map(canonical, before["calls"])))
    return rest[0] == rest[1] and all(line in left for line in map(canonical, after["calls"]))
