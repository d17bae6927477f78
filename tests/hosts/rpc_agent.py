"""A strict stub of an agent that speaks JSON-RPC in lines: it asks what it is told to ask.

The program says `ask` with the questions as its parameters; every other line is echoed. It ends,
with a code of its own, when its answer breaks the protocol's rules, or its program is gone.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def check(protocol: str, method: str, params: Any, told: Any) -> None:
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
        check_codex(method, params, result)


def check_codex(method: str, params: Any, result: Any) -> None:
    """Refuse an answer that Codex's schemas do not have."""
    if method == "item/tool/requestUserInput":
        assert set(result) == {"answers"}
        for one in result["answers"].values():
            assert all(isinstance(each, str) for each in one["answers"])
        return
    if method == "item/permissions/requestApproval":
        assert result["scope"] == "turn"
        assert result["permissions"] in ({}, params["permissions"])
        return
    decisions: list[Any] = ["accept", "decline", "cancel"]
    if method in ("execCommandApproval", "applyPatchApproval"):
        decisions = ["approved", "abort"]
        if isinstance(result["decision"], dict):
            assert isinstance(result["decision"]["denied"]["rejection"], str)
            return
    elif isinstance(params, dict):
        decisions += [one for one in params.get("availableDecisions") or () if one not in decisions]
    assert result in [{"decision": one} for one in decisions]


def main() -> None:
    """Serve until the program is gone."""
    protocol, asked = sys.argv[1], {}
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "ask":
            for one in message["params"]:
                asked[json.dumps(one.get("id"))] = (one.get("method"), one.get("params"))
                say(one)
        elif message.get("method") == "say":
            sys.stdout.write(message["params"] + "\n")
            sys.stdout.flush()
        elif message.get("method") == "end":
            raise SystemExit(7)
        elif json.dumps(message.get("id")) in asked and "method" not in message:
            check(protocol, *asked.pop(json.dumps(message["id"])), message)
            say({"method": "answered", "params": message})
        else:
            say({"method": "echo", "params": message})


def say(message: Any) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
