"""`gateway install`: add the hook to a coding agent, remove it, or check it. Start at `main`."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gateway.client import config
from gateway.client.http_connection import HttpConnection
from gateway.errors import GatewayError, InvalidRequest
from gateway.integrations.coding_agents.claude_code import PRE
from gateway.integrations.coding_agents.install_plans import (
    ENFORCE,
    HOOK_PATH,
    PLANS,
    RELAY,
    TOKEN_NAME,
    Entry,
    InstallWish,
    Plan,
    SettingsFile,
    Values,
    read_trust,
)
from gateway.wire.local_discovery import (
    FILE_NAME,
    OWNER_FILE,
    read_private,
    secret,
    state_folder,
)

# Checks that an installed hook blocks: its settings, and a harmless call that is denied through the
# installed command.

_DENIED = "denied by `gateway install --check`"
_SECONDS = 30.0
_PROGRAMS = {host: host for host in PLANS} | {"claude-code": "claude", "cursor": "cursor-agent"}
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_TIMEOUT = re.compile(r"(?:--timeout |[?&]timeout=)(\d+)")


def check_all(plan: Plan, values: Values, agent: str | None) -> int:
    """Check the hooks in these settings, and print the results; return the exit code."""
    proofs, wrong = try_gates(plan, values, agent)
    for one in proofs:
        _check_installed_say(f"ok   {one}")
    for one in wrong:
        _check_installed_say(f"FAIL {one}")
    if plan.after:
        _check_installed_say(f"note {plan.after}")
    return 1 if wrong else 0


def try_gates(plan: Plan, values: Values, agent: str | None) -> tuple[list[str], list[str]]:
    """Try the hooks in these settings. Return the proofs that they block, and the problems. If the
    settings have a problem, no hook is tried."""
    proofs: list[str] = []
    wrong = [*find_problems(plan, values), *_check_version(plan)]
    gates = [one for one in plan.entries(values) if _is_gate(one)]
    if plan.host == "codex":
        wrong += _check_trust(gates)
    for entry in [] if wrong else gates:
        proved, says = prove(plan, entry, agent)
        (proofs if proved else wrong).append(f"{entry.event}: {says}")
    return proofs, wrong


def find_problems(plan: Plan, values: Values) -> Iterator[str]:
    """Yield the reasons why the hooks in these settings would not block a call."""
    entries = list(plan.entries(values))
    if not entries and plan.host != "opencode":
        yield f"the hook is not installed: run `gateway install {plan.host}`"
    gates = [one for one in entries if _is_gate(one)]
    for one in gates:
        yield from _find_problems_of(plan, one)
    for event in {one.event for one in gates}:
        if sum(one.event == event for one in gates) > 1:
            yield f"{event}: the hook is installed twice, so people are asked twice about each call"
    yield from plan.doubts(values)


def _find_problems_of(plan: Plan, entry: Entry) -> Iterator[str]:
    ours = _TIMEOUT.search(entry.command)
    if entry.timeout is None:
        yield f"{entry.event}: no timeout is set: the default may be shorter than the hook's"
    elif ours is None or float(ours[1]) >= entry.timeout:
        yield (
            f"{entry.event}: the timeout of {entry.timeout:.0f} s in the settings is not longer "
            "than the hook's: the tool would run after it"
        )
    if entry.event != "PermissionRequest" and not entry.blocks:
        yield (
            f"{entry.event}: "
            f"a failure of the hook would not block the call, or would look like a denial: run "
            f"`gateway install {plan.host}` again"
        )
    if _is_address(entry):
        return
    program = shlex.split(entry.command)[0]
    if shutil.which(program) is None:
        yield f"{entry.event}: {program} is not found, so the hook cannot start"


def _is_address(entry: Entry) -> bool:
    """Return whether the coding agent calls the gateway over HTTP, without a process."""
    return entry.command.startswith(("http://", "https://"))


def _is_gate(entry: Entry) -> bool:
    """Return whether a hook asks people. Other hooks only close cards."""
    return bool(_TIMEOUT.search(entry.command))


def _check_version(plan: Plan) -> list[str]:
    """Return a problem if the coding agent is installed and older than the tested version."""
    program = shutil.which(_PROGRAMS[plan.host])
    if not program or not plan.tested:
        return []
    try:
        ran = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"cannot read the version of {program}: {error}"]
    found = _VERSION.search(ran.stdout)
    if found is None or _numbers(found[0]) < _numbers(plan.tested):
        says = found[0] if found else "no version"
        return [f"{program} is {says}, older than {plan.tested}, with which this was tested"]
    return []


def _check_trust(gates: list[Entry]) -> list[str]:
    """Ask Codex which hooks it trusts, and return a problem for each hook that it does not
    trust."""
    program = shutil.which(_PROGRAMS["codex"])
    if program is None:
        _check_installed_say(
            "note codex is not in PATH, so it is unknown whether Codex trusts the hook"
        )
        return []
    try:
        known, warnings = read_trust(program, str(Path.cwd()))
    except OSError as error:
        return [str(error)]
    skipped = {one.command: known.get(one.command, "unknown to it") for one in gates}
    return [f"Codex says: {one}" for one in warnings] + [
        f"the hook is {says}: Codex skips it, and runs the tool. Start codex, type /hooks, trust it"
        for says in skipped.values()
        if says != "trusted"
    ]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def prove(plan: Plan, entry: Entry, agent: str | None) -> tuple[bool, str]:
    """Run the hook with a harmless call, and deny it. Return whether the hook waited and blocked,
    and a sentence with that result."""
    if _is_address(entry):
        return _prove_address(plan, entry)
    try:
        found = config.load(agent or os.environ.get("GATEWAY_AGENT") or plan.host)
    except GatewayError as error:
        return False, f"cannot reach the gateway: {error}"
    marker = os.urandom(8).hex()
    process = subprocess.Popen(
        ["/bin/sh", "-c", entry.command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    held: list[str] = []
    denying = threading.Thread(
        target=_deny, args=(found, marker, lambda: process.poll() is not None, held)
    )
    denying.start()
    try:
        out, err = process.communicate(json.dumps(_call(plan, entry, marker)), timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        return False, "the hook did not end after its call was denied"
    finally:
        denying.join()
    if not held:
        return (
            False,
            f"the hook did not wait: exit code {process.returncode}, {(err or out).strip()}",
        )
    if _is_refusal(plan, entry, process.returncode, out):
        return True, f"a harmless call was held, {held[0]}, and blocked"
    return False, f"the call was denied, but the hook did not block it: {process.returncode} {out}"


def _prove_address(plan: Plan, entry: Entry) -> tuple[bool, str]:
    """Try an HTTP hook as `prove` does, with the token in the environment."""
    token, marker = os.environ.get(TOKEN_NAME), os.urandom(8).hex()
    if not token:
        return False, f"{TOKEN_NAME} is not set here: {plan.host} would send no token"
    base, _, query = entry.command.partition("?")
    url, path = base.removesuffix(HOOK_PATH), HOOK_PATH + (f"?{query}" if query else "")
    found = config.AgentConfig(agent=plan.host, url=url, token=token)
    held: list[str] = []
    over = threading.Event()
    denying = threading.Thread(target=_deny, args=(found, marker, over.is_set, held))
    denying.start()
    try:
        with HttpConnection(url, token) as gateway:
            body = _call(plan, entry, marker)
            told = json.dumps(gateway.call("POST", path, body, timeout=_SECONDS))
    except GatewayError as error:
        return False, f"cannot reach the gateway: {error}"
    finally:
        over.set()
        denying.join()
    blocked = '"allow"' not in told and (entry.event != PRE or '"deny"' in told)
    if held and blocked:
        return True, f"a harmless call was held, {held[0]}, and blocked"
    how = "did not block the denied call" if held else "did not wait"
    return False, f"the hook {how}: {told}"


def _call(plan: Plan, entry: Entry, marker: str) -> dict[str, Any]:
    """Return a tool call without effects, in the coding agent's format."""
    session = f"gateway-check-{marker}"
    given = {"command": "true"}
    if plan.host == "copilot":
        return {"sessionId": session, "toolName": "bash", "toolArgs": given, "cwd": os.sep}
    if plan.host == "cursor":
        call = {"conversation_id": session, "tool_name": "Shell", "tool_use_id": marker}
    else:
        shell = "run_shell_command" if plan.host == "gemini" else "Bash"
        call = {"session_id": session, "tool_name": shell, "tool_use_id": marker}
    return {**call, "hook_event_name": entry.event, "tool_input": given, "cwd": os.sep}


def _is_refusal(plan: Plan, entry: Entry, code: int, out: str) -> bool:
    if plan.host == "copilot":
        with suppress(ValueError, AttributeError):
            return bool(json.loads(out).get("permissionDecision") == "deny")
        return False
    if entry.event in (PRE, "BeforeTool", "preToolUse"):
        return code == 2  # noqa: PLR2004 (a denial for these coding agents)
    return '"allow"' not in out


def _deny(
    found: config.AgentConfig, marker: str, is_over: Callable[[], bool], held: list[str]
) -> None:
    """Wait for the request about the call, and deny it with an approver's token. Without a token,
    cancel the request. Append how the request ended to `held`."""
    session = f"gateway-check-{marker}"
    with suppress(GatewayError), HttpConnection(found.url or "", found.token or "") as gateway:
        while not is_over():
            listed = gateway.call("GET", "/v1/requests?limit=200")
            for one in listed.get("items", ()):
                request = one.get("request", {})
                if request.get("session") == session:
                    held.append(_end(gateway, found.url or "", request["id"], one["revision"]))
                    return
            threading.Event().wait(0.05)


def _end(gateway: HttpConnection, url: str, request_id: str, revision: int) -> str:
    with suppress(GatewayError):
        token = _approver_token(url)
        if token is not None:
            body = {"revision": revision, "action": "deny", "message": _DENIED}
            with HttpConnection(url, token) as api:
                api.call("POST", f"/v1/requests/{request_id}/decide", body)
            return "denied by this check"
    withdrawal = {"reason": "cancelled_by_agent", "message": _DENIED}
    gateway.call("POST", f"/v1/requests/{request_id}/cancel", withdrawal)
    return "cancelled"


def _approver_token(url: str) -> str | None:
    """Return the approver token from the environment, or else the token of the local gateway's
    owner."""
    if token := secret("GATEWAY_APPROVER_TOKEN"):
        return token
    folder = Path(state_folder())
    if (read_private(folder / FILE_NAME) or {}).get("url") != url:
        return None
    found = (read_private(folder / OWNER_FILE) or {}).get("token")
    return found if isinstance(found, str) else None


def _check_installed_say(words: str) -> None:
    sys.stdout.write(f"{words}\n")


_LONGEST_WAIT = 24 * 3600 - 60
_INTERRUPTED = 130


def main(words: Sequence[str]) -> int:
    """Run `gateway install …`; return the exit code."""
    try:
        return _run(_options(words))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except GatewayError as error:
        _say(f"gateway install: {error}")
        return error.exit_code
    except OSError as error:
        _say(f"gateway install: nothing was written: {error}")
        return InvalidRequest.exit_code


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gateway install",
        description="Make a coding agent ask for approval before its tools run. Shows the change "
        "to the agent's settings, and writes it after you agree.",
    )
    add = parser.add_argument
    add(
        "host",
        nargs="?",
        choices=sorted(PLANS),
        help="name of the coding agent (default: list those on this machine)",
    )
    profiles = "enforce (default): gate. relay: ask in addition to the coding agent's own terminal"
    add("--profile", choices=[ENFORCE, RELAY], default=ENFORCE, help=profiles)
    add("--scope", choices=["user", "project"], help="which settings to change (default: user)")
    add("--matcher", metavar="REGEX", help="names of the tools that require approval")
    add(
        "--wait",
        type=_seconds,
        default=840,
        metavar="SECONDS",
        help="how long to wait for a decision",
    )
    add(
        "--agent",
        metavar="NAME",
        help="name of the agent that asks (default: name of the coding agent)",
    )
    add("--defer", action="store_true", help="for Claude Code: end the run with the call (for CI)")
    http = (
        "for Claude Code: call the gateway over HTTP instead of starting a process. The token is "
        "in the "
    )
    add("--http", action="store_true", help=f"{http}variable GATEWAY_TOKEN where it runs")
    native = (
        "for Claude Code with relay: offer people to save a permission in Claude Code's own "
        "settings. Nobody can revoke it in the gateway"
    )
    add("--native-always", action="store_true", help=native)
    add("--yes", action="store_true", help="write without asking")
    add("--undo", action="store_true", help="remove the hook")
    add("--check", action="store_true", help="check that the hook blocks, or print why it does not")
    options = parser.parse_args(words)
    if options.host is None and words:
        parser.error("write the name of the coding agent before the options")
    return options


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _LONGEST_WAIT:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of seconds, less than a day, not {text!r}"
        )
    return int(text)


def _run(options: argparse.Namespace) -> int:
    if options.host is None:
        return _install_found(options)
    plan = PLANS[options.host]
    file = SettingsFile(_find_settings(plan, options.scope), comments=plan.comments)
    if options.check:
        return check_all(plan, file.values, options.agent)
    if options.undo:
        return _undo(plan, file, yes=options.yes)
    if not _install(plan, file, options):
        return 1
    if options.http:
        _say(f"Set GATEWAY_TOKEN where {plan.host} runs: the hook asks as the agent of that token")
    else:
        _say_credential(plan, options.agent)
    if plan.after:
        _say(plan.after)
    where = f" --scope {options.scope}" if options.scope else ""
    _say(f"Then check that the hook works: gateway install {plan.host}{where} --check")
    return 0


def _find_settings(plan: Plan, scope: str | None = None) -> Path:
    """Return the settings file of a scope, by default the first one of the coding agent."""
    return plan.path(scope or next(iter(plan.folders)), Path.home(), Path.cwd(), os.environ)


def _install(plan: Plan, file: SettingsFile, options: argparse.Namespace) -> bool:
    """Write the hook if the person agrees; return whether the hook is installed afterwards."""
    _refuse_misuse(options, plan)
    wish = InstallWish(
        program=find_program(portable=(options.scope or next(iter(plan.folders))) == "project"),
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
            _say(f"Add this to {file.path}:\n{json.dumps(plan.add({}, wish), indent=2)}")
        raise
    untouched = not any(plan.entries(file.values))
    if after == file.before:
        _say(f"{file.path} is already set up")
    elif not _ask_leave(file, after, yes=options.yes):
        return False
    else:
        file.write(after, untouched=untouched)
        _say(f"written: {file.path}")
    return True


# `gateway install` without a name: lists the coding agents of this machine.


def find_agents() -> Iterator[tuple[Plan, Path, bool]]:
    """Yield the coding agents with a program in PATH or a settings folder. Also yield its settings
    file, and whether the hook is installed there without a problem."""
    for host, plan in PLANS.items():
        path, asks = _find_settings(plan), False
        if shutil.which(_PROGRAMS[host]) or path.parent.is_dir():
            with suppress(InvalidRequest):
                values = SettingsFile(path, comments=plan.comments).values
                asks = not any(find_problems(plan, values))
            yield plan, path, asks


def _install_found(options: argparse.Namespace) -> int:
    """List the coding agents of this machine, ask which ones to gate, install and check each."""
    found = {str(number): one for number, one in enumerate(find_agents(), 1)}
    for number, (plan, path, asks) in found.items():
        state = "asks already" if asks else "does not ask"
        _check_installed_say(f"{number}  {plan.host:12} {state}  {path}")
    if not found:
        _say(
            f"No coding agent that the gateway supports was found on this machine: "
            f"{', '.join(PLANS)}."
        )
        _say(
            "If you have one of them, run: gateway install NAME. In a shell, run: gateway run "
            "-- COMMAND"
        )
        return 0
    if not sys.stdin.isatty():
        _say("To install into one of them: gateway install NAME --yes")
        return 0
    sys.stderr.write("Add the hook to which of these files? Numbers, or all: ")
    sys.stderr.flush()
    words = sys.stdin.readline().replace(",", " ").split()
    chosen = list(found) if words == ["all"] else list(dict.fromkeys(words))
    if not chosen or not found.keys() >= set(chosen):
        raise InvalidRequest("nothing was written: choose numbers from the list, or all")
    options.yes = True  # the list above shows the file
    lines = [_install_and_prove(found[one][0], options) for one in chosen]
    for _, line in lines:
        _check_installed_say(line)
    return 0 if all(gates for gates, _ in lines) else 1


def _install_and_prove(plan: Plan, options: argparse.Namespace) -> tuple[bool, str]:
    """Install one hook and check it. Return whether the hook works, and a line with the result."""
    path = _find_settings(plan)
    try:
        _install(plan, SettingsFile(path, comments=plan.comments), options)
        values = SettingsFile(path, comments=plan.comments).values
        proofs, wrong = try_gates(plan, values, options.agent)
    except (GatewayError, OSError) as error:
        proofs, wrong = [], [str(error)]
    works = f"the gate works: {'; '.join(proofs)}" if proofs else "its settings require approval"
    says = f"the gate does not work yet: {'; '.join(wrong)}" if wrong else works
    return not wrong, f"{plan.host}: {says}. {plan.after}".strip()


def _refuse_misuse(options: argparse.Namespace, plan: Plan) -> None:
    """Check the options. Raises InvalidRequest if the coding agent does not support them, or if
    they exclude each other."""
    if options.profile not in plan.profiles:
        raise InvalidRequest(f"{plan.host} has no profile {options.profile}")
    claude = plan.host == "claude-code"
    if options.defer and not claude:
        raise InvalidRequest("--defer works only for claude-code")
    if options.http and (not claude or options.defer):
        raise InvalidRequest("--http works only with claude-code, and not with --defer")
    if options.native_always and (not claude or options.profile != RELAY):
        raise InvalidRequest("--native-always works only with claude-code and --profile relay")


def _find_gateway(agent: str) -> str:
    """Return the URL of the gateway. Raises InvalidRequest if the URL is unknown."""
    url = os.environ.get("GATEWAY_URL") or config.load(agent, check=False).url
    if not url:
        raise InvalidRequest("the address of the gateway is unknown: set GATEWAY_URL")
    return url.rstrip("/")


def _undo(plan: Plan, file: SettingsFile, *, yes: bool) -> int:
    after = file.undo(plan.remove)
    if after == file.before:
        _say(f"{file.path}: the hook is not installed, so nothing was removed")
        return 0
    if not _ask_leave(file, after, yes=yes):
        return 1
    file.write(after)
    file.forget()
    _say(f"removed from {file.path}")
    return 0


def _ask_leave(file: SettingsFile, after: str | None, *, yes: bool) -> bool:
    """Show the change, ask the person, and return whether to write it."""
    sys.stdout.write(f"{file.diff(after)}\n")
    sys.stdout.flush()
    if yes:
        return True
    if not sys.stdin.isatty():
        _say("nothing was written: pass --yes, or run this at a terminal")
        return False
    sys.stderr.write("Write this? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def find_program(*, portable: bool) -> str:
    """Return the command for `gateway` in the settings. For `portable` settings, which other
    machines share, that is the name. Otherwise it is the path, because the coding agent's PATH may
    differ."""
    if portable:
        return "gateway"
    beside = Path(sys.executable).with_name("gateway")
    found = str(beside) if beside.exists() else shutil.which("gateway")
    if found:
        return shlex.quote(found)
    return f"{shlex.quote(sys.executable)} -m gateway.integrations"


def _say_credential(plan: Plan, agent: str | None) -> None:
    """Print the agent name and gateway of the hook. First enrol the agent if the gateway is
    local."""
    name = agent or os.environ.get("GATEWAY_AGENT") or plan.host
    try:
        found = config.load(name)
    except GatewayError as error:
        _say(f"The hook cannot reach the gateway yet, and blocks every call until it can: {error}")
        return
    if not (found.url and found.token):
        _say(
            "The hook cannot reach the gateway yet, and blocks every call until it can: set "
            "GATEWAY_URL, "
            f"GATEWAY_TOKEN and GATEWAY_AGENT where {plan.host} runs; "
            f"`gateway agent add {plan.host}` prints the token"
        )
        return
    _say(f"The hook asks as {found.agent} at {found.url}")


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
