"""What Discord refuses in a message or a modal, with the shape of its 50035 answers.

Lengths are counted in UTF-16 units, the harshest way in which any of Discord's parts counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.discord.town import DiscordError, Json

V2 = 1 << 15
EPHEMERAL = 1 << 6
ROW, BUTTON, SELECT, TEXT_INPUT, SECTION, TEXT = 1, 2, 3, 4, 9, 10
THUMBNAIL, MEDIA, FILE, SEPARATOR, CONTAINER, LABEL = 11, 12, 13, 14, 17, 18
RADIO, CHECKBOXES, CHECKBOX = 21, 22, 23
LINK_STYLE = 5
_INSIDE = {
    None: {ROW, SECTION, TEXT, MEDIA, FILE, SEPARATOR, CONTAINER},
    CONTAINER: {ROW, SECTION, TEXT, MEDIA, FILE, SEPARATOR},
    SECTION: {TEXT},
    ROW: {BUTTON, SELECT, 5, 6, 7, 8},
    LABEL: {TEXT_INPUT, SELECT, 5, 6, 7, 8, RADIO, CHECKBOXES, CHECKBOX},
}


def units(text: str) -> int:
    """Return the length in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class Problems:
    """Collects refusals by path and raises them all at once, as Discord does."""

    def __init__(self) -> None:
        self.errors: Json = {}

    def add(self, path: tuple[Any, ...], code: str, message: str) -> None:
        place = self.errors
        for part in path:
            place = place.setdefault(str(part), {})
        place.setdefault("_errors", []).append({"code": code, "message": message})

    def length(self, path: tuple[Any, ...], text: Any, low: int, high: int) -> None:
        if not isinstance(text, str):
            self.add(path, "BASE_TYPE_REQUIRED", "This field is required")
        elif not low <= units(text) <= high:
            self.add(path, "BASE_TYPE_BAD_LENGTH", f"Must be between {low} and {high} in length.")

    def raise_any(self) -> None:
        if self.errors:
            raise DiscordError(400, 50035, "Invalid Form Body", self.errors)


def walk(components: list[Json]) -> Iterator[Json]:
    """Return every component of a message, nested ones too."""
    for one in components:
        yield one
        yield from walk(one.get("components", []))
        for member in ("accessory", "component"):
            if member in one:
                yield from walk([one[member]])


def check_message(message: Json, *, files: set[str]) -> None:
    """Raise what Discord answers to a message that breaks its rules; `files` are attached."""
    found = Problems()
    components = message.get("components") or []
    if message.get("flags", 0) & V2:
        _check_v2(found, message, components, files)
    else:
        _check_v1(found, message, components)
    ids = [one["custom_id"] for one in walk(components) if one.get("custom_id")]
    if len(set(ids)) != len(ids):
        found.add(
            ("components",), "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id is duplicated"
        )
    for at, one in enumerate(components):
        _check(found, one, ("components", at))
    if "nonce" in message and units(str(message["nonce"])) > 25:
        found.add(("nonce",), "NONCE_TYPE_TOO_LONG", "Must be 25 or fewer in length.")
    found.raise_any()


def _check_v2(found: Problems, message: Json, components: list[Json], files: set[str]) -> None:
    for member in ("content", "embeds", "poll"):
        if message.get(member):
            found.add(
                (member,),
                "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2",
                f"The '{member}' field cannot be used when using MessageFlags.IS_COMPONENTS_V2",
            )
    everything = list(walk(components))
    if not 1 <= len(everything) <= 40:
        found.add(("components",), "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 40 in length.")
    total = sum(units(one.get("content", "")) for one in everything if one["type"] == TEXT)
    if total > 4000:
        found.add(("components",), "COMPONENT_TOTAL_TEXT_TOO_LONG", "The total text exceeds 4000.")
    for at, one in enumerate(components):
        _check_place(found, one, None, ("components", at))
    for one in everything:
        if one["type"] == FILE:
            name = one["file"]["url"].removeprefix("attachment://")
            if one["file"]["url"].startswith("attachment://") and name not in files:
                found.add(
                    ("components",), "UNFURLED_MEDIA_ITEM_REFERENCED_ATTACHMENT_NOT_FOUND", name
                )


def _check_v1(found: Problems, message: Json, components: list[Json]) -> None:
    found.length(("content",), message.get("content") or "", 0, 2000)
    if len(components) > 5:
        found.add(("components",), "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
    for at, one in enumerate(components):
        if one["type"] != ROW:
            found.add(("components", at, "type"), "UNION_TYPE_CHOICES", "Value must be one of {1}")
    _check_embeds(found, message.get("embeds") or [])


def _check_embeds(found: Problems, embeds: list[Json]) -> None:
    total = 0
    for at, embed in enumerate(embeds):
        for member, most in (("title", 256), ("description", 4096)):
            found.length(("embeds", at, member), embed.get(member, ""), 0, most)
            total += units(embed.get(member, ""))
        total += sum(units(one["name"] + one["value"]) for one in embed.get("fields", []))
    if total > 6000:
        found.add(("embeds",), "MAX_EMBED_SIZE_EXCEEDED", "Embed size exceeds maximum of 6000")


def _check_place(found: Problems, one: Json, parent: int | None, path: tuple[Any, ...]) -> None:
    if one["type"] not in _INSIDE.get(parent, set()):
        found.add((*path, "type"), "UNION_TYPE_CHOICES", f"type {one['type']} cannot stand here")
    for at, child in enumerate(one.get("components", [])):
        _check_place(found, child, one["type"], (*path, "components", at))


def _check(found: Problems, one: Json, path: tuple[Any, ...]) -> None:
    """Check one component and those inside it."""
    children = one.get("components", [])
    if one["type"] == ROW and not 1 <= len(children) <= 5:
        found.add((*path, "components"), "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5.")
    elif one["type"] == BUTTON:
        _check_button(found, one, path)
    elif one["type"] == TEXT:
        found.length((*path, "content"), one.get("content"), 1, 4000)
    elif one["type"] == SELECT:
        _check_select(found, one, path)
    elif one["type"] == SECTION and not (1 <= len(children) <= 3 and "accessory" in one):
        found.add(path, "BASE_TYPE_BAD_LENGTH", "1 to 3 texts and an accessory.")
    elif one["type"] == TEXT_INPUT:
        _check_input(found, one, path)
    for at, child in enumerate(children):
        _check(found, child, (*path, "components", at))
    for member in ("accessory", "component"):
        if member in one:
            _check(found, one[member], (*path, member))


def _check_button(found: Problems, one: Json, path: tuple[Any, ...]) -> None:
    found.length((*path, "label"), one.get("label", "") or "", 0, 80)
    if one["style"] == LINK_STYLE:
        found.length((*path, "url"), one.get("url"), 1, 512)
    else:
        found.length((*path, "custom_id"), one.get("custom_id"), 1, 100)


def _check_select(found: Problems, one: Json, path: tuple[Any, ...]) -> None:
    found.length((*path, "custom_id"), one.get("custom_id"), 1, 100)
    found.length((*path, "placeholder"), one.get("placeholder") or "", 0, 150)
    if not 1 <= len(one.get("options", [])) <= 25:
        found.add((*path, "options"), "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 25.")
    for at, option in enumerate(one.get("options", [])):
        for member in ("label", "value"):
            found.length((*path, "options", at, member), option.get(member), 1, 100)
        found.length((*path, "options", at, "description"), option.get("description") or "", 0, 100)


def _check_input(found: Problems, one: Json, path: tuple[Any, ...]) -> None:
    found.length((*path, "custom_id"), one.get("custom_id"), 1, 100)
    found.length((*path, "placeholder"), one.get("placeholder") or "", 0, 100)
    found.length(
        (*path, "value"), one.get("value") or "", 0, min(4000, one.get("max_length", 4000))
    )


def check_modal(modal: Json) -> None:
    """Raise what Discord answers to a modal that breaks its rules."""
    found = Problems()
    found.length(("data", "title"), modal.get("title"), 1, 45)
    found.length(("data", "custom_id"), modal.get("custom_id"), 1, 100)
    components = modal.get("components", [])
    if not 1 <= len(components) <= 5:
        found.add(("data", "components"), "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5.")
    for at, one in enumerate(components):
        path = ("data", "components", at)
        if one["type"] not in (LABEL, TEXT):
            found.add((*path, "type"), "UNION_TYPE_CHOICES", "a label or a text")
        if one["type"] == LABEL:
            found.length((*path, "label"), one.get("label"), 1, 45)
            found.length((*path, "description"), one.get("description") or "", 0, 100)
            _check_place(found, one["component"], LABEL, (*path, "component"))
        _check(found, one, path)
    found.raise_any()
