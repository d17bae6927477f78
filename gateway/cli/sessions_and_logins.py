"""`gateway sessions`, `devices` and `login`: manage agents' sessions and people's devices."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from gateway.cli.http_access import connect_as_approver
from gateway.cli.redis_access import connect_backend
from gateway.cli.requests import ago, print_rows, say
from gateway.doctor import gateway_url
from gateway.domain.policy_document import PolicyDocument
from gateway.errors import InvalidRequest, NotFound
from gateway.ports.sign_in import Device
from gateway.server.settings import Settings


def list_or_end_sessions(options: argparse.Namespace) -> int:
    """List sessions, or end one."""
    agent, name = options.agent, options.end
    if name is not None and agent is None:
        raise InvalidRequest("a session belongs to an agent: name the agent with --agent")
    query = "" if agent is None else f"?agent={quote(agent, safe='')}"
    with connect_as_approver(acting=name is not None) as http:
        rows = http.call("GET", f"/v1/sessions{query}")["items"]
        if name is None:
            head = f"{'AGENT':24} SESSION"
            return print_rows(rows, options, _format_session, "no session is open now", head=head)
        if name not in [row["name"] for row in rows]:
            raise NotFound(f"{agent} has no open session {name}: see `gateway sessions`")
        ended = http.call("POST", f"/v1/sessions/{quote(name, safe='')}/end{query}", {})
    count = len(ended["cancelled"])
    summary = f"the session {name} of {agent} has ended; requests cancelled with it: {count}"
    say(ended, summary, options)
    return 0


def _format_session(row: dict[str, Any]) -> str:
    """Return a session as a line. If an agent used a token as session name, the token is masked."""
    from gateway.domain.redaction import mask  # noqa: PLC0415 (most commands need no masks)

    return f"{mask(row['agent']):24} {mask(row['name'])}"


# `gateway devices`: list where a person is signed in to the inbox, or end that.

_SHORT = 12  # characters of an id, as the audit has them


async def list_or_end_devices(options: argparse.Namespace) -> int:
    """List a person's devices, or end one or all of their sessions."""
    name = options.name
    async with connect_backend(acting=options.end is not None or options.end_all) as found:
        listed = await found.logins.list_devices_of(name)
        if options.end is None and not options.end_all:
            head = f"{'DEVICE':{_SHORT}}  {'WHAT':28}  {'WITH':8}  LAST USED"
            rows = ({**asdict(one), "id": one.id[:_SHORT]} for one in listed)
            return print_rows(
                rows, options, _format_device, f"{name} is not signed in on any device", head=head
            )
        ids = (
            tuple(one.id for one in listed)
            if options.end_all
            else (_find_device(listed, options.end),)
        )
        count = await found.logins.end_devices_of(name, ids, by="operator")
    say({"name": name, "ended": count}, f"{name} was signed out on {count} device(s)", options)
    return 0


def _find_device(listed: list[Device], start: str) -> str:
    """Return the full id of the device whose id starts with this string."""
    fitting = [one.id for one in listed if start and one.id.startswith(start)]
    if not fitting:
        raise NotFound(f"no device id begins with {start!r}: see `gateway devices NAME`")
    if len(fitting) > 1:
        raise InvalidRequest(f"more than one device id begins with {start!r}; give more of it")
    return fitting[0]


def _format_device(row: dict[str, Any]) -> str:
    words = row["words"] or "unknown"
    return f"{row['id']:{_SHORT}}  {words:28}  {row['way']:8}  {ago(row['used'])}"


# `gateway login`: a link that signs a person in to the inbox once.


def _only_person(policy: PolicyDocument) -> str:
    names = [one.name for one in policy.listed]
    if len(names) != 1:
        raise InvalidRequest(
            f"choose whose link to print: gateway login NAME, with one of: {', '.join(names)}"
        )
    return names[0]


async def login(options: argparse.Namespace) -> int:
    """Print a one-time link to the inbox, and its code for people who type it."""
    settings = Settings()
    url = gateway_url(settings)
    async with connect_backend(acting=True) as found:
        name = options.name or _only_person(await found.store.policy())
        code = await found.logins.invite(name)
    link = f"{url}/inbox/login#code={code}"
    told = {"name": name, "url": link, "code": code}
    say(told, f"{link}\nOr type the code there: {code}", options)
    return 0
