"""`gateway sessions`: list the sessions of agents, or end one."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any
from urllib.parse import quote

from gateway.cli.formatting import print_rows, say
from gateway.cli.http_access import connect_as_approver
from gateway.errors import InvalidRequest, NotFound


async def run(options: argparse.Namespace) -> int:
    """List sessions, or end one."""
    return await asyncio.to_thread(_list_or_end, options)


def _list_or_end(options: argparse.Namespace) -> int:
    agent, name = options.agent, options.end
    if name is not None and agent is None:
        raise InvalidRequest("a session belongs to an agent: name it with --agent")
    query = "" if agent is None else f"?agent={quote(agent, safe='')}"
    with connect_as_approver(acting=name is not None) as http:
        rows = http.call("GET", f"/v1/sessions{query}")["items"]
        if name is None:
            head = f"{'AGENT':24} SESSION"
            return print_rows(rows, options, _format, "no session is open", head=head)
        if name not in [row["name"] for row in rows]:
            raise NotFound(f"{agent} has no open session {name}: see `gateway sessions`")
        ended = http.call("POST", f"/v1/sessions/{quote(name, safe='')}/end{query}", {})
    count = len(ended["cancelled"])
    summary = f"the session {name} of {agent} has ended; requests cancelled with it: {count}"
    say(ended, summary, options)
    return 0


def _format(row: dict[str, Any]) -> str:
    """Return a session as a line; a token that an agent took for its name is masked."""
    from gateway.domain.redaction import mask  # noqa: PLC0415 (most commands need no masks)

    return f"{mask(row['agent']):24} {mask(row['name'])}"
