"""The embedded engine when processes are killed, started twice, or do not answer."""

import asyncio
import fcntl
import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
import redis.asyncio

import gateway
from gateway.stores import embedded_server as embedded
from gateway.stores.embedded_server import (
    EngineBusy,
    EngineFailed,
    engine_url,
    find_server_binary,
    running_engine,
)

pytestmark = pytest.mark.redis
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's parent-death signal")

GATEWAY_PROCESS = """
import asyncio, pathlib, sys
from gateway.stores.embedded_server import running_engine
async def main():
    async with running_engine(pathlib.Path(sys.argv[1])) as engine:
        print(engine.pid, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def connected(url: str) -> redis.asyncio.Redis:
    """Return a client with redis-py's own retries, as the gateway uses it."""
    return redis.asyncio.Redis.from_url(url, decode_responses=True)


@contextmanager
def watched_end(pid: int) -> Iterator["select.poll"]:
    """Watch the end of a process that is not ours to wait for; `poll(ms)` is empty until then."""
    descriptor = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    try:
        yield poll
    finally:
        os.close(descriptor)


@contextmanager
def gateway_process(data_dir: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run an engine in a process of its own; yields that process and its server's pid."""
    process = subprocess.Popen(
        [sys.executable, "-c", GATEWAY_PROCESS, str(data_dir)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(gateway.__file__).parent.parent)},
    )
    with process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.terminate()


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Hold a lock file through a descriptor of our own; fails when anyone else holds it."""
    with path.open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock.fileno()


@contextmanager
def orphan_server(data_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server on a used folder as a killed gateway leaves it: it alone holds the lock."""
    socket = data_dir / "engine.sock"
    (data_dir / "engine.socket-path").write_text(str(socket))
    places = f"--dir {data_dir} --unixsocket {socket} --aclfile {data_dir / 'users.acl'}"
    with held(data_dir / "server.lock") as lock:
        process = subprocess.Popen(
            [str(find_server_binary()), *embedded.SETTINGS.split(), *places.split()],
            stdout=subprocess.PIPE,
            pass_fds=[lock],
        )
    with process:
        assert process.stdout is not None
        while b"Ready to accept" not in process.stdout.readline():
            assert process.poll() is None
        try:
            yield process
        finally:
            process.kill()


class Events(logging.Handler):
    """Turns the supervisor's log records into something a test can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: asyncio.Queue[str] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the record's event name."""
        self.queue.put_nowait(record.__dict__["event"])

    async def next(self) -> str:
        """Wait for the next event, at most 5 s."""
        return await asyncio.wait_for(self.queue.get(), 15)


@pytest.fixture
async def events() -> AsyncIterator[Events]:
    """Yield what the engine logs from now on."""
    handler = Events()
    embedded.log.addHandler(handler)
    embedded.log.setLevel(logging.INFO)
    yield handler
    embedded.log.removeHandler(handler)
    embedded.log.setLevel(logging.NOTSET)


@pytest.fixture
def silent_binary(tmp_path: Path) -> Path:
    """Yield a program that runs but is no server."""
    binary = tmp_path / "silent"
    binary.write_text("#!/bin/sh\nexec sleep 60\n")
    binary.chmod(0o700)
    return binary


async def test_killed_server_comes_back_with_its_data(tmp_path: Path, events: Events) -> None:
    """After kill -9 of the server the same URL works again, with what was acknowledged."""
    async with running_engine(tmp_path) as engine, connected(engine.url) as client:
        await client.set("key", "acknowledged")
        assert await events.next() == "engine_started"
        os.kill(engine.pid, signal.SIGKILL)
        assert [await events.next(), await events.next()] == ["engine_down", "engine_started"]
        assert await client.get("key") == "acknowledged"
        assert int((await client.info("server"))["process_id"]) != engine.pid


async def test_restart_is_retried(tmp_path: Path, events: Events) -> None:
    """A restart that fails is said in the log and tried again until it works."""
    binary = tmp_path / "server"
    binary.symlink_to(find_server_binary())
    async with running_engine(tmp_path / "data", binary=binary) as engine:
        assert await events.next() == "engine_started"
        binary.rename(tmp_path / "away")
        os.kill(engine.pid, signal.SIGKILL)
        seen = [await events.next() for _ in range(3)]
        (tmp_path / "away").rename(binary)
        assert seen == ["engine_down", "engine_restart_failed", "engine_down"]
        assert await events.next() == "engine_started"
        assert engine_url(engine.data_dir) == engine.url


@linux_only
async def test_killed_gateway_leaves_no_orphan(tmp_path: Path) -> None:
    """After kill -9 of the gateway its server ends too, and the next start has the data."""
    with gateway_process(tmp_path) as (process, server_pid), watched_end(server_pid) as end:
        async with connected(engine_url(tmp_path) or "") as client:
            await client.set("key", "acknowledged")
        assert not end.poll(0)
        process.kill()
        assert end.poll(5_000)
    async with running_engine(tmp_path) as engine, connected(engine.url) as client:
        assert await client.get("key") == "acknowledged"


@linux_only
async def test_next_start_need_not_wait_for_the_old_server(tmp_path: Path) -> None:
    """A gateway started at once after kill -9 of another waits for its server and has its data."""
    with gateway_process(tmp_path) as (process, server_pid), watched_end(server_pid) as end:
        async with connected(engine_url(tmp_path) or "") as client:
            await client.set("key", "acknowledged")
        process.kill()
        process.wait(5)
        async with running_engine(tmp_path) as engine, connected(engine.url) as client:
            assert end.poll(0)
            assert await client.get("key") == "acknowledged"


async def test_second_gateway_is_refused(tmp_path: Path) -> None:
    """A second gateway on the folder is told who runs there and what to do; the first goes on."""
    with gateway_process(tmp_path) as (process, _):
        url = engine_url(tmp_path)
        with pytest.raises(EngineBusy, match=rf"process {process.pid}\b.*end it.*REDIS_URL"):
            async with running_engine(tmp_path):
                pass
        assert engine_url(tmp_path) == url is not None


async def test_orphan_is_shut_down_and_replaced(used: Path) -> None:
    """A server that outlived its gateway saves, ends, and only then another one starts."""
    with orphan_server(used) as orphan:
        async with connected(engine_url(used) or "") as client:
            await client.set("last", "words")
        async with running_engine(used) as engine, connected(engine.url) as client:
            assert await asyncio.to_thread(orphan.wait, 5) == 0
            assert engine.pid != orphan.pid
            assert await client.mget("before", "last") == ["kept", "words"]


async def test_no_second_server_while_one_holds_the_folder(used: Path) -> None:
    """When the folder's server cannot be shut down, the start fails in bounded time and says so."""
    waits = embedded.ServerTimeouts(orphan=0.2)
    (used / "server.lock").write_text("4711")
    impatient = pytest.raises(EngineFailed, match=r"process 4711.*end that process")
    with held(used / "server.lock"), impatient:
        async with running_engine(used, waits=waits):
            pass
    async with running_engine(used) as engine:
        assert engine_url(used) == engine.url


async def test_server_holds_its_lock_as_long_as_it_runs(tmp_path: Path) -> None:
    """`server.lock` is taken while the server runs and free once it ended."""
    lock = tmp_path / "server.lock"
    async with running_engine(tmp_path):
        with pytest.raises(BlockingIOError), held(lock):
            pass
    with held(lock):
        pass


async def test_truncated_tail_loads(used: Path) -> None:
    """A half-written last command, as a power cut leaves it, does not keep the data away."""
    with (used / "appendonlydir" / "appendonly.aof.1.incr.aof").open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$3\r\nhal")
    async with running_engine(used) as engine, connected(engine.url) as client:
        assert await client.get("before") == "kept"


async def test_stubborn_server_is_killed(tmp_path: Path, events: Events) -> None:
    """A server that ignores SIGTERM (here: stopped) is killed after the grace, data kept."""
    waits = embedded.ServerTimeouts(stop=0.1)
    async with running_engine(tmp_path, waits=waits) as engine:
        os.kill(engine.pid, signal.SIGSTOP)
    assert [await events.next(), await events.next()] == ["engine_started", "engine_killed"]
    with pytest.raises(ProcessLookupError):
        os.kill(engine.pid, 0)


async def test_failed_start_shows_the_servers_last_words(used: Path) -> None:
    """A start that fails names the cause and leaves no process that holds the folder."""
    with (used / "users.acl").open("a") as file:
        file.write("user broken +@nonsense\n")
    with pytest.raises(EngineFailed, match=r"(?s)last lines of its log:.*users\.acl"):
        async with running_engine(used):
            pass
    with held(used / "server.lock"):
        pass


async def test_silent_server_is_given_up(tmp_path: Path, silent_binary: Path) -> None:
    """A server that never answers is ended after a bounded wait: both locks are free again."""
    waits = embedded.ServerTimeouts(ready=0.3)
    with pytest.raises(EngineFailed, match="did not start"):
        async with running_engine(tmp_path / "data", binary=silent_binary, waits=waits):
            pass
    with held(tmp_path / "data" / "gateway.lock"), held(tmp_path / "data" / "server.lock"):
        pass


async def test_loading_much_data_is_waited_for(used: Path, tmp_path: Path) -> None:
    """A server that says "loading" is alive: it gets longer than it has to answer (here 1.2 s)."""
    async with running_engine(used) as engine, connected(engine.url) as client:
        await client.eval("for i = 1, 20000 do redis.call('SET', i, i) end", 0)
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\nexec "{find_server_binary()}" "$@" --key-load-delay 50\n')
    slow.chmod(0o700)
    waits = embedded.ServerTimeouts(ready=1.2)
    async with (
        running_engine(used, binary=slow, waits=waits) as engine,
        connected(engine.url) as client,
    ):
        assert await client.dbsize() == 20001


@linux_only
def test_server_is_not_started_for_a_dead_gateway() -> None:
    """A gateway that dies before the parent-death signal is armed leaves no server either."""
    not_our_pid = str(os.getppid())
    command = [sys.executable, "-I", "-S", "-c", embedded.TRAMPOLINE, not_our_pid, "/bin/echo", "x"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the gateway ended before" in ended.stderr


async def test_interrupt_from_a_terminal_is_for_the_gateway_alone(tmp_path: Path) -> None:
    """The server has a session of its own, so Ctrl-C does not end it under the gateway."""
    async with running_engine(tmp_path) as engine:
        assert os.getsid(engine.pid) == engine.pid


async def test_cancelled_start_leaves_no_server(tmp_path: Path, silent_binary: Path) -> None:
    """Cancelling while the server starts ends it: both locks are free afterwards."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3), running_engine(tmp_path / "data", binary=silent_binary):
            pass
    with held(tmp_path / "data" / "gateway.lock"), held(tmp_path / "data" / "server.lock"):
        pass
