"""Checks the invariants of the design after the fact, from two things alone: the audit export, and
what the agents wrote down.

Nothing here asks the gateway or Redis; any run of any test (or a real one) can be judged by it. A
chat's own record of its messages may be given too.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gateway.domain.audit import verify
from gateway.models import Status
from gateway.wire.schema import digest_process

Line = dict[str, Any]

ENDINGS = {status.value for status in Status} - {Status.PENDING.value}
AFTERWARDS = {"consumed", "reported", "erased"}
"""What may still happen to a request that has ended."""

_PROCESS = re.compile(r"[0-9a-f]{16}")  # the audit keeps digests of process tokens

LATE_MS = 2_000
"""How much later than its own deadline a waiter may return."""


@dataclass(slots=True)
class Trail:
    """The events of one request, in the order of the export."""

    events: list[Line] = field(default_factory=list)

    @property
    def agent(self) -> str:
        """Whose request it is."""
        return str(self.events[0]["agent"])

    @property
    def endings(self) -> list[Line]:
        """How it ended; at most one."""
        return [event for event in self.events if event["type"] in ENDINGS]

    @property
    def approval(self) -> Line | None:
        """Its approval, if it was approved."""
        return next((one for one in self.events if one["type"] == "approved"), None)

    @property
    def consumers(self) -> list[str]:
        """The processes that took the approval."""
        return [one["data"]["process"] for one in self.events if one["type"] == "consumed"]


def problems(
    export: Iterable[str],
    logs: Iterable[Iterable[str]] = (),
    cards: Iterable[Line] = (),
    *,
    settled: bool = True,
) -> list[str]:
    """Return what is wrong, as sentences; nothing when all invariants hold.

    `export` holds the lines of `gateway audit export`, `logs` those of each agent process. `cards`
    are what a chat showed, in order: for every posting and edit the message, its target, and the
    request's id, revision and status. When everything is `settled`, every request that reached the
    gateway must have ended, and every message must show how.
    """
    lines = list(export)
    trails = _trails(lines)
    said = [json.loads(line) for log in logs for line in log]
    found = [*verify(lines).problems, *_of_grants(lines)]
    for request_id, trail in trails.items():
        found += (f"{request_id}: {what}" for what in _of_trail(trail, settled))
    for request_id, entries in _by_id(said).items():
        found += (f"{request_id}: {what}" for what in _of_agent(trails.get(request_id), entries))
    # An overflow card is of no request.
    of_requests = (line for line in cards if not line["id"].startswith("~"))
    for request_id, shown in _by_id(of_requests).items():
        found += (f"{request_id}: {what}" for what in _of_cards(trails.get(request_id), shown))
    return found


def ended_as(export: Iterable[str]) -> dict[str, str]:
    """Return how each request of an export ended, by id; the pending ones are left out."""
    trails = _trails(export)
    return {name: one.endings[0]["type"] for name, one in trails.items() if one.endings}


def _trails(lines: Iterable[str]) -> dict[str, Trail]:
    trails: defaultdict[str, Trail] = defaultdict(Trail)
    for line in lines:
        event = json.loads(line).get("event")
        # An event without revision is about something that was refused: it changed no request.
        if event and event.get("request_id") and event.get("revision"):
            trails[event["request_id"]].events.append({"data": {}, **event})
    return trails


def _by_id(said: Iterable[Line]) -> dict[str, list[Line]]:
    found: defaultdict[str, list[Line]] = defaultdict(list)
    for line in said:
        found[line["id"]].append(line)
    return found


# ---------------------------------------------------------------- one request in the audit


def _of_trail(trail: Trail, settled: bool) -> Iterable[str]:
    types = [event["type"] for event in trail.events]
    if types[0] != "submitted" or types.count("submitted") != 1:
        yield f"must be submitted once, and first: {types}"
    if len(trail.endings) > 1:
        yield f"ended {len(trail.endings)} times"
    if settled and not trail.endings:
        yield "never ended"
    named = [one["data"]["process"] for one in trail.events if "process" in one["data"]]
    if not all(_PROCESS.fullmatch(one) for one in named):
        yield "names a process by what is no digest"
    if any(event["agent"] != trail.agent for event in trail.events):
        yield "another agent had an effect on it"
    yield from _of_order(trail)
    if trail.approval is not None:
        yield from _of_approval(trail.approval)


def _of_order(trail: Trail) -> Iterable[str]:
    # A request that policy decides at once is submitted and ended by the same revision.
    born = trail.events[0]["revision"]
    ended_at_birth = [one for one in trail.events[1:2] if one["type"] in ENDINGS]
    steps = [one for one in trail.events if one not in ended_at_birth or one["revision"] != born]
    if [one["revision"] for one in steps] != list(range(1, len(steps) + 1)):
        yield f"revisions are missing or out of order: {[one['revision'] for one in trail.events]}"
    if trail.endings:
        after = trail.events[trail.events.index(trail.endings[0]) + 1 :]
        if late := [one["type"] for one in after if one["type"] not in AFTERWARDS | ENDINGS]:
            yield f"went on after its end: {late}"


def _of_approval(approval: Line) -> Iterable[str]:
    by = approval["data"].get("decided_by", {})
    if by.get("kind") not in ("person", "grant", "rule") or not by.get("name"):
        yield "was approved by nobody"
    if approval["at"] >= approval["data"].get("expires_at", 0):
        yield "was approved after its deadline"


# ---------------------------------------------------------------- one request in the agents' logs


def _of_agent(trail: Trail | None, entries: list[Line]) -> Iterable[str]:
    asked = [one for one in entries if one["event"] == "asked"]
    told = [one for one in entries if one["event"] == "told" and one["revision"]]
    ran = [one for one in entries if one["event"] == "ran"]
    if trail is None:
        if told or ran:
            yield "an agent was told of it or ran it, and the audit knows nothing"
        return
    if any(one["agent"] != trail.agent for one in entries):
        yield "another agent's process had to do with it"
    yield from _of_answers(trail, told)
    yield from _of_runs(trail, asked, ran)
    yield from _of_patience(asked, entries)


def _of_answers(trail: Trail, told: list[Line]) -> Iterable[str]:
    for one in told:
        if not trail.endings:
            yield "an agent was told of an end that never was"
            return
        end = trail.endings[0]
        if (one["status"], one["revision"]) != (end["type"], end["revision"]):
            yield f"an agent was told {one['status']}, the audit says {end['type']}"
        if one["reason"] != end["data"].get("reason") or one["digest"] != end["data"].get("digest"):
            yield "an agent was told another reason or digest than the audit has"


def _of_runs(trail: Trail, asked: list[Line], ran: list[Line]) -> Iterable[str]:
    if not ran:
        return
    if len(ran) > 1:
        yield f"ran {len(ran)} times"
    if trail.approval is None:
        yield "ran without approval"
        return
    data = trail.approval["data"]
    if any(one["digest"] != data.get("digest") for one in ran):
        yield "ran something else than was approved"
    if any(one["at"] >= data.get("expires_at", 0) for one in ran):
        yield "ran after its deadline"
    if any(one["at"] < trail.approval["at"] for one in ran):
        yield "ran before it was approved"
    entitled = trail.consumers or [digest_process(one["process"]) for one in asked]
    if any(digest_process(one["process"]) not in entitled for one in ran):
        yield "ran in a process that had not taken the approval"


def _of_patience(asked: list[Line], entries: list[Line]) -> Iterable[str]:
    if not asked or not asked[0].get("timeout"):
        return
    limit = asked[-1]["at"] + 1000 * asked[-1]["timeout"] + LATE_MS
    if any(one["at"] > limit for one in entries if one["event"] == "told"):
        yield "a waiter returned long after its deadline"


# ---------------------------------------------------------------- remembered decisions, and cards


def _of_grants(lines: list[str]) -> Iterable[str]:
    """A grant decides from the event that made it to the event that ended it, for its own agent."""
    alive: dict[str, str] = {}
    for line in lines:
        event = json.loads(line).get("event") or {}
        data = event.get("data", {})
        by = data.get("decided_by") or {}
        if event.get("type") == "grant_made":
            alive[data["grant"]["id"]] = event["agent"]
        elif event.get("type") == "grant_ended":
            alive.pop(data["grant"], None)
        elif by.get("kind") == "grant" and alive.get(by["name"]) != event["agent"]:
            yield f"{event['request_id']}: was decided by a grant that did not hold for this agent"


def _of_cards(trail: Trail | None, shown: list[Line]) -> Iterable[str]:
    if trail is None:
        yield "has a card, and the audit knows nothing"
        return
    messages = {(line["target"], line["message"]): line for line in shown}
    if len({target for target, _ in messages}) < len(messages):
        yield "has two cards in one place"
    for last in messages.values():
        if trail.endings and last["status"] != trail.endings[0]["type"]:
            yield f"ended as {trail.endings[0]['type']}, and a card says {last['status']}"
