"""Define the base class `Adapter`: the methods that the gateway calls and the attributes that it
reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from gateway.domain.records import MessageRef
from gateway.ports.adapter_api import AdapterApi
from gateway.ports.claims import ChatSetup
from gateway.ports.outgoing import AdapterStorage, DeliveryFailed, Notice, Shown

# Results of `gateway doctor` checks.

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `result` is OK, WARN or FAIL, `says` describes it, and `remedy` says
    what to do."""

    result: str
    says: str
    remedy: str = ""


def report_ok(says: str) -> Finding:
    """Return a finding for a check that passed."""
    return Finding(OK, says)


def report_doubt(says: str, remedy: str) -> Finding:
    """Return a finding for something that works but may surprise the operator."""
    return Finding(WARN, says, remedy)


def report_failure(says: str, remedy: str) -> Finding:
    """Return a finding for a problem that must be fixed."""
    return Finding(FAIL, says, remedy)


Called = Mapping[str, Sequence[str]]
"""Targets of the active routes. Each maps to the platform identities and groups that its cards and
reminders mention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTrial:
    """A test with the operator's help: `gateway doctor --live --with-me`.

    `user` is the operator's account on the platform, without the platform's name. `say` prints a
    line for the operator. `record` saves one exchange: its direction (`sent` or `got`) and its
    content.
    """

    user: str
    say: Callable[[str], None]
    record: Callable[[str, object], None]


@dataclass(frozen=True, slots=True)
class WebPages:
    """HTTP pages that an adapter serves next to the API. `routes` are aiohttp route definitions.
    The web server calls `end` when it stops; `end` must close all open responses, because the
    server waits for them."""

    routes: Sequence[Any] = ()
    end: Callable[[], None] = lambda: None


class Adapter:
    """A platform where people decide requests. The gateway loads an adapter from its entry point
    and creates it without arguments.

    Override `run`, and the other methods that the platform supports. Methods that post may raise
    only the errors of `gateway.ports`.
    """

    name: str = ""
    """Name of the adapter, as used in settings, targets and message references."""
    posts: bool = True
    """Whether the adapter posts cards. If False, it reads `api.requests`, as a web page does."""
    repeatable: bool = False
    """Whether a second `deliver` with the same nonce posts no second message."""
    card_lines: int = 60
    """How many lines of the call fit on a card."""
    card_chars: int = 4000
    """How many characters of the call fit on a card."""
    list_command: str = ""
    """Chat command that lists pending requests, such as `/waiting`; "" if there is none."""
    setup: ChatSetup | None = None
    """Setup used by `gateway NAME setup`; None if the adapter needs no setup."""
    checks_copies: bool = False
    """Whether the gateway must poll with `check_copy`, because the platform reports no
    deletions."""

    @property
    def problems(self) -> Sequence[str]:
        """Sentences about problems that prevent decisions. While there is one, the gateway reports
        that it is not ready."""
        return ()

    def run(self, api: AdapterApi) -> AbstractAsyncContextManager[WebPages | None]:
        """Run the adapter, as a context manager. On entry it connects and yields the pages to
        serve; from then on it counts as healthy. On exit it waits for running work."""
        raise NotImplementedError

    async def deliver(self, target: str, shown: Shown, nonce: str) -> MessageRef:
        """Post a card at a target (`adapter:channel`). Return a reference to the message."""
        raise DeliveryFailed(f"the adapter {self.name} does not post cards")

    async def update(self, ref: MessageRef, shown: Shown, nonce: str) -> None:
        """Edit a posted message to show this card, as `deliver` would post it."""
        raise DeliveryFailed(f"the adapter {self.name} does not post cards")

    async def tell(self, notice: Notice, shown: Shown) -> None:
        """Post a notice at a card, or a separate notice about it."""
        raise DeliveryFailed(f"the adapter {self.name} does not post notices")

    async def check_copy(self, ref: MessageRef) -> None:
        """Check that a posted message still exists. Raises CopyGone if it does not; any other error
        means that the state is unknown."""

    async def checks(
        self, called: Called, notes: AdapterStorage, *, live: bool, trial: LiveTrial | None = None
    ) -> Sequence[tuple[str, Finding]]:
        """Return findings for `gateway doctor`, each with its name. The adapter is not running
        during the checks.

        `called` lists the adapter's targets, and `notes` is its storage. With `live`, it may post
        messages, which it deletes afterwards. With `trial`, it also asks the operator to try the
        adapter.
        """
        return ()

    def commands(self, verbs: Any) -> None:
        """Add a parser to `verbs` for each command `gateway NAME COMMAND`. `verbs` is the result of
        argparse's `add_subparsers`.

        Set the default `run` of each parser: an async function of the parsed options that returns
        the exit code. While a command runs, the adapter is not running, and it may not be
        configured.
        """
