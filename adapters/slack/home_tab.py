"""Publish the Home tab, which lists a person's pending requests and grants, and keep it current;
start with HomeTab."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from adapters.slack.cards import (
    button,
    context,
    day,
    header,
    join_entries,
    line,
    one_line,
    plain,
    rich,
    row,
    section,
    words,
)
from adapters.slack.commands import BEING_DENIED, COMMAND, build_grant_entry, build_request_entry
from adapters.slack.payloads import Act, Actor, Json
from adapters.slack.users_and_rights import IneligibleUser, UserDirectory
from adapters.slack.web_api import SlackRefused, Workspace, call_repeatable
from gateway.cards.shared_texts import LIFT, KillSwitch
from gateway.chat.lists_and_batches import ALLOW_AGAIN, NOTHING_WAITS, STOP, Worklist, read_switch
from gateway.errors import Unreachable
from gateway.ports import (
    AdapterApi,
    Grant,
    Rate,
    RateLimiter,
    RetryLater,
    StoredRequest,
    bug,
    cancel_and_wait,
)

_MOST_BLOCKS = 100
_FRAME = 5  # two headings, count, the last line, and one to spare
_CONFLICT = "hash_conflict"
_MOST_PUBLISHED = 200
_ALL = "This revokes all grants that you can revoke. Agents will have to ask again."


class HomeTab:
    """Builds and publishes Home tabs; remembers the latest ones, to skip unchanged ones."""

    def __init__(self, api: AdapterApi, directory: UserDirectory) -> None:
        self._api = api
        self._directory = directory
        self._worklist = Worklist(api)
        self._published: dict[tuple[str, str], Json] = {}

    async def publish(
        self, workspace: Workspace, user: str, seen: str | None = None, *, changed: bool = False
    ) -> None:
        """Publish a user's Home tab; `seen` is the hash of the view they have. With `changed`,
        publish it only if it differs from the last one published here."""
        view = await self._build_view(workspace, user)
        if changed and self._published.get((workspace.team, user)) == view:
            return
        self._published[workspace.team, user] = view
        while len(self._published) > _MOST_PUBLISHED:
            del self._published[next(iter(self._published))]
        client = workspace.client
        more = {"hash": seen} if seen else {}
        try:
            await call_repeatable(lambda: client.views_publish(user_id=user, view=view, **more))
        except SlackRefused as refused:
            if refused.error != _CONFLICT:
                raise
            # Another view was published meanwhile; build a newer one.
            fresh = await self._build_view(workspace, user)
            await call_repeatable(lambda: client.views_publish(user_id=user, view=fresh))

    async def _build_view(self, workspace: Workspace, user: str) -> Json:
        actor = Actor(workspace.team, user, workspace.team)
        try:
            identity = await self._directory.find_member(workspace, actor)
        except IneligibleUser as stranger:
            return build_home_view([section(plain(str(stranger)))])
        identity = replace(identity, groups=await self._directory.find_groups(workspace, identity))
        waiting = [record async for record in self._worklist.list_waiting(identity)]
        switch, admin = await read_switch(self._api, identity)
        grants = await self._api.grants.newest(revocable_by=identity)
        frame, address = build_switch(switch, admin=admin), self._api.address_of
        return build_home(waiting, grants, frame, stopped=switch.on, address_of=address)


def build_home(
    waiting: Sequence[StoredRequest],
    grants: Sequence[Grant],
    frame: Sequence[Json] = (),
    *,
    stopped: bool = False,
    address_of: Callable[[str], str] = lambda _: "",
) -> Json:
    """Build the Home tab with these requests and grants, below the blocks of `frame`.

    While everything is `stopped`, the requests are being denied and have no buttons.
    """
    entries = [
        build_request_entry(one, stopped=stopped, inbox=address_of(one.id)) for one in waiting
    ]
    remembered = [build_grant_entry(one) for one in grants]
    if remembered:  # a heading separates them from the pending requests
        remembered[0] = [header("Grants"), *build_revoke_all(grants), *remembered[0]]
    entries += remembered
    blocks, shown = join_entries(entries, _MOST_BLOCKS - _FRAME - len(frame))
    title, count = _say_waiting(len(waiting), stopped=stopped)
    if shown < len(entries):
        more = f"{len(entries) - shown} more: {COMMAND} list, {COMMAND} grants"
        blocks.append(context(plain(more)))
    heading = [header(title)] if waiting else []
    return build_home_view([*frame, *heading, context(plain(count)), *blocks])


def build_switch(switch: KillSwitch, *, admin: bool) -> list[Json]:
    """Build the state of the kill switch and, for an admin, its button."""
    blocks = _render_stop(switch) if switch.on else []
    if admin and switch.on:
        lift = button(ALLOW_AGAIN, Act.ALLOW_AGAIN, "-", confirm=(LIFT, ALLOW_AGAIN))
        return [*blocks, _build_row(lift)]
    if not admin:
        return blocks
    sure = (switch.stopping, "Stop")
    stop = button(STOP, Act.STOP_ALL, "-", style="danger", confirm=sure)
    return [*blocks, _build_row(stop)]


def _render_stop(switch: KillSwitch) -> list[Json]:
    """Name the person who stopped everything, and the time in the reader's time zone."""
    if not switch.by:
        return [section(plain(switch.state))]
    who = words(
        f"All requests are denied: {one_line(switch.by)} turned the kill switch on, ", bold=True
    )
    return [rich("stopped", [line(who, day(switch.at))])]


def build_revoke_all(grants: Sequence[Grant]) -> list[Json]:
    """Build the button that revokes all grants, if there are several."""
    if len(grants) < 2:  # noqa: PLR2004 (a single grant already has its button)
        return []
    press = button("Revoke all", Act.REVOKE_ALL, "-", style="danger", confirm=(_ALL, "Revoke"))
    return [section(plain(f"{len(grants)} grants")), _build_row(press)]


def _build_row(press: Json) -> Json:
    return row(press["action_id"], press)


def _say_waiting(count: int, *, stopped: bool) -> tuple[str, str]:
    """Return the title above the requests, and the line that counts them."""
    if not count:
        return "", NOTHING_WAITS
    if not stopped:
        return "Pending requests", f"{count} pending"
    return BEING_DENIED, "1 request was pending" if count == 1 else f"{count} requests were pending"


def build_home_view(blocks: list[Json]) -> Json:
    """Build a Home tab view from these blocks."""
    return {"type": "home", "callback_id": "home", "blocks": [header("Approvals"), *blocks]}


# Keeps opened Home tabs current: redraws them after changes to requests, grants, the policy and
# the kill switch.

log = logging.getLogger("adapters.slack")

# Slack allows a hundred user lookups a minute. Each redraw needs one; the rest is for clicks.
DRAWINGS = Rate(40, 60.0)
_REST_SECONDS = 2.0  # one redraw covers all changes within this time
_WATCHED_SECONDS = 8 * 3600.0  # Slack does not say when somebody closes the tab
_MOST = 100
_NOTE = "homes"
_CHANGES = ("stopped", "resumed", "policy_applied", "grant_")

Draw = Callable[[str, str], Awaitable[None]]
"""Redraws the Home tab of a user, given workspace and user, if it has changed."""


class HomeTabRefresher:
    """Redraws the Home tabs of the people who opened theirs recently."""

    def __init__(self, api: AdapterApi, pace: RateLimiter, draw: Draw) -> None:
        self._api = api
        self._pace = pace
        self._draw = draw
        self._opened: dict[tuple[str, str], None] = {}  # the latest last
        self._bell = asyncio.Event()

    async def watch(self, team: str, user: str) -> None:
        """Keep this tab current from now on. Other replicas read the list when they start."""
        known = (team, user) in self._opened
        self._opened.pop((team, user), None)
        self._opened[team, user] = None
        while len(self._opened) > _MOST:
            del self._opened[next(iter(self._opened))]
        if not known:
            text = json.dumps(list(self._opened))
            await self._api.notes.put(_NOTE, text, seconds=_WATCHED_SECONDS)

    async def run(self) -> None:
        """Redraw after each change, until cancelled."""
        known = await self._api.notes.get(_NOTE)
        for team, user in json.loads(known) if known else ():
            self._opened.setdefault((team, user))
        listening = asyncio.create_task(self._listen(), name="slack home tab refresh")
        try:
            while True:
                await self._bell.wait()
                self._bell.clear()
                for team, user in list(self._opened):
                    await self._draw_one(team, user)
                await asyncio.sleep(_REST_SECONDS)
        finally:
            await cancel_and_wait(listening)

    async def _draw_one(self, team: str, user: str) -> None:
        try:
            async with self._pace.slot(f"homes {team}", DRAWINGS, user, rank=0):
                await self._draw(team, user)
        except RetryLater as later:
            asyncio.get_running_loop().call_later(later.seconds, self._bell.set)
        except Exception as error:
            # Go on with the other tabs after any error; this one gets its next chance at a change.
            log.warning("no Home: %s", bug(error), extra={"event": "slack_no_home"})

    async def _listen(self) -> None:
        while True:
            try:
                async with self._api.feed.changes() as events:
                    self._bell.set()
                    async for event in events:
                        if event.request_id or event.type.startswith(_CHANGES):
                            self._bell.set()
            except Unreachable:
                log.info("the home tabs missed some events", extra={"event": "slack_homes_behind"})
