"""Who may see and who may decide: asked of Slack and of the desk at that moment, fail closed."""

from __future__ import annotations

from adapters.slack.card_blocks import CARD_CHARS, CARD_LINES
from adapters.slack.payloads import Form
from adapters.slack.uploads import Uploads
from adapters.slack.users import Actor, Directory, Stranger
from adapters.slack.workspaces import Workspace
from gateway.domain.records import Identity, Record
from gateway.errors import InvalidRequest, Unauthorized
from gateway.ports import Desk
from gateway.ports.card_size import fits
from gateway.ports.worklist import Worklist


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
        """Return who this is and the request; raises Stranger, Unknown, NotFound.

        With `read`, also InvalidRequest when all of it cannot be read there. User groups are asked
        for only where they matter: that is a slow call.
        """
        if read is None:
            record, why = await self._desk.get(request_id), ""
        else:
            record = await self._desk.seen(request_id, read.revision)
            why = await self.unreadable(read, actor.team, record)
        try:
            identity = await self._directory.member(workspace, actor)
        except Stranger as stranger:
            await self._desk.refuse(request_id, actor.identity, str(stranger))
            raise
        if await self._desk.may_decide(identity, record) is not None:
            identity = await self._directory.with_groups(workspace, identity)
        if why:
            raise InvalidRequest(why)
        return identity, record

    async def caller(self, workspace: Workspace, actor: Actor) -> Identity:
        """Return who this is, with their groups; raises Stranger, Unknown."""
        identity = await self._directory.member(workspace, actor)
        return await self._directory.with_groups(workspace, identity)

    async def approver(
        self, workspace: Workspace, actor: Actor, request_id: str
    ) -> tuple[Identity, Record]:
        """Return who this is and the request, if they may decide it; raises Unauthorized too."""
        identity, record = await self.known(workspace, actor, request_id)
        if refusal := await self._desk.may_decide(identity, record):
            await self._desk.refuse(request_id, identity, refusal)
            raise Unauthorized(refusal)
        return identity, record

    async def viewer(
        self, workspace: Workspace, actor: Actor, request_id: str
    ) -> tuple[Identity, Record]:
        """Return who this is and the request, if they may see it; raises Unauthorized too."""
        identity, record = await self.known(workspace, actor, request_id)
        if not await self._worklist.may_see(identity, record):
            why = "you are not an approver for this request"
            await self._desk.refuse(request_id, identity, why)
            raise Unauthorized(why)
        return identity, record

    async def unreadable(self, form: Form, team: str, record: Record) -> str:
        """Return why the whole of it cannot be read in Slack, empty when it can.

        A card shows all of it, or its full text is attached in the very thread.
        """
        if fits(record, lines=CARD_LINES, chars=CARD_CHARS):
            return ""
        ref = form.ref(team)
        if ref is not None and await self._uploads.attached(ref, record.digest):
            return ""
        return "This cannot be approved here: the full text is not attached to the card."
