"""Run the `/approvals` command, with the same checks as buttons; start with SlackCommands."""

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
    context,
    exact,
    join_entries,
    label,
    label_pairs,
    line,
    link,
    moment,
    one_line,
    ours,
    plain,
    quote,
    render_above,
    render_findings,
    render_notices,
    render_risk,
    render_summary,
    rich,
    row,
    say_until,
    words,
)
from adapters.slack.claims import SlackClaims
from adapters.slack.clicks import ButtonActions, describe_what
from adapters.slack.payloads import NO_COPY, Act, Interaction, Json, ModalMetadata
from adapters.slack.posting import PrivateReply
from adapters.slack.users_and_rights import Rights, SlackUse
from adapters.slack.web_api import Workspace
from gateway.cards.card import card_of, choose_above, leads_to_inbox, list_warnings
from gateway.cards.grant_cards import backing_of, uses_of
from gateway.cards.shared_texts import clip
from gateway.chat.answering import Answering, describe_state, read_denial
from gateway.chat.away import AWAY, BACK, change_absence
from gateway.chat.claiming import HERE, ME, WHO, introduce_stranger
from gateway.chat.lists_and_batches import NOTHING_WAITS, Worklist, make_login_link
from gateway.chat.remembering import NOTHING_REMEMBERED, Remembering
from gateway.errors import InvalidRequest, NotFound, Unauthorized
from gateway.models import Action, RiskLevel
from gateway.ports import REQUEST_ID, AdapterApi, Grant, Identity, StoredRequest, render_safe

COMMAND = "/approvals"
BEING_DENIED = "Being denied"
"""The state of a pending request after a stop, until the gateway denies it."""
_MOST_LISTED, _MOST_BLOCKS = 12, 50
_MOST_ASKED = 5
_COVERS_UNITS = 900
_FACT_UNITS = 120
_SESSION = "This revokes all grants of this session. The agent will have to ask again."
_ENTRY_LINES, _ENTRY_CHARS = 5, 300
HELP = (
    "/approvals list: list your pending requests\n"
    "/approvals show ID: show everything about one request\n"
    "/approvals approve ID: approve; with a short id, or after an edit, it shows the request "
    "first\n"
    "/approvals deny ID REASON: deny; the agent gets the reason\n"
    "/approvals grants: list the grants that you can revoke\n"
    "/approvals login: get a link that signs you in to the inbox\n"
    "/approvals revoke ID, or revoke session AGENT NAME, or revoke all\n"
    "/approvals away until Mon 09:00 to NAME: ask NAME instead of you; back: end that\n"
    "/approvals here CODE: send requests to this channel; admins need no code\n"
    "/approvals me CODE: link this account to your name in the policy\n"
    "/approvals who: show your id, this channel's id, and the admins\n"
    "You can shorten ids to their first characters."
)


class SlackCommands:
    """Runs the command."""

    def __init__(
        self,
        api: AdapterApi,
        rights: Rights,
        answering: Answering,
        acts: ButtonActions,
        claims: SlackClaims,
    ) -> None:
        self.claims = claims
        self._api = api
        self._rights = rights
        self._answering = answering
        self._acts = acts
        self._worklist = Worklist(api)
        self._remembering = Remembering(api)

    async def run(self, workspace: Workspace, did: Interaction, reply: PrivateReply) -> None:
        """Run one command, and reply to the caller only. If the caller is not in the policy, a
        refusal also says their id and who the admins are."""
        try:
            await self._run(workspace, did, reply)
        except (NotFound, Unauthorized) as refused:
            told = await self.claims.introduce(workspace, did.actor, str(refused))
            if told == str(refused):
                raise
            raise Unauthorized(told) from refused

    async def _run(self, workspace: Workspace, did: Interaction, reply: PrivateReply) -> None:
        verb, _, rest = did.text.strip().partition(" ")
        rest = rest.strip()
        if verb in (HERE, ME, WHO):
            await self.claims.run(workspace, did, reply, verb, rest)
            return
        if verb in (AWAY, BACK):
            identity = await self._rights.identify_caller(workspace, did.actor)
            zone = did.actor.names.get("zone", "")
            await reply.tell(await change_absence(self._api, identity, verb, rest, zone))
            return
        match verb:
            case "show":
                await self._show(workspace, did, rest, reply)
            case "approve":
                await self._approve(workspace, did, rest, reply)
            case "deny":
                await self._deny(workspace, did, rest, reply)
            case "" | "list" | "grants" | "login" | "revoke":
                identity = await self._rights.identify_caller(workspace, did.actor)
                await self._look_up(verb, identity, rest, reply)
            case _:
                await reply.tell(HELP)

    async def _look_up(self, verb: str, identity: Identity, rest: str, reply: PrivateReply) -> None:
        """Run a command that needs no single request."""
        if verb == "login":
            says, url = await make_login_link(self._api, identity)
            # Keep the link out of the text, because a notification may show it.
            await reply.tell(says, blocks=build_login_reply(says, url))
        elif verb == "revoke":
            await reply.tell(await self._remembering.revoke(identity, rest))
        elif verb == "grants":
            grants = await self._api.grants.newest(revocable_by=identity)
            entries = [build_grant_entry(one) for one in grants[:_MOST_LISTED]]
            said = f"Grants: {len(grants)}" if grants else NOTHING_REMEMBERED
            await reply.tell(said, blocks=build_list(entries, len(grants)) if grants else None)
        else:
            found = [record async for record in self._worklist.list_waiting(identity)]
            entries = [self._build_entry(one) for one in found[:_MOST_LISTED]]
            said = f"{len(found)} pending"
            if not found:
                said = await introduce_stranger(self._api, identity, NOTHING_WAITS)
            await reply.tell(said, blocks=build_list(entries, len(found)) if found else None)

    async def _show(
        self, workspace: Workspace, did: Interaction, name: str, reply: PrivateReply
    ) -> None:
        opened = await reply.open(modals.build_loading())
        use, record = await self._find(workspace, did, name)
        view = await self._acts.build_details(use)
        if opened:
            await reply.show(view)
        else:
            await reply.tell(describe_state(record), blocks=self._build_entry(record))

    async def _approve(
        self, workspace: Workspace, did: Interaction, name: str, reply: PrivateReply
    ) -> None:
        # Agents choose ids, so another request may start with the same characters.
        if not REQUEST_ID.fullmatch(name.lower()):
            await self._show(workspace, did, name, reply)
            return
        use, record = await self._find(workspace, did, name)
        if record.digest != record.request.digest:  # edited since its submission
            await self._show(workspace, did, name, reply)
            return
        if record.risk.level is RiskLevel.HIGH:
            # Raises for anybody else, so that only approvers learn of the high risk.
            await self._answering.check_approver(await self._rights.press(use))
            raise InvalidRequest(f"the request is high risk: open it with {COMMAND} show {name}")
        done = await self._acts.approve(use, sure=False)
        await reply.tell(describe_what(done))

    async def _deny(
        self, workspace: Workspace, did: Interaction, text: str, reply: PrivateReply
    ) -> None:
        name, _, reason = text.partition(" ")
        use, _ = await self._find(workspace, did, name)
        press = await self._rights.press(use)
        said = read_denial(reason=reason)
        await reply.tell(describe_what(await self._answering.decide(press, Action.DENY, **said)))

    async def _find(
        self, workspace: Workspace, did: Interaction, name: str
    ) -> tuple[SlackUse, StoredRequest]:
        """Find a request by its id or the beginning of it, among those the caller may see."""
        identity = await self._rights.identify_caller(workspace, did.actor)
        record = await self._worklist.find(identity, name)
        form = ModalMetadata(record.id, record.revision, NO_COPY)
        return SlackUse(workspace, did, form), record

    def _build_entry(self, record: StoredRequest) -> list[Json]:
        return build_request_entry(record, inbox=self._api.address_of(record.id))


def build_list(entries: Sequence[list[Json]], count: int) -> list[Json]:
    """Build a list with as many entries as fit in a message; its end counts the others."""
    blocks, shown = join_entries(entries, _MOST_BLOCKS - 1)
    return [*blocks, context(plain(f"And {count - shown} more."))] if shown < count else blocks


def build_login_reply(says: str, url: str) -> list[Json]:
    """Build the blocks with the link that signs in to the inbox."""
    return [context(plain(says)), row("login", link("Sign in to the inbox", Act.OPEN, url))]


def build_request_entry(
    record: StoredRequest, *, stopped: bool = False, inbox: str = ""
) -> list[Json]:
    """Build a short entry of a pending request with its buttons. While everything is `stopped`, it
    has no buttons. `inbox` is its address there, for actions that Slack cannot offer."""
    card = card_of(record, lines=_ENTRY_LINES, chars=_ENTRY_CHARS)
    card = replace(card, inbox=inbox if leads_to_inbox(card) else "")
    facts = [(fact.label, clip(one_line(fact.text.text), _FACT_UNITS)) for fact in card.facts]
    parts: list[Json] = []
    if card.complete and card.blocks:
        for block in card.blocks:
            parts += [label(block.label), exact(block.text.text)]
    elif card.fields:
        asked = card.unsaid[:_MOST_ASKED]
        parts += [quote(clip(field.text.text, _FACT_UNITS)) for field in asked]
    else:
        parts.append(quote(card.headline.text))
    notices = [] if stopped else list_warnings(card)
    if not card.complete:
        press = f': press "{READ_ALL}"' if not (stopped or card.hides) else ""
        notices.append(f"The request is not shown in full{press}.")
    parts.append(label_pairs(facts))
    actions = build_actions(card, NO_COPY, block_id=f"actions {record.id}")
    said = " · ".join(one_line(one) for one in (card.short_id, card.progress, card.claimed) if one)
    waits = ours(f"{say_until(card)} ·")
    stands = context(plain(f"{BEING_DENIED} · {said}")) if stopped else context(waits, plain(said))
    above, budget = choose_above(card), TextBudget(CONTEXT_UNITS)
    return [
        {**render_summary(card, budget), "block_id": f"summary {record.id}"},
        *render_above(card, above, budget),
        rich(f"about {record.id}", parts),
        *render_risk(card, above, budget),
        *render_findings(card, above, budget),
        *render_notices(notices),
        stands,
        *([] if stopped else [actions]),
    ]


def build_grant_entry(grant: Grant) -> list[Json]:
    """Build a short entry of a grant, with a button that revokes it."""
    where = f"session {grant.session}" if grant.session else "in all sessions of the agent"
    state = "Suspended: " if grant.suspended or grant.outdated else ""
    lead = f"{state}{grant.effect.value.title()} for {grant.agent}, {where}: "
    covers = clip(one_line(render_safe(grant.words).text), _COVERS_UNITS)
    said = [words(lead, bold=True), words(covers)]
    ends = f"Until {moment(grant.expires_at)}" if grant.expires_at else "Until revoked"
    confirm = ("The agent will have to ask again.", "Revoke")
    take_back = button("Revoke", Act.REVOKE, grant.id, style="danger", confirm=confirm)
    told = (uses_of(grant), f"remembered {backing_of(grant)}", grant.id[:8])
    return [
        rich(f"grant {grant.id}", [line(*said)]),
        context(ours(f"{ends} ·"), plain(" · ".join(told))),
        row(f"revoke {grant.id}", take_back, *_build_revoke_session(grant)),
    ]


def _build_revoke_session(grant: Grant) -> list[Json]:
    """Build the button that revokes all grants of this grant's session, if it has one."""
    if grant.session is None:
        return []
    value = f"{grant.agent} {grant.session}"
    return [
        button(
            "Revoke all of this session", Act.REVOKE_SESSION, value, confirm=(_SESSION, "Revoke")
        )
    ]
