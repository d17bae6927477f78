"""Define the arguments of each command, and the function that runs the command."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shlex
import sys
from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from gateway import __version__
from gateway.cli.command_details import DETAILS
from gateway.errors import GatewayError, InvalidRequest
from gateway.models import Kind

_INTERRUPTED = 130
_SHOWN = 200
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MOST_MS = 7 * _UNITS_MS["d"]
_MOST_DIGITS = 6
_PRINT_NO_DATA = ("completion.print_completion", "serve.adapter", "serve.demo", "serve.up")
CONFIRMABLE = ("grants", "agents", "sign-ins", "links")
_KINDS = [kind.value for kind in Kind if kind is not Kind.QUESTION]

Command = Callable[[argparse.Namespace], Coroutine[Any, Any, int] | int]
Parser = argparse.ArgumentParser
Verbs = Any  # argparse names the type of its subparsers as private

_EPILOG = """Begin with:
  gateway demo                 try it: a real agent asks, you answer in the browser
  gateway up                   run the gateway with its own server and the inbox
  gateway install              make the coding agents on this machine ask
  gateway ask shell -- rm x    ask from a shell; the exit code is the answer
Chats:
  gateway slack setup          connect Slack, up to the first card
  gateway slack …              also status, check, manifest, remove
  gateway discord setup        connect Discord, up to the first card
  gateway discord …            also status, check, invite, remove
  gateway saiki convert        write a Saiki agent's toolConfirmation as a route

Settings are environment variables, see .env.example."""


def run(words: Sequence[str]) -> int:
    """Parse and run one command; return its exit code."""
    parser, verbs = _parser()
    try:
        from gateway.cli.kept_settings import take_kept  # noqa: PLC0415 (see `find_command`)

        take_kept()
        if words and not words[0].startswith("-") and words[0] not in verbs.choices:
            from gateway.cli.adapter_commands import adapter_parser  # noqa: PLC0415 (see `find_command`)

            parser, words = adapter_parser(words) or (parser, words)
        # argparse takes no words after options that follow other words.
        cut = words.index("--") if words[:1] == ["explain"] and "--" in words else len(words)
        options = parser.parse_args(words[:cut])
        if cut < len(words):
            options.words += words[cut + 1 :]
        command = find_command(options.run) if isinstance(options.run, str) else options.run
        done = command(options)
        code: int = done if isinstance(done, int) else asyncio.run(done)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        return close_output()
    except GatewayError as error:
        problems, code = [str(error)], error.exit_code
    except Exception as error:
        from gateway.cli.redis_access import EXPECTED, explain_error  # noqa: PLC0415 (see `find_command`)

        if not isinstance(error, EXPECTED):
            raise
        problems, code = explain_error(error)
    else:
        return code
    from gateway.domain.redaction import mask  # noqa: PLC0415 (see `find_command`)

    for sentence in problems:
        print(f"gateway: {mask(sentence)}", file=sys.stderr)
    return code


def close_output() -> int:
    """Exit without an error, because the program that reads the output, such as `head -1`, has
    ended."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands except those of adapters."""
    return _parser()[0]


def _parser() -> tuple[argparse.ArgumentParser, Verbs]:
    parser = argparse.ArgumentParser(
        prog="gateway",
        description="Let people approve what AI agents do before they do it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gateway {__version__}")
    # `gateway.cli.main` reads the file before this parser is built; here it appears in the help.
    parser.add_argument(
        "--env-file",
        metavar="FILE",
        help="read settings from this file; give this option before COMMAND",
    )
    parser.set_defaults(run="running.show_overview", json=False)
    verbs = parser.add_subparsers(metavar="COMMAND")
    _add_server_commands(verbs)
    _add_answer_commands(verbs)
    _add_grant_commands(verbs)
    _add_tool_commands(verbs)
    _add_credential_commands(verbs)
    _add_people_commands(verbs)
    _add_team_commands(verbs)
    _add_operator_commands(verbs)
    return parser, verbs


def _command(verbs: Verbs, name: str, run: str, help: str) -> Parser:
    """Add a command. `module.function` names the function of this package that runs it."""
    whole = f"{help[0].upper()}{help[1:]}. {DETAILS.get(run, '')}".strip()
    parser: Parser = verbs.add_parser(name, help=help, description=whole)
    parser.set_defaults(run=run)
    if run not in _PRINT_NO_DATA:
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _group(verbs: Verbs, name: str, module: str, help: str) -> Callable[..., Parser]:
    """Add a command with subcommands. Return a function that adds one: its arguments are the
    subcommand's name and the function of `module` that runs it."""
    actions = verbs.add_parser(name, help=help).add_subparsers(metavar="ACTION", required=True)

    def add(action: str, function: str, help: str) -> Parser:
        return _command(actions, action, f"{module}.{function}", help)

    return add


def _count(text: str) -> int:
    """Parse a positive whole number. For other strings, argparse prints the error."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


def _span(text: str) -> int:
    """Parse a duration such as 15m into milliseconds. For other strings, argparse prints the
    error."""
    number, unit = text[:-1], _UNITS_MS.get(text[-1:], 0)
    if not (number.isascii() and number.isdecimal() and unit and len(number) <= _MOST_DIGITS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 15m or 1h")
    span = int(number) * unit
    if not 0 < span <= _MOST_MS:
        raise argparse.ArgumentTypeError(f"{text} is not between 1s and 7d")
    return span


def find_command(run: str) -> Command:
    """Import and return the function of this package that `module.function` names.

    Importing all modules takes a second, and most commands need only a few of them.
    """
    module, _, name = run.partition(".")
    command: Command = getattr(import_module(f"gateway.cli.{module}"), name)
    return command


def _add_server_commands(verbs: Verbs) -> None:
    up = _command(verbs, "up", "serve.up", "run the gateway until stopped")
    up.add_argument(
        "--detach",
        action="store_true",
        help="run in the background until `gateway down`, and log to up.log in the data folder",
    )
    up.add_argument("--lan", action="store_true", help="serve the inbox to phones on this network")
    _command(verbs, "down", "running.down", "stop the gateway of this data folder")
    _command(verbs, "status", "running.show_status", "print whether the gateway runs")
    adapter = _command(verbs, "adapter", "serve.adapter", "run one adapter in a separate process")
    adapter.add_argument("name", help="name of the adapter, for example slack")
    _command(
        verbs,
        "demo",
        "serve.demo",
        "try the gateway in a scratch folder: a real agent asks for real commands",
    )
    # `gateway.cli.main` runs these before this parser is built; here they appear in the help.
    for name, words in (
        ("ask", "ask for approval; the exit code is the decision"),
        ("wait", "wait for a request that was submitted with --no-wait"),
        ("run", "ask for a command, and run exactly what is approved"),
        ("hook", "act as the tool hook of a coding agent, such as claude-code"),
        ("bridge", "connect a coding agent that has no hook: acp, dexto, gptme-server …"),
        ("install", "make coding agents ask: claude-code, codex …"),
        ("mcp", "gate an MCP server, or serve MCP tools that ask people"),
    ):
        verbs.add_parser(name, help=words, add_help=False)


def _add_answer_commands(verbs: Verbs) -> None:
    pending = _command(verbs, "pending", "requests.show_pending", "list pending requests")
    history = _command(verbs, "history", "requests.show_history", "list decided requests")
    show = _command(verbs, "show", "requests.show", "print one request in full")
    approve = _command(verbs, "approve", "requests.approve", "approve requests as yourself")
    deny = _command(verbs, "deny", "requests.deny", "deny requests as yourself")
    session_list = _command(
        verbs, "sessions", "sessions_and_logins.list_or_end_sessions", "list sessions, or end one"
    )
    session_list.add_argument(
        "--end", metavar="NAME", help="end this session of --agent, and cancel its pending requests"
    )
    session_list.add_argument("--agent", help="list sessions of this agent")
    approve.add_argument(
        "--yes",
        action="store_true",
        help="confirm a high-risk request, or a call that does not fit its row",
    )
    approve.add_argument(
        "--number", metavar="NUMBER", help="three-digit code that is shown where the agent waits"
    )
    deny.add_argument("--reason", default="", help="your reason, which the agent gets")
    deny.add_argument("--feedback", action="store_true", help="ask the agent for another plan")
    for one in (approve, deny):
        _add_remember_options(one)
    show.add_argument("id", help="id of the request, its first characters, or its number")
    show.add_argument(
        "--reveal",
        action="store_true",
        help="print secrets too; the audit records that you read them",
    )
    for one, described in (
        (approve, "number or ID@REVISION from `gateway pending`, or the whole id"),
        (deny, "id of the request, its first characters, or its number"),
    ):
        several = f"{described}; either all of them are decided, or none"
        one.add_argument("ids", nargs="+", metavar="ID", help=several)
    for one in (pending, history):
        one.add_argument(
            "--limit",
            type=_count,
            default=_SHOWN,
            help=f"how many rows to list at most (default: {_SHOWN})",
        )
        one.add_argument(
            "--after",
            metavar="PLACE",
            default="",
            help="continue after an earlier page, which printed PLACE at its end",
        )


def _add_remember_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--remember",
        nargs="?",
        const="",
        metavar="OFFER",
        help="also save a grant from this offer of `gateway grant offers ID` (default: the "
        "narrowest offer)",
    )
    parser.add_argument(
        "--for",
        dest="lifetime",
        metavar="TIME",
        help="with --remember: how long the grant lasts: 15m, 1h (default), 8h, 1d, 1w or revoked",
    )
    parser.add_argument(
        "--uses", type=int, metavar="N", help="with --remember: the grant covers at most N requests"
    )
    parser.add_argument(
        "--everywhere",
        action="store_true",
        help="with --remember: cover all sessions of the agent",
    )


def _add_grant_commands(verbs: Verbs) -> None:
    grant = _group(verbs, "grant", "grants", "list, add and revoke grants")
    offers = grant(
        "offers", "offers", "list the grants that a request offers, and their matches in history"
    )
    offers.add_argument("id", help="id of the request, its first characters, or its number")
    listing = grant(
        "list", "show_all", "list grants, with their scope and how often they were used"
    )
    listing.add_argument("--suspended", action="store_true", help="list only suspended grants")
    show = grant("show", "show", "print one grant in full")
    show.add_argument("id", help="id of the grant, or its first characters")
    revoke = grant("revoke", "revoke", "revoke grants")
    revoke.add_argument("id", nargs="?", help="id of the grant, or its first characters")
    revoke.add_argument("--session", help="revoke the grants of this session")
    revoke.add_argument("--all", action="store_true", help="revoke all grants")
    add = grant("add", "add", "save a grant without a request")
    _add_example_options(add)
    through = grant("pass", "add_pass", "give a session a pass: approve its calls for a while")
    through.add_argument("agent", help="name of the agent whose session gets the pass")
    through.add_argument("session", help="name of the session that gets the pass")
    kind = through.add_mutually_exclusive_group()
    kind.add_argument("--edits", dest="what", action="store_const", const="edits", default="work",
                      help="cover only file changes")  # fmt: skip
    kind.add_argument("--scripts", dest="what", action="store_const", const="scripts",
                      help="also cover the project's tests, builds and scripts")  # fmt: skip
    through.add_argument(
        "--hours",
        type=float,
        default=1.0,
        help="how many hours the pass lasts: at most 8 (default: 1)",
    )
    through.add_argument("--next", type=int, metavar="N", help="end the pass after N requests")
    for one in (listing, revoke):
        one.add_argument("--agent", help="include only grants of this agent")


def _add_tool_commands(verbs: Verbs) -> None:
    tool = _group(verbs, "tool", "policy", "declare the roles of tools' arguments")
    declare = tool("declare", "declare_tool", "declare the roles of a tool's arguments")
    declare.add_argument("name", help="whole name of the tool, as agents send it")
    declare.add_argument(
        "roles",
        nargs="*",
        metavar="ADDRESS=ROLE",
        help="an argument and its role, for example text=data",
    )
    declare.add_argument(
        "--harmless",
        action="store_true",
        help="declare the tool harmless, so that a grant may cover it with any arguments",
    )
    declare.add_argument(
        "--agents",
        metavar="NAMES",
        help="only for calls by these agents, separated by commas (* means all)",
    )
    declare.add_argument(
        "--yes", action="store_true", help="confirm that grants may let these arguments vary"
    )
    tool("list", "list_tools", "print the declarations as lines of a policy file")


def _add_example_options(add: argparse.ArgumentParser) -> None:
    add.add_argument("agent", help="name of the agent that the grant is for")
    example = add.add_mutually_exclusive_group(required=True)
    example.add_argument(
        "--like",
        metavar="ID",
        help="use this request as the example: its id, its first characters, or its number",
    )
    example.add_argument("--tool", help="use a call of this tool as the example")
    add.add_argument(
        "--arguments", metavar="JSON", help="arguments of the example call, as a JSON object"
    )
    add.add_argument("--kind", choices=_KINDS, help="kind of the example call (default: tool)")
    add.add_argument("--cwd", help="folder in which the example call would run")
    add.add_argument("--host", help="host on which the example call would run")
    add.add_argument("--offer", metavar="ID", help="id of the offer to save")
    add.add_argument(
        "--deny", action="store_true", help="save a deny grant instead of an approve grant"
    )
    add.add_argument("--session", metavar="S", help="cover only this session (default: all)")
    add.add_argument(
        "--for",
        dest="lifetime",
        metavar="TIME",
        help="how long the grant lasts: 15m, 1h (default), 8h, 1d, 1w or revoked",
    )
    add.add_argument("--uses", type=int, metavar="N", help="cover at most N requests")


def _add_credential_commands(verbs: Verbs) -> None:
    agent = _group(verbs, "agent", "agents_and_approvers", "add, list and revoke agents")
    add = agent("add", "add_agent", "create an agent, and print its token once")
    add.add_argument(
        "--owner",
        metavar="PERSON",
        help="person whom the agent works for; this person may not approve its high-risk requests",
    )
    rotate = agent("rotate", "rotate_agent", "replace the token and the Redis password of an agent")
    revoke = agent("revoke", "revoke_agent", "remove an agent and close its connections")
    agent("list", "list_agents", "list agents")
    agent("paused", "show_paused", "list agents in a cool-down after many denials")
    lift = agent("lift", "lift", "end the cool-down of an agent")
    for one in (add, rotate, revoke, lift):
        one.add_argument("name", help="name of the agent")
    _add_overlap(rotate)


def _add_people_commands(verbs: Verbs) -> None:
    approver = _group(
        verbs, "approver", "agents_and_approvers", "add, list and revoke people who decide"
    )
    join = approver("add", "add_approver", "create an approver, and print the token once")
    join.add_argument("--admin", action="store_true", help="make this person an admin")
    renew = approver("rotate", "rotate_approver", "replace the token of an approver")
    leave = approver("revoke", "revoke_approver", "remove an approver")
    approver("list", "list_approvers", "list approvers")
    link = approver("link", "link_approver", "let a person add their account in a chat")
    link.set_defaults(run="chats.link_approver")
    link.add_argument("name", help="name of the person")
    link.add_argument("chat", help="name of the adapter, for example slack")
    claim = _group(verbs, "claims", "chats", "decide on channels and accounts that chats claim")
    claim("list", "list_claims", "list pending claims")
    claim("approve", "approve_claim", "add a claim to the policy").add_argument(
        "id", help="id of the claim"
    )
    claim("deny", "deny_claim", "delete a claim").add_argument("id", help="id of the claim")
    login = _command(
        verbs, "login", "sessions_and_logins.login", "print a one-time link to the inbox"
    )
    devices = _command(
        verbs,
        "devices",
        "sessions_and_logins.list_or_end_devices",
        "list the devices on which a person is signed in",
    )
    devices.add_argument("--end", metavar="ID", help="sign out the device whose id begins with ID")
    devices.add_argument("--end-all", action="store_true", help="sign out all devices")
    login.add_argument(
        "name", nargs="?", default="", help="name of the person (default: the only one)"
    )
    for one in (join, renew, leave, devices):
        one.add_argument("name", help="name of the person")
    _add_overlap(renew)


def _add_team_commands(verbs: Verbs) -> None:
    team = _group(verbs, "team", "team", "the gateway of a team, with Docker Compose")
    init = team("init", "init", "write .env, the policy file and the configuration of Caddy")
    init.add_argument(
        "folder", nargs="?", type=Path, default=Path(), help="the folder of docker-compose.yml"
    )
    init.add_argument("--domain", help="the name that people open, such as approvals.example")
    init.add_argument(
        "--person", action="append", dest="people", metavar="NAME[=IDENTITY]", default=[],
        help="an approver and their account, such as ana=slack:TEAM/U…; the first is the admin",
    )  # fmt: skip
    init.add_argument("--chat", choices=("slack", "discord", "none"), help="where cards appear")
    init.add_argument("--channel", help="the channel for cards, such as slack:TEAM/C…")
    init.add_argument(
        "--yes", action="store_true", help="ask nothing, and replace files that differ"
    )
    links = team("links", "print_links", "print a sign-in link for each person, or for those named")
    links.add_argument("names", nargs="*", metavar="NAME", help="a person of the policy")
    links.add_argument("--qr", action="store_true", help="also draw each link as a QR code")


def _add_overlap(rotating: argparse.ArgumentParser) -> None:
    end = rotating.add_mutually_exclusive_group()
    end.add_argument(
        "--overlap",
        type=_span,
        default="15m",
        metavar="TIME",
        help="how long the old token stays valid: 90s, 15m (default), 1h, at most 7d",
    )
    end.add_argument("--now", action="store_true", help="end the old token at once")


def _add_operator_commands(verbs: Verbs) -> None:
    applying = _command(
        verbs, "apply", "policy.apply", "apply a policy file: people, routes and rules"
    )
    applying.add_argument("file", help="path of the policy file, or - for standard input")
    applying.add_argument(
        "--check", action="store_true", help="print the changes without applying them"
    )
    applying.add_argument(
        "--yes",
        action="store_true",
        help="apply without asking, even if no approver or admin is left",
    )
    applying.add_argument("--by", default="operator", help="your name, for the audit log")
    policy = _group(verbs, "policy", "policy", "print the active policy, or test a file")
    policy("show", "show", "print the active policy as JSON")
    policy("export", "export", "print the active policy as a policy file")
    test = policy("test", "replay_file", "replay a policy file against past requests")
    test.add_argument("file", help="path of the policy file, or - for standard input")
    test.add_argument("--days", type=_count, help="replay only the last DAYS days (default: all)")
    stop = _command(
        verbs,
        "stop-all",
        "grants.stop_all",
        "turn the kill switch on: deny all requests until resume",
    )
    resume = _command(verbs, "resume", "grants.resume", "turn the kill switch off")
    _add_explain_command(verbs)
    figures = _command(
        verbs, "report", "audit.print_report", "print how people decide, and how agents ask"
    )
    figures.add_argument(
        "--days", type=int, default=30, help="count the last DAYS days (default: 30)"
    )
    _add_audit_commands(verbs)
    _add_doctor_commands(verbs)
    for one in (stop, resume, _add_backup_commands(verbs)):
        one.add_argument("--by", default="operator", help="your name, for the audit log")


def _add_explain_command(verbs: Verbs) -> None:
    call = _command(
        verbs,
        "explain",
        "policy.explain_call",
        "print how the gateway would decide a call, and why",
    )
    call.add_argument("agent", help="name of the agent that makes the call")
    call.add_argument("tool", help="name of the tool that is called")
    call.add_argument(
        "words", nargs="*", metavar="-- COMMAND", help="command that would run, after --"
    )
    call.add_argument(
        "--arguments", default="{}", metavar="JSON", help="arguments of the call, as a JSON object"
    )
    call.add_argument("--kind", default="tool", choices=_KINDS, help="kind of call (default: tool)")
    call.add_argument(
        "--session", default="default", help="session in which the call is made (default: default)"
    )
    call.add_argument("--cwd", help="folder in which the call would run (default: this one)")
    there = "conversation where the call begins, as platform:SPACE/CHANNEL[/THREAD]"
    call.add_argument("--origin", metavar="PLACE", help=there)


def _add_doctor_commands(verbs: Verbs) -> None:
    checks = _command(
        verbs, "doctor", "serve.run_doctor", "check the whole installation, and print remedies"
    )
    _command(
        verbs,
        "completion",
        "completion.print_completion",
        "print a completion script for your shell",
    )
    verbs.choices["completion"].add_argument(
        "shell", choices=("bash", "zsh", "fish"), help="name of your shell"
    )
    checks.add_argument(
        "--live", action="store_true", help="post a sample to each chat, then delete it"
    )
    me = "with --live: also ask a person to try the chats (default: the only one)"
    checks.add_argument("--with-me", nargs="?", const="", metavar="PERSON", help=me)
    kept = "with --with-me: write the traffic to FILE, without tokens, ids and names"
    checks.add_argument("--record", type=Path, metavar="FILE", help=kept)


def _add_backup_commands(verbs: Verbs) -> Parser:
    """Add `backup` and `restore`. Return the parser of `restore`, so that the caller adds --by."""
    saving = _command(verbs, "backup", "backups.back_up", "write everything to one private file")
    saving.add_argument("file", help="path of the backup; replaces an older file")
    back = _command(verbs, "restore", "backups.restore", "load a backup into an empty gateway")
    back.add_argument("file", nargs="?", help="path of the backup")
    back.add_argument(
        "--confirm", choices=CONFIRMABLE, help="after a restore: activate these again"
    )
    return back


def _add_audit_commands(verbs: Verbs) -> None:
    trail = _group(verbs, "audit", "audit", "read, export and verify the audit log")
    tail = trail("tail", "tail", "print the latest events")
    tail.add_argument(
        "--lines", type=_count, default=20, help="how many events to print (default: 20)"
    )
    export = trail("export", "export_all", "write the audit log as JSON lines")
    export.add_argument("file", help="path of the file to write, or - for standard output")
    export.add_argument(
        "--form",
        choices=["sealed", "interchange", "trace"],
        default="sealed",
        help="export format: `sealed`, which `verify` reads (default), or the format of another "
        "system",
    )
    verify = trail(
        "verify", "verify_file", "verify an audit export or an evidence report; needs no gateway"
    )
    verify.add_argument("file", help="path of an export with seals, or of an evidence report")
    verify.add_argument(
        "--key", help="public keys that you trust for a report (default: GATEWAY_PUBLIC_KEY)"
    )
    proof = trail("evidence", "write_evidence", "write an evidence report, which `verify` reads")
    proof.set_defaults(run="evidence.write_evidence")
    proof.add_argument(
        "about",
        metavar="ABOUT",
        help="whole id of a request, a quarter such as 2026Q4, or the first and last day, such as "
        "2026-10-01..2026-10-31 (UTC)",
    )
    proof.add_argument("file", help="path of the HTML file; replaces an older file")
    erase = trail("erase", "erase", "erase the content of a decided request")
    erase.add_argument("id", help="whole id of the request to erase")
    for one in (proof, erase):
        one.add_argument("--by", default="operator", help="your name, for the audit log")
    archive = _group(verbs, "archive", "audit", "repair the archive of the audit log")
    lost = archive(
        "give-up", "give_up", "let the audit continue although archive segments are lost"
    )
    lost.add_argument(
        "--yes", action="store_true", help="confirm that the segments are lost for good"
    )
    lost.add_argument("--by", default="operator", help="your name, for the audit log")


# `gateway --env-file FILE`: settings from a file that is named, and from no other.
#
# The file is what a shell can source and Docker Compose can read: NAME=VALUE lines, quoted where
# the value has spaces or quotes. A name that the environment has already keeps its value.

_OPTION = "--env-file"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def take_env_file(words: Sequence[str]) -> list[str]:
    """Load the file named by a leading --env-file, and return the remaining words. Raises
    InvalidRequest."""
    rest = list(words)
    while rest and rest[0].partition("=")[0] == _OPTION:
        option, equals, path = rest.pop(0).partition("=")
        if not equals:
            if not rest:
                raise InvalidRequest(
                    f"{option} needs a file, for example: gateway {option} FILE up"
                )
            path = rest.pop(0)
        for name, value in read_env_file(path).items():
            os.environ.setdefault(name, value)
    return rest


def read_env_file(path: str) -> dict[str, str]:
    """Return the variables in a file. Raises InvalidRequest that quotes the first invalid line."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{_OPTION}: cannot read {path}: {error}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise InvalidRequest(f"{path}, line {number}: {error}") from None
        if not words:
            continue
        name, equals, value = words[0].partition("=")
        if len(words) > 1 or not equals or not _NAME.fullmatch(name):
            raise InvalidRequest(
                f"{path}, line {number}: write NAME=VALUE, and quote the value if it has spaces"
            )
        found[name] = value
    return found
