"""`gateway ask --file`: what was changed while it waited does not run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.client.bound_files import hash_files
from gateway.models import Action, Status
from gateway.wire.codec import JsonObject
from tests.client.approving import deciding


def meanwhile(change: Callable[[], Any], **changes: Any) -> Callable[[bytes], bytes]:
    """Return an approval of what was asked, given after something was done to its files."""

    def reply(call: bytes) -> bytes:
        change()
        return deciding(**changes)(call)

    return reply


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a script in the working folder, in a folder that a link leads to."""
    monkeypatch.chdir(tmp_path)
    for name in ("honest", "evil"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.sh").write_text("same words")
    (tmp_path / "link").symlink_to("honest")
    return tmp_path / "link" / "x.sh"


FILES = ("ask", "shell", "--file", "link/x.sh", "--file", "log", "--", "link/x.sh")


def test_bound_files_are_asked_about_as_the_sdk_does(run: Any, script: Path) -> None:
    """Same paths, same digests, so that people and grants see the same; unchanged, it exits 0."""
    asked: list[JsonObject] = []

    def reply(call: bytes) -> bytes:
        asked.append(json.loads(call.partition(b"\r\n\r\n")[2])["request"])
        return deciding()(call)

    assert run(reply, words=FILES)[0] == 0
    files = asked[0]["context"]["files"]
    assert files == hash_files(["link/x.sh", "log"])
    assert files[str(script.resolve())] == hashlib.sha256(b"same words").hexdigest()


def test_a_file_in_this_folder_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As shells want it, with `./` before it; only a link on the way makes two of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.sh").write_text("words")
    assert list(hash_files(["./x.sh", ".//./x.sh", "x.sh"])) == [str(tmp_path / "x.sh")]
    (tmp_path / "link").symlink_to(".")
    assert len(hash_files(["link/../x.sh"])) == 2


def test_a_file_that_changed_meanwhile_exits_with_5_and_is_named(
    run: Any, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written, made, removed or turned by its link, also to the same words; nothing is printed."""
    link, log = script.parent, script.parent.parent / "log"

    def turned() -> None:
        link.unlink()
        link.symlink_to("evil")

    for change, named in (
        (lambda: log.write_text("x"), "log"),
        (turned, "x.sh"),
        (lambda: script.write_text("other words"), "x.sh"),
        (script.unlink, "x.sh"),
    ):
        log.unlink(missing_ok=True)
        answer_ = meanwhile(change, action=Action.EDIT, arguments={"command": "ls"})
        assert run(answer_, words=("ask", "shell", "--edit", *FILES[2:]))[0] == 5
        said = capsys.readouterr()
        assert said.out == ""
        assert f"{named} was changed after the request was submitted" in said.err


def test_a_denial_is_a_denial_whatever_became_of_the_files(run: Any, script: Path) -> None:
    """Nothing runs, so nothing is checked."""
    denied = meanwhile(script.unlink, status=Status.DENIED, action=Action.DENY)
    assert run(denied, words=FILES)[0] == 1
