"""`gateway install HOST`: write our hook into a host's settings, take it out again, or check it."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from gateway.client import config
from gateway.errors import GatewayError, InvalidRequest
from gateway.integrations.check_installed import check_all
from gateway.integrations.host_plans import ENFORCE, PLANS, RELAY, InstallWish, Plan
from gateway.integrations.host_settings import SettingsFile

_LONGEST_WAIT = 24 * 3600 - 60


def main(words: Sequence[str]) -> int:
    """Run `gateway install …`; return the exit code."""
    try:
        return _run(_options(words))
    except GatewayError as error:
        _say(f"gateway install: {error}")
        return error.exit_code
    except OSError as error:
        _say(f"gateway install: nothing was written: {error}")
        return InvalidRequest.exit_code


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gateway install",
        description="Have an agents' host ask before its tools run. Shows what it would write "
        "into the host's settings, and writes it when you say so.",
    )
    add = parser.add_argument
    add("host", choices=sorted(PLANS))
    profiles = "enforce (default): a gate. relay: where the host asks at its own terminal too"
    add("--profile", choices=[ENFORCE, RELAY], default=ENFORCE, help=profiles)
    add("--scope", choices=["user", "project"], help="whose settings (default: the user's)")
    add("--matcher", metavar="REGEX", help="which tools are asked about")
    add("--wait", type=_seconds, default=840, metavar="SECONDS", help="how long people have")
    add("--agent", metavar="NAME", help="ask as this agent (default: the host's name)")
    add("--defer", action="store_true", help="Claude Code: end the run with the call (for CI)")
    http = (
        "Claude Code: it calls the gateway itself and starts no process; its token is that of the "
    )
    add("--http", action="store_true", help=f"{http}variable GATEWAY_TOKEN where it runs")
    native = (
        "Claude Code, relay: offer people that it keeps a permission itself, which no one revokes "
        "here"
    )
    add("--native-always", action="store_true", help=native)
    add("--yes", action="store_true", help="write without asking")
    add("--undo", action="store_true", help="take it out again")
    add("--check", action="store_true", help="prove that the hook gates, or say why it does not")
    return parser.parse_args(words)


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _LONGEST_WAIT:
        raise argparse.ArgumentTypeError("takes whole seconds, less than a day")
    return int(text)


def _run(options: argparse.Namespace) -> int:
    plan = PLANS[options.host]
    scope = options.scope or next(iter(plan.folders))
    path = plan.path(scope, Path.home(), Path.cwd(), os.environ)
    file = SettingsFile(path, comments=plan.comments)
    if options.check:
        return check_all(plan, file.values, options.agent)
    if options.undo:
        return _undo(plan, file, yes=options.yes)
    _refuse_misuse(options, plan)
    wish = InstallWish(
        program=find_program(portable=scope == "project"),
        profile=options.profile,
        wait=options.wait,
        matcher=options.matcher,
        agent=options.agent,
        defer=options.defer,
        native_always=options.native_always,
        url=_find_gateway(options.agent or plan.host) if options.http else None,
    )
    try:
        after = file.change(lambda values: plan.add(values, wish))
    except InvalidRequest:
        if file.comment is not None:
            _say(f"To add to {file.path}:\n{json.dumps(plan.add({}, wish), indent=2)}")
        raise
    untouched = not any(plan.entries(file.values))
    if after == file.before:
        _say(f"{file.path} has it already")
    elif not _ask_leave(file, after, yes=options.yes):
        return 1
    else:
        file.write(after, untouched=untouched)
        _say(f"written: {file.path}")
    if options.http:
        _say(f"Set GATEWAY_TOKEN where {plan.host} runs: it sends that, and asks as its agent")
    else:
        _say_credential(plan, options.agent)
    if plan.after:
        _say(plan.after)
    where = f" --scope {options.scope}" if options.scope else ""
    _say(f"Then see that it gates: gateway install {plan.host}{where} --check")
    return 0


def _refuse_misuse(options: argparse.Namespace, plan: Plan) -> None:
    """Raise InvalidRequest for options that this host has not, or not together."""
    if options.profile not in plan.profiles:
        raise InvalidRequest(f"{plan.host} has no profile {options.profile}")
    claude = plan.host == "claude-code"
    if options.defer and not claude:
        raise InvalidRequest("--defer is Claude Code's alone")
    if options.http and (not claude or options.defer):
        raise InvalidRequest("--http is Claude Code's alone, and never with --defer")
    if options.native_always and (not claude or options.profile != RELAY):
        raise InvalidRequest("--native-always is Claude Code's alone, with --profile relay")


def _find_gateway(agent: str) -> str:
    """Return the address of the gateway. Raises InvalidRequest where none is known."""
    url = os.environ.get("GATEWAY_URL") or config.load(agent, check=False).url
    if not url:
        raise InvalidRequest("which gateway? set GATEWAY_URL")
    return url.rstrip("/")


def _undo(plan: Plan, file: SettingsFile, *, yes: bool) -> int:
    after = file.undo(plan.remove)
    if after == file.before:
        _say(f"{file.path} has nothing of ours")
        return 0
    if not _ask_leave(file, after, yes=yes):
        return 1
    file.write(after)
    file.forget()
    _say(f"taken out: {file.path}")
    return 0


def _ask_leave(file: SettingsFile, after: str | None, *, yes: bool) -> bool:
    """Show the change, and return whether it may be written."""
    sys.stdout.write(f"{file.diff(after)}\n")
    sys.stdout.flush()
    if yes:
        return True
    if not sys.stdin.isatty():
        _say("nothing was written: say --yes, or run it at a terminal")
        return False
    sys.stderr.write("Write this? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def find_program(*, portable: bool) -> str:
    """Return how `gateway` is started from a host's settings: by its name in those that others
    share, and otherwise by where it is, because a host has a path of its own."""
    if portable:
        return "gateway"
    beside = Path(sys.executable).with_name("gateway")
    found = str(beside) if beside.exists() else shutil.which("gateway")
    if found:
        return shlex.quote(found)
    return f"{shlex.quote(sys.executable)} -m gateway.integrations"


def _say_credential(plan: Plan, agent: str | None) -> None:
    """Say as whom it asks; a local gateway gives a credential of its own to it."""
    name = agent or os.environ.get("GATEWAY_AGENT") or plan.host
    try:
        found = config.load(name)
    except GatewayError as error:
        _say(f"It cannot ask yet, and until then everything is blocked: {error}")
        return
    if not (found.url and found.token):
        _say(
            "It cannot ask yet, and until then everything is blocked: set GATEWAY_URL, "
            f"GATEWAY_TOKEN and GATEWAY_AGENT where {plan.host} runs; "
            f"`gateway agent add {plan.host}` prints the token"
        )
        return
    _say(f"It asks as {found.agent} at {found.url}")


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
