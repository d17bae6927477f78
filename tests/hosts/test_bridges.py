"""The command `gateway bridge`, as a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from gateway.errors import Unreachable
from tests.frame.tree import ROOT
from tests.ports import free_port


@pytest.mark.parametrize("host", ["dexto", "gptme-server"])
async def test_a_bridge_names_the_host_that_does_not_answer(host: str, tmp_path: Path) -> None:
    """Whoever started the two in the wrong order reads which one is missing, and where."""
    url = f"http://127.0.0.1:{free_port()}"
    known = {"GATEWAY_URL": "http://127.0.0.1:1", "GATEWAY_TOKEN": "agw_a_b", "GATEWAY_AGENT": "a"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.integrations", "bridge", host, "--url", url),
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **known},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert f"gateway: {url} does not answer" in said.decode()
    assert process.returncode == Unreachable.exit_code
