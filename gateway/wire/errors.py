"""The errors of reading and checking wire values.

Import them from `gateway.errors`, which has the whole tree; they are here so that the models can
raise them.
"""

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
