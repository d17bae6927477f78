"""Folder grants against a real disk: what a path names, and what it leads to."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from gateway.domain.records import StoredRequest
from gateway.models import Context, Kind
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import ANY_TOOL, Grant, Match, Shape
from gateway.policy.grants.offers import Offer, offers
from tests.grants.making import allowed, asked, command, granted, remembered


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return a folder with a workspace and something beside it that nobody remembered."""
    (tmp_path / "ws" / "sub").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("inside")
    (tmp_path / "out" / "k").write_text("outside")
    (tmp_path / "ws" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "ws" / "file-link").symlink_to(tmp_path / "out" / "k")
    return tmp_path


def reading(disk: Path, path: str, *, resolved: bool = True, cwd: str | None = None) -> bool:
    """Whether the grant for the workspace covers reading a path, as an agent's side tells it."""
    place = str(disk / "ws")
    context = Context(cwd=place)
    folder = remembered(asked("read", arguments={"path": f"{place}/a.txt"}, context=context))
    whole = path if path.startswith("/") else f"{cwd or place}/{path}"
    files = {os.path.realpath(whole): "0" * 64} if resolved else {}
    context = Context(cwd=cwd or place, files=files)
    return allowed([folder], asked("read", arguments={"path": path}, context=context))


def test_what_lies_there_is_covered(disk: Path) -> None:
    """The positive control: by its whole name, a relative one, with slashes too many."""
    for path in ("a.txt", "./a.txt", "sub/", "sub//", f"{disk}/ws/a.txt", f"{disk}/ws//a.txt",
                 f"{disk}///ws/./sub/./x"):  # fmt: skip
        assert reading(disk, path), path


def test_a_link_out_of_the_folder_is_asked_about(disk: Path) -> None:
    """Wherever in the path it stands; what is not resolved is known by its name only."""
    for path in ("link/k", "file-link", "link/", f"{disk}/ws/link/k", "sub/../link/k"):
        assert not reading(disk, path), path
    assert reading(disk, "file-link", resolved=False)


def test_a_link_that_is_turned_later_is_another_path(disk: Path) -> None:
    """Each request is resolved anew, so that an earlier yes helps nobody."""
    turned = disk / "ws" / "turned"
    turned.symlink_to(disk / "ws" / "sub")
    assert reading(disk, "turned/x")
    turned.unlink()
    turned.symlink_to(disk / "out")
    assert not reading(disk, "turned/k")


def test_a_path_that_climbs_is_asked_about(disk: Path) -> None:
    """Even back into the folder: behind a link `..` leads elsewhere than the text says."""
    for path in ("../out/k", "sub/../a.txt", "link/../ws/a.txt", f"{disk}/ws/../out/k", ".."):
        assert not reading(disk, path), path


def test_a_path_that_depends_on_who_looks_is_asked_about(disk: Path) -> None:
    """/proc/self is another folder to each process, and /dev/fd another file."""
    for path in ("/proc/self/cwd/a.txt", "/proc/self/root/etc/hosts", "/proc/thread-self/cwd/x",
                 f"/proc/{os.getpid()}/cwd/a.txt", "/dev/fd/3", "/dev/stdin"):  # fmt: skip
        assert not reading(disk, path, resolved=False), path
        made = asked("read", arguments={"path": path}, context=Context(cwd="/ws"))
        assert not patterns(made)


def test_two_spellings_of_a_name_are_not_one(disk: Path) -> None:
    """Case and the forms of Unicode: the same file on some disks, another one on others."""
    place = str(disk / "ws")
    (disk / "ws" / "Änderung.txt").write_text("x")
    assert reading(disk, unicodedata.normalize("NFC", "Änderung.txt"))
    for path in (unicodedata.normalize("NFD", "Änderung.txt"), place.upper() + "/a.txt",
                 f"{place[:-2]}WS/a.txt", f"{place}\u200b/a.txt"):  # fmt: skip
        assert not reading(disk, path, resolved=False), path
    for secret in (".ENV", ".Ssh/config", "ID_RSA", ".GIT/config"):
        assert not reading(disk, secret, resolved=False), secret


def test_a_hard_link_is_known_by_its_content(disk: Path) -> None:
    """No path tells that a name is a hard link: what the decision binds is what stands in it."""
    os.link(disk / "out" / "k", disk / "ws" / "hard")
    assert reading(disk, "hard")


def test_a_relative_place_to_work_is_none(disk: Path) -> None:
    """Relative to what? Nothing is covered from there, and from elsewhere neither."""
    for cwd in (".", "ws", "~", "../ws", str(disk / "out"), f"{disk}/ws/../ws"):
        assert not reading(disk, "a.txt", resolved=False, cwd=cwd), cwd
    context = Context(cwd="ws")
    assert not patterns(command("cat a", context=context))


def edits(path: str, cwd: str | None) -> bool:
    """Whether a pass for edits covers a change."""
    match = Match(shape=Shape.EDITS, tool=ANY_TOOL)
    grant: Grant = granted(match, session="default", expires_at=1000)
    change = asked("write", kind=Kind.FILE_CHANGE, arguments={"path": path, "text": "x"},
                   context=Context(cwd=cwd))  # fmt: skip
    return covers(grant, change) == "yes"


def test_an_agent_does_not_widen_a_pass_by_saying_where_it_works() -> None:
    """It says its own folder: the disk's root, the system's and delicate ones are no workplace."""
    for path, cwd in (
        ("a.py", "/home/ann/app"), ("/usr/src/app/a", "/usr/src/app"), ("a", None),
        ("a.py", "/opt/app"), ("a", "/home/ann/app/.claude/worktrees/x"),
    ):  # fmt: skip
        assert edits(path, cwd), (path, cwd)
    for path, cwd in (
        ("/home/ann/x", "/"), ("passwd", "/etc"), ("x", "/etc/app"), ("x", "/usr/lib/x"),
        ("pre-commit", "/ws/.git/hooks"), ("config", "/home/ann/.ssh"), ("x", "/ws/.git"),
        ("x", "/home/ann/.config/autostart"), ("/proc/self/cwd/x", "/proc/self/cwd"),
        ("x", "/private/etc"), ("x", "relative"), ("../x", "/ws/a"),
    ):  # fmt: skip
        assert not edits(path, cwd), (path, cwd)


def patterns(record: StoredRequest) -> list[Offer]:
    """Return the patterns offered for a request."""
    return [one for one in offers(record) if one.match.shape is Shape.PATTERN]
