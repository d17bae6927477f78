"""What a test agent writes down: one JSON line for each thing it asked, was told, and ran.

Lines are whole even when the process is killed. Beside the audit export, this is all that
`tests.faults.invariants` looks at.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from gateway.domain.time_and_tasks import SystemClock
from gateway.models import ApprovalRequest, Decision, digest_of
from gateway.wire.codec import JsonObject


class AgentLog:
    """The log of one agent process. `process` is the token that it shows to the gateway."""

    def __init__(self, path: Path, agent: str, process: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._who = {"agent": agent, "process": process}

    def asked(self, request: ApprovalRequest) -> None:
        """It is about to ask, for the first time or again."""
        self._write("asked", request.id, digest=request.digest, timeout=request.timeout)

    def told(self, request: ApprovalRequest, decision: Decision) -> None:
        """It was told how the request ended. Revision 0: its own clock says so, no gateway did."""
        self._write(
            "told",
            request.id,
            status=decision.status.value,
            reason=decision.reason.value,
            revision=decision.revision,
            digest=decision.digest,
        )

    def ran(self, request: ApprovalRequest, arguments: JsonObject) -> None:
        """It ran these arguments."""
        self._write("ran", request.id, digest=digest_of(request, arguments))

    def gave_up(self, request: ApprovalRequest) -> None:
        """It does not wait any more, by its own will."""
        self._write("gave_up", request.id)

    def _write(self, event: str, request_id: str, **more: object) -> None:
        line = {"at": SystemClock().now_ms(), "event": event, "id": request_id, **self._who, **more}
        os.write(self._file, json.dumps(line).encode() + b"\n")
