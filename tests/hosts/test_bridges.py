"""The command `gateway bridge`, as a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from gateway.errors import Unauthorized, Unreachable
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.dexto_host import KEY, dexto_host
from tests.ports import free_port


async def run_bridge(host: str, url: str, home: Path, known: dict[str, str]) -> tuple[int, str]:
    """Run a bridge to its end; return its exit code and what it wrote on standard error."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.integrations", "bridge", host, "--url", url),
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **known},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    return process.returncode or 0, said.decode()


async def test_a_bridge_that_the_gateway_refuses_ends(gate: Replica, tmp_path: Path) -> None:
    """It takes its webhook back: a host that thinks that somebody asks would wait for nobody."""
    async with dexto_host() as dexto:
        known = {
            "GATEWAY_URL": gate.url,
            "GATEWAY_TOKEN": "agw_agent1_wrongwrongwrong",
            "GATEWAY_AGENT": "agent1",
            "DEXTO_SERVER_API_KEY": KEY,
        }
        code, said = await run_bridge("dexto", dexto.url, tmp_path, known)
        assert "the token is unknown or revoked" in said
        assert (code, dexto.webhooks) == (Unauthorized.exit_code, {})


@pytest.mark.parametrize("host", ["dexto", "gptme-server", "opencode"])
async def test_a_bridge_names_the_host_that_does_not_answer(host: str, tmp_path: Path) -> None:
    """Whoever started the two in the wrong order reads which one is missing, and where."""
    url = f"http://127.0.0.1:{free_port()}"
    known = {"GATEWAY_URL": "http://127.0.0.1:1", "GATEWAY_TOKEN": "agw_a_b", "GATEWAY_AGENT": "a"}
    code, said = await run_bridge(host, url, tmp_path, known)
    assert f"gateway: {url} does not respond" in said
    assert code == Unreachable.exit_code
