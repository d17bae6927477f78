"""Codes that a person reads in one place and types in another."""

from __future__ import annotations

import re
import secrets

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # without I, L, O, which look like digits, and U
_GROUP = 4
_ALIKE = str.maketrans("ILO", "110")


def make_code(groups: int) -> str:
    """Return a random code such as `K7QF-2M9X`: groups of four letters, each of 20 bits."""
    letters = [secrets.choice(_LETTERS) for _ in range(groups * _GROUP)]
    return "-".join("".join(letters[at : at + _GROUP]) for at in range(0, len(letters), _GROUP))


def read_code(typed: str) -> str:
    """Return the bare letters of a code, however it was typed: in small letters, grouped otherwise,
    or with a letter that looks like a digit."""
    return re.sub(r"[\s-]", "", typed).upper().translate(_ALIKE)
