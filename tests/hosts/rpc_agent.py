"""A strict stub of an agent that speaks JSON-RPC in lines: it asks what it is told to ask.

The program says `ask` with the questions as its parameters; every other line is echoed. It ends,
with a code of its own, when its answer breaks the protocol's rules, or its program is gone.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def check(protocol: str, params: Any, told: Any) -> None:
    """Refuse an answer that the protocol does not have."""
    result = told["result"]
    if protocol == "acp":
        assert told["jsonrpc"] == "2.0"
        (outcome,) = result.values()
        if outcome == {"outcome": "cancelled"}:
            return
        assert set(outcome) == {"outcome", "optionId"}
        assert outcome["outcome"] == "selected"
        assert outcome["optionId"] in [one["optionId"] for one in params["options"]]
    else:
        assert "jsonrpc" not in told
        assert result in [{"decision": one} for one in ("accept", "decline", "cancel")]


def main() -> None:
    """Serve until the program is gone."""
    protocol, asked = sys.argv[1], {}
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "ask":
            for one in message["params"]:
                asked[json.dumps(one.get("id"))] = one.get("params")
                say(one)
        elif message.get("method") == "say":
            sys.stdout.write(message["params"] + "\n")
            sys.stdout.flush()
        elif message.get("method") == "end":
            raise SystemExit(7)
        elif json.dumps(message.get("id")) in asked and "method" not in message:
            check(protocol, asked.pop(json.dumps(message["id"])), message)
            say({"method": "answered", "params": message})
        else:
            say({"method": "echo", "params": message})


def say(message: Any) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
