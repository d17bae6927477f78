"""Slack's documented rate limits: per method, workspace and app, and per channel for posts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

_TIERS = {1: 1, 2: 20, 3: 50, 4: 100}
_TIER = {
    "chat.update": 3,
    "chat.delete": 3,
    "chat.postEphemeral": 4,
    "chat.getPermalink": 4,
    "conversations.open": 3,
    "conversations.info": 3,
    "conversations.members": 4,
    "users.info": 4,
    "bots.info": 3,
    "usergroups.list": 2,
    "usergroups.users.list": 2,
    "views.open": 4,
    "views.update": 4,
    "views.push": 4,
    "views.publish": 4,
    "files.getUploadURLExternal": 4,
    "files.completeUploadExternal": 4,
    "apps.connections.open": 3,
}
_MINUTE = 60.0


class Rates:
    """Counts calls in sliding windows, and posts per channel as one a second.

    `burst` posts per channel may come at once.
    """

    def __init__(self, now: Callable[[], float], *, burst: int = 5) -> None:
        self._now = now
        self.burst = burst
        self.workspace_posts = 600  # a minute; Slack names no number for "several hundred"
        self._windows: dict[tuple[str, ...], deque[float]] = {}
        self._busy: dict[str, float] = {}
        self.refused: list[str] = []

    def wait(self, method: str, team: str, channel: str) -> float:
        """Return 0 when the call may pass, else the seconds of Retry-After."""
        limits: list[tuple[tuple[str, ...], int, float]] = []
        if method in _TIER:
            limits.append(((method, team), _TIERS[_TIER[method]], _MINUTE))
        if method == "chat.postMessage":
            limits.append(((method, team), self.workspace_posts, _MINUTE))
        now = self._now()
        waits = [self._full(key, most, span, now) for key, most, span in limits]
        if method == "chat.postMessage":
            waits.append(self._early(f"{team}/{channel}", now))
        if any(waits):
            self.refused.append(method)
            return max(waits)
        for key, _, _ in limits:
            self._windows.setdefault(key, deque()).append(now)
        if method == "chat.postMessage":
            place = f"{team}/{channel}"
            self._busy[place] = max(self._busy.get(place, 0.0), now) + 1.0
        return 0.0

    def _early(self, place: str, now: float) -> float:
        """Return how much too early a post is: one a second, `burst` of them ahead of that."""
        return max(0.0, self._busy.get(place, 0.0) - now - (self.burst - 1))

    def _full(self, key: tuple[str, ...], most: int, span: float, now: float) -> float:
        window = self._windows.setdefault(key, deque())
        while window and window[0] <= now - span:
            window.popleft()
        return window[0] + span - now if len(window) >= most else 0.0
