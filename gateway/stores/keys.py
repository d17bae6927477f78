"""The names of all keys of one namespace. They share a hash tag, so one script may touch them."""

from __future__ import annotations

from gateway.domain.records import OVERFLOW_MARK
from gateway.ports.outgoing import GRANT, is_grant


class Keys:
    """Key names under the hash tag of `namespace`."""

    def __init__(self, namespace: str = "gw") -> None:
        self.namespace = namespace
        self._tag = f"{{{namespace}}}:"
        self.grants = self.of("grants")
        """All remembered decisions by when they were made (sorted set)."""
        self.grants_due = self.of("grants", "due")
        """Remembered decisions by when they expire (sorted set)."""
        self.grants_ending = self.of("grants", "ending")
        """Remembered decisions by when their end is to be announced (sorted set)."""
        self.grants_ended = self.of("grants", "ended")
        """Remembered decisions that ended, by when (sorted set)."""
        self.grants_passed = self.of("grants", "passed")
        """Denied requests that answer the same call, by until when (sorted set)."""
        self.pending = self.of("pending")
        """All pending requests by creation time (sorted set)."""
        self.deadlines = self.of("deadlines")
        """Pending requests by deadline (sorted set)."""
        self.done = self.of("done")
        """Final requests by when they ended (sorted set)."""
        self.events = self.of("events")
        """Everything that happened, in order: the audit (stream)."""
        self.seals = self.of("seals")
        """Hash-chained seals over batches of events (stream)."""
        self.meta = self.of("meta")
        """Schema version, policy generation, kill switch, agent count (hash)."""
        self.probe = self.of("probe")
        """What is written to see whether anything is (string, for seconds)."""
        self.policy = self.of("policy")
        """The policy document (string, JSON)."""
        self.sessions = self.of("sessions")
        """`agent session` by when something was last asked or seen waiting in it (sorted set)."""
        self.processes = self.of("processes")
        """`agent process` by the end of its waiter lease (sorted set)."""
        self.agents = self.of("agents")
        """Agents by the shard their ingress stream is read in (sorted set)."""
        self.replicas = self.of("replicas")
        """Gateway replicas by the end of their lease (sorted set)."""
        self.owners = self.of("owners")
        """Which replica reads which shard, and which has the `duty` (hash)."""
        self.attempts = self.of("attempts")
        """How often handling an ingress entry failed (hash)."""
        self.dead = self.of("dead")
        """Ingress entries that could not be handled (stream)."""
        self.breakers = self.of("breakers")
        """Agents that ask nobody for now, by until when (hash)."""
        self.credentials = self.of("credentials")
        """Bearer credentials by key id (hash)."""
        self.departed = self.of("departed")
        """How often a person was taken out of the policy, by name (hash)."""
        self.prefixes = (self.dirty(""), self.record(""), self.behind(""))
        """What the names of outboxes, of records, and of who waits behind what begin with."""

    def of(self, *parts: str) -> str:
        """Return a key of this namespace."""
        return self._tag + ":".join(parts)

    @property
    def control(self) -> str:
        """The events that every replica acts on, without data; the script that writes an event
        derives this name from that of `events` (stream)."""
        return f"{self._tag}control"

    @property
    def counts(self) -> str:
        """How often each thing happened, of the events that are sealed (hash)."""
        return f"{self._tag}counts"

    @property
    def troubles(self) -> str:
        """Targets that take no cards, each with why (hash)."""
        return f"{self._tag}troubles"

    @property
    def devices(self) -> str:
        """Whose each device is that takes pushes, by its id (hash)."""
        return f"{self._tag}push:devices"

    @property
    def quiet(self) -> str:
        """People's quiet hours (hash)."""
        return f"{self._tag}push:quiet"

    def record(self, request_id: str) -> str:
        """The state record of a request (hash)."""
        return f"{self._tag}req:{request_id}"

    def secret(self, request_id: str) -> str:
        """Secret answers of a question, until its deadline (string, JSON)."""
        return f"{self._tag}secret:{request_id}"

    def versions(self, call: str) -> str:
        """The requests of one part of a host's call (set)."""
        return f"{self._tag}call:{call}"

    def ingress(self, agent: str) -> str:
        """What an agent writes (stream)."""
        return f"{self._tag}in:{agent}"

    def replies(self, agent: str, process: str) -> str:
        """What one process of an agent reads (stream)."""
        return f"{self._tag}out:{agent}:{process}"

    def waiting(self, agent: str, process: str) -> str:
        """Ids that a process waits for (set)."""
        return f"{self._tag}waiting:{agent}:{process}"

    def pending_of(self, agent: str) -> str:
        """An agent's pending requests by creation time (sorted set)."""
        return f"{self._tag}pending:{agent}"

    def load(self, agent: str) -> str:
        """What an agent's requests come to: the bytes of those that wait, when what it handed in of
        late will have faded, when its next card may be posted,
        the revision of its overflow card, people's denials in a row and the pause they led to, and
        for each likeness (`=...`) the request that leads (hash)."""
        return f"{self._tag}load:{agent}"

    def behind(self, what: str) -> str:
        """Requests that wait behind another or an overflow card, by creation (sorted set)."""
        return f"{self._tag}behind:{what}"

    def dirty(self, queue: str) -> str:
        """Requests that an outbox must look at again, by when (sorted set)."""
        return f"{self._tag}dirty:{queue}"

    def copies(self, subject_id: str) -> str:
        """The posted copies of a card, by target (hash)."""
        return f"{self._tag}copies:{subject_id}"

    def subject(self, subject_id: str) -> str:
        """What a card is about: a request, a remembered decision, or an agent's overflow."""
        if subject_id.startswith(OVERFLOW_MARK):
            return self.load(subject_id.removeprefix(OVERFLOW_MARK))
        if is_grant(subject_id):
            return self.grant(subject_id.removeprefix(GRANT))
        return self.record(subject_id)

    def note(self, adapter: str, name: str) -> str:
        """Something an adapter keeps (string)."""
        return f"{self._tag}note:{adapter}:{name}"

    def devices_of(self, person: str) -> str:
        """A person's devices that take pushes, by id (hash)."""
        return f"{self._tag}push:of:{person}"

    def shard(self, number: int | str) -> str:
        """Announcements to whoever reads this shard of ingress streams (stream)."""
        return f"{self._tag}shard:{number}"

    def grant(self, grant_id: str) -> str:
        """A remembered decision (hash)."""
        return f"{self._tag}grant:{grant_id}"

    def same(self, agent: str, session: str, digest: str) -> str:
        """The denied requests that answer this call just now (hash by id)."""
        return f"{self._tag}same:{agent}:{session}:{digest}"

    def decided(self, agent: str, tool: str) -> str:
        """What people decided lately of an agent's use of a tool, by when (sorted set)."""
        return f"{self._tag}decided:{agent}:{tool}"

    def counter(self, key: str) -> str:
        """What a rule approved within the window of one of its limits: a sixtieth of the window to
        an amount (hash)."""
        return f"{self._tag}counter:{key}"

    def grants_exact(self, digest: str) -> str:
        """Remembered decisions about one digest: id to body (hash)."""
        return f"{self._tag}grants:exact:{digest}"

    def grants_on(self, agent: str, tool: str) -> str:
        """Remembered decisions about an agent's use of a tool: id to body (hash)."""
        return f"{self._tag}grants:tool:{agent}:{tool}"

    def grants_in(self, agent: str, session: str) -> str:
        """The grants that end with a session (set)."""
        return f"{self._tag}grants:session:{agent}:{session}"
