"""How the protocol says no: its own form of an error, for every error of the gateway."""

from __future__ import annotations

from aiohttp import web

from gateway.errors import GatewayError, NotFound

_KINDS = {
    401: ("authentication", "invalid_credential"),
    403: ("authorization", "not_allowed"),
    404: ("not_found", "not_found"),
    409: ("conflict", "conflict"),
    429: ("rate_limit", "rate_limited"),
    503: ("dependency", "unavailable"),
}
_INVALID = ("invalid_request", "invalid_request")
_INTERNAL = ("internal", "internal")
_BAD_REQUEST, _SERVER_ERRORS = 400, 500


class ProtocolRefusal(GatewayError):
    """A call that the protocol refuses with a code of its own."""

    def __init__(self, status: int, reason: str, words: str) -> None:
        super().__init__(words)
        self.refused_with = status
        self.reason = reason


def error_of(error: GatewayError, call_id: str) -> web.Response:
    """Return the protocol's answer for an error; `call_id` names the exchange."""
    status = _status(error)
    default = _INTERNAL if status >= _SERVER_ERRORS else _INVALID
    kind, code = _KINDS.get(status, default)
    if isinstance(error, ProtocolRefusal):
        code = error.reason
    words = "there is nothing here for this credential" if _is_missing(error) else str(error)
    told = {"type": kind, "code": code, "message": words, "request_id": call_id}
    headers = dict(getattr(error, "headers", {}))
    return web.json_response({"error": told}, status=status, headers=headers)


def _status(error: GatewayError) -> int:
    if isinstance(error, ProtocolRefusal):
        return error.refused_with
    if error.status in _KINDS or error.status >= _SERVER_ERRORS:
        return error.status
    return _BAD_REQUEST  # the protocol knows one status for all that is malformed


def _is_missing(error: GatewayError) -> bool:
    return isinstance(error, NotFound)
