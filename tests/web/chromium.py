"""Drives a real Chromium over its DevTools protocol, with aiohttp alone."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.cookies import Morsel
from importlib.util import find_spec
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
_PATIENCE = 60.0  # seconds; a loaded machine is slow, and nothing here waits in vain


def binary(*, whole: bool = False) -> str:
    """Return the browser; without one the test fails under CI, and is skipped elsewhere.

    Chromium's headless shell is preferred: the same engine without a desktop's windows, which takes
    half the time. Notifications, and whether a page can be installed, take the `whole` of it.
    """
    names = ("chromium",) if whole else ("chromium-headless-shell", "chromium")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"there is no {names[0]} on this machine")
        pytest.skip(f"there is no {names[0]} on this machine: apt-get install {names[0]}")
    return found


class _Replaced(Exception):
    """The page went away while it was asked."""


class Page:
    """One tab. Positions and clicks are a person's: through the rendered page."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str | None) -> None:
        self._socket = socket
        self._session = session
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        self.told: dict[str, Any] = {}

    async def send(self, method: str, **parameters: Any) -> Any:
        """Send one DevTools command; return its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        while True:
            answer = json.loads((await self._socket.receive(timeout=_PATIENCE)).data)
            self._note(answer)
            if answer.get("id") == number:
                if method == "Runtime.evaluate" and "error" in answer:
                    raise _Replaced
                assert "error" not in answer, answer
                return answer["result"]

    def _note(self, answer: Any) -> None:
        """Keep what the page threw, and what each kind of event said last; that the gateway refused
        something is no error of the page."""
        if "method" in answer:
            self.told[answer["method"]] = answer.get("params", {})
        parameters = answer.get("params", {})
        refused = parameters.get("entry", {}).get("source") == "network"
        if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded") and not refused:
            self.errors.append(json.dumps(parameters)[:400])

    async def size(
        self, size: tuple[int, int], *, dark: bool = False, still: bool = True, scale: float = 1
    ) -> None:
        """Take the shape of a phone or a desk, in light or dark; nothing moves if not asked for.
        `scale` is how many pixels of a picture one of the page becomes."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=size[0],
            height=size[1],
            deviceScaleFactor=scale,
            mobile=size == PHONE,
        )
        wishes = {
            "prefers-color-scheme": "dark" if dark else "light",
            "prefers-reduced-motion": "reduce" if still else "no-preference",
        }
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        await self.send("Emulation.setEmulatedMedia", features=features)

    async def goto(self, url: str) -> None:
        """Open an address."""
        await self.send("Page.navigate", url=url)

    async def keep_cookie(self, cookie: Morsel[str], url: str) -> None:
        """Keep a cookie that an address set."""
        await self.send(
            "Network.setCookie",
            url=url,
            name=cookie.key,
            value=cookie.value,
            path=cookie["path"],
            httpOnly=cookie["httponly"],
            sameSite=cookie["samesite"],
        )

    async def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        result = await self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, script: str) -> Any:
        """Return the value of an expression once it is true."""
        async with asyncio.timeout(_PATIENCE):
            while not (value := await self._try(script, looks=60)):
                continue
        return value

    async def _try(self, script: str, looks: int = 1) -> Any:
        """Look a moment later, in the page's own time, at most so often; None while the
        page is being replaced."""
        look = f"const value = {script}; return value instanceof Node ? true : value"
        script = (
            f"new Promise((done) => {{ let left = {looks};"
            f" const look = () => {{ try {{ {look} }} catch {{ return null }} }};"
            " const again = () => { const value = look(); left -= 1;"
            " if (value || !left) done(value); else setTimeout(again, 15) };"
            " setTimeout(again, 15) })"
        )
        try:
            return await self.evaluate(script)
        except _Replaced:
            return None

    async def press(self, label: str, within: str = "document") -> None:
        """Click the middle of the button, link or label with this text; what stands behind More… of
        its card is brought into sight first."""
        async with asyncio.timeout(_PATIENCE):
            while not await self._hits(label, within):
                continue

    async def press_on(self, element: str) -> None:
        """Click the middle of an element, whatever its text says by then."""
        async with asyncio.timeout(_PATIENCE):
            while not await self._hits_one(element):
                continue

    async def press_twice(self, label: str) -> None:
        """Press what asks once more, and confirm; a tap beside the second takes the first back."""
        async with asyncio.timeout(_PATIENCE):
            while not await self._hits(f"Really {label[0].lower()}{label[1:]}"):
                await self._hits(label)

    async def _hits(self, label: str, within: str = "document") -> bool:
        """Tap what has this text; whether it was hit."""
        return await self._hits_one(
            f"[...{within}.querySelectorAll('button, a, label')]"
            f".find((one) => one.textContent.trim() === {json.dumps(label)} && !one.disabled"
            " && !one.closest('.settling'))"
        )

    async def _hits_one(self, find: str) -> bool:
        """Tap an element; whether it was hit: what moved between the aim and the tap was not, as
        under a finger."""
        aim = (
            f"(() => {{ const one = {find}; if (!one) return null;"
            " if (one.closest('.rest[hidden]')) {"
            " one.closest('.card').querySelector('[data-key=more]').click(); return null; }"
            " one.scrollIntoView({block: 'center'}); window.hit = false;"
            " const note = () => { window.hit = true };"
            " one.addEventListener('click', note, {once: true, capture: true});"
            " const box = one.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        place = await self._try(aim)
        if place is None:
            return False
        await self.tap(*place)
        return await self._try("window.hit") is not False

    async def tap(self, x: float, y: float) -> None:
        """Click a point of the screen."""
        for kind in ("mousePressed", "mouseReleased"):
            await self.send(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    async def fill(self, selector: str, text: str) -> None:
        """Replace the text of a field, as typing does."""
        await self.until(f"document.querySelector({json.dumps(selector)})")
        await self.evaluate(f"document.querySelector({json.dumps(selector)}).select()")
        await self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        await self.send("Input.insertText", text=text)

    async def key(self, key: str) -> None:
        """Press a letter, or a key by its name."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {"Enter": 13, "Tab": 9, "Escape": 27}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            await self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                text=text if kind == "keyDown" else "",
                windowsVirtualKeyCode=code,
            )

    async def screenshot(self, path: Path, *, whole: bool) -> None:
        """Save what a person would see: the whole page, or its first screen."""
        tall = "document.documentElement.scrollHeight"
        path.write_bytes(await self.picture(await self.evaluate(tall) if whole else None))

    async def picture(self, height: int | None = None) -> bytes:
        """Return what a person would see: so much of the page, or its first screen."""
        clip = None
        if height is not None:
            width = await self.evaluate("innerWidth")
            clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        more = {"captureBeyondViewport": True, "clip": clip} if clip else {}
        result = await self.send("Page.captureScreenshot", format="png", **more)
        return base64.b64decode(result["data"])

    async def controls(self) -> list[tuple[str, str]]:
        """Return (role, name) of every control in the accessibility tree."""
        roles = {"button", "checkbox", "textbox", "combobox", "listbox", "spinbutton", "link"}
        return [(role, name) for role, name in await self.tree() if role in roles]

    async def tree(self) -> list[tuple[str, str]]:
        """Return (role, name) of everything that a screen reader meets."""
        await self.send("Accessibility.enable")
        tree = await self.send("Accessibility.getFullAXTree")
        return [
            (node.get("role", {}).get("value", ""), node.get("name", {}).get("value", ""))
            for node in tree["nodes"]
            if not node.get("ignored")
        ]


@asynccontextmanager
async def chromium() -> AsyncIterator[Page]:
    """Run a browser for one page; yield its tab."""
    with running() as address:
        async with visiting(address) as browser:
            yield await browser.tab()


@contextmanager
def running(
    *flags: str, whole: bool = False, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a browser with a profile of its own; yield the address that its tabs are asked for at.

    `environment` is what it is told beside the variables of this process.
    """
    with tempfile.TemporaryDirectory(prefix="agw-chromium", ignore_cleanup_errors=True) as profile:
        fonts = Path(profile) / "data" / "fonts"
        fonts.mkdir(parents=True)
        if emoji := find_emoji():
            (fonts / emoji.name).symlink_to(emoji)
        command = [binary(whole=whole), *_FLAGS, *flags, f"--user-data-dir={profile}"]
        # What Debian installs may be a script that starts the browser: the whole group is ended.
        with subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "XDG_DATA_HOME": str(fonts.parent), **(environment or {})},
        ) as process:
            try:
                yield _address(process)
            finally:
                os.killpg(process.pid, signal.SIGKILL)


def find_emoji() -> Path | None:
    """Return a font with the pictures that phones have, and bare machines have not."""
    simulator = find_spec("simcord")
    places = simulator.submodule_search_locations if simulator else ()
    found = (one for place in places or () for one in Path(place).rglob("noto-color-emoji*.ttf"))
    return next(found, None)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if "DevTools listening on" in line:
            return line.split(" on ", 1)[1].strip()
    raise AssertionError("the browser ended")


@asynccontextmanager
async def at_home(address: str) -> AsyncIterator[Browser]:
    """Yield the browser as its owner has it: others are as in a private window, where nothing can
    be installed."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        socket = await stack.enter_async_context(http.ws_connect(address, max_msg_size=0))
        yield Browser(address, Page(socket, None), None, stack, http)


@asynccontextmanager
async def visiting(address: str) -> AsyncIterator[Browser]:
    """Yield a visitor's browser: nothing is shared with other visitors of the same process."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        socket = await stack.enter_async_context(http.ws_connect(address, max_msg_size=0))
        control = Page(socket, None)
        made = await control.send("Target.createBrowserContext")
        browser = Browser(address, control, made["browserContextId"], stack, http)
        try:
            yield browser
        finally:
            await control.send("Target.disposeBrowserContext", browserContextId=browser.context)


@dataclass
class Browser:
    """One visitor's browser, with cookies of its own."""

    address: str
    control: Page
    context: str | None
    stack: AsyncExitStack
    http: aiohttp.ClientSession

    async def tab(self, size: tuple[int, int] = DESK) -> Page:
        """Open a tab. Each has a connection of its own, so that none reads another's answers."""
        place = {"browserContextId": self.context} if self.context else {}
        made = await self.control.send("Target.createTarget", url="about:blank", **place)
        socket = await self.stack.enter_async_context(
            self.http.ws_connect(self.address, max_msg_size=0)
        )
        attached = await Page(socket, None).send(
            "Target.attachToTarget", targetId=made["targetId"], flatten=True
        )
        page = Page(socket, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log"):
            await page.send(f"{domain}.enable")
        await page.size(size)
        return page
