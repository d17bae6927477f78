"""Follow pending requests: reminders, absences, escalation, fail-over (`Reminders`), new policies
(`Rerouting`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway.approvals.request_writer import FOLLOWUPS, queues_of
from gateway.approvals.services import Core
from gateway.domain.log_context import log_also
from gateway.domain.policy_document import ORIGIN, Ruling, adapters_of
from gateway.domain.records import OVERFLOW_MARK, StoredRequest
from gateway.domain.time_and_tasks import Clock
from gateway.errors import NotFound
from gateway.ports.outgoing import Copy, CopyState
from gateway.wire.codec import JsonObject

GRACE_SECONDS = 30.0  # an adapter that has not started to post by then counts as down
_SOON = 0.05
# In these states people see the card, or will soon.
_REACHES = (CopyState.DUE, CopyState.POSTED, CopyState.STUCK)


class Reminders:
    """Reminds and escalates, for one pending request at a time. Each step is a transition, so it
    happens only once."""

    def __init__(self, core: Core, clock: Clock) -> None:
        self._requests = core.requests
        self._holding = core.holding
        self._writer = core.writer
        self._outbox = core.outbox
        self._away = core.away
        self._clock = clock

    async def look(self, request_id: str) -> float | None:
        """Take the next due step of a request. Return the seconds until the next look, or None."""
        if request_id.startswith(OVERFLOW_MARK):
            return await self._holding.release(request_id.removeprefix(OVERFLOW_MARK))
        try:
            record = await self._requests.get(request_id)
        except NotFound:
            return None
        log_also(agent=record.request.agent)
        if record.alike and (record.final or record.digest != record.request.digest):
            again = await self._holding.settle(record, self._clock.now_ms())
            if again is not None:
                return again
        return None if record.final or record.behind else await self._step(record)

    async def _step(self, record: StoredRequest) -> float | None:
        """Take the next step of a request that people can see."""
        ruling = (await self._writer.policy()).ruling_on(record.request)
        route, renewed = ruling.route, await self._away.renew(record, ruling)
        if renewed.away != record.away:
            told = {"away": [one.person for one in renewed.away]}
            await self._requests.progress(record, renewed, "reassigned", told)
            return _SOON
        places = ruling.places(record)
        copies = await self._outbox.copies(record.id)
        now = self._clock.now_ms()
        waited = (now - record.created) / 1000
        silent = (now - max(record.created, record.tier_at)) / 1000
        there = record.conversation in places
        if there and _is_lost(record.conversation, copies, missing=silent >= GRACE_SECONDS):
            await self._leave_conversation(record, ruling, now)
            return _SOON
        failed = _is_unreached(ruling, places, copies)
        later = route.escalations[record.tier :]
        if failed and not later:
            await self._requests.end_undelivered(record)
            return _SOON
        quiet = silent >= GRACE_SECONDS and _is_unreached(ruling, places, copies, missing=True)
        if later and (failed or quiet or later[0].after <= waited):
            # The policy may name other adapters than when the request was created.
            queues = tuple(dict.fromkeys((*record.queues, *adapters_of(later[0].targets))))
            after = replace(record, tier=record.tier + 1, tier_at=now, queues=queues)
            data = {"targets": list(later[0].targets), "unreached": failed or quiet}
            await self._requests.progress(record, after, "escalated", data)
            return _SOON
        due = sum(after <= waited for after in route.remind_after)
        if due > record.reminders:
            await self._requests.progress(record, replace(record, reminders=due), "reminded", {})
            return _SOON
        coming = [step.after - waited for step in later[:1]]
        coming += [after - waited for after in route.remind_after if after > waited]
        coming += [(one.until - now) / 1000 for one in record.away]
        if (later or there) and silent < GRACE_SECONDS:
            coming.append(GRACE_SECONDS - silent)
        return max(_SOON, min(coming)) if coming else None

    async def _leave_conversation(self, record: StoredRequest, ruling: Ruling, now: int) -> None:
        """Send the request to the targets after `origin`, because nobody can see the card in the
        conversation."""
        before, left = ruling.places(record), replace(record, conversation="")
        targets = [one for one in ruling.places(left) if one not in before]
        queues = tuple(dict.fromkeys((*record.queues, *adapters_of(targets))))
        after = replace(left, tier_at=now, queues=queues)
        data = {"targets": targets, "unreached": True}
        await self._requests.progress(record, after, "escalated", data)


def _is_unreached(
    ruling: Ruling, places: Sequence[str], copies: Mapping[str, Copy], *, missing: bool = False
) -> bool:
    """Return whether delivery failed at every place of the request, or the agent's conversation was
    its only place.

    With `missing`, places without a posted card or with an unknown state count as failed too,
    because their adapter may be down.
    """
    known = bool(places) or ORIGIN in ruling.route.targets
    return known and all(_is_lost(place, copies, missing=missing) for place in places)


def _is_lost(place: str, copies: Mapping[str, Copy], *, missing: bool) -> bool:
    if ":" not in place:
        return False
    copy = copies.get(place)
    if copy is None or copy.state is CopyState.INTENDED:
        return missing
    return copy.away or copy.state not in _REACHES


# Pending requests after a policy change: new places, and new declarations about tools.
#
# The script that replaces the policy puts every pending request into this queue, so that none is
# missed if the gateway dies.

_NEW_TARGETS_SOON = 0.05
_AGAIN_SECONDS = 30.0  # an adapter may not know the new policy yet, or not run yet


class Rerouting:
    """Applies a new policy's targets to one pending request at a time."""

    def __init__(self, core: Core) -> None:
        self._requests = core.requests
        self._writer = core.writer
        self._outbox = core.outbox

    async def look(self, request_id: str) -> float | None:
        """Make the gateway post missing cards. Return the seconds until the next look, or None."""
        try:
            record = await self._requests.get(request_id)
        except NotFound:
            return None
        log_also(agent=record.request.agent)
        if record.final:
            return None
        await self._outbox.mark(FOLLOWUPS, request_id)  # a delegate may have lost the right
        ruling = (await self._writer.current_policy()).ruling_on(record.request)
        if change := _follow_policy(record, ruling):
            await self._requests.progress(record, *change)
            return _NEW_TARGETS_SOON
        if record.behind:  # without a card: it will be posted at the right place
            return None
        copies = await self._outbox.copies(request_id)
        lacking = adapters_of(place for place in ruling.places(record) if place not in copies)
        for adapter in lacking:
            await self._outbox.mark(adapter, request_id)
        return _AGAIN_SECONDS if lacking else None


def _follow_policy(
    record: StoredRequest, ruling: Ruling
) -> tuple[StoredRequest, str, JsonObject] | None:
    """Return a request's record under a new policy, with the event and its data. None if nothing
    differs."""
    refused = record.conversation and ruling.find_conversation(record.request)[1]
    if refused:
        return replace(record, conversation=""), "rerouted", {"why": refused}
    wanted = queues_of(ruling, record.owner, record.conversation)
    if new := [queue for queue in wanted if queue not in record.queues]:
        # From now on these queues get the request's events, starting with this change.
        return replace(record, queues=(*record.queues, *new)), "rerouted", {"queues": new}
    declared = ruling.policy.declare(record)  # the grants that its card offers change too
    return (declared, "redeclared", {}) if declared != record else None
