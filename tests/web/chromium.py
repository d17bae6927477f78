"""Drives a real Chromium over its DevTools protocol, with aiohttp alone."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
PHONE, DESK = (390, 844), (1280, 900)


def binary() -> str:
    """Return the browser; without one the test fails under CI, and is skipped elsewhere."""
    found = shutil.which("chromium")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("there is no chromium on this machine")
        pytest.skip("there is no chromium on this machine: apt-get install chromium")
    return found


class _Replaced(Exception):
    """The page went away while it was asked."""


class Page:
    """One tab. Positions and clicks are a person's: through the rendered page."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str) -> None:
        self._socket = socket
        self._session = session
        self._numbers = itertools.count(1)
        self.errors: list[str] = []

    async def send(self, method: str, **parameters: Any) -> Any:
        """Send one DevTools command; return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, "sessionId": self._session}
        await self._socket.send_json(message)
        while True:
            answer = json.loads((await self._socket.receive(timeout=20)).data)
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.errors.append(json.dumps(answer["params"])[:400])
            if answer.get("id") == number:
                if method == "Runtime.evaluate" and "error" in answer:
                    raise _Replaced
                assert "error" not in answer, answer
                return answer["result"]

    async def size(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """Take the shape of a phone or a desk, in light or dark."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=size[0],
            height=size[1],
            deviceScaleFactor=1,
            mobile=size == PHONE,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])

    async def goto(self, url: str) -> None:
        """Open an address."""
        await self.send("Page.navigate", url=url)

    async def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        result = await self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, script: str) -> Any:
        """Return the value of an expression once it is true."""
        async with asyncio.timeout(40):
            while not (value := await self._try(script)):
                continue
        return value

    async def _try(self, script: str) -> Any:
        """Look again a moment later, in the page's own time; None while it is being replaced."""
        look = f"const value = {script}; return value instanceof Node ? true : value"
        script = (
            "new Promise((done) => setTimeout(() => done((() => "
            f"{{ try {{ {look} }} catch {{ return null }} }})()), 15))"
        )
        try:
            return await self.evaluate(script)
        except _Replaced:
            return None

    async def press(self, label: str, within: str = "document") -> None:
        """Click the middle of the visible button with this text."""
        find = (
            f"[...{within}.querySelectorAll('button')]"
            f".find((one) => one.textContent.trim() === {json.dumps(label)} && !one.disabled)"
        )
        await self.until(f"Boolean({find})")
        box = await self.evaluate(
            f"(() => {{ const one = {find}; one.scrollIntoView({{block: 'center'}});"
            " const box = one.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.send(
                "Input.dispatchMouseEvent",
                type=kind,
                x=box[0],
                y=box[1],
                button="left",
                clickCount=1,
            )

    async def fill(self, selector: str, text: str) -> None:
        """Replace the text of a field, as typing does."""
        await self.until(f"document.querySelector({json.dumps(selector)})")
        await self.evaluate(f"document.querySelector({json.dumps(selector)}).select()")
        await self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        await self.send("Input.insertText", text=text)

    async def key(self, key: str) -> None:
        """Press a letter key."""
        for kind in ("keyDown", "keyUp"):
            await self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else ""
            )

    async def screenshot(self, path: Path, *, whole: bool) -> None:
        """Save what a person would see: the whole page, or its first screen."""
        result = await self.send(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole
        )
        path.write_bytes(base64.b64decode(result["data"]))

    async def controls(self) -> list[tuple[str, str]]:
        """Return (role, name) of every control in the accessibility tree."""
        await self.send("Accessibility.enable")
        tree = await self.send("Accessibility.getFullAXTree")
        roles = {"button", "checkbox", "textbox", "combobox", "listbox", "spinbutton", "link"}
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree["nodes"]
            if not node.get("ignored") and node.get("role", {}).get("value") in roles
        ]


@asynccontextmanager
async def chromium() -> AsyncIterator[Page]:
    """Run a browser with a profile of its own; yield its first tab."""
    with tempfile.TemporaryDirectory(prefix="agw-chromium", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            binary(),
            *_FLAGS,
            f"--user-data-dir={profile}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            address = await _address(process)
            async with (
                aiohttp.ClientSession() as http,
                http.ws_connect(address, max_msg_size=0) as socket,
            ):
                yield await _tab(socket)
        finally:
            process.kill()
            await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(30):
        while line := (await process.stderr.readline()).decode():
            if "DevTools listening on" in line:
                return line.split(" on ", 1)[1].strip()
    raise AssertionError("the browser ended")


async def _tab(socket: aiohttp.ClientWebSocketResponse) -> Page:
    browser = Page(socket, "")

    async def ask(method: str, **parameters: Any) -> Any:
        number = next(browser._numbers)
        await socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            answer = json.loads((await socket.receive(timeout=20)).data)
            if answer.get("id") == number:
                return answer["result"]

    target = await ask("Target.createTarget", url="about:blank")
    attached = await ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
    page = Page(socket, attached["sessionId"])
    for domain in ("Page", "Runtime", "Log"):
        await page.send(f"{domain}.enable")
    return page
