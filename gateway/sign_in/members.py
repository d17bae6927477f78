"""Give the members of the identity provider's groups their rights, and take the rights away; start
at `GroupMembers`.

A member is a person in the active policy, and in no policy file. The leader replica asks the
provider about each member with a refresh token. If the provider refuses, the member leaves the
policy at once; if it does not answer, after MEMBER_SECONDS.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable

from gateway.domain.policy_document import GROUP, PolicyDocument
from gateway.domain.records import Identity, Person
from gateway.errors import InvalidRequest, Unauthorized, Unreachable
from gateway.stores.sign_in import RedisMembers
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.sign_in")

PLATFORM = "oidc"
MOST_MEMBERS = 500
_MOST_GROUPS = 1000
_SUBJECT = re.compile(r"[\x20-\x7e]{1,255}")
_NO_LETTER = re.compile(r"[^a-z0-9._-]+")
_AT_ONCE = 32
"""So a round with MOST_MEMBERS takes less than a minute if each renewal takes two seconds."""
_SILENT = "the identity provider did not confirm them for some minutes"

Renew = Callable[[str], Awaitable[tuple[JsonObject, str]]]
"""Take a refresh token, and return the claims about its person and the next refresh token. Raises
Unauthorized if the provider refuses, Unreachable if it does not answer."""


def identity_of(issuer: str, claims: JsonObject) -> Identity:
    """Return the identity of a member, from issuer and subject. Raises Unauthorized."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
        raise Unauthorized("the identity provider sent no usable claim 'sub' about you")
    return Identity(platform=PLATFORM, id=f"{issuer}#{subject}")


def read_groups(claims: JsonObject, claim: str) -> frozenset[str]:
    """Return the groups in a claim, as the policy writes them. Raises Unauthorized."""
    elsewhere = claims.get("_claim_names")
    if isinstance(elsewhere, dict) and claim in elsewhere:
        raise Unauthorized(
            "you are in too many groups for the identity provider to list: its administrator can "
            "limit the claim to the groups of this application"
        )
    found = claims.get(claim)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise Unauthorized(f"the identity provider sent no list of groups in the claim {claim!r}")
    if len(found) > _MOST_GROUPS:
        raise Unauthorized(f"the identity provider listed more than {_MOST_GROUPS} groups")
    return frozenset(GROUP + one for one in found)


class GroupMembers:
    """Adds members to the policy when they sign in, and removes them when they are refused."""

    def __init__(self, kept: RedisMembers) -> None:
        self._kept = kept
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def join(self, identity: Identity, claims: JsonObject, refresh: str) -> None:
        """Give a person who signs in the rights of their groups. Raises Unauthorized."""
        policy = await self._kept.policy()
        groups = read_groups(claims, policy.groups_claim)
        if not policy.provider_groups & groups:
            raise Unauthorized("the policy names neither you nor one of your groups")
        if not refresh:
            raise Unauthorized(
                "the identity provider gave no refresh token, so the gateway could not notice that "
                "you left a group: its administrator can allow refresh tokens for this application"
            )
        await self._kept.save(identity, refresh)  # before the rights: they rest on it
        name = _name(identity, claims)
        await self._kept.change(lambda now: _add(now, identity, name, groups), about=name)

    async def check(self, renew: Renew) -> None:
        """Check each member whose turn it is. An error about one does not stop the others."""
        policy = await self._kept.policy()
        looks = [self._check(policy, one, renew) for one in policy.people if one.groups]
        for error in await asyncio.gather(*looks, return_exceptions=True):
            if error is not None:
                log.error("a member was not checked", exc_info=error, extra={"event": "member"})

    async def _check(self, policy: PolicyDocument, member: Person, renew: Renew) -> None:
        platform, _, rest = member.identities[0].partition(":")
        identity = Identity(platform=platform, id=rest)
        if not await self._kept.load(identity):  # also while the answers about others are slow
            await self._end(member, _SILENT)
            return
        async with self._slots:
            refresh = await self._kept.load(identity)
            if refresh and await self._kept.take_turn(identity):
                await self._confirm(policy, member, identity, refresh, renew)

    async def _confirm(
        self,
        policy: PolicyDocument,
        member: Person,
        identity: Identity,
        refresh: str,
        renew: Renew,
    ) -> None:
        try:
            claims, new = await renew(refresh)
            if identity_of(str(claims["iss"]), claims) != identity:
                raise Unauthorized("the identity provider named another person")
            groups = read_groups(claims, policy.groups_claim)
            if not policy.provider_groups & groups:
                raise Unauthorized("the policy names none of their groups")
        except Unauthorized as refusal:
            if await self._kept.load(identity) == refresh:  # they did not sign in meanwhile
                await self._end(member, str(refusal))
            return
        except (Unreachable, InvalidRequest) as error:
            log.warning("%s was not confirmed: %s", member.name, error, extra={"event": "member"})
            return
        await self._kept.save(identity, new or refresh)
        await self._set(member.name, groups)

    async def _set(self, name: str, groups: frozenset[str]) -> None:
        """Give a member the rights of these groups, and no others."""

        def update(policy: PolicyDocument) -> PolicyDocument:
            found = next((one for one in policy.people if one.name == name and one.groups), None)
            return policy.with_member(found, groups) if found else policy

        await self._kept.change(update, about=name)

    async def _end(self, member: Person, why: str) -> None:
        await self._set(member.name, frozenset())
        await self._kept.note("member_left", data={"person": member.name, "why": why}, urgent=True)


def _name(identity: Identity, claims: JsonObject) -> str:
    """Return a name that no other person can have, because it ends in a digest of the identity."""
    email, verified = claims.get("email"), claims.get("email_verified") is True
    local = email.partition("@")[0].lower() if isinstance(email, str) and verified else ""
    shown = _NO_LETTER.sub("-", local).strip("-._")[:40] or "member"
    return f"{shown}@{PLATFORM}-{sha256_hex(identity.written.encode())[:16]}"


def _add(
    policy: PolicyDocument, identity: Identity, name: str, groups: frozenset[str]
) -> PolicyDocument:
    known = policy.person_of(identity)
    if known is None and any(one.name == name for one in policy.people):
        raise Unauthorized(f"the policy has another person with the name {name}")
    if known is None and sum(bool(one.groups) for one in policy.people) >= MOST_MEMBERS:
        raise Unauthorized(f"{MOST_MEMBERS} members of groups have rights already, the maximum")
    member = known or Person(name=name, identities=(identity.written,), groups=(GROUP,))
    return policy.with_member(member, groups) if member.groups else policy  # listed meanwhile
