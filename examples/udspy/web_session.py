"""A web service whose requests do not wait for people: `python web_session.py FOLDER PORT`.

POST /start {"question": …}  →  {"answer": …}, or {"waits": ID}
POST /resume {"waits": ID}   →  the same: {"waits": …} until somebody has answered; then 404

What waits is a file in the folder, so that any process may go on with it, also after a restart.
Put your own sign-in before it: who may resume is for you to say, who approves is the gateway's.
"""

import asyncio
import json
import sys
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agent import make_agent

from gateway.integrations.frameworks.udspy import Refused, Suspended, begin, resume


def answer(state: Any) -> dict[str, str]:
    """Keep an agent that waits, or return what it said."""
    if not isinstance(state, Suspended):
        return {"answer": state.answer}
    kept(state.request_id).write_text(json.dumps(asdict(state)))
    return {"waits": state.request_id}


def kept(request_id: str) -> Path:
    return Path(sys.argv[1]) / f"{int(request_id, 16):032x}.json"


def take(call: dict[str, str], path: str) -> dict[str, str]:
    if path == "/start":
        return answer(asyncio.run(begin(make_agent(), question=call["question"])))
    file = kept(call["waits"])
    before = Suspended(**json.loads(file.read_text()))
    try:
        after = asyncio.run(resume(make_agent(), before))
    except Refused as refusal:  # somebody stopped the turn
        return {"answer": str(refusal)}
    reply = answer(after)
    if after != before:
        file.unlink()
    return reply


class Service(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            body = json.dumps(take(call, self.path)).encode()
        except FileNotFoundError:  # it has ended, or never began
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Service).serve_forever()
