"""The five verbs and `fetch` over Redis streams: each entry becomes a call of `Approvals`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from gateway.approvals.core import Core
from gateway.domain.parsing import check_agent_reason, parse_message, parse_off_loop, parse_request
from gateway.domain.redaction import mask
from gateway.domain.store import MessageContext, Store
from gateway.errors import GatewayError, InvalidRequest, Unreachable
from gateway.models import MAX_SYNC_IDS, Reason, Report
from gateway.ports import Credentials
from gateway.wire.codec import Wire
from gateway.wire.identifiers import (
    PROCESS_TOKEN,
    REQUEST_ID,
    SESSION_NAME,
    VERBS,
    told_verb,
)

_NONCE_LENGTH = 64


class Intake:
    """Handles entries. An agent's mistake is answered and audited; any other error is raised."""

    def __init__(self, core: Core, store: Store, credentials: Credentials) -> None:
        self._approvals = core.approvals
        self._sessions = core.sessions
        self._store = store
        self._credentials = credentials
        self._verbs: dict[str, Callable[[MessageContext, dict[str, str]], Awaitable[Any]]] = {
            "submit": self._submit,
            "sync": self._sync,
            "cancel": self._cancel,
            "consume": self._consume,
            "report": self._report,
            "fetch": self._fetch,
        }

    async def handle(self, agent: str, entry: str, fields: dict[str, str]) -> None:
        """Handle one entry of an agent's ingress stream."""
        origin = self._origin(agent, entry, fields)
        try:
            if fields.get("v") != "1":
                raise InvalidRequest("this gateway speaks version 1 of the wire")
            verb = self._verbs.get(origin.verb)
            if verb is None:
                raise InvalidRequest(f"the verb must be one of {', '.join(VERBS)}")
            if origin.process is None:
                raise InvalidRequest("the process token does not fit")
            holder = await self._credentials.holder(agent)
            await verb(replace(origin, owner=holder.owner, since=holder.since), fields)
        except Unreachable:
            raise
        except GatewayError as error:
            await self._refuse(origin, error)

    async def dead_letter(self, agent: str, entry: str, fields: dict[str, str]) -> None:
        """Answer an entry that failed too often, and write it to the audit."""
        origin = self._origin(agent, entry, fields)
        await self._store.note(
            "dead_letter", agent=agent, data={"entry": entry, "verb": told_verb(origin.verb)}
        )
        detail = "the gateway failed to handle this message"
        await self._store.answer(origin, error={"code": "error", "detail": detail})

    def _origin(self, agent: str, entry: str, fields: dict[str, str]) -> MessageContext:
        process = fields.get("process", "")
        return MessageContext(
            agent=agent,
            process=process if PROCESS_TOKEN.fullmatch(process) else None,
            arrived_ms=int(entry.partition("-")[0]),
            verb=fields.get("verb", "")[:20],
            nonce=fields.get("nonce", "")[:_NONCE_LENGTH],
            entry=entry,
        )

    async def _refuse(self, origin: MessageContext, error: GatewayError) -> None:
        why = mask(str(error))[:500]  # masked first: half a secret is not recognised
        await self._store.note(
            "refused",
            agent=origin.agent,
            data={"verb": told_verb(origin.verb), "code": error.code, "why": why},
        )
        await self._store.answer(origin, error={"code": error.code, "detail": why})

    async def _submit(self, origin: MessageContext, fields: dict[str, str]) -> None:
        request = await parse_off_loop(parse_request, _body(fields))
        await self._approvals.submit(request, origin, detached=fields.get("detached") == "1")

    async def _sync(self, origin: MessageContext, fields: dict[str, str]) -> None:
        await self._approvals.sync(parse_message(SyncBody, _body(fields)).ids, origin)

    async def _cancel(self, origin: MessageContext, fields: dict[str, str]) -> None:
        body = parse_message(CancelBody, _body(fields))
        if body.session is not None:
            await self._sessions.end(body.session, origin)
        elif body.id is not None:
            await self._approvals.cancel(body.id, origin, reason=body.reason, message=body.message)

    async def _consume(self, origin: MessageContext, fields: dict[str, str]) -> None:
        await self._approvals.consume(parse_message(ConsumeBody, _body(fields)).id, origin)

    async def _report(self, origin: MessageContext, fields: dict[str, str]) -> None:
        body = parse_message(ReportBody, _body(fields))
        await self._approvals.report(body.id, body.report, origin)

    async def _fetch(self, origin: MessageContext, fields: dict[str, str]) -> None:
        await self._approvals.fetch(parse_message(FetchBody, _body(fields)).id, origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncBody(Wire):
    """What `sync` says: the requests that the process waits for."""

    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.ids) > MAX_SYNC_IDS:
            raise InvalidRequest(f"sync takes at most {MAX_SYNC_IDS} ids")
        for one in self.ids:
            check_id(one)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelBody(Wire):
    """What `cancel` says: one request, or a session to end."""

    id: str | None = None
    session: str | None = None
    reason: Reason = Reason.CANCELLED_BY_AGENT
    message: str = ""

    def __post_init__(self) -> None:
        if (self.id is None) == (self.session is None):
            raise InvalidRequest("cancel names either a request or a session")
        if self.id is not None:
            check_id(self.id)
        if self.session is not None and not SESSION_NAME.fullmatch(self.session):
            raise InvalidRequest("the session's name does not fit")
        check_agent_reason(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeBody(Wire):
    """What `consume` says."""

    id: str

    def __post_init__(self) -> None:
        check_id(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchBody(Wire):
    """What `fetch` says."""

    id: str

    def __post_init__(self) -> None:
        check_id(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBody(Wire):
    """What `report` says."""

    id: str
    report: Report

    def __post_init__(self) -> None:
        check_id(self.id)


def check_id(value: str) -> None:
    """Raise InvalidRequest unless `value` is a request id."""
    if not REQUEST_ID.fullmatch(value):
        raise InvalidRequest("an id is 32 hex digits")


def _body(fields: dict[str, str]) -> bytes:
    return fields.get("body", "{}").encode()
