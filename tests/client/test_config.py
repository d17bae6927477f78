"""How an agent finds its gateway, and whom it believes."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from gateway.client import AsyncClient
from gateway.client.blocking_client import current_client
from gateway.client.config import load, load_patiently
from gateway.errors import Conflict, InvalidRequest, Unauthorized
from gateway.server.app import run_gateway
from gateway.server.settings import Settings
from gateway.wire.local_discovery import FILE_NAME, announce, read_private, write_private
from tests.waiting import moment


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the shared folder of the test's own."""
    monkeypatch.setenv("GATEWAY_DATA_DIR", str(tmp_path / "state"))
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path / "state"


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o602, 0o620])
def test_a_file_that_others_can_reach_is_not_believed(folder: Path, mode: int) -> None:
    """Whoever wrote it would choose the gateway that approves."""
    path = folder / FILE_NAME
    write_private(path, json.dumps({"url": "http://127.0.0.1:1", "enroll": "x"}))
    path.chmod(mode)
    with pytest.raises(InvalidRequest, match="open to other users"):
        load()


def test_without_a_token_it_is_said_which_setting_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The address alone is no credential."""
    monkeypatch.setenv("GATEWAY_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("GATEWAY_TOKEN", raising=False)
    with pytest.raises(InvalidRequest, match="set GATEWAY_TOKEN, which `gateway agent add ci`"):
        AsyncClient.from_env("ci")


async def test_a_host_asks_by_its_own_name_where_nobody_says_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So rules and grants tell one from another; what is set holds."""
    for name in ("GATEWAY_AGENT", "GATEWAY_URL", "GATEWAY_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def ask_as(host: str | None) -> str:
        with current_client(host) as client:
            return client.agent

    async with run_gateway(Settings(data_dir=folder, port=0, adapters=())):
        assert await asyncio.to_thread(ask_as, "openai-agents") == "openai-agents"
        assert await asyncio.to_thread(ask_as, None) == "local"
        monkeypatch.setenv("GATEWAY_AGENT", "mine")
        assert await asyncio.to_thread(ask_as, "openai-agents") == "mine"


async def test_a_gateway_that_starts_beside_its_agent_is_found(folder: Path) -> None:
    """The agent says what it waits for, and goes on once the gateway is announced."""
    said: list[str] = []
    async with run_gateway(Settings(data_dir=folder, port=0, adapters=())):
        (folder / FILE_NAME).rename(folder / "not yet")
        loading = asyncio.create_task(asyncio.to_thread(load_patiently, "ci", said.append))
        while not said:
            await moment()
        (folder / "not yet").rename(folder / FILE_NAME)
        assert (await loading).token
    assert "waiting for the gateway, for 3 s at most: no gateway is configured" in said[0]


def test_a_private_file_is_on_the_disk_before_it_has_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its name before anybody relies on it: a power cut leaves no key that is an empty file."""
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"
        steps.append(f"{kind} synced with {os.fstat(handle).st_size if kind == 'file' else 'it'}")
        fsync(handle)

    def renamed(old: str, new: str) -> None:
        steps.append("named")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write_private(folder / "key", "five!")
    assert steps == ["file synced with 5", "named", "folder synced with it"]
    assert (folder / "key").read_text() == "five!"


@pytest.mark.parametrize("why", [errno.EINVAL, errno.EIO])
def test_a_file_system_that_syncs_no_folders_serves(
    folder: Path, monkeypatch: pytest.MonkeyPatch, why: int
) -> None:
    """The file is in place by then. A disk that fails is no such file system."""
    fsync = os.fsync

    def synced(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(why, os.strerror(why))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    expected = nullcontext() if why == errno.EINVAL else pytest.raises(OSError, match="output")
    with expected:
        write_private(folder / "key", "five!")
    assert (folder / "key").read_text() == "five!"


def test_a_file_of_another_user_is_not_believed(folder: Path) -> None:
    """Also when its mode says that it is private."""
    path = folder / FILE_NAME
    write_private(path, "{}")
    if os.geteuid():
        path = Path("/etc/passwd")
    else:
        os.chown(path, 1, 1)
    with pytest.raises(InvalidRequest, match="belongs to another user"):
        read_private(path)


def test_links_pipes_and_garbage_are_not_believed(folder: Path) -> None:
    """Each with a sentence, none with a hang or a traceback."""
    path, elsewhere = folder / FILE_NAME, folder / "elsewhere"
    write_private(elsewhere, json.dumps({"url": "http://127.0.0.1:1", "enroll": "x"}))
    path.symlink_to(elsewhere)
    with pytest.raises(InvalidRequest, match="cannot be read"):
        load()
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(InvalidRequest, match="not a regular file"):
        load()
    for text in ("{", "[]"):
        write_private(path, text)
        with pytest.raises(InvalidRequest, match="not contain a JSON object"):
            load()


def test_a_kept_credential_that_others_can_reach_is_not_used(folder: Path) -> None:
    """It names the gateway too."""
    write_private(folder / FILE_NAME, json.dumps({"url": "http://127.0.0.1:1", "enroll": "x"}))
    (folder / "agents").mkdir(mode=0o700)
    kept = folder / "agents" / "local.json"
    write_private(kept, json.dumps({"url": "http://127.0.0.1:1", "token": "x"}))
    assert load(check=False).token == "x"
    kept.chmod(0o666)
    with pytest.raises(InvalidRequest, match="open to other users"):
        load(check=False)


async def test_processes_that_enrol_at_once_share_one_credential(folder: Path) -> None:
    """A second enrolment would end the first one's token in the middle of its first request."""
    async with run_gateway(Settings(data_dir=folder, port=0, adapters=())):
        made = await asyncio.gather(*(asyncio.to_thread(load, "ci") for _ in range(4)))
    assert len({config.token for config in made}) == 1


async def test_a_file_of_a_gateway_that_was_killed(folder: Path) -> None:
    """Another one answers at its address: the agent is told what to do, not "unauthorized"."""
    async with run_gateway(Settings(data_dir=folder, port=0, adapters=())):
        found = read_private(folder / FILE_NAME)
        write_private(folder / FILE_NAME, json.dumps({**(found or {}), "enroll": "of-another"}))
        with pytest.raises(Unauthorized, match="Start `gateway up` again"):
            await asyncio.to_thread(load, "ci")


def test_a_gateway_takes_down_its_own_announcement_alone(folder: Path) -> None:
    """Another one that started on the folder meanwhile stays announced."""
    with announce(folder, url="http://127.0.0.1:1", enroll="x", public_key="k"):
        write_private(folder / FILE_NAME, json.dumps({"url": "http://127.0.0.1:2"}))
    assert read_private(folder / FILE_NAME) == {"url": "http://127.0.0.1:2"}
    with announce(folder, url="http://127.0.0.1:1", enroll="x", public_key="k"):
        pass
    assert read_private(folder / FILE_NAME) is None


async def test_naming_an_agent_never_takes_its_token(folder: Path) -> None:
    """An agent that an operator made keeps its token; a local process that only names it is told
    to bring it. One that enrolment made gets another when its file is lost."""
    settings = Settings(data_dir=folder, port=0, adapters=())
    async with run_gateway(settings) as gateway:
        credentials = gateway.backend.credentials
        remote = await credentials.add_agent("x")
        with pytest.raises(Conflict, match="set GATEWAY_TOKEN"):
            await asyncio.to_thread(load, "x")
        assert await credentials.authenticate(remote.token)
        first = await asyncio.to_thread(load, "ci")
        (folder / "agents" / "ci.json").unlink()
        second = await asyncio.to_thread(load, "ci")
        assert second.token != first.token
        # An operator took it over: it is no longer this machine's.
        given = await credentials.rotate_agent("ci")
        with pytest.raises(Conflict, match="set GATEWAY_TOKEN"):
            await asyncio.to_thread(load, "ci")
        assert await credentials.authenticate(given.token)


async def test_a_given_token_is_used_with_the_address_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is enrolled, and nothing is kept."""
    async with run_gateway(Settings(data_dir=folder, port=0, adapters=())) as gateway:
        made = await gateway.backend.credentials.add_agent("x")
        monkeypatch.setenv("GATEWAY_TOKEN", made.token)
        found = await asyncio.to_thread(load, "x")
        assert (found.url, found.token) == (gateway.url, made.token)
        assert not (folder / "agents").exists()
