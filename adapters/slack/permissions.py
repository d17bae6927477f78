"""Who may see and who may decide: asked of Slack and of the desk at that moment, fail closed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from adapters.slack.card_blocks import CARD_CHARS, CARD_LINES
from adapters.slack.payloads import Form
from adapters.slack.uploads import Uploads
from adapters.slack.users import Actor, Directory, Stranger
from adapters.slack.workspaces import Workspace
from gateway.errors import InvalidRequest, Unauthorized
from gateway.ports import Desk, Groups, Identity, Record, Worklist


class Rights:
    """Checks people, and whether what they would approve can be read in full."""

    def __init__(
        self, desk: Desk, worklist: Worklist, directory: Directory, uploads: Uploads
    ) -> None:
        self._desk = desk
        self._worklist = worklist
        self._directory = directory
        self._uploads = uploads

    async def known(
        self, workspace: Workspace, actor: Actor, request_id: str, *, read: Form | None = None
    ) -> tuple[Identity, Record]:
        """Return who this is, without groups, and the request; raises Stranger, Unknown, NotFound.

        With `read`, also InvalidRequest when all of it cannot be read there. Whether they may
        decide is not asked.
        """
        if read is None:
            record, why = await self._desk.requests.get(request_id), ""
        else:
            record = await self._desk.requests.get_at_revision(request_id, read.revision)
            why = await self.unreadable(read, actor.team, record)
        try:
            identity = await self._directory.member(workspace, actor)
        except Stranger as stranger:
            await self._desk.requests.refuse(request_id, actor.identity, str(stranger))
            raise
        if why:
            raise InvalidRequest(why)
        return identity, record

    def groups(self, workspace: Workspace, identity: Identity) -> Groups:
        """Return what asks Slack for somebody's groups: a slow call, made only where it matters."""
        return partial(self._directory.groups, workspace, identity)

    async def caller(self, workspace: Workspace, actor: Actor) -> Identity:
        """Return who this is, with their groups; raises Stranger, Unknown."""
        identity = await self._directory.member(workspace, actor)
        return replace(identity, groups=await self._directory.groups(workspace, identity))

    async def approver(self, workspace: Workspace, actor: Actor, request_id: str) -> Record:
        """Return the request, if they may decide it; raises Unauthorized too."""
        identity, record = await self.known(workspace, actor, request_id)
        identity, refusal = await self._refusal(workspace, identity, record)
        if refusal is not None:
            await self._desk.requests.refuse(request_id, identity, refusal)
            raise Unauthorized(refusal)
        return record

    async def viewer(
        self, workspace: Workspace, actor: Actor, request_id: str
    ) -> tuple[Record, str | None]:
        """Return the request, if they may see it, and why they may not decide it, if they may not.

        Raises Unauthorized too.
        """
        identity, record = await self.known(workspace, actor, request_id)
        identity, refusal = await self._refusal(workspace, identity, record)
        if refusal is not None and not await self._worklist.is_involved(identity, record):
            why = "you are not an approver for this request"
            await self._desk.requests.refuse(request_id, identity, why)
            raise Unauthorized(why)
        return record, refusal

    async def _refusal(
        self, workspace: Workspace, identity: Identity, record: Record
    ) -> tuple[Identity, str | None]:
        """Return why they may not decide, None when they may; with groups where that matters."""
        refusal = await self._desk.requests.may_decide(identity, record)
        if refusal is not None:
            identity = replace(identity, groups=await self.groups(workspace, identity)())
            refusal = await self._desk.requests.may_decide(identity, record)
        return identity, refusal

    async def unreadable(self, form: Form, team: str, record: Record) -> str:
        """Return why the whole of it cannot be read in Slack, empty when it can.

        A card shows all of it, or its full text is attached in the very thread.
        """
        if self._desk.sizes.fits(record, lines=CARD_LINES, chars=CARD_CHARS):
            return ""
        ref = form.ref(team)
        if ref is not None and await self._uploads.attached(ref, record.digest):
            return ""
        return "This cannot be approved here: the full text is not attached to the card."
