"""Several requests reviewed side by side, in a real Chromium against a whole gateway."""

from __future__ import annotations

import pytest

from gateway.cards.shared_texts import ANOTHER_PLAN
from gateway.domain.records import StoredRequest
from gateway.models import Action, Reason, Status
from tests.web.chromium import DESK, PHONE, Page
from tests.web.inbox import AGENT, COMMAND, FILE_CHANGE, HIGH_RISK, LONG, QUESTION, Inbox, card
from tests.web.test_access import flaws
from tests.world import click, identity

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


async def review(box: Inbox, page: Page, count: int) -> None:
    """Open the batch view by its link in the inbox."""
    await page.press(f"Review {count} from {AGENT} together")
    await page.until(f"location.pathname === '/inbox/batch' && {TICKS} === {count}")
    await page.until("document.getElementById('offline').hidden")


TOLD = "document.getElementById('told').textContent"
ENDED = (
    "[{card}.querySelector('.state').textContent,"
    " {card}.querySelectorAll('input, .countdown').length]"
)
TICKS = "document.querySelectorAll('.tick-row input').length"
# Once `slow` is set, what the stream tells arrives long after the answer to a press.
SLOW_STREAM = """(() => {
  const read = ReadableStreamDefaultReader.prototype.read;
  ReadableStreamDefaultReader.prototype.read = async function () {
    const part = await read.call(this);
    if (window.slow) await new Promise((done) => setTimeout(done, 3000));
    return part;
  };
})()"""


async def tick(page: Page, record: StoredRequest) -> None:
    """Tick one request, as a finger does."""
    await page.until("!document.querySelector('.settling')")
    await page.press("I have read this one", card(record))


async def unseen(page: Page, records: list[StoredRequest]) -> str:
    """Approve without the tokens that came with each item's whole text; return the refusal."""
    items = [{"id": one.id, "revision": 1, "seen": "0" * 64} for one in records]
    code: str = await page.evaluate(
        "import('/inbox/static/api.js').then(({api}) => api('batch/decide', "
        f"{{action: 'approve', nonce: 'n1234567', items: {items}}})).then((a) => a.value.code)"
    )
    return code


async def test_ticked_ones_are_approved_together_and_the_others_wait(
    box: Inbox, page: Page
) -> None:
    """Each is there whole, none is ticked beforehand; one press decides exactly the ticked ones."""
    records = [await box.ask(**kind) for kind in (COMMAND, FILE_CHANGE, LONG)]
    high = await box.ask(**HIGH_RISK)
    question = await box.ask(**QUESTION)
    await review(box, page, 3)
    assert await page.evaluate(f"{card(records[2])}.textContent.includes('SET a = 8999;')")
    assert await page.evaluate("document.querySelectorAll('input:checked').length") == 0
    assert await page.evaluate("document.querySelector('[data-key=approve]').disabled")
    apart = await page.evaluate("document.getElementById('apart').textContent")
    assert "it is high risk; decide high-risk requests one at a time" in apart
    assert "it needs an answer, not an approval" in apart
    assert await unseen(page, records) == "not_seen"
    for record in (records[0], records[2]):
        await tick(page, record)
    await page.press("Approve 2")
    await page.until(f"{TOLD} === 'Approved together: 2.'")
    await page.until(f"{TICKS} === 1")
    states = [(await box.get(one)).status for one in (*records, high, question)]
    pending, approved = Status.PENDING, Status.APPROVED
    assert states == [approved, pending, approved, pending, pending]


async def test_one_that_changes_stops_all_and_says_so(box: Inbox, page: Page) -> None:
    """Decided elsewhere, while the page does not hear of it: nothing is decided; it says which."""
    records = [await box.ask(tool=f"tool{n}", arguments={"n": n}) for n in range(3)]
    await review(box, page, 3)
    for record in records:
        await tick(page, record)
    await page.send("Network.enable")
    await page.send("Network.setBlockedURLs", urls=["*/inbox/api/batch?*", "*/requests/*"])
    await box.decide(records[1], Action.DENY)
    await page.press("Approve 3")
    await page.until(f"{TOLD}.startsWith('Nothing was decided')")
    why = "Not decided: this request was decided already: denied by bob."
    await page.until(f"{card(records[1])}.textContent.includes('{why}')")
    assert await page.evaluate(ENDED.format(card=card(records[1]))) == ["❌ Denied by bob", 0]
    await page.send("Network.setBlockedURLs", urls=[])
    assert {(await box.get(one)).status for one in (records[0], records[2])} == {Status.PENDING}
    await page.until("document.querySelectorAll('input:checked').length === 2")
    await page.press("Approve 2")
    await page.until(f"{TOLD} === 'Approved together: 2.'")


async def test_one_that_ends_elsewhere_shows_its_end(box: Inbox, page: Page) -> None:
    """In its place, as a card alone does: how it ended, no tick and no clock; it counts no more."""
    records = [await box.ask(tool=f"tool{n}", arguments={"n": n}) for n in range(3)]
    await review(box, page, 3)
    for record in records:
        await tick(page, record)
    await box.decide(records[1])
    await page.until(f"{card(records[1])}.classList.contains('approved')")
    assert await page.evaluate(ENDED.format(card=card(records[1]))) == ["✅ Approved by bob", 0]
    order = "[...document.querySelectorAll('.card')].map((one) => one.dataset.id)"
    assert await page.evaluate(order) == [one.id for one in records]
    await page.press("Details", card(records[1]))
    await page.until(f"{card(records[1])}.querySelector('pre')")
    await page.press("Approve 2")
    await page.until(f"{TOLD} === 'Approved together: 2.'")
    await page.until("document.getElementById('bar').hidden")


async def test_what_is_edited_loses_its_tick(box: Inbox, page: Page) -> None:
    """The tick was for another text: a partner's edit takes it away, and the card says why."""
    await box.route(quorum=2)
    records = [await box.ask(tool=f"tool{n}", arguments={"n": n}) for n in range(2)]
    await page.send("Page.addScriptToEvaluateOnNewDocument", source=SLOW_STREAM)
    await review(box, page, 2)
    for record in records:
        await tick(page, record)
    edit = click(records[0], Action.EDIT, arguments={"n": 7}, identity=identity("bob"))
    await box.gateway.core.requests.decide(edit)
    await page.until(f"{card(records[0])}.textContent.includes('changed after you ticked it')")
    assert await page.evaluate("document.querySelectorAll('input:checked').length") == 1
    await tick(page, records[0])
    await page.evaluate("window.slow = true")
    await page.press("Approve 2")
    await page.until(f'{TOLD}.includes("someone else\'s")')
    final = await box.get(records[0])
    assert (final.status, final.edited) == (Status.APPROVED, {"n": 7})
    # The other has my approval: it cannot be ticked again, and stands apart with the reason.
    await page.until("document.getElementById('apart').textContent.includes('You approved; waits')")


async def test_deny_with_words_by_keys_alone(box: Inbox, page: Page) -> None:
    """j and t tick, Tab reaches the answer; the words reach each decision."""
    await page.size(DESK)
    records = [await box.ask(tool=f"tool{n}", arguments={"n": n}) for n in range(2)]
    await review(box, page, 2)
    for key in "jtjt":
        await page.key(key)
    await page.until("document.querySelectorAll('input:checked').length === 2")
    await page.press("Deny with a reason")
    await page.fill("#words", "not on a Friday")
    await page.press("Deny 2")
    await page.until(f"{TOLD} === 'Denied together: 2.'")
    await page.until("document.querySelector('.empty')")
    # Nothing is counted or to be read any more.
    assert await page.evaluate("document.getElementById('title').textContent") == AGENT
    assert not await page.evaluate("document.getElementById('lead').checkVisibility()")
    for record in records:
        decision = (await box.get(record)).decision
        assert decision is not None
        assert (decision.status, decision.message) == (Status.DENIED, "not on a Friday")


async def test_a_batch_is_planned_anew(box: Inbox, page: Page) -> None:
    """In the words of every surface; each agent is told to plan, not that it was denied."""
    records = [await box.ask(tool=f"tool{n}", arguments={"n": n}) for n in range(2)]
    await review(box, page, 2)
    for record in records:
        await tick(page, record)
    await page.press("Deny with a reason")
    await page.fill("#words", "use the blue servers")
    await page.press(ANOTHER_PLAN)
    await page.until(f"{TOLD} === 'Denied together: 2.'")
    for record in records:
        decision = (await box.get(record)).decision
        assert decision is not None
        assert (decision.reason, decision.message) == (Reason.FEEDBACK, "use the blue servers")


async def test_axe_finds_nothing_serious_in_a_batch(box: Inbox, page: Page) -> None:
    """On a phone and on a desk, with something ticked, something refused, and in both schemes."""
    records = [await box.ask(**kind) for kind in (COMMAND, FILE_CHANGE)]
    await box.ask(**HIGH_RISK)
    await page.size(PHONE)
    await page.until("document.querySelector('.together') && !document.querySelector('.settling')")
    assert await flaws(page) == []
    await review(box, page, 2)
    for record in records:
        await tick(page, record)
    await page.press("Deny with a reason")
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    for dark in (False, True):
        for size in (DESK, PHONE):
            await page.size(size, dark=dark)
            assert await flaws(page) == []
            assert await page.evaluate(wide)


async def test_admins_see_how_people_decide(box: Inbox, page: Page) -> None:
    """The page counts who answered, and is for admins alone."""
    await box.decide(await box.ask(**COMMAND), Action.DENY)
    await page.goto(f"{box.gateway.url}/inbox/report")
    await page.until("document.body.textContent.includes('bob')")
    assert await flaws(page) == []
    await box.sign_in(page, "bob")
    await page.goto(f"{box.gateway.url}/inbox/report")
    await page.until("document.body.textContent.includes('only an admin or auditor may see')")
