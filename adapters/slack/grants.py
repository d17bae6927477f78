"""Revoking grants (one, a session's, all) and the kill switch."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.slack.cards import button, day, line, one_line, plain, rich, row, section, words
from adapters.slack.payloads import NO_COPY, Act, Interaction, Json, Malformed
from adapters.slack.users_and_rights import Rights
from adapters.slack.web_api import Workspace
from gateway.cards.words import LIFT, KillSwitch
from gateway.errors import Conflict, InvalidRequest
from gateway.ports import Desk, Grant, Identity, MessageRef, Worklist

ADMIN_BUTTONS = {Act.REVOKE, Act.REVOKE_SESSION, Act.REVOKE_ALL, Act.STOP_ALL, Act.ALLOW_AGAIN}
_ASK_AGAIN = "Let agents ask again"
_EVERY, _OF_SESSION = "all", "session"  # may stand in place of a grant's id
_ALL = "All that you may revoke is revoked; people are asked again."
_SESSION = "All that is remembered for this session is revoked; people are asked again."


class AdminActions:
    """Revokes and stops; the core checks the rights."""

    def __init__(self, desk: Desk, rights: Rights, worklist: Worklist) -> None:
        self._desk = desk
        self._rights = rights
        self._worklist = worklist

    async def run(self, workspace: Workspace, did: Interaction) -> None:
        """Run the action of a button."""
        identity = await self._rights.identify_caller(workspace, did.actor)
        if did.act in (Act.STOP_ALL, Act.ALLOW_AGAIN):
            await self._desk.operator.stop_all(identity, on=did.act == Act.STOP_ALL)
        elif did.act == Act.REVOKE_ALL:
            await self.revoke(identity, _EVERY)
        elif did.act == Act.REVOKE_SESSION:
            await self.revoke(identity, f"{_OF_SESSION} {did.value}")
        else:
            grant_id, _, copy = did.value.partition(" ")
            if copy and (did.ref is None or copy == NO_COPY):
                raise Malformed("a button of a copy, but not on it")
            await self.revoke(identity, grant_id, copy=copy, ref=did.ref if copy else None)

    async def revoke(
        self, identity: Identity, what: str, *, copy: str = "", ref: MessageRef | None = None
    ) -> str:
        """Revoke one grant by its id or the beginning of it, `all`, or `session AGENT NAME`;
        return a message. `copy` and `ref` name the card on which the button was pressed.
        """
        first, _, whose = what.partition(" ")
        if first not in (_EVERY, _OF_SESSION):
            grant_id = await self._worklist.grant_id(identity, first)
            await self._desk.grants.revoke(grant_id, identity, copy=copy, ref=ref)
            return "Revoked: from now on it decides nothing."
        agent, _, session = whose.strip().partition(" ")
        if first == _OF_SESSION and not (agent and session):
            raise InvalidRequest("write revoke session AGENT NAME")
        named = {"agent": agent, "session": session.strip()} if first == _OF_SESSION else {}
        gone = await self._desk.grants.revoke_all(identity, **named)
        if not gone:
            raise Conflict("there is nothing that you may revoke")
        return f"Revoked: {len(gone)}. From now on they decide nothing."

    async def is_stopped(self) -> bool:
        """Whether everything is stopped."""
        return ((await self._desk.operator.status()).switch).on

    async def build_kill_switch(self, identity: Identity) -> list[Json]:
        """Return the kill switch of a Home tab: its state and, for admins, its button."""
        person = await self._desk.requests.person(identity)
        admin = person is not None and person.admin
        return build_switch((await self._desk.operator.status()).switch, admin=admin)


def build_switch(switch: KillSwitch, *, admin: bool) -> list[Json]:
    """Return the state of the kill switch and, for an admin, its button."""
    blocks = _render_stop(switch) if switch.on else []
    if admin and switch.on:
        lift = button(_ASK_AGAIN, Act.ALLOW_AGAIN, "-", confirm=(LIFT, _ASK_AGAIN))
        return [*blocks, _build_row(lift)]
    if not admin:
        return blocks
    sure = (switch.stopping, "Stop")
    stop = button("Stop everything", Act.STOP_ALL, "-", style="danger", confirm=sure)
    return [*blocks, _build_row(stop)]


def _render_stop(switch: KillSwitch) -> list[Json]:
    """Return who stopped everything, and when, in the reader's time zone."""
    if not switch.by:
        return [section(plain(switch.state))]
    who = words(f"Everything is denied: {one_line(switch.by)} stopped it, ", bold=True)
    return [rich("stopped", [line(who, day(switch.at))])]


def build_revoke_all(grants: Sequence[Grant]) -> list[Json]:
    """Return the button that revokes all grants on a Home tab."""
    if len(grants) < 2:  # noqa: PLR2004 (one has a button of its own)
        return []
    press = button("Revoke all", Act.REVOKE_ALL, "-", style="danger", confirm=(_ALL, "Revoke"))
    return [section(plain(f"{len(grants)} remembered")), _build_row(press)]


def build_revoke_session(grant: Grant) -> list[Json]:
    """Return the button that revokes all grants of a grant's session."""
    if grant.session is None:
        return []
    value = f"{grant.agent} {grant.session}"
    return [
        button(
            "Revoke all of this session", Act.REVOKE_SESSION, value, confirm=(_SESSION, "Revoke")
        )
    ]


def _build_row(press: Json) -> Json:
    return row(press["action_id"], press)
