"""The agent process of `gateway demo`, which requests approval to run real shell commands."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

from gateway.client import Client, requires_approval
from gateway.errors import GatewayError
from gateway.models import ApprovalRequest, Context, Decision, Kind

COMMANDS = (
    ("write a first file", "echo 'hello from the agent' > hello.txt"),
    ("look around", "ls -l"),
    ("clean up everything, quickly", "rm -rf ."),
    ("count the words", "wc -w hello.txt > words.txt"),
)


def main() -> int:
    """Request approval for each command; print its outcome as one JSON line."""
    here = Context(cwd=str(Path(sys.argv[1]).resolve()), host=socket.gethostname())
    decided_at: dict[str, float] = {}

    def note(event: str, request: ApprovalRequest, decision: Decision | None) -> None:
        if decision is not None:
            decided_at[str(request.arguments["command"])] = time.time()  # noqa: TID251 (across processes)

    why = {command: hint for hint, command in COMMANDS}
    client = Client.from_env("demo-agent", on_event=note, say=None)

    @requires_approval(
        tool="shell",
        kind=Kind.COMMAND,
        hint=lambda command: why[command],
        context=here,
        client=client,
    )
    def shell(command: str) -> str:
        done = subprocess.run(
            command, shell=True, cwd=here.cwd, capture_output=True, text=True, check=True
        )
        return done.stdout

    with client:
        for _, command in COMMANDS:
            line: dict[str, object] = {"command": command, "ran": False}
            try:
                line["output"] = shell(command)
                line["ran"] = True
            except subprocess.CalledProcessError as failed:  # it ran and failed, as `rm -rf .` does
                line |= {"ran": True, "output": failed.stderr}
            except GatewayError as error:
                line["said"] = str(error)
            line["woken_at"] = decided_at.get(command)
            print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
