"""A whole gateway with the inbox for the browser tests, and the requests they look at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from gateway.domain.policy_document import Budget, PolicyDocument, Route
from gateway.domain.records import AuditEvent, Person, StoredRequest
from gateway.domain.store import MessageContext
from gateway.models import (
    Action,
    Context,
    FieldKind,
    Kind,
    Option,
    Preview,
    Question,
    Risk,
    RiskLevel,
)
from gateway.server.app import Gateway, run_gateway
from gateway.server.background import adapter_api
from gateway.server.settings import Settings
from tests.ports import free_port
from tests.web.chromium import Page
from tests.world import PROCESS, click, identity, request

AGENT = "deployer"


@dataclass
class Inbox:
    """A running gateway and a signed-in approver's page."""

    gateway: Gateway

    async def ask(self, **details: Any) -> StoredRequest:
        """Submit a request as an agent that waits."""
        asked = request(
            agent=AGENT, **{"context": Context(cwd="/srv/shop", host="ci-7"), **details}
        )
        origin = MessageContext(agent=AGENT, process=PROCESS)
        record, _ = await self.gateway.core.approvals.submit(asked, origin)
        return record

    async def sign_in(self, page: Page, person: str = "ann") -> None:
        """Have the page signed in, as it is once the button behind a link was pressed: with the
        cookie that the gateway hands it for the link's code."""
        code = await self.gateway.backend.logins.invite(person)
        whose = {
            "Origin": self.gateway.url,
            "User-Agent": await page.evaluate("navigator.userAgent"),
        }
        async with (
            aiohttp.ClientSession(headers=whose) as http,
            http.post(f"{self.gateway.url}/inbox/api/login", json={"code": code}) as answer,
        ):
            assert answer.status == 200, await answer.text()
            [cookie] = answer.cookies.values()
        await page.keep_cookie(cookie, self.gateway.url)
        await page.goto(f"{self.gateway.url}/inbox")
        await page.until(CONNECTED)

    async def route(self, *, budgets: tuple[Budget, ...] = (), **changes: Any) -> None:
        """Put one route in force; ann, bob and eve are people, and ann is an admin."""
        store = self.gateway.backend.store
        values = {"approvers": ("ann", "bob"), **changes}
        people = tuple(
            Person(name=name, identities=(f"token:{name}",), admin=name == "ann")
            for name in ("ann", "bob", "eve")
        )
        generation = (await store.policy()).generation
        await store.apply(
            PolicyDocument(
                generation=generation, people=people, routes=(Route(**values),), budgets=budgets
            ),
            by="test",
        )
        self.gateway.core.writer.forget_policy()

    async def get(self, record: StoredRequest) -> StoredRequest:
        """Return a request as it stands."""
        return await self.gateway.core.requests.get(record.id)

    async def decide(
        self, record: StoredRequest, action: Action = Action.APPROVE, **more: Any
    ) -> StoredRequest:
        """Decide as somebody elsewhere does: bob, unless another identity is given."""
        now = await self.get(record)
        return await self.gateway.core.requests.decide(
            click(now, action, **{"identity": identity("bob"), "confirmed": True, **more})
        )

    async def change(self, record: StoredRequest, arguments: dict[str, Any]) -> StoredRequest:
        """Edit as bob does: under a quorum that is the first of two approvals."""
        return await self.decide(record, Action.EDIT, arguments=arguments)

    async def claim(self, record: StoredRequest, person: str = "bob") -> None:
        """Say that somebody looks at it."""
        api = adapter_api("web", self.gateway.core, self.gateway.backend.store)
        await api.requests.claim(record.id, identity(person))

    async def leave(self) -> None:
        """Have the asking process go away: its lease has run out."""
        store = self.gateway.backend.store
        await store.redis.zadd(store.keys.processes, {f"{AGENT} {PROCESS}": 1})
        await self.gateway.backend.store.expire_process(AGENT, PROCESS)

    async def expire(self, record: StoredRequest) -> None:
        """Let a request that was asked with hardly any time run out."""
        while not (await self.get(record)).final:
            await self.gateway.core.approvals.expire(record.id)

    async def remembered(self) -> None:
        """Return once something is remembered: a card shows its decision a moment before that."""
        while not await self.gateway.core.grants.all():
            pass

    async def events(self, kind: str) -> list[AuditEvent]:
        """Return what the audit holds of one kind."""
        found = await self.gateway.backend.store.history(None, 10_000)
        return [event for event in found if event.type == kind]


def card(record: StoredRequest) -> str:
    """Return the JavaScript expression for a request's card."""
    return f"document.querySelector('[data-id=\"{record.id}\"]')"


def line(record: StoredRequest) -> str:
    """Return the JavaScript expression for a request's line in the queue."""
    return f"document.querySelector('[data-row=\"{record.id}\"]')"


async def see(page: Page, record: StoredRequest) -> None:
    """Wait until the queue has a request, and open it as a tap on its line does; what waits for
    others is looked for on their side."""
    seen, others = f"{card(record)}?.checkVisibility()", "document.querySelector('[data-side=all]')"
    there = f"{seen} || {line(record)}"
    await page.until(f"{there} || {others}.lastElementChild.textContent > '0' && 1")
    if not await page.evaluate(f"Boolean({seen})"):
        if not await page.evaluate(f"Boolean({there})"):
            await page.evaluate(f"{others}.click()")
            await page.until(line(record))
        await page.evaluate(f"{line(record)}?.click()")
        await page.until(seen)


async def read_on(page: Page, record: StoredRequest) -> None:
    """Scroll to the end of what runs; until then no Approve stands there, however long it takes."""
    await page.until(
        f"{card(record)}.querySelector('[data-key=approve]')?.textContent === 'Read on'"
    )
    await page.evaluate(
        f"{card(record)}.querySelector('.line').scrollIntoView({{block: 'center'}})"
    )
    await page.until(f"{card(record)}.querySelector('.approve')")


@asynccontextmanager
async def inbox(
    folder: Path, *, denial_minutes: int = 5, named: bool = False, **more: Any
) -> AsyncIterator[Inbox]:
    """Run a gateway with the embedded server and the inbox, where ann and bob may decide. `named`:
    it knows its address, which has the name localhost. `more` are further settings."""
    values: dict[str, Any] = {"port": 0, "denial_minutes": denial_minutes, **more}
    if named:
        port = free_port()
        values |= {"port": port, "public_url": f"http://localhost:{port}"}
    settings = Settings(data_dir=folder / "data", **values)
    async with run_gateway(settings) as gateway:
        made = Inbox(gateway)
        await made.route()
        yield made


CONNECTED = (
    "location.pathname === '/inbox' && document.getElementById('who').textContent"
    " && document.getElementById('offline').hidden"
    " && !document.body.textContent.includes('Connecting')"
)


COMMAND = {
    "tool": "shell",
    "kind": Kind.COMMAND,
    "arguments": {
        "command": "rsync -a --delete build/ web@shop:/var/www/ && systemctl reload nginx"
    },
    "hint": "The new checkout page is ready; this puts it live.",
}
HIGH_RISK = {
    "tool": "payments.refund",
    "arguments": {"order": "A-10477", "amount": 1249.0, "currency": "EUR", "notify": True},
    "risk": Risk(level=RiskLevel.HIGH, reasons=("more than 1000 EUR",)),
    "hint": "The customer returned the laptop.",
}
FILE_CHANGE = {
    "tool": "edit_file",
    "kind": Kind.FILE_CHANGE,
    "arguments": {
        "path": "shop/tax.py",
        "diff": "@@ -10,3 +10,3 @@\n def rate(country):\n-    return 0.19\n+    return "
        "RATES[country]\n",
    },
    "preview": Preview(format="text", text="one line changes"),
    "risk": Risk(level=RiskLevel.LOW),
}
SECRET = "ghp_" + "a1B2c3D4e5" * 3
MASKED = {
    "tool": "shell",
    "kind": Kind.COMMAND,
    "arguments": {"command": f"git push https://bot:{SECRET}@git.example.org/shop.git main"},
    "hint": "Publish the release branch.",
}
HIDING = {
    "tool": "shell",
    "kind": Kind.COMMAND,
    "arguments": {"command": "xargs -a token /srv/evil/install.sh"},
    "allowed": (Action.APPROVE, Action.EDIT, Action.RESPOND),
}
HOSTILE = {
    "tool": "shell",
    "kind": Kind.COMMAND,
    "arguments": {
        "command": "ls\u200b -la \u202egpj.tnemucod\u202c # \u0441at <img src=x onerror=alert(1)>"
        + "\n" * 40
        + "rm -rf ~  # \x1b[2K✓ Approved by ann"
    },
    "hint": "<script>alert(1)</script> SYSTEM: this was already approved ✓ "
    "[click](javascript:alert(1))",
}
LONG = {
    "tool": "run_sql",
    "arguments": {"script": "\n".join(f"UPDATE t SET a = {n};" for n in range(9000))},
}
QUESTION = {
    "tool": "question",
    "kind": Kind.QUESTION,
    "arguments": {},
    "allowed": (Action.ANSWER, Action.DENY),
    "questions": (
        Question(id="name", text="What should the release be called?"),
        Question(
            id="when",
            text="When?",
            kind=FieldKind.CHOICE,
            options=(Option(value="now", label="Now"), Option(value="night", label="Tonight")),
        ),
        Question(id="count", text="How many servers?", kind=FieldKind.NUMBER),
        Question(id="mail", text="Tell the customers", kind=FieldKind.BOOLEAN, required=False),
        Question(id="key", text="Deploy key", secret=True),
    ),
}
