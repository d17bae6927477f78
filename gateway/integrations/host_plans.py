"""What `gateway install` writes into each host's settings, and how it knows its own entries again.

A plan is pure: it changes the values of one file, and nothing else.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from gateway.errors import InvalidRequest
from gateway.integrations.claude_code import AFTER_CALL, AFTER_TURN, PRE, REQUEST
from gateway.integrations.host_settings import Values

MARGIN = 60
"""Seconds by which the host's limit is longer than ours."""

HOOK_PATH, TOKEN_NAME = "/v1/hooks/claude-code", "GATEWAY_TOKEN"
ENFORCE, RELAY = "enforce", "relay"
_OURS = r"(?:^|[\s/'\"])(?:gateway|gateway\.cli|gateway\.integrations)['\"]? hook {host}(?:\s|$)"
OR_BLOCK = "|| { [ $? = 2 ] || echo the approval hook failed >&2; exit 2; }"
"""What follows a hook in its line. A no of the hook (2) has words of its own, which the model
reads; any other end has none, and without words Gemini CLI runs the tool."""
_ANY_CHANGE = "Bash|PowerShell|Edit|MultiEdit|Write|NotebookEdit|WebFetch|mcp__.*"
_COPILOT_DENIES = '{"permissionDecision":"deny","permissionDecisionReason":"gateway hook failed"}'
_OPENCODE_ASKS = ("bash", "edit", "webfetch", "external_directory")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallWish:
    """What is to be installed: how `gateway` is started, how long people have, and which tools
    are asked about (`matcher`; the host's changing ones by default)."""

    program: str
    profile: str = ENFORCE
    wait: int = 840
    matcher: str | None = None
    agent: str | None = None
    defer: bool = False
    native_always: bool = False
    url: str | None = None
    """The gateway that the host calls itself, where it is to start no process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One hook of ours as it stands in a host's settings: `timeout` is the host's, in seconds.
    `command` is an address where the host calls the gateway itself."""

    event: str
    command: str
    timeout: float | None
    blocks: bool
    matcher: str


class Plan:
    """One host: where its settings are, and what stands in them."""

    host = ""
    profiles: tuple[str, ...] = (ENFORCE,)
    folders: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    moved_by: str | None = None  # the variable that names the user's folder
    tested = ""
    comments = False  # whether the host allows them in its settings
    matcher = "*"
    after = ""  # what a person has to do then

    def path(self, scope: str, home: Path, project: Path, known: Mapping[str, str]) -> Path:
        """Return the file of a scope. Raises InvalidRequest where the host has none."""
        parts = self.folders.get(scope)
        if scope == "user" and parts and self.moved_by and known.get(self.moved_by):
            return Path(known[self.moved_by], parts[-1])
        if parts is None:
            scopes = ", ".join(self.folders)
            raise InvalidRequest(f"{self.host} has no settings of scope {scope}: use {scopes}")
        return (home if scope == "user" else project).joinpath(*parts)

    def add(self, values: Values, wish: InstallWish) -> Values:
        """Return the settings with our hooks, once."""
        raise NotImplementedError

    def remove(self, values: Values) -> Values:
        """Return the settings without our hooks, and without what that leaves empty."""
        raise NotImplementedError

    def entries(self, values: Values) -> Iterator[Entry]:
        """Yield our hooks."""
        raise NotImplementedError

    def doubts(self, values: Values) -> Iterator[str]:
        """Yield what in these settings keeps a hook from being asked."""
        yield from ()

    def is_ours(self, command: Any) -> bool:
        """Whether a command is a hook that we wrote."""
        return isinstance(command, str) and bool(
            re.search(_OURS.format(host=re.escape(self.host)), command)
        )

    def command(self, wish: InstallWish, *more: str) -> str:
        """Return the command of a hook."""
        agent = ("--agent", wish.agent) if wish.agent else ()
        return f"{wish.program} hook {shlex.join((self.host, *agent, *more))}"

    def gate(self, wish: InstallWish) -> str:
        """Return the command of a hook that blocks whatever goes wrong, also before it starts."""
        defer = ("--defer",) if wish.defer else ()
        return f"{self.command(wish, '--timeout', str(wish.wait), *defer)} {OR_BLOCK}"


class Grouped(Plan):
    """Hosts with `hooks.EVENT[].{matcher, hooks[]}`."""

    gate_event = PRE
    per_second = 1
    extra: ClassVar[Mapping[str, Any]] = {}

    def make_hooks(self, wish: InstallWish) -> Iterator[tuple[str, str, Values]]:
        """Yield event, matcher and hook of each entry."""
        limit = (wish.wait + MARGIN) * self.per_second
        if wish.profile == ENFORCE:
            gate = {**self.start(wish, self.gate(wish), wish.wait), "timeout": limit, **self.extra}
            yield self.gate_event, wish.matcher or self.matcher, gate
            return
        native = ("--native-always",) if wish.native_always else ()
        asking = self.command(wish, "--timeout", str(wish.wait), *native)
        asked = self.start(wish, asking, wish.wait)
        yield REQUEST, wish.matcher or "*", {**asked, "timeout": limit}
        closing = {**self.start(wish, self.command(wish), None), "timeout": 10}
        for event in self.closing:
            yield event, wish.matcher or "*" if event in AFTER_CALL else "", closing

    def start(self, wish: InstallWish, command: str, wait: int | None) -> Values:
        """Return what the host is to start, or to call; `wait` is how long people have."""
        return {"type": "command", "command": command}

    closing: tuple[str, ...] = ()

    def add(self, values: Values, wish: InstallWish) -> Values:
        """Return the settings with our hooks, once."""
        values = self.remove(values)
        hooks = _object(values, "hooks")
        for event, matcher, hook in self.make_hooks(wish):
            groups = hooks.setdefault(event, [])
            if not isinstance(groups, list):
                raise InvalidRequest(f"hooks.{event} is no list: nothing was written")
            groups.append({**({"matcher": matcher} if matcher else {}), "hooks": [hook]})
        return values

    def remove(self, values: Values) -> Values:
        """Return the settings without our hooks, and without what that leaves empty."""
        hooks = values.get("hooks")
        if not isinstance(hooks, dict):
            return values
        for event, groups in list(hooks.items()):
            left = [self._without(one) for one in groups] if isinstance(groups, list) else groups
            if left != groups:
                hooks[event] = [one for one in left if one is not None]
                if not hooks[event]:
                    del hooks[event]
        if not hooks:
            del values["hooks"]
        return values

    def _without(self, group: Any) -> Any:
        """Return a group without our hooks, None where they were all."""
        if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
            return group
        left = [one for one in group["hooks"] if not self._is_our_hook(one)]
        if left == group["hooks"]:
            return group
        return {**group, "hooks": left} if left else None

    def _is_our_hook(self, hook: Any) -> bool:
        return isinstance(hook, dict) and (
            self.is_ours(hook.get("command")) or self.is_our_address(hook.get("url"))
        )

    def is_our_address(self, url: Any) -> bool:
        """Whether an address is a hook that we wrote."""
        return False

    def entries(self, values: Values) -> Iterator[Entry]:
        """Yield our hooks."""
        hooks = values.get("hooks")
        for event, groups in hooks.items() if isinstance(hooks, dict) else ():
            for group in groups if isinstance(groups, list) else ():
                inside = group.get("hooks") if isinstance(group, dict) else None
                for hook in inside if isinstance(inside, list) else ():
                    if self._is_our_hook(hook):
                        limit = hook.get("timeout")
                        yield Entry(
                            event=event,
                            command=hook.get("url") or hook["command"],
                            timeout=limit / self.per_second if _is_number(limit) else None,
                            blocks=self.blocks(hook),
                            matcher=str(group.get("matcher", "")),
                        )

    def blocks(self, hook: Values) -> bool:
        """Whether a failure of the hook itself blocks the tool."""
        return bool(hook["command"].endswith(OR_BLOCK))


class ClaudeCodePlan(Grouped):
    """Claude Code."""

    host = "claude-code"
    profiles = (ENFORCE, RELAY)
    folders: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "user": (".claude", "settings.json"),
        "project": (".claude", "settings.json"),
    }
    moved_by = "CLAUDE_CONFIG_DIR"
    tested = "2.1.329"
    matcher = _ANY_CHANGE
    extra: ClassVar[Mapping[str, Any]] = {"onFailure": "block"}
    closing = (*AFTER_CALL, *AFTER_TURN)

    def doubts(self, values: Values) -> Iterator[str]:
        """Yield what keeps a hook from being asked."""
        if values.get("disableAllHooks") is True:
            yield "`disableAllHooks` is on: no hook is asked"
        permissions = values.get("permissions")
        mode = permissions.get("defaultMode") if isinstance(permissions, dict) else None
        relayed = any(one.event == REQUEST for one in self.entries(values))
        if relayed and mode in ("bypassPermissions", "dontAsk"):
            yield f"permissions.defaultMode is {mode}: Claude Code asks nobody, so relay neither"

    def blocks(self, hook: Values) -> bool:
        """Whether a failure of the hook itself blocks the tool."""
        safe = hook.get("type") == "http" or super().blocks(hook)
        return safe and hook.get("onFailure") == "block"

    def start(self, wish: InstallWish, command: str, wait: int | None) -> Values:
        """Return what Claude Code is to start, or to call with the token of its environment."""
        if wish.url is None:
            return super().start(wish, command, wait)
        native = "&native_always=true" if wish.native_always else ""
        return {
            "type": "http",
            "url": f"{wish.url}{HOOK_PATH}{'' if wait is None else f'?timeout={wait}{native}'}",
            "headers": {"Authorization": f"Bearer ${TOKEN_NAME}"},
            "allowedEnvVars": [TOKEN_NAME],
        }

    def is_our_address(self, url: Any) -> bool:
        """Whether an address is a hook that we wrote."""
        return isinstance(url, str) and url.partition("?")[0].endswith(HOOK_PATH)


class CodexPlan(Grouped):
    """Codex."""

    host = "codex"
    profiles = (ENFORCE, RELAY)
    folders: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "user": (".codex", "hooks.json"),
        "project": (".codex", "hooks.json"),
    }
    moved_by = "CODEX_HOME"
    tested = "0.169.0"
    closing = ("PostToolUse", "UserPromptSubmit", "Stop")
    members = ("description", "hooks")
    after = "Codex skips a hook that you have not trusted: start codex, type /hooks, and trust it."

    def add(self, values: Values, wish: InstallWish) -> Values:
        """Return the settings with our hooks. Raises InvalidRequest for what Codex would not read:
        it runs every tool then."""
        for doubt in self.doubts(values):
            raise InvalidRequest(f"{doubt}: nothing was written")
        return super().add(values, wish)

    def doubts(self, values: Values) -> Iterator[str]:
        """Yield what Codex does not read, and with it no hook of the file."""
        for name in sorted(set(values) - set(self.members)):
            known = " and ".join(self.members)
            yield f"Codex rejects a hooks.json with the member {name!r} (it knows {known})"
        hooks = values.get("hooks")
        for event, groups in hooks.items() if isinstance(hooks, dict) else ():
            for group in groups if isinstance(groups, list) else ():
                inside = group.get("hooks", []) if isinstance(group, dict) else [None]
                if not isinstance(inside, list) or not all(map(_has_type, inside)):
                    yield f"Codex rejects a hooks.json with a hook of {event} that has no type"


class GeminiPlan(Grouped):
    """Gemini CLI."""

    host = "gemini"
    folders: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "user": (".gemini", "settings.json"),
        "project": (".gemini", "settings.json"),
    }
    tested = "0.61.0"
    comments = True
    gate_event = "BeforeTool"
    per_second = 1000
    matcher = "run_shell_command|write_file|replace|web_fetch|mcp_.*"


class CursorPlan(Plan):
    """Cursor: `hooks.EVENT[]` of flat entries."""

    host = "cursor"
    folders: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "user": (".cursor", "hooks.json"),
        "project": (".cursor", "hooks.json"),
    }
    event = "preToolUse"
    matcher = "Shell|Write|Edit|Delete|MCP.*"

    def add(self, values: Values, wish: InstallWish) -> Values:
        """Return the settings with our hook, once."""
        values = self.remove(values)
        values.setdefault("version", 1)
        listed = _object(values, "hooks").setdefault(self.event, [])
        if not isinstance(listed, list):
            raise InvalidRequest(f"hooks.{self.event} is no list: nothing was written")
        listed.append(self.hook(wish))
        return values

    def hook(self, wish: InstallWish) -> Values:
        """Return the entry."""
        return {
            "command": self.gate(wish),
            "matcher": wish.matcher or self.matcher,
            "timeout": wish.wait + MARGIN,
            "failClosed": True,
        }

    def remove(self, values: Values) -> Values:
        """Return the settings without our hook, and without what that leaves empty."""
        hooks = values.get("hooks")
        listed = hooks.get(self.event) if isinstance(hooks, dict) else None
        if not isinstance(hooks, dict) or not isinstance(listed, list):
            return values
        hooks[self.event] = [one for one in listed if not self._is_our_hook(one)]
        if not hooks[self.event]:
            del hooks[self.event]
        if not hooks:
            del values["hooks"]
        return {} if values == {"version": 1} else values

    def _is_our_hook(self, hook: Any) -> bool:
        return isinstance(hook, dict) and self.is_ours(hook.get(self.word))

    word = "command"
    limit = "timeout"

    def entries(self, values: Values) -> Iterator[Entry]:
        """Yield our hook."""
        hooks = values.get("hooks")
        listed = hooks.get(self.event) if isinstance(hooks, dict) else None
        for hook in listed if isinstance(listed, list) else ():
            if self._is_our_hook(hook):
                limit = hook.get(self.limit)
                yield Entry(
                    event=self.event,
                    command=hook[self.word],
                    timeout=limit if _is_number(limit) else None,
                    blocks=self.blocks(hook),
                    matcher=str(hook.get("matcher", "")),
                )

    def blocks(self, hook: Values) -> bool:
        """Whether a failure of the hook itself blocks the tool."""
        return hook.get("failClosed") is True and str(hook[self.word]).endswith(OR_BLOCK)


class CopilotPlan(CursorPlan):
    """Copilot CLI: a file of its own in the project."""

    host = "copilot"
    folders: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "project": (".github", "hooks", "approval-gateway.json")
    }
    word = "bash"
    limit = "timeoutSec"

    def hook(self, wish: InstallWish) -> Values:
        """Return the entry. It has no matcher: every tool is asked about."""
        asked = self.command(wish, "--timeout", str(wish.wait))
        denies = f"{asked} || echo {shlex.quote(_COPILOT_DENIES)}"
        return {"type": "command", "bash": denies, "timeoutSec": wish.wait + MARGIN}

    def blocks(self, hook: Values) -> bool:
        """Whether a failure of the hook itself blocks the tool."""
        return str(hook[self.word]).endswith(shlex.quote(_COPILOT_DENIES))


class OpenCodePlan(Plan):
    """OpenCode: it has no such hook. It is told to ask, and `gateway bridge opencode` answers."""

    host = "opencode"
    folders: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "user": (".config", "opencode", "opencode.json"),
        "project": ("opencode.json",),
    }
    comments = True
    after = "Start `opencode serve`, and beside it `gateway bridge opencode --url URL`."

    def add(self, values: Values, wish: InstallWish) -> Values:
        """Return the settings in which OpenCode asks before it acts."""
        held = values.get("permission", {})
        if not isinstance(held, dict):
            raise InvalidRequest(f"permission is {held!r} for all tools: nothing was written")
        return {**values, "permission": {**held, **dict.fromkeys(_OPENCODE_ASKS, "ask")}}

    def remove(self, values: Values) -> Values:
        """Raises InvalidRequest: nobody knows any more which of them was there before."""
        raise InvalidRequest(
            "the file was changed since: take what you do not want out of `permission` yourself"
        )

    def entries(self, values: Values) -> Iterator[Entry]:
        """Yield nothing: no command stands there."""
        yield from ()

    def doubts(self, values: Values) -> Iterator[str]:
        """Yield which tools run unasked."""
        held = values.get("permission")
        for name in _OPENCODE_ASKS:
            said = held.get(name) if isinstance(held, dict) else held
            if said != "ask":
                yield f"permission.{name} is {said!r}: OpenCode asks nobody about it"


PLANS: Mapping[str, Plan] = {
    plan.host: plan
    for plan in (
        ClaudeCodePlan(), CodexPlan(), GeminiPlan(), CursorPlan(), CopilotPlan(), OpenCodePlan(),
    )
}  # fmt: skip


def _object(values: Values, name: str) -> Values:
    found = values.setdefault(name, {})
    if not isinstance(found, dict):
        raise InvalidRequest(f"{name} is no object: nothing was written")
    return found


def _has_type(hook: Any) -> bool:
    return isinstance(hook, dict) and isinstance(hook.get("type"), str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
