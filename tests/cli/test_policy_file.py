"""The policy file of the settings, at the start and on SIGHUP, and what `apply` refuses."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.policy.policy_file_reader import find_no_admin, read_policy
from tests.cli.shell import ForkedGateway, Shell
from tests.frame.tree import ROOT

GOOD = """
[[people]]
name = "owner"
admin = true
[[routes]]
approvers = ["owner"]
timeout = {}
"""


@contextmanager
def running(shell: Shell, path: Path) -> Iterator[ForkedGateway]:
    """Run `gateway up` with this policy file until left; yield it once it is ready."""
    with shell.running_up(GATEWAY_POLICY_FILE=str(path)) as gateway:
        gateway.says("Log in|Answer in the browser")
        yield gateway


def hang_up(gateway: ForkedGateway, pattern: str) -> str:
    """Send SIGHUP; return the line with which the gateway answers it."""
    assert gateway.process.pid
    os.kill(gateway.process.pid, signal.SIGHUP)
    return gateway.says(pattern)


def readiness(said: list[str]) -> dict[str, Any]:
    """Return what /readyz says, at the address that was printed."""
    found = re.search(r"http://127\.0\.0\.1:\d+", "".join(said))
    assert found
    with urllib.request.urlopen(f"{found[0]}/readyz") as answer:
        told: dict[str, Any] = json.load(answer)
    return told


def test_it_is_read_again_on_sighup(shell: Shell, tmp_path: Path) -> None:
    """What changed is applied; a bad file and one that locks everybody out leave the old in force;
    an unchanged one does not take back a newer `gateway apply`, and says whose that is."""
    path, other = tmp_path / "policy.toml", tmp_path / "other.toml"
    path.write_text(GOOD.format(61), encoding="utf-8")
    other.write_text(GOOD.format(63), encoding="utf-8")
    with running(shell, path) as gateway:
        shell.run("approver", "add", "owner")
        path.write_text(GOOD.format(62), encoding="utf-8")
        hang_up(gateway, "is active")
        assert '"timeout": 62' in shell.run("policy", "show")
        path.write_text("people = 3", encoding="utf-8")
        assert "the earlier policy stays active" in hang_up(gateway, "not applied")
        assert "not applied" in readiness(gateway.said)["problems"][0]
        path.write_text('guardrails = "ask"', encoding="utf-8")
        assert "nobody could approve" in hang_up(gateway, "not applied")
        assert '"timeout": 62' in shell.run("policy", "show")
        path.write_text(GOOD.format(62), encoding="utf-8")
        shell.run("apply", str(other), "--by", "ana")
        assert "newer, by ana" in hang_up(gateway, "unchanged")
        assert readiness(gateway.said) == {"status": "ready"}
        assert '"timeout": 63' in shell.run("policy", "show")


def test_a_start_keeps_what_is_in_force(shell: Shell, tmp_path: Path) -> None:
    """A bad file is said and the stored rules stay; an unchanged one takes back nothing newer."""
    path, other = tmp_path / "policy.toml", tmp_path / "other.toml"
    path.write_text(GOOD.format(61), encoding="utf-8")
    other.write_text(GOOD.format(63), encoding="utf-8")
    with running(shell, path):
        shell.run("apply", str(other), "--yes")
    with running(shell, path) as gateway:
        assert "newer, by operator" in "".join(gateway.said)
        assert '"timeout": 63' in shell.run("policy", "show")
    path.write_text("people = 3", encoding="utf-8")
    with running(shell, path) as gateway:
        assert "not applied" in "".join(gateway.said)
        assert readiness(gateway.said)["status"] == "degraded"
        assert '"timeout": 63' in shell.run("policy", "show")


def test_the_sample_of_the_page_locks_nobody_out(up: Shell, tmp_path: Path) -> None:
    """Applied as printed the owner can still approve; without its people it is refused, also by
    --check, unless --yes says so."""
    page = (ROOT / "docs" / "reference" / "policy-file.md").read_text(encoding="utf-8")
    (sample,) = re.findall(r"```toml\n(guardrails.*?)```", page, re.DOTALL)
    path = tmp_path / "policy.toml"
    path.write_text(re.sub(r"\[\[(people|routes)\]\]\n(?:.+\n)+", "", sample), encoding="utf-8")
    for words in ((), ("--check",)):
        assert "nobody could approve" in up.run("apply", str(path), *words, code=2)
    path.write_text(sample, encoding="utf-8")
    told = up.run("apply", str(path))
    assert "owner could no longer decide as terminal:" in told
    up.run("ask", "pay", "--no-wait", code=6)
    assert "approved" in up.run("approve", up.run("pending").split()[0], "--yes")


def test_a_check_says_the_values_that_hold(up: Shell, tmp_path: Path) -> None:
    """Before and after, also where one of them is the default."""
    path = tmp_path / "policy.toml"
    path.write_text(GOOD.format(60), encoding="utf-8")
    up.run("apply", str(path))
    path.write_text(GOOD.format(60).replace("timeout = 60", ""), encoding="utf-8")
    assert "timeout: 60 -> 900" in re.sub(r"\.0\b", "", up.run("apply", str(path), "--check"))


PASSKEY = """
[[people]]
name = "ana"
admin = true
identities = ["token:ana"]

[[routes]]
name = "default"
approvers = ["ana"]

[routes.risk.high]
step_up = [{ways}]
"""


@pytest.mark.parametrize(
    ("ways", "env", "says"),
    [
        ('"passkey"', {"GATEWAY_PUBLIC_URL": ""}, "Passkeys need GATEWAY_PUBLIC_URL"),
        ('"passkey"', {"GATEWAY_PUBLIC_URL": "http://box.lan"}, "Passkeys need HTTPS"),
        (
            '"passkey"',
            {"GATEWAY_PUBLIC_URL": "https://box.lan", "GATEWAY_ADAPTERS": '["discord"]'},
            "does not name web",
        ),
        ('"passkey"', {"GATEWAY_PUBLIC_URL": "https://box.lan"}, ""),
        ('"passkey", "person"', {"GATEWAY_PUBLIC_URL": ""}, ""),
    ],
)
def test_a_passkey_that_nobody_can_use_is_said(
    up: Shell, tmp_path: Path, ways: str, env: dict[str, str], says: str
) -> None:
    """Where it is the only way, and not where people can use one, or there is another way."""
    file = tmp_path / "policy.toml"
    file.write_text(PASSKEY.format(ways=ways))
    up.run("approver", "add", "ana")
    told = up.run("apply", str(file), "--check", env={k: v for k, v in env.items() if v})
    warned = "nobody could approve high risk on route default, which takes a passkey" in told
    assert (warned, says in told) == (bool(says), True)


def test_a_policy_without_an_admin_is_refused(up: Shell, tmp_path: Path) -> None:
    """It says what would be lost, also by --check; with --yes it is applied, and the doctor warns.
    An admin who could not log in is none."""
    path = tmp_path / "policy.toml"
    people = '[[people]]\nname = "owner"\n{}[[routes]]\napprovers = ["owner"]\n'
    other = '[[people]]\nname = "ben"\nadmin = true\n'
    path.write_text(people.format(""), encoding="utf-8")
    for words in ((), ("--check",)):
        assert "admin = true" in up.run("apply", str(path), *words, code=2)
    path.write_text(people.format(other), encoding="utf-8")
    assert "gateway approver add ben" in up.run("apply", str(path), code=2)
    assert '"ben"' not in up.run("policy", "show")
    assert "active on every replica" in up.run("apply", str(path), "--yes")
    told = up.call("doctor")[1]
    assert "WARN approvers: with this policy nobody could act as an admin" in told
    assert "gateway approver add ben" in told
    path.write_text(people.format("admin = true\n"), encoding="utf-8")
    assert "active on every replica" in up.run("apply", str(path))
    assert "OK   approvers" in up.call("doctor")[1]


def test_a_token_gives_a_known_person_no_new_rights(up: Shell, tmp_path: Path) -> None:
    """A stranger may decide afterwards, an admin of the policy only what the policy says."""
    path = tmp_path / "policy.toml"
    path.write_text(
        '[[people]]\nname = "owner"\nadmin = true\n[[people]]\nname = "ben"\nadmin = true\n'
        '[[routes]]\nname = "default"\napprovers = ["owner"]\n',
        encoding="utf-8",
    )
    up.run("apply", str(path))
    for name, approvers in (("ben", ["owner"]), ("ann", ["owner", "ann"])):
        up.run("approver", "add", name)
        (route,) = json.loads(up.run("policy", "show"))["routes"]
        assert route["approvers"] == approvers


def test_a_file_that_is_read_again_takes_away_no_admin(shell: Shell, tmp_path: Path) -> None:
    """As with approvers: what is in force stays, and the log says why."""
    path = tmp_path / "policy.toml"
    path.write_text(GOOD.format(61), encoding="utf-8")
    with running(shell, path) as gateway:
        shell.run("approver", "add", "owner")
        path.write_text(GOOD.format(62).replace("admin = true\n", ""), encoding="utf-8")
        assert "act as an admin" in hang_up(gateway, "not applied")
        assert '"timeout": 61' in shell.run("policy", "show")


SAMPLES = [
    *(path.read_text(encoding="utf-8") for path in (ROOT / "deploy" / "policies").glob("*.toml")),
    *(
        re.sub("^ +", "", sample, flags=re.MULTILINE)
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for sample in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        if "[[people]]" in sample
    ),
]


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_sample_keeps_an_admin(sample: str) -> None:
    """Who follows a page, and gives its people tokens, can explain, declare and stop."""
    policy = read_policy(sample)
    assert find_no_admin(policy, [person.name for person in policy.people]) == ""


def test_a_policy_is_read_from_standard_input(up: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gateway apply -`, as a script that makes the file uses it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(GOOD.format(63)))
    assert "active on every replica" in up.run("apply", "-")
    assert '"timeout": 63' in up.run("policy", "show")


class Typing(io.StringIO):
    """A terminal at which somebody types this."""

    def isatty(self) -> bool:
        return True


def test_what_is_exported_is_in_force_when_it_is_applied(up: Shell, tmp_path: Path) -> None:
    """The owner of the first start, somebody who was added, and a tool that was declared."""
    up.run("approver", "add", "ann", "--admin")
    up.run("tool", "declare", "jot", "text=data", "--yes")
    printed = up.run("policy", "export")
    for part in ('name = "owner"', 'name = "ann"', 'text = "data"', "declared_by"):
        assert part in printed
    path = tmp_path / "policy.toml"
    path.write_text(printed, encoding="utf-8")
    assert "already the active policy" in up.run("apply", str(path))
    assert json.loads(up.run("policy", "export", "--json")) == {"file": printed}


def test_an_export_that_apply_refuses_says_so(up: Shell, tmp_path: Path) -> None:
    """Who left took the second of two approvers along; the rest of the policy is printed."""
    path = tmp_path / "policy.toml"
    two = GOOD.format(60).replace('["owner"]', '["owner", "ben"]\nquorum = 2')
    path.write_text(two + '[[people]]\nname = "ben"\n', encoding="utf-8")
    up.run("approver", "add", "ben")
    up.run("apply", str(path))
    up.run("approver", "revoke", "ben")
    said = up.run("policy", "export", code=2)
    assert "quorum = 2" in said
    assert "2 people must approve, but only 1 may" in said


def test_a_person_is_asked_before_it_is_applied(
    up: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a terminal, once the changes are shown, and not with --yes or --check."""
    path = tmp_path / "policy.toml"
    path.write_text(GOOD.format(61), encoding="utf-8")
    for typed in ("n\n", "\n", "yes please\n"):
        monkeypatch.setattr(sys, "stdin", Typing(typed))
        said = up.run("apply", str(path), code=1)
        assert "timeout: 900" in said and "[y/N]" in said and "nothing was changed" in said
    assert '"timeout": 61' not in up.run("policy", "show")
    monkeypatch.setattr(sys, "stdin", Typing(""))
    assert "nothing was changed" not in up.run("apply", str(path), code=130)
    assert '"timeout": 61' not in up.run("policy", "show")
    for words, asked in ((("--check",), False), ((), True)):
        monkeypatch.setattr(sys, "stdin", Typing("y\n"))
        assert ("[y/N]" in up.run("apply", str(path), *words)) is asked
    assert '"timeout": 61' in up.run("policy", "show")
    path.write_text(GOOD.format(62), encoding="utf-8")
    assert "[y/N]" not in up.run("apply", str(path), "--yes")
    assert '"timeout": 62' in up.run("policy", "show")


def test_a_person_is_not_asked_about_what_is_refused(
    up: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A yes typed by habit removes nobody who is the last."""
    path = tmp_path / "policy.toml"
    path.write_text(GOOD.format(61).replace("admin = true\n", ""), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", Typing("y\n"))
    assert "[y/N]" not in up.run("apply", str(path), code=2)


REPLAYED = """
[[people]]
name = "owner"
admin = true
[[routes]]
approvers = ["owner"]
[[rules]]
name = "reading"
effect = "allow"
commands = ["git log"]
"""


def test_a_file_is_replayed_against_what_was_asked(up: Shell, tmp_path: Path) -> None:
    """The table names each rule; what a person refused and the file allows ends with exit code 1,
    and changes nothing."""
    path = tmp_path / "policy.toml"
    path.write_text(REPLAYED, encoding="utf-8")
    told = up.run("policy", "test", str(path))
    assert "requests replayed: 0" in told
    assert re.search(r"^reading +allow +0 +0 ", told, re.MULTILINE)
    for verb in ("approve", "deny"):
        asking = up.popen("ask", "shell", "--", "git", "log")
        while not (found := up.run("pending", "--json").splitlines()):
            continue
        request = json.loads(found[0])["request"]["id"]
        if verb == "approve":
            told = up.run("approve", request)
        else:
            up.run("deny", request)
        asking.communicate(timeout=30)
    told = up.run("policy", "test", str(path), code=1)
    assert re.search(r"^reading +allow +2 +2 +1 +1 +0 +0 +0$", told, re.MULTILINE)
    assert "refused by people, and this file allows it: 1" in told
    assert f"{request[:8]}  local  " in told
    assert "denied by owner; now allowed by reading" in told
    assert up.run("policy", "test", str(path), "--days", "1", code=1) == told
    made = json.loads(up.run("policy", "test", str(path), "--json", code=1))
    assert [one["id"] for one in made["newly_allowed"]] == [request]
    assert "reading" not in up.run("policy", "show")
    path.write_text("people = 3", encoding="utf-8")
    assert "people" in up.run("policy", "test", str(path), code=2)
