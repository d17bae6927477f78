"""Handle claims that a chat's users make for accounts and channels, and the operator's decisions on
them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import chain
from typing import NoReturn

from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import Identity, Person
from gateway.domain.store import Store
from gateway.domain.time_and_tasks import Clock
from gateway.domain.typed_codes import make_code, read_code
from gateway.errors import Conflict, InvalidRequest, NotFound, Unauthorized
from gateway.policy.authorization import refuse_auditor
from gateway.ports.claims import (
    ChatClaim,
    Claimant,
    ClaimedPlace,
    ClaimStore,
    Invitation,
    RoutePlaces,
)
from gateway.wire.canonical_json import sha256_hex

INVITATION_SECONDS = 600
_CODE_GROUPS = 2  # 40 bits
_MOST_WRONG = 5
_TRIES = 8
_NO_LETTER = re.compile(r"[^a-z0-9._-]+")
_REFUSED = (
    "this code is wrong, used or expired: ask the gateway's operator for a new one. "
    "After five wrong codes, all open codes become invalid"
)

Change = Callable[[PolicyDocument], PolicyDocument]


class ClaimService:
    """Implements `gateway.ports.ClaimCalls` for one chat, and the operator's actions on its
    claims."""

    def __init__(self, store: Store, claims: ClaimStore, clock: Clock, platform: str) -> None:
        self._store = store
        self._claims = claims
        self._clock = clock
        self._platform = platform

    # ---------------------------------------------------------------- the chat

    async def claim(self, code: str, by: Claimant, place: ClaimedPlace | None = None) -> str:
        """Claim a channel or an account with a code. Return the number that claimant and operator
        compare."""
        refuse_auditor(await self._store.policy(), by.identity)
        identity = by.identity.written
        found = await self._claims.find(_hash(code))
        if found is None or not self._fits(found[0], place):
            await self._refuse(identity)
        invitation, known = found
        target = place.target if place else ""
        if known is not None and (known.identity, known.target) == (identity, target):
            return known.number  # the platform delivered it twice
        if invitation.person:
            await self._check_free(by.identity, invitation.person)
        claim = ChatClaim(
            identity=identity,
            handle=by.handle,
            words=by.words,
            number=str(10 + secrets.randbelow(90)),
            at=self._clock.now_ms(),
            target=target,
            place=place.words if place else "",
        )
        if not await self._claims.claim(invitation, claim, _facts(invitation, claim)):
            await self._refuse(identity)
        return claim.number

    async def list_routes(self, identity: Identity) -> tuple[RoutePlaces, ...]:
        """Return the routes that an admin can add a channel to."""
        policy = await self._admins_policy(identity)
        await self._refuse_file("in [[routes]]: targets = [...]")
        return tuple(RoutePlaces(name=one.name, targets=one.targets) for one in policy.routes)

    async def add_place(self, identity: Identity, route: str, place: ClaimedPlace) -> str:
        """Add a channel to a route. Return a sentence that confirms it."""
        policy = await self._admins_policy(identity)
        await self._refuse_file(f'in [[routes]] {route}: targets = [..., "{place.target}"]')
        name = policy.name_of(identity)
        await self._change(lambda now: _with_target(now, route, place.target), by=name)
        data = {"target": place.target, "place": place.words, "route": route, "by": name}
        await self._store.note("place_claimed", data=data)
        return f"Requests of the route {route} come here from now on."

    async def list_admins(self) -> tuple[str, ...]:
        """Return the names of the admins."""
        return tuple(one.name for one in (await self._store.policy()).people if one.admin)

    def _fits(self, invitation: Invitation, place: ClaimedPlace | None) -> bool:
        wanted = invitation.route if place else invitation.person
        return bool(wanted) and invitation.platform == self._platform

    async def _refuse(self, identity: str) -> NoReturn:
        count = await self._claims.count_wrong(self._platform)
        if count >= _MOST_WRONG:
            await self._claims.end_all(self._platform)
        data = {"why": "somebody typed a wrong code for a channel or an account", "count": count}
        await self._store.note("refused", agent=identity, data=data)
        raise Unauthorized(_REFUSED)

    async def _check_free(self, identity: Identity, person: str) -> None:
        known = (await self._store.policy()).person_of(identity)
        if known is not None:
            whose = "you" if known.name == person else known.name
            raise Unauthorized(
                f"this account already belongs to {whose}; an account cannot move to another person"
            )

    async def _admins_policy(self, identity: Identity) -> PolicyDocument:
        policy = await self._store.policy()
        if not policy.is_admin(identity):
            why = "only an admin may add a channel without a code"
            await self._store.note("refused", agent=identity.written, data={"why": why})
            raise Unauthorized(why)
        return policy

    async def _refuse_file(self, line: str) -> None:
        if await self._claims.is_file_in_force():
            raise InvalidRequest(
                f"the policy comes from a file, which the gateway does not edit; add this to the "
                f"file yourself: {line}"
            )

    # ---------------------------------------------------------------- the operator

    async def invite(self, *, route: str = "", person: str = "") -> tuple[Invitation, str]:
        """Create a code for a channel of a route, or for an account of a person. Return both.

        Raises NotFound if the policy has no such route or person.
        """
        policy = await self._store.policy()
        if person and all(one.name != person for one in policy.people):
            raise NotFound(
                f"there is no person {person}; to add them, run: gateway approver add {person}"
            )
        if not person:
            route = _route_of(policy, route).name
        code = make_code(_CODE_GROUPS)
        now = self._clock.now_ms()
        invitation = Invitation(
            id=_hash(code),
            platform=self._platform,
            made=now,
            ends=now + INVITATION_SECONDS * 1000,
            route=route,
            person=person,
        )
        await self._claims.invite(invitation)
        return invitation, code

    async def withdraw(self, invitation: Invitation) -> None:
        """Delete an invitation that is no longer wanted."""
        await self._claims.remove(invitation.id)

    async def is_open(self, invitation: Invitation) -> bool:
        """Return whether an invitation, or its claim, is still open."""
        return await self._claims.find(invitation.id) is not None

    async def is_file_in_force(self) -> bool:
        """Return whether the active policy comes from the file named in the settings."""
        return await self._claims.is_file_in_force()

    async def list_waiting(self) -> list[tuple[Invitation, ChatClaim]]:
        """Return all claims that the operator has not decided, oldest first."""
        return [(one, claim) for one, claim in await self._claims.list_all() if claim is not None]

    async def find(self, start: str) -> tuple[Invitation, ChatClaim]:
        """Return the claim whose ID starts with `start`. Raises NotFound."""
        found = [one for one in await self.list_waiting() if one[0].id.startswith(start)]
        if not start or len(found) != 1:
            raise NotFound("this ID matches no claim, or more than one: run `gateway claims list`")
        return found[0]

    async def preview(self, invitation: Invitation, claim: ChatClaim) -> PolicyDocument:
        """Return the policy that approving the claim would apply. Raises Unauthorized if the
        account now belongs to another person, and NotFound if the route or person does not exist
        any more."""
        policy = await self._store.policy()
        return _with_claim(policy, invitation, claim, await self._claims.list_departed())

    async def approve(
        self, invitation: Invitation, claim: ChatClaim, shown: PolicyDocument, *, by: str
    ) -> None:
        """Apply exactly the policy that `preview` returned.

        Raises NotFound if the claim no longer exists, and InvalidRequest if the policy comes from a
        file. Raises Conflict if the policy changed meanwhile; the claim then stays open.
        """
        if await self._claims.find(invitation.id) is None:
            raise NotFound("this claim has expired or was already decided")
        if await self._claims.is_file_in_force():
            raise InvalidRequest(
                "the policy comes from a file: add the lines to the file, then deny this claim"
            )
        if shown != await self._store.policy():
            await self._store.apply(shown, by=by)
        await self._claims.remove(invitation.id)
        event = "place_claimed" if claim.target else "account_claimed"
        await self._store.note(event, data={**_facts(invitation, claim), "by": by})

    async def deny(self, invitation: Invitation, claim: ChatClaim, *, by: str) -> None:
        """Reject a claim. Raises NotFound if it no longer exists."""
        if not await self._claims.remove(invitation.id):
            raise NotFound("this claim has expired or was already decided")
        await self._store.note("claim_denied", data={**_facts(invitation, claim), "by": by})

    async def _change(self, change: Change, *, by: str) -> None:
        """Apply a change to the current policy. Does nothing if the policy stays equal."""
        for _ in range(_TRIES):
            policy = await self._store.policy()
            if await self._claims.is_file_in_force():  # read last: a later file conflicts
                raise InvalidRequest("the policy now comes from a file, so nothing was changed")
            after = change(policy)
            if after == policy:
                return
            try:
                await self._store.apply(after, by=by)
            except Conflict:  # somebody else changed the policy: read it again
                continue
            return
        raise Conflict("the policy is being changed by others all the time; try again")


def _hash(code: str) -> str:
    return sha256_hex(read_code(code).encode())


def _facts(invitation: Invitation, claim: ChatClaim) -> dict[str, str]:
    facts = {
        "identity": claim.identity,
        "target": claim.target,
        "place": claim.place,
        "route": invitation.route,
        "person": invitation.person,
    }
    return {name: value for name, value in facts.items() if value}


# Policy changes of a claim. They only add entries.


def _with_claim(
    policy: PolicyDocument, invitation: Invitation, claim: ChatClaim, departed: Collection[str]
) -> PolicyDocument:
    if invitation.person:
        return _with_account(policy, invitation.person, claim.identity)
    policy, name = _with_person(policy, claim, departed)
    route = _route_of(policy, invitation.route)
    if not {claim.identity, name} & {*route.approvers}:
        policy = _with_route(policy, route, replace(route, approvers=(*route.approvers, name)))
    return _with_target(policy, route.name, claim.target)


def _with_person(
    policy: PolicyDocument, claim: ChatClaim, departed: Collection[str]
) -> tuple[PolicyDocument, str]:
    """Return the policy with the claimant as a new person, and the person's name. The name was
    never used before, because rights and grants refer to names."""
    for person in policy.people:
        if claim.identity in person.identities:
            return policy, person.name
    taken = {*departed, *(one.name for one in policy.people)}
    taken |= {name for route in policy.routes for name in route.admitted}
    handle = _NO_LETTER.sub("-", claim.handle.lower()).strip("-._")[:40] or "somebody"
    # Ends in the chat's name, so that `gateway approver add` does not choose it for another person.
    wanted = f"{handle}-{claim.identity.partition(':')[0]}"
    numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
    name = next(one for one in chain((wanted,), numbered) if one not in taken)
    person = Person(name=name, identities=(claim.identity,))
    return replace(policy, people=(*policy.people, person)), name


def _with_account(policy: PolicyDocument, name: str, identity: str) -> PolicyDocument:
    owner = next((one.name for one in policy.people if identity in one.identities), name)
    if owner != name:
        raise Unauthorized(
            f"this account already belongs to {owner}; an account cannot move to another person"
        )
    if all(one.name != name for one in policy.people):
        raise NotFound(f"there is no longer a person named {name}")
    people = tuple(
        replace(one, identities=tuple(dict.fromkeys((*one.identities, identity))))
        if one.name == name
        else one
        for one in policy.people
    )
    return replace(policy, people=people)


def _with_target(policy: PolicyDocument, name: str, target: str) -> PolicyDocument:
    route = _route_of(policy, name)
    targets = tuple(dict.fromkeys((*route.targets, target)))
    return _with_route(policy, route, replace(route, targets=targets))


def _with_route(policy: PolicyDocument, old: Route, new: Route) -> PolicyDocument:
    return replace(policy, routes=tuple(new if one is old else one for one in policy.routes))


def _route_of(policy: PolicyDocument, name: str) -> Route:
    """Return the route with this name, or the first route if the name is empty. Raises NotFound."""
    for route in policy.routes:
        if route.name == name or not name:
            return route
    raise NotFound(f"the policy has no route {name}" if name else "the policy has no route")
