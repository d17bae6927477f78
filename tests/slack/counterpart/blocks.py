"""Slack's rules for blocks, as strict as documented: what breaks one is refused, not repaired."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.slack.counterpart.state import Json, Refused

MOST_BLOCKS = {"message": 50, "modal": 100, "home": 100}


def units(text: str) -> int:
    """Return the length in UTF-16 units: the stricter of the two ways that Slack may count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class Checker:
    """Checks the blocks of one message or view and collects what is wrong with them."""

    def __init__(self, surface: str) -> None:
        self.surface = surface
        self.problems: list[str] = []
        self.block_ids: set[str] = set()
        self.total = 0

    def check(self, blocks: Any) -> list[str]:
        """Return what is wrong, empty when nothing is."""
        if not isinstance(blocks, list):
            self._wrong("must be an array", "/blocks")
            return self.problems
        if len(blocks) > MOST_BLOCKS[self.surface]:
            self._wrong(f"no more than {MOST_BLOCKS[self.surface]} items allowed", "/blocks")
        for number, block in enumerate(blocks):
            self._block(block, f"/blocks/{number}")
        return self.problems

    def _wrong(self, words: str, where: str) -> None:
        self.problems.append(f"[ERROR] {words} [json-pointer:{where}]")

    def _block(self, block: Any, where: str) -> None:
        kinds: dict[str, tuple[Callable[[Json, str], None], str]] = {
            "header": (self._header, "text level"),
            "section": (self._section, "text fields accessory expand"),
            "context": (self._context, "elements"),
            "actions": (self._actions, "elements"),
            "divider": (lambda block, where: None, ""),
            "rich_text": (self._rich_text, "elements"),
            "input": (self._input, "label element hint optional dispatch_action"),
        }
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in kinds:
            self._wrong(f"unsupported type: {kind}", f"{where}/type")
            return
        check, allowed = kinds[kind]
        self._members(block, {*allowed.split(), "type", "block_id"}, where)
        block_id = block.get("block_id")
        if block_id is not None:
            self._string(block_id, 255, f"{where}/block_id")
            if block_id in self.block_ids:
                self._wrong("`block_id` already exists", f"{where}/block_id")
            self.block_ids.add(block_id)
        check(block, where)
        self._actions_unique(block, where)

    def _members(self, value: Json, allowed: set[str], where: str) -> None:
        for name in sorted(set(value) - allowed):
            self._wrong(f"no more properties are allowed: {name}", where)

    def _string(self, value: Any, most: int, where: str, *, least: int = 1) -> bool:
        if not isinstance(value, str):
            self._wrong("must be a string", where)
        elif units(value) > most:
            self._wrong(f"must be less than {most + 1} characters", where)
        elif units(value) < least or (least and not value.strip()):
            self._wrong(f"must be more than {least - 1} characters", where)
        else:
            return True
        return False

    def _text(self, value: Any, most: int, where: str, *, plain: bool = False) -> None:
        if not isinstance(value, dict) or value.get("type") not in ("plain_text", "mrkdwn"):
            self._wrong("must be a text object", where)
            return
        if plain and value["type"] != "plain_text":
            self._wrong("must be plain_text", f"{where}/type")
        extra = {"emoji"} if value["type"] == "plain_text" else {"verbatim"}
        self._members(value, {"type", "text"} | extra, where)
        if self._string(value.get("text"), most, f"{where}/text"):
            self.total += units(value["text"])

    def _header(self, block: Json, where: str) -> None:
        self._text(block.get("text"), 150, f"{where}/text", plain=True)

    def _section(self, block: Json, where: str) -> None:
        if "text" not in block and not block.get("fields"):
            self._wrong("missing required field: text or fields", where)
        if "text" in block:
            self._text(block["text"], 3000, f"{where}/text")
        fields = block.get("fields", [])
        if len(fields) > 10:
            self._wrong("no more than 10 items allowed", f"{where}/fields")
        for number, field in enumerate(fields):
            self._text(field, 2000, f"{where}/fields/{number}")
        if "accessory" in block:
            self._element(block["accessory"], f"{where}/accessory")

    def _context(self, block: Json, where: str) -> None:
        elements = self._items(block.get("elements"), 10, f"{where}/elements")
        for number, element in enumerate(elements):
            self._text(element, 3000, f"{where}/elements/{number}")

    def _actions(self, block: Json, where: str) -> None:
        elements = self._items(block.get("elements"), 25, f"{where}/elements")
        for number, element in enumerate(elements):
            self._element(element, f"{where}/elements/{number}")

    def _items(self, value: Any, most: int, where: str) -> list[Any]:
        if not isinstance(value, list) or not value:
            self._wrong("no fewer than 1 items allowed", where)
            return []
        if len(value) > most:
            self._wrong(f"no more than {most} items allowed", where)
        return value

    def _input(self, block: Json, where: str) -> None:
        self._text(block.get("label"), 2000, f"{where}/label", plain=True)
        if "hint" in block:
            self._text(block["hint"], 2000, f"{where}/hint", plain=True)
        self._element(block.get("element"), f"{where}/element", entry=True)

    def _element(self, element: Any, where: str, *, entry: bool = False) -> None:
        kinds = {
            "button": self._button,
            "overflow": self._choice,
            "static_select": self._choice,
            "multi_static_select": self._choice,
            "radio_buttons": self._choice,
            "checkboxes": self._choice,
            "plain_text_input": self._field,
            "number_input": self._field,
        }
        kind = element.get("type") if isinstance(element, dict) else None
        if kind not in kinds or (entry and kind in ("button", "overflow")):
            self._wrong(f"unsupported type: {kind}", f"{where}/type")
            return
        if "action_id" in element:
            self._string(element["action_id"], 255, f"{where}/action_id")
        kinds[kind](element, where)

    def _button(self, button: Json, where: str) -> None:
        allowed = "type text action_id url value style confirm accessibility_label"
        self._members(button, {*allowed.split(), "visible_to_user_ids"}, where)
        self._text(button.get("text"), 75, f"{where}/text", plain=True)
        if "value" in button:
            self._string(button["value"], 2000, f"{where}/value", least=0)
        if "url" in button:
            self._string(button["url"], 3000, f"{where}/url")
        if "accessibility_label" in button:
            self._string(button["accessibility_label"], 75, f"{where}/accessibility_label")
        if button.get("style", "primary") not in ("primary", "danger"):
            self._wrong("must be primary or danger", f"{where}/style")
        if "confirm" in button:
            self._confirm(button["confirm"], f"{where}/confirm")

    def _confirm(self, confirm: Json, where: str) -> None:
        self._members(confirm, {"title", "text", "confirm", "deny", "style"}, where)
        self._text(confirm.get("title"), 100, f"{where}/title", plain=True)
        self._text(confirm.get("text"), 300, f"{where}/text", plain=True)
        self._text(confirm.get("confirm"), 30, f"{where}/confirm", plain=True)
        self._text(confirm.get("deny"), 30, f"{where}/deny", plain=True)

    def _choice(self, element: Json, where: str) -> None:
        allowed = "type action_id options initial_option initial_options placeholder confirm"
        more = {"focus_on_load", "max_selected_items", "option_groups"}
        self._members(element, {*allowed.split(), *more}, where)
        most = {"overflow": 5, "radio_buttons": 10, "checkboxes": 10}.get(element["type"], 100)
        options = self._items(element.get("options"), most, f"{where}/options")
        if element["type"] == "overflow" and len(options) == 1:
            self._wrong("no fewer than 2 items allowed", f"{where}/options")
        for number, option in enumerate(options):
            self._option(option, f"{where}/options/{number}")
        if "placeholder" in element:
            self._text(element["placeholder"], 150, f"{where}/placeholder", plain=True)
        chosen = [element["initial_option"]] if "initial_option" in element else []
        for option in chosen + element.get("initial_options", []):
            if option not in options:
                self._wrong("initial option must be one of the options", where)

    def _option(self, option: Json, where: str) -> None:
        self._members(option, {"text", "value", "description", "url"}, where)
        self._text(option.get("text"), 75, f"{where}/text")
        self._string(option.get("value"), 150, f"{where}/value")
        if "description" in option:
            self._text(option["description"], 75, f"{where}/description")

    def _field(self, element: Json, where: str) -> None:
        allowed = "type action_id initial_value placeholder multiline min_length max_length"
        more = {"focus_on_load", "dispatch_action_config", "is_decimal_allowed", "min_value"}
        self._members(element, {*allowed.split(), *more, "max_value"}, where)
        most = element.get("max_length", 3000)
        if not 1 <= most <= 3000:
            self._wrong("must be between 1 and 3000", f"{where}/max_length")
        if "initial_value" in element:
            self._string(element["initial_value"], most, f"{where}/initial_value")
        if "placeholder" in element:
            self._text(element["placeholder"], 150, f"{where}/placeholder", plain=True)

    def _rich_text(self, block: Json, where: str) -> None:
        kinds = {"rich_text_section", "rich_text_preformatted", "rich_text_quote", "rich_text_list"}
        for number, part in enumerate(self._items(block.get("elements"), 100, f"{where}/elements")):
            here = f"{where}/elements/{number}"
            if part.get("type") not in kinds:
                self._wrong(f"unsupported type: {part.get('type')}", f"{here}/type")
            elif part["type"] == "rich_text_list":
                for one, item in enumerate(part.get("elements", [])):
                    self._rich_elements(item, f"{here}/elements/{one}")
            else:
                self._rich_elements(part, here)

    def _rich_elements(self, part: Json, where: str) -> None:
        inert = part["type"] == "rich_text_preformatted"
        known = {"text", "link"} if inert else {"text", "link", "user", "usergroup", "date"}
        for number, element in enumerate(self._items(part.get("elements"), 1000, where)):
            here = f"{where}/elements/{number}"
            if element.get("type") not in known:
                self._wrong(f"unsupported type: {element.get('type')}", here)
            elif element["type"] == "text":
                self._members(element, {"type", "text", "style"}, here)
                value = element.get("text")
                if not isinstance(value, str) or not value:
                    self._wrong("must be more than 0 characters", f"{here}/text")
                else:
                    self.total += units(value)

    def _actions_unique(self, block: Json, where: str) -> None:
        seen: set[str] = set()
        for element in elements_of(block):
            action = element.get("action_id")
            if action in seen:
                self._wrong(f"`action_id` {action} already exists", where)
            elif action is not None:
                seen.add(action)


def elements_of(block: Json) -> Iterator[Json]:
    """Return the interactive elements of a block."""
    if block["type"] == "actions":
        yield from (one for one in block.get("elements", []) if isinstance(one, dict))
    for name in ("accessory", "element"):
        if isinstance(block.get(name), dict):
            yield block[name]


def check_message(blocks: Any, most_text: int) -> list[Json]:
    """Return the blocks of a message, or refuse as Slack does."""
    if blocks in (None, "", []):
        return []
    checker = Checker("message")
    problems = checker.check(blocks)
    if problems:
        raise Refused("invalid_blocks", *problems)
    if checker.total > most_text:
        raise Refused("msg_blocks_too_long")
    checked: list[Json] = blocks
    return checked
