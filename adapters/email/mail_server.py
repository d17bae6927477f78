"""Give mails to the mail server, each at most twice; start with `MailServer.send`."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from aiosmtplib import SMTP, SMTPException

from adapters.email.messages import MailText, build_message
from gateway import ports
from gateway.errors import GatewayError, Misconfigured

_ATOM = r"[\w!#$%&'*+/=?^`{|}~-]+"
_DOMAIN = r"[A-Za-z\d-]+(?:\.[A-Za-z\d-]+)*"
ADDRESS = re.compile(rf"(?=.{{3,254}}\Z){_ATOM}(?:\.{_ATOM})*@{_DOMAIN}", re.ASCII)
KEPT_SECONDS = 31 * 86_400.0  # longer than a request may be pending
_PORTS = {"smtp": 587, "smtps": 465}
_CALL_SECONDS, _CONNECT_SECONDS, _QUIT_SECONDS = 20.0, 12.0, 1.0  # the core waits 25 for a call
_WATCH_SECONDS, _RECOVER_SECONDS = 300.0, 60.0
_FIRST_PAUSE, _MOST_DOUBLINGS, _AT_ONCE = 5.0, 6, 4
_SENT, _MOST_TRIES = "sent", "2"
_REFUSED, _PERMANENT = 400, 500


def read_settings() -> tuple[dict[str, Any], str]:
    """Read GATEWAY_EMAIL_URL and GATEWAY_EMAIL_FROM. Return the arguments that connect aiosmtplib,
    always over TLS, and the sender. Raises Misconfigured, whose text never contains the URL."""
    env = os.environ.get
    path, sender = env("GATEWAY_EMAIL_URL_FILE"), env("GATEWAY_EMAIL_FROM", "")
    try:
        told = env("GATEWAY_EMAIL_URL") or (Path(path).read_text("utf-8") if path else "")
        url = urlsplit(told.strip())
        port, tls = url.port or _PORTS[url.scheme], url.scheme == "smtps"
    except OSError as error:
        raise Misconfigured(f"GATEWAY_EMAIL_URL_FILE: {error.strerror}") from None
    except (KeyError, ValueError):
        url, port, tls = urlsplit(""), 0, False
    if url.scheme not in _PORTS or not url.hostname or not ADDRESS.fullmatch(sender):
        raise Misconfigured(
            "e-mail needs GATEWAY_EMAIL_URL, such as smtps://USER:PASSWORD@HOST:PORT, or smtp:// "
            "for STARTTLS, and one address in GATEWAY_EMAIL_FROM, such as gateway@example.com"
        )
    login = {"username": unquote(url.username or ""), "password": unquote(url.password or "")}
    connect = {"hostname": url.hostname, "port": port, "use_tls": tls, "start_tls": not tls}
    return connect | (login if url.username else {}), sender


class MailServer:
    """The mail server in the settings. `notes` remember which mails it took. The list `problems`
    says why it takes none. Raises Misconfigured."""

    def __init__(self, notes: ports.AdapterStorage, problems: list[str]) -> None:
        self._connect, self._sender = read_settings()
        self._domain = self._sender.rpartition("@")[2]
        self._notes, self._problems = notes, problems
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._refusals = Counter[str]()

    async def watch(self) -> None:
        """Keep `problems` up to date until cancelled."""
        while True:
            with suppress(GatewayError):  # also if the notes cannot be read
                await self.send("")
            await asyncio.sleep(_RECOVER_SECONDS if self._problems else _WATCH_SECONDS)

    async def send(
        self,
        recipient: str,
        text: MailText | None = None,
        name: str = "check",
        thread: tuple[str, str] | None = None,
    ) -> str:
        """Send the mail with this name once, and return its Message-ID. Without a text, only check
        that the server would take one, for the recipient if there is one.

        Raises RetryLater if the server does not take it now, DeliveryUncertain if it does not
        confirm it, and DeliveryFailed if it rejects it or did not confirm two attempts.
        """
        tries, message_id = await self._notes.get(name) or "0", f"{name}@{self._domain}"
        if tries == _SENT:
            return message_id
        if tries == _MOST_TRIES:
            raise ports.DeliveryFailed("the mail server did not confirm two attempts to send this")
        doubtful = False
        try:
            async with asyncio.timeout(_CALL_SECONDS) as limit, self._slots, self._open() as smtp:
                if recipient:
                    await smtp.rcpt(recipient)
                if text is not None:
                    mail = build_message(text, self._sender, recipient, message_id, thread)
                    await self._note(name, str(int(tries) + 1))
                    doubtful = True
                    await smtp.data(mail)
                    doubtful = False
                    limit.reschedule(None)  # the mail is sent, even if the rest fails
                    await self._note(name, _SENT)
        except (SMTPException, OSError, ValueError) as error:
            code, why = getattr(error, "code", 0), self._describe(error)
            if doubtful and code < _REFUSED:
                raise ports.DeliveryUncertain(why) from error
            if doubtful:
                await self._note(name, tries)
            if code >= _PERMANENT:
                raise ports.DeliveryFailed(why) from error
            pause = _FIRST_PAUSE * 2 ** min(self._refusals[recipient], _MOST_DOUBLINGS)
            self._refusals[recipient] += 1
            raise ports.RetryLater(pause, why) from error
        self._refusals.pop(recipient, None)
        return message_id

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[SMTP]:
        """Connect, log in and name the sender."""
        smtp = SMTP(**self._connect, local_hostname=self._domain, timeout=_CONNECT_SECONDS)
        try:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await smtp.connect()
                    await smtp.mail(self._sender)
            except (SMTPException, OSError, ValueError) as error:
                self._problems[:] = [f"E-mail: {self._describe(error)}"]
                raise
            self._problems.clear()
            yield smtp
            with suppress(SMTPException):
                await smtp.quit(timeout=_QUIT_SECONDS)
        finally:
            smtp.close()

    async def _note(self, name: str, text: str) -> None:
        await self._notes.put(name, text, seconds=KEPT_SECONDS)

    def _describe(self, error: Exception) -> str:
        """Return what went wrong. The server's words are untrusted."""
        said = f"{getattr(error, 'code', '')} {getattr(error, 'message', error)}".split()
        safe = ports.render_safe(" ".join(said) or "it does not answer in time").text
        return f"the mail server {self._connect['hostname']}: {ports.start_of(safe, 300)}"
