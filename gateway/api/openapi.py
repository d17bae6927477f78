"""Generate the OpenAPI 3.1 document from routes and message types; see `served_document`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.json_schema import CoreModeRef, CoreRef, DefsRef, GenerateJsonSchema
from pydantic_core.core_schema import IntSchema

import gateway
from gateway.api.api_call import Nothing, Operation
from gateway.api.messages import Prepare, Problem
from gateway.api.problems import MEDIA_TYPE
from gateway.api.routes import ApiRoute, routes
from gateway.models import ApprovalRequest, Reason
from gateway.wire.canonical_json import MAX_INTEGER
from gateway.wire.codec import JsonObject
from gateway.wire.schema import AGENT_NAME, REQUEST_ID, SESSION_NAME

_REF = "#/components/schemas/{model}"
_DESCRIPTION = (
    "Agents submit requests, people approve or deny them, and agents claim the approvals. JSON is "
    "read strictly: names in an object are unique, texts contain no U+0000 and no half of a "
    "surrogate pair, numbers are finite, and integers have no point and are within 2**53 - 1."
)
_OPEN_LISTS = (Reason,)  # a newer gateway may return further values
_PATH_PATTERNS = {
    "agent": AGENT_NAME.pattern,
    "grant": REQUEST_ID.pattern,
    "id": REQUEST_ID.pattern,
    "session": SESSION_NAME.pattern,
}
_REASONS = {
    400: "The call is not valid HTTP.",
    401: "The credential is missing, unknown or revoked.",
    403: "The credential does not allow this.",
    404: "The object does not exist, or this credential may not see it.",
    409: "The request is already decided or has changed, or its id is taken.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    421: "The Host header names another host.",
    422: "The message breaks a rule; `detail` names the member.",
    429: "Too many failed credentials, event streams or waiting calls.",
    503: "Redis does not answer, or the gateway is stopping; nothing was approved.",
}


@lru_cache(maxsize=2)
def served_document(*, enrolment: bool) -> bytes:
    """Return the document as served. It is built at the first call, because that takes long."""
    return encode(document_of(routes(enrolment=enrolment)))


def document_of(table: Sequence[ApiRoute]) -> JsonObject:
    """Return the OpenAPI document of these routes as JSON values."""
    schemas = _schemas([route.operation for route in table])
    paths: dict[str, JsonObject] = {}
    for route in table:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Approval gateway",
            "version": gateway.__version__,
            "description": _DESCRIPTION,
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def encode(document: JsonObject) -> bytes:
    """Return the document as bytes, as it is served and stored in the docs."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _describe(route: ApiRoute, schemas: JsonObject) -> JsonObject:
    operation = route.operation
    described: JsonObject = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": _access(route),
        "security": [{"bearer": []}] if route.who else [],
        "parameters": [*_path_parameters(route), *_query_parameters(operation)],
        "responses": {**_answers(operation), **_problems(route)},
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": bool(schemas[operation.body.__name__].get("required")),
            "content": _json(_reference(operation.body)),
        }
    return described


def _access(route: ApiRoute) -> str:
    if not route.who:
        return "Open to everyone who can reach the port."
    return f"For {' and '.join(sorted(route.who))} tokens."


def _path_parameters(route: ApiRoute) -> Iterator[JsonObject]:
    for name in re.findall(r"\{(\w+)\}", route.path):
        schema = {"type": "string", "pattern": f"^{_PATH_PATTERNS[name]}$"}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(operation: Operation) -> Iterator[JsonObject]:
    schema = TypeAdapter(operation.query).json_schema(ref_template=_REF)
    needed = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        yield {
            "name": name,
            "in": "query",
            "required": name in needed,
            "schema": _without_null(member),
        }


def _without_null(schema: JsonObject) -> JsonObject:
    """Return the schema of a query parameter, which can be left out but not null."""
    arms = [arm for arm in schema.get("anyOf", ()) if arm != {"type": "null"}]
    if len(arms) != 1:
        return schema
    return {**arms[0], **{name: said for name, said in schema.items() if name == "title"}}


def _answers(operation: Operation) -> JsonObject:
    return {str(status): _answer(what) for status, what in operation.answers.items()}


def _answer(what: type | tuple[type, ...] | str) -> JsonObject:
    if isinstance(what, str):
        return {"description": "Content of this media type.", "content": {what: {}}}
    if isinstance(what, tuple):
        schema: JsonObject = {"anyOf": [_reference(one) for one in what]}
        return {
            "description": "The form of the body depends on the caller.",
            "content": _json(schema),
        }
    description = (what.__doc__ or "").partition("\n")[0]
    return {"description": description, "content": _json(_reference(what))}


def _problems(route: ApiRoute) -> JsonObject:
    operation = route.operation
    statuses = {*operation.refusals, 421}
    statuses |= {401, 403, 429, 503} if route.who else set()
    statuses |= {422} if operation.query is not Nothing else set()
    statuses |= {400, 413, 415, 422} if operation.body is not None else set()
    return {
        str(status): {
            "description": _REASONS[status],
            "content": {MEDIA_TYPE: {"schema": _reference(Problem)}},
        }
        for status in sorted(statuses - set(operation.answers))
    }


def _json(schema: JsonObject) -> JsonObject:
    return {"application/json": {"schema": schema}}


def _reference(cls: type) -> JsonObject:
    return {"$ref": _REF.format(model=cls.__name__)}


def _schemas(operations: Sequence[Operation]) -> JsonObject:
    bodies = {operation.body for operation in operations if operation.body is not None}
    answers: set[type] = {Problem}
    for operation in operations:
        for what in operation.answers.values():
            if not isinstance(what, str):
                answers.update(what if isinstance(what, tuple) else (what,))
    taken = _definitions(bodies)
    given = _definitions(answers)
    for name, schema in given.items():
        if name not in taken:
            # Responses may gain members later; bodies must not have unknown ones.
            schema.pop("additionalProperties", None)
    both = {**given, **taken}
    # `prepare` takes a request like `submit`, but without the digest. It adds agent and id.
    if Prepare in bodies:
        asked = both[ApprovalRequest.__name__]
        both[Prepare.__name__]["properties"]["request"] = {
            **asked,
            "title": "Request",
            "required": [
                name for name in asked["required"] if name not in ("id", "agent", "digest")
            ],
            "properties": {
                name: said for name, said in asked["properties"].items() if name != "digest"
            },
        }
    for kind in _OPEN_LISTS:
        schema = both[kind.__name__]
        schema["examples"] = schema.pop("enum")
    return {name: both[name] for name in sorted(both)}


def _definitions(classes: Iterable[type]) -> dict[str, Any]:
    adapters: list[tuple[str, Literal["validation"], TypeAdapter[Any]]] = [
        (cls.__name__, "validation", TypeAdapter(cls))
        for cls in sorted(classes, key=lambda cls: cls.__name__)
    ]
    _, schema = TypeAdapter.json_schemas(
        adapters, ref_template=_REF, schema_generator=_NamedSchemas
    )
    definitions: dict[str, Any] = schema.get("$defs", {})
    for name, definition in definitions.items():
        definition["title"] = name
    return definitions


class _NamedSchemas(GenerateJsonSchema):
    """Names each schema like its class, and limits integers as in messages."""

    def int_schema(self, schema: IntSchema) -> JsonObject:
        """Return the schema of an integer."""
        return {"minimum": -MAX_INTEGER, "maximum": MAX_INTEGER, **super().int_schema(schema)}

    def get_defs_ref(self, core_mode_ref: CoreModeRef) -> DefsRef:
        """Return the key of a class's schema. `core_mode_ref` is `module.Class:id` and a mode."""
        reference, mode = core_mode_ref
        qualified, _, number = reference.partition(":")
        name = qualified.rpartition(".")[2]
        return super().get_defs_ref((CoreRef(f"{name}:{number}"), mode))
