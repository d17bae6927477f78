"""Calls to Slack's Web API, and the meaning of its errors. No call is repeated blindly."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.redacted_logs import library_logger
from adapters.slack.text_objects import Json
from gateway.ports import DeliveryFailed, DeliveryUncertain, RetryLater

CALL_SECONDS = 10.0
_LONGEST_WAIT = 60.0
_LONGEST_PAUSE = 30
_TOO_MANY = 429

# Slack says that these may come after the call took effect.
_DOUBTFUL = {"internal_error", "fatal_error", "request_timeout"}
_LATER = {
    "ratelimited",
    "rate_limited",
    "service_unavailable",
    "team_added_to_org",
    "accesslimited",
}


class SlackRefused(DeliveryFailed):
    """Slack responded with an error code, `error`."""

    code = "slack_refused"

    def __init__(self, error: str, detail: str = "") -> None:
        super().__init__(f"Slack says {error}{f': {detail}' if detail else ''}")
        self.error = error


class Unavailable(RetryLater):
    """Slack's API was not reached, so that nothing was done."""

    def __init__(self, why: str) -> None:
        super().__init__(1.0, why)


class Patience:
    """The pauses while Slack is unavailable: longer each time, up to a limit."""

    def __init__(self) -> None:
        self._failures = 0
        self._last = 0.0

    def record_failure(self, now: float) -> float:
        """Return the seconds to wait after a failure at `now`; many at once count as one."""
        if now - self._last > 1.0:
            self._failures += 1
            self._last = now
        return float(min(2 ** (self._failures - 1), _LONGEST_PAUSE))

    def reset(self) -> None:
        """Start again with the shortest pause."""
        self._failures = 0


def build_client(token: str | None, api_url: str, session: aiohttp.ClientSession) -> AsyncWebClient:
    """Return a client that sends each call once: the SDK's own retries would post cards twice.

    The session limits the duration of calls; nothing else does.
    """
    return AsyncWebClient(
        token=token,
        base_url=api_url,
        session=session,
        timeout=int(CALL_SECONDS),
        retry_handlers=[],
        logger=library_logger(),
    )


async def call_repeatable(call: Callable[[], Awaitable[Any]]) -> Json:
    """Make a call that changes nothing, or that may be repeated; return its answer.

    Raises SlackRefused, RetryLater.
    """
    try:
        return await call_once(call)
    except DeliveryUncertain as doubt:
        raise Unavailable(str(doubt)) from doubt


async def call_once(call: Callable[[], Awaitable[Any]]) -> Json:
    """Make a call once; return its answer. Raises as `call_for_response` does."""
    data = (await call_for_response(call)).data
    return data if isinstance(data, dict) else {}


async def call_for_response(call: Callable[[], Awaitable[Any]]) -> Any:
    """Make a call once; return the SDK's whole response, with its headers.

    Raises SlackRefused, RetryLater when it certainly had no effect, DeliveryUncertain otherwise.
    """
    try:
        return await call()
    except SlackApiError as error:
        raise _translate_error(error) from error
    except aiohttp.ClientConnectorError as error:
        raise Unavailable("Slack cannot be reached") from error
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise DeliveryUncertain(f"Slack did not answer: {type(error).__name__}") from error


def _translate_error(error: SlackApiError) -> DeliveryFailed:
    response: Any = error.response
    status = int(getattr(response, "status_code", 0) or getattr(response, "status", 0))
    data = getattr(response, "data", None)
    code = str(data.get("error", "")) if isinstance(data, dict) else ""
    if status == _TOO_MANY or code in _LATER:
        return RetryLater(_retry_after(response), "Slack's rate limit")
    if code in _DOUBTFUL:
        return DeliveryUncertain(f"Slack says {code}")
    if not code:
        # An error page from something in front of Slack's API, which never saw the call.
        return Unavailable(f"Slack is not available ({status})")
    messages = (
        data.get("response_metadata", {}).get("messages", []) if isinstance(data, dict) else []
    )
    needed = data.get("needed", "") if isinstance(data, dict) else ""
    return SlackRefused(code, str(needed) or "; ".join(map(str, messages))[:300])


def _retry_after(response: Any) -> float:
    headers = getattr(response, "headers", None) or {}
    try:
        seconds = float(headers.get("Retry-After", "1"))
    except (TypeError, ValueError):
        seconds = 1.0
    return min(max(seconds, 1.0), _LONGEST_WAIT) if math.isfinite(seconds) else _LONGEST_WAIT
