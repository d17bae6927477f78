"""Makes requests: with their digest, their id, and what this process and context say of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.client.bound_files import hash_files
from gateway.client.context import current_session, current_turn, origin_of
from gateway.errors import InvalidRequest
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    Kind,
    Origin,
    Preview,
    Question,
    Risk,
    digest_of,
    id_of_call,
    new_id,
)
from gateway.wire.codec import JsonObject
from gateway.wire.roles import check_roles

_NO_DIGEST = "0" * 64


class RequestMaker:
    """Makes the requests of one agent."""

    @property
    def agent(self) -> str:
        """The agent that asks."""
        raise NotImplementedError

    def request(  # noqa: PLR0913 (one keyword for each part of a request)
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        kind: Kind = Kind.TOOL,
        hint: str = "",
        preview: Preview | None = None,
        payload: JsonObject | None = None,
        context: Context | None = None,
        files: Sequence[str] = (),
        origin: Origin | None = None,
        questions: Sequence[Question] = (),
        schema: JsonObject | None = None,
        allowed: Sequence[Action] = (Action.APPROVE, Action.DENY),
        risk: Risk | None = None,
        timeout: float | None = None,
        session: str | None = None,
        turn: str | None = None,
        id: str | None = None,
        call_id: str | None = None,
        part: str | None = None,
        group: str | None = None,
        roles: Mapping[str, str] | None = None,
        harmless: bool = False,
        human: bool = False,
        read_only: bool = False,
    ) -> ApprovalRequest:
        """Return a request with its digest, and with a new id where none is given.

        `call_id` is the host's own id of the call, with a `part` where it asks more than once in
        one. The request's id is then derived from agent, session, call, part and content: a call
        that is tried again finds its request, whose approval runs once, and one with other content
        supersedes it. `turn` and `origin` are the context's unless they are given. `read_only` says
        that the tool changes nothing; only a rule of the policy that names it makes use of that.

        `context` is where it would run, by default this process's folder and host. `roles` say what
        arguments are to the tool, `harmless` that nothing it does needs asking; see
        `requires_approval`. `human` demands that a person answers. `files` are bound with their
        content: when one of them, or a link on the way to it, has changed at the end, the approval
        is refused. Without `timeout` the time of the gateway's route holds; 0 is none. Raises
        InvalidRequest.
        """
        if roles:
            check_roles(roles)
        if call_id is not None and id is not None:
            raise InvalidRequest("a request has a call_id or an id of its own, not both")
        source = origin_of(origin)
        if call_id is not None and source.tool_call_id is None:
            source = replace(source, tool_call_id=call_id)
        draft = ApprovalRequest(
            id=id or new_id(),
            agent=self.agent,
            tool=tool,
            arguments=dict(arguments),
            digest=_NO_DIGEST,
            kind=kind,
            session=session or current_session.get(),
            turn=current_turn.get() if turn is None else turn,
            hint=hint,
            preview=preview,
            payload=payload,
            context=_where(context, files),
            origin=source,
            questions=tuple(questions),
            schema=schema,
            allowed=tuple(allowed),
            risk=risk,
            timeout=timeout,
            roles={name: str(role) for name, role in (roles or {}).items()},
            harmless=harmless,
            human=human,
            call_id=call_id,
            part=part,
            group=group,
            read_only=read_only,
        )
        whole = replace(draft, digest=digest_of(draft))
        return whole if call_id is None else replace(whole, id=id_of_call(whole))


def _where(context: Context | None, files: Sequence[str]) -> Context:
    """Return where it would run, with the files that are bound."""
    where = context or _here()
    return replace(where, files={**where.files, **hash_files(files)}) if files else where


def _here() -> Context:
    return Context(cwd=os.getcwd(), host=socket.gethostname())  # noqa: PTH109 (`pathlib` costs 4 ms)
