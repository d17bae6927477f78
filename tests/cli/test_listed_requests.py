"""Numbers of the list that was printed last: which request they mean, and when none."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from gateway.cli import listed_requests
from gateway.client.http_connection import HttpPool
from gateway.models import new_id
from tests.cli.shell import Shell
from tests.cli.test_answering import TWO_OF_TWO, agent, ask, http

__all__ = ["agent"]

AGAIN = "run `gateway pending`"


def kept_list(up: Shell) -> Path:
    """Return the file of this terminal's list."""
    (path,) = Path(up.env["GATEWAY_DATA_DIR"]).glob("listed-*.json")
    return path


def test_a_number_means_the_row_that_was_printed(up: Shell, agent: HttpPool) -> None:
    """Whatever is asked meanwhile; used twice it decides nothing else. It fits wherever an id of a
    request does, and several may be named together."""
    older, newer = ask(agent, new_id(), command="ls a"), ask(agent, new_id(), command="ls b")
    rows = up.run("pending").splitlines()
    assert [row[:5] for row in rows] == ["  1  ", "     ", "     ", "  2  ", "     ", "     "]
    later = ask(agent, new_id(), command="rm -rf /")
    said = up.run("approve", "2")
    assert '"ls a"' in said and older in said
    assert "decided already" in up.run("approve", "2", code=10)
    assert newer in up.run("show", "1") and "exactly this" in up.run("grant", "offers", "1")
    assert f"{newer}@2" in up.run("deny", "1")
    assert up.run("pending").splitlines()[0].startswith("  1  ⚠️ ")
    last = ask(agent, new_id(), command="ls c")
    up.run("pending")
    assert {f"{one}@2" for one in (last, later)} <= set(up.run("deny", "1", "2").split())


def test_a_number_that_fits_no_row_decides_nothing(up: Shell, agent: HttpPool) -> None:
    """None before a list, beyond its end, 0, and in a list that was empty; a longer one is the
    beginning of an id, as ever."""
    asked = ask(agent, f"1{'0' * 31}", command="ls")
    for words in (("approve", "1"), ("deny", "1"), ("show", "1"), ("grant", "offers", "1")):
        assert AGAIN in up.run(*words, code=2)
    up.run("pending")
    for number in ("0", "2", "999"):
        assert "the list has 1 rows, and no number" in up.run("approve", number, code=2)
        assert AGAIN in up.run("deny", number, code=2)
    assert AGAIN in up.run("approve", "1", "2", code=2)
    assert asked in up.run("pending", "--json")
    assert "1 rows" not in up.run("deny", "1000")
    assert up.run("pending") == "nothing waits\n"
    assert "the list has 0 rows" in up.run("approve", "1", code=2)


def test_what_was_changed_since_it_was_printed_is_not_decided(
    up: Shell, agent: HttpPool, tmp_path: Path
) -> None:
    """Neither approved nor denied, until it is listed again."""
    made = json.loads(up.run("approver", "add", "dana", "--json"))
    path = tmp_path / "policy.toml"
    path.write_text(TWO_OF_TWO, encoding="utf-8")
    up.run("apply", str(path))
    asked = ask(agent, new_id(), command="ls")
    assert "· needs: 2 people · may approve: " in up.run("pending")
    edit = {"action": "edit", "revision": 1, "arguments": {"command": "ls -a"}}
    with http(up, made["token"]) as dana:
        dana.call("POST", f"/v1/requests/{asked}/decide", edit)
    for verb in ("approve", "deny"):
        up.run(verb, "1", code=10)
    assert json.loads(up.run("show", asked, "--json"))["status"] == "pending"
    listed = up.run("pending")
    assert "ls -a" in listed and '· approved by: "dana" · ' in listed
    assert "ls -a" in up.run("approve", "1")


def test_a_list_of_somebody_else_or_elsewhere_is_none(
    up: Shell, agent: HttpPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another person, another gateway, another window, or too old; also a file that others
    could write, or that is no list."""
    asked = ask(agent, new_id(), command="ls")
    dana = json.loads(up.run("approver", "add", "dana", "--json"))["token"]
    up.run("pending")
    path = kept_list(up)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert dana not in path.read_text() and "127.0.0.1" not in path.read_text()
    assert AGAIN in up.run("deny", "1", code=2, env={"GATEWAY_APPROVER_TOKEN": dana})
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(os, "getsid", lambda _: 1)
        assert AGAIN in up.run("deny", "1", code=2)
    good = json.loads(path.read_text())
    for wrong in ({"of": "another"}, {"at": good["at"] - 15 * 60_000 - 1}, {"at": 10**15}):
        path.write_text(json.dumps(good | wrong))
        assert AGAIN in up.run("deny", "1", code=2), wrong
    path.write_text("{}")
    assert AGAIN in up.run("deny", "1", code=2)
    path.write_text(json.dumps(good))
    path.chmod(0o644)
    assert "open to other users" in up.run("deny", "1", code=2)
    path.chmod(0o600)
    assert json.loads(up.run("show", asked, "--json"))["status"] == "pending"
    assert asked in up.run("deny", "1")


def test_rows_without_a_kept_list_have_no_number(
    up: Shell, agent: HttpPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where nothing can be written, on later pages, and in JSON: the list before stays as it
    was printed. The files of windows that were closed do not pile up."""
    shown = ask(agent, new_id(), command="ls a")
    up.run("pending")
    closed = kept_list(up).with_name("listed-1.json")
    closed.write_text("{}")
    os.utime(closed, (0, 0))
    ask(agent, new_id(), command="ls b")
    up.run("pending", "--json")
    more = up.run("pending", "--limit", "1", "--json")
    assert len(more.splitlines()) == 1
    with monkeypatch.context() as full:

        def refuse(*_: object) -> None:
            raise OSError("no space left")

        full.setattr(listed_requests, "write_private", refuse)
        assert up.run("pending").startswith('agent "sly" wants to call ')
    assert shown in up.run("show", "1")
    first = up.run("pending", "--limit", "1").splitlines()
    words = first[-1].removeprefix("for more: gateway ").split()
    assert up.run(*words).startswith('agent "sly" wants to call ')
    assert shown not in up.run("show", "1")
    assert not closed.exists()


def test_a_high_risk_and_a_cut_row_take_yes_by_number_too(
    up: Shell, agent: HttpPool, tmp_path: Path
) -> None:
    """A number saves typing, and nothing else."""
    path = tmp_path / "policy.toml"
    path.write_text(
        '[[people]]\nname = "owner"\nadmin = true\n[[routes]]\napprovers = ["owner"]\n'
        '[[risks]]\nname = "r"\ntools = ["danger"]\nlevel = "high"\nreason = "it is"\n',
        encoding="utf-8",
    )
    up.run("apply", str(path))
    ask(agent, new_id(), tool="danger", command="ls")
    ask(agent, new_id(), command="x" * 400)
    up.run("pending")
    assert "does not fit its row" in up.run("approve", "1", code=2)
    assert "the request is high risk" in up.run("approve", "2", code=2)
    for number in ("1", "2"):
        assert "owner approved" in up.run("approve", number, "--yes")
