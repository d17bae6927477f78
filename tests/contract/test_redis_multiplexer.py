"""The connection that carries all scripts: in order, for everyone, over every interruption."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import hiredis
import pytest
import redis.asyncio
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as Unanswered

from gateway.stores import ingress
from gateway.stores.connect import connect, line_to
from gateway.wire import redis_connection as line_module
from gateway.wire.redis_connection import DirectReplies, Multiplexer, PublicReplies, read_replies

ECHO = "return ARGV[1]"


class OnlyPublic:
    """A connection of another redis-py: what is private today has gone."""

    def __init__(self, connection: Any) -> None:
        self._real = connection

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._real, name)


@pytest.fixture(params=["direct", "public"], autouse=True)
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run every test twice: with redis-py's private attributes, and without them."""
    if request.param == "public":
        make = redis.asyncio.ConnectionPool.make_connection
        monkeypatch.setattr(
            redis.asyncio.ConnectionPool,
            "make_connection",
            lambda pool: OnlyPublic(make(pool)),  # type: ignore[no-untyped-call]
        )
    return str(request.param)


async def test_private_attributes_are_used_only_where_they_are(
    server_url: str, reading: str
) -> None:
    """Replies come from the transport, or through the public calls where it is out of reach."""
    made = connect(server_url, blocking=True)
    connection = made.connection_pool.make_connection()
    await connection.connect()
    lost = asyncio.get_running_loop().create_future()
    replies = read_replies(connection, lambda _: None, lost.set_result)
    assert isinstance(replies, DirectReplies if reading == "direct" else PublicReplies)
    replies.abort()
    assert "closed" in await lost
    await connection.disconnect()
    await made.aclose()


@pytest.fixture
async def line(server_url: str) -> AsyncIterator[Multiplexer]:
    """Yield a line to the real server."""
    async with line_to(server_url) as made:
        assert made is not None
        yield made


async def cut(server_url: str) -> None:
    """Kill every connection that clients have to the server."""
    client = connect(server_url)
    await client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await client.aclose()


async def test_everyone_gets_their_own_answer(line: Multiplexer) -> None:
    """Hundreds at once on one connection, some of which fail."""

    async def ask(number: int) -> str:
        if number % 7 == 0:
            with pytest.raises(ResponseError, match=f"no {number}"):
                await line.eval(f"return redis.error_reply('ERR no {number}')", 0)
            return str(number)
        answer: str = await line.eval(ECHO, 0, number)
        return answer

    answers = await asyncio.gather(*(ask(number) for number in range(300)))
    assert answers == [str(number) for number in range(300)]


async def test_what_is_sent_at_once_is_answered_at_once(line: Multiplexer) -> None:
    """In its order, whatever others send; an error among the answers is raised, and is nobody
    else's."""

    async def ask(number: int) -> list[str]:
        if number % 7 == 0:
            with pytest.raises(ResponseError):
                await line.send_all(("ECHO", "a"), ("NO", "SUCH"), ("NOR", "THIS"), ("ECHO", "b"))
            return [str(number)] * 3
        return await line.send_all(*(("ECHO", number),) * 3)

    answers = await asyncio.gather(*(ask(number) for number in range(300)))
    assert answers == [[str(number)] * 3 for number in range(300)]


async def test_a_command_is_not_lost_with_the_connection_that_had_not_sent_it(
    line: Multiplexer, server_url: str
) -> None:
    """Commands of one moment are sent together; if the connection ends before that, they are
    sent on the next one."""
    await line.send("PING")
    asked = [asyncio.ensure_future(line.send("ECHO", number)) for number in range(5)]
    await asyncio.sleep(0)  # each has handed over its command
    assert line._session is not None
    line._session._replies.abort()
    assert await asyncio.gather(*asked) == [str(number) for number in range(5)]


async def test_commands_of_one_moment_are_sent_together(
    line: Multiplexer, reading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call of the system carries them all, in their order."""
    await line.send("PING")
    assert line._session is not None
    replies = line._session._replies
    if isinstance(replies, PublicReplies):
        assert reading == "public"
        return
    sent: list[bytes] = []
    transport = replies._transport

    def write(packed: bytes) -> None:
        sent.append(packed)
        transport.write(packed)

    watched = SimpleNamespace(write=write, is_closing=transport.is_closing, abort=transport.abort)
    monkeypatch.setattr(replies, "_transport", watched)
    answers = await asyncio.gather(*(line.send("ECHO", number) for number in range(20)))
    assert answers == [str(number) for number in range(20)]
    assert len(sent) == 1


async def test_an_unknown_script_is_told_apart(line: Multiplexer) -> None:
    """The caller then sends the text."""
    with pytest.raises(NoScriptError):
        await line.evalsha("0" * 40, 0)


async def test_whoever_stops_waiting_disturbs_nobody(line: Multiplexer) -> None:
    """The answer of a cancelled call is dropped, and is not given to the next one."""
    first = asyncio.create_task(line.eval(ECHO, 0, "first"))
    second = asyncio.create_task(line.eval(ECHO, 0, "second"))
    await line.eval(ECHO, 0, "connects")
    third = asyncio.create_task(line.eval(ECHO, 0, "third"))
    await asyncio.sleep(0)
    third.cancel()
    assert await line.eval(ECHO, 0, "fourth") == "fourth"
    assert [await first, await second] == ["first", "second"]
    assert third.cancelled()


async def test_a_lost_connection_is_replaced_and_nothing_waits_for_ever(
    line: Multiplexer, server_url: str
) -> None:
    """Cut while idle, and again while scripts are on their way: all are answered."""
    await line.eval(ECHO, 0, "connects")
    await cut(server_url)
    assert await line.eval(ECHO, 0, "after") == "after"
    asking = [asyncio.create_task(line.eval(ECHO, 0, number)) for number in range(50)]
    await cut(server_url)
    assert await asyncio.gather(*asking) == [str(number) for number in range(50)]


async def test_a_server_that_does_not_answer_is_asked_again(
    line: Multiplexer, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection on which an answer stays away is given up, and the script is sent anew."""
    await line.eval(ECHO, 0, "connects")
    monkeypatch.setattr(line_module, "_ANSWER_SECONDS", 0.02)
    client = connect(server_url)
    await client.execute_command("CLIENT", "PAUSE", 60, "WRITE")
    assert await line.eval(ECHO, 0, "patient") == "patient"
    await client.aclose()


async def test_a_closed_line_stays_closed(line: Multiplexer) -> None:
    """Nobody reconnects a gateway that is ending."""
    await line.aclose()
    with pytest.raises(RedisError, match="closed"):
        await line.eval(ECHO, 0, "x")


async def test_a_cluster_has_no_line() -> None:
    """Its scripts go to the node that holds the keys."""
    async with line_to("redis+cluster://127.0.0.1:7000") as made:
        assert made is None


async def test_a_batch_is_seen_before_anybody_wakes(line: Multiplexer) -> None:
    """And a refused command is not seen at all."""
    order = list[str]()
    asked = asyncio.create_task(line.send("ECHO", "one", on_answer=order.append))
    asked.add_done_callback(lambda _: order.append("woken"))
    assert await asked == "one"
    await asyncio.sleep(0)
    assert order == ["one", "woken"]
    with pytest.raises(ResponseError):
        await line.send("NOSUCH", on_answer=order.append)
    assert order == ["one", "woken"]


HookOutput = Callable[[bytes, int], bytes]
HELLO = b"%1\r\n$5\r\nproto\r\n:3\r\n"


@asynccontextmanager
async def saying(said: HookOutput, **options: Any) -> AsyncIterator[Multiplexer]:
    """Yield a line to a server that answers an ECHO with what `said` makes of its word and of the
    number of the connection."""
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        number, commands = connections, hiredis.Reader()
        try:
            while sent := await reader.read(65536):
                commands.feed(sent)
                while command := commands.gets():
                    answer = HELLO if command[0] == b"HELLO" else b"+OK\r\n"
                    writer.write(said(command[1], number) if command[0] == b"ECHO" else answer)
        finally:  # also when it is cancelled before it reads the end
            writer.transport.abort()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = connect(f"redis://127.0.0.1:{port}/0", blocking=True)
    line = Multiplexer(client.connection_pool, **options)
    try:
        yield line
    finally:
        await line.aclose()
        await client.aclose()
        server.close()
        await server.wait_closed()


def spoilt(nonsense: bytes) -> HookOutput:
    """Say it on the first connection, and the truth on the next."""
    return lambda word, number: nonsense if number == 1 else b"+%s\r\n" % word


@pytest.mark.parametrize("nonsense", [b"?what\r\n", b"+x\r\n+unasked\r\n", b"$99\r\n" + b"x" * 99])
async def test_a_server_that_talks_nonsense_is_left(
    nonsense: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no reply, answers nobody, or is too large ends the connection; the next call makes a
    new one. redis-py's public calls have the limit from the pool's parser."""
    monkeypatch.setattr(ingress, "MOST_BYTES", 64)
    async with saying(spoilt(nonsense), most_bytes=64) as line:
        with suppress(Disconnected):
            assert await line.send("ECHO", "x") == "x"
        assert await line.send("ECHO", "fine") == "fine"


async def test_what_is_pushed_is_nobodys_answer() -> None:
    """A server may tell of its maintenance at any time, also between two answers."""
    push = b">2\r\n+MIGRATING\r\n:1\r\n"
    async with saying(lambda word, _: push + b"+%s\r\n" % word) as line:
        answers = await asyncio.gather(*(line.send("ECHO", word) for word in "abc"))
        assert answers == ["a", "b", "c"]


async def test_bytes_that_are_no_text_spoil_nothing_else() -> None:
    """Others write to the server too."""
    async with saying(lambda word, _: b"+%s\xff\r\n" % word) as line:
        answers = await asyncio.gather(*(line.send("ECHO", word) for word in "ab"))
        assert answers == ["a\ufffd", "b\ufffd"]


async def test_an_answer_that_cannot_be_used_is_told_at_once() -> None:
    """Whoever looks at it first may choke on it; who waits for it, and later callers, go on."""
    numbers = list[int]()

    def read(found: str) -> None:
        numbers.append(int(found))

    async with saying(lambda word, _: b"+%s\r\n" % word) as line:
        with pytest.raises(Disconnected, match="no number"):
            await line.send("ECHO", "no number", on_answer=read)
        assert await line.send("ECHO", "7", on_answer=read) == "7"
    assert numbers == [7]


def _silent(word: bytes, number: int) -> bytes:
    """Answer the first connection only what is not `quiet`."""
    return b"" if (number, word) == (1, b"quiet") else b"+%s\r\n" % word


async def test_a_server_that_falls_silent_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After it had answered others, and also when whoever asked first has left."""
    monkeypatch.setattr(line_module, "_ANSWER_SECONDS", 0.05)
    async with saying(_silent) as line:
        assert await line.send("ECHO", "talks") == "talks"
        with pytest.raises(Unanswered):
            await line.send("ECHO", "quiet")
        assert await line.send("ECHO", "quiet") == "quiet"
    async with saying(_silent) as line:
        assert await line.send("ECHO", "talks") == "talks"
        gone = asyncio.create_task(line.send("ECHO", "quiet"))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(Unanswered):
            await line.send("ECHO", "quiet")
        with suppress(asyncio.CancelledError):
            await gone


async def test_a_line_can_tell_that_it_was_cut_while_idle(server_url: str) -> None:
    """Whoever counts what came needs to know, once, before the next connection is used."""
    client = connect(server_url, blocking=True)
    line = Multiplexer(client.connection_pool, reports_loss=True)
    for _ in range(2):
        assert await line.send("ECHO", "x") == "x"
        await cut(server_url)
        with pytest.raises(Disconnected):
            await line.send("ECHO", "x")
    assert await line.send("ECHO", "x") == "x"
    await line.aclose()
    await client.aclose()
