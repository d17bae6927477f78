"""How a call would be decided, over HTTP, for admins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aiohttp import web

from gateway.api.call import ApiCall, reply
from gateway.api.operation import operation
from gateway.approvals.explanation import Explanation
from gateway.domain.parsing import check_request
from gateway.errors import NotFound
from gateway.models import ApprovalRequest
from gateway.wire.codec import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainCall(Wire):
    """A call as an agent would submit it."""

    request: ApprovalRequest


@operation("explain.explain", {200: Explanation}, body=ExplainCall)
async def explain(call: ApiCall) -> web.Response:
    """Return what would become of a call, what each decider says about it, and who would be asked.

    Nothing is asked and nothing is stored. What would be refused when it is submitted is refused.
    """
    request: ApprovalRequest = call.body.request
    check_request(request)
    found = await call.core.explanations.explain(call.identity, request)
    try:
        await call.services.access.check_agent(request.agent)
    except NotFound:
        found = replace(found, known=False)
    return reply(found)
