"""Serve the inbox: its routes, pages and static files; start with WebAdapter and Inbox."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import hdrs, web
from rjsmin import jsmin

from adapters.web.decisions import BatchHandlers, DecisionHandlers
from adapters.web.grants import GrantAndStopHandlers, HandHandlers
from adapters.web.live_updates import Streams
from adapters.web.push import PushHandlers
from adapters.web.queries import QueueHandlers, ReadHandlers, SearchHandlers
from adapters.web.security import Guard, Handler, VisitRefused
from adapters.web.sign_in import DeviceHandlers, PasskeyHandlers, ProviderHandlers, SignInHandlers
from gateway.ports import Adapter, AdapterApi, WebPages

# Responses are compressed for slow phone connections; files once, when they are read.
#
# The response with the CSRF token is never compressed: the size of a compressed response that also
# contains text of agents could reveal the token.

_LEAST = 1_000  # bytes; below this, compression costs more than it saves


def pack(body: bytes) -> bytes:
    """Compress a file. Equal content always results in equal bytes."""
    return gzip.compress(body, mtime=0)


def takes_gzip(request: web.Request) -> bool:
    """Whether the browser accepts responses compressed with gzip."""
    offered = request.headers.get(hdrs.ACCEPT_ENCODING, "")
    return "gzip" in (one.strip() for one in offered.split(","))


def compress(handler: Handler) -> Handler:
    """Wrap a handler so that its response is compressed, unless it is too small."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await handler(request)
        if isinstance(response, web.Response) and hdrs.CONTENT_ENCODING not in response.headers:
            response.headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING
            if takes_gzip(request) and (response.content_length or 0) >= _LEAST:
                response.enable_compression(web.ContentCoding.gzip)
        return response

    return answer


# The inbox's routes: pages and their static files, sign-in and sign-out, and API calls.
#
# Static files are read once at startup. Nothing outside their folder is served.

_FOLDER = Path(__file__).parent
_WORKER_SCOPE = "/inbox"
_ME = "/inbox/api/me"  # its response contains the CSRF token
_CONTENT_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
    ".html": "text/html",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file with its content type, uncompressed and compressed."""

    body: bytes
    packed: bytes
    content_type: str


def read_assets(folder: str) -> dict[str, Asset]:
    """Read the files of `static` or `templates` by name; minify scripts, and complete pages."""
    return {
        path.name: Asset(body := _read(path), pack(body), _CONTENT_TYPES[path.suffix])
        for path in sorted((_FOLDER / folder).iterdir())
        if path.suffix in _CONTENT_TYPES
    }


def _read(path: Path) -> bytes:
    body = path.read_bytes()
    if path.suffix == ".html":
        return (_FOLDER / "head.html").read_bytes() + body
    return bytes(jsmin(body)) if path.suffix == ".js" else body


class Inbox:
    """Builds the inbox's routes and serves its pages and files."""

    def __init__(self, api: AdapterApi) -> None:
        logins = api.logins
        self._guard = Guard(logins, api.requests.person, secure=api.secure)
        self._streams = Streams(api, self._guard)
        signing_in = SignInHandlers(logins, self._guard, self._streams)
        reading = ReadHandlers(api, self._guard)
        self._handlers = (
            signing_in,
            DeviceHandlers(logins, self._guard),
            PasskeyHandlers(logins, self._guard, signing_in),
            ProviderHandlers(logins, self._guard, signing_in),
            reading,
            QueueHandlers(api, self._guard),
            SearchHandlers(api, self._guard, reading),
            DecisionHandlers(api, self._guard, reading, logins.passkeys),
            BatchHandlers(api, self._guard, reading),
            GrantAndStopHandlers(api, self._guard),
            HandHandlers(api, self._guard),
            PushHandlers(api, self._guard),
        )
        self._pages = read_assets("templates")
        self._files = read_assets("static")

    def routes(self) -> list[web.RouteDef]:
        """Return the routes. The guard checks each request to them."""
        table = [
            ("GET", "/", self._lead_to_inbox),
            ("GET", "/inbox", self._page("inbox")),
            ("GET", "/inbox/r/{id:[0-9a-f]{32}}", self._page("inbox")),
            ("GET", "/inbox/batch", self._page("batch")),
            ("GET", "/inbox/report", self._page("report")),
            ("GET", "/inbox/operations", self._page("operations")),
            ("GET", "/inbox/devices", self._page("devices")),
            ("GET", "/inbox/notifications", self._page("notifications")),
            ("GET", "/inbox/login", self._page("login")),
            ("GET", "/inbox/login/back", self._page("back")),
            ("GET", "/inbox/static/{name}", self._file),
            ("GET", "/inbox/sw.js", self._worker),
            ("GET", "/inbox/api/changes", self._streams.serve),
            *(row for one in self._handlers for row in one.table()),
        ]
        return [
            web.route(method, path, self._wrap(method, path, call)) for method, path, call in table
        ]

    def _wrap(self, method: str, path: str, call: Handler) -> Handler:
        return self._guard.wrap(compress(call) if method == "GET" and path != _ME else call)

    def end_streams(self) -> None:
        """End all live streams when the gateway stops."""
        self._streams.end_all()

    async def _lead_to_inbox(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPSeeOther("/inbox")

    def _page(self, name: str) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            return _build_file_response(request, self._pages[f"{name}.html"])

        return answer

    async def _file(self, request: web.Request) -> web.StreamResponse:
        found = self._files.get(request.match_info["name"])
        if found is None:
            raise VisitRefused(404, "not_found", "the file does not exist")
        return _build_file_response(request, found)

    async def _worker(self, request: web.Request) -> web.StreamResponse:
        response = _build_file_response(request, self._files["sw.js"])
        response.headers["Service-Worker-Allowed"] = _WORKER_SCOPE  # no slash at its end
        return response


def _build_file_response(request: web.Request, asset: Asset) -> web.Response:
    headers = {str(hdrs.VARY): str(hdrs.ACCEPT_ENCODING)}
    if packed := takes_gzip(request):
        headers[str(hdrs.CONTENT_ENCODING)] = "gzip"
    return web.Response(
        body=asset.packed if packed else asset.body,
        content_type=asset.content_type,
        charset=None if asset.content_type == "image/png" else "utf-8",
        headers=headers,
    )


class WebAdapter(Adapter):
    """Serves the inbox under /inbox, in the web server that also serves the HTTP API."""

    name = "web"
    posts = False

    @asynccontextmanager
    async def run(self, api: AdapterApi) -> AsyncIterator[WebPages]:
        """Yield the inbox's routes for the gateway's web server."""
        inbox = Inbox(api)
        yield WebPages(inbox.routes(), inbox.end_streams)
