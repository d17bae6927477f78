"""The OpenAPI 3.1 document, written from the table of routes and the messages' own types."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Literal

from pydantic import TypeAdapter

import gateway
from gateway.api.messages import Problem
from gateway.api.problems import MEDIA_TYPE
from gateway.api.routes import Endpoint, Nothing, routes
from gateway.models import Reason
from gateway.wire.codec import JsonObject
from gateway.wire.identifiers import AGENT_NAME, REQUEST_ID, SESSION_NAME

_REF = "#/components/schemas/{model}"
_OPEN_LISTS = (Reason,)  # a newer gateway may say what is not on them
_PATH_PATTERNS = {
    "agent": AGENT_NAME.pattern,
    "grant": REQUEST_ID.pattern,
    "id": REQUEST_ID.pattern,
    "session": SESSION_NAME.pattern,
}
_REASONS = {
    400: "The call is not one that HTTP allows.",
    401: "The credential is missing, unknown or revoked.",
    403: "The credential does not allow this.",
    404: "There is no such thing for this credential.",
    409: "It was decided already, has changed, or the id is taken.",
    413: "The body is too large.",
    415: "The body is not sent as application/json.",
    421: "The Host header names another host.",
    422: "The message breaks a rule; `detail` names the member.",
    429: "Too many failed credentials, event streams or waiting calls.",
    503: "Redis does not answer; nothing was approved.",
}


@lru_cache(maxsize=2)
def served_document(*, enrolment: bool) -> bytes:
    """Return the document as it is served; made when first asked for, as it takes long."""
    return encoded(document_of(routes(enrolment=enrolment)))


def document_of(endpoints: Iterable[Endpoint]) -> JsonObject:
    """Return the OpenAPI document of these routes as JSON values."""
    table = tuple(endpoints)
    schemas = _schemas(table)
    paths: dict[str, JsonObject] = {}
    for endpoint in table:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Approval gateway",
            "version": gateway.__version__,
            "description": "Agents ask, people answer, the agent goes on.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def encoded(document: JsonObject) -> bytes:
    """Return the document as it is served and kept in the docs."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _operation(endpoint: Endpoint, schemas: JsonObject) -> JsonObject:
    summary = (inspect.getdoc(endpoint.handle) or "").partition("\n")[0]
    name = f"{endpoint.handle.__module__.rpartition('.')[2]}.{endpoint.handle.__name__}"
    operation: JsonObject = {
        "operationId": name,
        "summary": summary,
        "description": _who(endpoint),
        "security": [{"bearer": []}] if endpoint.who else [],
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint)],
        "responses": {**_answers(endpoint), **_problems(endpoint)},
    }
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": bool(schemas[endpoint.body.__name__].get("required")),
            "content": {"application/json": {"schema": _reference(endpoint.body)}},
        }
    return operation


def _who(endpoint: Endpoint) -> str:
    if not endpoint.who:
        return "Open to everyone who reaches the port."
    return f"For {' and '.join(sorted(endpoint.who))} tokens."


def _path_parameters(endpoint: Endpoint) -> Iterator[JsonObject]:
    for name in re.findall(r"\{(\w+)\}", endpoint.path):
        schema = {"type": "string", "pattern": f"^{_PATH_PATTERNS[name]}$"}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(endpoint: Endpoint) -> Iterator[JsonObject]:
    schema = TypeAdapter(endpoint.query).json_schema(ref_template=_REF)
    for name, member in schema.get("properties", {}).items():
        yield {"name": name, "in": "query", "required": False, "schema": member}


def _answers(endpoint: Endpoint) -> JsonObject:
    return {str(status): _answer(what) for status, what in endpoint.answers.items()}


def _answer(what: type | tuple[type, ...] | str) -> JsonObject:
    if isinstance(what, str):
        return {"description": "As the media type says.", "content": {what: {}}}
    if isinstance(what, tuple):
        schema: JsonObject = {"anyOf": [_reference(one) for one in what]}
        return {"description": "As the caller may see it.", "content": _json(schema)}
    description = (what.__doc__ or "").partition("\n")[0]
    return {"description": description, "content": _json(_reference(what))}


def _problems(endpoint: Endpoint) -> JsonObject:
    statuses = {*endpoint.refusals, 421}
    statuses |= {401, 403, 429, 503} if endpoint.who else set()
    statuses |= {422} if endpoint.query is not Nothing else set()
    statuses |= {400, 413, 415, 422} if endpoint.body is not None else set()
    return {
        str(status): {
            "description": _REASONS[status],
            "content": {MEDIA_TYPE: {"schema": _reference(Problem)}},
        }
        for status in sorted(statuses - set(endpoint.answers))
    }


def _json(schema: JsonObject) -> JsonObject:
    return {"application/json": {"schema": schema}}


def _reference(cls: type) -> JsonObject:
    return {"$ref": _REF.format(model=cls.__name__)}


def _schemas(endpoints: Iterable[Endpoint]) -> JsonObject:
    bodies = {endpoint.body for endpoint in endpoints if endpoint.body is not None}
    answers: set[type] = {Problem}
    for endpoint in endpoints:
        for what in endpoint.answers.values():
            if not isinstance(what, str):
                answers.update(what if isinstance(what, tuple) else (what,))
    taken = _definitions(bodies)
    given = _definitions(answers)
    for name, schema in given.items():
        if name not in taken:
            # What the gateway says may gain members; what it is told may not have unknown ones.
            schema.pop("additionalProperties", None)
    both = {**given, **taken}
    for kind in _OPEN_LISTS:
        both[kind.__name__]["examples"] = both[kind.__name__].pop("enum")
    return {name: both[name] for name in sorted(both)}


def _definitions(classes: Iterable[type]) -> dict[str, Any]:
    adapters: list[tuple[str, Literal["validation"], TypeAdapter[Any]]] = [
        (cls.__name__, "validation", TypeAdapter(cls))
        for cls in sorted(classes, key=lambda cls: cls.__name__)
    ]
    _, schema = TypeAdapter.json_schemas(adapters, ref_template=_REF)
    definitions: dict[str, Any] = schema.get("$defs", {})
    return definitions
