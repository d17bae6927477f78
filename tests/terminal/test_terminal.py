"""The terminal: every key, every state, and what happens elsewhere meanwhile."""

from __future__ import annotations

import stat
from contextlib import nullcontext
from pathlib import Path

import pytest
from textual.widgets import Select

from adapters.terminal.prompts import RememberScreen
from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.domain.risk import RiskRule
from gateway.models import (
    Action,
    Context,
    FieldKind,
    Kind,
    Option,
    Question,
    Reason,
    RiskLevel,
    Status,
)
from gateway.policy.grants.offers import passes_for
from tests.terminal.seat import by_bob, seated, staffed
from tests.world import World

FORM = {
    "kind": Kind.QUESTION,
    "arguments": {},
    "allowed": (Action.ANSWER,),
    "questions": (
        Question(id="name", text="Which name?"),
        Question(id="count", text="How many?", kind=FieldKind.NUMBER),
        Question(id="mail", text="Send mail?", kind=FieldKind.BOOLEAN),
        Question(id="pw", text="Password?", secret=True),
        Question(
            id="when",
            text="When?",
            kind=FieldKind.CHOICES,
            options=(Option(value="day"), Option(value="night")),
        ),
    ),
}


@pytest.fixture(autouse=True)
async def people(world: World) -> None:
    """Let ann and bob answer."""
    await staffed(world)


async def test_yes_approves_what_is_shown(world: World) -> None:
    """One key, and the card is gone from the queue."""
    record = await world.submit(hint="to see the files")
    async with seated(world) as seat:
        await seat.sees("Approval needed", "ls", "to see the files", "unverified", "1 of 1")
        await seat.press("y")
        assert (await seat.ended(record)).status is Status.APPROVED
        await seat.sees("No pending requests")


async def test_no_takes_a_reason(world: World) -> None:
    """The words reach the agent."""
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        await seat.press("n")
        await seat.sees("Message to the agent")
        await seat.type("not today")
        decision = (await seat.ended(record)).decision
    assert decision is not None
    assert (decision.status, decision.message) == (Status.DENIED, "not today")


async def test_another_plan_is_asked_for_by_a_key_of_its_own(world: World) -> None:
    """A denial with words is final; the agent plans again only where somebody says so."""
    denied, planned = await world.submit(), await world.submit(tool="develop")
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        await seat.press("n")
        await seat.sees("Message to the agent")
        await seat.type("no")
        assert _why(await seat.ended(denied)) is Reason.PERSON
        await seat.sees("develop")
        await seat.press("p")
        await seat.sees(
            "Deny, and ask for another plan", "Write what the agent should plan instead"
        )
        await seat.type("")
        await seat.sees("to ask for another plan, type")
        await seat.press("p")
        await seat.sees("Write what the agent should plan instead")
        await seat.type("use the staging server")
        assert _why(await seat.ended(planned)) is Reason.FEEDBACK


def _why(record: StoredRequest) -> Reason:
    assert record.decision is not None
    return record.decision.reason


async def test_escape_takes_nothing(world: World) -> None:
    """A question that is left decides nothing."""
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        await seat.press("n")
        await seat.sees("Message to the agent")
        await seat.press("escape")
        await seat.until(lambda: "Message to the agent" not in seat.text())
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_arrows_walk_the_queue_soonest_first(world: World) -> None:
    """What ends first stands first, though it was asked last; the place is shown, and the walk goes
    round."""
    for name, seconds in (("there", 900), ("here", 300)):
        await world.submit(arguments={"command": name}, timeout=seconds)
    first, second = "here", "there"
    async with seated(world) as seat:
        await seat.sees("1 of 2", f" {first} ")
        await seat.press("right")
        await seat.sees("2 of 2", f" {second} ")
        await seat.press("right")
        await seat.sees("1 of 2", f" {first} ")
        await seat.press("left")
        await seat.sees("2 of 2", f" {second} ")


async def test_high_risk_takes_a_typed_yes(world: World) -> None:
    """Anything else approves nothing."""
    record = await world.submit(arguments={"command": "deploy prod"})
    async with seated(world) as seat:
        await seat.sees("high risk", "touches prod")
        await seat.press("y")
        await seat.sees("Have you read all of it?")
        await seat.type("y")
        await seat.sees("not approved")
        assert (await world.core.requests.get(record.id)).status is Status.PENDING
        await seat.press("y")
        await seat.sees("Have you read all of it?")
        await seat.type("yes")
        assert (await seat.ended(record)).status is Status.APPROVED


async def test_what_was_cut_is_approved_from_the_full_text_only(world: World) -> None:
    """The screen says so, and the end of it is seen first."""
    command = "true\n" * 100 + "rm -rf /"
    record = await world.submit(arguments={"command": command})
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        await seat.press("y")
        await seat.sees("it does not fit here")
        assert (await world.core.requests.get(record.id)).status is Status.PENDING
        await seat.press("f")
        await seat.sees("508 characters")
        await seat.press("end")
        await seat.sees("rm -rf /")
        await seat.press("y")
        assert (await seat.ended(record)).status is Status.APPROVED


async def test_an_edit_is_shown_as_a_diff_before_it_is_sent(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person's own editor, the difference, a typed yes; what runs is the edited text."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/ls/ls -l/' \"$1\"\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", str(editor))
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        monkeypatch.setattr(type(seat.screen), "suspend", _not_suspended)
        await seat.press("e")
        await seat.sees("Approve with these changes?", '+   "command": "ls -l"')
        await seat.type("yes")
        decision = (await seat.ended(record)).decision
    assert decision is not None
    assert (decision.action, decision.arguments) == (Action.EDIT, {"command": "ls -l"})


async def test_an_edit_that_makes_it_high_risk_is_confirmed_as_such(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first yes was to less than that; a second one is typed below what it is now."""
    rule = RiskRule(name="r", level=RiskLevel.HIGH, reason="deletes", contains=("rm -rf",))
    await world.put(risks=(rule,))
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/ls/rm -rf x/' \"$1\"\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", str(editor))
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        monkeypatch.setattr(type(seat.screen), "suspend", _not_suspended)
        await seat.press("e")
        await seat.sees("Approve with these changes?", '+   "command": "rm -rf x"')
        await seat.type("yes")
        await seat.sees("With these changes the risk is high", '+   "command": "rm -rf x"')
        assert (await world.core.requests.get(record.id)).status is Status.PENDING
        await seat.type("yes")
        assert (await seat.ended(record)).status is Status.APPROVED


async def test_what_fails_is_told_and_ends_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor that is not there, then a request that is gone: the screen goes on."""
    monkeypatch.setenv("VISUAL", "/nowhere/editor")
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        monkeypatch.setattr(type(seat.screen), "suspend", _not_suspended)
        await seat.press("e")
        await seat.sees("it failed", "/nowhere/editor")
        await world.store.redis.delete(world.store.keys.record(record.id))
        await world.submit(arguments={"command": "pwd"})
        await seat.sees(
            "this view is not up to date",
            "pwd",
        )


async def test_a_form_is_answered(world: World) -> None:
    """Text, number, tick, a secret and choices; the secret is not in the record."""
    record = await world.submit(**FORM)
    async with seated(world) as seat:
        await seat.sees("Question", "Which name?")
        await seat.press("y")
        await seat.sees("Password?")
        await seat.press("ctrl+s")
        await seat.sees("this field needs an answer")
        for words in ("Aurora", "3"):
            await seat.press(*words, "tab")
        await seat.press("space", "tab", *"hunter2", "tab", "down", "space", "ctrl+s")
        decision = (await seat.ended(record)).decision
        assert "hunter2" not in seat.text()
    assert decision is not None
    assert decision.answers == {
        "name": "Aurora",
        "count": 3,
        "mail": True,
        "pw": None,
        "when": ["night"],
    }
    assert await world.store.secrets(record.id) == {"pw": "hunter2"}


async def test_several_leaves_out_what_needs_a_look(world: World) -> None:
    """High risk, cut and questions stay; the others are listed before they are approved."""
    plain = [await world.submit(arguments={"command": f"echo {n}"}) for n in range(3)]
    risky = await world.submit(arguments={"command": "deploy prod"})
    long = await world.submit(arguments={"command": "x\n" * 500})
    asked = await world.submit(**FORM)
    # Those of one millisecond stand in the order of their ids.
    oldest = sorted(plain, key=lambda one: (one.created, one.id))
    commands = [one.arguments["command"] for one in oldest]
    async with seated(world) as seat:
        await seat.sees("1 of 6")
        await seat.press("a")
        await seat.sees("Approve how many?")
        await seat.type("2")
        await seat.sees("Approve these 2?", *commands[:2])
        await seat.type("yes")
        await seat.sees("of 4")
        await seat.press("a")
        await seat.type("")
        await seat.sees("Approve these 1?", commands[2])
        await seat.type("yes")
        await seat.sees("of 3")
    for one in plain:
        assert (await world.core.requests.get(one.id)).status is Status.APPROVED
    for one in (risky, long, asked):
        assert (await world.core.requests.get(one.id)).status is Status.PENDING


async def test_a_question_is_withdrawn_when_it_was_decided_elsewhere(world: World) -> None:
    """The open prompt goes away, and the person hears who decided."""
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        await seat.press("n")
        await seat.sees("Message to the agent")
        await by_bob(world, record)
        await seat.sees("approved by bob", "No pending requests")
        assert "Message to the agent" not in seat.text()


async def test_two_terminals_make_one_decision(world: World) -> None:
    """Whoever is later is told the truth."""
    record = await world.submit()
    async with seated(world) as ann, seated(world, "bob") as bob:
        await ann.sees("Approval needed")
        await bob.sees("Approval needed")
        await ann.press("y")
        await ann.ended(record)
        await bob.sees("approved by ann", "No pending requests")
    ended = [event for event in await world.events(record.id) if event.type == "approved"]
    assert len(ended) == 1


async def test_a_claim_is_seen_by_others(world: World) -> None:
    """`k` says so, and again takes it back."""
    await world.submit()
    async with seated(world) as ann, seated(world, "bob") as bob:
        await ann.sees("Approval needed")
        await ann.press("k")
        await bob.sees("ann is looking at it")
        await ann.sees("ann is looking at it")
        await ann.press("k")
        await bob.until(lambda: "ann is looking" not in bob.text())


async def test_whoever_may_not_decide_is_told(world: World) -> None:
    """The screen says so, and a key changes nothing but the audit."""
    record = await world.submit()
    async with seated(world, "eve") as seat:
        await seat.sees("You can read this request but", "not an approver", "You are terminal:eve")
        await seat.press("y")
        await seat.sees("you are not an approver")
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
    assert [event for event in await world.events() if event.type == "refused"]


async def test_after_my_vote_the_terminal_says_who_is_missing(world: World) -> None:
    """Approving again is answered with that sentence and changes nothing; neither does approving
    several. Denying is still possible."""
    await staffed(world, approvers=("ann", "bob"), quorum=2)
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("0 of 2 approvals")
        await seat.press("y")
        await seat.sees("You approved; waits for 1 more: bob")
        await seat.press("y")
        await seat.press("a")
        await seat.sees("each of these requests needs")
        now = await world.core.requests.get(record.id)
        assert (len(now.votes), now.revision) == (1, 2)
        assert not [event for event in await world.events() if event.type == "refused"]
        await seat.press("n")
        await seat.type("no")
        assert (await seat.ended(record)).status is Status.DENIED


async def test_the_terminal_offers_no_approval_that_nobody_may_give(world: World) -> None:
    """The route names no approvers: the card and the key say so."""
    await staffed(world, approvers=())
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("Nobody may approve this: its route has no approvers.")
        await seat.press("y")
        await seat.press("e")
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_a_removed_approver_is_out_at_the_next_key(world: World) -> None:
    """The policy is read at the click, not when the screen was drawn."""
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        await staffed(world, name="default", mode="ask", quorum=1)
        now = await world.store.policy()
        routes = tuple(type(one)(name="default", approvers=("bob",)) for one in now.routes)
        await world.store.apply(
            type(now)(generation=now.generation, people=now.people, routes=routes), by="test"
        )
        await seat.press("y")
        await seat.sees("you are not an approver")
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


@pytest.mark.parametrize(
    "evil",
    ["\x1b[2J\x1b[31mred", "[bold red]Approved by ann[/]", "a\u202eb", "\u200b", "\x07bell"],
)
async def test_hostile_text_is_shown_and_does_nothing(world: World, evil: str) -> None:
    """Escape sequences, the library's own markup, and characters without ink."""
    await world.submit(
        arguments={"command": f"ls {evil}"},
        hint=evil,
        tool=f"shell {evil}".replace("\x1b", "").replace("\x07", ""),
        context=Context(cwd=f"/srv/{evil}"),
    )
    async with seated(world, size=(120, 50)) as seat:
        await seat.sees("Approval needed", evil if evil.isprintable() else "U+")
        text = seat.text()
    assert not {"\x1b", "\x07", "\u202e", "\u200b"} & set(text)


async def test_an_approval_is_remembered_as_chosen(world: World) -> None:
    """The narrowest scope stands first; the next of its kind is not asked."""
    record = await world.submit(arguments={"command": "git status"})
    async with seated(world, size=(100, 44)) as seat:
        await seat.sees("Approval needed")
        await seat.press("r")
        await seat.sees('exactly this: "git status"', "how long")
        await seat.press("ctrl+s")
        assert (await seat.ended(record)).status is Status.APPROVED
        await world.until(lambda events: "grant_made" in {event.type for event in events})
        again = await world.submit(arguments={"command": "git status"})
    assert again.decision is not None
    assert (again.status, again.decision.reason) == (Status.APPROVED, Reason.GRANT)


async def test_a_pass_is_given_at_the_terminal(world: World) -> None:
    """It is the last of the scopes; the session's next request is let through, and `g` shows it."""
    record = await world.submit(arguments={"command": "git status"})
    async with seated(world, size=(100, 60)) as seat:
        await seat.sees("Approval needed")
        await seat.press("r")
        await seat.sees("a pass, 8 hours at most: running the project")
        asking = seat.screen.screen
        assert isinstance(asking, RememberScreen)
        await seat.press(*["down"] * (len(asking.what.values) - 1), "space")
        assert asking.what.chosen == [passes_for(record)[-1].id]
        list(asking.query(Select))[-1].value = "next5"
        await seat.press("ctrl+s")
        assert (await seat.ended(record)).status is Status.APPROVED
        await world.until(lambda events: "grant_made" in {event.type for event in events})
        again = await world.submit(tool="bash", arguments={"command": "ls"})
        assert again.status is Status.APPROVED
        await seat.press("g")
        await seat.sees("Session let through", "until ", "used 1 of 5 times")


async def test_who_may_not_give_a_pass_sees_none_at_the_terminal(world: World) -> None:
    """Ann answers for one tool of the agent alone."""
    routes = (
        Route(tools=("shell",), approvers=("ann",), targets=("terminal",)),
        Route(approvers=("bob",), targets=("terminal",)),
    )
    await world.put(routes=routes)
    await world.submit(tool="shell", arguments={"command": "git status"})
    async with seated(world, size=(100, 60)) as seat:
        await seat.sees("Approval needed")
        await seat.press("r")
        await seat.sees("exactly this: ", "how long")
        assert "a pass" not in seat.text()


async def test_high_risk_is_never_remembered(world: World) -> None:
    """There is nothing to choose."""
    record = await world.submit(arguments={"command": "deploy prod"})
    async with seated(world) as seat:
        await seat.sees("high risk")
        await seat.press("r")
        await seat.sees("requires approval each time")
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_a_long_line_is_folded_not_lost(world: World) -> None:
    """What stands at the right end of a line is seen."""
    await world.submit(kind=Kind.COMMAND, arguments={"command": "echo " + "x " * 120 + ";rm"})
    async with seated(world) as seat:
        await seat.sees("Approval needed", ";rm")


async def test_copy_takes_what_would_run(world: World) -> None:
    """The clipboard gets the shown text, secrets masked."""
    await world.submit(arguments={"command": "curl -H 'Authorization: Bearer abcdefghijkl0123'"})
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        await seat.press("c")
        await seat.sees("copied")
        assert "secret of 16 characters" in seat.screen.clipboard
        assert "abcdefghijkl0123" not in seat.screen.clipboard


@pytest.mark.parametrize("columns", [45, 80])
async def test_the_keys_at_the_foot_are_whole(world: World, columns: int) -> None:
    """The last of them too; the others are told by `?`. What does nothing is not listed."""
    async with seated(world) as seat:
        await seat.pilot.resize_terminal(columns, 24)
        await seat.sees("No pending requests", " ? help  q quit ")
        assert "approve" not in seat.text()
        await world.submit()
        await seat.sees("Approval needed", " y approve  n deny  f read ", " ? more  q quit ")


async def test_a_gateway_that_is_gone_is_told_until_it_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first line, and at each key, which decides nothing; then all is looked at anew."""
    monkeypatch.setattr("adapters.terminal.screen._LOOK_SECONDS", 0.3)
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("Approval needed", "1 of 1 pending")
        await world.store.redis.client_pause(3000, all=True)
        await seat.sees("The gateway does not answer")
        await seat.press("y")
        await seat.sees("you typed nothing, so nothing was done")
        await seat.sees("1 of 1 pending")
        assert (await world.core.requests.get(record.id)).status is Status.PENDING
        await seat.press("y")
        assert (await seat.ended(record)).status is Status.APPROVED


async def test_help_lists_the_keys(world: World) -> None:
    """`?` shows what each key does."""
    async with seated(world) as seat:
        await seat.press("question_mark")
        await seat.sees("approve several", "High risk needs a confirmation")


async def test_a_new_request_rings(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bell sounds for what is new, not for what ends."""
    rung: list[StoredRequest | None] = []
    async with seated(world) as seat:
        monkeypatch.setattr(seat.screen, "bell", lambda: rung.append(seat.screen.record))
        await seat.sees("No pending requests")
        record = await world.submit()
        await seat.sees("Approval needed")
        await by_bob(world, record)
        await seat.sees("No pending requests")
    assert len(rung) == 1


def _not_suspended(screen: object) -> object:
    """Stand in for leaving the screen to the editor: the test's terminal cannot be left."""
    return nullcontext()


async def test_a_tick_after_the_end_is_no_error(world: World) -> None:
    """A timer may come once more when the screen is gone; nobody is shown a traceback for it."""
    async with seated(world) as seat:
        await seat.sees("No pending requests")
        screen = seat.screen
    screen._draw()
    assert not screen.screen_stack
