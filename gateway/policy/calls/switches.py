"""Arguments whose name says that they destroy, or have their way against a check: `drop=true`."""

from __future__ import annotations

import re
from typing import Any

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_BEGIN = frozenset({"force", "delete", "destroy", "erase", "purge", "truncate", "wipe"})
_ALONE = frozenset({"drop", "forced", "nuke", "prune", "remove", "rm"})
# What may stand behind those that mean much else: `drop_first` is no harm, `drop_tables` is.
_THINGS = frozenset(
    {"all", "bucket", "collection", "collections", "data", "database", "databases", "db",
     "everything", "existing", "if", "index", "schema", "schemas", "table", "tables",
     "volume", "volumes"}
)  # fmt: skip
_ON = frozenset({"true", "yes", "on", "1"})


def is_on(value: Any) -> bool:
    """Whether a value turns a switch on."""
    if isinstance(value, str):
        return value.strip().lower() in _ON
    return value is True or (type(value) is int and value == 1)


def destroys(name: str) -> bool:
    """Whether an argument of this name, turned on, destroys or forces something."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    if words[0] in _BEGIN or (words[-1] == "force" and words[0] not in ("no", "not")):
        return True
    return words[0] in _ALONE and (len(words) == 1 or words[1] in _THINGS)
