"""HTTP mode: receives Slack's deliveries. Only freshly signed ones reach Bolt."""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from urllib.parse import parse_qsl

from aiohttp import web
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from slack_sdk.signature import SignatureVerifier

from gateway.errors import InvalidRequest
from gateway.ports import BodyTooLarge, BodyTooSlow, Clock, parse_json, read_whole

log = logging.getLogger("adapters.slack.http")

PATH = "/slack/events"
MAX_BYTES = 1_000_000
_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
_WINDOW_SECONDS = 300
_REMEMBERED = 20_000  # signatures, each valid no longer than the window


class BadDelivery(Exception):
    """A delivery that is refused with this status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class HttpReceiver:
    """Verifies deliveries before Bolt gets them."""

    def __init__(self, app: AsyncApp, signing_secret: str, clock: Clock) -> None:
        self._app = app
        self._verifier = SignatureVerifier(signing_secret)
        self._clock = clock
        self._seen: OrderedDict[str, int] = OrderedDict()

    def routes(self) -> list[web.RouteDef]:
        """Return the route that Slack posts to."""
        return [web.post(PATH, self._receive)]

    async def _receive(self, request: web.Request) -> web.Response:
        try:
            body = await self._read_verified(request)
        except BadDelivery as bad:
            log.warning("refused: %s", bad, extra={"event": "slack_unsigned"})
            return web.Response(status=bad.status, text="refused")
        headers: dict[str, str | Sequence[str]] = dict(request.headers.items())
        answer = await self._app.async_dispatch(AsyncBoltRequest(body=body, headers=headers))
        first = answer.first_headers_without_set_cookie()
        kind = str(first.get("content-type", "text/plain")).partition(";")[0]
        return web.Response(status=answer.status, text=answer.body or "", content_type=kind)

    async def _read_verified(self, request: web.Request) -> str:
        """Return the body of a delivery that Slack signed just now and that was not seen before."""
        if request.content_type not in (_FORM, _JSON):
            raise BadDelivery(400, "content type")
        raw = await _read(request)
        try:
            body = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise BadDelivery(400, "not UTF-8") from None
        self._check_signature(request, body)
        _check_form(body) if request.content_type == _FORM else _check_json(raw)
        return body

    def _check_signature(self, request: web.Request, body: str) -> None:
        stamps = request.headers.getall("X-Slack-Request-Timestamp", [])
        signatures = request.headers.getall("X-Slack-Signature", [])
        if len(stamps) != 1 or len(signatures) != 1 or not stamps[0].isascii():
            raise BadDelivery(401, "signature headers")
        if not (stamps[0].isdigit() and len(stamps[0]) <= 12):  # noqa: PLR2004 (a time in seconds)
            raise BadDelivery(401, "timestamp")
        now = self._clock.now_ms() // 1000
        if abs(now - int(stamps[0])) > _WINDOW_SECONDS:
            raise BadDelivery(401, "stale")
        if not self._verifier.is_valid(body, stamps[0], signatures[0]):
            raise BadDelivery(401, "signature")
        self._check_first(signatures[0], now)

    def _check_first(self, signature: str, now: int) -> None:
        """Refuse a second delivery with the same signature: Slack signs a retry anew."""
        key = hashlib.sha256(signature.encode()).hexdigest()
        while self._seen and next(iter(self._seen.values())) < now - 2 * _WINDOW_SECONDS:
            self._seen.popitem(last=False)
        if key in self._seen:
            raise BadDelivery(401, "replay")
        self._seen[key] = now
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)


async def _read(request: web.Request) -> bytes:
    try:
        return await read_whole(request.content.iter_any(), most=MAX_BYTES)
    except BodyTooLarge:
        raise BadDelivery(413, "too large") from None
    except BodyTooSlow:
        raise BadDelivery(408, "too slow") from None


def _check_form(body: str) -> None:
    """Refuse a form that parsers could read differently, or a payload that is not strict JSON."""
    try:
        pairs = parse_qsl(body, keep_blank_values=True, strict_parsing=True, max_num_fields=100)
    except ValueError:
        raise BadDelivery(400, "form") from None
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise BadDelivery(400, "a duplicate key")
    payload = dict(pairs).get("payload")
    if payload is not None:
        _check_json(payload.encode("utf-8", "surrogatepass"))


def _check_json(raw: bytes) -> None:
    try:
        value = parse_json(raw, max_bytes=MAX_BYTES)
    except InvalidRequest:
        raise BadDelivery(400, "not strict JSON") from None
    if not isinstance(value, dict):
        raise BadDelivery(400, "not an object")
