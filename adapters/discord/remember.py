"""Remembered decisions: what would be covered is read first, then chosen, and can be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import discord
from discord import ui

from adapters.discord.card_views import Shown, outcome_view, text_view
from adapters.discord.custom_ids import Button
from adapters.discord.forms import REASON, typed, written
from adapters.discord.full_view import Reading
from adapters.discord.grant_cards import NOBODYS, REVOKE
from adapters.discord.identities import identity_of, refuse_unfit
from adapters.discord.markup import clipped, inert, named, whole_lines
from adapters.discord.responses import Answer, private
from gateway.errors import Conflict
from gateway.models import Action
from gateway.ports import (
    LIFETIME_WORDS,
    Desk,
    Grant,
    Record,
    Remember,
    Worklist,
    render_safe,
    scopes_of,
)

KEEP = "keep"
_SCOPE, _WHERE, _LIFE = "scope", "where", "life"
_EVERYWHERE, _SESSION = "everywhere", "session"
_ALL, _OF_SESSION = "all", "session "
_CHOICE = 100  # characters of what a command offers; Discord takes no more
_OFFERED = 8  # each is measured against the history, and read by somebody on a phone
_LISTED = 20
_LIST_UNITS = 3800
_VERBS = {
    Action.APPROVE: ("Approve and remember", discord.ButtonStyle.success),
    Action.DENY: ("Deny and remember", discord.ButtonStyle.danger),
}


class Remembering:
    """The dialog behind "Remember…", and what has been remembered."""

    def __init__(self, desk: Desk, reading: Reading) -> None:
        self._desk = desk
        self._worklist = Worklist(desk)
        self._reading = reading

    async def offered(self, interaction: discord.Interaction, button: Button) -> Answer:
        """Show what could be remembered, and how far each would have reached."""
        record = await self._reading.permitted(interaction, button.request_id)
        button = self._reading.placed(interaction, button)
        lines = ["### 🧠 What should be remembered?"]
        for number, scope in enumerate(scopes_of(record, Action.APPROVE)[:_OFFERED], 1):
            reach = await self._desk.requests.reach(record.id, scope.id)
            lines.append(f"**{number}.** {inert(scope.words.text, 250)}")
            lines.append(f"-# {inert(reach, 200)}")
        row: ui.ActionRow[Any] = ui.ActionRow()
        for action, (label, style) in _VERBS.items():
            if scopes_of(record, action):
                wanted = button.but(KEEP, more=action.value)
                row.add_item(ui.Button(label=f"{label}…", style=style, custom_id=wanted.custom_id))
        if not row.children:
            raise Conflict("there is nothing that could be remembered about this request")
        view = ui.LayoutView(timeout=None)
        view.add_item(ui.TextDisplay("\n".join(lines)[:3900])).add_item(row)
        view.stop()
        return Answer(Shown(view))

    async def modal(self, record: Record, button: Button) -> ui.Modal:
        """Return the modal that asks what, where and how long. Raises Conflict."""
        action = Action(button.more)
        scopes = scopes_of(record, action)[:_OFFERED]
        if not scopes:
            raise Conflict("there is nothing that could be remembered about this request")
        modal = ui.Modal(title=_VERBS[action][0], custom_id=button.custom_id)
        words = [(scope.id, clipped(scope.words.text, 100)) for scope in scopes]
        modal.add_item(_asked("What", _SCOPE, words))
        session = clipped(f"only in the session {record.request.session}", 100)
        places = [(_SESSION, session), (_EVERYWHERE, "in all sessions of this agent")]
        modal.add_item(_asked("Where", _WHERE, places))
        modal.add_item(_asked("How long", _LIFE, list(LIFETIME_WORDS.items())))
        if action is Action.DENY:
            modal.add_item(written("Reason", REASON, "The agent is told. May be empty."))
        modal.stop()
        return modal

    async def shown(self, record: Record) -> Shown:
        """Return the outcome with the way back: a button that revokes what was remembered."""
        shown = outcome_view(await self._reading.card(record))
        made = next(
            (one for one in await self._desk.grants.newest() if one.from_request == record.id), None
        )
        if made is None:
            return shown
        back = Button(verb=REVOKE, request_id=made.id, revision=0)
        text = f"🧠 Remembered: {_words(made.words, 500)}. It can be taken back at any time."
        shown.view.add_item(ui.TextDisplay(text))
        button: ui.Button[Any] = ui.Button(label="Take it back", custom_id=back.custom_id)
        shown.view.add_item(ui.ActionRow(button))
        return shown

    async def revoked(self, interaction: discord.Interaction, what: str) -> Answer:
        """Take back one grant by its id or the beginning of it, `all`, or a session's; the core
        checks who may."""
        grants, identity = self._desk.grants, identity_of(interaction)
        if what != _ALL and not what.startswith(_OF_SESSION):
            grant_id = await self._worklist.grant_id(identity, what)
            await refuse_unfit(self._desk, interaction, grant_id)
            one = await grants.revoke(grant_id, identity)
            return private(f"↩️ Taken back: {_words(one.words, 500)}. It decides nothing any more.")
        await refuse_unfit(self._desk, interaction, NOBODYS)
        agent, _, session = what.removeprefix(_OF_SESSION).partition(" ")
        whose = {} if what == _ALL else {"agent": agent, "session": session}
        gone = await grants.revoke_all(identity, **whose)
        if not gone:
            raise Conflict("there is nothing there that you may take back")
        return private(f"↩️ Taken back: {len(gone)}. They decide nothing any more.")

    async def listed(self, interaction: discord.Interaction) -> Answer:
        """List what is remembered and may be taken back by who asks."""
        grants = await self._worklist.grants(identity_of(interaction))
        if not grants:
            return private("Nothing is remembered that you may take back.")
        return Answer(grants_view(grants))

    async def choices(self, interaction: discord.Interaction) -> list[tuple[str, str]]:
        """Return (value, words) of what `/revoke` offers: each of them, all, and each session's."""
        grants = await self._worklist.grants(identity_of(interaction))
        found = [
            (one.id, f"{one.id[:8]} · {one.effect} · {one.agent} · {render_safe(one.words).text}")
            for one in grants
        ]
        found += [(_ALL, "all that you may take back")] if grants else []
        sessions = dict.fromkeys((one.agent, one.session) for one in grants if one.session)
        found += [
            (f"{_OF_SESSION}{agent} {name}", f"all of the session {name} of {agent}")
            for agent, name in sessions
            if len(f"{_OF_SESSION}{agent} {name}") <= _CHOICE
        ]
        return [(value, clipped(words, _CHOICE)) for value, words in found]


def grants_view(grants: Sequence[Grant]) -> Shown:
    """Return the list of what is remembered, as far as it fits, the newest first."""
    lines = ["### 🧠 What is remembered"]
    for grant in grants[:_LISTED]:
        ends = f"until <t:{grant.expires_at // 1000}:f>" if grant.expires_at else "until revoked"
        where = f"session {grant.session}" if grant.session else "all sessions"
        used = f"used {grant.used}×"  # noqa: RUF001 (the sign is for people)
        lines.append(
            f"- `{grant.id[:8]}` **{grant.effect}** {_words(grant.words, 120)}\n"
            f"-# {inert(f'{grant.agent}, {where}', 120)} · {ends} · {used} · "
            f"by {named(grant.made_by, 80)}"
        )
    kept = whole_lines(lines, _LIST_UNITS)
    more = len(grants) + 1 - len(kept)
    rest = f" {more} older ones are in the inbox." if more else ""
    return text_view("\n".join([*kept, f"Take one back with `/revoke`.{rest}"]))


def remember_of(data: Any) -> Remember:
    """Return what a submitted modal says should be remembered."""
    given = typed(data)
    return Remember(
        offer=_chosen(given, _SCOPE),
        everywhere=_chosen(given, _WHERE) == _EVERYWHERE,
        lifetime=_chosen(given, _LIFE),
    )


def _words(text: str, budget: int) -> str:
    """Return what a grant covers; names from the agent's arguments stand in it."""
    return inert(render_safe(text).text, budget)


def _chosen(given: dict[str, Any], name: str) -> str:
    return str((given.get(name) or [""])[0])


def _asked(label: str, name: str, options: list[tuple[str, str]]) -> ui.Label[Any]:
    """Return a menu; its first option, always the narrowest, is chosen until another is."""
    menu: ui.Select[Any] = ui.Select(
        custom_id=name,
        options=[
            discord.SelectOption(label=words, value=value, default=not at)
            for at, (value, words) in enumerate(options)
        ],
    )
    return ui.Label(text=label, component=menu)
