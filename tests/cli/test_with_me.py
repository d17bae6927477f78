"""`gateway doctor --live --with-me`: who tries it, beside which gateway, and what is written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.doctor.live_trial import Recording, find_trial
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Person
from gateway.ports.adapters import FAIL, Finding, LiveTrial
from gateway.server.settings import Settings
from gateway.wire.local_discovery import announce
from tests.cli.shell import Shell
from tests.cli.test_adapters import forget_toys, install
from tests.cli.test_running import HELD
from tests.operator import Operator, kept_words

KIND = """
from gateway.ports import Adapter, report_ok

class Kind(Adapter):
    async def checks(self, called, notes, *, live, trial=None):
        if trial is None:
            return [("kind", report_ok("nobody tries it"))]
        trial.say("→ Press it.")
        trial.record("sent", {"text": "a card"})
        trial.record("got", {"text": f"a card for {trial.user}", "user": {"name": "Ann"}})
        return [("kind live", report_ok(f"{trial.user} tried it"))]
"""
POLICY = """
[[people]]
name = "owner"
admin = true
identities = ["kind:70"]
[[routes]]
approvers = ["owner"]
"""
PEOPLE = PolicyDocument(
    people=(
        Person(name="ann", identities=("slack:T1/UANN", "token:ann")),
        Person(name="bob", identities=("slack:T1/UBOB", "slack:T1/UBOB2", "discord:7")),
        Person(name="eve", identities=()),
    )
)


@pytest.fixture
def tried(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Yield a shell where no gateway runs, one has run, and a chat of a toy is enabled."""
    site = tmp_path / "site"
    install(site, "kind", KIND, {"kind": "kind:Kind"})
    forget_toys()
    monkeypatch.syspath_prepend(str(site))
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY, encoding="utf-8")
    with shell.running_up() as gateway:
        gateway.says("Answer in the browser")
        shell.run("apply", str(policy), "--yes")
    shell.env["GATEWAY_ADAPTERS"] = '["web", "kind"]'
    yield shell
    forget_toys()


def test_it_runs_where_no_gateway_does(tried: Shell, tmp_path: Path) -> None:
    """With the gateway's own Redis, which ends with it. What to do is on standard error, the
    findings are JSON; what was exchanged is in a private file, without ids and names."""
    path = tmp_path / "exchange.jsonl"
    said = tried.run("doctor", "--live", "--with-me", "--record", str(path), "--json")
    found = {one["name"]: one for one in map(json.loads, said.splitlines())}
    assert found["kind live"]["says"] == "70 tried it"
    assert found["redis"]["result"] == "ok"
    assert "port" not in found  # no gateway is meant to run
    assert path.stat().st_mode & 0o777 == 0o600
    assert kept_words(path, ["70", "owner", "Ann"]) == []
    assert len(path.read_text(encoding="utf-8").splitlines()) == 3
    with tried.running_up(GATEWAY_ADAPTERS='["web"]') as gateway:  # nothing holds its folder
        gateway.says("Answer in the browser")


def test_beside_a_gateway_with_that_chat_it_is_refused(tried: Shell) -> None:
    """It would take what the person presses; nothing is asked for."""
    with tried.running_up(GATEWAY_ADAPTERS='["web"]') as gateway:
        gateway.says("Answer in the browser")
        said = tried.run("doctor", "--live", "--with-me", "owner")
        assert "→ Press it." in said and "70 tried it" in said
        data = Path(tried.env["GATEWAY_DATA_DIR"])
        known = json.loads((data / "gateway.json").read_text(encoding="utf-8"))
        (data / "gateway.json").write_text(json.dumps({**known, "adapters": ["web", "kind"]}))
        said = tried.run("doctor", "--live", "--with-me", "owner", code=1)
        assert "FAIL kind live: a gateway runs here with kind" in said
        assert "run `gateway down` first" in said
        assert "→" not in said
        assert "OK   kind: nobody tries it" in said


@pytest.mark.parametrize("words", [["--with-me"], ["--record", "x"], ["--live", "--record", "x"]])
def test_options_that_need_others(shell: Shell, words: list[str]) -> None:
    """They are refused with those that they need, before anything is looked at."""
    said = shell.run("doctor", *words, code=2)
    assert "--record needs --with-me, and --with-me needs --live" in said


def test_a_file_that_cannot_be_written(shell: Shell, tmp_path: Path) -> None:
    """It is said before anybody has pressed anything."""
    path = tmp_path / "no" / "such" / "folder"
    said = shell.run("doctor", "--live", "--with-me", "--record", str(path), code=2)
    assert "cannot be written: No such file" in said


def sought(tmp_path: Path, person: str, adapter: str = "slack") -> tuple[str, str]:
    """Return the account that is found, or why there is none and what to do."""
    settings = Settings(data_dir=tmp_path)
    found = find_trial(Operator(person).trial, settings, PEOPLE, adapter)
    if isinstance(found, LiveTrial):
        return found.user, ""
    assert found.result == FAIL
    return found.says, found.remedy


def test_who_me_is(tmp_path: Path) -> None:
    """The only one with an account there, or who is named: a person, or one of their accounts."""
    assert sought(tmp_path, "", "discord") == ("7", "")
    assert sought(tmp_path, "ann") == ("T1/UANN", "")
    assert sought(tmp_path, "slack:T1/UBOB2") == ("T1/UBOB2", "")


@pytest.mark.parametrize(
    ("person", "adapter", "says", "remedy"),
    [
        (
            "",
            "slack",
            "several accounts are possible: slack:T1/UANN of ann, slack:T1/UBOB of bob",
            "--with-me NAME",
        ),
        ("bob", "slack", "slack:T1/UBOB of bob, slack:T1/UBOB2 of bob", "or the account"),
        ("ann", "discord", "ann has no account in discord", "gateway approver link NAME"),
        ("eve", "slack", "eve has no account in slack", "gateway approver link NAME"),
        ("mallory", "slack", "mallory has no account", "gateway approver link NAME"),
        ("slack:T1/UEVE", "slack", "slack:T1/UEVE has no account", "gateway approver link NAME"),
        ("", "folder", "nobody in the policy has an account", "gateway approver link NAME"),
    ],
)
def test_who_is_not_clear(
    tmp_path: Path, person: str, adapter: str, says: str, remedy: str
) -> None:
    """Nobody is chosen: the finding says whom to name, or that there is no account."""
    said, told = sought(tmp_path, person, adapter)
    assert says in said and remedy in told


def test_only_a_gateway_that_runs_and_has_the_chat_is_in_the_way(tmp_path: Path) -> None:
    """A file that one left, and another chat, are not."""
    settings = Settings(data_dir=tmp_path)
    with announce(tmp_path, url="http://x", enroll="e", public_key="k", adapters=("web", "slack")):
        assert sought(tmp_path, "ann")[0] == "T1/UANN"
        holding = subprocess.Popen(
            [sys.executable, "-c", HELD, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with holding:
            assert holding.stdout is not None
            assert holding.stdout.readline() == "held\n"
            found = find_trial(Operator("ann").trial, settings, PEOPLE, "slack")
            assert isinstance(found, Finding) and "gateway down" in found.remedy
            assert sought(tmp_path, "bob", "discord") == ("7", "")
            holding.communicate("")


def test_names_are_replaced_wherever_they_stand(tmp_path: Path) -> None:
    """In what was sent, in texts, as members and in numbers, by the same each time; words that only
    begin so stay."""
    made = Recording()
    made.add("got", {"account": ["ann", "U1"]})
    made.add("sent", {"text": "for <@U1>, an annual card", "user_id": "U1"})
    made.add("got", {"user": {"id": "U1"}, "names": {"U1": True}, "number": 10**18, "ok": True})
    made.add("got", {"text": "changed by ann\nof ACME", "team": "ACME", "ts": 1790000000})
    made.save(tmp_path / "x")
    lines = [
        json.loads(one)["what"] for one in (tmp_path / "x").read_text(encoding="utf-8").splitlines()
    ]
    name, account = lines[0]["account"]
    assert lines[1] == {"text": f"for <@{account}>, an annual card", "user_id": account}
    assert lines[2]["user"] == {"id": account}
    assert lines[2]["names"] == {account: True}
    assert (lines[2]["ok"], "number-" in lines[2]["number"]) == (True, True)
    assert lines[3]["text"] == f"changed by {name}\nof {lines[3]['team']}"
    assert (lines[3]["team"] != "ACME", lines[3]["ts"]) == (True, 1790000000)
