"""A process that submits requests for many agents, faster than an agent could."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.children import serve
from benchmarks.floor import raw
from benchmarks.stage import ARGUMENT, ASK_TOOL, argument
from gateway.models import ApprovalRequest, digest_of, new_id
from gateway.stores.keys import Keys
from gateway.wire.codec import JsonObject, plain

_PIPELINED = 50
_CODE = Path(argparse.__file__).read_text(encoding="utf-8")
"""Code as agents write it, the same for everybody who measures."""


def submission(
    agent: str, process: str, letters: int = len(ARGUMENT), file: str = ""
) -> tuple[str, dict[str, str]]:
    """Return a new request's id, and the ingress entry that submits it with that many letters, or
    to write a file."""
    command = {"command": argument(letters)}
    draft = ApprovalRequest(
        id=new_id(),
        agent=agent,
        tool="Write" if file else ASK_TOOL,
        arguments={"file_path": "app.py", "content": f"# {new_id()}\n{file}"} if file else command,
        digest="0" * 64,
        timeout=900.0,
    )
    request = replace(draft, digest=digest_of(draft))
    body = json.dumps(plain(request), separators=(",", ":"))
    entry = {"v": "1", "verb": "submit", "process": process, "nonce": request.id, "body": body}
    return request.id, entry


async def main(url: str) -> None:
    """Run the parent's commands."""
    client = raw(url)
    processes: dict[str, str] = {}

    async def submit(
        namespace: str,
        agents: list[str],
        count: int,
        letters: int = len(ARGUMENT),
        file_bytes: int = 0,
    ) -> JsonObject:
        """Write `count` submissions, of the agents in turn; return their ids."""
        keys, ids, entries, file = Keys(namespace), [], [], _CODE[:file_bytes]
        for number in range(count):
            agent = agents[number % len(agents)]
            one, entry = submission(agent, processes.setdefault(agent, new_id()), letters, file)
            ids.append(one)
            entries.append((keys.ingress(agent), entry))
        for start in range(0, count, _PIPELINED):
            pipeline = client.pipeline(transaction=False)
            for stream, entry in entries[start : start + _PIPELINED]:
                pipeline.xadd(stream, entry)
            await pipeline.execute()
        return {"ids": ids}

    await serve({"submit": submit})
    await client.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
