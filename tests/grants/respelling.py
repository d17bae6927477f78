"""Writes a command in other ways that a shell runs alike: quotes, paths, wrappers, variables."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable, Iterator

Respelling = Callable[[str, random.Random], str]
_FIRST = re.compile(r"[A-Za-z][\w.-]*(?![\w.=(-])")
_PLAIN_WORD = re.compile(r"(?<=\s)[A-Za-z0-9_./:-]+(?=\s|$)")


def _respell_program(text: str, spell: Callable[[str], str]) -> str:
    found = _FIRST.match(text)
    return f"{spell(found[0])}{text[found.end() :]}" if found else text


def _quote_program(text: str, chance: random.Random) -> str:
    return _respell_program(text, lambda name: f"'{name}'")


def _split_program(text: str, chance: random.Random) -> str:
    at = chance.randrange(20)
    return _respell_program(
        text, lambda name: f'{name[: at % len(name)]}"{name[at % len(name) :]}"'
    )


def _escape_program(text: str, chance: random.Random) -> str:
    return _respell_program(text, lambda name: f"\\{name}")


def _give_path(text: str, chance: random.Random) -> str:
    return _respell_program(text, lambda name: f"/usr/bin/{name}")


def _quote_word(text: str, chance: random.Random) -> str:
    found = list(_PLAIN_WORD.finditer(text))
    if not found or "'" in text or '"' in text:
        return text
    one = chance.choice(found)
    return f"{text[: one.start()]}'{one[0]}'{text[one.end() :]}"


def _spell_in_hex(text: str, chance: random.Random) -> str:
    return _respell_program(text, lambda name: f"$'\\x{ord(name[0]):02x}{name[1:]}'")


def _name_by_variable(text: str, chance: random.Random) -> str:
    found = _FIRST.match(text)
    return f"X={found[0]}; $X{text[found.end() :]}" if found else text


def _print_program(text: str, chance: random.Random) -> str:
    return _respell_program(text, lambda name: f"$(echo {name})")


def _wrap(*starts: str) -> Respelling:
    return lambda text, chance: f"{chance.choice(starts)} {text}" if _FIRST.match(text) else text


def _hand_on(*shells: str) -> Respelling:
    return lambda text, chance: f"{chance.choice(shells)} {shlex.quote(text)}"


def _among_others(text: str, chance: random.Random) -> str:
    frame = chance.choice(["ls; {}", "true && {}", "false || {}", "( {} )", "if true; then {}; fi",
                           "ls\n{}", "{} &", "x=$( {} )"])  # fmt: skip
    return frame.format(text) if "<<" not in text else text


RESPELLINGS: dict[str, Respelling] = {
    "quotes": _quote_program,
    "split quotes": _split_program,
    "backslash": _escape_program,
    "path": _give_path,
    "quoted word": _quote_word,
    "hex": _spell_in_hex,
    "variable": _name_by_variable,
    "printed": _print_program,
    "wrapper": _wrap(
        "env", "env A=1", "command", "nohup", "timeout 5", "nice -n 5", "time", "setsid"
    ),
    "shell": _hand_on("sh -c", "bash -lc", "/bin/sh -c", "env bash -c", "eval"),
    "here-string": lambda text, _: f"bash <<< {shlex.quote(text)}",
    "here-document": lambda text, _: text if "<<" in text else f"sh <<'EOF'\n{text}\nEOF",
    "piped": lambda text, _: f"echo {shlex.quote(text)} | sh",
    "among others": _among_others,
}


def respell(text: str, seed: int, depth: int = 2) -> Iterator[tuple[str, str]]:
    """Yield each re-spelling of a command, and some of two at once, with what was done to it."""
    chance = random.Random(seed)
    for name, respelling in RESPELLINGS.items():
        once = respelling(text, chance)
        yield name, once
        for _ in range(depth - 1):
            other = chance.choice(list(RESPELLINGS))
            yield f"{name}, {other}", RESPELLINGS[other](once, chance)
