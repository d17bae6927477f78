"""A device of Ann's, as it is kept where web push reaches it."""

from __future__ import annotations

from typing import Any

from gateway.ports.devices import PushDevice


def push_device(**changes: Any) -> PushDevice:
    """Return it, or as changed."""
    values: dict[str, Any] = {
        "id": "1",
        "person": "ann",
        "place": "web",
        "label": "Chrome on Android",
        "endpoint": "https://push.example/1",
        "key": "",
        "auth": "",
        "server_key": "",
        "session": "s",
        "added": 0,
    }
    return PushDevice(**{**values, **changes})
