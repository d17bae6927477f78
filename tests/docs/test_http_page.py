"""docs/reference/http-api.md: its commands ask a real gateway, its recipe makes its digests."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.parsing import parse_request
from gateway.models import new_id
from gateway.wire import schema as names
from gateway.wire.canonical_json import canonical, parse
from gateway.wire.signatures import Verifier
from tests.docs.test_tutorial import gateway

pytestmark = [
    pytest.mark.xdist_group("tutorial"),
    pytest.mark.thorough,
]  # one server or build for all of them

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "http-api.md").read_text(
    encoding="utf-8"
)
PLACES = {"URL=http://127.0.0.1:8787\n": "URL={url}\n", "TOKEN=agw_…\n": "TOKEN={token}\n"}
"""What the reader puts in, and what the test does."""
LONG_AGO = 1_790_000_000_000  # from here on a number on the page is a time, which differs
BETWEEN = "\x1e"
VECTOR = re.compile(r"^```json\n((?:[^`].*\n)+)```\n\n```text\n(.*)\n(.*)\n```$", re.MULTILINE)


def section(title: str) -> str:
    """Return what stands below a heading of the page."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def blocks(kind: str, text: str) -> list[str]:
    """Return the blocks of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def vectors() -> list[tuple[str, str, str]]:
    """Return the page's test vectors: request, canonical JSON, digest."""
    return [(found[1], found[2], found[3]) for found in VECTOR.finditer(section("The digest"))]


def shown(value: Any, promised: Any) -> Any:
    """Return an answer as the page shows it: what differs each time as the page has it."""
    if isinstance(value, dict) and isinstance(promised, dict):
        return {name: shown(one, promised.get(name)) for name, one in value.items()}
    if promised == "…" and isinstance(value, str) and value:
        return promised
    both_times = isinstance(promised, int) and isinstance(value, int) and promised >= LONG_AGO
    return promised if both_times and value >= LONG_AGO else value


def test_the_commands_ask_as_the_page_says(environment: dict[str, str]) -> None:
    """Pasted in order, with a person who approves meanwhile: each answer is the one shown."""
    if shutil.which("curl") is None and os.environ.get("CI") != "true":
        pytest.skip("curl is not installed; under CI=true this is a failure")
    asking = section("Ask from any language")
    start, *commands = blocks("sh", asking)
    announced = Path(environment["GATEWAY_DATA_DIR"]) / "gateway.json"
    found = json.loads(announced.read_text(encoding="utf-8"))
    token = json.loads(gateway(environment, "agent", "add", "ci", "--json"))["token"]
    for place, ours in PLACES.items():
        assert place in start
        start = start.replace(place, ours.format(url=found["url"], token=token))
    script = f"set -eu\n{start}" + "".join(f"{one}printf '\\036'\n" for one in commands)
    reader = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
    while not (waiting := gateway(environment, "pending", "--json")):
        assert reader.poll() is None
    gateway(environment, "approve", json.loads(waiting)["request"]["id"])
    said = reader.communicate(timeout=60)[0]
    assert reader.returncode == 0
    answers = [json.loads(one) for one in said.split(BETWEEN)[:-1]]
    promised = [json.loads(one) for one in blocks("json", asking)]
    assert [shown(*pair) for pair in zip(answers, promised, strict=True)] == promised
    signed = next(one["decision"] for one in answers if "decision" in one)
    signature = signed.pop("signature")
    Verifier(found["public_key"]).verify(canonical(signed), signature)


@pytest.mark.parametrize(
    ("asked", "text", "digest"), vectors(), ids=["call", "context", "question"]
)
def test_the_gateway_takes_the_digests_of_the_page(asked: str, text: str, digest: str) -> None:
    """What the page covers has its bytes, those have its digest, and the edge takes no other."""
    covered = parse(text.encode())
    assert canonical(covered).decode() == text
    assert hashlib.sha256(text.encode()).hexdigest() == digest
    sent = {**json.loads(asked), "id": new_id(), "digest": digest}
    assert parse_request(json.dumps(sent).encode()).digest == digest
    assert set(covered) == set(re.findall(r"`(\w+)`", first_column(section("The digest"))))


def first_column(text: str) -> str:
    """Return the first column of a table."""
    return " ".join(re.findall(r"^ *\|([^|]+)\|", text, re.MULTILINE)).replace("`member`", "")


def test_the_page_has_vectors_for_each_part_of_the_digest() -> None:
    """Every member but the version differs from its default in one of them."""
    covered = [json.loads(text) for _, text, _ in vectors()]
    plain, *others = covered
    assert f"'{vectors()[0][1]}'" in section("Ask from any language")
    for name in plain.keys() - {"v", "agent"}:
        assert any(one[name] != plain[name] for one in others), name


def test_the_page_says_what_ids_and_names_match() -> None:
    """The patterns are those of the wire."""
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| `(\S+)` \|$", PAGE, re.MULTILINE))
    assert rows == {
        "id": names.REQUEST_ID.pattern,
        "process": names.PROCESS_TOKEN.pattern,
        "agent": names.AGENT_NAME.pattern,
        "tool": names.TOOL_NAME.pattern,
        "session": names.SESSION_NAME.pattern,
    }
