"""Store the settings from a chat's setup in the data folder, and load them in later commands."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from gateway.wire.local_discovery import read_private, state_folder, write_private

FILE_NAME = "chats.json"
_UNFINISHED = "setup.json"
"""Settings of a set-up that was broken off: no gateway uses them."""
_ADAPTERS = "GATEWAY_ADAPTERS"
_taken: set[str] = set()
_last: dict[str, dict[str, str]] = {}
"""What `take_kept` last read."""


def _file(*, unfinished: bool) -> Path:
    return Path(state_folder()) / (_UNFINISHED if unfinished else FILE_NAME)


def read_kept(*, unfinished: bool = False) -> dict[str, dict[str, str]]:
    """Return the settings of each chat, or those of unfinished setups. Raises InvalidRequest if
    other users could read the file."""
    return read_private(_file(unfinished=unfinished)) or {}


def keep(chat: str, settings: Mapping[str, str], *, unfinished: bool = False) -> None:
    """Replace the saved settings of a chat, in a file with mode 0600. Empty settings delete the
    chat."""
    kept = read_kept(unfinished=unfinished)
    kept[chat] = dict(settings)
    path = _file(unfinished=unfinished)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, json.dumps({name: said for name, said in kept.items() if said}))


def take_kept() -> None:
    """Load the saved settings into this process's environment, and remove those loaded before. A
    variable that the environment already sets, directly or through `NAME_FILE`, is not changed."""
    for name in _taken:
        os.environ.pop(name, None)
    _taken.clear()
    kept = read_kept()
    _last.clear()
    _last.update(kept)
    wanted = {_ADAPTERS: json.dumps(["web", *kept])} if kept else {}
    for chat, settings in kept.items():
        own = f"GATEWAY_{chat.upper()}_"  # nothing else is set, whoever wrote the file
        wanted |= {name: value for name, value in settings.items() if name.startswith(own)}
    for name, value in wanted.items():
        if not os.environ.get(name) and not os.environ.get(f"{name}_FILE"):
            os.environ[name] = value
            _taken.add(name)


def has_kept_changed() -> bool:
    """Return whether the saved settings have changed since `take_kept`. Raises as `read_kept`
    does."""
    return read_kept() != _last


def environment_without_kept() -> dict[str, str]:
    """Return this process's environment without the saved settings. A child process loads them
    itself, and thus also later changes."""
    kept = {one for settings in _last.values() for one in settings.items()}
    return {
        name: said
        for name, said in os.environ.items()
        if name not in _taken and (name, said) not in kept
    }
