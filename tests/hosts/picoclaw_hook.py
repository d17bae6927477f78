"""A hook written from PicoClaw's document alone: it reads every member that the document names,
notes each that is missing or of another type, and answers with the document's own examples."""

import json
import sys
from pathlib import Path
from typing import Any

Members = dict[str, type]

META: Members = {
    "AgentID": str, "TurnID": str, "ParentTurnID": str, "SessionKey": str, "Iteration": int,
    "TracePath": str, "Source": str,
}  # fmt: skip
CALL: Members = {"meta": dict, "tool": str, "arguments": dict, "channel": str, "chat_id": str}
RESULT: Members = {
    "for_llm": str, "for_user": str, "silent": bool, "is_error": bool, "async": bool,
    "media": list, "artifact_tags": list, "response_handled": bool,
}  # fmt: skip
PARAMS: dict[str, Members] = {
    "hook.hello": {"name": str, "version": int, "modes": list},
    "hook.before_tool": CALL,
    "hook.approve_tool": CALL,
    "hook.after_tool": {**CALL, "result": dict, "duration": int},
    "hook.event": {"Kind": str, "Meta": dict, "Payload": dict},
}


def check(values: Any, wanted: Members) -> list[str]:
    """Return the names of members that are missing or of another type."""
    return [name for name, kind in wanted.items() if type(values.get(name)) is not kind]


def faults(message: dict[str, Any]) -> list[str]:
    """Return what a message has not as the document says."""
    method, params = str(message.get("method")), message.get("params")
    if message.get("jsonrpc") != "2.0" or method not in PARAMS or not isinstance(params, dict):
        return [f"no message: {message}"]
    found = check(params, PARAMS[method])
    if method == "hook.event":
        found += ["id"] if message.get("id", 0) != 0 else []
        return found + check(params.get("Meta", {}), META) + check(params["Payload"], {"Tool": str})
    found += ["id"] if type(message.get("id")) is not int or message["id"] < 1 else []
    if "meta" in PARAMS[method]:
        found += check(params.get("meta", {}), META)
    if method == "hook.after_tool":
        found += check(params.get("result", {}), RESULT)
    return found


def answer(method: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the example answer that an argument orders, else the one that goes on."""
    if method == "hook.hello":
        return {"ok": True, "name": "python-review-gate"}
    if method == "hook.approve_tool":
        if "rm -rf" in str(arguments):
            return {"approved": False, "reason": "Dangerous command, execution denied"}
        return {"approved": True}
    orders: dict[str, dict[str, Any]] = {
        "modify": {
            "action": "modify",
            "call": {"tool": "echo_text", "arguments": {"text": "modified hello"}},
        },
        "deny": {"action": "deny_tool", "reason": "Invalid arguments"},
        "respond": {
            "action": "respond",
            "call": {"tool": "my_plugin_tool", "arguments": {"query": "hello"}},
            "result": {
                "for_llm": "Plugin tool executed successfully",
                "for_user": "",
                "silent": False,
                "is_error": False,
            },
        },
        "abort": {"action": "abort_turn", "reason": "stop"},
        "halt": {"action": "hard_abort", "reason": "stop"},
    }
    usual = {"action": "continue"}
    return orders.get(arguments.get("text", ""), usual) if method == "hook.before_tool" else usual


def main() -> None:
    """Answer until the input ends; write down what was heard and what was wrong."""
    with Path(sys.argv[1]).open("a", encoding="utf-8", buffering=1) as notes:
        for line in sys.stdin:
            message = json.loads(line)
            method = message["method"]
            notes.write(json.dumps({**message, "faults": faults(message)}) + "\n")
            if "id" in message:
                result = answer(method, message["params"].get("arguments", {}))
                reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                sys.stdout.write(json.dumps(reply) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
