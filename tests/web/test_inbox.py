"""What people do in the inbox, in a real Chromium against a whole gateway."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.cards.shared_texts import ANOTHER_PLAN
from gateway.domain.policy_document import Budget
from gateway.domain.store import MessageContext
from gateway.models import (
    Action,
    Execution,
    FieldKind,
    Option,
    Question,
    Reason,
    Report,
    Status,
)
from tests.web.chromium import Browser, Page, visiting
from tests.web.inbox import (
    AGENT,
    COMMAND,
    FILE_CHANGE,
    HIGH_RISK,
    LONG,
    MASKED,
    QUESTION,
    SECRET,
    Inbox,
    card,
    read_on,
    see,
)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


async def test_a_request_arrives_and_one_tap_approves_it(box: Inbox, page: Page) -> None:
    """Live, with the exact command; after the tap the buttons are gone and it says who decided."""
    await page.until("document.querySelector('.empty')")
    record = await box.ask(**COMMAND)
    await page.until(f"{card(record)}.querySelector('pre').textContent.includes('--delete build/')")
    assert await page.evaluate(f"{card(record)}.textContent.includes('unverified')")
    await page.press("Approve")
    await page.until(f"{card(record)}.textContent.includes('Approved by ann')")
    assert await page.evaluate(f"{card(record)}.querySelectorAll('.controls').length") == 0
    assert (await box.get(record)).status is Status.APPROVED


async def test_deny_with_a_reason_and_a_note_for_the_record(box: Inbox, page: Page) -> None:
    """The words reach the agent's decision; the note stays in the record."""
    record = await box.ask(**COMMAND)
    await see(page, record)
    await page.press("More…")
    await page.evaluate(f"{card(record)}.querySelector('.note').open = true")
    await page.fill("[data-key=note]", "ticket 4711")
    await page.press("Deny with a reason")
    await page.fill("[data-key=reason]", "not on a Friday")
    await page.press("Deny", f"{card(record)}.querySelector('.panel')")
    await page.until(f"{card(record)}.textContent.includes('not on a Friday')")
    found = await box.get(record)
    assert found.decision is not None
    assert (found.decision.status, found.decision.message) == (Status.DENIED, "not on a Friday")
    assert found.note == "ticket 4711"
    assert "ticket" not in str(found.decision)


async def test_ask_for_another_plan(box: Inbox, page: Page) -> None:
    """A no with words to plan anew is told apart from a plain no."""
    record = await box.ask(**COMMAND)
    await page.press("Deny with a reason")
    await page.fill("[data-key=reason]", "use the blue servers")
    await page.press(ANOTHER_PLAN)
    await page.until(f"{card(record)}.textContent.includes('asks for another plan')")
    decision = (await box.get(record)).decision
    assert decision is not None
    assert decision.reason == "feedback"


@pytest.mark.parametrize("what", ["turn", "agent"])
async def test_deny_and_stop(box: Inbox, page: Page, what: str) -> None:
    """It is said what is stopped: the turn or the agent."""
    record = await box.ask(**COMMAND)
    await page.press("Deny and stop")
    await page.press(f"Deny and stop the {what}")
    await page.until(f"{card(record)}.classList.contains('denied')")
    decision = (await box.get(record)).decision
    assert decision is not None
    assert (decision.action, decision.abort) == (Action.ABORT, what)


async def test_respond_instead(box: Inbox, page: Page) -> None:
    """The agent gets the words as the result, and runs nothing."""
    record = await box.ask(**COMMAND)
    await page.press("Respond instead")
    await page.fill("[data-key=respond]", "it is live already")
    await page.press("Send")
    await page.until(f"{card(record)}.classList.contains('approved')")
    decision = (await box.get(record)).decision
    assert decision is not None
    assert (decision.action, decision.result) == (Action.RESPOND, "it is live already")


async def test_an_edit_shows_its_diff_before_it_is_sent(box: Inbox, page: Page) -> None:
    """What changes is seen, and exactly that is approved; a later keystroke takes it back."""
    record = await box.ask(tool="pay", arguments={"amount": 900})
    await page.press("Edit")
    await page.press("As JSON")
    await page.fill("[data-key=edit]", '{"amount": 9')
    await page.press("Show the changes")
    await page.until(f"{card(record)}.textContent.includes('This is not JSON')")
    await page.fill("[data-key=edit]", '{"amount": 80}')
    await page.press("Show the changes")
    await page.until(f"{card(record)}.querySelector('.panel .added')")
    await page.fill("[data-key=edit]", '{"amount": 90}')
    assert not await page.evaluate(f"Boolean({card(record)}.querySelector('.panel .added'))")
    await page.press("Show the changes")
    await page.press("Approve with these changes")
    await page.until(f"{card(record)}.classList.contains('approved')")
    decision = (await box.get(record)).decision
    assert decision is not None
    assert decision.arguments == {"amount": 90}


async def test_a_high_risk_needs_a_second_tap(box: Inbox, page: Page) -> None:
    """The first tap asks; only the second decides; Back decides nothing."""
    record = await box.ask(**HIGH_RISK)
    await page.press("Review…")
    await page.until(f"{card(record)}.textContent.includes('Have you read all of it?')")
    await page.press("Back")
    await page.press("Review…")
    assert (await box.get(record)).status is Status.PENDING
    await page.press("Yes, approve")
    await page.until(f"{card(record)}.classList.contains('approved')")


@pytest.mark.parametrize(("chosen", "mail"), [("", {}), ("false", {"mail": False})])
async def test_a_form_is_answered(
    box: Inbox, page: Page, chosen: str, mail: dict[str, bool]
) -> None:
    """Every kind of field, and the secret one is not in the record. Where nobody said yes or no,
    nobody answered no."""
    record = await box.ask(**QUESTION)
    await page.fill(".card input[type=text]", "Aurora")
    await page.fill("input[type=number]", "3")
    await page.fill("input[type=password]", "hunter2")
    select = f"{card(record)}.querySelector('select')"
    await page.evaluate(f"{select}.value = 'night'; {select}.dispatchEvent(new Event('change'))")
    tells = f"{card(record)}.querySelectorAll('select')[1]"
    await page.evaluate(f"{tells}.value = '{chosen}'; {tells}.dispatchEvent(new Event('change'))")
    await page.press("Send answer")
    await page.until(f"{card(record)}.classList.contains('approved')")
    decision = (await box.get(record)).decision
    assert decision is not None
    assert decision.answers == {"name": "Aurora", "when": "night", "count": 3, "key": None, **mail}
    assert "hunter2" not in await page.evaluate("document.body.innerHTML")
    rows = f"[...{card(record)}.querySelectorAll('.answers div')]"
    assert await page.evaluate(
        f"{rows}.map((one) => [...one.children].map((x) => x.textContent))"
    ) == [
        ["What should the release be called?", "Aurora"],
        ["When?", "Tonight"],
        ["How many servers?", "3"],
        ["Tell the customers", "no" if mail else "Not answered"],
        ["Deploy key", "A secret was entered; only the agent gets it"],
    ]
    state = await page.evaluate(f"{card(record)}.querySelector('.state').textContent")
    assert state == "✅ Answered by ann"


async def test_long_text_must_be_opened_before_approving(box: Inbox, page: Page) -> None:
    """The cut is said, there is no Approve until the whole was shown, and its end is there."""
    record = await box.ask(**LONG)
    await page.until(f"{card(record)}.textContent.includes('Open everything before you approve')")
    assert not await page.evaluate(f"Boolean({card(record)}.querySelector('.approve'))")
    await page.press("Open everything")
    await page.until(f"{card(record)}.textContent.includes('a = 8999;')")
    await read_on(page, record)
    await page.press("Approve")
    await page.until(f"{card(record)}.classList.contains('approved')")


async def test_secrets_are_revealed_to_those_who_may_and_that_is_written_down(
    box: Inbox, page: Page
) -> None:
    """Masked until then, masked again after a change; an edit as JSON needs the reveal first."""
    record = await box.ask(**MASKED)
    await page.until(f"{card(record)}.textContent.includes('⟨secret of')")
    assert SECRET not in await page.evaluate("document.body.innerHTML")
    await page.press("Edit")
    await page.press("As JSON")
    await page.until(f"{card(record)}.textContent.includes('Reveal them to edit')")
    assert await box.events("revealed") == []
    await page.press("Reveal secrets", f"{card(record)}.querySelector('.panel')")
    await page.until(f"{card(record)}.querySelector('[data-key=edit]').value.includes('{SECRET}')")
    assert await page.evaluate(
        f"{card(record)}.querySelector('pre').textContent.includes('{SECRET}')"
    )
    (event,) = await box.events("revealed")
    assert (event.data["person"], event.data["request_id"]) == ("ann", record.id)
    await box.claim(record)
    await page.until(f"{card(record)}.textContent.includes('bob is looking at it')")
    assert not await page.evaluate(
        f"{card(record)}.querySelector('pre').textContent.includes('{SECRET}')"
    )


async def test_a_claim_is_shown_to_others(box: Inbox, page: Page, browser_address: str) -> None:
    """One says that they look; the other's page says who, and follows when they stop."""
    record = await box.ask(**COMMAND)
    async with visiting(browser_address) as other:
        second = await other.tab()
        await box.sign_in(second, "bob")
        await page.press("I'm looking")
        await page.until(f"{card(record)}.textContent.includes('You are looking at it')")
        await second.until(f"{card(record)}.textContent.includes('ann is looking at it')")
        await page.press("No longer looking")
        await second.until(f"!{card(record)}.textContent.includes('looking at it')")


async def test_a_quorum_counts_people(box: Inbox, page: Page) -> None:
    """After one of two it waits on, tells me so, names who is missing, and has no Approve for me;
    the final card names both."""
    await box.route(quorum=2)
    record = await box.ask(**COMMAND)
    approve = f"{card(record)}.querySelector('button.approve')"
    await page.until(f"{card(record)}.textContent.includes('0 of 2 approvals')")
    await page.press("Approve")
    await page.until(f"{card(record)}.textContent.includes('You approved; waits for 1 more: bob')")
    await page.until(f"!{approve}")
    assert await page.evaluate(f"Boolean({card(record)}.querySelector('button.deny'))")
    await box.decide(record)
    await page.until(f"{card(record)}.textContent.includes('Approved by ann and bob')")


async def test_what_nobody_may_approve_has_no_approve(box: Inbox, page: Page) -> None:
    """The route names no approvers: the card says so."""
    await box.route(approvers=())
    record = await box.ask(**COMMAND)
    await see(page, record)
    assert await page.evaluate(f"{card(record)}.textContent.includes('Cannot be approved')")
    said = "Its route has no approvers."
    await page.until(f"{card(record)}.textContent.includes('{said}')")
    assert not await page.evaluate(f"Boolean({card(record)}.querySelector('button.approve'))")


async def test_a_decision_made_elsewhere_is_shown(box: Inbox, page: Page) -> None:
    """The card follows whoever decides, wherever."""
    record = await box.ask(**FILE_CHANGE)
    await see(page, record)
    await box.decide(record)
    await page.until(f"{card(record)}.textContent.includes('Approved by bob')")


async def test_the_queue_says_how_many_wait(box: Inbox, page: Page) -> None:
    """The open card has its place, the tab its count, and both follow."""
    first, second = await box.ask(**FILE_CHANGE), await box.ask(**COMMAND)
    await see(page, first)
    await page.until(f"{card(first)}.querySelector('.place').textContent === '1 of 2'")
    await page.until("document.title === '(2) Approvals'")
    await box.decide(second)
    await page.until("document.title === '(1) Approvals'")
    await page.until(f"{card(first)}.querySelector('.place').textContent === ''")


async def test_the_history_tells_what_became_of_it(box: Inbox, page: Page) -> None:
    """Outcome, who, the agent's report and the note; the arguments on demand."""
    record = await box.ask(**COMMAND)
    await box.decide(record, note="seen with eve")
    report = Report(execution=Execution.FAILED, duration_ms=1840, detail="exit status 7")
    await box.gateway.core.approvals.report(record.id, report, MessageContext(agent=AGENT))
    await page.press("History")
    await page.until(f"{card(record)}.textContent.includes('exit status 7')")
    text = await page.evaluate(f"{card(record)}.textContent")
    for part in ("Approved by bob", "seen with eve", "1.8 s"):
        assert part in text
    await page.press("Details")
    await page.until(f"{card(record)}.querySelector('pre.shell').textContent.includes('rsync')")
    await page.press("Show less")
    await page.until(f"!{card(record)}.querySelector('pre')")


async def test_sessions_are_listed_and_ended(box: Inbox, page: Page) -> None:
    """Ending one asks first, and cancels what waits in it."""
    record = await box.ask(**COMMAND, session="night-run")
    await page.press("Sessions")
    await page.until("document.querySelector('.sessions').textContent.includes('night-run')")
    await page.press_twice("End the session night-run of deployer")
    await page.until("document.querySelector('.empty')")
    assert (await box.get(record)).status is Status.CANCELLED


async def test_a_paused_agent_may_be_let_ask_again(box: Inbox, page: Page) -> None:
    """Sessions names whom people denied too often; who may decide there ends it, after one more
    tap."""
    store = box.gateway.backend.store
    policy = await store.policy()
    await store.apply(replace(policy, budgets=(Budget(denials=1),)), by="test")
    box.gateway.core.writer.forget_policy()
    await box.decide(await box.ask(**COMMAND), Action.DENY)
    # Another call: the same one is answered by its denial, paused or not.
    other = {**COMMAND, "session": "other"}
    refused = await box.ask(**other)
    assert refused.decision is not None and refused.decision.reason is Reason.BREAKER
    await page.press("Sessions")
    await page.until("document.querySelector('.sessions').textContent.includes('cool-down')")
    await page.press_twice("Let it ask for deployer")
    await page.until("!document.querySelector('.sessions').textContent.includes('cool-down')")
    await page.press("History")
    await page.until(f"{card(refused)}?.textContent.includes('Denied without asking anybody')")
    assert (await box.ask(**other)).status is Status.PENDING


async def test_identical_requests_are_one_card_that_counts(box: Inbox, page: Page) -> None:
    """The others are not listed; a denial of the one is theirs too."""
    first, second, third = [await box.ask(**COMMAND) for _ in range(3)]
    await page.until(
        f"{card(first)}?.textContent.includes('2 more identical requests are pending')"
    )
    assert not await page.evaluate(f"{card(second)} || {card(third)}")
    await page.press("Deny", card(first))
    await page.until("!document.querySelector('.card.pending')")
    async with box.gateway.core.feed.changes() as changes:
        while not all([(await box.get(one)).final for one in (second, third)]):
            await anext(changes)
    assert (await box.get(third)).status is Status.DENIED


async def test_sound_and_notifications_are_off_until_asked_for(box: Inbox, page: Page) -> None:
    """Off at first; what is chosen is remembered by this browser."""
    states = "['sound', 'notify', 'keys'].map((name) => document.getElementById(name).checked)"
    assert await page.evaluate(states) == [False, False, True]
    await page.evaluate("document.getElementById('sound').click()")
    await page.evaluate("location.reload()")
    await page.until("document.getElementById('sound').checked")
    record = await box.ask(**COMMAND)
    await see(page, record)


async def test_a_notification_that_throws_loses_no_card(box: Inbox, page: Page) -> None:
    """As some browsers do where notifications are for service workers alone; not the next card
    either, which came while the first was read."""
    await page.evaluate(
        "window.Notification = class { constructor() { throw new TypeError('not here'); } };"
        "Notification.permission = 'granted';"
        "Object.defineProperty(document, 'hidden', { get: () => true });"
        "document.getElementById('notify').checked = true;"
        "const real = fetch; window.fetch = async (...all) => {"
        "  await new Promise((done) => setTimeout(done, 400)); return real(...all); }"
    )
    first, second = await box.ask(**COMMAND), await box.ask(**FILE_CHANGE)
    await see(page, first)
    await see(page, second)


async def test_what_is_copied_is_what_is_shown(box: Inbox, browser: Browser, page: Page) -> None:
    """Copying takes the visible text: no hidden character gets onto the clipboard."""
    await browser.control.send(
        "Browser.grantPermissions",
        permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
        browserContextId=browser.context,
    )
    record = await box.ask(**{**COMMAND, "arguments": {"command": "ls\u200b -la"}})
    await see(page, record)
    # That a request came is announced in the same place, and would take the answer's.
    await page.until("/arrived/.test(document.getElementById('announce').textContent)")
    await page.evaluate(f"window.focus(); {card(record)}.querySelector('.copy').click()")
    await page.until("/Copied|Marked/.test(document.getElementById('announce').textContent)")
    said = await page.evaluate("document.getElementById('announce').textContent")
    if said == "Copied.":
        assert await page.evaluate("navigator.clipboard.readText()") == "ls⟨U+200B⟩ -la"
    else:
        assert await page.evaluate("getSelection().toString().trim()") == "ls⟨U+200B⟩ -la"


async def test_hostile_words_of_a_question_are_shown(box: Inbox, page: Page) -> None:
    """Labels and options are an agent's words too."""
    fields = (
        Question(
            id="a",
            text="Pick\u202e one",
            kind=FieldKind.CHOICE,
            options=(Option(value="x", label="Yes\u200b"),),
        ),
    )
    record = await box.ask(**{**QUESTION, "questions": fields})
    text = await page.until(f"{card(record)}.textContent")
    assert "⟨U+202E⟩" in text
    assert "⟨U+200B⟩" in text


async def test_an_edit_has_a_field_for_each_argument(box: Inbox, page: Page) -> None:
    """Each of its own type; a masked one is empty and stays as it is; what the schema refuses is
    said, and what was typed is still there."""
    limits = {"properties": {"amount": {"type": "number", "maximum": 1000}}}
    arguments = {"amount": 900.0, "sure": True, "token": SECRET}
    record = await box.ask(tool="pay", arguments=arguments, schema=limits)
    await page.press("Edit")
    await page.until(f"{card(record)}.querySelector('[data-key^=arg0]')")
    assert SECRET not in await page.evaluate("document.body.innerHTML")
    assert not await page.evaluate(
        f"[...{card(record)}.querySelectorAll('.panel input, .panel textarea')]"
        f".some((one) => one.value.includes('{SECRET}'))"
    )
    await page.fill("[data-key^=arg0]", "5000")
    await page.press("Show the changes")
    await page.until(f"{card(record)}.textContent.includes('do not fit')")
    assert await page.evaluate(f"{card(record)}.querySelector('[data-key^=arg0]').value") == "5000"
    await page.fill("[data-key^=arg0]", "50.0")
    chosen = "document.querySelector('[data-key^=arg1]')"
    await page.evaluate(f"{chosen}.value = 'false'")
    await page.evaluate(f"{chosen}.dispatchEvent(new Event('change', {{ bubbles: true }}))")
    await page.press("Show the changes")
    await page.press("Approve with these changes")
    await page.until(f"{card(record)}.classList.contains('approved')")
    found = (await box.get(record)).edited
    assert str(found) == str({"amount": 50.0, "sure": False, "token": SECRET})


async def test_no_edit_is_shown_that_was_typed_over_meanwhile(box: Inbox, page: Page) -> None:
    """While the gateway compares, whoever types on is told to have it compared again."""
    record = await box.ask(**COMMAND)
    await see(page, record)
    await page.press("Edit")
    await page.fill("[data-key^=arg0]", "make one")
    await page.send("Fetch.enable", patterns=[{"urlPattern": "*/diff", "requestStage": "Response"}])
    await page.press("Show the changes")
    await page.until("document.querySelector('[data-key=compare]').disabled")
    await page.fill("[data-key^=arg0]", "make two")
    await page.send("Fetch.disable")
    await page.until(f"{card(record)}.textContent.includes('Your text has changed')")
    assert await page.evaluate("document.querySelector('.panel .checked')") is None
    await page.press("Show the changes")
    await page.until("document.querySelector('.panel .added')?.textContent.includes('make two')")


async def test_an_edit_keeps_every_digit(box: Inbox, page: Page) -> None:
    """Numbers that JavaScript would round or rewrite reach the decision as they were typed."""
    record = await box.ask(tool="pay", arguments={"amount": 1249.0, "account": 12345678})
    await page.press("Edit")
    await page.press("As JSON")
    await page.fill("[data-key=edit]", '{"amount": 1249.0, "account": 9007199254740991}')
    await page.press("Show the changes")
    await page.press("Approve with these changes")
    await page.until(f"{card(record)}.classList.contains('approved')")
    found = await box.get(record)
    assert str(found.edited) == "{'amount': 1249.0, 'account': 9007199254740991}"


async def test_a_decision_is_remembered_and_taken_back(box: Inbox, page: Page) -> None:
    """What it covers is said first; it decides the next one, is listed, and can be revoked."""
    record = await box.ask(**COMMAND)
    await page.press("Remember…")
    await page.until(f"{card(record)}.textContent.includes('exactly this: \"')")
    # Where it would have covered nothing before, nothing is said of that.
    assert not await page.evaluate(f"{card(record)}.textContent.includes('would have covered')")
    await page.evaluate(f"{card(record)}.querySelector('[data-key=lifetime-5]').click()")
    await page.press("Approve and remember")
    await page.until(f"{card(record)}.classList.contains('approved')")
    await box.remembered()
    again = await box.ask(**COMMAND)
    assert again.status is Status.APPROVED
    other = await box.ask(**{**COMMAND, "session": "another"})
    assert other.status is Status.PENDING
    await page.evaluate("document.querySelector('[data-view=grants]').click()")
    await page.until("document.querySelector('.grants').textContent.includes('used once')")
    await page.press_twice("Revoke what ann remembered for deployer")
    await page.until(
        "document.querySelector('.grant.ended').textContent.includes('revoked by ann')"
    )
    assert (await box.ask(**COMMAND)).status is Status.PENDING


PLAIN = {"tool": "sh", "arguments": {"command": "ls"}}


async def test_a_pass_is_given_in_the_inbox(box: Inbox, page: Page) -> None:
    """Below the other scopes; its own ways to end; listed with its end and uses, and revoked."""
    record = await box.ask(**PLAIN)
    pick = f"{card(record)}.querySelector"
    await page.press("Remember…")
    await page.until(f"{card(record)}.textContent.includes('a pass, 8 hours at most: running')")
    assert await page.evaluate(f"{pick}('[data-key=scope-approve-0]').checked")
    assert await page.evaluate(f"{card(record)}.textContent.includes('until revoked')")
    last = f"[...{pick}All('[data-key^=scope-approve]')].at(-1)"
    await page.evaluate(f"{last}.click()")
    await page.until(f"!{card(record)}.textContent.includes('until revoked')")
    assert not await page.evaluate(f"{card(record)}.textContent.includes('in all sessions')")
    await page.evaluate(f"{pick}('[data-key=lifetime-0]').click()")
    await page.press("Approve and remember")
    await page.until(f"{card(record)}.classList.contains('approved')")
    await box.remembered()
    assert (await box.ask(tool="bash", arguments={"command": "ls"})).status is Status.APPROVED
    await page.evaluate("document.querySelector('[data-view=grants]').click()")
    shown = "document.querySelector('.grants').textContent"
    await page.until(f"{shown}.includes('used 1 of 5 times')")
    assert await page.evaluate(f"{shown}.includes('Session let through')")
    await page.press_twice(f"Revoke what ann remembered for {AGENT}")
    await page.until(
        "document.querySelector('.grant.ended').textContent.includes('revoked by ann')"
    )
    assert (await box.ask(tool="bash", arguments={"command": "ls"})).status is Status.PENDING


async def test_a_denial_is_remembered_everywhere(box: Inbox, page: Page) -> None:
    """The choices made in the panel survive a redraw, and are what is sent."""
    record = await box.ask(**COMMAND)
    await page.press("Remember…")
    await page.evaluate(f"{card(record)}.querySelector('[data-key=effect-1]').click()")
    await page.evaluate(f"{card(record)}.querySelector('[data-key=where-1]').click()")
    await box.claim(record)
    await page.until(f"{card(record)}.textContent.includes('bob is looking at it')")
    await page.press("Deny and remember")
    await page.until(f"{card(record)}.classList.contains('denied')")
    await box.remembered()
    assert (await box.ask(**{**COMMAND, "session": "another"})).status is Status.DENIED
