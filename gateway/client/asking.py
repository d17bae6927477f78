"""Requests as agents write them: a tool, its arguments, and whatever else is worth saying."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    JsonObject,
    Kind,
    Origin,
    Preview,
    Question,
    Risk,
    digest_of,
    new_id,
)


class Details(TypedDict, total=False):
    """What may be said about a request; see `gateway.models.ApprovalRequest`. `timeout` is seconds."""

    kind: Kind
    session: str | None
    turn: str | None
    hint: str
    preview: Preview | None
    payload: JsonObject | None
    context: Context
    origin: Origin
    questions: Sequence[Question]
    schema: JsonObject | None
    allowed: Sequence[Action]
    risk: Risk | None
    timeout: float | None


def new_request(
    agent: str, tool: str, arguments: JsonObject | None, details: Details
) -> ApprovalRequest:
    """Return a request with a new id and its digest, safe from later changes of `arguments`.

    Raises InvalidRequest when a member breaks the wire's rules or has no JSON form.
    """
    said = {name: value for name, value in details.items() if value is not None}
    for listed in ("questions", "allowed"):
        if listed in said:
            said[listed] = tuple(details[listed])  # type: ignore[literal-required]
    draft = ApprovalRequest(
        id=new_id(),
        agent=agent,
        tool=tool,
        digest="",
        arguments=copy.deepcopy(arguments or {}),
        **copy.deepcopy(said),  # type: ignore[arg-type]
    )
    return replace(draft, digest=digest_of(draft))
