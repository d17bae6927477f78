"""`gateway sessions`: list the sessions of agents, or end one."""

from __future__ import annotations

import argparse
import asyncio
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
            form, head = "{agent:24} {name}".format_map, f"{'AGENT':24} SESSION"
            return print_rows(rows, options, form, "no session is open", head=head)
        if name not in [row["name"] for row in rows]:
            raise NotFound(f"{agent} has no open session {name}: see `gateway sessions`")
        ended = http.call("POST", f"/v1/sessions/{quote(name, safe='')}/end{query}", {})
    count = len(ended["cancelled"])
    summary = f"the session {name} of {agent} has ended; requests cancelled with it: {count}"
    say(ended, summary, options)
    return 0
