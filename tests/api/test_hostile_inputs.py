"""The table of hostile inputs through the HTTP API: none of them runs on a remembered decision."""

from __future__ import annotations

from dataclasses import replace

from gateway.domain.policy_document import Mode, PolicyRule, Route, RuleEffect
from gateway.models import Context, Kind, new_id
from gateway.policy.authorization import ADMIN
from gateway.policy.grants.grant import Grant, GrantVoter
from gateway.wire.codec import plain
from tests.api.replica import Replica, made
from tests.grants.test_everyday import EVERYDAY
from tests.grants.test_hostile_inputs import (
    ASK,
    FOLDER,
    MORE,
    TAKEN_APART,
    TEMPLATES,
    TWISTED,
)

CWD = {"context": plain(Context(cwd="/ws"))}


async def granted(gate: Replica, grants: list[Grant]) -> None:
    """Have these remembered, by Ann, who is an admin for it."""
    policy = await gate.store.policy()
    people = tuple(replace(one, admin=one.name == "ann") for one in policy.people)
    await gate.store.apply(replace(policy, people=people), by="test")
    for grant in grants:
        backer = GrantVoter(person="ann", via=(ADMIN,))
        kept = replace(grant, id=new_id(), agent="agent1", session=None)
        await gate.core.remembering.keep(replace(kept, made_by="ann", backers=(backer,)))


async def outcome(gate: Replica, **more: object) -> str:
    """Submit a request; return how it stands, or `refused` when it was not even taken in."""
    answer = await gate.submitted(made(**{**CWD, **more}))
    return "refused" if answer.status == 422 else str(answer.json["status"])


async def test_rows_1_to_24_38_and_39_ask(gate: Replica) -> None:
    """No hostile command is covered by the widest grants for eight everyday programs."""
    await granted(gate, TEMPLATES)
    for name, text in (ASK | MORE).items():
        arguments = {"command": text}
        found = await outcome(gate, tool="shell", kind=Kind.COMMAND.value, arguments=arguments)
        assert found in ("pending", "refused") or (name in TAKEN_APART and "M" not in text), name
        assert (found == "refused") == ("\x00" in text), name


async def test_rows_66_to_68_lists_folders_and_patches_ask(gate: Replica) -> None:
    """As the words of a list, in another folder, or for a file that only some readers see."""
    await granted(gate, [*TEMPLATES, FOLDER])
    for tool, kind, arguments in TWISTED:
        found = await outcome(gate, tool=tool, kind=kind.value, arguments=arguments)
        assert found == "pending", arguments


async def test_rows_11_to_13_a_denial_is_not_escaped_where_a_route_approves(gate: Replica) -> None:
    """What may be the denied command is for people; what it plainly is not goes through."""
    policy = await gate.store.policy()
    rule = PolicyRule(name="no", effect=RuleEffect.DENY, commands=("touch", "rm -rf"))
    routes = (Route(approvers=("ann",), mode=Mode.AUTO_APPROVE),)
    await gate.store.apply(replace(policy, rules=(rule,), routes=routes), by="test")
    for text, wanted in (
        ("touch${IFS}M", "pending"),
        ("{touch,M}", "pending"),
        ("rm '-rf' x", "pending"),
        ("touch M", "denied"),
        ("rm -r -f x", "denied"),
        ("cat touch", "approved"),
    ):
        arguments = {"command": text}
        found = await outcome(gate, tool="shell", kind=Kind.COMMAND.value, arguments=arguments)
        assert found == wanted, text


async def test_row_60_there_is_no_websocket_to_misuse(gate: Replica) -> None:
    """Whatever page asks for one gets no upgrade."""
    for origin in ("null", "https://evil.example"):
        headers = {
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Origin": origin,
        }  # fmt: skip
        for path in ("/v1/events", "/", "/events", "/ws"):
            answer = await gate.call("GET", path, token=None, headers=headers)
            assert answer.status in (401, 403, 404), path


async def test_row_25_and_everyday_commands_go_through(gate: Replica) -> None:
    """The positive control: what the same grants are for needs nobody."""
    await granted(gate, TEMPLATES)
    covered = {"git status", "git log", "ls", "cat", "rg", "find", "sed", "go test"}
    for _, text in EVERYDAY:
        if any(text == one or text.startswith(f"{one} ") for one in covered):
            arguments = {"command": text}
            kind = Kind.COMMAND.value
            assert await outcome(gate, tool="shell", kind=kind, arguments=arguments) == "approved"


async def test_rows_26_to_28_folders(gate: Replica) -> None:
    """What only looks as if it lay in the folder asks; what lies there goes through."""
    await granted(gate, [FOLDER])
    for path, wanted in (
        ("/ws/../etc/passwd", "pending"),
        ("/ws-evil/k", "pending"),
        ("/ws/a b.txt", "approved"),
        ("/ws/.env", "pending"),
        ("/ws/a\u202e", "pending"),
    ):
        assert await outcome(gate, tool="read_file", arguments={"path": path}) == wanted, path
