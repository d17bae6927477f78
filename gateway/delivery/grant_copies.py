"""Keeps every posted copy of a remembered decision's card true at one adapter."""

from __future__ import annotations

from functools import partial

from gateway.approvals.core import Core
from gateway.approvals.grant_lifecycle import GrantView
from gateway.delivery.outbox_worker import TIMINGS, Timings
from gateway.delivery.posting_and_editing import Copies, Subject
from gateway.domain.clock import Clock
from gateway.ports.outgoing import (
    GRANT,
    Copy,
    Notice,
    NoticeKind,
    PostsGrants,
)


class GrantCopies:
    """Looks at one remembered decision at a time, as it is now."""

    def __init__(
        self, adapter: PostsGrants, core: Core, clock: Clock, timings: Timings = TIMINGS
    ) -> None:
        self._adapter = adapter
        self._grants = core.grants
        self._posted = core.copies
        self._outbox = core.outbox
        self._copies = Copies(
            adapter.name,
            core.outbox,
            clock,
            repeatable=adapter.repeatable,
            timings=timings,
            queues=adapter,
        )

    async def look(self, subject_id: str) -> float | None:
        """Make the copies of a grant true; return in how many seconds to look again, or None."""
        shown = await self._grants.view(subject_id.removeprefix(GRANT))
        if shown is None:
            return None
        copies = await self._outbox.copies(subject_id)
        subject = self._subject(subject_id, shown)
        return min(await self._copies.look(subject, shown.places, copies), default=None)

    def _subject(self, subject_id: str, shown: GrantView) -> Subject:
        adapter, grant, card = self._adapter, shown.grant, shown.card
        return Subject(
            id=subject_id,
            revision=card.revision,
            reminders=grant.notices,
            final=card.ended,
            deliver=lambda target, nonce: adapter.deliver_grant(target, card, nonce),
            update=lambda ref, copy: adapter.update_grant(ref, card, copy.nonce),
            remind=lambda copy: adapter.tell_grant(_make_reminder(copy), shown.news),
            noted=partial(self._note, shown),
            stands=partial(self._posted.remember_place, subject_id),
        )

    async def _note(self, shown: GrantView, event: str, copy: Copy, why: str) -> None:
        await self._posted.note(event, shown.grant.agent, {"grant": shown.grant.id}, copy, why)


def _make_reminder(copy: Copy) -> Notice:
    return Notice(kind=NoticeKind.REMINDER, target=copy.target, nonce=copy.nonce, ref=copy.ref)
