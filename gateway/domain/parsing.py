"""The strict way in: bytes from the wire become the wire's dataclasses, or InvalidRequest says why.

Shared by the HTTP API and the Redis intake, so that both refuse the same messages.
"""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from gateway.errors import InvalidRequest
from gateway.models import AGENT_REASONS, ApprovalRequest, Reason, digest_of, id_of_call
from gateway.wire.canonical_json import parse
from gateway.wire.roles import check_roles

LARGE_BYTES = 64 * 1024  # longer messages are parsed in a thread, so that the others go on
_LONGEST_NAME = 120

T = TypeVar("T")


def parse_request(raw: bytes) -> ApprovalRequest:
    """Return the request in `raw`; its digest is right.

    Raises InvalidRequest as `parse_message` and `check_request` do.
    """
    request = parse_message(ApprovalRequest, raw)
    check_request(request)
    return request


def parse_message(cls: type[T], raw: bytes) -> T:
    """Return the `cls`, a wire dataclass, that stands in `raw` as JSON.

    Raises InvalidRequest with a sentence that names the member at fault (never its value): broken
    or ambiguous JSON, a member that is missing, unknown or of another type, a broken rule of `cls`.
    """
    parse(raw)
    kind: Any = cls  # to the type checker a class is not hashable
    try:
        message: T = _adapter(kind).validate_json(raw, strict=True)
    except ValidationError as error:
        raise InvalidRequest(sentence(error)) from None
    return message


def check_request(request: ApprovalRequest) -> None:
    """Return when the request's digest covers its content and its roles are roles of this version;
    raise InvalidRequest otherwise.

    The class itself does not check roles, so that a record with one of a newer version is read.
    """
    check_roles(request.roles)
    if request.digest != digest_of(request):
        raise InvalidRequest("digest is not the SHA-256 of what the request would run")
    if request.call_id is not None and request.id != id_of_call(request):
        raise InvalidRequest("id is not the one that belongs to this call_id, part and digest")


def check_agent_reason(reason: Reason) -> None:
    """Return when an agent may give this reason for a cancel; raises InvalidRequest."""
    if reason not in AGENT_REASONS:
        raise InvalidRequest(f"reason must be one of {', '.join(AGENT_REASONS)}")


async def parse_off_loop(parser: Callable[[bytes], T], raw: bytes) -> T:
    """Return `parser(raw)`, off the event loop when `raw` is large."""
    if len(raw) <= LARGE_BYTES:
        return parser(raw)
    return await asyncio.to_thread(parser, raw)


def sentence(error: ValidationError) -> str:
    """Name the first member at fault and what is wrong with it, without its value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = ".".join(map(str, first["loc"])) or "the message"
    if len(name) > _LONGEST_NAME:  # whole or not at all: half a secret is not known as one
        name = "a member with a long name"
    if first["type"] == "unexpected_keyword_argument":
        return f"{name} is not a known member"
    if first["type"] == "missing":
        return f"{name} is missing"
    return f"{name}: {first['msg']}"


@lru_cache(maxsize=64)
def _adapter(cls: Any) -> TypeAdapter[Any]:
    return TypeAdapter(cls)
