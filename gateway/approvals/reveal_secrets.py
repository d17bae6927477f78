"""Secrets in the clear: who may see them, and that it is written down before they do."""

from __future__ import annotations

from gateway.approvals.writer import Writer
from gateway.domain.records import Identity, Record
from gateway.domain.store import Store
from gateway.errors import NotFound, Unauthorized
from gateway.policy.authorization import approver


class Revealing:
    """Gives people requests whose secrets are not masked."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer

    async def reveal(self, request_id: str, identity: Identity) -> Record:
        """Return a request whose secrets this person is about to see, and write that down.

        Only who may decide it and admins see them; that others tried is audited, too. Raises
        NotFound, Unauthorized.
        """
        record = await self._store.load(request_id)
        if record is None or record.unreviewed:
            raise NotFound("no such request")
        policy = await self._writer.fresh_policy()
        try:
            approver(policy, record, identity)
        except Unauthorized as refusal:
            if not policy.is_admin(identity):
                data = {"request_id": request_id, "why": str(refusal)}
                await self._store.note("refused", agent=identity.written, data=data)
                raise
        data = {"request_id": request_id, "person": policy.name_of(identity)}
        await self._store.note("revealed", agent=record.holder, data=data)
        return record
