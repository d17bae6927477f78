"""The errors that reading and checking wire values raises. Import them from `gateway.errors`, which
has the whole tree: this module exists so that the models need nothing above them."""

from __future__ import annotations

from typing import ClassVar


class GatewayError(Exception):
    """Something went wrong; nothing was approved."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 5


class InvalidRequest(GatewayError):
    """The message breaks the rules of the wire format, or a limit."""

    code = "invalid_request"
    status = 422
    exit_code = 2


class Unverified(GatewayError):
    """The answer does not match what was asked, or the pinned key did not sign it."""

    code = "unverified"
    status = 502
    exit_code = 5
