"""The command line: the arguments of each command, and the function that runs it."""

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
  gateway install              have the coding agents of this machine ask
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
        options = parser.parse_args(words)
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
    """Leave quietly: whoever reads the output, as `head -1` does, has read enough of it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands but those of adapters."""
    return _parser()[0]


def _parser() -> tuple[argparse.ArgumentParser, Verbs]:
    parser = argparse.ArgumentParser(
        prog="gateway",
        description="AI agents ask before they act; a person answers.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gateway {__version__}")
    # `gateway.cli.main` reads the file before this parser is built; here it appears in the help.
    parser.add_argument(
        "--env-file", metavar="FILE", help="settings from this file, before COMMAND"
    )
    parser.set_defaults(run="running.show_overview", json=False)
    verbs = parser.add_subparsers(metavar="COMMAND")
    _add_server_commands(verbs)
    _add_answer_commands(verbs)
    _add_grant_commands(verbs)
    _add_tool_commands(verbs)
    _add_credential_commands(verbs)
    _add_people_commands(verbs)
    _add_operator_commands(verbs)
    return parser, verbs


def _command(verbs: Verbs, name: str, run: str, help: str) -> Parser:
    """Add a command, and the function of this package that runs it, as `module.function`."""
    parser: Parser = verbs.add_parser(name, help=help, description=help)
    parser.set_defaults(run=run)
    if run not in _PRINT_NO_DATA:
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _group(verbs: Verbs, name: str, module: str, help: str) -> Callable[..., Parser]:
    """Add a command with actions; return what adds one of these: its name, and which function of
    `module` runs it."""
    actions = verbs.add_parser(name, help=help).add_subparsers(metavar="ACTION", required=True)

    def add(action: str, function: str, help: str) -> Parser:
        return _command(actions, action, f"{module}.{function}", help)

    return add


def _count(text: str) -> int:
    """Return how many are meant; argparse says why a text is refused."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


def _span(text: str) -> int:
    """Return a time such as 15m in ms; argparse says why a text is refused."""
    number, unit = text[:-1], _UNITS_MS.get(text[-1:], 0)
    if not (number.isascii() and number.isdecimal() and unit and len(number) <= _MOST_DIGITS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 15m or 1h")
    span = int(number) * unit
    if not 0 < span <= _MOST_MS:
        raise argparse.ArgumentTypeError(f"{text} is not between 1s and 7d")
    return span


def find_command(run: str) -> Command:
    """Return the function of this package that is named as `module.function`.

    All modules together take a second to import; most commands need a small part of them.
    """
    module, _, name = run.partition(".")
    command: Command = getattr(import_module(f"gateway.cli.{module}"), name)
    return command


def _add_server_commands(verbs: Verbs) -> None:
    up = _command(verbs, "up", "serve.up", "run the gateway until stopped")
    up.add_argument("--detach", action="store_true", help="in the background, until `gateway down`")
    up.add_argument("--lan", action="store_true", help="serve the inbox to phones in this network")
    _command(verbs, "down", "running.down", "stop the gateway of this data folder")
    _command(verbs, "status", "running.show_status", "is it running, what waits, what is next")
    adapter = _command(verbs, "adapter", "serve.adapter", "run one adapter as a process of its own")
    adapter.add_argument("name", help="the adapter, for example slack")
    _command(verbs, "demo", "serve.demo", "try it: a real agent process asks for real commands")
    # `gateway.cli.main` runs these before this parser is built; here they appear in the help.
    for name, words in (
        ("ask", "ask for approval; the exit code is the answer"),
        ("wait", "wait for what was asked with --no-wait"),
        ("run", "ask for a command, and run exactly what was approved"),
        ("hook", "be the hook of a host that starts it, such as claude-code"),
        ("bridge", "ask for a host beside it: dexto, gptme-server, opencode"),
        ("install", "have coding agents ask: claude-code, codex …; alone, those found here"),
        ("mcp", "stand before an MCP server, or be one that people answer"),
    ):
        verbs.add_parser(name, help=words, add_help=False)


def _add_answer_commands(verbs: Verbs) -> None:
    pending = _command(verbs, "pending", "requests.show_pending", "list pending requests")
    history = _command(verbs, "history", "requests.show_history", "list requests that have ended")
    show = _command(verbs, "show", "requests.show", "print one request in full")
    approve = _command(verbs, "approve", "requests.approve", "approve requests as yourself")
    deny = _command(verbs, "deny", "requests.deny", "deny requests as yourself")
    session_list = _command(
        verbs, "sessions", "sessions_and_logins.list_or_end_sessions", "list sessions, or end one"
    )
    session_list.add_argument("--end", metavar="NAME", help="end this session of --agent")
    session_list.add_argument("--agent", help="of this agent")
    approve.add_argument(
        "--yes", action="store_true", help="confirm a high risk, or text beyond its line"
    )
    approve.add_argument(
        "--number", metavar="NUMBER", help="the number that is shown where the agent waits"
    )
    deny.add_argument("--reason", default="", help="words for the agent")
    deny.add_argument("--feedback", action="store_true", help="ask the agent to plan again")
    for one in (approve, deny):
        _add_remember_options(one)
    show.add_argument("id", help="the request's id, its first characters, or its number")
    show.add_argument("--reveal", action="store_true", help="its secrets too; the audit records it")
    for one, described in (
        (approve, "number or ID@REVISION as `gateway pending` prints it, or the whole id"),
        (deny, "the request's id, its first characters, or its number"),
    ):
        several = f"{described}; several are decided all or none"
        one.add_argument("ids", nargs="+", metavar="ID", help=several)
    for one in (pending, history):
        one.add_argument(
            "--limit",
            type=_count,
            default=_SHOWN,
            help=f"how many at most; {_SHOWN} by default",
        )
        one.add_argument("--after", metavar="PLACE", default="", help="go on where a page ended")


def _add_remember_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--remember",
        nargs="?",
        const="",
        metavar="OFFER",
        help="remember it: as one of `gateway grant offers ID`, or the narrowest",
    )
    parser.add_argument(
        "--for",
        dest="lifetime",
        help="with --remember: 15m, 1h (the default), 8h, 1d, 1w or revoked",
    )
    parser.add_argument("--uses", type=int, metavar="N", help="with --remember: at most N times")
    parser.add_argument(
        "--everywhere",
        action="store_true",
        help="with --remember: in all sessions of the agent, not only this one",
    )


def _add_grant_commands(verbs: Verbs) -> None:
    grant = _group(verbs, "grant", "grants", "remembered decisions")
    offers = grant("offers", "offers", "print what may be remembered")
    offers.add_argument("id", help="the request's id, its first characters, or its number")
    listing = grant("list", "show_all", "list remembered decisions")
    listing.add_argument("--suspended", action="store_true", help="only suspended grants")
    show = grant("show", "show", "print one grant in full")
    show.add_argument("id", help="the grant's id, or its first characters")
    revoke = grant("revoke", "revoke", "revoke grants")
    revoke.add_argument("id", nargs="?", help="the grant's id, or its first characters")
    revoke.add_argument("--session", help="all of this session")
    revoke.add_argument("--all", action="store_true", help="all grants")
    add = grant("add", "add", "remember a decision without being asked")
    _add_example_options(add)
    through = grant("pass", "add_pass", "approve what a session asks, for a while")
    through.add_argument("agent")
    through.add_argument("session")
    kind = through.add_mutually_exclusive_group()
    kind.add_argument("--edits", dest="what", action="store_const", const="edits", default="work",
                      help="file changes only")  # fmt: skip
    kind.add_argument("--scripts", dest="what", action="store_const", const="scripts",
                      help="also run the project's own tests, builds and scripts")  # fmt: skip
    through.add_argument("--hours", type=float, default=1.0, help="how long, 8 at most")
    through.add_argument("--next", type=int, metavar="N", help="the next N requests only")
    for one in (listing, revoke):
        one.add_argument("--agent", help="of this agent")


def _add_tool_commands(verbs: Verbs) -> None:
    tool = _group(verbs, "tool", "policy", "what is declared about tools")
    declare = tool("declare", "declare_tool", "say what a tool's arguments are")
    declare.add_argument("name", help="the whole name of the tool, as it is sent")
    declare.add_argument(
        "roles", nargs="*", metavar="ADDRESS=ROLE", help="an argument and what it is: text=data"
    )
    declare.add_argument(
        "--harmless", action="store_true", help="the tool may be remembered as a whole"
    )
    declare.add_argument("--agents", metavar="NAMES", help="whose calls, with commas; * fits all")
    declare.add_argument("--yes", action="store_true", help="confirm what it frees")
    tool("list", "list_tools", "print it, as a policy file has it")


def _add_example_options(add: argparse.ArgumentParser) -> None:
    add.add_argument("agent")
    example = add.add_mutually_exclusive_group(required=True)
    example.add_argument("--like", metavar="ID", help="a request, by its id or first characters")
    example.add_argument("--tool", help="or the tool of an example call")
    add.add_argument("--arguments", metavar="JSON", help="the example's arguments")
    add.add_argument("--kind", choices=_KINDS, help="what the example is (default: tool)")
    add.add_argument("--cwd", help="where the example would run")
    add.add_argument("--host", help="the host where it would run")
    add.add_argument(
        "--offer", metavar="ID", help="what to remember; without it, prints the offers"
    )
    add.add_argument("--deny", action="store_true", help="deny such calls (default: approve)")
    add.add_argument("--session", metavar="S", help="in this session only (default: everywhere)")
    add.add_argument("--for", dest="lifetime", help="15m, 1h (as without), 8h, 1d, 1w or revoked")
    add.add_argument("--uses", type=int, metavar="N", help="at most N times")


def _add_credential_commands(verbs: Verbs) -> None:
    agent = _group(verbs, "agent", "agents_and_approvers", "agents and their credentials")
    add = agent("add", "add_agent", "create an agent; its token is shown once")
    add.add_argument(
        "--owner", metavar="PERSON", help="the person it acts for; may be barred from deciding"
    )
    rotate = agent("rotate", "rotate_agent", "replace an agent's token and password")
    revoke = agent("revoke", "revoke_agent", "remove an agent, cut its connections")
    agent("list", "list_agents", "list agents")
    agent("paused", "show_paused", "list agents that are paused after many denials")
    lift = agent("lift", "lift", "let a paused agent ask again")
    for one in (add, rotate, revoke, lift):
        one.add_argument("name")
    _add_overlap(rotate)


def _add_people_commands(verbs: Verbs) -> None:
    approver = _group(verbs, "approver", "agents_and_approvers", "people who may decide")
    join = approver("add", "add_approver", "create an approver; the token is shown once")
    join.add_argument("--admin", action="store_true", help="may also use the kill switch")
    renew = approver("rotate", "rotate_approver", "replace an approver's token")
    leave = approver("revoke", "revoke_approver", "remove an approver")
    approver("list", "list_approvers", "list approvers")
    link = approver("link", "link_approver", "let a person add their account in a chat")
    link.set_defaults(run="chats.link_approver")
    link.add_argument("name", help="the person")
    link.add_argument("chat", help="the adapter, for example slack")
    claim = _group(verbs, "claims", "chats", "channels and accounts that chats ask for")
    claim("list", "list_claims", "list what waits for your yes")
    claim("approve", "approve_claim", "put it into the policy").add_argument("id")
    claim("deny", "deny_claim", "drop it").add_argument("id")
    login = _command(
        verbs, "login", "sessions_and_logins.login", "print a one-time link to the inbox"
    )
    devices = _command(
        verbs,
        "devices",
        "sessions_and_logins.list_or_end_devices",
        "list where somebody is signed in",
    )
    devices.add_argument("--end", metavar="ID", help="sign out the device that begins so")
    devices.add_argument("--end-all", action="store_true", help="sign out all of them")
    login.add_argument("name", nargs="?", default="", help="whose; the only person's without one")
    for one in (join, renew, leave, devices):
        one.add_argument("name")
    _add_overlap(renew)


def _add_overlap(rotating: argparse.ArgumentParser) -> None:
    end = rotating.add_mutually_exclusive_group()
    end.add_argument(
        "--overlap",
        type=_span,
        default="15m",
        metavar="TIME",
        help="how long the old token stays valid: 90s, 15m (the default), 1h, 7d at most",
    )
    end.add_argument("--now", action="store_true", help="end the old token at once")


def _add_operator_commands(verbs: Verbs) -> None:
    applying = _command(
        verbs, "apply", "policy.apply", "put people, routes and risk rules in force"
    )
    applying.add_argument(
        "file", help="a TOML file, see docs/guides/write-policy.md; - is standard input"
    )
    applying.add_argument("--check", action="store_true", help="only print what would change")
    applying.add_argument(
        "--yes", action="store_true", help="ask nothing, also where no approver or admin is left"
    )
    applying.add_argument("--by", default="operator", help="your name, for the audit")
    policy = _group(verbs, "policy", "policy", "people, routes and risk rules in force")
    policy("show", "show", "print them as JSON")
    policy("export", "export", "print them as the policy file that would produce them")
    test = policy("test", "replay_file", "print what a file would have done with past requests")
    test.add_argument(
        "file", help="a TOML file, see docs/guides/write-policy.md; - is standard input"
    )
    test.add_argument("--days", type=_count, help="how far back (default: all that is kept)")
    stop = _command(
        verbs, "stop-all", "grants.stop_all", "kill switch: deny everything until resume"
    )
    resume = _command(verbs, "resume", "grants.resume", "turn the kill switch off")
    call = _command(
        verbs, "explain", "policy.explain_call", "print how a call would be decided, and why"
    )
    call.add_argument("agent")
    call.add_argument("tool")
    call.add_argument("words", nargs="*", metavar="-- COMMAND", help="as `gateway ask` takes it")
    call.add_argument("--arguments", default="{}", metavar="JSON", help="the call's arguments")
    call.add_argument("--kind", default="tool", choices=_KINDS)
    call.add_argument("--session", default="default", help="the session it would belong to")
    call.add_argument("--cwd", help="where it would run (default: here)")
    figures = _command(
        verbs, "report", "audit.print_report", "how people decide, and how agents ask"
    )
    figures.add_argument("--days", type=int, default=30, help="how far back")
    _add_audit_commands(verbs)
    checks = _command(verbs, "doctor", "serve.run_doctor", "run all checks, with remedies")
    _command(
        verbs,
        "completion",
        "completion.print_completion",
        "print what completes commands in your shell",
    )
    verbs.choices["completion"].add_argument("shell", choices=("bash", "zsh", "fish"))
    checks.add_argument("--live", action="store_true", help="let chats post and delete a test")
    me = "with --live: have a person, you if you are the only one, try the chats"
    checks.add_argument("--with-me", nargs="?", const="", metavar="PERSON", help=me)
    kept = "with --with-me: write what is exchanged, without tokens, ids and names"
    checks.add_argument("--record", type=Path, metavar="FILE", help=kept)
    for one in (stop, resume, _add_backup_commands(verbs)):
        one.add_argument("--by", default="operator", help="your name, for the audit")


def _add_backup_commands(verbs: Verbs) -> Parser:
    """Add the two commands. Return the one that the audit notes."""
    saving = _command(verbs, "backup", "backups.back_up", "write everything to one private file")
    saving.add_argument("file", help="where to; an older file is replaced")
    back = _command(verbs, "restore", "backups.restore", "load a backup into an empty gateway")
    back.add_argument("file", nargs="?", help="the backup")
    back.add_argument(
        "--confirm", choices=CONFIRMABLE, help="after a restore: make these effective again"
    )
    return back


def _add_audit_commands(verbs: Verbs) -> None:
    trail = _group(verbs, "audit", "audit", "what happened, sealed and in order")
    tail = trail("tail", "tail", "print the latest events")
    tail.add_argument("--lines", type=_count, default=20, help="how many")
    export = trail("export", "export_all", "write the audit as JSON lines")
    export.add_argument("file", help="where to, - for standard output")
    export.add_argument(
        "--form",
        choices=["sealed", "interchange", "trace"],
        default="sealed",
        help="as it is sealed and verified (the default), or in a form that others read",
    )
    verify = trail("verify", "verify_file", "check an export, without a gateway")
    verify.add_argument("file", help="the export")
    erase = trail("erase", "erase", "remove the content of an ended request")
    erase.add_argument("id", help="the request's whole id, as `gateway history` prints it")
    erase.add_argument("--by", default="operator", help="your name, for the audit")
    archive = _group(verbs, "archive", "audit", "the folder that old events move to")
    lost = archive("give-up", "give_up", "go on without segments that are lost")
    lost.add_argument("--yes", action="store_true", help="they are gone for good")
    lost.add_argument("--by", default="operator", help="your name, for the audit")


# `gateway --env-file FILE`: settings from a file that is named, and from no other.
#
# The file is what a shell can source and Docker Compose can read: NAME=VALUE lines, quoted where
# the value has spaces or quotes. A name that the environment has already keeps its value.

_OPTION = "--env-file"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def take_env_file(words: Sequence[str]) -> list[str]:
    """Read the file that leading words name, and return the words behind; raises InvalidRequest."""
    rest = list(words)
    while rest and rest[0].partition("=")[0] == _OPTION:
        option, equals, path = rest.pop(0).partition("=")
        if not equals:
            if not rest:
                raise InvalidRequest(f"{option} takes a file: gateway {option} FILE up")
            path = rest.pop(0)
        for name, value in read_env_file(path).items():
            os.environ.setdefault(name, value)
    return rest


def read_env_file(path: str) -> dict[str, str]:
    """Return the variables of a file; raises InvalidRequest with the line that cannot be read."""
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
                f"{path}, line {number}: write NAME=VALUE, the value in quotes where it has spaces"
            )
        found[name] = value
    return found
