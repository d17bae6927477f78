"""Rights: who may see and who may decide, checked with Slack and the core on each click."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from adapters.slack.card_blocks import CARD_CHARS, CARD_LINES
from adapters.slack.payloads import Actor, ModalMetadata
from adapters.slack.uploads import Uploads
from adapters.slack.users import Stranger, UserDirectory
from adapters.slack.workspaces import Workspace
from gateway.errors import InvalidRequest, Unauthorized
from gateway.ports import Desk, Groups, Identity, Record, Worklist


class Rights:
    """Checks people, and whether all of what they would approve can be read."""

    def __init__(
        self, desk: Desk, worklist: Worklist, directory: UserDirectory, uploads: Uploads
    ) -> None:
        self._desk = desk
        self._worklist = worklist
        self._directory = directory
        self._uploads = uploads

    async def identify(
        self,
        workspace: Workspace,
        actor: Actor,
        request_id: str,
        *,
        read: ModalMetadata | None = None,
    ) -> tuple[Identity, Record]:
        """Return the person, without groups, and the request. Does not check the right to decide.

        Raises Stranger, Unknown, NotFound; with `read`, InvalidRequest when not all of the request
        can be read there.
        """
        if read is None:
            record, why = await self._desk.requests.get(request_id), ""
        else:
            record = await self._desk.requests.get_at_revision(request_id, read.revision)
            why = await self.explain_unreadable(read, actor.team, record)
        try:
            identity = await self._directory.find_member(workspace, actor)
        except Stranger as stranger:
            await self._desk.requests.refuse(request_id, actor.identity, str(stranger))
            raise
        if why:
            raise InvalidRequest(why)
        return identity, record

    def build_group_query(self, workspace: Workspace, identity: Identity) -> Groups:
        """Return a callable that fetches a person's groups from Slack, which is slow."""
        return partial(self._directory.find_groups, workspace, identity)

    async def identify_caller(self, workspace: Workspace, actor: Actor) -> Identity:
        """Return the person, with groups. Raises Stranger, Unknown."""
        identity = await self._directory.find_member(workspace, actor)
        return replace(identity, groups=await self._directory.find_groups(workspace, identity))

    async def check_approver(self, workspace: Workspace, actor: Actor, request_id: str) -> Record:
        """Return the request, if they may decide it. Raises Unauthorized, and as `identify`."""
        identity, record = await self.identify(workspace, actor, request_id)
        identity, refusal = await self._find_refusal(workspace, identity, record)
        if refusal is not None:
            await self._desk.requests.refuse(request_id, identity, refusal)
            raise Unauthorized(refusal)
        return record

    async def check_viewer(
        self, workspace: Workspace, actor: Actor, request_id: str
    ) -> tuple[Record, str | None]:
        """Return the request, if the person may see it, and why they may not decide it, if so.

        Raises Unauthorized, and as `identify`.
        """
        identity, record = await self.identify(workspace, actor, request_id)
        identity, refusal = await self._find_refusal(workspace, identity, record)
        if refusal is not None and not await self._worklist.is_involved(identity, record):
            why = "you are not an approver for this request"
            await self._desk.requests.refuse(request_id, identity, why)
            raise Unauthorized(why)
        return record, refusal

    async def _find_refusal(
        self, workspace: Workspace, identity: Identity, record: Record
    ) -> tuple[Identity, str | None]:
        """Return the person and why they may not decide, None when they may.

        Groups are fetched only where they matter.
        """
        refusal = await self._desk.requests.may_decide(identity, record)
        if refusal is not None:
            identity = replace(identity, groups=await self.build_group_query(workspace, identity)())
            refusal = await self._desk.requests.may_decide(identity, record)
        return identity, refusal

    async def explain_unreadable(self, form: ModalMetadata, team: str, record: Record) -> str:
        """Return why not all of the request can be read in Slack, empty when it can.

        Either the card shows all of it, or the full text is attached in its thread.
        """
        if self._desk.sizes.fits(record, lines=CARD_LINES, chars=CARD_CHARS):
            return ""
        ref = form.ref(team)
        if ref is not None and await self._uploads.is_attached(ref, record.digest):
            return ""
        return "This cannot be approved here: the full text is not attached to the card."
