"""The form in the inbox by which an admin has something remembered that no request asked for."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.models import Kind, Status, new_id
from gateway.policy.grants.grant import Effect, Scope
from tests.sweeps import sweep
from tests.web.chromium import DESK, PHONE, Page
from tests.web.inbox import AGENT, Inbox
from tests.web.test_access import flaws
from tests.web.visitor import visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

WHERE = {"cwd": "/srv/shop", "host": "ci-7"}
GIT: dict[str, Any] = {
    "agent": AGENT,
    "effect": "allow",
    "tool": "shell",
    "kind": "command",
    "arguments": {"command": "git log -n 5"},
    **WHERE,
}
FOUND = "document.getElementById('hand-found')"
SHOW = "Show what can be remembered"


async def opened(page: Page) -> None:
    """Open the form under *Remembered*."""
    await page.press("Remembered")
    await page.until("!document.getElementById('by-hand').hidden")
    await page.evaluate("document.querySelector('.hand').open = true")


async def choose(page: Page, name: str, value: str) -> None:
    """Choose in one of the form's lists, as a person does."""
    await page.evaluate(
        f"(() => {{ const it = document.getElementById('hand-{name}'); it.value = {value!r};"
        " it.dispatchEvent(new Event('change')); })()"
    )


async def describe(page: Page, command: str) -> None:
    """Fill in a shell command in the folder and on the host of the tests' agent."""
    await choose(page, "kind", "command")
    values = {"agent": AGENT, "tool": "shell", "command": command, **WHERE}
    for name, value in values.items():
        await page.fill(f"#hand-{name}", value)


async def typed(page: Page) -> dict[str, str]:
    """Return what the form's fields hold."""
    found: dict[str, str] = await page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.hand input, .hand select,"
        " .hand textarea')].map((one) => [one.id, one.value]))"
    )
    return found


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_a_command_is_remembered_by_one_tap(
    box: Inbox, page: Page, size: tuple[int, int]
) -> None:
    """The gateway's words, one tap, and the next such call goes through; it fits and axe agrees."""
    await page.size(size)
    await opened(page)
    await describe(page, "git log -n 5")
    await choose(page, "lifetime", "next5")
    await page.press(SHOW)
    await page.until(f"{FOUND}.querySelectorAll('li').length > 1")
    assert await page.evaluate(f"{FOUND}.textContent.includes('exactly this: \"git log -n 5\"')")
    assert await page.evaluate("document.activeElement.textContent.startsWith('Choose what')")
    assert await page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert await flaws(page) == []
    await page.evaluate(f"{FOUND}.querySelector('li:last-child button').click()")
    await page.until(f"{FOUND}.textContent.includes('Allowed from now on')")
    (grant,) = await box.gateway.core.grants.all()
    assert (grant.made_by, grant.agent, grant.session) == ("ann", AGENT, None)
    assert (grant.effect, grant.max_uses) == (Effect.ALLOW, 5)
    assert grant.expires_at is not None
    await page.until("document.querySelectorAll('[data-grant]').length === 1")
    assert await flaws(page) == []
    again = await box.ask(tool="shell", kind=Kind.COMMAND, arguments={"command": "git log -n 6"})
    assert again.status is Status.APPROVED


async def test_a_tool_is_denied_in_one_session(box: Inbox, page: Page) -> None:
    """With its arguments as JSON, letter by letter: 10.0 stays 10.0; in that session alone."""
    await opened(page)
    await page.fill("#hand-agent", AGENT)
    await page.fill("#hand-tool", "pay")
    await page.fill("#hand-arguments", '{"amount": 10.0}')
    await page.fill("#hand-session", "s1")
    await page.fill("#hand-cwd", "/srv/shop")
    await page.fill("#hand-host", "ci-7")
    await choose(page, "effect", "deny")
    await page.press(SHOW)
    await page.until(f"{FOUND}.querySelector('li')")
    await page.evaluate(f"{FOUND}.querySelector('li button').click()")
    await page.until(f"{FOUND}.textContent.includes('Denied from now on')")
    (grant,) = await box.gateway.core.grants.all()
    assert (grant.effect, grant.session, grant.match.scope) == (Effect.DENY, "s1", Scope.EXACT)
    asked = {"tool": "pay", "arguments": {"amount": 10.0}}
    assert (await box.ask(**asked, session="s1")).status is Status.DENIED
    assert (await box.ask(**asked, session="s2")).status is Status.PENDING


async def test_what_is_refused_says_why_and_keeps_what_was_typed(box: Inbox, page: Page) -> None:
    """No JSON, no agent's name, nothing to remember, an agent's grant made elsewhere meanwhile."""
    await opened(page)
    await page.press(SHOW)
    await page.until(f"{FOUND}.textContent.includes('the agent is missing')")
    await page.fill("#hand-agent", AGENT)
    await page.fill("#hand-tool", "pay")
    await page.fill("#hand-arguments", '{"amount": 9')
    before = await typed(page)
    await page.press(SHOW)
    await page.until(f"{FOUND}.textContent.includes('The arguments are not JSON')")
    assert await typed(page) == before
    await choose(page, "kind", "command")
    await page.fill("#hand-command", "echo \u202ehidden")
    before = await typed(page)
    await page.press(SHOW)
    await page.until(f"{FOUND}.textContent.includes('cannot be remembered')")
    assert await flaws(page) == []
    async with visitor(box) as ann:
        (offer, *_) = (await ann.post("grants/offers", GIT))[1]["offers"]
        made = {**GIT, "offer": offer["id"], "lifetime": "1h", "nonce": new_id()}
        assert (await ann.post("grants/by-hand", made))[0] == 201
    await page.until("document.querySelectorAll('[data-grant]').length === 1")
    assert await typed(page) == before


async def test_another_letter_takes_the_offers_back(box: Inbox, page: Page) -> None:
    """Nothing that was offered of one call is pressed for another."""
    await opened(page)
    await describe(page, "git log -n 5")
    await page.press(SHOW)
    await page.until(f"{FOUND}.querySelector('li')")
    await page.fill("#hand-command", "git log -n 55")
    assert await page.evaluate(f"{FOUND}.textContent") == ""
    assert await box.gateway.core.grants.all() == []


async def test_a_press_that_is_sent_twice_makes_one_grant(box: Inbox) -> None:
    """And its nonce makes no other grant."""
    async with visitor(box) as ann:
        (first, second, *_) = (await ann.post("grants/offers", GIT))[1]["offers"]
        sent = {**GIT, "offer": first["id"], "lifetime": "1h", "nonce": new_id()}
        made = [(await ann.post("grants/by-hand", sent)) for _ in range(2)]
        assert [status for status, _ in made] == [201, 201]
        assert made[0] == made[1]
        assert (await ann.post("grants/by-hand", {**sent, "offer": second["id"]}))[0] == 409
    assert len(await box.gateway.core.grants.all()) == 1


@sweep(
    ("changes", "status"),
    [
        ({"effect": "maybe"}, 422),
        ({"kind": "spell"}, 422),
        ({"agent": "not a name!"}, 422),
        ({"tool": ""}, 422),
        ({"arguments": []}, 422),
        ({"offer": ""}, 422),
        ({"offer": "0" * 16}, 422),
        ({"lifetime": "10y"}, 422),
        ({"session": "s" * 999}, 422),
        ({"nonce": "short"}, 422),
        ({"words": "only reads"}, 422),
    ],
    few=3,
)
async def test_what_fits_nothing_is_refused(
    box: Inbox, changes: dict[str, Any], status: int
) -> None:
    """With a sentence, and nothing is made."""
    async with visitor(box) as ann:
        (offer, *_) = (await ann.post("grants/offers", GIT))[1]["offers"]
        sent = {**GIT, "offer": offer["id"], "lifetime": "1h", "nonce": new_id(), **changes}
        answered, problem = await ann.post("grants/by-hand", sent)
        assert answered == status, problem
        assert problem["detail"]
    assert await box.gateway.core.grants.all() == []


async def test_nobody_but_an_admin_has_the_form(box: Inbox, page: Page) -> None:
    """Bob may approve and is no admin: no form, and both calls refuse him; so without the token."""
    await box.sign_in(page, "bob")
    await page.press("Remembered")
    await page.until("document.querySelector('.grants')")
    assert await page.evaluate("document.getElementById('by-hand').hidden")
    assert await page.evaluate("document.querySelector('.hand')") is None
    sent = {**GIT, "offer": "0" * 16, "lifetime": "1h", "nonce": new_id()}
    async with visitor(box, "bob") as bob:
        for path, body in (("grants/offers", GIT), ("grants/by-hand", sent)):
            status, problem = await bob.post(path, body)
            assert (status, "only an admin" in problem["detail"]) == (403, True)
    async with visitor(box) as ann:
        for path, body in (("grants/offers", GIT), ("grants/by-hand", sent)):
            assert (await ann.post(path, body, **{"X-CSRF-Token": ""}))[0] == 403
            assert (await ann.post(path, body, Origin="https://elsewhere.example"))[0] == 403
    assert await box.gateway.core.grants.all() == []
