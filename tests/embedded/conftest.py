"""What the tests of the embedded engine share."""

from pathlib import Path

import pytest
import redis.asyncio

from gateway.stores.embedded_server import running_engine


@pytest.fixture
async def used(tmp_path: Path) -> Path:
    """Yield a data folder on which an engine ran before."""
    async with (
        running_engine(tmp_path / "data") as engine,
        redis.asyncio.Redis.from_url(engine.url) as client,
    ):
        await client.set("before", "kept")
    return engine.data_dir
