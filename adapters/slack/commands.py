"""The `/approvals` command: the same checks as the buttons, and only what the caller may see."""

from __future__ import annotations

from adapters.slack import modals
from adapters.slack.actions import Acts, click, said
from adapters.slack.admin_actions import Operating, session_of
from adapters.slack.card_blocks import Act, actions, found
from adapters.slack.interactions import Interaction
from adapters.slack.payloads import NO_COPY, Form
from adapters.slack.permissions import Rights
from adapters.slack.private_replies import Reply
from adapters.slack.text_objects import (
    CONTEXT_UNITS,
    Budget,
    Json,
    button,
    context,
    exact,
    fitted,
    label,
    line,
    moment,
    one_line,
    ours,
    plain,
    quote,
    rich,
    row,
    words,
)
from adapters.slack.workspaces import Workspace
from gateway.errors import InvalidRequest
from gateway.models import Action, RiskLevel
from gateway.ports import REQUEST_ID, Desk, Grant, Record, Worklist, card_of, make_visible

COMMAND = "/approvals"
_MOST_LISTED = 12
_ENTRY_LINES, _ENTRY_CHARS = 5, 300
HELP = (
    "/approvals list: what waits for you\n"
    "/approvals show ID: everything about one request\n"
    "/approvals approve ID: at once by a whole id that nobody edited; otherwise it is shown first\n"
    "/approvals deny ID reason\n"
    "/approvals grants: what is remembered that you may take back\n"
    "/approvals revoke ID, or revoke session AGENT NAME, or revoke all\n"
    "IDs may be shortened to their first characters."
)


class Commands:
    """Answers the command."""

    def __init__(
        self, desk: Desk, worklist: Worklist, rights: Rights, acts: Acts, operating: Operating
    ) -> None:
        self._desk = desk
        self._worklist = worklist
        self._rights = rights
        self._acts = acts
        self._operating = operating

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
        elif verb == "grants":
            await self._grants(workspace, did, reply)
        elif verb == "revoke":
            identity = await self._rights.caller(workspace, did.actor)
            await reply.tell(await self._operating.revoke(identity, rest.strip()))
        else:
            await reply.tell(HELP)

    async def _grants(self, workspace: Workspace, did: Interaction, reply: Reply) -> None:
        identity = await self._rights.caller(workspace, did.actor)
        found = await self._worklist.grants(identity)
        if not found:
            await reply.tell("Nothing is remembered that you may take back.")
            return
        blocks = [block for grant in found[:_MOST_LISTED] for block in remembered(grant)]
        await reply.tell(f"{len(found)} remembered", blocks=blocks)

    async def _list(self, workspace: Workspace, did: Interaction, reply: Reply) -> None:
        identity = await self._rights.caller(workspace, did.actor)
        found = [record async for record in self._worklist.list_waiting(identity)]
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
        # Agents choose their ids, and may ask for something else under the same beginning.
        if not REQUEST_ID.fullmatch(name.lower()):
            await self._show(workspace, did, name, reply)
            return
        record = await self._named(workspace, did, name)
        if record.digest != record.request.digest:  # an id stays with what was asked under it
            await self._show(workspace, did, name, reply)
            return
        if record.risk.level is RiskLevel.HIGH:
            await self._rights.approver(workspace, did.actor, record.id)  # others learn nothing
            raise InvalidRequest(f"this is high risk: open it with {COMMAND} show {name}")
        done = await self._acts.approve(workspace, did, _form(record), sure=False)
        await reply.tell(said(done))

    async def _deny(
        self, workspace: Workspace, did: Interaction, name: str, reason: str, reply: Reply
    ) -> None:
        record = await self._named(workspace, did, name)
        identity, _ = await self._rights.known(workspace, did.actor, record.id)
        done = await self._desk.requests.decide(
            click(did, _form(record), identity, Action.DENY, message=reason),
            groups=self._rights.groups(workspace, identity),
        )
        await reply.tell(said(done))

    async def _named(self, workspace: Workspace, did: Interaction, name: str) -> Record:
        """Return the one waiting request, of those the caller may see, whose id begins so."""
        return await self._worklist.find(await self._rights.caller(workspace, did.actor), name)


def listed(record: Record) -> list[Json]:
    """Return a waiting request as a short entry with buttons; approving needs that all is shown."""
    card = card_of(record, lines=_ENTRY_LINES, chars=_ENTRY_CHARS)
    title = words(one_line(f"{card.title} · {card.short_id}"), bold=True)
    parts = [line(title, words(f"\nfor {record.request.agent}"))]
    if card.complete and card.blocks:
        for block in card.blocks:
            parts += [label(one_line(block.label))] if len(card.blocks) > 1 else []
            parts.append(exact(block.text.text))
    else:
        parts.append(quote(card.headline.text))
    notices = list(card.notices)
    if not card.complete:
        notices.append("Not all of it is shown: read it under Details.")
    buttons = actions(card, NO_COPY, _LISTED, block_id=f"actions {record.id}")
    told = [plain(f"{card.risk.value} risk"), *(plain(f"⚠️ {one}") for one in notices[:8])]
    return [
        rich(f"about {record.id}", parts),
        *found(card, Budget(CONTEXT_UNITS)),
        context(ours(f"Waits until {moment(card.deadline)}"), *told),
        buttons,
    ]


def remembered(grant: Grant) -> list[Json]:
    """Return a remembered decision in words, with a button that takes it back."""
    where = f"session {grant.session}" if grant.session else "everywhere"
    lead = f"{grant.effect.value.title()} for {grant.agent}, {where}: "
    said = [words(lead, bold=True), words(fitted(one_line(make_visible(grant.words).text), 600))]
    ends = f"Until {moment(grant.expires_at)}" if grant.expires_at else "Until revoked"
    confirm = ("From then on it is asked about again.", "Revoke")
    take_back = button("Revoke", Act.REVOKE, grant.id, style="danger", confirm=confirm)
    return [
        rich(f"grant {grant.id}", [line(*said)]),
        context(ours(ends), plain(f"by {grant.made_by} · {grant.id[:8]}")),
        row(f"revoke {grant.id}", take_back, *session_of(grant)),
    ]


_LISTED = {Act.APPROVE, Act.APPROVE_SURE, Act.DENY, Act.DETAILS, Act.ANSWER}


def _form(record: Record) -> Form:
    return Form(record.id, record.revision, NO_COPY)
