"""The rules of messages beside their types: patterns of ids and names, and errors of reading.

The agent's side has no pydantic; the server's reads these when it writes the OpenAPI document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

JsonSchema = dict[str, Any]


class Says:
    """Keywords of JSON Schema for one member, as metadata in `typing.Annotated`.

    One that is a word of Python is written with `_` behind it.
    """

    def __init__(self, **keywords: Any) -> None:
        self._keywords = {name.rstrip("_"): said for name, said in keywords.items()}

    def __get_pydantic_json_schema__(
        self, kind: Any, schema_of: Callable[[Any], JsonSchema]
    ) -> JsonSchema:
        """Return the schema of the member's type with the keywords; pydantic calls it."""
        return {**schema_of(kind), **self._keywords}


def matching(pattern: re.Pattern[str]) -> Says:
    """Say that a text matches a pattern as a whole."""
    return Says(pattern=f"^(?:{pattern.pattern})$")


def whole(**keywords: Any) -> JsonSchema:
    """Return the configuration of a class whose members have these rules together."""
    said = {name.rstrip("_"): rule for name, rule in keywords.items()}
    return {"extra": "forbid", "json_schema_extra": said}


# The errors of reading and checking wire values.
#
# Import them from `gateway.errors`, which has the whole tree; they are here so that the models can
# raise them.


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


# The patterns of ids and names, on the wire and in paths.

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
    """Return a message's verb as it is kept: what is none of them may be anything."""
    return verb if verb in VERBS else "unknown"


def digest_process(process: str) -> str:
    """Return what is kept of a process token in the audit: it tells two processes apart, and nobody
    takes an approval with it."""
    import hashlib  # noqa: PLC0415 (the gateway alone needs it; `sha256_hex` lies above)

    return hashlib.sha256(process.encode()).hexdigest()[:_DIGEST_CHARS]
