"""Build the names of all keys of a namespace. The keys share a hash tag, so that one script may use
several."""

from __future__ import annotations

from gateway.domain.records import OVERFLOW_MARK
from gateway.ports.outgoing import GRANT, is_grant


class Keys:
    """Key names under the hash tag of `namespace`."""

    def __init__(self, namespace: str = "gw") -> None:
        self.namespace = namespace
        self._tag = f"{{{namespace}}}:"
        self.grants = self.of("grants")
        """All grants, by creation time (sorted set)."""
        self.grants_due = self.of("grants", "due")
        """Grants by expiry (sorted set)."""
        self.grants_ending = self.of("grants", "ending")
        """Grants by the time of the notice before they expire (sorted set)."""
        self.grants_ended = self.of("grants", "ended")
        """Ended grants by end time (sorted set)."""
        self.grants_passed = self.of("grants", "passed")
        """Denied requests that also deny repeats of the same call, by the end of that (sorted
        set)."""
        self.pending = self.of("pending")
        """All pending requests by creation time (sorted set)."""
        self.deadlines = self.of("deadlines")
        """Pending requests by deadline (sorted set)."""
        self.done = self.of("done")
        """Final requests by end time (sorted set)."""
        self.events = self.of("events")
        """The audit log: all events in order (stream)."""
        self.seals = self.of("seals")
        """Hash-chained seals over batches of events (stream)."""
        self.meta = self.of("meta")
        """Schema version, policy generation, kill switch, agent count (hash)."""
        self.probe = self.of("probe")
        """Written to test whether Redis accepts writes (string, for seconds)."""
        self.policy = self.of("policy")
        """The policy document (string, JSON)."""
        self.sessions = self.of("sessions")
        """`agent session` by the time of the last request or sign of life (sorted set)."""
        self.processes = self.of("processes")
        """`agent process` by the end of its lease (sorted set)."""
        self.agents = self.of("agents")
        """Agents by the shard of their ingress stream (sorted set)."""
        self.replicas = self.of("replicas")
        """Gateway replicas by the end of their lease (sorted set). IDs contain name and version."""
        self.owners = self.of("owners")
        """The replica that reads each shard, and the leader replica under `duty` (hash)."""
        self.attempts = self.of("attempts")
        """Number of failures for each ingress entry (hash)."""
        self.dead = self.of("dead")
        """Ingress entries that failed permanently (stream)."""
        self.breakers = self.of("breakers")
        """Agents in a cool-down, with its end (hash)."""
        self.credentials = self.of("credentials")
        """Bearer credentials by key ID (hash)."""
        self.departed = self.of("departed")
        """How often each person was removed from the policy, by name (hash)."""
        self.prefixes = (self.dirty(""), self.record(""), self.behind(""))
        """Prefixes of the keys of outboxes, records and groups of requests (`behind`)."""

    def of(self, *parts: str) -> str:
        """Return a key of this namespace."""
        return self._tag + ":".join(parts)

    @property
    def control(self) -> str:
        """Events that every replica acts on, without their data. The script that writes an event
        derives this name from `events` (stream)."""
        return f"{self._tag}control"

    @property
    def restoring(self) -> str:
        """Exists while a backup is loaded, and after loading was interrupted (string)."""
        return f"{self._tag}restoring"

    @property
    def counts(self) -> str:
        """Number of sealed events of each kind (hash)."""
        return f"{self._tag}counts"

    @property
    def troubles(self) -> str:
        """Targets that accept no cards, with the reason (hash)."""
        return f"{self._tag}troubles"

    @property
    def devices(self) -> str:
        """The owner of each push device, by device ID (hash)."""
        return f"{self._tag}push:devices"

    @property
    def quiet(self) -> str:
        """Quiet hours by person (hash)."""
        return f"{self._tag}push:quiet"

    def record(self, request_id: str) -> str:
        """The record of a request (hash)."""
        return f"{self._tag}req:{request_id}"

    def secret(self, request_id: str) -> str:
        """Secret answers of a form, until its deadline (string, JSON)."""
        return f"{self._tag}secret:{request_id}"

    def versions(self, call: str) -> str:
        """The requests of one part of a coding agent's call (set)."""
        return f"{self._tag}call:{call}"

    def ingress(self, agent: str) -> str:
        """Messages from an agent (stream)."""
        return f"{self._tag}in:{agent}"

    def replies(self, agent: str, process: str) -> str:
        """Messages to one process of an agent (stream)."""
        return f"{self._tag}out:{agent}:{process}"

    def waiting(self, agent: str, process: str) -> str:
        """IDs of the requests that a process waits for (set)."""
        return f"{self._tag}waiting:{agent}:{process}"

    def pending_of(self, agent: str) -> str:
        """Pending requests of an agent by creation time (sorted set)."""
        return f"{self._tag}pending:{agent}"

    def load(self, agent: str) -> str:
        """Load of an agent (hash): bytes of pending requests, when the load of recent requests will
        have decayed, when the next card may be posted. Also the revision of the overflow card, the
        number of consecutive denials, and the cool-down after them. For each group of duplicates
        (`=...`), also the request that has the card."""
        return f"{self._tag}load:{agent}"

    def behind(self, what: str) -> str:
        """Requests that share another request's card or an overflow card, by creation time (sorted
        set)."""
        return f"{self._tag}behind:{what}"

    def dirty(self, queue: str) -> str:
        """Outbox queue: requests by the time to handle them (sorted set)."""
        return f"{self._tag}dirty:{queue}"

    def copies(self, subject_id: str) -> str:
        """The posted cards of a request, grant or overflow, by target (hash)."""
        return f"{self._tag}copies:{subject_id}"

    def subject(self, subject_id: str) -> str:
        """The key of a card's subject: a request, a grant, or an agent's overflow card."""
        if subject_id.startswith(OVERFLOW_MARK):
            return self.load(subject_id.removeprefix(OVERFLOW_MARK))
        if is_grant(subject_id):
            return self.grant(subject_id.removeprefix(GRANT))
        return self.record(subject_id)

    def note(self, adapter: str, name: str) -> str:
        """A value in an adapter's storage (string)."""
        return f"{self._tag}note:{adapter}:{name}"

    def devices_of(self, person: str) -> str:
        """A person's push devices by ID (hash)."""
        return f"{self._tag}push:of:{person}"

    def shard(self, number: int | str) -> str:
        """Announcements to the replica that reads this shard of ingress streams (stream)."""
        return f"{self._tag}shard:{number}"

    def grant(self, grant_id: str) -> str:
        """A grant (hash)."""
        return f"{self._tag}grant:{grant_id}"

    def same(self, agent: str, session: str, digest: str) -> str:
        """Recently denied requests whose denial also covers this call (hash by ID)."""
        return f"{self._tag}same:{agent}:{session}:{digest}"

    def counter(self, key: str) -> str:
        """Amounts that a rule approved within the time window of a limit, for each sixtieth of the
        window (hash)."""
        return f"{self._tag}counter:{key}"

    def decided(self, agent: str, tool: str) -> str:
        """Recent decisions by people about an agent's use of a tool, by time (sorted set)."""
        return f"{self._tag}decided:{agent}:{tool}"

    def grants_exact(self, digest: str) -> str:
        """Grants for one action digest: ID to body (hash)."""
        return f"{self._tag}grants:exact:{digest}"

    def grants_on(self, agent: str, tool: str) -> str:
        """Grants for an agent's use of a tool: ID to body (hash)."""
        return f"{self._tag}grants:tool:{agent}:{tool}"

    def grants_in(self, agent: str, session: str) -> str:
        """Grants that end with a session (set)."""
        return f"{self._tag}grants:session:{agent}:{session}"
