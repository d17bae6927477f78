"""`gateway apply` and `gateway policy`: people, routes and risk rules."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from gateway.cli.redis_access import connect_backend
from gateway.policy.lockout import find_lockout, lost_logins
from gateway.policy.policy_file import BadPolicy, declared_since, differences, read_policy_file
from gateway.server.plugins import refuse_unknown
from gateway.stores.credentials import APPROVER
from gateway.wire.codec import plain


async def apply(options: argparse.Namespace) -> int:
    """Put a policy file in force, or print what that would change."""
    document = read_policy_file(Path(options.file))
    refuse_unknown(document)
    async with connect_backend() as found:
        now = await found.store.policy()
        lines = differences(now, document)
        for format_line in lines:
            print(format_line)
        if taken_back := declared_since(now, document):
            print(f"takes back what was declared from a card about {', '.join(taken_back)};")
            print("to keep it, add to the file what `gateway tool list` prints about them")
        for sentence in lost_logins(now, document):
            print(sentence)
        tokens = [row.name for row in await found.credentials.list_all(APPROVER)]
        if lines and not options.yes and (lockout := find_lockout(document, tokens)):
            raise BadPolicy(
                f"nothing was changed: {lockout}; or add --yes to apply it all the same"
            )
        if options.check:
            print("nothing was changed" if lines else "this file is in force")
            return 0
        if not lines:
            print("this file is in force already")
            return 0
        await found.store.apply(replace(document, generation=now.generation), by=options.by)
    print(f"in force on every replica: {len(lines)} changes")
    people = {person.name for person in document.people}
    for name in sorted(set(tokens) - people):
        print(f"{name} is no person of this file, and does nothing any more; their token is left:")
        print(f"  gateway approver revoke {name}")
    for name in sorted(people - set(tokens)):
        print(f"{name} has no token to log in with: gateway approver add {name}")
    return 0


async def show(options: argparse.Namespace) -> int:
    """Print the people, routes and risk rules in force."""
    async with connect_backend() as found:
        print(json.dumps(plain(await found.store.policy()), indent=2, ensure_ascii=False))
    return 0
