"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether something is as it should be, what it is, and what to do when it should not be."""

    result: str
    says: str
    remedy: str = ""


def report_ok(says: str) -> Finding:
    """Return that all is well."""
    return Finding(OK, says)


def report_doubt(says: str, remedy: str) -> Finding:
    """Return what works, and may be a surprise."""
    return Finding(WARN, says, remedy)


def report_failure(says: str, remedy: str) -> Finding:
    """Return what has to be put right."""
    return Finding(FAIL, says, remedy)
