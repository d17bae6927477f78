"""What a gateway answers to `gateway ask`: signed decisions about what was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gateway.models import (
    Action,
    ApprovalRequest,
    DecidedBy,
    DeciderKind,
    Decision,
    Reason,
    State,
    Status,
    digest_of,
)
from gateway.wire.codec import JsonObject, build, plain
from gateway.wire.signatures import Signer
from tests.client.scripted import answer
from tests.world import SEED

SIGNER = Signer(SEED)
ASK = ("ask", "shell", "--", "rm", "x")
PENDING = answer({"id": "0" * 32, "status": "pending", "revision": 1, "digest": "", "deadline": 0})


def decided(request: ApprovalRequest, **changes: Any) -> JsonObject:
    """Return the state of a request that a person approved, or as changed, signed."""
    edited = changes.get("arguments")
    decision = Decision(
        request_id=request.id,
        revision=2,
        status=Status.APPROVED,
        action=Action.APPROVE,
        reason=Reason.PERSON,
        digest=digest_of(request, edited),
        decided_by=DecidedBy(kind=DeciderKind.PERSON, name="ann"),
        decided_at=1,
        expires_at=2,
    )
    decision = replace(decision, **changes)
    signed = replace(decision, signature=SIGNER.sign(decision.signed_bytes()))
    state: JsonObject = plain(
        State(
            id=request.id,
            status=decision.status,
            revision=2,
            digest=request.digest,
            deadline=0,
            decision=signed,
        )
    )
    return state


def deciding(
    change: Callable[[JsonObject], Any] = lambda state: state, **changes: Any
) -> Callable[[bytes], bytes]:
    """Return an answer to a submission: decided, and the state changed after it was signed."""

    def reply(call: bytes) -> bytes:
        request = build(ApprovalRequest, json.loads(call.partition(b"\r\n\r\n")[2])["request"])
        assert request.digest == digest_of(request)
        return answer(change(decided(request, **changes)))

    return reply
