"""Command patterns from the beginnings of commands, as operators write them in rules."""

from __future__ import annotations

from gateway.grants.commands import entry
from gateway.grants.grant import CommandPattern, Operands
from gateway.grants.shell import Word, simple_command


def allowing(text: str, folder: str | None) -> CommandPattern | None:
    """Return the pattern of a known command with any of its harmless flags; None when unknown."""
    words = simple_command(text)
    known = entry(words) if words else None
    if words is None or known is None:
        return None
    rest = tuple(word.text for word in words[1 + len(known.verbs) :])
    fixed = known.operands is Operands.FIXED
    if (rest and not fixed) or any(word.startswith("-") for word in rest):
        return None
    return CommandPattern(
        program=known.program,
        verbs=known.verbs,
        flags=tuple(sorted(known.flags)),
        operands=known.operands,
        words=rest,
        folder=folder,
    )


def denying(text: str) -> CommandPattern | None:
    """Return the pattern of a command that begins so, whatever follows; None when not plain."""
    words = simple_command(text)
    return denial(words, flags=True) if words else None


def denial(words: tuple[Word, ...], *, flags: bool) -> CommandPattern:
    """Return a pattern for the program and its verbs, and with `flags` for those that it has."""
    texts = [word.text for word in words]
    known = entry(words)
    plain = [text for text in texts[1:] if not text.startswith("-")]
    verbs = known.verbs if known is not None else tuple(plain if flags else ())
    wanted = {one for text in texts[1:] if text.startswith("-") for one in _single(text)}
    return CommandPattern(
        program=texts[0], verbs=verbs, flags=tuple(sorted(wanted)) if flags else ()
    )


def _single(flag: str) -> list[str]:
    """Return `-rf` as its letters; longer names as they are."""
    name = flag.partition("=")[0]
    return [name] if name.startswith("--") else [f"-{letter}" for letter in name[1:]]
