"""The one table of routes: aiohttp serves it, and the OpenAPI document is written from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from gateway.api import agent_verbs as verbs
from gateway.api import batches, grants, hooks, reports, requests
from gateway.api import event_stream as events
from gateway.api import health as operations
from gateway.api import paused_agents as agents
from gateway.api.batches import Batch
from gateway.api.call import AGENT, APPROVER, Call
from gateway.api.grants import (
    GrantPage,
    Grants,
    NewGrant,
    NewPass,
    Offers,
    Reach,
    Revoked,
    WhichOffer,
    Whose,
)
from gateway.api.hooks import HookMessage, HookOutcome
from gateway.api.messages import (
    Cancel,
    Consume,
    Decide,
    Enroll,
    Enrolled,
    Health,
    Listing,
    Look,
    Reported,
    Requests,
    RequestView,
    SessionEnded,
    Sessions,
    States,
    Submit,
    Sync,
    WhichAgent,
)
from gateway.api.paused_agents import Lifted, PausedAgents
from gateway.api.reports import Period
from gateway.domain.statistics import Report
from gateway.models import State
from gateway.policy.grants.grant import Grant
from gateway.wire.codec import Wire

ANYONE: frozenset[str] = frozenset()
AGENTS = frozenset({AGENT})
APPROVERS = frozenset({APPROVER})
BOTH = AGENTS | APPROVERS
ENROLL_PATH = "/v1/enroll"
ENROL_SECRET = frozenset({"enrolment"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing(Wire):
    """No body, no query string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One route. `answers` maps a status to what comes back: a message's class, or a media type.

    `refusals` are the statuses of problems beside those that every route of its kind has.
    """

    method: str
    path: str
    handle: Callable[[Call], Awaitable[web.StreamResponse]]
    who: frozenset[str]
    answers: Mapping[int, type | tuple[type, ...] | str]
    query: type = Nothing
    body: type | None = None
    refusals: tuple[int, ...] = ()

    @property
    def needs_token(self) -> bool:
        """Whether a credential of the registry must come along."""
        return bool(self.who & BOTH)


_ONE = "/v1/requests/{id}"

ROUTES: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/v1/requests",
        handle=verbs.submit,
        who=AGENTS,
        body=Submit,
        answers={201: State, 200: State},
        refusals=(409,),
    ),
    Endpoint(
        method="GET",
        path="/v1/requests",
        handle=requests.listing,
        who=BOTH,
        query=Listing,
        answers={200: Requests},
    ),
    Endpoint(
        method="GET",
        path=_ONE,
        handle=requests.look,
        who=BOTH,
        query=Look,
        answers={200: (State, RequestView)},
        refusals=(404,),
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/cancel",
        handle=verbs.cancel,
        who=AGENTS,
        body=Cancel,
        answers={200: State},
        refusals=(404,),
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/consume",
        handle=verbs.consume,
        who=AGENTS,
        body=Consume,
        answers={200: State},
        refusals=(404, 409),
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/report",
        handle=verbs.report,
        who=AGENTS,
        body=Reported,
        answers={200: State},
        refusals=(404, 409),
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/decide",
        handle=requests.decide,
        who=APPROVERS,
        body=Decide,
        answers={200: RequestView},
        refusals=(404, 409),
    ),
    Endpoint(
        method="POST",
        path="/v1/batches",
        handle=batches.decide,
        who=APPROVERS,
        body=Batch,
        answers={200: Requests},
        refusals=(409,),
    ),
    Endpoint(
        method="GET",
        path=f"{_ONE}/offers",
        handle=grants.offered,
        who=APPROVERS,
        answers={200: Offers},
        refusals=(404,),
    ),
    Endpoint(
        method="GET",
        path=f"{_ONE}/reach",
        handle=grants.reach,
        who=APPROVERS,
        query=WhichOffer,
        answers={200: Reach},
        refusals=(404,),
    ),
    Endpoint(
        method="GET",
        path="/v1/grants",
        handle=grants.listing,
        who=APPROVERS,
        query=GrantPage,
        answers={200: Grants},
    ),
    Endpoint(
        method="POST",
        path="/v1/grants",
        handle=grants.create,
        who=APPROVERS,
        body=NewGrant,
        answers={201: Grant},
        refusals=(409,),
    ),
    Endpoint(
        method="POST",
        path="/v1/grants/revoke",
        handle=grants.revoke_all,
        who=APPROVERS,
        body=Whose,
        answers={200: Revoked},
    ),
    Endpoint(
        method="GET",
        path="/v1/grants/{grant}",
        handle=grants.look,
        who=APPROVERS,
        answers={200: Grant},
        refusals=(404,),
    ),
    Endpoint(
        method="POST",
        path="/v1/grants/{grant}/revoke",
        handle=grants.revoke,
        who=APPROVERS,
        body=Nothing,
        answers={200: Grant},
        refusals=(404,),
    ),
    Endpoint(
        method="POST",
        path="/v1/sync",
        handle=verbs.sync,
        who=AGENTS,
        body=Sync,
        answers={200: States},
    ),
    Endpoint(
        method="GET",
        path="/v1/sessions",
        handle=verbs.sessions,
        who=BOTH,
        query=WhichAgent,
        answers={200: Sessions},
    ),
    Endpoint(
        method="POST",
        path="/v1/sessions/{session}/end",
        handle=verbs.end_session,
        who=BOTH,
        query=WhichAgent,
        body=Nothing,
        answers={200: SessionEnded},
        refusals=(404,),
    ),
    Endpoint(
        method="POST",
        path="/v1/sessions/{session}/pass",
        handle=grants.let_through,
        who=APPROVERS,
        query=WhichAgent,
        body=NewPass,
        answers={201: Grant},
        refusals=(404,),
    ),
    Endpoint(
        method="GET",
        path="/v1/agents/paused",
        handle=agents.paused,
        who=APPROVERS,
        answers={200: PausedAgents},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/lift",
        handle=agents.lift,
        who=APPROVERS,
        body=Nothing,
        answers={200: Lifted},
        refusals=(404,),
    ),
    Endpoint(
        method="GET",
        path="/v1/report",
        handle=reports.report,
        who=APPROVERS,
        query=Period,
        answers={200: Report},
    ),
    Endpoint(
        method="GET",
        path="/v1/events",
        handle=events.stream,
        who=APPROVERS,
        answers={200: "text/event-stream"},
    ),
    Endpoint(
        method="POST",
        path="/v1/hooks",
        handle=hooks.passed,
        who=AGENTS,
        body=HookMessage,
        answers={200: HookOutcome},
    ),
    Endpoint(
        method="POST",
        path=ENROLL_PATH,
        handle=verbs.enroll,
        who=ENROL_SECRET,
        body=Enroll,
        answers={200: Enrolled},
    ),
    Endpoint(
        method="GET",
        path="/healthz",
        handle=operations.health,
        who=ANYONE,
        answers={200: Health},
    ),
    Endpoint(
        method="GET",
        path="/readyz",
        handle=operations.readiness,
        who=ANYONE,
        answers={200: Health, 503: Health},
    ),
    Endpoint(
        method="GET",
        path="/metrics",
        handle=operations.metrics,
        who=ANYONE,
        answers={200: "text/plain"},
    ),
    Endpoint(
        method="GET",
        path="/v1/openapi.json",
        handle=operations.document,
        who=ANYONE,
        answers={200: "application/json"},
    ),
)


def routes(*, enrolment: bool) -> tuple[Endpoint, ...]:
    """Return the routes that are served; the one to enrol at only where agents may."""
    return ROUTES if enrolment else tuple(one for one in ROUTES if one.path != ENROLL_PATH)
