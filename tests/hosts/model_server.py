"""A model server for hosts under test: it says what the test wrote, in OpenAI's chat format."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

from aiohttp import web


class Model:
    """Answers one turn after another, or those of the word that was said to it; keeps what it was
    told."""

    def __init__(
        self,
        turns: Sequence[str | dict[str, Any]],
        apart: Mapping[str, Sequence[str | dict[str, Any]]],
    ) -> None:
        self._left = list(turns)
        self._apart = {word: list(own) for word, own in apart.items()}
        self.told: list[list[dict[str, Any]]] = []
        self.url = ""

    @property
    def heard(self) -> str:
        """Everything that it was told, as JSON."""
        return json.dumps(self.told, ensure_ascii=False)

    async def complete(self, call: web.Request) -> web.StreamResponse:
        """Answer `/v1/chat/completions`, streamed where that is asked for."""
        asked = await call.json()
        self.told.append(asked["messages"])
        heard = json.dumps(asked["messages"])
        left = next((own for word, own in self._apart.items() if word in heard), self._left)
        said = left.pop(0) if left else "Done."
        message = {"role": "assistant", **({"content": said} if isinstance(said, str) else said)}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        if not asked.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return web.json_response(_wrap("chat.completion", asked, choice))
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(call)
        calls = [{"index": at, **one} for at, one in enumerate(message.get("tool_calls", []))]
        delta = {**message, **({"tool_calls": calls} if calls else {})}
        for choice in (
            {"index": 0, "delta": delta, "finish_reason": None},
            {"index": 0, "delta": {}, "finish_reason": reason},
        ):
            chunk = json.dumps(_wrap("chat.completion.chunk", asked, choice))
            await answer.write(f"data: {chunk}\n\n".encode())
        await answer.write(b"data: [DONE]\n\n")
        return answer


def _wrap(kind: str, asked: dict[str, Any], choice: dict[str, Any]) -> dict[str, Any]:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "c1", "object": kind, "created": 1, "model": asked["model"],
            "choices": [choice], "usage": usage}  # fmt: skip


@asynccontextmanager
async def model_server(
    *turns: str | dict[str, Any],
    apart: Mapping[str, Sequence[str | dict[str, Any]]] = MappingProxyType({}),
) -> AsyncIterator[Model]:
    """Run a model that says these turns, on a port of its own; `apart` has turns by a word."""
    model = Model(turns, apart)
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", model.complete)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    model.url = site.name + "/v1"
    try:
        yield model
    finally:
        await runner.cleanup()
