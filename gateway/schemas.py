"""Checks changed arguments against a request's own schema, which an agent wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from gateway.errors import InvalidRequest
from gateway.wire import JsonObject

_MOST_STEPS = 50_000  # a few tenths of a second; schemas within schemas could take for ever
_MOST_WORDS = 300
_steps_left: ContextVar[int] = ContextVar("steps_left")

_Check = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


def check_schema(schema: JsonObject | None, arguments: JsonObject) -> None:
    """Return when changed arguments fit the request's schema; raises InvalidRequest."""
    if schema is None:
        return
    used = _steps_left.set(_MOST_STEPS)
    try:
        _Validator(schema, registry=Registry()).validate(arguments)
    except ValidationError as error:
        why = error.message[:_MOST_WORDS]
        raise InvalidRequest(f"the edited arguments do not fit: {why}") from error
    except Exception as error:
        # Whatever the schema does to the validator, nothing is approved.
        why = str(error)[:_MOST_WORDS]
        raise InvalidRequest(f"the request's own schema is not usable: {why}") from error
    finally:
        _steps_left.reset(used)


def _counted(name: str, check: _Check) -> _Check:
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


# Patterns could take for ever by themselves; the agent checks its own again before it runs.
_Validator: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        **{name: _counted(name, check) for name, check in Draft202012Validator.VALIDATORS.items()},
        "pattern": None,
        "patternProperties": None,
    },
)
