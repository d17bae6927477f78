"""`gateway apply` and `gateway policy`: people, routes and risk rules."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gateway.cli.formatting import say
from gateway.cli.redis_access import connect_backend
from gateway.domain.policy_document import PolicyDocument
from gateway.policy.lockout import (
    find_lockout,
    find_no_admin,
    lost_logins,
    unanswerable_levels,
    unprovable_levels,
)
from gateway.policy.policy_file import (
    BadPolicy,
    declared_since,
    differences,
    read_policy,
    read_policy_file,
)
from gateway.server.plugins import refuse_unknown
from gateway.server.settings import Settings
from gateway.sign_in.passkey_checks import find_site
from gateway.stores.credentials import APPROVER
from gateway.wire.codec import plain


async def apply(options: argparse.Namespace) -> int:
    """Put a policy file in force, or print what that would change."""
    document = _read(options.file)
    refuse_unknown(document)
    async with connect_backend(acting=not options.check) as found:
        now = await found.store.policy()
        changes = differences(now, document)
        taken_back, lost = declared_since(now, document), [*lost_logins(now, document)]
        tokens = [row.name for row in await found.credentials.list_all(APPROVER)]
        closed = unanswerable_levels(document, tokens)
        closed += unprovable_levels(document, _explain_no_passkeys(Settings()))
        if not options.json:
            _print_changes(changes, taken_back, [*lost, *closed])
        missing = find_lockout(document, tokens) or find_no_admin(document, tokens)
        if changes and not options.yes and missing:
            raise BadPolicy(
                f"nothing was changed: {missing}; or add --yes to apply it all the same"
            )
        applied = bool(changes) and not options.check
        if applied:
            await found.store.apply(replace(document, generation=now.generation), by=options.by)
    if options.json:
        told = {"changes": changes, "taken_back": taken_back, "lost_logins": lost}
        told |= {"unanswerable": closed}
        print(json.dumps({"applied": applied, **told}))
    elif applied:
        _print_applied(len(changes), set(tokens), {person.name for person in document.people})
    elif options.check:
        print("nothing was changed" if changes else "this file is in force")
    else:
        print("this file is in force already")
    return 0


def _read(file: str) -> PolicyDocument:
    """Return the document of a file, `-` is standard input; raises BadPolicy."""
    if file != "-":
        return read_policy_file(Path(file))
    try:
        return read_policy(sys.stdin.read())
    except (OSError, UnicodeDecodeError) as error:
        raise BadPolicy(f"cannot read standard input: {error}") from None


def _explain_no_passkeys(settings: Settings) -> str:
    """Say why nobody can use a passkey at a gateway of these settings; empty when people can."""
    if "web" not in settings.adapters:
        return "Passkeys are used in the inbox, and GATEWAY_ADAPTERS does not name web."
    site = find_site(settings.public_url)
    return site if isinstance(site, str) else ""


def _print_changes(changes: Sequence[str], taken_back: Sequence[str], lost: Sequence[str]) -> None:
    for line in changes:
        print(line)
    if taken_back:
        print(f"takes back what was declared while it ran about {', '.join(taken_back)};")
        print("to keep it, add to the file what `gateway tool list` prints about them")
    for sentence in lost:
        print(sentence)


def _print_applied(count: int, tokens: set[str], people: set[str]) -> None:
    print(f"in force on every replica: {count} changes")
    for name in sorted(tokens - people):
        print(f"{name} is no person of this file, and does nothing any more; their token is left:")
        print(f"  gateway approver revoke {name}")
    for name in sorted(people - tokens):
        print(f"{name} has no token to log in with: gateway approver add {name}")


async def show(options: argparse.Namespace) -> int:
    """Print the people, routes and risk rules in force."""
    async with connect_backend() as found:
        document = plain(await found.store.policy())
    say(document, json.dumps(document, indent=2, ensure_ascii=False), options)
    return 0
