"""What an adapter is: the seven methods that the gateway calls, and the facts that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from gateway.domain.records import MessageRef
from gateway.ports.adapter_api import AdapterApi
from gateway.ports.claims import ChatSetup
from gateway.ports.outgoing import AdapterStorage, DeliveryFailed, Notice, Shown

# What a check finds.

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether something is as it should be, what it is, and what to do when it should not be."""

    result: str
    says: str
    remedy: str = ""


def report_ok(says: str) -> Finding:
    """Return that all is well."""
    return Finding(OK, says)


def report_doubt(says: str, remedy: str) -> Finding:
    """Return what works, and may be a surprise."""
    return Finding(WARN, says, remedy)


def report_failure(says: str, remedy: str) -> Finding:
    """Return what has to be put right."""
    return Finding(FAIL, says, remedy)


Called = Mapping[str, Sequence[str]]
"""Targets of the routes in force, each with whom cards and reminders there call, as the platform's
identities and groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTrial:
    """A trial with the operator: `gateway doctor --live --with-me`.

    `user` is their account on the platform, as in identities, without the platform's name. `say`
    prints a line for them. `record` keeps one exchange: its direction, `sent` or `got`, and what
    it was.
    """

    user: str
    say: Callable[[str], None]
    record: Callable[[str, object], None]


@dataclass(frozen=True, slots=True)
class WebPages:
    """What an adapter serves beside the HTTP API: `routes` are aiohttp route definitions. `end`
    is called when the web server stops, and ends the answers that are kept open: the server waits
    for them."""

    routes: Sequence[Any] = ()
    end: Callable[[], None] = lambda: None


class Adapter:
    """A place where people answer. Built by its entry point with no arguments.

    An adapter overrides `run`, and of the rest what its platform has. Posting methods raise the
    failures of `gateway.ports`, and no others.
    """

    name: str = ""
    """The adapter's name, as in settings, targets and message references."""
    posts: bool = True
    """Whether it posts cards. One that does not reads `api.requests`, as a web page does."""
    repeatable: bool = False
    """Whether delivering again with the same nonce makes no second message."""
    card_lines: int = 60
    """How many lines of what would run fit on a card."""
    card_chars: int = 4000
    """How many characters of what would run fit on a card."""
    list_command: str = ""
    """What people type to see what waits for them, such as `/waiting`; "" for no such command."""
    setup: ChatSetup | None = None
    """How `gateway NAME setup` connects it; None where there is nothing to connect."""
    checks_copies: bool = False
    """Whether the platform tells nobody of deleted messages, so that `check_copy` has to ask."""

    @property
    def problems(self) -> Sequence[str]:
        """What keeps people from answering, in sentences; while there is any, the gateway is not
        ready."""
        return ()

    def run(self, api: AdapterApi) -> AbstractAsyncContextManager[WebPages | None]:
        """Serve until left. Entering means connected and healthy, and yields the pages to serve;
        leaving lets running work finish."""
        raise NotImplementedError

    async def deliver(self, target: str, shown: Shown, nonce: str) -> MessageRef:
        """Post a card at a target, `adapter:channel`; return where it stands."""
        raise DeliveryFailed(f"{self.name} posts no cards")

    async def update(self, ref: MessageRef, shown: Shown, nonce: str) -> None:
        """Make a posted copy show this card, as `deliver` would have posted it."""
        raise DeliveryFailed(f"{self.name} posts no cards")

    async def tell(self, notice: Notice, shown: Shown) -> None:
        """Post a notice beside, or about, a card."""
        raise DeliveryFailed(f"{self.name} tells nobody")

    async def check_copy(self, ref: MessageRef) -> None:
        """Ask whether a posted copy is still there. Raises CopyGone; other failures mean that
        nobody knows."""

    async def checks(
        self, called: Called, notes: AdapterStorage, *, live: bool, trial: LiveTrial | None = None
    ) -> Sequence[tuple[str, Finding]]:
        """Return what `gateway doctor` finds, by name. The adapter is not running then.

        `called` are its targets. `notes` are what it keeps. With `live` it may post, and takes away
        what it posted. With a `trial` it has the operator try it, too.
        """
        return ()

    def commands(self, verbs: Any) -> None:
        """Add a parser for each command `gateway NAME COMMAND` to `verbs`, which argparse's
        `add_subparsers` returned.

        Each sets the default `run`, an async function of the parsed options that returns the exit
        code. The adapter is not running, and perhaps not configured.
        """
