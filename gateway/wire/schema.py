"""What the JSON Schemas of messages say beside the types: the rules that their classes check.

The agent's side has no pydantic; the server's reads these when it writes the OpenAPI document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

JsonSchema = dict[str, Any]


class Says:
    """Keywords of JSON Schema for one member, as metadata in `typing.Annotated`.

    One that is a word of Python is written with `_` behind it.
    """

    def __init__(self, **keywords: Any) -> None:
        self._keywords = {name.rstrip("_"): said for name, said in keywords.items()}

    def __get_pydantic_json_schema__(
        self, kind: Any, schema_of: Callable[[Any], JsonSchema]
    ) -> JsonSchema:
        """Return the schema of the member's type with the keywords; pydantic calls it."""
        return {**schema_of(kind), **self._keywords}


def matching(pattern: re.Pattern[str]) -> Says:
    """Say that a text matches a pattern as a whole."""
    return Says(pattern=f"^(?:{pattern.pattern})$")


def whole(**keywords: Any) -> JsonSchema:
    """Return the configuration of a class whose members have these rules together."""
    said = {name.rstrip("_"): rule for name, rule in keywords.items()}
    return {"extra": "forbid", "json_schema_extra": said}
