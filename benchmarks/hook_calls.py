"""Times calls through one host's hook, in turns with what the host does without us.

`python hook_calls.py HOST COUNT` prints both lists of ns as JSON. The interpreter in which the host
is installed runs it, so it imports nothing of the benchmark. A rule answers: no person is timed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

_PAUSE_SECONDS = 0.002
_WARM_UP = 20
COMMAND = "x" * 388
_NO_OP = """
import sys
for line in sys.stdin:
    number = line.split('"id": ')[1].split(",")[0]
    print('{"jsonrpc": "2.0", "id": %s, "result": {"approved": true, "ok": true}}' % number)
    sys.stdout.flush()
"""

_SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"content": [{"type": "text", "text": "ran"}]}
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "timed", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": "shell", "inputSchema": {"type": "object"}}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""

Calls = tuple[Callable[[], Any], Callable[[], Any]]
"""What the host does without us, and what it does with us."""


def hook() -> Calls:
    """Return a hook that confirms, and one that asks from its thread, as a host's would."""
    from gateway.client import Client  # noqa: PLC0415 (each host has its own)

    client = Client.from_env()

    def ask() -> None:
        outcome = client.outcome(client.request("shell", {"command": COMMAND}))
        assert outcome.runs, outcome

    return lambda: True, ask


def decorated() -> Calls:
    """Return a call of a plain function, and of the same with `requires_approval`."""
    from gateway.client import requires_approval  # noqa: PLC0415 (as above)

    def run(command: str) -> None: ...

    gated = requires_approval(tool="shell")(run)
    return lambda: run(COMMAND), lambda: gated(COMMAND)


def gptme() -> Calls:
    """Return gptme's chain of hooks with one that confirms, and with the plugin's."""
    from gptme.hooks import HookType, register_hook, unregister_hook  # noqa: PLC0415 (as above)
    from gptme.hooks.confirm import ConfirmationResult, get_confirmation  # noqa: PLC0415
    from gptme.tools.base import ToolUse  # noqa: PLC0415 (as above)

    from gateway.integrations.coding_agents.gptme import Plugin  # noqa: PLC0415 (as above)

    plugin = Plugin()

    def confirm(hook: Callable[..., Any]) -> None:
        register_hook("timed", HookType.TOOL_CONFIRM, hook, 1000)
        result = get_confirmation(ToolUse("shell", [], COMMAND), default_confirm=False)
        unregister_hook("timed", HookType.TOOL_CONFIRM)
        assert result.action.value == "confirm", result

    return lambda: confirm(lambda *_: ConfirmationResult.confirm()), lambda: confirm(plugin.confirm)


def udspy() -> Calls:
    """Return a function that is confirmed on the spot, and one that the gateway confirms."""
    from udspy import ConfirmationRequired, confirm_first, respond_to_confirmation  # noqa: PLC0415

    from gateway.integrations.frameworks.udspy import call_blocking  # noqa: PLC0415 (as above)

    def shell(command: str) -> None: ...  # the request's tool has its name

    asking: Callable[[str], None] = confirm_first(shell)

    def confirmed() -> None:
        try:
            asking(COMMAND)
        except ConfirmationRequired as required:
            respond_to_confirmation(required.confirmation_id)
            asking(COMMAND)

    return confirmed, lambda: call_blocking(asking, COMMAND)


def picoclaw() -> Calls:
    """Return a process hook that approves everything, and `gateway hook picoclaw`."""
    return (
        _Hook(sys.executable, "-c", _NO_OP),
        _Hook(sys.executable, "-m", "gateway.integrations", "hook", "picoclaw"),
    )


def mcp() -> Calls:
    """Return a call of an MCP server's tool, and the same through `gateway mcp proxy`."""
    server = (sys.executable, "-c", _SERVER)
    proxy = (sys.executable, "-m", "gateway.integrations", "mcp", "proxy", "--name", "bench", "--")
    return _Client(*server), _Client(*proxy, *server)


class _Client:
    """A client of MCP over pipes: called, it calls one tool."""

    def __init__(self, *command: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._number = 0
        own = {"name": "timed", "version": "1"}
        known = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": own}
        self._send("initialize", known)

    def __call__(self) -> None:
        call = {"name": "shell", "arguments": {"command": COMMAND}}
        result = self._send("tools/call", call)
        assert not result.get("isError"), result

    def _send(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        asked = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())["result"]


class _Hook:
    """A process hook: called, it asks whether one tool may run."""

    def __init__(self, *command: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._number = 0
        self._send("hook.hello", {"name": "timed", "version": 1, "modes": ["approve"]})

    def __call__(self) -> None:
        call = {"tool": "shell", "arguments": {"command": COMMAND}}
        meta = {"AgentID": "a", "TurnID": f"t{self._number}", "SessionKey": "s"}
        result = self._send("hook.approve_tool", {"meta": meta, "context": {}, **call})
        assert result["approved"], result

    def _send(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        asked = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())["result"]


_HOSTS: dict[str, Callable[[], Calls]] = {
    "hook": hook,
    "decorated": decorated,
    "gptme": gptme,
    "udspy": udspy,
    "picoclaw": picoclaw,
    "mcp": mcp,
}


def time_calls(calls: Calls, count: int) -> int:
    """Make calls in turns, print what so many of each took, and return how often each was made."""
    times: tuple[list[int], list[int]] = ([], [])
    for number in range(_WARM_UP + count):
        for call, taken in zip(calls, times, strict=True):
            began = time.monotonic_ns()
            call()
            if number >= _WARM_UP:
                taken.append(time.monotonic_ns() - began)
            time.sleep(_PAUSE_SECONDS)
    print(json.dumps({"without": times[0], "with": times[1]}))
    return _WARM_UP + count


if __name__ == "__main__":
    time_calls(_HOSTS[sys.argv[1]](), int(sys.argv[2]))
