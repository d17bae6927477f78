"""The pipes of a host that started `gateway mcp`, as streams of the protocol's messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from gateway.integrations.host_pipe import HostPipe, TooLong

LONGEST_MESSAGE = 16 * 1024 * 1024

Read = MemoryObjectReceiveStream[SessionMessage | Exception]
Write = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def own_pipes() -> AsyncIterator[tuple[Read, Write]]:
    """Yield the streams of messages from and to the host."""
    to_us, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, to_host = anyio.create_memory_object_stream[SessionMessage](0)
    async with HostPipe.opened(longest=LONGEST_MESSAGE) as pipe, anyio.create_task_group() as tasks:
        tasks.start_soon(_take, pipe, to_us)
        tasks.start_soon(_give, pipe, to_host)
        try:
            yield read, write
        finally:
            tasks.cancel_scope.cancel()


async def _take(pipe: HostPipe, to_us: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    """Read messages until the host is gone, or nobody reads them any more."""
    async with to_us:
        while True:
            try:
                line = await pipe.next_line()
                if line is None:
                    return
                if line.strip():
                    read = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await to_us.send(SessionMessage(read))
            except TooLong as error:
                _refuse(pipe, str(error))
            except ValueError:
                _refuse(pipe, "that is no message of JSON-RPC 2.0")
            except anyio.BrokenResourceError:
                return


async def _give(pipe: HostPipe, to_host: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with to_host:
        async for told in to_host:
            pipe.write(told.message.model_dump_json(by_alias=True, exclude_unset=True).encode())


def _refuse(pipe: HostPipe, why: str) -> None:
    """Tell the host of a line that is passed over, such as a batch, whose ids nobody read."""
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=why)
    told = mcp_types.JSONRPCError(jsonrpc="2.0", id=None, error=error)
    pipe.write(told.model_dump_json(by_alias=True, exclude_unset=True).encode())
