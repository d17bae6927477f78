"""`gateway install`: write our hook into an agents' host, take it out, and prove that it gates."""

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

# Whether an installed hook gates: what its settings say, and a harmless call that is held and
# denied through the very command that stands there.

_DENIED = "denied by `gateway install --check`"
_SECONDS = 30.0
_PROGRAMS = {host: host for host in PLANS} | {"claude-code": "claude", "cursor": "cursor-agent"}
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_TIMEOUT = re.compile(r"(?:--timeout |[?&]timeout=)(\d+)")


def check_all(plan: Plan, values: Values, agent: str | None) -> int:
    """Print what is found; the exit code is 1 where the hook does not gate."""
    proofs, wrong = try_gates(plan, values, agent)
    for one in proofs:
        _check_installed_say(f"ok   {one}")
    for one in wrong:
        _check_installed_say(f"FAIL {one}")
    if plan.after:
        _check_installed_say(f"note {plan.after}")
    return 1 if wrong else 0


def try_gates(plan: Plan, values: Values, agent: str | None) -> tuple[list[str], list[str]]:
    """Return what was proved of the hooks in these settings, and what is wrong with them. Nothing
    is tried where something is wrong already."""
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
    """Yield why the hooks in these settings would not gate."""
    entries = list(plan.entries(values))
    if not entries and plan.host != "opencode":
        yield f"there is no hook of ours: gateway install {plan.host}"
    gates = [one for one in entries if _is_gate(one)]
    for one in gates:
        yield from _find_problems_of(plan, one)
    for event in {one.event for one in gates}:
        if sum(one.event == event for one in gates) > 1:
            yield f"{event}: the hook stands there twice, so each call is asked about twice"
    yield from plan.doubts(values)


def _find_problems_of(plan: Plan, entry: Entry) -> Iterator[str]:
    ours = _TIMEOUT.search(entry.command)
    if entry.timeout is None:
        yield f"{entry.event}: no timeout is set: the host's own may be shorter than ours"
    elif ours is None or float(ours[1]) >= entry.timeout:
        yield (
            f"{entry.event}: the host's timeout of {entry.timeout:.0f} s is not longer than the "
            "hook's: after it the host runs the tool"
        )
    if entry.event != "PermissionRequest" and not entry.blocks:
        yield (
            f"{entry.event}: a failure of the hook would not block, or a denial would look like "
            f"one: run `gateway install {plan.host}` again"
        )
    if _is_address(entry):
        return
    program = shlex.split(entry.command)[0]
    if shutil.which(program) is None:
        yield f"{entry.event}: {program} is not found, so the hook cannot start"


def _is_address(entry: Entry) -> bool:
    """Whether the host calls the gateway itself, and starts no process."""
    return entry.command.startswith(("http://", "https://"))


def _is_gate(entry: Entry) -> bool:
    """Whether an entry asks; the others close cards."""
    return bool(_TIMEOUT.search(entry.command))


def _check_version(plan: Plan) -> list[str]:
    """Return what is wrong with the host's own version, where it is installed."""
    program = shutil.which(_PROGRAMS[plan.host])
    if not program or not plan.tested:
        return []
    try:
        ran = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"{program} does not say its version: {error}"]
    found = _VERSION.search(ran.stdout)
    if found is None or _numbers(found[0]) < _numbers(plan.tested):
        says = found[0] if found else "no version"
        return [f"{program} is {says}, older than {plan.tested}, with which this was tested"]
    return []


def _check_trust(gates: list[Entry]) -> list[str]:
    """Return which hooks Codex skips; only Codex itself knows."""
    program = shutil.which(_PROGRAMS["codex"])
    if program is None:
        _check_installed_say(
            "note codex is not on this path, so whether it trusts the hook is not known"
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
    """Run the hook with a harmless call, deny it, and return whether it was held and blocked."""
    if _is_address(entry):
        return _prove_address(plan, entry)
    try:
        found = config.load(agent or os.environ.get("GATEWAY_AGENT") or plan.host)
    except GatewayError as error:
        return False, f"the gateway cannot be asked: {error}"
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
            f"the call was not held: exit code {process.returncode}, {(err or out).strip()}",
        )
    if _is_refusal(plan, entry, process.returncode, out):
        return True, f"a harmless call was held, {held[0]}, and blocked"
    return False, f"the call was denied, and the hook did not block: {process.returncode} {out}"


def _prove_address(plan: Plan, entry: Entry) -> tuple[bool, str]:
    """As `prove`, by the call that the host makes: with the token that the environment has."""
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
        return False, f"the gateway cannot be asked: {error}"
    finally:
        over.set()
        denying.join()
    blocked = '"allow"' not in told and (entry.event != PRE or '"deny"' in told)
    if held and blocked:
        return True, f"a harmless call was held, {held[0]}, and blocked"
    how = "denied, and the hook did not block" if held else "not held"
    return False, f"the call was {how}: {told}"


def _call(plan: Plan, entry: Entry, marker: str) -> dict[str, Any]:
    """Return a call that would do nothing, as the host writes one."""
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
        return code == 2  # noqa: PLR2004 (what these hosts take as a no)
    return '"allow"' not in out


def _deny(
    found: config.AgentConfig, marker: str, is_over: Callable[[], bool], held: list[str]
) -> None:
    """Wait until the call is asked about, and deny it: as this machine's owner where that is
    possible, otherwise by withdrawing it."""
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
    return "withdrawn"


def _approver_token(url: str) -> str | None:
    """Return the caller's own token as an approver, or that of this machine's gateway's owner."""
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
        description="Have an agents' host ask before its tools run. Shows what it would write "
        "into the host's settings, and writes it when you say so.",
    )
    add = parser.add_argument
    add("host", nargs="?", choices=sorted(PLANS), help="without one: lists those here, and asks")
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
    options = parser.parse_args(words)
    if options.host is None and words:
        parser.error("name the host, before its options")
    return options


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _LONGEST_WAIT:
        raise argparse.ArgumentTypeError("takes whole seconds, less than a day")
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
        _say(f"Set GATEWAY_TOKEN where {plan.host} runs: it sends that, and asks as its agent")
    else:
        _say_credential(plan, options.agent)
    if plan.after:
        _say(plan.after)
    where = f" --scope {options.scope}" if options.scope else ""
    _say(f"Then see that it gates: gateway install {plan.host}{where} --check")
    return 0


def _find_settings(plan: Plan, scope: str | None = None) -> Path:
    """Return the settings file of a scope, by default of the host's first."""
    return plan.path(scope or next(iter(plan.folders)), Path.home(), Path.cwd(), os.environ)


def _install(plan: Plan, file: SettingsFile, options: argparse.Namespace) -> bool:
    """Write the hook where somebody says so; return whether it is there then."""
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
            _say(f"To add to {file.path}:\n{json.dumps(plan.add({}, wish), indent=2)}")
        raise
    untouched = not any(plan.entries(file.values))
    if after == file.before:
        _say(f"{file.path} has it already")
    elif not _ask_leave(file, after, yes=options.yes):
        return False
    else:
        file.write(after, untouched=untouched)
        _say(f"written: {file.path}")
    return True


# `gateway install` without a host: those of this machine.


def find_agents() -> Iterator[tuple[Plan, Path, bool]]:
    """Yield the hosts whose program is on this path, or that have a folder for their settings: each
    with the file of these, and whether it asks."""
    for host, plan in PLANS.items():
        path, asks = _find_settings(plan), False
        if shutil.which(_PROGRAMS[host]) or path.parent.is_dir():
            with suppress(InvalidRequest):
                values = SettingsFile(path, comments=plan.comments).values
                asks = not any(find_problems(plan, values))
            yield plan, path, asks


def _install_found(options: argparse.Namespace) -> int:
    """List the hosts of this machine, ask which, install into those, and prove each gate."""
    found = {str(number): one for number, one in enumerate(find_agents(), 1)}
    for number, (plan, path, asks) in found.items():
        state = "asks already" if asks else "does not ask"
        _check_installed_say(f"{number}  {plan.host:12} {state}  {path}")
    if not found:
        _say(f"No agent that can ask was found on this machine: {', '.join(PLANS)}.")
        _say("If you have one of them: gateway install NAME. From a shell: gateway run -- COMMAND")
        return 0
    if not sys.stdin.isatty():
        _say("To install into one of them: gateway install NAME --yes")
        return 0
    sys.stderr.write("Write our hook into which of these files? Numbers, or all: ")
    sys.stderr.flush()
    words = sys.stdin.readline().replace(",", " ").split()
    chosen = list(found) if words == ["all"] else list(dict.fromkeys(words))
    if not chosen or not found.keys() >= set(chosen):
        raise InvalidRequest("these are no numbers of the list: nothing was written")
    options.yes = True  # the file was named above
    lines = [_install_and_prove(found[one][0], options) for one in chosen]
    for _, line in lines:
        _check_installed_say(line)
    return 0 if all(gates for gates, _ in lines) else 1


def _install_and_prove(plan: Plan, options: argparse.Namespace) -> tuple[bool, str]:
    """Return whether a host's gate works now, and the line that says so, or what is wrong."""
    path = _find_settings(plan)
    try:
        _install(plan, SettingsFile(path, comments=plan.comments), options)
        values = SettingsFile(path, comments=plan.comments).values
        proofs, wrong = try_gates(plan, values, options.agent)
    except (GatewayError, OSError) as error:
        proofs, wrong = [], [str(error)]
    works = f"the gate works: {'; '.join(proofs)}" if proofs else "its settings ask"
    says = f"it does not gate yet: {'; '.join(wrong)}" if wrong else works
    return not wrong, f"{plan.host}: {says}. {plan.after}".strip()


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
