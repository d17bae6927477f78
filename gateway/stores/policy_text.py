"""How the policy lies in Redis: JSON that an earlier version never reads as laxer than it is.

A version that knows no levels of risk skips what it does not know. So a route with levels names its
approvers under another name, and stands there as one on which nobody may approve.
"""

from __future__ import annotations

import json

from gateway.domain.policy_document import PolicyDocument
from gateway.wire.codec import JsonObject, build, plain

_ADMITS = "admits"


def write_policy(policy: PolicyDocument) -> JsonObject:
    """Return a policy as it is kept, without its generation."""
    body: JsonObject = plain(policy)
    body.pop("generation", None)
    for route in body.get("routes", ()):
        if "risk" in route:
            route[_ADMITS] = route.pop("approvers", [])
    return body


def policy_of(raw: str | None) -> PolicyDocument:
    """Return the policy that is kept as this text, without its generation; None is an empty one."""
    if not raw:
        return PolicyDocument()
    body = json.loads(raw)
    for route in body.get("routes", ()):
        if _ADMITS in route:
            route["approvers"] = route.pop(_ADMITS)
    return build(PolicyDocument, body)
