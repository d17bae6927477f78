"""The `/approvals` command: the same checks as the buttons, and only what the caller may see."""

from __future__ import annotations

from collections.abc import AsyncIterator

from adapters.slack import modals
from adapters.slack.acts import Acts, click, said, whole
from adapters.slack.blocks import Act, actions
from adapters.slack.directory import Directory
from adapters.slack.interactions import Interaction
from adapters.slack.replies import Reply
from adapters.slack.rights import Rights
from adapters.slack.text import Json, context, moment, one_line, ours, plain, rich, words
from adapters.slack.values import NO_COPY, Form
from adapters.slack.workspaces import Workspace
from gateway.errors import InvalidRequest, NotFound
from gateway.models import Action, RiskLevel
from gateway.ports import Desk
from gateway.records import Identity, Query, Record

COMMAND = "/approvals"
_LEAST_ID = 4
_PAGES = 10
_MOST_LISTED = 12
HELP = (
    "/approvals list: what waits for you\n"
    "/approvals show ID: everything about one request\n"
    "/approvals approve ID\n"
    "/approvals deny ID reason\n"
    "IDs may be shortened to their first characters."
)


class Commands:
    """Answers the command."""

    def __init__(self, desk: Desk, directory: Directory, rights: Rights, acts: Acts) -> None:
        self._desk = desk
        self._directory = directory
        self._rights = rights
        self._acts = acts

    async def run(self, workspace: Workspace, did: Interaction, reply: Reply) -> None:
        """Run one command; answers only the caller."""
        verb, _, rest = did.text.strip().partition(" ")
        name, _, words_after = rest.strip().partition(" ")
        if verb in ("", "list"):
            await self._list(workspace, did, reply)
        elif verb == "show":
            await self._show(workspace, did, name, reply)
        elif verb == "approve":
            await self._approve(workspace, did, name, reply)
        elif verb == "deny":
            await self._deny(workspace, did, name, words_after.strip(), reply)
        else:
            await reply.tell(HELP)

    async def waiting(self, identity: Identity) -> AsyncIterator[Record]:
        """Yield the waiting requests that this person may see, newest first."""
        after = None
        for _ in range(_PAGES):
            page = await self._desk.page(Query(after=after))
            for record in page.items:
                if await self._rights.may_see(identity, record):
                    yield record
            after = page.next
            if after is None:
                return

    async def caller(self, workspace: Workspace, did: Interaction) -> Identity:
        """Return who called, with their groups; raises Stranger, Unknown."""
        identity = await self._directory.member(workspace, did.actor)
        return await self._directory.with_groups(workspace, identity)

    async def _list(self, workspace: Workspace, did: Interaction, reply: Reply) -> None:
        identity = await self.caller(workspace, did)
        found = [record async for record in self.waiting(identity)]
        if not found:
            await reply.tell("Nothing waits for you.")
            return
        blocks = [block for record in found[:_MOST_LISTED] for block in listed(record)]
        if len(found) > _MOST_LISTED:
            blocks.append(context(plain(f"And {len(found) - _MOST_LISTED} more.")))
        await reply.tell(f"{len(found)} waiting", blocks=blocks)

    async def _show(self, workspace: Workspace, did: Interaction, name: str, reply: Reply) -> None:
        opened = await reply.open(modals.loading())
        record = await self._named(workspace, did, name)
        view = await self._acts.details(workspace, did, _form(record))
        if opened:
            await reply.show(view)
        else:
            await reply.tell(said(record), blocks=listed(record))

    async def _approve(
        self, workspace: Workspace, did: Interaction, name: str, reply: Reply
    ) -> None:
        record = await self._named(workspace, did, name)
        if record.risk.level is RiskLevel.HIGH:
            raise InvalidRequest(f"this is high risk: open it with {COMMAND} show {name}")
        done = await self._acts.approve(workspace, did, _form(record), sure=False)
        await reply.tell(said(done))

    async def _deny(
        self, workspace: Workspace, did: Interaction, name: str, reason: str, reply: Reply
    ) -> None:
        record = await self._named(workspace, did, name)
        identity, _ = await self._rights.approver(workspace, did.actor, record.id)
        done = await self._desk.decide(
            click(did, _form(record), identity, Action.DENY, message=reason)
        )
        await reply.tell(said(done))

    async def _named(self, workspace: Workspace, did: Interaction, name: str) -> Record:
        """Return the one waiting request, of those the caller may see, whose id begins so."""
        if len(name) < _LEAST_ID:
            raise InvalidRequest(f"give at least {_LEAST_ID} characters of the request's id")
        identity = await self.caller(workspace, did)
        found = [one async for one in self.waiting(identity) if one.id.startswith(name.lower())]
        if len(found) > 1:
            raise InvalidRequest("more than one request begins so; give more of the id")
        if not found:
            raise NotFound("nothing of that id waits for you")
        return found[0]


def listed(record: Record) -> list[Json]:
    """Return a waiting request as a short entry with buttons."""
    card = whole(record)
    title = f"{card.title} · {card.short_id}"
    parts = [words(one_line(title), bold=True), words("\n" + one_line(card.headline.text))]
    row = actions(card, NO_COPY, block_id=f"actions {record.id}")
    row["elements"] = [one for one in row["elements"] if one["action_id"] in _LISTED]
    name = f"about {record.id}"
    return [
        rich(name, [{"type": "rich_text_section", "elements": parts}]),
        context(ours(f"Waits until {moment(card.deadline)}"), plain(f"{card.risk.value} risk")),
        row,
    ]


_LISTED = {Act.APPROVE, Act.APPROVE_SURE, Act.DENY, Act.DETAILS, Act.ANSWER}


def _form(record: Record) -> Form:
    return Form(record.id, record.revision, NO_COPY)
