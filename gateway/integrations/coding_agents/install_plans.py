"""Change a coding agent's settings file. Start at SettingsFile, and at Plan for its content.

A plan only computes the new values of one file.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from gateway.errors import InvalidRequest
from gateway.integrations.coding_agents.claude_code import AFTER_CALL, AFTER_TURN, PRE, REQUEST
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.local_discovery import read_private, state_folder, write_private

# A settings file: parsed strictly, replaced in one step, and restored by `undo`.

Values = dict[str, Any]
_MOST_BYTES = 4 * 1024 * 1024
_INDENT = re.compile(r"\{\r?\n([ \t]+)\"")
_MARK = "\ufeff"  # editors of Windows write it at the start of a file
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)


class SettingsFile:
    """One settings file in JSON. Changes keep its other content and the order of members."""

    def __init__(self, path: Path, *, comments: bool = False) -> None:
        """Read the file; a missing file counts as empty. `comments` says that the coding agent
        allows comments in the file. Raises InvalidRequest if the file is not valid JSON, and does
        not change the file."""
        self.path = path.resolve()
        self.comment: int | None = None
        """The line of the first comment. A file with comments is never written."""
        raw = self._read()
        if raw is None:
            self.before: str | None = None
            self.values: Values = {}
            return
        self.before, self.values, self.comment = _parse(self.path, raw, comments=comments)

    def _read(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidRequest(f"cannot read {self.path}: {error.strerror}") from error

    def change(self, edit: Callable[[Values], Values]) -> str | None:
        """Return the text of the file after `edit`. The text keeps indentation and line ends, but
        no byte order mark, because some programs cannot read it. Raises InvalidRequest if a comment
        would be lost."""
        after = edit(json.loads(json.dumps(self.values)))
        if after == self.values:
            return self.before
        if self.comment is not None:
            raise InvalidRequest(
                f"{self.path} "
                f"has a comment in line {self.comment} that would be lost, so nothing was "
                f"written: edit the file yourself, or remove its comments"
            )
        found = _INDENT.search(self.before or "")
        text = json.dumps(after, indent=found[1] if found else 2, ensure_ascii=False)
        if self.before is None or self.before.endswith("\n"):
            text += "\n"
        return text.replace("\n", "\r\n") if "\r\n" in (self.before or "") else text

    def undo(self, edit: Callable[[Values], Values]) -> str | None:
        """Return the text without the hook, or None to delete the file. If nobody changed the file
        since, that is the saved former text; otherwise `edit` removes the hook."""
        kept = read_private(_note(self.path))
        now = self.before or ""
        if kept is None and self.before is None:
            return None
        if kept is not None and kept.get("written") == sha256_hex(now.encode()):
            before = kept.get("before")
            return before if isinstance(before, str) else None
        after = self.change(edit)
        return None if after is not None and not json.loads(after) and self.values else after

    def diff(self, after: str | None) -> str:
        """Return the change as a unified diff."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(),
            (after or "").splitlines(),
            str(self.path) if self.before is not None else "(no file)",
            str(self.path) if after is not None else "(no file)",
            lineterm="",
        )
        return "\n".join(lines)

    def write(self, after: str | None, *, untouched: bool = False) -> None:
        """Replace the file atomically; None deletes it. If the former text had no hook
        (`untouched`), saves that text for `undo`. Keeps an earlier saved text if the gateway wrote
        the file last. Raises InvalidRequest if the file was changed meanwhile."""
        if self._read() != (None if self.before is None else self.before.encode()):
            raise InvalidRequest(
                f"{self.path} was changed at the same time, so nothing was "
                f"written: run the command again"
            )
        note = Path(_note(self.path))
        kept = read_private(note) or {}
        was_ours = kept.get("written") == sha256_hex((self.before or "").encode())
        if after is None:
            self.path.unlink(missing_ok=True)
        else:
            self._replace(after)
        if after is None or not (untouched or was_ours):
            note.unlink(missing_ok=True)
            return
        note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        before = kept.get("before") if was_ours else self.before
        told = {"path": str(self.path), "written": sha256_hex(after.encode()), "before": before}
        write_private(note, json.dumps(told))

    def forget(self) -> None:
        """Delete the saved former text, after the text was restored."""
        Path(_note(self.path)).unlink(missing_ok=True)

    def _replace(self, after: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        mode = self.path.stat().st_mode & 0o7777 if self.before is not None else 0o644
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(after)
                file.flush()
                os.fsync(handle)
            new.chmod(mode)
            new.replace(self.path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise


def _parse(path: Path, raw: bytes, *, comments: bool) -> tuple[str, Values, int | None]:
    """Return the text of a file, its parsed values, and the line of the first comment."""

    def unique(pairs: list[tuple[str, Any]]) -> Values:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("an object has the same member twice")
        return found

    if len(raw) > _MOST_BYTES:
        raise InvalidRequest(f"{path} is too large for a settings file: nothing was written")
    try:
        text = raw.decode("utf-8")
        plain, comment = _blank_comments(text.removeprefix(_MARK))
        if comment is not None and not comments:
            raise ValueError(f"a comment begins in line {comment}")
        values = json.loads(plain, object_pairs_hook=unique) if plain.strip() else {}
    except (ValueError, RecursionError) as error:
        why = f"{path} is not valid JSON, so nothing was written: {error}"
        raise InvalidRequest(why) from error
    if not isinstance(values, dict):
        raise InvalidRequest(f"{path} does not contain a JSON object: nothing was written")
    return text, values, comment


def _blank_comments(text: str) -> tuple[str, int | None]:
    """Replace comments in a text with spaces; return it with the line of the first comment."""
    starts: list[int] = []

    def blank(found: re.Match[str]) -> str:
        if found[0].startswith('"'):
            return found[0]
        starts.append(found.start())
        return re.sub(r"[^\r\n]", " ", found[0])

    plain = _STRING_OR_COMMENT.sub(blank, text)
    return plain, text.count("\n", 0, starts[0]) + 1 if starts else None


def _note(path: Path) -> str:
    name = f"{sha256_hex(str(path).encode())[:32]}.json"
    return str(Path(state_folder(), "installed", name))


MARGIN = 60
"""Seconds by which the coding agent's limit is longer than the hook's."""

HOOK_PATH, TOKEN_NAME = "/v1/hooks/claude-code", "GATEWAY_TOKEN"
ENFORCE, RELAY = "enforce", "relay"
_OURS = r"(?:^|[\s/'\"])(?:gateway|gateway\.cli|gateway\.integrations)['\"]? hook {host}(?:\s|$)"
OR_BLOCK = "|| { [ $? = 2 ] || echo the approval hook failed >&2; exit 2; }"
"""The end of a hook's command line. A denial (exit code 2) prints a text, which the model reads.
Any other failure prints none, and without a text Gemini CLI would run the tool."""
_ANY_CHANGE = "Bash|PowerShell|Edit|MultiEdit|Write|NotebookEdit|WebFetch|mcp__.*"
_COPILOT_DENIES = '{"permissionDecision":"deny","permissionDecisionReason":"gateway hook failed"}'
_OPENCODE_ASKS = ("bash", "edit", "webfetch", "external_directory")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallWish:
    """The options of an installation. `program` is the command for `gateway`, and people have
    `wait` seconds to decide. `matcher` selects the tools that require approval, by default tools
    that change something."""

    program: str
    profile: str = ENFORCE
    wait: int = 840
    matcher: str | None = None
    agent: str | None = None
    defer: bool = False
    native_always: bool = False
    url: str | None = None
    """The gateway that the coding agent calls over HTTP, None to start a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One hook of the gateway in the settings. `timeout` is the coding agent's time limit, in
    seconds. `command` is a URL for a hook over HTTP. `blocks` says that a failing hook blocks the
    tool."""

    event: str
    command: str
    timeout: float | None
    blocks: bool
    matcher: str


class Plan:
    """The installation for one coding agent: the paths and the content of its settings."""

    host = ""
    profiles: tuple[str, ...] = (ENFORCE,)
    folders: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    moved_by: str | None = None  # variable with the user's folder
    tested = ""
    comments = False  # whether the settings may have comments
    matcher = "*"
    after = ""  # next step for the person

    def path(self, scope: str, home: Path, project: Path, known: Mapping[str, str]) -> Path:
        """Return the settings file of a scope. Raises InvalidRequest if the scope does not
        exist."""
        parts = self.folders.get(scope)
        if scope == "user" and parts and self.moved_by and known.get(self.moved_by):
            return Path(known[self.moved_by], parts[-1])
        if parts is None:
            scopes = ", ".join(self.folders)
            raise InvalidRequest(f"{self.host} has no settings with scope {scope}: use {scopes}")
        return (home if scope == "user" else project).joinpath(*parts)

    def add(self, values: Values, wish: InstallWish) -> Values:
        """Return the settings with each hook of the gateway exactly once."""
        raise NotImplementedError

    def remove(self, values: Values) -> Values:
        """Return the settings without the hooks, and without objects that become empty."""
        raise NotImplementedError

    def entries(self, values: Values) -> Iterator[Entry]:
        """Yield the hooks of the gateway."""
        raise NotImplementedError

    def doubts(self, values: Values) -> Iterator[str]:
        """Yield problems in these settings that keep a hook from being called."""
        yield from ()

    def is_ours(self, command: Any) -> bool:
        """Return whether a command is a hook of the gateway."""
        return isinstance(command, str) and bool(
            re.search(_OURS.format(host=re.escape(self.host)), command)
        )

    def command(self, wish: InstallWish, *more: str) -> str:
        """Return the command line of a hook."""
        agent = ("--agent", wish.agent) if wish.agent else ()
        return f"{wish.program} hook {shlex.join((self.host, *agent, *more))}"

    def gate(self, wish: InstallWish) -> str:
        """Return the command line of a hook that blocks on every failure, also before it starts."""
        defer = ("--defer",) if wish.defer else ()
        return f"{self.command(wish, '--timeout', str(wish.wait), *defer)} {OR_BLOCK}"


class Grouped(Plan):
    """Base of the coding agents with settings of the form `hooks.EVENT[].{matcher, hooks[]}`."""

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
        """Return the entry that starts a hook. `wait` is the number of seconds that people have to
        decide."""
        return {"type": "command", "command": command}

    closing: tuple[str, ...] = ()

    def add(self, values: Values, wish: InstallWish) -> Values:
        """Return the settings with each hook of the gateway exactly once."""
        values = self.remove(values)
        hooks = _object(values, "hooks")
        for event, matcher, hook in self.make_hooks(wish):
            groups = hooks.setdefault(event, [])
            if not isinstance(groups, list):
                raise InvalidRequest(f"hooks.{event} is not a list, so nothing was written")
            groups.append({**({"matcher": matcher} if matcher else {}), "hooks": [hook]})
        return values

    def remove(self, values: Values) -> Values:
        """Return the settings without the hooks, and without objects that become empty."""
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
        """Return a group without hooks of the gateway, or None if the group has no other hooks."""
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
        """Return whether a URL is an HTTP hook of the gateway."""
        return False

    def entries(self, values: Values) -> Iterator[Entry]:
        """Yield the hooks of the gateway."""
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
        """Return whether a failure of the hook itself blocks the tool."""
        return bool(hook["command"].endswith(OR_BLOCK))


class ClaudeCodePlan(Grouped):
    """The installation for Claude Code."""

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
        """Yield problems in these settings that keep a hook from being called."""
        if values.get("disableAllHooks") is True:
            yield "`disableAllHooks` is on, so Claude Code calls no hook"
        permissions = values.get("permissions")
        mode = permissions.get("defaultMode") if isinstance(permissions, dict) else None
        relayed = any(one.event == REQUEST for one in self.entries(values))
        if relayed and mode in ("bypassPermissions", "dontAsk"):
            yield (
                f"permissions.defaultMode is {mode}, so Claude Code never asks, and relay never "
                f"asks either"
            )

    def blocks(self, hook: Values) -> bool:
        """Return whether a failure of the hook itself blocks the tool."""
        safe = hook.get("type") == "http" or super().blocks(hook)
        return safe and hook.get("onFailure") == "block"

    def start(self, wish: InstallWish, command: str, wait: int | None) -> Values:
        """Return the entry that starts a hook, or one that calls the gateway with the token from
        Claude Code's environment."""
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
        """Return whether a URL is an HTTP hook of the gateway."""
        return isinstance(url, str) and url.partition("?")[0].endswith(HOOK_PATH)


class CodexPlan(Grouped):
    """The installation for Codex."""

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
        """Return the settings with the hooks. Raises InvalidRequest for settings that Codex would
        reject, because Codex would then run every tool."""
        for doubt in self.doubts(values):
            raise InvalidRequest(f"{doubt}: nothing was written")
        return super().add(values, wish)

    def doubts(self, values: Values) -> Iterator[str]:
        """Yield a problem for each member that makes Codex reject the whole file, including its
        hooks."""
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
    """The installation for Gemini CLI."""

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
    """The installation for Cursor: flat entries in `hooks.EVENT[]`."""

    host = "cursor"
    folders: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "user": (".cursor", "hooks.json"),
        "project": (".cursor", "hooks.json"),
    }
    event = "preToolUse"
    matcher = "Shell|Write|Edit|Delete|MCP.*"

    def add(self, values: Values, wish: InstallWish) -> Values:
        """Return the settings with the hook of the gateway, once."""
        values = self.remove(values)
        values.setdefault("version", 1)
        listed = _object(values, "hooks").setdefault(self.event, [])
        if not isinstance(listed, list):
            raise InvalidRequest(f"hooks.{self.event} is not a list, so nothing was written")
        listed.append(self.hook(wish))
        return values

    def hook(self, wish: InstallWish) -> Values:
        """Return the entry of the hook."""
        return {
            "command": self.gate(wish),
            "matcher": wish.matcher or self.matcher,
            "timeout": wish.wait + MARGIN,
            "failClosed": True,
        }

    def remove(self, values: Values) -> Values:
        """Return the settings without the hook, and without objects that become empty."""
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
        """Yield the hook of the gateway."""
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
        """Return whether a failure of the hook itself blocks the tool."""
        return hook.get("failClosed") is True and str(hook[self.word]).endswith(OR_BLOCK)


class CopilotPlan(CursorPlan):
    """The installation for Copilot CLI: a separate file in the project."""

    host = "copilot"
    folders: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "project": (".github", "hooks", "approval-gateway.json")
    }
    word = "bash"
    limit = "timeoutSec"

    def hook(self, wish: InstallWish) -> Values:
        """Return the entry of the hook. It has no matcher, so every tool requires approval."""
        asked = self.command(wish, "--timeout", str(wish.wait))
        denies = f"{asked} || echo {shlex.quote(_COPILOT_DENIES)}"
        return {"type": "command", "bash": denies, "timeoutSec": wish.wait + MARGIN}

    def blocks(self, hook: Values) -> bool:
        """Return whether a failure of the hook itself blocks the tool."""
        return str(hook[self.word]).endswith(shlex.quote(_COPILOT_DENIES))


class OpenCodePlan(Plan):
    """The installation for OpenCode, which has no hook. The settings make OpenCode ask, and
    `gateway bridge opencode` answers."""

    host = "opencode"
    folders: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "user": (".config", "opencode", "opencode.json"),
        "project": ("opencode.json",),
    }
    comments = True
    after = "Start `opencode serve`, then start `gateway bridge opencode --url URL` too."

    def add(self, values: Values, wish: InstallWish) -> Values:
        """Return settings that make OpenCode ask before it runs a tool."""
        held = values.get("permission", {})
        if not isinstance(held, dict):
            raise InvalidRequest(
                f"the setting `permission` is {held!r} for all tools, so nothing was written"
            )
        return {**values, "permission": {**held, **dict.fromkeys(_OPENCODE_ASKS, "ask")}}

    def remove(self, values: Values) -> Values:
        """Raise InvalidRequest, because the former permissions are unknown."""
        raise InvalidRequest(
            "the file was changed after the installation: remove unwanted entries from "
            "`permission` yourself"
        )

    def entries(self, values: Values) -> Iterator[Entry]:
        """Yield nothing: the settings contain no command."""
        yield from ()

    def doubts(self, values: Values) -> Iterator[str]:
        """Yield a problem for each tool that OpenCode runs without asking."""
        held = values.get("permission")
        for name in _OPENCODE_ASKS:
            said = held.get(name) if isinstance(held, dict) else held
            if said != "ask":
                yield f"permission.{name} is {said!r}: OpenCode does not ask before it"


PLANS: Mapping[str, Plan] = {
    plan.host: plan
    for plan in (
        ClaudeCodePlan(), CodexPlan(), GeminiPlan(), CursorPlan(), CopilotPlan(), OpenCodePlan(),
    )
}  # fmt: skip


def _object(values: Values, name: str) -> Values:
    found = values.setdefault(name, {})
    if not isinstance(found, dict):
        raise InvalidRequest(f"{name} is not an object, so nothing was written")
    return found


def _has_type(hook: Any) -> bool:
    return isinstance(hook, dict) and isinstance(hook.get("type"), str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Asks Codex whether it trusts a hook. It skips untrusted hooks, and runs the tool.

_SECONDS = 20.0
_MOST_LINES = 1000


def read_trust(program: str, folder: str) -> tuple[dict[str, str], list[str]]:
    """Return the state of each hook command in a folder, and Codex's warnings about its hook files.

    Each state is trusted, untrusted, modified or disabled. Raises OSError if Codex does not answer.
    """
    process = subprocess.Popen(
        [program, "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env=os.environ,
        start_new_session=True,
    )

    def end() -> None:  # `codex` is a script: the program that it starts would go on
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    ending = threading.Timer(_SECONDS, end)
    ending.start()
    try:
        known = {"clientInfo": {"name": "approval-gateway", "title": "check", "version": "1"}}
        _call(process, 1, "initialize", known)
        listed = _call(process, 2, "hooks/list", {"cwds": [folder]})
    finally:
        ending.cancel()
        end()
        process.communicate()
    found: dict[str, str] = {}
    warnings: list[str] = []
    for place in listed.get("data", ()):
        for hook in place.get("hooks", ()):
            says = hook.get("trustStatus") if hook.get("enabled") else "disabled"
            found[str(hook.get("command"))] = str(says)
        warnings += map(str, [*place.get("warnings", ()), *place.get("errors", ())])
    return found, warnings


def _call(
    process: subprocess.Popen[str], number: int, method: str, params: dict[str, Any]
) -> dict[str, Any]:
    """Call a method of Codex's app-server, and return its result. Skip other messages."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"id": number, "method": method, "params": params}) + "\n")
    process.stdin.flush()
    for _ in range(_MOST_LINES):
        try:
            said = json.loads(process.stdout.readline())
        except ValueError:
            break
        if said.get("id") == number and isinstance(said.get("result"), dict):
            result: dict[str, Any] = said["result"]
            return result
    raise OSError("Codex does not report which hooks it trusts")
