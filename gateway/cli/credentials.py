"""Prints new credentials, and that one was revoked."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from datetime import datetime

from gateway.stores.credentials import NewCredential


def print_once(new: NewCredential, as_json: bool) -> None:
    """Print a new credential, which cannot be shown again."""
    if as_json:
        print(json.dumps({name: value for name, value in asdict(new).items() if value is not None}))
        return
    print(f"name           {new.name}\ntoken          {new.token}")
    if new.redis_user:
        print(f"redis user     {new.redis_user}\nredis password {new.redis_password}")
    if new.old_until is not None:
        until = datetime.fromtimestamp(new.old_until / 1000).astimezone()
        print(
            f"the old one is valid until {until:%Y-%m-%d %H:%M:%S %z}; --now would end it at once"
        )
    if not new.kept:
        print("warning: the server has no ACL file, so this user is gone when it restarts")
    for server, why in new.silent.items():
        print(f"warning: {server} does not know this user, nor that an older one is gone: {why}")
    if new.silent:
        print(f"when it is back: gateway agent rotate {new.name}")
    print("These are not shown again.")


def print_revoked(options: argparse.Namespace, sentence: str, **more: int) -> None:
    """Print that a credential was revoked: the sentence, or with --json its members and `more`."""
    members = {"name": options.name, "revoked": True, **more}
    print(json.dumps(members) if options.json else sentence)
