"""Submit one request, wait for it, and cancel it if its process ends. Start at OneRequest.

`gateway ask` and agent hooks run once per tool call. So this module uses only the standard library
and plain JSON values, without the wire types and asyncio.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from gateway.client import config
from gateway.client.check_decision import CheckedDecision, has_ended
from gateway.client.config import Backoff
from gateway.client.http_connection import TIMEOUT_SECONDS, HttpConnection, seconds_left
from gateway.errors import Busy, GatewayError, InvalidRequest, Unauthorized, Unreachable, Unverified
from gateway.wire.outcome_text import say_cards, say_number
from gateway.wire.signatures import load_library

T = TypeVar("T")
Say = Callable[[str], None]

MARGIN_SECONDS = 0.5
NO_DEADLINE = 30 * 24 * 3600.0
_POLL_SECONDS = 25.0
_SLACK_SECONDS = 10.0
_GRACE_SECONDS = 1.0
_PAUSE_SECONDS = 0.5
_POSTING_SECONDS = 2.0  # by then most cards are posted
_LEAST_SECONDS = 0.001
_DEFAULT_TIMEOUT = 900.0


class TimedOut(Exception):
    """The wait reached its deadline without a decision."""


class Interrupted(BaseException):
    """SIGINT or SIGTERM stopped the process."""


def stop_on_signals() -> None:
    """Make SIGINT and SIGTERM raise Interrupted from now on."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)


def _stop(number: int, frame: object) -> NoReturn:
    raise Interrupted


class OneRequest:
    """One request of `agent`. `timeout` is in seconds: None means the timeout of the route, 0 means
    no deadline. `say` gets sentences for the person at the terminal; `name` is the name of this
    program."""

    def __init__(
        self, *, agent: str | None, timeout: float | None, say: Say, name: str = "gateway ask"
    ) -> None:
        self._agent = agent
        self._named = timeout
        self._say = say
        self._name = name
        self._process = os.urandom(16).hex()
        self._until: float | None = None
        self._silent = False  # whether a message said that the gateway does not answer
        self._answered = False
        self._detached = False
        self._polled = False
        self._request: dict[str, Any] | None = None

    def run_guarded(self, run: Callable[[], T], late: Callable[[CheckedDecision], T]) -> T:
        """Call `run` with a connection to the gateway, and return its result.

        If there is no decision, cancel the request, so that nobody approves it in vain. If the
        request ended meanwhile, call `late` with the decision. Raises TimedOut, Interrupted,
        GatewayError.
        """
        try:
            try:
                return self._run_connected(run, check=False)
            except Unauthorized:
                # The saved credential is old, or was rotated during the wait. A request that was
                # sent keeps its id, so nobody is asked twice.
                self._forget_time()
                return self._run_connected(run, check=True)
        except Interrupted:
            self._withdraw(f"{self._name} was stopped", TIMEOUT_SECONDS)
            raise
        except TimedOut:
            return late(self._end_late(self._withdraw(f"{self._name} no longer waits")))
        except (Unreachable, Unverified):
            self._withdraw(f"{self._name} gave up")
            raise

    def _forget_time(self) -> None:
        """Restart the timeout, unless the gateway has already accepted the request."""
        if not self._answered:
            self._until = None

    def _run_connected(self, run: Callable[[], T], *, check: bool) -> T:
        """Call `run` with the saved credential. With `check`, test the credential first."""
        found = self._repeat(lambda _: config.load(self._agent, check=check))
        if not found.url or not found.token:
            missing = "GATEWAY_TOKEN" if found.url else "GATEWAY_URL and GATEWAY_TOKEN"
            raise InvalidRequest(f"this command needs HTTP: set {missing}")
        meanwhile = load_library if found.public_key else None
        with HttpConnection(found.url, found.token, meanwhile=meanwhile) as gateway:
            self._gateway, self._found = gateway, found
            return run()

    def _submit(self, left: float) -> Any:
        """Submit the request, and return its state. A repeated submission carries the remaining
        time."""
        assert self._request is not None
        began = time.monotonic()
        again = self._until is not None
        until = self._deadline(began)
        request = self._request
        if again and request["timeout"]:
            left_of_it = max(round(until - began, 3), _LEAST_SECONDS)
            request = {**request, "timeout": left_of_it}
        body = {"request": request, "process": self._process, "detached": self._detached}
        left = min(TIMEOUT_SECONDS, left)
        state, date = self._gateway.exchange("POST", "/v1/requests", body, timeout=left)
        told = seconds_left(state, date) if request["timeout"] is None else None
        self._until = until if told is None else time.monotonic() + told
        return state

    def _await_end(self, state: Any, until: float) -> Any:
        """Wait for the submitted request, and return its final state, with the approval if there is
        one. Raises TimedOut at `until`."""
        assert self._request is not None
        if has_ended(state):
            return state
        where = (
            f"{str(self._found.url).rstrip('/')}/inbox/r/{self._request['id']}, or where the "
            f"gateway runs: gateway approve {self._request['id']}"
        )
        self._say(f"waiting for approval of {self._request['tool']!r}: answer at {where}")
        if told := say_number(state.get("number"), self._request["id"]):
            self._say(told)
        state = self._wait_for_end(self._request["id"], until)
        if state["status"] == "approved" and state.get("decision") is None:
            state = self._consume(self._request["id"])  # the gateway thought this process ended
        return state

    def _repeat(self, call: Callable[[float], T]) -> T:
        """Repeat a call until the gateway answers, and pass the remaining seconds to the call.
        Stops at the connect timeout or, if the gateway has answered once, at the end of the
        wait."""
        began = time.monotonic()
        backoff = Backoff()
        while True:
            patience = NO_DEADLINE if self._answered else config.connect_timeout()
            until = min(began + patience, self._until or math.inf)
            try:
                found = call(max(until - time.monotonic(), _LEAST_SECONDS))
            except config.NoneFound:
                raise
            except Unreachable as error:
                self._answered = self._answered or isinstance(error, Busy)
                pause = backoff.pause(error.retry_after if isinstance(error, Busy) else 0.0)
                if time.monotonic() + pause > until:
                    raise
                self._note_silence(error)
                time.sleep(pause)  # noqa: TID251 (nothing to wait on)
                continue
            self._note_answer()
            return found

    def _note_silence(self, error: Unreachable) -> None:
        if not self._silent:
            self._say(f"waiting for the gateway: {error}")
        self._silent = True

    def _note_answer(self) -> None:
        if self._silent:
            self._say("the gateway responds again")
        self._silent = False

    def _deadline(self, began: float) -> float:
        """Return the time when the wait ends. The gateway and this process count time from the
        first submission, without discovery and enrolment."""
        if self._until is None:
            named = self._named
            self._until = began + (_DEFAULT_TIMEOUT if named is None else named or NO_DEADLINE)
        return self._until

    def _withdraw(self, why: str, timeout: float = _GRACE_SECONDS) -> Any:
        """Cancel the request if this process has submitted one; return its state."""
        if self._request is None:
            return None
        self._gateway.close()  # it may be in the middle of a response
        path = f"/v1/requests/{self._request['id']}/cancel"
        cancelled = {"reason": "abandoned", "message": why}
        try:
            with self._gateway as gateway:
                return gateway.call("POST", path, cancelled, timeout=timeout)
        except GatewayError as error:
            self._say(f"not cancelled: {error}")  # the process ends nevertheless
        return None

    def _end_late(self, state: Any) -> CheckedDecision:
        """Return the decision in a state that came after the deadline. Raises TimedOut without a
        decision."""
        if self._request is None or not isinstance(state, dict) or not state.get("status"):
            raise TimedOut
        if state["status"] == "approved":
            report = {"report": {"execution": "refused_late"}}
            path = f"/v1/requests/{self._request['id']}/report"
            try:
                self._gateway.call("POST", path, report, timeout=_GRACE_SECONDS)
            except GatewayError as error:
                self._say(f"not reported: {error}")
            finally:
                self._gateway.close()
            raise TimedOut
        verdict = CheckedDecision(state, self._request["id"], self._found.public_key)
        if verdict.decision.get("reason") == "abandoned":  # cancelled by this process
            raise TimedOut
        return verdict

    def _consume(self, request_id: str) -> Any:
        """Claim an approval; return the state that contains the approval."""
        path, body = f"/v1/requests/{request_id}/consume", {"process": self._process}
        return self._repeat(lambda _: self._gateway.call("POST", path, body))

    def _wait_for_end(self, request_id: str, until: float) -> Any:
        """Wait, and return the final state of a request. Raises TimedOut at `until`."""
        backoff = Backoff()
        while (left := until - time.monotonic()) > 0:
            state, pause = self._poll(request_id, left)
            if state is None:
                pause = backoff.pause()
            elif has_ended(state):
                return state
            time.sleep(min(pause, left))  # noqa: TID251 (nothing to wait on)
        raise TimedOut

    def _poll(self, request_id: str, left: float) -> tuple[Any, float]:
        """Return the state, after `left` seconds at most, and the pause before the next poll. The
        first poll is short, so that the person soon learns which chats have the cards."""
        first, self._polled = not self._polled, True
        seconds = min(_POSTING_SECONDS if first else _POLL_SECONDS, left)
        patience = min(seconds + _SLACK_SECONDS, left + _GRACE_SECONDS)
        path = f"/v1/requests/{request_id}?process={self._process}{'&record=true' * first}"
        try:
            try:
                poll, pause = f"{path}&wait={seconds:.3f}", 0.0
                state = self._gateway.call("GET", poll, timeout=patience)
            except Busy as error:
                # The gateway refuses further long polls: poll at intervals instead.
                pause = max(_PAUSE_SECONDS, error.retry_after)
                state = self._gateway.call("GET", path, timeout=patience)
        except Unreachable as error:
            self._note_silence(error)
            return None, 0.0
        self._answered = True
        self._note_answer()
        if first and self._request and not has_ended(state):
            record = state.get("record")
            urls = record.get("messages") if isinstance(record, dict) else ()
            for line in say_cards(urls, self._request["tool"]):
                self._say(line)
        return state, pause
