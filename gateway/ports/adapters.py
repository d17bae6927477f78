"""What an adapter offers: pages, commands and checks of its own, and what a check finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from gateway.ports.desk import Desk
from gateway.ports.outgoing import AdapterStorage
from gateway.ports.sign_in import Logins

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


class Adapter(Protocol):
    """A place where people answer. Built by its entry point with no arguments."""

    @property
    def name(self) -> str:
        """The adapter's name, as in settings and message references."""

    def run(self, desk: Desk) -> AbstractAsyncContextManager[None]:
        """Serve until left. Entering means connected and healthy."""


@runtime_checkable
class HasRoutes(Protocol):
    """An adapter that serves web pages beside the HTTP API."""

    def routes(self, desk: Desk, logins: Logins, *, secure: bool) -> Sequence[Any]:
        """Return aiohttp route definitions. `secure` tells whether browsers reach us over TLS."""


@runtime_checkable
class HasStreams(Protocol):
    """An adapter whose pages keep answers open, which the web server would wait for."""

    def end_streams(self) -> None:
        """End them: the web server stops."""


@runtime_checkable
class HasCommands(Protocol):
    """An adapter with commands of its own, called as `gateway COMMAND NAME`."""

    def commands(self, verbs: Any) -> None:
        """Add a parser for each command to `verbs`, which argparse's `add_subparsers` returned.

        Each sets the default `run`, an async function of the parsed options that returns the exit
        code. The adapter is not running, and perhaps not configured.
        """


@runtime_checkable
class HasProblems(Protocol):
    """An adapter that knows when people cannot answer through it."""

    def problems(self) -> Sequence[str]:
        """Return what is wrong, in sentences; while there is any, the gateway is not ready."""


@runtime_checkable
class HasChecks(Protocol):
    """An adapter that can be examined by `gateway doctor`. It is not running then."""

    async def checks(
        self, targets: Sequence[str], notes: AdapterStorage, *, live: bool
    ) -> Sequence[tuple[str, Finding]]:
        """Return what is found, by name. `targets` are those of the routes in force that are this
        adapter's, `notes` are what it keeps. With `live` it may post, and takes away what it
        posted."""


@runtime_checkable
class HasMentionChecks(Protocol):
    """An adapter whose platform may show a called group by name and notify nobody."""

    async def check_mentions(
        self, called: Mapping[str, Sequence[str]]
    ) -> Sequence[tuple[str, Finding]]:
        """Return what is found, by name, for `gateway doctor`. `called` says by target whom its
        cards or reminders call, as the platform's identities and groups."""
