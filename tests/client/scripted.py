"""A server that answers with prepared bytes: what a broken or hostile one could send."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any


class Cut(bytes):
    """An answer after which the connection is closed."""


class Endless(bytes):
    """An answer that is sent again and again, until the other side hangs up."""


Script = bytes | Callable[[bytes], bytes]
"""An answer, or what makes it from the call."""


class ScriptedServer:
    """Gives each call the next answer."""

    def __init__(self, answers: Sequence[Script], tls: Any = None) -> None:
        self._answers = list(answers)
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.calls: list[bytes] = []
        self.connections = 0
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self._listening.getsockname()[1]}"

    def serve(self) -> None:
        """Answer until closed."""
        with suppress(OSError):
            while True:
                held, _ = self._listening.accept()
                self._open.append(held)
                self.connections += 1
                threading.Thread(target=self._talk, args=(held,), daemon=True).start()

    def push(self, data: bytes) -> None:
        """Send what nobody asked for on the newest connection."""
        self._open[-1].sendall(data)

    def stop(self) -> None:
        """Take no more connections."""
        self._listening.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all connections, those too that were taken just before it stopped."""
        for held in (self._listening, *self._open):
            held.close()

    def _talk(self, held: socket.socket) -> None:
        with suppress(OSError):
            if self._tls is not None:
                held = self._tls.wrap_socket(held, server_side=True)
                self._open.append(held)
            while self._answers:
                call = _read_call(held)
                if call is None:
                    return
                self.calls.append(call)
                script = self._answers.pop(0)
                answer = script if isinstance(script, bytes) else script(call)
                held.sendall(answer)
                while isinstance(answer, Endless):
                    held.sendall(answer)
                if isinstance(answer, Cut):
                    held.shutdown(socket.SHUT_RDWR)
                    return


def _read_call(held: socket.socket) -> bytes | None:
    read = b""
    while b"\r\n\r\n" not in read:
        if not (data := held.recv(65536)):
            return None
        read += data
    head, _, body = read.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += held.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def scripted(*answers: Script, tls: Any = None) -> Iterator[ScriptedServer]:
    """Run a server with these answers."""
    server = ScriptedServer(answers, tls)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()
        server.close()


def answer(value: Any, status: int = 200, **fields: str) -> bytes:
    """Return a plain answer with a JSON body."""
    body = json.dumps(value).encode()
    more = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in fields.items())
    head = f"HTTP/1.1 {status} Some Words\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body
