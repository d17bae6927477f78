"""docs/guides/deploy.md: its commands for Redis, typed as they are printed, ask a real gateway."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.test_tutorial import gateway

pytestmark = [pytest.mark.xdist_group("tutorial"), pytest.mark.thorough]

_GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8")
_, _, PAGE = _GUIDE.partition("\n## Ask over Redis from any language\n")
PAGE = PAGE.partition("\n## ")[0]
PLACES = {
    "REDISCLI_AUTH=the-redis-password": "REDISCLI_AUTH={password}",
    'redis-cli -h "$HOST" -p "$PORT"': "redis-cli -s {socket}",
}
"""What the reader puts in; the server of the test has a socket and no port."""


def test_the_commands_ask_over_redis(environment: dict[str, str]) -> None:
    """Submitted, read, woken by the person's answer, consumed and reported, with the agent's own
    Redis user."""
    if shutil.which("redis-cli") is None and os.environ.get("CI") != "true":
        pytest.skip("redis-cli is not installed; under CI=true this is a failure")
    state = Path(environment["GATEWAY_DATA_DIR"])
    known = [
        json.loads(one) for one in gateway(environment, "agent", "list", "--json").splitlines()
    ]
    verb = ("rotate", "ci", "--now") if "ci" in {one["name"] for one in known} else ("add", "ci")
    made = json.loads(gateway(environment, "agent", *verb, "--json"))
    socket = (state / "engine.socket-path").read_text()
    typed = "".join(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    for place, ours in PLACES.items():
        assert place in typed
        typed = typed.replace(place, ours.format(password=made["redis_password"], socket=socket))
    assert made["redis_user"] in typed
    reader = subprocess.Popen(["sh", "-euc", typed], stdout=subprocess.PIPE, text=True)
    while not (waiting := gateway(environment, "pending", "--json")):
        assert reader.poll() is None
    found = json.loads(waiting)["request"]["id"]
    gateway(environment, "approve", found)
    said = reader.communicate(timeout=60)[0]
    gateway(environment, "agent", "revoke", "ci")
    assert reader.returncode == 0, said
    assert "error" not in said
    states = [json.loads(line) for line in said.splitlines() if line.startswith('{"')]
    mine = [one for one in states if one.get("id") == found]
    assert [one["status"] for one in mine][:2] == ["pending", "approved"]
    decision = mine[1]["decision"]
    assert (decision["status"], decision["digest"]) == ("approved", mine[0]["digest"])
    assert re.findall(r"^(submit|push|report)$", said, re.MULTILINE) == ["submit", "push", "report"]
    kept = json.loads(gateway(environment, "show", found, "--json"))
    assert kept["report"]["execution"] == "succeeded"
