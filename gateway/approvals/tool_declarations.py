"""What admins declare about tools while the gateway runs: rows of the policy."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.approvals.writer import Writer
from gateway.domain.policy_document import PolicyDocument, ToolRow
from gateway.domain.records import Identity, Record
from gateway.domain.store import Store
from gateway.errors import Conflict, Unauthorized, Unconfirmed
from gateway.policy.declared_tools import ToolWord, check_word, dangers_of, with_word

_TRIES = 8


class ToolDeclarations:
    """A `gateway.ports.ToolCalls`: writes rows of the policy; rights are checked each time."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer

    async def rows(self) -> tuple[ToolRow, ...]:
        """Return what operators have declared."""
        return (await self._writer.current_policy()).tools

    async def declare(
        self,
        identity: Identity,
        word: ToolWord,
        *,
        confirmed: bool = False,
        about: Record | None = None,
    ) -> None:
        """Write a declaration into the policy. See `gateway.ports.ToolCalls` for what it raises.

        Saying the same again changes nothing.
        """
        for _ in range(_TRIES):
            policy = await self._writer.fresh_policy()
            by = await self._check_admin(policy, identity)
            check_word(word)
            after = with_word(policy, word, by=by, at=self._now())
            if after is policy:
                return
            dangers = dangers_of(policy, word, about)
            if dangers and not confirmed:
                raise Unconfirmed(f"{' '.join(dangers)} Confirm it to declare it all the same.")
            try:
                await self._store.apply(after, by=by)
            except Conflict:  # somebody else changed the policy: look at what stands now
                continue
            self._writer.forget_policy()
            await self._note(word, by)
            return
        raise Conflict("the policy keeps changing: try again")

    async def _check_admin(self, policy: PolicyDocument, identity: Identity) -> str:
        if not policy.is_admin(identity):
            why = "only an admin may declare what a tool's arguments are"
            await self._store.note("refused", agent=identity.written, data={"why": why})
            raise Unauthorized(why)
        return policy.name_of(identity)

    async def _note(self, word: ToolWord, by: str) -> None:
        """Write down what was said; the policy's own event says the rest."""
        said = [{"address": one, "role": role} for one, role in word.arguments.items()]
        if word.harmless is not None:
            said.append({"address": "", "role": "harmless" if word.harmless else "not harmless"})
        for one in said:
            await self._store.note("tool_declared", data={"tool": word.tool, **one, "by": by})

    def _now(self) -> str:
        now = datetime.fromtimestamp(self._writer.now() / 1000, UTC)
        return now.isoformat(timespec="seconds")
