"""Provisioning: an admin's token makes an instance, which is an agent of ours, with its credential.

The credential is derived from the instance's id, so a repeated call returns it again and nothing
keeps it. Deleting an instance revokes the agent, and leaves a mark so that no call restores it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import UUID

from aiohttp import web

from gateway.api.approval_protocol.messages import idempotency_key
from gateway.api.approval_protocol.refusals import ProtocolRefusal
from gateway.api.call import ApiCall, reply
from gateway.errors import InvalidRequest, NotFound, Unauthorized
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject, Wire, build, plain

_LONGEST_NAME = 128
_CONFLICT, _BAD_REQUEST = 409, 400
_CREATED, _OK, _NO_CONTENT = 201, 200, 204


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision(Wire):
    """What a new instance is called, and where it hears of decisions."""

    instance_name: str | None = None
    delivery: JsonObject | None = None

    def __post_init__(self) -> None:
        if self.instance_name is not None and not 0 < len(self.instance_name) <= _LONGEST_NAME:
            raise InvalidRequest(f"instance_name has 1 to {_LONGEST_NAME} characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance(Wire):
    """One instance, as it is kept. `agent` is the agent that it is here, `made_by` the admin whose
    token made it; `submitted` is the digest of what was asked for."""

    id: str
    name: str
    agent: str
    made_by: str
    submitted: str
    deleted: bool = False


class Instances(Protocol):
    """What is kept of the instances, and their agents."""

    async def load(self, instance_id: str) -> JsonObject | None:
        """Return what is kept of an instance, also of one that was deleted."""

    async def save(self, instance_id: str, row: JsonObject, *, new: bool) -> None:
        """Keep an instance; with `new`, only if none is there."""

    async def add_agent(self, instance_id: str, agent: str) -> str:
        """Make the agent of an instance unless it is there; return its token."""

    async def remove_agent(self, agent: str) -> None:
        """Revoke the agent of an instance, if it is there."""


class Provisioning:
    """Answers the calls about instances."""

    def __init__(
        self,
        instances: Instances,
        *,
        is_admin: Callable[[str], Awaitable[bool]],
        dismiss: Callable[[str], Awaitable[object]],
    ) -> None:
        """`dismiss` cancels what a removed agent waits for."""
        self._instances = instances
        self._is_admin = is_admin
        self._dismiss = dismiss

    async def create(self, call: ApiCall) -> web.Response:
        """Make an instance, or find the one that was made with the same key."""
        await self._check_admin(call)
        body: Provision = call.body
        if body.delivery is not None:
            words = "this gateway sends the protocol no webhooks: leave delivery out"
            raise ProtocolRefusal(_BAD_REQUEST, "unsupported_delivery_type", words)
        key = idempotency_key(call.request)
        instance_id = sha256_hex(canonical(["instance", call.caller.name, key]))[:32]
        wanted = Instance(
            id=instance_id,
            name=body.instance_name or f"instance-{instance_id[:8]}",
            agent=f"aap-{instance_id[:16]}",
            made_by=call.caller.name,
            submitted=sha256_hex(canonical(plain(body))),
        )
        known = await self._load(instance_id)
        if known is None:
            await self._instances.save(instance_id, plain(wanted), new=True)
        kept = known or await self._load(instance_id) or wanted
        if kept.submitted != wanted.submitted:
            raise ProtocolRefusal(
                _CONFLICT, "idempotency_conflict", "the key was used for another instance"
            )
        token = "" if kept.deleted else await self._instances.add_agent(kept.id, kept.agent)
        now = await self._load(instance_id)
        if now is None or now.deleted:  # perhaps meanwhile: then its agent must not stay
            await self._remove(kept)
            raise ProtocolRefusal(_CONFLICT, "instance_deleted", "the instance was deleted")
        told = {"instance": _told(kept), "credential": {"token": token}}
        return reply(told, _CREATED if known is None else _OK)

    async def look(self, call: ApiCall) -> web.Response:
        """Return an instance."""
        return reply(_told(await self._find(call)))

    async def delete(self, call: ApiCall) -> web.Response:
        """Revoke an instance's credential and cancel what it waits for, also when asked again."""
        instance = await self._find(call, deleted=True)
        if not instance.deleted:
            # The mark first: nothing that happens meanwhile makes the agent anew.
            gone = replace(instance, deleted=True)
            await self._instances.save(instance.id, plain(gone), new=False)
        await self._remove(instance)
        return web.Response(status=_NO_CONTENT)

    async def _remove(self, instance: Instance) -> None:
        await self._instances.remove_agent(instance.agent)
        await self._dismiss(instance.agent)

    async def _load(self, instance_id: str) -> Instance | None:
        row = await self._instances.load(instance_id)
        return None if row is None else build(Instance, row)

    async def _check_admin(self, call: ApiCall) -> None:
        if not await self._is_admin(call.caller.name):
            raise Unauthorized("only an admin's token provisions instances")

    async def _find(self, call: ApiCall, *, deleted: bool = False) -> Instance:
        await self._check_admin(call)
        try:
            named = UUID(call.request.match_info["id"])
        except ValueError:
            raise NotFound("no such instance") from None
        found = await self._load(named.hex)
        if found is None or found.made_by != call.caller.name or (found.deleted and not deleted):
            raise NotFound("no such instance")
        return found


def _told(instance: Instance) -> JsonObject:
    return {"id": str(UUID(instance.id)), "name": instance.name}
