"""Show grants in Discord: their cards, the dialog that creates one, and lists to revoke them; start
with RememberDialog."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import discord
from discord import ui

from adapters.discord.cards import (
    MessageContent,
    build_outcome_view,
    build_text_view,
    escape_line,
    escape_with_mentions,
    keep_whole_lines,
)
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.edits import build_text_field, read_values
from adapters.discord.interactions import DiscordTap, InteractionReply, build_private_reply
from adapters.discord.posting import Posting
from gateway.cards.grant_cards import GrantCard, backing_of, people_of, uses_of
from gateway.cards.remember_options import (
    LIFETIME_WORDS,
    PASS_LIFETIME_WORDS,
    RememberOption,
    remember_as,
    scopes_of,
)
from gateway.cards.shared_texts import LIFT, KillSwitch, clip
from gateway.chat.answering import REASON, Answering
from gateway.chat.lists_and_batches import ALLOW_AGAIN
from gateway.chat.lists_and_batches import STOP as STOP_ALL
from gateway.chat.remembering import (
    ALL,
    EVERYWHERE,
    NEXT_TIME,
    NOT_AGAIN,
    NOTHING_REMEMBERED,
    NOTHING_TO_REMEMBER,
    OF_SESSION,
    SESSION,
    Remembering,
)
from gateway.errors import Conflict, InvalidRequest
from gateway.models import Action
from gateway.ports import (
    AdapterApi,
    Grant,
    Identity,
    JsonObject,
    MessageRef,
    Notice,
    Priority,
    Remember,
    StoredRequest,
    render_safe,
)

REVOKE, STOP, ALLOW, DECLINE = "revoke", "stop", "allow", "decline"
SWITCHES = (STOP, ALLOW)
NO_REQUEST = "0" * 32  # the kill switch belongs to no request
_LIVE, _ENDED = 0x5865F2, 0x8B949E
_NONCE = 22


class DiscordGrantPosting:
    """Posts and edits grant cards. Raises only errors that `gateway.ports.outgoing` defines."""

    def __init__(self, posting: Posting) -> None:
        self._posting = posting

    async def deliver(self, target: str, card: GrantCard, nonce: str) -> MessageRef:
        """Post a card. Idempotent: the same nonce within minutes posts nothing new."""
        return await self._posting.post(
            target, lambda silent: _build_view(card, nonce, silent), nonce
        )

    async def update(self, ref: MessageRef, card: GrantCard, nonce: str) -> None:
        """Edit a posted card."""
        rank = (Priority.ENDED if card.ended else Priority.OTHER).rank(card.ended_at or 0)
        await self._posting.edit(
            ref, lambda silent: _build_view(card, nonce, silent), nonce, rank=rank
        )

    async def announce(self, notice: Notice, card: GrantCard) -> None:
        """Reply to the card with its news, because edits notify nobody."""
        if notice.ref is None:
            return
        said = hashlib.sha256(f"{notice.nonce} {card.revision}".encode()).hexdigest()[:_NONCE]
        news = card.outcome or " ".join(card.notices)
        title = f"⏰ {card.icon} **{card.word}** · {escape_line(card.tool.text, 250)}"
        text = f"{title}: {escape_with_mentions(news, 600, card.people)}"
        await self._posting.answer(notice.target, notice.ref, text, said)


def build_grant_view(card: GrantCard, copy: str) -> MessageContent:
    """Build the message of a grant card; `copy` is the nonce of the posted card."""
    return _build_view(card, copy, False)


def _build_view(card: GrantCard, copy: str, silent: bool) -> MessageContent:
    facts = " · ".join(f"**{one.label}** {escape_line(one.text.text, 160)}" for one in card.facts)
    ends = f"until <t:{card.until // 1000}:f>" if card.until else "until revoked"
    head = [f"### {card.icon} {card.word} · {escape_line(card.tool.text, 120)}"]
    if card.outcome:
        at = f", <t:{card.ended_at // 1000}:f>" if card.ended_at else ""
        said = card.outcome[:1].upper() + card.outcome[1:]
        head.append(f"{escape_with_mentions(said, 300, card.people)}{at}")
    covers = [] if silent else [f"**What it covers**\n> {escape_line(card.words.text, 900)}"]
    if card.asked is not None and not silent:
        covers.append(f"**Made from**\n> {escape_line(card.asked.text, 500)}")
    notices = [f"⚠️ {escape_line(notice, 300)}" for notice in card.notices]
    reach = [f"-# {escape_line(card.reach, 300)}"] if card.reach else []
    foot = f"-# {'over' if card.ended else ends} · {card.uses} · `{card.short_id}`"
    container: ui.Container[Any] = ui.Container(accent_colour=_ENDED if card.ended else _LIVE)
    for text in (*head, facts, *covers, *notices, *reach, foot):
        container.add_item(ui.TextDisplay(text))
    if card.confirm:
        press = DiscordButton(
            verb=REVOKE, request_id=card.grant_id, revision=card.revision, copy=copy
        ).custom_id
        style = discord.ButtonStyle.danger
        container.add_item(ui.ActionRow(ui.Button(label="Revoke", style=style, custom_id=press)))
    view = ui.LayoutView(timeout=None)
    view.add_item(container)
    view.stop()
    return MessageContent(view)


def build_switch_view(switch: KillSwitch) -> MessageContent:
    """Build a message with the state of the kill switch and a button to change it."""
    on = switch.on
    verb, label = (ALLOW, ALLOW_AGAIN) if on else (STOP, STOP_ALL)
    style = discord.ButtonStyle.secondary if on else discord.ButtonStyle.danger
    said = (
        f"🛑 {escape_line(switch.state, 300)}\n*{ALLOW_AGAIN}*: {LIFT}"
        if on
        else f"**The kill switch is off**. *{STOP_ALL}*: {switch.stopping}"
    )
    press = DiscordButton(verb=verb, request_id=NO_REQUEST, revision=0).custom_id
    view = ui.LayoutView(timeout=None)
    view.add_item(ui.TextDisplay(said))
    view.add_item(ui.ActionRow(ui.Button(label=label, style=style, custom_id=press)))
    view.stop()
    return MessageContent(view)


KEEP = "keep"
_SCOPE, _WHERE, _LIFE = "scope", "where", "life"
_CHOICE = 100  # Discord's limit for a command's choice, in characters
_OFFERED = 8  # each is compared with the history, and must be readable on a phone
_LISTED = 20
_COVERS = 900  # characters of what a grant covers
_REACH = 200
_DIALOG = 3900
_LIST_UNITS = 3800
_LABEL = 60
_PASS = "pass"
_CHOSEN = "+"
_VERBS = {
    Action.APPROVE.value: ("Approve and remember", discord.ButtonStyle.success),
    _PASS: ("Approve and give a pass", discord.ButtonStyle.success),
    Action.DENY.value: ("Deny and remember", discord.ButtonStyle.danger),
}
_DENIALS = "-# Press Deny and remember to see its scopes."


class RememberDialog:
    """Creates grants with the dialog behind "Remember…", lists them and revokes them."""

    def __init__(self, api: AdapterApi, answering: Answering) -> None:
        self._api = api
        self._remembering = Remembering(api)
        self._answering = answering

    async def show_options(self, tap: DiscordTap) -> InteractionReply:
        """Show the offered scopes, each with its matches in history."""
        record = await self._answering.check_approver(tap.press)
        offered = await self._list_scopes(tap, record, Action.APPROVE)
        ways = list_ways(offered, denies=bool(scopes_of(record, Action.DENY)))
        if not ways:
            raise Conflict(NOTHING_TO_REMEMBER)
        reach = await self._remembering.find_reach(record, offered)
        usual = await self._remembering.find_usual(record, reach)
        return InteractionReply(build_options_view(offered, reach, ways, tap.named, usual))

    async def build_modal(self, tap: DiscordTap, record: StoredRequest) -> ui.Modal:
        """Build the modal that asks for scope, place and lifetime. Raises Conflict if no scope is
        offered."""
        button = tap.button
        scopes = await self._list_scopes(tap, record, read_way(button))
        modal = build_remember_modal(button.more, scopes, record.request.session, button)
        if modal is None:
            raise Conflict(NOTHING_TO_REMEMBER)
        return modal

    async def _list_scopes(
        self, tap: DiscordTap, record: StoredRequest, action: Action
    ) -> list[RememberOption]:
        options = self._remembering.list_options(tap.identity, record, action, _OFFERED)
        return _take_readable(await options)

    def read_answer(self, tap: DiscordTap) -> tuple[Action, JsonObject]:
        """Return the action and the content of a submitted modal."""
        data = tap.interaction.data
        said = str(read_values(data).get(REASON) or "")
        return read_way(tap.button), {"message": said, "remember": read_remember(data)}

    async def build_outcome(self, record: StoredRequest) -> MessageContent:
        """Build the outcome, with a button that revokes the new grant."""
        shown = build_outcome_view(await self._answering.build_posted(record))
        made = await self._remembering.find_made(record)
        if made is None:
            return shown
        back = DiscordButton(verb=REVOKE, request_id=made.id, revision=0)
        text = (
            f"🧠 Remembered: {_render_words(made.words, _COVERS)}. You can revoke it at any time."
        )
        shown.view.add_item(ui.TextDisplay(text))
        button: ui.Button[Any] = ui.Button(label="Revoke", custom_id=back.custom_id)
        shown.view.add_item(ui.ActionRow(button))
        return shown

    async def suggest(self, tap: DiscordTap, record: StoredRequest) -> MessageContent | None:
        """Return a private suggestion to remember, if this person keeps approving such requests."""
        found = await self._remembering.suggest(tap.identity, record) if record.final else None
        if found is None:
            return None
        shown = build_text_view(f"💡 {escape_line(f'{found.text} {NEXT_TIME}', _LIST_UNITS)}")
        no = DiscordButton(verb=DECLINE, request_id=record.id, revision=0, more=found.offer)
        button: ui.Button[Any] = ui.Button(label=NOT_AGAIN, custom_id=no.custom_id)
        shown.view.add_item(ui.ActionRow(button))
        return shown

    async def decline(self, tap: DiscordTap) -> InteractionReply:
        """Record that the person does not want this suggestion again."""
        button = tap.button
        told = await self._remembering.decline(tap.identity, button.request_id, button.more)
        return replace(build_private_reply(told), replaces=True)

    async def revoke(
        self, identity: Identity, what: str, *, copy: str = "", ref: MessageRef | None = None
    ) -> InteractionReply:
        """Revoke one grant by the beginning of its id, `all` grants, or those of a session."""
        told = await self._remembering.revoke(identity, what, copy=copy, ref=ref)
        return build_private_reply(f"↩️ {escape_line(told, _COVERS)}")

    async def list_grants(self, identity: Identity) -> InteractionReply:
        """List the grants that the person may revoke."""
        grants = await self._api.grants.newest(revocable_by=identity)
        if not grants:
            return build_private_reply(NOTHING_REMEMBERED)
        return InteractionReply(build_grants_view(grants))

    async def find_choices(self, identity: Identity) -> list[tuple[str, str]]:
        """Return value and label of each choice of `/revoke`: a grant, all, or a session's."""
        grants = await self._api.grants.newest(revocable_by=identity)
        found = [
            (one.id, f"{one.id[:8]} · {one.effect} · {one.agent} · {render_safe(one.words).text}")
            for one in grants
        ]
        found += [(ALL, "all grants that you can revoke")] if grants else []
        sessions = dict.fromkeys((one.agent, one.session) for one in grants if one.session)
        found += [
            (f"{OF_SESSION} {agent} {name}", f"all grants of session {name} of {agent}")
            for agent, name in sessions
            if len(f"{OF_SESSION} {agent} {name}") <= _CHOICE
        ]
        return [(value, clip(words, _CHOICE)) for value, words in found]


def read_way(button: DiscordButton) -> Action:
    """Return the action of a dialog's button. Raises InvalidRequest if it is unknown."""
    way, _, _ = button.more.partition(_CHOSEN)
    if way not in _VERBS:
        raise InvalidRequest("this menu is out of date; press Remember… on the card again")
    return Action.APPROVE if way == _PASS else Action(way)


def list_ways(offered: Sequence[RememberOption], *, denies: bool) -> list[str]:
    """Return the buttons of the dialog: approve and remember, give a pass, deny and remember. Each
    is returned only if a scope is offered for it."""
    approves = any(not one.session_pass for one in offered)
    there = (approves, any(one.session_pass for one in offered), denies)
    return [way for way, may in zip(_VERBS, there, strict=True) if may]


def build_options_view(
    offered: Sequence[RememberOption],
    reach: Mapping[str, str],
    ways: Sequence[str],
    button: DiscordButton,
    usual: str = "",
) -> MessageContent:
    """Build the list of offered scopes, each with its matches in history (`reach`), and a button
    for each of `ways`. Approve and remember preselects the `usual` scope, an id."""
    numbers = {one.id: f"{_CHOSEN}{at}" for at, one in enumerate(offered, 1)}
    lines = ["### 🧠 What should the gateway remember?"]
    for number, scope in enumerate(offered, 1):
        lines.append(f"**{number}.** {escape_line(scope.words.text, _COVERS)}")
        if reach[scope.id]:
            lines.append(f"-# {escape_line(reach[scope.id], _REACH)}")
    if offered and Action.DENY.value in ways:
        lines.append(_DENIALS)
    row: ui.ActionRow[Any] = ui.ActionRow()
    for way in ways:
        label, style = _VERBS[way]
        chosen = numbers.get(usual, "") if way == Action.APPROVE.value else ""
        wanted = button.with_verb(KEEP, more=f"{way}{chosen}")
        row.add_item(ui.Button(label=f"{label}…", style=style, custom_id=wanted.custom_id))
    view = ui.LayoutView(timeout=None)
    view.add_item(ui.TextDisplay("\n".join(lines)[:_DIALOG])).add_item(row)
    view.stop()
    return MessageContent(view)


def build_remember_modal(
    more: str, scopes: Sequence[RememberOption], session: str, button: DiscordButton
) -> ui.Modal | None:
    """Build the modal that asks for scope, place and lifetime, or return None without scopes.

    A pass has no place, because it applies to its session, and other lifetimes. Scopes keep the
    numbers of the message before. That message lists no scopes of a denial, so the modal does.
    """
    way, _, chosen = more.partition(_CHOSEN)
    passes, denies = way == _PASS, way == Action.DENY.value
    numbered = [one for one in enumerate(scopes, 1) if one[1].session_pass is passes]
    if not numbered:
        return None
    modal = ui.Modal(title=_VERBS[way][0], custom_id=button.custom_id)
    if denies:
        lines = (f"**{at}.** {escape_line(one.words.text, _COVERS)}" for at, one in numbered)
        modal.add_item(ui.TextDisplay("\n".join(lines)[:_DIALOG]))
    options = [(one.id, *_label_scope(at, one.words.text)) for at, one in numbered]
    first = next((at for at, one in enumerate(numbered) if str(one[0]) == chosen), 0)
    modal.add_item(_build_menu("What", _SCOPE, options, first))
    if not passes:
        here = clip(f"only in the session {session}", 100)
        places = [(SESSION, here, ""), (EVERYWHERE, "in all sessions of this agent", "")]
        modal.add_item(_build_menu("Where", _WHERE, places))
    lives = PASS_LIFETIME_WORDS if passes else LIFETIME_WORDS
    modal.add_item(_build_menu("How long", _LIFE, [(*one, "") for one in lives.items()]))
    if denies:
        modal.add_item(build_text_field("Reason", REASON, "The agent sees this. Optional."))
    modal.stop()
    return modal


def build_grants_view(grants: Sequence[Grant]) -> MessageContent:
    """Build a list of grants, newest first, as many as fit."""
    lines = ["### 🧠 Grants"]
    for grant in grants[:_LISTED]:
        ends = f"until <t:{grant.expires_at // 1000}:f>" if grant.expires_at else "until revoked"
        where = f"session {grant.session}" if grant.session else "all sessions"
        state = "suspended: " if grant.suspended or grant.outdated else ""
        lines.append(
            f"- `{grant.id[:8]}` **{state}{grant.effect}** {_render_words(grant.words, _COVERS)}\n"
            f"-# {escape_line(f'{grant.agent}, {where}', 120)} · {ends} · {uses_of(grant)} · "
            f"{escape_with_mentions(backing_of(grant), 160, people_of(grant))}"
        )
    kept = keep_whole_lines(lines, _LIST_UNITS)
    more = len(grants) + 1 - len(kept)
    rest = f" {more} older ones are in the inbox." if more else ""
    return build_text_view("\n".join([*kept, f"Revoke one with `/revoke`.{rest}"]))


def read_remember(data: Any) -> Remember:
    """Return the scope, lifetime and place that a submitted modal chooses."""
    given = read_values(data)
    return remember_as(
        _read_choice(given, _SCOPE),
        _read_choice(given, _LIFE),
        everywhere=_read_choice(given, _WHERE) == EVERYWHERE,
    )


def _take_readable(scopes: list[RememberOption]) -> list[RememberOption]:
    """Return the first scopes, as many as the dialog can show in full."""
    kept: list[RememberOption] = []
    room = _DIALOG - _REACH
    for scope in scopes:
        room -= len(escape_line(scope.words.text, _COVERS)) + _REACH + 20
        if room < 0:
            break
        kept.append(scope)
    return kept


def _render_words(text: str, budget: int) -> str:
    """Return a grant's scope, escaped because it contains names from the agent's arguments."""
    return escape_line(render_safe(text).text, budget)


def _read_choice(given: dict[str, Any], name: str) -> str:
    return str((given.get(name) or [""])[0])


def _label_scope(number: int, words: str) -> tuple[str, str]:
    """Split the text of a scope at its first colon or comma; return a short label and the rest."""
    pause = min((at for sign in (": ", ", ") if 0 < (at := words.find(sign)) <= _LABEL), default=0)
    if pause:
        return f"{number}. {words[:pause]}…", clip(words[pause + 2 :], _CHOICE)
    return f"{number}. {clip(words, _LABEL)}", clip(words, _CHOICE) if len(words) > _LABEL else ""


def _build_menu(
    label: str, name: str, options: list[tuple[str, str, str]], first: int = 0
) -> ui.Label[Any]:
    """Build a menu from values, labels and descriptions; `first` is the index of the default."""
    menu: ui.Select[Any] = ui.Select(
        custom_id=name,
        options=[
            discord.SelectOption(
                label=words, value=value, description=more or None, default=at == first
            )
            for at, (value, words, more) in enumerate(options)
        ],
    )
    return ui.Label(text=label, component=menu)
