"""The patterns of ids and names, on the wire and in paths."""

from __future__ import annotations

import re

AGENT_NAME = re.compile(r"[a-z0-9_-]{1,64}")
REQUEST_ID = re.compile(r"[0-9a-f]{32}")
PROCESS_TOKEN = re.compile(r"[0-9a-z]{8,64}")
SESSION_NAME = re.compile(r"[A-Za-z0-9_.:@/+=-]{1,128}")
DIGEST = re.compile(r"[0-9a-f]{64}")
CALL_ID = re.compile(r"[^\x00-\x1f\x7f]{1,256}")
TOOL_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,256}")
VERBS = ("submit", "sync", "cancel", "consume", "report", "fetch")
_DIGEST_CHARS = 16


def told_verb(verb: str) -> str:
    """Return a message's verb as it is kept: what is none of them may be anything."""
    return verb if verb in VERBS else "unknown"


def digest_process(process: str) -> str:
    """Return what is kept of a process token in the audit: it tells two processes apart, and nobody
    takes an approval with it."""
    import hashlib  # noqa: PLC0415 (the gateway alone needs it; `sha256_hex` lies above)

    return hashlib.sha256(process.encode()).hexdigest()[:_DIGEST_CHARS]
