"""Turn errors into problem documents (RFC 9457), and define the errors that only HTTP has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from aiohttp import web

from gateway.api.messages import Problem
from gateway.errors import BatchRefused, Busy, GatewayError, NotFound, Unreachable
from gateway.wire.codec import plain

MEDIA_TYPE = "application/problem+json"


class Refusal(GatewayError):
    """A call that the HTTP layer refuses. `headers` are added to the response."""

    headers: ClassVar[Mapping[str, str]] = {}


class BadCall(Refusal):
    """The call is not valid HTTP."""

    code = "bad_request"
    status = 400


class Unauthenticated(Refusal):
    """The credential is missing, unknown or revoked."""

    code = "unauthorized"
    status = 401
    headers: ClassVar[Mapping[str, str]] = {"WWW-Authenticate": "Bearer"}


class MethodNotAllowed(Refusal):
    """The path exists, but not for this method."""

    code = "method_not_allowed"
    status = 405


class TooSlow(Refusal):
    """The body did not arrive in time."""

    code = "timeout"
    status = 408


class TooLarge(Refusal):
    """The body is larger than the limit."""

    code = "too_large"
    status = 413


class WrongMediaType(Refusal):
    """The body is not plain application/json."""

    code = "unsupported_media_type"
    status = 415


class WrongHost(Refusal):
    """The Host header names another host than this gateway."""

    code = "wrong_host"
    status = 421


class TooMany(Refusal, Busy):
    """Too many failed credentials, or too many open event streams."""

    headers: ClassVar[Mapping[str, str]] = {"Retry-After": "60"}


class TooManyWaits(TooMany):
    """Too many of this credential's calls wait."""

    headers: ClassVar[Mapping[str, str]] = {"Retry-After": "2"}


class Stopping(Refusal, Unreachable):
    """The gateway is stopping, so no call may wait."""

    headers: ClassVar[Mapping[str, str]] = {"Retry-After": "1"}


# Errors of aiohttp itself, by status. Any other 4xx is a bad call.
_BY_STATUS: Mapping[int, type[GatewayError]] = {
    404: NotFound,
    405: MethodNotAllowed,
    413: TooLarge,
}


def problem_of(error: GatewayError) -> web.Response:
    """Return the problem document for an error; NotFound always has the same text."""
    detail = "there is nothing here for this credential" if _is_missing(error) else str(error)
    body = Problem(
        type=f"urn:approval-gateway:problem:{error.code}",
        title=_title(type(error)),
        status=error.status,
        code=error.code,
        detail=detail,
        reasons=error.reasons if isinstance(error, BatchRefused) else {},
    )
    headers = dict(error.headers) if isinstance(error, Refusal) else None
    answer = web.json_response(
        plain(body), status=error.status, headers=headers, content_type=MEDIA_TYPE
    )
    if isinstance(error, TooLarge | TooSlow):
        answer.force_close()  # the rest of the body is never read
    return answer


def refusal_of(error: web.HTTPException) -> GatewayError:
    """Return the gateway's own error for one that aiohttp raised."""
    return _BY_STATUS.get(error.status, BadCall)(error.reason)


def _is_missing(error: GatewayError) -> bool:
    return isinstance(error, NotFound)


def _title(cls: type[GatewayError]) -> str:
    return (cls.__doc__ or cls.__name__).partition("\n")[0]
