"""The strict way in: bytes become messages, and changed arguments fit the request's schema.

Shared by the HTTP API and the Redis intake, so that both refuse the same messages.
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
        message: T = adapter_of(kind).validate_json(raw, strict=True)
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


def check_agent_report(report: Report) -> None:
    """Return when an agent may report this; raises InvalidRequest."""
    if report.execution not in AGENT_EXECUTIONS:
        raise InvalidRequest(f"execution must be one of {', '.join(AGENT_EXECUTIONS)}")


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


@lru_cache(maxsize=256)
def adapter_of(cls: Any) -> TypeAdapter[Any]:
    """Return what checks values of this class. It is built once: that takes milliseconds."""
    return TypeAdapter(cls)


# Checks changed arguments against a request's own schema, which an agent wrote.
#
# What could keep the gateway busy without end is not checked: `pattern`, `patternProperties` with
# the `additionalProperties` beside it, `unevaluatedProperties` and `unevaluatedItems`.

_MOST_STEPS = 50_000  # a few tenths of a second; schemas within schemas could take for ever
_MOST_WORDS = 300
_steps_left: ContextVar[int] = ContextVar("steps_left")

_Check = Callable[[Any, Any, Any, Any], Any]


class Misfit(InvalidRequest):
    """Changed arguments do not fit; `member` is the argument with the trouble, "" for several."""

    def __init__(self, member: str, why: str) -> None:
        super().__init__(why)
        self.member = member


def check_schema(schema: JsonObject | None, arguments: JsonObject) -> None:
    """Return when changed arguments fit the request's schema; raises Misfit."""
    if schema is None:
        return
    used = _steps_left.set(_MOST_STEPS)
    try:
        _Validator(schema, registry=Registry()).validate(arguments)
    except Mismatch as error:
        why = start_of(error.message, _MOST_WORDS)
        member = str(error.absolute_path[0]) if error.absolute_path else ""
        raise Misfit(member, f"the edited arguments do not fit: {why}") from error
    except Exception as error:
        # Whatever the schema does to the validator, nothing is approved.
        why = start_of(str(error), _MOST_WORDS)
        raise Misfit("", f"the request's own schema is not usable: {why}") from error
    finally:
        _steps_left.reset(used)


def _count_steps(name: str, check: _Check) -> _Check:
    """Return a keyword's check that counts what it costs."""

    def step(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Mismatch]:
        size = _size(instance)
        # Items of several types are compared each with each.
        cost = 1 + _size(value) + size + (size * size // 100 if name == "uniqueItems" else 0)
        left = _steps_left.get() - cost
        if left < 0:
            raise ValueError("it takes too many steps")
        _steps_left.set(left)
        yield from check(validator, value, instance, schema) or ()

    return step


def _size(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _additional(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
    """Check `additionalProperties` where names alone say which those are."""
    if "patternProperties" in schema:
        return ()
    return Draft202012Validator.VALIDATORS["additionalProperties"](
        validator, value, instance, schema
    )


def _evolve(self: Any, **changes: Any) -> Any:
    """Return the checker of a part of the schema. It is ours, whatever draft the part names."""
    part = changes.get("schema", self.schema)
    if isinstance(part, dict) and "$schema" in part:
        changes["schema"] = {name: value for name, value in part.items() if name != "$schema"}
    return _library_evolve(self, **changes)


# A pattern could take for ever by itself, and nothing stops it. What is unevaluated is found by
# patterns too, and by steps that nobody counts. So these are left to the agent's side.
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
