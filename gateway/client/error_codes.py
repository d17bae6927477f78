"""Turns the gateway's error codes into exceptions."""

from __future__ import annotations

from gateway import errors
from gateway.errors import (
    Busy,
    GatewayError,
    InvalidRequest,
    NotFound,
    OverBudget,
    Unauthorized,
    Unreachable,
)

_BY_CODE: dict[str, type[GatewayError]] = {
    kind.code: kind
    for kind in (
        errors.InvalidRequest,
        errors.Conflict,
        errors.Used,
        errors.WrongNumber,
        Unauthorized,
        NotFound,
        Unreachable,
        Busy,
        OverBudget,
    )
}
_BY_STATUS: dict[int, type[GatewayError]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    429: Busy,
}
_SERVER_ERROR = 500
_LONGEST_PAUSE = 60


def error_of(
    code: str, detail: str, status: int = 400, *, retry_after: str | None = None
) -> GatewayError:
    """Return the exception for an error code. `retry_after` is the text of that header."""
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status)
    if kind is None:
        kind = Unreachable if status >= _SERVER_ERROR else InvalidRequest
    error = kind(detail)
    if isinstance(error, Busy) and retry_after and retry_after.isdecimal():
        error.retry_after = float(min(int(retry_after[:4]), _LONGEST_PAUSE))
    return error
