"""Asks Codex itself whether it trusts a hook: it skips every other one, and runs the tool."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from contextlib import suppress
from typing import Any

_SECONDS = 20.0
_MOST_LINES = 1000


def read_trust(program: str, folder: str) -> tuple[dict[str, str], list[str]]:
    """Return what Codex says of each hook's command for a folder: trusted, untrusted, modified, or
    disabled; and why it does not read a file of hooks. Raises OSError where it does not say."""
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

    def end() -> None:  # `codex` is a script that starts the program, which would go on alone
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
    """Call a method and return its result; what else comes meanwhile is passed over."""
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
    raise OSError("Codex does not say which hooks it trusts")
