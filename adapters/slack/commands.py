"""The `/approvals` command. It makes the same checks as buttons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adapters.slack import modals
from adapters.slack.cards import (
    CONTEXT_UNITS,
    READ_ALL,
    TextBudget,
    build_actions,
    button,
    choose_above,
    context,
    exact,
    fit,
    join_entries,
    label,
    label_pairs,
    line,
    link,
    list_notices,
    moment,
    one_line,
    ours,
    plain,
    quote,
    render_above,
    render_findings,
    render_head,
    render_notices,
    render_risk,
    rich,
    row,
    say_until,
    words,
)
from adapters.slack.clicks import ButtonActions, build_click, describe_state, describe_what
from adapters.slack.grants import AdminActions, build_revoke_session
from adapters.slack.payloads import NO_COPY, Act, Interaction, Json, ModalMetadata
from adapters.slack.posting import PrivateReply
from adapters.slack.users_and_rights import Rights
from adapters.slack.web_api import Workspace
from gateway.cards.card import card_of, leads_to_inbox
from gateway.cards.grant_cards import backing_of, uses_of
from gateway.errors import InvalidRequest
from gateway.models import Action, RiskLevel
from gateway.ports import REQUEST_ID, Desk, Grant, Record, Worklist, render_safe

COMMAND = "/approvals"
BEING_DENIED = "Being denied"
"""How a request stands that waited when everything was stopped, until it is denied."""
_MOST_LISTED, _MOST_BLOCKS = 12, 50
_MOST_ASKED = 5
_COVERS_UNITS = 900
_FACT_UNITS = 120
_ENTRY_LINES, _ENTRY_CHARS = 5, 300
HELP = (
    "/approvals list: what waits for you\n"
    "/approvals show ID: everything about one request\n"
    "/approvals approve ID: at once by a whole id that nobody edited; otherwise it is shown first\n"
    "/approvals deny ID reason\n"
    "/approvals grants: remembered decisions that you may revoke\n"
    "/approvals login: a link that signs you in to the inbox\n"
    "/approvals revoke ID, or revoke session AGENT NAME, or revoke all\n"
    "IDs may be shortened to their first characters."
)


class SlackCommands:
    """Runs the command."""

    def __init__(
        self,
        desk: Desk,
        worklist: Worklist,
        rights: Rights,
        acts: ButtonActions,
        operating: AdminActions,
    ) -> None:
        self._desk = desk
        self._worklist = worklist
        self._rights = rights
        self._acts = acts
        self._operating = operating

    async def run(self, workspace: Workspace, did: Interaction, reply: PrivateReply) -> None:
        """Run one command, and reply to the caller only."""
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
            await self._list_grants(workspace, did, reply)
        elif verb == "login":
            await self._make_login_link(workspace, did, reply)
        elif verb == "revoke":
            identity = await self._rights.identify_caller(workspace, did.actor)
            await reply.tell(await self._operating.revoke(identity, rest.strip()))
        else:
            await reply.tell(HELP)

    async def _make_login_link(
        self, workspace: Workspace, did: Interaction, reply: PrivateReply
    ) -> None:
        """Reply with a button that only the caller sees; the text, which a notification may show,
        names no link."""
        identity = await self._rights.identify_caller(workspace, did.actor)
        made = await self._desk.links.make(identity)
        says = (
            f"This signs you in to the inbox as {made.name}: once, within {made.minutes} minutes."
        )
        await reply.tell(says, blocks=build_login_reply(says, made.url))

    async def _list_grants(
        self, workspace: Workspace, did: Interaction, reply: PrivateReply
    ) -> None:
        identity = await self._rights.identify_caller(workspace, did.actor)
        found = await self._worklist.grants(identity)
        if not found:
            await reply.tell("There are no remembered decisions that you may revoke.")
            return
        blocks = build_list([build_grant_entry(one) for one in found[:_MOST_LISTED]], len(found))
        await reply.tell(f"{len(found)} remembered", blocks=blocks)

    async def _list(self, workspace: Workspace, did: Interaction, reply: PrivateReply) -> None:
        identity = await self._rights.identify_caller(workspace, did.actor)
        found = [record async for record in self._worklist.list_waiting(identity)]
        if not found:
            await reply.tell("Nothing waits for you.")
            return
        entries = [
            build_request_entry(one, inbox=self._desk.address_of(one.id))
            for one in found[:_MOST_LISTED]
        ]
        blocks = build_list(entries, len(found))
        await reply.tell(f"{len(found)} waiting", blocks=blocks)

    async def _show(
        self, workspace: Workspace, did: Interaction, name: str, reply: PrivateReply
    ) -> None:
        opened = await reply.open(modals.build_loading())
        record = await self._find_request(workspace, did, name)
        view = await self._acts.build_details(workspace, did, _build_metadata(record))
        if opened:
            await reply.show(view)
        else:
            entry = build_request_entry(record, inbox=self._desk.address_of(record.id))
            await reply.tell(describe_state(record), blocks=entry)

    async def _approve(
        self, workspace: Workspace, did: Interaction, name: str, reply: PrivateReply
    ) -> None:
        # Agents choose ids: another request may begin with the same characters.
        if not REQUEST_ID.fullmatch(name.lower()):
            await self._show(workspace, did, name, reply)
            return
        record = await self._find_request(workspace, did, name)
        if record.digest != record.request.digest:  # edited since it was asked
            await self._show(workspace, did, name, reply)
            return
        if record.risk.level is RiskLevel.HIGH:
            await self._rights.check_approver(
                workspace, did.actor, record.id
            )  # others learn nothing
            raise InvalidRequest(f"this is high risk: open it with {COMMAND} show {name}")
        done = await self._acts.approve(workspace, did, _build_metadata(record), sure=False)
        await reply.tell(describe_what(done))

    async def _deny(
        self, workspace: Workspace, did: Interaction, name: str, reason: str, reply: PrivateReply
    ) -> None:
        record = await self._find_request(workspace, did, name)
        identity, _ = await self._rights.identify(workspace, did.actor, record.id)
        done = await self._desk.requests.decide(
            build_click(did, _build_metadata(record), identity, Action.DENY, message=reason),
            groups=self._rights.build_group_query(workspace, identity),
        )
        await reply.tell(describe_what(done))

    async def _find_request(self, workspace: Workspace, did: Interaction, name: str) -> Record:
        """Return the request of an id or its beginning, among those the caller may see."""
        return await self._worklist.find(
            await self._rights.identify_caller(workspace, did.actor), name
        )


def build_list(entries: Sequence[list[Json]], count: int) -> list[Json]:
    """Return the blocks of a list, as far as a message has room, and how many more there are."""
    blocks, shown = join_entries(entries, _MOST_BLOCKS - 1)
    return [*blocks, context(plain(f"And {count - shown} more."))] if shown < count else blocks


def build_login_reply(says: str, url: str) -> list[Json]:
    """Return the blocks of a link that signs in."""
    return [context(plain(says)), row("login", link("Sign in to the inbox", Act.OPEN, url))]


def build_request_entry(record: Record, *, stopped: bool = False, inbox: str = "") -> list[Json]:
    """Return a pending request as a short entry with its buttons. While everything is `stopped` it
    is being denied, and has none. `inbox` is where it is answered if Slack cannot."""
    card = card_of(record, lines=_ENTRY_LINES, chars=_ENTRY_CHARS)
    card = replace(card, inbox=inbox if leads_to_inbox(card) else "")
    facts = [(fact.label, fit(one_line(fact.text.text), _FACT_UNITS)) for fact in card.facts]
    parts: list[Json] = []
    if card.complete and card.blocks:
        for block in card.blocks:
            parts += [label(block.label), exact(block.text.text)]
    elif card.fields:
        asked = card.unsaid[:_MOST_ASKED]
        parts += [quote(fit(field.text.text, _FACT_UNITS)) for field in asked]
    else:
        parts.append(quote(card.headline.text))
    notices = [] if stopped else list_notices(card)
    if not card.complete:
        press = f': press "{READ_ALL}"' if not (stopped or card.hides) else ""
        notices.append(f"Not all of it is shown{press}.")
    parts.append(label_pairs(facts))
    actions = build_actions(card, NO_COPY, block_id=f"actions {record.id}")
    said = " · ".join(one_line(one) for one in (card.short_id, card.progress, card.claimed) if one)
    waits = ours(f"{say_until(card, 'until')} ·")
    stands = context(plain(f"{BEING_DENIED} · {said}")) if stopped else context(waits, plain(said))
    above, budget = choose_above(card), TextBudget(CONTEXT_UNITS)
    return [
        {**render_head(card, budget), "block_id": f"head {record.id}"},
        *render_above(card, above, budget),
        rich(f"about {record.id}", parts),
        *render_risk(card, above, budget),
        *render_findings(card, above, budget),
        *render_notices(notices),
        stands,
        *([] if stopped else [actions]),
    ]


def build_grant_entry(grant: Grant) -> list[Json]:
    """Return a grant as a short entry with a button that revokes it."""
    where = f"session {grant.session}" if grant.session else "in all its sessions"
    state = "Suspended: " if grant.suspended or grant.rests else ""
    lead = f"{state}{grant.effect.value.title()} for {grant.agent}, {where}: "
    covers = fit(one_line(render_safe(grant.words).text), _COVERS_UNITS)
    said = [words(lead, bold=True), words(covers)]
    ends = f"Until {moment(grant.expires_at)}" if grant.expires_at else "Until revoked"
    confirm = ("From then on it is asked about again.", "Revoke")
    take_back = button("Revoke", Act.REVOKE, grant.id, style="danger", confirm=confirm)
    told = (uses_of(grant), f"remembered {backing_of(grant)}", grant.id[:8])
    return [
        rich(f"grant {grant.id}", [line(*said)]),
        context(ours(f"{ends} ·"), plain(" · ".join(told))),
        row(f"revoke {grant.id}", take_back, *build_revoke_session(grant)),
    ]


def _build_metadata(record: Record) -> ModalMetadata:
    return ModalMetadata(record.id, record.revision, NO_COPY)
