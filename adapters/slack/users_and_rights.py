"""Identify the people who click, check their rights, and follow shared and lost channels; start
with Rights."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from adapters.slack.cards import CARD_CHARS, CARD_LINES
from adapters.slack.payloads import (
    NO_COPY,
    PLATFORM,
    Actor,
    Interaction,
    Json,
    ModalMetadata,
    SlackPlace,
)
from adapters.slack.web_api import SlackRefused, Uploads, Workspace, call_repeatable
from gateway.chat.answering import Press
from gateway.chat.claiming import describe_member
from gateway.errors import GatewayError, InvalidRequest
from gateway.ports import (
    AdapterApi,
    Claimant,
    DeliveryFailed,
    Identity,
    Limited,
    MessageRef,
    RetryLater,
    StoredRequest,
    bug,
)

_CHECK_SECONDS = 8.0
GROUPS_SECONDS = 5.0
_LIMIT = "Slack's limit for user lookups is reached; nothing was recorded. Try again"


class IneligibleUser(GatewayError):
    """The user may never decide: a bot, a guest, an outsider, or a deactivated user."""

    code = "stranger"


class Unknown(GatewayError):
    """Slack did not identify the user or the channel, so nothing was done."""

    code = "unknown_user"


class UserDirectory:
    """Looks up users once per interaction, and groups every few seconds. Simultaneous lookups share
    a call."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[float, Json]] = {}  # by workspace, since when
        self._changed: dict[str, float] = {}
        self._asking: dict[str, _Shared] = {}

    async def find_member(self, workspace: Workspace, actor: Actor) -> Identity:
        """Return the identity of a full member of this workspace, without groups.

        Raises IneligibleUser, Unknown.
        """
        home = workspace.team if not workspace.org else actor.user_team
        if actor.team != workspace.team or actor.user_team != home:
            raise IneligibleUser(_ELSEWHERE)
        if actor.confirmed:
            return actor.confirmed[0]
        user = (
            await self._ask(
                f"user {actor.team} {actor.user}",
                lambda: workspace.client.users_info(user=actor.user),
            )
        ).get("user", {})
        if user.get("id") != actor.user or not is_member(user, workspace):
            raise IneligibleUser(_ELSEWHERE)
        for sign, who in _NEVER.items():
            if user.get(sign) is not False:
                raise IneligibleUser(f"{who} may not decide")
        actor.confirmed.append(actor.identity)
        actor.names.update(handle=str(user.get("name")), name=str(user.get("real_name")))
        actor.names["zone"] = str(user.get("tz") or "")
        return actor.identity

    async def find_claimant(self, workspace: Workspace, actor: Actor) -> Claimant:
        """Return a full member with the description that an operator sees. Raises as `find_member`
        does."""
        identity = await self.find_member(workspace, actor)
        name, handle = actor.names["name"], actor.names["handle"]
        words = describe_member(name, handle, actor.user)
        return Claimant(identity=identity, handle=handle, words=words)

    async def find_groups(self, workspace: Workspace, identity: Identity) -> tuple[str, ...]:
        """Return a person's current user groups. Raises Unknown."""
        user = identity.id.partition("/")[2]
        answer = await self._list_groups(workspace)
        groups = [one for one in answer.get("usergroups", []) if user in one.get("users", [])]
        return tuple(f"{PLATFORM}:{workspace.team}/{one['id']}" for one in groups)

    async def _list_groups(self, workspace: Workspace) -> Json:
        """Return a workspace's groups with their members, at most five seconds old.

        The cache is needed, because Slack allows twenty such calls a minute.
        """
        team, now = workspace.team, asyncio.get_running_loop().time
        known = self._groups.get(team)
        if known is not None and now() - known[0] < GROUPS_SECONDS:
            return known[1]
        asked = now()
        answer = await self._ask(
            f"groups {team}",
            lambda: workspace.client.usergroups_list(
                include_users=True, include_disabled=False, team_id=team
            ),
        )
        if self._changed.get(team, 0.0) <= asked:
            self._groups[team] = (asked, answer)
        return answer

    def forget_groups(self, team: str) -> None:
        """Drop a workspace's cached groups, after Slack reported a change."""
        self._changed[team] = asyncio.get_running_loop().time()
        self._groups.pop(team, None)

    def close(self) -> None:
        """Cancel running calls."""
        for shared in self._asking.values():
            shared.cancel()

    async def _ask(self, about: str, call: Callable[[], Awaitable[object]]) -> Json:
        shared, now = self._asking.setdefault(about, _Shared()), asyncio.get_running_loop().time
        ends = now() + _CHECK_SECONDS

        def left() -> float:
            return ends - now()

        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                while True:
                    try:
                        return await shared.next(lambda: call_repeatable(call))
                    except RetryLater as wait:
                        if isinstance(wait, Limited) and wait.seconds > left():
                            raise Unknown(f"{_LIMIT} in {wait.seconds:.0f} s") from wait
                        await asyncio.sleep(wait.seconds)
        except (DeliveryFailed, TimeoutError) as error:
            raise Unknown("Slack did not confirm who you are; nothing was recorded") from error
        finally:
            if shared.idle:
                self._asking.pop(about, None)


def is_member(user: Json, workspace: Workspace) -> bool:
    """Whether a user is a member of this workspace. Users of an organisation can belong to several
    workspaces."""
    if not workspace.org:
        return bool(user.get("team_id", workspace.team) == workspace.team)
    member = user.get("enterprise_user") or {}
    return member.get("enterprise_id") == workspace.org and workspace.team in member.get(
        "teams", ()
    )


_ELSEWHERE = "people from other organisations may not decide here"
_NEVER = {
    "deleted": "deactivated users",
    "is_bot": "bots",
    "is_restricted": "guests",
    "is_ultra_restricted": "guests",
}


class _Shared:
    """Makes one call at a time. All callers during a call share the next one."""

    def __init__(self) -> None:
        self._running: asyncio.Future[Json] | None = None
        self._next: asyncio.Future[Json] | None = None

    @property
    def idle(self) -> bool:
        """Whether no call is running or due."""
        return all(one is None or one.done() for one in (self._running, self._next))

    def cancel(self) -> None:
        """Cancel the calls."""
        for one in (self._running, self._next):
            if one is not None:
                one.cancel()

    async def next(self, ask: Callable[[], Coroutine[Any, Any, Json]]) -> Json:
        """Return the answer of a call that starts after this one was requested."""
        if self._running is None or self._running.done():
            self._running = done = asyncio.get_running_loop().create_future()
            try:
                return await ask()
            finally:
                done.cancel()  # others wait only for its end, not for its result
        if self._next is None or self._next.done():
            self._next = _start_task(self._after(self._running, ask))
        return await asyncio.shield(self._next)

    async def _after(
        self, before: asyncio.Future[Json], ask: Callable[[], Coroutine[Any, Any, Json]]
    ) -> Json:
        await asyncio.wait([before])
        self._running, self._next = self._next, None
        return await ask()


def _start_task(work: Coroutine[Any, Any, Json]) -> asyncio.Task[Json]:
    task = asyncio.ensure_future(work)
    # Retrieve the error even if every caller has given up.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


@dataclass(frozen=True, slots=True)
class SlackUse:
    """One use of a button, a modal or a command; `form` names the request that it concerns."""

    workspace: Workspace
    did: Interaction
    form: ModalMetadata


class Rights:
    """Identifies people, and checks whether Slack shows the complete call before an approval."""

    def __init__(self, api: AdapterApi, directory: UserDirectory, uploads: Uploads) -> None:
        self._api = api
        self._directory = directory
        self._uploads = uploads

    async def press(self, use: SlackUse, *, reads: bool = False) -> Press:
        """Return the click of a full member. Does not check the right to decide.

        Raises IneligibleUser, Unknown, NotFound. With `reads`, it raises InvalidRequest if Slack
        does not show the complete call.
        """
        form, actor, why = use.form, use.did.actor, ""
        if reads:
            record = await self._api.requests.get(form.request_id, revision=form.revision)
            why = await self.explain_unreadable(use, record)
        try:
            identity = await self._directory.find_member(use.workspace, actor)
        except IneligibleUser as stranger:
            await self._api.requests.refuse(form.request_id, actor.identity, str(stranger))
            raise
        if why:
            raise InvalidRequest(why)
        return Press(
            request_id=form.request_id,
            revision=form.revision,
            identity=identity,
            nonce=use.did.nonce,
            copy=None if form.copy == NO_COPY else form.copy,
            ref=form.ref(actor.team),
            groups=partial(self._directory.find_groups, use.workspace, identity),
        )

    async def identify(self, use: SlackUse) -> Identity:
        """Return the person of a use, with groups. Raises IneligibleUser, Unknown."""
        return await self.identify_caller(use.workspace, use.did.actor)

    async def identify_caller(self, workspace: Workspace, actor: Actor) -> Identity:
        """Return the person, with groups. Raises IneligibleUser, Unknown."""
        identity = await self._directory.find_member(workspace, actor)
        return replace(identity, groups=await self._directory.find_groups(workspace, identity))

    async def explain_unreadable(self, use: SlackUse, record: StoredRequest) -> str:
        """Return why Slack does not show the complete call; empty if it does.

        It does if the card shows all of it, or if the full text is attached in its thread.
        """
        if self._api.sizes.fits(record, lines=CARD_LINES, chars=CARD_CHARS):
            return ""
        ref = use.form.ref(use.did.actor.team)
        if ref is not None and await self._uploads.is_attached(ref, record.digest):
            return ""
        return "You cannot approve this here: the full text is not attached to the card."


# Slack Connect: keeps cards out of channels that other organisations read, unless a target allows
# it.

KNOWN_SECONDS = 60.0
EVENTS = ("channel_shared", "channel_unshared")
"""The events that change who can read a channel."""


class SharedChannels:
    """Checks whether other organisations read a channel; caches the answer for a minute."""

    def __init__(self) -> None:
        self._known: dict[SlackPlace, tuple[float, str]] = {}
        self._asking: defaultdict[SlackPlace, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def refuse_outsiders(self, workspace: Workspace, place: SlackPlace) -> None:
        """Raise DeliveryFailed if people of other organisations can read the channel, or if Slack
        does not say. Raise RetryLater if Slack does not answer. Skip targets that allow it."""
        if place.origin and place.channel[0] not in "CG":
            raise DeliveryFailed(f"{name_place(place)} is not a channel")
        # The bot cannot look up a direct channel; a target names it by id, for one person.
        if place.shared or place.channel.startswith("D"):
            return
        place, now = place._replace(thread=""), asyncio.get_running_loop().time
        async with self._asking[place]:
            since, why = self._known.get(place, (float("-inf"), ""))
            if now() - since >= KNOWN_SECONDS:
                asked = now()
                why = await explain_outsiders(workspace, place)
                self._known[place] = (asked, why)
        if why:
            raise DeliveryFailed(why)

    def forget(self, team: str, channel: str) -> None:
        """Drop the cached answer for a channel, after Slack reported a change."""
        for origin in (False, True):
            self._known.pop(SlackPlace(team, channel, origin=origin), None)


async def explain_outsiders(workspace: Workspace, place: SlackPlace) -> str:
    """Say that another organisation can read the place; return "" if none can.

    Raises DeliveryFailed, RetryLater.
    """
    client, channel = workspace.client, place.channel
    try:
        if channel[0] in "UW":
            answer = await call_repeatable(lambda: client.users_info(user=channel))
            foreign = not is_member(answer.get("user") or {}, workspace)
            return f"{name_place(place)} belongs to another organisation" if foreign else ""
        answer = await call_repeatable(lambda: client.conversations_info(channel=channel))
    except SlackRefused as refused:
        if refused.error != "missing_scope":
            raise  # a post would get the same refusal
        said = (
            f"cannot check whether {name_place(place)} is shared with other organisations: "
            f"{refused}"
        )
        raise DeliveryFailed(said) from refused
    about = answer.get("channel") or {}
    return explain_shared(place, about) or _explain_closed(workspace, place, about)


def _explain_closed(workspace: Workspace, place: SlackPlace, about: Json) -> str:
    """Say why a channel that an agent named is no open channel of the workspace; else ""."""
    if not place.origin:
        return ""
    if about.get("is_archived"):
        return f"{name_place(place)} is archived"
    if about.get("is_im") or about.get("is_mpim"):
        return f"{name_place(place)} is a direct message"
    teams = (about.get("context_team_id"), *(about.get("shared_team_ids") or ()))
    if workspace.org and place.team not in teams:  # its token reads all workspaces' channels
        return f"{name_place(place)} is in another workspace"
    return ""


def explain_shared(place: SlackPlace, about: Json) -> str:
    """Say from Slack's answer about a channel that it is shared; return "" if it is not."""
    if about.get("is_ext_shared") is False and not about.get("is_pending_ext_shared"):
        return ""
    if about.get("is_ext_shared") or about.get("is_pending_ext_shared"):
        soon = "" if about.get("is_ext_shared") else "about to be "
        return (
            f"{name_place(place)} is {soon}shared with another organisation (Slack Connect); "
            f"to post there anyway, write slack:shared/{place.team}/{place.channel}"
        )
    return f"Slack does not return whether {name_place(place)} is shared with other organisations"


def name_place(place: SlackPlace) -> str:
    """Return a place in the form of a target, slack:TEAM/CHANNEL."""
    return f"slack:{place.team}/{place.channel}"


# Events about lost or shared channels, and about changed user groups.

log = logging.getLogger("adapters.slack")

LOSSES = {
    "channel_archive": "the channel was archived",
    "channel_deleted": "the channel was deleted",
    "channel_left": "the app was removed from the channel",
    "group_archive": "the channel was archived",
    "group_deleted": "the channel was deleted",
    "group_left": "the app was removed from the channel",
}
"""The events after which nobody can decide in a channel, each with its meaning."""
GROUP_EVENTS = ("subteam_members_changed", "subteam_updated")
"""The events after which the members of user groups may differ."""


class WorkspaceNews:
    """Follows Slack's events about channels and groups. Never raises: the next edit or click
    detects a loss too."""

    def __init__(self, api: AdapterApi, directory: UserDirectory, shared: SharedChannels) -> None:
        self._api = api
        self._directory = directory
        self._shared = shared

    async def follow(self, body: Json) -> None:
        """Drop caches after one event, or report the cards of a lost channel to the core."""
        event, team = body.get("event") or {}, str(body.get("team_id") or "")
        if event.get("type") in GROUP_EVENTS:
            self._directory.forget_groups(team)
            return
        if event.get("type") in EVENTS:
            self._shared.forget(team, str(event.get("channel")))
            return
        place = f"{team}/{event.get('channel')}"

        def stood(_: str, ref: MessageRef) -> bool:
            return ref.adapter == PLATFORM and ref.channel == place

        try:
            why = LOSSES[str(event.get("type"))]
            await self._api.requests.doubt_copies(stood, away=why)
        except Exception as error:
            log.warning(
                "could not mark lost cards for a check: %s",
                bug(error),
                extra={"event": "slack_loss"},
            )
