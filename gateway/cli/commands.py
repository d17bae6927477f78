"""The commands and their words: what each takes, and which function runs it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsError

from gateway import __version__
from gateway.cli import admin as operator
from gateway.cli import answering as people
from gateway.cli import audit as trail
from gateway.cli import explain as explaining
from gateway.cli import grants as remembered
from gateway.cli import policy, serve
from gateway.errors import GatewayError, NotFound, Unreachable
from gateway.ports import HasCommands
from gateway.server.plugins import BrokenAdapter, adapter_class, adapter_names
from gateway.server.settings import BadSettings, sentences
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.embedded_server import EngineError

_INTERRUPTED = 130
_EXPECTED: tuple[type[Exception], ...] = (
    ValidationError,
    SettingsError,
    GatewayError,
    EngineError,
    *REDIS_ERRORS,
)

Command = Callable[[argparse.Namespace], Awaitable[int]]
Verbs = Any  # argparse names the type of its subparsers as private

_EPILOG = """Begin with:
  gateway demo                 try it: a real agent asks, you answer in the browser
  gateway up                   run the gateway with its own server and the inbox
  gateway ask shell -- rm x    ask from a shell; the exit code is the answer
Adapters add commands, such as manifest or invite; gateway NAME lists those of the adapter NAME.
Settings are environment variables, see .env.example."""


def run(words: Sequence[str]) -> int:
    """Parse and run one command; return its exit code."""
    parser, verbs = _parser()
    try:
        if words and words[0] not in verbs.choices:
            parser, words = _adapters_own(words) or (parser, words)
        options = parser.parse_args(words)
        code: int = asyncio.run(options.run(options))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except _EXPECTED as error:
        said, code = _explained(error)
        for sentence in said:
            print(f"gateway: {sentence}", file=sys.stderr)
    return code


def _adapters_own(words: Sequence[str]) -> tuple[argparse.ArgumentParser, Sequence[str]] | None:
    """Return the parser of an adapter's commands, and the words for it, when an adapter is named.

    `COMMAND NAME …` runs one, `NAME` alone lists them. Ours come first: an adapter cannot stand in
    for `gateway approve`.
    """
    known = adapter_names()
    if words[0] in known:
        return _commands_of(words[0]), ["--help"]
    if len(words) > 1 and words[1] in known:
        return _commands_of(words[1]), [words[0], *words[2:]]
    return None


def _commands_of(name: str) -> argparse.ArgumentParser:
    """Load one adapter, and no other, so that a broken one costs only its own commands."""
    kind = adapter_class(name)
    parser = argparse.ArgumentParser(prog="gateway", usage=f"gateway COMMAND {name} …")
    verbs = parser.add_subparsers(metavar="COMMAND", required=True)
    try:
        adapter = kind()
        if isinstance(adapter, HasCommands):
            adapter.commands(verbs)
    except Exception as error:  # whatever somebody else's code does
        raise BrokenAdapter(name, error) from error
    if not verbs.choices:
        raise NotFound(f"the adapter {name} adds no commands; to run it: gateway adapter {name}")
    for verb, command in verbs.choices.items():
        command.prog = f"gateway {verb} {name}"
    return parser


def _explained(error: Exception) -> tuple[list[str], int]:
    """Return what a person should read instead of a traceback, and the exit code."""
    if isinstance(error, ValidationError):
        return sentences(error), BadSettings.exit_code
    if isinstance(error, SettingsError):
        return [str(error)], BadSettings.exit_code
    if isinstance(error, GatewayError):
        return [str(error)], error.exit_code
    if isinstance(error, OSError) and error.filename:
        return [str(error)], BadSettings.exit_code
    if isinstance(error, OSError | EngineError):
        return [str(error) or type(error).__name__], Unreachable.exit_code
    return [f"Redis does not answer: {error}"], Unreachable.exit_code


def _parser() -> tuple[argparse.ArgumentParser, Verbs]:
    parser = argparse.ArgumentParser(
        prog="gateway",
        description="AI agents ask before they act; a person answers.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gateway {__version__}")
    verbs = parser.add_subparsers(metavar="COMMAND", required=True)
    _serving(verbs)
    _answering(verbs)
    _granting(verbs)
    _credentials(verbs)
    _operating(verbs)
    return parser, verbs


def _command(verbs: Verbs, name: str, run: Command, help: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=help, description=help)
    parser.set_defaults(run=run)
    return parser


def _serving(verbs: Verbs) -> None:
    _command(verbs, "up", serve.up, "run the gateway until stopped")
    adapter = _command(verbs, "adapter", serve.adapter, "run one adapter as a process of its own")
    adapter.add_argument("name", help="the adapter, for example slack")
    _command(verbs, "demo", serve.demo, "try it: a real agent process asks for real commands")
    # Both are handled before this parser exists; they stand here for `gateway --help`.
    for name, words in (
        ("ask", "ask for leave; the exit code is the answer"),
        ("wait", "wait for what was asked with --no-wait"),
    ):
        verbs.add_parser(name, help=words, add_help=False)


def _answering(verbs: Verbs) -> None:
    pending = _command(verbs, "pending", people.pending, "list what waits for an answer")
    history = _command(verbs, "history", people.history, "list what ended, answered or not")
    show = _command(verbs, "show", people.show, "show one request whole")
    approve = _command(verbs, "approve", people.approve, "approve requests as yourself")
    deny = _command(verbs, "deny", people.deny, "deny requests as yourself")
    sessions = _command(verbs, "sessions", people.sessions, "list sessions, or end one")
    sessions.add_argument("--end", metavar="NAME", help="end this session of --agent")
    sessions.add_argument("--agent", help="of this agent")
    approve.add_argument(
        "--yes", action="store_true", help="confirm what is high risk, or longer than its line"
    )
    deny.add_argument("--reason", default="", help="words for the agent")
    deny.add_argument("--feedback", action="store_true", help="ask the agent to plan again")
    for one in (approve, deny):
        _remembering(one)
    show.add_argument("id", help="the request's id, or enough of its beginning")
    show.add_argument(
        "--reveal", action="store_true", help="its secrets too; the audit says that you looked"
    )
    for one, named in (
        (approve, "ID@REVISION as `gateway pending` prints it, or the whole id"),
        (deny, "the request's id, or enough of its beginning"),
    ):
        several = f"{named}; several are decided all or none"
        one.add_argument("ids", nargs="+", metavar="ID", help=several)
    for one in (pending, history, show, sessions):
        one.add_argument("--json", action="store_true", help="print JSON")


def _remembering(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--remember",
        nargs="?",
        const="",
        metavar="OFFER",
        help="remember it: as one of `gateway grant offers ID`, or the narrowest",
    )
    parser.add_argument(
        "--for", dest="lifetime", help="with --remember: 1h (the default), 1d, 1w or revoked"
    )
    parser.add_argument(
        "--uses", type=int, metavar="N", help="with --remember: at most so many times"
    )
    parser.add_argument(
        "--everywhere",
        action="store_true",
        help="with --remember: in all sessions of the agent, not only this one",
    )


def _granting(verbs: Verbs) -> None:
    grant = verbs.add_parser("grant", help="remembered decisions")
    kinds = grant.add_subparsers(metavar="ACTION", required=True)
    offers = _command(kinds, "offers", remembered.offers, "what may be remembered about a request")
    offers.add_argument("id", help="the request's id, or enough of its beginning")
    listed = _command(kinds, "list", remembered.listing, "list what is remembered")
    listed.add_argument("--suspended", action="store_true", help="only what decides nothing now")
    show = _command(kinds, "show", remembered.show, "show one grant whole")
    show.add_argument("id", help="the grant's id, or enough of its beginning")
    revoke = _command(kinds, "revoke", remembered.revoke, "take grants back")
    revoke.add_argument("id", nargs="?", help="the grant's id, or enough of its beginning")
    revoke.add_argument("--session", help="all of this session")
    revoke.add_argument("--all", action="store_true", help="all that there are")
    through = _command(kinds, "pass", remembered.let_through, "let a session through for a while")
    through.add_argument("agent")
    through.add_argument("session")
    through.add_argument("--edits", action="store_true", help="its file changes only")
    through.add_argument("--hours", type=float, default=1.0, help="how long, 8 at most")
    through.add_argument("--next", type=int, metavar="N", help="the next N requests only")
    for one in (listed, revoke):
        one.add_argument("--agent", help="of this agent")
    for one in (offers, listed, show):
        one.add_argument("--json", action="store_true", help="print JSON")


def _credentials(verbs: Verbs) -> None:
    agent = verbs.add_parser("agent", help="agents and their credentials")
    kinds = agent.add_subparsers(metavar="ACTION", required=True)
    add = _command(kinds, "add", operator.agent_add, "make an agent; its token is shown once")
    add.add_argument(
        "--owner", metavar="PERSON", help="who it acts for; may be barred from deciding"
    )
    rotate = _command(
        kinds, "rotate", operator.agent_rotate, "replace an agent's token and password"
    )
    revoke = _command(kinds, "revoke", operator.agent_revoke, "remove an agent, cutting it off")
    listed = _command(kinds, "list", operator.agent_list, "list agents")
    paused = _command(
        kinds, "paused", people.agents_paused, "list agents that ask nobody after many denials"
    )
    lift = _command(kinds, "lift", people.agent_lift, "let a paused agent ask again")
    approver = verbs.add_parser("approver", help="people who may decide")
    kinds = approver.add_subparsers(metavar="ACTION", required=True)
    join = _command(
        kinds, "add", operator.approver_add, "make an approver; the token is shown once"
    )
    join.add_argument("--admin", action="store_true", help="may also use the kill switch")
    leave = _command(kinds, "revoke", operator.approver_revoke, "remove an approver")
    people_listed = _command(kinds, "list", operator.approver_list, "list approvers")
    login = _command(verbs, "login", operator.login, "print a one-time link to the inbox")
    for one in (add, rotate, revoke, lift, join, leave, login):
        one.add_argument("name")
    for one in (add, rotate, revoke, listed, join, leave, people_listed, paused):
        one.add_argument("--json", action="store_true", help="print JSON")


def _operating(verbs: Verbs) -> None:
    applying = _command(verbs, "apply", policy.apply, "put people, routes and risk rules in force")
    applying.add_argument("file", help="a TOML file, see docs/routes.md")
    applying.add_argument("--check", action="store_true", help="only say what would change")
    applying.add_argument("--by", default="operator", help="who does it, for the audit")
    _command(verbs, "policy", policy.show, "print people, routes and risk rules in force")
    stop = _command(
        verbs, "stop-all", operator.stop_all, "kill switch: deny everything until resume"
    )
    resume = _command(verbs, "resume", operator.resume, "lift the kill switch")
    explain = _command(
        verbs, "explain", explaining.explain, "say what would become of a call, and why"
    )
    explain.add_argument("agent")
    explain.add_argument("tool")
    explain.add_argument("words", nargs="*", metavar="-- COMMAND", help="as `gateway ask` takes it")
    explain.add_argument("--arguments", default="{}", metavar="JSON", help="the call's arguments")
    explain.add_argument("--kind", default="tool", choices=explaining.KINDS)
    explain.add_argument("--session", default="default", help="the session it would belong to")
    explain.add_argument("--cwd", help="where it would run (default: here)")
    report = _command(verbs, "report", trail.report, "how people decide, and how agents ask")
    report.add_argument("--days", type=int, default=30, help="how far back")
    audit = verbs.add_parser("audit", help="what happened, sealed and in order")
    kinds = audit.add_subparsers(metavar="ACTION", required=True)
    tail = _command(kinds, "tail", trail.tail, "print the latest events")
    tail.add_argument("--lines", type=int, default=20, help="how many")
    exporting = _command(kinds, "export", trail.export_all, "write the audit as JSON lines")
    exporting.add_argument("file", help="where to, - for standard output")
    verifying = _command(kinds, "verify", trail.verify_file, "check an export, without a gateway")
    verifying.add_argument("file", help="the export")
    erasing = _command(kinds, "erase", trail.erase, "remove what a final request asked")
    erasing.add_argument("id", help="the request's whole id, as `gateway history` prints it")
    erasing.add_argument("--by", default="operator", help="who does it, for the audit")
    doctor = _command(verbs, "doctor", operator.doctor, "check everything, and say what to do")
    doctor.add_argument("--live", action="store_true", help="have chat adapters post and take back")
    for one in (explain, report, tail, doctor):
        one.add_argument("--json", action="store_true", help="print JSON")
    for one in (stop, resume):
        one.add_argument("--by", default="operator", help="who does it, for the audit")
