"""Serve grants over HTTP, for approvers: offers, lists, new grants and session passes, revoking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from aiohttp import web
from pydantic import Field

from gateway.api.api_call import ApiCall, Nothing, masked_reply, operation, reply
from gateway.api.messages import MAX_PAGE, NONCE, OfAgent, check_match
from gateway.api.requests import find_visible
from gateway.errors import InvalidRequest, NotFound
from gateway.models import ApprovalRequest, Context, Kind
from gateway.policy.grants.coverage import MatchPreview
from gateway.policy.grants.grant import PASSES, Effect, Grant, Match, Shape
from gateway.policy.grants.offers import (
    LIFETIMES,
    Offer,
    host_rule_words,
    host_rules_of,
    offers,
    passes_for,
)
from gateway.ports.adapter_api import ManualGrantRequest, build_example
from gateway.wire.codec import JsonObject, Wire
from gateway.wire.schema import (
    AGENT_NAME,
    REQUEST_ID,
    SESSION_NAME,
    TOOL_NAME,
    Says,
    matching,
    whole,
)

LIFETIME_NAMES = tuple(name for name, _, _ in LIFETIMES)
_NULL = {"type": "null"}
_GIVEN = {"type": "string", "minLength": 1}
_NAMES_REQUEST = {
    "required": ["request"],
    "properties": {
        "request": {"type": "string"}, "tool": _NULL, "arguments": _NULL, "context": _NULL,
        "kind": {"const": Kind.TOOL.value},
    },
}  # fmt: skip
_IS_A_CALL = {
    "required": ["tool"], "properties": {"tool": {"type": "string"}, "request": _NULL},
}  # fmt: skip
_NAMES_OFFER = {"required": ["offer"], "properties": {"offer": _GIVEN, "match": _NULL}}
_NAMES_MATCH = {
    "required": ["match"],
    "properties": {"match": {"type": "object"}, "offer": {"const": ""}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOffer(Wire):
    """A permission that the coding agent itself can save, in words."""

    id: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers(Wire):
    """The grants that a decision on a request can save, narrow first, and their possible lifetimes.

    `host` lists permissions that the coding agent itself can save with an approval. They are no
    grants, and the gateway's lifetimes do not apply.
    """

    approve: tuple[Offer, ...]
    deny: tuple[Offer, ...]
    lifetimes: tuple[str, ...]
    host: tuple[HostOffer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferQuery(Wire):
    """The id of an offer; without it, the narrowest."""

    offer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach(Wire):
    """The matches in history of a grant from this offer, as figures and in words."""

    reach: MatchPreview
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantPage(Wire):
    """Selects a page of grants, newest first."""

    after: Annotated[str, matching(REQUEST_ID)] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 50

    def __post_init__(self) -> None:
        if self.after is not None and not REQUEST_ID.fullmatch(self.after):
            raise InvalidRequest("the parameter after must be the id of a grant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants(Wire):
    """A page of grants with their uses."""

    items: tuple[Grant, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Example(Wire):
    """An example of the calls that a grant should cover: the id of a request, or a call."""

    __pydantic_config__ = whole(oneOf=[_NAMES_REQUEST, _IS_A_CALL])

    request: Annotated[str, matching(REQUEST_ID)] | None = None
    tool: Annotated[str, matching(TOOL_NAME)] | None = None
    kind: Annotated[Kind, Says(not_={"const": Kind.QUESTION.value})] = Kind.TOOL
    arguments: JsonObject | None = None
    context: Context | None = None

    def __post_init__(self) -> None:
        if (self.request is None) == (self.tool is None):
            raise InvalidRequest(
                "an example needs either the member request, or tool and arguments"
            )
        beside = (self.arguments, self.context)
        if self.request is not None and (beside != (None, None) or self.kind is not Kind.TOOL):
            raise InvalidRequest(
                "an example with the member request cannot also have arguments, context or kind"
            )
        check_match(REQUEST_ID, "request", self.request)

    def of_agent(self, agent: str) -> str | ApprovalRequest:
        """Return the id of the request, or the call as a request of this agent."""
        if self.tool is None:
            return str(self.request)
        return build_example(
            agent=agent,
            tool=self.tool,
            kind=self.kind,
            arguments=self.arguments or {},
            context=self.context or Context(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRequest(Wire):
    """The agent and the call to make offers for, and their effect."""

    agent: Annotated[str, matching(AGENT_NAME)]
    effect: Effect
    example: Example


@dataclass(frozen=True, slots=True, kw_only=True)
class OffersOfExample(Wire):
    """The grants that an example allows, narrow first."""

    offers: tuple[Offer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGrant(Wire):
    """A grant that is saved without a request: one of the offers of an example, by its id or its
    match.

    It gets the offer's words. Without `session` it covers all sessions. A repeated call with the
    same `nonce` saves only one grant.
    """

    __pydantic_config__ = whole(oneOf=[_NAMES_OFFER, _NAMES_MATCH])

    agent: Annotated[str, matching(AGENT_NAME)]
    effect: Effect
    example: Example
    offer: str = ""
    match: Match | None = None
    session: Annotated[str, matching(SESSION_NAME)] | None = None
    lifetime: Annotated[str, Says(enum=LIFETIME_NAMES)] = "1h"
    max_uses: Annotated[int, Says(minimum=1)] | None = None
    nonce: Annotated[str, Says(pattern=f"^(?:{NONCE.pattern})?$")] = ""

    def __post_init__(self) -> None:
        if bool(self.offer) == (self.match is not None):
            raise InvalidRequest("name one offer of the example, either by offer or by match")
        check_match(NONCE, "nonce", self.nonce or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPass(Wire):
    """A session pass: file `edits`; `work`, which adds reading, searching and known commands; or
    `scripts`, which adds the project's own tests, builds and scripts.

    It is valid for `hours`, at most 8, and with `max_uses` only for that many requests.
    """

    what: Annotated[Shape, Says(enum=[shape.value for shape in PASSES])]
    hours: Annotated[float, Field(gt=0, le=8)] = 1.0
    max_uses: Annotated[int, Field(ge=1)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeFilter(Wire):
    """The agent, or the session of it, whose grants to revoke; neither means all."""

    agent: Annotated[str, matching(AGENT_NAME)] | None = None
    session: Annotated[str, matching(SESSION_NAME)] | None = None

    def __post_init__(self) -> None:
        if self.agent is not None and not AGENT_NAME.fullmatch(self.agent):
            raise InvalidRequest("the member agent is not a valid agent name")
        if self.session is not None and not SESSION_NAME.fullmatch(self.session):
            raise InvalidRequest("the member session is not a valid session name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked(Wire):
    """The ids of the revoked grants."""

    ids: tuple[str, ...]


@operation("grants.offered", {200: Offers}, 404)
async def list_offers(call: ApiCall) -> web.Response:
    """List the grants that a decision on a request can save."""
    record = await find_visible(call)
    waits = not record.final
    approve = offers(record) if waits else ()
    if approve and await call.core.requests.may_pass(call.identity, record):
        approve += passes_for(record)
    return await masked_reply(
        Offers(
            approve=approve,
            deny=offers(record, Effect.DENY) if waits else (),
            lifetimes=LIFETIME_NAMES,
            host=tuple(
                HostOffer(id=offer_id, words=host_rule_words(record, rule))
                for offer_id, rule in (host_rules_of(record) if waits else {}).items()
            ),
        ),
        known=record.secrets,
    )


@operation("grants.reach", {200: Reach}, 404, query=OfferQuery)
async def measure_reach(call: ApiCall) -> web.Response:
    """Return the matches in history of a grant from an offer."""
    remembering = call.core.remembering
    found = await remembering.reach(await find_visible(call), call.query.offer)
    return reply(Reach(reach=found, words=found.words()))


@operation("grants.listing", {200: Grants}, query=GrantPage)
async def list_grants(call: ApiCall) -> web.Response:
    """Return a page of grants."""
    query: GrantPage = call.query
    found, cursor = await call.core.grants.page(after=query.after, limit=query.limit)
    return await masked_reply(Grants(items=tuple(found), next=cursor))


@operation("grants.look", {200: Grant}, 404)
async def look(call: ApiCall) -> web.Response:
    """Return a grant with its uses."""
    return await masked_reply(await call.core.grants.get(_grant_id(call)))


@operation("grants.offered_by_hand", {200: OffersOfExample}, 404, body=OfferRequest)
async def list_offers_of_example(call: ApiCall) -> web.Response:
    """List the grants that an admin can create from an example."""
    body: OfferRequest = call.body
    example = body.example.of_agent(body.agent)
    found = await call.core.grant_service.offers(call.identity, body.agent, example, body.effect)
    return await masked_reply(OffersOfExample(offers=found))


@operation("grants.create", {201: Grant}, 404, 409, body=NewGrant)
async def create(call: ApiCall) -> web.Response:
    """Create a grant as an admin, from an offer of an example."""
    body: NewGrant = call.body
    made = await call.core.grant_service.create(
        call.identity,
        body.example.of_agent(body.agent),
        ManualGrantRequest(
            agent=body.agent,
            effect=body.effect,
            chosen=body.offer if body.match is None else body.match,
            session=body.session,
            lifetime=body.lifetime,
            max_uses=body.max_uses,
        ),
        nonce=body.nonce,
    )
    return await masked_reply(made, 201)


@operation("grants.let_through", {201: Grant}, 404, query=OfAgent, body=NewPass)
async def create_pass(call: ApiCall) -> web.Response:
    """Create a session pass."""
    session, agent = call.request.match_info["session"], call.query.agent
    if not SESSION_NAME.fullmatch(session):
        raise NotFound("the agent has no open session with this name")
    body: NewPass = call.body
    made = await call.core.remembering.let_through(
        call.identity,
        agent=agent,
        session=session,
        shape=body.what,
        hours=body.hours,
        max_uses=body.max_uses,
    )
    return await masked_reply(made, 201)


@operation("grants.revoke", {200: Grant}, 404, 409, body=Nothing)
async def revoke(call: ApiCall) -> web.Response:
    """Revoke a grant."""
    return await masked_reply(await call.core.grant_service.revoke(_grant_id(call), call.identity))


@operation("grants.revoke_all", {200: Revoked}, body=RevokeFilter)
async def revoke_all(call: ApiCall) -> web.Response:
    """Revoke all grants, or those of an agent or a session."""
    body: RevokeFilter = call.body
    ended = await call.core.grant_service.revoke_all(
        call.identity, agent=body.agent, session=body.session
    )
    return reply(Revoked(ids=tuple(grant.id for grant in ended)))


def _grant_id(call: ApiCall) -> str:
    text = call.request.match_info["grant"]
    if not REQUEST_ID.fullmatch(text):
        raise NotFound("there is no grant with this id")
    return text
