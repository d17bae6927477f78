"""deploy/prometheus and deploy/grafana: a real Prometheus scrapes real gateways and answers."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientConnectionError, ClientSession, ContentTypeError
from prometheus_client.parser import text_string_to_metric_families

from gateway.stores.audit import Sealer
from tests.api.replica import Replica, made
from tests.cli.shell import Shell
from tests.frame.tree import ROOT
from tests.ports import free_port
from tests.waiting import moment
from tests.web.test_https import program

DEPLOY = ROOT / "deploy" / "prometheus"
RULES = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
BOARD = json.loads((ROOT / "deploy" / "grafana" / "board.json").read_text(encoding="utf-8"))
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
GUIDES = ROOT / "docs" / "guides"
MONITORING = (GUIDES / "monitoring.md").read_text(encoding="utf-8")
INCIDENTS = (GUIDES / "incidents.md").read_text(encoding="utf-8")
POLICY = """
[[people]]
name = "owner"
admin = true
[[routes]]
name = "default"
approvers = ["owner"]
targets = ["web", "slack:T1/C1"]
"""
"""Cards go to a chat that no gateway of the test runs."""
SETTINGS = re.findall(r"^ *```yaml\n(.*?)^ *```$", MONITORING, re.MULTILINE | re.DOTALL)


def check(*words: str) -> str:
    """Run promtool in the folder of the rules; return what it printed."""
    done = subprocess.run(
        [program("promtool"), *words], cwd=DEPLOY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_the_rules_as_the_page_prints() -> None:
    """They are valid, and as many as the page says."""
    said = check("check", "rules", "alerts.yml")
    shown = re.search(r"```text\n(.*?)```", MONITORING, re.DOTALL)
    assert shown is not None
    assert said.split() == shown[1].split()
    assert f"SUCCESS: {len(RULES)} rules found" in said


def test_each_alert_fires_on_its_figures_and_not_before() -> None:
    """promtool runs the tests of the rules; each rule has one that fires."""
    assert "SUCCESS" in check("test", "rules", "alerts_test.yml")
    tests = yaml.safe_load((DEPLOY / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    names = {rule["alert"] for rule in RULES}
    assert {one["alertname"] for one in cases if one["exp_alerts"]} == names
    assert {one["alertname"] for one in cases if not one["exp_alerts"]} == names


def test_each_alert_has_an_entry_that_says_what_to_do() -> None:
    """Its link leads to the heading of its name, below which are a meaning, checks and steps."""
    entries = dict(re.findall(r"^### (\w+)\n\n((?:(?!#).*\n?)*)", INCIDENTS, re.MULTILINE))
    assert list(entries) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        name = rule["alert"]
        path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert (ROOT / path, anchor) == (GUIDES / "incidents.md", name.lower())
        assert rule["labels"]["severity"] in {"page", "ticket"}
        for word in ("**Meaning.**", "**Check.**", "**Do.**"):
            assert word in entries[name], (name, word)
    _, _, paging = INCIDENTS.partition("\n## Alerts that page\n")
    paged = re.findall(r"^### (\w+)$", paging.partition("\n## ")[0], re.MULTILINE)
    assert paged == [one["alert"] for one in RULES if one["labels"]["severity"] == "page"]


@asynccontextmanager
async def prometheus(folder: Path, config: dict[str, Any]) -> AsyncIterator[str]:
    """Run Prometheus with this configuration and our rules; yield its URL."""
    config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, **config}
    (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
    (folder / "alerts.yml").write_bytes((DEPLOY / "alerts.yml").read_bytes())
    place = f"127.0.0.1:{free_port()}"
    words = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn"]
    command = [program("prometheus"), *words, f"--web.listen-address={place}"]
    running = await asyncio.create_subprocess_exec(*command, cwd=folder)
    try:
        yield f"http://{place}"
    finally:
        running.terminate()
        await running.wait()


async def ask(session: ClientSession, url: str, **query: str) -> Any:
    """Return the data of an answer of Prometheus, which must be a success."""
    async with session.get(url, params=query) as answer:
        body = await answer.json()
        assert body["status"] == "success", (query, body)
        return body["data"]


async def are_up(session: ClientSession, url: str) -> None:
    """Return when every target has been scraped a few times."""
    while True:
        try:
            targets = (await ask(session, f"{url}/api/v1/targets"))["activeTargets"]
            found = await ask(session, f"{url}/api/v1/query", query="count_over_time(up[1h])")
        except (ClientConnectionError, ContentTypeError):  # it starts
            await moment()
            continue
        scraped = [int(one["value"][1]) for one in found["result"]]
        if {one["health"] for one in targets} == {"up"} and min(scraped, default=0) > 2:
            return
        await moment()


def told(block: str, place: str) -> dict[str, Any]:
    """Return a configuration of the page with the address of the test's gateway."""
    read: dict[str, Any] = yaml.safe_load(block.replace("127.0.0.1:8787", place))
    return read


def test_prometheus_takes_the_settings_of_the_page(tmp_path: Path) -> None:
    """Those for Kubernetes name the chart's label and port, but Debian's build finds no pods."""
    here, rules, cluster = (yaml.safe_load(block) for block in SETTINGS)
    shutil.copy(DEPLOY / "alerts.yml", tmp_path)
    (job,) = cluster["scrape_configs"]
    assert job.pop("kubernetes_sd_configs") == [
        {"role": "pod", "namespaces": {"names": ["approvals"]}}
    ]
    for number, config in enumerate((here | rules, cluster)):
        file = tmp_path / f"{number}.yml"
        file.write_text(json.dumps(config), encoding="utf-8")
        check("check", "config", str(file))
    chart = ROOT / "deploy" / "helm" / "approval-gateway" / "templates" / "gateway.yaml"
    template = chart.read_text(encoding="utf-8")
    assert "app.kubernetes.io/component: gateway" in template
    assert template.count("containerPort:") == 1


@pytest.fixture
def near(tmp_path: Path) -> Iterator[str]:
    """Run `gateway up` with a card that waits for another process; yield its URL."""
    shell = Shell(tmp_path)
    (tmp_path / "policy.toml").write_text(POLICY, encoding="utf-8")
    with shell.running_up(GATEWAY_POLICY_FILE=str(tmp_path / "policy.toml")) as gateway:
        url = re.findall(r"http://127\.0\.0\.1:\d+", gateway.says("is ready at"))[0]
        shell.run("ask", "--no-wait", "shell", "--", "ls", code=6)
        yield url
    shell.close()


async def test_prometheus_answers_each_query_of_board_and_alerts(
    tmp_path: Path, near: str, gate: Replica
) -> None:
    """As the page sets it up. The page of metrics has each name that a query uses, and every panel
    shows something."""
    for number in range(2):
        answer = await gate.submitted(made(arguments={"command": f"ls {number}"}))
        await gate.decided(answer.json["id"])
    await gate.store.note("copy_stuck", data={})
    await Sealer(gate.store, gate.core.feed).seal_all()
    here, rules, _ = SETTINGS
    config = told(here, near.removeprefix("http://")) | yaml.safe_load(rules)
    config["scrape_configs"][0]["static_configs"][0]["targets"] += [
        gate.url.removeprefix("http://")
    ]
    async with (
        ClientSession() as session,
        prometheus(tmp_path, config) as asked,
        asyncio.timeout(100),
    ):
        await are_up(session, asked)
        async with session.get(f"{near}/metrics") as answered:
            families = list(text_string_to_metric_families(await answered.text()))
        served = {one.name + end for one in families for end in ("", "_total", "_bucket", "_count")}
        results = {}
        for query in [*QUERIES, *(rule["expr"] for rule in RULES)]:
            names = set(re.findall(r"\b(?:gateway|process)_\w+", query))
            assert names - served == set(), query
            found = await ask(session, f"{asked}/api/v1/query", query=query)
            results[query] = found["result"]
        assert [query for query in QUERIES if not results[query]] == []
        jobs = await ask(session, f"{asked}/api/v1/query", query="sum by (job) (up)")
        counted = [(one["metric"]["job"], one["value"][1]) for one in jobs["result"]]
        assert counted == [("approval-gateway", "2")]
        late = await ask(session, f"{asked}/api/v1/query", query="gateway_outbox_requests")
        waiting = [(one["metric"]["adapter"], one["value"][1]) for one in late["result"]]
        assert ("slack", "1") in waiting
        groups = (await ask(session, f"{asked}/api/v1/rules"))["groups"]
        assert [
            rule["lastError"] for one in groups for rule in one["rules"] if "lastError" in rule
        ] == []
