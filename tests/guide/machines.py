"""Machines for a test: an empty Debian root each, in a network namespace of its own.

The test's own machine routes between them, and to the outside for package registries.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.frame.tree import ROOT
from tests.waiting import moment

STATE = ROOT / "build" / "guide"
NETWORK = "198.51.100.0/24"
"""Addresses that no host of the internet has."""
SECONDS = 900
"""The most that one command may take, such as the build of an image on a loaded machine."""
_ENV = "env -i HOME=/root LANG=C.UTF-8 TERM=dumb PATH=/usr/sbin:/usr/bin:/sbin:/bin"
_ENTER = f"""set -e
mount --make-rprivate /
mount --rbind "$1" "$1"
mount --rbind /dev "$1/dev"
mount --rbind /sys "$1/sys"
mount -t proc proc "$1/proc"
mount -t tmpfs run "$1/run"
cd "$1"
mkdir -p .old
pivot_root . .old
umount -l /.old
exec {_ENV} sh -c "$2"
"""
"""The first process of a machine: the root is a mount of its own, as programs for containers need
it. The machine ends when its standard input does."""


@dataclass(kw_only=True)
class Machine:
    """A machine. `login` is what each of its shells runs first."""

    name: str
    number: int
    pid: int
    login: str = ":"

    @property
    def root(self) -> Path:
        """Its root folder, as the test sees it."""
        return STATE / self.name

    @property
    def home(self) -> Path:
        """The folder in which its shells begin, as the test sees it."""
        return self.root / "root"

    @property
    def address(self) -> str:
        """Its address in the network of the machines."""
        return address_of(self.number)

    @property
    def router(self) -> str:
        """The address at which it reaches the test."""
        return f"198.51.100.{4 * self.number + 1}"

    def words(self, line: str) -> list[str]:
        """Return the words with which the test starts a line in a shell of the machine."""
        enter = ("nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--uts", "--root")
        return [*enter, *_ENV.split(), "sh", "-c", f"cd; {self.login}; {line}"]

    async def start(self, line: str) -> Process:
        """Start a line in a shell of the machine; its errors go where its output goes."""
        told = {"stdin": DEVNULL, "stdout": PIPE, "stderr": STDOUT}
        return await asyncio.create_subprocess_exec(*self.words(line), **told)  # type: ignore[arg-type]

    async def run(self, line: str, *, code: int = 0) -> str:
        """Run a line in a shell of the machine; return what it printed."""
        process = await self.start(line)
        said = await read_all(process)
        assert process.returncode == code, (self.name, line, process.returncode, said[-4000:])
        return said


async def read_all(process: Process) -> str:
    """Return what a process prints until it ends."""
    async with asyncio.timeout(SECONDS):
        said, _ = await process.communicate()
    return said.decode()


async def here(line: str, *more: str) -> str:
    """Run a line in a shell of the test's own machine; return what it printed."""
    made = await asyncio.create_subprocess_exec("sh", "-c", line, "sh", *more, stdout=PIPE)
    said = await read_all(made)
    assert made.returncode == 0, line
    return said


def address_of(number: int) -> str:
    """Return the address of a machine by its number."""
    return f"198.51.100.{4 * number + 2}"


def outside_resolver() -> str:
    """Return the address that the test's own machine asks for names."""
    (first, *_) = re.findall(
        r"^nameserver (\S+)", Path("/etc/resolv.conf").read_text(), re.MULTILINE
    )
    return str(first)


async def make_root(name: str, packages: str) -> Path:
    """Return the tar of an empty Debian root with these packages, made if it is missing."""
    tar = STATE / f"{name}.tar"
    if not tar.exists():
        STATE.mkdir(parents=True, exist_ok=True)
        (mirror, *_) = (await here("apt-get indextargets --format '$(SITE)'")).split()
        line = (
            'mmdebstrap --quiet --format=tar --variant=minbase --include="$1" trixie "$2.part" "$3"'
        )
        await here(f'{line} && mv "$2.part" "$2"', packages, str(tar), mirror)
    return tar


@asynccontextmanager
async def routed() -> AsyncIterator[None]:
    """Let the machines reach the outside through the test's own machine."""
    rule = f"iptables -t nat %s POSTROUTING -s {NETWORK} ! -d {NETWORK} -j MASQUERADE"
    await here(f"echo 1 > /proc/sys/net/ipv4/ip_forward; {rule % '-A'}")
    try:
        yield
    finally:
        await here(rule % "-D")


@asynccontextmanager
async def booted(
    name: str, number: int, *, packages: str, resolver: str, first: str = ""
) -> AsyncIterator[Machine]:
    """Run a machine from an empty root with these packages. It asks the resolver for names.
    `first` is a line that it starts with, such as a service in the background."""
    machine = Machine(name=name, number=number, pid=0)
    tar = await make_root(name, packages)
    await _remove(machine)
    machine.root.mkdir()
    await here('tar -xf "$1" -C "$2"', str(tar), str(machine.root))
    for file, text in (("resolv.conf", f"nameserver {resolver}"), ("hosts", f"127.0.0.1 {name}")):
        (machine.root / "etc" / file).write_text(f"{text}\n", encoding="ascii")
    await _connect(machine)
    words = ["nsenter", f"--net=/run/netns/guide-{name}", "unshare", "--mount", "--pid", "--uts"]
    words += ["--fork", "--kill-child", "sh", "-c", _ENTER, "sh", str(machine.root)]
    process = subprocess.Popen([*words, f"hostname {name}; {first} exec cat"], stdin=PIPE)
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (found := children.read_text(encoding="ascii").split()):
            await moment()
        machine.pid = int(found[0])
        while not _has_entered(machine):
            await moment()
        yield machine
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=60)
        await _remove(machine)


def _has_entered(machine: Machine) -> bool:
    """Return whether the first process has the root of the machine, and waits."""
    return Path(f"/proc/{machine.pid}/comm").read_text(encoding="ascii").strip() == "cat"


async def _connect(machine: Machine) -> None:
    """Make the network namespace, and a cable to the test's own machine."""
    name, cable = f"guide-{machine.name}", f"guide{machine.number}"
    await here(
        f"""set -e
        ip netns add {name}
        ip link add {cable} type veth peer name eth0 netns {name}
        ip addr add {machine.router}/30 dev {cable}
        ip link set {cable} up
        ip -n {name} addr add {machine.address}/30 dev eth0
        ip -n {name} link set eth0 up
        ip -n {name} link set lo up
        ip -n {name} route add default via {machine.router}"""
    )


async def _remove(machine: Machine) -> None:
    """Remove the network namespace and the root folder, also those that a stopped test left."""
    await here(f"ip netns del guide-{machine.name} 2>/dev/null || true")
    await here('rm -rf "$1"', str(machine.root))
