"""Run `gateway doctor --live --with-me` in Slack; start with `SlackTrial.run`.

The trial posts sample cards and modals, compares them with what Slack returns, and asks the person
for five actions. It ignores actions of other people and on other cards.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import modals, payloads
from adapters.slack.cards import CARD_CHARS, CARD_LINES, build_message, context, plain
from adapters.slack.clicks import FORM_BUILDERS
from adapters.slack.commands import COMMAND
from adapters.slack.home_tab import build_home_view
from adapters.slack.installation import SHORTCUT
from adapters.slack.payloads import Act, Interaction, Json, ModalMetadata
from adapters.slack.web_api import call_once, call_repeatable
from gateway.cards.batch_cards import batch_card_of
from gateway.cards.card import Card, card_of, full_view
from gateway.cards.forms import edit_fields
from gateway.cards.remember_options import scopes_of
from gateway.chat import rehearsal
from gateway.models import Action
from gateway.ports import (
    DeliveryFailed,
    Finding,
    LiveTrial,
    StoredRequest,
    report_doubt,
    report_failure,
)

FORM = ModalMetadata(rehearsal.SAMPLE_ID, 1, rehearsal.COPY)
_LIST = "list"
_ACTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Press More… on the card in your messages with the app, then Close.", (Act.MORE,)),
    ("Press Deny… on it, then Deny in the form.", (Act.DENY, modals.DENY)),
    (f"Type {COMMAND} {_LIST} in any channel.", (_LIST,)),
    (f"Choose “{SHORTCUT['name']}” in the card's menu, then Close.", (Act.DETAILS,)),
    ("Press Approve on the card.", (Act.APPROVE,)),
)
_READERS: dict[str, Callable[[Json], Interaction]] = {
    "block_actions": payloads.read_click,
    "view_submission": payloads.read_submission,
    "message_action": payloads.read_shortcut,
    "slash_commands": payloads.read_command,
}
_LISTED = {"text": "This was a test by `gateway doctor`. Nothing was looked up."}


def make_sample_card(record: StoredRequest) -> Card:
    """Return the card of a sample."""
    return card_of(record, lines=CARD_LINES, chars=CARD_CHARS)


def make_sample_views() -> dict[str, Json]:
    """Build a sample of every modal, by the action that opens it."""
    first, *_, question = rehearsal.build_samples()
    card = make_sample_card(first)
    asks: dict[str, Card] = {Act.ANSWER: make_sample_card(question)}
    approval = next(one for one in card.controls if one.action is Action.APPROVE)
    batch = batch_card_of((first, first), chars=modals.BATCH_CHARS, each=CARD_CHARS)
    details = full_view(first, fits=modals.page_fits)
    return {
        **{act: build(asks.get(act, card), FORM) for act, build in FORM_BUILDERS.items()},
        Act.MORE: modals.build_more(card, FORM, refusal="", mine=False, batch=2),
        Act.REMEMBER: modals.build_remember(card, FORM, scopes_of(first, Action.APPROVE), {}),
        Act.EDIT: modals.build_field_form(card, edit_fields(first), FORM, {}),
        Act.EDIT_JSON: modals.build_json_form(card, FORM, card.editable),
        Act.EDIT_AGAIN: modals.build_edit_check("- one\n+ other", FORM),
        Act.NUMBER: modals.build_number(card, FORM, approval, 1),
        Act.DETAILS: modals.build_details(card, details, FORM, refusal=""),
        Act.BATCH: modals.build_batch(batch, FORM),
        modals.ADD_PLACE: modals.build_route_choice("a channel", "-", ("default",)),
    }


@dataclass
class SlackTrial:
    """The trial with one person. `app_token` is empty if clicks come over HTTP."""

    client: AsyncWebClient
    session: aiohttp.ClientSession
    trial: LiveTrial
    app_token: str
    views: dict[str, Json] = field(default_factory=make_sample_views)
    changes: list[str] = field(default_factory=list)

    async def run(self) -> list[Finding]:
        """Run the trial, and delete its messages at the end, also after an error."""
        return await rehearsal.run_steps(self._echo, self._try_acts)

    @property
    def user(self) -> str:
        """The person's user id. Messages posted to it reach their direct messages."""
        return self.trial.user.partition("/")[2]

    async def _call(self, method: str, sent: Json, **where: str) -> Json:
        """Make one call of the Web API, and record the differences in Slack's answer."""
        self.trial.record("sent", {"method": method, **sent})
        got = await call_once(lambda: getattr(self.client, method)(**sent, **where))
        self.trial.record("got", got)
        changed = rehearsal.find_changes(
            sent.get("view", sent), got.get("view", got.get("message"))
        )
        self.changes += changed
        return got

    def _post(self, record: StoredRequest) -> AbstractAsyncContextManager[Json]:
        post = self._call("chat_postMessage", self._build(record), channel=self.user)
        return rehearsal.shown(post, partial(delete_sample, self.client))

    async def _end(self, posted: Json) -> None:
        ended = self._build(rehearsal.end_sample(rehearsal.build_sample()))
        await self._call("chat_update", ended, channel=posted["channel"], ts=posted["ts"])

    def _build(self, record: StoredRequest) -> Json:
        called = f"<@{self.user}>"
        text, made = build_message(make_sample_card(record), rehearsal.COPY, called=called)
        return {"text": text, "blocks": made}

    async def _echo(self) -> Finding:
        """Post and edit each card, and publish each modal as the person's Home tab, which needs no
        trigger. At the end, the tab says that the gateway fills it."""
        samples = rehearsal.build_samples()
        for record in samples:
            async with self._post(record) as posted:
                await self._end(posted)
        told = context(plain("The gateway fills this tab when it runs and you open it."))
        homes = [{"type": "home", "blocks": one["blocks"]} for one in self.views.values()]
        try:
            for home in homes:
                await self._call("views_publish", {"view": home}, user_id=self.user)
        finally:
            await self._call("views_publish", {"view": build_home_view([told])}, user_id=self.user)
        said = f"{len(samples)} cards, their edits, and {len(homes)} modals"
        return rehearsal.report_changes(said, self.changes)

    async def _try_acts(self) -> Finding:
        if not (token := self.app_token):
            said = "clicks were not tested, because Slack sends them to the gateway over HTTP"
            return report_doubt(said, "start the gateway, then decide a card to test the clicks")
        opened = await call_repeatable(lambda: self.client.apps_connections_open(app_token=token))
        async with self.session.ws_connect(opened["url"]) as socket:
            hello = await socket.receive_json()
            if hello["type"] != "hello" or hello.get("num_connections", 1) > 1:
                other = "another program receives Slack's events with this app token"
                why = hello.get("reason") or other
                remedy = "run `gateway down` where that program runs, and try again in a minute"
                return report_failure(f"your clicks would not arrive here: {why}", remedy)
            async with self._post(rehearsal.build_sample()) as posted:
                acts = [(said, partial(self._wait, socket, posted, *one)) for said, one in _ACTS]
                return await rehearsal.ask(self.trial, acts)

    async def _wait(
        self, socket: aiohttp.ClientWebSocketResponse, posted: Json, name: str, *more: str
    ) -> Awaitable[object]:
        """Wait for these actions of this person, one after the other; return the reply to the last.
        Each happens on the card, in its form, or by the command."""
        message, form = "" if name in (_LIST, modals.DENY) else posted["ts"], FORM.encode()
        while True:
            envelope = await socket.receive_json()
            did = _read(envelope)
            if (
                did is not None
                and did.actor.identity.id == self.trial.user
                and (did.act or did.text.strip(), did.message) == (name, message)
                and did.view.get("private_metadata", form) == form
            ):
                break
        self.trial.record("got", envelope)

        async def answer() -> None:
            told = {"payload": _LISTED} if name == _LIST else {}
            await socket.send_json({"envelope_id": envelope["envelope_id"], **told})
            if view := self.views.get(name):
                await self._call("views_open", {"view": view}, trigger_id=did.trigger_id)
            elif name == Act.APPROVE:
                await self._end(posted)

        if not more:
            return answer()
        await answer()
        return await self._wait(socket, posted, *more)


def _read(envelope: Json) -> Interaction | None:
    """Parse an envelope; return None if it is not an interaction with the gateway."""
    payload = envelope.get("payload") or {}
    read = _READERS.get(payload.get("type") or envelope.get("type") or "")
    try:
        return read(payload) if read is not None else None
    except payloads.Malformed:
        return None


async def delete_sample(client: AsyncWebClient, posted: Json) -> None:
    """Delete a posted card. Raises DeliveryFailed, whose text says that the card remains."""
    channel, ts = posted["channel"], posted["ts"]
    try:
        await call_repeatable(lambda: client.chat_delete(channel=channel, ts=ts))
    except DeliveryFailed as failure:
        raise DeliveryFailed(f"the sample card could not be deleted: {failure}") from failure
