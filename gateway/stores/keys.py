"""The names of all keys of one namespace. They share a hash tag, so one script may touch them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """Key names under the hash tag of `namespace`."""

    namespace: str = "gw"

    def of(self, *parts: str) -> str:
        """Return a key of this namespace."""
        return f"{{{self.namespace}}}:{':'.join(parts)}"

    def record(self, request_id: str) -> str:
        """The state record of a request (hash)."""
        return self.of("req", request_id)

    def secret(self, request_id: str) -> str:
        """Secret answers of a question, until its deadline (string, JSON)."""
        return self.of("secret", request_id)

    def ingress(self, agent: str) -> str:
        """What an agent writes (stream)."""
        return self.of("in", agent)

    def replies(self, agent: str, process: str) -> str:
        """What one process of an agent reads (stream)."""
        return self.of("out", agent, process)

    def waiting(self, agent: str, process: str) -> str:
        """Ids that a process waits for (set)."""
        return self.of("waiting", agent, process)

    def pending_of(self, agent: str) -> str:
        """An agent's pending requests by creation time (sorted set)."""
        return self.of("pending", agent)

    def dirty(self, queue: str) -> str:
        """Requests that an outbox must look at again, by when (sorted set)."""
        return self.of("dirty", queue)

    def copies(self, request_id: str) -> str:
        """The posted copies of a request's card, by target (hash)."""
        return self.of("copies", request_id)

    def note(self, adapter: str, name: str) -> str:
        """Something an adapter keeps (string)."""
        return self.of("note", adapter, name)

    def shard(self, number: int | str) -> str:
        """Announcements to whoever reads this shard of ingress streams (stream)."""
        return self.of("shard", str(number))

    def grant(self, grant_id: str) -> str:
        """A remembered decision (hash)."""
        return self.of("grant", grant_id)

    def grants_exact(self, digest: str) -> str:
        """Remembered decisions about one digest: id to body (hash)."""
        return self.of("grants", "exact", digest)

    def grants_on(self, agent: str, tool: str) -> str:
        """Remembered decisions about an agent's use of a tool: id to body (hash)."""
        return self.of("grants", "tool", agent, tool)

    def grants_in(self, agent: str, session: str) -> str:
        """The grants that end with a session (set)."""
        return self.of("grants", "session", agent, session)

    @property
    def grants(self) -> str:
        """All remembered decisions by when they were made (sorted set)."""
        return self.of("grants")

    @property
    def grants_due(self) -> str:
        """Remembered decisions by when they expire (sorted set)."""
        return self.of("grants", "due")

    @property
    def pending(self) -> str:
        """All pending requests by creation time (sorted set)."""
        return self.of("pending")

    @property
    def deadlines(self) -> str:
        """Pending requests by deadline (sorted set)."""
        return self.of("deadlines")

    @property
    def done(self) -> str:
        """Final requests by when they ended (sorted set)."""
        return self.of("done")

    @property
    def events(self) -> str:
        """Everything that happened, in order: the audit (stream)."""
        return self.of("events")

    @property
    def seals(self) -> str:
        """Hash-chained seals over batches of events (stream)."""
        return self.of("seals")

    @property
    def meta(self) -> str:
        """Schema version, policy generation, kill switch, agent count (hash)."""
        return self.of("meta")

    @property
    def policy(self) -> str:
        """The policy document (string, JSON)."""
        return self.of("policy")

    @property
    def sessions(self) -> str:
        """`agent session` by last request (sorted set)."""
        return self.of("sessions")

    @property
    def processes(self) -> str:
        """`agent process` by the end of its waiter lease (sorted set)."""
        return self.of("processes")

    @property
    def agents(self) -> str:
        """Agents by the shard their ingress stream is read in (sorted set)."""
        return self.of("agents")

    @property
    def replicas(self) -> str:
        """Gateway replicas by the end of their lease (sorted set)."""
        return self.of("replicas")

    @property
    def owners(self) -> str:
        """Which replica reads which shard (hash)."""
        return self.of("owners")

    @property
    def attempts(self) -> str:
        """How often handling an ingress entry failed (hash)."""
        return self.of("attempts")

    @property
    def dead(self) -> str:
        """Ingress entries that could not be handled (stream)."""
        return self.of("dead")

    @property
    def credentials(self) -> str:
        """Bearer credentials by key id (hash)."""
        return self.of("credentials")
