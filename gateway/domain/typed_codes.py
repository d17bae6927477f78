"""Make and read codes that a person sees in one place and types in another."""

from __future__ import annotations

import re
import secrets

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # without I, L, O, which look like digits, and U
_GROUP = 4
_ALIKE = str.maketrans("ILO", "110")


def make_code(groups: int) -> str:
    """Return a random code such as `K7QF-2M9X`, with groups of four characters of 5 bits each."""
    letters = [secrets.choice(_LETTERS) for _ in range(groups * _GROUP)]
    return "-".join("".join(letters[at : at + _GROUP]) for at in range(0, len(letters), _GROUP))


def read_code(typed: str) -> str:
    """Return the bare characters of a typed code. Lower case, other grouping, and letters that look
    like digits are accepted."""
    return re.sub(r"[\s-]", "", typed).upper().translate(_ALIKE)
