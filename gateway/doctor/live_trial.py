"""Find the operator's account for `doctor --live --with-me`, and record a chat's messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.domain.policy_document import PolicyDocument
from gateway.ports.adapters import Finding, LiveTrial, report_failure
from gateway.server.settings import Settings
from gateway.wire.local_discovery import FILE_NAME, find_process, read_private, write_private

_WORDS = frozenset({"command", "content", "direction", "error", "method", "text", "type"})
_ACCOUNT = "account"
_MEMBER = re.compile("[a-z_]+")
_LARGEST_NUMBER = 10**12  # ids are larger


def find_trial(
    wish: LiveTrial, settings: Settings, policy: PolicyDocument, adapter: str
) -> LiveTrial | Finding:
    """Return the trial of an adapter, or a finding if none is possible.

    `wish` is the name of a person or an account; "" selects the only possible one.
    """
    runs = (read_private(settings.data_dir / FILE_NAME) or {}).get("adapters", ())
    if adapter in runs and find_process(settings.data_dir) is not None:
        said = f"a gateway runs here with {adapter}, and would process what you press"
        return report_failure(said, "run `gateway down` first")
    accounts = [
        (person.name, account)
        for person in policy.people
        for account in person.identities
        if account.startswith(f"{adapter}:") and wish.user in ("", person.name, account)
    ]
    if not accounts:
        who = f"{wish.user} has no" if wish.user else "nobody in the policy has an"
        return report_failure(
            f"{who} account in {adapter}", "link an account with `gateway approver link NAME`"
        )
    if len(accounts) > 1:
        told = ", ".join(f"{account} of {name}" for name, account in accounts)
        return report_failure(
            f"several accounts are possible: {told}",
            "choose an account: --with-me NAME, or the account itself",
        )
    ((name, account),) = accounts
    user = account.removeprefix(f"{adapter}:")
    wish.record("got", {_ACCOUNT: [name, *user.split("/")]})  # the sent messages contain it too
    return replace(wish, user=user)


class Recording:
    """The messages exchanged with a chat, for a golden file.

    From the platform's messages, the recording keeps only protocol words and texts that the gateway
    sent. Anything else may be a token, an id or a name. A placeholder replaces each such value
    everywhere.
    """

    def __init__(self) -> None:
        self._exchange: list[dict[str, Any]] = []
        self._ours: set[str] = set()
        self._names: dict[str, str] = {}
        self._known = re.compile("(?!)")

    def add(self, direction: str, what: object) -> None:
        """Add one message that was `sent` or `got`, without ids and names."""
        said = json.loads(json.dumps(what, default=str))
        self._ours |= set(_list_strings(said) if direction == "sent" else ())
        self._exchange.append({"direction": direction, "what": said})

    def save(self, path: Path) -> None:
        """Write each message as a line of JSON, in a file that only this user can read."""
        self._clean(self._exchange)  # finds all names
        words = sorted((re.escape(one) for one in self._names if len(one) > 1), key=len)[::-1]
        self._known = re.compile(rf"(?<!\w)(?:{'|'.join(words) or '(?!)'})(?!\w)")
        lines = (json.dumps(self._clean(one), ensure_ascii=False) for one in self._exchange)
        write_private(path, "".join(f"{line}\n" for line in lines))

    def _clean(self, value: Any, name: str = "name") -> Any:
        if isinstance(value, dict):
            return {
                key if _MEMBER.fullmatch(key) else self._clean(key): self._clean(one, key)
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [self._clean(one, name) for one in value]
        ours = name in _WORDS or (value in self._ours and name != _ACCOUNT)
        if isinstance(value, str) and (ours or not value):
            return self._known.sub(lambda found: self._names[found[0]], value)
        if isinstance(value, str) or (isinstance(value, int) and value > _LARGEST_NUMBER):
            kind = name if _MEMBER.fullmatch(name) else "name"
            return self._names.setdefault(str(value), f"{kind}-{len(self._names)}")
        return value


def _list_strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for one in value:
            yield from _list_strings(one)
    elif isinstance(value, str):
        yield value
