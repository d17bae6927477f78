"""The policy file of the settings: applied at the start, and read again when that is wanted."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from pathlib import Path

from gateway.domain.policy_document import PolicyDocument
from gateway.errors import Conflict, GatewayError
from gateway.policy.lockout import find_lockout, find_no_admin
from gateway.policy.policy_file import BadPolicy, differences, read_policy
from gateway.server.connections import Backend
from gateway.server.plugins import refuse_unknown
from gateway.stores.credentials import APPROVER, REDIS_ERRORS

log = logging.getLogger("gateway.policy")

POLICY_FILE = "policy file"
"""Where the health of a gateway says that its policy file was not applied."""

_PASSING: tuple[type[Exception], ...] = (GatewayError, *REDIS_ERRORS)


async def apply_at_start(backend: Backend, path: Path) -> str | None:
    """Apply the file; where rules of earlier are in force, return why a bad one was not applied."""
    try:
        await apply_file(backend, path)
    except GatewayError as error:
        if not (await backend.store.policy()).routes:
            raise
        return _say_refusal(path, error)
    return None


async def apply_again(backend: Backend, path: Path) -> str | None:
    """Apply the file if it was changed; whatever goes wrong leaves in force what is, and is
    returned."""
    try:
        await apply_file(backend, path)
    except _PASSING as error:
        return _say_refusal(path, error)
    return None


async def apply_file(backend: Backend, path: Path) -> None:
    """Put a policy file in force, unless the same content was the last to be applied this way.

    So what `gateway apply` put in force later stays until the file is changed. Raises GatewayError
    when the file is bad, or would leave nobody who could approve.
    """
    store = backend.store
    text, digest = _read(path)
    now, last = await store.policy(), await store.policy_file()
    written = read_policy(text)
    refuse_unknown(written)
    if last.digest == digest:
        if differences(now, written):
            log.warning(
                "the policy file %s is unchanged since it was applied; what is in force is newer, "
                "by %s: `gateway apply %s` puts the file back in force",
                path, last.by, path, extra={"event": "policy_file_older"},
            )  # fmt: skip
        return
    if not differences(now, written):
        await store.note_policy_file(digest)
        return
    await _refuse_lockout(backend, now, written)
    try:
        named = f"the file {path.name}"
        await store.apply(replace(written, generation=now.generation), by=named, digest=digest)
    except Conflict:
        if (await store.policy_file()).digest != digest:
            raise
        return  # another replica applied the same file
    log.info("the policy file %s is in force", path, extra={"event": "policy_file_applied"})


async def _refuse_lockout(backend: Backend, now: PolicyDocument, written: PolicyDocument) -> None:
    """Raise BadPolicy when people can approve now, and nobody could then; the same with admins."""
    tokens = {row.name for row in await backend.credentials.list_all(APPROVER)}
    for find in (find_lockout, find_no_admin):
        if (missing := find(written, tokens)) and not find(now, tokens):
            raise BadPolicy(f"{missing}; or confirm it with: gateway apply FILE --yes")


def _read(path: Path) -> tuple[str, str]:
    """Return the text of the file, and a digest of it."""
    try:
        raw = path.read_bytes()
        return raw.decode(), hashlib.sha256(raw).hexdigest()
    except (OSError, UnicodeDecodeError) as error:
        raise BadPolicy(f"cannot read {path}: {error}") from None


def _say_refusal(path: Path, error: Exception) -> str:
    return f"the policy file {path} was not applied, what was in force stays: {error}"
