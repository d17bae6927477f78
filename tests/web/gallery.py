"""Draws every state of the inbox on a phone, light and dark, for tests/gallery.py.

Cards and panels are laid out by the page's own scripts from what the product says of a request;
whole pages are those of a gateway that runs.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import web
from pydantic import SecretStr

from adapters.web.cards import Viewer, add_viewer, build_row, build_whole
from gateway.cards.remember_options import (
    LIFETIMES_BY_LENGTH,
    PASS_LIFETIME_WORDS,
    ROLES_ON_CARDS,
    USUAL_LIFETIME,
)
from gateway.cards.shared_texts import ANOTHER_PLAN, DENIALS
from gateway.domain.records import Approvers, Claim, StoredRequest, Vote
from gateway.domain.risk import StepUp
from gateway.models import Action, Reason, Status
from tests.frame.tree import ROOT
from tests.sign_in.provider import CLIENT, SECRET, providing
from tests.slack import states
from tests.web import screenshots
from tests.web.chromium import PHONE, Page, running, visiting
from tests.web.inbox import (
    COMMAND,
    CONNECTED,
    HIDING,
    HIGH_RISK,
    QUESTION,
    Inbox,
    card,
    inbox,
    see,
)
from tests.web.phone import push_service
from tests.web.test_passkeys import add_authenticator, open_devices

STATIC = ROOT / "adapters" / "web" / "static"
TEMPLATES = ROOT / "adapters" / "web" / "templates"
LOOKS = (("light", False), ("dark", True))
_TALLEST = 4000
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>a card</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/static/inbox.css">
<main><h1 class="unseen">A card</h1><div id="list"></div></main>
<script type="module">
import { card } from "/static/card.js";
import { setClock } from "/static/time_left.js";
const { item, view, draft } = await (await fetch("/item")).json();
setClock(item.created + 90_000);
const acts = new Proxy({}, { get: (_, name) => () => (name === "reach" ? view.reach : "") });
const made = { text: {}, reaches: new Map(), asked: { action: "approve" }, ...draft };
document.getElementById("list").append(
  card(item, { online: true, busy: false, acts, ...view, draft: made }));
if (draft.about) document.querySelector(".about").open = true;
document.title = "drawn";
</script></html>"""


def panels() -> tuple[str, ...]:
    """Return the name of each panel that the script knows."""
    text = (STATIC / "decision_panels.js").read_text(encoding="utf-8")
    (found,) = re.findall(r"^const PANELS = \{(.*?)^\};", text, re.MULTILINE | re.DOTALL)
    return tuple(re.findall(r"(\w+): \[", found))


_ANN = Viewer(name="ann", may_pass=True)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A card as one person sees it: `view` and `draft` are what the page knows beside it."""

    record: StoredRequest
    whole: bool = False
    reveal: bool = False
    viewer: Viewer = _ANN
    view: dict[str, Any] = field(default_factory=dict)
    draft: dict[str, Any] = field(default_factory=dict)

    def item(self) -> dict[str, Any]:
        """Return the request as the page gets it."""
        view = (
            build_whole(self.record, reveal=self.reveal) if self.whole else build_row(self.record)
        )
        seen = add_viewer(view, self.record, self.viewer)
        return {**seen, "seen": "shown whole" if view["complete"] else None}


_GIT, _UNKNOWN = (
    states.RECORDS["pending-git"],
    states.asked(
        tool="publish_page",
        arguments={"site": "docs", "version": "1.4", "notify": ["kim@example.com"]},
    ),
)
_HIDDEN = states.asked(arguments=HIDING["arguments"])
_ANSWERED_SECRET = states.ended(
    states.SECRET,
    Status.APPROVED,
    Reason.PERSON,
    "ann",
    action=Action.ANSWER,
    answers={"token": None},
)
_SCRIPT = states.asked(
    arguments={"command": "\n".join(["set -e", *(f"step-{n} --all" for n in range(38)), "rm -r x"])}
)
_REFUSED = "you are not an approver for this request"
_LOST = "The gateway did not answer, so your decision may not be recorded. Try again."


def scenes() -> dict[str, Scene]:
    """Return every state of a card, and every panel."""
    made = {name: Scene(record=record) for name, record in states.RECORDS.items()}
    made |= {
        f"{name}-opened": Scene(record=record, whole=True)
        for name, record in states.RECORDS.items()
        if name in ("approved-edited", "answered", "denied-feedback", "long-denied")
    }
    usual = {"declare": _UNKNOWN, "confirm": states.PAYMENT}
    for panel in panels():
        record = usual.get(panel, _GIT)
        made[f"panel-{panel}"] = Scene(record=record, whole=True, draft={"panel": panel})
    for way in StepUp:
        made[f"panel-step-up-{way}"] = _confirm(stepped(way))
        made[f"step-up-{way}"] = Scene(record=stepped(way), whole=True)
    second = replace(
        stepped(StepUp.PERSON), votes=(Vote(person="bob", action=Action.APPROVE, at=states.MADE),)
    )
    made["panel-step-up-last"] = _confirm(second)
    made["panel-step-up-either"] = _confirm(stepped(StepUp.NUMBER, StepUp.PERSON))
    made["panel-step-up-guessed"] = _confirm(replace(stepped(StepUp.NUMBER), guesses=2))
    return made | _views() | _drafts()


def _views() -> dict[str, Scene]:
    claimed = {
        name: replace(states.asked(), claim=Claim(person=name, at=states.MADE))
        for name in ("ann", "bob")
    }
    return {
        "read-on": Scene(record=_SCRIPT, whole=True, view={"unread": True}),
        "not-yours": Scene(record=_GIT, viewer=Viewer(name="eve", refusal=_REFUSED)),
        "not-yours-question": Scene(
            record=states.QUESTION, viewer=Viewer(name="eve", refusal=_REFUSED)
        ),
        "not-yours-hidden": Scene(record=_HIDDEN, viewer=Viewer(name="eve", refusal=_REFUSED)),
        "question-two": Scene(record=replace(states.QUESTION, quorum=2)),
        "offline": Scene(record=_GIT, view={"online": False}),
        "busy": Scene(record=_GIT, view={"busy": True}),
        "claimed": Scene(record=claimed["bob"]),
        "claimed-mine": Scene(record=claimed["ann"], draft={"more": True}),
        "more": Scene(record=_GIT, draft={"more": True}),
        "noted": Scene(record=_GIT, draft={"more": True, "text": {"note": "as agreed"}}),
        "details": Scene(record=states.RECORDS["pending-preview"], draft={"about": True}),
        "revealed": Scene(record=states.RECORDS["pending-masked"], whole=True, reveal=True),
        "hidden-revealed": Scene(record=_HIDDEN, whole=True, reveal=True),
        "hidden": Scene(record=_HIDDEN),
        "answered-secret": Scene(record=_ANSWERED_SECRET),
        "long-opened": Scene(
            record=_SCRIPT, whole=True, draft={"wide": True}, view={"unread": False}
        ),
    }


def _drafts() -> dict[str, Scene]:
    typed = {"panel": "reason", "text": {"reason": "The window is closed until Monday."}}
    whole = build_whole(states.asked())
    field_of, after = whole["edit_fields"][0]["id"], states.EDITED.arguments["command"]
    edited = {
        "text": {f"{field_of}-{whole['digest'][:8]}": after},
        "changed": {"rows": build_whole(states.EDITED)["changed"], "fields": {field_of: after}},
    }
    return {
        "panel-reason-refused": Scene(record=_GIT, draft={**typed, "problem": _LOST}),
        "panel-edit-refused": Scene(
            record=_GIT, whole=True, draft={"panel": "edit", "problem": "You have changed nothing."}
        ),
        "panel-edit-money": Scene(record=states.PAYMENT, whole=True, draft={"panel": "edit"}),
        "panel-edit-json": Scene(
            record=states.PAYMENT, whole=True, draft={"panel": "edit", "text": {"edit-raw": True}}
        ),
        "panel-edit-changes": Scene(
            record=states.asked(), whole=True, draft={"panel": "edit", **edited}
        ),
        "panel-edit-masked": Scene(
            record=states.RECORDS["pending-masked"],
            whole=True,
            draft={"panel": "edit", "text": {"edit-raw": True}},
        ),
        "panel-remember-deny": Scene(
            record=_GIT, whole=True, draft={"panel": "remember", "text": {"effect": "deny"}}
        ),
        "panel-remember-pass": Scene(
            record=_GIT,
            whole=True,
            draft={"panel": "remember", "text": {"scope-approve": _last_scope(_GIT)}},
        ),
        "panel-declare-nobody": Scene(
            record=_UNKNOWN, whole=True, draft={"panel": "declare"}, view={"admin": False}
        ),
        "panel-reason-question": Scene(record=states.QUESTION, draft={"panel": "reason"}),
        "panel-abort-noted": Scene(
            record=_GIT, draft={"panel": "abort", "text": {"note": "told bob"}}
        ),
    }


def _last_scope(record: StoredRequest) -> str:
    """Return the widest that may be remembered: a pass, for who may give one."""
    return str(build_whole(record)["remember"]["approve"][-1]["id"])


def _confirm(record: StoredRequest) -> Scene:
    return Scene(record=record, whole=True, draft={"panel": "confirm"})


def stepped(*ways: StepUp) -> StoredRequest:
    """Return a request that takes one of these step-ups."""
    may = Approvers(names=("ann", "bob"), step_up=ways)
    quorum = 2 if ways == (StepUp.PERSON,) else 1
    numbered = StepUp.NUMBER in ways
    return states.PAYMENT.copy_with(approvers=may, numbered=numbered, quorum=quorum)


async def lay_out(page: Page, *, dark: bool | None = None) -> AsyncIterator[tuple[str, str, bool]]:
    """Lay out each card and panel on a phone, in light and dark or one of them; yield its name, the
    look's, and whether that is dark."""
    looks = [(look, one) for look, one in LOOKS if dark in (None, one)]
    async with _serving() as (address, shown):
        for name, scene in scenes().items():
            shown["item"], shown["draft"] = scene.item(), scene.draft
            shown["view"] = {**_FACTS, **scene.view}
            for look, one in looks:
                await page.size(PHONE, dark=one)
                await page.goto(address)
                await page.until("document.title === 'drawn'")
                yield name, look, one


async def draw_cards(page: Page, folder: Path) -> None:
    """Draw every card and panel."""
    async for name, look, dark in lay_out(page):
        high = int(await page.evaluate("document.documentElement.scrollHeight"))
        if high > PHONE[1]:  # the answers stand at the end of what a phone shows
            path = folder / f"inbox-{name}-first-{look}.png"
            path.write_bytes(await page.picture())
        bottom = "document.querySelector('.card').getBoundingClientRect().bottom"
        tall = min(int(await page.evaluate(bottom)) + 24, _TALLEST)
        await page.size((PHONE[0], tall), dark=dark)
        (folder / f"inbox-{name}-{look}.png").write_bytes(await page.picture())


_FACTS: dict[str, Any] = {
    "lifetimes": LIFETIMES_BY_LENGTH,
    "usual": USUAL_LIFETIME,
    "pass_lifetimes": {
        name: words for name, words in LIFETIMES_BY_LENGTH.items() if name in PASS_LIFETIME_WORDS
    },
    "roles": ROLES_ON_CARDS,
    "denials": DENIALS,
    "another_plan": ANOTHER_PLAN,
    "admin": True,
    "reach": states.REACH,
}


@asynccontextmanager
async def _serving() -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Serve the page with one card at a time; yield its address, and what it shows."""
    shown: dict[str, Any] = {}

    async def item(_: web.Request) -> web.Response:
        return web.Response(text=json.dumps(shown), content_type="application/json")

    async def start(_: web.Request) -> web.Response:
        return web.Response(text=_PAGE, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", start)
    app.router.add_get("/item", item)
    app.router.add_static("/static", STATIC)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/", shown
    finally:
        await runner.cleanup()


# ---------------------------------------------------------------------------- whole pages


@dataclass
class PhoneCamera(screenshots.Camera):
    """Takes each state as a phone shows it, whole, in light and dark."""

    folder: Path = Path()
    names: set[str] = field(default_factory=set)
    templates: set[str] = field(default_factory=set)

    async def take(self, name: str, *, at_end: bool = False) -> None:
        """Take the page as it stands."""
        self.names.add(name)
        self.templates.add(await self.page.evaluate(_TEMPLATE))
        file = "inbox-page-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        await self.page.send("Emulation.setTouchEmulationEnabled", enabled=True)
        for look, dark in LOOKS:
            await self.page.size(PHONE, dark=dark)
            await self.page.until("!document.querySelector('.settling')")
            end = "document.documentElement.scrollHeight" if at_end else "0"
            await self.page.evaluate(f"scrollTo(0, {end})")
            if not at_end:
                tall = await self.page.evaluate("document.documentElement.scrollHeight")
                await self.page.size((PHONE[0], min(int(tall), _TALLEST)), dark=dark)
                await self.page.until("!document.querySelector('.settling')")
            (self.folder / f"{file}-{look}.png").write_bytes(await self.page.picture())
        await self.page.send("Emulation.setTouchEmulationEnabled", enabled=False)
        await self.page.size(PHONE)


_TEMPLATE = (
    "document.querySelector('script[type=module]').src.split('/').at(-1).replace('.js', '.html')"
)


async def draw_pages(folder: Path) -> PhoneCamera:
    """Draw every page of a gateway that runs; return what was drawn."""
    with tempfile.TemporaryDirectory() as data, running() as address:
        async with visiting(address) as browser, push_service() as service:
            camera = PhoneCamera(await browser.tab(), folder=folder)
            async with inbox(Path(data) / "first", push_hosts=(service.host,)) as box:
                await screenshots.notified(box, camera, service)
            async with inbox(Path(data) / "other", denial_minutes=0) as box:
                await box.route(budgets=screenshots.PATIENT)
                await screenshots.doors(box, camera)
                await screenshots.queue(box, camera)
                await screenshots.answering(box, camera)
                await screenshots.team(box, camera)
                await screenshots.together(box, camera)
                await screenshots.remembering(box, camera)
                await screenshots.done(box, camera)
                await _sides(box, camera)
                await _lost(box, camera)
                await _views_of(box, camera)
                await _beside(box, camera)
                await _stopped(box, camera)
                record = await screenshots.shown(box, camera, **COMMAND)
                await camera.page.press("More…", card(record))
            await camera.page.until("!document.getElementById('offline').hidden")
            await camera.take("not connected")
            await _ways_in(Path(data) / "named", camera)
            assert camera.page.errors == []
    return camera


async def _ways_in(data: Path, camera: PhoneCamera) -> None:
    """Show the sign-in page with a passkey's button and a provider's, what it says when a passkey
    is not taken, and the page Devices with a passkey."""
    page = camera.page
    async with providing("") as provider:
        client: dict[str, Any] = {"oidc_client_id": CLIENT, "oidc_client_secret": SecretStr(SECRET)}
        async with inbox(data, named=True, oidc_issuer=provider.issuer, **client) as box:
            await box.sign_in(page)
            await add_authenticator(page)
            await open_devices(box, page, "without a link")
            await page.press("Add a passkey")
            await page.until("document.body.textContent.includes('The passkey was added.')")
            await camera.take("devices with a passkey")
            await page.press("Remove")
            await page.until("document.body.textContent.includes('The passkey was removed.')")
            await page.press("Sign out here")
            await page.until(
                "['passkey', 'provider'].every((one) => !document.getElementById(one)?.hidden)"
                " && document.getElementById('provider')"
            )
            await camera.take("sign in")
            await page.press("Sign in with a passkey")
            await page.until("document.querySelector('#says.problem')")
            await camera.take("sign in refused")


async def _home(box: Inbox, page: Page) -> None:
    await page.evaluate("document.getElementById('who').textContent = ''")
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until(CONNECTED)


async def _sides(box: Inbox, camera: PhoneCamera) -> None:
    """Show the queue with what waits in each way, by each of its filters, and when it is empty."""
    page = camera.page
    await box.route(quorum=2, budgets=screenshots.PATIENT)
    made = [await box.ask(**kind) for kind in (COMMAND, HIGH_RISK, QUESTION)]
    await box.decide(made[0])
    await box.claim(made[1])
    await box.leave()
    made.append(await box.ask(tool="publish_page", arguments={"site": "docs"}))
    await _home(box, page)
    await page.until("document.querySelectorAll('.row-link').length === 4")
    for side in await page.evaluate(
        "[...document.querySelectorAll('[data-side]')].map((one) => one.dataset.side)"
    ):
        await page.evaluate(f"document.querySelector('[data-side={side}]').click()")
        await page.until(
            f"document.querySelector('[data-side={side}]').ariaPressed === 'true'"
            " && document.querySelector('#rows .empty, #rows .row-link')"
        )
        await camera.take(f"queue {side}")
    for record in made:
        await box.decide(record, Action.DENY)
    await box.route(budgets=screenshots.PATIENT)


async def _lost(box: Inbox, camera: PhoneCamera) -> None:
    """Show an answer that did not arrive: what was typed stays; and one under way."""
    page = camera.page
    await _home(box, page)
    record = await box.ask(**COMMAND)
    await see(page, record)
    await page.press("Deny with a reason")
    await page.fill("[data-key=reason]", "Not on a Friday evening.")
    await page.send("Network.enable")
    await page.send("Network.setBlockedURLs", urls=["*/decide"])
    await page.press("Deny", f"{card(record)}.querySelector('.panel')")
    await page.until(f"{card(record)}.querySelector('.problem')")
    await camera.take("an answer that did not arrive")
    await page.send("Network.setBlockedURLs", urls=[])
    await box.decide(record, Action.DENY)


async def _views_of(box: Inbox, camera: PhoneCamera) -> None:
    """Show each view beside what waits, by its button, whatever views there are."""
    page = camera.page
    await _home(box, page)
    names = await page.evaluate(
        "[...document.querySelectorAll('nav [data-view]')].map((one) => one.dataset.view)"
    )
    for name in names:
        await page.evaluate(f"document.querySelector('nav [data-view={name}]').click()")
        await page.until(
            f"document.querySelector('nav [data-view={name}]').ariaPressed === 'true' &&"
            f" document.querySelector('{'#rows *' if name == 'pending' else '#list *'}')"
        )
        await camera.take(f"view {name}")
        if await page.evaluate("Boolean(document.querySelector('.find'))"):
            await page.evaluate("document.querySelector('.find').open = true")
            await camera.take(f"view {name} search")
        if await page.evaluate("!document.getElementById('by-hand').hidden"):
            await page.evaluate("document.querySelector('.find').open = false")
            await page.evaluate("document.querySelector('#by-hand details').open = true")
            await page.fill("#hand-agent", "deployer")
            await page.fill("#hand-tool", "publish_page")
            await page.fill("#hand-arguments", '{"site": "docs"}')
            await page.press("Show what can be remembered")
            await page.until("document.querySelector('.offers li')")
            await camera.take("by hand")


async def _beside(box: Inbox, camera: PhoneCamera) -> None:
    """Show the pages of their own: devices, how people decide, back from a provider."""
    page = camera.page
    for path, there in {
        "devices": "document.querySelector('#list li, #list .card, main li')",
        "report": "document.querySelector('main table, main .empty, main p')",
        "login/back": "document.querySelector('#says.problem')",
        "login": "document.body.textContent",
        "batch?agent=deployer": "document.querySelector('.empty .title')",
    }.items():
        await page.goto(f"{box.gateway.url}/inbox/{path}")
        await page.until(f"document.readyState === 'complete' && {there}")
        await camera.take(path)


async def _stopped(box: Inbox, camera: PhoneCamera) -> None:
    """Show that everything is denied, and how an admin stops it."""
    page = camera.page
    await _home(box, page)
    await page.evaluate("document.querySelector('.menu').open = true")
    await page.press("Stop everything")
    await camera.take("stop everything")
    await page.press("Really stop everything")
    await page.until("!document.getElementById('stop').hidden")
    await page.evaluate("document.querySelector('.menu').open = false")
    await camera.take("everything is stopped")
    await page.press("Let agents ask again")
    await page.press("Really let agents ask again")
    await page.until("document.getElementById('stop').hidden")
