"""`gateway NAME setup`, `status` and `remove` of a chat, and `gateway claims …`."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import signal
import sys
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from gateway.approvals.claims import ClaimService
from gateway.cli.kept_settings import keep, read_kept, take_kept
from gateway.cli.redis_access import connect_backend
from gateway.cli.requests import say
from gateway.client import AsyncClient
from gateway.domain.policy_document import ORIGIN, PolicyDocument, Route
from gateway.domain.time_and_tasks import SystemClock, check_wanted
from gateway.errors import Conflict, Denied, GatewayError, InvalidRequest, Unreachable
from gateway.policy.policy_file_reader import differences
from gateway.ports import ChatSetup
from gateway.ports.claims import ChatClaim, Invitation
from gateway.server.connections import Backend
from gateway.server.plugins import adapter_class
from gateway.server.settings import Settings
from gateway.stores.claims import RedisClaims
from gateway.wire.codec import plain
from gateway.wire.local_discovery import FILE_NAME, find_process, read_private, secret

_LOOK_SECONDS = 0.5
_START_SECONDS = 60.0
_TRY_SECONDS = 600.0
_TRY_AGENT, _TRY_TOOL, _TRY_COMMAND = "setup", "shell", "echo hello"
_BY = "operator"


class Terminal:
    """A `gateway.ports.SetupTerminal`: standard input and output."""

    def __init__(self, chat: str, *, asks: bool = True) -> None:
        self.asks = asks and sys.stdin.isatty() and sys.stdout.isatty()
        self._chat = chat
        self._told: set[str] = set()

    def keep(self, variable: str, value: str) -> None:
        """Save a checked setting, so that an interrupted setup need not ask for it again."""
        known = read_kept(unfinished=True).get(self._chat, {})
        keep(self._chat, {**known, variable: value}, unfinished=True)

    def say(self, line: str) -> None:
        """Print a line."""
        print(line, flush=True)

    def open(self, url: str) -> None:
        """Print a link, and open it in the browser if this machine has one."""
        self.say(f"  {url}")
        if self.asks and (os.environ.get("DISPLAY") or sys.platform == "darwin"):
            with suppress(webbrowser.Error):
                webbrowser.open(url)

    async def ask_secret(self, question: str, variable: str) -> str:
        """Return a secret that the person types without echo, or the value that the setting already
        has."""
        if not self.asks:
            if (found := secret(variable)) and variable not in self._told:
                self._told.add(variable)
                return found
            raise InvalidRequest(
                f"there is no terminal to ask at: set {variable} or {variable}_FILE to a token "
                f"that works"
            )
        with _interruptible():
            return getpass.getpass(f"{question} (typing shows nothing): ").strip()


def ask_line(question: str) -> str:
    """Print a question, and return the line that the person types."""
    with _interruptible():
        return input(f"{question} ").strip()


def confirm(question: str) -> bool:
    """Ask a yes-or-no question, and return whether the person types yes."""
    return ask_line(f"{question} [y/N]").lower() in ("y", "yes")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Make Ctrl-C interrupt a question immediately; the event loop would only record the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except EOFError:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)


async def setup(options: argparse.Namespace) -> int:
    """Connect a chat: set up its app, tokens, channel and first approver, and post a first card."""
    terminal = Terminal(options.adapter, asks=not options.non_interactive)
    try:
        return await _set_up(options, terminal)
    except (KeyboardInterrupt, asyncio.CancelledError):
        terminal.say(
            f"\nThe setup is not finished: run gateway {options.adapter} setup to continue it."
        )
        if find_process(Settings().data_dir) is not None:
            terminal.say("The gateway goes on running; gateway down ends it.")
        raise


async def _set_up(options: argparse.Namespace, terminal: Terminal) -> int:
    name = options.adapter
    chat = _setup_of(name)
    kept = read_kept().get(name, {})
    kept |= read_kept(unfinished=True).get(name, {})
    known = {one: os.environ.get(one) or kept.get(one, "") for one in chat.variables}
    found = await chat.connect(terminal, {one: said for one, said in known.items() if said})
    if found != read_kept().get(name):
        keep(name, found)
        terminal.say("✓ Kept in the data folder, readable by you alone. A program that runs as you")
        terminal.say("  can read it too, and so can an agent of yours.")
    keep(name, {}, unfinished=True)  # last, so that a crash loses no token
    take_kept()
    await _run_gateway(name, terminal)
    async with connect_backend() as backend:
        service = _claims(backend, name)
        claimed = await _wait_for_claim(service, chat, terminal, route=options.route)
        if claimed is None:
            return 0
        if not await _ask_operator(service, backend, claimed, terminal):
            return 1
        route = (await backend.store.policy()).route_for(_TRY_AGENT, _TRY_TOOL).name
    if route != claimed[0].route:
        terminal.say(
            f"Requests of {claimed[0].route} come there from now on; no test card was posted."
        )
        return 0
    return await _try_it(terminal)


def _setup_of(name: str) -> ChatSetup:
    chat = adapter_class(name)().setup
    if chat is None:
        raise InvalidRequest(f"the adapter {name} needs no setup: add it to GATEWAY_ADAPTERS")
    return chat


def _claims(backend: Backend, name: str) -> ClaimService:
    clock = SystemClock()
    return ClaimService(backend.store, RedisClaims(backend.store, clock), clock, name)


async def _run_gateway(name: str, terminal: Terminal) -> None:
    """Start a gateway that uses this chat, if none runs. A running one loads new settings
    automatically."""
    settings = Settings()
    if name not in settings.adapters:
        raise InvalidRequest(f"GATEWAY_ADAPTERS is set and leaves {name} out: unset it, or add it")
    if settings.redis_url is not None:
        terminal.say("All gateways that use this REDIS_URL need these settings too, and a restart.")
        return
    place = settings.data_dir / FILE_NAME
    if find_process(settings.data_dir) is None:
        from gateway.cli.serve import start_detached  # noqa: PLC0415 (it loads the whole server)

        terminal.say("Starting the gateway …")
        await start_detached(settings)
    ends = time.monotonic() + _START_SECONDS
    while name not in (read_private(place) or {}).get("adapters", ()):
        if time.monotonic() > ends:
            raise Unreachable(
                f"the gateway does not run {name}: read its output, or stop it (gateway down) "
                f"and run this command again"
            )
        check_wanted()
        await asyncio.sleep(_LOOK_SECONDS)
    terminal.say(f"✓ The gateway runs, and {name} is connected.")


async def _wait_for_claim(
    service: ClaimService, chat: ChatSetup, terminal: Terminal, **invited: str
) -> tuple[Invitation, ChatClaim] | None:
    """Print the command with a code to type in the chat, wait, and return the claim. Return None if
    this command must not wait."""
    while True:
        invitation, code = await service.invite(**invited)
        if invitation.person:
            terminal.say(f"In the chat, type:  {chat.command} me {chat.option}{code}")
        else:
            channel = "the channel for approvals"
            if chat.invite:
                terminal.say(f"In {channel}, type:  {chat.invite}")
                channel = "that channel"
            terminal.say(f"In {channel}, type:  {chat.command} here {chat.option}{code}")
        if not terminal.asks:
            terminal.say("The code works once, for 10 minutes. Then: gateway claims list")
            return None
        try:
            with _ended_by_signals():
                terminal.say("Waiting … (the code works once, for 10 minutes)")
                if claimed := await _look_for(service, invitation):
                    return claimed
        except BaseException:
            await service.withdraw(invitation)  # it is good only while somebody waits here
            raise
        terminal.say("That code has expired; here is a new one.")


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Cancel the running task when the process is stopped or its terminal closed, so that it cleans
    up."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


async def _look_for(
    service: ClaimService, invitation: Invitation
) -> tuple[Invitation, ChatClaim] | None:
    """Wait for the claim that somebody makes with an invitation. Return None if the invitation
    ends."""
    while await service.is_open(invitation):
        for claimed in await service.list_waiting():
            if claimed[0].id == invitation.id:
                return claimed
        check_wanted()
        await asyncio.sleep(_LOOK_SECONDS)
    return None


async def _ask_operator(
    service: ClaimService,
    backend: Backend,
    claimed: tuple[Invitation, ChatClaim],
    terminal: Terminal,
) -> bool:
    """Show a claim and its changes, ask for confirmation, and apply exactly those; return whether
    it did."""
    while True:
        lines, shown = await _describe(service, backend, claimed)
        for line in lines:
            terminal.say(line)
        if shown is None or not confirm("Is the number the same, and do you want this change?"):
            await service.deny(*claimed, by=_BY)
            terminal.say("Nothing was changed.")
            return False
        try:
            await service.approve(*claimed, shown, by=_BY)
        except Conflict:
            terminal.say("The policy was changed meanwhile. Look again:")
            continue
        terminal.say("✓ The policy has it now. `gateway policy export` prints it as a file.")
        return True


async def _describe(
    service: ClaimService, backend: Backend, claimed: tuple[Invitation, ChatClaim]
) -> tuple[list[str], PolicyDocument | None]:
    """Return lines that describe a claim and its changes, and the resulting policy. If the policy
    comes from a file, return the lines to add to it, and None."""
    invitation, claim = claimed
    where = f" in {claim.place}" if claim.place else f" wants to be {invitation.person}"
    lines = [f"{claim.words}{where}", f"The number in their private reply: {claim.number}"]
    if await service.is_file_in_force():
        lines.append("The policy comes from a file. Add to it, and nothing is changed here:")
        lines.append(f'  identities = [..., "{claim.identity}"]   # in [[people]]')
        if claim.target:
            route = invitation.route
            lines.append(f'  targets = [..., "{claim.target}"]   # in [[routes]] {route}')
        return lines, None
    now, then = await backend.store.policy(), await service.preview(invitation, claim)
    return [*lines, *(f"  {one}" for one in differences(now, then))], then


async def _try_it(terminal: Terminal) -> int:
    """Submit a harmless request, so that the chat gets its first card; return the exit code."""
    terminal.say(f"A first card comes to the channel: {_TRY_COMMAND}. Press Approve there.")
    try:
        client = await asyncio.to_thread(AsyncClient.from_env, _TRY_AGENT, say=None)
        async with asyncio.timeout(_TRY_SECONDS), client:
            approval = await client.ask(
                _TRY_TOOL, {"command": _TRY_COMMAND}, hint="This is a test. Nothing runs."
            )
    except Denied as error:
        terminal.say(f"✓ Denied: {error}. That works too.")
        return 0
    except (GatewayError, TimeoutError) as error:
        terminal.say(f"Nobody answered: {error}. Try: gateway ask shell -- {_TRY_COMMAND}")
        return 1
    by = approval.decision.decided_by
    terminal.say(f"✓ Approved by {by.name}. Connect an agent: gateway install")
    return 0


# `gateway NAME status` and `remove`.


async def show_status(options: argparse.Namespace) -> int:
    """Print whether a chat is set up and running, and where it posts cards."""
    name, settings = options.adapter, Settings()
    kept = name in read_kept()
    running = (read_private(settings.data_dir / FILE_NAME) or {}).get("adapters", ())
    if not kept and name not in settings.adapters:
        begun = ", ".join(read_kept(unfinished=True).get(name, {}))
        state = f"set up in part ({begun} is kept)" if begun else "not set up"
        say({"kept": False}, f"{name} is {state}: run gateway {name} setup", options)
        return 0
    async with connect_backend() as backend:
        policy = await backend.store.policy()
    targets = [one for one in policy.places() if one.partition(":")[0] == name]
    people = [
        person.name
        for person in policy.people
        if any(one.startswith(f"{name}:") for one in person.identities)
    ]
    runs = "runs" if name in running else "does not run"
    lines = (
        f"{name}: {'set up here' if kept else 'in GATEWAY_ADAPTERS'}, {runs}",
        f"posts to: {', '.join(targets) or f'no channel yet: run gateway {name} setup'}",
        f"people with an account: {', '.join(people) or 'none'}",
    )
    facts = {"kept": kept, "running": name in running, "targets": targets, "people": people}
    say(facts, "\n".join(lines), options)
    return 0


async def remove(options: argparse.Namespace) -> int:
    """Remove a chat's channels from the routes, and delete its tokens. People keep their chat
    accounts."""
    name = options.adapter
    try:
        await _remove_channels(name)
    finally:  # last: a gateway of this data folder starts anew with it
        keep(name, {})
        keep(name, {}, unfinished=True)
    print(f"{name} is removed from this gateway; revoke its tokens where they were made")
    return 0


async def _remove_channels(name: str) -> None:
    async with connect_backend(acting=True) as backend:
        if await _claims(backend, name).is_file_in_force():
            print("the policy comes from a file: take its channels out there")
            return
        policy = await backend.store.policy()
        after = replace(policy, routes=tuple(_without_chat(one, name) for one in policy.routes))
        for line in differences(policy, after):
            print(line)
        if after != policy:
            await backend.store.apply(after, by=_BY)


def _without_chat(route: Route, name: str) -> Route:
    """Return a route without a chat's channels. If no other target is left, the route gets the
    inbox."""

    def leave(targets: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(one for one in targets if one.partition(":")[0] != name)

    targets = leave(route.targets)
    steps = (replace(one, targets=leave(one.targets)) for one in route.escalations)
    return replace(
        route,
        targets=targets if set(targets) - {ORIGIN} else (*targets, "web"),
        origins=leave(route.origins),
        escalations=tuple(one for one in steps if one.targets),
    )


# `gateway claims`, and `gateway approver link`.


async def list_claims(options: argparse.Namespace) -> int:
    """Print the claims that the operator has not approved or denied yet."""
    async with connect_backend() as backend:
        service = _claims(backend, "")
        waiting = await service.list_waiting()
        if options.json:
            print(json.dumps([{**plain(one), **plain(claim)} for one, claim in waiting]))
            return 0
        for claimed in waiting:
            print(f"{claimed[0].id[:8]}  {claimed[0].platform}")
            for line in (await _describe(service, backend, claimed))[0]:
                print(f"  {line}")
    if not waiting:
        print("no claims are pending")
    return 0


async def approve_claim(options: argparse.Namespace) -> int:
    """Approve a claim: apply its changes to the policy."""
    async with connect_backend(acting=True) as backend:
        service = _claims(backend, "")
        claimed = await service.find(options.id)
        lines, shown = await _describe(service, backend, claimed)
        print("\n".join(lines))
        if shown is None:
            raise InvalidRequest("nothing was changed: the policy comes from a file")
        await service.approve(*claimed, shown, by=_BY)
    print("the policy has it now")
    return 0


async def deny_claim(options: argparse.Namespace) -> int:
    """Deny a claim, so that it changes nothing."""
    async with connect_backend(acting=True) as backend:
        service = _claims(backend, "")
        await service.deny(*await service.find(options.id), by=_BY)
    print("nothing was changed")
    return 0


async def link_approver(options: argparse.Namespace) -> int:
    """Print a code with which a person links their chat account."""
    async with connect_backend(acting=True) as backend:
        service = _claims(backend, options.chat)
        chat = _setup_of(options.chat)
        terminal = Terminal(options.chat)
        claimed = await _wait_for_claim(service, chat, terminal, person=options.name)
        if claimed is None:
            return 0
        return 0 if await _ask_operator(service, backend, claimed, terminal) else 1
