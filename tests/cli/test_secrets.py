"""Fake secrets of every kind through every way in and out: none is in a log, the audit or the
figures, and the command line shows none to a person."""

from __future__ import annotations

import base64
import io
import json
import logging
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.serve import JsonFormatter, LineFormatter
from gateway.client.http_connection import HttpPool
from gateway.errors import GatewayError
from gateway.models import new_id
from gateway.wire.canonical_json import action_digest
from tests.cli.shell import Shell
from tests.fake_secrets import fake_secrets

CORES = [f"{number:02}Fake{'Secret' * 5}{number:02}" for number in range(20)]
SHAPES = (
    "xoxb-12345678-{}",
    "xapp-1-{}",
    "ghp_{}",
    "github_pat_{}",
    "glpat-{}",
    "sk-{}",
    "sk_live_{}",
    "eyJhbGciOiJIUzI1NiJ9.eyJ{}.sig-nature",
    "Authorization: Bearer {}",
    "authorization: basic {}",
    "password={}",
    "api_key: {}",
    'client_secret="{}"',
    "ACCESS_TOKEN={}",
    "AWS_SECRET_ACCESS_KEY={}",
    "private_key: {}",
    "https://user:{}@example.invalid/x",
    "postgres://app:{}@db.invalid:5432/app",
    "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
    "token {}",
)
KINDS = fake_secrets("command line")
SECRETS = "\n".join(
    [shape.format(core) for shape, core in zip(SHAPES, CORES, strict=True)]
    + [one.text for one in KINDS]
)
DIGESTED = ("tool", "arguments", "payload", "context")
WEBHOOK = "whsec_" + base64.b64encode(CORES[0].encode()).decode()


def leaks(text: str) -> list[str]:
    """Return the secrets of which a good part stands in a text."""
    bare = text.replace("\\", "")
    return [core for core in CORES if core[:12] in text] + [
        one.kind for one in KINDS if one.is_in(text) or one.is_in(bare)
    ]


def asked(**more: Any) -> dict[str, Any]:
    """Return the body of a request with secrets in everything that an agent writes."""
    fields: dict[str, Any] = {
        "agent": "leaky",
        "kind": "tool",
        "tool": f"curl {SECRETS.splitlines()[0]}",
        "arguments": {"command": SECRETS, "nested": {SECRETS.splitlines()[1]: [SECRETS]}},
        "payload": {"text": SECRETS},
        "context": {"cwd": "/srv", "env": {"TOKEN": SECRETS}},
        **{name: value for name, value in more.items() if name in DIGESTED},
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    request = {
        **fields,
        "id": new_id(),
        "digest": action_digest(**fields),
        "hint": SECRETS,
        "preview": {"format": "text", "text": SECRETS},
        "risk": {"level": "high", "reasons": [SECRETS]},
        "allowed": ["approve", "deny", "edit", "respond"],
        **{name: value for name, value in more.items() if name not in DIGESTED},
    }
    return {"request": request, "detached": True}


def provable() -> dict[str, Any]:
    """Return the body of a request whose secrets are data, so that masks cannot hide what acts."""
    shown = {"tool": "curl", "payload": None, "context": {"cwd": "/srv"}}
    return asked(**shown, arguments={"password": CORES[0], "headers": {"token": CORES[1]}})


def through_everything(agent: HttpPool, owner: HttpPool) -> None:
    """Submit, refuse, edit, approve, deny, cancel, consume and report with secrets everywhere."""

    def ask(body: Any) -> str:
        return str(agent.call("POST", "/v1/requests", body)["id"])

    def refused(http: HttpPool, path: str, body: Any) -> None:
        with pytest.raises(GatewayError):
            http.call("POST", path, body)

    def decide(one: str, action: str, **more: Any) -> None:
        words = {"message": SECRETS, "note": SECRETS, "confirmed": True}
        body = {"action": action, "revision": 1, **words, **more}
        owner.call("POST", f"/v1/requests/{one}/decide", body)

    decide(ask(asked(session="denied")), "deny")
    again = agent.call("GET", f"/v1/requests/{ask(asked(session='denied'))}")
    assert again["decision"]["reason"] == "grant", "the denial's words answer the same call"
    decide(ask(provable()), "approve")
    edited = ask(provable())
    for action in ("approve", "edit", "respond"):
        refused(owner, f"/v1/requests/{ask(asked())}/decide", {"action": action, "revision": 1})
    refused(owner, f"/v1/requests/{edited}/decide", {"action": SECRETS, "revision": 1})
    decide(edited, "edit", arguments={"password": CORES[2]})
    agent.call("POST", f"/v1/requests/{edited}/consume", {"process": new_id()})
    report = {"execution": "failed", "detail": SECRETS}
    agent.call("POST", f"/v1/requests/{edited}/report", {"report": report})
    decide(ask(provable()), "respond", result={"text": SECRETS})
    agent.call("POST", f"/v1/requests/{ask(asked())}/cancel", {"message": SECRETS})
    decide(ask(asked()), "deny", remember={"lifetime": "1h"})
    for path in ("/v1/requests", "/v1/sync", "/v1/hooks", f"/v1/requests/{SECRETS.split()[0]}/x"):
        refused(agent, path, {SECRETS: SECRETS, "request": asked()["request"]})
    refused(agent, "/v1/requests", asked(digest=SECRETS))
    refused(agent, "/v1/requests", asked(session=SECRETS))


def read_back(shell: Shell) -> dict[str, str]:
    """Return what each command of a person says about what went through."""
    ids = [json.loads(one)["id"] for one in shell.run("pending", "--json").splitlines()]
    said = {f"show {one}": shell.run("show", one) for one in ids}
    for command in ("pending", "history", "grant list", "sessions", "audit tail", "report"):
        said[command] = shell.run(*command.split())
        said[f"{command} --json"] = shell.run(*command.split(), "--json")
    call = json.dumps({"command": SECRETS})
    said["explain"] = shell.run("explain", "leaky", "sh", "--arguments", call)
    for wrong in ("show", "approve", "deny", "audit erase", "grant revoke"):
        code, said[wrong] = shell.call(*wrong.split(), SECRETS.splitlines()[0])
        assert code != 0
    return said


def test_no_secret_is_logged_audited_or_counted(shell: Shell, tmp_path: Path) -> None:
    """A real gateway, at its most talkative, with a webhook that is never taken."""
    hook = f"https://hooks.example.invalid/{CORES[1]}?password={CORES[2]}"
    shell.env |= {
        "GATEWAY_LOG_LEVEL": "DEBUG",
        "GATEWAY_WEBHOOK_URL": hook,
        "GATEWAY_WEBHOOK_SECRET": WEBHOOK,
        "GATEWAY_WEBHOOK_HOSTS": '["hooks.example.invalid"]',
    }
    log = tmp_path / "log"
    with log.open("w") as file:
        process = shell.popen("up", stderr=file)
    try:
        while "Answer in the browser" not in log.read_text():
            assert process.poll() is None
        made = json.loads(shell.run("agent", "add", "leaky", "--json"))
        state = Path(shell.env["GATEWAY_DATA_DIR"])
        url = json.loads((state / "gateway.json").read_text())["url"]
        owner = json.loads((state / "approver.json").read_text())["token"]
        with HttpPool(url, made["token"]) as agent, HttpPool(url, owner) as person:
            through_everything(agent, person)
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            figures = answer.read().decode()
        read = read_back(shell)
        exported = tmp_path / "audit.jsonl"
        shell.run("audit", "export", str(exported))
    finally:
        process.terminate()
        process.communicate(timeout=20)
    said, audit = log.read_text(), exported.read_text()
    assert "the receiver did not accept a webhook" in said
    assert audit.count('"reported"') == 1
    assert "secret of" in audit
    assert {"log": leaks(said), "audit": leaks(audit), "figures": leaks(figures)} == {
        "log": [],
        "audit": [],
        "figures": [],
    }
    assert {name: leaks(told) for name, told in read.items() if leaks(told)} == {}
    assert made["token"] not in said + audit + figures


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_the_words_of_an_exception_are_masked_in_the_log(formatter: logging.Formatter) -> None:
    """Whoever raised it, and whatever it quotes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.getLogger("tests.secrets")
    logger.addHandler(handler)
    try:
        raise ValueError(f"cannot use {SECRETS}")
    except ValueError:
        logger.exception("failed with %s", SECRETS)
    finally:
        logger.removeHandler(handler)
    assert "cannot use" in stream.getvalue()
    assert leaks(stream.getvalue()) == []
