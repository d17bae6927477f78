"""Parse bytes into messages, strictly, and check edited arguments against the request's schema.

The HTTP API and the Redis intake both use this module, so that both reject the same messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, TypeVar

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError as Mismatch
from jsonschema.validators import create
from pydantic import TypeAdapter, ValidationError
from referencing import Registry

from gateway.domain.redaction import start_of
from gateway.errors import InvalidRequest
from gateway.models import (
    AGENT_EXECUTIONS,
    AGENT_REASONS,
    ApprovalRequest,
    Reason,
    Report,
    digest_of,
    id_of_call,
)
from gateway.wire.canonical_json import parse
from gateway.wire.codec import JsonObject
from gateway.wire.roles import check_roles

LARGE_BYTES = 64 * 1024  # longer messages are parsed in a thread, so that others need not wait
_LONGEST_NAME = 120

T = TypeVar("T")


def parse_request(raw: bytes) -> ApprovalRequest:
    """Parse a request from `raw`, and check its digest.

    Raises InvalidRequest for the same reasons as `parse_message` and `check_request`.
    """
    request = parse_message(ApprovalRequest, raw)
    check_request(request)
    return request


def parse_message(cls: type[T], raw: bytes) -> T:
    """Parse the JSON in `raw` as a `cls`, which is a wire dataclass.

    Raises InvalidRequest with a sentence that names the faulty member, never its value. The JSON
    may be broken or ambiguous. A member may be missing, unknown or of a wrong type. The values may
    break a rule of `cls`.
    """
    parse(raw)
    kind: Any = cls  # to the type checker a class is not hashable
    try:
        message: T = adapter_of(kind).validate_json(raw, strict=True)
    except ValidationError as error:
        raise InvalidRequest(sentence(error)) from None
    return message


def check_request(request: ApprovalRequest) -> None:
    """Raise InvalidRequest unless the digest, the id and the argument roles of a request are valid.

    The request's class does not check roles, so that records with roles of a newer version can be
    read.
    """
    check_roles(request.roles)
    if request.digest != digest_of(request):
        raise InvalidRequest("digest is not the SHA-256 of this request's call")
    if request.call_id is not None and request.id != id_of_call(request):
        raise InvalidRequest("id does not match this call_id, part and digest")


def check_agent_reason(reason: Reason) -> None:
    """Raise InvalidRequest unless an agent may give this reason when it cancels a request."""
    if reason not in AGENT_REASONS:
        raise InvalidRequest(f"reason must be one of {', '.join(AGENT_REASONS)}")


def check_agent_report(report: Report) -> None:
    """Raise InvalidRequest unless an agent may report this outcome."""
    if report.execution not in AGENT_EXECUTIONS:
        raise InvalidRequest(f"execution must be one of {', '.join(AGENT_EXECUTIONS)}")


async def parse_off_loop(parser: Callable[[bytes], T], raw: bytes) -> T:
    """Return `parser(raw)`. If `raw` is large, the parser runs in a thread, so that the event loop
    continues."""
    if len(raw) <= LARGE_BYTES:
        return parser(raw)
    return await asyncio.to_thread(parser, raw)


def sentence(error: ValidationError) -> str:
    """Return a sentence that names the first faulty member and describes the fault, without the
    member's value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = ".".join(map(str, first["loc"])) or "the message"
    if len(name) > _LONGEST_NAME:  # never cut it: half a secret would not be recognized as one
        name = "a member with a very long name"
    if first["type"] == "unexpected_keyword_argument":
        return f"{name} is not a known member"
    if first["type"] == "missing":
        return f"{name} is missing"
    return f"{name}: {first['msg']}"


@lru_cache(maxsize=256)
def adapter_of(cls: Any) -> TypeAdapter[Any]:
    """Return the validator of this class. It is cached, because building a validator takes
    milliseconds."""
    return TypeAdapter(cls)


# Checks edited arguments against the request's own schema, which an agent wrote.
#
# Keywords that could keep the gateway busy without end are not checked: `pattern`,
# `patternProperties` with the `additionalProperties` beside it, and the `unevaluated` ones.

_MOST_STEPS = 50_000  # a few tenths of a second; nested schemas could take forever
_MOST_WORDS = 300
_steps_left: ContextVar[int] = ContextVar("steps_left")

_Check = Callable[[Any, Any, Any, Any], Any]


class Misfit(InvalidRequest):
    """Edited arguments do not fit the schema. `member` names the faulty argument, or is "" if there
    are several."""

    def __init__(self, member: str, why: str) -> None:
        super().__init__(why)
        self.member = member


def check_schema(schema: JsonObject | None, arguments: JsonObject) -> None:
    """Raise Misfit unless edited arguments fit the request's schema."""
    if schema is None:
        return
    used = _steps_left.set(_MOST_STEPS)
    try:
        _Validator(schema, registry=Registry()).validate(arguments)
    except Mismatch as error:
        why = start_of(error.message, _MOST_WORDS)
        member = str(error.absolute_path[0]) if error.absolute_path else ""
        raise Misfit(
            member, f"the edited arguments do not fit the request's schema: {why}"
        ) from error
    except Exception as error:
        # However the schema breaks the validator, nothing is approved.
        why = start_of(str(error), _MOST_WORDS)
        raise Misfit("", f"the request's own schema cannot be used: {why}") from error
    finally:
        _steps_left.reset(used)


def _count_steps(name: str, check: _Check) -> _Check:
    """Wrap a schema keyword's check so that its cost is counted."""

    def step(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Mismatch]:
        size = _size(instance)
        # Items of several types are compared each with each.
        cost = 1 + _size(value) + size + (size * size // 100 if name == "uniqueItems" else 0)
        left = _steps_left.get() - cost
        if left < 0:
            raise ValueError("checking the arguments takes too many steps")
        _steps_left.set(left)
        yield from check(validator, value, instance, schema) or ()

    return step


def _size(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _additional(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
    """Check `additionalProperties`, unless `patternProperties` affects that check."""
    if "patternProperties" in schema:
        return ()
    return Draft202012Validator.VALIDATORS["additionalProperties"](
        validator, value, instance, schema
    )


def _evolve(self: Any, **changes: Any) -> Any:
    """Return the validator for a part of the schema: always this one, whatever draft the part
    names."""
    part = changes.get("schema", self.schema)
    if isinstance(part, dict) and "$schema" in part:
        changes["schema"] = {name: value for name, value in part.items() if name != "$schema"}
    return _library_evolve(self, **changes)


# One pattern could take forever, and nothing could stop it. The `unevaluated` keywords use patterns
# too, and take steps that are not counted. So the client library checks these.
_UNCHECKED = {"pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems"}
_CHECKS = {**Draft202012Validator.VALIDATORS, "additionalProperties": _additional}
_Validator: Any = create(
    meta_schema=Draft202012Validator.META_SCHEMA,
    validators={
        name: _count_steps(name, check) for name, check in _CHECKS.items() if name not in _UNCHECKED
    },
    type_checker=Draft202012Validator.TYPE_CHECKER,
)
_library_evolve, _Validator.evolve = _Validator.evolve, _evolve
