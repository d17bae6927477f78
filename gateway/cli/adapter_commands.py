"""The commands of an adapter: `gateway NAME COMMAND`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gateway.errors import InvalidRequest
from gateway.ports import Adapter
from gateway.server.plugins import BrokenAdapter, adapter_class, adapter_names


def adapter_parser(words: Sequence[str]) -> tuple[argparse.ArgumentParser, Sequence[str]] | None:
    """Return the parser of an adapter's commands and the words for it, or None if no adapter is
    named.

    `NAME COMMAND …` runs a command of the adapter NAME, `NAME` alone lists its commands. The
    gateway's own commands have precedence, so an adapter cannot replace `gateway approve`.
    """
    if words[0] not in adapter_names():
        return None
    return _parser_of_adapter(words[0]), words[1:] or ["--help"]


def _parser_of_adapter(name: str) -> argparse.ArgumentParser:
    """Return the parser of one adapter. Loads no other adapter, because another one may be
    broken."""
    kind = adapter_class(name)
    parser = argparse.ArgumentParser(prog=f"gateway {name}")
    verbs = parser.add_subparsers(metavar="COMMAND", required=True)
    try:
        adapter = kind()
        adapter.commands(verbs)
    except Exception as error:  # an adapter may raise anything
        raise BrokenAdapter(name, error) from error
    if adapter.setup is not None:
        _add_chat_commands(verbs, adapter)
    if not verbs.choices:
        raise InvalidRequest(
            f"the adapter {name} adds no commands; to run it: gateway adapter {name}"
        )
    return parser


def _add_chat_commands(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], adapter: Adapter
) -> None:
    """Add the commands that each chat with a setup has."""
    setup = verbs.add_parser(
        "setup",
        help="connect the chat: create the app, enter its tokens, choose a channel, "
        "post a first card",
    )
    setup.add_argument(
        "--non-interactive", action="store_true", help="read the tokens from the environment"
    )
    setup.add_argument(
        "--route", default="", help="route whose requests go to this chat (default: the first)"
    )
    status = verbs.add_parser(
        "status", help="print whether the adapter is set up and running, and where it posts"
    )
    status.add_argument("--json", action="store_true", help="print JSON")
    remove = verbs.add_parser(
        "remove", help="delete its tokens, and remove its channels from the routes"
    )
    for parser, run in ((setup, "setup"), (status, "show_status"), (remove, "remove")):
        parser.set_defaults(run=f"chats.{run}", adapter=adapter.name)
