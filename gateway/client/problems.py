"""The gateway's error codes as exceptions."""

from __future__ import annotations

from gateway import errors
from gateway.errors import GatewayError, InvalidRequest, NotFound, Unauthorized, Unreachable

_BY_CODE: dict[str, type[GatewayError]] = {
    kind.code: kind
    for kind in (errors.InvalidRequest, errors.Conflict, Unauthorized, NotFound, Unreachable)
}
_BY_STATUS: dict[int, type[GatewayError]] = {401: Unauthorized, 403: Unauthorized, 404: NotFound}
_SERVER_ERROR = 500


def error_of(code: str, detail: str, status: int = 400) -> GatewayError:
    """Return the error that the gateway's code stands for."""
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status)
    if kind is None:
        kind = Unreachable if status >= _SERVER_ERROR else InvalidRequest
    return kind(detail)
