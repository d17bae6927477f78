"""Mail requests to people, who decide in the inbox; start with `EmailAdapter.run`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from adapters.email.mail_server import ADDRESS, KEPT_SECONDS, MailServer
from adapters.email.messages import MailText, write_mail
from gateway import ports
from gateway.cards.card import Card
from gateway.errors import GatewayError, Misconfigured

_OUTCOMES = ports.Rate(30, 60.0)
"""For each address in `notify`. The budgets of agents limit cards, but not their outcomes."""


class EmailAdapter(ports.Adapter):
    """Mails each request with a link to the inbox. Nobody can decide by mail."""

    name = "email"
    repeatable = True  # the server gets a mail with the same name only once
    _api: ports.AdapterApi
    _server: MailServer

    def __init__(self) -> None:
        self._problems: list[str] = []

    @asynccontextmanager
    async def run(self, api: ports.AdapterApi) -> AsyncIterator[None]:
        """Watch the mail server. Raises Misconfigured if a setting or the inbox is missing."""
        if not api.inbox:
            raise Misconfigured(
                'e-mail needs GATEWAY_PUBLIC_URL, and "web" in GATEWAY_ADAPTERS: each mail has a '
                "link to the inbox"
            )
        self._api, self._server = api, MailServer(api.notes, self._problems)
        self._pace = ports.RateLimiter(api.notes)
        watching = asyncio.create_task(self._server.watch(), name="mail server")
        try:
            yield
        finally:
            await ports.cancel_and_wait(watching)

    @property
    def problems(self) -> Sequence[str]:
        """Why the mail server takes no mail; empty if it does."""
        return self._problems

    async def deliver(self, target: str, shown: ports.Shown, nonce: str) -> ports.MessageRef:
        """Mail a card. Idempotent."""
        recipient, text = _read_target(target), self._write(shown)
        # Replies repeat the subject, so that programs for mail show one conversation.
        await self._api.notes.put_new(f"subject {nonce}", text.subject, seconds=KEPT_SECONDS)
        sent = await self._server.send(recipient, text, nonce)
        return ports.MessageRef(adapter=self.name, channel=recipient, message=sent)

    async def update(self, ref: ports.MessageRef, shown: ports.Shown, nonce: str) -> None:
        """Mail how a request or a grant ended. Other changes cause no mail. Raises CopyGone if the
        server rejects this mail."""
        if not (shown.disarms if isinstance(shown, Card) else shown.ended):
            return
        try:
            await self._reply(f"{nonce}.end", ref, self._write(shown, ended=True), nonce)
        except (ports.DeliveryUncertain, ports.RetryLater):
            raise
        except ports.DeliveryFailed as failure:
            await self._forget(nonce)
            raise ports.CopyGone(f"the outcome was not mailed: {failure}") from failure
        await self._forget(nonce)

    async def tell(self, notice: ports.Notice, shown: ports.Shown) -> None:
        """Mail a reminder as a reply to its card, or an outcome. Raises RetryLater if an address
        gets too many outcomes."""
        text = self._write(shown, notice=notice)
        if notice.ref is None:
            recipient = _read_target(notice.target)
            async with self._pace.turn(f"mails to {recipient}", _OUTCOMES, notice.nonce):
                await self._server.send(recipient, text, notice.nonce)
        else:  # each reminder has a new revision of the card
            await self._reply(f"{notice.nonce}.{shown.revision}", notice.ref, text, notice.nonce)

    async def _reply(self, name: str, ref: ports.MessageRef, text: MailText, nonce: str) -> None:
        subject = await self._api.notes.get(f"subject {nonce}") or text.subject
        await self._server.send(ref.channel, text, name, thread=(ref.message, subject))

    async def _forget(self, nonce: str) -> None:
        """Leave no words of a request that ended, as it may be erased."""
        await self._api.notes.delete(f"subject {nonce}")

    def _write(self, shown: ports.Shown, **about: Any) -> MailText:
        request = shown.request_id if isinstance(shown, Card) and shown.asks else ""
        url = self._api.address_of(request) if request else self._api.inbox
        return write_mail(shown, url, **about)

    async def checks(
        self,
        called: ports.Called,
        notes: ports.AdapterStorage,
        *,
        live: bool,
        trial: ports.LiveTrial | None = None,
    ) -> Sequence[tuple[str, ports.Finding]]:
        """Check whether the mail server lets the gateway in and accepts each address. With `live`,
        mail each of them."""
        said = "This is a test mail of the approval gateway."
        text = MailText(subject=said, heading="Test mail", lines=(said,), url="") if live else None
        found = []
        for target in ("", *called):
            try:
                recipient = _read_target(target) if target else ""
                name = f"test{secrets.token_hex(8)}"
                await MailServer(notes, []).send(recipient, text if target else None, name)
                made = ports.report_ok(f"the mail server accepts {target or 'the login'}")
            except GatewayError as error:
                says = f"{target}: {error}" if target else str(error)
                made = ports.report_failure(says, "see docs/guides/email.md")
            found.append(("email target" if target else "email server", made))
            if found[0][1].result == ports.FAIL:
                break
        return found


def _read_target(target: str) -> str:
    """Return the address of a target. Raises DeliveryFailed."""
    address = target.removeprefix("email:")
    if not ADDRESS.fullmatch(address):
        raise ports.DeliveryFailed(f"{target!r} is not a target; write email:NAME@DOMAIN")
    return address
