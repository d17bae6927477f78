"""Command patterns from the beginnings of commands, as operators write them in rules."""

from __future__ import annotations

from gateway.policy.calls.command_table import Operands, entry
from gateway.policy.calls.shell_words import Word, simple_command
from gateway.policy.grants.grant import CommandPattern


def derive_allow_pattern(text: str, folder: str | None) -> CommandPattern | None:
    """Return the pattern of a known command with any of its harmless flags, and those written.

    Returns None when it is unknown, or has words that are no flags and not the same each time.
    """
    words = simple_command(text)
    known = entry(words) if words else None
    if words is None or known is None:
        return None
    rest = tuple(word.text for word in words[1 + len(known.verbs) :])
    written = tuple(word for word in rest if word.startswith("-"))
    fixed = tuple(word for word in rest if not word.startswith("-"))
    if any(flag not in known.flags or known.flags[flag].value for flag in written):
        return None
    if fixed and known.operands is not Operands.FIXED:
        return None
    return CommandPattern(
        program=known.program,
        verbs=known.verbs,
        flags=tuple(sorted({*known.harmless, *written})),
        needs=known.list_restraints(written),
        operands=known.operands,
        words=fixed,
        folder=folder,
    )


def derive_deny_pattern(text: str) -> CommandPattern | None:
    """Return the pattern of a command that begins so, whatever follows; None when not plain."""
    words = simple_command(text)
    if words is None:
        return None
    verbs = tuple(word.text for word in words[1:] if not word.text.startswith("-"))
    return CommandPattern(program=words[0].text, verbs=verbs, flags=_flags(words))


def denial(words: tuple[Word, ...], *, flags: bool) -> CommandPattern:
    """Return a pattern for the program and its verbs, and with `flags` for those that it has."""
    known = entry(words)
    return CommandPattern(
        program=words[0].text,
        verbs=known.verbs if known is not None else (),
        flags=_flags(words) if flags else (),
    )


def _flags(words: tuple[Word, ...]) -> tuple[str, ...]:
    flags = (word.text for word in words[1:] if word.text.startswith("-"))
    return tuple(sorted({one for text in flags for one in _single(text)}))


def _single(flag: str) -> list[str]:
    """Return `-rf` as its letters; longer names as they are."""
    name = flag.partition("=")[0]
    return [name] if name.startswith("--") else [f"-{letter}" for letter in name[1:]]
