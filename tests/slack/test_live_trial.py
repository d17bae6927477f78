"""`gateway doctor --live --with-me` in Slack: what comes back, five acts, and nothing left over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from adapters.slack import SlackAdapter
from adapters.slack.live_trial import make_sample_views
from adapters.slack.payloads import ANSWER_SHORTCUT
from gateway.chat import rehearsal
from gateway.ports import Finding
from gateway.ports.adapters import FAIL, OK, WARN
from tests.operator import Operator, kept_words
from tests.slack import states
from tests.slack.counterpart import methods, views
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.person import Human
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import environment, form
from tests.waiting import moment

DIRECT = "DANN"


@pytest.fixture
async def ann(slack: Slack) -> AsyncIterator[Operator]:
    """Yield ann at her terminal and at her client, who does all that she is asked for."""
    human, made = slack.person("UANN"), Operator("T1/UANN")

    async def deny() -> None:
        await human.click(card(slack), "Deny…")
        await form(human, "deny")
        human.fill("Reason, for the agent", "hunter2 of the Team T1")
        await human.submit()

    made.does = {
        "More…": lambda: human.click(card(slack), "More…"),
        "Deny…": deny,
        "/approvals list": lambda: human.slash("/approvals", "list", "C1"),
        "menu": lambda: human.shortcut(card(slack), ANSWER_SHORTCUT),
        "Press Approve": lambda: human.click(card(slack), "Approve"),
    }
    yield made
    await made.stop()


def card(slack: Slack) -> Message:
    """Return the card in ann's direct messages."""
    return slack.messages(DIRECT)[-1]


def left(slack: Slack) -> list[Message]:
    """Return the messages of the trial that are still there."""
    return list(slack.workspace().channel(DIRECT).messages.values())


async def tried(slack: Slack, operator: Operator, **env: str) -> list[Finding]:
    """Return what the trial found."""
    notes: Any = None
    with environment(slack, **env):
        found = await SlackAdapter().checks({}, notes, live=False, trial=operator.trial)
    return [one for name, one in found if name == "slack live"]


async def test_all_is_well(slack: Slack, ann: Operator) -> None:
    """Each card and modal comes back as it was sent, each act is ticked off; nothing is left."""
    echoed, acted = await tried(slack, ann)
    assert (echoed.result, echoed.says) == (
        OK,
        "4 cards, their edits, and 13 modals: the platform returned everything as sent",
    )
    assert (acted.result, acted.says) == (OK, "5 actions arrived and were answered")
    assert ann.ticked == 5
    assert left(slack) == []
    posted = slack.state.called("chat.postMessage")
    assert {one["channel"] for one in posted} == {"UANN"}
    assert slack.state.called("conversations.open") == []  # it takes a scope that we lack
    human = slack.person("UANN")
    assert "gateway doctor" in human.private()[-1]
    assert "The gateway fills this tab" in json.dumps(human.home)
    assert slack.sockets.open == []


def test_every_modal_is_tried() -> None:
    """Of all that there are, and none with a number, which a Home tab does not take."""
    made = make_sample_views()
    kinds = {view["callback_id"] for view in states.views().values() if view["type"] == "modal"}
    assert {view["callback_id"] for view in made.values()} == kinds
    assert "number_input" not in json.dumps(made)


async def test_what_slack_changes_is_told(
    slack: Slack, ann: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where, and to what, of cards and of modals; what Slack adds is no change."""

    def changing(shown: Callable[..., Any]) -> Callable[..., Any]:
        def change(*given: Any) -> Any:
            value = json.loads(json.dumps(shown(*given)).replace(r"\ud83d\ude00", ":grinning:"))
            for block in value["blocks"]:
                block["added"] = "by Slack"
            return value

        return change

    monkeypatch.setattr(methods, "shown", changing(methods.shown))
    monkeypatch.setattr(views, "shown", changing(views.shown))
    echoed, _ = await tried(slack, ann)
    assert echoed.result == WARN
    assert "changed blocks[" in echoed.says and ":grinning:" in echoed.says
    assert "added" not in echoed.says
    assert left(slack) == []


async def test_a_block_that_is_dropped_is_told(
    slack: Slack, ann: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where Slack's answer to an edit has no blocks at all."""
    shown = methods.shown
    monkeypatch.setattr(methods, "shown", lambda *given: {**shown(*given), "blocks": []})
    echoed, _ = await tried(slack, ann)
    assert (echoed.result, "to '[]'" in echoed.says) == (WARN, True)


async def test_a_card_that_slack_refuses_is_told(slack: Slack, ann: Operator) -> None:
    """The card that it refuses to edit is deleted, and the acts are asked for all the same."""
    slack.faults.plan("chat.update", Fault.ERROR, error="block_mismatch")
    echoed, acted = await tried(slack, ann)
    assert (echoed.result, echoed.says) == (
        FAIL,
        "with you: Slack returned the error block_mismatch",
    )
    assert acted.result == OK
    assert left(slack) == []


async def test_a_modal_that_slack_refuses_leaves_no_tab(slack: Slack, ann: Operator) -> None:
    """The Home tab says where to look, whatever was published before."""
    slack.faults.plan("views.publish", Fault.ERROR, error="invalid_blocks")
    echoed, _ = await tried(slack, ann)
    assert (echoed.result, "invalid_blocks" in echoed.says) == (FAIL, True)
    assert "The gateway fills this tab" in json.dumps(slack.person("UANN").home)


async def test_an_act_that_never_comes(
    slack: Slack, ann: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named with its time limit; the others are ticked off, and the card is deleted."""
    monkeypatch.setattr(rehearsal, "ACT_SECONDS", 3)
    del ann.does["menu"]
    _, acted = await tried(slack, ann)
    assert acted.result == FAIL
    assert acted.says.startswith("1 of 5 acts: Choose “Answer this request” in the card's menu")
    assert "no click arrived within 3 s" in acted.says
    assert ann.ticked == 4
    assert left(slack) == []


async def test_a_form_that_opens_and_is_not_submitted(
    slack: Slack, ann: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deny… alone is half of the act."""
    monkeypatch.setattr(rehearsal, "ACT_SECONDS", 2)
    human = slack.person("UANN")
    ann.does = {"Deny…": lambda: human.click(card(slack), "Deny…")}
    _, acted = await tried(slack, ann)
    assert acted.says.startswith("5 of 5 acts")
    assert human.modal.view["callback_id"] == "deny"


async def test_slack_takes_no_form(slack: Slack, ann: Operator) -> None:
    """The act came, and its answer is what failed."""
    slack.faults.plan("views.open", Fault.ERROR, error="expired_trigger_id")
    _, acted = await tried(slack, ann)
    assert acted.says.startswith("1 of 5 acts: Press More… on the card")
    assert "(Slack returned the error expired_trigger_id)" in acted.says


async def test_what_the_wrong_person_does_counts_for_nothing(
    slack: Slack, ann: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it answered, also with ann's very buttons; nor what ann does on another card."""
    monkeypatch.setattr(rehearsal, "ACT_SECONDS", 1)
    bob = slack.person("UBOB")
    slack.workspace().channel("C1").messages["1.1"] = Message(ts="1.1", user="UBOTT1", text="x")

    async def press(human: Human, label: str, place: str = DIRECT) -> None:
        message = card(slack)
        block, button = human._button(message.blocks, label)
        other = message if place == DIRECT else slack.messages("C1")[0]
        payload = human.payloads.on_message(place, other, block, button)
        await human.deliveries.interaction(payload)

    ann.does = {
        "More…": lambda: press(bob, "More…"),
        "/approvals list": lambda: bob.slash("/approvals", "list", "C1"),
        "Press Approve": lambda: press(slack.person("UANN"), "Approve", "C1"),
    }
    _, acted = await tried(slack, ann)
    assert acted.says.startswith("5 of 5 acts")
    assert (bob.has_modal, bob.private(), slack.deliveries.acks) == (False, [], [])
    assert [one.edits for one in slack.messages("C1")] == [0]


async def test_another_program_with_the_same_token(slack: Slack, ann: Operator) -> None:
    """It would get some of the acts: nothing is asked for."""
    ticket = slack.sockets.ticket(slack.url)
    async with aiohttp.ClientSession() as session, session.ws_connect(ticket):
        _, acted = await tried(slack, ann)
    assert (acted.result, "another program receives" in acted.says) == (FAIL, True)
    assert "gateway down" in acted.remedy
    assert ann.lines == []


async def test_socket_mode_that_is_off(slack: Slack, ann: Operator) -> None:
    """Slack's reason is told."""
    slack.sockets.off = True
    _, acted = await tried(slack, ann)
    assert (acted.result, "link_disabled" in acted.says) == (FAIL, True)


async def test_over_http_the_acts_are_left_to_a_gateway(slack: Slack, ann: Operator) -> None:
    """Blocks are compared; nothing is asked for that could not come."""
    echoed, acted = await tried(
        slack, ann, GATEWAY_SLACK_MODE="http", GATEWAY_PUBLIC_URL="https://a.example"
    )
    assert (echoed.result, acted.result, ann.lines) == (OK, WARN, [])


async def test_an_account_of_another_workspace(slack: Slack, ann: Operator) -> None:
    """There is no token for it, and nothing is posted."""
    ann.user = "T7/UANN"
    (found,) = await tried(slack, ann)
    assert (found.result, "no token for T7" in found.says) == (FAIL, True)
    assert slack.state.called("chat.postMessage") == []


@pytest.mark.parametrize("method", ["chat.update", "views.publish"])
async def test_interrupted_while_slack_is_slow(slack: Slack, ann: Operator, method: str) -> None:
    """What was posted is deleted, and the Home tab says where to look."""
    slack.faults.plan(method, Fault.HANGS)
    running = asyncio.create_task(tried(slack, ann))
    await slack.until(lambda: slack.faults.happened)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert left(slack) == []
    if method == "views.publish":
        assert "The gateway fills this tab" in json.dumps(slack.person("UANN").home)


async def test_interrupted_while_it_waits_for_an_act(slack: Slack, ann: Operator) -> None:
    """The card goes away with the question."""
    ann.does = {}
    running = asyncio.create_task(tried(slack, ann))
    while not ann.lines:
        await moment()
    assert len(left(slack)) == 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert left(slack) == []


async def test_no_token_id_or_name_is_recorded(slack: Slack, ann: Operator, tmp_path: Path) -> None:
    """Nor what was typed; what was shown, and what Slack says in its own words, is."""
    slack.person("UANN").user.real_name = "Ann Smith"
    ann.recording.add("got", {"account": ["ann", "T1", "UANN"]})  # as doctor does
    await tried(slack, ann)
    path = tmp_path / "exchange.jsonl"
    ann.recording.save(path)
    state, workspace = slack.state, slack.workspace()
    secret = [workspace.bot_token, state.app_token, "hunter2", *state.triggers]
    ids = [workspace.id, workspace.bot_user, workspace.bot_id, state.app_id, "UANN", DIRECT, "C1"]
    names = ["ann", "Ann Smith", "Team T1", "t1", slack.url, "directmessage"]
    assert kept_words(path, [*secret, *ids, *names, "1790000000"]) == []
    assert "response/" not in path.read_text(encoding="utf-8")
    lines = [json.loads(one) for one in path.read_text(encoding="utf-8").splitlines()]
    assert {one["what"].get("type") for one in lines} >= {"interactive", "slash_commands"}
    sent = [one["what"] for one in lines if one["what"].get("method") == "chat_postMessage"]
    assert sent[0]["blocks"][-1]["elements"][0]["text"]["text"] == "Approve"
    assert path.stat().st_mode & 0o777 == 0o600
