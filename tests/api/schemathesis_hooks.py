"""What schemathesis cannot know from the document alone; it loads this (`SCHEMATHESIS_HOOKS`).

A request names the agent whose token is sent and carries the digest of what it would run. The
arguments of a plan list its calls. A batch names each request once, and a question each field. JSON
here has no U+0000, no integer beyond 2**53 - 1, and none that is written with a point, also where
any JSON may stand.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from typing import Any

import schemathesis

from gateway.errors import InvalidRequest
from gateway.models import ApprovalRequest, digest_of, id_of_call
from gateway.wire.canonical_json import MAX_INTEGER, parse
from gateway.wire.codec import build
from gateway.wire.schema import AGENT_NAME, DIGEST
from tests.api.replica import AGENT


@schemathesis.hook
def filter_body(context: Any, body: Any) -> bool:
    """Leave out what is no strict JSON: the tests of the parser are about that."""
    with contextlib.suppress(TypeError):  # raw bytes, of other media types
        try:
            parse(json.dumps(body).encode())
        except InvalidRequest:
            return False
    return True


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Bind a request to its agent, and say its digest and the id that a call's id makes, as every
    agent does."""
    if not isinstance(case.body, dict):
        return
    case.body = _with_whole_numbers(case.body)
    request = case.body.get("request")
    _name_each_once(case.body.get("items"))
    _name_each_once(request.get("questions") if isinstance(request, dict) else None)
    if isinstance(request, dict) and _is(DIGEST, request, "digest") and _is(
        AGENT_NAME, request, "agent"
    ):  # fmt: skip
        with contextlib.suppress(InvalidRequest, TypeError):
            request["agent"] = AGENT
            if request.get("kind") == "calls":
                request["arguments"] = {"calls": [{"tool": "ls", "arguments": {}}]}
            whole = build(ApprovalRequest, request)
            request["digest"] = digest_of(whole)
            if whole.call_id is not None:
                request["id"] = id_of_call(replace(whole, digest=request["digest"]))


def _name_each_once(things: Any) -> None:
    """Give whatever in a list has the id of one before it another."""
    if isinstance(things, list) and all(isinstance(one, dict) for one in things):
        seen: set[str] = set()
        for number, one in enumerate(things):
            if isinstance(one.get("id"), str) and one["id"] in seen:
                one["id"] = f"{number:032x}"
            seen.add(str(one.get("id")))


def _with_whole_numbers(value: Any) -> Any:
    """Return JSON values with each integer written as one."""
    if isinstance(value, dict):
        return {name: _with_whole_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(one) for one in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) <= MAX_INTEGER
    return int(value) if whole else value


def _is(pattern: re.Pattern[str], values: dict[str, Any], name: str) -> bool:
    value = values.get(name)
    return isinstance(value, str) and pattern.fullmatch(value) is not None
