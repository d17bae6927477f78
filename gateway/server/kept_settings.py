"""What the set-up of a chat found out, kept in the data folder for every later command."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from gateway.wire.local_discovery import read_private, state_folder, write_private

FILE_NAME = "chats.json"
_ADAPTERS = "GATEWAY_ADAPTERS"
_taken: set[str] = set()


def kept_file() -> Path:
    """Return the file of this user's data folder: settings by the name of a chat, 0600."""
    return Path(state_folder()) / FILE_NAME


def read_kept() -> dict[str, dict[str, str]]:
    """Return the settings of each chat. Raises InvalidRequest for a file that others could read."""
    return read_private(kept_file()) or {}


def keep(chat: str, settings: Mapping[str, str] | None) -> None:
    """Keep the settings of a chat in place of what was kept; None forgets the chat."""
    kept = {name: said for name, said in read_kept().items() if name != chat}
    if settings is not None:
        kept[chat] = dict(settings)
    path = kept_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, json.dumps(kept))


def take_kept() -> None:
    """Put what is kept into the environment of this process, in place of what was before. What the
    environment says itself stays, also by a file that `NAME_FILE` names."""
    for name in _taken:
        os.environ.pop(name, None)
    _taken.clear()
    kept = read_kept()
    adapters = {_ADAPTERS: json.dumps(["web", *kept])} if kept else {}
    for name, value in (
        *adapters.items(),
        *(one for said in kept.values() for one in said.items()),
    ):
        if not os.environ.get(name) and not os.environ.get(f"{name}_FILE"):
            os.environ[name] = value
            _taken.add(name)


def environment_without_kept() -> dict[str, str]:
    """Return the environment of this process without what `take_kept` put there."""
    return {name: said for name, said in os.environ.items() if name not in _taken}
