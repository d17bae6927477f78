"""A model server for coding agents: it says what the test wrote, in Anthropic's format, OpenAI's
Responses and Gemini's. What is neither text nor a call that the test wrote is never said."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Use:
    """A call of a tool."""

    tool: str
    arguments: dict[str, Any]
    id: str = "toolu_01Xk9vTq4rN1"


Turn = str | Use | Sequence[Use]


@dataclass
class CodingModel:
    """Says one turn after another to each call that offers it tools; keeps what it was told."""

    left: list[Turn]
    url: str = ""
    told: list[Any] = field(default_factory=list)

    @property
    def heard(self) -> str:
        """Everything that it was told, as JSON."""
        return json.dumps(self.told, ensure_ascii=False)

    def next(self, asked: Any) -> list[str | Use]:
        """Return what is said to this call."""
        if not asked.get("tools"):  # a title, a summary: not the conversation
            return ["Done."]
        self.told.append(asked)
        turn = self.left.pop(0) if self.left else "Done."
        return [turn] if isinstance(turn, str | Use) else list(turn)

    async def messages(self, call: web.Request) -> web.StreamResponse:
        """Answer Anthropic's `/v1/messages`."""
        asked = await call.json()
        said = self.next(asked)
        uses = [one for one in said if isinstance(one, Use)]
        blocks = [_block(one) for one in said]
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"],
            "content": blocks, "stop_reason": "tool_use" if uses else "end_turn",
            "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        if not asked.get("stream"):
            return web.json_response(message)
        started = {**message, "content": [], "stop_reason": None}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": started}]
        for at, block in enumerate(blocks):
            events += _streamed(at, block)
        ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        events += [
            {"type": "message_delta", "delta": ended, "usage": usage},
            {"type": "message_stop"},
        ]
        return await _send_events(call, events)

    async def responses(self, call: web.Request) -> web.StreamResponse:
        """Answer OpenAI's `/v1/responses`, which is streamed."""
        said = self.next(await call.json())
        items = [_item(at, one) for at, one in enumerate(said)]
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        response = {"id": "resp_1", "object": "response", "usage": usage, "output": items}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "resp_1"}}]
        for at, item in enumerate(items):
            events.append({"type": "response.output_item.added", "output_index": at, "item": item})
            events.append({"type": "response.output_item.done", "output_index": at, "item": item})
        events.append({"type": "response.completed", "response": response})
        return await _send_events(call, events)

    async def generate(self, call: web.Request) -> web.StreamResponse:
        """Answer Gemini's `generateContent` and `streamGenerateContent`."""
        asked = await call.json()
        parts: list[dict[str, Any]] = [
            {"text": one}
            if isinstance(one, str)
            else {"functionCall": {"name": one.tool, "args": one.arguments}}
            for one in self.next(asked)
        ]
        content = {"role": "model", "parts": parts}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        whole = {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": usage,
        }
        if "stream" not in call.path:
            return web.json_response(whole)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(call)
        await answer.write(f"data: {json.dumps(whole)}\r\n\r\n".encode())
        return answer

    async def count(self, call: web.Request) -> web.StreamResponse:
        """Answer Anthropic's `/v1/messages/count_tokens`."""
        return web.json_response({"input_tokens": 1})


def _item(at: int, said: str | Use) -> dict[str, Any]:
    if isinstance(said, str):
        text = {"type": "output_text", "text": said, "annotations": []}
        return {"type": "message", "id": f"msg_{at}", "role": "assistant", "content": [text]}
    return {
        "type": "function_call", "id": f"fc_{said.id}", "call_id": said.id, "name": said.tool,
        "arguments": json.dumps(said.arguments),
    }  # fmt: skip


def _block(said: str | Use) -> dict[str, Any]:
    if isinstance(said, str):
        return {"type": "text", "text": said}
    return {"type": "tool_use", "id": said.id, "name": said.tool, "input": said.arguments}


def _streamed(at: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        {"type": "content_block_start", "index": at, "content_block": start},
        {"type": "content_block_delta", "index": at, "delta": delta},
        {"type": "content_block_stop", "index": at},
    ]


async def _send_events(call: web.Request, events: list[dict[str, Any]]) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(call)
    for event in events:
        await answer.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    return answer


@asynccontextmanager
async def coding_model(*turns: Turn) -> AsyncIterator[CodingModel]:
    """Run a model that says these turns, on a port of its own."""
    model = CodingModel(list(turns))
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/messages", model.messages)
    app.router.add_post("/v1/messages/count_tokens", model.count)
    app.router.add_post("/v1/responses", model.responses)
    app.router.add_post("/v1beta/models/{what:.*}", model.generate)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    model.url = site.name
    try:
        yield model
    finally:
        await runner.cleanup()
