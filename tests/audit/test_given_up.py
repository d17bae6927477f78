"""An archive that lost segments: nothing goes on by itself, and a person can have it go on."""

from __future__ import annotations

import asyncio
import gzip
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.cli import main as command
from gateway.domain.audit import Verification, verify
from gateway.stores.archive_folder import Archive, ArchiveProblem, name_numbers
from gateway.stores.archiver import Archiver, Trimming
from gateway.stores.audit import export
from gateway.stores.requests import RedisStore
from tests.audit.test_archive import AT_ONCE, archived, forgotten, reopened, sealed
from tests.world import World

LOSSES = [[1, 2, 3, 4], [3, 4], [4], [1], [2, 3], [1, 3]]


class Told:
    """`gateway archive give-up` on a namespace, and what it prints."""

    def __init__(self, world: World, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.world, self.folder = world, folder / world.store.keys.namespace
        self._capsys = capsys

    async def run(self, *words: str) -> tuple[int, str]:
        """Run it; return its exit code and what it said."""
        code = await asyncio.to_thread(command, ["archive", "give-up", *words])
        said = self._capsys.readouterr()
        return code, said.out + said.err

    def store(self) -> RedisStore:
        """Return the store of a gateway that starts now."""
        return reopened(self.world, self.folder)

    async def fill(self, count: int = 4) -> None:
        """Archive so many segments."""
        for _ in range(count):
            await sealed(self.world, requests=1)
            assert await archived(self.store()) == 1

    def lose(self, numbers: Sequence[int]) -> None:
        """Have these segments gone."""
        for number in numbers:
            Archive(self.folder).path(number).unlink()

    async def verified(self) -> Verification:
        """Return what verify says of the export."""
        return verify([line async for line in export(self.store())])


@pytest.fixture
def told(
    world: World,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    server_url: str,
) -> Told:
    """Return the command for the world's namespace."""
    monkeypatch.setenv("REDIS_URL", server_url)
    monkeypatch.setenv("GATEWAY_NAMESPACE", world.store.keys.namespace)
    monkeypatch.setenv("GATEWAY_ARCHIVE", str(tmp_path))
    return Told(world, tmp_path, capsys)


@pytest.mark.parametrize("lost", LOSSES, ids=str)
async def test_what_is_lost_is_given_up_and_all_else_is_read(told: Told, lost: list[int]) -> None:
    """The whole folder, its end, its beginning, its middle: archiving goes on, what there is can be
    read, and verify names what is not."""
    await told.fill()
    whole = await told.store().history(None, 999)
    kept = [event for event in whole if _segment_of(told, event.id) not in lost]
    told.lose(lost)
    code, said = await told.run()
    assert (code, f"{len(lost)} of 4 segments are lost: {name_numbers(lost)}" in said) == (1, True)
    with pytest.raises(ArchiveProblem):
        await told.store().history(None, 999)
    code, said = await told.run("--yes", "--by", "root")
    assert (code, "archives again" in said) == (0, True)
    events = await told.store().history(None, 999)
    assert events[: len(kept)] == kept
    assert [(one.type, one.data) for one in events[len(kept) :]] == [
        ("archive_given_up", {"by": "root", "segments": name_numbers(lost)})
    ]
    assert (await told.store().audit.latest(99))[-1] == events[-1]
    await told.fill(2)
    assert Archive(told.folder).numbers() == [1, 2, 3, 4, 5, 6]
    found = await told.verified()
    named = [one for one in found.problems if "cannot be read: root gave it up on" in one]
    assert [f"segment {number} " in one for number, one in zip(lost, named, strict=True)] == [
        True for _ in lost
    ]
    rest = [one for one in found.problems if one not in named]
    assert all("a seal is missing" in one for one in rest), rest
    assert found.events == len(await told.store().history(None, 999))
    assert (await told.run())[0] == 0


def _segment_of(told: Told, event_id: str) -> int:
    archive = Archive(told.folder)
    for number in archive.numbers():
        if event_id.encode() in gzip.decompress(archive.path(number).read_bytes()):
            return number
    return 0


async def test_a_running_gateway_archives_nothing_into_a_folder_that_was_lost(
    told: Told,
) -> None:
    """Also one that has read the folder before: it looks at the disk each time. When it is given
    up, the same gateway goes on."""
    await told.fill()
    store = told.store()
    await told.world.store.redis.delete(store.keys.of("archive", "claim"))
    running = Archiver(store, Trimming(store), AT_ONCE)
    await running.archive_all()
    mark = await store.audit.mark()
    shutil.rmtree(told.folder)
    await sealed(told.world)
    with pytest.raises(ArchiveProblem, match="missing"):
        await running.archive_all()
    assert await store.audit.mark() == mark
    assert await store.redis.xlen(store.keys.events) > 0
    assert (await told.run("--yes"))[0] == 0
    assert await running.archive_all() == 1
    assert (await store.audit.mark()).segments == range(1, 6)
    assert (await told.verified()).events == await store.redis.xlen(store.keys.events) + len(
        [line for line in Archive(told.folder).read(5) if "event" in line]
    )


async def test_what_is_there_is_never_given_up(told: Told) -> None:
    """Nothing is lost, nothing is named, or it is another one's folder: nothing is written."""
    await told.fill(2)
    files = {path: path.read_bytes() for path in told.folder.iterdir()}
    code, said = await told.run("--yes")
    assert (code, "nothing is lost: all 2 segments" in said) == (0, True)
    await told.world.store.redis.hset(
        told.world.store.keys.meta, "archived", "1 2 99-0 " + "0" * 64
    )
    code, said = await told.run("--yes")
    assert code != 0
    assert "is the archive of another Redis" in said
    assert {path: path.read_bytes() for path in told.folder.iterdir()} == files


async def test_without_a_folder_it_says_which_to_name(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be lost before anybody said where it is."""
    await told.fill(1)
    monkeypatch.delenv("GATEWAY_ARCHIVE")
    code, said = await told.run("--yes")
    assert code != 0
    assert "GATEWAY_ARCHIVE" in said


async def test_a_damaged_segment_stays_beside_its_place(told: Told) -> None:
    """Somebody may mend it later; given up a second time, nothing is overwritten."""
    await told.fill(2)
    archive = Archive(told.folder)
    for _ in range(2):
        archive.path(1).write_bytes(b"torn")
        assert (await told.run("--yes", "--by", "r" * 9999))[0] == 0
    beside = [path.read_bytes() for path in told.folder.glob("*.lost")]
    assert beside == [b"torn", b"torn"]
    assert Archive(told.folder).numbers() == [1, 2]


async def test_retention_ends_what_was_given_up(told: Told) -> None:
    """In its time it goes like any segment, and verify has nothing to say any more."""
    await told.fill(3)
    told.lose([1, 2])
    assert (await told.run("--yes"))[0] == 0
    await sealed(told.world)
    await forgotten(told.store())
    assert Archive(told.folder).numbers() == []
    assert (await told.verified()).problems == []


def test_numbers_are_named_in_runs() -> None:
    """As people write them."""
    assert name_numbers([7, 1, 2, 3, 9, 10]) == "1 to 3, 7, 9 to 10"
    assert name_numbers([]) == ""
