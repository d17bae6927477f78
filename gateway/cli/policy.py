"""`gateway apply`, `policy …`, `explain`, `tool …`: change, show and test the policy."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway.approvals.policy_replay import Past, PolicyReplay, replay
from gateway.approvals.search_and_report import DAY_MS
from gateway.cli.chats import confirm
from gateway.cli.commands import close_output
from gateway.cli.http_access import connect_as_approver
from gateway.cli.redis_access import connect_backend
from gateway.cli.requests import say
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.risk import StepUp, say_ways
from gateway.domain.safe_text import make_visible
from gateway.errors import InvalidRequest
from gateway.models import ApprovalRequest, Context, Kind, Origin, digest_of, new_id
from gateway.policy.policy_file_reader import (
    BadPolicy,
    declared_since,
    differences,
    find_lockout,
    find_no_admin,
    lost_logins,
    read_policy,
    read_policy_file,
    unanswerable_levels,
    unprovable_levels,
)
from gateway.policy.policy_file_writer import write_policy, write_tables
from gateway.server.plugins import refuse_unknown
from gateway.server.settings import Settings
from gateway.sign_in.passkeys import find_site
from gateway.stores.credentials import APPROVER
from gateway.wire.canonical_json import parse
from gateway.wire.codec import plain


async def apply(options: argparse.Namespace) -> int:
    """Activate a policy file, or only print what would change. At a terminal, asks for confirmation
    first."""
    document = _read(options.file)
    refuse_unknown(document)
    async with connect_backend(acting=not options.check) as found:
        now = await found.store.policy()
        document = document.succeed(now)
        changes = differences(now, document)
        taken_back, lost = declared_since(now, document), [*lost_logins(now, document)]
        tokens = [row.name for row in await found.credentials.list_all(APPROVER)]
        closed = unanswerable_levels(document, tokens)
        closed += unprovable_levels(document, _explain_no_passkeys(Settings()))
        if not options.json:
            _print_changes(changes, taken_back, [*lost, *closed])
        missing = find_lockout(document, tokens) or find_no_admin(document, tokens)
        if changes and not options.yes and missing:
            raise BadPolicy(f"nothing was changed: {missing}; to apply the file anyway, add --yes")
        applied = bool(changes) and not options.check and _confirm(options)
        if applied:
            await found.store.apply(document, by=options.by)
    if options.json:
        told = {"changes": changes, "taken_back": taken_back, "lost_logins": lost}
        told |= {"unanswerable": closed}
        print(json.dumps({"applied": applied, **told}))
    elif applied:
        _print_applied(len(changes), set(tokens), {one.name for one in document.listed})
    elif changes:
        print("nothing was changed")
    elif options.check:
        print("this file is now the active policy")
    else:
        print("this file is already the active policy")
    return 0 if applied or options.check or not changes else 1


def _confirm(options: argparse.Namespace) -> bool:
    """Return whether the person at the terminal confirms the changes. Without a terminal, return
    True."""
    if options.yes or options.json or not sys.stdin.isatty():
        return True
    return confirm("Apply this?")


def _read(file: str) -> PolicyDocument:
    """Return the policy in a file, or in standard input if `file` is `-`. Raises BadPolicy."""
    if file != "-":
        return read_policy_file(Path(file))
    try:
        return read_policy(sys.stdin.read())
    except (OSError, UnicodeDecodeError) as error:
        raise BadPolicy(f"cannot read standard input: {error}") from None


def _explain_no_passkeys(settings: Settings) -> str:
    """Return the reason why these settings permit no passkeys, or "" if people can use them."""
    if "web" not in settings.adapters:
        return "Passkeys are used in the inbox, and GATEWAY_ADAPTERS does not name web."
    site = find_site(settings.public_url)
    return site if isinstance(site, str) else ""


def _print_changes(changes: Sequence[str], taken_back: Sequence[str], lost: Sequence[str]) -> None:
    for line in changes:
        print(line)
    if taken_back:
        print(f"removes what people declared on cards about {', '.join(taken_back)};")
        print("to keep these declarations, add to the file what `gateway tool list` prints")
    for sentence in lost:
        print(sentence)


def _print_applied(count: int, tokens: set[str], people: set[str]) -> None:
    print(f"active on every replica: {count} changes")
    for name in sorted(tokens - people):
        print(
            f"{name} is not in this file and can no longer decide; to remove their token as "
            f"well, run:"
        )
        print(f"  gateway approver revoke {name}")
    for name in sorted(people - tokens):
        print(f"{name} has no token to log in with: gateway approver add {name}")


async def show(options: argparse.Namespace) -> int:
    """Print the active people, routes and risk rules."""
    async with connect_backend() as found:
        document = plain(await found.store.policy())
    say(document, json.dumps(document, indent=2, ensure_ascii=False), options)
    return 0


async def export(options: argparse.Namespace) -> int:
    """Print the active policy as a policy file. Afterwards, raises BadPolicy if `apply` would
    reject this file, for example because a route has lost an approver and has too few."""
    async with connect_backend() as found:
        text = write_policy(await found.store.policy())
    say({"file": text}, text.rstrip("\n"), options)
    read_policy(text)
    return 0


# `gateway policy test`: what a policy file would have done. Nothing is written.

_HEAD = ("fits", "decides", *(past.value for past in Past))
_NO_RULE = "no rule, so people decide"


async def replay_file(options: argparse.Namespace) -> int:
    """Print how a policy file would have decided the requests in the audit log. Returns 1 if it
    would allow a call that people denied."""
    document = _read(options.file)
    refuse_unknown(document)
    async with connect_backend() as found:
        since = 0 if options.days is None else await found.store.now() - options.days * DAY_MS
        made = await replay(found.store, document, since=since)
    try:
        print(json.dumps(plain(made)) if options.json else "\n".join(_format_replay(made)))
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough, and the exit code still counts
        close_output()
    return 1 if made.newly_allowed else 0


def _format_replay(made: PolicyReplay) -> Iterator[str]:
    left_out = "".join(f"; {count} left out: {why}" for why, count in made.left_out.items())
    yield f"requests replayed: {made.replayed}{left_out}"
    yield ""
    shown = [(_on_one_line(row.rule or _NO_RULE), row) for row in made.rules]
    width = max((len(name) for name, _ in shown), default=0)
    yield f"{'rule':{width}}  effect" + "".join(f"{name:>9}" for name in _HEAD)
    for name, row in shown:
        cells = (row.fits, row.decides, *(row.became[past.value] for past in Past))
        yield f"{name:{width}}  {row.effect:6}" + "".join(f"{cell:>9}" for cell in cells)
    yield ""
    yield f"refused by people, and this file allows it: {len(made.newly_allowed)}"
    for one in made.newly_allowed:
        moment = datetime.fromtimestamp(one.at / 1000, UTC).isoformat(timespec="seconds")
        told = f"{one.agent}  {one.summary}: {one.outcome}; now allowed by {one.rule}"
        yield f"  {moment}  {one.id[:8]}  {_on_one_line(told)}"


def _on_one_line(text: str) -> str:
    """Return a string on one line, so that it cannot imitate a line that this command prints."""
    return make_visible(text).text.replace("\n", " ")


# `gateway explain`: how a call would be decided. Nothing is asked and nothing is stored.


def explain_call(options: argparse.Namespace) -> int:
    """Print what each decider, hooks included, would decide about a call, and the gateway's final
    result."""
    request = _build_request(options)
    with connect_as_approver() as http:
        answer = http.call("POST", "/v1/explain", {"request": plain(request)})
    context = request.context
    if options.json:
        where = {"session": request.session, "kind": request.kind.value, "cwd": context.cwd}
        print(json.dumps({**answer, **where}))
        return 0
    if not answer.get("known", True):
        print(f"there is no agent {request.agent} so far; if there were:")
    print(f"kind {request.kind}, session {request.session}, in {context.cwd}")
    _print_answer(answer)
    return 0


def _build_request(options: argparse.Namespace) -> ApprovalRequest:
    """Return the request that `gateway ask` would send from this folder."""
    try:
        arguments = parse(options.arguments.encode())
    except InvalidRequest as error:
        raise InvalidRequest(f"--arguments: {error}") from error
    if not isinstance(arguments, dict):
        raise InvalidRequest("--arguments must be a JSON object")
    if options.words:
        arguments["command"] = shlex.join(options.words)
    draft = ApprovalRequest(
        id=new_id(),
        agent=options.agent,
        tool=options.tool,
        arguments=arguments,
        digest="0" * 64,
        kind=Kind.COMMAND if options.words else Kind(options.kind),
        session=options.session,
        origin=_read_origin(options.origin) if options.origin else Origin(),
        context=Context(cwd=options.cwd or os.getcwd(), host=socket.gethostname()),  # noqa: PTH109
    )
    return replace(draft, digest=digest_of(draft))


def _read_origin(written: str) -> Origin:
    """Return the origin that an agent would send for PLATFORM:SPACE/CHANNEL[/THREAD]."""
    channel, _, rest = written.partition(":")
    space, _, place = rest.partition("/")
    place, _, thread = place.partition("/")
    return Origin(channel=channel, chat=f"{space}/{place}", thread=thread or None)


def _print_answer(answer: dict[str, Any]) -> None:
    risk = answer["risk"]
    who = ", ".join(answer["approvers"]) or "nobody"
    print(f"route {answer['route']} at {risk['level']} risk: {answer['quorum']} of {who}")
    print(f"shown in {', '.join(answer['targets']) or 'no place'}")
    if refused := answer.get("origin_refused"):
        print(f"no card in its conversation: {refused}")
    if ways := answer.get("step_up"):
        print(f"approving takes {say_ways(map(StepUp, ways))}")
    because = "".join(f": {reason}" for reason in risk.get("reasons", ()))
    print(make_visible(f"risk {risk['level']}{because}").text.replace("\n", " "))
    print(f"kill switch: {'on, everything is denied' if answer['stopped'] else 'off'}")
    for one in answer["arguments"]:
        address = make_visible(one["address"]).text
        print(f"argument {address}: {one['role']} (said by {one['said_by']}), {one['varies']}")
    for one in answer["uncertainties"]:
        print(f"not understood: {make_visible(one).text}")
    for one in answer["findings"]:
        print(f"finding at {make_visible(one['place']).text}: {make_visible(one['words']).text}")
    for one in answer["grants"]:
        why = (
            f"does not cover this call: {one.get('differs')}" if one.get("differs") else "covers it"
        )
        print(make_visible(f"remembered {one['id'][:8]}, {one['words']}: {why}").text)
    for one in answer["deciders"]:
        said = f"{one['effect']} {one.get('message', '')}"
        print(f"{one['priority']:5} {one['decider']:16} {said}".rstrip())
        for raised in one.get("raised", ()):
            print(make_visible(f"      raises the risk to {raised['level']}").text)
    print(f"result: {answer['result']}")


# `gateway tool …`: what operators declare about tools, over HTTP with an approver's own token.


def declare_tool(options: argparse.Namespace) -> int:
    """Declare the roles of a tool's arguments, or that the tool is harmless."""
    body: dict[str, Any] = {"tool": options.name, "arguments": _read_roles(options.roles)}
    if options.harmless:
        body["harmless"] = True
    if options.agents is not None:
        body["agents"] = [one for one in options.agents.split(",") if one]
    body["confirmed"] = options.yes
    with connect_as_approver(acting=True) as http:
        rows = http.call("POST", "/v1/tools", body)["items"]
    row = next(row for row in rows if row["name"] == options.name)
    told = f"active on every replica:\n{format_tool(row)}\n"
    keep = "Add it to your policy file, or the next `gateway apply` removes it."
    say(row, told + keep, options)
    return 0


def list_tools(options: argparse.Namespace) -> int:
    """Print all declarations about tools, in the format of the policy file."""
    with connect_as_approver() as http:
        rows = http.call("GET", "/v1/tools")["items"]
    if options.json:
        print(json.dumps(rows))
        return 0
    if not rows:
        print("no tool has a declaration", file=sys.stderr)
    print("\n\n".join(map(format_tool, rows)), end="\n" if rows else "")
    return 0


def format_tool(row: dict[str, Any]) -> str:
    """Return the declaration of a tool as TOML for a policy file."""
    return write_tables({"tools": [row]})


def _read_roles(words: list[str]) -> dict[str, str]:
    """Return ADDRESS=ROLE words as roles by address. Raises InvalidRequest."""
    roles: dict[str, str] = {}
    for word in words:
        address, equals, role = word.rpartition("=")
        if not (address and equals and role):
            raise InvalidRequest(
                f"{make_visible(word).text}: write ADDRESS=ROLE, for example text=data"
            )
        if address in roles:
            raise InvalidRequest(f"{make_visible(address).text} is given twice")
        roles[address] = role
    return roles
