"""What a check finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from gateway.delivery import Notes

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether something is as it should be, what it is, and what to do when it should not be."""

    result: str
    says: str
    remedy: str = ""


def fine(says: str) -> Finding:
    """Return that all is well."""
    return Finding(OK, says)


def doubtful(says: str, remedy: str) -> Finding:
    """Return what works, and may be a surprise."""
    return Finding(WARN, says, remedy)


def failed(says: str, remedy: str) -> Finding:
    """Return what has to be put right."""
    return Finding(FAIL, says, remedy)


@runtime_checkable
class HasChecks(Protocol):
    """An adapter that can be examined by `gateway doctor`. It is not running then."""

    async def checks(
        self, targets: Sequence[str], notes: Notes, *, live: bool
    ) -> Sequence[tuple[str, Finding]]:
        """Return what is found, by name. `targets` are those of the routes in force that are this
        adapter's, `notes` are what it keeps. With `live` it may post, and takes away what it
        posted."""
