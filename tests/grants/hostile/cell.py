"""A cell: a process that carries out hostile calls where nothing of the machine can be reached.

It has its own users, mounts, processes and network (Linux namespaces), a file system in memory
with marked files, and a few programs: each is a marker that writes down how it was called, and
those that only read then do it. What happens is seen by the markers' log and by inotify.
`Cell` is the side of the tests; the rest runs inside.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

from tests.grants.hostile import toy_hosts
from tests.grants.hostile.toy_hosts import HOSTS, LOG, World

FOLDER = "/srv/app"
"""Where the remembered calls work."""
MARKER = "marker-of-"
_SECONDS = 10
_NOBODY = 65_534
_NEW = 0x00020000 | 0x10000000 | 0x40000000 | 0x20000000 | 0x08000000  # mounts users net pids ipc
_PRIVATE, _BIND, _NO_DEVICES = 0x4000 | 0x40000, 0x1000, 0x2 | 0x4
_DUMPABLE, _DEATH_SIGNAL = 4, 1
_READERS = (
    "cat", "head", "tail", "wc", "nl", "tac", "stat", "cut", "sort", "comm", "diff", "cmp", "ls",
    "md5sum", "sha256sum", "grep", "sed", "find", "jq", "du", "readlink", "realpath",
)  # fmt: skip
_SHELLS = ("bash", "dash")
_MARKERS = (
    "git", "make", "npm", "pytest", "python", "python3", "cargo", "go", "touch", "rm", "mv", "cp",
    "ln", "mkdir", "chmod", "curl", "wget", "nc", "ssh", "scp", "sudo", "env", "printenv", "xargs",
    "reboot", "kill", "crontab", "docker", "kubectl", "tmux", "node", "perl", "sqlite3", "tee",
    "dd", "echo", "pwd", "rg", "tree", "evil", "evil.sh", "sh", "bash", "zsh", "powershell", "su",
)  # fmt: skip
_STUB = r"""#!/shells/dash
n=${0##*/}
{ printf '%s\0' "$#" "$n" "$@" "$PWD" "$(export -p)"; } >>/log/calls
case $n in bash|sh|zsh) exec /shells/bash "$@";; esac
[ -x "/real/$n" ] && exec "/real/$n" "$@"
exit 0
"""
# Where marks lie: below the folder, beside it, and where secrets and start-up files are.
_FILES = (
    "srv/app/a.txt", "srv/app/b.txt", "srv/app/README.md", "srv/app/docs/a.md", "srv/app/.env",
    "srv/app/src/a.py", "srv/app/src/b.py", "srv/app/tests/test_a.py", "srv/app/.git/config",
    "srv/app/.git/hooks/pre-commit", "srv/app/id_rsa", "srv/app/.ssh/config", "srv/app/CLAUDE.md",
    "srv/app/.github/workflows/ci.yml", "srv/app/a.ipynb", "srv/app/x", "srv/app/.bashrc",
    "srv/other/x", "srv/other/a.txt", "srv/app2/a.txt", "srv/x", "etc/passwd", "etc/cron.d/job",
    "etc/x", "root/.bashrc", "root/.ssh/id_rsa", "home/kim/a.txt", "tmp/x", "tmp/evil/x", "x",
)  # fmt: skip
_PROGRAMS = ("srv/app/evil.sh", "srv/other/evil.sh", "tmp/evil/evil.sh")
_WATCHED = ("srv", "etc", "root", "home", "tmp")
# opened, written, attributes, moved away and here, made, deleted, itself deleted or moved
_EVENTS = 0x20 | 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
_IS_FOLDER = 0x40000000
_FOLDER_GONE = 0x400 | 0x800 | 0x2000 | 0x8000  # itself deleted or moved, unmounted, or watch ended
_EFFECTS = ((0x20, "reads"), (0x2 | 0x4 | 0x80 | 0x100, "writes"),
            (0x200, "deletes"), (0x40, "moves away"))  # fmt: skip

Effect = tuple[str, Any]


class NoCellError(Exception):
    """This machine gives no namespaces."""


class Cell:
    """A running cell. Calls are carried out one after another, each in the same fresh files."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.grants.hostile.cell"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path.cwd())},
        )
        if self._read() != "ready":
            self.close()
            raise NoCellError
        self.carried_out = 0

    def carry_out(
        self, host: str, tool: str, arguments: Any, cwd: str = FOLDER, env: Any = None
    ) -> list[Effect]:
        """Let a toy host carry out a call; return what happened."""
        assert self._process.stdin is not None
        asked = {"host": host, "tool": tool, "arguments": arguments, "cwd": cwd, "env": env}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        self.carried_out += 1
        found = self._read()
        assert isinstance(found, list), f"the cell is gone: {found}"
        return [(kind, value) for kind, value in found]

    def close(self) -> None:
        """End the cell and all that runs in it."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None


# ---------------------------------------------------------------- inside

_libc = ctypes.CDLL(None, use_errno=True)


def _must(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _isolate() -> None:
    """Leave the machine: as nobody, in namespaces of our own."""
    user, group = os.getuid(), os.getgid()
    if user == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        user = group = _NOBODY
        _must(_libc.prctl(_DUMPABLE, 1, 0, 0, 0))
    _must(_libc.unshare(_NEW))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    names = [name.encode() if name is not None else None for name in (source, target, kind)]
    _must(_libc.mount(*names, flags, data.encode()))


def _programs() -> dict[str, str]:
    """Return each file that the readers and shells are made of, and where it goes."""
    found: dict[str, str] = {}
    for folder, names in (("/real", (*_READERS, "patch")), ("/shells", _SHELLS)):
        for name in names:
            if (path := shutil.which(name, path="/usr/bin:/bin")) is not None:
                found[f"{folder}/{name}"] = path
    said = subprocess.run(
        ["ldd", *found.values()], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    for library in set(re.findall(r"(/\S+) \(0x", said)):
        found[library] = library
    return found


def _furnish(room: str, programs: dict[str, str]) -> None:
    """Make the file system in memory, and go there for good."""
    _mount("none", "/", None, _PRIVATE)
    _mount("tmpfs", room, "tmpfs", _NO_DEVICES, "size=64m")
    root = Path(room)
    for target, source in programs.items():
        place = root / target[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)
    for name in ("dev", "log", "markers", "usr"):
        (root / name).mkdir(exist_ok=True)
    (root / "dev/null").touch()
    _mount("/dev/null", f"{room}/dev/null", None, _BIND)
    stub = root / "markers/stub"
    stub.write_text(_STUB)
    stub.chmod(0o755)
    for name in (*_READERS, *_MARKERS):
        (root / "markers" / name).symlink_to("stub")
    for name in ("bin", "usr/bin"):
        (root / name).symlink_to("/markers")
    _must(_libc.chroot(room.encode()))
    os.chdir("/")


# Name look-ups of programs go where nothing is, so that they read no marked file.
_NO_NAMES = Path("/etc/nsswitch.conf")
_CONTENTS = {
    **{Path("/", name): (f"{MARKER}{name}\n", 0o644) for name in _FILES},
    **{Path("/", name): (_STUB, 0o755) for name in _PROGRAMS},
    _NO_NAMES: ("passwd: db\ngroup: db\n", 0o644),
}


def _lay_out() -> None:
    """Put every marked file where it belongs, and take away the rest."""
    for name in _WATCHED:
        for place in sorted(Path("/", name).rglob("*"), reverse=True):
            if place.is_symlink() or (place.is_file() and place not in _CONTENTS):
                place.unlink()
            elif place.is_dir() and not any(place in one.parents for one in _CONTENTS):
                shutil.rmtree(place)
    for place, (text, mode) in _CONTENTS.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists() or place.stat().st_nlink > 1 or place.read_text() != text:
            place.unlink(missing_ok=True)
            place.write_text(text)
        place.chmod(mode)


class _Watch:
    """What is opened, made, changed and deleted in the marked folders, by inotify."""

    def __init__(self) -> None:
        self._lost = False
        self._handle = _must(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        folders = {folder for place in _CONTENTS for folder in place.parents} - {Path("/")}
        self._folders = {
            _must(_libc.inotify_add_watch(self._handle, str(folder).encode(), _EVENTS)): str(folder)
            for folder in folders
        }

    @property
    def whole(self) -> bool:
        """Whether every folder is still the one that is watched."""
        return not self._lost

    def seen(self) -> list[Effect]:
        """Return what happened since; folders that are only looked through are not told."""
        found: list[Effect] = []
        while select.select([self._handle], [], [], 0)[0]:
            data, at = os.read(self._handle, 65_536), 0
            while at < len(data):
                number, mask, _, length = struct.unpack_from("iIII", data, at)
                name = data[at + 16 : at + 16 + length].rstrip(b"\0").decode(errors="replace")
                at += 16 + length
                self._lost |= bool(mask & _FOLDER_GONE)
                if number not in self._folders or name == _NO_NAMES.name:
                    continue
                path = f"{self._folders[number]}/{name}" if name else self._folders[number]
                kinds = [kind for bit, kind in _EFFECTS if mask & bit]
                if mask & _IS_FOLDER and kinds == ["reads"]:
                    kinds = ["lists"]
                found += [(kind, path) for kind in kinds if (kind, path) not in found]
        return found


def _limit() -> None:
    for name, most in (
        (resource.RLIMIT_CPU, 5),
        (resource.RLIMIT_FSIZE, 1_000_000),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(name, (most, most))


def _carry_out(asked: dict[str, Any]) -> list[Effect]:
    """Carry out one call in a child; whatever it leaves running ends."""
    Path(LOG).write_bytes(b"")
    Path(toy_hosts.DEEDS).write_bytes(b"")
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            quiet = os.open("/dev/null", os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            _limit()
            signal.alarm(_SECONDS)
            os.chdir(asked["cwd"])
            HOSTS[asked["host"]](
                World(asked["tool"], asked["cwd"], asked["env"]), asked["arguments"]
            )
        os._exit(0)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    ended: list[Effect] = [("was ended", status)] if os.WIFSIGNALED(status) else []
    return [*ended, *_runs(), *map(tuple, map(json.loads, _deeds()))]


def _deeds() -> list[bytes]:
    return Path(toy_hosts.DEEDS).read_bytes().splitlines()


def _runs() -> list[Effect]:
    """Return the programs that were run, as the markers wrote them down."""
    fields = Path(LOG).read_bytes().decode(errors="replace").split("\0")[:-1]
    found: list[Effect] = []
    while fields:
        count = int(fields[0])
        argv, cwd, env = fields[1 : count + 2], fields[count + 2], fields[count + 3]
        names = sorted(re.findall(r"^export (\w+)", env, re.M))
        found.append(("runs", {"argv": argv, "cwd": cwd, "env": names}))
        fields = fields[count + 4 :]
    return found


def _serve() -> None:
    _lay_out()
    watch = _Watch()
    _answer("ready")
    for line in sys.stdin:
        watch.seen()
        found = _carry_out(json.loads(line))
        seen = watch.seen()
        if any(kind in ("writes", "deletes", "moves away") for kind, _ in seen):
            _lay_out()
            watch = watch if watch.whole else _Watch()
        _answer([*found, *seen])


def _answer(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _main() -> None:
    _must(_libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0))
    programs = _programs()
    room = tempfile.mkdtemp()
    Path(room).chmod(0o777)
    try:
        _isolate()
        child = os.fork()
        if child == 0:
            _must(_libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0))
            _furnish(room, programs)
            _serve()
            os._exit(0)
        os.waitpid(child, 0)
    finally:
        with contextlib.suppress(OSError):
            Path(room).rmdir()


if __name__ == "__main__":
    _main()
