"""The Helm chart, rendered by Helm and checked against Kubernetes' schemas: `make test-chart`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.frame.compose_file import CHATS, compose, setting_variables
from tests.frame.test_compose import Server
from tests.frame.tree import ROOT
from tests.ports import free_port
from tests.waiting import moment

PYTHON = os.environ.get("CHART")
CHART = ROOT / "deploy" / "helm" / "approval-gateway"
FILES = sorted(path.stem for path in (CHART / "examples").glob("*.yaml"))
POLICY = (ROOT / "deploy" / "policies" / "production.toml").read_text(encoding="utf-8")
STOP_SECONDS = 40
"""What a gateway may need to end, as systemd gives it."""
OBJECTS = {
    "ConfigMap",
    "Deployment",
    "Ingress",
    "NetworkPolicy",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "Service",
}

pytestmark = [
    pytest.mark.skipif(PYTHON is None, reason="runs in `make test-chart`"),
    pytest.mark.timeout(120),
]

Object = dict[str, Any]


def values(file: str, **changed: Any) -> Object:
    """Return the values of an example with a policy, and what is changed of them."""
    parsed: Object = yaml.safe_load((CHART / "examples" / f"{file}.yaml").read_text())
    return {"policy": POLICY, **parsed, **changed}


def render(given: Object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Render and validate the chart; it must end with this code."""
    command = [str(PYTHON), str(ROOT / "packaging" / "chart" / "render.py")]
    done = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done


def objects(given: Object) -> list[Object]:
    """Return the objects that Helm would install."""
    rendered: list[Object] = json.loads(render(given).stdout)
    return rendered


def of_kind(kind: str, given: Object) -> dict[str, Object]:
    """Return the objects of a kind by their names."""
    found = [one for one in objects(given) if one["kind"] == kind]
    return {one["metadata"]["name"]: one for one in found}


def pods(given: Object) -> dict[str, Object]:
    """Return what each deployment's pods are told, by its name."""
    deployments = of_kind("Deployment", given)
    return {name: one["spec"]["template"]["spec"] for name, one in deployments.items()}


def told(pod: Object) -> dict[str, str]:
    """Return the environment of a pod. No name is there twice."""
    env = pod["containers"][0]["env"]
    names = [one["name"] for one in env]
    assert len(names) == len(set(names))
    return {one["name"]: one["value"] for one in env}


@pytest.mark.parametrize("file", FILES)
def test_kubernetes_accepts_every_object(file: str) -> None:
    """With the oldest and the newest version that the chart supports, unknown fields refused."""
    found = {one["kind"] for one in objects(values(file))}
    assert {"Deployment", "Service", "ConfigMap", "NetworkPolicy"} <= found <= OBJECTS


def test_an_unknown_field_is_found() -> None:
    """The check would see a mistake: a container's resources are copied as they are given."""
    wrong = values("small", resources={"limit": {"memory": "1Gi"}})
    assert "limit" in render(wrong, code=1).stderr


@pytest.mark.parametrize("file", FILES)
def test_pods_are_hardened(file: str) -> None:
    """As the containers of the compose file, and without a token of the cluster."""
    for pod in pods(values(file)).values():
        (container,) = pod["containers"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["terminationGracePeriodSeconds"] >= STOP_SECONDS + 5
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_pod_gets_the_secrets_that_it_needs() -> None:
    """The chart makes no Secret; each pod mounts its keys of yours, and names each one once."""
    everything = values("everything")
    assert of_kind("Secret", everything) == {}
    shared = {"redis_url", "signing_key", *everything["secret"]["extra"]}
    own = {
        "approvals": set(),
        "approvals-slack": {"slack_app_token", "slack_bot_token"},
        "approvals-discord": {"discord_token"},
    }
    for name, pod in pods(everything).items():
        (volume,) = [one["secret"] for one in pod["volumes"] if "secret" in one]
        assert volume["secretName"] == "approval-gateway"
        assert {one["key"] for one in volume["items"]} == shared | own[name]
        named = {value for key, value in told(pod).items() if key.endswith("_FILE")}
        policy = {"/policy/policy.toml"} if name == "approvals" else set()
        assert named == {f"/secrets/{key}" for key in shared | own[name]} | policy


def test_a_pod_is_told_nothing_that_nobody_reads() -> None:
    """Every variable is a setting; a chat's process is told what its container of compose is."""
    for name, pod in pods(values("everything")).items():
        chat = name.removeprefix("approvals").removeprefix("-")
        known = setting_variables() | (setting_variables(chat) if chat in CHATS else set())
        assert {one for one in told(pod) if not {one, one.removesuffix("_FILE")} & known} == set()
        service = compose()["services"][chat or "gateway"]
        assert pod["containers"][0]["args"] == service["command"]
        assert json.loads(told(pod).get("GATEWAY_ADAPTERS", "[]")) == json.loads(
            service["environment"].get("GATEWAY_ADAPTERS", "[]")
        )


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"policy": ""}, "policy"),
        ({"image": ""}, "image"),
        ({"publicUrl": "http://approvals.example"}, "publicUrl"),
        ({"publicUrl": "https://approvals.example/path"}, "publicUrl"),
        ({"secret": {"name": ""}}, "name"),
        ({"secret": {"name": "one", "extra": ["redis_url"]}}, "extra"),
        ({"replica": 2}, "replica"),
        ({"replicas": 0}, "replicas"),
        ({"chats": ["irc"]}, "chats"),
        (
            {"settings": {"GATEWAY_SIGNING_KEY": "secret"}},
            "GATEWAY_SIGNING_KEY is a secret",
        ),
        (
            {"settings": {"GATEWAY_SLACK_BOT_TOKEN": "xoxb-1"}},
            "GATEWAY_SLACK_BOT_TOKEN is a secret",
        ),
        ({"settings": {"GATEWAY_ENV": "development"}}, "GATEWAY_ENV is a secret"),
        ({"settings": {"GATEWAY_EMAIL_URL": "smtp://"}}, "GATEWAY_EMAIL_URL is a secret"),
        (
            {"settings": {"GATEWAY_TRUSTED_PROXY": "false"}},
            "GATEWAY_TRUSTED_PROXY is a secret",
        ),
        ({"settings": {"REDIS_URL": "redis://:password@host"}}, "REDIS_URL is a secret"),
        ({"replicas": 2}, "ReadWriteOnce is for one gateway"),
        ({"chats": ["slack"]}, "ReadWriteOnce is for one gateway"),
        ({"ingress": {"enabled": True}}, "tlsSecret"),
        ({"networkPolicy": {"from": [{}]}}, "from"),
    ],
    ids=str,
)
def test_what_is_unsafe_or_unknown_is_refused(changed: Object, says: str) -> None:
    """Nothing is rendered, and the message names the value."""
    done = render(values("small", **changed), code=1)
    assert done.stdout == ""
    assert says in done.stderr


def test_without_a_secret_nothing_is_rendered() -> None:
    """Also if the values do not mention it."""
    given = values("small")
    del given["secret"]
    assert "secret" in render(given, code=1).stderr


def test_the_key_of_a_mail_server_switches_email_on() -> None:
    """In the gateway alone; the page says what else it needs."""
    given = values("everything", settings={"GATEWAY_EMAIL_FROM": "gateway@example.com"})
    given["secret"]["extra"].append("email_url")
    for name, pod in pods(given).items():
        env = told(pod)
        assert env["GATEWAY_EMAIL_URL_FILE"] == "/secrets/email_url"
        adapters = json.loads(env["GATEWAY_ADAPTERS"])
        assert adapters == ["web", name.removeprefix("approvals-").replace("approvals", "email")]
    assert "GATEWAY_ADAPTERS" not in told(pods(values("everything"))["approvals"])


def test_a_restore_finds_no_gateway_running() -> None:
    """One pod waits with the gateway's settings and volumes, and no chat runs."""
    usual, given = values("everything"), values("everything", restoring=True)
    replicas = {name: one["spec"]["replicas"] for name, one in of_kind("Deployment", given).items()}
    assert replicas == {"approvals": 1, "approvals-slack": 0, "approvals-discord": 0}
    pod, before = pods(given)["approvals"], pods(usual)["approvals"]
    (container,) = pod["containers"]
    assert container["command"] == ["sleep", "infinity"]
    assert not {"args", "startupProbe", "livenessProbe", "readinessProbe"} & set(container)
    assert told(pod) == told(before)
    assert (pod["volumes"], container["volumeMounts"]) == (
        before["volumes"],
        before["containers"][0]["volumeMounts"],
    )


def test_nobody_opens_a_gateway_unless_named() -> None:
    """The gateway believes its peers' X-Forwarded-For, so the first policy shuts every pod; the
    second opens the gateway's port to the named peers."""
    shut = of_kind("NetworkPolicy", values("everything", networkPolicy={}))
    (only,) = shut.values()
    assert only["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in only["spec"]
    everything = values("everything")
    every = of_kind("NetworkPolicy", everything)
    assert every["approvals"] == only
    opened = every["approvals-gateway"]["spec"]
    assert opened["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "gateway"
    (rule,) = opened["ingress"]
    assert rule["from"] == everything["networkPolicy"]["from"]
    for one in of_kind("Deployment", everything).values():
        labels = one["spec"]["template"]["metadata"]["labels"].items()
        assert labels >= only["spec"]["podSelector"]["matchLabels"].items()


def test_one_gateway_goes_at_a_time() -> None:
    """A budget protects several gateways, and does not block a node with the only one."""
    assert of_kind("PodDisruptionBudget", values("small")) == {}
    (budget,) = of_kind("PodDisruptionBudget", values("two-gateways")).values()
    assert budget["spec"]["maxUnavailable"] == 1
    strategies = [
        {one["spec"]["strategy"]["type"] for one in of_kind("Deployment", values(file)).values()}
        for file in ("small", "two-gateways", "everything")
    ]
    assert strategies == [{"Recreate"}, {"RollingUpdate"}, {"RollingUpdate"}]


def test_all_pods_share_one_archive_that_stays() -> None:
    """The claim is the operator's own, or outlives the release."""
    (claim,) = of_kind("PersistentVolumeClaim", values("two-gateways")).values()
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert of_kind("PersistentVolumeClaim", values("everything")) == {}
    for pod in pods(values("everything")).values():
        (mounted,) = [one for one in pod["volumes"] if "persistentVolumeClaim" in one]
        assert mounted["persistentVolumeClaim"] == {"claimName": "audit-archive"}


def test_a_new_policy_restarts_the_gateways_alone() -> None:
    """Each gateway reads the file at its start. A chat's process follows the gateways."""
    before, after = (
        of_kind("Deployment", values("everything", policy=text)) for text in (POLICY, POLICY + "\n")
    )
    assert {name for name in before if before[name] != after[name]} == {"approvals"}
    given = of_kind("ConfigMap", values("everything", policy='a = "<&>\\n"\n'))
    assert given["approvals-policy"]["data"] == {"policy.toml": 'a = "<&>\\n"\n'}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Yield the compose file's Valkey, with its secrets in the files of the Secret's keys."""
    made = Server(tmp_path)
    made.start()
    yield made
    made.kill()


async def test_a_pods_environment_starts_a_gateway(server: Server, tmp_path: Path) -> None:
    """In production mode, with the policy of the ConfigMap. Its probes come to an IP address."""
    given = values("small")
    pod = pods(given)["approvals"]
    url = server.secrets / "redis_url"
    url.write_text(url.read_text().replace("@valkey:6379", f"@127.0.0.1:{server.port}"))
    for name in ("archive", "policy"):
        (tmp_path / name).mkdir()
    text = of_kind("ConfigMap", given)["approvals-policy"]["data"]["policy.toml"]
    (tmp_path / "policy" / "policy.toml").write_text(text, encoding="utf-8")
    port = free_port()
    env = {**_moved(told(pod), tmp_path), "GATEWAY_HOST": "127.0.0.1", "GATEWAY_PORT": str(port)}
    command = [*_gateway(), *pod["containers"][0]["args"]]
    log = tmp_path / "log"
    async with AsyncExitStack() as stack:
        process = await asyncio.create_subprocess_exec(
            *command,
            env={"PATH": os.environ["PATH"], **env},
            stderr=stack.enter_context(log.open("w")),
        )
        stack.push_async_callback(_end, process)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            path = pod["containers"][0][probe]["httpGet"]["path"]
            while not await _is_well(session, f"http://127.0.0.1:{port}{path}"):
                assert process.returncode is None, log.read_text()
                await moment()
        process.terminate()
        async with asyncio.timeout(STOP_SECONDS):
            assert await process.wait() == 0
    assert "the policy file" in log.read_text()
    assert re.search(r"\bis not a setting\b", log.read_text()) is None


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()


def _gateway() -> tuple[str, ...]:
    return (sys.executable, "-m", "gateway.cli")


def _moved(env: dict[str, str], folder: Path) -> dict[str, str]:
    places = {name: value for name, value in env.items() if value.startswith("/")}
    return {**env, **{name: f"{folder}{value}" for name, value in places.items()}}


async def _is_well(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, headers={"Host": "10.1.2.3:8080"}) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False
