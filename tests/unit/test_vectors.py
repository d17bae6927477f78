"""The vectors that clients in other languages are tested with, too."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import Unverified
from gateway.models import ApprovalRequest, digest_of, new_id
from gateway.wire.canonical_json import canonical
from gateway.wire.codec import build, plain
from gateway.wire.signatures import Verifier
from tests.frame.tree import ROOT

VECTORS = json.loads((ROOT / "tests" / "vectors" / "wire.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", VECTORS["digests"], ids=lambda row: row["digest"][:8])
def test_each_vector_has_our_bytes_and_our_digest(row: dict[str, Any]) -> None:
    """From the same members the same canonical JSON, and the same digest."""
    made = {"id": new_id(), "agent": row["agent"], "digest": "0" * 64, **row["call"]}
    request = build(ApprovalRequest, made)
    assert digest_of(request) == row["digest"]
    covered = {
        "v": 1,
        "agent": request.agent,
        "kind": str(request.kind),
        "tool": request.tool,
        "arguments": request.arguments,
        "payload": request.payload,
        "context": plain(request.context),
        "questions": plain(request.questions),
    }
    assert canonical(covered).decode() == row["canonical"]
    assert digest_of(replace(request, tool="other")) != row["digest"]


def test_the_signed_decision_is_signed() -> None:
    """By the key that the vectors name, over everything but the signature; one change breaks it."""
    signed = dict(VECTORS["signature"]["decision"])
    signature = signed.pop("signature")
    verifier = Verifier(VECTORS["signature"]["public_key"])
    verifier.verify(canonical(signed), signature)
    with pytest.raises(Unverified):
        verifier.verify(canonical({**signed, "revision": 3}), signature)
