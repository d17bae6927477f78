"""Run the checks of `gateway doctor` for Slack; start with `run_checks`. With `--live` they post to
real channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import cards as blocks
from adapters.slack.installation import BOT_SCOPES
from adapters.slack.live_trial import SlackTrial, delete_sample, make_sample_card, make_sample_views
from adapters.slack.payloads import Json, Malformed, SlackPlace, read_place
from adapters.slack.settings import SlackSettings
from adapters.slack.users_and_rights import explain_shared
from adapters.slack.web_api import (
    NEEDED_SCOPES,
    NotInstalled,
    SlackRefused,
    Unavailable,
    Workspaces,
    build_client,
    call_for_response,
    call_once,
    call_repeatable,
    open_session,
    read_scopes,
    upload_file,
)
from gateway.cards.card import full_view
from gateway.chat.rehearsal import COPY, build_sample, build_samples, end_sample
from gateway.errors import GatewayError
from gateway.ports import (
    AdapterStorage,
    Clock,
    DeliveryFailed,
    Finding,
    LiveTrial,
    report_doubt,
    report_failure,
    report_ok,
)

# `gateway doctor --live`: post, edit and delete a sample card in a real channel.
#
# Only Slack's servers can test block limits, edits of rich text and file uploads.

MOST_CHANNELS = 20


async def try_channels(
    clients: Mapping[str, AsyncWebClient],
    places: Sequence[SlackPlace],
    session: aiohttp.ClientSession,
) -> list[Finding]:
    """In each channel, post a sample card, edit it, attach a file, and delete the card."""
    if not places:
        return [
            report_doubt("no route names a channel in which to test", "name slack:TEAM/CHANNEL")
        ]
    found = []
    validated: set[str] = set()
    for place in places[:MOST_CHANNELS]:
        first = place.team not in validated
        found.append(await _try_channel(clients[place.team], place, session, validate=first))
        validated.add(place.team)
    if rest := places[MOST_CHANNELS:]:
        names = ", ".join(f"{place.team}/{place.channel}" for place in rest)
        remedy = "run the check `slack channels` for each of them"
        found.append(
            report_doubt(f"only {MOST_CHANNELS} channels are tested; not tested: {names}", remedy)
        )
    return found


async def _try_channel(
    client: AsyncWebClient, place: SlackPlace, session: aiohttp.ClientSession, *, validate: bool
) -> Finding:
    step = "validate"
    channel = place.channel
    try:
        if validate:
            await _validate_samples(client)
        step = "post"
        text, made = blocks.build_message(make_sample_card(build_sample(long=True)), COPY)
        posted = await call_once(
            lambda: client.chat_postMessage(channel=channel, text=text, blocks=made)
        )
        try:
            step = "edit"
            await _edit(client, channel, posted["ts"])
            step = "attach"
            await _attach(client, place._replace(thread=posted["ts"]), session)
        finally:
            await delete_sample(client, posted)
    except DeliveryFailed as failure:
        said = f"{place.team}/{channel}: {step}: {failure}"
        return report_failure(
            said, "if all other checks pass, report this as a bug, with this sentence"
        )
    did = "a card was posted, edited, given a file and deleted"
    return report_ok(f"{place.team}/{channel}: {did}")


async def _validate_samples(client: AsyncWebClient) -> None:
    """Ask Slack to validate sample blocks and modals, if it offers that method."""
    for record in build_samples():
        _, made = blocks.build_message(make_sample_card(record), COPY)
        await _validate(client, blocks_=made)
    for view in make_sample_views().values():
        await _validate(client, view=view)


async def _validate(
    client: AsyncWebClient, *, blocks_: list[Json] | None = None, view: Json | None = None
) -> None:
    try:
        if view is None:
            await call_repeatable(lambda: client.blocks_validate(blocks=blocks_))
        else:
            await call_repeatable(lambda: client.blocks_validate(view=view))
    except SlackRefused as refused:
        if refused.error not in ("unknown_method", "method_deprecated", "not_allowed_token_type"):
            raise


async def _edit(client: AsyncWebClient, channel: str, ts: str) -> None:
    text, made = blocks.build_message(make_sample_card(end_sample(build_sample())), COPY)
    await call_repeatable(
        lambda: client.chat_update(channel=channel, ts=ts, text=text, blocks=made)
    )


async def _attach(
    client: AsyncWebClient, place: SlackPlace, session: aiohttp.ClientSession
) -> None:
    content = full_view(build_sample(long=True)).text.encode()
    file = await upload_file(client, session, place, content, name="sample.txt", title="Sample")
    # Deleting only the card would leave the file in its thread.
    await call_repeatable(lambda: client.files_delete(file=file))


_LARGEST_GAP_SECONDS = 60
_MANIFEST = "update the app from `gateway slack manifest`, and install it again"
_NETWORK = "check this machine's network, proxy and firewall, and Slack's status page"
_BOT_TOKEN = (
    "on the app's page, open OAuth & Permissions and copy the token to GATEWAY_SLACK_BOT_TOKEN"
)
_INSTALL = "its admin must install the app at /slack/install of GATEWAY_PUBLIC_URL"
_APP_TOKEN = "create an app-level token with connections:write on the app's page"
Found = tuple[str, Finding]


async def run_checks(
    targets: Sequence[str],
    notes: AdapterStorage,
    clock: Clock,
    *,
    live: bool,
    trial: LiveTrial | None = None,
) -> list[Found]:
    """Run all checks except those that depend on a failed one; `live` also posts sample cards."""
    settings = SlackSettings()
    try:
        settings.refuse_incomplete()
    except GatewayError as error:
        return [("slack settings", report_failure(str(error), "see docs/guides/slack.md"))]
    async with open_session() as session:
        checks = _Checks(settings, notes, clock, session)
        await checks.check_tokens(sorted({place.team for place in _read_places(targets)}))
        if checks.clients:
            await checks.check_targets(targets, live=live)
        if trial is not None:
            await checks.try_with(trial)
    return [("slack settings", report_ok(f"mode {settings.mode}")), *checks.found]


class _Checks:
    """The findings so far, and a client for each workspace whose token works."""

    def __init__(
        self,
        settings: SlackSettings,
        notes: AdapterStorage,
        clock: Clock,
        session: aiohttp.ClientSession,
    ) -> None:
        self._settings = settings
        self._workspaces = Workspaces(settings, notes, session)
        self._clock = clock
        self._session = session
        self.found: list[Found] = []
        self.clients: dict[str, AsyncWebClient] = {}
        self._shared: list[str] = []  # targets that others read, with permission
        self._foreign: set[SlackPlace] = set()  # places that others read, without permission

    def _build_client(self, token: str) -> AsyncWebClient:
        return build_client(token, self._settings.api_url, self._session)

    async def check_tokens(self, teams: Sequence[str]) -> None:
        """Check the configured token, or the token of each workspace that a route names."""
        if self._settings.bot_token is not None:
            await self._check_token("", self._settings.bot_token.get_secret_value())
            return
        if not teams:
            said = "workspaces install by OAuth, and no active route names one"
            self.found.append(
                (
                    "slack tokens",
                    report_doubt(said, "add slack:TEAM/CHANNEL to the targets of a route"),
                )
            )
        for team in teams:
            try:
                token, _ = await self._workspaces.read_token(team)
            except NotInstalled as error:
                self.found.append(("slack tokens", report_failure(str(error), _INSTALL)))
            else:
                await self._check_token(team, token)

    async def _check_token(self, team: str, token: str) -> None:
        client = self._build_client(token)
        try:
            who = await call_for_response(client.auth_test)
        except DeliveryFailed as error:
            said = f"the bot token{f' of {team}' if team else ''}: {error}"
            remedy = (
                _NETWORK if isinstance(error, Unavailable) else _INSTALL if team else _BOT_TOKEN
            )
            self.found.append(("slack tokens", report_failure(said, remedy)))
            return
        first = not self.clients
        team = team or who["team_id"]
        self.clients[team] = client
        self.found.append(("slack tokens", await self._check_app(client, team, who)))
        self.found.append(("slack scopes", _check_scopes(team, who)))
        if first:
            self.found.append(("slack clock", self._check_clock(who)))

    async def _check_app(self, client: AsyncWebClient, team: str, who: Any) -> Finding:
        """Check that the app token works and belongs to the same app as this bot token."""
        said = f"{who['user']} in {who.get('team')} ({team})"
        if self._settings.app_token is None or self._settings.mode != "socket":
            return report_ok(said)
        token = self._settings.app_token.get_secret_value()
        app = self._build_client(token)
        try:
            theirs = (await call_repeatable(app.auth_test))["app_id"]
            await call_repeatable(lambda: app.apps_connections_open(app_token=token))
            bot = await call_repeatable(lambda: client.bots_info(bot=who["bot_id"], team_id=team))
        except DeliveryFailed as error:
            return report_failure(f"the app token: {error}", _APP_TOKEN)
        if theirs != bot["bot"]["app_id"]:
            return report_failure(
                "the app token and the bot token belong to two different apps", _APP_TOKEN
            )
        return report_ok(said)

    def _check_clock(self, who: Any) -> Finding:
        try:
            theirs = parsedate_to_datetime(str(who.headers.get("Date"))).timestamp()
        except ValueError:
            return report_doubt("Slack did not return its time", "try again")
        gap = abs(theirs - self._clock.now_ms() / 1000)
        if gap > _LARGEST_GAP_SECONDS:
            said = (
                f"the clock differs from Slack's by {gap:.0f} s; from 300 s on, the gateway "
                "refuses signed requests"
            )
            return report_failure(said, "set the host's clock, for example with chrony")
        return report_ok("agrees with Slack's")

    async def check_targets(self, targets: Sequence[str], *, live: bool) -> None:
        """Check each target; with `live` also post to each channel."""
        wrong = [why for target in targets if (why := await self._explain_unreachable(target))]
        self.found.append(("slack channels", _summarize_channels(targets, wrong, self._shared)))
        if live:
            places = [
                one
                for one in _read_places(targets)
                if one.team in self.clients and not _is_person(one) and one not in self._foreign
            ]
            for finding in await try_channels(self.clients, places, self._session):
                self.found.append(("slack live", finding))

    async def try_with(self, trial: LiveTrial) -> None:
        """Run the trial with a person, in the workspace of their account."""
        team, settings = trial.user.partition("/")[0], self._settings
        token = settings.app_token if settings.mode == "socket" else None
        if client := self.clients.get(team):
            secret = token.get_secret_value() if token else ""
            found = await SlackTrial(client, self._session, trial, secret).run()
        else:
            said = f"the gateway has no token for {team}, the workspace of your account"
            found = [
                report_failure(
                    said, "choose an account in another workspace: --with-me slack:TEAM/USER"
                )
            ]
        self.found += [("slack live", one) for one in found]

    async def _explain_unreachable(self, target: str) -> str:
        """Return why the app cannot post to a target; empty if it can."""
        try:
            place = read_place(target)
        except Malformed as error:
            return str(error)
        client = self.clients.get(place.team)
        if client is None:
            return f"{target} is in a workspace for which the gateway has no token"
        channel, person = place.channel, _is_person(place)
        try:
            if person:
                about = (await call_repeatable(lambda: client.users_info(user=channel))).get(
                    "user", {}
                )
            else:
                answer = await call_repeatable(lambda: client.conversations_info(channel=channel))
                about = answer.get("channel", {})
        except SlackRefused as refused:
            return f"{target}: {refused.error}"
        except DeliveryFailed as failure:
            return f"{target}: {failure}"
        return self._explain_state(target, about, person=person)

    def _explain_state(self, target: str, about: Json, *, person: bool) -> str:
        if about.get("deleted") or about.get("is_archived"):
            return f"{target} is {'deactivated' if person else 'archived'}"
        if not person and not about.get("is_member"):
            return f"the app is not in {target}"
        return "" if person else self._explain_shared(target, about)

    def _explain_shared(self, target: str, about: Json) -> str:
        """Say that other organisations read there; return "" if none do or the target allows it."""
        place = read_place(target)
        said = explain_shared(place, about)
        if said and place.shared:
            self._shared.append(target)
            return ""
        if said:
            self._foreign.add(place._replace(thread=""))
        return said


def _is_person(place: SlackPlace) -> bool:
    return place.channel[0] in "UW"


def _read_places(targets: Sequence[str]) -> list[SlackPlace]:
    """Parse the targets and return each channel once; skip targets that fail to parse."""
    found = []
    for target in targets:
        with suppress(Malformed):  # `slack channels` reports these
            found.append(read_place(target)._replace(thread=""))
    return list(dict.fromkeys(found))


def _check_scopes(team: str, who: Any) -> Finding:
    missing = [scope for scope in BOT_SCOPES if scope not in read_scopes(who)]
    if not missing:
        return report_ok("all scopes of the manifest")
    said = f"missing in {team}: {', '.join(missing)}"
    needed = any(scope in NEEDED_SCOPES for scope in missing)
    return report_failure(said, _MANIFEST) if needed else report_doubt(said, _MANIFEST)


def _summarize_channels(
    targets: Sequence[str], wrong: Sequence[str], shared: Sequence[str]
) -> Finding:
    if wrong:
        return report_failure("; ".join(wrong), "invite the app: /invite @approvals in the channel")
    if not targets:
        return report_doubt(
            "no active route names Slack", "add slack:TEAM/CHANNEL to the targets of a route"
        )
    others = f"; people of other organisations can read {', '.join(shared)}" if shared else ""
    return report_ok(f"{len(targets)} reachable{others}")
