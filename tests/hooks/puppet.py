"""A hook that does what the request's arguments tell it, run as a process of its own."""

import json
import os
import sys
from pathlib import Path
from typing import Any

NAME = os.environ.get("PUPPET", "puppet")


def say(message: dict[str, Any]) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def note(message: dict[str, Any]) -> None:
    """Write down what was heard, for the test."""
    if "PUPPET_NOTES" in os.environ:
        with Path(os.environ["PUPPET_NOTES"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"by": NAME, "env": sorted(os.environ), **message}) + "\n")


def main() -> None:
    """Answer until the input ends."""
    held: list[dict[str, Any]] = []
    for line in sys.stdin:
        message = json.loads(line)
        note(message)
        if message["method"] == "hook.hello":
            say({"jsonrpc": "2.0", "id": message["id"], "result": {"ok": "MUTE" not in os.environ}})
            continue
        if "id" not in message or "STUCK" in os.environ:
            continue
        arguments = message["params"].get("arguments", {})
        orders = arguments.get(NAME) or arguments.get("all") or {}
        if "raw" in orders:
            sys.stdout.write(orders["raw"] + "\n")
            sys.stdout.flush()
        if orders.get("die"):
            return
        if orders.get("silent"):
            continue
        answer = {"jsonrpc": "2.0", "id": message["id"], **answered(message, orders)}
        if orders.get("hold"):
            held.append(answer)
            continue
        say(answer)
        while held:
            say(held.pop())


def answered(message: dict[str, Any], orders: dict[str, Any]) -> dict[str, Any]:
    """Return the result or the error that is ordered, else a plain yes."""
    if "error" in orders:
        return {"error": {"code": -32000, "message": orders["error"]}}
    method = message["method"].removeprefix("hook.")
    usual: dict[str, Any] = (
        {"approved": True} if method == "approve_tool" else {"action": "continue"}
    )
    if method == "before_tool" and "ECHO" in os.environ:
        call = {name: message["params"][name] for name in ("tool", "arguments")}
        usual = {"action": "modify", "call": call}
    return {"result": orders.get(method, usual)}


main()
