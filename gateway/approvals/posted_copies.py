"""Where copies of cards were posted. Clicks are accepted on these copies only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.domain.records import Click, MessageRef, Record
from gateway.domain.redaction import mask
from gateway.domain.store import Store
from gateway.errors import Unauthorized
from gateway.ports.outgoing import Copy, CopyState, Outbox
from gateway.wire.codec import JsonObject

_MOST_PLACES = 10_000  # kept in mind
_MOST_WORDS = 500
_TRIES = 8


Stood = Callable[[str, MessageRef], bool]
"""Says whether a copy with this target stands, or stood, at a place, by its reference."""


class PostedCopies:
    """Recognises posted copies, and audits what became of them."""

    def __init__(self, store: Store, outbox: Outbox) -> None:
        self._store = store
        self._outbox = outbox
        self._places: dict[tuple[str, str], MessageRef] = {}

    async def recognise(self, click: Click) -> None:
        """Check that a click was made on a copy that we posted, where we posted it.

        A copy that was posted just before a crash is written down now. Raises Unauthorized.
        """
        if click.ref is None or self._places.get((click.request_id, click.copy or "")) == click.ref:
            return
        copies = (await self._outbox.copies(click.request_id)).values()
        copy = next((one for one in copies if one.nonce == click.copy and not one.outcome), None)
        if copy is not None and copy.ref == click.ref:
            self.remember_place(click.request_id, copy)
            return
        if copy is None or copy.ref is not None:
            raise Unauthorized("this is not a card that the gateway posted here")
        await self.adopt(click.request_id, copy.nonce, click.ref)

    async def list_members(self, request_id: str, nonce: str) -> tuple[str, ...]:
        """Return the ids of all that stand on a copy of this request, in their order; none for a
        copy that shows nothing else, or that is not known."""
        known = (await self._outbox.copies(request_id)).values()
        copy = next((one for one in known if one.nonce == nonce and not one.outcome), None)
        if copy is None or not copy.within:
            return copy.members if copy is not None else ()
        led = (await self._outbox.copies(copy.within)).get(copy.target)
        return led.members if led is not None and led.nonce == nonce else ()

    async def adopt(self, subject_id: str, nonce: str, ref: MessageRef) -> None:
        """Write down where a copy stands that was posted just before a crash.

        Whoever posted it may write down at the same time that nobody knows: then this comes after.
        """
        for _ in range(_TRIES):
            copies = (await self._outbox.copies(subject_id)).values()
            mine = (one for one in copies if one.nonce == nonce and not one.outcome)
            lost = next((one for one in mine if one.ref is None), None)
            if lost is None:
                return
            posted = replace(lost, state=CopyState.POSTED, ref=ref, revision=0)
            await self._outbox.put_copy(subject_id, posted, before=lost)
            await self._outbox.mark(ref.adapter, subject_id)

    async def doubt(self, record: Record, stood: Stood, away: str, elsewhere: str) -> None:
        """Have the copies of a request that stood there looked at, as they may be gone.

        With `away`, why, nobody can answer there, whether or not they can be edited: then the
        queue `elsewhere` looks for another place.
        """
        for copy in (await self._outbox.copies(record.id)).values():
            if copy.ref is None or copy.outcome or not stood(copy.target, copy.ref):
                continue
            # What it shows is unknown, so that it is edited: the platform says whether it is there.
            doubtful = replace(copy, revision=0, tries=0, away=bool(away), why=away or copy.why)
            if not await self._outbox.put_copy(record.id, doubtful, before=copy):
                continue  # somebody is at it now, and will see
            await self._outbox.mark(copy.ref.adapter, record.id)
            if away:
                await self.note("copy_gone", record.holder, {"request_id": record.id}, copy, away)
                await self._outbox.mark(elsewhere, record.id)

    def remember_place(self, subject_id: str, copy: Copy) -> None:
        """Keep in mind where a copy was posted, which never changes: its clicks need no look."""
        if copy.ref is not None:
            self._places[subject_id, copy.nonce] = copy.ref
        while len(self._places) > _MOST_PLACES:
            del self._places[next(iter(self._places))]

    async def note(self, event: str, agent: str, about: JsonObject, copy: Copy, why: str) -> None:
        """Write down what became of a copy; it changes nothing of what the copy is about."""
        data = {**about, "target": copy.target}
        if copy.ref is not None:
            data["message"] = copy.ref.message
        if why:
            data["why"] = shorten(why)
        await self._store.note(event, agent=agent, data=data)


def shorten(why: str) -> str:
    """Return a reason as it is audited: masked, and not longer than people read."""
    return str(mask(why))[:_MOST_WORDS]  # in this order: half a secret looks like none
