"""Define the rules for messages that types cannot express: patterns of IDs and names, JSON Schema
keywords, and errors.

Agents do not need pydantic. The server reads these rules when it writes the OpenAPI document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

JsonSchema = dict[str, Any]


class Says:
    """JSON Schema keywords for one member, used as metadata in `typing.Annotated`.

    Write a keyword that is reserved in Python with `_` at the end.
    """

    def __init__(self, **keywords: Any) -> None:
        self._keywords = {name.rstrip("_"): said for name, said in keywords.items()}

    def __get_pydantic_json_schema__(
        self, kind: Any, schema_of: Callable[[Any], JsonSchema]
    ) -> JsonSchema:
        """Return the schema of the member's type with the keywords added. pydantic calls this."""
        return {**schema_of(kind), **self._keywords}


def matching(pattern: re.Pattern[str]) -> Says:
    """Return the keyword for a string that must match a pattern completely."""
    return Says(pattern=f"^(?:{pattern.pattern})$")


def whole(**keywords: Any) -> JsonSchema:
    """Return the pydantic configuration for a class with rules that concern several members."""
    said = {name.rstrip("_"): rule for name, rule in keywords.items()}
    return {"extra": "forbid", "json_schema_extra": said}


# Errors from reading and checking wire values. Import them from `gateway.errors`, which has all
# errors; they are defined here so that the models can raise them.


class GatewayError(Exception):
    """Base class of all errors of the gateway. When one is raised, nothing was approved."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 5


class InvalidRequest(GatewayError):
    """The message violates the wire format or a limit."""

    code = "invalid_request"
    status = 422
    exit_code = 2


class Unverified(GatewayError):
    """The response does not match the request, or the pinned key did not sign it."""

    code = "unverified"
    status = 502
    exit_code = 5


# Patterns of IDs and names, on the wire and in paths.

AGENT_NAME = re.compile(r"[a-z0-9_-]{1,64}")
REQUEST_ID = re.compile(r"[0-9a-f]{32}")
PROCESS_TOKEN = re.compile(r"[0-9a-z]{8,64}")
SESSION_NAME = re.compile(r"[A-Za-z0-9_.:@/+=-]{1,128}")
DIGEST = re.compile(r"[0-9a-f]{64}")
CALL_ID = re.compile(r"[^\x00-\x1f\x7f]{1,256}")
TOOL_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,256}")
VERBS = ("submit", "sync", "cancel", "consume", "report", "fetch")
_DIGEST_CHARS = 16


def told_verb(verb: str) -> str:
    """Return the verb to store for a message: "unknown" unless it is one of VERBS."""
    return verb if verb in VERBS else "unknown"


def digest_process(process: str) -> str:
    """Return the hash of a process token for the audit log. It tells two processes apart, but
    cannot be used to claim an approval."""
    import hashlib  # noqa: PLC0415 (only the gateway needs it)

    return hashlib.sha256(process.encode()).hexdigest()[:_DIGEST_CHARS]
