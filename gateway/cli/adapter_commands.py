"""The commands that adapters add to `gateway`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gateway.errors import InvalidRequest
from gateway.server.plugins import BrokenAdapter, adapter_class, adapter_names


def adapter_parser(words: Sequence[str]) -> tuple[argparse.ArgumentParser, Sequence[str]] | None:
    """Return the parser of an adapter's commands and its words, None when none is named.

    `COMMAND NAME …` runs a command, `NAME` alone lists them. Our own commands come first, so an
    adapter cannot replace `gateway approve`.
    """
    known = adapter_names()
    if words[0] in known:
        return _parser_of_adapter(words[0]), ["--help"]
    if len(words) > 1 and words[1] in known:
        return _parser_of_adapter(words[1]), [words[0], *words[2:]]
    return None


def _parser_of_adapter(name: str) -> argparse.ArgumentParser:
    """Return the parser of one adapter; the others are not loaded, in case one is broken."""
    kind = adapter_class(name)
    parser = argparse.ArgumentParser(prog="gateway", usage=f"gateway COMMAND {name} …")
    verbs = parser.add_subparsers(metavar="COMMAND", required=True)
    try:
        kind().commands(verbs)
    except Exception as error:  # an adapter may raise anything
        raise BrokenAdapter(name, error) from error
    if not verbs.choices:
        raise InvalidRequest(
            f"the adapter {name} adds no commands; to run it: gateway adapter {name}"
        )
    for verb, command in verbs.choices.items():
        command.prog = f"gateway {verb} {name}"
    return parser
