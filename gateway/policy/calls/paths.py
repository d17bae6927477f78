"""Compares paths by their components, and knows those that no remembered decision may cover.

The gateway sees no agent's disk, so it cannot follow links: it compares what it is told. An agent's
side that resolves real paths says them as the keys of `Context.files`, whose content the decision
then binds as well; every one of them must lie in the folder too.
"""

from __future__ import annotations

import re
import unicodedata
from fnmatch import translate
from functools import lru_cache

from gateway.domain.safe_text import make_visible

MAX_PATH = 4096
_LONGEST_NAME = 255  # no file has a longer one

# ~1 is how Windows spells a long name in short; a colon names a stream or a drive there.
_DOUBTFUL = re.compile(r"[\x00-\x1f\x7f\\:*?\"<>|$`]|~[0-9]")
_SECRET_FOLDERS = frozenset(
    {".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud", ".password-store", ".vault"}
)
_SECRET_NAMES = (
    ".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc",
    ".pypirc", ".git-credentials", ".htpasswd", ".vault-token", "id_rsa*", "id_dsa*", "id_ecdsa*",
    "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.keystore", "*.ovpn",
    "credentials", "credentials.*", "secret.*", "secrets.*", "secrets", "shadow", "gshadow",
    "sudoers", "environ", "*_history", "service-account*.json", "*.tfstate",
)  # fmt: skip
_HARMLESS_NAMES = ("*.example", "*.sample", "*.template", "*.dist", "*.pub")
# What is written here runs later, with nobody asked: hooks, start-up files, tools' own settings.
_RUNS_LATER_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".husky", ".githooks", ".vscode", ".idea", ".cursor", ".claude",
     ".codex", ".gemini", ".devcontainer", ".direnv", "autostart", "launchagents", "launchdaemons",
     "cron.d", "cron.hourly", "cron.daily", "cron.weekly", "cron.monthly", "profile.d", "init.d",
     "sudoers.d"}
)  # fmt: skip
_RUNS_LATER_NAMES = (
    ".bashrc", ".bash_*", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".kshrc",
    ".cshrc", ".inputrc", ".gitconfig", ".gitmodules", ".gitattributes", ".mcp.json", "crontab",
    "authorized_keys", "sitecustomize.py", "usercustomize.py", "*.pth",
)  # fmt: skip
# Tools keep whole working copies there, which are ordinary places to work.
_WORKING_COPIES = "worktrees"
# What the system keeps for itself: nobody who lets a session edit means these.
_SYSTEM_PLACES = frozenset(
    {("bin",), ("boot",), ("etc",), ("lib",), ("lib32",), ("lib64",), ("library",), ("sbin",),
     ("sys",), ("system",), ("usr",), ("var", "spool"), ("private", "etc")}
)  # fmt: skip
_WORKPLACE_OF_CONTAINERS = ("usr", "src")
# What lies there depends on who looks: /proc/self/cwd, /dev/fd/3.
_DEPENDING = (("proc",), ("dev",))


def components(path: str, cwd: str | None = None) -> tuple[str, ...] | None:
    """Return the components of the absolute path; None where different readers could differ.

    `..` is never resolved: behind a link it leads elsewhere than the text says.
    """
    if not path.startswith("/"):
        if path.startswith("~") or cwd is None or not cwd.startswith("/"):
            return None
        path = f"{cwd}/{path}"
    return _parts(path)


def below(path: str) -> bool:
    """Whether a relative path stays below the folder that it is relative to, wherever that is."""
    return not path.startswith("/") and _parts(path) is not None


def within(path: str, folder: str, cwd: str | None = None) -> bool:
    """Whether a path is the folder or lies in it, component by component."""
    outer, inner = components(folder), components(path, cwd)
    return outer is not None and inner is not None and inner[: len(outer)] == outer


def is_root(folder: str | None) -> bool:
    """Whether a folder is the root of the disk, which holds everything."""
    return folder is not None and components(folder) == ()


def is_systems(path: str, cwd: str) -> bool:
    """Whether a path lies in the root of the disk, or where the system keeps its own."""
    parts = tuple(part.casefold() for part in components(path, cwd) or ())
    if parts[:2] == _WORKPLACE_OF_CONTAINERS:
        return False
    return not parts[1:] or bool({parts[:1], parts[:2]} & _SYSTEM_PLACES)


def delicate(path: str, cwd: str | None = None) -> str | None:
    """Return why a path is asked about each time, or None: it holds secrets, or runs later.

    Case counts for nothing, because on some disks it does not.
    """
    whole = path if cwd is None or path.startswith("/") else f"{cwd}/{path}"
    named = [part for part in whole.replace("\\", "/").split("/") if part not in ("", ".")]
    parts = _outside_copies([part.casefold() for part in named])
    if not parts:
        return None
    *folders, name = parts
    if _SECRET_FOLDERS & set(parts) or ("etc" in folders and name in ("passwd", "shadow")):
        return "it may hold secrets"
    if _matches_name(name, _SECRET_NAMES) and not _matches_name(name, _HARMLESS_NAMES):
        return "it may hold secrets"
    if _RUNS_LATER_FOLDERS & set(parts) or _matches_name(name, _RUNS_LATER_NAMES):
        return "what stands there runs later"
    return None


def _outside_copies(parts: list[str]) -> list[str]:
    """Return the parts without those that only lead to a tool's working copy."""
    for at, part in enumerate(parts[1:-1], 1):
        before = parts[at - 1]
        if part == _WORKING_COPIES and before in _RUNS_LATER_FOLDERS and before != ".git":
            return parts[: at - 1] + parts[at + 1 :]
    return parts


def _matches_name(name: str, patterns: tuple[str, ...]) -> bool:
    return len(name) <= _LONGEST_NAME and _alternatives(patterns).match(name) is not None


@lru_cache(maxsize=8)
def _alternatives(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def _parts(path: str) -> tuple[str, ...] | None:
    if len(path) > MAX_PATH or _DOUBTFUL.search(path) or path.startswith("~"):
        return None
    if path.startswith("//") and not path.startswith("///"):
        return None  # a host's name to some systems
    if not path.isascii():
        # Two spellings of one letter may be one file or two: it depends on the disk.
        seen = make_visible(path)
        if seen.hidden or seen.mixed_script or not unicodedata.is_normalized("NFC", path):
            return None
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if any(part == ".." or part[-1] in ". " or part[0] == " " for part in parts if part != "..."):
        return None
    return None if path.startswith("/") and parts[:1] in _DEPENDING else parts
