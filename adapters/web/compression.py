"""Answers made small for a phone's line. Files are compressed once, when they are read.

The token that every write needs is in no compressed answer: next to text that agents chose, the
size of an answer would tell of it.
"""

from __future__ import annotations

import gzip

from aiohttp import hdrs, web

from adapters.web.security import Handler

_LEAST = 1_000  # bytes; below, it costs more than it saves


def pack(body: bytes) -> bytes:
    """Return a file compressed, the same bytes at every start."""
    return gzip.compress(body, mtime=0)


def takes_gzip(request: web.Request) -> bool:
    """Whether the browser takes compressed answers."""
    offered = request.headers.get(hdrs.ACCEPT_ENCODING, "")
    return "gzip" in (one.strip() for one in offered.split(","))


def compress(handler: Handler) -> Handler:
    """Return the handler with its answer compressed, where that is worth it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await handler(request)
        if isinstance(response, web.Response) and hdrs.CONTENT_ENCODING not in response.headers:
            response.headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING
            if takes_gzip(request) and (response.content_length or 0) >= _LEAST:
                response.enable_compression(web.ContentCoding.gzip)
        return response

    return answer
