"""The connection that carries all scripts: in order, for everyone, over every interruption."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import hiredis
import pytest
from redis.exceptions import NoScriptError, RedisError, ResponseError

from gateway import line as line_module
from gateway.line import Line
from gateway.stores.connect import connect, line_to

ECHO = "return ARGV[1]"


@pytest.fixture
async def line(server_url: str) -> AsyncIterator[Line]:
    """Yield a line to the real server."""
    async with line_to(server_url) as made:
        assert made is not None
        yield made


async def cut(server_url: str) -> None:
    """Kill every connection that clients have to the server."""
    client = connect(server_url)
    await client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await client.aclose()


async def test_everyone_gets_their_own_answer(line: Line) -> None:
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


async def test_what_is_sent_at_once_is_answered_at_once(line: Line) -> None:
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


async def test_an_unknown_script_is_told_apart(line: Line) -> None:
    """The caller then sends the text."""
    with pytest.raises(NoScriptError):
        await line.evalsha("0" * 40, 0)


async def test_whoever_stops_waiting_disturbs_nobody(line: Line) -> None:
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
    line: Line, server_url: str
) -> None:
    """Cut while idle, and again while scripts are on their way: all are answered."""
    await line.eval(ECHO, 0, "connects")
    await cut(server_url)
    assert await line.eval(ECHO, 0, "after") == "after"
    asking = [asyncio.create_task(line.eval(ECHO, 0, number)) for number in range(50)]
    await cut(server_url)
    assert await asyncio.gather(*asking) == [str(number) for number in range(50)]


async def test_a_server_that_does_not_answer_is_asked_again(
    line: Line, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection on which an answer stays away is given up, and the script is sent anew."""
    await line.eval(ECHO, 0, "connects")
    monkeypatch.setattr(line_module, "_ANSWER_SECONDS", 0.02)
    client = connect(server_url)
    await client.execute_command("CLIENT", "PAUSE", 60, "WRITE")
    assert await line.eval(ECHO, 0, "patient") == "patient"
    await client.aclose()


async def test_a_closed_line_stays_closed(line: Line) -> None:
    """Nobody reconnects a gateway that is ending."""
    await line.aclose()
    with pytest.raises(RedisError, match="closed"):
        await line.eval(ECHO, 0, "x")


async def test_a_cluster_has_no_line() -> None:
    """Its scripts go to the node that holds the keys."""
    async with line_to("redis+cluster://127.0.0.1:7000") as made:
        assert made is None


async def test_a_batch_is_seen_before_anybody_wakes(line: Line) -> None:
    """And a refused command is not seen at all."""
    order = list[str]()
    asked = asyncio.create_task(line.send("ECHO", "one", seen=order.append))
    asked.add_done_callback(lambda _: order.append("woken"))
    assert await asked == "one"
    await asyncio.sleep(0)
    assert order == ["one", "woken"]
    with pytest.raises(ResponseError):
        await line.send("NOSUCH", seen=order.append)
    assert order == ["one", "woken"]


@pytest.mark.parametrize("told", [b"?what\r\n", b"+one\r\n+unasked\r\n"])
async def test_a_server_that_talks_nonsense_is_left(told: bytes) -> None:
    """What is no reply, or answers nobody, ends the connection; the next call makes a new one."""
    greetings = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal greetings
        commands = hiredis.Reader()
        while sent := await reader.read(4096):
            commands.feed(sent)
            while command := commands.gets():
                answer = {b"HELLO": b"%1\r\n$5\r\nproto\r\n:3\r\n", b"ECHO": b"+fine\r\n"}
                greetings += command[0] == b"HELLO"
                spoilt = command[0] == b"ECHO" and greetings == 1
                writer.write(told if spoilt else answer.get(command[0], b"+OK\r\n"))
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = connect(f"redis://127.0.0.1:{port}/0")
    line = Line(client.connection_pool)
    with suppress(RedisError):
        assert await line.send("ECHO", "x") == "one"
    while (found := await line.send("ECHO", "x")) != "fine":
        assert found == "one"
    assert greetings == 2
    await line.aclose()
    await client.aclose()
    server.close()
    await server.wait_closed()
