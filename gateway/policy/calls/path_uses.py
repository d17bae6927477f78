"""Paths that a call touches, and delicate places however they are spelled."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple
from urllib.parse import unquote

from gateway.policy.calls.code_effects import named_in_patches
from gateway.policy.calls.paths import MAX_PATH, components, delicate, delicate_word
from gateway.wire.roles import Role

_LOCAL_FILE = ("file:///", "file://localhost/")


class PathEffect(StrEnum):
    """What is done to a path, the worst first."""

    DELETE = "delete"
    UNKNOWN = "unknown"
    WRITE = "write"
    READ = "read"
    LIST = "list"


EFFECTS = {
    Role.READ: PathEffect.READ,
    Role.WRITE: PathEffect.WRITE,
    Role.DELETE: PathEffect.DELETE,
    Role.DESTINATION: PathEffect.WRITE,
    Role.FOLDER: PathEffect.LIST,
    Role.PATH: PathEffect.UNKNOWN,
}


class PathUse(NamedTuple):
    """One path: its text as sent, what is done to it, and where it stands in the call.

    `parts` are the absolute components from the base, None where readers could differ or no base is
    known. `delicate` says why it is asked about each time. `second` is a path that another one
    beside it is moved, copied or linked to. What only `looks` like a path may be none.
    """

    text: str
    effect: PathEffect
    parts: tuple[str, ...] | None
    delicate: str | None
    place: str
    second: bool = False
    looks: bool = False

    @property
    def absolute(self) -> str | None:
        """The absolute path, None where it is not known."""
        return None if self.parts is None else "/" + "/".join(self.parts)


def use_path(
    text: str, effect: PathEffect, base: str | None, place: str, *, second: bool = False,
    looks: bool = False,
) -> PathUse:  # fmt: skip
    """Return the use of a path, resolved from the base."""
    plain = plain_path(text)
    parts = components(plain, base) if plain else None
    return PathUse(text, effect, parts, _find_delicate(text, base), place, second, looks)


def plain_path(text: str) -> str | None:
    """Return the path that every reader of a text finds, None where readers could differ."""
    if len(text) > MAX_PATH or not text:
        return None
    text = _without_scheme(text)
    if text[:5].lower() == "file:":
        return None
    decoded = _decode(text)
    return text if decoded == text or decoded.split("/") == text.split("/") else None


def _find_delicate(text: str, base: str | None) -> str | None:
    if len(text) > MAX_PATH:
        return "it is too long to be read"
    text = _without_scheme(text)
    found = delicate(text, base)
    decoded = _decode(text)
    return found or (delicate(decoded, base) if decoded != text else None)


def _without_scheme(text: str) -> str:
    if text.startswith("file:"):
        for start in _LOCAL_FILE:
            if text.startswith(start):
                text = text[len(start) - 1 :]
    return text


def _decode(text: str) -> str:
    decoded = unquote(text) if "%" in text else text
    return decoded if decoded.isascii() else unicodedata.normalize("NFKC", decoded)


# Finds delicate places in text, however it is spelled: quoted, escaped, encoded, in a patch.
#
# What it finds is asked about, so it may find too much; it reads no grammar and resolves nothing.

_BREAKS = re.compile(r"[\s;|&<>(){}=,@]+")
_QUOTES = re.compile(r"[\"'`\\]")
_GLOB = re.compile(r"[*?\[]")
_BRACES = re.compile(r"\{[^\s{}]*(?:,|\.\.)[^\s{}]*\}")
# A few names for each kind of delicate place: what a glob may stand for.
_EXAMPLES = (
    ".env", ".env.local", ".envrc", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".ssh",
    ".aws", ".gnupg", ".kube", ".docker", ".git", ".bashrc", ".profile", ".zshrc", "id_rsa",
    "id_ed25519", "id_ecdsa", "server.pem", "server.key", "credentials", "secrets", "secrets.yaml",
    "shadow", "sudoers", "terraform.tfstate", "authorized_keys", ".bash_history",
    "env.production", "kubeconfig", "ssh_host_rsa_key", "deploy.ppk", ".dockercfg", ".s3cfg",
    "environ", "passwd",
)  # fmt: skip
_FEWEST_LETTERS = 4


def names_delicate(text: str, cwd: str | None, *, data: bool, globs: bool) -> bool:
    """Whether a text names a delicate place in any word and any spelling.

    What is only kept, `data`, does where all of it is a path, or a header of a patch names one.
    With `globs` a shell may also make one of its patterns.
    """
    if any(could_be_delicate(path, cwd) for path in named_in_patches(text)):
        return True
    if data:
        return any(delicate_word(path, cwd) for path in _spellings(text))
    if any(_names_place(word, cwd) for word in _words(text) if word):
        return True
    return globs and any(map(_may_stand_for_delicate, text.split()))


def could_be_delicate(path: str, cwd: str | None) -> bool:
    """Whether a path is delicate, or would be with its encoding undone."""
    decoded = _path_spelling_decode(path)
    if decoded != path and decoded.split("/") != path.split("/") and _is_path(path):
        return True
    return any(delicate(one, cwd) is not None for one in _spellings(path))


def _spellings(path: str) -> tuple[str, ...]:
    return path, _QUOTES.sub("", path), _path_spelling_decode(path)


def _path_spelling_decode(path: str) -> str:
    return unicodedata.normalize("NFKC", unquote(path))


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text, with quotes and escapes as breaks, left out, and undone."""
    spelled = {text.replace("\\", "/"), _QUOTES.sub("", text), _QUOTES.sub(" ", text)}
    if "%" in text:
        spelled.add(unquote(text))
    if not text.isascii():
        spelled.add(unicodedata.normalize("NFKC", text))
    for one in spelled:
        for word in _BREAKS.split(one):
            yield word
            yield from word.split(":") if ":" in word else ()


def _names_place(word: str, cwd: str | None) -> bool:
    """Whether a word is delicate by its name, or is a path below an unknown name with a dot."""
    if delicate_word(word, cwd) is not None:
        return True
    begins = re.match(r"[~/\\]|\.[\w-]", word) is not None and "/" in word
    return begins and delicate(word, written=False) is not None


def _is_path(word: str) -> bool:
    return "/" in word or "." in word


def stands_for_secret(word: str) -> bool:
    """Whether a shell's pattern is sure enough the name of a secret: `shad?w`, not `*`."""
    name = word.rstrip("/").rpartition("/")[2]
    if not _GLOB.search(name) or sum(map(str.isalnum, name)) < _FEWEST_LETTERS:
        return False
    told = (one for one in _EXAMPLES if "." not in one[1:])
    return any(fnmatchcase(one, name) and delicate_word(one, written=False) for one in told)


def _may_stand_for_delicate(word: str) -> bool:
    pattern = _BRACES.sub("*", word)
    if not _GLOB.search(pattern):
        return False
    return any(
        fnmatchcase(example, part)
        for part in _QUOTES.sub("", pattern).split("/")
        if _GLOB.search(part)
        for example in _EXAMPLES
        if not (part[0] in "*?[" and example.startswith("."))  # no shell's glob finds these
    )
