"""The table of routes and their callers, for aiohttp and for the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.api import agent_verbs, events, grants, operators, requests
from gateway.api.api_call import AGENT, APPROVER, Operation

ANYONE: frozenset[str] = frozenset()
AGENTS = frozenset({AGENT})
APPROVERS = frozenset({APPROVER})
BOTH = AGENTS | APPROVERS
ENROLL_PATH = "/v1/enroll"
ENROL_SECRET = frozenset({"enrolment"})


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """The method and path of an operation, and the callers that may use it. `reads`: a POST that
    changes nothing."""

    method: str
    path: str
    operation: Operation
    who: frozenset[str]
    reads: bool = False

    @property
    def needs_token(self) -> bool:
        """Whether the caller needs a credential."""
        return bool(self.who & BOTH)


# The messages of a handler are declared at its `@operation`.
ROUTES: tuple[ApiRoute, ...] = (
    ApiRoute("POST", "/v1/requests", agent_verbs.submit, AGENTS),
    ApiRoute("POST", "/v1/requests/prepare", agent_verbs.prepare, AGENTS),
    ApiRoute("GET", "/v1/requests", requests.list_requests, BOTH),
    ApiRoute("GET", "/v1/requests/{id}", requests.look, BOTH),
    ApiRoute("POST", "/v1/requests/{id}/cancel", agent_verbs.cancel, AGENTS),
    ApiRoute("POST", "/v1/requests/{id}/consume", agent_verbs.consume, AGENTS),
    ApiRoute("POST", "/v1/requests/{id}/report", agent_verbs.report, AGENTS),
    ApiRoute("POST", "/v1/requests/{id}/decide", requests.decide, APPROVERS),
    ApiRoute("POST", "/v1/batches", requests.decide_batch, APPROVERS),
    ApiRoute("GET", "/v1/requests/{id}/offers", grants.list_offers, APPROVERS),
    ApiRoute("GET", "/v1/requests/{id}/reach", grants.measure_reach, APPROVERS),
    ApiRoute("GET", "/v1/grants", grants.list_grants, APPROVERS),
    ApiRoute("POST", "/v1/grants", grants.create, APPROVERS),
    ApiRoute("POST", "/v1/grants/offers", grants.list_offers_of_example, APPROVERS),
    ApiRoute("POST", "/v1/grants/revoke", grants.revoke_all, APPROVERS),
    ApiRoute("GET", "/v1/grants/{grant}", grants.look, APPROVERS),
    ApiRoute("POST", "/v1/grants/{grant}/revoke", grants.revoke, APPROVERS),
    ApiRoute("GET", "/v1/tools", operators.list_tools, APPROVERS),
    ApiRoute("POST", "/v1/tools", operators.declare, APPROVERS),
    ApiRoute("POST", "/v1/sync", agent_verbs.sync, AGENTS),
    ApiRoute("GET", "/v1/sessions", agent_verbs.list_sessions, BOTH),
    ApiRoute("POST", "/v1/sessions/{session}/end", agent_verbs.end_session, BOTH),
    ApiRoute("POST", "/v1/sessions/{session}/pass", grants.create_pass, APPROVERS),
    ApiRoute("GET", "/v1/agents/paused", operators.list_paused, APPROVERS),
    ApiRoute("POST", "/v1/agents/{agent}/lift", operators.lift, APPROVERS),
    ApiRoute("GET", "/v1/report", operators.report, APPROVERS),
    ApiRoute("POST", "/v1/explain", operators.explain, APPROVERS, reads=True),
    ApiRoute("GET", "/v1/events", events.stream, APPROVERS),
    ApiRoute("POST", "/v1/hooks", agent_verbs.run_hooks, AGENTS),
    ApiRoute("POST", ENROLL_PATH, agent_verbs.enroll, ENROL_SECRET),
    ApiRoute("GET", "/healthz", operators.check_health, ANYONE),
    ApiRoute("GET", "/readyz", operators.check_readiness, ANYONE),
    ApiRoute("GET", "/metrics", operators.render_metrics, ANYONE),
    ApiRoute("GET", "/v1/openapi.json", operators.send_document, ANYONE),
)


def routes(*, enrolment: bool) -> tuple[ApiRoute, ...]:
    """Return the routes to serve; the enrolment route only if agents may enrol."""
    return ROUTES if enrolment else tuple(one for one in ROUTES if one.path != ENROLL_PATH)
