"""A machine for the units of deploy/systemd: a real systemd, in namespaces on a throw-away root.

The root is this machine's own under an overlay in memory, so nothing outside changes. Only loopback
is there. Needs root and the programs of systemd, util-linux and passwd.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from tests.frame.tree import ROOT

UNITS = ROOT / "deploy" / "systemd"
CONFIG = Path("/etc/approval-gateway")
START_SECONDS = 60
END_SECONDS = 20

_BOOT = r"""
set -eu
root=$1 source=$2 packages=$3 python=$4 valkey=$5
mount --make-rprivate /
mount -t tmpfs tmpfs "$root"
mkdir "$root/upper" "$root/work" "$root/all"
mount -t overlay overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/all"
cd "$root/all"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
mkdir sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
for folder in run tmp var/lib/systemd etc/systemd; do mount -t tmpfs tmpfs $folder; done
mount -t tmpfs tmpfs dev
for name in null zero full random urandom tty; do
    : >dev/$name
    mount --bind /dev/$name dev/$name
done
mkdir dev/pts dev/shm opt/approval-gateway
: >dev/console
ln -s /proc/self/fd dev/fd
ln -s pts/ptmx dev/ptmx
mount -t devpts devpts dev/pts -o newinstance
# Nothing of this machine starts, but the log.
rm -rf lib/systemd/system/*.target.wants
mkdir etc/systemd/system
printf '[Unit]\nWants=systemd-journald.service\nAfter=systemd-journald.service\n' \
    >etc/systemd/system/test.target
printf '[Journal]\nStorage=volatile\n' >etc/systemd/journald.conf
# What the guide installs, from the environment of the tests: services see no home folder.
cd opt/approval-gateway
mkdir bin source packages python
mount --bind "$source" source
mount --bind "$packages" packages
mount --bind "$python" python
cat >bin/gateway <<'END'
#!/bin/sh
cd /opt/approval-gateway
export PYTHONPATH=$PWD/source:$PWD/packages LD_LIBRARY_PATH=$PWD/python/lib
exec python/bin/python3 -m gateway.cli "$@"
END
cd "$root/all"
chmod 755 opt/approval-gateway/bin/gateway
rm -f usr/bin/valkey-server
cp "$valkey" usr/bin/valkey-server
mkdir old
pivot_root . old
umount -l old
mount --make-rshared /
exec env -i container=other PATH="$PATH" \
    /lib/systemd/systemd --system --unit=test.target --show-status=no
"""


class Machine:
    """A running systemd, with the gateway's programs and this tree. Use it as a context manager.

    Args: `folder` is an empty one of the test's, `valkey` is the server's program.
    """

    def __init__(self, folder: Path, valkey: str) -> None:
        group = Path("/sys/fs/cgroup/systemd") / f"approval-gateway-test-{os.getpid()}"
        self._group, self._root = group, folder
        packages, python = sysconfig.get_path("purelib"), sys.base_prefix
        words = [str(one) for one in (folder, ROOT, packages, python, valkey)]
        own = ("--mount", "--pid", "--fork", "--cgroup", "--ipc", "--uts", "--net")
        join = f'mkdir -p {group}; echo $$ >{group}/cgroup.procs; exec "$@"'
        boot = ("unshare", *own, "--kill-child", "sh", "-c", _BOOT, "boot", *words)
        self._process = subprocess.Popen(["sh", "-euc", join, "join", *boot])
        self._first: int | None = None

    def __enter__(self) -> Machine:
        try:
            ends = time.monotonic() + START_SECONDS
            while self._process.poll() is None and time.monotonic() < ends:
                if self._find_first() and self._state() == "running":
                    return self
            raise AssertionError("systemd did not start")
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        """End every process there, and wait for it."""
        first = None if self._first is None else os.pidfd_open(self._first)
        self._process.kill()  # systemd ends with it, and the others with systemd
        self._process.wait()
        if first is not None:
            select.select([first], [], [], END_SECONDS)
            os.close(first)
        for folder, _folders, _files in os.walk(self._group, topdown=False):
            Path(folder).rmdir()

    def _find_first(self) -> bool:
        """Find the process that is the first one there; return whether it has begun."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        self._first = int((children.read_text().split() or ["0"])[0]) or None
        return self._first is not None

    def _state(self) -> str:
        return self.call("systemctl", "is-system-running", "--wait").stdout.strip()

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command there as root; return how it ended."""
        there = ("nsenter", "--all", "--target", str(self._first), "--", "env", "-i", *_ENV, *words)
        return subprocess.run(there, capture_output=True, text=True, check=False)

    def run(self, *words: str) -> str:
        """Run a command there as root; return what it printed. It must end with 0."""
        done = self.call(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr, self.log())
        return done.stdout

    def type(self, text: str) -> str:
        """Have a shell in the tree read lines, as root types them; return what they printed."""
        return self.run("sh", "-euc", f"cd /opt/approval-gateway/source\n{text}")

    def gateway(self, *words: str) -> str:
        """Run a command of the gateway as its operator does; return what it printed."""
        env = str(CONFIG / "settings.env")
        return self.run("/opt/approval-gateway/bin/gateway", "--env-file", env, *words)

    def log(self) -> str:
        """Return the end of the log."""
        return self.call("journalctl", "--no-pager", "--lines=60", "--output=cat").stdout


_ENV = (f"PATH={os.environ['PATH']}", "HOME=/root")


def missing_programs() -> list[str]:
    """Return what a machine needs and is not here."""
    wanted = ("nsenter", "pivot_root", "systemctl", "journalctl", "unshare", "useradd")
    found = [name for name in wanted if shutil.which(name) is None]
    return found if os.geteuid() == 0 else [*found, "root"]
