"""The Python examples of the documents run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.client.pytest_plugin import ScriptedApprovals
from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.models import Origin, Status
from gateway.policy.chain import Chain
from gateway.policy.policy_file_reader import read_policy
from tests.clocks import StandingClock
from tests.grants.making import asked
from tests.world import World

ROOT = Path(__file__).parents[2]
TUTORIAL = "# agent.py\n"
"""How the examples begin that need a gateway; test_tutorial.py runs them."""
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(name: str) -> list[tuple[int, str]]:
    """Return the Python blocks of a document with the line they begin on."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return [(text[: found.start()].count("\n") + 2, found[1]) for found in BLOCK.finditer(text)]


@pytest.mark.parametrize("name", ["docs/reference/python-sdk.md", "docs/reference/cli.md"])
def test_the_examples_run(name: str, approvals: ScriptedApprovals) -> None:
    """Each block, with the fixture as the people, as a reader would paste it."""
    found = blocks(name)
    assert found
    for line, code in found:
        if code.startswith(TUTORIAL):
            continue
        compiled = compile("\n" * (line - 1) + code, name, "exec")
        exec(compiled, {"approvals": approvals, "__name__": name})


def test_the_tests_of_the_testing_page_pass(tmp_path: Path) -> None:
    """The page's file as a reader saves it; its last block runs without the fixture."""
    (_, tests), (_, alone) = blocks("docs/guides/test-gated-code.md")
    (tmp_path / "test_refund.py").write_text(tests, encoding="utf-8")
    typed = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_refund.py"]
    done = subprocess.run(typed, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "4 passed" in done.stdout, done.stdout
    exec(compile(alone, "docs/guides/test-gated-code.md", "exec"), {"__name__": "alone"})


async def test_the_deciders_of_the_policy_page_decide_as_it_says() -> None:
    """Each example is a decider of under 20 lines that does what the text above it promises."""
    names: dict[str, Any] = {"__name__": "examples"}
    for _, code in blocks("docs/guides/custom-deciders.md"):
        body = code[code.index("class ") :]
        assert len(body.strip().splitlines()) < 20
        exec(compile(code, "docs/guides/custom-deciders.md", "exec", dont_inherit=True), names)

    async def said(decider: Any, record: StoredRequest) -> str | None:
        verdict = (await Chain([decider]).decide(record, Route())).verdict
        opinions = await Chain([decider]).explain(record, Route())
        return verdict.effect if verdict else opinions[0].effect

    def hour(number: int) -> Any:
        return names["OfficeHours"](clock=StandingClock(number * 3_600_000))

    assert await said(hour(9), asked("x")) == "no opinion"
    assert await said(hour(20), asked("x")) == "ask"
    pay = [asked("pay", arguments={"amount": amount}) for amount in (5, 500, 50_000, True, "5", -1)]
    found = [await said(names["SpendingLimit"](), record) for record in pay]
    assert found == ["allow", "no opinion", "deny", "no opinion", "deny", "no opinion"]
    child = asked("x", origin=Origin(parent_agent="boss"))
    assert await said(names["Delegated"](), child) == "ask"

    async def fine(text: str) -> str:
        return "fine" if "ls" in text else "looks odd"

    reviewer = names["ModelReviewer"](fine)
    assert await said(reviewer, asked("ls")) == "no opinion"
    assert await said(reviewer, asked("x", arguments={})) == "ask"
    assert await said(names["ModelReviewer"](None), asked("ls")) == "failed"


def test_the_rules_of_the_policy_page_can_be_applied() -> None:
    """What the page shows is a policy file."""
    text = (ROOT / "docs" / "reference" / "policy-file.md").read_text(encoding="utf-8")
    found = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    names = [rule.name for rule in read_policy(found[1]).rules]
    assert "reading the repository" in names


async def test_the_limits_of_the_policy_page_do_as_it_says(world: World) -> None:
    """The example as it stands there, and the sentence that people read."""
    text = (ROOT / "docs" / "reference" / "policy-file.md").read_text(encoding="utf-8")
    part = text[text.index("## Numbers, lists and limits") : text.index("## Tools\n")]
    found = re.search(r"```toml\n(.*?)```", part, re.DOTALL)
    assert found is not None
    policy = read_policy(found[1])
    await world.put(rules=policy.rules, own_domains=policy.own_domains)

    async def refund(amount: Any, to: Any, **more: Any) -> StoredRequest:
        arguments = {"amount": amount, "currency": "EUR", "to": to, **more}
        return await world.submit(tool="refund", arguments=arguments)

    for number in range(4):
        assert (await refund(100, [f"a{number}@example.com"])).status is Status.APPROVED
    assert (await refund("80.00", "shop@example.org")).status is Status.APPROVED
    asks = await refund(20.5, "ana@example.com")
    assert asks.status is Status.PENDING
    assert f"The {asks.asks_because[4:]}" in part
    for amount, to, more in (
        (101, "ana@example.com", {}),
        (-1, "ana@example.com", {}),
        ("5 EUR", "ana@example.com", {}),
        (5, "ana@example.com,eve@evil.org", {}),
        (5, "ana@example.com", {"cc": "ben@example.com"}),
        (5, "ana@example.com", {"currency": "USD"}),
        (5, "ana@example.com", {"price": 5}),
    ):
        assert (await refund(amount, to, **more)).status is Status.PENDING, (amount, to, more)
    foreign = await refund(5, "eve@example.org")
    assert foreign.findings == ('reaches "eve@example.org", outside your own domains',)
