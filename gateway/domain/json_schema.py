"""Checks changed arguments against a request's own schema, which an agent wrote.

What could keep the gateway busy without end is not checked: `pattern`, `patternProperties` with the
`additionalProperties` beside it, `unevaluatedProperties` and `unevaluatedItems`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import create
from referencing import Registry

from gateway.domain.redaction import start_of
from gateway.errors import InvalidRequest
from gateway.wire.codec import JsonObject

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
    except ValidationError as error:
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

    def step(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
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
