"""What must outlive any change of the code's structure: names that others import, keys in Redis,
bytes on the wire; and what loggers are called.

`stable_interfaces.json` was written by the last version before the code was put into packages.

A wanted change is written down there by hand, with a line in CHANGELOG.md.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    DecidedBy,
    DeciderKind,
    Decision,
    Execution,
    FieldKind,
    Kind,
    Option,
    Origin,
    Preview,
    Question,
    Reason,
    Report,
    Risk,
    RiskLevel,
    State,
    Status,
    digest_of,
)
from gateway.stores.keys import Keys
from gateway.wire.canonical_json import canonical
from gateway.wire.codec import plain
from tests.frame.tree import ROOT, project_files

STABLE = json.loads((Path(__file__).parent / "stable_interfaces.json").read_text())
PUBLIC = ("gateway.client", "gateway.models", "gateway.errors", "gateway.ports")
ID = "0123456789abcdef" * 2
DIGEST = "ab" * 32


def full_request() -> ApprovalRequest:
    """Return a request with every member set."""
    return ApprovalRequest(
        id=ID,
        agent="builder",
        tool="write_file",
        arguments={"path": "/srv/a", "n": [1, 1.5, None, True], "ü": {"b": 1, "a": "\u2028\n"}},
        digest=DIGEST,
        kind=Kind.FILE_CHANGE,
        session="s-1",
        turn="t-1",
        hint="why",
        preview=Preview(format="diff", text="+a"),
        payload={"k": "v"},
        context=Context(cwd="/srv", host="h", env={"A": "1"}, files={"/srv/a": DIGEST}),
        origin=Origin(
            framework="f",
            tool_call_id="c",
            parent_agent="p",
            channel="ch",
            chat="1",
            sender="kim",
        ),
        schema={"type": "object"},
        allowed=(Action.APPROVE, Action.EDIT, Action.DENY, Action.RESPOND, Action.ABORT),
        risk=Risk(level=RiskLevel.HIGH, reasons=("it deletes",)),
        timeout=30.0,
    )


def question() -> ApprovalRequest:
    """Return a request that asks for an answer."""
    field = Question(
        id="q",
        text="Which?",
        kind=FieldKind.CHOICE,
        options=(Option(value="a", label="A"),),
        required=False,
    )
    return ApprovalRequest(
        id=ID,
        agent="builder",
        tool="ask",
        arguments={},
        digest=DIGEST,
        kind=Kind.QUESTION,
        questions=(field,),
        allowed=(Action.ANSWER, Action.DENY),
    )


def decision() -> Decision:
    """Return a decision with every member set."""
    return Decision(
        request_id=ID,
        revision=3,
        status=Status.APPROVED,
        action=Action.EDIT,
        reason=Reason.PERSON,
        digest=DIGEST,
        decided_by=DecidedBy(kind=DeciderKind.PERSON, name="kim"),
        decided_at=1,
        expires_at=2,
        message="m",
        arguments={"a": 1},
        answers=None,
        result={"r": 1},
        abort=None,
        signature="s",
    )


def wire_bytes() -> dict[str, str]:
    """Return what these values are on the wire, and their digests."""
    values: dict[str, Any] = {
        "request": full_request(),
        "question": question(),
        "decision": decision(),
        "state": State(
            id=ID,
            status=Status.APPROVED,
            revision=3,
            digest=DIGEST,
            deadline=9,
            decision=decision(),
            may_have_run=True,
        ),
        "report": Report(execution=Execution.FAILED, duration_ms=12, detail="exit 1"),
    }
    written = {name: canonical(plain(value)).decode() for name, value in values.items()}
    written["order of members"] = json.dumps(plain(full_request()))
    written["digest of the request"] = digest_of(full_request())
    written["digest of an edit"] = digest_of(full_request(), {"path": "/srv/b"})
    return written


def redis_keys() -> dict[str, Any]:
    """Return every key of a namespace, methods called with the names of their parameters."""
    keys = Keys("gw")
    found: dict[str, Any] = {name: value for name, value in vars(keys).items() if name[0] != "_"}
    for name, method in inspect.getmembers(keys, inspect.ismethod):
        if not name.startswith("_") and name != "of":
            found[name] = method(*(f"<{one}>" for one in inspect.signature(method).parameters))
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_still_there(module: str) -> None:
    """What others import from these modules can still be imported from them."""
    found = importlib.import_module(module)
    missing = [name for name in STABLE["public"][module] if not hasattr(found, name)]
    assert not missing


@pytest.mark.parametrize("name", STABLE["wire"])
def test_wire_bytes_are_the_same(name: str) -> None:
    """Agents and gateways of one wire version understand each other, and digests are equal."""
    assert wire_bytes()[name] == STABLE["wire"][name]


def test_redis_keys_are_the_same() -> None:
    """Backups and the tools of operators find each key under its name."""
    found = redis_keys()
    assert {name: found.get(name) for name in STABLE["keys"]} == STABLE["keys"]


def test_a_logger_has_the_name_of_its_package() -> None:
    """An operator finds a part of the gateway in a logging configuration by its folder."""
    named = re.compile(r'getLogger\("((?:gateway|adapters)\.[a-z_.]+)"\)')
    for path in project_files(".py"):
        parts = path.relative_to(ROOT).parts
        if parts[0] in ("gateway", "adapters"):
            names = set(named.findall(path.read_text(encoding="utf-8")))
            assert names <= {".".join(parts[:2]).removesuffix(".py")}, path
