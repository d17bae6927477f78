"""The command `gateway mcp`: parse its options, and run `proxy` or `server`. Start at `main`."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from gateway.client import AsyncClient
from gateway.client.config import is_installed
from gateway.client.transport import say_on_stderr
from gateway.errors import GatewayError, Misconfigured
from gateway.integrations.mcp.calls import CallGate, Connect
from gateway.models import Context
from gateway.wire.local_discovery import secret

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_FAILED = 1
_NO_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9.-]+")
_NOT_INSTALLED = (
    "`gateway mcp` needs an extra. Install the gateway as before, with it: approval-gateway[mcp]"
)


@asynccontextmanager
async def connecting(agent: str | None) -> AsyncIterator[Connect]:
    """Yield a function that returns the gateway's client. The first call creates the client. If
    that fails, the next call tries again."""
    clients: list[AsyncClient] = []
    making = asyncio.Lock()

    async def connect() -> AsyncClient:
        async with making:
            if not clients:
                client = await asyncio.to_thread(AsyncClient.from_env, agent, say=say_on_stderr)
                clients.append(await client.__aenter__())
            return clients[0]

    try:
        yield connect
    finally:
        for client in clients:
            await client.close()


def main(words: Sequence[str]) -> int:
    """Run `gateway mcp`; return the exit code."""
    given = options(words)
    try:
        if not is_installed("mcp"):
            raise Misconfigured(_NOT_INSTALLED)
        return asyncio.run(_proxy(given) if given.part == "proxy" else _serve(given))
    except GatewayError as error:
        sys.stderr.write(f"gateway mcp: {error}\n")
        return error.exit_code
    except (OSError, ValueError) as error:
        sys.stderr.write(f"gateway mcp: {error}\n")
        return _FAILED


async def _proxy(given: argparse.Namespace) -> int:
    from gateway.integrations.mcp import proxy  # noqa: PLC0415 (an extra)

    server = proxy.Server(
        command=tuple(given.command), url=given.url, token=_token(given.token_env)
    )
    where = Context(host=urlsplit(given.url).hostname) if given.url else None
    gone = False
    async with connecting(given.agent) as connect:
        make_gate = partial(CallGate, connect, given.name, where=where, timeout=given.timeout)
        if given.listen:
            from gateway.integrations.mcp import http  # noqa: PLC0415 (loads a web server)

            token = secret("GATEWAY_MCP_TOKEN")
            front = partial(http.ProxyServer, server.opened, make_gate, token=token)
            await http.listen(lambda near: front(loopback=near), given.listen, token)
            return 0
        try:
            async with proxy.own_pipes() as streams:
                gone = await proxy.serve(streams, server.opened, make_gate())
        except* OSError as errors:
            raise _first(errors) from None
    if gone:
        sys.stderr.write(f"gateway mcp: the server {given.name} has ended\n")
    return _FAILED if gone else 0


async def _serve(given: argparse.Namespace) -> int:
    from gateway.integrations.mcp import proxy, server  # noqa: PLC0415 (an extra)

    async with connecting(given.agent) as connect, proxy.own_pipes() as streams:
        tools = server.AskTools(connect, timeout=given.timeout)
        await tools.serve(streams)
    return 0


def _first(errors: BaseExceptionGroup[OSError]) -> OSError:
    """Return the first exception in a group, or in the groups that it contains."""
    inner: BaseException = errors
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    assert isinstance(inner, OSError)
    return inner


def _token(variable: str | None) -> str | None:
    """Return the token in an environment variable. Raises Misconfigured if the variable is not
    set."""
    if variable is None:
        return None
    token = os.environ.get(variable)
    if not token:
        raise Misconfigured(f"--token-env: the environment variable {variable} is not set")
    return token


def options(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Exits with a usage error."""
    parser = argparse.ArgumentParser(
        prog="gateway mcp",
        description="Gate the tool calls of MCP clients, see docs/integrations/mcp.md.",
    )
    parts = parser.add_subparsers(dest="part", required=True)
    proxy = parts.add_parser(
        "proxy",
        help="gate the tools of an MCP server",
        description="Relay an MCP server, and gate its tools: a call runs only after approval. "
        "Let the MCP client start this command instead of the server.",
    )
    add = proxy.add_argument
    add("command", nargs="*", metavar="COMMAND", help="command that starts the server, after --")
    add("--url", help="URL of the server (streamable HTTP), if no command starts it")
    add(
        "--token-env",
        metavar="VAR",
        help="name of the environment variable that contains the token for the URL",
    )
    add("--name", help="name of the server in rules and on cards: mcp__NAME__TOOL")
    add(
        "--listen",
        metavar="HOST:PORT",
        help="serve over HTTP at /mcp of this address, instead of over pipes",
    )
    asking = parts.add_parser(
        "server",
        help="run an MCP server with tools to ask people",
        description="Run an MCP server with the tools request_approval, check_approval and "
        "ask_human, which the model calls if it chooses, and with a tool for Claude Code's "
        "permission prompt.",
    )
    for part in (proxy, asking):
        part.add_argument(
            "--agent", help="name of the agent that asks (default: GATEWAY_AGENT, else local)"
        )
        said = "how many seconds to wait for a decision (default: the timeout of the route)"
        part.add_argument("--timeout", type=float, help=said)
    given = parser.parse_args(words)
    if given.timeout is not None and not given.timeout > 0:
        parser.error("--timeout must be a number of seconds above 0")
    if given.part == "server":
        return given
    if bool(given.command) == (given.url is not None):
        proxy.error("name the server: `-- COMMAND ARGUMENTS…` or --url, not both")
    given.name = given.name or _name_of(given.command, given.url)
    if not _NAME.fullmatch(given.name) or "__" in given.name or given.name.endswith("_"):
        proxy.error(
            "--name may contain letters, digits, `.`, `-` and single `_`, and must not end in `_`"
        )
    return given


def _name_of(command: Sequence[str], url: str | None) -> str:
    """Return a name for a server, made from its command or URL."""
    typed = (urlsplit(url).hostname or "") if url else Path(command[0]).stem
    return _NO_NAME_CHARACTERS.sub("-", typed).strip("-")[:64] or "server"
