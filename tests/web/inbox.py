"""A whole gateway with the inbox for the browser tests, and the requests they look at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.app import Gateway, running
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
from gateway.ports import Origin
from gateway.records import Record
from gateway.settings import Settings
from tests.web.chromium import Page
from tests.world import request

AGENT = "deployer"


@dataclass
class Inbox:
    """A running gateway and a signed-in approver's page."""

    gateway: Gateway
    person: str = "ann"

    async def ask(self, **details: Any) -> Record:
        """Submit a request as an agent that waits."""
        asked = request(
            agent=AGENT, **{"context": Context(cwd="/srv/shop", host="ci-7"), **details}
        )
        origin = Origin(agent=AGENT, process="p" * 16)
        record, _ = await self.gateway.approvals.submit(asked, origin)
        return record

    async def sign_in(self, page: Page) -> None:
        """Follow a one-time link and press the button."""
        code = await self.gateway.backend.logins.invite(self.person)
        await page.goto(f"{self.gateway.url}/inbox/login#code={code}")
        await page.press("Sign in")
        await page.until(
            "location.pathname === '/inbox' && document.getElementById('who').textContent"
        )

    async def get(self, record: Record) -> Record:
        """Return a request as it stands."""
        return await self.gateway.approvals.get(record.id)


@asynccontextmanager
async def inbox(folder: Path) -> AsyncIterator[Inbox]:
    """Run a gateway with the embedded server, the inbox, and ann as approver."""
    async with running(Settings(data_dir=folder / "data", port=0)) as gateway:
        await gateway.backend.credentials.add_approver("ann")
        yield Inbox(gateway)


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
