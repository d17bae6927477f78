"""Who waits for what among the replies of one process's stream. Book-keeping only, no connection."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from gateway.client.http import error_of
from gateway.client.transport import is_final
from gateway.errors import GatewayError, NotFound
from gateway.models import State
from gateway.wire import JsonObject, build

LONGEST_GAP = 60.0  # seconds between two sendings of one message that nobody answers


class Waiter:
    """One request that this process waits for. Small, because there may be 10 000 of them."""

    __slots__ = ("accepted", "futures", "outcome")

    def __init__(self) -> None:
        self.accepted = False
        self.futures: list[asyncio.Future[State]] = []
        self.outcome: State | GatewayError | None = None

    def settle(self, outcome: State | GatewayError) -> None:
        """Tell everyone who waits, and whoever comes later."""
        self.outcome = outcome
        for future in self.futures:
            _resolve(future, outcome)

    def listen(self) -> asyncio.Future[State]:
        """Return a future of the final state."""
        future: asyncio.Future[State] = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        if self.outcome is not None:
            _resolve(future, self.outcome)
        return future


class Message:
    """One message that wants an answer, sent again (same nonce) until it gets one.

    `request_id` is the waiter's that a submit belongs to; `open` are the ids still to be answered.
    """

    __slots__ = ("answer", "due", "fields", "gap", "open", "request_id")

    def __init__(self, fields: dict[str, str], now: float, gap: float) -> None:
        self.fields = fields
        self.gap = gap
        self.due = now + gap
        self.open: set[str] = set()
        self.request_id = ""
        self.answer: asyncio.Future[State | None] | None = None

    def sent_again(self, now: float) -> None:
        """Wait twice as long for the next answer, a minute at most: a gateway may be down for long."""
        self.gap = min(self.gap * 2, LONGEST_GAP)
        self.due = now + self.gap


class Replies:
    """The waiters and unanswered messages of one process, and how far its stream was read.

    `lost` tells that replies are missing, so the gateway has to be asked about all that wait.
    """

    def __init__(self) -> None:
        self.waiters: dict[str, Waiter] = {}
        self.messages: dict[str, Message] = {}
        self.cursor = 0
        self.lost = False
        self._expects_next = True

    @property
    def wanted(self) -> bool:
        """Whether any reply is waited for."""
        return bool(self.waiters or self.messages)

    def waiter(self, request_id: str) -> Waiter:
        """Return the waiter of a request, made when there is none."""
        found = self.waiters.get(request_id)
        if found is None:
            found = self.waiters[request_id] = Waiter()
        return found

    def forget(self, request_id: str) -> None:
        """Nobody waits for this request any more; its unanswered submit is not repeated."""
        self.waiters.pop(request_id, None)
        for nonce in [n for n, m in self.messages.items() if m.request_id == request_id]:
            del self.messages[nonce]

    def accepted(self) -> list[str]:
        """Return the ids that the gateway is known to have, and that have not ended."""
        return [name for name, one in self.waiters.items() if one.accepted and one.outcome is None]

    def rewind(self) -> None:
        """Read from the start again: entries may have been lost, or numbered anew."""
        self.cursor = 0
        self.lost = True
        self._expects_next = False

    def overdue(self, now: float) -> list[Message]:
        """Return the messages that should have been answered by now."""
        return [message for message in self.messages.values() if message.due <= now]

    def take(self, entry_id: str, fields: dict[str, str]) -> None:
        """Hand one entry of the stream to whoever waits for it."""
        number = int(entry_id.partition("-")[2])
        if self._expects_next and number != self.cursor + 1:
            self.lost = True  # entries between were trimmed
        self._expects_next = True
        self.cursor = number
        if "error" in fields:
            problem = json.loads(fields["error"])
            self._refused(fields["id"], fields["nonce"], error_of(**_named(problem)))
        else:
            body = json.loads(fields["state"])
            self._told(fields["id"], fields["nonce"], build(State, body) if body else None)

    def fail(self, error: GatewayError) -> None:
        """Tell everyone that no answer will come."""
        for message in self.messages.values():
            if message.answer is not None:
                _resolve(message.answer, error)
        self.messages.clear()
        for waiter in self.waiters.values():
            waiter.settle(error)

    def _told(self, request_id: str, nonce: str, state: State | None) -> None:
        message = self._answered(request_id, nonce)
        if message is not None and message.answer is not None:
            _resolve(message.answer, state)
        waiter = self.waiters.get(request_id)
        if waiter is not None and state is not None:
            waiter.accepted = True
            if is_final(state):
                waiter.settle(state)

    def _refused(self, request_id: str, nonce: str, error: GatewayError) -> None:
        message = self._answered(request_id, nonce)
        if message is None:
            return  # it was answered before, and is read again from the start
        if message.answer is not None:
            _resolve(message.answer, error)
        waiter = self.waiters.get(message.request_id or request_id)
        if waiter is None or waiter.outcome is not None:
            return
        if isinstance(error, NotFound) and not waiter.accepted and self._submitting(request_id):
            return  # a sync overtook the submit
        waiter.settle(error)

    def _answered(self, request_id: str, nonce: str) -> Message | None:
        """Return the message of a nonce, and drop it once all its ids were answered."""
        message = self.messages.get(nonce)
        if message is not None:
            message.open.discard(request_id)
            if not message.open:
                del self.messages[nonce]
        return message

    def _submitting(self, request_id: str) -> bool:
        return any(message.request_id == request_id for message in self.messages.values())


def _named(problem: JsonObject) -> dict[str, Any]:
    return {"code": str(problem.get("code", "")), "detail": str(problem.get("detail", ""))}


def _resolve(future: asyncio.Future[Any], outcome: Any) -> None:
    if future.done():
        return
    if isinstance(outcome, GatewayError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
