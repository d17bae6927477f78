"""Every message and modal that a person can see in Discord, made of fixed requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from discord import ui

from adapters.discord.cards import (
    CARD_CHARS,
    CARD_LINES,
    MessageContent,
    build_card_view,
    build_more_view,
    build_outcome_view,
    render_about,
)
from adapters.discord.claims import build_route_menu
from adapters.discord.commands import build_pending_view
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.edits import (
    build_edit_modal,
    build_edit_state,
    build_modal,
    build_number_modal,
)
from adapters.discord.full_view import (
    BATCH_CHARS,
    build_batch,
    build_full_view,
    keep_drawn,
    page_fits,
)
from adapters.discord.grants import (
    build_grant_view,
    build_grants_view,
    build_options_view,
    build_remember_modal,
    build_switch_view,
    list_ways,
)
from adapters.discord.interactions import build_private_reply, build_refusal
from gateway.cards.batch_cards import batch_card_of
from gateway.cards.card import Card, card_of, full_view
from gateway.cards.grant_cards import grant_card_of
from gateway.cards.remember_options import scopes_of
from gateway.cards.shared_texts import KillSwitch
from gateway.chat.answering import EditState, describe_changes
from gateway.domain.records import StoredRequest
from gateway.errors import Conflict, InvalidRequest, NotFound, Unauthorized, Unreachable
from gateway.models import Action
from tests.slack import states

COPY = "0" * 22
BUTTON = DiscordButton(verb="more", request_id=states.asked().id, revision=1, copy=COPY)
EVERYTHING = 10**9
INBOX = "https://approvals.example/inbox"


def messages() -> dict[str, Callable[[], MessageContent]]:
    """Return what makes each message: each anew, since sending uses a view up."""
    records = states.RECORDS
    made: dict[str, Callable[[], MessageContent]] = {
        name: partial(_card, record) for name, record in records.items()
    }
    for name, card in states.crowds().items():
        made[name] = partial(build_card_view, card, COPY)
    for number, grant in enumerate(states.GRANTS):
        card_of_grant = grant_card_of(grant, states.GRANTED, reach=states.REACH)
        made[f"grant-{number}"] = partial(build_grant_view, card_of_grant, COPY)
    long = full_view(states.LONG, fits=page_fits)
    for number in (0, 1, len(long.pages) - 1):
        made[f"page-{number}"] = partial(_page, states.LONG, number)
    for name in ("pending", "pending-high-risk", "pending-two", "pending-number", "denied",
                 "pending-nobody", "pending-votes", "approved-hook", "pending-masked",
                 "pending-findings", "pending-escalated", "pending-hook", "pending-hostile",
                 "pending-passkey", "pending-hidden", "responded"):  # fmt: skip
        made[f"full-{name}"] = partial(_page, records[name], 0)
    made["routes"] = partial(build_route_menu, ("default", "deploys"))
    git = records["pending-git"]
    diff = describe_changes(states.asked(), {"command": "make release"})
    changed = EditState(key="k", typed="", diff=diff)
    refused = EditState(key="k", typed="", refusal='"amount": the answer is not a number')
    options = scopes_of(git, Action.APPROVE, passes=True)
    reach = {one.id: states.REACH for one in options}
    ways = list_ways(options, denies=True)
    errors = (
        Unauthorized("you are not an approver for this request"),
        NotFound("there is no such request"),
        Conflict("this request was decided already: denied by bob"),
        InvalidRequest("say what the agent should plan instead"),
        Unreachable("gone"),
        TimeoutError(),
    )
    for number, error in enumerate(errors):
        made[f"error-{number}"] = partial(lambda one: build_refusal(one).shown, error)
    sized = _sized(records["pending"])
    several = (states.FILE, states.known_as(states.PAYMENT, "3a"), states.HOSTILE)
    alone = (*states.BATCH, states.known_as(states.PAYMENT, "3a"))
    return made | {
        "silent": lambda: build_card_view(sized, COPY, silent=True),
        "secret-inbox": lambda: build_card_view(_led("question-secret"), COPY),
        "passkey-inbox": lambda: build_card_view(_led("pending-passkey"), COPY),
        "masked-inbox": lambda: build_card_view(_led("pending-masked"), COPY),
        "hidden-inbox": lambda: build_card_view(_led("pending-hidden"), COPY),
        "more-no-address": lambda: build_more_view(_sized(records["pending-hidden"]), BUTTON),
        "full-passkey-inbox": lambda: build_full_view(
            replace(_whole(records["pending-passkey"]), inbox=INBOX),
            full_view(records["pending-passkey"], fits=page_fits),
            BUTTON,
        ),
        "called": lambda: build_card_view(sized, COPY, called="<@111111111111111111>"),
        "more": lambda: build_more_view(sized, BUTTON, batch=3),
        "more-inbox": lambda: build_more_view(
            replace(_sized(records["pending-votes"]), inbox=INBOX), BUTTON
        ),
        "batch": lambda: _batch(states.BATCH),
        "batch-alone": lambda: _batch(alone),
        "outcome": lambda: build_outcome_view(_sized(records["denied"])),
        "outcome-voted": lambda: build_outcome_view(
            card_of(records["pending-votes"], lines=9, chars=99, reader="ann")
        ),
        "options": lambda: build_options_view(options, reach, ways, BUTTON),
        "grants": lambda: build_grants_view(states.GRANTS),
        "pending-list": lambda: build_pending_view(several),
        "switch-off": lambda: build_switch_view(KillSwitch(on=False, waiting=3)),
        "switch-on": lambda: build_switch_view(KillSwitch(on=True, by="ann", at=states.MADE)),
        "changes": lambda: build_edit_state(BUTTON, changed),
        "changes-high": lambda: build_edit_state(BUTTON, replace(changed, high=True)),
        "edit-refused": lambda: build_edit_state(BUTTON, refused),
        "step-up": lambda: (
            build_private_reply("Extra verification needed: a passkey.", INBOX).shown
        ),
        "step-up-no-address": lambda: build_private_reply("It takes a passkey.", "").shown,
        "login": lambda: build_private_reply("This link signs you in to the inbox.", INBOX).shown,
    }


def modals() -> dict[str, ui.Modal]:
    """Return every modal."""
    pending, money = states.RECORDS["pending"], states.RECORDS["pending-number"]
    brief = card_of(pending, lines=10, chars=700)
    about = render_about(brief)
    number = next(one for one in _whole(money).controls if one.number)
    git = states.RECORDS["pending-git"]
    made = {
        action.value: build_modal(action, brief, BUTTON, about=about)
        for action in (Action.DENY, Action.ABORT, Action.RESPOND)
    }
    remember = {f"remember-{way}": _remember(git, way) for way in ("approve", "pass", "deny")}
    edits = {
        name: build_edit_modal(record, _whole(record), BUTTON, {})
        for name, record in (("edit", pending), ("edit-money", states.PAYMENT))
    }
    as_json = build_edit_modal(pending, _whole(pending), BUTTON, _whole(pending).editable or "")
    return {
        **made,
        **remember,
        **edits,
        "edit-json": as_json,
        "answer": build_modal(Action.ANSWER, _whole(states.RECORDS["question"]), BUTTON),
        "number": build_number_modal(number, BUTTON, 0, about=render_about(_sized(money))),
    }


def _remember(record: StoredRequest, way: str) -> ui.Modal:
    action = Action.DENY if way == Action.DENY.value else Action.APPROVE
    made = build_remember_modal(
        way, scopes_of(record, action, passes=True), record.request.session, BUTTON
    )
    assert made is not None
    return made


def _sized(record: StoredRequest) -> Card:
    return card_of(record, lines=CARD_LINES, chars=CARD_CHARS)


def _led(name: str) -> Card:
    return replace(_sized(states.RECORDS[name]), inbox=INBOX)


def _whole(record: StoredRequest) -> Card:
    return card_of(record, lines=EVERYTHING, chars=EVERYTHING)


def _card(record: StoredRequest) -> MessageContent:
    return build_card_view(_sized(record), COPY)


def _page(record: StoredRequest, page: int) -> MessageContent:
    pages = full_view(record, fits=page_fits)
    return build_full_view(_whole(record), pages, BUTTON, page=page)


def _batch(records: tuple[StoredRequest, ...]) -> MessageContent:
    batch = batch_card_of(records, chars=BATCH_CHARS, each=CARD_CHARS)
    return build_batch(keep_drawn(batch), BUTTON, "k" * 11)
