"""The bridge between a Dexto server and the gateway: every answer, and every way to fail."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.cards.remember_options import remember_as, scopes_of
from gateway.client import AsyncClient
from gateway.client.http_transport import HttpTransport
from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import Query, StoredRequest
from gateway.errors import Misconfigured
from gateway.integrations.bridges.dexto import (
    PAUSES,
    DextoApi,
    DextoBridge,
    Listener,
    Registration,
    sign,
)
from gateway.models import Action, Execution, Kind, Reason, Status
from tests.api.replica import AGENT_TOKEN, POLICY, Replica, replica, until
from tests.hosts.dexto_host import KEY, DextoHost, Waiting, dexto_host
from tests.saiki.site import site
from tests.web.inbox import AGENT, Inbox

DENIED = {"status": "denied", "reason": "user_denied"}


@dataclass
class Bridged:
    """A gateway and a Dexto server, with the bridge between them."""

    gate: Replica
    dexto: DextoHost
    bridge: DextoBridge
    webhook: Registration
    listener: Listener
    paused: list[float]

    async def of(self, one: Waiting) -> StoredRequest:
        """Return the request of an approval, as soon as it is there."""
        while True:
            for record in (await self.gate.core.requests.page(Query())).items:
                if record.request.call_id == one.id:
                    return record
            await asyncio.sleep(0)

    async def answer(self, one: Waiting, action: str, **more: Any) -> StoredRequest:
        """Have Ann answer; return the request."""
        record = await self.of(one)
        done = await self.gate.decided(record.id, action, **more)
        assert done.status == 200, done.json
        return record

    async def reported(self, record: StoredRequest, execution: Execution) -> str:
        """Return the detail of a report, once it is there."""
        while True:
            now = await self.gate.core.requests.get(record.id)
            if now.report is not None and now.report.execution is execution:
                return now.report.detail
            await asyncio.sleep(0)


@asynccontextmanager
async def bridged(gate: Replica, dexto: DextoHost) -> AsyncIterator[Bridged]:
    """Run the bridge as its command does; its pauses do not last."""
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)
        await asyncio.sleep(0)

    api, secret = DextoApi(dexto.url, KEY), secrets.token_hex(8)
    async with AsyncClient(HttpTransport(gate.url, AGENT_TOKEN, "agent1")) as client:
        bridge = DextoBridge(client, api, pause=pause)
        loop = asyncio.get_running_loop()
        with Listener(("127.0.0.1", 0), bridge.take, secret, loop) as listener:
            url = f"http://127.0.0.1:{listener.server_address[1]}/"
            webhook = Registration(api, bridge, url, secret)
            await webhook.register()
            yield Bridged(gate, dexto, bridge, webhook, listener, paused)
            await bridge.close()


@pytest.fixture
async def both(server_url: str, namespace: str) -> AsyncIterator[Bridged]:
    """Yield a gateway where Ann approves, a Dexto server, and the bridge."""
    async with replica(server_url, namespace) as gate, dexto_host() as dexto:
        await gate.store.apply(POLICY, by="test")
        async with bridged(gate, dexto) as made:
            yield made


async def test_an_approval_runs_and_its_end_is_reported(both: Bridged) -> None:
    """The request carries session, call, hint and roles; Dexto's result becomes the report."""
    metadata = {
        "toolName": "bash_exec",
        "toolCallId": "call_7",
        "args": {"command": "ls -l", "description": "look"},
        "description": "Runs a command",
        "approvalKey": "bash:ls *",
        "displayPreview": {"type": "diff", "unified": "-a\n+b"},
    }
    one = await both.dexto.ask(metadata=metadata, sessionId="chat 1")
    record = await both.of(one)
    asked = record.request
    assert (asked.tool, asked.kind, asked.arguments) == (
        *("bash_exec", Kind.COMMAND),
        metadata["args"],
    )
    assert (asked.origin.framework, asked.origin.tool_call_id) == ("dexto", "call_7")
    assert asked.session.startswith("chat-1=")
    assert (asked.hint, asked.payload) == ("Runs a command", None)
    assert asked.roles == {"command": "command", "description": "remark"}
    assert asked.preview is not None
    assert asked.preview.text == "-a\n+b"
    assert asked.context.cwd is None
    assert asked.timeout is not None
    assert 30 <= asked.timeout < 60
    assert asked.allowed == ("approve", "deny")
    await both.answer(one, "approve")
    assert await one.response() == {"status": "approved"}
    await both.reported(record, Execution.STARTED)
    result = {"toolName": "bash_exec", "callId": "call_7", "sessionId": "chat 1"}
    assert await both.dexto.emit("llm:tool-result", {**result, "success": False, "error": "gone"})
    assert await both.reported(record, Execution.FAILED) == "gone"


async def test_a_denial_carries_its_reason_and_words(both: Bridged) -> None:
    """A person's as the user's, with their words for the model."""
    one = await both.dexto.call("deploy", env="prod")
    await both.answer(one, "deny", message="not on Fridays")
    told = await one.response()
    assert (told["status"], told["reason"]) == ("denied", "user_denied")
    assert "not on Fridays" in told["message"]


@pytest.mark.parametrize("mode", ["auto-deny", "auto-approve"])
async def test_a_rule_is_not_called_the_user(both: Bridged, mode: Any) -> None:
    """Nobody was asked: system_denied, or approved at once."""
    routes = (Route(approvers=("ann",), mode=mode),)
    generation = (await both.gate.store.policy()).generation
    document = PolicyDocument(people=POLICY.people, routes=routes, generation=generation)
    await both.gate.store.apply(document, by="test")
    both.gate.core.writer.forget_policy()
    told = await (await both.dexto.call("deploy")).response()
    if mode == "auto-deny":
        assert (told["status"], told["reason"]) == ("denied", "system_denied")
    else:
        assert told == {"status": "approved"}


async def test_parallel_calls_are_answered_each_for_itself(both: Bridged) -> None:
    """Also in another order, and with the same arguments twice."""
    ones = [await both.dexto.call("deploy", f"call_{n}", env="prod") for n in range(3)]
    await both.answer(ones[2], "approve")
    await both.answer(ones[0], "deny")
    assert (await ones[2].response())["status"] == "approved"
    assert (await ones[0].response())["status"] == "denied"
    assert not ones[1].ended.done()
    await both.answer(ones[1], "approve")
    assert (await ones[1].response())["status"] == "approved"


async def test_nobody_answers_in_time(both: Bridged) -> None:
    """Our deadline is the shorter: Dexto hears `timeout` from us before its own runs out."""
    one = await both.dexto.call("deploy", env="prod")
    record = await both.of(one)
    done = await both.gate.call(
        "POST", f"/v1/requests/{record.id}/cancel", {"reason": "superseded"}, token=AGENT_TOKEN
    )
    assert done.status == 200, done.json
    told = await one.response()
    assert (told["status"], told["reason"]) == ("cancelled", "system_cancelled")
    late = await both.dexto.ask(
        timeout=400, metadata={"toolName": "deploy", "toolCallId": "c", "args": {}}
    )
    told = await late.response()
    assert (told["status"], told["reason"]) == ("cancelled", "timeout")


async def test_what_ends_at_dexto_is_withdrawn_here(both: Bridged) -> None:
    """Answered in its own page, or run out there: the card ends, and nothing is posted back."""
    for status, reason in (("denied", "user_denied"), ("cancelled", "timeout")):
        one = await both.dexto.call("deploy")
        record = await both.of(one)
        await both.dexto.end(one, status, reason)
        await until(lambda: not both.bridge.waits)
        now = await both.gate.core.requests.get(record.id)
        assert now.decision is not None
        assert (now.status, now.decision.reason) == (Status.CANCELLED, Reason.RESOLVED_ELSEWHERE)
        assert reason in now.decision.message
    assert both.dexto.refused == []


async def test_a_late_yes_is_reported_as_not_run(both: Bridged) -> None:
    """Dexto was restarted and answers 404: the gateway knows that nothing ran."""
    one = await both.dexto.call("deploy")
    record = await both.of(one)
    both.dexto.waiting.clear()
    await both.answer(one, "approve")
    late = "Dexto no longer waits for this decision"
    assert await both.reported(record, Execution.REFUSED_LATE) == late


async def test_an_answer_is_repeated_until_dexto_has_it(both: Bridged) -> None:
    """Dexto fails twice: the answer arrives once."""
    both.dexto.failures[:] = [500, 503]
    one = await both.dexto.call("deploy")
    await both.answer(one, "approve")
    assert await one.response() == {"status": "approved"}
    assert both.paused == list(PAUSES[:2])


async def test_an_answer_that_never_arrives_is_reported(both: Bridged) -> None:
    """The tries end, and the approval is on record as not run."""
    both.dexto.failures[:] = [500] * (len(PAUSES) + 1)
    one = await both.dexto.call("deploy")
    record = await both.answer(one, "approve")
    assert "status 500" in await both.reported(record, Execution.SKIPPED)
    assert not one.ended.done()


async def test_a_server_that_takes_no_reasons_gets_a_bare_denial(both: Bridged) -> None:
    """An older one: what is not approved is denied, whatever else it cannot say."""
    both.dexto.takes_reasons = False
    one = await both.dexto.call("deploy")
    await both.answer(one, "deny")
    assert await one.response() == {"status": "denied"}


FORM = {
    "type": "object",
    "required": ["name", "size"],
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "of the shop"},
        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["small", "large"]},
        "count": {"type": "integer"},
        "rate": {"type": "number"},
        "gift": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        "pin": {"type": "string", "format": "password"},
    },
}


def form(schema: Any = None) -> dict[str, Any]:
    """Return the metadata of an elicitation."""
    return {"schema": schema or FORM, "prompt": "Which one?", "serverName": "shop"}


async def test_an_elicitation_is_a_question_and_its_answers_form_data(both: Bridged) -> None:
    """Each type of field; the secret goes to Dexto and stays out of the record."""
    one = await both.dexto.ask("elicitation", metadata=form())
    asked = (await both.of(one)).request
    assert asked.arguments == {"question": "Which one?", "server": "shop"}
    assert [(q.id, q.kind.value, q.required, q.secret) for q in asked.questions] == [
        ("name", "text", True, False),
        ("size", "choice", True, False),
        ("count", "number", False, False),
        ("rate", "number", False, False),
        ("gift", "boolean", False, False),
        ("tags", "choices", False, False),
        ("pin", "text", False, True),
    ]
    assert asked.questions[0].text == "Name: of the shop"
    assert asked.questions[1].options[0].label == "small"
    answers = {"name": "x", "size": "l", "count": 2.0, "tags": ["a"], "pin": "only-for-the-shop"}
    record = await both.answer(one, "answer", answers=answers)
    assert await one.response() == {
        "status": "approved",
        "formData": {**answers, "count": 2},
    }
    kept = await both.gate.core.requests.get(record.id)
    assert "only-for-the-shop" not in str(kept)


async def test_an_elicitation_can_be_declined(both: Bridged) -> None:
    """As a denial, without form data."""
    one = await both.dexto.ask("elicitation", metadata=form())
    await both.answer(one, "deny")
    assert (await one.response())["status"] == "denied"


async def test_half_a_number_is_no_whole_one(both: Bridged) -> None:
    """Dexto's schema would refuse it: validation_failed."""
    one = await both.dexto.ask("elicitation", metadata=form())
    await both.answer(one, "answer", answers={"name": "x", "size": "s", "count": 2.5})
    told = await one.response()
    assert (told["status"], told["reason"]) == ("cancelled", "validation_failed")


async def test_commands_and_custom_requests_are_asked(both: Bridged) -> None:
    """The two other types of the contract; what comes beside the arguments is shown, too."""
    metadata: dict[str, Any] = {"toolName": "sh", "command": "ls", "originalCommand": "ls -l"}
    one = await both.dexto.ask("command_approval", metadata=metadata, sessionId=None)
    asked = (await both.of(one)).request
    assert asked.arguments == {"command": "ls", "originalCommand": "ls -l"}
    assert (asked.kind, asked.session) == (Kind.COMMAND, "default")
    await both.answer(one, "deny")
    custom = await both.dexto.ask("custom", metadata={"why": "because"})
    assert (await both.of(custom)).request.arguments == {"why": "because"}
    await both.answer(custom, "approve")
    assert await custom.response() == {"status": "approved"}
    metadata = {"toolName": "read_file", "toolCallId": "c", "args": {"file_path": "/etc/x"},
                "directoryAccess": {"path": "/etc"}}  # fmt: skip
    more = await both.dexto.ask(metadata=metadata)
    asked = (await both.of(more)).request
    assert asked.payload == {"directoryAccess": {"path": "/etc"}}
    await both.answer(more, "deny")


BAD: list[dict[str, Any]] = [
    {"type": "unheard_of", "metadata": {}},
    {"metadata": {}},
    {"metadata": {"toolName": "", "toolCallId": "c", "args": {}}},
    {"metadata": {"toolName": "t", "toolCallId": "c", "args": "rm"}},
    {"metadata": None},
    {"metadata": {"toolName": "t", "toolCallId": "c", "args": {}}, "timeout": -1},
    {"metadata": {"toolName": "t", "toolCallId": "c", "args": {}}, "timeout": "1"},
    {"metadata": {"toolName": "t", "toolCallId": "c", "args": {}}, "sessionId": 7},
    {"type": "elicitation", "metadata": form({"type": "object", "properties": {}})},
    {"type": "elicitation", "metadata": form({"properties": {"a": {"type": "object"}}})},
    {"type": "elicitation", "metadata": form({"properties": {"a": {"type": ["string"]}}})},
    {"type": "elicitation", "metadata": form({"properties": {"a": {"enum": [1]}}})},
]


async def test_what_cannot_be_asked_is_cancelled_at_once(both: Bridged) -> None:
    """Dexto does not wait for what nobody was asked, and nothing is left at the gateway."""
    for members in BAD:
        one = await both.dexto.ask(**members)
        told = await one.response()
        assert (told["status"], told["reason"]) == ("cancelled", "validation_failed"), members
    assert (await both.gate.core.requests.page(Query())).items == ()


async def test_unsigned_deliveries_are_refused(both: Bridged) -> None:
    """No signature, another secret's, one of other bytes: nothing is asked."""
    (hook,) = both.dexto.webhooks.values()
    metadata = {"toolName": "deploy", "toolCallId": "c", "args": {}}
    data = {"approvalId": str(uuid.uuid4()), "type": "tool_approval", "metadata": metadata}
    body = json.dumps({"type": "approval:request", "data": data}).encode()
    for signature in ("", sign(body, "other"), sign(body + b" ", hook["secret"]), "sha256=x"):
        headers = {"X-Dexto-Signature-256": signature} if signature else {}
        async with both.dexto.http.post(hook["url"], data=body, headers=headers) as answer:
            assert answer.status == 401
    assert not both.bridge.waits


async def test_signed_rubbish_gets_a_sentence(both: Bridged) -> None:
    """400 with what is wrong; events that are not about approvals are taken and left alone."""
    (hook,) = both.dexto.webhooks.values()
    for body in (b"rubbish", b"[]", b"{}", b'{"type": "approval:request"}', b"\xff",
                 b'{"type": "approval:request", "data": {"approvalId": "../x"}}'):  # fmt: skip
        headers = {"X-Dexto-Signature-256": sign(body, hook["secret"])}
        async with both.dexto.http.post(hook["url"], data=body, headers=headers) as answer:
            assert (answer.status, bool((await answer.json())["message"])) == (400, True), body
    assert await both.dexto.emit("llm:chunk", {"content": "hello"}) == [200]
    assert await both.dexto.emit("approval:response", {"approvalId": "unknown"}) == [200]
    assert await both.dexto.emit("llm:tool-result", {"callId": 7}) == [200]


async def test_a_repeated_delivery_asks_once(both: Bridged) -> None:
    """Also after the answer: nothing is approved a second time."""
    one = await both.dexto.call("deploy")
    await both.dexto.emit("approval:request", one.request)
    await both.answer(one, "approve")
    assert await one.response() == {"status": "approved"}
    await both.dexto.emit("approval:request", one.request)
    await both.bridge.close()
    assert both.dexto.answers == 1


async def test_a_new_bridge_hands_no_approval_out_again(both: Bridged) -> None:
    """The bridge died and the event is delivered again: the used approval is no approval."""
    one = await both.dexto.call("deploy")
    await both.answer(one, "approve")
    await one.response()
    again = Waiting(one.request, asyncio.get_running_loop().create_future())
    both.dexto.webhooks.clear()
    both.dexto.waiting[one.id] = again
    async with bridged(both.gate, both.dexto):
        await both.dexto.emit("approval:request", one.request)
        told = await again.response()
    assert (told["status"], told["reason"]) == ("cancelled", "system_cancelled")


async def test_after_a_restart_of_dexto_it_registers_again(both: Bridged) -> None:
    """What the old one waited for is withdrawn; the new one's calls are asked."""
    one = await both.dexto.call("deploy")
    record = await both.of(one)
    await both.webhook.check()
    assert (await both.gate.core.requests.get(record.id)).status is Status.PENDING
    both.dexto.restart()
    await both.webhook.check()
    now = await both.gate.core.requests.get(record.id)
    assert now.decision is not None
    assert now.decision.reason is Reason.ABANDONED
    fresh = await both.dexto.call("deploy")
    await both.answer(fresh, "approve")
    assert await fresh.response() == {"status": "approved"}


async def test_a_bridge_that_stops_leaves_nothing_waiting(both: Bridged) -> None:
    """Dexto is told, and the card ends."""
    one = await both.dexto.call("deploy")
    record = await both.of(one)
    await both.bridge.close()
    assert (await one.response())["status"] == "cancelled"
    assert (await both.gate.core.requests.get(record.id)).status is Status.CANCELLED


async def test_a_gateway_that_is_gone_cancels(server_url: str, namespace: str) -> None:
    """Nobody can be asked: Dexto hears it, and nothing is approved."""
    async with dexto_host() as dexto:
        transport = HttpTransport("http://127.0.0.1:9", AGENT_TOKEN, "agent1")
        async with AsyncClient(transport, connect_timeout=0.05, say=lambda _: None) as client:
            bridge = DextoBridge(client, DextoApi(dexto.url, KEY))
            one = await dexto.call("deploy")
            bridge.take({"type": "approval:request", "data": one.request})
            told = await one.response()
    assert (told["status"], told["reason"]) == ("cancelled", "system_cancelled")


async def test_a_wrong_key_stops_the_start(both: Bridged) -> None:
    """Not deaf: an error with the status."""
    webhook = Registration(DextoApi(both.dexto.url, "wrong"), both.bridge, "http://x/", "s")
    with pytest.raises(Misconfigured, match="401"):
        await webhook.register()
    with pytest.raises(Misconfigured):
        DextoApi("localhost:3000", None)


async def waiting(box: Inbox) -> tuple[StoredRequest, ...]:
    """Return what waits, once anything does."""
    while not (items := (await box.gateway.core.requests.page(Query())).items):
        await asyncio.sleep(0)
    return items


async def test_remembering_is_the_gateways(tmp_path: Path) -> None:
    """Approved and remembered for the session: the next call is answered at once, and Dexto's own
    broad memory is never used. Driven through the command, to its end by SIGTERM."""
    async with site(tmp_path) as box, dexto_host() as dexto:
        token = (await box.gateway.backend.credentials.add_agent(AGENT)).token
        env = {
            "PATH": os.environ["PATH"],
            "GATEWAY_URL": box.gateway.url,
            "GATEWAY_TOKEN": token,
            "GATEWAY_AGENT": AGENT,
            "DEXTO_SERVER_API_KEY": KEY,
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway.cli", "bridge", "dexto", "--url", dexto.url),
            env=env,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            async with asyncio.timeout(30):
                assert dexto.url.encode() in await process.stdout.readline()
            first = await dexto.call("deploy", "call_1", env="prod")
            (record,) = await waiting(box)
            offer = scopes_of(record, Action.APPROVE)[0]
            wish = remember_as(offer.id, "1h", everywhere=False)
            await box.decide(record, remember=wish)
            assert await first.response() == {"status": "approved"}
            await box.remembered()
            again = await dexto.call("deploy", "call_2", env="prod")
            assert await again.response() == {"status": "approved"}
            other = await dexto.call("deploy", "call_3", env="test")
            assert len(await waiting(box)) == 1
        finally:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(30):
                assert await process.wait() == 0
        assert (await other.response())["status"] == "cancelled"
        assert dexto.webhooks == {}
