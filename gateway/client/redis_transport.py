"""Talk to the gateway over Redis streams. Start at RedisTransport.

One blocking read serves all waiters of this process. The user needs only XADD on the agent's
ingress stream and XREAD on its reply streams. Lost, repeated or late messages do no harm, because
submit and sync are repeated until the gateway replies.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from gateway.client.check_decision import error_of
from gateway.client.config import Backoff
from gateway.client.transport import Process, StepUpCodes, aged, is_final, state_of
from gateway.errors import GatewayError, InvalidRequest, Unauthorized, Unreachable, Unverified
from gateway.models import ApprovalRequest, Reason, Report, State, new_id
from gateway.wire.codec import JsonObject, plain
from gateway.wire.redis_connection import Multiplexer, close_sentinels, pool_at

log = logging.getLogger("gateway.client")

_BLOCK_MS = 3000  # well below the time that the multiplexer waits for a reply
_ANSWER_SECONDS = 5.0
_HEARTBEAT_SECONDS = 10.0
_PATIENCE_SECONDS = _HEARTBEAT_SECONDS + _ANSWER_SECONDS
_BATCH = 512
_SYNC_IDS = 500
_CONNECT_SECONDS = 5.0
_FORMS = (
    "GATEWAY_REDIS_URL is not valid. Write redis://user:password@host:6379/0, rediss://... for "
    "TLS, unix:///path, redis+sentinel://host:26379/service or redis+cluster://host:6379"
)


class _PendingRequest:
    """The outcome of one request, and its waiters. Each waiter has a separate future, so that
    cancelling one waiter does not affect the others."""

    def __init__(self) -> None:
        self.waiters: list[asyncio.Future[State]] = []
        self._outcome: State | GatewayError | None = None
        self.deadline: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._sent: tuple[float, int] | None = None
        self._deadline_ms: int | None = None

    def waiter(self) -> asyncio.Future[State]:
        """Return a new future that gets the outcome."""
        waiter: asyncio.Future[State] = asyncio.get_running_loop().create_future()
        self.waiters.append(waiter)
        self._wake(waiter)
        return waiter

    def note_sent(self, sent: float, entry: str) -> None:
        """Save when the request was sent: `sent` by the loop's clock, `entry` by the server's
        clock."""
        self._sent = self._sent or (sent, int(entry.partition("-")[0]))
        self._learn()

    def note_deadline(self, deadline_ms: int) -> None:
        """Save the deadline that the gateway sent. It is measured by the server's clock."""
        self._deadline_ms = deadline_ms
        self._learn()

    def _learn(self) -> None:
        if self._sent and self._deadline_ms is not None and not self.deadline.done():
            sent, entry_ms = self._sent
            self.deadline.set_result(sent + (self._deadline_ms - entry_ms) / 1000)

    def settle(self, outcome: State | GatewayError) -> None:
        """Set the outcome, and wake all waiters. Later outcomes are ignored."""
        self._outcome = self._outcome or outcome
        for waiter in self.waiters:
            self._wake(waiter)

    def cancel(self) -> None:
        """Cancel all waiters."""
        for waiter in self.waiters:
            waiter.cancel()

    def _wake(self, waiter: asyncio.Future[State]) -> None:
        if self._outcome is None or waiter.done():
            return
        if isinstance(self._outcome, GatewayError):
            waiter.set_exception(self._outcome)
        else:
            waiter.set_result(self._outcome)


class RedisTransport:
    """A `Transport` over the agent's Redis user. It belongs to the event loop that entered it."""

    def __init__(self, url: str, agent: str, namespace: str = "gw", *, inbox: str = "") -> None:
        self.agent = agent
        self.process = Process()
        self.numbers = StepUpCodes()
        self.inbox = inbox
        self._ingress = f"{{{namespace}}}:in:{agent}"
        self._replies = f"{{{namespace}}}:out:{agent}:{self.process.token}"
        try:
            pool = pool_at(
                url,
                decode_responses=True,
                socket_timeout=None,
                socket_connect_timeout=_CONNECT_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )
        except (ValueError, TypeError):
            raise InvalidRequest(_FORMS) from None
        self._pool = pool
        self._writer = Multiplexer(pool)
        self._reader = Multiplexer(pool, reports_loss=True)
        self._awaited: dict[str, _PendingRequest] = {}
        self._unanswered: dict[str, tuple[ApprovalRequest, float]] = {}
        self._answers: dict[str, asyncio.Future[State | None]] = {}
        self._doubtful: dict[str, None] = {}  # ids whose reply may have been missed, in order
        self._asked: set[str] = set()  # the ids in the last sync message without a reply yet
        self._asked_at = 0.0
        self._asking = ""  # nonce of that message, since old replies may be read again
        self._cursor = 0
        self._heard_at = 0.0
        self._reread = False
        self._rewound = False
        self._lost = False
        self._needed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> RedisTransport:
        """Start the tasks, which read the reply stream only while a request is pending."""
        self._tasks = [
            asyncio.create_task(self._listen(), name="gateway replies"),
            asyncio.create_task(self._send_heartbeats(), name="gateway heartbeat"),
        ]
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop reading, and cancel all waiters."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for awaited in self._awaited.values():
            awaited.cancel()
        for answer in self._answers.values():
            answer.cancel()
        await self._writer.aclose()
        await self._reader.aclose()
        await close_sentinels(self._pool)

    async def submit(self, request: ApprovalRequest, *, detached: bool) -> None:
        """Write the request to the ingress stream. A gateway reads the request now, or when it
        starts."""
        if detached:
            await self._send("submit", plain(request), detached="1")
            return
        awaited = self._track(request.id)
        sent = asyncio.get_running_loop().time()
        self._unanswered[request.id] = request, sent
        try:
            awaited.note_sent(sent, await self._send("submit", plain(request), nonce=request.id))
        except BaseException:
            if not awaited.waiters:  # others may wait for the same id
                self._forget(request.id)
            raise

    async def deadline(self, request_id: str) -> float | None:
        """Return the deadline of a request, once the gateway has replied."""
        awaited = self._track(request_id)
        waiter = awaited.waiter()
        try:
            either: set[asyncio.Future[Any]] = {waiter, awaited.deadline}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if awaited.deadline.done():
                return awaited.deadline.result()
            waiter.result()  # raises the error that ended it
            return None
        finally:
            awaited.waiters.remove(waiter)
            waiter.cancel()

    async def wait(self, request_id: str, *, until: float) -> State:
        """Return the final state. Raises TimeoutError at `until`."""
        known = request_id in self._awaited
        awaited = self._track(request_id)
        waiter = awaited.waiter()
        try:
            if not known:
                await self._send("sync", {"ids": [request_id]})
            async with asyncio.timeout_at(until):
                return await waiter
        finally:
            awaited.waiters.remove(waiter)
            if not awaited.waiters:
                self._forget(request_id)

    async def cancel(self, request_id: str, *, reason: Reason, message: str) -> None:
        """Cancel a request."""
        awaited = self._awaited.get(request_id)
        if awaited is not None and not awaited.waiters:
            self._forget(request_id)  # submitted, and nobody waits for it
        await self._send("cancel", {"id": request_id, "reason": reason.value, "message": message})

    async def consume(self, request_id: str) -> State:
        """Claim the approval, and return the state that contains the approval."""
        state = await self._ask("consume", {"id": request_id})
        if state is None:
            raise Unreachable("the gateway's reply has no state")
        return state

    async def report(self, request_id: str, report: Report) -> None:
        """Write a durable report on the action, without waiting for a reply."""
        await self._send("report", {"id": request_id, "report": plain(report)})

    async def fetch(self, request_id: str) -> State:
        """Return the current state of a request, with its record."""
        state = await self._ask("fetch", {"id": request_id})
        if state is None:
            raise Unreachable("the gateway's reply has no state")
        return state

    async def end_session(self, session: str) -> None:
        """End a session and cancel its pending requests."""
        await self._ask("cancel", {"session": session})

    def _track(self, request_id: str) -> _PendingRequest:
        self._needed.set()
        return self._awaited.setdefault(request_id, _PendingRequest())

    def _forget(self, request_id: str) -> None:
        self._awaited.pop(request_id, None)
        self._unanswered.pop(request_id, None)
        self._stop_reading_if_idle()

    def _stop_reading_if_idle(self) -> None:
        if not self._awaited and not self._answers:
            self._needed.clear()

    async def _ask(self, verb: str, body: JsonObject) -> State | None:
        """Send a message, and return the state in its reply. Raises Unreachable without a reply.

        If the gateway sent nothing, this process may have missed the reply, so it checks its
        pending requests. If the gateway sent other replies, it is busy: only the stream is read
        again, in case it was recreated.
        """
        nonce, sent = new_id(), asyncio.get_running_loop().time()
        future: asyncio.Future[State | None] = asyncio.get_running_loop().create_future()
        self._answers[nonce] = future
        self._needed.set()
        try:
            await self._send(verb, body, nonce=nonce)
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await asyncio.shield(future)
        except TimeoutError:
            if self._heard_at < sent:
                self._rewind()
                raise Unreachable("the gateway does not respond") from None
            self._reread = True
            raise Unreachable("the gateway is busy with other clients; try again") from None
        finally:
            self._answers.pop(nonce, None)
            self._stop_reading_if_idle()

    async def _send(self, verb: str, body: JsonObject, *, nonce: str = "", **more: str) -> str:
        process = self.process.token
        text = json.dumps(body, separators=(",", ":"))
        fields = {"v": "1", "verb": verb, "process": process, "nonce": nonce or new_id()}
        entry = [word for field in {**fields, "body": text, **more}.items() for word in field]
        try:
            return str(await self._writer.send("XADD", self._ingress, "*", *entry))
        except (AuthenticationError, NoPermissionError) as error:
            raise Unauthorized(f"Redis rejects the login of {self.agent}: {error}") from error
        except (RedisError, OSError) as error:
            raise Unreachable(f"Redis does not respond: {error}") from error

    def _rewind(self, *, lost: bool = False) -> None:
        """Read the stream from its start, because entries may have been trimmed or renumbered.

        After a `lost` connection, requests without a reply are sent again.
        """
        self._cursor = 0
        self._rewound = True
        self._lost = self._lost or lost

    async def _listen(self) -> None:
        backoff = Backoff()
        while True:
            await self._needed.wait()
            try:
                await self._read_batch()
                backoff = Backoff()
            except (RedisError, OSError, TimeoutError, GatewayError) as error:
                log.info("replies interrupted: %s", error, extra={"event": "replies_interrupted"})
                self._rewind(lost=True)
                await asyncio.sleep(backoff.pause())

    async def _read_batch(self) -> None:
        """Read one batch, and dispatch it. After a rewind, ask for the state of all requests."""
        if self._reread:
            self._cursor, self._reread = 0, False
        if self._rewound:
            self._rewound = False
            await self._resend()
        await self._ask_on()
        place = f"0-{self._cursor}"
        words = ("COUNT", _BATCH, "BLOCK", _BLOCK_MS, "STREAMS", self._replies, place)
        await self._reader.send("XREAD", *words, on_answer=self._hand_out)

    def _hand_out(self, found: Any) -> None:
        """Dispatch a batch. Called before the reading task resumes, so that waiters wake first."""
        for entries in dict(found or {}).values():
            self._heard_at = asyncio.get_running_loop().time()
            for entry_id, words in entries:
                number = int(entry_id.partition("-")[2])
                if self._cursor and number != self._cursor + 1:
                    self._rewound = True
                self._cursor = number
                self._dispatch(dict(zip(words[::2], words[1::2], strict=True)))

    async def _resend(self) -> None:
        if self._lost:
            now = asyncio.get_running_loop().time()
            for request, sent in list(self._unanswered.values()):
                left = aged(request, now - sent)
                await self._send("submit", plain(left), nonce=request.id)
            self._asked.clear()
        self._lost = False
        self._doubtful = {name: None for name in self._awaited if name not in self._unanswered}

    async def _ask_on(self) -> None:
        """Ask for the state of as many doubtful requests as fit in one message, once the previous
        message was answered. Too many replies at once would overflow the stream."""
        now = asyncio.get_running_loop().time()
        self._asked = {name for name in self._asked if name in self._awaited}
        if self._asked and now < self._asked_at + _PATIENCE_SECONDS:
            return
        self._doubtful.update(dict.fromkeys(self._asked))
        doubtful = [name for name in self._doubtful if name in self._awaited]
        ids = doubtful[:_SYNC_IDS]
        if ids:
            self._asking = new_id()
            await self._send("sync", {"ids": ids}, nonce=self._asking)
        self._doubtful = dict.fromkeys(doubtful[_SYNC_IDS:])
        self._asked, self._asked_at = set(ids), now

    def _dispatch(self, fields: dict[str, str]) -> None:
        """Pass one reply to its waiters."""
        request_id, nonce = fields.get("id", ""), fields.get("nonce", "")
        if nonce == self._asking:
            self._asked.discard(request_id)
        answer = self._answers.get(nonce)
        awaited = self._awaited.get(request_id or nonce)
        try:
            state = _parse_reply(fields)
        except GatewayError as error:
            if answer is not None and not answer.done():
                answer.set_exception(error)
            if awaited is not None:
                awaited.settle(error)
            return
        self._unanswered.pop(request_id, None)
        if answer is not None and not answer.done():
            answer.set_result(state)
        if awaited is None or state is None:
            return
        self.numbers.note(state)
        awaited.note_deadline(state.deadline)
        if is_final(state):
            awaited.settle(state)

    async def _send_heartbeats(self) -> None:
        """While requests are pending, renew the lease and detect missing replies."""
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            if not self._awaited:
                continue
            try:
                await self._ask("sync", {})
            except GatewayError as error:
                log.warning("no heartbeat: %s", error, extra={"event": "heartbeat_failed"})


def _parse_reply(fields: dict[str, str]) -> State | None:
    """Return the state in a reply, None if the reply has no state. Raises the error in a reply, and
    Unverified for a malformed reply. An error ends one wait, and reading continues."""
    try:
        if "error" in fields:
            problem = json.loads(fields["error"])
            raise error_of(problem["code"], problem["detail"])
        body = json.loads(fields["state"])
    except (KeyError, TypeError, ValueError) as error:
        raise Unverified(f"cannot parse the gateway's reply: {error!r}") from error
    return state_of(body) if body else None
