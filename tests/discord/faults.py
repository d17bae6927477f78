"""Staged failures and rate limits of the wire-level Discord's REST side."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from dataclasses import dataclass, field

from tests.discord.town import Json

Headers = dict[str, str]
VIA = {"Via": "1.1 google"}
_MAJOR = re.compile(r"/(channels|guilds|webhooks)/(\d+)")
_NUMBER = re.compile(r"/\d{10,}")


@dataclass
class Fault:
    """What happens instead of, or after, the next calls that fit."""

    method: str
    path: str
    times: int = 1
    status: int = 0
    body: Json | str | None = None
    headers: Headers = field(default_factory=dict)
    drop: bool = False  # do the work, then cut the line before the answer
    refuse: bool = False  # cut the line before doing anything
    held: asyncio.Event | None = None  # do the work when this is set
    silent: asyncio.Event | None = None  # do the work, and answer when this is set
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    def fits(self, method: str, path: str) -> bool:
        return self.times > 0 and self.method == method and bool(re.search(self.path, path))


@dataclass
class Bucket:
    """So many calls in so many seconds, for one route and channel."""

    limit: int
    seconds: float
    calls: deque[float] = field(default_factory=deque)

    def take(self, now: float) -> float:
        """Count a call; return how many seconds it is too early, 0 when it may pass."""
        while self.calls and now - self.calls[0] >= self.seconds:
            self.calls.popleft()
        if len(self.calls) >= self.limit:
            return self.seconds - (now - self.calls[0])
        self.calls.append(now)
        return 0

    def headers(self, name: str, now: float) -> Headers:
        left = self.seconds - (now - self.calls[0]) if self.calls else 0
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(max(0, self.limit - len(self.calls))),
            "X-RateLimit-Reset-After": f"{max(left, 0):.3f}",
            "X-RateLimit-Reset": f"{now + max(left, 0):.3f}",
            "X-RateLimit-Bucket": name,
        }


class Limits:
    """Discord's rate limits: per route and channel where a test sets them, and the global one."""

    def __init__(self) -> None:
        self.rules: list[tuple[str, str, int, float]] = []
        self.overall = Bucket(50, 1.0)
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def rule(self, method: str, path: str, limit: int, seconds: float) -> None:
        """Allow `limit` calls in `seconds` to each channel on routes that fit."""
        self.rules.append((method, path, limit, seconds))

    def check(self, method: str, path: str, now: float) -> tuple[float, bool, Headers]:
        """Return (seconds too early, whether globally, headers) for one call."""
        if "/interactions/" not in path and "/webhooks/" not in path:
            early = self.overall.take(now)
            if early:
                return early, True, {"X-RateLimit-Global": "true", "X-RateLimit-Scope": "global"}
        for rule, (wanted, pattern, limit, seconds) in enumerate(self.rules):
            if wanted == method and re.search(pattern, path):
                found = _MAJOR.search(path)
                major = found.group(2) if found else ""
                bucket = self._buckets.setdefault((str(rule), major), Bucket(limit, seconds))
                early = bucket.take(now)
                return early, False, bucket.headers(f"bucket{rule}", now)
        return 0, False, {}


def too_many(early: float, overall: bool, headers: Headers) -> tuple[Json, Headers]:
    """Return the body and headers of a 429 as Discord's own servers answer it."""
    body = {
        "message": "You are being rate limited.",
        "retry_after": round(early, 3),
        "global": overall,
    }
    return body, {**VIA, **headers, "Retry-After": str(int(early) + 1)}


def shape(path: str) -> str:
    """Return a path without its ids, for counting calls."""
    return _NUMBER.sub("/#", path)
