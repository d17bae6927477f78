"""Rows 29 and 30 of the table of hostile inputs: what was approved is what is there at the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.client import CallableTransport, Client, Reply, requires_approval
from gateway.client.bound_files import ABSENT
from gateway.errors import InvalidRequest, Unverified
from gateway.models import Action, ApprovalRequest, Execution

Meanwhile = Callable[[ApprovalRequest], object]


class Stage:
    """A gated function that runs scripts, and what happens while a person looks."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.asked: list[ApprovalRequest] = []
        self.transport = CallableTransport(self._answer)
        self.meanwhile: Meanwhile = lambda request: None

    def _answer(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        self.meanwhile(request)
        return True

    def run(self, path: Path) -> None:
        """Run a script with leave."""
        with Client(self.transport) as client:
            requires_approval(client=client, files=["path"], tool="run")(self._run)(path=str(path))

    def _run(self, path: str) -> None:
        self.ran.append(Path(path).read_text())


@pytest.fixture
def stage() -> Stage:
    """Return a stage."""
    return Stage()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Return a script, in a folder that a link leads to."""
    (tmp_path / "honest").mkdir()
    (tmp_path / "evil").mkdir()
    for name in ("honest", "evil"):
        (tmp_path / name / "x.sh").write_text("same words")
    (tmp_path / "link").symlink_to("honest")
    return tmp_path / "link" / "x.sh"


def test_an_unchanged_file_runs(stage: Stage, script: Path) -> None:
    """The positive control; the approver is shown the real path beside the one that was named."""
    stage.run(script)
    assert stage.ran == ["same words"]
    real = script.parent.parent / "honest" / "x.sh"
    assert set(stage.asked[0].context.files) == {str(script), str(real.resolve())}


@pytest.mark.parametrize("change", ["edited", "removed", "a folder"])
def test_row_29_a_script_that_was_changed_while_it_waited_does_not_run(
    stage: Stage, script: Path, change: str
) -> None:
    """Whoever changed it: what was read by the approver is gone."""

    def meanwhile(request: ApprovalRequest) -> None:
        if change == "edited":
            script.write_text("other words")
            return
        script.unlink()
        if change == "a folder":
            script.mkdir()

    stage.meanwhile = meanwhile
    with pytest.raises(Unverified, match="was changed after the request was submitted"):
        stage.run(script)
    assert stage.ran == []
    assert [report.execution for _, report in stage.transport.reports] == [Execution.SKIPPED]


@pytest.mark.parametrize("turned", ["folder", "file"])
def test_row_30_a_link_that_was_turned_while_it_waited_is_not_followed(
    stage: Stage, script: Path, turned: str
) -> None:
    """Even to a file that says the same."""

    def meanwhile(request: ApprovalRequest) -> None:
        link = script.parent if turned == "folder" else script
        link.unlink()
        link.symlink_to(script.parent.parent / "evil" if turned == "folder" else "../evil/x.sh")

    stage.meanwhile = meanwhile
    with pytest.raises(Unverified):
        stage.run(script)
    assert stage.ran == []


def test_a_file_that_was_not_there_must_not_be_there(stage: Stage, tmp_path: Path) -> None:
    """What is to be written anew overwrites nothing that came meanwhile."""
    new = tmp_path / "new.txt"
    stage.meanwhile = lambda request: new.write_text("x")
    with pytest.raises(Unverified):
        stage.run(new)
    assert set(stage.asked[0].context.files.values()) == {ABSENT}


def test_an_edit_cannot_name_another_file(script: Path) -> None:
    """Nobody looked at that one."""
    ran: list[str] = []
    other = script.parent.parent / "evil" / "x.sh"
    edit = Reply(action=Action.EDIT, arguments={"path": str(other)})
    with Client(CallableTransport(lambda request: edit)) as client:

        @requires_approval(client=client, files=["path"])
        def run(path: str) -> None:
            ran.append(path)

        with pytest.raises(Unverified, match="a different file"):
            run(str(script))
    assert ran == []


def test_what_cannot_be_bound_is_refused_at_once(stage: Stage, tmp_path: Path) -> None:
    """A folder has no content, a pipe or a device none that stays; a name that is no argument's is
    a mistake."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InvalidRequest, match="cannot bind"):
            stage.run(path)
    with pytest.raises(InvalidRequest, match="names 'pth', which is not an argument"):
        requires_approval(files=["pth"])(stage._run)
    assert stage.asked == []
