"""A desktop that notifications of a whole Chromium reach: a D-Bus of the test's own, and on it the
service that shows them and tells what a person presses."""

from __future__ import annotations

import asyncio
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus

PATIENCE = 40.0
_NAME, _PATH = "org.freedesktop.Notifications", "/org/freedesktop/Notifications"
_BY_CALL = 3  # why a notification closed: it was asked for


@dataclass(frozen=True)
class Shown:
    """One notification as it stands on the desktop: its actions' labels by their keys."""

    id: int
    title: str
    body: str
    actions: dict[str, str]


@dataclass
class Desktop:
    """What stands on the desktop, and a person before it."""

    address: str
    came: queue.Queue[Shown] = field(default_factory=queue.Queue)
    ready: threading.Event = field(default_factory=threading.Event)
    loop: asyncio.AbstractEventLoop = field(init=False)
    stop: asyncio.Event = field(init=False)
    bus: MessageBus = field(init=False)
    last: int = 0

    async def shows(self, words: str) -> Shown:
        """Return the next notification whose text holds these words."""
        while True:
            shown = await asyncio.to_thread(self.came.get, timeout=PATIENCE)
            if words in shown.body or words in shown.title:
                return shown

    def clear(self) -> None:
        """Forget what was shown until now."""
        while not self.came.empty():
            self.came.get()

    def press(self, shown: Shown, label: str = "") -> None:
        """Press an action by its label, or without one the notification itself."""
        wanted = (key for key, text in shown.actions.items() if text == label)
        key = next(wanted) if label else "default"
        self.loop.call_soon_threadsafe(self._tell, "ActionInvoked", "us", [shown.id, key])

    async def serve(self) -> None:
        """Serve until it is stopped, in a thread of its own."""
        self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
        self.bus = bus = await MessageBus(bus_address=self.address).connect()
        bus.add_message_handler(self._take)
        await bus.request_name(_NAME)
        self.ready.set()
        await self.stop.wait()
        bus.disconnect()
        await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]

    def _take(self, call: Message) -> Message | None:
        """Answer one call of the browser's."""
        if call.message_type is not MessageType.METHOD_CALL or call.interface != _NAME:
            return None
        match call.member:
            case "GetCapabilities":
                told: tuple[str, list[Any]] = ("as", [["body", "actions", "persistence"]])
            case "GetServerInformation":
                told = ("ssss", ["desktop", "test", "1", "1.2"])
            case "Notify":
                told = ("u", [self._show(*call.body)])
            case "CloseNotification":
                self._tell("NotificationClosed", "uu", [call.body[0], _BY_CALL])
                told = ("", [])
            case _:
                return None
        return Message.new_method_return(call, *told)

    def _show(self, *given: Any) -> int:
        _, replaces, _, title, body, actions, *_ = given
        self.last = replaces or self.last + 1
        keys = dict(zip(actions[::2], actions[1::2], strict=True))
        self.came.put(Shown(self.last, title, body, keys))
        return self.last

    def _tell(self, name: str, signature: str, body: list[Any]) -> None:
        self.bus.send(Message.new_signal(_PATH, _NAME, name, signature, body))


@contextmanager
def desktop() -> Iterator[Desktop]:
    """Run a bus and the desktop on it."""
    program = shutil.which("dbus-daemon")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("there is no dbus-daemon on this machine")
        pytest.skip("there is no dbus-daemon on this machine: apt-get install dbus-daemon")
    command = [program, "--session", "--nofork", "--print-address"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            made = Desktop(process.stdout.readline().strip())
            thread = threading.Thread(target=asyncio.run, args=(made.serve(),), daemon=True)
            thread.start()
            assert made.ready.wait(PATIENCE)
            yield made
            made.loop.call_soon_threadsafe(made.stop.set)
            thread.join(PATIENCE)
        finally:
            process.terminate()
