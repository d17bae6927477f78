"""Whom a login is for: an identity, as long as the policy knows it as the same person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Identity
from gateway.stores.policy_text import policy_of
from gateway.stores.requests import RedisStore
from gateway.wire.codec import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """An identity with the name that it had, and how often that name had left the policy by then:
    who comes back logs in anew."""

    identity: Identity
    name: str
    departures: int

    @property
    def fields(self) -> JsonObject:
        """The holder as it is kept."""
        return {"as": self.identity.written, "name": self.name, "left": self.departures}


def holder_from(kept: JsonObject) -> Holder:
    """Return the holder that `Holder.fields` describes."""
    platform, _, who = str(kept["as"]).partition(":")
    identity = Identity(platform=platform, id=who)
    return Holder(identity=identity, name=str(kept["name"]), departures=int(kept["left"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStanding:
    """Who the policy knows at a moment, and how often each name has left it."""

    policy: PolicyDocument
    departed: dict[str, str]

    def find(self, identity: Identity) -> Holder | None:
        """Return the holder of new logins of an identity; None for whom the policy does not know:
        a person's, or one that a route itself admits."""
        if self.policy.person_of(identity) is None:
            written = identity.written
            if not any(written in route.admitted for route in self.policy.routes):
                return None
        name = self.policy.name_of(identity)
        return Holder(identity=identity, name=name, departures=self.count_departures(name))

    def count_departures(self, name: str) -> int:
        """Return how often a name has left the policy."""
        return int(self.departed.get(name, "0"))

    def list_names(self) -> list[str]:
        """Return the names that logins may be for."""
        admitted = (one for route in self.policy.routes for one in route.admitted if ":" in one)
        return [*(person.name for person in self.policy.people), *admitted]

    def admits(self, holder: Holder) -> bool:
        """Whether a login of this holder is still good."""
        return self.find(holder.identity) == holder


class Holders:
    """Reads who the policy knows, with whatever else is asked, in one round trip."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._read: tuple[str | None, PolicyDocument] = (None, PolicyDocument())

    async def read(self, *commands: Sequence[str]) -> tuple[PolicyStanding, list[Any]]:
        """Return who stands in the policy now, and the answers to the commands."""
        keys = self._store.keys
        raw, departed, *answers = await self._store.together(
            ("GET", keys.policy), ("HGETALL", keys.departed), *commands
        )
        if raw != self._read[0]:
            self._read = raw, policy_of(raw)
        return PolicyStanding(policy=self._read[1], departed=_as_mapping(departed)), answers


def _as_mapping(found: Any) -> dict[str, str]:
    """Return a hash, which the older protocol tells as names and values in turn."""
    return found if isinstance(found, dict) else dict(zip(found[::2], found[1::2], strict=True))
